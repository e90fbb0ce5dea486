/* The handlers of operations, by file. */
#ifndef API_OPS_PRIV_H
#define API_OPS_PRIV_H

#include "api/ops/ops.h"

/* health.c */
void get_healthz(struct areq *q);
void get_readyz(struct areq *q);
void get_version(struct areq *q);
void get_whoami(struct areq *q);
/* metrics.c */
void get_metrics(struct areq *q);
/* leaks.c */
void get_leaks(struct areq *q);
void post_leak(struct areq *q);
/* doctor.c */
void post_doctor(struct areq *q);
void get_doctor(struct areq *q);
void show_doctor(struct areq *q, int status); /* replies with the examination q->id */
/* tokens.c */
void get_tokens(struct areq *q);
void post_token(struct areq *q);
void delete_token(struct areq *q);

#endif
