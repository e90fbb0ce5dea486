#include "base/base.h"
#include "gcp_test.h"

/* instances.insert: its request, that a repeat is harmless, and that the operation has the last
 * word. */

#define INSERT API "/zones/" ZONE "/instances?requestId=*"
#define WAIT API "/zones/" ZONE "/operations/operation-1/wait"

static void spot_is_deleted_and_on_demand_is_standard(void **state)
{
	struct spot_launch spot = launch_of(SPOT_MARKET_SPOT),
			   od = launch_of(SPOT_MARKET_ON_DEMAND);
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &spot,
			     { .method = "POST",
				 .url = INSERT,
				 .mutating = 1,
				 .limit = "mutate",
				 .has = { "\"provisioningModel\":\"SPOT\"",
				     "\"instanceTerminationAction\":\"DELETE\"",
				     "\"automaticRestart\":false",
				     "\"onHostMaintenance\":\"TERMINATE\"", "\"autoDelete\":true",
				     "\"preemptionNoticeDuration\":{\"seconds\":\"120\"}",
				     "\"spotbroker-install\":\"7f3a\"",
				     "\"spotbroker-token\":\"tok\"",
				     "\"key\":\"startup-script\",\"value\":\"#!/bin/sh\\n\"" },
				 .hasnt = { "guestAccelerators", "preemptible" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	assert_string_equal(spot.instance.ref, REF);
	assert_int_equal(spot.instance.state, SPOT_INSTANCE_PENDING);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &od,
			     { .has = { "\"provisioningModel\":\"STANDARD\"",
				   "\"maxRunDuration\":{\"seconds\":\"2592000\"}" },
				 .hasnt = { "\"SPOT\"", "preemptionNotice" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void a_type_not_sold_on_demand_is_not_asked_for(void **state)
{
	static const char *const none[] = { "a4-highgpu-8g", "a4x-highgpu-4g", "a3-ultragpu-8g",
		"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g" };
	struct spot_launch a = launch_of(SPOT_MARKET_ON_DEMAND);
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		a.key.instance_type = none[i];
		drive_script(&d, NULL, 0);
		failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_NOT_OFFERED, none[i]);
	}
	assert_true(gcp_sold_on_demand("a3-highgpu-8g"));
	assert_true(gcp_sold_on_demand("a3-megagpu-8g"));
	assert_true(gcp_sold_on_demand("g2-standard-4"));
	drive_fini(&d);
}

static void gpus_that_no_machine_type_bundles_are_asked_for_beside_it(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_ON_DEMAND);
	struct spot_launch_gang g = { .common = launch_of(SPOT_MARKET_SPOT), .want = 2 };
	static const char *const wrong[] = { "n1-standard-8+nvidia-tesla-t4",
		"n1-standard-8+nvidia-tesla-t4x0", "n1-standard-8+nvidia-tesla-t4x1x",
		"n1-standard-8+t4x1", "+nvidia-tesla-t4x1", "n1-standard-8+x1" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	a.key.instance_type = g.common.key.instance_type = "n1-standard-32+nvidia-tesla-p100x4";
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "\"machineType\":\"zones/" ZONE
					"/machineTypes/n1-standard-32\"",
				   "\"guestAccelerators\":[{\"acceleratorType\":\"zones/" ZONE
				   "/acceleratorTypes/nvidia-tesla-p100\",\"acceleratorCount\":4}]",
				   "\"onHostMaintenance\":\"TERMINATE\"",
				   "/diskTypes/pd-balanced\"" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	/* Many at once take bare names. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .has = { "\"machineType\":\"n1-standard-32\"",
				   "\"guestAccelerators\":[{\"acceleratorType\":\"nvidia-tesla-"
				   "p100\",\"acceleratorCount\":4}]" },
				 .status = 403,
				 .reply = ERROR(403, "quotaExceeded", "m") }),
	    SPOT_FAIL);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		a.key.instance_type = wrong[i];
		drive_script(&d, NULL, 0);
		failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_INVALID, NULL);
	}
	drive_fini(&d);
}

static void the_request_id_is_a_uuid_of_the_token_repeated_byte_for_byte(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	struct arena *arena = arena_new(0);
	const char *id = gcp_uuid(arena, "tok"), *first, *second;
	struct drive d;

	(void)state;
	assert_int_equal(strlen(id), 36);
	assert_string_equal(id, gcp_uuid(arena, "tok"));
	assert_string_not_equal(id, gcp_uuid(arena, "tok2"));
	ready_init(&d, NULL);
	d.dump = tmpfile();
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .url = arena_printf(arena,
				   API "/zones/" ZONE "/instances?requestId=%s", id),
				 .status = 503,
				 .reply = ERROR(503, "backendError", "m"),
				 .later_us = 90 * SPOT_US_PER_S },
			     { .url = arena_printf(arena,
				   API "/zones/" ZONE "/instances?requestId=%s", id),
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	rewind(d.dump);
	struct str all = { arena_alloc(arena, 65536), 0 };
	all.n = fread((char *)(uintptr_t)all.p, 1, 65535, d.dump);
	fclose(d.dump);
	d.dump = NULL;
	first = strstr(all.p, "\n{");
	second = first != NULL ? strstr(first + 2, "\n{") : NULL;
	assert_non_null(second);
	assert_memory_equal(first, second, strcspn(first + 1, "\n"));
	drive_fini(&d);
	arena_free(arena);
}

static void the_operation_is_waited_for_to_its_end(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .url = INSERT, .status = 200, .reply = OPERATION("PENDING", "") },
			     { .method = "POST",
				 .url = WAIT,
				 .mutating = 1,
				 .headers = { "!content-type" },
				 .later_us = 120 * SPOT_US_PER_S,
				 .status = 200,
				 .reply = OPERATION("RUNNING", "") },
			     { .url = WAIT, .status = 200, .reply = OPERATION("RUNNING", "") },
			     { .url = WAIT, .status = 200, .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	/* Only the wait that came back at once was paused for. */
	assert_int_equal(d.agains, 1);
	assert_int_equal(d.waited_us, 2 * SPOT_US_PER_S);
	drive_fini(&d);
}

/* It names a machine (targetId) that never was. */
static void an_operation_that_failed_made_nothing(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .url = INSERT, .status = 200, .reply = OPERATION("RUNNING", "") },
		{ .url = WAIT,
		    .status = 200,
		    .reply = OPERATION("DONE", OP_ERROR("ZONE_RESOURCE_POOL_EXHAUSTED", "m")) }),
	    SPOT_NO_CAPACITY, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .url = INSERT,
		    .status = 200,
		    .reply = OPERATION("DONE", OP_ERROR("QUOTA_EXCEEDED", "m")) }),
	    SPOT_QUOTA, NULL);
	drive_fini(&d);
}

