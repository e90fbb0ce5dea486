/* Uploads: media, multipart and resumable (pages "Uploads and downloads", "Resumable uploads"). */
#include "base/base.h"
#include "cloudsim/gcs/gcs.h"
#include "base/text/text.h"

#define CHUNK ((size_t)256 << 10)
#define WEEK (7 * 86400 * SPOT_US_PER_S)

/* ---- resumable ------------------------------------------------------------------------------- */

void gcs_upload_drop(struct gcp_call *c, struct gcs_upload *u)
{
	gcs_upload_unlink(c->g->gcs, u);
}

struct gcs_upload *gcs_upload_start(struct gcp_call *c, const char *bucket, const char *name)
{
	const char *length = req_header(c->rq, "x-upload-content-length");
	struct gcs_upload *u = calloc(1, sizeof(*u));

	if (!u) {
		abort();
	}
	u->id = sim_id(c->sim, NULL, "ABPtcPr", 24);
	u->bucket = dup_text(bucket);
	u->name = dup_text(name);
	u->if_generation = gcs_wanted_generation(c);
	u->started_us = sim_wall(c->sim);
	sbuf_init(&u->bytes, (size_t)1 << 30);
	if (!length || !parse_i64(length, 0, INT64_MAX, &u->announced)) {
		u->announced = -1;
	}
	u->next = c->g->gcs->uploads;
	c->g->gcs->uploads = u;
	return u;
}

struct gcs_upload *gcs_upload_find(struct gcp_call *c)
{
	const char *id = gcp_param(c, "upload_id");

	for (struct gcs_upload *u = c->g->gcs->uploads; u; u = u->next) {
		if (!str_same(u->id, id)) {
			continue;
		}
		if (u->started_us + WEEK > sim_wall(c->sim)) {
			return u;
		}
		gcp_fail(c, 410, "uploadExpired", "The requested upload session is gone.");
		return NULL;
	}
	reply_set(c->rep, 404, "text/plain; charset=utf-8", "Not Found", 9);
	c->rep->code = "notFound";
	return NULL;
}

/* Bytes so far, in the words of a resume: "Range: bytes=0-N", no header when there are none. */
static void persisted_reply(struct gcp_call *c, const struct gcs_upload *u)
{
	if (u->bytes.n > 0) {
		reply_header(c->rep, "Range", arena_printf(c->a, "bytes=0-%zu", u->bytes.n - 1));
	}
	reply_header(c->rep, "X-GUploader-UploadID", u->id);
	reply_set(c->rep, 308, "text/plain; charset=utf-8", "", 0);
}

static void upload_complete(struct gcp_call *c, struct gcs_upload *u)
{
	struct gcs_bucket *b = gcs_bucket_find(c, u->bucket);
	struct gcs_object *o;

	if (!b || !gcs_matches(c, gcs_object_find(b, u->name), u->if_generation)) {
		gcs_upload_unlink(c->g->gcs, u);
		return;
	}
	o = gcs_object_put(c, b, u->name, u->type, u->metadata, u->bytes.p, u->bytes.n);
	gcs_put_hashes(c, o);
	if (u->xml) {
		reply_set(c->rep, 200, "text/html; charset=UTF-8", "", 0);
	} else {
		gcp_reply(c, gcs_object_json(c, o, b));
	}
	gcs_upload_unlink(c->g->gcs, u);
}

struct span {
	int64_t from, to, total; /* from < 0: no bytes; total < 0: unknown */
};

/* "bytes 0-262143/614400", "bytes 0-262143/" star, "bytes " star "/total". */
static bool span_read(struct gcp_call *c, const char *text, struct span *ret)
{
	const char *p, *slash, *dash;

	*ret = (struct span){ -1, -1, -1 };
	if (!text || !str_prefix(text, "bytes ")) {
		return false;
	}
	p = text + 6;
	slash = strchr(p, '/');
	if (!slash ||
	    (!str_same(slash + 1, "*") && !parse_i64(slash + 1, 0, INT64_MAX, &ret->total))) {
		return false;
	}
	if (*p == '*') {
		return slash == p + 1;
	}
	dash = memchr(p, '-', (size_t)(slash - p));
	return dash &&
	    parse_i64(arena_strndup(c->a, p, (size_t)(dash - p)), 0, INT64_MAX, &ret->from) &&
	    parse_i64(arena_strndup(c->a, dash + 1, (size_t)(slash - dash - 1)), ret->from,
		INT64_MAX, &ret->to);
}

