#include "base/base.h"
#include "gcp_priv.h"

/*
 * Google's data on interruptions and capacity, one machine type of one region per request. One is
 * the share of stopped spot machines that were preempted, by day (a share of stops, not a hazard
 * per hour). The other is the odds that a launch now succeeds. A project that lacks these APIs has
 * no signals. There are more pairs of region and type than requests worth spending: advice_calls of
 * them are asked for each time, beginning where the hour says.
 */

#define HISTORY "capacityHistory"
#define CAPACITY "capacity"

enum { ASK_HISTORY = 0, ASK_CAPACITY };

struct signalling {
	struct gcp_pair *pairs;
	size_t n, from, asked, budget;
	const char *version; /* NULL = the project has no advice */
	/* v1 takes no SPOT in advice.capacity; it took one in this call */
	bool capacity_beta, capacity_v1;
	bool begun;
	bool reserved_told;
	struct gcp_reservations reservations;
	struct spot_signal *items;
	size_t items_n, cap;
};

static const struct gcp_pair *pair_now(const struct signalling *x)
{
	return &x->pairs[(x->from + x->asked) % x->n];
}

static struct spot_signal *signal_add(struct gcp *self, struct spot_call *c, struct signalling *x,
    enum spot_signal_kind kind, double value, const char *source)
{
	const struct gcp_pair *p = pair_now(x);
	struct spot_signal *s;

	x->items = arena_grow(c->arena, x->items, x->items_n, &x->cap, sizeof(*x->items));
	s = &x->items[x->items_n++];
	*s = (struct spot_signal){ .kind = kind,
		.key = { .provider = self->name,
		    .region = p->region,
		    .zone = "",
		    .instance_type = p->type,
		    .market = SPOT_MARKET_SPOT },
		.value = value,
		.lo = value,
		.hi = value,
		.observed_us = c->now_us,
		.source = source };
	return s;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static enum spot_step history_send(struct gcp *self, struct spot_call *c,
    const struct signalling *x)
{
	const struct gcp_pair *p = pair_now(x);
	json_t *doc AUTO(json) =
	    json_pack("{s:{s:s, s:{s:s}}, s:[s]}", "instanceProperties", "machineType", p->type,
		"scheduling", "provisioningModel", "SPOT", "types", "PREEMPTION");

	return gcp_advice_send(self, c, x->version, p->region, HISTORY, doc);
}

static enum spot_step capacity_send(struct gcp *self, struct spot_call *c,
    const struct signalling *x)
{
	const struct gcp_pair *p = pair_now(x);
	json_t *doc AUTO(json) = json_pack("{s:i, s:{s:{s:s}}, s:{s:s}, s:{s:{s:{s:[s]}}}}", "size",
	    1, "instanceProperties", "scheduling", "provisioningModel", "SPOT",
	    "distributionPolicy", "targetShape", "ANY", "instanceFlexibilityPolicy",
	    "instanceSelections", "type", "machineTypes", p->type);

	return gcp_advice_send(self, c, x->capacity_beta ? "beta" : x->version, p->region, CAPACITY,
	    doc);
}

/* ---- replies --------------------------------------------------------------------------------- */

static bool share_read(const json_t *v, double *ret)
{
	/* Absent is zero. */
	return gcp_double(v, ret) && *ret >= 0 && *ret <= 1;
}

static enum spot_step history_read(struct gcp *self, struct spot_call *c, struct signalling *x,
    const json_t *doc)
{
	const json_t *days = json_object_get(doc, "preemptionHistory"), *day;
	double newest = 0, lo = 1, hi = 0, v;
	int64_t as_of = 0;
	struct spot_signal *s;
	size_t i;

	json_array_foreach (days, i, day) {
		const json_t *interval = json_object_get(day, "interval");
		int64_t at = gcp_time(json_string_value(json_object_get(interval, "endTime")));

		/* An interval without end is open: today's. */
		if (at == 0 && json_object_get(interval, "endTime") == NULL &&
		    gcp_time(json_string_value(json_object_get(interval, "startTime"))) != 0) {
			at = c->now_us;
		}

		if (at == 0 || !share_read(json_object_get(day, "preemptionRate"), &v)) {
			return gcp_bad_reply(c, "advice." HISTORY,
			    "preemptionHistory[%zu] is no share of a day", i);
		}
		lo = MIN(lo, v);
		hi = MAX(hi, v);
		if (at > as_of) {
			as_of = at;
			newest = v;
		}
	}
	if (as_of == 0) {
		return SPOT_STEP_NONE;
	}
	s = signal_add(self, c, x, SPOT_SIGNAL_PREEMPTION_SHARE, newest, HISTORY);
	s->lo = lo;
	s->hi = hi;
	/* Today's interval ends tonight. */
	s->as_of_us = MIN(as_of, c->now_us);
	return SPOT_STEP_NONE;
}

static enum spot_step capacity_read(struct gcp *self, struct spot_call *c, struct signalling *x,
    const json_t *doc)
{
	const json_t *list = json_object_get(doc, "recommendations"), *r;
	double best = -1, v;
	size_t i;

	json_array_foreach (list, i, r) {
		const json_t *odds = json_object_get(json_object_get(r, "scores"), "obtainability");

		if (!share_read(odds, &v)) {
			return gcp_bad_reply(c, "advice." CAPACITY,
			    "recommendations[%zu] has no odds from 0 to 1", i);
		}
		best = MAX(best, v);
	}
	if (best >= 0) {
		signal_add(self, c, x, SPOT_SIGNAL_OBTAINABILITY, best, CAPACITY)->as_of_us =
		    c->now_us;
	}
	return SPOT_STEP_NONE;
}

static enum spot_step advice_reply(struct gcp *self, struct spot_call *c, struct signalling *x)
{
	struct call_state *st = c->state;
	const char *what = st->at == ASK_HISTORY ? "advice." HISTORY : "advice." CAPACITY;
	json_t *doc AUTO(json) = NULL;
	enum spot_step s;

