/*
 * Keeps in memory all writes of a server's copy to files. A written file becomes a copy of itself
 * (memfd). Files that are made, renamed or removed are so for this process alone. The write-ahead
 * log is written nowhere: nobody will recover from it. The functions of libc here are those through
 * which Postgres reaches its data folder (relative paths), if they change or see such files.
 */
/* The names that Postgres calls, and not those of old 32 bit systems. */
#undef _FILE_OFFSET_BITS
#include "universe.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS UNIVERSE_FDS /* above stand the copies */
#define ENTRIES 4096

static char *names[FDS]; /* of open descriptors, by the path that they were opened with */
static struct {
	char *path;
	int fd; /* -1 = there is no such file */
} entries[ENTRIES];
static int entries_n;

#define LIBC(ret, name, ...) \
	static ret (*libc)(__VA_ARGS__); \
	if (libc == NULL) \
	libc = (ret(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int libc_open(const char *path, int flags, mode_t mode)
{
	LIBC(int, "open", const char *, int, ...);
	return libc(path, flags, mode);
}

static bool is_ours(const char *path)
{
	return universe_inside && path[0] != '/';
}

static bool is_log(int fd)
{
	return universe_inside && fd >= 0 && fd < FDS && names[fd] != NULL &&
	    strncmp(names[fd], "pg_wal/", 7) == 0;
}

static int file_find(const char *path)
{
	for (int i = 0; i < entries_n; i++) {
		if (strcmp(entries[i].path, path) == 0) {
			return i;
		}
	}
	return -1;
}

static void entry_set(const char *path, int fd)
{
	int i = file_find(path);

	if (i < 0) {
		if (entries_n == ENTRIES) {
			_exit(1);
		}
		i = entries_n++;
		entries[i].path = strdup(path);
	} else if (entries[i].fd >= 0) {
		close(entries[i].fd);
	}
	entries[i].fd = fd;
}

static int slot_blank(void)
{
	int fd = memfd_create("universe", MFD_CLOEXEC), high = fcntl(fd, F_DUPFD_CLOEXEC, FDS);

	if (high < 0) {
		_exit(1);
	}
	close(fd);
	return high;
}

static int copy_of(const char *path)
{
	int from = libc_open(path, O_RDONLY | O_CLOEXEC, 0), to = slot_blank();
	char page[65536];
	ssize_t n;

	if (from < 0) {
		return to;
	}
	while ((n = read(from, page, sizeof(page))) > 0) {
		if (write(to, page, (size_t)n) != n) {
			_exit(1);
		}
	}
	close(from);
	return to;
}

/* All descriptors of that file are of the copy from now on. */
static void file_written(const char *path)
{
	int to;

	if (file_find(path) >= 0) {
		return;
	}
	to = copy_of(path);
	entry_set(path, to);
	for (int fd = 0; fd < FDS; fd++) {
		if (names[fd] != NULL && strcmp(names[fd], path) == 0 &&
		    dup3(to, fd, O_CLOEXEC) < 0) {
			_exit(1);
		}
	}
}

static void fd_written(int fd)
{
	if (universe_inside && fd >= 0 && fd < FDS && names[fd] != NULL && names[fd][0] != '/') {
		file_written(names[fd]);
	}
}

static int open_ours(const char *path, int flags, mode_t mode)
{
	struct stat st;
	int i = file_find(path);
	LIBC(int, "stat", const char *, struct stat *);

	if (i < 0 && (flags & O_CREAT) == 0 && (flags & O_TRUNC) == 0) {
		return libc_open(path, flags, mode);
	}
	if (i < 0 && libc(path, &st) == 0 && (flags & (O_EXCL | O_TRUNC)) == 0) {
		return libc_open(path, flags & ~O_CREAT, mode);
	}
	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) &&
	    (i < 0 ? libc(path, &st) == 0 : entries[i].fd >= 0)) {
		errno = EEXIST;
		return -1;
	}
	if (i >= 0 && entries[i].fd < 0 && (flags & O_CREAT) == 0) {
		errno = ENOENT;
		return -1;
	}
	if (i < 0 || entries[i].fd < 0 || (flags & O_TRUNC) != 0) {
		entry_set(path, slot_blank());
	}
	return fcntl(entries[file_find(path)].fd, F_DUPFD_CLOEXEC, 0);
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;
	int fd;

	va_start(ap, flags);
	mode = (flags & O_CREAT) != 0 ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	fd = is_ours(path) ? open_ours(path, flags, mode) : libc_open(path, flags, mode);
	if (fd >= 0 && fd < FDS) {
		free(names[fd]);
		names[fd] = strdup(path);
	}
	return fd;
}

