/* Supply tightness of a pool group: the formula is in tightness.h. */
#include "base/base.h"
#include "core/policy/tightness.h"

#include <math.h>

#define CALM_LAUNCHES 2.0
#define PRICE_FULL 0.5

static const char *const names[] = { [SUPPLY_STATE_NONE] = "?",
#define X(n, wire) [SUPPLY_##n] = (wire),
	SUPPLY_STATE_LIST(X)
#undef X
};

const char *supply_state_name(enum supply_state s)
{
	return (size_t)s < ARRAY_LEN(names) ? names[s] : "?";
}

enum supply_state supply_state_parse(const char *s)
{
	for (size_t i = 1; i < ARRAY_LEN(names); i++) {
		if (s != NULL && strcmp(names[i], s) == 0) {
			return (enum supply_state)i;
		}
	}
	return SUPPLY_STATE_NONE;
}

void tightness_policy_default(struct tightness_policy *p)
{
	*p = (struct tightness_policy){
		.w_refusals = 0.5,
		.w_reclaims = 0.3,
		.w_scores = 0.3,
		.w_price = 0.2,
		.tight_at = 0.35,
		.easy_at = 0.15,
		.window_us = SPOT_US_PER_HOUR,
		.hold_us = 900 * SPOT_US_PER_S,
	};
}

static double clamp_unit(double x)
{
	return fmin(fmax(x, 0), 1);
}

static void tightness_measure(const struct tightness_seen *s, const struct tightness_policy *p,
    struct tightness *t)
{
	double tries = (double)s->launches + s->refusals;
	double expected = s->node_hours * s->hazard_per_hour + 0.5;

	t->refusals = p->w_refusals * clamp_unit(s->refusals / (tries + CALM_LAUNCHES));
	t->reclaims = p->w_reclaims * clamp_unit(1 - exp2(-(double)s->reclaims / expected));
	t->scores = s->pools > 0 ? p->w_scores * clamp_unit((double)s->pools_out / s->pools) : 0;
	t->price = s->price > 0 && s->price_mean > 0
	    ? p->w_price * clamp_unit((s->price / s->price_mean - 1) / PRICE_FULL)
	    : 0;
	t->index = t->refusals + t->reclaims + t->scores + t->price;
}

void tightness_step(struct arena *a, const struct tightness *was, const struct tightness_seen *seen,
    const struct tightness_policy *p, int64_t now_us, struct tightness *ret)
{
	*ret = (struct tightness){ .state = was->state,
		.since_us = was->since_us,
		.calm_us = was->calm_us };
	tightness_measure(seen, p, ret);
	if (ret->index >= p->easy_at) {
		ret->calm_us = 0;
	} else if (ret->calm_us == 0) {
		ret->calm_us = now_us;
	}
	if (was->state == SUPPLY_STATE_NONE) {
		ret->state = ret->index >= p->tight_at ? SUPPLY_TIGHT : SUPPLY_EASY;
		ret->since_us = now_us;
	} else if (was->state == SUPPLY_EASY && ret->index >= p->tight_at) {
		ret->state = SUPPLY_TIGHT;
		ret->since_us = now_us;
	} else if (was->state == SUPPLY_TIGHT && ret->calm_us != 0 &&
	    now_us - ret->calm_us >= p->hold_us) {
		ret->state = SUPPLY_EASY;
		ret->since_us = now_us;
	}
	ret->why = arena_printf(a,
	    "%d of %d launches refused, %d reclaims in %.1f node-hours, %d of %d pools out, price "
	    "at "
	    "%.0f %% of its week: index %.2f",
	    seen->refusals, seen->launches + seen->refusals, seen->reclaims, seen->node_hours,
	    seen->pools_out, seen->pools,
	    seen->price_mean > 0 ? seen->price / seen->price_mean * 100 : 100, ret->index);
}
