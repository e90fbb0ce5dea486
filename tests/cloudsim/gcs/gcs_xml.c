/*
 * The XML API's paths, /bucket/object, which signed URLs have. Bearer tokens work too. POST with
 * x-goog-resumable: start makes a session (page "Resumable uploads", XML API).
 */
#include "base/base.h"
#include "cloudsim/gcs/gcs.h"
#include "base/text/text.h"

static const char *path_split(struct gcp_call *c, const char **bucket)
{
	const char *path = c->arg[0], *slash = strchr(path, '/');

	*bucket = slash ? arena_strndup(c->a, path, (size_t)(slash - path)) : path;
	return slash ? slash + 1 : "";
}

static void get_object(struct gcp_call *c, const struct gcs_bucket *b, const char *name)
{
	const struct gcs_object *o = gcs_object_find(b, name);

	if (!o) {
		gcp_fail(c, 404, "NoSuchKey", "The specified key does not exist.");
	} else if (gcs_matches(c, o, gcs_wanted_generation(c))) {
		gcs_download(c, o);
	}
}

static void put_object(struct gcp_call *c, struct gcs_bucket *b, const char *name)
{
	struct gcs_object *o;

	if (!gcs_matches(c, gcs_object_find(b, name), gcs_wanted_generation(c))) {
		return;
	}
	if (!gcs_digests(c, NULL, c->rq->http->body.p, c->rq->http->body.n)) {
		return;
	}
	o = gcs_object_put(c, b, name, req_header(c->rq, "content-type"), NULL, c->rq->http->body.p,
	    c->rq->http->body.n);
	gcs_put_hashes(c, o);
	reply_set(c->rep, 200, "text/html; charset=UTF-8", "", 0);
}

static void session_start(struct gcp_call *c, const struct gcs_bucket *b, const char *name)
{
	struct gcs_upload *u;

	if (!str_same(req_header(c->rq, "x-goog-resumable"), "start")) {
		gcp_fail(c, 400, "InvalidArgument",
		    "The request method needs x-goog-resumable: start.");
		return;
	}
	if (c->rq->http->body.n > 0) {
		gcp_fail(c, 400, "InvalidArgument",
		    "Initiation of a resumable upload has an empty body.");
		return;
	}
	if (!gcs_matches(c, gcs_object_find(b, name), gcs_wanted_generation(c))) {
		return;
	}
	u = gcs_upload_start(c, b->name, name);
	u->xml = true;
	u->type = dup_text(req_header(c->rq, "content-type"));
	reply_header(c->rep, "Location",
	    arena_printf(c->a, "http://%s/%s/%s?upload_id=%s", req_header(c->rq, "host"), b->name,
		url_encode(c->a, name, true), u->id));
	reply_header(c->rep, "X-GUploader-UploadID", u->id);
	reply_set(c->rep, 201, "text/html; charset=UTF-8", "", 0);
}

static void drop_object(struct gcp_call *c, struct gcs_bucket *b, const char *name)
{
	struct gcs_object *o = gcs_object_find(b, name);

	if (!o) {
		gcp_fail(c, 404, "NoSuchKey", "The specified key does not exist.");
		return;
	}
	gcs_object_drop(b, o);
	reply_set(c->rep, 204, NULL, "", 0);
}

/* The session's URL is the permission. */
static void session_put(struct gcp_call *c)
{
	struct gcs_upload *u = gcs_upload_find(c);

	if (!u) {
		return;
	}
	if (str_same(c->rq->http->method, "DELETE")) {
		gcs_upload_drop(c, u);
		reply_set(c->rep, 499, "text/plain; charset=utf-8", "", 0);
	} else if (str_same(c->rq->http->method, "PUT")) {
		gcs_upload_chunk(c, u);
	} else {
		gcp_fail(c, 405, "MethodNotAllowed",
		    "The method is not allowed against this resource.");
	}
}

void gcs_xml(struct gcp_call *c)
{
	const char *bucket, *name = path_split(c, &bucket), *method = c->rq->http->method;
	struct gcs_bucket *b;

	if (gcp_param(c, "upload_id")) {
		session_put(c);
		return;
	}
	if (gcp_param(c, "X-Goog-Signature") || gcp_param(c, "X-Goog-Algorithm")) {
		if (!gcs_signed(c)) {
			return;
		}
	} else if (!gcp_authorize(c,
		       "https://www.googleapis.com/auth/devstorage.read_write "
		       "https://www.googleapis.com/auth/devstorage.full_control")) {
		return;
	}
	b = gcs_bucket_find(c, bucket);
	if (!b) {
		return;
	}
	if (!*name) {
		gcp_fail(c, 400, "InvalidArgument", "Listing by the XML API is not emulated.");
	} else if (str_same(method, "GET") || str_same(method, "HEAD")) {
		get_object(c, b, name);
	} else if (str_same(method, "PUT")) {
		put_object(c, b, name);
	} else if (str_same(method, "POST")) {
		session_start(c, b, name);
	} else {
		drop_object(c, b, name);
	}
}
