/*
 * Where a gang is sought: the single node's scores become those of the whole gang (core/gang.c), and spot, on demand or
 * waiting is decided as for every job. The gang's row, its nodes' rows and the decision are one statement; nothing was
 * sent before it.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/gang.h"
#include "engine/supply.h"

#define SEEK_MOST   50
#define SCORES_KEPT 12

struct seek {
	struct q_engine_gang_jobs_row *jobs;
	size_t jobs_n;
	struct gang_rest *rests;
	size_t rests_n;
	const char **busy;
	size_t busy_n, busy_cap;
	int open; /* reads that are not in yet */
};

struct choosing {
	const struct q_engine_gang_jobs_row *job;
	struct job_facts facts;
	struct placing placing; /* of one node */
	struct gang_score *list;
	size_t n, usable;
	const struct gang_score *spot, *on_demand; /* the best that can be sought; NULL = none */
	size_t spot_n, on_demand_n, spot_cooling;
};

static struct job_facts facts_of(const struct q_engine_gang_jobs_row *j)
{
	return (struct job_facts){
	    .id = j->id,
	    .epoch = j->epoch,
	    .state = j->state,
	    .name = j->name,
	    .spec_json = j->spec,
	    .deadline_us = j->has_deadline_us ? j->deadline_us : 0,
	    .created_us = j->created_us,
	    .queued_us = strcmp(j->state, "QUEUED") == 0 ? j->queued_us : j->state_us,
	    .steps_done = j->steps_done,
	    .steps_total = j->steps_total,
	    .checkpoint_bytes = j->checkpoint_bytes,
	    .save_us = j->save_us,
	    .has_checkpoint = j->has_checkpoint_id,
	    .rates = j->rates,
	    .restart_us = j->has_restart_us ? j->restart_us : 0,
	};
}

/* ---- wanting one -------------------------------------------------------------------------- */

static void wanted(struct step *s)
{
	struct q_engine_gang_want_row *rows;

	if (q_engine_gang_want_rows(&s->req, s->r->arena, &rows) == 1) {
		log_info("gang.wanted", I64("gang", rows[0].id), STR("why", s->ctx));
	}
}

struct labels {
	const char **tokens, **names;
};

/* Of one launch all machines carry rank 0's token and name; the other rows have their own, which nobody sends. */
static struct labels labels_make(struct recon *r, size_t n)
{
	struct labels l = {.tokens = arena_array(r->arena, n, sizeof(*l.tokens)),
			   .names = arena_array(r->arena, n, sizeof(*l.names))};

	for (size_t i = 0; i < n; i++) {
		char token[65], name[65];

		token_make(r->e, token, name);
		l.tokens[i] = arena_strdup(r->arena, token);
		l.names[i] = arena_strdup(r->arena, name);
	}
	return l;
}

static bool one_call(struct engine *e, const char *provider)
{
	struct call_provider *p = engine_provider(e, provider);

	return p != NULL && call_provider_ops(p)->launch_gang != NULL;
}

/* The single's inputs, and what they come to for the whole gang. */
static char *inputs_text(struct recon *r, const struct choosing *c)
{
	AUTO(json) json_t *in = place_inputs(r, &c->facts, &c->placing);
	json_t *list = json_array();

	for (size_t i = 0; i < c->n && i < SCORES_KEPT; i++) {
		json_array_append_new(list, gang_score_json(&c->list[i]));
	}
	json_object_set_new(in, "nodes", json_integer(c->job->num_nodes));
	json_object_set_new(in, "gang", list);
	return json_text(r->arena, in);
}

