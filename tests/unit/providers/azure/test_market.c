#include "base/base.h"
#include "azure_test.h"

/* Pools, prices and signals: which rows count. */

#define SKU(name, caps, restrictions) \
	"{\"value\":[{\"resourceType\":\"virtualMachines\",\"name\":\"" name \
	"\",\"family\":\"F Family\"," \
	"\"locations\":[\"EastUS2\"],\"locationInfo\":[{\"location\":\"East US " \
	"2\",\"zones\":[\"2\",\"1\"]}]," \
	"\"capabilities\":[{\"name\":\"vCPUs\",\"value\":\"8\"},{\"name\":\"MemoryGB\",\"value\":" \
	"\"55.5\"}," \
	"{\"name\":\"LowPriorityCapable\",\"value\":\"True\"}" caps \
	"],\"restrictions\":[" restrictions "]}]}"
#define GPUS(n) ",{\"name\":\"GPUs\",\"value\":\"" n "\"}"

static struct spot_pools pools_of(struct drive *d, const char *reply)
{
	const struct drive_try t = { .url = ARM SUB
		"/providers/Microsoft.Compute/"
		"skus?api-version=2021-07-01&$filter=location%20eq%20%27eastus2%27",
		.status = 200,
		.reply = reply };
	struct spot_pools a = { .region = "eastus2" };

	drive_script(d, &t, 1);
	assert_int_equal(drive_run(d, DRIVE_POOLS, &a), SPOT_DONE);
	return a;
}

static void sizes_are_made_of_what_the_table_says(void **state)
{
	static const struct {
		const char *name, *gpus, *gpu;
		int32_t milli, mib;
	} cases[] = {
		{ "Standard_NC4as_T4_v3", "1", "T4", 1000, 16384 },
		{ "Standard_NC64as_T4_v3", "4", "T4", 4000, 16384 },
		/* the catalogue counts parts of a card as one, and forgets the count of some
		 * sizes */
		{ "Standard_NV6ads_A10_v5", "1", "A10", 167, 24576 },
		{ "Standard_NV12ads_A10_v5", "1", "A10", 333, 24576 },
		{ "Standard_NV18ads_A10_v5", "1", "A10", 500, 24576 },
		{ "Standard_NV36adms_A10_v5", "1", "A10", 1000, 24576 },
		{ "Standard_NV72ads_A10_v5", "2", "A10", 2000, 24576 },
		{ "Standard_NC96ads_A100_v4", "4", "A100-80GB", 4000, 81920 },
		{ "Standard_ND96asr_v4", "8", "A100-40GB", 8000, 40960 },
		{ "Standard_ND96amsr_A100_v4", "8", "A100-80GB", 8000, 81920 },
		{ "Standard_NC80adis_H100_v5", "2", "H100-94GB-NVL", 2000, 96256 },
		{ "Standard_ND96isr_H100_v5", "8", "H100-80GB-SXM", 8000, 81920 },
		{ "Standard_ND96isr_H200_v5", "8", "H200", 8000, 144384 },
		{ "Standard_ND128isr_NDR_GB200_v6", "", "GB200", 4000, 190464 },
		{ "Standard_ND128isr_GB300_v6", "0", "GB300", 4000, 294912 },
		{ "Standard_NC6s_v3", "1", "V100-16GB", 1000, 16384 },
		{ "Standard_ND40rs_v2", "8", "V100-32GB", 8000, 32768 },
		/* no CUDA, confidential, no GPU, a series that is new to us */
		{ "Standard_ND96isr_MI300X_v5", "8", NULL, 0, 0 },
		{ "Standard_NCC40ads_H100_v5", "1", NULL, 0, 0 },
		{ "Standard_NV4as_v4", "1", NULL, 0, 0 },
		{ "Standard_D4s_v5", "", NULL, 0, 0 },
		{ "Standard_NX1_v9", "1", NULL, 0, 0 },
	};
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_pools a = pools_of(&d,
		    arena_printf(d.arena, SKU("%s", GPUS("%s"), ""), cases[i].name, cases[i].gpus));

		if (cases[i].gpu == NULL) {
			assert_int_equal(a.n, 0);
			continue;
		}
		assert_int_equal(a.n, 4); /* two zones, two markets */
		assert_string_equal(a.pools[0].shape.gpu_name, cases[i].gpu);
		assert_int_equal(a.pools[0].shape.gpu_milli, cases[i].milli);
		assert_int_equal(a.pools[0].shape.gpu_mem_mib, cases[i].mib);
		assert_int_equal(a.pools[0].shape.mem_mib, 56832);
		assert_string_equal(a.pools[0].key.zone, "eastus2-2");
		assert_string_equal(a.pools[0].zone_name, "2");
		assert_string_equal(a.pools[0].quota_class, "lowprioritycores");
		assert_string_equal(a.pools[1].quota_class, "ffamily");
	}
	drive_fini(&d);
}

