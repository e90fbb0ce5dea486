/* The kept pools: filled from rows, replaced by change, compared with a full read. */
#include "base/base.h"
#include "store/market/market_priv.h"

#include <math.h>

#define ODDS_LIFE_US (1800 * SPOT_US_PER_S) /* as offers.sql has it */
#define NAMES_BYTES_MAX ((size_t)1 << 30)

/* ---- texts ----------------------------------------------------------------------------------- */

struct market_names *names_new(void)
{
	struct market_names *n = calloc(1, sizeof(*n));

	if (n == NULL) {
		abort();
	}
	n->holds = 1;
	n->arena = arena_new(NAMES_BYTES_MAX);
	map_init(&n->texts, n->arena, map_same_text);
	return n;
}

void names_drop(struct market_names *n)
{
	if (n != NULL && --n->holds == 0) {
		arena_free(n->arena);
		free(n);
	}
}

const char *names_text(struct market_names *n, const char *s)
{
	uint64_t h;
	char *kept;

	if (s == NULL) {
		return NULL;
	}
	h = hash_str(HASH_START, s);
	kept = map_get(&n->texts, h, s);
	if (kept == NULL) {
		kept = arena_strdup(n->arena, s);
		map_put(&n->texts, h, kept);
	}
	return kept;
}

/* ---- one row --------------------------------------------------------------------------------- */

static double or_none(bool has, double v)
{
	return has ? v : -1;
}

static struct offer offer_of(struct market_names *n, const struct q_offers_row *w)
{
	return (struct offer){
		.pool_id = w->id,
		.provider = names_text(n, w->provider),
		.region = names_text(n, w->region),
		.zone = names_text(n, w->zone),
		.zone_name = names_text(n, w->zone_name),
		.instance_type = names_text(n, w->instance_type),
		.market = spot_market_parse(w->market),
		.gpu_name = names_text(n, w->gpu_name),
		.gpu_milli = w->gpu_milli,
		.gpu_mem_mib = w->gpu_mem_mib,
		.vcpus = w->vcpus,
		.mem_mib = w->mem_mib,
		.arch = names_text(n, w->arch),
		.quota_class = names_text(n, w->quota_class),
		.price_micros = w->price_micros,
		.price_observed_us = w->observed_us,
		.price_state =
		    w->price_state != NULL ? price_state_parse(w->price_state) : PRICE_NONE,
		.advisor_lo = or_none(w->has_advisor_lo, w->advisor_lo),
		.advisor_hi = or_none(w->has_advisor_hi, w->advisor_hi),
		.advisor_as_of_us = w->advisor_as_of_us,
		.placement_score = or_none(w->has_score, w->score),
		.capacity = or_none(w->has_capacity, w->capacity),
		.capacity_us = w->capacity_us,
		.ends_us = w->ends_us,
		.own_node_us = w->own_us,
		.own_reclaims = w->reclaims,
		.own_launches = w->launches,
		.own_refusals = w->refusals,
		.cool_until_us = w->cool_until_us,
		.cool_refusals = w->cool_refusals,
		.cool_why = w->cool_why != NULL ? names_text(n, w->cool_why) : "",
		.reclaimed_us = w->reclaimed_us,
		.live_nodes = w->nodes,
		.has_band = w->has_band_lo && w->has_band_hi,
		.band_lo = w->band_lo,
		.band_hi = w->band_hi,
		.has_share = w->has_share,
		.share = w->share,
		.share_lo = w->share_lo,
		.share_hi = w->share_hi,
		.has_odds = w->has_odds,
		.odds = w->odds,
		.account_asked = w->asked,
		.account_delivered = w->delivered,
		.account_us = w->asked_us,
		.has_quota = w->has_quota_limit,
		.quota_unit = names_text(n, w->quota_unit),
		.quota_limit = w->quota_limit,
		.price_mean = w->price_mean,
		.price_var = w->price_var,
		.price_cover = w->has_price_mean ? w->price_cover : 0,
		.record = offer_record_parse(n->arena, w->record),
	};
}

static struct pool_row row_of(struct pool_rows *rows, const struct q_offers_row *w)
{
	if (w->has_odds) {
		rows->odds_due_us = MIN(rows->odds_due_us, w->odds_us + ODDS_LIFE_US);
	}
	return (struct pool_row){ .offer = offer_of(rows->names, w),
		.counted = w->counted,
		.offered = w->offered,
		.listed = w->listed,
		.quota_wide = w->quota_wide,
		.odds_us = w->odds_us,
		.round_id = w->round_id,
		.fade_us = w->fade_us,
		.fade_w = w->fade_w,
		.fade_1 = w->fade_1,
		.fade_2 = w->fade_2,
		.told = told_of(rows->names, w) };
}

/* ---- all rows -------------------------------------------------------------------------------- */

void rows_fini(struct pool_rows *rows)
{
	free(rows->list);
	names_drop(rows->names);
	*rows = (struct pool_rows){ 0 };
}

static struct pool_row *rows_alloc(size_t n)
{
	struct pool_row *list = calloc(n + 1, sizeof(*list));

