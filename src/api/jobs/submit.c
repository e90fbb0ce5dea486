/*
 * POST /v1/jobs: the file is parsed, planned and checked, and its row joins a group (group.c). The
 * reply is made from the row before it is inserted; only the ids of job and fleet are missing then.
 * The statement stores the same text under the Idempotency-Key.
 */
#include "base/base.h"
#include "api/jobs/jobs.h"
#include "api/jobs/jobs_priv.h"

struct submit {
	struct job_submit job;
	const char *head, *tail; /* of the reply: before and after its fleet */
};

static void submit_made(struct submit *m, const struct q_api_jobs_submit_row *row)
{
	struct areq *q = m->job.q;
	const char *text;

	q->id = row->id;
	q->idem_key = NULL; /* the statement stored the reply under it */
	httpd_set(q->http, "Location", arena_printf(q->arena, "/v1/jobs/j%" PRId64, row->id));
	text = row->has_fleet_id
	    ? arena_printf(q->arena, "{\"id\":\"j%" PRId64 "\"%s\"f%" PRId64 "\"%s", row->id,
		  m->head, row->fleet_id, m->tail)
	    : arena_printf(q->arena, "{\"id\":\"j%" PRId64 "\"%snull%s", row->id, m->head, m->tail);
	areq_reply(q, 201, "application/json", text, strlen(text));
}

static void submit_done(struct job_submit *s, const struct q_api_jobs_submit_row *row,
    const struct spot_err *err)
{
	struct areq *q = s->q;

	if (err != NULL) {
		areq_error(q, err);
	} else if (strcmp(row->outcome, "made") == 0) {
		submit_made(container_of(s, struct submit, job), row);
	} else if (strcmp(row->outcome, "token") == 0) {
		q->idem_key = NULL;
		auth_refuse_ended(q);
	} else if (strcmp(row->outcome, "fleet") == 0) {
		areq_fail_field(q, "config.spotctl.fleet",
		    strcmp(s->row.fleet, "any") == 0
			? "team '%s' has no active fleet; create one first"
			: "no active fleet '%s'; create it first",
		    strcmp(s->row.fleet, "any") == 0 ? s->row.team : s->row.fleet);
	} else {
		idem_answer(q, row->outcome, row->status, row->response);
	}
}

/* A deadline that cannot be met is said now, not on Friday. */
static size_t warnings_read(struct areq *q, struct planned *p, const char ***ret)
{
	const char *note = plan_note(q, p), **all;
	size_t n = 0;

	all = arena_array(q->arena, p->warnings_n + 1, sizeof(*all));
	for (; n < p->warnings_n; n++) {
		all[n] = p->warnings[n];
	}
	if (*note != '\0') {
		all[n++] = note;
	}
	*ret = all;
	return n;
}

static void row_fill(struct areq *q, struct planned *p, struct q_api_jobs_submit_job *row)
{
	struct job_spec *s = p->spec;
	AUTO(json)
	json_t *spec = jobspec_to_json(s), *secrets = jobspec_secrets(s),
	       *baseline = plan_baseline(p);

	*row = (struct q_api_jobs_submit_job){ .at_us = q->now_us,
		.name = s->name ? s->name : "job",
		.owner = q->who.name,
		.team = s->team,
		.project = s->project ? s->project : "",
		.class = s->class,
		.spec = json_text(q->arena, spec),
		.source = jobspec_source(q->arena, q->http->body, s),
		.secrets = json_text(q->arena, secrets),
		.priority = s->priority,
		.fleet = s->fleet ? s->fleet : "",
		.has_deadline_us = s->deadline_us != 0,
		.deadline_us = s->deadline_us,
		.baseline = json_text(q->arena, baseline),
		.has_not_before_us = s->start_after_us != 0,
		.not_before_us = s->start_after_us,
		.has_budget_micros = s->budget_micros > 0,
		.budget_micros = s->budget_micros,
		.token_id = q->who.token_id,
		.idem_key = q->idem_key ? q->idem_key : "",
		.route = q->idem_key ? q->idem_route : "",
		.body_sha256 = q->idem_key ? q->idem_sha256 : "",
		.head = "",
		.tail = "" };
}

static void job_submit(struct areq *q, struct planned *p)
{
	struct submit *m = arena_alloc(q->arena, sizeof(*m));
	struct q_api_jobs_submit_job *row = &m->job.row;
	const char *field, **warnings;
	struct spot_err err = { 0 };
	size_t warnings_n;

	if (plan_refused(q, p, &err, &field)) {
		areq_problem(q, err.rc == SPOT_DENIED ? spot_rc_http(err.rc) : 400, &err, field);
		return;
	}
	if (*p->spec->team == '\0') {
		p->spec->team = q->who.team;
	}
	row_fill(q, p, row);
	warnings_n = warnings_read(q, p, &warnings);
	submit_reply(q, p->spec, row, warnings, warnings_n, &m->head, &m->tail);
	if (q->idem_key && strlen(m->head) + strlen(m->tail) + 64 <= IDEM_STORED_MAX) {
		row->head = m->head;
		row->tail = m->tail;
	}
	m->job.q = q;
	m->job.done = submit_done;
	if (q->idem_key) {
		m->job.key = hash_str(hash_u64(HASH_START, (uint64_t)q->who.token_id), q->idem_key);
		m->job.key += m->job.key == 0;
	}
	group_add(&m->job);
}

void post_job(struct areq *q)
{
	plan_begin(q, job_submit);
}
