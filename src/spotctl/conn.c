/* HTTP to the daemon, by libcurl's easy interface; errors in words, exit codes by status. */
#include "base/base.h"
#include "base/text/text.h"
#include "net/curl_policy.h"
#include "spotctl/ctl.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>

#define REPLY_MAX (64u << 20)
#define INPUT_MAX (1u << 20)
#define TRIES 3
#define BUSY_TRIES 70 /* one a second: a key is held for 60 s */
#define WAIT_S_MAX 5
#define CONNECT_MS 5000
#define TOTAL_MS 150000

struct exchange {
	struct ctl *c;
	struct reply *reply;
	struct sbuf body;
	struct curl_slist *headers;
	CURLcode code;
	char text[CURL_ERROR_SIZE];
};
struct doc {
	struct doc *next;
	json_t *json;
};

/* ---- rounds ---------------------------------------------------------------------------------- */

void docs_free(struct ctl *c)
{
	while (c->docs != NULL) {
		struct doc *d = c->docs;

		c->docs = d->next;
		json_decref(d->json);
		free(d);
	}
}

void round_begin(struct ctl *c, struct round *r)
{
	*r = (struct round){ c->arena, c->docs };
	c->arena = arena_new(0);
	c->docs = NULL;
}

void round_end(struct ctl *c, struct round *r)
{
	docs_free(c);
	arena_free(c->arena);
	c->arena = r->arena;
	c->docs = r->docs;
}

void pause_ms(int ms)
{
	(void)poll(NULL, 0, ms);
}

void pause_failed(int failures)
{
	static const struct backoff pauses = { .first_us = SPOT_US_PER_S / 4,
		.cap_us = WAIT_S_MAX * SPOT_US_PER_S };

	pause_ms((int)(backoff_wait_us(&pauses, failures - 1, NULL) / 1000));
}

/* ---- one exchange ---------------------------------------------------------------------------- */

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
	return spot_header_value(r->headers, r->headers_n, name);
}

void conn_header(struct ctl *c, struct curl_slist **headers, const char *name, const char *value)
{
	struct curl_slist *l =
	    curl_slist_append(*headers, arena_printf(c->arena, "%s: %s", name, value));

	assert(l != NULL);
	*headers = l;
}

void *conn_prepare(struct ctl *c, const char *method, const char *path, int64_t stall_s,
    struct curl_slist **headers)
{
	struct curl_policy policy = { .total_ms = stall_s > 0 ? 0 : TOTAL_MS,
		.connect_ms = CONNECT_MS,
		.stall_s = stall_s,
		.stall_bytes = 1,
		.ca_file = str_empty(c->ca_file) ? NULL : c->ca_file,
		/* whatever http_proxy says: a token for this machine stays here */
		.no_proxy = url_loopback(c->url) ? "*" : NULL,
		.user_agent = "spotctl/" SPOT_VERSION };
	CURL *h = c->curl != NULL ? c->curl : curl_easy_init();

	assert(h != NULL);
	c->curl = h;
	curl_easy_reset(h); /* keeps the connection */
	curl_easy_setopt(h, CURLOPT_URL, arena_printf(c->arena, "%s%s", c->url, path));
	curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, method);
	curl_policy_set(h, &policy);
	if (!str_empty(c->token)) {
		conn_header(c, headers, "Authorization",
		    arena_printf(c->arena, "Bearer %s", c->token));
	}
	return h;
}

