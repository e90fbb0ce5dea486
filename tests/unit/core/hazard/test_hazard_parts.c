/* Odds of a launch, reclaims together, time of day, the record as the database writes it. */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct rank_policy policy;
static struct offer offers[8];
static struct offer_record records[8];

static int setup(void **state)
{
	*state = arena_new(0);
	rank_policy_default(&policy);
	memset(records, 0, sizeof(records));
	for (int32_t i = 0; i < 8; i++) {
		offers[i] = (struct offer){ .pool_id = i + 1,
			.provider = "aws",
			.region = "r1",
			.zone = "z1",
			.instance_type = "t",
			.gpu_name = "H100",
			.market = SPOT_MARKET_SPOT,
			.advisor_lo = -1,
			.placement_score = -1,
			.capacity = -1,
			.record = &records[i] };
	}
	return 0;
}

static int teardown(void **state)
{
	arena_free(*state);
	return 0;
}

static bool is_near(double a, double b, double by)
{
	return fabs(a - b) <= by * fmax(fabs(a), fabs(b));
}

/* ---- odds ------------------------------------------------------------------------------------ */

static struct odds odds_at(struct arena *a, size_t n, size_t i)
{
	struct odds o;

	hazard_odds(hazard_model_build(a, offers, n, &policy, 0), &offers[i], &o);
	return o;
}

/* The best known signal speaks: obtainability, then a placement score, then capacity. */
static void each_signal_has_its_odds_and_its_name(void **state)
{
	struct odds o;

	offers[0].capacity = 0;
	o = odds_at(*state, 2, 0);
	assert_string_equal(o.source, "capacity");
	assert_true(is_near(o.signal, 0.05, 1e-9));
	offers[0].capacity = 1;
	assert_true(is_near(odds_at(*state, 2, 0).signal, 0.8, 1e-9));
	offers[0].placement_score = 1;
	o = odds_at(*state, 2, 0);
	assert_string_equal(o.source, "placement score");
	assert_true(is_near(o.signal, 0.1, 1e-9));
	offers[0].placement_score = 10;
	assert_true(is_near(odds_at(*state, 2, 0).signal, 0.95, 1e-9));
	offers[0].has_odds = true;
	offers[0].odds = 1.5;
	o = odds_at(*state, 2, 0);
	assert_string_equal(o.source, "obtainability");
	assert_true(is_near(o.signal, 1, 1e-9));
	offers[0].odds = -1;
	assert_true(odds_at(*state, 2, 0).signal >= 0 && odds_at(*state, 2, 0).signal < 1e-9);
	/* A pool beside it that has no signal is not touched by this one's. */
	assert_string_equal(odds_at(*state, 2, 1).source, "nothing known");
}

static void odds_begin_with_the_signal_and_end_with_our_own_launches(void **state)
{
	assert_true(is_near(odds_at(*state, 1, 0).odds, 0.5, 1e-9));
	assert_string_equal(odds_at(*state, 1, 0).source, "nothing known");
	offers[0].placement_score = 9;
	assert_true(is_near(odds_at(*state, 1, 0).odds, 0.9, 1e-9));
	assert_string_equal(odds_at(*state, 1, 0).source, "placement score");
	offers[0].has_odds = true;
	offers[0].odds = 0.3;
	assert_true(is_near(odds_at(*state, 1, 0).odds, 0.3, 1e-9));
	records[0].refusals = 1000;
	assert_true(odds_at(*state, 1, 0).odds < 0.01);
	records[0].launches = 9000;
	assert_true(is_near(odds_at(*state, 1, 0).odds, 0.9, 0.01));
	assert_string_equal(odds_at(*state, 1, 0).source, "own launches");
}

static void odds_borrow_from_neighbours_by_how_near_they_are(void **state)
{
	double near_by, far, none = odds_at(*state, 2, 0).odds;

	records[1].refusals = 50;
	near_by = odds_at(*state, 2, 0).odds;
	assert_string_equal(odds_at(*state, 2, 0).source, "launches of neighbours");
	offers[1].region = "r2";
	far = odds_at(*state, 2, 0).odds;
	assert_true(near_by < far && far < none);
	/* Its own record is not heard a second time. */
	assert_true(odds_at(*state, 2, 1).group_weight < 1e-9);
}

