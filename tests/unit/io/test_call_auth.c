/* Provider calls: credentials, files, stopping. */
#include "base/base.h"
#include "call_fake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crypto/crypto.h"

#define S SPOT_US_PER_S

static void serve_come_next_week(struct fake *f UNUSED, struct httpd_req *r)
{
	httpd_set(r, "Retry-After", "604800");
	httpd_reply(r, 429, "text/plain", "", 0);
}

static void serve_first_late(struct fake *f, struct httpd_req *r)
{
	httpd_reply(r, f->requests == 1 ? 503 : 200, "text/plain", "", 0);
}

/* ---- credentials ----------------------------------------------------------------------------- */

static void stale_credentials_are_renewed_once_for_all_that_wait(void **state)
{
	struct fake *f = *state;
	struct fake_call k[5];

	f->fresh = false;
	for (size_t i = 0; i < ARRAY_LEN(k); i++) {
		fake_start(f, &k[i], CALL_LIST, 60 * S, 0, false);
	}
	for (size_t i = 0; i < ARRAY_LEN(k); i++) {
		fake_wait(f, &k[i]);
		assert_int_equal(k[i].rc, SPOT_OK);
	}
	assert_int_equal(f->auths, 1);
	assert_int_equal(f->requests, 5);
}

static enum spot_step auth_refused(struct fake *f UNUSED, struct spot_call *c)
{
	return call_fail(c, SPOT_CONFIG, "NoKey", "no key in ~/.fake");
}

static void failed_renewal_fails_all_that_wait_with_its_words(void **state)
{
	struct fake *f = *state;
	struct fake_call k[3];

	f->fresh = false;
	f->auth = auth_refused;
	for (size_t i = 0; i < ARRAY_LEN(k); i++) {
		fake_start(f, &k[i], CALL_LIST, 60 * S, 0, false);
	}
	for (size_t i = 0; i < ARRAY_LEN(k); i++) {
		fake_wait(f, &k[i]);
		assert_int_equal(k[i].rc, SPOT_CONFIG);
		assert_string_equal(k[i].err.code, "NoKey");
		assert_non_null(strstr(k[i].err.text, "no key in ~/.fake"));
	}
	assert_int_equal(f->requests, 0);
}

static enum spot_step auth_by_request(struct fake *f, struct spot_call *c)
{
	if (c->in == NULL) {
		return fake_get(f, c, "/token");
	}
	return c->in->status == 200 ? SPOT_DONE
				    : call_again(c, SPOT_UNAVAILABLE, 0, NULL, "no token yet");
}

static void renewal_has_its_own_requests_and_retries(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->fresh = false;
	f->auth = auth_by_request;
	f->serve = serve_first_late;
	f->tick_us = 10000;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(f->requests, 3);
	assert_string_equal(f->path[0], "/token");
	assert_string_equal(f->path[1], "/token");
	assert_string_equal(f->path[2], "/x");
}

static void a_waiting_call_keeps_its_own_deadline(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->fresh = false;
	f->auth = auth_by_request;
	f->serve = fake_serve_hang;
	f->tick_us = 10000;
	fake_run(f, &k, CALL_LIST, 2 * S, 0, false);
	assert_int_equal(k.rc, SPOT_TIMEOUT);
	assert_non_null(strstr(k.err.text, "credentials"));
}

static void serve_expired_once(struct fake *f, struct httpd_req *r)
{
	httpd_reply(r, f->requests == 1 ? 401 : 200, "text/plain", "", 0);
}

static void expired_credentials_are_renewed_and_the_request_repeated(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = serve_expired_once;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(f->auths, 1);
	assert_int_equal(f->requests, 2);
}

static void serve_expired(struct fake *f UNUSED, struct httpd_req *r)
{
	httpd_reply(r, 401, "text/plain", "", 0);
}

static void credentials_are_renewed_once_per_call(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = serve_expired;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_UNAUTHENTICATED);
	assert_string_equal(k.err.code, "Expired");
	assert_int_equal(f->auths, 1);
	assert_int_equal(f->requests, 2);
}

static void calls_refused_together_renew_together(void **state)
{
	struct fake *f = *state;
	struct fake_call k[4];

	f->serve = serve_expired;
	for (size_t i = 0; i < ARRAY_LEN(k); i++) {
		fake_start(f, &k[i], CALL_LIST, 60 * S, 0, false);
	}
	for (size_t i = 0; i < ARRAY_LEN(k); i++) {
		fake_wait(f, &k[i]);
	}
	assert_in_range(f->auths, 1, 2);
	assert_int_equal(f->requests, 8);
}

