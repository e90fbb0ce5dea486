/* The physics of the fleet simulation: see sim.h. */
#include "base/base.h"

#include "sim.h"

#include "core/rank/rank.h"

#define BYTES_PER_GB 1e9

__extension__ typedef __int128 wide;

/* ---- work ------------------------------------------------------------------------------------ */

static int64_t run_elapsed(const struct fs_task *k, int64_t t)
{
	return k->state == FS_RUNNING ? MAX(t - k->run_from_us, 0) : 0;
}

static int64_t saves_at(const struct fs_task *k, int64_t t)
{
	int64_t left = k->job->work_us - k->durable_us;

	if (k->interval_us == 0) {
		return 0;
	}
	/* The piece that ends the work is not saved: the job is over then. */
	return MIN(run_elapsed(k, t) / (k->interval_us + k->job->save_us),
	    (left - 1) / k->interval_us);
}

int64_t fs_saved_us(const struct fs_task *k, int64_t t)
{
	return k->durable_us + saves_at(k, t) * k->interval_us;
}

int64_t fs_done_us(const struct fs_task *k, int64_t t)
{
	int64_t n = saves_at(k, t),
		rest = run_elapsed(k, t) - n * (k->interval_us + k->job->save_us);

	if (k->interval_us > 0 && n < (k->job->work_us - k->durable_us - 1) / k->interval_us) {
		rest = MIN(rest, k->interval_us);
	}
	return MIN(k->durable_us + n * k->interval_us + rest, k->job->work_us);
}

int64_t fs_finish_at(const struct fs_task *k)
{
	int64_t left = k->job->work_us - k->durable_us;

	return k->run_from_us + left +
	    (k->interval_us > 0 ? (left - 1) / k->interval_us * k->job->save_us : 0);
}

/* ---- money ----------------------------------------------------------------------------------- */

int64_t fs_node_cost(const struct fs_world *w, const struct fs_node *n, int64_t until_us)
{
	int64_t end = n->ended_us > 0 ? n->ended_us : until_us, t = n->launched_us;
	wide sum = 0;

	while (t < end) {
		int64_t next = MIN((t / FS_STEP_US + 1) * FS_STEP_US, end);

		sum += (wide)fs_price(&w->pools[n->pool], t) * (next - t);
		t = next;
	}
	return (int64_t)((sum + SPOT_US_PER_HOUR / 2) / SPOT_US_PER_HOUR);
}

