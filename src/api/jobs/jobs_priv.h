/* The handlers of /v1/jobs and its neighbours, by file. */
#ifndef API_JOBS_PRIV_H
#define API_JOBS_PRIV_H

#include "api/jobs/jobs.h"

struct job_show { /* in q->own, while a job is read */
	int status;
	enum job_state *wanted; /* states the caller waits for */
	size_t wanted_n;
	const char **warnings; /* of a submission, else NULL */
	size_t warnings_n;
};

/* job_full.c */
/* Reads states from a query parameter; replies and returns false if one is not valid. "active" or
 * "terminal" stand for their states. No parameter: none. */
bool job_states(struct areq *q, const char *name, enum job_state **ret, size_t *ret_n);
/* Why a job that saves stores nothing; NULL: it does, or saves nothing. */
const char *job_not_stored(const struct areq *q, bool saves);
void job_look(struct areq *q); /* replies with the job q->id, as q->own says */
void get_job(struct areq *q);
/* jobs.c */
void post_job(struct areq *q);
void get_jobs(struct areq *q);
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
