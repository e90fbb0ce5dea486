/*
 * The provider contract. A provider is a const table of step functions. It does no I/O, reads no
 * clock, opens no socket or file and logs nothing. A step turns what arrived (c->in) into the next
 * request (c->out) or a verdict. The core owns sockets, deadlines, retries, rate limits, the
 * lifetime of credentials and redaction. So a provider is tested as text in, text out.
 *
 * The core enters a step function with c->at == 0 and c->in == NULL. The step keeps its place in
 * c->at and anything else in c->state (arena memory). Everything reachable from results lives in
 * c->arena, which outlives the call's completion callback.
 *
 * How to write one: providers/README.md. ABI rule: adding members at the end raises `size` only;
 * any other change raises SPOT_PROVIDER_ABI.
 */
#ifndef SPOT_PROVIDER_H
#define SPOT_PROVIDER_H

#include "spot/err.h"
#include "spot/http.h"
#include "spot/types.h"

#define SPOT_PROVIDER_ABI 2

struct arena;

enum spot_step {
	SPOT_STEP_NONE = 0,
	SPOT_SEND, /* c->out is an HTTP request; the step is entered again with c->in set */
	/* c->path names a file. c->in->status is 200, 404 (absent) or 403; the body is at most 256
	 * KiB */
	SPOT_READ,
	/* The last request met throttling or a passing fault. The core waits, by
	 * c->err.retry_after_us or its own backoff with jitter, and enters the step again. Then
	 * c->in == NULL, and c->at is as it was on entry to the step that built the request. A step
	 * that builds a request from a reply must be able to build it again without that reply. The
	 * core gives up after its limit, with c->err. Not allowed after a request with c->mutating,
	 * unless the provider's token makes the repeat harmless. */
	SPOT_AGAIN,
	/* The vendor refused the credentials as expired. The core runs `auth`, then the step as
	 * after AGAIN, once per call */
	SPOT_REAUTH,
	SPOT_DONE,
	SPOT_FAIL, /* c->err is filled (call_fail) */
	/* Only with c->in->partial: nothing is decided yet, read on. The core enters the step again
	 * with the next whole lines in c->in->body, without those already handed over. At the end
	 * of the reply partial is false and the body holds the rest, maybe nothing. Any other
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
	/* index into ops->limits: the bucket of the request */
	int limit;
	int limit_cost; /* tokens, 0 = 1 */
	const char *limit_scope; /* region or ""; one bucket per (limit, scope) */
	/* The request may create, change or end something. A lost reply then ends the call with
	 * SPOT_UNKNOWN */
	bool mutating;
	struct spot_err err;
	/* 1 + index of a second bucket that the request also draws from, in the same scope, and its
	 * tokens (0 = 1). For vendors that count the machines of a request beside the requests.
	 * 0 = none; so the core sets it before each step */
	int limit_also, limit_also_cost;
};

/* ---- verbs' arguments and results ------------------------------------------------------------ */

struct spot_regions {
	const char **names;
	size_t n;
}; /* result */

