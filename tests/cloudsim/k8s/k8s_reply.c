/* An API server's replies: query parameters, documents and Status objects. */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

#include <stdarg.h>

const char *k8s_query(struct k8s_call *q, const char *name)
{
	return httpd_query(q->rq->http, name);
}

bool k8s_query_true(struct k8s_call *q, const char *name)
{
	const char *v = k8s_query(q, name);

	return v && (str_same(v, "1") || str_same(v, "true") || str_same(v, "True"));
}

void k8s_reply(struct k8s_call *q, int status, json_t *doc)
{
	char *text = json_text(q->arena, doc);

	json_decref(doc);
	reply_set(q->rep, status, "application/json", text, strlen(text));
	reply_header(q->rep, "Audit-Id", q->rq->request_id);
	reply_header(q->rep, "Cache-Control", "no-cache, private");
}

const char *k8s_resource_text(struct k8s_call *q)
{
	if (!q->kind) {
		return "resource";
	}
	return *q->kind->group ? arena_printf(q->arena, "%s.%s", q->kind->plural, q->kind->group)
			       : q->kind->plural;
}

static json_t *details_json(struct k8s_call *q, const char *reason, json_t *causes)
{
	json_t *d = json_object();

	/* An Invalid names the kind, all others the resource; an error of the request itself has
	 * none. */
	if (q && q->kind && !str_same(reason, "BadRequest") &&
	    !str_same(reason, "MethodNotAllowed") && !str_same(reason, "UnsupportedMediaType") &&
	    !str_same(reason, "NotAcceptable")) {
		k_set(d, "name", q->name);
		k_set(d, "group", *q->kind->group ? q->kind->group : NULL);
		k_set(d, "kind", str_same(reason, "Invalid") ? q->kind->kind : q->kind->plural);
	}
	if (causes) {
		json_object_set_new(d, "causes", causes);
	}
	if (str_same(reason, "Timeout") || str_same(reason, "TooManyRequests") ||
	    str_same(reason, "ServerTimeout")) {
		json_object_set_new(d, "retryAfterSeconds", json_integer(1));
	}
	return d;
}

json_t *k8s_status_json(struct k8s_call *q, int status, const char *reason, const char *message,
    json_t *causes)
{
	json_t *doc = json_pack("{s:s, s:s, s:{}, s:s, s:s, s:s*}", "kind", "Status", "apiVersion",
	    "v1", "metadata", "status", "Failure", "message", message, "reason",
	    *reason ? reason : NULL);
	json_t *d = details_json(q, reason, causes);

	if (json_object_size(d) > 0) {
		json_object_set(doc, "details", d);
	}
	json_decref(d);
	json_object_set_new(doc, "code", json_integer(status));
	return doc;
}

static const char *invalid_message(struct k8s_call *q, const json_t *causes)
{
	const char *text = "", *sep = "";
	size_t k;
	json_t *c;

	json_array_foreach (causes, k, c) {
		text = arena_printf(q->arena, "%s%s%s: %s", text, sep, k_str(c, "field"),
		    k_str(c, "message"));
		sep = ", ";
	}
	if (json_array_size(causes) > 1) {
		text = arena_printf(q->arena, "[%s]", text);
	}
	return arena_printf(q->arena, "%s%s%s \"%s\" is invalid: %s", q->kind ? q->kind->kind : "",
	    q->kind && *q->kind->group ? "." : "", q->kind ? q->kind->group : "",
	    q->name ? q->name : "", text);
}

void k8s_fail_with(struct k8s_call *q, int status, const char *reason, json_t *causes,
    const char *message)
{
	if (!message) {
		message = invalid_message(q, causes);
	}
	q->rep->headers_n = 0;
	q->rep->code = arena_strdup(q->arena, reason);
	k8s_reply(q, status, k8s_status_json(q, status, reason, message, causes));
}

void k8s_fail(struct k8s_call *q, int status, const char *reason, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	k8s_fail_with(q, status, reason, NULL, text);
}

void k8s_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *reason,
    const char *message)
{
	struct k8s_call *q = rq->own;

	q->rep = rep;
	if (status == 429) {
		reply_header(rep, "Retry-After", "1");
	}
	k8s_reply(q, status, k8s_status_json(q, status, reason, message, NULL));
}

void cause_add(json_t *causes, const char *reason, const char *field, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_array_append_new(causes,
	    json_pack("{s:s, s:s, s:s}", "reason", reason, "message", text, "field", field));
}
