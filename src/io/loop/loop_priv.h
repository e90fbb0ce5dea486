/*
 * Inside of the loop. loop.c keeps timers, hooks, tasks and graves, and computes the time of the
 * next turn. The waiter, loop_ev.c, waits for that time or for an event outside.
 *
 * Only loop_ev.c touches libev and the machine. A simulation links another waiter instead, which
 * jumps to the next timer, and runs the same turns.
 */
#ifndef IO_LOOP_PRIV_H
#define IO_LOOP_PRIV_H

#include "io/loop/loop.h"

struct grave {
	void *p;
	void (*free_fn)(void *);
};
struct loop_waiter;
struct loop {
	struct loop_waiter *waiter;
	const struct clock *clock;
	struct rng *rng;
	int64_t wall, mono;
	struct loop_timer **heap;
	size_t heap_n, heap_cap;
	uint64_t timer_seq;
	struct loop_hook *hooks, **hooks_end;
	struct loop_task tasks; /* sentinel of a ring */
	struct grave *graves;
	size_t graves_n, graves_cap;
	bool quit, wake;
};

/* Reads the clock. The waiter calls it after the wait, before it reports events. */
void loop_clock_update(struct loop *l);
/* Returns the time until the next turn in microseconds; < 0: only an event can start one. */
int64_t loop_due_in(struct loop *l);

/* The waiter. Running out of memory aborts; nothing else fails. */
struct loop_waiter *loop_waiter_new(struct loop *l);
void loop_waiter_free(struct loop_waiter *w);
/* Waits for events, at most wait_us (< 0: for ever), and runs their callbacks. */
void loop_waiter_wait(struct loop *l, int64_t wait_us);

#endif
