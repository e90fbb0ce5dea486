/*
 * The world of the fleet simulation: pools with the capacity of recorded traces, the prices of
 * their time, and jobs of a published job list. Nothing in here decides anything. Everything is in
 * the arena that it was made in; the same inputs and seed make the same world. Time is microseconds
 * from the start of the simulation; epoch_us is when that was.
 */
#ifndef FLEETSIM_WORLD_H
#define FLEETSIM_WORLD_H

#include "base/base.h"

struct arena;

#define FS_STEP_US (60 * SPOT_US_PER_S)
#define FS_POOLS_MAX 96

struct fs_price {
	int64_t at_us, micros;
}; /* per hour; holds until the next one */

struct fs_pool {
	const char *provider, *region, *zone, *type, *gpu;
	int32_t gpu_milli, vcpus, mem_mib;
	enum spot_market market;
	double advisor_lo, advisor_hi; /* the provider's published range; lo < 0 none */
	int64_t notice_us; /* between the word and the end; 0 = none is given */
	/* Nodes that could be had, sample i for [i, i + 1) x gap_us of the trace's time, which
	 * begins again at its end. NULL: always. */
	const int32_t *room;
	size_t room_n;
	int32_t room_scale; /* a sample counts as so many nodes */
	int64_t gap_us, shift_us; /* trace time = simulated time + shift_us */
	const struct fs_price *prices;
	size_t prices_n;
	/* price time = simulated time + shift, modulo wrap when > 0 */
	int64_t price_shift_us, price_wrap_us;
};

struct fs_job {
	int64_t submit_us, work_us, deadline_us; /* 0 = none; absolute */
	const char *gpu; /* "V100": as a job file asks */
	int32_t gpus;
	int64_t checkpoint_bytes, save_us;
	const char *store_provider, *store_region;
};

struct fs_world {
	int64_t epoch_us;
	struct fs_pool pools[FS_POOLS_MAX];
	size_t pools_n;
	struct fs_job *jobs; /* by submit_us */
	size_t jobs_n;
	int64_t boot_us, restore_us; /* machine and agent; fetching the checkpoint and setup */
	double notice_heard; /* share of reclaims whose notice comes */
	uint64_t seed;
};

int32_t fs_room(const struct fs_pool *p, int64_t t); /* INT32_MAX: always */
int64_t fs_price(const struct fs_pool *p, int64_t t); /* micro-dollars per hour */
bool fs_suits(const struct fs_pool *p, const struct fs_job *j);
/* Uniform in [0, 1), a function of its arguments alone: every policy meets the same luck. */
double fs_luck(uint64_t seed, uint64_t a, uint64_t b);

#endif
