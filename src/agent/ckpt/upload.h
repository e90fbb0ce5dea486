/*
 * One chunk on its way to the object store: in one PUT (upload.c), through a resumable session of
 * Google Cloud Storage (upload_resumable.c) or as blocks of an Azure blob (upload_blocks.c). The
 * last two read the chunk piece by piece into memory (upload_piece.c), so that the bytes sent are
 * the bytes hashed. They send the end only once the sha256 of the whole is right.
 *
 * URLs and sessions are secrets, since one is enough to write the object. They are never logged.
 */
#ifndef AGENT_UPLOAD_H
#define AGENT_UPLOAD_H

#include "agent/agent.h"

/* A multiple of 256 KiB, as sessions want it; 8 blocks make a chunk. */
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
	int fd; /* of a plain PUT under way; -1 */
	struct http_call *call;
	struct retry backoff;
	bool done;
	/* in pieces: offsets in the chunk */
	int64_t bytes, stored; /* of the chunk; the store has everything before */
	char *buf; /* bytes buf_at .. hashed of it */
	int64_t buf_at, hashed;
	/* of the first `hashed` bytes; NULL once it was right for all */
	struct sha256_stream *sha;
	struct md5_stream *md5; /* likewise; NULL also where the library refuses it */
	uint8_t md5_all[MD5_BYTES]; /* of the whole chunk, once has_md5 */
	bool has_md5;
	/* the store's word when it had other bytes than it was sent, and how often */
	char words[TOLD_WORDS_MAX];
	int words_n;
	bool ask; /* a fault came between: ask how far it got first */
	char *session; /* resumable: its URL; NULL = none yet */
	char *listed; /* blocks: the store's list; NULL = not known */
	char ids[UPLOAD_BLOCKS_MAX][UPLOAD_BLOCK_ID_MAX];
};

/* checkpoint.c */
void ckpt_end(struct agent *a, bool ok, const char *why);
/* Once more from the list of chunks (CKPT_POST), or from the scan (CKPT_STOP: files have changed,
 * or it could not be made). */
void ckpt_again(struct agent *a, enum ckpt_at at, const char *why);
void ckpt_set(struct agent *a, enum ckpt_at at);

/* upload.c */
void upload_step(struct agent *a); /* CKPT_POST .. CKPT_COMMIT */
void upload_stop(struct agent *a);
bool upload_is_passing(int status); /* worth a repeat of the same request */
void upload_success(struct upload *u);
/* Does the store say that it has these bytes (MD5; NULL: not known), or nothing of it? The same
 * word three times is its own way of counting: it is not asked again. */
NODISCARD bool upload_vouched(struct upload *u, const struct http_reply *r, const uint8_t *md5);
void upload_fault(struct upload *u, const struct http_reply *r); /* may free u and all others */
void upload_start(struct upload *u, const struct http_want *w); /* flies */
void upload_landed(struct upload *u); /* first line of every done */

/* upload_piece.c: makes u->buf hold the piece at offset. CONFLICT: the file is not what was
 * scanned; INVALID: the offset cannot be continued from. */
NODISCARD enum spot_rc upload_piece(struct upload *u, int64_t offset, struct spot_err *err);
NODISCARD enum spot_rc upload_read(struct upload *u, int fd, int64_t offset, struct spot_err *err);
struct str upload_piece_from(const struct upload *u, int64_t offset);
void upload_piece_reset(struct upload *u); /* from the first byte again */
char *upload_url(const char *url, const char *query); /* the caller frees */

/* upload_resumable.c */
void upload_resumable_step(struct upload *u);
/* It is given up: its session is cancelled, if it is not done. true: the session is only just asked
 * for; that call goes on without it. */
bool upload_resumable_leave(struct upload *u);
/* "bytes=0-262143" -> 262144; "" -> 0: nothing is stored. */
NODISCARD bool upload_range(const char *text, int64_t *ret_next);

/* upload_blocks.c */
void upload_blocks_step(struct upload *u);
/* Index and hash of a block: equally long for all, plain letters and digits. */
void upload_block_id(size_t index, struct str bytes, char ret[UPLOAD_BLOCK_ID_MAX]);
NODISCARD bool upload_block_is_listed(const char *list, const char *id);

#endif
