#include "base/base.h"
#include "aws_test.h"

/* find, list, describe, terminate, notices: paging, unknown ids, states. */

#define ITEM(id, code) \
	"<item><instanceId>" id "</instanceId><instanceState><code>" code \
	"</code></instanceState></item>"
#define PAGE(items, token) \
	"<DescribeInstancesResponse><reservationSet><item><instancesSet>" items \
	"</instancesSet></item></reservationSet>" token "</DescribeInstancesResponse>"

#define GROUP(name, install, state) \
	"<item><groupName>" name "</groupName><strategy>cluster</strategy><state>" state \
	"</state><groupId>pg-1</groupId><tagSet><item><key>spotbroker:install</" \
	"key><value>" install "</value></item></tagSet></item>"
#define GROUPS(items) \
	"<DescribePlacementGroupsResponse><placementGroupSet>" items \
	"</placementGroupSet></DescribePlacementGroupsResponse>"
#define NO_GROUPS \
	{ \
		.has = { "Action=DescribePlacementGroups" }, .mutating = -1, .status = 200, \
		.reply = GROUPS("") \
	}

static void lists_follow_pages_until_the_token_is_absent_or_empty(void **state)
{
	static const char *const ends[] = { "", "<nextToken/>", "<nextToken></nextToken>" };
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		struct spot_list a = { .region = "us-east-1", .install = "x y" };
		struct drive d;
		char last[400];

		snprintf(last, sizeof(last), PAGE("%s", "%s"), ITEM("i-3", "16"), ends[i]);
		struct drive_try script[] = {
			{ .url = US_EAST,
			    .has = { "Filter.1.Name=tag%3Aspotbroker%3Ainstall&Filter.1.Value.1=x%"
				     "20y&"
				     "MaxResults=500" },
			    .hasnt = { "NextToken", "instance-state-name" },
			    .limit = "Describe",
			    .limit_scope = "us-east-1",
			    .mutating = -1,
			    .status = 200,
			    .reply = PAGE(ITEM("i-1", "0"), "<nextToken>a+b</nextToken>") },
			{ .has = { "NextToken=a%2Bb" },
			    .status = 503,
			    .reply = EC2_XML("RequestLimitExceeded", "m") },
			{ .has = { "NextToken=a%2Bb" },
			    .status = 200,
			    .reply = PAGE(ITEM("i-2", "48"), "<nextToken>c</nextToken>") },
			{ .has = { "NextToken=c" }, .status = 200, .reply = last },
			NO_GROUPS,
		};
		keyed_init(&d, NULL);
		drive_script(&d, script, ARRAY_LEN(script));
		assert_int_equal(drive_run(&d, DRIVE_LIST, &a), SPOT_DONE);
		assert_int_equal(a.n, 3);
		assert_string_equal(a.found[0].ref, "i-1");
		assert_string_equal(a.found[2].ref, "i-3");
		assert_int_equal(a.found[1].state, SPOT_INSTANCE_GONE);
		drive_fini(&d);
	}
}

static void a_page_token_that_repeats_ends_the_call(void **state)
{
	struct spot_list a = { .region = "us-east-1", .install = "x" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LIST, &a,
		{ .status = 200, .reply = PAGE("", "<nextToken>a</nextToken>") },
		{ .status = 200, .reply = PAGE("", "<nextToken>a</nextToken>") }),
	    SPOT_BAD_REPLY, "repeats");
	drive_fini(&d);
}

static void replies_of_the_wrong_shape_are_bad_replies(void **state)
{
	static const char *const bad[] = { "<DescribeInstancesResponse/>", PAGE("<item/>", ""),
		"<a>", "", "\xff\xfe", "<DescribeInstancesResponse><reservationSet>",
		"<ErrorResponse/>" };
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct drive_try t = { .status = 200, .reply = bad[i] };
		struct spot_list a = { .region = "us-east-1", .install = "x" };
		struct drive d;

		keyed_init(&d, NULL);
		drive_script(&d, &t, 1);
		failed_with(&d, drive_run(&d, DRIVE_LIST, &a), SPOT_BAD_REPLY, "DescribeInstances");
		assert_null(a.found);
		drive_fini(&d);
	}
}

