/*
 * Expected dollars and hours per finished work. Pure: offers, policy, job and now go in, the usable
 * offers in order with every term come out. The same inputs give the same order on every run (ties
 * by pool id). The arithmetic is that of struct score_terms and of README.md. score.c computes it
 * for one offer, rank.c matches and sorts.
 *
 * - h: hazard per node-hour (hazard.h), with a 90 % interval
 * - t: throughput relative to the reference GPU ask, from the table and the job's own step rates
 * - i: save interval by Young (1974). Once the save time is measured, by Daly (2006, "A higher
 *   order estimate of the optimum checkpoint interval for restart dumps"). Only reclaims without a
 *   save count against it. With a deadline it is at most a quarter of the slack, so no reclaim can
 *   eat the rest.
 * - W: work hours here = work / t
 * - r: restart hours (machine, agent, restore, setup)
 * - l: lost hours per reclaim = (1 - notice_saves) i / 2; notice_saves is 0 if a save takes longer
 *   than the notice
 * - H: paid hours = (r + W (1 + d/i)) / (1 - h (l + r)), with n = h H reclaims
 * - w: hours until a launch succeeds = refused_s (1 - q) / q, with q the odds of one
 * - F: finish = H + (1 + n) w
 * - P: price per hour expected over F: now + move towards its faded mean + penalty for its age
 * - $: P H + egress of checkpoints restored and saved and of data read
 */
#ifndef CORE_RANKING_H
#define CORE_RANKING_H

#include "base/base.h"
#include "core/rank/offer.h"
#include "core/spec/spec.h"

struct arena;
struct sbuf;
struct gpu_perf;
/* NULL if not in the table (core/rank/tables.h) */
const struct gpu_perf *gpu_perf_find(const char *gpu);
/* Micro-dollars per GB leaving a region for another place; from the egress table; a default when
 * unknown. */
int64_t egress_micros_per_gb(const char *from_provider, const char *from_region,
    const char *to_provider, const char *to_region);

struct rank_policy {
	double prior_hours; /* weight of the prior in node-hours of exposure, 24 */
	double unknown_spot_per_hour; /* 0.10 */
	double on_demand_per_hour; /* 0.0005 */
	int64_t price_stale_penalty_pm; /* stale price: +per mille on price, 250 */
	int64_t restart_s; /* boot + enrol + restore without transfer, 240 */
	int64_t save_s; /* until the job's own is measured, 20 */
	int64_t default_work_s; /* job says nothing: 3600 */
	/* share of notices that come in time, for saves that are shorter than the notice; 0.9 */
	double notice_saves;
	int64_t
	    /* spot price that has not moved for long: +per mille on price, 20 */
	    price_frozen_penalty_pm;
	int64_t refused_s; /* time lost per refused launch, 60; 0 = none */
	/* a spot price goes 63 % of the way to its faded mean in this, 90 d; 0 = stays */
	int64_t price_reversion_s;
	double age_half_life_h; /* of our record of reclaims, 336 (hazard.h) */
	double odds_half_life_h; /* of our record of launches, 8 */
	/* of the part of a pool's own record that counts as current, 8 */
	double recent_half_life_h;
	/* from the end of a save until a pool's end: spare, 300 */
	int64_t ends_margin_s;
};
void rank_policy_default(struct rank_policy *p);

/* The job's measured speed on one kind of GPU. */
struct gpu_rate {
	const char *gpu; /* gpu_name of the pool */
	int32_t gpu_milli;
	double steps, hours;
};

struct rank_job { /* the current knowledge about the job */
	const struct job_spec *spec;
	int64_t work_left_s; /* on the reference; 0 = policy default */
	int64_t save_us; /* measured; 0 = unknown */
	int64_t checkpoint_bytes; /* measured or declared; 0 = unknown */
	const char *at_provider, *at_region; /* place of its checkpoint; NULL = none yet */
	bool spot_allowed, on_demand_allowed;
	/* it may wait in a provider's queue for its machine (market flex_start) */
	bool queue_allowed;
	/* measured: launch to running, without the wait for capacity; 0 = unknown */
	int64_t restart_us;
	const struct gpu_rate *rates; /* measured; rates_n 0 = unknown */
	size_t rates_n;
	/* place of checkpoint uploads; NULL = unknown */
	const char *store_provider, *store_region;
	/* nodes at once, for which the quota must have room. A reclaim of any stops all, which
	 * shortens the save interval. 0 and 1 = one */
	int32_t nodes;
	/* the score is of where it runs: no first start, launch, restore or reading */
	bool runs_there;
	int64_t deadline_us; /* absolute; 0 = none. Once it has passed it says nothing */
};
/* Seconds between a provider's notice and the end of a spot machine. */
double notice_s(const char *provider);
/* Lines "GPU milli steps hours", as the store gives them; NULL accepted. */
size_t gpu_rates_parse(struct arena *a, const char *text, const struct gpu_rate **ret);

