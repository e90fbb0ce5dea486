/* Places, moves and rebalances as assign.c, move_back.c, defer.c and rebalance.c of
 * src/engine/place do: see ours.h. */
#include "base/base.h"

#include "ours.h"

#define FIXED_INTERVAL_US (1800 * SPOT_US_PER_S)
#define SHORTEST_INTERVAL_US (30 * SPOT_US_PER_S)
#define DEFER_POOLS 8

int64_t sim_now(const struct fs_sim *s, int64_t t)
{
	return s->w->epoch_us + t;
}

void ours_begin(struct fs_sim *s, struct ours *o, const struct ours_conf *conf)
{
	o->conf = conf;
	rank_policy_default(&o->rank);
	supply_policy_default(&o->supply);
	o->supply.patience_us =
	    o->conf->patience_us > 0 ? o->conf->patience_us : o->supply.patience_us;
	tightness_policy_default(&o->tightness);
	defer_policy_default(&o->defer);
	rebalance_policy_default(&o->rebalance);
	o->minds = arena_array(s->arena, s->w->jobs_n + 1, sizeof(*o->minds));
	for (size_t i = 0; i < s->w->jobs_n; i++) {
		const struct fs_job *j = &s->w->jobs[i];
		struct job_mind *m = &o->minds[i];

		m->gpu = (struct gpu_ask){ .gpu = j->gpu, .milli = j->gpus * 1000 };
		m->ask = (struct resource_ask){ .gpus = &m->gpu, .gpus_n = 1, .use_spot = -1 };
		m->spec = (struct job_spec){ .name = "job",
			.run = "train",
			.asks = &m->ask,
			.asks_n = 1,
			.num_nodes = 1,
			.team = "",
			.project = "",
			.class = "training",
			.interruptible = true,
			.off_peak = -1,
			.work_s = j->work_us / SPOT_US_PER_S,
			.deadline_us = j->deadline_us > 0 ? sim_now(s, j->deadline_us) : 0,
			.checkpoint = { .path = "/ckpt",
			    .signal = "USR1",
			    .budget_s = 60,
			    .size_bytes = j->checkpoint_bytes } };
	}
	market_init(s, o);
	o->step = arena_new(0);
}

static void *ours_init(struct fs_sim *s, const void *arg)
{
	struct ours *o = arena_alloc(s->arena, sizeof(*o));

	ours_begin(s, o, arg);
	return o;
}

/* ---- ranking --------------------------------------------------------------------------------- */

static void job_fill(const struct fs_sim *s, const struct ours *o, size_t task,
    struct rank_job *ret)
{
	const struct fs_task *k = &s->tasks[task];
	const struct fs_job *j = k->job;

	*ret = (struct rank_job){
		.spec = &o->minds[task].spec,
		.work_left_s = MAX((j->work_us - fs_saved_us(k, s->t)) / SPOT_US_PER_S, 1),
		.save_us = k->has_checkpoint ? j->save_us : 0,
		.checkpoint_bytes = j->checkpoint_bytes,
		.at_provider = k->has_checkpoint ? j->store_provider : NULL,
		.at_region = k->has_checkpoint ? j->store_region : NULL,
		.spot_allowed = true,
		.on_demand_allowed = true,
		.store_provider = j->store_provider,
		.store_region = j->store_region,
		.deadline_us = o->minds[task].spec.deadline_us,
	};
}

static void place_rank(struct fs_sim *s, struct ours *o, size_t task, struct place *ret)
{
	const struct fs_job *j = s->tasks[task].job;

	*ret = (struct place){ 0 };
	market_need(s, o);
	job_fill(s, o, task, &ret->job);
	rank_run(o->step, o->offers, s->w->pools_n, &ret->job, &o->rank, sim_now(s, s->t),
	    &ret->ranking);
	for (size_t i = 0; i < ret->ranking.usable; i++) {
		const struct score *x = &ret->ranking.scores[i];

		if (x->offer->market == SPOT_MARKET_SPOT) {
			ret->spot = ret->spot_n++ == 0 ? x : ret->spot;
		} else {
			ret->on_demand = ret->on_demand_n++ == 0 ? x : ret->on_demand;
		}
	}
	if (j->deadline_us > s->t) {
		int64_t left = j->deadline_us - s->t - o->supply.changeover_us - ret->job.save_us;

		ret->on_demand = rank_in_time(&ret->ranking, SPOT_MARKET_ON_DEMAND,
		    (double)left / (double)SPOT_US_PER_HOUR);
	}
}

