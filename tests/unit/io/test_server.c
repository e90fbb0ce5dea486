#include "base/base.h"
#include "unit.h"
#include "test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

struct peer {
	struct test_server *server;
	int fd;
	SSL *ssl;
	int served;
};

static bool peer_write(struct peer *p, const char *data, size_t n)
{
	while (n > 0) {
		ssize_t put =
		    p->ssl != NULL ? SSL_write(p->ssl, data, (int)n) : write(p->fd, data, n);

		if (put <= 0) {
			return false;
		}
		data += put;
		n -= (size_t)put;
	}
	return true;
}

/* False: the client is gone or the server is to stop. */
static bool peer_wait(struct peer *p, int timeout_ms)
{
	struct pollfd fds[2] = { { p->server->stop_fd[0], POLLIN, 0 }, { p->fd, POLLIN, 0 } };

	if (p->ssl != NULL && SSL_pending(p->ssl) > 0) {
		return true;
	}
	poll(fds, 2, timeout_ms);
	return fds[0].revents == 0;
}

/* Reads one request into buf; returns its length, 0 at the end. */
static size_t peer_read(struct peer *p, char *buf, size_t size)
{
	size_t n = 0, want = SIZE_MAX;

	while (n < want && n + 1 < size) {
		if (!peer_wait(p, -1)) {
			return 0;
		}
		ssize_t got = p->ssl != NULL ? SSL_read(p->ssl, buf + n, (int)(size - 1 - n))
					     : read(p->fd, buf + n, size - 1 - n);
		if (got <= 0) {
			return 0;
		}
		n += (size_t)got;
		buf[n] = '\0';
		const char *end = strstr(buf, "\r\n\r\n");
		const char *length = strcasestr(buf, "\r\ncontent-length:");
		if (want == SIZE_MAX && end != NULL) {
			want = (size_t)(end + 4 - buf) +
			    (length != NULL && length < end ? (size_t)strtol(length + 17, NULL, 10)
							    : 0);
		}
	}
	return n;
}

static bool peer_puts(struct peer *p, const char *text)
{
	return peer_write(p, text, strlen(text));
}

static bool reply_send(struct peer *p, const char *head, const char *body, size_t n)
{
	char text[512];
	int len =
	    snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n", head, n);

	return peer_write(p, text, (size_t)len) && peer_write(p, body, n);
}

