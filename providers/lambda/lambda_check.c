/*
 * Checks a configuration before an operator trusts it. The API has no dry run and its keys no
 * scopes, so only reading is tried. It covers the key, the clock, the SSH key, the image, the
 * objects of the region's settings, and the audit events. The rest is reported as untested. A
 * handful of GETs, because the whole account has one a second.
 */
#include "base/base.h"
#include "lambda_priv.h"

#define WORDS_MAX 400
#define PORTS_MANY 1024

enum { AT_TYPES = 0, AT_KEYS, AT_IMAGES, AT_FIREWALL, AT_FILE_SYSTEMS, AT_AUDIT, AT_END };

struct lambda_checking {
	struct check_list found;
	const char *region;
	const char *const *files, *const *rulesets;
	size_t files_n, rulesets_n;
};

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL ? s : "";
}

/* "name" of the object's "region". */
static const char *region_of(const json_t *o)
{
	return text_of(json_object_get(o, "region"), "name");
}

/* ---- the key, the clock, what there is to rent ----------------------------------------------- */

static bool region_listed(const json_t *regions, const char *name)
{
	const json_t *r;
	size_t i;

	json_array_foreach (regions, i, r) {
		if (strcmp(text_of(r, "name"), name) == 0) {
			return true;
		}
	}
	return false;
}

static void types_check(struct spot_call *c, struct lambda_checking *k, const struct spot_check *a,
    const json_t *data)
{
	check_add(c, &k->found, "credentials", SPOT_CHECK_OK,
	    "the key is accepted, the account is active", "");
	check_clock(c, &k->found, INT64_MAX,
	    "Lambda gives no launch time; the name of a machine has it");
	for (size_t i = 0; i < a->pools_n; i++) {
		const struct spot_pool_key *p = &a->pools[i].key;
		const json_t *type = json_object_get(data, p->instance_type);
		const char *name = arena_printf(c->arena, "capacity %s", p->instance_type);

		if (strcmp(p->region, k->region) != 0) {
			continue;
		}
		if (type == NULL) {
			check_add(c, &k->found, name, SPOT_CHECK_WARN,
			    "the vendor does not list this type",
			    "look at GET /instance-types for the present names");
		} else if (region_listed(json_object_get(type, "regions_with_capacity_available"),
			       k->region)) {
			check_add(c, &k->found, name, SPOT_CHECK_OK,
			    "the vendor says that there is some now, which is no promise", "");
		} else {
			check_add(c, &k->found, name, SPOT_CHECK_WARN,
			    "none in the region at the moment", "want other types and regions too");
		}
	}
}

/* ---- the SSH key ----------------------------------------------------------------------------- */

static void keys_check(const struct lambda *self, struct spot_call *c, struct lambda_checking *k,
    const json_t *data)
{
	const char *have = "";
	const json_t *o;
	size_t i;

	json_array_foreach (data, i, o) {
		if (self->ssh_key_name != NULL &&
		    strcmp(text_of(o, "name"), self->ssh_key_name) == 0) {
			check_add(c, &k->found, "ssh key", SPOT_CHECK_OK,
			    arena_printf(c->arena, "%s is registered", self->ssh_key_name), "");
			return;
		}
		if (strlen(have) < WORDS_MAX) {
			have = arena_printf(c->arena, "%s%s%s", have, i > 0 ? ", " : "",
			    lambda_words(c->arena, text_of(o, "name")));
		}
	}
	check_add(c, &k->found, "ssh key", SPOT_CHECK_BAD,
	    self->ssh_key_name == NULL
		? "ssh_key_name is not set, and no launch goes without"
		: arena_printf(c->arena, "%s is not registered", self->ssh_key_name),
	    have[0] != '\0' ? arena_printf(c->arena, "set ssh_key_name to one of: %s", have)
			    : "register a key in the console (SSH keys) or with POST /ssh-keys, "
			      "and set ssh_key_name to its name");
}

/* ---- the image ------------------------------------------------------------------------------- */

