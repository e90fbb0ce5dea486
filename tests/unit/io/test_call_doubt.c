/* Provider calls that may have had their effect: lost replies, deadlines, refusals after a try in
 * doubt; and the right to make a change. */
#include "base/base.h"
#include "call_fake.h"

#define S SPOT_US_PER_S

/* ---- lost replies ---------------------------------------------------------------------------- */

static void serve_cut_first(struct fake *f, struct httpd_req *r)
{
	if (f->requests == 1) {
		httpd_abort(r);
	} else {
		httpd_reply(r, 200, "text/plain", "", 0);
	}
}

static void a_lost_reply_of_a_read_is_asked_again(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = serve_cut_first;
	f->tick_us = 10000;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(f->requests, 2);
}

static void a_lost_reply_of_a_change_is_unknown_and_never_repeated(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = fake_step_post;
	f->serve = fake_serve_cut;
	fake_run(f, &k, CALL_LAUNCH, 60 * S, 0, false);
	assert_int_equal(k.rc, SPOT_UNKNOWN);
	assert_int_equal(f->requests, 1);
	assert_int_equal(f->entries, 1);
}

static void our_deadline_on_a_change_is_unknown(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = fake_step_post;
	f->serve = fake_serve_hang;
	f->tick_us = 10000;
	fake_run(f, &k, CALL_LAUNCH, 5 * S, 0, false);
	assert_int_equal(k.rc, SPOT_UNKNOWN);
	assert_in_range(k.ended_us - k.began_us, 4 * S, 6 * S);
	assert_int_equal(f->requests, 1);
}

static void our_deadline_on_a_read_is_a_timeout(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = fake_serve_hang;
	f->tick_us = 10000;
	fake_run(f, &k, CALL_LIST, 5 * S, 0, false);
	assert_int_equal(k.rc, SPOT_TIMEOUT);
	assert_in_range(k.ended_us - k.began_us, 4 * S, 6 * S);
}

static void serve_busy(struct fake *f UNUSED, struct httpd_req *r)
{
	httpd_reply(r, 503, "text/plain", "", 0);
}

static void a_change_answered_with_a_fault_stays_in_doubt(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = fake_step_post;
	f->serve = serve_busy;
	f->tick_us = 10000;
	fake_run(f, &k, CALL_TERMINATE, 600 * S, 3, true);
	assert_int_equal(k.rc, SPOT_UNKNOWN);
	assert_string_equal(k.err.code, "Broken");
	assert_int_equal(f->requests, 3);
}

/* A change that is answered, and a question after it before the verdict, as after the Pod of a
 * launch was made. */
static enum spot_step step_change_and_ask(struct fake *f, struct spot_call *c)
{
	enum { START, CHANGED, ASKED };

	switch (c->at) {
	case START:
		c->at = CHANGED;
		return fake_post(f, c, "/change");
	case CHANGED:
		c->at = ASKED;
		if (c->in != NULL && c->in->status == 503) {
			return call_again(c, SPOT_UNAVAILABLE, 0, NULL, "again");
		}
		return fake_get(f, c, "/question");
	default:
		switch (c->in->status) {
		case 401:
			return SPOT_REAUTH;
		case 503:
			return call_again(c, SPOT_UNAVAILABLE, 0, NULL, "again");
		case 404:
			return call_fail(c, SPOT_NOT_FOUND, "Gone", "the step's own verdict");
		default:
			return SPOT_DONE;
		}
	}
}

static int change_status, question_status;

static void serve_change_and_question(struct fake *f, struct httpd_req *r)
{
	bool question = strcmp(f->path[f->requests - 1], "/question") == 0;

	httpd_reply(r, question ? question_status : change_status, "text/plain", "", 0);
}

static enum spot_rc change_and_ask(struct fake *f, int change, int question)
{
	struct fake_call k;

	f->step = step_change_and_ask;
	f->serve = serve_change_and_question;
	f->tick_us = 10000;
	change_status = change;
	question_status = question;
	fake_run(f, &k, CALL_LAUNCH, 600 * S, 2, false);
	assert_true(f->requests >= 2);
	return k.rc;
}

