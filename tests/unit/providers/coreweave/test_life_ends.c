/* The remains of a launch and a terminate. */
#include "base/base.h"
#include "cases.h"
#include "base/text/text.h"

#define RUNNING CW_POD("", ",\"nodeName\":\"g1\"", "\"phase\":\"Running\"")

static void a_pod_that_is_there_and_is_not_ends_the_launch(void **state)
{
	static const struct drive_try tries[] = {
		{ .method = "POST",
		    .status = 409,
		    .reply = CW_STATUS(409, "Conflict", "quota modified", "{}") },
		{ .method = "GET", .status = 404, .reply = CW_STATUS(404, "NotFound", "m", "{}") }
	};
	struct drive *d = *state;

	drive_script(d, tries, ARRAY_LEN(tries));
	d->cycle = true;
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, cw_args(d->arena, DRIVE_LAUNCH, true)),
	    SPOT_FAIL);
	assert_int_equal(d->call.err.rc, SPOT_UNKNOWN);
	d->cycle = false;
	d->used = d->script_n;
}

static void a_pool_of_another_installation_is_left_alone(void **state)
{
	static const struct drive_try tries[] = {
		R(201, CW_POD("", "", "\"phase\":\"Pending\"")),
		R(200,
		    "{\"kind\":\"NodePool\",\"metadata\":{\"name\":\"" CW_POOL
		    "\",\"resourceVersion\":\"5\",\"labels\":{"
		    "\"spotbroker.io/install\":\"other\"}},\"spec\":{\"targetNodes\":9}}"),
		{ .method = "DELETE",
		    .status = 200,
		    .reply = CW_POD("", "", "\"phase\":\"Pending\"") },
		R(200,
		    "{\"kind\":\"NodePool\",\"metadata\":{\"name\":\"" CW_POOL
		    "\",\"resourceVersion\":\"5\",\"labels\":{"
		    "\"spotbroker.io/install\":\"other\"}},\"spec\":{\"targetNodes\":9}}"),
	};
	struct drive *d = *state;

	drive_script(d, tries, ARRAY_LEN(tries));
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, cw_args(d->arena, DRIVE_LAUNCH, true)),
	    SPOT_FAIL);
	drive_used(d);
	assert_int_equal(d->call.err.rc, SPOT_CONFIG);
}

/* A Pod that was given a node meanwhile exists until its grace is over. Its row must not end
 * before. */
static void a_pod_that_got_a_node_before_it_was_taken_back_is_no_refusal(void **state)
{
	static const struct drive_try tries[] = {
		R(201, CW_POD("", "", "\"phase\":\"Pending\"")),
		R(200,
		    "{\"kind\":\"NodePool\",\"metadata\":{\"name\":\"" CW_POOL
		    "\",\"resourceVersion\":\"5\",\"labels\":{"
		    "\"spotbroker.io/install\":\"other\"}},\"spec\":{\"targetNodes\":9}}"),
		{ .method = "DELETE", .status = 200, .reply = RUNNING },
	};
	struct drive *d = *state;
	struct spot_launch *a = cw_args(d->arena, DRIVE_LAUNCH, true);

	drive_script(d, tries, ARRAY_LEN(tries));
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, a), SPOT_DONE);
	drive_used(d);
	assert_int_equal(a->instance.state, SPOT_INSTANCE_RUNNING);
	assert_string_equal(a->instance.token, "tok");
}

static void a_failure_after_the_pod_was_made_never_counts_as_without_effect(void **state)
{
	static const struct drive_try replies[] = { R(503, "x"),
		R(500, CW_STATUS(500, "ServerTimeout", "later", "{\"retryAfterSeconds\":1}")),
		R(429, "x"), R(200, "junk") };
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(replies); i++) {
		struct drive_try tries[8] = { R(201, CW_POD("", "", "\"phase\":\"Pending\"")) };

		for (size_t k = 1; k < 8; k++) {
			tries[k] = replies[i];
		}
		drive_script(d, tries, 8);
		assert_int_equal(drive_run(d, DRIVE_LAUNCH, cw_args(d->arena, DRIVE_LAUNCH, true)),
		    SPOT_FAIL);
		assert_int_equal(d->call.err.rc, SPOT_UNKNOWN);
		d->used = d->script_n;
	}
}

/* The simulation found it (seed 709): the Pod is made, and then a gateway answers for the Pods of
 * its pool. */
