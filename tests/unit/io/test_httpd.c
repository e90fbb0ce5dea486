/* The server's life beyond parsing: keep-alive, pipelining, bodies, deadlines, parking, streams,
 * limits, drain. */
#include "base/base.h"
#include "test_httpd.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define GET_HELLO "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
#define MS INT64_C(1000)

static char *raw_ask(struct server *s, int fd, const char *raw, const char *needle)
{
	client_puts(s, fd, raw);
	return client_read(s, fd, needle, WAIT_US, NULL);
}

static void a_connection_serves_many_requests(void **state UNUSED)
{
	struct server s;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	for (int i = 0; i < 50; i++) {
		char *text = raw_ask(&s, fd,
		    "GET /hello?who=a%20b+c&x=1 HTTP/1.1\r\nHost: a\r\n\r\n", "a b c");

		assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\n"));
		assert_non_null(strstr(text, "Content-Length: 5\r\n"));
		assert_non_null(strstr(text, "\r\nDate: "));
		assert_non_null(strstr(text, "X-Injected: a  Evil: 1\r\n"));
		assert_null(strstr(text, "Connection: close"));
		free(text);
	}
	assert_int_equal(httpd_stats(s.httpd).accepted, 1);
	assert_int_equal(httpd_stats(s.httpd).requests, 50);
	close(fd);
	server_until_open(&s, 0);
	server_stop(&s);
}

static void pipelined_requests_are_answered_in_order(void **state UNUSED)
{
	struct server s;
	struct sbuf b;
	char *text;
	int fd;

	server_start(&s, NULL);
	sbuf_init(&b, 1 << 20);
	for (int i = 0; i < 200; i++) {
		sbuf_printf(&b, "GET /hello?who=n%03d HTTP/1.1\r\nHost: a\r\n\r\n", i);
	}
	fd = client_open(&s);
	client_send(&s, fd, b.p, b.n);
	text = client_read(&s, fd, "n199", WAIT_US, NULL);
	assert_int_equal(count_of(text, "HTTP/1.1 200 OK"), 200);
	for (const char *p = text, *q; (q = strstr(p, "\r\n\r\nn")); p = q + 5) {
		assert_true(strtol(q + 5, NULL, 10) ==
		    count_of(text, "\r\n\r\nn") - count_of(q, "\r\n\r\nn"));
	}
	free(text);
	close(fd);
	sbuf_fini(&b);
	server_stop(&s);
}

static void requests_behind_a_parked_one_wait_for_it(void **state UNUSED)
{
	struct server s;
	char *text;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	client_puts(&s, fd, "GET /park HTTP/1.1\r\nHost: a\r\n\r\n" GET_HELLO);
	server_until(&s, &s.parked_n, 1, WAIT_US);
	text = client_read(&s, fd, NULL, 100 * MS, NULL);
	assert_string_equal(text, "");
	assert_int_equal(s.parked_n, 1);
	assert_int_equal(s.served, 1);
	free(text);
	httpd_reply(s.parked[0], 200, "text/plain", "first", 5);
	text = client_read(&s, fd, "world", WAIT_US, NULL);
	assert_true(strstr(text, "first") && strstr(text, "world") &&
	    strstr(text, "first") < strstr(text, "world"));
	free(text);
	close(fd);
	server_stop(&s);
}

static void bodies_arrive_whole_however_they_are_cut(void **state UNUSED)
{
	struct server s;
	struct sbuf b;
	char *text;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	text = raw_ask(&s, fd,
	    "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
	    "100 Continue\r\n\r\n");
	assert_non_null(strstr(text, "HTTP/1.1 100 Continue\r\n\r\n"));
	free(text);
	text = raw_ask(&s, fd, "abcde", "\r\n\r\nabcde");
	assert_non_null(strstr(text, "\r\n\r\nabcde"));
	free(text);

	sbuf_init(&b, 1 << 20);
	sbuf_puts(&b, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 90; i++) {
		sbuf_puts(&b, "400\r\n");
		for (int k = 0; k < 1024; k++) {
			sbuf_putc(&b, (char)('a' + i % 26));
		}
		sbuf_puts(&b, "\r\n");
	}
	sbuf_puts(&b, "0\r\n\r\n");
	client_send(&s, fd, b.p, b.n);
	text = client_read(&s, fd, "llll", WAIT_US, NULL);
	assert_non_null(strstr(text, "Content-Length: 92160\r\n"));
	free(text);
	close(fd);
	sbuf_fini(&b);
	server_stop(&s);
}

