/*
 * POST /v1/backtest: past prices and supply of the pools that suit a job file, from our own rows,
 * as samples side by side. It also says which pools each round would have looked at. The caller
 * (spotctl backtest) runs the policies over them: the same code as everywhere, and no load here. No
 * choice uses later data. The pools of each round are the cheapest by the prices at its begin. The
 * machine of a fall-back is paid at the price of the begin.
 */
#include "base/base.h"
#include "api/jobs/jobs.h"
#include "api/jobs/jobs_priv.h"

#include "core/policy/policy.h"
#include "core/trace/trace.h"

#include <math.h>

#define POOLS_MOST 1000 /* with their past read */
#define PICKS_MOST 5 /* a round */
#define SHOWN_MOST 32 /* of all rounds together */
#define ROUNDS_MOST 30
#define ROUND_US (24 * SPOT_US_PER_HOUR)
#define WORDS_MOST 100000
#define POINTS_MOST 200000
#define TICK_US (600 * SPOT_US_PER_S)
#define SPAN_MOST (400 * 24 * SPOT_US_PER_HOUR)
#define SPAN (14 * 24 * SPOT_US_PER_HOUR)
#define DEADLINE_MOST_S (400 * 86400)
#define BYTES_PER_GB 1e9

struct backtest {
	struct planned *plan;
	const struct score *on_demand;
	/* that suit; the machine that is fallen back on is the last */
	const struct offer **pools;
	struct past_pool *past; /* of each */
	int32_t *ids;
	size_t n; /* spot pools */
	const struct past_pick *picks;
	size_t picks_n;
	size_t *shown;
	size_t shown_n; /* pools that any round picked, in the order of the rounds */
	int64_t from_us, to_us, round_us, deadline_us;
	struct supply_word *words;
	size_t words_n;
};

static void pools_add(struct backtest *b, const struct offer *o)
{
	double t = rank_throughput(b->plan->spec, o) / b->on_demand->throughput;

	if (b->n < POOLS_MOST && o->market == SPOT_MARKET_SPOT && t >= 0.8) {
		b->past[b->n].speed = t;
		b->ids[b->n] = o->pool_id;
		b->pools[b->n++] = o;
	}
}

