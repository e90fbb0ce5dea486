/* Disks: one boot disk per VM, and leftover ones. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

struct gcp_disk *gcp_disk_new(struct sim *s, const char *zone, const char *name)
{
	struct gcp_disk *d = calloc(1, sizeof(*d)), **at = &s->gcp->disks;

	if (!d) {
		abort();
	}
	d->id = gcp_new_id(s);
	d->zone = dup_text(zone);
	d->name = dup_text(name);
	d->created_us = sim_wall(s);
	while (*at) {
		at = &(*at)->next;
	}
	*at = d;
	return d;
}

void gcp_disk_free(struct sim *s, struct gcp_disk *d)
{
	for (struct gcp_disk **at = &s->gcp->disks; *at; at = &(*at)->next) {
		if (*at == d) {
			*at = d->next;
			break;
		}
	}
	for (size_t k = 0; k < d->labels_n; k++) {
		free(d->labels[k].key);
		free(d->labels[k].value);
	}
	free(d->labels);
	free(d->name);
	free(d->zone);
	free(d->type);
	free(d->image);
	free(d);
}

void gcp_disks_release(struct inst *i)
{
	struct gcp_disk *next;

	for (struct gcp_disk *d = i->sim->gcp->disks; d; d = next) {
		next = d->next;
		if (d->inst != i) {
			continue;
		}
		d->inst = NULL;
		if (d->auto_delete) {
			gcp_disk_free(i->sim, d);
		}
	}
}

void gcp_disks_unmade(struct inst *i)
{
	struct gcp_disk *next;

	for (struct gcp_disk *d = i->sim->gcp->disks; d; d = next) {
		next = d->next;
		if (d->inst == i) {
			gcp_disk_free(i->sim, d);
		}
	}
}

void gcp_disks_free(struct sim *s)
{
	while (s->gcp->disks) {
		gcp_disk_free(s, s->gcp->disks);
	}
}

/* ---- methods --------------------------------------------------------------------------------- */

static json_t *disk_json(const struct gcp_disk *d, struct arena *a)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "kind",
	    "compute#disk", "id", gcp_u64(a, d->id), "creationTimestamp",
	    gcp_time(a, d->created_us), "name", d->name, "sizeGb", gcp_u64(a, (uint64_t)d->size_gb),
	    "zone", gcp_link(a, "zones/%s", d->zone), "status", "READY", "selfLink",
	    gcp_link(a, "zones/%s/disks/%s", d->zone, d->name), "type",
	    gcp_link(a, "zones/%s/diskTypes/%s", d->zone, d->type), "labelFingerprint",
	    gcp_fingerprint(a, d->id + d->label_version), "physicalBlockSizeBytes", "4096");
	json_t *labels = json_object();

	if (d->image) {
		json_object_set_new(o, "sourceImage", json_string(d->image));
	}
	for (size_t k = 0; k < d->labels_n; k++) {
		json_object_set_new(labels, d->labels[k].key, json_string(d->labels[k].value));
	}
	if (d->labels_n) {
		json_object_set(o, "labels", labels);
	}
	json_decref(labels);
	if (d->inst) {
		json_object_set_new(o, "users",
		    json_pack("[s]", gcp_link(a, "zones/%s/instances/%s", d->zone, d->inst->name)));
	}
	return o;
}

static struct gcp_disk *disk_find(struct gcp_call *c)
{
	for (struct gcp_disk *d = c->g->disks; d; d = d->next) {
		if (str_same(d->zone, c->arg[1]) &&
		    (str_same(d->name, c->arg[2]) || str_same(gcp_u64(c->a, d->id), c->arg[2]))) {
			return d;
		}
	}
	gcp_not_found(c, arena_printf(c->a, GCP_P "zones/%s/disks/%s", c->arg[1], c->arg[2]));
	return NULL;
}

void gcp_disk_get(struct gcp_call *c)
{
	const struct gcp_disk *d = disk_find(c);

	if (d) {
		gcp_reply(c, disk_json(d, c->a));
	}
}

void gcp_disks_list(struct gcp_call *c)
{
	json_t *items = json_array();

	for (const struct gcp_disk *d = c->g->disks; d; d = d->next) {
		if (str_same(d->zone, c->arg[1])) {
			json_array_append_new(items, disk_json(d, c->a));
		}
	}
	gcp_list(c, "compute#diskList", arena_printf(c->a, "zones/%s/disks", c->arg[1]), items);
}

