/* Buckets and the JSON API's methods on objects (storage v1). */
#include "base/base.h"
#include "cloudsim/gcs/gcs.h"
#include "base/crypto/sign.h"
#include "base/text/str.h"

#include <fnmatch.h>
#include <openssl/evp.h>

bool gcs_new(struct sim *s, struct spot_err *err)
{
	(void)err;
	s->gcp->gcs = calloc(1, sizeof(*s->gcp->gcs));
	if (!s->gcp->gcs) {
		abort();
	}
	return true;
}

static void object_free(struct gcs_object *o)
{
	free(o->name);
	free(o->type);
	free(o->bytes);
	json_decref(o->metadata);
	free(o);
}

static void bucket_free(struct gcs_bucket *b)
{
	while (b->objects) {
		gcs_object_drop(b, b->objects);
	}
	free(b->name);
	free(b->location);
	free(b);
}

void gcs_free(struct sim *s)
{
	struct gcs *g = s->gcp->gcs;
	struct gcs_bucket *next;

	if (!g) {
		return;
	}
	for (struct gcs_bucket *b = g->buckets; b; b = next) {
		next = b->next;
		bucket_free(b);
	}
	gcs_uploads_free(g);
	free(g);
	s->gcp->gcs = NULL;
}

void gcs_left(const struct sim *s, json_t *left)
{
	for (const struct gcs_upload *u = s->gcp->gcs->uploads; u; u = u->next) {
		json_array_append_new(left, json_sprintf("gcp/upload/%s/%s", u->bucket, u->name));
	}
}

/* ---- buckets --------------------------------------------------------------------------------- */

struct gcs_bucket *gcs_bucket_find(struct gcp_call *c, const char *name)
{
	for (struct gcs_bucket *b = c->g->gcs->buckets; b; b = b->next) {
		if (str_same(b->name, name)) {
			return b;
		}
	}
	gcp_fail(c, 404, str_prefix(c->rq->action, "xml.") ? "NoSuchBucket" : "notFound",
	    "The specified bucket does not exist.");
	return NULL;
}

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
	bucket_free(b);
	reply_set(c->rep, 204, NULL, "", 0);
}

/* ---- objects --------------------------------------------------------------------------------- */

struct gcs_object *gcs_object_find(const struct gcs_bucket *b, const char *name)
{
	for (struct gcs_object *o = b->objects; o; o = o->next) {
		if (str_same(o->name, name)) {
			return o;
		}
	}
	return NULL;
}

void gcs_object_drop(struct gcs_bucket *b, struct gcs_object *o)
{
	for (struct gcs_object **at = &b->objects; *at; at = &(*at)->next) {
		if (*at == o) {
			*at = o->next;
			break;
		}
	}
	object_free(o);
}

uint32_t gcs_crc32c(const void *p, size_t n)
{
	static uint32_t table[256];
	const uint8_t *b = p;
	uint32_t crc = 0xffffffffU;

	for (uint32_t k = 0; !table[255] && k < 256; k++) {
		uint32_t v = k;

		for (int bit = 0; bit < 8; bit++) {
			v = v & 1 ? v >> 1 ^ 0x82f63b78U : v >> 1;
		}
		table[k] = v;
	}
	for (size_t k = 0; k < n; k++) {
		crc = table[(crc ^ b[k]) & 0xff] ^ crc >> 8;
	}
	return crc ^ 0xffffffffU;
}

static const char *md5_text(struct arena *a, const char *bytes, size_t n)
{
	uint8_t md5[EVP_MAX_MD_SIZE];
	unsigned md5_n = 0;

	EVP_Digest(bytes ? bytes : "", n, md5, &md5_n, EVP_md5(), NULL);
	return base64_encode(a, md5, md5_n);
}

static const char *crc_text(struct arena *a, const char *bytes, size_t n)
{
	uint32_t sum = gcs_crc32c(bytes, n);
	uint8_t crc[4];

	for (int k = 0; k < 4; k++) {
		crc[k] = (uint8_t)(sum >> (24 - 8 * k)); /* big-endian */
	}
	return base64_encode(a, crc, 4);
}

/* x-goog-hash: crc32c=...,md5=... */
static const char *hash_said(struct gcp_call *c, const char *name)
{
	const char *all = req_header(c->rq, "x-goog-hash"), *at = all ? strstr(all, name) : NULL;

	return at ? arena_strndup(c->a, at + strlen(name), strcspn(at + strlen(name), ", ")) : NULL;
}

bool gcs_digests(struct gcp_call *c, const json_t *metadata, const char *bytes, size_t n)
{
	const char *const md5[] = { req_header(c->rq, "content-md5"), hash_said(c, "md5="),
		gcp_text(metadata, "md5Hash") };
	const char *const crc[] = { hash_said(c, "crc32c="), gcp_text(metadata, "crc32c") };
	bool ok = true;

	for (size_t k = 0; k < ARRAY_LEN(md5); k++) {
		ok = ok && (!md5[k] || str_same(md5[k], md5_text(c->a, bytes, n)));
	}
	for (size_t k = 0; k < ARRAY_LEN(crc); k++) {
		ok = ok && (!crc[k] || str_same(crc[k], crc_text(c->a, bytes, n)));
	}
	if (!ok) {
		gcp_fail(c, 400, str_prefix(c->rq->action, "xml.") ? "BadDigest" : "invalid",
		    "The hash that was provided does not match the hash that was calculated.");
	}
	return ok;
}

