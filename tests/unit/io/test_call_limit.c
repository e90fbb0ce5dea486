/* Rate limits of provider calls: own buckets, order, the account-wide bucket. */
#include "base/base.h"
#include "call_fake.h"

#define S SPOT_US_PER_S

enum {
	LIMIT_FREE = 0,
	LIMIT_SLOW,
	LIMIT_ACCOUNT,
	LIMIT_NARROW
}; /* of call_fake.c: slow is 1/s with a burst of 2, narrow is 1 per 4 s within slow */

static const char *step_scope;
static int step_cost, step_also; /* of slow; of a second bucket: slow, beside the free one */

static enum spot_step step_slow(struct fake *f, struct spot_call *c)
{
	c->limit = LIMIT_SLOW;
	c->limit_scope = step_scope;
	c->limit_cost = step_cost;
	if (step_also > 0) {
		c->limit = LIMIT_ACCOUNT;
		c->limit_also = LIMIT_SLOW + 1;
		c->limit_also_cost = step_also;
	}
	return fake_step_get(f, c);
}

static void start_n(struct fake *f, struct fake_call *k, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fake_start(f, &k[i], CALL_LIST, 600 * S, 0, false);
	}
}

static void wait_n(struct fake *f, struct fake_call *k, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fake_wait(f, &k[i]);
		assert_int_equal(k[i].rc, SPOT_OK);
	}
}

static int limit_setup(void **state)
{
	step_scope = NULL;
	step_cost = step_also = 0;
	fake_setup(state);
	((struct fake *)*state)->step = step_slow;
	((struct fake *)*state)->tick_us = 5000;
	return 0;
}

static void a_burst_goes_at_once_and_the_rest_at_the_rate(void **state)
{
	struct fake *f = *state;
	struct fake_call k[5];

	start_n(f, k, 5);
	wait_n(f, k, 5);
	assert_int_equal(f->requests, 5);
	assert_true(f->at_us[1] - f->at_us[0] < S / 4);
	for (int i = 2; i < 5; i++) {
		assert_in_range(f->at_us[i] - f->at_us[0], (i - 1) * S - S / 10,
		    (i - 1) * S + S / 4);
	}
	assert_in_range(call_provider_stats(f->p).waited_us, 5 * S, 7 * S);
}

static void a_dearer_request_waits_for_all_its_tokens(void **state)
{
	struct fake *f = *state;
	struct fake_call k[3];

	step_cost = 2;
	start_n(f, k, 3);
	wait_n(f, k, 3);
	assert_in_range(f->at_us[1] - f->at_us[0], 2 * S - S / 10, 2 * S + S / 4);
	assert_in_range(f->at_us[2] - f->at_us[0], 4 * S - S / 10, 4 * S + S / 4);
}

static void a_cost_above_the_burst_is_served_from_a_full_bucket(void **state)
{
	struct fake *f = *state;
	struct fake_call k[2];

	step_cost = 100;
	start_n(f, k, 2);
	wait_n(f, k, 2);
	assert_in_range(f->at_us[1] - f->at_us[0], 2 * S - S / 10, 2 * S + S / 4);
}

/* Requests 1/s, and machines 1/s of which each request makes two: the second bucket binds. */
static void a_request_draws_from_a_second_bucket_too(void **state)
{
	struct fake *f = *state;
	struct fake_call k[3];

	step_also = 2;
	assert_true(call_provider_room(f->p, LIMIT_SLOW, NULL) > 1.9);
	start_n(f, k, 3);
	wait_n(f, k, 3);
	assert_in_range(f->at_us[1] - f->at_us[0], 2 * S - S / 10, 2 * S + S / 4);
	assert_in_range(f->at_us[2] - f->at_us[0], 4 * S - S / 10, 4 * S + S / 4);
	assert_true(call_provider_room(f->p, LIMIT_SLOW, NULL) < 1);
	assert_true(call_provider_room(f->p, LIMIT_FREE, NULL) >= CALL_ROOM_FREE);
}

static void a_factor_widens_or_lifts_all_limits(void **state)
{
	struct fake *f = *state;
	struct fake_call k[8];

	call_provider_rate(f->p, 3);
	start_n(f, k, 8);
	wait_n(f, k, 8);
	assert_true(f->at_us[5] - f->at_us[0] < S / 4);
	assert_in_range(f->at_us[7] - f->at_us[0], 2 * S / 3 - S / 10, 2 * S / 3 + S / 4);
	call_provider_rate(f->p, 0);
	start_n(f, k, 8);
	wait_n(f, k, 8);
	assert_true(f->at_us[15] - f->at_us[8] < S / 4);
}

