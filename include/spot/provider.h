/*
 * The provider contract. A provider is a const table of step functions. It does no I/O, reads
 * no clock, opens no socket or file and logs nothing: a step turns what arrived (c->in) into
 * the next request (c->out) or a verdict. The core owns sockets, deadlines, retries, rate
 * limits, credentials' lifetime and redaction. So a provider is tested as text in, text out.
 *
 * A step function is entered with c->at == 0 and c->in == NULL; it keeps its place in c->at and
 * anything else in c->state (arena memory). Everything reachable from results lives in c->arena,
 * which outlives the call's completion callback.
 *
 * How to write one: providers/README.md. ABI rule: adding members at the end raises `size` only;
 * any other change raises SPOT_PROVIDER_ABI.
 */
#ifndef SPOT_PROVIDER_H
#define SPOT_PROVIDER_H

#include "spot/err.h"
#include "spot/http.h"
#include "spot/types.h"

#define SPOT_PROVIDER_ABI 1

struct arena;

enum spot_step {
	SPOT_STEP_NONE = 0,
	SPOT_SEND, /* c->out is an HTTP request; the step is entered again with c->in set */
	/* c->path names a file; c->in->status is 200 or 404 (absent) or 403, body = bytes (at
	 * most 256 KiB) */
	SPOT_READ,
	/* the last request met throttling or a passing fault: the core waits (c->err's
	 * retry_after_us or its own backoff with jitter) and enters the step again with c->at as
	 * it was on entry to the step that built the request, and c->in == NULL (so a step that
	 * builds the next request out of a reply must be able to build it again without that
	 * reply). The core gives up after its limit with c->err. Not allowed after a request
	 * with c->mutating set unless the provider's token makes the repeat harmless. */
	SPOT_AGAIN,
	/* credentials were refused as expired: the core runs `auth`, then the step as AGAIN
	 * (once per call) */
	SPOT_REAUTH,
	SPOT_DONE,
	SPOT_FAIL, /* c->err is filled (call_fail) */
	/* only when c->in->partial: nothing decided yet, read on. The step is entered again with
	 * the next whole lines in c->in->body (what was handed over before is not repeated), and
	 * at the end of the reply with partial false and the rest (maybe nothing). Any other
	 * verdict ends the request, wherever the reply is. */
	SPOT_MORE,
};

/* One call of one verb. Owned by the core; arguments and results are the verb's struct. */
struct spot_call {
	int at;
	void *state;
	struct arena *arena;
	int64_t now_us; /* wall clock at this step */
	uint64_t rnd; /* fresh random bits at this step */
	const struct spot_http_response *in; /* NULL on entry and after AGAIN */
	struct spot_http_request out;
	const char *path; /* for SPOT_READ */
	/* index into ops->limits that the request draws from */
	int limit;
	int limit_cost; /* tokens, 0 = 1 */
	const char *limit_scope; /* region or ""; one bucket per (limit, scope) */
	/* the request may create, change or end something: a lost reply makes the call end with
	 * SPOT_UNKNOWN */
	bool mutating;
	struct spot_err err;
};

/* ---- verbs' arguments and results ------------------------------------------------------------ */

struct spot_regions {
	const char **names;
	size_t n;
}; /* result */

struct spot_pools {
	/* "" = all at once (providers without regional calls) */
	const char *region;
	struct spot_pool_info *pools;
	size_t n;
};
struct spot_prices {
	const char *region;
	enum spot_market market; /* SPOT_MARKET_NONE = all that the provider has */
	/* incremental feeds: changes after this; 0 = current only */
	int64_t since_us;
	const struct spot_pool_info *pools;
	size_t pools_n; /* known pools of that region */
	struct spot_price_point *points;
	size_t n;
	/* changes after since_us only, not what is in force (SPOT_CAP_PAST_APART) */
	bool past;
};
/* All that is to be told of the region at once: capacity of which a call tells nothing is not known
 * any more. */
