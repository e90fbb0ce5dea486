#include "base/base.h"
#include "azure_test.h"

/* A launch: its requests, the length of its wait, and the remains of a failed one. */

#define GROUP_URL ARM SUB "/resourcegroups/" LEASE "?api-version=2021-04-01"
#define VM_URL ARM VM_ID "?api-version=2024-03-01"
#define OPERATION ARM SUB "/providers/Microsoft.Compute/locations/eastus2/operations/1?p=2"
#define MADE \
	{ \
		.method = "PUT", .url = GROUP_URL, .mutating = 1, .fresh = true, .status = 201, \
		.reply = GROUP \
	}
#define ACCEPTED \
	{ \
		.method = "PUT", .url = VM_URL, .mutating = 1, .fresh = true, .status = 201, \
		.reply = VM("Creating", ""), .reply_headers = { \
			"Azure-AsyncOperation: " OPERATION, \
			"Retry-After: 7" \
		} \
	}
#define CLEANED \
	{ \
		.method = "DELETE", \
		.url = GROUP_URL "&forceDeletionTypes=Microsoft.Compute%2FvirtualMachines", \
		.mutating = 1, .limit = "deletes", .status = 202 \
	}

static struct spot_launch launch_args(void)
{
	return (struct spot_launch){ .key = { "azure", "eastus2", "eastus2-1",
					 "Standard_NC40ads_H100_v5", SPOT_MARKET_SPOT },
		.zone_name = "1",
		.shape = { .arch = "x86_64" },
		.token = "tok",
		.name = "brk.7f3a.n41.1767323045",
		.install = "7f3a" };
}

#define NEAR "spotbroker-brk-7f3a-g7-eastus2"
#define NEAR_ID \
	SUB "/resourceGroups/" NEAR "/providers/Microsoft.Compute/proximityPlacementGroups/" NEAR
#define NEAR_GROUP_URL ARM SUB "/resourcegroups/" NEAR "?api-version=2021-04-01"
#define NEAR_MADE \
	{ .method = "PUT", \
		.url = NEAR_GROUP_URL, \
		.mutating = -1, \
		.has = { "\"spotbroker-install\":\"7f3a\"" }, \
		.hasnt = { "spotbroker-token" }, \
		.status = 201, \
		.reply = "{\"id\":\"g\"}" }, \
	{ \
		.method = "PUT", .url = ARM NEAR_ID "?api-version=2024-03-01", .mutating = -1, \
		.has = { "\"proximityPlacementGroupType\":\"Standard\"" }, .status = 201, \
		.reply = "{\"id\":\"" NEAR_ID "\"}" \
	}

/* Each machine of a gang makes it: the repeats change nothing. */
static void a_machine_that_is_placed_together_makes_the_place_first(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	a.together = "brk-7f3a-g7";
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, NEAR_MADE, MADE,
			     { .url = VM_URL,
				 .has = { "\"proximityPlacementGroup\":{\"id\":\"" NEAR_ID "\"}" },
				 .status = 200,
				 .reply = VM("Succeeded", "") }),
	    SPOT_DONE);
	assert_string_equal(a.instance.ref, LEASE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .url = NEAR_GROUP_URL,
		    .status = 409,
		    .reply = ERROR("ResourceGroupBeingDeleted", "m") }),
	    SPOT_UNAVAILABLE, "ResourceGroupBeingDeleted");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
		{ .status = 403, .reply = ERROR("AuthorizationFailed", "no permission") }),
	    SPOT_DENIED, "no permission");
	drive_fini(&d);
}

static void requests_that_cannot_be_right_are_refused_unsent(void **state)
{
	static const struct spot_tag odd[] = { { "a<b", "y" } },
				     ours[] = { { "spotbroker-install", "other" } },
				     empty[] = { { "", "y" } }, null_value[] = { { "k", NULL } };
	static char big[65536], token[66], value[300];
	struct spot_launch bad[14];
	struct drive d;

	(void)state;
	memset(big, 'x', sizeof(big));
	memset(token, 't', sizeof(token) - 1);
	memset(value, 'v', sizeof(value) - 1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		bad[i] = launch_args();
	}
	bad[0].token = "";
	bad[1].token = token;
	bad[2].token = NULL;
	bad[3].user_data = (struct str){ big, sizeof(big) };
	bad[4].tags = odd;
	bad[5].tags = ours;
	bad[6].tags = empty;
	bad[7].tags = null_value;
	for (size_t i = 4; i <= 7; i++) {
		bad[i].tags_n = 1;
	}
	bad[8].key.market = SPOT_MARKET_NONE;
	bad[9].key.instance_type = "";
	bad[10].key.region = "East US 2";
	bad[11].install = "";
	bad[12].install = value;
	bad[13].name = token;
	keyed_init(&d, NULL);
	drive_script(&d, NULL, 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &bad[i]), SPOT_INVALID, "azure launch");
	}
	drive_fini(&d);
}

