/* instances.insert: the operation that tells how it went, the VM and its disks. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

/* ---- refusals that come in the operation ----------------------------------------------------- */

/* Zones of the region where this machine could be had. */
static const char *zones_available(struct sim *s, const struct gcp_want *w, struct arena *a)
{
	const char *list = "";

	for (size_t k = 0; k < s->market->pools_n; k++) {
		const struct pool *p = &s->market->pools[k];

		if (p->cloud == CLOUD_GCP && p->region == w->pool->region && p != w->pool &&
		    p->type == w->pool->type && pool_free(p, w->side) > 0 &&
		    p->price[w->side].sold) {
			list = arena_printf(a, "%s%s%s", list, *list ? "," : "", p->zone->name);
		}
	}
	return list;
}

static json_t *exhausted_json(struct sim *s, const struct gcp_want *w)
{
	struct arena *a AUTO(arena) = arena_new(0);
	const char *zone = w->zone->name;
	const char *words = arena_printf(a,
	    "The zone '" GCP_P
	    "zones/%s' does not have enough resources available to fulfill the request. "
	    "'(resource type:compute)'.",
	    zone);

	return json_pack("{s:s, s:s, s:[{s:{s:s, s:s, s:{s:s, s:s, s:s, s:s}}}, {s:{s:s, s:s}}]}",
	    "code", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "message", words, "errorDetails",
	    "errorInfo", "domain", "compute.googleapis.com", "reason", "resource_availability",
	    "metadatas", "zone", zone, "vmType", w->machine, "attachment",
	    w->type->attached ? w->type->accelerator : "", "zonesAvailable",
	    zones_available(s, w, a), "localizedMessage", "locale", "en-US", "message", words);
}

static json_t *over_quota(const char *metric, int64_t limit, const char *region)
{
	struct arena *a AUTO(arena) = arena_new(0);
	char *lower = arena_strdup(a, metric);
	const char *words = arena_printf(a, "Quota '%s' exceeded.  Limit: %" PRId64 ".0 %s%s.",
	    metric, limit, region ? "in region " : "globally", region ? region : "");

	for (char *p = lower; *p; p++) {
		*p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
	}
	return json_pack("{s:s, s:s, s:[{s:{s:s, s:s, s:f, s:{s:s}}}]}", "code", "QUOTA_EXCEEDED",
	    "message", words, "errorDetails", "quotaInfo", "metricName",
	    arena_printf(a, "compute.googleapis.com/%s", lower), "limitName",
	    arena_printf(a, "%s-per-project%s", metric, region ? "-region" : ""), "limit",
	    (double)limit, "dimensions", "region", region ? region : "global");
}

json_t *gcp_shortage(struct sim *s, const struct gcp_want *w, int *ret_http, const char **ret_words)
{
	int64_t limit;
	const char *region, *metric;

	/* An order that may wait is taken: capacity and quota may come. */
	if (w->flex) {
		return NULL;
	}
	/* No page names the code of a full reservation. */
	if (w->reserved) {
		*ret_http = 503;
		*ret_words = "SERVICE UNAVAILABLE";
		return gcp_reserved_room(s, w) < 1 ? exhausted_json(s, w) : NULL;
	}
	metric = gcp_quota_passed(s, w, &limit, &region);
	*ret_http = 403;
	*ret_words = "FORBIDDEN";
	if (metric) {
		return over_quota(metric, limit, region);
	}
	*ret_http = 503;
	*ret_words = "SERVICE UNAVAILABLE";
	return pool_free(w->pool, w->side) < 1 ? exhausted_json(s, w) : NULL;
}

/* ---- making ---------------------------------------------------------------------------------- */

static json_t *scheduling_shown(const struct gcp_want *w)
{
	json_t *s = json_deep_copy(json_object_get(w->props, "scheduling"));

	if (!s) {
		s = json_object();
	}
	if (!json_object_get(s, "onHostMaintenance")) {
		json_object_set_new(s, "onHostMaintenance",
		    json_string(w->spot ? "TERMINATE" : "MIGRATE"));
	}
	if (!json_object_get(s, "provisioningModel")) {
		json_object_set_new(s, "provisioningModel",
		    json_string(w->spot ? "SPOT" : "STANDARD"));
	}
	if (!json_object_get(s, "automaticRestart")) {
		json_object_set_new(s, "automaticRestart", json_boolean(!w->spot));
	}
	json_object_set_new(s, "preemptible", json_boolean(w->spot));
	if (w->spot && !json_object_get(s, "instanceTerminationAction")) {
		json_object_set_new(s, "instanceTerminationAction", json_string("STOP"));
	}
	return s;
}

