/* The `resources` part of a job file: SkyPilot's three forms of accelerators, any_of and
 * ordered. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

#include <ctype.h>
#include <math.h>

#define ASKS_MAX 64
#define GPUS_MAX 32

static const char *const resource_keys[] = { "infra", "cloud", "region", "zone", "accelerators",
	"instance_type", "use_spot", "cpus", "memory", "max_hourly_cost", "job_recovery", "any_of",
	"ordered", "disk_size", "disk_tier", "labels", "priority", "network_tier", NULL };
static const struct spec_unsupported resource_later[] = {
	{ "image_id", "images are pinned by the provider settings of the daemon" },
	{ "ports", "jobs have no inbound ports" },
	{ "autostop", "capacity that no job needs is always given back" },
	{ "local_disk", "choose an instance_type that has it" },
	{ "accelerator_args", "TPUs are not supported" }, { NULL, NULL }
};

static enum spot_rc gpu_add(struct jobspec_ctx *x, struct resource_ask *r, const struct yaml *at,
    const char *name, const char *count, struct spot_err *err)
{
	double n = 1;

	if (r->gpus_n >= GPUS_MAX) {
		return yaml_fail(at, err, "accelerators: more than %d alternatives", GPUS_MAX);
	}
	if (str_empty(name) || !isalpha((unsigned char)*name) || strchr(name, ':') != NULL) {
		return yaml_fail(at, err,
		    "accelerators: write NAME:COUNT, such as A100:8, not '%s'", name);
	}
	if (count != NULL && (!parse_f64(count, 0.001, 64, &n))) {
		return yaml_fail(at, err, "accelerators: '%s' is not a count between 0.001 and 64",
		    count);
	}
	if (r->gpus == NULL) {
		r->gpus = arena_array(x->arena, GPUS_MAX, sizeof(*r->gpus));
	}
	r->gpus[r->gpus_n++] = (struct gpu_ask){ .gpu = name, .milli = (int32_t)lround(n * 1000) };
	return SPOT_OK;
}

static enum spot_rc gpu_text(struct jobspec_ctx *x, struct resource_ask *r, const struct yaml *at,
    const char *text, struct spot_err *err)
{
	const char *colon = strchr(text, ':');

	if (colon == NULL) {
		return gpu_add(x, r, at, text, NULL, err);
	}
	return gpu_add(x, r, at, arena_strndup(x->arena, text, (size_t)(colon - text)), colon + 1,
	    err);
}

static enum spot_rc parse_gpus(struct jobspec_ctx *x, const struct yaml *y, struct resource_ask *r,
    struct spot_err *err)
{
	enum spot_rc rc = SPOT_OK;

	r->gpus = NULL;
	r->gpus_n = 0;
	if (yaml_is_null(y)) {
		return SPOT_OK;
	}
	if (y->kind == YAML_SCALAR) {
		return gpu_text(x, r, y, y->text, err);
	}
	for (const struct yaml *i = y->child; i != NULL && rc == SPOT_OK; i = i->next) {
		if (i->kind != YAML_SCALAR) {
			return yaml_fail(i, err, "accelerators: write NAME:COUNT");
		}
		/* any one of {L4: 1, A10G: 1}, or of SkyPilot's spelling {L4:1, A10G:1} */
		rc = y->kind != YAML_MAP ? gpu_text(x, r, i, i->text, err)
		    : yaml_is_null(i)    ? gpu_text(x, r, i, i->key, err)
					 : gpu_add(x, r, i, i->key, i->text, err);
	}
	return rc;
}

static enum spot_rc parse_infra(struct jobspec_ctx *x, const struct yaml *y, struct resource_ask *r,
    struct spot_err *err)
{
	const char **parts[] = { &r->provider, &r->region, &r->zone };
	const char *text = NULL;
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK || text == NULL) {
		return rc;
	}
	/* infra is one value and replaces the outer one as a whole */
	r->provider = r->region = r->zone = NULL;
	for (size_t i = 0; text != NULL; i++) {
		const char *slash = strchr(text, '/');
		size_t n = slash != NULL ? (size_t)(slash - text) : strlen(text);

		if (i >= ARRAY_LEN(parts)) {
			return yaml_fail(y, err, "infra: write provider[/region[/zone]]");
		}
		if (n > 0 && !(n == 1 && *text == '*')) {
			*parts[i] = arena_strndup(x->arena, text, n);
		}
		text = slash != NULL ? slash + 1 : NULL;
	}
	return SPOT_OK;
}

/* Parses a minimum: "4", "4+", "32GB", "32GiB+". */
static enum spot_rc parse_atleast(const struct yaml *y, const char *what, double unit, int64_t *ret,
    struct spot_err *err)
{
	char number[32];
	size_t n;
	double v;

	if (y == NULL || yaml_is_null(y)) {
		return SPOT_OK;
	}
	if (y->kind != YAML_SCALAR) {
		return yaml_fail(y, err, "%s: a number, or a number and +", what);
	}
	n = strspn(y->text, "0123456789.");
	if (n >= sizeof(number)) {
		return yaml_fail(y, err, "%s: too long", what);
	}
	memcpy(number, y->text, n);
	number[n] = '\0';
	const char *rest = y->text + n;

