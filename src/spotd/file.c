#include "base/base.h"
#include "spotd/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum spot_rc file_read(const char *path, struct arena *a, size_t bytes_max, struct str *ret,
    struct spot_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *buf;
	size_t n = 0;
	ssize_t got = -1;

	if (fd < 0) {
		return err_set(err, SPOT_CONFIG, "%s: %s", path, strerror(errno));
	}
	buf = arena_alloc(a, bytes_max + 1);
	while (n <= bytes_max && (got = read(fd, buf + n, bytes_max + 1 - n)) > 0) {
		n += (size_t)got;
	}
	close(fd);
	if (got < 0) {
		return err_set(err, SPOT_CONFIG, "%s: %s", path, strerror(errno));
	}
	if (n > bytes_max) {
		return err_set(err, SPOT_CONFIG, "'%s' is larger than %zu bytes", path, bytes_max);
	}
	*ret = (struct str){ buf, n };
	return SPOT_OK;
}

static enum spot_rc write_fail(const char *path, int fd, struct spot_err *err)
{
	int e = errno;

	if (fd >= 0) {
		close(fd);
	}
	return err_set(err, SPOT_CONFIG, "cannot write '%s': %s", path, strerror(e));
}

enum spot_rc file_write(const char *path, const char *text, unsigned mode, struct spot_err *err)
{
	char tmp[4200];
	size_t n = strlen(text);
	int fd;

	if ((size_t)snprintf(tmp, sizeof(tmp), "%s.new", path) >= sizeof(tmp)) {
		return err_set(err, SPOT_CONFIG, "path is too long: %.100s...", path);
	}
	(void)unlink(tmp);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, (mode_t)mode);
	if (fd < 0 || write(fd, text, n) != (ssize_t)n || fsync(fd) != 0) {
		return write_fail(tmp, fd, err);
	}
	close(fd);
	if (rename(tmp, path) != 0) {
		return write_fail(path, -1, err);
	}
	return SPOT_OK;
}

bool file_exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

enum spot_rc folder_make(const char *path, struct spot_err *err)
{
	char buf[4200];

	if ((size_t)snprintf(buf, sizeof(buf), "%s", path) >= sizeof(buf)) {
		return err_set(err, SPOT_CONFIG, "path is too long: %.100s...", path);
	}
	for (char *p = buf + 1;; p++) {
		char was = *p;

		if (was != '/' && was != '\0') {
			continue;
		}
		*p = '\0';
		/* Root's folders may be passed through: the database runs as another user. Files in
		 * them are 0600. */
		if (mkdir(buf, 0700) == 0) {
			/* Not left to the umask; where it fails, pgcluster_start says who may not
			 * enter what. */
			if (geteuid() == 0) {
				(void)chmod(buf, 0711);
			}
		} else if (errno != EEXIST) {
			return err_set(err, SPOT_CONFIG, "cannot create folder '%s': %s", buf,
			    strerror(errno));
		}
		*p = was;
		if (was == '\0') {
			return SPOT_OK;
		}
	}
}
