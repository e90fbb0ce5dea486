/* See gang_wait.h. */
#include "base/base.h"
#include "core/place/gang_wait.h"

#include <math.h>

#define REFUSED_MOST 3.0 /* refused launches per machine, however bad the odds are */

static void bound_set(const struct gang_wait_in *in, struct gang_wait_out *ret)
{
	double refused =
		   in->odds > 0 ? fmin((1 - in->odds) / in->odds, REFUSED_MOST) : REFUSED_MOST,
	       n = in->want;
	int64_t price = MAX(in->price_micros, INT64_C(0));

	ret->anew_us = in->restart_us + llround((double)in->refused_us * fmax(refused, 0));
	ret->anew_micros =
	    llround(n * (double)price * (double)ret->anew_us / (double)SPOT_US_PER_HOUR);
	ret->hour_micros = (int64_t)(in->want - 1) * price;
	/* The price divides out. */
	ret->bound_us = MIN(llround(n / (n - 1) * (double)ret->anew_us), in->most_us);
}

static void wait_over(struct gang_wait_out *ret, const char *why)
{
	ret->what = GANG_WAIT_OVER;
	ret->why = why;
}

static void wait_begin(struct arena *a, const struct gang_wait_in *in, struct gang_wait_out *ret)
{
	if (in->gaps == 0) {
		ret->what = GANG_WAIT_NONE;
	} else if (in->other) {
		wait_over(ret, "another gang is being acquired already");
	} else if (in->gaps > 1) {
		wait_over(ret,
		    arena_printf(a, "%d of %d machines are gone: the place is short", (int)in->gaps,
			(int)in->want));
	} else if (in->unpaid != NULL) {
		wait_over(ret, in->unpaid);
	} else if (ret->bound_us < in->restart_us) {
		wait_over(ret, "its deadline does not leave the time that another machine takes");
	} else if (in->no_quota != NULL && in->stopping) {
		ret->what = GANG_WAIT_LATER; /* until the lost machine frees its quota */
		ret->why = in->no_quota;
	} else {
		ret->what = GANG_WAIT_BEGIN;
		ret->until_us = in->now_us + ret->bound_us;
	}
}

void gang_wait_judge(struct arena *a, const struct gang_wait_in *in, struct gang_wait_out *ret)
{
	*ret = (struct gang_wait_out){ .until_us = in->until_us, .why = "" };
	bound_set(in, ret);
	if (in->since_us == 0) {
		wait_begin(a, in, ret);
	} else if (in->other) {
		wait_over(ret, "another gang is being acquired already");
	} else if (in->gaps > 0) {
		wait_over(ret, "the place gave no other machine");
	} else if (in->ready < in->want && in->now_us >= in->until_us) {
		wait_over(ret, "no other machine came while the wait was cheaper than a new gang");
	} else {
		ret->what = GANG_WAIT_ON;
	}
}
