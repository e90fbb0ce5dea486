/* Writes the normalised job of job.spec, and reads it back. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

static void set_text(json_t *o, const char *key, const char *v)
{
	if (v != NULL) {
		json_object_set_new(o, key, json_string(v));
	}
}

static void set_int(json_t *o, const char *key, int64_t v)
{
	if (v != 0) {
		json_object_set_new(o, key, json_integer(v));
	}
}

json_t *resource_ask_to_json(const struct resource_ask *r)
{
	json_t *o = json_object(), *gpus = json_array();

	set_text(o, "provider", r->provider);
	set_text(o, "region", r->region);
	set_text(o, "zone", r->zone);
	set_text(o, "instance_type", r->instance_type);
	for (size_t i = 0; i < r->gpus_n; i++) {
		json_array_append_new(gpus,
		    json_pack("{s:s, s:i}", "gpu", r->gpus[i].gpu, "milli", r->gpus[i].milli));
	}
	json_object_set_new(o, "gpus", gpus);
	if (r->tiers_n > 0) {
		json_t *tiers = json_array();

		for (size_t i = 0; i < r->tiers_n; i++) {
			json_array_append_new(tiers, json_string(r->tiers[i]));
		}
		json_object_set_new(o, "tiers", tiers);
	}
	json_object_set_new(o, "use_spot", json_integer(r->use_spot));
	set_int(o, "vcpus_min", r->vcpus_min);
	set_int(o, "mem_mib_min", r->mem_mib_min);
	set_int(o, "max_hourly_micros", r->max_hourly_micros);
	return o;
}

static json_t *checkpoint_to_json(const struct checkpoint_spec *c)
{
	json_t *o = json_object();

	set_text(o, "path", c->path);
	set_text(o, "signal", c->signal);
	set_text(o, "command", c->command);
	set_int(o, "interval_s", c->interval_s);
	if (c->interval_off) {
		json_object_set_new(o, "interval_off", json_true());
	}
	set_int(o, "budget_s", c->budget_s);
	set_int(o, "size_bytes", c->size_bytes);
	return o;
}

json_t *jobspec_to_json(const struct job_spec *s)
{
	json_t *o = json_object(), *envs = json_object(), *secrets = json_array(),
	       *mounts = json_array(), *asks = json_array();

	set_text(o, "name", s->name);
	set_text(o, "setup", s->setup);
	set_text(o, "run", s->run);
	for (size_t i = 0; i < s->envs_n; i++) {
		json_object_set_new(envs, s->envs[i].name, json_string(s->envs[i].value));
	}
	for (size_t i = 0; i < s->secrets_n; i++) {
		json_array_append_new(secrets, json_string(s->secrets[i].name));
	}
	for (size_t i = 0; i < s->mounts_n; i++) {
		json_array_append_new(mounts,
		    json_pack("{s:s, s:s}", "dst", s->mounts[i].dst, "uri", s->mounts[i].uri));
	}
	for (size_t i = 0; i < s->asks_n; i++) {
		json_array_append_new(asks, resource_ask_to_json(&s->asks[i]));
	}
	json_object_set_new(o, "envs", envs);
	json_object_set_new(o, "secrets", secrets);
	json_object_set_new(o, "mounts", mounts);
	json_object_set_new(o, "asks", asks);
	set_int(o, "num_nodes", s->num_nodes);
	set_int(o, "priority", s->priority);
	set_int(o, "max_restarts", s->max_restarts);
	set_text(o, "team", s->team);
	set_text(o, "project", s->project);
	set_text(o, "class", s->class);
	set_int(o, "deadline_us", s->deadline_us);
	set_int(o, "start_after_us", s->start_after_us);
	set_text(o, "data_uri", s->data_uri);
	set_text(o, "data_provider", s->data_provider);
	set_text(o, "data_region", s->data_region);
	set_int(o, "data_bytes", s->data_bytes);
	if (s->off_peak >= 0) {
		json_object_set_new(o, "off_peak", json_boolean(s->off_peak));
	}
	if (s->patience_s >= 0) {
		json_object_set_new(o, "patience_s", json_integer((json_int_t)s->patience_s));
	}
	if (s->late_cheapest) {
		json_object_set_new(o, "late_cheapest", json_true());
	}
	set_int(o, "max_duration_s", s->max_duration_s);
	set_int(o, "work_s", s->work_s);
	set_text(o, "fleet", s->fleet);
	json_object_set_new(o, "interruptible", json_boolean(s->interruptible));
	if (s->not_preemptible) {
		json_object_set_new(o, "not_preemptible", json_true());
	}
	if (s->elastic) {
		json_object_set_new(o, "elastic", json_string("replace"));
	}
	set_text(o, "network_tier", s->together ? "best" : NULL);
	json_object_set_new(o, "checkpoint", checkpoint_to_json(&s->checkpoint));
	return o;
}

json_t *jobspec_secrets(const struct job_spec *s)
{
	json_t *o = json_object();

	for (size_t i = 0; i < s->secrets_n; i++) {
		json_object_set_new(o, s->secrets[i].name, json_string(s->secrets[i].value));
	}
	return o;
}

/* Copies a text, since the document is freed later. */
static const char *get_text(struct arena *a, const json_t *o, const char *key, const char *dflt,
    struct spot_err *err)
{
	const char *v = json_str(o, key, NULL, err);

