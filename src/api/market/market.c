/* Prices, pools, providers, quotas: what the market looks like. */
#include "base/base.h"
#include "api/market/market_priv.h"

#include "base/text/json.h"
#include "base/text/json_marks.h"
#include "base/text/json_put.h"
#include "core/rank/offer.h"

#define RECORD_DAYS 30
#define HISTORY_MAX 5000

struct market_filter {
	const char *gpu, *provider, *region, *zone, *instance_type, *state;
	enum spot_market market; /* NONE: any */
	bool has_max;
	int64_t max_micros;
};

static bool filter_read(struct areq *q, struct market_filter *f)
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
		areq_fail_field(q, "market", "must be 'spot', 'on_demand' or 'reserved'");
		return false;
	}
	if (f->state && price_state_parse(f->state) == PRICE_NONE) {
		areq_fail_field(q, "state", "must be 'fresh', 'stale', 'frozen' or 'implausible'");
		return false;
	}
	return true;
}

static bool filter_none(const struct market_filter *f)
{
	return !f->gpu && !f->provider && !f->region && !f->zone && !f->instance_type &&
	    !f->state && f->market == SPOT_MARKET_NONE && !f->has_max;
}

/* The request, while the records and then the rows are read. */
struct market_ask {
	int32_t limit; /* first, for areq_list_page */
	struct market_filter f;
	int64_t after_price, after_id, from_us;
	const struct estimates *estimates;
	struct q_api_pool_row *rows;
	struct str pool; /* members of one pool, while its history is read */
	const char *history;
};

/* ---- rows ------------------------------------------------------------------------------------ */

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

static void pool_estimates(struct areq *q, struct sbuf *b, size_t at)
{
	const struct market_ask *ask = q->own;
	const struct q_api_pool_row *row = &ask->rows[at];
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
		.share_hi = row->share_hi };

	room_signals(row->signals, &o);
	estimates_put(ask->estimates, &o, b);
}

static void pool_put(struct areq *q, struct sbuf *b, size_t at)
{
	sbuf_putc(b, '{');
	shape_put(b, &q_shape_api_prices, q->pg.result, at, q->now_us);
	pool_estimates(q, b, at);
	sbuf_putc(b, '}');
}

static size_t rows_read(struct areq *q)
{
	return q_api_prices_rows(&q->pg, q->arena, &((struct market_ask *)q->own)->rows);
}

/* ---- prices ---------------------------------------------------------------------------------- */

static void prices_done(struct areq *q)
{
	const struct market_ask *ask = q->own;
	size_t n = rows_read(q), limit = (size_t)ask->limit;
	const char *cursor = NULL;

	if (n > limit) {
		n = limit;
		cursor = arena_printf(q->arena, "%" PRId64 "-%d", ask->rows[n - 1].price_micros,
		    ask->rows[n - 1].id);
	}
	areq_list_rows(q, &q_shape_api_prices, n, cursor, pool_estimates);
}

/* The cursor of this list is "price-id": rows are ordered by both. */
static bool price_cursor(struct areq *q, int64_t *ret_price, int64_t *ret_id)
{
	const char *cursor = areq_query(q, "cursor"), *dash;

	*ret_price = -1;
	*ret_id = 0;
	if (!cursor) {
		return true;
	}
	dash = strchr(cursor, '-');
	if (dash &&
	    parse_i64(arena_strndup(q->arena, cursor, (size_t)(dash - cursor)), 0, INT64_MAX,
		ret_price) &&
	    parse_i64(dash + 1, 0, INT32_MAX, ret_id)) {
		return true;
	}
	areq_fail_field(q, "cursor", "must be the 'next' of an earlier page of this list");
	return false;
}

static void prices_estimated(struct areq *q, struct estimates *e)
{
	struct market_ask *ask = q->own;
	const struct market_filter *f = &ask->f;

	ask->estimates = e;
	if (filter_none(f)) {
		SQL(q, api_prices, prices_done, .after_micros = ask->after_price,
		    .after_id = (int32_t)ask->after_id, .most = ask->limit + 1,
		    .since_day = day_of(q->now_us) - RECORD_DAYS);
		return;
	}
	SQL(q, api_prices_filtered, prices_done, .gpu = f->gpu, .provider = f->provider,
	    .region = f->region, .zone = f->zone, .instance_type = f->instance_type,
	    .market = f->market, .state = f->state, .has_max_micros = f->has_max,
	    .max_micros = f->max_micros, .after_micros = ask->after_price,
	    .after_id = (int32_t)ask->after_id, .most = ask->limit + 1,
	    .since_day = day_of(q->now_us) - RECORD_DAYS);
}

void get_prices(struct areq *q)
{
	struct market_ask *ask = arena_alloc(q->arena, sizeof(*ask));
	int64_t limit;

	if (!filter_read(q, &ask->f) || !price_cursor(q, &ask->after_price, &ask->after_id) ||
	    !areq_query_i64(q, "limit", 1, 1000, 100, &limit)) {
		return;
	}
	ask->limit = (int32_t)limit;
	q->own = ask;
	estimates_begin(q, prices_estimated);
}

