/*
 * Runs one provider verb and ends exactly once. It makes sure that credentials are fresh (one
 * flight per provider), waits for rate-limit tokens, sends, and enters the step again. It handles
 * AGAIN (capped exponential back-off with full jitter, Retry-After obeyed), REAUTH and READ. A lost
 * reply of a mutating request ends with SPOT_UNKNOWN, whatever the step would have said.
 */
#ifndef IO_CALL_H
#define IO_CALL_H

#include "io/loop/op.h"
#include "io/http/http.h"
#include "spot/provider.h"

struct run;
/* one open provider instance: ops, self, limiter, auth flight */
struct call_provider;
/* Account-wide buckets live in Postgres: the owner supplies take(), which calls call_shared_taken()
 * once with 0, the tokens are taken, or how long until they may be there: it is asked again then.
 * NULL: all buckets in process. */
struct call_shared {
	void (*take)(struct call_shared *s, struct call_provider *p, const struct spot_limit *limit,
	    const char *scope, int cost, bool urgent, void *token);
};
void call_shared_taken(struct call_provider *p, void *token, enum spot_rc rc, int64_t wait_us);

struct call_provider *call_provider_new(struct loop *l, struct http_client *http,
    const struct spot_provider_ops *ops, void *self, const char *name, struct call_shared *shared);
void call_provider_free(struct call_provider *p); /* closes self */
const char *call_provider_name(const struct call_provider *p);
const struct spot_provider_ops *call_provider_ops(const struct call_provider *p);
void *call_provider_self(const struct call_provider *p);
struct call_stats {
	int64_t requests, throttled, failed, waited_us;
};
struct call_stats call_provider_stats(const struct call_provider *p);
/* How far the provider's clock was ahead of our wall clock when its newest reply came that had a
 * Date (to the second), and when that was (mono). false: none had one. */
NODISCARD bool call_provider_told(const struct call_provider *p, int64_t *off_us, int64_t *at_us);

enum call_verb {
	CALL_REGIONS = 1,
	CALL_POOLS,
	CALL_PRICES,
	CALL_LAUNCH,
	CALL_FIND,
	CALL_LIST,
	CALL_DESCRIBE,
	CALL_TERMINATE,
	CALL_WHOAMI,
	CALL_SIGNALS,
	CALL_QUOTAS,
	CALL_NOTICES,
	CALL_LAUNCH_GANG,
	CALL_VERIFY,
	CALL_WATCH,
	CALL_CHECK,
};
struct call {
	struct op op; /* done(&call->op); rc/err are the verdict */
	struct call_provider *provider;
	enum call_verb verb;
	void *args; /* struct spot_launch etc.; results in it */
	struct arena *arena;
	bool urgent; /* goes before others at the limiter (terminate) */
	/* Asked before each request that may have an effect leaves; set after call_start, NULL:
	 * always. false ends the call with CANCELLED: whoever waited for tokens or was stopped may
	 * have lost its right to act meanwhile. */
	bool (*may_send)(const struct call *call);
	struct spot_call c;
	void *priv;
	struct run *run; /* io/call/call.c's own */
	int requests; /* after done: how many were sent */
	/* After done: a try that may have had its effect had no definite answer, and the step went
	 * on. Its verdict on a later request (refused for its credentials) need not hold for that
	 * one. */
	bool doubted;
};
/* args and arena (made with the default cap) stay valid until done. timeout bounds the whole call.
 * tries_max: how often one request of it is sent at most, for AGAIN (0 = 5). */
void call_start(struct call *call, struct call_provider *p, enum call_verb verb, void *args,
    struct arena *arena, int64_t timeout_us, int tries_max, bool urgent, void (*done)(struct op *));

/* Static registry plus dlopen: finds ops by kind; path != NULL loads an out-of-tree plugin and
 * checks symbol, abi and size. */
NODISCARD enum spot_rc call_plugin_load(const char *path, const struct spot_provider_ops **ret,
    struct spot_err *err);

#endif
