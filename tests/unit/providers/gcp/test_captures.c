#include "base/base.h"
#include "gcp_test.h"

/*
 * Replies as they are found in the wild: in Google's pages, in captures of other programs and in
 * their issues. Numbers as strings and strings as numbers, defaults left out, warnings instead of
 * items, errors in other clothes.
 */

#define INSTANCE_404 "The resource 'projects/p/zones/" ZONE "/instances/42' was not found"
#define VM_42 ZONE "/42"

static enum spot_rc launch_ends(int status, const char *body)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	struct drive d;
	enum spot_rc rc;

	ready_init(&d, NULL);
	d.agains_max = 0;
	rc = RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, { .status = status, .reply = body }) == SPOT_DONE
	    ? SPOT_OK
	    : d.call.err.rc;
	drive_fini(&d);
	return rc;
}

static void an_operation_that_is_done_with_an_http_error_alone_is_no_success(void **state)
{
	(void)state;
	assert_int_equal(launch_ends(200, OPERATION("DONE", "")), SPOT_OK);
	assert_int_equal(launch_ends(200,
			     OPERATION("DONE",
				 ",\"httpErrorStatusCode\":503,\"httpErrorMessage\":\"SERVICE "
				 "UNAVAILABLE\"")),
	    SPOT_UNKNOWN);
	assert_int_equal(launch_ends(200, OPERATION("DONE", ",\"httpErrorStatusCode\":\"403\"")),
	    SPOT_UNKNOWN);
	assert_int_equal(launch_ends(200,
			     OPERATION("DONE",
				 ",\"warnings\":[{\"code\":\"DISK_SIZE_LARGER_THAN_IMAGE_SIZE\"}"
				 "]")),
	    SPOT_OK);
}

static void a_refusal_by_project_or_organization_is_not_retried(void **state)
{
	(void)state;
	assert_int_equal(launch_ends(412,
			     ERROR(412, "conditionNotMet",
				 "Constraint constraints/compute.vmExternalIpAccess violated for "
				 "project 1.")),
	    SPOT_CONFIG);
	assert_int_equal(launch_ends(200,
			     OPERATION("DONE",
				 OP_ERROR("CONDITION_NOT_MET",
				     "Constraint constraints/x violated"))),
	    SPOT_CONFIG);
	assert_int_equal(launch_ends(412,
			     ERROR(412, "conditionNotMet", "Labels fingerprint is invalid")),
	    SPOT_CONFLICT);
	assert_int_equal(launch_ends(200,
			     OPERATION("DONE", OP_ERROR("SERVICE_ACCOUNT_ACCESS_DENIED", "m"))),
	    SPOT_DENIED);
	assert_int_equal(launch_ends(200,
			     OPERATION("DONE", OP_ERROR("EXTERNAL_RESOURCE_NOT_FOUND", "m"))),
	    SPOT_CONFIG);
	assert_int_equal(launch_ends(200, OPERATION("DONE", OP_ERROR("IP_SPACE_EXHAUSTED", "m"))),
	    SPOT_QUOTA);
	assert_int_equal(launch_ends(404,
			     ERROR(404, "notFound",
				 "The resource 'projects/p/global/images/family/x' was not found")),
	    SPOT_CONFIG);
	assert_int_equal(launch_ends(404,
			     ERROR(404, "notFound",
				 "The resource 'projects/p/zones/z/machineTypes/x' was not found")),
	    SPOT_NOT_OFFERED);
	/* Streaming methods wrap it. */
	assert_int_equal(launch_ends(403, "[" ERROR(403, "forbidden", "no") "]"), SPOT_DENIED);
}

static void ids_may_be_numbers_and_kind_may_be_left_out(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	const char *const refs[] = { VM_42 };
	struct spot_describe e = { .region = "", .refs = refs, .refs_n = 1 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .status = 200,
				 .reply = "{\"name\":\"operation-1\",\"status\":\"DONE\","
					  "\"targetId\":42}" }),
	    SPOT_DONE);
	assert_string_equal(a.instance.ref, VM_42);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_DESCRIBE, &e,
			     { .status = 200,
				 .reply =
				     "{\"id\":42,\"name\":\"x\",\"labels\":null,\"scheduling\":"
				     "null,\"networkInterfaces\":null,"
				     "\"status\":\"REPAIRING\",\"zone\":\"" LINK "/zones/" ZONE
				     "\",\"creationTimestamp\":\"2026-01-02T02:00:00.5-07:00\"}" }),
	    SPOT_DONE);
	assert_string_equal(e.found[0].ref, VM_42);
	assert_int_equal(e.found[0].state, SPOT_INSTANCE_ODD);
	assert_int_equal(e.found[0].created_us, INT64_C(1767344400500000));
	drive_fini(&d);
}

