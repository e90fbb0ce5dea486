/*
 * Google's JSON parser, which checks a request before a method sees it. Every name must be a field
 * of the message, every value of its type. The messages are those of the discovery documents
 * (data/gcp_schema.json). Types: s text, i number, l 64-bit number (also as text), n double, b
 * boolean, [x list, {x map, @Name message, * anything.
 */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

bool gcp_schema_load(struct sim *s, struct spot_err *err)
{
	struct arena *a AUTO(arena) = arena_new(0);
	char path[4096];
	struct str text;

	snprintf(path, sizeof(path), "%s/gcp_schema.json", s->conf.data_dir);
	if (!file_get(a, path, &text)) {
		err_set(err, SPOT_CONFIG, "cannot read %s", path);
		return false;
	}
	return json_parse(text, path, &s->gcp->schema, err) == SPOT_OK;
}

static bool violation_fail(struct gcp_call *c, const char *where, const char *what)
{
	gcp_fail(c, 400, "badRequest", "Invalid JSON payload received. %s", what);
	(void)where;
	return false;
}

static bool unknown_name(struct gcp_call *c, const char *where, const char *name)
{
	return violation_fail(c, where,
	    arena_printf(c->a, "Unknown name \"%s\"%s%s%s: Cannot find field.", name,
		*where ? " at '" : "", where, *where ? "'" : ""));
}

static bool wrong_type(struct gcp_call *c, const char *where, const char *type, const json_t *v)
{
	char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
	const char *word = *type == 's' ? "TYPE_STRING"
	    : *type == 'i'              ? "TYPE_INT32"
	    : *type == 'l'              ? "TYPE_INT64"
	    : *type == 'n'              ? "TYPE_DOUBLE"
	    : *type == 'b'              ? "TYPE_BOOL"
					: "message";
	const char *said = arena_printf(c->a, "Invalid value at '%s' (%s), %.200s", where, word,
	    text ? text : "?");

	free(text);
	gcp_fail(c, 400, "badRequest", "%s", said);
	return false;
}

static bool scalar_fits(const char *type, const json_t *v)
{
	int64_t n;
	double d;

	switch (*type) {
	case 's':
		return json_is_string(v);
	case 'b':
		return json_is_boolean(v) || str_same(json_string_value(v), "true") ||
		    str_same(json_string_value(v), "false");
	case 'i':
		return (json_is_integer(v) && json_integer_value(v) >= INT32_MIN &&
			   json_integer_value(v) <= INT32_MAX) ||
		    (json_is_string(v) &&
			parse_i64(json_string_value(v), INT32_MIN, INT32_MAX, &n));
	case 'l':
		return json_is_integer(v) ||
		    (json_is_string(v) &&
			parse_i64(json_string_value(v), INT64_MIN, INT64_MAX, &n));
	case 'n':
		return json_is_number(v) ||
		    (json_is_string(v) && parse_f64(json_string_value(v), -1e300, 1e300, &d));
	default:
		return true;
	}
}

static bool check_message(struct gcp_call *c, const char *schema, const json_t *doc,
    const char *where);

static bool check_value(struct gcp_call *c, const char *type, const json_t *v, const char *where)
{
	const char *key;
	size_t k;
	json_t *one;

	if (json_is_null(v)) {
		return true;
	}
	if (*type == '@') {
		return json_is_object(v) ? check_message(c, type + 1, v, where)
					 : wrong_type(c, where, type, v);
	}
	if (*type == '[') {
		if (!json_is_array(v)) {
			return wrong_type(c, where, type, v);
		}
		json_array_foreach (v, k, one) {
			if (!check_value(c, type + 1, one,
				arena_printf(c->a, "%s[%zu]", where, k))) {
				return false;
			}
		}
		return true;
	}
	if (*type == '{') {
		if (!json_is_object(v)) {
			return wrong_type(c, where, type, v);
		}
		json_t *map = (json_t *)(uintptr_t)v; /* jansson iterates without const */

		json_object_foreach (map, key, one) {
			if (!check_value(c, type + 1, one,
				arena_printf(c->a, "%s[%s]", where, key))) {
				return false;
			}
		}
		return true;
	}
	return scalar_fits(type, v) || wrong_type(c, where, type, v);
}

static bool check_message(struct gcp_call *c, const char *schema, const json_t *doc,
    const char *where)
{
	const json_t *fields = json_object_get(c->g->schema, schema);
	json_t *o = (json_t *)(uintptr_t)doc;

	const char *name;
	json_t *value;

	json_object_foreach (o, name, value) {
		const char *type = json_string_value(json_object_get(fields, name));

		if (!type) {
			return unknown_name(c, where, name);
		}
		if (!check_value(c, type, value,
			*where ? arena_printf(c->a, "%s.%s", where, name) : name)) {
			return false;
		}
	}
	return true;
}

bool gcp_schema_check(struct gcp_call *c, const char *schema, const json_t *doc)
{
	if (!json_is_object(doc)) {
		return violation_fail(c, "", "Root element must be a message.");
	}
	return check_message(c, schema, doc, "");
}

int64_t gcp_i64(const json_t *o, const char *key, int64_t dflt)
{
	const json_t *v = json_object_get(o, key);
	int64_t n;

	if (json_is_integer(v)) {
		return json_integer_value(v);
	}
	return json_is_string(v) && parse_i64(json_string_value(v), INT64_MIN, INT64_MAX, &n)
	    ? n
	    : dflt;
}

const char *gcp_text(const json_t *o, const char *key)
{
	const char *v = json_string_value(json_object_get(o, key));

	return v && *v ? v : NULL;
}
