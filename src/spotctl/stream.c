/* Server-sent events (html.spec.whatwg.org, "Server-sent events"), for hours: reconnects and goes
 * on behind the last id. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#include <curl/curl.h>

#define LINE_MAX_BYTES (1u << 20)
#define SILENCE_S 60 /* the daemon says something every 15 s */
#define FAILURES_MAX 60

struct event_stream {
	struct ctl *c;
	CURL *h;
	struct reply reply;
	struct sbuf line, data, problem;
	char last_id[64];
	char next_id[64];
	bool (*each)(struct ctl *c, const char *data);
	bool over, heard;
};

static void event_dispatch(struct event_stream *s)
{
	if (s->next_id[0] != '\0') {
		memcpy(s->last_id, s->next_id, sizeof(s->last_id));
	}
	if (s->data.n > 0 && !s->over) {
		struct round r;

		round_begin(s->c, &r);
		s->over = !s->each(s->c, s->data.p);
		round_end(s->c, &r);
	}
	sbuf_reset(&s->data);
}

/* "field: value" or "field:value"; a line that begins with a colon is a sign of life. */
static void take_line(struct event_stream *s, char *line)
{
	char *value = strchr(line, ':');

	s->heard = true;
	if (*line == '\0') {
		event_dispatch(s);
		return;
	}
	if (value == NULL || value == line) {
		return;
	}
	*value++ = '\0';
	value += *value == ' ';
	if (strcmp(line, "id") == 0) {
		if (!str_copy(s->next_id, sizeof(s->next_id), value)) {
			s->next_id[0] = '\0';
		}
	} else if (strcmp(line, "data") == 0) {
		if (s->data.n > 0) {
			sbuf_putc(&s->data, '\n');
		}
		sbuf_puts(&s->data, value);
	}
}

static size_t on_event(char *p, size_t size, size_t n, void *arg)
{
	struct event_stream *s = arg;
	long status = 0;

	curl_easy_getinfo(s->h, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200) {
		sbuf_add(&s->problem, p, size * n);
		return size * n;
	}
	for (size_t i = 0; i < size * n; i++) {
		if (p[i] == '\r') {
			continue;
		}
		if (p[i] != '\n') {
			sbuf_putc(&s->line, p[i]);
			continue;
		}
		sbuf_putc(&s->line, '\0');
		if (!s->line.overflow) {
			take_line(s, s->line.p);
		}
		sbuf_reset(&s->line);
	}
	return s->over || s->line.overflow || s->data.overflow ? 0 : size * n;
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	struct event_stream *s = arg;
	static const char name[] = "content-type:";

	if (size * n > sizeof(name) && curl_strnequal(p, name, sizeof(name) - 1)) {
		char *value =
		    arena_strndup(s->c->arena, p + sizeof(name) - 1, size * n - sizeof(name) + 1);

		value += strspn(value, " ");
		value[strcspn(value, "\r\n")] = '\0';
		s->reply.headers[0].name = "Content-Type";
		s->reply.headers[0].value = value;
		s->reply.headers_n = 1;
	}
	return size * n;
}

/* One connection, until it ends. The daemon's status, 0 if there was none. */
static long connect_once(struct event_stream *s, const char *path, CURLcode *ret_code,
    char text[CURL_ERROR_SIZE])
{
	struct curl_slist *headers = NULL;
	long status = 0;

	text[0] = '\0';
	s->reply = (struct reply){ 0 };
	sbuf_reset(&s->line);
	sbuf_reset(&s->data);
	sbuf_reset(&s->problem);
	s->h = conn_prepare(s->c, "GET", path, SILENCE_S, &headers);
	curl_easy_setopt(s->h, CURLOPT_WRITEFUNCTION, on_event);
	curl_easy_setopt(s->h, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(s->h, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(s->h, CURLOPT_HEADERDATA, s);
	curl_easy_setopt(s->h, CURLOPT_ERRORBUFFER, text);
	conn_header(s->c, &headers, "Accept", "text/event-stream");
	if (s->last_id[0] != '\0') {
		conn_header(s->c, &headers, "Last-Event-ID", s->last_id);
	}
	curl_easy_setopt(s->h, CURLOPT_HTTPHEADER, headers);
	*ret_code = curl_easy_perform(s->h);
	curl_easy_getinfo(s->h, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(headers);
	return status;
}

static bool status_refused(long status)
{
	return status >= 400 && status != 429 && status != 502 && status != 503 && status != 504;
}

static int say_refusal(struct event_stream *s, long status)
{
	s->reply.status = (int)status;
	s->reply.body = (struct str){ s->problem.p, s->problem.n };
	reply_parse(s->c, &s->reply);
	return conn_problem(s->c, &s->reply);
}

int conn_events(struct ctl *c, const char *path, const char *after, bool ever,
    bool (*each)(struct ctl *c, const char *data))
{
	struct event_stream s = { .c = c, .each = each };
	char text[CURL_ERROR_SIZE] = "";
	int failures = 0, rc = CTL_UNREACHABLE;
	CURLcode code;

	if (!str_copy(s.last_id, sizeof(s.last_id), after)) {
		s.last_id[0] = '\0';
	}
	sbuf_init(&s.line, LINE_MAX_BYTES);
	sbuf_init(&s.data, LINE_MAX_BYTES);
	sbuf_init(&s.problem, 65536);
	while (failures < FAILURES_MAX) {
		struct round r;
		long status;

		s.heard = false;
		round_begin(c, &r);
		status = connect_once(&s, path, &code, text);
		rc = s.over                  ? CTL_OK
		    : status_refused(status) ? say_refusal(&s, status)
					     : CTL_UNREACHABLE;
		round_end(c, &r);
		if (rc != CTL_UNREACHABLE || s.over) {
			break;
		}
		ever = ever || s.heard;
		if (!ever && code == CURLE_COULDNT_CONNECT) {
			say("spotctl: %s: %s", c->url, text);
			break;
		}
		if (failures == 0 || s.heard) {
			say("spotctl: the event stream ended (%s); reconnecting",
			    code == CURLE_OK    ? "closed by the daemon"
				: *text != '\0' ? text
						: curl_easy_strerror(code));
		}
		failures = s.heard ? 1 : failures + 1;
		pause_failed(failures);
	}
	sbuf_fini(&s.line);
	sbuf_fini(&s.data);
	sbuf_fini(&s.problem);
	return rc;
}