static const struct score *score_here(struct fs_sim *s, struct ours *o, struct rank_job job,
    int32_t pool)
{
	job.runs_there = true;
	return rank_one(o->step, &o->offers[pool], &job, &o->rank, sim_now(s, s->t));
}

int64_t ours_interval(struct fs_sim *s, void *self, const struct fs_task *k, int32_t pool)
{
	struct ours *o = self;
	const struct score *here;
	struct rank_job job;
	struct score_terms t;

	if (o->conf->fixed_interval) {
		return FIXED_INTERVAL_US;
	}
	market_need(s, o);
	job_fill(s, o, (size_t)(k - s->tasks), &job);
	here = score_here(s, o, job, pool);
	if (here == NULL) {
		return SHORTEST_INTERVAL_US;
	}
	score_explain(here, &t);
	return (int64_t)t.interval_s * SPOT_US_PER_S;
}

bool ours_launch(struct fs_sim *s, struct ours *o, size_t task, int32_t pool, bool replaces)
{
	struct job_mind *m = &o->minds[task];
	bool got;

	if (s->tasks[task].tried_us >= s->t) {
		return false;
	}
	got = fs_launch(s, task, pool, replaces);
	market_tried(s, o, pool, got, s->t);
	if (replaces) {
		s->tasks[task].probed_us = s->t;
		m->refused_n = s->tasks[task].probes_refused > 1 ? m->refused_n : 0;
		if (!got && m->refused_n < ARRAY_LEN(m->refused)) {
			m->refused[m->refused_n++] = pool;
		}
	}
	return got;
}

bool ours_late(const struct fs_sim *s, const struct fs_job *j)
{
	return j->deadline_us > 0 && j->deadline_us <= s->t;
}

int64_t ours_launch_reserve(const struct fs_sim *s, const struct ranking *r, int64_t deadline_us)
{
	struct launch_reserve x;

	launch_reserve_find(r, (double)(deadline_us - s->t) / (double)SPOT_US_PER_HOUR, COOL_MIN_US,
	    COOL_MAX_US, &x);
	return x.us;
}

/* ---- placing --------------------------------------------------------------------------------- */

static void defer_hours(const struct fs_sim *s, const struct ours *o, const struct place *p,
    struct defer_in *in)
{
	size_t n = 0;

	for (size_t i = 0; i < p->ranking.usable && n < DEFER_POOLS; i++) {
		const struct seen *x = &o->seen[p->ranking.scores[i].offer->pool_id];
		double sum = 0, count = 0;

		if (p->ranking.scores[i].offer->market != p->ranking.scores[0].offer->market) {
			continue;
		}
		n++;
		for (int h = 0; h < DEFER_HOURS; h++) {
			sum += x->hours[h].sum;
			count += x->hours[h].n;
		}
		for (int h = 0; h < DEFER_HOURS && sum > 0; h++) {
			in->hours[h].price +=
			    x->hours[h].n > 0 ? x->hours[h].sum / x->hours[h].n / (sum / count) : 0;
			in->hours[h].launches += x->hours[h].launches;
			in->hours[h].refusals += x->hours[h].refusals;
		}
	}
	for (int h = 0; h < DEFER_HOURS && n > 0; h++) {
		in->hours[h].price /= (double)n;
		in->hours[h].days = in->hours[h].price > 0
		    ? (int32_t)MIN(s->t / (24 * SPOT_US_PER_HOUR) + 1, 14)
		    : 0;
	}
}

