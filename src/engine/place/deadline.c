/*
 * Deadlines, live. A job with a deadline is not placed by patience but by the deadline policy of
 * core/policy/policy.h: it sees the best spot pools as they are, what our own rows say about their past,
 * and the job's progress, and says spot (in which pool), on demand, or wait. The point of no return
 * is the policy's own last rule. Nothing of it lives in memory: each question builds the policy's
 * state from rows again; `paced` only keeps a waiting job from asking in every pass.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/text/str.h"
#include "core/policy/deadline_room.h"
#include "core/policy/supply_track.h"
#include "engine/place/move.h"
#include "engine/place/supply.h"

#define POOLS_MOST 5
#define WORDS_MOST 5000
#define PAST_US (14 * 24 * SPOT_US_PER_HOUR)
#define DOWN_US (1800 * SPOT_US_PER_S)
/* A question costs up to 50 ms (policy.md): so many a turn, the rest in the next. */
#define ASKS_A_TURN 4
#define ASK_AGAIN_US (30 * SPOT_US_PER_S)
/* A job that is parked has so long to save, or what saves took it and may take it. */
#define PARK_LEAST_US (600 * SPOT_US_PER_S)
#define TICKS_LEAST 100
#define TICKS_MOST 1000

struct candidate {
	const struct offer *offer;
	const struct score *score; /* NULL: it rests after a refusal */
	int64_t price_micros; /* per hour of the on-demand machine's work */
};

struct question {
	struct job_facts facts;
	struct placing placing;
	struct deadline_held held;
	struct candidate pools[POOLS_MOST];
	size_t n;
	struct launch_reserve launch;
	int64_t loss_us; /* held back: what a reclaim may take */
};

/* ---- pacing ---------------------------------------------------------------------------------- */

static struct deadline_pace *pace_of(struct engine *e, int64_t job_id)
{
	return &e->paces[(size_t)job_id % ARRAY_LEN(e->paces)];
}

static bool paced(struct recon *r, const struct job_facts *f)
{
	struct deadline_pace *p = pace_of(r->e, f->id);
	int64_t now = loop_mono_us(r->e->loop);

	if (p->job_id == f->id && p->epoch == f->epoch && strcmp(p->state, f->state) == 0 &&
	    p->until_us > now) {
		engine_later(r->e, p->until_us - now);
		return true;
	}
	if (r->e->asks >= ASKS_A_TURN) {
		r->changed = true;
		return true;
	}
	r->e->asks++;
	return false;
}

/* It waits, or stays where it is: asked again when a pool that rests is to be tried again, or after
 * a while. */
static void pace_set(struct recon *r, const struct question *q, int64_t tick_us)
{
	struct deadline_pace *p = pace_of(r->e, q->facts.id);
	int64_t now = engine_now(r->e), again = MIN(tick_us, ASK_AGAIN_US);

	for (size_t i = 0; i < q->n; i++) {
		if (q->pools[i].score == NULL && q->held.act == POLICY_WAIT &&
		    q->pools[i].offer->cool_until_us > now) {
			again = MIN(again, q->pools[i].offer->cool_until_us - now + 1);
		}
	}
	*p = (struct deadline_pace){ .job_id = q->facts.id,
		.epoch = q->facts.epoch,
		.until_us = loop_mono_us(r->e->loop) + again };
	(void)snprintf(p->state, sizeof(p->state), "%s", q->facts.state);
	engine_later(r->e, again);
}

/* ---- what is held back ----------------------------------------------------------------------- */

/* The policy's model keeps what is done; a machine that goes without a save takes the work since
 * the last one with it. Spot may run on behind the last safe moment, so that moment comes earlier
 * by so much: by what any of the pools may take, which is a quarter of the slack at most where the
 * interval is ours (core/rank/rank.h). And a launch on demand may be refused first, for as long as such
 * launches lately were. */
static void hold_back(const struct recon *r, struct question *q)
{
	const struct score *od = q->placing.on_demand;
	int64_t now = engine_now(r->e), left = (int64_t)(od->hours * (double)SPOT_US_PER_HOUR);

	for (size_t i = 0; i < q->n; i++) {
		if (q->pools[i].score != NULL) {
			q->loss_us = MAX(q->loss_us,
			    spot_loss_us(q->pools[i].score, &q->placing.spec->checkpoint, left));
		}
	}
	launch_reserve_find(&q->placing.ranking,
	    (double)(q->facts.deadline_us - now) / (double)SPOT_US_PER_HOUR, r->e->conf.cool_min_us,
	    r->e->conf.cool_max_us, &q->launch);
}