struct spot_signals {
	const char *region;
	const struct spot_pool_info *pools;
	size_t pools_n;
	struct spot_signal *signals;
	size_t n;
};
struct spot_quotas {
	const char *region;
	struct spot_quota *quotas;
	size_t n;
};
struct spot_tag {
	const char *key, *value;
};
struct spot_launch {
	struct spot_pool_key key;
	const char *zone_name;
	struct spot_shape shape;
	const char *token; /* idempotency token, <= 64 [A-Za-z0-9.-] characters */
	/* <= 64, self-sufficient: holds installation and attempt */
	const char *name;
	const char *install; /* value of the installation tag */
	const struct spot_tag *tags;
	size_t tags_n;
	struct str user_data; /* raw text, not base64 */
	int64_t price_cap_micros; /* 0 = none */
	/* results */
	struct spot_instance instance;
	/* argument, added later: whom the machine's proofs of identity are made for (our public
	 * URL); NULL = not said */
	const char *audience;
};
/* by launch token; also sweeps by name where there is no token */
struct spot_find {
	const char *region, *zone, *token, *name, *install;
	struct spot_instance *found;
	size_t n;
};
/* everything that carries our installation tag, also ended */
struct spot_list {
	const char *region, *install;
	struct spot_instance *found;
	size_t n;
	/* some places did not answer: what is found is true, what is not proves nothing */
	bool partial;
};
struct spot_describe {
	const char *region;
	const char *const *refs;
	size_t refs_n;
	struct spot_instance *found;
	size_t n; /* unknown refs are absent */
/* raw_state of a GONE one that the answer lacks, where end_cause and raw_reason say what else is
 * known of its end: one answer that lacks it is no proof */
#define SPOT_ABSENT_STATE "absent"
	/* of each ref, where it was launched; NULL: not told */
	const struct spot_pool_key *keys;
	/* our installation tag, which they carry; NULL = not said */
	const char *install;
	/* one more result: of each ref, true = it was not looked at this time, and that it is not
	 * among the found says nothing; NULL = all were */
	const bool *untold;
};
struct spot_terminate {
	const char *region, *zone;
	/* one instance per call: a bad id must not fail others */
	const char *ref;
	const char *spot_request;
	/* state as the reply tells; GONE if the id is unknown, with raw_state */
	struct spot_instance after;
/* this: an unknown id proves nothing within the list lag of its launch; or SPOT_ABSENT_STATE: a
 * list that was looked into lacks it, which proves nothing alone */
#define SPOT_NOT_FOUND_STATE "not-found"
	/* before this call: who ended it, and so who pays, its description tells */
	bool was_gone;
};
struct spot_notices { /* what the control plane says about these instances */
	const char *region;
	const struct spot_instance *instances;
	size_t instances_n;
	struct spot_notice *notices;
	size_t n;
};
/* How an object gets to its store (include/spot/agent.h, "how"). */
enum spot_upload {
	SPOT_UPLOAD_PUT = 0, /* one PUT of all bytes */
	/* GCS: POST url -> Location: session; PUT pieces with Content-Range there, 308 tells how
	 * far it got */
	SPOT_UPLOAD_RESUMABLE,
	/* Azure: PUT url&comp=block&blockid=..., then PUT url&comp=blocklist */
	SPOT_UPLOAD_BLOCKS,
};

/* A presigned object-store request for a node without keys. Pure: no request is sent. */
struct spot_presign {
	const char *method; /* GET, PUT, POST, DELETE */
	const char *endpoint; /* "" = the vendor's */
	const char *region, *bucket, *key;
	/* already encoded extra query, "" = none ("uploads=") */
	const char *query;
	int64_t expires_s;
	const char *url; /* result */
	/* more results: what a node must send along, and how the bytes of a PUT get there */
	struct spot_header headers[4];
	size_t headers_n;
	enum spot_upload upload; /* 0 = UPLOAD_PUT */
	/* the store honours it no longer than until then, by our clock, since what it is signed
	 * with ends; 0 = as long as was asked for */
	int64_t until_us;
};

/* Several machines of one pool in one zone at once, all or none. Optional; the engine's other way
 * is n launches and giving back what came if one failed. */
