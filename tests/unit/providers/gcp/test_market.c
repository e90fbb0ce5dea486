#include "base/base.h"
#include "gcp_test.h"

/* Pools, the price feed, signals and quotas. */

#define POOL(region_, zone_, type, m) \
	{ \
		.key = { "gcp", region_, zone_, type, SPOT_MARKET_##m }, .zone_name = "", \
		.quota_class = "" \
	}
static const struct spot_pool_info pools[] = { POOL("us-central1", "us-central1-a", "g2-standard-4",
						   SPOT),
	POOL("us-central1", "us-central1-b", "g2-standard-4", SPOT),
	POOL("us-central1", "us-central1-a", "g2-standard-4", ON_DEMAND),
	POOL("europe-west4", "europe-west4-a", "g2-standard-4", SPOT) };
#define TYPES(scopes, more) \
	"{\"kind\":\"compute#machineTypeAggregatedList\",\"items\":{" scopes "}" more "}"
#define TYPE(name, acc, n) \
	"{\"name\":\"" name \
	"\",\"guestCpus\":4,\"memoryMb\":16384,\"accelerators\":[{\"guestAcceleratorType\":\"" acc \
	"\",\"guestAcceleratorCount\":" #n "}]}"

static void pools_are_the_gpu_types_of_every_zone_ai_zones_too(void **state)
{
	struct spot_pools a = { .region = "" };
	struct drive d;

	(void)state;
	ready_init(&d, SETTINGS("regions", "us-central1, europe-west4"));
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_POOLS, &a,
		{ .status = 200,
		    .reply = TYPES(
			"\"zones/us-central1-ai1a\":{\"machineTypes\":[" TYPE("a3-highgpu-1g",
			    "nvidia-h100-80gb",
			    1) "," TYPE("g2-standard-4", "nvidia-l4", 1) "," TYPE("ct5p-hightpu-4t",
			    "ct5p", 4) "," TYPE("g2-x", "nvidia-l4-vws",
			    1) ",{\"name\":\"n2-standard-2\",\"guestCpus\":2,\"memoryMb\":8192}]},"
			       "\"zones/asia-east1-a\":{\"machineTypes\":[" TYPE("g2-standard-4",
				   "nvidia-l4", 1) "]}",
			"") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 3); /* the small A3 has no on-demand; Asia is not wanted */
	assert_string_equal(a.pools[0].key.zone, "us-central1-ai1a");
	assert_string_equal(a.pools[0].key.region, "us-central1");
	assert_string_equal(a.pools[0].shape.gpu_name, "H100-80GB-SXM");
	assert_int_equal(a.pools[0].key.market, SPOT_MARKET_SPOT);
	assert_int_equal(a.pools[2].key.market, SPOT_MARKET_ON_DEMAND);
	assert_string_equal(a.pools[2].key.instance_type, "g2-standard-4");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_POOLS, &a,
		{ .status = 200,
		    .reply =
			TYPES("\"zones/us-central1-a\":{\"machineTypes\":[{\"name\":5}]}", "") }),
	    SPOT_BAD_REPLY, "no machine type");
	drive_fini(&d);
}

#define HOST(name, cpus, mem) \
	"{\"name\":\"" name "\",\"guestCpus\":" #cpus ",\"memoryMb\":" #mem "}"
#define CARDS(name, most) "{\"name\":\"" name "\",\"maximumCardsPerInstance\":" #most "}"
#define ATTACHABLE(list) \
	"{\"kind\":\"compute#acceleratorTypeAggregatedList\",\"items\":{\"zones/" \
	"us-central1-a\":{\"acceleratorTypes\":[" list "]}}}"
#define HOSTS \
	TYPES("\"zones/us-central1-a\":{\"machineTypes\":[" HOST("n1-standard-8", 8, \
		  30720) "," HOST("n1-standard-16", 16, 61440) "," HOST("n1-standard-32", 32, \
		  122880) "," HOST("n1-standard-64", 64, 245760) "," HOST("n1-standard-4", 4, \
		  15360) "]}", \
	    "")

