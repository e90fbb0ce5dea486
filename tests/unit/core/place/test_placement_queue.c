/* Machines from a queue (market flex_start): the jobs that wait for one, and how long. */
#include "base/base.h"
#include "core/place/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "place_shop.h"

/* The choice of a job that no deadline policy and no deferral is asked about. */
static struct place_choice choice_decide(struct shop *s)
{
	struct place_choice c;

	placement_rank(&s->in, &s->facts, &s->spec, &s->placing);
	assert_int_equal(placement_begin(&s->in, &s->facts, &s->placing, &c), PLACE_DECIDED);
	return c;
}

/* The L40S of the queue costs less than any other machine that is not taken back. */
static void a_machine_of_a_queue_is_taken_within_the_patience(void **state UNUSED)
{
	const struct score *first;
	struct place_choice c;
	struct shop s;

	shop_open(&s);
	offer_add(&s, "L40S", SPOT_MARKET_FLEX_START, 0.9);
	s.ask.use_spot = 0;
	s.spec.interruptible = false;
	c = choice_decide(&s);
	placement_patiently(&s.in, &s.facts, &s.placing, &c);
	assert_int_equal(c.act, PLACE_TAKE);
	assert_int_equal(c.score->offer->pool_id, 5);
	assert_non_null(strstr(c.why, "a queued machine costs less"));
	assert_null(s.placing.reserved);
	/* One on demand is taken once the patience is over, unless there is none. */
	s.in.now_us =
	    NOW + s.policy.supply.patience_us + s.policy.supply.changeover_us + SPOT_US_PER_S;
	c = choice_decide(&s);
	assert_int_equal(c.score->offer->market, SPOT_MARKET_ON_DEMAND);
	assert_null(strstr(c.why, "queued"));
	s.offers[1].capacity = s.offers[3].capacity = 0;
	assert_int_equal(choice_decide(&s).score->offer->pool_id, 5);
	s.offers[1].capacity = s.offers[3].capacity = -1;
	s.in.now_us = NOW;
	/* Spot that costs less goes before it; spot that runs out does not. */
	s.ask.use_spot = -1;
	s.spec.interruptible = true;
	assert_int_equal(choice_decide(&s).score->offer->pool_id, 3);
	s.offers[0].cool_until_us = s.offers[2].cool_until_us = NOW + HOUR;
	s.facts.queued_us = NOW - s.policy.supply.patience_us;
	c = choice_decide(&s);
	assert_string_equal(c.kind, "failover");
	assert_int_equal(c.score->offer->pool_id, 5);
	s.offers[0].cool_until_us = s.offers[2].cool_until_us = 0;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_non_null(
	    strstr(placement_passed(&s.in, &s.facts, &s.placing, s.placing.queued, &first),
		"refused"));
	arena_free(s.a);
}

static void a_queue_is_nothing_for_deadlines_gangs_and_jobs_that_run(void **state UNUSED)
{
	struct shop s;

	shop_open(&s);
	offer_add(&s, "L40S", SPOT_MARKET_FLEX_START, 0.1);
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_non_null(s.placing.queued);
	s.facts.deadline_us = NOW + 48 * HOUR;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_null(s.placing.queued);
	assert_int_equal(s.placing.ranking.refused_n, 1);
	assert_non_null(
	    strstr(refusal_words(s.a, &s.placing.ranking, &s.placing.ranking.refused[0]), "queue"));
	s.facts.deadline_us = 0;
	s.facts.nodes = 2;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_null(s.placing.queued);
	s.facts.nodes = 1;
	s.facts.state = JOB_RUNNING;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_null(s.placing.queued);
	arena_free(s.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_of_a_queue_is_taken_within_the_patience),
		cmocka_unit_test(a_queue_is_nothing_for_deadlines_gangs_and_jobs_that_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
