#include "base/base.h"
#include "gcp_test.h"

/* list, find, describe, terminate, notices: existing machines, gone ones, and answers that prove
 * nothing. */

#define LIST(scopes) "{\"kind\":\"compute#instanceAggregatedList\",\"items\":{" scopes "}}"
#define IN_A(vms) "\"zones/" ZONE "\":{\"instances\":[" vms "]}"

static void a_zone_that_cannot_be_reached_makes_no_claim_of_absence(void **state)
{
	struct spot_list a = { .region = "", .install = "7f3a" };
	struct spot_list far = { .region = "europe-west4", .install = "7f3a" };
	struct spot_find find = { .region = "us-central1",
		.token = "tok",
		.name = "n",
		.install = "7f3a" };
	const struct drive_try warned = { .status = 200,
		.reply = LIST(IN_A(VM("1", "RUNNING",
		    "tok")) ",\"zones/us-central1-b\":{\"warning\":{\"code\":\"UNREACHABLE\"}}") };
	const struct drive_try listed = { .status = 200,
		.reply = "{\"kind\":\"compute#instanceAggregatedList\",\"items\":{},"
			 "\"unreachables\":[\"zones/us-central1-b\"]}" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	d.agains_max = 1;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &a, warned, NO_DISKS), SPOT_DONE);
	assert_true(a.partial);
	assert_int_equal(a.n, 1); /* found instances are true */
	a.partial = false;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &a, listed, NO_DISKS), SPOT_DONE);
	assert_true(a.partial);
	/* A look-up that would take absence for an answer has none. */
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_FIND, &find, listed, listed), SPOT_UNAVAILABLE,
	    "not complete");
	/* Of another region it does not matter. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &far, listed, NO_DISKS), SPOT_DONE);
	assert_false(far.partial);
	assert_int_equal(far.n, 0);
	drive_fini(&d);
}

static void disks_without_a_machine_are_left_over(void **state)
{
	struct spot_list a = { .region = "us-central1", .install = "7f3a" };
	struct spot_terminate t;
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_LIST, &a, { .status = 200, .reply = LIST("") },
		{ .url = API
		    "/aggregated/disks?filter=labels.spotbroker-install%3D7f3a&maxResults=500",
		    .status = 200,
		    .reply = "{\"kind\":\"compute#diskAggregatedList\",\"items\":{\"zones/" ZONE
			     "\":{\"disks\":[{\"id\":\"5\",\"zone\":\"" LINK "/zones/" ZONE
			     "\",\"labels\":{\"spotbroker-install\":\"7f3a\"},\"status\":\"READY\"}"
			     ",{\"id\":\"6\",\"zone\":"
			     "\"" ZONE "\",\"users\":[\"x\"],\"status\":\"READY\"}]}}}" },
		NO_POLICIES),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_true(a.found[0].leftover);
	assert_string_equal(a.found[0].ref, ZONE "/disks/5");
	t = (struct spot_terminate){ .region = "us-central1",
		.zone = "",
		.ref = a.found[0].ref,
		.spot_request = "" };
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &t,
			     { .method = "DELETE",
				 .url = API "/zones/" ZONE "/disks/5",
				 .mutating = 1,
				 .status = 200,
				 .reply = OPERATION("RUNNING", "") }),
	    SPOT_DONE);
	drive_fini(&d);
}

#define POLICY(name, about, status) \
	"{\"name\":\"" name "\",\"region\":\"" LINK "/regions/us-central1\",\"status\":\"" status \
	"\",\"description\":\"" about \
	"\",\"groupPlacementPolicy\":{\"collocation\":\"COLLOCATED\"}}"
#define OURS "spotbroker installation 7f3a"
#define POLICIES(list) \
	"{\"kind\":\"compute#resourcePolicyAggregatedList\",\"items\":{\"regions/us-central1\":{" \
	"\"resourcePolicies\":[" list "]}}}"
#define HAS_POLICY(id, status, policy) \
	"{\"id\":\"" id "\",\"zone\":\"" LINK "/zones/" ZONE "\",\"status\":\"" status \
	"\",\"resourcePolicies\":[\"" LINK "/regions/us-central1/resourcePolicies/" policy "\"]}"

/* A machine keeps its policy until it is deleted, whatever its state is. */
static void policies_without_a_machine_are_left_over(void **state)
{
	struct spot_list a = { .region = "us-central1", .install = "7f3a" };
	const struct drive_try machines = { .status = 200,
		.reply = LIST(IN_A(HAS_POLICY("1", "RUNNING", "brk-7f3a-g1") "," HAS_POLICY("2",
		    "STOPPING", "brk-7f3a-g2"))) };
	const struct drive_try disks = { .status = 200,
		.reply = "{\"kind\":\"compute#diskAggregatedList\"}" };
	struct spot_terminate t;
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &a, machines, disks,
			     { .url = API "/aggregated/resourcePolicies?filter=description%3D%22"
					  "spotbroker%20installation%207f3a%22&maxResults=500",
				 .mutating = -1,
				 .status = 200,
				 .reply = POLICIES(POLICY("brk-7f3a-g1", OURS,
				     "READY") "," POLICY("brk-7f3a-g2", OURS,
				     "READY") "," POLICY("brk-7f3a-g3", OURS,
				     "READY") "," POLICY("brk-7f3a-g4", OURS,
				     "DELETING") "," POLICY("brk-7f3a-g5", OURS "b", "READY")) }),
	    SPOT_DONE);
	assert_int_equal(a.n, 3);
	assert_true(a.found[2].leftover);
	assert_string_equal(a.found[2].ref, "us-central1/resourcePolicies/brk-7f3a-g3");
	assert_string_equal(a.found[2].install, "7f3a");
	t = (struct spot_terminate){ .region = "us-central1",
		.zone = "",
		.ref = a.found[2].ref,
		.spot_request = "" };
	/* Without the permission there is none of ours, and the machines count. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &a, machines, disks,
			     { .status = 403, .reply = ERROR(403, "forbidden", "m") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &t,
			     { .method = "DELETE",
				 .url = API "/regions/us-central1/resourcePolicies/brk-7f3a-g3",
				 .mutating = 1,
				 .status = 200,
				 .reply = OPERATION("RUNNING", "") }),
	    SPOT_DONE);
	assert_int_equal(t.after.state, SPOT_INSTANCE_GONE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_TERMINATE, &t,
		{ .status = 400, .reply = ERROR(400, "resourceInUseByAnotherResource", "in use") }),
	    SPOT_CONFLICT, "in use");
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &t,
			     { .status = 404,
				 .reply = ERROR(404, "notFound",
				     "The resource 'projects/p/regions/us-central1/"
				     "resourcePolicies/brk-7f3a-g3' was not found") }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void states_are_what_they_mean_for_us(void **state)
{
	static const struct {
		const char *reply;
		enum spot_instance_state is;
	} cases[] = { { VM("1", "PENDING", "t"), SPOT_INSTANCE_QUEUED },
		{ VM("1", "PROVISIONING", "t"), SPOT_INSTANCE_PENDING },
		{ VM("1", "STAGING", "t"), SPOT_INSTANCE_PENDING },
		{ VM("1", "RUNNING", "t"), SPOT_INSTANCE_RUNNING },
		{ VM("1", "PENDING_STOP", "t"), SPOT_INSTANCE_STOPPING },
		{ VM("1", "STOPPING", "t"), SPOT_INSTANCE_STOPPING },
		{ VM("1", "DEPROVISIONING", "t"), SPOT_INSTANCE_STOPPING },
		{ VM("1", "TERMINATED", "t"), SPOT_INSTANCE_FAILED },
		{ VM("1", "STOPPED", "t"), SPOT_INSTANCE_FAILED },
		{ VM("1", "SUSPENDED", "t"), SPOT_INSTANCE_FAILED },
		{ VM("1", "REPAIRING", "t"), SPOT_INSTANCE_ODD },
		{ VM("1", "DREAMING", "t"), SPOT_INSTANCE_ODD } };
	static const char *const refs[] = { ZONE "/1" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_describe a = { .region = "us-central1", .refs = refs, .refs_n = 1 };

		assert_int_equal(RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
				     { .url = API "/zones/" ZONE "/instances/1",
					 .status = 200,
					 .reply = cases[i].reply }),
		    SPOT_DONE);
		assert_int_equal(a.n, 1);
		assert_int_equal(a.found[0].state, cases[i].is);
	}
	drive_fini(&d);
}

static void a_host_is_of_the_pool_that_its_gpus_make(void **state)
{
	struct spot_list a = { .region = "", .install = "7f3a" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &a,
			     { .status = 200,
				 .reply = "{\"kind\":\"compute#instanceAggregatedList\",\"items\":{"
					  "\"zones/us-central1-a\":{\"instances\":["
					  "{\"id\":\"1\",\"zone\":\"z/"
					  "us-central1-a\",\"status\":\"RUNNING\",\"machineType\":"
					  "\"m/n1-standard-16\","
					  "\"guestAccelerators\":[{\"acceleratorType\":\"https://x/"
					  "acceleratorTypes/nvidia-tesla-v100\","
					  "\"acceleratorCount\":2}],\"labels\":{\"spotbroker-"
					  "install\":\"7f3a\"}},"
					  "{\"id\":\"2\",\"zone\":\"z/"
					  "us-central1-a\",\"status\":\"RUNNING\",\"machineType\":"
					  "\"m/g2-standard-4\","
					  "\"guestAccelerators\":[{\"acceleratorType\":\"x/"
					  "nvidia-l4\",\"acceleratorCount\":1}],"
					  "\"labels\":{\"spotbroker-install\":\"7f3a\"}}]}}}" },
			     { .status = 200,
				 .reply =
				     "{\"kind\":\"compute#diskAggregatedList\",\"items\":{}}" },
			     NO_POLICIES),
	    SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_string_equal(a.found[0].key.instance_type, "n1-standard-16+nvidia-tesla-v100x2");
	/* bundled ones are told there as well */
	assert_string_equal(a.found[1].key.instance_type, "g2-standard-4");
	drive_fini(&d);
}

