/* One pool with its history, rejected prices, providers, quotas. Lists of pools: prices.c. */
#include "base/base.h"
#include "api/market/market_priv.h"

#include "base/text/text.h"
#include "core/rank/rank.h"

#define RECORD_DAYS 30
#define HISTORY_MAX 5000

bool market_filter_read(struct areq *q, struct market_filter *f)
{
	const char *max_usd = areq_query(q, "max_usd"), *market = areq_query(q, "market");

	f->gpu = areq_query(q, "gpu");
	f->provider = areq_query(q, "provider");
	f->region = areq_query(q, "region");
	f->zone = areq_query(q, "zone");
	f->instance_type = areq_query(q, "instance_type");
	f->market = spot_market_parse(market);
	f->state = areq_query(q, "state");
	f->has_max = max_usd != NULL;
	f->max_micros = 0;
	if (max_usd && !parse_usd_micros(max_usd, &f->max_micros)) {
		areq_fail_field(q, "max_usd", "must be dollars per hour such as '2.50'");
		return false;
	}
	if (market && f->market == SPOT_MARKET_NONE) {
		areq_fail_field(q, "market",
		    "must be 'spot', 'on_demand', 'reserved', 'interruptible' or 'flex_start'");
		return false;
	}
	if (f->state && price_state_parse(f->state) == PRICE_NONE) {
		areq_fail_field(q, "state", "must be 'fresh', 'stale', 'frozen' or 'implausible'");
		return false;
	}
	return true;
}

/* The request, while the records and then the rows are read. */
struct pool_ask {
	int64_t from_us; /* of the history; 0 = none is asked for */
	struct str pool; /* members of the pool, while its history is read */
	const char *history;
};

/* ---- one pool -------------------------------------------------------------------------------- */

/* The provider's capacity, from the signals of the row. */
static void room_signals(const char *text, struct offer *o)
{
	AUTO(json) json_t *signals = strcmp(text, "[]") != 0 ? view_parse(text) : NULL;
	const json_t *s;
	size_t i;

	json_array_foreach (signals, i, s) {
		const char *kind = json_str(s, "kind", "", NULL);
		double v = json_f64(s, "value", -1, NULL);

		if (strcmp(kind, "placement_score") == 0) {
			o->placement_score = v;
		} else if (strcmp(kind, "capacity") == 0) {
			o->capacity = v;
		} else if (strcmp(kind, "obtainability") == 0) {
			o->has_odds = true;
			o->odds = v;
		}
	}
}

/* A pool that is not offered any more is not in the market. */
static void pool_estimates(struct areq *q, const struct q_api_pool_row *row, struct sbuf *b)
{
	const struct offer *kept = market_offer(q->snap, row->id);
	struct offer o = { .pool_id = row->id,
		.provider = row->provider,
		.region = row->region,
		.zone = row->zone,
		.instance_type = row->instance_type,
		.gpu_name = row->gpu_name,
		.market = row->market,
		.advisor_lo = row->has_adv_lo ? row->adv_lo : -1,
		.advisor_hi = row->has_adv_hi ? row->adv_hi : -1,
		.advisor_as_of_us = row->adv_as_of_us,
		.placement_score = -1,
		.capacity = -1,
		.has_band = row->has_band_lo && row->has_band_hi,
		.band_lo = row->band_lo,
		.band_hi = row->band_hi,
		.has_share = row->has_share,
		.share = row->share,
		.share_lo = row->share_lo,
		.share_hi = row->share_hi,
		.own_node_us = row->own_us,
		.own_reclaims = row->reclaims,
		.own_launches = row->launches,
		.own_refusals = row->refusals };

	if (kept == NULL) {
		room_signals(row->signals, &o);
	}
	estimates_add(q->snap->hazards, kept != NULL ? kept : &o, b);
}

/* The row, the points and the marks come from three statements; the first two wait as text. */
static void marks_done(struct areq *q)
{
	const struct pool_ask *ask = q->own;
	struct q_api_pool_marks_row *row;
	struct sbuf *b;

	if (q_api_pool_marks_rows(&q->pg, q->arena, &row) != 1) {
		areq_fail(q, SPOT_INTERNAL, "the history was not read");
		return;
	}
	b = areq_body_begin(q);
	sbuf_putc(b, '{');
	sbuf_add(b, ask->pool.p, ask->pool.n);
	sbuf_puts(b, ",\"history\":");
	json_marks_put(b, ask->history, strlen(ask->history), q->now_us);
	sbuf_puts(b, ",\"gaps\":");
	json_marks_put(b, row->gaps, strlen(row->gaps), q->now_us);
	sbuf_puts(b, ",\"marks\":");
	json_marks_put(b, row->marks, strlen(row->marks), q->now_us);
	sbuf_putc(b, '}');
	areq_body_reply(q, 200);
}

