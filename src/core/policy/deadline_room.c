/* Room before a deadline: the rules are in deadline_room.h. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/policy/deadline_room.h"

#include <math.h>

#define USUALLY_HAD 0.98
#define USUALLY_WEIGHT 3.0
#define SURE 0.05 /* share of searches that may take longer: one in 20 */
#define REGIONS_MOST 64
#define ROUNDS_MOST 64

/* ---- launches -------------------------------------------------------------------------------- */

struct region {
	const char *provider, *region;
	double refused; /* of its best pool */
};

struct regions {
	struct region list[REGIONS_MOST];
	size_t n;
};

static struct region *region_of(struct regions *x, const struct offer *o)
{
	for (size_t i = 0; i < x->n; i++) {
		if (strcmp(x->list[i].region, o->region) == 0 &&
		    strcmp(x->list[i].provider, o->provider) == 0) {
			return &x->list[i];
		}
	}
	if (x->n == REGIONS_MOST) {
		return NULL;
	}
	x->list[x->n] = (struct region){ o->provider, o->region, 1 };
	return &x->list[x->n++];
}

static void pool_seen(struct regions *x, const struct offer *o, struct launch_reserve *ret)
{
	double launches = o->record != NULL ? o->record->launches : o->own_launches;
	double refusals = o->record != NULL ? o->record->refusals : o->own_refusals;
	struct region *g = region_of(x, o);

	ret->launches += launches;
	ret->refusals += refusals;
	if (g != NULL) {
		g->refused = fmin(g->refused,
		    1 -
			(launches + USUALLY_HAD * USUALLY_WEIGHT) /
			    (launches + refusals + USUALLY_WEIGHT));
	}
}

static void pools_seen(const struct ranking *r, double within_h, struct regions *x,
    struct launch_reserve *ret)
{
	for (size_t i = 0; i < r->usable; i++) {
		if (r->scores[i].offer->market == SPOT_MARKET_ON_DEMAND &&
		    r->scores[i].hours <= within_h) {
			pool_seen(x, r->scores[i].offer, ret);
		}
	}
	for (size_t i = 0; i < r->refused_n; i++) {
		if (r->refused[i].offer->market == SPOT_MARKET_ON_DEMAND &&
		    r->refused[i].why == REFUSED_COOLING) {
			pool_seen(x, r->refused[i].offer, ret);
		}
	}
}

void launch_reserve_find(const struct ranking *r, double within_h, int64_t retry_us,
    int64_t retry_max_us, struct launch_reserve *ret)
{
	const struct backoff pauses = { .first_us = retry_us, .cap_us = retry_max_us };
	struct regions x = { .n = 0 };
	double all;

	*ret = (struct launch_reserve){ .refused = 1 };
	pools_seen(r, within_h, &x, ret);
	if (x.n == 0) {
		pools_seen(r, INFINITY, &x, ret);
	}
	for (size_t i = 0; i < x.n; i++) {
		ret->refused *= x.list[i].refused;
	}
	/* Adds refused rounds until the odds of so many refusals fall below one in 20. */
	all = ret->refused;
	for (int k = 0;
	     k < ROUNDS_MOST && x.n > 0 && all > SURE && ret->us < LAUNCH_RESERVE_MOST_US; k++) {
		ret->us += backoff_wait_us(&pauses, k, NULL);
		all *= ret->refused;
	}
	ret->us = MIN(ret->us, LAUNCH_RESERVE_MOST_US);
}

/* ---- spot ------------------------------------------------------------------------------------ */

int64_t spot_loss_us(const struct score *spot, const struct checkpoint_spec *k, int64_t left_us)
{
	struct score_terms t;

	if (k->path == NULL || k->interval_off) {
		return left_us;
	}
	score_explain(spot, &t);
	return MIN((int64_t)((t.interval_s + t.save_s) * (double)SPOT_US_PER_S), left_us);
}

static int64_t hours_us(double hours)
{
	return (int64_t)(hours * (double)SPOT_US_PER_HOUR);
}

const char *move_refused(struct arena *a, const struct move_in *in)
{
	int64_t left = in->deadline_us - in->now_us,
		need = in->save_us + hours_us(in->there->hours), work;
	char has[32], needs[32];

	if (in->deadline_us == 0) {
		return NULL;
	}
	if (spot_market_reclaims(in->there->offer->market)) {
		if (in->on_demand == NULL) {
			return "its deadline: no on-demand can be had to fall back on, should spot "
			       "be lost";
		}
		/* The worst case: the move, a reclaim with the largest loss, then on demand, whose
		 * hours contain a start. */
		work = hours_us(in->on_demand->hours);
		need = in->changeover_us + in->save_us +
		    spot_loss_us(in->there, in->checkpoint, work) + in->launch_us + work;
	}
	need += in->unsaved_us;
	if (need <= left) {
		return NULL;
	}
	return arena_printf(a, "its deadline: %s are left, the move could make it take %s",
	    format_duration(MAX(left, 0), has), format_duration(need, needs));
}

enum stay stay_judge(const struct stay_in *in)
{
	int64_t left = in->deadline_us - in->now_us,
		gone = in->left_us + in->changeover_us + in->save_us;
	struct score_terms t;

	score_explain(in->here, &t);
	if (hours_us(t.work_h + t.overhead_h) > left && gone < hours_us(in->here->hours)) {
		return STAY_TOO_SLOW;
	}
	if (in->left_us - in->clock_us + in->unsaved_us + in->changeover_us + in->launch_us >
		left &&
	    in->left_us - in->clock_us + in->save_us <= left) {
		return STAY_UNSAFE;
	}
	return STAY;
}
