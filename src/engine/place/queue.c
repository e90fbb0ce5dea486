/* The queue: the order in which jobs wait and the reason (core/queue/queue.h), as rows for placing
 * and for people. Also the teams' dollars, updated from the ledger. Then the room in it: a quota
 * that the first blocked job waits for is held for it. Other jobs go ahead only if they end in
 * time. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/place/place_priv.h"

#define QUEUE_MOST 5000
#define SPEND_MOST_US (60 * SPOT_US_PER_S)
/* While jobs come all the time, their order is computed at most this often for each that waits: a
 * few hundredths of a core. */
#define PLACE_PAUSE_US 100
/* Without changes: priorities age in half hours, and deadlines come nearer. */
#define QUEUE_TICKS 60

/* ---- order ----------------------------------------------------------------------------------- */

struct queue_work {
	struct q_engine_queue_jobs_row *jobs;
	size_t n;
};

static void queue_entries(struct recon *r, const struct queue_work *t, struct schedule_job *jobs)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct q_engine_queue_jobs_row *j = &t->jobs[i];
		int64_t left_s = j->work_s > 0 ? j->work_s : r->e->conf.rank.default_work_s;

		if (j->steps_total > 0) {
			left_s = (int64_t)((double)left_s *
			    (double)MAX(j->steps_total - j->steps_done, 0) /
			    (double)j->steps_total);
		}
		jobs[i] = (struct schedule_job){ .id = j->id,
			.team = j->team,
			.priority = j->priority,
			.queued_us = j->queued_us,
			.deadline_us = j->has_deadline_us ? j->deadline_us : 0,
			.left_us = left_s * SPOT_US_PER_S + r->e->conf.supply.changeover_us,
			.cost_micros = j->has_cost_micros ? j->cost_micros : 0 };
	}
}

static bool place_stays(const struct q_engine_queue_jobs_row *j, const struct schedule_place *p,
    int32_t pos)
{
	double off = j->has_ratio ? j->ratio - p->ratio : 1;

	return j->has_pos && j->pos == pos && j->effective == p->effective &&
	    strcmp(j->why, p->why) == 0 && off < 0.05 && off > -0.05;
}

struct queue_state {
	size_t places_n; /* in the queue when they were last written */
	int64_t spent_us; /* mono: the teams' dollars were last updated */
	int64_t next_us; /* mono: the order is not computed again before that */
};

/* The statement also deletes the places of jobs that no longer wait: a changed number reveals them.
 * */
