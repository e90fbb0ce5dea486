/* find, list, describe, terminate: the facts of the list of instances, and its gaps. */
#include "base/base.h"
#include "lambda_test.h"

#include "base/text/text.h"

static const struct spot_instance *by_ref(const struct spot_instance *list, size_t n, char first)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i].ref[0] == first) {
			return &list[i];
		}
	}
	return NULL;
}

static void only_instances_of_our_installation_are_listed(void **state)
{
	struct drive *d = *state;
	struct spot_list a = { .region = "", .install = "7f3a" };
	const struct drive_try script[] = { { .method = "GET",
	    .url = LAMBDA_API "/instances",
	    .limit = "general",
	    .mutating = -1,
	    .status = 200,
	    .reply = golden(d, "instances.json") } };

	drive_script(d, script, 1);
	assert_int_equal(drive_run(d, DRIVE_LIST, &a), SPOT_DONE);
	assert_int_equal(a.n, 7);
	assert_null(by_ref(a.found, a.n, '7')); /* install 7f3 is another one */
	assert_null(by_ref(a.found, a.n, '8')); /* our name, somebody else's tag */
	assert_null(by_ref(a.found, a.n, '9'));
	assert_null(by_ref(a.found, a.n, 'a'));
	assert_non_null(by_ref(a.found, a.n, '1')); /* by name alone: the tags are missing */
}

static void a_region_narrows_the_list(void **state)
{
	struct drive *d = *state;
	struct spot_list a = { .region = "us-west-1", .install = "7f3a" };

	assert_int_equal(reply_with(d, DRIVE_LIST, &a, 200, golden(d, "instances.json")),
	    SPOT_DONE);
	assert_int_equal(a.n, 3);
}

static void statuses_are_mapped_and_unknown_ones_are_odd(void **state)
{
	static const struct {
		char first;
		enum spot_instance_state state;
		const char *raw;
	} want[] = {
		{ '0', SPOT_INSTANCE_RUNNING, "active" },
		{ '1', SPOT_INSTANCE_PENDING, "booting" },
		{ '2', SPOT_INSTANCE_STOPPING, "terminating" },
		{ '3', SPOT_INSTANCE_GONE, "terminated" },
		{ '4', SPOT_INSTANCE_FAILED, "unhealthy" },
		{ '5', SPOT_INSTANCE_INTERRUPTED, "preempted" },
		{ '6', SPOT_INSTANCE_ODD, "hibernating" },
	};
	struct drive *d = *state;
	struct spot_list a = { .region = "", .install = "7f3a" };

	assert_int_equal(reply_with(d, DRIVE_LIST, &a, 200, golden(d, "instances.json")),
	    SPOT_DONE);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const struct spot_instance *x = by_ref(a.found, a.n, want[i].first);

		assert_non_null(x);
		assert_int_equal(x->state, want[i].state);
		assert_string_equal(x->raw_state, want[i].raw);
	}
	assert_int_equal(by_ref(a.found, a.n, '5')->end_cause, SPOT_END_RECLAIM);
}

static void fields_of_an_instance_are_read(void **state)
{
	struct drive *d = *state;
	struct spot_list a = { .region = "", .install = "7f3a" };
	const struct spot_instance *x;

	assert_int_equal(reply_with(d, DRIVE_LIST, &a, 200, golden(d, "instances.json")),
	    SPOT_DONE);
	x = by_ref(a.found, a.n, '0');
	assert_string_equal(x->ref, LAMBDA_ID);
	assert_string_equal(x->token, "tok-12");
	assert_string_equal(x->install, "7f3a");
	assert_string_equal(x->ip, "198.51.100.7");
	assert_string_equal(x->key.region, "us-east-1");
	assert_string_equal(x->key.zone, "");
	assert_string_equal(x->key.instance_type, "gpu_1x_a10");
	assert_int_equal(x->key.market, SPOT_MARKET_ON_DEMAND);
	assert_int_equal(x->created_us, INT64_C(1767323045000000)); /* from the name */
	x = by_ref(a.found, a.n, '1');
	assert_string_equal(x->ip, ""); /* not yet */
	assert_string_equal(x->token, "");
	assert_string_equal(x->install, "7f3a"); /* from the name */
}

