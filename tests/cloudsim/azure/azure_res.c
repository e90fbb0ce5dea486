/* The resources of all kinds: found by group and name (in any case), shown, and their time kept. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

static const struct {
	const char *ns, *type;
} kinds[AZ_KIND_COUNT] = {
	[AZ_NONE] = { "", "" },
	[AZ_GROUP] = { "Microsoft.Resources", "resourceGroups" },
	[AZ_VM] = { "Microsoft.Compute", "virtualMachines" },
	[AZ_NIC] = { "Microsoft.Network", "networkInterfaces" },
	[AZ_IP] = { "Microsoft.Network", "publicIPAddresses" },
	[AZ_DISK] = { "Microsoft.Compute", "disks" },
	[AZ_VNET] = { "Microsoft.Network", "virtualNetworks" },
	[AZ_NSG] = { "Microsoft.Network", "networkSecurityGroups" },
	[AZ_IDENTITY] = { "Microsoft.ManagedIdentity", "userAssignedIdentities" },
	[AZ_NEAR] = { "Microsoft.Compute", "proximityPlacementGroups" },
};

const char *az_kind_type(enum az_kind k)
{
	static char text[AZ_KIND_COUNT][96];

	snprintf(text[k], sizeof(text[k]), "%s/%s", kinds[k].ns, kinds[k].type);
	return text[k];
}

struct az_res *az_find(struct azure *az, enum az_kind kind, const char *group, const char *name)
{
	for (struct az_res *r = az->res; r; r = r->next) {
		if (r->kind == kind && az_same(r->name, name) &&
		    (kind == AZ_GROUP || az_same(r->group, group))) {
			return r;
		}
	}
	return NULL;
}

struct az_res *az_by_id(struct azure *az, const char *id)
{
	for (struct az_res *r = az->res; id && r; r = r->next) {
		if (az_same(r->id, id)) {
			return r;
		}
	}
	return NULL;
}

struct az_res *az_new(struct sim *s, enum az_kind kind, const char *group, const char *name,
    const char *location, json_t *doc)
{
	struct azure *az = azure_of(s);
	struct az_res *r = calloc(1, sizeof(*r));
	char id[1024];

	if (!r) {
		abort();
	}
	if (kind == AZ_GROUP) {
		snprintf(id, sizeof(id), "/subscriptions/" AZ_SUBSCRIPTION "/resourceGroups/%s",
		    name);
	} else {
		snprintf(id, sizeof(id),
		    "/subscriptions/" AZ_SUBSCRIPTION "/resourceGroups/%s/providers/%s/%s/%s",
		    group, kinds[kind].ns, kinds[kind].type, name);
	}
	*r = (struct az_res){ .kind = kind,
		.group = dup_text(group),
		.name = dup_text(name),
		.id = dup_text(id),
		.location = dup_text(location),
		.doc = doc,
		.state = "Succeeded",
		.made_us = sim_wall(s),
		.visible_us = sim_wall(s) + s->conf.lag_us };
	if (az->res_last) {
		az->res_last->next = r;
	} else {
		az->res = r;
	}
	az->res_last = r;
	return r;
}

static void res_free(struct az_res *r)
{
	free(r->group);
	free(r->name);
	free(r->id);
	free(r->location);
	free(r->fail_code);
	free(r->fail_message);
	json_decref(r->doc);
	json_decref(r->asked);
	free(r);
}

void az_drop(struct azure *az, struct az_res *gone)
{
	struct az_res *last = NULL;

	for (struct az_res *r = az->res; r; last = r, r = r->next) {
		if (r != gone) {
			continue;
		}
		if (last) {
			last->next = r->next;
		} else {
			az->res = r->next;
		}
		if (az->res_last == r) {
			az->res_last = last;
		}
		break;
	}
	for (struct az_res *r = az->res; r; r = r->next) {
		if (r->owner == gone) {
			r->owner = NULL;
		}
	}
	if (gone->inst) {
		gone->inst->own = NULL;
	}
	res_free(gone);
}

void az_res_free(struct azure *az)
{
	struct az_op *op;

	while (az->res) {
		struct az_res *r = az->res;

		az->res = r->next;
		res_free(r);
	}
	while ((op = az->ops) != NULL) {
		az->ops = op->next;
		free(op->id);
		free(op->location);
		free(op->resource);
		free(op->code);
		free(op->message);
		json_decref(op->output);
		free(op);
	}
}

bool az_visible(const struct sim *s, const struct az_res *r)
{
	return r->visible_us <= sim_wall(s);
}

json_t *az_view(struct sim *s, const struct az_res *r)
{
	json_t *o, *p;

	if (r->kind == AZ_VM) {
		return az_vm_view(s, r, false);
	}
	o = json_deep_copy(r->doc);
	json_object_set_new(o, "id", json_string(r->id));
	json_object_set_new(o, "name", json_string(r->name));
	json_object_set_new(o, "type", json_string(az_kind_type(r->kind)));
	json_object_set_new(o, "location", json_string(r->location));
	p = json_object_get(o, "properties");
	if (!p) {
		p = json_object();
		json_object_set_new(o, "properties", p);
	}
	if (r->kind != AZ_IDENTITY) {
		json_object_set_new(p, "provisioningState", json_string(r->state));
	}
	if (r->kind == AZ_NEAR) {
		az_near_view(azure_of(s), r, p);
	}
	if (r->kind == AZ_NIC && r->owner) {
		json_object_set_new(p, "virtualMachine", json_pack("{s:s}", "id", r->owner->id));
	}
	if (r->kind == AZ_IP && r->owner) {
		json_object_set_new(p, "ipConfiguration",
		    json_pack("{s:o}", "id", json_sprintf("%s/ipConfigurations/ip", r->owner->id)));
	}
	if (r->kind == AZ_DISK) {
		json_object_set_new(p, "diskState",
		    json_string(!r->owner           ? "Unattached"
			    : r->owner->deallocated ? "Reserved"
						    : "Attached"));
		if (r->owner) {
			json_object_set_new(o, "managedBy", json_string(r->owner->id));
		}
	}
	return o;
}

/* Limits of the tags documentation: 50 of them, names of 512 and values of 256 characters, no
 * <>%&\?/ in names. */
