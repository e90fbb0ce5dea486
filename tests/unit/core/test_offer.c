/* Which GPUs match, and which prices are believed: the bad data that users of other tools met. */
#include "base/base.h"
#include "base/arena.h"
#include "core/jobspec.h"
#include "core/offer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void gpu_names_match_by_whole_parts(void **state)
{
	static const struct { const char *asked, *pool; bool yes; } cases[] = {
		{"A100", "A100-80GB", true}, {"A100", "A100-40GB", true}, {"a100-80gb", "A100-80GB", true},
		{"A100-80GB", "A100-40GB", false}, {"A10", "A100-40GB", false}, {"A10", "A10G", false},
		{"A10G", "A10G", true}, {"H100", "H100-80GB-SXM", true}, {"H100-80GB", "H100-94GB-NVL", false},
		{"L4", "L40", false}, {"L40", "L40S", false}, {"T4", "T4G", false}, {"V100", "V100-16GB", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(gpu_matches(cases[i].asked, cases[i].pool), cases[i].yes);
	}
}

static void absurd_prices_are_refused(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static const struct { const char *gpu; int32_t milli, mib; enum spot_market m; int64_t price, last, od; bool ok; } cases[] = {
		{"B200", 8000, 183359, SPOT_MARKET_SPOT, 10000, 0, 0, false},          /* B200 at one cent */
		{"H100-80GB-SXM", 1000, 81920, SPOT_MARKET_ON_DEMAND, 0, 0, 0, false}, /* H100 for nothing */
		{"H100-80GB-SXM", 1000, 81920, SPOT_MARKET_ON_DEMAND, -1, 0, 0, false},
		{"H100-80GB-SXM", 8000, 81920, SPOT_MARKET_ON_DEMAND, 55040000, 0, 0, true},
		{"T4", 1000, 16384, SPOT_MARKET_SPOT, 157800, 0, 526000, true},
		{"T4", 1000, 16384, SPOT_MARKET_SPOT, 1200000, 0, 526000, false},      /* spot over twice on-demand */
		{"T4", 1000, 16384, SPOT_MARKET_SPOT, 526000, 0, 526000, true},        /* equal happens */
		{"T4", 1000, 16384, SPOT_MARKET_SPOT, 157800, 3200000, 0, false},      /* a unit mistake */
		{"L4", 125, 22888, SPOT_MARKET_SPOT, 30000, 0, 0, true},               /* an eighth of a GPU */
		{"H200", 8000, 144384, SPOT_MARKET_ON_DEMAND, INT64_C(9000000000), 0, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_pool_key key = {"aws", "r", "z", "t", cases[i].m};
		struct spot_shape shape = {.gpu_name = cases[i].gpu, .gpu_milli = cases[i].milli, .gpu_mem_mib = cases[i].mib};
		const char *why = price_implausible(a, &key, &shape, cases[i].price, cases[i].last, cases[i].od);

		if (cases[i].ok) {
			assert_null(why);
		} else {
			assert_non_null(why);
		}
	}
}

static void a_request_says_why_an_offer_does_not_suit(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct gpu_ask gpu = {.gpu = "A10G", .milli = 1000};
	struct resource_ask ask = {.use_spot = 0, .gpus = &gpu, .gpus_n = 1, .vcpus_min = 8, .max_hourly_micros = 2000000};
	struct offer o = {.provider = "aws", .region = "us-east-1", .zone = "use1-az4", .zone_name = "us-east-1a",
		.instance_type = "g5.2xlarge", .market = SPOT_MARKET_ON_DEMAND, .gpu_name = "A10G", .gpu_milli = 1000,
		.vcpus = 8, .price_micros = 1212000};

	(void)state;
	assert_null(offer_refusal(a, &o, &ask));
	ask.zone = "us-east-1a";
	assert_null(offer_refusal(a, &o, &ask));
	ask.zone = "use1-az1";
	assert_non_null(strstr(offer_refusal(a, &o, &ask), "zone"));
	ask.zone = NULL;
	o.market = SPOT_MARKET_SPOT;
	assert_non_null(strstr(offer_refusal(a, &o, &ask), "use_spot"));
	o.market = SPOT_MARKET_ON_DEMAND;
	o.gpu_milli = 4000;
	assert_non_null(strstr(offer_refusal(a, &o, &ask), "4x A10G"));
	o.gpu_milli = 1000;
	o.vcpus = 4;
	assert_non_null(strstr(offer_refusal(a, &o, &ask), "vCPU"));
	o.vcpus = 8;
	o.price_micros = 2000001;
	assert_non_null(strstr(offer_refusal(a, &o, &ask), "max_hourly_cost"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpu_names_match_by_whole_parts),
		cmocka_unit_test(absurd_prices_are_refused),
		cmocka_unit_test(a_request_says_why_an_offer_does_not_suit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
