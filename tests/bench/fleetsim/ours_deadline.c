/* The deadline policy asked as src/engine/deadline.c asks it: the best pools as they are, our own words on their past. */
#include "base/base.h"

#include "ours.h"

#include "base/arena.h"

#define POOLS_MOST  5
#define DOWN_US     (1800 * SPOT_US_PER_S)
#define TICKS_LEAST 100
#define TICKS_MOST  1000
/* A job that waits asks again when a pool's rest is over; else so often. */
#define ASK_AGAIN_US (300 * SPOT_US_PER_S)

struct candidate {
	const struct offer *offer;
	bool up;
	int64_t price_micros, egress_micros;
	int32_t region;
};

struct question {
	const struct place *p;
	struct candidate pools[POOLS_MOST];
	size_t n;
};

static int32_t region_id(const struct question *q, const struct offer *o)
{
	for (size_t i = 0; i < q->n; i++) {
		if (strcmp(q->pools[i].offer->provider, o->provider) == 0 && strcmp(q->pools[i].offer->region, o->region) == 0) {
			return q->pools[i].region;
		}
	}
	return (int32_t)q->n;
}

static void candidate_add(struct question *q, const struct offer *o, const struct score *s)
{
	const struct score *od = q->p->on_demand;
	double speed = rank_throughput(q->p->job.spec, o);

	if (q->n >= POOLS_MOST || o->market != SPOT_MARKET_SPOT || speed < 0.8 * od->throughput) {
		return;
	}
	q->pools[q->n] = (struct candidate){
		.offer = o,
		.up = s != NULL,
		.region = region_id(q, o),
		.price_micros = (int64_t)((double)o->price_micros * od->throughput / speed),
		.egress_micros = s != NULL ? s->egress_micros : 0,
	};
	q->n++;
}

static void candidates(struct question *q)
{
	for (size_t i = 0; i < q->p->ranking.usable && q->n + 1 < POOLS_MOST; i++) {
		candidate_add(q, q->p->ranking.scores[i].offer, &q->p->ranking.scores[i]);
	}
	for (size_t i = 0; i < q->p->ranking.refused_n; i++) {
		if (q->p->ranking.refused[i].why == REFUSED_COOLING) {
			candidate_add(q, q->p->ranking.refused[i].offer, NULL);
		}
	}
}

static void setup_fill(const struct fs_sim *s, const struct ours *o, const struct fs_task *k, const struct question *q,
    enum policy_act held, struct policy_setup *ret, struct policy_view *view)
{
	const struct fs_job *j = k->job;
	double left = q->p->on_demand->hours * (double)SPOT_US_PER_HOUR;
	double share = (double)fs_saved_us(k, s->t) / (double)j->work_us;

	ret->work_us = (int64_t)(left / (1 - MIN(share, 0.999)));
	ret->deadline_us = j->deadline_us - j->submit_us;
	ret->changeover_us = o->supply.changeover_us + (k->has_checkpoint ? j->save_us : 0);
	ret->tick_us = MIN(MAX(DEADLINE_TICK_US, ret->deadline_us / TICKS_MOST), MAX(ret->deadline_us / TICKS_LEAST, 1));
	ret->on_demand_micros = q->p->on_demand->price_micros;
	ret->pools_n = q->n;
	view->elapsed_us = s->t - j->submit_us;
	view->done_us = ret->work_us - (int64_t)left;
	view->held = held;
	view->last_pool = SIZE_MAX;
}

static void ask(struct fs_sim *s, struct ours *o, const struct fs_task *k, const struct question *q, enum policy_act held,
    struct arena *a, struct policy_choice *ret)
{
	struct policy_track tracks[POOLS_MOST];
	int32_t regions[POOLS_MOST];
	int64_t prices[POOLS_MOST];
	uint8_t up[POOLS_MOST];
	struct policy_setup setup = {.regions = regions};
	struct policy_view view = {.up = up, .price_micros = prices};
	const struct policy *policy = policy_find("auto");
	size_t n = 0;

	setup_fill(s, o, k, q, held, &setup, &view);
	for (size_t i = 0; i < q->n; i++) {
		int32_t pool = q->pools[i].offer->pool_id;

		regions[i] = q->pools[i].region;
		prices[i] = q->pools[i].price_micros;
		up[i] = q->pools[i].up;
		setup.transfer_micros = MAX(setup.transfer_micros, q->pools[i].egress_micros);
		supply_track_make(a, o->seen[pool].words, o->seen[pool].words_n, pool, setup.tick_us, DOWN_US,
		    sim_now(s, s->t), &tracks[n]);
		tracks[n].pool = (int32_t)i;
		n += tracks[n].n > 0;
	}
	policy->decide(policy->begin(a, &setup, tracks, n), &view, ret);
}

static void pace(const struct fs_sim *s, struct job_mind *m, const struct question *q, enum policy_act held)
{
	m->ask_after_us = s->t + ASK_AGAIN_US;
	for (size_t i = 0; i < q->n && held == POLICY_WAIT; i++) {
		if (!q->pools[i].up) {
			int64_t rest = q->pools[i].offer->cool_until_us - sim_now(s, s->t);

			m->ask_after_us = MIN(m->ask_after_us, s->t + MAX(rest, 0) + 1);
		}
	}
}

bool deadline_decide(struct fs_sim *s, struct ours *o, size_t task, const struct place *p, enum policy_act held)
{
	struct fs_task *k = &s->tasks[task];
	struct job_mind *m = &o->minds[task];
	struct question q = {.p = p};
	struct policy_choice c = {0};

	if (k->job->deadline_us == 0 || p->on_demand == NULL || k->job->deadline_us <= s->t || o->conf->no_deadline) {
		return false;
	}
	if (m->ask_after_us > s->t) {
		return true;
	}
	AUTO(arena) struct arena *a = arena_new(0);

	candidates(&q);
	ask(s, o, k, &q, held, a, &c);
	if (c.act == POLICY_SPOT) {
		(void)ours_launch(s, o, task, q.pools[c.pool].offer->pool_id, held != POLICY_WAIT);
	} else if (c.act == POLICY_ON_DEMAND && held == POLICY_WAIT) {
		(void)ours_launch(s, o, task, p->on_demand->offer->pool_id, false);
	} else {
		if (c.act == POLICY_WAIT && held == POLICY_ON_DEMAND) {
			fs_park(s, task);
		}
		pace(s, m, &q, held);
	}
	return true;
}