static void trouble_while_waiting_is_unknown_for_the_machine_may_be_there(void **state)
{
	static const struct drive_try bad[] = { { .status = 404,
						    .reply = ERROR(404, "notFound", "m") },
		{ .status = 0 }, { .status = 200, .reply = "{}" },
		{ .status = 403, .reply = ERROR(403, "forbidden", "m") },
		{ .status = 403, .reply = ERROR(403, "quotaExceeded", "m") } };
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		failed_with(&d,
		    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			{ .url = INSERT, .status = 200, .reply = OPERATION("RUNNING", "") },
			bad[i]),
		    SPOT_UNKNOWN, NULL);
	}
	drive_fini(&d);
}

static void a_notice_that_is_not_taken_is_left_out(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "preemptionNoticeDuration" },
				 .status = 400,
				 .reply = ERROR(400, "badRequest",
				     "Unknown name preemptionNoticeDuration at "
				     "instance.scheduling") },
			     { .hasnt = { "preemptionNoticeDuration" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	drive_fini(&d);
	ready_init(&d, SETTINGS("preemption_notice", "off"));
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .hasnt = { "preemptionNoticeDuration" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void a_taken_name_is_adopted_if_it_is_this_launch_and_refused_if_not(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	const struct drive_try taken = { .url = INSERT,
		.status = 409,
		.reply = ERROR(409, "alreadyExists", "m") };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, taken,
			     { .method = "GET",
				 .url = API "/zones/" ZONE "/instances/brk-7f3a-n1-1767323045-*",
				 .mutating = -1,
				 .status = 200,
				 .reply = VM("99", "RUNNING", "tok") }),
	    SPOT_DONE);
	assert_string_equal(a.instance.ref, ZONE "/99");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, taken,
		{ .status = 200, .reply = VM("99", "RUNNING", "other") }),
	    SPOT_MISMATCH, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .url = INSERT,
				 .status = 200,
				 .reply =
				     OPERATION("DONE", OP_ERROR("RESOURCE_ALREADY_EXISTS", "m")) },
			     { .method = "GET",
				 .status = 200,
				 .reply = VM("98", "STAGING", "tok") }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void names_and_labels_are_what_google_takes_and_can_be_read_back(void **state)
{
	static const char *const texts[] = { "7f3a", "spt-7f3a-n0011223344556677", "Prod.EU", "a_b",
		"\xc3\xa9t\xc3\xa9", "" };
	struct arena *a = arena_new(0);
	const char *longest = "spt-Installation.Name.That.Is.Very.Long-n0011223344556677aaaa";
	const char *name =
	    gcp_vm_name(a, "brk.Prod.EU.n0011223344556677.1767323045.and.more.than.there.is.room");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *label = gcp_label(a, texts[i]);

		assert_true(
		    strspn(label, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(label));
		assert_string_equal(gcp_unlabel(a, label), texts[i]);
	}
	assert_true(strlen(gcp_label(a, longest)) <= 63);
	assert_string_equal(gcp_label(a, longest), gcp_label(a, longest));
	assert_string_equal(gcp_label_key(a, "Team"), "team");
	assert_string_equal(gcp_label_key(a, "1:x"), "k1_x");
	assert_string_equal(gcp_label_plain(a, "Vision & Co"), "vision___co");
	assert_int_equal(strlen(gcp_label_key(a,
			     "a-key-that-is-longer-than-the-sixty-three-characters-that-google-"
			     "takes")),
	    63);
	assert_true(gcp_name_ok(name));
	assert_true(gcp_name_ok(gcp_vm_name(a, "7")));
	assert_string_not_equal(gcp_vm_name(a, "a.b"), gcp_vm_name(a, "a-b"));
	assert_string_equal(gcp_zone_region(a, "us-central1-ai1a"), "us-central1");
	assert_string_equal(gcp_zone_region(a, "europe-west4-b"), "europe-west4");
	arena_free(a);
}