static void restricted_places_have_no_pool(void **state)
{
	static const struct {
		const char *restrictions;
		size_t n;
	} cases[] = {
		{ "{\"type\":\"Location\",\"restrictionInfo\":{\"locations\":[\"EastUS2\"]},"
		  "\"reasonCode\":\"QuotaId\"}",
		    0 },
		{ "{\"type\":\"Location\",\"restrictionInfo\":{\"locations\":[\"westus\"]}}", 4 },
		{ "{\"type\":\"Location\"}", 0 },
		{ "{\"type\":\"Zone\",\"restrictionInfo\":{\"locations\":[\"eastus2\"],\"zones\":["
		  "\"1\"]"
		  "}}",
		    2 },
		{ "{\"type\":\"Zone\",\"restrictionInfo\":{\"locations\":[\"eastus2\"],\"zones\":["
		  "\"1\","
		  "\"2\"]}}",
		    0 },
		{ "7", 4 },
	};
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_pools a = pools_of(&d,
		    arena_printf(d.arena, SKU("Standard_NC4as_T4_v3", GPUS("1"), "%s"),
			cases[i].restrictions));

		if (a.n != cases[i].n) {
			fail_msg("case %zu: %zu pools", i, a.n);
		}
	}
	drive_fini(&d);
}

static void broken_rows_are_no_sizes(void **state)
{
	static const char *const rows[] = {
		"{\"value\":[7,null,[],{},{\"resourceType\":\"virtualMachines\"}]}",
		SKU("Standard_NC4as_T4_v3", "", ""), /* no count where the table has none */
		"{\"value\":[{\"resourceType\":\"virtualMachines\",\"name\":\"Standard_NC4as_T4_"
		"v3\","
		"\"locations\":[\"eastus2\"],"
		"\"capabilities\":[{\"name\":\"GPUs\",\"value\":\"1\"},{\"name\":\"vCPUs\","
		"\"value\":"
		"\"many\"}]}]}"
	};
	struct spot_pools a = { .region = "eastus2" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(pools_of(&d, rows[i]).n, 0);
	}
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_POOLS, &a, { .status = 200, .reply = "{\"value\":7}" }),
	    SPOT_BAD_REPLY, NULL);
	a.region = "East US";
	failed_with(&d, drive_run(&d, DRIVE_POOLS, &a), SPOT_INVALID, NULL);
	drive_fini(&d);
}

/* ---- prices ---------------------------------------------------------------------------------- */

static const struct spot_pool_info pools[] = {
	{ .key = { "azure", "eastus2", "eastus2-1", "Standard_NC4as_T4_v3", SPOT_MARKET_SPOT } },
	{ .key = { "azure", "eastus2", "eastus2-2", "Standard_NC4as_T4_v3", SPOT_MARKET_SPOT } },
	{ .key = { "azure", "eastus2", "eastus2-1", "Standard_NC4as_T4_v3",
	      SPOT_MARKET_ON_DEMAND } },
};

static struct spot_prices prices_args(enum spot_market market)
{
	return (struct spot_prices){ .region = "eastus2",
		.market = market,
		.pools = pools,
		.pools_n = ARRAY_LEN(pools) };
}

/* A good row with one member changed ("" = none), which a second one of the same key in JSON cannot
 * be: it is written in. */
