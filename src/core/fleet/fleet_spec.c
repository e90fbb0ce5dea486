/* Fleet requests: JSON or YAML with the same resources part as a job file. */
#include "base/base.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/text/yaml.h"
#include "core/fleet/fleet_priv.h"
#include "core/spec/spec_parts.h"

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

/* 16 counts GPUs; {H100: 16} is as much work as sixteen H100 do. */
static enum spot_rc parse_gpus(const struct yaml *y, struct fleet_spec *f, struct spot_err *err)
{
	if (y == NULL || y->kind != YAML_MAP) {
		return spec_i32(y, INT64_C(8) * FLEET_NODES_MAX, &f->gpus, err);
	}
	if (y->children != 1) {
		return yaml_fail(y, err, "gpus: one GPU to count in, such as {H100: 16}");
	}
	f->gpus_of = y->child->key;
	if (gpu_perf_find(f->gpus_of) == NULL) {
		return yaml_fail(y->child, err,
		    "gpus: how fast '%.40s' is is not known; name a GPU of 'spotctl gpus'",
		    f->gpus_of);
	}
	return spec_i32(y->child, INT64_C(8) * FLEET_NODES_MAX, &f->gpus, err);
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

static bool is_given(const struct yaml *y)
{
	return y != NULL && !yaml_is_null(y);
}

static enum spot_rc parse_sizes(const struct yaml *doc, struct fleet_spec *f, struct spot_err *err)
{
	enum spot_rc rc = spec_i32(yaml_get(doc, "nodes"), FLEET_NODES_MAX, &f->nodes, err);

	if (rc == SPOT_OK) {
		rc = parse_gpus(yaml_get(doc, "gpus"), f, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_floor(yaml_get(doc, "on_demand_floor"), f, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_risk(yaml_get(doc, "risk"), f, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_i32(yaml_get(doc, "pools_min"), 1000, &f->pools_min, err);
	}
	/* A size without a value must not count as zero machines. */
	if (rc == SPOT_OK && is_given(yaml_get(doc, "nodes")) == is_given(yaml_get(doc, "gpus"))) {
		return yaml_fail(doc, err, "fleet: give nodes or gpus, one of the two");
	}
	return rc;
}

enum spot_rc fleet_spec_parse(struct arena *a, struct str text, struct fleet_spec **ret,
    const char **ret_name, struct spot_err *err)
{
	static const char *const known[] = { "name", "nodes", "gpus", "resources", "limits",
		"on_demand_floor", "pools_min", "risk", "rebalance", "team", "project", NULL };
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
		rc = spec_text(yaml_get(docs[0], "name"), &name, err);
	}
	if (rc == SPOT_OK && (name == NULL || *name == '\0' || strlen(name) > 60)) {
		return yaml_fail(docs[0], err, "fleet: name is missing or longer than 60");
	}
	if (rc == SPOT_OK) {
		rc = parse_sizes(docs[0], f, err);
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

json_t *fleet_spec_to_json(const struct fleet_spec *f)
{
	json_t *asks = json_array();

	for (size_t i = 0; i < f->asks_n; i++) {
		json_array_append_new(asks, resource_ask_to_json(&f->asks[i]));
	}
	return json_pack("{s:i, s:i, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:s, "
			 "s:s, s:o}",
	    "nodes", f->nodes, "gpus", f->gpus, "asks", asks, "per_pool_max", f->per_pool_max,
	    "per_zone_max", f->per_zone_max, "per_provider_max", f->per_provider_max,
	    "per_region_max", f->per_region_max, "per_gpu_max", f->per_gpu_max, "on_demand_floor",
	    f->on_demand_floor, "on_demand_floor_pm", f->floor_pm, "pools_min", f->pools_min,
	    "gpus_of", f->gpus_of != NULL ? f->gpus_of : "", "risk", f->risk, "team", f->team,
	    "project", f->project, "rebalance", fleet_rebalance_json(&f->rebalance));
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
	if (e.rc != SPOT_OK) {
		return err_set(err, e.rc, "fleet.spec: %s", e.text);
	}
	*ret = f;
	return SPOT_OK;
}
