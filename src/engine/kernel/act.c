/* Provider calls beside the passes: each has an arena of its own and writes one statement when it
 * ends. */
#include "base/base.h"
#include "engine/kernel/kernel_priv.h"

struct act *act_new(struct engine *e, int64_t id, void (*called)(struct act *))
{
	struct act *a = calloc(1, sizeof(*a));

	if (a == NULL) {
		abort();
	}
	a->e = e;
	a->id = id;
	a->epoch = e->epoch;
	a->called = called;
	a->arena = arena_new(0);
	TAILQ_INSERT_TAIL(&e->acts, a, link);
	return a;
}

static void act_free(void *p)
{
	struct act *a = p;

	pg_req_fini(&a->req);
	arena_free(a->arena);
	free(a);
}

void act_end(struct act *a)
{
	struct engine *e = a->e;

	TAILQ_REMOVE(&e->acts, a, link);
	loop_bury(e->loop, a, act_free);
	/* A database that refuses does so again at once: the next pass is the tick's. */
	if (!e->refused) {
		engine_touch(e, a->touched != 0 ? a->touched : TOUCH_ALL);
	}
}

static void act_called(struct op *op)
{
	struct act *a = container_of(container_of(op, struct call, op), struct act, call);

	a->calling = false;
	a->called(a);
}

/* A launch is the one call that a leader must not send after a pause: another daemon may own its
 * rows by then. */
static bool act_may_send(const struct call *call)
{
	const struct act *a =
	    (const struct act *)(const void *)((const char *)call - offsetof(struct act, call));

	return lease_held(a->e) && a->epoch == a->e->epoch;
}

void act_call(struct act *a, struct call_provider *p, enum call_verb verb, void *args,
    int64_t timeout_us, bool urgent)
{
	a->calling = true;
	call_start(&a->call, p, verb, args, a->arena, timeout_us, 0, urgent, act_called);
	if (verb == CALL_LAUNCH || verb == CALL_LAUNCH_GANG) {
		a->call.may_send = act_may_send;
	}
}

static void act_answered(struct op *op)
{
	struct act *a = container_of(container_of(op, struct http_req, op), struct act, http);

	a->sending = false;
	a->called(a);
}

void act_http(struct act *a, bool mutating)
{
	a->sending = true;
	http_send(a->e->http, &a->http, &a->http_out, a->arena, mutating, act_answered);
}

void act_drop(struct act *a)
{
	if (a->calling) {
		op_fini(&a->call.op);
	}
	if (a->sending) {
		op_fini(&a->http.op);
	}
	if (a->writing) {
		op_fini(&a->req.op);
	}
	a->calling = a->sending = a->writing = false;
}

void act_drop_all(struct engine *e)
{
	struct act *a;

	while ((a = TAILQ_FIRST(&e->acts)) != NULL) {
		TAILQ_REMOVE(&e->acts, a, link);
		act_drop(a);
		act_free(a);
	}
}

void act_wrote(struct op *op)
{
	struct act *a = container_of(container_of(op, struct pg_req, op), struct act, req);
	struct engine *e = a->e;

	a->writing = false;
	a->touched |= a->req.stmt->touches;
	if (op->rc != SPOT_OK && op->rc != SPOT_CANCELLED) {
		/* The claim runs out and a later pass reads the row again. */
		log_warn("engine.statement", STR("statement", a->req.stmt->name), I64("id", a->id),
		    STR("rc", spot_rc_name(op->rc)), STR("error", op->err.text));
	}
	if (a->wrote != NULL) {
		a->wrote(a);
	}
	e->refused = op->rc != SPOT_OK;
	act_end(a);
	e->refused = false;
}
