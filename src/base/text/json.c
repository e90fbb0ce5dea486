/*
 * jansson with our limits: depth 32 (jansson allows 2048), no duplicate keys, no trailing text. A
 * getter's error names the field.
 */
#include "base/base.h"
#include "base/text/json.h"
#include "base/text/str.h"

/* Checks the nesting of brackets outside strings; the parser checks everything else. */
static bool depth_ok(struct str text)
{
	int depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];

		if (quoted) {
			if (c == '\\') {
				i++;
			} else if (c == '"') {
				quoted = false;
			}
		} else if (c == '"') {
			quoted = true;
		} else if (c == '{' || c == '[') {
			if (++depth > JSON_DEPTH_MAX) {
				return false;
			}
		} else if (c == '}' || c == ']') {
			depth--;
		}
	}
	return true;
}

enum spot_rc json_parse(struct str text, const char *what, json_t **ret, struct spot_err *err)
{
	json_error_t je;

	if (text.p == NULL || text.n == 0) {
		return err_set(err, SPOT_INVALID, "%s: empty, expected JSON", what);
	}
	if (!depth_ok(text)) {
		return err_set(err, SPOT_INVALID, "%s: JSON nested deeper than %d", what,
		    JSON_DEPTH_MAX);
	}
	json_t *doc = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &je);
	if (doc == NULL) {
		return err_set(err, SPOT_INVALID, "%s: not valid JSON: line %d, column %d: %s",
		    what, je.line, je.column, je.text);
	}
	*ret = doc;
	return SPOT_OK;
}

static const char *type_name(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	case JSON_NULL:
		return "null";
	}
	return "unknown";
}

static void wrong_type(struct spot_err *err, const char *key, const char *wanted, const json_t *v)
{
	if (err != NULL && err->rc == SPOT_OK) {
		err_set(err, SPOT_INVALID, "field '%s': expected %s, found %s", key, wanted,
		    type_name(v));
	}
}

static void member_missing(struct spot_err *err, const char *key)
{
	if (err != NULL && err->rc == SPOT_OK) {
		err_set(err, SPOT_INVALID, "field '%s': missing", key);
	}
}

/* Returns NULL if absent or null. */
static json_t *member_get(const json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	return json_is_null(v) ? NULL : v;
}

const char *json_str(const json_t *o, const char *key, const char *dflt, struct spot_err *err)
{
	const json_t *v = member_get(o, key);

	if (v == NULL) {
		return dflt;
	}
	if (json_is_string(v)) {
		return json_string_value(v);
	}
	wrong_type(err, key, "a string", v);
	return dflt;
}

int64_t json_i64(const json_t *o, const char *key, int64_t dflt, struct spot_err *err)
{
	const json_t *v = member_get(o, key);

	if (v == NULL) {
		return dflt;
	}
	if (json_is_integer(v)) {
		return json_integer_value(v);
	}
	wrong_type(err, key, "an integer", v);
	return dflt;
}

double json_f64(const json_t *o, const char *key, double dflt, struct spot_err *err)
{
	const json_t *v = member_get(o, key);

	if (v == NULL) {
		return dflt;
	}
	if (json_is_number(v)) {
		return json_number_value(v);
	}
	wrong_type(err, key, "a number", v);
	return dflt;
}

bool json_bool(const json_t *o, const char *key, bool dflt, struct spot_err *err)
{
	const json_t *v = member_get(o, key);

	if (v == NULL) {
		return dflt;
	}
	if (json_is_boolean(v)) {
		return json_is_true(v);
	}
	wrong_type(err, key, "true or false", v);
	return dflt;
}

const char *json_need_str(const json_t *o, const char *key, struct spot_err *err)
{
	if (member_get(o, key) == NULL) {
		member_missing(err, key);
	}
	return json_str(o, key, "", err);
}

int64_t json_need_i64(const json_t *o, const char *key, struct spot_err *err)
{
	if (member_get(o, key) == NULL) {
		member_missing(err, key);
	}
	return json_i64(o, key, 0, err);
}

const char *json_unknown_key(const json_t *o, const char *const *known)
{
	/* jansson's iterators take no const, but change nothing. */
	json_t *mutable = (json_t *)(uintptr_t)o;

	for (void *it = json_object_iter(mutable); it != NULL;
	     it = json_object_iter_next(mutable, it)) {
		const char *key = json_object_iter_key(it);
		const char *const *k = known;

		while (*k != NULL && strcmp(*k, key) != 0) {
			k++;
		}
		if (*k == NULL) {
			return key;
		}
	}
	return NULL;
}

char *json_text(struct arena *a, const json_t *j)
{
	const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15);

	if (j == NULL) {
		return arena_strdup(a, "null");
	}
	size_t n = json_dumpb(j, NULL, 0, flags);
	char *out = arena_alloc(a, n + 1);
	json_dumpb(j, out, n, flags);
	return out;
}

json_t *json_usd(int64_t micros)
{
	return json_real((double)micros / 1e6);
}

json_t *json_time(int64_t us)
{
	char text[TIME_TEXT_MAX];

	return us == 0 ? json_null() : json_string(format_time(us, text));
}
