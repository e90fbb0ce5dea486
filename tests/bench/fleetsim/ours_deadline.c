/* Asks the deadline policy as src/engine/place/deadline.c does: with the best pools as they are,
 * and our own record of their past. */
#include "base/base.h"

#include "ours.h"

#define POOLS_MOST 5
#define DOWN_US (1800 * SPOT_US_PER_S)
#define TICKS_LEAST 100
#define TICKS_MOST 1000
/* A job that waits asks again when a pool's rest is over, not before the first; else so often. Live
 * it asks more often: here each question costs time, for all jobs of all seeds. */
#define ASK_FIRST_US (180 * SPOT_US_PER_S)
#define ASK_AGAIN_US (600 * SPOT_US_PER_S)

struct candidate {
	const struct offer *offer;
	const struct score *score; /* NULL: it rests */
	int64_t price_micros; /* per hour of the on-demand machine's work */
};

struct question {
	const struct place *p;
	int64_t deadline_us;
	struct candidate pools[POOLS_MOST];
	size_t n;
};

/* The reserve for work that a reclaim may take, and for refused launches on demand. */
static int64_t reserve_us(const struct fs_sim *s, const struct question *q, int64_t left_us)
{
	int64_t loss = 0;

	for (size_t i = 0; i < q->n; i++) {
		if (q->pools[i].score != NULL) {
			loss = MAX(loss,
			    spot_loss_us(q->pools[i].score, &q->p->job.spec->checkpoint, left_us));
		}
	}
	return loss + ours_launch_reserve(s, &q->p->ranking, q->deadline_us);
}

static int64_t hour_micros(const struct question *q, const struct offer *o, const struct score *s,
    double speed)
{
	double egress =
	    s != NULL && s->paid_hours > 0 ? (double)s->egress_micros / s->paid_hours : 0;

	return (int64_t)(((double)o->price_micros + egress) * q->p->on_demand->throughput / speed);
}

static bool too_slow(const struct fs_sim *s, const struct ours *o, const struct question *q,
    const struct score *x)
{
	int64_t left = q->deadline_us - s->t - o->supply.changeover_us;

	return x != NULL && x->throughput < q->p->on_demand->throughput &&
	    x->hours * (double)SPOT_US_PER_HOUR > (double)left;
}

static void candidate_add(const struct fs_sim *s, const struct ours *o, struct question *q,
    const struct offer *x, const struct score *score)
{
	const struct score *od = q->p->on_demand;
	double speed = rank_throughput(q->p->job.spec, x);

	if (q->n >= POOLS_MOST || x->market != SPOT_MARKET_SPOT || speed < 0.8 * od->throughput ||
	    too_slow(s, o, q, score)) {
		return;
	}
	q->pools[q->n++] = (struct candidate){ .offer = x,
		.score = score,
		.price_micros = hour_micros(q, x, score, speed) };
}

static void candidates_add(const struct fs_sim *s, const struct ours *o, struct question *q)
{
	const struct ranking *r = &q->p->ranking;

	for (size_t i = 0; i < r->usable && q->n + 1 < POOLS_MOST; i++) {
		candidate_add(s, o, q, r->scores[i].offer, &r->scores[i]);
	}
	for (size_t i = 0; i < r->refused_n; i++) {
		if (r->refused[i].why == REFUSED_COOLING) {
			candidate_add(s, o, q, r->refused[i].offer, NULL);
		}
	}
}

static void setup_fill(const struct fs_sim *s, const struct ours *o, const struct fs_task *k,
    const struct question *q, enum policy_act held, struct policy_setup *ret,
    struct policy_view *view)
{
	const struct fs_job *j = k->job;
	double left = q->p->on_demand->hours * (double)SPOT_US_PER_HOUR;
	double share = (double)fs_saved_us(k, s->t) / (double)j->work_us;

