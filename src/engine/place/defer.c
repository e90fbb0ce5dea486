/*
 * Off-peak deferral, live: asked once for a job that has not begun, when its deadline leaves room
 * (or its file says off_peak: true). The answer is job.not_before_us, and a decision row with the
 * hours it was decided from.
 */
#include "base/base.h"
#include "base/log.h"
#include "core/policy/defer.h"
#include "engine/place/supply.h"

#define PAST_US (14 * 24 * SPOT_US_PER_HOUR)
#define POOLS_MOST 8

struct deferral {
	struct job_facts facts;
	const struct job_spec *spec;
	const struct score *best, *on_demand;
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
	struct engine *e = s->r->e;
	struct q_engine_supply_hours_row *rows;
	size_t n = q_engine_supply_hours_rows(&s->req, s->r->arena, &rows);
	double changeover = (double)e->conf.supply.changeover_us;
	struct defer_in in = { .now_us = engine_now(e), .deadline_us = d->facts.deadline_us };
	struct defer_out out;

	/* Twice the spot time: what a spot run may take when it is interrupted more than
	 * expected. */
	in.run_us = (int64_t)(d->best->hours * 2 * (double)SPOT_US_PER_HOUR + changeover);
	in.safe_us = in.run_us;
	if (d->on_demand != NULL) {
		in.run_us = (int64_t)(d->best->hours * (double)SPOT_US_PER_HOUR + changeover);
		in.safe_us =
		    (int64_t)(d->on_demand->hours * (double)SPOT_US_PER_HOUR + 3 * changeover);
	}
	for (size_t i = 0; i < n; i++) {
		in.hours[rows[i].hour % DEFER_HOURS] = (struct defer_hour){ .price = rows[i].price,
			.days = rows[i].days,
			.launches = rows[i].launches,
			.refusals = rows[i].refusals };
	}
	defer_decide(s->r->arena, &in, &e->conf.defer, &out);
	deferral_write(s->r, d, &in, &out);
}

bool defer_ask(struct recon *r, const struct job_facts *f, const struct placing *p)
{
	int off_peak = p->spec->off_peak;
	struct deferral *d;
	int32_t *ids;
	size_t n = 0;
	struct step *s;

	if (f->not_before_us != 0 || f->epoch != 0 || strcmp(f->state, "QUEUED") != 0 ||
	    p->usable == 0 || off_peak == 0 || (off_peak < 0 && f->deadline_us == 0)) {
		return false;
	}
	d = arena_alloc(r->arena, sizeof(*d));
	*d = (struct deferral){ .facts = *f,
		.spec = p->spec,
		.best = &p->scores[0],
		.on_demand = p->on_demand };
	ids = arena_array(r->arena, POOLS_MOST, sizeof(*ids));
	for (size_t i = 0; i < p->usable && n < POOLS_MOST; i++) {
		if (p->scores[i].offer->market == p->scores[0].offer->market) {
			ids[n++] = p->scores[i].offer->pool_id;
		}
	}
	s = step_new(r, hours_read, d);
	STEP(s, engine_supply_hours,
	    (&(struct q_engine_supply_hours){ .pools = ids,
		.pools_n = n,
		.from_us = engine_now(r->e) - PAST_US,
		.at_us = engine_now(r->e) }));
	return true;
}
