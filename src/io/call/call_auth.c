/*
 * A provider instance: its name, limiter and statistics, and its credentials. One renewal runs at a
 * time: the first call that needs it starts the auth step, and all others wait for that one. If it
 * fails, they all fail with its error.
 *
 * A provider's times follow the wall clock: lives of tokens, renewals, pauses after a refusal. A
 * clock step may make all of them wrong, so credentials are then renewed as a whole, fresh or not.
 * If that fails, the old credentials stay in use, and the next call tries again.
 */
#include "base/base.h"

#include "base/crypto/crypto.h"
#include "io/call/call.h"
#include "io/call/call_priv.h"

#define SECRETS_MAX 32
/* A smaller change is drift, which the early renewal of tokens covers. */
#define CLOCK_SET_US (30 * SPOT_US_PER_S)

static int64_t clock_us(const struct call_provider *p)
{
	return loop_wall_us(p->loop) - loop_mono_us(p->loop);
}

static void clock_look(struct call_provider *p)
{
	int64_t now = clock_us(p), by = now - p->clock_us;

	if (by > CLOCK_SET_US || by < -CLOCK_SET_US) {
		p->auth_owed = true;
		p->clock_us = now;
	}
}

bool auth_needed(struct run *r)
{
	struct call_provider *p = r->p;

	if (r->call == NULL) {
		return false;
	}
	clock_look(p);
	if (r->authed) {
		r->authed = false;
		return false;
	}
	return p->auth_owed || !p->ops->auth_fresh(p->self, loop_wall_us(p->loop));
}

static void auth_begin(struct call_provider *p)
{
	struct run *r = run_new(p, "credentials", CALL_AUTH_TIMEOUT_US, 0);

	r->own_arena = arena_new(0);
	r->arena = r->own_arena;
	r->own = (struct spot_call){ .arena = r->own_arena, .limit = -1 };
	r->c = &r->own;
	r->urgent = true;
	p->auth = r;
	p->auth_whole = p->ops->auth_fresh(p->self, loop_wall_us(p->loop));
	run_start(r);
}

void auth_wait(struct run *r)
{
	struct call_provider *p = r->p;

	r->place = RUN_AUTH;
	TAILQ_INSERT_TAIL(&p->auth_waiters, r, auth_link);
	if (p->auth == NULL) {
		auth_begin(p);
	}
}

static void secrets_drop(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(list[i]);

		redact_remove(list[i], len);
		mem_wipe(list[i], len);
		free(list[i]);
	}
	free(list);
}

/* Registers the new secrets before it drops the old ones, so that a value in both stays covered. */
static void secrets_register(struct call_provider *p)
{
	const char *held[SECRETS_MAX];
	size_t n = MIN(p->ops->secrets(p->self, held, SECRETS_MAX), (size_t)SECRETS_MAX);
	char **list = calloc(MAX(n, (size_t)1), sizeof(*list));

	if (list == NULL) {
		abort();
	}
	for (size_t i = 0; i < n; i++) {
		list[i] = strdup(held[i]);
		if (list[i] == NULL) {
			abort();
		}
		redact_add(list[i], strlen(list[i]));
	}
	secrets_drop(p->secrets, p->secrets_n);
	p->secrets = list;
	p->secrets_n = n;
}

static void auth_fail_waiter(struct run *r, enum spot_rc rc, const struct spot_err *err)
{
	struct spot_err e = *err;

	TAILQ_REMOVE(&r->p->auth_waiters, r, auth_link);
	r->place = RUN_NEW;
	if (run_may_have_acted(r)) {
		err_set(&e, SPOT_UNKNOWN, "%s %s: it may have taken effect; then: %s", r->p->name,
		    r->verb, err->text);
		rc = SPOT_UNKNOWN;
	}
	run_end(r, rc, &e);
}

void auth_done(struct call_provider *p, enum spot_rc rc, const struct spot_err *err)
{
	bool extra = p->auth_owed && p->auth_whole;
	size_t n = 0;
	struct run *r;

	p->auth = NULL;
	if (rc == SPOT_OK) {
		p->auth_gen++;
		p->auth_owed = p->auth_owed && !p->auth_whole;
	}
	secrets_register(p);
	TAILQ_FOREACH (r, &p->auth_waiters, auth_link) {
		n++;
	}
	/* Serve only the present waiters: a resumed run may queue again for the next renewal. */
	while (n-- > 0 && (r = TAILQ_FIRST(&p->auth_waiters)) != NULL) {
		if (rc != SPOT_OK && (!extra || r->reauthed)) {
			auth_fail_waiter(r, rc, err);
			continue;
		}
		TAILQ_REMOVE(&p->auth_waiters, r, auth_link);
		r->authed = true;
		run_resume(r);
	}
}

struct call_provider *call_provider_new(struct loop *l, struct http_client *http,
    const struct spot_provider_ops *ops, void *self, const char *name, struct call_shared *shared)
{
	struct call_provider *p = calloc(1, sizeof(*p));

	if (p == NULL || (p->name = strdup(name)) == NULL) {
		abort();
	}
	p->loop = l;
	p->http = http;
	p->ops = ops;
	p->self = self;
	p->shared = shared;
	p->limiter = limiter_new(l);
	p->clock_us = clock_us(p);
	TAILQ_INIT(&p->runs);
	TAILQ_INIT(&p->auth_waiters);
	secrets_register(p);
	return p;
}

/* Frees a closed provider once the account-wide bucket owes it no answers. */
void provider_free_if_idle(struct call_provider *p)
{
	if (p->closed && p->shares == 0) {
		free(p->name);
		free(p);
	}
}

void call_provider_free(struct call_provider *p)
{
	struct run *r;

	if (p == NULL) {
		return;
	}
	while ((r = TAILQ_FIRST(&p->runs)) != NULL) {
		if (r->call != NULL) {
			op_stop(&r->call->op);
		} else {
			run_forget(r);
		}
	}
	limiter_free(p->limiter);
	p->limiter = NULL;
	p->ops->close(p->self);
	p->self = NULL;
	secrets_drop(p->secrets, p->secrets_n);
	p->secrets = NULL;
	p->secrets_n = 0;
	p->closed = true;
	provider_free_if_idle(p);
}

const char *call_provider_name(const struct call_provider *p)
{
	return p->name;
}

const struct spot_provider_ops *call_provider_ops(const struct call_provider *p)
{
	return p->ops;
}

void *call_provider_self(const struct call_provider *p)
{
	return p->self;
}

void call_provider_rate(struct call_provider *p, double factor)
{
	limiter_scale(p->limiter, factor);
}

double call_provider_room(struct call_provider *p, size_t index, const char *scope)
{
	return index < p->ops->limits_n ? limiter_room(p->limiter, &p->ops->limits[index], scope)
					: CALL_ROOM_FREE;
}

bool call_provider_told(const struct call_provider *p, int64_t *off_us, int64_t *at_us)
{
	*off_us = p->told_off_us;
	*at_us = p->told_at_us;
	return p->told_at_us > 0;
}

struct call_stats call_provider_stats(const struct call_provider *p)
{
	return p->stats;
}