struct spot_launch_gang {
	struct spot_launch common; /* name is a prefix; user_data is the same for all */
	size_t want;
	/* result: want of them, as they are now: a repeat under the same token may find some
	 * ended */
	struct spot_instance *instances;
	size_t instances_n;
};
/* Is the caller of an enrolment the machine that we launched? proof is what its agent sent: a JSON
 * object with "kind" (include/spot/agent.h lists them). DONE: it proves to be that machine. FAIL
 * with SPOT_DENIED: it is not, or the proof is forged, stale or of another audience (without a
 * vendor code: one with a code is taken for a refusal of our own request); with SPOT_CONFIG: we
 * lack what it takes to check, or it is good in all but its time, and it may be our clock that is
 * wrong: it is judged again. */
struct spot_verify {
	const char *region, *zone, *ref, *name;
	struct str proof;
	/* what the proof must have been made for: our public URL */
	const char *audience;
	const char *nonce; /* ten digits made from the one-time token (agent.h) */
};
/* A long poll for what the provider tells by itself about machines with our tag: a stream of
 * changes, a queue of events. Ends with the first news or after hold_us. The engine calls it again
 * at once. FAIL with SPOT_NOT_OFFERED: nothing of the kind is configured for this place. */
struct spot_watch {
	const char *region, *install;
	const char *cursor; /* next_cursor of the last call; "" = begin now */
	int64_t hold_us;
	/* results */
	struct spot_notice *notices;
	size_t notices_n;
	struct spot_instance *seen;
	size_t seen_n; /* changed; what is absent did not change */
	const char *next_cursor;
	/* what happened before now is not known: list everything once */
	bool gap;
};
/* What an operator wants to know before trusting a configuration (spotctl doctor): one item per
 * permission, quota, clock, store. Nothing is created or ended; where the cloud has dry runs they
 * are used. */
enum spot_check_state {
	SPOT_CHECK_NONE = 0,
	SPOT_CHECK_OK,
	SPOT_CHECK_WARN,
	SPOT_CHECK_BAD,
	SPOT_CHECK_UNTESTED
};
struct spot_check_item {
	const char *name; /* "launch", "terminate", "clock", "quota G/Spot" */
	enum spot_check_state state;
	const char *words; /* what was seen */
	const char *fix; /* what to do; "" when OK */
};
struct spot_check {
	const char *region;
	/* some that are wanted: quotas are looked at for them */
	const struct spot_pool_info *pools;
	size_t pools_n;
	struct spot_check_item *items;
	size_t n;
	/* argument, added later: our installation tag, which policies may insist on; NULL = not
	 * said */
	const char *install;
};

/* ---- the table ------------------------------------------------------------------------------- */

#define SPOT_CAP_SPOT (1u << 0) /* has a spot market */
#define SPOT_CAP_ZONES (1u << 1)
#define SPOT_CAP_TOKEN (1u << 2) /* launch is idempotent by token */
#define SPOT_CAP_NOTICE_NODE (1u << 3) /* notices reach the node (metadata service) */
#define SPOT_CAP_NOTICE_API (1u << 4) /* ->notices works */
#define SPOT_CAP_PRICE_HISTORY (1u << 5) /* ->prices honours since_us */
#define SPOT_CAP_TAGS (1u << 6) /* tags on create come back in lists */
#define SPOT_CAP_OBJECTS (1u << 7) /* ->presign works */
#define SPOT_CAP_SHUTDOWN_ENDS (1u << 8) /* guest power-off ends billing */
/* one call with region "" answers for every region: polling it region by region would only cost
 * requests */
#define SPOT_CAP_ALL_REGIONS (1u << 9)
/* a machine that ended by itself leaves something (an order for its successor) until ->terminate
 * is called for it */
#define SPOT_CAP_LEAVES (1u << 10)
/* spot prices are list prices that stand for weeks: one that does not move is no sign of a dead
 * feed */
#define SPOT_CAP_PRICE_STEADY (1u << 11)
/* what spot prices were costs a request for each type: asked for apart from what they are
 * (spot_prices.past), a few types at a time */
#define SPOT_CAP_PAST_APART (1u << 12)

enum spot_token_scope {
	SPOT_TOKEN_NONE = 0,
	SPOT_TOKEN_ZONE,
	SPOT_TOKEN_REGION,
	SPOT_TOKEN_GLOBAL
};

