/* Requests of the Google port: which method, may it be called, how it is answered. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#include <stdarg.h>

#define BULK_PER_S 20

/* Parameters that every method takes (discovery document, "parameters"). */
static const char general_params[] =
    " alt $alt key access_token oauth_token fields prettyPrint $prettyPrint quotaUser userIp "
    "callback $.xgafv uploadType upload_protocol ";

struct gcp_req {
	const struct gcp_route *route;
	const char *arg[GCP_ARGS_MAX];
	const char *version;
	bool path_known; /* some method has this path, with another verb */
};

/* ---- routing --------------------------------------------------------------------------------- */

static bool segment_matches(struct sim_req *rq, struct gcp_req *q, size_t *args, struct str pat,
    struct str seg)
{
	char *text;

	if (pat.n == 3 && memcmp(pat.p, "{v}", 3) == 0) {
		q->version = arena_strndup(rq->arena, seg.p, seg.n);
		return str_same(q->version, "v1") || str_same(q->version, "beta");
	}
	if (pat.n < 2 || memcmp(pat.p, "{}", 2) != 0) {
		return pat.n == seg.n && memcmp(pat.p, seg.p, seg.n) == 0;
	}
	if (pat.n > 2) { /* "{}:verb" */
		if (seg.n <= pat.n - 2 ||
		    memcmp(seg.p + seg.n - (pat.n - 2), pat.p + 2, pat.n - 2) != 0) {
			return false;
		}
		seg.n -= pat.n - 2;
	}
	if (seg.n == 0 || *args == GCP_ARGS_MAX || !url_decode(rq->arena, seg, false, &text)) {
		return false;
	}
	q->arg[(*args)++] = text;
	return true;
}

static struct str next_segment(const char **p)
{
	const char *start = *p + 1, *end = strchrnul(start, '/');

	*p = end;
	return (struct str){ start, (size_t)(end - start) };
}

static bool path_matches(struct sim_req *rq, struct gcp_req *q, const char *pat)
{
	const char *path = rq->http->path;
	size_t args = 0;

	memset(q->arg, 0, sizeof(q->arg));
	while (*pat && *path) {
		struct str a = next_segment(&pat), b;

		if (a.n == 3 && memcmp(a.p, "{*}", 3) == 0) {
			char *text;

			if (!url_decode(rq->arena, str_from(path + 1), false, &text)) {
				return false;
			}
			q->arg[args] = text;
			return *text != '\0';
		}
		b = next_segment(&path);
		if (!segment_matches(rq, q, &args, a, b)) {
			return false;
		}
	}
	return !*pat && !*path;
}

/* Google's front ends take the verb of a POST from this header too. */
static const char *method_of(const struct sim_req *rq)
{
	const char *o = req_header(rq, "x-http-method-override");

	return o && *o && str_same(rq->http->method, "POST") ? o : rq->http->method;
}

/* Not a bucket's name: the paths of the APIs. */
static bool is_reserved(const char *path)
{
	static const char *const heads[] = { "/compute/", "/v1/", "/storage/", "/upload/",
		"/download/", "/oauth2/", "/token" };

	for (size_t k = 0; k < ARRAY_LEN(heads); k++) {
		if (str_prefix(path, heads[k])) {
			return true;
		}
	}
	return false;
}

void gcp_classify(struct sim_req *rq)
{
	struct gcp_req *q = arena_alloc(rq->arena, sizeof(*q));
	const char *method = method_of(rq);
	const struct gcp_route *r;

	rq->own = q;
	rq->account = GCP_PROJECT;
	for (r = gcp_routes; r->method; r++) {
		bool bucket = str_same(r->path, "/{*}");

		if ((bucket && (q->path_known || is_reserved(rq->http->path))) ||
		    !path_matches(rq, q, r->path)) {
			continue;
		}
		q->path_known = !bucket;
		rq->service = r->service;
		if (str_same(r->method, method)) {
			break;
		}
	}
	rq->service = r->method                       ? r->service
	    : rq->service                             ? rq->service
	    : str_prefix(rq->http->path, "/compute/") ? "compute"
						      : "storage";
	rq->action = r->action ? r->action : "unknown";
	q->route = r->method ? r : NULL;
	if (str_same(rq->service, "compute") && q->route && q->arg[1]) {
		rq->region = q->arg[1];
	}
}

