/*
 * POST /v1/backtest: what a job file's best pools cost and when they could be had, out of our own rows, as samples side by
 * side. The policies are run over them by the caller (spotctl backtest): the same code as everywhere, and no load here.
 */
#include "base/base.h"
#include "api/plan.h"

#include "core/supply_track.h"

#include <math.h>

#define POOLS_MOST  5
#define WORDS_MOST  100000
#define POINTS_MOST 200000
#define TICK_US     (600 * SPOT_US_PER_S)
#define SPAN_MOST   (400 * 24 * SPOT_US_PER_HOUR)
#define SPAN        (14 * 24 * SPOT_US_PER_HOUR)
/* As the engine reads it (engine/deadline.c): after a refusal a pool counts as down for so long. */
#define DOWN_US     (1800 * SPOT_US_PER_S)

struct backtest {
	struct planned *plan;
	const struct score *on_demand;
	const struct offer *pools[POOLS_MOST];
	double speed[POOLS_MOST];      /* against the on-demand machine */
	size_t n;
	int32_t *ids;
	int64_t from_us, to_us;
	struct supply_word *words;
	size_t words_n;
};

static void pools_add(struct backtest *b, const struct offer *o)
{
	double t = rank_throughput(b->plan->spec, o) / b->on_demand->throughput;

	if (b->n < POOLS_MOST && o->market == SPOT_MARKET_SPOT && t >= 0.8) {
		b->speed[b->n] = t;
		b->ids[b->n] = o->pool_id;
		b->pools[b->n++] = o;
	}
}

static json_t *prices_json(const struct backtest *b, size_t pool, const struct q_api_backtest_prices_row *rows, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		if (rows[i].pool_id == b->ids[pool])
			json_array_append_new(list, json_pack("[I, I]", (json_int_t)((rows[i].at_us - b->from_us) / TICK_US),
			    (json_int_t)llround((double)rows[i].price_micros / b->speed[pool])));
	}
	return list;
}

/* One character a sample. A pool nobody tried is taken to have been there: "tried" says so. */
static json_t *pool_json(struct areq *q, const struct backtest *b, size_t i, const struct q_api_backtest_prices_row *rows, size_t n)
{
	size_t ticks = (size_t)((b->to_us - b->from_us) / TICK_US);
	char *up = arena_alloc(q->arena, ticks + 1);
	const struct offer *o = b->pools[i];
	struct policy_track t;

	supply_track_make(q->arena, b->words, b->words_n, b->ids[i], TICK_US, DOWN_US, b->to_us, &t);
	memset(up, '1', ticks);
	up[ticks] = '\0';
	for (size_t k = 0; k < MIN(t.n, ticks); k++)
		up[ticks - 1 - k] = t.up[t.n - 1 - k] ? '1' : '0';
	return json_pack("{s:o, s:s, s:s, s:s, s:s, s:b, s:s, s:o}", "id", json_sprintf("p%d", o->pool_id), "provider", o->provider,
	    "region", o->region, "zone", o->zone, "instance_type", o->instance_type, "tried", t.n > 0, "up", up, "prices",
	    prices_json(b, i, rows, n));
}

static void prices_done(struct areq *q)
{
	struct backtest *b = q->own;
	struct q_api_backtest_prices_row *rows;
	size_t n = q_api_backtest_prices_rows(&q->pg, q->arena, &rows);
	const struct job_spec *s = b->plan->spec;
	const struct score *od = b->on_demand;
	json_t *pools = json_array();

	for (size_t i = 0; i < b->n; i++)
		json_array_append_new(pools, pool_json(q, b, i, rows, n));
	areq_json(q, 200, json_pack("{s:s, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:s, s:s, s:o}", "job", s->name, "from@",
	    (json_int_t)b->from_us, "to@", (json_int_t)b->to_us, "tick_s", (int)(TICK_US / SPOT_US_PER_S), "work_us",
	    (json_int_t)(od->work_h * (double)SPOT_US_PER_HOUR), "deadline_us",
	    (json_int_t)(s->deadline_us ? s->deadline_us - MAX(q->now_us, s->start_after_us) : 0), "changeover_us",
	    (json_int_t)(b->plan->policy.restart_s * SPOT_US_PER_S), "on_demand_micros", (json_int_t)od->price_micros,
	    "on_demand_type", od->offer->instance_type, "on_demand_region", od->offer->region, "pools", pools));
}