static void a_gateways_page_after_the_pod_was_made_is_no_refusal(void **state)
{
	static const struct drive_try tries[] = { R(201, CW_POD("", "", "\"phase\":\"Pending\"")),
		R(200,
		    "{\"kind\":\"NodePool\",\"metadata\":{\"name\":\"" CW_POOL
		    "\",\"resourceVersion\":\"5\"},\"spec\":{\"targetNodes\":9}}"),
		{ .method = "GET", .status = 404, .reply = "<html>404 page not found</html>" } };
	struct drive *d = *state;

	drive_script(d, tries, ARRAY_LEN(tries));
	assert_int_equal(drive_run(d, DRIVE_LAUNCH, cw_args(d->arena, DRIVE_LAUNCH, true)),
	    SPOT_FAIL);
	drive_used(d);
	assert_int_equal(d->call.err.rc, SPOT_UNKNOWN);
}

static void an_unsold_machine_is_refused_before_anything_is_made(void **state)
{
	static const struct {
		const char *type;
		enum spot_market market;
		int milli;
		enum spot_rc rc;
	} cases[] = { { "gb200-4x", SPOT_MARKET_ON_DEMAND, 4000, SPOT_NOT_OFFERED },
		{ "gd-1xgh200", SPOT_MARKET_SPOT, 1000, SPOT_NOT_OFFERED },
		{ "gd-8xl40-i128", SPOT_MARKET_RESERVED, 8000, SPOT_NOT_OFFERED },
		{ "gd-8xl40-i128", SPOT_MARKET_SPOT, 500, SPOT_INVALID } };
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_launch *a = cw_args(d->arena, DRIVE_LAUNCH, true);

		a->key.instance_type = cases[i].type;
		a->key.market = cases[i].market;
		a->shape.gpu_milli = cases[i].milli;
		drive_script(d, NULL, 0);
		assert_int_equal(drive_run(d, DRIVE_LAUNCH, a), SPOT_FAIL);
		assert_int_equal(d->call.err.rc, cases[i].rc);
	}
}

static void only_our_references_are_terminated(void **state)
{
	static const char *const refs[] = { "", "i-0123", "main/pod", "main/a b/u", "main/../u/x",
		"nodepool/main/a?b", "other/pod/uid", "a/b/c/d" };
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(refs); i++) {
		struct spot_terminate a = { .region = "",
			.zone = "",
			.ref = refs[i],
			.spot_request = "" };

		drive_script(d, NULL, 0);
		assert_int_equal(drive_run(d, DRIVE_TERMINATE, &a), SPOT_FAIL);
		assert_true(d->call.err.rc == SPOT_INVALID || d->call.err.rc == SPOT_CONFIG);
	}
}

/* ---- identity -------------------------------------------------------------------------------- */

static void a_proof_must_be_of_this_pod_and_for_us(void **state)
{
#define REVIEW(ok, audience, user, uid) \
	"{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":" ok \
	",\"audiences\":[\"" audience \
	"\"],\"user\":{\"username\":\"system:serviceaccount:spotbroker:" user "\",\"extra\":{" \
	"\"authentication.kubernetes.io/pod-name\":[\"" CW_NAME \
	"\"],\"authentication.kubernetes.io/pod-uid\":[\"" uid "\"]}}}}"
	static const struct {
		const char *reply;
		enum spot_rc rc;
	} cases[] = {
		{ REVIEW("true", "https://broker.example", "spotbroker-node", CW_UID), SPOT_OK },
		{ REVIEW("false", "https://broker.example", "spotbroker-node", CW_UID),
		    SPOT_DENIED },
		{ REVIEW("true", "https://else.example", "spotbroker-node", CW_UID), SPOT_DENIED },
		{ REVIEW("true", "https://broker.example", "default", CW_UID), SPOT_DENIED },
		{ REVIEW("true", "https://broker.example", "spotbroker-node", "another"),
		    SPOT_DENIED },
		{ "{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":true}}", SPOT_DENIED },
	};
	struct drive *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct drive_try t = R(201, cases[i].reply);

		drive_script(d, &t, 1);
		assert_int_equal(drive_run(d, DRIVE_VERIFY, cw_args(d->arena, DRIVE_VERIFY, true)),
		    cases[i].rc == SPOT_OK ? SPOT_DONE : SPOT_FAIL);
		assert_int_equal(d->call.err.rc, cases[i].rc);
		drive_used(d);
	}
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, cw_setup, cw_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_pod_that_is_there_and_is_not_ends_the_launch),
		T(a_pool_of_another_installation_is_left_alone),
		T(a_pod_that_got_a_node_before_it_was_taken_back_is_no_refusal),
		T(a_failure_after_the_pod_was_made_never_counts_as_without_effect),
		T(a_gateways_page_after_the_pod_was_made_is_no_refusal),
		T(an_unsold_machine_is_refused_before_anything_is_made),
		T(only_our_references_are_terminated),
		T(a_proof_must_be_of_this_pod_and_for_us),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