/* ---- errors ---------------------------------------------------------------------------------- */

static const char *status_word(int status)
{
	switch (status) {
	case 400:
		return "INVALID_ARGUMENT";
	case 401:
		return "UNAUTHENTICATED";
	case 403:
		return "PERMISSION_DENIED";
	case 404:
		return "NOT_FOUND";
	case 409:
		return "ALREADY_EXISTS";
	case 412:
		return "FAILED_PRECONDITION";
	case 429:
		return "RESOURCE_EXHAUSTED";
	case 500:
		return "INTERNAL";
	case 503:
		return "UNAVAILABLE";
	default:
		return "UNKNOWN";
	}
}

static const char *domain_of(const char *reason)
{
	return str_same(reason, "rateLimitExceeded") || str_same(reason, "quotaExceeded")
	    ? "usageLimits"
	    : "global";
}

static void put_auth_details(json_t *e, int status, const char *code)
{
	const char *reason = str_same(code, "required") && status == 401 ? "CREDENTIALS_MISSING"
	    : str_same(code, "insufficientPermissions") ? "ACCESS_TOKEN_SCOPE_INSUFFICIENT"
	    : str_same(code, "authError")               ? "ACCESS_TOKEN_EXPIRED"
	    : str_same(code, "keyInvalid")              ? "API_KEY_INVALID"
							: NULL;

	if (reason) {
		json_object_set_new(e, "details",
		    json_pack("[{s:s, s:s, s:s}]", "@type",
			"type.googleapis.com/google.rpc.ErrorInfo", "reason", reason, "domain",
			"googleapis.com"));
	}
}

/* The names that faults without a code get in front.c, in Google's words. */
static const char *reason_of(int status, const char *code)
{
	if (!str_same(code, "InternalError") && !str_same(code, "TooManyRequestsException")) {
		return code;
	}
	return status == 429 ? "rateLimitExceeded"
	    : status == 403  ? "forbidden"
	    : status == 404  ? "notFound"
	    : status < 500   ? "badRequest"
			     : "backendError";
}

static void error_xml(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message)
{
	const char *text = arena_printf(rq->arena,
	    "<?xml version='1.0' "
	    "encoding='UTF-8'?><Error><Code>%s</Code><Message>%s</Message></Error>",
	    code, message);

	reply_set(rep, status, "application/xml; charset=UTF-8", text, strlen(text));
}

