/* The steps of a decision: late jobs, reservations, deferral, patience, and the figures they are
 * made of. */
#include "base/base.h"
#include "core/place/place.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "place_shop.h"

static enum place_next choice_begin(struct shop *s, struct place_choice *c)
{
	placement_rank(&s->in, &s->facts, &s->spec, &s->placing);
	return placement_begin(&s->in, &s->facts, &s->placing, c);
}

/* The choice of a job that no deadline policy and no deferral is asked about. */
static struct place_choice choice_decide(struct shop *s)
{
	struct place_choice c;

	assert_int_equal(choice_begin(s, &c), PLACE_DECIDED);
	return c;
}

static void acts_have_names(void **state UNUSED)
{
	assert_string_equal(place_act_name(PLACE_NONE), "none");
	assert_string_equal(place_act_name(PLACE_TAKE), "take");
	assert_string_equal(place_act_name(PLACE_WAIT), "wait");
	assert_string_equal(place_act_name(PLACE_DEFER), "defer");
	assert_string_equal(place_act_name(PLACE_SHORT), "short");
	assert_string_equal(place_act_name(PLACE_PARK), "park");
}

static void a_late_job_goes_where_it_is_done_first(void **state UNUSED)
{
	const struct score *first;
	struct place_choice c;
	struct shop s;

	shop_open(&s);
	s.facts.deadline_us = NOW - HOUR;
	/* A calm spot pool is as quick as on demand and costs less. */
	assert_int_equal(choice_decide(&s).score->offer->pool_id, 1);
	s.offers[0].hazard = 0.5;
	c = choice_decide(&s);
	assert_true(s.placing.late);
	assert_int_equal(c.act, PLACE_TAKE);
	assert_string_equal(c.kind, "place");
	assert_int_equal(c.score->offer->pool_id, 2);
	assert_non_null(strstr(c.why, "its deadline has passed"));
	assert_non_null(strstr(placement_passed(&s.in, &s.facts, &s.placing, c.score, &first),
	    "the deadline has passed"));
	assert_int_equal(first->offer->pool_id, 3);
	s.market.offers_n = 0;
	c = choice_decide(&s);
	assert_int_equal(c.act, PLACE_WAIT);
	arena_free(s.a);
}

static void a_late_job_may_ask_for_the_cheapest_instead(void **state UNUSED)
{
	struct shop s;

	shop_open(&s);
	s.facts.deadline_us = NOW - HOUR;
	s.spec.late_cheapest = true;
	assert_int_equal(choice_decide(&s).score->offer->pool_id, 3);
	assert_int_equal(s.facts.deadline_us, 0);
	assert_false(s.placing.late);
	arena_free(s.a);
}

static void a_reservation_is_used_before_anything_is_bought(void **state UNUSED)
{
	const struct score *first;
	struct place_choice c;
	struct shop s;

	shop_open(&s);
	offer_add(&s, "L40S", SPOT_MARKET_RESERVED, 20);
	offer_add(&s, "L40S", SPOT_MARKET_RESERVED, 30);
	c = choice_decide(&s);
	assert_int_equal(c.act, PLACE_TAKE);
	assert_int_equal(c.score->offer->pool_id, 5);
	assert_non_null(strstr(c.why, "a reservation has room"));
	assert_ptr_equal(placement_best(&s.in, &s.facts, &s.placing, SPOT_MARKET_RESERVED),
	    c.score);
	assert_string_equal(placement_passed(&s.in, &s.facts, &s.placing, c.score, &first),
	    "a reservation is paid for already");
	/* 989 / 362 hours of work are too many. */
	s.facts.deadline_us = NOW + 2 * HOUR;
	assert_int_equal(choice_begin(&s, &c), PLACE_WORDS);
	s.facts.deadline_us = NOW + 4 * HOUR;
	assert_int_equal(choice_decide(&s).score->offer->pool_id, 5);
	/* Nothing else is for sale: it is late there, and anywhere. */
	s.offers[1].capacity = s.offers[3].capacity = 0;
	s.facts.deadline_us = NOW + 2 * HOUR;
	assert_int_equal(choice_decide(&s).score->offer->pool_id, 5);
	arena_free(s.a);
}

