/*
 * The poller's upkeep: partitions ahead, retention, provider rows, ageing of prices. It goes round,
 * one statement at a time. A failed step is tried again after a while, since a database that
 * refuses it refuses at once. After some failures the round goes on, so that one step cannot stop
 * the others.
 */
#include "base/base.h"
#include "engine/market/market_priv.h"

#define UPKEEP_CHECKS 5 /* due checks between two steps */
/* tries of a step; the first two have no limit, since no poll works without them */
#define UPKEEP_TRIES 3
#define UPKEEP_ONCE (4 + POLLER_PURGES) /* steps done at the start of a round */
#define UPKEEP_ROUND 720 /* about an hour */
#define UPKEEP_AGES 6 /* every so many steps prices age, if one may be due */
/* They age after so many polls' time at the latest: a price may freeze, or have an old date. */
#define UPKEEP_AGES_POLLS 5

static void upkeep_next(struct poller *p, bool failed)
{
	bool first = p->upkeep_step < UPKEEP_ONCE + (int)p->deps.providers_n + 3;

	if (!failed || (++p->upkeep_fails == UPKEEP_TRIES && p->upkeep_step > 1)) {
		p->upkeep_step++;
		p->upkeep_fails = 0;
	}
	loop_timer_set(&p->housekeeping,
	    failed      ? poller_check_us(p)
		: first ? 0
			: UPKEEP_CHECKS * poller_check_us(p));
}

void poller_upkept(struct op *op)
{
	struct poller *p = container_of(container_of(op, struct pg_req, op), struct poller, upkeep);
	bool failed = op->rc != SPOT_OK;

	poller_purged(p);
	if (failed) {
		log_warn("poller.upkeep_failed", I64("step", p->upkeep_step),
		    STR("error", op->err.text));
	}
	if (!failed && p->upkeep_step == 1) {
		loop_timer_set(&p->tick, 0); /* the first feeds are there */
	}
	pg_req_fini(&p->upkeep);
	upkeep_next(p, failed);
}

static void prices_aged(struct op *op)
{
	struct poller *p = container_of(container_of(op, struct pg_req, op), struct poller, upkeep);
	const struct poller_conf *c = p->deps.conf;
	int64_t left_us = UPKEEP_AGES_POLLS * MIN(c->spot_us, c->on_demand_us);
	struct q_market_prices_age_row *row;
	struct arena *a = arena_new(0);

	if (op->rc == SPOT_OK && q_market_prices_age_rows(&p->upkeep, a, &row) == 1) {
		if (row->has_next_us) {
			left_us = MIN(left_us, row->next_us - loop_wall_us(p->deps.loop));
		}
		p->ages_us = loop_mono_us(p->deps.loop) + left_us;
	}
	arena_free(a);
	poller_upkept(op);
}

static void feeds_seed(struct poller *p)
{
	struct q_market_feeds_add_feed rows[16];
	size_t n = MIN(p->deps.providers_n, ARRAY_LEN(rows));

	for (size_t i = 0; i < n; i++) {
		rows[i] = (struct q_market_feeds_add_feed){
			.provider = p->names[i],
			.region = "",
			.feed = feed_name(FEED_REGIONS),
		};
	}
	q_market_feeds_add(p->deps.pg, &p->upkeep,
	    &(struct q_market_feeds_add){ .feed = rows,
		.feed_n = n,
		.now_us = loop_wall_us(p->deps.loop),
		.fence = p->deps.epoch(p->deps.ctx) },
	    poller_upkept);
}

/* The long part of a round: rows that purges left, provider rows, ageing of prices. */
static void upkeep_repeat(struct poller *p)
{
	const struct poller_conf *c = p->deps.conf;
	size_t at = (size_t)(p->upkeep_step % UPKEEP_ROUND) - UPKEEP_ONCE;

	if (p->purge_more != 0 && p->upkeep_step % 3 == 0) {
		poller_purge(p, __builtin_ctz(p->purge_more));
		return;
	}
	/* First every provider gets its row at once; then one at a time, changed ones first. */
	if (at < p->deps.providers_n) {
		health_store(p, at, poller_upkept);
		return;
	}
	if (p->upkeep_step % UPKEEP_AGES != 0) {
		if (p->deps.providers_n > 0) {
			health_store(p, health_next(p, at), poller_upkept);
		} else {
			upkeep_next(p, false);
		}
		return;
	}
	if (loop_mono_us(p->deps.loop) < p->ages_us) {
		upkeep_next(p, false);
		return;
	}
	q_market_prices_age(p->deps.pg, &p->upkeep,
	    &(struct q_market_prices_age){ .now_us = loop_wall_us(p->deps.loop),
		.spot_us = c->spot_us,
		.on_demand_us = c->on_demand_us,
		.frozen_us = c->frozen_us,
		.steady = p->steady,
		.steady_n = p->steady_n,
		.fence = p->deps.epoch(p->deps.ctx) },
	    prices_aged);
}

static void upkeep_begin(struct poller *p, int step)
{
	int64_t now = loop_wall_us(p->deps.loop);

	switch (step) {
	case 0:
		q_price_partitions_ensure(p->deps.pg, &p->upkeep,
		    &(struct q_price_partitions_ensure){ .from_us = now - PRICE_DAY_US,
			.to_us = now + 3 * PRICE_DAY_US },
		    poller_upkept);
		return;
	case 1:
		feeds_seed(p);
		return;
	case 2:
		q_price_partitions_drop(p->deps.pg, &p->upkeep,
		    &(struct q_price_partitions_drop){
			.before_us = now - p->deps.conf->retention_us },
		    poller_upkept);
		return;
	case 3:
		q_market_habits(p->deps.pg, &p->upkeep, &(struct q_market_habits){ .at_us = now },
		    poller_upkept);
		return;
	default:
		break;
	}
	if (step < UPKEEP_ONCE) {
		poller_purge(p, step - (UPKEEP_ONCE - POLLER_PURGES));
	} else {
		upkeep_repeat(p);
	}
}

static void upkeep_fired(struct loop_timer *t)
{
	struct poller *p = container_of(t, struct poller, housekeeping);

	if (p->deps.epoch(p->deps.ctx) == 0) {
		loop_timer_set(t, SPOT_US_PER_S / 2);
		return;
	}
	upkeep_begin(p, p->upkeep_step % UPKEEP_ROUND);
}

void poller_upkeep_init(struct poller *p)
{
	op_init(&p->upkeep.op, p->deps.loop, poller_upkept);
	loop_timer_init(&p->housekeeping, p->deps.loop, upkeep_fired);
}
