/* Put Block, Put Block List, Get Block List. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/blob/blob.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"

#include <unistd.h>

#define ID_MAX 64 /* bytes before base64 */
#define BLOCKS_MAX 50000

static struct blob_block *block_of(struct blob_block *list, size_t n, const char *id)
{
	for (size_t k = 0; k < n; k++) {
		if (strcmp(list[k].id, id) == 0) {
			return &list[k];
		}
	}
	return NULL;
}

static void block_clear(struct blob_block *o)
{
	unlink(o->file);
	free(o->file);
	free(o->id);
}

/* All ids of one blob's staged blocks have one length (Put Block, "Remarks"). */
static bool id_good(struct blob_call *b, const struct blob *x, const char *id)
{
	const struct blob_block *other = x && x->staged_n ? x->staged : NULL;
	struct str raw;

	if (!id || !*id || !base64_decode(b->rq->arena, id, strlen(id), &raw) || raw.n > ID_MAX ||
	    raw.n == 0) {
		blob_fail(b, 400, "InvalidQueryParameterValue",
		    "Value for one of the query parameters specified in the request URI is "
		    "invalid. (blockid)");
		return false;
	}
	if (!other || strlen(other->id) == strlen(id)) {
		return true;
	}
	blob_fail(b, 400, "InvalidBlobOrBlock", "The specified blob or block content is invalid.");
	return false;
}

void blob_put_block(struct blob_call *b)
{
	const char *id = az_query(b->c, "blockid");
	struct str body = b->rq->http->body;
	struct blob *x = blob_find(b->box, b->name);
	struct blob_block *o;
	uint8_t md5[16];
	char *file;

	if (!id_good(b, x, id) || !blob_md5_good(b, md5)) {
		return;
	}
	if (body.n == 0) {
		blob_fail(b, 400, "InvalidHeaderValue",
		    "The value for one of the HTTP headers is not in the correct format. "
		    "(Content-Length)");
		return;
	}
	file = blob_file(b->rq->sim);
	if (!file_put(file, body.p, body.n, 0600)) {
		free(file);
		blob_fail(b, 500, "InternalError", "Server encountered an internal error.");
		return;
	}
	x = blob_get_or_add(b->box, b->name);
	o = block_of(x->staged, x->staged_n, id);
	if (o) {
		block_clear(o);
	} else {
		x->staged = realloc(x->staged, (x->staged_n + 1) * sizeof(*x->staged));
		if (!x->staged) {
			abort();
		}
		o = &x->staged[x->staged_n++];
	}
	*o = (struct blob_block){ dup_text(id), file, body.n };
	reply_set(b->rep, 201, NULL, NULL, 0);
	reply_header(b->rep, "Content-MD5", base64_encode(b->rq->arena, md5, 16));
	reply_header(b->rep, "x-ms-request-server-encrypted", "true");
}

/* ---- committing ------------------------------------------------------------------------------ */

struct pick {
	struct blob_block *from;
	bool staged;
};

/* The next of <Latest>, <Committed>, <Uncommitted>. NULL: none left; *kind is its first letter. */
static const char *next_id(struct arena *a, const char **at, char *kind)
{
	static const char *const names[] = { "Latest", "Committed", "Uncommitted" };

	for (const char *p = strchr(*at, '<'); p; p = strchr(p + 1, '<')) {
		for (size_t k = 0; k < ARRAY_LEN(names); k++) {
			size_t n = strlen(names[k]);
			const char *end;

			if (!str_prefix(p + 1, names[k]) || p[1 + n] != '>') {
				continue;
			}
			end = strchr(p + n + 2, '<');
			if (!end) {
				return NULL;
			}
			*at = end;
			*kind = names[k][0];
			return arena_strndup(a, p + n + 2, (size_t)(end - p) - n - 2);
		}
	}
	return NULL;
}

static bool pick_one(struct blob *x, const char *id, char kind, struct pick *ret)
{
	struct blob_block *staged = block_of(x->staged, x->staged_n, id),
			  *old = block_of(x->blocks, x->blocks_n, id);

	ret->from = kind == 'C' ? old : kind == 'U' ? staged : staged ? staged : old;
	ret->staged = ret->from && ret->from == staged;
	return ret->from != NULL;
}

