/*
 * Gives each seed a database without making one. One server process of Postgres has parsed and
 * planned all statements and read all tables. It is forked for each connection. Its memory is the
 * seed's own from then on (copy on write), with all that the server's processes share. Its writes
 * to files stay in memory, too (files.c). So each seed begins in the very same state, and sees
 * nothing of another.
 *
 * This library is preloaded (LD_PRELOAD) into a packaged server. It knows nothing of the server's
 * inside: it stands between the server and libc. A client sends ORDER with the path of a socket in
 * any statement. The server process then serves at that socket once the statement is done and it
 * waits for the next one. A client of that socket talks to a copy of the process, in which the
 * client's socket has been put in place. The other processes of the server must be idle then: the
 * copies hold their locks for ever.
 *
 * The message formats: https://www.postgresql.org/docs/15/protocol-message-formats.html
 */
#include "universe.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ORDER "/* universes at "

bool universe_inside;
static int door = -1;

static void process_die(const char *what)
{
	fprintf(stderr, "universe: %s: %s\n", what, strerror(errno));
	_exit(1);
}

/* ---- memory that was shared ------------------------------------------------------------------ */

static bool is_zero(const char *page, size_t n)
{
	return page[0] == 0 && memcmp(page, page + 1, n - 1) == 0;
}

static void memory_own(char *at, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *copy = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED) {
		process_die("mmap");
	}
	/* Pages that nobody has written stay unwritten: a fork has fewer to pass on. */
	(void)madvise(copy, n, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < n; i += page) {
		if (!is_zero(at + i, page)) {
			memcpy(copy + i, at + i, page);
		}
	}
	if (mremap(copy, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) {
		process_die("mremap");
	}
}

static void all_own(void)
{
	struct {
		char *at;
		size_t n;
	} shared[64];
	size_t n = 0;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");

	if (f == NULL) {
		process_die("/proc/self/maps");
	}
	while (fgets(line, sizeof(line), f) != NULL && n < sizeof(shared) / sizeof(shared[0])) {
		unsigned long from, to;
		char mode[8];

		if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 &&
		    strcmp(mode, "rw-s") == 0) {
			shared[n].at = (char *)from;
			shared[n++].n = to - from;
		}
	}
	fclose(f);
	for (size_t i = 0; i < n; i++) {
		memory_own(shared[i].at, shared[i].n);
	}
}

/* ---- a client comes -------------------------------------------------------------------------- */

static void bytes_put(int fd, const void *at, size_t n)
{
	if (write(fd, at, n) != (ssize_t)n) {
		_exit(0);
	}
}

static void bytes_get(int fd, void *at, size_t n)
{
	for (size_t have = 0; have < n;) {
		ssize_t got = read(fd, (char *)at + have, n - have);

		if (got <= 0) {
			_exit(0);
		}
		have += (size_t)got;
	}
}

static void put_u32(char *at, uint32_t v)
{
	for (int i = 0; i < 4; i++) {
		at[i] = (char)(v >> (24 - 8 * i));
	}
}

static size_t parameter_put(char *at, const char *name, const char *value)
{
	size_t n = strlen(name) + 1, m = strlen(value) + 1;

	at[0] = 'S';
	put_u32(at + 1, (uint32_t)(4 + n + m));
	memcpy(at + 5, name, n);
	memcpy(at + 5 + n, value, m);
	return 5 + n + m;
}

/* Any client that can open the socket may come in, as in the server itself. It gets the process's
 * settings, whatever it asks for. */