static void a_launch_that_cannot_be_right_sends_nothing(void **state)
{
	struct spot_launch a;
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	drive_script(&d, NULL, 0);
	a = launch_of(SPOT_MARKET_RESERVED);
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_INVALID, "market");
	a = launch_of(SPOT_MARKET_SPOT), a.key.zone = "../x";
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_INVALID, "zone");
	a = launch_of(SPOT_MARKET_SPOT), a.token = "";
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_INVALID, "token");
	a = launch_of(SPOT_MARKET_SPOT), a.user_data.n = 262145;
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_INVALID, "user data");
	drive_fini(&d);
}

static void a_gang_is_all_or_none_with_names_of_its_own(void **state)
{
	struct spot_launch_gang g = { .common = launch_of(SPOT_MARKET_SPOT), .want = 2 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .url = API "/zones/" ZONE "/instances/bulkInsert?requestId=*",
				 .mutating = 1,
				 .has = { "\"count\":\"2\",\"minCount\":\"2\"",
				     "\"machineType\":\"g2-standard-4\"",
				     "\"diskType\":\"pd-balanced\"", "\"brk-7f3a-n1-1767323045-0-",
				     "\"brk-7f3a-n1-1767323045-1-" },
				 .hasnt = { "namePattern", "zones/us-central1-a/machineTypes" },
				 .status = 200,
				 .reply = OPERATION("DONE", ",\"operationGroupId\":\"g\"") },
			     { .url = API "/zones/" ZONE "/instances?filter=*",
				 .status = 200,
				 .reply = "{\"kind\":\"compute#instanceList\",\"items\":[" VM("1",
				     "RUNNING", "tok") "," VM("2", "STAGING", "tok") "]}" }),
	    SPOT_DONE);
	assert_int_equal(g.instances_n, 2);
	assert_string_equal(g.instances[1].ref, ZONE "/2");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200, .reply = OPERATION("DONE", ",\"operationGroupId\":\"g\"") },
		{ .status = 200,
		    .reply = "{\"kind\":\"compute#instanceList\",\"items\":[" VM("1", "RUNNING",
			"tok") "]}" }),
	    SPOT_UNKNOWN, "1 of 2");
	/* Done, and none is there: a repeat makes none either. */
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200, .reply = OPERATION("DONE", ",\"operationGroupId\":\"g\"") },
		{ .status = 200, .reply = "{\"kind\":\"compute#instanceList\"}" }),
	    SPOT_GONE, "none of 2");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 403, .reply = ERROR(403, "quotaExceeded", "m") }),
	    SPOT_QUOTA, NULL);
	drive_fini(&d);
}

