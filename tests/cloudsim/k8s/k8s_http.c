/* An API server's requests: path and verb, permission, and the handler of each. */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

/* ---- classification -------------------------------------------------------------------------- */

static const struct k8s_kind *kind_of(const struct k8s_cluster *c, const char *group,
    const char *version, const char *plural)
{
	for (size_t k = 0; k < K8S_KINDS; k++) {
		if (str_same(k8s_kinds[k].plural, plural) && str_same(k8s_kinds[k].group, group) &&
		    str_same(k8s_kinds[k].version, version) && (k != K8S_NODE_POOL || c->zone)) {
			return &k8s_kinds[k];
		}
	}
	return NULL;
}

static size_t path_split(struct arena *a, const char *path, const char **part, size_t max)
{
	size_t n = 0;

	while (*path == '/' && n < max) {
		const char *end = strchrnul(path + 1, '/');
		char *text;

		if (!url_decode(a, (struct str){ path + 1, (size_t)(end - path - 1) }, false,
			&text)) {
			text = arena_strdup(a, "");
		}
		part[n++] = text;
		path = end;
	}
	return n;
}

/* "/api/v1/namespaces/x/pods/y/log", "/apis/compute.coreweave.com/v1alpha1/nodepools/z". */
static void path_read(struct k8s_call *q)
{
	const char *part[10] = { 0 }, *group = "", *version;
	size_t n = path_split(q->arena, q->rq->http->path, part, ARRAY_LEN(part)), at;

	if (n >= 3 && str_same(part[0], "api")) {
		version = part[1];
		at = 2;
	} else if (n >= 4 && str_same(part[0], "apis")) {
		group = part[1];
		version = part[2];
		at = 3;
	} else {
		return;
	}
	if (str_same(part[at], "namespaces") && n > at + 2 && *part[at + 2]) {
		q->ns = part[at + 1];
		at += 2;
	}
	q->kind = kind_of(q->c, group, version, part[at]);
	q->name = n > at + 1 && *part[at + 1] ? part[at + 1] : NULL;
	q->sub = n > at + 2 ? part[at + 2] : NULL;
	if (n > at + 3 || (q->ns && q->kind && !q->kind->namespaced)) {
		q->kind = NULL;
	}
}

static void verb_read(struct k8s_call *q)
{
	const char *m = q->rq->http->method;

	q->watch = str_same(m, "GET") && !q->name && k8s_query_true(q, "watch");
	q->verb = str_same(m, "POST") ? "create"
	    : str_same(m, "PUT")      ? "update"
	    : str_same(m, "PATCH")    ? "patch"
	    : str_same(m, "DELETE")   ? q->name ? "delete" : "deletecollection"
	    : q->watch                ? "watch"
	    : q->name || !q->kind     ? "get"
				      : "list";
}

void k8s_classify(struct sim_req *rq)
{
	struct k8s_call *q = arena_alloc(rq->arena, sizeof(*q));
	struct k8s_port *p = container_of(rq->port, struct k8s_port, front);

	*q = (struct k8s_call){ .rq = rq, .arena = rq->arena, .c = p->c };
	rq->own = q;
	rq->service = "k8s";
	rq->region = p->c->zone ? p->c->zone : p->c->name;
	path_read(q);
	verb_read(q);
	rq->action = q->kind
	    ? arena_printf(rq->arena, "%s %s%s%s", q->watch ? "WATCH" : rq->http->method,
		  q->kind->plural, q->sub ? "/" : "", q->sub ? q->sub : "")
	    : arena_printf(rq->arena, "%s %s", rq->http->method, rq->http->path);
}

/* ---- serving --------------------------------------------------------------------------------- */

static bool media_check(struct k8s_call *q)
{
	const char *accept = req_header(q->rq, "accept"), *type = req_header(q->rq, "content-type");

	if (accept && !strstr(accept, "json") && !strstr(accept, "*/*") &&
	    !strstr(accept, "application/*")) {
		k8s_fail(q, 406, "NotAcceptable",
		    "only the following media types are accepted: application/json, "
		    "application/yaml, application/vnd.kubernetes.protobuf");
		return false;
	}
	if (q->rq->http->body.n > 0 && !str_same(q->rq->http->method, "PATCH") && type &&
	    !str_prefix(type, "application/json")) {
		k8s_fail(q, 415, "UnsupportedMediaType",
		    "the body of the request was in an unknown format - accepted media types "
		    "include: application/json, application/yaml, "
		    "application/vnd.kubernetes.protobuf");
		return false;
	}
	return true;
}

static void get_one(struct k8s_call *q)
{
	struct k8s_obj *o = k8s_find(q->c, q->kind->id, q->ns, q->name);

	if (!o) {
		k8s_fail(q, 404, "NotFound", "%s \"%s\" not found", k8s_resource_text(q), q->name);
	} else if (q->sub && q->kind->id == K8S_POD && str_same(q->sub, "log")) {
		kubelet_log(q, o);
	} else {
		k8s_reply(q, 200, json_incref(o->doc));
	}
}

