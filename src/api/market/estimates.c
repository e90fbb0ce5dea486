#include "base/base.h"
#include "api/market/market_priv.h"

#include "core/hazard/hazard.h"
#include "core/rank/rank.h"

#define RECORD_DAYS 30

struct estimates {
	void (*next)(struct areq *q, struct estimates *e);
	void *own; /* the request's, while the records are read */
	struct offer *offers;
	size_t n;
	struct hazard_model *model;
};

static void record_offer(struct arena *a, const struct q_api_records_row *r, struct offer *o)
{
	*o = (struct offer){ .pool_id = r->id,
		.provider = r->provider,
		.region = r->region,
		.zone = r->zone,
		.instance_type = r->instance_type,
		.market = r->market,
		.gpu_name = r->gpu_name,
		.advisor_lo = r->has_adv_lo ? r->adv_lo : -1,
		.advisor_hi = r->has_adv_hi ? r->adv_hi : -1,
		.placement_score = -1,
		.capacity = -1,
		.has_band = r->has_band_lo && r->has_band_hi,
		.band_lo = r->band_lo,
		.band_hi = r->band_hi,
		.has_share = r->has_share,
		.share = r->share,
		.share_lo = r->share_lo,
		.share_hi = r->share_hi,
		.record = offer_record_parse(a, r->record) };
}

static void records_read(struct areq *q)
{
	struct estimates *e = q->own;
	struct q_api_records_row *rows;

	e->n = q_api_records_rows(&q->pg, q->arena, &rows);
	e->offers = arena_array(q->arena, e->n + 1, sizeof(*e->offers));
	for (size_t i = 0; i < e->n; i++) {
		record_offer(q->arena, &rows[i], &e->offers[i]);
	}
	e->model =
	    hazard_model_build(q->arena, e->offers, e->n, &q->api->conf.place.rank, q->now_us);
	q->own = e->own;
	e->next(q, e);
}

void estimates_begin(struct areq *q, void (*next)(struct areq *q, struct estimates *e))
{
	const struct rank_policy *p = &q->api->conf.place.rank;
	struct estimates *e = arena_alloc(q->arena, sizeof(*e));

	e->next = next;
	e->own = q->own;
	q->own = e;
	SQL(q, api_records, records_read, .since_day = day_of(q->now_us) - RECORD_DAYS,
	    .at_us = q->now_us, .half_h = p->age_half_life_h, .recent_h = p->recent_half_life_h,
	    .odds_h = p->odds_half_life_h);
}

/* The rows are ordered by id. */
static void record_find(const struct estimates *e, struct offer *o)
{
	size_t lo = 0, hi = e->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (e->offers[mid].pool_id < o->pool_id) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	o->record = lo < e->n && e->offers[lo].pool_id == o->pool_id ? e->offers[lo].record : NULL;
}

json_t *estimates_hazard(const struct estimates *e, struct offer *o)
{
	struct hazard h;

	record_find(e, o);
	hazard_of(e->model, o, &h);
	return json_pack("{s:f, s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
	    "per_hour", h.per_hour, "lo", h.lo, "hi", h.hi, "source", h.source, "prior_per_hour",
	    h.prior_per_hour, "group_per_hour", h.group_per_hour, "weight_hours", h.weight_hours,
	    "own_hours", h.own_hours, "own_reclaims", h.own_reclaims, "usual_per_hour",
	    h.usual_per_hour, "usual_weight_hours", h.usual_weight_hours, "recent_hours",
	    h.recent_hours, "recent_reclaims", h.recent_reclaims, "day_factor", h.day_factor);
}

json_t *estimates_odds(const struct estimates *e, struct offer *o)
{
	struct odds s;

	record_find(e, o);
	hazard_odds(e->model, o, &s);
	return json_pack("{s:f, s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "odds", s.odds, "lo",
	    s.lo, "hi", s.hi, "source", s.source, "signal", s.signal, "signal_weight",
	    s.signal_weight, "group", s.group, "group_weight", s.group_weight, "own_launches",
	    s.own_launches, "own_refusals", s.own_refusals);
}
