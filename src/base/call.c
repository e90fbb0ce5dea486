/* Helpers for provider step functions. Everything a request points to is copied into the call's
 * arena, so that a step may build it from locals. */
#include "base/base.h"
#include "base/call.h"
#include "base/err.h"
#include "base/str.h"

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
	if (content_type != NULL)
		call_header(c, "content-type", content_type);
}

static void err_fill(struct spot_call *c, enum spot_rc rc, const char *code, const char *fmt,
    va_list ap) PRINTF(4, 0);
static void err_fill(struct spot_call *c, enum spot_rc rc, const char *code, const char *fmt,
    va_list ap)
{
	char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	/* code may be a view of c->err.code itself. */
	char *kept = arena_strdup(c->arena, code != NULL ? code : "");
	err_set(&c->err, rc, "%s", text);
	snprintf(c->err.code, sizeof(c->err.code), "%s", kept);
	free(text);
}

enum spot_step call_fail(struct spot_call *c, enum spot_rc rc, const char *code, const char *fmt, ...)
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

/* "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7), the one form that may be generated today. */
static bool parse_http_date(const char *s, int64_t *ret)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	char iso[TIME_TEXT_MAX];

	if (strlen(s) != 29 || s[3] != ',' || s[4] != ' ' || s[7] != ' ' || s[11] != ' ' ||
	    s[16] != ' ' || strcmp(s + 25, " GMT") != 0)
		return false;
	char name[4] = {s[8], s[9], s[10], '\0'};
	const char *hit = strstr(months, name);
	if (hit == NULL || (hit - months) % 3 != 0)
		return false;
	snprintf(iso, sizeof(iso), "%.4s-%02d-%.2sT%.8sZ", s + 12, (int)((hit - months) / 3 + 1),
	    s + 5, s + 17);
	return parse_time_us(iso, ret);
}

int64_t call_retry_after_us(const struct spot_call *c)
{
	const char *value = c->in != NULL ? spot_http_header(c->in, "retry-after") : NULL;
	int64_t seconds, when;

	if (value == NULL)
		return 0;
	if (parse_i64(value, 0, 31536000, &seconds))
		return seconds * SPOT_US_PER_S;
	if (parse_http_date(value, &when) && when > c->now_us)
		return when - c->now_us;
	return 0;
}
