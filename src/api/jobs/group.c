/*
 * Submits in groups: one statement, one transaction and one notification for all that arrived
 * together. At most two groups are in flight, so the next one is executed while the first one
 * waits for the disk. A row that the statement refuses has an outcome of its own. If a statement
 * fails as a whole because of what is in it, its rows are tried again, one at a time.
 *
 * A key of which a row is in flight waits for that row, and then finds its reply.
 */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

#define COLLECT_US 2000
#define GROUPS_MAX 2
#define ROWS_MAX 256
#define BYTES_MAX ((size_t)8 << 20)

struct group {
	struct job_groups *all;
	struct pg_req req;
	struct job_submit *rows[ROWS_MAX];
	size_t n, bytes;
	bool busy;
};

struct job_groups {
	struct api_part part;
	struct api *api;
	struct job_submit *waiting, **end;
	struct group groups[GROUPS_MAX];
	struct loop_timer timer; /* the first that waits has waited for long enough */
	struct loop_task task; /* at the end of this turn */
};

/* ---- collecting ------------------------------------------------------------------------------ */

static bool key_in_flight(const struct job_groups *all, uint64_t key)
{
	for (size_t i = 0; key != 0 && i < GROUPS_MAX; i++) {
		for (size_t k = 0; k < all->groups[i].n; k++) {
			if (all->groups[i].rows[k]->key == key) {
				return true;
			}
		}
	}
	return false;
}

static size_t submit_bytes(const struct job_submit *s)
{
	return strlen(s->row.spec) + strlen(s->row.source) + strlen(s->row.tail) + 1024;
}

/* Takes from those that wait, in their order. */
static void group_fill(struct group *g)
{
	struct job_groups *all = g->all;
	struct job_submit **at = &all->waiting, *s;

	g->n = g->bytes = 0;
	while ((s = *at) != NULL && g->n < ROWS_MAX && g->bytes < BYTES_MAX) {
		if (s->alone && g->n > 0) {
			break;
		}
		if (key_in_flight(all, s->key)) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		g->rows[g->n++] = s;
		g->bytes += submit_bytes(s);
		if (s->alone) {
			break;
		}
	}
	for (all->end = &all->waiting; *all->end != NULL;) {
		all->end = &(*all->end)->next;
	}
}

static void group_done(struct op *op);

static void group_send(struct group *g)
{
	struct arena *a = arena_new(0);
	struct q_api_jobs_submit_job *rows = arena_array(a, g->n, sizeof(*rows));

	for (size_t i = 0; i < g->n; i++) {
		rows[i] = g->rows[i]->row;
	}
	g->busy = true;
	q_api_jobs_submit(g->all->api->pg, &g->req,
	    &(struct q_api_jobs_submit){ .job = rows, .job_n = g->n }, group_done);
	arena_free(a);
}

/* Sends what waits, in as many groups as may fly. */
static void groups_send(struct job_groups *all)
{
	loop_timer_stop(&all->timer);
	for (size_t i = 0; i < GROUPS_MAX && all->waiting != NULL; i++) {
		struct group *g = &all->groups[i];

		if (g->busy) {
			continue;
		}
		group_fill(g);
		if (g->n == 0) {
			return;
		}
		group_send(g);
	}
}

static void task_run(struct loop_task *t)
{
	groups_send(container_of(t, struct job_groups, task));
}

static void timer_fire(struct loop_timer *t)
{
	groups_send(container_of(t, struct job_groups, timer));
}

/* ---- the end of a group ---------------------------------------------------------------------- */

/* The connection or the database failed, not a row. */
static bool all_failed(enum spot_rc rc)
{
	/* INTERNAL is also an SQLSTATE of a row's own values, such as a key too large. */
	return rc == SPOT_UNKNOWN || rc == SPOT_CANCELLED ||
	    (rc != SPOT_INTERNAL && spot_rc_act(rc) == SPOT_ACT_LATER);
}

static void rows_retry(struct group *g)
{
	struct job_groups *all = g->all;

	for (size_t i = g->n; i > 0; i--) {
		g->rows[i - 1]->alone = true;
		g->rows[i - 1]->next = all->waiting;
		all->waiting = g->rows[i - 1];
	}
	for (all->end = &all->waiting; *all->end != NULL;) {
		all->end = &(*all->end)->next;
	}
}

static void rows_fail(struct group *g)
{
	struct spot_err err = g->req.op.err;

	err.rc = g->req.op.rc;
	for (size_t i = 0; i < g->n; i++) {
		g->rows[i]->done(g->rows[i], NULL, &err);
	}
}

static void rows_end(struct group *g)
{
	struct arena *a = arena_new(0);
	struct q_api_jobs_submit_row *rows;
	size_t n = q_api_jobs_submit_rows(&g->req, a, &rows);

	assert(n == g->n);
	for (size_t i = 0; i < n; i++) {
		struct job_submit *s = g->rows[rows[i].at - 1];

		s->done(s, &rows[i], NULL);
	}
	arena_free(a);
}

static void group_done(struct op *op)
{
	struct group *g = container_of(op, struct group, req.op);
	struct job_groups *all = g->all;

	if (op->rc == SPOT_OK) {
		rows_end(g);
	} else if (g->n > 1 && !all_failed(op->rc)) {
		rows_retry(g);
	} else {
		rows_fail(g);
	}
	pg_req_fini(&g->req);
	g->n = 0;
	g->busy = false;
	groups_send(all);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void groups_release(void *p)
{
	free(p);
}

static void groups_fini(struct api_part *part)
{
	struct job_groups *all = container_of(part, struct job_groups, part);

	for (size_t i = 0; i < GROUPS_MAX; i++) {
		pg_req_fini(&all->groups[i].req);
	}
	loop_timer_stop(&all->timer);
	loop_defer_cancel(all->api->loop, &all->task);
	all->api->job_groups = NULL;
	loop_bury(all->api->loop, all, groups_release);
}

static struct job_groups *groups_of(struct api *api)
{
	struct job_groups *all = api->job_groups;

	if (all == NULL) {
		all = api->job_groups = calloc(1, sizeof(*all));
		assert(all != NULL);
		all->api = api;
		all->end = &all->waiting;
		for (size_t i = 0; i < GROUPS_MAX; i++) {
			all->groups[i].all = all;
		}
		loop_timer_init(&all->timer, api->loop, timer_fire);
		api_own(api, &all->part, groups_fini);
	}
	return all;
}

void group_add(struct job_submit *s)
{
	struct job_groups *all = groups_of(s->q->api);
	bool idle = true;

	s->next = NULL;
	*all->end = s;
	all->end = &s->next;
	for (size_t i = 0; i < GROUPS_MAX; i++) {
		idle = idle && !all->groups[i].busy;
	}
	if (idle && !all->task.queued) {
		loop_defer(s->q->api->loop, &all->task, task_run);
	} else if (!idle && !all->timer.armed) {
		loop_timer_set(&all->timer, COLLECT_US);
	}
}
