/*
 * The wishes of a seed in which fleets move. One fleet has a fixed size and jobs that work for
 * long. One follows a demand and its queue. One has hours and expires. The dice are their own.
 */
#include "sim/users/wish.h"
#include "sim/world/world.h"

#include "base/base.h"

#define MINUTE_US (60 * SPOT_US_PER_S)
#define RESOURCES \
	"team: research\nproject: sim\nresources:\n" \
	"  accelerators: {A10G: 1, L4: 1, T4: 1}\n  use_spot: true\n"

static struct rng dice_own;

static int64_t own_between(int64_t from, int64_t to)
{
	return from + (int64_t)rng_below(&dice_own, (uint64_t)(to - from + 1));
}

static int64_t own_us(int64_t from_s, int64_t to_s)
{
	return own_between(from_s * SPOT_US_PER_S, to_s * SPOT_US_PER_S);
}

/* Its nodes go on demand, back, and to cheaper pools, within its budget of disruption. */
static void sail_draw(struct wish_text *w)
{
	int64_t at_once = own_between(1, 2);

	*w = (struct wish_text){ .kind = WISH_FLEET,
		.fleet = "sail",
		.at_us = own_us(5, 60),
		.cancels = true,
		.cancel_after_us = own_us(1800, 2300) };
	snprintf(w->text, sizeof(w->text),
	    "name: sail\nnodes: %" PRId64 "\npools_min: %" PRId64 "\non_demand_floor: %" PRId64
	    "\nrebalance: {at_once: %" PRId64 ", per_zone: %" PRId64 ", per_hour: %" PRId64
	    "}\n" RESOURCES,
	    own_between(3, 4), own_between(1, 2), own_between(0, 1), at_once,
	    own_between(1, at_once), own_between(3, 12));
}

static void tide_draw(struct wish_text *w)
{
	*w = (struct wish_text){ .kind = WISH_FLEET,
		.fleet = "tide",
		.at_us = own_us(5, 60),
		.cancels = true,
		.cancel_after_us = own_us(2000, 2300) };
	snprintf(w->text, sizeof(w->text),
	    "name: tide\nnodes: {min: 0, max: %" PRId64 "}\nidle_timeout: %" PRId64
	    "s\nscale: {wait: 5s, cooldown: 20s}\n" RESOURCES,
	    own_between(3, 4), own_between(40, 90));
}

/* The world begins at midnight. */
static void shift_draw(struct wish_text *w)
{
	*w = (struct wish_text){ .kind = WISH_FLEET, .fleet = "shift", .at_us = own_us(5, 60) };
	snprintf(w->text, sizeof(w->text),
	    "name: shift\nnodes: {min: 1, max: 2}\nidle_timeout: 60s\nexpires: %" PRId64
	    "m\nschedule: {up: \"Mon-Sun 00:%02" PRId64 "\", down: \"00:%02" PRId64
	    "\", tz: UTC}\n" RESOURCES,
	    own_between(20, 30), own_between(3, 6), own_between(12, 18));
}

static void demand_draw(struct wish_text *w, int64_t at_us)
{
	*w = (struct wish_text){ .kind = WISH_DEMAND, .fleet = "tide", .at_us = at_us };
	snprintf(w->text, sizeof(w->text), "{\"replicas\": %" PRId64 ", \"ttl_s\": %" PRId64 "}",
	    own_between(0, 6), own_between(60, 240));
}

/* It saves seldom, so that a burst of reclaims may ask for a save. */
static void job_draw(struct wish_text *w, size_t k, const char *fleet, int64_t at_us, int64_t steps)
{
	*w = (struct wish_text){ .kind = WISH_JOB, .fleet = fleet, .at_us = at_us };
	snprintf(w->text, sizeof(w->text),
	    "name: moved-%zu\nresources:\n  accelerators: {A10G: 1, L4: 1, T4: 1}\n"
	    "  use_spot: true\nrun: |\n  steps=%" PRId64 " step_ms=2000 save_ms=%" PRId64
	    "\nconfig:\n  spotctl:\n    team: research\n    project: sim\n    class: training\n"
	    "    fleet: %s\n    checkpoint: {path: ckpt, signal: USR1, interval: 1h, budget: "
	    "30s}\n",
	    k, steps, own_between(100, 1500), fleet);
}

size_t wishes_moving(struct wish_text *ret, size_t max)
{
	size_t n = 0;

	rng_seeded_init(&dice_own, world.conf.seed ^ UINT64_C(0x510e527fade682d1));
	assert(max >= 16);
	sail_draw(&ret[n++]);
	tide_draw(&ret[n++]);
	shift_draw(&ret[n++]);
	for (size_t k = 0; k < 3; k++) {
		job_draw(&ret[n], n, "sail", own_us(60, 300), own_between(300, 800));
		n++;
	}
	for (size_t k = 0; k < 2; k++) {
		job_draw(&ret[n], n, "tide", own_us(200, 1500), own_between(30, 100));
		n++;
	}
	for (int64_t k = 0; k < 4; k++) {
		demand_draw(&ret[n++], (2 + 8 * k) * MINUTE_US + own_us(0, 240));
	}
	for (int64_t k = 0; k < 2; k++) {
		ret[n++] = (struct wish_text){ .kind = WISH_REBALANCE,
			.at_us = (9 + 12 * k) * MINUTE_US + own_us(0, 240),
			.text = "{}" };
	}
	return n;
}