static void oversized_replies_do_no_harm(void **state)
{
	size_t depth = 100000;
	struct spot_list a = { .region = "us-east-1", .install = "x" };
	struct drive_try t = { .status = 200 };
	struct drive d;
	char *deep;

	(void)state;
	keyed_init(&d, NULL);
	deep = arena_alloc(d.arena, depth * 3 + 1);
	for (size_t i = 0; i < depth; i++) {
		memcpy(deep + i * 3, "<a>", 3);
	}
	t.reply = deep;
	drive_script(&d, &t, 1);
	failed_with(&d, drive_run(&d, DRIVE_LIST, &a), SPOT_BAD_REPLY, NULL);
	drive_fini(&d);
}

static bool refs_have(const struct spot_list *a, const char *ref)
{
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->found[i].ref, ref) == 0) {
			return true;
		}
	}
	return false;
}

#define IN_GROUP(id, code, name) \
	"<item><instanceId>" id "</instanceId><instanceState><code>" code \
	"</code></instanceState><placement><groupName>" name "</groupName></placement></item>"

/* A group is in use until the last of its machines has terminated. */
static void a_list_tells_of_groups_without_a_machine(void **state)
{
	struct spot_list a = { .region = "us-east-1", .install = "x" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &a,
			     { .status = 200,
				 .reply = PAGE(IN_GROUP("i-1", "16", "brk-x-g1")
						   IN_GROUP("i-2", "32", "brk-x-g2")
						       IN_GROUP("i-3", "48", "brk-x-g3"),
				     "") },
			     { .has = { "Action=DescribePlacementGroups",
				   "Filter.1.Name=tag%3Aspotbroker%3Ainstall&Filter.1.Value.1=x" },
				 .status = 503,
				 .reply = EC2_XML("RequestLimitExceeded", "m") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 3); /* the groups wait for the next list */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LIST, &a,
			     { .status = 200,
				 .reply = PAGE(IN_GROUP("i-1", "16", "brk-x-g1")
						   IN_GROUP("i-2", "32", "brk-x-g2")
						       IN_GROUP("i-3", "48", "brk-x-g3"),
				     "") },
			     { .status = 200,
				 .reply = GROUPS(GROUP("brk-x-g1", "x", "available")
					 GROUP("brk-x-g2", "x", "available") GROUP("brk-x-g3", "x",
					     "available") GROUP("brk-x-g4", "x", "deleting")
					     GROUP("brk-y-g5", "y", "available")) }),
	    SPOT_DONE);
	assert_int_equal(a.n, 4);
	assert_true(refs_have(&a, "pg/brk-x-g3"));
	assert_true(a.found[3].leftover);
	assert_string_equal(a.found[3].install, "x");
	drive_fini(&d);
}

static void a_left_group_is_deleted_by_its_ref(void **state)
{
	struct spot_terminate a = { .region = "us-east-1", .zone = "", .ref = "pg/brk-x-g3" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &a,
			     { .has = { "Action=DeletePlacementGroup", "GroupName=brk-x-g3" },
				 .hasnt = { "TerminateInstances" },
				 .mutating = 1,
				 .status = 200,
				 .reply = "<DeletePlacementGroupResponse><return>true</return>"
					  "</DeletePlacementGroupResponse>" }),
	    SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_GONE);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &a,
			     { .status = 400,
				 .reply = EC2_XML("InvalidPlacementGroup.Unknown", "m") }),
	    SPOT_DONE);
	assert_string_equal(a.after.raw_state, SPOT_NOT_FOUND_STATE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_TERMINATE, &a,
		{ .status = 400, .reply = EC2_XML("InvalidPlacementGroup.InUse", "in use") }),
	    SPOT_CONFLICT, "in use");
	drive_fini(&d);
}