static void reply_trickle(struct peer *p)
{
	struct pollfd stop = { p->server->stop_fd[0], POLLIN, 0 };

	peer_puts(p, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
	do {
		poll(&stop, 1, 20);
	} while (stop.revents == 0 && peer_write(p, "x", 1));
}

static void headers_many(struct peer *p)
{
	char line[32];

	peer_puts(p, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < 300; i++) {
		int n = snprintf(line, sizeof(line), "X-%d: v\r\n", i);

		peer_write(p, line, (size_t)n);
	}
	peer_puts(p, "Content-Length: 0\r\n\r\n");
}

/* True: the connection is kept. */
static bool request_serve(struct peer *p, const char *request, size_t n)
{
	static char big[1 << 20];
	const char *path = strchr(request, ' ') + 1;

#define IS(s) (strncmp(path, s, sizeof(s) - 1) == 0)
	if (IS("/ok")) {
		return reply_send(p, "200 OK\r\nX-One:  first \r\nX-Empty:\r\nX-One: second",
		    "hello", strncmp(request, "HEAD", 4) == 0 ? 0 : 5);
	}
	if (IS("/echo")) {
		return reply_send(p, "200 OK", request, n);
	}
	if (IS("/big")) {
		return reply_send(p, "200 OK", big, sizeof(big));
	}
	if (IS("/redirect")) {
		return reply_send(p, "302 Found\r\nLocation: /ok", "", 0);
	}
	if (IS("/interim")) {
		return peer_puts(p, "HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n") &&
		    reply_send(p, "503 Slow Down\r\nRetry-After: 3", "busy", 4);
	}
	if (IS("/once") && p->served == 0) {
		return reply_send(p, "200 OK", "first", 5);
	}
	if (IS("/cut")) {
		peer_puts(p, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello");
	}
	if (IS("/headers")) {
		headers_many(p);
	}
	if (IS("/trickle")) {
		reply_trickle(p);
	}
	if (IS("/hang")) {
		while (peer_wait(p, -1) && read(p->fd, big, 1) > 0) {
			continue;
		}
	}
#undef IS
	return false;
}

static void *peer_run(void *arg)
{
	static _Thread_local char request[65536];
	struct peer *p = arg;
	size_t n;

	if (p->server->tls != NULL) {
		p->ssl = SSL_new(p->server->tls);
		SSL_set_fd(p->ssl, p->fd);
	}
	if (p->ssl == NULL || SSL_accept(p->ssl) == 1) {
		while ((n = peer_read(p, request, sizeof(request))) > 0) {
			atomic_fetch_add(&p->server->requests, 1);
			if (!request_serve(p, request, n)) {
				break;
			}
			p->served++;
		}
	}
	SSL_free(p->ssl);
	close(p->fd);
	free(p);
	return NULL;
}

static void *acceptor_run(void *arg)
{
	struct test_server *s = arg;
	struct pollfd fds[2] = { { s->stop_fd[0], POLLIN, 0 }, { s->fd, POLLIN, 0 } };

	while (poll(fds, 2, -1) > 0 && fds[0].revents == 0) {
		struct peer *p = calloc(1, sizeof(*p));

		if (p == NULL || s->threads_n == TEST_SERVER_THREADS) {
			abort();
		}
		p->server = s;
		p->fd = accept(s->fd, NULL, NULL);
		if (p->fd < 0) {
			free(p);
			continue;
		}
		atomic_fetch_add(&s->connections, 1);
		if (pthread_create(&s->threads[s->threads_n++], NULL, peer_run, p) != 0) {
			abort();
		}
	}
	return NULL;
}

/* A self-signed certificate for 127.0.0.1, made anew. */
static void tls_start(struct test_server *s)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	X509V3_CTX v3;

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, key);
	X509_NAME *name = X509_get_subject_name(cert);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1,
	    0);
	X509_set_issuer_name(cert, name);
	X509V3_set_ctx(&v3, cert, cert, NULL, NULL, 0);
	X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, &v3, NID_subject_alt_name, "IP:127.0.0.1");
	X509_add_ext(cert, san, -1);
	X509_EXTENSION_free(san);
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	assert_int_equal(SSL_CTX_use_certificate(ctx, cert), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
	s->tls = ctx;
	snprintf(s->ca_path, sizeof(s->ca_path), "spot-test-ca-XXXXXX");
	FILE *f = fdopen(mkstemp(s->ca_path), "w");
	assert_non_null(f);
	PEM_write_X509(f, cert);
	fclose(f);
	X509_free(cert);
	EVP_PKEY_free(key);
}

void test_server_start(struct test_server *s, bool tls)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	memset(s, 0, sizeof(*s));
	if (tls) {
		tls_start(s);
	}
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->fd >= 0);
	assert_int_equal(bind(s->fd, (const struct sockaddr *)(const void *)&at, sizeof(at)), 0);
	assert_int_equal(listen(s->fd, 64), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)(void *)&at, &len), 0);
	s->port = ntohs(at.sin_port);
	assert_int_equal(pipe(s->stop_fd), 0);
	assert_int_equal(pthread_create(&s->acceptor, NULL, acceptor_run, s), 0);
}

void test_server_stop(struct test_server *s)
{
	close(s->stop_fd[1]); /* hang-up wakes every poll */
	pthread_join(s->acceptor, NULL);
	for (int i = 0; i < s->threads_n; i++) {
		pthread_join(s->threads[i], NULL);
	}
	close(s->fd);
	close(s->stop_fd[0]);
	SSL_CTX_free(s->tls);
	if (s->tls != NULL) {
		unlink(s->ca_path);
	}
}