static void make_disks(struct gcp_call *c, const struct gcp_want *w, struct inst *i)
{
	size_t k;
	json_t *d;

	json_array_foreach (json_object_get(w->props, "disks"), k, d) {
		const json_t *p = json_object_get(d, "initializeParams");
		const char *name = gcp_text(p, "diskName"), *type = gcp_text(p, "diskType"), *key;
		const char *image = gcp_text(p, "sourceImage");
		json_t *labels = json_object_get(p, "labels"), *value;
		struct gcp_disk *disk;

		if (str_same(gcp_text(d, "type"), "SCRATCH")) {
			continue;
		}
		disk = gcp_disk_new(c->sim, w->zone->name,
		    name    ? name
			: k ? arena_printf(c->a, "%s-%zu", i->name, k)
			    : i->name);
		disk->type = dup_text(type ? gcp_last(type) : "pd-standard");
		disk->image = dup_text(image ? gcp_image_resolve(c->a, image) : NULL);
		disk->size_gb = gcp_i64(p, "diskSizeGb", gcp_i64(d, "diskSizeGb", 10));
		disk->auto_delete = json_is_true(json_object_get(d, "autoDelete"));
		disk->inst = i;
		json_object_foreach (labels, key, value) {
			inst_tag_set(&disk->labels, &disk->labels_n, key, json_string_value(value));
		}
	}
}

static void run_expired(struct loop_timer *t)
{
	struct gcp_vm *v = container_of(t, struct gcp_vm, expiry);

	inst_end(v->inst, "expiry", "maxRunDuration", "The VM's limited run time ended.");
}

static int64_t run_limit(const struct gcp_want *w, int64_t now)
{
	const json_t *s = json_object_get(w->props, "scheduling");
	const char *at = gcp_text(s, "terminationTime");
	int64_t us;

	if (json_object_get(s, "maxRunDuration")) {
		return gcp_i64(json_object_get(s, "maxRunDuration"), "seconds", 0) * SPOT_US_PER_S;
	}
	return at && parse_time_us(at, &us) ? MAX(us - now, 1) : 0;
}

/* The program that Google's guest agent runs; cloud-init's user-data where the image has it. */
static const char *script_of(const json_t *metadata)
{
	const char *user_data = NULL, *startup = NULL;
	size_t k;
	json_t *one;

	json_array_foreach (json_object_get(metadata, "items"), k, one) {
		if (str_same(gcp_text(one, "key"), "startup-script")) {
			startup = gcp_text(one, "value");
		} else if (str_same(gcp_text(one, "key"), "user-data")) {
			user_data = gcp_text(one, "value");
		}
	}
	return startup ? startup : user_data;
}

static void inst_fill(struct gcp_call *c, const struct gcp_want *w, struct inst *i)
{
	struct gcp_vm *v = calloc(1, sizeof(*v));
	const json_t *s = json_object_get(w->props, "scheduling");
	json_t *labels = json_object_get(w->props, "labels"), *value;
	const char *key, *script = script_of(json_object_get(w->props, "metadata"));

	if (!v) {
		abort();
	}
	i->own = v;
	v->inst = i;
	v->exists = true;
	v->spot = w->spot;
	v->scheduling = scheduling_shown(w);
	v->policy = dup_text(w->policy);
	v->affinity = json_deep_copy(json_object_get(w->props, "reservationAffinity"));
	if (w->reserved) {
		/* Reserved capacity is none of the pool's. */
		v->reservation = dup_text(gcp_reserved_name(w->reserved));
		i->counted = false;
		i->pool->used[i->side]--;
	}
	v->stop_at_end = !str_same(gcp_text(v->scheduling, "instanceTerminationAction"), "DELETE");
	v->metadata = json_deep_copy(json_object_get(w->props, "metadata"));
	v->accounts = json_deep_copy(json_object_get(w->props, "serviceAccounts"));
	v->nics = json_deep_copy(json_object_get(w->props, "networkInterfaces"));
	v->undeletable = json_is_true(json_object_get(w->props, "deletionProtection"));
	v->tags = json_object_get(w->props, "tags")
	    ? json_deep_copy(json_object_get(w->props, "tags"))
	    : json_object();
	v->notice_extra_us =
	    gcp_i64(json_object_get(s, "preemptionNoticeDuration"), "seconds", 0) * SPOT_US_PER_S;
	v->max_run_us = run_limit(w, i->launched_us);
	loop_timer_init(&v->expiry, c->sim->loop, run_expired);
	if (v->max_run_us) {
		loop_timer_set(&v->expiry, v->max_run_us);
	}
	json_object_foreach (labels, key, value) {
		inst_tag_set(&i->tags, &i->tags_n, key, json_string_value(value));
	}
	i->image =
	    dup_text(gcp_text(json_object_get(json_array_get(json_object_get(w->props, "disks"), 0),
				  "initializeParams"),
		"sourceImage"));
	i->user_data = dup_text(script);
	i->user_data_n = script ? strlen(script) : 0;
}

