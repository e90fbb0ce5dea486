/* Spot prices, placement scores, spot requests, tags. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

#define HISTORY_MAX_US (90 * 24 * SPOT_US_PER_HOUR)

/* ---- DescribeSpotPriceHistory ---------------------------------------------------------------- */

struct row {
	const struct pool *pool;
	int64_t us, micros;
	const char *product;
};
struct history {
	int64_t from_us, to_us;
	const char **types, **products;
	size_t types_n, products_n;
	const char *zone, *zone_id;
	struct ec2_filter *filters;
	size_t filters_n;
	struct row *rows;
	size_t rows_n, rows_cap;
};

static bool history_shows(struct ec2 *e, const struct history *h, const struct row *r)
{
	char usd[USD_TEXT_MAX];

	for (size_t k = 0; k < h->filters_n; k++) {
		const struct ec2_filter *f = &h->filters[k];
		const char *v = str_same(f->name, "availability-zone") ? r->pool->zone->name
		    : str_same(f->name, "availability-zone-id")        ? r->pool->zone->id
		    : str_same(f->name, "instance-type")               ? r->pool->type->name
		    : str_same(f->name, "product-description")         ? r->product
		    : str_same(f->name, "spot-price")                  ? format_usd(r->micros, usd)
						      : aws_time_ms(e->rq->arena, r->us);

		if (!ec2_filter_hits(f, v)) {
			return false;
		}
	}
	return true;
}

static void history_row(struct ec2 *e, struct history *h, const struct pool *p, int64_t us,
    int64_t micros)
{
	static const char *const products[] = { "Linux/UNIX", "Linux/UNIX (Amazon VPC)" };
	/* Types of before the VPC age are listed under both descriptions, later ones under one. */
	size_t n = p->type->current ? 1 : 2;

	for (size_t k = 0; k < n; k++) {
		struct row r = { p, us, micros, products[k] };

		if (!ec2_match_any(h->products, h->products_n, products[k]) ||
		    !history_shows(e, h, &r)) {
			continue;
		}
		h->rows =
		    arena_grow(e->rq->arena, h->rows, h->rows_n, &h->rows_cap, sizeof(*h->rows));
		h->rows[h->rows_n++] = r;
	}
}

/* Changes in (from, to], newest first, and the price that was in force at from. */
static void history_pool(struct ec2 *e, struct history *h, const struct pool *p)
{
	const struct price_log *l = &p->price[SIDE_SPOT];
	size_t k = l->n;

	while (k > 0) {
		const struct price_at *at = &l->at[--k];

		if (at->us > h->to_us) {
			continue;
		}
		/* History reaches 90 days back; an older price shows as of then. */
		history_row(e, h, p, MAX(at->us, sim_wall(e->sim) - HISTORY_MAX_US), at->micros);
		if (at->us <= h->from_us) {
			return;
		}
	}
}

static int row_cmp(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int c = strcmp(x->pool->type->name, y->pool->type->name);

	if (!c) {
		c = strcmp(x->pool->zone->name, y->pool->zone->name);
	}
	if (!c) {
		c = strcmp(x->product, y->product);
	}
	return c ? c : (x->us < y->us) - (x->us > y->us);
}