static int64_t transfer_cost(const struct fs_job *j, const struct fs_pool *p, bool up)
{
	double gb = (double)j->checkpoint_bytes / BYTES_PER_GB;
	int64_t per_gb = up
	    ? egress_micros_per_gb(p->provider, p->region, j->store_provider, j->store_region)
	    : egress_micros_per_gb(j->store_provider, j->store_region, p->provider, p->region);

	return (int64_t)(gb * (double)per_gb);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

int64_t fs_node_add(struct fs_sim *s, size_t task, int32_t pool)
{
	s->nodes = arena_grow(s->arena, s->nodes, s->nodes_n, &s->nodes_cap, sizeof(*s->nodes));
	s->nodes[s->nodes_n] = (struct fs_node){ .task = task,
		.pool = pool,
		.launched_us = s->t,
		.ready_us = s->t + s->w->boot_us };
	s->live[pool]++;
	return (int64_t)s->nodes_n++;
}

void fs_node_end(struct fs_sim *s, int64_t node, int64_t at_us, bool reclaimed)
{
	struct fs_node *n = &s->nodes[node];

	n->ended_us = MAX(at_us, n->launched_us + 1);
	n->reclaimed = reclaimed;
	s->live[n->pool]--;
}

void fs_settle(struct fs_sim *s, struct fs_task *k, int64_t t, bool saved)
{
	const struct fs_pool *p = &s->w->pools[s->nodes[k->node].pool];
	int64_t done = fs_done_us(k, t), kept = saved ? done : fs_saved_us(k, t),
		n = saves_at(k, t);

	if (saved && done < k->job->work_us && done > k->durable_us) {
		n++;
	}
	s->pieces =
	    arena_grow(s->arena, s->pieces, s->pieces_n, &s->pieces_cap, sizeof(*s->pieces));
	s->pieces[s->pieces_n++] = (struct fs_piece){ .task = (size_t)(k - s->tasks),
		.node = k->node,
		.from_us = MIN(k->run_from_us, t),
		.to_us = t,
		.kept_us = kept - k->durable_us,
		.lost_us = done - kept };
	k->lost_us += done - kept;
	k->saves += n;
	k->egress_micros += n * transfer_cost(k->job, p, true);
	k->durable_us = kept;
	k->has_checkpoint = k->has_checkpoint || n > 0;
}

void fs_start(struct fs_sim *s, struct fs_task *k, int64_t node, int64_t t)
{
	const struct fs_node *n = &s->nodes[node];

	k->node = node;
	k->next = -1;
	k->state = FS_RUNNING;
	k->last_pool = n->pool;
	k->probes_refused = 0;
	k->probed_us = 0;
	k->starts++;
	k->run_from_us = MAX(n->ready_us, t) + s->w->restore_us;
	k->interval_us = s->brain->interval_us;
	if (k->has_checkpoint) {
		k->egress_micros += transfer_cost(k->job, &s->w->pools[n->pool], false);
	}
	if (s->brain->interval != NULL) {
		k->interval_us = s->brain->interval(s, s->self, k, n->pool);
	}
}

bool fs_launch(struct fs_sim *s, size_t task, int32_t pool, bool replaces)
{
	struct fs_task *k = &s->tasks[task];
	int64_t node;

	assert(fs_suits(&s->w->pools[pool], k->job) && k->tried_us < s->t);
	assert(replaces ? k->state == FS_RUNNING && k->next < 0 : k->state == FS_QUEUED);
	k->tried_us = s->t;
	if (s->live[pool] >= fs_room(&s->w->pools[pool], s->t)) {
		k->refused++;
		k->probes_refused += replaces;
		return false;
	}
	node = fs_node_add(s, task, pool);
	if (replaces) {
		k->next = node;
		return true;
	}
	k->wait_us += s->t - k->queued_us;
	fs_start(s, k, node, s->t);
	return true;
}

void fs_move(struct fs_sim *s, size_t task)
{
	struct fs_task *k = &s->tasks[task];
	int64_t gone = s->t + k->job->save_us, next = k->next;

	assert(k->state == FS_RUNNING && next >= 0);
	fs_settle(s, k, s->t, true);
	fs_node_end(s, k->node, gone, false);
	k->moves++;
	k->last_move_us = s->t;
	fs_start(s, k, next, gone);
}

void fs_park(struct fs_sim *s, size_t task)
{
	struct fs_task *k = &s->tasks[task];
	int64_t gone = s->t + k->job->save_us;

	assert(k->state == FS_RUNNING && k->next < 0);
	fs_settle(s, k, s->t, true);
	fs_node_end(s, k->node, gone, false);
	k->node = -1;
	k->state = FS_QUEUED;
	k->queued_us = gone;
	k->moves++;
	k->last_move_us = s->t;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void jobs_arrive(struct fs_sim *s, int64_t t)
{
	for (size_t i = 0; i < s->w->jobs_n && s->w->jobs[i].submit_us <= t; i++) {
		if (s->tasks[i].state == FS_ABSENT) {
			s->tasks[i].state = FS_QUEUED;
			s->tasks[i].queued_us = s->w->jobs[i].submit_us;
		}
	}
}

static void jobs_finish(struct fs_sim *s, int64_t t)
{
	for (size_t i = 0; i < s->w->jobs_n; i++) {
		struct fs_task *k = &s->tasks[i];
		int64_t at = k->state == FS_RUNNING ? fs_finish_at(k) : INT64_MAX;

		if (at > t) {
			continue;
		}
		fs_settle(s, k, at, true);
		fs_node_end(s, k->node, at, false);
		if (k->next >= 0) {
			fs_node_end(s, k->next, at, false);
		}
		k->state = FS_DONE;
		k->finish_us = at;
		s->done_n++;
	}
}

bool fs_notice_saves(const struct fs_sim *s, const struct fs_task *k, const struct fs_pool *p,
    int64_t t)
{
	return s->brain->hears_notice && p->notice_us > 0 && k->job->save_us <= p->notice_us &&
	    fs_luck(s->w->seed ^ 0x6e, (uint64_t)(k - s->tasks), (uint64_t)t) < s->w->notice_heard;
}

static void reclaim_node(struct fs_sim *s, int64_t node, int64_t t)
{
	struct fs_node *n = &s->nodes[node];
	struct fs_task *k = &s->tasks[n->task];
	int64_t next = k->next;

	fs_node_end(s, node, t, true);
	if (node == next) {
		k->next = -1;
		k->probes_refused++;
	} else {
		bool saved = fs_notice_saves(s, k, &s->w->pools[n->pool], t);

		fs_settle(s, k, saved ? t - k->job->save_us : t, saved);
		k->reclaims++;
		k->node = -1;
		k->state = FS_QUEUED;
		k->queued_us = t;
		if (next >= 0) {
			fs_start(s, k, next, t);
		}
	}
	if (s->brain->reclaimed != NULL) {
		s->brain->reclaimed(s, s->self, &s->nodes[node], t);
	}
}

/* Luck picks the reclaimed node, but the same luck for every policy. */
static int64_t victim_pick(const struct fs_sim *s, int32_t pool, int64_t t)
{
	double most = -1;
	int64_t ret = -1;

	for (size_t i = s->first_alive; i < s->nodes_n; i++) {
		double luck = fs_luck(s->w->seed, s->nodes[i].task, (uint64_t)t);

		if (s->nodes[i].ended_us == 0 && s->nodes[i].pool == pool && luck > most) {
			most = luck;
			ret = (int64_t)i;
		}
	}
	return ret;
}

static void nodes_reclaim(struct fs_sim *s, int64_t t)
{
	while (s->first_alive < s->nodes_n && s->nodes[s->first_alive].ended_us > 0) {
		s->first_alive++;
	}
	for (size_t p = 0; p < s->w->pools_n; p++) {
		int32_t room = s->live[p] > 0 ? fs_room(&s->w->pools[p], t) : 0;

		while (s->live[p] > room) {
			reclaim_node(s, victim_pick(s, (int32_t)p, t), t);
		}
	}
}

void fs_run(struct arena *a, const struct fs_world *w, const struct fs_brain *b, int64_t horizon_us,
    struct fs_sim *ret)
{
	*ret = (struct fs_sim){ .w = w, .brain = b, .arena = a };
	ret->tasks = arena_array(a, w->jobs_n + 1, sizeof(*ret->tasks));
	for (size_t i = 0; i < w->jobs_n; i++) {
		ret->tasks[i] = (struct fs_task){ .job = &w->jobs[i],
			.node = -1,
			.next = -1,
			.last_pool = -1,
			.tried_us = -1 };
	}
	ret->self = b->init(ret, b->arg);
	for (int64_t t = 0; t < horizon_us && ret->done_n < w->jobs_n; t += FS_STEP_US) {
		ret->t = t;
		jobs_arrive(ret, t);
		jobs_finish(ret, t);
		nodes_reclaim(ret, t);
		b->step(ret, ret->self, t);
	}
	if (b->end != NULL) {
		b->end(ret->self);
		ret->self = NULL;
	}
}

/* ---- results --------------------------------------------------------------------------------- */

static int by_value(const void *pa, const void *pb)
{
	const double *a = pa, *b = pb;

	return (*a > *b) - (*a < *b);
}

static double percentile_of(double *x, size_t n, size_t p)
{
	qsort(x, n, sizeof(*x), by_value);
	return n > 0 ? x[MIN(n - 1, (n * p + 99) / 100 - 1)] : 0;
}

static void task_add(const struct fs_task *k, int64_t t, struct fs_result *r)
{
	r->lost_h += (double)k->lost_us / (double)SPOT_US_PER_HOUR;
	r->wait_h += (double)k->wait_us / (double)SPOT_US_PER_HOUR;
	r->egress_micros += k->egress_micros;
	r->reclaims += k->reclaims;
	r->moves += k->moves;
	r->refused += k->refused;
	r->starts += k->starts;
	r->deadlines += k->job->deadline_us > 0;
	r->unfinished += k->state != FS_DONE;
	if (k->job->deadline_us > 0 &&
	    (k->state != FS_DONE || k->finish_us > k->job->deadline_us)) {
		r->misses++;
		r->late_us += (k->state == FS_DONE ? k->finish_us : t) - k->job->deadline_us;
	}
	if (k->state == FS_DONE) {
		r->work_h += (double)k->job->work_us / (double)SPOT_US_PER_HOUR * k->job->gpus;
	}
}

void fs_result(struct arena *a, const struct fs_sim *s, struct fs_result *ret)
{
	double *slow = arena_array(a, s->w->jobs_n + 1, sizeof(*slow)),
	       *turn = arena_array(a, s->w->jobs_n + 1, sizeof(*turn));
	size_t n = 0;

	*ret = (struct fs_result){ 0 };
	for (size_t i = 0; i < s->nodes_n; i++) {
		int64_t cost = fs_node_cost(s->w, &s->nodes[i], s->t);

		ret->node_micros += cost;
		ret->spot_micros +=
		    s->w->pools[s->nodes[i].pool].market == SPOT_MARKET_SPOT ? cost : 0;
		ret->node_h += (double)((s->nodes[i].ended_us > 0 ? s->nodes[i].ended_us : s->t) -
				   s->nodes[i].launched_us) /
		    (double)SPOT_US_PER_HOUR;
	}
	for (size_t i = 0; i < s->w->jobs_n; i++) {
		const struct fs_task *k = &s->tasks[i];

		task_add(k, s->t, ret);
		if (k->state == FS_DONE) {
			turn[n] =
			    (double)(k->finish_us - k->job->submit_us) / (double)SPOT_US_PER_HOUR;
			slow[n++] =
			    (double)(k->finish_us - k->job->submit_us) / (double)k->job->work_us;
		}
	}
	ret->dollars_micros = ret->node_micros + ret->egress_micros;
	ret->slow_p50 = percentile_of(slow, n, 50);
	ret->slow_p95 = percentile_of(slow, n, 95);
	ret->turn_p50_h = percentile_of(turn, n, 50);
	ret->turn_p95_h = percentile_of(turn, n, 95);
}
