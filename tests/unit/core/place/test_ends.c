/* Reservations that end or are reclaimed: which work they take, and what the move costs. */
#include "base/base.h"
#include "core/place/place.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "place_shop.h"

/* A reserved H100 that ends in so many hours; 0 = never. */
static void shop_reserve(struct shop *s, double hours)
{
	shop_open(s);
	offer_add(s, "H100-80GB-SXM", SPOT_MARKET_RESERVED, 1e-6);
	s->offers[4].ends_us = hours > 0 ? NOW + (int64_t)(hours * (double)HOUR) : 0;
}

static struct place_choice choice_of(struct shop *s)
{
	struct place_choice c;

	placement_rank(&s->in, &s->facts, &s->spec, &s->placing);
	placement_begin(&s->in, &s->facts, &s->placing, &c);
	return c;
}

static const char *refused_because(struct shop *s, int32_t pool_id)
{
	for (size_t i = 0; i < s->placing.ranking.refused_n; i++) {
		const struct refused *x = &s->placing.ranking.refused[i];

		if (x->offer->pool_id == pool_id) {
			return refusal_words(s->a, &s->placing.ranking, x);
		}
	}
	return NULL;
}

static void work_that_ends_before_costs_nothing_more(void **state UNUSED)
{
	struct score_terms t;
	struct place_choice c;
	struct shop s;

	shop_reserve(&s, 100);
	c = choice_of(&s);
	assert_int_equal(c.score->offer->pool_id, 5);
	assert_non_null(strstr(c.why, "paid for already, and ends in 4d"));
	score_explain(c.score, &t);
	assert_true(t.starts == 1 && t.price_move_micros == 0);
	/* A save takes 20 s at first, and may come twice; five minutes are spare. */
	assert_true(fabs(t.ends_h - (100 - 340 / 3600.0)) < 1e-9);
	arena_free(s.a);
}

static void work_that_is_longer_pays_for_its_rest_and_for_the_move(void **state UNUSED)
{
	struct score_terms t;
	struct place_choice c;
	struct shop s;
	int64_t elsewhere, mixed;

	shop_reserve(&s, 10);
	s.spec.work_s = 20 * 3600;
	c = choice_of(&s);
	assert_int_equal(c.score->offer->pool_id, 5);
	score_explain(c.score, &t);
	assert_true(t.starts == 2);
	mixed = c.score->total_micros;
	assert_int_equal(t.total_micros, mixed);
	s.market.offers_n = 4;
	elsewhere = choice_of(&s).score->compute_micros;
	/* Half of the work is done when it ends, less one start. */
	assert_true(mixed > elsewhere * 50 / 100 && mixed < elsewhere * 52 / 100);
	arena_free(s.a);
}

/* Its checkpoint costs more to bring there, twice, than the hours save. */
static void one_that_ends_too_soon_to_pay_is_passed_over(void **state UNUSED)
{
	struct place_choice c;
	struct shop s;

	shop_reserve(&s, 1);
	s.spec.work_s = 20 * 3600;
	s.offers[4].provider = "gcp";
	s.offers[4].region = "us-central1";
	s.policy.store_provider = "aws";
	s.policy.store_region = "us-east-1";
	s.facts.has_checkpoint = true;
	s.facts.checkpoint_bytes = INT64_C(100000000000);
	c = choice_of(&s);
	assert_non_null(s.placing.reserved);
	assert_int_equal(c.act, PLACE_TAKE);
	assert_int_not_equal(c.score->offer->pool_id, 5);
	/* One without an end is taken all the same. */
	s.offers[4].ends_us = 0;
	assert_int_equal(choice_of(&s).score->offer->pool_id, 5);
	arena_free(s.a);
	shop_reserve(&s, 0.2);
	s.spec.work_s = 20 * 3600;
	choice_of(&s);
	assert_non_null(
	    strstr(refused_because(&s, 5), "too soon for a start, some work and a save"));
	arena_free(s.a);
}