static void find_asks_by_token_or_else_by_name(void **state)
{
	struct spot_find a = { .region = "us-east-1",
		.token = "t-1",
		.name = "n-1",
		.install = "x" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_FIND, &a,
			     { .has = { "Filter.1.Name=client-token&Filter.1.Value.1=t-1" },
				 .hasnt = { "Filter.2" },
				 .status = 200,
				 .reply = PAGE("", "") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0);
	a.token = "";
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_FIND, &a,
			     { .has = { "Filter.1.Name=tag%3AName&Filter.1.Value.1=n-1",
				   "Filter.2.Name=tag%3Aspotbroker%3Ainstall&Filter.2.Value.1=x" },
				 .status = 200,
				 .reply = PAGE(ITEM("i-1", "16"), "") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	a.name = NULL;
	failed_with(&d, drive_run(&d, DRIVE_FIND, &a), SPOT_INVALID, NULL);
	drive_fini(&d);
}

/* ---- describe -------------------------------------------------------------------------------- */

static void unknown_ids_are_dropped_and_the_rest_described(void **state)
{
	static const char *const refs[] = { "i-0a", "i-0ab", "not-an-id", "i-0c" };
	struct spot_describe a = { .region = "us-east-1", .refs = refs, .refs_n = 4 };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
			     { .has = { "InstanceId.1=i-0a&InstanceId.2=i-0ab&InstanceId.3=i-0c" },
				 .hasnt = { "MaxResults", "InstanceId.4" },
				 .status = 400,
				 .reply = EC2_XML("InvalidInstanceID.NotFound",
				     "The instance ID 'i-0ab' does not exist") },
			     { .has = { "InstanceId.1=i-0a&InstanceId.2=i-0c" },
				 .status = 400,
				 .reply = EC2_XML("InvalidInstanceID.Malformed",
				     "Invalid id: \"i-0c\"") },
			     { .has = { "InstanceId.1=i-0a" },
				 .hasnt = { "InstanceId.2" },
				 .status = 200,
				 .reply = PAGE(ITEM("i-0a", "16"), "") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	drive_fini(&d);
}

static void a_message_that_names_nobody_leads_to_asking_by_filter(void **state)
{
	static const char *const refs[] = { "i-0a", "i-0b" };
	struct spot_describe a = { .region = "us-east-1", .refs = refs, .refs_n = 2 };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
		{ .status = 400, .reply = EC2_XML("InvalidInstanceID.NotFound", "no such thing") },
		{ .has = { "Filter.1.Name=instance-id&Filter.1.Value.1=i-0a&Filter.1.Value.2=i-0b&"
			   "MaxResults=500" },
		    .hasnt = { "InstanceId." },
		    .status = 200,
		    .reply = PAGE(ITEM("i-0b", "16"), "") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.found[0].ref, "i-0b");
	drive_fini(&d);
}

static void many_ids_are_asked_in_chunks(void **state)
{
	const char *refs[150];
	struct spot_describe a = { .region = "us-east-1", .refs = refs, .refs_n = 150 };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(refs); i++) {
		refs[i] = arena_printf(d.arena, "i-%zu", i);
	}
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
			     { .has = { "InstanceId.100=i-99" },
				 .hasnt = { "InstanceId.101" },
				 .status = 200,
				 .reply = PAGE("", "") },
			     { .has = { "InstanceId.1=i-100", "InstanceId.50=i-149" },
				 .hasnt = { "InstanceId.51" },
				 .status = 200,
				 .reply = PAGE("", "") }),
	    SPOT_DONE);
	a.refs_n = 0;
	assert_int_equal(drive_run(&d, DRIVE_DESCRIBE, &a), SPOT_DONE);
	drive_fini(&d);
}