struct gcs_object *gcs_object_put(struct gcp_call *c, struct gcs_bucket *b, const char *name,
    const char *type, const json_t *metadata, const char *bytes, size_t n)
{
	struct gcs_object *o = calloc(1, sizeof(*o)), *old = gcs_object_find(b, name), **at;

	if (!o) {
		abort();
	}
	if (old) {
		gcs_object_drop(b, old);
	}
	o->name = dup_text(name);
	o->type = dup_text(type ? type : "application/octet-stream");
	o->bytes = malloc(n + 1);
	if (!o->bytes) {
		abort();
	}
	if (n > 0) {
		memcpy(o->bytes, bytes, n);
	}
	o->n = n;
	o->created_us = sim_wall(c->sim);
	o->metageneration = 1;
	o->generation = MAX(o->created_us, c->g->gcs->last_generation + 1);
	c->g->gcs->last_generation = o->generation;
	o->metadata = metadata ? json_deep_copy(metadata) : NULL;
	snprintf(o->md5, sizeof(o->md5), "%s", md5_text(c->a, o->bytes, n));
	snprintf(o->crc32c, sizeof(o->crc32c), "%s", crc_text(c->a, o->bytes, n));
	for (at = &b->objects; *at && strcmp((*at)->name, name) < 0; at = &(*at)->next)
		;
	o->next = *at;
	*at = o;
	return o;
}

/* mediaLink names us: the vendor's client downloads from there. */
json_t *gcs_object_json(struct gcp_call *c, const struct gcs_object *o, const struct gcs_bucket *b)
{
	struct arena *a = c->a;
	const char *path = arena_printf(a, "b/%s/o/%s", b->name, url_encode(a, o->name, false));
	const char *generation = arena_printf(a, "%" PRId64, o->generation);
	char at[TIME_TEXT_MAX];
	json_t *doc;

	format_time_s(o->created_us, at);
	doc = json_pack("{s:s, s:o, s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:s, "
			"s:s, s:s}",
	    "kind", "storage#object", "id", json_sprintf("%s/%s/%s", b->name, o->name, generation),
	    "selfLink", arena_printf(a, "https://www.googleapis.com/storage/v1/%s", path),
	    "mediaLink",
	    json_sprintf("http://%s/download/storage/v1/%s?generation=%s&alt=media",
		req_header(c->rq, "host"), path, generation),
	    "name", o->name, "bucket", b->name, "generation", generation, "metageneration",
	    arena_printf(a, "%" PRId64, o->metageneration), "contentType", o->type, "storageClass",
	    "STANDARD", "size", json_sprintf("%zu", o->n), "md5Hash", o->md5, "crc32c", o->crc32c,
	    "etag", o->md5, "timeCreated", at, "updated", at);
	if (json_object_size(o->metadata)) {
		json_object_set(doc, "metadata", o->metadata);
	}
	return doc;
}

int64_t gcs_wanted_generation(struct gcp_call *c)
{
	const char *t = gcp_param(c, "ifGenerationMatch");
	int64_t v;

	if (!t) {
		t = req_header(c->rq, "x-goog-if-generation-match");
	}
	return t && parse_i64(t, 0, INT64_MAX, &v) ? v : -1;
}

/* A condition of the query that names a number; absent ones hold. */
static bool number_holds(struct gcp_call *c, const char *name, int64_t have, bool same)
{
	const char *text = gcp_param(c, name);
	int64_t v;

	return !text || (parse_i64(text, 0, INT64_MAX, &v) && (v == have) == same);
}

bool gcs_matches(struct gcp_call *c, const struct gcs_object *o, int64_t generation)
{
	int64_t meta = o ? o->metageneration : 0, now = o ? o->generation : 0;

	if (!number_holds(c, "ifGenerationNotMatch", now, false) ||
	    !number_holds(c, "ifMetagenerationNotMatch", meta, false)) {
		if (str_same(c->rq->http->method, "GET")) {
			reply_set(c->rep, 304, NULL, "", 0);
			return false;
		}
	} else if ((generation < 0 || now == generation) &&
	    number_holds(c, "ifMetagenerationMatch", meta, true)) {
		return true;
	}
	gcp_fail(c, 412,
	    str_prefix(c->rq->action, "xml.") ? "PreconditionFailed" : "conditionNotMet",
	    "At least one of the pre-conditions you specified did not hold.");
	return false;
}

void gcs_put_hashes(struct gcp_call *c, const struct gcs_object *o)
{
	reply_header(c->rep, "X-Goog-Hash",
	    arena_printf(c->a, "crc32c=%s,md5=%s", o->crc32c, o->md5));
	reply_header(c->rep, "X-Goog-Generation", arena_printf(c->a, "%" PRId64, o->generation));
	reply_header(c->rep, "X-Goog-Metageneration",
	    arena_printf(c->a, "%" PRId64, o->metageneration));
	reply_header(c->rep, "X-Goog-Stored-Content-Length", arena_printf(c->a, "%zu", o->n));
	reply_header(c->rep, "X-Goog-Stored-Content-Encoding", "identity");
	reply_header(c->rep, "X-Goog-Storage-Class", "STANDARD");
	reply_header(c->rep, "ETag", arena_printf(c->a, "\"%s\"", o->md5));
}

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