static void work_without_a_checkpoint_must_end_before(void **state UNUSED)
{
	struct shop s;

	shop_reserve(&s, 2);
	s.spec.checkpoint.path = NULL;
	assert_int_equal(choice_of(&s).score->offer->pool_id, 5);
	arena_free(s.a);
	shop_reserve(&s, 1.1);
	s.spec.checkpoint.path = NULL;
	assert_int_not_equal(choice_of(&s).score->offer->pool_id, 5);
	assert_non_null(strstr(refused_because(&s, 5), "without a checkpoint all would be lost"));
	/* With one, half an hour of it is worth having. */
	s.spec.checkpoint.path = "c";
	choice_of(&s);
	assert_null(refused_because(&s, 5));
	arena_free(s.a);
}

/* A lent H100, with the prior of its market. */
static void shop_lend(struct shop *s)
{
	struct hazard h;

	shop_open(s);
	offer_add(s, "H100-80GB-SXM", SPOT_MARKET_INTERRUPTIBLE, 1e-6);
	hazard_alone(&s->policy.rank, &s->offers[4], &h, NULL);
	s->offers[4].hazard = h.per_hour;
	s->spec.work_s = 10 * 3600;
}

static void a_lent_one_is_neither_free_nor_safe(void **state UNUSED)
{
	struct score_terms t;
	struct place_choice c;
	struct shop s;
	int64_t lent, elsewhere;

	shop_lend(&s);
	/* A signal about spot in the same place says nothing of its owner. */
	s.offers[4].advisor_lo = 0;
	s.offers[4].advisor_hi = 0.01;
	assert_true(fabs(s.offers[4].hazard - s.policy.rank.unknown_spot_per_hour) < 1e-9);
	c = choice_of(&s);
	assert_int_equal(c.score->offer->pool_id, 5);
	assert_non_null(strstr(c.why, "its owner may reclaim it"));
	score_explain(c.score, &t);
	lent = c.score->total_micros;
	assert_int_equal(t.total_micros, lent);
	s.market.offers_n = 4;
	elsewhere = choice_of(&s).score->compute_micros;
	/* About one reclaim is expected, on average after 63 % of the work. */
	assert_true(t.interruptions > 0.9 && t.interruptions < 1.2);
	assert_true(lent > elsewhere * 33 / 100 && lent < elsewhere * 43 / 100);
	arena_free(s.a);
}

static void a_reservation_that_stays_is_taken_before_a_lent_one(void **state UNUSED)
{
	struct shop s;

	shop_lend(&s);
	offer_add(&s, "H100-80GB-SXM", SPOT_MARKET_RESERVED, 1e-6);
	assert_int_equal(choice_of(&s).score->offer->pool_id, 6);
	s.offers[5].capacity = 0;
	assert_int_equal(choice_of(&s).score->offer->pool_id, 5);
	arena_free(s.a);
}

static void work_that_must_not_be_interrupted_takes_no_lent_one(void **state UNUSED)
{
	struct shop s;

	shop_lend(&s);
	s.spec.interruptible = false;
	assert_int_equal(choice_of(&s).score->offer->market, SPOT_MARKET_ON_DEMAND);
	s.spec.interruptible = true;
	s.ask.use_spot = 0;
	assert_int_equal(choice_of(&s).score->offer->market, SPOT_MARKET_ON_DEMAND);
	assert_non_null(refused_because(&s, 5));
	arena_free(s.a);
}

static void a_longer_save_leaves_earlier(void **state UNUSED)
{
	struct rank_policy p;

	rank_policy_default(&p);
	assert_int_equal(rank_leave_us(&p, 0), (2 * 20 + 300) * SPOT_US_PER_S);
	assert_int_equal(rank_leave_us(&p, 90 * SPOT_US_PER_S), (2 * 90 + 300) * SPOT_US_PER_S);
	p.ends_margin_s = 0;
	assert_int_equal(rank_leave_us(&p, SPOT_US_PER_S), 2 * SPOT_US_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_that_ends_before_costs_nothing_more),
		cmocka_unit_test(work_that_is_longer_pays_for_its_rest_and_for_the_move),
		cmocka_unit_test(one_that_ends_too_soon_to_pay_is_passed_over),
		cmocka_unit_test(work_without_a_checkpoint_must_end_before),
		cmocka_unit_test(a_lent_one_is_neither_free_nor_safe),
		cmocka_unit_test(a_reservation_that_stays_is_taken_before_a_lent_one),
		cmocka_unit_test(work_that_must_not_be_interrupted_takes_no_lent_one),
		cmocka_unit_test(a_longer_save_leaves_earlier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
