/* POST /v1/plan, and the ranking that submitting a job shares with it. */
#include "base/base.h"
#include "api/jobs/plan.h"
#include "api/jobs/jobs_priv.h"
#include "core/spec/class_policy.h"
#include "core/rank/montecarlo.h"
#include "store/offers.h"

#include <ctype.h>
#include <math.h>

#define OFFERS_SHOWN 200
#define REFUSED_SHOWN 500

/* The same defaults as the engine's: use_spot said wins, else spot is allowed to whoever may be
 * interrupted, on demand to everybody but those who asked for spot only by use_spot: true with no
 * fail-over; that fail-over is the product's promise, so on demand stays allowed. */
static void markets_allowed(const struct job_spec *s, bool *spot, bool *on_demand)
{
	bool only_on_demand = true;

	for (size_t i = 0; i < s->asks_n; i++) {
		only_on_demand = only_on_demand && s->asks[i].use_spot == 0;
	}
	*spot = s->interruptible && !only_on_demand;
	*on_demand = true;
}

static void warn_add(struct areq *q, struct planned *p, const char *text)
{
	const char **all = arena_array(q->arena, p->warnings_n + 1, sizeof(*all));

	for (size_t i = 0; i < p->warnings_n; i++) {
		all[i] = p->warnings[i];
	}
	all[p->warnings_n++] = text;
	p->warnings = all;
}

/* A budget that does not pay for the work is said now, not when it is used up. Work that nobody
 * declared is a guess, and no reason. */
static void budget_warn(struct areq *q, struct planned *p)
{
	const struct score *best = p->spec->budget_micros > 0 && p->spec->work_s > 0
	    ? plan_best(p, SPOT_MARKET_NONE)
	    : NULL;
	struct score whole;

	if (best == NULL) {
		return;
	}
	whole = plan_whole(p, best);
	if (whole.total_micros <= p->spec->budget_micros) {
		return;
	}
	warn_add(q, p,
	    arena_printf(q->arena,
		"budget: %.4f USD do not pay for this work: the best offer now, %s %s %s %s at "
		"%.4f USD/h, "
		"is expected to need %.4f USD to the end; the job would save, stop and be parked "
		"before that: set budget to %.4f USD or more, or "
		"correct 'work'",
		(double)p->spec->budget_micros / 1e6, best->offer->provider,
		*best->offer->zone ? best->offer->zone : best->offer->region,
		best->offer->instance_type, spot_market_name(best->offer->market),
		(double)best->price_micros / 1e6, (double)whole.total_micros / 1e6,
		(double)whole.total_micros / 1e6));
}

/* What needs the object store, where there is none or another cloud's: a job that saves runs all
 * the same, one with mounts is planned, and refused when it is submitted. */
static void store_warn(struct areq *q, struct planned *p)
{
	const char *store = q->api->conf.store;
	struct spot_err err = { 0 };

	if (store && jobspec_store_check(p->spec, store, &err) != SPOT_OK) {
		warn_add(q, p, arena_strdup(q->arena, err.text));
	}
	if (store && !*store && p->spec->checkpoint.path) {
		warn_add(q, p,
		    "checkpoint: the daemon has no object store ([checkpoint] store of its "
		    "configuration file), so nothing that the job "
		    "saves outlives its machine: after a reclaim it begins anew");
	}
}