static struct odds account_at(struct arena *a, double delivered, double asked, int64_t hours_ago)
{
	int64_t now = 100 * 24 * SPOT_US_PER_HOUR;
	struct odds o;

	offers[0].account_asked = asked;
	offers[0].account_delivered = delivered;
	offers[0].account_us = now - hours_ago * SPOT_US_PER_HOUR;
	hazard_odds(hazard_model_build(a, offers, 1, &policy, now), &offers[0], &o);
	return o;
}

static void requests_of_the_account_weigh_by_their_number_and_age(void **state)
{
	struct odds few = account_at(*state, 0, 2, 0), many = account_at(*state, 0, 40, 0),
		    late = account_at(*state, 0, 40, 24), good = account_at(*state, 20, 20, 0);

	assert_true(many.odds < few.odds && few.odds < 0.5 && good.odds > 0.9);
	assert_true(many.odds < late.odds && late.odds < 0.5);
	assert_true(many.account_weight < 10 && is_near(late.account_weight, 10.0 / 3, 1e-9));
	assert_string_equal(many.source, "fulfilment rate");
	/* Nobody asked: the pool is as without. */
	assert_true(is_near(account_at(*state, 0, 0, 0).odds, 0.5, 1e-9));
	assert_string_equal(account_at(*state, 0, 0, 0).source, "nothing known");
}

static void our_requests_in_the_accounts_count_once(void **state)
{
	double alone;

	records[0].launches = 6;
	records[0].refusals = 2;
	alone = odds_at(*state, 1, 0).odds;
	assert_true(is_near(account_at(*state, 6, 8, 0).odds, alone, 1e-9));
	/* The four others got nothing. */
	assert_true(account_at(*state, 6, 12, 0).odds < alone);
	assert_true(account_at(*state, 6, 12, 0).account < 1e-9);
	assert_string_equal(account_at(*state, 6, 12, 0).source, "own launches");
}

static void our_newer_refusals_win_over_a_good_rate(void **state)
{
	assert_true(account_at(*state, 30, 30, 3).odds > 0.9);
	records[0].refusals = 2;
	assert_true(account_at(*state, 30, 30, 3).odds < 0.8);
	records[0].refusals = 5;
	assert_true(account_at(*state, 30, 30, 3).odds < 0.4);
}

/* I_x(a, b) by its integral, at the quantiles; 0 for nothing. */
static double beta_below(double a, double b, double x)
{
	double sum = 0, all = 0;
	int n = 200000;

	for (int i = 0; i < n; i++) {
		double t = (i + 0.5) / n, f = exp((a - 1) * log(t) + (b - 1) * log1p(-t));

		all += f;
		sum += t < x ? f : 0;
	}
	return sum / all;
}

static void intervals_of_odds_are_those_of_a_beta(void **state)
{
	static const double cases[][2] = { { 1, 1 }, { 3, 1 }, { 1, 6 }, { 8, 3 }, { 40, 2 },
		{ 0.5, 3 }, { 3, 0.5 }, { 100, 100 } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct odds o;
		double good, bad;

		/* The signal is worth half a launch and half a refusal. */
		records[0].launches = cases[i][0] - 0.5;
		records[0].refusals = cases[i][1] - 0.5;
		o = odds_at(*state, 1, 0);
		good = o.odds * (1 + records[0].launches + records[0].refusals);
		bad = 1 + records[0].launches + records[0].refusals - good;
		assert_true(is_near(good, cases[i][0], 1e-9));
		if (fabs(beta_below(good, bad, o.lo) - 0.05) > 0.005 ||
		    fabs(beta_below(good, bad, o.hi) - 0.95) > 0.005) {
			fail_msg("Beta(%g, %g): %g at %g, %g at %g", good, bad,
			    beta_below(good, bad, o.lo), o.lo, beta_below(good, bad, o.hi), o.hi);
		}
	}
}

/* ---- together -------------------------------------------------------------------------------- */

