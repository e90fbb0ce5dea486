/* Runs of provider calls: replies, retries, credentials, deadlines, doubt. */
#include "base/base.h"
#include "call_fake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/redact.h"
#include "base/str.h"

#define S SPOT_US_PER_S

/* ---- plain ----------------------------------------------------------------------------- */

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

	fake_start(f, &k, CALL_QUOTAS, 60 * S, 0, false);
	fake_wait(f, &k);
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

/* ---- endless and huge ------------------------------------------------------------------ */

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

/* ---- AGAIN ----------------------------------------------------------------------------- */

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
	fake_start(f, &k, CALL_LIST, 600 * S, 0, false);
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_UNAVAILABLE);
	assert_string_equal(k.err.code, "Broken");
	assert_int_equal(f->requests, 5);
	for (int i = 1; i < 5; i++, ceiling *= 2)
		assert_in_range(f->at_us[i] - f->at_us[i - 1], 0, ceiling + S / 5);
}

static void the_caller_chooses_how_many_tries(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = serve_busy;
	f->tick_us = 10000;
	fake_start(f, &k, CALL_LIST, 600 * S, 2, false);
	fake_wait(f, &k);
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
	fake_start(f, &k, CALL_LIST, 1000 * S, 2, false);
	fake_wait(f, &k);
	assert_int_equal(f->requests, 2);
	assert_in_range(f->at_us[1] - f->at_us[0], 300 * S, 302 * S);
}

/* Two requests in a chain; the second one meets a fault once. The state is the step's own. */
static enum spot_step step_chain(struct fake *f, struct spot_call *c)
{
	int *out = c->state;

	if (out == NULL)
		c->state = out = arena_alloc(c->arena, sizeof(*out));
	if (c->in == NULL)
		return fake_get(f, c, *out == 0 ? "/first" : "/second");
	if (c->in->status == 503)
		return call_again(c, SPOT_UNAVAILABLE, 0, NULL, "again");
	if (*out == 1)
		return SPOT_DONE;
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

/* ---- lost replies ---------------------------------------------------------------------- */

static void serve_cut_first(struct fake *f, struct httpd_req *r)
{
	if (f->requests == 1)
		httpd_abort(r);
	else
		httpd_reply(r, 200, "text/plain", "", 0);
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
	fake_start(f, &k, CALL_LAUNCH, 60 * S, 0, false);
	fake_wait(f, &k);
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
	fake_start(f, &k, CALL_LAUNCH, 5 * S, 0, false);
	fake_wait(f, &k);
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
	fake_start(f, &k, CALL_LIST, 5 * S, 0, false);
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_TIMEOUT);
	assert_in_range(k.ended_us - k.began_us, 4 * S, 6 * S);
}

static void a_change_answered_with_a_fault_stays_in_doubt(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = fake_step_post;
	f->serve = serve_busy;
	f->tick_us = 10000;
	fake_start(f, &k, CALL_TERMINATE, 600 * S, 3, true);
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_UNKNOWN);
	assert_string_equal(k.err.code, "Broken");
	assert_int_equal(f->requests, 3);
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
	fake_start(f, &k, CALL_TERMINATE, 600 * S, 3, true);
	fake_wait(f, &k);
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
	fake_start(f, &k, CALL_LAUNCH, 600 * S, 3, false);
	fake_wait(f, &k);
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
	fake_start(f, &k, CALL_LIST, 60 * S, 2, false);
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_BAD_REPLY);
	f->step = step_small_post;
	fake_start(f, &k, CALL_LAUNCH, 60 * S, 2, false);
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_UNKNOWN);
	assert_int_equal(f->requests, 3);
}

/* ---- credentials ----------------------------------------------------------------------- */

static void stale_credentials_are_renewed_once_for_all_that_wait(void **state)
{
	struct fake *f = *state;
	struct fake_call k[5];

	f->fresh = false;
	for (size_t i = 0; i < ARRAY_LEN(k); i++)
		fake_start(f, &k[i], CALL_LIST, 60 * S, 0, false);
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
	for (size_t i = 0; i < ARRAY_LEN(k); i++)
		fake_start(f, &k[i], CALL_LIST, 60 * S, 0, false);
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
	if (c->in == NULL)
		return fake_get(f, c, "/token");
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
	fake_start(f, &k, CALL_LIST, 2 * S, 0, false);
	fake_wait(f, &k);
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
	for (size_t i = 0; i < ARRAY_LEN(k); i++)
		fake_start(f, &k[i], CALL_LIST, 60 * S, 0, false);
	for (size_t i = 0; i < ARRAY_LEN(k); i++)
		fake_wait(f, &k[i]);
	assert_in_range(f->auths, 1, 2);
	assert_int_equal(f->requests, 8);
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

/* ---- files ----------------------------------------------------------------------------- */

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

static void what_is_no_small_regular_file_is_refused(void **state)
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

/* ---- stopping -------------------------------------------------------------------------- */

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
	    T(a_step_that_never_ends_is_cut),
	    T(pages_that_fill_the_memory_are_cut_before_it_is_full),
	    T(retry_after_is_obeyed),
	    T(without_it_the_waits_grow_and_the_tries_end),
	    T(the_caller_chooses_how_many_tries),
	    T(a_wait_beyond_the_deadline_ends_the_call_at_once),
	    T(a_long_retry_after_is_capped_at_five_minutes),
	    T(only_the_request_that_failed_is_repeated),
	    T(again_comes_back_to_the_place_that_built_the_request),
	    T(a_lost_reply_of_a_read_is_asked_again),
	    T(a_lost_reply_of_a_change_is_unknown_and_never_repeated),
	    T(our_deadline_on_a_change_is_unknown),
	    T(our_deadline_on_a_read_is_a_timeout),
	    T(a_change_answered_with_a_fault_stays_in_doubt),
	    T(a_change_that_was_throttled_did_not_happen),
	    T(a_change_that_was_never_sent_is_unavailable),
	    T(a_reply_over_the_cap_is_a_bad_one_and_of_a_change_unknown),
	    T(stale_credentials_are_renewed_once_for_all_that_wait),
	    T(failed_renewal_fails_all_that_wait_with_its_words),
	    T(renewal_has_its_own_requests_and_retries),
	    T(a_waiting_call_keeps_its_own_deadline),
	    T(expired_credentials_are_renewed_and_the_request_repeated),
	    T(credentials_are_renewed_once_per_call),
	    T(calls_refused_together_renew_together),
	    T(secrets_of_a_renewal_are_registered_for_redaction),
	    T(files_are_read_and_absence_is_a_status),
	    T(what_is_no_small_regular_file_is_refused),
	    T(a_call_can_be_stopped_wherever_it_waits),
	    T(freeing_the_provider_stops_what_still_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
