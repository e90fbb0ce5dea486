/* The hazard model: a pool without a record, with much record, with the neighbours' record. How a
 * record ages, and whether 90 % intervals hold 90 %. Every printed number is worked out a second
 * time. */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define MANY 400

static struct rank_policy policy;
static struct offer offers[MANY];
static struct offer_record records[MANY];

static struct offer pool_offer(int32_t id, const char *region, const char *zone, const char *gpu)
{
	return (struct offer){ .pool_id = id,
		.provider = "aws",
		.region = region,
		.zone = zone,
		.instance_type = "t",
		.gpu_name = gpu,
		.market = SPOT_MARKET_SPOT,
		.advisor_lo = -1,
		.placement_score = -1,
		.capacity = -1 };
}

static void record_set(size_t i, double hours, double reclaims)
{
	records[i] = (struct offer_record){ .node_hours = hours, .reclaims = reclaims };
	offers[i].record = &records[i];
}

static struct hazard hazard_ask(struct arena *a, size_t n, size_t i)
{
	const struct hazard_model *m;
	struct hazard h;

	m = hazard_model_build(a, offers, n, &policy, 0);
	hazard_of(m, &offers[i], &h);
	assert_true(h.lo <= h.per_hour && h.per_hour <= h.hi && h.lo >= 0 && isfinite(h.hi));
	return h;
}

static bool is_near(double a, double b, double by)
{
	return fabs(a - b) <= by * fmax(fabs(a), fabs(b));
}

static int setup(void **state)
{
	*state = arena_new(0);
	rank_policy_default(&policy);
	for (size_t i = 0; i < MANY; i++) {
		offers[i] = pool_offer((int32_t)i + 1, "r1", "z1", "H100");
	}
	return 0;
}

static int teardown(void **state)
{
	arena_free(*state);
	return 0;
}

static void without_a_record_it_is_what_the_signal_says(void **state)
{
	struct hazard h = hazard_ask(*state, 1, 0);

	assert_true(is_near(h.per_hour, policy.unknown_spot_per_hour, 1e-6));
	assert_true(is_near(h.prior_per_hour, h.per_hour, 1e-6) &&
	    is_near(h.group_per_hour, h.per_hour, 1e-6));
	assert_string_equal(h.source, "wide prior");
	assert_true(h.hi > 3 * h.per_hour && h.lo < h.per_hour / 3);
	offers[0].advisor_lo = 0.05;
	offers[0].advisor_hi = 0.10;
	h = hazard_ask(*state, 1, 0);
	assert_true(is_near(h.per_hour, -log1p(-0.075) / 720, 1e-6));
	assert_string_equal(h.source, "spot advisor");
}

static void much_record_is_its_own_rate_whatever_the_signal(void **state)
{
	static const double rates[] = { 0.0003, 0.01, 0.5, 3 };

	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		struct hazard h;

		record_set(0, 1e6, rates[i] * 1e6);
		h = hazard_ask(*state, 1, 0);
		assert_true(is_near(h.per_hour, rates[i], 0.03));
		assert_string_equal(h.source, "own record and prior");
		offers[0].advisor_lo = 0.0;
		offers[0].advisor_hi = 0.05;
		assert_true(is_near(hazard_ask(*state, 1, 0).per_hour, rates[i], 0.03));
		offers[0].advisor_lo = -1;
	}
}

static void never_is_not_believed_for_ever(void **state)
{
	policy.on_demand_per_hour = 0;
	policy.unknown_spot_per_hour = 0;
	for (int market = 0; market < 2; market++) {
		struct hazard h;

		offers[0].market = market == 0 ? SPOT_MARKET_ON_DEMAND : SPOT_MARKET_SPOT;
		offers[0].record = NULL;
		h = hazard_ask(*state, 1, 0);
		assert_true(h.per_hour >= 0 && h.per_hour < 1e-6);
		record_set(0, 100, 0);
		assert_true(isfinite(hazard_ask(*state, 1, 0).per_hour));
		record_set(0, 100, 10);
		h = hazard_ask(*state, 1, 0);
		assert_true(h.per_hour > 0.02 && h.per_hour < 0.2);
		/* A record without exposure, as one may be for a moment. */
		record_set(0, 0, 1);
		assert_true(isfinite(hazard_ask(*state, 1, 0).per_hour));
	}
}

