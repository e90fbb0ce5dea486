/*
 * The agent's poll: it says what it has, the answer says what the node should be doing.
 * Level-triggered: the answer is made from rows alone, and held while it would say what the agent
 * has already.
 */
#include "base/base.h"
#include "api/agent/agent_priv.h"

#include "core/life/life.h"
#include "core/spec/spec.h"
#include "core/rank/rank.h"

#define HOLD_MAX_MS 60000
/* A save that was asked for longer ago is no use any more: the burst is over. */
#define SAVE_ASKED_US (120 * SPOT_US_PER_S)
#define RECORD_DAYS 30

/* The state that the agent reports. */
struct have {
	int64_t job; /* 0 = none */
	int64_t version;
	int32_t epoch;
	bool exited;
};

struct poll {
	struct have have;
	uint64_t since; /* areq_notes before its statement */
	struct q_agent_want_row want;
	const char *desired;
};

/* All that stays of a poll while nothing changes. */
struct poll_record {
	struct areq_parked parked;
	struct have have;
};
_Static_assert(sizeof(struct poll_record) <= 200, "100,000 agents wait at a time");

/* ---- run: everything the agent needs to start ------------------------------------------------ */

static json_t *envs_json(const struct job_spec *s)
{
	json_t *o = json_object();

	for (size_t i = 0; i < s->envs_n; i++) {
		json_object_set_new(o, s->envs[i].name, json_string(s->envs[i].value));
	}
	return o;
}

static struct offer pool_of(const struct q_api_agent_run_row *r)
{
	return (struct offer){ .pool_id = r->pool_id,
		.provider = r->provider,
		.region = r->region,
		.gpu_name = r->gpu_name,
		.gpu_milli = r->gpu_milli,
		.market = r->market,
		.advisor_lo = r->has_adv_lo ? r->adv_lo : -1,
		.advisor_hi = r->has_adv_hi ? r->adv_hi : -1,
		.advisor_as_of_us = r->adv_as_of_us,
		.placement_score = -1,
		.capacity = -1,
		.own_node_us = r->own_us,
		.own_reclaims = r->reclaims,
		.has_band = r->has_band_lo && r->has_band_hi,
		.band_lo = r->band_lo,
		.band_hi = r->band_hi,
		.has_share = r->has_share,
		.share = r->share,
		.share_lo = r->share_lo,
		.share_hi = r->share_hi,
		.has_hazard = r->has_hazard,
		.hazard = r->hazard,
		.hazard_source = "the decision for this machine",
		.launch = 1,
		.launch_source = "it is there" };
}

/* The interval: from the file, never, or computed by the score of this machine for the rest of the
 * work. The score uses the hazard of the decision that chose the machine, the time of a save, and
 * the slack before the deadline. All nodes of a gang use rank 0's decision. */
static int64_t interval_of(struct areq *q, const struct job_spec *s,
    const struct q_api_agent_run_row *r)
{
	struct rank_job job = { .spec = s,
		.save_us = r->save_us,
		.deadline_us = s->deadline_us,
		.restart_us = r->restart_us,
		.runs_there = true,
		.nodes = s->num_nodes };
	int64_t steps = r->steps_total - MIN(r->steps_start, r->steps_total), left = s->work_s;
	const struct rank_policy *policy = &q->api->conf.place.rank;
	struct offer o = pool_of(r);
	const struct score *here;
	struct score_terms t;
	const char *source;

	if (s->checkpoint.interval_off || !s->checkpoint.path || api_storeless(q->api)) {
		return 0;
	}
	if (s->checkpoint.interval_s > 0) {
		return s->checkpoint.interval_s;
	}
	if (left > 0 && r->steps_total > 0 && r->steps_start > 0) {
		left = MAX((int64_t)((double)left * (double)steps / (double)r->steps_total), 1);
	}
	job.rates_n = gpu_rates_parse(q->arena, r->rates, &job.rates);
	job.work_left_s = rank_work_left_s(&job, steps, left);
	here = rank_one(q->arena, &o, &job, policy, q->now_us);
	if (!here) {
		return (int64_t)save_interval_s(1e9, 0, (double)policy->save_s, false, &source);
	}
	score_explain(here, &t);
	return (int64_t)t.interval_s;
}

/* A job that is over time is told so, saves and leaves. An agent that hears nothing does the same
 * by itself this much later. */
#define OVER_TIME_S 120

