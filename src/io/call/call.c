/*
 * Runs provider verbs. A call has one struct run (ours) beside one struct call (the user's). The
 * auth step of a provider is a run too, without a user. A run waits in exactly one place: for
 * credentials, for rate-limit tokens, for the account-wide bucket, for a retry, or for a reply.
 * Neither call_start nor another step enters a step.
 *
 * Only this file tracks two facts:
 *
 * - run.doubt: the cloud may have acted without an answer to us
 * - run.acted: the cloud did not refuse an act, and the step has more to ask
 *
 * With either, an end that we cause is SPOT_UNKNOWN: a token refused after a launch does not refuse
 * the machine. If the step ends the call, its verdict stands, and call.doubted reports the doubt.
 */
#include "base/base.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "io/call/call.h"
#include "io/call/call_priv.h"

static void run_step(struct run *r);
static void run_kick(struct loop_task *t);
static void run_deadline(struct loop_timer *t);
static void run_woken(struct loop_timer *t);

static const char *const verb_names[] = {
	[CALL_REGIONS] = "regions",
	[CALL_POOLS] = "pools",
	[CALL_PRICES] = "prices",
	[CALL_LAUNCH] = "launch",
	[CALL_FIND] = "find",
	[CALL_LIST] = "list",
	[CALL_DESCRIBE] = "describe",
	[CALL_TERMINATE] = "terminate",
	[CALL_WHOAMI] = "whoami",
	[CALL_SIGNALS] = "signals",
	[CALL_QUOTAS] = "quotas",
	[CALL_NOTICES] = "notices",
	[CALL_LAUNCH_GANG] = "launch_gang",
	[CALL_VERIFY] = "verify",
	[CALL_WATCH] = "watch",
	[CALL_CHECK] = "check",
};

/* ---- ends ------------------------------------------------------------------------------------ */

static void run_free(void *p)
{
	struct run *r = p;

	arena_free(r->own_arena);
	free(r);
}

/* Gives up the request under way, if there is one. */
static void run_stream_cut(struct run *r)
{
	if (op_busy(&r->http.op)) {
		op_fini(&r->http.op);
	}
}

/* Removes the run from its place of waiting. No callback of it runs afterwards. */
static void run_detach(struct run *r)
{
	struct loop *l = r->p->loop;

	loop_defer_cancel(l, &r->kick);
	loop_timer_stop(&r->timer);
	loop_timer_stop(&r->deadline);
	limiter_cancel(&r->wait);
	if (r->place == RUN_AUTH) {
		TAILQ_REMOVE(&r->p->auth_waiters, r, auth_link);
	}
	if (r->place == RUN_SHARED) {
		r->share->run = NULL;
		r->share = NULL;
	}
	run_stream_cut(r);
	r->place = RUN_OVER;
	TAILQ_REMOVE(&r->p->runs, r, link);
	loop_bury(l, r, run_free);
}

void run_forget(struct run *r)
{
	run_detach(r);
}

void run_end(struct run *r, enum spot_rc rc, const struct spot_err *err)
{
	struct call_provider *p = r->p;
	struct call *call = r->call;
	int requests = r->sent;
	bool doubted = r->doubted;
	struct spot_err e = { 0 };

	if (err != NULL) {
		size_t text_n = strlen(err->text), code_n = strlen(err->code);

		e = *err;
		redact_text(e.text, &text_n);
		redact_text(e.code, &code_n);
	}
	e.rc = rc;
	p->stats.failed += rc != SPOT_OK;
	log_debug("call.done", STR("provider", p->name), STR("verb", r->verb),
	    STR("rc", spot_rc_name(rc)), STR("code", e.code), STR("error", e.text),
	    I64("requests", r->sent), DUR("took", loop_mono_us(p->loop) - r->began_us),
	    I64("op", call != NULL ? call->op.id : 0));
	run_detach(r);
	if (call == NULL) {
		auth_done(p, rc, &e);
		return;
	}
	call->run = NULL;
	call->requests = requests;
	call->doubted = doubted;
	op_finish(&call->op, rc, &e);
}

