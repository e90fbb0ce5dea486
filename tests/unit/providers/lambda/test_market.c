/* regions, pools, prices, capacity signals: all out of GET /regions and GET /instance-types. */
#include "base/base.h"
#include "lambda_test.h"

#include "base/text/text.h"

#define US INT64_C(1000000)

static void script_both(struct drive *d)
{
	struct drive_try *t = arena_array(d->arena, 2, sizeof(*t));

	t[0] = (struct drive_try){ .method = "GET",
		.url = LAMBDA_API "/regions",
		.limit = "general",
		.mutating = -1,
		.headers = { "authorization: Bearer " LAMBDA_KEY, "accept: application/json" },
		.status = 200,
		.reply = golden(d, "regions.json") };
	t[1] = (struct drive_try){ .method = "GET",
		.url = LAMBDA_API "/instance-types",
		.limit = "general",

		.mutating = -1,
		.status = 200,
		.reply = golden(d, "instance_types.json") };
	drive_script(d, t, 2);
}

static void script_types(struct drive *d, const char *body)
{
	struct drive_try *t = arena_alloc(d->arena, sizeof(*t));

	*t = (struct drive_try){ .method = "GET",
		.url = LAMBDA_API "/instance-types",
		.status = 200,
		.reply = body };
	drive_script(d, t, 1);
}

static const struct spot_pool_info *pool_find(const struct spot_pools *a, const char *region,
    const char *type)
{
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->pools[i].key.region, region) == 0 &&
		    strcmp(a->pools[i].key.instance_type, type) == 0) {
			return &a->pools[i];
		}
	}
	return NULL;
}

static void regions_come_from_their_own_call(void **state)
{
	struct drive *d = *state;
	struct spot_regions a = { 0 };

	reply_with(d, DRIVE_REGIONS, &a, 200, golden(d, "regions.json"));
	assert_int_equal(a.n, 5);
	assert_string_equal(a.names[0], "us-east-1");
	assert_string_equal(a.names[4], "asia-south-1");
}

static void without_that_call_the_regions_seen_stand_in(void **state)
{
	struct drive *d = *state;
	struct spot_regions a = { 0 };
	const struct drive_try script[] = {
		{ .url = LAMBDA_API "/regions",
		    .status = 404,
		    .reply = LAMBDA_ERROR("global/not-found") },
		{ .url = LAMBDA_API "/instance-types",
		    .status = 200,
		    .reply = golden(d, "instance_types.json") },
	};

	drive_script(d, script, 2);
	assert_int_equal(drive_run(d, DRIVE_REGIONS, &a), SPOT_DONE);
	assert_int_equal(a.n, 4);
}

static void every_gpu_type_in_every_region_is_a_pool(void **state)
{
	struct drive *d = *state;
	struct spot_pools a = { .region = "" };
	const struct spot_pool_info *p;

	script_both(d);
	assert_int_equal(drive_run(d, DRIVE_POOLS, &a), SPOT_DONE);
	assert_int_equal(a.n, 10 * 5); /* without the CPU type */
	p = pool_find(&a, "asia-south-1", "gpu_8x_h100_sxm5");
	assert_non_null(p);
	assert_string_equal(p->key.provider, "lambda");
	assert_string_equal(p->key.zone, "");
	assert_int_equal(p->key.market, SPOT_MARKET_ON_DEMAND);
	assert_string_equal(p->shape.gpu_name, "H100-80GB-SXM");
	assert_int_equal(p->shape.gpu_milli, 8000);
	assert_int_equal(p->shape.gpu_mem_mib, 80 * 1024);
	assert_int_equal(p->shape.vcpus, 208);
	assert_int_equal(p->shape.mem_mib, 1800 * 1024);
	assert_string_equal(p->shape.arch, "x86_64");
}

static void gpu_names_are_those_of_the_catalogue(void **state)
{
	static const struct {
		const char *type, *gpu, *arch;
		int32_t gb;
	} want[] = {
		{ "gpu_1x_a10", "A10", "x86_64", 24 },
		{ "gpu_1x_gh200", "GH200-96GB", "arm64", 96 },
		{ "gpu_1x_h100_pcie", "H100-80GB-PCIe", "x86_64", 80 },
		{ "gpu_8x_a100_80gb_sxm4", "A100-80GB", "x86_64", 80 },
		{ "gpu_1x_a100_sxm4", "A100-40GB", "x86_64", 40 },
		{ "gpu_8x_b200_sxm6", "B200", "x86_64", 180 },
		{ "gpu_8x_v100", "V100-16GB", "x86_64", 16 },
		{ "gpu_1x_rtx6000", "QuadroRTX6000", "x86_64", 24 },
		{ "gpu_1x_a6000", "A6000", "x86_64", 48 },
	};
	struct drive *d = *state;
	struct spot_pools a = { .region = "us-east-1" };

	script_both(d);
	assert_int_equal(drive_run(d, DRIVE_POOLS, &a), SPOT_DONE);
	assert_int_equal(a.n, 10);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const struct spot_pool_info *p = pool_find(&a, "us-east-1", want[i].type);

		assert_non_null(p);
		assert_string_equal(p->shape.gpu_name, want[i].gpu);
		assert_string_equal(p->shape.arch, want[i].arch);
		assert_int_equal(p->shape.gpu_mem_mib, want[i].gb * 1024);
	}
}