static void a_record_that_contradicts_the_signal_counts_soon(void **state)
{
	struct hazard h;

	offers[0].advisor_lo = 0.0;
	offers[0].advisor_hi = 0.05;
	record_set(0, 50, 5);
	h = hazard_ask(*state, 1, 0);
	assert_true(h.per_hour > 0.03 && h.per_hour < 0.1);
	assert_true(h.prior_per_hour < 0.0001);
}

static void more_reclaims_never_lower_it_and_more_hours_never_raise_it(void **state)
{
	static const double hours[] = { 0.5, 3, 24, 200, 3000 }, counts[] = { 0, 1, 2, 5, 20, 100 };

	for (size_t neighbour = 0; neighbour < 2; neighbour++) {
		if (neighbour == 1) {
			record_set(1, 300, 12);
		}
		for (size_t i = 0; i < ARRAY_LEN(hours); i++) {
			double last = 0;

			for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
				double h;

				record_set(0, hours[i], counts[k]);
				h = hazard_ask(*state, 2, 0).per_hour;
				assert_true(h >= last);
				last = h;
				record_set(0, hours[i] * 2, counts[k]);
				assert_true(hazard_ask(*state, 2, 0).per_hour <= h);
			}
		}
	}
}

static void a_new_pool_borrows_most_from_who_shares_most(void **state)
{
	double none, zone, region, family, provider, other;

	offers[1] = pool_offer(2, "r1", "z1", "H100");
	offers[2] = pool_offer(3, "r1", "z2", "H100");
	offers[3] = pool_offer(4, "r2", "z3", "H100");
	offers[4] = pool_offer(5, "r1", "z1", "T4");
	offers[5] = pool_offer(6, "r1", "z1", "H100");
	offers[5].provider = "gcp";
	none = hazard_ask(*state, 6, 0).per_hour;
	record_set(1, 100, 100);
	zone = hazard_ask(*state, 6, 0).per_hour;
	assert_string_equal(hazard_ask(*state, 6, 0).source, "neighbours and prior");
	offers[1].record = NULL;
	record_set(2, 100, 100);
	region = hazard_ask(*state, 6, 0).per_hour;
	offers[2].record = NULL;
	record_set(3, 100, 100);
	family = hazard_ask(*state, 6, 0).per_hour;
	offers[3].record = NULL;
	record_set(4, 100, 100);
	provider = hazard_ask(*state, 6, 0).per_hour;
	offers[4].record = NULL;
	record_set(5, 100, 100);
	other = hazard_ask(*state, 6, 0).per_hour;
	assert_true(
	    zone > region && region > family && family > provider && provider > none && none < 1);
	assert_true(is_near(other, none, 1e-9));
}

static void a_pool_does_not_hear_its_own_record_from_its_group(void **state)
{
	double before = hazard_ask(*state, 1, 0).group_per_hour;

	record_set(0, 100, 60);
	assert_true(is_near(hazard_ask(*state, 1, 0).group_per_hour, before, 0.15));
	/* But its neighbour does. */
	assert_true(hazard_ask(*state, 2, 1).group_per_hour > 1.5 * before);
}

static void recent_reclaims_weigh_more_than_old_ones(void **state)
{
	struct hazard calm, stormy;

	record_set(0, 500, 50);
	records[0].recent_hours = 12;
	calm = hazard_ask(*state, 1, 0);
	records[0].recent_reclaims = 10;
	stormy = hazard_ask(*state, 1, 0);
	assert_true(stormy.per_hour > 2 * calm.per_hour);
	assert_true(stormy.usual_per_hour < calm.usual_per_hour * 1.01);
	assert_true(calm.per_hour < calm.usual_per_hour);
}

static void reclaims_that_come_together_are_less_evidence(void **state)
{
	struct hazard apart, together;

	record_set(0, 100, 40);
	apart = hazard_ask(*state, 1, 0);
	records[0].reclaim_hours = 2;
	together = hazard_ask(*state, 1, 0);
	assert_true(together.per_hour < apart.per_hour);
	assert_true(together.weight_hours > apart.weight_hours);
	assert_true(together.hi / together.per_hour > apart.hi / apart.per_hour);
}