static void only_a_job_that_has_not_begun_is_deferred_once(void **state UNUSED)
{
	struct place_choice c;
	struct shop s;

	shop_open(&s);
	s.spec.off_peak = 1;
	assert_int_equal(choice_begin(&s, &c), PLACE_HOURS);
	s.facts.state = JOB_NONE; /* not submitted yet */
	assert_int_equal(choice_begin(&s, &c), PLACE_HOURS);
	s.facts.state = JOB_RUNNING;
	assert_int_equal(choice_begin(&s, &c), PLACE_DECIDED);
	s.facts.state = JOB_QUEUED;
	s.facts.epoch = 1;
	assert_int_equal(choice_begin(&s, &c), PLACE_DECIDED);
	s.facts.epoch = 0;
	s.facts.not_before_us = NOW;
	assert_int_equal(choice_begin(&s, &c), PLACE_DECIDED);
	s.facts.not_before_us = 0;
	/* The file says nothing: a deadline leaves room, or there is none. */
	s.spec.off_peak = -1;
	assert_int_equal(choice_begin(&s, &c), PLACE_DECIDED);
	s.facts.deadline_us = NOW + 48 * HOUR;
	assert_int_equal(choice_begin(&s, &c), PLACE_HOURS);
	s.spec.off_peak = 0;
	assert_int_equal(choice_begin(&s, &c), PLACE_WORDS);
	s.facts.deadline_us = 0;
	s.spec.off_peak = 1;
	s.market.offers_n = 0;
	assert_int_equal(choice_begin(&s, &c), PLACE_DECIDED);
	assert_int_equal(c.act, PLACE_WAIT);
	arena_free(s.a);
}

static void prices_count_of_the_pools_of_the_best_market(void **state UNUSED)
{
	int32_t ids[PLACE_HOURS_POOLS];
	struct shop s;

	shop_open(&s);
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_int_equal(placement_defer_pools(&s.placing, ids), 2);
	assert_int_equal(ids[0], 3);
	assert_int_equal(ids[1], 1);
	s.placing.usable = 0;
	assert_int_equal(placement_defer_pools(&s.placing, ids), 0);
	arena_free(s.a);
}

/* NOW is 16:00. From 20:00 to midnight the price is a third: the three hours of work fit. */
static void a_job_waits_for_the_cheap_hours(void **state UNUSED)
{
	struct defer_in hours = { .now_us = 0 };
	struct defer_out out;
	struct shop s;

	shop_open(&s);
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	placement_defer(&s.in, &s.facts, &s.placing, &hours, &out);
	assert_int_equal(out.start_us, NOW);
	assert_string_equal(out.why, "no cheaper hours are known");
	for (int h = 0; h < DEFER_HOURS; h++) {
		hours.hours[h] = (struct defer_hour){ .price = h >= 20 ? 1 : 3, .days = 50 };
	}
	placement_defer(&s.in, &s.facts, &s.placing, &hours, &out);
	assert_int_equal(hours.now_us, NOW);
	assert_int_equal(hours.deadline_us, 0);
	assert_int_equal(hours.run_us,
	    (int64_t)(s.placing.spot->hours * (double)HOUR + 240.0 * SPOT_US_PER_S));
	assert_int_equal(hours.safe_us,
	    (int64_t)(s.placing.on_demand->hours * (double)HOUR + 720.0 * SPOT_US_PER_S));
	assert_int_equal(out.start_us, NOW + 4 * HOUR);
	assert_true(out.saving > 0.5);
	/* Without on-demand to fall back on, spot counts twice. */
	s.offers[1].capacity = s.offers[3].capacity = 0;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_null(s.placing.on_demand);
	placement_defer(&s.in, &s.facts, &s.placing, &hours, &out);
	assert_int_equal(hours.run_us,
	    (int64_t)(2 * s.placing.spot->hours * (double)HOUR + 240.0 * SPOT_US_PER_S));
	assert_int_equal(hours.safe_us, hours.run_us);
	arena_free(s.a);
}

