/*
 * Decoding: every member of a document is known and has its type, and no required one is missing.
 * The table is data/kubernetes_schema.json: type name -> member -> type, "!" behind what is
 * required, "[]" and "{}" before lists and maps.
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

static json_t *schemas; /* one table for all clusters of the process */

bool schema_load(struct sim *s, struct spot_err *err)
{
	struct arena *a AUTO(arena) = arena_new(0);
	char path[4096];
	struct str text;

	snprintf(path, sizeof(path), "%s/kubernetes_schema.json", s->conf.data_dir);
	if (!file_get(a, path, &text)) {
		err_set(err, SPOT_CONFIG, "cannot read %s", path);
		return false;
	}
	return json_parse(text, path, &schemas, err) == SPOT_OK;
}

void schema_free(void)
{
	json_decref(schemas);
	schemas = NULL;
}

static void value_check(const char *type, const json_t *v, const char *path,
    struct schema_report *r);

static void path_note(json_t *list, const char *path, const char *more)
{
	if (json_array_size(list) < 50) {
		json_array_append_new(list,
		    more ? json_pack("[s, s]", path, more) : json_pack("[s]", path));
	}
}

static void check_object(const json_t *table, const json_t *v, const char *path,
    struct schema_report *r)
{
	const char *key, *kind;
	char inner[1024];
	json_t *x;

	json_object_foreach ((json_t *)(uintptr_t)v, key, x) {
		kind = json_string_value(json_object_get(table, key));
		snprintf(inner, sizeof(inner), "%s%s%s", path, *path ? "." : "", key);
		if (!kind) {
			path_note(r->unknown, inner, NULL);
		} else if (!json_is_null(x)) {
			value_check(kind, x, inner, r);
		}
	}
	json_object_foreach ((json_t *)(uintptr_t)table, key, x) {
		const json_t *had = json_object_get(v, key);
		const char *text = json_string_value(x);

		if (text[strlen(text) - 1] != '!' || (had && !json_is_null(had))) {
			continue;
		}
		snprintf(inner, sizeof(inner), "%s%s%s", path, *path ? "." : "", key);
		path_note(r->missing, inner, NULL);
	}
}

static void check_list(const char *type, const json_t *v, const char *path, struct schema_report *r)
{
	char inner[1024];
	size_t k;
	json_t *x;

	if (!json_is_array(v)) {
		path_note(r->types, path, "array");
		return;
	}
	json_array_foreach (v, k, x) {
		snprintf(inner, sizeof(inner), "%s[%zu]", path, k);
		value_check(type + 2, x, inner, r);
	}
}

static void check_map(const char *type, const json_t *v, const char *path, struct schema_report *r)
{
	char inner[1024];
	const char *key;
	json_t *x;

	if (!json_is_object(v)) {
		path_note(r->types, path, "object");
		return;
	}
	json_object_foreach ((json_t *)(uintptr_t)v, key, x) {
		snprintf(inner, sizeof(inner), "%s[%s]", path, key);
		value_check(type + 2, x, inner, r);
	}
}

static bool scalar_fits(const char *type, size_t n, const json_t *v, const char **ret_name)
{
	int64_t us;

	if (n == 3 && memcmp(type, "str", 3) == 0) {
		*ret_name = "string";
		return json_is_string(v);
	}
	if (n == 3 && memcmp(type, "int", 3) == 0) {
		*ret_name = "integer";
		return json_is_integer(v);
	}
	if (n == 4 && memcmp(type, "bool", 4) == 0) {
		*ret_name = "boolean";
		return json_is_boolean(v);
	}
	if (n == 5 && memcmp(type, "float", 5) == 0) {
		*ret_name = "number";
		return json_is_number(v);
	}
	if (n == 4 && memcmp(type, "time", 4) == 0) {
		*ret_name = "time";
		return json_is_string(v) && parse_time_us(json_string_value(v), &us);
	}
	*ret_name = "quantity";
	return k_quantity(v, &us);
}

static void value_check(const char *type, const json_t *v, const char *path,
    struct schema_report *r)
{
	size_t n = strcspn(type, "!");
	char name[128];
	const char *expected;

	if (type[0] == '[') {
		check_list(type, v, path, r);
	} else if (type[0] == '{') {
		check_map(type, v, path, r);
	} else if (type[0] >= 'A' && type[0] <= 'Z' && n < sizeof(name)) {
		memcpy(name, type, n);
		name[n] = '\0';
		if (!json_is_object(v)) {
			path_note(r->types, path, "object");
		} else {
			check_object(json_object_get(schemas, name), v, path, r);
		}
	} else if (!(n == 3 && memcmp(type, "any", 3) == 0) &&
	    !scalar_fits(type, n, v, &expected)) {
		path_note(r->types, path, expected);
	}
}

/* ---- pruning --------------------------------------------------------------------------------- */

static void value_prune(const char *type, json_t *v)
{
	const json_t *table;
	char name[128];
	const char *key, *kind;
	void *next;
	size_t k;
	json_t *x;

	if (type[0] == '[' && json_is_array(v)) {
		json_array_foreach (v, k, x) {
			value_prune(type + 2, x);
		}
	} else if (type[0] == '{' && json_is_object(v)) {
		json_object_foreach (v, key, x) {
			value_prune(type + 2, x);
		}
	} else if (type[0] >= 'A' && type[0] <= 'Z' && json_is_object(v)) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(type, "!"), type);
		table = json_object_get(schemas, name);
		json_object_foreach_safe (v, next, key, x) {
			kind = json_string_value(json_object_get(table, key));
			if (kind) {
				value_prune(kind, x);
			} else {
				json_object_del(v, key);
			}
		}
	}
}

void schema_prune(const char *type, json_t *doc)
{
	value_prune(type, doc);
}

void schema_check(const char *type, const json_t *doc, struct schema_report *ret)
{
	*ret = (struct schema_report){ json_array(), json_array(), json_array() };
	value_check(type, doc, "", ret);
}
