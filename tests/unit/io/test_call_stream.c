/* Replies that are read line by line while they arrive: watches. */
#include "base/base.h"
#include "call_fake.h"

#include "base/text/text.h"

#define S SPOT_US_PER_S

static struct {
	char seen[16][64]; /* the step's input, in order */
	int n;
	bool ended; /* given the end of the reply */
} got;

static void serve_lines(struct fake *f, struct httpd_req *r)
{
	fake_serve_hang(f, r);
	httpd_stream_begin(r, 200, "application/json");
}

static void stream_say(struct fake *f, const char *text)
{
	assert_non_null(f->held);
	assert_true(httpd_stream_write(f->held, text, strlen(text)));
	fake_turns(f, 10);
}

/* Reads until a piece has "stop" in it, or to the end. */
static enum spot_step step_lines(struct fake *f, struct spot_call *c)
{
	if (c->in == NULL) {
		enum spot_step s = fake_get(f, c, "/watch");

		c->out.stream = true;
		return s;
	}
	assert_int_equal(c->in->status, 200);
	assert_string_equal(spot_http_header(c->in, "content-type"), "application/json");
	assert_in_range(got.n, 0, ARRAY_LEN(got.seen) - 1);
	(void)snprintf(got.seen[got.n++], sizeof(got.seen[0]), "%s", c->in->body.p);
	if (!c->in->partial) {
		got.ended = true;
		return SPOT_DONE;
	}
	return strstr(c->in->body.p, "stop") != NULL ? SPOT_DONE : SPOT_MORE;
}

static int setup(void **state)
{
	int rc = fake_setup(state);
	struct fake *f = *state;

	memset(&got, 0, sizeof(got));
	f->serve = serve_lines;
	f->step = step_lines;
	return rc;
}

static void stream_begin(struct fake *f, struct fake_call *k)
{
	fake_start(f, k, CALL_LIST, 60 * S, 0, false);
	for (int i = 0; i < 100 && f->held == NULL; i++) {
		fake_turns(f, 1);
	}
	assert_non_null(f->held);
}

static void lines_come_as_they_arrive_and_the_step_ends_the_request(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	stream_begin(f, &k);
	stream_say(f, "one\ntwo\nhal");
	assert_int_equal(got.n, 1);
	assert_string_equal(got.seen[0], "one\ntwo\n");
	stream_say(f, "f\n");
	assert_int_equal(got.n, 2);
	assert_string_equal(got.seen[1], "half\n");
	assert_int_equal(k.done, 0);
	stream_say(f, "stop\nmore\n");
	assert_int_equal(k.done, 1);
	assert_int_equal(k.rc, SPOT_OK);
	assert_false(got.ended);
	fake_turns(f, 20);
	assert_null(f->held); /* the connection was cut: the server is not left with a reader */
}

static void the_end_of_the_reply_brings_the_rest(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	stream_begin(f, &k);
	stream_say(f, "one\n");
	stream_say(f, "rest");
	httpd_stream_end(f->held);
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_true(got.ended);
	assert_int_equal(got.n, 2);
	assert_string_equal(got.seen[1], "rest");
}

static void a_stream_without_news_ends_by_the_calls_deadline(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->tick_us = S / 10;
	fake_run(f, &k, CALL_LIST, 5 * S, 1, false);
	assert_int_equal(k.rc, SPOT_TIMEOUT);
	assert_int_equal(got.n, 0);
	assert_in_range(k.ended_us - k.began_us, 5 * S, 6 * S);
}

static enum spot_step step_then_get(struct fake *f, struct spot_call *c)
{
	if (c->in == NULL) {
		return step_lines(f, c);
	}
	if (c->in->partial) {
		f->serve = fake_serve_ok;
		return fake_get(f, c, "/next");
	}
	return str_eq(c->in->body, "ok") ? SPOT_DONE
					 : call_fail(c, SPOT_BAD_REPLY, "", "not the next reply");
}

static void another_request_cuts_the_stream(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->step = step_then_get;
	stream_begin(f, &k);
	assert_true(httpd_stream_write(f->held, "go\n", 3));
	fake_wait(f, &k);
	assert_int_equal(k.rc, SPOT_OK);
	assert_string_equal(f->path[1], "/next");
}

static enum spot_step step_asks_again(struct fake *f, struct spot_call *c)
{
	return c->in == NULL ? fake_get(f, c, "/x") : SPOT_MORE;
}

static void more_of_a_reply_that_is_over_is_a_mistake_of_the_provider(void **state)
{
	struct fake *f = *state;
	struct fake_call k;

	f->serve = fake_serve_ok;
	f->step = step_asks_again;
	fake_call_now(f, &k);
	assert_int_equal(k.rc, SPOT_INTERNAL);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, fake_teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(lines_come_as_they_arrive_and_the_step_ends_the_request),
		T(the_end_of_the_reply_brings_the_rest),
		T(a_stream_without_news_ends_by_the_calls_deadline),
		T(another_request_cuts_the_stream),
		T(more_of_a_reply_that_is_over_is_a_mistake_of_the_provider),
	};

	return cmocka_run_group_tests_name("io/call_stream", tests, NULL, NULL);
}
