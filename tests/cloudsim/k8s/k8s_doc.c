/* Small things on documents: members by path, conditions, quantities, names. */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

#include <ctype.h>

json_t *k_at(const json_t *o, const char *path)
{
	char key[128];

	while (o) {
		const char *end = strchrnul(path, '.');

		if ((size_t)(end - path) >= sizeof(key)) {
			return NULL;
		}
		memcpy(key, path, (size_t)(end - path));
		key[end - path] = '\0';
		o = json_object_get(o, key);
		if (!*end) {
			return json_is_null(o) ? NULL : (json_t *)(uintptr_t)o;
		}
		path = end + 1;
	}
	return NULL;
}

const char *k_str(const json_t *o, const char *path)
{
	return json_string_value(k_at(o, path));
}

int64_t k_int(const json_t *o, const char *path, int64_t dflt)
{
	const json_t *v = k_at(o, path);

	return json_is_integer(v) ? json_integer_value(v) : dflt;
}

bool k_true(const json_t *o, const char *path)
{
	return json_is_true(k_at(o, path));
}

json_t *k_obj(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (!json_is_object(v)) {
		v = json_object();
		json_object_set_new(o, key, v);
	}
	return v;
}

json_t *k_arr(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (!json_is_array(v)) {
		v = json_array();
		json_object_set_new(o, key, v);
	}
	return v;
}

void k_set(json_t *o, const char *key, const char *text)
{
	if (text) {
		json_object_set_new(o, key, json_string(text));
	} else {
		json_object_del(o, key);
	}
}

void k_default(json_t *o, const char *key, json_t *value)
{
	const json_t *had = json_object_get(o, key);

	if (!had || json_is_null(had)) {
		json_object_set_new(o, key, value);
	} else {
		json_decref(value);
	}
}

json_t *k_now(const struct sim *s)
{
	char at[TIME_TEXT_MAX];

	return json_string(format_time_s(sim_wall(s), at));
}

/* ---- conditions ------------------------------------------------------------------------------ */

static json_t *condition_of(const json_t *status, const char *type)
{
	size_t k;
	json_t *c;

	json_array_foreach (json_object_get(status, "conditions"), k, c) {
		if (str_same(k_str(c, "type"), type)) {
			return c;
		}
	}
	return NULL;
}

const char *k_condition_value(const json_t *doc, const char *type)
{
	const char *v = k_str(condition_of(k_at(doc, "status"), type), "status");

	return v ? v : "";
}

bool k_condition(json_t *status, const struct sim *s, const char *type, const char *value,
    const char *reason, const char *message)
{
	json_t *c = condition_of(status, type);

	if (!c) {
		c = json_pack("{s:s}", "type", type);
		json_array_append_new(k_arr(status, "conditions"), c);
	} else if (str_same(k_str(c, "status"), value) && str_same(k_str(c, "reason"), reason) &&
	    str_same(k_str(c, "message"), message)) {
		return false;
	}
	if (!str_same(k_str(c, "status"), value)) {
		json_object_set_new(c, "lastTransitionTime", k_now(s));
	}
	k_set(c, "status", value);
	k_set(c, "reason", reason);
	k_set(c, "message", message);
	return true;
}

/* ---- quantities ------------------------------------------------------------------------------ */

static bool suffix_scale(const char *s, double *ret)
{
	static const struct {
		const char *suffix;
		double scale;
	} known[] = { { "", 1e3 }, { "m", 1 }, { "k", 1e6 }, { "M", 1e9 }, { "G", 1e12 },
		{ "T", 1e15 }, { "P", 1e18 }, { "Ki", 1024e3 }, { "Mi", 1048576e3 },
		{ "Gi", 1073741824e3 }, { "Ti", 1099511627776e3 }, { "Pi", 1125899906842624e3 } };

	for (size_t k = 0; k < ARRAY_LEN(known); k++) {
		if (str_same(known[k].suffix, s)) {
			*ret = known[k].scale;
			return true;
		}
	}
	return false;
}

/* Reads a quantity in thousandths. A scheduler's values are far below 2^53; petabytes saturate. */
bool k_quantity(const json_t *v, int64_t *ret_milli)
{
	const char *text = json_string_value(v);
	double n, scale;
	char *end;

	if (json_is_integer(v)) {
		n = (double)json_integer_value(v) * 1e3;
	} else {
		if (!text || !(isdigit((unsigned char)*text) || *text == '.')) {
			return false;
		}
		n = strtod(text, &end);
		if ((end > text && (*end == 'x' || *end == 'X')) || !suffix_scale(end, &scale)) {
			return false;
		}
		n *= scale;
	}
	*ret_milli = n > 9e18 ? INT64_MAX : (int64_t)(n + 0.5);
	return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool alnum_ends(const char *s, size_t n)
{
	return n > 0 && isalnum((unsigned char)s[0]) && isalnum((unsigned char)s[n - 1]);
}

bool k_label_value(const char *s)
{
	size_t n = strlen(s);

	if (n == 0) {
		return true;
	}
	for (size_t k = 0; k < n; k++) {
		if (!isalnum((unsigned char)s[k]) && !strchr("-_.", s[k])) {
			return false;
		}
	}
	return n <= 63 && alnum_ends(s, n);
}

bool k_dns_label(const char *s)
{
	size_t n = strlen(s);

	for (size_t k = 0; k < n; k++) {
		if (!islower((unsigned char)s[k]) && !isdigit((unsigned char)s[k]) && s[k] != '-') {
			return false;
		}
	}
	return n <= 63 && alnum_ends(s, n);
}

bool k_dns_subdomain(const char *s)
{
	if (strlen(s) > 253) {
		return false;
	}
	for (;;) {
		const char *end = strchrnul(s, '.');
		size_t n = (size_t)(end - s);

		for (size_t k = 0; k < n; k++) {
			if (!islower((unsigned char)s[k]) && !isdigit((unsigned char)s[k]) &&
			    s[k] != '-') {
				return false;
			}
		}
		if (!alnum_ends(s, n)) {
			return false;
		}
		if (!*end) {
			return true;
		}
		s = end + 1;
	}
}

bool k_label_name(const char *key)
{
	const char *slash = strchr(key, '/');
	char prefix[256];

	if (!slash) {
		return *key && k_label_value(key);
	}
	if ((size_t)(slash - key) >= sizeof(prefix)) {
		return false;
	}
	memcpy(prefix, key, (size_t)(slash - key));
	prefix[slash - key] = '\0';
	return k_dns_subdomain(prefix) && slash[1] && k_label_value(slash + 1);
}