static void a_job_waits_for_spot_as_long_as_its_patience(void **state UNUSED)
{
	const struct score *first;
	struct place_choice c;
	struct shop s;

	shop_open(&s);
	s.offers[0].cool_until_us = s.offers[2].cool_until_us = NOW + HOUR;
	c = choice_decide(&s);
	assert_int_equal(c.act, PLACE_WAIT);
	assert_string_equal(c.kind, "wait");
	assert_true(c.patient);
	assert_int_equal(c.until_us, NOW + 600 * SPOT_US_PER_S);
	s.in.now_us = NOW + 601 * SPOT_US_PER_S;
	c = choice_decide(&s);
	assert_int_equal(c.act, PLACE_TAKE);
	assert_string_equal(c.kind, "failover");
	assert_int_equal(c.score->offer->pool_id, 2);
	/* A pool came back, and the job tries it first only while it is patient. */
	s.offers[2].cool_until_us = 0;
	c = choice_decide(&s);
	assert_int_equal(c.score->offer->pool_id, 2);
	assert_string_equal(c.kind, "failover");
	assert_string_equal(placement_passed(&s.in, &s.facts, &s.placing, c.score, &first),
	    "spot was refused for longer than the job waits for it");
	s.spec.patience_s = 3600;
	c = choice_decide(&s);
	assert_int_equal(c.score->offer->pool_id, 3);
	assert_string_equal(c.kind, "place");
	arena_free(s.a);
}

static void patience_is_shorter_while_supply_is_tight(void **state UNUSED)
{
	static const struct tight_group groups[] = { { "gcp", "us-east-1", "L40S" },
		{ "aws", "us-west-2", "L40S" }, { "aws", "us-east-1", "T4" },
		{ "aws", "us-east-1", "L40S" } };
	struct shop s;

	shop_open(&s);
	s.market.tight = groups;
	s.offers[0].cool_until_us = NOW + HOUR;
	s.in.now_us = NOW + 200 * SPOT_US_PER_S;
	/* The first three are other groups. */
	s.market.tight_n = 3;
	assert_int_equal(choice_decide(&s).score->offer->pool_id, 3);
	assert_int_equal(placement_easy(&s.market, &s.placing)->offer->pool_id, 3);
	/* A quarter of ten minutes is over. */
	s.market.tight_n = 4;
	assert_int_equal(choice_decide(&s).score->offer->pool_id, 2);
	assert_null(placement_easy(&s.market, &s.placing));
	assert_true(placement_tight(groups, 4, &s.offers[2]));
	assert_false(placement_tight(groups, 4, &s.offers[3])); /* on demand */
	s.offers[0].cool_until_us = 0;
	assert_int_equal(choice_decide(&s).score->offer->pool_id, 3);
	assert_int_equal(placement_easy(&s.market, &s.placing)->offer->pool_id, 1);
	arena_free(s.a);
}

static void a_job_without_spot_takes_on_demand_at_once(void **state UNUSED)
{
	struct place_choice c;
	struct shop s;

	shop_open(&s);
	s.ask.use_spot = 0;
	c = choice_decide(&s);
	assert_false(s.placing.job.spot_allowed);
	assert_true(s.placing.job.on_demand_allowed);
	assert_int_equal(c.score->offer->pool_id, 2);
	assert_string_equal(c.kind, "place");
	s.ask.use_spot = -1;
	s.spec.interruptible = false;
	assert_int_equal(choice_decide(&s).score->offer->pool_id, 2);
	assert_int_equal(s.placing.spot_n, 0);
	s.spec.asks_n = 0;
	c = choice_decide(&s);
	assert_int_equal(c.act, PLACE_WAIT);
	assert_false(s.placing.job.on_demand_allowed);
	arena_free(s.a);
}

