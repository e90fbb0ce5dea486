/* Lambda's read calls: types with capacity, regions, images, instances, keys, audit events. */
#include "base/base.h"
#include "cloudsim/lambda/lambda.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

json_t *lambda_region_json(const struct region *r)
{
	return json_pack("{s:s, s:s}", "name", r->name, "description", r->description);
}

static json_t *type_json(const struct market *m, const struct itype *t, const struct pool *p)
{
	int64_t micros = 0;

	for (size_t k = 0; k < m->pools_n && !p; k++) {
		if (m->pools[k].type == t) {
			p = &m->pools[k];
		}
	}
	micros = price_at(&p->price[SIDE_ON_DEMAND], sim_wall(m->sim));
	return json_pack("{s:s, s:s, s:s, s:I, s:{s:i, s:i, s:i, s:i}}", "name", t->name,
	    "description", t->description, "gpu_description", t->gpu, "price_cents_per_hour",
	    (json_int_t)((micros + 5000) / 10000), "specs", "vcpus", t->vcpus, "memory_gib",
	    t->mem_mib / 1024, "storage_gib", t->storage_gib, "gpus", t->gpus);
}

void lambda_types(struct sim_req *rq, struct sim_reply *rep)
{
	const struct market *m = rq->sim->market;
	json_t *data = json_object();

	for (size_t t = 0; t < m->types_n; t++) {
		json_t *regions;

		if (m->types[t].cloud != CLOUD_LAMBDA) {
			continue;
		}
		regions = json_array();
		for (size_t k = 0; k < m->pools_n; k++) {
			if (m->pools[k].type == &m->types[t] && m->pools[k].advertised) {
				json_array_append_new(regions,
				    lambda_region_json(m->pools[k].region));
			}
		}
		json_object_set_new(data, m->types[t].name,
		    json_pack("{s:o, s:o}", "instance_type", type_json(m, &m->types[t], NULL),
			"regions_with_capacity_available", regions));
	}
	/* A type without a GPU is listed too. */
	json_object_set_new(data, "cpu_4x_general",
	    json_pack("{s:{s:s, s:s, s:s, s:i, s:{s:i, s:i, s:i, s:i}}, s:[]}", "instance_type",
		"name", "cpu_4x_general", "description", "4x General Purpose CPU",
		"gpu_description", "N/A", "price_cents_per_hour", 8, "specs", "vcpus", 4,
		"memory_gib", 16, "storage_gib", 64, "gpus", 0, "regions_with_capacity_available"));
	lambda_data(rq, rep, data);
}

void lambda_regions(struct sim_req *rq, struct sim_reply *rep)
{
	const struct market *m = rq->sim->market;
	json_t *data = json_array();

	for (size_t k = 0; k < m->regions_n; k++) {
		if (m->regions[k].cloud == CLOUD_LAMBDA) {
			json_array_append_new(data, lambda_region_json(&m->regions[k]));
		}
	}
	lambda_data(rq, rep, data);
}

/* ---- images ---------------------------------------------------------------------------------- */

static const struct {
	const char *family, *name, *arch;
} families[] = {
	{ "lambda-stack-22-04", "Lambda Stack 22.04", "x86_64" },
	{ "lambda-stack-24-04", "Lambda Stack 24.04", "x86_64" },
	{ "lambda-stack-22-04", "Lambda Stack 22.04", "arm64" },
	{ "lambda-stack-24-04", "Lambda Stack 24.04", "arm64" },
	{ "gpu-base-22-04", "GPU Base 22.04", "x86_64" },
	{ "gpu-base-24-04", "GPU Base 24.04", "x86_64" },
	{ "ubuntu-22-04", "Ubuntu Server 22.04", "x86_64" },
	{ "ubuntu-24-04", "Ubuntu Server 24.04", "x86_64" },
	{ "lambda-stack-legacy-22-04", "Lambda Stack Legacy 22.04", "x86_64" },
};

static void image_id(const char *family, const char *arch, const char *region, char ret[SHA256_HEX])
{
	char text[256];
	int n = snprintf(text, sizeof(text), "%s|%s|%s", family, arch, region);

	sha256_hex(text, (size_t)n, ret);
	ret[32] = '\0';
}

bool lambda_image_known(const struct sim *s, const char *family, const char *id, const char *region,
    const char *arch)
{
	char have[SHA256_HEX];

	(void)s;
	for (size_t k = 0; k < ARRAY_LEN(families); k++) {
		image_id(families[k].family, families[k].arch, region, have);
		if (str_same(families[k].arch, arch) &&
		    (family ? str_same(families[k].family, family) : str_same(have, id))) {
			return true;
		}
	}
	return false;
}

