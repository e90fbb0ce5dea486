/* The synthetic world of the simulation's tests: see sim_world.h. */
#include "unit.h"

#include "sim_world.h"

#include "base/base.h"

#define JOBS 24

static void pool_make(struct arena *a, struct rng *r, struct fs_pool *p, const char *region,
    int64_t price)
{
	int32_t *room = arena_array(a, WORLD_SAMPLES, sizeof(*room)), now = 3;
	struct fs_price *prices = arena_array(a, 50, sizeof(*prices));

	for (size_t i = 0; i < WORLD_SAMPLES; i++) {
		now = rng_below(r, 8) == 0 ? (int32_t)rng_below(r, 5) : now;
		room[i] = now;
	}
	for (int64_t i = 0; i < 50; i++) {
		prices[i] = (struct fs_price){ i * 7 * SPOT_US_PER_HOUR + 13,
			price + (int64_t)rng_below(r, 300000) };
	}
	*p = (struct fs_pool){ .provider = "aws",
		.region = region,
		.zone = region,
		.type = "p3.2xlarge",
		.gpu = "V100-16GB",
		.gpu_milli = 1000,
		.vcpus = 8,
		.mem_mib = 65536,
		.market = SPOT_MARKET_SPOT,
		.advisor_lo = 0.2,
		.advisor_hi = 1,
		.notice_us = 120 * SPOT_US_PER_S,
		.room = room,
		.room_n = WORLD_SAMPLES,
		.room_scale = 1,
		.gap_us = 600 * SPOT_US_PER_S,
		.prices = prices,
		.prices_n = 50 };
}

static void jobs_make(struct arena *a, struct rng *r, struct fs_world *w)
{
	w->jobs_n = JOBS;
	w->jobs = arena_array(a, JOBS, sizeof(*w->jobs));
	for (size_t i = 0; i < JOBS; i++) {
		struct fs_job *j = &w->jobs[i];

		*j = (struct fs_job){ .submit_us = (int64_t)i * 1500 * SPOT_US_PER_S + 7,
			.gpu = "V100",
			.gpus = 1,
			.work_us = (int64_t)(600 + rng_below(r, 20000)) * SPOT_US_PER_S,
			.checkpoint_bytes = 3000000000,
			.save_us = WORLD_SAVE_US,
			.store_provider = "aws",
			.store_region = "us-east-1" };
		j->deadline_us = i % 2 == 0 ? j->submit_us + 2 * j->work_us + SPOT_US_PER_HOUR : 0;
	}
}

void world_make(struct arena *a, uint64_t seed, struct fs_world *w)
{
	static const char *const regions[] = { "us-east-1", "us-east-2", "us-west-2" };
	struct fs_price *od = arena_alloc(a, sizeof(*od));
	struct rng r;

	rng_seeded_init(&r, seed);
	*w = (struct fs_world){ .epoch_us = INT64_C(1760000000000000),
		.pools_n = 4,
		.boot_us = 180 * SPOT_US_PER_S,
		.restore_us = 60 * SPOT_US_PER_S,
		.notice_heard = 0.9,
		.seed = seed };
	for (size_t i = 0; i < 3; i++) {
		pool_make(a, &r, &w->pools[i], regions[i], 700000 + 200000 * (int64_t)i);
	}
	*od = (struct fs_price){ 0, 3060000 };
	w->pools[3] = w->pools[0];
	w->pools[3].market = SPOT_MARKET_ON_DEMAND;
	w->pools[3].room = NULL;
	w->pools[3].advisor_lo = w->pools[3].advisor_hi = -1;
	w->pools[3].prices = od;
	w->pools[3].prices_n = 1;
	jobs_make(a, &r, w);
}

int64_t dollars_check(const struct fs_sim *s)
{
	int64_t micros = 0;
	double sum = 0;

	for (size_t i = 0; i < s->nodes_n; i++) {
		const struct fs_node *n = &s->nodes[i];
		const struct fs_pool *p = &s->w->pools[n->pool];

		assert_true(n->ended_us > n->launched_us);
		micros += fs_node_cost(s->w, n, s->t);
		/* Second by second, the price in force at its minute. */
		for (int64_t t = n->launched_us; t < n->ended_us; t += SPOT_US_PER_S) {
			int64_t minute = t / FS_STEP_US * FS_STEP_US, k = (int64_t)p->prices_n - 1;

			while (k > 0 && p->prices[k].at_us > MAX(minute, n->launched_us)) {
				k--;
			}
			sum += (double)p->prices[k].micros *
			    (double)MIN(SPOT_US_PER_S, n->ended_us - t) / 3.6e9;
		}
	}
	assert_true(micros > 0);
	assert_float_equal((double)micros, sum, (double)s->nodes_n + 1);
	return micros;
}
