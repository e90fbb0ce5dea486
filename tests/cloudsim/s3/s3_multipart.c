/* Multipart uploads. */
#include "base/base.h"
#include "cloudsim/s3/s3.h"
#include "base/text/text.h"

#include <fcntl.h>
#include <unistd.h>

#define PART_MIN ((size_t)5 << 20)

static struct s3_upload *upload_of(struct s3_call *c)
{
	const char *id = s3_query(c, "uploadId");

	for (struct s3_upload *u = c->b->uploads; u; u = u->next) {
		if (str_same(u->id, id) && str_same(u->key, c->key)) {
			return u;
		}
	}
	reply_fail(c->rq, c->rep, 404, "NoSuchUpload",
	    "The specified upload does not exist. The upload ID may be invalid, or "
	    "the upload may have been aborted or completed.");
	return NULL;
}

static void upload_unlink(struct s3_call *c, struct s3_upload *u)
{
	for (struct s3_upload **at = &c->b->uploads; *at; at = &(*at)->next) {
		if (*at == u) {
			*at = u->next;
			return;
		}
	}
}

void s3_upload_create(struct s3_call *c)
{
	struct s3_upload *u = calloc(1, sizeof(*u));
	struct sbuf b AUTO(sbuf) = { 0 };

	if (!u) {
		abort();
	}
	u->id = sim_id(c->rq->sim, NULL, "", 24);
	u->key = dup_text(c->key);
	u->type = dup_text(req_header(c->rq, "content-type"));
	s3_meta_read(c, &u->meta);
	u->at_us = sim_wall(c->rq->sim);
	u->next = c->b->uploads;
	c->b->uploads = u;
	sbuf_init(&b, 1 << 16);
	sbuf_puts(&b,
	    "<InitiateMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	x_text(&b, "Bucket", c->b->name);
	x_text(&b, "Key", c->key);
	x_text(&b, "UploadId", u->id);
	sbuf_puts(&b, "</InitiateMultipartUploadResult>");
	s3_xml(c, 200, &b);
}

static struct s3_part *part_slot(struct s3_upload *u, int number)
{
	for (size_t k = 0; k < u->parts_n; k++) {
		if (u->parts[k].number == number) {
			s3_part_free(&u->parts[k], true);
			return &u->parts[k];
		}
	}
	u->parts = realloc(u->parts, (u->parts_n + 1) * sizeof(*u->parts));
	if (!u->parts) {
		abort();
	}
	return &u->parts[u->parts_n++];
}

void s3_upload_part(struct s3_call *c)
{
	struct s3_upload *u = upload_of(c);
	int64_t number;
	struct s3_part *p;
	char *file;

	if (!u) {
		return;
	}
	if (!s3_has(c, "partNumber") || !parse_i64(s3_query(c, "partNumber"), 1, 10000, &number)) {
		reply_fail(c->rq, c->rep, 400, "InvalidArgument",
		    "Part number must be an integer between 1 and 10000, inclusive");
		return;
	}
	file = s3_file_name(c->rq->sim);
	if (!file_put(file, c->body.p ? c->body.p : "", c->body.n, 0600)) {
		free(file);
		reply_fail(c->rq, c->rep, 500, "InternalError",
		    "We encountered an internal error. Please try again.");
		return;
	}
	p = part_slot(u, (int)number);
	*p = (struct s3_part){ .number = (int)number, .file = file, .size = c->body.n };
	s3_md5(c->body.p, c->body.n, p->md5);
	p->etag = s3_quoted_etag(p->md5, 0);
	reply_header(c->rep, "ETag", arena_strdup(c->rq->arena, p->etag));
	reply_set(c->rep, 200, NULL, NULL, 0);
}

void s3_upload_abort(struct s3_call *c)
{
	struct s3_upload *u = upload_of(c);

	if (!u) {
		return;
	}
	upload_unlink(c, u);
	s3_upload_free(u);
	reply_set(c->rep, 204, NULL, NULL, 0);
}

/* ---- completing ------------------------------------------------------------------------------ */

static const struct s3_part *part_by(const struct s3_upload *u, int64_t number)
{
	for (size_t k = 0; k < u->parts_n; k++) {
		if (u->parts[k].number == number) {
			return &u->parts[k];
		}
	}
	return NULL;
}

static bool same_etag(const char *a, const char *b)
{
	size_t n = strlen(b) - 2;

	return a && (str_same(a, b) || (strlen(a) == n && strncmp(a, b + 1, n) == 0));
}

/* The list in the body, checked against the uploaded parts. */
static size_t chosen_parts(struct s3_call *c, struct s3_upload *u, const struct s3_part **list)
{
	const char *at = arena_strndup(c->rq->arena, c->body.p ? c->body.p : "", c->body.n), *part;
	int64_t last = 0, number;
	size_t n = 0;

	while ((part = s3_element(c->rq->arena, &at, "Part")) != NULL) {
		const char *p = part, *q = part;
		const char *text = s3_element(c->rq->arena, &p, "PartNumber");
		const char *etag = s3_element(c->rq->arena, &q, "ETag");
		const struct s3_part *found;

		if (!text || !parse_i64(text, 1, 10000, &number)) {
			reply_fail(c->rq, c->rep, 400, "MalformedXML",
			    "The XML you provided was not well-formed or did not validate "
			    "against our published schema");
			return 0;
		}
		if (number <= last) {
			reply_fail(c->rq, c->rep, 400, "InvalidPartOrder",
			    "The list of parts was not in ascending order. Parts must "
			    "be ordered by part number.");
			return 0;
		}
		last = number;
		found = part_by(u, number);
		if (!found || !same_etag(etag, found->etag)) {
			reply_fail(c->rq, c->rep, 400, "InvalidPart",
			    "One or more of the specified parts could not be found. The part "
			    "may not have been uploaded, or the specified entity tag may not match "
			    "the part's entity tag.");
			return 0;
		}
		list[n++] = found;
	}
	if (n == 0) {
		reply_fail(c->rq, c->rep, 400, "MalformedXML",
		    "The XML you provided was not well-formed or did not validate "
		    "against our published schema");
	}
	for (size_t k = 0; k + 1 < n; k++) {
		if (list[k]->size < PART_MIN) {
			reply_fail(c->rq, c->rep, 400, "EntityTooSmall",
			    "Your proposed upload is smaller than the minimum allowed size");
			return 0;
		}
	}
	return n;
}

static bool append_file(int out, const char *path)
{
	static char buf[1 << 16];
	int in = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (in < 0) {
		return false;
	}
	while ((n = read(in, buf, sizeof(buf))) > 0) {
		if (write(out, buf, (size_t)n) != n) {
			n = -1;
			break;
		}
	}
	close(in);
	return n == 0;
}

static char *parts_join(struct s3_call *c, const struct s3_part *const *list, size_t n)
{
	char *file = s3_file_name(c->rq->sim);
	int out = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool ok = out >= 0;

	for (size_t k = 0; k < n && ok; k++) {
		ok = append_file(out, list[k]->file);
	}
	if (out >= 0) {
		close(out);
	}
	if (ok) {
		return file;
	}
	unlink(file);
	free(file);
	return NULL;
}

static void upload_finish(struct s3_call *c, struct s3_upload *u, const struct s3_part **list,
    size_t n)
{
	uint8_t *all = arena_alloc(c->rq->arena, n * 16), md5[16];
	struct sbuf b AUTO(sbuf) = { 0 };
	struct s3_object *o;
	size_t size = 0;
	char *file = parts_join(c, list, n);

	if (!file) {
		reply_fail(c->rq, c->rep, 500, "InternalError",
		    "We encountered an internal error. Please try again.");
		return;
	}
	for (size_t k = 0; k < n; k++) {
		memcpy(all + 16 * k, list[k]->md5, 16);
		size += list[k]->size;
	}
	s3_md5(all, n * 16, md5);
	o = s3_put(c->b, c->key, u->type, size, s3_quoted_etag(md5, n), file, sim_wall(c->rq->sim));
	o->meta = u->meta;
	u->meta = (struct s3_meta){ 0 };
	upload_unlink(c, u);
	s3_upload_free(u);
	sbuf_init(&b, 1 << 16);
	sbuf_puts(&b,
	    "<CompleteMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	x_text(&b, "Location", arena_printf(c->rq->arena, "/%s/%s", c->b->name, c->key));
	x_text(&b, "Bucket", c->b->name);
	x_text(&b, "Key", c->key);
	x_text(&b, "ETag", o->etag);
	sbuf_puts(&b, "</CompleteMultipartUploadResult>");
	s3_xml(c, 200, &b);
}

void s3_upload_complete(struct s3_call *c)
{
	struct s3_upload *u = upload_of(c);
	const struct s3_part **list;
	size_t n;

	if (!u) {
		return;
	}
	list = arena_array(c->rq->arena, u->parts_n + 1, sizeof(*list));
	n = chosen_parts(c, u, list);
	if (n > 0) {
		upload_finish(c, u, list, n);
	}
}

void s3_parts_list(struct s3_call *c)
{
	struct s3_upload *u = upload_of(c);
	struct sbuf b AUTO(sbuf) = { 0 };

	sbuf_init(&b, 4 << 20);
	if (!u) {
		return;
	}
	sbuf_puts(&b, "<ListPartsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	x_text(&b, "Bucket", c->b->name);
	x_text(&b, "Key", c->key);
	x_text(&b, "UploadId", u->id);
	x_bool(&b, "IsTruncated", false);
	for (int64_t number = 1; number <= 10000; number++) {
		const struct s3_part *p = part_by(u, number);

		if (!p) {
			continue;
		}
		x_open(&b, "Part");
		x_int(&b, "PartNumber", number);
		x_text(&b, "ETag", p->etag);
		x_int(&b, "Size", (int64_t)p->size);
		x_close(&b, "Part");
	}
	sbuf_puts(&b, "</ListPartsResult>");
	s3_xml(c, 200, &b);
}