static void client_greet(int fd)
{
	uint8_t head[4];
	uint32_t n;
	char skip[4096], answer[512] = { 'R', 0, 0, 0, 8, 0, 0, 0, 0 };
	size_t at = 9;

	bytes_get(fd, head, sizeof(head));
	n = (uint32_t)head[0] << 24 | (uint32_t)head[1] << 16 | (uint32_t)head[2] << 8 | head[3];
	if (n < 8 || n - 4 > sizeof(skip)) {
		_exit(0);
	}
	bytes_get(fd, skip, n - 4);
	at += parameter_put(answer + at, "server_version", "15.0");
	at += parameter_put(answer + at, "client_encoding", "UTF8");
	at += parameter_put(answer + at, "standard_conforming_strings", "on");
	at += parameter_put(answer + at, "integer_datetimes", "on");
	answer[at] = 'K';
	put_u32(answer + at + 1, 12);
	put_u32(answer + at + 5, (uint32_t)getpid());
	put_u32(answer + at + 9, 0);
	at += 13;
	memcpy(answer + at, "Z\0\0\0\5I", 6);
	bytes_put(fd, answer, at + 6);
}

/* A statement without end ends the copy, and with it its seed. It leaves no core behind. */
static void cpu_limit(void)
{
	struct rlimit cpu = { .rlim_cur = UNIVERSE_CPU_S, .rlim_max = UNIVERSE_CPU_S },
		      core = { 0 };

	(void)signal(SIGXCPU, SIG_DFL);
	if (setrlimit(RLIMIT_CPU, &cpu) != 0 || setrlimit(RLIMIT_CORE, &core) != 0) {
		process_die("setrlimit");
	}
}

/* Returns in the copies only; their client is fd then. */
static void client_serve(int fd)
{
	pid_t parent = getppid();

	struct rlimit files = { .rlim_cur = 4 * UNIVERSE_FDS, .rlim_max = 4 * UNIVERSE_FDS };

	if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
		process_die("setrlimit");
	}
	all_own();
	(void)signal(SIGCHLD, SIG_IGN);
	(void)signal(SIGTERM, SIG_DFL); /* the server is told to end */
	for (;;) {
		struct pollfd p[] = { { .fd = door, .events = POLLIN },
			{ .fd = fd, .events = POLLIN } };
		int rc = poll(p, 2, 1000), client;

		/* The client is gone: so is the batch. */
		if (getppid() != parent || (rc > 0 && p[1].revents != 0)) {
			_exit(0);
		}
		client = rc > 0 ? accept4(door, NULL, NULL, SOCK_CLOEXEC) : -1;
		if (client < 0) {
			continue;
		}
		if (fork() == 0) {
			universe_inside = true;
			cpu_limit();
			client_greet(client);
			if (dup2(client, fd) < 0) {
				process_die("dup2");
			}
			close(client);
			close(door);
			return;
		}
		close(client);
	}
}

/* ---- input from clients ---------------------------------------------------------------------- */

static void door_open(const char *path, size_t n)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (n >= sizeof(un.sun_path)) {
		return;
	}
	memcpy(un.sun_path, path, n);
	door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (door < 0 || bind(door, (struct sockaddr *)&un, sizeof(un)) != 0 ||
	    listen(door, 64) != 0) {
		process_die(un.sun_path);
	}
}

static void order_look(const char *text, size_t n)
{
	const char *at = memmem(text, n, ORDER, strlen(ORDER)), *end;

	if (at == NULL) {
		return;
	}
	at += strlen(ORDER);
	end = memchr(at, ' ', n - (size_t)(at - text));
	if (end != NULL) {
		door_open(at, (size_t)(end - at));
	}
}

ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	static ssize_t (*libc)(int, void *, size_t, int);
	ssize_t got;

	if (libc == NULL) {
		libc = (ssize_t(*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
	}
	if (door >= 0 && !universe_inside) {
		client_serve(fd);
	}
	do {
		got = libc(fd, buf, n, flags);
	} while (universe_inside && got < 0 && errno == EINTR);
	/* Nothing of a copy is to be kept: it ends without a word when its client does (or says so:
	 * Terminate). */
	if (universe_inside && (got <= 0 || (got == 5 && memcmp(buf, "X\0\0\0\4", 5) == 0))) {
		_exit(0);
	}
	if (!universe_inside && got > 0) {
		order_look(buf, (size_t)got);
	}
	return got;
}