bool run_may_have_acted(const struct run *r)
{
	return r->doubt || r->acted;
}

/* Ends a run for our reason, not the step's: UNKNOWN if an effect is possible. */
static void run_end_doubt(struct run *r, enum spot_rc rc, const struct spot_err *err)
{
	struct spot_err e = *err;

	if (run_may_have_acted(r) && rc != SPOT_UNKNOWN) {
		err_set(&e, SPOT_UNKNOWN,
		    "%s %s: an earlier request may have taken effect; then: %s", r->p->name,
		    r->verb, err->text);
		memcpy(e.code, err->code, sizeof(e.code));
		rc = SPOT_UNKNOWN;
	}
	run_end(r, rc, &e);
}

void run_end_text(struct run *r, enum spot_rc rc, const char *text)
{
	struct spot_err e;

	err_set(&e, rc, "%s %s: %s", r->p->name, r->verb, text);
	run_end_doubt(r, rc, &e);
}

static void run_deadline(struct loop_timer *t)
{
	struct run *r = container_of(t, struct run, deadline);
	static const char *const at[] = {
		[RUN_NEW] = "not started",
		[RUN_AUTH] = "waiting for credentials",
		[RUN_LIMIT] = "waiting for the rate limit",
		[RUN_SHARED] = "waiting for the account-wide rate limit",
		[RUN_DELAY] = "waiting to retry",
		[RUN_SENT] = "waiting for the reply",
	};
	bool acted = run_may_have_acted(r);
	char took[32];
	struct spot_err e;

	format_duration(loop_mono_us(r->p->loop) - r->began_us, took);
	err_set(&e, acted ? SPOT_UNKNOWN : SPOT_TIMEOUT, "%s %s: no result within %s (%s)%s%s%s",
	    r->p->name, r->verb, took, at[r->place], acted ? "; it may have taken effect" : "",
	    r->last.text[0] != '\0' ? "; last answer: " : "", r->last.text);
	memcpy(e.code, r->last.code, sizeof(e.code));
	run_end(r, e.rc, &e);
}

/* ---- retries --------------------------------------------------------------------------------- */

static int64_t run_delay_us(struct run *r)
{
	static const struct backoff ceilings = { .first_us = CALL_BACKOFF_BASE_US,
		.cap_us = CALL_BACKOFF_CAP_US };
	int64_t ceiling = backoff_wait_us(&ceilings, r->tries - 1, NULL);

	if (r->last.retry_after_us > 0) {
		return MIN(r->last.retry_after_us, CALL_RETRY_AFTER_MAX_US);
	}
	/* Full jitter: callers that were refused together must not retry together. */
	return 1 + (int64_t)rng_below(loop_rng(r->p->loop), (uint64_t)ceiling);
}

/* Has the step build the request again after a wait; r->last holds the reason. */
static void run_again(struct run *r)
{
	int64_t delay = run_delay_us(r);
	int64_t left = r->began_us + r->timeout_us - loop_mono_us(r->p->loop);

	r->c->in = NULL;
	r->c->at = r->at_before;
	r->doubted = r->doubted || r->doubt;
	if (r->tries >= r->tries_max || delay >= left) {
		run_end_doubt(r, r->last.rc, &r->last);
		return;
	}
	r->place = RUN_DELAY;
	loop_timer_set(&r->timer, delay);
}

static void run_woken(struct loop_timer *t)
{
	struct run *r = container_of(t, struct run, timer);

	assert(r->place == RUN_DELAY);
	run_step(r);
}

static void run_throttled(struct run *r, int64_t retry_after_us)
{
	struct call_provider *p = r->p;
	const struct spot_limit *limit = run_limit(r);

	p->stats.throttled++;
	if (limit != NULL) {
		limiter_throttled(p->limiter, limit, r->c->limit_scope,
		    MIN(retry_after_us, CALL_RETRY_AFTER_MAX_US));
	}
}