static bool defer_ask(struct fs_sim *s, struct ours *o, size_t task, const struct place *p)
{
	const struct fs_task *k = &s->tasks[task];
	struct job_mind *m = &o->minds[task];
	double changeover = (double)o->supply.changeover_us;
	struct defer_in in = { .now_us = sim_now(s, s->t), .deadline_us = m->spec.deadline_us };
	struct defer_out out;

	if (m->deferred_asked || k->starts > 0 || p->ranking.usable == 0 ||
	    k->job->deadline_us == 0 || o->conf->no_defer) {
		return false;
	}
	m->deferred_asked = true;
	in.run_us =
	    (int64_t)(p->ranking.scores[0].hours * 2 * (double)SPOT_US_PER_HOUR + changeover);
	in.safe_us = in.run_us;
	if (p->on_demand != NULL) {
		in.run_us =
		    (int64_t)(p->ranking.scores[0].hours * (double)SPOT_US_PER_HOUR + changeover);
		in.safe_us =
		    (int64_t)(p->on_demand->hours * (double)SPOT_US_PER_HOUR + 3 * changeover);
	}
	defer_hours(s, o, p, &in);
	defer_decide(o->step, &in, &o->defer, &out);
	m->not_before_us = out.start_us - s->w->epoch_us;
	return m->not_before_us > s->t;
}

static void task_place(struct fs_sim *s, struct ours *o, size_t task)
{
	const struct fs_task *k = &s->tasks[task];
	const char *why = "";
	int64_t until = 0;
	struct place p;

	place_rank(s, o, task, &p);
	if (ours_late(s, k->job) && p.ranking.usable > 0) {
		const struct score *quickest = rank_quickest(p.ranking.scores, p.ranking.usable);

		(void)ours_launch(s, o, task, quickest->offer->pool_id, false);
		return;
	}
	if (defer_ask(s, o, task, &p) || deadline_decide(s, o, task, &p, POLICY_WAIT)) {
		return;
	}
	switch (supply_choose(o->step,
	    &(struct supply_in){ .now_us = sim_now(s, s->t),
		.queued_us = sim_now(s, k->queued_us),
		.deadline_us = o->minds[task].spec.deadline_us,
		.work_left_us = p.on_demand != NULL
		    ? (int64_t)(p.on_demand->hours * (double)SPOT_US_PER_HOUR)
		    : 0,
		.spot_usable = p.spot_n,
		.on_demand_usable = p.on_demand_n,
		.spot_refused = p.ranking.spot_cooling,
		.spot_allowed = true,
		.on_demand_allowed = true,
		.spot_tight = p.spot != NULL && market_easy(o, &p.ranking) == NULL,
		.spot_best_micros = p.spot != NULL ? p.spot->total_micros : 0,
		.on_demand_best_micros = p.on_demand != NULL ? p.on_demand->total_micros : 0 },
	    &o->supply, &why, &until)) {
	case SUPPLY_SPOT:
		(void)ours_launch(s, o, task, p.spot->offer->pool_id, false);
		break;
	case SUPPLY_ON_DEMAND:
		(void)ours_launch(s, o, task, p.on_demand->offer->pool_id, false);
		break;
	case SUPPLY_WAIT:
		break;
	}
}

/* ---- moving ---------------------------------------------------------------------------------- */

static int32_t moves_last_hour(const struct job_mind *m, int64_t t)
{
	int32_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(m->moves); i++) {
		n += m->moves[i] > 0 && m->moves[i] > t - SPOT_US_PER_HOUR;
	}
	return n;
}

struct judged {
	const struct score *there;
	struct return_out out;
	struct place p;
};

static bool move_in_time(const struct fs_sim *s, const struct ours *o, size_t task,
    const struct score *here, const struct judged *x)
{
	return move_refused(o->step,
		   &(struct move_in){ .now_us = sim_now(s, s->t),
		       .deadline_us = o->minds[task].spec.deadline_us,
		       .here = here,
		       .there = x->there,
		       .on_demand = x->p.on_demand,
		       .save_us = x->p.job.save_us,
		       .changeover_us = o->supply.changeover_us,
		       .launch_us =
			   ours_launch_reserve(s, &x->p.ranking, s->tasks[task].job->deadline_us),
		       .checkpoint = &o->minds[task].spec.checkpoint }) == NULL;
}