static const char *price_row(struct arena *a, const char *key, const char *value)
{
	static const char *const good[][2] = { { "type", "\"Consumption\"" },
		{ "unitOfMeasure", "\"1 Hour\"" }, { "armSkuName", "\"Standard_NC4as_T4_v3\"" },
		{ "armRegionName", "\"eastus2\"" }, { "retailPrice", "0.1052" },
		{ "productName", "\"Virtual Machines NCasT4 v3 Series\"" },
		{ "meterName", "\"NC4as T4 v3 Spot\"" }, { "skuName", "\"NC4as T4 v3 Spot\"" },
		{ "effectiveStartDate", "\"2025-11-01T00:00:00Z\"" },
		{ "isPrimaryMeterRegion", "true" }, { "tierMinimumUnits", "0.0" },
		{ "currencyCode", "\"USD\"" } };
	struct sbuf b AUTO(sbuf);

	sbuf_init(&b, 1 << 16);
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		sbuf_printf(&b, "%s\"%s\":%s", i > 0 ? "," : "{", good[i][0],
		    strcmp(good[i][0], key) == 0 ? value : good[i][1]);
	}
	return arena_printf(a, "%.*s}", (int)b.n, b.p);
}

static struct spot_prices prices_read(struct drive *d, const char *rows)
{
	const struct drive_try t = { .method = "GET",
		.url = "https://prices.azure.com/api/retail/prices?*",
		.headers = { "!authorization" },
		.limit = "retail-prices",
		.status = 200,
		.reply = arena_printf(d->arena, "{\"Items\":[%s],\"NextPageLink\":null}", rows) };
	struct spot_prices a = prices_args(SPOT_MARKET_NONE);

	drive_script(d, &t, 1);
	assert_int_equal(drive_run(d, DRIVE_PRICES, &a), SPOT_DONE);
	return a;
}

static void rows_of_other_products_are_no_prices(void **state)
{
	static const char *const bad[][2] = { { "type", "\"Reservation\"" },
		{ "type", "\"DevTestConsumption\"" }, { "unitOfMeasure", "\"1 Month\"" },
		{ "armSkuName", "\"\"" }, { "armSkuName", "\"Standard_NC8as_T4_v3\"" },
		{ "armRegionName", "\"westus\"" }, { "armRegionName", "\"\"" },
		{ "retailPrice", "0" }, { "retailPrice", "-1" }, { "retailPrice", "\"0.1\"" },
		{ "retailPrice", "1e300" }, { "retailPrice", "null" },
		{ "productName", "\"Virtual Machines NCasT4 v3 Series Windows\"" },
		{ "productName", "\"NCasT4 v3 Series Win\"" },
		{ "productName", "\"NCasT4 v3 Series Cloud Services\"" },
		{ "productName", "\"NCasT4 v3 Series CloudServices\"" },
		{ "productName", "\"NCasT4 v3 Dedicated Host\"" },
		{ "meterName", "\"NC4as T4 v3 Low Priority\"" },
		{ "skuName", "\"NC4as T4 v3 Low Priority\"" },
		{ "effectiveStartDate", "\"2026-02-01T00:00:00Z\"" },
		{ "currencyCode", "\"USD\",\"effectiveEndDate\":\"2025-12-01T00:00:00Z\"" },
		{ "tierMinimumUnits", "100.0" }, { "currencyCode", "\"EUR\"" } };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(prices_read(&d, price_row(d.arena, "", "")).n,
	    2); /* the region's price, in both zones */
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct spot_prices a = prices_read(&d, price_row(d.arena, bad[i][0], bad[i][1]));

		if (a.n != 0) {
			fail_msg("%s %s was taken", bad[i][0], bad[i][1]);
		}
	}
	assert_int_equal(prices_read(&d, "7,null,{},[]").n, 0);
	drive_fini(&d);
}

static void of_several_rows_the_primary_and_then_the_newest_counts(void **state)
{
	struct spot_prices a;
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	a = prices_read(&d,
	    arena_printf(d.arena, "%s,%s,%s", price_row(d.arena, "", ""),
		arena_printf(d.arena, "%s",
		    price_row(d.arena, "effectiveStartDate", "\"2025-12-01T00:00:00Z\"")),
		price_row(d.arena, "isPrimaryMeterRegion", "false")));
	assert_int_equal(a.n, 2);
	assert_int_equal(a.points[0].price_micros, 105200);
	assert_int_equal(a.points[0].effective_us, INT64_C(1764547200000000));
	assert_string_equal(a.points[0].source, "RetailPrices");
	/* the suffix tells spot, and a name without it is on-demand */
	a = prices_read(&d,
	    arena_printf(d.arena,
		"{\"type\":\"Consumption\",\"unitOfMeasure\":\"1 Hour\",\"armSkuName\":"
		"\"STANDARD_NC4as_T4_v3\",\"armRegionName\":\"eastus2\",\"retailPrice\":0."
		"526,\"meterName\":\"NC4as T4 v3\","
		"\"productName\":\"p\",\"effectiveStartDate\":\"2025-11-01T00:00:00Z\"}"));
	assert_int_equal(a.n, 1);
	assert_int_equal(a.points[0].key.market, SPOT_MARKET_ON_DEMAND);
	assert_int_equal(a.points[0].price_micros, 526000);
	drive_fini(&d);
}

