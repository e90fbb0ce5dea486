/* An instance as the API shows it; labels, delete, preemption, and its remains. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

struct gcp_vm *gcp_vm(const struct inst *i)
{
	return i->own;
}

bool gcp_vm_shown(const struct inst *i)
{
	return i->cloud == CLOUD_GCP && i->own && gcp_vm(i)->exists &&
	    sim_wall(i->sim) >= i->visible_us;
}

struct inst *gcp_vm_find(const struct sim *s, const char *zone, const char *name_or_id)
{
	for (struct inst *i = s->insts; i; i = i->next) {
		if (i->cloud == CLOUD_GCP && gcp_vm(i)->exists &&
		    str_same(i->pool->zone->name, zone) &&
		    (str_same(i->name, name_or_id) || str_same(i->id, name_or_id))) {
			return i;
		}
	}
	return NULL;
}

const char *gcp_vm_status(const struct inst *i)
{
	switch (i->state) {
	case INST_PENDING:
		if (gcp_vm(i)->queued) {
			return "PENDING";
		}
		return sim_wall(i->sim) - i->launched_us < i->sim->conf.boot_us / 2 ? "PROVISIONING"
										    : "STAGING";
	case INST_RUNNING:
	case INST_UNHEALTHY:
		return "RUNNING";
	case INST_SHUTTING:
		return "STOPPING";
	case INST_STOPPED:
		return sim_wall(i->sim) < i->stop_done_us ? "STOPPING" : "TERMINATED";
	case INST_GONE:
		return "TERMINATED";
	case INST_NONE:
		break;
	}
	return "RUNNING";
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static json_t *disks_json(const struct inst *i, struct arena *a)
{
	json_t *list = json_array();
	int n = 0;

	for (const struct gcp_disk *d = i->sim->gcp->disks; d; d = d->next) {
		json_t *o;

		if (d->inst != i) {
			continue;
		}
		o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:s, s:s}", "kind",
		    "compute#attachedDisk", "type", "PERSISTENT", "mode", "READ_WRITE", "source",
		    gcp_link(a, "zones/%s/disks/%s", d->zone, d->name), "deviceName",
		    n ? d->name : "persistent-disk-0", "boot", n == 0, "autoDelete", d->auto_delete,
		    "interface", strstr(d->type, "hyperdisk") ? "NVME" : "SCSI", "diskSizeGb",
		    gcp_u64(a, (uint64_t)d->size_gb));
		if (n) {
			json_object_set_new(o, "index", json_integer(n));
		}
		json_array_append_new(list, o);
		n++;
	}
	return list;
}

static json_t *nics_json(const struct inst *i, struct arena *a)
{
	const struct gcp_vm *v = gcp_vm(i);
	json_t *list = json_array(), *one;
	size_t k;

	json_array_foreach (v->nics, k, one) {
		const char *region = i->pool->region->name;
		json_t *o = json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:s}", "kind",
		    "compute#networkInterface", "name", json_sprintf("nic%zu", k), "network",
		    gcp_link(a, "global/networks/default"), "subnetwork",
		    gcp_link(a, "regions/%s/subnetworks/default", region), "networkIP",
		    i->private_ip, "stackType", "IPV4_ONLY", "fingerprint",
		    gcp_fingerprint(a, i->seq));

		if (gcp_text(one, "nicType")) {
			json_object_set_new(o, "nicType", json_string(gcp_text(one, "nicType")));
		}
		if (json_array_size(json_object_get(one, "accessConfigs")) > 0 &&
		    i->state != INST_GONE && i->state != INST_STOPPED) {
			json_object_set_new(o, "accessConfigs",
			    json_pack("[{s:s, s:s, s:s, s:s, s:s}]", "kind", "compute#accessConfig",
				"type", "ONE_TO_ONE_NAT", "name", "external-nat", "natIP", i->ip,
				"networkTier", "PREMIUM"));
		}
		json_array_append_new(list, o);
	}
	return list;
}

static void put_labels(json_t *o, const struct inst *i)
{
	json_t *labels = json_object();

	for (size_t k = 0; k < i->tags_n; k++) {
		json_object_set_new(labels, i->tags[k].key, json_string(i->tags[k].value));
	}
	if (i->tags_n) {
		json_object_set(o, "labels", labels);
	}
	json_decref(labels);
}

const char *gcp_metadata_print(struct arena *a, const struct inst *i)
{
	return gcp_fingerprint(a, i->seq * 31 + gcp_vm(i)->metadata_version);
}

const char *gcp_tags_print(struct arena *a, const struct inst *i)
{
	return gcp_fingerprint(a, i->seq * 17 + gcp_vm(i)->tags_version);
}

static json_t *metadata_json(const struct gcp_vm *v, const struct inst *i, struct arena *a)
{
	json_t *o = json_pack("{s:s, s:s}", "kind", "compute#metadata", "fingerprint",
	    gcp_metadata_print(a, i));
	json_t *items = json_object_get(v->metadata, "items");

	if (json_array_size(items) > 0) {
		json_object_set(o, "items", items);
	}
	return o;
}

static json_t *accelerators_json(const struct inst *i, struct arena *a)
{
	const struct gcp_type *t = gcp_type_of(i->sim->gcp, i->pool->type);

	return json_pack("[{s:s, s:i}]", "acceleratorType",
	    gcp_link(a, "zones/%s/acceleratorTypes/%s", i->pool->zone->name, t->accelerator),
	    "acceleratorCount", t->gpus);
}

json_t *gcp_vm_json(const struct inst *i, struct arena *a)
{
	const struct gcp_vm *v = gcp_vm(i);
	const char *zone = i->pool->zone->name;
	const struct gcp_type *t = gcp_type_of(i->sim->gcp, i->pool->type);
	json_t *tags = json_deep_copy(v->tags);
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "kind",
	    "compute#instance", "id", i->id, "creationTimestamp", gcp_time(a, i->launched_us),
	    "name", i->name, "machineType",
	    gcp_link(a, "zones/%s/machineTypes/%s", zone, t->machine), "status", gcp_vm_status(i),
	    "zone", gcp_link(a, "zones/%s", zone), "selfLink",
	    gcp_link(a, "zones/%s/instances/%s", zone, i->name), "cpuPlatform",
	    "Intel Sapphire Rapids", "labelFingerprint",
	    gcp_fingerprint(a, i->seq * 7 + v->label_version), "fingerprint",
	    gcp_fingerprint(a, i->seq * 13 + v->label_version));

	json_object_set_new(tags, "fingerprint", json_string(gcp_tags_print(a, i)));
	json_object_set_new(o, "tags", tags);
	json_object_set_new(o, "disks", disks_json(i, a));
	json_object_set_new(o, "networkInterfaces", nics_json(i, a));
	json_object_set_new(o, "metadata", metadata_json(v, i, a));
	json_object_set_new(o, "guestAccelerators", accelerators_json(i, a));
	json_object_set(o, "scheduling", v->scheduling);
	if (v->affinity) {
		json_object_set(o, "reservationAffinity", v->affinity);
	}
	if (v->policy) {
		json_object_set_new(o, "resourcePolicies",
		    json_pack("[s]",
			gcp_link(a, "regions/%s/resourcePolicies/%s", i->pool->region->name,
			    v->policy)));
	}
	if (gcp_flex_ends(i, a)) {
		json_object_set_new(o, "resourceStatus",
		    json_pack("{s:{s:s}}", "scheduling", "terminationTimestamp",
			gcp_flex_ends(i, a)));
	}
	put_labels(o, i);
	if (v->accounts) {
		json_object_set(o, "serviceAccounts", v->accounts);
	}
	json_object_set_new(o, "deletionProtection", json_boolean(v->undeletable));
	if (i->running_us) {
		json_object_set_new(o, "lastStartTimestamp",
		    json_string(gcp_time(a, i->running_us)));
	}
	if (i->gone_us || i->stopped_us) {
		json_object_set_new(o, "lastStopTimestamp",
		    json_string(gcp_time(a, i->gone_us ? i->gone_us : i->stopped_us)));
	}
	return o;
}

/* ---- life of an instance --------------------------------------------------------------------- */

