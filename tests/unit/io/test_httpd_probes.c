/* Malformed and smuggling requests over raw sockets: each must be refused and the connection
 * closed, and well-formed ones must be served. */
#include "base/base.h"
#include "test_httpd.h"

#include <unistd.h>

#define H "Host: a\r\n"
#define P(name, raw, status) \
	{ \
		name, raw, sizeof(raw) - 1, status \
	}

struct probe {
	const char *name, *raw;
	size_t n;
	int status;
};

static const struct probe refused[] = {
	P("Content-Length and Transfer-Encoding",
	    "POST /echo HTTP/1.1\r\n" H
	    "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	    400),
	P("Transfer-Encoding and Content-Length",
	    "POST /echo HTTP/1.1\r\n" H
	    "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
	    400),
	P("two different Content-Lengths",
	    "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
	P("two equal Content-Lengths",
	    "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
	P("Content-Length list", "POST /echo HTTP/1.1\r\n" H "Content-Length: 3, 3\r\n\r\nabc",
	    400),
	P("Content-Length with a sign", "POST /echo HTTP/1.1\r\n" H "Content-Length: +3\r\n\r\nabc",
	    400),
	P("Content-Length negative", "POST /echo HTTP/1.1\r\n" H "Content-Length: -3\r\n\r\nabc",
	    400),
	P("Content-Length hexadecimal",
	    "POST /echo HTTP/1.1\r\n" H "Content-Length: 0x3\r\n\r\nabc", 400),
	P("Content-Length overflow",
	    "POST /echo HTTP/1.1\r\n" H "Content-Length: 99999999999999999999999\r\n\r\nabc", 400),
	P("Content-Length empty", "POST /echo HTTP/1.1\r\n" H "Content-Length: \r\n\r\nabc", 400),
	P("space before the colon", "POST /echo HTTP/1.1\r\n" H "Content-Length : 3\r\n\r\nabc",
	    400),
	P("xchunked", "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
	    400),
	P("chunked, identity",
	    "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
	    400),
	P("gzip, chunked",
	    "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
	P("Transfer-Encoding twice",
	    "POST /echo HTTP/1.1\r\n" H
	    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	    400),
	P("bare LF line ends", "GET /hello HTTP/1.1\nHost: a\n\n", 400),
	P("bare LF after a header", "GET /hello HTTP/1.1\r\nHost: a\n\r\n", 400),
	P("bare LF after the request line", "GET /hello HTTP/1.1\nHost: a\r\n\r\n", 400),
	P("LF-only chunks",
	    "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n", 400),
	P("CR as line end", "GET /hello HTTP/1.1\rHost: a\r\r", 400),
	P("CR before the next header", "GET /hello HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400),
	P("CR in a value", "GET /hello HTTP/1.1\r\n" H "X: a\rb\r\n\r\n", 400),
	P("CR in a name", "GET /hello HTTP/1.1\r\n" H "X\rY: b\r\n\r\n", 400),
	P("CR CR LF", "GET /hello HTTP/1.1\r\n" H "X: a\r\r\n\r\n", 400),
	P("CR in the target", "GET /he\rllo HTTP/1.1\r\n" H "\r\n", 400),
	P("CR at the end of the block", "GET /hello HTTP/1.1\r\n" H "\rX", 400),
	P("CR-only chunk",
	    "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\rabc\r0\r\r", 400),
	P("NUL in a value", "GET /hello HTTP/1.1\r\n" H "X: a\0b\r\n\r\n", 400),
	P("NUL in a name", "GET /hello HTTP/1.1\r\n" H "X\0Y: b\r\n\r\n", 400),
	P("NUL in the target", "GET /hel\0lo HTTP/1.1\r\n" H "\r\n", 400),
	P("escape character in a value", "GET /hello HTTP/1.1\r\n" H "X: \x1b[0m\r\n\r\n", 400),
	P("HTTP/0.9", "GET /hello\r\n\r\n", 400),
	P("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
	P("HTTP/1.2", "GET /hello HTTP/1.2\r\n" H "\r\n", 505),
	P("HTTP/1.10", "GET /hello HTTP/1.10\r\n" H "\r\n", 505),
	P("lower-case version", "GET /hello http/1.1\r\n" H "\r\n", 400),
	P("folded header", "GET /hello HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", 400),
	P("folded header by tab", "GET /hello HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n", 400),
	P("folded first header", "GET /hello HTTP/1.1\r\n " H "\r\n", 400),
	P("folded Transfer-Encoding",
	    "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400),
	P("empty header name", "GET /hello HTTP/1.1\r\n" H ": b\r\n\r\n", 400),
	P("no colon", "GET /hello HTTP/1.1\r\n" H "Xb\r\n\r\n", 400),
	P("no Host", "GET /hello HTTP/1.1\r\nX: b\r\n\r\n", 400),
	P("no Host in HTTP/1.0", "GET /hello HTTP/1.0\r\n\r\n", 400),
	P("two Hosts", "GET /hello HTTP/1.1\r\n" H "Host: b\r\n\r\n", 400),
	P("two equal Hosts", "GET /hello HTTP/1.1\r\n" H H "\r\n", 400),
	P("empty Host", "GET /hello HTTP/1.1\r\nHost: \r\n\r\n", 400),
	P("Host with a path", "GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
	P("Host with a user", "GET /hello HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
	P("two Authorizations",
	    "GET /hello HTTP/1.1\r\n" H "Authorization: a\r\nauthorization: b\r\n\r\n", 400),
	P("absolute target", "GET http://b/hello HTTP/1.1\r\n" H "\r\n", 400),
	P("CONNECT", "CONNECT b:443 HTTP/1.1\r\n" H "\r\n", 501),
	P("TRACE", "TRACE /hello HTTP/1.1\r\n" H "\r\n", 501),
	P("unknown method", "FROB /hello HTTP/1.1\r\n" H "\r\n", 400),
	P("lower-case method", "get /hello HTTP/1.1\r\n" H "\r\n", 400),
	P("two spaces in the request line", "GET  /hello HTTP/1.1\r\n" H "\r\n", 400),
	P("tab in the request line", "GET\t/hello HTTP/1.1\r\n" H "\r\n", 400),
	P("space in the target", "GET /he llo HTTP/1.1\r\n" H "\r\n", 400),
	P("eighth bit in the target", "GET /h\xc3\xa9llo HTTP/1.1\r\n" H "\r\n", 400),
	P("fragment", "GET /hello#x HTTP/1.1\r\n" H "\r\n", 400),
	P("two empty lines first", "\r\n\r\nGET /hello HTTP/1.1\r\n" H "\r\n", 400),
	P("TLS hello to the plain port", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", 400),
	P("chunk size with a sign",
	    "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n",
	    400),
	P("chunk size 0x",
	    "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
	    400),
	P("chunk size overflow",
	    "POST /echo HTTP/1.1\r\n" H
	    "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n",
	    400),
	P("chunk longer than its size",
	    "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
	    400),
	P("body where none is accepted", "GET /hello HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc",
	    413),
	P("body over the route's cap",
	    "POST /hello HTTP/1.1\r\n" H "Content-Length: 17\r\n\r\n12345678901234567", 413),
	P("chunked body over the route's cap",
	    "POST /hello HTTP/1.1\r\n" H
	    "Transfer-Encoding: chunked\r\n\r\n11\r\n12345678901234567\r\n0\r\n\r\n",
	    413),
	P("unknown Expect",
	    "POST /echo HTTP/1.1\r\n" H "Expect: a-miracle\r\nContent-Length: 1\r\n\r\na", 417),
};

static void every_malformed_request_is_refused_and_the_connection_closed(void **state UNUSED)
{
	struct server s;
	int bad = 0;

	server_start(&s, NULL);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		bool closed = false;
		int status = client_probe(&s, refused[i].raw, refused[i].n, &closed);

		if (status != refused[i].status || !closed) {
			print_error("%s: status %d (wanted %d), %s\n", refused[i].name, status,
			    refused[i].status, closed ? "closed" : "left open");
			bad++;
		}
	}
	assert_int_equal(bad, 0);
	assert_int_equal(s.served, 0);
	assert_int_equal(httpd_stats(s.httpd).bad_requests, ARRAY_LEN(refused));
	assert_int_equal(httpd_stats(s.httpd).open, 0);
	server_stop(&s);
}

static void a_probe_cut_at_any_byte_is_never_served(void **state UNUSED)
{
	static const char whole[] = "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nabcde";
	struct server s;

	server_start(&s, NULL);
	for (size_t n = 1; n < sizeof(whole) - 1; n++) {
		int fd = client_open(&s);

		client_send(&s, fd, whole, n);
		server_turns(&s, 1);
		assert_int_equal(s.served, 0);
		close(fd);
	}
	server_until_open(&s, 0);
	server_stop(&s);
}

static void a_request_byte_by_byte_is_served(void **state UNUSED)
{
	static const char raw[] =
	    "\r\nPOST /echo?x=1 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
	    "3;ext=\"q\"\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n";
	struct server s;
	char *text;
	int fd;

	server_start(&s, NULL);
	fd = client_open(&s);
	for (size_t i = 0; i < sizeof(raw) - 1; i++) {
		client_send(&s, fd, raw + i, 1);
	}
	text = client_read(&s, fd, "abcde", WAIT_US, NULL);
	assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\n"));
	assert_non_null(strstr(text, "\r\n\r\nabcde"));
	free(text);
	close(fd);
	server_stop(&s);
}

static void long_targets_and_headers_are_refused(void **state UNUSED)
{
	struct server s;
	struct sbuf b;
	bool closed = false;

	server_start(&s, NULL);
	sbuf_init(&b, 1 << 20);
	sbuf_puts(&b, "GET /");
	for (int i = 0; i < 70000; i++) {
		sbuf_putc(&b, 'a');
	}
	assert_int_equal(client_probe(&s, b.p, b.n, &closed), 414);
	assert_true(closed);

	sbuf_reset(&b);
	sbuf_puts(&b, "GET /hello HTTP/1.1\r\n" H "X: ");
	for (int i = 0; i < 40000; i++) {
		sbuf_putc(&b, 'a');
	}
	assert_int_equal(client_probe(&s, b.p, b.n, &closed), 431);

	sbuf_reset(&b);
	sbuf_puts(&b, "GET /hello HTTP/1.1\r\n" H);
	for (int i = 0; i < 101; i++) {
		sbuf_puts(&b, "X: a\r\n");
	}
	sbuf_puts(&b, "\r\n");
	assert_int_equal(client_probe(&s, b.p, b.n, &closed), 431);

	sbuf_reset(&b);
	sbuf_puts(&b, "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1;");
	for (int i = 0; i < 900000; i++) {
		sbuf_putc(&b, 'e');
	}
	assert_int_equal(client_probe(&s, b.p, b.n, &closed), 413);
	sbuf_fini(&b);
	server_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_malformed_request_is_refused_and_the_connection_closed),
		cmocka_unit_test(a_probe_cut_at_any_byte_is_never_served),
		cmocka_unit_test(a_request_byte_by_byte_is_served),
		cmocka_unit_test(long_targets_and_headers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
