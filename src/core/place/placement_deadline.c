/*
 * The deadline policy's part of a decision: its candidates, the time held back, and its answer. A
 * job with a deadline is placed by core/policy/policy.h, not by patience. The policy sees the best
 * spot pools, their past in our own rows, and the job's progress. It says spot (in which pool), on
 * demand, or wait.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/place/placement.h"

#define TICKS_LEAST 100
#define TICKS_MOST 1000

bool placement_plans(const struct place_in *in, const struct job_facts *f, const struct placing *p)
{
	if (f->deadline_us == 0 || p->on_demand == NULL || !p->job.spot_allowed ||
	    f->deadline_us <= in->now_us) {
		return false;
	}
	/* Nothing is gained by waiting for what costs more: the job begins on demand at once. */
	return p->spot == NULL || p->on_demand->total_micros > p->spot->total_micros;
}

/* ---- candidates ------------------------------------------------------------------------------ */

static int64_t left_us(const struct place_in *in, const struct place_question *q)
{
	return q->facts.deadline_us - in->now_us - placement_changeover_us(in->policy, &q->facts);
}

/* A slower machine loses ground to the plan while it runs: it must be able to finish in time
 * itself. */
static bool too_slow(const struct place_in *in, const struct place_question *q,
    const struct score *s)
{
	return s != NULL && s->throughput < q->placing.on_demand->throughput &&
	    s->hours * (double)SPOT_US_PER_HOUR > (double)left_us(in, q);
}

/* The policy's clock of progress is the on-demand machine's. A much slower machine makes it wrong,
 * which does not matter if there is time to begin anew. */
static bool clock_suits(const struct place_in *in, const struct place_question *q,
    const struct offer *o, const struct score *s)
{
	const struct score *od = q->placing.on_demand;

	if (s == NULL) {
		return rank_throughput(q->placing.spec, o) >= DEADLINE_SPEED_LEAST * od->throughput;
	}
	return rank_speed_suits(s, od, (double)left_us(in, q) / (double)SPOT_US_PER_HOUR);
}

/* Expected cost to the end, per hour of the on-demand machine's clock. So the policy prefers a pool
 * for the ranking's reasons: reclaims, egress and penalties too. A pool that cools down has no
 * score; its price and speed must do. */
static int64_t hour_micros(const struct place_question *q, const struct offer *o,
    const struct score *s)
{
	const struct score *od = q->placing.on_demand;

	if (s != NULL && od->hours > 0) {
		return (int64_t)((double)s->total_micros / od->hours);
	}
	return (int64_t)((double)o->price_micros * MAX(q->facts.nodes, 1) * od->throughput /
	    rank_throughput(q->placing.spec, o));
}

static void candidate_add(const struct place_in *in, struct place_question *q,
    const struct offer *o, const struct score *s)
{
	/* The fast ones that cool down are worth more than slow ones that do not. */
	if (q->n >= PLACE_POOLS || !spot_market_reclaims(o->market) || !clock_suits(in, q, o, s) ||
	    too_slow(in, q, s)) {
		return;
	}
	q->pools[q->n++] = (struct place_candidate){
		.offer = o,
		.score = s,
		.price_micros = hour_micros(q, o, s),
	};
}

static void deadline_candidates(const struct place_in *in, struct place_question *q)
{
	const struct placing *p = &q->placing;

	for (size_t i = 0; i < p->usable && q->n + 1 < PLACE_POOLS; i++) {
		candidate_add(in, q, p->scores[i].offer, &p->scores[i]);
	}
	for (size_t i = p->usable; i < p->gang_n; i++) {
		if (p->gang[i].cooling) {
			candidate_add(in, q, p->gang[i].one->offer, NULL);
		}
	}
	for (size_t i = 0; i < p->ranking.refused_n; i++) {
		if (p->ranking.refused[i].why == REFUSED_COOLING) {
			candidate_add(in, q, p->ranking.refused[i].offer, NULL);
		}
	}
}

/* ---- time held back ----------------------------------------------------------------------- */