static void each_scope_has_its_own_bucket(void **state)
{
	struct fake *f = *state;
	struct fake_call a[2], b[2];

	step_scope = "us-east-1";
	start_n(f, a, 2);
	wait_n(f, a, 2);
	step_scope = "us-west-2";
	start_n(f, b, 2);
	wait_n(f, b, 2);
	assert_true(f->at_us[3] - f->at_us[0] < S / 2);
}

static void urgent_calls_go_before_those_that_wait(void **state)
{
	struct fake *f = *state;
	struct fake_call k[4], urgent;

	start_n(f, k, 4); /* two go, two wait */
	fake_turns(f, 20);
	assert_int_equal(f->requests, 2);
	fake_start(f, &urgent, CALL_TERMINATE, 600 * S, 0, true);
	fake_wait(f, &urgent);
	assert_int_equal(f->requests, 3);
	assert_int_equal(k[2].done, 0);
	assert_int_equal(k[3].done, 0);
	wait_n(f, &k[2], 2);
	assert_true(urgent.ended_us < k[2].ended_us);
	assert_true(k[2].ended_us < k[3].ended_us);
}

static void serve_throttled_once(struct fake *f, struct httpd_req *r)
{
	if (f->requests == 1) {
		httpd_set(r, "Retry-After", "9");
	}
	httpd_reply(r, f->requests == 1 ? 429 : 200, "text/plain", "", 0);
}

static void one_refusal_shuts_the_bucket_for_all(void **state)
{
	struct fake *f = *state;
	struct fake_call k[2];

	f->serve = serve_throttled_once;
	start_n(f, &k[0], 1);
	fake_turns(f, 40);
	assert_int_equal(f->requests, 1);
	start_n(f, &k[1], 1);
	wait_n(f, k, 2);
	assert_in_range(f->at_us[1] - f->at_us[0], 9 * S - S / 10, 10 * S);
	assert_int_equal(f->requests, 3);
}

static void serve_throttled_for_a_second(struct fake *f, struct httpd_req *r)
{
	if (f->requests == 1) {
		httpd_set(r, "Retry-After", "1");
	}
	httpd_reply(r, f->requests == 1 ? 429 : 200, "text/plain", "", 0);
}

/* EC2 counts machines beside requests; a throttled request has made none. */
static void a_throttled_request_keeps_the_tokens_of_what_it_asks_for(void **state)
{
	struct fake *f = *state;
	struct fake_call k[2];

	f->serve = serve_throttled_for_a_second;
	step_also = 2; /* the whole bucket, which takes two seconds to fill */
	start_n(f, &k[0], 1);
	fake_wait(f, &k[0]);
	assert_in_range(f->at_us[1] - f->at_us[0], S - S / 10, S + S / 2);
	start_n(f, &k[1], 1); /* takes its own */
	fake_wait(f, &k[1]);
	assert_true(f->at_us[2] - f->at_us[0] > 2 * S - S / 10);
}

static enum spot_step step_narrow(struct fake *f, struct spot_call *c)
{
	c->limit = LIMIT_NARROW;
	return fake_step_get(f, c);
}

static void a_request_of_a_narrow_limit_counts_against_the_wider_one_too(void **state)
{
	struct fake *f = *state;
	struct fake_call narrow[2], wide[2];

	f->step = step_narrow;
	start_n(f, narrow, 2);
	fake_turns(f, 20);
	assert_int_equal(f->requests, 1);
	f->step = step_slow;
	start_n(f, wide, 2); /* one token is left, the next one takes a second */
	wait_n(f, wide, 2);
	assert_int_equal(f->requests, 3);
	assert_in_range(f->at_us[2] - f->at_us[0], S - S / 10, S + S / 4);
	f->step = step_narrow;
	wait_n(f, narrow, 2);
	assert_in_range(f->at_us[3] - f->at_us[0], 4 * S - S / 10, 4 * S + S / 4);
}

static enum spot_step step_gives_up(struct fake *f, struct spot_call *c)
{
	c->limit = LIMIT_SLOW;
	if (c->in != NULL && c->in->status == 429) {
		call_fail(c, SPOT_THROTTLED, NULL, "too fast");
		c->err.retry_after_us = call_retry_after_us(c);
		return SPOT_FAIL;
	}
	return fake_step_get(f, c);
}