struct spot_limit {
	const char *name; /* "RunInstances", "general" */
	double per_second, burst; /* the vendor's published bucket */
	bool shared; /* account-wide over all daemons: held in Postgres */
	/* 1 + index of a wider limit that the same request counts against as well; 0 = none. No
	 * cycles. */
	int within;
};

/* Where a provider instance gets its settings. Values, functions and ctx stay valid while the
 * provider is open: settings that name a zone (they have a dot) are looked up when the zone is
 * known. All others are asked for in open(): a key that nobody asked for by then is refused as a
 * mistake. */
struct spot_provider_conf {
	const char *name; /* instance name, "aws" */
	/* environment snapshot, NULL if unset */
	const char *(*env)(void *ctx, const char *name);
	/* [provider NAME] key = value, NULL */
	const char *(*setting)(void *ctx, const char *key);
	void *ctx;
};

struct spot_provider_ops {
	uint32_t abi, size;
	const char *kind; /* "aws" */
	uint32_t caps;
	enum spot_token_scope token_scope;
	int64_t token_life_us; /* how long a used token is remembered, at least */
	int64_t list_lag_us; /* absence from a list proves nothing before this */
	int64_t launch_timeout_us;
	const struct spot_limit *limits;
	size_t limits_n;

	/* required */
	enum spot_rc (
	    *open)(const struct spot_provider_conf *conf, void **ret_self, struct spot_err *err);
	void (*close)(void *self); /* NULL accepted; wipes secrets */
	/* false: core runs auth before the next call */
	bool (*auth_fresh)(const void *self, int64_t now_us);
	/* the only step that may change self, apart from clock-skew correction. Asked although
	 * fresh: what there is was refused, or our clock was set; all is to be renewed */
	enum spot_step (*auth)(void *self, struct spot_call *c);
	/* Fills ret with every secret string held, for redaction of logs; returns the count (<=
	 * n). */
	size_t (*secrets)(const void *self, const char **ret, size_t n);
	enum spot_step (*regions)(void *self, struct spot_call *c, struct spot_regions *a);
	enum spot_step (*pools)(void *self, struct spot_call *c, struct spot_pools *a);
	enum spot_step (*prices)(void *self, struct spot_call *c, struct spot_prices *a);
	enum spot_step (*launch)(void *self, struct spot_call *c, struct spot_launch *a);
	enum spot_step (*find)(void *self, struct spot_call *c, struct spot_find *a);
	enum spot_step (*list)(void *self, struct spot_call *c, struct spot_list *a);
	enum spot_step (*describe)(void *self, struct spot_call *c, struct spot_describe *a);
	enum spot_step (*terminate)(void *self, struct spot_call *c, struct spot_terminate *a);
	/* optional: NULL = the provider has no such thing */
	enum spot_step (*whoami)(void *self, struct spot_call *c, const char **ret_account);
	enum spot_step (*signals)(void *self, struct spot_call *c, struct spot_signals *a);
	enum spot_step (*quotas)(void *self, struct spot_call *c, struct spot_quotas *a);
	enum spot_step (*notices)(void *self, struct spot_call *c, struct spot_notices *a);
	enum spot_rc (*presign)(void *self, struct arena *arena, int64_t now_us,
	    struct spot_presign *a, struct spot_err *err);
	enum spot_step (*launch_gang)(void *self, struct spot_call *c, struct spot_launch_gang *a);
	enum spot_step (*verify)(void *self, struct spot_call *c, struct spot_verify *a);
	enum spot_step (*watch)(void *self, struct spot_call *c, struct spot_watch *a);
	enum spot_step (*check)(void *self, struct spot_call *c, struct spot_check *a);
	/* machines may take this long from the launch's reply to their agent's first word; 0 or
	 * less than the daemon's boot_timeout = that one */
	int64_t boot_timeout_us;
	/* a spot machine that the vendor takes back before it is this old is not billed at all;
	 * 0 = every second is */
	int64_t reclaim_free_us;
};

/* A shared object exports exactly this symbol; the loader checks abi and size. */
#define SPOT_PROVIDER_SYMBOL "spot_provider"

#endif
