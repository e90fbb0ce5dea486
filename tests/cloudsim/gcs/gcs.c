/* The JSON API's methods on buckets and objects (storage v1). */
#include "base/base.h"
#include "cloudsim/gcs/gcs.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <fnmatch.h>
#include <openssl/evp.h>

/* ---- buckets --------------------------------------------------------------------------------- */

static json_t *bucket_json(struct gcp_call *c, const struct gcs_bucket *b)
{
	char at[TIME_TEXT_MAX];

	format_time_s(b->created_us, at);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "kind",
	    "storage#bucket", "id", b->name, "name", b->name, "selfLink",
	    arena_printf(c->a, "https://www.googleapis.com/storage/v1/b/%s", b->name),
	    "projectNumber", GCP_PROJECT_NUMBER, "metageneration", "1", "location", b->location,
	    "storageClass", "STANDARD", "etag", "CAE=", "timeCreated", at, "updated", at,
	    "locationType", strchr(b->location, '-') ? "region" : "multi-region");
}

void gcs_bucket_list(struct gcp_call *c)
{
	json_t *list = json_array(), *out = json_pack("{s:s}", "kind", "storage#buckets");

	for (const struct gcs_bucket *b = c->g->gcs->buckets; b; b = b->next) {
		json_array_append_new(list, bucket_json(c, b));
	}
	if (json_array_size(list) > 0) {
		json_object_set(out, "items", list);
	}
	json_decref(list);
	gcp_reply(c, out);
}