static json_t *run_json(struct areq *q, const struct job_spec *s,
    const struct q_api_agent_run_row *r)
{
	const struct checkpoint_spec *c = &s->checkpoint;
	bool stored = !api_storeless(q->api);
	json_t *run;

	run = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:f, s:I, s:o, s:{s:s, s:s, s:s, s:I, s:I, "
			"s:s, s:i}, s:I, s:o, s:I}",
	    "name", r->name, "workdir", "", "setup", s->setup ? s->setup : "", "run",
	    s->run ? s->run : "", "envs", envs_json(s), "secrets", view_parse(r->secrets),
	    "num_gpus", r->gpu_milli / 1000.0, "max_duration_s",
	    (json_int_t)(s->max_duration_s > 0 ? s->max_duration_s + OVER_TIME_S : 0), "files",
	    view_parse(r->files), "checkpoint", "path", c->path && stored ? c->path : "", "signal",
	    c->signal ? c->signal : "", "command", c->command ? c->command : "", "interval_s",
	    (json_int_t)interval_of(q, s, r), "budget_s",
	    (json_int_t)(c->budget_s > 0 ? c->budget_s : 60), "then", "TERM", "kill_after_s", 10,
	    "steps_start", (json_int_t)r->steps_start, "restored_from",
	    r->has_restore_id ? json_sprintf("c%" PRId64, r->restore_id) : json_null(),
	    "log_offset", (json_int_t)r->log_offset);
	/* Nobody would ever sign where it goes. The program still finds its directory. */
	if (c->path && !stored) {
		json_object_set_new(json_object_get(run, "checkpoint"), "dir",
		    json_string(c->path));
	}
	return run;
}

/* The addresses of a gang's nodes. */
static json_t *nodes_json(const struct job_spec *s, const struct q_api_agent_run_row *r)
{
	json_t *ips = json_array();

	for (const char *p = r->ips, *end; *p || p == r->ips; p = *end ? end + 1 : end) {
		end = strchrnul(p, '\n');
		json_array_append_new(ips, json_stringn(p, (size_t)(end - p)));
		if (!*end) {
			break;
		}
	}
	return json_pack("{s:i, s:i, s:o}", "count", (int)s->num_nodes, "rank", (int)r->rank, "ips",
	    ips);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* left_us is right whatever the clock of the machine says. */
static json_t *want_json(const struct areq *q, const struct poll *p)
{
	const struct q_agent_want_row *w = &p->want;
	bool has = w->has_job_id && (w->live || strcmp(p->desired, "kill") == 0);
	int64_t deadline = w->has_attempt_deadline_us ? w->attempt_deadline_us
	    : w->has_drain_deadline_us                ? w->drain_deadline_us
						      : 0;
	json_t *doc;

	doc = json_pack("{s:s, s:o, s:i, s:I, s:I, s:s, s:I}", "desired", p->desired, "job",
	    has ? json_sprintf("j%" PRId64, w->job_id) : json_null(), "epoch", has ? w->epoch : 0,
	    "version", (json_int_t)(has ? w->version : 0), "deadline_us", (json_int_t)deadline,
	    "why", w->drain_why && *w->drain_why ? w->drain_why : w->why, "orphan_timeout_s",
	    (json_int_t)((q->api->conf.orphan_timeout_us + SPOT_US_PER_S - 1) / SPOT_US_PER_S));
	if (has && w->has_save_asked_us && strcmp(p->desired, "run") == 0 &&
	    q->now_us - w->save_asked_us < SAVE_ASKED_US) {
		json_object_set_new(doc, "save", json_integer((json_int_t)w->save_asked_us));
	}
	if (deadline > 0) {
		(void)json_object_set_new(doc, "left_us",
		    json_integer(
			(json_int_t)MAX(deadline - loop_wall_us(q->api->loop), INT64_C(0))));
	}
	return doc;
}

static void run_read(struct areq *q)
{
	struct poll *p = q->own;
	struct q_api_agent_run_row *row;
	struct job_spec *spec = NULL;
	struct spot_err err = { 0 };
	json_t *doc, *stored, *run;

	if (q_api_agent_run_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_CONFLICT, "the attempt no longer exists; poll again");
		return;
	}
	stored = view_parse(row->spec);
	if (jobspec_from_json(q->arena, stored, &spec, &err) != SPOT_OK) {
		json_decref(stored);
		areq_error(q, &err);
		return;
	}
	json_decref(stored);
	doc = want_json(q, p);
	run = run_json(q, spec, row);
	if (spec->num_nodes > 1) {
		json_object_set_new(run, "nodes", nodes_json(spec, row));
	}
	json_object_set_new(doc, "run", run);
	areq_json(q, 200, doc);
}

static const char *desired_of(const struct poll *p)
{
	const struct q_agent_want_row *w = &p->want;

	switch (w->state) {
	case NODE_TERMINATING:
	case NODE_GONE:
	case NODE_FAILED:
	case NODE_NONE:
		return "shutdown";
	case NODE_WANTED:
	case NODE_LAUNCHING:
	case NODE_UNKNOWN:
	case NODE_BOOTING:
	case NODE_READY:
	case NODE_DRAINING:
	case NODE_STATE_COUNT:
		break;
	}
	if (w->live) {
		return w->desired;
	}
	/* It still runs something whose attempt is over. */
	return p->have.job && !p->have.exited ? "kill" : "idle";
}

