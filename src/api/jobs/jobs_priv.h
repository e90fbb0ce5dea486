/* The handlers of /v1/jobs and its neighbours, by file. */
#ifndef API_JOBS_PRIV_H
#define API_JOBS_PRIV_H

#include "api/jobs/jobs.h"

/* jobs.c */
void post_job(struct areq *q);
void get_jobs(struct areq *q);
void get_job(struct areq *q);
void get_job_why(struct areq *q);
void post_job_cancel(struct areq *q);
void patch_job(struct areq *q);
void show_job(struct areq *q, int status); /* replies with the job q->id */
/* plan.c, backtest.c */
void post_plan(struct areq *q);
void post_backtest(struct areq *q);
/* checkpoint.c, classes.c, logs.c, queue.c */
void get_checkpoint(struct areq *q);
void get_classes(struct areq *q);
void get_gpus(struct areq *q);
void get_job_logs(struct areq *q);
void get_queue(struct areq *q);
void get_shares(struct areq *q);
void put_share(struct areq *q);

#endif
