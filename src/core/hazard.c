/* Reclaims per node-hour of a pool: a gamma posterior of the provider's signal and our own record. */
#include "base/base.h"
#include "core/rank.h"

#include <math.h>

#define HOURS_PER_MONTH 720.0

/* A share s of instances interrupted within a month, as a constant hourly rate. */
static double rate_from_monthly_share(double share)
{
	return -log1p(-fmin(share, 0.98)) / HOURS_PER_MONTH;
}

/* Quantile of Gamma(shape, 1) at normal score z, by Wilson and Hilferty (1931). */
static double gamma_quantile(double shape, double z)
{
	double c = 1.0 / (9.0 * shape);
	double t = 1.0 - c + z * sqrt(c);

	return t <= 0 ? 0 : shape * t * t * t;
}

void hazard_estimate(const struct offer *o, const struct rank_policy *p, double *ret, double *ret_lo, double *ret_hi,
    const char **ret_source)
{
	double hours = (double)o->own_node_us / (double)SPOT_US_PER_HOUR;
	double prior, shape, rate, lo, hi;
	const char *source;

	if (o->market != SPOT_MARKET_SPOT) {
		prior = p->on_demand_per_hour;
		source = "on-demand prior";
	} else if (o->advisor_lo >= 0) {
		prior = rate_from_monthly_share((o->advisor_lo + o->advisor_hi) / 2);
		source = "spot advisor";
	} else {
		prior = p->unknown_spot_per_hour;
		source = "wide prior";
	}
	shape = prior * p->prior_hours + o->own_reclaims;
	rate = p->prior_hours + hours;
	lo = gamma_quantile(shape, -1.645) / rate;
	hi = gamma_quantile(shape, 1.645) / rate;
	if (o->own_reclaims == 0 && hours < 1 && o->market == SPOT_MARKET_SPOT && o->advisor_lo >= 0) {
		/* Without a record of our own the bucket's own edges are part of the doubt. */
		lo = fmin(lo, rate_from_monthly_share(o->advisor_lo));
		hi = fmax(hi, rate_from_monthly_share(o->advisor_hi));
	}
	*ret = shape / rate;
	*ret_lo = fmin(lo, *ret);
	*ret_hi = fmax(hi, *ret);
	*ret_source = o->own_reclaims > 0 || hours >= 1 ? "own record and prior" : source;
}

double checkpoint_interval_s(double hazard_per_hour, double save_s)
{
	double i = sqrt(2.0 * fmax(save_s, 0.1) * 3600.0 / fmax(hazard_per_hour, 1e-9));

	return fmin(fmax(i, 30.0), 3600.0);
}