static void a_missing_setting_is_asked_for_by_name(void **state)
{
	static const char *const no_subnet[] = { "subscription", GOLDEN_SUB, "tenant",
		"contoso.example", "client_id", "me", "ssh_public_key", "ssh-rsa AAAA x", NULL };
	static const char *const no_key[] = { "subscription", GOLDEN_SUB, "tenant",
		"contoso.example", "client_id", "me", "subnet.eastus2",
		SUB "/resourceGroups/n/providers/Microsoft.Network/virtualNetworks/v/subnets/s",
		NULL };
	static const char *const bad_nsg[] = { "subscription", GOLDEN_SUB, "tenant",
		"contoso.example", "client_id", "me", "ssh_public_key", "ssh-rsa AAAA x",
		"nsg.eastus2", "closed", NULL };
	static const struct {
		const char *const *settings, *words;
	} cases[] = { { no_subnet, "subnet.eastus2 is not set" },
		{ no_key, "ssh_public_key is not set" }, { bad_nsg, "nsg.eastus2" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_launch a = launch_args();
		struct drive d;

		keyed_init(&d, cases[i].settings);
		drive_script(&d, NULL, 0);
		failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_CONFIG, cases[i].words);
		drive_fini(&d);
	}
}

static void spot_and_on_demand_differ_where_they_must(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE,
			     { .url = VM_URL,
				 .has = { "\"priority\":\"Spot\"", "\"evictionPolicy\":\"Delete\"",
				     "\"maxPrice\":-1}", "\"zones\":[\"1\"]",
				     "\"deleteOption\":\"Delete\",\"caching\"",
				     "\"primary\":true,\"deleteOption\":\"Delete\"",
				     "{\"deleteOption\":\"Delete\",\"publicIPAllocationMethod\"",
				     "\"disablePasswordAuthentication\":true" },
				 .hasnt = { "customData", "password\":", "identity", "diskSizeGB",
				     "Detach" },
				 .status = 200,
				 .reply = VM("Succeeded", "") }),
	    SPOT_DONE);
	assert_int_equal(a.instance.state, SPOT_INSTANCE_RUNNING);
	assert_string_equal(a.instance.ref, LEASE);
	assert_string_equal(a.instance.token, "tok");
	assert_string_equal(a.instance.key.zone, "eastus2-1");
	/* a sixth decimal is cut, never rounded over the cap */
	a.price_cap_micros = 2499999;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE,
			     { .has = { "\"maxPrice\":2.49999}" },
				 .status = 200,
				 .reply = VM("Succeeded", "") }),
	    SPOT_DONE);
	a.key.market = SPOT_MARKET_ON_DEMAND;
	a.zone_name = a.key.zone = "";
	a.user_data = STR_LIT("#!");
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE,
			     { .has = { "\"priority\":\"Regular\"", "\"customData\":\"IyE=\"" },
				 .hasnt = { "evictionPolicy", "maxPrice", "zones" },
				 .status = 200,
				 .reply = VM("Succeeded", "") }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void arm_machines_get_an_image_of_their_own(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	a.shape.arch = "arm64";
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE,
			     { .has = { "\"sku\":\"2404-arm\"" },
				 .status = 200,
				 .reply = VM("Succeeded", "") }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void a_name_too_long_for_a_machine_ends_in_its_hash(void **state)
{
	struct spot_launch a = launch_args();
	struct drive_try script[2] = { { .url = ARM SUB
	    "/resourcegroups/spotbroker-brk-a-very-long-name-of-an-installat-*",
	    .status = 403,
	    .reply = ERROR("AuthorizationFailed", "no") } };
	struct drive d;

	(void)state;
	a.name = "brk.a-very-long-name-of-an-installation.n0123456789abc";
	keyed_init(&d, NULL);
	drive_script(&d, script, 1);
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_DENIED, "AuthorizationFailed");
	assert_int_equal(strcspn(strstr(d.call.out.url, "spotbroker-"), "?"), 64);
	drive_fini(&d);
}

