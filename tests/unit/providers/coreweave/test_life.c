#include "base/base.h"
#include "cases.h"

#include "base/text/text.h"

/* Facts about an instance from Pods, nodes, NodePools and events, and the remains of a launch and a
 * terminate. */

#define UNSCHEDULED \
	"\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\"," \
	"\"reason\":" \
	"\"Unschedulable\",\"message\":\"0/2 nodes\"}]"
#define CONDITION(type, status, reason) \
	"{\"type\":\"" type "\",\"status\":\"" status "\",\"reason\":\"" reason \
	"\",\"message\":\"words\"}"
#define EVENT(reason, at) \
	"{\"involvedObject\":{\"kind\":\"NodePool\",\"name\":\"" CW_POOL \
	"\"},\"reason\":\"" reason "\",\"message\":\"m\",\"lastTimestamp\":\"" at "\"}"
#define SOON "2015-08-30T12:31:00Z"

/* Describes one Pod; the drive's clock is six minutes after it was made. */
static const char *server_date; /* header of the replies, NULL = none */

static struct spot_instance pod_look(struct drive *d, const char *pool, const char *pod,
    const char *nodes, const char *events)
{
	struct drive_try *t = arena_array(d->arena, 4, sizeof(*t));
	struct spot_describe *a = cw_args(d->arena, DRIVE_DESCRIBE, true);
	size_t n = 0;

	t[n++] = (struct drive_try){ .status = 200,
		.reply = arena_printf(d->arena, CW_LIST("NodePoolList", "%s"), pool) };
	t[n++] = (struct drive_try){ .status = 200,
		.reply = arena_printf(d->arena, CW_LIST("PodList", "%s"), pod) };
	if (nodes != NULL) {
		t[n++] = (struct drive_try){ .status = 200,
			.reply = arena_printf(d->arena, CW_LIST("NodeList", "%s"), nodes) };
	}
	if (events != NULL) {
		t[n++] = (struct drive_try){ .status = 200,
			.reply = arena_printf(d->arena, CW_LIST("EventList", "%s"), events) };
	}
	for (size_t i = 0; i < n; i++) {
		t[i].reply_headers[0] = server_date;
	}
	drive_script(d, t, n);
	if (drive_run(d, DRIVE_DESCRIBE, a) != SPOT_DONE || a->n != 1) {
		fail_msg("describe: %zu found, %s", a->n, d->call.err.text);
	}
	drive_used(d);
	return a->found[0];
}

static void assert_is(struct spot_instance i, enum spot_instance_state state,
    enum spot_end_cause cause, const char *words)
{
	if (i.state != state || i.end_cause != cause || strstr(i.raw_reason, words) == NULL) {
		fail_msg("%s cause %d '%s', wanted %s cause %d '%s'",
		    spot_instance_state_name(i.state), (int)i.end_cause, i.raw_reason,
		    spot_instance_state_name(state), (int)cause, words);
	}
}

/* ---- states ---------------------------------------------------------------------------------- */

