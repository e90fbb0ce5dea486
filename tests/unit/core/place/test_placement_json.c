/* A placement as decisions store it: offers, scores, the refused offers and the job. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/place/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <jansson.h>

#include "../../json_read.h"
#include "place_shop.h"

static const json_t *list_item(const json_t *j, const char *list, size_t i)
{
	return json_array_get(json_object_get(j, list), i);
}

static size_t list_count(const json_t *j, const char *list)
{
	if (!json_is_array(json_object_get(j, list))) {
		fail_msg("'%s' is no list", list);
	}
	return json_array_size(json_object_get(j, list));
}

static void an_offer_says_where_it_is_and_what_it_costs(void **state UNUSED)
{
	struct shop s;
	json_t *j;

	shop_open(&s);
	s.offers[0].price_observed_us = 77;
	j = offer_json(&s.offers[0]);
	assert_int_equal(int_read(j, "pool"), 1);
	assert_int_equal(int_read(j, "price_micros"), 2400000);
	assert_int_equal(int_read(j, "price_observed_us"), 77);
	assert_string_equal(text_read(j, "provider"), "aws");
	assert_string_equal(text_read(j, "region"), "us-east-1");
	assert_string_equal(text_read(j, "zone"), "a");
	assert_string_equal(text_read(j, "instance_type"), "t");
	assert_string_equal(text_read(j, "market"), "spot");
	assert_string_equal(text_read(j, "price_state"), "fresh");
	assert_null(json_object_get(j, "quota"));
	json_decref(j);
	s.offers[0].has_quota = true;
	s.offers[0].quota_class = "P";
	s.offers[0].quota_unit = "vcpu";
	s.offers[0].quota_limit = 96;
	s.offers[0].quota_used = 8;
	j = offer_json(&s.offers[0]);
	assert_string_equal(text_read(json_object_get(j, "quota"), "class"), "P");
	assert_string_equal(text_read(json_object_get(j, "quota"), "unit"), "vcpu");
	assert_int_equal(int_read(json_object_get(j, "quota"), "limit"), 96);
	assert_int_equal(int_read(json_object_get(j, "quota"), "used"), 8);
	json_decref(j);
	arena_free(s.a);
}

static void a_score_by_hand_has_no_terms_and_a_ranked_one_has(void **state UNUSED)
{
	struct score hand;
	struct shop s;
	json_t *j;

	shop_open(&s);
	hand = (struct score){ .offer = &s.offers[0],
		.price_micros = 2500000,
		.penalty_micros = 100000,
		.paid_hours = 1.5,
		.hours = 1.75,
		.interruptions = 0.25,
		.hazard = 0.125,
		.total_micros = 3750000 };
	s.offers[0].price_state = PRICE_FROZEN;
	j = score_json(&hand);
	assert_int_equal(int_read(j, "pool"), 1);
	assert_int_equal(int_read(j, "total_micros"), 3750000);
	assert_string_equal(text_read(j, "hazard_source"), "");
	assert_true(json_real_value(json_object_get(j, "hours_to_finish")) == 1.75);
	assert_true(json_real_value(json_object_get(j, "hazard_per_hour")) == 0.125);
	assert_string_equal(text_read(j, "why"),
	    "1.500 h x 2.5000 USD/h + 0.0000 egress; 0.25 interruptions expected; "
	    "0.1000 USD/h of it because the price is frozen");
	assert_null(json_object_get(j, "terms"));
	json_decref(j);
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	j = score_json(&s.placing.scores[0]);
	assert_int_equal(int_read(json_object_get(j, "terms"), "total_micros"),
	    int_read(j, "total_micros"));
	json_decref(j);
	j = scores_json(s.placing.scores, s.placing.usable, 3);
	assert_int_equal(s.placing.usable, 4);
	assert_int_equal(json_array_size(j), 3);
	json_decref(j);
	arena_free(s.a);
}

/* The members of `written`, text of an object, are those of the tree as it is printed. */
static void assert_members(struct arena *a, const json_t *tree, const char *written)
{
	json_t *got = json_loads(written, JSON_REJECT_DUPLICATES, NULL), *v;
	json_t *j = json_loads(json_text(a, tree), 0, NULL);
	const char *key;

	assert_non_null(got);
	json_object_foreach (got, key, v) {
		assert_true(json_equal(v, json_object_get(j, key)));
	}
	json_decref(got);
	json_decref(j);
}

