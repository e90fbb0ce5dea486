/* Back to spot, launch before leave. For a job that runs on demand the engine wants a spot node
 * when the move pays. Once that node has been ready for a while, the job saves, stops and is placed
 * on it. A refused probe cools its pool; the next probe waits longer and prefers other pools that
 * would pay. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/policy/policy.h"
#include "engine/market/market.h"
#include "engine/place/place_priv.h"

/* Jobs judged in one pass; the next goes on behind them. */
#define RETURN_MOST 50
/* Between looks at the running jobs, and between pages of one look. */
#define MOVE_TICKS 5
#define PAGE_TICKS 2
/* Older refusals say nothing about now. */
#define REFUSED_MOST 100
/* Jobs whose last answer is kept, and for how long: their speeds may have been measured since. */
#define STAYS 16384
#define STAY_US SPOT_US_PER_HOUR

static const struct score *here_score(struct recon *r, const struct move *m, int32_t pool_id)
{
	const struct offer *o = offer_find(r->e, pool_id);
	struct rank_job job = m->placing.job;
	const struct score *one;
	struct score *whole;

	/* The job runs there: a cooldown or a lack of capacity is no reason against it. */
	job.runs_there = true;
	one = o == NULL ? NULL : rank_one(r->arena, o, &job, &r->e->conf.rank, engine_now(r->e));
	if (one == NULL || m->facts.nodes < 2) {
		return one;
	}
	whole = arena_alloc(r->arena, sizeof(*whole));
	*whole = placement_whole(&m->facts, one);
	return whole;
}

int64_t launch_reserve(const struct recon *r, const struct job_facts *f, const struct placing *p)
{
	struct launch_reserve x;

	launch_reserve_find(&p->ranking,
	    (double)(f->deadline_us - engine_now(r->e)) / (double)SPOT_US_PER_HOUR,
	    r->e->conf.cool_min_us, r->e->conf.cool_max_us, &x);
	return x.us;
}

const char *move_never(struct recon *r, const struct move *m)
{
	struct place_policy k;

	if (m->placing.spec->checkpoint.path == NULL) {
		return "it saves nothing: a move would throw away what it has done";
	}
	if (m->facts.deadline_us == 0 || m->there == NULL) {
		return NULL;
	}
	if (m->placing.late) {
		return "it is late: it stays where it is, to be done as soon as may be (late: "
		       "cheapest in its file would move it)";
	}
	k = place_policy_of(r->e);
	return move_refused(r->arena,
	    &(struct move_in){ .now_us = engine_now(r->e),
		.deadline_us = m->facts.deadline_us,
		.here = m->here,
		.there = m->there,
		.on_demand = m->placing.on_demand,
		.save_us = m->facts.save_us,
		.changeover_us = placement_changeover_us(&k, &m->facts),
		.launch_us = launch_reserve(r, &m->facts, &m->placing),
		.unsaved_us = m->unsaved_us,
		.checkpoint = &m->placing.spec->checkpoint });
}

static struct job_facts move_facts(const struct q_engine_move_jobs_row *j)
{
	return (struct job_facts){ .id = j->id,
		.epoch = j->epoch,
		.state = JOB_RUNNING,
		.name = j->name,
		.spec_json = j->spec,
		.deadline_us = j->has_deadline_us ? j->deadline_us : 0,
		.created_us = j->created_us,
		.queued_us = j->queued_us,
		.steps_done = j->steps_done,
		.steps_total = j->steps_total,
		.checkpoint_bytes = j->checkpoint_bytes,
		.save_us = j->save_us,
		.has_checkpoint = j->has_checkpoint_id,
		.rates = j->rates,
		.restart_us = j->has_restart_us ? j->restart_us : 0,
		.nodes = j->num_nodes,
		.has_budget = j->has_budget_micros,
		.budget_micros = j->budget_micros,
		.budget_left = j->budget_left };
}

/* The part of the remaining work that is done and not saved. A job without step reports counts as
 * having worked since its newest save, but no longer than its work. Of any other job nothing counts
 * as done. */