	if (unit > 1 && (str_prefix(rest, "GiB") || str_prefix(rest, "GB"))) {
		rest += rest[1] == 'i' ? 3 : 2;
	}
	if (*rest == '+') {
		rest++;
	}
	if (*rest != '\0' || !parse_f64(number, 0, 1e6, &v)) {
		return yaml_fail(y, err, "%s: '%s' is not a number, or a number and +", what,
		    y->text);
	}
	*ret = (int64_t)llround(v * unit);
	return SPOT_OK;
}

enum spot_rc spec_money(const struct yaml *y, const char *what, int64_t *ret, struct spot_err *err)
{
	const char *text = NULL;
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK || text == NULL) {
		return rc;
	}
	if (!parse_usd_micros(text, ret) || *ret <= 0) {
		return yaml_fail(y, err, "%s: '%s' is not an amount of dollars above 0", what,
		    text);
	}
	return SPOT_OK;
}

static enum spot_rc parse_recovery(const struct yaml *y, struct job_spec *s, struct spot_err *err)
{
	static const char *const known[] = { "strategy", "max_restarts_on_errors", NULL };
	static const struct spec_unsupported later[] = {
		{ "recover_on_exit_codes", "use max_restarts_on_errors" }, { NULL, NULL }
	};
	int64_t n = s->max_restarts;
	enum spot_rc rc;

	if (y == NULL || y->kind == YAML_SCALAR) {
		return SPOT_OK;
	}
	rc = spec_keys(y, "job_recovery", known, later, err);
	if (rc == SPOT_OK) {
		rc = spec_int(yaml_get(y, "max_restarts_on_errors"), 0, 1000, &n, err);
	}
	s->max_restarts = (int32_t)n;
	return rc;
}

/* Fields given in y replace those in r (an any_of entry over its outer defaults). */
static enum spot_rc parse_one(struct jobspec_ctx *x, const struct yaml *y, struct job_spec *s,
    struct resource_ask *r, struct spot_err *err)
{
	const struct yaml *gpus = yaml_get(y, "accelerators");
	const struct yaml *spot = yaml_get(y, "use_spot");
	int64_t priority = s->priority;
	bool use_spot = false;
	enum spot_rc rc = spec_keys(y, "resources", resource_keys, resource_later, err);

	if (rc == SPOT_OK) {
		rc = parse_infra(x, yaml_get(y, "infra"), r, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "cloud"), &r->provider, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "region"), &r->region, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "zone"), &r->zone, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "instance_type"), &r->instance_type, err);
	}
	if (rc == SPOT_OK && gpus != NULL) {
		rc = parse_gpus(x, gpus, r, err);
	}
	if (rc == SPOT_OK && spot != NULL && !yaml_is_null(spot)) {
		rc = spec_bool(spot, &use_spot, err);
		r->use_spot = use_spot ? 1 : 0;
	}
	if (rc == SPOT_OK) {
		rc = parse_atleast(yaml_get(y, "cpus"), "cpus", 1, &r->vcpus_min, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_atleast(yaml_get(y, "memory"), "memory", 1024, &r->mem_mib_min, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_money(yaml_get(y, "max_hourly_cost"), "max_hourly_cost",
		    &r->max_hourly_micros, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_recovery(yaml_get(y, "job_recovery"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_network_tier(yaml_get(y, "network_tier"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_int(yaml_get(y, "priority"), -1000, 1000, &priority, err);
	}
	s->priority = (int32_t)priority;
	s->priority_said |=
	    yaml_get(y, "priority") != NULL && !yaml_is_null(yaml_get(y, "priority"));
	if (rc == SPOT_OK && yaml_get(y, "disk_tier") != NULL) {
		jobspec_warn(x, yaml_get(y, "disk_tier"), "disk_tier has no effect");
	}
	return rc;
}

enum spot_rc spec_resources(struct jobspec_ctx *x, const struct yaml *y, struct job_spec *s,
    struct spot_err *err)
{
	struct resource_ask base = { .use_spot = -1 };
	const struct yaml *any = yaml_get(y, "any_of"), *ordered = yaml_get(y, "ordered");
	const struct yaml *list = any != NULL ? any : ordered;
	enum spot_rc rc = SPOT_OK;

	if (y != NULL && !yaml_is_null(y)) {
		if (y->kind != YAML_MAP) {
			return yaml_fail(y, err, "resources: must be a mapping");
		}
		rc = parse_one(x, y, s, &base, err);
	}
	if (rc == SPOT_OK && any != NULL && ordered != NULL) {
		return yaml_fail(ordered, err, "resources: any_of or ordered, not both");
	}
	if (rc != SPOT_OK || list == NULL) {
		s->asks = arena_array(x->arena, 1, sizeof(base));
		s->asks[0] = base;
		s->asks_n = 1;
		return rc;
	}
	if (list->kind != YAML_SEQ || list->children == 0 || list->children > ASKS_MAX) {
		return yaml_fail(list, err, "%s: a list of 1 to %d resources", list->key, ASKS_MAX);
	}
	s->asks = arena_array(x->arena, list->children, sizeof(base));
	for (const struct yaml *i = list->child; i != NULL && rc == SPOT_OK; i = i->next) {
		if (i->kind != YAML_MAP || yaml_get(i, "any_of") != NULL ||
		    yaml_get(i, "ordered") != NULL) {
			return yaml_fail(i, err,
			    "%s: each entry is a mapping without any_of/ordered", list->key);
		}
		s->asks[s->asks_n] = base;
		rc = parse_one(x, i, s, &s->asks[s->asks_n++], err);
	}
	return rc;
}
