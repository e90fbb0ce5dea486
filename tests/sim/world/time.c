/*
 * Virtual time: the loop's waiter jumps to the next timer. Nothing here is real: no descriptors, no
 * signals, no children; a call for the machine's time, chance or sockets aborts (traps.c).
 */
#include "base/base.h"
#include "io/loop/loop_priv.h"
#include "sim/world/spin.h"
#include "sim/world/traps.h"
#include "sim/world/world.h"

struct world world;

int64_t world_now(void)
{
	return world.clock.wall;
}

double world_s(void)
{
	return (double)(world.clock.wall - SIM_T0) / 1e6;
}

/* ---- processes: each has a loop and a clock of its own --------------------------------------- */

#define LOOPS_MAX 8
static struct {
	struct loop *loop;
	int64_t turned;
	bool paused;
} loops[LOOPS_MAX];

static int64_t skewed_wall(const struct clock *c)
{
	/* clock comes first */
	return world.clock.wall + ((const struct skewed_clock *)(const void *)c)->skew_us;
}

static int64_t skewed_mono(const struct clock *c UNUSED)
{
	return world.clock.mono;
}

void skewed_clock_init(struct skewed_clock *c, int64_t skew_us)
{
	*c = (struct skewed_clock){ .clock = { .wall_us = skewed_wall, .mono_us = skewed_mono },
		.skew_us = skew_us };
}

int64_t clock_jump_draw(void)
{
	static const int64_t most_s[] = { 10, 600, 4 * 3600 };
	int64_t us = dice_us(SPOT_US_PER_S,
	    most_s[rng_below(&world.dice, ARRAY_LEN(most_s))] * SPOT_US_PER_S);

	return rng_below(&world.dice, 2) == 0 ? us : -us;
}

struct loop *world_loop_new(const struct clock *clock)
{
	for (size_t i = 0; i < LOOPS_MAX; i++) {
		if (loops[i].loop == NULL) {
			loops[i].loop = loop_new(clock, &world.rng);
			loops[i].paused = false;
			loops[i].turned = 0;
			return loops[i].loop;
		}
	}
	abort();
}

static size_t place_of(const struct loop *l)
{
	size_t i = 0;

	while (loops[i].loop != l) {
		i++;
	}
	return i;
}

void world_loop_free(struct loop *l)
{
	loops[place_of(l)].loop = NULL;
	loop_free(l);
}

void world_loop_pause(struct loop *l, bool paused)
{
	loops[place_of(l)].paused = paused;
}

bool world_loop_paused(const struct loop *l)
{
	return loops[place_of(l)].paused;
}

void world_loop_open(void)
{
	clock_manual_init(&world.clock, SIM_T0);
	world.loop = world_loop_new(&world.clock.clock);
}

/* Returns the loop with the next due turn; of several the one that waits longest. */
static size_t loop_next(int64_t *ret_in_us)
{
	size_t best = LOOPS_MAX;

	for (size_t i = 0; i < LOOPS_MAX; i++) {
		int64_t in;

		if (loops[i].loop == NULL || loops[i].paused) {
			continue;
		}
		in = loop_due_in(loops[i].loop);
		if (in < 0 ||
		    (best < LOOPS_MAX &&
			(in > *ret_in_us ||
			    (in == *ret_in_us && loops[i].turned > loops[best].turned)))) {
			continue;
		}
		best = i;
		*ret_in_us = in;
	}
	return best;
}

struct loop *world_turn(int64_t until_us)
{
	int64_t in = 0, most = MAX(until_us - world.clock.wall, INT64_C(0));
	size_t next = loop_next(&in);
	bool due = next < LOOPS_MAX && in <= most;

	world.turns++;
	clock_manual_advance(&world.clock, due ? in : most);
	spin_turn();
	/* Another loop's turn may have called into any loop: each reads the time of now. */
	for (size_t i = 0; i < LOOPS_MAX; i++) {
		if (loops[i].loop != NULL) {
			loop_clock_update(loops[i].loop);
		}
	}
	if (!due) {
		return NULL;
	}
	loops[next].turned = world.turns;
	(void)loop_turn(loops[next].loop, 0);
	return loops[next].loop;
}

/* ---- the waiter ------------------------------------------------------------------------------ */

struct loop_waiter {
	int unused;
};

struct loop_waiter *loop_waiter_new(struct loop *l UNUSED)
{
	struct loop_waiter *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		abort();
	}
	return w;
}

void loop_waiter_free(struct loop_waiter *w)
{
	free(w);
}

void loop_waiter_wait(struct loop *l UNUSED, int64_t wait_us)
{
	assert(wait_us == 0); /* time has been moved to the next due event */
}

void *loop_ev(struct loop *l UNUSED)
{
	return NULL;
}

void loop_fd_init(struct loop_fd *f, struct loop *l, void (*ready)(struct loop_fd *, int))
{
	*f = (struct loop_fd){ .loop = l, .ready = ready, .fd = -1 };
}

void loop_fd_set(struct loop_fd *f UNUSED, int fd UNUSED, int events)
{
	if (events != 0) {
		trap_sprung("a descriptor is watched");
	}
}

void loop_fd_stop(struct loop_fd *f UNUSED)
{
}

void loop_signal_start(struct loop_signal *s UNUSED, struct loop *l UNUSED, int signo UNUSED,
    void (*got)(struct loop_signal *) UNUSED)
{
	trap_sprung("a signal is watched");
}

void loop_signal_stop(struct loop_signal *s UNUSED)
{
}

void loop_child_start(struct loop_child *c UNUSED, struct loop *l UNUSED, int pid UNUSED,
    void (*ended)(struct loop_child *, int) UNUSED)
{
	trap_sprung("a child process is watched");
}

void loop_child_stop(struct loop_child *c UNUSED)
{
}
