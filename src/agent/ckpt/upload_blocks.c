/*
 * Stores a chunk as blocks of an Azure blob: Put Block sends the pieces, Put Block List makes the
 * blob of them. The id of a block holds its index and its hash. So a listed block is the right one,
 * even if an earlier agent sent it. After a fault the agent reads the list and skips its blocks.
 * learn.microsoft.com/rest/api/storageservices/ put-block, get-block-list, put-block-list.
 */
#include "base/base.h"
#include "agent/ckpt/upload.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

#define LIST_TIMEOUT_US (20 * SPOT_US_PER_S)

/* Encodes 48 bytes, so that base64 has no padding. From digits, a to f and '-' it makes neither '+'
 * nor '/'. */
void upload_block_id(size_t index, struct str bytes, char ret[UPLOAD_BLOCK_ID_MAX])
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char hex[SHA256_HEX], text[64];
	char *p = ret;

	sha256_hex(bytes.p, bytes.n, hex);
	(void)snprintf(text, sizeof(text), "%07zu-%.40s", index, hex);
	for (size_t i = 0; i < 48; i += 3) {
		unsigned v =
		    (unsigned)text[i] << 16 | (unsigned)text[i + 1] << 8 | (unsigned)text[i + 2];

		for (int shift = 18; shift >= 0; shift -= 6) {
			*p++ = digits[v >> shift & 63];
		}
	}
	*p = '\0';
}

bool upload_block_is_listed(const char *list, const char *id)
{
	char name[UPLOAD_BLOCK_ID_MAX + 16];

	(void)snprintf(name, sizeof(name), "<Name>%s</Name>", id);
	return strstr(list, name) != NULL;
}

static void block_fault(struct upload *u, const struct http_reply *r)
{
	u->ask = true;
	upload_fault(u, r);
}

static void store_ask(struct upload *u, const char *method, const char *query, const char *header,
    struct str body, bool lent, int64_t timeout_us,
    void (*done)(void *upload, const struct http_reply *r))
{
	char *url = upload_url(u->url, query);
	struct http_want w = { .far = HTTP_OBJECT,
		.method = method,
		.url = url,
		.headers = (const char *const *)u->headers,
		.header = header,
		.body = body,
		.lent = lent,
		.timeout_us = timeout_us,
		.done = done,
		.ctx = u };

	upload_start(u, &w);
	mem_wipe(url, strlen(url));
	free(url);
}

/* ---- the stored blocks ----------------------------------------------------------------------- */

static void list_done(void *upload, const struct http_reply *r)
{
	struct upload *u = upload;

	upload_landed(u);
	if (r->status == 0 || upload_is_passing(r->status)) {
		block_fault(u, r);
		return;
	}
	/* 404: no block yet. 403: the URL is for writing only, so count acknowledged blocks. */
	u->ask = false;
	free(STEAL(u->listed));
	if (r->status == 200 && (u->listed = strdup(r->body.p)) == NULL) {
		abort();
	}
	agent_wake(u->agent, u->agent->now_us);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void block_is_stored(struct upload *u)
{
	u->stored = u->hashed;
	retry_clear(&u->backoff);
	agent_wake(u->agent, u->agent->now_us);
}

static void block_done(void *upload, const struct http_reply *r)
{
	struct upload *u = upload;

	upload_landed(u);
	if (r->status == 201 || r->status == 200) {
		block_is_stored(u);
	} else {
		block_fault(u, r);
	}
}

/* Makes the store check the bytes: it answers 400 if they differ. Its reply to Put Block has no
 * hash. An access signature signs no headers, so we may add this one. */
static const char *md5_header(struct str bytes, char ret[64])
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct md5_stream *s = md5_stream_new();
	uint8_t md5[MD5_BYTES];

	if (s == NULL) {
		return NULL;
	}
	md5_stream_add(s, bytes.p, bytes.n);
	md5_stream_end(s, md5);
	(void)snprintf(ret, 64, "Content-MD5: %s", base64_encode(a, md5, MD5_BYTES));
	return ret;
}

static void block_send(struct upload *u)
{
	struct spot_err err = { 0 };
	size_t index = (size_t)(u->stored / UPLOAD_PIECE_BYTES);
	enum spot_rc rc = upload_piece(u, u->stored, &err);
	char query[128], header[64];
	struct str bytes;

	if (rc != SPOT_OK) {
		upload_fault(u,
		    &(struct http_reply){ .error = err.text, .wrong_bytes = rc == SPOT_CONFLICT });
		return;
	}
	bytes = upload_piece_from(u, u->stored);
	upload_block_id(index, bytes, u->ids[index]);
	if (u->listed != NULL && upload_block_is_listed(u->listed, u->ids[index])) {
		block_is_stored(u);
		return;
	}
	(void)snprintf(query, sizeof(query), "comp=block&blockid=%s", u->ids[index]);
	store_ask(u, "PUT", query, md5_header(bytes, header), bytes, true, 0, block_done);
}

/* ---- the list -------------------------------------------------------------------------------- */

static void list_committed(void *upload, const struct http_reply *r)
{
	struct upload *u = upload;

	upload_landed(u);
	if (r->status == 201 || r->status == 200) {
		upload_success(u);
		return;
	}
	if (r->status == 400) { /* InvalidBlockList: another commit has dropped some blocks */
		upload_piece_reset(u);
		u->ask = true;
		upload_fault(u, &(struct http_reply){ .error = "the store misses a block" });
		return;
	}
	upload_fault(u, r);
}

static void list_commit(struct upload *u)
{
	struct sbuf b;
	size_t n = (size_t)((u->bytes + UPLOAD_PIECE_BYTES - 1) / UPLOAD_PIECE_BYTES);

	sbuf_init(&b, 4096);
	sbuf_puts(&b, "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
	for (size_t i = 0; i < n; i++) {
		sbuf_printf(&b, "<Latest>%s</Latest>", u->ids[i]);
	}
	sbuf_puts(&b, "</BlockList>");
	assert(!b.overflow);
	store_ask(u, "PUT", "comp=blocklist", NULL, (struct str){ b.p, b.n }, false,
	    LIST_TIMEOUT_US, list_committed);
	sbuf_fini(&b);
}

void upload_blocks_step(struct upload *u)
{
	if (u->stored == u->bytes) {
		list_commit(u);
	} else if (u->ask) {
		store_ask(u, "GET", "comp=blocklist&blocklisttype=uncommitted", NULL, STR_LIT(""),
		    true, LIST_TIMEOUT_US, list_done);
	} else {
		block_send(u);
	}
}