void gcp_disks_aggregated(struct gcp_call *c)
{
	json_t *items = json_array();

	for (const struct gcp_disk *d = c->g->disks; d; d = d->next) {
		json_array_append_new(items,
		    json_pack("[o, o]", json_sprintf("zones/%s", d->zone), disk_json(d, c->a)));
	}
	gcp_aggregate(c, "compute#diskAggregatedList", "aggregated/disks", "disks", items, true);
}

static bool insert_valid(struct gcp_call *c, const char *name, const char *type, const char *image,
    int64_t gb)
{
	if (!gcp_zone(c->sim, c->arg[1])) {
		gcp_fail(c, 400, "invalid", "Invalid value for field 'zone': '%s'. Unknown zone.",
		    c->arg[1]);
	} else if (!gcp_name_valid(name)) {
		gcp_fail(c, 400, "invalid",
		    "Invalid value for field 'resource.name': '%s'. Must be a match of regex "
		    "'(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'",
		    name ? name : "");
	} else if (type && !gcp_disk_type_known(gcp_last(type))) {
		gcp_not_found(c,
		    arena_printf(c->a, GCP_P "zones/%s/diskTypes/%s", c->arg[1], gcp_last(type)));
	} else if (image && !gcp_image_resolve(c->a, image)) {
		gcp_not_found(c, strstr(image, "projects/") ? strstr(image, "projects/") : image);
	} else if (gb < 1 || gb > 65536) {
		gcp_fail(c, 400, "invalid",
		    "Invalid value for field 'resource.sizeGb': '%" PRId64
		    "'. Disk size must be between 1 and 65536 GB.",
		    gb);
	} else {
		return true;
	}
	return false;
}

/* A blank disk, or one with an image's content; attached to nothing. */
void gcp_disk_insert(struct gcp_call *c)
{
	const char *scope = arena_printf(c->a, "zones/%s", c->arg[1]), *request, *key;
	const char *name = gcp_text(c->body, "name"), *type = gcp_text(c->body, "type");
	const char *image = gcp_param(c, "sourceImage");
	json_t *labels = json_object_get(c->body, "labels"), *value;
	int64_t gb = gcp_i64(c->body, "sizeGb", 500);
	struct gcp_disk *d;
	struct gcp_op *op;

	image = image ? image : gcp_text(c->body, "sourceImage");
	if (!gcp_request_id(c, scope, &request) || !insert_valid(c, name, type, image, gb)) {
		return;
	}
	for (d = c->g->disks; d; d = d->next) {
		if (str_same(d->zone, c->arg[1]) && str_same(d->name, name)) {
			gcp_fail(c, 409, "alreadyExists",
			    "The resource '" GCP_P "%s/disks/%s' already exists", scope, name);
			return;
		}
	}
	d = gcp_disk_new(c->sim, c->arg[1], name);
	d->type = dup_text(type ? gcp_last(type) : "pd-standard");
	d->image = dup_text(image ? gcp_image_resolve(c->a, image) : NULL);
	d->size_gb = gb;
	json_object_foreach (labels, key, value) {
		inst_tag_set(&d->labels, &d->labels_n, key, json_string_value(value));
	}
	op = gcp_op_new(c->sim, "insert", scope, c->email,
	    gcp_link(c->a, "%s/disks/%s", scope, name), gcp_u64(c->a, d->id));
	op->request_id = dup_text(request);
	gcp_op_after(op, 1, NULL);
	gcp_reply(c, gcp_op_json(op, c->a));
}

void gcp_disk_delete(struct gcp_call *c)
{
	const char *scope = arena_printf(c->a, "zones/%s", c->arg[1]), *request;
	struct gcp_disk *d;
	struct gcp_op *op;

	if (!gcp_request_id(c, scope, &request)) {
		return;
	}
	d = disk_find(c);
	if (!d) {
		return;
	}
	if (d->inst) {
		gcp_fail(c, 400, "resourceInUseByAnotherResource",
		    "The disk resource '" GCP_P
		    "zones/%s/disks/%s' is already being used by '" GCP_P "zones/%s/instances/%s'",
		    d->zone, d->name, d->zone, d->inst->name);
		return;
	}
	op = gcp_op_new(c->sim, "delete", scope, c->email,
	    gcp_link(c->a, "%s/disks/%s", scope, d->name), gcp_u64(c->a, d->id));
	op->request_id = dup_text(request);
	gcp_disk_free(c->sim, d);
	gcp_op_after(op, c->sim->conf.terminate_us / 2, NULL);
	gcp_reply(c, gcp_op_json(op, c->a));
}
