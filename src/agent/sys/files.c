#include "base/base.h"
#include "agent/sys/sys.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

bool path_join(char dst[AGENT_PATH_MAX], const char *dir, const char *name)
{
	int n = snprintf(dst, AGENT_PATH_MAX, "%s/%s", dir, name);

	return n > 0 && n < AGENT_PATH_MAX;
}

bool path_is_inside(const char *path)
{
	if (path == NULL || path[0] == '\0' || path[0] == '/' || strchr(path, '\n') != NULL) {
		return false;
	}
	for (const char *p = path; p != NULL; p = strchr(p, '/')) {
		p += *p == '/' && p != path;
		if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == '\0')) {
			return false;
		}
	}
	return true;
}

static enum spot_rc file_fail(struct spot_err *err, const char *what, const char *path)
{
	return err_set(err, errno == ENOENT ? SPOT_NOT_FOUND : SPOT_INTERNAL, "%s %s: %s", what,
	    path, strerror(errno));
}

enum spot_rc file_read(const char *path, size_t bytes_max, struct str *ret, struct spot_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got = 0;
	char *p;

	if (fd < 0) {
		return file_fail(err, "cannot read", path);
	}
	p = malloc(bytes_max + 1);
	if (p == NULL) {
		abort();
	}
	while (n < bytes_max + 1 && (got = read(fd, p + n, bytes_max + 1 - n)) > 0) {
		n += (size_t)got;
	}
	if (got < 0 || n > bytes_max) {
		if (got >= 0) {
			errno = EFBIG;
		}
		(void)file_fail(err, "cannot read", path);
		free(p);
		close(fd);
		return err != NULL ? err->rc : SPOT_INTERNAL;
	}
	close(fd);
	p[n] = '\0';
	*ret = (struct str){ p, n };
	return SPOT_OK;
}

/* Syncs the directory, which makes the rename durable. */
static bool dir_sync(const char *path)
{
	char dir[AGENT_PATH_MAX];
	const char *slash = strrchr(path, '/');
	int fd, rc;

	if (slash == NULL || slash == path) {
		return true;
	}
	memcpy(dir, path, (size_t)(slash - path));
	dir[slash - path] = '\0';
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		return false;
	}
	rc = fsync(fd);
	close(fd);
	return rc == 0;
}

static bool write_all(int fd, struct str bytes)
{
	size_t n = 0;

	while (n < bytes.n) {
		ssize_t put = write(fd, bytes.p + n, bytes.n - n);

		if (put < 0 && errno == EINTR) {
			continue;
		}
		if (put <= 0) {
			return false;
		}
		n += (size_t)put;
	}
	return true;
}

enum spot_rc file_write(const char *path, struct str bytes, int mode, bool durable,
    struct spot_err *err)
{
	char part[AGENT_PATH_MAX];
	int n = snprintf(part, sizeof(part), "%s.new", path), fd;
	bool ok;

	if (n < 0 || n >= (int)sizeof(part) || strlen(path) >= AGENT_PATH_MAX) {
		return err_set(err, SPOT_INVALID, "path too long: %.80s...", path);
	}
	(void)unlink(part); /* an old file may have another mode */
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0) {
		return file_fail(err, "cannot write", part);
	}
	ok = write_all(fd, bytes) && (!durable || fsync(fd) == 0);
	ok = close(fd) == 0 && ok;
	ok = ok && rename(part, path) == 0 && (!durable || dir_sync(path));
	if (!ok) {
		(void)file_fail(err, "cannot write", path);
		(void)unlink(part);
		return err != NULL ? err->rc : SPOT_INTERNAL;
	}
	return SPOT_OK;
}

bool disk_trouble(int error)
{
	return error == ENOSPC || error == EDQUOT || error == EIO || error == ENOMEM ||
	    error == EMFILE || error == ENFILE;
}

bool file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

enum spot_rc dir_make(const char *path, struct spot_err *err)
{
	char at[AGENT_PATH_MAX];
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(at)) {
		return err_set(err, SPOT_INVALID, "path too long: %.80s...", path);
	}
	memcpy(at, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (at[i] != '/' && at[i] != '\0') {
			continue;
		}
		at[i] = '\0';
		if (mkdir(at, 0755) != 0 && errno != EEXIST) {
			return file_fail(err, "cannot make directory", at);
		}
		if (i < n) {
			at[i] = '/';
		}
	}
	return SPOT_OK;
}

enum spot_rc dir_make_above(const char *path, struct spot_err *err)
{
	char dir[AGENT_PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (slash == NULL || slash == path) {
		return SPOT_OK;
	}
	if ((size_t)(slash - path) >= sizeof(dir)) {
		return err_set(err, SPOT_INVALID, "path too long: %.80s...", path);
	}
	memcpy(dir, path, (size_t)(slash - path));
	dir[slash - path] = '\0';
	return dir_make(dir, err);
}

/* Works by descriptors, so that a link or a deep tree of the job cannot lead us elsewhere. */
static void remove_below(int dir_fd, int depth)
{
	DIR *d = fdopendir(dir_fd);
	struct dirent *e;

	if (d == NULL) {
		close(dir_fd);
		return;
	}
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
			continue;
		}
		if (unlinkat(dirfd(d), e->d_name, 0) == 0 || depth == 0) {
			continue;
		}
		int fd =
		    openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0) {
			remove_below(fd, depth - 1);
		}
		(void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
	closedir(d);
}

void dir_remove(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		return;
	}
	remove_below(fd, 200);
	(void)rmdir(path);
}

const char *home_dir(void)
{
	const char *home = getenv("HOME");
	const struct passwd *pw = str_empty(home) ? getpwuid(getuid()) : NULL;

	if (!str_empty(home)) {
		return home;
	}
	return pw != NULL && !str_empty(pw->pw_dir) ? pw->pw_dir : "/";
}

void dir_each(const char *path, void (*each)(void *ctx, const char *name), void *ctx)
{
	DIR *d = opendir(path);
	struct dirent *e;

	if (d == NULL) {
		return;
	}
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
			each(ctx, e->d_name);
		}
	}
	closedir(d);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

#define JSON_BYTES_MAX ((size_t)4 << 20)

enum spot_rc json_file_read(const char *dir, const char *name, json_t **ret, struct spot_err *err)
{
	char path[AGENT_PATH_MAX];
	struct str text;
	enum spot_rc rc;

	if (!path_join(path, dir, name)) {
		return err_set(err, SPOT_INVALID, "%s: path too long", name);
	}
	rc = file_read(path, JSON_BYTES_MAX, &text, err);
	if (rc != SPOT_OK) {
		return rc;
	}
	rc = json_parse(text, path, ret, err);
	mem_wipe((char *)(uintptr_t)text.p, text.n);
	free((char *)(uintptr_t)text.p);
	if (rc == SPOT_OK && !json_is_object(*ret)) {
		json_decref(STEAL(*ret));
		return err_set(err, SPOT_INVALID, "%s: not an object", path);
	}
	return rc;
}

enum spot_rc json_file_write(const char *dir, const char *name, const json_t *o,
    struct spot_err *err)
{
	char path[AGENT_PATH_MAX];
	char *text = json_dumps(o, JSON_COMPACT);
	enum spot_rc rc;

	if (text == NULL || !path_join(path, dir, name)) {
		free(text);
		return err_set(err, SPOT_INVALID, "%s: cannot be written as JSON", name);
	}
	rc = file_write(path, str_from(text), 0600, true, err);
	mem_wipe(text, strlen(text));
	free(text);
	return rc;
}
