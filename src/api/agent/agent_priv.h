/* Between the files of this folder. */
#ifndef API_AGENT_PRIV_H
#define API_AGENT_PRIV_H

#include "api/server/server.h"

/* {"job","epoch"} of a report. */
struct agent_claim {
	int64_t job;
	int32_t epoch;
};
/* Each answers a bad body itself. */
bool agent_body(struct areq *q, json_t **ret);
bool agent_claim_read(struct areq *q, const json_t *body, struct agent_claim *ret);
void agent_stale(struct areq *q, int64_t job, int32_t epoch);

/* agent_enrol.c */
void post_enrol(struct areq *q);
/* agent_poll.c */
void post_poll(struct areq *q);
/* agent_report.c */
void post_notice(struct areq *q);
void post_report(struct areq *q);
void post_log(struct areq *q);
void post_sample(struct areq *q);
/* agent_ckpt.c */
void post_checkpoint(struct areq *q);
void post_commit(struct areq *q);
/* download.c */
void get_download(struct areq *q);

#endif