static void vm_removed(struct inst *i)
{
	struct gcp_vm *v = gcp_vm(i);

	v->exists = false;
	gcp_disks_release(i);
	if (v->delete_op) {
		gcp_op_done(v->delete_op);
	}
	v->delete_op = NULL;
}

static struct gcp_op *event_op(struct inst *i, const char *type, const char *words)
{
	struct arena *a AUTO(arena) = arena_new(0);
	const char *scope = arena_printf(a, "zones/%s", i->pool->zone->name);
	struct gcp_op *op = gcp_op_new(i->sim, type, scope, "system",
	    gcp_link(a, "%s/instances/%s", scope, i->name), i->id);

	op->status_message = dup_text(words);
	return op;
}

/* Preempted while it was being made: its operation fails with an undocumented code (skypilot's
 * handler). */
static void insert_fails(struct inst *i)
{
	struct gcp_vm *v = gcp_vm(i);

	if (!v->insert_op || v->insert_op->done) {
		return;
	}
	gcp_op_error(v->insert_op, 400, "BAD REQUEST",
	    json_pack("{s:s, s:s}", "code", "UNSUPPORTED_OPERATION", "message",
		"Instance was preempted while it was being created."));
	gcp_op_done(v->insert_op);
}

static void vm_shutting(struct inst *i)
{
	gcp_flex_ended(i);
	if (str_same(i->ended_by, "reclaim") || str_same(i->ended_by, "price")) {
		gcp_op_done(event_op(i, "compute.instances.preempted", "Instance was preempted."));
		insert_fails(i);
	} else if (str_same(i->ended_by, "kill")) {
		gcp_op_done(event_op(i, "compute.instances.hostError",
		    "Instance terminated by Compute Engine."));
	}
}

