/*
 * Inside of io/call: the provider instance, the run of a verb, and the rate limits.
 *
 * call.c runs the steps; call_auth.c gets credentials, once for all that wait; call_send.c sends a
 * request; call_read.c reads files for SPOT_READ; call_limit.c keeps the token buckets.
 */
#ifndef IO_CALL_PRIV_H
#define IO_CALL_PRIV_H

#include <sys/queue.h>
#include "io/call/call.h"

#define CALL_TRIES_MAX 5
#define CALL_STEPS_MAX 10000
#define CALL_ARENA_MAX ((size_t)192 << 20) /* under arena_new's own default cap */
#define CALL_READ_MAX ((size_t)256 << 10)
#define CALL_AUTH_REPLY_MAX ((size_t)1 << 20)
#define CALL_BACKOFF_BASE_US INT64_C(500000)
#define CALL_BACKOFF_CAP_US INT64_C(30000000)
#define CALL_RETRY_AFTER_MAX_US INT64_C(300000000)
#define CALL_REQUEST_TIMEOUT_US INT64_C(30000000)
#define CALL_AUTH_TIMEOUT_US INT64_C(60000000)
#define CALL_BUILT_MAX_US INT64_C(30000000)
#define CALL_OP_GRACE_US INT64_C(5000000)

/* ---- rate limits (call_limit.c) -------------------------------------------------------------- */

/*
 * Token buckets of one provider instance, one per (limit, scope), in process. A request that finds
 * its bucket empty queues. Urgent ones (terminate) are served before the others, each class in
 * order of arrival. Nothing here fails.
 */
struct limiter;
struct limit_bucket;
struct limit_wait { /* embedded in the waiting request */
	TAILQ_ENTRY(limit_wait) link;
	struct limit_bucket *bucket; /* NULL = not queued */
	double cost;
	bool urgent;
	void (*go)(struct limit_wait *w); /* the tokens are taken; called from the loop */
};

struct limiter *limiter_new(struct loop *l);
void limiter_free(struct limiter *l); /* NULL accepted; nobody may be queued any more */
/* True: taken now. False: queued, w->go will be called. The bucket's figures come from limit at its
 * first use; scope NULL is "". cost <= 0 is 1; a cost above the burst is served from a full bucket.
 */
bool limiter_take(struct limiter *l, const struct spot_limit *limit, const char *scope, int cost,
    bool urgent, struct limit_wait *w);
/* The tokens that w was given are of no use for wait_us, since a wider bucket has none: they go
 * back, w is the first of its class again, and nobody else is let through before that. */
void limiter_put_back(struct limiter *l, const struct spot_limit *limit, const char *scope,
    int cost, bool urgent, int64_t wait_us, struct limit_wait *w);
void limiter_cancel(struct limit_wait *w); /* idempotent */
/* The vendor said "too fast": the bucket is emptied, and shut for the time it asked for. */
void limiter_throttled(struct limiter *l, const struct spot_limit *limit, const char *scope,
    int64_t retry_after_us);

/* ---- runs ------------------------------------------------------------------------------------ */

enum run_place {
	RUN_NEW = 1, /* about to enter its step, or in it */
	RUN_AUTH, /* on p->auth_waiters */
	RUN_LIMIT, /* in a local bucket's queue */
	RUN_SHARED, /* has the tokens of its own bucket, asked the account-wide one */
	RUN_DELAY, /* backing off */
	RUN_SENT, /* a request is out */
	RUN_OVER,
};

struct call_share;
struct run {
	TAILQ_ENTRY(run) link, auth_link;
	struct call_provider *p;
	struct call *call; /* NULL: the provider's auth flight */
	struct spot_call *c; /* call->c or own */
	struct spot_call own;
	struct arena *arena, *own_arena;
	const char *verb;
	enum run_place place;
	bool urgent, launch;
	bool reauthed; /* REAUTH is granted once */
	bool authed; /* a flight was awaited: the next step does not ask for another */
	bool granted; /* tokens are taken for the request that is being built again */
	/* a mutating request is out without a definite answer; and as it was before the last
	 * request */
	bool doubt, doubt_before;
	bool acted; /* a mutating request was answered, not refused, and the step went on */
	bool doubted; /* call.doubted */
	int at_before; /* c->at on entry to the step that built the request */
	int tries, tries_max; /* of the request at hand */
	int steps, sent;
	int64_t timeout_us, began_us, sent_us, waits_since_us; /* mono */
	uint64_t auth_gen; /* credentials the last request was signed with */
	struct spot_err last; /* why the last try failed */
	struct http_req http;
	struct spot_http_response file; /* reply of SPOT_READ */
	struct limit_wait wait;
	const struct spot_limit *taking; /* the limit whose tokens are waited for */
	struct call_share *share;
	struct loop_timer timer, deadline;
	struct loop_task kick;
};
TAILQ_HEAD(run_list, run);

/* A question to the account-wide bucket; outlives the run that asked. */
struct call_share {
	struct run *run; /* NULL: its call ended meanwhile */
};

struct call_provider {
	struct loop *loop;
	struct http_client *http;
	const struct spot_provider_ops *ops;
	void *self;
	char *name;
	struct call_shared *shared;
	struct limiter *limiter;
	struct run_list runs, auth_waiters;
	struct run *auth; /* the flight, NULL = none */
	uint64_t auth_gen;
	/* by the Date of the newest reply: its clock less ours; when (mono; 0: none told) */
	int64_t told_off_us, told_at_us;
	int64_t clock_us; /* wall clock minus mono, as it was last looked at */
	bool auth_owed; /* the clock was set since its credentials were renewed whole */
	bool auth_whole; /* the flight renews what was fresh: all of it */
	char **secrets; /* registered by us for redaction */
	size_t secrets_n;
	int shares;
	bool closed;
	struct call_stats stats;
};

/* call.c */
struct run *run_new(struct call_provider *p, const char *verb, int64_t timeout_us, int tries_max);
void run_start(struct run *r);
void run_forget(struct run *r); /* no callback, no verdict */
void run_resume(struct run *r); /* enter the step with c->in as it is */
void run_end(struct run *r, enum spot_rc rc, const struct spot_err *err);
bool run_may_have_acted(const struct run *r);
void run_end_text(struct run *r, enum spot_rc rc, const char *text); /* in doubt: UNKNOWN */
void run_answered(struct op *op); /* done of run.http */
void run_streamed(struct http_req *req); /* more of a streamed reply is there */
/* call_send.c */
const struct spot_limit *run_limit(const struct run *r); /* NULL = none */
void run_take(struct run *r); /* c->out, once the rate limit lets it */
void run_send(struct run *r); /* now */
void run_granted(struct limit_wait *w);
void run_log_request(const struct run *r, enum spot_rc rc);
/* call_auth.c: the provider instance and its credentials */
bool auth_needed(struct run *r);
void auth_wait(struct run *r);
void auth_done(struct call_provider *p, enum spot_rc rc, const struct spot_err *err);
void provider_free_if_idle(struct call_provider *p);
/* call_read.c. OK: ret has status 200 (bytes, NUL behind), 404 or 403. Otherwise CONFIG. */
enum spot_rc call_read_file(const char *path, struct arena *arena, struct spot_http_response *ret,
    struct spot_err *err);

#endif
