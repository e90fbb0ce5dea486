/* The life of a request: created by dispatch.c, ended by a reply, a stream or a client that left. */
#include "base/base.h"
#include "api/server/server_priv.h"

struct areq *areq_new(struct api *api, struct httpd_req *r)
{
	struct areq *q = arena_alloc(r->arena, sizeof(*q));

	q->api = api;
	q->http = r;
	q->arena = r->arena;
	q->now_us = r->received_us;
	q->next = api->reqs;
	if (q->next) {
		q->next->prev = q;
	}
	api->reqs = q;
	httpd_set(r, "X-Content-Type-Options", "nosniff");
	return q;
}

void areq_keep(struct areq *q, void *kept, void (*let_go)(void *kept))
{
	if (q->let_go != NULL) {
		q->let_go(q->kept);
	}
	q->kept = kept;
	q->let_go = let_go;
}

void areq_end(struct areq *q)
{
	areq_unwatch(q);
	pg_req_fini(&q->pg);
	market_unwant(&q->want, q->api->market);
	market_drop(q->snap);
	q->snap = NULL;
	areq_keep(q, NULL, NULL);
	json_decref(q->doc);
	q->doc = NULL;
	if (q->prev) {
		q->prev->next = q->next;
	} else if (q->api->reqs == q) {
		q->api->reqs = q->next;
	}
	if (q->next) {
		q->next->prev = q->prev;
	}
	q->prev = q->next = NULL;
}