static void vm_terminated(struct inst *i)
{
	struct gcp_vm *v = gcp_vm(i);

	loop_timer_stop(&v->expiry);
	/* Deleted by hand, or told to go with its end; else it stays as TERMINATED and keeps its
	 * disks. */
	if (str_same(i->ended_by, "api") || str_same(i->ended_by, "quit") || !v->stop_at_end) {
		vm_removed(i);
	}
}

void gcp_event(struct inst *i, const char *type)
{
	if (!i->own) {
		return;
	}
	if (str_same(type, "unmade")) { /* its operation ends well */
		gcp_vm(i)->exists = false;
		loop_timer_stop(&gcp_vm(i)->expiry);
		gcp_flex_ended(i);
		gcp_disks_unmade(i);
		gcp_imds_forget(i);
	} else if (str_same(type, "shutting_down")) {
		vm_shutting(i);
		gcp_imds_changed(i);
		gcp_imds_forget(i);
	} else if (str_same(type, "notice") || str_same(type, "maintenance")) {
		gcp_imds_changed(i);
	}
	if (str_same(type, "terminated")) {
		vm_terminated(i);
	}
}

void gcp_inst_free(struct inst *i)
{
	struct gcp_vm *v = i->own;

	if (!v) {
		return;
	}
	loop_timer_stop(&v->expiry);
	if (v->flex) {
		loop_timer_stop(&v->queue);
	}
	gcp_imds_forget(i);
	json_decref(v->scheduling);
	json_decref(v->metadata);
	json_decref(v->tags);
	json_decref(v->accounts);
	json_decref(v->nics);
	json_decref(v->affinity);
	free(v->reservation);
	free(v->policy);
	free(v->maintenance);
	free(v);
	i->own = NULL;
}

/* ---- methods --------------------------------------------------------------------------------- */

static struct inst *inst_named(struct gcp_call *c)
{
	struct inst *i = gcp_vm_find(c->sim, c->arg[1], c->arg[2]);

	if (i && gcp_vm_shown(i)) {
		return i;
	}
	gcp_not_found(c, arena_printf(c->a, GCP_P "zones/%s/instances/%s", c->arg[1], c->arg[2]));
	return NULL;
}

void gcp_vm_get(struct gcp_call *c)
{
	const struct inst *i = inst_named(c);

	if (i) {
		gcp_reply(c, gcp_vm_json(i, c->a));
	}
}

void gcp_vm_list(struct gcp_call *c)
{
	json_t *items;

	if (!gcp_zone(c->sim, c->arg[1])) {
		gcp_fail(c, 400, "invalid", "Invalid value for field 'zone': '%s'. Unknown zone.",
		    c->arg[1]);
		return;
	}
	items = json_array();
	for (const struct inst *i = c->sim->insts; i; i = i->next) {
		if (gcp_vm_shown(i) && str_same(i->pool->zone->name, c->arg[1])) {
			json_array_append_new(items, gcp_vm_json(i, c->a));
		}
	}
	gcp_list(c, "compute#instanceList", arena_printf(c->a, "zones/%s/instances", c->arg[1]),
	    items);
}

void gcp_vm_aggregated(struct gcp_call *c)
{
	json_t *items = json_array();

	for (const struct inst *i = c->sim->insts; i; i = i->next) {
		if (gcp_vm_shown(i)) {
			json_array_append_new(items,
			    json_pack("[o, o]", json_sprintf("zones/%s", i->pool->zone->name),
				gcp_vm_json(i, c->a)));
		}
	}
	gcp_aggregate(c, "compute#instanceAggregatedList", "aggregated/instances", "instances",
	    items, false);
}

static struct gcp_op *vm_op(struct gcp_call *c, const struct inst *i, const char *type,
    const char *id)
{
	const char *scope = arena_printf(c->a, "zones/%s", i->pool->zone->name);
	struct gcp_op *op = gcp_op_new(c->sim, type, scope, c->email,
	    gcp_link(c->a, "%s/instances/%s", scope, i->name), i->id);

	op->request_id = dup_text(id);
	op->inst = NULL;
	return op;
}

