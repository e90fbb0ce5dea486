/* The patch formats: JSON merge patch (RFC 7386), JSON patch (RFC 6902), and strategic merge patch
 * for built-in kinds, which merges lists by a key. */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

/* ---- merge ----------------------------------------------------------------------------------- */

/* Lists that merge by the named member (patchMergeKey of the API's types). */
static const struct {
	const char *list, *key;
} merge_keys[] = { { "containers", "name" }, { "initContainers", "name" }, { "conditions", "type" },
	{ "env", "name" }, { "volumes", "name" }, { "volumeMounts", "mountPath" },
	{ "taints", "key" }, { "addresses", "type" }, { "imagePullSecrets", "name" },
	{ "hostAliases", "ip" } };

static const char *merge_key(const char *list)
{
	for (size_t k = 0; k < ARRAY_LEN(merge_keys); k++) {
		if (str_same(merge_keys[k].list, list)) {
			return merge_keys[k].key;
		}
	}
	return NULL;
}

static void patch_merge(json_t *target, const json_t *patch, bool strategic);

static json_t *same_item(const json_t *list, const char *key, const json_t *item, size_t *ret_at)
{
	size_t k;
	json_t *x;

	json_array_foreach (list, k, x) {
		if (json_object_get(x, key) &&
		    json_equal(json_object_get(x, key), json_object_get(item, key))) {
			*ret_at = k;
			return x;
		}
	}
	return NULL;
}

static void merge_list(json_t *target, const json_t *patch, const char *key)
{
	size_t k, at = 0;
	json_t *x;

	json_array_foreach (patch, k, x) {
		json_t *had = same_item(target, key, x, &at);

		if (str_same(k_str(x, "$patch"), "delete")) {
			if (had) {
				json_array_remove(target, at);
			}
		} else if (had) {
			patch_merge(had, x, true);
		} else {
			json_array_append_new(target, json_deep_copy(x));
		}
	}
}

static void merge_finalizers(json_t *target, const json_t *patch)
{
	size_t k, i;
	json_t *x, *y;

	json_array_foreach (patch, k, x) {
		bool had = false;

		json_array_foreach (target, i, y) {
			had = had || json_equal(x, y);
		}
		if (!had) {
			json_array_append(target, x);
		}
	}
}

static void patch_merge(json_t *target, const json_t *patch, bool strategic)
{
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)patch, key, v) {
		json_t *had = json_object_get(target, key);

		if (json_is_null(v)) {
			json_object_del(target, key);
		} else if (json_is_object(v)) {
			if (!json_is_object(had)) {
				had = json_object();
				json_object_set_new(target, key, had);
			}
			patch_merge(had, v, strategic);
		} else if (strategic && json_is_array(v) && json_is_array(had) && merge_key(key)) {
			merge_list(had, v, merge_key(key));
		} else if (strategic && str_same(key, "finalizers") && json_is_array(had)) {
			merge_finalizers(had, v);
		} else {
			json_object_set_new(target, key, json_deep_copy(v));
		}
	}
}

/* ---- JSON patch ------------------------------------------------------------------------------ */

/* The container of the place, and the last part of the pointer, unescaped. */
static json_t *pointer_follow(struct arena *a, json_t *doc, const char *pointer, char **ret_last)
{
	*ret_last = NULL;
	if (*pointer != '/') {
		return NULL;
	}
	for (const char *p = pointer + 1;; p = strchr(p, '/') + 1) {
		const char *end = strchrnul(p, '/');
		char *part = arena_strndup(a, p, (size_t)(end - p)), *w = part;
		int64_t at;

		for (char *r = part; *r; r++) {
			*w++ = r[0] == '~' && r[1] == '1' ? '/'
			    : r[0] == '~' && r[1] == '0'  ? '~'
							  : *r;
			if (r[0] == '~' && (r[1] == '0' || r[1] == '1')) {
				r++;
			}
		}
		*w = '\0';
		if (!*end) {
			*ret_last = part;
			return doc;
		}
		if (json_is_array(doc)) {
			doc = parse_i64(part, 0, INT32_MAX, &at) ? json_array_get(doc, (size_t)at)
								 : NULL;
		} else {
			doc = json_object_get(doc, part);
		}
		if (!doc) {
			return NULL;
		}
	}
}

static bool apply_to_list(json_t *in, const char *last, const char *op, json_t *value)
{
	int64_t at = (int64_t)json_array_size(in);

	if (!str_same(last, "-") && !parse_i64(last, 0, (int64_t)json_array_size(in), &at)) {
		return false;
	}
	if (str_same(op, "add")) {
		return json_array_insert(in, (size_t)at, value) == 0;
	}
	if ((size_t)at >= json_array_size(in)) {
		return false;
	}
	if (str_same(op, "remove")) {
		return json_array_remove(in, (size_t)at) == 0;
	}
	if (str_same(op, "replace")) {
		return json_array_set(in, (size_t)at, value) == 0;
	}
	return str_same(op, "test") && json_equal(json_array_get(in, (size_t)at), value);
}

