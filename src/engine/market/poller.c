/* Polls: when each feed is due, and its call. poller_store.c stores the results. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/market/market_priv.h"

#define CALL_TIMEOUT_US (300 * SPOT_US_PER_S)
#define CHECK_US SPOT_US_PER_S
#define UNRECORDED_US (10 * SPOT_US_PER_S)
#define BACKOFF_MAX_US (600 * SPOT_US_PER_S)

static const char *const names[FEED_COUNT] = {
	[FEED_REGIONS] = "regions",
	[FEED_POOLS] = "pools",
	[FEED_PRICES_SPOT] = "prices_spot",
	[FEED_PRICES_ON_DEMAND] = "prices_on_demand",
	[FEED_SIGNALS] = "signals",
	[FEED_QUOTAS] = "quotas",
	[FEED_PRICES_PAST] = "prices_past",
};

const char *feed_name(enum feed_kind k)
{
	return k > FEED_NONE && k < FEED_COUNT ? names[k] : "?";
}

enum feed_kind feed_parse(const char *s)
{
	for (int k = 1; k < (int)FEED_COUNT; k++) {
		if (strcmp(names[k], s) == 0) {
			return (enum feed_kind)k;
		}
	}
	return FEED_NONE;
}

int64_t feed_interval_us(const struct poller *p, enum feed_kind k)
{
	const struct poller_conf *c = p->deps.conf;

	switch (k) {
	case FEED_REGIONS:
		return c->regions_us;
	case FEED_POOLS:
		return c->pools_us;
	case FEED_PRICES_SPOT:
		return c->spot_us;
	case FEED_PRICES_ON_DEMAND:
		return c->on_demand_us;
	case FEED_SIGNALS:
		return c->signals_us;
	case FEED_QUOTAS:
		return c->quotas_us;
	case FEED_PRICES_PAST:
		return c->pools_us;
	case FEED_NONE:
	case FEED_COUNT:
		break;
	}
	return c->pools_us;
}

static struct call_provider *provider_find(const struct poller *p, const char *name)
{
	for (size_t i = 0; i < p->deps.providers_n; i++) {
		if (strcmp(call_provider_name(p->deps.providers[i]), name) == 0) {
			return p->deps.providers[i];
		}
	}
	return NULL;
}

static void poll_free(void *v)
{
	struct poll *p = v;

	loop_timer_stop(&p->unrecorded);
	op_fini(&p->call.op);
	pg_req_fini(&p->req);
	if (p->ingest_used) {
		price_ingest_fini(&p->ingest);
	}
	arena_free(p->arena);
	free(p);
}

static void poll_end(struct poll *p)
{
	struct poller *poller = p->poller;

	for (struct poll **at = &poller->polls; *at != NULL; at = &(*at)->next) {
		if (*at == p) {
			*at = p->next;
			break;
		}
	}
	poller->running--;
	/* The read under way may still call this feed due. */
	poller->due_old |= op_busy(&poller->due.op);
	loop_timer_set(&poller->tick, 0);
	loop_bury(poller->deps.loop, p, poll_free);
}

static void poll_unrecorded(struct loop_timer *t)
{
	poll_end(container_of(t, struct poll, unrecorded));
}

/* A poll that could not be recorded is still due: the provider must not get it again without a
 * pause. */
void poll_recorded(struct op *op)
{
	struct poll *p = container_of(container_of(op, struct pg_req, op), struct poll, req);

	if (op->rc == SPOT_OK) {
		poll_end(p);
		return;
	}
	log_warn("poller.record_failed", STR("provider", call_provider_name(p->provider)),
	    STR("feed", feed_name(p->kind)), STR("error", op->err.text));
	loop_timer_set(&p->unrecorded, MIN(UNRECORDED_US, feed_interval_us(p->poller, p->kind)));
}

