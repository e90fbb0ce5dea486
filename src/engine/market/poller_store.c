/* What a poll brought, into rows. */
#include "base/base.h"
#include "base/log.h"
#include "base/text/str.h"
#include "core/rank/offer.h"
#include "engine/market/market_int.h"

static struct poll *poll_of(struct op *op)
{
	return container_of(container_of(op, struct pg_req, op), struct poll, req);
}

static void poll_stored(struct op *op)
{
	struct poll *p = poll_of(op);

	if (op->rc != SPOT_OK) {
		poll_failed(p, &op->err);
		return;
	}
	poll_done(p);
}

/* ---- regions --------------------------------------------------------------------------------- */

static bool feed_wanted(const struct spot_provider_ops *ops, enum feed_kind k)
{
	switch (k) {
	case FEED_PRICES_SPOT:
		return (ops->caps & SPOT_CAP_SPOT) != 0;
	case FEED_PRICES_PAST:
		return (ops->caps & SPOT_CAP_PAST_APART) != 0;
	case FEED_SIGNALS:
		return ops->signals != NULL;
	case FEED_QUOTAS:
		return ops->quotas != NULL;
	case FEED_POOLS:
	case FEED_PRICES_ON_DEMAND:
		return true;
	case FEED_REGIONS:
	case FEED_NONE:
	case FEED_COUNT:
		break;
	}
	return false;
}

static void store_regions(struct poll *p)
{
	const struct spot_provider_ops *ops = call_provider_ops(p->provider);
	bool all = (ops->caps & SPOT_CAP_ALL_REGIONS) != 0;
	size_t regions_n = all ? 1 : p->args.regions.n, n = 0;
	const char **names = arena_array(p->arena, regions_n * FEED_COUNT + 1, sizeof(*names));
	const char **regions = arena_array(p->arena, regions_n * FEED_COUNT + 1, sizeof(*regions));
	const char **feeds = arena_array(p->arena, regions_n * FEED_COUNT + 1, sizeof(*feeds));

	for (size_t i = 0; i < regions_n; i++) {
		for (int k = (int)FEED_POOLS; k < (int)FEED_COUNT; k++) {
			if (feed_wanted(ops, (enum feed_kind)k)) {
				names[n] = call_provider_name(p->provider);
				regions[n] = all ? "" : p->args.regions.names[i];
				feeds[n++] = feed_name((enum feed_kind)k);
			}
		}
	}
	p->seen = p->args.regions.n;
	q_market_feeds_add(p->poller->deps.pg, &p->req,
	    &(struct q_market_feeds_add){ .providers = names,
		.providers_n = n,
		.regions = regions,
		.regions_n = n,
		.feeds = feeds,
		.feeds_n = n,
		.now_us = loop_wall_us(p->poller->deps.loop),
		.fence = p->epoch },
	    poll_stored);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void store_pools(struct poll *p)
{
	const struct spot_pools *in = &p->args.pools;
	size_t n = in->n;
	struct arena *a = p->arena;
	const char **t[8];
	int32_t *v[4];

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		t[i] = arena_array(a, n + 1, sizeof(**t));
	}
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		v[i] = arena_array(a, n + 1, sizeof(**v));
	}
	for (size_t i = 0; i < n; i++) {
		const struct spot_pool_info *o = &in->pools[i];

		t[0][i] = o->key.region;
		t[1][i] = o->key.zone;
		t[2][i] = o->zone_name;
		t[3][i] = o->key.instance_type;
		t[4][i] = spot_market_name(o->key.market);
		t[5][i] = o->shape.gpu_name;
		t[6][i] = o->shape.arch;
		t[7][i] = o->quota_class;
		v[0][i] = o->shape.gpu_milli;
		v[1][i] = o->shape.gpu_mem_mib;
		v[2][i] = o->shape.vcpus;
		v[3][i] = o->shape.mem_mib;
	}
	p->seen = n;
	q_market_pools_put(p->poller->deps.pg, &p->req,
	    &(struct q_market_pools_put){ .provider = call_provider_name(p->provider),
		.region = p->region,
		.regions = t[0],
		.regions_n = n,
		.zones = t[1],
		.zones_n = n,
		.zone_names = t[2],
		.zone_names_n = n,
		.types = t[3],
		.types_n = n,
		.markets = t[4],
		.markets_n = n,
		.gpus = t[5],
		.gpus_n = n,
		.gpu_milli = v[0],
		.gpu_milli_n = n,
		.gpu_mem = v[1],
		.gpu_mem_n = n,
		.vcpus = v[2],
		.vcpus_n = n,
		.mem = v[3],
		.mem_n = n,
		.archs = t[6],
		.archs_n = n,
		.classes = t[7],
		.classes_n = n,
		.now_us = loop_wall_us(p->poller->deps.loop),
		.fence = p->epoch },
	    poll_stored);
}

