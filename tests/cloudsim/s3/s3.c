/* Which S3 call a request is, and the calls on buckets. */
#include "base/base.h"
#include "cloudsim/s3/s3.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <strings.h>

/* bucket.localhost:port, on the port that knows no other form; "" when the host names no bucket. */
static void split_host(struct sim_req *rq, const char **bucket, const char **key)
{
	const char *host = req_header(rq, "host"), *end = host ? strstr(host, ".localhost") : NULL;
	const char *p = rq->http->path + 1;
	char *text;

	*bucket = end ? arena_strndup(rq->arena, host, (size_t)(end - host)) : "";
	*key = url_decode(rq->arena, (struct str){ p, strlen(p) }, false, &text) ? text : "";
}

/* Path style: /bucket/key. */
static void split_path(struct sim_req *rq, const char **bucket, const char **key)
{
	const char *p = rq->http->path + 1, *slash = strchr(p, '/');
	char *text;

	if (rq->port->own) {
		split_host(rq, bucket, key);
		return;
	}
	*bucket = arena_strndup(rq->arena, p, slash ? (size_t)(slash - p) : strlen(p));
	*key = "";
	if (slash &&
	    url_decode(rq->arena, (struct str){ slash + 1, strlen(slash + 1) }, false, &text)) {
		*key = text;
	}
}

/* The calls by method and query, as the API reference names them. */
const char *s3_action(struct sim_req *rq)
{
	static const struct {
		const char *method;
		bool object;
		const char *query, *action;
	} table[] = {
		{ "PUT", true, "partNumber", "UploadPart" },
		{ "PUT", true, NULL, "PutObject" },
		{ "GET", true, "uploadId", "ListParts" },
		{ "GET", true, NULL, "GetObject" },
		{ "HEAD", true, NULL, "HeadObject" },
		{ "DELETE", true, "uploadId", "AbortMultipartUpload" },
		{ "DELETE", true, NULL, "DeleteObject" },
		{ "POST", true, "uploads", "CreateMultipartUpload" },
		{ "POST", true, "uploadId", "CompleteMultipartUpload" },
		{ "POST", false, "delete", "DeleteObjects" },
		{ "PUT", false, NULL, "CreateBucket" },
		{ "HEAD", false, NULL, "HeadBucket" },
		{ "DELETE", false, NULL, "DeleteBucket" },
		{ "GET", false, "location", "GetBucketLocation" },
		{ "GET", false, "uploads", "ListMultipartUploads" },
		{ "GET", false, "list-type", "ListObjectsV2" },
		{ "GET", false, NULL, "ListObjects" },
	};
	const char *bucket, *key;

	split_path(rq, &bucket, &key);
	if (!*bucket) {
		return "ListBuckets";
	}
	if (s3_unserved(rq)) {
		return "Unserved";
	}
	if (*key && str_same(rq->http->method, "PUT") && req_header(rq, "x-amz-copy-source")) {
		return httpd_query(rq->http, "partNumber") ? "UploadPartCopy" : "CopyObject";
	}
	for (size_t k = 0; k < ARRAY_LEN(table); k++) {
		if (str_same(table[k].method, rq->http->method) &&
		    table[k].object == (*key != '\0') &&
		    (!table[k].query || httpd_query(rq->http, table[k].query))) {
			return table[k].action;
		}
	}
	return rq->http->method;
}

/* STREAMING-* bodies: size;chunk-signature=...CRLF data CRLF ... 0 CRLF trailers. The seed
 * signature of the request was checked; the bytes are taken out of their frames. */
static bool body_unframe(struct s3_call *c)
{
	const char *p = c->rq->http->body.p, *end = p + c->rq->http->body.n;
	char *out = arena_alloc(c->rq->arena, c->rq->http->body.n + 1), *w = out;

	while (p < end) {
		char *stop;
		unsigned long n = strtoul(p, &stop, 16);
		const char *line = memchr(stop, '\n', (size_t)(end - stop));

		if (!line || stop == p) {
			return false;
		}
		p = line + 1;
		if (n == 0) {
			break;
		}
		if (n > (size_t)(end - p)) {
			return false;
		}
		memcpy(w, p, n);
		w += n;
		p += n + 2;
	}
	c->body = (struct str){ out, (size_t)(w - out) };
	return true;
}

/* ---- buckets --------------------------------------------------------------------------------- */

static bool bucket_name_valid(const char *name)
{
	size_t n = strlen(name);

	return n >= 3 && n <= 63 && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-")] &&
	    name[0] != '-' && name[0] != '.' && name[n - 1] != '-' && name[n - 1] != '.';
}

