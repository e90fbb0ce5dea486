/* The index of buckets and objects: find, put, drop, digests and preconditions. */
#include "base/base.h"
#include "cloudsim/gcs/gcs.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <openssl/evp.h>

void gcs_upload_unlink(struct gcs *g, struct gcs_upload *u)
{
	for (struct gcs_upload **at = &g->uploads; *at; at = &(*at)->next) {
		if (*at == u) {
			*at = u->next;
			break;
		}
	}
	sbuf_fini(&u->bytes);
	json_decref(u->metadata);
	free(u->id);
	free(u->bucket);
	free(u->name);
	free(u->type);
	free(u);
}

void gcs_uploads_free(struct gcs *g)
{
	while (g->uploads) {
		gcs_upload_unlink(g, g->uploads);
	}
}

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

void gcs_bucket_free(struct gcs_bucket *b)
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
		gcs_bucket_free(b);
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
