/* Fleet requests: JSON or YAML with the same resources part as a job file. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet_priv.h"
#include "core/fleet/fleet_size.h"
#include "core/spec/spec.h"

#define FLEET_NODES_MAX 10000

static enum spot_rc spec_i32(const struct yaml *y, int64_t max, int32_t *ret, struct spot_err *err)
{
	int64_t v = *ret;
	enum spot_rc rc = spec_int(y, 0, max, &v, err);

	*ret = (int32_t)v;
	return rc;
}

static enum spot_rc parse_limits(const struct yaml *y, struct fleet_spec *f, struct spot_err *err)
{
	static const char *const known[] = { "per_pool", "per_zone", "per_region", "per_provider",
		"per_gpu", NULL };
	static const struct spec_unsupported later[] = { { NULL, NULL } };
	int32_t *const into[] = { &f->per_pool_max, &f->per_zone_max, &f->per_region_max,
		&f->per_provider_max, &f->per_gpu_max };
	enum spot_rc rc = spec_keys(y, "limits", known, later, err);

	for (size_t i = 0; rc == SPOT_OK && i < ARRAY_LEN(into); i++) {
		rc = spec_i32(yaml_get(y, known[i]), FLEET_NODES_MAX, into[i], err);
	}
	return rc;
}

/* 4, or "20%". */
static enum spot_rc parse_floor(const struct yaml *y, struct fleet_spec *f, struct spot_err *err)
{
	size_t n = y != NULL && y->kind == YAML_SCALAR ? strlen(y->text) : 0;
	char *end = NULL;
	double share;

	if (n < 2 || y->text[n - 1] != '%') {
		return spec_i32(y, FLEET_NODES_MAX, &f->on_demand_floor, err);
	}
	share = strspn(y->text, "0123456789.") == n - 1 ? strtod(y->text, &end) : -1;
	if (end != y->text + n - 1 || !(share >= 0 && share <= 100)) {
		return yaml_fail(y, err,
		    "on_demand_floor: a number of nodes, or a share from 0%% to 100%%, not '%.40s'",
		    y->text);
	}
	f->floor_pm = (int32_t)(share * 10 + 0.5);
	return SPOT_OK;
}

static enum spot_rc parse_risk(const struct yaml *y, struct fleet_spec *f, struct spot_err *err)
{
	char *end = NULL;
	double v;

	if (y == NULL || yaml_is_null(y)) {
		return SPOT_OK;
	}
	v = y->kind == YAML_SCALAR && y->text[strspn(y->text, "0123456789.")] == '\0'
	    ? strtod(y->text, &end)
	    : -1;
	if (end == NULL || end == y->text || *end != '\0' || !(v >= 0 && v <= 1000)) {
		return yaml_fail(y, err,
		    "risk: a number from 0 to 1000, in hours of the cheapest node");
	}
	f->risk = v;
	return SPOT_OK;
}

static enum spot_rc parse_sizes(struct arena *a, const struct yaml *doc, struct fleet_spec *f,
    struct spot_err *err)
{
	enum spot_rc rc = fleet_scaling_parse(a, doc, f, err);

	if (rc == SPOT_OK) {
		rc = parse_floor(yaml_get(doc, "on_demand_floor"), f, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_risk(yaml_get(doc, "risk"), f, err);
	}
	return rc != SPOT_OK ? rc : spec_i32(yaml_get(doc, "pools_min"), 1000, &f->pools_min, err);
}

/* "f12" and "12" are ids; "any" is a word of job files. */
static bool name_taken(const char *name)
{
	const char *digits = name + (*name == 'f');

	return strcmp(name, "any") == 0 ||
	    (*digits != '\0' && strspn(digits, "0123456789") == strlen(digits));
}

static enum spot_rc parse_name(const struct yaml *doc, const char **ret, struct spot_err *err)
{
	enum spot_rc rc = spec_text(yaml_get(doc, "name"), ret, err);

