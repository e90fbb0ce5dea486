/* Decides which offers suit a request, and which prices are plausible. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"
#include "core/rank/offer.h"

#include <strings.h>

enum price_state price_state_parse(const char *s)
{
	static const char *const names[] = { "", "fresh", "stale", "frozen", "implausible" };

	for (size_t i = 1; s != NULL && i < ARRAY_LEN(names); i++) {
		if (strcmp(names[i], s) == 0) {
			return (enum price_state)i;
		}
	}
	return PRICE_NONE;
}

const char *price_state_name(enum price_state s)
{
	switch (s) {
	case PRICE_FRESH:
		return "fresh";
	case PRICE_STALE:
		return "stale";
	case PRICE_FROZEN:
		return "frozen";
	case PRICE_IMPLAUSIBLE:
		return "implausible";
	case PRICE_NONE:
		break;
	}
	return "?";
}

bool gpu_matches(const char *asked, const char *pool_gpu)
{
	size_t n = strlen(asked);

	if (strncasecmp(asked, pool_gpu, n) != 0) {
		return false;
	}
	/* "A10" must not match "A100" or "A10G": the rest starts a qualifier or is empty. */
	return pool_gpu[n] == '\0' || pool_gpu[n] == '-';
}

bool offer_tier_allowed(const struct offer *o, const struct resource_ask *ask)
{
	for (size_t i = 0; i < ask->tiers_n; i++) {
		if (gpu_matches(ask->tiers[i], o->gpu_name)) {
			return true;
		}
	}
	return ask->tiers_n == 0 || o->gpu_name[0] == '\0';
}

static const char *gpu_refusal(struct arena *a, const struct offer *o,
    const struct resource_ask *ask)
{
	for (size_t i = 0; i < ask->gpus_n; i++) {
		if (gpu_matches(ask->gpus[i].gpu, o->gpu_name) &&
		    o->gpu_milli == ask->gpus[i].milli) {
			return NULL;
		}
	}
	if (ask->gpus_n == 0) {
		return offer_tier_allowed(o, ask)
		    ? NULL
		    : arena_printf(a, "has %s, which the job's class may not have", o->gpu_name);
	}
	return arena_printf(a, "has %.3gx %s", o->gpu_milli / 1000.0,
	    o->gpu_name[0] ? o->gpu_name : "no GPU");
}

static const char *place_refusal(const struct offer *o, const struct resource_ask *ask)
{
	if (ask->provider != NULL && strcmp(ask->provider, o->provider) != 0) {
		return "another provider was asked for";
	}
	if (ask->region != NULL && strcmp(ask->region, o->region) != 0) {
		return "another region was asked for";
	}
	if (ask->zone != NULL && strcmp(ask->zone, o->zone) != 0 &&
	    strcmp(ask->zone, o->zone_name) != 0) {
		return "another zone was asked for";
	}
	if (ask->instance_type != NULL && strcmp(ask->instance_type, o->instance_type) != 0) {
		return "another instance type was asked for";
	}
	return NULL;
}

/* rank.c:ask_suits has the same rules without words. A change must go into both. */
const char *offer_refusal(struct arena *a, const struct offer *o, const struct resource_ask *ask)
{
	const char *why = place_refusal(o, ask);

	if (why == NULL) {
		why = gpu_refusal(a, o, ask);
	}
	if (why != NULL) {
		return why;
	}
	/* use_spot: true prefers spot; on-demand stays the fail-over that supply_choose decides
	 * on. */
	if (ask->use_spot == 0 && spot_market_reclaims(o->market)) {
		return "use_spot is false";
	}
	if (ask->vcpus_min > 0 && o->vcpus < ask->vcpus_min) {
		return arena_printf(a, "%d vCPUs, asked for %" PRId64, o->vcpus, ask->vcpus_min);
	}
	if (ask->mem_mib_min > 0 && o->mem_mib < ask->mem_mib_min) {
		return arena_printf(a, "%d MiB memory, asked for %" PRId64, o->mem_mib,
		    ask->mem_mib_min);
	}
	if (ask->max_hourly_micros > 0 && o->price_micros > ask->max_hourly_micros) {
		return "above max_hourly_cost";
	}
	return NULL;
}

