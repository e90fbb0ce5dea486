/*
 * Draws jobs of all kinds: alone, gangs, with deadlines, not to be interrupted. Some run on a
 * fleet, with one of higher priority behind them. Also draws fleets that are closed again, and
 * passes of rebalancing on request.
 */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/world/profiles.h"
#include "sim/users/wish.h"

#include "base/text/text.h"

static const char *const gpus[] = { "L4: 1", "A10G: 1", "T4: 1", "H100: 1", "A10: 1" };
#define GPUS_WIDE 3 /* the first of them exist in several pools of a zone */

static bool one_in(uint64_t n)
{
	return rng_below(&world.dice, n) == 0;
}

struct job_draw {
	const char *gpu, *fleet;
	bool spot, saves, fails, stays;
	int64_t nodes, steps, step_ms, priority, slack_s;
};

/* Of other dice, so that all else falls as it does. */
static uint64_t wish_draw(size_t k, uint64_t salt)
{
	return (world.conf.seed + 1 + (uint64_t)k * 1000003 + salt) * UINT64_C(0x9e3779b97f4a7c15);
}

/* A quarter of the jobs that fail may do so once or twice more. */
static int64_t restarts_of(size_t k)
{
	uint64_t h = wish_draw(k, 0);

	return (h >> 40) % 4 == 0 ? (int64_t)(1 + (h >> 50) % 2) : 0;
}

/* Of a gang that fails, half by one rank; of these half when their work is done, and another may
 * have ended well by then. */
static const char *gang_fails(size_t k)
{
	if ((wish_draw(k, 402) >> 40) % 2 != 0) {
		return "";
	}
	return (wish_draw(k, 403) >> 40) % 2 == 0 ? " fail_rank=1 fail_last=1" : " fail_rank=1";
}

static int64_t wish_between(size_t k, uint64_t salt, int64_t from, int64_t to)
{
	return from + (int64_t)((wish_draw(k, salt) >> 24) % (uint64_t)(to - from + 1));
}

/* In seeds in which gangs become dear as they gather (gang_dear) all jobs are gangs, and each has a
 * budget. */
static bool gangs_alone(void)
{
	return profile_is(PROFILE_DEAR_GANGS);
}

/* Whether the job has a budget: a fifth of the jobs that save, of gangs a third. The budget is the
 * cost of some minutes of a machine like theirs. It may be too little to begin, and is raised. If
 * it is enough, it is lowered so that it is spent sooner, and may be too little once more. */
static bool is_limited(size_t k, const struct job_draw *d)
{
	return d->saves && d->slack_s == 0 &&
	    (wish_draw(k, 77) >> 40) %
		(gangs_alone()         ? 1
			: d->nodes > 1 ? 3
				       : 5) ==
	    0;
}

/* 470 s are the least to begin with. In some worlds half of the gangs have hardly more of spot's
 * cost. Nothing is left then for a machine that is lost as they gather. */
static int64_t budget_s(size_t k, const struct job_draw *d)
{
	bool little =
	    d->nodes > 1 && profile_is(PROFILE_SMALL_BUDGETS) && (wish_draw(k, 105) >> 40) % 2 == 0;

	return little ? wish_between(k, 100, 3 * 60, 8 * 60)
		      : wish_between(k, 100, 8 * 60, 60 * 60);
}

/* max_duration of a job; 0 = none. In some seeds most jobs have one, and half of these are shorter
 * than the job. In some it is so short that it is over once the job has moved. */
static int64_t longest_s(size_t k, const struct job_draw *d, int64_t work_s)
{
	if (!profile_is(PROFILE_TIMED) || d->slack_s > 0 || (wish_draw(k, 500) >> 40) % 3 == 0) {
		return 0;
	}
	return MAX(work_s * wish_between(k, 501, 30, 130) / 100, 20);
}

static int64_t hour_micros(const struct job_draw *d)
{
	int64_t one = strstr(d->gpu, ": 8") != NULL ? 20000000
	    : str_prefix(d->gpu, "H100")            ? 3000000
	    : strcmp(d->gpu, "A10: 1") == 0         ? 1300000
						    : 400000;

	return one * d->nodes;
}

