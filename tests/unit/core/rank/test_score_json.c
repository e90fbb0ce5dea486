/* A score and the policy as decisions store them: every term has its name, and its value. */
#include "base/base.h"
#include "core/rank/rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <jansson.h>

#include "../../json_read.h"

static double real_of(const json_t *j, const char *name)
{
	const json_t *v = json_object_get(j, name);

	if (!json_is_real(v)) {
		fail_msg("'%s' is no real number", name);
	}
	return json_real_value(v);
}

static void terms_keep_their_kind_and_value(void **state UNUSED)
{
	struct score_terms t = { .work_ref_h = 10,
		.throughput = 2.5,
		.work_h = 4,
		.throughput_source = "table",
		.interval_source = "young",
		.hazard_sd = 0.25,
		.hours_p95 = 9.5,
		.price_now_micros = 1234567,
		.price_move_micros = -42,
		.total_micros = INT64_C(5000000000),
		.cost_p95_micros = 7 };
	json_t *j = score_terms_json(&t);

	assert_true(real_of(j, "work_ref_h") == 10 && real_of(j, "throughput") == 2.5);
	assert_true(real_of(j, "work_h") == 4 && real_of(j, "hazard_sd") == 0.25);
	assert_true(real_of(j, "hours_p95") == 9.5);
	assert_string_equal(text_read(j, "throughput_source"), "table");
	assert_string_equal(text_read(j, "interval_source"), "young");
	assert_string_equal(text_read(j, "odds_source"), ""); /* not known */
	assert_int_equal(int_read(j, "price_now_micros"), 1234567);
	assert_int_equal(int_read(j, "price_move_micros"), -42);
	assert_int_equal(int_read(j, "total_micros"), INT64_C(5000000000));
	assert_int_equal(int_read(j, "cost_p95_micros"), 7);
	json_decref(j);
}

/* A member that is added to the terms must be added to the JSON: 8 bytes each, none with holes. */
static void no_term_is_left_out(void **state UNUSED)
{
	struct score_terms t = { 0 };
	json_t *j = score_terms_json(&t);

	assert_int_equal(json_object_size(j) * 8, sizeof(t));
	json_decref(j);
}

static void the_terms_of_a_ranked_offer_add_up(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct resource_ask ask = { .use_spot = -1 };
	struct job_spec spec = { .asks = &ask, .asks_n = 1, .checkpoint = { .path = "c" } };
	struct rank_job job = { .spec = &spec, .work_left_s = 7200, .on_demand_allowed = true };
	struct offer o = { .pool_id = 1,
		.provider = "aws",
		.region = "us-east-1",
		.zone = "a",
		.zone_name = "",
		.instance_type = "t",
		.gpu_name = "",
		.market = SPOT_MARKET_ON_DEMAND,
		.price_micros = 1000000,
		.price_state = PRICE_FRESH,
		.advisor_lo = -1,
		.placement_score = -1,
		.capacity = -1,
		.arch = "",
		.quota_class = "" };
	struct rank_policy p;
	struct score_terms t;
	struct score *s;
	size_t n;
	json_t *j;

	rank_policy_default(&p);
	rank_offers(a, &o, 1, &job, &p, 1, &s, &n);
	assert_int_equal(n, 1);
	score_explain(&s[0], &t);
	j = score_terms_json(&t);
	assert_true(real_of(j, "work_h") == 2);
	assert_int_equal(int_read(j, "total_micros"),
	    int_read(j, "compute_micros") + int_read(j, "egress_micros"));
	assert_int_equal(int_read(j, "total_micros"), s[0].total_micros);
	assert_int_equal(int_read(j, "price_now_micros"), 1000000);
	json_decref(j);
}

static void the_policy_is_stored_with_its_figures(void **state UNUSED)
{
	struct rank_policy p;
	json_t *j;

	rank_policy_default(&p);
	p.save_s = 21;
	p.notice_saves = 0.75;
	j = rank_policy_json(&p);
	assert_int_equal(json_object_size(j), 11);
	assert_true(real_of(j, "prior_hours") == 24);
	assert_true(real_of(j, "unknown_spot_per_hour") == 0.10);
	assert_true(real_of(j, "on_demand_per_hour") == 0.0005);
	assert_true(real_of(j, "notice_saves") == 0.75);
	assert_int_equal(int_read(j, "restart_s"), 240);
	assert_int_equal(int_read(j, "save_s"), 21);
	assert_int_equal(int_read(j, "default_work_s"), 3600);
	assert_int_equal(int_read(j, "refused_s"), 60);
	assert_int_equal(int_read(j, "price_reversion_s"), 90 * 24 * 3600);
	assert_int_equal(int_read(j, "price_stale_penalty_pm"), 250);
	assert_int_equal(int_read(j, "price_frozen_penalty_pm"), 20);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(terms_keep_their_kind_and_value),
		cmocka_unit_test(no_term_is_left_out),
		cmocka_unit_test(the_terms_of_a_ranked_offer_add_up),
		cmocka_unit_test(the_policy_is_stored_with_its_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
