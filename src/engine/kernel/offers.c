/* The market as it stands: one read shared by every turn that needs it within offers_age. */
#include "base/base.h"
#include "base/text/str.h"
#include "engine/kernel/kernel.h"
#include "store/offers.h"

struct wait {
	void (*then)(struct recon *r, void *ctx);
	void *ctx;
	int64_t sent_us; /* mono */
	struct q_engine_gang_market_row *gangs;
	size_t gangs_n;
};

void offers_stale(struct engine *e)
{
	e->offers.read_us = 0;
	e->offers.stale_us = loop_mono_us(e->loop);
}

/* Nodes, or that a pool refused, are being written down: until that is over a read of the market
 * may lack them, and is made again. The market that nodes were chosen from counts them already
 * (offers_took). */
void offers_wanting(struct engine *e)
{
	e->offers.wanting++;
}

void offers_wanted(struct engine *e)
{
	e->offers.wanting--;
	e->offers.stale_us = loop_mono_us(e->loop);
}

static void market_let_go(struct market *m)
{
	if (m != NULL && --m->holds == 0) {
		arena_free(m->arena);
		free(m);
	}
}

void offers_let_go(struct recon *r)
{
	for (; r->markets != NULL; r->markets = r->markets->next) {
		market_let_go(r->markets->market);
	}
}

void offers_drop(struct engine *e)
{
	market_let_go(e->offers.market);
	e->offers.market = NULL;
}

/* What a turn was given stays as it is until the turn ends: its decisions point into it. */
static void offers_hold(struct recon *r)
{
	struct market *m = r->e->offers.market;
	struct market_hold *h;

	if (r->markets != NULL && r->markets->market == m) {
		return;
	}
	h = arena_alloc(r->arena, sizeof(*h));
	h->market = m;
	h->next = r->markets;
	r->markets = h;
	m->holds++;
}

static void market_new(struct engine *e, struct arena *a)
{
	struct market *m = calloc(1, sizeof(*m));

	if (m == NULL) {
		abort();
	}
	offers_drop(e);
	*m = (struct market){ .arena = a, .holds = 1 };
	e->offers.market = m;
}

static void gangs_keep(struct offers *o, struct arena *a, const struct wait *w)
{
	o->rests = arena_array(a, w->gangs_n + 1, sizeof(*o->rests));
	o->rests_n = o->busy_n = o->busy_cap = 0;
	o->busy = NULL;
	for (size_t i = 0; i < w->gangs_n; i++) {
		const struct q_engine_gang_market_row *g = &w->gangs[i];

		if (g->place[0] == '\0') {
			o->rests[o->rests_n++] = (struct gang_rest){ .pool_id = g->pool_id,
				.want = g->want,
				.until_us = g->until_us };
		} else {
			o->busy = arena_grow(a, o->busy, o->busy_n, &o->busy_cap, sizeof(*o->busy));
			o->busy[o->busy_n++] = arena_strdup(a, g->place);
		}
	}
}

void offers_busy(struct engine *e, const struct offer *offer)
{
	struct offers *o = &e->offers;
	struct arena *a = o->market->arena;

	o->busy = arena_grow(a, o->busy, o->busy_n, &o->busy_cap, sizeof(*o->busy));
	o->busy[o->busy_n++] = gang_place(a, offer);
}

static void offers_read(struct step *s)
{
	struct offers *o = &s->r->e->offers;
	struct wait *w = s->ctx;
	struct arena *a = arena_new(0);

	market_new(s->r->e, a);
	o->n = offers_rows(&s->req, a, &o->list);
	gangs_keep(o, a, w);
	o->hazards = hazard_model_build(a, o->list, o->n, &s->r->e->conf.rank, engine_now(s->r->e));
	offers_believe(o->hazards, o->list, o->n);
	if (o->wanting > 0 || o->stale_us > w->sent_us) {
		/* What changed meanwhile may not be in it. Nor is it for others, who may have read
		 * before us. */
		o->read_us = 0;
		offers_need(s->r, w->then, w->ctx);
		return;
	}
	o->read_us = loop_mono_us(s->r->e->loop);
	offers_hold(s->r);
	w->then(s->r, w->ctx);
}

