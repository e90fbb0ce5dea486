/* A save in time, after siblings were reclaimed: the rule is in save_now.h. */
#include "base/base.h"
#include "core/policy/save_now.h"

#include <math.h>

#define HOURS_MAX 1.0

static double hours_of(int64_t us)
{
	return (double)us / (double)SPOT_US_PER_HOUR;
}

void save_now_judge(const struct save_now_in *in, struct save_now_out *ret)
{
	double price = (double)in->price_micros, next = hours_of(MAX(in->next_us, INT64_C(0)));

	*ret = (struct save_now_out){ .hours = fmin(next, HOURS_MAX) };
	ret->odds = -expm1(-(double)MAX(in->nodes, 1) *
	    (in->hazard_per_hour * ret->hours +
		rise_within(&sibling_fitted, &in->rise, ret->hours)));
	ret->cost_micros = llround(hours_of(MAX(in->save_us, INT64_C(0))) * price);
	ret->loss_micros = llround(ret->odds * fmax(1 - in->notice_saves, 0) *
	    hours_of(MAX(in->unsaved_us, INT64_C(0))) * price);
	if (!rise_any(&in->rise)) {
		ret->why = "no sibling was reclaimed";
	} else if (ret->loss_micros <= ret->cost_micros) {
		ret->why = "a save costs more than it is expected to keep";
	} else {
		ret->save = true;
		ret->why = "siblings were reclaimed: a save costs less than the expected loss";
	}
}
