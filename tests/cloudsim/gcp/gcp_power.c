/* Calls on an instance besides insert and delete: stop, start, reset, metadata, tags, its serial
 * port (their pages of the Compute Engine API reference). */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

static struct inst *inst_named(struct gcp_call *c, const char **ret_request)
{
	struct inst *i;

	if (ret_request &&
	    !gcp_request_id(c, arena_printf(c->a, "zones/%s", c->arg[1]), ret_request)) {
		return NULL;
	}
	i = gcp_vm_find(c->sim, c->arg[1], c->arg[2]);
	if (i && gcp_vm_shown(i)) {
		return i;
	}
	gcp_not_found(c, arena_printf(c->a, GCP_P "zones/%s/instances/%s", c->arg[1], c->arg[2]));
	return NULL;
}

static struct gcp_op *op_of(struct gcp_call *c, const struct inst *i, const char *type,
    const char *request)
{
	const char *scope = arena_printf(c->a, "zones/%s", i->pool->zone->name);
	struct gcp_op *op = gcp_op_new(c->sim, type, scope, c->email,
	    gcp_link(c->a, "%s/instances/%s", scope, i->name), i->id);

	op->request_id = dup_text(request);
	return op;
}

static void reply_op(struct gcp_call *c, struct gcp_op *op, int64_t us)
{
	gcp_op_after(op, us, NULL);
	gcp_reply(c, gcp_op_json(op, c->a));
}

/* ---- stop, start, reset ---------------------------------------------------------------------- */

void gcp_vm_stop(struct gcp_call *c)
{
	const char *request;
	struct inst *i = inst_named(c, &request);

	if (!i) {
		return;
	}
	/* Machines with local SSDs must say whether those are discarded (page "Stop or restart an
	 * instance"). */
	if (gcp_type_of(c->g, i->pool->type)->ssds > 0 && !gcp_param(c, "discardLocalSsd")) {
		gcp_fail(c, 400, "invalid",
		    "VM has a Local SSD attached but an undefined value for `discard-local-ssd`. "
		    "If using gcloud, please add `--discard-local-ssd=false` or "
		    "`--discard-local-ssd=true` to your command.");
		return;
	}
	if (i->state == INST_SHUTTING) {
		gcp_fail(c, 400, "resourceNotReady",
		    "The resource '" GCP_P "zones/%s/instances/%s' is not ready", c->arg[1],
		    i->name);
		return;
	}
	/* Of one that is stopped the operation has nothing to do. */
	inst_stop(i);
	gcp_imds_forget(i);
	reply_op(c, op_of(c, i, "stop", request), c->sim->conf.terminate_us);
}

static struct gcp_want want_of(struct gcp_call *c, const struct inst *i)
{
	const struct gcp_type *t = gcp_type_of(c->g, i->pool->type);

	return (struct gcp_want){ .name = i->name,
		.machine = t->machine,
		.type = t,
		.pool = i->pool,
		.zone = i->pool->zone,
		.side = i->side,
		.spot = gcp_vm(i)->spot };
}

void gcp_vm_start(struct gcp_call *c)
{
	const char *request, *words;
	struct inst *i = inst_named(c, &request);
	struct gcp_want w;
	struct gcp_op *op;
	json_t *error = NULL;
	int http;

	if (!i) {
		return;
	}
	if (i->state == INST_SHUTTING || str_same(gcp_vm_status(i), "STOPPING")) {
		gcp_fail(c, 400, "resourceNotReady",
		    "The resource '" GCP_P "zones/%s/instances/%s' is not ready", c->arg[1],
		    i->name);
		return;
	}
	op = op_of(c, i, "start", request);
	if (i->state == INST_STOPPED || i->state == INST_GONE) {
		w = want_of(c, i);
		error = gcp_shortage(c->sim, &w, &http, &words);
		if (error) {
			gcp_op_error(op, http, words, error);
		} else {
			inst_revive(i);
			inst_restart(i);
		}
	}
	reply_op(c, op, error ? 1 : c->sim->conf.boot_us);
}

/* The machine goes on, and so does the bill; its program is not started anew. */
void gcp_vm_reset(struct gcp_call *c)
{
	const char *request;
	struct inst *i = inst_named(c, &request);

	if (!i) {
		return;
	}
	if (i->state != INST_RUNNING) {
		gcp_fail(c, 400, "resourceNotReady",
		    "The resource '" GCP_P "zones/%s/instances/%s' is not ready", c->arg[1],
		    i->name);
	} else {
		reply_op(c, op_of(c, i, "reset", request), 1);
	}
}