static void a_refusal_that_ends_its_call_shuts_the_bucket_too(void **state)
{
	struct fake *f = *state;
	struct fake_call k[2];

	f->step = step_gives_up;
	f->serve = serve_throttled_once;
	start_n(f, &k[0], 1);
	fake_wait(f, &k[0]);
	assert_int_equal(k[0].rc, SPOT_THROTTLED);
	start_n(f, &k[1], 1);
	wait_n(f, &k[1], 1);
	assert_in_range(f->at_us[1] - f->at_us[0], 9 * S - S / 10, 10 * S);
}

static void serve_throttled_for_a_minute(struct fake *f, struct httpd_req *r)
{
	if (f->requests == 1) {
		httpd_set(r, "Retry-After", "60");
	}
	httpd_reply(r, f->requests == 1 ? 429 : 200, "text/plain", "", 0);
}

static enum spot_step step_dated(struct fake *f, struct spot_call *c)
{
	c->limit = LIMIT_SLOW;
	if (c->in != NULL) {
		return fake_step_get(f, c);
	}
	return fake_get(f, c, arena_printf(c->arena, "/%" PRId64, c->now_us - FAKE_WALL_US));
}

static void a_request_that_waited_long_is_built_again(void **state)
{
	struct fake *f = *state;
	struct fake_call k[2];
	int64_t built;

	f->step = step_dated;
	f->serve = serve_throttled_for_a_minute;
	f->tick_us = 20000;
	start_n(f, &k[0], 1);
	fake_turns(f, 40);
	start_n(f, &k[1], 1);
	wait_n(f, k, 2);
	assert_int_equal(f->requests, 3);
	for (int i = 1; i < 3; i++) {
		/* the manual mono clock starts at 1 s */
		built = strtoll(f->path[i] + 1, NULL, 10) + S;
		assert_in_range(f->at_us[i] - built, 0, S);
	}
}

/* ---- the account-wide bucket ----------------------------------------------------------------- */

struct shared_fake {
	struct call_shared shared;
	int asked;
	struct call_provider *p;
	void *token;
	bool urgent;
	char limit[32];
	enum { SAY_NOTHING = 0, SAY_GO, SAY_WAIT_ONCE, SAY_BROKEN } answer;
};

static void shared_take(struct call_shared *s, struct call_provider *p,
    const struct spot_limit *limit, const char *scope, int cost, bool urgent, void *token)
{
	struct shared_fake *x = container_of(s, struct shared_fake, shared);

	x->asked++;
	x->p = p;
	x->token = token;
	x->urgent = urgent;
	snprintf(x->limit, sizeof(x->limit), "%s/%s/%d", limit->name, scope, cost);
	if (x->answer == SAY_GO) {
		call_shared_taken(p, token, SPOT_OK, 0);
	} else if (x->answer == SAY_WAIT_ONCE) {
		x->answer = SAY_GO;
		call_shared_taken(p, token, SPOT_OK, 3 * S);
	} else if (x->answer == SAY_BROKEN) {
		call_shared_taken(p, token, SPOT_UNAVAILABLE, 0);
	}
}

static enum spot_step step_account(struct fake *f, struct spot_call *c)
{
	c->limit = LIMIT_ACCOUNT;
	return fake_step_get(f, c);
}

static struct shared_fake shared_begin(struct fake *f)
{
	f->step = step_account;
	return (struct shared_fake){ .shared = { .take = shared_take } };
}

static void shared_limits_are_asked_for_by_name(void **state)
{
	struct fake *f = *state;
	struct shared_fake x = shared_begin(f);
	struct fake_call k;

	fake_reset(f, &x.shared);
	x.answer = SAY_GO;
	fake_start(f, &k, CALL_TERMINATE, 60 * S, 0, true);
	wait_n(f, &k, 1);
	assert_int_equal(x.asked, 1);
	assert_true(x.urgent);
	assert_string_equal(x.limit, "account//1");
	fake_reset(f, NULL);
}

static void a_call_waits_as_long_as_the_shared_bucket_says(void **state)
{
	struct fake *f = *state;
	struct shared_fake x = shared_begin(f);
	struct fake_call k;

	fake_reset(f, &x.shared);
	x.answer = SAY_WAIT_ONCE;
	start_n(f, &k, 1);
	wait_n(f, &k, 1);
	assert_int_equal(x.asked, 2); /* the first time it got nothing */
	assert_in_range(f->at_us[0] - k.began_us, 3 * S, 3 * S + S / 4);
	fake_reset(f, NULL);
}