static bool history_params(struct ec2 *e, struct history *h)
{
	static const char *const known[] = { "availability-zone", "availability-zone-id",
		"instance-type", "product-description", "spot-price", "timestamp", NULL };
	const char *start = form_get(&e->form, "StartTime"), *end = form_get(&e->form, "EndTime");

	h->from_us = sim_wall(e->sim) - HISTORY_MAX_US;
	h->to_us = sim_wall(e->sim);
	if ((start && !parse_time_us(start, &h->from_us)) ||
	    (end && !parse_time_us(end, &h->to_us))) {
		ec2_fail(e, 400, "InvalidParameterValue", "Invalid time in StartTime or EndTime");
		return false;
	}
	h->to_us = MIN(h->to_us, sim_feed_us(e->sim, CLOUD_AWS));
	h->types_n = form_list(&e->form, e->rq->arena, "InstanceType", &h->types);
	h->products_n = form_list(&e->form, e->rq->arena, "ProductDescription", &h->products);
	h->zone = form_get(&e->form, "AvailabilityZone");
	h->zone_id = form_get(&e->form, "AvailabilityZoneId");
	if (h->zone && h->zone_id) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "AvailabilityZone and AvailabilityZoneId cannot both be "
		    "specified.");
		return false;
	}
	if ((h->zone && !market_zone(e->sim->market, e->rq->region, h->zone)) ||
	    (h->zone_id && !market_zone(e->sim->market, e->rq->region, h->zone_id))) {
		ec2_fail(e, 400, "InvalidParameterValue", "Invalid availability zone: [%s]",
		    h->zone ? h->zone : h->zone_id);
		return false;
	}
	return ec2_filters(e, known, &h->filters, &h->filters_n);
}

void ec2_spot_history(struct ec2 *e)
{
	struct history h = { 0 };
	struct ec2_page page;
	char usd[USD_TEXT_MAX];

	if (!history_params(e, &h) || !ec2_page(e, 1, 1000, 1000, &page) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < e->sim->market->pools_n; k++) {
		const struct pool *p = &e->sim->market->pools[k];

		if (p->cloud == CLOUD_AWS && p->price[SIDE_SPOT].sold &&
		    str_same(p->region->name, e->rq->region) &&
		    str_same(p->zone->kind, "availability-zone") &&
		    ec2_match_any(h.types, h.types_n, p->type->name) &&
		    (!h.zone || str_same(p->zone->name, h.zone)) &&
		    (!h.zone_id || str_same(p->zone->id, h.zone_id))) {
			history_pool(e, &h, p);
		}
	}
	if (h.rows_n > 0) {
		qsort(h.rows, h.rows_n, sizeof(*h.rows), row_cmp);
	}
	ec2_begin(e);
	x_open(&e->out, "spotPriceHistorySet");
	for (size_t k = (size_t)page.at; k < h.rows_n && (int64_t)k < page.at + page.size; k++) {
		x_open(&e->out, "item");
		x_text(&e->out, "instanceType", h.rows[k].pool->type->name);
		x_text(&e->out, "productDescription", h.rows[k].product);
		x_text(&e->out, "spotPrice", format_usd(h.rows[k].micros, usd));
		x_text(&e->out, "timestamp", aws_time_ms(e->rq->arena, h.rows[k].us));
		x_text(&e->out, "availabilityZone", h.rows[k].pool->zone->name);
		x_text(&e->out, "availabilityZoneId", h.rows[k].pool->zone->id);
		x_close(&e->out, "item");
	}
	x_close(&e->out, "spotPriceHistorySet");
	/* The end of the list is an empty token, which readers must take as none. */
	x_text(&e->out, "nextToken",
	    page.at + page.size < (int64_t)h.rows_n ? ec2_next_token(e, page.at + page.size) : "");
}

/* ---- GetSpotPlacementScores ------------------------------------------------------------------ */

/* From stock against the target: a simple monotone stand-in for the vendor's private formula. */
static int score_of(int64_t free, int64_t target, size_t types)
{
	int score = free >= target * 4 ? 9
	    : free >= target * 2       ? 7
	    : free >= target           ? 5
	    : free > 0                 ? 3
				       : 1;

	return types < 3 ? MIN(score, 3) : score; /* fewer than three types always score low */
}

static int64_t zone_free(struct ec2 *e, const char *region, const struct zone *z,
    const char **types, size_t n)
{
	int64_t sum = 0;

	for (size_t k = 0; k < e->sim->market->pools_n; k++) {
		const struct pool *p = &e->sim->market->pools[k];

		if (p->cloud == CLOUD_AWS && p->price[SIDE_SPOT].sold && (!z || p->zone == z) &&
		    str_same(p->region->name, region) && ec2_match_any(types, n, p->type->name)) {
			sum += MIN(pool_free(p, SIDE_SPOT), 64);
		}
	}
	return sum;
}

