/* The physics of a held fleet: see held.h. */
#include "base/base.h"

#include "fleets/held.h"

#include "base/text/text.h"

#include <stdio.h>

/* Longer than any run. */
#define ENDLESS_US (INT64_C(1000000) * SPOT_US_PER_HOUR)

/* ---- the fleet and its jobs ------------------------------------------------------------------ */

static const char *spec_refusal(const struct fleet_spec *f)
{
	if (f->asks_n != 1 || f->asks[0].gpus_n != 1) {
		return "resources must name one GPU";
	}
	if (f->gpus > 0 || (f->scaling != NULL && f->scaling->by_gpus)) {
		return "the size must be in nodes";
	}
	if (f->scaling != NULL && (f->scaling->windows_n > 0 || f->scaling->metric.url != NULL)) {
		return "schedule and demand are not simulated";
	}
	return held_most(f) > 0 ? NULL : "the size is 0";
}

bool held_spec_read(struct arena *a, struct str text, struct fleet_spec **ret)
{
	struct spot_err err = { 0 };
	const char *name = "", *why;

	if (fleet_spec_parse(a, text, ret, &name, &err) != SPOT_OK) {
		fprintf(stderr, "fleet: %s\n", err.text);
		return false;
	}
	why = spec_refusal(*ret);
	if (why != NULL) {
		fprintf(stderr, "fleet '%s': %s\n", name, why);
	}
	return why == NULL;
}

int32_t held_most(const struct fleet_spec *spec)
{
	return spec->scaling != NULL ? spec->scaling->max : spec->nodes;
}

static bool job_suits(const struct fs_world *w, const struct fs_job *unit, const struct fs_job *j)
{
	for (size_t i = 0; i < w->pools_n; i++) {
		if (fs_suits(&w->pools[i], unit) && fs_suits(&w->pools[i], j)) {
			return true;
		}
	}
	return false;
}

/* Makes one job without end for each node, with the checkpoints of jobs of the list. */
static void jobs_endless(struct arena *a, const struct fs_job *list, size_t n, struct fs_world *w,
    int32_t nodes)
{
	w->jobs_n = (size_t)nodes;
	w->jobs = arena_array(a, w->jobs_n + 1, sizeof(*w->jobs));
	for (size_t i = 0; i < w->jobs_n; i++) {
		w->jobs[i] = list[i % n];
		w->jobs[i].submit_us = 0;
		w->jobs[i].work_us = ENDLESS_US;
	}
}

bool held_world_make(struct arena *a, const struct fs_world *w, const struct fleet_spec *spec,
    struct held_world *ret)
{
	const struct gpu_ask *gpu = &spec->asks[0].gpus[0];
	struct fs_job *list = arena_array(a, w->jobs_n + 1, sizeof(*list));
	size_t n = 0;