/* A gang is cancelled a little more often, then mostly while it runs. */
static void cancel_draw(struct wish_text *w, size_t k, const struct job_draw *d)
{
	w->cancels = one_in(8);
	/* Half of them while the machine is still to come. */
	w->cancel_after_us = one_in(2)
	    ? dice_us(SPOT_US_PER_S, 120 * SPOT_US_PER_S)
	    : dice_us(SPOT_US_PER_S, (world.conf.small ? 300 : 900) * SPOT_US_PER_S);
	if (d->nodes > 1 && (wish_draw(k, 400) >> 40) % 4 == 0) {
		w->cancels = true;
		w->cancel_after_us =
		    wish_between(k, 401, 100, world.conf.small ? 300 : 500) * SPOT_US_PER_S;
	}
}

static void limits_draw(struct wish_text *w, size_t k, const struct job_draw *d)
{
	static const int64_t minutes[WISH_LIMITS][2] = { { 3, 12 }, { 6, 40 } };

	for (size_t i = 0; i < WISH_LIMITS; i++) {
		w->limits[i] = hour_micros(d) *
		    wish_between(k, 200 + i, minutes[i][0] * 60, minutes[i][1] * 60) / 3600;
		w->limit_after_us[i] = wish_between(k, 300 + i, 60, 300) * SPOT_US_PER_S;
	}
	w->limits_n = WISH_LIMITS;
	w->gives_up = (wish_draw(k, 403) >> 40) % 3 == 0;
}

static void job_text(struct wish_text *w, size_t k, const struct job_draw *d)
{
	struct sbuf b AUTO(sbuf);
	int64_t work_s = d->steps * d->step_ms / 1000 + 1,
		steps = is_limited(k, d) || profile_is(PROFILE_LONG_JOBS) ? 3 * d->steps : d->steps;

	sbuf_init(&b, sizeof(w->text));
	sbuf_printf(&b, "name: job-%zu\n", k);
	if (d->nodes > 1) {
		sbuf_printf(&b, "num_nodes: %" PRId64 "\n", d->nodes);
	}
	sbuf_printf(&b, "resources:\n  accelerators: {%s}\n  use_spot: %s\n", d->gpu,
	    d->spot ? "true" : "false");
	if (d->priority != 0) {
		sbuf_printf(&b, "  priority: %" PRId64 "\n", d->priority);
	}
	sbuf_printf(&b, "run: |\n  steps=%" PRId64 " step_ms=%" PRId64 " save_ms=%" PRId64 "%s%s\n",
	    steps, d->step_ms, dice_us(100, 20000), d->fails ? " fail_at=1" : "",
	    d->fails && d->nodes > 1 ? gang_fails(k) : "");
	sbuf_printf(&b,
	    "config:\n  spotctl:\n    team: research\n    project: sim\n    class: training\n");
	if (d->fails && restarts_of(k) > 0) {
		sbuf_printf(&b, "    max_restarts: %" PRId64 "\n", restarts_of(k));
	}
	if (d->nodes > 1 && profile_is(PROFILE_ELASTIC)) {
		sbuf_printf(&b, "    elastic: replace\n");
	}
	if (d->stays) {
		sbuf_printf(&b, "    interruptible: false\n");
	}
	if (d->fleet != NULL) {
		sbuf_printf(&b, "    fleet: %s\n", d->fleet);
	}
	w->timed = longest_s(k, d, work_s) > 0;
	if (w->timed) {
		sbuf_printf(&b, "    max_duration: %" PRId64 "s\n", longest_s(k, d, work_s));
	}
	if (d->slack_s > 0) {
		sbuf_printf(&b, "    work: %" PRId64 "s\n    deadline: %" PRId64 "s\n", work_s,
		    work_s + d->slack_s);
	}
	if (d->saves) {
		sbuf_printf(&b,
		    "    checkpoint: {path: ckpt, signal: USR1, interval: %ds, budget: 30s}\n",
		    world.conf.small ? 45 : 120);
	}
	if (is_limited(k, d)) {
		sbuf_printf(&b, "    budget: %.6f\n",
		    (double)hour_micros(d) * (double)budget_s(k, d) / 3600 / 1e6);
		limits_draw(w, k, d);
	}
	assert(b.n < sizeof(w->text));
	memcpy(w->text, b.p, b.n);
	w->text[b.n] = '\0';
	w->kind = WISH_JOB;
	w->fleet = d->fleet;
	cancel_draw(w, k, d);
}

/* In worlds with CoreWeave, half of the jobs want whole servers, which only it has. Only Lambda has
 * A10s: in a world without it nobody does. */