struct score {
	const char *region, *zone_id;
	int score;
};

static int score_cmp(const void *a, const void *b)
{
	const struct score *x = a, *y = b;

	return x->score != y->score ? y->score - x->score : strcmp(x->region, y->region);
}

void ec2_placement_scores(struct ec2 *e)
{
	const struct market *m = e->sim->market;
	const char **types, **regions;
	size_t types_n = form_list(&e->form, e->rq->arena, "InstanceType", &types), n = 0;
	size_t regions_n = form_list(&e->form, e->rq->arena, "RegionName", &regions);
	bool zones = ec2_bool(e, "SingleAvailabilityZone", false);
	struct score *list = arena_array(e->rq->arena, m->zones_n + m->regions_n, sizeof(*list));
	struct ec2_page page;
	int64_t target;

	if (!form_get(&e->form, "TargetCapacity")) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter TargetCapacity");
	}
	form_get(&e->form, "TargetCapacityUnitType");
	if (types_n == 0) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain InstanceTypes or "
		    "InstanceRequirementsWithMetadata");
	}
	if (!ec2_int(e, "TargetCapacity", 1, 2000000000, 1, &target) ||
	    !ec2_page(e, 10, 1000, 1000, &page) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < (zones ? m->zones_n : m->regions_n); k++) {
		const struct zone *z = zones ? &m->zones[k] : NULL;
		const struct region *r = zones ? z->region : &m->regions[k];
		int64_t have;

		if (r->cloud != CLOUD_AWS || !r->enabled ||
		    !ec2_match_any(regions, regions_n, r->name) ||
		    (z && !str_same(z->kind, "availability-zone"))) {
			continue;
		}
		have = zone_free(e, r->name, z, types, types_n);
		if (have > 0 || regions_n > 0) {
			list[n++] = (struct score){ r->name, z ? z->id : NULL,
				score_of(have, target, types_n) };
		}
	}
	if (n > 0) {
		qsort(list, n, sizeof(*list), score_cmp);
	}
	ec2_begin(e);
	x_open(&e->out, "spotPlacementScoreSet");
	for (size_t k = 0; k < MIN(n, (size_t)10); k++) {
		x_open(&e->out, "item");
		x_text(&e->out, "region", list[k].region);
		x_text(&e->out, "availabilityZoneId", list[k].zone_id);
		x_int(&e->out, "score", list[k].score);
		x_close(&e->out, "item");
	}
	x_close(&e->out, "spotPlacementScoreSet");
}

/* ---- spot requests --------------------------------------------------------------------------- */

static struct inst *by_sir(struct ec2 *e, const char *id)
{
	for (struct inst *i = e->sim->insts; i; i = i->next) {
		if (i->sir && str_same(i->sir, id) && inst_visible(i) &&
		    str_same(i->pool->region->name, e->rq->region)) {
			return i;
		}
	}
	ec2_fail(e, 400, "InvalidSpotInstanceRequestID.NotFound",
	    "The spot instance request ID '%s' does not exist", id);
	return NULL;
}

static void sir_xml(struct ec2 *e, const struct inst *i)
{
	struct sbuf *b = &e->out;
	char usd[USD_TEXT_MAX];

	x_open(b, "item");
	x_text(b, "spotInstanceRequestId", i->sir);
	x_text(b, "spotPrice",
	    format_usd(i->max_price ? i->max_price
				    : price_at(&i->pool->price[SIDE_ON_DEMAND], i->launched_us),
		usd));
	x_text(b, "type", i->persistent ? "persistent" : "one-time");
	x_text(b, "state", i->sir_state);
	x_open(b, "status");
	x_text(b, "code", i->sir_code);
	x_text(b, "updateTime", aws_time_ms(e->rq->arena, i->sir_us));
	x_text(b, "message", i->sir_message);
	x_close(b, "status");
	x_open(b, "launchSpecification");
	x_text(b, "imageId", i->image);
	x_text(b, "instanceType", i->pool->type->name);
	x_open(b, "placement");
	x_text(b, "availabilityZone", i->pool->zone->name);
	x_close(b, "placement");
	x_close(b, "launchSpecification");
	x_text(b, "instanceId", i->id);
	x_text(b, "createTime", aws_time_ms(e->rq->arena, i->launched_us));
	x_text(b, "productDescription", "Linux/UNIX");
	x_text(b, "launchedAvailabilityZone", i->pool->zone->name);
	x_text(b, "instanceInterruptionBehavior", i->behaviour ? i->behaviour : "terminate");
	ec2_tags_xml(b, i->sir_tags, i->sir_tags_n);
	x_close(b, "item");
}

