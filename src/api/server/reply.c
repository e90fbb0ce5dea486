/*
 * Replies: JSON documents, problem+json errors (RFC 9457), lists, and the end of a request. The
 * store's documents carry marks for times and money; view_resolve turns them into what clients see.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#include <stdarg.h>

/* ---- documents of the store ------------------------------------------------------------------ */

static void resolve_time(json_t *o, const char *key, size_t n, const json_t *v, int64_t now_us,
    bool age)
{
	char name[80];

	if (n == 0) {
		snprintf(name, sizeof(name), "at");
	} else {
		snprintf(name, sizeof(name), "%.*s_at", (int)MIN(n, (size_t)70), key);
	}
	json_object_set_new(o, name,
	    json_is_integer(v) ? json_time(json_integer_value(v)) : json_null());
	if (age) {
		json_object_set_new(o, "age_s",
		    json_is_integer(v)
			? json_integer(MAX((now_us - json_integer_value(v)) / SPOT_US_PER_S, 0))
			: json_null());
	}
}

static void resolve_money(json_t *o, const char *key, size_t n, json_t *v)
{
	char name[80];

	snprintf(name, sizeof(name), "%.*s_micros", (int)MIN(n, (size_t)70), key);
	json_object_set(o, name, v);
	snprintf(name, sizeof(name), "%.*s_usd", (int)MIN(n, (size_t)70), key);
	json_object_set_new(o, name,
	    json_is_integer(v) ? json_usd(json_integer_value(v)) : json_null());
}

static json_t *resolve_object(json_t *doc, int64_t now_us)
{
	json_t *out = json_object(), *v;
	const char *key;

	json_object_foreach (doc, key, v) {
		const char *at = strchr(key, '@');
		size_t n = strlen(key);

		if (at && (at[1] == '\0' || strcmp(at, "@age") == 0)) {
			resolve_time(out, key, (size_t)(at - key), v, now_us, at[1] != '\0');
		} else if (n > 1 && key[n - 1] == '$') {
			resolve_money(out, key, n - 1, v);
		} else {
			view_resolve(v, now_us);
			json_object_set(out, key, v);
		}
	}
	return out;
}

void view_resolve(json_t *doc, int64_t now_us)
{
	json_t *item;
	size_t i;

	if (json_is_object(doc)) {
		json_t *out = resolve_object(doc, now_us);

		json_object_clear(doc);
		json_object_update(doc, out);
		json_decref(out);
	} else if (json_is_array(doc)) {
		json_array_foreach (doc, i, item) {
			view_resolve(item, now_us);
		}
	}
}

json_t *view_parse(const char *text)
{
	json_error_t e;
	json_t *doc = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);

	return doc ? doc : json_null();
}

/* ---- the end of a request -------------------------------------------------------------------- */

void reply_send(struct areq *q, int status, const char *type, const char *body, size_t n)
{
	served_count(q, status);
	q->http->gone = NULL;
	httpd_reply(q->http, status, type, body, n);
	areq_end(q);
}

void areq_reply(struct areq *q, int status, const char *type, const char *body, size_t n)
{
	if (q->settle && q->settle(q, status, type, body, n)) {
		return;
	}
	if (q->share != NULL) {
		share_reply(q, status, type, body, n);
		return;
	}
	reply_send(q, status, type, body, n);
}

void areq_json(struct areq *q, int status, json_t *doc)
{
	char *text;

	json_decref(q->doc);
	q->doc = doc;
	view_resolve(doc, q->now_us);
	text = json_text(q->arena, doc);
	areq_reply(q, status, "application/json", text, strlen(text));
}

