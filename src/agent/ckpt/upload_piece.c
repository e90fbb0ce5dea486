/*
 * Keeps the next piece of a chunk in memory. The hash runs over the pieces in their order. If the
 * store has kept only a part of a piece, the agent sends the rest from memory.
 */
#include "base/base.h"
#include "agent/ckpt/upload.h"

#include "base/crypto/crypto.h"
#include "spot/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void upload_piece_reset(struct upload *u)
{
	char unused[SHA256_HEX];

	if (u->sha != NULL) {
		sha256_stream_end(STEAL(u->sha), unused);
	}
	if (u->md5 != NULL) {
		md5_stream_end(STEAL(u->md5), u->md5_all);
	}
	u->has_md5 = false;
	free(STEAL(u->buf));
	u->buf_at = u->hashed = u->stored = 0;
}

struct str upload_piece_from(const struct upload *u, int64_t offset)
{
	assert(offset >= u->buf_at && offset < u->hashed);
	return (struct str){ u->buf + (offset - u->buf_at), (size_t)(u->hashed - offset) };
}

static enum spot_rc read_all(int fd, char *buf, int64_t n, int64_t at, struct spot_err *err)
{
	int64_t have = 0;

	while (have < n) {
		ssize_t got = pread(fd, buf + have, (size_t)(n - have), (off_t)(at + have));

		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			return err_set(err, SPOT_INTERNAL, "cannot read: %s", strerror(errno));
		}
		if (got == 0) {
			return err_set(err, SPOT_CONFLICT, "the file became shorter");
		}
		have += got;
	}
	return SPOT_OK;
}

enum spot_rc upload_read(struct upload *u, int fd, int64_t offset, struct spot_err *err)
{
	int64_t n = MIN(UPLOAD_PIECE_BYTES, u->bytes - offset);
	char hex[SHA256_HEX];
	enum spot_rc rc;

	if (offset >= u->buf_at && offset < u->hashed) {
		return SPOT_OK;
	}
	if (offset != u->hashed || n <= 0) {
		return err_set(err, SPOT_INVALID, "the store has other bytes than were sent");
	}
	if (u->buf == NULL) {
		u->buf = malloc((size_t)UPLOAD_PIECE_BYTES);
	}
	if (u->buf == NULL) {
		abort();
	}
	rc = read_all(fd, u->buf, n, (int64_t)u->seq * SPOT_AGENT_CHUNK_BYTES + offset, err);
	if (rc != SPOT_OK) {
		return rc;
	}
	if (u->sha == NULL) {
		u->sha = sha256_stream_new();
		u->md5 = md5_stream_new();
	}
	sha256_stream_add(u->sha, u->buf, (size_t)n);
	if (u->md5 != NULL) {
		md5_stream_add(u->md5, u->buf, (size_t)n);
	}
	u->buf_at = offset;
	u->hashed = offset + n;
	if (u->hashed < u->bytes) {
		return SPOT_OK;
	}
	sha256_stream_end(STEAL(u->sha), hex);
	u->has_md5 = u->md5 != NULL;
	if (u->has_md5) {
		md5_stream_end(STEAL(u->md5), u->md5_all);
	}
	return strcmp(hex, u->file->sha256[u->seq]) == 0
	    ? SPOT_OK
	    : err_set(err, SPOT_CONFLICT, "the bytes do not match their sha256");
}

enum spot_rc upload_piece(struct upload *u, int64_t offset, struct spot_err *err)
{
	char path[AGENT_PATH_MAX];
	enum spot_rc rc;
	int fd = -1;

	if (path_join(path, u->agent->job.ckpt_dir, u->file->path)) {
		fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0) {
		return err_set(err, SPOT_CONFLICT, "a file disappeared before it was stored");
	}
	rc = upload_read(u, fd, offset, err);
	close(fd);
	return rc;
}

char *upload_url(const char *url, const char *query)
{
	size_t n = strlen(url) + strlen(query) + 2;
	char *ret = malloc(n);

	if (ret == NULL) {
		abort();
	}
	(void)snprintf(ret, n, "%s%c%s", url, strchr(url, '?') != NULL ? '&' : '?', query);
	return ret;
}