static void serve_sub(struct k8s_call *q)
{
	bool get = str_same(q->rq->http->method, "GET");

	if (q->kind->id == K8S_SERVICE_ACCOUNT && str_same(q->sub, "token") &&
	    str_same(q->verb, "create")) {
		token_request(q);
	} else if (q->kind->id == K8S_POD && str_same(q->sub, "log") && get) {
		get_one(q);
	} else if (q->kind->id == K8S_POD && str_same(q->sub, "eviction") &&
	    str_same(q->verb, "create")) {
		k8s_evict(q);
	} else if (str_same(q->sub, "status") && get) {
		get_one(q);
	} else if (str_same(q->sub, "status") &&
	    (str_same(q->verb, "patch") || str_same(q->verb, "update"))) {
		k8s_update(q);
	} else {
		k8s_fail(q, 404, "NotFound", "the server could not find the requested resource");
	}
}

static void call_dispatch(struct k8s_call *q)
{
	static const struct {
		const char *verb;
		void (*fn)(struct k8s_call *);
	} verbs[] = { { "get", get_one }, { "list", k8s_list }, { "watch", k8s_watch_start },
		{ "create", k8s_create }, { "update", k8s_update }, { "patch", k8s_update },
		{ "delete", k8s_delete }, { "deletecollection", k8s_delete_all } };

	if (q->sub) {
		serve_sub(q);
		return;
	}
	for (size_t k = 0; k < ARRAY_LEN(verbs); k++) {
		if (!str_same(verbs[k].verb, q->verb)) {
			continue;
		}
		if (!strstr(q->kind->verbs, q->verb) || (q->name && str_same(q->verb, "create")) ||
		    (!q->name && (str_same(q->verb, "patch") || str_same(q->verb, "update")))) {
			break;
		}
		verbs[k].fn(q);
		return;
	}
	k8s_fail(q, 405, "MethodNotAllowed",
	    "the server does not allow this method on the requested resource");
}

static bool is_public(const char *path)
{
	static const char *const paths[] = { "/version", "/healthz", "/livez", "/readyz",
		"/.well-known/openid-configuration", "/openid/v1/jwks" };

	for (size_t k = 0; k < ARRAY_LEN(paths); k++) {
		if (str_same(paths[k], path)) {
			return true;
		}
	}
	return false;
}

/* The query is decoded into an options object of the verb, and that object is invalid then. */
static void options_fail(struct k8s_call *q, const char *field, const char *value,
    const char *supported)
{
	const char *kind = str_same(q->verb, "create") ? "CreateOptions"
	    : str_same(q->verb, "patch")               ? "PatchOptions"
	    : str_same(q->verb, "update")              ? "UpdateOptions"
						       : "DeleteOptions";
	const struct k8s_kind options = { .group = "meta.k8s.io", .kind = kind, .plural = kind };
	json_t *causes = json_array();

	cause_add(causes, "FieldValueNotSupported", field,
	    "Unsupported value: %s: supported values: %s", value, supported);
	q->kind = &options;
	q->name = NULL;
	k8s_fail_with(q, 422, "Invalid", causes, NULL);
}

void k8s_serve(struct sim_req *rq, struct sim_reply *rep)
{
	/* A copy: a fault may have the same request served twice. */
	struct k8s_call *q = arena_alloc(rq->arena, sizeof(*q));
	const char *dry = httpd_query(rq->http, "dryRun"),
		   *strict = httpd_query(rq->http, "fieldValidation");

	*q = *(struct k8s_call *)rq->own;
	q->rep = rep;
	if (!media_check(q)) {
		return;
	}
	if (!is_public(rq->http->path) && !k8s_authenticate(q)) {
		return;
	}
	if (!q->kind) {
		if (str_prefix(rq->http->path, "/api/v1/") && !k8s_discovery(q)) {
			k8s_fail(q, 404, "NotFound",
			    "the server could not find the requested resource");
		} else if (!str_prefix(rq->http->path, "/api/v1/") && !k8s_discovery(q)) {
			reply_set(rep, 404, "text/plain; charset=utf-8", "404 page not found\n",
			    19);
		}
		return;
	}
	if (!k8s_authorize(q)) {
		return;
	}
	if (dry && *dry && !str_same(dry, "All")) {
		options_fail(q, "dryRun", arena_printf(q->arena, "[\"%s\"]", dry), "\"All\"");
		return;
	}
	if (strict && *strict && !str_same(strict, "Strict") && !str_same(strict, "Warn") &&
	    !str_same(strict, "Ignore")) {
		options_fail(q, "fieldValidation", arena_printf(q->arena, "\"%s\"", strict),
		    "\"\", \"Ignore\", \"Strict\", \"Warn\"");
		return;
	}
	q->dry_run = (dry && *dry) || rq->sim->pretend;
	if (q->kind->namespaced && !q->ns && !str_same(q->verb, "list") &&
	    !str_same(q->verb, "watch")) {
		k8s_fail(q, 405, "MethodNotAllowed",
		    "the server does not allow this method on the requested resource");
	} else {
		call_dispatch(q);
	}
	json_decref(q->body);
	q->body = NULL;
}
