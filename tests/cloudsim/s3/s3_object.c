/* PutObject, GetObject, HeadObject, DeleteObject(s). */
#include "base/base.h"
#include "cloudsim/s3/s3.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

/* Content-MD5 is checked when it came. */
static bool md5_agrees(struct s3_call *c, const uint8_t md5[16])
{
	const char *want = req_header(c->rq, "content-md5");
	struct str raw;

	if (!want) {
		return true;
	}
	if (!base64_decode(c->rq->arena, want, strlen(want), &raw) || raw.n != 16) {
		reply_fail(c->rq, c->rep, 400, "InvalidDigest",
		    "The Content-MD5 you specified was invalid.");
		return false;
	}
	if (memcmp(raw.p, md5, 16) == 0) {
		return true;
	}
	reply_fail(c->rq, c->rep, 400, "BadDigest",
	    "The Content-MD5 you specified did not match what we received.");
	return false;
}

static void echo_checksums(struct s3_call *c)
{
	static const char *const names[] = { "x-amz-checksum-crc32", "x-amz-checksum-crc32c",
		"x-amz-checksum-sha256", "x-amz-checksum-sha1", "x-amz-checksum-crc64nvme" };

	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		const char *v = req_header(c->rq, names[k]);

		if (v) {
			reply_header(c->rep, names[k], v);
		}
	}
}

void s3_object_put(struct s3_call *c)
{
	const char *none_match = req_header(c->rq, "if-none-match");
	struct s3_object *o;
	uint8_t md5[16];
	char *file;

	s3_md5(c->body.p, c->body.n, md5);
	if (!md5_agrees(c, md5)) {
		return;
	}
	if (none_match && str_same(none_match, "*") && s3_find(c->b, c->key)) {
		reply_fail(c->rq, c->rep, 412, "PreconditionFailed",
		    "At least one of the pre-conditions you specified did not "
		    "hold");
		return;
	}
	file = s3_file_name(c->rq->sim);
	if (!file_put(file, c->body.p ? c->body.p : "", c->body.n, 0600)) {
		free(file);
		reply_fail(c->rq, c->rep, 500, "InternalError",
		    "We encountered an internal error. Please try again.");
		return;
	}
	o = s3_put(c->b, c->key, req_header(c->rq, "content-type"), c->body.n,
	    s3_quoted_etag(md5, 0), file, sim_wall(c->rq->sim));
	s3_meta_read(c, &o->meta);
	reply_header(c->rep, "ETag", arena_strdup(c->rq->arena, o->etag));
	echo_checksums(c);
	reply_set(c->rep, 200, NULL, NULL, 0);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* bytes=a-b, a-, -n. false: not satisfiable. Other units are ignored. */
static bool read_range(const char *text, size_t size, size_t *from, size_t *to, bool *partial)
{
	int64_t a, b;
	char left[24], right[24];
	const char *dash;

	*from = 0;
	*to = size;
	*partial = false;
	if (!text || !str_prefix(text, "bytes=") || strchr(text, ',')) {
		return true;
	}
	text += 6;
	dash = strchr(text, '-');
	if (!dash || (size_t)(dash - text) >= sizeof(left) || strlen(dash + 1) >= sizeof(right)) {
		return true;
	}
	snprintf(left, sizeof(left), "%.*s", (int)(dash - text), text);
	snprintf(right, sizeof(right), "%s", dash + 1);
	if (!*left) {
		if (!parse_i64(right, 1, INT64_MAX, &b)) {
			return true;
		}
		*from = (size_t)b >= size ? 0 : size - (size_t)b;
	} else {
		if (!parse_i64(left, 0, INT64_MAX, &a)) {
			return true;
		}
		if ((size_t)a >= size) {
			return false;
		}
		*from = (size_t)a;
		if (*right && parse_i64(right, a, INT64_MAX, &b)) {
			*to = MIN(size, (size_t)b + 1);
		}
	}
	*partial = true;
	return true;
}

static void send_object(struct s3_call *c, const struct s3_object *o, bool head)
{
	size_t from, to;
	bool partial;
	struct str all = { 0 };

	if (!read_range(req_header(c->rq, "range"), o->size, &from, &to, &partial)) {
		reply_fail(c->rq, c->rep, 416, "InvalidRange",
		    "The requested range is not satisfiable");
		return;
	}
	if (!head && !file_get(c->rq->arena, o->file, &all)) {
		reply_fail(c->rq, c->rep, 500, "InternalError",
		    "We encountered an internal error. Please try again.");
		return;
	}
	if (partial) {
		reply_header(c->rep, "Content-Range",
		    arena_printf(c->rq->arena, "bytes %zu-%zu/%zu", from, to - 1, o->size));
	}
	reply_set(c->rep, partial ? 206 : 200, arena_strdup(c->rq->arena, o->type),
	    head ? NULL : all.p + from, head ? 0 : to - from);
	c->rep->head_n = head ? to - from : 0;
}

void s3_object_get(struct s3_call *c, bool head)
{
	const struct s3_object *o = s3_find(c->b, c->key);
	const char *match = req_header(c->rq, "if-match"),
		   *none = req_header(c->rq, "if-none-match");
	char date[64];

	if (!o) {
		reply_fail(c->rq, c->rep, 404, "NoSuchKey", "The specified key does not exist.");
		return;
	}
	if (match && !str_same(match, o->etag)) {
		reply_fail(c->rq, c->rep, 412, "PreconditionFailed",
		    "At least one of the pre-conditions you specified did not "
		    "hold");
		return;
	}
	sim_http_date(o->at_us, date);
	reply_header(c->rep, "ETag", arena_strdup(c->rq->arena, o->etag));
	reply_header(c->rep, "Last-Modified", arena_strdup(c->rq->arena, date));
	reply_header(c->rep, "Accept-Ranges", "bytes");
	s3_meta_show(c, &o->meta);
	if (none && str_same(none, o->etag)) {
		reply_set(c->rep, 304, NULL, NULL, 0);
	} else {
		send_object(c, o, head);
	}
}

void s3_object_delete(struct s3_call *c)
{
	s3_drop(c->b, c->key); /* deleting a missing object is no error */
	reply_set(c->rep, 204, NULL, NULL, 0);
}

void s3_objects_delete(struct s3_call *c)
{
	struct sbuf b AUTO(sbuf) = { 0 };
	const char *at = arena_strndup(c->rq->arena, c->body.p ? c->body.p : "", c->body.n), *key;
	bool quiet = strstr(at, "<Quiet>true</Quiet>") != NULL;

	sbuf_init(&b, 4 << 20);
	sbuf_puts(&b, "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	while ((key = s3_element(c->rq->arena, &at, "Key")) != NULL) {
		s3_drop(c->b, key);
		if (quiet) {
			continue;
		}
		x_open(&b, "Deleted");
		x_text(&b, "Key", key);
		x_close(&b, "Deleted");
	}
	sbuf_puts(&b, "</DeleteResult>");
	s3_xml(c, 200, &b);
}
