/* GET /v1/prices, /v1/prices/gpus and /v1/pools: pages of the market in memory, without SQL. */
#include "base/base.h"
#include "api/market/market_priv.h"

#include "base/text/text.h"
#include "core/rank/rank.h"

#include <math.h>

struct page {
	struct market_filter f;
	bool by_gpu; /* by the price of a GPU-hour */
	int64_t after_price, after_id;
	int32_t limit;
};

static bool pool_fits(const struct market_filter *f, const struct offer *o)
{
	return (f->market == SPOT_MARKET_NONE || o->market == f->market) &&
	    (!f->has_max || o->price_micros <= f->max_micros) &&
	    (f->state == NULL || o->price_state == price_state_parse(f->state)) &&
	    (f->gpu == NULL || gpu_matches(f->gpu, o->gpu_name)) &&
	    (f->provider == NULL || strcmp(o->provider, f->provider) == 0) &&
	    (f->region == NULL || strcmp(o->region, f->region) == 0) &&
	    (f->zone == NULL || strcmp(o->zone, f->zone) == 0 ||
		strcmp(o->zone_name, f->zone) == 0) &&
	    (f->instance_type == NULL || strcmp(o->instance_type, f->instance_type) == 0);
}

/* ---- one pool -------------------------------------------------------------------------------- */

static void place_add(struct sbuf *b, const struct offer *o)
{
	json_add_id(b, "id", 'p', o->pool_id);
	json_add_text(b, "provider", o->provider);
	json_add_text(b, "region", o->region);
	json_add_text(b, "zone", o->zone);
	json_add_text(b, "zone_name", o->zone_name);
	json_add_text(b, "instance_type", o->instance_type);
	json_add_text(b, "market", spot_market_name(o->market));
	json_add_text(b, "gpu", o->gpu_name);
	json_add_name(b, "gpus");
	json_put_fixed(b, o->gpu_milli, 3, false);
	json_add_i64(b, "gpu_mem_mib", o->gpu_mem_mib);
	json_add_i64(b, "vcpus", o->vcpus);
	json_add_i64(b, "mem_mib", o->mem_mib);
	json_add_text(b, "arch", o->arch);
	json_add_bool(b, "offered", true);
}

static void price_add(struct sbuf *b, const struct offer *o, const struct market_told *t,
    int64_t now_us)
{
	json_add_money(b, "price", o->price_micros);
	json_add_name(b, "price_per_gpu_micros");
	if (o->gpu_milli > 0) {
		json_put_i64(b, market_gpu_price(o));
	} else {
		json_put_null(b);
	}
	json_add_text(b, "price_state", price_state_name(o->price_state));
	json_add_text(b, "price_why", t->price_why);
	json_add_name(b, "observed_at");
	json_put_time(b, o->price_observed_us);
	json_add_i64(b, "age_s", MAX((now_us - o->price_observed_us) / SPOT_US_PER_S, 0));
	json_add_name(b, "effective_at");
	json_put_time(b, t->effective_us);
	json_add_text(b, "source", t->source);
}

static void price_none_add(struct sbuf *b)
{
	static const char *const names[] = { "price_micros", "price_usd", "price_per_gpu_micros" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		json_add_null(b, names[i]);
	}
	json_add_text(b, "price_state", "none");
	json_add_text(b, "price_why", "");
	json_add_null(b, "observed_at");
	json_add_null(b, "age_s");
	json_add_null(b, "effective_at");
	json_add_text(b, "source", "");
}

static void record_add(struct sbuf *b, const struct offer *o)
{
	json_add_name(b, "cooling_until_at");
	json_put_time(b, o->cool_until_us);
	json_add_text(b, "cooling_why", o->cool_until_us != 0 ? o->cool_why : NULL);
	json_add_name(b, "record");
	sbuf_putc(b, '{');
	json_add_name(b, "node_hours");
	json_put_fixed(b, llround((double)o->own_node_us / 3600000.0), 3, false);
	json_add_i64(b, "reclaims", o->own_reclaims);
	json_add_i64(b, "launches", o->own_launches);
	json_add_i64(b, "refusals", o->own_refusals);
	sbuf_putc(b, '}');
	json_add_i64(b, "nodes", o->live_nodes);
}

static void pool_put(struct areq *q, struct sbuf *b, const struct offer *o,
    const struct market_told *t, bool priced)
{
	sbuf_putc(b, '{');
	place_add(b, o);
	if (priced) {
		price_add(b, o, t, q->now_us);
	} else {
		price_none_add(b);
	}
	json_add_name(b, "signals");
	json_marks_put(b, t->signals, strlen(t->signals), q->now_us);
	record_add(b, o);
	estimates_add(q->snap->hazards, o, b);
	sbuf_putc(b, '}');
}