static void run_step_again(struct run *r)
{
	struct call_provider *p = r->p;

	if (r->c->err.rc == SPOT_OK) {
		err_set(&r->c->err, SPOT_UNAVAILABLE, "%s %s: refused for now (HTTP %d)", p->name,
		    r->verb, r->http.in.status);
	}
	r->last = r->c->err;
	if (r->c->in == &r->file) {
		r->tries++; /* SPOT_READ: no send has counted this try */
	}
	if (r->last.rc == SPOT_THROTTLED) {
		/* The vendor throttles before it acts: this request had no effect. The
		 * machines that it asks for were counted, and count once. */
		r->doubt = r->doubt_before;
		r->also_kept = r->also;
		run_throttled(r, r->last.retry_after_us);
	}
	run_again(r);
}

static void run_step_reauth(struct run *r)
{
	/* The vendor refused the credentials: this request had no effect. */
	r->doubt = r->doubt_before;
	if (r->call == NULL || r->reauthed) {
		if (r->c->err.rc == SPOT_OK) {
			err_set(&r->c->err, SPOT_UNAUTHENTICATED,
			    "%s %s: the credentials were refused again "
			    "after they had been renewed",
			    r->p->name, r->verb);
		}
		run_end_doubt(r, r->c->err.rc, &r->c->err);
		return;
	}
	r->reauthed = true;
	r->last = r->c->err;
	r->c->in = NULL;
	r->c->at = r->at_before;
	if (r->auth_gen != r->p->auth_gen) {
		/* Another run renewed the credentials while this request was under way. */
		run_step(r);
		return;
	}
	auth_wait(r);
}

/* ---- replies --------------------------------------------------------------------------------- */

/* The exchange failed below HTTP: there is no reply for the step to read. */
static void run_lost(struct run *r, enum spot_rc rc)
{
	struct spot_err e;
	bool unsent = rc == SPOT_UNAVAILABLE || rc == SPOT_CONFIG || rc == SPOT_INVALID;

	err_set(&e, rc, "%s %s: %s", r->p->name, r->verb, r->http.op.err.text);
	r->last = e;
	if (r->c->mutating && !unsent) {
		/* The vendor may have carried out the request: only a look-up can tell. */
		e.rc = SPOT_UNKNOWN;
		run_end(r, SPOT_UNKNOWN, &e);
		return;
	}
	r->doubt = r->doubt_before;
	if (rc == SPOT_UNAVAILABLE || rc == SPOT_TIMEOUT || rc == SPOT_BAD_REPLY) {
		run_again(r);
		return;
	}
	run_end_doubt(r, rc, &e);
}

/* Keeps the skew of the vendor's clock, but not from a cached reply (RFC 9111 5.1). */
static void run_told_time(const struct run *r)
{
	int64_t theirs;

	if (spot_http_header(&r->http.in, "age") == NULL &&
	    parse_http_date_us(spot_http_header(&r->http.in, "date"), &theirs)) {
		r->p->told_off_us = theirs - loop_wall_us(r->p->loop);
		r->p->told_at_us = loop_mono_us(r->p->loop);
	}
}