/* Without the parameter it is put on. */
void gcp_vm_protect(struct gcp_call *c)
{
	const char *request, *want = gcp_param(c, "deletionProtection");
	struct inst *i = inst_named(c, &request);

	if (!i) {
		return;
	}
	gcp_vm(i)->undeletable = !str_same(want, "false");
	reply_op(c, op_of(c, i, "setDeletionProtection", request), 1);
}

/* ---- metadata, tags -------------------------------------------------------------------------- */

static bool print_fits(struct gcp_call *c, const char *now, const char *what)
{
	if (str_same(gcp_text(c->body, "fingerprint"), now)) {
		return true;
	}
	gcp_fail(c, 412, "conditionNotMet",
	    "Supplied fingerprint does not match current %s fingerprint.", what);
	return false;
}

void gcp_vm_set_metadata(struct gcp_call *c)
{
	const char *request;
	struct inst *i = inst_named(c, &request);
	struct gcp_vm *v;

	if (!i) {
		return;
	}
	v = gcp_vm(i);
	if (!print_fits(c, gcp_metadata_print(c->a, i), "metadata") ||
	    !gcp_metadata_check(c, c->body)) {
		return;
	}
	json_decref(v->metadata);
	v->metadata = json_deep_copy(c->body);
	v->metadata_version++;
	gcp_imds_changed(i);
	reply_op(c, op_of(c, i, "setMetadata", request), 1);
}

void gcp_vm_set_tags(struct gcp_call *c)
{
	const char *request;
	struct inst *i = inst_named(c, &request);
	struct gcp_vm *v;
	json_t *one;
	size_t k;

	if (!i) {
		return;
	}
	v = gcp_vm(i);
	json_array_foreach (json_object_get(c->body, "items"), k, one) {
		if (!gcp_name_valid(json_string_value(one))) {
			gcp_fail(c, 400, "invalid",
			    "Invalid value for field 'resource.items[%zu]': '%s'. Must be a match "
			    "of regex "
			    "'(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'",
			    k, json_string_value(one));
			return;
		}
	}
	if (!print_fits(c, gcp_tags_print(c->a, i), "tags")) {
		return;
	}
	json_decref(v->tags);
	v->tags = json_deep_copy(c->body);
	json_object_del(v->tags, "fingerprint");
	v->tags_version++;
	reply_op(c, op_of(c, i, "setTags", request), 1);
}

/* ---- output of the guest --------------------------------------------------------------------- */

void gcp_vm_serial(struct gcp_call *c)
{
	const char *port = gcp_param(c, "port"), *from = gcp_param(c, "start");
	struct inst *i = inst_named(c, NULL);
	struct str log = { 0 };
	int64_t at = 0, number = 1;

	if (!i) {
		return;
	}
	if ((port && !parse_i64(port, 1, 4, &number)) ||
	    (from && !parse_i64(from, 0, INT64_MAX, &at))) {
		gcp_fail(c, 400, "invalid", "Invalid value for field '%s'.",
		    port ? "port" : "start");
		return;
	}
	if (i->state == INST_GONE || i->state == INST_STOPPED) {
		gcp_fail(c, 400, "resourceNotReady",
		    "The resource '" GCP_P "zones/%s/instances/%s' is not ready", c->arg[1],
		    i->name);
		return;
	}
	if (number == 1 && i->home) {
		file_get(c->a, arena_printf(c->a, "%s/console.log", i->home), &log);
	} else if (number == 1 && i->state != INST_PENDING) {
		log = str_from("[    0.000000] Linux version 6.8.0 (cloudsim)\n");
	}
	at = MIN(at, (int64_t)log.n);
	gcp_reply(c,
	    json_pack("{s:s, s:o, s:s, s:s, s:s}", "kind", "compute#serialPortOutput", "contents",
		json_stringn_nocheck(log.p ? log.p + at : "", log.n - (size_t)at), "start",
		gcp_u64(c->a, (uint64_t)at), "next", gcp_u64(c->a, log.n), "selfLink",
		gcp_link(c->a, "zones/%s/instances/%s/serialPort", c->arg[1], i->name)));
}

/* No program here writes guest attributes. */
void gcp_vm_guest_attributes(struct gcp_call *c)
{
	const char *path = gcp_param(c, "queryPath"), *key = gcp_param(c, "variableKey");

	if (inst_named(c, NULL)) {
		gcp_fail(c, 404, "notFound",
		    "The resource '%s' of type 'Guest Attribute' was not found.",
		    path      ? path
			: key ? key
			      : "");
	}
}
