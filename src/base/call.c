/* Helpers for provider step functions. They copy everything that a request points to into the
 * call's arena, so that a step may build it from locals. */
#include "base/base.h"
#include "base/call.h"
#include "base/crypto/crypto.h"
#include "base/err.h"
#include "base/text/text.h"

#include <stdarg.h>

void call_request(struct spot_call *c, const char *method, const char *url)
{
	c->out = (struct spot_http_request){
		.method = arena_strdup(c->arena, method),
		.url = arena_strdup(c->arena, url),
	};
}

void call_header(struct spot_call *c, const char *name, const char *value)
{
	if (c->out.headers_n == SPOT_HTTP_HEADERS_MAX) {
		fprintf(stderr, "call_header: more than %d headers\n", SPOT_HTTP_HEADERS_MAX);
		abort();
	}
	c->out.headers[c->out.headers_n++] = (struct spot_header){
		.name = arena_strdup(c->arena, name),
		.value = arena_strdup(c->arena, value),
	};
}

void call_body(struct spot_call *c, const char *content_type, const char *body, size_t n)
{
	c->out.body = arena_bytes(c->arena, body, n);
	if (content_type != NULL) {
		call_header(c, "content-type", content_type);
	}
}

static void err_fill(struct spot_call *c, enum spot_rc rc, const char *code, const char *fmt,
    va_list ap) PRINTF(4, 0);
static void err_fill(struct spot_call *c, enum spot_rc rc, const char *code, const char *fmt,
    va_list ap)
{
	char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0) {
		abort();
	}
	/* code may be a view of c->err.code itself. */
	char *kept = arena_strdup(c->arena, code != NULL ? code : "");
	size_t n = strlen(kept);
	redact_text(kept, &n); /* a reply may repeat a key of ours in its code */
	err_set(&c->err, rc, "%s", text);
	snprintf(c->err.code, sizeof(c->err.code), "%s", kept);
	free(text);
}

enum spot_step call_fail(struct spot_call *c, enum spot_rc rc, const char *code, const char *fmt,
    ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_fill(c, rc, code, fmt, ap);
	va_end(ap);
	return SPOT_FAIL;
}

enum spot_step call_again(struct spot_call *c, enum spot_rc rc, int64_t retry_after_us,
    const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_fill(c, rc, code, fmt, ap);
	va_end(ap);
	c->err.retry_after_us = retry_after_us;
	return SPOT_AGAIN;
}

/* ---- the meaning of replies ------------------------------------------------------------------ */

int64_t call_retry_after_us(const struct spot_call *c)
{
	const char *value = c->in != NULL ? spot_http_header(c->in, "retry-after") : NULL;
	int64_t seconds, when;

	if (value == NULL) {
		return 0;
	}
	if (parse_i64(value, 0, 31536000, &seconds)) {
		return seconds * SPOT_US_PER_S;
	}
	if (parse_http_date_us(value, &when) && when > c->now_us) {
		return when - c->now_us;
	}
	return 0;
}

bool call_due(int64_t now_us, int64_t at_us, int64_t most_us)
{
	return now_us >= at_us || at_us - now_us > most_us;
}

bool call_clock_off(const struct spot_call *c, int64_t *ret_us)
{
	int64_t theirs;

	if (!parse_http_date_us(spot_http_header(c->in, "date"), &theirs)) {
		return false;
	}
	*ret_us = theirs - c->now_us;
	return true;
}

enum spot_step call_no_reply(struct spot_call *c, const char *vendor, const char *what)
{
	if (c->mutating) {
		return call_fail(c, SPOT_UNKNOWN, NULL, "%s %s: no reply, it may have happened",
		    vendor, what);
	}
	return call_again(c, SPOT_UNAVAILABLE, 0, NULL, "%s %s: no reply", vendor, what);
}

enum spot_step call_bad_reply(struct spot_call *c, const char *vendor, const char *what,
    const char *fmt, ...)
{
	char words[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	return call_fail(c, c->mutating ? SPOT_UNKNOWN : SPOT_BAD_REPLY, NULL,
	    "%s %s: bad reply: %s", vendor, what, words);
}

enum spot_step call_status_verdict(struct spot_call *c, const char *vendor, const char *what,
    const char *code, const char *words, int64_t wait_us)
{
	int status = c->in->status;
	const char *of = *words != '\0' ? words : "no words";

	if (status == 429) {
		return call_again(c, SPOT_THROTTLED, wait_us, code, "%s %s: HTTP 429: %s", vendor,
		    what, of);
	}
	/* After a fault of the vendor, a request that creates things may have had its effect. */
	if (status >= 500) {
		return call_again(c, c->mutating ? SPOT_UNKNOWN : SPOT_UNAVAILABLE, wait_us, code,
		    "%s %s: HTTP %d: %s", vendor, what, status, of);
	}
	if (*code == '\0') {
		return call_bad_reply(c, vendor, what, "HTTP %d without an error code", status);
	}
	if (status < 400) {
		return call_bad_reply(c, vendor, what, "HTTP %d", status);
	}
	return call_fail(c,
	    status == 401       ? SPOT_UNAUTHENTICATED
		: status == 403 ? SPOT_DENIED
				: SPOT_INVALID,
	    code, "%s %s: %s: %s", vendor, what, code, of);
}

enum spot_step call_json_object(struct spot_call *c, const char *vendor, const char *what,
    json_t **ret)
{
	struct spot_err err = { 0 };
	json_t *doc = NULL;

	if (json_parse(c->in->body, what, &doc, &err) != SPOT_OK) {
		return call_bad_reply(c, vendor, what, "%s", err.text);
	}
	if (!json_is_object(doc)) {
		json_decref(doc);
		return call_bad_reply(c, vendor, what, "not a JSON object");
	}
	*ret = doc;
	return SPOT_STEP_NONE;
}

struct call_state *call_state_get(struct spot_call *c, size_t own_size)
{
	struct call_state *st = c->state;

	if (st == NULL) {
		st = arena_alloc(c->arena, sizeof(*st));
		if (own_size > 0) {
			st->own = arena_alloc(c->arena, own_size);
		}
		c->state = st;
	}
	return st;
}

bool call_next_page(struct arena *a, const char *token, size_t pages_max, const char **next,
    size_t *pages, bool *ret_bad)
{
	*ret_bad = false;
	if (str_empty(token)) {
		*next = NULL;
		*pages = 0;
		return false;
	}
	if (++*pages >= pages_max || str_same(*next, token)) {
		*ret_bad = true;
		return false;
	}
	*next = arena_strdup(a, token);
	return true;
}

void price_point_add(struct spot_call *c, struct price_points *x, const struct spot_pool_info *pool,
    int64_t micros, int64_t effective_us, const char *source)
{
	x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
	x->items[x->n++] = (struct spot_price_point){ .key = pool->key,
		.price_micros = micros,
		.effective_us = effective_us,
		.observed_us = c->now_us,
		.source = source };
}
