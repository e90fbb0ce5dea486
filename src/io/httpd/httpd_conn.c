/*
 * One connection: reading, the states between requests, writing, deadlines, closing. Nothing here
 * knows headers. A connection owns its socket, its TLS session and its buffers. It frees the
 * buffers while it is idle, so that a waiting client costs little.
 */
#include "base/base.h"
#include "io/httpd/httpd_priv.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- deadlines and events -------------------------------------------------------------------- */

static int64_t wanted_deadline(struct hconn *c)
{
	const struct httpd_conf *conf = &c->h->conf;
	int64_t now = loop_mono_us(c->h->loop);

	if (hconn_queued(c) > 0) {
		return c->wrote_at + conf->write_us;
	}
	switch (c->state) {
	case HCONN_HANDSHAKE:
		return now + conf->header_us;
	case HCONN_HEAD:
		if (c->in.n > 0) {
			return c->head_began + conf->header_us;
		}
		return now + (c->fresh ? conf->header_us : conf->idle_us);
	case HCONN_BODY:
		return c->deadline; /* set once, after the headers */
	case HCONN_LINGER:
		return c->deadline;
	case HCONN_FLUSH:
		return now + conf->write_us;
	case HCONN_PARKED:
		return c->parked->until_us;
	case HCONN_BUSY:
	case HCONN_STREAM:
		return 0; /* the handler has its own deadline */
	}
	return now;
}

/* Moves the timer only if it would fire too late, so that most requests do not touch it. */
static void set_deadline(struct hconn *c, int64_t deadline)
{
	int64_t now = loop_mono_us(c->h->loop);

	c->deadline = deadline;
	if (!deadline || (c->armed_until && c->armed_until <= deadline)) {
		return;
	}
	c->armed_until = deadline;
	loop_timer_set(&c->timer, MAX(deadline - now, 0));
}

static void timer_fire(struct loop_timer *t)
{
	struct hconn *c = container_of(t, struct hconn, timer);
	int64_t now = loop_mono_us(c->h->loop);

	c->armed_until = 0;
	if (c->dead || !c->deadline) {
		return;
	}
	if (now < c->deadline) {
		set_deadline(c, c->deadline);
		return;
	}
	if ((c->state == HCONN_HEAD && c->in.n > 0 && !hconn_queued(c)) || c->state == HCONN_BODY) {
		httpd_refuse(c, 408, "the request did not arrive in time");
	} else if (c->state == HCONN_PARKED && !hconn_queued(c)) {
		hconn_parked_due(c);
	} else {
		hconn_close(c);
	}
}

static int wanted_events(const struct hconn *c)
{
	bool busy = c->state == HCONN_BUSY || c->state == HCONN_PARKED ||
	    c->state == HCONN_STREAM || c->state == HCONN_FLUSH;
	bool full = (busy && c->in.n >= HTTPD_PIPELINE_MAX) ||
	    (c->state == HCONN_HEAD && hconn_queued(c) > HTTPD_BACKLOG_OUT);
	int ev = full || c->eof ? 0 : LOOP_READ;

	if (c->ssl_read_wants_write) {
		ev |= LOOP_WRITE;
	}
	if (hconn_queued(c) > 0) {
		ev |= c->ssl_write_wants_read ? LOOP_READ : LOOP_WRITE;
	}
	return ev;
}

void hconn_settle(struct hconn *c)
{
	if (c->dead || c->doomed) {
		return;
	}
	if (hconn_queued(c) == 0) {
		c->wrote_at = 0;
	} else if (!c->wrote_at) {
		c->wrote_at = loop_mono_us(c->h->loop);
	}
	set_deadline(c, wanted_deadline(c));
	loop_fd_set(&c->fd, c->fd.fd, wanted_events(c));
}

/* ---- closing --------------------------------------------------------------------------------- */

static void hconn_free(void *p)
{
	free(p);
}

/* Detaches the request from its connection: calls gone(), or leaves it alive until its reply. */
static void request_orphan(struct hconn *c)
{
	struct hreq *r = STEAL(c->req);
	bool served = c->state == HCONN_BUSY || c->state == HCONN_STREAM;

	if (!r) {
		return;
	}
	r->conn = NULL;
	if (served && r->pub.gone) {
		r->pub.gone(&r->pub);
	}
	if (!served || r->pub.gone) {
		loop_bury(c->h->loop, r, hreq_free);
	}
}

