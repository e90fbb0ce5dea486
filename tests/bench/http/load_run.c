/* Sends requests on the event loop, and counts replies. */
#include "load_run.h"

#include "io/loop/loop.h"

#include <errno.h>
#include <llhttp.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define GRACE_US (30 * SPOT_US_PER_S)
#define RECONNECT_US 10000
#define ERRORS_IN_A_ROW_MAX 1000

struct run;
struct conn {
	struct run *run;
	struct loop_fd fd;
	struct loop_timer reconnect;
	llhttp_t parser;
	struct sbuf out;
	size_t sent;
	int64_t due_us;
	bool connected, busy;
	int status; /* of a whole reply, else 0 */
	bool keep;
};
struct run {
	const struct load_conf *conf;
	const struct templates *templates;
	struct load_result *result;
	struct loop *loop;
	struct loop_fd due; /* a timerfd: the loop's own timers are coarse */
	struct loop_timer end, grace;
	llhttp_settings_t settings;
	struct rng rng;
	struct conn *conns, **idle;
	size_t idle_n;
	int64_t start_us, count_from_us, end_us, issued, busy, errors_in_a_row;
	bool over;
	char in[1 << 16];
};

static int64_t now_us(void)
{
	return clock_real.mono_us(&clock_real);
}

static void run_quit_if_done(struct run *r)
{
	if (r->over && r->busy == 0) {
		loop_quit(r->loop);
	}
}

/* ---- one connection -------------------------------------------------------------------------- */

static void conn_close(struct conn *c)
{
	int fd = c->fd.fd;

	if (fd >= 0) {
		loop_fd_stop(&c->fd);
		c->fd.fd = -1;
		close(fd);
	}
	c->connected = false;
}

static void conn_fail(struct conn *c, const char *problem)
{
	struct run *r = c->run;
	struct load_result *res = r->result;

	if (res->errors++ == 0) {
		snprintf(res->error, sizeof(res->error), "%s", problem);
	}
	conn_close(c);
	c->busy = false;
	r->busy--;
	if (++r->errors_in_a_row >= ERRORS_IN_A_ROW_MAX) {
		r->over = true;
	}
	loop_timer_set(&c->reconnect, RECONNECT_US);
	run_quit_if_done(r);
}

static void conn_write(struct conn *c)
{
	ssize_t n = send(c->fd.fd, c->out.p + c->sent, c->out.n - c->sent, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		conn_fail(c, strerror(errno));
		return;
	}
	c->sent += n > 0 ? (size_t)n : 0;
	loop_fd_set(&c->fd, c->fd.fd, LOOP_READ | (c->sent < c->out.n ? LOOP_WRITE : 0));
}

static void conn_open(struct conn *c)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0) {
		conn_fail(c, strerror(errno));
		return;
	}
	c->fd.fd = fd;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, (const struct sockaddr *)&c->run->conf->address,
		sizeof(c->run->conf->address)) != 0 &&
	    errno != EINPROGRESS) {
		conn_fail(c, strerror(errno));
		return;
	}
	loop_fd_set(&c->fd, fd, LOOP_WRITE);
}

static void conn_send(struct conn *c, int64_t due_us)
{
	struct run *r = c->run;

	c->busy = true;
	c->due_us = due_us;
	c->status = 0;
	c->sent = 0;
	r->busy++;
	sbuf_reset(&c->out);
	template_render(templates_pick(r->templates, &r->rng), r->conf->counter + r->issued++,
	    &r->rng, &c->out);
	llhttp_init(&c->parser, HTTP_RESPONSE, &r->settings);
	c->parser.data = c;
	if (c->connected) {
		conn_write(c);
	} else {
		conn_open(c);
	}
}

/* ---- the schedule ---------------------------------------------------------------------------- */

