/*
 * Preloaded into a program under test: its n-th call of a class fails, and every m-th from there
 * on. The product knows nothing of it. Nobody owns anything here; each broken call is a line in one
 * file.
 *
 * - SPOT_SHIM=CLASS:N:EVERY: db, http, serve, disk; EVERY 0 = once
 * - SPOT_SHIM_PROGRAM: only in this program (by its short name); others that inherit the shim are
 *   left alone
 * - SPOT_SHIM_DB_PORT: a TCP connection to it is db, any other one that the program opened is http
 * - SPOT_SHIM_MARK: the file
 * - SPOT_SHIM_CLOCK: a file of eight bytes: by so many microseconds the program's wall clock is
 *   ahead, at each moment
 *
 * disk is every call that changes files, and reads of them at a start. These are open, read, write,
 * fsync, rename, unlink, mkdir, ftruncate of anything but sockets, pipes and inherited files.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { KIND_NONE, KIND_DB, KIND_HTTP, KIND_SERVE, KIND_DISK, KIND_COUNT };
static const char *const kind_names[KIND_COUNT] = { "", "db", "http", "serve", "disk" };

#define FDS 65536
static _Atomic unsigned char kinds[FDS];
static enum kind wanted;
static long next_at, every;
static atomic_long seen;
static int db_port, mark = -1;
static const _Atomic int64_t *ahead_us;

static void clock_open(const char *path)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*ahead_us), PROT_READ, MAP_SHARED, fd, 0);

	if (fd >= 0) {
		(void)syscall(SYS_close, fd);
	}
	if (p == MAP_FAILED) {
		abort(); /* a story that believes its clock to be wrong would prove nothing */
	}
	ahead_us = p;
}

__attribute__((constructor)) static void shim_start(void)
{
	const char *spec = getenv("SPOT_SHIM"), *program = getenv("SPOT_SHIM_PROGRAM"),
		   *port = getenv("SPOT_SHIM_DB_PORT"), *path = getenv("SPOT_SHIM_MARK"),
		   *clock = getenv("SPOT_SHIM_CLOCK");
	char name[16] = "";

	if (program == NULL || strcmp(program, program_invocation_short_name) != 0) {
		return;
	}
	if (clock != NULL) {
		clock_open(clock);
		unsetenv("LD_PRELOAD");
	}
	if (spec == NULL || sscanf(spec, "%15[^:]:%ld:%ld", name, &next_at, &every) != 3) {
		return;
	}
	for (int k = 1; k < KIND_COUNT; k++) {
		if (strcmp(kind_names[k], name) == 0) {
			wanted = (enum kind)k;
		}
	}
	db_port = port == NULL ? 0 : (int)strtol(port, NULL, 10);
	if (path != NULL) {
		mark = (int)syscall(SYS_openat, AT_FDCWD, path,
		    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	}
	unsetenv("LD_PRELOAD");
}

/* Is this the call that fails? */
static bool fails(enum kind k, const char *call)
{
	char line[96];
	long n;
	int len;

	if (k == KIND_NONE || k != wanted) {
		return false;
	}
	n = atomic_fetch_add(&seen, 1) + 1;
	if (next_at <= 0 || n < next_at ||
	    (n > next_at && (every == 0 || (n - next_at) % every != 0))) {
		return false;
	}
	len = snprintf(line, sizeof(line), "%s %s %ld\n", kind_names[k], call, n);
	if (mark >= 0 && len > 0) {
		(void)!syscall(SYS_write, mark, line, (size_t)len);
	}
	return true;
}

static enum kind kind_of(int fd)
{
	return fd >= 0 && fd < FDS ? (enum kind)atomic_load(&kinds[fd]) : KIND_NONE;
}

static void kind_set(int fd, enum kind k)
{
	if (fd >= 0 && fd < FDS) {
		atomic_store(&kinds[fd], (unsigned char)k);
	}
}

/* ---- the clock ------------------------------------------------------------------------------- */

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int rc = (int)syscall(SYS_clock_gettime, id, ts);

	if (rc == 0 && ahead_us != NULL && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t us =
		    atomic_load(ahead_us) + ts->tv_nsec / 1000 + (int64_t)ts->tv_sec * 1000000;

		ts->tv_sec = us / 1000000;
		ts->tv_nsec = us % 1000000 * 1000;
	}
	return rc;
}

int gettimeofday(struct timeval *tv, void *zone)
{
	struct timespec ts;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0) {
		return -1;
	}
	*tv = (struct timeval){ .tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts) != 0) {
		return (time_t)-1;
	}
	if (ret != NULL) {
		*ret = ts.tv_sec;
	}
	return ts.tv_sec;
}

/* ---- calls that fail ------------------------------------------------------------------------- */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL(code) return (errno = (code), -1)
/* A connection that failed once is dead for both ends: later reads and writes fail, too. */
#define BREAK(fd) return ((void)shutdown((fd), SHUT_RDWR), errno = ECONNRESET, -1)

int connect(int fd, const struct sockaddr *to, socklen_t n)
{
	if (to->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, to, sizeof(in));
		kind_set(fd, ntohs(in.sin_port) == db_port ? KIND_DB : KIND_HTTP);
	}
	if (fails(kind_of(fd), "connect")) {
		FAIL(ECONNREFUSED);
	}
	return REAL(connect)(fd, to, n);
}

int accept4(int fd, struct sockaddr *from, socklen_t *n, int flags)
{
	int got = REAL(accept4)(fd, from, n, flags);

	kind_set(got, KIND_SERVE);
	return got;
}