void hconn_close(struct hconn *c)
{
	struct httpd *h = c->h;

	if (c->dead) {
		return;
	}
	c->dead = true;
	loop_fd_stop(&c->fd);
	loop_timer_stop(&c->timer);
	loop_defer_cancel(h->loop, &c->task);
	if (c->prev) {
		c->prev->next = c->next;
	} else {
		h->conns = c->next;
	}
	if (c->next) {
		c->next->prev = c->prev;
	}
	h->stats.open--;
	if (c->ssl) {
		httpd_tls_free(c->ssl);
		c->ssl = NULL;
	}
	close(c->fd.fd);
	request_orphan(c);
	hconn_parked_gone(c);
	sbuf_fini(&c->in);
	sbuf_fini(&c->out);
	loop_bury(h->loop, c, hconn_free);
}

static void task_run(struct loop_task *t)
{
	struct hconn *c = container_of(t, struct hconn, task);

	if (c->dead) {
		return;
	}
	if (c->doomed) {
		hconn_close(c);
		return;
	}
	hconn_process(c);
}

void hconn_doom(struct hconn *c)
{
	if (c->dead || c->doomed) {
		return;
	}
	c->doomed = true;
	loop_fd_stop(&c->fd);
	if (!c->task.queued) {
		loop_defer(c->h->loop, &c->task, task_run);
	}
	loop_wake(c->h->loop);
}

/* Shuts our half, then reads and drops the client's bytes for a moment. A close with unread bytes
 * would make the kernel reset the connection, and the client would lose our reply. */