static int64_t unsaved_us(const struct recon *r, const struct q_engine_move_jobs_row *j,
    const struct score *here, const struct score *to)
{
	int64_t saved = j->has_checkpoint_id ? MIN(j->checkpoint_steps, j->steps_done) : 0;
	double work = to->work_h * (double)SPOT_US_PER_HOUR, ran;

	if (j->steps_total > 0) {
		return j->steps_total <= j->steps_done || j->steps_done == 0
		    ? 0
		    : (int64_t)(work * (double)(j->steps_done - saved) /
			  (double)(j->steps_total - j->steps_done));
	}
	if (!j->has_unsaved_from_us || here->throughput <= 0 || to->throughput <= 0) {
		return 0;
	}
	ran = (double)(engine_now(r->e) - j->unsaved_from_us) * here->throughput / to->throughput;
	return (int64_t)MIN(MAX(ran, 0.0), work);
}

static const struct offer *const *refused_offers(struct recon *r, const char *pools, size_t *ret_n)
{
	const struct offer **list = NULL;
	size_t cap = 0;
	char *end;

	*ret_n = 0;
	for (const char *at = pools; at != NULL && *at != '\0' && *ret_n < REFUSED_MOST; at = end) {
		const struct offer *o = offer_find(r->e, (int32_t)strtol(at, &end, 10));

		if (o != NULL) {
			list = arena_grow(r->arena, list, *ret_n, &cap, sizeof(*list));
			list[(*ret_n)++] = o;
		}
	}
	return list;
}

/* The destination: a spot pool that is not tight, with the most valuable probe (for a rebalance any
 * pool, if the cheapest is spot). If none pays, the cheapest, for the reason why not. */
static const struct score *destination_find(struct recon *r, const struct move *m,
    const char *refused_pools, bool spot_only, bool *ret_easy)
{
	const struct offer *const *refused;
	const struct placing *p = &m->placing;
	const struct score *first = NULL, *best;
	const struct score **list = arena_array(r->arena, p->usable + 1, sizeof(*list));
	size_t n = 0, refused_n;

	*ret_easy = true;
	if (!spot_only && p->usable > 0 && !spot_market_reclaims(p->scores[0].offer->market)) {
		return &p->scores[0];
	}
	for (size_t i = 0; i < p->usable; i++) {
		const struct offer *o = p->scores[i].offer;

		if (spot_market_reclaims(o->market) && !(spot_only && supply_tight(r->e, o))) {
			first = first == NULL ? &p->scores[i] : first;
			list[n++] = &p->scores[i];
		}
	}
	*ret_easy = n > 0;
	refused = refused_offers(r, refused_pools, &refused_n);
	best = return_probe(list, n, m->here, refused, refused_n, &r->e->conf.supply);
	return best != NULL ? best : n > 0 ? first : p->spot;
}

size_t move_jobs_whole(const struct q_engine_move_jobs_row *rows, size_t n)
{
	size_t i = 0;

	while (i < n && rows[i].spec != NULL) {
		i++;
	}
	return i;
}

bool move_judge(struct recon *r, const struct q_engine_move_jobs_row *j, bool spot_only,
    struct move *ret)
{
	struct engine *e = r->e;
	const char *never;
	struct return_in in;
	bool easy = true;