static void the_operation_is_asked_as_often_as_told_and_no_longer(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, ACCEPTED,
			     { .method = "GET",
				 .url = OPERATION,
				 .mutating = -1,
				 .limit = "reads",
				 .status = 200,
				 .reply = "{\"status\":\"InProgress\"}",
				 .reply_headers = { "Retry-After: 11" } },
			     { .url = OPERATION, .status = 500 },
			     { .url = OPERATION, .status = 200, .reply = "{\"status\":\"Odd\"}" }),
	    SPOT_DONE);
	/* accepted: lists show its outcome */
	assert_int_equal(a.instance.state, SPOT_INSTANCE_PENDING);
	assert_int_equal(d.waited_us, (7 + 11 + 10) * SPOT_US_PER_S);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, ACCEPTED,
			     { .status = 200, .reply = "{\"status\":\"SUCCEEDED\"}" }),
	    SPOT_DONE);
	/* a body without a status is an end, too */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, ACCEPTED,
			     { .status = 200, .reply = "{}" }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void a_failed_operation_leaves_nothing_behind(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, ACCEPTED,
		{ .status = 200,
		    .reply = "{\"status\":\"Failed\",\"error\":{\"code\":"
			     "\"ZonalAllocationFailed\",\"message\":\"m\"}}" },
		CLEANED),
	    SPOT_NO_CAPACITY, "ZonalAllocationFailed");
	assert_string_equal(d.call.err.code, "ZonalAllocationFailed");
	/* the platform's own fault: elsewhere */
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, ACCEPTED,
		{ .status = 200,
		    .reply = "{\"status\":\"Canceled\",\"error\":{\"code\":"
			     "\"VMStartTimedOut\",\"message\":\"m\"}}" },
		{ .method = "DELETE", .status = 500 }),
	    SPOT_NO_CAPACITY, "VMStartTimedOut");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, ACCEPTED,
		{ .status = 200, .reply = "{\"status\":\"Failed\"}" }, CLEANED),
	    SPOT_NO_CAPACITY, "without a code");
	drive_fini(&d);
}

static void a_refused_machine_takes_its_group_with_it(void **state)
{
	static const struct {
		int status;
		const char *reply;
		enum spot_rc rc;
	} cases[] = {
		{ 409, ERROR("SkuNotAvailable", "m"), SPOT_NO_CAPACITY },
		{ 400, ERROR("SkuNotAvailable", "m"), SPOT_NO_CAPACITY },
		{ 409, ERROR("SpotPriceGreaterThanProvidedMaxPrice", "m"), SPOT_PRICE_CAP },
		{ 409,
		    ERROR("OperationNotAllowed",
			"results in exceeding approved LowPriorityCores quota. Current Limit: 0"),
		    SPOT_QUOTA },
		{ 403, ERROR("RequestDisallowedByPolicy", "m"), SPOT_DENIED },
		{ 404, ERROR("GalleryImageNotFound", "m"), SPOT_CONFIG },
		{ 400, ERROR("InvalidParameter", "m"), SPOT_INVALID },
	};
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct drive_try script[] = { MADE,
			{ .status = cases[i].status, .reply = cases[i].reply }, CLEANED };
		struct spot_launch a = launch_args();

		drive_script(&d, script, 3);
		failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), cases[i].rc, NULL);
		drive_used(&d);
	}
	drive_fini(&d);
}

static void a_launch_that_may_still_succeed_is_left_alone(void **state)
{
	static const struct {
		int status;
		const char *reply;
		enum spot_rc rc;
	} cases[] = {
		{ 409, ERROR("PropertyChangeNotAllowed", "m"),
		    SPOT_MISMATCH }, /* somebody's machine is there */
		{ 409, ERROR("ResourceGroupBeingDeleted", "m"), SPOT_GONE },
		{ 0, NULL, SPOT_UNKNOWN },
		{ 200, "{}", SPOT_UNKNOWN },
		{ 200,
		    "{\"id\":\"/subscriptions/x/resourceGroups/y/providers/Microsoft.Compute/"
		    "virtualMachines/other\","
		    "\"location\":\"eastus2\",\"properties\":{}}",
		    SPOT_UNKNOWN },
	};
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct drive_try script[] = { MADE,
			{ .status = cases[i].status, .reply = cases[i].reply } };
		struct spot_launch a = launch_args();

		drive_script(&d, script, 2);
		failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), cases[i].rc, NULL);
		drive_used(&d);
	}
	drive_fini(&d);
}

