/* What providers publish of a pool, as reclaims per node-hour: each conversion with its
 * assumption. */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"

#include <math.h>

#define HOURS_PER_MONTH 720.0
#define HOURS_28_DAYS 672.0
#define STOP_AFTER_H 12.0 /* an owner stops a spot machine, assumed */
#define STOP_AFTER_MIN_H 2.0
#define STOP_AFTER_MAX_H 168.0
/* Weight of what was published in another unit and converted: soon outweighed by our own record. */
#define CONVERTED_WEIGHT 0.25
/* 1 / relative variance of a pool's true rate about what its provider's signal makes of it: nobody
 * publishes how good the signals are, so that they may well be wrong by a factor of several, the
 * converted ones by more. */
#define PUBLISHED_SHAPE 0.8
#define CONVERTED_SHAPE 0.5
/* Never is no rate that a record could correct. */
#define RATE_MIN 1e-9

/* A share s of instances interrupted within so many hours, as a constant hourly rate. */
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

/* Azure publishes a band whose base its own pages disagree on: the share of machines evicted in 28
 * days (table skuspotevictionrate) or in an hour (portal text);
 * learn.microsoft.com/azure/virtual-machines/spot-vms. The first is the estimate, the second the
 * upper end of the doubt. "20+" has no upper edge: 5 points wide like the others. */
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

/* Of machines that stopped, the share that was preempted: with preemption at rate h and owners
 * stopping theirs at rate u it is h/(h+u), so h = u*s/(1-s). u is nowhere published. Assumed: a
 * machine is stopped by its owner after 12 h, between 2 h and a week. The base does not matter when
 * all or none were preempted: s is kept within 2 and 98 %.
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

static struct prior prior_of(const struct offer *o, const struct rank_policy *p)
{
	if (o->market != SPOT_MARKET_SPOT) {
		return (struct prior){ .rate = p->on_demand_per_hour,
			.lo = p->on_demand_per_hour,
			.hi = p->on_demand_per_hour,
			.signal = SIGNAL_ON_DEMAND };
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
	return (struct prior){ .rate = p->unknown_spot_per_hour,
		.lo = p->unknown_spot_per_hour,
		.hi = p->unknown_spot_per_hour,
		.signal = SIGNAL_NONE };
}

struct prior hazard_prior(const struct offer *o, const struct rank_policy *p)
{
	struct prior prior = prior_of(o, p);

	prior.rate = fmax(prior.rate, RATE_MIN);
	return prior;
}

double checkpoint_interval_s(double hazard_per_hour, double save_s)
{
	double i = sqrt(2.0 * fmax(save_s, 0.1) * 3600.0 / fmax(hazard_per_hour, 1e-9));

	return fmin(fmax(i, 30.0), 3600.0);
}