static void history_done(struct areq *q)
{
	struct pool_ask *ask = q->own;
	struct q_api_pool_history_row *row;

	ask->history = q_api_pool_history_rows(&q->pg, q->arena, &row) == 1 ? row->doc : "[]";
	SQL(q, api_pool_marks, marks_done, .pool_id = (int32_t)q->id, .from_us = ask->from_us,
	    .to_us = q->now_us + 1);
}

static void pool_done(struct areq *q)
{
	struct pool_ask *ask = q->own;
	struct q_api_pool_row *row;
	struct sbuf *b;

	if (q_api_pool_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no pool 'p%" PRId64 "'", q->id);
		return;
	}
	b = areq_body_begin(q);
	sbuf_putc(b, '{');
	shape_put(b, &q_shape_api_pool, q->pg.result, 0, q->now_us);
	pool_estimates(q, row, b);
	sbuf_putc(b, '}');
	if (!ask->from_us) {
		areq_body_reply(q, 200);
		return;
	}
	ask->pool = arena_bytes(q->arena, b->p + 1, b->n - 2);
	SQL(q, api_pool_history, history_done, .pool_id = (int32_t)q->id, .from_us = ask->from_us,
	    .to_us = q->now_us + 1, .most = HISTORY_MAX);
}

static void pool_look(struct areq *q)
{
	SQL(q, api_pool, pool_done, .id = (int32_t)q->id,
	    .since_day = day_of(q->now_us) - RECORD_DAYS);
}

void get_pool(struct areq *q)
{
	const char *history = areq_query(q, "history");
	struct pool_ask *ask = arena_alloc(q->arena, sizeof(*ask));
	int64_t span;

	if (history) {
		if (!parse_duration_us(history, &span) || span <= 0 ||
		    span > 400 * 24 * SPOT_US_PER_HOUR) {
			areq_fail_field(q, "history",
			    "must be a duration of at most 400d, such as '7d'");
			return;
		}
		ask->from_us = q->now_us - span;
	}
	if (q->id > INT32_MAX) {
		areq_fail(q, SPOT_NOT_FOUND, "no pool 'p%" PRId64 "'", q->id);
		return;
	}
	q->own = ask;
	areq_market(q, pool_look);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void refused_done(struct areq *q)
{
	struct q_api_prices_refused_row *rows;
	size_t n = q_api_prices_refused_rows(&q->pg, q->arena, &rows);
	const char **docs = arena_array(q->arena, n + 1, sizeof(*docs));

	for (size_t i = 0; i < n; i++) {
		docs[i] = rows[i].doc;
	}
	areq_list(q, docs, n, NULL);
}

void get_prices_refused(struct areq *q)
{
	struct market_filter f;
	int64_t limit;

	if (!market_filter_read(q, &f) || !areq_query_i64(q, "limit", 1, 1000, 100, &limit)) {
		return;
	}
	SQL(q, api_prices_refused, refused_done, .gpu = f.gpu, .provider = f.provider,
	    .region = f.region, .instance_type = f.instance_type, .market = f.market,
	    .most = (int32_t)limit);
}

static void providers_done(struct areq *q)
{
	struct q_api_providers_row *row;

	if (q_api_providers_rows(&q->pg, q->arena, &row) == 1) {
		areq_items(q, row->doc);
	}
}

void get_providers(struct areq *q)
{
	SQL0(q, api_providers, providers_done);
}

static void quotas_done(struct areq *q)
{
	struct q_api_quotas_row *row;

	if (q_api_quotas_rows(&q->pg, q->arena, &row) == 1) {
		areq_items(q, row->doc);
	}
}

void get_quotas(struct areq *q)
{
	SQL(q, api_quotas, quotas_done, .provider = areq_query(q, "provider"),
	    .region = areq_query(q, "region"), .most = 5000);
}