	*ret = (struct move){ .facts = move_facts(j) };
	if (!place_rank(r, &ret->facts, &ret->placing)) {
		return false;
	}
	ret->here = here_score(r, ret, j->pool_id);
	if (ret->here == NULL) {
		return false;
	}
	if (!spot_only && ret->placing.usable > 0 &&
	    ret->placing.scores[0].offer->pool_id == j->pool_id) {
		ret->there = &ret->placing.scores[0];
	} else {
		/* A probe in a tight pool would be refused, or reclaimed soon. */
		ret->there = destination_find(r, ret, j->refused, spot_only, &easy);
	}
	/* without steps all of the work counts as undone */
	if (ret->there != NULL && j->steps_total > 0) {
		ret->unsaved_us = unsaved_us(r, j, ret->here,
		    ret->placing.on_demand != NULL ? ret->placing.on_demand : ret->there);
	}
	if (ret->there != NULL && ret->there->offer->pool_id == j->pool_id) {
		ret->out.why = "it is in the best pool already";
		return true;
	}
	in = return_pair(engine_now(e), ret->here, ret->there);
	in.last_move_us = j->last_move_us;
	in.moves_last_hour = j->moves_hour;
	in.probes_refused = j->probes_refused;
	in.last_probe_us = j->last_probe_us;
	in.there_tight = !easy;
	return_decide(r->arena, &in, &e->conf.supply, &ret->out);
	if (ret->out.move && j->probes_refused > 0) { /* it may not be the cheapest */
		ret->out.why = arena_printf(r->arena, "%s; refused before, since it runs here: %d",
		    ret->out.why, (int)j->probes_refused);
	}
	never = move_never(r, ret);
	if (never != NULL) {
		ret->out.move = false;
		ret->out.why = never;
	}
	return true;
}