static bool apply_one(struct arena *a, json_t *doc, const json_t *step);

/* "copy" and "move" are made of the others. */
static bool apply_from(struct arena *a, json_t *doc, const json_t *step, bool move)
{
	const char *from = k_str(step, "from");
	char *last;
	json_t *in = from ? pointer_follow(a, doc, from, &last) : NULL, *had = NULL, *next;
	int64_t at;
	bool ok;

	if (json_is_array(in)) {
		had = parse_i64(last, 0, INT32_MAX, &at) ? json_array_get(in, (size_t)at) : NULL;
	} else if (in) {
		had = json_object_get(in, last);
	}
	if (!had) {
		return false;
	}
	had = json_deep_copy(had);
	next = json_pack("{s:s, s:s}", "op", "remove", "path", from);
	ok = !move || apply_one(a, doc, next);
	json_decref(next);
	next = json_pack("{s:s, s:s, s:o}", "op", "add", "path", k_str(step, "path"), "value", had);
	ok = ok && apply_one(a, doc, next);
	json_decref(next);
	return ok;
}

static bool apply_one(struct arena *a, json_t *doc, const json_t *step)
{
	const char *op = k_str(step, "op"), *path = k_str(step, "path");
	json_t *value = json_object_get(step, "value"), *in;
	char *last;

	if (!op || !path) {
		return false;
	}
	if (str_same(op, "copy") || str_same(op, "move")) {
		return apply_from(a, doc, step, *op == 'm');
	}
	in = pointer_follow(a, doc, path, &last);
	if (!in) {
		return false;
	}
	if (!value && !str_same(op, "remove")) {
		return false;
	}
	if (json_is_array(in)) {
		return apply_to_list(in, last, op, value);
	}
	if (str_same(op, "add")) {
		return json_object_set(in, last, value) == 0;
	}
	if (!json_object_get(in, last)) {
		return false;
	}
	if (str_same(op, "remove")) {
		return json_object_del(in, last) == 0;
	}
	if (str_same(op, "replace")) {
		return json_object_set(in, last, value) == 0;
	}
	return str_same(op, "test") && json_equal(json_object_get(in, last), value);
}

static bool json_patch(struct k8s_call *q, json_t *doc, const json_t *patch)
{
	size_t k;
	json_t *step;

	if (!json_is_array(patch)) {
		k8s_fail(q, 400, "BadRequest",
		    "error decoding patch: json: cannot unmarshal object into Go value of type "
		    "jsonpatch.Patch");
		return false;
	}
	json_array_foreach (patch, k, step) {
		if (apply_one(q->arena, doc, step)) {
			continue;
		}
		q->kind = NULL; /* the real server names no member here */
		k8s_fail(q, 422, "Invalid",
		    "the server rejected our request due to an error in our request");
		return false;
	}
	return true;
}

json_t *k8s_patched(struct k8s_call *q, const json_t *doc)
{
	const char *type = req_header(q->rq, "content-type");
	size_t n = type ? strcspn(type, "; ") : 0;
	const char *media = type ? arena_strndup(q->arena, type, n) : "";
	bool strategic = str_same(media, "application/strategic-merge-patch+json");
	struct spot_err err = { 0 };
	json_t *patch AUTO(json) = NULL, *copy;

	if (!(str_same(media, "application/merge-patch+json") ||
		str_same(media, "application/json-patch+json") ||
		(strategic && !q->kind->custom))) {
		k8s_fail(q, 415, "UnsupportedMediaType",
		    "the body of the request was in an unknown format - accepted media types "
		    "include: application/json-patch+json, application/merge-patch+json%s",
		    q->kind->custom ? "" : ", application/strategic-merge-patch+json");
		return NULL;
	}
	if (json_parse(q->rq->http->body, "patch", &patch, &err) != SPOT_OK) {
		k8s_fail(q, 400, "BadRequest", "error decoding patch: %s", err.text);
		return NULL;
	}
	copy = json_deep_copy(doc);
	if (str_same(media, "application/json-patch+json")) {
		if (json_patch(q, copy, patch)) {
			return copy;
		}
		json_decref(copy);
		return NULL;
	}
	if (!json_is_object(patch)) {
		k8s_fail(q, 400, "BadRequest", "error decoding patch: expected an object");
		json_decref(copy);
		return NULL;
	}
	patch_merge(copy, patch, strategic);
	return copy;
}
