/* What a placement decision is made of, and the node it wants. */
#include "base/base.h"
#include "base/log.h"
#include "base/text/str.h"
#include "engine/job/gang.h"

#define SCORES_KEPT 12

/* What the file declares, less the share that is done, and by the job's own step rates once there
 * are some. */
static int64_t work_left_s(const struct rank_job *job, const struct job_facts *f)
{
	int64_t left = job->spec->work_s,
		steps = f->steps_total - MIN(f->steps_done, f->steps_total);

	if (left > 0 && f->steps_total > 0 && f->steps_done > 0) {
		double share = (double)steps / (double)f->steps_total;

		left = MAX((int64_t)((double)left * share), 1);
	}
	return rank_work_left_s(job, steps, left);
}

static bool any_market(const struct job_spec *s, bool spot)
{
	if (spot && !s->interruptible) {
		return false;
	}
	for (size_t i = 0; i < s->asks_n; i++) {
		/* use_spot: true prefers spot; on-demand stays the fail-over that supply_choose
		 * decides on. */
		if (!spot || s->asks[i].use_spot != 0) {
			return true;
		}
	}
	return false;
}

/* Does any provider that the job may use have a spot market? Where none has, nobody waits for one.
 */
static bool spot_sold(const struct engine *e, const struct job_spec *s)
{
	for (size_t i = 0; i < s->asks_n; i++) {
		for (size_t k = 0; k < e->providers_n; k++) {
			const struct call_provider *p = e->providers[k];

			if ((call_provider_ops(p)->caps & SPOT_CAP_SPOT) != 0 &&
			    (s->asks[i].provider == NULL ||
				strcmp(s->asks[i].provider, call_provider_name(p)) == 0)) {
				return true;
			}
		}
	}
	return false;
}

static bool spec_read(struct recon *r, const struct job_facts *f, struct job_spec **ret)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *j = NULL;

	if (json_parse(str_from(f->spec_json), "job.spec", &j, &err) != SPOT_OK ||
	    jobspec_from_json(r->arena, j, ret, &err) != SPOT_OK) {
		log_error("job.spec", I64("job", f->id), STR("error", err.text));
		return false;
	}
	return true;
}

int64_t place_changeover_us(const struct engine *e, const struct job_facts *f)
{
	return e->conf.supply.changeover_us + (f->nodes > 1 ? e->conf.gang_hold_us : 0);
}

/* Of on-demand offers the one to fall back on is the cheapest that meets the deadline: one that
 * costs less but would be late is no way out at the last safe moment, nor what that moment may be
 * reckoned by. */
static const struct score *on_demand_of(const struct recon *r, const struct job_facts *f,
    const struct placing *p)
{
	int64_t left =
	    f->deadline_us - engine_now(r->e) - place_changeover_us(r->e, f) - MAX(f->save_us, 0);
	struct ranking whole = { .scores = p->scores, .usable = p->usable };

	if (f->deadline_us == 0 || f->deadline_us <= engine_now(r->e)) {
		return p->on_demand;
	}
	return rank_in_time(&whole, SPOT_MARKET_ON_DEMAND, (double)left / (double)SPOT_US_PER_HOUR);
}

static void best_of(struct placing *p)
{
	for (size_t i = 0; i < p->usable; i++) {
		if (p->scores[i].offer->market == SPOT_MARKET_SPOT) {
			p->spot = p->spot_n++ == 0 ? &p->scores[i] : p->spot;
		} else if (p->scores[i].offer->market == SPOT_MARKET_ON_DEMAND) {
			p->on_demand = p->on_demand_n++ == 0 ? &p->scores[i] : p->on_demand;
		} else if (p->reserved == NULL) {
			p->reserved = &p->scores[i];
		}
	}
}

void placing_count(struct recon *r, const struct job_facts *f, struct placing *p)
{
	p->spot = p->on_demand = p->reserved = NULL;
	p->spot_n = p->on_demand_n = 0;
	best_of(p);
	p->on_demand = on_demand_of(r, f, p);
}

struct score place_whole(const struct job_facts *f, const struct score *one)
{
	struct gang_score g;

	if (f->nodes < 2) {
		return *one;
	}
	gang_whole(one, f->nodes, &g);
	return gang_as_score(&g, f->nodes);
}