int accept(int fd, struct sockaddr *from, socklen_t *n)
{
	int got = REAL(accept)(fd, from, n);

	kind_set(got, KIND_SERVE);
	return got;
}

int close(int fd)
{
	kind_set(fd, KIND_NONE);
	return REAL(close)(fd);
}

ssize_t send(int fd, const void *p, size_t n, int flags)
{
	if (fails(kind_of(fd), "send")) {
		BREAK(fd);
	}
	return REAL(send)(fd, p, n, flags);
}

ssize_t sendto(int fd, const void *p, size_t n, int flags, const struct sockaddr *to,
    socklen_t to_n)
{
	if (fails(kind_of(fd), "sendto")) {
		BREAK(fd);
	}
	return REAL(sendto)(fd, p, n, flags, to, to_n);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (fails(kind_of(fd), "sendmsg")) {
		BREAK(fd);
	}
	return REAL(sendmsg)(fd, m, flags);
}

ssize_t recv(int fd, void *p, size_t n, int flags)
{
	if (fails(kind_of(fd), "recv")) {
		BREAK(fd);
	}
	return REAL(recv)(fd, p, n, flags);
}

ssize_t recvfrom(int fd, void *p, size_t n, int flags, struct sockaddr *from, socklen_t *from_n)
{
	if (fails(kind_of(fd), "recvfrom")) {
		BREAK(fd);
	}
	return REAL(recvfrom)(fd, p, n, flags, from, from_n);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	if (fails(kind_of(fd), "recvmsg")) {
		BREAK(fd);
	}
	return REAL(recvmsg)(fd, m, flags);
}

ssize_t read(int fd, void *p, size_t n)
{
	if (fails(kind_of(fd), "read")) {
		if (kind_of(fd) == KIND_DISK) {
			FAIL(EIO);
		}
		BREAK(fd);
	}
	return REAL(read)(fd, p, n);
}

ssize_t write(int fd, const void *p, size_t n)
{
	if (fails(kind_of(fd), "write")) {
		if (kind_of(fd) == KIND_DISK) {
			FAIL(ENOSPC);
		}
		BREAK(fd);
	}
	return REAL(write)(fd, p, n);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
	if (fails(kind_of(fd), "writev")) {
		if (kind_of(fd) == KIND_DISK) {
			FAIL(ENOSPC);
		}
		BREAK(fd);
	}
	return REAL(writev)(fd, v, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	if (fails(kind_of(fd), "pwrite")) {
		FAIL(ENOSPC);
	}
	return REAL(pwrite)(fd, p, n, at);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Devices and the kernel's own files are not the disk. */
static bool on_disk(const char *path)
{
	return strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/proc/", 6) != 0 &&
	    strncmp(path, "/sys/", 5) != 0;
}

static int opened(int fd)
{
	struct stat st;

	if (wanted == KIND_DISK && fd > 2 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		kind_set(fd, KIND_DISK);
	}
	return fd;
}

#define MODE(flags, last) \
	mode_t mode = 0; \
	if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
		va_list ap; \
		va_start(ap, last); \
		mode = (mode_t)va_arg(ap, int); \
		va_end(ap); \
	}

#define OPENER(name, AT_DECL, AT_USE) \
	int name(AT_DECL const char *path, int flags, ...) \
	{ \
		MODE(flags, flags) \
		if (on_disk(path) && fails(KIND_DISK, #name)) { \
			FAIL((flags & O_ACCMODE) == O_RDONLY ? EIO : ENOSPC); \
		} \
		return opened(REAL(name)(AT_USE path, flags, mode)); \
	}
#define COMMA ,
OPENER(open, , )
OPENER(open64, , )
OPENER(openat, int at COMMA, at COMMA)
OPENER(openat64, int at COMMA, at COMMA)

int fsync(int fd)
{
	if (fails(KIND_DISK, "fsync")) {
		FAIL(EIO);
	}
	return REAL(fsync)(fd);
}

int fdatasync(int fd)
{
	if (fails(KIND_DISK, "fdatasync")) {
		FAIL(EIO);
	}
	return REAL(fdatasync)(fd);
}

int rename(const char *a, const char *b)
{
	if (fails(KIND_DISK, "rename")) {
		FAIL(EIO);
	}
	return REAL(rename)(a, b);
}

int renameat(int x, const char *a, int y, const char *b)
{
	if (fails(KIND_DISK, "renameat")) {
		FAIL(EIO);
	}
	return REAL(renameat)(x, a, y, b);
}

int unlink(const char *path)
{
	if (fails(KIND_DISK, "unlink")) {
		FAIL(EIO);
	}
	return REAL(unlink)(path);
}

int unlinkat(int at, const char *path, int flags)
{
	if (fails(KIND_DISK, "unlinkat")) {
		FAIL(EIO);
	}
	return REAL(unlinkat)(at, path, flags);
}

int mkdir(const char *path, mode_t mode)
{
	if (fails(KIND_DISK, "mkdir")) {
		FAIL(ENOSPC);
	}
	return REAL(mkdir)(path, mode);
}

int mkdirat(int at, const char *path, mode_t mode)
{
	if (fails(KIND_DISK, "mkdirat")) {
		FAIL(ENOSPC);
	}
	return REAL(mkdirat)(at, path, mode);
}

int ftruncate(int fd, off_t n)
{
	if (fails(kind_of(fd), "ftruncate")) {
		FAIL(EIO);
	}
	return REAL(ftruncate)(fd, n);
}