static void find_knows_a_launch_by_name_or_by_tag(void **state)
{
	struct drive *d = *state;
	struct spot_find by_name = { .name = "brk.7f3a.n13.1767323060",
		.token = "tok-13",
		.install = "7f3a" };
	struct spot_find by_tag = { .name = "brk.7f3a.renamed.1767323045",
		.token = "tok-12",
		.install = "7f3a" };
	struct spot_find none = { .name = "brk.7f3a.n13.176732306",
		.token = "tok-1",
		.install = "7f3a" };

	assert_int_equal(reply_with(d, DRIVE_FIND, &by_name, 200, golden(d, "instances.json")),
	    SPOT_DONE);
	assert_int_equal(by_name.n, 1);
	assert_int_equal(by_name.found[0].ref[0], '1');
	assert_int_equal(reply_with(d, DRIVE_FIND, &by_tag, 200, golden(d, "instances.json")),
	    SPOT_DONE);
	assert_int_equal(by_tag.n, 1); /* not the one of install 7f3 with the same token */
	assert_int_equal(by_tag.found[0].ref[0], '0');
	assert_int_equal(reply_with(d, DRIVE_FIND, &none, 200, golden(d, "instances.json")),
	    SPOT_DONE);
	assert_int_equal(none.n, 0);
}

static void a_launch_that_happened_twice_is_found_twice(void **state)
{
	struct drive *d = *state;
	struct spot_find a = { .name = LAMBDA_NAME, .token = "tok-12", .install = "7f3a" };
	char body[1024];

	snprintf(body, sizeof(body),
	    "{\"data\":[{\"id\":\"a1\",\"name\":\"%s\",\"status\":\"active\",\"region\":{\"name\":"
	    "\"r\"},"
	    "\"instance_type\":{\"name\":\"t\"}},{\"id\":\"a2\",\"name\":\"%s\",\"status\":"
	    "\"booting\","
	    "\"region\":{\"name\":\"r\"},\"instance_type\":{\"name\":\"t\"}}]}",
	    LAMBDA_NAME, LAMBDA_NAME);
	assert_int_equal(reply_with(d, DRIVE_FIND, &a, 200, body), SPOT_DONE);
	assert_int_equal(a.n, 2);
}

#define REF_ACTIVE "2f1e2d3c4b5a69788796a5b4c3d2e1f0"
#define REF_ABSENT "ffffffffffffffffffffffffffffffff"
#define REF_SECOND "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
#define AUDIT_URL LAMBDA_API "/audit-events?start=2015-08-29T12%3A36%3A00Z"
#define EVENT(action, ref, actor, key) \
	"{\"service_name\":\"cloud\",\"resource_name\":\"instance\",\"action\":\"" action \
	"\",\"catalog_version\":\"2025-09-06\",\"event_id\":\"e1\",\"event_time\":\"2015-08-" \
	"30T12:30:00Z\"," \
	"\"actor_lrn\":" actor ",\"resource_lrns\":[\"lrn:cloud:instance:" ref "\"]," \
	"\"resource_owner_lrn\":null,\"request_api_key_lrn\":" key ",\"additional_details\":{}}"
#define EVENTS(list, token) "{\"data\":[" list "],\"page_token\":" token "}"

static const char *const asked[] = { REF_ACTIVE, REF_ABSENT, LAMBDA_ID };

static void describe_asks_once_for_all(void **state)
{
	static const char *const refs[] = { REF_ACTIVE, LAMBDA_ID };
	struct drive *d = *state;
	struct spot_describe a = { .region = "us-east-1", .refs = refs, .refs_n = 2 };
	struct spot_describe none = { .region = "", .n = 7 };

	assert_int_equal(reply_with(d, DRIVE_DESCRIBE, &a, 200, golden(d, "instances.json")),
	    SPOT_DONE);
	assert_int_equal(a.n, 2);
	drive_script(d, NULL, 0);
	assert_int_equal(drive_run(d, DRIVE_DESCRIBE, &none), SPOT_DONE);
	assert_int_equal(none.n, 0);
}