void poll_done(struct poll *p)
{
	struct poller *poller = p->poller;
	int64_t now = loop_wall_us(poller->deps.loop);
	int64_t pause =
	    rng_jitter(loop_rng(poller->deps.loop), feed_interval_us(poller, p->kind), 0.1);
	struct q_market_feed_done q = {
		.provider = call_provider_name(p->provider),
		.region = p->region,
		.feed = feed_name(p->kind),
		.ok_us = now,
		.next_us = p->started_us + pause,
		.since_us = p->started_us,
		.rows_seen = (int64_t)p->seen,
		.requests = p->call.requests,
		.fence = p->epoch,
		.interval_us = feed_interval_us(poller, p->kind),
		.tells_past = p->kind == FEED_PRICES_SPOT && p->since_us > 0 &&
		    (call_provider_ops(p->provider)->caps & SPOT_CAP_PRICE_HISTORY) != 0,
	};

	poller->stats.polls++;
	health_ok(poller, p->provider);
	log_debug("poller.polled", STR("provider", q.provider), STR("region", q.region),
	    STR("feed", q.feed), I64("rows", q.rows_seen), DUR("took", now - p->started_us));
	pg_req_fini(&p->req);
	q_market_feed_done(poller->deps.pg, &p->req, &q, poll_recorded);
}

void poll_failed(struct poll *p, const struct spot_err *err)
{
	struct poller *poller = p->poller;
	static const struct backoff waits = { .first_us = 2 * SPOT_US_PER_S,
		.cap_us = BACKOFF_MAX_US };
	int64_t pause = backoff_wait_us(&waits, p->fails, NULL);
	struct q_market_feed_failed q = {
		.provider = call_provider_name(p->provider),
		.region = p->region,
		.feed = feed_name(p->kind),
		.error = err->text,
		.requests = p->call.requests,
		.fence = p->epoch,
	};

	pause = MAX(MIN(pause, feed_interval_us(poller, p->kind)), err->retry_after_us);
	q.next_us =
	    loop_wall_us(poller->deps.loop) + rng_jitter(loop_rng(poller->deps.loop), pause, 0.25);
	poller->stats.failed++;
	health_failed(poller, p->provider, err);
	log_warn("poller.failed", STR("provider", q.provider), STR("region", q.region),
	    STR("feed", q.feed), STR("rc", spot_rc_name(err->rc)), STR("error", err->text),
	    DUR("again_in", pause));
	pg_req_fini(&p->req);
	q_market_feed_failed(poller->deps.pg, &p->req, &q, poll_recorded);
}

static void call_done(struct op *op)
{
	struct poll *p = container_of(container_of(op, struct call, op), struct poll, call);

	if (op->rc != SPOT_OK) {
		poll_failed(p, &op->err);
		return;
	}
	poll_store(p);
}

static void poll_call(struct poll *p)
{
	enum call_verb verb = CALL_REGIONS;
	void *args = &p->args;

	switch (p->kind) {
	case FEED_POOLS:
		verb = CALL_POOLS;
		p->args.pools.region = p->region;
		break;
	case FEED_PRICES_SPOT:
	case FEED_PRICES_ON_DEMAND:
		verb = CALL_PRICES;
		p->args.prices = (struct spot_prices){
			.region = p->region,
			.market =
			    p->kind == FEED_PRICES_SPOT ? SPOT_MARKET_SPOT : SPOT_MARKET_ON_DEMAND,
			.since_us = p->since_us,
			.pools = p->pools,
			.pools_n = p->pools_n,
		};
		break;
	case FEED_PRICES_PAST:
		verb = CALL_PRICES;
		past_args(p);
		break;
	case FEED_SIGNALS:
		verb = CALL_SIGNALS;
		p->args.signals = (struct spot_signals){ .region = p->region,
			.pools = p->pools,
			.pools_n = p->pools_n };
		break;
	case FEED_QUOTAS:
		verb = CALL_QUOTAS;
		p->args.quotas.region = p->region;
		break;
	case FEED_REGIONS:
	case FEED_NONE:
	case FEED_COUNT:
		break;
	}
	call_start(&p->call, p->provider, verb, args, p->arena, CALL_TIMEOUT_US, 0, false,
	    call_done);
}

