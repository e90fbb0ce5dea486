/* The agent's HTTP client keeps the libcurl policy, whatever the far side is. */
#include "base/base.h"
#include "unit.h"

#include "agent/net/net.h"
#include "agent/sys/sys.h"
#include "base/text/text.h"
#include "test_server.h"

#include <signal.h>

static struct {
	struct test_server server;
	struct http *http;
	int status, done;
	char error[256];
} w;

static const enum http_far fars[] = { HTTP_DAEMON, HTTP_OBJECT };

static int world_up(bool tls, bool trust)
{
	struct str pem = { NULL, 0 };

	memset(&w, 0, sizeof(w));
	test_server_start(&w.server, tls);
	if (trust) {
		assert_int_equal(file_read(w.server.ca_path, 65536, &pem, NULL), SPOT_OK);
	}
	w.http = http_new(pem.p);
	free((char *)(uintptr_t)pem.p);
	return 0;
}

static int setup_plain(void **state)
{
	(void)state;
	return world_up(false, false);
}

static int setup_trusted(void **state)
{
	(void)state;
	return world_up(true, true);
}

static int setup_stranger(void **state)
{
	(void)state;
	return world_up(true, false);
}

static int teardown(void **state)
{
	(void)state;
	http_free(w.http);
	test_server_stop(&w.server);
	return 0;
}

static void get_done(void *ctx, const struct http_reply *r)
{
	(void)ctx;
	w.status = r->status;
	(void)snprintf(w.error, sizeof(w.error), "%s", r->error);
	w.done++;
}

static int url_get(enum http_far far, const char *url)
{
	struct http_want want = { .far = far,
		.method = "GET",
		.url = url,
		.timeout_us = 10 * SPOT_US_PER_S,
		.done = get_done };

	w.done = 0;
	(void)http_start(w.http, &want);
	while (w.done == 0) {
		http_wait(w.http, NULL, 0, SPOT_US_PER_S);
	}
	return w.status;
}

static int get_from(enum http_far far, const char *host, const char *path)
{
	char url[256];

	(void)snprintf(url, sizeof(url), "%s://%s:%d%s", w.server.tls != NULL ? "https" : "http",
	    host, w.server.port, path);
	return url_get(far, url);
}

static void only_http_and_https_are_spoken(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fars); i++) {
		assert_int_equal(url_get(fars[i], "file:///etc/hostname"), 0);
		assert_non_null(strstr(w.error, "not supported"));
	}
}

static void a_redirect_is_a_reply_and_is_not_followed(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fars); i++) {
		assert_int_equal(get_from(fars[i], "127.0.0.1", "/redirect"), 302);
		assert_int_equal(atomic_load(&w.server.requests), i + 1);
	}
}

static void the_daemons_ca_is_trusted(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fars); i++) {
		assert_int_equal(get_from(fars[i], "127.0.0.1", "/ok"), 200);
	}
}

static void a_certificate_for_another_host_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fars); i++) {
		assert_int_equal(get_from(fars[i], "localhost", "/ok"), 0);
	}
	assert_int_equal(atomic_load(&w.server.requests), 0);
}

static void an_untrusted_certificate_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fars); i++) {
		assert_int_equal(get_from(fars[i], "127.0.0.1", "/ok"), 0);
	}
	assert_int_equal(atomic_load(&w.server.requests), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_http_and_https_are_spoken, setup_plain,
		    teardown),
		cmocka_unit_test_setup_teardown(a_redirect_is_a_reply_and_is_not_followed,
		    setup_plain, teardown),
		cmocka_unit_test_setup_teardown(the_daemons_ca_is_trusted, setup_trusted, teardown),
		cmocka_unit_test_setup_teardown(a_certificate_for_another_host_is_refused,
		    setup_trusted, teardown),
		cmocka_unit_test_setup_teardown(an_untrusted_certificate_is_refused, setup_stranger,
		    teardown),
	};

	(void)signal(SIGPIPE, SIG_IGN); /* the server writes to clients that have gone */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