static bool stay_ask(struct fs_sim *s, struct ours *o, size_t task, bool spot_only,
    struct judged *ret)
{
	const struct fs_task *k = &s->tasks[task];
	int32_t pool = s->nodes[k->node].pool;
	const struct score *here, *to;
	struct return_in in;

	*ret = (struct judged){ 0 };
	place_rank(s, o, task, &ret->p);
	here = score_here(s, o, ret->p.job, pool);
	if (here == NULL) {
		return false;
	}
	if (!spot_only && ret->p.ranking.usable > 0 &&
	    ret->p.ranking.scores[0].offer->pool_id == pool) {
		return true;
	}
	o->minds[task].refused_n = k->probes_refused > 0 ? o->minds[task].refused_n : 0;
	to = market_probe(o, &ret->p.ranking, here, &o->minds[task], spot_only);
	ret->there = to != NULL ? to : ret->p.spot;
	in = return_pair(sim_now(s, s->t), here, ret->there);
	in.last_move_us = k->last_move_us > 0 ? sim_now(s, k->last_move_us) : 0;
	in.moves_last_hour = moves_last_hour(&o->minds[task], s->t);
	in.probes_refused = k->probes_refused;
	in.last_probe_us = k->probed_us > 0 ? sim_now(s, k->probed_us) : 0;
	in.there_tight = to == NULL;
	return_decide(o->step, &in, &o->supply, &ret->out);
	ret->out.move = ret->out.move && ret->there != NULL && !ours_late(s, k->job) &&
	    move_in_time(s, o, task, here, ret);
	return true;
}

static void return_judge(struct fs_sim *s, struct ours *o, size_t task)
{
	const struct fs_task *k = &s->tasks[task];
	int64_t pause = o->supply.return_probe_us << MIN(k->probes_refused, 4);
	struct judged x;

	if (o->minds[task].judge_after_us > s->t) {
		return;
	}
	o->minds[task].judge_after_us = s->t + o->supply.return_probe_us;
	if (!stay_ask(s, o, task, true, &x)) {
		return;
	}
	if (k->job->deadline_us > 0 &&
	    (ours_late(s, k->job) ||
		moves_last_hour(&o->minds[task], s->t) >= o->supply.moves_per_hour_max ||
		(k->probed_us > 0 && s->t - k->probed_us < pause))) {
		return;
	}
	if (deadline_decide(s, o, task, &x.p, POLICY_ON_DEMAND)) {
		return;
	}
	if (x.out.move && x.there != NULL) {
		(void)ours_launch(s, o, task, x.there->offer->pool_id, true);
	}
}

/* As src/engine/place/move_back.c: spot that became too slow for the deadline, or where a reclaim
 * now would take too much. */
static bool spot_left(struct fs_sim *s, struct ours *o, size_t task, int32_t *ret_pool)
{
	const struct fs_task *k = &s->tasks[task];
	int64_t unsaved = fs_done_us(k, s->t) - fs_saved_us(k, s->t);
	const struct score *here, *od;
	struct place p;

	if (moves_last_hour(&o->minds[task], s->t) >= o->supply.moves_per_hour_max) {
		return false;
	}
	place_rank(s, o, task, &p);
	here = score_here(s, o, p.job, s->nodes[k->node].pool);
	od = ours_late(s, k->job) ? rank_quickest(p.ranking.scores, p.ranking.usable) : p.on_demand;
	if (here == NULL || od == NULL || od->offer->market != SPOT_MARKET_ON_DEMAND) {
		return false;
	}
	*ret_pool = od->offer->pool_id;
	/* Ranked with the saved work; a move saves the rest first. */
	return stay_judge(&(struct stay_in){ .now_us = s->t,
		   .deadline_us = k->job->deadline_us,
		   .here = here,
		   .left_us = (int64_t)(od->hours * (double)SPOT_US_PER_HOUR) - unsaved,
		   .unsaved_us = unsaved,
		   .save_us = k->job->save_us,
		   .changeover_us = o->supply.changeover_us,
		   .launch_us = ours_launch_reserve(s, &p.ranking, k->job->deadline_us) }) != STAY;
}