/* A plan writes text, and a decision stores a tree. */
static void a_plan_writes_what_a_decision_stores(void **state UNUSED)
{
	AUTO(sbuf) struct sbuf b;
	const struct score *best;
	struct score_terms t;
	struct shop s;
	json_t *j;

	sbuf_init(&b, 0);
	shop_open(&s);
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	best = &s.placing.scores[0];
	score_explain(best, &t);
	j = score_json(best);
	sbuf_putc(&b, '{');
	offer_fields_put(&b, best->offer);
	score_fields_put(&b, best, &t);
	sbuf_putc(&b, '}');
	assert_members(s.a, j, b.p);
	assert_non_null(strstr(b.p, "\"price_state\":\"fresh\",\"hazard_per_hour\":"));
	assert_int_equal(json_object_size(json_object_get(j, "terms")) * 8, sizeof(t));
	json_decref(j);
	arena_free(s.a);
}

static void a_decision_keeps_the_job_the_policy_and_the_offers(void **state UNUSED)
{
	const json_t *job;
	struct shop s;
	json_t *j;

	shop_open(&s);
	s.facts.id = 12;
	s.facts.steps_done = 3;
	s.spec.patience_s = 90;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	j = placement_inputs(&s.in, &s.facts, &s.placing);
	job = json_object_get(j, "job");
	assert_int_equal(int_read(j, "now_us"), NOW);
	assert_int_equal(int_read(j, "offers_n"), 4);
	assert_int_equal(int_read(j, "usable"), 4);
	assert_int_equal(int_read(j, "spot_usable"), 2);
	assert_int_equal(int_read(json_object_get(j, "policy"), "patience_us"), 90 * SPOT_US_PER_S);
	assert_int_equal(int_read(job, "id"), 12);
	assert_int_equal(int_read(job, "work_left_s"), 3600);
	assert_int_equal(int_read(job, "steps_done"), 3);
	assert_int_equal(int_read(job, "queued_us"), NOW);
	assert_string_equal(text_read(job, "step_rates"), "");
	assert_true(json_is_true(json_object_get(job, "spot_allowed")));
	assert_null(json_object_get(job, "budget_micros"));
	assert_int_equal(list_count(j, "offers"), 4);
	assert_int_equal(int_read(list_item(j, "offers", 0), "pool"), 3); /* the best first */
	assert_int_equal(list_count(j, "not_now"), 0);
	assert_null(json_object_get(j, "too_dear"));
	assert_null(json_object_get(j, "deadline"));
	assert_null(json_object_get(j, "move"));
	assert_null(json_object_get(j, "gang"));
	json_decref(j);
	arena_free(s.a);
}

static void a_budget_and_the_plans_are_kept_beside_it(void **state UNUSED)
{
	struct shop s;
	json_t *j;

	shop_open(&s);
	s.facts.has_budget = true;
	s.facts.budget_micros = 600000;
	s.facts.budget_left = 500000;
	s.facts.rates = "T4 1000 1 1";
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	s.placing.plan = json_pack("{s:s}", "policy", "auto");
	s.placing.move = json_pack("{s:i}", "stay", 5);
	j = placement_inputs(&s.in, &s.facts, &s.placing);
	assert_int_equal(int_read(json_object_get(j, "job"), "budget_micros"), 600000);
	assert_int_equal(int_read(json_object_get(j, "job"), "budget_left_micros"), 500000);
	assert_string_equal(text_read(json_object_get(j, "job"), "step_rates"), "T4 1000 1 1");
	assert_true(s.placing.dear > 0);
	assert_int_equal(int_read(j, "too_dear"), s.placing.dear);
	assert_int_equal(int_read(j, "too_dear") + int_read(j, "usable"), 4);
	assert_string_equal(text_read(json_object_get(j, "deadline"), "policy"), "auto");
	assert_int_equal(int_read(json_object_get(j, "move"), "stay"), 5);
	json_decref(j);
	json_decref(s.placing.plan);
	json_decref(s.placing.move);
	arena_free(s.a);
}

