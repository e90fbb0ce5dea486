#include "base/base.h"
#include "cases.h"

#include "base/text/text.h"

/* Pools, prices with their age, quotas, signals, and presigned requests. */

static const struct spot_pool_info *pool_find(const struct spot_pools *p, const char *type,
    enum spot_market m)
{
	for (size_t i = 0; i < p->n; i++) {
		if (strcmp(p->pools[i].key.instance_type, type) == 0 &&
		    p->pools[i].key.market == m) {
			return &p->pools[i];
		}
	}
	return NULL;
}

static void pools_are_what_the_zone_of_a_cluster_sells(void **state)
{
	struct spot_pools a = { .region = "US-EAST" };
	const struct spot_pool_info *x;
	struct drive d;

	(void)state;
	cw_open(&d, &coreweave_ops, NULL);
	assert_int_equal(drive_run(&d, DRIVE_POOLS, &a), SPOT_DONE);
	x = pool_find(&a, "gd-8xh100ib-i128", SPOT_MARKET_SPOT);
	assert_non_null(x);
	assert_string_equal(x->key.zone, "US-EAST-04A");
	assert_string_equal(x->zone_name, "main");
	assert_int_equal(x->shape.gpu_milli, 8000);
	assert_string_equal(x->shape.gpu_name, "H100-80GB-SXM");
	assert_null(pool_find(&a, "gd-1xgh200", SPOT_MARKET_SPOT)); /* no spot for superchips */
	assert_non_null(pool_find(&a, "gd-1xgh200", SPOT_MARKET_ON_DEMAND));
	assert_null(pool_find(&a, "b200-8x", SPOT_MARKET_SPOT)); /* not in this zone */
	assert_null(pool_find(&a, "gb200-4x", SPOT_MARKET_ON_DEMAND)); /* by the rack only */
	a.region = "EU-SOUTH";
	assert_int_equal(drive_run(&d, DRIVE_POOLS, &a), SPOT_DONE);
	assert_int_equal(a.n, 0);
	drive_fini(&d);
}

static struct spot_prices prices_of(struct drive *d, const struct spot_pool_info *p)
{
	struct spot_prices a = { .region = p->key.region, .pools = p, .pools_n = 1 };

	drive_script(d, NULL, 0);
	assert_int_equal(drive_run(d, DRIVE_PRICES, &a), SPOT_DONE);
	return a;
}

static void listed_prices_carry_the_day_they_were_read(void **state)
{
	struct spot_pool_info p = { .key = { "coreweave", "US-EAST", "US-EAST-04A",
					"gd-8xh100ib-i128", SPOT_MARKET_SPOT } };
	struct spot_prices a;
	int64_t day;
	struct drive d;

	(void)state;
	cw_open(&d, &coreweave_ops, NULL);
	a = prices_of(&d, &p);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.points[0].price_micros, 19710000);
	assert_true(parse_time_us("2026-08-22T00:00:00Z", &day));
	assert_int_equal(a.points[0].effective_us, day);
	/* history is kept by the day of the poll */
	assert_int_equal(a.points[0].observed_us, d.now_us);
	p.key.market = SPOT_MARKET_ON_DEMAND;
	assert_int_equal(prices_of(&d, &p).points[0].price_micros, 49240000);
	p.key.zone = "US-EAST-99Z";
	assert_int_equal(prices_of(&d, &p).n, 0);
	drive_fini(&d);
}

static void a_price_of_the_operator_wins(void **state)
{
	static const char *const settings[] = { "price.gd-8xh100ib-i128.spot", "12.345678",
		"price.gd-8xl40-i128.spot", "cheap", NULL };
	struct spot_pool_info p = { .key = { "coreweave", "US-EAST", "US-EAST-04A",
					"gd-8xh100ib-i128", SPOT_MARKET_SPOT } };
	struct spot_prices a;
	struct drive d;

	(void)state;
	drive_init(&d, &coreweave_ops, case_env, settings);
	a = prices_of(&d, &p);
	assert_int_equal(a.points[0].price_micros, 12345678);
	assert_int_equal(a.points[0].observed_us, d.now_us);
	p.key.instance_type = "gd-8xl40-i128";
	a = (struct spot_prices){ .region = "", .pools = &p, .pools_n = 1 };
	assert_int_equal(drive_run(&d, DRIVE_PRICES, &a), SPOT_FAIL);
	assert_non_null(strstr(d.call.err.text, "price.gd-8xl40-i128.spot"));
	drive_fini(&d);
}