/* One list, then the events about the one that it lacks. */
static const struct spot_instance *absent_one(struct drive *d, struct spot_describe *a,
    const char *events)
{
	struct drive_try script[] = { { .url = LAMBDA_API "/instances",
					  .status = 200,
					  .reply = golden(d, "instances.json") },
		{ .method = "GET",
		    .url = AUDIT_URL,
		    .limit = "general",
		    .mutating = -1,
		    .status = 200,
		    .reply = events } };

	*a = (struct spot_describe){ .region = "us-east-1", .refs = asked, .refs_n = 3 };
	drive_script(d, script, 2);
	assert_int_equal(drive_run(d, DRIVE_DESCRIBE, a), SPOT_DONE);
	assert_int_equal(d->used, 2);
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->found[i].ref, REF_ABSENT) == 0) {
			return &a->found[i];
		}
	}
	return NULL;
}

static void the_events_name_the_cause_of_an_absent_instances_end(void **state)
{
	struct drive *d = *state;
	struct spot_describe a;
	const struct spot_instance *x = absent_one(d, &a,
	    EVENTS(EVENT("terminated", REF_ABSENT, "\"lrn:cloud:identity:00aa\"", "null"), "null"));

	assert_non_null(x);
	assert_int_equal(a.n, 3);
	assert_int_equal(x->state, SPOT_INSTANCE_GONE);
	assert_int_equal(x->end_cause, SPOT_END_USER);
	assert_string_equal(x->raw_state, SPOT_ABSENT_STATE); /* no proof by itself */
	assert_non_null(strstr(x->raw_reason, "lrn:cloud:identity:00aa at 2015-08-30T12:30:00Z"));
	x = absent_one(d, &a,
	    EVENTS(EVENT("terminate", REF_ABSENT, "null", "\"lrn:cloud:api_key:1\""), "null"));
	assert_int_equal(x->end_cause, SPOT_END_USER);
	x = absent_one(d, &a, EVENTS(EVENT("deleted", REF_ABSENT, "null", "null"), "null"));
	assert_int_equal(x->end_cause, SPOT_END_PROVIDER);
}

static void an_instance_without_events_stays_absent(void **state)
{
	static const char *const events[] = {
		EVENTS("", "null"),
		EVENTS(EVENT("launched", REF_ABSENT, "null", "null"), "null"),
		EVENTS(EVENT("terminated", REF_SECOND, "null", "null"), "null"),
		EVENTS(EVENT("terminated", REF_ABSENT "0", "null", "null"), "null"),
		EVENTS("7,null,{},{\"action\":7,\"resource_lrns\":7}", "null"),
		"{\"data\":7}",
		"{\"data\":",
		"",
	};
	struct drive *d = *state;
	struct spot_describe a;

	for (size_t i = 0; i < ARRAY_LEN(events); i++) {
		assert_null(absent_one(d, &a, events[i]));
		assert_int_equal(a.n, 2);
	}
}

static void events_that_cannot_be_had_do_not_fail_the_list(void **state)
{
	static const int statuses[] = { 401, 403, 404, 429, 503, 0 };
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
		struct spot_describe a = { .region = "us-east-1", .refs = asked, .refs_n = 3 };
		struct drive_try script[] = { { .status = 200,
						  .reply = golden(d, "instances.json") },
			{ .url = AUDIT_URL, .status = statuses[i], .reply = "<html>" } };

		drive_script(d, script, 2);
		assert_int_equal(drive_run(d, DRIVE_DESCRIBE, &a), SPOT_DONE);
		assert_int_equal(d->used, 2);
		assert_int_equal(a.n, 2);
	}
}

static void pages_of_events_are_followed_to_an_end(void **state)
{
	struct drive *d = *state;
	struct spot_describe a = { .region = "us-east-1", .refs = asked, .refs_n = 3 };
	struct drive_try script[7] = { { .status = 200, .reply = golden(d, "instances.json") },
		{ .url = AUDIT_URL, .status = 200, .reply = EVENTS("", "\"a+b=\"") },
		{ .url = AUDIT_URL "&page_token=a%2Bb%3D",
		    .status = 200,
		    .reply =
			EVENTS(EVENT("terminated", REF_ABSENT, "null", "null"), "\"more\"") } };

	drive_script(d, script, 3); /* everything is known: the rest is not read */
	assert_int_equal(drive_run(d, DRIVE_DESCRIBE, &a), SPOT_DONE);
	assert_int_equal(d->used, 3);
	assert_int_equal(a.n, 3);
	for (size_t i = 1; i < ARRAY_LEN(script); i++) {
		script[i] = (struct drive_try){ .status = 200, .reply = EVENTS("", "\"same\"") };
	}
	drive_script(d, script, 6); /* an endless record ends after five */
	assert_int_equal(drive_run(d, DRIVE_DESCRIBE, &a), SPOT_DONE);
	assert_int_equal(d->used, 6);
	assert_int_equal(a.n, 2);
}