#define TYPE_JSON(name, gpu, rest) \
	"{\"data\":{\"" name "\":{\"instance_type\":{\"name\":\"" name \
	"\",\"description\":\"d\"," gpu "\"price_cents_per_hour\":100,\"specs\":{\"vcpus\":1," \
	"\"memory_gib\":2,\"storage_gib\":3,\"gpus\":1}}," \
	"\"regions_with_capacity_available\":[{\"name\":\"r\",\"description\":\"R\"}]" rest "}}}"

static void shape_from(struct drive *d, const char *body, struct spot_shape *ret)
{
	struct spot_pools a = { .region = "" };
	const struct drive_try script[] = {
		{ .status = 404, .reply = LAMBDA_ERROR("global/not-found") },
		{ .status = 200, .reply = body },
	};

	drive_script(d, script, 2);
	assert_int_equal(drive_run(d, DRIVE_POOLS, &a), SPOT_DONE);
	assert_int_equal(a.n, 1);
	*ret = a.pools[0].shape;
}

static void unknown_gpus_keep_their_name_and_no_guessed_memory(void **state)
{
	struct drive *d = *state;
	struct spot_shape s;

	shape_from(d, TYPE_JSON("gpu_1x_x9000", "\"gpu_description\":\"X9000 (512 GB SXM9)\",", ""),
	    &s);
	assert_string_equal(s.gpu_name, "X9000-512GB");
	assert_int_equal(s.gpu_mem_mib, 512 * 1024);
	shape_from(d, TYPE_JSON("gpu_1x_x9000", "\"gpu_description\":\"N/A\",", ""), &s);
	assert_string_equal(s.gpu_name, "X9000");
	assert_int_equal(s.gpu_mem_mib, 0);
	shape_from(d, TYPE_JSON("gpu_8x_a100", "", ""), &s);
	assert_string_equal(s.gpu_name, "A100-40GB");
	shape_from(d, TYPE_JSON("gpu_8x_a100_80gb_sxm4", "", ""), &s);
	assert_string_equal(s.gpu_name, "A100-80GB");
	shape_from(d,
	    TYPE_JSON("gpu_1x_gb300", "\"gpu_description\":\"NVIDIA GB300 (288 GB)\",", ""), &s);
	assert_string_equal(s.arch, "arm64");
}

static void prices_are_cents_made_micros_and_on_demand_only(void **state)
{
	struct drive *d = *state;
	struct spot_prices a = { .region = "" };

	script_both(d);
	assert_int_equal(drive_run(d, DRIVE_PRICES, &a), SPOT_DONE);
	assert_int_equal(a.n, 50);
	for (size_t i = 0; i < a.n; i++) {
		assert_int_equal(a.points[i].key.market, SPOT_MARKET_ON_DEMAND);
		assert_int_equal(a.points[i].observed_us, DRIVE_NOW_US);
		assert_int_equal(a.points[i].effective_us, 0);
		if (strcmp(a.points[i].key.instance_type, "gpu_1x_a10") == 0) {
			assert_int_equal(a.points[i].price_micros, 1290000);
		}
	}
}

