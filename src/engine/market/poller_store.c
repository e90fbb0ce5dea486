/* Stores the results of a poll in rows. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/rank/rank.h"
#include "engine/market/market_priv.h"

static struct poll *op_poll(struct op *op)
{
	return container_of(container_of(op, struct pg_req, op), struct poll, req);
}

static void poll_stored(struct op *op)
{
	struct poll *p = op_poll(op);

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
	struct q_market_feeds_add_feed *rows =
	    arena_array(p->arena, regions_n * FEED_COUNT + 1, sizeof(*rows));

	for (size_t i = 0; i < regions_n; i++) {
		for (int k = (int)FEED_POOLS; k < (int)FEED_COUNT; k++) {
			if (feed_wanted(ops, (enum feed_kind)k)) {
				rows[n++] = (struct q_market_feeds_add_feed){
					.provider = call_provider_name(p->provider),
					.region = all ? "" : p->args.regions.names[i],
					.feed = feed_name((enum feed_kind)k),
				};
			}
		}
	}
	p->seen = p->args.regions.n;
	q_market_feeds_add(p->poller->deps.pg, &p->req,
	    &(struct q_market_feeds_add){ .feed = rows,
		.feed_n = n,
		.now_us = loop_wall_us(p->poller->deps.loop),
		.fence = p->epoch },
	    poll_stored);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void store_pools(struct poll *p)
{
	const struct spot_pools *in = &p->args.pools;
	struct q_market_pools_put_pool *rows = arena_array(p->arena, in->n + 1, sizeof(*rows));

	for (size_t i = 0; i < in->n; i++) {
		const struct spot_pool_info *o = &in->pools[i];

		rows[i] = (struct q_market_pools_put_pool){
			.region = o->key.region,
			.zone = o->key.zone,
			.zone_name = o->zone_name,
			.type = o->key.instance_type,
			.market = o->key.market,
			.gpu = o->shape.gpu_name,
			.gpu_milli = o->shape.gpu_milli,
			.gpu_mem_mib = o->shape.gpu_mem_mib,
			.vcpus = o->shape.vcpus,
			.mem_mib = o->shape.mem_mib,
			.arch = o->shape.arch,
			.quota_class = o->quota_class,
		};
	}
	p->seen = in->n;
	q_market_pools_put(p->poller->deps.pg, &p->req,
	    &(struct q_market_pools_put){ .provider = call_provider_name(p->provider),
		.region = p->region,
		.pool = rows,
		.pool_n = in->n,
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
	    &(struct q_market_refused_put){ .point = p->refused,
		.point_n = p->refused_n,
		.observed_us = p->started_us,
		.past = p->kind == FEED_PRICES_PAST,
		.fence = p->epoch },
	    done);
}

void poll_refused_room(struct poll *p, size_t n)
{
	p->refused = arena_array(p->arena, n + 1, sizeof(*p->refused));
}

void poll_refuse(struct poll *p, int32_t row, const struct spot_price_point *point, const char *why)
{
	p->poller->stats.refused++;
	p->refused[p->refused_n++] = (struct q_market_refused_put_point){
		.pool_id = p->rows[row].id,
		.price_micros = point->price_micros,
		.source = point->source,
		.why = why,
	};
	log_warn("price.refused", STR("provider", call_provider_name(p->provider)),
	    STR("region", point->key.region), STR("zone", point->key.zone),
	    STR("type", point->key.instance_type), USD("price", point->price_micros),
	    STR("why", why));
}

/* before: that pool's previous point in the same reply; NULL = none. */
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
		.own = spot_market_reserves(point->key.market) ||
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
	bool still = true;

	poll_refused_room(p, in->n);
	for (size_t i = 0; i < in->n && n < PRICE_BATCH_MAX; i++) {
		int32_t row = poll_find(p, &in->points[i].key);
		const char *why;

		if (row < 0) {
			continue; /* a price without an offer: sold in a place that we do not use */
		}
		why = point_wrong(p, row, &in->points[i],
		    before[row] > 0 ? &points[before[row] - 1] : NULL);
		if (why != NULL) {
			poll_refuse(p, row, &in->points[i], why);
			continue;
		}
		before[row] = (int32_t)n + 1;
		still = still && in->points[i].price_micros == p->rows[row].last_micros;
		points[n] = in->points[i];
		ids[n++] = p->rows[row].id;
	}
	p->seen = n;
	p->poller->stats.points += (int64_t)n;
	p->ingest_used = true;
	price_ingest(p->poller->deps.pg, &p->ingest,
	    &(struct price_feed){ .provider = call_provider_name(p->provider),
		.region = p->region,
		.feed = feed_name(p->kind),
		.polled_us = p->started_us,
		.fence = p->epoch,
		.still = still },
	    points, ids, n, prices_stored);
}

/* ---- signals and quotas ---------------------------------------------------------------------- */

static void store_signals(struct poll *p)
{
	const struct spot_signals *in = &p->args.signals;
	struct q_market_signals_put_signal *rows = arena_array(p->arena, in->n + 1, sizeof(*rows));

	for (size_t i = 0; i < in->n; i++) {
		const struct spot_signal *s = &in->signals[i];
		bool any = s->key.market == SPOT_MARKET_NONE;

		rows[i] = (struct q_market_signals_put_signal){
			.region = s->key.region,
			.zone = s->key.zone,
			.type = s->key.instance_type,
			.market = any ? "" : spot_market_name(s->key.market),
			.kind = spot_signal_name(s->kind),
			.value = s->value,
			.lo = s->lo,
			.hi = s->hi,
			.as_of_us = s->as_of_us,
			.source = s->source,
		};
	}
	p->seen = in->n;
	q_market_signals_put(p->poller->deps.pg, &p->req,
	    &(struct q_market_signals_put){ .provider = call_provider_name(p->provider),
		.region = p->region,
		.signal = rows,
		.signal_n = in->n,
		.now_us = loop_wall_us(p->poller->deps.loop),
		.fence = p->epoch },
	    poll_stored);
}

static void store_quotas(struct poll *p)
{
	const struct spot_quotas *in = &p->args.quotas;
	struct q_market_quotas_put_quota *rows = arena_array(p->arena, in->n + 1, sizeof(*rows));

	for (size_t i = 0; i < in->n; i++) {
		rows[i] = (struct q_market_quotas_put_quota){
			.region = in->quotas[i].region,
			.quota_class = in->quotas[i].class,
			.market = in->quotas[i].market,
			.unit = in->quotas[i].unit,
			.quota_limit = in->quotas[i].limit,
		};
	}
	p->seen = in->n;
	q_market_quotas_put(p->poller->deps.pg, &p->req,
	    &(struct q_market_quotas_put){ .provider = call_provider_name(p->provider),
		.quota = rows,
		.quota_n = in->n,
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