static void image_check(const struct lambda *self, struct spot_call *c, struct lambda_checking *k,
    const json_t *data, const char *arch)
{
	const char *family = lambda_image_family(self, arch);
	const char *name = arena_printf(c->arena, "image %s", arch);
	const char *key = strcmp(arch, "arm64") == 0 ? "image_family_arm64" : "image_family";
	const json_t *o;
	size_t i;

	json_array_foreach (data, i, o) {
		if (strcmp(text_of(o, "family"), family) == 0 &&
		    strcmp(text_of(o, "architecture"), arch) == 0 &&
		    strcmp(region_of(o), k->region) == 0) {
			check_add(c, &k->found, name, SPOT_CHECK_OK,
			    arena_printf(c->arena, "%s, version %s", family,
				lambda_words(c->arena, text_of(o, "version"))),
			    "");
			return;
		}
	}
	check_add(c, &k->found, name, SPOT_CHECK_BAD,
	    arena_printf(c->arena, "there is no %s image of family %s in %s", arch, family,
		k->region),
	    arena_printf(c->arena, "set %s to a family that GET /images lists for the region",
		key));
}

static void images_check(const struct lambda *self, struct spot_call *c, struct lambda_checking *k,
    const struct spot_check *a, const json_t *data)
{
	bool x86 = false, arm = false;

	for (size_t i = 0; i < a->pools_n; i++) {
		if (strcmp(a->pools[i].key.region, k->region) == 0) {
			bool is_arm = a->pools[i].shape.arch != NULL &&
			    strcmp(a->pools[i].shape.arch, "arm64") == 0;

			arm = arm || is_arm;
			x86 = x86 || !is_arm;
		}
	}
	if (x86 || !arm) {
		image_check(self, c, k, data, "x86_64");
	}
	if (arm) {
		image_check(self, c, k, data, "arm64");
	}
}

/* ---- objects of the region's settings -------------------------------------------------------- */

static const json_t *object_find(const json_t *data, const char *member, const char *value,
    const char *region)
{
	const json_t *o;
	size_t i;

	json_array_foreach (data, i, o) {
		if (strcmp(text_of(o, member), value) == 0 &&
		    (region == NULL || strcmp(region_of(o), region) == 0)) {
			return o;
		}
	}
	return NULL;
}

static void files_check(struct spot_call *c, struct lambda_checking *k, const json_t *data)
{
	for (size_t i = 0; i < k->files_n; i++) {
		const char *name = arena_printf(c->arena, "file system %s", k->files[i]);
		const json_t *o = object_find(data, "name", k->files[i], k->region);
		const json_t *other = object_find(data, "name", k->files[i], NULL);

		if (o != NULL) {
			check_add(c, &k->found, name, SPOT_CHECK_OK,
			    arena_printf(c->arena, "mounted at %s",
				lambda_words(c->arena, text_of(o, "mount_point"))),
			    "");
			continue;
		}
		check_add(c, &k->found, name, SPOT_CHECK_BAD,
		    other != NULL
			? arena_printf(c->arena, "it is in %s, and can only be mounted there",
			      lambda_words(c->arena, region_of(other)))
			: "there is none of that name",
		    arena_printf(c->arena,
			"correct file_system.%s, or make one there (console, Filesystems)",
			k->region));
	}
}

/* One rule for people: "tcp 22-22 from 0.0.0.0/0"; *ret_wide: most ports, for the whole world. */
static const char *rule_words(struct arena *a, const json_t *rule, bool *ret_wide)
{
	const json_t *range = json_object_get(rule, "port_range");
	json_int_t from = json_integer_value(json_array_get(range, 0)),
		   to = json_integer_value(json_array_get(range, 1));
	const char *protocol = text_of(rule, "protocol"), *source = text_of(rule, "source_network");

	if (strcmp(source, "0.0.0.0/0") == 0 && strcmp(protocol, "icmp") != 0 &&
	    to - from >= PORTS_MANY) {
		*ret_wide = true;
	}
	if (json_array_size(range) != 2) {
		return arena_printf(a, "%s from %s", lambda_words(a, protocol),
		    lambda_words(a, source));
	}
	return arena_printf(a, "%s %lld-%lld from %s", lambda_words(a, protocol), (long long)from,
	    (long long)to, lambda_words(a, source));
}

