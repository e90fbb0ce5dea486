/* The command line's HTTP client keeps the libcurl policy. */
#include "base/base.h"
#include "unit.h"

#include "spotctl/ctl.h"
#include "test_server.h"

#include <signal.h>

static struct {
	struct test_server server;
	struct ctl ctl;
	char url[64];
	struct reply reply;
} w;

static int world_up(bool tls, bool trust, const char *host)
{
	memset(&w, 0, sizeof(w));
	test_server_start(&w.server, tls);
	(void)snprintf(w.url, sizeof(w.url), "%s://%s:%d", tls ? "https" : "http", host,
	    w.server.port);
	w.ctl.arena = arena_new(0);
	w.ctl.url = w.url;
	w.ctl.ca_file = trust ? w.server.ca_path : NULL;
	return 0;
}

static int setup_plain(void **state)
{
	(void)state;
	return world_up(false, false, "127.0.0.1");
}

static int setup_trusted(void **state)
{
	(void)state;
	return world_up(true, true, "127.0.0.1");
}

static int setup_other_host(void **state)
{
	(void)state;
	return world_up(true, true, "localhost");
}

static int setup_stranger(void **state)
{
	(void)state;
	return world_up(true, false, "127.0.0.1");
}

static int teardown(void **state)
{
	(void)state;
	conn_close(&w.ctl);
	docs_free(&w.ctl);
	arena_free(w.ctl.arena);
	test_server_stop(&w.server);
	return 0;
}

static void only_http_and_https_are_spoken(void **state)
{
	(void)state;
	w.ctl.url = "file://";
	assert_int_equal(conn_get_text(&w.ctl, "/etc/hostname", &w.reply), CTL_UNREACHABLE);
	assert_int_equal(w.reply.body.n, 0);
}

static void a_redirect_is_a_reply_and_is_not_followed(void **state)
{
	(void)state;
	assert_int_not_equal(conn_get_text(&w.ctl, "/redirect", &w.reply), CTL_OK);
	assert_int_equal(w.reply.status, 302);
	assert_int_equal(atomic_load(&w.server.requests), 1);
}

static void the_ca_that_is_named_is_trusted(void **state)
{
	(void)state;
	assert_int_equal(conn_get_text(&w.ctl, "/ok", &w.reply), CTL_OK);
	assert_string_equal(w.reply.body.p, "hello");
}

static void the_connection_is_refused(void **state)
{
	(void)state;
	assert_int_equal(conn_get_text(&w.ctl, "/ok", &w.reply), CTL_UNREACHABLE);
	assert_int_equal(atomic_load(&w.server.requests), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_http_and_https_are_spoken, setup_plain,
		    teardown),
		cmocka_unit_test_setup_teardown(a_redirect_is_a_reply_and_is_not_followed,
		    setup_plain, teardown),
		cmocka_unit_test_setup_teardown(the_ca_that_is_named_is_trusted, setup_trusted,
		    teardown),
		{ "a certificate for another host is refused", the_connection_is_refused,
		    setup_other_host, teardown, NULL },
		{ "an untrusted certificate is refused", the_connection_is_refused, setup_stranger,
		    teardown, NULL },
	};

	(void)signal(SIGPIPE, SIG_IGN); /* the server writes to clients that have gone */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
