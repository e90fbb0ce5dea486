/* Runs of provider calls: replies, retries, deadlines. test_call_doubt.c has calls in doubt. */
#include "base/base.h"
#include "call_fake.h"

#include "base/text/text.h"

#include <unistd.h>

#define S SPOT_US_PER_S

/* ---- plain ----------------------------------------------------------------------------------- */

static void a_good_reply_ends_the_call_ok(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(f->requests, 1);
	assert_int_equal(f->entries, 2);
	assert_int_equal(call_provider_stats(f->p).requests, 1);
}

static enum spot_step step_at_once(struct fake *f UNUSED, struct spot_call *c UNUSED)
{
	return SPOT_DONE;
}

static void a_call_without_a_request_ends_next_turn(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_at_once;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(f->requests, 0);
}

static void serve_teapot(struct fake *f UNUSED, struct httpd_req *r)
{
	httpd_reply(r, 418, "text/plain", "no", 2);
}

static void a_failed_step_gives_its_own_words_and_code(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = serve_teapot;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_NO_CAPACITY);
	assert_string_equal(k.err.code, "SoldOut");
	assert_string_equal(k.err.text, "sold out");
	assert_int_equal(f->requests, 1);
	assert_int_equal(call_provider_stats(f->p).failed, 1);
}

static void a_verb_that_the_provider_lacks_is_refused(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	fake_run(f, &k, CALL_QUOTAS, 60 * S, 0, false);
	assert_int_equal(k.rc, SPOT_INVALID);
	assert_non_null(strstr(k.err.text, "quotas"));
}

static enum spot_step step_none(struct fake *f UNUSED, struct spot_call *c UNUSED)
{
	return SPOT_STEP_NONE;
}

static void a_step_without_a_verdict_is_an_internal_error(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_none;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_INTERNAL);
}

static enum spot_step step_blab(struct fake *f UNUSED, struct spot_call *c)
{
	return call_fail(c, SPOT_DENIED, NULL, "key %s refused", FAKE_SECRET);
}

static void a_secret_of_the_provider_is_cut_out_of_the_words(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_blab;
	fake_call_now(f, &k);
	assert_null(strstr(k.err.text, FAKE_SECRET));
	assert_non_null(strstr(k.err.text, "refused"));
}

static enum spot_step step_signed(struct fake *f, struct spot_call *c)
{
	return c->in != NULL ? SPOT_DONE : fake_get(f, c, "/ok?x=1&X-Amz-Signature=abcdef0123");
}

static void a_urls_signature_is_not_in_the_log(void **state)
{
	struct fake *f = *state;
	struct fake_call k;
	char text[8192] = "";
	int fds[2];

	f->step = step_signed;
	assert_int_equal(pipe(fds), 0);
	log_init(&(struct log_conf){ .fd = fds[1],
	    .level = LOG_DEBUG,
	    .program = "t",
	    .clock = &clock_real });
	fake_call_now(f, &k);
	log_init(&(struct log_conf){ .fd = STDERR_FILENO,
	    .level = LOG_WARN,
	    .program = "t",
	    .clock = &clock_real });
	close(fds[1]);
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	close(fds[0]);
	assert_non_null(strstr(text, "call.request"));
	assert_non_null(strstr(text, "x=1"));
	assert_null(strstr(text, "abcdef0123"));
}

/* ---- endless and huge ------------------------------------------------------------------------ */

static enum spot_step step_endless(struct fake *f UNUSED, struct spot_call *c)
{
	c->path = "/proc/version";
	return SPOT_READ;
}

static void a_step_that_never_ends_is_cut(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_endless;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_BAD_REPLY);
	assert_int_equal(f->entries, 10000);
}

static enum spot_step step_hoard(struct fake *f UNUSED, struct spot_call *c)
{
	arena_alloc(c->arena, 8 << 20);
	c->path = "/proc/version";
	return SPOT_READ;
}

static void pages_that_fill_the_memory_are_cut_before_it_is_full(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_hoard;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_BAD_REPLY);
	assert_in_range(f->entries, 20, 30);
}

/* ---- AGAIN ----------------------------------------------------------------------------------- */

static void serve_throttled(struct fake *f, struct httpd_req *r)
{
	if (f->requests > 2) {
		httpd_reply(r, 200, "text/plain", "ok", 2);
		return;
	}
	httpd_set(r, "Retry-After", "7");
	httpd_reply(r, 429, "text/plain", "", 0);
}

static void retry_after_is_obeyed(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = serve_throttled;
	f->tick_us = 10000;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(f->requests, 3);
	assert_in_range(f->at_us[1] - f->at_us[0], 7 * S, 8 * S);
	assert_in_range(f->at_us[2] - f->at_us[1], 7 * S, 8 * S);
	assert_int_equal(call_provider_stats(f->p).throttled, 2);
}