/* One object per GPU: the rows come in its order. */
static void gpus_done(struct areq *q)
{
	const struct market_ask *ask = q->own;
	size_t n = rows_read(q);
	struct sbuf *b = areq_body_begin(q);

	sbuf_puts(b, "{\"items\":[");
	for (size_t i = 0; i < n; i++) {
		const struct q_api_pool_row *row = &ask->rows[i];

		if (i == 0 || strcmp(row->gpu_name, row[-1].gpu_name) != 0) {
			sbuf_puts(b, i > 0 ? "]},{\"gpu\":" : "{\"gpu\":");
			json_put_str(b, row->gpu_name, strlen(row->gpu_name));
			sbuf_puts(b, ",\"offers\":[");
		} else {
			sbuf_putc(b, ',');
		}
		sbuf_puts(b, "{\"per_gpu_micros\":");
		json_put_i64(b, row->per_gpu_micros);
		sbuf_puts(b, ",\"pool\":");
		pool_put(q, b, i);
		sbuf_putc(b, '}');
	}
	sbuf_puts(b, n > 0 ? "]}],\"next\":null}" : "],\"next\":null}");
	areq_body_reply(q, 200);
}

static void gpus_estimated(struct areq *q, struct estimates *e)
{
	struct market_ask *ask = q->own;

	ask->estimates = e;
	SQL(q, api_prices_gpus, gpus_done, .gpu = ask->f.gpu, .provider = ask->f.provider,
	    .region = ask->f.region, .since_day = day_of(q->now_us) - RECORD_DAYS);
}

void get_prices_gpus(struct areq *q)
{
	struct market_ask *ask = arena_alloc(q->arena, sizeof(*ask));

	if (!filter_read(q, &ask->f)) {
		return;
	}
	q->own = ask;
	estimates_begin(q, gpus_estimated);
}

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

	if (!filter_read(q, &f) || !areq_query_i64(q, "limit", 1, 1000, 100, &limit)) {
		return;
	}
	SQL(q, api_prices_refused, refused_done, .gpu = f.gpu, .provider = f.provider,
	    .region = f.region, .instance_type = f.instance_type, .market = f.market,
	    .most = (int32_t)limit);
}

static void pools_done(struct areq *q)
{
	rows_read(q);
	areq_list_page(q, &q_shape_api_pools, pool_estimates);
}

static void pools_estimated(struct areq *q, struct estimates *e)
{
	struct market_ask *ask = q->own;
	const struct market_filter *f = &ask->f;

	ask->estimates = e;
	if (filter_none(f)) {
		SQL(q, api_pools, pools_done, .after_id = (int32_t)ask->after_id,
		    .most = ask->limit + 1, .since_day = day_of(q->now_us) - RECORD_DAYS);
		return;
	}
	SQL(q, api_pools_filtered, pools_done, .gpu = f->gpu, .provider = f->provider,
	    .region = f->region, .zone = f->zone, .instance_type = f->instance_type,
	    .market = f->market, .state = f->state, .has_max_micros = f->has_max,
	    .max_micros = f->max_micros, .after_id = (int32_t)ask->after_id, .most = ask->limit + 1,
	    .since_day = day_of(q->now_us) - RECORD_DAYS);
}

void get_pools(struct areq *q)
{
	struct market_ask *ask = arena_alloc(q->arena, sizeof(*ask));

	if (!filter_read(q, &ask->f) || !areq_page(q, 0, &ask->after_id, &ask->limit)) {
		return;
	}
	if (ask->after_id > INT32_MAX) {
		areq_fail_field(q, "cursor", "must be the 'next' of an earlier page of this list");
		return;
	}
	q->own = ask;
	estimates_begin(q, pools_estimated);
}

/* The row, the points and the marks come from three statements; the first two wait as text. */
static void marks_done(struct areq *q)
{
	const struct market_ask *ask = q->own;
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
	struct market_ask *ask = q->own;
	struct q_api_pool_history_row *row;

	ask->history = q_api_pool_history_rows(&q->pg, q->arena, &row) == 1 ? row->doc : "[]";
	SQL(q, api_pool_marks, marks_done, .pool_id = (int32_t)q->id, .from_us = ask->from_us,
	    .to_us = q->now_us + 1);
}

static void pool_done(struct areq *q)
{
	struct market_ask *ask = q->own;
	struct sbuf *b;

	if (rows_read(q) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no pool 'p%" PRId64 "'", q->id);
		return;
	}
	b = areq_body_begin(q);
	pool_put(q, b, 0);
	if (!ask->from_us) {
		areq_body_reply(q, 200);
		return;
	}
	ask->pool = arena_bytes(q->arena, b->p + 1, b->n - 2);
	SQL(q, api_pool_history, history_done, .pool_id = (int32_t)q->id, .from_us = ask->from_us,
	    .to_us = q->now_us + 1, .most = HISTORY_MAX);
}

static void pool_estimated(struct areq *q, struct estimates *e)
{
	((struct market_ask *)q->own)->estimates = e;
	SQL(q, api_pool, pool_done, .id = (int32_t)q->id,
	    .since_day = day_of(q->now_us) - RECORD_DAYS);
}

void get_pool(struct areq *q)
{
	const char *history = areq_query(q, "history");
	struct market_ask *ask = arena_alloc(q->arena, sizeof(*ask));
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
	estimates_begin(q, pool_estimated);
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