int64_t offer_quota_need(const struct offer *o)
{
	if (o->quota_unit != NULL && strcmp(o->quota_unit, "vcpu") == 0) {
		return o->vcpus;
	}
	if (o->quota_unit != NULL && strcmp(o->quota_unit, "gpus") == 0) {
		return (o->gpu_milli + 999) / 1000;
	}
	return 1;
}

int64_t offer_quota_room(const struct offer *o)
{
	int64_t need = offer_quota_need(o), left = o->quota_limit - o->quota_used;

	if (!o->has_quota || o->quota_limit < 0 || need <= 0) {
		return INT64_MAX;
	}
	return left > 0 ? left / need : 0;
}

const char *offer_quota_refusal(struct arena *a, const struct offer *o, int32_t nodes)
{
	if (offer_quota_room(o) >= MAX(nodes, 1)) {
		return NULL;
	}
	if (nodes > 1) {
		return arena_printf(a, "the quota has room for %" PRId64 " of %d machines",
		    offer_quota_room(o), (int)nodes);
	}
	return arena_printf(a,
	    "no room in quota %s of %s: %" PRId64 " of %" PRId64
	    " %s taken by our nodes, this one needs %" PRId64,
	    o->quota_class, o->region, o->quota_used, o->quota_limit, o->quota_unit,
	    offer_quota_need(o));
}

/*
 * Plausibility. Bounds are wide on purpose: they catch unit mistakes, placeholder values and prices
 * of something else, not bargains. The bounds fit 3,231 real pairs of spot and on-demand price
 * (AWS, Azure and CoreWeave, 2026). No spot price is above on-demand beyond rounding, nor below a
 * tenth of it. A GPU-hour cost from 0.04 to 26 dollars.
 */
#define GPU_HOUR_MIN_MICROS 5000
#define GPU_HOUR_MAX_MICROS (60 * SPOT_MICROS_PER_USD)
#define SPOT_OVER_PM 1100 /* of the on-demand price */
#define SPOT_UNDER 20 /* a twentieth of it */
#define JUMP 20
#define FUTURE_US (24 * SPOT_US_PER_HOUR)
/* 2006: no cloud had prices before */
#define EPOCH_FROM_US (INT64_C(1136073600) * SPOT_US_PER_S)

/* Least price of these per GPU-hour. Less means a machine without its GPUs, a fraction, or a
 * placeholder. */
static const struct {
	const char *gpu;
	int64_t spot_micros, on_demand_micros;
} floors[] = {
	{ "GB300", 500000, 2000000 },
	{ "GB200", 500000, 2000000 },
	{ "B300", 500000, 2000000 },
	{ "B200", 400000, 2000000 },
	{ "H200", 300000, 1200000 },
	{ "GH200", 200000, 800000 },
	{ "H100", 200000, 1000000 },
	{ "MI300X", 200000, 800000 },
	{ "A100", 100000, 800000 },
};

static int64_t gpu_floor(const struct spot_shape *shape, enum spot_market market)
{
	for (size_t i = 0; i < ARRAY_LEN(floors); i++) {
		if (gpu_matches(floors[i].gpu, shape->gpu_name)) {
			return market == SPOT_MARKET_SPOT ? floors[i].spot_micros
							  : floors[i].on_demand_micros;
		}
	}
	return GPU_HOUR_MIN_MICROS;
}

/* Equal within a thousandth: what multiplying and rounding leaves. */
static bool nearly_equal(int64_t a, int64_t b)
{
	return a - b <= b / 1000 && b - a <= b / 1000;
}