	/* v1 is younger than some deployments of the API; where beta is not there either, the
	 * project has none. */
	if (c->in->status == 404) {
		x->version = strcmp(x->version, "v1") == 0 ? "beta" : NULL;
		return SPOT_STEP_NONE;
	}
	/* Some deployments of v1 know advice.capacity for FLEX_START alone. */
	if (c->in->status == 400 && st->at == ASK_CAPACITY && !x->capacity_beta &&
	    !x->capacity_v1 && strcmp(x->version, "v1") == 0) {
		x->capacity_beta = true;
		return SPOT_STEP_NONE;
	}
	s = gcp_reply(self, c, what, NULL, &doc);
	if (s == SPOT_FAIL &&
	    (c->err.rc == SPOT_DENIED || c->err.rc == SPOT_CONFIG || c->err.rc == SPOT_QUOTA)) {
		x->version = NULL;
		return SPOT_STEP_NONE;
	}
	if (s == SPOT_STEP_NONE) {
		x->capacity_v1 |= st->at == ASK_CAPACITY && !x->capacity_beta;
		s = st->at == ASK_HISTORY ? history_read(self, c, x, doc)
					  : capacity_read(self, c, x, doc);
	} else if (s == SPOT_FAIL && (c->err.rc == SPOT_INVALID || c->err.rc == SPOT_NOT_OFFERED)) {
		s = SPOT_STEP_NONE; /* not for this type */
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (st->at == ASK_CAPACITY) {
		x->asked++;
	}
	st->at = st->at == ASK_HISTORY ? ASK_CAPACITY : ASK_HISTORY;
	return SPOT_STEP_NONE;
}

/* ---- reservations ---------------------------------------------------------------------------- */

static bool any_reserved(const struct spot_signals *a)
{
	for (size_t i = 0; i < a->pools_n; i++) {
		if (a->pools[i].key.market == SPOT_MARKET_RESERVED) {
			return true;
		}
	}
	return false;
}

static void room_add(struct spot_call *c, struct signalling *x, const struct spot_pool_key *k,
    enum spot_signal_kind kind, double value, const char *source)
{
	x->items = arena_grow(c->arena, x->items, x->items_n, &x->cap, sizeof(*x->items));
	x->items[x->items_n++] = (struct spot_signal){ .kind = kind,
		.key = *k,
		.value = value,
		.observed_us = c->now_us,
		.source = source };
}

/* The next launch of a pool goes into one reservation: its end is the pool's. */
static enum spot_step room_reply(struct gcp *self, struct spot_call *c,
    const struct spot_signals *a, struct signalling *x)
{
	bool more;
	enum spot_step s = gcp_reservations_reply(self, c, &x->reservations, &more);

	if (s != SPOT_STEP_NONE || more) {
		return s;
	}
	x->reserved_told = true;
	for (size_t i = 0; i < a->pools_n; i++) {
		const struct spot_pool_key *k = &a->pools[i].key;
		const struct gcp_reservation *r;

		if (k->market != SPOT_MARKET_RESERVED) {
			continue;
		}
		r = gcp_reservation_for(&x->reservations, k, 1, c->now_us);
		room_add(c, x, k, SPOT_SIGNAL_CAPACITY, r != NULL ? 1 : 0, GCP_RESERVATIONS);
		if (r != NULL && r->ends_us != 0) {
			room_add(c, x, k, SPOT_SIGNAL_ENDS, (double)(r->ends_us / SPOT_US_PER_S),
			    GCP_RESERVATIONS);
		}
	}
	return SPOT_STEP_NONE;
}

/* A flex-start machine that began now would end then. */
static void ends_add(const struct gcp *self, struct spot_call *c, const struct spot_signals *a,
    struct signalling *x)
{
	int64_t ends_s = c->now_us / SPOT_US_PER_S + gcp_flex_run_s(self);