static void exchange_perform(struct exchange *x, const char *method, const char *path,
    const char *type, struct str body, const char *key)
{
	CURL *h = conn_prepare(x->c, method, path, 0, &x->headers);
	long status = 0;

	/* "": all that libcurl can unpack. Streams do without, as the daemon does not pack them. */
	curl_easy_setopt(h, CURLOPT_ACCEPT_ENCODING, "");
	curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(h, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(h, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(h, CURLOPT_ERRORBUFFER, x->text);
	if (strcmp(method, "POST") == 0 || strcmp(method, "PATCH") == 0 ||
	    strcmp(method, "PUT") == 0) {
		curl_easy_setopt(h, CURLOPT_POSTFIELDS, body.p != NULL ? body.p : "");
		curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE, (long)body.n);
		conn_header(x->c, &x->headers, "Content-Type",
		    type != NULL ? type : "application/json");
		conn_header(x->c, &x->headers, "Expect", "");
	}
	if (strcmp(method, "POST") == 0) {
		conn_header(x->c, &x->headers, "Idempotency-Key", key);
	}
	if (strcmp(method, "PATCH") == 0) {
		conn_header(x->c, &x->headers, "If-Match", "*");
	}
	curl_easy_setopt(h, CURLOPT_HTTPHEADER, x->headers);
	x->code = curl_easy_perform(h);
	curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(x->headers);
	x->headers = NULL;
	x->reply->status = (int)status;
	x->reply->body = arena_bytes(x->c->arena, x->body.p != NULL ? x->body.p : "", x->body.n);
	sbuf_fini(&x->body);
}

/* ---- meaning of a reply ---------------------------------------------------------------------- */

static int exit_of_code(const char *code)
{
	static const struct {
		const char *code;
		int exit;
	} map[] = {
		{ "no_capacity", CTL_NO_CAPACITY },
		{ "not_offered", CTL_NO_CAPACITY },
		{ "price_cap", CTL_NO_CAPACITY },
		{ "quota", CTL_NO_CAPACITY },
		{ "throttled", CTL_UNREACHABLE },
		{ "unknown", CTL_UNREACHABLE },
		{ "mismatch", CTL_CONFLICT },
	};

	for (size_t i = 0; i < ARRAY_LEN(map); i++) {
		if (strcmp(map[i].code, code) == 0) {
			return map[i].exit;
		}
	}
	return CTL_OK;
}

static int exit_of_status(int status)
{
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
	case 429:
	case 502:
	case 503:
	case 504:
		return CTL_UNREACHABLE;
	default:
		return CTL_FAILED;
	}
}

int conn_problem(struct ctl *c, const struct reply *r)
{
	const char *code = json_str(r->json, "code", "", NULL),
		   *field = json_str(r->json, "field", "", NULL);
	const char *detail = json_str(r->json, "detail", NULL, NULL);
	int exit = exit_of_code(code);

	if (detail != NULL) {
		say("spotctl: %s%s%s", field, *field != '\0' ? ": " : "", detail);
	} else {
		say("spotctl: %s returned status %d without a reason: %.200s", c->url, r->status,
		    r->body.p != NULL ? r->body.p : "");
	}
	if (r->status == 401 && c->token == NULL) {
		say("no token was sent; use 'spotctl login URL' or --token-file FILE");
	}
	return exit != CTL_OK ? exit : exit_of_status(r->status);
}

static int exchange_unreachable(struct ctl *c, const struct exchange *x)
{
	say("spotctl: %s: %s", c->url, x->text[0] != '\0' ? x->text : curl_easy_strerror(x->code));
	if (x->code == CURLE_COULDNT_CONNECT && url_loopback(c->url)) {
		say("start a daemon with 'spotd --local', or name another one with --url or "
		    "SPOTCTL_URL");
	} else if (x->code == CURLE_PEER_FAILED_VERIFICATION) {
		say("name the daemon's certificate authority with --ca-file FILE or "
		    "SPOTCTL_CA_FILE");
	}
	return CTL_UNREACHABLE;
}

static bool is_json(const struct reply *r)
{
	const char *type = reply_header(r, "Content-Type");

	return type != NULL &&
	    (str_prefix(type, "application/json") || str_prefix(type, "application/problem+json"));
}

void reply_parse(struct ctl *c, struct reply *r)
{
	struct spot_err err = { 0 };
	struct doc *d;

	r->json = NULL;
	if (!is_json(r) || json_parse(r->body, "reply", &r->json, &err) != SPOT_OK) {
		r->json = NULL;
		return;
	}
	d = calloc(1, sizeof(*d));
	assert(d != NULL);
	*d = (struct doc){ c->docs, r->json };
	c->docs = d;
}

/* The request may have arrived or not, and the daemon may answer a repetition. */
static bool worth_repeating(const struct exchange *x)
{
	if (x->code == CURLE_OK) {
		return x->reply->status == 429 || x->reply->status == 502 ||
		    x->reply->status == 503;
	}
	return x->code == CURLE_GOT_NOTHING || x->code == CURLE_SEND_ERROR ||
	    x->code == CURLE_RECV_ERROR || x->code == CURLE_PARTIAL_FILE;
}

/* The first request under our key is under way, or its daemon died with it: then the key is free
 * again within a minute. */
static bool key_busy(const struct exchange *x)
{
	return x->code == CURLE_OK && x->reply->status == 409 &&
	    reply_header(x->reply, "Retry-After") != NULL;
}

