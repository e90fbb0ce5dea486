/* Finds the best start of a job with slack before its deadline. The rules are in defer.h. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/policy/defer.h"

/* A refused launch costs about this share of an hour's price: the wait, and a more expensive boot
 * elsewhere. */
#define REFUSAL_COST 0.25
/* Launches after which an hour's share of refusals counts as much as the whole day's. */
#define TRIES_HALF 10.0

void defer_policy_default(struct defer_policy *p)
{
	*p = (struct defer_policy){
		.min_saving_pm = 50,
		.days_half = 5,
		.room_share_pm = 500,
		.longest_us = 24 * SPOT_US_PER_HOUR,
	};
}

static double price_mean(const struct defer_in *in)
{
	double sum = 0;
	int n = 0;

	for (int h = 0; h < DEFER_HOURS; h++) {
		sum += in->hours[h].price;
		n += in->hours[h].price > 0;
	}
	return n > 0 ? sum / n : 0;
}

static double refusal_share(const struct defer_in *in, int hour)
{
	double tries = 0, refused = 0, mean, n;

	for (int h = 0; h < DEFER_HOURS; h++) {
		tries += in->hours[h].launches + in->hours[h].refusals;
		refused += in->hours[h].refusals;
	}
	mean = tries > 0 ? refused / tries : 0;
	n = in->hours[hour].launches + in->hours[hour].refusals;
	return (in->hours[hour].refusals + TRIES_HALF * mean) / (n + TRIES_HALF) - mean;
}

double defer_factor(const struct defer_in *in, const struct defer_policy *p, int hour)
{
	const struct defer_hour *h = &in->hours[hour];
	double mean = price_mean(in), belief, ratio = 1;

	if (mean > 0 && h->price > 0) {
		belief = (double)h->days / (double)(h->days + p->days_half);
		ratio = 1 + belief * (h->price / mean - 1);
	}
	return ratio + REFUSAL_COST * refusal_share(in, hour);
}

/* Mean factor over [start, start + run), hour by hour. */
static double cost_from(const double factor[DEFER_HOURS], int64_t start_us, int64_t run_us)
{
	int64_t at = start_us, end = start_us + MAX(run_us, 1);
	double sum = 0;

	while (at < end) {
		int64_t next = MIN((at / SPOT_US_PER_HOUR + 1) * SPOT_US_PER_HOUR, end);

		sum += factor[(at / SPOT_US_PER_HOUR) % DEFER_HOURS] * (double)(next - at);
		at = next;
	}
	return sum / (double)MAX(run_us, 1);
}

static int64_t latest_start(const struct defer_in *in, const struct defer_policy *p, int64_t first)
{
	int64_t latest = first + p->longest_us, room;

	if (in->deadline_us != 0) {
		room = in->deadline_us - first - MAX(in->run_us, in->safe_us);
		latest = MIN(latest, first + MAX(room, 0) / 1000 * p->room_share_pm);
	}
	return latest;
}

void defer_decide(struct arena *a, const struct defer_in *in, const struct defer_policy *p,
    struct defer_out *ret)
{
	int64_t first = MAX(in->now_us, in->not_before_us), latest = latest_start(in, p, first);
	/* A run of many days sees every hour alike, so longer runs count as a week. */
	int64_t run = MIN(in->run_us, SPOT_US_PER_HOUR * 24 * 7);
	double factor[DEFER_HOURS], now_cost, best;
	char at[TIME_TEXT_MAX];

	for (int h = 0; h < DEFER_HOURS; h++) {
		factor[h] = defer_factor(in, p, h);
	}
	*ret = (struct defer_out){ .start_us = first, .why = "no cheaper hours are known" };
	now_cost = best = cost_from(factor, first, run);
	for (int64_t t = (first / SPOT_US_PER_HOUR + 1) * SPOT_US_PER_HOUR; t <= latest;
	     t += SPOT_US_PER_HOUR) {
		double c = cost_from(factor, t, run);

		if (c < best - 1e-9) {
			best = c;
			ret->start_us = t;
		}
	}
	ret->saving = now_cost > 0 ? (now_cost - best) / now_cost : 0;
	if (ret->start_us == first) {
		return;
	}
	if (ret->saving * 1000 < (double)p->min_saving_pm) {
		ret->start_us = first;
		ret->why =
		    arena_printf(a, "waiting for cheaper hours would save %.1f %%: not worth it",
			ret->saving * 100);
		return;
	}
	ret->why =
	    arena_printf(a, "begins at %s, when prices and supply were %.1f %% better on past days",
		format_time_s(ret->start_us, at), ret->saving * 100);
}