	for (size_t i = 0; i < a->pools_n; i++) {
		if (a->pools[i].key.market == SPOT_MARKET_FLEX_START) {
			room_add(c, x, &a->pools[i].key, SPOT_SIGNAL_ENDS, (double)ends_s,
			    "flex-start");
		}
	}
}

/* ---- the verb -------------------------------------------------------------------------------- */

static void signals_begin(struct gcp *self, struct spot_call *c, const struct spot_signals *a,
    struct signalling *x)
{
	x->begun = true;
	x->reserved_told = !self->reservations || !any_reserved(a);
	ends_add(self, c, a, x);
	x->n = gcp_pairs(c->arena, a->pools, a->pools_n, a->region, &x->pairs);
	/* Two requests for each. */
	x->budget = MIN(x->n, (size_t)self->advice_calls / 2);
	x->version = *self->advice_version != '\0' ? self->advice_version : NULL;
	if (x->n > x->budget) {
		x->from = (size_t)(c->now_us / SPOT_US_PER_HOUR) % x->n * x->budget % x->n;
	}
}

enum spot_step gcp_signals(void *p, struct spot_call *c, struct spot_signals *a)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct signalling));
	struct signalling *x = st->own;

	if (!x->begun) {
		signals_begin(self, c, a, x);
	}
	if (c->in != NULL) {
		enum spot_step s =
		    x->reserved_told ? advice_reply(self, c, x) : room_reply(self, c, a, x);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (!x->reserved_told) {
		return gcp_reservations_send(self, c);
	}
	if (x->version == NULL || x->asked >= x->budget) {
		a->signals = x->items;
		a->n = x->items_n;
		return SPOT_DONE;
	}
	return st->at == ASK_HISTORY ? history_send(self, c, x) : capacity_send(self, c, x);
}