static void want(struct recon *r, struct seek *k, const struct choosing *c,
		 const struct gang_score *s, const char *kind, const char *why)
{
	struct engine *e = r->e;
	const struct q_engine_gang_jobs_row *j = c->job;
	const struct job_facts *f = &c->facts;
	const struct offer *o = s->one->offer;
	size_t n = (size_t)j->num_nodes;
	const char *place = gang_place(r->arena, o);
	bool call = one_call(e, o->provider);
	struct labels l = labels_make(r, n);
	AUTO(json)
	json_t *out = json_pack("{s:s, s:i, s:b, s:o, s:o}", "choice", spot_market_name(o->market),
				"nodes", (int)j->num_nodes, "one_call", call, "pool",
				score_json(s->one), "gang", gang_score_json(s));
	const char *text = arena_printf(
	    r->arena, "%d nodes on %s %s %s %s at %.4f USD/h each: %s", (int)j->num_nodes,
	    o->provider, o->zone[0] != '\0' ? o->zone : o->region, o->instance_type,
	    o->market == SPOT_MARKET_SPOT ? "spot" : "on demand", (double)o->price_micros / 1e6,
	    why);
	struct step *st = step_new(r, wanted, arena_strdup(r->arena, text));

	offers_took(e, o, (int64_t)n);
	k->busy = arena_grow(r->arena, k->busy, k->busy_n, &k->busy_cap, sizeof(*k->busy));
	k->busy[k->busy_n++] = place;
	STEP(st, engine_gang_want,
	     (&(struct q_engine_gang_want){.job_id = f->id,
					   .was = f->state,
					   .epoch = f->epoch,
					   .pool_id = o->pool_id,
					   .place = place,
					   .token = call ? l.tokens[0] : "",
					   .tokens = l.tokens,
					   .tokens_n = n,
					   .names = l.names,
					   .names_n = n,
					   .price_micros = o->price_micros,
					   .kind = kind,
					   .inputs = inputs_text(r, c),
					   .outcome = json_text(r->arena, out),
					   .why = text,
					   .at_us = engine_now(e),
					   .fence = e->epoch}));
}

static void gang_wait_write(struct recon *r, const struct choosing *c, const char *why, int64_t until_us)
{
	AUTO(json)
	json_t *out = json_pack("{s:s, s:I}", "choice", "wait", "until_us", (json_int_t)until_us);
	struct step *s = step_new(r, NULL, NULL);

	STEP(s, engine_wait_for_job,
	     (&(struct q_engine_wait_for_job){.job_id = c->facts.id,
					      .was = c->facts.state,
					      .epoch = c->facts.epoch,
					      .inputs = inputs_text(r, c),
					      .outcome = json_text(r->arena, out),
					      .why = why,
					      .at_us = engine_now(r->e),
					      .fence = r->e->epoch}));
}

/* ---- choosing ----------------------------------------------------------------------------- */

/* Does any pool suit what one node of it asks for? */
static bool ever_suits(struct recon *r, const struct job_spec *spec)
{
	for (size_t i = 0; i < r->e->offers.n; i++) {
		for (size_t k = 0; k < spec->asks_n; k++) {
			if (offer_refusal(r->arena, &r->e->offers.list[i], &spec->asks[k]) ==
			    NULL) {
				return true;
			}
		}
	}
	return false;
}

static const char *why_wait(struct recon *r, const struct choosing *c, const char *why)
{
	if (c->usable > 0 || c->n == 0) {
		return why;
	}
	return arena_printf(r->arena, "no zone can give %d nodes together now: %s",
			    (int)c->job->num_nodes, c->list[0].refused);
}

static bool choose(struct recon *r, const struct seek *k, struct choosing *c)
{
	struct gang_ask ask = {.want = c->job->num_nodes,
			       .now_us = engine_now(r->e),
			       .rests = k->rests,
			       .rests_n = k->rests_n,
			       .busy = k->busy,
			       .busy_n = k->busy_n};

	c->facts = facts_of(c->job);
	if (!place_rank(r, &c->facts, &c->placing)) {
		return false;
	}
	c->n = c->placing.usable;
	c->spot_cooling = c->placing.spot_cooling;
	gang_scores(r->arena, c->placing.scores, c->n, &ask, &c->list, &c->usable);
	for (size_t i = 0; i < c->n; i++) {
		bool spot = c->list[i].one->offer->market == SPOT_MARKET_SPOT;

		c->spot_cooling += i >= c->usable && spot && c->list[i].cooling;
		if (i < c->usable && spot) {
			c->spot = c->spot_n++ == 0 ? &c->list[i] : c->spot;
		} else if (i < c->usable) {
			c->on_demand = c->on_demand_n++ == 0 ? &c->list[i] : c->on_demand;
		}
	}
	return true;
}

/* Over, or nowhere ever: true. */
static bool hopeless(struct recon *r, const struct choosing *c)
{
	struct engine *e = r->e;
	const struct job_facts *f = &c->facts;
	const struct job_spec *spec = c->placing.spec;

	if (strcmp(f->state, "QUEUED") != 0) {
		return false;
	}
	if (spec->max_duration_s > 0 && c->job->ran_us >= spec->max_duration_s * SPOT_US_PER_S) {
		job_event(r, f->id, f->state, f->epoch, JOB_EV_OVERTIME, "overtime",
			  "max_duration is over");
		return true;
	}
	if (c->n == 0 && e->offers.n > 0 &&
	    engine_now(e) - f->queued_us > e->conf.infeasible_us && !ever_suits(r, spec)) {
		job_event(r, f->id, f->state, f->epoch, JOB_EV_INFEASIBLE, "infeasible",
			  "no pool of any provider suits what the job asks for");
		return true;
	}
	return false;
}

