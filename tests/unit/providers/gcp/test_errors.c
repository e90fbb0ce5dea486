#include "base/base.h"
#include "gcp_test.h"

/* Both spellings of every code, several errors at once, and the length of waits. */

static void every_code_has_one_row_and_words(void **state)
{
	(void)state;
	for (size_t i = 0; i < gcp_codes_n; i++) {
		assert_string_not_equal(gcp_codes[i].scope, "");
		assert_int_not_equal(gcp_codes[i].rc, SPOT_OK);
		for (size_t k = 0; k < i; k++) {
			if (gcp_code_is(gcp_codes[i].code, gcp_codes[k].code) &&
			    gcp_codes[i].rc != gcp_codes[k].rc) {
				fail_msg("%s means two things", gcp_codes[i].code);
			}
		}
	}
}

static void camel_case_and_upper_snake_are_one_code(void **state)
{
	static const struct {
		const char *code;
		enum spot_rc rc;
	} cases[] = {
		{ "quotaExceeded", SPOT_QUOTA },
		{ "QUOTA_EXCEEDED", SPOT_QUOTA },
		{ "resourcePoolExhausted", SPOT_NO_CAPACITY },
		{ "insufficientCapacity", SPOT_NO_CAPACITY },
		{ "STOCKOUT", SPOT_NO_CAPACITY },
		{ "stockout", SPOT_NO_CAPACITY },
		{ "ZONE_RESOURCE_POOL_EXHAUSTED", SPOT_NO_CAPACITY },
		{ "zoneResourcePoolExhaustedWithDetails", SPOT_NO_CAPACITY },
		{ "UNSUPPORTED_OPERATION", SPOT_NO_CAPACITY },
		{ "RATE_LIMIT_EXCEEDED", SPOT_THROTTLED },
		{ "internalError", SPOT_UNAVAILABLE },
		{ "permissionDenied", SPOT_DENIED },
		{ "INVALID_USAGE", SPOT_INVALID },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct gcp_code *k = gcp_code_find(cases[i].code, "");

		assert_non_null(k);
		assert_int_equal(k->rc, cases[i].rc);
	}
	assert_null(gcp_code_find("somethingNew", ""));
	assert_null(gcp_code_find("quota", ""));
}

static enum spot_rc launch_refused(const char *body, int status)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	struct drive d;
	enum spot_rc rc;

	ready_init(&d, NULL);
	d.agains_max = 0;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, { .status = status, .reply = body }),
	    SPOT_FAIL);
	rc = d.call.err.rc;
	drive_fini(&d);
	return rc;
}

static void the_words_decide_where_a_code_stands_for_several_things(void **state)
{
	(void)state;
	assert_int_equal(launch_refused(ERROR(400, "invalid",
					    "Invalid value for field 'resource.machineType': 'x'."),
			     400),
	    SPOT_NOT_OFFERED);
	assert_int_equal(launch_refused(ERROR(400, "invalid",
					    "Invalid value for field 'resource.name'."),
			     400),
	    SPOT_INVALID);
	assert_int_equal(launch_refused(ERROR(403, "forbidden",
					    "Location us-x1-a is not found or access is "
					    "unauthorized."),
			     403),
	    SPOT_NOT_OFFERED);
	assert_int_equal(launch_refused(ERROR(403, "forbidden",
					    "Required 'compute.instances.create' permission"),
			     403),
	    SPOT_DENIED);
	assert_int_equal(launch_refused(OPERATION("DONE",
					    OP_ERROR("RESOURCE_NOT_FOUND",
						"'projects/p/zones/z/instances/i' was not found")),
			     200),
	    SPOT_NO_CAPACITY);
	assert_int_equal(launch_refused(OPERATION("DONE",
					    OP_ERROR("RESOURCE_NOT_FOUND",
						"'projects/p/global/networks/n' was not found")),
			     200),
	    SPOT_CONFIG);
}

