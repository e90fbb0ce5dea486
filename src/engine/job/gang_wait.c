/* Elastic gangs (config.spotctl.elastic: replace). One rank's machine is lost or leaves: the others
 * keep theirs and wait for another one in the same place (core/place/gang_wait.h). It is launched
 * while the ranks still save. When all are ready, gang.c begins the next epoch on them. When the
 * wait is over, gang.c gives all back, and the job seeks another gang. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/money/money.h"
#include "engine/job/job_priv.h"
#include "engine/kernel/kernel.h"
#include "engine/place/place.h"

struct standby {
	const struct q_engine_gangs_row *g; /* want rows, one per rank */
	size_t n;
	int32_t rank; /* the one without a machine; -1 = none */
	int64_t need_micros; /* of the budget */
	struct gang_wait_in in;
	struct gang_wait_out out;
};

static bool rank_gone(const struct q_engine_gangs_row *m)
{
	return m->noticed || m->node_state == NODE_NONE || m->node_state == NODE_DRAINING ||
	    m->node_state == NODE_TERMINATING || m->node_state == NODE_GONE ||
	    m->node_state == NODE_FAILED;
}

static const char *budget_unpaid(struct recon *r, struct standby *w)
{
	const struct q_engine_gangs_row *g = w->g;
	const struct job_spec spec = { .checkpoint = { .budget_s = g->save_s } };

	if (!g->has_budget_left) {
		return NULL;
	}
	w->need_micros =
	    budget_need_again(MAX(g->price_micros, 0), g->want, 1, budget_end_us(r->e), &spec);
	return g->budget_left >= w->need_micros
	    ? NULL
	    : arena_printf(r->arena,
		  "its job's budget, of which %s are left, does not pay for another machine",
		  budget_words(r->arena, g->budget_left, g->budget_micros));
}

static void facts_read(struct recon *r, struct standby *w)
{
	const struct engine_conf *c = &r->e->conf;
	const struct q_engine_gangs_row *g = w->g;
	const struct offer *o = offer_find(r->e, g->pool_id);

	w->rank = -1;
	w->in = (struct gang_wait_in){ .want = g->want,
		.stopping = g->job_state == JOB_DRAINING,
		.other = g->other,
		.price_micros = g->price_micros,
		.restart_us = g->restart_us > 0 ? g->restart_us : c->rank.restart_s * SPOT_US_PER_S,
		.refused_us = c->rank.refused_s * SPOT_US_PER_S,
		.odds = o != NULL && o->has_odds ? o->odds : 1,
		.most_us = g->timed ? c->gang_hold_us : INT64_MAX,
		.no_quota = o != NULL ? offer_quota_refusal(r->arena, o, 1) : NULL,
		.since_us = g->wait_us,
		.until_us = g->until_us,
		.now_us = engine_now(r->e) };
	for (size_t i = 0; i < w->n; i++) {
		if (rank_gone(&g[i])) {
			w->in.gaps++;
			w->rank = g[i].rank;
		}
		w->in.ready += g[i].node_state == NODE_READY;
	}
	w->in.unpaid = w->in.gaps > 0 ? budget_unpaid(r, w) : NULL;
}

static const char *inputs_text(struct recon *r, const struct standby *w)
{
	const struct gang_wait_in *in = &w->in;
	AUTO(json)
	json_t *j = json_pack("{s:I, s:i, s:i, s:i, s:b, s:b, s:I, s:I, s:I, s:f, s:I, s:I, s:I}",
	    "gang", (json_int_t)w->g->id, "pool", (int)w->g->pool_id, "nodes", (int)in->want,
	    "gone", (int)in->gaps, "stopping", in->stopping, "other", in->other, "price_micros",
	    (json_int_t)in->price_micros, "restart_us", (json_int_t)in->restart_us, "refused_us",
	    (json_int_t)in->refused_us, "odds", in->odds, "since_us", (json_int_t)in->since_us,
	    "most_us", (json_int_t)(in->most_us == INT64_MAX ? -1 : in->most_us), "now_us",
	    (json_int_t)in->now_us);

	return json_text(r->arena, j);
}