static void linger_begin(struct hconn *c)
{
	if (c->eof) {
		hconn_doom(c);
		return;
	}
	if (c->ssl) {
		httpd_tls_shutdown(c->ssl);
	}
	shutdown(c->fd.fd, SHUT_WR);
	c->state = HCONN_LINGER;
	c->deadline = loop_mono_us(c->h->loop) + HTTPD_LINGER_US;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Returns 1 = wrote some bytes, 0 = would block, -1 = broken. */
static int write_some(struct hconn *c)
{
	size_t left = hconn_queued(c);
	enum htls want = HTLS_DONE;
	ssize_t n;

	if (c->ssl) {
		n = httpd_tls_write(c->ssl, c->out.p + c->out_at, MIN(left, (size_t)(1 << 20)),
		    &want);
		c->ssl_write_wants_read = want == HTLS_WANT_READ;
		if (n < 0) {
			return want == HTLS_FAILED ? -1 : 0;
		}
	} else {
		n = send(c->fd.fd, c->out.p + c->out_at, left, MSG_NOSIGNAL);
		if (n < 0) {
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		}
	}
	c->out_at += (size_t)n;
	c->wrote_at = loop_mono_us(c->h->loop);
	return 1;
}

void hconn_flush(struct hconn *c)
{
	while (!c->dead && !c->doomed && hconn_queued(c) > 0) {
		int r = write_some(c);

		if (r < 0) {
			hconn_doom(c);
			return;
		}
		if (r == 0) {
			break;
		}
	}
	if (c->dead || c->doomed) {
		return;
	}
	if (hconn_queued(c) == 0) {
		c->out_at = 0;
		sbuf_fini(&c->out);
		sbuf_init(&c->out, (size_t)1 << 40);
		if (c->state == HCONN_FLUSH) {
			linger_begin(c);
		}
	} else if (c->out_at > HTTPD_BACKLOG_OUT) {
		sbuf_consume(&c->out, c->out_at);
		c->out_at = 0;
	}
	hconn_settle(c);
}

/* ---- requests -------------------------------------------------------------------------------- */

void hconn_request_done(struct hconn *c)
{
	struct hreq *r = STEAL(c->req);
	bool keep = r->keep && !c->h->draining;

	r->conn = NULL;
	loop_bury(c->h->loop, r, hreq_free);
	c->fresh = false;
	c->state = keep ? HCONN_HEAD : HCONN_FLUSH;
	c->head_began = loop_mono_us(c->h->loop);
	if (c->processing) {
		return;
	}
	hconn_flush(c);
	if (!c->dead && !c->doomed && c->state == HCONN_HEAD && !c->task.queued) {
		/* pipelined bytes, or TLS records read ahead by OpenSSL */
		if (c->in.n > 0 || (c->ssl && httpd_tls_pending(c->ssl))) {
			loop_defer(c->h->loop, &c->task, task_run);
			loop_wake(c->h->loop);
		}
	}
}

static void request_dispatch(struct hconn *c)
{
	struct httpd *h = c->h;

	c->state = HCONN_BUSY;
	h->stats.requests++;
	h->conf.handle(h->conf.ctx, &c->req->pub);
}

/* Handles the complete header block, the first n bytes of c->in. */
static void head_done(struct hconn *c, size_t n)
{
	size_t start = c->scan.start;
	struct hreq *r;
	const char *expect;

	httpd_parse_head(c, c->in.p + start, n - start);
	sbuf_consume(&c->in, n);
	c->scan = (struct hscan){ 0 };
	r = c->req;
	if (r->refuse) {
		httpd_refuse(c, r->refuse, r->why);
		return;
	}
	if (r->complete) {
		request_dispatch(c);
		return;
	}
	c->state = HCONN_BODY;
	c->deadline = loop_mono_us(c->h->loop) + c->h->conf.body_us;
	expect = httpd_header(&r->pub, "expect");
	if (expect && c->in.n == 0) {
		sbuf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
	}
}

/* Takes one step over c->in; false if there is nothing more to do now. */
static bool process_step(struct hconn *c)
{
	const char *why = NULL;
	int status = 400;
	size_t n = 0;

	if (c->in.n == 0) {
		return false;
	}
	if (c->state == HCONN_BODY) {
		n = httpd_parse_body(c, c->in.p, c->in.n);
		sbuf_consume(&c->in, n);
		if (c->req->refuse) {
			httpd_refuse(c, c->req->refuse, c->req->why);
		} else if (c->req->complete) {
			request_dispatch(c);
		}
		return true;
	}
	if (c->state != HCONN_HEAD || hconn_queued(c) > HTTPD_BACKLOG_OUT) {
		return false;
	}
	switch (httpd_scan_head(c, &n, &status, &why)) {
	case HPARSE_MORE:
		return false;
	case HPARSE_REFUSED:
		httpd_refuse(c, status, why);
		return true;
	case HPARSE_OK:
		head_done(c, n);
		return true;
	}
	return false;
}

static void hconn_read(struct hconn *c);

void hconn_process(struct hconn *c)
{
	c->processing = true;
	while (!c->dead && !c->doomed && process_step(c))
		;
	c->processing = false;
	if (c->dead || c->doomed) {
		return;
	}
	if (c->in.n == 0) {
		sbuf_fini(&c->in);
		sbuf_init(&c->in, (size_t)1 << 30);
	}
	hconn_flush(c);
	if (!c->dead && !c->doomed && c->ssl && c->state == HCONN_HEAD &&
	    httpd_tls_pending(c->ssl)) {
		hconn_read(c);
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads into h->rbuf. Returns the number of bytes; 0 = end, -1 = nothing now, -2 = broken. */
static int read_some(struct hconn *c)
{
	enum htls want = HTLS_DONE;
	ssize_t n;

	if (c->ssl) {
		n = httpd_tls_read(c->ssl, c->h->rbuf, HTTPD_READ_BYTES, &want);
		c->ssl_read_wants_write = want == HTLS_WANT_WRITE;
		if (n < 0) {
			return want == HTLS_FAILED ? -2 : -1;
		}
	} else {
		n = recv(c->fd.fd, c->h->rbuf, HTTPD_READ_BYTES, 0);
		if (n < 0) {
			return errno == EAGAIN || errno == EINTR ? -1 : -2;
		}
	}
	return (int)n;
}

static void conn_input(struct hconn *c, const char *p, size_t n)
{
	if (c->state == HCONN_LINGER) {
		c->lingered += n;
		if (c->lingered > HTTPD_BODY_MAX) {
			hconn_close(c);
		}
		return;
	}
	if (c->state == HCONN_FLUSH) {
		return;
	}
	if (c->state == HCONN_HEAD && c->in.n == 0) {
		c->head_began = loop_mono_us(c->h->loop);
	}
	if (c->state == HCONN_BODY && c->in.n == 0) {
		size_t used = httpd_parse_body(c, p, n);

		p += used;
		n -= used;
		if (c->req->refuse) {
			httpd_refuse(c, c->req->refuse, c->req->why);
			return;
		}
		sbuf_add(&c->in, p, n);
		if (c->req->complete) {
			c->processing = true;
			request_dispatch(c);
			c->processing = false;
		}
	} else {
		sbuf_add(&c->in, p, n);
	}
	if (!c->dead && !c->doomed) {
		hconn_process(c);
	}
}

static void hconn_read(struct hconn *c)
{
	/* Limit the rounds per event, so that a busy client does not starve the rest. Read the
	 * pending bytes of TLS to the end, since no event will come for them. */
	for (int round = 0; !c->dead && !c->doomed; round++) {
		int n;

		if (!(wanted_events(c) & LOOP_READ)) {
			break;
		}
		if (round >= 4 && !(c->ssl && httpd_tls_pending(c->ssl))) {
			break;
		}
		n = read_some(c);
		if (n == 0 && hconn_queued(c) > 0 &&
		    (c->state == HCONN_HEAD || c->state == HCONN_FLUSH)) {
			/* The client has half-closed: it still gets the queued reply. */
			c->eof = true;
			c->state = HCONN_FLUSH;
			break;
		}
		if (n == 0 || n == -2) {
			hconn_close(c);
			return;
		}
		if (n < 0) {
			break;
		}
		conn_input(c, c->h->rbuf, (size_t)n);
		if (!c->ssl && n < HTTPD_READ_BYTES) {
			break;
		}
	}
	hconn_settle(c);
}

static void conn_handshake(struct hconn *c)
{
	switch (httpd_tls_handshake(c->ssl)) {
	case HTLS_DONE:
		c->state = HCONN_HEAD;
		c->ssl_read_wants_write = false;
		hconn_read(c);
		return;
	case HTLS_WANT_READ:
		c->ssl_read_wants_write = false;
		break;
	case HTLS_WANT_WRITE:
		c->ssl_read_wants_write = true;
		break;
	case HTLS_FAILED:
		c->h->stats.bad_requests++;
		hconn_close(c);
		return;
	}
	loop_fd_set(&c->fd, c->fd.fd, LOOP_READ | (c->ssl_read_wants_write ? LOOP_WRITE : 0));
}

static void fd_ready(struct loop_fd *f, int events)
{
	struct hconn *c = container_of(f, struct hconn, fd);

	if (c->dead || c->doomed) {
		return;
	}
	if (c->state == HCONN_HANDSHAKE) {
		conn_handshake(c);
		return;
	}
	if (hconn_queued(c) > 0 && ((events & LOOP_WRITE) || c->ssl_write_wants_read)) {
		hconn_flush(c);
		if (!c->dead && !c->doomed && c->state == HCONN_HEAD && c->in.n > 0) {
			hconn_process(c);
		}
	}
	if (!c->dead && !c->doomed && ((events & LOOP_READ) || c->ssl_read_wants_write)) {
		hconn_read(c);
	}
}

void hconn_new(struct httpd *h, int fd, const char *peer)
{
	struct hconn *c = calloc(1, sizeof(*c));

	if (!c) {
		abort();
	}
	c->h = h;
	c->fresh = true;
	snprintf(c->peer, sizeof(c->peer), "%s", peer);
	sbuf_init(&c->in, (size_t)1 << 30);
	sbuf_init(&c->out, (size_t)1 << 40);
	loop_fd_init(&c->fd, h->loop, fd_ready);
	loop_timer_init(&c->timer, h->loop, timer_fire);
	c->fd.fd = fd;
	c->state = HCONN_HEAD;
	c->next = h->conns;
	if (c->next) {
		c->next->prev = c;
	}
	h->conns = c;
	h->stats.open++;
	if (h->tls) {
		c->ssl = httpd_tls_new(h->tls, fd);
		if (!c->ssl) {
			hconn_close(c);
			return;
		}
		c->state = HCONN_HANDSHAKE;
	}
	hconn_settle(c);
}