static void gangs_read(struct step *s)
{
	struct wait *w = s->ctx;
	struct step *next = step_new(s->r, offers_read, w);
	struct q_offers ask;

	w->gangs_n = q_engine_gang_market_rows(&s->req, s->r->arena, &w->gangs);
	offers_ask(&s->r->e->conf.rank, engine_now(s->r->e), &ask);
	STEP(next, offers, &ask);
}

void offers_need(struct recon *r, void (*then)(struct recon *, void *), void *ctx)
{
	struct engine *e = r->e;
	struct wait *w;
	struct step *s;

	if (e->offers.read_us > 0 &&
	    loop_mono_us(e->loop) - e->offers.read_us < e->conf.offers_age_us) {
		offers_hold(r);
		then(r, ctx);
		return;
	}
	w = arena_alloc(r->arena, sizeof(*w));
	w->then = then;
	w->ctx = ctx;
	w->sent_us = loop_mono_us(e->loop);
	s = step_new(r, gangs_read, w);
	STEP(s, engine_gang_market, (&(struct q_engine_gang_market){ .at_us = engine_now(e) }));
}

const struct offer *offer_of(const struct engine *e, int32_t pool_id)
{
	size_t lo = 0, hi = e->offers.n;

	while (lo < hi) { /* the read is ordered by id */
		size_t mid = lo + (hi - lo) / 2;

		if (e->offers.list[mid].pool_id == pool_id) {
			return &e->offers.list[mid];
		}
		if (e->offers.list[mid].pool_id < pool_id) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return NULL;
}

void offers_took(struct engine *e, const struct offer *o, int64_t nodes)
{
	int64_t took = nodes * offer_quota_need(o);

	if (!o->has_quota) {
		return;
	}
	for (size_t i = 0; i < e->offers.n; i++) {
		struct offer *x = &e->offers.list[i];

		if (x->has_quota && x->market == o->market &&
		    strcmp(x->provider, o->provider) == 0 && strcmp(x->region, o->region) == 0 &&
		    strcmp(x->quota_class, o->quota_class) == 0) {
			x->quota_used += took;
		}
	}
}

json_t *offer_json(const struct offer *o)
{
	json_t *j = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:I}", "pool", o->pool_id,
	    "provider", o->provider, "region", o->region, "zone", o->zone, "instance_type",
	    o->instance_type, "market", spot_market_name(o->market), "price_micros",
	    (json_int_t)o->price_micros, "price_state", price_state_name(o->price_state),
	    "price_observed_us", (json_int_t)o->price_observed_us);

	if (o->has_quota) {
		json_object_set_new(j, "quota",
		    json_pack("{s:s, s:s, s:I, s:I}", "class", o->quota_class, "unit",
			o->quota_unit, "limit", (json_int_t)o->quota_limit, "used",
			(json_int_t)o->quota_used));
	}
	return j;
}

json_t *score_json(const struct score *s)
{
	json_t *j = offer_json(s->offer);
	char why[SCORE_WHY_MAX];
	struct score_terms t;

	score_why(s, why);
	json_object_set_new(j, "hazard_per_hour", json_real(s->hazard));
	json_object_set_new(j, "hazard_lo", json_real(s->hazard_lo));
	json_object_set_new(j, "hazard_hi", json_real(s->hazard_hi));
	json_object_set_new(j, "hazard_source", json_string(s->hazard_source));
	json_object_set_new(j, "hours_to_finish", json_real(s->hours));
	json_object_set_new(j, "total_micros", json_integer(s->total_micros));
	json_object_set_new(j, "why", json_string(why));
	if (s->by != NULL) {
		score_explain(s, &t);
		json_object_set_new(j, "terms", score_terms_json(&t));
	}
	return j;
}

json_t *scores_json(const struct score *s, size_t n, size_t most)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n && i < most; i++) {
		json_array_append_new(list, score_json(&s[i]));
	}
	return list;
}