static void bucket_create(struct s3_call *c)
{
	struct s3_bucket *b;

	if (c->b) {
		reply_fail(c->rq, c->rep, 409, "BucketAlreadyOwnedByYou",
		    "Your previous request to create the named bucket "
		    "succeeded and you already own it.");
		return;
	}
	if (!bucket_name_valid(c->bucket)) {
		reply_fail(c->rq, c->rep, 400, "InvalidBucketName",
		    "The specified bucket is not valid.");
		return;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		abort();
	}
	b->name = dup_text(c->bucket);
	b->region = dup_text(c->rq->region);
	b->at_us = sim_wall(c->rq->sim);
	b->next = c->s3->buckets;
	c->s3->buckets = b;
	reply_header(c->rep, "Location", arena_printf(c->rq->arena, "/%s", c->bucket));
	reply_set(c->rep, 200, NULL, NULL, 0);
}

static void bucket_delete(struct s3_call *c)
{
	if (c->b->objects) {
		reply_fail(c->rq, c->rep, 409, "BucketNotEmpty",
		    "The bucket you tried to delete is not empty");
		return;
	}
	for (struct s3_bucket **at = &c->s3->buckets; *at; at = &(*at)->next) {
		if (*at == c->b) {
			*at = c->b->next;
			break;
		}
	}
	s3_bucket_free(c->b);
	reply_set(c->rep, 204, NULL, NULL, 0);
}

static void bucket_location(struct s3_call *c)
{
	struct sbuf b AUTO(sbuf) = { 0 };

	sbuf_init(&b, 4096);
	/* us-east-1 has no name here. */
	sbuf_printf(&b,
	    "<LocationConstraint "
	    "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">%s</LocationConstraint>",
	    str_same(c->b->region, "us-east-1") ? "" : c->b->region);
	s3_xml(c, 200, &b);
}

static void not_implemented(struct s3_call *c)
{
	reply_fail(c->rq, c->rep, 501, "NotImplemented",
	    "A header or query you provided requests functionality that is not "
	    "implemented.");
}

static void serve_bucket(struct s3_call *c, const char *action)
{
	if (str_same(action, "HeadBucket")) {
		reply_header(c->rep, "x-amz-bucket-region", c->b->region);
		reply_set(c->rep, 200, NULL, NULL, 0);
	} else if (str_same(action, "DeleteBucket")) {
		bucket_delete(c);
	} else if (str_same(action, "GetBucketLocation")) {
		bucket_location(c);
	} else if (str_same(action, "DeleteObjects")) {
		s3_objects_delete(c);
	} else if (str_same(action, "ListMultipartUploads")) {
		s3_uploads_list(c);
	} else if (str_prefix(action, "ListObjects")) {
		s3_list(c);
	} else {
		not_implemented(c);
	}
}

static void serve_object(struct s3_call *c, const char *action)
{
	static const struct {
		const char *action;
		void (*fn)(struct s3_call *);
	} table[] = {
		{ "PutObject", s3_object_put },
		{ "CopyObject", s3_object_copy },
		{ "DeleteObject", s3_object_delete },
		{ "UploadPart", s3_upload_part },
		{ "CreateMultipartUpload", s3_upload_create },
		{ "CompleteMultipartUpload", s3_upload_complete },
		{ "AbortMultipartUpload", s3_upload_abort },
		{ "ListParts", s3_parts_list },
	};

	if (strlen(c->key) > 1024) {
		reply_fail(c->rq, c->rep, 400, "KeyTooLongError", "Your key is too long");
		return;
	}
	if (str_same(action, "GetObject") || str_same(action, "HeadObject")) {
		s3_object_get(c, str_same(action, "HeadObject"));
		return;
	}
	for (size_t k = 0; k < ARRAY_LEN(table); k++) {
		if (str_same(table[k].action, action)) {
			table[k].fn(c);
			return;
		}
	}
	not_implemented(c);
}

void s3_serve(struct sim_req *rq, struct sim_reply *rep)
{
	struct s3_call c = { .rq = rq, .rep = rep, .s3 = rq->sim->s3, .body = rq->http->body };
	const char *declared = req_header(rq, "x-amz-content-sha256");

	split_path(rq, &c.bucket, &c.key);
	if (declared && str_prefix(declared, "STREAMING-") && !body_unframe(&c)) {
		reply_fail(rq, rep, 400, "IncompleteBody",
		    "The request body terminated unexpectedly");
		return;
	}
	if (!*c.bucket && *c.key) {
		reply_fail(rq, rep, 400, "PathStyleRequestNotAllowed",
		    "Path-style requests are not supported: use bucket.host");
		return;
	}
	if (!*c.bucket) {
		s3_list_buckets(&c);
		return;
	}
	for (struct s3_bucket *b = c.s3->buckets; b && !c.b; b = b->next) {
		if (str_same(b->name, c.bucket)) {
			c.b = b;
		}
	}
	if (str_same(rq->action, "CreateBucket")) {
		bucket_create(&c);
	} else if (!c.b) {
		reply_fail(rq, rep, 404, "NoSuchBucket", "The specified bucket does not exist");
	} else if (*c.key) {
		serve_object(&c, rq->action);
	} else {
		serve_bucket(&c, rq->action);
	}
}