static void wrong_types_make_the_whole_list_a_bad_reply(void **state)
{
	static const char *const bodies[] = {
		"{\"data\":{}}",
		"{\"data\":[7]}",
		"{\"data\":[{}]}",
		"{\"data\":[{\"id\":7,\"status\":\"active\",\"region\":{\"name\":\"r\"},\"instance_"
		"type\":{\"name\":\"t\"}}]}",
		"{\"data\":[{\"id\":\"\",\"status\":\"active\",\"region\":{\"name\":\"r\"},"
		"\"instance_"
		"type\":{\"name\":\"t\"}}]}",
		"{\"data\":[{\"id\":\"a "
		"b\",\"status\":\"active\",\"region\":{\"name\":\"r\"},\"instance_type\":{\"name\":"
		"\"t\"}}]}",
		"{\"data\":[{\"id\":\"a\",\"status\":true,\"region\":{\"name\":\"r\"},\"instance_"
		"type\":{\"name\":\"t\"}}]}",
		"{\"data\":[{\"id\":\"a\",\"status\":\"active\",\"region\":\"r\",\"instance_type\":"
		"{"
		"\"name\":\"t\"}}]}",
		"{\"data\":[{\"id\":\"a\",\"status\":\"active\",\"region\":{\"name\":\"r\"},"
		"\"instance_"
		"type\":{}}]}",
		"{\"data\":[{\"id\":\"a\",\"status\":\"active\",\"jupyter_token\":\"" LAMBDA_JUP
		"\",\"region\":7}]}",
		"{\"data\":[{\"jupyter_token\":\"" LAMBDA_JUP "\"",
	};
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct spot_list a = { .region = "", .install = "7f3a" };

		assert_int_equal(reply_with(d, DRIVE_LIST, &a, 200, bodies[i]), SPOT_FAIL);
		rc_is(d, SPOT_BAD_REPLY);
	}
}

static void reads_repeat_what_passes_and_give_up_on_what_does_not(void **state)
{
	static const struct {
		int status;
		const char *body;
		enum spot_rc rc;
		bool repeated;
	} cases[] = {
		{ 429, "<html>", SPOT_THROTTLED, true },
		{ 500, "", SPOT_UNAVAILABLE, true },
		{ 503, LAMBDA_ERROR("provider/internal-unavailable"), SPOT_UNAVAILABLE, true },
		{ 409, LAMBDA_ERROR("global/internal-error"), SPOT_UNAVAILABLE, true },
		{ 0, NULL, SPOT_UNAVAILABLE, true },
		{ 401, LAMBDA_ERROR("global/invalid-api-key"), SPOT_UNAUTHENTICATED, false },
		{ 403, LAMBDA_ERROR("global/forbidden"), SPOT_DENIED, false },
		{ 404, LAMBDA_ERROR("global/not-found"), SPOT_CONFIG, false },
		{ 301, "", SPOT_CONFIG, false },
		{ 400, LAMBDA_ERROR("global/invalid-parameters"), SPOT_INVALID, false },
		{ 400, "?", SPOT_BAD_REPLY, false },
	};
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_list a = { .region = "", .install = "7f3a" };
		const struct drive_try bad = { .status = cases[i].status, .reply = cases[i].body };
		const struct drive_try script[] = { bad, bad,
			{ .status = 200, .reply = "{\"data\":[]}" } };

		drive_script(d, script, 3);
		d->agains_max = 5;
		assert_int_equal(drive_run(d, DRIVE_LIST, &a),
		    cases[i].repeated ? SPOT_DONE : SPOT_FAIL);
		assert_int_equal(d->used, cases[i].repeated ? 3 : 1);
		d->used = 3;
		if (!cases[i].repeated) {
			rc_is(d, cases[i].rc);
		}
	}
}

