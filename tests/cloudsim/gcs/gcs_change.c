/* Objects copied, rewritten, and their metadata changed (objects.copy, rewrite, patch, update of
 * storage v1). */
#include "base/base.h"
#include "cloudsim/gcs/gcs.h"
#include "base/text/text.h"

/* Bucket and object that two arguments name; NULL: answered. */
static struct gcs_object *object_at(struct gcp_call *c, int arg, struct gcs_bucket **ret)
{
	struct gcs_bucket *b = gcs_bucket_find(c, c->arg[arg]);
	struct gcs_object *o = b ? gcs_object_find(b, c->arg[arg + 1]) : NULL;
	const char *generation =
	    gcp_param(c, arg == 0 && c->arg[2] ? "sourceGeneration" : "generation");

	*ret = b;
	if (o && generation &&
	    !str_same(generation, arena_printf(c->a, "%" PRId64, o->generation))) {
		o = NULL;
	}
	if (b && !o) {
		gcp_fail(c, 404, "notFound", "No such object: %s/%s", b->name, c->arg[arg + 1]);
	}
	return o;
}

static bool precondition_check(struct gcp_call *c, const char *name, int64_t have)
{
	const char *want = gcp_param(c, name);
	int64_t v;

	if (!want || (parse_i64(want, 0, INT64_MAX, &v) && v == have)) {
		return true;
	}
	gcp_fail(c, 412, "conditionNotMet",
	    "At least one of the pre-conditions you specified did not hold.");
	return false;
}

/* The new object has the body's metadata, or all of the old one's. */
static struct gcs_object *object_copied(struct gcp_call *c, struct gcs_bucket **ret)
{
	struct gcs_bucket *from, *to = NULL;
	const struct gcs_object *o = object_at(c, 0, &from), *made;
	const char *type = gcp_text(c->body, "contentType");
	json_t *metadata = json_object_get(c->body, "metadata");
	struct gcs_object *fresh = NULL;
	char *bytes;

	*ret = NULL;
	if (!o || !precondition_check(c, "ifSourceGenerationMatch", o->generation) ||
	    !precondition_check(c, "ifSourceMetagenerationMatch", o->metageneration)) {
		return NULL;
	}
	to = gcs_bucket_find(c, c->arg[2]);
	made = to ? gcs_object_find(to, c->arg[3]) : NULL;
	if (!to || !gcs_matches(c, made, gcs_wanted_generation(c))) {
		return NULL;
	}
	/* Source and destination may be one. */
	bytes = arena_alloc(c->a, o->n + 1);
	memcpy(bytes, o->bytes, o->n);
	type = arena_strdup(c->a, type ? type : o->type);
	metadata = json_incref(metadata ? metadata : o->metadata);
	fresh = gcs_object_put(c, to, c->arg[3], type, metadata, bytes, o->n);
	json_decref(metadata);
	*ret = to;
	return fresh;
}

void gcs_object_copy(struct gcp_call *c)
{
	struct gcs_bucket *b;
	const struct gcs_object *o = object_copied(c, &b);

	if (o) {
		gcp_reply(c, gcs_object_json(c, o, b));
	}
}

/* Always done in one call. */
void gcs_object_rewrite(struct gcp_call *c)
{
	struct gcs_bucket *b;
	const struct gcs_object *o;

	if (gcp_param(c, "rewriteToken")) {
		gcp_fail(c, 400, "invalid",
		    "Invalid argument: the rewrite token is not of this rewrite.");
		return;
	}
	o = object_copied(c, &b);
	if (o) {
		gcp_reply(c,
		    json_pack("{s:s, s:o, s:o, s:b, s:o}", "kind", "storage#rewriteResponse",
			"totalBytesRewritten", json_sprintf("%zu", o->n), "objectSize",
			json_sprintf("%zu", o->n), "done", 1, "resource",
			gcs_object_json(c, o, b)));
	}
}

/* PATCH changes the named members, null removes one; PUT replaces all. */
void gcs_object_change(struct gcp_call *c)
{
	bool patch = str_same(c->rq->action, "objects.patch");
	json_t *metadata = json_object_get(c->body, "metadata"), *value;
	const char *type = gcp_text(c->body, "contentType"), *key;
	struct gcs_bucket *b;
	struct gcs_object *o = object_at(c, 0, &b);

	if (!o || !gcs_matches(c, o, gcs_wanted_generation(c))) {
		return;
	}
	if (type) {
		free(o->type);
		o->type = dup_text(type);
	}
	if (!patch || !o->metadata || json_is_null(metadata)) {
		if (!patch || metadata) {
			json_decref(o->metadata);
		}
		o->metadata = !patch || metadata ? json_object() : o->metadata;
	}
	json_object_foreach (metadata, key, value) {
		if (json_is_null(value)) {
			json_object_del(o->metadata, key);
		} else {
			json_object_set(o->metadata, key, value);
		}
	}
	o->metageneration++;
	gcp_reply(c, gcs_object_json(c, o, b));
}
