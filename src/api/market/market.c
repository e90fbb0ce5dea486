/* Prices, pools, providers, quotas: what the market looks like. */
#include "base/base.h"
#include "api/market/market_priv.h"

#include "base/text/json.h"
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

/* The request, while the records and then the rows are read. */
struct market_ask {
	struct market_filter f;
	int64_t after_price, after_id, from_us;
	int32_t limit;
	const struct estimates *estimates;
};

static json_t *pool_doc(const struct estimates *e, const struct q_api_pool_row *row);

static void prices_done(struct areq *q)
{
	struct q_api_pool_row *rows;
	const struct market_ask *ask = q->own;
	size_t n = q_api_prices_rows(&q->pg, q->arena, &rows), limit = (size_t)ask->limit;
	json_t *items = json_array();
	const char *cursor = NULL;

	for (size_t i = 0; i < MIN(n, limit); i++) {
		json_array_append_new(items, pool_doc(ask->estimates, &rows[i]));
	}
	if (n > limit) {
		const json_t *last = json_array_get(items, limit - 1);

		cursor = arena_printf(q->arena, "%" PRId64 "-%d", json_i64(last, "price$", 0, NULL),
		    rows[limit - 1].id);
	}
	areq_json(q, 200, json_pack("{s:o, s:s?}", "items", items, "next", cursor));
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
	SQL(q, api_prices, prices_done, .gpu = f->gpu, .provider = f->provider, .region = f->region,
	    .zone = f->zone, .instance_type = f->instance_type, .market = f->market,
	    .state = f->state, .has_max_micros = f->has_max, .max_micros = f->max_micros,
	    .after_micros = ask->after_price, .after_id = (int32_t)ask->after_id,
	    .most = ask->limit + 1, .since_day = day_of(q->now_us) - RECORD_DAYS);
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

/* One document per GPU: the rows come in its order. */
static void gpus_done(struct areq *q)
{
	struct q_api_pool_row *rows;
	size_t n = q_api_prices_gpus_rows(&q->pg, q->arena, &rows);
	const struct market_ask *ask = q->own;
	json_t *items = json_array(), *offers = NULL;
	const char *last = "";

	for (size_t i = 0; i < n; i++) {
		json_t *doc = pool_doc(ask->estimates, &rows[i]);
		const char *gpu = arena_strdup(q->arena, json_str(doc, "gpu", "", NULL));

		if (strcmp(gpu, last) != 0) {
			offers = json_array();
			json_array_append_new(items,
			    json_pack("{s:s, s:o}", "gpu", gpu, "offers", offers));
			last = gpu;
		}
		json_array_append_new(offers,
		    json_pack("{s:O, s:o}", "per_gpu_micros",
			json_object_get(doc, "price_per_gpu_micros"), "pool", doc));
	}
	areq_json(q, 200, json_pack("{s:o, s:n}", "items", items, "next"));
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

/* The provider's capacity, from the signals of the document. */
static void room_signals(const json_t *signals, struct offer *o)
{
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

static json_t *pool_doc(const struct estimates *e, const struct q_api_pool_row *row)
{
	json_t *doc = view_parse(row->doc), *more = view_parse(row->more);
	struct offer o = { .pool_id = row->id,
		.provider = json_str(doc, "provider", "", NULL),
		.region = json_str(doc, "region", "", NULL),
		.zone = json_str(doc, "zone", "", NULL),
		.instance_type = json_str(doc, "instance_type", "", NULL),
		.gpu_name = json_str(doc, "gpu", "", NULL),
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

	room_signals(json_object_get(more, "signals"), &o);
	json_object_set_new(more, "hazard", estimates_hazard(e, &o));
	json_object_set_new(more, "launch_odds", estimates_odds(e, &o));
	json_object_update(doc, more);
	json_decref(more);
	return doc;
}

static void pools_done(struct areq *q)
{
	struct q_api_pool_row *rows;
	const struct market_ask *ask = q->own;
	size_t n = q_api_pools_rows(&q->pg, q->arena, &rows), limit = (size_t)ask->limit;
	json_t *items = json_array();
	const char *cursor = NULL;

	if (n > limit) {
		n = limit;
		cursor = arena_printf(q->arena, "%d", rows[n - 1].id);
	}
	for (size_t i = 0; i < n; i++) {
		json_array_append_new(items, pool_doc(ask->estimates, &rows[i]));
	}
	areq_json(q, 200, json_pack("{s:o, s:s?}", "items", items, "next", cursor));
}

static void pools_estimated(struct areq *q, struct estimates *e)
{
	struct market_ask *ask = q->own;
	const struct market_filter *f = &ask->f;

	ask->estimates = e;
	SQL(q, api_pools, pools_done, .gpu = f->gpu, .provider = f->provider, .region = f->region,
	    .zone = f->zone, .instance_type = f->instance_type, .market = f->market,
	    .state = f->state, .has_max_micros = f->has_max, .max_micros = f->max_micros,
	    .after_id = (int32_t)ask->after_id, .most = ask->limit + 1,
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

static void marks_done(struct areq *q)
{
	struct q_api_pool_marks_row *row;
	json_t *doc = STEAL(q->doc), *more;

	if (q_api_pool_marks_rows(&q->pg, q->arena, &row) == 1) {
		more = view_parse(row->doc);
		json_object_update(doc, more);
		json_decref(more);
	}
	areq_json(q, 200, doc);
}

static void history_done(struct areq *q)
{
	struct q_api_pool_history_row *row;

	if (q_api_pool_history_rows(&q->pg, q->arena, &row) == 1) {
		json_object_set_new(q->doc, "history", view_parse(row->doc));
	}
	SQL(q, api_pool_marks, marks_done, .pool_id = (int32_t)q->id,
	    .from_us = ((const struct market_ask *)q->own)->from_us, .to_us = q->now_us + 1);
}

static void pool_done(struct areq *q)
{
	struct q_api_pool_row *row;
	const struct market_ask *ask = q->own;
	json_t *doc;

	if (q_api_pools_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no pool 'p%" PRId64 "'", q->id);
		return;
	}
	doc = pool_doc(ask->estimates, row);
	if (!ask->from_us) {
		areq_json(q, 200, doc);
		return;
	}
	q->doc = doc;
	SQL(q, api_pool_history, history_done, .pool_id = (int32_t)q->id, .from_us = ask->from_us,
	    .to_us = q->now_us + 1, .most = HISTORY_MAX);
}

static void pool_estimated(struct areq *q, struct estimates *e)
{
	((struct market_ask *)q->own)->estimates = e;
	SQL(q, api_pools, pool_done, .after_id = 0, .most = 1, .has_one = true,
	    .one = (int32_t)q->id, .since_day = day_of(q->now_us) - RECORD_DAYS);
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
