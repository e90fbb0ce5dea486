#include "base/base.h"
#include "azure_test.h"

/* Lists, states, and the end of a machine. */

#define LIST(items) "{\"value\":[" items "]}"

static struct spot_instance instance_describe(struct drive *d, const char *reply)
{
	static const char *const refs[] = { LEASE };
	const struct drive_try t = { .url =
					 ARM VM_ID "?$expand=instanceView&api-version=2024-03-01",
		.status = 200,
		.reply = reply };
	struct spot_describe a = { .region = "eastus2", .refs = refs, .refs_n = 1 };

	drive_script(d, &t, 1);
	assert_int_equal(drive_run(d, DRIVE_DESCRIBE, &a), SPOT_DONE);
	assert_int_equal(a.n, 1);
	return a.found[0];
}

#define POWER(code) \
	",\"instanceView\":{\"statuses\":[{\"code\":\"ProvisioningState/" \
	"succeeded\"},{\"code\":\"" code "\"}]}"

#define STATUSES(all) ",\"instanceView\":{\"statuses\":[" all "]}"

static void states_are_read_from_provisioning_and_power(void **state)
{
	static const struct {
		const char *reply;
		enum spot_instance_state state;
		const char *raw;
	} cases[] = {
		{ VM("Creating", ""), SPOT_INSTANCE_PENDING, "Creating" },
		{ VM("Succeeded", ""), SPOT_INSTANCE_RUNNING, "Succeeded" },
		{ VM("Succeeded", POWER("PowerState/running")), SPOT_INSTANCE_RUNNING,
		    "PowerState/running" },
		{ VM("Updating", POWER("PowerState/starting")), SPOT_INSTANCE_PENDING,
		    "PowerState/starting" },
		{ VM("Succeeded", POWER("PowerState/deallocating")), SPOT_INSTANCE_STOPPING,
		    "PowerState/deallocating" },
		{ VM("Succeeded", POWER("PowerState/stopped")), SPOT_INSTANCE_FAILED,
		    "PowerState/stopped" },
		{ VM("Succeeded", POWER("PowerState/deallocated")), SPOT_INSTANCE_FAILED,
		    "PowerState/deallocated" },
		{ VM("Succeeded", POWER("PowerState/dreaming")), SPOT_INSTANCE_ODD, "Succeeded" },
		{ VM("Failed", ""), SPOT_INSTANCE_FAILED, "Failed" },
		{ VM("Canceled", ""), SPOT_INSTANCE_FAILED, "Canceled" },
		{ VM("Deleting", POWER("PowerState/running")), SPOT_INSTANCE_STOPPING, "Deleting" },
		{ VM("Dreaming", ""), SPOT_INSTANCE_ODD, "Dreaming" },
		/* the last request failed, the machine did not */
		{ VM("Failed",
		      STATUSES(
			  "{\"code\":\"ProvisioningState/failed/VMExtensionProvisioningError\","
			  "\"level\":\"Error\",\"message\":\"m\"},{\"code\":\"PowerState/"
			  "running\"}")),
		    SPOT_INSTANCE_RUNNING, "Failed" },
		{ VM("Failed",
		      STATUSES("{\"code\":\"ProvisioningState/failed/OSProvisioningTimedOut\","
			       "\"level\":\"Error\",\"message\":\"m\"},{\"code\":\"PowerState/"
			       "running\"}")),
		    SPOT_INSTANCE_FAILED, "Failed" },
		/* lists with statusOnly */
		{ VM("",
		      STATUSES(
			  "{\"code\":\"ProvisioningState/creating/osProvisioningInProgress\"}")),
		    SPOT_INSTANCE_PENDING, "creating/osProvisioningInProgress" },
	};
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_instance x = instance_describe(&d, cases[i].reply);

		if (x.state != cases[i].state || strcmp(x.raw_state, cases[i].raw) != 0) {
			fail_msg("case %zu: %s, raw %s", i, spot_instance_state_name(x.state),
			    x.raw_state);
		}
		assert_string_equal(x.key.region, "eastus2");
		assert_string_equal(x.key.zone, "eastus2-1");
		assert_int_equal(x.key.market, SPOT_MARKET_SPOT);
	}
	drive_fini(&d);
}

#define GROUP_OF(name) \
	"{\"id\":\"" SUB "/resourceGroups/" name "\",\"name\":\"" name \
	"\",\"location\":\"eastus2\",\"tags\":{\"spotbroker-install\":\"7f3a\"}," \
	"\"properties\":{\"provisioningState\":\"Succeeded\"}}"
#define IN_GROUP(name) \
	",\"proximityPlacementGroup\":{\"id\":\"" SUB "/resourceGroups/" name \
	"/providers/Microsoft.Compute/proximityPlacementGroups/" name "\"}"

