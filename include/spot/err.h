/*
 * Result codes of the whole program. A code says what the caller may do; struct spot_err
 * carries the words for a person. Functions that can fail return enum spot_rc and take
 * struct spot_err *err last; on failure they leave their ret_ arguments untouched.
 */
#ifndef SPOT_ERR_H
#define SPOT_ERR_H

#include <stdint.h>

/* The actions that a failure leaves to the caller. */
enum spot_act {
	SPOT_ACT_NONE = 0, /* nothing failed */
	SPOT_ACT_NEVER, /* do not repeat: the request itself is wrong or not permitted */
	SPOT_ACT_LATER, /* the same request may succeed later */
	SPOT_ACT_ELSEWHERE, /* try another pool */
	SPOT_ACT_ASK_FIRST, /* it may have happened: look it up before repeating */
};

/* name, wire name (stable, in REST "code"), HTTP status, what the caller may do */
#define SPOT_RC_LIST(X) \
	X(OK, "ok", 200, NONE) \
	X(INVALID, "invalid", 400, NEVER) /* malformed or out of range: say where */ \
	X(UNAUTHENTICATED, "unauthenticated", 401, NEVER) /* no or wrong credentials */ \
	X(DENIED, "denied", 403, NEVER) /* authenticated, not permitted */ \
	X(NOT_FOUND, "not_found", 404, NEVER) \
	X(CONFLICT, "conflict", 409, NEVER) /* another writer was first: re-read */ \
	X(STALE_EPOCH, "stale_epoch", 409, NEVER) /* report of an old attempt: refused */ \
	X(GONE, "gone", 410, NEVER) /* existed, does not any more */ \
	X(TOO_LARGE, "too_large", 413, NEVER) \
	X(MISMATCH, "mismatch", 409, NEVER) /* token reused with other parameters */ \
	X(NO_CAPACITY, "no_capacity", 409, ELSEWHERE) /* this pool is empty now */ \
	X(NOT_OFFERED, "not_offered", 409, ELSEWHERE) /* type is not sold in that pool */ \
	X(PRICE_CAP, "price_cap", 409, ELSEWHERE) /* our cap is below the price */ \
	X(QUOTA, "quota", 409, ELSEWHERE) /* account limit of a class in a region */ \
	X(THROTTLED, "throttled", 429, LATER) \
	X(UNAVAILABLE, "unavailable", 503, LATER) /* far side broken or unreachable, no effect */ \
	X(TIMEOUT, "timeout", 504, LATER) /* our deadline passed, no effect possible */ \
	X(UNKNOWN, "unknown", 502, ASK_FIRST) /* it may have happened */ \
	X(BAD_REPLY, "bad_reply", 502, LATER) /* reply does not parse */ \
	X(CONFIG, "config", 500, NEVER) /* operator must fix configuration */ \
	X(CANCELLED, "cancelled", 499, NEVER) /* stopped by ourselves */ \
	X(INTERNAL, "internal", 500, LATER)

enum spot_rc {
#define X(name, wire, http, act) SPOT_##name,
	SPOT_RC_LIST(X)
#undef X
	    SPOT_RC_COUNT
};

/* How far a refusal reaches, if the far side reports more than its code does: the engine does not
 * try that much for a while. */
enum spot_scope {
	SPOT_SCOPE_NONE = 0, /* not given: by the code */
	SPOT_SCOPE_POOL, /* this type in this zone and market */
	SPOT_SCOPE_TYPE, /* this type and market in all zones of the region */
	SPOT_SCOPE_ZONE, /* everything in the zone */
	SPOT_SCOPE_CLASS, /* the market of the quota class in the region */
	SPOT_SCOPE_REGION, /* everything in the region */
	SPOT_SCOPE_MARKET, /* the market in every region */
	SPOT_SCOPE_PROVIDER, /* everything; of a quota: types with as many GPUs or more */
};

struct spot_err {
	enum spot_rc rc;
	int64_t retry_after_us; /* 0 = not given */
	char code[64]; /* the far side's own code, such as InsufficientInstanceCapacity */
	char text[400];
	enum spot_scope scope; /* of a refused launch */
};

const char *spot_rc_name(enum spot_rc rc); /* wire name */
int spot_rc_http(enum spot_rc rc); /* HTTP status of our own API */
enum spot_act spot_rc_act(enum spot_rc rc);

#endif
