/* The question to the deadline policy and its answer: the pools that it sees, the reserve, and its
 * other inputs. */
#include "base/base.h"
#include "core/place/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <jansson.h>

#include "../../json_read.h"
#include "place_shop.h"

static const struct deadline_held waiting = { .act = POLICY_WAIT };

static void question_make(struct shop *s, const struct deadline_held *held,
    struct place_question *q)
{
	placement_rank(&s->in, &s->facts, &s->spec, &s->placing);
	assert_true(placement_plans(&s->in, &s->facts, &s->placing));
	placement_ask(&s->in, &s->facts, &s->placing, held, q);
}

/* The policy's plan; the caller's. */
static json_t *plan_of(struct shop *s, struct place_question *q, struct policy_choice *c)
{
	json_t *plan;

	placement_deadline(&s->in, q, NULL, 0, c, &plan);
	return plan;
}

static bool plans_make(struct shop *s)
{
	placement_rank(&s->in, &s->facts, &s->spec, &s->placing);
	return placement_plans(&s->in, &s->facts, &s->placing);
}

static void a_policy_plans_only_where_there_is_something_to_choose(void **state UNUSED)
{
	struct shop s;

	shop_open(&s);
	assert_false(plans_make(&s)); /* no deadline */
	s.facts.deadline_us = NOW + 48 * HOUR;
	assert_true(plans_make(&s));
	s.facts.deadline_us = NOW - 1;
	assert_false(plans_make(&s));
	s.facts.deadline_us = NOW + 48 * HOUR;
	s.ask.use_spot = 0;
	assert_false(plans_make(&s));
	s.ask.use_spot = -1;
	s.offers[0].price_micros = s.offers[2].price_micros = 50000000;
	assert_false(plans_make(&s)); /* on demand costs less */
	s.offers[0].cool_until_us = s.offers[2].cool_until_us = NOW + HOUR;
	assert_true(plans_make(&s)); /* spot may come back */
	s.offers[1].capacity = s.offers[3].capacity = 0;
	assert_false(plans_make(&s)); /* nothing to fall back on */
	arena_free(s.a);
}

static void a_pool_that_cools_down_is_seen_as_down(void **state UNUSED)
{
	struct place_question q;
	struct policy_choice c;
	const json_t *pools;
	struct shop s;
	json_t *plan;

	shop_open(&s);
	s.facts.deadline_us = NOW + 48 * HOUR;
	s.offers[0].cool_until_us = NOW + HOUR;
	question_make(&s, &waiting, &q);
	assert_int_equal(q.n, 2);
	assert_int_equal(q.pools[0].offer->pool_id, 3);
	assert_int_equal(q.pools[0].price_micros,
	    (int64_t)((double)q.pools[0].score->total_micros / s.placing.on_demand->hours));
	assert_int_equal(q.pools[1].offer->pool_id, 1);
	assert_null(q.pools[1].score);
	assert_int_equal(q.pools[1].price_micros, 2400000); /* as fast as on demand */
	plan = plan_of(&s, &q, &c);
	pools = json_object_get(plan, "pools");
	assert_int_equal(json_array_size(pools), 2);
	assert_int_equal(int_read(json_array_get(pools, 0), "pool"), 3);
	assert_true(json_is_true(json_object_get(json_array_get(pools, 0), "up")));
	assert_int_equal(int_read(json_array_get(pools, 1), "pool"), 1);
	assert_false(json_is_true(json_object_get(json_array_get(pools, 1), "up")));
	assert_int_equal(int_read(json_array_get(pools, 1), "price_micros"), 2400000);
	json_decref(plan);
	/* Of the L40S, which cools down, nothing is known but that it is far too slow. */
	s.offers[0].cool_until_us = 0;
	s.offers[2].cool_until_us = NOW + HOUR;
	question_make(&s, &waiting, &q);
	assert_int_equal(q.n, 1);
	assert_int_equal(q.pools[0].offer->pool_id, 1);
	arena_free(s.a);
}

static void a_slow_pool_is_not_seen_where_time_is_short(void **state UNUSED)
{
	struct place_question q;
	struct shop s;

	shop_open(&s);
	s.facts.deadline_us = NOW + 7 * HOUR / 2;
	question_make(&s, &waiting, &q);
	assert_int_equal(q.n, 1);
	assert_int_equal(q.pools[0].offer->pool_id, 1);
	arena_free(s.a);
}

