/* Deadlines, live: reads the rows that core/place/placement_deadline.c needs, and carries its
 * answer out. Each question builds the policy's state from rows again; the pace in memory only
 * keeps a waiting job from asking in every pass. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/place/place_priv.h"

/* A question costs up to 50 ms: this many a pass, the rest in the next. */
#define ASKS_A_PASS 4
#define ASK_AGAIN_US (30 * SPOT_US_PER_S)
/* A parked job has this long to save, or as long as its saves took and may take. */
#define PARK_LEAST_US (600 * SPOT_US_PER_S)

/* ---- pacing ---------------------------------------------------------------------------------- */

struct deadline_pace {
	int64_t job_id, until_us; /* mono */
	int32_t epoch;
	enum job_state state;
};

/* Only pacing: keeps a waiting job from asking in every pass. */
struct deadline_state {
	struct deadline_pace paces[512];
	int asks; /* since the pass began */
};

static struct deadline_state *deadline_state(const struct engine *e)
{
	return recon_state(e, &deadline_kind);
}

void deadline_pass_begins(struct engine *e)
{
	deadline_state(e)->asks = 0;
}

static struct deadline_pace *pace_find(const struct engine *e, int64_t job_id)
{
	struct deadline_state *st = deadline_state(e);

	return &st->paces[(size_t)job_id % ARRAY_LEN(st->paces)];
}

static bool pace_holds(struct recon *r, const struct job_facts *f)
{
	struct deadline_state *st = deadline_state(r->e);
	struct deadline_pace *p = pace_find(r->e, f->id);
	int64_t now = loop_mono_us(r->e->loop);

	if (p->job_id == f->id && p->epoch == f->epoch && p->state == f->state &&
	    p->until_us > now) {
		recon_later(r, p->until_us - now);
		return true;
	}
	if (st->asks >= ASKS_A_PASS) {
		r->changed = true;
		return true;
	}
	st->asks++;
	return false;
}

int64_t deadline_paced_us(const struct recon *r, const struct job_facts *f)
{
	const struct deadline_pace *p = pace_find(r->e, f->id);

	return p->job_id == f->id && p->epoch == f->epoch && p->state == f->state ? p->until_us : 0;
}

/* The job waits or stays: asks again when a cooling pool may be tried again, or after a while. */
static void pace_set(struct recon *r, const struct place_question *q, int64_t tick_us)
{
	struct deadline_pace *p = pace_find(r->e, q->facts.id);
	int64_t now = engine_now(r->e), again = MIN(tick_us, ASK_AGAIN_US);

	for (size_t i = 0; i < q->n; i++) {
		if (q->pools[i].score == NULL && q->held.act == POLICY_WAIT &&
		    q->pools[i].offer->cool_until_us > now) {
			again = MIN(again, q->pools[i].offer->cool_until_us - now + 1);
		}
	}
	*p = (struct deadline_pace){ .job_id = q->facts.id,
		.epoch = q->facts.epoch,
		.state = q->facts.state,
		.until_us = loop_mono_us(r->e->loop) + again };
	recon_later(r, again);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void job_parked(struct step *s)
{
	const struct place_question *q = s->ctx;

	if (pg_rows(s->req.result) == 1) {
		log_info("job.parks", I64("job", q->facts.id), I64("node", q->held.node_id));
		s->r->changed = true;
	}
}

/* For a job that runs on demand with time to spare, when spot is expected back. Saves and stops the
 * job and gives its machine back; the policy decides when it is placed again. */
static void job_park(struct recon *r, const struct place_question *q, const char *why)
{
	int64_t save =
	    MAX(q->facts.save_us, 0) + q->placing.spec->checkpoint.budget_s * SPOT_US_PER_S;
	struct place_in in = place_in(r);
	AUTO(json) json_t *inputs = placement_inputs(&in, &q->facts, &q->placing);
	struct place_question *kept = arena_alloc(r->arena, sizeof(*kept));
	struct step *s = step_new(r, job_parked, kept);

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

/* Moves the job to spot. The decision keeps the cost of staying, for the report of what moves
 * earned. */
static void job_return(struct recon *r, const struct place_question *q, const struct score *there,
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

/* Carries the choice out for a job that waits. */
static void wait_answered(struct recon *r, const struct place_in *in,
    const struct place_question *q, const struct policy_choice *c)
{
	struct place_choice x;

	placement_answer(in, q, c, &x);
	if (x.act == PLACE_TAKE) {
		place_want(r, &q->facts, &q->placing, x.score, 0, x.kind, x.why);
		return;
	}
	wait_write(r, &q->facts, &q->placing, x.why, x.until_us);
	pace_set(r, q, q->tick_us);
}

/* For a job that runs on demand: back to spot, parked, or it stays. */
static void run_answered(struct recon *r, const struct place_question *q,
    const struct policy_choice *c)
{
	if (c->act == POLICY_SPOT) {
		job_return(r, q, q->pools[c->pool].score, c->why);
		return;
	}
	if (c->act == POLICY_WAIT) {
		job_park(r, q, c->why);
	}
	pace_set(r, q, q->tick_us);
}

static void words_read(struct step *s)
{
	struct q_engine_supply_words_row *rows;
	size_t n = q_engine_supply_words_rows(&s->req, s->r->arena, &rows);
	struct supply_word *words = arena_array(s->r->arena, n + 1, sizeof(*words));
	struct place_question *q = s->ctx;
	struct place_in in = place_in(s->r);
	struct policy_choice c;

	for (size_t i = 0; i < n; i++) {
		words[i] = (struct supply_word){ .pool_id = rows[i].pool_id,
			.from_us = rows[i].from_us,
			.to_us = rows[i].to_us,
			.up = rows[i].up };
	}
	placement_deadline(&in, q, words, n, &c, &q->placing.plan);
	if (q->held.act == POLICY_WAIT) {
		wait_answered(s->r, &in, q, &c);
	} else {
		run_answered(s->r, q, &c);
	}
	json_decref(q->placing.plan);
	q->placing.plan = NULL;
}

bool deadline_ask(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct deadline_held *held)
{
	struct place_in in = place_in(r);
	struct place_question *q;
	int32_t *ids;
	struct step *s;

	if (!placement_plans(&in, f, p)) {
		return false;
	}
	if (pace_holds(r, f)) {
		return true;
	}
	q = arena_alloc(r->arena, sizeof(*q));
	placement_ask(&in, f, p, held, q);
	ids = arena_array(r->arena, q->n + 1, sizeof(*ids));
	for (size_t i = 0; i < q->n; i++) {
		ids[i] = q->pools[i].offer->pool_id;
	}
	s = step_new(r, words_read, q);
	STEP(s, engine_supply_words,
	    (&(struct q_engine_supply_words){ .pools = ids,
		.pools_n = q->n,
		.since_us = engine_now(r->e) - PLACE_WORDS_PAST_US,
		.most = PLACE_WORDS_MOST,
		.want = f->nodes }));
	return true;
}

const struct recon_kind deadline_kind = { .name = "deadline",
	.state_size = sizeof(struct deadline_state) };