/* ---- prices ---------------------------------------------------------------------------------- */

static void refused_stored(struct op *op)
{
	poll_stored(op);
}

static void prices_stored(struct op *op)
{
	struct poll *p = container_of(container_of(container_of(op, struct pg_copy, op),
					  struct price_ingest, copy),
	    struct poll, ingest);

	if (op->rc != SPOT_OK) {
		poll_failed(p, &op->err);
		return;
	}
	p->poller->stats.changed += price_ingest_result(&p->ingest).changed;
	if (p->refused_n == 0) {
		poll_done(p);
		return;
	}
	poll_refused_put(p, refused_stored);
}

void poll_refused_put(struct poll *p, void (*done)(struct op *))
{
	q_market_refused_put(p->poller->deps.pg, &p->req,
	    &(struct q_market_refused_put){ .pool_ids = p->refused_ids,
		.pool_ids_n = p->refused_n,
		.prices = p->refused_prices,
		.prices_n = p->refused_n,
		.sources = p->refused_sources,
		.sources_n = p->refused_n,
		.whys = p->refused_whys,
		.whys_n = p->refused_n,
		.observed_us = p->started_us,
		.past = p->kind == FEED_PRICES_PAST,
		.fence = p->epoch },
	    done);
}

void poll_refused_room(struct poll *p, size_t n)
{
	p->refused_ids = arena_array(p->arena, n + 1, sizeof(*p->refused_ids));
	p->refused_prices = arena_array(p->arena, n + 1, sizeof(*p->refused_prices));
	p->refused_sources = arena_array(p->arena, n + 1, sizeof(*p->refused_sources));
	p->refused_whys = arena_array(p->arena, n + 1, sizeof(*p->refused_whys));
}

void poll_refuse(struct poll *p, int32_t row, const struct spot_price_point *point, const char *why)
{
	size_t n = p->refused_n++;

	p->poller->stats.refused++;
	p->refused_ids[n] = p->rows[row].id;
	p->refused_prices[n] = point->price_micros;
	p->refused_sources[n] = point->source;
	p->refused_whys[n] = why;
	log_warn("price.refused", STR("provider", call_provider_name(p->provider)),
	    STR("region", point->key.region), STR("zone", point->key.zone),
	    STR("type", point->key.instance_type), USD("price", point->price_micros),
	    STR("why", why));
}

/* before: the point of that pool that came last in the same reply; NULL = none. */
static const char *point_wrong(struct poll *p, int32_t row, const struct spot_price_point *point,
    const struct spot_price_point *before)
{
	struct price_claim c = {
		.key = &point->key,
		.shape = &p->pools[row].shape,
		.price_micros = point->price_micros,
		.effective_us = point->effective_us,
		.last_micros = p->rows[row].last_micros,
		.on_demand_micros = p->rows[row].on_demand_micros,
		.now_us = p->started_us,
		.own = point->key.market == SPOT_MARKET_RESERVED ||
		    strcmp(point->source, "configuration") == 0,
	};
	const char *why = price_implausible(p->arena, &c);

	if (why == NULL && before != NULL) {
		why = price_contradiction(p->arena, point->price_micros, point->effective_us,
		    before->price_micros, before->effective_us);
	}
	return why;
}

static void store_prices(struct poll *p)
{
	const struct spot_prices *in = &p->args.prices;
	struct spot_price_point *points = arena_array(p->arena, in->n + 1, sizeof(*points));
	int32_t *ids = arena_array(p->arena, in->n + 1, sizeof(*ids));
	/* row -> its last point + 1 */
	int32_t *before = arena_array(p->arena, p->pools_n + 1, sizeof(*before));
	size_t n = 0;

	poll_refused_room(p, in->n);
	for (size_t i = 0; i < in->n && n < PRICE_BATCH_MAX; i++) {
		int32_t row = poll_find(p, &in->points[i].key);
		const char *why;

		if (row < 0) {
			continue; /* a price without an offer: sold somewhere we do not use */
		}
		why = point_wrong(p, row, &in->points[i],
		    before[row] > 0 ? &points[before[row] - 1] : NULL);
		if (why != NULL) {
			poll_refuse(p, row, &in->points[i], why);
			continue;
		}
		before[row] = (int32_t)n + 1;
		points[n] = in->points[i];
		ids[n++] = p->rows[row].id;
	}
	p->seen = n;
	p->poller->stats.points += (int64_t)n;
	p->ingest_used = true;
	price_ingest(p->poller->deps.pg, &p->ingest, points, ids, n, prices_stored);
}