static void the_policy_sees_five_pools_one_of_them_cooling(void **state UNUSED)
{
	struct place_question q;
	struct shop s;

	shop_open(&s);
	for (int i = 0; i < 4; i++) {
		offer_add(&s, "H100-80GB-SXM", SPOT_MARKET_SPOT, 2.5 + i);
	}
	s.offers[0].cool_until_us = s.offers[7].cool_until_us = NOW + HOUR;
	s.facts.deadline_us = NOW + 48 * HOUR;
	question_make(&s, &waiting, &q);
	assert_int_equal(q.n, 5);
	for (size_t i = 0; i < 4; i++) {
		assert_non_null(q.pools[i].score);
	}
	assert_null(q.pools[4].score);
	assert_int_equal(q.pools[4].offer->pool_id, 1);
	arena_free(s.a);
}

static void the_setup_follows_from_the_job(void **state UNUSED)
{
	struct place_question q;
	struct policy_choice c;
	int64_t left;
	struct shop s;
	json_t *plan;

	shop_open(&s);
	s.facts.created_us = NOW - 2 * HOUR;
	s.facts.deadline_us = NOW + 46 * HOUR;
	s.facts.save_us = 30 * SPOT_US_PER_S;
	s.facts.restart_us = 500 * SPOT_US_PER_S;
	s.facts.steps_total = 100;
	s.facts.steps_done = 20;
	question_make(&s, &waiting, &q);
	plan = plan_of(&s, &q, &c);
	left = (int64_t)(s.placing.on_demand->hours * (double)HOUR);
	/* A fifth is done. */
	assert_true(llabs(int_read(plan, "work_us") - left * 5 / 4) < 10);
	assert_true(llabs(int_read(plan, "done_us") - left / 4) < 10);
	assert_int_equal(int_read(plan, "elapsed_us"), 2 * HOUR);
	assert_int_equal(int_read(plan, "changeover_us"), 530 * SPOT_US_PER_S);
	/* Nothing was refused: the reserve is only for work that a reclaim may take. */
	assert_int_equal(q.launch.us, 0);
	assert_true(q.loss_us > 0);
	assert_int_equal(int_read(plan, "loss_us"), q.loss_us);
	assert_int_equal(int_read(plan, "deadline_us"), 48 * HOUR - q.loss_us);
	assert_int_equal(int_read(plan, "tick_us"), 600 * SPOT_US_PER_S);
	assert_int_equal(q.tick_us, 600 * SPOT_US_PER_S);
	assert_string_equal(json_string_value(json_object_get(plan, "held")), "wait");
	assert_string_equal(json_string_value(json_object_get(plan, "policy")), "auto");
	assert_int_equal(strncmp(c.why, "deadline: ", 10), 0);
	assert_string_equal(c.why + 10, json_string_value(json_object_get(plan, "why")));
	json_decref(plan);
	arena_free(s.a);
}

static void the_clock_begins_when_the_job_may_begin(void **state UNUSED)
{
	struct place_question q;
	struct policy_choice c;
	struct shop s;
	json_t *plan;

	shop_open(&s);
	s.facts.created_us = NOW - 9 * HOUR;
	s.spec.start_after_us = NOW - HOUR;
	s.facts.deadline_us = NOW + 9 * HOUR;
	question_make(&s, &waiting, &q);
	plan = plan_of(&s, &q, &c);
	assert_int_equal(int_read(plan, "elapsed_us"), HOUR);
	assert_int_equal(int_read(plan, "done_us"), 0);
	/* A hundredth of ten hours is less than ten minutes. */
	assert_int_equal(int_read(plan, "tick_us"), 360 * SPOT_US_PER_S);
	json_decref(plan);
	s.spec.start_after_us = NOW + HOUR; /* it runs all the same */
	question_make(&s, &waiting, &q);
	plan = plan_of(&s, &q, &c);
	assert_int_equal(int_read(plan, "elapsed_us"), 0);
	json_decref(plan);
	arena_free(s.a);
}

static void refused_launches_are_held_back_for_and_said(void **state UNUSED)
{
	struct place_question q;
	struct policy_choice c;
	struct shop s;
	json_t *plan;

	shop_open(&s);
	s.facts.deadline_us = NOW + 48 * HOUR;
	s.offers[1].own_refusals = s.offers[3].own_refusals = 20;
	question_make(&s, &waiting, &q);
	assert_true(q.launch.us > 0);
	plan = plan_of(&s, &q, &c);
	assert_int_equal(int_read(plan, "deadline_us"), 48 * HOUR - q.loss_us - q.launch.us);
	assert_int_equal(int_read(json_object_get(plan, "launch_reserve"), "us"), q.launch.us);
	assert_non_null(strstr(c.why, "on-demand launches were refused lately (40.0 of 40.0"));
	json_decref(plan);
	arena_free(s.a);
}