static void pages_end_with_an_empty_one_too(void **state)
{
	struct spot_prices a = prices_args(SPOT_MARKET_SPOT);
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_PRICES, &a,
		{ .status = 200,
		    .reply = "{\"Items\":[{}],\"NextPageLink\":\"https://prices.azure.com:443/"
			     "api/retail/prices?$filter=a eq 'b'&$skip=1\"}" },
		{ .url = "https://prices.azure.com:443/api/retail/"
			 "prices?$filter=a%20eq%20%27b%27&$skip=1",
		    .status = 200,
		    .reply = "{\"Items\":[],\"NextPageLink\":\"https://prices.azure.com:443/"
			     "api/retail/prices?$skip=2\"}" }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_PRICES, &a,
		{ .status = 200,
		    .reply =
			"{\"Items\":[{}],\"NextPageLink\":\"https://prices.example/?$skip=1\"}" }),
	    SPOT_BAD_REPLY, "another host");
	drive_fini(&d);
}

static void history_that_may_not_be_read_does_not_cost_the_prices(void **state)
{
	struct spot_prices a = prices_args(SPOT_MARKET_SPOT);
	struct drive d;

	(void)state;
	a.since_us = GOLDEN_NOW_US - SPOT_US_PER_HOUR;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_PRICES, &a,
			     { .status = 200, .reply = "{\"Items\":[]}" },
			     { .method = "POST",
				 .limit = "resource-graph",
				 .has = { "in~ ('Standard_NC4as_T4_v3')", "location =~ 'eastus2'" },
				 .status = 403,
				 .reply = ERROR("AuthorizationFailed", "m") }),
	    SPOT_DONE);
	/* as Resource Graph words it when a query is not to its taste */
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_PRICES, &a, { .status = 200, .reply = "{\"Items\":[]}" },
		{ .status = 400,
		    .reply =
			"{\"error\":{\"code\":\"BadRequest\",\"message\":\"Please provide "
			"below info\",\"details\":[{\"code\":\"InvalidQuery\",\"message\":"
			"\"Query is invalid.\"},{\"code\":\"DisallowedLogicalTableName\"}]}}" }),
	    SPOT_DONE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_PRICES, &a, { .status = 200, .reply = "{\"Items\":[]}" },
		{ .status = 200, .reply = "{\"data\":{}}" }),
	    SPOT_BAD_REPLY, "no data");
	drive_fini(&d);
}

static void a_list_that_is_dated_before_its_history_still_says_what_is_in_force(void **state)
{
	static const struct {
		const char *prices; /* the list has 0.1052 since 2025-11-01 */
		int64_t since_us;
	} cases[] = {
		{ "{\"priceUSD\":0.2,\"effectiveDate\":\"2025-10-20T00:00:00Z\"}",
		    INT64_C(1761955200000000) },
		{ "{\"priceUSD\":0.1052,\"effectiveDate\":\"2025-12-20T00:00:00Z\"},"
		  "{\"priceUSD\":0.2,\"effectiveDate\":\"2025-12-10T00:00:00Z\"}",
		    INT64_C(1766188800000000) },
		{ "{\"priceUSD\":0.2,\"effectiveDate\":\"2025-12-20T00:00:00Z\"}", GOLDEN_NOW_US },
	};
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_prices a = prices_args(SPOT_MARKET_SPOT);

		a.since_us = 1;
		assert_int_equal(
		    RUN_SCRIPT(&d, DRIVE_PRICES, &a,
			{ .status = 200,
			    .reply = arena_printf(d.arena, "{\"Items\":[%s]}",
				price_row(d.arena, "effectiveStartDate",
				    "\"2025-11-01T00:00:00Z\"")) },
			{ .status = 200,
			    .reply = arena_printf(d.arena,
				"{\"totalRecords\":1,\"count\":1,\"resultTruncated\":\"false\","
				"\"data\":[{\"id\":\"/"
				"x\",\"sku\":\"standard_nc4as_t4_v3\",\"location\":\"eastus2\","
				"\"prices\":[%s]}]}",
				cases[i].prices) }),
		    SPOT_DONE);
		/* Each pool of the size has two prices, and the list's is the newest. */
		assert_int_equal(a.n, 4);
		for (size_t k = 0; k < a.n; k++) {
			bool listed = strcmp(a.points[k].source, "RetailPrices") == 0;

			assert_int_equal(a.points[k].price_micros, listed ? 105200 : 200000);
			assert_true(listed ? a.points[k].effective_us == cases[i].since_us
					   : a.points[k].effective_us < cases[i].since_us);
		}
	}
	drive_fini(&d);
}