static bool request_fail(struct gcp_call *c, const char *words)
{
	gcp_fail(c, 400, "invalid", "Invalid request.  %s", words);
	return false;
}

static bool span_fits(struct gcp_call *c, const struct gcs_upload *u, const struct span *s,
    size_t n)
{
	if (s->from < 0) {
		return n == 0 || request_fail(c, "A status query must not have a body.");
	}
	if ((size_t)(s->to - s->from + 1) != n) {
		return request_fail(c, "The Content-Range does not match the length of the body.");
	}
	if (s->total >= 0 && s->to >= s->total) {
		return request_fail(c, "The Content-Range ends after the total size.");
	}
	if (s->from > (int64_t)u->bytes.n) {
		return request_fail(c,
		    arena_printf(c->a,
			"According to the Content-Range header, the upload offset is %" PRId64
			" byte(s), which exceeds already uploaded size of %zu byte(s).",
			s->from, u->bytes.n));
	}
	if ((s->total < 0 || s->to + 1 < s->total) && n < CHUNK) {
		return request_fail(c,
		    arena_printf(c->a,
			"The number of bytes uploaded is required to be equal "
			"or greater than 262144, "
			"except for the final request (it's recommended to be "
			"the exact multiple of "
			"262144).  The received request contained %zu bytes, "
			"which does not meet this "
			"requirement.",
			n));
	}
	return true;
}

void gcs_upload_chunk(struct gcp_call *c, struct gcs_upload *u)
{
	const char *header = req_header(c->rq, "content-range");
	struct str body = c->rq->http->body;
	struct span s = { 0, (int64_t)body.n - 1, (int64_t)body.n };
	size_t skip, keep;

	if (header && !span_read(c, header, &s)) {
		request_fail(c, "The Content-Range header is malformed.");
		return;
	}
	if (!span_fits(c, u, &s, body.n)) {
		return;
	}
	if (s.from >= 0 && body.n > 0 && (size_t)s.to >= u->bytes.n) {
		skip = u->bytes.n - (size_t)s.from; /* bytes that are stored already */
		keep = body.n;
		/* Before the end, only whole pieces of 256 KiB are kept. */
		if (s.total < 0 || s.to + 1 < s.total) {
			keep = ((size_t)s.from + body.n) / CHUNK * CHUNK - (size_t)s.from;
		}
		if (c->g->keep_bytes > 0 && keep > skip + (size_t)c->g->keep_bytes) {
			keep = skip + (size_t)c->g->keep_bytes;
		}
		if (keep > skip) {
			sbuf_add(&u->bytes, body.p + skip, keep - skip);
		}
	}
	if (s.total >= 0 && (int64_t)u->bytes.n == s.total) {
		upload_complete(c, u);
	} else {
		persisted_reply(c, u);
	}
}

void gcs_upload_put(struct gcp_call *c)
{
	struct gcs_upload *u = gcs_upload_find(c);

	if (u) {
		gcs_upload_chunk(c, u);
	}
}

/* A cancelled session is answered with 499. */
void gcs_upload_delete(struct gcp_call *c)
{
	struct gcs_upload *u = gcs_upload_find(c);

	if (!u) {
		return;
	}
	gcs_upload_unlink(c->g->gcs, u);
	reply_set(c->rep, 499, "text/plain; charset=utf-8", "", 0);
}

/* ---- the three ways to start ----------------------------------------------------------------- */

static bool read_metadata(struct gcp_call *c, struct str text, json_t **ret)
{
	struct spot_err err = { 0 };

	*ret = NULL;
	if (text.n == 0) {
		return true;
	}
	if (json_parse(text, "metadata", ret, &err) != SPOT_OK) {
		gcp_fail(c, 400, "parseError", "Parse Error: %s", err.text);
		return false;
	}
	return gcp_schema_check(c, "Object", *ret);
}

static void object_store(struct gcp_call *c, const char *name, const char *type,
    const json_t *metadata, struct str bytes)
{
	struct gcs_bucket *b = gcs_bucket_find(c, c->arg[0]);
	struct gcs_object *o;

	if (!b) {
		return;
	}
	if (!name || !*name) {
		gcp_fail(c, 400, "required", "Required");
		return;
	}
	if (!gcs_matches(c, gcs_object_find(b, name), gcs_wanted_generation(c))) {
		return;
	}
	if (!gcs_digests(c, metadata, bytes.p, bytes.n)) {
		return;
	}
	o = gcs_object_put(c, b, name, type, json_object_get(metadata, "metadata"), bytes.p,
	    bytes.n);
	gcp_reply(c, gcs_object_json(c, o, b));
}