	if (rc == SPOT_OK && (*ret == NULL || **ret == '\0' || strlen(*ret) > 60)) {
		return yaml_fail(doc, err, "fleet: name is missing or longer than 60");
	}
	if (rc == SPOT_OK && name_taken(*ret)) {
		return yaml_fail(yaml_get(doc, "name"), err,
		    "name: '%s' reads as an id, or means any fleet; choose another", *ret);
	}
	return rc;
}

enum spot_rc fleet_spec_parse(struct arena *a, struct str text, struct fleet_spec **ret,
    const char **ret_name, struct spot_err *err)
{
	static const char *const known[] = { "name", "nodes", "gpus", "resources", "limits",
		"on_demand_floor", "pools_min", "risk", "rebalance", "team", "project",
		"idle_timeout", "headroom", "scale", "expires", "schedule", "demand", NULL };
	static const struct spec_unsupported later[] = { { NULL, NULL } };
	struct jobspec_ctx x = { .arena = a };
	struct fleet_spec *f = arena_alloc(a, sizeof(*f));
	struct job_spec task = { 0 };
	const char *name = NULL;
	struct yaml **docs;
	size_t n;
	enum spot_rc rc = yaml_parse(a, text, &docs, &n, err);

	if (rc != SPOT_OK) {
		return rc;
	}
	if (n != 1 || docs[0]->kind != YAML_MAP) {
		return err_set(err, SPOT_INVALID,
		    "a fleet is one mapping (name, nodes or gpus, resources, ...)");
	}
	*f = (struct fleet_spec){ .pools_min = 5,
		.team = "",
		.project = "",
		.gpus_of = "",
		.risk = FLEET_RISK };
	rc = spec_keys(docs[0], "fleet", known, later, err);
	if (rc == SPOT_OK) {
		rc = parse_name(docs[0], &name, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_sizes(a, docs[0], f, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_resources(&x, yaml_get(docs[0], "resources"), &task, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_limits(yaml_get(docs[0], "limits"), f, err);
	}
	if (rc == SPOT_OK) {
		rc = fleet_rebalance_parse(yaml_get(docs[0], "rebalance"), &f->rebalance, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(docs[0], "team"), &f->team, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(docs[0], "project"), &f->project, err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	f->asks = task.asks;
	f->asks_n = task.asks_n;
	*ret = f;
	*ret_name = name;
	return SPOT_OK;
}

void fleet_spec_resize(struct fleet_spec *s, int32_t size)
{
	bool by_gpus = s->scaling != NULL ? s->scaling->by_gpus : s->nodes == 0 && s->gpus > 0;

	s->nodes = by_gpus ? 0 : size;
	s->gpus = by_gpus ? size : 0;
}

json_t *fleet_spec_to_json(const struct fleet_spec *f)
{
	json_t *asks = json_array(), *o;

	for (size_t i = 0; i < f->asks_n; i++) {
		json_array_append_new(asks, resource_ask_to_json(&f->asks[i]));
	}
	o = json_pack("{s:i, s:i, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:s, "
		      "s:s, s:o}",
	    "nodes", f->nodes, "gpus", f->gpus, "asks", asks, "per_pool_max", f->per_pool_max,
	    "per_zone_max", f->per_zone_max, "per_provider_max", f->per_provider_max,
	    "per_region_max", f->per_region_max, "per_gpu_max", f->per_gpu_max, "on_demand_floor",
	    f->on_demand_floor, "on_demand_floor_pm", f->floor_pm, "pools_min", f->pools_min,
	    "gpus_of", f->gpus_of != NULL ? f->gpus_of : "", "risk", f->risk, "team", f->team,
	    "project", f->project, "rebalance", fleet_rebalance_json(&f->rebalance));
	if (f->scaling != NULL) {
		json_object_set_new(o, "scaling", fleet_scaling_to_json(f->scaling));
	}
	return o;
}

enum spot_rc fleet_spec_from_json(struct arena *a, const json_t *j, struct fleet_spec **ret,
    struct spot_err *err)
{
	struct fleet_spec *f = arena_alloc(a, sizeof(*f));
	const json_t *asks = json_object_get(j, "asks");
	struct spot_err e = { 0 };

	f->nodes = (int32_t)json_i64(j, "nodes", 0, &e);
	f->gpus = (int32_t)json_i64(j, "gpus", 0, &e);
	f->per_pool_max = (int32_t)json_i64(j, "per_pool_max", 0, &e);
	f->per_zone_max = (int32_t)json_i64(j, "per_zone_max", 0, &e);
	f->per_provider_max = (int32_t)json_i64(j, "per_provider_max", 0, &e);
	f->per_region_max = (int32_t)json_i64(j, "per_region_max", 0, &e);
	f->per_gpu_max = (int32_t)json_i64(j, "per_gpu_max", 0, &e);
	f->on_demand_floor = (int32_t)json_i64(j, "on_demand_floor", 0, &e);
	f->floor_pm = (int32_t)json_i64(j, "on_demand_floor_pm", 0, &e);
	f->gpus_of = arena_strdup(a, json_str(j, "gpus_of", "", &e));
	f->risk = json_object_get(j, "risk") != NULL ? json_number_value(json_object_get(j, "risk"))
						     : FLEET_RISK;
	fleet_rebalance_read(a, json_object_get(j, "rebalance"), &f->rebalance, &e);
	f->pools_min = (int32_t)json_i64(j, "pools_min", 5, &e);
	f->team = arena_strdup(a, json_str(j, "team", "", &e));
	f->project = arena_strdup(a, json_str(j, "project", "", &e));
	f->asks = arena_array(a, json_array_size(asks) + 1, sizeof(*f->asks));
	for (size_t i = 0; i < json_array_size(asks); i++) {
		resource_ask_from_json(a, json_array_get(asks, i), &f->asks[f->asks_n++], &e);
	}
	if (json_is_object(json_object_get(j, "scaling"))) {
		f->scaling = fleet_scaling_from_json(a, json_object_get(j, "scaling"), &e);
	}
	if (e.rc != SPOT_OK) {
		return err_set(err, e.rc, "fleet.spec: %s", e.text);
	}
	*ret = f;
	return SPOT_OK;
}