#define LIST_OF(items) "{\"kind\":\"compute#instanceList\",\"items\":[" items "]}"
#define MADE(counts) \
	",\"operationGroupId\":\"g\",\"instancesBulkInsertOperationMetadata\":" \
	"{\"perLocationStatus\":{\"zones/" ZONE "\":{\"targetVmCount\":3," counts "}}}"
#define TWO LIST_OF(VM("1", "RUNNING", "tok") "," VM("2", "STAGING", "tok"))
#define NO_OPERATIONS "{\"kind\":\"compute#operationList\"}"

#define POLICIES API "/regions/us-central1/resourcePolicies"
#define POLICY_READ(about, status) \
	"{\"kind\":\"compute#resourcePolicy\",\"name\":\"brk-7f3a-g7\",\"status\":\"" status \
	"\",\"description\":\"" about \
	"\",\"groupPlacementPolicy\":{\"collocation\":\"COLLOCATED\"}}"
#define OURS "spotbroker installation 7f3a"
#define TWO_LISTED \
	"{\"kind\":\"compute#instanceList\",\"items\":[" VM("1", "RUNNING", "tok") "," VM("2", \
	    "STAGING", "tok") "]}"
#define TWO_MADE \
	{ .has = { "\"resourcePolicies\":[\"brk-7f3a-g7\"]" }, \
		.mutating = 1, \
		.status = 200, \
		.reply = OPERATION("DONE", ",\"operationGroupId\":\"g\"") }, \
	{ \
		.status = 200, .reply = TWO_LISTED \
	}

static struct spot_launch_gang together_of(void)
{
	struct spot_launch_gang g = { .common = launch_of(SPOT_MARKET_SPOT), .want = 2 };

	g.common.together = "brk-7f3a-g7";
	return g;
}

static void a_gang_that_is_placed_together_makes_its_policy_first(void **state)
{
	struct spot_launch_gang g = together_of();
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .method = "POST",
				 .url = POLICIES,
				 .mutating = -1,
				 .body = "{\"name\":\"brk-7f3a-g7\",\"description\":\"" OURS
					 "\",\"groupPlacementPolicy\":{\"collocation\":"
					 "\"COLLOCATED\"}}",
				 .status = 200,
				 .reply = OPERATION("RUNNING", "") },
			     { .method = "POST",
				 .url = API "/regions/us-central1/operations/operation-1/wait",
				 .mutating = -1,
				 .status = 200,
				 .reply = OPERATION("DONE", "") },
			     TWO_MADE),
	    SPOT_DONE);
	assert_int_equal(g.instances_n, 2);
	drive_fini(&d);
}

/* A repeat, or the launch of a lost rank: the policy is read before it is used. */
static void a_policy_that_is_there_is_read_first(void **state)
{
	struct spot_launch_gang g = together_of();
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .status = 409, .reply = ERROR(409, "alreadyExists", "m") },
			     { .method = "GET",
				 .url = POLICIES "/brk-7f3a-g7",
				 .status = 200,
				 .reply = POLICY_READ(OURS, "CREATING") },
			     { .url = POLICIES "/brk-7f3a-g7",
				 .status = 200,
				 .reply = POLICY_READ(OURS, "READY") },
			     TWO_MADE),
	    SPOT_DONE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 409, .reply = ERROR(409, "alreadyExists", "m") },
		{ .status = 200, .reply = POLICY_READ("somebody's", "READY") }),
	    SPOT_CONFIG, "not ours");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 409, .reply = ERROR(409, "alreadyExists", "m") },
		{ .status = 200, .reply = POLICY_READ(OURS, "DELETING") }),
	    SPOT_UNAVAILABLE, "is DELETING");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 403, .reply = ERROR(403, "forbidden", "no permission") }),
	    SPOT_DENIED, "no permission");
	drive_fini(&d);
}