/* multipart/related: one part of JSON, one of bytes. */
static bool next_part(struct str *rest, const char *mark, struct arena *a, const char **head,
    struct str *body)
{
	size_t n = strlen(mark);
	const char *at = memmem(rest->p, rest->n, mark, n), *end, *gap;

	if (!at) {
		return false;
	}
	at += n;
	end = memmem(at, rest->n - (size_t)(at - rest->p), mark, n);
	if (!end) {
		return false;
	}
	gap = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
	if (!gap || end - gap < 6) {
		return false;
	}
	*head = arena_strndup(a, at, (size_t)(gap - at));
	*body = (struct str){ gap + 4, (size_t)(end - gap) - 6 }; /* the line end before the mark */
	rest->n -= (size_t)(end - rest->p);
	rest->p = end;
	return true;
}

static const char *part_type(struct arena *a, const char *head)
{
	const char *p = strcasestr(head, "content-type:"), *end;

	if (!p) {
		return NULL;
	}
	p += strlen("content-type:");
	p += strspn(p, " ");
	end = p + strcspn(p, "\r\n");
	return arena_strndup(a, p, (size_t)(end - p));
}

static void multipart_put(struct gcp_call *c)
{
	const char *type = req_header(c->rq, "content-type"),
		   *b = type ? strstr(type, "boundary=") : NULL;
	const char *head, *mark, *name;
	struct str rest = c->rq->http->body, meta, bytes;
	json_t *doc AUTO(json) = NULL;

	if (!b) {
		gcp_fail(c, 400, "badContent", "Missing multipart boundary.");
		return;
	}
	b += strlen("boundary=");
	b += *b == '"';
	mark = arena_printf(c->a, "--%.*s", (int)strcspn(b, "\";"), b);
	if (!next_part(&rest, mark, c->a, &head, &meta)) {
		gcp_fail(c, 400, "badContent", "Malformed multipart body.");
		return;
	}
	if (!read_metadata(c, meta, &doc)) {
		return;
	}
	if (!next_part(&rest, mark, c->a, &head, &bytes)) {
		gcp_fail(c, 400, "badContent", "Malformed multipart body.");
		return;
	}
	name = gcp_text(doc, "name") ? gcp_text(doc, "name") : gcp_param(c, "name");
	object_store(c, name,
	    gcp_text(doc, "contentType") ? gcp_text(doc, "contentType") : part_type(c->a, head),
	    doc, bytes);
}

static void resumable_start(struct gcp_call *c)
{
	json_t *doc AUTO(json) = NULL;
	const char *name, *type = req_header(c->rq, "x-upload-content-type");
	struct gcs_bucket *b;
	struct gcs_upload *u;

	if (!read_metadata(c, c->rq->http->body, &doc)) {
		return;
	}
	name = gcp_text(doc, "name") ? gcp_text(doc, "name") : gcp_param(c, "name");
	b = gcs_bucket_find(c, c->arg[0]);
	if (!b) {
		return;
	}
	if (!name) {
		gcp_fail(c, 400, "required", "Required");
		return;
	}
	if (!gcs_matches(c, gcs_object_find(b, name), gcs_wanted_generation(c))) {
		return;
	}
	u = gcs_upload_start(c, b->name, name);
	u->type = dup_text(gcp_text(doc, "contentType") ? gcp_text(doc, "contentType") : type);
	u->metadata = json_deep_copy(json_object_get(doc, "metadata"));
	reply_header(c->rep, "Location",
	    arena_printf(c->a,
		"http://%s/upload/storage/v1/b/%s/o?uploadType=resumable&name=%s&upload_id=%s",
		req_header(c->rq, "host"), b->name, url_encode(c->a, name, false), u->id));
	reply_header(c->rep, "X-GUploader-UploadID", u->id);
	reply_set(c->rep, 200, "text/plain; charset=utf-8", "", 0);
}

void gcs_upload(struct gcp_call *c)
{
	const char *kind = gcp_param(c, "uploadType");

	if (gcp_param(c, "upload_id")) {
		gcs_upload_put(c);
	} else if (str_same(kind, "media")) {
		object_store(c, gcp_param(c, "name"), req_header(c->rq, "content-type"), NULL,
		    c->rq->http->body);
	} else if (str_same(kind, "multipart")) {
		multipart_put(c);
	} else if (str_same(kind, "resumable")) {
		resumable_start(c);
	} else {
		gcp_fail(c, 400, "invalid", "Invalid Upload Request: uploadType");
	}
}
