/* Converts the signals that providers publish into reclaims per node-hour. Each conversion states
 * its assumption. */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>

#define HOURS_PER_MONTH 720.0
#define HOURS_28_DAYS 672.0
#define STOP_AFTER_H 12.0 /* hours until an owner stops a spot machine, assumed */
#define STOP_AFTER_MIN_H 2.0
#define STOP_AFTER_MAX_H 168.0
/* Weight of a signal converted from another unit. Our own record soon outweighs it. */
#define CONVERTED_WEIGHT 0.25
/* 1 / relative variance of a pool's true rate about its signal's rate. Nobody publishes how good
 * the signals are. They may be wrong by a factor of several, converted ones by more. */
#define PUBLISHED_SHAPE 0.8
#define CONVERTED_SHAPE 0.5
/* A positive floor: no record could correct a rate of 0. */
#define RATE_MIN 1e-9

/* Returns the constant hourly rate at which this share is interrupted within these hours. */
static double rate_from_share(double share, double hours)
{
	return -log1p(-fmin(share, 0.98)) / hours;
}

static const struct {
	const char *words;
	double weight, shape;
} signals[] = {
	[SIGNAL_NONE] = { "wide prior", 1, PUBLISHED_SHAPE },
	[SIGNAL_ADVISOR] = { "spot advisor", 1, PUBLISHED_SHAPE },
	[SIGNAL_SHARE] = { "preemption share, machines assumed to be stopped after 12 h",
	    CONVERTED_WEIGHT, CONVERTED_SHAPE },
	[SIGNAL_BAND] = { "eviction band, read as a share in 28 days", CONVERTED_WEIGHT,
	    CONVERTED_SHAPE },
	[SIGNAL_ON_DEMAND] = { "on-demand prior", 1, 1 },
};

const char *signal_words(enum signal s)
{
	return signals[s].words;
}

double signal_shape(enum signal s)
{
	return signals[s].shape;
}

double signal_weight(enum signal s)
{
	return signals[s].weight;
}

/* Azure publishes a band, and its own pages disagree on the base. The table skuspotevictionrate
 * says the share of machines evicted in 28 days. The portal text says in an hour
 * (learn.microsoft.com/azure/virtual-machines/spot-vms). The first is the estimate, the second the
 * upper end of the doubt. "20+" has no upper edge and counts as 5 points wide, like the others. */
static struct prior prior_of_band(const struct offer *o)
{
	double hi = o->band_hi > o->band_lo + 0.3 || o->band_hi <= o->band_lo ? o->band_lo + 0.05
									      : o->band_hi;

	return (struct prior){
		.rate = rate_from_share((o->band_lo + hi) / 2, HOURS_28_DAYS),
		.lo = rate_from_share(o->band_lo, HOURS_28_DAYS),
		.hi = rate_from_share(hi, 1),
		.signal = SIGNAL_BAND,
	};
}

/* Converts the share s of stopped machines that were preempted. With preemption at rate h and
 * owners stopping theirs at rate u it is h/(h+u), so h = u*s/(1-s). Nobody publishes u. Assumed: an
 * owner stops a machine after 12 h, between 2 h and a week. The share s stays within 2 and 98 %,
 * since with all or none preempted the base does not matter. See
 * cloud.google.com/compute/docs/instances/view-spot-preemption-price */
static double rate_from_stops(double share, double stop_after_h)
{
	double s = fmin(fmax(share, 0.02), 0.98);

	return s / (1 - s) / stop_after_h;
}

static struct prior prior_of_share(const struct offer *o)
{
	return (struct prior){
		.rate = fmin(rate_from_stops(o->share, STOP_AFTER_H), 2),
		.lo = rate_from_stops(o->share_lo, STOP_AFTER_MAX_H),
		.hi = rate_from_stops(o->share_hi, STOP_AFTER_MIN_H),
		.signal = SIGNAL_SHARE,
	};
}

static struct prior prior_unknown(const struct rank_policy *p)
{
	return (struct prior){ .rate = p->unknown_spot_per_hour,
		.lo = p->unknown_spot_per_hour,
		.hi = p->unknown_spot_per_hour,
		.signal = SIGNAL_NONE };
}

static struct prior prior_of(const struct offer *o, const struct rank_policy *p)
{
	if (!spot_market_reclaims(o->market)) {
		return (struct prior){ .rate = p->on_demand_per_hour,
			.lo = p->on_demand_per_hour,
			.hi = p->on_demand_per_hour,
			.signal = SIGNAL_ON_DEMAND };
	}
	/* The owner of a lent reservation reclaims it: the provider's signals are about spot. */
	if (o->market == SPOT_MARKET_INTERRUPTIBLE) {
		return prior_unknown(p);
	}
	if (o->advisor_lo >= 0) {
		return (struct prior){
			.rate =
			    rate_from_share((o->advisor_lo + o->advisor_hi) / 2, HOURS_PER_MONTH),
			.lo = rate_from_share(o->advisor_lo, HOURS_PER_MONTH),
			.hi = rate_from_share(o->advisor_hi, HOURS_PER_MONTH),
			.signal = SIGNAL_ADVISOR,
		};
	}
	if (o->has_share) {
		return prior_of_share(o);
	}
	if (o->has_band) {
		return prior_of_band(o);
	}
	return prior_unknown(p);
}

struct prior hazard_prior(const struct offer *o, const struct rank_policy *p)
{
	struct prior prior = prior_of(o, p);

	prior.rate = fmax(prior.rate, RATE_MIN);
	return prior;
}