/* ---- terminate ------------------------------------------------------------------------------- */

#define TERMINATED(status) \
	"{\"data\":{\"terminated_instances\":[{\"id\":\"" LAMBDA_ID "\",\"status\":\"" status \
	"\",\"region\":{\"name\":\"us-east-1\"},\"instance_type\":{\"name\":\"gpu_1x_a10\"}}]}}"
#define LISTED(status, more) \
	"{\"data\":[{\"id\":\"" LAMBDA_ID "\",\"name\":\"" LAMBDA_NAME "\",\"status\":\"" status \
	"\",\"region\":{\"name\":\"us-east-1\"},\"instance_type\":{\"name\":\"gpu_1x_a10\"}" more \
	"}]}"

static struct spot_terminate terminate_args(void)
{
	return (struct spot_terminate){ .region = "us-east-1",
		.zone = "",
		.ref = LAMBDA_ID,
		.spot_request = "" };
}

static void terminate_sends_one_id_and_reads_the_state(void **state)
{
	struct drive *d = *state;
	struct spot_terminate a = terminate_args();
	const struct drive_try script[] = { { .mutating = 1,
	    .limit = "general",
	    .status = 200,
	    .reply = TERMINATED("terminating") } };

	drive_script(d, script, 1);
	assert_int_equal(drive_run(d, DRIVE_TERMINATE, &a), SPOT_DONE);
	assert_string_equal(drive_request_text(d), golden(d, "terminate_request.txt"));
	assert_int_equal(a.after.state, SPOT_INSTANCE_STOPPING);
	assert_string_equal(a.after.ref, LAMBDA_ID);
}

static void an_unknown_instance_is_gone(void **state)
{
	struct drive *d = *state;
	struct spot_terminate a = terminate_args();

	assert_int_equal(reply_with(d, DRIVE_TERMINATE, &a, 404,
			     LAMBDA_ERROR("global/object-does-not-exist")),
	    SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_GONE);
	/* a young one may only not be known yet */
	assert_string_equal(a.after.raw_state, SPOT_NOT_FOUND_STATE);
}

static void a_missing_route_is_not_a_missing_instance(void **state)
{
	struct drive *d = *state;
	struct spot_terminate a = terminate_args();

	assert_int_equal(reply_with(d, DRIVE_TERMINATE, &a, 404, LAMBDA_ERROR("global/not-found")),
	    SPOT_FAIL);
	rc_is(d, SPOT_CONFIG);
}

static const struct {
	int status;
	const char *body;
} unsure[] = {
	{ 500, LAMBDA_ERROR("global/unknown") },
	{ 400, LAMBDA_ERROR("global/invalid-parameters") },
	{ 409, LAMBDA_ERROR("global/conflict") },
	{ 503, "" },
	{ 502, LAMBDA_ERROR("provider/internal-unavailable") },
	{ 404, "<html>" },
	{ 200, "{\"data\":{\"terminated_instances\":[]}}" },
	{ 200, TERMINATED("active") },
	{ 200, "{\"data\":" },
};

static void when_the_answer_is_unsure_the_list_decides(void **state)
{
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(unsure); i++) {
		struct spot_terminate a = terminate_args();
		const struct drive_try post = { .method = "POST",
			.mutating = 1,
			.status = unsure[i].status,
			.reply = unsure[i].body };
		const struct drive_try going[] = { post,
			{ .method = "GET",
			    .url = LAMBDA_API "/instances",
			    .mutating = -1,
			    .status = 200,
			    .reply = LISTED("terminating", "") } };
		const struct drive_try absent[] = { post,
			{ .method = "GET", .status = 200, .reply = "{\"data\":[]}" } };
		const struct drive_try there[] = { post,
			{ .method = "GET", .status = 200, .reply = LISTED("active", "") } };

		drive_script(d, going, 2);
		assert_int_equal(drive_run(d, DRIVE_TERMINATE, &a), SPOT_DONE);
		assert_int_equal(a.after.state, SPOT_INSTANCE_STOPPING);
		drive_used(d);
		drive_script(d, absent, 2);
		assert_int_equal(drive_run(d, DRIVE_TERMINATE, &a), SPOT_DONE);
		assert_int_equal(a.after.state, SPOT_INSTANCE_GONE);
		assert_string_equal(a.after.raw_state, SPOT_ABSENT_STATE);
		drive_used(d);
		drive_script(d, there, 2);
		assert_int_equal(drive_run(d, DRIVE_TERMINATE, &a), SPOT_FAIL);
		rc_is(d, SPOT_UNAVAILABLE);
		drive_used(d);
	}
}