static struct sbuf *items_begin(struct areq *q)
{
	struct sbuf *b = areq_body_begin(q);

	sbuf_puts(b, "{\"items\":[");
	return b;
}

/* ---- by price -------------------------------------------------------------------------------- */

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

static int64_t sort_price(const struct page *page, const struct offer *o)
{
	return page->by_gpu ? market_gpu_price(o) : o->price_micros;
}

/* The first place in the order after the cursor. */
static size_t price_after(const struct market_snap *s, const uint32_t *order,
    const struct page *page)
{
	size_t lo = 0, hi = s->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct offer *o = &s->offers[order[mid]];

		int64_t price = sort_price(page, o);

		if (price < page->after_price ||
		    (price == page->after_price && o->pool_id <= page->after_id)) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

static void prices_list(struct areq *q)
{
	const struct page *page = q->own;
	const struct market_snap *s = q->snap;
	const uint32_t *order =
	    page->by_gpu ? market_by_gpu_price(q->snap) : market_by_price(q->snap);
	const struct offer *last = NULL;
	const char *cursor = NULL;
	struct sbuf *b = items_begin(q);
	int32_t n = 0;

	for (size_t i = price_after(s, order, page); i < s->n; i++) {
		const struct offer *o = &s->offers[order[i]];

		if (!pool_fits(&page->f, o)) {
			continue;
		}
		if (n++ == page->limit) {
			cursor = arena_printf(q->arena, "%" PRId64 "-%d", sort_price(page, last),
			    last->pool_id);
			break;
		}
		sbuf_puts(b, n > 1 ? "," : "");
		pool_put(q, b, o, &s->told[order[i]], true);
		last = o;
	}
	areq_list_end(q, cursor);
}

void get_prices(struct areq *q)
{
	struct page *page = arena_alloc(q->arena, sizeof(*page));
	const char *sort = areq_query(q, "sort");
	int64_t limit;

	if (!market_filter_read(q, &page->f) ||
	    !price_cursor(q, &page->after_price, &page->after_id) ||
	    !areq_query_i64(q, "limit", 1, 1000, 100, &limit)) {
		return;
	}
	if (sort != NULL && strcmp(sort, "price") != 0 && strcmp(sort, "gpu_price") != 0) {
		areq_fail_field(q, "sort", "must be 'price' or 'gpu_price'");
		return;
	}
	page->by_gpu = sort != NULL && strcmp(sort, "gpu_price") == 0;
	page->limit = (int32_t)limit;
	q->own = page;
	areq_market(q, prices_list);
}

/* ---- by id ----------------------------------------------------------------------------------- */

static size_t id_after(const struct offer *offers, size_t n, int64_t id)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (offers[mid].pool_id <= id) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

/* A state or a highest price is asked of pools that have a price. */
static bool bare_fits(const struct market_filter *f, const struct offer *o)
{
	return f->state == NULL && !f->has_max && pool_fits(f, o);
}

/* Offers and pools without a price, merged by their ids. */
static void pools_list(struct areq *q)
{
	const struct page *page = q->own;
	const struct market_snap *s = q->snap;
	size_t i = id_after(s->offers, s->n, page->after_id),
	       k = id_after(s->bare, s->bare_n, page->after_id);
	struct sbuf *b = items_begin(q);
	const char *cursor = NULL;
	int32_t n = 0, last = 0;

	while (i < s->n || k < s->bare_n) {
		bool priced =
		    k == s->bare_n || (i < s->n && s->offers[i].pool_id < s->bare[k].pool_id);
		const struct offer *o = priced ? &s->offers[i] : &s->bare[k];
		const struct market_told *t = priced ? &s->told[i++] : &s->bare_told[k++];

		if (!(priced ? pool_fits(&page->f, o) : bare_fits(&page->f, o))) {
			continue;
		}
		if (n++ == page->limit) {
			cursor = arena_printf(q->arena, "%d", last);
			break;
		}
		sbuf_puts(b, n > 1 ? "," : "");
		pool_put(q, b, o, t, priced);
		last = o->pool_id;
	}
	areq_list_end(q, cursor);
}

void get_pools(struct areq *q)
{
	struct page *page = arena_alloc(q->arena, sizeof(*page));

	if (!market_filter_read(q, &page->f) || !areq_page(q, 0, &page->after_id, &page->limit)) {
		return;
	}
	if (page->after_id > INT32_MAX) {
		areq_fail_field(q, "cursor", "must be the 'next' of an earlier page of this list");
		return;
	}
	q->own = page;
	areq_market(q, pools_list);
}

/* ---- by GPU ---------------------------------------------------------------------------------- */

/* Names of a snapshot are shared, so pointers compare. */
static bool kind_same(const void *value, const void *key)
{
	const struct offer *const *at = value, *a = *at, *b = key;

	return a->gpu_name == b->gpu_name && a->provider == b->provider && a->market == b->market;
}

static uint64_t kind_hash(const struct offer *o)
{
	uint64_t h = hash_mix(HASH_START, (uint64_t)(uintptr_t)o->gpu_name);

	return hash_mix(hash_mix(h, (uint64_t)(uintptr_t)o->provider), (uint64_t)o->market);
}

static int doubt_of(const struct offer *o)
{
	return o->price_state == PRICE_IMPLAUSIBLE ? 2 : o->price_state == PRICE_STALE;
}

static bool offer_better(const struct offer *a, const struct offer *b)
{
	int doubt = doubt_of(a) - doubt_of(b);
	int64_t price = market_gpu_price(a) - market_gpu_price(b);

	return doubt != 0 ? doubt < 0 : price != 0 ? price < 0 : a->pool_id < b->pool_id;
}

static int kind_order(const void *pa, const void *pb)
{
	const struct offer *a = *(const struct offer *const *)pa,
			   *b = *(const struct offer *const *)pb;
	int by = strcmp(a->gpu_name, b->gpu_name);

	by = by != 0 ? by : strcmp(a->provider, b->provider);
	return by != 0 ? by : strcmp(spot_market_name(a->market), spot_market_name(b->market));
}

/* The best offer of each GPU, provider and market, ordered by these. */
static const struct offer **kinds_best(struct areq *q, const struct market_filter *f, size_t *ret_n)
{
	const struct offer **best = NULL;
	size_t n = 0, cap = 0;
	struct map kinds;

	map_init(&kinds, q->arena, kind_same);
	for (size_t i = 0; i < q->snap->n; i++) {
		const struct offer *o = &q->snap->offers[i], **at;

		if (o->gpu_milli <= 0 || o->gpu_name[0] == '\0' || !pool_fits(f, o)) {
			continue;
		}
		at = map_get(&kinds, kind_hash(o), o);
		if (at == NULL) {
			at = arena_alloc(q->arena, sizeof(*at));
			map_put(&kinds, kind_hash(o), at);
			*at = o;
		} else if (offer_better(o, *at)) {
			*at = o;
		}
	}
	for (size_t i = 0; i < kinds.slots_n; i++) {
		if (kinds.slots[i].value != NULL) {
			best = arena_grow(q->arena, best, n, &cap, sizeof(*best));
			best[n++] = *(const struct offer **)kinds.slots[i].value;
		}
	}
	if (n > 0) {
		qsort(best, n, sizeof(*best), kind_order);
	}
	*ret_n = n;
	return best;
}

/* One object per GPU. */
static void gpus_list(struct areq *q)
{
	const struct page *page = q->own;
	size_t n;
	const struct offer **best = kinds_best(q, &page->f, &n);
	struct sbuf *b = items_begin(q);

	for (size_t i = 0; i < n; i++) {
		const struct offer *o = best[i];

		if (i == 0 || o->gpu_name != best[i - 1]->gpu_name) {
			sbuf_puts(b, i > 0 ? "]},{\"gpu\":" : "{\"gpu\":");
			json_put_str(b, o->gpu_name, strlen(o->gpu_name));
			sbuf_puts(b, ",\"offers\":[");
		} else {
			sbuf_putc(b, ',');
		}
		sbuf_puts(b, "{\"per_gpu_micros\":");
		json_put_i64(b, market_gpu_price(o));
		sbuf_puts(b, ",\"pool\":");
		pool_put(q, b, o, &q->snap->told[o - q->snap->offers], true);
		sbuf_putc(b, '}');
	}
	sbuf_puts(b, n > 0 ? "]}" : "");
	areq_list_end(q, NULL);
}

void get_prices_gpus(struct areq *q)
{
	struct page *page = arena_alloc(q->arena, sizeof(*page));

	if (market_filter_read(q, &page->f)) {
		q->own = page;
		areq_market(q, gpus_list);
	}
}
