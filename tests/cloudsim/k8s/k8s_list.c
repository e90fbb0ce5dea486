/*
 * Lists: label and field selectors, chunks with continue tokens, resource versions. After
 * "Retrieving large results sets in chunks" and "Resource versions" of the Kubernetes API concepts.
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <ctype.h>

/* ---- label selectors ------------------------------------------------------------------------- */

static char *text_trim(struct arena *a, const char *p, size_t n)
{
	while (n > 0 && isspace((unsigned char)*p)) {
		p++;
		n--;
	}
	while (n > 0 && isspace((unsigned char)p[n - 1])) {
		n--;
	}
	return arena_strndup(a, p, n);
}

/* Up to the next comma that is not in brackets. */
static const char *term_end(const char *p)
{
	int depth = 0;

	for (; *p && (depth > 0 || *p != ','); p++) {
		depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
	}
	return p;
}

static json_t *values_of(struct arena *a, const char *list)
{
	json_t *values = json_array();

	for (const char *p = list;; p = strchr(p, ',') + 1) {
		const char *end = strchrnul(p, ',');

		json_array_append_new(values, json_string(text_trim(a, p, (size_t)(end - p))));
		if (!*end) {
			return values;
		}
	}
}

static json_t *set_term(struct arena *a, const char *term, const char *word, const char *op)
{
	const char *at = strstr(term, word), *open = strchr(term, '('), *close = strrchr(term, ')');

	if (!at || !open || !close || open < at || close[1]) {
		return NULL;
	}
	return json_pack("{s:s, s:s, s:o}", "key", text_trim(a, term, (size_t)(at - term)), "op",
	    op, "values", values_of(a, arena_strndup(a, open + 1, (size_t)(close - open - 1))));
}

static json_t *label_term(struct arena *a, const char *term)
{
	static const char *const ops[] = { "!=", "==", "=", ">", "<" };
	json_t *t = set_term(a, term, " notin ", "notin");

	if (!t) {
		t = set_term(a, term, " in ", "in");
	}
	for (size_t k = 0; !t && k < ARRAY_LEN(ops); k++) {
		const char *at = strstr(term, ops[k]);

		if (at) {
			t = json_pack("{s:s, s:s, s:[s]}", "key",
			    text_trim(a, term, (size_t)(at - term)), "op",
			    k == 0      ? "notin"
				: k < 3 ? "in"
					: ops[k],
			    "values",
			    text_trim(a, at + strlen(ops[k]), strlen(at + strlen(ops[k]))));
		}
	}
	if (!t && *term == '!') {
		t = json_pack("{s:s, s:s}", "key", text_trim(a, term + 1, strlen(term + 1)), "op",
		    "!");
	}
	return t ? t : json_pack("{s:s, s:s}", "key", term, "op", "exists");
}

