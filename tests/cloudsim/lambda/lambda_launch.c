/* Launch, terminate, restart, rename. No idempotency: the same request twice makes two
 * instances. */
#include "base/base.h"
#include "cloudsim/lambda/lambda.h"
#include "base/text/text.h"

#define USER_DATA_MAX (1 << 20)

struct want {
	const char *region, *type, *name, *hostname, *user_data, *image_family, *image_id, *ssh_key;
	const json_t *tags;
	json_t *attached; /* goes to the instance */
	struct pool *pool;
	const struct itype *itype;
};

static bool invalid_fail(struct sim_req *rq, struct sim_reply *rep, const char *what)
{
	reply_fail(rq, rep, 400, "global/invalid-parameters", "%s", what);
	return false;
}

static bool tag_key_valid(const char *key)
{
	static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789-:";

	return key[0] >= 'a' && key[0] <= 'z' && key[1] && !key[strspn(key, rest)] &&
	    strlen(key) <= 55;
}

static bool tags_valid(struct sim_req *rq, struct sim_reply *rep, const json_t *tags)
{
	size_t k;
	json_t *t;

	if (!tags) {
		return true;
	}
	if (!json_is_array(tags)) {
		return invalid_fail(rq, rep, "tags must be an array");
	}
	json_array_foreach (tags, k, t) {
		const char *key = json_string_value(json_object_get(t, "key"));
		const char *value = json_string_value(json_object_get(t, "value"));

		if (!key || !value || !tag_key_valid(key) || strlen(value) > 128) {
			return invalid_fail(rq, rep,
			    "tags: key must match ^[a-z][a-z0-9-:]+$ and have at most 55 "
			    "characters, value at "
			    "most 128");
		}
	}
	return true;
}

static bool hostname_valid(const char *h)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

	return *h && *h != '-' && strlen(h) <= 63 && !h[strspn(h, set)];
}

static bool read_want(struct sim_req *rq, struct sim_reply *rep, const json_t *doc, struct want *w)
{
	static const char *const known[] = { "region_name", "instance_type_name", "ssh_key_names",
		"name", "hostname", "image", "user_data", "tags", "file_system_names",
		"file_system_mounts", "firewall_rulesets", "quantity", NULL };
	const json_t *keys = json_object_get(doc, "ssh_key_names"),
		     *image = json_object_get(doc, "image");
	struct spot_err err = { 0 };

	if (json_unknown_key(doc, known)) {
		return invalid_fail(rq, rep,
		    arena_printf(rq->arena, "Unknown field %s", json_unknown_key(doc, known)));
	}
	w->region = json_need_str(doc, "region_name", &err);
	w->type = json_need_str(doc, "instance_type_name", &err);
	w->name = json_str(doc, "name", "", &err);
	w->hostname = json_str(doc, "hostname", NULL, &err);
	w->user_data = json_str(doc, "user_data", NULL, &err);
	w->tags = json_object_get(doc, "tags");
	if (err.rc != SPOT_OK) {
		return invalid_fail(rq, rep, err.text);
	}
	if (!json_is_array(keys) || json_array_size(keys) != 1 ||
	    !json_is_string(json_array_get(keys, 0))) {
		return invalid_fail(rq, rep, "ssh_key_names must hold exactly one name");
	}
	w->ssh_key = json_string_value(json_array_get(keys, 0));
	if (strlen(w->name) > 64) {
		return invalid_fail(rq, rep, "name must have at most 64 characters");
	}
	if (w->hostname && !hostname_valid(w->hostname)) {
		return invalid_fail(rq, rep, "hostname must match ^[a-z0-9][0-9a-z-]{0,62}$");
	}
	if (w->user_data && strlen(w->user_data) > USER_DATA_MAX) {
		return invalid_fail(rq, rep, "user_data must have at most 1 MB");
	}
	if (image) {
		w->image_family = json_string_value(json_object_get(image, "family"));
		w->image_id = json_string_value(json_object_get(image, "id"));
		if (!w->image_family == !w->image_id) {
			return invalid_fail(rq, rep, "image needs either id or family");
		}
	}
	return tags_valid(rq, rep, w->tags);
}

static bool missing_fail(struct sim_req *rq, struct sim_reply *rep, const char *what)
{
	reply_fail(rq, rep, 400, "global/object-does-not-exist", "%s does not exist.", what);
	return false;
}

static bool want_resolve(struct sim_req *rq, struct sim_reply *rep, struct want *w)
{
	const struct market *m = rq->sim->market;

	w->itype = market_type(m, CLOUD_LAMBDA, w->type);
	if (!market_region(m, CLOUD_LAMBDA, w->region)) {
		return missing_fail(rq, rep, "Region");
	}
	if (!w->itype) {
		return missing_fail(rq, rep, "Instance type");
	}
	if (!lambda_ssh_key(rq->sim, w->ssh_key)) {
		return missing_fail(rq, rep, "SSH key");
	}
	if ((w->image_family || w->image_id) &&
	    !lambda_image_known(rq->sim, w->image_family, w->image_id, w->region, w->itype->arch)) {
		return missing_fail(rq, rep, "Image");
	}
	w->pool = market_pool(m, CLOUD_LAMBDA, w->region, NULL, w->type);
	return w->pool || missing_fail(rq, rep, "Instance type");
}

static struct inst *inst_make(struct sim_req *rq, const struct want *w)
{
	char *id = sim_id(rq->sim, NULL, "", 16);
	struct inst *i = inst_new(rq->sim, w->pool, SIDE_ON_DEMAND, id);
	size_t k;
	json_t *t;

