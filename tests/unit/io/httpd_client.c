#include "base/base.h"
#include "test_httpd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static void parked_gone(struct httpd_req *r)
{
	struct server *s = r->user;

	s->gone++;
	for (size_t i = 0; i < s->parked_n; i++) {
		if (s->parked[i] == r) {
			s->parked[i] = NULL;
		}
	}
}

static void request_park(struct server *s, struct httpd_req *r)
{
	assert_true(s->parked_n < ARRAY_LEN(s->parked));
	r->user = s;
	r->gone = parked_gone;
	s->parked[s->parked_n++] = r;
}

static void request_handle(void *ctx, struct httpd_req *r)
{
	struct server *s = ctx;

	s->served++;
	if (strcmp(r->path, "/hello") == 0) {
		const char *who = httpd_query(r, "who");

		who = who ? who : "world";
		httpd_set(r, "X-Injected", "a\r\nEvil: 1");
		httpd_reply(r, 200, "text/plain", who, strlen(who));
	} else if (strcmp(r->path, "/echo") == 0) {
		httpd_reply(r, 200, "application/octet-stream", r->body.p, r->body.n);
	} else if (strcmp(r->path, "/park") == 0) {
		request_park(s, r);
	} else if (strcmp(r->path, "/keep") == 0) { /* parked without a gone callback */
		s->parked[s->parked_n++] = r;
	} else if (strcmp(r->path, "/stream") == 0) {
		httpd_stream_begin(r, 200, "text/event-stream");
		request_park(s, r);
	} else if (strcmp(r->path, "/big") == 0) {
		static char big[4 << 20];

		memset(big, 'b', sizeof(big));
		httpd_reply(r, 200, "text/plain", big, sizeof(big));
	} else if (strcmp(r->path, "/none") == 0) {
		httpd_reply(r, 204, NULL, NULL, 0);
	} else if (strcmp(r->path, "/abort") == 0) {
		httpd_abort(r);
	} else {
		httpd_reply(r, 404, "text/plain", "no", 2);
	}
}

static size_t body_max(void *ctx UNUSED, const char *method, const char *path)
{
	if (strcmp(method, "GET") == 0) {
		return 0;
	}
	return strcmp(path, "/echo") == 0 ? 100 * 1024 : 16;
}

void server_start(struct server *s, const struct httpd_conf *conf)
{
	struct httpd_conf c = conf ? *conf : (struct httpd_conf){ 0 };
	struct spot_err err = { 0 };

	memset(s, 0, sizeof(*s));
	rng_seeded_init(&s->rng, 7);
	s->loop = loop_new(&clock_real, &s->rng);
	c.address = "127.0.0.1";
	c.ctx = s;
	c.handle = request_handle;
	if (!c.body_max) {
		c.body_max = body_max;
	}
	if (httpd_new(s->loop, &c, &s->httpd, &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
}

void server_stop(struct server *s)
{
	httpd_free(s->httpd);
	loop_turn(s->loop, 0);
	loop_free(s->loop);
}

void server_until_open(struct server *s, int want)
{
	int64_t end = clock_real.mono_us(&clock_real) + WAIT_US;

	while (httpd_stats(s->httpd).open != want && clock_real.mono_us(&clock_real) < end) {
		loop_turn(s->loop, 2000);
	}
	assert_int_equal(httpd_stats(s->httpd).open, want);
}

void server_turns(struct server *s, int n)
{
	for (int i = 0; i < n; i++) {
		loop_turn(s->loop, 1000);
	}
}

void server_until(struct server *s, const size_t *value, size_t want, int64_t limit_us)
{
	int64_t end = clock_real.mono_us(&clock_real) + limit_us;

	while (*value < want && clock_real.mono_us(&clock_real) < end) {
		loop_turn(s->loop, 2000);
	}
	assert_true(*value >= want);
}

int client_open(struct server *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)httpd_port(s->httpd)) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

void client_send(struct server *s, int fd, const char *p, size_t n)
{
	int64_t end = clock_real.mono_us(&clock_real) + WAIT_US;

	while (n > 0 && clock_real.mono_us(&clock_real) < end) {
		ssize_t w = send(fd, p, n, MSG_NOSIGNAL);

		if (w > 0) {
			p += w;
			n -= (size_t)w;
		} else if (errno != EAGAIN) {
			return; /* the server closed: the test reads why */
		}
		loop_turn(s->loop, 0);
	}
}

void client_puts(struct server *s, int fd, const char *text)
{
	client_send(s, fd, text, strlen(text));
}

char *client_read(struct server *s, int fd, const char *needle, int64_t limit_us, bool *ret_closed)
{
	int64_t end = clock_real.mono_us(&clock_real) + limit_us;
	size_t cap = 1 << 16, n = 0;
	char *text = calloc(1, cap + 1);
	bool closed = false;

	while (clock_real.mono_us(&clock_real) < end && !(needle && strstr(text, needle))) {
		ssize_t r = recv(fd, text + n, cap - n, 0);

		if (r == 0 || (r < 0 && errno != EAGAIN)) {
			closed = true;
			break;
		}
		if (r > 0) {
			n += (size_t)r;
			if (n == cap) {
				cap *= 2;
				text = realloc(text, cap + 1);
				assert_non_null(text);
			}
			text[n] = '\0';
			continue;
		}
		loop_turn(s->loop, 1000);
	}
	if (ret_closed) {
		*ret_closed = closed;
	}
	return text;
}

int client_probe(struct server *s, const char *raw, size_t n, bool *ret_closed)
{
	int fd = client_open(s), status = -1;
	char *text;

	client_send(s, fd, raw, n);
	text = client_read(s, fd, NULL, WAIT_US, ret_closed);
	if (strncmp(text, "HTTP/1.1 ", 9) == 0) {
		status = (int)strtol(text + 9, NULL, 10);
	} else if (*ret_closed) {
		status = 0;
	}
	free(text);
	close(fd);
	server_until_open(s, 0);
	return status;
}

int count_of(const char *text, const char *needle)
{
	int n = 0;

	for (; (text = strstr(text, needle)); text += strlen(needle)) {
		n++;
	}
	return n;
}