static enum spot_step auth_refused(struct fake *f UNUSED, struct spot_call *c)
{
	return call_fail(c, SPOT_CONFIG, "NoKey", "no key in ~/.fake");
}

static void a_failure_after_an_answered_change_is_unknown(void **state)
{
	struct fake *f = *state;

	assert_int_equal(change_and_ask(f, 201, 503), SPOT_UNKNOWN);
	assert_int_equal(change_and_ask(f, 201, 401), SPOT_UNKNOWN);
	/* There already: it may be ours of an earlier try. */
	assert_int_equal(change_and_ask(f, 409, 503), SPOT_UNKNOWN);
	assert_int_equal(change_and_ask(f, 201, 200), SPOT_OK);
	f->auth = auth_refused;
	assert_int_equal(change_and_ask(f, 201, 401), SPOT_UNKNOWN);
	assert_int_equal(change_and_ask(f, 403, 401), SPOT_CONFIG);
}

static void a_failure_after_a_refused_change_keeps_its_code(void **state)
{
	struct fake *f = *state;

	assert_int_equal(change_and_ask(f, 403, 503), SPOT_UNAVAILABLE);
	assert_int_equal(change_and_ask(f, 403, 401), SPOT_UNAUTHENTICATED);
}

static void after_a_change_the_step_may_still_give_a_verdict(void **state)
{
	assert_int_equal(change_and_ask(*state, 201, 404), SPOT_NOT_FOUND);
}

static void serve_change_and_hang(struct fake *f, struct httpd_req *r)
{
	if (f->requests == 1) {
		httpd_reply(r, 201, "text/plain", "", 0);
	} else {
		fake_serve_hang(f, r);
	}
}

static void our_deadline_after_an_answered_change_is_unknown(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_change_and_ask;
	f->serve = serve_change_and_hang;
	f->tick_us = 10000;
	fake_run(f, &k, CALL_LAUNCH, 5 * S, 2, false);
	assert_int_equal(k.rc, SPOT_UNKNOWN);
	assert_int_equal(f->requests, 2);
}

/* The server's answers in turn; the last again and again. */
static const int *statuses;

static void serve_in_turn(struct fake *f UNUSED, struct httpd_req *r)
{
	httpd_reply(r, *statuses, "text/plain", "", 0);
	if (statuses[1] != 0) {
		statuses++;
	}
}

/* The first try may have made a machine, although the second was refused. */
static void a_failure_after_a_refused_repeat_of_a_change_in_doubt_is_unknown(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_change_and_ask;
	f->serve = serve_in_turn;
	f->tick_us = 10000;
	statuses = (const int[]){ 503, 403, 503, 0 };
	fake_run(f, &k, CALL_LAUNCH, 600 * S, 2, false);
	assert_string_equal(f->path[1], "/change");
	assert_string_equal(f->path[2], "/question");
	assert_int_equal(k.rc, SPOT_UNKNOWN);
}

static struct fake_call change_answered(struct fake *f, const int *answers)
{
	struct fake_call k;

	f->step = fake_step_post;
	f->serve = serve_in_turn;
	f->tick_us = 10000;
	statuses = answers;
	fake_run(f, &k, CALL_LAUNCH, 600 * S, 0, false);
	return k;
}

static void a_refusal_after_a_try_in_doubt_says_that_there_was_doubt(void **state)
{
	struct fake_call k = change_answered(*state, (const int[]){ 503, 418, 0 });

	assert_int_equal(k.rc, SPOT_NO_CAPACITY);
	assert_true(k.call.doubted);
	/* Throttled, refused for its credentials: nothing happened by those. */
	k = change_answered(*state, (const int[]){ 429, 418, 0 });
	assert_false(k.call.doubted);
	k = change_answered(*state, (const int[]){ 401, 418, 0 });
	assert_false(k.call.doubted);
	k = change_answered(*state, (const int[]){ 503, 429, 401, 418, 0 });
	assert_true(k.call.doubted);
	k = change_answered(*state, (const int[]){ 418, 0 });
	assert_false(k.call.doubted);
	k.f->step = fake_step_get;
	statuses = (const int[]){ 503, 418, 0 };
	fake_call_now(k.f, &k);
	assert_int_equal(k.rc, SPOT_NO_CAPACITY);
	assert_false(k.call.doubted);
}

