/* Finds one machine by the name of its launch, from which the name of its Pod derives. */
#include "base/base.h"
#include "coreweave_priv.h"

/* By the Pod's name, which derives from the launch's. A live Pod that is found gets its order: its
 * launch may have ended before the order. */
struct finding {
	struct cw_cluster *cl;
	size_t next;
	bool ordering;
	struct cw_order order;
};

static enum spot_step find_send(const struct cw *self, struct spot_call *c,
    const struct spot_find *a, struct finding *f)
{
	cw_request(self, c, f->cl, "GET",
	    arena_printf(c->arena, "/api/v1/namespaces/%s/pods/%s", self->space,
		cw_pod_name(c->arena, a->name)));
	return SPOT_SEND;
}

static enum spot_step find_next(const struct cw *self, struct spot_call *c,
    const struct spot_find *a, struct finding *f)
{
	f->cl = cw_cluster_next(self, a->region, a->zone, &f->next);
	if (f->cl == NULL) {
		return SPOT_DONE;
	}
	return f->cl->bad_rc != SPOT_OK ? cw_cluster_bad(c, f->cl, "find")
					: find_send(self, c, a, f);
}

static enum spot_step find_read(const struct cw *self, struct spot_call *c, struct spot_find *a,
    struct finding *f)
{
	struct cw_reply r;
	struct cw_pod p;
	const char *bad;
	enum spot_step s;
	bool ok, ours;

	cw_reply_read(c, f->cl->managed, &r);
	if (r.rc == SPOT_NOT_FOUND) {
		return find_next(self, c, a, f);
	}
	s = cw_reply_verdict(c, f->cl, "find", false, &r);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	ok = cw_pod_read(c->arena, r.doc, &p, &bad);
	json_decref(r.doc);
	if (!ok) {
		return cw_bad_reply(c, "find", false, bad);
	}
	ours = (str_empty(a->install) || strcmp(a->install, p.install) == 0) &&
	    (str_empty(a->token) || p.token[0] == '\0' || strcmp(a->token, p.token) == 0);
	if (!ours) {
		return find_next(self, c, a, f);
	}
	a->found = arena_alloc(c->arena, sizeof(*a->found));
	a->n = 1;
	cw_instance(self, c, f->cl, &p, NULL, a->found);
	if (!self->cks || !cw_pod_live(&p) || p.pool[0] == '\0') {
		return SPOT_DONE;
	}
	f->ordering = true;
	f->order = (struct cw_order){ .cl = f->cl,
		.what = "find",
		.pool = p.pool,
		.install = p.install,
		.type = p.type,
		.market = spot_market_parse(p.market),
		.create = p.type[0] != '\0' };
	return cw_order_send(self, c, &f->order);
}

enum spot_step cw_find(void *p, struct spot_call *c, struct spot_find *a)
{
	const struct cw *self = p;
	struct finding *f = c->state;
	enum spot_step s;

	if (str_empty(a->name)) {
		return call_fail(c, SPOT_INVALID, NULL, "%s find: no name given", self->name);
	}
	if (f == NULL) {
		c->state = f = arena_alloc(c->arena, sizeof(*f));
		a->n = 0;
		return find_next(self, c, a, f);
	}
	if (f->ordering) {
		s = c->in == NULL ? cw_order_send(self, c, &f->order)
				  : cw_order_read(self, c, &f->order);
		/* Found is found: that there is no node for it is for describe to say. */
		return s == SPOT_STEP_NONE || (s == SPOT_FAIL && f->order.refused) ? SPOT_DONE : s;
	}
	return c->in == NULL ? find_send(self, c, a, f) : find_read(self, c, a, f);
}
