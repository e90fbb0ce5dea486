/* Put Blob, Get Blob with ranges, Get Blob Properties, Delete Blob. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/blob/blob.h"
#include "cloudsim/s3/s3.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

void blob_stamp(struct blob_call *b, const struct blob *x)
{
	reply_header(b->rep, "ETag", arena_strdup(b->rq->arena, x->etag));
	reply_header(b->rep, "Last-Modified", blob_date(b->rq->arena, x->at_us));
}

static const char *md5_text(struct arena *a, const uint8_t md5[16])
{
	return base64_encode(a, md5, 16);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void keep_meta(struct blob_call *b, struct blob *x)
{
	const struct httpd_req *r = b->rq->http;

	while (x->meta_n > 0) {
		inst_tag_unset(&x->meta, &x->meta_n, x->meta[0].key, NULL);
	}
	for (size_t k = 0; k < r->headers_n; k++) {
		if (strncasecmp(r->headers[k].name, "x-ms-meta-", 10) == 0) {
			inst_tag_set(&x->meta, &x->meta_n, r->headers[k].name + 10,
			    r->headers[k].value);
		}
	}
}

static void blob_renew(struct blob_call *b, struct blob *x)
{
	const char *type = blob_header(b, "x-ms-blob-content-type");

	if (!type && str_same(b->rq->action, "PutBlob")) {
		type = blob_header(b, "content-type");
	}
	free(x->type);
	free(x->etag);
	x->type = dup_text(type ? type : "application/octet-stream");
	x->etag = blob_etag(b->rq->sim);
	x->at_us = sim_wall(b->rq->sim);
	if (!x->committed) {
		x->made_us = x->at_us;
	}
	x->committed = true;
	keep_meta(b, x);
}

void blob_written(struct blob_call *b, struct blob *x)
{
	blob_renew(b, x);
	reply_set(b->rep, 201, NULL, NULL, 0);
	blob_stamp(b, x);
	reply_header(b->rep, "x-ms-request-server-encrypted", "true");
}

bool blob_md5_good(struct blob_call *b, uint8_t md5[16])
{
	const char *given = blob_header(b, "content-md5");

	s3_md5(b->rq->http->body.p, b->rq->http->body.n, md5);
	if (!given || str_same(given, md5_text(b->rq->arena, md5))) {
		return true;
	}
	blob_fail(b, 400, "Md5Mismatch",
	    "The MD5 value specified in the request did not match with the MD5 value calculated by "
	    "the server.");
	return false;
}

/* Blocks that were staged or committed before are gone with it. */
static void forget_blocks(struct blob *x)
{
	for (size_t k = 0; k < x->blocks_n + x->staged_n; k++) {
		struct blob_block *o =
		    k < x->blocks_n ? &x->blocks[k] : &x->staged[k - x->blocks_n];

		unlink(o->file);
		free(o->file);
		free(o->id);
	}
	free(x->blocks);
	free(x->staged);
	x->blocks = x->staged = NULL;
	x->blocks_n = x->staged_n = 0;
}

