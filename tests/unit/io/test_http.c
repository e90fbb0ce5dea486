/* The HTTP client: the code of each kind of failure, caps, and that waiting is not spinning. */
#include "base/base.h"
#include "unit.h"
#include "test_server.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "io/http/http.h"

#include <sys/resource.h>
#include <unistd.h>

struct world {
	struct test_server server;
	struct rng rng;
	struct loop *loop;
	struct http_client *client;
	struct arena *arena;
};
static struct world w;

struct get {
	struct http_req req;
	struct spot_http_request out;
	int done;
};

static void get_done(struct op *op)
{
	container_of(op, struct get, req.op)->done++;
}

static void get_start(struct get *g, const char *method, const char *path, bool mutating)
{
	g->done = 0;
	g->out.method = method;
	g->out.url = arena_printf(w.arena, "http%s://127.0.0.1:%d%s",
	    w.server.tls != NULL ? "s" : "", w.server.port, path);
	if (g->out.timeout_us == 0) {
		g->out.timeout_us = 20 * SPOT_US_PER_S;
	}
	http_send(w.client, &g->req, &g->out, w.arena, mutating, get_done);
	assert_int_equal(g->done, 0);
}

/* Turns until done; returns how many turns it took. */
static int get_wait(struct get *g)
{
	int turns = 0;

	while (g->done == 0) {
		loop_turn(w.loop, -1);
		turns++;
	}
	assert_int_equal(g->done, 1);
	return turns;
}

static enum spot_rc path_get(struct get *g, const char *method, const char *path, bool mutating)
{
	get_start(g, method, path, mutating);
	get_wait(g);
	return g->req.op.rc;
}

static void world_up(bool tls, bool trust)
{
	struct http_client_conf conf = { .user_agent = "spotbroker/test" };

	memset(&w, 0, sizeof(w));
	test_server_start(&w.server, tls);
	rng_seeded_init(&w.rng, 1);
	w.loop = loop_new(&clock_real, &w.rng);
	if (trust) {
		conf.ca_file = w.server.ca_path;
	}
	w.client = http_client_new(w.loop, &conf);
	w.arena = arena_new(0);
}

static int setup(void **state)
{
	(void)state;
	world_up(false, false);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	http_client_free(w.client);
	loop_turn(w.loop, 0);
	loop_free(w.loop);
	test_server_stop(&w.server);
	arena_free(w.arena);
	return 0;
}

static void a_reply_has_status_headers_and_body(void **state)
{
	struct get g = { 0 };

	(void)state;
	assert_int_equal(path_get(&g, "GET", "/ok", false), SPOT_OK);
	assert_int_equal(g.req.in.status, 200);
	assert_string_equal(g.req.in.body.p, "hello");
	assert_int_equal(g.req.in.body.n, 5);
	assert_string_equal(spot_http_header(&g.req.in, "x-one"), "first");
	assert_string_equal(spot_http_header(&g.req.in, "X-Empty"), "");
	assert_null(spot_http_header(&g.req.in, "X-None"));
	assert_int_equal(path_get(&g, "HEAD", "/ok", false), SPOT_OK);
	assert_int_equal(g.req.in.body.n, 0);
	assert_string_equal(g.req.in.body.p, "");
	assert_int_equal(atomic_load(&w.server.connections), 1); /* kept alive */
}

static void a_request_goes_out_as_it_was_built(void **state)
{
	struct get g = { 0 };

	(void)state;
	g.out.headers[0] = (struct spot_header){ "X-Amz-Date", "20260101T000000Z" };
	g.out.headers[1] = (struct spot_header){ "X-Empty", "" };
	g.out.headers_n = 2;
	g.out.body = STR_LIT("a=1");
	assert_int_equal(path_get(&g, "POST", "/echo/../%2e?q=%20", false), SPOT_OK);
	const char *sent = g.req.in.body.p;
	assert_true(str_prefix(sent, "POST /echo/../%2e?q=%20 HTTP/1.1\r\n"));
	assert_non_null(strstr(sent, "\r\nX-Amz-Date: 20260101T000000Z\r\n"));
	assert_non_null(strstr(sent, "\r\nX-Empty:\r\n"));
	assert_non_null(strstr(sent, "\r\nUser-Agent: spotbroker/test\r\n"));
	assert_non_null(strstr(sent, "\r\nContent-Length: 3\r\n"));
	assert_true(str_suffix(sent, "\r\n\r\na=1"));
	assert_null(strcasestr(sent, "expect:"));
	assert_null(strcasestr(sent, "content-type:"));
	g.out.headers_n = 0;
	g.out.body = (struct str){ 0 };
	assert_int_equal(path_get(&g, "PUT", "/echo", false), SPOT_OK);
	assert_non_null(strstr(g.req.in.body.p, "\r\nContent-Length: 0\r\n"));
	assert_int_equal(path_get(&g, "DELETE", "/echo", false), SPOT_OK);
	assert_true(str_prefix(g.req.in.body.p, "DELETE /echo HTTP/1.1\r\n"));
	g.out.body = STR_LIT("{}");
	g.out.headers[0] = (struct spot_header){ "content-type", "application/json" };
	g.out.headers_n = 1;
	assert_int_equal(path_get(&g, "DELETE", "/echo", false), SPOT_OK);
	assert_true(str_prefix(g.req.in.body.p, "DELETE /echo HTTP/1.1\r\n"));
	assert_true(str_suffix(g.req.in.body.p, "\r\n\r\n{}"));
	assert_non_null(strstr(g.req.in.body.p, "\r\ncontent-type: application/json\r\n"));
}

