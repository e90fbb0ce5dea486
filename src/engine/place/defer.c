/* Off-peak deferral, live: asks once for a job that has not begun, when its deadline leaves room
 * (or its file says off_peak: true). The answer is job.not_before_us, and a decision row with the
 * hours behind it. */
#include "base/base.h"
#include "core/policy/policy.h"
#include "engine/place/place_priv.h"

struct deferral {
	struct job_facts facts;
	struct placing placing;
};

static json_t *hours_json(const struct defer_in *in, const struct defer_policy *p)
{
	json_t *list = json_array();

	for (int h = 0; h < DEFER_HOURS; h++) {
		const struct defer_hour *x = &in->hours[h];

		json_array_append_new(list,
		    json_pack("{s:i, s:f, s:i, s:f, s:f, s:f}", "hour", h, "price", x->price,
			"days", (int)x->days, "launches", x->launches, "refusals", x->refusals,
			"factor", defer_factor(in, p, h)));
	}
	return list;
}

static void deferral_write(struct recon *r, const struct deferral *d, const struct defer_in *in,
    const struct defer_out *out)
{
	bool deferred = out->start_us > in->now_us;
	AUTO(json)
	json_t *inputs = json_pack("{s:I, s:I, s:I, s:I, s:o}", "now_us", (json_int_t)in->now_us,
	    "deadline_us", (json_int_t)in->deadline_us, "run_us", (json_int_t)in->run_us, "safe_us",
	    (json_int_t)in->safe_us, "hours", hours_json(in, &r->e->conf.defer));
	AUTO(json)
	json_t *outcome = json_pack("{s:s, s:I, s:f}", "choice", deferred ? "defer" : "begin",
	    "start_us", (json_int_t)out->start_us, "saving", out->saving);
	struct step *s = step_new(r, NULL, NULL);

	if (deferred) {
		log_info("job.deferred", I64("job", d->facts.id), STR("why", out->why));
	}
	STEP(s, engine_defer,
	    (&(struct q_engine_defer){ .job_id = d->facts.id,
		.was = d->facts.state,
		.epoch = d->facts.epoch,
		.start_us = out->start_us,
		.deferred = deferred,
		.inputs = json_text(r->arena, inputs),
		.outcome = json_text(r->arena, outcome),
		.why = out->why,
		.at_us = in->now_us,
		.fence = r->epoch }));
}

static void hours_read(struct step *s)
{
	const struct deferral *d = s->ctx;
	struct q_engine_supply_hours_row *rows;
	size_t n = q_engine_supply_hours_rows(&s->req, s->r->arena, &rows);
	struct place_in at = place_in(s->r);
	struct defer_in in = { 0 };
	struct defer_out out;

	for (size_t i = 0; i < n; i++) {
		in.hours[rows[i].hour % DEFER_HOURS] = (struct defer_hour){ .price = rows[i].price,
			.days = rows[i].days,
			.launches = rows[i].launches,
			.refusals = rows[i].refusals };
	}
	placement_defer(&at, &d->facts, &d->placing, &in, &out);
	deferral_write(s->r, d, &in, &out);
}

void defer_ask(struct recon *r, const struct job_facts *f, const struct placing *p)
{
	struct deferral *d = arena_alloc(r->arena, sizeof(*d));
	int32_t *ids = arena_array(r->arena, PLACE_HOURS_POOLS, sizeof(*ids));
	struct step *s = step_new(r, hours_read, d);

	*d = (struct deferral){ .facts = *f, .placing = *p };
	STEP(s, engine_supply_hours,
	    (&(struct q_engine_supply_hours){ .pools = ids,
		.pools_n = placement_defer_pools(p, ids),
		.from_us = engine_now(r->e) - PLACE_HOURS_PAST_US,
		.at_us = engine_now(r->e) }));
}
