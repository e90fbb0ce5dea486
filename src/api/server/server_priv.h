/* Between the files of this folder. */
#ifndef API_SERVER_PRIV_H
#define API_SERVER_PRIV_H

#include "api/server/server.h"

/* request.c: with the headers of all replies */
struct areq *areq_new(struct api *api, struct httpd_req *r);
/* wait.c */
void areq_unwatch(struct areq *q);
void wait_wake_all(struct api *api);
void wait_wake(struct api *api, const char *key);
/* auth.c: calls next if the caller may use the route, else replies 401 or 403. */
void auth_begin(struct areq *q, void (*next)(struct areq *q));
/* idem.c: notes the Idempotency-Key, if any, and runs the route's handler or replays the reply. */
void idem_begin(struct areq *q);
/* dispatch.c: callbacks of the HTTP server; ctx is the struct api. */
void api_handle(void *ctx, struct httpd_req *r);
size_t api_body_max(void *ctx, const char *method, const char *path);
/* stream.c */
struct stream_hub *hub_new(struct api *api);
void hub_free(struct stream_hub *h);
void hub_poke(struct stream_hub *h); /* events may have been written */
void hub_drain(struct stream_hub *h);
/* seen.c */
void seen_init(struct api *api);
void seen_fini(struct api *api);
/* served.c: counts a reply and its latency. */
void served_count(struct areq *q, int status);
/* generated from schemas.json */
extern const char api_schemas_json[];

#endif
