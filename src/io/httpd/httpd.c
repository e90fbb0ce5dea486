/*
 * The listening side of the HTTP server: configuration, accept, connection limit, drain, shutdown.
 */
#include "base/base.h"
#include "io/httpd/httpd_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_BATCH 64
#define ACCEPT_AGAIN_US (SPOT_US_PER_S / 10)
#define FDS_FOR_OTHERS 64 /* database, logs, providers */
#define CONNECTIONS_MIN 16

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static void peer_text(const union address *a, char *dst, size_t n)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (a->any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &a->v6.sin6_addr, ip, sizeof(ip));
		snprintf(dst, n, "[%s]:%d", ip, ntohs(a->v6.sin6_port));
	} else {
		inet_ntop(AF_INET, &a->v4.sin_addr, ip, sizeof(ip));
		snprintf(dst, n, "%s:%d", ip, ntohs(a->v4.sin_port));
	}
}

/* Handles an accept that fails for lack of descriptors. Frees the spare descriptor, then accepts
 * and closes the connection. So the client learns it at once, and the listener does not spin. */
static void accept_starved(struct httpd *h)
{
	if (h->spare_fd >= 0) {
		int fd;

		close(h->spare_fd);
		fd = accept4(h->listener.fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			h->stats.refused++;
			close(fd);
		}
		h->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	loop_fd_set(&h->listener, h->listener.fd, 0);
	loop_timer_set(&h->accept_again, ACCEPT_AGAIN_US);
}

static void accept_again(struct loop_timer *t)
{
	struct httpd *h = container_of(t, struct httpd, accept_again);

	if (!h->draining) {
		loop_fd_set(&h->listener, h->listener.fd, LOOP_READ);
	}
}

static void accept_one(struct httpd *h, int fd, const union address *from)
{
	static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
				   "Content-Length: 0\r\nConnection: close\r\n\r\n";
	char peer[64];
	int one = 1;

	if (h->stats.open >= h->conf.connections_max) {
		h->stats.refused++;
		if (!h->tls) {
			(void)!send(fd, busy, sizeof(busy) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		}
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	peer_text(from, peer, sizeof(peer));
	h->stats.accepted++;
	hconn_new(h, fd, peer);
}

static void listener_ready(struct loop_fd *f, int events UNUSED)
{
	struct httpd *h = container_of(f, struct httpd, listener);

	for (int i = 0; i < ACCEPT_BATCH; i++) {
		union address from;
		socklen_t n = sizeof(from);
		int fd;

		memset(&from, 0, sizeof(from));
		fd = accept4(f->fd, &from.any, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			accept_one(h, fd, &from);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			accept_starved(h);
		} else if (errno == EINTR || errno == ECONNABORTED) {
			continue;
		}
		return;
	}
}

static enum spot_rc listen_on(struct httpd *h, struct spot_err *err)
{
	union address a;
	socklen_t n = sizeof(a.v4);
	int fd, one = 1;

	memset(&a, 0, sizeof(a));
	if (inet_pton(AF_INET, h->conf.address, &a.v4.sin_addr) == 1) {
		a.v4.sin_family = AF_INET;
		a.v4.sin_port = htons((uint16_t)h->conf.port);
	} else if (inet_pton(AF_INET6, h->conf.address, &a.v6.sin6_addr) == 1) {
		a.v6.sin6_family = AF_INET6;
		a.v6.sin6_port = htons((uint16_t)h->conf.port);
		n = sizeof(a.v6);
	} else {
		return err_set(err, SPOT_CONFIG, "listen address %s is not an IP address",
		    h->conf.address);
	}
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return err_set(err, SPOT_UNAVAILABLE, "socket: %s", strerror(errno));
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &a.any, n) < 0 || listen(fd, 4096) < 0) {
		enum spot_rc rc = err_set(err, SPOT_CONFIG, "cannot listen on %s port %d: %s",
		    h->conf.address, h->conf.port, strerror(errno));

		close(fd);
		return rc;
	}
	n = sizeof(a);
	getsockname(fd, &a.any, &n);
	h->port = ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
	loop_fd_init(&h->listener, h->loop, listener_ready);
	loop_fd_set(&h->listener, fd, LOOP_READ);
	return SPOT_OK;
}

static void conf_defaults(struct httpd_conf *c)
{
	struct rlimit lim;
	int64_t cap = 1024;

	if (!c->address) {
		c->address = "127.0.0.1";
	}
	if (!c->url_max) {
		c->url_max = HTTPD_URL_MAX;
	}
	if (!c->queued_max) {
		c->queued_max = HTTPD_QUEUED_MAX;
	}
	if (!c->header_us) {
		c->header_us = HTTPD_HEADER_US;
	}
	if (!c->body_us) {
		c->body_us = HTTPD_BODY_US;
	}
	if (!c->idle_us) {
		c->idle_us = HTTPD_IDLE_US;
	}
	if (!c->write_us) {
		c->write_us = HTTPD_WRITE_US;
	}
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY) {
		cap = (int64_t)lim.rlim_cur;
	} else if (lim.rlim_cur == RLIM_INFINITY) {
		cap = INT32_MAX;
	}
	cap = MAX(cap - FDS_FOR_OTHERS, CONNECTIONS_MIN);
	if (c->connections_max <= 0 || c->connections_max > cap) {
		c->connections_max = (int)MIN(cap, INT32_MAX);
	}
}

