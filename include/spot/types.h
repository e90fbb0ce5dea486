/*
 * Plain data shared by the core, the providers and the agent. Money is int64 micro-dollars,
 * time is int64 microseconds since the Unix epoch (UTC) from an injected clock. Enum value
 * zero means "not set" and is never valid in a row.
 */
#ifndef SPOT_TYPES_H
#define SPOT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOT_US_PER_S INT64_C(1000000)
#define SPOT_US_PER_HOUR INT64_C(3600000000)
#define SPOT_MICROS_PER_USD INT64_C(1000000)

/* A view of bytes owned by somebody else; p == NULL means absent. */
struct str {
	const char *p;
	size_t n;
};

#define SPOT_MARKET_LIST(X) \
	X(SPOT, "spot") \
	X(ON_DEMAND, "on_demand") \
	X(RESERVED, "reserved") \
	/* a reservation whose owner lends it and may reclaim it at any time */ \
	X(INTERRUPTIBLE, "interruptible") \
	/* Google's machines from a queue: one comes late, and its end is known at its start */ \
	X(FLEX_START, "flex_start")
enum spot_market {
	SPOT_MARKET_NONE = 0,
#define X(name, wire) SPOT_MARKET_##name,
	SPOT_MARKET_LIST(X)
#undef X
};
const char *spot_market_name(enum spot_market m); /* "?" for an invalid value */
enum spot_market spot_market_parse(const char *name); /* SPOT_MARKET_NONE if unknown */
/* May its machines be reclaimed at any time? */
static inline bool spot_market_reclaims(enum spot_market m)
{
	return m == SPOT_MARKET_SPOT || m == SPOT_MARKET_INTERRUPTIBLE;
}
/* Do its machines run in a reservation? */
static inline bool spot_market_reserves(enum spot_market m)
{
	return m == SPOT_MARKET_RESERVED || m == SPOT_MARKET_INTERRUPTIBLE;
}
/* Can the end of a machine's capacity be known long before? */
static inline bool spot_market_ends(enum spot_market m)
{
	return spot_market_reserves(m) || m == SPOT_MARKET_FLEX_START;
}

/* The unit that has one price, one supply and one interruption hazard. Zone is the provider's
 * stable zone id ("use1-az4"); empty where the provider has no zones. */
struct spot_pool_key {
	const char *provider; /* provider instance name, "aws" */
	const char *region;
	const char *zone;
	const char *instance_type;
	enum spot_market market;
};

/* Hardware of an instance type. gpu_milli is GPUs x 1000 (fractional types exist) */
struct spot_shape {
	const char *gpu_name; /* normalised: "V100", "A100-80GB", "H100"; "" = no GPU */
	int32_t gpu_milli;
	int32_t gpu_mem_mib; /* usable MiB per whole GPU as the provider reports it, 0 = unknown */
	int32_t vcpus;
	int32_t mem_mib;
	const char *arch; /* "x86_64" | "arm64" | "" unknown */
};

struct spot_pool_info {
	struct spot_pool_key key;
	const char *zone_name; /* account alias such as us-east-1a; "" if none */
	struct spot_shape shape;
	const char *quota_class; /* joins struct spot_quota.class; "" if none */
};

/* A price point and its origin; the origin is stored by name */
struct spot_price_point {
	struct spot_pool_key key;
	int64_t price_micros; /* per instance-hour */
	int64_t effective_us; /* the provider charges it from then on; 0 = not given */
	int64_t observed_us; /* when we read it */
	const char *source; /* "DescribeSpotPriceHistory", "GetProducts", ... */
};

/* An interruption or capacity signal as the provider publishes it. zone and instance_type may
 * be "" where the signal is coarser than a pool. */
