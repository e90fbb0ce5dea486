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

struct base {
	const struct base_conf *conf;
	struct base_round *rounds;
};

static void *base_init(struct fs_sim *s, const void *arg)
{
	struct base *b = arena_alloc(s->arena, sizeof(*b));

	b->conf = arg;
	b->rounds = arena_array(s->arena, s->w->jobs_n + 1, sizeof(*b->rounds));
	return b;
}

static bool was_asked(const struct base_round *r, size_t pool)
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

static bool may_ask(const struct fs_sim *s, const struct base_conf *c, const struct fs_task *k,
    const struct base_round *r, size_t pool)
{
	const struct fs_pool *p = &s->w->pools[pool];
	bool spot = p->market == SPOT_MARKET_SPOT;

	if (!fs_suits(p, k->job) || was_asked(r, pool)) {
		return false;
	}
	if (c->kind == BASE_ON_DEMAND) {
		return !spot;
	}
	if (r->same > 0) {
		return spot && old_region(s, k, pool);
	}
	return (spot || c->or_on_demand) && !(r->skip && old_region(s, k, pool));
}

static int32_t cheapest_find(const struct fs_sim *s, const struct base_conf *c,
    const struct fs_task *k, const struct base_round *r)
{
	int64_t least = INT64_MAX;
	int32_t ret = -1;

	for (size_t i = 0; i < s->w->pools_n; i++) {
		int64_t price =
		    may_ask(s, c, k, r, i) ? fs_price(&s->w->pools[i], s->t) : INT64_MAX;

		if (price < least) {
			least = price;
			ret = (int32_t)i;
		}
	}
	return ret;
}

static void round_begin(const struct base_conf *c, const struct fs_task *k, struct base_round *r)
{
	bool lost = k->starts > 0 && (!r->begun || r->starts != k->starts);

	*r = (struct base_round){ .starts = k->starts, .begun = true };
	r->skip = lost && c->kind == BASE_EAGER;
	r->same = lost && c->kind == BASE_FAILOVER ? SAME_REGION_TRIES : 0;
}

void base_seek(struct fs_sim *s, const struct base_conf *c, const struct fs_task *k,
    struct base_round *r, bool (*launch)(void *ctx, int32_t pool), void *ctx)
{
	int32_t pool;

	if (!r->begun || r->starts != k->starts) {
		round_begin(c, k, r);
	}
	pool = cheapest_find(s, c, k, r);
	if (pool < 0 && r->same > 0) {
		/* Its zones were all asked: the tries that are left ask the first ones again. */
		r->same--;
		memset(r->asked, 0, sizeof(r->asked));
		pool = cheapest_find(s, c, k, r);
	}
	if (pool < 0) {
		round_begin(c, k, r);
		pool = cheapest_find(s, c, k, r);
	}
	if (pool >= 0 && !launch(ctx, pool)) {
		r->asked[pool / 64] |= UINT64_C(1) << (pool % 64);
		if (r->same > 0 && --r->same == 0) {
			memset(r->asked, 0, sizeof(r->asked));
		}
	}
}

struct seeker {
	struct fs_sim *s;
	size_t task;
};

static bool task_launch(void *ctx, int32_t pool)
{
	const struct seeker *x = ctx;

	return fs_launch(x->s, x->task, pool, false);
}

static void base_step(struct fs_sim *s, void *self, int64_t t)
{
	struct base *b = self;

	for (size_t i = 0; i < s->w->jobs_n && s->w->jobs[i].submit_us <= t; i++) {
		if (s->tasks[i].state == FS_QUEUED && s->tasks[i].queued_us <= t) {
			base_seek(s, b->conf, &s->tasks[i], &b->rounds[i], task_launch,
			    &(struct seeker){ s, i });
		}
	}
}

void base_brain(const char *name, const struct base_conf *conf, struct fs_brain *ret)
{
	*ret = (struct fs_brain){
		.name = name,
		.interval_us = conf->kind == BASE_ON_DEMAND ? 0 : BASE_INTERVAL_US,
		.init = base_init,
		.step = base_step,
		.arg = conf,
	};
}
