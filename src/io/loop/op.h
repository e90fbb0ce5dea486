/*
 * Every asynchronous thing is one struct op, embedded in the work's own struct and reached by
 * container_of. Contract (after nng's aio): it completes exactly once; never inside its own start
 * call (a result known at once is delivered next turn); it always has our own deadline; it can be
 * stopped, any number of times, and then completes with SPOT_CANCELLED.
 */
#ifndef IO_OP_H
#define IO_OP_H

#include "io/loop/loop.h"

enum op_state { OP_IDLE = 1, OP_BUSY, OP_COMPLETING };
struct op {
	struct loop *loop;
	void (*done)(struct op *op); /* the user's; may free or restart the op's owner */
	/* the doer's: forget this op, no callback; set by op_begin */
	void (*abort)(struct op *op);
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
/* For doers. timeout_us > 0 always. On expiry abort() runs, then done with timeout_rc. */
void op_begin(struct op *op, const char *what, int64_t timeout_us, enum spot_rc timeout_rc,
    void (*abort)(struct op *));
/* For doers: the result is in; err copied if given. A second call is a bug (assert). */
void op_finish(struct op *op, enum spot_rc rc, const struct spot_err *err);
/* For users. */
void op_stop(struct op *op); /* abort, then done with CANCELLED; no-op unless busy */
bool op_busy(const struct op *op); /* started, and done not yet called */
/* Forget without any callback: abort + no done. For owners being destroyed. */
void op_fini(struct op *op);

#endif