static const struct {
	const char *pod;
	enum spot_instance_state is;
	enum spot_end_cause cause;
	const char *words;
} states[] = {
	{ CW_POD("", "", "\"phase\":\"Succeeded\""), SPOT_INSTANCE_GONE, SPOT_END_GUEST, "" },
	/* evicted: it saved in its grace and ended well; a deletion by somebody says nothing of
	 * that, and our deletions are ours */
	{ CW_POD(",\"deletionTimestamp\":\"2015-08-30T12:40:00Z\","
		 "\"deletionGracePeriodSeconds\":400",
	      "",
	      "\"phase\":\"Succeeded\","
	      "\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\","
	      "\"reason\":\"EvictionByEvictionAPI\",\"message\":\"x\"}]"),
	    SPOT_INSTANCE_GONE, SPOT_END_RECLAIM, "EvictionByEvictionAPI" },
	{ CW_POD(",\"deletionTimestamp\":\"2015-08-30T12:40:00Z\","
		 "\"deletionGracePeriodSeconds\":400",
	      "", "\"phase\":\"Succeeded\""),
	    SPOT_INSTANCE_GONE, SPOT_END_GUEST, "" },
	{ CW_POD("", "",
	      "\"phase\":\"Succeeded\",\"conditions\":[{\"type\":\"DisruptionTarget\","
	      "\"status\":\"False\",\"reason\":\"x\"}]"),
	    SPOT_INSTANCE_GONE, SPOT_END_GUEST, "" },
	{ CW_POD(",\"deletionTimestamp\":\"2015-08-30T12:40:00Z\","
		 "\"deletionGracePeriodSeconds\":31",
	      "",
	      "\"phase\":\"Succeeded\","
	      "\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\","
	      "\"reason\":\"EvictionByEvictionAPI\",\"message\":\"x\"}]"),
	    SPOT_INSTANCE_GONE, SPOT_END_USER, "EvictionByEvictionAPI" },
	{ CW_POD("", "",
	      "\"phase\":\"Failed\",\"containerStatuses\":[{\"state\":{\"terminated\":{"
	      "\"exitCode\":137,\"reason\":"
	      "\"OOMKilled\"}}}]"),
	    SPOT_INSTANCE_GONE, SPOT_END_GUEST, "exit 137 (OOMKilled)" },
	{ CW_POD("", "",
	      "\"phase\":\"Failed\",\"reason\":\"Evicted\",\"message\":\"node drained\""),
	    SPOT_INSTANCE_INTERRUPTED, SPOT_END_RECLAIM, "Evicted node drained" },
	/* rejected by the kubelet, or lost with its node: not an end of its own */
	{ CW_POD("", "",
	      "\"phase\":\"Failed\",\"reason\":\"OutOfnvidia.com/gpu\",\"message\":\"Pod "
	      "was rejected\""),
	    SPOT_INSTANCE_INTERRUPTED, SPOT_END_RECLAIM, "OutOfnvidia.com/gpu" },
	{ CW_POD("", "",
	      "\"phase\":\"Failed\",\"containerStatuses\":[{\"name\":\"node\",\"state\":{"
	      "\"terminated\":{\"exitCode\":137,"
	      "\"reason\":\"ContainerStatusUnknown\"}}}]"),
	    SPOT_INSTANCE_INTERRUPTED, SPOT_END_RECLAIM, "ContainerStatusUnknown" },
	/* a webhook's container beside ours does not speak for it */
	{ CW_POD("", "",
	      "\"phase\":\"Failed\",\"containerStatuses\":[{\"name\":\"node\",\"state\":{"
	      "\"terminated\":{\"exitCode\":3,"
	      "\"reason\":\"Error\"}}},{\"name\":\"proxy\",\"state\":{\"terminated\":{"
	      "\"exitCode\":0,\"reason\":\"Completed\"}}}]"),
	    SPOT_INSTANCE_GONE, SPOT_END_GUEST, "exit 3 (Error)" },
	{ CW_POD("", "",
	      "\"phase\":\"Failed\",\"conditions\":[{\"type\":\"DisruptionTarget\","
	      "\"status\":\"True\",\"reason\":"
	      "\"DeletionByTaintManager\",\"message\":\"x\"}]"),
	    SPOT_INSTANCE_INTERRUPTED, SPOT_END_RECLAIM, "DeletionByTaintManager" },
	{ CW_POD(",\"deletionTimestamp\":\"2015-08-30T12:40:00Z\","
		 "\"deletionGracePeriodSeconds\":31",
	      "", "\"phase\":\"Running\""),
	    SPOT_INSTANCE_STOPPING, SPOT_END_USER, "deleted by us" },
	{ CW_POD(",\"deletionTimestamp\":\"2015-08-30T12:40:00Z\","
		 "\"deletionGracePeriodSeconds\":400",
	      "", "\"phase\":\"Running\""),
	    SPOT_INSTANCE_STOPPING, SPOT_END_NONE, "somebody else" },
	{ CW_POD("", "",
	      "\"phase\":\"Pending\",\"containerStatuses\":[{\"state\":{\"waiting\":{"
	      "\"reason\":\"ImagePullBackOff\","
	      "\"message\":\"no such image\"}}}]"),
	    SPOT_INSTANCE_FAILED, SPOT_END_NONE, "IMAGE: ImagePullBackOff: no such image" },
	{ CW_POD("", "",
	      "\"phase\":\"Pending\",\"containerStatuses\":[{\"restartCount\":1,\"state\":{"
	      "\"waiting\":{\"reason\":"
	      "\"CrashLoopBackOff\"}}}]"),
	    SPOT_INSTANCE_PENDING, SPOT_END_NONE, "CrashLoopBackOff" },
	{ CW_POD("", "",
	      "\"phase\":\"Pending\",\"containerStatuses\":[{\"restartCount\":2,\"state\":{"
	      "\"waiting\":{\"reason\":"
	      "\"CrashLoopBackOff\"}}}]"),
	    SPOT_INSTANCE_FAILED, SPOT_END_NONE, "CONFIG" },
	{ CW_POD("", "", "\"phase\":\"Pending\""), SPOT_INSTANCE_PENDING, SPOT_END_NONE, "" },
	{ CW_POD("", "", ""), SPOT_INSTANCE_PENDING, SPOT_END_NONE, "" },
	{ CW_POD("", "", "\"phase\":\"Dreaming\""), SPOT_INSTANCE_ODD, SPOT_END_NONE, "" },
};