static void known_pools_save_the_call_for_regions(void **state)
{
	struct drive *d = *state;
	const struct spot_pool_info pools[] = {
		{ .key = { "lambda", "us-east-1", "", "gpu_1x_a10", SPOT_MARKET_ON_DEMAND } },
		{ .key = { "lambda", "us-west-1", "", "gpu_1x_gone", SPOT_MARKET_ON_DEMAND } },
		{ .key = { "lambda", "asia-south-1", "", "gpu_1x_a10", SPOT_MARKET_ON_DEMAND } },
	};
	struct spot_prices a = { .region = "", .pools = pools, .pools_n = 3 };
	struct spot_signals s = { .region = "", .pools = pools, .pools_n = 3 };

	script_types(d, golden(d, "instance_types.json"));
	assert_int_equal(drive_run(d, DRIVE_PRICES, &a), SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_string_equal(a.points[1].key.region, "asia-south-1");
	script_types(d, golden(d, "instance_types.json"));
	assert_int_equal(drive_run(d, DRIVE_SIGNALS, &s), SPOT_DONE);
	assert_int_equal(s.n, 2);
	assert_true(s.signals[0].value > 0.5);
	assert_true(s.signals[1].value < 0.5);
}

static void a_spot_price_is_never_made_up(void **state)
{
	struct drive *d = *state;
	struct spot_prices a = { .region = "", .market = SPOT_MARKET_SPOT };

	assert_int_equal(drive_run(d, DRIVE_PRICES, &a), SPOT_DONE); /* without asking */
	assert_int_equal(a.n, 0);
	assert_int_equal(lambda_ops.caps & SPOT_CAP_SPOT, 0);
}

static void capacity_is_said_for_every_pool_with_or_without(void **state)
{
	struct drive *d = *state;
	struct spot_signals a = { .region = "us-east-1" };
	size_t some = 0;

	script_both(d);
	assert_int_equal(drive_run(d, DRIVE_SIGNALS, &a), SPOT_DONE);
	assert_int_equal(a.n, 10);
	for (size_t i = 0; i < a.n; i++) {
		assert_int_equal(a.signals[i].kind, SPOT_SIGNAL_CAPACITY);
		some += a.signals[i].value > 0.5;
	}
	assert_int_equal(some, 3); /* a10, gh200, a100_80gb */
}

static void a_wrong_form_is_a_bad_reply_that_names_the_type(void **state)
{
	static const char *const bodies[] = {
		TYPE_JSON("gpu_1x_bad", "\"gpu_description\":7,", ""),
		"{\"data\":{\"gpu_1x_bad\":{\"instance_type\":{\"name\":\"gpu_1x_bad\",\"price_"
		"cents_"
		"per_hour\":\"100\","
		"\"specs\":{\"vcpus\":1,\"memory_gib\":2,\"gpus\":1}},\"regions_with_capacity_"
		"available\":[]}}}",
		"{\"data\":{\"gpu_1x_bad\":{\"instance_type\":{\"name\":\"gpu_1x_bad\",\"price_"
		"cents_"
		"per_hour\":-1,"
		"\"specs\":{\"vcpus\":1,\"memory_gib\":2,\"gpus\":1}},\"regions_with_capacity_"
		"available\":[]}}}",
		"{\"data\":{\"gpu_1x_bad\":{\"instance_type\":{\"name\":\"gpu_1x_bad\",\"price_"
		"cents_"
		"per_hour\":1,"
		"\"specs\":{\"vcpus\":1,\"memory_gib\":2,\"gpus\":1}},\"regions_with_capacity_"
		"available\":\"all\"}}}",
		"{\"data\":{\"gpu_1x_bad\":{\"instance_type\":{\"name\":\"gpu_1x_bad\",\"price_"
		"cents_"
		"per_hour\":1,"
		"\"specs\":{\"vcpus\":1,\"memory_gib\":2,\"gpus\":1}},\"regions_with_capacity_"
		"available\":[\"r\"]}}}",
		"{\"data\":{\"gpu_1x_bad\":{}}}",
		"{\"data\":{\"gpu_1x_bad\":null}}",
	};
	struct drive *d = *state;
	const struct spot_pool_info pool = { .key = { "lambda", "r", "", "gpu_1x_bad",
						 SPOT_MARKET_ON_DEMAND } };

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct spot_prices a = { .region = "", .pools = &pool, .pools_n = 1 };

		assert_int_equal(reply_with(d, DRIVE_PRICES, &a, 200, bodies[i]), SPOT_FAIL);
		rc_is(d, SPOT_BAD_REPLY);
		assert_non_null(strstr(d->call.err.text, "gpu_1x_bad"));
	}
}

static void no_types_at_all_is_an_empty_market(void **state)
{
	struct drive *d = *state;
	struct spot_pools a = { .region = "" };
	const struct drive_try script[] = {
		{ .status = 200, .reply = "{\"data\":[]}" },
		{ .status = 200, .reply = "{\"data\":{}}" },
	};

	drive_script(d, script, 2);
	assert_int_equal(drive_run(d, DRIVE_POOLS, &a), SPOT_DONE);
	assert_int_equal(a.n, 0);
}

static void a_throttled_second_call_is_repeated_without_the_first(void **state)
{
	struct drive *d = *state;
	struct spot_pools a = { .region = "" };
	const struct drive_try script[] = {
		{ .url = LAMBDA_API "/regions", .status = 200, .reply = golden(d, "regions.json") },
		{ .url = LAMBDA_API "/instance-types",
		    .status = 429,
		    .reply_headers = { "Retry-After: 4" },
		    .reply = "<html>slow down</html>" },
		{ .url = LAMBDA_API "/instance-types",
		    .status = 200,
		    .reply = golden(d, "instance_types.json") },
	};

	drive_script(d, script, 3);
	assert_int_equal(drive_run(d, DRIVE_POOLS, &a), SPOT_DONE);
	assert_int_equal(a.n, 50);
	assert_int_equal(d->waited_us, 4 * US);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(regions_come_from_their_own_call),
		T(without_that_call_the_regions_seen_stand_in),
		T(every_gpu_type_in_every_region_is_a_pool),
		T(gpu_names_are_those_of_the_catalogue),
		T(unknown_gpus_keep_their_name_and_no_guessed_memory),
		T(prices_are_cents_made_micros_and_on_demand_only),
		T(known_pools_save_the_call_for_regions),
		T(a_spot_price_is_never_made_up),
		T(capacity_is_said_for_every_pool_with_or_without),
		T(a_wrong_form_is_a_bad_reply_that_names_the_type),
		T(no_types_at_all_is_an_empty_market),
		T(a_throttled_second_call_is_repeated_without_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
