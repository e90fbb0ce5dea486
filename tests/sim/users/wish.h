/* The wishes of users: drawn per seed; work.c sends them. */
#ifndef SIM_WISH_H
#define SIM_WISH_H

#include "base/base.h"

#define WISH_LIMITS 2
enum wish_kind { WISH_JOB = 1, WISH_FLEET, WISH_REBALANCE, WISH_DEMAND };
struct wish_text {
	enum wish_kind kind;
	char text[1400];
	/* of the fleet, or the one that the job or the demand is for; NULL = none */
	const char *fleet;
	bool cancels; /* the job is cancelled, the fleet closed */
	bool timed; /* the job has a max_duration */
	int64_t at_us, cancel_after_us;
	/* Budgets that the user of a job that is not cancelled sets later, in micro-dollars, each
	 * so long after the one before. The last change lifts the budget when all is calm, or
	 * cancels the job, parked or not (gives_up). */
	bool gives_up;
	int64_t limits[WISH_LIMITS], limit_after_us[WISH_LIMITS];
	size_t limits_n;
};
/* Returns how many of them there are; at most max. */
size_t wishes_draw(struct wish_text *ret, size_t max, int64_t jobs, int64_t until_us);
/* wish_fleets.c: those of PROFILE_MOVING_FLEETS beside the others */
size_t wishes_moving(struct wish_text *ret, size_t max);

#endif