static void rules_check(struct spot_call *c, struct lambda_checking *k, const char *name,
    const json_t *set)
{
	const json_t *rules = json_object_get(set, "rules"), *rule;
	const char *words = "";
	bool wide = false;
	size_t i;

	json_array_foreach (rules, i, rule) {
		const char *one = rule_words(c->arena, rule, &wide);

		if (strlen(words) < WORDS_MAX) {
			words = arena_printf(c->arena, "%s%s%s", words, i > 0 ? ", " : "", one);
		}
	}
	words = words[0] != '\0' ? arena_printf(c->arena, "lets in %s", words) : "lets nothing in";
	if (strcmp(k->region, "us-south-1") == 0) {
		/* PUT /firewall-rules, description */
		check_add(c, &k->found, name, SPOT_CHECK_WARN,
		    arena_printf(c->arena, "%s; rules do not apply in us-south-1", words),
		    "everything that a job listens on there is open to the world");
	} else {
		check_add(c, &k->found, name, wide ? SPOT_CHECK_WARN : SPOT_CHECK_OK, words,
		    wide ? "narrow it: nodes only dial out, the broker needs no port to be open"
			 : "");
	}
}

static void firewall_check(struct spot_call *c, struct lambda_checking *k, const json_t *data)
{
	if (k->rulesets_n == 0) {
		rules_check(c, k, "firewall", data);
	}
	for (size_t i = 0; i < k->rulesets_n; i++) {
		const char *name = arena_printf(c->arena, "firewall %s", k->rulesets[i]);
		const json_t *o = object_find(data, "id", k->rulesets[i], NULL);

		if (o != NULL && strcmp(region_of(o), k->region) == 0) {
			rules_check(c, k, name, o);
			continue;
		}
		check_add(c, &k->found, name, SPOT_CHECK_BAD,
		    o == NULL ? "there is no ruleset with that id"
			      : arena_printf(c->arena, "it is in %s",
				    lambda_words(c->arena, region_of(o))),
		    arena_printf(c->arena,
			"set firewall_ruleset.%s to an id of GET /firewall-rulesets", k->region));
	}
}

/* ---- one request after the other ------------------------------------------------------------- */

static bool at_wanted(const struct lambda *self, const struct lambda_checking *k, int at)
{
	if (k->region[0] == '\0') {
		return at == AT_TYPES || at == AT_KEYS || (at == AT_AUDIT && self->audit_events);
	}
	return (at != AT_FILE_SYSTEMS || k->files_n > 0) && (at != AT_AUDIT || self->audit_events);
}

static enum spot_step check_send(const struct lambda *self, struct spot_call *c,
    const struct lambda_checking *k, int at)
{
	static const char *const paths[] = { [AT_TYPES] = "/instance-types",
		[AT_KEYS] = "/ssh-keys",
		[AT_IMAGES] = "/images",
		[AT_FIREWALL] = "/firewall-rulesets",
		[AT_FILE_SYSTEMS] = "/file-systems" };

	lambda_state_get(c)->at = at;
	if (at == AT_AUDIT) {
		lambda_audit_request(self, c, NULL);
	} else {
		lambda_request(self, c, "GET",
		    at == AT_FIREWALL && k->rulesets_n == 0 ? "/firewall-rulesets/global"
							    : paths[at],
		    LAMBDA_LIMIT_GENERAL);
	}
	return SPOT_SEND;
}

