/* HTTP to the daemon, by libcurl's easy interface; errors in words, exit codes by status. */
#include "base/base.h"
#include "base/rng.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "spotctl/ctl.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <strings.h>

#define REPLY_MAX (64u << 20)
#define INPUT_MAX (1u << 20)

struct exchange {
	struct ctl *c;
	struct reply *reply;
	struct sbuf body;
	struct curl_slist *headers;
};

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct exchange *x = arg;

	sbuf_add(&x->body, p, size * n);
	return x->body.overflow ? 0 : size * n;
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	struct exchange *x = arg;
	struct reply *r = x->reply;
	char *line = arena_strndup(x->c->arena, p, size * n);
	char *colon = strchr(line, ':');

	if (strncmp(line, "HTTP/", 5) == 0) {
		r->headers_n = 0; /* of an interim reply */
	}
	if (colon != NULL && r->headers_n < ARRAY_LEN(r->headers)) {
		char *value = colon + 1 + strspn(colon + 1, " \t");

		*colon = '\0';
		value[strcspn(value, "\r\n")] = '\0';
		r->headers[r->headers_n].name = line;
		r->headers[r->headers_n++].value = value;
	}
	return size * n;
}

const char *reply_header(const struct reply *r, const char *name)
{
	for (size_t i = 0; i < r->headers_n; i++) {
		if (strcasecmp(r->headers[i].name, name) == 0) {
			return r->headers[i].value;
		}
	}
	return NULL;
}

static void add_header(struct exchange *x, const char *name, const char *value)
{
	struct curl_slist *l = curl_slist_append(x->headers, arena_printf(x->c->arena, "%s: %s", name, value));

	assert(l != NULL);
	x->headers = l;
}

static CURL *prepare(struct exchange *x, const char *method, const char *path)
{
	struct ctl *c = x->c;
	CURL *h = c->curl != NULL ? c->curl : curl_easy_init();

	assert(h != NULL);
	c->curl = h;
	curl_easy_reset(h); /* keeps the connection */
	curl_easy_setopt(h, CURLOPT_URL, arena_printf(c->arena, "%s%s", c->url, path));
	curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(h, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(h, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
	curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, 150000L);
	if (!str_empty(c->ca_file)) {
		curl_easy_setopt(h, CURLOPT_CAINFO, c->ca_file);
	}
	if (!str_empty(c->token)) {
		add_header(x, "Authorization", arena_printf(c->arena, "Bearer %s", c->token));
	}
	return h;
}

static int exit_of_status(int status, const char *code)
{
	if (strcmp(code, "no_capacity") == 0 || strcmp(code, "quota") == 0) {
		return CTL_NO_CAPACITY;
	}
	switch (status) {
	case 400:
	case 413:
	case 415:
	case 422:
		return CTL_USAGE;
	case 401:
	case 403:
		return CTL_DENIED;
	case 404:
	case 410:
		return CTL_NOT_FOUND;
	case 409:
	case 412:
		return CTL_CONFLICT;
	case 502:
	case 503:
	case 504:
		return CTL_UNREACHABLE;
	default:
		return CTL_FAILED;
	}
}

static int report_problem(struct ctl *c, const struct reply *r)
{
	const char *code = json_str(r->json, "code", "", NULL);
	const char *detail = json_str(r->json, "detail", NULL, NULL);

	if (detail != NULL) {
		say("spotctl: %s", detail);
	} else {
		say("spotctl: the server answered %d: %.200s", r->status, r->body.p != NULL ? r->body.p : "");
	}
	if (r->status == 401 && c->token == NULL) {
		say("no token was sent: 'spotctl login URL', or --token-file FILE");
	}
	return exit_of_status(r->status, code);
}

static int unreachable(struct ctl *c, CURLcode code, const char *text)
{
	say("spotctl: %s: %s", c->url, *text != '\0' ? text : curl_easy_strerror(code));
	if (code == CURLE_COULDNT_CONNECT) {
		say("is spotd running there? 'spotd --local' starts one here; --url or SPOTCTL_URL names another");
	}
	return CTL_UNREACHABLE;
}

static void keep_json(struct ctl *c, struct reply *r)
{
	const char *type = reply_header(r, "Content-Type");
	struct spot_err err = {0};

	(void)c;
	r->json = NULL;
	if (type != NULL && strstr(type, "json") != NULL && json_parse(r->body, "reply", &r->json, &err) != SPOT_OK) {
		r->json = NULL;
	}
}

int conn_send(struct ctl *c, const char *method, const char *path, const char *type, struct str body, struct reply *ret)
{
	struct exchange x = {.c = c, .reply = ret};
	char text[CURL_ERROR_SIZE] = "";
	CURLcode code;
	CURL *h;
	long status = 0;

	*ret = (struct reply){0};
	sbuf_init(&x.body, REPLY_MAX);
	h = prepare(&x, method, path);
	curl_easy_setopt(h, CURLOPT_ERRORBUFFER, text);
	if (strcmp(method, "POST") == 0 || strcmp(method, "PATCH") == 0) {
		curl_easy_setopt(h, CURLOPT_POSTFIELDS, body.p != NULL ? body.p : "");
		curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE, (long)body.n);
		add_header(&x, "Content-Type", type != NULL ? type : "application/json");
		add_header(&x, "Expect", "");
	}
	if (strcmp(method, "POST") == 0) {
		const char *key = opt_value(c, "key");
		char fresh[33];
		struct rng r;

		rng_real_init(&r);
		rng_hex(&r, fresh, 16);
		add_header(&x, "Idempotency-Key", key != NULL ? key : fresh);
	}
	if (strcmp(method, "PATCH") == 0) {
		add_header(&x, "If-Match", "*");
	}
	curl_easy_setopt(h, CURLOPT_HTTPHEADER, x.headers);
	code = curl_easy_perform(h);
	curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(x.headers);
	ret->status = (int)status;
	ret->body = arena_bytes(c->arena, x.body.p != NULL ? x.body.p : "", x.body.n);
	sbuf_fini(&x.body);
	if (code != CURLE_OK) {
		return unreachable(c, code, text);
	}
	keep_json(c, ret);
	return status >= 200 && status < 300 ? CTL_OK : report_problem(c, ret);
}