/* Its machines are in resource groups of their own: the one that keeps them close has none. */
static void a_placement_group_is_left_over_when_no_machine_refers_to_it(void **state)
{
	struct spot_list a = { .region = "eastus2", .install = "7f3a" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &a,
			     { .status = 200,
				 .reply = LIST(GROUP
				     "," GROUP_OF("spotbroker-brk-7f3a-g7-eastus2") "," GROUP_OF(
					 "spotbroker-brk-7f3a-g8-eastus2")) },
			     { .status = 200,
				 .reply = LIST(VM("Succeeded",
				     IN_GROUP("SPOTBROKER-brk-7f3a-g7-eastus2"))) }),
	    SPOT_DONE);
	assert_int_equal(a.n, 2);
	for (size_t i = 0; i < a.n; i++) {
		assert_string_equal(a.found[i].ref,
		    a.found[i].leftover ? "spotbroker-brk-7f3a-g8-eastus2" : LEASE);
	}
	assert_int_not_equal(a.found[0].leftover, a.found[1].leftover);
	drive_fini(&d);
}

static void many_are_described_by_one_list(void **state)
{
	static const char *const refs[] = { LEASE, "spotbroker-b", "spotbroker-c", "spotbroker-d",
		"spotbroker-e", "i-0123" };
	struct spot_describe a = { .region = "eastus2", .refs = refs, .refs_n = ARRAY_LEN(refs) };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
		{ .url = ARM SUB "/providers/Microsoft.Compute/"
				 "virtualMachines?api-version=2024-03-01&statusOnly=true",
		    .status = 200,
		    .reply = "{\"value\":[],\"nextLink\":\"https://management.azure.com:443" SUB
			     "/next?a=b\"}" },
		{ .url = "https://management.azure.com:443" SUB "/next?a=b",
		    .status = 200,
		    .reply = LIST(
			"{\"id\":\"" SUB
			"/resourceGroups/SPOTBROKER-C/providers/Microsoft.Compute/virtualMachines/"
			"SpotBroker-C\",\"location\":\"eastus2\",\"properties\":{\"instanceView\":{"
			"\"statuses\":["
			"{\"code\":\"ProvisioningState/succeeded\"},{\"code\":\"PowerState/"
			"running\"}]}}},"
			"{\"id\":\"" SUB "/resourceGroups/x/providers/Microsoft.Compute/"
			"virtualMachines/other\"}") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_false(a.exact); /* the list does */
	assert_string_equal(a.found[0].ref, "spotbroker-c");
	assert_int_equal(a.found[0].state, SPOT_INSTANCE_RUNNING);
	drive_fini(&d);
}

static void unknown_machines_are_absent_and_odd_answers_are_not(void **state)
{
	static const char *const refs[] = { LEASE };
	struct spot_describe a = { .region = "eastus2", .refs = refs, .refs_n = 1 };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
			     { .status = 404, .reply = ERROR("ResourceGroupNotFound", "m") }),
	    SPOT_DONE);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
			     { .status = 404, .reply = ERROR("NotFound", "m") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0);
	assert_true(a.exact); /* a read of one resource does not lag */
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a, { .status = 404, .reply = "<html>" }),
	    SPOT_BAD_REPLY, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
		{ .status = 404, .reply = ERROR("SubscriptionNotFound", "m") }),
	    SPOT_CONFIG, NULL);
	drive_fini(&d);
}

static void another_installations_machine_is_not_found(void **state)
{
	struct spot_find a = { .region = "eastus2",
		.token = "tok",
		.name = "brk.7f3a.n41.1767323045",
		.install = "other" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_FIND, &a,
			     { .status = 200, .reply = VM("Succeeded", "") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0);
	a.install = "7f3a";
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_FIND, &a,
			     { .status = 200, .reply = VM("Succeeded", "") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	a.name = a.token = "";
	drive_script(&d, NULL, 0);
	failed_with(&d, drive_run(&d, DRIVE_FIND, &a), SPOT_INVALID, "neither");
	drive_fini(&d);
}

static void without_a_name_the_token_in_the_tags_is_looked_for(void **state)
{
	struct spot_find a = { .region = "eastus2", .token = "it's", .install = "7f3a" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_FIND, &a,
			     { .url = ARM SUB "/resourcegroups?$filter=tagName%20eq%20%"
					      "27spotbroker-token%27%20and%20tagValue%20eq%20"
					      "%27it%27%27s%27&api-version=2021-04-01",
				 .status = 200,
				 .reply = LIST(GROUP) },
			     { .status = 200, .reply = LIST(VM("Succeeded", "")) }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	/* a group without its machine is no machine */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_FIND, &a, { .status = 200, .reply = LIST(GROUP) },
			     { .status = 200, .reply = LIST("") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0);
	drive_fini(&d);
}

static void pages_lead_nowhere_else(void **state)
{
	struct spot_list a = { .region = "eastus2", .install = "7f3a" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LIST, &a,
		{ .status = 200,
		    .reply = "{\"value\":[],\"nextLink\":\"https://"
			     "management.azure.com@evil.example/\"}" }),
	    SPOT_BAD_REPLY, "another host");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LIST, &a,
		{ .status = 200, .reply = "{\"value\":[],\"nextLink\":\"/subscriptions/next\"}" }),
	    SPOT_BAD_REPLY, "another host");
	drive_fini(&d);
}

/* ---- the end --------------------------------------------------------------------------------- */