/* A price per GPU where one per machine belongs, or the other way: off by exactly the number of
 * GPUs. */
static bool per_gpu_mixup(const struct price_claim *c, int64_t gpus)
{
	return gpus > 1 && c->last_micros > 0 &&
	    (nearly_equal(c->price_micros, c->last_micros * gpus) ||
		nearly_equal(c->price_micros * gpus, c->last_micros));
}

static const char *level_wrong(struct arena *a, const struct price_claim *c)
{
	int64_t milli = c->shape->gpu_milli > 0 ? c->shape->gpu_milli : 1000;
	int64_t per_gpu = c->price_micros * 1000 / milli;
	int64_t least = gpu_floor(c->shape, c->key->market);
	char usd[USD_TEXT_MAX];

	if (c->price_micros <= 0) {
		return "zero or negative";
	}
	if (per_gpu < GPU_HOUR_MIN_MICROS || per_gpu > GPU_HOUR_MAX_MICROS) {
		return arena_printf(a,
		    "%s USD an hour for %.3gx %s is outside what a GPU can cost: a wrong unit or a "
		    "wrong "
		    "number of GPUs",
		    format_usd(c->price_micros, usd), (double)milli / 1000, c->shape->gpu_name);
	}
	if (per_gpu < least) {
		return arena_printf(a,
		    "%s USD an hour is too little for %.3gx %s: a placeholder, or the machine "
		    "without its GPUs",
		    format_usd(c->price_micros, usd), (double)milli / 1000, c->shape->gpu_name);
	}
	return NULL;
}

static const char *market_wrong(struct arena *a, const struct price_claim *c)
{
	char usd[USD_TEXT_MAX], other[USD_TEXT_MAX];

	if (c->key->market != SPOT_MARKET_SPOT || c->on_demand_micros <= 0) {
		return NULL;
	}
	format_usd(c->price_micros, usd);
	format_usd(c->on_demand_micros, other);
	if (c->price_micros / 1000 * 1000 > c->on_demand_micros / 1000 * SPOT_OVER_PM) {
		return arena_printf(a,
		    "spot at %s is above the on-demand price %s: nobody would buy it", usd, other);
	}
	if (c->price_micros < c->on_demand_micros / SPOT_UNDER) {
		return arena_printf(a, "spot at %s is under a twentieth of the on-demand price %s",
		    usd, other);
	}
	return NULL;
}

static const char *time_wrong(struct arena *a, const struct price_claim *c)
{
	char when[TIME_TEXT_MAX];

	if (c->effective_us == 0 || c->now_us == 0) {
		return NULL;
	}
	if (c->effective_us > c->now_us + FUTURE_US) {
		return arena_printf(a, "takes effect only on %s",
		    format_time_s(c->effective_us, when));
	}
	if (c->effective_us < EPOCH_FROM_US) {
		return arena_printf(a, "is said to be of %s: a wrong unit of time",
		    format_time_s(c->effective_us, when));
	}
	return NULL;
}

const char *price_implausible(struct arena *a, const struct price_claim *c)
{
	const char *why = level_wrong(a, c);
	char usd[USD_TEXT_MAX], other[USD_TEXT_MAX];

	if (c->own) {
		return c->price_micros > 0 ? NULL : "zero or negative";
	}
	why = why != NULL ? why : time_wrong(a, c);
	why = why != NULL ? why : market_wrong(a, c);
	if (why != NULL || c->last_micros <= 0) {
		return why;
	}
	format_usd(c->price_micros, usd);
	format_usd(c->last_micros, other);
	if (c->price_micros > JUMP * c->last_micros || c->price_micros < c->last_micros / JUMP) {
		return arena_printf(a, "%s is a jump of over 20 times from %s", usd, other);
	}
	if (per_gpu_mixup(c, c->shape->gpu_milli / 1000)) {
		return arena_printf(a,
		    "%s is %s exactly %s by the number of GPUs: a price per GPU taken for one per "
		    "machine, or "
		    "the other way",
		    usd, other, c->price_micros > c->last_micros ? "multiplied" : "divided");
	}
	return NULL;
}