static void hosts_are_sold_with_as_many_gpus_as_the_model_allows(void **state)
{
	static const char *const want[] = { "n1-standard-8+nvidia-tesla-t4x1",
		"n1-standard-16+nvidia-tesla-t4x2", "n1-standard-32+nvidia-tesla-t4x4",
		"n1-standard-8+nvidia-tesla-v100x1", "n1-standard-16+nvidia-tesla-v100x2",
		"n1-standard-32+nvidia-tesla-v100x4", "n1-standard-64+nvidia-tesla-v100x8" };
	struct spot_pools a = { .region = "" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_POOLS, &a, { .status = 200, .reply = HOSTS },
			     { .url = API "/aggregated/acceleratorTypes?*",
				 .limit = "list",
				 .status = 200,
				 .reply = ATTACHABLE(CARDS("nvidia-tesla-t4",
				     4) "," CARDS("nvidia-tesla-t4-vws", 4) "," CARDS("ct5lp",
				     8) "," CARDS("nvidia-tesla-v100", 8)) }),
	    SPOT_DONE);
	assert_int_equal(a.n, 2 * ARRAY_LEN(want));
	for (size_t i = 0; i < a.n; i++) {
		assert_string_equal(a.pools[i].key.instance_type, want[i / 2]);
	}
	assert_string_equal(a.pools[13].quota_class, "V100/OnDemand");
	assert_string_equal(a.pools[12].shape.gpu_name, "V100-16GB");
	assert_int_equal(a.pools[12].shape.gpu_milli, 8000);
	assert_int_equal(a.pools[12].shape.vcpus, 64);
	/* A role that may not list them costs no other machine. */
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_POOLS, &a,
		{ .status = 200,
		    .reply =
			TYPES("\"zones/us-central1-a\":{\"machineTypes\":[" TYPE("g2-standard-4",
				  "nvidia-l4", 1) "," HOST("n1-standard-8", 8, 30720) "]}",
			    "") },
		{ .status = 403,
		    .reply = ERROR(403, "forbidden", "Required 'compute.acceleratorTypes.list'") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 2);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_POOLS, &a, { .status = 200, .reply = HOSTS },
		{ .status = 200,
		    .reply = ATTACHABLE(
			"{\"name\":\"nvidia-tesla-t4\",\"maximumCardsPerInstance\":\"many\"}") }),
	    SPOT_BAD_REPLY, "no accelerator type");
	drive_fini(&d);
}

static void a_new_accelerator_keeps_the_vendors_name(void **state)
{
	struct spot_pools a = { .region = "us-central1" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_POOLS, &a,
			     { .status = 200,
				 .reply = TYPES("\"zones/us-central1-a\":{\"machineTypes\":[" TYPE(
						    "a5-x-8g", "nvidia-r100", 8) "]}",
				     "") }),
	    SPOT_DONE);
	assert_string_equal(a.pools[0].shape.gpu_name, "R100");
	assert_string_equal(a.pools[0].quota_class, "nvidia-r100/Spot");
	drive_fini(&d);
}

static void the_price_feed_needs_pools_and_ends_at_the_empty_token(void **state)
{
	struct spot_prices a = { .region = "", .pools = pools, .pools_n = ARRAY_LEN(pools) };
	struct spot_prices none = { .region = "" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	drive_script(&d, NULL, 0);
	assert_int_equal(drive_run(&d, DRIVE_PRICES, &none), SPOT_DONE);
	assert_int_equal(none.n, 0);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_PRICES, &a,
		{ .status = 200,
		    .reply =
			TYPES("\"zones/us-central1-a\":{\"machineTypes\":[" TYPE("g2-standard-4",
				  "nvidia-l4", 1) "]}",
			    "") },
		{ .url = "https://cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus?*",
		    .status = 200,
		    .reply = "{\"skus\":[],\"nextPageToken\":\"x\"}" },
		{ .status = 200, .reply = "{\"skus\":[],\"nextPageToken\":\"\"}" }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0); /* no part has a price */
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_PRICES, &a, { .status = 200, .reply = TYPES("", "") },
		{ .status = 200, .reply = "{\"skus\":5}" }),
	    SPOT_BAD_REPLY, NULL);
	drive_fini(&d);
}

#define HISTORY \
	"{\"preemptionHistory\":[{\"interval\":{\"endTime\":\"2026-01-02T08:00:00Z\"}," \
	"\"preemptionRate\":0.5}]}"