static void each_state_of_a_pod_is_one_of_ours(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		assert_is(pod_look(*state, "", states[i].pod, NULL, NULL), states[i].is,
		    states[i].cause, states[i].words);
	}
}

#define RUNNING CW_POD("", ",\"nodeName\":\"g1\"", "\"phase\":\"Running\"")

static void a_pod_whose_node_is_gone_was_taken(void **state)
{
	assert_is(pod_look(*state, "", RUNNING, "{\"metadata\":{\"name\":\"g1\"}}", NULL),
	    SPOT_INSTANCE_RUNNING, SPOT_END_NONE, "");
	assert_is(pod_look(*state, "", RUNNING, "{\"metadata\":{\"name\":\"g2\"}}", NULL),
	    SPOT_INSTANCE_INTERRUPTED, SPOT_END_RECLAIM, "node g1 does not exist");
	assert_is(pod_look(*state, "", RUNNING,
		      "{\"metadata\":{\"name\":\"g1\"},\"spec\":{\"unschedulable\":true}}", NULL),
	    SPOT_INSTANCE_RUNNING, SPOT_END_NONE, "cordoned");
	assert_is(pod_look(*state, "", RUNNING,
		      "{\"metadata\":{\"name\":\"g1\"},\"status\":{\"conditions\":[{\"type\":"
		      "\"Ready\","
		      "\"status\":\"Unknown\","
		      "\"reason\":\"NodeStatusUnknown\",\"message\":\"Kubelet stopped posting node "
		      "status.\"}]}}",
		      NULL),
	    SPOT_INSTANCE_RUNNING, SPOT_END_NONE, "NodeStatusUnknown");
}

/* ---- an order that is not filled ------------------------------------------------------------- */

#define WAITING CW_POD("", "", UNSCHEDULED)