void blob_put(struct blob_call *b)
{
	struct str body = b->rq->http->body;
	struct blob *x = blob_find(b->box, b->name);
	uint8_t md5[16];
	char *file;

	if (!str_same(blob_header(b, "x-ms-blob-type"), "BlockBlob")) {
		blob_fail(b, 400,
		    blob_header(b, "x-ms-blob-type") ? "InvalidHeaderValue"
						     : "MissingRequiredHeader",
		    "An HTTP header that's mandatory for this request is not specified: "
		    "x-ms-blob-type.");
		return;
	}
	if (strlen(b->name) > 1024) {
		blob_fail(b, 400, "InvalidResourceName",
		    "The specified resource name is too long.");
		return;
	}
	if (!blob_conditions(b, x) || !blob_md5_good(b, md5)) {
		return;
	}
	file = blob_file(b->rq->sim);
	if (!file_put(file, body.p ? body.p : "", body.n, 0600)) {
		free(file);
		blob_fail(b, 500, "InternalError", "Server encountered an internal error.");
		return;
	}
	x = blob_get_or_add(b->box, b->name);
	forget_blocks(x);
	if (x->file) {
		unlink(x->file);
		free(x->file);
	}
	x->file = file;
	x->size = body.n;
	memcpy(x->md5, md5, 16);
	x->whole_md5 = true;
	blob_written(b, x);
	reply_header(b->rep, "Content-MD5", md5_text(b->rq->arena, md5));
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_file(const char *path, size_t from, size_t n, char *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t at = 0;

	while (fd >= 0 && at < n) {
		ssize_t r = pread(fd, out + at, n - at, (off_t)(from + at));

		if (r <= 0) {
			break;
		}
		at += (size_t)r;
	}
	if (fd >= 0) {
		close(fd);
	}
	return at == n;
}

/* The content is the blocks one after another, or one file. */
static bool read_bytes(const struct blob *x, size_t from, size_t n, char *out)
{
	size_t start = 0;

	if (x->file) {
		return read_file(x->file, from, n, out);
	}
	for (size_t k = 0; k < x->blocks_n && n > 0; start += x->blocks[k++].size) {
		size_t end = start + x->blocks[k].size, take;

		if (from >= end) {
			continue;
		}
		take = MIN(n, end - from);
		if (!read_file(x->blocks[k].file, from - start, take, out)) {
			return false;
		}
		out += take;
		from += take;
		n -= take;
	}
	return n == 0;
}

static bool read_range(struct blob_call *b, const struct blob *x, size_t *from, size_t *n,
    bool *part)
{
	const char *r = blob_header(b, "x-ms-range");
	char first[24], last[24];
	int64_t lo, hi = (int64_t)x->size - 1;
	const char *dash;

	*from = 0;
	*n = x->size;
	*part = false;
	if (!r) {
		r = blob_header(b, "range");
	}
	if (!r || !str_prefix(r, "bytes=")) {
		return true;
	}
	r += strlen("bytes=");
	dash = strchr(r, '-');
	if (!dash || dash == r) {
		return true;
	}
	snprintf(first, sizeof(first), "%.*s", (int)MIN(dash - r, 20), r);
	snprintf(last, sizeof(last), "%.20s", dash + 1);
	if (!parse_i64(first, 0, INT64_MAX / 2, &lo) ||
	    (*last && !parse_i64(last, 0, INT64_MAX / 2, &hi))) {
		return true;
	}
	hi = MIN(hi, (int64_t)x->size - 1);
	if (lo > hi) {
		blob_fail(b, 416, "InvalidRange",
		    "The range specified is invalid for the current size of the resource.");
		reply_header(b->rep, "Content-Range",
		    arena_printf(b->rq->arena, "bytes */%zu", x->size));
		return false;
	}
	*from = (size_t)lo;
	*n = (size_t)(hi - lo + 1);
	*part = true;
	return true;
}

static void blob_describe(struct blob_call *b, const struct blob *x, bool part)
{
	struct arena *a = b->rq->arena;

	blob_stamp(b, x);
	reply_header(b->rep, "Accept-Ranges", "bytes");
	reply_header(b->rep, "x-ms-blob-type", "BlockBlob");
	reply_header(b->rep, "x-ms-lease-status", "unlocked");
	reply_header(b->rep, "x-ms-lease-state", "available");
	reply_header(b->rep, "x-ms-server-encrypted", "true");
	reply_header(b->rep, "x-ms-creation-time", blob_date(a, x->made_us));
	if (x->whole_md5) {
		reply_header(b->rep, part ? "x-ms-blob-content-md5" : "Content-MD5",
		    md5_text(a, x->md5));
	}
	for (size_t k = 0; k < MIN(x->meta_n, (size_t)8); k++) {
		reply_header(b->rep, arena_printf(a, "x-ms-meta-%s", x->meta[k].key),
		    arena_strdup(a, x->meta[k].value));
	}
}

void blob_read(struct blob_call *b, bool head)
{
	const struct blob *x = blob_find(b->box, b->name);
	size_t from, n;
	bool part;
	char *out;

	if (!x || !x->committed) {
		blob_fail(b, 404, "BlobNotFound", "The specified blob does not exist.");
		return;
	}
	if (!blob_conditions(b, x) || (!head && !read_range(b, x, &from, &n, &part))) {
		return;
	}
	if (head) {
		reply_set(b->rep, 200, arena_strdup(b->rq->arena, x->type), NULL, 0);
		b->rep->head_n = x->size;
		blob_describe(b, x, false);
		return;
	}
	out = arena_alloc(b->rq->arena, n + 1);
	if (!read_bytes(x, from, n, out)) {
		blob_fail(b, 500, "InternalError", "Server encountered an internal error.");
		return;
	}
	reply_set(b->rep, part ? 206 : 200, arena_strdup(b->rq->arena, x->type), out, n);
	blob_describe(b, x, part);
	if (part) {
		reply_header(b->rep, "Content-Range",
		    arena_printf(b->rq->arena, "bytes %zu-%zu/%zu", from, from + n - 1, x->size));
	}
}

void blob_put_meta(struct blob_call *b)
{
	struct blob *x = blob_find(b->box, b->name);

	if (!x || !x->committed) {
		blob_fail(b, 404, "BlobNotFound", "The specified blob does not exist.");
		return;
	}
	if (!blob_conditions(b, x)) {
		return;
	}
	keep_meta(b, x);
	free(x->etag);
	x->etag = blob_etag(b->rq->sim);
	x->at_us = sim_wall(b->rq->sim);
	reply_set(b->rep, 200, NULL, NULL, 0);
	blob_stamp(b, x);
	reply_header(b->rep, "x-ms-request-server-encrypted", "true");
}

void blob_delete(struct blob_call *b)
{
	const struct blob *x = blob_find(b->box, b->name);

	if (!x || !x->committed) {
		blob_fail(b, 404, "BlobNotFound", "The specified blob does not exist.");
		return;
	}
	if (!blob_conditions(b, x)) {
		return;
	}
	blob_drop(b->box, b->name);
	reply_set(b->rep, 202, NULL, NULL, 0);
	reply_header(b->rep, "x-ms-delete-type-permanent", "true");
}