/* Adds the meaning of a refusal of each request. */
static void refused_add(struct spot_call *c, struct lambda_checking *k, int at)
{
	static const struct {
		const char *name, *fix;
		enum spot_check_state state;
	} parts[] = {
		[AT_TYPES] = { "credentials",
		    "make a key in the console (API keys) and put it into api_key_file; an "
		    "account must be active and its billing address valid",
		    SPOT_CHECK_BAD },
		[AT_KEYS] = { "ssh key", "", SPOT_CHECK_UNTESTED },
		[AT_IMAGES] = { "image", "", SPOT_CHECK_UNTESTED },
		[AT_FIREWALL] = { "firewall", "", SPOT_CHECK_UNTESTED },
		[AT_FILE_SYSTEMS] = { "file system", "", SPOT_CHECK_UNTESTED },
		[AT_AUDIT] = { "audit events",
		    "the cause of a vanished machine stays unknown; set audit_events = off to stop "
		    "this question",
		    SPOT_CHECK_WARN },
	};

	check_add_err(c, &k->found, parts[at].name, parts[at].state, parts[at].fix);
}

static void reply_judge(const struct lambda *self, struct spot_call *c, struct lambda_checking *k,
    const struct spot_check *a, int at, const json_t *data)
{
	switch (at) {
	case AT_TYPES:
		types_check(c, k, a, data);
		return;
	case AT_KEYS:
		keys_check(self, c, k, data);
		return;
	case AT_IMAGES:
		images_check(self, c, k, a, data);
		return;
	case AT_FIREWALL:
		firewall_check(c, k, data);
		return;
	case AT_FILE_SYSTEMS:
		files_check(c, k, data);
		return;
	default:
		check_add(c, &k->found, "audit events", SPOT_CHECK_OK, "they can be read", "");
	}
}

static void untested_add(struct spot_call *c, struct lambda_checking *k)
{
	check_add(c, &k->found, "launch", SPOT_CHECK_UNTESTED,
	    "the API has no dry run; a key that may read may also launch", "");
	check_add(c, &k->found, "terminate", SPOT_CHECK_UNTESTED,
	    "the API has no dry run; a key that may read may also terminate", "");
	check_add(c, &k->found, "quota", SPOT_CHECK_UNTESTED,
	    "the API does not tell it; a launch over it is refused with global/quota-exceeded, and "
	    "it grows with paid invoices",
	    "");
}

static enum spot_step check_begin(const struct lambda *self, struct spot_call *c,
    const struct spot_check *a)
{
	struct lambda_checking *k = arena_alloc(c->arena, sizeof(*k));
	const char *region = !str_empty(a->region) ? a->region
	    : a->pools_n > 0                       ? a->pools[0].key.region
						   : "";
	enum spot_step s;

	lambda_state_get(c)->checking = k;
	k->region = arena_strdup(c->arena, region);
	if (region[0] == '\0') {
		return SPOT_STEP_NONE;
	}
	s = lambda_place_read(self, c, LAMBDA_PLACE_FILE_SYSTEM, region, &k->files, &k->files_n);
	return s != SPOT_STEP_NONE ? s
				   : lambda_place_read(self, c, LAMBDA_PLACE_RULESET, region,
					 &k->rulesets, &k->rulesets_n);
}

enum spot_step lambda_check(void *p, struct spot_call *c, struct spot_check *a)
{
	const struct lambda *self = p;
	struct lambda_state *st = lambda_state_get(c);
	struct lambda_reply r;
	enum spot_step s = SPOT_STEP_NONE;
	bool key_bad = false;

	if (st->checking == NULL) {
		s = check_begin(self, c, a);
		return s != SPOT_STEP_NONE ? s : check_send(self, c, st->checking, AT_TYPES);
	}
	if (c->in == NULL) {
		return check_send(self, c, st->checking, st->at);
	}
	s = lambda_reply_get(self, c, "check", &r);
	if (s == SPOT_FAIL) {
		key_bad = st->at == AT_TYPES;
		refused_add(c, st->checking, st->at);
	} else if (s != SPOT_STEP_NONE) {
		return s;
	} else {
		reply_judge(self, c, st->checking, a, st->at, json_object_get(r.doc, "data"));
		json_decref(r.doc);
	}
	for (int at = st->at + 1; at < AT_END && !key_bad; at++) {
		if (at_wanted(self, st->checking, at)) {
			return check_send(self, c, st->checking, at);
		}
	}
	untested_add(c, st->checking);
	check_done(&st->checking->found, a);
	return SPOT_DONE;
}
