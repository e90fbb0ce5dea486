/*
 * Values that must not leak: registered for redaction while they live, wiped when they end,
 * compared in constant time.
 */
#include "base/base.h"
#include "base/crypto/crypto.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 65536

void mem_wipe(void *p, size_t n)
{
	if (p != NULL) {
		OPENSSL_cleanse(p, n);
	}
}

bool mem_equal_const(const void *a, const void *b, size_t n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}

void secret_init(struct secret *s, const char *value, size_t n)
{
	s->n = n;
	s->p_private = malloc(n + 1);
	if (s->p_private == NULL) {
		abort();
	}
	if (n > 0) {
		memcpy(s->p_private, value, n);
	}
	s->p_private[n] = '\0';
	redact_add(s->p_private, n);
}

void secret_fini(struct secret *s)
{
	if (s->p_private == NULL) {
		return;
	}
	redact_remove(s->p_private, s->n);
	mem_wipe(s->p_private, s->n);
	free(s->p_private);
	*s = (struct secret){ 0 };
}

bool secret_set(const struct secret *s)
{
	return s->p_private != NULL && s->n > 0;
}

bool secret_equal(const struct secret *s, const char *value, size_t n)
{
	return secret_set(s) && value != NULL && s->n == n &&
	    mem_equal_const(s->p_private, value, n);
}

const char *secret_reveal(const struct secret *s)
{
	return s->p_private != NULL ? s->p_private : "";
}

/* systemd 254 and later lets the user of a unit read its credential by an ACL. The mode then shows
 * the ACL's mask as rights of the group: 0440. The folder is the unit's own. */
static bool is_credential(const char *path, mode_t mode)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	size_t n = dir != NULL ? strlen(dir) : 0;

	return mode == 0440 && n > 0 && strncmp(path, dir, n) == 0 && path[n] == '/' &&
	    strchr(path + n + 1, '/') == NULL;
}

static enum spot_rc file_check(int fd, const char *path, struct spot_err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0) {
		return err_set(err, SPOT_CONFIG, "secret file %s: %m", path);
	}
	if (!S_ISREG(st.st_mode)) {
		return err_set(err, SPOT_CONFIG, "secret file %s: not a regular file", path);
	}
	mode_t mode = st.st_mode & 07777;
	if (mode != 0600 && mode != 0400 && !is_credential(path, mode)) {
		return err_set(err, SPOT_CONFIG,
		    "secret file %s: mode is %04o, must be 0600 or 0400: run chmod 600", path,
		    (unsigned)mode);
	}
	if (st.st_size > FILE_MAX) {
		return err_set(err, SPOT_CONFIG, "secret file %s: larger than 64 KiB", path);
	}
	return SPOT_OK;
}

enum spot_rc secret_read_file(struct secret *s, const char *path, struct spot_err *err)
{
	char buf[FILE_MAX + 1];
	size_t n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0) {
		return err_set(err, SPOT_CONFIG, "secret file %s: %m", path);
	}
	enum spot_rc rc = file_check(fd, path, err);
	while (rc == SPOT_OK && n < sizeof(buf)) {
		ssize_t got = read(fd, buf + n, sizeof(buf) - n);

		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			rc = err_set(err, SPOT_CONFIG, "secret file %s: %m", path);
		}
		if (got <= 0) {
			break;
		}
		n += (size_t)got;
	}
	close(fd);
	if (rc == SPOT_OK && n > FILE_MAX) {
		rc = err_set(err, SPOT_CONFIG, "secret file %s: larger than 64 KiB", path);
	}
	if (rc == SPOT_OK && n > 0 && buf[n - 1] == '\n') {
		n--;
	}
	if (rc == SPOT_OK && n > 0 && buf[n - 1] == '\r') {
		n--;
	}
	if (rc == SPOT_OK && n == 0) {
		rc = err_set(err, SPOT_CONFIG, "secret file %s: empty", path);
	}
	if (rc == SPOT_OK) {
		secret_init(s, buf, n);
	}
	mem_wipe(buf, sizeof(buf));
	return rc;
}