/* Tells all ranks of a running job to save and stop. Returns false when it may not now. */
static bool move_leave(struct recon *r, const struct job_facts *f, const char *why)
{
	enum job_state next = job_next(f->id, f->state, JOB_EV_MOVE);
	struct step *s;

	if (next == JOB_NONE) {
		return false;
	}
	s = step_new(r, NULL, NULL);
	if (f->nodes > 1) {
		STEP(s, engine_gang_tell,
		    (&(struct q_engine_gang_tell){ .job_id = f->id,
			.epoch = f->epoch,
			.was = f->state,
			.now = next,
			.event = JOB_EV_MOVE,
			.desired = "drain",
			.why = why,
			.at_us = engine_now(r->e),
			.fence = r->epoch }));
		return true;
	}
	STEP(s, engine_attempt_tell,
	    (&(struct q_engine_attempt_tell){ .job_id = f->id,
		.epoch = f->epoch,
		.was = f->state,
		.now = next,
		.event = JOB_EV_MOVE,
		.desired = "drain",
		.why = why,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
	return true;
}

static void move_now(struct recon *r, const struct q_engine_move_jobs_row *j)
{
	struct job_facts f = { .id = j->id,
		.epoch = j->epoch,
		.state = JOB_RUNNING,
		.nodes = j->num_nodes };
	const char *why =
	    arena_printf(r->arena, "moves from n%" PRId64 " to n%" PRId64 ", which is ready",
		j->node_id, j->replacement_id);

	if (j->num_nodes > 1) {
		why = arena_printf(r->arena,
		    "moves with all of its %d nodes, from n%" PRId64 " to n%" PRId64
		    " and so on, which are ready",
		    (int)j->num_nodes, j->node_id, j->replacement_id);
	}
	if (move_leave(r, &f, why)) {
		log_info("job.moves", I64("job", j->id), I64("from", j->node_id),
		    I64("to", j->replacement_id));
	}
}

/* A move that did not pay pays no sooner while the market stays: less work is left. */
struct stay_seen {
	int64_t job_id, until_us; /* mono */
	int32_t epoch;
	uint64_t market;
};

struct move_back {
	int64_t after; /* the next pass begins behind this job; 0 = at the first */
	struct stay_seen seen[STAYS]; /* by the job's id; only pacing */
};

/* Another number whenever offers or tight supply changed. */
static uint64_t stay_market(const struct engine *e)
{
	const struct tight_group *list;
	size_t n = supply_tight_groups(e, &list);
	uint64_t h = hash_mix(n, (uint64_t)e->offers.version);

	for (size_t i = 0; i < n; i++) {
		h = hash_str(hash_str(hash_str(h, list[i].provider), list[i].region), list[i].gpu);
	}
	return h;
}

/* NULL: time alone may change the answer, so it is sought anew. */
static struct stay_seen *stay_slot(struct recon *r, const struct q_engine_move_jobs_row *j)
{
	struct move_back *st = r->state;

	return j->has_deadline_us || j->has_budget_micros || j->last_move_us != 0 ||
		j->probes_refused > 0 || j->last_probe_us != 0
	    ? NULL
	    : &st->seen[(uint64_t)j->id % STAYS];
}

static bool stay_known(struct recon *r, const struct q_engine_move_jobs_row *j, uint64_t market)
{
	const struct stay_seen *s = stay_slot(r, j);

	return s != NULL && s->job_id == j->id && s->epoch == j->epoch && s->market == market &&
	    loop_mono_us(r->e->loop) < s->until_us;
}

static void stay_keep(struct recon *r, const struct q_engine_move_jobs_row *j, uint64_t market)
{
	struct stay_seen *s = stay_slot(r, j);

	if (s != NULL) {
		*s = (struct stay_seen){ .job_id = j->id,
			.epoch = j->epoch,
			.market = market,
			.until_us = loop_mono_us(r->e->loop) + STAY_US };
	}
}

struct return_work {
	struct q_engine_move_jobs_row *rows;
	size_t n;
};

/* For a job with a deadline that runs on demand, asks its policy: back to spot, stay, or wait for
 * spot while there is time. */
static bool deadline_moves(struct recon *r, const struct q_engine_move_jobs_row *j,
    const struct move *m)
{
	const struct supply_policy *k = &r->e->conf.supply;
	const struct offer *o = offer_find(r->e, j->pool_id);
	const struct backoff pauses = { .first_us = k->return_probe_us,
		.cap_us = 16 * k->return_probe_us };

	if (m->facts.deadline_us != 0 &&
	    (m->placing.late || j->moves_hour >= k->moves_per_hour_max ||
		engine_now(r->e) - j->last_probe_us <
		    backoff_wait_us(&pauses, j->probes_refused, NULL))) {
		return true;
	}
	return o != NULL && o->market == SPOT_MARKET_ON_DEMAND && m->placing.job.spot_allowed &&
	    m->placing.spec->checkpoint.path != NULL &&
	    deadline_ask(r, &m->facts, &m->placing,
		&(struct deadline_held){ .act = POLICY_ON_DEMAND,
		    .pool_id = j->pool_id,
		    .node_id = j->node_id,
		    .here = m->here });
}

/* The reason to leave spot for this on-demand offer; NULL: there is none. Either spot has become
 * too slow for the deadline (more reclaims, slower than declared). Or a reclaim now would take more
 * unsaved work than the deadline leaves. */
static const char *spot_left(struct recon *r, const struct q_engine_move_jobs_row *j,
    const struct move *m, const struct score *od)
{
	struct place_policy k = place_policy_of(r->e);
	int64_t now = engine_now(r->e), changeover = placement_changeover_us(&k, &m->facts);
	int64_t unsaved = unsaved_us(r, j, m->here, od);
	double left = (double)(m->facts.deadline_us - now) / (double)SPOT_US_PER_HOUR;
	char text[32];

	enum stay stay = stay_judge(&(struct stay_in){ .now_us = now,
	    .deadline_us = m->facts.deadline_us,
	    .here = m->here,
	    .left_us = (int64_t)(od->hours * (double)SPOT_US_PER_HOUR),
	    .unsaved_us = unsaved,
	    .clock_us = j->steps_total > 0 ? 0 : unsaved,
	    .save_us = j->save_us,
	    .changeover_us = changeover,
	    .launch_us = launch_reserve(r, &m->facts, &m->placing) });

	if (stay == STAY_TOO_SLOW) {
		return arena_printf(r->arena,
		    "deadline: %.2f h are left, it needs %.2f h here and %.2f h on demand", left,
		    m->here->hours,
		    od->hours + (double)(changeover + j->save_us) / (double)SPOT_US_PER_HOUR);
	}
	if (stay == STAY_UNSAFE && unsaved > 0) {
		return arena_printf(r->arena,
		    "deadline: %.2f h are left, on demand needs %.2f h; a reclaim now would take "
		    "%s more",
		    left, od->hours, format_duration(unsaved, text));
	}
	return NULL;
}

/* Leaves spot for the deadline while on demand is still in time. Nothing else moves a job from spot
 * here. */
static bool spot_leave(struct recon *r, const struct q_engine_move_jobs_row *j,
    const struct move *m)
{
	const struct offer *o = offer_find(r->e, j->pool_id);
	const struct score *od = m->placing.late
	    ? rank_quickest(m->placing.scores, m->placing.usable)
	    : m->placing.on_demand;
	const char *why;

	if (o == NULL || !spot_market_reclaims(o->market)) {
		return false;
	}
	if (m->facts.deadline_us == 0 || od == NULL || od->offer->market != SPOT_MARKET_ON_DEMAND ||
	    m->placing.spec->work_s <= 0 || m->placing.spec->checkpoint.path == NULL ||
	    j->moves_hour >= r->e->conf.supply.moves_per_hour_max) {
		return true;
	}
	why = spot_left(r, j, m, od);
	if (why != NULL) {
		place_want(r, &m->facts, &m->placing, od, j->node_id, "failover", why);
	}
	return true;
}

static void return_decide_all(struct recon *r, void *ctx)
{
	struct return_work *t = ctx;
	const uint64_t market = stay_market(r->e);
	struct move m;

	deadline_pass_begins(r->e);
	for (size_t i = 0; i < t->n; i++) {
		if (t->rows[i].has_replacement_id || stay_known(r, &t->rows[i], market)) {
			continue;
		}
		r->e->offers.returns_judged++;
		if (!move_judge(r, &t->rows[i], true, &m) || spot_leave(r, &t->rows[i], &m) ||
		    deadline_moves(r, &t->rows[i], &m)) {
			continue;
		}
		if (m.out.move && m.there != NULL && m.placing.job.spot_allowed) {
			AUTO(json)
			json_t *move = move_json(m.here, m.there, &m.out, t->rows[i].node_id);

			m.placing.move = move;
			place_want(r, &m.facts, &m.placing, m.there, t->rows[i].node_id, "return",
			    m.out.why);
		} else {
			stay_keep(r, &t->rows[i], market);
		}
	}
}

static void return_jobs(struct step *s)
{
	struct move_back *st = s->r->state;
	struct return_work *t = arena_alloc(s->r->arena, sizeof(*t));
	int64_t now = engine_now(s->r->e), hold = s->r->e->conf.supply.return_hold_us;
	size_t n = q_engine_move_jobs_rows(&s->req, s->r->arena, &t->rows);
	bool judge = false, more;

	t->n = move_jobs_whole(t->rows, n);
	more = t->n < n || n == RETURN_MOST;
	st->after = more ? t->rows[t->n - 1].id : 0;
	if (more) { /* a page at a time: it costs a hundredth of a core, however many run */
		recon_later(s->r, PAGE_TICKS * s->r->e->conf.tick_us);
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct q_engine_move_jobs_row *j = &t->rows[i];

		judge |= !j->has_replacement_id;
		if (!j->has_replacement_id || j->replacement_state != NODE_READY) {
			continue;
		}
		if (j->replacement_ready_us + hold <= now) {
			move_now(s->r, j);
		} else {
			recon_later(s->r, j->replacement_ready_us + hold - now);
		}
	}
	if (judge) {
		offers_need(s->r, return_decide_all, t);
	}
}

static void move_back_pass(struct recon *r, void *state)
{
	const struct move_back *st = state;
	struct step *s = step_new(r, return_jobs, NULL);

	STEP(s, engine_move_jobs,
	    (&(struct q_engine_move_jobs){ .at_us = engine_now(r->e),
		.any_market = false,
		.after_id = st->after,
		.most = RETURN_MOST,
		.end_us = budget_end_us(r->e),
		.spec_bytes = SPEC_BYTES }));
}

const struct recon_kind move_back_kind = { .name = "move_back",
	.wakes = TOUCH_DECISION,
	.ticks = MOVE_TICKS,
	.state_size = sizeof(struct move_back),
	.pass = move_back_pass };
