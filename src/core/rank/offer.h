/* An offer: pool + price + hazard + capacity signal at one moment, as read from rows. Pure data and
 * the rules that say whether it suits a request. */
#ifndef CORE_OFFER_H
#define CORE_OFFER_H

#include "base/base.h"

struct resource_ask;
enum price_state { PRICE_NONE = 0, PRICE_FRESH, PRICE_STALE, PRICE_FROZEN, PRICE_IMPLAUSIBLE };
enum price_state price_state_parse(const char *s);
const char *price_state_name(enum price_state s);

/* Our own record of a pool, from which the hazard model learns. SQL weights each event by its
 * age. */
struct offer_record {
	double node_hours, reclaims; /* half-life policy.age_half_life_h */
	double launches, refusals; /* half-life policy.odds_half_life_h */
	/* hours in which there was a reclaim: how many at a time; 0 = each alone */
	double reclaim_hours;
	/* of node_hours and reclaims; half-life policy.recent_half_life_h */
	double recent_hours, recent_reclaims;
	/* Time of day, as the angle 2 pi hour / 24 (UTC). Sums of cos and sin over the reclaim
	 * hours and over node-hours, of the double angle over node-hours, and the plain sums. */
	double hour_reclaims, reclaim_cos, reclaim_sin;
	double hour_nodes, node_cos, node_sin, node_cos2, node_sin2;
	/* Chances: other pools that had nodes when this pool lost one. Hits: those that lost one
	 * within the hour before or after. Index by what they share: provider, region, zone, zone
	 * and family. */
	double joint_chances[4], joint_hits[4];
	/* hits expected by chance, from the rates at which those pools lose nodes */
	double joint_alone[4];
};

/* The rise of the hazard after reclaims of siblings (core/hazard/hazard.h): for each part
 * the probability that is still to come. */
enum rise_part { RISE_QUICK = 0, RISE_SLOW, RISE_PARTS };
struct rise {
	double left[RISE_PARTS];
};

/* Rankings read tens of thousands of offers. The fields read for every offer come first, then those
 * that score the suitable ones. */
struct offer {
	int32_t pool_id;
	enum spot_market market;
	enum price_state price_state;
	int32_t gpu_milli, vcpus, mem_mib;
	const char *gpu_name;
	int64_t price_micros;
	int64_t cool_until_us;
	/* market reserved: its machines lose their place then; 0 = no end is known */
	int64_t ends_us;
	double capacity; /* provider says 0/1; < 0 none */
	bool has_odds, has_quota, has_hazard, has_band, has_share;
	/* The results of hazard_of() and hazard_odds() from the read of the market. Computed again
	 * without has_hazard. */
	double hazard, launch;
	/* The pool's recent prices: mean and variance (USD per hour) that fade with
	 * price_reversion_s, and the observed share of that past. Unknown without price_cover. */
	double price_mean, price_cover;
	const char *provider, *region;
	double hazard_lo, hazard_hi;
	const char *hazard_source;
	struct rise rise; /* with has_hazard; the hazard above is without it */
	double odds; /* 0..1 that a launch now succeeds */
	/* the account's limit that the pool counts against; unknown without has_quota */
	int64_t quota_limit, quota_used; /* used by our own nodes, in that unit */
	const char *quota_unit; /* "vcpu", "instances", "gpus" */
	const char *zone, *zone_name, *instance_type;
	double launch_lo, launch_hi;
	const char *launch_source;
	double price_var;
	int32_t gpu_mem_mib;
	const char *arch, *quota_class;
	int64_t price_observed_us;
	/* signals; value < 0 = none */
	double advisor_lo, advisor_hi; /* monthly interruption share; lo < 0 = none */
	int64_t advisor_as_of_us;
	double placement_score; /* 1..10; < 0 none */
	int64_t capacity_us;
	/* our own record (30 days) and cooling */
	int64_t own_node_us;
	int32_t own_reclaims, own_launches, own_refusals;
	int32_t cool_refusals;
	const char *cool_why;
	int64_t reclaimed_us; /* newest reclaim; 0 = none */
	int32_t live_nodes; /* our nodes now in this pool */
	/* more signals, absent without their has_ */
	double band_lo, band_hi; /* eviction band as published, fractions */
	/* of stopped spot machines that were preempted: newest day, least, most */
	double share, share_lo, share_hi;
	/* Requests of the whole account by the provider's count: machines asked for and delivered,
	 * faded by age at account_us. Not known without account_asked. */
	double account_asked, account_delivered;
	int64_t account_us;
	const struct offer_record *record; /* NULL: own_* above count, unaged */
};

/* Is it of that market? SPOT stands for both markets that reclaim, NONE for all. */
static inline bool offer_in_market(const struct offer *o, enum spot_market m)
{
	return m == SPOT_MARKET_NONE || o->market == m ||
	    (m == SPOT_MARKET_SPOT && spot_market_reclaims(o->market));
}

/* Makes equal names of places, types, GPUs and quotas share the storage of the first one. The
 * hazard model, rankings and fleets can then compare pointers. Only speed depends on it. */
void offers_share_names(struct offer *offers, size_t n);

/* Returns a digest of the offers that changes with pools, prices, capacity signals, quotas and
 * cooldowns. Sets *ret_until_us to the end of the first active cooldown; 0 = none. Hazards are left
 * out, since they always drift. */
uint64_t offers_digest(const struct offer *offers, size_t n, int64_t now_us, int64_t *ret_until_us);

/* "A100" accepts A100-40GB and A100-80GB; "A100-80GB" only itself; case-insensitive; H100 accepts
 * H100-80GB-SXM... A ":8" count is not part of the name. */
bool gpu_matches(const char *asked, const char *pool_gpu);
/* Is its GPU one of the ask's tiers? Without a GPU, and without tiers, it is. */
bool offer_tier_allowed(const struct offer *o, const struct resource_ask *ask);
/* Returns NULL if the offer suits the ask, else the reason, in words (static or arena). */
struct arena;
const char *offer_refusal(struct arena *a, const struct offer *o, const struct resource_ask *ask);

/* Returns the need of one machine of the offer, in its quota's unit. */
int64_t offer_quota_need(const struct offer *o);
/* Returns how many machines of the offer its quota has room for; INT64_MAX if unknown. */
int64_t offer_quota_room(const struct offer *o);
/* Returns NULL if the quota has room for that many, else the reason, in words. */
const char *offer_quota_refusal(struct arena *a, const struct offer *o, int32_t nodes);

/* A price of a pool as a feed states it, with the other known prices; 0 = unknown. */
struct price_claim {
	const struct spot_pool_key *key;
	const struct spot_shape *shape;
	int64_t price_micros;
	int64_t effective_us; /* by the provider */
	int64_t last_micros; /* previous price */
	int64_t on_demand_micros; /* the same type in the same region, for spot */
	int64_t now_us;
	/* set by the operator, or prepaid capacity: no market to compare with */
	bool own;
};
/* Checks a price point before it is stored. Returns NULL if it is plausible, else the reason for
 * its rejection. */
const char *price_implausible(struct arena *a, const struct price_claim *c);
/* Checks two points of one pool in one reply. Returns the reason if both cannot be true, else NULL.
 * before_micros 0 = none before. */
const char *price_contradiction(struct arena *a, int64_t price_micros, int64_t effective_us,
    int64_t before_micros, int64_t before_effective_us);

#endif