static void the_best_of_a_market_is_in_time_or_else_the_fastest(void **state UNUSED)
{
	const struct placing *p;
	struct shop s;

	shop_open(&s);
	p = &s.placing;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_int_equal(placement_best(&s.in, &s.facts, p, SPOT_MARKET_NONE)->offer->pool_id, 3);
	assert_int_equal(placement_best(&s.in, &s.facts, p, SPOT_MARKET_ON_DEMAND)->offer->pool_id,
	    2);
	assert_null(placement_best(&s.in, &s.facts, p, SPOT_MARKET_RESERVED));
	s.facts.deadline_us = NOW + HOUR / 2; /* nobody is done by then */
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_int_equal(placement_best(&s.in, &s.facts, p, SPOT_MARKET_NONE)->offer->pool_id, 2);
	assert_int_equal(placement_best(&s.in, &s.facts, p, SPOT_MARKET_SPOT)->offer->pool_id, 1);
	arena_free(s.a);
}

static void soonest_is_on_machines_that_nobody_takes_back(void **state UNUSED)
{
	struct score one, whole;
	struct shop s;

	shop_open(&s);
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_true(placement_soonest(&s.facts, &s.placing, &one));
	assert_int_equal(one.offer->pool_id, 2);
	s.facts.nodes = 3;
	assert_true(placement_soonest(&s.facts, &s.placing, &whole));
	assert_int_equal(whole.offer->pool_id, 2);
	assert_int_equal(whole.price_micros, 3 * one.price_micros);
	assert_true(whole.interruptions == 3 * one.interruptions);
	s.facts.nodes = 1;
	s.offers[1].capacity = s.offers[3].capacity = 0;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_true(placement_soonest(&s.facts, &s.placing, &one));
	assert_int_equal(one.offer->pool_id, 1);
	s.market.offers_n = 0;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_false(placement_soonest(&s.facts, &s.placing, &one));
	arena_free(s.a);
}

static void a_start_costs_time_and_money(void **state UNUSED)
{
	int64_t price = 3600000; /* a thousandth of a dollar each second */
	struct shop s;

	shop_open(&s);
	assert_int_equal(placement_changeover_us(&s.policy, &s.facts), 240 * SPOT_US_PER_S);
	assert_int_equal(placement_patience_us(&s.policy, &s.spec), 600 * SPOT_US_PER_S);
	s.spec.patience_s = 0;
	assert_int_equal(placement_patience_us(&s.policy, &s.spec), 0);
	/* 240 s start, 300 s work, 60 s save, 140 s end. */
	assert_int_equal(placement_budget_need(&s.policy, &s.facts, &s.spec, price), 740000);
	s.facts.restart_us = 100 * SPOT_US_PER_S;
	assert_int_equal(placement_budget_need(&s.policy, &s.facts, &s.spec, price), 600000);
	assert_int_equal(placement_budget_need(&s.policy, &s.facts, &s.spec, -1), 0);
	assert_true(placement_within_h(&s.in, &s.facts) == HUGE_VAL);
	s.facts.deadline_us = NOW + 2 * HOUR;
	s.facts.save_us = 60 * SPOT_US_PER_S;
	assert_true(fabs(placement_within_h(&s.in, &s.facts) - 6900.0 / 3600) < 1e-9);
	s.facts.nodes = 2; /* a gang may gather for ten minutes */
	assert_int_equal(placement_changeover_us(&s.policy, &s.facts), 840 * SPOT_US_PER_S);
	assert_true(fabs(placement_within_h(&s.in, &s.facts) - 6300.0 / 3600) < 1e-9);
	arena_free(s.a);
}

static void the_work_that_is_done_is_not_counted(void **state UNUSED)
{
	struct shop s;

	shop_open(&s);
	s.facts.steps_total = 100;
	s.facts.steps_done = 25;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_int_equal(s.placing.job.work_left_s, 2700);
	s.facts.steps_done = 120; /* more than it said there were */
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_int_equal(s.placing.job.work_left_s, 1);
	s.facts.steps_done = 0;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_int_equal(s.placing.job.work_left_s, 3600);
	arena_free(s.a);
}

static void a_checkpoint_is_where_the_store_is(void **state UNUSED)
{
	struct shop s;

	shop_open(&s);
	s.facts.has_checkpoint = true;
	s.policy.store_region = "ignored";
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_null(s.placing.job.at_provider);
	assert_null(s.placing.job.store_region);
	s.policy.store_provider = "gcp";
	s.policy.store_region = "us-central1";
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_string_equal(s.placing.job.at_provider, "gcp");
	assert_string_equal(s.placing.job.at_region, "us-central1");
	assert_string_equal(s.placing.job.store_region, "us-central1");
	s.facts.has_checkpoint = false;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_null(s.placing.job.at_provider);
	arena_free(s.a);
}