static bool bucket_name_valid(const char *n)
{
	size_t len = n ? strlen(n) : 0;

	return len >= 3 && len <= 63 &&
	    strspn(n, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == len && n[0] != '-' &&
	    n[len - 1] != '-' && !str_prefix(n, "goog");
}

void gcs_bucket_insert(struct gcp_call *c)
{
	const char *name = gcp_text(c->body, "name"), *location = gcp_text(c->body, "location");
	struct gcs_bucket *b;

	if (!str_same(gcp_param(c, "project"), GCP_PROJECT)) {
		gcp_fail(c, 400, "required", "Required parameter: project");
		return;
	}
	if (!bucket_name_valid(name)) {
		gcp_fail(c, 400, "invalid", "Invalid bucket name: '%s'", name ? name : "");
		return;
	}
	for (b = c->g->gcs->buckets; b; b = b->next) {
		if (str_same(b->name, name)) {
			gcp_fail(c, 409, "conflict",
			    "Your previous request to create the named bucket succeeded and "
			    "you already own it.");
			return;
		}
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		abort();
	}
	b->name = dup_text(name);
	b->location = dup_text(location ? location : "US");
	for (char *p = b->location; *p; p++) {
		*p = (char)(*p >= 'a' && *p <= 'z' ? *p - 32 : *p);
	}
	b->created_us = sim_wall(c->sim);
	b->next = c->g->gcs->buckets;
	c->g->gcs->buckets = b;
	gcp_reply(c, bucket_json(c, b));
}

void gcs_bucket_get(struct gcp_call *c)
{
	const struct gcs_bucket *b = gcs_bucket_find(c, c->arg[0]);

	if (b) {
		gcp_reply(c, bucket_json(c, b));
	}
}

/* The caller has roles/storage.objectAdmin and may look at buckets. */
void gcs_bucket_permissions(struct gcp_call *c)
{
	const struct gcs_bucket *b = gcs_bucket_find(c, c->arg[0]);
	const char *p = c->rq->http->query;
	json_t *had = json_array(),
	       *doc = json_pack("{s:s}", "kind", "storage#testIamPermissionsResponse");

	while (*p) {
		size_t n = strcspn(p, "&");
		char *name = NULL;

		if (n > 12 && strncmp(p, "permissions=", 12) == 0 &&
		    url_decode(c->a, (struct str){ p + 12, n - 12 }, true, &name) &&
		    (str_prefix(name, "storage.objects.") ||
			str_same(name, "storage.buckets.get"))) {
			json_array_append_new(had, json_string(name));
		}
		p += n + (p[n] == '&');
	}
	if (json_array_size(had) > 0) {
		json_object_set(doc, "permissions", had);
	}
	json_decref(had);
	if (b) {
		gcp_reply(c, doc);
	} else {
		json_decref(doc);
	}
}

void gcs_bucket_delete(struct gcp_call *c)
{
	struct gcs_bucket *b = gcs_bucket_find(c, c->arg[0]);

	if (!b) {
		return;
	}
	if (b->objects) {
		gcp_fail(c, 409, "conflict", "The bucket you tried to delete is not empty.");
		return;
	}
	for (struct gcs_bucket **at = &c->g->gcs->buckets; *at; at = &(*at)->next) {
		if (*at == b) {
			*at = b->next;
			break;
		}
	}
	gcs_bucket_free(b);
	reply_set(c->rep, 204, NULL, "", 0);
}

/* ---- objects --------------------------------------------------------------------------------- */

/* "bytes=a-b", "bytes=a-", "bytes=-n"; false: the whole object. */
static bool range_read(const char *range, size_t n, size_t *from, size_t *to, bool *bad)
{
	const char *p = range && str_prefix(range, "bytes=") ? range + 6 : NULL, *dash;
	char text[32];
	int64_t a = 0, b = INT64_MAX;

	*bad = false;
	dash = p ? strchr(p, '-') : NULL;
	if (!dash || strchr(p, ',') || (size_t)(dash - p) >= sizeof(text)) {
		return false;
	}
	memcpy(text, p, (size_t)(dash - p));
	text[dash - p] = '\0';
	if ((*text && !parse_i64(text, 0, INT64_MAX, &a)) ||
	    (dash[1] && !parse_i64(dash + 1, 0, INT64_MAX, &b)) || (!*text && !dash[1])) {
		return false;
	}
	if (!*text) {
		a = MAX((int64_t)n - b, 0);
		b = INT64_MAX;
	}
	*bad = a >= (int64_t)n || b < a;
	*from = (size_t)a;
	*to = *bad ? 0 : (size_t)MIN(b, (int64_t)n - 1);
	return true;
}

void gcs_download(struct gcp_call *c, const struct gcs_object *o)
{
	const char *wanted = gcp_param(c, "generation");
	size_t from = 0, to = 0;
	bool bad, part = range_read(req_header(c->rq, "range"), o->n, &from, &to, &bad);

	if (wanted && !str_same(wanted, arena_printf(c->a, "%" PRId64, o->generation))) {
		gcp_fail(c, 404, str_prefix(c->rq->action, "xml.") ? "NoSuchKey" : "notFound",
		    "No such object: %s#%s", o->name, wanted);
		return;
	}
	if (part && bad) {
		reply_header(c->rep, "Content-Range", arena_printf(c->a, "bytes */%zu", o->n));
		reply_set(c->rep, 416, "text/html; charset=UTF-8",
		    "Requested range not satisfiable", 31);
		return;
	}
	gcs_put_hashes(c, o);
	reply_header(c->rep, "Accept-Ranges", "bytes");
	if (part) {
		reply_header(c->rep, "Content-Range",
		    arena_printf(c->a, "bytes %zu-%zu/%zu", from, to, o->n));
	}
	reply_set(c->rep, part ? 206 : 200, o->type, o->bytes + from, part ? to - from + 1 : o->n);
	if (str_same(c->rq->http->method, "HEAD")) {
		c->rep->head_n = c->rep->body.n;
	}
}

static struct gcs_object *object_of(struct gcp_call *c, struct gcs_bucket **ret)
{
	struct gcs_bucket *b = gcs_bucket_find(c, c->arg[0]);
	struct gcs_object *o = b ? gcs_object_find(b, c->arg[1]) : NULL;

	*ret = b;
	if (b && !o) {
		gcp_fail(c, 404, "notFound", "No such object: %s/%s", b->name, c->arg[1]);
	}
	return o;
}

void gcs_object_get(struct gcp_call *c)
{
	struct gcs_bucket *b;
	const struct gcs_object *o = object_of(c, &b);

	if (!o || !gcs_matches(c, o, gcs_wanted_generation(c))) {
		return;
	}
	if (str_same(gcp_param(c, "alt"), "media")) {
		gcs_download(c, o);
	} else {
		gcp_reply(c, gcs_object_json(c, o, b));
	}
}

void gcs_object_delete(struct gcp_call *c)
{
	struct gcs_bucket *b;
	struct gcs_object *o = object_of(c, &b);

	if (!o || !gcs_matches(c, o, gcs_wanted_generation(c))) {
		return;
	}
	gcs_object_drop(b, o);
	reply_set(c->rep, 204, NULL, "", 0);
}

void gcs_object_compose(struct gcp_call *c)
{
	struct gcs_bucket *b = gcs_bucket_find(c, c->arg[0]);
	const json_t *parts = json_object_get(c->body, "sourceObjects");
	const char *type = gcp_text(json_object_get(c->body, "destination"), "contentType");
	struct sbuf all AUTO(sbuf) = { 0 };
	size_t k;
	json_t *one;

	if (!b || !gcs_matches(c, gcs_object_find(b, c->arg[1]), gcs_wanted_generation(c))) {
		return;
	}
	if (json_array_size(parts) < 1 || json_array_size(parts) > 32) {
		gcp_fail(c, 400, "invalid",
		    "The number of source components provided must be from 1 to 32.");
		return;
	}
	sbuf_init(&all, (size_t)1 << 30);
	json_array_foreach (parts, k, one) {
		const char *name = gcp_text(one, "name");
		const struct gcs_object *o = name ? gcs_object_find(b, name) : NULL;

		if (!o) {
			gcp_fail(c, 404, "notFound", "Object %s (generation: 0) not found.",
			    name ? name : "");
			return;
		}
		sbuf_add(&all, o->bytes, o->n);
	}
	gcp_reply(c,
	    gcs_object_json(c, gcs_object_put(c, b, c->arg[1], type, NULL, all.p, all.n), b));
}

/* ---- list ------------------------------------------------------------------------------------ */

/* A page under way; last is the name that the next one begins behind. */
struct list_page {
	json_t *items, *prefixes;
	const char *last;
	int64_t n;
};

/* All names up to and with the first delimiter show as one folder. */
static void list_folder(struct gcp_call *c, struct list_page *x, const char *folder)
{
	size_t had = json_array_size(x->prefixes);

	if (had == 0 ||
	    !str_same(json_string_value(json_array_get(x->prefixes, had - 1)), folder)) {
		json_array_append_new(x->prefixes, json_string(folder));
		x->n++;
	}
	/* The next page begins behind the folder: no name holds this byte. */
	x->last = arena_printf(c->a, "%s\xff", folder);
}

static void list_reply(struct gcp_call *c, struct list_page *x, bool more)
{
	json_t *out = json_pack("{s:s}", "kind", "storage#objects");

	if (more) {
		json_object_set_new(out, "nextPageToken",
		    json_string(base64_encode(c->a, x->last, strlen(x->last))));
	}
	if (json_array_size(x->items) > 0) {
		json_object_set(out, "items", x->items);
	}
	if (json_array_size(x->prefixes) > 0) {
		json_object_set(out, "prefixes", x->prefixes);
	}
	json_decref(x->items);
	json_decref(x->prefixes);
	gcp_reply(c, out);
}

/* startOffset, endOffset and matchGlob, where * stays within a folder unless there are two. */
static bool list_wants(struct gcp_call *c, const char *name)
{
	const char *from = gcp_param(c, "startOffset"), *to = gcp_param(c, "endOffset"),
		   *glob = gcp_param(c, "matchGlob");

	return (!from || strcmp(name, from) >= 0) && (!to || !*to || strcmp(name, to) < 0) &&
	    (!glob || fnmatch(glob, name, strstr(glob, "**") ? 0 : FNM_PATHNAME) == 0);
}

void gcs_object_list(struct gcp_call *c)
{
	const char *prefix = gcp_param(c, "prefix"), *delimiter = gcp_param(c, "delimiter");
	const char *token = gcp_param(c, "pageToken"), *most = gcp_param(c, "maxResults"),
		   *after = NULL;
	const struct gcs_bucket *b = gcs_bucket_find(c, c->arg[0]);
	const struct gcs_object *o;
	struct list_page x = { 0 };
	int64_t max = 1000;
	struct str raw;

	if (!b) {
		return;
	}
	if (most && (!parse_i64(most, 1, INT32_MAX, &max) || max > 1000)) {
		max = 1000;
	}
	if (token && base64_decode(c->a, token, strlen(token), &raw)) {
		after = arena_strndup(c->a, raw.p, raw.n);
	}
	x.items = json_array();
	x.prefixes = json_array();
	for (o = b->objects; o; o = o->next) {
		const char *cut;

		if ((prefix && !str_prefix(o->name, prefix)) || !list_wants(c, o->name) ||
		    (after && strcmp(o->name, after) <= 0)) {
			continue;
		}
		if (x.n == max) {
			break;
		}
		cut = delimiter ? strstr(o->name + (prefix ? strlen(prefix) : 0), delimiter) : NULL;
		if (cut) {
			list_folder(c, &x,
			    arena_strndup(c->a, o->name,
				(size_t)(cut - o->name) + strlen(delimiter)));
			continue;
		}
		json_array_append_new(x.items, gcs_object_json(c, o, b));
		x.n++;
		x.last = o->name;
	}
	list_reply(c, &x, o != NULL);
}
