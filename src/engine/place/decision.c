/* Rows and JSON of decisions that several files make. */
#include "base/base.h"
#include "engine/place/place_priv.h"

void wait_write(struct recon *r, const struct job_facts *f, const struct placing *p,
    const char *why, int64_t until_us)
{
	struct place_in at = place_in(r);
	AUTO(json) json_t *in = placement_inputs(&at, f, p);
	AUTO(json)
	json_t *out = json_pack("{s:s, s:I}", "choice", "wait", "until_us", (json_int_t)until_us);
	struct step *s = step_new(r, NULL, NULL);

	STEP(s, engine_wait_for_job,
	    (&(struct q_engine_wait_for_job){ .job_id = f->id,
		.was = f->state,
		.epoch = f->epoch,
		.inputs = json_text(r->arena, in),
		.outcome = json_text(r->arena, out),
		.why = gang_why_wait(r, f, p, why),
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

json_t *move_json(const struct score *here, const struct score *there, const struct return_out *out,
    int64_t node_id)
{
	return json_pack("{s:I, s:i, s:I, s:f, s:I, s:I, s:o}", "from_node", (json_int_t)node_id,
	    "from_pool", (int)here->offer->pool_id, "here_price_micros",
	    (json_int_t)here->price_micros, "speed",
	    here->throughput > 0 ? there->throughput / here->throughput : 1.0, "saving_micros",
	    (json_int_t)out->saving_micros, "cost_micros", (json_int_t)out->cost_micros, "here",
	    score_json(here));
}