static void why_a_pod_gets_no_node(void **state)
{
	static const struct {
		const char *pool, *events;
		enum spot_instance_state is;
		const char *words;
	} cases[] = {
		/* nobody says anything: it is under way */
		{ CW_NODEPOOL(1, 0, ""), "", SPOT_INSTANCE_PENDING, "0/2 nodes" },
		{ CW_NODEPOOL(1, 0, CONDITION("Capacity", "True", "CapacityAvailable")), "",
		    SPOT_INSTANCE_PENDING, "" },
		{ CW_NODEPOOL(1, 0, CONDITION("InsufficientCapacity", "False", "x")), "",
		    SPOT_INSTANCE_PENDING, "" },
		{ CW_NODEPOOL(1, 0, CONDITION("Ready", "False", "Scaling")), "",
		    SPOT_INSTANCE_PENDING, "" },
		{ CW_NODEPOOL(1, 0,
		      CONDITION("Capacity", "Unknown", "Checking") "," CONDITION("Quota", "Unknown",
			  "")),
		    "", SPOT_INSTANCE_PENDING, "" },
		/* conditions under several names */
		{ CW_NODEPOOL(1, 0, CONDITION("Capacity", "False", "x")), "", SPOT_INSTANCE_FAILED,
		    "NO_CAPACITY: condition Capacity=False x: words" },
		{ CW_NODEPOOL(1, 0, CONDITION("InsufficientCapacity", "True", "x")), "",
		    SPOT_INSTANCE_FAILED, "NO_CAPACITY" },
		{ CW_NODEPOOL(1, 0, CONDITION("Ready", "False", "CWInsufficientCapacity")), "",
		    SPOT_INSTANCE_FAILED, "NO_CAPACITY" },
		{ CW_NODEPOOL(1, 0, CONDITION("Quota", "False", "CWOverQuota")), "",
		    SPOT_INSTANCE_FAILED, "QUOTA" },
		{ CW_NODEPOOL(1, 0,
		      CONDITION("OverQuota", "True", "x") "," CONDITION("Capacity", "False", "x")),
		    "", SPOT_INSTANCE_FAILED, "QUOTA" },
		/* events: of now, not of before the Pod */
		{ CW_NODEPOOL(1, 0, ""), EVENT("CWInsufficientCapacity", SOON),
		    SPOT_INSTANCE_FAILED, "NO_CAPACITY: event CWInsufficientCapacity: m" },
		{ CW_NODEPOOL(1, 0, ""), EVENT("CWOverQuota", SOON), SPOT_INSTANCE_FAILED,
		    "QUOTA" },
		{ CW_NODEPOOL(1, 0, ""), EVENT("CWInsufficientCapacity", "2015-08-30T12:29:00Z"),
		    SPOT_INSTANCE_PENDING, "" },
		{ CW_NODEPOOL(1, 0, ""),
		    "{\"metadata\":{\"creationTimestamp\":\"" SOON
		    "\"},\"involvedObject\":{\"kind\":\"NodePool\",\"name\":\"" CW_POOL
		    "\"},\"reason\":\"CWInsufficientCapacity\",\"message\":\"m\","
		    "\"firstTimestamp\":null,\"lastTimestamp\":null,\"eventTime\":null,"
		    "\"series\":null}",
		    SPOT_INSTANCE_FAILED, "NO_CAPACITY" },
		{ CW_NODEPOOL(1, 0, ""), EVENT("CWNodeAssigned", SOON), SPOT_INSTANCE_PENDING, "" },
		/* the nodes are there, the Pod does not fit */
		{ CW_NODEPOOL(1, 1, ""), "", SPOT_INSTANCE_FAILED, "CONFIG" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_is(pod_look(*state, cases[i].pool, WAITING, NULL, cases[i].events),
		    cases[i].is, SPOT_END_NONE, cases[i].words);
	}
}

static void an_order_that_nobody_fills_is_given_up_in_time(void **state)
{
	struct drive *d = *state;
	int64_t made = DRIVE_NOW_US - 6 * 60 * SPOT_US_PER_S;

	d->now_us = made + 19 * 60 * SPOT_US_PER_S;
	assert_is(pod_look(d, CW_NODEPOOL(1, 0, ""), WAITING, NULL, ""), SPOT_INSTANCE_PENDING,
	    SPOT_END_NONE, "");
	d->now_us = made + 20 * 60 * SPOT_US_PER_S;
	assert_is(pod_look(d, CW_NODEPOOL(1, 0, ""), WAITING, NULL, ""), SPOT_INSTANCE_FAILED,
	    SPOT_END_NONE, "NO_CAPACITY: no node within 1200 s");
	/* Ours is twenty minutes ahead: by the clock that dated the Pod it has time. */
	server_date = "Date: Sun, 30 Aug 2015 12:45:00 GMT";
	assert_is(pod_look(d, CW_NODEPOOL(1, 0, ""), WAITING, NULL, ""), SPOT_INSTANCE_PENDING,
	    SPOT_END_NONE, "");
	server_date = NULL;
}

static void an_old_condition_is_not_believed_of_a_new_order(void **state)
{
	struct drive *d = *state;
	int64_t made = DRIVE_NOW_US - 6 * 60 * SPOT_US_PER_S;

	d->now_us = made + 10 * SPOT_US_PER_S;
	assert_is(pod_look(d, CW_NODEPOOL(1, 0, CONDITION("Capacity", "False", "x")), WAITING, NULL,
		      ""),
	    SPOT_INSTANCE_PENDING, SPOT_END_NONE, "");
	assert_is(pod_look(d,
		      CW_NODEPOOL(1, 0,
			  "{\"type\":\"Capacity\",\"status\":\"False\",\"lastTransitionTime\":"
			  "\"" SOON "\"}"),
		      WAITING, NULL, ""),
	    SPOT_INSTANCE_FAILED, SPOT_END_NONE, "NO_CAPACITY");
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void the_order_for_a_pod_that_was_taken_is_lowered_when_it_is_seen(void **state)
{
	static const struct drive_try tries[] = {
		R(200, CW_LIST("NodePoolList", CW_NODEPOOL(1, 1, ""))),
		PODS(CW_POD(",\"deletionTimestamp\":\"2015-08-30T12:40:00Z\","
			    "\"deletionGracePeriodSeconds\":400",
		    "", "\"phase\":\"Running\"")),
		{ .method = "PATCH",
		    .body =
			"{\"metadata\":{\"resourceVersion\":\"5\"},\"spec\":{\"targetNodes\":0}}",
		    .status = 409,
		    .reply = "{}" },
	};
	struct drive *d = *state;

	drive_script(d, tries, ARRAY_LEN(tries));
	assert_int_equal(drive_run(d, DRIVE_DESCRIBE, cw_args(d->arena, DRIVE_DESCRIBE, true)),
	    SPOT_DONE);
	drive_used(d); /* overtaken: the next look does it */
}

static void a_pod_that_vanished_was_taken_if_its_order_is_still_there(void **state)
{
	static const struct drive_try taken[] = {
		R(200, CW_LIST("NodePoolList", CW_NODEPOOL(1, 0, ""))), PODS(""),
		{ .method = "PATCH",
		    .body =
			"{\"metadata\":{\"resourceVersion\":\"5\"},\"spec\":{\"targetNodes\":0}}",
		    .status = 200,
		    .reply = CW_NODEPOOL(0, 0, "") }
	};
	static const struct drive_try ended[] = {
		R(200, CW_LIST("NodePoolList", CW_NODEPOOL(0, 0, ""))), PODS("")
	};
	struct drive *d = *state;
	struct spot_describe *a = cw_args(d->arena, DRIVE_DESCRIBE, true);

	drive_script(d, taken, ARRAY_LEN(taken));
	assert_int_equal(drive_run(d, DRIVE_DESCRIBE, a), SPOT_DONE);
	drive_used(d);
	assert_int_equal(a->n, 1);
	assert_is(a->found[0], SPOT_INSTANCE_GONE, SPOT_END_RECLAIM, "its order does");
	drive_script(d, ended, ARRAY_LEN(ended));
	assert_int_equal(drive_run(d, DRIVE_DESCRIBE, a), SPOT_DONE);
	assert_int_equal(a->n, 0); /* by ourselves: the order went with it */
}

#define OF_ANOTHER(id) \
	"{\"kind\":\"NodePool\",\"apiVersion\":\"compute.coreweave.com/" \
	"v1alpha1\",\"metadata\":{\"name\":\"theirs\",\"uid\":\"u\"," \
	"\"resourceVersion\":\"5\",\"labels\":{\"spotbroker.io/install\":\"" id \
	"\"}},\"spec\":{\"computeClass\":\"spot\"," \
	"\"instanceType\":\"gd-8xh100ib-i128\",\"targetNodes\":1},\"status\":{\"currentNodes\":0," \
	"\"conditions\":[]}}"

static void an_order_of_another_pool_is_none_of_its_business(void **state)
{
	static const struct spot_pool_key other[] = { { "coreweave", "", "", "gd-8xh100ib-i128",
							  SPOT_MARKET_ON_DEMAND },
		{ "coreweave", "", "", "gd-8xl40", SPOT_MARKET_SPOT } };
	static const struct drive_try taken[] = {
		R(200, CW_LIST("NodePoolList", CW_NODEPOOL(1, 0, ""))), PODS("")
	};
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(other); i++) {
		struct spot_pool_key keys[] = { other[i], other[i] };
		struct spot_describe *a = cw_args(d->arena, DRIVE_DESCRIBE, true);

		a->keys = keys;
		drive_script(d, taken, ARRAY_LEN(taken));
		assert_int_equal(drive_run(d, DRIVE_DESCRIBE, a), SPOT_DONE);
		drive_used(d); /* nothing is lowered */
		assert_int_equal(a->n, 0);
	}
}

/* Its id is part of ours, or ours of its. */
static void an_order_of_another_installation_is_left_alone(void **state)
{
	static const struct drive_try taken[][2] = {
		{ R(200, CW_LIST("NodePoolList", OF_ANOTHER("1"))), PODS("") },
		{ R(200, CW_LIST("NodePoolList", OF_ANOTHER(CW_INSTALL "0"))), PODS("") }
	};
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		struct spot_describe *a = cw_args(d->arena, DRIVE_DESCRIBE, true);

		drive_script(d, taken[i], ARRAY_LEN(taken[i]));
		assert_int_equal(drive_run(d, DRIVE_DESCRIBE, a), SPOT_DONE);
		drive_used(d);
		assert_int_equal(a->n, 0);
	}
}