static void a_repeat_sends_the_same_bytes(void **state)
{
	struct spot_launch a = launch_args();
	const char *first, *second;
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, { .status = 0 }), SPOT_UNKNOWN,
	    "may have happened");
	first = arena_strndup(d.arena, d.call.out.body.p, d.call.out.body.n);
	d.now_us += 90 * SPOT_US_PER_S;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE,
			     { .status = 429, .reply_headers = { "Retry-After: 3" } },
			     { .url = VM_URL, .status = 200, .reply = VM("Succeeded", "") }),
	    SPOT_DONE);
	second = arena_strndup(d.arena, d.call.out.body.p, d.call.out.body.n);
	assert_string_equal(first, second);
	drive_fini(&d);
}

static void links_to_other_hosts_get_no_token(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE,
			     { .status = 201,
				 .reply = VM("Creating", ""),
				 .reply_headers = { "Azure-AsyncOperation: "
						    "https://management.azure.com.evil.example/x",
				     "Location: http://management.azure.com/x" } },
			     { .method = "GET",
				 .url = ARM VM_ID "?$expand=instanceView&api-version=2024-03-01",
				 .status = 404,
				 .reply = ERROR("ResourceNotFound", "not yet") },
			     { .status = 200,
				 .reply = VM("Succeeded",
				     ",\"instanceView\":{\"statuses\":[{\"code\":\"PowerState/"
				     "running\"}]}") }),
	    SPOT_DONE);
	assert_int_equal(a.instance.state, SPOT_INSTANCE_RUNNING);
	drive_fini(&d);
}

static void a_location_tells_by_its_status(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
#define AT \
	{ \
		.status = 202, .reply = VM("Creating", ""), .reply_headers = { \
			"Location: " OPERATION \
		} \
	}
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, AT,
			     { .url = OPERATION, .status = 202 },
			     { .url = OPERATION, .status = 204 }),
	    SPOT_DONE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, AT,
		{ .url = OPERATION,
		    .status = 409,
		    .reply = ERROR("AllocationFailed", "none left") },
		CLEANED),
	    SPOT_NO_CAPACITY, "none left");
	/* an operation that is forgotten says nothing */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, AT,
			     { .status = 404, .reply = "{}" }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void a_machine_that_failed_by_itself_tells_why(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, { .status = 201, .reply = VM("Creating", "") },
		{ .status = 200,
		    .reply = VM("Failed",
			",\"instanceView\":{\"statuses\":[{\"code\":\"ProvisioningState/failed/"
			"OverconstrainedZonalAllocationRequest\",\"level\":\"Error\","
			"\"message\":\"none\"}]}") },
		CLEANED),
	    SPOT_NO_CAPACITY, "none");
	assert_string_equal(d.call.err.code, "OverconstrainedZonalAllocationRequest");
	/* the vendor's words end in a link */
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, MADE, { .status = 201, .reply = VM("Creating", "") },
		{ .status = 200,
		    .reply = VM("Failed",
			",\"instanceView\":{\"statuses\":[{\"code\":\"ProvisioningState/failed/"
			"OperationNotAllowed\",\"level\":\"Error\",\"message\":\"exceeding "
			"approved "
			"LowPriorityCores quota. See https://aka.ms/quota/spot\"}]}") },
		CLEANED),
	    SPOT_QUOTA, "LowPriorityCores");
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_that_is_placed_together_makes_the_place_first),
		cmocka_unit_test(requests_that_cannot_be_right_are_refused_unsent),
		cmocka_unit_test(a_missing_setting_is_asked_for_by_name),
		cmocka_unit_test(spot_and_on_demand_differ_where_they_must),
		cmocka_unit_test(arm_machines_get_an_image_of_their_own),
		cmocka_unit_test(a_name_too_long_for_a_machine_ends_in_its_hash),
		cmocka_unit_test(the_operation_is_asked_as_often_as_told_and_no_longer),
		cmocka_unit_test(a_failed_operation_leaves_nothing_behind),
		cmocka_unit_test(a_refused_machine_takes_its_group_with_it),
		cmocka_unit_test(a_launch_that_may_still_succeed_is_left_alone),
		cmocka_unit_test(a_repeat_sends_the_same_bytes),
		cmocka_unit_test(links_to_other_hosts_get_no_token),
		cmocka_unit_test(a_location_tells_by_its_status),
		cmocka_unit_test(a_machine_that_failed_by_itself_tells_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
