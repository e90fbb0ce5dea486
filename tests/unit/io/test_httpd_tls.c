/* The server over TLS, with certificates made for the test. Handshake, large bodies both ways, long
 * polls, reload of the certificate, refusal of old protocols and of plain HTTP. */
#define BASE_ALLOW_BANNED /* openssl/evp.h names parameters "rand" */
#include "base/base.h"
#include "test_httpd.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/test_httpd_tls.XXXXXX";
static char cert[64], key[64];

static void make_certificate(const char *name)
{
	char subject[64];
	int status = 0;
	pid_t pid;

	snprintf(subject, sizeof(subject), "/CN=%s", name);
	pid = fork();
	if (pid == 0) {
		execlp("openssl", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
		    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", subject,
		    "-keyout", key, "-out", cert, "-batch", (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

struct tls_client {
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
};

static bool tls_open(struct server *s, struct tls_client *c, int max_version)
{
	c->ctx = SSL_CTX_new(TLS_client_method());
	if (max_version) {
		SSL_CTX_set_min_proto_version(c->ctx, 0);
		SSL_CTX_set_security_level(c->ctx, 0);
		SSL_CTX_set_max_proto_version(c->ctx, max_version);
	}
	c->fd = client_open(s);
	c->ssl = SSL_new(c->ctx);
	SSL_set_fd(c->ssl, c->fd);
	for (int i = 0; i < 500; i++) {
		int r = SSL_connect(c->ssl);
		int e = SSL_get_error(c->ssl, r);

		if (r == 1) {
			return true;
		}
		if (e != SSL_ERROR_WANT_READ && e != SSL_ERROR_WANT_WRITE) {
			return false;
		}
		loop_turn(s->loop, 1000);
	}
	return false;
}

static void tls_close(struct tls_client *c)
{
	SSL_free(c->ssl);
	SSL_CTX_free(c->ctx);
	close(c->fd);
}

static void tls_send(struct server *s, struct tls_client *c, const char *p, size_t n)
{
	for (int i = 0; n > 0 && i < 100000; i++) {
		int w = SSL_write(c->ssl, p, (int)MIN(n, (size_t)16000));

		if (w > 0) {
			p += w;
			n -= (size_t)w;
			i = 0;
		}
		loop_turn(s->loop, 0);
	}
	assert_int_equal(n, 0);
}

/* Reads until the reply's bytes behind the header are want, or the text holds needle. */
static char *tls_read(struct server *s, struct tls_client *c, const char *needle, size_t want)
{
	size_t cap = (5 << 20), n = 0;
	char *text = calloc(1, cap + 1);

	for (int idle = 0; idle < 2000;) {
		char *body = strstr(text, "\r\n\r\n");
		int r;

		if ((needle && strstr(text, needle)) ||
		    (want && body && n - (size_t)(body + 4 - text) >= want)) {
			break;
		}
		r = SSL_read(c->ssl, text + n, (int)(cap - n));
		if (r > 0) {
			n += (size_t)r;
			idle = 0;
			continue;
		}
		idle++;
		loop_turn(s->loop, 1000);
	}
	return text;
}

static void peer_name(struct tls_client *c, char *dst, int n)
{
	X509 *x = SSL_get1_peer_certificate(c->ssl);

	assert_non_null(x);
	X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, dst, n);
	X509_free(x);
}

static void start_tls(struct server *s)
{
	struct httpd_conf conf = { .tls_cert = cert, .tls_key = key };

	make_certificate("one");
	server_start(s, &conf);
}

static void requests_are_served_over_tls(void **state UNUSED)
{
	struct tls_client c;
	struct server s;
	char *text;

	start_tls(&s);
	assert_true(tls_open(&s, &c, 0));
	for (int i = 0; i < 20; i++) {
		static const char two[] = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /hello?who=x "
					  "HTTP/1.1\r\nHost: a\r\n\r\n";

		tls_send(&s, &c, two, sizeof(two) - 1);
		text = tls_read(&s, &c, "\r\n\r\nx", 0);
		assert_int_equal(count_of(text, "HTTP/1.1 200 OK\r\n"), 2);
		free(text);
	}
	tls_close(&c);
	server_until_open(&s, 0);
	server_stop(&s);
}

static void large_bodies_pass_both_ways(void **state UNUSED)
{
	struct tls_client c;
	struct server s;
	struct sbuf b;
	char *text;

	start_tls(&s);
	assert_true(tls_open(&s, &c, 0));
	tls_send(&s, &c, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", 31 - 1);
	text = tls_read(&s, &c, NULL, 4 << 20);
	assert_int_equal(strlen(strstr(text, "\r\n\r\n") + 4), 4 << 20);
	free(text);
	sbuf_init(&b, 1 << 20);
	sbuf_printf(&b, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", 100 * 1024);
	for (int i = 0; i < 100 * 1024; i++) {
		sbuf_putc(&b, (char)('a' + i % 26));
	}
	tls_send(&s, &c, b.p, b.n);
	text = tls_read(&s, &c, NULL, 100 * 1024);
	assert_int_equal(strlen(strstr(text, "\r\n\r\n") + 4), 100 * 1024);
	assert_memory_equal(strstr(text, "\r\n\r\n") + 4, strstr(b.p, "\r\n\r\n") + 4, 100 * 1024);
	free(text);
	sbuf_fini(&b);
	tls_close(&c);
	server_stop(&s);
}

static void a_parked_tls_client_is_woken_and_its_leaving_seen(void **state UNUSED)
{
	struct tls_client c;
	struct server s;
	char *text;

	start_tls(&s);
	assert_true(tls_open(&s, &c, 0));
	for (int i = 0; i < 2; i++) {
		tls_send(&s, &c, "GET /park HTTP/1.1\r\nHost: a\r\n\r\n", 32 - 1);
		server_until(&s, &s.parked_n, (size_t)i + 1, WAIT_US);
		if (i == 0) {
			httpd_reply(s.parked[0], 200, "text/plain", "up", 2);
			text = tls_read(&s, &c, "\r\n\r\nup", 0);
			assert_non_null(strstr(text, "\r\n\r\nup"));
			free(text);
		}
	}
	SSL_shutdown(c.ssl);
	server_until(&s, &s.gone, 1, WAIT_US);
	assert_int_equal(s.gone, 1);
	tls_close(&c);
	server_stop(&s);
}

static void a_reload_serves_the_new_certificate_and_keeps_connections(void **state UNUSED)
{
	struct tls_client old, fresh;
	struct spot_err err = { 0 };
	struct server s;
	char name[32], *text;

	start_tls(&s);
	assert_true(tls_open(&s, &old, 0));
	peer_name(&old, name, sizeof(name));
	assert_string_equal(name, "one");
	make_certificate("two");
	assert_int_equal(httpd_reload_tls(s.httpd, &err), SPOT_OK);
	assert_true(tls_open(&s, &fresh, 0));
	peer_name(&fresh, name, sizeof(name));
	assert_string_equal(name, "two");
	tls_send(&s, &old, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 33 - 1);
	text = tls_read(&s, &old, "world", 0);
	assert_non_null(strstr(text, "world"));
	free(text);
	tls_close(&fresh);

	assert_int_equal(truncate(cert, 10), 0);
	assert_int_equal(httpd_reload_tls(s.httpd, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, cert));
	assert_true(tls_open(&s, &fresh, 0)); /* the last good certificate stays in use */
	tls_close(&fresh);
	tls_close(&old);
	server_stop(&s);
}

static void old_protocols_and_plain_text_are_refused(void **state UNUSED)
{
	struct tls_client c;
	bool closed = false;
	struct server s;

	start_tls(&s);
	assert_false(tls_open(&s, &c, TLS1_1_VERSION));
	tls_close(&c);
	assert_int_equal(client_probe(&s, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 32, &closed),
	    0);
	assert_true(closed);
	assert_int_equal(s.served, 0);
	server_stop(&s);
}

static void a_key_of_another_certificate_is_refused(void **state UNUSED)
{
	struct httpd_conf conf = { .tls_cert = cert, .tls_key = key };
	char other[64];
	struct spot_err err = { 0 };
	struct httpd *h = NULL;
	struct rng rng;
	struct loop *l;

	make_certificate("one");
	snprintf(other, sizeof(other), "%s/other.key", dir);
	assert_int_equal(rename(key, other), 0);
	make_certificate("two");
	assert_int_equal(rename(other, key), 0);
	rng_seeded_init(&rng, 1);
	l = loop_new(&clock_real, &rng);
	assert_int_equal(httpd_new(l, &conf, &h, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, key));
	loop_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_served_over_tls),
		cmocka_unit_test(large_bodies_pass_both_ways),
		cmocka_unit_test(a_parked_tls_client_is_woken_and_its_leaving_seen),
		cmocka_unit_test(a_reload_serves_the_new_certificate_and_keeps_connections),
		cmocka_unit_test(old_protocols_and_plain_text_are_refused),
		cmocka_unit_test(a_key_of_another_certificate_is_refused),
	};
	int failed;

	if (!mkdtemp(dir)) {
		return 1;
	}
	snprintf(cert, sizeof(cert), "%s/cert.pem", dir);
	snprintf(key, sizeof(key), "%s/key.pem", dir);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(cert);
	unlink(key);
	rmdir(dir);
	return failed;
}
