/* What the agent's routes share. See include/spot/agent.h for the protocol. */
#ifndef API_AGENT_H
#define API_AGENT_H

#include "api/server/api_priv.h"

/* {"job","epoch"} of a report. */
struct agent_claim {
	int64_t job;
	int32_t epoch;
};
/* Each answers a bad body itself. */
bool agent_body(struct areq *q, json_t **ret);
bool agent_claim_read(struct areq *q, const json_t *body, struct agent_claim *ret);
void agent_stale(struct areq *q, int64_t job, int32_t epoch);

#endif