/* The scores of one node become those of the whole gang, where all of it can be sought. */
static void gang_rank(struct recon *r, const struct job_facts *f, struct placing *p)
{
	const struct offers *o = &r->e->offers;
	int64_t now = engine_now(r->e);
	struct gang_ask ask = { .want = f->nodes,
		.now_us = now,
		.rests = o->rests,
		.rests_n = o->rests_n,
		.busy = o->busy,
		.busy_n = o->busy_n };

	p->gang_n = p->ranking.usable;
	gang_scores(r->arena, p->ranking.scores, p->gang_n, &ask, &p->gang, &p->usable);
	p->scores = arena_array(r->arena, p->usable + 1, sizeof(*p->scores));
	for (size_t i = 0; i < p->gang_n; i++) {
		if (i < p->usable) {
			p->scores[i] = gang_as_score(&p->gang[i], f->nodes);
		} else {
			p->spot_cooling +=
			    p->gang[i].cooling && p->gang[i].one->offer->market == SPOT_MARKET_SPOT;
		}
	}
	for (size_t i = 0; i < o->rests_n && p->usable < p->gang_n; i++) {
		/* What is over is read again soon; until then it would be asked for a thousand
		 * times a second. */
		engine_later(r->e, MAX(o->rests[i].until_us - now, SPOT_US_PER_S / 4));
	}
}

bool place_rank(struct recon *r, struct job_facts *f, struct placing *ret)
{
	struct engine *e = r->e;

	*ret = (struct placing){ 0 };
	if (!spec_read(r, f, &ret->spec)) {
		return false;
	}
	if (f->deadline_us <= engine_now(e) && ret->spec->late_cheapest) {
		f->deadline_us = 0;
	}
	ret->job = (struct rank_job){
		.spec = ret->spec,
		.save_us = f->save_us,
		.checkpoint_bytes = f->checkpoint_bytes,
		.spot_allowed = any_market(ret->spec, true) && spot_sold(e, ret->spec),
		.on_demand_allowed = any_market(ret->spec, false),
		.restart_us = f->restart_us,
		.nodes = f->nodes,
		.deadline_us = f->deadline_us,
	};
	ret->job.rates_n = gpu_rates_parse(r->arena, f->rates, &ret->job.rates);
	ret->job.work_left_s = work_left_s(&ret->job, f);
	if (objects_configured(e)) {
		ret->job.store_provider = e->conf.store_provider;
		ret->job.store_region = e->conf.store_region;
	}
	if (f->has_checkpoint && objects_configured(e)) {
		ret->job.at_provider = e->conf.store_provider;
		ret->job.at_region = e->conf.store_region;
	}
	rank_run(r->arena, e->offers.list, e->offers.n, &ret->job, &e->conf.rank, engine_now(e),
	    &ret->ranking);
	ret->scores = ret->ranking.scores;
	ret->usable = ret->ranking.usable;
	ret->spot_cooling = ret->ranking.spot_cooling;
	if (f->nodes > 1) {
		gang_rank(r, f, ret);
	}
	placing_count(r, f, ret);
	if (f->has_budget) {
		budget_filter(r, f, ret);
	}
	ret->late = f->deadline_us != 0 && f->deadline_us <= engine_now(e);
	return true;
}

int64_t place_patience_us(const struct engine *e, const struct job_spec *s)
{
	return s->patience_s >= 0 ? s->patience_s * SPOT_US_PER_S : e->conf.supply.patience_us;
}

static json_t *refusals_json(struct arena *a, const struct placing *p)
{
	json_t *list = json_array();

	/* Those that suit but cannot be had now explain a choice; the thousands that do not suit do
	 * not. */
	for (size_t i = 0; i < p->ranking.refused_n && json_array_size(list) < SCORES_KEPT; i++) {
		const struct refused *x = &p->ranking.refused[i];
		const struct offer *o = x->offer;

		if (o->cool_until_us > 0 || o->capacity >= 0 || o->has_odds ||
		    x->why == REFUSED_QUOTA) {
			json_t *j = offer_json(o);

			json_object_set_new(j, "refused",
			    json_string(refusal_words(a, &p->ranking, x)));
			json_array_append_new(list, j);
		}
	}
	return list;
}

/* Of a gang the offers are of one node; what they come to for the whole of it is beside them. */
static void offers_json(const struct job_facts *f, const struct placing *p, json_t *j)
{
	json_t *list;

	if (f->nodes < 2) {
		json_object_set_new(j, "offers", scores_json(p->scores, p->usable, SCORES_KEPT));
		return;
	}
	list = json_array();
	for (size_t i = 0; i < p->gang_n && i < SCORES_KEPT; i++) {
		json_array_append_new(list, gang_score_json(&p->gang[i]));
	}
	json_object_set_new(j, "offers",
	    scores_json(p->ranking.scores, p->ranking.usable, SCORES_KEPT));
	json_object_set_new(j, "nodes", json_integer(f->nodes));
	json_object_set_new(j, "gang", list);
}