/* Holds time back for two risks that the policy's model leaves out. A reclaim without a save loses
 * the work since the last save: take the largest loss of any pool. A launch on demand may be
 * refused first, for as long as recent launches were. */
static void hold_back(const struct place_in *in, struct place_question *q)
{
	const struct score *od = q->placing.on_demand;
	int64_t left = (int64_t)(od->hours * (double)SPOT_US_PER_HOUR);

	for (size_t i = 0; i < q->n; i++) {
		if (q->pools[i].score != NULL) {
			q->loss_us = MAX(q->loss_us,
			    spot_loss_us(q->pools[i].score, &q->placing.spec->checkpoint, left));
		}
	}
	launch_reserve_find(&q->placing.ranking,
	    (double)(q->facts.deadline_us - in->now_us) / (double)SPOT_US_PER_HOUR,
	    in->policy->cool_min_us, in->policy->cool_max_us, &q->launch);
}

/* A gang may gather its machines for so long before all are there, or none; nobody is asked
 * meanwhile. A job that waits may lose that once on spot before it begins on demand. */
static int64_t gather_us(const struct place_in *in, const struct place_question *q)
{
	int64_t hold = q->facts.nodes > 1 ? in->policy->gang_hold_us : 0;

	return q->held.act == POLICY_WAIT ? 2 * hold : hold;
}

void placement_ask(const struct place_in *in, const struct job_facts *f, const struct placing *p,
    const struct deadline_held *held, struct place_question *ret)
{
	*ret = (struct place_question){ .facts = *f, .placing = *p, .held = *held };
	deadline_candidates(in, ret);
	hold_back(in, ret);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static const struct policy *policy_live(void)
{
	const struct policy *p = policy_find("auto");

	return p != NULL ? p : &policy_uniform_progress;
}

static void setup_fill(const struct place_in *in, const struct place_question *q,
    struct policy_setup *s, struct policy_view *v)
{
	const struct job_facts *f = &q->facts;
	const struct score *od = q->placing.on_demand;
	int64_t start = MAX(f->created_us, q->placing.spec->start_after_us), now = in->now_us;
	double left = od->hours * (double)SPOT_US_PER_HOUR, share = 0;

	if (f->steps_total > 0 && f->steps_done > 0 && q->placing.spec->work_s > 0) {
		share = MIN((double)f->steps_done / (double)f->steps_total, 0.999);
	}
	start = MIN(start, now);
	s->work_us = (int64_t)(left / (1 - share));
	/* Its own start, once it was measured, when that takes longer than a start usually does. */
	s->changeover_us =
	    MAX(in->policy->supply.changeover_us, f->restart_us) + MAX(f->save_us, 0);
	s->deadline_us = f->deadline_us - start;
	s->tick_us = MIN(MAX(in->policy->deadline_tick_us, s->deadline_us / TICKS_MOST),
	    MAX(s->deadline_us / TICKS_LEAST, 1));
	s->deadline_us -= q->loss_us + q->launch.us + gather_us(in, q);
	s->deadline_us = MAX(s->deadline_us, now - start);
	s->on_demand_micros = hour_micros(q, od->offer, od);
	s->pools_n = q->n;
	v->elapsed_us = now - start;
	v->done_us = s->work_us - (int64_t)left;
	v->held = q->held.act;
	v->last_pool = SIZE_MAX;
}

/* The ranking's term (core/rank/score.c): any of the job's machines may be taken. */
static struct rise candidate_rise(const struct place_question *q, const struct offer *o)
{
	struct rise r = o->has_hazard ? o->rise : (struct rise){ 0 };

	for (int part = 0; part < RISE_PARTS; part++) {
		r.left[part] *= MAX(q->facts.nodes, 1);
	}
	return r;
}

static json_t *deadline_plan_json(const struct place_question *q, const struct policy_setup *s,
    const struct policy_view *v, const struct policy_choice *c)
{
	static const char *const acts[] = { "?", "wait", "spot", "on_demand" };
	json_t *pools = json_array();

	for (size_t i = 0; i < q->n; i++) {
		json_array_append_new(pools,
		    json_pack("{s:i, s:b, s:I, s:f}", "pool", q->pools[i].offer->pool_id, "up",
			q->pools[i].score != NULL, "price_micros",
			(json_int_t)q->pools[i].price_micros, "raised_per_hour",
			rise_now(&sibling_fitted, &v->rise[i])));
	}
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:o, s:I, "
			 "s:{s:I, s:f, s:f, s:f}}",
	    "policy", policy_live()->name, "work_us", (json_int_t)s->work_us, "done_us",
	    (json_int_t)v->done_us, "deadline_us", (json_int_t)s->deadline_us, "elapsed_us",
	    (json_int_t)v->elapsed_us, "changeover_us", (json_int_t)s->changeover_us, "tick_us",
	    (json_int_t)s->tick_us, "on_demand_micros", (json_int_t)s->on_demand_micros, "held",
	    acts[q->held.act], "choice", acts[c->act], "why", c->why, "pools", pools, "loss_us",
	    (json_int_t)q->loss_us, "launch_reserve", "us", (json_int_t)q->launch.us, "launches",
	    q->launch.launches, "refusals", q->launch.refusals, "refused", q->launch.refused);
}

