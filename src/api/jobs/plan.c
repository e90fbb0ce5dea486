/* POST /v1/plan: the rows that the engine places jobs from are read here, core/place/placement.h
 * decides as it does for the engine. Submitting a job and the backtest share the first half. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"
#include "base/text/text.h"
#include "core/policy/policy.h"
#include "core/spec/spec.h"
#include <ctype.h>
#include <strings.h>

/* ---- scores ---------------------------------------------------------------------------------- */

const struct score *plan_score_of(const struct planned *p, const struct offer *o)
{
	for (size_t i = 0; i < p->all.ranking.usable; i++) {
		if (p->all.ranking.scores[i].offer == o) {
			return &p->all.ranking.scores[i];
		}
	}
	return NULL;
}

struct score plan_whole(const struct planned *p, const struct score *s)
{
	return placement_whole(&p->facts, s);
}

const struct score *plan_best(const struct planned *p, enum spot_market m)
{
	const struct score *s;

	if (p->answer != NULL && p->facts.deadline_us == 0) { /* the first of each market */
		return m == SPOT_MARKET_SPOT     ? p->all.spot
		    : m == SPOT_MARKET_ON_DEMAND ? p->all.on_demand
		    : p->all.ranking.usable > 0  ? &p->all.ranking.scores[0]
						 : NULL;
	}
	s = placement_best(&p->in, &p->facts, &p->all, m);
	return s != NULL ? plan_score_of(p, s->offer) : NULL;
}

const struct score *plan_chosen(const struct planned *p)
{
	return p->choice.act == PLACE_TAKE ? plan_score_of(p, p->choice.score->offer)
					   : plan_best(p, SPOT_MARKET_NONE);
}

const struct score *plan_cheapest_listed(const struct planned *p)
{
	const struct score *best = NULL;

	if (p->answer != NULL) {
		return p->answer->cheapest;
	}
	for (size_t i = 0; i < p->all.ranking.usable; i++) {
		const struct score *s = &p->all.ranking.scores[i];

		if (!best || s->offer->price_micros < best->offer->price_micros) {
			best = s;
		}
	}
	return best;
}

/* ---- the ranking ----------------------------------------------------------------------------- */

/* Of the whole market, from which the hazards were learned, the pools of these GPUs. */
static void market_narrow(struct arena *a, const struct market_snap *m, const char *const *gpus,
    size_t n, struct place_market *ret)
{
	struct offer *kept = NULL;
	const char *before = NULL;
	size_t cap = 0;
	bool asked = false;

	ret->offers_n = 0;
	for (size_t i = 0; i < m->n; i++) {
		const char *gpu = m->offers[i].gpu_name;

		if (gpu != before) {
			asked = false;
			for (size_t k = 0; k < n && !asked; k++) {
				asked = strncasecmp(gpu, gpus[k], strlen(gpus[k])) == 0;
			}
			before = gpu;
		}
		if (asked) {
			kept = arena_grow(a, kept, ret->offers_n, &cap, sizeof(*kept));
			kept[ret->offers_n++] = m->offers[i];
		}
	}
	ret->offers = kept;
}

void plan_market(struct arena *a, const struct market_snap *m, const char *const *gpus, size_t n,
    struct place_market *ret)
{
	*ret = (struct place_market){ .offers = m->offers,
		.offers_n = m->n,
		.sellers = m->sellers,
		.sellers_n = m->sellers_n,
		.sellers_known = m->sellers_known };
	if (n > 0) {
		market_narrow(a, m, gpus, n, ret);
	}
}

/* As the engine reads it from the row that submitting would write. */
static void facts_fill(struct areq *q, struct planned *p)
{
	const struct job_spec *s = p->spec;
	struct job_facts *f = &p->facts;

	f->state = JOB_QUEUED;
	f->name = s->name;
	f->deadline_us = s->deadline_us;
	f->created_us = f->queued_us = q->now_us;
	f->not_before_us = s->start_after_us;
	f->nodes = s->num_nodes;
	f->has_budget = s->budget_micros > 0;
	f->budget_micros = f->budget_left = s->budget_micros;
}

static void plan_ranked(struct areq *q)
{
	struct planned *p = q->own;

	p->in = (struct place_in){ .arena = q->arena,
		.market = &p->market,
		.policy = &p->policy,
		.now_us = p->begin_us };
	p->within_h = placement_within_h(&p->in, &p->facts);
	plan_warnings(q, p);
	p->next(q, p);
}