void lambda_images(struct sim_req *rq, struct sim_reply *rep)
{
	const struct market *m = rq->sim->market;
	json_t *data = json_array();
	char id[SHA256_HEX];

	for (size_t k = 0; k < m->regions_n; k++) {
		for (size_t f = 0; f < ARRAY_LEN(families) && m->regions[k].cloud == CLOUD_LAMBDA;
		     f++) {
			image_id(families[f].family, families[f].arch, m->regions[k].name, id);
			json_array_append_new(data,
			    json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "id", id,
				"created_time", "2026-06-01T00:00:00Z", "updated_time",
				"2026-06-01T00:00:00Z", "name", families[f].name, "description",
				families[f].name, "family", families[f].family, "version", "1.0.0",
				"architecture", families[f].arch, "region",
				lambda_region_json(&m->regions[k])));
		}
	}
	lambda_data(rq, rep, data);
}

/* ---- instances ------------------------------------------------------------------------------- */

static const char *status_of(const struct inst *i)
{
	if (i->status) {
		return i->status;
	}
	switch (i->state) {
	case INST_PENDING:
		return "booting";
	case INST_RUNNING:
		return i->reclaimed ? "preempted" : "active";
	case INST_SHUTTING:
		return "terminating";
	case INST_STOPPED:
	case INST_UNHEALTHY:
		return "unhealthy";
	case INST_GONE:
	case INST_NONE:
		break;
	}
	return "terminated";
}

static json_t *action_json(bool available, const char *why)
{
	return available ? json_pack("{s:b}", "available", 1)
			 : json_pack("{s:b, s:s, s:s}", "available", 0, "reason_code", why,
			       "reason_description", why);
}

json_t *lambda_instance_json(const struct inst *i)
{
	bool up = i->state == INST_RUNNING || i->state == INST_UNHEALTHY;
	bool ending = i->state == INST_SHUTTING || i->state == INST_GONE;
	const char *why = ending ? "vm-is-terminating" : "vm-has-not-launched";
	json_t *o, *tags = json_array();

	for (size_t k = 0; k < i->tags_n && !i->sim->conf.lambda_tags_hidden; k++) {
		json_array_append_new(tags,
		    json_pack("{s:s, s:s}", "key", i->tags[k].key, "value", i->tags[k].value));
	}
	o = json_pack("{s:s, s:s, s:s, s:[s], s:O, s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o, s:o}}",
	    "id", i->id, "name", i->name, "status", status_of(i), "ssh_key_names", i->key_name,
	    "file_system_names", json_object_get(i->own, "files"), "region",
	    lambda_region_json(i->pool->region), "instance_type",
	    type_json(i->sim->market, i->pool->type, i->pool), "tags", tags, "actions", "migrate",
	    action_json(false, "vm-is-too-old"), "rebuild", action_json(up, why), "restart",
	    action_json(up, why), "cold_reboot", action_json(up, why), "terminate",
	    action_json(!ending, why));
	/* Absent when there is none, says the description of the field. */
	if (json_array_size(json_object_get(i->own, "mounts")) > 0) {
		json_object_set(o, "file_system_mounts", json_object_get(i->own, "mounts"));
	}
	if (json_array_size(json_object_get(i->own, "rulesets")) > 0) {
		json_object_set(o, "firewall_rulesets", json_object_get(i->own, "rulesets"));
	}
	if (i->hostname) {
		json_object_set_new(o, "hostname", json_string(i->hostname));
	}
	if (!ending && sim_wall(i->sim) >= i->ip_us) {
		json_object_set_new(o, "ip", json_string(i->ip));
		json_object_set_new(o, "private_ip", json_string(i->private_ip));
	}
	/* Live credentials come with every listing: readers must not log it. */
	if (up) {
		json_object_set_new(o, "jupyter_token", json_sprintf("jt%.30s", i->id));
		json_object_set_new(o, "jupyter_url",
		    json_sprintf("https://jupyter-%.8s.invalid/?token=jt%.30s", i->id, i->id));
	}
	return o;
}

static bool is_shown(const struct inst *i)
{
	return i->cloud == CLOUD_LAMBDA && i->state != INST_GONE &&
	    sim_wall(i->sim) >= i->visible_us;
}

void lambda_instances(struct sim_req *rq, struct sim_reply *rep)
{
	json_t *data = json_array();

	for (const struct inst *i = rq->sim->insts; i; i = i->next) {
		if (is_shown(i)) {
			json_array_append_new(data, lambda_instance_json(i));
		}
	}
	lambda_data(rq, rep, data);
}

void lambda_instance(struct sim_req *rq, struct sim_reply *rep, const char *id)
{
	const struct inst *i = inst_find(rq->sim, id);

	if (i && is_shown(i)) {
		lambda_data(rq, rep, lambda_instance_json(i));
	} else {
		reply_fail(rq, rep, 404, "global/object-does-not-exist",
		    "Specified instance does not exist.");
	}
}

/* ---- SSH keys -------------------------------------------------------------------------------- */

const struct lambda_ssh_key *lambda_ssh_key(const struct sim *s, const char *name)
{
	for (size_t k = 0; k < s->lambda->keys_n; k++) {
		if (str_same(s->lambda->keys[k].name, name)) {
			return &s->lambda->keys[k];
		}
	}
	return NULL;
}