/* A block may be listed twice: its bytes are then copied. */
static struct blob_block block_take(struct blob_call *b, const struct pick *p,
    const struct blob_block *taken)
{
	struct blob_block o = { dup_text(p->from->id), p->from->file, p->from->size };
	struct str bytes = { 0 };

	p->from->file = NULL;
	if (o.file) {
		return o;
	}
	o.file = blob_file(b->rq->sim);
	for (; !bytes.p && taken->id; taken++) {
		if (strcmp(taken->id, o.id) == 0 && !file_get(b->rq->arena, taken->file, &bytes)) {
			break;
		}
	}
	if (!bytes.p || !file_put(o.file, bytes.p, bytes.n, 0600)) {
		o.size = 0;
	}
	return o;
}

static void blocks_adopt(struct blob_call *b, struct blob *x, struct pick *list, size_t n)
{
	struct blob_block *made = calloc(n + 1, sizeof(*made));

	if (!made) {
		abort();
	}
	x->size = 0;
	for (size_t k = 0; k < n; k++) {
		made[k] = block_take(b, &list[k], made);
		x->size += made[k].size;
	}
	for (size_t k = 0; k < x->blocks_n + x->staged_n; k++) {
		struct blob_block *o =
		    k < x->blocks_n ? &x->blocks[k] : &x->staged[k - x->blocks_n];

		if (o->file) {
			unlink(o->file);
		}
		free(o->file);
		free(o->id);
	}
	free(x->blocks);
	free(x->staged);
	x->staged = NULL;
	x->staged_n = 0;
	x->blocks = made;
	x->blocks_n = n;
	if (x->file) {
		unlink(x->file);
	}
	free(x->file);
	x->file = NULL;
	x->whole_md5 = false;
}

void blob_put_list(struct blob_call *b)
{
	struct arena *a = b->rq->arena;
	const char *at = arena_strndup(a, b->rq->http->body.p ? b->rq->http->body.p : "",
		       b->rq->http->body.n),
		   *id;
	struct blob *x = blob_find(b->box, b->name);
	size_t n = 0, cap = 0;
	struct pick *list = NULL;
	char kind;

	if (!strstr(at, "<BlockList")) {
		blob_fail(b, 400, "InvalidXmlDocument",
		    "XML specified is not syntactically valid.");
		return;
	}
	if (!blob_conditions(b, x)) {
		return;
	}
	while ((id = next_id(a, &at, &kind)) != NULL) {
		list = arena_grow(a, list, n, &cap, sizeof(*list));
		if (!x || !pick_one(x, id, kind, &list[n]) || n >= BLOCKS_MAX) {
			blob_fail(b, 400, n >= BLOCKS_MAX ? "BlockListTooLong" : "InvalidBlockList",
			    "The specified block list is invalid.");
			return;
		}
		n++;
	}
	x = blob_get_or_add(b->box, b->name);
	blocks_adopt(b, x, list, n);
	blob_written(b, x);
}

/* ---- looking --------------------------------------------------------------------------------- */

static void list_blocks(struct sbuf *s, const char *tag, const struct blob_block *list, size_t n)
{
	sbuf_printf(s, "<%s>", tag);
	for (size_t k = 0; k < n; k++) {
		sbuf_printf(s, "<Block><Name>%s</Name><Size>%zu</Size></Block>", list[k].id,
		    list[k].size);
	}
	sbuf_printf(s, "</%s>", tag);
}

void blob_get_list(struct blob_call *b)
{
	const char *type = az_query(b->c, "blocklisttype");
	const struct blob *x = blob_find(b->box, b->name);
	struct sbuf s AUTO(sbuf) = { 0 };
	bool all = str_same(type, "all");

	if (!x) {
		blob_fail(b, 404, "BlobNotFound", "The specified blob does not exist.");
		return;
	}
	if (type && !all && !str_same(type, "committed") && !str_same(type, "uncommitted")) {
		blob_fail(b, 400, "InvalidQueryParameterValue",
		    "Value for one of the query parameters specified in the request URI is "
		    "invalid. "
		    "(blocklisttype)");
		return;
	}
	sbuf_init(&s, 16 << 20);
	sbuf_puts(&s, "<BlockList>");
	if (all || !str_same(type, "uncommitted")) {
		list_blocks(&s, "CommittedBlocks", x->blocks, x->blocks_n);
	}
	if (all || str_same(type, "uncommitted")) {
		list_blocks(&s, "UncommittedBlocks", x->staged, x->staged_n);
	}
	sbuf_puts(&s, "</BlockList>");
	blob_xml(b, 200, &s);
	reply_header(b->rep, "x-ms-blob-content-length",
	    arena_printf(b->rq->arena, "%zu", x->size));
	if (x->committed) {
		blob_stamp(b, x);
	}
}
