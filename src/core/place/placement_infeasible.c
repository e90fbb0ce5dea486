/* Can a job ever run, and what would make it possible? See placement.h. */
#include "base/base.h"
#include "core/place/placement.h"

#define VALUES_MOST 4

/* The wishes of a job file. An ask is tried without one of them at a time. */
enum wish {
	WISH_NONE,
	WISH_PROVIDER,
	WISH_REGION,
	WISH_ZONE,
	WISH_TYPE,
	WISH_COUNT,
	WISH_CPUS,
	WISH_MEMORY,
	WISH_CLASS,
	WISH_MARKET,
	WISH_END
};
static const char *const wish_names[] = { "", "another provider", "another region", "another zone",
	"another instance_type", "another count of GPUs", "fewer cpus", "less memory",
	"another class", "spot (use_spot: true, interruptible: true)" };

static bool gpu_named(const struct offer *o, const struct resource_ask *ask)
{
	for (size_t i = 0; i < ask->gpus_n; i++) {
		if (gpu_matches(ask->gpus[i].gpu, o->gpu_name)) {
			return true;
		}
	}
	return ask->gpus_n == 0;
}

static struct resource_ask ask_without(const struct resource_ask *ask, enum wish w)
{
	struct resource_ask k = *ask;

	k.max_hourly_micros = 0;
	k.provider = w == WISH_PROVIDER ? NULL : k.provider;
	/* A region is a provider's, a zone a region's. */
	k.region = w == WISH_PROVIDER || w == WISH_REGION ? NULL : k.region;
	k.zone = w >= WISH_PROVIDER && w <= WISH_ZONE ? NULL : k.zone;
	k.instance_type = w == WISH_TYPE ? NULL : k.instance_type;
	k.gpus_n = w == WISH_COUNT ? 0 : k.gpus_n;
	k.vcpus_min = w == WISH_CPUS ? 0 : k.vcpus_min;
	k.mem_mib_min = w == WISH_MEMORY ? 0 : k.mem_mib_min;
	k.tiers_n = w == WISH_CLASS ? 0 : k.tiers_n;
	k.use_spot = w == WISH_MARKET ? 1 : k.use_spot;
	return k;
}

static bool suits_without(struct arena *a, const struct job_spec *s, const struct offer *o,
    enum wish w)
{
	if (spot_market_reclaims(o->market) && !s->interruptible && w != WISH_MARKET) {
		return false;
	}
	for (size_t i = 0; i < s->asks_n; i++) {
		struct resource_ask k = ask_without(&s->asks[i], w);

		if (gpu_named(o, &s->asks[i]) && offer_refusal(a, o, &k) == NULL) {
			return true;
		}
	}
	return false;
}

static const char *wish_value(struct arena *a, const struct offer *o, enum wish w)
{
	switch (w) {
	case WISH_PROVIDER:
		return o->provider;
	case WISH_REGION:
		return arena_printf(a, "%s/%s", o->provider, o->region);
	case WISH_ZONE:
		return o->zone_name[0] != '\0' ? o->zone_name : o->zone;
	case WISH_TYPE:
		return o->instance_type;
	case WISH_COUNT:
		return arena_printf(a, "%s:%.3g", o->gpu_name, o->gpu_milli / 1000.0);
	case WISH_CPUS:
		return arena_printf(a, "%d vCPUs", o->vcpus);
	case WISH_MEMORY:
		return arena_printf(a, "%d GiB", o->mem_mib / 1024);
	case WISH_NONE:
	case WISH_CLASS:
	case WISH_MARKET:
	case WISH_END:
		break;
	}
	return NULL;
}

/* The values that would do, a few of them: " (aws, gcp)". NULL: nothing would. */
static const char *wish_values(const struct place_in *in, const struct job_spec *s, enum wish w)
{
	const char *values[VALUES_MOST] = { NULL }, *text = "";
	size_t n = 0;
	bool any = false;

	for (size_t i = 0; i < in->market->offers_n && n < VALUES_MOST; i++) {
		const struct offer *o = &in->market->offers[i];
		const char *value;
		size_t k = 0;

		if (!suits_without(in->arena, s, o, w)) {
			continue;
		}
		any = true;
		value = wish_value(in->arena, o, w);
		if (value == NULL) {
			break;
		}
		while (k < n && strcmp(values[k], value) != 0) {
			k++;
		}
		values[k] = value;
		n = MAX(n, k + 1);
	}
	for (size_t k = 0; k < n; k++) {
		text = arena_printf(in->arena, "%s%s%s", text, k > 0 ? ", " : "", values[k]);
	}
	return !any ? NULL : n == 0 ? "" : arena_printf(in->arena, " (%s)", text);
}

bool placement_suits(const struct place_in *in, const struct job_spec *s)
{
	for (size_t i = 0; i < in->market->offers_n; i++) {
		const struct offer *o = &in->market->offers[i];

		for (size_t k = 0; k < s->asks_n; k++) {
			if ((!spot_market_reclaims(o->market) || s->interruptible) &&
			    offer_refusal(in->arena, o, &s->asks[k]) == NULL) {
				return true;
			}
		}
	}
	return false;
}

const char *placement_never(const struct place_in *in, const struct job_spec *s)
{
	const char *text = "";

	for (size_t i = 0; i < in->market->offers_n; i++) {
		if (suits_without(in->arena, s, &in->market->offers[i], WISH_NONE)) {
			return NULL;
		}
	}
	for (enum wish w = WISH_PROVIDER; w < WISH_END; w++) {
		const char *values = wish_values(in, s, w);

		if (values != NULL) {
			text = arena_printf(in->arena, "%s%s%s%s", text,
			    text[0] != '\0' ? ", or " : "", wish_names[w], values);
		}
	}
	return arena_printf(in->arena, "no pool of any provider can run it; %s%s",
	    text[0] != '\0' ? "a pool would suit with "
			    : "no single change of the file makes one "
			      "suit (spotctl plan lists the reasons)",
	    text);
}
