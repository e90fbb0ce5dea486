#include "base/base.h"
#include "api/market/market_priv.h"

#include "base/text/json_put.h"
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

/* Estimates fade over hours. As of the minute, they and so the reply's tag stay for a while. */
static int64_t estimates_time(const struct areq *q)
{
	return q->now_us - q->now_us % (60 * SPOT_US_PER_S);
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
	e->model = hazard_model_build(q->arena, e->offers, e->n, &q->api->conf.place.rank,
	    estimates_time(q));
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
	    .at_us = estimates_time(q), .half_h = p->age_half_life_h,
	    .recent_h = p->recent_half_life_h, .odds_h = p->odds_half_life_h);
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

/* ---- as JSON --------------------------------------------------------------------------------- */

struct number { /* a double of a struct, by its name in the reply */
	const char *key; /* with quotes and colon */
	size_t at;
};
#define HAZARD(name) \
	{ \
		",\"" #name "\":", offsetof(struct hazard, name) \
	}
#define ODDS(name) \
	{ \
		",\"" #name "\":", offsetof(struct odds, name) \
	}

static void numbers_put(struct sbuf *b, const void *from, const struct number *n, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double v;

		memcpy(&v, (const char *)from + n[i].at, sizeof(v));
		sbuf_puts(b, n[i].key);
		json_put_f64(b, v);
	}
	sbuf_putc(b, '}');
}

static void source_put(struct sbuf *b, const char *name, const char *source)
{
	sbuf_puts(b, name);
	sbuf_puts(b, "{\"source\":");
	json_put_str(b, source, strlen(source));
}

void estimates_put(const struct estimates *e, struct offer *o, struct sbuf *b)
{
	static const struct number of_hazard[] = { HAZARD(per_hour), HAZARD(lo), HAZARD(hi),
		HAZARD(prior_per_hour), HAZARD(group_per_hour), HAZARD(weight_hours),
		HAZARD(own_hours), HAZARD(own_reclaims), HAZARD(usual_per_hour),
		HAZARD(usual_weight_hours), HAZARD(recent_hours), HAZARD(recent_reclaims),
		HAZARD(day_factor) };
	static const struct number of_odds[] = { ODDS(odds), ODDS(lo), ODDS(hi), ODDS(signal),
		ODDS(signal_weight), ODDS(group), ODDS(group_weight), ODDS(own_launches),
		ODDS(own_refusals) };
	struct hazard h;
	struct odds s;

	record_find(e, o);
	hazard_of(e->model, o, &h);
	hazard_odds(e->model, o, &s);
	source_put(b, ",\"hazard\":", h.source);
	numbers_put(b, &h, of_hazard, ARRAY_LEN(of_hazard));
	source_put(b, ",\"launch_odds\":", s.source);
	numbers_put(b, &s, of_odds, ARRAY_LEN(of_odds));
}