#define NODE(name, labels, gpus, cpu, memory) \
	"{\"metadata\":{\"name\":\"" name "\",\"labels\":{" labels \
	"}},\"status\":{\"allocatable\":{\"nvidia.com/gpu\":\"" gpus "\",\"cpu\":\"" cpu \
	"\",\"memory\":\"" memory "\"}}}"
#define TYPE(t) "\"node.kubernetes.io/instance-type\":\"" t "\""

static void nodes_of_any_cluster_are_pools(void **state)
{
	static const struct drive_try nodes = { .status = 200,
		.reply = CW_LIST("NodeList",
		    NODE("a",
			TYPE("p5.48xlarge") ",\"nvidia.com/"
					    "gpu.product\":\"NVIDIA-H100-80GB-HBM3\",\"nvidia.com/"
					    "gpu.memory\":\"81559\"",
			"8", "191", "2048Gi") "," NODE("b",
			TYPE("p5.48xlarge") ",\"nvidia.com/gpu.product\":\"NVIDIA-H100-80GB-HBM3\"",
			"8", "190500m", "2047Gi") "," NODE("c",
			TYPE("p5.48xlarge") ",\"karpenter.sh/capacity-type\":\"spot\",\"nvidia.com/"
					    "gpu.product\":\"NVIDIA-H100-80GB-HBM3\"",
			"8", "191", "1Ki") "," NODE("d",
			"\"nvidia.com/gpu.product\":\"Tesla-V100-SXM2-16GB\"", "4", "32",
			"100000000k") "," NODE("e", TYPE("m5.large"), "0", "2", "8Gi") "," NODE("f",
			TYPE("odd"), "x", "y", "z")) };
	struct spot_pools a = { .region = "lab" };
	struct drive d;

	(void)state;
	cw_open(&d, &kubernetes_ops, NULL);
	drive_script(&d, &nodes, 1);
	assert_int_equal(drive_run(&d, DRIVE_POOLS, &a), SPOT_DONE);
	assert_int_equal(a.n, 3);
	assert_int_equal(a.pools[0].shape.vcpus, 190); /* the smallest of its kind */
	assert_int_equal(a.pools[0].shape.mem_mib, 2047 * 1024);
	assert_int_equal(a.pools[0].key.market, SPOT_MARKET_ON_DEMAND);
	assert_int_equal(a.pools[1].key.market, SPOT_MARKET_SPOT);
	assert_string_equal(a.pools[2].key.instance_type, "gpu-product/Tesla-V100-SXM2-16GB");
	assert_string_equal(a.pools[2].shape.gpu_name, "V100-16GB");
	assert_string_equal(a.pools[2].key.region, "lab");
	drive_fini(&d);
}

