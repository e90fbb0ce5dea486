/*
 * The extras of a region's machines: shared file systems and firewall rulesets. Both live in one
 * region and are attached at launch or never (OpenAPI 1.10.0, POST /instance-operations/launch), so
 * the settings name the region: file_system.<region>, firewall_ruleset.<region>. Nothing here is
 * created or changed for the customer.
 */
#include "base/base.h"
#include "lambda_priv.h"

#include <ctype.h>

#define LIST_MAX 16

const char *const lambda_place_keys[LAMBDA_PLACE_COUNT] = {
	[LAMBDA_PLACE_FILE_SYSTEM] = "file_system",
	[LAMBDA_PLACE_RULESET] = "firewall_ruleset",
};

/* File systems are names (^[a-zA-Z]+[0-9a-zA-Z-]*$, at most 60), rulesets are ids. */
static bool item_ok(enum lambda_place what, const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)s[i]) && s[i] != '-') {
			return false;
		}
	}
	if (what == LAMBDA_PLACE_FILE_SYSTEM) {
		return n > 0 && n <= 60 && isalpha((unsigned char)s[0]);
	}
	return n > 0 && n <= 64;
}

enum spot_step lambda_place_read(const struct lambda *self, struct spot_call *c,
    enum lambda_place what, const char *region, const char *const **ret, size_t *ret_n)
{
	const char *key = arena_printf(c->arena, "%s.%s", lambda_place_keys[what], region);
	const char *p = self->conf.setting(self->conf.ctx, key);
	const char **list = arena_array(c->arena, LIST_MAX, sizeof(*list));
	size_t n = 0;

	*ret = list;
	*ret_n = 0;
	for (p = p != NULL ? p : ""; *p != '\0';) {
		size_t len = strcspn(p, ", \t");
		const char *item = arena_strndup(c->arena, p, len);

		p += len;
		p += strspn(p, ", \t");
		if (len == 0) {
			continue;
		}
		if (n == LIST_MAX || !item_ok(what, item)) {
			return call_fail(c, SPOT_CONFIG, NULL,
			    "lambda: %s: '%.64s' is not %s, or more than %d are named", key, item,
			    what == LAMBDA_PLACE_FILE_SYSTEM ? "the name of a file system"
							     : "the id of a firewall ruleset",
			    LIST_MAX);
		}
		list[n++] = item;
	}
	*ret_n = n;
	return SPOT_STEP_NONE;
}

enum spot_step lambda_place_add(const struct lambda *self, struct spot_call *c, const char *region,
    json_t *body)
{
	const char *const *names, *const *ids;
	size_t names_n, ids_n;
	enum spot_step s =
	    lambda_place_read(self, c, LAMBDA_PLACE_FILE_SYSTEM, region, &names, &names_n);
	json_t *list;

	s = s != SPOT_STEP_NONE
	    ? s
	    : lambda_place_read(self, c, LAMBDA_PLACE_RULESET, region, &ids, &ids_n);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (names_n > 0) {
		list = json_array();
		for (size_t i = 0; i < names_n; i++) {
			json_array_append_new(list, json_string(names[i]));
		}
		json_object_set_new(body, "file_system_names", list);
	}
	if (ids_n > 0) {
		list = json_array();
		for (size_t i = 0; i < ids_n; i++) {
			json_array_append_new(list, json_pack("{s:s}", "id", ids[i]));
		}
		json_object_set_new(body, "firewall_rulesets", list);
	}
	return SPOT_STEP_NONE;
}

const char *lambda_image_family(const struct lambda *self, const char *arch)
{
	return arch != NULL && strcmp(arch, "arm64") == 0 ? self->image_family_arm64
							  : self->image_family;
}
