/* All terms of a score as one JSON object. A plan shows exactly the terms that a decision
 * stores. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/rank/ranking.h"

enum kind { REAL, MICROS, TEXT };
#define TERM(m, k) \
	{ \
		#m, k, offsetof(struct score_terms, m) \
	}

static const struct {
	const char *name;
	enum kind kind;
	size_t at;
} terms[] = {
	TERM(work_ref_h, REAL),
	TERM(throughput, REAL),
	TERM(throughput_table, REAL),
	TERM(throughput_source, TEXT),
	TERM(measured_h, REAL),
	TERM(work_h, REAL),
	TERM(save_s, REAL),
	TERM(interval_s, REAL),
	TERM(interval_source, TEXT),
	TERM(slack_h, REAL),
	TERM(notice_s, REAL),
	TERM(overhead, REAL),
	TERM(overhead_h, REAL),
	TERM(hazard_raised, REAL),
	TERM(notice_saves, REAL),
	TERM(lost_per_h, REAL),
	TERM(restart_per_h, REAL),
	TERM(restart_source, TEXT),
	TERM(interruptions, REAL),
	TERM(starts, REAL),
	TERM(start_h, REAL),
	TERM(lost_h, REAL),
	TERM(restart_h, REAL),
	TERM(paid_hours, REAL),
	TERM(odds, REAL),
	TERM(odds_lo, REAL),
	TERM(odds_hi, REAL),
	TERM(odds_source, TEXT),
	TERM(wait_per_h, REAL),
	TERM(wait_h, REAL),
	TERM(hours, REAL),
	TERM(ends_h, REAL),
	TERM(price_now_micros, MICROS),
	TERM(price_mean_micros, MICROS),
	TERM(price_cover, REAL),
	TERM(price_stay, REAL),
	TERM(price_move_micros, MICROS),
	TERM(penalty_micros, MICROS),
	TERM(price_micros, MICROS),
	TERM(price_sd_micros, REAL),
	TERM(restore_per_micros, MICROS),
	TERM(upload_per_micros, MICROS),
	TERM(data_per_micros, MICROS),
	TERM(restores, REAL),
	TERM(saves, REAL),
	TERM(data_reads, REAL),
	TERM(restore_micros, MICROS),
	TERM(upload_micros, MICROS),
	TERM(data_micros, MICROS),
	TERM(compute_micros, MICROS),
	TERM(egress_micros, MICROS),
	TERM(total_micros, MICROS),
	TERM(hazard_sd, REAL),
	TERM(paid_sd_h, REAL),
	TERM(paid_p50_h, REAL),
	TERM(paid_p95_h, REAL),
	TERM(hours_sd_h, REAL),
	TERM(hours_p50, REAL),
	TERM(hours_p95, REAL),
	TERM(cost_p50_micros, MICROS),
	TERM(cost_p95_micros, MICROS),
};

json_t *score_terms_json(const struct score_terms *t)
{
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_LEN(terms); i++) {
		const void *at = (const char *)t + terms[i].at;
		const char *text;
		json_t *v = NULL;

		switch (terms[i].kind) {
		case REAL:
			v = json_real(*(const double *)at);
			break;
		case MICROS:
			v = json_integer((json_int_t) * (const int64_t *)at);
			break;
		case TEXT:
			text = *(const char *const *)at;
			v = json_string(text != NULL ? text : "");
			break;
		}
		json_object_set_new(o, terms[i].name, v);
	}
	return o;
}

void score_terms_put(struct sbuf *b, const struct score_terms *t)
{
	const char *text;

	sbuf_putc(b, '{');
	for (size_t i = 0; i < ARRAY_LEN(terms); i++) {
		const void *at = (const char *)t + terms[i].at;

		switch (terms[i].kind) {
		case REAL:
			json_add_f64(b, terms[i].name, *(const double *)at);
			break;
		case MICROS:
			json_add_i64(b, terms[i].name, *(const int64_t *)at);
			break;
		case TEXT:
			text = *(const char *const *)at;
			json_add_text(b, terms[i].name, text != NULL ? text : "");
			break;
		}
	}
	sbuf_putc(b, '}');
}

json_t *rank_policy_json(const struct rank_policy *p)
{
	return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "prior_hours",
	    p->prior_hours, "unknown_spot_per_hour", p->unknown_spot_per_hour, "on_demand_per_hour",
	    p->on_demand_per_hour, "notice_saves", p->notice_saves, "restart_s",
	    (json_int_t)p->restart_s, "save_s", (json_int_t)p->save_s, "default_work_s",
	    (json_int_t)p->default_work_s, "refused_s", (json_int_t)p->refused_s,
	    "price_reversion_s", (json_int_t)p->price_reversion_s, "price_stale_penalty_pm",
	    (json_int_t)p->price_stale_penalty_pm, "price_frozen_penalty_pm",
	    (json_int_t)p->price_frozen_penalty_pm);
}