#define BETA "https://compute.googleapis.com/compute/beta/projects/spot-golden"
#define ODDS \
	"{\"recommendations\":[{\"scores\":{\"obtainability\":0.25}},{\"scores\":{" \
	"\"obtainability\":0.75}}]}"

static void signals_are_asked_per_type_and_region_within_the_budget(void **state)
{
	struct spot_signals a = { .region = "", .pools = pools, .pools_n = ARRAY_LEN(pools) };
	struct drive d;

	(void)state;
	ready_init(&d, SETTINGS("advice_calls", "4"));
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &a,
			     { .method = "POST",
				 .url = API "/regions/europe-west4/advice/capacityHistory",
				 .limit = "advice",
				 .has = { "\"machineType\":\"g2-standard-4\"", "\"PREEMPTION\"" },
				 .status = 200,
				 .reply = HISTORY },
			     { .url = API "/regions/europe-west4/advice/capacity",
				 .has = { "\"size\":1", "\"machineTypes\":[\"g2-standard-4\"]" },
				 .status = 200,
				 .reply = ODDS },
			     { .url = API "/regions/us-central1/advice/capacityHistory",
				 .status = 200,
				 .reply = "{}" },
			     { .url = API "/regions/us-central1/advice/capacity",
				 .status = 400,
				 .reply = ERROR(400, "invalid", "no") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_int_equal(a.signals[0].kind, SPOT_SIGNAL_PREEMPTION_SHARE);
	assert_true(a.signals[0].value > 0.49 && a.signals[0].value < 0.51);
	assert_int_equal(a.signals[0].as_of_us, GOLDEN_NOW_US);
	assert_int_equal(a.signals[1].kind, SPOT_SIGNAL_OBTAINABILITY);
	assert_true(a.signals[1].value > 0.74);
	drive_fini(&d);
	ready_init(&d, SETTINGS("advice_calls", "2"));
	a = (struct spot_signals){ .region = "", .pools = pools, .pools_n = ARRAY_LEN(pools) };
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &a, { .status = 200, .reply = HISTORY },
			     { .status = 200, .reply = ODDS }),
	    SPOT_DONE);
	drive_fini(&d);
}

#define PAST(nanos) \
	"{\"priceHistory\":[{\"interval\":{\"startTime\":\"2025-03-01T08:00:00Z\",\"endTime\":" \
	"\"2026-01-02T08:00:00Z\"}," \
	"\"listPrice\":{\"currencyCode\":\"USD\",\"nanos\":" nanos "}}]}"

/* After a long gap. */
static void the_past_is_read_of_every_type_and_region_whatever_the_signals_may_cost(void **state)
{
	struct spot_prices a = { .region = "",
		.market = SPOT_MARKET_SPOT,
		.since_us = 1,
		.pools = pools,
		.pools_n = ARRAY_LEN(pools) };
	struct drive d;

	(void)state;
	ready_init(&d, SETTINGS("advice_calls", "1"));
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_PRICES, &a, { .status = 200, .reply = TYPES("", "") },
			     { .status = 200, .reply = "{\"skus\":[],\"nextPageToken\":\"\"}" },
			     { .url = API "/regions/europe-west4/advice/capacityHistory",
				 .limit = "advice",
				 .has = { "\"g2-standard-4\"", "\"PRICE\"" },
				 .status = 200,
				 .reply = PAST("100000000") },
			     { .url = API "/regions/us-central1/advice/capacityHistory",
				 .status = 200,
				 .reply = PAST("200000000") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 3); /* one in Europe, two zones of us-central1 */
	assert_int_equal(a.points[0].price_micros, 100000);
	assert_int_equal(a.points[2].price_micros, 200000);
	assert_string_equal(a.points[2].key.zone, "us-central1-b");
	drive_fini(&d);
}

