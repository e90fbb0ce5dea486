/* policy_auto after reclaims of siblings: the rise of the hazard is part of its model. */
#include "trace_case.h"
#include "core/policy/policy_priv.h"

#include <math.h>

static const struct policy_prior never_changes;

/* The pool itself lost a machine just now. */
static struct rise struck(void)
{
	struct rise r = { 0 };

	rise_add(&sibling_fitted, SIBLING_POOL, 0, &r);
	return r;
}

static struct policy_setup setup_of(size_t pools_n)
{
	return (struct policy_setup){ .work_us = 10 * SPOT_US_PER_HOUR,
		.deadline_us = 16 * SPOT_US_PER_HOUR,
		.changeover_us = 720 * SPOT_US_PER_S,
		.tick_us = 600 * SPOT_US_PER_S,
		.on_demand_micros = 3000000,
		.pools_n = pools_n };
}

static void model_make(struct policy_model *m, struct arena *a, size_t pools_n)
{
	policy_model_init(m, a, &never_changes, pools_n);
	for (size_t i = 0; i < pools_n; i++) {
		m->pools[i] =
		    (struct policy_pool){ .known = true, .up = true, .age_h = 2, .fade = 1 };
	}
}

static void a_pool_lives_as_long_as_the_ranking_expects(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const int steps = 100000;
	struct policy_model m;
	double sum = 0;

	model_make(&m, a, 1);
	for (double age = 0; age < 40; age += 3) {
		m.pools[0].age_h = age;
		m.pools[0].rise = (struct rise){ 0 };
		assert_true(policy_life(&m, &m.pools[0], 10) > 9.9);
		m.pools[0].rise = struck();
		sum = 0;
		for (int i = 0; i < steps; i++) {
			sum += exp(-rise_within(&sibling_fitted, &m.pools[0].rise,
				   (i + 0.5) * 10 / steps)) *
			    10 / steps;
		}
		assert_true(fabs(policy_life(&m, &m.pools[0], 10) - sum) < 0.03 * sum);
	}
}

/* Lost once, the pool never comes back: the rest is on demand. */
static void the_table_of_one_pool_feels_the_rise(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct policy_setup s = setup_of(1);
	struct policy_dp *d = policy_dp_new(a, &s);
	struct policy_problem p = { .work_us = s.work_us,
		.slack_us = s.deadline_us - s.work_us,
		.spot = 1,
		.on_demand = 3 };
	struct policy_model m;
	struct policy_worth calm, raised;
	double lost;

	model_make(&m, a, 1);
	p.model = &m;
	p.pool = &m.pools[0];
	policy_dp_solve(d, &p);
	policy_dp_worth(d, p.pool, POLICY_SPOT, p.work_us, p.slack_us, &calm);
	assert_true(fabs(calm.spot - 10) < 0.05);
	m.pools[0].rise = struck();
	policy_dp_solve(d, &p);
	policy_dp_worth(d, p.pool, POLICY_SPOT, p.work_us, p.slack_us, &raised);
	lost = -expm1(-rise_within(&sibling_fitted, &m.pools[0].rise, 10));
	/* Lost in the first hour it costs three dollars for nearly all ten, less the slack. */
	assert_true(raised.spot > 10 + lost * 15 && raised.spot < 10 + lost * 22);
}

static void the_table_of_several_pools_feels_the_rise_of_each(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct policy_setup s = setup_of(2);
	struct policy_joint *d = policy_joint_new(a, &s);
	struct policy_model m;
	struct policy_joint_problem p = { .model = &m,
		.work_us = s.work_us,
		.slack_us = s.deadline_us - s.work_us,
		.on_demand = 3 };
	struct policy_joint_view v = { .held = POLICY_WAIT,
		.held_slot = -1,
		.work_us = s.work_us,
		.slack_us = p.slack_us };
	struct policy_joint_worth w;

	model_make(&m, a, 2);
	for (int i = 0; i < 2; i++) {
		p.slot[i] = (struct policy_slot){ &m.pools[i], 1 };
		v.pools[i] = &m.pools[i];
	}
	for (int hit = 0; hit < 2; hit++) {
		m.pools[hit].rise = struck();
		m.pools[!hit].rise = (struct rise){ 0 };
		policy_joint_solve(d, &p);
		policy_joint_worth(d, &m, &v, &w);
		/* A changeover more, as often as it is lost. */
		assert_true(w.spot[hit] > w.spot[!hit] + 0.05);
		assert_true(fabs(w.spot[!hit] - 10.2) < 0.1);
	}
}

static void decide(const struct rise *rise, enum policy_act held, struct policy_choice *ret)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct policy_setup s = setup_of(2);
	const uint8_t up[] = { 1, 1 };
	const int64_t prices[] = { 1000000, 1000000 };
	const struct policy_view v = { .held = held,
		.last_pool = SIZE_MAX,
		.up = up,
		.price_micros = prices,
		.rise = rise };

	policy_auto.decide(policy_auto.begin(a, &s, NULL, 0), &v, ret);
}

static void of_two_like_pools_the_calm_one_is_taken(void **state UNUSED)
{
	struct rise rise[2] = { { { 0 } } };
	struct policy_choice c;

	for (size_t hit = 0; hit < 2; hit++) {
		rise[hit] = struck();
		rise[!hit] = (struct rise){ 0 };
		decide(rise, POLICY_WAIT, &c);
		assert_int_equal(c.act, POLICY_SPOT);
		assert_int_equal(c.pool, !hit);
	}
	decide(NULL, POLICY_WAIT, &c);
	assert_int_equal(c.act, POLICY_SPOT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pool_lives_as_long_as_the_ranking_expects),
		cmocka_unit_test(the_table_of_one_pool_feels_the_rise),
		cmocka_unit_test(the_table_of_several_pools_feels_the_rise_of_each),
		cmocka_unit_test(of_two_like_pools_the_calm_one_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