struct spot_pools {
	/* "" = all regions (SPOT_CAP_ALL_REGIONS) */
	const char *region;
	struct spot_pool_info *pools;
	size_t n;
};
struct spot_prices {
	const char *region;
	enum spot_market market; /* SPOT_MARKET_NONE = all that the provider has */
	/* return changes after this; 0 = current prices only */
	int64_t since_us;
	const struct spot_pool_info *pools;
	size_t pools_n; /* known pools of that region */
	struct spot_price_point *points;
	size_t n;
	/* return changes after since_us only, not current prices (SPOT_CAP_PAST_APART) */
	bool past;
};
/* A `signals` call returns a full snapshot of the region. Capacity it does not report is reset to
 * unknown. */
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
	/* at most 64 characters; holds installation and attempt */
	const char *name;
	const char *install; /* value of the installation tag */
	const struct spot_tag *tags;
	size_t tags_n;
	struct str user_data; /* raw text, not base64 */
	int64_t price_cap_micros; /* 0 = none */
	/* results */
	struct spot_instance instance;
	/* argument: the audience of the machine's identity proofs (our public URL); NULL = not
	 * given */
	const char *audience;
	/* argument: the name of a group, the same for all machines that are to be close to each
	 * other, over all launches; NULL = anywhere. At most 63 characters [a-z0-9-]. The provider
	 * makes the group if it is not there. An empty one is a leftover of `list`. Ignored without
	 * SPOT_CAP_TOGETHER */
	const char *together;
};
/* Finds machines by launch token, and by name where there is no token */
struct spot_find {
	const char *region, *zone, *token, *name, *install;
	struct spot_instance *found;
	size_t n;
};
/* Lists everything with our installation tag, ended machines too */
struct spot_list {
	const char *region, *install;
	struct spot_instance *found;
	size_t n;
	/* Some places did not answer. Each machine found exists; a machine not found may exist
	 * too */
	bool partial;
};
struct spot_describe {
	const char *region;
	const char *const *refs;
	size_t refs_n;
	struct spot_instance *found;
	size_t n; /* unknown refs are absent */
/* raw_state of a GONE machine that this answer lacks, with other evidence of its end in end_cause
 * and raw_reason. One answer without the machine is no proof */
#define SPOT_ABSENT_STATE "absent"
	/* of each ref, its pool; NULL = not given */
	const struct spot_pool_key *keys;
	/* our installation tag; NULL = not given */
	const char *install;
	/* Result, of each ref: true = the call did not look at it, so its absence from `found`
	 * means nothing. NULL = it looked at all */
	const bool *untold;
	/* Result: each ref was read by itself, by a read that does not lag. A machine that ran
	 * before and is absent now has ended */
	bool exact;
};
struct spot_terminate {
	const char *region, *zone;
	/* One instance per call: a bad id must not fail others */
	const char *ref;
	const char *spot_request;
	/* Result: the state by the reply; GONE with raw_state if the id is unknown */
	struct spot_instance after;
/* This: an unknown id, which proves nothing within the list lag of its launch. SPOT_ABSENT_STATE: a
 * list lacks it, which alone proves nothing */
#define SPOT_NOT_FOUND_STATE "not-found"
	/* Result: it was gone before this call. Its description says who ended it, and so who
	 * pays */
	bool was_gone;
};
struct spot_notices { /* Returns the control plane's notices for these instances */
	const char *region;
	const struct spot_instance *instances;
	size_t instances_n;
	struct spot_notice *notices;
	size_t n;
};
/* How the agent uploads an object (include/spot/agent.h, "how") */
enum spot_upload {
	SPOT_UPLOAD_PUT = 0, /* one PUT of all bytes */
	/* GCS: POST url gives the session in Location. PUT pieces there with Content-Range; 308
	 * gives the bytes received */
	SPOT_UPLOAD_RESUMABLE,
	/* Azure: PUT url&comp=block&blockid=..., then PUT url&comp=blocklist */
	SPOT_UPLOAD_BLOCKS,
};

/* Presigns an object-store request for a node without keys. Pure: sends no request */
struct spot_presign {
	const char *method; /* GET, PUT, POST, DELETE */
	const char *endpoint; /* "" = the vendor's */
	const char *region, *bucket, *key;
	/* extra query, encoded; "" = none ("uploads=") */
	const char *query;
	int64_t expires_s;
	const char *url; /* result */
	/* Results: headers that the node must send, and how it uploads the bytes of a PUT */
	struct spot_header headers[4];
	size_t headers_n;
	enum spot_upload upload; /* 0 = UPLOAD_PUT */
	/* Result: the store honours the URL until this time by our clock, because the signing key
	 * expires; 0 = for expires_s */
	int64_t until_us;
};

/* Launches several equal machines of one pool in one zone by one call, under one token. Makes as
 * many as possible, but none if fewer than `least` can be had.
 *
 * - A gang has least = want: all or none. Optional: otherwise the engine makes n launches and gives
 *   back the machines if one fails.
 * - A set has least = 1, for machines that do not need one another. Only where ops->set_most allows
 *   it: a provider that does not know `least` gives all or none.
 *
 * All machines have the same token, user data and tags. Which of them is which node is told by its
 * ref: the engine gives the machines to the rows in the order of their refs. So a set needs a
 * provider that verifies a machine by its ref. */
struct spot_launch_gang {
	struct spot_launch common; /* name is a prefix; user_data is the same for all */
	size_t want;
	/* Result: `least` to `want` machines in their present state. DONE with fewer than `want`:
	 * the others were not made, unless an earlier request under the token may have had its
	 * effect. The reply to such a repeat may lack machines that ended; the engine looks them
	 * up */
	struct spot_instance *instances;
	size_t instances_n;
	size_t least; /* argument: 1 to want; 0 = want */
};
/* Checks whether the caller of an enrolment is the machine that we launched. Its agent sent the
 * proof, a JSON object with "kind" (include/spot/agent.h lists them). DONE: it is. FAIL with
 * SPOT_DENIED and no vendor code: it is not, or the proof is forged, stale or for another audience.
 * A vendor code means a refusal of our own request. FAIL with SPOT_CONFIG: we cannot check, or only
 * the time is wrong, which may be our clock. The engine then checks again. */