static void gang_plan(struct areq *q)
{
	struct planned *p = q->own;
	bool has_budget = p->facts.has_budget;

	p->in = (struct place_in){ .arena = q->arena,
		.market = &p->market,
		.policy = &p->policy,
		.now_us = p->begin_us };
	p->facts.has_budget = false;
	placement_rank(&p->in, &p->facts, p->spec, &p->all);
	p->facts.has_budget = has_budget;
	p->placing = p->all;
	if (has_budget) {
		placement_rank(&p->in, &p->facts, p->spec, &p->placing);
	}
	plan_ranked(q);
}

/* Pools that cool down for gangs, and places where one is being acquired. */
static void gangs_read(struct areq *q)
{
	struct planned *p = q->own;
	struct q_engine_gang_market_row *rows;
	size_t n = q_engine_gang_market_rows(&q->pg, q->arena, &rows);
	struct gang_rest *rests = arena_array(q->arena, n + 1, sizeof(*rests));
	const char **busy = arena_array(q->arena, n + 1, sizeof(*busy));

	p->market.rests = rests;
	p->market.busy = busy;
	for (size_t i = 0; i < n; i++) {
		if (rows[i].place[0] == '\0') {
			rests[p->market.rests_n++] =
			    (struct gang_rest){ rows[i].pool_id, rows[i].want, rows[i].until_us };
		} else {
			busy[p->market.busy_n++] = rows[i].place;
		}
	}
	gang_plan(q);
}

static void market_read(struct areq *q)
{
	struct planned *p = q->own;
	const char **gpus = NULL;
	size_t gpus_n = plan_gpus_asked(q->arena, p->spec, &gpus);
	struct spot_err err = { 0 };

	p->hazards = q->snap->hazards;
	p->market_known = q->snap->known;
	p->begin_us = MAX(q->now_us, p->spec->start_after_us);
	if (p->spec->num_nodes > 1) {
		plan_market(q->arena, q->snap, gpus, gpus_n, &p->market);
	} else {
		p->answer = answer_take(q, p, gpus, gpus_n);
	}
	if (class_types_check(q->arena, class_get(&q->api->conf.classes, p->spec->class), p->spec,
		p->market.offers, p->market.offers_n, &err) != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	if (p->spec->num_nodes > 1) {
		SQL(q, engine_gang_market, gangs_read, .at_us = q->now_us);
		return;
	}
	plan_ranked(q);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Upper-case prefixes of the GPUs asked for. None if any ask takes any GPU. */
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
			}
			gpus = arena_grow(a, gpus, n, &cap, sizeof(*gpus));
			gpus[n++] = up;
		}
	}
	*ret = gpus;
	return n;
}

static const char *team_of(const struct areq *q, const struct planned *p)
{
	return *p->spec->team ? p->spec->team : q->who.team;
}

static const char *name_of(const struct planned *p)
{
	return p->spec->name ? p->spec->name : "job";
}

/* Earlier jobs of the same name tell how fast this one will run. */
static void placing_take(struct areq *q, const struct q_api_placing_row *row)
{
	struct planned *p = q->own;

	p->facts.rates = row->rates;
	p->facts.restart_us = row->has_restart_us ? row->restart_us : 0;
	areq_market(q, market_read);
}