/* No catalog, no types: a request for each type and region, no more. */
static void the_past_alone_is_read_without_the_catalog(void **state)
{
	struct spot_prices a = { .region = "",
		.market = SPOT_MARKET_SPOT,
		.since_us = 1,
		.pools = pools,
		.pools_n = ARRAY_LEN(pools),
		.past = true };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_PRICES, &a,
			     { .url = API "/regions/europe-west4/advice/capacityHistory",
				 .limit = "advice",
				 .has = { "\"g2-standard-4\"", "\"PRICE\"" },
				 .status = 200,
				 .reply = PAST("100000000") },
			     { .url = API "/regions/us-central1/advice/capacityHistory",
				 .status = 200,
				 .reply = PAST("200000000") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 3);
	assert_string_equal(a.points[0].source, "capacityHistory");
	drive_fini(&d);
	ready_init(&d, SETTINGS("advice_calls", "0"));
	a.n = 0;
	assert_int_equal(drive_run(&d, DRIVE_PRICES, &a), SPOT_DONE);
	assert_int_equal(a.n, 0);
	drive_fini(&d);
}

/* v1 has the history, and answers 400 to a capacity request for spot. */
static void a_v1_that_takes_no_spot_is_asked_in_beta(void **state)
{
	struct spot_signals a = { .region = "", .pools = pools, .pools_n = ARRAY_LEN(pools) };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &a, { .status = 200, .reply = HISTORY },
			     { .url = API "/regions/europe-west4/advice/capacity",
				 .status = 400,
				 .reply = ERROR(400, "invalid", "SPOT is not supported") },
			     { .url = BETA "/regions/europe-west4/advice/capacity",
				 .has = { "\"SPOT\"" },
				 .status = 200,
				 .reply = ODDS },
			     { .url = API "/regions/us-central1/advice/capacityHistory",
				 .status = 200,
				 .reply = HISTORY },
			     { .url = BETA "/regions/us-central1/advice/capacity",
				 .status = 200,
				 .reply = ODDS }),
	    SPOT_DONE);
	assert_int_equal(a.n, 4);
	assert_int_equal(a.signals[1].kind, SPOT_SIGNAL_OBTAINABILITY);
	assert_int_equal(a.signals[3].kind, SPOT_SIGNAL_OBTAINABILITY);
	drive_fini(&d);
}

static void a_project_without_advice_has_no_signals(void **state)
{
	struct spot_signals a = { .region = "", .pools = pools, .pools_n = ARRAY_LEN(pools) };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &a,
			     { .url = API "/regions/europe-west4/advice/capacityHistory",
				 .status = 404,
				 .reply = "<html>" },
			     { .url = "https://compute.googleapis.com/compute/beta/projects/"
				      "spot-golden/regions/europe-west4/advice/capacityHistory",
				 .status = 404,
				 .reply = "<html>" }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_SIGNALS, &a,
			     { .status = 403, .reply = ERROR(403, "forbidden", "no") }),
	    SPOT_DONE);
	drive_fini(&d);
	ready_init(&d, SETTINGS("advice_version", "off"));
	drive_script(&d, NULL, 0);
	assert_int_equal(drive_run(&d, DRIVE_SIGNALS, &a), SPOT_DONE);
	drive_fini(&d);
}

static int64_t limit_of(const struct spot_quotas *a, const char *region, const char *class)
{
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->quotas[i].region, region) == 0 &&
		    strcmp(a->quotas[i].class, class) == 0) {
			return a->quotas[i].limit;
		}
	}
	fail_msg("no quota %s in %s", class, region);
	return 0;
}