static void a_gang_that_is_too_dear_leaves_the_ranking_of_one(void **state UNUSED)
{
	struct shop s;

	shop_open(&s);
	s.facts.nodes = 2;
	s.facts.has_budget = true;
	s.facts.budget_left = s.facts.budget_micros = 400000;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	/* Two L40S cost 0.8 USD an hour, two H100 at least 4.8: 740 s of that are 0.98. */
	assert_int_equal(s.placing.usable, 1);
	assert_int_equal(s.placing.dear, 3);
	assert_int_equal(s.placing.spot->offer->pool_id, 3);
	assert_int_equal(s.placing.ranking.usable, 4);
	s.facts.budget_left = 100 * 1000000;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_int_equal(s.placing.dear, 0);
	assert_int_equal(s.placing.usable, 4);
	arena_free(s.a);
}

static void a_fleet_may_use_any_market(void **state UNUSED)
{
	struct score *scores;
	struct shop s;
	size_t n;

	shop_open(&s);
	s.spec.interruptible = false;
	placement_fleet(&s.in, &s.spec, &(struct fleet_saves){ 0 }, &scores, &n);
	assert_int_equal(n, 4);
	assert_int_equal(scores[0].offer->pool_id, 3);
	for (size_t i = 1; i < n; i++) {
		assert_true(scores[i - 1].total_micros <= scores[i].total_micros);
	}
	arena_free(s.a);
}

/* Two spot pools for one fleet. The cheaper one is away from the bucket. */
static void the_egress_of_its_checkpoints_counts_for_a_fleet(void **state UNUSED)
{
	struct fleet_saves saves = { 0 };
	struct score *scores;
	struct score_terms t;
	struct shop s;
	size_t n;
	int64_t calm;

	shop_open(&s);
	s.market.offers_n = 0;
	offer_add(&s, "L40S", SPOT_MARKET_SPOT, 0.40);
	offer_add(&s, "L40S", SPOT_MARKET_SPOT, 0.39);
	s.offers[1].region = "eu-west-1";
	s.policy.store_provider = "aws";
	s.policy.store_region = "us-east-1";
	placement_fleet(&s.in, &s.spec, &saves, &scores, &n);
	assert_int_equal(scores[0].offer->pool_id, 2);
	assert_int_equal(scores[0].egress_micros, 0);
	saves = (struct fleet_saves){ 10000000000, 20 * SPOT_US_PER_S };
	placement_fleet(&s.in, &s.spec, &saves, &scores, &n);
	assert_int_equal(n, 2);
	assert_int_equal(scores[0].offer->pool_id, 1);
	assert_int_equal(scores[0].egress_micros, 0);
	/* 10 GB to the bucket for each save, and back after each reclaim. */
	score_explain(&scores[1], &t);
	assert_int_equal(t.upload_per_micros,
	    10 * egress_micros_per_gb("aws", "eu-west-1", "aws", "us-east-1"));
	assert_true(t.saves > 0 && t.restores > 0);
	assert_true(fabs(t.restores - t.interruptions) < 1e-9);
	calm = scores[1].egress_micros;
	assert_true(calm > t.upload_per_micros);
	s.offers[1].hazard = 0.2;
	placement_fleet(&s.in, &s.spec, &saves, &scores, &n);
	assert_true(scores[1].egress_micros > calm);
	/* Without a store nothing is uploaded. */
	s.policy.store_provider = NULL;
	placement_fleet(&s.in, &s.spec, &saves, &scores, &n);
	assert_int_equal(scores[0].egress_micros, 0);
	assert_int_equal(scores[1].egress_micros, 0);
	arena_free(s.a);
}

