/* GET /v1/classes: what the workload classes mean here; GET /v1/gpus: the GPUs whose speed is
 * known, by the names that files use. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

#include "core/spec/spec.h"
#include "core/rank/rank.h"

static json_t *class_json(const struct class_policy *c)
{
	json_t *tiers = json_array();

	for (size_t i = 0; i < c->tiers_n; i++) {
		json_array_append_new(tiers, json_string(c->tiers[i]));
	}
	return json_pack("{s:s, s:s, s:b, s:i, s:o, s:o, s:s}", "name", c->name, "tolerance",
	    c->tolerance == CLASS_SPOT ? "spot" : "on_demand", "preemptible", c->preemptible,
	    "priority", (int)c->priority, "tiers", tiers, "patience_s",
	    c->patience_s < 0 ? json_null() : json_integer(c->patience_s), "late",
	    c->late_cheapest ? "cheapest" : "fastest");
}

void get_classes(struct areq *q)
{
	json_t *items = json_array();

	for (size_t i = 0; i < CLASSES; i++) {
		json_array_append_new(items, class_json(&q->api->conf.classes.list[i]));
	}
	areq_json(q, 200, json_pack("{s:o, s:n}", "items", items, "next"));
}

static void set_known(json_t *o, const char *key, double v)
{
	json_object_set_new(o, key, v > 0 ? json_real(v) : json_null());
}

void get_gpus(struct areq *q)
{
	json_t *items = json_array();

	for (size_t i = 0; i < gpu_perf_table_n; i++) {
		const struct gpu_perf *g = &gpu_perf_table[i];
		json_t *o = json_pack("{s:s}", "name", g->gpu);

		set_known(o, "fp16_tflops", g->fp16_tflops);
		set_known(o, "mem_gib", g->mem_gib);
		set_known(o, "bandwidth_gb_s", g->bandwidth_gb_s);
		json_array_append_new(items, o);
	}
	areq_json(q, 200, json_pack("{s:o, s:n}", "items", items, "next"));
}