static bool sir_shown(const struct inst *i, const struct ec2_filter *f, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		const char *v = str_same(f[k].name, "instance-id")    ? i->id
		    : str_same(f[k].name, "state")                    ? i->sir_state
		    : str_same(f[k].name, "status-code")              ? i->sir_code
		    : str_same(f[k].name, "spot-instance-request-id") ? i->sir
								      : NULL;
		bool hit = v && ec2_filter_hits(&f[k], v);

		for (size_t t = 0; t < i->sir_tags_n && !hit; t++) {
			hit = str_prefix(f[k].name, "tag:") &&
			    str_same(f[k].name + 4, i->sir_tags[t].key) &&
			    ec2_filter_hits(&f[k], i->sir_tags[t].value);
		}
		if (!hit) {
			return false;
		}
	}
	return true;
}

void ec2_describe_spot_requests(struct ec2 *e)
{
	static const char *const known[] = { "instance-id", "state", "status-code",
		"spot-instance-request-id", "tag:*", NULL };
	const char **ids;
	size_t ids_n = form_list(&e->form, e->rq->arena, "SpotInstanceRequestId", &ids), n;
	struct ec2_page page;
	struct ec2_filter *f;
	uint64_t last = 0;
	int64_t shown = 0;

	if (!ec2_filters(e, known, &f, &n) || !ec2_page(e, 5, 1000, 1000, &page) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < ids_n; k++) {
		if (!request_find(e, ids[k]) && !by_sir(e, ids[k])) {
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "spotInstanceRequestSet");
	/* Those without an instance are all on the first page. */
	if (page.at == 0) {
		requests_xml(e, ids, ids_n, f, n);
	}
	for (const struct inst *i = e->sim->insts; i && shown <= page.size; i = i->next) {
		if (!i->sir || (int64_t)i->seq <= page.at || !inst_visible(i) ||
		    !str_same(i->pool->region->name, e->rq->region) ||
		    !ec2_match_any(ids, ids_n, i->sir) || !sir_shown(i, f, n)) {
			continue;
		}
		if (shown++ < page.size) {
			sir_xml(e, i);
			last = i->seq;
		}
	}
	x_close(&e->out, "spotInstanceRequestSet");
	if (shown > page.size) {
		x_text(&e->out, "nextToken", ec2_next_token(e, (int64_t)last));
	}
}

/* Cancelling a request does not end its instance. */
void ec2_cancel_spot_requests(struct ec2 *e)
{
	const char **ids;
	size_t n = form_list(&e->form, e->rq->arena, "SpotInstanceRequestId", &ids);

	if (n == 0) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter SpotInstanceRequestId");
	}
	if (!ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < n; k++) {
		if (!request_find(e, ids[k]) && !by_sir(e, ids[k])) {
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "spotInstanceRequestSet");
	for (size_t k = 0; k < n; k++) {
		struct spot_ask *q = request_find(e, ids[k]);
		struct inst *i = q ? NULL : by_sir(e, ids[k]);

		if (q) {
			x_open(&e->out, "item");
			x_text(&e->out, "spotInstanceRequestId", ids[k]);
			x_text(&e->out, "state", request_cancel(e, q));
			x_close(&e->out, "item");
			continue;
		}
		if (!str_same(i->sir_state, "closed")) {
			inst_sir_set(i, "cancelled", "request-canceled-and-instance-running",
			    "Your Spot request is canceled, but your instance is still running.");
		}
		x_open(&e->out, "item");
		x_text(&e->out, "spotInstanceRequestId", i->sir);
		x_text(&e->out, "state", i->sir_state);
		x_close(&e->out, "item");
	}
	x_close(&e->out, "spotInstanceRequestSet");
}

/* ---- tags ------------------------------------------------------------------------------------ */

static bool tag_targets(struct ec2 *e, const char **ids, size_t n)
{
	if (n == 0) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter resourceIdSet");
	}
	for (size_t k = 0; k < n && !e->failed; k++) {
		const struct inst *i = inst_find(e->sim, ids[k]);

		if (str_prefix(ids[k], "sir-") && !request_find(e, ids[k])) {
			by_sir(e, ids[k]);
		} else if (str_prefix(ids[k], "sir-")) {
			continue;
		} else if (str_prefix(ids[k], "vol-") || str_prefix(ids[k], "eni-")) {
			size_t *none;

			if (!ec2_thing_tags(e, ids[k], &none)) {
				ec2_fail(e, 400,
				    str_prefix(ids[k], "vol-")
					? "InvalidVolume.NotFound"
					: "InvalidNetworkInterfaceID.NotFound",
				    "The ID '%s' does not exist", ids[k]);
			}
		} else if (!str_prefix(ids[k], "i-")) {
			ec2_fail(e, 400, "InvalidID", "The ID '%s' is not valid", ids[k]);
		} else if (!i || !inst_visible(i) ||
		    !str_same(i->pool->region->name, e->rq->region)) {
			ec2_fail(e, 400, "InvalidInstanceID.NotFound",
			    "The instance ID '%s' does not exist", ids[k]);
		}
	}
	return !e->failed;
}