static void calls_after_the_clock_was_set(struct fake *f, int64_t by_us, size_t n)
{
	struct fake_call k;

	f->clock.wall += by_us;
	while (n-- > 0) {
		fake_call_now(f, &k);
		assert_int_equal(k.rc, SPOT_OK);
	}
}

static void fresh_credentials_are_renewed_once_when_the_clock_was_set(void **state)
{
	struct fake *f = *state;

	calls_after_the_clock_was_set(f, 20 * S, 2); /* steered */
	assert_int_equal(f->auths, 0);
	calls_after_the_clock_was_set(f, 3600 * S, 2);
	assert_int_equal(f->auths, 1);
	calls_after_the_clock_was_set(f, -7200 * S, 3);
	assert_int_equal(f->auths, 2);
}

/* Renewed because they were stale, by their own look at the new time: keys that they took for fresh
 * are still to come. */
static void a_renewal_interrupted_by_a_clock_step_is_repeated_whole(void **state)
{
	struct fake *f = *state;

	f->fresh = false;
	calls_after_the_clock_was_set(f, 3600 * S, 1);
	assert_int_equal(f->auths, 1);
	calls_after_the_clock_was_set(f, 0, 3);
	assert_int_equal(f->auths, 2);
}

static void credentials_that_cannot_be_renewed_when_the_clock_was_set_are_used_on(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->auth = auth_refused;
	calls_after_the_clock_was_set(f, 3600 * S, 2);
	assert_int_equal(f->requests, 2);
	f->clock.wall += 3600 * S;
	f->serve = serve_expired;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_CONFIG); /* refused by the far side, too */
	f->serve = fake_serve_ok;
	/* A renewal that failed by a wrong clock is due once the clock is right again, too. */
	calls_after_the_clock_was_set(f, -7200 * S, 1);
	f->auth = NULL;
	calls_after_the_clock_was_set(f, 0, 2);
	assert_int_equal(f->auths, 1);
}

static enum spot_step auth_new_secret(struct fake *f, struct spot_call *c UNUSED)
{
	f->secret = "second-secret-abcdef";
	return SPOT_DONE;
}

static void secrets_of_a_renewal_are_registered_for_redaction(void **state)
{
	struct fake *f = *state;
	struct fake_call k;
	char text[] = "a second-secret-abcdef b";
	size_t n = strlen(text);

	f->fresh = false;
	f->auth = auth_new_secret;
	fake_call_now(f, &k);
	redact_text(text, &n);
	assert_null(strstr(text, "second-secret"));
	call_provider_free(STEAL(f->p));
	assert_int_equal(f->closed, 1);
	char after[] = "a second-secret-abcdef b";
	n = strlen(after);
	redact_text(after, &n);
	assert_non_null(strstr(after, "second-secret")); /* forgotten with the provider */
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *read_path;
static int read_status;
static char read_body[64];

static enum spot_step step_read(struct fake *f UNUSED, struct spot_call *c)
{
	if (c->in == NULL) {
		c->path = read_path;
		return SPOT_READ;
	}
	read_status = c->in->status;
	snprintf(read_body, sizeof(read_body), "%s", c->in->body.p);
	return SPOT_DONE;
}

static void files_are_read_and_absence_is_a_status(void **state)
{
	struct fake *f = *state;
	struct fake_call k;
	char path[] = "/tmp/spot-call-XXXXXX";
	int fd = mkstemp(path);

	assert_int_equal(write(fd, "hello", 5), 5);
	close(fd);
	f->step = step_read;
	read_path = path;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(read_status, 200);
	assert_string_equal(read_body, "hello");
	unlink(path);
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_int_equal(read_status, 404);
}

static void only_small_regular_files_are_read(void **state)
{
	struct fake *f = *state;
	struct fake_call k;
	char dir[] = "/tmp/spot-call-XXXXXX";
	char path[64];
	int fd;

	assert_non_null(mkdtemp(dir));
	f->step = step_read;
	read_path = dir;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_CONFIG);
	snprintf(path, sizeof(path), "%s/pipe", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	read_path = path;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_CONFIG);
	unlink(path);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(ftruncate(fd, (256 << 10) + 1), 0);
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_CONFIG);
	assert_int_equal(ftruncate(fd, 256 << 10), 0);
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	close(fd);
	unlink(path);
	rmdir(dir);
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void stop_and_check(struct fake *f, struct fake_call *k)
{
	op_stop(&k->call.op);
	op_stop(&k->call.op);
	assert_int_equal(k->done, 0);
	fake_wait(f, k);
	assert_int_equal(k->rc, SPOT_CANCELLED);
	fake_turns(f, 20);
	assert_int_equal(k->done, 1);
}

