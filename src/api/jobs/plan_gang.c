/* What a job of several nodes would cost: the plan's offers are of one node, here and in what is
 * played through they are those of the whole gang. Pools that rest for gangs of that size just now
 * are not left out. */
#include "base/base.h"
#include "api/jobs/plan.h"
#include "api/jobs/jobs_priv.h"
#include "core/place/gang.h"

#define SHOWN 50

void plan_gang_rank(struct areq *q, struct planned *p)
{
	struct gang_ask ask = { .want = p->spec->num_nodes, .now_us = q->now_us };

	gang_scores(q->arena, p->scores, p->usable, &ask, &p->gang, &p->gang_usable);
}

struct score plan_whole(const struct planned *p, const struct score *s)
{
	struct gang_score g;

	if (!p->gang) {
		return *s;
	}
	gang_whole(s, p->spec->num_nodes, &g);
	return gang_as_score(&g, p->spec->num_nodes);
}

const struct score *plan_gang_best(const struct planned *p, enum spot_market m)
{
	const struct gang_score *fastest = NULL;

	for (size_t i = 0; i < p->gang_usable; i++) {
		const struct gang_score *g = &p->gang[i];

		if (m != SPOT_MARKET_NONE && g->one->offer->market != m) {
			continue;
		}
		if (g->hours <= p->within_h) {
			return g->one;
		}
		fastest = !fastest || g->hours < fastest->hours ? g : fastest;
	}
	return fastest ? fastest->one : NULL;
}

json_t *plan_gang_json(struct planned *p)
{
	json_t *list;

	if (!p->gang) {
		return json_null();
	}
	list = json_array();
	for (size_t i = 0; i < p->usable && i < SHOWN; i++) {
		json_t *o = gang_score_json(&p->gang[i]);
		const struct offer *at = p->gang[i].one->offer;

		json_object_set_new(o, "pool", json_sprintf("p%d", at->pool_id));
		json_object_set_new(o, "place",
		    json_sprintf("%s/%s/%s", at->provider, at->zone[0] ? at->zone : at->region,
			at->instance_type));
		json_object_set_new(o, "market", json_string(spot_market_name(at->market)));
		json_array_append_new(list, o);
	}
	return json_pack("{s:i, s:i, s:o, s:s}", "nodes", (int)p->spec->num_nodes, "usable",
	    (int)p->gang_usable, "offers", list, "note",
	    "what all nodes cost together, as do chosen and baselines; the plan's offers are of "
	    "one node");
}

/* Suits, and has no room for all of them. */
static const struct refused *cramped(const struct planned *p)
{
	for (size_t i = 0; i < p->ranking.refused_n; i++) {
		if (p->ranking.refused[i].why == REFUSED_QUOTA) {
			return &p->ranking.refused[i];
		}
	}
	return NULL;
}

const char *plan_gang_note(struct areq *q, struct planned *p)
{
	int n = p->spec->num_nodes;
	const struct refused *x = cramped(p);
	struct score whole;

	if (p->gang_usable == 0 && x) {
		return arena_printf(q->arena, "no zone has room for %d nodes together: %s", n,
		    refusal_words(q->arena, &p->ranking, x));
	}
	if (p->gang_usable == 0) {
		return arena_printf(q->arena, "none of %zu pools suits; see refused", p->n);
	}
	whole = plan_whole(p, plan_gang_best(p, SPOT_MARKET_NONE));
	if (whole.hours > p->within_h) {
		return arena_printf(q->arena,
		    "%d nodes on the fastest pool need %.1f hours and would miss the deadline", n,
		    whole.hours);
	}
	return "";
}