	free(id);
	i->name = dup_text(w->name);
	i->hostname = dup_text(w->hostname);
	i->key_name = dup_text(w->ssh_key);
	i->image = dup_text(w->image_family ? w->image_family
		: w->image_id               ? w->image_id
					    : "lambda-stack-22-04");
	i->user_data = dup_text(w->user_data);
	i->user_data_n = w->user_data ? strlen(w->user_data) : 0;
	/* The address shows late, after the status says active. */
	i->ip_us = i->launched_us + rq->sim->conf.boot_us + rq->sim->conf.boot_us / 2;
	json_array_foreach (w->tags, k, t) {
		inst_tag_set(&i->tags, &i->tags_n, json_string_value(json_object_get(t, "key")),
		    json_string_value(json_object_get(t, "value")));
	}
	i->own = json_incref(w->attached);
	inst_start(i);
	lambda_audit_add(rq->sim, "launched", i, true);
	return i;
}

void lambda_launch(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	struct want w = { 0 };
	struct inst *i;

	if (!read_want(rq, rep, doc, &w) || !want_resolve(rq, rep, &w)) {
		return;
	}
	w.attached = lambda_place_attach(rq, rep, doc, w.region);
	if (!w.attached) {
		return;
	}
	/* Capacity is a 400, and the list's word is no promise. */
	if (pool_free(w.pool, SIDE_ON_DEMAND) < 1) {
		reply_fail(rq, rep, 400, "instance-operations/launch/insufficient-capacity",
		    "Not enough capacity to fulfill launch request.");
		books_launch(rq->sim, CLOUD_LAMBDA, w.name, w.region, NULL, w.pool, SIDE_ON_DEMAND,
		    rep->code, NULL, 0, false);
		json_decref(w.attached);
		return;
	}
	i = inst_make(rq, &w);
	json_decref(w.attached);
	books_launch(rq->sim, CLOUD_LAMBDA, w.name, w.region, NULL, w.pool, SIDE_ON_DEMAND, NULL,
	    &i, 1, false);
	pool_stock_set(rq->sim, w.pool, SIDE_ON_DEMAND, w.pool->stock[SIDE_ON_DEMAND]);
	lambda_data(rq, rep, json_pack("{s:[s]}", "instance_ids", i->id));
}

/* ---- by ids ---------------------------------------------------------------------------------- */

static const json_t *ids_of(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const json_t *ids = json_object_get(doc, "instance_ids");
	size_t k;
	json_t *id;

	if (!json_is_array(ids) || json_array_size(ids) == 0) {
		invalid_fail(rq, rep, "instance_ids must be a non-empty array");
		return NULL;
	}
	json_array_foreach (ids, k, id) {
		const struct inst *i =
		    json_is_string(id) ? inst_find(rq->sim, json_string_value(id)) : NULL;

		if (!i || i->cloud != CLOUD_LAMBDA || i->state == INST_GONE) {
			reply_fail(rq, rep, 404, "global/object-does-not-exist",
			    "Specified instance does not exist.");
			return NULL;
		}
	}
	return ids;
}

void lambda_terminate(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const json_t *ids = ids_of(rq, rep, doc);
	json_t *done = json_array(), *id;
	size_t k;

	if (ids) {
		json_array_foreach (ids, k, id) {
			struct inst *i = inst_find(rq->sim, json_string_value(id));

			/* Seen in the field (skypilot PR 3410): ending an ending instance is an
			 * unknown error. */
			if (i->state == INST_SHUTTING) {
				json_decref(done);
				reply_fail(rq, rep, 500, "global/unknown", "Unknown error.");
				return;
			}
			lambda_audit_add(rq->sim, "terminated", i, true);
			inst_end(i, "api", "terminated", "terminated by API");
			json_array_append_new(done, lambda_instance_json(i));
			pool_stock_set(rq->sim, i->pool, SIDE_ON_DEMAND,
			    i->pool->stock[SIDE_ON_DEMAND]);
		}
		lambda_data(rq, rep, json_pack("{s:o}", "terminated_instances", done));
	} else {
		json_decref(done);
	}
}

void lambda_restart(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const json_t *ids = ids_of(rq, rep, doc);
	json_t *done, *id;
	size_t k;

	if (!ids) {
		return;
	}
	json_array_foreach (ids, k, id) {
		const struct inst *i = inst_find(rq->sim, json_string_value(id));

		if (i->state != INST_RUNNING && i->state != INST_UNHEALTHY) {
			reply_fail(rq, rep, 409, "global/conflict",
			    "Instance is not in a state that can be restarted.");
			return;
		}
	}
	done = json_array();
	json_array_foreach (ids, k, id) {
		json_array_append_new(done,
		    lambda_instance_json(inst_find(rq->sim, json_string_value(id))));
	}
	lambda_data(rq, rep, json_pack("{s:o}", "restarted_instances", done));
}

void lambda_rename(struct sim_req *rq, struct sim_reply *rep, const char *id, const json_t *doc)
{
	const char *name = json_string_value(json_object_get(doc, "name"));
	struct inst *i = inst_find(rq->sim, id);

	if (!i || i->cloud != CLOUD_LAMBDA || i->state == INST_GONE) {
		reply_fail(rq, rep, 404, "global/object-does-not-exist",
		    "Specified instance does not exist.");
		return;
	}
	if (!name || strlen(name) > 64) {
		invalid_fail(rq, rep, "name must be a text of at most 64 characters");
		return;
	}
	free(i->name);
	i->name = dup_text(name);
	lambda_data(rq, rep, lambda_instance_json(i));
}
