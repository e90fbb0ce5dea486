/*
 * Gangs, over random cases. A place is offered only if the whole gang fits, whatever the order.
 * Acquired machines are assigned whole or given back within the hold. Gangs that compete for the
 * same capacity all get their turn. Ranks are judged as a whole, by edges of the job's state table.
 */
#include "base/base.h"
#include "core/place/place.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define CASES 10000

/* ---- where ----------------------------------------------------------------------------------- */

static struct job_spec spec = { .name = "x",
	.run = "x",
	.num_nodes = 3,
	.interruptible = true,
	.work_s = 36000,
	.checkpoint = { .path = "c" } };
static struct resource_ask ask_any = { .use_spot = -1 };

static void market_fill(struct rng *r, struct offer *o, size_t n)
{
	static const char *const zones[] = { "a", "b", "c" }, *const types[] = { "t1", "t2" };

	for (size_t i = 0; i < n; i++) {
		o[i] = (struct offer){ .pool_id = (int32_t)i + 1,
			.provider = "aws",
			.region = "r",
			.zone = zones[rng_below(r, 3)],
			.zone_name = "",
			.instance_type = types[rng_below(r, 2)],
			.gpu_name = "A100-80GB",
			.gpu_milli = 1000,
			.market = rng_below(r, 3) == 0 ? SPOT_MARKET_ON_DEMAND : SPOT_MARKET_SPOT,
			.arch = "x86_64",
			.vcpus = 8,
			.quota_class = "",
			.price_micros = 100000 + (int64_t)rng_below(r, 40) * 50000,
			.price_state = PRICE_FRESH,
			.advisor_lo = -1,
			.advisor_hi = -1,
			.placement_score = -1,
			.capacity = -1,
			.has_quota = rng_below(r, 2) == 0,
			.quota_unit = "instances",
			.quota_limit = (int64_t)rng_below(r, 12) };
	}
}

static void rank_all(struct arena *a, const struct offer *o, size_t n, struct score **ret,
    size_t *ret_n)
{
	struct rank_policy policy;
	struct rank_job *job = arena_alloc(a, sizeof(*job));

	spec.asks = &ask_any;
	spec.asks_n = 1;
	rank_policy_default(&policy);
	*job = (struct rank_job){ .spec = &spec, .spot_allowed = true, .on_demand_allowed = true };
	rank_offers(a, o, n, job, &policy, 1000000, ret, ret_n);
}

static bool pool_rests(const struct gang_ask *ask, int32_t pool)
{
	for (size_t i = 0; i < ask->rests_n; i++) {
		if (ask->rests[i].pool_id == pool && ask->want >= ask->rests[i].want &&
		    ask->rests[i].until_us > ask->now_us) {
			return true;
		}
	}
	return false;
}

static bool is_busy(struct arena *a, const struct gang_ask *ask, const struct offer *o)
{
	for (size_t i = 0; i < ask->busy_n; i++) {
		if (strcmp(ask->busy[i], gang_place(a, o)) == 0) {
			return true;
		}
	}
	return false;
}

static void check_scores(struct arena *a, const struct gang_ask *ask, const struct gang_score *g,
    size_t n, size_t usable)
{
	for (size_t i = 0; i < n; i++) {
		const struct score *s = g[i].one;
		bool fits = offer_quota_room(s->offer) >= ask->want &&
		    !pool_rests(ask, s->offer->pool_id) && !is_busy(a, ask, s->offer);
		struct score_terms t;
		double lost;

		assert_int_equal(fits, i < usable);
		assert_int_equal(g[i].refused == NULL, i < usable);
		if (i >= usable) {
			continue;
		}
		score_explain(s, &t);
		lost = (ask->want - 1) * s->interruptions * (t.lost_per_h + t.restart_per_h);
		assert_int_equal(g[i].compute_micros,
		    llround((double)ask->want * (double)s->price_micros * (s->paid_hours + lost)));
		assert_int_equal(g[i].total_micros,
		    g[i].compute_micros + ask->want * s->egress_micros);
		assert_true(g[i].hours >= s->hours && g[i].interruptions >= s->interruptions);
		assert_true(i == 0 || g[i - 1].total_micros <= g[i].total_micros);
	}
}