struct inst *gcp_vm_make(struct gcp_call *c, const struct gcp_want *w, struct gcp_op *op)
{
	struct inst *i = inst_new(c->sim, w->pool, w->side, gcp_u64(c->a, gcp_new_id(c->sim)));

	i->name = dup_text(w->name);
	inst_fill(c, w, i);
	make_disks(c, w, i);
	gcp_vm(i)->insert_op = op;
	free(op->target_id);
	op->target_id = dup_text(i->id);
	if (w->flex) {
		gcp_flex_order(c, w, i);
	} else {
		inst_start(i);
	}
	return i;
}

/* A template names its machine and disk types without a zone, as bulkInsert does. */
static bool from_template(struct gcp_call *c, struct gcp_want *w, json_t **ret)
{
	const char *url = gcp_param(c, "sourceInstanceTemplate"), *machine;

	if (!url) {
		return true;
	}
	if (!w->name) {
		gcp_fail(c, 400, "required", "Required field 'resource.name' not specified");
		return false;
	}
	*ret = gcp_template_under(c, url, c->body);
	if (!*ret) {
		return false;
	}
	machine = gcp_text(*ret, "machineType");
	w->props = *ret;
	w->bulk = true;
	w->machine = machine ? gcp_last(machine) : NULL;
	return true;
}

/* ---- insert ---------------------------------------------------------------------------------- */

void gcp_insert(struct gcp_call *c)
{
	const char *scope = arena_printf(c->a, "zones/%s", c->arg[1]), *request, *words;
	struct gcp_want w = { .props = c->body, .zone = gcp_zone(c->sim, c->arg[1]) };
	json_t *merged AUTO(json) = NULL, *error;
	struct gcp_op *op;
	struct inst *i;
	int http;

	if (!w.zone) {
		gcp_fail(c, 400, "invalid", "Invalid value for field 'zone': '%s'. Unknown zone.",
		    c->arg[1]);
		return;
	}
	w.name = gcp_text(c->body, "name");
	if (!gcp_request_id(c, scope, &request) || !from_template(c, &w, &merged) ||
	    !gcp_check(c, &w, "resource")) {
		return;
	}
	if (gcp_vm_find(c->sim, w.zone->name, w.name)) {
		gcp_fail(c, 409, "alreadyExists",
		    "The resource '" GCP_P "%s/instances/%s' already exists", scope, w.name);
		return;
	}
	op = gcp_op_new(c->sim, "insert", scope, c->email,
	    gcp_link(c->a, "%s/instances/%s", scope, w.name), gcp_u64(c->a, gcp_new_id(c->sim)));
	op->request_id = dup_text(request);
	error = gcp_shortage(c->sim, &w, &http, &words);
	if (error) {
		books_launch(c->sim, CLOUD_GCP, w.name, w.zone->name, request, w.pool, w.side,
		    gcp_text(error, "code"), NULL, 0, false);
		gcp_op_error(op, http, words, error);
	} else {
		i = gcp_vm_make(c, &w, op);
		books_launch(c->sim, CLOUD_GCP, w.name, w.zone->name, request, w.pool, w.side, NULL,
		    &i, 1, false);
	}
	if (error || !w.flex) {
		gcp_op_after(op, c->sim->conf.boot_us / 2, NULL);
	}
	gcp_reply(c, gcp_op_json(op, c->a));
}