static void ranked(struct areq *q)
{
	struct planned *p = q->own;
	struct offer *offers;
	size_t n = offers_rows(&q->pg, q->arena, &offers);
	struct spot_err err = { 0 };

	if (class_types_check(q->arena, class_get(&q->api->conf.classes, p->spec->class), p->spec,
		offers, n, &err) != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	p->policy = q->api->conf.rank;
	p->job.spec = p->spec;
	p->job.work_left_s = p->spec->work_s;
	p->job.deadline_us = p->spec->deadline_us;
	p->job.checkpoint_bytes = p->spec->checkpoint.size_bytes;
	p->job.store_provider = q->api->conf.store_provider;
	p->job.store_region = q->api->conf.store_region;
	p->job.nodes = p->spec->num_nodes;
	markets_allowed(p->spec, &p->job.spot_allowed, &p->job.on_demand_allowed);
	p->hazards = hazard_model_build(q->arena, offers, n, &p->policy, q->now_us);
	offers_believe(p->hazards, offers, n);
	rank_run(q->arena, offers, n, &p->job, &p->policy, q->now_us, &p->ranking);
	p->begin_us = MAX(q->now_us, p->spec->start_after_us);
	p->within_h = p->spec->deadline_us == 0
	    ? HUGE_VAL
	    : (double)(p->spec->deadline_us - p->begin_us) / (double)SPOT_US_PER_HOUR -
		(double)p->policy.restart_s / 3600.0;
	p->scores = p->ranking.scores;
	p->usable = p->ranking.usable;
	p->n = n;
	if (p->spec->num_nodes > 1) {
		plan_gang_rank(q, p);
	}
	budget_warn(q, p);
	p->next(q, p);
}

/* Upper-case prefixes of the GPUs asked for: fewer offers are read. None if any ask takes any
 * GPU. */
size_t plan_gpus_asked(struct arena *a, const struct job_spec *s, const char ***ret)
{
	size_t n = 0, cap = 0;
	const char **gpus = NULL;

	for (size_t i = 0; i < s->asks_n; i++) {
		if (s->asks[i].gpus_n == 0) {
			return 0;
		}
		for (size_t k = 0; k < s->asks[i].gpus_n; k++) {
			char *up = arena_strdup(a, s->asks[i].gpus[k].gpu);

			for (char *c = up; *c; c++) {
				*c = (char)toupper((unsigned char)*c);
				if (*c == '%' || *c == '_' || *c == '\\') {
					return 0;
				}
			}
			gpus = arena_grow(a, gpus, n, &cap, sizeof(*gpus));
			gpus[n++] = up;
		}
	}
	*ret = gpus;
	return n;
}

static bool type_ok(struct areq *q)
{
	static const char *const types[] = { "application/yaml", "application/x-yaml", "text/yaml",
		"text/x-yaml", "application/json", "text/plain", "application/octet-stream" };
	const char *type = httpd_header(q->http, "content-type");
	struct spot_err err = { 0 };

	for (size_t i = 0; type && i < ARRAY_LEN(types); i++) {
		if (str_prefix(type, types[i])) {
			return true;
		}
	}
	if (!type) {
		return true;
	}
	err_set(&err, SPOT_INVALID, "a job file is application/yaml or application/json, not %s",
	    type);
	areq_problem(q, 415, &err, "Content-Type");
	return false;
}

void plan_offers(struct areq *q, const char **gpus, size_t n, void (*next)(struct areq *q))
{
	struct q_offers ask;

	offers_ask(&q->api->conf.rank, q->now_us, &ask);
	ask.gpus = gpus;
	ask.gpus_n = n;
	areq_sql_begin(q, next);
	q_offers(areq_pg(q), &q->pg, &ask, areq_sql_done);
}

/* Earlier jobs of the same name tell how fast this one will run. */
static void measured(struct areq *q)
{
	struct planned *p = q->own;
	struct q_api_measured_row *row;
	const char **gpus = NULL;
	size_t n;

	if (q_api_measured_rows(&q->pg, q->arena, &row) == 1) {
		p->job.rates_n = gpu_rates_parse(q->arena, row->rates, &p->job.rates);
		p->job.restart_us = row->has_restart_us ? row->restart_us : 0;
	}
	n = plan_gpus_asked(q->arena, p->spec, &gpus);
	plan_offers(q, gpus, n, ranked);
}

void plan_begin(struct areq *q, void (*next)(struct areq *q, struct planned *p))
{
	struct planned *p = arena_alloc(q->arena, sizeof(*p));
	struct spot_err err = { 0 };

	if (!type_ok(q)) {
		return;
	}
	if (q->http->body.n == 0) {
		areq_fail(q, SPOT_INVALID, "send the job file as the body");
		return;
	}
	if (jobspec_parse(q->arena, q->http->body, q->now_us, &p->spec, &p->warnings,
		&p->warnings_n, &err) != SPOT_OK) {
		areq_problem(q, err.rc == SPOT_TOO_LARGE ? 413 : 400, &err, NULL);
		return;
	}
	if (class_apply(q->arena, class_get(&q->api->conf.classes, p->spec->class), p->spec,
		&err) != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	store_warn(q, p);
	p->next = next;
	q->own = p;
	SQL(q, api_measured, measured, .name = p->spec->name ? p->spec->name : "",
	    .team = *p->spec->team ? p->spec->team : q->who.team);
}

static json_t *offer_pool_json(const struct offer *o)
{
	return json_pack("{s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:i, s:i, s:i, s:I, s:s, "
			 "s:I}",
	    "id", json_sprintf("p%d", o->pool_id), "provider", o->provider, "region", o->region,
	    "zone", o->zone, "zone_name", o->zone_name, "instance_type", o->instance_type, "market",
	    spot_market_name(o->market), "gpu", o->gpu_name, "gpus", o->gpu_milli / 1000.0,
	    "gpu_mem_mib", o->gpu_mem_mib, "vcpus", o->vcpus, "mem_mib", o->mem_mib, "price$",
	    (json_int_t)o->price_micros, "price_state", price_state_name(o->price_state),
	    "observed@age", (json_int_t)o->price_observed_us);
}

static json_t *late_json(const struct planned *p, const struct score_terms *t)
{
	if (p->spec->deadline_us == 0) {
		return json_null();
	}
	return json_real(score_late_odds(t,
	    (double)(p->spec->deadline_us - p->begin_us) / (double)SPOT_US_PER_HOUR));
}

static json_t *score_json(const struct planned *p, const struct score *s, bool chosen,
    int64_t now_us)
{
	struct score_terms t;
	char why[SCORE_WHY_MAX];

	score_explain(s, &t);
	score_why(s, why);
	return json_pack("{s:i, s:b, s:o, s:I, s:f, s:f, s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:f, "
			 "s:f, s:f, s:f, s:I, s:I, s:I, s:s, "
			 "s:I, s:f, s:f, s:f, s:o, s:I, s:I, s:o}",
	    "rank", (int)(s - p->scores) + 1, "chosen", chosen, "pool", offer_pool_json(s->offer),
	    "price$", (json_int_t)s->price_micros, "price_age_s",
	    (double)MAX(now_us - s->offer->price_observed_us, 0) / 1e6, "hazard_per_hour",
	    s->hazard, "hazard_lo", s->hazard_lo, "hazard_hi", s->hazard_hi, "hazard_source",
	    s->hazard_source ? s->hazard_source : "", "throughput", s->throughput, "work_hours",
	    s->work_h, "checkpoint_interval_s", t.interval_s, "checkpoint_overhead", t.overhead,
	    "expected_interruptions", s->interruptions, "lost_work_hours", t.lost_h,
	    "restart_hours", t.restart_h, "hours_to_finish", s->hours, "compute$",
	    (json_int_t)s->compute_micros, "egress$", (json_int_t)s->egress_micros, "total$",
	    (json_int_t)s->total_micros, "why", why, "price_penalty_micros",
	    (json_int_t)s->penalty_micros, "launch_odds", s->odds, "hours_p50", t.hours_p50,
	    "hours_p95", t.hours_p95, "deadline_risk", late_json(p, &t), "cost_p50$",
	    (json_int_t)t.cost_p50_micros, "cost_p95$", (json_int_t)t.cost_p95_micros, "terms",
	    score_terms_json(&t));
}

const struct score *plan_best(const struct planned *p, enum spot_market m)
{
	const struct score *out = p->spec->deadline_us
	    ? rank_in_time(&p->ranking, SPOT_MARKET_ON_DEMAND, p->within_h)
	    : NULL;
	const struct score *fastest = NULL;

	if (p->gang) {
		return plan_gang_best(p, m);
	}
	for (size_t i = 0; i < p->usable; i++) {
		const struct score *s = &p->scores[i];

		if (m != SPOT_MARKET_NONE && s->offer->market != m) {
			continue;
		}
		if (rank_suits_deadline(s, out, p->within_h)) {
			return s;
		}
		fastest = !fastest || s->hours < fastest->hours ? s : fastest;
	}
	return fastest;
}

/* By list price for an hour, as others choose; NULL = none is usable. */
static const struct score *cheapest_listed(const struct planned *p)
{
	const struct score *best = NULL;

	for (size_t i = 0; i < p->usable; i++) {
		if (!best || p->scores[i].offer->price_micros < best->offer->price_micros) {
			best = &p->scores[i];
		}
	}
	return best;
}

static json_t *baseline_of(const struct score *s)
{
	return json_pack("{s:o, s:s, s:i, s:s, s:s, s:s, s:s, s:I, s:f, s:I}", "pool",
	    json_sprintf("p%d", s->offer->pool_id), "gpu", s->offer->gpu_name, "gpu_milli",
	    s->offer->gpu_milli, "provider", s->offer->provider, "region", s->offer->region,
	    "instance_type", s->offer->instance_type, "market", spot_market_name(s->offer->market),
	    "price_micros", (json_int_t)s->offer->price_micros, "hours", s->hours, "total_micros",
	    (json_int_t)s->total_micros);
}

json_t *plan_baseline(const struct planned *p)
{
	const struct score *cheapest = cheapest_listed(p),
			   *on_demand = plan_best(p, SPOT_MARKET_ON_DEMAND);
	json_t *doc = json_object();

	json_object_set_new(doc, "cheapest", cheapest ? baseline_of(cheapest) : json_null());
	json_object_set_new(doc, "on_demand", on_demand ? baseline_of(on_demand) : json_null());
	return doc;
}

/* The first GPU asked for whose name nobody knows; NULL: all are known. */
static const char *strange_gpu(const struct job_spec *s)
{
	for (size_t i = 0; i < s->asks_n; i++) {
		for (size_t k = 0; k < s->asks[i].gpus_n; k++) {
			if (!gpu_perf_find(s->asks[i].gpus[k].gpu)) {
				return s->asks[i].gpus[k].gpu;
			}
		}
	}
	return NULL;
}

const char *plan_note(struct areq *q, struct planned *p)
{
	const struct score *best;

	if (p->spec->num_nodes > 1 && p->n > 0) {
		return plan_gang_note(q, p);
	}
	if (p->n == 0 && strange_gpu(p->spec)) {
		return arena_printf(q->arena,
		    "no pool has a GPU named %s, and none of that name is known: GET /v1/gpus "
		    "(spotctl gpus) has the names",
		    strange_gpu(p->spec));
	}
	if (p->n == 0) {
		return "no pool with these GPUs is known yet: prices may still be arriving (GET "
		       "/v1/providers)";
	}
	if (p->usable == 0) {
		return arena_printf(q->arena, "none of %zu pools suits; see refused", p->n);
	}
	best = plan_best(p, SPOT_MARKET_NONE);
	if (best->hours > p->within_h) {
		return arena_printf(q->arena,
		    "the fastest offer needs %.1f hours and would miss the deadline", best->hours);
	}
	return "";
}

/* What the job would cost and take, played through from one of the offers on. */
static json_t *spread_json(struct areq *q, const struct planned *p, const struct score *s,
    uint64_t seed)
{
	struct montecarlo_out m;
	struct score whole;

	if (!s) {
		return json_null();
	}
	whole = plan_whole(p, s);
	montecarlo_run(q->arena,
	    &(struct montecarlo_in){ .ranking = &p->ranking,
		.chosen = (size_t)(s - p->scores),
		.hazards = p->hazards,
		.now_us = p->begin_us,
		.deadline_us = p->spec->deadline_us,
		.seed = seed,
		.nodes = p->spec->num_nodes },
	    &m);
	return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
			 "s:f, s:o, s:o, s:I, s:I}",
	    "pool", json_sprintf("p%d", s->offer->pool_id), "market",
	    spot_market_name(s->offer->market), "expected$", (json_int_t)whole.total_micros,
	    "cost_mean$", (json_int_t)m.cost_mean_micros, "cost_p5$", (json_int_t)m.cost_p5_micros,
	    "cost_p50$", (json_int_t)m.cost_p50_micros, "cost_p95$", (json_int_t)m.cost_p95_micros,
	    "hours_mean", m.hours_mean, "hours_p5", m.hours_p5, "hours_p50", m.hours_p50,
	    "hours_p95", m.hours_p95, "interruptions", m.interruptions, "lost_work_hours", m.lost_h,
	    "moves", m.moves, "on_demand_hours", m.on_demand_h, "deadline_odds",
	    p->spec->deadline_us ? json_real(m.deadline_odds) : json_null(), "deadline_risk",
	    p->spec->deadline_us ? json_real(1.0 - m.deadline_odds) : json_null(), "runs",
	    (json_int_t)m.runs, "seed", (json_int_t)m.seed);
}

/* Those that suit and cannot be had now come first: they are what a person can do something
 * about. */
static void refused_add(struct areq *q, const struct planned *p, json_t *list, bool unsuited)
{
	for (size_t i = 0; i < p->ranking.refused_n && json_array_size(list) < REFUSED_SHOWN; i++) {
		const struct refused *x = &p->ranking.refused[i];

		if ((x->why == REFUSED_ASK) == unsuited) {
			json_array_append_new(list,
			    json_pack("{s:o, s:s}", "pool", offer_pool_json(x->offer), "why",
				refusal_words(q->arena, &p->ranking, x)));
		}
	}
}

static json_t *lists_json(struct areq *q, struct planned *p, json_t *doc)
{
	json_t *offers = json_array(), *refused = json_array(), *warnings = json_array();
	const struct score *best = plan_best(p, SPOT_MARKET_NONE);

	for (size_t i = 0; i < p->usable; i++) {
		if (i < OFFERS_SHOWN || &p->scores[i] == best) {
			json_array_append_new(offers,
			    score_json(p, &p->scores[i], &p->scores[i] == best, q->now_us));
		}
	}
	refused_add(q, p, refused, false);
	refused_add(q, p, refused, true);
	for (size_t i = 0; i < p->warnings_n; i++) {
		json_array_append_new(warnings, json_string(p->warnings[i]));
	}
	json_object_set_new(doc, "offers", offers);
	json_object_set_new(doc, "refused", refused);
	json_object_set_new(doc, "warnings", warnings);
	return doc;
}

static void plan_done(struct areq *q, struct planned *p)
{
	const struct resource_ask *ask = p->spec->asks_n ? &p->spec->asks[0] : NULL;
	json_t *gpu = ask && ask->gpus_n
	    ? json_sprintf("%s:%g", ask->gpus[0].gpu, ask->gpus[0].milli / 1000.0)
	    : json_null();
	int64_t seed = p->seed;
	json_t *doc =
	    json_pack("{s:{s:s?, s:o, s:s, s:s}, s:f, s:I, s:I, s:s, s:o, s:o, s:{s:o, s:o}}",
		"job", "name", p->spec->name, "gpu", gpu, "class", p->spec->class, "class_why",
		class_words(q->arena, class_get(&q->api->conf.classes, p->spec->class), p->spec),
		"work_hours",
		(double)(p->job.work_left_s ? p->job.work_left_s : p->policy.default_work_s) /
		    3600.0,
		"offers_usable", (json_int_t)p->usable, "offers_known", (json_int_t)p->n, "note",
		plan_note(q, p), "policy", rank_policy_json(&p->policy), "chosen",
		spread_json(q, p, plan_best(p, SPOT_MARKET_NONE), (uint64_t)seed), "baselines",
		"on_demand", spread_json(q, p, plan_best(p, SPOT_MARKET_ON_DEMAND), (uint64_t)seed),
		"cheapest_listed", spread_json(q, p, cheapest_listed(p), (uint64_t)seed));

	json_object_set_new(doc, "gang", plan_gang_json(p));
	areq_json(q, 200, lists_json(q, p, doc));
}

static void plan_seeded(struct areq *q, struct planned *p)
{
	if (areq_query_i64(q, "seed", 0, INT64_MAX, 1, &p->seed)) {
		plan_done(q, p);
	}
}

void post_plan(struct areq *q)
{
	plan_begin(q, plan_seeded);
}