static void a_place_is_offered_only_where_the_whole_gang_fits(void **state)
{
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 41);
	for (int k = 0; k < CASES; k++) {
		AUTO(arena) struct arena *a = arena_new(0);
		struct offer o[12];
		struct gang_rest rest[3];
		const char *busy[2];
		struct gang_ask ask = { .want = 2 + (int32_t)rng_below(&r, 8),
			.now_us = 1000,
			.rests = rest,
			.busy = busy };
		struct score *s, *back;
		struct gang_score *g, *again;
		size_t n = 1 + rng_below(&r, 12), scores, usable, usable_again;

		market_fill(&r, o, n);
		ask.rests_n = rng_below(&r, 4);
		for (size_t i = 0; i < ask.rests_n; i++) {
			rest[i] = (struct gang_rest){ .pool_id = 1 + (int32_t)rng_below(&r, n),
				.want = 2 + (int32_t)rng_below(&r, 8),
				.until_us = 900 + (int64_t)rng_below(&r, 200) };
		}
		ask.busy_n = rng_below(&r, 3);
		for (size_t i = 0; i < ask.busy_n; i++) {
			busy[i] = gang_place(a, &o[rng_below(&r, n)]);
		}
		rank_all(a, o, n, &s, &scores);
		gang_scores(a, s, scores, &ask, &g, &usable);
		check_scores(a, &ask, g, scores, usable);
		/* The same whatever the order of the scores. */
		back = arena_array(a, scores + 1, sizeof(*back));
		for (size_t i = 0; i < scores; i++) {
			back[i] = s[scores - 1 - i];
		}
		gang_scores(a, back, scores, &ask, &again, &usable_again);
		assert_int_equal(usable, usable_again);
		for (size_t i = 0; i < scores; i++) {
			assert_int_equal(g[i].one->offer->pool_id, again[i].one->offer->pool_id);
		}
	}
}

/* Whichever machine is taken, all go back to the last save: as often as one machine with all of
 * their hazard. */
static void a_gang_is_saved_as_often_as_any_of_its_machines_may_be_taken(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct rank_policy policy;
	struct offer o[2] = { { .pool_id = 1,
	    .provider = "aws",
	    .region = "r",
	    .zone = "z",
	    .zone_name = "",
	    .instance_type = "t",
	    .gpu_name = "A100-80GB",
	    .gpu_milli = 1000,
	    .market = SPOT_MARKET_SPOT,
	    .arch = "x86_64",
	    .vcpus = 8,
	    .quota_class = "",
	    .price_micros = 1000000,
	    .price_state = PRICE_FRESH,
	    .placement_score = -1,
	    .capacity = -1,
	    .has_hazard = true,
	    .hazard = 0.5,
	    .launch = 1 } };

	(void)state;
	spec.asks = &ask_any;
	spec.asks_n = 1;
	rank_policy_default(&policy);
	for (int32_t n = 1; n <= 16; n *= 2) {
		struct rank_job job = { .spec = &spec,
			.spot_allowed = true,
			.on_demand_allowed = true,
			.nodes = n };
		struct score_terms t, one;

		score_explain(rank_one(a, &o[0], &job, &policy, 1000000), &t);
		o[1] = o[0];
		o[1].hazard *= n;
		job.nodes = 1;
		score_explain(rank_one(a, &o[1], &job, &policy, 1000000), &one);
		assert_true(fabs(t.interval_s - one.interval_s) < 1e-6 &&
		    fabs(t.lost_per_h - one.lost_per_h) < 1e-9);
		assert_true(t.interval_s < 3600);
	}
}

/* ---- acquiring: gangs in a world with little room -------------------------------------------- */

#define GANGS 4
#define PLACES 2
#define WANT_MAX 5
#define HOLD 20
#define BOOT 3
#define RUN 15
#define END 3000

struct machine {
	enum node_state state;
	int64_t launched, ready, lost;
	int place;
};
struct sim_gang {
	int32_t want;
	int place; /* -1 = seeks */
	bool done;
	int64_t until, rest[PLACES], lost_us; /* until: of the run, 0 = acquiring */
	struct machine m[WANT_MAX];
};
struct sim {
	struct sim_gang g[GANGS];
	int room[PLACES];
	int64_t now;
	bool one_call;
};

static int machines_used(const struct sim *s, int place)
{
	int n = 0;

	for (int i = 0; i < GANGS; i++) {
		for (int k = 0; k < s->g[i].want; k++) {
			n += s->g[i].m[k].place == place && s->g[i].m[k].launched > 0;
		}
	}
	return n;
}