static void the_smallest_resource_quota_counts(void **state)
{
	static const struct drive_try quotas = { .status = 200,
		.reply = CW_LIST("ResourceQuotaList",
		    "{\"spec\":{\"hard\":{\"requests.nvidia.com/"
		    "gpu\":\"16\"}}},{\"spec\":{\"hard\":{\"requests.nvidia.com/gpu\":\"8\"}}},"
		    "{\"spec\":{\"hard\":{\"pods\":\"4\"}}}") };
	struct spot_quotas a = { .region = "lab" };
	struct drive d;

	(void)state;
	cw_open(&d, &kubernetes_ops, NULL);
	drive_script(&d, &quotas, 1);
	assert_int_equal(drive_run(&d, DRIVE_QUOTAS, &a), SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_int_equal(a.quotas[0].limit, 8);
	assert_int_equal(a.quotas[1].limit, 8);
	drive_fini(&d);
}

static void signals_tell_open_orders_that_are_refused(void **state)
{
#define NO_CAPACITY "{\"type\":\"Capacity\",\"status\":\"False\",\"reason\":\"r\"}"
	static const struct drive_try pools = { .status = 200,
		.reply = CW_LIST("NodePoolList",
		    CW_NODEPOOL(2, 0, NO_CAPACITY) "," CW_NODEPOOL(2, 2, "") "," CW_NODEPOOL(2, 1,
			"") "," CW_NODEPOOL(0, 0, NO_CAPACITY)) };
	struct spot_signals a = { .region = "US-EAST" };
	struct drive d;

	(void)state;
	cw_open(&d, &coreweave_ops, NULL);
	drive_script(&d, &pools, 1);
	assert_int_equal(drive_run(&d, DRIVE_SIGNALS, &a), SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_true(a.signals[0].value < 0.5 && a.signals[1].value > 0.5);
	drive_fini(&d);
}

/* ---- object storage -------------------------------------------------------------------------- */

static void url_sign(const char *endpoint, const char *const *settings, const char *want)
{
	struct spot_presign a = { .method = "PUT",
		.endpoint = endpoint,
		.region = "",
		.bucket = "ckpt-7",
		.key = "j1/e 1",
		.query = "",
		.expires_s = 60 };
	struct spot_err err = { 0 };
	struct drive d;

	drive_init(&d, &coreweave_ops, case_env, settings);
	assert_int_equal(coreweave_ops.presign(d.self, d.arena, d.now_us, &a, &err), SPOT_OK);
	if (!str_prefix(a.url, want)) {
		fail_msg("%s does not begin with %s", a.url, want);
	}
	assert_non_null(
	    strstr(a.url, "X-Amz-Credential=CWKEY%2F20150830%2Fdefault%2Fs3%2Faws4_request"));
	a.bucket = "Not_A_Bucket";
	assert_int_equal(coreweave_ops.presign(d.self, d.arena, d.now_us, &a, &err), SPOT_INVALID);
	drive_fini(&d);
}

static void buckets_stand_in_the_host_name_where_there_is_one(void **state)
{
	(void)state;
	url_sign("", NULL, "https://ckpt-7.cwobject.com/j1/e%201?");
	url_sign("http://cwlota.com/", NULL, "http://ckpt-7.cwlota.com/j1/e%201?");
	url_sign("http://127.0.0.1:9000", NULL, "http://127.0.0.1:9000/ckpt-7/j1/e%201?");
	url_sign("http://localhost:9000", NULL, "http://localhost:9000/ckpt-7/j1/e%201?");
	url_sign("",
	    (const char *const[]){ "object_path_style", "true", "object_endpoint",
		"https://minio.example", NULL },
	    "https://minio.example/ckpt-7/j1/e%201?");
	url_sign("",
	    (const char *const[]){ "object_path_style", "false", "object_endpoint",
		"http://localhost:9000", NULL },
	    "http://ckpt-7.localhost:9000/j1/e%201?");
}

static void a_check_says_in_which_namespace_a_right_is_needed(void **state)
{
	static const char *const want[] = { "main: list events in spotbroker",
		"main: list events in default", "main: list nodes" };
	struct spot_check *a;
	struct drive d;

	(void)state;
	cw_open(&d, &coreweave_ops, NULL);
	for (size_t i = 0; i < cw_cases_n; i++) {
		if (cw_cases[i].verb == DRIVE_CHECK) {
			drive_script(&d, cw_cases[i].tries, cw_cases[i].n);
		}
	}
	a = cw_args(d.arena, DRIVE_CHECK, true);
	assert_int_equal(drive_run(&d, DRIVE_CHECK, a), SPOT_DONE);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		size_t n = 0;

		for (size_t k = 0; k < a->n; k++) {
			n += strcmp(a->items[k].name, want[i]) == 0;
		}
		assert_int_equal(n, 1);
	}
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pools_are_what_the_zone_of_a_cluster_sells),
		cmocka_unit_test(listed_prices_carry_the_day_they_were_read),
		cmocka_unit_test(a_check_says_in_which_namespace_a_right_is_needed),
		cmocka_unit_test(a_price_of_the_operator_wins),
		cmocka_unit_test(nodes_of_any_cluster_are_pools),
		cmocka_unit_test(the_smallest_resource_quota_counts),
		cmocka_unit_test(signals_tell_open_orders_that_are_refused),
		cmocka_unit_test(buckets_stand_in_the_host_name_where_there_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
