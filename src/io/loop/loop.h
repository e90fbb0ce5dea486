/*
 * The event loop, on libev. A loop and all that is registered in it belong to one thread. Other
 * threads may call loop_post() only. A turn has five phases, after PgBouncer:
 *
 * 1. read the clock, which stays the same for the turn
 * 2. run events
 * 3. run the decide hooks
 * 4. deliver deferred completions
 * 5. free buried objects
 *
 * Events only record facts, and the decide phase acts on them. It is level-triggered: a lost event
 * costs time, not correctness. Only src/io includes ev.h.
 */
#ifndef IO_LOOP_LOOP_H
#define IO_LOOP_LOOP_H

#include "base/base.h"

struct loop;
struct loop *loop_new(const struct clock *clock, struct rng *rng);
void loop_free(struct loop *l);
void loop_run(struct loop *l); /* until loop_quit */
/* Runs one turn, for tests. False after loop_quit(). */
bool loop_turn(struct loop *l, int64_t wait_us_max);
void loop_quit(struct loop *l);
int64_t loop_wall_us(const struct loop *l); /* cached per turn */
int64_t loop_mono_us(const struct loop *l);
struct rng *loop_rng(struct loop *l);
void *loop_ev(struct loop *l); /* struct ev_loop *, for src/io only */

struct loop_timer {
	void (*fire)(struct loop_timer *t);
	struct loop *loop;
	void *priv[3]; /* its place in the heap; size asserted in loop.c */
	bool armed;
};
void loop_timer_init(struct loop_timer *t, struct loop *l, void (*fire)(struct loop_timer *));
void loop_timer_set(struct loop_timer *t, int64_t after_us); /* (re)arms, one shot */
void loop_timer_stop(struct loop_timer *t); /* idempotent */

#define LOOP_READ 1
#define LOOP_WRITE 2
struct loop_fd {
	void (*ready)(struct loop_fd *f, int events);
	struct loop *loop;
	void *priv[6];
	int fd, events;
	bool armed;
};
void loop_fd_init(struct loop_fd *f, struct loop *l, void (*ready)(struct loop_fd *, int));
void loop_fd_set(struct loop_fd *f, int fd, int events); /* events 0 = stop */
void loop_fd_stop(struct loop_fd *f);

struct loop_signal {
	void (*got)(struct loop_signal *s);
	struct loop *loop;
	void *priv[8];
	int signo;
};
void loop_signal_start(struct loop_signal *s, struct loop *l, int signo,
    void (*got)(struct loop_signal *));
void loop_signal_stop(struct loop_signal *s);

struct loop_child { /* the loop reaps it; status is that of waitpid */
	void (*ended)(struct loop_child *c, int status);
	struct loop *loop;
	void *priv[8];
	int pid;
};
void loop_child_start(struct loop_child *c, struct loop *l, int pid,
    void (*ended)(struct loop_child *, int));
void loop_child_stop(struct loop_child *c);

/* Runs in each turn after the events, in order of registration. */
struct loop_hook {
	void (*decide)(struct loop_hook *h);
	struct loop_hook *next;
};
void loop_hook_add(struct loop *l, struct loop_hook *h);
void loop_hook_remove(struct loop *l, struct loop_hook *h); /* not from inside a hook */
void loop_wake(struct loop *l); /* makes the next turn start at once */

/* A function to run once, in the next deliver phase. It must stay valid until then, or the owner
 * cancels it. */
struct loop_task {
	void (*run)(struct loop_task *t);
	struct loop_task *next, *prev;
	bool queued;
};
void loop_defer(struct loop *l, struct loop_task *t, void (*run)(struct loop_task *));
void loop_defer_cancel(struct loop *l, struct loop_task *t);
/* Runs fn(ctx) among the events of a turn of l. Any thread may call it. The messages of one thread
 * run in the order of its calls. The caller keeps ctx valid until then. A call of loop_free() drops
 * messages that have not run. */
void loop_post(struct loop *l, void (*fn)(void *ctx), void *ctx);
/* Calls free_fn(p) at the end of this turn, when no callback can use p any more. */
void loop_bury(struct loop *l, void *p, void (*free_fn)(void *));

/*
 * Every asynchronous operation is one struct op, embedded in a struct of its own kind and reached
 * by container_of. The contract, after nng's aio:
 *
 * - it completes exactly once
 * - it never completes inside its start call; a result known at once comes in the next turn
 * - it always has a deadline
 * - its user may stop it, any number of times, and it then completes with SPOT_CANCELLED
 *
 * A provider of operations is a "doer" here, its caller a "user".
 */

enum op_state { OP_IDLE = 1, OP_BUSY, OP_COMPLETING };
struct op {
	struct loop *loop;
	void (*done)(struct op *op); /* the user's; may free or restart the op's owner */
	void (*abort)(struct op *op); /* the doer's: forgets this op, without a callback */
	enum op_state state;
	enum spot_rc rc;
	struct spot_err err;
	struct loop_timer deadline;
	int64_t timeout_us;
	enum spot_rc timeout_rc;
	struct loop_task task;
	const char *what; /* for messages: "pg job_due", "http POST ec2" */
	uint64_t id; /* op= in log lines */
};
void op_init(struct op *op, struct loop *l, void (*done)(struct op *));
/* For doers: starts the op. timeout_us must be above 0. On expiry abort() runs, and the op ends
 * with timeout_rc. */
void op_begin(struct op *op, const char *what, int64_t timeout_us, enum spot_rc timeout_rc,
    void (*abort)(struct op *));
/* For doers: sets the result and copies err, if given. A second call is a bug (assert). */
void op_finish(struct op *op, enum spot_rc rc, const struct spot_err *err);
/* For users: */
void op_stop(struct op *op); /* aborts; done gets CANCELLED; does nothing unless busy */
bool op_busy(const struct op *op); /* from the start until done() is called */
void op_fini(struct op *op); /* aborts without done(), for an owner that goes away */

#endif