static void wait_before_repeating(const struct reply *r, int tries)
{
	const char *after = reply_header(r, "Retry-After");
	int64_t s = 0;

	if (after != NULL && parse_i64(after, 0, 86400, &s)) {
		pause_ms((int)MIN(s, WAIT_S_MAX) * 1000);
	} else {
		pause_failed(tries);
	}
}

enum { WANT_JSON = 1, WANT_TEXT = 2, QUIET = 4 };

static int exchange_judge(struct ctl *c, struct exchange *x, unsigned want)
{
	struct reply *r = x->reply;

	if (x->code != CURLE_OK) {
		return (want & QUIET) != 0 ? CTL_UNREACHABLE : exchange_unreachable(c, x);
	}
	reply_parse(c, r);
	if (r->status < 200 || r->status >= 300) {
		return (want & QUIET) != 0 && exit_of_status(r->status) == CTL_UNREACHABLE
		    ? CTL_UNREACHABLE
		    : conn_problem(c, r);
	}
	if ((want & WANT_JSON) != 0 && r->json == NULL && r->status != 204) {
		say("spotctl: %s returned status %d without JSON; check that it is a Spotbroker "
		    "daemon",
		    c->url, r->status);
		return CTL_FAILED;
	}
	return CTL_OK;
}

static int exchange_run(struct ctl *c, const char *method, const char *path, const char *type,
    struct str body, unsigned want, struct reply *ret)
{
	bool repeatable = strcmp(method, "GET") == 0 || strcmp(method, "POST") == 0;
	const char *key = opt_value(c, "key");
	struct exchange x;
	char fresh[33];

	if (str_empty(key)) {
		struct rng r;

		rng_real_init(&r);
		rng_hex(&r, fresh, 16);
		key = fresh;
	}
	for (int tries = 1, busy = 0;; tries++) {
		x = (struct exchange){ .c = c, .reply = ret };
		*ret = (struct reply){ 0 };
		sbuf_init(&x.body, REPLY_MAX);
		exchange_perform(&x, method, path, type, body, key);
		if (repeatable && key_busy(&x) && busy++ < BUSY_TRIES) {
			wait_before_repeating(ret, 1);
			tries = 0; /* somebody is there again */
			continue;
		}
		if (tries == TRIES || !repeatable || (want & QUIET) != 0 || !worth_repeating(&x)) {
			return exchange_judge(c, &x, want);
		}
		wait_before_repeating(ret, tries);
	}
}

int conn_send(struct ctl *c, const char *method, const char *path, const char *type,
    struct str body, struct reply *ret)
{
	return exchange_run(c, method, path, type, body, WANT_JSON, ret);
}

int conn_get(struct ctl *c, const char *path, struct reply *ret)
{
	return exchange_run(c, "GET", path, NULL, (struct str){ 0 }, WANT_JSON, ret);
}

int conn_get_text(struct ctl *c, const char *path, struct reply *ret)
{
	return exchange_run(c, "GET", path, NULL, (struct str){ 0 }, WANT_TEXT, ret);
}

int conn_poll(struct ctl *c, const char *path, bool text, struct reply *ret)
{
	return exchange_run(c, "GET", path, NULL, (struct str){ 0 },
	    QUIET | (text ? WANT_TEXT : WANT_JSON), ret);
}

void conn_close(struct ctl *c)
{
	if (c->curl != NULL) {
		curl_easy_cleanup(c->curl);
		c->curl = NULL;
	}
}

int read_file(struct ctl *c, const char *path, size_t bytes_max, struct str *ret)
{
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	AUTO(sbuf) struct sbuf b;
	char buf[16384];
	bool failed;
	size_t n;

	sbuf_init(&b, bytes_max);
	if (f == NULL) {
		say("spotctl: %s: %s", path, strerror(errno));
		return CTL_USAGE;
	}
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0 && !b.overflow) {
		sbuf_add(&b, buf, n);
	}
	failed = ferror(f) != 0;
	if (failed) {
		say("spotctl: %s: %s", path, strerror(errno));
	} else if (b.overflow) {
		say("spotctl: %s is larger than %zu MiB", path, bytes_max >> 20);
	} else if (b.n == 0) {
		say("spotctl: %s is empty", path);
	}
	if (f != stdin) {
		fclose(f);
	}
	if (failed || b.overflow || b.n == 0) {
		return CTL_USAGE;
	}
	*ret = arena_bytes(c->arena, b.p, b.n);
	return CTL_OK;
}

int read_input(struct ctl *c, const char *path, struct str *ret)
{
	return read_file(c, path, INPUT_MAX, ret);
}
