/* The lists of a plan, written into the reply: offers with their terms, refused offers, and the
 * distributions. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"
#include "base/text/text.h"

#define OFFERS_SHOWN 200
#define REFUSED_SHOWN 500

/* ---- offers ---------------------------------------------------------------------------------- */

static void pool_put(struct sbuf *b, const struct offer *o, int64_t now_us)
{
	sbuf_putc(b, '{');
	json_add_id(b, "id", 'p', o->pool_id);
	json_add_text(b, "zone_name", o->zone_name);
	json_add_text(b, "gpu", o->gpu_name);
	json_add_f64(b, "gpus", o->gpu_milli / 1000.0);
	json_add_i64(b, "gpu_mem_mib", o->gpu_mem_mib);
	json_add_i64(b, "vcpus", o->vcpus);
	json_add_i64(b, "mem_mib", o->mem_mib);
	json_add_money(b, "price", o->price_micros);
	json_add_name(b, "observed_at");
	json_put_time(b, o->price_observed_us);
	json_add_i64(b, "age_s", MAX((now_us - o->price_observed_us) / SPOT_US_PER_S, 0));
	json_add_name(b, "ends_at");
	json_put_time(b, o->ends_us);
	offer_fields_put(b, o);
	sbuf_putc(b, '}');
}

static void late_add(const struct planned *p, const struct score_terms *t, struct sbuf *b)
{
	int64_t left = p->spec->deadline_us - p->begin_us;

	if (p->spec->deadline_us == 0) {
		json_add_null(b, "deadline_risk");
		return;
	}
	json_add_f64(b, "deadline_risk",
	    score_late_odds(t, (double)left / (double)SPOT_US_PER_HOUR));
}

static void offer_put(struct areq *q, const struct planned *p, struct sbuf *b,
    const struct score *s, bool chosen)
{
	struct score_terms t;

	score_explain(s, &t);
	sbuf_putc(b, '{');
	json_add_i64(b, "rank", (s - p->all.ranking.scores) + 1);
	json_add_bool(b, "chosen", chosen);
	json_add_name(b, "pool");
	pool_put(b, s->offer, q->now_us);
	json_add_money(b, "price", s->price_micros);
	json_add_f64(b, "price_age_s",
	    (double)MAX(q->now_us - s->offer->price_observed_us, 0) / 1e6);
	json_add_f64(b, "throughput", s->throughput);
	json_add_f64(b, "work_hours", s->work_h);
	json_add_f64(b, "checkpoint_interval_s", t.interval_s);
	json_add_f64(b, "checkpoint_overhead", t.overhead);
	json_add_f64(b, "expected_interruptions", s->interruptions);
	json_add_f64(b, "lost_work_hours", t.lost_h);
	json_add_f64(b, "restart_hours", t.restart_h);
	json_add_money(b, "compute", s->compute_micros);
	json_add_money(b, "egress", s->egress_micros);
	json_add_money(b, "total", s->total_micros);
	json_add_i64(b, "price_penalty_micros", s->penalty_micros);
	json_add_f64(b, "launch_odds", s->odds);
	json_add_f64(b, "hours_p50", t.hours_p50);
	json_add_f64(b, "hours_p95", t.hours_p95);
	late_add(p, &t, b);
	json_add_money(b, "cost_p50", t.cost_p50_micros);
	json_add_money(b, "cost_p95", t.cost_p95_micros);
	score_fields_put(b, s, &t);
	sbuf_putc(b, '}');
}

void plan_offers_add(struct areq *q, const struct planned *p, struct sbuf *b,
    const struct score *chosen)
{
	const struct ranking *r = &p->all.ranking;

	json_add_name(b, "offers");
	sbuf_putc(b, '[');
	for (size_t i = 0; i < r->usable; i++) {
		const struct score *s = &r->scores[i];

		if (i < OFFERS_SHOWN || s == chosen) {
			sbuf_puts(b, i > 0 ? "," : "");
			offer_put(q, p, b, s, s == chosen);
		}
	}
	sbuf_putc(b, ']');
}

/* ---- refused offers -------------------------------------------------------------------------- */

static size_t refused_put(struct areq *q, const struct planned *p, struct sbuf *b, bool unsuited,
    size_t shown)
{
	const struct ranking *r = &p->all.ranking;

	for (size_t i = 0; i < r->refused_n && shown < REFUSED_SHOWN; i++) {
		const struct refused *x = &r->refused[i];

		if ((x->why == REFUSED_ASK) == unsuited) {
			sbuf_puts(b, shown++ > 0 ? ",{" : "{");
			json_add_name(b, "pool");
			pool_put(b, x->offer, q->now_us);
			json_add_text(b, "why", refusal_words(q->arena, r, x));
			sbuf_putc(b, '}');
		}
	}
	return shown;
}

/* Those that suit and cannot be had now come first: they are what a person can do something
 * about. */
void plan_refused_add(struct areq *q, const struct planned *p, struct sbuf *b)
{
	json_add_name(b, "refused");
	sbuf_putc(b, '[');
	refused_put(q, p, b, true, refused_put(q, p, b, false, 0));
	sbuf_putc(b, ']');
}

/* ---- the distribution ------------------------------------------------------------------------ */

static void runs_put(const struct planned *p, struct sbuf *b, const struct montecarlo_out *m)
{
	json_add_money(b, "cost_mean", m->cost_mean_micros);
	json_add_money(b, "cost_p5", m->cost_p5_micros);
	json_add_money(b, "cost_p50", m->cost_p50_micros);
	json_add_money(b, "cost_p95", m->cost_p95_micros);
	json_add_f64(b, "hours_mean", m->hours_mean);
	json_add_f64(b, "hours_p5", m->hours_p5);
	json_add_f64(b, "hours_p50", m->hours_p50);
	json_add_f64(b, "hours_p95", m->hours_p95);
	json_add_f64(b, "interruptions", m->interruptions);
	json_add_f64(b, "lost_work_hours", m->lost_h);
	json_add_f64(b, "moves", m->moves);
	json_add_f64(b, "on_demand_hours", m->on_demand_h);
	if (p->spec->deadline_us != 0) {
		json_add_f64(b, "deadline_odds", m->deadline_odds);
		json_add_f64(b, "deadline_risk", 1.0 - m->deadline_odds);
	} else {
		json_add_null(b, "deadline_odds");
		json_add_null(b, "deadline_risk");
	}
	json_add_i64(b, "runs", (int64_t)m->runs);
	json_add_i64(b, "seed", (int64_t)m->seed);
}

void plan_spread_add(struct areq *q, const struct planned *p, struct sbuf *b, const char *name,
    const struct score *s)
{
	struct montecarlo_out m;

	if (s == NULL) {
		json_add_null(b, name);
		return;
	}
	answer_play(q, p,
	    &(struct montecarlo_in){ .ranking = &p->all.ranking,
		.chosen = (size_t)(s - p->all.ranking.scores),
		.hazards = p->hazards,
		.now_us = p->begin_us,
		.deadline_us = p->spec->deadline_us,
		.seed = (uint64_t)p->seed,
		.nodes = p->spec->num_nodes },
	    &m);
	json_add_name(b, name);
	sbuf_putc(b, '{');
	json_add_id(b, "pool", 'p', s->offer->pool_id);
	json_add_text(b, "market", spot_market_name(s->offer->market));
	json_add_money(b, "expected", m.cost_mean_micros);
	json_add_money(b, "stays", plan_whole(p, s).total_micros);
	runs_put(p, b, &m);
	sbuf_putc(b, '}');
}