/* Its machines may be held for ten minutes; a job that waits may lose that twice. */
static void a_gang_holds_back_the_time_to_gather(void **state UNUSED)
{
	struct gang_rest rest = { .pool_id = 1, .want = 2, .until_us = NOW + HOUR };
	const struct deadline_held spot = { .act = POLICY_SPOT, .pool_id = 3 };
	struct place_question q;
	struct policy_choice c;
	struct shop s;
	json_t *plan;

	shop_open(&s);
	s.facts.nodes = 2;
	s.facts.deadline_us = NOW + 48 * HOUR;
	s.market.rests = &rest;
	s.market.rests_n = 1;
	question_make(&s, &waiting, &q);
	assert_int_equal(q.n, 2);
	assert_int_equal(q.pools[1].offer->pool_id, 1);
	assert_null(q.pools[1].score);
	assert_int_equal(q.pools[1].price_micros, 4800000); /* of both machines */
	plan = plan_of(&s, &q, &c);
	assert_int_equal(int_read(plan, "deadline_us"),
	    48 * HOUR - q.loss_us - 1200 * SPOT_US_PER_S);
	json_decref(plan);
	question_make(&s, &spot, &q);
	plan = plan_of(&s, &q, &c);
	assert_int_equal(int_read(plan, "deadline_us"),
	    48 * HOUR - q.loss_us - 600 * SPOT_US_PER_S);
	assert_string_equal(json_string_value(json_object_get(plan, "held")), "spot");
	json_decref(plan);
	arena_free(s.a);
}

/* Two pools cost nearly the same. One of them was down for most of the last two days. */
static void a_pool_with_a_bad_past_is_passed_over(void **state UNUSED)
{
	struct supply_word words[97];
	const struct score *first;
	struct place_question q;
	struct place_choice choice;
	struct policy_choice c;
	struct shop s;
	json_t *plan;
	size_t n = 0;

	shop_open(&s);
	offer_add(&s, "H100-80GB-SXM", SPOT_MARKET_SPOT, 2.41);
	s.offers[2].capacity = 0;
	s.facts.deadline_us = NOW + 6 * HOUR;
	words[n++] = (struct supply_word){ 5, NOW - 48 * HOUR, 0, true };
	for (int i = 96; i > 0; i--) {
		words[n++] = (struct supply_word){ 1, NOW - i * HOUR / 2, 0, false };
	}
	question_make(&s, &waiting, &q);
	assert_int_equal(q.n, 2);
	assert_int_equal(q.pools[0].offer->pool_id, 1);
	placement_deadline(&s.in, &q, words, n, &c, &plan);
	json_decref(plan);
	placement_answer(&s.in, &q, &c, &choice);
	assert_int_equal(choice.act, PLACE_TAKE);
	assert_int_equal(choice.score->offer->pool_id, 5);
	assert_non_null(strstr(placement_passed(&s.in, &s.facts, &s.placing, choice.score, &first),
	    "the deadline policy expects the chosen one to cost less"));
	assert_int_equal(first->offer->pool_id, 1);
	arena_free(s.a);
}

static size_t candidate_find(const struct place_question *q, int32_t pool_id)
{
	for (size_t i = 0; i < q->n; i++) {
		if (q->pools[i].offer->pool_id == pool_id) {
			return i;
		}
	}
	fail();
	return 0;
}