static json_t *key_json(const struct lambda_ssh_key *k)
{
	return json_pack("{s:s, s:s, s:s}", "id", k->id, "name", k->name, "public_key",
	    k->public_key);
}

void lambda_keys(struct sim_req *rq, struct sim_reply *rep)
{
	json_t *data = json_array();

	for (size_t k = 0; k < rq->sim->lambda->keys_n; k++) {
		json_array_append_new(data, key_json(&rq->sim->lambda->keys[k]));
	}
	lambda_data(rq, rep, data);
}

void lambda_key_add(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	struct lambda_state *l = rq->sim->lambda;
	const char *name = json_string_value(json_object_get(doc, "name"));
	const char *public = json_string_value(json_object_get(doc, "public_key"));
	json_t *out;

	if (!name || !*name || strlen(name) > 64) {
		reply_fail(rq, rep, 400, "global/invalid-parameters",
		    "name must have 1 to 64 characters");
		return;
	}
	if (lambda_ssh_key(rq->sim, name)) {
		/* No code of its own is listed for POST /ssh-keys. */
		reply_fail(rq, rep, 400, "global/invalid-parameters",
		    "An SSH key with that name exists.");
		return;
	}
	l->keys = realloc(l->keys, (l->keys_n + 1) * sizeof(*l->keys));
	if (!l->keys) {
		abort();
	}
	l->keys[l->keys_n++] =
	    (struct lambda_ssh_key){ sim_id(rq->sim, NULL, "", 16), dup_text(name),
		    dup_text(public ? public : "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQCloudsim") };
	out = key_json(&l->keys[l->keys_n - 1]);
	if (!public) {
		json_object_set_new(out, "private_key",
		    json_string("-----BEGIN OPENSSH PRIVATE "
				"KEY-----\nemulated\n"
				"-----END OPENSSH PRIVATE "
				"KEY-----\n"));
	}
	lambda_data(rq, rep, out);
}

void lambda_key_drop(struct sim_req *rq, struct sim_reply *rep, const char *id)
{
	struct lambda_state *l = rq->sim->lambda;

	for (size_t k = 0; k < l->keys_n; k++) {
		if (!str_same(l->keys[k].id, id)) {
			continue;
		}
		free(l->keys[k].id);
		free(l->keys[k].name);
		free(l->keys[k].public_key);
		l->keys[k] = l->keys[--l->keys_n];
		lambda_data(rq, rep, json_object());
		return;
	}
	reply_fail(rq, rep, 404, "global/object-does-not-exist", "SSH key does not exist.");
}

/* ---- audit ----------------------------------------------------------------------------------- */

#define AUDIT_PAGE 100

static json_t *audit_json(struct sim_req *rq, const struct lambda_audit *a)
{
	char at[TIME_TEXT_MAX];
	const char *instance = arena_printf(rq->arena, "lrn:cloud:instance:%s", a->instance);
	const char *who = a->ours ? "lrn:cloud:api_key:0f1e2d3c4b5a69788796a5b4c3d2e1f0" : NULL;

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s?, s:[s], s:s, s:s?, s:{s:s, s:s, "
			 "s:s}}",
	    "service_name", "cloud", "resource_name", "instance", "action", a->action,
	    "catalog_version", "2025-09-06", "event_id", a->id, "event_time",
	    format_time_s(a->at_us, at), "actor_lrn", who, "resource_lrns", instance,
	    "resource_owner_lrn", "lrn:cloud:account:fedcba9876543210fedcba9876543210",
	    "request_api_key_lrn", who, "additional_details", "instance_lrn", instance,
	    "instance_type", a->type, "region", a->region);
}

void lambda_audit(struct sim_req *rq, struct sim_reply *rep)
{
	const struct lambda_state *l = rq->sim->lambda;
	const char *token = httpd_query(rq->http, "page_token"),
		   *start = httpd_query(rq->http, "start");
	const char *end = httpd_query(rq->http, "end"),
		   *type = httpd_query(rq->http, "resource_type");
	int64_t from = 0, lo = 0, hi = INT64_MAX;
	json_t *list = json_array();
	size_t k;

	if ((token && !parse_i64(token, 0, INT32_MAX, &from)) ||
	    (start && !parse_time_us(start, &lo)) || (end && !parse_time_us(end, &hi))) {
		json_decref(list);
		reply_fail(rq, rep, 400, "global/invalid-parameters",
		    "Invalid start, end or page_token");
		return;
	}
	for (k = (size_t)from; k < l->audit_n && json_array_size(list) < AUDIT_PAGE; k++) {
		if (l->audit[k].at_us >= lo && l->audit[k].at_us <= hi &&
		    (!type || str_same(type, "cloud.instance"))) {
			json_array_append_new(list, audit_json(rq, &l->audit[k]));
		}
	}
	reply_json(rq, rep, 200,
	    json_pack("{s:o, s:o}", "data", list, "page_token",
		k < l->audit_n ? json_sprintf("%zu", k) : json_null()));
}