static void pools_read(struct op *op)
{
	struct poll *p = container_of(container_of(op, struct pg_req, op), struct poll, req);
	struct q_market_feed_later q = {
		.provider = call_provider_name(p->provider),
		.region = p->region,
		.feed = feed_name(p->kind),
		.next_us = p->started_us + 2 * SPOT_US_PER_S,
		.fence = p->epoch,
	};

	if (op->rc != SPOT_OK) {
		poll_failed(p, &op->err);
		return;
	}
	p->pools_n = q_market_pools_of_rows(&p->req, p->arena, &p->rows);
	pg_req_fini(&p->req);
	if (p->pools_n == 0 && p->kind == FEED_PRICES_PAST) {
		past_none(p);
		return;
	}
	if (p->pools_n == 0) {
		/* No pools are known yet, or this region sells nothing: polls again when there may
		 * be some. */
		q.next_us = p->started_us +
		    (p->first ? 2 * SPOT_US_PER_S : feed_interval_us(p->poller, FEED_POOLS));
		q_market_feed_later(p->poller->deps.pg, &p->req, &q, poll_recorded);
		return;
	}
	poll_index_pools(p);
	poll_call(p);
}

static void poll_begin(struct poller *poller, struct call_provider *provider,
    const struct q_market_feeds_due_row *row)
{
	struct poll *p = calloc(1, sizeof(*p));

	assert(p != NULL);
	p->poller = poller;
	loop_timer_init(&p->unrecorded, poller->deps.loop, poll_unrecorded);
	p->arena = arena_new(0);
	p->provider = provider;
	p->kind = feed_parse(row->feed);
	p->region = arena_strdup(p->arena, row->region);
	p->first = row->since_us == 0;
	p->since_us = row->since_us;
	p->fails = row->fails;
	p->started_us = loop_wall_us(poller->deps.loop);
	p->epoch = poller->deps.epoch(poller->deps.ctx);
	/* Older points than the stored ones are not accepted later: the past is read at once where
	 * it costs little. */
	if (p->first && p->kind == FEED_PRICES_SPOT &&
	    (call_provider_ops(provider)->caps & SPOT_CAP_PAST_APART) == 0) {
		p->since_us = p->started_us - POLL_PAST_US;
	}
	p->next = poller->polls;
	poller->polls = p;
	poller->running++;
	op_init(&p->call.op, poller->deps.loop, NULL);
	if (p->kind == FEED_PRICES_PAST) {
		past_pools(p, pools_read);
		return;
	}
	if (p->kind == FEED_PRICES_SPOT || p->kind == FEED_PRICES_ON_DEMAND ||
	    p->kind == FEED_SIGNALS) {
		q_market_pools_of(poller->deps.pg, &p->req,
		    &(struct q_market_pools_of){ .provider = row->provider, .region = row->region },
		    pools_read);
		return;
	}
	poll_call(p);
}

static bool already_running(const struct poller *p, const struct q_market_feeds_due_row *row)
{
	for (const struct poll *q = p->polls; q != NULL; q = q->next) {
		if (strcmp(call_provider_name(q->provider), row->provider) == 0 &&
		    strcmp(q->region, row->region) == 0 &&
		    strcmp(feed_name(q->kind), row->feed) == 0) {
			return true;
		}
	}
	return false;
}

/* Calls wait in their slots for their provider's rate: each other provider keeps one. The past has
 * half of its provider's at most. */
static bool has_slot(const struct poller *p, const struct call_provider *provider,
    enum feed_kind kind)
{
	int most = p->deps.conf->parallel_max - (int)p->deps.providers_n + 1, n = 0, past = 0;

	for (const struct poll *q = p->polls; q != NULL; q = q->next) {
		n += q->provider == provider;
		past += q->provider == provider && q->kind == FEED_PRICES_PAST;
	}
	return n < MAX(most, 1) && (kind != FEED_PRICES_PAST || past < MAX(most / 2, 1));
}