/* ---- signals --------------------------------------------------------------------------------- */

static void bands_are_passed_on_as_published(void **state)
{
	static const struct {
		const char *rate;
		int value; /* -1: no signal */
		double lo, hi;
	} cases[] = { { "0-5", 0, 0, 0.05 }, { "5-10", 1, 0.05, 0.1 }, { "10-15", 2, 0.1, 0.15 },
		{ "15-20", 3, 0.15, 0.2 }, { "20+", 4, 0.2, 1 }, { "", -1, 0, 0 },
		{ "unknown", -1, 0, 0 } };
	static const char *const off[] = { "subscription", GOLDEN_SUB, "tenant", "contoso.example",
		"client_id", "me", "placement_scores", "off", NULL };
	struct drive d;

	(void)state;
	keyed_init(&d, off);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_signals a = { .region = "eastus2",
			.pools = pools,
			.pools_n = ARRAY_LEN(pools) };
		const struct drive_try t = { .status = 200,
			.reply = arena_printf(d.arena,
			    "{\"data\":[{\"sku\":\"standard_nc4as_t4_v3\","
			    "\"location\":\"EastUS2\",\"rate\":"
			    "\"%s\"}]}",
			    cases[i].rate) };

		drive_script(&d, &t, 1);
		assert_int_equal(drive_run(&d, DRIVE_SIGNALS, &a), SPOT_DONE);
		assert_int_equal(a.n, cases[i].value >= 0);
		if (a.n == 0) {
			continue;
		}
		assert_int_equal(a.signals[0].kind, SPOT_SIGNAL_EVICTION_BAND);
		assert_true(a.signals[0].value == cases[i].value &&
		    a.signals[0].lo == cases[i].lo && a.signals[0].hi == cases[i].hi);
		assert_string_equal(a.signals[0].key.zone, ""); /* the region's */
		assert_string_equal(a.signals[0].key.instance_type, "Standard_NC4as_T4_v3");
	}
	drive_fini(&d);
}

static void refused_scores_leave_the_bands_and_throttled_ones_wait(void **state)
{
	struct spot_signals a = { .region = "eastus2",
		.pools = pools,
		.pools_n = ARRAY_LEN(pools) };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &a,
			     { .status = 200,
				 .reply =
				     "{\"data\":[{\"sku\":\"standard_nc4as_t4_v3\",\"location\":"
				     "\"eastus2\",\"rate\":\"0-5\"}]}" },
			     { .status = 429,
				 .reply = "slow down",
				 .reply_headers = { "Retry-After: 9" } },
			     { .status = 403, .reply = ERROR("AuthorizationFailed", "m") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_int_equal(d.waited_us, 9 * SPOT_US_PER_S);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_made_of_what_the_table_says),
		cmocka_unit_test(restricted_places_have_no_pool),
		cmocka_unit_test(broken_rows_are_no_sizes),
		cmocka_unit_test(rows_of_other_products_are_no_prices),
		cmocka_unit_test(of_several_rows_the_primary_and_then_the_newest_counts),
		cmocka_unit_test(pages_end_with_an_empty_one_too),
		cmocka_unit_test(history_that_may_not_be_read_does_not_cost_the_prices),
		cmocka_unit_test(
		    a_list_that_is_dated_before_its_history_still_says_what_is_in_force),
		cmocka_unit_test(bands_are_passed_on_as_published),
		cmocka_unit_test(refused_scores_leave_the_bands_and_throttled_ones_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