/* The past of a price fades with this (migration 0010). */
#define PRICE_FADE_H 168.0
/* job, policy and cached look-ups, in the arena of the ranking */
struct rank_ctx;
/* A suitable offer and its expected cost. */
struct score {
	const struct offer *offer;
	int64_t total_micros, compute_micros, egress_micros;
	int64_t price_micros; /* per hour, expected over the run, with the penalty */
	/* per hour, in price_micros: the price is not known to be today's */
	int64_t penalty_micros;
	double hours; /* to finish, waits for capacity included */
	double paid_hours, work_h, throughput, interruptions;
	double hazard, hazard_lo, hazard_hi;
	const char *hazard_source;
	double odds; /* that a launch now succeeds; says nothing of reclaims */
	const struct rank_ctx *by; /* for score_explain; NULL in a score made by hand */
};

/* Every term of a score. Hours unless the name says otherwise; per hour = node-hour. The equations
 * hold exactly but for the rounding of doubles; money is rounded once per line and summed as
 * integers. */
struct score_terms {
	/* speed */
	double work_ref_h, work_h, throughput, throughput_table;
	double measured_h;
	const char *throughput_source; /* work_h = work_ref_h / throughput */
	/* saving */
	double save_s, interval_s;
	const char *interval_source;
	/* with a deadline, on spot: until it, less start_h, work_h and one restart; else 0 */
	double slack_h;
	double notice_s; /* of the provider */
	double overhead, overhead_h; /* save_s / interval_s; work_h * overhead */
	/* reclaims */
	/* in the score's hazard: the mean rise over work_h after reclaims of siblings */
	double hazard_raised;
	double notice_saves, lost_per_h, restart_per_h;
	const char *restart_source;
	double interruptions; /* hazard * paid_hours */
	double lost_h, restart_h; /* interruptions * lost_per_h, * restart_per_h */
	/* the first start: 1, 0 where it runs already; and one more, elsewhere, where the pool ends
	 * before the work; starts * restart_per_h */
	double starts, start_h;
	double paid_hours; /* start_h + work_h + overhead_h + lost_h + restart_h */
	/* waiting for capacity */
	double odds, odds_lo, odds_hi;
	const char *odds_source;
	/* refused_s / 3600 * (1 - odds) / odds; (starts + interruptions) * wait_per_h */
	double wait_per_h, wait_h;
	double hours; /* paid_hours + wait_h */
	/* price: price_micros = now + move + penalty */
	int64_t price_now_micros, price_mean_micros, price_move_micros, penalty_micros,
	    price_micros;
	/* hours until the pool ends, less what leaving takes; 0 = it does not end */
	double ends_h;
	double price_cover; /* observed share of the faded past, 0..1 */
	/* of the distance to the mean, the share that lasts over the run on average */
	double price_stay;
	double price_sd_micros; /* of the average price over the run */
	/* egress */
	/* one restore, one save, one reading of the data */
	int64_t restore_per_micros, upload_per_micros, data_per_micros;
	double restores, saves, data_reads;
	int64_t restore_micros, upload_micros, data_micros;
	int64_t compute_micros, egress_micros, total_micros;
	/* spread */
	double hazard_sd, paid_sd_h, hours_sd_h;
	double hours_p50, hours_p95, paid_p50_h, paid_p95_h;
	int64_t cost_p50_micros, cost_p95_micros;
};

enum refusal {
	REFUSED_NOT = 0,
	REFUSED_SPOT,
	REFUSED_ON_DEMAND,
	REFUSED_QUEUE,
	REFUSED_IMPLAUSIBLE,
	REFUSED_ASK,
	REFUSED_COOLING,
	REFUSED_CAPACITY,
	REFUSED_ODDS,
	REFUSED_QUOTA,
	REFUSED_ENDS,
	REFUSED_HAZARD
};
struct refused {
	const struct offer *offer;
	enum refusal why;
};

struct ranking {
	struct score *scores; /* usable, by total_micros, then pool id */
	size_t usable;
	struct refused *refused; /* by pool id */
	size_t refused_n;
	size_t spot_cooling; /* of them: spot pools that suit and cool down after a refusal */
	const struct rank_ctx *ctx;
};

