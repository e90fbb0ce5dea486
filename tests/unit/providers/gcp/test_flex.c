/* Flex-start: the order, its wait, the end of the machine, and that it is off by default. */
#include "gcp_test.h"

#define FLEX SETTINGS("flex_start", "on", "flex_start_wait", "30m", "advice_version", "off")
#define TYPES(names) \
	"{\"kind\":\"compute#machineTypeAggregatedList\",\"items\":{\"zones/" ZONE \
	"\":{\"machineTypes\":[" names "]}}}"
#define TYPE(name) \
	"{\"name\":\"" name \
	"\",\"guestCpus\":4,\"memoryMb\":16384,\"accelerators\":[{\"guestAcceleratorType\":" \
	"\"nvidia-l4\",\"guestAcceleratorCount\":1}]}"
#define QUEUED_VM(status, more) \
	"{\"kind\":\"compute#instance\",\"id\":\"" ID "\",\"status\":\"" status \
	"\",\"zone\":\"" LINK "/zones/" ZONE "\",\"machineType\":\"" LINK "/zones/" ZONE \
	"/machineTypes/g2-standard-4\",\"labels\":{\"spotbroker-install\":\"7f3a\"}," \
	"\"scheduling\":{\"provisioningModel\":\"FLEX_START\",\"maxRunDuration\":{\"seconds\":" \
	"\"604800\"}}" more "}"

static void an_order_waits_and_its_machine_runs_for_a_week(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_FLEX_START);
	struct drive d;

	(void)state;
	ready_init(&d, FLEX);
	/* The operation runs as long as the order waits: nobody waits for its end here. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .method = "POST",
				 .has = { "\"provisioningModel\":\"FLEX_START\"",
				     "\"params\":{\"requestValidForDuration\":{\"seconds\":"
				     "\"1800\"}}",
				     "\"maxRunDuration\":{\"seconds\":\"604800\"}",
				     "\"instanceTerminationAction\":\"DELETE\"",
				     "\"onHostMaintenance\":\"TERMINATE\"",
				     "{\"consumeReservationType\":\"NO_RESERVATION\"}" },
				 .hasnt = { "preemptionNoticeDuration", "resourcePolicies" },
				 .mutating = 1,
				 .status = 200,
				 .reply = OPERATION("RUNNING", "") }),
	    SPOT_DONE);
	assert_int_equal(a.instance.state, SPOT_INSTANCE_QUEUED);
	assert_int_equal(a.instance.key.market, SPOT_MARKET_FLEX_START);
	assert_string_equal(a.instance.ref, REF);
	drive_fini(&d);

	ready_init(&d,
	    SETTINGS("flex_start", "on", "max_run_hours", "24", "advice_version", "off"));
	a = launch_of(SPOT_MARKET_FLEX_START);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "\"maxRunDuration\":{\"seconds\":\"86400\"}",
				   "{\"seconds\":\"900\"}" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	assert_int_equal(a.instance.state, SPOT_INSTANCE_QUEUED);
	a = launch_of(SPOT_MARKET_FLEX_START);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .status = 200,
		    .reply = OPERATION("DONE", OP_ERROR("ZONE_RESOURCE_POOL_EXHAUSTED", "none")) }),
	    SPOT_NO_CAPACITY, "none");
	drive_fini(&d);
}

static void nothing_of_it_is_sent_unless_it_is_on(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_FLEX_START);
	struct spot_pools p = { .region = "" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_INVALID, "flex_start");
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_POOLS, &p,
			     { .status = 200, .reply = TYPES(TYPE("g2-standard-4")) }),
	    SPOT_DONE);
	assert_int_equal(p.n, 2);
	drive_fini(&d);

	ready_init(&d, FLEX);
	p = (struct spot_pools){ .region = "" };
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_POOLS, &p,
			     { .status = 200,
				 .reply =
				     TYPES(TYPE("g2-standard-4") "," TYPE("a4x-highgpu-4g")) }),
	    SPOT_DONE);
	assert_int_equal(p.n, 4);
	assert_int_equal(p.pools[2].key.market, SPOT_MARKET_FLEX_START);
	assert_string_equal(p.pools[2].quota_class, "L4/Spot");
	assert_string_equal(p.pools[3].key.instance_type, "a4x-highgpu-4g");
	a.key.instance_type = "a4x-highgpu-4g";
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_NOT_OFFERED, "flex-start");
	a.key.instance_type = "n1-standard-8+nvidia-tesla-t4x1";
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_NOT_OFFERED, "flex-start");
	drive_fini(&d);
}

static struct spot_instance described(struct drive *d, const char *reply)
{
	static const char *const refs[] = { REF };
	struct spot_describe a = { .region = "us-central1", .refs = refs, .refs_n = 1 };

	assert_int_equal(RUN_SCRIPT(d, DRIVE_DESCRIBE, &a, { .status = 200, .reply = reply }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.found[0].key.market, SPOT_MARKET_FLEX_START);
	return a.found[0];
}

static void one_in_the_queue_is_no_machine_yet(void **state)
{
	struct spot_instance i;
	struct drive d;

	(void)state;
	ready_init(&d, FLEX);
	assert_int_equal(described(&d, QUEUED_VM("PENDING", "")).state, SPOT_INSTANCE_QUEUED);
	assert_int_equal(described(&d, QUEUED_VM("PROVISIONING", "")).state, SPOT_INSTANCE_PENDING);
	assert_int_equal(described(&d, QUEUED_VM("RUNNING", "")).state, SPOT_INSTANCE_RUNNING);
	/* Half an hour and ten minutes are over: a refusal, whatever Google still says. */
	assert_int_equal(described(&d,
			     QUEUED_VM("PENDING",
				 ",\"creationTimestamp\":\"2026-01-02T02:30:00Z\""))
			     .state,
	    SPOT_INSTANCE_QUEUED);
	i = described(&d, QUEUED_VM("PENDING", ",\"creationTimestamp\":\"2026-01-02T02:20:00Z\""));
	assert_int_equal(i.state, SPOT_INSTANCE_FAILED);
	assert_true(str_prefix(i.raw_reason, "NO_CAPACITY"));
	drive_fini(&d);
}