	if (list == NULL) {
		abort();
	}
	return list;
}

void rows_begin(struct pool_rows *rows, size_t n, bool told)
{
	*rows = (struct pool_rows){ .names = names_new(),
		.list = rows_alloc(n),
		.cap = n,
		.odds_due_us = INT64_MAX,
		.told = told };
}

void rows_add(struct pool_rows *rows, const struct q_offers_row *read)
{
	rows->list[rows->n++] = row_of(rows, read);
}

/* The index of the first row whose id is not below. */
static size_t row_index(const struct pool_rows *rows, int32_t pool_id)
{
	size_t lo = 0, hi = rows->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (rows->list[mid].offer.pool_id < pool_id) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

struct pool_row *row_find(const struct pool_rows *rows, int32_t pool_id)
{
	size_t i = row_index(rows, pool_id);

	return i < rows->n && rows->list[i].offer.pool_id == pool_id ? &rows->list[i] : NULL;
}

/* Merges the rows read into the list; ids are those that the list loses. */
static void rows_merge(struct pool_rows *rows, const int32_t *ids, size_t ids_n,
    const struct q_offers_row *read, size_t n)
{
	struct pool_row *list = rows_alloc(rows->n + n);
	size_t at = 0, k = 0, id = 0;

	for (size_t i = 0; i < rows->n; i++) {
		int32_t pool = rows->list[i].offer.pool_id;

		for (; k < n && read[k].id <= pool; k++) {
			list[at++] = row_of(rows, &read[k]);
		}
		while (id < ids_n && ids[id] < pool) {
			id++;
		}
		if (id == ids_n || ids[id] != pool) {
			list[at++] = rows->list[i];
		}
	}
	for (; k < n; k++) {
		list[at++] = row_of(rows, &read[k]);
	}
	free(rows->list);
	rows->list = list;
	rows->cap = rows->n + n;
	rows->n = at;
}

void rows_some(struct pool_rows *rows, const int32_t *ids, size_t ids_n,
    const struct q_offers_row *read, size_t n)
{
	size_t same = 0, known = 0;

	for (size_t i = 0; i < ids_n; i++) {
		known += row_find(rows, ids[i]) != NULL;
	}
	for (size_t i = 0; i < n; i++) {
		same += row_find(rows, read[i].id) != NULL;
	}
	if (same < n || known > n) { /* some come or go */
		rows_merge(rows, ids, ids_n, read, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		*row_find(rows, read[i].id) = row_of(rows, &read[i]);
	}
}

/* ---- confirmed prices ------------------------------------------------------------------------ */

/* As price_faded of pool_price (migrations). */
static void price_fade(struct pool_row *w)
{
	struct offer *o = &w->offer;
	double age = (double)MAX(o->price_observed_us - w->fade_us, 0) / 6.048e11,
	       k = exp(-fmin(age, 700)), now = 1 - k + 1e-9, p = (double)o->price_micros / 1e6,
	       sum = w->fade_w * k + now;

	o->price_mean = (w->fade_1 * k + now * p) / sum;
	o->price_var = fmax((w->fade_2 * k + now * p * p) / sum - o->price_mean * o->price_mean, 0);
	o->price_cover = sum;
}

static const struct round *round_find(const struct round *rounds, size_t n, int64_t id)
{
	for (size_t i = 0; i < n; i++) {
		if (rounds[i].id == id) {
			return &rounds[i];
		}
	}
	return NULL;
}

bool rows_confirm(struct pool_rows *rows, const struct round *rounds, size_t n)
{
	bool any = false;

	for (size_t i = 0; i < rows->n && n > 0; i++) {
		struct pool_row *w = &rows->list[i];
		const struct round *r =
		    w->round_id != 0 ? round_find(rounds, n, w->round_id) : NULL;

		if (r != NULL && r->confirmed_us > w->offer.price_observed_us) {
			w->offer.price_observed_us = r->confirmed_us;
			price_fade(w);
			any = true;
		}
	}
	return any;
}

/* ---- changes by time alone - ----------------------------------------------------------------- */

/* Our own record fades by the hour. */
static bool row_fades(const struct pool_row *w)
{
	const struct offer *o = &w->offer;

	return o->record != NULL || o->own_node_us > 0 ||
	    o->own_launches + o->own_refusals + o->own_reclaims > 0;
}

void rows_due(struct pool_rows *rows, int64_t read_us, int64_t now_us, struct arena *a,
    int32_t **ids, size_t *n, size_t *cap)
{
	bool hour = read_us / SPOT_US_PER_HOUR != now_us / SPOT_US_PER_HOUR;
	int64_t next = INT64_MAX;

	if (!hour && now_us < rows->odds_due_us) {
		return;
	}
	for (size_t i = 0; i < rows->n; i++) {
		const struct pool_row *w = &rows->list[i];
		int64_t until = w->offer.has_odds ? w->odds_us + ODDS_LIFE_US : INT64_MAX;

		if (until <= now_us || (hour && row_fades(w))) {
			*ids = arena_grow(a, *ids, *n, cap, sizeof(**ids));
			(*ids)[(*n)++] = w->offer.pool_id;
		}
		next = until > now_us ? MIN(next, until) : next;
	}
	rows->odds_due_us = next;
}

static int id_order(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

size_t ids_sort(int32_t *ids, size_t n)
{
	size_t kept = 0;

	if (n > 0) {
		qsort(ids, n, sizeof(*ids), id_order);
	}
	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || ids[kept - 1] != ids[i]) {
			ids[kept++] = ids[i];
		}
	}
	return kept;
}

bool ids_have(const int32_t *ids, size_t n, int32_t id)
{
	return n > 0 && bsearch(&id, ids, n, sizeof(*ids), id_order) != NULL;
}

/* ---- the comparison -------------------------------------------------------------------------- */

/* Sums of floats come in the order of the plan. */
static bool near(double a, double b)
{
	return a == b || fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) + 1e-12;
}