static void change_tags(struct ec2 *e, bool unset)
{
	struct arena *a = e->rq->arena;
	const char **ids, *keys[51], *values[51];
	size_t n = form_list(&e->form, a, "ResourceId", &ids), tags = 0;

	for (int k = 1; k <= 50; k++) {
		const char *key = form_get(&e->form, arena_printf(a, "Tag.%d.Key", k));

		values[tags] = form_get(&e->form, arena_printf(a, "Tag.%d.Value", k));
		if (!key) {
			continue;
		}
		if (str_prefix(key, "aws:")) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "Tag keys starting with 'aws:' are reserved for internal use");
		}
		keys[tags++] = key;
	}
	if (tags == 0 && !unset) {
		ec2_fail(e, 400, "MissingParameter", "The request must contain the parameter Tag");
	}
	if (e->failed || !ec2_ready(e) || !tag_targets(e, ids, n)) {
		return;
	}
	for (size_t k = 0; k < n; k++) {
		bool sir = str_prefix(ids[k], "sir-"),
		     thing = str_prefix(ids[k], "vol-") || str_prefix(ids[k], "eni-");
		struct spot_ask *q = sir ? request_find(e, ids[k]) : NULL;
		struct inst *i = q || thing ? NULL
		    : sir                   ? by_sir(e, ids[k])
					    : inst_find(e->sim, ids[k]);
		size_t *list_n = i ? sir ? &i->sir_tags_n : &i->tags_n : NULL;
		struct inst_tag **list = thing ? ec2_thing_tags(e, ids[k], &list_n)
		    : q                        ? request_tags(q, &list_n)
		    : sir                      ? &i->sir_tags
					       : &i->tags;

		for (size_t t = 0; t < tags; t++) {
			if (unset) {
				inst_tag_unset(list, list_n, keys[t], values[t]);
			} else {
				inst_tag_set(list, list_n, keys[t], values[t] ? values[t] : "");
			}
		}
	}
	ec2_begin(e);
	x_bool(&e->out, "return", true);
}

void ec2_create_tags(struct ec2 *e)
{
	change_tags(e, false);
}

void ec2_delete_tags(struct ec2 *e)
{
	change_tags(e, true);
}