/* A gang may gather its machines for so long before all are there, or none; nobody is asked
 * meanwhile. Who waits may lose that once on spot before it begins on demand. */
static int64_t gather_us(const struct recon *r, const struct question *q)
{
	int64_t hold = place_changeover_us(r->e, &q->facts) - r->e->conf.supply.changeover_us;

	return q->held.act == POLICY_WAIT ? 2 * hold : hold;
}

/* A slower machine loses ground to the plan while it runs: it must be able to finish in time
 * itself. */
static bool too_slow(const struct recon *r, const struct question *q, const struct score *s)
{
	int64_t left =
	    q->facts.deadline_us - engine_now(r->e) - place_changeover_us(r->e, &q->facts);

	return s != NULL && s->throughput < q->placing.on_demand->throughput &&
	    s->hours * (double)SPOT_US_PER_HOUR > (double)left;
}

/* ---- the question ---------------------------------------------------------------------------- */

/* Per hour of the on-demand machine's work, with what checkpoints and data cost to move. */
static int64_t hour_micros(const struct question *q, const struct offer *o, const struct score *s,
    double t)
{
	double egress =
	    s != NULL && s->paid_hours > 0 ? (double)s->egress_micros / s->paid_hours : 0;

	return (int64_t)(((double)o->price_micros * MAX(q->facts.nodes, 1) + egress) *
	    q->placing.on_demand->throughput / t);
}

static void candidate_add(const struct recon *r, struct question *q, const struct offer *o,
    const struct score *s)
{
	const struct score *od = q->placing.on_demand;
	double t = rank_throughput(q->placing.spec, o);

	/* Much slower machines would make the policy's clock of progress wrong; the fast ones that
	 * rest are worth more. */
	if (q->n >= POOLS_MOST || o->market != SPOT_MARKET_SPOT ||
	    t < DEADLINE_SPEED_LEAST * od->throughput || too_slow(r, q, s)) {
		return;
	}
	q->pools[q->n] = (struct candidate){
		.offer = o,
		.score = s,
		.price_micros = hour_micros(q, o, s, t),
	};
	q->n++;
}

static void candidates(const struct recon *r, struct question *q)
{
	const struct placing *p = &q->placing;

	for (size_t i = 0; i < p->usable && q->n + 1 < POOLS_MOST; i++) {
		candidate_add(r, q, p->scores[i].offer, &p->scores[i]);
	}
	for (size_t i = p->usable; i < p->gang_n; i++) {
		if (p->gang[i].cooling) {
			candidate_add(r, q, p->gang[i].one->offer, NULL);
		}
	}
	for (size_t i = 0; i < p->ranking.refused_n; i++) {
		if (p->ranking.refused[i].why == REFUSED_COOLING) {
			candidate_add(r, q, p->ranking.refused[i].offer, NULL);
		}
	}
}

static void setup_fill(struct recon *r, const struct question *q, struct policy_setup *s,
    struct policy_view *v)
{
	const struct job_facts *f = &q->facts;
	const struct score *od = q->placing.on_demand;
	int64_t start = MAX(f->created_us, q->placing.spec->start_after_us), now = engine_now(r->e);
	double left = od->hours * (double)SPOT_US_PER_HOUR, share = 0;

	if (f->steps_total > 0 && f->steps_done > 0 && q->placing.spec->work_s > 0) {
		share = MIN((double)f->steps_done / (double)f->steps_total, 0.999);
	}
	start = MIN(start, now);
	s->work_us = (int64_t)(left / (1 - share));
	/* Its own start, once it was measured, when that takes longer than a start usually does. */
	s->changeover_us = MAX(r->e->conf.supply.changeover_us, f->restart_us) + MAX(f->save_us, 0);
	s->deadline_us = f->deadline_us - start;
	s->tick_us = MIN(MAX(r->e->conf.deadline_tick_us, s->deadline_us / TICKS_MOST),
	    MAX(s->deadline_us / TICKS_LEAST, 1));
	s->deadline_us -= q->loss_us + q->launch.us + gather_us(r, q);
	s->deadline_us = MAX(s->deadline_us, now - start);
	s->on_demand_micros = hour_micros(q, od->offer, od, od->throughput);
	s->pools_n = q->n;
	v->elapsed_us = now - start;
	v->done_us = s->work_us - (int64_t)left;
	v->held = q->held.act;
	v->last_pool = SIZE_MAX;
}

