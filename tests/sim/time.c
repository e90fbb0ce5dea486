/*
 * Virtual time: the loop's waiter jumps to the next timer. Nothing here is real: no descriptors, no
 * signals, no children; whoever asks the machine for time, chance or a socket is stopped (traps).
 */
#include "base/base.h"
#include "io/loop_priv.h"
#include "world.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

struct world world;

int64_t world_now(void)
{
	return world.clock.wall;
}

double world_s(void)
{
	return (double)(world.clock.wall - SIM_T0) / 1e6;
}

void world_loop_open(void)
{
	clock_manual_init(&world.clock, SIM_T0);
	world.loop = loop_new(&world.clock.clock, &world.rng);
}

void world_turn(int64_t until_us)
{
	world.turns++;
	(void)loop_turn(world.loop, MAX(until_us - world.clock.wall, INT64_C(0)));
}

/* ---- the waiter --------------------------------------------------------------------------- */

struct loop_waiter {
	int unused;
};

struct loop_waiter *loop_waiter_new(struct loop *l UNUSED)
{
	struct loop_waiter *w = calloc(1, sizeof(*w));

	if (w == NULL)
		abort();
	return w;
}

void loop_waiter_free(struct loop_waiter *w)
{
	free(w);
}

void loop_waiter_wait(struct loop *l UNUSED, int64_t wait_us)
{
	assert(wait_us >= 0); /* nothing would ever happen again */
	clock_manual_advance(&world.clock, wait_us);
}

void *loop_ev(struct loop *l UNUSED)
{
	return NULL;
}

static void no_such_thing(const char *what)
{
	fprintf(stderr, "sim: %s inside of the simulation\n", what);
	abort();
}

void loop_fd_init(struct loop_fd *f, struct loop *l, void (*ready)(struct loop_fd *, int))
{
	*f = (struct loop_fd){.loop = l, .ready = ready, .fd = -1};
}

void loop_fd_set(struct loop_fd *f UNUSED, int fd UNUSED, int events)
{
	if (events != 0)
		no_such_thing("a descriptor is watched");
}

void loop_fd_stop(struct loop_fd *f UNUSED)
{
}

void loop_signal_start(struct loop_signal *s UNUSED, struct loop *l UNUSED, int signo UNUSED,
    void (*got)(struct loop_signal *) UNUSED)
{
	no_such_thing("a signal is watched");
}

void loop_signal_stop(struct loop_signal *s UNUSED)
{
}

void loop_child_start(struct loop_child *c UNUSED, struct loop *l UNUSED, int pid UNUSED,
    void (*ended)(struct loop_child *, int) UNUSED)
{
	no_such_thing("a child process is watched");
}

void loop_child_stop(struct loop_child *c UNUSED)
{
}

/* ---- traps: the linker sends every such call of ours here (-Wl,--wrap) ---------------------- */

bool traps_armed;

/* ret __wrap_name(params): the real one outside of a seed. */
#define TRAP(ret, name, what, params, args) \
	ret __real_##name params; \
	ret __wrap_##name params; \
	ret __wrap_##name params \
	{ \
		if (traps_armed) \
			no_such_thing(what); \
		return __real_##name args; \
	}

TRAP(int, clock_gettime, "the real clock is read", (clockid_t id, struct timespec *ts), (id, ts))
TRAP(int, gettimeofday, "the real clock is read", (struct timeval *tv, void *tz), (tv, tz))
TRAP(time_t, time, "the real clock is read", (time_t *t), (t))
TRAP(ssize_t, getrandom, "real randomness is read", (void *p, size_t n, unsigned flags), (p, n, flags))
TRAP(int, socket, "a socket is opened", (int domain, int type, int protocol), (domain, type, protocol))
TRAP(int, nanosleep, "somebody sleeps", (const struct timespec *a, struct timespec *b), (a, b))
TRAP(int, usleep, "somebody sleeps", (unsigned us), (us))
TRAP(unsigned, sleep, "somebody sleeps", (unsigned s), (s))
