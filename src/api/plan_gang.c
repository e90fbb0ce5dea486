/* What a job of several nodes would cost: the plan's offers are of one node, here they are those of the whole gang. Pools that
 * rest for gangs of that size just now are not left out. */
#include "base/base.h"
#include "api/plan.h"
#include "core/gang.h"

#define SHOWN 50

static void gang_ready(struct areq *q, struct planned *p)
{
	struct gang_ask ask = {.want = p->spec->num_nodes, .now_us = q->now_us};

	if (!p->gang)
		gang_scores(q->arena, p->scores, p->usable, &ask, &p->gang, &p->gang_usable);
}

json_t *plan_gang_json(struct areq *q, struct planned *p)
{
	json_t *list = json_array();

	if (p->spec->num_nodes < 2) {
		json_decref(list);
		return json_null();
	}
	gang_ready(q, p);
	for (size_t i = 0; i < p->usable && i < SHOWN; i++) {
		json_t *o = gang_score_json(&p->gang[i]);
		const struct offer *at = p->gang[i].one->offer;

		json_object_set_new(o, "pool", json_sprintf("p%d", at->pool_id));
		json_object_set_new(o, "place", json_sprintf("%s/%s/%s", at->provider, at->zone[0] ? at->zone : at->region, at->instance_type));
		json_object_set_new(o, "market", json_string(spot_market_name(at->market)));
		json_array_append_new(list, o);
	}
	return json_pack("{s:i, s:i, s:o, s:s}", "nodes", (int)p->spec->num_nodes, "usable", (int)p->gang_usable, "offers", list,
	    "note", "what all nodes cost together; the plan's offers, chosen and baselines are of one node");
}

const char *plan_gang_note(struct areq *q, struct planned *p)
{
	int n = p->spec->num_nodes;

	gang_ready(q, p);
	if (p->gang_usable == 0)
		return arena_printf(q->arena, "no zone has room for %d nodes together: %s", n, p->gang[0].refused);
	if (p->spec->deadline_us && q->now_us + (int64_t)(p->gang[0].hours * 3600e6) > p->spec->deadline_us)
		return arena_printf(q->arena, "%d nodes on the best pool need %.1f hours and would miss the deadline", n, p->gang[0].hours);
	return "";
}