int64_t poller_check_us(const struct poller *p)
{
	return p->deps.conf->look_us > 0 ? p->deps.conf->look_us : CHECK_US;
}

static void due_read(struct op *op)
{
	struct poller *p = container_of(container_of(op, struct pg_req, op), struct poller, due);
	struct q_market_feeds_due_row *rows;
	size_t n;

	loop_timer_set(&p->tick, poller_check_us(p));
	if (op->rc != SPOT_OK) {
		log_warn("poller.due_failed", STR("error", op->err.text));
		pg_req_fini(&p->due);
		return;
	}
	if (p->due_old) {
		pg_req_fini(&p->due);
		loop_timer_set(&p->tick, 0);
		return;
	}
	arena_reset(p->arena);
	n = q_market_feeds_due_rows(&p->due, p->arena, &rows);
	pg_req_fini(&p->due);
	for (size_t i = 0; i < n && p->running < p->deps.conf->parallel_max; i++) {
		struct call_provider *provider = provider_find(p, rows[i].provider);

		if (provider != NULL && feed_parse(rows[i].feed) != FEED_NONE &&
		    has_slot(p, provider, feed_parse(rows[i].feed)) &&
		    !already_running(p, &rows[i])) {
			poll_begin(p, provider, &rows[i]);
		}
	}
	if (n > 0) {
		loop_timer_set(&p->tick, SPOT_US_PER_S / 2);
	}
}

static void poll_tick(struct loop_timer *t)
{
	struct poller *p = container_of(t, struct poller, tick);
	struct q_market_feeds_due q = {
		.providers = p->names,
		.providers_n = p->deps.providers_n,
		.now_us = loop_wall_us(p->deps.loop),
		.most = p->deps.conf->parallel_max * 4,
	};

	loop_timer_set(t, p->deps.epoch(p->deps.ctx) > 0 ? poller_check_us(p) : SPOT_US_PER_S / 2);
	if (p->deps.epoch(p->deps.ctx) == 0 || op_busy(&p->due.op) ||
	    p->running >= p->deps.conf->parallel_max) {
		return;
	}
	p->due_old = false;
	q_market_feeds_due(p->deps.pg, &p->due, &q, due_read);
}

struct poller *poller_new(const struct poller_deps *deps)
{
	struct poller *p = calloc(1, sizeof(*p));

	assert(p != NULL);
	p->deps = *deps;
	p->purging = -1;
	p->arena = arena_new(0);
	p->names = calloc(deps->providers_n + 1, sizeof(*p->names));
	p->steady = calloc(deps->providers_n + 1, sizeof(*p->steady));
	assert(p->names != NULL && p->steady != NULL);
	for (size_t i = 0; i < deps->providers_n; i++) {
		p->names[i] = call_provider_name(deps->providers[i]);
		if ((call_provider_ops(deps->providers[i])->caps & SPOT_CAP_PRICE_STEADY) != 0) {
			p->steady[p->steady_n++] = p->names[i];
		}
	}
	health_init(p);
	op_init(&p->due.op, deps->loop, due_read);
	poller_upkeep_init(p);
	loop_timer_init(&p->tick, deps->loop, poll_tick);
	loop_timer_set(&p->tick, 0);
	loop_timer_set(&p->housekeeping, 0);
	return p;
}

void poller_free(struct poller *p)
{
	if (p == NULL) {
		return;
	}
	loop_timer_stop(&p->tick);
	loop_timer_stop(&p->housekeeping);
	pg_req_fini(&p->due);
	pg_req_fini(&p->upkeep);
	while (p->polls != NULL) {
		struct poll *q = p->polls;

		p->polls = q->next;
		poll_free(q);
	}
	health_fini(p);
	arena_free(p->arena);
	free(p->names);
	free(p->steady);
	free(p);
}

struct poller_stats poller_stats(const struct poller *p)
{
	return p->stats;
}
