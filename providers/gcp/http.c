#include "base/base.h"
#include "gcp_priv.h"

/*
 * Sending and receiving for all services: bearer token, replies, paging, Google's JSON mapping
 * (int64 are strings, absent is default: protobuf.dev/programming-guides/json).
 */

#define EXACT_MAX 9e15 /* doubles below that hold integers exactly */

enum spot_step gcp_send(struct gcp *self, struct spot_call *c, const struct gcp_request *r)
{
	if (!r->no_token && !self->have_token) {
		return call_fail(c, SPOT_UNAUTHENTICATED, NULL, "gcp %s: no access token yet",
		    r->what);
	}
	call_request(c, r->method,
	    arena_printf(c->arena, "%s%s", gcp_base(self, r->service), r->path));
	if (!r->no_token) {
		/* Not through the arena's printf: it would leave one more copy of the token
		 * there. */
		char *value = arena_alloc(c->arena, self->token.n + 8);

		memcpy(value, "Bearer ", 7);
		memcpy(value + 7, secret_reveal(&self->token), self->token.n);
		call_header(c, "authorization", value);
	}
	call_header(c, "accept", "application/json");
	if (r->body != NULL) {
		call_body(c, "application/json", r->body, strlen(r->body));
	}
	c->limit = (int)r->limit;
	c->limit_cost = 1;
	c->limit_scope = r->scope != NULL ? arena_strdup(c->arena, r->scope) : "";
	c->mutating = r->mutating;
	c->out.timeout_us = r->timeout_us;
	c->out.reply_bytes_max = r->reply_bytes_max;
	/* A request that creates something must not be re-sent by the transport on its own;
	 * requestId makes our own repeats harmless. */
	c->out.fresh_connection = r->mutating;
	return SPOT_SEND;
}

enum spot_step gcp_reply(struct gcp *self, struct spot_call *c, const char *what, const char *kind,
    json_t **ret)
{
	json_t *doc = NULL;
	const char *is;
	enum spot_step s;

	if (c->in->status == 0) {
		return call_no_reply(c, "gcp", what);
	}
	if (c->in->status != 200) {
		return gcp_error(self, c, what);
	}
	s = call_json_object(c, "gcp", what, &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	is = json_string_value(json_object_get(doc, "kind"));
	/* A default that may be left out where the rest shows what it is; an empty object is no
	 * empty list. */
	if (is == NULL &&
	    (json_object_get(doc, "items") != NULL || json_object_get(doc, "name") != NULL)) {
		is = kind;
	}
	if (kind != NULL && !str_same(is, kind)) {
		json_decref(doc);
		return gcp_bad_reply(c, what, "not a JSON object of kind %s", kind);
	}
	*ret = doc;
	return SPOT_STEP_NONE;
}

bool gcp_next_page(struct spot_call *c, const char *what, const json_t *doc,
    enum spot_step *ret_step)
{
	struct call_state *st = c->state;
	const json_t *v = json_object_get(doc, "nextPageToken");
	const char *token = json_string_value(v);
	bool more, bad;

	*ret_step = SPOT_STEP_NONE;
	if (v != NULL && !json_is_null(v) && token == NULL) {
		*ret_step = gcp_bad_reply(c, what, "nextPageToken is not a string");
		return false;
	}
	/* The end is an absent token (Compute) or an empty one (Cloud Billing). */
	more = call_next_page(c->arena, token, GCP_PAGES_MAX, &st->next, &st->pages, &bad);
	if (bad) {
		*ret_step =
		    gcp_bad_reply(c, what, "the page token repeats, or there is no end of pages");
	}
	return more;
}

const char *gcp_page(struct spot_call *c)
{
	const struct call_state *st = c->state;

	return st->next != NULL
	    ? arena_printf(c->arena, "&pageToken=%s", url_encode(c->arena, st->next, false))
	    : "";
}

int64_t gcp_int(const json_t *o, const char *key, int64_t dflt, bool *bad)
{
	const json_t *v = json_object_get(o, key);
	int64_t n;

	if (v == NULL || json_is_null(v)) {
		return dflt;
	}
	if (json_is_integer(v)) {
		return json_integer_value(v);
	}
	/* 3600.0 and 3.6e3 are integers too (protobuf.dev/programming-guides/json). */
	if (json_is_real(v) && json_real_value(v) > -EXACT_MAX && json_real_value(v) < EXACT_MAX &&
	    (double)(int64_t)json_real_value(v) == json_real_value(v)) {
		return (int64_t)json_real_value(v);
	}
	if (json_is_string(v) && parse_i64(json_string_value(v), INT64_MIN, INT64_MAX, &n)) {
		return n;
	}
	*bad = true;
	return dflt;
}

const char *gcp_str(struct arena *a, const json_t *o, const char *key, bool *bad)
{
	const json_t *v = json_object_get(o, key);

	if (v == NULL || json_is_null(v)) {
		return "";
	}
	if (!json_is_string(v)) {
		*bad = true;
		return "";
	}
	return arena_strdup(a, json_string_value(v));
}

bool gcp_double(const json_t *v, double *ret)
{
	const char *s = json_string_value(v);
	char *end = NULL;

	*ret = json_is_number(v) ? json_number_value(v) : !str_empty(s) ? strtod(s, &end) : 0;
	if (v == NULL || json_is_null(v) || json_is_number(v)) {
		return true;
	}
	return end != NULL && *end == '\0' && *ret > -1e300 && *ret < 1e300;
}

/* ids are uint64: strings, but third-party captures have numbers. */
const char *gcp_id(struct arena *a, const json_t *o, const char *key, bool *bad)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) ? arena_printf(a, "%" JSON_INTEGER_FORMAT, json_integer_value(v))
				  : gcp_str(a, o, key, bad);
}

/* google.type.Money: units is an int64, so a string; either may be left out when it is zero. */
bool gcp_money(const json_t *m, int64_t *ret_nanos)
{
	bool bad = false;
	const char *currency = json_string_value(json_object_get(m, "currencyCode"));
	int64_t units = gcp_int(m, "units", 0, &bad), nanos = gcp_int(m, "nanos", 0, &bad);

	if (bad || !json_is_object(m) || (currency != NULL && strcmp(currency, "USD") != 0) ||
	    units < 0 || units > 100000 || nanos < 0 || nanos > 999999999) {
		return false;
	}
	*ret_nanos = units * 1000000000 + nanos;
	return true;
}

int64_t gcp_micros(int64_t nanos)
{
	return (nanos + 500) / 1000;
}