static void states_are_the_low_byte_of_the_code(void **state)
{
	static const struct {
		const char *code;
		enum spot_instance_state is;
	} cases[] = {
		{ "0", SPOT_INSTANCE_PENDING },
		{ "16", SPOT_INSTANCE_RUNNING },
		{ "272", SPOT_INSTANCE_RUNNING },
		{ "32", SPOT_INSTANCE_STOPPING },
		{ "64", SPOT_INSTANCE_STOPPING },
		{ "48", SPOT_INSTANCE_GONE },
		{ "80", SPOT_INSTANCE_FAILED },
		{ "65584", SPOT_INSTANCE_GONE },
		{ "7", SPOT_INSTANCE_ODD },
		{ "", SPOT_INSTANCE_ODD },
		{ "-16", SPOT_INSTANCE_ODD },
		{ "16.0", SPOT_INSTANCE_ODD },
	};
	static const char *const refs[] = { "i-1" };
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char body[300];
		struct drive_try t = { .status = 200, .reply = body };
		struct spot_describe a = { .region = "us-east-1", .refs = refs, .refs_n = 1 };
		struct drive d;

		snprintf(body, sizeof(body),
		    PAGE("<item><instanceId>i-1</instanceId><instanceState><code>%s</code></"
			 "instanceState>"
			 "</item>",
			""),
		    cases[i].code);
		keyed_init(&d, NULL);
		drive_script(&d, &t, 1);
		assert_int_equal(drive_run(&d, DRIVE_DESCRIBE, &a), SPOT_DONE);
		assert_int_equal(a.found[0].state, cases[i].is);
		drive_fini(&d);
	}
}

/* ---- terminate and notices ------------------------------------------------------------------- */

#define ENDED_FROM(id, code, was) \
	"<TerminateInstancesResponse><instancesSet><item><instanceId>" id \
	"</instanceId><currentState><code>" code \
	"</code><name>x</name></currentState><previousState><code>" was \
	"</code><name>y</name></previousState></item></instancesSet></TerminateInstancesResponse>"
#define ENDED(id, code) ENDED_FROM(id, code, "16")