#define SPOT_SIGNAL_LIST(X) \
	/* value = bucket index 0..4, lo/hi = monthly share */ \
	X(ADVISOR_BUCKET, "advisor_bucket") \
	X(PLACEMENT_SCORE, "placement_score") /* value = 1..10 */ \
	X(CAPACITY, "capacity") /* value = 0 or 1: provider says it has some */ \
	/* value = band index 0..4, lo/hi = the band as published */ \
	X(EVICTION_BAND, "eviction_band") \
	/* value = newest day, lo/hi = least and most of the last 30: share of stopped spot \
	 * machines that were preempted */ \
	X(PREEMPTION_SHARE, "preemption_share") \
	X(OBTAINABILITY, "obtainability") /* value = 0..1: odds that a launch now succeeds */ \
	/* value = Unix seconds at which a machine of the pool loses its place, if it began now */ \
	X(ENDS, "ends") \
	/* value = share of what the account asked for that the provider delivered; lo = machines \
	 * delivered, hi = asked for, faded by age at as_of_us (SPOT_FULFILMENT_HALF_LIFE_US) */ \
	X(FULFILMENT, "fulfilment")
#define SPOT_FULFILMENT_HALF_LIFE_US (8 * SPOT_US_PER_HOUR)
enum spot_signal_kind {
	SPOT_SIGNAL_NONE = 0,
#define X(name, wire) SPOT_SIGNAL_##name,
	SPOT_SIGNAL_LIST(X)
#undef X
};
const char *spot_signal_name(enum spot_signal_kind k);
struct spot_signal {
	enum spot_signal_kind kind;
	struct spot_pool_key key;
	double value;
	double lo, hi; /* meaning by kind */
	int64_t as_of_us; /* the provider's own date of it; 0 = not given */
	int64_t observed_us;
	const char *source;
};

struct spot_quota {
	const char *provider, *region;
	const char *class; /* "G/Spot", "P5/OnDemand", "instances" */
	const char *unit; /* "vcpu" | "instances" | "gpus" */
	enum spot_market market;
	int64_t limit; /* -1 = not known */
	int64_t observed_us;
};

/* Life of an instance as every provider can express it. */
#define SPOT_INSTANCE_LIST(X) \
	X(PENDING, "pending") \
	X(RUNNING, "running") \
	X(STOPPING, "stopping") \
	X(GONE, "gone") \
	X(FAILED, "failed") /* exists, is broken, must be terminated */ \
	X(INTERRUPTED, "interrupted") /* the provider reclaimed it */ \
	X(ODD, "odd") /* an unknown state: never acted upon */ \
	/* ordered, and waits for capacity in the provider's queue: no machine yet, and no bill */ \
	X(QUEUED, "queued")
enum spot_instance_state {
	SPOT_INSTANCE_NONE = 0,
#define X(name, wire) SPOT_INSTANCE_##name,
	SPOT_INSTANCE_LIST(X)
#undef X
};
const char *spot_instance_state_name(enum spot_instance_state s);

/* The cause of an instance's end, as far as the provider reports it */
enum spot_end_cause {
	SPOT_END_NONE = 0,
	SPOT_END_RECLAIM,
	SPOT_END_USER,
	SPOT_END_GUEST,
	SPOT_END_PROVIDER
};

struct spot_instance {
	const char *ref; /* provider's id */
	const char *token; /* our launch token; "" if the provider does not return it */
	const char *install; /* value of our installation tag, "" if not tagged */
	struct spot_pool_key key;
	enum spot_instance_state state;
	enum spot_end_cause end_cause;
	const char *raw_state; /* verbatim, for evidence */
	const char *raw_reason;
	const char *ip;
	const char *spot_request; /* "" if none */
	int64_t created_us; /* 0 = not known */
	/* Not a machine but its leftover: a disk, a network card, or an order for more machines
	 * than we hold leases. The verb terminate takes its ref like any other */
	bool leftover;
};

#define SPOT_NOTICE_LIST(X) \
	X(INTERRUPTION, "interruption") \
	X(REBALANCE, "rebalance") \
	X(MAINTENANCE, "maintenance") \
	/* The capacity that the machine runs in ends at the deadline. It may be told long before; \
	 * the engine acts when a save still fits */ \
	X(EXPIRY, "expiry")
enum spot_notice_kind {
	SPOT_NOTICE_NONE = 0,
#define X(name, wire) SPOT_NOTICE_##name,
	SPOT_NOTICE_LIST(X)
#undef X
};
const char *spot_notice_name(enum spot_notice_kind k);
enum spot_notice_kind spot_notice_parse(const char *name);
struct spot_notice {
	const char *ref;
	enum spot_notice_kind kind;
	int64_t deadline_us; /* 0 = not given */
	const char *source; /* "imds", "spot-request-status", ... */
	const char *raw;
};

#endif