static const struct policy *policy_live(void)
{
	const struct policy *p = policy_find("auto");

	return p != NULL ? p : &policy_uniform_progress;
}

static json_t *plan_json(const struct question *q, const struct policy_setup *s,
    const struct policy_view *v, const struct policy_choice *c)
{
	static const char *const acts[] = { "?", "wait", "spot", "on_demand" };
	json_t *pools = json_array();

	for (size_t i = 0; i < q->n; i++) {
		json_array_append_new(pools,
		    json_pack("{s:i, s:b, s:I}", "pool", q->pools[i].offer->pool_id, "up",
			q->pools[i].score != NULL, "price_micros",
			(json_int_t)q->pools[i].price_micros));
	}
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:o, s:I, "
			 "s:{s:I, s:f, s:f, s:f}}",
	    "policy", policy_live()->name, "work_us", (json_int_t)s->work_us, "done_us",
	    (json_int_t)v->done_us, "deadline_us", (json_int_t)s->deadline_us, "elapsed_us",
	    (json_int_t)v->elapsed_us, "changeover_us", (json_int_t)s->changeover_us, "tick_us",
	    (json_int_t)s->tick_us, "on_demand_micros", (json_int_t)s->on_demand_micros, "held",
	    acts[q->held.act], "choice", acts[c->act], "why", c->why, "pools", pools, "loss_us",
	    (json_int_t)q->loss_us, "launch_reserve", "us", (json_int_t)q->launch.us, "launches",
	    q->launch.launches, "refusals", q->launch.refusals, "refused", q->launch.refused);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void parked(struct step *s)
{
	const struct question *q = s->ctx;

	if (pg_rows(s->req.result) == 1) {
		log_info("job.parks", I64("job", q->facts.id), I64("node", q->held.node_id));
		s->r->changed = true;
	}
}

/* On demand with time in hand and spot expected back: saved and stopped, the machine goes back, and
 * the job is placed again when the policy says so. */