static void httpd_release(void *p)
{
	struct httpd *h = p;

	httpd_tls_unload(h->tls);
	free(h->tls_cert);
	free(h->tls_key);
	free(h->rbuf);
	free(h);
}

enum spot_rc httpd_new(struct loop *l, const struct httpd_conf *conf, struct httpd **ret,
    struct spot_err *err)
{
	struct httpd *h = calloc(1, sizeof(*h));
	enum spot_rc rc = SPOT_OK;

	if (!h) {
		abort();
	}
	h->loop = l;
	h->conf = *conf;
	h->spare_fd = -1;
	h->rbuf = malloc(HTTPD_READ_BYTES);
	if (!h->rbuf) {
		abort();
	}
	conf_defaults(&h->conf);
	/* OpenSSL uses write(2), which would raise a signal if the peer has closed. */
	signal(SIGPIPE, SIG_IGN);
	loop_timer_init(&h->accept_again, l, accept_again);
	if (conf->tls_cert) {
		h->tls_cert = strdup(conf->tls_cert);
		h->tls_key = strdup(conf->tls_key ? conf->tls_key : conf->tls_cert);
		rc = httpd_tls_load(h->tls_cert, h->tls_key, &h->tls, err);
	}
	if (rc == SPOT_OK) {
		rc = listen_on(h, err);
	}
	if (rc != SPOT_OK) {
		httpd_release(h);
		return rc;
	}
	h->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	*ret = h;
	return SPOT_OK;
}

static void listener_stop(struct httpd *h)
{
	int fd = h->listener.fd;

	loop_timer_stop(&h->accept_again);
	if (fd < 0) {
		return;
	}
	loop_fd_stop(&h->listener);
	close(fd);
	h->listener.fd = -1;
}

void httpd_free(struct httpd *h)
{
	if (!h) {
		return;
	}
	listener_stop(h);
	h->draining = true;
	while (h->conns) {
		hconn_close(h->conns);
	}
	if (h->spare_fd >= 0) {
		close(h->spare_fd);
	}
	loop_bury(h->loop, h, httpd_release);
}

int httpd_port(const struct httpd *h)
{
	return h->port;
}

void httpd_drain(struct httpd *h)
{
	struct hconn *next;

	if (h->draining) {
		return;
	}
	h->draining = true;
	listener_stop(h);
	for (struct hconn *c = h->conns; c; c = next) {
		next = c->next;
		if ((c->state == HCONN_HEAD && c->in.n == 0 && !hconn_queued(c)) ||
		    c->state == HCONN_HANDSHAKE) {
			hconn_close(c);
		}
	}
}

enum spot_rc httpd_reload_tls(struct httpd *h, struct spot_err *err)
{
	struct ssl_ctx_st *fresh = NULL;
	enum spot_rc rc;

	if (!h->tls) {
		return err_set(err, SPOT_CONFIG, "this listener has no TLS to reload");
	}
	rc = httpd_tls_load(h->tls_cert, h->tls_key, &fresh, err);
	if (rc != SPOT_OK) {
		return rc; /* the old certificate stays in use */
	}
	httpd_tls_unload(h->tls); /* open connections have their own reference */
	h->tls = fresh;
	return SPOT_OK;
}

struct httpd_stats httpd_stats(const struct httpd *h)
{
	return h->stats;
}
