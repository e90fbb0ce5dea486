/* A VM as GET shows it: the request's body, completed and without its secrets. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

static json_t *child_get(json_t *o, const char *key)
{
	json_t *p = json_object_get(o, key);

	if (!json_is_object(p)) {
		p = json_object();
		json_object_set_new(o, key, p);
	}
	return p;
}

static json_t *status_json(struct arena *a, const char *code, const char *level,
    const char *display, const char *message, int64_t us)
{
	json_t *o =
	    json_pack("{s:s, s:s, s:s}", "code", code, "level", level, "displayStatus", display);

	if (message) {
		json_object_set_new(o, "message", json_string(message));
	}
	if (us) {
		json_object_set_new(o, "time", json_string(az_time(a, us)));
	}
	return o;
}

static const char *power_text(const struct az_res *r)
{
	const struct inst *i = r->inst;

	if (r->deallocated) {
		return i ? "deallocating" : "deallocated";
	}
	if (!i) {
		return NULL;
	}
	if (i->state == INST_PENDING) {
		return "starting";
	}
	if (i->state == INST_SHUTTING) {
		return str_same(r->state, "Deleting") ? "stopping" : "deallocating";
	}
	return r->stopped ? "stopped" : "running";
}

json_t *az_instance_view(struct sim *s, const struct az_res *r)
{
	struct arena *a AUTO(arena) = arena_new(0);
	json_t *list = json_array(), *disks = json_array(), *o;
	const char *on = power_text(r);
	char code[256];

	if (str_same(r->state, "Failed")) {
		snprintf(code, sizeof(code), "ProvisioningState/failed/%s",
		    r->fail_code ? r->fail_code : "InternalExecutionError");
		json_array_append_new(list,
		    status_json(a, code, "Error", "Provisioning failed", r->fail_message,
			r->due_us));
	} else {
		const char *state = str_same(r->state, "Succeeded") ? "succeeded"
		    : str_same(r->state, "Creating")                ? "creating"
								    : "deleting";

		snprintf(code, sizeof(code), "ProvisioningState/%s", state);
		json_array_append_new(list,
		    status_json(a, code, "Info",
			str_same(state, "succeeded")      ? "Provisioning succeeded"
			    : str_same(state, "creating") ? "Creating"
							  : "Deleting",
			NULL, r->made_us));
	}
	if (on) {
		snprintf(code, sizeof(code), "PowerState/%s", on);
		json_array_append_new(list,
		    status_json(a, code, "Info", arena_printf(a, "VM %s", on), NULL, 0));
	}
	for (const struct az_res *d = azure_of(s)->res; d; d = d->next) {
		if (d->kind == AZ_DISK && d->owner == r) {
			json_array_append_new(disks,
			    json_pack("{s:s, s:[o]}", "name", d->name, "statuses",
				status_json(a, "ProvisioningState/succeeded", "Info",
				    "Provisioning succeeded", NULL, d->made_us)));
		}
	}
	o = json_pack("{s:o, s:o}", "disks", disks, "statuses", list);
	if (r->inst && r->inst->state == INST_RUNNING) {
		json_object_set_new(o, "vmAgent",
		    json_pack("{s:s, s:[o]}", "vmAgentVersion", "2.11.1.4", "statuses",
			status_json(a, "ProvisioningState/succeeded", "Info", "Ready",
			    "Guest Agent is running", r->inst->running_us)));
	}
	return o;
}

static void storage_put(struct sim *s, const struct az_res *r, json_t *p)
{
	json_t *st = child_get(p, "storageProfile"), *os = child_get(st, "osDisk");
	json_t *image = json_object_get(st, "imageReference");
	size_t k = 0;

	if (image && json_object_get(image, "publisher")) {
		json_object_set_new(image, "exactVersion", json_string("22.04.2026110101"));
	}
	json_object_set_new(os, "osType", json_string("Linux"));
	if (!json_object_get(os, "createOption")) {
		json_object_set_new(os, "createOption", json_string("FromImage"));
	}
	if (!json_object_get(os, "deleteOption")) {
		json_object_set_new(os, "deleteOption", json_string("Detach"));
	}
	if (!json_object_get(st, "dataDisks")) {
		json_object_set_new(st, "dataDisks", json_array());
	}
	for (const struct az_res *d = azure_of(s)->res; d; d = d->next) {
		json_t *at;

		if (d->kind != AZ_DISK || d->owner != r) {
			continue;
		}
		at = k == 0 ? os : json_array_get(json_object_get(st, "dataDisks"), k - 1);
		k++;
		if (!at) {
			continue;
		}
		json_object_set_new(at, "name", json_string(d->name));
		json_object_set_new(child_get(at, "managedDisk"), "id", json_string(d->id));
		if (!json_object_get(at, "deleteOption")) {
			json_object_set_new(at, "deleteOption", json_string("Detach"));
		}
	}
}

static void network_put(struct sim *s, const struct az_res *r, json_t *p)
{
	json_t *list = json_array(), *o;

	for (const struct az_res *n = azure_of(s)->res; n; n = n->next) {
		if (n->kind == AZ_NIC && n->owner == r) {
			json_array_append_new(list,
			    json_pack("{s:s, s:{s:b, s:s}}", "id", n->id, "properties", "primary",
				1, "deleteOption", n->delete_with ? "Delete" : "Detach"));
		}
	}
	o = json_pack("{s:o}", "networkInterfaces", list);
	json_object_set_new(p, "networkProfile", o);
}

static void identity_put(struct sim *s, const struct az_res *r, json_t *o)
{
	json_t *id = json_object_get(o, "identity"), *v;
	const char *key, *type = json_string_value(json_object_get(id, "type"));

	if (!id) {
		return;
	}
	if (type && strstr(type, "SystemAssigned")) {
		json_object_set_new(id, "principalId", json_string(r->vm_id));
		json_object_set_new(id, "tenantId", json_string(AZ_TENANT));
	}
	json_object_foreach (json_object_get(id, "userAssignedIdentities"), key, v) {
		const struct az_res *u = az_by_id(azure_of(s), key);
		const json_t *p = u ? json_object_get(u->doc, "properties") : NULL;

		json_object_set_new(v, "principalId",
		    json_string(
			p ? json_string_value(json_object_get(p, "principalId")) : r->vm_id));
		json_object_set_new(v, "clientId",
		    json_string(p ? json_string_value(json_object_get(p, "clientId")) : r->vm_id));
	}
}

static void os_profile(const struct az_res *r, json_t *p)
{
	json_t *os = child_get(p, "osProfile"), *conf;

	json_object_del(os, "customData");
	json_object_del(os, "adminPassword");
	if (!json_object_get(os, "computerName")) {
		json_object_set_new(os, "computerName", json_string(r->name));
	}
	if (!json_object_get(os, "secrets")) {
		json_object_set_new(os, "secrets", json_array());
	}
	json_object_set_new(os, "allowExtensionOperations", json_true());
	json_object_set_new(os, "requireGuestProvisionSignal", json_true());
	conf = json_object_get(os, "linuxConfiguration");
	if (conf && !json_object_get(conf, "provisionVMAgent")) {
		json_object_set_new(conf, "provisionVMAgent", json_true());
	}
}

json_t *az_vm_view(struct sim *s, const struct az_res *r, bool instance_view)
{
	struct arena *a AUTO(arena) = arena_new(0);
	json_t *o = json_deep_copy(r->asked), *p = child_get(o, "properties");

	json_object_set_new(o, "id", json_string(r->id));
	json_object_set_new(o, "name", json_string(r->name));
	json_object_set_new(o, "type", json_string(az_kind_type(AZ_VM)));
	json_object_set_new(o, "location", json_string(r->location));
	json_object_set_new(o, "etag", json_string(AZ_ETAG));
	identity_put(s, r, o);
	json_object_del(p, "userData");
	os_profile(r, p);
	storage_put(s, r, p);
	network_put(s, r, p);
	if (az_same(json_string_value(json_object_get(p, "priority")), "Spot") &&
	    !json_object_get(p, "evictionPolicy")) {
		json_object_set_new(p, "evictionPolicy", json_string("Deallocate"));
	}
	json_object_set_new(p, "provisioningState", json_string(r->state));
	json_object_set_new(p, "vmId", json_string(r->vm_id));
	json_object_set_new(p, "timeCreated", json_string(az_time(a, r->made_us)));
	if (instance_view) {
		json_object_set_new(p, "instanceView", az_instance_view(s, r));
	}
	return o;
}