static void machine_launch(struct sim *s, struct sim_gang *g, int k)
{
	bool room = machines_used(s, g->place) < s->room[g->place];

	g->m[k] = (struct machine){ .state = room ? NODE_BOOTING : NODE_FAILED,
		.launched = room ? s->now : 0,
		.ready = s->now + BOOT,
		.place = g->place };
	g->lost_us = room ? g->lost_us : s->now;
}

static void give_back(struct sim *s, struct sim_gang *g, bool cool)
{
	if (cool) {
		g->rest[g->place] = s->now + 7;
	}
	for (int k = 0; k < WANT_MAX; k++) {
		/* No machine is held longer than the hold and the time of a boot. */
		assert_true(g->until > 0 || g->m[k].launched == 0 ||
		    s->now - g->m[k].launched <= HOLD + BOOT + 1);
		g->m[k] = (struct machine){ .place = -1 };
	}
	g->place = -1;
	g->until = 0;
	g->lost_us = 0;
}

static bool place_free(const struct sim *s, int place)
{
	for (int i = 0; i < GANGS; i++) {
		if (s->g[i].place == place && s->g[i].until == 0) {
			return false;
		}
	}
	return true;
}

static void sim_seek(struct sim *s, struct sim_gang *g)
{
	for (int p = 0; p < PLACES && g->place < 0; p++) {
		if (g->rest[p] <= s->now && place_free(s, p)) {
			g->place = p;
		}
	}
	for (int k = 0; g->place >= 0 && k < g->want; k++) {
		if (s->one_call && machines_used(s, g->place) + g->want - k > s->room[g->place] &&
		    k == 0) {
			give_back(s, g, true);
			return;
		}
		machine_launch(s, g, k);
	}
}

static void sim_acquire(struct sim *s, struct sim_gang *g)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct gang_member m[WANT_MAX];
	struct gang_hold_out out;

	for (int k = 0; k < g->want; k++) {
		if (g->m[k].state == NODE_BOOTING && g->m[k].ready <= s->now) {
			g->m[k].state = NODE_READY;
		}
		m[k] = (struct gang_member){ .rank = k,
			.state = g->m[k].state,
			.launched_us = g->m[k].launched };
	}
	gang_hold(a,
	    &(struct gang_hold_in){ .want = g->want,
		.members = m,
		.members_n = (size_t)g->want,
		.one_call = s->one_call,
		.wanted = true,
		.queued = true,
		.now_us = s->now,
		.hold_us = HOLD,
		.last_lost_us = g->lost_us },
	    &out);
	switch (out.what) {
	case GANG_START:
		for (int k = 0; k < g->want; k++) {
			assert_int_equal(g->m[k].state, NODE_READY);
			assert_int_equal(g->m[k].place, g->place);
		}
		g->until = s->now + RUN;
		break;
	case GANG_REFILL:
		assert_true(out.missing_n > 0 && !s->one_call);
		for (size_t i = 0; i < out.missing_n; i++) {
			assert_int_equal(g->m[out.missing[i]].launched, 0);
			machine_launch(s, g, out.missing[i]);
		}
		break;
	case GANG_GIVE_UP:
		give_back(s, g, out.cool);
		break;
	case GANG_WAIT:
		break;
	}
}

static void gangs_that_want_each_others_room_all_get_their_turn(void **state)
{
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 42);
	for (int k = 0; k < CASES; k++) {
		struct sim s = { .one_call = rng_below(&r, 2) == 0 };
		int left = GANGS;

		for (int p = 0; p < PLACES; p++) {
			s.room[p] = 1 + (int)rng_below(&r, 2 * WANT_MAX);
		}
		s.room[0] = MAX(s.room[0], WANT_MAX);
		for (int i = 0; i < GANGS; i++) {
			s.g[i] =
			    (struct sim_gang){ .want = 2 + (int32_t)rng_below(&r, WANT_MAX - 1),
				    .place = -1 };
		}
		for (s.now = 1; left > 0; s.now++) {
			assert_true(s.now < END);
			for (int i = 0; i < GANGS; i++) {
				struct sim_gang *g = &s.g[i];

				if (g->done) {
					continue;
				}
				if (g->place < 0) {
					sim_seek(&s, g);
				} else if (g->until == 0) {
					sim_acquire(&s, g);
				} else if (g->until <= s.now) {
					give_back(&s, g, false);
					g->done = true;
					left--;
				}
			}
			for (int p = 0; p < PLACES; p++) {
				assert_true(machines_used(&s, p) <= s.room[p]);
			}
		}
	}
}