struct spot_verify {
	const char *region, *zone, *ref, *name;
	struct str proof;
	/* the audience that the proof must have: our public URL */
	const char *audience;
	const char *nonce; /* ten digits, derived from the one-time token (agent.h) */
};
/* Long poll for news of machines with our tag: a stream of changes or a queue of events. Ends with
 * the first news or after hold_us. The engine calls it again at once. FAIL with SPOT_NOT_OFFERED:
 * nothing is configured for this place */
struct spot_watch {
	const char *region, *install;
	const char *cursor; /* next_cursor of the last call; "" = begin now */
	int64_t hold_us;
	/* results */
	struct spot_notice *notices;
	size_t notices_n;
	struct spot_instance *seen;
	size_t seen_n; /* changed machines; the others did not change */
	const char *next_cursor;
	/* Events before now may be lost: list everything once */
	bool gap;
};
/* Checks a configuration before use (spotctl doctor): one item per permission, quota, clock, store.
 * Creates and ends nothing; uses dry runs where the cloud has them */
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
	const char *words; /* the finding */
	const char *fix; /* the remedy; "" when OK */
};
struct spot_check {
	const char *region;
	/* pools in use: the check looks at quotas for them */
	const struct spot_pool_info *pools;
	size_t pools_n;
	struct spot_check_item *items;
	size_t n;
	/* argument: our installation tag, which policies may require; NULL = not given */
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
/* one call with region "" answers for every region */
#define SPOT_CAP_ALL_REGIONS (1u << 9)
/* a machine that ended by itself leaves something (an order for its successor, its resource group)
 * until ->terminate */
#define SPOT_CAP_LEAVES (1u << 10)
/* spot prices are list prices that stand for weeks: an unchanged price is no sign of a dead feed */
#define SPOT_CAP_PRICE_STEADY (1u << 11)
/* price history costs a request for each type: the engine asks for it apart from current prices
 * (spot_prices.past), a few types at a time */
#define SPOT_CAP_PAST_APART (1u << 12)

/* launches honour spot_launch.together */
#define SPOT_CAP_TOGETHER (1u << 13)

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
	/* 1 + index of a wider limit that the same request also draws from; 0 = none. No cycles */
	int within;
};

/* Settings of a provider instance. Values, functions and ctx stay valid while the provider is open.
 * A provider looks up settings that name a zone (they have a dot) when it knows the zone. It reads
 * all others in open(): the core refuses a key that nobody read by then */
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
	int64_t token_life_us; /* the vendor remembers a used token at least this long */
	int64_t list_lag_us; /* absence from a list proves nothing before this */
	int64_t launch_timeout_us;
	const struct spot_limit *limits;
	size_t limits_n;

	/* required */
	enum spot_rc (
	    *open)(const struct spot_provider_conf *conf, void **ret_self, struct spot_err *err);
	void (*close)(void *self); /* NULL accepted; wipes secrets */
	/* false: the core runs auth before the next call */
	bool (*auth_fresh)(const void *self, int64_t now_us);
	/* The only step that may change self, apart from clock-skew correction. Called while fresh:
	 * the vendor refused the credentials, or our clock was set. It then renews everything */
	enum spot_step (*auth)(void *self, struct spot_call *c);
	/* Fills ret with every secret string held, for redaction of logs. Returns the count, at
	 * most n */
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
	/* A machine may take this long from the launch's reply to the first poll of its agent. 0,
	 * or less than the daemon's boot_timeout: that one */
	int64_t boot_timeout_us;
	/* The vendor does not bill a spot machine that it reclaims before this age; 0 = it bills
	 * every second */
	int64_t reclaim_free_us;
	/* launch_gang takes sets of up to this many machines; 0 = it takes none */
	int32_t set_most;
	/* 1 + index of the bucket from which a launch draws one token per machine, in the scope of
	 * its region; 0 = none. The engine makes no set larger than the tokens that are there */
	int32_t set_limit;
	/* 1 + index of the bucket of launch_gang, in the scope "", where the vendor limits it more
	 * than single launches; 0 = they have the same. While it is empty, the engine launches the
	 * nodes of small sets one by one */
	int32_t set_calls;
};

/* A shared object exports exactly this symbol; the loader checks abi and size. */
#define SPOT_PROVIDER_SYMBOL "spot_provider"

#endif
