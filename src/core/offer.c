/* Which offers suit a request, and which prices are believable. */
#include "base/base.h"
#include "base/arena.h"
#include "base/str.h"
#include "core/jobspec.h"
#include "core/offer.h"

#include <strings.h>

enum price_state price_state_parse(const char *s)
{
	static const char *const names[] = {"", "fresh", "stale", "frozen", "implausible"};

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

static const char *gpu_refusal(struct arena *a, const struct offer *o, const struct resource_ask *ask)
{
	for (size_t i = 0; i < ask->gpus_n; i++) {
		if (gpu_matches(ask->gpus[i].gpu, o->gpu_name) && o->gpu_milli == ask->gpus[i].milli) {
			return NULL;
		}
	}
	if (ask->gpus_n == 0) {
		return NULL;
	}
	return arena_printf(a, "has %.3gx %s", o->gpu_milli / 1000.0, o->gpu_name[0] ? o->gpu_name : "no GPU");
}

static const char *place_refusal(const struct offer *o, const struct resource_ask *ask)
{
	if (ask->provider != NULL && strcmp(ask->provider, o->provider) != 0) {
		return "another provider was asked for";
	}
	if (ask->region != NULL && strcmp(ask->region, o->region) != 0) {
		return "another region was asked for";
	}
	if (ask->zone != NULL && strcmp(ask->zone, o->zone) != 0 && strcmp(ask->zone, o->zone_name) != 0) {
		return "another zone was asked for";
	}
	if (ask->instance_type != NULL && strcmp(ask->instance_type, o->instance_type) != 0) {
		return "another instance type was asked for";
	}
	return NULL;
}

const char *offer_refusal(struct arena *a, const struct offer *o, const struct resource_ask *ask)
{
	const char *why = place_refusal(o, ask);

	if (why == NULL) {
		why = gpu_refusal(a, o, ask);
	}
	if (why != NULL) {
		return why;
	}
	/* use_spot: true prefers spot; on-demand stays the fail-over that supply_choose decides on. */
	if (ask->use_spot == 0 && o->market == SPOT_MARKET_SPOT) {
		return "use_spot is false";
	}
	if (ask->vcpus_min > 0 && o->vcpus < ask->vcpus_min) {
		return arena_printf(a, "%d vCPUs, asked for %" PRId64, o->vcpus, ask->vcpus_min);
	}
	if (ask->mem_mib_min > 0 && o->mem_mib < ask->mem_mib_min) {
		return arena_printf(a, "%d MiB memory, asked for %" PRId64, o->mem_mib, ask->mem_mib_min);
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

const char *offer_quota_refusal(struct arena *a, const struct offer *o)
{
	if (offer_quota_room(o) > 0) {
		return NULL;
	}
	return arena_printf(a, "no room in quota %s of %s: %" PRId64 " of %" PRId64 " %s taken by our nodes, this one needs %" PRId64,
	    o->quota_class, o->region, o->quota_used, o->quota_limit, o->quota_unit, offer_quota_need(o));
}

/* Bounds per GPU-hour are wide on purpose: they catch unit mistakes and placeholder values (users of other
 * tools met a B200 at 0.01 and an H100 at 0 dollars an hour), not bargains. */
#define GPU_HOUR_MIN_MICROS 5000
#define GPU_HOUR_MAX_MICROS (200 * SPOT_MICROS_PER_USD)
#define BIG_GPU_MIB         (75 * 1024)
#define BIG_GPU_HOUR_MIN_MICROS 100000

const char *price_implausible(struct arena *a, const struct spot_pool_key *key, const struct spot_shape *shape,
    int64_t price_micros, int64_t last_micros, int64_t on_demand_micros)
{
	int64_t milli = shape->gpu_milli > 0 ? shape->gpu_milli : 1000;
	int64_t per_gpu = price_micros * 1000 / milli;
	char usd[USD_TEXT_MAX], other[USD_TEXT_MAX];

	if (price_micros <= 0) {
		return "zero or negative";
	}
	format_usd(price_micros, usd);
	if (per_gpu < GPU_HOUR_MIN_MICROS || per_gpu > GPU_HOUR_MAX_MICROS) {
		return arena_printf(a, "%s USD an hour is outside what a GPU can cost", usd);
	}
	if (shape->gpu_mem_mib >= BIG_GPU_MIB && per_gpu < BIG_GPU_HOUR_MIN_MICROS) {
		return arena_printf(a, "%s USD an hour is too little for %s", usd, shape->gpu_name);
	}
	if (key->market == SPOT_MARKET_SPOT && on_demand_micros > 0 && price_micros > 2 * on_demand_micros) {
		return arena_printf(a, "spot at %s is over twice the on-demand price %s", usd,
		    format_usd(on_demand_micros, other));
	}
	if (last_micros > 0 && (price_micros > 20 * last_micros || price_micros < last_micros / 20)) {
		return arena_printf(a, "%s is a jump of over 20 times from %s", usd, format_usd(last_micros, other));
	}
	return NULL;
}