static struct spot_terminate terminate_args(const char *ref)
{
	return (struct spot_terminate){ .region = "eastus2",
		.zone = "",
		.ref = ref,
		.spot_request = "" };
}

static void only_a_group_with_our_tag_is_deleted(void **state)
{
	static const char *const never[] = { "", "production", "spotbroker", "spotbroker-",
		"spotbroker-a/../b", "Spotbroker-a", NULL };
	struct spot_terminate a = terminate_args(LEASE);
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_TERMINATE, &a,
		{ .method = "GET",
		    .status = 200,
		    .reply = "{\"id\":\"x\",\"name\":\"" LEASE
			     "\",\"location\":\"eastus2\",\"tags\":{\"owner\":\"me\"}}" }),
	    SPOT_DENIED, "it is not ours");
	drive_script(&d, NULL, 0);
	for (const char *const *ref = never; *ref != NULL; ref++) {
		a = terminate_args(*ref);
		failed_with(&d, drive_run(&d, DRIVE_TERMINATE, &a), SPOT_INVALID,
		    "not a machine of ours");
	}
	drive_fini(&d);
}

/* Names of tags are the same in any case, and a policy that sets tags may change the case. */
static void tags_in_another_case_are_ours_too(void **state)
{
	struct spot_list a = { .region = "eastus2", .install = "7f3a" };
	struct spot_terminate e = terminate_args(LEASE);
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_LIST, &a,
		{ .status = 200,
		    .reply = LIST(
			"{\"name\":\"" LEASE "\",\"location\":\"eastus2\",\"tags\":{\"Owner\":null,"
			"\"SpotBroker-Install\":\"7f3a\",\"SPOTBROKER-TOKEN\":\"spt-1\"}}") },
		{ .status = 200, .reply = LIST("") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.found[0].install, "7f3a");
	assert_string_equal(a.found[0].token, "spt-1");
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &e,
			     { .status = 200,
				 .reply = "{\"tags\":{\"SpotBroker-Install\":\"7f3a\"}}" },
			     { .method = "DELETE", .status = 202, .reply = "" }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void an_end_under_way_is_not_asked_for_again(void **state)
{
	struct spot_terminate a = terminate_args(LEASE);
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &a,
			     { .method = "GET",
				 .status = 200,
				 .reply =
				     "{\"tags\":{\"spotbroker-install\":\"7f3a\"},\"properties\":{"
				     "\"provisioningState\":\"Deleting\"}}" }),
	    SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_STOPPING);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &a, { .status = 200, .reply = GROUP },
			     { .method = "DELETE",
				 .mutating = 1,
				 .status = 409,
				 .reply = ERROR("ResourceGroupBeingDeleted", "m") }),
	    SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_STOPPING);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &a, { .status = 200, .reply = GROUP },
			     { .method = "DELETE",
				 .status = 404,
				 .reply = ERROR("ResourceGroupNotFound", "m") }),
	    SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_GONE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_TERMINATE, &a, { .status = 200, .reply = GROUP },
		{ .method = "DELETE", .status = 409, .reply = ERROR("ScopeLocked", "a lock") }),
	    SPOT_DENIED, "a lock");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_TERMINATE, &a, { .status = 200, .reply = GROUP }, { .status = 0 }),
	    SPOT_UNKNOWN, NULL);
	drive_fini(&d);
}

/* The core tells these from machines that failed by the first word. */
static void a_machine_that_found_no_room_says_so_later_too(void **state)
{
	static const struct {
		const char *code, *reason;
	} cases[] = {
		{ "ZonalAllocationFailed",
		    "NO_CAPACITY ProvisioningState/failed/ZonalAllocationFailed" },
		{ "QuotaExceeded", "QUOTA ProvisioningState/failed/QuotaExceeded" },
		{ "InternalExecutionError", "ProvisioningState/failed/InternalExecutionError" },
	};
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_instance x = instance_describe(&d,
		    arena_printf(d.arena,
			VM("Failed",
			    STATUSES("{\"code\":\"ProvisioningState/failed/%s\",\"level\":"
				     "\"Error\",\"message\":\"see http://aka.ms/x/y\"}")),
			cases[i].code));

		assert_int_equal(x.state, SPOT_INSTANCE_FAILED);
		if (!str_prefix(x.raw_reason, cases[i].reason)) {
			fail_msg("case %zu: %s", i, x.raw_reason);
		}
	}
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_are_read_from_provisioning_and_power),
		cmocka_unit_test(a_machine_that_found_no_room_says_so_later_too),
		cmocka_unit_test(many_are_described_by_one_list),
		cmocka_unit_test(a_placement_group_is_left_over_when_no_machine_refers_to_it),
		cmocka_unit_test(unknown_machines_are_absent_and_odd_answers_are_not),
		cmocka_unit_test(another_installations_machine_is_not_found),
		cmocka_unit_test(without_a_name_the_token_in_the_tags_is_looked_for),
		cmocka_unit_test(tags_in_another_case_are_ours_too),
		cmocka_unit_test(pages_lead_nowhere_else),
		cmocka_unit_test(only_a_group_with_our_tag_is_deleted),
		cmocka_unit_test(an_end_under_way_is_not_asked_for_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
