/*
 * Baselines, after the public description of SkyPilot's managed jobs (its documentation of managed
 * jobs and sky/jobs/recovery_strategy.py). A job asks the cheapest pool by today's price, whatever
 * its past. It strikes off a pool that refuses and asks the next one; after all it begins again. A
 * lost job is relaunched anywhere (EAGER_NEXT_REGION, the default) or in its old place (FAILOVER).
 * EAGER_NEXT_REGION leaves the lost region out of the first round. A job is saved at a fixed
 * interval, hears no notice, plans no deadline and never goes back from on demand to spot. The
 * model favours the baselines. Prices are today's (SkyPilot's catalog is hours old), a loss is seen
 * at once, and a round follows a failed one without a pause.
 */
#include "base/base.h"

#include "brains.h"

#define SAME_REGION_TRIES 3
#define INTERVAL_US (1800 * SPOT_US_PER_S)

struct round {
	uint64_t asked[FS_POOLS_MAX / 64 + 1];
	int32_t starts; /* of the task when the round began */
	int32_t same; /* tries left in the old region */
	bool skip;
	bool begun;
};

struct base {
	const struct base_conf *conf;
	struct round *rounds;
};

static void *base_init(struct fs_sim *s, const void *arg)
{
	struct base *b = arena_alloc(s->arena, sizeof(*b));

	b->conf = arg;
	b->rounds = arena_array(s->arena, s->w->jobs_n + 1, sizeof(*b->rounds));
	return b;
}

static bool was_asked(const struct round *r, size_t pool)
{
	return (r->asked[pool / 64] >> (pool % 64) & 1) != 0;
}

static bool old_region(const struct fs_sim *s, const struct fs_task *k, size_t pool)
{
	const struct fs_pool *p = &s->w->pools[pool], *old;

	if (k->last_pool < 0) {
		return false;
	}
	old = &s->w->pools[k->last_pool];
	return strcmp(p->provider, old->provider) == 0 && strcmp(p->region, old->region) == 0;
}

static bool may_ask(const struct fs_sim *s, const struct base *b, const struct fs_task *k,
    const struct round *r, size_t pool)
{
	const struct fs_pool *p = &s->w->pools[pool];
	bool spot = p->market == SPOT_MARKET_SPOT;

	if (!fs_suits(p, k->job) || was_asked(r, pool)) {
		return false;
	}
	if (b->conf->kind == BASE_ON_DEMAND) {
		return !spot;
	}
	if (r->same > 0) {
		return spot && old_region(s, k, pool);
	}
	return (spot || b->conf->or_on_demand) && !(r->skip && old_region(s, k, pool));
}

static int32_t cheapest_find(const struct fs_sim *s, const struct base *b, const struct fs_task *k,
    const struct round *r)
{
	int64_t least = INT64_MAX;
	int32_t ret = -1;

	for (size_t i = 0; i < s->w->pools_n; i++) {
		int64_t price =
		    may_ask(s, b, k, r, i) ? fs_price(&s->w->pools[i], s->t) : INT64_MAX;

		if (price < least) {
			least = price;
			ret = (int32_t)i;
		}
	}
	return ret;
}

static void round_begin(const struct base *b, const struct fs_task *k, struct round *r)
{
	bool lost = k->starts > 0 && (!r->begun || r->starts != k->starts);

	*r = (struct round){ .starts = k->starts, .begun = true };
	r->skip = lost && b->conf->kind == BASE_EAGER;
	r->same = lost && b->conf->kind == BASE_FAILOVER ? SAME_REGION_TRIES : 0;
}

static void task_step(struct fs_sim *s, struct base *b, size_t i)
{
	struct fs_task *k = &s->tasks[i];
	struct round *r = &b->rounds[i];
	int32_t pool;

	if (!r->begun || r->starts != k->starts) {
		round_begin(b, k, r);
	}
	pool = cheapest_find(s, b, k, r);
	if (pool < 0 && r->same > 0) {
		/* Its zones were all asked: the tries that are left ask the first ones again. */
		r->same--;
		memset(r->asked, 0, sizeof(r->asked));
		pool = cheapest_find(s, b, k, r);
	}
	if (pool < 0) {
		round_begin(b, k, r);
		pool = cheapest_find(s, b, k, r);
	}
	if (pool >= 0 && !fs_launch(s, i, pool, false)) {
		r->asked[pool / 64] |= UINT64_C(1) << (pool % 64);
		if (r->same > 0 && --r->same == 0) {
			memset(r->asked, 0, sizeof(r->asked));
		}
	}
}

static void base_step(struct fs_sim *s, void *self, int64_t t)
{
	for (size_t i = 0; i < s->w->jobs_n && s->w->jobs[i].submit_us <= t; i++) {
		if (s->tasks[i].state == FS_QUEUED && s->tasks[i].queued_us <= t) {
			task_step(s, self, i);
		}
	}
}

void base_brain(const char *name, const struct base_conf *conf, struct fs_brain *ret)
{
	*ret = (struct fs_brain){
		.name = name,
		.interval_us = conf->kind == BASE_ON_DEMAND ? 0 : INTERVAL_US,
		.init = base_init,
		.step = base_step,
		.arg = conf,
	};
}