	*ret = (struct held_world){ .w = *w,
		.spec = spec,
		.unit = { .gpu = gpu->gpu, .gpus = gpu->milli / 1000 } };
	for (size_t i = 0; i < w->jobs_n; i++) {
		if (job_suits(w, &ret->unit, &w->jobs[i])) {
			list[n] = w->jobs[i];
			list[n++].deadline_us = 0;
		}
	}
	ret->w.jobs = list;
	ret->w.jobs_n = n;
	if (n > 0 && spec->scaling == NULL) {
		jobs_endless(a, list, n, &ret->w, spec->nodes);
	}
	return n > 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct held *held_of(struct fs_sim *s)
{
	return (struct held *)(void *)s;
}

bool held_there(const struct held *h, int64_t node)
{
	return node >= 0 && h->s.nodes[node].ended_us == 0;
}

bool held_idle(const struct held *h, int64_t node)
{
	return h->s.nodes[node].task == FS_NO_TASK;
}

bool held_stands_in(const struct held *h, int64_t node)
{
	return held_there(h, h->nodes[node].replaces);
}

int64_t held_next(const struct held *h, int64_t node)
{
	return held_there(h, h->nodes[node].next) ? h->nodes[node].next : -1;
}

bool held_launch(struct held *h, int32_t pool, int64_t replaces)
{
	struct fs_sim *s = &h->s;
	int64_t node;

	assert(fs_suits(&s->w->pools[pool], h->unit));
	assert(replaces < 0 || (held_there(h, replaces) && held_next(h, replaces) < 0));
	if (s->live[pool] >= fs_room(&s->w->pools[pool], s->t)) {
		h->refused++;
		return false;
	}
	h->nodes = arena_grow(s->arena, h->nodes, s->nodes_n, &h->nodes_cap, sizeof(*h->nodes));
	node = fs_node_add(s, FS_NO_TASK, pool);
	h->nodes[node] = (struct held_node){ .idle_us = s->nodes[node].ready_us,
		.replaces = replaces,
		.next = -1 };
	if (replaces >= 0) {
		h->nodes[replaces].next = node;
	}
	h->alive = arena_grow(s->arena, h->alive, h->alive_n, &h->alive_cap, sizeof(*h->alive));
	h->alive[h->alive_n++] = node;
	return true;
}

static void job_start(struct held *h, struct fs_task *k, int64_t node, int64_t t)
{
	h->s.nodes[node].task = (size_t)(k - h->s.tasks);
	fs_start(&h->s, k, node, t);
}

static void job_queue(struct held *h, int64_t node, int64_t t)
{
	struct fs_task *k = &h->s.tasks[h->s.nodes[node].task];

	k->state = FS_QUEUED;
	k->node = -1;
	k->queued_us = t;
}

void held_move(struct held *h, int64_t node)
{
	struct fs_sim *s = &h->s;
	int64_t next = held_next(h, node), gone = s->t;

	assert(next >= 0 && s->nodes[next].ready_us <= s->t && held_idle(h, next));
	h->moves++;
	if (!held_idle(h, node)) {
		struct fs_task *k = &s->tasks[s->nodes[node].task];

		gone += k->job->save_us;
		fs_settle(s, k, s->t, true);
		k->moves++;
		job_start(h, k, next, gone);
	}
	fs_node_end(s, node, gone, false);
}

void held_release(struct held *h, int64_t node)
{
	assert(held_idle(h, node));
	fs_node_end(&h->s, node, h->s.t, false);
}

void held_drop(struct held *h, int64_t node)
{
	if (!held_idle(h, node)) {
		fs_settle(&h->s, &h->s.tasks[h->s.nodes[node].task], h->s.t, false);
		job_queue(h, node, h->s.t);
	}
	fs_node_end(&h->s, node, h->s.t, false);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void alive_read(struct held *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->alive_n; i++) {
		if (held_there(h, h->alive[i])) {
			h->alive[n++] = h->alive[i];
		}
	}
	h->alive_n = n;
}

static void jobs_arrive(struct held *h, int64_t t)
{
	struct fs_sim *s = &h->s;

	for (size_t i = 0; i < s->w->jobs_n && s->w->jobs[i].submit_us <= t; i++) {
		if (s->tasks[i].state == FS_ABSENT) {
			s->tasks[i].state = FS_QUEUED;
			s->tasks[i].queued_us = s->w->jobs[i].submit_us;
		}
	}
}

static void jobs_finish(struct held *h, int64_t t)
{
	struct fs_sim *s = &h->s;

	for (size_t i = 0; i < h->alive_n; i++) {
		int64_t node = h->alive[i], at;
		struct fs_task *k;

		if (held_idle(h, node)) {
			continue;
		}
		k = &s->tasks[s->nodes[node].task];
		at = fs_finish_at(k);
		if (at <= t) {
			fs_settle(s, k, at, true);
			k->state = FS_DONE;
			k->finish_us = at;
			s->done_n++;
			s->nodes[node].task = FS_NO_TASK;
			h->nodes[node].idle_us = at;
		}
	}
}

static void node_reclaim(struct held *h, int64_t node, int64_t t)
{
	struct fs_sim *s = &h->s;
	struct fs_node *n = &s->nodes[node];

	h->reclaims++;
	if (!held_idle(h, node)) {
		struct fs_task *k = &s->tasks[n->task];
		bool saved = fs_notice_saves(s, k, &s->w->pools[n->pool], t);

		fs_settle(s, k, saved ? t - k->job->save_us : t, saved);
		k->reclaims++;
		job_queue(h, node, t);
	}
	fs_node_end(s, node, t, true);
	if (s->brain->reclaimed != NULL) {
		s->brain->reclaimed(s, s->self, n, t);
	}
}

static int64_t victim_pick(const struct held *h, int32_t pool, int64_t t)
{
	double most = -1;
	int64_t ret = -1;

	for (size_t i = 0; i < h->alive_n; i++) {
		int64_t node = h->alive[i];
		double luck = fs_luck(h->s.w->seed, (uint64_t)node, (uint64_t)t);

		if (held_there(h, node) && h->s.nodes[node].pool == pool && luck > most) {
			most = luck;
			ret = node;
		}
	}
	return ret;
}

static void nodes_reclaim(struct held *h, int64_t t)
{
	for (size_t p = 0; p < h->s.w->pools_n; p++) {
		int32_t room = h->s.live[p] > 0 ? fs_room(&h->s.w->pools[p], t) : 0;

		while (h->s.live[p] > room) {
			node_reclaim(h, victim_pick(h, (int32_t)p, t), t);
		}
	}
}

static int64_t free_find(const struct held *h, int64_t t)
{
	for (size_t i = 0; i < h->alive_n; i++) {
		int64_t node = h->alive[i];

		if (held_there(h, node) && held_idle(h, node) && h->s.nodes[node].ready_us <= t &&
		    !held_stands_in(h, node)) {
			return node;
		}
	}
	return -1;
}

static void jobs_start(struct held *h, int64_t t)
{
	struct fs_sim *s = &h->s;

	for (size_t i = 0; i < s->w->jobs_n && s->w->jobs[i].submit_us <= t; i++) {
		struct fs_task *k = &s->tasks[i];
		int64_t node;

		if (k->state != FS_QUEUED || k->queued_us > t) {
			continue;
		}
		node = free_find(h, t);
		if (node < 0) {
			return;
		}
		k->wait_us += t - k->queued_us;
		job_start(h, k, node, t);
	}
}

static void size_note(struct held *h, int64_t t)
{
	int32_t ready = 0;

	for (size_t i = 0; i < h->alive_n; i++) {
		int64_t node = h->alive[i];

		ready += held_there(h, node) && h->s.nodes[node].ready_us <= t &&
		    !held_stands_in(h, node);
	}
	h->short_us += MAX(h->wanted - ready, 0) * FS_STEP_US;
	h->wanted_at[t / FS_STEP_US] = h->wanted;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void fleet_end(struct held *h, int64_t t)
{
	struct fs_sim *s = &h->s;

	s->t = t;
	alive_read(h);
	jobs_finish(h, t);
	for (size_t i = 0; i < h->alive_n; i++) {
		int64_t node = h->alive[i];

		if (!held_idle(h, node)) {
			fs_settle(s, &s->tasks[s->nodes[node].task], t, true);
			job_queue(h, node, t);
		}
		fs_node_end(s, node, t, false);
	}
	for (size_t i = 0; i < s->w->jobs_n; i++) {
		if (s->tasks[i].state == FS_QUEUED) {
			s->tasks[i].wait_us += MAX(t - s->tasks[i].queued_us, 0);
		}
	}
}

void held_run(struct arena *a, const struct held_world *w, const struct fs_brain *b,
    int64_t horizon_us, struct held *ret)
{
	struct fs_sim *s = &ret->s;

	*ret = (struct held){ .s = { .w = &w->w, .brain = b, .arena = a },
		.spec = w->spec,
		.unit = &w->unit,
		.wanted = held_most(w->spec) };
	ret->wanted_at = arena_array(a, (size_t)(horizon_us / FS_STEP_US) + 1, sizeof(int32_t));
	s->tasks = arena_array(a, w->w.jobs_n + 1, sizeof(*s->tasks));
	for (size_t i = 0; i < w->w.jobs_n; i++) {
		s->tasks[i] = (struct fs_task){ .job = &w->w.jobs[i],
			.node = -1,
			.next = -1,
			.last_pool = -1,
			.tried_us = -1 };
	}
	s->self = b->init(s, b->arg);
	for (int64_t t = 0; t < horizon_us; t += FS_STEP_US) {
		s->t = t;
		alive_read(ret);
		jobs_arrive(ret, t);
		jobs_finish(ret, t);
		nodes_reclaim(ret, t);
		jobs_start(ret, t);
		b->step(s, s->self, t);
		size_note(ret, t);
	}
	fleet_end(ret, horizon_us);
	if (b->end != NULL) {
		b->end(s->self);
		s->self = NULL;
	}
}

void held_result(struct arena *a, const struct held *h, struct fs_result *ret)
{
	const struct fs_sim *s = &h->s;

	fs_result(a, s, ret);
	ret->work_h = 0;
	for (size_t i = 0; i < s->w->jobs_n; i++) {
		ret->work_h += (double)s->tasks[i].durable_us / (double)SPOT_US_PER_HOUR *
		    s->tasks[i].job->gpus;
	}
	ret->refused = h->refused;
	ret->moves = h->moves;
	ret->reclaims = h->reclaims;
	ret->starts = (int64_t)s->nodes_n;
	ret->short_h = (double)h->short_us / (double)SPOT_US_PER_HOUR;
}