static const char *why_words(struct arena *a, const struct place_question *q, const char *why)
{
	char text[32];

	if (q->launch.us == 0) {
		return arena_printf(a, "deadline: %s", why);
	}
	return arena_printf(a,
	    "deadline: %s; %s of it are held back because on-demand launches were refused lately "
	    "(%.1f of %.1f, by age)",
	    why, format_duration(q->launch.us, text), q->launch.refusals,
	    q->launch.refusals + q->launch.launches);
}

void placement_deadline(const struct place_in *in, struct place_question *q,
    const struct supply_word *words, size_t n, struct policy_choice *ret, json_t **ret_plan)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct policy_track tracks[PLACE_POOLS];
	int64_t prices[PLACE_POOLS];
	uint8_t up[PLACE_POOLS];
	struct rise rises[PLACE_POOLS];
	struct policy_setup setup = { 0 };
	struct policy_view view = { .up = up, .price_micros = prices, .rise = rises };
	const struct policy *policy = policy_live();
	size_t tracks_n = 0;

	setup_fill(in, q, &setup, &view);
	for (size_t i = 0; i < q->n; i++) {
		prices[i] = q->pools[i].price_micros;
		up[i] = q->pools[i].score != NULL;
		rises[i] = candidate_rise(q, q->pools[i].offer);
		supply_track_make(a, words, n, q->pools[i].offer->pool_id, setup.tick_us,
		    PLACE_DOWN_US, in->now_us, &tracks[tracks_n]);
		tracks[tracks_n].pool = (int32_t)i;
		tracks_n += tracks[tracks_n].n > 0;
	}
	*ret = (struct policy_choice){ 0 };
	policy->decide(policy->begin(a, &setup, tracks, tracks_n), &view, ret);
	ret->why = arena_strdup(in->arena, ret->why != NULL ? ret->why : "");
	*ret_plan = deadline_plan_json(q, &setup, &view, ret);
	ret->why = why_words(in->arena, q, ret->why);
	q->tick_us = setup.tick_us;
}

void placement_answer(const struct place_in *in, const struct place_question *q,
    const struct policy_choice *c, struct place_choice *ret)
{
	*ret = (struct place_choice){ .act = PLACE_TAKE, .kind = "place", .why = c->why };
	switch (c->act) {
	case POLICY_SPOT:
		ret->score = q->pools[c->pool].score;
		return;
	case POLICY_ON_DEMAND:
		ret->score = q->placing.on_demand;
		ret->kind = q->placing.job.spot_allowed ? "failover" : "place";
		return;
	case POLICY_WAIT:
		ret->act = PLACE_WAIT;
		ret->kind = "wait";
		ret->until_us = in->now_us + q->tick_us;
		return;
	}
}