static bool text_same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool record_same(const struct offer_record *a, const struct offer_record *b)
{
	const double *x = (const double *)a, *y = (const double *)b;

	if (a == NULL || b == NULL) {
		return a == b;
	}
	for (size_t i = 0; i < sizeof(*a) / sizeof(*x); i++) {
		if (!near(x[i], y[i])) {
			return false;
		}
	}
	return true;
}
_Static_assert(sizeof(struct offer_record) % sizeof(double) == 0, "a record is doubles only");

static bool shape_same(const struct offer *a, const struct offer *b)
{
	return a->market == b->market && a->gpu_milli == b->gpu_milli &&
	    a->gpu_mem_mib == b->gpu_mem_mib && a->vcpus == b->vcpus && a->mem_mib == b->mem_mib &&
	    text_same(a->provider, b->provider) && text_same(a->region, b->region) &&
	    text_same(a->zone, b->zone) && text_same(a->zone_name, b->zone_name) &&
	    text_same(a->instance_type, b->instance_type) && text_same(a->gpu_name, b->gpu_name) &&
	    text_same(a->arch, b->arch) && text_same(a->quota_class, b->quota_class);
}

static bool signals_same(const struct offer *a, const struct offer *b)
{
	return near(a->advisor_lo, b->advisor_lo) && near(a->advisor_hi, b->advisor_hi) &&
	    a->advisor_as_of_us == b->advisor_as_of_us && near(a->capacity, b->capacity) &&
	    a->capacity_us == b->capacity_us && a->ends_us == b->ends_us &&
	    near(a->placement_score, b->placement_score) && a->has_band == b->has_band &&
	    near(a->band_lo, b->band_lo) && near(a->band_hi, b->band_hi) &&
	    a->has_share == b->has_share && near(a->share, b->share) &&
	    near(a->share_lo, b->share_lo) && near(a->share_hi, b->share_hi) &&
	    a->has_odds == b->has_odds && near(a->odds, b->odds) &&
	    near(a->account_asked, b->account_asked) &&
	    near(a->account_delivered, b->account_delivered) && a->account_us == b->account_us;
}

static bool offer_same(const struct offer *a, const struct offer *b)
{
	return shape_same(a, b) && signals_same(a, b) && a->price_micros == b->price_micros &&
	    a->price_observed_us == b->price_observed_us && a->price_state == b->price_state &&
	    near(a->price_mean, b->price_mean) && near(a->price_var, b->price_var) &&
	    near(a->price_cover, b->price_cover) && a->own_node_us == b->own_node_us &&
	    a->own_reclaims == b->own_reclaims && a->own_launches == b->own_launches &&
	    a->own_refusals == b->own_refusals && a->cool_until_us == b->cool_until_us &&
	    a->cool_refusals == b->cool_refusals && text_same(a->cool_why, b->cool_why) &&
	    a->reclaimed_us == b->reclaimed_us && a->live_nodes == b->live_nodes &&
	    a->has_quota == b->has_quota && text_same(a->quota_unit, b->quota_unit) &&
	    a->quota_limit == b->quota_limit && record_same(a->record, b->record);
}

static bool row_same(const struct pool_row *a, const struct pool_row *b)
{
	return a->counted == b->counted && a->offered == b->offered && a->listed == b->listed &&
	    told_same(&a->told, &b->told) && a->quota_wide == b->quota_wide &&
	    a->odds_us == b->odds_us && offer_same(&a->offer, &b->offer);
}

void rows_differ(const struct pool_rows *was, const struct pool_rows *now, struct arena *a,
    int32_t **ids, size_t *n, size_t *cap)
{
	size_t i = 0, k = 0;

	while (i < was->n || k < now->n) {
		int32_t x = i < was->n ? was->list[i].offer.pool_id : INT32_MAX,
			y = k < now->n ? now->list[k].offer.pool_id : INT32_MAX;

		if (x != y || !row_same(&was->list[i], &now->list[k])) {
			*ids = arena_grow(a, *ids, *n, cap, sizeof(**ids));
			(*ids)[(*n)++] = MIN(x, y);
		}
		i += x <= y;
		k += y <= x;
	}
}
