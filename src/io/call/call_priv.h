/*
 * Inside of io/call: the provider instance, the run of a verb, and the rate limits.
 *
 * - call.c runs the steps
 * - call_auth.c renews credentials, once for all runs that wait
 * - call_send.c sends a request
 * - call_read.c reads files for SPOT_READ
 * - call_limit.c keeps the token buckets
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
 * Token buckets of one provider instance, one per (limit, scope), in process. A request waits in a
 * queue while its bucket is empty. Urgent requests (terminate) come first, each class in order of
 * arrival. Nothing here fails.
 */
struct limiter;
struct limit_bucket;
struct limit_wait { /* embedded in the waiting request */
	TAILQ_ENTRY(limit_wait) link;
	struct limit_bucket *bucket; /* NULL = not queued */
	double cost;
	bool urgent;
	void (*go)(struct limit_wait *w); /* the limiter has taken the tokens; runs in the loop */
};

struct limiter *limiter_new(struct loop *l);
/* Multiplies all limits; 0 = none holds. */
void limiter_scale(struct limiter *l, double factor);
/* The tokens that a request of the normal class may take now; CALL_ROOM_FREE without a limit. */
double limiter_room(struct limiter *l, const struct spot_limit *limit, const char *scope);
/* The limit as this provider instance holds it. */
struct spot_limit limiter_scaled(const struct limiter *l, const struct spot_limit *limit);
/* False: no bucket holds a request back here. */
bool limiter_holds(const struct limiter *l, const struct spot_limit *limit);
void limiter_free(struct limiter *l); /* NULL accepted; its queues must be empty */
/*
 * Takes tokens now (true), or queues w and later calls w->go (false). A scope of NULL is "", a cost
 * of 0 or less is 1. A cost above the burst needs a full bucket.
 */
bool limiter_take(struct limiter *l, const struct spot_limit *limit, const char *scope, int cost,
    bool urgent, struct limit_wait *w);
/* Returns the tokens of w, because a wider bucket is empty for wait_us. Puts w first in its class
 * again and shuts the bucket for wait_us. */
void limiter_put_back(struct limiter *l, const struct spot_limit *limit, const char *scope,
    int cost, bool urgent, int64_t wait_us, struct limit_wait *w);
void limiter_cancel(struct limit_wait *w); /* idempotent */
/* Empties the bucket and shuts it for retry_after_us, after the vendor throttled us. */
void limiter_throttled(struct limiter *l, const struct spot_limit *limit, const char *scope,
    int64_t retry_after_us);

/* ---- runs ------------------------------------------------------------------------------------ */

enum run_place {
	RUN_NEW = 1, /* about to enter its step, or inside it */
	RUN_AUTH, /* on p->auth_waiters */
	RUN_LIMIT, /* in a local bucket's queue */
	RUN_SHARED, /* has local tokens, waits for the account-wide bucket */
	RUN_DELAY, /* backing off */
	RUN_SENT, /* a request is under way */
	RUN_OVER,
};

struct call_share;
struct run {
	TAILQ_ENTRY(run) link, auth_link;
	struct call_provider *p;
	struct call *call; /* NULL: the renewal of the provider's credentials */
	struct spot_call *c; /* &call->c or &own */
	struct spot_call own;
	struct arena *arena, *own_arena;
	const char *verb;
	enum run_place place;
	bool urgent, launch;
	bool reauthed; /* it has used its one REAUTH */
	bool authed; /* it has waited for a renewal: the next step needs no other */
	bool granted; /* it holds the tokens for the request that the step builds again */
	bool doubt; /* a mutating request has no definite answer */
	bool doubt_before; /* doubt, before the last request */
	bool acted; /* the vendor accepted a mutating request, and the step went on */
	bool doubted; /* for call.doubted */
	int at_before; /* c->at on entry to the step that built the request */
	int tries, tries_max; /* of the current request */
	int steps, sent;
	int64_t timeout_us, began_us, sent_us, waits_since_us; /* mono */
	uint64_t auth_gen; /* generation of the credentials in the last request */
	struct spot_err last; /* error of the last try */
	struct http_req http;
	struct spot_http_response file; /* reply of SPOT_READ */
	struct limit_wait wait;
	const struct spot_limit *taking; /* the limit that the run takes tokens of */
	bool also; /* it has those of c->limit, and takes those of c->limit_also */
	bool
	    also_kept; /* those of c->limit_also that a throttled request took serve the next try */
	struct call_share *share;
	struct loop_timer timer, deadline;
	struct loop_task kick;
};
TAILQ_HEAD(run_list, run);

/* A request to the account-wide bucket; may outlive its run. */
struct call_share {
	struct run *run; /* NULL: its call has ended */
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
	struct run *auth; /* the renewal under way, NULL = none */
	uint64_t auth_gen;
	int64_t told_off_us; /* by the Date of the newest reply: the vendor's clock minus ours */
	int64_t told_at_us; /* when that reply came (mono); 0 = no reply had a Date */
	int64_t clock_us; /* wall clock minus mono, when last read */
	bool auth_owed; /* the clock has stepped since the last renewal of all credentials */
	bool auth_whole; /* the renewal began with fresh credentials, so it renews all of them */
	char **secrets; /* values that we registered for redaction */
	size_t secrets_n;
	int shares;
	bool closed;
	struct call_stats stats;
};

/* call.c */
struct run *run_new(struct call_provider *p, const char *verb, int64_t timeout_us, int tries_max);
void run_start(struct run *r);
void run_forget(struct run *r); /* no callback, no verdict */
void run_resume(struct run *r); /* enters the step with c->in unchanged */
void run_end(struct run *r, enum spot_rc rc, const struct spot_err *err);
bool run_may_have_acted(const struct run *r);
void run_end_text(struct run *r, enum spot_rc rc, const char *text); /* UNKNOWN if in doubt */
void run_answered(struct op *op); /* done of run.http */
void run_streamed(struct http_req *req); /* more lines of a streamed reply came */
/* call_send.c */
const struct spot_limit *run_limit(const struct run *r); /* NULL = none */
void run_take(struct run *r); /* sends c->out once the rate limits allow it */
void run_send(struct run *r); /* sends c->out now */
void run_granted(struct limit_wait *w);
void run_log_request(const struct run *r, enum spot_rc rc);
/* call_auth.c: the provider instance and its credentials */
bool auth_needed(struct run *r);
void auth_wait(struct run *r);
void auth_done(struct call_provider *p, enum spot_rc rc, const struct spot_err *err);
void provider_free_if_idle(struct call_provider *p);
/* call_read.c. OK: *ret has status 200 and the bytes with a NUL, or 404, or 403. Else CONFIG. */
enum spot_rc call_read_file(const char *path, struct arena *arena, struct spot_http_response *ret,
    struct spot_err *err);

#endif