static void serve_busy(struct fake *f UNUSED, struct httpd_req *r)
{
	httpd_reply(r, 503, "text/plain", "", 0);
}

static void without_it_the_waits_grow_and_the_tries_end(void **state)
{
	struct fake *f = *state;
	struct fake_call k;
	int64_t ceiling = S / 2;

	f->serve = serve_busy;
	f->tick_us = 10000;
	fake_run(f, &k, CALL_LIST, 600 * S, 0, false);
	assert_int_equal(k.rc, SPOT_UNAVAILABLE);
	assert_string_equal(k.err.code, "Broken");
	assert_int_equal(f->requests, 5);
	for (int i = 1; i < 5; i++, ceiling *= 2) {
		assert_in_range(f->at_us[i] - f->at_us[i - 1], 0, ceiling + S / 5);
	}
}

static void the_caller_chooses_how_many_tries(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = serve_busy;
	f->tick_us = 10000;
	fake_run(f, &k, CALL_LIST, 600 * S, 2, false);
	assert_int_equal(k.rc, SPOT_UNAVAILABLE);
	assert_int_equal(f->requests, 2);
}

static void serve_come_next_week(struct fake *f UNUSED, struct httpd_req *r)
{
	httpd_set(r, "Retry-After", "604800");
	httpd_reply(r, 429, "text/plain", "", 0);
}

static void a_wait_beyond_the_deadline_ends_the_call_at_once(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = serve_come_next_week;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_THROTTLED);
	assert_int_equal(k.err.retry_after_us, 604800 * S);
	assert_true(k.ended_us - k.began_us < 2 * S);
}

static void a_long_retry_after_is_capped_at_five_minutes(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = serve_come_next_week;
	f->tick_us = 100000;
	fake_run(f, &k, CALL_LIST, 1000 * S, 2, false);
	assert_int_equal(f->requests, 2);
	assert_in_range(f->at_us[1] - f->at_us[0], 300 * S, 302 * S);
}

/* Two requests in a chain; the second one meets a fault once. The state is the step's own. */
static enum spot_step step_chain(struct fake *f, struct spot_call *c)
{
	int *out = c->state;

	if (out == NULL) {
		c->state = out = arena_alloc(c->arena, sizeof(*out));
	}
	if (c->in == NULL) {
		return fake_get(f, c, *out == 0 ? "/first" : "/second");
	}
	if (c->in->status == 503) {
		return call_again(c, SPOT_UNAVAILABLE, 0, NULL, "again");
	}
	if (*out == 1) {
		return SPOT_DONE;
	}
	*out = 1;
	return fake_get(f, c, "/second");
}

static void serve_second_late(struct fake *f, struct httpd_req *r)
{
	httpd_reply(r, f->requests == 2 ? 503 : 200, "text/plain", "", 0);
}

static void only_the_request_that_failed_is_repeated(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_chain;
	f->serve = serve_second_late;
	f->tick_us = 10000;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(f->requests, 3);
	assert_string_equal(f->path[0], "/first");
	assert_string_equal(f->path[1], "/second");
	assert_string_equal(f->path[2], "/second");
}

static enum spot_step step_places(struct fake *f, struct spot_call *c)
{
	enum { START, SENT };

	if (c->at == START) {
		assert_null(c->in);
		c->at = SENT;
		return fake_get(f, c, "/x");
	}
	assert_non_null(c->in);
	return c->in->status == 200 ? SPOT_DONE : call_again(c, SPOT_UNAVAILABLE, 0, NULL, "again");
}

static void serve_first_late(struct fake *f, struct httpd_req *r)
{
	httpd_reply(r, f->requests == 1 ? 503 : 200, "text/plain", "", 0);
}

static void again_comes_back_to_the_place_that_built_the_request(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_places;
	f->serve = serve_first_late;
	f->tick_us = 10000;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(f->requests, 2);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, fake_setup, fake_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_good_reply_ends_the_call_ok),
		T(a_call_without_a_request_ends_next_turn),
		T(a_failed_step_gives_its_own_words_and_code),
		T(a_verb_that_the_provider_lacks_is_refused),
		T(a_step_without_a_verdict_is_an_internal_error),
		T(a_secret_of_the_provider_is_cut_out_of_the_words),
		T(a_urls_signature_is_not_in_the_log),
		T(a_step_that_never_ends_is_cut),
		T(pages_that_fill_the_memory_are_cut_before_it_is_full),
		T(retry_after_is_obeyed),
		T(without_it_the_waits_grow_and_the_tries_end),
		T(the_caller_chooses_how_many_tries),
		T(a_wait_beyond_the_deadline_ends_the_call_at_once),
		T(a_long_retry_after_is_capped_at_five_minutes),
		T(only_the_request_that_failed_is_repeated),
		T(again_comes_back_to_the_place_that_built_the_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