static void task_review(struct fs_sim *s, struct ours *o, size_t task)
{
	struct fs_task *k = &s->tasks[task];
	struct job_mind *m = &o->minds[task];
	int32_t od;

	if (k->next >= 0) {
		if (s->nodes[k->next].ready_us + o->supply.return_hold_us <= s->t) {
			memmove(&m->moves[1], &m->moves[0], sizeof(m->moves) - sizeof(m->moves[0]));
			m->moves[0] = s->t;
			fs_move(s, task);
		}
		return;
	}
	if (k->run_from_us > s->t) {
		return;
	}
	if (s->w->pools[s->nodes[k->node].pool].market == SPOT_MARKET_SPOT) {
		if (k->job->deadline_us > 0 && !o->conf->no_deadline &&
		    spot_left(s, o, task, &od)) {
			(void)ours_launch(s, o, task, od, true);
		}
	} else if (!o->conf->no_return) {
		return_judge(s, o, task);
	}
}

static void moves_make(struct fs_sim *s, struct ours *o, int64_t t)
{
	struct rebalance_move *moves = arena_array(o->step, s->w->jobs_n + 1, sizeof(*moves));
	struct rebalance_choice *go = arena_array(o->step, s->w->jobs_n + 1, sizeof(*go));
	int64_t moving = 0, n = 0;
	struct judged x;

	for (size_t i = 0; i < s->w->jobs_n; i++) {
		const struct fs_task *k = &s->tasks[i];

		if (k->state != FS_RUNNING || k->run_from_us > t) {
			continue;
		}
		moves[n] = (struct rebalance_move){ .job_id = (int64_t)i };
		moving += k->next >= 0;
		if (k->next < 0 && stay_ask(s, o, i, false, &x) && x.out.move && x.there != NULL) {
			moves[n].pays = true;
			moves[n].saving_micros = x.out.saving_micros;
			moves[n].cost_micros = x.out.cost_micros;
			moves[n].to_pool = x.there->offer->pool_id;
		}
		n++;
	}
	rebalance_wave(o->step, moves, (size_t)n, n, moving, sim_now(s, t), &o->rebalance, go);
	for (int64_t i = 0; i < n; i++) {
		if (go[i].go) {
			(void)ours_launch(s, o, (size_t)moves[i].job_id, moves[i].to_pool, true);
		}
	}
}

/* ---- the turn -------------------------------------------------------------------------------- */

static void ours_step(struct fs_sim *s, void *self, int64_t t)
{
	struct ours *o = self;

	o->offers = NULL;
	arena_reset(o->step);
	market_step(s, o, t);
	for (size_t i = 0; i < s->w->jobs_n && s->w->jobs[i].submit_us <= t; i++) {
		if (s->tasks[i].state == FS_QUEUED && s->tasks[i].queued_us <= t &&
		    o->minds[i].not_before_us <= t) {
			task_place(s, o, i);
		} else if (s->tasks[i].state == FS_RUNNING) {
			task_review(s, o, i);
		}
	}
	if (!o->conf->no_rebalance && t - o->rebalanced_us >= REBALANCE_EVERY_US) {
		o->rebalanced_us = t;
		moves_make(s, o, t);
	}
}

static void ours_reclaimed(struct fs_sim *s, void *self, const struct fs_node *n, int64_t t)
{
	struct ours *o = self;

	market_reclaimed(s, o, n->pool, t);
	o->minds[n->task].ask_after_us = 0;
}

static void ours_end(void *self)
{
	struct ours *o = self;

	arena_free(o->step);
}

void ours_brain(const char *name, const struct ours_conf *conf, struct fs_brain *ret)
{
	*ret = (struct fs_brain){
		.name = name,
		.hears_notice = true,
		.init = ours_init,
		.end = ours_end,
		.step = ours_step,
		.interval = ours_interval,
		.reclaimed = ours_reclaimed,
		.arg = conf,
	};
}