static void pools_that_share_more_fail_together_more(void **state)
{
	const struct hazard_model *m;
	double last = -1;

	offers[1].provider = "gcp";
	offers[2].region = "r2";
	offers[3].zone = "z2";
	offers[4].gpu_name = "T4";
	m = hazard_model_build(*state, offers, 8, &policy, 0);
	for (size_t i = 1; i <= 5; i++) {
		double c = hazard_correlation(m, &offers[0], &offers[i]);

		assert_true(c > last && c >= 0 && c < 1);
		assert_true(
		    is_near(c, hazard_correlation(m, &offers[i], &offers[0]), 1e-12) || i == 1);
		last = c;
	}
	assert_true(hazard_correlation(m, &offers[0], &offers[0]) >= 1 &&
	    hazard_correlation(m, &offers[0], &offers[0]) <= 1);
	assert_true(hazard_correlation(m, &offers[0], &offers[1]) <= 0);
}

static void observations_move_the_correlation_between_0_and_1(void **state)
{
	const struct hazard_model *m = hazard_model_build(*state, offers, 8, &policy, 0);
	double before = hazard_correlation(m, &offers[0], &offers[5]), none, always;
	struct rng r;

	records[0].joint_alone[LEVEL_ZONE] = 10;
	records[0].joint_chances[LEVEL_ZONE] = 200;
	m = hazard_model_build(*state, offers, 8, &policy, 0);
	none = hazard_correlation(m, &offers[0], &offers[5]);
	records[0].joint_hits[LEVEL_ZONE] = 200;
	m = hazard_model_build(*state, offers, 8, &policy, 0);
	always = hazard_correlation(m, &offers[0], &offers[5]);
	/* It stays above the correlation of pools in one zone. */
	assert_true(none < before && none >= 0.1 && before < always && always > 0.9);
	rng_seeded_init(&r, 5);
	for (int i = 0; i < 2000; i++) {
		double last = 0;

		for (int level = 0; level < GROUP_LEVELS; level++) {
			records[1].joint_chances[level] = (double)rng_below(&r, 100);
			records[1].joint_alone[level] = (double)rng_below(&r, 100);
			records[1].joint_hits[level] =
			    (double)rng_below(&r, (uint32_t)records[1].joint_chances[level] + 1);
		}
		m = hazard_model_build(*state, offers, 8, &policy, 0);
		for (int level = 0; level < GROUP_LEVELS; level++) {
			assert_true(m->joint[level] >= last && m->joint[level] <= 1);
			last = m->joint[level];
		}
		arena_reset(*state);
	}
}

/* ---- time of day ----------------------------------------------------------------------------- */

/* Makes a record of so many days, or of their hours from 4 to 14. Reclaims come at a rate of mean
 * (1 + wave cos(hour - 14)). */
static void record_draw(struct rng *r, struct offer_record *rec, int days, double mean, double wave,
    bool by_day_only)
{
	*rec = (struct offer_record){ 0 };
	for (int hour = 0; hour < days * 24; hour++) {
		if (by_day_only && (hour % 24 < 4 || hour % 24 >= 14)) {
			continue;
		}
		double t = (hour % 24 + 0.5) / 24 * 2 * M_PI,
		       rate = mean * (1 + wave * cos(t - 14.0 / 24 * 2 * M_PI));
		bool hit = (double)rng_below(r, 1000000) / 1e6 < -expm1(-rate);

		rec->node_hours += 1;
		rec->hour_nodes += 1;
		rec->node_cos += cos(t);
		rec->node_sin += sin(t);
		rec->node_cos2 += cos(2 * t);
		rec->node_sin2 += sin(2 * t);
		if (hit) {
			rec->reclaims += 1;
			rec->reclaim_hours += 1;
			rec->hour_reclaims += 1;
			rec->reclaim_cos += cos(t);
			rec->reclaim_sin += sin(t);
		}
	}
}

static double factor_at(struct arena *a, int hour, size_t i)
{
	struct hazard h;

	hazard_of(hazard_model_build(a, offers, 8, &policy, hour * SPOT_US_PER_HOUR), &offers[i],
	    &h);
	return h.day_factor;
}

