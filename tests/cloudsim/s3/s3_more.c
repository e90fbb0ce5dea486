/* CopyObject, ListMultipartUploads, a user's own metadata; and which sub-resources are not
 * served. */
#include "base/base.h"
#include "cloudsim/s3/s3.h"
#include "base/text/text.h"

#include <strings.h>

#define META "x-amz-meta-"

/* Returns a query name that S3 has and we do not serve. A plain request would overwrite or delete
 * the object or bucket that such a query describes. */
const char *s3_unserved(struct sim_req *rq)
{
	static const char *const names[] = { "accelerate", "acl", "analytics", "attributes", "cors",
		"encryption", "intelligent-tiering", "inventory", "legal-hold", "lifecycle",
		"logging", "metadataConfiguration", "metrics", "notification", "object-lock",
		"ownershipControls", "policy", "policyStatus", "publicAccessBlock", "renameObject",
		"replication", "requestPayment", "restore", "retention", "select", "session",
		"tagging", "torrent", "versionId", "versioning", "versions", "website" };

	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		if (httpd_query(rq->http, names[k])) {
			return names[k];
		}
	}
	return NULL;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static void meta_add(struct s3_meta *m, const char *name, const char *value)
{
	m->at = realloc(m->at, (m->n + 1) * sizeof(*m->at));
	if (!m->at) {
		abort();
	}
	m->at[m->n].name = dup_text(name);
	m->at[m->n++].value = dup_text(value);
}

void s3_meta_read(struct s3_call *c, struct s3_meta *m)
{
	s3_meta_free(m);
	for (size_t k = 0; k < c->rq->http->headers_n && m->n < S3_META_MAX; k++) {
		const struct spot_header *h = &c->rq->http->headers[k];

		if (strncasecmp(h->name, META, strlen(META)) == 0) {
			meta_add(m, h->name, h->value);
		}
	}
}

void s3_meta_show(struct s3_call *c, const struct s3_meta *m)
{
	for (size_t k = 0; k < m->n; k++) {
		reply_header(c->rep, arena_strdup(c->rq->arena, m->at[k].name),
		    arena_strdup(c->rq->arena, m->at[k].value));
	}
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* x-amz-copy-source: "bucket/key", with or without a slash before it, percent-encoded. */
static struct s3_object *copy_source(struct s3_call *c)
{
	const char *text = req_header(c->rq, "x-amz-copy-source"), *key;
	char *path;
	struct s3_object *o = NULL;

	text += *text == '/';
	if (!url_decode(c->rq->arena, (struct str){ text, strlen(text) }, false, &path) ||
	    !(key = strchr(path, '/'))) {
		reply_fail(c->rq, c->rep, 400, "InvalidArgument",
		    "Copy Source must mention the source bucket and key: sourcebucket/sourcekey");
		return NULL;
	}
	for (struct s3_bucket *b = c->s3->buckets; b && !o; b = b->next) {
		if (strlen(b->name) == (size_t)(key - path) &&
		    strncmp(b->name, path, (size_t)(key - path)) == 0) {
			o = s3_find(b, key + 1);
		}
	}
	if (!o) {
		reply_fail(c->rq, c->rep, 404, "NoSuchKey", "The specified key does not exist.");
	}
	return o;
}

static bool copy_allowed(struct s3_call *c, const struct s3_object *from, bool replace)
{
	const char *match = req_header(c->rq, "x-amz-copy-source-if-match");

	if (match && !str_same(match, from->etag)) {
		reply_fail(c->rq, c->rep, 412, "PreconditionFailed",
		    "At least one of the pre-conditions you specified did not hold");
		return false;
	}
	if (s3_find(c->b, c->key) == from && !replace) {
		reply_fail(c->rq, c->rep, 400, "InvalidRequest",
		    "This copy request is illegal because it is trying to copy an object to itself "
		    "without changing "
		    "the object's metadata, storage class, website redirect location or encryption "
		    "attributes.");
		return false;
	}
	return true;
}

void s3_object_copy(struct s3_call *c)
{
	struct s3_object *from = copy_source(c), *o;
	bool replace = str_same(req_header(c->rq, "x-amz-metadata-directive"), "REPLACE");
	struct s3_meta meta = { 0 };
	struct sbuf b AUTO(sbuf) = { 0 };
	struct str all;
	char *file, *etag;
	const char *type;

	if (!from || !copy_allowed(c, from, replace)) {
		return;
	}
	file = s3_file_name(c->rq->sim);
	if (!file_get(c->rq->arena, from->file, &all) ||
	    !file_put(file, all.n ? all.p : "", all.n, 0600)) {
		free(file);
		reply_fail(c->rq, c->rep, 500, "InternalError",
		    "We encountered an internal error. Please try again.");
		return;
	}
	type = replace ? req_header(c->rq, "content-type") : arena_strdup(c->rq->arena, from->type);
	if (replace) {
		s3_meta_read(c, &meta);
	}
	for (size_t k = 0; !replace && k < from->meta.n; k++) {
		meta_add(&meta, from->meta.at[k].name, from->meta.at[k].value);
	}
	etag = dup_text(from->etag);
	/* from may be gone now */
	o = s3_put(c->b, c->key, type, all.n, etag, file, sim_wall(c->rq->sim));
	o->meta = meta;
	sbuf_init(&b, 4096);
	sbuf_puts(&b, "<CopyObjectResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	x_text(&b, "LastModified", aws_time_ms(c->rq->arena, o->at_us));
	x_text(&b, "ETag", o->etag);
	sbuf_puts(&b, "</CopyObjectResult>");
	s3_xml(c, 200, &b);
}

/* ---- unfinished uploads ---------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
	const struct s3_upload *x = *(const struct s3_upload *const *)a,
			       *y = *(const struct s3_upload *const *)b;
	int d = strcmp(x->key, y->key);

	return d ? d : x->at_us < y->at_us ? -1 : x->at_us > y->at_us;
}

void s3_uploads_list(struct s3_call *c)
{
	const char *prefix = s3_query(c, "prefix") ? s3_query(c, "prefix") : "";
	bool encode = str_same(s3_query(c, "encoding-type"), "url");
	const struct s3_upload **list;
	struct sbuf b AUTO(sbuf) = { 0 };
	size_t n = 0;

	for (const struct s3_upload *u = c->b->uploads; u; u = u->next) {
		n++;
	}
	list = arena_array(c->rq->arena, n + 1, sizeof(*list));
	n = 0;
	for (const struct s3_upload *u = c->b->uploads; u; u = u->next) {
		if (str_prefix(u->key, prefix)) {
			list[n++] = u;
		}
	}
	qsort(list, n, sizeof(*list), by_key);
	sbuf_init(&b, 8 << 20);
	sbuf_puts(&b,
	    "<ListMultipartUploadsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	x_text(&b, "Bucket", c->b->name);
	x_text(&b, "Prefix", prefix);
	if (encode) {
		x_text(&b, "EncodingType", "url");
	}
	x_int(&b, "MaxUploads", 1000);
	x_bool(&b, "IsTruncated", false);
	for (size_t k = 0; k < n; k++) {
		x_open(&b, "Upload");
		x_text(&b, "Key",
		    encode ? url_encode(c->rq->arena, list[k]->key, true) : list[k]->key);
		x_text(&b, "UploadId", list[k]->id);
		x_text(&b, "StorageClass", "STANDARD");
		x_text(&b, "Initiated", aws_time_ms(c->rq->arena, list[k]->at_us));
		x_close(&b, "Upload");
	}
	sbuf_puts(&b, "</ListMultipartUploadsResult>");
	s3_xml(c, 200, &b);
}
