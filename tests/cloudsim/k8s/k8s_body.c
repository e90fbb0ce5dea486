/*
 * The body of a request: strict decoding against the schema, with the causes and warnings that the
 * API server gives (Kubernetes API concepts, "Field validation").
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

char *k8s_version_text(struct k8s_call *q, const struct k8s_kind *kind)
{
	return *kind->group ? arena_printf(q->arena, "%s/%s", kind->group, kind->version)
			    : arena_strdup(q->arena, kind->version);
}

static bool reports_empty(const struct schema_report *r)
{
	return json_array_size(r->unknown) + json_array_size(r->types) +
	    json_array_size(r->missing) ==
	    0;
}

static void reports_free(struct schema_report *r)
{
	json_decref(r->unknown);
	json_decref(r->types);
	json_decref(r->missing);
}

static void fail_decoding(struct k8s_call *q, const char *kind, const struct schema_report *r)
{
	const char *text = "", *sep = "";
	size_t k;
	json_t *x;

	json_array_foreach (r->unknown, k, x) {
		text = arena_printf(q->arena, "%s%sunknown field \"%s\"", text, sep,
		    json_string_value(json_array_get(x, 0)));
		sep = ", ";
	}
	if (json_array_size(r->unknown) > 0) {
		text = arena_printf(q->arena, "strict decoding error: %s", text);
	} else {
		text = arena_printf(q->arena,
		    "json: cannot unmarshal into Go struct field %s.%s of type %s", kind,
		    json_string_value(json_array_get(json_array_get(r->types, 0), 0)),
		    json_string_value(json_array_get(json_array_get(r->types, 0), 1)));
	}
	k8s_fail(q, 400, "BadRequest", "%s in version \"%s\" cannot be handled as a %s: %s", kind,
	    q->kind ? q->kind->version : "v1", kind, text);
}

/* Members of the wrong type and missing ones; a custom resource's schema answers for both. */
static void schema_causes(const struct schema_report *r, json_t *causes)
{
	size_t k;
	json_t *x;

	json_array_foreach (r->types, k, x) {
		const char *path = json_string_value(json_array_get(x, 0)),
			   *type = json_string_value(json_array_get(x, 1));

		cause_add(causes, "FieldValueTypeInvalid", path,
		    "Invalid value: %s in body must be of type %s", path, type);
	}
	json_array_foreach (r->missing, k, x) {
		cause_add(causes, "FieldValueRequired", json_string_value(json_array_get(x, 0)),
		    "Required value");
	}
}

/* Unknown members are refused, told of, or only left out ("Field validation"). */
static void unknown_drop(struct k8s_call *q, const char *schema, json_t *doc,
    struct schema_report *r)
{
	const char *mode = k8s_query(q, "fieldValidation");
	size_t k;
	json_t *x;

	if (str_same(mode, "Strict") || json_array_size(r->unknown) == 0) {
		return;
	}
	json_array_foreach (r->unknown, k, x) {
		if (!str_same(mode, "Ignore")) {
			reply_header(q->rep, "Warning",
			    arena_printf(q->arena, "299 - \"unknown field \\\"%s\\\"\"",
				json_string_value(json_array_get(x, 0))));
		}
	}
	schema_prune(schema, doc);
	json_array_clear(r->unknown);
}

/* false: refused. */
bool k8s_shape_check(struct k8s_call *q, const char *schema, const char *kind, json_t *doc)
{
	struct schema_report r;
	bool custom = q->kind && q->kind->custom, ok = false;

	schema_check(schema, doc, &r);
	unknown_drop(q, schema, doc, &r);
	if (reports_empty(&r)) {
		ok = true;
	} else if (json_array_size(r.unknown) > 0 || (json_array_size(r.types) > 0 && !custom)) {
		fail_decoding(q, kind, &r);
	} else {
		json_t *causes = json_array();

		schema_causes(&r, causes);
		if (!q->name) {
			q->name = arena_strdup(q->arena, k_str(doc, "metadata.name"));
		}
		k8s_fail_with(q, 422, "Invalid", causes, NULL);
	}
	reports_free(&r);
	return ok;
}

static bool kind_check(struct k8s_call *q, const char *kind, const char *version)
{
	const char *had_kind = k_str(q->body, "kind"), *had = k_str(q->body, "apiVersion");

	if (q->kind && q->kind->custom && !had_kind) {
		k8s_fail(q, 400, "BadRequest", "Object 'Kind' is missing in the request body");
		return false;
	}
	if (had_kind && !str_same(had_kind, kind)) {
		k8s_fail(q, 400, "BadRequest",
		    "%s in version \"%s\" cannot be handled as a %s: converting (%s) to (%s): "
		    "unknown conversion",
		    had_kind, had ? had : "", kind, had_kind, kind);
		return false;
	}
	if (had && !str_same(had, version)) {
		k8s_fail(q, 400, "BadRequest",
		    "the API version in the data (%s) does not match the expected API version (%s)",
		    had, version);
		return false;
	}
	return true;
}

bool k8s_body(struct k8s_call *q, const char *schema, const char *kind, bool optional)
{
	struct spot_err err = { 0 };
	bool options = str_same(kind, "DeleteOptions");

	json_decref(q->body);
	q->body = NULL;
	if (q->rq->http->body.n == 0 && optional) {
		q->body = json_object();
		return true;
	}
	if (json_parse(q->rq->http->body, "request", &q->body, &err) != SPOT_OK ||
	    !json_is_object(q->body)) {
		k8s_fail(q, 400, "BadRequest", "%s in version \"%s\" cannot be handled as a %s: %s",
		    kind, q->kind ? q->kind->version : "v1", kind,
		    err.rc != SPOT_OK ? err.text : "expected an object");
		return false;
	}
	if (!options && !str_same(kind, "TokenRequest") && !str_same(kind, "Eviction") &&
	    !kind_check(q, kind, k8s_version_text(q, q->kind))) {
		return false;
	}
	if (!options && !str_same(q->sub, "status")) {
		json_object_del(q->body, "status"); /* the server's own; ignored from clients */
	}
	return k8s_shape_check(q, schema, kind, q->body);
}