void gcp_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message)
{
	json_t *e;

	code = reason_of(status, code);
	rep->code = code;
	if (str_same(rq->service, "oauth2") || str_same(rq->service, "sts")) {
		reply_json(rq, rep, status,
		    json_pack("{s:s, s:s}", "error", code, "error_description", message));
		return;
	}
	if (str_same(rq->service, "storage") && str_prefix(rq->action, "xml.")) {
		error_xml(rq, rep, status, code, message);
		return;
	}
	e = json_pack("{s:i, s:s}", "code", status, "message", message);
	if (str_same(rq->service, "compute") || str_same(rq->service, "storage")) {
		json_t *one = json_pack("{s:s, s:s, s:s}", "message",
		    str_same(code, "authError") ? "Invalid Credentials" : message, "domain",
		    domain_of(code), "reason", code);

		if (status == 401) {
			json_object_update_new(one,
			    json_pack("{s:s, s:s}", "location", "Authorization", "locationType",
				"header"));
		}
		json_object_set_new(e, "errors", json_pack("[o]", one));
	}
	if (!str_same(rq->service, "storage") &&
	    (!str_same(rq->service, "compute") || status == 401 || status == 429 ||
		str_same(code, "insufficientPermissions") || str_same(code, "badRequest"))) {
		json_object_set_new(e, "status", json_string(status_word(status)));
	}
	put_auth_details(e, status, code);
	if (status == 401) {
		reply_header(rep, "WWW-Authenticate",
		    "Bearer realm=\"https://accounts.google.com/\", error=\"invalid_token\"");
	}
	reply_json(rq, rep, status, json_pack("{s:o}", "error", e));
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool params_known(struct gcp_call *c, const struct gcp_route *r)
{
	const char *q = c->rq->http->query ? c->rq->http->query : "";

	while (*q) {
		const char *end = strchrnul(q, '&'), *eq = memchr(q, '=', (size_t)(end - q));
		struct str raw = { q, (size_t)((eq ? eq : end) - q) };
		char *name = NULL;

		q = *end ? end + 1 : end;
		if (raw.n == 0) {
			continue;
		}
		/* "$alt=json;enum-encoding=int": the client library adds the part after the
		 * name. */
		if (!url_decode(c->a, raw, true, &name)) {
			gcp_fail(c, 400, "badRequest", "Invalid query string.");
			return false;
		}
		const char *spaced = arena_printf(c->a, " %s ", name);

		if (!strstr(general_params, spaced) &&
		    !strstr(arena_printf(c->a, " %s ", r->params), spaced)) {
			gcp_fail(c, 400, "badRequest",
			    "Invalid JSON payload received. Unknown name \"%s\": Cannot bind query "
			    "parameter. Field '%s' could not be found in request message.",
			    name, name);
			return false;
		}
	}
	return true;
}

static bool parse_body(struct gcp_call *c, const struct gcp_route *r)
{
	struct spot_err err = { 0 };

	if (!r->schema) {
		return true;
	}
	if (c->rq->http->body.n == 0) {
		c->body = json_object();
		return true;
	}
	if (json_parse(c->rq->http->body, "body", &c->body, &err) != SPOT_OK) {
		gcp_fail(c, 400, "badRequest",
		    "Invalid JSON payload received. Parsing terminated before end of input: %s",
		    err.text);
		return false;
	}
	return gcp_schema_check(c, r->schema, c->body);
}

/* Per project and group of methods, refilled at the full minute ("API rate quota"). A limit
 * per second holds for bulkInsert as well ("Troubleshoot bulk VM creation"). */
static bool within_rate(struct gcp_call *c, const char *group)
{
	int64_t minute = sim_wall(c->sim) / (60 * SPOT_US_PER_S);

	if (throttle_take(c->sim, arena_printf(c->a, "gcp|%s|%" PRId64, group, minute),
		(double)c->g->rate_per_min, 0, 1) &&
	    (!str_same(group, "bulk") ||
		throttle_take(c->sim, "gcp|bulk", BULK_PER_S, BULK_PER_S, 1))) {
		return true;
	}
	gcp_fail(c, 403, "rateLimitExceeded",
	    "Quota exceeded for quota metric '%s' and limit '%s per minute' of service "
	    "'%s.googleapis.com' for consumer 'project_number:" GCP_PROJECT_NUMBER "'.",
	    group, group, c->rq->service);
	return false;
}

static bool advice_hidden(const struct gcp_call *c)
{
	return str_prefix(c->rq->action, "advice.") && str_same(c->version, "v1") &&
	    !c->g->advice_v1;
}

static void no_such_method(struct gcp_call *c, const struct gcp_req *q)
{
	static const char page[] =
	    "<!DOCTYPE html>\n<html lang=en>\n<title>Error 404 (Not Found)!!1</title>\n"
	    "<p><b>404.</b> <ins>That's an error.</ins>\n";

	c->rep->code = "404";
	if (q->path_known) {
		gcp_fail(c, 404, "notFound", "Method not found.");
	} else {
		reply_set(c->rep, 404, "text/html; charset=UTF-8", page, sizeof(page) - 1);
	}
}

void gcp_serve(struct sim_req *rq, struct sim_reply *rep)
{
	struct gcp_req *q = rq->own;
	struct gcp_call call = { .rq = rq,
		.rep = rep,
		.sim = rq->sim,
		.g = rq->sim->gcp,
		.a = rq->arena,
		.version = q->version },
			*c = &call;
	const struct gcp_route *r = q->route;

	memcpy(c->arg, q->arg, sizeof(c->arg));
	if (!r || advice_hidden(c)) {
		no_such_method(c, q);
		return;
	}
	reply_header(rep, "Vary", "Origin, X-Origin, Referer");
	if ((r->group && !within_rate(c, r->group)) ||
	    (r->scopes && !gcp_authorize(c, r->scopes))) {
		return;
	}
	if (!str_same(rq->service, "storage") && !params_known(c, r)) {
		return;
	}
	if (str_same(rq->service, "compute") && !gcp_known_project(c)) {
		return;
	}
	if (parse_body(c, r)) {
		r->fn(c);
	}
	json_decref(c->body);
}