/* ---- signals and quotas ---------------------------------------------------------------------- */

static void store_signals(struct poll *p)
{
	const struct spot_signals *in = &p->args.signals;
	size_t n = in->n;
	const char **t[6];
	double *v[3];
	int64_t *as_of = arena_array(p->arena, n + 1, sizeof(*as_of));

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		t[i] = arena_array(p->arena, n + 1, sizeof(**t));
	}
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		v[i] = arena_array(p->arena, n + 1, sizeof(**v));
	}
	for (size_t i = 0; i < n; i++) {
		const struct spot_signal *s = &in->signals[i];

		t[0][i] = s->key.region;
		t[1][i] = s->key.zone;
		t[2][i] = s->key.instance_type;
		t[3][i] = s->key.market == SPOT_MARKET_NONE ? "" : spot_market_name(s->key.market);
		t[4][i] = spot_signal_name(s->kind);
		t[5][i] = s->source;
		v[0][i] = s->value;
		v[1][i] = s->lo;
		v[2][i] = s->hi;
		as_of[i] = s->as_of_us;
	}
	p->seen = n;
	q_market_signals_put(p->poller->deps.pg, &p->req,
	    &(struct q_market_signals_put){ .provider = call_provider_name(p->provider),
		.region = p->region,
		.regions = t[0],
		.regions_n = n,
		.zones = t[1],
		.zones_n = n,
		.types = t[2],
		.types_n = n,
		.markets = t[3],
		.markets_n = n,
		.kinds = t[4],
		.kinds_n = n,
		.vals = v[0],
		.vals_n = n,
		.los = v[1],
		.los_n = n,
		.his = v[2],
		.his_n = n,
		.as_ofs = as_of,
		.as_ofs_n = n,
		.sources = t[5],
		.sources_n = n,
		.now_us = loop_wall_us(p->poller->deps.loop),
		.fence = p->epoch },
	    poll_stored);
}

static void store_quotas(struct poll *p)
{
	const struct spot_quotas *in = &p->args.quotas;
	size_t n = in->n;
	const char **t[4];
	int64_t *limits = arena_array(p->arena, n + 1, sizeof(*limits));

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		t[i] = arena_array(p->arena, n + 1, sizeof(**t));
	}
	for (size_t i = 0; i < n; i++) {
		t[0][i] = in->quotas[i].region;
		t[1][i] = in->quotas[i].class;
		t[2][i] = spot_market_name(in->quotas[i].market);
		t[3][i] = in->quotas[i].unit;
		limits[i] = in->quotas[i].limit;
	}
	p->seen = n;
	q_market_quotas_put(p->poller->deps.pg, &p->req,
	    &(struct q_market_quotas_put){ .provider = call_provider_name(p->provider),
		.regions = t[0],
		.regions_n = n,
		.classes = t[1],
		.classes_n = n,
		.markets = t[2],
		.markets_n = n,
		.units = t[3],
		.units_n = n,
		.limits = limits,
		.limits_n = n,
		.now_us = loop_wall_us(p->poller->deps.loop),
		.fence = p->epoch },
	    poll_stored);
}

void poll_store(struct poll *p)
{
	switch (p->kind) {
	case FEED_REGIONS:
		store_regions(p);
		return;
	case FEED_POOLS:
		store_pools(p);
		return;
	case FEED_PRICES_SPOT:
	case FEED_PRICES_ON_DEMAND:
		store_prices(p);
		return;
	case FEED_PRICES_PAST:
		past_store(p);
		return;
	case FEED_SIGNALS:
		store_signals(p);
		return;
	case FEED_QUOTAS:
		store_quotas(p);
		return;
	case FEED_NONE:
	case FEED_COUNT:
		break;
	}
	assert(false && "poll_store: a feed without a store");
}