static void only_googles_own_404_means_gone(void **state)
{
	static const char *const refs[] = { ZONE "/1", "i-0123", ZONE "/2" };
	struct spot_describe a = { .region = "us-central1", .refs = refs, .refs_n = 3 };
	struct spot_terminate t = { .region = "us-central1",
		.zone = "",
		.ref = REF,
		.spot_request = "" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
			     { .status = 404, .reply = ERROR(404, "notFound", "m") },
			     { .status = 200, .reply = VM("2", "RUNNING", "t") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a, { .status = 404, .reply = "<html>" }),
	    SPOT_BAD_REPLY, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &t,
			     { .status = 404, .reply = ERROR(404, "notFound", "m") }),
	    SPOT_DONE);
	assert_int_equal(t.after.state, SPOT_INSTANCE_GONE);
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_TERMINATE, &t, { .status = 404, .reply = "nope" }),
	    SPOT_UNKNOWN, NULL);
	t.ref = "us-central1-a";
	drive_script(&d, NULL, 0);
	failed_with(&d, drive_run(&d, DRIVE_TERMINATE, &t), SPOT_INVALID, "zone/id");
	drive_fini(&d);
}

static void find_asks_by_token_and_takes_no_other(void **state)
{
	struct spot_find a = { .region = "us-central1",
		.zone = ZONE,
		.token = "tok",
		.name = "brk.7f3a.n1.1",
		.install = "7f3a" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_FIND, &a,
			     { .url = API "/aggregated/"
					  "instances?filter=%28labels.spotbroker-install%3D7f3a%29%"
					  "20%28labels.spotbroker-token"
					  "%3Dtok%29&maxResults=500",
				 .status = 200,
				 .reply = LIST(IN_A(
				     VM("1", "RUNNING", "tok") "," VM("2", "RUNNING", "other"))) }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.found[0].ref, ZONE "/1");
	a.token = "Tok.Upper.And.Very.Long.So.That.The.Label.Holds.A.Hash.Of.It.n1";
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_FIND, &a,
		{ .status = 200,
		    .reply = arena_printf(d.arena,
			"{\"kind\":\"compute#instanceAggregatedList\",\"items\":{\"zones/" ZONE
			"\":{\"instances\":[{\"id\":\"3\","
			"\"zone\":\"" ZONE
			"\",\"status\":\"RUNNING\",\"labels\":{\"spotbroker-token\":\"%s\"}}]}}}",
			gcp_label(d.arena, a.token)) }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.found[0].token, a.token);
	drive_fini(&d);
}

