/* Jobs: list, why, cancel, change of the budget. */
#include "base/base.h"
#include "api/jobs/jobs.h"
#include "api/jobs/jobs_priv.h"

#include "core/spec/spec.h"
#include "core/life/life.h"

/* ---- list ------------------------------------------------------------------------------------ */

static void jobs_done(struct areq *q)
{
	areq_list_page(q, &q_shape_api_jobs, NULL);
}

void get_jobs(struct areq *q)
{
	const char *team = areq_query(q, "team"), *project = areq_query(q, "project"),
		   *class = areq_query(q, "class"), *owner = areq_query(q, "owner"),
		   *name = areq_query(q, "name");
	int32_t *limit = arena_alloc(q->arena, sizeof(*limit));
	enum job_state *states;
	int64_t before;
	size_t n;

	if (!areq_page(q, INT64_MAX, &before, limit) || !job_states(q, "state", &states, &n)) {
		return;
	}
	q->own = limit;
	if (!team && !project && !class && !owner && !name) {
		if (n == 0) {
			SQL(q, api_jobs, jobs_done, .before_id = before, .most = *limit + 1);
		} else {
			SQL(q, api_jobs_states, jobs_done, .states = states, .states_n = n,
			    .before_id = before, .most = *limit + 1);
		}
		return;
	}
	SQL(q, api_jobs_filtered, jobs_done, .states = states, .states_n = n, .team = team,
	    .project = project, .class = class, .owner = owner, .name = name, .before_id = before,
	    .most = *limit + 1);
}

/* ---- why ------------------------------------------------------------------------------------- */

/* The effect of the class on the job, by the current settings. */
static const char *class_why(struct areq *q, const struct q_api_job_why_row *row)
{
	const struct class_policy *c = class_get(&q->api->conf.classes, row->class);
	AUTO(json) json_t *doc = NULL;
	struct spot_err err = { 0 };
	struct job_spec *spec;

	if (c == NULL || json_parse(str_from(row->spec), "job.spec", &doc, &err) != SPOT_OK ||
	    jobspec_from_json(q->arena, doc, &spec, &err) != SPOT_OK) {
		return "";
	}
	return class_words(q->arena, c, spec);
}

static void why_done(struct areq *q)
{
	struct q_api_job_why_row *row;
	json_t *doc;

	if (q_api_job_why_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
		return;
	}
	doc = view_parse(row->doc);
	json_object_set_new(doc, "class_why", json_string(class_why(q, row)));
	areq_json(q, 200, doc);
}

void get_job_why(struct areq *q)
{
	SQL(q, api_job_why, why_done, .id = q->id);
}

/* ---- cancel ---------------------------------------------------------------------------------- */

static bool team_allowed(struct areq *q, const char *team)
{
	struct spot_err err = { 0 };

	if (plan_team_refused(q, team, &err)) {
		areq_problem(q, spot_rc_http(err.rc), &err, NULL);
		return false;
	}
	return true;
}

static void job_cancelled(struct areq *q)
{
	struct q_api_job_cancel_row *row;

	if (q_api_job_cancel_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
	} else if (row->state == JOB_SUCCEEDED || row->state == JOB_FAILED) {
		areq_fail(q, SPOT_CONFLICT, "job 'j%" PRId64 "' is over: %s", q->id,
		    job_state_name(row->state));
	} else {
		show_job(q, 202);
	}
}

static void cancel_checked(struct areq *q)
{
	struct q_api_job_team_row *row;

	if (q_api_job_team_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
	} else if (team_allowed(q, row->team)) {
		SQL(q, api_job_cancel, job_cancelled, .id = q->id, .actor = q->who.name,
		    .at_us = q->now_us);
	}
}

void post_job_cancel(struct areq *q)
{
	SQL(q, api_job_team, cancel_checked, .id = q->id);
}

/* ---- change of the budget -------------------------------------------------------------------- */

static bool budget_refused(struct areq *q, enum spot_rc rc, const char *text)
{
	struct spot_err err = { 0 };

	err_set(&err, rc, "%s", text);
	areq_problem(q, rc == SPOT_CONFLICT ? 409 : 400, &err, "budget_usd");
	return false;
}

/* 0 = no limit. Digits are taken as they are written: what is a fraction in binary is none in
 * dollars. */
static bool budget_amount(struct areq *q, const json_t *v, int64_t *ret)
{
	const char *text = json_is_string(v) ? json_string_value(v)
	    : json_is_number(v)              ? arena_printf(q->arena, "%.6f", json_number_value(v))
					     : NULL;

	*ret = 0;
	if (json_is_null(v) || (text && parse_usd_micros(text, ret) && *ret > 0)) {
		return true;
	}
	return budget_refused(q, SPOT_INVALID,
	    "must be the job's total budget in US dollars above 0, such as 25 or \"25.00\"; null "
	    "removes the budget");
}

static void budget_set(struct areq *q)
{
	int64_t wanted_micros = *(int64_t *)q->own;
	struct q_api_job_budget_row *row;

	if (q_api_job_budget_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
	} else if (job_state_final(row->state)) {
		areq_fail(q, SPOT_CONFLICT,
		    "job 'j%" PRId64 "' is over: %s; its budget cannot change", q->id,
		    job_state_name(row->state));
	} else if (wanted_micros != 0 && !row->saves) {
		budget_refused(q, SPOT_INVALID,
		    "the job saves nothing, so it would lose its work when the budget is used up; "
		    "submit it with checkpoint.path, or cancel it");
	} else if (wanted_micros != 0 && wanted_micros < row->spent_micros) {
		budget_refused(q, SPOT_CONFLICT,
		    arena_printf(q->arena,
			"job 'j%" PRId64 "' has cost %.6f USD already; set at least that (the job "
			"is then saved and parked), or null to remove the budget",
			q->id, (double)row->spent_micros / 1e6));
	} else {
		show_job(q, 200);
	}
}

static void budget_checked(struct areq *q)
{
	int64_t micros = *(int64_t *)q->own;
	struct q_api_job_team_row *row;

	if (q_api_job_team_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
	} else if (team_allowed(q, row->team)) {
		SQL(q, api_job_budget, budget_set, .id = q->id, .has_budget_micros = micros != 0,
		    .budget_micros = micros, .actor = q->who.name, .at_us = q->now_us);
	}
}

void patch_job(struct areq *q)
{
	static const char *const known[] = { "budget_usd", NULL };
	int64_t *micros = arena_alloc(q->arena, sizeof(*micros));
	json_t *body;

	if (!areq_body(q, &body) || !areq_body_keys(q, body, known) ||
	    !budget_amount(q, json_object_get(body, "budget_usd"), micros)) {
		return;
	}
	q->own = micros;
	SQL(q, api_job_team, budget_checked, .id = q->id);
}