/* The pools that only cannot be had now explain a choice; one that does not suit explains none. */
static void only_the_pools_that_suit_are_kept_with_a_reason(void **state UNUSED)
{
	struct shop s;
	json_t *j;

	shop_open(&s);
	offer_add(&s, "T4", SPOT_MARKET_SPOT, 0.1); /* not asked for */
	offer_add(&s, "L40S", SPOT_MARKET_SPOT, 1);
	s.offers[0].cool_until_us = NOW + HOUR;
	s.offers[2].capacity = 0;
	s.offers[3].has_quota = true;
	s.offers[3].quota_unit = "instances";
	s.offers[5].has_odds = true;
	s.offers[5].odds = 0.01;
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	j = placement_inputs(&s.in, &s.facts, &s.placing);
	assert_int_equal(list_count(j, "not_now"), 4);
	assert_int_equal(int_read(list_item(j, "not_now", 0), "pool"), 1);
	assert_non_null(strstr(text_read(list_item(j, "not_now", 0), "refused"), "cooling"));
	assert_int_equal(int_read(list_item(j, "not_now", 1), "pool"), 3);
	assert_non_null(strstr(text_read(list_item(j, "not_now", 1), "refused"), "has none now"));
	assert_int_equal(int_read(list_item(j, "not_now", 2), "pool"), 4);
	assert_non_null(
	    strstr(text_read(list_item(j, "not_now", 2), "refused"), "no room in quota"));
	assert_int_equal(int_read(list_item(j, "not_now", 3), "pool"), 6);
	assert_non_null(strstr(text_read(list_item(j, "not_now", 3), "refused"), "odds of 1.0 %"));
	assert_int_equal(list_count(j, "offers"), 1);
	json_decref(j);
	arena_free(s.a);
}

static void a_gang_keeps_the_offers_of_one_node_and_the_whole(void **state UNUSED)
{
	static const char *const busy[] = { "aws/us-east-1/z/t" };
	struct gang_rest rest = { .pool_id = 1, .want = 2, .until_us = NOW + HOUR };
	const json_t *last;
	struct shop s;
	json_t *j;

	shop_open(&s);
	s.facts.nodes = 2;
	s.market.rests = &rest;
	s.market.rests_n = 1;
	s.market.busy = busy;
	s.market.busy_n = 1;
	s.offers[1].zone = "z";
	placement_rank(&s.in, &s.facts, &s.spec, &s.placing);
	assert_int_equal(s.placing.usable, 2);
	assert_int_equal(s.placing.spot_cooling, 1);
	j = placement_inputs(&s.in, &s.facts, &s.placing);
	assert_int_equal(int_read(j, "nodes"), 2);
	assert_int_equal(list_count(j, "offers"), 4);
	assert_int_equal(list_count(j, "gang"), 4);
	assert_int_equal(int_read(list_item(j, "gang", 0), "pool"), 3);
	assert_true(json_is_true(json_object_get(list_item(j, "gang", 0), "usable")));
	assert_int_equal(int_read(list_item(j, "gang", 0), "total_micros"),
	    s.placing.scores[0].total_micros);
	assert_int_equal(int_read(list_item(j, "gang", 0), "total_micros"),
	    int_read(list_item(j, "gang", 0), "compute_micros") +
		int_read(list_item(j, "gang", 0), "egress_micros"));
	last = list_item(j, "gang", 2);
	assert_int_equal(int_read(last, "pool"), 1);
	assert_true(json_is_false(json_object_get(last, "usable")));
	assert_non_null(strstr(text_read(last, "refused"), "a short while ago"));
	assert_null(json_object_get(last, "total_micros"));
	assert_int_equal(int_read(list_item(j, "gang", 3), "pool"), 2);
	assert_non_null(strstr(text_read(list_item(j, "gang", 3), "refused"), "another gang"));
	json_decref(j);
	arena_free(s.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_offer_says_where_it_is_and_what_it_costs),
		cmocka_unit_test(a_score_by_hand_has_no_terms_and_a_ranked_one_has),
		cmocka_unit_test(a_plan_writes_what_a_decision_stores),
		cmocka_unit_test(a_decision_keeps_the_job_the_policy_and_the_offers),
		cmocka_unit_test(a_budget_and_the_plans_are_kept_beside_it),
		cmocka_unit_test(only_the_pools_that_suit_are_kept_with_a_reason),
		cmocka_unit_test(a_gang_keeps_the_offers_of_one_node_and_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