json_t *place_inputs(struct recon *r, const struct job_facts *f, const struct placing *p)
{
	struct engine *e = r->e;
	const struct rank_policy *k = &e->conf.rank;
	json_t *j = json_pack("{s:I, s:{s:I, s:I, s:I, s:I, s:b, s:b, s:I, s:I, s:I}}", "now_us",
	    (json_int_t)engine_now(e), "job", "id", (json_int_t)f->id, "work_left_s",
	    (json_int_t)p->job.work_left_s, "save_us", (json_int_t)f->save_us, "checkpoint_bytes",
	    (json_int_t)f->checkpoint_bytes, "spot_allowed", p->job.spot_allowed,
	    "on_demand_allowed", p->job.on_demand_allowed, "deadline_us",
	    (json_int_t)f->deadline_us, "queued_us", (json_int_t)f->queued_us, "steps_done",
	    (json_int_t)f->steps_done);

	json_object_set_new(json_object_get(j, "job"), "restart_us", json_integer(f->restart_us));
	json_object_set_new(json_object_get(j, "job"), "step_rates",
	    json_string(f->rates != NULL ? f->rates : ""));
	if (f->has_budget) {
		json_object_set_new(json_object_get(j, "job"), "budget_micros",
		    json_integer(f->budget_micros));
		json_object_set_new(json_object_get(j, "job"), "budget_left_micros",
		    json_integer(f->budget_left));
		json_object_set_new(j, "too_dear", json_integer((json_int_t)p->dear));
	}
	json_object_set_new(j, "policy", rank_policy_json(k));
	json_object_set_new(json_object_get(j, "policy"), "patience_us",
	    json_integer(place_patience_us(e, p->spec)));
	json_object_set_new(j, "offers_n", json_integer((json_int_t)e->offers.n));
	json_object_set_new(j, "usable", json_integer((json_int_t)p->usable));
	json_object_set_new(j, "spot_usable", json_integer((json_int_t)p->spot_n));
	offers_json(f, p, j);
	json_object_set_new(j, "not_now", refusals_json(r->arena, p));
	if (p->plan != NULL) {
		json_object_set(j, "deadline", p->plan);
	}
	if (p->move != NULL) {
		json_object_set(j, "move", p->move);
	}
	return j;
}

static void wanted(struct step *s)
{
	struct q_engine_want_for_job_row *rows;

	offers_wanted(s->r->e);
	if (step_rows(s) == 1 && q_engine_want_for_job_rows(&s->req, s->r->arena, &rows) == 1) {
		log_info("node.wanted", I64("node", rows[0].id), STR("why", s->ctx));
	}
}

void place_want(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct score *s, int64_t replaces_id, const char *kind, const char *why)
{
	struct engine *e = r->e;

	if (f->nodes > 1) {
		gang_want(r, f, p, s, replaces_id != 0, kind, why);
		return;
	}
	AUTO(json) json_t *in = place_inputs(r, f, p);
	AUTO(json)
	json_t *out = json_pack("{s:s, s:o}", "choice", spot_market_name(s->offer->market), "pool",
	    score_json(s));
	const struct offer *o = s->offer;
	char token[65], name[65];
	const char *text = arena_printf(r->arena, "%s %s %s%s%s at %.4f USD/h: %s", o->provider,
	    o->zone[0] != '\0' ? o->zone : o->region, o->instance_type,
	    o->market == SPOT_MARKET_SPOT ? " spot" : "",
	    o->market == SPOT_MARKET_ON_DEMAND ? " on demand" : "", (double)o->price_micros / 1e6,
	    why);
	struct step *st = step_new(r, wanted, arena_strdup(r->turn, text));

	token_make(e, token, name);
	st->always = true;
	offers_took(e, o, 1);
	offers_wanting(e);
	STEP(st, engine_want_for_job,
	    (&(struct q_engine_want_for_job){ .job_id = f->id,
		.was = f->state,
		.epoch = f->epoch,
		.pool_id = o->pool_id,
		.has_replaces_id = replaces_id != 0,
		.replaces_id = replaces_id,
		.token = token,
		.name = name,
		.price_micros = o->price_micros,
		.cap_micros = 0,
		.kind = kind,
		.inputs = json_text(r->arena, in),
		.outcome = json_text(r->arena, out),
		.why = text,
		.at_us = engine_now(e),
		.fence = r->epoch,
		.need_micros = budget_need_of(r, f, p->spec, s->price_micros),
		.end_us = budget_end_us(e) }));
}
