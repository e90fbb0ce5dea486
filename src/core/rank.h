/*
 * Version one of the brain: expected dollars per finished work. Pure: offers, policy, job and now in;
 * ordered list with every term out; the same inputs give the same order on every run (ties by pool id).
 *
 *   h   hazard per node-hour: advisor prior (monthly share s -> -ln(1-s)/720 h, mid of the bucket, weight
 *       PRIOR_HOURS of exposure) updated by our own record: h = (h0*W + reclaims) / (W + node_hours).
 *       On-demand and reserved: ON_DEMAND_HAZARD. Unknown spot: wide prior. Eviction bands and preemption shares are
 *       no hazards: hazard.c says what is assumed to make them one, and gives them less weight.
 *   t   throughput relative to the reference GPU ask (gpu_perf table, fp16 dense TFLOPS x count).
 *   W   work hours on this offer = work / t.
 *   i   checkpoint interval = sqrt(2*d/h) (Young), clamped to [30 s, 1 h]; d = save time.
 *   n   expected interruptions = h * H;  lost = n * i/2 (with a notice long enough to save: n * (1-p_notice)*i/2);
 *       restart = n * r (r: boot + restore + replacement wait);  overhead = W*d/i.
 *   H   hours to finish = W*(1+d/i) + H*h*(lost_per + r)  ->  H = W*(1+d/i) / (1 - h*(lost_per + r)),
 *       refused when the denominator is <= 0.05 (it would hardly ever finish).
 *   $   = price * H + egress of checkpoints moved per interruption, and of data once.
 */
#ifndef CORE_RANK_H
#define CORE_RANK_H

#include "base/base.h"
#include "core/offer.h"
#include "core/jobspec.h"

struct arena;
struct gpu_perf;
const struct gpu_perf *gpu_perf_find(const char *gpu);      /* NULL if not in the table (core/tables.h) */
/* Micro-dollars per GB leaving a region for another place; from the egress table; a default when unknown. */
int64_t egress_micros_per_gb(const char *from_provider, const char *from_region, const char *to_provider,
    const char *to_region);

struct rank_policy {
	double prior_hours;            /* weight of the prior in node-hours of exposure, 100 */
	double unknown_spot_per_hour;  /* 0.10 */
	double on_demand_per_hour;     /* 0.0005 */
	int64_t price_stale_penalty_pm;/* stale price: +per mille on price, 250 */
	int64_t restart_s;             /* boot + enrol + restore without transfer, 240 */
	int64_t save_s;                /* until the job's own is measured, 20 */
	int64_t default_work_s;        /* job says nothing: 3600 */
	double notice_saves;           /* share of interruptions whose notice suffices to save, by market/provider; 0.9 */
	int64_t price_frozen_penalty_pm;/* spot price that has not moved for long: +per mille on price, 20 */
};
void rank_policy_default(struct rank_policy *p);

struct rank_job {                      /* what is known about the job now */
	const struct job_spec *spec;
	int64_t work_left_s;           /* on the reference; 0 = policy default */
	int64_t save_us;               /* measured; 0 = unknown */
	int64_t checkpoint_bytes;      /* measured or declared; 0 = unknown */
	const char *at_provider, *at_region; /* where its checkpoint/data is; NULL = nowhere yet */
	bool spot_allowed, on_demand_allowed;
};
struct score {
	const struct offer *offer;
	const char *refused;           /* NULL = usable */
	bool cooling;                  /* refused only because the pool rests after a refusal */
	double hazard, hazard_lo, hazard_hi; const char *hazard_source;
	double throughput, work_h, interval_s, overhead, interruptions, lost_h, restart_h, hours;
	int64_t price_micros;          /* with the penalty */
	int64_t compute_micros, egress_micros, total_micros;
	const char *why;               /* one line */
	double odds, odds_lo, odds_hi; const char *odds_source; /* that a launch now succeeds; says nothing of reclaims */
	int64_t penalty_micros;        /* per hour, in price_micros: the price is not known to be today's */
};
/* Hazard per hour with a 90 % interval (gamma posterior, normal approximation on sqrt scale). */
void hazard_estimate(const struct offer *o, const struct rank_policy *p, double *ret, double *ret_lo, double *ret_hi,
    const char **ret_source);
/* ret_scores: all offers; usable first, by total_micros, then refused. Cooling offers (cool_until > now) are
 * refused. Linear in offers plus a sort. */
void rank_offers(struct arena *a, const struct offer *offers, size_t n, const struct rank_job *job,
    const struct rank_policy *p, int64_t now_us, struct score **ret_scores, size_t *ret_usable);
/* The reference count x GPU: first acceptable accelerator of the first ask. */
double rank_throughput(const struct job_spec *spec, const struct offer *o);
/* Odds that a launch now succeeds, from what the provider says and our own launches. */
void launch_odds(const struct offer *o, double *ret, double *ret_lo, double *ret_hi, const char **ret_source);
/* Young interval for this hazard and save time, seconds, clamped. */
double checkpoint_interval_s(double hazard_per_hour, double save_s);

#endif