static void machines_without_compact_placement_go_anywhere(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_SPOT);
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	a.together = "brk-7f3a-g7";
	a.key.instance_type = "n1-standard-16+nvidia-tesla-v100x2";
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .url = INSERT,
				 .hasnt = { "resourcePolicies" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	a.key.instance_type = "g2-standard-4";
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .url = POLICIES, .status = 200, .reply = OPERATION("DONE", "") },
			     { .url = INSERT,
				 .has = { "\"resourcePolicies\":[\"projects/spot-golden/regions/"
					  "us-central1/resourcePolicies/brk-7f3a-g7\"]" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void a_set_has_the_machines_that_its_operation_counts(void **state)
{
	struct spot_launch_gang g = { .common = launch_of(SPOT_MARKET_SPOT),
		.want = 3,
		.least = 1 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .url = API "/zones/" ZONE "/instances/bulkInsert?requestId=*",
				 .limit = "bulk",
				 .mutating = 1,
				 .has = { "\"count\":\"3\",\"minCount\":\"1\"" },
				 .status = 200,
				 .reply = OPERATION("DONE",
				     MADE("\"createdVmCount\":2,\"failedToCreateVmCount\":1")) },
			     { .status = 200, .reply = TWO }),
	    SPOT_DONE);
	assert_int_equal(g.instances_n, 2);
	/* An error beside them takes none away; what was deleted again does not count. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
			     { .status = 200,
				 .reply = OPERATION("DONE",
				     MADE("\"createdVmCount\":\"3\",\"deletedVmCount\":1")
					 OP_ERROR("QUOTA_EXCEEDED", "m")) },
			     { .status = 200, .reply = TWO }),
	    SPOT_DONE);
	/* The list has fewer than were made, or nobody says how many were. */
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200, .reply = OPERATION("DONE", MADE("\"createdVmCount\":3")) },
		{ .status = 200, .reply = TWO }),
	    SPOT_UNKNOWN, "2 of 3");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 409, .reply = ERROR(409, "alreadyExists", "exists") },
		{ .method = "GET", .status = 200, .reply = TWO }),
	    SPOT_UNKNOWN, "2 of 3");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200, .reply = OPERATION("DONE", OP_ERROR("QUOTA_EXCEEDED", "m")) }),
	    SPOT_UNKNOWN, "what it made");
	drive_fini(&d);
}

static void a_set_without_a_machine_is_refused_for_its_cause(void **state)
{
	struct spot_launch_gang g = { .common = launch_of(SPOT_MARKET_SPOT),
		.want = 3,
		.least = 1 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200,
		    .reply = OPERATION("DONE",
			MADE("\"createdVmCount\":0") OP_ERROR("VM_MIN_COUNT_NOT_REACHED", "m")) },
		{ .status = 200,
		    .reply = "{\"kind\":\"compute#operationList\",\"items\":[" OPERATION("DONE",
			OP_ERROR("ZONE_RESOURCE_POOL_EXHAUSTED", "m")) "]}" }),
	    SPOT_NO_CAPACITY, "ZONE_RESOURCE_POOL_EXHAUSTED");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH_GANG, &g,
		{ .status = 200, .reply = OPERATION("DONE", MADE("\"createdVmCount\":0")) },
		{ .status = 200, .reply = NO_OPERATIONS }),
	    SPOT_UNKNOWN, "new to us");
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spot_is_deleted_and_on_demand_is_standard),
		cmocka_unit_test(a_type_not_sold_on_demand_is_not_asked_for),
		cmocka_unit_test(gpus_that_no_machine_type_bundles_are_asked_for_beside_it),
		cmocka_unit_test(the_request_id_is_a_uuid_of_the_token_repeated_byte_for_byte),
		cmocka_unit_test(the_operation_is_waited_for_to_its_end),
		cmocka_unit_test(an_operation_that_failed_made_nothing),
		cmocka_unit_test(trouble_while_waiting_is_unknown_for_the_machine_may_be_there),
		cmocka_unit_test(a_notice_that_is_not_taken_is_left_out),
		cmocka_unit_test(a_taken_name_is_adopted_if_it_is_this_launch_and_refused_if_not),
		cmocka_unit_test(names_and_labels_are_what_google_takes_and_can_be_read_back),
		cmocka_unit_test(a_launch_that_cannot_be_right_sends_nothing),
		cmocka_unit_test(a_gang_is_all_or_none_with_names_of_its_own),
		cmocka_unit_test(a_gang_that_is_placed_together_makes_its_policy_first),
		cmocka_unit_test(a_policy_that_is_there_is_read_first),
		cmocka_unit_test(machines_without_compact_placement_go_anywhere),
		cmocka_unit_test(a_set_has_the_machines_that_its_operation_counts),
		cmocka_unit_test(a_set_without_a_machine_is_refused_for_its_cause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
