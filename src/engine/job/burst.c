/* Bursts: after a reclaim, jobs on siblings save if that is worth it (core/policy/save_now.h). A
 * burst asks a job at most once. The job goes on, and a notice of its own may follow. The ranks of
 * a gang save together, as one set. */
#include "base/base.h"
#include "core/policy/policy.h"
#include "engine/job/job.h"
#include "engine/kernel/kernel.h"

#include <math.h>

/* Reclaims of one burst follow each other within this time, and its jobs are judged that long. */
#define BURST_US (600 * SPOT_US_PER_S)
/* The unsaved work grows, so the jobs are judged again. */
#define AGAIN_US (5 * SPOT_US_PER_S)
/* The row shows the upload of a save, not how long the program stood still. */
#define SAVE_LEAST_S 1.0

struct due {
	struct q_engine_burst_due_row *rows;
	size_t n;
};

static struct save_now_in facts_of(const struct recon *r, const struct q_engine_burst_due_row *w,
    const struct offer *o)
{
	const struct rank_policy *p = &r->e->conf.rank;
	int64_t unsaved = MAX(engine_now(r->e) - w->unsaved_from_us, INT64_C(0));
	double save_s = w->save_us > 0
	    ? fmax((double)w->save_us / (double)SPOT_US_PER_S, SAVE_LEAST_S)
	    : (double)p->save_s;
	struct save_now_in in = { .hazard_per_hour = o->hazard,
		.rise = o->rise,
		.nodes = w->nodes,
		.price_micros = w->price_micros,
		.unsaved_us = unsaved,
		.save_us = (int64_t)(save_s * (double)SPOT_US_PER_S),
		.next_us = INT64_MAX,
		.notice_saves = save_s > notice_s(o->provider) ? 0 : p->notice_saves };
	const char *source;
	double interval_s = w->interval_s > 0
	    ? (double)w->interval_s
	    : save_interval_s(o->hazard, in.notice_saves, save_s, w->save_us > 0, &source);

	if (!w->interval_off) {
		in.next_us =
		    MAX((int64_t)(interval_s * (double)SPOT_US_PER_S) - unsaved, INT64_C(0));
	}
	return in;
}

static void save_write(struct recon *r, const struct q_engine_burst_due_row *w,
    const struct save_now_in *in, const struct save_now_out *out)
{
	AUTO(json)
	json_t *inputs =
	    json_pack("{s:I, s:I, s:I, s:i, s:i, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "burst",
		(json_int_t)w->burst_id, "struck_us", (json_int_t)w->struck_us, "node",
		(json_int_t)w->node_id, "pool", (int)w->pool_id, "nodes", (int)w->nodes,
		"price_micros", (json_int_t)in->price_micros, "unsaved_us",
		(json_int_t)in->unsaved_us, "save_us", (json_int_t)in->save_us, "next_save_us",
		(json_int_t)(in->next_us == INT64_MAX ? -1 : in->next_us), "hazard_per_hour",
		in->hazard_per_hour, "raised_per_hour", rise_now(&sibling_fitted, &in->rise),
		"hours", out->hours, "notice_saves", in->notice_saves);
	AUTO(json)
	json_t *outcome =
	    json_pack("{s:s, s:f, s:I, s:I}", "choice", "save", "odds", out->odds, "cost_micros",
		(json_int_t)out->cost_micros, "loss_micros", (json_int_t)out->loss_micros);
	struct step *s = step_new(r, NULL, NULL);

	log_info("burst.save", I64("job", w->job_id), I64("node", w->node_id),
	    I64("cost_micros", out->cost_micros), I64("loss_micros", out->loss_micros));
	STEP(s, engine_burst_save,
	    (&(struct q_engine_burst_save){ .burst_id = w->burst_id,
		.job_id = w->job_id,
		.epoch = w->epoch,
		.struck_us = w->struck_us,
		.inputs = json_text(r->arena, inputs),
		.outcome = json_text(r->arena, outcome),
		.why = out->why,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void burst_judge(struct recon *r, void *ctx)
{
	const struct due *d = ctx;

	for (size_t i = 0; i < d->n; i++) {
		const struct offer *o = offer_find(r->e, d->rows[i].pool_id);
		struct save_now_in in;
		struct save_now_out out;

		if (o == NULL) {
			continue;
		}
		in = facts_of(r, &d->rows[i], o);
		save_now_judge(&in, &out);
		if (out.save) {
			save_write(r, &d->rows[i], &in, &out);
		}
	}
	recon_later(r, AGAIN_US);
}

static void due_read(struct step *s)
{
	struct due *d = arena_alloc(s->r->arena, sizeof(*d));

	d->n = q_engine_burst_due_rows(&s->req, s->r->arena, &d->rows);
	if (d->n > 0) {
		offers_need(s->r, burst_judge, d);
	}
}

static void burst_noted(struct step *s)
{
	struct recon *r = s->r;

	s = step_new(r, due_read, NULL);
	STEP(s, engine_burst_due,
	    (&(struct q_engine_burst_due){ .since_us = engine_now(r->e) - BURST_US }));
}

static void burst_pass(struct recon *r, void *state)
{
	struct step *s = step_new(r, burst_noted, NULL);

	(void)state;
	STEP(s, engine_burst_note,
	    (&(struct q_engine_burst_note){ .since_us = engine_now(r->e) - BURST_US,
		.gap_us = BURST_US,
		.fence = r->epoch }));
}

const struct recon_kind burst_kind = { .name = "burst",
	.wakes = TOUCH_NOTICE | TOUCH_MARKET,
	.idle_ticks = 10,
	.pass = burst_pass };