void areq_done(struct areq *q)
{
	areq_reply(q, q->route->status, "application/json", "{}", 2);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static const char *title_of(enum spot_rc rc)
{
	switch (rc) {
	case SPOT_INVALID:
		return "The request is malformed";
	case SPOT_UNAUTHENTICATED:
		return "Missing or invalid credentials";
	case SPOT_DENIED:
		return "Not permitted";
	case SPOT_NOT_FOUND:
		return "Not found";
	case SPOT_CONFLICT:
		return "Conflict with the current state";
	case SPOT_STALE_EPOCH:
		return "A newer attempt owns the job";
	case SPOT_GONE:
		return "Gone";
	case SPOT_TOO_LARGE:
		return "Too large";
	case SPOT_MISMATCH:
		return "The Idempotency-Key belongs to another request";
	case SPOT_THROTTLED:
		return "Too many requests";
	case SPOT_UNAVAILABLE:
	case SPOT_TIMEOUT:
		return "Temporarily unavailable";
	case SPOT_OK:
	case SPOT_NO_CAPACITY:
	case SPOT_NOT_OFFERED:
	case SPOT_PRICE_CAP:
	case SPOT_QUOTA:
	case SPOT_UNKNOWN:
	case SPOT_BAD_REPLY:
	case SPOT_CONFIG:
	case SPOT_CANCELLED:
	case SPOT_INTERNAL:
	case SPOT_RC_COUNT:
		break;
	}
	return "The request failed";
}

/* Texts of the job file's parser begin with "line L, column C: ". */
static void position_of(const char *text, json_t *doc)
{
	int line = 0, column = 0;
	const char *at = strstr(text, "line ");

	if (at && sscanf(at, "line %d, column %d", &line, &column) == 2) {
		json_object_set_new(doc, "line", json_integer(line));
		json_object_set_new(doc, "column", json_integer(column));
	}
}

void areq_problem(struct areq *q, int status, const struct spot_err *err, const char *field)
{
	json_t *doc = json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", "about:blank", "title",
	    title_of(err->rc), "status", status, "code", spot_rc_name(err->rc), "detail",
	    err->text);
	char *text;

	if (!doc) { /* a detail that is not UTF-8 */
		doc = json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", "about:blank", "title",
		    title_of(err->rc), "status", status, "code", spot_rc_name(err->rc), "detail",
		    "the request has bytes that are not UTF-8");
	}
	if (field) {
		json_object_set_new(doc, "field", json_string(field));
	}
	if (err->rc == SPOT_INVALID) {
		position_of(err->text, doc);
	}
	json_decref(q->doc);
	q->doc = doc;
	text = json_text(q->arena, doc);
	areq_reply(q, status, "application/problem+json", text, strlen(text));
}

void areq_error(struct areq *q, const struct spot_err *err)
{
	struct spot_err shown = *err;
	char seconds[24];

	if (spot_rc_http(err->rc) >= 500) {
		log_error("api.failed", STR("method", q->http->method), STR("path", q->http->path),
		    STR("rc", spot_rc_name(err->rc)), STR("code", err->code),
		    STR("why", err->text));
	}
	/* The log gets the database error, the client does not. */
	if (err->rc == SPOT_INTERNAL || err->rc == SPOT_BAD_REPLY || err->rc == SPOT_CONFIG) {
		err_set(&shown, SPOT_INTERNAL,
		    "the daemon failed to do this; its log has the reason");
	}
	if (err->rc == SPOT_UNKNOWN) {
		err_set(&shown, SPOT_UNKNOWN,
		    "the database connection broke during the write, so its outcome is unknown; "
		    "check, or repeat with the same Idempotency-Key");
	}
	if (spot_rc_act(err->rc) == SPOT_ACT_LATER) {
		snprintf(seconds, sizeof(seconds), "%d",
		    1 + (int)(err->retry_after_us / SPOT_US_PER_S));
		httpd_set(q->http, "Retry-After", seconds);
	}
	areq_problem(q, spot_rc_http(shown.rc), &shown, NULL);
}

void areq_fail(struct areq *q, enum spot_rc rc, const char *fmt, ...)
{
	struct spot_err err = { 0 };
	va_list ap;

	err.rc = rc;
	va_start(ap, fmt);
	vsnprintf(err.text, sizeof(err.text), fmt, ap);
	va_end(ap);
	areq_problem(q, spot_rc_http(rc), &err, NULL);
}

void areq_fail_field(struct areq *q, const char *field, const char *fmt, ...)
{
	struct spot_err err = { .rc = SPOT_INVALID };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err.text, sizeof(err.text), fmt, ap);
	va_end(ap);
	areq_problem(q, 400, &err, field);
}
