/*
 * From an HTTP request to its handler: route, query parameters, who asks, Idempotency-Key. Unknown
 * paths, methods and query parameters are refused with what would be right.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#include "base/text/text.h"

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

/* Sets *ret_at to the index of the route; false: no route has this method and path. */
static bool route_find(const struct routes *routes, const char *method, const char *path,
    size_t *ret_at, bool *ret_path_known)
{
	*ret_path_known = false;
	for (size_t i = 0; i < routes->n; i++) {
		const struct route *r = routes->rows[i];

		if (!path_match(NULL, r->path, path, NULL)) {
			continue;
		}
		*ret_path_known = true;
		if (strcmp(r->method, method) == 0 ||
		    (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0)) {
			*ret_at = i;
			return true;
		}
	}
	return false;
}

size_t api_body_max(void *ctx, const char *method, const char *path)
{
	const struct api *api = ctx;
	bool known;
	size_t at;

	if (route_find(&api->routes, method, path, &at, &known)) {
		return api->routes.rows[at]->body_max;
	}
	/* The body of an unknown path is read and dropped; then refuse_path replies. */
	return ROUTE_BODY_SMALL;
}

static void refuse_path(struct areq *q, bool path_known)
{
	const struct routes *routes = &q->api->routes;
	struct spot_err err = { 0 };
	struct sbuf allow;

	if (!path_known) {
		areq_fail(q, SPOT_NOT_FOUND, "no route '%s'; /v1/openapi.json lists the routes",
		    q->http->path);
		return;
	}
	sbuf_init(&allow, 256);
	for (size_t i = 0; i < routes->n; i++) {
		if (path_match(NULL, routes->rows[i]->path, q->http->path, NULL)) {
			sbuf_printf(&allow, "%s%s", allow.n ? ", " : "", routes->rows[i]->method);
		}
	}
	httpd_set(q->http, "Allow", allow.p);
	err_set(&err, SPOT_INVALID, "method '%s' is not allowed here; use %s", q->http->method,
	    allow.p);
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

static void refuse_query(struct areq *q, const char *name)
{
	const char *list = *q->route->query ? q->route->query : "none", *best = NULL;
	int least = NEAR_LEAST;

	for (const char *p = q->route->query; *p;) {
		const char *end = strchrnul(p, ' ');

		best =
		    near_better(name, arena_strndup(q->arena, p, (size_t)(end - p)), best, &least);
		p = *end ? end + 1 : end;
	}
	if (best) {
		areq_fail_field(q, name,
		    "unknown query parameter; did you mean '%s'? This route accepts: %s", best,
		    list);
	} else {
		areq_fail_field(q, name, "unknown query parameter; this route accepts: %s", list);
	}
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
			refuse_query(q, name);
			return false;
		}
		for (size_t i = 0; i < n; i++) {
			if (strcmp(seen[i], name) == 0) {
				areq_fail_field(q, name, "query parameter '%s' given twice", name);
				return false;
			}
		}
		seen[n++] = name;
		value = httpd_query(q->http, name);
		if (!value || !text_clean(value)) {
			areq_fail_field(q, name, "the value must be percent-encoded UTF-8 text");
			return false;
		}
		p = *end ? end + 1 : end;
	}
	return true;
}

static void fleet_named(struct areq *q)
{
	struct q_api_fleet_named_row *row;

	if (q_api_fleet_named_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND,
		    "no fleet '%s'; 'spotctl fleet ls' lists names and ids", q->arg[0]);
		return;
	}
	q->id = row->id;
	if (!share_begin(q)) {
		idem_begin(q);
	}
}

/* The letter of the first {noun} tells which ids it takes: "j12" or a bare number. A fleet has a
 * name, too, which no id looks like. */
static bool path_id(struct areq *q)
{
	const char *noun = strchr(q->route->path, '{');

	if (!noun || str_prefix(noun, "{file}")) {
		return true;
	}
	if (parse_id(q->arg[0], noun[1], &q->id)) {
		return true;
	}
	if (str_prefix(noun, "{fleet}")) {
		SQL(q, api_fleet_named, fleet_named, .name = q->arg[0]);
		return false;
	}
	areq_fail(q, SPOT_NOT_FOUND, "'%s' is not a valid id; an id of this kind looks like '%c12'",
	    q->arg[0], noun[1]);
	return false;
}

/* ---- entry ----------------------------------------------------------------------------------- */

static void request_authorised(struct areq *q)
{
	if (!query_known(q) || !path_id(q) || share_begin(q)) {
		return;
	}
	idem_begin(q);
}

void api_handle(void *ctx, struct httpd_req *r)
{
	struct areq *q = areq_new(ctx, r);
	bool known, path_known;

	known = route_find(&q->api->routes, r->method, r->path, &q->route_at, &path_known);
	q->route = known ? q->api->routes.rows[q->route_at] : NULL;
	httpd_set(r, "Cache-Control", known && q->route->shared ? "private, no-cache" : "no-store");
	if (!known) {
		refuse_path(q, path_known);
		return;
	}
	path_match(q->arena, q->route->path, r->path, q->arg);
	auth_begin(q, request_authorised);
}