static void an_offer_suits_at_todays_price_only(void **state UNUSED)
{
	struct shop s;

	shop_open(&s);
	assert_true(placement_suits(&s.in, &s.spec));
	s.ask.max_hourly_micros = 1;
	assert_false(placement_suits(&s.in, &s.spec));
	s.ask.max_hourly_micros = 0;
	s.spec.interruptible = false;
	assert_true(placement_suits(&s.in, &s.spec));
	s.market.offers_n = 1; /* spot alone */
	assert_false(placement_suits(&s.in, &s.spec));
	s.spec.asks_n = 0;
	assert_false(placement_suits(&s.in, &s.spec));
	arena_free(s.a);
}

static void never_says(struct shop *s, const char *words)
{
	const char *why = placement_never(&s->in, &s->spec);

	assert_non_null(why);
	assert_string_equal(why, words);
}

#define NEVER "no pool of any provider can run it; a pool would suit with "

static void each_wish_that_stands_in_the_way_is_named_with_what_there_is(void **state UNUSED)
{
	static const char *tier[] = { "T4" };
	struct shop s;

	shop_open(&s);
	s.ask.provider = "gcp";
	never_says(&s, NEVER "another provider (aws)");
	s.ask.provider = NULL;
	s.ask.region = "eu-1";
	never_says(&s, NEVER "another provider (aws), or another region (aws/us-east-1)");
	s.ask.region = NULL;
	s.ask.zone = "q";
	s.offers[2].zone_name = "";
	never_says(&s,
	    NEVER "another provider (aws), or another region (aws/us-east-1), "
		  "or another zone (us-east-1a, a)");
	s.ask.zone = NULL;
	s.ask.instance_type = "u";
	never_says(&s, NEVER "another instance_type (t)");
	s.ask.instance_type = NULL;
	s.ask.mem_mib_min = 1000000;
	never_says(&s, NEVER "less memory (64 GiB)");
	s.ask.mem_mib_min = 0;
	s.ask.gpus_n = 0;
	s.ask.tiers = tier;
	s.ask.tiers_n = 1;
	never_says(&s, NEVER "another class");
	arena_free(s.a);
}

static void at_most_four_values_are_named(void **state UNUSED)
{
	static const char *const names[] = { "za", "zb", "zc", "zd", "ze" };
	struct shop s;

	shop_open(&s);
	offer_add(&s, "L40S", SPOT_MARKET_SPOT, 1);
	for (size_t i = 0; i < 5; i++) {
		s.offers[i].zone_name = names[i];
	}
	s.ask.zone = "q";
	never_says(&s,
	    NEVER "another provider (aws), or another region (aws/us-east-1), "
		  "or another zone (za, zb, zc, zd)");
	arena_free(s.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(acts_have_names),
		cmocka_unit_test(a_late_job_goes_where_it_is_done_first),
		cmocka_unit_test(a_late_job_may_ask_for_the_cheapest_instead),
		cmocka_unit_test(a_reservation_is_used_before_anything_is_bought),
		cmocka_unit_test(only_a_job_that_has_not_begun_is_deferred_once),
		cmocka_unit_test(prices_count_of_the_pools_of_the_best_market),
		cmocka_unit_test(a_job_waits_for_the_cheap_hours),
		cmocka_unit_test(a_job_waits_for_spot_as_long_as_its_patience),
		cmocka_unit_test(patience_is_shorter_while_supply_is_tight),
		cmocka_unit_test(a_job_without_spot_takes_on_demand_at_once),
		cmocka_unit_test(the_best_of_a_market_is_in_time_or_else_the_fastest),
		cmocka_unit_test(soonest_is_on_machines_that_nobody_takes_back),
		cmocka_unit_test(a_start_costs_time_and_money),
		cmocka_unit_test(the_work_that_is_done_is_not_counted),
		cmocka_unit_test(a_checkpoint_is_where_the_store_is),
		cmocka_unit_test(a_gang_that_is_too_dear_leaves_the_ranking_of_one),
		cmocka_unit_test(a_fleet_may_use_any_market),
		cmocka_unit_test(the_egress_of_its_checkpoints_counts_for_a_fleet),
		cmocka_unit_test(an_offer_suits_at_todays_price_only),
		cmocka_unit_test(each_wish_that_stands_in_the_way_is_named_with_what_there_is),
		cmocka_unit_test(at_most_four_values_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
