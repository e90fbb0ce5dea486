/*
 * SPOT_READ: a provider's step asks for a small local file (credentials, profile, token). The
 * function follows links, because projected tokens and dotfiles are links. It refuses anything but
 * a regular file, which could block the loop.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crypto/crypto.h"
#include "io/call/call_priv.h"

static enum spot_rc read_open(const char *path, int *ret_fd, int *ret_status, struct spot_err *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		*ret_status = 404;
		return SPOT_OK;
	}
	if (fd < 0 && (errno == EACCES || errno == EPERM)) {
		*ret_status = 403;
		return SPOT_OK;
	}
	if (fd < 0) {
		return err_set(err, SPOT_CONFIG, "cannot open %s: %s", path, strerror(errno));
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(err, SPOT_CONFIG, "cannot read %s: not a regular file", path);
	}
	*ret_fd = fd;
	*ret_status = 200;
	return SPOT_OK;
}

enum spot_rc call_read_file(const char *path, struct arena *arena, struct spot_http_response *ret,
    struct spot_err *err)
{
	enum spot_rc rc;
	int fd = -1, status = 0;
	size_t n = 0;
	ssize_t got = 1;
	char *buf;

	if (path == NULL || path[0] == '\0') {
		return err_set(err, SPOT_INTERNAL, "the provider's step names no file to read");
	}
	rc = read_open(path, &fd, &status, err);
	if (rc != SPOT_OK) {
		return rc;
	}
	*ret = (struct spot_http_response){ .status = status, .body = { .p = "", .n = 0 } };
	if (fd < 0) {
		return SPOT_OK;
	}
	buf = malloc(CALL_READ_MAX + 1);
	if (buf == NULL) {
		abort();
	}
	while (n <= CALL_READ_MAX && (got = read(fd, buf + n, CALL_READ_MAX + 1 - n)) > 0) {
		n += (size_t)got;
	}
	close(fd);
	if (got < 0) {
		rc = err_set(err, SPOT_CONFIG, "cannot read %s: %s", path, strerror(errno));
	} else if (n > CALL_READ_MAX) {
		rc = err_set(err, SPOT_CONFIG, "%s is larger than 256 KiB: not a credentials file",
		    path);
	} else {
		ret->body = arena_bytes(arena, buf, n);
	}
	mem_wipe(buf, n);
	free(buf);
	return rc;
}