static void terminate_tells_the_state_and_takes_unknown_for_gone(void **state)
{
	struct spot_terminate a = { .region = "us-east-1", .zone = "use1-az4", .ref = "i-1" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &a,
			     { .has = { "Action=TerminateInstances", "InstanceId.1=i-1" },
				 .hasnt = { "InstanceId.2" },
				 .mutating = 1,
				 .limit = "TerminateInstances",
				 .status = 200,
				 .reply = ENDED("i-1", "32") }),
	    SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_STOPPING);
	assert_false(a.was_gone);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &a,
			     { .status = 200, .reply = ENDED("i-1", "48") }),
	    SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_GONE);
	/* It was gone already, perhaps taken by EC2, which then bills nothing: the description
	 * tells. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &a,
			     { .status = 200, .reply = ENDED_FROM("i-1", "48", "48") }),
	    SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_GONE);
	assert_true(a.was_gone);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_TERMINATE, &a,
			     { .status = 400,
				 .reply = EC2_XML("InvalidInstanceID.NotFound",
				     "The instance ID 'i-1' does not exist") }),
	    SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_GONE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_TERMINATE, &a,
		{ .status = 400,
		    .reply = EC2_XML("OperationNotPermitted", "termination protection") }),
	    SPOT_DENIED, "protection");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_TERMINATE, &a, { .status = 200, .reply = ENDED("i-2", "48") }),
	    SPOT_UNKNOWN, NULL);
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_TERMINATE, &a, { .status = 0 }), SPOT_UNKNOWN, NULL);
	a.ref = "../i-1";
	failed_with(&d, drive_run(&d, DRIVE_TERMINATE, &a), SPOT_INVALID, NULL);
	drive_fini(&d);
}

#define REQUEST(id, code, time) \
	"<item><spotInstanceRequestId>sir-1</spotInstanceRequestId><instanceId>" id \
	"</instanceId><status><code>" code "</code><updateTime>" time \
	"</updateTime><message>m</message></status></item>"
#define REQUESTS(items, token) \
	"<DescribeSpotInstanceRequestsResponse><spotInstanceRequestSet>" items \
	"</spotInstanceRequestSet>" token "</DescribeSpotInstanceRequestsResponse>"

#define NO_EVENTS \
	"<DescribeInstanceStatusResponse><instanceStatusSet/></DescribeInstanceStatusResponse>"

static void reclaims_become_notices_with_two_minutes(void **state)
{
	static const struct spot_instance nodes[] = {
		{ .ref = "i-1", .key = { .market = SPOT_MARKET_SPOT } },
		{ .ref = "i-2", .key = { .market = SPOT_MARKET_ON_DEMAND } },
		{ .ref = "i-3", .key = { .market = SPOT_MARKET_SPOT } },
	};
	struct spot_notices a = { .region = "us-east-1", .instances = nodes, .instances_n = 3 };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_NOTICES, &a,
		{ .has = { "Filter.1.Name=instance-id&Filter.1.Value.1=i-1&Filter.1.Value.2=i-3&"
			   "MaxResults=500" },
		    .hasnt = { "i-2" },
		    .status = 200,
		    .reply = REQUESTS(REQUEST("i-1", "instance-terminated-by-price",
					  "2015-08-30T12:30:00Z")
					  REQUEST("i-3", "fulfilled", "2015-08-30T12:30:00Z"),
			"<nextToken>n</nextToken>") },
		{ .has = { "NextToken=n" },
		    .status = 200,
		    .reply =
			REQUESTS(REQUEST("i-3", "marked-for-termination", "soon") REQUEST("i-1",
				     "instance-terminated-by-user", "2015-08-30T12:30:00Z"),
			    "") },
		{ .has = { "DescribeInstanceStatus" }, .status = 200, .reply = NO_EVENTS }),
	    SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_int_equal(a.notices[0].kind, SPOT_NOTICE_INTERRUPTION);
	assert_int_equal(a.notices[0].deadline_us,
	    DRIVE_NOW_US - 6 * 60 * SPOT_US_PER_S + 120 * SPOT_US_PER_S);
	assert_string_equal(a.notices[1].ref, "i-3");
	assert_int_equal(a.notices[1].deadline_us, 0);
	a.instances = &nodes[1];
	a.instances_n = 1;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_NOTICES, &a,
			     { .has = { "DescribeInstanceStatus" },
				 .status = 200,
				 .reply = NO_EVENTS }),
	    SPOT_DONE);
	assert_int_equal(a.n, 0);
	a.instances_n = 0;
	assert_int_equal(drive_run(&d, DRIVE_NOTICES, &a), SPOT_DONE);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_follow_pages_until_the_token_is_absent_or_empty),
		cmocka_unit_test(a_list_tells_of_groups_without_a_machine),
		cmocka_unit_test(a_left_group_is_deleted_by_its_ref),
		cmocka_unit_test(a_page_token_that_repeats_ends_the_call),
		cmocka_unit_test(replies_of_the_wrong_shape_are_bad_replies),
		cmocka_unit_test(oversized_replies_do_no_harm),
		cmocka_unit_test(find_asks_by_token_or_else_by_name),
		cmocka_unit_test(unknown_ids_are_dropped_and_the_rest_described),
		cmocka_unit_test(a_message_that_names_nobody_leads_to_asking_by_filter),
		cmocka_unit_test(many_ids_are_asked_in_chunks),
		cmocka_unit_test(states_are_the_low_byte_of_the_code),
		cmocka_unit_test(terminate_tells_the_state_and_takes_unknown_for_gone),
		cmocka_unit_test(reclaims_become_notices_with_two_minutes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
