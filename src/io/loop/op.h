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
#ifndef IO_OP_H
#define IO_OP_H

#include "io/loop/loop.h"

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