static int64_t end_of(const char *more)
{
	static const struct spot_instance one[] = {
		{ .ref = REF, .install = "7f3a", .key = { .market = SPOT_MARKET_FLEX_START } },
	};
	struct spot_notices a = { .region = "us-central1", .instances = one, .instances_n = 1 };
	int64_t ends;
	struct drive d;

	ready_init(&d, FLEX);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_NOTICES, &a,
			     { .status = 200,
				 .reply = "{\"kind\":\"compute#operationAggregatedList\"}" },
			     { .status = 200,
				 .reply = arena_printf(d.arena,
				     "{\"kind\":\"compute#instanceAggregatedList\",\"items\":{"
				     "\"zones/" ZONE "\":{\"instances\":[%s]}}}",
				     more) }),
	    SPOT_DONE);
	assert_true(a.n <= 1);
	assert_true(a.n == 0 || a.notices[0].kind == SPOT_NOTICE_EXPIRY);
	ends = a.n == 1 ? a.notices[0].deadline_us : 0;
	drive_fini(&d);
	return ends;
}

static void its_end_is_known_when_it_begins(void **state)
{
	(void)state;
	assert_int_equal(end_of(QUEUED_VM("PENDING", "")), 0);
	assert_int_equal(end_of(QUEUED_VM("RUNNING",
			     ",\"lastStartTimestamp\":\"2026-01-02T00:00:00Z\"")),
	    gcp_time("2026-01-09T00:00:00Z"));
	assert_int_equal(end_of(QUEUED_VM("RUNNING",
			     ",\"lastStartTimestamp\":\"2026-01-02T00:00:00Z\","
			     "\"resourceStatus\":{\"scheduling\":{\"terminationTimestamp\":"
			     "\"2026-01-08T00:00:00Z\"}}")),
	    gcp_time("2026-01-08T00:00:00Z"));
}

static void a_pool_ends_a_run_after_now(void **state)
{
	static const struct spot_pool_info pools[] = {
		{ .key = { "gcp", "us-central1", ZONE, "g2-standard-4", SPOT_MARKET_FLEX_START } },
	};
	struct spot_signals a = { .region = "", .pools = pools, .pools_n = 1 };
	struct drive d;

	(void)state;
	ready_init(&d, FLEX);
	assert_int_equal(drive_run(&d, DRIVE_SIGNALS, &a), SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.signals[0].kind, SPOT_SIGNAL_ENDS);
	assert_true(
	    a.signals[0].value == (double)(GOLDEN_NOW_US / SPOT_US_PER_S + INT64_C(168) * 3600));
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_order_waits_and_its_machine_runs_for_a_week),
		cmocka_unit_test(nothing_of_it_is_sent_unless_it_is_on),
		cmocka_unit_test(one_in_the_queue_is_no_machine_yet),
		cmocka_unit_test(its_end_is_known_when_it_begins),
		cmocka_unit_test(a_pool_ends_a_run_after_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
