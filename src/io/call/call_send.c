/*
 * Sends a request: takes tokens of the provider's own bucket and of the account-wide one, then
 * calls the HTTP client. Every request passes run_send, where doubt begins.
 */
#include "base/base.h"

#include "base/crypto/crypto.h"
#include "io/call/call_priv.h"

static void run_take_next(struct run *r);
static void run_taken_all(struct run *r);

static const struct spot_limit *limit_at(const struct run *r, int index)
{
	const struct spot_provider_ops *ops = r->p->ops;

	return index < 0 || (size_t)index >= ops->limits_n ? NULL : &ops->limits[index];
}

/* Tokens that the request takes of r->taking. */
static int run_cost(const struct run *r)
{
	return r->also ? r->c->limit_also_cost : r->c->limit_cost;
}

const struct spot_limit *run_limit(const struct run *r)
{
	return limit_at(r, r->c->limit);
}

void run_send(struct run *r)
{
	struct call_provider *p = r->p;
	struct spot_call *c = r->c;
	int64_t left = r->began_us + r->timeout_us - loop_mono_us(p->loop);

	if (c->mutating && r->call != NULL && r->call->may_send != NULL &&
	    !r->call->may_send(r->call)) {
		run_end_text(r, SPOT_CANCELLED, "not sent: this daemon no longer holds the lease");
		return;
	}
	if (c->out.timeout_us <= 0) {
		c->out.timeout_us = r->launch && p->ops->launch_timeout_us > 0
		    ? p->ops->launch_timeout_us
		    : CALL_REQUEST_TIMEOUT_US;
	}
	c->out.timeout_us = MAX(MIN(c->out.timeout_us, left), INT64_C(1000));
	if (r->call == NULL) {
		c->out.reply_bytes_max = CALL_AUTH_REPLY_MAX;
	}
	r->place = RUN_SENT;
	r->sent++;
	r->tries++;
	r->sent_us = loop_mono_us(p->loop);
	r->auth_gen = p->auth_gen;
	r->doubt_before = r->doubt;
	r->doubt = r->doubt || c->mutating;
	if (r->call != NULL) {
		r->call->left = r->call->left || c->mutating;
	}
	p->stats.requests++;
	r->http.streamed = c->out.stream ? run_streamed : NULL;
	http_send(p->http, &r->http, &c->out, r->arena, c->mutating, run_answered);
}

/* Sends the request with all tokens taken. After a long wait the step builds it again first, since
 * its signature may hold an old time or expired credentials. */
static void run_go(struct run *r)
{
	int64_t waited = loop_mono_us(r->p->loop) - r->waits_since_us;

	r->p->stats.waited_us += waited;
	if (waited <= CALL_BUILT_MAX_US) {
		run_send(r);
		return;
	}
	r->granted = true;
	r->c->in = NULL;
	r->c->at = r->at_before;
	run_resume(r);
}

static void run_take_shared(struct run *r);

/* Goes on with the local tokens of r->taking: takes those of the account-wide bucket, if any. */
static void run_taken(struct run *r)
{
	if (r->taking->shared && r->p->shared != NULL && limiter_holds(r->p->limiter, r->taking)) {
		run_take_shared(r);
		return;
	}
	run_taken_all(r);
}

/* Goes on with all tokens of r->taking: takes those of a wider limit, if any. */
static void run_taken_all(struct run *r)
{
	r->taking = limit_at(r, r->taking->within - 1);
	run_take_next(r);
}

void run_granted(struct limit_wait *w)
{
	run_taken(container_of(w, struct run, wait));
}

static void run_take_local(struct run *r)
{
	r->place = RUN_LIMIT;
	if (limiter_take(r->p->limiter, r->taking, r->c->limit_scope, run_cost(r), r->urgent,
		&r->wait)) {
		run_taken(r);
	}
}

static void run_take_shared(struct run *r)
{
	struct call_provider *p = r->p;
	struct call_share *s = calloc(1, sizeof(*s));
	struct spot_limit scaled = limiter_scaled(p->limiter, r->taking);

	if (s == NULL) {
		abort();
	}
	s->run = r;
	r->share = s;
	r->place = RUN_SHARED;
	p->shares++;
	p->shared->take(p->shared, p, &scaled, r->c->limit_scope == NULL ? "" : r->c->limit_scope,
	    MAX(run_cost(r), 1), r->urgent, s);
}

static void run_take_next(struct run *r)
{
	if (r->taking == NULL && !r->also && r->c->limit_also > 0) {
		r->also = true;
		r->taking = r->also_kept ? NULL : limit_at(r, r->c->limit_also - 1);
		r->also_kept = false;
	}
	if (r->taking == NULL) {
		run_go(r);
	} else {
		run_take_local(r);
	}
}

void run_take(struct run *r)
{
	r->waits_since_us = loop_mono_us(r->p->loop);
	r->taking = r->granted ? NULL : run_limit(r);
	r->also = r->granted;
	r->granted = false;
	run_take_next(r);
}

void call_shared_taken(struct call_provider *p, void *token, enum spot_rc rc, int64_t wait_us)
{
	struct call_share *s = token;
	struct run *r = s->run;

	free(s);
	p->shares--;
	if (r == NULL) {
		provider_free_if_idle(p);
		return;
	}
	r->share = NULL;
	r->place = RUN_LIMIT;
	/* The local bucket comes before the account-wide one, because it serves urgent requests
	 * first and knows when the vendor throttles us. Without the database it alone counts: this
	 * process stays within the limit, and a terminate does not wait. */
	if (rc == SPOT_OK && wait_us > 0) {
		limiter_put_back(p->limiter, r->taking, r->c->limit_scope, run_cost(r), r->urgent,
		    wait_us, &r->wait);
	} else {
		run_taken_all(r);
	}
}

void run_log_request(const struct run *r, enum spot_rc rc)
{
	char url[512];

	redact_url(r->c->out.url, url, sizeof(url));
	log_debug("call.request", STR("provider", r->p->name), STR("verb", r->verb),
	    STR("method", r->c->out.method), STR("url", url), STR("rc", spot_rc_name(rc)),
	    I64("status", r->http.in.status), I64("bytes", r->http.in.body.n), I64("try", r->tries),
	    DUR("took", loop_mono_us(r->p->loop) - r->sent_us),
	    I64("op", r->call != NULL ? r->call->op.id : 0));
}
