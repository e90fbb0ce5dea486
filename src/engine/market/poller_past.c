/*
 * Past spot prices, where a provider needs a request for each type (SPOT_CAP_PAST_APART; elsewhere
 * the first poll brings them along). A feed of its own, so that today's prices do not wait for it.
 * A poll asks for a few types and marks their pools when it is stored, so that a restart repeats
 * only these. Of a pool with a price, only points before its first one are stored. Of a pool
 * without one (a type that the vendor's list omits), the past is all that is known of its price.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/rank/rank.h"
#include "engine/market/market_priv.h"

#define TYPES_ONCE 24
#define SOON_US (5 * SPOT_US_PER_S)

static struct poll *op_poll(struct op *op)
{
	return container_of(container_of(op, struct pg_req, op), struct poll, req);
}

void past_pools(struct poll *p, void (*done)(struct op *))
{
	q_market_past_pools(p->poller->deps.pg, &p->req,
	    &(struct q_market_past_pools){ .provider = call_provider_name(p->provider),
		.region = p->region,
		.most = TYPES_ONCE },
	    done);
}

void past_args(struct poll *p)
{
	p->args.prices = (struct spot_prices){
		.region = p->region,
		.market = SPOT_MARKET_SPOT,
		.since_us = p->started_us - POLL_PAST_US,
		.pools = p->pools,
		.pools_n = p->pools_n,
		.past = true,
	};
}

void past_none(struct poll *p)
{
	q_market_past_none(p->poller->deps.pg, &p->req,
	    &(struct q_market_past_none){ .provider = call_provider_name(p->provider),
		.region = p->region,
		.now_us = p->started_us,
		.soon_us = p->started_us + SOON_US,
		.later_us = p->started_us + feed_interval_us(p->poller, p->kind),
		.fence = p->epoch },
	    poll_recorded);
}

static void past_done(struct poll *p)
{
	int32_t *ids = arena_array(p->arena, p->pools_n, sizeof(*ids));

	for (size_t i = 0; i < p->pools_n; i++) {
		ids[i] = p->rows[i].id;
	}
	p->poller->stats.polls++;
	health_ok(p->poller, p->provider);
	pg_req_fini(&p->req);
	q_market_past_done(p->poller->deps.pg, &p->req,
	    &(struct q_market_past_done){ .provider = call_provider_name(p->provider),
		.region = p->region,
		.pools = ids,
		.pools_n = p->pools_n,
		.now_us = loop_wall_us(p->poller->deps.loop),
		.rows_seen = (int64_t)p->seen,
		.requests = p->call.requests,
		.fence = p->epoch },
	    poll_recorded);
}

static void refused_stored(struct op *op)
{
	struct poll *p = op_poll(op);

	if (op->rc != SPOT_OK) {
		poll_failed(p, &op->err);
		return;
	}
	past_done(p);
}

static bool copy_failed(struct op *op, struct poll **ret)
{
	struct poll *p = container_of(container_of(container_of(op, struct pg_copy, op),
					  struct price_ingest, copy),
	    struct poll, ingest);

	*ret = p;
	if (op->rc != SPOT_OK) {
		poll_failed(p, &op->err);
		return true;
	}
	p->poller->stats.changed += price_ingest_result(&p->ingest).changed;
	return false;
}

static void past_stored(struct op *op)
{
	struct poll *p;

	if (copy_failed(op, &p)) {
		return;
	}
	if (p->refused_n > 0) {
		poll_refused_put(p, refused_stored);
		return;
	}
	past_done(p);
}

static void priceless_stored(struct op *op)
{
	struct poll *p;

	if (!copy_failed(op, &p)) {
		price_ingest_past(p->poller->deps.pg, &p->ingest, p->points, p->ids, p->points_n,
		    past_stored);
	}
}

static const char *point_wrong(struct poll *p, int32_t row, const struct spot_price_point *point)
{
	struct price_claim c = {
		.key = &point->key,
		.shape = &p->pools[row].shape,
		.price_micros = point->price_micros,
		.effective_us = point->effective_us,
		.on_demand_micros = p->rows[row].on_demand_micros,
		.now_us = p->started_us,
	};

	return price_implausible(p->arena, &c);
}

void past_store(struct poll *p)
{
	const struct spot_prices *in = &p->args.prices;
	struct spot_price_point *fresh = arena_array(p->arena, in->n + 1, sizeof(*fresh));
	int32_t *fresh_ids = arena_array(p->arena, in->n + 1, sizeof(*fresh_ids));
	size_t fresh_n = 0;

	p->points = arena_array(p->arena, in->n + 1, sizeof(*p->points));
	p->ids = arena_array(p->arena, in->n + 1, sizeof(*p->ids));
	poll_refused_room(p, in->n);
	for (size_t i = 0; i < in->n && fresh_n < PRICE_BATCH_MAX && p->points_n < PRICE_BATCH_MAX;
	     i++) {
		int32_t row = poll_find(p, &in->points[i].key);
		const char *why = row < 0 ? NULL : point_wrong(p, row, &in->points[i]);

		if (row < 0) {
			continue;
		}
		if (why != NULL) {
			poll_refuse(p, row, &in->points[i], why);
		} else if (p->rows[row].last_micros == 0) {
			fresh[fresh_n] = in->points[i];
			fresh_ids[fresh_n++] = p->rows[row].id;
		} else {
			p->points[p->points_n] = in->points[i];
			p->ids[p->points_n++] = p->rows[row].id;
		}
	}
	p->seen = fresh_n + p->points_n;
	p->poller->stats.points += (int64_t)p->seen;
	p->ingest_used = true;
	if (fresh_n > 0) {
		price_ingest(p->poller->deps.pg, &p->ingest, NULL, fresh, fresh_ids, fresh_n,
		    priceless_stored);
		return;
	}
	price_ingest_past(p->poller->deps.pg, &p->ingest, p->points, p->ids, p->points_n,
	    past_stored);
}