/* A refusal of today says nothing about the past. */
static bool today_only(enum refusal why)
{
	return why == REFUSED_COOLING || why == REFUSED_CAPACITY || why == REFUSED_ODDS ||
	    why == REFUSED_QUOTA || why == REFUSED_IMPLAUSIBLE;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static json_t *prices_json(const struct backtest *b, size_t pool)
{
	const struct past_pool *p = &b->past[pool];
	json_t *list = json_array();

	for (size_t i = 0; i < p->n; i++) {
		json_array_append_new(list,
		    json_pack("[I, I]", (json_int_t)((p->prices[i].at_us - b->from_us) / TICK_US),
			(json_int_t)llround((double)p->prices[i].micros / p->speed)));
	}
	return list;
}

static json_t *rounds_json(const struct backtest *b, size_t pool)
{
	json_t *list = json_array();

	for (size_t i = 0; i < b->picks_n; i++) {
		if (b->picks[i].pool == pool) {
			json_array_append_new(list, json_integer((json_int_t)b->picks[i].round));
		}
	}
	return list;
}

/* One character a sample; what our rows do not say is not known. */
static json_t *pool_json(struct areq *q, const struct backtest *b, size_t i)
{
	size_t ticks = (size_t)((b->to_us - b->from_us) / TICK_US);
	char *up = arena_alloc(q->arena, ticks + 1);
	const struct offer *o = b->pools[i];
	struct policy_track t;

	supply_track_make(q->arena, b->words, b->words_n, b->ids[i], TICK_US, PLACE_DOWN_US,
	    b->to_us, &t);
	memset(up, '?', ticks);
	up[ticks] = '\0';
	for (size_t k = 0; k < MIN(t.n, ticks); k++) {
		up[ticks - 1 - k] = t.up[t.n - 1 - k] ? '1' : '0';
	}
	return json_pack("{s:o, s:s, s:s, s:s, s:s, s:b, s:s, s:f, s:f, s:o, s:o}", "id",
	    json_sprintf("p%d", o->pool_id), "provider", o->provider, "region", o->region, "zone",
	    o->zone, "instance_type", o->instance_type, "tried", t.n > 0, "up", up,
	    "hazard_per_hour", o->hazard, "launch_odds", o->launch, "rounds", rounds_json(b, i),
	    "prices", prices_json(b, i));
}

/* The dearest move of a checkpoint between two regions that were picked. */
static int64_t transfer_micros(const struct backtest *b)
{
	double gb = (double)b->plan->spec->checkpoint.size_bytes / BYTES_PER_GB;
	int64_t most = 0;

	for (size_t i = 0; i < b->shown_n; i++) {
		for (size_t k = 0; k < b->shown_n; k++) {
			const struct offer *from = b->pools[b->shown[i]],
					   *to = b->pools[b->shown[k]];

			if (strcmp(from->region, to->region) != 0 ||
			    strcmp(from->provider, to->provider) != 0) {
				most = MAX(most,
				    egress_micros_per_gb(from->provider, from->region, to->provider,
					to->region));
			}
		}
	}
	return llround(gb * (double)most);
}

static void words_done(struct areq *q)
{
	struct backtest *b = q->own;
	struct q_engine_supply_words_row *rows;
	const struct job_spec *s = b->plan->spec;
	const struct score *od = b->on_demand;
	int64_t od_micros = past_price_at(&b->past[b->n], b->from_us);
	json_t *pools = json_array();

	b->words_n = q_engine_supply_words_rows(&q->pg, q->arena, &rows);
	b->words = arena_array(q->arena, b->words_n + 1, sizeof(*b->words));
	for (size_t i = 0; i < b->words_n; i++) {
		b->words[i] = (struct supply_word){ .pool_id = rows[i].pool_id,
			.from_us = rows[i].from_us,
			.to_us = rows[i].to_us,
			.up = rows[i].up };
	}
	for (size_t i = 0; i < b->shown_n; i++) {
		json_array_append_new(pools, pool_json(q, b, b->shown[i]));
	}
	areq_json(q, 200,
	    json_pack("{s:s, s:I, s:I, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:i, s:o}",
		"job", s->name, "from@", (json_int_t)b->from_us, "to@", (json_int_t)b->to_us,
		"tick_s", (int)(TICK_US / SPOT_US_PER_S), "round_s",
		(int)(b->round_us / SPOT_US_PER_S), "work_us",
		(json_int_t)(od->work_h * (double)SPOT_US_PER_HOUR), "deadline_us",
		(json_int_t)b->deadline_us, "changeover_us",
		(json_int_t)(b->plan->policy.rank.restart_s * SPOT_US_PER_S), "checkpoint_bytes",
		(json_int_t)b->plan->spec->checkpoint.size_bytes, "transfer_micros",
		(json_int_t)transfer_micros(b), "on_demand_micros",
		(json_int_t)(od_micros > 0 ? od_micros : od->price_micros), "on_demand_type",
		od->offer->instance_type, "on_demand_region", od->offer->region, "pools_known",
		(int)b->n, "pools", pools));
}

/* ---- knowledge at each moment ---------------------------------------------------------------- */

static void prices_fill(struct areq *q, struct backtest *b,
    const struct q_api_backtest_prices_row *rows, size_t n)
{
	struct past_price *prices = arena_array(q->arena, n + 1, sizeof(*prices));

	for (size_t i = 0; i < n; i++) {
		prices[i] = (struct past_price){ rows[i].at_us, rows[i].price_micros };
	}
	for (size_t k = 0; k <= b->n; k++) {
		size_t lo = 0, hi = n;

		/* Rows are ordered by pool. */
		while (lo < hi) {
			size_t mid = lo + (hi - lo) / 2;

			if (rows[mid].pool_id < b->ids[k]) {
				lo = mid + 1;
			} else {
				hi = mid;
			}
		}
		b->past[k].prices = &prices[lo];
		while (lo + b->past[k].n < n && rows[lo + b->past[k].n].pool_id == b->ids[k]) {
			b->past[k].n++;
		}
	}
}

static void shown_collect(struct areq *q, struct backtest *b)
{
	bool *in = arena_array(q->arena, b->n + 1, sizeof(*in));

	b->shown = arena_array(q->arena, SHOWN_MOST, sizeof(*b->shown));
	for (size_t i = 0; i < b->picks_n && b->shown_n < SHOWN_MOST; i++) {
		if (!in[b->picks[i].pool]) {
			b->shown[b->shown_n++] = b->picks[i].pool;
		}
		in[b->picks[i].pool] = true;
	}
}

static void prices_done(struct areq *q)
{
	struct backtest *b = q->own;
	struct q_api_backtest_prices_row *rows;
	size_t n = q_api_backtest_prices_rows(&q->pg, q->arena, &rows);
	struct past_pick *picks;
	int32_t *ids;

	if (n == POINTS_MOST) {
		areq_fail_field(q, "from",
		    "the %zu suitable pools have more than %d price changes since 'from'; begin "
		    "later, or name a provider, a region or fewer GPUs",
		    b->n, POINTS_MOST);
		return;
	}
	prices_fill(q, b, rows, n);
	b->picks_n = past_picks(q->arena, b->past, b->n, b->from_us, b->to_us, b->round_us,
	    PICKS_MOST, &picks);
	b->picks = picks;
	shown_collect(q, b);
	if (b->shown_n == 0) {
		areq_fail(q, SPOT_NO_CAPACITY,
		    "no price is recorded up to 'to' for the %zu suitable spot pools", b->n);
		return;
	}
	ids = arena_array(q->arena, b->shown_n, sizeof(*ids));
	for (size_t i = 0; i < b->shown_n; i++) {
		ids[i] = b->ids[b->shown[i]];
	}
	SQL(q, engine_supply_words, words_done, .pools = ids, .pools_n = b->shown_n,
	    .since_us = b->from_us - SPAN, .most = WORDS_MOST);
}

static bool span_read(struct areq *q, struct backtest *b)
{
	if (!areq_query_time(q, "to", q->now_us, &b->to_us) ||
	    !areq_query_time(q, "from", b->to_us - SPAN, &b->from_us)) {
		return false;
	}
	b->to_us = MIN(b->to_us, q->now_us);
	if (b->from_us >= b->to_us || b->to_us - b->from_us > SPAN_MOST) {
		areq_fail_field(q, "from", "must be before 'to', by at most 400 days");
		return false;
	}
	/* Whole ticks that end at `to`, whole ticks a round. */
	b->from_us = b->to_us - (b->to_us - b->from_us) / TICK_US * TICK_US;
	b->round_us = MAX(ROUND_US,
	    ((b->to_us - b->from_us) / ROUNDS_MOST + TICK_US - 1) / TICK_US * TICK_US);
	return true;
}

/* From the start of a run: as asked, else the file's. As the engine does, what is fallen back on
 * must be in time. */
static bool fallback_choose(struct areq *q, struct backtest *b)
{
	const struct planned *p = b->plan;
	int64_t asked_s;

	if (!areq_query_i64(q, "deadline_s", 0, DEADLINE_MOST_S, 0, &asked_s)) {
		return false;
	}
	b->deadline_us = asked_s > 0 ? asked_s * SPOT_US_PER_S
	    : p->spec->deadline_us != 0
	    ? p->spec->deadline_us - MAX(q->now_us, p->spec->start_after_us)
	    : 0;
	b->on_demand = b->deadline_us == 0
	    ? plan_best(p, SPOT_MARKET_ON_DEMAND)
	    : rank_in_time(&p->all.ranking, SPOT_MARKET_ON_DEMAND,
		  (double)b->deadline_us / 3600e6 - (double)p->policy.rank.restart_s / 3600.0);
	if (b->on_demand == NULL) {
		areq_fail(q, SPOT_NO_CAPACITY,
		    "no on-demand pool suits this job, so there is nothing to fall back to and no "
		    "deadline can be promised");
	}
	return b->on_demand != NULL;
}

static void backtest_planned(struct areq *q, struct planned *p)
{
	struct backtest *b = arena_alloc(q->arena, sizeof(*b));

	*b = (struct backtest){ .plan = p };
	if (!span_read(q, b)) {
		return;
	}
	if (p->spec->num_nodes > 1) {
		areq_fail_field(q, "num_nodes",
		    "the records cover single machines, not %d together; remove num_nodes to see "
		    "the cost of one",
		    p->spec->num_nodes);
		return;
	}
	if (!fallback_choose(q, b)) {
		return;
	}
	b->ids = arena_array(q->arena, POOLS_MOST + 1, sizeof(*b->ids));
	b->past = arena_array(q->arena, POOLS_MOST + 1, sizeof(*b->past));
	b->pools = arena_array(q->arena, POOLS_MOST + 1, sizeof(*b->pools));
	for (size_t i = 0; i < p->all.ranking.usable; i++) {
		pools_add(b, p->all.ranking.scores[i].offer);
	}
	for (size_t i = 0; i < p->all.ranking.refused_n; i++) {
		if (today_only(p->all.ranking.refused[i].why)) {
			pools_add(b, p->all.ranking.refused[i].offer);
		}
	}
	if (b->n == 0) {
		areq_fail(q, SPOT_NO_CAPACITY,
		    "no spot pool suits this job; POST /v1/plan lists the reasons");
		return;
	}
	if (b->n == POOLS_MOST) {
		areq_fail_field(q, "resources",
		    "at least %d spot pools suit this job, too many to compare; name a provider, a "
		    "region or fewer GPUs",
		    POOLS_MOST);
		return;
	}
	b->ids[b->n] = b->on_demand->offer->pool_id;
	b->past[b->n].speed = 1;
	b->pools[b->n] = b->on_demand->offer;
	q->own = b;
	SQL(q, api_backtest_prices, prices_done, .pools = b->ids, .pools_n = b->n + 1,
	    .from_us = b->from_us, .to_us = b->to_us, .most = POINTS_MOST);
}

void post_backtest(struct areq *q)
{
	plan_begin(q, backtest_planned);
}