static void a_reply_larger_than_the_socket_takes_is_delivered_whole(void **state UNUSED)
{
	struct server s;
	char *text;
	bool closed;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	client_puts(&s, fd, "GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	server_turns(&s, 20);
	text = client_read(&s, fd, NULL, WAIT_US, &closed);
	assert_true(closed);
	assert_int_equal(strlen(strstr(text, "\r\n\r\n") + 4), 4 << 20);
	free(text);
	close(fd);
	server_stop(&s);
}

static void head_and_no_content_have_no_body(void **state UNUSED)
{
	struct server s;
	char *text;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	text = raw_ask(&s, fd, "HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n" GET_HELLO, "world");
	assert_int_equal(count_of(text, "Content-Length: 5\r\n"), 2);
	assert_int_equal(count_of(text, "world"), 1);
	free(text);
	text = raw_ask(&s, fd, "POST /none HTTP/1.1\r\nHost: a\r\n\r\n" GET_HELLO, "world");
	assert_non_null(strstr(text, "204 No Content\r\n"));
	assert_int_equal(count_of(text, "Content-Length"), 1);
	free(text);
	close(fd);
	server_stop(&s);
}

static void http_1_0_is_answered_and_closed(void **state UNUSED)
{
	struct server s;
	bool closed = false;
	char *text;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	client_puts(&s, fd, "GET /hello HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
	text = client_read(&s, fd, NULL, WAIT_US, &closed);
	assert_true(closed);
	assert_non_null(strstr(text, "Connection: close\r\n"));
	free(text);
	close(fd);
	server_stop(&s);
}

static void slow_headers_and_bodies_get_408(void **state UNUSED)
{
	struct httpd_conf conf = { .header_us = 60 * MS, .body_us = 60 * MS };
	static const char *const raw[] = { "GET /hello HTTP/1.1\r\nHo",
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab" };
	struct server s;

	server_start(&s, &conf);
	for (size_t i = 0; i < ARRAY_LEN(raw); i++) {
		bool closed = false;

		assert_int_equal(client_probe(&s, raw[i], strlen(raw[i]), &closed), 408);
		assert_true(closed);
	}
	server_stop(&s);
}

static void dripping_bytes_does_not_move_the_header_deadline(void **state UNUSED)
{
	struct httpd_conf conf = { .header_us = 100 * MS };
	struct server s;
	bool closed = false;
	char *text = NULL;
	int fd;

	server_start(&s, &conf);
	fd = client_open(&s);
	client_puts(&s, fd, "GET /hello HTTP/1.1\r\nX: ");
	for (int i = 0; i < 40 && !closed; i++) {
		free(text);
		client_puts(&s, fd, "a");
		text = client_read(&s, fd, NULL, 20 * MS, &closed);
	}
	assert_true(closed);
	free(text);
	close(fd);
	server_stop(&s);
}

static void idle_connections_are_closed_without_words(void **state UNUSED)
{
	struct httpd_conf conf = { .header_us = 50 * MS, .idle_us = 80 * MS };
	struct server s;
	bool closed = false;
	char *text;
	int fd, silent;

	server_start(&s, &conf);
	silent = client_open(&s);
	fd = client_open(&s);
	text = raw_ask(&s, fd, GET_HELLO, "world");
	free(text);
	text = client_read(&s, fd, NULL, WAIT_US, &closed);
	assert_true(closed);
	assert_string_equal(text, "");
	free(text);
	text = client_read(&s, silent, NULL, WAIT_US, &closed);
	assert_true(closed);
	assert_string_equal(text, "");
	free(text);
	close(fd);
	close(silent);
	server_stop(&s);
}

static void a_thousand_parked_requests_are_woken(void **state UNUSED)
{
	enum { N = 1000 };
	static int fds[N];
	struct server s;

	server_start(&s, NULL);
	for (int i = 0; i < N; i++) {
		fds[i] = client_open(&s);
		client_puts(&s, fds[i], "GET /park HTTP/1.1\r\nHost: a\r\n\r\n");
	}
	server_until(&s, &s.parked_n, N, WAIT_US);
	assert_int_equal(httpd_stats(s.httpd).open, N);
	for (size_t i = 0; i < N; i++) {
		httpd_reply(s.parked[i], 200, "text/plain", "up", 2);
	}
	for (int i = 0; i < N; i++) {
		char *text = client_read(&s, fds[i], "\r\n\r\nup", WAIT_US, NULL);

		assert_non_null(strstr(text, "\r\n\r\nup"));
		free(text);
		close(fds[i]);
	}
	assert_int_equal(s.gone, 0);
	server_stop(&s);
}

static void a_parked_client_that_leaves_is_told_once(void **state UNUSED)
{
	struct server s;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	client_puts(&s, fd, "GET /park HTTP/1.1\r\nHost: a\r\n\r\n");
	server_until(&s, &s.parked_n, 1, WAIT_US);
	close(fd);
	server_until(&s, &s.gone, 1, WAIT_US);
	assert_int_equal(s.gone, 1);
	assert_int_equal(httpd_stats(s.httpd).open, 0);

	/* without a callback the request lives until its reply, which goes nowhere */
	fd = client_open(&s);
	client_puts(&s, fd, "GET /keep HTTP/1.1\r\nHost: a\r\n\r\n");
	server_until(&s, &s.parked_n, 2, WAIT_US);
	close(fd);
	server_turns(&s, 5);
	assert_string_equal(s.parked[1]->path, "/keep");
	httpd_reply(s.parked[1], 200, "text/plain", "x", 1);
	server_turns(&s, 2);
	server_stop(&s);
}

static void a_stream_reaches_its_reader_and_ends(void **state UNUSED)
{
	struct server s;
	char *text;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	client_puts(&s, fd, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
	server_until(&s, &s.parked_n, 1, WAIT_US);
	assert_true(httpd_stream_write(s.parked[0], "data: 1\n\n", 9));
	text = client_read(&s, fd, "data: 1\n\n", WAIT_US, NULL);
	assert_non_null(strstr(text, "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"));
	free(text);
	httpd_stream_end(s.parked[0]);
	text = raw_ask(&s, fd, GET_HELLO, "world");
	assert_ptr_equal(strstr(text, "0\r\n\r\nHTTP/1.1 200"), text);
	free(text);
	close(fd);
	server_stop(&s);
}

static void a_slow_stream_reader_is_cut_at_one_mebibyte(void **state UNUSED)
{
	static char block[64 * 1024];
	struct server s;
	size_t queued = 0;
	int fd, small = 4096;

	server_start(&s, NULL);
	fd = client_open(&s);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	client_puts(&s, fd, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
	server_until(&s, &s.parked_n, 1, WAIT_US);
	for (int i = 0; i < 1000 && httpd_stream_write(s.parked[0], block, sizeof(block)); i++) {
		queued = httpd_stream_queued(s.parked[0]);
		server_turns(&s, 1);
		assert_non_null(s.parked[0]);
	}
	assert_in_range(queued, 512 * 1024, 1024 * 1024);
	assert_int_equal(s.gone, 0); /* not told inside the write */
	server_until(&s, &s.gone, 1, WAIT_US);
	assert_int_equal(s.gone, 1);
	assert_int_equal(httpd_stats(s.httpd).open, 0);
	close(fd);
	server_stop(&s);
}

static void a_reader_that_takes_nothing_is_cut(void **state UNUSED)
{
	struct httpd_conf conf = { .write_us = 80 * MS };
	struct server s;
	int fd, small = 4096;

	server_start(&s, &conf);
	fd = client_open(&s);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	client_puts(&s, fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
	for (int i = 0;
	     i < 500 && (httpd_stats(s.httpd).requests == 0 || httpd_stats(s.httpd).open > 0);
	     i++) {
		loop_turn(s.loop, 10 * MS);
	}
	assert_int_equal(httpd_stats(s.httpd).requests, 1);
	assert_int_equal(httpd_stats(s.httpd).open, 0);
	close(fd);
	server_stop(&s);
}

static void connections_over_the_limit_get_503(void **state UNUSED)
{
	struct httpd_conf conf = { .connections_max = 2 };
	struct server s;
	char *text;
	int fd[3];

	server_start(&s, &conf);
	for (int i = 0; i < 3; i++) {
		fd[i] = client_open(&s);
	}
	text = client_read(&s, fd[2], NULL, WAIT_US, NULL);
	assert_non_null(strstr(text, "503 Service Unavailable"));
	free(text);
	assert_int_equal(httpd_stats(s.httpd).refused, 1);
	text = raw_ask(&s, fd[0], GET_HELLO, "world");
	assert_non_null(strstr(text, "world"));
	free(text);
	for (int i = 0; i < 3; i++) {
		close(fd[i]);
	}
	server_stop(&s);
}

static void draining_finishes_what_is_in_work(void **state UNUSED)
{
	struct server s;
	bool closed = false;
	char *text;
	int idle, busy;

	server_start(&s, NULL);
	idle = client_open(&s);
	busy = client_open(&s);
	text = raw_ask(&s, idle, GET_HELLO, "world");
	free(text);
	client_puts(&s, busy, "GET /park HTTP/1.1\r\nHost: a\r\n\r\n");
	server_until(&s, &s.parked_n, 1, WAIT_US);
	httpd_drain(s.httpd);
	free(client_read(&s, idle, NULL, WAIT_US, &closed));
	assert_true(closed);
	assert_int_equal(httpd_stats(s.httpd).open, 1);
	httpd_reply(s.parked[0], 200, "text/plain", "late", 4);
	text = client_read(&s, busy, NULL, WAIT_US, &closed);
	assert_true(closed);
	assert_non_null(strstr(text, "Connection: close\r\n"));
	assert_non_null(strstr(text, "late"));
	free(text);
	close(idle);
	close(busy);
	server_stop(&s);
}

static void freeing_the_server_tells_parked_requests(void **state UNUSED)
{
	struct server s;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	client_puts(&s, fd, "GET /park HTTP/1.1\r\nHost: a\r\n\r\n");
	server_until(&s, &s.parked_n, 1, WAIT_US);
	httpd_free(s.httpd);
	assert_int_equal(s.gone, 1);
	loop_turn(s.loop, 0);
	loop_free(s.loop);
	close(fd);
}

static void an_aborted_request_is_closed_without_a_reply(void **state UNUSED)
{
	struct server s;
	bool closed = false;

	server_start(&s, NULL);
	assert_int_equal(client_probe(&s, "GET /abort HTTP/1.1\r\nHost: a\r\n\r\n",
			     sizeof("GET /abort HTTP/1.1\r\nHost: a\r\n\r\n") - 1, &closed),
	    0);
	assert_true(closed);
	server_stop(&s);
}

static void a_half_closed_client_still_gets_its_reply(void **state UNUSED)
{
	struct server s;
	bool closed = false;
	char *text;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	client_puts(&s, fd, GET_HELLO GET_HELLO);
	shutdown(fd, SHUT_WR);
	text = client_read(&s, fd, NULL, WAIT_US, &closed);
	assert_true(closed);
	assert_int_equal(count_of(text, "world"), 2);
	free(text);
	close(fd);
	server_stop(&s);
}

static void an_unusable_address_is_refused_with_words(void **state UNUSED)
{
	struct httpd_conf conf = { .address = "localhost", .port = 1 };
	struct httpd *h = NULL;
	struct spot_err err = { 0 };
	struct rng rng;
	struct loop *l;

	rng_seeded_init(&rng, 1);
	l = loop_new(&clock_real, &rng);
	assert_int_equal(httpd_new(l, &conf, &h, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "localhost"));
	assert_null(h);
	loop_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_serves_many_requests),
		cmocka_unit_test(pipelined_requests_are_answered_in_order),
		cmocka_unit_test(requests_behind_a_parked_one_wait_for_it),
		cmocka_unit_test(bodies_arrive_whole_however_they_are_cut),
		cmocka_unit_test(a_reply_larger_than_the_socket_takes_is_delivered_whole),
		cmocka_unit_test(head_and_no_content_have_no_body),
		cmocka_unit_test(http_1_0_is_answered_and_closed),
		cmocka_unit_test(slow_headers_and_bodies_get_408),
		cmocka_unit_test(dripping_bytes_does_not_move_the_header_deadline),
		cmocka_unit_test(idle_connections_are_closed_without_words),
		cmocka_unit_test(a_thousand_parked_requests_are_woken),
		cmocka_unit_test(a_parked_client_that_leaves_is_told_once),
		cmocka_unit_test(a_stream_reaches_its_reader_and_ends),
		cmocka_unit_test(a_slow_stream_reader_is_cut_at_one_mebibyte),
		cmocka_unit_test(a_reader_that_takes_nothing_is_cut),
		cmocka_unit_test(connections_over_the_limit_get_503),
		cmocka_unit_test(draining_finishes_what_is_in_work),
		cmocka_unit_test(freeing_the_server_tells_parked_requests),
		cmocka_unit_test(an_aborted_request_is_closed_without_a_reply),
		cmocka_unit_test(a_half_closed_client_still_gets_its_reply),
		cmocka_unit_test(an_unusable_address_is_refused_with_words),
	};
	struct rlimit files;

	/* A thousand clients and their server in one process are more files than a shell's usual
	 * 1024. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