static void due_timer_set(struct run *r, int64_t at_us)
{
	struct itimerspec at = { .it_value = { .tv_sec = at_us / SPOT_US_PER_S,
				     .tv_nsec = at_us % SPOT_US_PER_S * 1000 } };

	(void)timerfd_settime(r->due.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static int64_t run_next_due_us(const struct run *r)
{
	return r->start_us + (int64_t)((double)r->issued * 1e6 / r->conf->rate);
}

/* Gives idle connections the requests that are due. */
static void run_send_due(struct run *r)
{
	while (r->idle_n > 0 && !r->over) {
		int64_t now = now_us(), due = r->conf->rate > 0 ? run_next_due_us(r) : now;

		if (due > now) {
			due_timer_set(r, due);
			return;
		}
		conn_send(r->idle[--r->idle_n], due);
	}
}

static void conn_idle(struct conn *c)
{
	c->run->idle[c->run->idle_n++] = c;
	run_send_due(c->run);
}

static void reconnect_due(struct loop_timer *t)
{
	conn_idle(container_of(t, struct conn, reconnect));
}

static void request_due(struct loop_fd *f, int events UNUSED)
{
	uint64_t n;

	if (read(f->fd, &n, sizeof(n)) == (ssize_t)sizeof(n)) {
		run_send_due(container_of(f, struct run, due));
	}
}

/* Requests that were due before the end and never sent have waited until now at least. */
static void run_count_unsent(struct run *r)
{
	for (int64_t due; (due = run_next_due_us(r)) < r->end_us; r->issued++) {
		r->result->unsent++;
		if (due >= r->count_from_us) {
			histogram_add(&r->result->latency, r->end_us - due);
		}
	}
}

static void run_end(struct loop_timer *t)
{
	struct run *r = container_of(t, struct run, end);

	r->over = true;
	if (r->conf->rate > 0) {
		run_count_unsent(r);
	}
	run_quit_if_done(r);
}

static void run_give_up(struct loop_timer *t)
{
	struct run *r = container_of(t, struct run, grace);

	for (int64_t i = 0; i < r->conf->connections; i++) {
		if (r->conns[i].busy) {
			conn_fail(&r->conns[i], "no reply within 30 s after the end");
		}
	}
}

/* ---- replies --------------------------------------------------------------------------------- */

static int reply_complete(llhttp_t *parser)
{
	struct conn *c = parser->data;

	c->status = llhttp_get_status_code(parser);
	c->keep = llhttp_should_keep_alive(parser) != 0;
	return 0;
}

static void conn_answered(struct conn *c)
{
	struct run *r = c->run;
	struct load_result *res = r->result;
	int64_t now = now_us();

	c->busy = false;
	r->busy--;
	r->errors_in_a_row = 0;
	res->statuses[MIN(c->status, LOAD_STATUS_MAX - 1)]++;
	res->answered += now >= r->count_from_us && now <= r->end_us;
	res->late += now > r->end_us;
	if (c->due_us >= r->count_from_us) {
		histogram_add(&res->latency, now - c->due_us);
	}
	if (!c->keep) {
		conn_close(c);
	}
	conn_idle(c);
	run_quit_if_done(r);
}

static void conn_read(struct conn *c)
{
	struct run *r = c->run;
	ssize_t n = recv(c->fd.fd, r->in, sizeof(r->in), 0);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR) {
			conn_fail(c, strerror(errno));
		}
		return;
	}
	r->result->reply_bytes += n;
	if (n > 0) {
		(void)llhttp_execute(&c->parser, r->in, (size_t)n);
	} else {
		(void)llhttp_finish(&c->parser);
		c->keep = false;
	}
	if (c->status != 0) {
		conn_answered(c);
	} else if (n == 0) {
		conn_fail(c, "connection closed before the reply");
	} else if (llhttp_get_errno(&c->parser) != HPE_OK) {
		conn_fail(c, llhttp_get_error_reason(&c->parser));
	}
}

static void conn_ready(struct loop_fd *f, int events)
{
	struct conn *c = container_of(f, struct conn, fd);
	int error = 0;
	socklen_t n = sizeof(error);

	if (!c->busy) { /* the server closed a connection that it kept */
		conn_close(c);
		return;
	}
	if (!c->connected) {
		(void)getsockopt(f->fd, SOL_SOCKET, SO_ERROR, &error, &n);
		if (error != 0) {
			conn_fail(c, strerror(error));
			return;
		}
		c->connected = true;
	}
	if ((events & LOOP_WRITE) && c->sent < c->out.n) {
		conn_write(c);
	}
	if ((events & LOOP_READ) && c->busy) {
		conn_read(c);
	}
}

/* ---- the run --------------------------------------------------------------------------------- */

static void run_start(struct run *r)
{
	r->conns = calloc((size_t)r->conf->connections, sizeof(*r->conns));
	r->idle = calloc((size_t)r->conf->connections, sizeof(struct conn *));
	if (r->conns == NULL || r->idle == NULL) {
		abort();
	}
	loop_fd_init(&r->due, r->loop, request_due);
	loop_fd_set(&r->due, timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC), LOOP_READ);
	loop_timer_init(&r->end, r->loop, run_end);
	loop_timer_init(&r->grace, r->loop, run_give_up);
	r->start_us = now_us();
	r->count_from_us = r->start_us + r->conf->warmup_us;
	r->end_us = r->count_from_us + r->conf->measure_us;
	loop_timer_set(&r->end, r->conf->warmup_us + r->conf->measure_us);
	loop_timer_set(&r->grace, r->conf->warmup_us + r->conf->measure_us + GRACE_US);
	for (int64_t i = 0; i < r->conf->connections; i++) {
		struct conn *c = &r->conns[i];

		c->run = r;
		sbuf_init(&c->out, 0);
		loop_fd_init(&c->fd, r->loop, conn_ready);
		c->fd.fd = -1;
		loop_timer_init(&c->reconnect, r->loop, reconnect_due);
		conn_idle(c);
	}
}

static void run_free(struct run *r)
{
	int fd = r->due.fd;

	for (int64_t i = 0; i < r->conf->connections; i++) {
		conn_close(&r->conns[i]);
		loop_timer_stop(&r->conns[i].reconnect);
		sbuf_fini(&r->conns[i].out);
	}
	loop_fd_stop(&r->due);
	close(fd);
	loop_timer_stop(&r->end);
	loop_timer_stop(&r->grace);
	loop_free(r->loop);
	free(r->conns);
	free(r->idle);
	free(r);
}

void load_run(const struct load_conf *conf, const struct templates *templates,
    struct load_result *ret)
{
	struct run *r = calloc(1, sizeof(*r));

	if (r == NULL) {
		abort();
	}
	memset(ret, 0, sizeof(*ret));
	r->conf = conf;
	r->templates = templates;
	r->result = ret;
	rng_seeded_init(&r->rng, conf->seed);
	llhttp_settings_init(&r->settings);
	r->settings.on_message_complete = reply_complete;
	r->loop = loop_new(&clock_real, &r->rng);
	run_start(r);
	loop_run(r->loop);
	run_free(r);
}