void gcp_vm_delete(struct gcp_call *c)
{
	const char *request;
	struct gcp_vm *v;
	struct inst *i;
	struct gcp_op *op;

	if (!gcp_request_id(c, arena_printf(c->a, "zones/%s", c->arg[1]), &request)) {
		return;
	}
	i = inst_named(c);
	if (!i) {
		return;
	}
	v = gcp_vm(i);
	if (v->undeletable) {
		gcp_fail(c, 400, "invalidResourceUsage",
		    "Invalid resource usage: 'Resource cannot be deleted if it's protected "
		    "against deletion. (resource name: %s)'.",
		    i->name);
		return;
	}
	op = vm_op(c, i, "delete", request);
	if (c->sim->pretend) {
		gcp_op_after(op, c->sim->conf.terminate_us, NULL);
	} else if (i->state == INST_GONE) {
		/* it was TERMINATED: only the record and the disks are left */
		vm_removed(i);
		gcp_op_after(op, c->sim->conf.terminate_us / 2, NULL);
	} else if (v->delete_op) {
		gcp_op_after(op, c->sim->conf.terminate_us, NULL);
	} else {
		v->delete_op = op;
		v->stop_at_end = false;
		inst_end(i, "api", "deleted", "deleted by the API");
	}
	gcp_reply(c, gcp_op_json(op, c->a));
}

static bool labels_fit(struct gcp_call *c, const json_t *labels);

void gcp_vm_set_labels(struct gcp_call *c)
{
	const json_t *labels = json_object_get(c->body, "labels");
	const char *print = gcp_text(c->body, "labelFingerprint"), *request, *key;
	json_t *map = json_object_get(c->body, "labels"), *value;
	struct gcp_vm *v;
	struct inst *i;
	struct gcp_op *op;

	if (!gcp_request_id(c, arena_printf(c->a, "zones/%s", c->arg[1]), &request)) {
		return;
	}
	i = inst_named(c);
	if (!i || !labels_fit(c, labels)) {
		return;
	}
	v = gcp_vm(i);
	if (!print) {
		gcp_fail(c, 400, "required", "Required field 'labelFingerprint' not specified");
		return;
	}
	if (!str_same(print, gcp_fingerprint(c->a, i->seq * 7 + v->label_version))) {
		gcp_fail(c, 412, "conditionNotMet",
		    "Labels fingerprint either invalid or resource labels have changed");
		return;
	}
	while (i->tags_n) {
		inst_tag_unset(&i->tags, &i->tags_n, i->tags[0].key, NULL);
	}
	json_object_foreach (map, key, value) {
		inst_tag_set(&i->tags, &i->tags_n, key, json_string_value(value));
	}
	v->label_version++;
	op = vm_op(c, i, "setLabels", request);
	gcp_op_after(op, 1, NULL);
	gcp_reply(c, gcp_op_json(op, c->a));
}

static bool labels_fit(struct gcp_call *c, const json_t *labels)
{
	if (!labels || json_object_size(labels) <= 64) {
		return true;
	}
	gcp_fail(c, 400, "invalid",
	    "Invalid value for field 'labels': at most 64 labels are allowed.");
	return false;
}

/* On a Spot VM the simulated event is a preemption. */
void gcp_vm_simulate(struct gcp_call *c)
{
	const char *request;
	struct inst *i;
	struct gcp_op *op;

	if (!gcp_request_id(c, arena_printf(c->a, "zones/%s", c->arg[1]), &request)) {
		return;
	}
	i = inst_named(c);
	if (!i) {
		return;
	}
	if (i->state != INST_RUNNING) {
		gcp_fail(c, 400, "resourceNotReady", "The resource '%s' is not ready", i->name);
		return;
	}
	op = vm_op(c, i, "simulateMaintenanceEvent", request);
	/* 30 seconds of soft-off after the notice that the VM asked for, unless /config gives
	 * less. */
	if (gcp_vm(i)->spot) {
		inst_reclaim(i,
		    MIN(c->sim->conf.notice_us, 30 * SPOT_US_PER_S + gcp_vm(i)->notice_extra_us), 0,
		    false);
	}
	gcp_op_after(op, 1, NULL);
	gcp_reply(c, gcp_op_json(op, c->a));
}

/* ---- permissions ----------------------------------------------------------------------------- */

/* The caller's role: compute.instanceAdmin.v1 with the additions of the broker's page; not
 * ownership.
 */
static void permissions_test(struct gcp_call *c)
{
	json_t *had = json_array(), *one;
	size_t k;

	json_array_foreach (json_object_get(c->body, "permissions"), k, one) {
		const char *p = json_string_value(one);

		if (glob_match("compute.*", p) && !glob_match("*.setIamPolicy", p) &&
		    !glob_match("compute.organizations.*", p)) {
			json_array_append(had, one);
		}
	}
	gcp_reply(c, json_array_size(had) ? json_pack("{s:O}", "permissions", had) : json_object());
	json_decref(had);
}

void gcp_vm_test_permissions(struct gcp_call *c)
{
	if (inst_named(c)) {
		permissions_test(c);
	}
}

void gcp_project_test_permissions(struct gcp_call *c)
{
	permissions_test(c);
}