static void an_interim_reply_is_passed_over_and_any_status_is_a_reply(void **state)
{
	struct get g = { 0 };

	(void)state;
	assert_int_equal(path_get(&g, "POST", "/interim", true), SPOT_OK);
	assert_int_equal(g.req.in.status, 503);
	assert_string_equal(spot_http_header(&g.req.in, "retry-after"), "3");
	assert_null(spot_http_header(&g.req.in, "x-early"));
	assert_string_equal(g.req.in.body.p, "busy");
}

static void redirects_are_not_followed(void **state)
{
	struct get g = { 0 };

	(void)state;
	assert_int_equal(path_get(&g, "GET", "/redirect", false), SPOT_OK);
	assert_int_equal(g.req.in.status, 302);
	assert_int_equal(atomic_load(&w.server.requests), 1);
}

static void a_lost_reply_of_a_mutating_request_is_unknown(void **state)
{
	static const struct {
		const char *path;
		enum spot_rc reading, mutating;
	} cases[] = {
		{ "/close", SPOT_UNAVAILABLE, SPOT_UNKNOWN },
		{ "/cut", SPOT_UNAVAILABLE, SPOT_UNKNOWN },
		{ "/hang", SPOT_TIMEOUT, SPOT_UNKNOWN },
		{ "/trickle", SPOT_TIMEOUT, SPOT_UNKNOWN },
		{ "/big", SPOT_BAD_REPLY, SPOT_UNKNOWN },
		{ "/headers", SPOT_BAD_REPLY, SPOT_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (int mutating = 0; mutating < 2; mutating++) {
			/* Short only if the deadline ends it: the others must not meet it on a busy
			 * machine. */
			bool waits = cases[i].reading == SPOT_TIMEOUT;
			struct get g = { .out = { .timeout_us = waits ? 400000 : 9 * SPOT_US_PER_S,
					     .reply_bytes_max = 65536 } };
			int64_t begun = clock_real.mono_us(&clock_real);

			enum spot_rc rc = path_get(&g, "POST", cases[i].path, mutating == 1);
			if (rc != (mutating == 1 ? cases[i].mutating : cases[i].reading)) {
				fail_msg("%s: %s: %s", cases[i].path, spot_rc_name(rc),
				    g.req.op.err.text);
			}
			assert_true(clock_real.mono_us(&clock_real) - begun < 10 * SPOT_US_PER_S);
			assert_int_equal(g.req.in.status, 0);
			assert_true(str_prefix(g.req.op.err.text, "http POST 127.0.0.1:"));
			assert_int_equal(g.req.op.err.rc, rc);
		}
	}
}

static void nothing_sent_is_unavailable_even_when_mutating(void **state)
{
	struct get g = { .out = { .method = "POST", .timeout_us = 10 * SPOT_US_PER_S } };

	(void)state;
	/* A port that was free a moment ago. */
	test_server_stop(&w.server);
	int port = w.server.port;
	g.out.url = arena_printf(w.arena, "http://127.0.0.1:%d/", port);
	http_send(w.client, &g.req, &g.out, w.arena, true, get_done);
	get_wait(&g);
	assert_int_equal(g.req.op.rc, SPOT_UNAVAILABLE);
	g.done = 0;
	g.out.url = "http://host.invalid./";
	http_send(w.client, &g.req, &g.out, w.arena, true, get_done);
	get_wait(&g);
	assert_int_equal(g.req.op.rc, SPOT_UNAVAILABLE);
	test_server_start(&w.server, false);
}

static void bytes_that_are_no_http_request_are_invalid(void **state)
{
	struct get g = { .out = { .method = "GET", .url = "file:///etc/hostname" } };

	(void)state;
	http_send(w.client, &g.req, &g.out, w.arena, false, get_done);
	get_wait(&g);
	assert_int_equal(g.req.op.rc, SPOT_INVALID);
	g.out.headers[0] = (struct spot_header){ "X-A", "1\r\nX-B: 2" };
	g.out.headers_n = 1;
	assert_int_equal(path_get(&g, "GET", "/ok", false), SPOT_INVALID);
	g.out.headers[0] = (struct spot_header){ "X A", "1" };
	assert_int_equal(path_get(&g, "GET", "/ok", false), SPOT_INVALID);
	assert_int_equal(atomic_load(&w.server.requests), 0);
}

static void a_mutating_request_is_never_sent_twice(void **state)
{
	struct get g = { 0 };

	(void)state;
	/* The server drops the connection when it is used again: curl would silently repeat. */
	assert_int_equal(path_get(&g, "GET", "/once", false), SPOT_OK);
	int before = atomic_load(&w.server.requests);
	assert_int_equal(path_get(&g, "POST", "/close", true), SPOT_UNKNOWN);
	assert_int_equal(atomic_load(&w.server.requests), before + 1);
	before = atomic_load(&w.server.connections);
	g.out.fresh_connection = true;
	assert_int_equal(path_get(&g, "GET", "/ok", false), SPOT_OK);
	assert_int_equal(atomic_load(&w.server.connections), before + 1);
}

static void waiting_for_a_reply_is_not_spinning(void **state)
{
	struct get g = { .out = { .timeout_us = 800000 } };
	struct rusage before, after;

	(void)state;
	getrusage(RUSAGE_THREAD, &before);
	get_start(&g, "GET", "/hang", false);
	int turns = get_wait(&g);
	getrusage(RUSAGE_THREAD, &after);
	assert_int_equal(g.req.op.rc, SPOT_TIMEOUT);
	assert_in_range(turns, 2, 40);
	int64_t cpu_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * SPOT_US_PER_S +
	    after.ru_utime.tv_usec - before.ru_utime.tv_usec;
	assert_true(cpu_us < 200000);
}

static void a_stopped_request_ends_once_as_cancelled_and_reaches_nobody_when_destroyed(void **state)
{
	struct get g = { 0 }, forgotten = { 0 }, early = { 0 };

	(void)state;
	get_start(&early, "GET", "/ok", false);
	op_stop(&early.req.op); /* before curl has done anything */
	get_start(&g, "GET", "/hang", false);
	get_start(&forgotten, "GET", "/hang", false);
	while (atomic_load(&w.server.requests) < 2) {
		loop_turn(w.loop, 10000);
	}
	op_stop(&g.req.op);
	op_stop(&g.req.op);
	op_fini(&forgotten.req.op);
	get_wait(&g);
	assert_int_equal(g.req.op.rc, SPOT_CANCELLED);
	assert_int_equal(early.done, 1);
	assert_int_equal(early.req.op.rc, SPOT_CANCELLED);
	for (int i = 0; i < 5; i++) {
		loop_turn(w.loop, 1000);
	}
	assert_int_equal(g.done, 1);
	assert_int_equal(forgotten.done, 0);
}

static void freeing_the_client_cancels_what_is_under_way(void **state)
{
	struct get g = { 0 };

	(void)state;
	get_start(&g, "GET", "/hang", false);
	while (atomic_load(&w.server.requests) < 1) {
		loop_turn(w.loop, 10000);
	}
	http_client_free(w.client);
	w.client = NULL;
	get_wait(&g);
	assert_int_equal(g.req.op.rc, SPOT_CANCELLED);
}

static struct get again;
static int rounds;

static void again_done(struct op *op)
{
	assert_int_equal(op->rc, SPOT_OK);
	if (++rounds < 50) {
		http_send(w.client, &again.req, &again.out, w.arena, false, again_done);
	}
}

static void done_may_start_the_next_request(void **state)
{
	(void)state;
	again = (struct get){ .out = { .method = "GET" } };
	again.out.url = arena_printf(w.arena, "http://127.0.0.1:%d/ok", w.server.port);
	rounds = 0;
	http_send(w.client, &again.req, &again.out, w.arena, false, again_done);
	while (rounds < 50) {
		loop_turn(w.loop, -1);
	}
	assert_int_equal(atomic_load(&w.server.connections), 1);
}

static void many_requests_at_once_all_end_well(void **state)
{
	static struct get g[40];

	(void)state;
	memset(g, 0, sizeof(g));
	for (size_t i = 0; i < ARRAY_LEN(g); i++) {
		get_start(&g[i], "GET", "/ok", false);
	}
	for (size_t i = 0; i < ARRAY_LEN(g); i++) {
		get_wait(&g[i]);
		assert_int_equal(g[i].req.op.rc, SPOT_OK);
	}
	assert_in_range(atomic_load(&w.server.connections), 1, 16); /* the cap per host */
}

static void a_secret_in_the_url_is_not_in_the_log(void **state)
{
	struct get g = { 0 };
	struct secret s;
	char text[8192] = "";
	int fds[2];

	(void)state;
	secret_init(&s, "presigned-0123456789", 20);
	assert_int_equal(pipe(fds), 0);
	log_init(&(struct log_conf){ .fd = fds[1],
	    .level = LOG_DEBUG,
	    .program = "t",
	    .clock = &clock_real });
	assert_int_equal(path_get(&g, "GET", "/ok?x=presigned-0123456789&X-Amz-Signature=abcdef",
			     false),
	    SPOT_OK);
	log_init(&(struct log_conf){ .fd = STDERR_FILENO,
	    .level = LOG_WARN,
	    .program = "t",
	    .clock = &clock_real });
	close(fds[1]);
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	close(fds[0]);
	assert_non_null(strstr(text, "http.done"));
	assert_non_null(strstr(text, "status=200"));
	assert_null(strstr(text, "presigned"));
	assert_null(strstr(text, "abcdef"));
	secret_fini(&s);
}

static int setup_tls_trusted(void **state)
{
	(void)state;
	world_up(true, true);
	return 0;
}

static int setup_tls_stranger(void **state)
{
	(void)state;
	world_up(true, false);
	return 0;
}

static void our_own_ca_is_trusted_beside_the_system(void **state)
{
	struct get g = { 0 };

	(void)state;
	assert_int_equal(path_get(&g, "POST", "/ok", true), SPOT_OK);
	assert_string_equal(g.req.in.body.p, "hello");
}

static void a_strange_certificate_is_refused_before_anything_is_sent(void **state)
{
	struct get g = { 0 };

	(void)state;
	assert_int_equal(path_get(&g, "POST", "/ok", true), SPOT_UNAVAILABLE);
	assert_int_equal(atomic_load(&w.server.requests), 0);
}

static void an_unusable_ca_file_is_a_configuration_error(void **state)
{
	struct get g = { 0 };

	(void)state;
	http_client_free(w.client);
	log_init(&(struct log_conf){ .fd = -1, .level = LOG_ERROR, .clock = &clock_real });
	w.client = http_client_new(w.loop, &(struct http_client_conf){ .ca_file = "absent.pem" });
	assert_int_equal(path_get(&g, "GET", "/ok", false), SPOT_CONFIG);
	log_init(
	    &(struct log_conf){ .fd = STDERR_FILENO, .level = LOG_WARN, .clock = &clock_real });
}

static void a_ca_of_a_request_counts_for_that_request_only(void **state)
{
	struct get with = { 0 }, without = { 0 };
	char pem[8192];
	FILE *f = fopen(w.server.ca_path, "r");

	(void)state;
	assert_non_null(f);
	pem[fread(pem, 1, sizeof(pem) - 1, f)] = '\0';
	fclose(f);
	with.out.tls_ca_pem = pem;
	assert_int_equal(path_get(&with, "GET", "/ok", false), SPOT_OK);
	/* the connection that this one left behind is not for others */
	assert_int_equal(path_get(&without, "GET", "/ok", false), SPOT_UNAVAILABLE);
	assert_int_equal(path_get(&with, "GET", "/ok", false), SPOT_OK);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_reply_has_status_headers_and_body),
		T(a_request_goes_out_as_it_was_built),
		T(an_interim_reply_is_passed_over_and_any_status_is_a_reply),
		T(redirects_are_not_followed),
		T(a_lost_reply_of_a_mutating_request_is_unknown),
		T(nothing_sent_is_unavailable_even_when_mutating),
		T(bytes_that_are_no_http_request_are_invalid),
		T(a_mutating_request_is_never_sent_twice),
		T(waiting_for_a_reply_is_not_spinning),
		T(a_stopped_request_ends_once_as_cancelled_and_reaches_nobody_when_destroyed),
		T(freeing_the_client_cancels_what_is_under_way),
		T(done_may_start_the_next_request),
		T(many_requests_at_once_all_end_well),
		T(a_secret_in_the_url_is_not_in_the_log),
		cmocka_unit_test_setup_teardown(our_own_ca_is_trusted_beside_the_system,
		    setup_tls_trusted, teardown),
		cmocka_unit_test_setup_teardown(a_ca_of_a_request_counts_for_that_request_only,
		    setup_tls_stranger, teardown),
		cmocka_unit_test_setup_teardown(
		    a_strange_certificate_is_refused_before_anything_is_sent, setup_tls_stranger,
		    teardown),
		T(an_unusable_ca_file_is_a_configuration_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