	ret->work_us = (int64_t)(left / (1 - MIN(share, 0.999)));
	ret->deadline_us = j->deadline_us - j->submit_us;
	ret->changeover_us = o->supply.changeover_us + (k->has_checkpoint ? j->save_us : 0);
	ret->tick_us = MIN(MAX(DEADLINE_TICK_US, ret->deadline_us / TICKS_MOST),
	    MAX(ret->deadline_us / TICKS_LEAST, 1));
	ret->deadline_us -= reserve_us(s, q, (int64_t)left);
	ret->deadline_us = MAX(ret->deadline_us, s->t - j->submit_us);
	ret->on_demand_micros =
	    hour_micros(q, q->p->on_demand->offer, q->p->on_demand, q->p->on_demand->throughput);
	ret->pools_n = q->n;
	view->elapsed_us = s->t - j->submit_us;
	view->done_us = ret->work_us - (int64_t)left;
	view->held = held;
	view->last_pool = SIZE_MAX;
}

static int64_t policy_ask(struct fs_sim *s, struct ours *o, const struct fs_task *k,
    const struct question *q, enum policy_act held, struct arena *a, struct policy_choice *ret)
{
	struct policy_track tracks[POOLS_MOST];
	int64_t prices[POOLS_MOST];
	uint8_t up[POOLS_MOST];
	struct rise rises[POOLS_MOST];
	struct policy_setup setup = { 0 };
	struct policy_view view = { .up = up, .price_micros = prices, .rise = rises };
	const struct policy *policy = policy_find("auto");
	size_t n = 0;

	setup_fill(s, o, k, q, held, &setup, &view);
	for (size_t i = 0; i < q->n; i++) {
		int32_t pool = q->pools[i].offer->pool_id;

		prices[i] = q->pools[i].price_micros;
		up[i] = q->pools[i].score != NULL;
		rises[i] = q->pools[i].offer->rise;
		supply_track_make(a, o->seen[pool].words, o->seen[pool].words_n, pool,
		    setup.tick_us, DOWN_US, sim_now(s, s->t), &tracks[n]);
		tracks[n].pool = (int32_t)i;
		n += tracks[n].n > 0;
	}
	policy->decide(policy->begin(a, &setup, tracks, n), &view, ret);
	return setup.tick_us;
}

static void pace_set(const struct fs_sim *s, struct job_mind *m, const struct question *q,
    enum policy_act held, int64_t tick_us)
{
	/* The policy's promise is kept by being asked every tick. */
	m->ask_after_us = s->t + MIN(ASK_AGAIN_US, tick_us);
	for (size_t i = 0; i < q->n && held == POLICY_WAIT; i++) {
		if (q->pools[i].score == NULL) {
			int64_t rest = q->pools[i].offer->cool_until_us - sim_now(s, s->t);

			m->ask_after_us = MIN(m->ask_after_us, s->t + MAX(rest, ASK_FIRST_US));
		}
	}
}

bool deadline_decide(struct fs_sim *s, struct ours *o, size_t task, const struct place *p,
    enum policy_act held)
{
	struct fs_task *k = &s->tasks[task];
	struct job_mind *m = &o->minds[task];
	struct question q = { .p = p, .deadline_us = k->job->deadline_us };
	struct policy_choice c = { 0 };
	int64_t tick_us;

	if (k->job->deadline_us == 0 || p->on_demand == NULL || k->job->deadline_us <= s->t ||
	    o->conf->no_deadline) {
		return false;
	}
	if (m->ask_after_us > s->t) {
		return true;
	}
	AUTO(arena) struct arena *a = arena_new(0);

	candidates_add(s, o, &q);
	tick_us = policy_ask(s, o, k, &q, held, a, &c);
	if (c.act == POLICY_SPOT) {
		(void)ours_launch(s, o, task, q.pools[c.pool].offer->pool_id, held != POLICY_WAIT);
	} else if (c.act == POLICY_ON_DEMAND && held == POLICY_WAIT) {
		(void)ours_launch(s, o, task, p->on_demand->offer->pool_id, false);
	} else {
		if (c.act == POLICY_WAIT && held == POLICY_ON_DEMAND) {
			fs_park(s, task);
		}
		pace_set(s, m, &q, held, tick_us);
	}
	return true;
}