static void quota_beats_capacity_beats_the_rest(void **state)
{
	(void)state;
	assert_int_equal(launch_refused(OPERATION("DONE",
					    ",\"error\":{\"errors\":[{\"code\":\"NEW_CODE\"},{"
					    "\"code\":\"STOCKOUT\"},{\"code\":"
					    "\"QUOTA_EXCEEDED\",\"message\":\"m\"},{\"code\":"
					    "\"INTERNAL_ERROR\"}]}"),
			     200),
	    SPOT_QUOTA);
	assert_int_equal(launch_refused(OPERATION("DONE",
					    ",\"error\":{\"errors\":[{\"code\":\"VM_MIN_COUNT_NOT_"
					    "REACHED\"},{\"code\":\"STOCKOUT\"}]}"),
			     200),
	    SPOT_NO_CAPACITY);
	/* Unknown is unknown: something may be there. */
	assert_int_equal(launch_refused(OPERATION("DONE", OP_ERROR("BRAND_NEW", "m")), 200),
	    SPOT_UNKNOWN);
	assert_int_equal(launch_refused(OPERATION("DONE", ",\"error\":{}"), 200), SPOT_UNKNOWN);
	assert_int_equal(launch_refused(OPERATION("DONE", OP_ERROR("INTERNAL_ERROR", "m")), 200),
	    SPOT_UNKNOWN);
}

static void a_rate_limit_of_compute_waits_for_the_turn_of_the_minute(void **state)
{
	struct spot_list a = { .region = "", .install = "7f3a" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL); /* 03:04:05 */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &a,
			     { .status = 403, .reply = ERROR(403, "rateLimitExceeded", "m") },
			     { .status = 200,
				 .reply = "{\"kind\":\"compute#instanceAggregatedList\"}" },
			     NO_DISKS),
	    SPOT_DONE);
	assert_true(d.waited_us >= 55 * SPOT_US_PER_S && d.waited_us < 57 * SPOT_US_PER_S);
	/* The newer APIs call a rate RESOURCE_EXHAUSTED; ErrorInfo tells. */
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_LIST, &a,
		{ .status = 429,
		    .reply = "{\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\","
			     "\"details\":[{\"@type\":"
			     "\"type.googleapis.com/"
			     "google.rpc.ErrorInfo\",\"reason\":\"RATE_LIMIT_EXCEEDED\"}]}}" },
		{ .status = 429,
		    .reply = "{\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\"}}" },
		{ .status = 200, .reply = "{\"kind\":\"compute#instanceAggregatedList\"}" },
		NO_DISKS),
	    SPOT_DONE);
	assert_int_equal(d.agains, 2);
	drive_fini(&d);
}

static void a_wrong_token_is_renewed_and_a_wrong_api_is_said(void **state)
{
	struct spot_list a = { .region = "", .install = "7f3a" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LIST, &a,
		{ .status = 403,
		    .reply = "{\"error\":{\"code\":403,\"errors\":[{\"reason\":\"forbidden\"}],"
			     "\"status\":\"PERMISSION_DENIED\","
			     "\"details\":[{\"@type\":\"type.googleapis.com/"
			     "google.rpc.ErrorInfo\",\"reason\":\"SERVICE_DISABLED\"}]}}" }),
	    SPOT_CONFIG, "not enabled");
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &a, { .status = 401, .reply = "<html>" },
			     golden_auth[0],
			     { .status = 200,
				 .reply = "{\"kind\":\"compute#instanceAggregatedList\"}" },
			     NO_DISKS),
	    SPOT_DONE);
	assert_int_equal(d.reauths, 1);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_has_one_row_and_words),
		cmocka_unit_test(camel_case_and_upper_snake_are_one_code),
		cmocka_unit_test(the_words_decide_where_a_code_stands_for_several_things),
		cmocka_unit_test(quota_beats_capacity_beats_the_rest),
		cmocka_unit_test(a_rate_limit_of_compute_waits_for_the_turn_of_the_minute),
		cmocka_unit_test(a_wrong_token_is_renewed_and_a_wrong_api_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