static const char *outcome_text(struct recon *r, const struct standby *w, const char *choice)
{
	const struct gang_wait_out *o = &w->out;
	AUTO(json)
	json_t *j = json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I}", "choice", choice, "rank",
	    (int)w->rank, "anew_us", (json_int_t)o->anew_us, "anew_micros",
	    (json_int_t)o->anew_micros, "wait_hour_micros", (json_int_t)o->hour_micros, "bound_us",
	    (json_int_t)o->bound_us, "until_us", (json_int_t)o->until_us);

	return json_text(r->arena, j);
}

static void wait_wanted(struct step *s)
{
	struct q_engine_gang_wait_row *rows;

	offers_write_end(s->r->e);
	if (step_rows(s) == 1 && q_engine_gang_wait_rows(&s->req, s->r->arena, &rows) == 1) {
		log_info("gang.waits", I64("node", rows[0].id), STR("why", s->ctx));
	}
}

static void wait_begin(struct recon *r, const struct standby *w)
{
	struct engine *e = r->e;
	const struct q_engine_gangs_row *g = w->g;
	char token[65], name[65], at[TIME_TEXT_MAX];
	char *why = arena_printf(r->pass_arena,
	    "rank %d lost its machine; the others wait until %.5s UTC for another in %s",
	    (int)w->rank, format_time_s(w->out.until_us, at) + 11, g->at_place);
	struct step *s = step_new(r, wait_wanted, why);

	token_make(e, token, name);
	s->always = true;
	offers_write_begin(e);
	STEP(s, engine_gang_wait,
	    (&(struct q_engine_gang_wait){ .gang_id = g->id,
		.job_id = g->job_id,
		.was = g->job_state,
		.rank = w->rank,
		.token = token,
		.name = name,
		.price_micros = g->price_micros,
		.until_us = w->out.until_us,
		.inputs = inputs_text(r, w),
		.outcome = outcome_text(r, w, "wait"),
		.why = why,
		.at_us = engine_now(e),
		.fence = r->epoch,
		.need_micros = w->need_micros,
		.end_us = budget_end_us(e) }));
}

static void wait_over_write(struct recon *r, const struct standby *w)
{
	const struct q_engine_gangs_row *g = w->g;
	struct step *s = step_new(r, NULL, NULL);

	log_info("gang.wait_over", I64("job", g->job_id), I64("gang", g->id),
	    STR("why", w->out.why));
	STEP(s, engine_gang_wait_over,
	    (&(struct q_engine_gang_wait_over){ .gang_id = g->id,
		.inputs = inputs_text(r, w),
		.outcome = outcome_text(r, w, "give back"),
		.why = arena_printf(r->arena, "all %d machines are given back: %s", (int)g->want,
		    w->out.why),
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
	r->changed = true;
}

bool gang_stands_by(struct recon *r, const struct q_engine_gangs_row *g, size_t n)
{
	struct standby w = { .g = g, .n = n };

	if (!g->elastic || g->wait_over || g->cancel ||
	    (g->job_state != JOB_DRAINING && !(g->job_state == JOB_QUEUED && !g->live))) {
		return false;
	}
	facts_read(r, &w);
	gang_wait_judge(r->arena, &w.in, &w.out);
	switch (w.out.what) {
	case GANG_WAIT_BEGIN:
		wait_begin(r, &w);
		return true;
	case GANG_WAIT_OVER:
		wait_over_write(r, &w);
		return true;
	case GANG_WAIT_ON:
		if (w.in.until_us > w.in.now_us) {
			recon_later(r, w.in.until_us - w.in.now_us);
		}
		return w.in.ready < g->want;
	case GANG_WAIT_LATER:
		return true;
	case GANG_WAIT_NONE:
		break;
	}
	return false;
}
