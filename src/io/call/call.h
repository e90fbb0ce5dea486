/*
 * Runs one provider verb; a call ends exactly once. It renews credentials if needed (one renewal at
 * a time per provider), waits for rate-limit tokens, sends the request, and enters the step again.
 * It handles AGAIN (capped exponential back-off with full jitter; obeys Retry-After), REAUTH and
 * READ. If the reply to a mutating request is lost, the call ends with SPOT_UNKNOWN.
 */
#ifndef IO_CALL_H
#define IO_CALL_H

#include "io/loop/loop.h"
#include "io/http/http.h"
#include "spot/provider.h"

struct run;
/* One open provider instance: ops, self, limiter, credentials. */
struct call_provider;
/* Access to the account-wide token buckets in Postgres; NULL keeps all buckets in this process. The
 * owner's take() answers once with call_shared_taken(). A wait of 0 means that it took the tokens;
 * otherwise the request asks again after that wait. */
struct call_shared {
	/* limit lives as long as the call of take() */
	void (*take)(struct call_shared *s, struct call_provider *p, const struct spot_limit *limit,
	    const char *scope, int cost, bool urgent, void *token);
};
void call_shared_taken(struct call_provider *p, void *token, enum spot_rc rc, int64_t wait_us);

/* Takes ownership of self and closes it in the end; copies name. */
struct call_provider *call_provider_new(struct loop *l, struct http_client *http,
    const struct spot_provider_ops *ops, void *self, const char *name, struct call_shared *shared);
void call_provider_free(struct call_provider *p); /* stops its calls; NULL accepted */
const char *call_provider_name(const struct call_provider *p);
const struct spot_provider_ops *call_provider_ops(const struct call_provider *p);
void *call_provider_self(const struct call_provider *p);
struct call_stats {
	int64_t requests, throttled, failed, waited_us;
};
struct call_stats call_provider_stats(const struct call_provider *p);
/* Multiplies the rate and the burst of every bucket by this, for an account whose limits the vendor
 * raised; 0 = no rate limits. Call it before the first call. The default is 1. */
void call_provider_rate(struct call_provider *p, double factor);
/* The tokens in a bucket now, in this process: index within ops->limits. A bucket without a limit
 * has CALL_ROOM_FREE. */
#define CALL_ROOM_FREE 1e9
double call_provider_room(struct call_provider *p, size_t index, const char *scope);
/* Sets *off_us to the lead of the provider's clock over our wall clock, to the second, and *at_us
 * to the time of that reply (mono). Uses the newest reply with a Date; false: there was none. */
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
	void *args; /* struct spot_launch etc.; the verb puts its results there */
	struct arena *arena;
	bool urgent; /* the limiter serves it before others (terminate) */
	/* Runs before each mutating request leaves; set it after call_start; NULL: always true.
	 * False ends the call with CANCELLED: the daemon may have lost its lease while the call
	 * waited for tokens. */
	bool (*may_send)(const struct call *call);
	struct spot_call c;
	void *priv;
	struct run *run; /* private to io/call */
	int requests; /* after done: number of requests sent */
	/* After done: an earlier request may have had its effect without a definite answer, and the
	 * step went on. A verdict on a later request, such as refused credentials, may not hold for
	 * the earlier one. */
	bool doubted;
	bool left; /* a mutating request has left us: it holds its tokens no more */
};
/* Starts a verb with args and arena (made with the default cap), which must stay valid until done.
 * The limit timeout_us holds for the whole call, tries_max (0 = 5) for the sends of one request. */
void call_start(struct call *call, struct call_provider *p, enum call_verb verb, void *args,
    struct arena *arena, int64_t timeout_us, int tries_max, bool urgent, void (*done)(struct op *));

/* Loads an out-of-tree provider from path and checks its symbol, ABI, size and verbs. CONFIG: the
 * file is no such plugin. */
NODISCARD enum spot_rc call_plugin_load(const char *path, const struct spot_provider_ops **ret,
    struct spot_err *err);

#endif