static void serve_429(struct fake *f UNUSED, struct httpd_req *r)
{
	httpd_reply(r, 429, "text/plain", "", 0);
}

static void a_change_that_was_throttled_did_not_happen(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = fake_step_post;
	f->serve = serve_429;
	f->tick_us = 10000;
	fake_run(f, &k, CALL_TERMINATE, 600 * S, 3, true);
	assert_int_equal(k.rc, SPOT_THROTTLED);
	assert_int_equal(f->requests, 3);
}

static enum spot_step step_nowhere(struct fake *f UNUSED, struct spot_call *c)
{
	call_request(c, "POST", "http://127.0.0.1:1/x");
	c->mutating = true;
	return SPOT_SEND;
}

static void a_change_that_was_never_sent_is_unavailable(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_nowhere;
	f->tick_us = 10000;
	fake_run(f, &k, CALL_LAUNCH, 600 * S, 3, false);
	assert_int_equal(k.rc, SPOT_UNAVAILABLE);
	assert_int_equal(f->entries, 3);
}

static enum spot_step step_small_get(struct fake *f, struct spot_call *c)
{
	enum spot_step s = fake_step_get(f, c);

	c->out.reply_bytes_max = 16;
	return s;
}

static enum spot_step step_small_post(struct fake *f, struct spot_call *c)
{
	enum spot_step s = fake_step_post(f, c);

	c->out.reply_bytes_max = 16;
	return s;
}

static void serve_large(struct fake *f UNUSED, struct httpd_req *r)
{
	static const char body[1000];

	httpd_reply(r, 200, "text/plain", body, sizeof(body));
}

static void a_reply_over_the_cap_is_a_bad_one_and_of_a_change_unknown(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = serve_large;
	f->step = step_small_get;
	f->tick_us = 10000;
	fake_run(f, &k, CALL_LIST, 60 * S, 2, false);
	assert_int_equal(k.rc, SPOT_BAD_REPLY);
	f->step = step_small_post;
	fake_run(f, &k, CALL_LAUNCH, 60 * S, 2, false);
	assert_int_equal(k.rc, SPOT_UNKNOWN);
	assert_int_equal(f->requests, 3);
}

static bool rights_left;

static bool may_send(const struct call *call)
{
	(void)call;
	return rights_left;
}

static void a_change_whose_owner_lost_the_right_to_make_it_is_not_sent(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = fake_step_post;
	rights_left = false;
	fake_start(f, &k, CALL_LAUNCH, 60 * S, 0, false);
	k.call.may_send = may_send;
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_CANCELLED);
	assert_int_equal(f->requests, 0);
	/* Reading changes nothing and is nobody's right. */
	f->step = fake_step_get;
	fake_start(f, &k, CALL_LIST, 60 * S, 0, false);
	k.call.may_send = may_send;
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	rights_left = true;
	f->step = fake_step_post;
	fake_start(f, &k, CALL_LAUNCH, 60 * S, 0, false);
	k.call.may_send = may_send;
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(f->requests, 2);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, fake_setup, fake_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_lost_reply_of_a_read_is_asked_again),
		T(a_lost_reply_of_a_change_is_unknown_and_never_repeated),
		T(our_deadline_on_a_change_is_unknown),
		T(our_deadline_on_a_read_is_a_timeout),
		T(a_change_answered_with_a_fault_stays_in_doubt),
		T(a_failure_after_an_answered_change_is_unknown),
		T(a_failure_after_a_refused_change_keeps_its_code),
		T(a_failure_after_a_refused_repeat_of_a_change_in_doubt_is_unknown),
		T(after_a_change_the_step_may_still_give_a_verdict),
		T(our_deadline_after_an_answered_change_is_unknown),
		T(a_refusal_after_a_try_in_doubt_says_that_there_was_doubt),
		T(a_change_that_was_throttled_did_not_happen),
		T(a_change_that_was_never_sent_is_unavailable),
		T(a_change_whose_owner_lost_the_right_to_make_it_is_not_sent),
		T(a_reply_over_the_cap_is_a_bad_one_and_of_a_change_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
