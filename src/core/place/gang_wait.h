/*
 * A gang that lost one machine (config.spotctl.elastic: replace): do the others wait for another
 * one in the same place? Pure. Without the wait all machines go back and N new ones are acquired:
 *
 *     anew_us = restart_us + refused_us * (1 - odds) / odds    (the last factor at most 3)
 *     anew    = N * price * anew_us
 *     wait    = (N - 1) * price * time
 *
 * The others wait until the wait has cost what acquiring anew would cost, that is
 * N / (N - 1) * anew_us. They go back sooner if the place gives no machine, or another one goes.
 */
#ifndef CORE_GANG_WAIT_H
#define CORE_GANG_WAIT_H

#include "base/base.h"

struct gang_wait_in {
	int32_t want; /* machines of the gang, above 1 */
	int32_t gaps; /* ranks without a machine, or whose machine leaves */
	int32_t ready; /* of the others and the new one */
	bool stopping; /* some ranks still save or stop */
	bool other; /* the job acquires another gang already */
	int64_t price_micros; /* of a machine, per hour */
	int64_t restart_us; /* launch to running */
	int64_t refused_us; /* lost per refused launch */
	double odds; /* 0..1 that a launch now succeeds there */
	int64_t most_us; /* a longer wait endangers the deadline; INT64_MAX = none */
	const char *no_quota; /* for one more machine beside the lost one; NULL = there is */
	const char *unpaid; /* the budget does not pay for another machine; NULL = it does */
	int64_t since_us, until_us; /* the wait under way; 0 = none */
	int64_t now_us;
};
enum gang_wait_do {
	GANG_WAIT_NONE = 1, /* nothing to do */
	GANG_WAIT_LATER, /* not yet */
	GANG_WAIT_BEGIN, /* seek one machine, until until_us */
	GANG_WAIT_ON,
	GANG_WAIT_OVER /* the gang goes back */
};
struct gang_wait_out {
	enum gang_wait_do what;
	int64_t anew_us, anew_micros; /* cost of acquiring the gang anew */
	int64_t hour_micros; /* an hour of waiting */
	int64_t bound_us; /* of the wait */
	int64_t until_us;
	const char *why; /* of LATER and OVER; in the arena */
};
void gang_wait_judge(struct arena *a, const struct gang_wait_in *in, struct gang_wait_out *ret);

#endif