static void seek_place(struct recon *r, struct seek *k, const struct q_engine_gang_jobs_row *j)
{
	struct engine *e = r->e;
	struct choosing c = {.job = j};
	int64_t now = engine_now(e), until = 0;
	const char *why = "";
	/* A gang's machines may be held for so long before all are there, or none. */
	struct supply_policy policy = e->conf.supply;
	struct supply_in in;

	policy.changeover_us += e->conf.gang_hold_us;
	if (!choose(r, k, &c) || hopeless(r, &c)) {
		return;
	}
	in = (struct supply_in){
	    .now_us = now,
	    .queued_us = c.facts.queued_us,
	    .deadline_us = c.facts.deadline_us,
	    .work_left_us = c.on_demand != NULL
				? (int64_t)(c.on_demand->hours * (double)SPOT_US_PER_HOUR)
				: 0,
	    .spot_usable = c.spot_n,
	    .on_demand_usable = c.on_demand_n,
	    .spot_refused = c.spot_cooling,
	    .spot_allowed = c.placing.job.spot_allowed,
	    .on_demand_allowed = c.placing.job.on_demand_allowed,
	    .spot_tight = c.spot != NULL && supply_easy(e, &c.placing) == NULL,
	    .spot_best_micros = c.spot != NULL ? c.spot->total_micros : 0,
	    .on_demand_best_micros = c.on_demand != NULL ? c.on_demand->total_micros : 0};
	switch (supply_choose(r->arena, &in, &policy, &why, &until)) {
	case SUPPLY_SPOT:
		want(r, k, &c, c.spot, "place", why);
		break;
	case SUPPLY_ON_DEMAND:
		want(r, k, &c, c.on_demand,
		     in.spot_allowed && (c.spot_n == 0 || c.spot_cooling > 0) ? "failover"
									      : "place",
		     why);
		break;
	case SUPPLY_WAIT:
		gang_wait_write(r, &c, why_wait(r, &c, why), until);
		engine_later(e, MAX(until - now, SPOT_US_PER_S / 4));
		break;
	}
}

/* ---- the reads ---------------------------------------------------------------------------- */

static void seek_decide(struct recon *r, void *ctx)
{
	struct seek *k = ctx;

	for (size_t i = 0; i < k->jobs_n; i++) {
		seek_place(r, k, &k->jobs[i]);
	}
}

static void seek_in(struct recon *r, struct seek *k)
{
	if (--k->open == 0) {
		offers_need(r, seek_decide, k);
	}
}

static void rests_in(struct step *s)
{
	struct seek *k = s->ctx;
	struct q_engine_gang_rests_row *rows;
	size_t n = q_engine_gang_rests_rows(&s->req, s->r->arena, &rows);

	k->rests = arena_array(s->r->arena, n + 1, sizeof(*k->rests));
	for (size_t i = 0; i < n; i++) {
		k->rests[k->rests_n++] = (struct gang_rest){
		    .pool_id = rows[i].pool_id, .want = rows[i].want, .until_us = rows[i].until_us};
		engine_later(s->r->e, rows[i].until_us - engine_now(s->r->e));
	}
	seek_in(s->r, k);
}

static void busy_in(struct step *s)
{
	struct seek *k = s->ctx;
	struct q_engine_gang_busy_row *rows;
	size_t n = q_engine_gang_busy_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		k->busy =
		    arena_grow(s->r->arena, k->busy, k->busy_n, &k->busy_cap, sizeof(*k->busy));
		k->busy[k->busy_n++] = rows[i].place;
	}
	seek_in(s->r, k);
}

static void jobs_in(struct step *s)
{
	struct seek *k = arena_alloc(s->r->arena, sizeof(*k));
	struct step *next;

	k->jobs_n = q_engine_gang_jobs_rows(&s->req, s->r->arena, &k->jobs);
	if (k->jobs_n == 0) {
		return;
	}
	k->open = 2;
	next = step_new(s->r, rests_in, k);
	STEP(next, engine_gang_rests,
	     (&(struct q_engine_gang_rests){.at_us = engine_now(s->r->e)}));
	next = step_new(s->r, busy_in, k);
	STEP(next, engine_gang_busy, NULL);
}

void gang_seek(struct recon *r)
{
	struct step *s = step_new(r, jobs_in, NULL);

	STEP(s, engine_gang_jobs,
	     (&(struct q_engine_gang_jobs){.most = SEEK_MOST, .at_us = engine_now(r->e)}));
}