#define PREEMPTED(id, when) \
	"{\"operationType\":\"compute.instances.preempted\",\"targetId\":\"" id \
	"\",\"zone\":\"" LINK "/zones/" ZONE "\",\"insertTime\":\"" when \
	"\",\"statusMessage\":\"Instance was preempted.\"}"
#define OPERATIONS(ops, more) \
	"{\"kind\":\"compute#operationAggregatedList\",\"items\":{\"zones/" ZONE \
	"\":{\"operations\":[" ops "]}}" more "}"

static void preemptions_are_matched_by_id_and_not_looked_for_too_far_back(void **state)
{
	const struct spot_instance mine[] = { { .ref = REF } };
	struct spot_notices a = { .region = "", .instances = mine, .instances_n = 1 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_NOTICES, &a,
			     { .status = 200,
				 .reply = OPERATIONS(PREEMPTED("77", "2026-01-02T03:04:00Z"),
				     ",\"nextPageToken\":\"p\"") },
			     { .status = 200,
				 .reply =
				     OPERATIONS(PREEMPTED(ID,
						    "2026-01-02T03:03:00.5Z") "," PREEMPTED(ID "0",
						    "2025-12-30T03:03:00Z"),
					 ",\"nextPageToken\":\"q\"") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.notices[0].ref, REF);
	assert_int_equal(a.notices[0].kind, SPOT_NOTICE_INTERRUPTION);
	assert_int_equal(a.notices[0].deadline_us,
	    GOLDEN_NOW_US - INT64_C(64500000) + 30 * SPOT_US_PER_S);
	a = (struct spot_notices){ .region = "" };
	drive_script(&d, NULL, 0);
	assert_int_equal(drive_run(&d, DRIVE_NOTICES, &a), SPOT_DONE);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_zone_that_cannot_be_reached_makes_no_claim_of_absence),
		cmocka_unit_test(disks_without_a_machine_are_left_over),
		cmocka_unit_test(policies_without_a_machine_are_left_over),
		cmocka_unit_test(states_are_what_they_mean_for_us),
		cmocka_unit_test(a_host_is_of_the_pool_that_its_gpus_make),
		cmocka_unit_test(only_googles_own_404_means_gone),
		cmocka_unit_test(find_asks_by_token_and_takes_no_other),
		cmocka_unit_test(preemptions_are_matched_by_id_and_not_looked_for_too_far_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