static void park(struct recon *r, const struct question *q, const char *why)
{
	int64_t save =
	    MAX(q->facts.save_us, 0) + q->placing.spec->checkpoint.budget_s * SPOT_US_PER_S;
	AUTO(json) json_t *inputs = place_inputs(r, &q->facts, &q->placing);
	struct question *kept = arena_alloc(r->arena, sizeof(*kept));
	struct step *s = step_new(r, parked, kept);

	*kept = *q;
	STEP(s, engine_park,
	    (&(struct q_engine_park){ .job_id = q->facts.id,
		.epoch = q->facts.epoch,
		.node_id = q->held.node_id,
		.inputs = json_text(r->arena, inputs),
		.why = why,
		.deadline_us = engine_now(r->e) + MAX(save, PARK_LEAST_US),
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static const char *why_words(struct recon *r, const struct question *q,
    const struct policy_choice *c)
{
	char text[32];

	if (q->launch.us == 0) {
		return arena_printf(r->arena, "deadline: %s", c->why);
	}
	return arena_printf(r->arena,
	    "deadline: %s; %s of it are held back because on-demand launches were refused lately "
	    "(%.1f of "
	    "%.1f, by age)",
	    c->why, format_duration(q->launch.us, text), q->launch.refusals,
	    q->launch.refusals + q->launch.launches);
}

/* Back to spot: what staying would have cost is kept, so that the report of moves can tell what it
 * earned. */
static void go_back(struct recon *r, const struct question *q, const struct score *there,
    const char *why)
{
	struct placing p = q->placing;
	struct return_out out;
	struct return_in in = return_pair(engine_now(r->e), q->held.here, there);

	return_decide(r->arena, &in, &r->e->conf.supply, &out);
	AUTO(json) json_t *move = move_json(q->held.here, there, &out, q->held.node_id);

	p.move = move;
	place_want(r, &q->facts, &p, there, q->held.node_id, "return", why);
}

static void answer(struct recon *r, const struct question *q, const struct policy_choice *c,
    int64_t tick_us)
{
	bool waits = q->held.act == POLICY_WAIT;
	const char *why = why_words(r, q, c);

	switch (c->act) {
	case POLICY_SPOT:
		if (waits) {
			place_want(r, &q->facts, &q->placing, q->pools[c->pool].score, 0, "place",
			    why);
		} else {
			go_back(r, q, q->pools[c->pool].score, why);
		}
		return;
	case POLICY_ON_DEMAND:
		if (waits) {
			place_want(r, &q->facts, &q->placing, q->placing.on_demand, 0,
			    q->placing.job.spot_allowed ? "failover" : "place", why);
			return;
		}
		break;
	case POLICY_WAIT:
		if (waits) {
			wait_write(r, &q->facts, &q->placing, why, engine_now(r->e) + tick_us);
		} else {
			park(r, q, why);
		}
		break;
	}
	pace_set(r, q, tick_us);
}

static void decide(struct recon *r, struct question *q, const struct supply_word *words,
    size_t words_n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct policy_track tracks[POOLS_MOST];
	int64_t prices[POOLS_MOST];
	uint8_t up[POOLS_MOST];
	struct policy_setup setup = { 0 };
	struct policy_view view = { .up = up, .price_micros = prices };
	struct policy_choice choice = { 0 };
	const struct policy *policy = policy_live();
	size_t tracks_n = 0;

	setup_fill(r, q, &setup, &view);
	for (size_t i = 0; i < q->n; i++) {
		prices[i] = q->pools[i].price_micros;
		up[i] = q->pools[i].score != NULL;
		supply_track_make(a, words, words_n, q->pools[i].offer->pool_id, setup.tick_us,
		    DOWN_US, engine_now(r->e), &tracks[tracks_n]);
		tracks[tracks_n].pool = (int32_t)i;
		tracks_n += tracks[tracks_n].n > 0;
	}
	policy->decide(policy->begin(a, &setup, tracks, tracks_n), &view, &choice);
	choice.why = arena_strdup(r->arena, choice.why != NULL ? choice.why : "");
	AUTO(json) json_t *plan = plan_json(q, &setup, &view, &choice);

	q->placing.plan = plan;
	answer(r, q, &choice, setup.tick_us);
	q->placing.plan = NULL;
}

static void words_read(struct step *s)
{
	struct q_engine_supply_words_row *rows;
	size_t n = q_engine_supply_words_rows(&s->req, s->r->arena, &rows);
	struct supply_word *words = arena_array(s->r->arena, n + 1, sizeof(*words));

	for (size_t i = 0; i < n; i++) {
		words[i] = (struct supply_word){ .pool_id = rows[i].pool_id,
			.from_us = rows[i].from_us,
			.to_us = rows[i].to_us,
			.up = rows[i].up };
	}
	decide(s->r, s->ctx, words, n);
}

bool deadline_ask(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct deadline_held *held)
{
	struct question *q;
	int32_t *ids;
	struct step *s;

	if (f->deadline_us == 0 || p->on_demand == NULL || !p->job.spot_allowed ||
	    f->deadline_us <= engine_now(r->e)) {
		return false;
	}
	/* Nothing is to be gained by waiting for what costs more: the caller begins on demand at
	 * once. */
	if (p->spot != NULL && p->on_demand->total_micros <= p->spot->total_micros) {
		return false;
	}
	if (paced(r, f)) {
		return true;
	}
	q = arena_alloc(r->arena, sizeof(*q));
	*q = (struct question){ .facts = *f, .placing = *p, .held = *held };
	candidates(r, q);
	hold_back(r, q);
	ids = arena_array(r->arena, q->n + 1, sizeof(*ids));
	for (size_t i = 0; i < q->n; i++) {
		ids[i] = q->pools[i].offer->pool_id;
	}
	s = step_new(r, words_read, q);
	STEP(s, engine_supply_words,
	    (&(struct q_engine_supply_words){ .pools = ids,
		.pools_n = q->n,
		.since_us = engine_now(r->e) - PAST_US,
		.most = WORDS_MOST,
		.want = f->nodes }));
	return true;
}