static void an_instance_that_cannot_be_terminated_yet_is_retried_later_with_the_reason(void **state)
{
	struct drive *d = *state;
	struct spot_terminate a = terminate_args();
	const struct drive_try script[] = {
		{ .method = "POST",
		    .status = 400,
		    .reply = LAMBDA_ERROR("global/invalid-parameters") },
		{ .method = "GET",
		    .status = 200,
		    .reply = LISTED("booting",
			",\"actions\":{\"terminate\":{\"available\":false,"
			"\"reason_code\":\"vm-has-not-launched\"}}") },
	};

	drive_script(d, script, 2);
	assert_int_equal(drive_run(d, DRIVE_TERMINATE, &a), SPOT_FAIL);
	rc_is(d, SPOT_UNAVAILABLE);
	assert_string_equal(d->call.err.code, "vm-has-not-launched");
}

static void a_fault_of_the_look_up_repeats_only_the_look_up(void **state)
{
	struct drive *d = *state;
	struct spot_terminate a = terminate_args();
	const struct drive_try script[] = {
		{ .method = "POST", .status = 500, .reply = "" },
		{ .method = "GET", .mutating = -1, .status = 503, .reply = "" },
		{ .method = "GET", .mutating = -1, .status = 200, .reply = "{\"data\":[]}" },
	};

	drive_script(d, script, 3);
	assert_int_equal(drive_run(d, DRIVE_TERMINATE, &a), SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_GONE);
}

static void a_throttled_terminate_is_repeated(void **state)
{
	struct drive *d = *state;
	struct spot_terminate a = terminate_args();
	const struct drive_try script[] = {
		{ .method = "POST", .status = 429, .reply = "<html>" },
		{ .method = "POST",
		    .mutating = 1,
		    .status = 200,
		    .reply = TERMINATED("terminated") },
	};

	drive_script(d, script, 2);
	assert_int_equal(drive_run(d, DRIVE_TERMINATE, &a), SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_GONE);
}

static void an_inactive_account_is_denied_not_gone(void **state)
{
	struct drive *d = *state;
	struct spot_terminate a = terminate_args();

	assert_int_equal(reply_with(d, DRIVE_TERMINATE, &a, 403,
			     LAMBDA_ERROR("global/account-inactive")),
	    SPOT_FAIL);
	rc_is(d, SPOT_DENIED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(only_instances_of_our_installation_are_listed),
		T(a_region_narrows_the_list),
		T(statuses_are_mapped_and_unknown_ones_are_odd),
		T(fields_of_an_instance_are_read),
		T(find_knows_a_launch_by_name_or_by_tag),
		T(a_launch_that_happened_twice_is_found_twice),
		T(describe_asks_once_for_all),
		T(the_events_name_the_cause_of_an_absent_instances_end),
		T(an_instance_without_events_stays_absent),
		T(events_that_cannot_be_had_do_not_fail_the_list),
		T(pages_of_events_are_followed_to_an_end),
		T(wrong_types_make_the_whole_list_a_bad_reply),
		T(reads_repeat_what_passes_and_give_up_on_what_does_not),
		T(terminate_sends_one_id_and_reads_the_state),
		T(an_unknown_instance_is_gone),
		T(a_missing_route_is_not_a_missing_instance),
		T(when_the_answer_is_unsure_the_list_decides),
		T(an_instance_that_cannot_be_terminated_yet_is_retried_later_with_the_reason),
		T(a_fault_of_the_look_up_repeats_only_the_look_up),
		T(a_throttled_terminate_is_repeated),
		T(an_inactive_account_is_denied_not_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