static void queue_write(struct recon *r, const struct queue_work *t,
    const struct schedule_place *places)
{
	struct queue_state *st = r->state;
	struct q_engine_queue_write_place *rows = arena_array(r->arena, t->n + 1, sizeof(*rows));
	struct step *s;
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct schedule_place *p = &places[i];

		if (!place_stays(&t->jobs[p->job], p, (int32_t)i + 1)) {
			rows[n++] = (struct q_engine_queue_write_place){
				.job_id = t->jobs[p->job].id,
				.pos = (int32_t)i + 1,
				.effective = p->effective,
				.ratio = p->ratio,
				.why = p->why,
			};
		}
	}
	if (n == 0 && st->places_n == t->n) {
		return;
	}
	st->places_n = t->n;
	s = step_new(r, NULL, NULL);
	STEP(s, engine_queue_write,
	    (&(struct q_engine_queue_write){ .place = rows,
		.place_n = n,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static bool shares_match_file(const struct engine_conf *c, const struct q_engine_shares_row *rows,
    size_t n)
{
	size_t same = 0, filed = 0;

	for (size_t i = 0; i < n; i++) {
		filed += rows[i].has_file_pm;
		for (size_t k = 0; k < c->shares_n && rows[i].has_file_pm; k++) {
			same += strcmp(rows[i].team, c->shares[k].team) == 0 &&
			    rows[i].file_pm == c->shares[k].weight_pm;
		}
	}
	return same == c->shares_n && filed == c->shares_n;
}

/* The leader's configuration file is the one that counts. */
static void shares_file(struct recon *r, const struct q_engine_shares_row *rows, size_t n)
{
	const struct engine_conf *c = &r->e->conf;
	struct q_engine_shares_file_share *shares =
	    arena_array(r->arena, c->shares_n + 1, sizeof(*shares));
	struct step *s;

	if (shares_match_file(c, rows, n)) {
		return;
	}
	for (size_t i = 0; i < c->shares_n; i++) {
		shares[i] = (struct q_engine_shares_file_share){ .team = c->shares[i].team,
			.weight_pm = c->shares[i].weight_pm };
	}
	s = step_new(r, NULL, NULL);
	STEP(s, engine_shares_file,
	    (&(struct q_engine_shares_file){ .share = shares,
		.share_n = c->shares_n,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void shares_read(struct step *s)
{
	struct recon *r = s->r;
	const struct queue_work *t = s->ctx;
	struct q_engine_shares_row *rows;
	size_t n = q_engine_shares_rows(&s->req, r->arena, &rows);
	struct schedule_team *teams = arena_array(r->arena, n + 1, sizeof(*teams));
	struct schedule_job *jobs = arena_array(r->arena, t->n + 1, sizeof(*jobs));
	struct schedule_place *places = arena_array(r->arena, t->n + 1, sizeof(*places));

	for (size_t i = 0; i < n; i++) {
		teams[i] = (struct schedule_team){ .team = rows[i].team,
			.weight_pm = rows[i].weight_pm,
			.spent_micros = rows[i].spent_micros };
	}
	shares_file(r, rows, n);
	queue_entries(r, t, jobs);
	schedule_order(r->arena, &r->e->conf.schedule, engine_now(r->e), teams, n, jobs, t->n,
	    places);
	queue_write(r, t, places);
}

static void queue_read(struct step *s)
{
	struct queue_work *t = arena_alloc(s->r->arena, sizeof(*t));
	struct queue_state *st = s->r->state;
	struct step *next;

	t->n = q_engine_queue_jobs_rows(&s->req, s->r->arena, &t->jobs);
	st->next_us = loop_mono_us(s->r->e->loop) + (int64_t)t->n * PLACE_PAUSE_US;
	next = step_new(s->r, shares_read, t);
	STEP(next, engine_shares, NULL);
}

static void shares_spend(struct recon *r)
{
	struct queue_state *st = r->state;
	struct engine *e = r->e;
	int64_t now = loop_mono_us(e->loop), pause = MIN(e->conf.bill_us, SPEND_MOST_US);
	struct step *s;

	if (st->spent_us != 0 && now - st->spent_us < pause) {
		return;
	}
	st->spent_us = now;
	recon_later(r, pause);
	s = step_new(r, NULL, NULL);
	STEP(s, engine_shares_spend,
	    (&(struct q_engine_shares_spend){ .at_us = engine_now(e),
		.half_us = MAX(e->conf.schedule.share_half_life_us, 1),
		.fence = r->epoch }));
}

static void queue_pass(struct recon *r, void *state)
{
	const struct queue_state *st = state;
	int64_t left = st->next_us - loop_mono_us(r->e->loop);
	struct step *s;

	shares_spend(r);
	if (left > 0) {
		recon_later(r, left);
		return;
	}
	s = step_new(r, queue_read, NULL);
	STEP(s, engine_queue_jobs, (&(struct q_engine_queue_jobs){ .most = QUEUE_MOST }));
}

/* ---- room ------------------------------------------------------------------------------------ */

bool quota_same(const struct offer *a, const struct offer *b)
{
	return a->has_quota && b->has_quota && a->market == b->market &&
	    strcmp(a->provider, b->provider) == 0 && strcmp(a->region, b->region) == 0 &&
	    strcmp(a->quota_class, b->quota_class) == 0;
}

int64_t room_need(const struct job_facts *f, const struct offer *o)
{
	return offer_quota_need(o) * MAX(f->nodes, 1);
}

bool quota_tried(struct recon *r, struct quotas_tried *t, const struct job_facts *f,
    const struct offer *o, bool zone)
{
	for (size_t i = 0; i < t->n; i++) {
		if (quota_same(t->list[i], o) &&
		    (!zone || strcmp(t->list[i]->zone, o->zone) == 0)) {
			if (room_need(f, t->list[i]) <= room_need(f, o)) {
				return true;
			}
			t->list[i] = o;
			return false;
		}
	}
	t->list = arena_grow(r->pass_arena, t->list, t->n, &t->cap, sizeof(*t->list));
	t->list[t->n++] = o;
	return false;
}

int64_t running_end_us(const struct engine *e, const struct q_engine_running_row *w)
{
	int64_t now = engine_now(e), from = w->has_started_us ? w->started_us : w->created_us,
		ran = MAX(now - from, 0), end;
	int64_t work_s = w->work_s > 0 ? w->work_s : e->conf.rank.default_work_s;

	if (w->steps_total > 0 && w->steps_done > w->steps_start && ran > 0) {
		return now +
		    (int64_t)((double)ran * (double)MAX(w->steps_total - w->steps_done, 0) /
			(double)(w->steps_done - w->steps_start));
	}
	end = from + e->conf.supply.changeover_us + work_s * SPOT_US_PER_S;
	return MAX(end, now + ran / 4);
}

static struct room_hold *hold_find(const struct room *m, const struct offer *o)
{
	for (size_t i = 0; i < m->holds_n; i++) {
		if (quota_same(m->holds[i].offer, o)) {
			return &m->holds[i];
		}
	}
	return NULL;
}

bool room_held(const struct room *m, const struct offer *o)
{
	return o != NULL && hold_find(m, o) != NULL;
}

/* Releases a free machine that no job waits for, at once if its capacity is needed. */
static bool nodes_idle(const struct recon *r, const struct q_engine_free_nodes_row *n,
    const struct offer *o)
{
	const struct offer *x = offer_find(r->e, n->pool_id);

	return x != NULL && quota_same(x, o) && !n->has_fleet_id &&
	    (!n->has_job_id || job_state_final(n->job_state));
}

/* The time from which the job has room in the offer's quota, by the expected ends. A job that has
 * not begun counts like one without progress reports. */
static struct backfill room_reserve(struct recon *r, const struct room *m,
    const struct job_facts *f, const struct offer *o)
{
	struct backfill_run *runs = arena_array(r->arena, m->n + m->free_n + 1, sizeof(*runs));
	int64_t now = engine_now(r->e), begins = o->quota_used;
	struct backfill b;
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct offer *x = offer_find(r->e, m->rows[i].pool_id);

		if (x != NULL && quota_same(x, o) && !m->rows[i].has_fleet_id) {
			runs[n++] = (struct backfill_run){ .end_us = m->rows[i].moving
				    ? 0
				    : running_end_us(r->e, &m->rows[i]),
				.units = offer_quota_need(x) };
		} else if (x != NULL && quota_same(x, o)) {
			begins -= offer_quota_need(x); /* a fleet keeps its machines */
		}
	}
	for (size_t i = 0; i < m->free_n; i++) {
		if (nodes_idle(r, &m->free[i], o)) {
			runs[n++] = (struct backfill_run){
				.units = offer_quota_need(offer_find(r->e, m->free[i].pool_id))
			};
		}
	}
	for (size_t i = 0; i < n; i++) {
		begins -= runs[i].units;
	}
	if (begins > 0) {
		runs[n++] = (struct backfill_run){ .end_us = now + r->e->conf.supply.changeover_us +
			    r->e->conf.rank.default_work_s * SPOT_US_PER_S,
			.units = begins };
	}
	backfill_reserve(r->arena, now, o->quota_limit, o->quota_used, room_need(f, o), runs, n,
	    &b);
	return b;
}

void room_hold(struct recon *r, struct room *m, const struct job_facts *f, const struct placing *p)
{
	const struct offer *best = NULL;
	struct backfill at = { .shadow_us = INT64_MAX };
	struct quotas_tried tried = { 0 };

	for (size_t i = 0; i < p->ranking.refused_n; i++) {
		const struct refused *x = &p->ranking.refused[i];
		struct backfill b;

		if (x->why != REFUSED_QUOTA || quota_tried(r, &tried, f, x->offer, false)) {
			continue;
		}
		part_begin(r); /* all running jobs, for each job and quota */
		b = room_reserve(r, m, f, x->offer);
		part_end(r);
		if (b.shadow_us < at.shadow_us) {
			at = b;
			best = x->offer;
		}
	}
	if (best == NULL || hold_find(m, best) != NULL) {
		return;
	}
	m->holds = arena_grow(r->arena, m->holds, m->holds_n, &m->holds_cap, sizeof(*m->holds));
	m->holds[m->holds_n++] = (struct room_hold){ .offer = best, .job_id = f->id, .b = at };
	for (size_t i = 0; i < m->held->n; i++) {
		if (m->held->ids[i] == f->id) {
			return;
		}
	}
	if (m->held->n < ARRAY_LEN(m->held->ids)) {
		m->held->ids[m->held->n++] = f->id;
	}
}

/* A gang's spread is that of one node, in proportion: its hours are those of the whole gang. */
static int64_t score_end_us(const struct recon *r, const struct score *s)
{
	struct score_terms t;

	if (s->by == NULL) {
		return engine_now(r->e) + (int64_t)(s->hours * (double)SPOT_US_PER_HOUR);
	}
	score_explain(s, &t);
	return engine_now(r->e) +
	    (int64_t)(t.hours_p95 * (t.hours > 0 ? s->hours / t.hours : 1) *
		(double)SPOT_US_PER_HOUR);
}

const char *room_filter(struct recon *r, struct room *m, const struct job_facts *f,
    struct placing *p)
{
	const struct room_hold *last = NULL;
	char at[TIME_TEXT_MAX];
	struct place_in in;
	size_t n = 0;

	for (size_t i = 0; i < p->usable && m->holds_n > 0; i++) {
		const struct room_hold *h = hold_find(m, p->scores[i].offer);
		/* A job with a deadline is placed later in the pass, when spare capacity is
		 * unknown. */
		bool late = f->deadline_us != 0 && h != NULL &&
		    score_end_us(r, &p->scores[i]) > h->b.shadow_us;

		if (h != NULL &&
		    (late ||
			!backfill_fits(&h->b, room_need(f, p->scores[i].offer),
			    score_end_us(r, &p->scores[i])))) {
			last = h;
			continue;
		}
		p->scores[n++] = p->scores[i];
	}
	if (last == NULL) {
		return NULL;
	}
	p->usable = n;
	p->ranking.usable = p->gang == NULL ? n : p->ranking.usable;
	in = place_in(r);
	placement_count(&in, f, p);
	return n > 0
	    ? NULL
	    : arena_printf(r->arena,
		  "j%" PRId64
		  " is ahead and is expected to begin by %s in quota %s of %s, when others end: "
		  "this job would not have ended by then",
		  last->job_id, format_time_s(last->b.shadow_us, at), last->offer->quota_class,
		  last->offer->provider);
}

bool room_take(struct recon *r, struct room *m, const struct job_facts *f, const struct score *s)
{
	struct room_hold *h = hold_find(m, s->offer);

	return h != NULL && backfill_take(&h->b, room_need(f, s->offer), score_end_us(r, s));
}

const struct recon_kind queue_kind = { .name = "queue",
	.state_size = sizeof(struct queue_state),
	.wakes = TOUCH_JOB | TOUCH_SHARE,
	.ticks = QUEUE_TICKS,
	.pass = queue_pass };