bool az_tags_valid(struct az_call *c, const json_t *tags)
{
	const char *key;
	json_t *v;

	if (!tags || json_is_null(tags)) {
		return true;
	}
	if (!json_is_object(tags) || json_object_size(tags) > 50) {
		az_fail(c, 400, json_is_object(tags) ? "TooManyTags" : "InvalidRequestContent",
		    "The tags provided are not an object of at most 50 members.");
		return false;
	}
	json_object_foreach ((json_t *)(uintptr_t)tags, key, v) {
		const char *value = json_string_value(v);

		if (!*key || strlen(key) > 512 || strpbrk(key, "<>%&\\?/")) {
			az_fail(c, 400, "InvalidTagNameCharacters",
			    "The tag names '%s' have reserved characters '<,>,%%,&,\\,?,/' or "
			    "control "
			    "characters.",
			    key);
			return false;
		}
		if (!value || strlen(value) > 256) {
			az_fail(c, 400, value ? "TagValueTooLong" : "InvalidRequestContent",
			    "The value of tag '%s' must be a text of at most 256 characters.", key);
			return false;
		}
	}
	return true;
}

/* PATCH: tags are replaced as a whole. false: az_fail has been called. */
bool az_tags_patch(struct az_call *c, json_t *to)
{
	json_t *tags = json_object_get(c->doc, "tags");

	if (!az_tags_valid(c, tags)) {
		return false;
	}
	if (json_is_object(tags)) {
		json_object_set_new(to, "tags", json_deep_copy(tags));
	}
	return true;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* A group goes when all in it is gone: VMs first, then the rest at once. true: the list changed. */
static bool group_tick(struct sim *s, struct az_res *g)
{
	struct azure *az = azure_of(s);
	struct az_res *next;
	bool busy = sim_wall(s) < g->scheduled_us;

	for (struct az_res *r = az->res; r; r = r->next) {
		if (r->kind == AZ_VM && az_same(r->group, g->name)) {
			az_vm_delete(s, r);
			busy = true;
		}
	}
	if (busy) {
		return false;
	}
	for (struct az_res *r = az->res; r; r = next) {
		next = r->next;
		if (r->kind != AZ_GROUP && az_same(r->group, g->name)) {
			az_drop(az, r);
		}
	}
	az_op_end(s, g->op, "Succeeded", NULL, NULL);
	az_drop(az, g);
	return true;
}

/* true: the list changed, look again from its start. */
static bool tick_one(struct sim *s)
{
	for (struct az_res *r = azure_of(s)->res; r; r = r->next) {
		if (r->kind == AZ_VM ? az_vm_tick(s, r)
				     : r->kind == AZ_GROUP && r->scheduled_us && group_tick(s, r)) {
			return true;
		}
	}
	return false;
}

void az_tick(struct sim *s)
{
	while (tick_one(s))
		;
}
