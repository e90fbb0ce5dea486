/*
 * Off-peak deferral: the best start of a job within the slack of its deadline. Pure. The pattern is
 * our record for each hour of the day (UTC): prices in force and refused launches. A pattern counts
 * in proportion to the days behind it, so a week of noise defers nothing. Nothing is deferred for
 * less than min_saving.
 */
#ifndef CORE_DEFER_H
#define CORE_DEFER_H

#include "base/base.h"

struct arena;

#define DEFER_HOURS 24

struct defer_hour { /* one hour of the day, over the days looked at */
	double price; /* mean price in force, any unit; 0 = not seen */
	int32_t days; /* days with a price */
	double launches, refusals; /* our own launches and their refusals */
};
struct defer_policy {
	int64_t min_saving_pm; /* of the expected cost; 50 */
	/* days of prices after which a pattern has half its weight; 5 */
	int64_t days_half;
	/* share of the slack that a job may wait; 500 */
	int64_t room_share_pm;
	int64_t longest_us; /* longest wait; 24 h */
};
void defer_policy_default(struct defer_policy *p);

struct defer_in {
	int64_t now_us;
	int64_t not_before_us; /* start_after; 0 = none */
	int64_t deadline_us; /* 0 = none: longest_us alone bounds the wait */
	int64_t run_us; /* expected time to finish, changeovers included */
	/* time to finish on demand: the slack ends this long before the deadline */
	int64_t safe_us;
	struct defer_hour hours[DEFER_HOURS];
};
struct defer_out {
	int64_t start_us; /* now_us (or not_before_us) means at once */
	double saving; /* as a share of the cost of an immediate start */
	const char *why;
};
void defer_decide(struct arena *a, const struct defer_in *in, const struct defer_policy *p,
    struct defer_out *ret);
/* Returns the estimated cost of an hour of the day relative to the day's mean, as defer_decide()
 * uses it. */
double defer_factor(const struct defer_in *in, const struct defer_policy *p, int hour);

#endif