int conn_get(struct ctl *c, const char *path, struct reply *ret)
{
	return conn_send(c, "GET", path, NULL, (struct str){0}, ret);
}

/* ---- server-sent events -------------------------------------------------------------------- */

struct event_stream {
	struct exchange x;
	struct sbuf line;
	const char *last_id;
	bool (*each)(struct ctl *c, const char *data);
	bool over;
};

static void event_line(struct event_stream *s, char *line)
{
	if (str_prefix(line, "id: ")) {
		s->last_id = arena_strdup(s->x.c->arena, line + 4);
	} else if (str_prefix(line, "data: ") && !s->over) {
		s->over = !s->each(s->x.c, line + 6);
	}
}

static size_t on_event(char *p, size_t size, size_t n, void *arg)
{
	struct event_stream *s = arg;

	for (size_t i = 0; i < size * n; i++) {
		if (p[i] != '\n') {
			sbuf_putc(&s->line, p[i]);
			continue;
		}
		if (s->line.n > 0) {
			event_line(s, s->line.p);
		}
		sbuf_reset(&s->line);
	}
	return s->over || s->line.overflow ? 0 : size * n;
}

int conn_events(struct ctl *c, const char *path, bool (*each)(struct ctl *c, const char *data))
{
	struct reply reply = {0};
	struct event_stream s = {.x = {.c = c, .reply = &reply}, .each = each};
	char text[CURL_ERROR_SIZE] = "";
	int failures = 0;

	sbuf_init(&s.line, 1u << 20);
	while (!s.over && failures < 10) {
		long status = 0;
		CURLcode code;
		CURL *h = prepare(&s.x, "GET", path);

		curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_event);
		curl_easy_setopt(h, CURLOPT_WRITEDATA, &s);
		curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, 0L);
		curl_easy_setopt(h, CURLOPT_ERRORBUFFER, text);
		add_header(&s.x, "Accept", "text/event-stream");
		if (s.last_id != NULL) {
			add_header(&s.x, "Last-Event-ID", s.last_id);
		}
		curl_easy_setopt(h, CURLOPT_HTTPHEADER, s.x.headers);
		code = curl_easy_perform(h);
		curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
		curl_slist_free_all(s.x.headers);
		s.x.headers = NULL;
		if (status >= 400) {
			say("spotctl: the server answered %ld to the event stream", status);
			sbuf_fini(&s.line);
			return exit_of_status((int)status, "");
		}
		if (!s.over && code != CURLE_OK) {
			failures++;
			say("spotctl: stream lost (%s), reconnecting", *text != '\0' ? text : curl_easy_strerror(code));
			poll(NULL, 0, 500 * failures);
		}
	}
	sbuf_fini(&s.line);
	return s.over ? CTL_OK : CTL_UNREACHABLE;
}

void conn_close(struct ctl *c)
{
	if (c->curl != NULL) {
		curl_easy_cleanup(c->curl);
		c->curl = NULL;
	}
}

int read_input(struct ctl *c, const char *path, struct str *ret)
{
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	struct sbuf b;
	char buf[16384];
	size_t n;

	if (f == NULL) {
		say("spotctl: %s: %s", path, strerror(errno));
		return CTL_USAGE;
	}
	sbuf_init(&b, INPUT_MAX);
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0) {
		sbuf_add(&b, buf, n);
	}
	if (f != stdin) {
		fclose(f);
	}
	if (b.overflow) {
		say("spotctl: %s is larger than 1 MiB", path);
		sbuf_fini(&b);
		return CTL_USAGE;
	}
	*ret = arena_bytes(c->arena, b.p != NULL ? b.p : "", b.n);
	sbuf_fini(&b);
	return CTL_OK;
}
