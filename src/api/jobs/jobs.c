/* Jobs: submit, list, show (with a hold), why, cancel, change of the budget. */
#include "base/base.h"
#include "api/jobs/plan.h"
#include "api/jobs/jobs_priv.h"

#include "core/spec/class_policy.h"
#include "core/life/fsm.h"

#define HOLD_MAX_S 300
#define AGAIN_US (5 * SPOT_US_PER_S)

struct job_show {
	int status;
	enum job_state *wanted; /* states the caller waits for */
	size_t wanted_n;
	const char **warnings; /* of a submission, else NULL */
	size_t warnings_n;
};

static void job_look(struct areq *q);

/* ---- submit ---------------------------------------------------------------------------------- */

/* A deadline that cannot be met is said now, not on Friday. */
static struct job_show *submit_shown(struct areq *q, struct planned *p)
{
	struct job_show *s = arena_alloc(q->arena, sizeof(*s));
	const char *note = plan_note(q, p);

	s->status = 201;
	s->warnings = arena_array(q->arena, p->warnings_n + 1, sizeof(*s->warnings));
	for (; s->warnings_n < p->warnings_n; s->warnings_n++) {
		s->warnings[s->warnings_n] = p->warnings[s->warnings_n];
	}
	if (*note != '\0') {
		s->warnings[s->warnings_n++] = note;
	}
	return s;
}

static void job_submitted(struct areq *q)
{
	struct q_api_job_submit_row *row;
	struct planned *p = q->own;

	if (q_api_job_submit_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail_field(q, "config.spotctl.fleet", "no active fleet '%s'; create it first",
		    p->spec->fleet);
		return;
	}
	if (idem_overtaken(q, row->id)) {
		return;
	}
	q->id = row->id;
	httpd_set(q->http, "Location", arena_printf(q->arena, "/v1/jobs/j%" PRId64, row->id));
	q->own = submit_shown(q, p);
	job_look(q);
}

static bool team_allowed(struct areq *q, const char *team)
{
	struct spot_err err = { 0 };

	if (plan_team_refused(q, team, &err)) {
		areq_problem(q, spot_rc_http(err.rc), &err, NULL);
		return false;
	}
	return true;
}

static void job_submit(struct areq *q, struct planned *p)
{
	struct job_spec *s = p->spec;
	json_t *spec, *secrets, *baseline;
	const char *team = *s->team ? s->team : q->who.team, *field;
	struct spot_err err = { 0 };

	if (plan_refused(q, p, &err, &field)) {
		areq_problem(q, err.rc == SPOT_DENIED ? spot_rc_http(err.rc) : 400, &err, field);
		return;
	}
	s->team = team;
	spec = jobspec_to_json(s);
	secrets = jobspec_secrets(s);
	baseline = plan_baseline(p);
	SQL(q, api_job_submit, job_submitted, .name = s->name ? s->name : "job",
	    .owner = q->who.name, .team = team, .project = s->project ? s->project : "",
	    .class = s->class, .spec = json_text(q->arena, spec),
	    .source = jobspec_source(q->arena, q->http->body, s),
	    .secrets = json_text(q->arena, secrets), .priority = s->priority,
	    .fleet = s->fleet ? s->fleet : "", .has_deadline_us = s->deadline_us != 0,
	    .deadline_us = s->deadline_us, .baseline = json_text(q->arena, baseline),
	    .at_us = q->now_us, .token_id = q->who.token_id,
	    .idem_key = q->idem_key ? q->idem_key : "", .has_not_before_us = s->start_after_us != 0,
	    .not_before_us = s->start_after_us, .has_budget_micros = s->budget_micros > 0,
	    .budget_micros = s->budget_micros);
	json_decref(spec);
	json_decref(secrets);
	json_decref(baseline);
}

void post_job(struct areq *q)
{
	plan_begin(q, false, job_submit);
}

/* ---- list ------------------------------------------------------------------------------------ */

static void jobs_done(struct areq *q)
{
	areq_list_page(q, &q_shape_api_jobs, NULL);
}

static bool job_states_read(struct areq *q, const char *name, enum job_state **ret, size_t *ret_n)
{
	const char **names;

	if (!areq_query_list(q, name, &names, ret_n)) {
		return false;
	}
	*ret = arena_array(q->arena, *ret_n, sizeof(**ret));
	for (size_t i = 0; i < *ret_n; i++) {
		(*ret)[i] = job_state_parse(names[i]);
		if ((*ret)[i] == JOB_NONE) {
			areq_fail_field(q, name,
			    "no job state '%s'; valid are active, terminal, QUEUED, STARTING, "
			    "RUNNING, DRAINING, PARKED, CANCELLING, SUCCEEDED, FAILED, CANCELLED",
			    names[i]);
			return false;
		}
	}
	return true;
}