static void every_number_follows_from_the_printed_ones(void **state)
{
	struct rng r;

	rng_seeded_init(&r, 11);
	for (int round = 0; round < 300; round++) {
		size_t n = 1 + rng_below(&r, 40);
		const struct hazard_model *m;

		for (size_t i = 0; i < n; i++) {
			static const char *const zones[] = { "z1", "z2", "z3" },
						 *const gpus[] = { "H100", "A100", "T4" };

			offers[i] = pool_offer((int32_t)i + 1, "r1", zones[rng_below(&r, 3)],
			    gpus[rng_below(&r, 3)]);
			if (rng_below(&r, 2) == 0) {
				offers[i].advisor_lo = 0.05 * (double)rng_below(&r, 5);
				offers[i].advisor_hi = offers[i].advisor_lo + 0.05;
			}
			if (rng_below(&r, 3) > 0) {
				record_set(i, (double)rng_below(&r, 900) + 0.5,
				    (double)rng_below(&r, 30));
				records[i].recent_hours = records[i].node_hours * 0.1;
				records[i].recent_reclaims = records[i].reclaims * 0.2;
				records[i].reclaim_hours =
				    records[i].reclaims * (0.3 + 0.1 * (double)rng_below(&r, 8));
				records[i].launches = (double)rng_below(&r, 9);
				records[i].refusals = (double)rng_below(&r, 5);
			}
		}
		m = hazard_model_build(*state, offers, n, &policy, 0);
		for (size_t i = 0; i < n; i++) {
			struct hazard h;
			struct odds o;
			double usual, now;

			hazard_of(m, &offers[i], &h);
			usual = (h.group_per_hour * h.weight_hours + h.own_reclaims) /
			    (h.weight_hours + h.own_hours);
			now = (usual * h.usual_weight_hours + h.recent_reclaims) /
			    (h.usual_weight_hours + h.recent_hours);
			assert_true(is_near(usual, h.usual_per_hour, 1e-6));
			assert_true(is_near(now * h.day_factor, h.per_hour, 1e-6));
			hazard_odds(m, &offers[i], &o);
			assert_true(is_near(o.odds,
			    (o.signal * o.signal_weight + o.group * o.group_weight +
				o.own_launches) /
				(o.signal_weight + o.group_weight + o.own_launches +
				    o.own_refusals),
			    1e-9));
			assert_true(o.lo >= 0 && o.lo <= o.odds && o.odds <= o.hi && o.hi <= 1);
		}
		arena_reset(*state);
	}
}

static void an_offer_that_is_a_copy_or_not_of_the_model_is_found(void **state)
{
	const struct hazard_model *m;
	struct hazard h, again;
	struct offer copy, stranger;

	for (size_t i = 0; i < 50; i++) {
		offers[i] = pool_offer((int32_t)((i * 37) % 50) + 1, "r1", i % 2 == 0 ? "z1" : "z2",
		    "H100");
		record_set(i, 20 + (double)i, (double)(i % 5));
	}
	m = hazard_model_build(*state, offers, 50, &policy, 0);
	for (size_t i = 0; i < 50; i++) {
		copy = offers[i];
		hazard_of(m, &offers[i], &h);
		hazard_of(m, &copy, &again);
		assert_true(
		    is_near(h.per_hour, again.per_hour, 1e-6) && is_near(h.hi, again.hi, 1e-6));
	}
	/* A zone, a region, a provider that the model has not seen: from the nearest group that it
	 * has. */
	stranger = pool_offer(1000, "r1", "z9", "H100");
	hazard_of(m, &stranger, &h);
	assert_true(h.group_per_hour < 0.09);
	stranger.provider = "nobody";
	hazard_of(m, &stranger, &h);
	assert_true(is_near(h.per_hour, policy.unknown_spot_per_hour, 1e-6));
}

static void a_model_of_the_used_pools_says_the_same_of_the_others(void **state)
{
	const struct hazard_model *all, *part;
	struct hazard h, again;

	for (size_t i = 0; i < 100; i++) {
		offers[i] = pool_offer((int32_t)i + 1, i % 3 == 0 ? "r1" : "r2",
		    i % 7 == 0 ? "z1" : "z2", i % 2 == 0 ? "H100" : "T4");
		if (i < 30) {
			record_set(i, 20 + (double)i, (double)(i % 5));
		}
	}
	all = hazard_model_build(*state, offers, 100, &policy, 0);
	part = hazard_model_build(*state, offers, 30, &policy, 0);
	for (size_t i = 0; i < 100; i++) {
		hazard_of(all, &offers[i], &h);
		hazard_of(part, &offers[i], &again);
		assert_true(is_near(h.per_hour, again.per_hour, 1e-6) &&
		    is_near(h.lo, again.lo, 1e-6) && is_near(h.hi, again.hi, 1e-6));
	}
}

/* ---- coverage -------------------------------------------------------------------------------- */

static double uniform_draw(struct rng *r)
{
	return ((double)rng_below(r, 1000000000) + 0.5) / 1e9;
}