static void hold_decide(struct arena *a, int32_t want, const struct gang_member *m, bool one_call,
    int64_t now, struct gang_hold_out *out)
{
	gang_hold(a,
	    &(struct gang_hold_in){ .want = want,
		.members = m,
		.members_n = (size_t)want,
		.one_call = one_call,
		.wanted = true,
		.queued = true,
		.now_us = now,
		.hold_us = 100,
		.last_lost_us = 10 },
	    out);
}

static void held_machines_go_on_time_and_for_a_reason(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct gang_hold_out out;
	struct gang_member two[] = { { 0, NODE_READY, 5, false }, { 1, NODE_FAILED, 0, false } };

	(void)state;
	hold_decide(a, 2, two, false, 20, &out);
	assert_int_equal(out.what, GANG_WAIT);
	assert_int_equal(out.again_us, 30);
	hold_decide(a, 2, two, false, 30, &out);
	assert_int_equal(out.what, GANG_REFILL);
	assert_int_equal(out.missing[0], 1);
	hold_decide(a, 2, two, false, 105, &out);
	assert_int_equal(out.what, GANG_GIVE_UP);
	assert_true(out.cool);
	/* A gang of one launch is not filled up. */
	hold_decide(a, 2, two, true, 20, &out);
	assert_int_equal(out.what, GANG_GIVE_UP);
	/* A launch that hangs does not hold the others for ever; one that boots does, its own
	 * time-out ends it. */
	two[1] = (struct gang_member){ 1, NODE_UNKNOWN, 0, false };
	hold_decide(a, 2, two, false, 104, &out);
	assert_int_equal(out.what, GANG_WAIT);
	hold_decide(a, 2, two, false, 105, &out);
	assert_int_equal(out.what, GANG_GIVE_UP);
	two[1] = (struct gang_member){ 1, NODE_BOOTING, 50, false };
	hold_decide(a, 2, two, false, 500, &out);
	assert_int_equal(out.what, GANG_WAIT);
	/* None there: nothing is held, and nothing is waited for. */
	two[0].state = two[1].state = NODE_FAILED;
	two[0].launched_us = two[1].launched_us = 0;
	hold_decide(a, 2, two, false, 11, &out);
	assert_int_equal(out.what, GANG_GIVE_UP);
	two[0] = (struct gang_member){ 0, NODE_READY, 5, true };
	two[1] = (struct gang_member){ 1, NODE_READY, 5, false };
	hold_decide(a, 2, two, false, 11, &out);
	assert_int_equal(out.what, GANG_GIVE_UP);
	assert_false(out.cool);
}

/* The gang does not seek a machine that its budget cannot pay, and no pool is to blame. */
static void machines_beyond_the_budget_are_not_held_for(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct gang_hold_out out;
	struct gang_member two[] = { { 0, NODE_READY, 5, false }, { 1, NODE_FAILED, 0, false } };
	struct gang_hold_in in = { .want = 2,
		.members = two,
		.members_n = 2,
		.wanted = true,
		.queued = true,
		.now_us = 30,
		.hold_us = 100,
		.last_lost_us = 10,
		.unpaid = "dear" };

	(void)state;
	assert_int_equal(gang_gaps(two, 2), 1);
	gang_hold(a, &in, &out);
	assert_int_equal(out.what, GANG_GIVE_UP);
	assert_false(out.cool);
	assert_string_equal(out.why, "dear");
	in.unpaid = NULL;
	gang_hold(a, &in, &out);
	assert_int_equal(out.what, GANG_REFILL);
	two[1] = (struct gang_member){ 1, NODE_READY, 7, false };
	in.unpaid = "dear";
	assert_int_equal(gang_gaps(two, 2), 0);
	gang_hold(a, &in, &out);
	assert_int_equal(out.what, GANG_START);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_is_offered_only_where_the_whole_gang_fits),
		cmocka_unit_test(a_gang_is_saved_as_often_as_any_of_its_machines_may_be_taken),
		cmocka_unit_test(gangs_that_want_each_others_room_all_get_their_turn),
		cmocka_unit_test(held_machines_go_on_time_and_for_a_reason),
		cmocka_unit_test(machines_beyond_the_budget_are_not_held_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