static void a_throttled_call_is_first_again_but_for_the_urgent(void **state)
{
	struct fake *f = *state;
	struct shared_fake x = shared_begin(f);
	struct fake_call k[3], urgent;

	fake_reset(f, &x.shared);
	x.answer = SAY_WAIT_ONCE;
	start_n(f, k, 3);
	fake_turns(f, 20);
	assert_int_equal(x.asked, 1); /* the others do not ask before their turn */
	fake_start(f, &urgent, CALL_TERMINATE, 600 * S, 0, true);
	fake_wait(f, &urgent);
	assert_int_equal(f->requests, 1);
	wait_n(f, k, 3);
	assert_int_equal(x.asked, 5);
	assert_true(k[0].ended_us < k[1].ended_us && k[1].ended_us < k[2].ended_us);
	assert_in_range(f->at_us[3] - f->at_us[0], 3 * S - S / 10, 3 * S + S / 4);
	fake_reset(f, NULL);
}

static void without_the_shared_bucket_the_own_one_holds_the_rate(void **state)
{
	struct fake *f = *state;
	struct shared_fake x = shared_begin(f);
	struct fake_call k[3];

	fake_reset(f, &x.shared);
	x.answer = SAY_BROKEN;
	start_n(f, k, 3);
	wait_n(f, k, 3);
	assert_int_equal(x.asked, 3);
	assert_in_range(f->at_us[2] - f->at_us[0], 2 * S - S / 10, 2 * S + S / 4);
	fake_reset(f, NULL);
}

static void a_refusal_shuts_us_out_also_where_the_shared_bucket_would_let_us(void **state)
{
	struct fake *f = *state;
	struct shared_fake x = shared_begin(f);
	struct fake_call k[2];

	fake_reset(f, &x.shared);
	x.answer = SAY_GO;
	f->serve = serve_throttled_once;
	start_n(f, &k[0], 1);
	fake_turns(f, 40);
	start_n(f, &k[1], 1);
	wait_n(f, k, 2);
	assert_int_equal(f->requests, 3);
	assert_in_range(f->at_us[1] - f->at_us[0], 9 * S - S / 10, 10 * S);
	fake_reset(f, NULL);
}

static void an_answer_for_a_stopped_call_is_dropped(void **state)
{
	struct fake *f = *state;
	struct shared_fake x = shared_begin(f);
	struct fake_call k;

	fake_reset(f, &x.shared);
	start_n(f, &k, 1);
	fake_turns(f, 5);
	assert_int_equal(x.asked, 1);
	op_stop(&k.call.op);
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_CANCELLED);
	call_shared_taken(x.p, x.token, SPOT_OK, 0);
	fake_turns(f, 5);
	assert_int_equal(f->requests, 0);
	fake_reset(f, NULL);
}

static void an_answer_may_come_after_the_provider_was_freed(void **state)
{
	struct fake *f = *state;
	struct shared_fake x = shared_begin(f);
	struct fake_call k;

	fake_reset(f, &x.shared);
	start_n(f, &k, 1);
	fake_turns(f, 5);
	fake_reset(f, NULL);
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_CANCELLED);
	call_shared_taken(x.p, x.token, SPOT_OK, 0); /* frees the rest of it: ASan would tell */
	assert_int_equal(f->requests, 0);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, limit_setup, fake_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_burst_goes_at_once_and_the_rest_at_the_rate),
		T(a_dearer_request_waits_for_all_its_tokens),
		T(a_cost_above_the_burst_is_served_from_a_full_bucket),
		T(a_request_draws_from_a_second_bucket_too),
		T(a_factor_widens_or_lifts_all_limits),
		T(each_scope_has_its_own_bucket),
		T(urgent_calls_go_before_those_that_wait),
		T(one_refusal_shuts_the_bucket_for_all),
		T(a_throttled_request_keeps_the_tokens_of_what_it_asks_for),
		T(a_request_of_a_narrow_limit_counts_against_the_wider_one_too),
		T(a_refusal_that_ends_its_call_shuts_the_bucket_too),
		T(a_request_that_waited_long_is_built_again),
		T(shared_limits_are_asked_for_by_name),
		T(a_call_waits_as_long_as_the_shared_bucket_says),
		T(a_throttled_call_is_first_again_but_for_the_urgent),
		T(without_the_shared_bucket_the_own_one_holds_the_rate),
		T(a_refusal_shuts_us_out_also_where_the_shared_bucket_would_let_us),
		T(an_answer_for_a_stopped_call_is_dropped),
		T(an_answer_may_come_after_the_provider_was_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