static void a_daily_wave_is_seen_where_there_is_one(void **state)
{
	struct rng r;
	double mean = 0;

	rng_seeded_init(&r, 1);
	record_draw(&r, &records[0], 30, 0.15, 0.9, false);
	assert_true(factor_at(*state, 14, 0) > 1.4 && factor_at(*state, 2, 0) < 0.7);
	assert_true(factor_at(*state, 14, 0) > factor_at(*state, 9, 0) &&
	    factor_at(*state, 14, 0) > factor_at(*state, 19, 0));
	/* Its neighbours of the region have it too, those elsewhere have not. */
	assert_true(factor_at(*state, 14, 1) > 1.4);
	offers[2].region = "r2";
	assert_true(is_near(factor_at(*state, 14, 2), 1, 1e-12));
	for (int hour = 0; hour < 24; hour++) {
		mean += factor_at(*state, hour, 0) / 24;
	}
	assert_true(is_near(mean, 1, 0.01));
}

static void without_evidence_every_hour_is_alike(void **state)
{
	int seen = 0;
	struct rng r;

	rng_seeded_init(&r, 2);
	assert_true(is_near(factor_at(*state, 14, 0), 1, 1e-12));
	/* Two reclaims at the same hour are no pattern. */
	record_draw(&r, &records[0], 3, 0, 0, false);
	records[0].hour_reclaims = records[0].reclaims = records[0].reclaim_hours = 2;
	records[0].reclaim_cos = 2;
	assert_true(is_near(factor_at(*state, 0, 0), 1, 1e-12));
	/* Chance makes one rarely, and then a small one. */
	for (int i = 0; i < 400; i++) {
		double f;

		/* Nor does it matter when the nodes were there. */
		record_draw(&r, &records[0], 20, 0.1, 0, i % 2 == 1);
		f = factor_at(*state, (i * 5) % 24, 0);
		seen += !is_near(f, 1, 1e-12);
		assert_true(f > 0.4 && f < 2.2);
		arena_reset(*state);
	}
	assert_true(seen > 0 && seen < 40);
}

/* ---- the record ------------------------------------------------------------------------------ */

static void a_record_is_read_as_the_database_writes_it(void **state)
{
	const struct offer_record *r = offer_record_parse(*state, "10.5 3 2 1 4.25 1.5");

	assert_true(is_near(r->node_hours, 10.5, 0) && is_near(r->reclaims, 3, 0) &&
	    is_near(r->launches, 2, 0));
	assert_true(is_near(r->refusals, 1, 0) && is_near(r->recent_hours, 4.25, 0) &&
	    is_near(r->recent_reclaims, 1.5, 0));
	assert_true(r->reclaim_hours <= 0);
	r = offer_record_parse(*state,
	    "10 6 0 0 0 0 1.5 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26");
	assert_true(is_near(r->reclaim_hours, 4, 0) && is_near(r->hour_reclaims, 7, 0) &&
	    is_near(r->node_sin2, 14, 0));
	assert_true(is_near(r->joint_chances[0], 15, 0) && is_near(r->joint_hits[3], 22, 0));
	assert_true(is_near(r->joint_alone[0], 23, 0) && is_near(r->joint_alone[3], 26, 0));
	assert_null(offer_record_parse(*state, NULL));
	assert_null(offer_record_parse(*state, ""));
	assert_null(offer_record_parse(*state, "1 2 x"));
	assert_null(offer_record_parse(*state, "1 2 3 4 5 nan"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(each_signal_has_its_odds_and_its_name),
		T(odds_begin_with_the_signal_and_end_with_our_own_launches),
		T(odds_borrow_from_neighbours_by_how_near_they_are),
		T(requests_of_the_account_weigh_by_their_number_and_age),
		T(our_requests_in_the_accounts_count_once),
		T(our_newer_refusals_win_over_a_good_rate),
		T(intervals_of_odds_are_those_of_a_beta),
		T(pools_that_share_more_fail_together_more),
		T(observations_move_the_correlation_between_0_and_1),
		T(a_daily_wave_is_seen_where_there_is_one),
		T(without_evidence_every_hour_is_alike),
		T(a_record_is_read_as_the_database_writes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