static json_t *labels_parse(struct k8s_call *q, const char *text)
{
	json_t *all = json_array(), *v;
	size_t k;

	for (const char *p = text; *p;) {
		const char *end = term_end(p);
		json_t *t = label_term(q->arena, text_trim(q->arena, p, (size_t)(end - p)));

		json_array_append_new(all, t);
		p = *end ? end + 1 : end;
		if (!k_label_name(k_str(t, "key"))) {
			k8s_fail(q, 400, "BadRequest",
			    "unable to parse requirement: <nil>: Invalid value: \"%s\": name part "
			    "must consist of alphanumeric characters, '-', '_' or '.'",
			    k_str(t, "key"));
			json_decref(all);
			return NULL;
		}
		json_array_foreach (json_object_get(t, "values"), k, v) {
			if (k_label_value(json_string_value(v))) {
				continue;
			}
			k8s_fail(q, 400, "BadRequest",
			    "unable to parse requirement: values[0][%s]: Invalid value: \"%s\": a "
			    "valid label must be an empty string or consist of alphanumeric "
			    "characters, '-', '_' or '.', and must start and end with an "
			    "alphanumeric character",
			    k_str(t, "key"), json_string_value(v));
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static bool has_value(const json_t *values, const char *v)
{
	size_t k;
	json_t *x;

	json_array_foreach (values, k, x) {
		if (v && str_same(json_string_value(x), v)) {
			return true;
		}
	}
	return false;
}

/* "key>5": both are integers. */
static bool term_compares(const json_t *term, const char *v)
{
	int64_t have, want;

	return v && parse_i64(v, INT64_MIN, INT64_MAX, &have) &&
	    parse_i64(json_string_value(json_array_get(json_object_get(term, "values"), 0)),
		INT64_MIN, INT64_MAX, &want) &&
	    (*k_str(term, "op") == '>' ? have > want : have < want);
}

static bool labels_match(const json_t *terms, const json_t *doc)
{
	const json_t *labels = k_at(doc, "metadata.labels");
	size_t k;
	json_t *t;

	json_array_foreach (terms, k, t) {
		const char *op = k_str(t, "op"),
			   *v = json_string_value(json_object_get(labels, k_str(t, "key")));
		bool in = has_value(json_object_get(t, "values"), v);

		if ((str_same(op, "in") && !in) || (str_same(op, "notin") && in) ||
		    (str_same(op, "exists") && !v) || (str_same(op, "!") && v) ||
		    (strchr("<>", *op) && !term_compares(t, v))) {
			return false;
		}
	}
	return true;
}

/* ---- field selectors ------------------------------------------------------------------------- */

static const struct {
	enum k8s_kind_id kind; /* K8S_KINDS: all */
	const char *path;
} fields_known[] = {
	{ K8S_KINDS, "metadata.name" },
	{ K8S_KINDS, "metadata.namespace" },
	{ K8S_POD, "spec.nodeName" },
	{ K8S_POD, "spec.restartPolicy" },
	{ K8S_POD, "spec.schedulerName" },
	{ K8S_POD, "spec.serviceAccountName" },
	{ K8S_POD, "spec.hostNetwork" },
	{ K8S_POD, "status.phase" },
	{ K8S_POD, "status.podIP" },
	{ K8S_POD, "status.nominatedNodeName" },
	{ K8S_NODE, "spec.unschedulable" },
	{ K8S_NAMESPACE, "status.phase" },
	{ K8S_EVENT, "involvedObject.kind" },
	{ K8S_EVENT, "involvedObject.namespace" },
	{ K8S_EVENT, "involvedObject.name" },
	{ K8S_EVENT, "involvedObject.uid" },
	{ K8S_EVENT, "involvedObject.apiVersion" },
	{ K8S_EVENT, "involvedObject.resourceVersion" },
	{ K8S_EVENT, "involvedObject.fieldPath" },
	{ K8S_EVENT, "reason" },
	{ K8S_EVENT, "reportingComponent" },
	{ K8S_EVENT, "source" },
	{ K8S_EVENT, "type" },
};

static bool field_known(const struct k8s_kind *kind, const char *path)
{
	for (size_t k = 0; k < ARRAY_LEN(fields_known); k++) {
		if ((fields_known[k].kind == K8S_KINDS || fields_known[k].kind == kind->id) &&
		    str_same(fields_known[k].path, path)) {
			return true;
		}
	}
	return false;
}

static json_t *fields_parse(struct k8s_call *q, const char *text)
{
	json_t *all = json_array();

	for (const char *p = text; *p;) {
		const char *end = strchrnul(p, ','), *at = memchr(p, '=', (size_t)(end - p));
		bool not = at && at > p && at[-1] == '!';
		const char *value = at && at[1] == '=' ? at + 2 : at + 1;
		char *key;

		if (!at) {
			k8s_fail(q, 400, "BadRequest",
			    "invalid selector: '%s'; can't understand '%.*s'", text, (int)(end - p),
			    p);
			json_decref(all);
			return NULL;
		}
		key = arena_strndup(q->arena, p, (size_t)(at - p) - (not ? 1 : 0));
		if (!field_known(q->kind, key)) {
			k8s_fail(q, 400, "BadRequest", "field label not supported: %s", key);
			json_decref(all);
			return NULL;
		}
		json_array_append_new(all,
		    json_pack("{s:s, s:b, s:o}", "path", key, "not", not, "value",
			json_stringn(value, (size_t)(end - value))));
		p = *end ? end + 1 : end;
	}
	return all;
}

static bool fields_match(const json_t *terms, const json_t *doc)
{
	size_t k;
	json_t *t;

	json_array_foreach (terms, k, t) {
		const json_t *v = k_at(doc, k_str(t, "path"));
		const char *have =
		    json_is_boolean(v) ? json_is_true(v) ? "true" : "false" : json_string_value(v);

		if (!v && strstr(k_str(t, "path"), "unschedulable")) {
			have = "false";
		}
		if (str_same(have ? have : "", k_str(t, "value")) ==
		    json_is_true(json_object_get(t, "not"))) {
			return false;
		}
	}
	return true;
}

bool k8s_selector_read(struct k8s_call *q, struct k8s_selector *ret, json_t **ret_owner)
{
	const char *labels = k8s_query(q, "labelSelector"), *fields = k8s_query(q, "fieldSelector");
	json_t *l = labels && *labels ? labels_parse(q, labels) : json_array(), *f = NULL;

	if (l) {
		f = fields && *fields ? fields_parse(q, fields) : json_array();
	}
	*ret_owner = json_pack("{s:o*, s:o*}", "l", l, "f", f);
	*ret = (struct k8s_selector){ .ns = q->ns, .labels = l, .fields = f, .name = q->name };
	if (l && f) {
		return true;
	}
	json_decref(*ret_owner);
	*ret_owner = NULL;
	return false;
}

bool k8s_selects(const struct k8s_selector *s, const struct k8s_kind *kind, const json_t *doc)
{
	if (kind->namespaced && s->ns && !str_same(s->ns, k_str(doc, "metadata.namespace"))) {
		return false;
	}
	if (s->name && !str_same(s->name, k_str(doc, "metadata.name"))) {
		return false;
	}
	return labels_match(s->labels, doc) && fields_match(s->fields, doc);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Items of a list of a built-in kind carry no kind and apiVersion; those of a custom one do. */
json_t *k8s_shown(const struct k8s_kind *kind, const json_t *doc, bool in_list)
{
	json_t *copy = json_copy((json_t *)(uintptr_t)doc);

	if (in_list && !kind->custom) {
		json_object_del(copy, "kind");
		json_object_del(copy, "apiVersion");
	}
	return copy;
}

static char *continue_make(struct k8s_call *q, const struct k8s_obj *last)
{
	char *text = arena_printf(q->arena,
	    "{\"v\":\"meta.k8s.io/v1\",\"rv\":%" PRIu64 ",\"start\":\"%s/%s\"}", q->c->rv,
	    last->ns ? last->ns : "", last->name);

	return base64_encode(q->arena, text, strlen(text));
}

/* Reads where a continued list goes on. Returns false if it is refused. */
static bool continue_read(struct k8s_call *q, const char *token, const char **ret_ns,
    const char **ret_name)
{
	struct spot_err err = { 0 };
	json_t *doc = NULL;
	struct str text;
	const char *start;

	if (!base64_decode(q->arena, token, strlen(token), &text) ||
	    json_parse(text, "continue", &doc, &err) != SPOT_OK) {
		k8s_fail(q, 400, "BadRequest", "continue key is not valid: %s", err.text);
		return false;
	}
	if ((uint64_t)k_int(doc, "rv", 0) < q->c->compacted) {
		k8s_fail(q, 410, "Expired",
		    "The provided continue parameter is too old to display a consistent list "
		    "result. You can start a new list without the continue parameter, or use the "
		    "continue token in this response to retrieve the remainder of the results. "
		    "Continuing with the provided token results in an inconsistent list - objects "
		    "that were created, modified, or deleted between the time the first chunk was "
		    "returned and now may show up in the list.");
		json_decref(doc);
		return false;
	}
	start = arena_strdup(q->arena, k_str(doc, "start") ? k_str(doc, "start") : "/");
	json_decref(doc);
	*ret_ns = arena_strndup(q->arena, start, (size_t)(strchrnul(start, '/') - start));
	*ret_name = strchr(start, '/') ? strchr(start, '/') + 1 : "";
	return true;
}

static bool is_behind(const struct k8s_obj *o, const char *ns, const char *name)
{
	int c = strcmp(o->ns ? o->ns : "", ns);

	return c > 0 || (c == 0 && strcmp(o->name, name) > 0);
}

static bool match_check(struct k8s_call *q, bool rv)
{
	static const struct k8s_kind options = { .group = "meta.k8s.io",
		.kind = "ListOptions",
		.plural = "ListOptions" };
	const char *match = k8s_query(q, "resourceVersionMatch");
	json_t *causes;

	if (!match || !*match ||
	    (rv && (str_same(match, "Exact") || str_same(match, "NotOlderThan")))) {
		return true;
	}
	causes = json_array();
	if (rv) {
		cause_add(causes, "FieldValueNotSupported", "resourceVersionMatch",
		    "Unsupported value: \"%s\": supported values: \"Exact\", \"NotOlderThan\", "
		    "\"\"",
		    match);
	} else {
		cause_add(causes, "FieldValueForbidden", "resourceVersionMatch",
		    "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is "
		    "provided");
	}
	q->kind = &options;
	k8s_fail_with(q, 422, "Invalid", causes, NULL);
	return false;
}

/* A version that is not there yet: the server waits for it a while, then gives up. */
static bool newest_check(struct k8s_call *q, int64_t rv)
{
	json_t *causes;

	if ((uint64_t)rv <= q->c->rv) {
		return true;
	}
	causes = json_pack("[{s:s, s:s}]", "reason", "ResourceVersionTooLarge", "message",
	    "Too large resource version");
	k8s_fail_with(q, 504, "Timeout", causes,
	    arena_printf(q->arena,
		"Timeout: Too large resource version: %" PRId64 ", current: %" PRIu64, rv,
		q->c->rv));
	return false;
}

static bool limit_read(struct k8s_call *q, int64_t *ret)
{
	const char *limit = k8s_query(q, "limit"), *rv = k8s_query(q, "resourceVersion");
	int64_t v = 0;

	*ret = 0;
	if (limit && *limit && !parse_i64(limit, INT64_MIN, INT64_MAX, ret)) {
		k8s_fail(q, 400, "BadRequest", "strconv.ParseInt: parsing \"%s\": invalid syntax",
		    limit);
		return false;
	}
	*ret = MAX(*ret, 0);
	if (rv && *rv && !parse_i64(rv, 0, INT64_MAX, &v)) {
		k8s_fail(q, 400, "BadRequest",
		    "invalid resource version: resourceVersion: Invalid value: \"%s\": "
		    "strconv.ParseUint: parsing \"%s\": "
		    "invalid syntax",
		    rv, rv);
		return false;
	}
	return match_check(q, rv && *rv) && newest_check(q, v);
}

static json_t *list_json(struct k8s_call *q, json_t *items, const char *next, int64_t left)
{
	json_t *meta = json_pack("{s:o}", "resourceVersion", json_sprintf("%" PRIu64, q->c->rv));
	const struct k8s_kind *kind = q->kind;

	if (next) {
		k_set(meta, "continue", next);
		if (!*(k8s_query(q, "labelSelector") ? k8s_query(q, "labelSelector") : "") &&
		    !*(k8s_query(q, "fieldSelector") ? k8s_query(q, "fieldSelector") : "")) {
			json_object_set_new(meta, "remainingItemCount", json_integer(left));
		}
	}
	return json_pack("{s:o, s:o, s:o, s:o}", "kind", json_sprintf("%sList", kind->kind),
	    "apiVersion",
	    *kind->group ? json_sprintf("%s/%s", kind->group, kind->version)
			 : json_string(kind->version),
	    "metadata", meta, "items", items);
}

void k8s_list(struct k8s_call *q)
{
	const char *token = k8s_query(q, "continue"), *ns = "", *name = "", *next = NULL;
	struct k8s_obj *last = NULL;
	struct k8s_selector sel;
	json_t *owner, *items;
	int64_t limit, left = 0;

	if (!limit_read(q, &limit) || !k8s_selector_read(q, &sel, &owner)) {
		return;
	}
	if (token && *token && !continue_read(q, token, &ns, &name)) {
		json_decref(owner);
		return;
	}
	items = json_array();
	for (struct k8s_obj *o = q->c->objs[q->kind->id]; o; o = o->next) {
		if ((*name && !is_behind(o, ns, name)) || !k8s_selects(&sel, q->kind, o->doc)) {
			continue;
		}
		if (limit && (int64_t)json_array_size(items) == limit) {
			left++;
			continue;
		}
		json_array_append_new(items, k8s_shown(q->kind, o->doc, true));
		last = o;
	}
	if (left > 0) {
		next = continue_make(q, last);
	}
	k8s_reply(q, 200, list_json(q, items, next, left));
	json_decref(owner);
}