static double normal_draw(struct rng *r)
{
	return sqrt(-2 * log(uniform_draw(r))) * cos(2 * M_PI * uniform_draw(r));
}

/* Marsaglia and Tsang (2000). */
static double gamma_draw(struct rng *r, double shape)
{
	double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d), v, x;

	do {
		x = normal_draw(r);
		v = 1 + c * x;
		v = v * v * v;
	} while (v <= 0 || log(uniform_draw(r)) > x * x / 2 + d - d * v + d * log(v));
	return d * v * (shape < 1 ? pow(uniform_draw(r), 1 / shape) : 1);
}

static double poisson_draw(struct rng *r, double mean)
{
	double n = -1, t = 0;

	while (t < mean) {
		t -= log(uniform_draw(r));
		n++;
	}
	return n < 0 ? 0 : n;
}

static double member_draw(struct rng *r, double of, double nu)
{
	return of * gamma_draw(r, nu) / nu;
}

/* Worlds made as the model believes them to be; in each the rate of the hours to come must lie
 * within. */
static void ninety_of_a_hundred_intervals_hold(void **state)
{
	double inside = 0, all = 0;
	struct rng r;

	rng_seeded_init(&r, 3);
	for (int world = 0; world < 150; world++) {
		double provider = member_draw(&r, 1, 0.8), family = member_draw(&r, provider, 2),
		       next[40];
		const struct hazard_model *m;

		for (size_t i = 0; i < 40; i++) {
			static const char *const zones[] = { "z1", "z2", "z3", "z4" };
			static double region, zone;
			double usual, now;

			region = i % 20 == 0 ? member_draw(&r, family, 3) : region;
			zone = i % 10 == 0 ? member_draw(&r, region, 3) : zone;
			usual = policy.unknown_spot_per_hour * member_draw(&r, zone, 4);
			now = member_draw(&r, usual, 2);
			next[i] = member_draw(&r, now, 2);
			offers[i] =
			    pool_offer((int32_t)i + 1, i < 20 ? "r1" : "r2", zones[i / 10], "H100");
			if (rng_below(&r, 3) > 0) {
				double hours = 10 + (double)rng_below(&r, 500),
				       recent = (double)rng_below(&r, 10);

				record_set(i, hours + recent, 0);
				records[i].recent_hours = recent;
				records[i].recent_reclaims = poisson_draw(&r, now * recent);
				records[i].reclaims =
				    records[i].recent_reclaims + poisson_draw(&r, usual * hours);
			}
		}
		m = hazard_model_build(*state, offers, 40, &policy, 0);
		for (size_t i = 0; i < 40; i++) {
			struct hazard h;

			hazard_of(m, &offers[i], &h);
			inside += next[i] >= h.lo && next[i] <= h.hi;
			all += 1;
		}
		arena_reset(*state);
	}
	if (inside / all < 0.88 || inside / all > 0.95) {
		fail_msg("%.1f %% of %.0f intervals hold", 100 * inside / all, all);
	}
}

static void gamma_quantiles_are_exact(void **state)
{
	static const struct {
		double shape, lo, hi;
	} known[] = { { 0.5, 0.00196607, 1.92072941 }, { 1, 0.05129329, 2.99573227 },
		{ 2, 0.35536151, 4.74386452 }, { 5, 1.97014957, 9.15351906 },
		{ 10, 5.42540570, 15.70521642 }, { 30, 21.59399, 39.54097 } };
	double lo, hi;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		gamma_interval(known[i].shape, &lo, &hi);
		assert_true(is_near(lo, known[i].lo, 0.002) && is_near(hi, known[i].hi, 0.002));
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(without_a_record_it_is_what_the_signal_says),
		T(much_record_is_its_own_rate_whatever_the_signal),
		T(never_is_not_believed_for_ever),
		T(a_record_that_contradicts_the_signal_counts_soon),
		T(more_reclaims_never_lower_it_and_more_hours_never_raise_it),
		T(a_new_pool_borrows_most_from_who_shares_most),
		T(a_pool_does_not_hear_its_own_record_from_its_group),
		T(recent_reclaims_weigh_more_than_old_ones),
		T(reclaims_that_come_together_are_less_evidence),
		T(every_number_follows_from_the_printed_ones),
		T(an_offer_that_is_a_copy_or_not_of_the_model_is_found),
		T(a_model_of_the_used_pools_says_the_same_of_the_others),
		T(ninety_of_a_hundred_intervals_hold),
		T(gamma_quantiles_are_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