static void quotas_of_both_kinds_join_with_the_pools_class(void **state)
{
	struct spot_quotas a = { .region = "" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_QUOTAS, &a,
		{ .status = 200,
		    .reply = "{\"kind\":\"compute#regionList\",\"items\":[{\"name\":\"us-"
			     "central1\",\"quotas\":[{\"metric\":\"NVIDIA_L4_GPUS\","
			     "\"limit\":16.0},{\"metric\":\"PREEMPTIBLE_NVIDIA_L4_GPUS\",\"limit\":"
			     "0},{\"metric\":\"PREEMPTIBLE_NVIDIA_H100_GPUS\","
			     "\"limit\":4}]}]}" },
		{ .status = 200,
		    .reply = "{\"kind\":\"compute#project\",\"name\":\"p\",\"quotas\":[{\"metric\":"
			     "\"GPUS_ALL_REGIONS\",\"limit\":12}]}" },
		{ .url = "https://cloudquotas.googleapis.com/v1/projects/spot-golden/locations/"
			 "global/services/compute.googleapis.com/"
			 "quotaInfos/GPUS-PER-GPU-FAMILY-per-project-region",
		    .limit = "cloudquotas",
		    .status = 200,
		    .reply = "{\"dimensionsInfos\":[{\"details\":{}},{\"dimensions\":{\"gpu_"
			     "family\":\"NVIDIA_H100\"},\"details\":{\"value\":\"2\"}},"
			     "{\"dimensions\":{\"gpu_family\":\"NVIDIA_H100\",\"region\":\"us-"
			     "central1\"},\"details\":{\"value\":\"8\"}},"
			     "{\"dimensions\":{\"gpu_family\":\"NVIDIA_H200\"},\"details\":{"
			     "\"value\":\"-1\"}}]}" },
		{ .status = 403, .reply = ERROR(403, "forbidden", "no") }),
	    SPOT_DONE);
	assert_int_equal(limit_of(&a, "us-central1", "L4/OnDemand"), 12); /* all regions together */
	/* no preemptible quota: the standard one */
	assert_int_equal(limit_of(&a, "us-central1", "L4/Spot"), 12);
	assert_int_equal(limit_of(&a, "us-central1", "H100/Spot"), 4);
	assert_int_equal(limit_of(&a, "us-central1", "H100/OnDemand"), 8);
	assert_int_equal(limit_of(&a, "us-central1", "H200/OnDemand"), 12);
	assert_int_equal(limit_of(&a, "us-central1", "B200/OnDemand"), 0);
	assert_int_equal(limit_of(&a, "us-central1", "B200/Spot"), -1); /* not told */
	drive_fini(&d);
}

static void settings_are_checked_and_the_key_is_named(void **state)
{
	static const char *const bad[][2] = { { "project", "x" }, { "regions", "us_central" },
		{ "endpoint", "sim:80" }, { "endpoint", "http://u:p@sim" },
		{ "endpoint", "http://sim/path" }, { "network", "a b" }, { "image", "ubuntu" },
		{ "service_account", "me" }, { "disk_type", "PD" }, { "advice_version", "v2" },
		{ "advice_calls", "-1" }, { "disk_gib", "1" }, { "max_run_hours", "99999" },
		{ "flex_start", "yes" }, { "flex_start_wait", "89s" },
		{ "flex_start_wait", "121m" }, { "flex_start_wait", "soon" },
		{ "public_ip", "yes" }, { "preemption_notice", "1" } };
	struct spot_err err = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const char *const settings[] = { bad[i][0], bad[i][1], i > 0 ? "project" : NULL,
			"spot-golden", NULL };

		assert_int_equal(drive_open(&gcp_ops, NULL, settings, &err), SPOT_CONFIG);
		if (strstr(err.text, bad[i][0]) == NULL) {
			fail_msg("'%s' is not in: %s", bad[i][0], err.text);
		}
	}
	assert_int_equal(drive_open(&gcp_ops, NULL, NULL, &err), SPOT_CONFIG);
	assert_int_equal(drive_open(&gcp_ops,
			     (const char *const[]){ "GOOGLE_CLOUD_PROJECT", "spot-golden", NULL },
			     NULL, &err),
	    SPOT_OK);
	assert_int_equal(drive_open(&gcp_ops, NULL,
			     SETTINGS("regions", "us-central1", "subnetwork.us-central1", "a b"),
			     &err),
	    SPOT_CONFIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pools_are_the_gpu_types_of_every_zone_ai_zones_too),
		cmocka_unit_test(hosts_are_sold_with_as_many_gpus_as_the_model_allows),
		cmocka_unit_test(a_new_accelerator_keeps_the_vendors_name),
		cmocka_unit_test(the_price_feed_needs_pools_and_ends_at_the_empty_token),
		cmocka_unit_test(signals_are_asked_per_type_and_region_within_the_budget),
		cmocka_unit_test(
		    the_past_is_read_of_every_type_and_region_whatever_the_signals_may_cost),
		cmocka_unit_test(the_past_alone_is_read_without_the_catalog),
		cmocka_unit_test(a_v1_that_takes_no_spot_is_asked_in_beta),
		cmocka_unit_test(a_project_without_advice_has_no_signals),
		cmocka_unit_test(quotas_of_both_kinds_join_with_the_pools_class),
		cmocka_unit_test(settings_are_checked_and_the_key_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