void run_answered(struct op *op)
{
	struct http_req *req = container_of(op, struct http_req, op);
	struct run *r = container_of(req, struct run, http);

	run_log_request(r, op->rc);
	r->place = RUN_NEW;
	if (op->rc != SPOT_OK) {
		run_lost(r, op->rc);
		return;
	}
	r->c->in = &r->http.in;
	run_told_time(r);
	run_step(r);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static enum spot_step run_no_verb(struct run *r)
{
	err_set(&r->c->err, SPOT_INVALID, "%s: this provider has no '%s'", r->p->name, r->verb);
	return SPOT_FAIL;
}

#define RUN_OPTIONAL(fn) (ops->fn == NULL ? run_no_verb(r) : ops->fn(self, r->c, r->call->args))

static enum spot_step run_enter(struct run *r)
{
	const struct spot_provider_ops *ops = r->p->ops;
	void *self = r->p->self;

	if (r->call == NULL) {
		return ops->auth(self, r->c);
	}
	switch (r->call->verb) {
	case CALL_REGIONS:
		return ops->regions(self, r->c, r->call->args);
	case CALL_POOLS:
		return ops->pools(self, r->c, r->call->args);
	case CALL_PRICES:
		return ops->prices(self, r->c, r->call->args);
	case CALL_LAUNCH:
		return ops->launch(self, r->c, r->call->args);
	case CALL_FIND:
		return ops->find(self, r->c, r->call->args);
	case CALL_LIST:
		return ops->list(self, r->c, r->call->args);
	case CALL_DESCRIBE:
		return ops->describe(self, r->c, r->call->args);
	case CALL_TERMINATE:
		return ops->terminate(self, r->c, r->call->args);
	case CALL_WHOAMI:
		return RUN_OPTIONAL(whoami);
	case CALL_SIGNALS:
		return RUN_OPTIONAL(signals);
	case CALL_QUOTAS:
		return RUN_OPTIONAL(quotas);
	case CALL_NOTICES:
		return RUN_OPTIONAL(notices);
	case CALL_LAUNCH_GANG:
		return RUN_OPTIONAL(launch_gang);
	case CALL_VERIFY:
		return RUN_OPTIONAL(verify);
	case CALL_WATCH:
		return RUN_OPTIONAL(watch);
	case CALL_CHECK:
		return RUN_OPTIONAL(check);
	}
	assert(false && "call with an invalid verb");
	return SPOT_FAIL;
}

/* Cuts a chain of pages that has no end, or that would fill the memory of the call. */
static bool run_within_bounds(struct run *r)
{
	if (++r->steps > CALL_STEPS_MAX) {
		run_end_text(r, SPOT_BAD_REPLY,
		    "no end after 10000 steps: the replies never stop referring to more");
		return false;
	}
	if (arena_used(r->arena) > CALL_ARENA_MAX) {
		run_end_text(r, SPOT_BAD_REPLY,
		    "the replies together are larger than this program accepts");
		return false;
	}
	return true;
}

/* Reads the file for SPOT_READ; the step goes on at once. False: the run is over. */
static bool run_read(struct run *r)
{
	struct spot_err e;
	enum spot_rc rc = call_read_file(r->c->path, r->arena, &r->file, &e);

	if (rc != SPOT_OK) {
		err_prefix(&e, "%s %s", r->p->name, r->verb);
		run_end_doubt(r, rc, &e);
		return false;
	}
	r->c->in = &r->file;
	return true;
}

static void run_failed(struct run *r)
{
	if (r->c->err.rc == SPOT_OK) {
		err_set(&r->c->err, SPOT_INTERNAL, "%s %s: the provider failed without saying why",
		    r->p->name, r->verb);
	}
	if (r->c->err.rc == SPOT_THROTTLED) {
		run_throttled(r, r->c->err.retry_after_us);
	}
	run_end(r, r->c->err.rc, &r->c->err);
}

/* Waits for the rest of a streamed reply. */
static void run_more(struct run *r)
{
	if (r->c->in == NULL || !r->c->in->partial) {
		run_end_text(r, SPOT_INTERNAL,
		    "the provider's step wants more of a reply that has ended");
		return;
	}
	r->c->in = NULL;
	r->place = RUN_SENT;
	http_stream_resume(&r->http);
}

void run_streamed(struct http_req *req)
{
	struct run *r = container_of(req, struct run, http);

	r->place = RUN_NEW;
	r->c->in = &req->in;
	run_step(r);
}

/* By RFC 9110 (15.5) the server did not carry out a request that got a 4xx. The exception is 409:
 * an earlier try of ours may have caused the conflict. */
static bool reply_is_refusal(const struct spot_http_response *in)
{
	return in->status >= 400 && in->status < 500 && in->status != 409;
}

static void run_progress(struct run *r)
{
	if (r->c->in != NULL) {
		/* The request has its answer; the next one starts with no tries and no doubt. */
		r->tries = 0;
		r->doubted = r->doubted || (r->doubt && r->c->in->status >= 500);
		r->acted = r->acted || r->doubt_before || (r->doubt && !reply_is_refusal(r->c->in));
		r->doubt = false;
		r->last = (struct spot_err){ 0 };
	}
}

static void run_step(struct run *r)
{
	struct spot_call *c = r->c;

	r->place = RUN_NEW;
	for (;;) {
		int at = c->at;
		enum spot_step s;

		if (!run_within_bounds(r)) {
			return;
		}
		if (c->in == NULL && auth_needed(r)) {
			auth_wait(r);
			return;
		}
		c->now_us = loop_wall_us(r->p->loop);
		c->rnd = rng_u64(loop_rng(r->p->loop));
		c->err = (struct spot_err){ 0 };
		c->limit_also = c->limit_also_cost = 0;
		s = run_enter(r);
		if (s != SPOT_MORE) {
			run_stream_cut(r);
		}
		switch (s) {
		case SPOT_SEND:
			run_progress(r);
			r->at_before = at;
			run_take(r);
			return;
		case SPOT_READ:
			run_progress(r);
			r->at_before = at;
			if (!run_read(r)) {
				return;
			}
			continue;
		case SPOT_AGAIN:
			run_step_again(r);
			return;
		case SPOT_REAUTH:
			run_step_reauth(r);
			return;
		case SPOT_MORE:
			run_more(r);
			return;
		case SPOT_DONE:
			run_end(r, SPOT_OK, NULL);
			return;
		case SPOT_FAIL:
			run_failed(r);
			return;
		case SPOT_STEP_NONE:
			break;
		}
		run_end_text(r, SPOT_INTERNAL, "the provider's step returned no verdict");
		return;
	}
}

static void run_kick(struct loop_task *t)
{
	run_step(container_of(t, struct run, kick));
}

void run_resume(struct run *r)
{
	run_step(r);
}

/* ---- starting -------------------------------------------------------------------------------- */

struct run *run_new(struct call_provider *p, const char *verb, int64_t timeout_us, int tries_max)
{
	struct run *r = calloc(1, sizeof(*r));

	if (r == NULL) {
		abort();
	}
	r->p = p;
	r->verb = verb;
	r->place = RUN_NEW;
	r->timeout_us = timeout_us;
	r->tries_max = tries_max > 0 ? tries_max : CALL_TRIES_MAX;
	r->began_us = loop_mono_us(p->loop);
	r->wait.go = run_granted;
	loop_timer_init(&r->timer, p->loop, run_woken);
	loop_timer_init(&r->deadline, p->loop, run_deadline);
	loop_timer_set(&r->deadline, timeout_us);
	TAILQ_INSERT_TAIL(&p->runs, r, link);
	return r;
}

void run_start(struct run *r)
{
	loop_defer(r->p->loop, &r->kick, run_kick);
}

static void call_abort(struct op *op)
{
	struct call *call = container_of(op, struct call, op);

	run_detach(call->run);
	call->run = NULL;
}

void call_start(struct call *call, struct call_provider *p, enum call_verb verb, void *args,
    struct arena *arena, int64_t timeout_us, int tries_max, bool urgent, void (*done)(struct op *))
{
	struct run *r = run_new(p, verb_names[verb], timeout_us, tries_max);

	call->provider = p;
	call->verb = verb;
	call->args = args;
	call->arena = arena;
	call->requests = 0;
	call->doubted = call->left = false;
	call->may_send = NULL;
	call->urgent = urgent;
	call->run = r;
	call->c = (struct spot_call){ .arena = arena };
	r->call = call;
	r->c = &call->c;
	r->arena = arena;
	r->urgent = urgent;
	r->launch = verb == CALL_LAUNCH || verb == CALL_LAUNCH_GANG;
	op_init(&call->op, p->loop, done);
	/* The timer of the run ends the call, because only it can choose TIMEOUT or UNKNOWN at that
	 * moment. The deadline of the op is a later safeguard. */
	op_begin(&call->op, verb_names[verb], timeout_us + CALL_OP_GRACE_US, SPOT_UNKNOWN,
	    call_abort);
	run_start(r);
}
