/* The placement of a job, without a database: its markets, loose and tight deadlines, budgets, and
 * the words for a job that can never run. */
#include "base/base.h"
#include "core/place/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "place_shop.h"

/* The choice, the deadline policy asked without a past. */
static struct place_choice choice_make(struct shop *s)
{
	struct place_question q;
	struct place_choice c;
	struct policy_choice answer;
	json_t *plan;

	placement_rank(&s->in, &s->facts, &s->spec, &s->placing);
	if (placement_begin(&s->in, &s->facts, &s->placing, &c) == PLACE_WORDS) {
		placement_ask(&s->in, &s->facts, &s->placing,
		    &(struct deadline_held){ .act = POLICY_WAIT }, &q);
		placement_deadline(&s->in, &q, NULL, 0, &answer, &plan);
		placement_answer(&s->in, &q, &answer, &c);
		json_decref(plan);
	}
	return c;
}

static void test_a_loose_deadline_takes_the_first_row(void **state UNUSED)
{
	const struct score *first;
	struct place_choice c;
	struct shop s;

	shop_open(&s);
	c = choice_make(&s);
	assert_int_equal(c.score->offer->pool_id, 3);
	assert_true(c.score->throughput < DEADLINE_SPEED_LEAST);
	s.facts.deadline_us = NOW + 48 * HOUR;
	c = choice_make(&s);
	assert_int_equal(c.act, PLACE_TAKE);
	assert_int_equal(c.score->offer->pool_id, 3);
	assert_null(placement_passed(&s.in, &s.facts, &s.placing, c.score, &first));
	arena_free(s.a);
}

/* It could finish there, and not begin again on demand after a run that was lost. */
static void test_a_tight_deadline_passes_the_slow_one_over_and_says_why(void **state UNUSED)
{
	const struct score *first;
	struct place_choice c;
	struct shop s;
	const char *why;

	shop_open(&s);
	s.facts.deadline_us = NOW + 7 * HOUR / 2;
	c = choice_make(&s);
	assert_int_equal(c.act, PLACE_TAKE);
	assert_int_equal(c.score->offer->pool_id, 1);
	why = placement_passed(&s.in, &s.facts, &s.placing, c.score, &first);
	assert_int_equal(first->offer->pool_id, 3);
	assert_non_null(strstr(why, "times the work per hour of the on-demand machine"));
	s.facts.deadline_us = NOW + 2 * HOUR;
	c = choice_make(&s);
	why = placement_passed(&s.in, &s.facts, &s.placing, c.score, &first);
	assert_non_null(strstr(why, "would miss the deadline"));
	arena_free(s.a);
}

static void test_spot_needs_a_provider_that_sells_it(void **state UNUSED)
{
	static const char *const none[] = { "gcp" };
	struct shop s;

	shop_open(&s);
	s.market.sellers_known = true;
	s.market.sellers = none;
	s.market.sellers_n = 1;
	assert_int_equal(choice_make(&s).score->offer->market, SPOT_MARKET_SPOT);
	s.ask.provider = "aws";
	assert_int_equal(choice_make(&s).score->offer->market, SPOT_MARKET_ON_DEMAND);
	assert_false(s.placing.job.spot_allowed);
	arena_free(s.a);
}

static void test_a_budget_takes_out_what_it_does_not_pay_for(void **state UNUSED)
{
	struct place_choice c;
	struct shop s;

	shop_open(&s);
	s.facts.has_budget = true;
	s.facts.budget_micros = s.facts.budget_left = 500000;
	c = choice_make(&s);
	assert_int_equal(c.score->offer->pool_id, 3);
	assert_true(s.placing.dear > 0 && s.placing.usable > 0);
	s.facts.budget_left = 1;
	c = choice_make(&s);
	assert_int_equal(c.act, PLACE_PARK);
	assert_non_null(strstr(c.why, "a start needs"));
	s.facts.state = JOB_DRAINING; /* it saves still, and waits */
	c = choice_make(&s);
	assert_int_equal(c.act, PLACE_SHORT);
	arena_free(s.a);
}

static void test_earlier_step_rates_move_the_ranking(void **state UNUSED)
{
	struct shop s;

	shop_open(&s);
	assert_int_equal(choice_make(&s).score->offer->pool_id, 3);
	/* An earlier job did a hundredth of the steps there. */
	s.facts.rates = "H100-80GB-SXM 1000 10000 10\nL40S 1000 100 10";
	assert_int_equal(choice_make(&s).score->offer->pool_id, 1);
	arena_free(s.a);
}

static void never_is(struct shop *s, const char *part)
{
	const char *why = placement_never(&s->in, &s->spec);

	if (part == NULL) {
		assert_null(why);
	} else if (why == NULL || strstr(why, part) == NULL) {
		fail_msg("'%s' lacks '%s'", why != NULL ? why : "(can run)", part);
	}
}

static void test_a_job_that_never_can_run_is_told_what_would_make_it_possible(void **state UNUSED)
{
	struct shop s;

	shop_open(&s);
	never_is(&s, NULL);
	s.offers[2].cool_until_us = NOW + HOUR;
	s.ask.max_hourly_micros = 1;
	never_is(&s, NULL); /* pools come back, prices fall */
	s.ask.region = "us-esat-1";
	s.ask.provider = "aws";
	never_is(&s, "another region (aws/us-east-1)");
	s.ask.region = NULL;
	s.gpus[0].milli = s.gpus[1].milli = 8000;
	never_is(&s, "another count of GPUs (H100-80GB-SXM:1, L40S:1)");
	s.ask.vcpus_min = 500;
	never_is(&s, "no single change");
	s.gpus[0].milli = s.gpus[1].milli = 1000;
	never_is(&s, "fewer cpus (8 vCPUs)");
	s.ask.vcpus_min = 0;
	s.spec.interruptible = false;
	never_is(&s, NULL);
	s.market.offers_n = 1; /* spot alone */
	never_is(&s, "spot (use_spot: true, interruptible: true)");
	arena_free(s.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_loose_deadline_takes_the_first_row),
		cmocka_unit_test(test_a_tight_deadline_passes_the_slow_one_over_and_says_why),
		cmocka_unit_test(test_spot_needs_a_provider_that_sells_it),
		cmocka_unit_test(test_a_budget_takes_out_what_it_does_not_pay_for),
		cmocka_unit_test(test_earlier_step_rates_move_the_ranking),
		cmocka_unit_test(test_a_job_that_never_can_run_is_told_what_would_make_it_possible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