static void a_project_that_is_not_found_does_not_make_its_machines_gone(void **state)
{
	const char *const refs[] = { VM_42 };
	struct spot_describe e = { .region = "", .refs = refs, .refs_n = 1 };
	struct spot_terminate t = { .region = "", .ref = VM_42 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_DESCRIBE, &e,
		{ .status = 404,
		    .reply = ERROR(404, "notFound",
			"The resource 'projects/spot-golden' was not found") }),
	    SPOT_CONFIG, "projects/spot-golden");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_TERMINATE, &t,
		{ .status = 404,
		    .reply = ERROR(404, "notFound",
			"The resource 'projects/p/zones/" ZONE "' was not found") }),
	    SPOT_CONFIG, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &t,
			     { .status = 404, .reply = ERROR(404, "notFound", INSTANCE_404) }),
	    SPOT_DONE);
	assert_int_equal(t.after.state, SPOT_INSTANCE_GONE);
	drive_fini(&d);
}

static void a_deletion_that_finds_nothing_is_one(void **state)
{
	struct spot_terminate t = { .region = "", .ref = VM_42 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &t,
			     { .status = 200,
				 .reply = OPERATION("DONE",
				     OP_ERROR("RESOURCE_NOT_FOUND", INSTANCE_404)) }),
	    SPOT_DONE);
	assert_int_equal(t.after.state, SPOT_INSTANCE_GONE);
	drive_fini(&d);
}

static void a_warning_that_something_is_left_out_makes_a_list_partial(void **state)
{
	static const char *const warned[] = {
		"{\"kind\":\"compute#instanceAggregatedList\",\"items\":{},\"warning\":{\"code\":"
		"\"UNREACHABLE\"}}",
		"{\"kind\":\"compute#instanceAggregatedList\",\"items\":{},\"warning\":{\"code\":"
		"\"PARTIAL_SUCCESS\"}}",
		"{\"kind\":\"compute#instanceAggregatedList\",\"items\":{\"zones/" ZONE
		"\":{\"warning\":{\"code\":\"LIST_OVERHEAD_QUOTA_EXCEED\"}}}}",
		"{\"kind\":\"compute#instanceAggregatedList\",\"items\":{\"zones/" ZONE
		"\":{\"warning\":{\"code\":\"NO_RESULTS_ON_PAGE\"}}},\"warning\":{\"code\":\"NO_"
		"RESULTS_ON_PAGE\"}}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(warned); i++) {
		struct spot_list l = { .region = "", .install = "7f3a" };
		struct drive d;

		ready_init(&d, NULL);
		assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &l,
				     { .status = 200, .reply = warned[i] }, NO_DISKS),
		    SPOT_DONE);
		assert_int_equal(l.partial, i < 3);
		drive_fini(&d);
	}
}

static void an_empty_object_is_no_empty_list(void **state)
{
	struct spot_list l = { .region = "", .install = "7f3a" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_LIST, &l, { .status = 200, .reply = "{}" }),
	    SPOT_BAD_REPLY, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LIST, &l, { .status = 200, .reply = "<html>sign in</html>" }),
	    SPOT_BAD_REPLY, NULL);
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_LIST, &l, { .status = 204, .reply = "" }),
	    SPOT_BAD_REPLY, NULL);
	drive_fini(&d);
}

static void numbers_of_all_spellings_are_numbers(void **state)
{
	bool bad = false;
	int64_t nanos;
	double v;
	json_t *o AUTO(json) = json_loads("{\"a\":\"12\",\"b\":12.0,\"c\":1.2e1,\"d\":12.5,\"s\":"
					  "\"0.25\",\"n\":\"NaN\",\"t\":true}",
	    0, NULL);
	json_t *m AUTO(json) =
	    json_loads("{\"currencyCode\":\"USD\",\"units\":1,\"nanos\":\"319200000\"}", 0, NULL);
	json_t *r AUTO(json) = json_loads("{\"units\":\"0\",\"nanos\":319200000.0}", 0, NULL);

	(void)state;
	assert_int_equal(gcp_int(o, "a", 0, &bad), 12);
	assert_int_equal(gcp_int(o, "b", 0, &bad), 12);
	assert_int_equal(gcp_int(o, "c", 0, &bad), 12);
	assert_false(bad);
	(void)gcp_int(o, "d", 0, &bad);
	assert_true(bad);
	assert_true(gcp_double(json_object_get(o, "s"), &v) && v > 0.24 && v < 0.26);
	assert_false(gcp_double(json_object_get(o, "n"), &v));
	assert_false(gcp_double(json_object_get(o, "t"), &v));
	assert_true(gcp_money(m, &nanos));
	assert_int_equal(nanos, 1319200000);
	assert_true(gcp_money(r, &nanos));
	assert_int_equal(nanos, 319200000);
}