/* Two pools cost the same, and one of them lost a machine just now. */
static void a_pool_whose_sibling_was_just_reclaimed_is_passed_over(void **state UNUSED)
{
	const size_t hits[] = { 0, 4 };
	struct rise rise = { 0 };
	struct place_question q;
	struct policy_choice c;
	struct shop s;

	rise_add(&sibling_fitted, SIBLING_POOL, 0, &rise);
	for (size_t k = 0; k < 2; k++) {
		json_t *plan, *pools;
		size_t hit, calm;

		shop_open(&s);
		offer_add(&s, "H100-80GB-SXM", SPOT_MARKET_SPOT, 2.4);
		s.offers[2].capacity = 0;
		s.offers[hits[k]].rise = rise;
		s.facts.deadline_us = NOW + 6 * HOUR;
		question_make(&s, &waiting, &q);
		hit = candidate_find(&q, s.offers[hits[k]].pool_id);
		calm = candidate_find(&q, s.offers[hits[!k]].pool_id);
		/* The ranking has it in the price already: the rest is the policy's own. */
		assert_true(q.pools[hit].price_micros > q.pools[calm].price_micros);
		q.pools[hit].price_micros = q.pools[calm].price_micros;
		plan = plan_of(&s, &q, &c);
		assert_int_equal(c.act, POLICY_SPOT);
		assert_int_equal(c.pool, calm);
		pools = json_object_get(plan, "pools");
		assert_float_equal(json_number_value(json_object_get(json_array_get(pools, hit),
				       "raised_per_hour")),
		    rise_now(&sibling_fitted, &rise), 1e-6);
		assert_float_equal(json_number_value(json_object_get(json_array_get(pools, calm),
				       "raised_per_hour")),
		    0, 0);
		json_decref(plan);
		arena_free(s.a);
	}
}

static void an_answer_becomes_a_choice(void **state UNUSED)
{
	struct place_question q = { .tick_us = 60 * SPOT_US_PER_S };
	struct place_choice c;
	const struct score *first;
	struct shop s;

	shop_open(&s);
	s.facts.deadline_us = NOW + 48 * HOUR;
	question_make(&s, &waiting, &q);
	q.tick_us = 60 * SPOT_US_PER_S;
	placement_answer(&s.in, &q, &(struct policy_choice){ POLICY_SPOT, 1, "a" }, &c);
	assert_int_equal(c.act, PLACE_TAKE);
	assert_ptr_equal(c.score, q.pools[1].score);
	assert_string_equal(c.kind, "place");
	assert_string_equal(c.why, "a");
	placement_answer(&s.in, &q, &(struct policy_choice){ POLICY_ON_DEMAND, 0, "b" }, &c);
	assert_int_equal(c.act, PLACE_TAKE);
	assert_ptr_equal(c.score, q.placing.on_demand);
	assert_string_equal(c.kind, "failover");
	assert_string_equal(placement_passed(&s.in, &s.facts, &q.placing, c.score, &first),
	    "spot is no longer safe for the deadline");
	q.placing.job.spot_allowed = false;
	placement_answer(&s.in, &q, &(struct policy_choice){ POLICY_ON_DEMAND, 0, "b" }, &c);
	assert_string_equal(c.kind, "place");
	placement_answer(&s.in, &q, &(struct policy_choice){ POLICY_WAIT, 0, "c" }, &c);
	assert_int_equal(c.act, PLACE_WAIT);
	assert_string_equal(c.kind, "wait");
	assert_int_equal(c.until_us, NOW + 60 * SPOT_US_PER_S);
	assert_null(c.score);
	arena_free(s.a);
}

static void nothing_is_passed_over_where_the_first_is_chosen(void **state UNUSED)
{
	const struct score *first;
	struct shop s;

	shop_open(&s);
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_null(placement_passed(&s.in, &s.facts, &s.placing, NULL, &first));
	assert_int_equal(first->offer->pool_id, 3);
	assert_null(placement_passed(&s.in, &s.facts, &s.placing, first, &first));
	/* Another spot pool for no reason that is known here. */
	assert_string_equal(placement_passed(&s.in, &s.facts, &s.placing, &s.placing.scores[1],
				&first),
	    "");
	s.placing.usable = 0;
	assert_null(placement_passed(&s.in, &s.facts, &s.placing, &s.placing.scores[1], &first));
	assert_null(first);
	arena_free(s.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_policy_plans_only_where_there_is_something_to_choose),
		cmocka_unit_test(a_pool_that_cools_down_is_seen_as_down),
		cmocka_unit_test(a_slow_pool_is_not_seen_where_time_is_short),
		cmocka_unit_test(the_policy_sees_five_pools_one_of_them_cooling),
		cmocka_unit_test(the_setup_follows_from_the_job),
		cmocka_unit_test(the_clock_begins_when_the_job_may_begin),
		cmocka_unit_test(refused_launches_are_held_back_for_and_said),
		cmocka_unit_test(a_gang_holds_back_the_time_to_gather),
		cmocka_unit_test(a_pool_with_a_bad_past_is_passed_over),
		cmocka_unit_test(a_pool_whose_sibling_was_just_reclaimed_is_passed_over),
		cmocka_unit_test(an_answer_becomes_a_choice),
		cmocka_unit_test(nothing_is_passed_over_where_the_first_is_chosen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