const char *price_contradiction(struct arena *a, int64_t price_micros, int64_t effective_us,
    int64_t before_micros, int64_t before_effective_us)
{
	char usd[USD_TEXT_MAX], other[USD_TEXT_MAX];

	if (before_micros == 0 || effective_us != before_effective_us ||
	    nearly_equal(price_micros, before_micros)) {
		return NULL;
	}
	return arena_printf(a, "the same reply says %s and %s for the same time",
	    format_usd(before_micros, other), format_usd(price_micros, usd));
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A fixed table on the stack: base/map would allocate and grow in each read of the market. A name
 * that does not fit keeps its own copy. */
#define NAMES 4096
#define TRIES 4

/* before: the same name of the offer before, often equal. */
static const char *name_shared(const char **names, const char *s, const char *before)
{
	size_t at;

	if (s == NULL || s == before || (before != NULL && strcmp(s, before) == 0)) {
		return s == NULL ? NULL : before;
	}
	at = (size_t)hash_words(0, s, strlen(s)) % NAMES;
	for (int tried = 0; tried < TRIES; tried++, at = (at + 1) % NAMES) {
		if (names[at] == NULL) {
			names[at] = s;
		}
		if (strcmp(names[at], s) == 0) {
			return names[at];
		}
	}
	return s;
}

void offers_share_names(struct offer *offers, size_t n)
{
	const char *names[NAMES] = { 0 };
	const struct offer none = { 0 }, *before = &none;

	for (size_t i = 0; i < n; i++) {
		struct offer *o = &offers[i];

		o->provider = name_shared(names, o->provider, before->provider);
		o->region = name_shared(names, o->region, before->region);
		o->zone = name_shared(names, o->zone, before->zone);
		o->gpu_name = name_shared(names, o->gpu_name, before->gpu_name);
		o->instance_type = name_shared(names, o->instance_type, before->instance_type);
		o->quota_class = name_shared(names, o->quota_class, before->quota_class);
		before = o;
	}
}

/* ---- has anything changed? ------------------------------------------------------------------- */

static uint64_t double_bits(double v)
{
	uint64_t b;

	memcpy(&b, &v, sizeof(b));
	return b;
}

uint64_t offers_digest(const struct offer *offers, size_t n, int64_t now_us, int64_t *ret_until_us)
{
	uint64_t h = n;

	*ret_until_us = 0;
	for (size_t i = 0; i < n; i++) {
		const struct offer *o = &offers[i];
		bool rests = o->cool_until_us > now_us;

		h = hash_mix(h,
		    (uint64_t)(uint32_t)o->pool_id << 32 | (uint64_t)o->market << 8 |
			(uint64_t)o->price_state << 4 | (uint64_t)rests << 3 |
			(uint64_t)o->has_odds << 2 | (uint64_t)o->has_quota << 1);
		h = hash_mix(h, (uint64_t)o->price_micros);
		h = hash_mix(h, double_bits(o->capacity));
		if (o->ends_us > 0) {
			h = hash_mix(h, (uint64_t)o->ends_us);
		}
		if (o->has_odds) {
			h = hash_mix(h, double_bits(o->odds));
		}
		if (o->account_asked > 0) {
			h = hash_mix(hash_mix(h, double_bits(o->account_asked)),
			    double_bits(o->account_delivered));
		}
		if (o->has_quota) {
			h = hash_mix(hash_mix(h, (uint64_t)o->quota_limit),
			    (uint64_t)o->quota_used);
		}
		if (rests && (*ret_until_us == 0 || o->cool_until_us < *ret_until_us)) {
			*ret_until_us = o->cool_until_us;
		}
	}
	return h;
}
