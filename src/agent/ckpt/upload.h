/*
 * Stores one chunk in the object store, in one of three ways:
 *
 * - in one PUT (upload.c)
 * - through a resumable session of Google Cloud Storage (upload_resumable.c)
 * - as blocks of an Azure blob (upload_blocks.c)
 *
 * The last two read the chunk piece by piece into memory (upload_piece.c), so that the bytes sent
 * are the bytes hashed. They send the last piece only if the sha256 of the whole chunk is right.
 *
 * URLs and sessions are secrets, since one is enough to write the object. They are never logged.
 */
#ifndef AGENT_UPLOAD_H
#define AGENT_UPLOAD_H

#include "agent/agent.h"

/* A multiple of 256 KiB, as sessions need it; 8 pieces are a chunk. */
#define UPLOAD_PIECE_BYTES (INT64_C(8) << 20)
#define UPLOAD_BLOCKS_MAX 8
#define UPLOAD_BLOCK_ID_MAX 65
#define UPLOAD_HEADERS_MAX 8

enum upload_how { UPLOAD_PUT = 0, UPLOAD_RESUMABLE, UPLOAD_BLOCKS };

struct upload {
	struct agent *agent;
	const struct scan_file *file;
	size_t seq;
	enum upload_how how;
	char *url;
	char *headers[UPLOAD_HEADERS_MAX + 1];
	int fd; /* the file of a plain PUT under way, else -1 */
	struct http_call *call;
	struct retry backoff;
	bool done;
	int64_t bytes; /* size of the chunk */
	int64_t stored; /* the store has the bytes before this offset */
	char *buf; /* bytes buf_at .. hashed of the chunk */
	int64_t buf_at, hashed;
	struct sha256_stream *sha; /* of the first `hashed` bytes; NULL after the check of all */
	struct md5_stream *md5; /* the same; NULL also if the library refuses MD5 */
	uint8_t md5_all[MD5_BYTES]; /* of the whole chunk, valid if has_md5 */
	bool has_md5;
	char words[TOLD_WORDS_MAX]; /* the store's last hash that did not match */
	int words_n; /* number of times in a row that it was the same */
	bool ask; /* after a fault: ask the store for its progress first */
	char *session; /* resumable: URL of the session; NULL = none yet */
	char *listed; /* blocks: the store's list; NULL = not known */
	char ids[UPLOAD_BLOCKS_MAX][UPLOAD_BLOCK_ID_MAX];
};

/* checkpoint.c */
void ckpt_end(struct agent *a, bool ok, const char *why);
/* Repeats the checkpoint from the list of chunks (CKPT_POST), or from the scan (CKPT_STOP), after
 * files have changed or the scan failed. */
void ckpt_again(struct agent *a, enum ckpt_at at, const char *why);
void ckpt_set(struct agent *a, enum ckpt_at at);

/* upload.c */
void upload_step(struct agent *a); /* CKPT_POST .. CKPT_COMMIT */
void upload_stop(struct agent *a);
bool upload_is_passing(int status); /* true if a repeat of the same request may succeed */
void upload_success(struct upload *u);
/* False if the store's hash in r differs from md5. True without such a hash, or if md5 is NULL. If
 * the store repeats one wrong hash three times, it does not use MD5, and we ignore its hashes. */
NODISCARD bool upload_vouched(struct upload *u, const struct http_reply *r, const uint8_t *md5);
void upload_fault(struct upload *u, const struct http_reply *r); /* may free u and all others */
void upload_start(struct upload *u, const struct http_want *w); /* starts the call of u */
void upload_landed(struct upload *u); /* the first line of every done() */

/* upload_piece.c: loads the piece at offset into u->buf. CONFLICT: the file has changed since the
 * scan. INVALID: the pieces so far do not lead to this offset. */
NODISCARD enum spot_rc upload_piece(struct upload *u, int64_t offset, struct spot_err *err);
NODISCARD enum spot_rc upload_read(struct upload *u, int fd, int64_t offset, struct spot_err *err);
struct str upload_piece_from(const struct upload *u, int64_t offset);
void upload_piece_reset(struct upload *u); /* starts again at the first byte */
char *upload_url(const char *url, const char *query); /* the caller frees it */

/* upload_resumable.c */
void upload_resumable_step(struct upload *u);
/* Gives up an upload and cancels its session, unless it is done. True: the request for the session
 * is under way; that call goes on without the upload. */
bool upload_resumable_leave(struct upload *u);
/* Reads the next offset: 262144 of "bytes=0-262143"; 0 of "", if nothing is stored. */
NODISCARD bool upload_range(const char *text, int64_t *ret_next);

/* upload_blocks.c */
void upload_blocks_step(struct upload *u);
/* Makes the id of a block from its index and hash. All ids have the same length, in letters and
 * digits. */
void upload_block_id(size_t index, struct str bytes, char ret[UPLOAD_BLOCK_ID_MAX]);
NODISCARD bool upload_block_is_listed(const char *list, const char *id);

#endif