	return v != NULL ? arena_strdup(a, v) : dflt;
}

static void tiers_from_json(struct arena *a, const json_t *tiers, struct resource_ask *r)
{
	size_t n = json_array_size(tiers);

	r->tiers = arena_array(a, n + 1, sizeof(*r->tiers));
	for (size_t i = 0; i < n; i++) {
		const char *gpu = json_string_value(json_array_get(tiers, i));

		r->tiers[r->tiers_n++] = gpu != NULL ? arena_strdup(a, gpu) : "";
	}
}

void resource_ask_from_json(struct arena *a, const json_t *o, struct resource_ask *r,
    struct spot_err *err)
{
	const json_t *gpus = json_object_get(o, "gpus");
	size_t n = json_array_size(gpus);

	r->provider = get_text(a, o, "provider", NULL, err);
	r->region = get_text(a, o, "region", NULL, err);
	r->zone = get_text(a, o, "zone", NULL, err);
	r->instance_type = get_text(a, o, "instance_type", NULL, err);
	r->gpus = arena_array(a, n + 1, sizeof(*r->gpus));
	for (size_t i = 0; i < n; i++) {
		const json_t *g = json_array_get(gpus, i);

		r->gpus[r->gpus_n++] = (struct gpu_ask){
			.gpu = get_text(a, g, "gpu", "", err),
			.milli = (int32_t)json_i64(g, "milli", 1000, err),
		};
	}
	tiers_from_json(a, json_object_get(o, "tiers"), r);
	r->use_spot = (int)json_i64(o, "use_spot", -1, err);
	r->vcpus_min = json_i64(o, "vcpus_min", 0, err);
	r->mem_mib_min = json_i64(o, "mem_mib_min", 0, err);
	r->max_hourly_micros = json_i64(o, "max_hourly_micros", 0, err);
}

static void checkpoint_from_json(struct arena *a, const json_t *o, struct checkpoint_spec *c,
    struct spot_err *err)
{
	c->path = get_text(a, o, "path", NULL, err);
	c->signal = get_text(a, o, "signal", "USR1", err);
	c->command = get_text(a, o, "command", NULL, err);
	c->interval_s = json_i64(o, "interval_s", 0, err);
	c->interval_off = json_bool(o, "interval_off", false, err);
	c->budget_s = json_i64(o, "budget_s", 60, err);
	c->size_bytes = json_i64(o, "size_bytes", 0, err);
}

