/*
 * The contract of asynchronous operations. Completion goes through the loop's deliver phase, so an
 * op never completes inside its start call. The state makes sure that it completes exactly once.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "io/loop/loop.h"

static uint64_t op_count; /* atomic: loops of several threads count here */

static void op_deliver(struct loop_task *t)
{
	struct op *op = container_of(t, struct op, task);

	op->state = OP_IDLE;
	op->done(op); /* may free op */
}

static void op_expired(struct loop_timer *t)
{
	struct op *op = container_of(t, struct op, deadline);
	struct spot_err err = { 0 };
	char text[32];

	assert(op->state == OP_BUSY);
	op->abort(op);
	enum spot_rc rc = op->timeout_rc;
	err_set(&err, rc, "%s: no answer within %s", op->what,
	    format_duration(op->timeout_us, text));
	op_finish(op, rc, &err);
}

void op_init(struct op *op, struct loop *l, void (*done)(struct op *))
{
	*op = (struct op){ .loop = l, .done = done, .state = OP_IDLE };
	loop_timer_init(&op->deadline, l, op_expired);
}

void op_begin(struct op *op, const char *what, int64_t timeout_us, enum spot_rc timeout_rc,
    void (*abort_fn)(struct op *))
{
	assert(op->state == OP_IDLE);
	assert(timeout_us > 0);
	op->state = OP_BUSY;
	op->rc = SPOT_OK;
	op->err = (struct spot_err){ 0 };
	op->what = what;
	op->abort = abort_fn;
	op->timeout_us = timeout_us;
	op->timeout_rc = timeout_rc;
	op->id = __atomic_add_fetch(&op_count, 1, __ATOMIC_RELAXED);
	loop_timer_set(&op->deadline, timeout_us);
}

void op_finish(struct op *op, enum spot_rc rc, const struct spot_err *err)
{
	assert(op->state == OP_BUSY);
	op->state = OP_COMPLETING;
	op->rc = rc;
	if (err != NULL) {
		op->err = *err;
	}
	op->err.rc = rc;
	loop_timer_stop(&op->deadline);
	loop_defer(op->loop, &op->task, op_deliver);
}

void op_stop(struct op *op)
{
	struct spot_err err = { 0 };

	if (op->state != OP_BUSY) {
		return;
	}
	op->abort(op);
	err_set(&err, SPOT_CANCELLED, "%s: stopped", op->what);
	op_finish(op, SPOT_CANCELLED, &err);
}

bool op_busy(const struct op *op)
{
	return op->state == OP_BUSY || op->state == OP_COMPLETING;
}

void op_fini(struct op *op)
{
	if (op->loop == NULL) {
		return;
	}
	if (op->state == OP_BUSY) {
		op->abort(op);
	}
	loop_timer_stop(&op->deadline);
	loop_defer_cancel(op->loop, &op->task);
	op->state = OP_IDLE;
}