/* One L4 machine in one zone, then the catalog in two pages. */
static void a_catalog_may_have_a_nameless_part_and_an_empty_last_page(void **state)
{
	struct spot_pool_info pool = { .key = { "gcp", "us-central1", ZONE, "g2-standard-4",
					   SPOT_MARKET_SPOT } };
	struct spot_prices a = { .region = "us-central1", .pools = &pool, .pools_n = 1 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_PRICES, &a,
			     { .status = 200,
				 .reply = "{\"kind\":\"compute#machineTypeAggregatedList\","
					  "\"items\":{}}" },
			     { .status = 200,
				 .reply = "{\"skus\":[{\"skuId\":\"A\"},{\"description\":null,"
					  "\"category\":null,\"serviceRegions\":null}],"
					  "\"nextPageToken\":\"p2\"}" },
			     { .status = 200, .reply = "{\"skus\":null,\"nextPageToken\":\"\"}" }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_PRICES, &a,
		{ .status = 200,
		    .reply = "{\"kind\":\"compute#machineTypeAggregatedList\",\"items\":{}}" },
		{ .status = 200, .reply = "{}" }),
	    SPOT_BAD_REPLY, "skus");
	drive_fini(&d);
}

static void a_taken_name_without_a_machine_is_nobodys_guess(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .status = 409, .reply = ERROR(409, "alreadyExists", "exists") },
		{ .method = "GET", .status = 404, .reply = ERROR(404, "notFound", INSTANCE_404) }),
	    SPOT_UNKNOWN, "now there is no machine");
	drive_fini(&d);
}

static void a_gang_that_is_there_already_is_taken(void **state)
{
	struct spot_launch_gang g = { .common = launch_of(SPOT_MARKET_SPOT), .want = 2 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .status = 409, .reply = ERROR(409, "alreadyExists", "exists") },
			     { .method = "GET",
				 .status = 200,
				 .reply = "{\"kind\":\"compute#instanceList\",\"items\":[" VM("1",
				     "RUNNING", "tok") "," VM("2", "STAGING", "tok") "]}" }),
	    SPOT_DONE);
	assert_int_equal(g.instances_n, 2);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 409, .reply = ERROR(409, "alreadyExists", "exists") },
		{ .method = "GET", .status = 200, .reply = "{\"kind\":\"compute#instanceList\"}" }),
	    SPOT_UNKNOWN, "0 of 2");
	drive_fini(&d);
}

static void a_gang_that_fails_for_a_new_reason_is_unknown(void **state)
{
	struct spot_launch_gang g = { .common = launch_of(SPOT_MARKET_SPOT), .want = 2 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200,
		    .reply = OPERATION("DONE",
			",\"operationGroupId\":\"g\"" OP_ERROR("BRAND_NEW", "m")) },
		{ .status = 200, .reply = "{\"kind\":\"compute#operationList\"}" }),
	    SPOT_UNKNOWN, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200,
		    .reply = OPERATION("DONE",
			",\"operationGroupId\":\"g\"" OP_ERROR("VM_MIN_COUNT_NOT_REACHED", "m")) },
		{ .status = 200, .reply = "{\"kind\":\"compute#operationList\"}" }),
	    SPOT_NO_CAPACITY, NULL);
	drive_fini(&d);
}

/* The driver fails the test when a secret of the provider is in the error's words. */
static void a_token_that_is_echoed_stays_secret(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	const char *held[32];
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_true(gcp_ops.secrets(d.self, held, ARRAY_LEN(held)) > 0);
	for (int i = 0; i < 2; i++) {
		const char *body = arena_printf(d.arena,
		    i == 0 ? "{\"error\":{\"code\":403,\"message\":\"Bearer %s is no "
			     "good\",\"errors\":[{\"reason\":\"forbidden\"}]}}"
			   : "{\"error\":{\"code\":403,\"message\":\"m\",\"errors\":[{\"reason\":"
			     "\"%s\"}]}}",
		    held[0]);

		failed_with(&d, RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, { .status = 403, .reply = body }),
		    SPOT_DENIED, NULL);
	}
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_operation_that_is_done_with_an_http_error_alone_is_no_success),
		cmocka_unit_test(a_refusal_by_project_or_organization_is_not_retried),
		cmocka_unit_test(ids_may_be_numbers_and_kind_may_be_left_out),
		cmocka_unit_test(a_project_that_is_not_found_does_not_make_its_machines_gone),
		cmocka_unit_test(a_deletion_that_finds_nothing_is_one),
		cmocka_unit_test(a_warning_that_something_is_left_out_makes_a_list_partial),
		cmocka_unit_test(an_empty_object_is_no_empty_list),
		cmocka_unit_test(numbers_of_all_spellings_are_numbers),
		cmocka_unit_test(a_catalog_may_have_a_nameless_part_and_an_empty_last_page),
		cmocka_unit_test(a_taken_name_without_a_machine_is_nobodys_guess),
		cmocka_unit_test(a_gang_that_is_there_already_is_taken),
		cmocka_unit_test(a_gang_that_fails_for_a_new_reason_is_unknown),
		cmocka_unit_test(a_token_that_is_echoed_stays_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
