/* Reading what the client sent, strictly: every helper answers a bad value itself. */
#include "base/base.h"
#include "api/server/server_priv.h"

#include "base/text/text.h"

#include <strings.h>

#define LIST_MAX 32

bool parse_id(const char *s, char letter, int64_t *ret)
{
	if (*s == letter) {
		s++;
	}
	return *s >= '0' && *s <= '9' && parse_i64(s, 1, INT64_MAX, ret);
}

int32_t day_of(int64_t us)
{
	return (int32_t)(us / (INT64_C(86400) * SPOT_US_PER_S));
}

/* UTF-8 as the database takes it (RFC 3629), no control characters. */
bool text_clean(const char *s)
{
	for (size_t n; *s != '\0'; s += n) {
		n = str_utf8_len(s);
		if (n == 0 || (unsigned char)*s < 0x20 || *s == 0x7f) {
			return false;
		}
	}
	return true;
}

bool areq_body(struct areq *q, json_t **ret)
{
	const char *type = httpd_header(q->http, "content-type");
	struct spot_err err = { 0 };
	json_t *doc = NULL;

	if (type && !str_prefix(type, "application/json")) {
		err_set(&err, SPOT_INVALID, "the body must be application/json");
		areq_problem(q, 415, &err, "Content-Type");
		return false;
	}
	if (q->http->body.n == 0) {
		areq_fail(q, SPOT_INVALID, "the request needs a body: a JSON object");
		return false;
	}
	if (json_parse(q->http->body, "body", &doc, &err) != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return false;
	}
	json_decref(q->doc);
	q->doc = doc;
	if (!json_is_object(doc)) {
		areq_fail(q, SPOT_INVALID, "the body must be a JSON object");
		return false;
	}
	*ret = doc;
	return true;
}

bool areq_body_keys(struct areq *q, const json_t *o, const char *const *known)
{
	const char *odd = json_unknown_key(o, known), *best = NULL;
	int least = NEAR_LEAST;
	struct sbuf names;

	if (!odd) {
		return true;
	}
	sbuf_init(&names, 300);
	for (; *known; known++) {
		sbuf_printf(&names, "%s%s", names.n ? ", " : "", *known);
		best = near_better(odd, *known, best, &least);
	}
	if (best) {
		areq_fail_field(q, odd, "unknown member; did you mean '%s'? Valid are: %s", best,
		    names.p);
	} else {
		areq_fail_field(q, odd, "unknown member; valid are: %s",
		    names.p ? names.p : "none");
	}
	sbuf_fini(&names);
	return false;
}

const char *areq_query(struct areq *q, const char *name)
{
	const char *v = httpd_query(q->http, name);

	return v && *v ? v : NULL;
}

bool areq_query_i64(struct areq *q, const char *name, int64_t min, int64_t max, int64_t dflt,
    int64_t *ret)
{
	const char *v = areq_query(q, name);

	*ret = dflt;
	if (!v || parse_i64(v, min, max, ret)) {
		return true;
	}
	areq_fail_field(q, name, "must be a whole number from %" PRId64 " to %" PRId64, min, max);
	return false;
}

bool areq_query_id(struct areq *q, const char *name, char letter, bool *ret_has, int64_t *ret)
{
	const char *v = areq_query(q, name);

	*ret = 0;
	*ret_has = v != NULL;
	if (!v || parse_id(v, letter, ret)) {
		return true;
	}
	areq_fail_field(q, name, "must be an id such as '%c12'", letter);
	return false;
}

/* RFC 3339, or a duration before now ("7d"). */
bool areq_query_time(struct areq *q, const char *name, int64_t dflt, int64_t *ret)
{
	const char *v = areq_query(q, name);
	int64_t ago;

	*ret = dflt;
	if (!v || parse_time_us(v, ret)) {
		return true;
	}
	if (parse_duration_us(v, &ago)) {
		*ret = q->now_us - ago;
		return true;
	}
	areq_fail_field(q, name,
	    "must be a time such as '2026-01-02T03:04:05Z' or a duration before now such as '7d'");
	return false;
}

bool areq_page(struct areq *q, int64_t dflt_after, int64_t *ret_after, int32_t *ret_limit)
{
	const char *cursor = areq_query(q, "cursor");
	int64_t limit;

	if (!areq_query_i64(q, "limit", 1, 1000, 100, &limit)) {
		return false;
	}
	*ret_limit = (int32_t)limit;
	*ret_after = dflt_after;
	if (!cursor || parse_i64(cursor, 0, INT64_MAX, ret_after)) {
		return true;
	}
	areq_fail_field(q, "cursor", "must be the 'next' of an earlier page of this list");
	return false;
}

bool areq_query_list(struct areq *q, const char *name, const char ***ret, size_t *ret_n)
{
	const char *v = areq_query(q, name);

	*ret_n = 0;
	*ret = arena_array(q->arena, LIST_MAX, sizeof(**ret));
	while (v && *v) {
		const char *end = strchrnul(v, ',');

		if (end == v || *ret_n == LIST_MAX || (*end && !end[1])) {
			areq_fail_field(q, name,
			    "must be a list of 1 to %d values separated by commas", LIST_MAX);
			return false;
		}
		(*ret)[(*ret_n)++] = arena_strndup(q->arena, v, (size_t)(end - v));
		v = *end ? end + 1 : end;
	}
	return true;
}
