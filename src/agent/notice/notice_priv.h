/* For notice.c and the sources of notices. The parsers are here for tests. */
#ifndef AGENT_NOTICE_PRIV_H
#define AGENT_NOTICE_PRIV_H

#include "agent/notice/notice.h"

enum { NOTICE_INTERRUPTION = 0, NOTICE_REBALANCE, NOTICE_MAINTENANCE };
void notice_seen(struct agent *a, int kind, int64_t deadline_wall_us, const char *source,
    struct str raw);
/* The same for a source that gives a duration: the deadline does not depend on a wall clock. */
void notice_seen_for(struct agent *a, int kind, int64_t left_us, const char *source,
    struct str raw);

void notice_aws_step(struct agent *a);
void notice_gcp_step(struct agent *a);
void notice_gcp_ask(struct agent *a); /* reads the key now, without a wait */
void notice_azure_step(struct agent *a);

/* notice_aws.c: parse the values of metadata keys. False: no notice. Deadline 0 = none given. */
NODISCARD bool notice_aws_action(struct str body, int64_t now_wall_us,
    int64_t *ret_deadline_wall_us);
NODISCARD bool notice_aws_maintenance(struct str body, int64_t *ret_deadline_wall_us);
/* notice_gcp.c: schedule the next GET after an answer or a fault; true: the value has changed. */
bool notice_gcp_answer(struct gcp_key *k, int64_t now_us, const char *etag, struct str body);
void notice_gcp_fault(struct gcp_key *k, int64_t now_us);
/* notice_azure.c: reads the events that name this machine. False: not a document of events. */
NODISCARD bool notice_azure_events(struct str body, const char *name, int64_t now_wall_us,
    struct azure_event ret[AZURE_EVENTS_MAX], size_t *ret_n);

#endif