/* Nothing to say that the agent does not know. */
static bool want_same(const struct poll *p)
{
	const struct q_agent_want_row *w = &p->want;
	const struct have *h = &p->have;

	if (strcmp(p->desired, "idle") == 0) {
		return h->job == 0;
	}
	if (strcmp(p->desired, "shutdown") == 0 || !w->live) {
		return false;
	}
	/* It has told the end, and that was written down: by a database that is not ours any
	 * more. */
	if (h->exited && h->job == w->job_id && h->epoch == w->epoch) {
		return false;
	}
	return h->job == w->job_id && h->epoch == w->epoch && h->version == w->version;
}

static void want_look(struct areq *q);

/* The poll goes on: it looks again, and may park again for the rest of its time. */
static void record_again(struct areq *q, struct areq_parked *parked)
{
	struct poll_record *r = container_of(parked, struct poll_record, parked);
	struct poll *p = arena_alloc(q->arena, sizeof(*p));
	int64_t left = MAX(parked->until_us - loop_mono_us(q->api->loop), INT64_C(0));

	p->have = r->have;
	q->own = p;
	areq_node(q, parked->waiter.id);
	free(r);
	areq_watch(q, 'n', q->who.node_id, left, left, want_look);
	want_look(q);
}

static bool poll_park(struct areq *q, const struct poll *p)
{
	struct poll_record *r = malloc(sizeof(*r));

	if (r == NULL) {
		abort();
	}
	*r = (struct poll_record){ .parked.again = record_again, .have = p->have };
	if (areq_park_record(q, &r->parked)) {
		return true;
	}
	free(r);
	return false;
}

static void want_answer(struct areq *q, struct poll *p)
{
	const struct q_agent_want_row *w = &p->want;

	p->desired = desired_of(p);
	if (want_same(p) && poll_park(q, p)) {
		return;
	}
	if (strcmp(p->desired, "run") == 0 &&
	    (p->have.job != w->job_id || p->have.epoch != w->epoch)) {
		SQL(q, api_agent_run, run_read, .job_id = w->job_id, .epoch = w->epoch,
		    .since_day = day_of(q->now_us) - RECORD_DAYS, .node_id = q->who.node_id);
	} else {
		areq_json(q, 200, want_json(q, p));
	}
}

static void want_read(struct areq *q)
{
	struct poll *p = q->own;
	struct q_agent_want_row *row;

	if (q_api_agent_want_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_GONE, "the node no longer exists");
		return;
	}
	p->want = *row;
	want_answer(q, p);
}

static void want_look(struct areq *q)
{
	SQL(q, api_agent_want, want_read, .node_id = q->who.node_id);
}

static bool have_read(struct areq *q, const json_t *body, struct have *ret)
{
	const json_t *have = json_object_get(body, "have");
	struct spot_err err = { 0 };
	const char *job, *phase;

	if (!json_is_object(have)) {
		areq_fail_field(q, "have", "must be an object {job, epoch, phase, version}");
		return false;
	}
	job = json_str(have, "job", NULL, &err);
	ret->epoch = (int32_t)json_i64(have, "epoch", 0, &err);
	ret->version = json_i64(have, "version", 0, &err);
	phase = json_str(have, "phase", "", &err);
	if (err.rc != SPOT_OK) {
		areq_problem(q, 400, &err, "have");
		return false;
	}
	if (job && !parse_id(job, 'j', &ret->job)) {
		areq_fail_field(q, "have.job", "must be null or a job id such as 'j12'");
		return false;
	}
	ret->exited = attempt_phase_parse(phase) == ATTEMPT_EXITED;
	return true;
}

/* One statement has found the session and what the node should do. The request is read only now,
 * since a caller without a session learns nothing but that. */
static void poll_read(struct areq *q)
{
	struct poll *p = q->own;
	struct q_agent_want_row *row, none = { 0 };
	struct spot_err err = { 0 };
	int64_t hold, steps;
	json_t *body;

	if (q_api_agent_poll_rows(&q->pg, q->arena, &row) == 0) {
		row = &none;
	}
	if (!areq_session_found(q, row->id, row->hash) || !agent_body(q, &body) ||
	    !have_read(q, body, &p->have)) {
		return;
	}
	hold = json_i64(body, "hold_ms", 0, &err);
	steps = json_i64(body, "steps_done", -1, &err);
	if (err.rc != SPOT_OK || hold < 0 || hold > HOLD_MAX_MS) {
		areq_fail_field(q, "hold_ms",
		    "steps_done and hold_ms must be whole numbers, hold_ms at most %d",
		    HOLD_MAX_MS);
		return;
	}
	seen_add(q->api, q->who.node_id, p->have.job, p->have.epoch, p->have.job ? steps : -1);
	if (hold > 0) {
		areq_watch_since(q, p->since, 'n', q->who.node_id, hold * 1000, hold * 1000,
		    want_look);
	}
	p->want = *row;
	want_answer(q, p);
}

void post_poll(struct areq *q)
{
	struct poll *p = arena_alloc(q->arena, sizeof(*p));

	p->since = areq_notes(q);
	q->own = p;
	SQL(q, api_agent_poll, poll_read, .hash = areq_session(q));
}