static void a_target_that_moved_is_counted_again(void **state)
{
	static const struct drive_try tries[] = {
		{ .method = "DELETE",
		    .has = { "\"uid\":\"" CW_UID "\"", "\"gracePeriodSeconds\":31" },
		    .mutating = 1,
		    .fresh = true,
		    .status = 200,
		    .reply = RUNNING },
		R(200, CW_NODEPOOL(2, 2, "")),
		PODS(""),
		{ .method = "PATCH",
		    .status = 409,
		    .reply = CW_STATUS(409, "Conflict", "modified", "{}") },
		{ .method = "GET", .status = 200, .reply = CW_NODEPOOL(3, 2, "") },
		PODS(RUNNING),
		{ .method = "PATCH",
		    .has = { "\"targetNodes\":1" },
		    .status = 200,
		    .reply = CW_NODEPOOL(1, 2, "") },
	};
	struct drive *d = *state;
	struct spot_terminate *a = cw_args(d->arena, DRIVE_TERMINATE, true);

	drive_script(d, tries, ARRAY_LEN(tries));
	assert_int_equal(drive_run(d, DRIVE_TERMINATE, a), SPOT_DONE);
	drive_used(d);
}

/* So that an earlier counter cannot write its count any more: a write without a change would not
 * stop him. */
