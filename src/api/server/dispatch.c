/*
 * From an HTTP request to its handler: route, query parameters, who asks, Idempotency-Key. Unknown
 * paths, methods and query parameters are refused with what would be right.
 */
#include "base/base.h"
#include "api/server/api_priv.h"

#include <ctype.h>

/* ---- matching -------------------------------------------------------------------------------- */

/* Matches path against a pattern; {noun} segments are copied to args. */
static bool path_match(struct arena *a, const char *pattern, const char *path, const char **args)
{
	int n = 0;

	while (*pattern && *path) {
		if (*pattern == '{') {
			const char *end = strchrnul(path, '/');

			if (end == path || n >= ROUTE_ARGS) {
				return false;
			}
			if (a) {
				args[n] = arena_strndup(a, path, (size_t)(end - path));
			}
			n++;
			pattern = strchr(pattern, '}') + 1;
			path = end;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return !*pattern && !*path;
}

static const struct route *route_find(const char *method, const char *path, bool *ret_path_known)
{
	const struct route *found = NULL;

	*ret_path_known = false;
	for (size_t i = 0; i < api_routes_n && !found; i++) {
		if (!path_match(NULL, api_routes[i].path, path, NULL)) {
			continue;
		}
		*ret_path_known = true;
		if (strcmp(api_routes[i].method, method) == 0 ||
		    (strcmp(method, "HEAD") == 0 && strcmp(api_routes[i].method, "GET") == 0)) {
			found = &api_routes[i];
		}
	}
	return found;
}

size_t api_body_max(void *ctx UNUSED, const char *method, const char *path)
{
	bool known;
	const struct route *r = route_find(method, path, &known);

	/* An unknown path is refused later with words; its body is read and dropped within
	 * reason. */
	return r ? r->body_max : 64 * 1024;
}

static void refuse_path(struct areq *q, bool path_known)
{
	struct spot_err err = { 0 };
	struct sbuf allow;

	if (!path_known) {
		areq_fail(q, SPOT_NOT_FOUND, "there is no %s here; /v1/openapi.json lists what is",
		    q->http->path);
		return;
	}
	sbuf_init(&allow, 256);
	for (size_t i = 0; i < api_routes_n; i++) {
		if (path_match(NULL, api_routes[i].path, q->http->path, NULL)) {
			sbuf_printf(&allow, "%s%s", allow.n ? ", " : "", api_routes[i].method);
		}
	}
	httpd_set(q->http, "Allow", allow.p);
	err_set(&err, SPOT_INVALID, "%s is not served here, but: %s", q->http->method, allow.p);
	sbuf_fini(&allow);
	areq_problem(q, 405, &err, NULL);
}

/* ---- query parameters ------------------------------------------------------------------------ */

static bool word_in(const char *list, const char *word, size_t n)
{
	for (const char *p = list; p && *p;) {
		const char *end = strchrnul(p, ' ');

		if ((size_t)(end - p) == n && memcmp(p, word, n) == 0) {
			return true;
		}
		p = *end ? end + 1 : end;
	}
	return false;
}

static bool query_known(struct areq *q)
{
	const char *p = q->http->query;
	const char *seen[16], *value;
	size_t n = 0;

	while (*p) {
		const char *end = strchrnul(p, '&'), *eq = memchr(p, '=', (size_t)(end - p));
		size_t len = (size_t)((eq ? eq : end) - p);
		char *name = arena_strndup(q->arena, p, len);

		if (!word_in(q->route->query, p, len)) {
			areq_fail_field(q, name, "unknown query parameter; this route takes: %s",
			    *q->route->query ? q->route->query : "none");
			return false;
		}
		for (size_t i = 0; i < n; i++) {
			if (strcmp(seen[i], name) == 0) {
				areq_fail_field(q, name, "the query parameter is there twice");
				return false;
			}
		}
		seen[n++] = name;
		value = httpd_query(q->http, name);
		if (!value || !text_clean(value)) {
			areq_fail_field(q, name,
			    "the value is not properly percent-encoded UTF-8 text");
			return false;
		}
		p = *end ? end + 1 : end;
	}
	return true;
}

/* The letter of the first {noun} tells which ids it takes: "j12" or a bare number. */
static bool path_id(struct areq *q)
{
	const char *noun = strchr(q->route->path, '{');

	if (!noun || str_prefix(noun, "{file}")) {
		return true;
	}
	if (parse_id(q->arg[0], noun[1], &q->id)) {
		return true;
	}
	areq_fail(q, SPOT_NOT_FOUND, "%s is not an id; ids here look like %c12", q->arg[0],
	    noun[1]);
	return false;
}

/* ---- entry ----------------------------------------------------------------------------------- */

struct areq *areq_new(struct api *api, struct httpd_req *r)
{
	struct areq *q = arena_alloc(r->arena, sizeof(*q));

	q->api = api;
	q->http = r;
	q->arena = r->arena;
	q->now_us = r->received_us;
	q->next = api->reqs;
	if (q->next) {
		q->next->prev = q;
	}
	api->reqs = q;
	return q;
}

static void authorised(struct areq *q)
{
	if (query_known(q) && path_id(q)) {
		idem_begin(q);
	}
}

void api_handle(void *ctx, struct httpd_req *r)
{
	struct areq *q = areq_new(ctx, r);
	bool known;

	httpd_set(r, "Cache-Control", "no-store");
	httpd_set(r, "X-Content-Type-Options", "nosniff");
	q->route = route_find(r->method, r->path, &known);
	if (!q->route) {
		refuse_path(q, known);
		return;
	}
	path_match(q->arena, q->route->path, r->path, q->arg);
	auth_begin(q, authorised);
}
