/*
 * The linker sends every such call of ours here (-Wl,--wrap, in meson.build for each name below).
 * test_sim.py springs each. It also searches the binary for calls of this kind that the list lacks.
 * `random` and `srand` cannot be there: base.h poisons the words. Calls inside shared libraries are
 * not seen. OpenSSL only computes. net.c takes curl's place, so curl is never called. libpq has the
 * one real connection.
 */
#include "base/base.h"
#include "sim/world/traps.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

bool traps_armed;

void trap_sprung(const char *what)
{
	fprintf(stderr, "sim: %s inside of the simulation\n", what);
	abort();
}

#define CLOCK_READ "the real clock is read"
#define CHANCE "real randomness is read"
#define SOCKET "a socket is opened"
#define SLEEP "somebody sleeps"
#define PROCESS "a process is begun"
#define MACHINE "the machine is asked for its own"

/* name, kind, result, parameters, how they are passed on */
#define TRAPS(X) \
	X(clock_gettime, CLOCK_READ, int, (clockid_t id, struct timespec * ts), (id, ts)) \
	X(gettimeofday, CLOCK_READ, int, (struct timeval * tv, void *tz), (tv, tz)) \
	X(time, CLOCK_READ, time_t, (time_t * t), (t)) \
	X(timespec_get, CLOCK_READ, int, (struct timespec * ts, int base), (ts, base)) \
	X(clock, CLOCK_READ, clock_t, (void), ()) \
	X(getrandom, CHANCE, ssize_t, (void *p, size_t n, unsigned flags), (p, n, flags)) \
	X(getentropy, CHANCE, int, (void *p, size_t n), (p, n)) \
	X(rand, CHANCE, int, (void), ()) \
	X(srandom, CHANCE, void, (unsigned seed), (seed)) \
	X(arc4random, CHANCE, uint32_t, (void), ()) \
	X(arc4random_buf, CHANCE, void, (void *p, size_t n), (p, n)) \
	X(arc4random_uniform, CHANCE, uint32_t, (uint32_t below), (below)) \
	X(mkdtemp, CHANCE, char *, (char *name), (name)) \
	X(mkstemp64, CHANCE, int, (char *name), (name)) \
	X(mkostemp64, CHANCE, int, (char *name, int flags), (name, flags)) \
	X(socket, SOCKET, int, (int domain, int type, int protocol), (domain, type, protocol)) \
	X(socketpair, SOCKET, int, (int domain, int type, int protocol, int fds[2]), \
	    (domain, type, protocol, fds)) \
	X(connect, SOCKET, int, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n)) \
	X(bind, SOCKET, int, (int fd, const struct sockaddr *at, socklen_t n), (fd, at, n)) \
	X(accept, SOCKET, int, (int fd, struct sockaddr *from, socklen_t *n), (fd, from, n)) \
	X(accept4, SOCKET, int, (int fd, struct sockaddr *from, socklen_t *n, int flags), \
	    (fd, from, n, flags)) \
	X(getaddrinfo, SOCKET, int, \
	    (const char *node, const char *service, const struct addrinfo *hints, \
		struct addrinfo **ret), \
	    (node, service, hints, ret)) \
	X(nanosleep, SLEEP, int, (const struct timespec *a, struct timespec *b), (a, b)) \
	X(clock_nanosleep, SLEEP, int, \
	    (clockid_t id, int flags, const struct timespec *a, struct timespec *b), \
	    (id, flags, a, b)) \
	X(usleep, SLEEP, int, (unsigned us), (us)) \
	X(sleep, SLEEP, unsigned, (unsigned s), (s)) \
	X(sigtimedwait, SLEEP, int, \
	    (const sigset_t *set, siginfo_t *info, const struct timespec *wait), \
	    (set, info, wait)) \
	X(sigwaitinfo, SLEEP, int, (const sigset_t *set, siginfo_t *info), (set, info)) \
	X(fork, PROCESS, pid_t, (void), ()) \
	X(execv, PROCESS, int, (const char *path, char *const *argv), (path, argv)) \
	X(execve, PROCESS, int, (const char *path, char *const *argv, char *const *env), \
	    (path, argv, env)) \
	X(execvp, PROCESS, int, (const char *file, char *const *argv), (file, argv)) \
	X(syscall, MACHINE, long, (long no, long a, long b, long c, long d, long e, long f), \
	    (no, a, b, c, d, e, f)) \
	X(getifaddrs, MACHINE, int, (struct ifaddrs * *ret), (ret)) \
	X(getppid, MACHINE, pid_t, (void), ()) \
	X(getpid, MACHINE, pid_t, (void), ()) \
	X(uname, MACHINE, int, (struct utsname * u), (u)) \
	X(waitpid, PROCESS, pid_t, (pid_t pid, int *status, int options), (pid, status, options))

/* The real one outside of a seed. */
#define TRAP(name, what, ret, params, args) \
	ret __real_##name params; \
	ret __wrap_##name params; \
	ret __wrap_##name params \
	{ \
		if (traps_armed) \
			trap_sprung(what); \
		return __real_##name args; \
	}
TRAPS(TRAP)

/* ---- each is sprung -------------------------------------------------------------------------- */

/* As anybody would call it, by its name; without arguments, since it must not come to them. */
#define SPRING(name, what, ret, params, args) { #name, (void (*)(void))name },
static const struct {
	const char *name;
	void (*call)(void);
} springs[] = { TRAPS(SPRING) };

bool trap_try(const char *name)
{
	bool list = strcmp(name, "list") == 0;

	for (size_t i = 0; i < ARRAY_LEN(springs); i++) {
		if (list) {
			puts(springs[i].name);
		} else if (strcmp(name, springs[i].name) == 0) {
			traps_armed = true;
			springs[i].call();
			return false;
		}
	}
	return list;
}