struct hazard_model;
/* Writes the model's results into its offers, once per read of the market. */
void offers_believe(const struct hazard_model *m, struct offer *offers, size_t n);
/* Returns how long before its pool's end a machine must begin to save. */
int64_t rank_leave_us(const struct rank_policy *p, int64_t save_us);
/* Linear in the offers; sorting is by radix. The job's strings and arrays must outlive the
 * ranking. */
void rank_run(struct arena *a, const struct offer *offers, size_t n, const struct rank_job *job,
    const struct rank_policy *p, int64_t now_us, struct ranking *ret);
/* Like rank_run(), but keeps only the usable offers. */
void rank_offers(struct arena *a, const struct offer *offers, size_t n, const struct rank_job *job,
    const struct rank_policy *p, int64_t now_us, struct score **ret_scores, size_t *ret_usable);
/* Returns the score of one offer even if it does not suit or is cooling, for the place where a job
 * is. NULL: interruptions would eat the progress. */
const struct score *rank_one(struct arena *a, const struct offer *o, const struct rank_job *job,
    const struct rank_policy *p, int64_t now_us);
/* Returns the cheapest score of that market that finishes within these hours, else the fastest.
 * NULL: none is usable. */
const struct score *rank_in_time(const struct ranking *r, enum spot_market market, double within_h);
/* Returns whether a spot machine is fast enough for planning with a deadline. The policy measures
 * progress by the on-demand machine to fall back on, so spot must not be much slower. The exception
 * is enough time for a whole failed run on spot (with 95 %) and then the work on demand. NULL
 * on_demand: no fall-back, and any speed suits. */
#define DEADLINE_SPEED_LEAST 0.8
bool rank_speed_suits(const struct score *s, const struct score *on_demand, double within_h);
/* Returns whether a job with a deadline may be placed there. It must finish within these hours, and
 * a spot machine must be fast enough. */
bool rank_suits_deadline(const struct score *s, const struct score *on_demand, double within_h);
/* Returns the best of the ordered usable scores for a late job: the cheapest within 2 % of the
 * earliest finish. Spot counts with its 95 % quantile. NULL: none is usable. */
const struct score *rank_quickest(const struct score *scores, size_t n);
/* Returns why an offer is not usable, in words. */
const char *refusal_words(struct arena *a, const struct ranking *r, const struct refused *x);
/* Fills all terms of a score that rank_run() made. */
void score_explain(const struct score *s, struct score_terms *ret);
/* Returns the odds of more than these hours, from hours and hours_sd_h like hours_p95. */
double score_late_odds(const struct score_terms *t, double within_h);
json_t *score_terms_json(const struct score_terms *t);
/* Writes the same object into a buffer. */
void score_terms_put(struct sbuf *b, const struct score_terms *t);
json_t *rank_policy_json(const struct rank_policy *p);
/* One line of words. */
#define SCORE_WHY_MAX 256
void score_why(const struct score *s, char buf[SCORE_WHY_MAX]);
/* Quantile of a gamma distribution by mean and variance (Wilson and Hilferty, 1931), z the normal
 * score. */
double gamma_at(double mean, double var, double z);
/* Returns the throughput relative to the reference, from the table. The reference is count x GPU of
 * the first acceptable accelerator of the first ask. */
double rank_throughput(const struct job_spec *spec, const struct offer *o);
/* Return the speed of one GPU relative to the reference GPU: from the table, and updated by
 * measured rates, with the hours measured on it. */
double gpu_speed_table(const struct job_spec *spec, const char *gpu);
double gpu_speed(const struct rank_job *job, const char *gpu, double *ret_measured_h);
/* Returns the work left on the reference by the job's measured steps per hour, with the declared
 * work in proportion. Returns declared_s if nothing was measured. */
int64_t rank_work_left_s(const struct rank_job *job, int64_t steps_left, int64_t declared_s);
/* Returns the save interval of a job in seconds, from 30 s to 1 h. Only reclaims with a notice too
 * short for a save count. known: save_s is measured, so Daly's higher order pays. */
double save_interval_s(double hazard_per_hour, double notice_saves, double save_s, bool known,
    const char **ret_source);
/* Returns that interval for a job with this slack before its deadline: at most a quarter of it.
 * Each start bounds it again by the slack left. After n reclaims that each cost a whole interval
 * (3/4)^n of the slack is left; with a half it would be (1/2)^n. Saving never takes more than a
 * tenth of the time, since that would eat the slack by itself. Spot is not used if an interval does
 * not fit into the slack. */
double save_interval_slack_s(double interval_s, double slack_s, double save_s);

#endif