int close(int fd)
{
	LIBC(int, "close", int);

	if (fd >= 0 && fd < FDS) {
		free(names[fd]);
		names[fd] = NULL;
	}
	return libc(fd);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
	LIBC(ssize_t, "pwrite", int, const void *, size_t, off_t);

	if (is_log(fd)) {
		return (ssize_t)n;
	}
	fd_written(fd);
	return libc(fd, buf, n, at);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at)
{
	LIBC(ssize_t, "pwritev", int, const struct iovec *, int, off_t);
	ssize_t all = 0;

	for (int i = 0; i < n; i++) {
		all += (ssize_t)v[i].iov_len;
	}
	if (is_log(fd)) {
		return all;
	}
	fd_written(fd);
	return libc(fd, v, n, at);
}

ssize_t write(int fd, const void *buf, size_t n)
{
	LIBC(ssize_t, "write", int, const void *, size_t);

	fd_written(fd);
	return libc(fd, buf, n);
}

int ftruncate(int fd, off_t n)
{
	LIBC(int, "ftruncate", int, off_t);

	fd_written(fd);
	return libc(fd, n);
}

static bool is_there(const char *path)
{
	struct stat st;
	int i = file_find(path);
	LIBC(int, "stat", const char *, struct stat *);

	return i >= 0 ? entries[i].fd >= 0 : libc(path, &st) == 0;
}

int truncate(const char *path, off_t n)
{
	LIBC(int, "truncate", const char *, off_t);

	if (!is_ours(path)) {
		return libc(path, n);
	}
	if (!is_there(path)) {
		errno = ENOENT;
		return -1;
	}
	file_written(path);
	return ftruncate(entries[file_find(path)].fd, n);
}

int unlink(const char *path)
{
	LIBC(int, "unlink", const char *);

	if (!is_ours(path)) {
		return libc(path);
	}
	if (!is_there(path)) {
		errno = ENOENT;
		return -1;
	}
	entry_set(path, -1);
	return 0;
}

static int link_copy(const char *from, const char *to)
{
	if (!is_there(from)) {
		errno = ENOENT;
		return -1;
	}
	file_written(from);
	entry_set(to, fcntl(entries[file_find(from)].fd, F_DUPFD_CLOEXEC, FDS));
	return 0;
}

int link(const char *from, const char *to)
{
	LIBC(int, "link", const char *, const char *);

	return is_ours(from) ? link_copy(from, to) : libc(from, to);
}

int rename(const char *from, const char *to)
{
	LIBC(int, "rename", const char *, const char *);

	if (!is_ours(from)) {
		return libc(from, to);
	}
	if (link_copy(from, to) != 0) {
		return -1;
	}
	entry_set(from, -1);
	return 0;
}

static int stat_ours(const char *path, struct stat *st)
{
	int i = file_find(path);

	if (i >= 0 && entries[i].fd >= 0) {
		return fstat(entries[i].fd, st);
	}
	errno = ENOENT;
	return -1;
}

int stat(const char *path, struct stat *st)
{
	LIBC(int, "stat", const char *, struct stat *);

	return is_ours(path) && file_find(path) >= 0 ? stat_ours(path, st) : libc(path, st);
}

int lstat(const char *path, struct stat *st)
{
	LIBC(int, "lstat", const char *, struct stat *);

	return is_ours(path) && file_find(path) >= 0 ? stat_ours(path, st) : libc(path, st);
}

int access(const char *path, int mode)
{
	struct stat st;
	LIBC(int, "access", const char *, int);

	return is_ours(path) && file_find(path) >= 0 ? stat_ours(path, &st) : libc(path, mode);
}