/* "active" or "terminal" stand for their states. */
static bool job_states(struct areq *q, const char *name, enum job_state **ret, size_t *ret_n)
{
	const char *v = areq_query(q, name);
	bool active = v && strcmp(v, "active") == 0, terminal = v && strcmp(v, "terminal") == 0;

	if (!active && !terminal) {
		return job_states_read(q, name, ret, ret_n);
	}
	*ret = arena_array(q->arena, JOB_STATE_COUNT, sizeof(**ret));
	*ret_n = 0;
	for (int s = JOB_NONE + 1; s < JOB_STATE_COUNT; s++) {
		if (job_state_final((enum job_state)s) == terminal) {
			(*ret)[(*ret_n)++] = (enum job_state)s;
		}
	}
	return true;
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
	if (n == 0 && !team && !project && !class && !owner && !name) {
		SQL(q, api_jobs, jobs_done, .before_id = before, .most = *limit + 1);
		return;
	}
	SQL(q, api_jobs_filtered, jobs_done, .states = states, .states_n = n, .team = team,
	    .project = project, .class = class, .owner = owner, .name = name, .before_id = before,
	    .most = *limit + 1);
}

/* ---- one ------------------------------------------------------------------------------------- */

static bool state_wanted(const struct job_show *s, enum job_state state)
{
	for (size_t i = 0; i < s->wanted_n; i++) {
		if (s->wanted[i] == state) {
			return true;
		}
	}
	return s->wanted_n == 0;
}

/* Of a job that says where it saves, while there is no store; one that is over with a checkpoint
 * had one. */
static json_t *not_stored(const struct areq *q, const struct q_api_job_row *row, const json_t *doc)
{
	AUTO(json) json_t *spec = view_parse(row->spec);
	bool saves = !str_empty(json_str(json_object_get(spec, "checkpoint"), "path", NULL, NULL));
	bool has = json_is_object(json_object_get(doc, "checkpoint")) &&
	    json_is_string(json_object_get(doc, "ended_at"));

	return saves && !has && api_storeless(q->api)
	    ? json_string("no checkpoint is stored, so the job starts over after every move: "
			  "[checkpoint] store is empty in the daemon's configuration")
	    : json_null();
}

static void job_shown(struct areq *q)
{
	struct job_show *s = q->own;
	struct q_api_job_row *row;
	char at[TIME_TEXT_MAX];
	json_t *doc;

	if (q_api_job_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
		return;
	}
	if (!state_wanted(s, row->state) && areq_park(q)) {
		return;
	}
	doc = view_parse(row->doc);
	json_object_set_new(doc, "lost_steps", json_integer(row->lost_steps));
	json_object_set_new(doc, "attempts_list", view_parse(row->attempts));
	json_object_set_new(doc, "checkpoints", view_parse(row->checkpoints));
	json_object_set_new(doc, "not_stored", not_stored(q, row, doc));
	json_object_set_new(doc, "source", json_string(row->source));
	json_object_set_new(doc, "not_before_at",
	    row->has_not_before_us ? json_string(format_time_s(row->not_before_us, at))
				   : json_null());
	json_object_set_new(doc, "queue", row->queue ? view_parse(row->queue) : json_null());
	json_object_set_new(doc, "budget", row->budget ? view_parse(row->budget) : json_null());
	if (s->warnings != NULL) {
		json_object_set_new(doc, "warnings", json_array());
	}
	for (size_t i = 0; i < s->warnings_n; i++) {
		json_array_append_new(json_object_get(doc, "warnings"),
		    json_string(s->warnings[i]));
	}
	q->now_us = loop_wall_us(q->api->loop);
	areq_json(q, s->status, doc);
}

static void job_look(struct areq *q)
{
	SQL(q, api_job, job_shown, .id = q->id, .at_us = loop_wall_us(q->api->loop));
}

void show_job(struct areq *q, int status)
{
	struct job_show *s = arena_alloc(q->arena, sizeof(*s));

	s->status = status;
	q->own = s;
	job_look(q);
}

void get_job(struct areq *q)
{
	struct job_show *s = arena_alloc(q->arena, sizeof(*s));
	int64_t hold;

	s->status = 200;
	q->own = s;
	if (!areq_query_i64(q, "timeout_s", 0, HOLD_MAX_S, 25, &hold) ||
	    !job_states(q, "wait_state", &s->wanted, &s->wanted_n)) {
		return;
	}
	if (s->wanted_n > 0) {
		areq_watch(q, 'j', q->id, hold * SPOT_US_PER_S, AGAIN_US, job_look);
	}
	job_look(q);
}

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
	struct q_api_job_row *row;

	if (q_api_job_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
	} else if (team_allowed(q, row->team)) {
		SQL(q, api_job_cancel, job_cancelled, .id = q->id, .actor = q->who.name,
		    .at_us = q->now_us);
	}
}

void post_job_cancel(struct areq *q)
{
	SQL(q, api_job, cancel_checked, .id = q->id, .at_us = q->now_us);
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
	struct q_api_job_row *row;

	if (q_api_job_rows(&q->pg, q->arena, &row) == 0) {
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
	SQL(q, api_job, budget_checked, .id = q->id, .at_us = q->now_us);
}
