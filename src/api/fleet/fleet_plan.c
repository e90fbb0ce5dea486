/* POST /v1/fleets/plan: where a fleet's nodes would go, by the same code that the engine decides
 * with; starts nothing. */
#include "base/base.h"
#include "api/fleet/fleet_priv.h"
#include "api/jobs/jobs.h"
#include "core/fleet/fleet.h"

struct fleet_planned {
	struct fleet_spec *spec;
	const char *name;
	struct job_spec job;
	struct place_policy policy;
	const char **gpus;
	size_t gpus_n;
};

static void fleet_planned(struct areq *q)
{
	struct fleet_planned *p = q->own;
	struct fleet_ask ask = { .spec = p->spec };
	struct place_market market = { 0 };
	struct place_in in = { .arena = q->arena,
		.market = &market,
		.policy = &p->policy,
		.now_us = q->now_us };
	struct score *scores;
	struct fleet_plan plan;
	json_t *doc;

	plan_market(q->arena, q->snap, p->gpus, p->gpus_n, &market);
	ask.hazards = q->snap->hazards;
	/* A fleet that does not exist yet has no jobs. */
	placement_fleet(&in, &p->job, &(struct fleet_saves){ 0 }, &scores, &ask.scores_n);
	ask.scores = scores;
	fleet_plan_make(q->arena, &ask, &plan);
	doc = fleet_plan_json(&ask, &plan);
	json_object_set_new(doc, "name", json_string(p->name));
	json_object_set_new(doc, "pools_known", json_integer((json_int_t)market.offers_n));
	areq_json(q, 200, doc);
}

void post_fleet_plan(struct areq *q)
{
	struct fleet_planned *p = arena_alloc(q->arena, sizeof(*p));
	struct spot_err err = { 0 };

	if (q->http->body.n == 0) {
		areq_fail(q, SPOT_INVALID,
		    "send the fleet (name, nodes or gpus, resources) as the body");
		return;
	}
	if (fleet_spec_parse(q->arena, q->http->body, &p->spec, &p->name, &err) != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	fleet_job(p->spec, &p->job);
	p->policy = q->api->conf.place;
	p->policy.store_provider = q->api->conf.store_provider;
	p->policy.store_region = q->api->conf.store_region;
	q->own = p;
	p->gpus_n = plan_gpus_asked(q->arena, &p->job, &p->gpus);
	areq_market(q, fleet_planned);
}
