/* policy_auto: by hand if the right choice is plain, and on seeded random supply for the
 * invariants. */
#include "trace_case.h"
#include "core/policy/policy_priv.h"

#include <math.h>

#define HOUR_US (3600 * SPOT_US_PER_S)

static struct arena *arena;

static struct policy_setup setup_of(double work_h, double deadline_h)
{
	return (struct policy_setup){ .work_us = (int64_t)(work_h * HOUR_US),
		.deadline_us = (int64_t)(deadline_h * HOUR_US),
		.changeover_us = 720 * SPOT_US_PER_S,
		.tick_us = 600 * SPOT_US_PER_S,
		.on_demand_micros = 3060000,
		.pools_n = 1 };
}

static struct trace_run run_text(const char *up, double work_h, double deadline_h, int64_t price,
    size_t start, bool steps)
{
	struct trace_case c;
	struct trace_run ret;
	struct spot_err err = { 0 };

	case_text(arena, &c, &up, 1, price);
	c.job = (struct trace_job){ .work_us = (int64_t)(work_h * HOUR_US),
		.deadline_us = (int64_t)(deadline_h * HOUR_US),
		.changeover_us = 720 * SPOT_US_PER_S,
		.on_demand_micros = 3060000 };
	if (trace_run_policy(arena, &c.market, &c.job, start, &policy_auto, NULL, 0, steps, &ret,
		&err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	assert_false(ret.missed);
	return ret;
}

/* n ticks: of each period the first `on` are up. */
static char *pattern_text(size_t n, size_t on, size_t period)
{
	char *s = arena_alloc(arena, n + 1);

	for (size_t i = 0; i < n; i++) {
		s[i] = i % period < on ? '1' : '0';
	}
	return s;
}

static void cheap_spot_that_lasts_is_taken_and_kept(void **state)
{
	struct trace_run r = run_text(pattern_text(600, 1, 1), 20, 30, 900000, 100, false);

	(void)state;
	assert_int_equal(r.changeovers, 1);
	assert_int_equal(r.on_demand_ticks + r.wait_ticks, 0);
}

static void without_spot_it_is_on_demand_once_and_in_time(void **state)
{
	struct trace_run r = run_text(pattern_text(600, 0, 1), 20, 30, 900000, 100, false);

	(void)state;
	assert_int_equal(r.changeovers, 1);
	assert_int_equal(r.spot_ticks, 0);
	assert_int_equal(r.on_demand_ticks, 122);
}

static void spot_that_costs_more_than_on_demand_is_left(void **state)
{
	struct trace_run r = run_text(pattern_text(600, 1, 1), 20, 30, 3500000, 100, false);

	(void)state;
	assert_int_equal(r.spot_ticks, 0);
}

static void a_night_without_spot_is_waited_out_when_there_is_room(void **state)
{
	/* 36 h up, 4 h down, again and again: 20 h of work in 48 h need no on demand. */
	struct trace_run r = run_text(pattern_text(2000, 216, 240), 20, 48, 900000, 1400, false);

	(void)state;
	assert_int_equal(r.on_demand_ticks, 0);
}

static void flickering_spot_does_not_make_it_thrash(void **state)
{
	/* Up for one tick of three: no changeover of 12 minutes ever pays for itself in 10. */
	struct trace_run r = run_text(pattern_text(1500, 1, 3), 20, 30, 900000, 600, false);

	(void)state;
	assert_in_range(r.changeovers, 1, 3);
	assert_in_range(r.spot_ticks, 0, 2);
}

static void a_second_look_at_the_same_tick_changes_nothing(void **state)
{
	struct policy_setup s = setup_of(10, 20);
	int64_t price = 900000;
	uint8_t up = 1;
	struct policy_view v = { .held = POLICY_WAIT,
		.last_pool = SIZE_MAX,
		.up = &up,
		.price_micros = &price };
	void *one = policy_auto.begin(arena, &s, NULL, 0),
	     *two = policy_auto.begin(arena, &s, NULL, 0);
	struct policy_choice a, b;

	(void)state;
	for (int i = 0; i < 30; i++) {
		v.elapsed_us = i * s.tick_us;
		up = i % 7 < 3;
		policy_auto.decide(one, &v, &a);
		policy_auto.decide(two, &v, &b);
		policy_auto.decide(two, &v, &b);
		assert_int_equal(a.act, b.act);
	}
}

static void other_pools_tracks_say_what_is_usual_and_nothing_of_this_pool(void **state)
{
	static uint8_t down[3000], flicker[3000];
	struct policy_model m, plain;
	struct policy_track t = { .pool = -1,
		.tick_us = 600 * SPOT_US_PER_S,
		.n = 3000,
		.up = flicker };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(flicker); i++) {
		flicker[i] = i % 2;
	}
	policy_model_init(&plain, arena, &policy_prior_public, 1);
	policy_model_init(&m, arena, &policy_prior_public, 1);
	policy_model_learn(&m, &t, 1);
	assert_false(m.pools[0].known);
	assert_true(policy_hazard(&m, &m.pools[0], true, 0, 0.5) >
	    1.5 * policy_hazard(&plain, &plain.pools[0], true, 0, 0.5));
	t.up = down;
	t.pool = 0;
	policy_model_learn(&m, &t, 1);
	assert_true(m.pools[0].known && !m.pools[0].up && m.pools[0].fade < 0.01);
}

static void own_evidence_moves_the_rates_the_way_it_points(void **state)
{
	static uint8_t up[2000];
	struct policy_model m, plain;
	struct policy_track t = { .pool = 0,
		.tick_us = 600 * SPOT_US_PER_S,
		.n = ARRAY_LEN(up),
		.up = up };

	(void)state;
	memset(up, 1, sizeof(up));
	policy_model_init(&plain, arena, &policy_prior_public, 1);
	policy_model_init(&m, arena, &policy_prior_public, 1);
	policy_model_learn(&m, &t, 1);
	assert_true(policy_hazard(&m, &m.pools[0], true, 7, 1) <
	    0.7 * policy_hazard(&plain, &plain.pools[0], true, 7, 1));
	assert_true(m.pools[0].usual > 0.85 && plain.pools[0].usual < 0.7);
	plain.pools[0] = m.pools[0];
	plain.pools[0].own = (struct policy_counts){ 0 };
	assert_true(policy_life(&m, &m.pools[0], 48) > policy_life(&plain, &plain.pools[0], 48));
	assert_true(policy_life(&m, &m.pools[0], 48) <= 48);
}

static void the_table_is_right_where_supply_is_certain(void **state)
{
	static const struct policy_prior never_changes;
	struct policy_setup s = setup_of(20, 30);
	struct policy_model m;
	struct policy_dp *d = policy_dp_new(arena, &s);
	struct policy_problem p = { .model = &m,
		.work_us = s.work_us,
		.slack_us = s.deadline_us - s.work_us,
		.spot = 1,
		.on_demand = 3 };
	struct policy_worth w;

	(void)state;
	policy_model_init(&m, arena, &never_changes, 1);
	m.pools[0] = (struct policy_pool){ .known = true, .up = true, .age_h = 2, .fade = 1 };
	p.pool = &m.pools[0];
	policy_dp_solve(d, &p);
	policy_dp_worth(d, p.pool, POLICY_WAIT, p.work_us, p.slack_us, &w);
	assert_float_equal(w.spot, 20.2, 0.05); /* work and one changeover, on spot */
	assert_float_equal(w.wait, 20.2, 0.05);
	policy_dp_worth(d, p.pool, POLICY_SPOT, p.work_us, p.slack_us, &w);
	assert_float_equal(w.spot, 20, 0.05);
	m.pools[0].up = false;
	m.pools[0].fade = 0;
	policy_dp_worth(d, p.pool, POLICY_WAIT, p.work_us, p.slack_us, &w);
	assert_float_equal(w.on_demand, 60.6, 0.15);
	assert_true(w.spot >= POLICY_NEVER);
}

/* Between two lines of the grid a changeover's cost is read too high. */
static void a_changeover_ends_on_a_line_of_the_grid(void **state)
{
	static const struct {
		int64_t work_h, slack_h, changeover_s, want_s;
	} c[] = {
		{ 48, 12, 720, 720 },
		{ 48, 12, 900, 900 },
		{ 48, 12, 1800, 900 },
		{ 48, 12, 2000, 1000 },
		{ 12, 3, 720, 240 }, /* three steps */
		{ 48, 12, 72, 900 }, /* far from a step: as it is */
		{ 48, 12, 0, 900 },
		{ 48, 12, 600, 900 },
		{ 48, 400, 720, 11250 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		struct policy_setup s = { .work_us = c[i].work_h * SPOT_US_PER_HOUR,
			.deadline_us = (c[i].work_h + c[i].slack_h) * SPOT_US_PER_HOUR,
			.changeover_us = c[i].changeover_s * SPOT_US_PER_S,
			.tick_us = 60 * SPOT_US_PER_S };
		double step_s = policy_dp_step_us(&s) / (double)SPOT_US_PER_S;

		assert_true(fabs(step_s - (double)c[i].want_s) < 0.001);
		s.tick_us = 3600 * SPOT_US_PER_S; /* never finer than the samples */
		assert_true(policy_dp_step_us(&s) >= (double)s.tick_us);
	}
}

/* Down, it comes back at 0.5 per hour between the 4th and the 8th hour and never later; up, it
 * stays. */
static void a_stretch_outlives_an_age_as_often_as_its_rate_says(void **state)
{
	struct policy_prior prior = { .per_hour = { { { 0 } } } };
	struct policy_setup s = setup_of(20, 32);
	struct policy_model m;
	struct policy_dp *d = policy_dp_new(arena, &s);
	struct policy_problem p = { .model = &m,
		.work_us = s.work_us,
		.slack_us = s.deadline_us - s.work_us,
		.spot = 1,
		.on_demand = 3 };
	struct policy_worth w;
	float never = expf(-4 * 0.5F);

	(void)state;
	for (int f = 0; f < POLICY_FADES; f++) {
		prior.per_hour[0][policy_age_bin(4)][f] = 0.5;
	}
	policy_model_init(&m, arena, &prior, 1);
	m.pools[0] = (struct policy_pool){ .known = true, .up = false, .age_h = 4, .fade = 0.5 };
	p.pool = &m.pools[0];
	policy_dp_solve(d, &p);
	policy_dp_worth(d, p.pool, POLICY_WAIT, p.work_us, p.slack_us, &w);
	assert_float_equal(w.wait, 20.2F + never * 40.4F, 1.0F);
}

/* A cheap pool that is there half of the time in turns of 4 hours, and one that is there always and
 * costs more. */
static struct trace_run run_two(int64_t dear_price, double deadline_h)
{
	const char *ups[] = { pattern_text(1500, 24, 48), pattern_text(1500, 1, 1) };
	struct trace_case c;
	struct trace_run ret;
	struct spot_err err = { 0 };
	int64_t *dear;

	case_text(arena, &c, ups, 2, 900000);
	dear = arena_array(arena, c.prices[1].n, sizeof(*dear));
	for (size_t i = 0; i < c.prices[1].n; i++) {
		dear[i] = dear_price;
	}
	c.prices[1].price_micros = dear;
	case_build(arena, &c);
	c.job = (struct trace_job){ .work_us = 20 * HOUR_US,
		.deadline_us = (int64_t)(deadline_h * HOUR_US),
		.changeover_us = 720 * SPOT_US_PER_S,
		.on_demand_micros = 3060000 };
	assert_int_equal(trace_run_policy(arena, &c.market, &c.job, 960, &policy_auto, NULL, 0,
			     false, &ret, &err),
	    SPOT_OK);
	assert_false(ret.missed);
	return ret;
}

static void with_room_a_cheap_pool_is_waited_for_while_a_dear_one_is_up(void **state)
{
	struct trace_run r = run_two(2500000, 80);

	(void)state;
	assert_int_equal(r.on_demand_ticks, 0);
	assert_true(r.wait_ticks > 80);
	assert_true(r.spot_micros < 20 * 1000000);
}

static void without_room_the_dear_pool_bridges_what_the_cheap_one_leaves(void **state)
{
	struct trace_run r = run_two(1500000, 24);

	(void)state;
	assert_int_equal(r.on_demand_ticks, 0);
	assert_true(r.changeovers > 2);
	assert_true(r.spot_micros < 20 * 1500000);
}

static void a_little_cheaper_is_not_worth_a_move(void **state)
{
	struct trace_run r = run_two(905000, 24);

	(void)state;
	assert_true(r.changeovers <= 2);
}

static void same_steps(const struct trace_run *a, const struct trace_run *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(a->steps[i].act, b->steps[i].act);
		assert_int_equal(a->steps[i].pool, b->steps[i].pool);
	}
}

/* The policy takes spot only below the price of on demand, which is never reclaimed. */
static void no_spot_at_the_price_of_on_demand(const struct trace_case *c,
    const struct trace_run *run)
{
	int32_t n = run->spot_ticks + run->on_demand_ticks + run->wait_ticks;

	for (int32_t i = 0; i < n; i++) {
		const struct trace_step *s = &run->steps[i];
		size_t tick = run->start + (size_t)i;

		assert_true(s->act != POLICY_SPOT ||
		    c->market.pool_price[s->pool][tick] < c->job.on_demand_micros);
	}
}

static void no_deadline_is_missed_and_the_same_run_decides_the_same(void **state)
{
	struct rng r;
	struct spot_err err = { 0 };

	(void)state;
	rng_seeded_init(&r, 4711);
	for (int i = 0; i < 2500; i++) {
		AUTO(arena) struct arena *a = arena_new(0);
		struct trace_case c;
		struct trace_run one, two;
		size_t pools = 1 + (size_t)i % 3, spare = (size_t)i % 50;

		case_draw(a, &r, 20 + rng_below(&r, 60), pools, spare, &c);
		assert_int_equal(trace_run_policy(a, &c.market, &c.job, spare, &policy_auto, NULL,
				     0, true, &one, &err),
		    SPOT_OK);
		assert_false(one.missed);
		no_spot_at_the_price_of_on_demand(&c, &one);
		if (i % 10 == 0) {
			assert_int_equal(trace_run_policy(a, &c.market, &c.job, spare, &policy_auto,
					     NULL, 0, true, &two, &err),
			    SPOT_OK);
			assert_int_equal(one.cost_micros, two.cost_micros);
			same_steps(&one, &two,
			    (size_t)(one.spot_ticks + one.on_demand_ticks + one.wait_ticks));
		}
	}
}

static void later_data_decides_nothing(void **state)
{
	(void)state;
	for (size_t at = 10; at < 180; at += 17) {
		char *a = pattern_text(800, 20, 33), *b = pattern_text(800, 20, 33);
		struct trace_run one, two;

		for (size_t i = 300 + at; i < 800; i++) {
			b[i] = b[i] == '1' ? '0' : '1';
		}
		one = run_text(a, 20, 30, 900000, 300, true);
		two = run_text(b, 20, 30, 900000, 300, true);
		same_steps(&one, &two,
		    MIN(at, (size_t)MIN(one.finish_us, two.finish_us) / (600 * SPOT_US_PER_S)));
	}
}

static int setup(void **state)
{
	(void)state;
	arena = arena_new((size_t)1 << 30);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cheap_spot_that_lasts_is_taken_and_kept, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(without_spot_it_is_on_demand_once_and_in_time,
		    setup, teardown),
		cmocka_unit_test_setup_teardown(spot_that_costs_more_than_on_demand_is_left, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(
		    a_night_without_spot_is_waited_out_when_there_is_room, setup, teardown),
		cmocka_unit_test_setup_teardown(flickering_spot_does_not_make_it_thrash, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(a_second_look_at_the_same_tick_changes_nothing,
		    setup, teardown),
		cmocka_unit_test_setup_teardown(
		    other_pools_tracks_say_what_is_usual_and_nothing_of_this_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(own_evidence_moves_the_rates_the_way_it_points,
		    setup, teardown),
		cmocka_unit_test_setup_teardown(the_table_is_right_where_supply_is_certain, setup,
		    teardown),
		cmocka_unit_test(a_changeover_ends_on_a_line_of_the_grid),
		cmocka_unit_test_setup_teardown(a_stretch_outlives_an_age_as_often_as_its_rate_says,
		    setup, teardown),
		cmocka_unit_test_setup_teardown(
		    with_room_a_cheap_pool_is_waited_for_while_a_dear_one_is_up, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    without_room_the_dear_pool_bridges_what_the_cheap_one_leaves, setup, teardown),
		cmocka_unit_test_setup_teardown(a_little_cheaper_is_not_worth_a_move, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(
		    no_deadline_is_missed_and_the_same_run_decides_the_same, setup, teardown),
		cmocka_unit_test_setup_teardown(later_data_decides_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
