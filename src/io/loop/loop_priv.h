/*
 * Inside of the loop: loop.c keeps timers, hooks, tasks and graves, and says when the next turn is
 * due; loop_ev.c waits until then or until something happens outside. The second half alone touches
 * libev and the machine: another waiter (a simulation's jumps to the next timer) replaces loop_ev.c
 * at link time and has the same turns.
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

/* Reads the clock; the waiter does so once it has waited, before anything is told. */
void loop_clock_update(struct loop *l);
/* How long from now until the next turn is due; < 0: only something outside can make one due. */
int64_t loop_due_in(struct loop *l);

/* The waiter. Out of memory aborts; nothing else of it fails. */
struct loop_waiter *loop_waiter_new(struct loop *l);
void loop_waiter_free(struct loop_waiter *w);
/* Until something happened outside, at most wait_us (< 0: for ever), and runs what it is about. */
void loop_waiter_wait(struct loop *l, int64_t wait_us);

#endif