static void a_right_target_is_written_with_a_note(void **state)
{
	static const struct drive_try tries[] = { R(200, RUNNING), R(200, CW_NODEPOOL(0, 1, "")),
		PODS(""),
		{ .method = "PATCH",
		    .body = "{\"metadata\":{\"resourceVersion\":\"5\",\"annotations\":{"
			    "\"spotbroker.io/counted\":\"5\"}},"
			    "\"spec\":{\"targetNodes\":0}}",
		    .status = 200,
		    .reply = CW_NODEPOOL(0, 1, "") } };
	struct drive *d = *state;

	drive_script(d, tries, ARRAY_LEN(tries));
	assert_int_equal(drive_run(d, DRIVE_TERMINATE, cw_args(d->arena, DRIVE_TERMINATE, true)),
	    SPOT_DONE);
	drive_used(d);
}

static void a_list_of_nothing_may_be_null(void **state)
{
	static const struct drive_try tries[] = { R(200,
						      "{\"kind\":\"NodePoolList\",\"metadata\":{"
						      "\"resourceVersion\":\"9\"},\"items\":null}"),
		R(200,
		    "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"9\"},\"items\":"
		    "null}") };
	struct drive *d = *state;
	struct spot_list *a = cw_args(d->arena, DRIVE_LIST, true);

	drive_script(d, tries, ARRAY_LEN(tries));
	assert_int_equal(drive_run(d, DRIVE_LIST, a), SPOT_DONE);
	drive_used(d);
	assert_int_equal(a->n, 0);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, cw_setup, cw_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(each_state_of_a_pod_is_one_of_ours),
		T(a_pod_whose_node_is_gone_was_taken),
		T(why_a_pod_gets_no_node),
		T(an_order_that_nobody_fills_is_given_up_in_time),
		T(an_old_condition_is_not_believed_of_a_new_order),
		T(the_order_for_a_pod_that_was_taken_is_lowered_when_it_is_seen),
		T(a_pod_that_vanished_was_taken_if_its_order_is_still_there),
		T(an_order_of_another_pool_is_none_of_its_business),
		T(an_order_of_another_installation_is_left_alone),
		T(a_target_that_moved_is_counted_again),
		T(a_right_target_is_written_with_a_note),
		T(a_list_of_nothing_may_be_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