static void lists_from_json(struct arena *a, const json_t *j, struct job_spec *s,
    struct spot_err *err)
{
	json_t *envs = json_object_get(j, "envs"), *v;
	const json_t *mounts = json_object_get(j, "mounts"), *asks = json_object_get(j, "asks");
	const char *name;
	size_t i;

	s->envs = arena_array(a, json_object_size(envs) + 1, sizeof(*s->envs));
	json_object_foreach (envs, name, v) {
		s->envs[s->envs_n++] = (struct job_env){ .name = arena_strdup(a, name),
			.value = arena_strdup(a, json_string_value(v)) };
	}
	s->mounts = arena_array(a, json_array_size(mounts) + 1, sizeof(*s->mounts));
	json_array_foreach (mounts, i, v) {
		s->mounts[s->mounts_n++] =
		    (struct job_mount){ .dst = get_text(a, v, "dst", "", err),
			    .uri = get_text(a, v, "uri", "", err) };
	}
	s->asks = arena_array(a, json_array_size(asks) + 1, sizeof(*s->asks));
	json_array_foreach (asks, i, v) {
		resource_ask_from_json(a, v, &s->asks[s->asks_n++], err);
	}
	if (s->asks_n == 0) {
		s->asks[s->asks_n++] = (struct resource_ask){ .use_spot = -1 };
	}
}

enum spot_rc jobspec_from_json(struct arena *a, const json_t *j, struct job_spec **ret,
    struct spot_err *err)
{
	struct job_spec *s = arena_alloc(a, sizeof(*s));
	struct spot_err e = { 0 };

	if (!json_is_object(j)) {
		return err_set(err, SPOT_INTERNAL, "job.spec is not an object");
	}
	s->name = get_text(a, j, "name", "job", &e);
	s->setup = get_text(a, j, "setup", NULL, &e);
	s->run = get_text(a, j, "run", "", &e);
	lists_from_json(a, j, s, &e);
	s->num_nodes = (int32_t)json_i64(j, "num_nodes", 1, &e);
	s->priority = (int32_t)json_i64(j, "priority", 0, &e);
	s->max_restarts = (int32_t)json_i64(j, "max_restarts", 0, &e);
	s->team = get_text(a, j, "team", "", &e);
	s->project = get_text(a, j, "project", "", &e);
	s->class = get_text(a, j, "class", "training", &e);
	s->deadline_us = json_i64(j, "deadline_us", 0, &e);
	s->start_after_us = json_i64(j, "start_after_us", 0, &e);
	s->data_uri = get_text(a, j, "data_uri", NULL, &e);
	s->data_provider = get_text(a, j, "data_provider", NULL, &e);
	s->data_region = get_text(a, j, "data_region", NULL, &e);
	s->data_bytes = json_i64(j, "data_bytes", 0, &e);
	s->off_peak =
	    json_object_get(j, "off_peak") == NULL ? -1 : json_bool(j, "off_peak", false, &e);
	s->patience_s = json_i64(j, "patience_s", -1, &e);
	s->late_cheapest = json_bool(j, "late_cheapest", false, &e);
	s->max_duration_s = json_i64(j, "max_duration_s", 0, &e);
	s->work_s = json_i64(j, "work_s", 0, &e);
	s->fleet = get_text(a, j, "fleet", NULL, &e);
	s->interruptible = json_bool(j, "interruptible", true, &e);
	s->not_preemptible = json_bool(j, "not_preemptible", false, &e);
	s->elastic = strcmp(json_str(j, "elastic", "", &e), "replace") == 0;
	s->together = strcmp(json_str(j, "network_tier", "", &e), "best") == 0;
	checkpoint_from_json(a, json_object_get(j, "checkpoint"), &s->checkpoint, &e);
	if (e.rc != SPOT_OK) {
		return err_set(err, e.rc, "job.spec: %s", e.text);
	}
	*ret = s;
	return SPOT_OK;
}
