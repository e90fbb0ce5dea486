/* A fleet's plan as it is shown and stored, with every figure that it follows from. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet_priv.h"

#define POOLS_SHOWN 500

static json_t *row_of(const struct fleet_plan *p, const struct fleet_have *h,
    const struct fleet_pick *k)
{
	const struct score *s = k != NULL ? k->score : h->score;
	const struct offer *o = s != NULL ? s->offer : h != NULL ? h->offer : NULL;
	int32_t id, gives = 0;
	json_t *row;

	assert(o != NULL || h != NULL);
	id = o != NULL ? o->pool_id : h->pool_id;
	for (size_t i = 0; h != NULL && i < p->gives_n; i++) {
		gives += p->gives[i].pool_id == h->pool_id ? p->gives[i].nodes : 0;
	}
	row = json_pack("{s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:I}", "pool",
	    json_sprintf("p%d", id), "provider", o != NULL ? o->provider : h->provider, "region",
	    o != NULL ? o->region : h->region, "zone", o != NULL ? o->zone : h->zone,
	    "instance_type", o != NULL && o->instance_type != NULL ? o->instance_type : "",
	    "market", spot_market_name(o != NULL ? o->market : h->market), "gpu",
	    o != NULL && o->gpu_name != NULL ? o->gpu_name : "", "held", h != NULL ? h->nodes : 0,
	    "add", k != NULL ? k->nodes : 0, "give_back", gives, "price_micros",
	    (json_int_t)(o != NULL ? o->price_micros : h->price_micros));
	json_object_set_new(row, "work_micros",
	    s != NULL ? json_integer(s->total_micros) : json_null());
	json_object_set_new(row, "egress_micros",
	    s != NULL ? json_integer(s->egress_micros) : json_null());
	json_object_set_new(row, "reclaims_per_hour",
	    s != NULL ? json_real(s->hazard) : json_null());
	json_object_set_new(row, "marginal_micros",
	    k != NULL ? json_integer(k->marginal_micros) : json_null());
	return row;
}

static json_t *pools_json(const struct fleet_ask *ask, const struct fleet_plan *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->n && i < POOLS_SHOWN; i++) {
		const struct fleet_have *held = NULL;

		for (size_t k = 0; k < ask->have_n && held == NULL; k++) {
			held = ask->have[k].pool_id == p->picks[i].score->offer->pool_id
			    ? &ask->have[k]
			    : NULL;
		}
		json_array_append_new(list, row_of(p, held, &p->picks[i]));
	}
	for (size_t i = 0; i < ask->have_n && json_array_size(list) < POOLS_SHOWN; i++) {
		bool picked = false;

		for (size_t k = 0; k < p->n && !picked; k++) {
			picked = p->picks[k].score->offer->pool_id == ask->have[i].pool_id;
		}
		if (!picked) {
			json_array_append_new(list, row_of(p, &ask->have[i], NULL));
		}
	}
	return list;
}

static json_t *bindings_json(const struct fleet_plan *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->bindings_n && i < 20; i++) {
		const struct fleet_binding *b = &p->bindings[i];

		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:I, s:I, s:s, s:i, s:I}", "limit",
			fleet_limit_name(b->limit), "where", b->where, "max", (json_int_t)b->max,
			"used", (json_int_t)b->used, "unit", b->unit, "pools_kept_out", b->pools,
			"worth_micros", (json_int_t)b->worth_micros));
	}
	return list;
}

static void worth_add(json_t *worth, const struct fleet_spec *f, const struct offer *o)
{
	if (o != NULL && !str_empty(o->gpu_name) && json_object_get(worth, o->gpu_name) == NULL) {
		json_object_set_new(worth, o->gpu_name, json_real(fleet_gpu_worth(f, o->gpu_name)));
	}
}

/* Work of one GPU of each model in units of gpus_of. The size of the fleet is shown by it. */
static json_t *worth_json(const struct fleet_ask *ask, const struct fleet_plan *p)
{
	json_t *worth = json_object();

	for (size_t i = 0; i < ask->have_n; i++) {
		worth_add(worth, ask->spec, ask->have[i].offer);
	}
	for (size_t i = 0; i < p->n; i++) {
		worth_add(worth, ask->spec, p->picks[i].score->offer);
	}
	return worth;
}

json_t *fleet_plan_json(const struct fleet_ask *ask, const struct fleet_plan *p)
{
	const struct fleet_spec *f = ask->spec;
	double share = f->floor_pm > 0 ? 1000.0 : 1;
	json_t *doc = json_pack("{s:f, s:s, s:s, s:f, s:i, s:i, s:f, s:f, s:i, s:i, s:I}", "want",
	    p->want, "unit", f->nodes > 0 || f->gpus == 0 ? "nodes" : "gpus", "gpus_of",
	    f->gpus_of != NULL ? f->gpus_of : "", "have", p->have, "missing", p->missing, "surplus",
	    p->surplus, "floor_want", p->floor_want / share, "floor_have", p->floor_have / share,
	    "pools", p->pools, "pools_want", p->pools_want, "hourly_micros",
	    (json_int_t)p->hourly_micros);
	json_t *sums = json_pack("{s:I, s:I, s:I, s:I, s:f, s:b, s:f, s:f, s:I, s:I, s:I, s:s}",
	    "cost_micros", (json_int_t)p->cost_micros, "risk_micros", (json_int_t)p->risk_micros,
	    "total_micros", (json_int_t)p->cost_micros + p->risk_micros, "bound_micros",
	    (json_int_t)p->bound_micros, "gap", p->gap, "proved", p->proved, "risk_hours", f->risk,
	    "lost_together_per_hour", p->lost_together, "risk_price_micros",
	    (json_int_t)p->risk_price_micros, "pools_usable", (json_int_t)p->usable, "steps",
	    (json_int_t)p->steps, "why", p->why);

	json_object_update(doc, sums);
	json_decref(sums);
	if (fleet_by_work(f)) {
		json_object_set_new(doc, "gpu_worth", worth_json(ask, p));
	}
	json_object_set_new(doc, "limits", bindings_json(p));
	json_object_set_new(doc, "pool_list", pools_json(ask, p));
	return doc;
}