static void placing_read(struct areq *q)
{
	struct planned *p = q->own;
	struct q_api_placing_row *row;

	q_api_placing_rows(&q->pg, q->arena, &row);
	rates_keep(q, team_of(q, p), name_of(p), row);
	placing_take(q, row);
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

void plan_begin(struct areq *q, void (*next)(struct areq *q, struct planned *p))
{
	struct planned *p = arena_alloc(q->arena, sizeof(*p));
	struct q_api_placing_row known;
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
	p->policy = q->api->conf.place;
	p->policy.store_provider = q->api->conf.store_provider;
	p->policy.store_region = q->api->conf.store_region;
	facts_fill(q, p);
	p->next = next;
	q->own = p;
	if (rates_find(q, team_of(q, p), name_of(p), &known)) {
		placing_take(q, &known);
		return;
	}
	SQL(q, api_placing, placing_read, .name = name_of(p), .team = team_of(q, p));
}

/* ---- the decision ---------------------------------------------------------------------------- */

static void plan_settle(struct areq *q);

static void words_read(struct areq *q)
{
	struct planned *p = q->own;
	struct q_engine_supply_words_row *rows;
	size_t n = q_engine_supply_words_rows(&q->pg, q->arena, &rows);
	struct supply_word *words = arena_array(q->arena, n + 1, sizeof(*words));
	struct policy_choice c;

	for (size_t i = 0; i < n; i++) {
		words[i] = (struct supply_word){ .pool_id = rows[i].pool_id,
			.from_us = rows[i].from_us,
			.to_us = rows[i].to_us,
			.up = rows[i].up };
	}
	placement_deadline(&p->in, &p->question, words, n, &c, &p->policy_said);
	placement_answer(&p->in, &p->question, &c, &p->choice);
	p->next(q, p);
}

static void words_ask(struct areq *q, struct planned *p)
{
	int32_t *ids = arena_array(q->arena, PLACE_POOLS, sizeof(*ids));

	placement_ask(&p->in, &p->facts, &p->placing, &(struct deadline_held){ .act = POLICY_WAIT },
	    &p->question);
	for (size_t i = 0; i < p->question.n; i++) {
		ids[i] = p->question.pools[i].offer->pool_id;
	}
	SQL(q, engine_supply_words, words_read, .pools = ids, .pools_n = p->question.n,
	    .since_us = q->now_us - PLACE_WORDS_PAST_US, .most = PLACE_WORDS_MOST,
	    .want = p->facts.nodes);
}

/* Begun later, or asked again as a job that begins now. */
static void hours_read(struct areq *q)
{
	struct planned *p = q->own;
	struct q_engine_supply_hours_row *rows;
	size_t n = q_engine_supply_hours_rows(&q->pg, q->arena, &rows);
	struct defer_in hours = { 0 };
	struct defer_out out;

	for (size_t i = 0; i < n; i++) {
		hours.hours[rows[i].hour % DEFER_HOURS] =
		    (struct defer_hour){ .price = rows[i].price,
			    .days = rows[i].days,
			    .launches = rows[i].launches,
			    .refusals = rows[i].refusals };
	}
	placement_defer(&p->in, &p->facts, &p->placing, &hours, &out);
	if (out.start_us > p->in.now_us) {
		p->choice = (struct place_choice){ .act = PLACE_DEFER,
			.kind = "defer",
			.why = out.why,
			.until_us = out.start_us };
		p->next(q, p);
		return;
	}
	p->facts.not_before_us = p->in.now_us;
	plan_settle(q);
}

static void plan_settle(struct areq *q)
{
	struct planned *p = q->own;
	int32_t *ids;

	switch (placement_begin(&p->in, &p->facts, &p->placing, &p->choice)) {
	case PLACE_HOURS:
		ids = arena_array(q->arena, PLACE_HOURS_POOLS, sizeof(*ids));
		SQL(q, engine_supply_hours, hours_read, .pools = ids,
		    .pools_n = placement_defer_pools(&p->placing, ids),
		    .from_us = q->now_us - PLACE_HOURS_PAST_US, .at_us = q->now_us);
		return;
	case PLACE_WORDS:
		words_ask(q, p);
		return;
	case PLACE_DECIDED:
		p->next(q, p);
		return;
	}
}

/* The tight groups of the rows. */
static void tight_read(struct areq *q)
{
	struct planned *p = q->own;
	struct q_engine_supply_states_row *rows;
	size_t n = q_engine_supply_states_rows(&q->pg, q->arena, &rows);
	struct tight_group *tight = arena_array(q->arena, n + 1, sizeof(*tight));

	p->market.tight = tight;
	for (size_t i = 0; i < n; i++) {
		if (rows[i].state == SUPPLY_TIGHT) {
			tight[p->market.tight_n++] = (struct tight_group){ rows[i].provider,
				rows[i].region, rows[i].gpu_name };
		}
	}
	plan_settle(q);
}

void plan_decide(struct areq *q, struct planned *p, void (*next)(struct areq *q, struct planned *p))
{
	p->next = next;
	q->own = p;
	/* A job of a fleet waits for a machine of that fleet. */
	if (p->spec->fleet != NULL || p->all.ranking.usable == 0) {
		next(q, p);
		return;
	}
	SQL0(q, engine_supply_states, tight_read);
}

/* ---- the route ------------------------------------------------------------------------------- */

static void plan_seeded(struct areq *q, struct planned *p)
{
	if (areq_query_i64(q, "seed", 0, INT64_MAX, 1, &p->seed)) {
		plan_decide(q, p, plan_reply);
	}
}

void post_plan(struct areq *q)
{
	plan_begin(q, plan_seeded);
}
