/* Account-wide rate limits: one row per bucket, one statement per take. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/kernel/kernel.h"

struct shared_take {
	struct pg_req req;
	struct shared *owner;
	struct call_provider *provider;
	void *token;
	TAILQ_ENTRY(shared_take) link;
};
struct shared {
	struct call_shared face;
	struct loop *loop;
	struct pg *pg;
	TAILQ_HEAD(, shared_take) takes;
};

static void take_free(void *p)
{
	struct shared_take *t = p;

	pg_req_fini(&t->req);
	free(t);
}

static void bucket_taken(struct op *op)
{
	struct shared_take *t =
	    container_of(container_of(op, struct pg_req, op), struct shared_take, req);
	struct shared *s = t->owner;
	int64_t wait =
	    op->rc == SPOT_OK && pg_rows(t->req.result) == 1 ? pg_int(t->req.result, 0, 0) : 0;

	if (op->rc != SPOT_OK) {
		log_warn("engine.rate_bucket", STR("rc", spot_rc_name(op->rc)),
		    STR("error", op->err.text));
	}
	TAILQ_REMOVE(&s->takes, t, link);
	call_shared_taken(t->provider, t->token, op->rc, wait);
	loop_bury(s->loop, t, take_free);
}

static void bucket_take(struct call_shared *face, struct call_provider *p,
    const struct spot_limit *limit, const char *scope, int cost, bool urgent, void *token)
{
	struct shared *s = container_of(face, struct shared, face);
	struct shared_take *t = calloc(1, sizeof(*t));
	char key[160];

	if (t == NULL) {
		abort();
	}
	t->owner = s;
	t->provider = p;
	t->token = token;
	TAILQ_INSERT_TAIL(&s->takes, t, link);
	snprintf(key, sizeof(key), "%s/%s/%s", call_provider_name(p), limit->name, scope);
	(void)urgent; /* our own limiter has sorted */
	q_engine_rate_take(s->pg, &t->req,
	    &(struct q_engine_rate_take){ .key = key,
		.per_second = limit->per_second,
		.burst = MAX(limit->burst, 1),
		.cost = cost,
		.at_us = loop_wall_us(s->loop) },
	    bucket_taken);
}

struct call_shared *engine_shared_new(struct loop *loop, struct pg *pg)
{
	struct shared *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		abort();
	}
	s->face.take = bucket_take;
	s->loop = loop;
	s->pg = pg;
	TAILQ_INIT(&s->takes);
	return &s->face;
}

void engine_shared_free(struct call_shared *face)
{
	struct shared *s;
	struct shared_take *t;

	if (face == NULL) {
		return;
	}
	s = container_of(face, struct shared, face);
	while ((t = TAILQ_FIRST(&s->takes)) != NULL) {
		TAILQ_REMOVE(&s->takes, t, link);
		op_fini(&t->req.op);
		call_shared_taken(t->provider, t->token, SPOT_CANCELLED, 0);
		take_free(t);
	}
	free(s);
}