static enum spot_step step_slow_limit(struct fake *f, struct spot_call *c)
{
	c->limit = 1;
	c->limit_cost = 2;
	return fake_step_get(f, c);
}

static void a_call_can_be_stopped_wherever_it_waits(void **state)
{
	struct fake *f = *state;
	struct fake_call k, other;

	/* before its first step */
	fake_start(f, &k, CALL_LIST, 60 * S, 0, false);
	stop_and_check(f, &k);
	assert_int_equal(f->entries, 0);
	/* a request is out */
	f->serve = fake_serve_hang;
	fake_start(f, &k, CALL_LIST, 60 * S, 0, false);
	fake_turns(f, 20);
	assert_int_equal(f->requests, 1);
	stop_and_check(f, &k);
	/* waiting to retry */
	f->serve = serve_come_next_week;
	fake_start(f, &k, CALL_LIST, 6000 * S, 0, false);
	fake_turns(f, 20);
	assert_int_equal(f->requests, 2);
	stop_and_check(f, &k);
	/* at the rate limit */
	f->serve = fake_serve_ok;
	f->step = step_slow_limit;
	fake_start(f, &other, CALL_LIST, 60 * S, 0, false);
	fake_start(f, &k, CALL_LIST, 60 * S, 0, false);
	fake_wait(f, &other);
	assert_int_equal(f->requests, 3);
	stop_and_check(f, &k);
	/* waiting for credentials */
	f->fresh = false;
	f->auth = auth_by_request;
	f->serve = fake_serve_hang;
	fake_start(f, &k, CALL_LIST, 60 * S, 0, false);
	fake_turns(f, 20);
	assert_int_equal(f->requests, 4);
	stop_and_check(f, &k);
}

static void freeing_the_provider_stops_what_still_runs(void **state)
{
	struct fake *f = *state;
	struct fake_call a, b;

	f->serve = fake_serve_hang;
	fake_start(f, &a, CALL_LIST, 60 * S, 0, false);
	fake_turns(f, 20);
	f->fresh = false;
	f->auth = auth_by_request;
	fake_start(f, &b, CALL_LIST, 60 * S, 0, false);
	fake_turns(f, 20);
	call_provider_free(STEAL(f->p));
	fake_wait(f, &a);
	fake_wait(f, &b);
	assert_int_equal(a.rc, SPOT_CANCELLED);
	assert_int_equal(b.rc, SPOT_CANCELLED);
}

/* ---- the clock of the cloud ------------------------------------------------------------------ */

static void serve_another_time(struct fake *f, struct httpd_req *r)
{
	if (f->requests == 3) {
		httpd_set(r, "Age", "86400");
	}
	httpd_set(r, "Date",
	    f->requests == 1       ? "Tue, 01 Sep 2026 12:00:00 GMT"
		: f->requests == 2 ? "not known"
				   : "Mon, 31 Aug 2026 12:00:00 GMT");
	httpd_reply(r, f->requests == 1 ? 500 : 200, "text/plain", "", 0);
}

static void a_reply_tells_by_how_much_the_clocks_differ(void **state)
{
	struct fake *f = *state;
	struct fake_call k;
	int64_t off, at, theirs = INT64_C(1788264000) * S;

	assert_false(call_provider_told(f->p, &off, &at));
	f->serve = serve_another_time;
	fake_call_now(f, &k);
	assert_int_not_equal(k.rc, SPOT_OK);
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK); /* this one told nothing */
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_OK); /* this one is of another time */
	assert_true(call_provider_told(f->p, &off, &at));
	/* the manual mono clock starts at 1 s */
	assert_int_equal(off, theirs - FAKE_WALL_US - at + S);
	assert_true(at < loop_mono_us(f->loop));
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, fake_setup, fake_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(stale_credentials_are_renewed_once_for_all_that_wait),
		T(failed_renewal_fails_all_that_wait_with_its_words),
		T(renewal_has_its_own_requests_and_retries),
		T(a_waiting_call_keeps_its_own_deadline),
		T(expired_credentials_are_renewed_and_the_request_repeated),
		T(credentials_are_renewed_once_per_call),
		T(calls_refused_together_renew_together),
		T(fresh_credentials_are_renewed_once_when_the_clock_was_set),
		T(a_renewal_interrupted_by_a_clock_step_is_repeated_whole),
		T(credentials_that_cannot_be_renewed_when_the_clock_was_set_are_used_on),
		T(secrets_of_a_renewal_are_registered_for_redaction),
		T(files_are_read_and_absence_is_a_status),
		T(only_small_regular_files_are_read),
		T(a_call_can_be_stopped_wherever_it_waits),
		T(freeing_the_provider_stops_what_still_runs),
		T(a_reply_tells_by_how_much_the_clocks_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