static const char *gpu_draw(size_t of)
{
	static const char *const servers[] = { "A100-80GB: 8", "L40S: 8", "H100: 8" };
	const char *gpu;

	if (cloud_is_here("coreweave") && one_in(2)) {
		return servers[rng_below(&world.dice, ARRAY_LEN(servers))];
	}
	gpu = gpus[rng_below(&world.dice, of)];
	return strcmp(gpu, "A10: 1") == 0 && !cloud_is_here("lambda") ? "A10G: 1" : gpu;
}

static void job_draw(struct wish_text *w, size_t k)
{
	struct job_draw d = { .gpu = gpu_draw(ARRAY_LEN(gpus)),
		.steps = world.conf.small ? dice_us(40, 120) : dice_us(20, 200),
		.step_ms = world.conf.small ? dice_us(800, 3500) : dice_us(500, 5000),
		.nodes = 1,
		.spot = true,
		.saves = !one_in(5),
		.fails = one_in(12) };

	switch (gangs_alone() ? 0 : rng_below(&world.dice, 8)) {
	case 0:
	case 1:
		d.nodes = dice_us(2, 3);
		d.gpu = gpu_draw(GPUS_WIDE);
		break;
	case 2:
		d.slack_s = dice_us(900, 3600);
		break;
	case 3:
		d.stays = true;
		break;
	case 4:
		d.spot = false;
		break;
	default:
		break;
	}
	job_text(w, k, &d);
}

/* Half of them follow their queue, with spans short enough for a world. */
static void fleet_draw(struct wish_text *w)
{
	int64_t nodes = profile_is(PROFILE_LARGE_CREWS) ? dice_us(5, 9)
	    : one_in(3)                                 ? dice_us(2, 3)
							: 1;
	char size[160];

	snprintf(size, sizeof(size), "%" PRId64, nodes);
	if (one_in(2)) {
		snprintf(size, sizeof(size),
		    "{min: 0, max: %" PRId64 "}\nidle_timeout: 40s\nscale: {wait: 5s, cooldown: "
		    "20s}",
		    nodes);
	}
	snprintf(w->text, sizeof(w->text),
	    "name: crew\nnodes: %s\nteam: research\nproject: sim\nresources:\n"
	    "  accelerators: {A10G: 1, L4: 1, T4: 1}\n  use_spot: true\n",
	    size);
	w->kind = WISH_FLEET;
	w->fleet = "crew";
	w->cancels = true;
	w->cancel_after_us =
	    dice_us(60 * SPOT_US_PER_S, (world.conf.small ? 400 : 1200) * SPOT_US_PER_S);
}

/* On the fleet: one works, one of higher priority comes. */
static void crew_draw(struct wish_text *w, size_t k, bool high)
{
	struct job_draw d = { .gpu = "A10G: 1, L4: 1, T4: 1",
		.fleet = "crew",
		.steps = high          ? dice_us(20, 60)
		    : world.conf.small ? dice_us(60, 150)
				       : dice_us(200, 600),
		.step_ms = dice_us(800, 3000),
		.nodes = 1,
		.spot = true,
		.saves = true,
		.priority = high ? 500 : 0 };

	job_text(w, k, &d);
	w->cancels = w->cancels && high;
}

size_t wishes_draw(struct wish_text *ret, size_t max, int64_t jobs, int64_t until_us)
{
	size_t n = 0;

	for (; (int64_t)n < jobs && n < max; n++) {
		ret[n] = (struct wish_text){ .at_us = dice_us(5 * SPOT_US_PER_S, until_us) };
		job_draw(&ret[n], n);
	}
	if ((one_in(world.conf.small ? 12 : 5) || profile_is(PROFILE_LARGE_CREWS)) &&
	    n + 3 <= max) {
		int64_t begin = dice_us(SPOT_US_PER_S, until_us / 4);

		for (size_t k = 0; k < 3; k++) {
			ret[n + k] = (struct wish_text){ .at_us = begin +
				    (int64_t)k * dice_us(SPOT_US_PER_S, until_us / 3) };
		}
		fleet_draw(&ret[n]);
		crew_draw(&ret[n + 1], n + 1, false);
		crew_draw(&ret[n + 2], n + 2, true);
		n += 3;
	}
	if (one_in(world.conf.small ? 12 : 6) && n < max) {
		ret[n++] = (struct wish_text){ .kind = WISH_REBALANCE,
			.at_us = dice_us(until_us / 2, until_us),
			.text = "{}" };
	}
	if (profile_is(PROFILE_MOVING_FLEETS)) {
		n += wishes_moving(ret + n, max - n);
	}
	return n;
}