static void words_done(struct areq *q)
{
	struct backtest *b = q->own;
	struct q_engine_supply_words_row *rows;

	b->words_n = q_engine_supply_words_rows(&q->pg, q->arena, &rows);
	b->words = arena_array(q->arena, b->words_n + 1, sizeof(*b->words));
	for (size_t i = 0; i < b->words_n; i++) {
		b->words[i] = (struct supply_word){.pool_id = rows[i].pool_id, .from_us = rows[i].from_us, .to_us = rows[i].to_us,
		    .up = rows[i].up};
	}
	SQL(q, api_backtest_prices, prices_done, .pools = b->ids, .pools_n = b->n, .from_us = b->from_us, .to_us = b->to_us,
	    .most = POINTS_MOST);
}

static bool span_read(struct areq *q, struct backtest *b)
{
	if (!areq_query_time(q, "to", q->now_us, &b->to_us) || !areq_query_time(q, "from", b->to_us - SPAN, &b->from_us))
		return false;
	b->to_us = MIN(b->to_us, q->now_us);
	if (b->from_us >= b->to_us || b->to_us - b->from_us > SPAN_MOST) {
		areq_fail_field(q, "from", "must be before 'to', and at most 400 days before it");
		return false;
	}
	/* Whole ticks that end at `to`. */
	b->from_us = b->to_us - (b->to_us - b->from_us) / TICK_US * TICK_US;
	return true;
}

static void planned(struct areq *q, struct planned *p)
{
	struct backtest *b = arena_alloc(q->arena, sizeof(*b));

	*b = (struct backtest){.plan = p, .on_demand = plan_best(p, SPOT_MARKET_ON_DEMAND)};
	b->ids = arena_array(q->arena, POOLS_MOST, sizeof(*b->ids));
	if (!span_read(q, b))
		return;
	if (p->spec->num_nodes > 1) {
		areq_fail_field(q, "num_nodes", "our rows say when one machine could be had, not when %d could together; leave it out to see "
		    "what one would have cost", p->spec->num_nodes);
		return;
	}
	/* As the engine does: what is fallen back on must be in time. */
	if (p->spec->deadline_us != 0) {
		b->on_demand = rank_in_time(&p->ranking, SPOT_MARKET_ON_DEMAND, (double)(p->spec->deadline_us -
		    MAX(q->now_us, p->spec->start_after_us)) / 3600e6 - (double)p->policy.restart_s / 3600.0);
	}
	if (b->on_demand == NULL) {
		areq_fail(q, SPOT_NO_CAPACITY, "no on-demand pool suits this job: there is nothing to fall back to, so no deadline "
		    "could be promised");
		return;
	}
	for (size_t i = 0; i < p->usable; i++)
		pools_add(b, p->scores[i].offer);
	for (size_t i = 0; i < p->ranking.refused_n; i++) {
		if (p->ranking.refused[i].why == REFUSED_COOLING)
			pools_add(b, p->ranking.refused[i].offer);
	}
	if (b->n == 0) {
		areq_fail(q, SPOT_NO_CAPACITY, "no spot pool suits this job: see POST /v1/plan");
		return;
	}
	q->own = b;
	SQL(q, engine_supply_words, words_done, .pools = b->ids, .pools_n = b->n, .since_us = b->from_us - SPAN, .most = WORDS_MOST);
}

void post_backtest(struct areq *q)
{
	plan_begin(q, planned);
}
