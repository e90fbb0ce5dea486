/* Reports of agents: eviction notices, phases, log bytes, samples. */
#include "base/base.h"
#include "api/agent/agent_priv.h"

#include "spot/agent.h"

#define LEFT_MAX_US (24 * SPOT_US_PER_HOUR)

bool agent_body(struct areq *q, json_t **ret)
{
	return areq_body(q, ret);
}

bool agent_claim_read(struct areq *q, const json_t *body, struct agent_claim *ret)
{
	struct spot_err err = { 0 };
	const char *job = json_need_str(body, "job", &err);
	int64_t epoch = json_need_i64(body, "epoch", &err);

	if (err.rc != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return false;
	}
	if (!parse_id(job, 'j', &ret->job)) {
		areq_fail_field(q, "job", "must be a job id such as 'j12'");
		return false;
	}
	if (epoch < 1 || epoch > INT32_MAX) {
		areq_fail_field(q, "epoch", "must be a positive number");
		return false;
	}
	ret->epoch = (int32_t)epoch;
	return true;
}

void agent_stale(struct areq *q, int64_t job, int32_t epoch)
{
	areq_fail(q, SPOT_STALE_EPOCH,
	    "attempt %d of job 'j%" PRId64 "' no longer belongs to this node; stop it", epoch, job);
}

/* Reads the time of a moment that the agent reports as a duration up to now. */
static bool mark_read(const struct areq *q, const json_t *body, const char *name, int64_t *ret,
    struct spot_err *err)
{
	int64_t ago = json_i64(body, name, -1, err);

	*ret = q->now_us - MIN(ago, LEFT_MAX_US);
	return ago >= 0;
}

static void notice_written(struct areq *q)
{
	areq_done(q);
}

/* ---- notices --------------------------------------------------------------------------------- */

void post_notice(struct areq *q)
{
	struct spot_err err = { 0 };
	const char *kind, *source, *raw;
	int64_t deadline, left, heard;
	json_t *body;

	if (!agent_body(q, &body)) {
		return;
	}
	kind = json_need_str(body, "kind", &err);
	deadline = json_i64(body, "deadline_us", 0, &err);
	left = json_i64(body, "left_us", -1, &err);
	source = json_str(body, "source", "agent", &err);
	raw = json_str(body, "raw", "", &err);
	heard = mark_read(q, body, "heard_ago_us", &heard, &err) ? heard : q->now_us;
	if (err.rc != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	if (spot_notice_parse(kind) == SPOT_NOTICE_NONE) {
		areq_fail_field(q, "kind",
		    "must be 'interruption', 'rebalance', 'maintenance' or 'expiry'");
		return;
	}
	if (deadline < 0 || strlen(source) > 100 || strlen(raw) > 4096) {
		areq_fail_field(q, "deadline_us",
		    "must not be negative; source has at most 100 bytes, raw at most 4096");
		return;
	}
	/* A span that the machine knows counts from now by our clock: what its own makes of it may
	 * be long over. */
	if (left >= 0) {
		deadline = q->now_us + MIN(left, LEFT_MAX_US);
	}
	SQL(q, api_agent_notice, notice_written, .node_id = q->who.node_id, .kind = kind,
	    .deadline_us = deadline, .source = source, .raw = raw, .at_us = q->now_us,
	    .heard_us = heard);
}

/* ---- phases ---------------------------------------------------------------------------------- */

struct report {
	struct agent_claim claim;
};

static void report_done(struct areq *q)
{
	struct report *r = q->own;
	struct q_api_agent_report_row *row;

	if (q_api_agent_report_rows(&q->pg, q->arena, &row) == 1 && (row->fresh || row->same)) {
		areq_done(q);
	} else {
		agent_stale(q, r->claim.job, r->claim.epoch);
	}
}

static bool one_of(const char *v, const char *const *list)
{
	for (; *list; list++) {
		if (strcmp(v, *list) == 0) {
			return true;
		}
	}
	return false;
}

void post_report(struct areq *q)
{
	static const char *const reasons[] = { "ok", "error", "setup_failed", "drained", "killed",
		NULL };
	struct report *r = arena_alloc(q->arena, sizeof(*r));
	struct q_api_agent_report p = { 0 };
	struct spot_err err = { 0 };
	json_t *body;
	bool exited;

	if (!agent_body(q, &body) || !agent_claim_read(q, body, &r->claim)) {
		return;
	}
	p.phase = attempt_phase_parse(json_need_str(body, "phase", &err));
	p.steps_done = json_i64(body, "steps_done", -1, &err);
	p.steps_total = json_i64(body, "steps_total", 0, &err);
	p.has_exit_code = json_is_integer(json_object_get(body, "exit_code"));
	p.exit_code = (int32_t)json_i64(body, "exit_code", 0, &err);
	p.has_exit_signal = json_is_integer(json_object_get(body, "exit_signal"));
	p.exit_signal = (int32_t)json_i64(body, "exit_signal", 0, &err);
	p.reason = json_str(body, "reason", "", &err);
	p.why = json_str(body, "why", "", &err);
	p.signalled_us = json_i64(body, "signalled_us", 0, &err);
	p.has_signalled_us = p.signalled_us > 0;
	p.has_left_signal_us = mark_read(q, body, "left_signal_ago_us", &p.left_signal_us, &err);
	p.has_left_saved_us = mark_read(q, body, "left_saved_ago_us", &p.left_saved_us, &err);
	p.has_first_step_us = mark_read(q, body, "first_step_ago_us", &p.first_step_us, &err);
	if (err.rc != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	exited = p.phase == ATTEMPT_EXITED;
	if (p.phase == ATTEMPT_PHASE_NONE || p.phase == ATTEMPT_ASSIGNED) {
		areq_fail_field(q, "phase", "must be 'SETUP', 'RUNNING', 'SAVING' or 'EXITED'");
		return;
	}
	if (exited ? !one_of(p.reason, reasons) : *p.reason != '\0') {
		areq_fail_field(q, "reason",
		    "phase 'EXITED' needs 'ok', 'error', 'setup_failed', 'drained' or 'killed'; "
		    "other phases take none");
		return;
	}
	if (strlen(p.why) > 2000 || p.steps_done < -1 || p.steps_total < 0) {
		areq_fail_field(q, "why",
		    "must have at most 2000 bytes, and steps must not be negative");
		return;
	}
	q->own = r;
	p.node_id = q->who.node_id;
	p.job_id = r->claim.job;
	p.epoch = r->claim.epoch;
	p.at_us = q->now_us;
	areq_sql_begin(q, report_done);
	q_api_agent_report(areq_pg(q), &q->pg, &p, areq_sql_done);
}

/* ---- logs ------------------------------------------------------------------------------------ */

/* Of the log of one attempt so much is kept; the agent is never stopped by its log. */
#define LOG_KEPT_MAX (INT64_C(256) << 20)

static void log_appended(struct areq *q)
{
	struct q_api_log_append_row *row;
	struct agent_claim *c = q->own;

	if (q_api_log_append_rows(&q->pg, q->arena, &row) == 0) {
		agent_stale(q, c->job, c->epoch);
	} else {
		areq_json(q, 200, json_pack("{s:I}", "next_offset", (json_int_t)row->next_offset));
	}
}

void post_log(struct areq *q)
{
	struct agent_claim *c = arena_alloc(q->arena, sizeof(*c));
	int64_t epoch, offset;
	bool has_job;

	if (!areq_query_id(q, "job", 'j', &has_job, &c->job) ||
	    !areq_query_i64(q, "epoch", 1, INT32_MAX, 0, &epoch) ||
	    !areq_query_i64(q, "offset", 0, INT64_MAX / 2, -1, &offset)) {
		return;
	}
	if (!has_job || epoch == 0 || offset < 0) {
		areq_fail(q, SPOT_INVALID,
		    "query parameters 'job', 'epoch' and 'offset' are required");
		return;
	}
	c->epoch = (int32_t)epoch;
	q->own = c;
	SQL(q, api_log_append, log_appended, .node_id = q->who.node_id, .job_id = c->job,
	    .epoch = c->epoch, .at_offset = offset, .bytes = q->http->body, .at_us = q->now_us,
	    .bytes_max = LOG_KEPT_MAX);
}

/* ---- samples --------------------------------------------------------------------------------- */

static bool number_read(const json_t *body, const char *key, double *ret, bool *ret_has,
    struct spot_err *err)
{
	*ret_has = json_is_number(json_object_get(body, key));
	*ret = json_f64(body, key, 0, err);
	return *ret >= 0;
}

void post_sample(struct areq *q)
{
	struct q_api_agent_sample p = { .node_id = q->who.node_id };
	struct spot_err err = { 0 };
	json_t *body;
	bool ok;

	if (!agent_body(q, &body)) {
		return;
	}
	p.at_us = json_i64(body, "at_us", q->now_us, &err);
	p.gpus = (int32_t)json_i64(body, "gpus", 0, &err);
	ok = number_read(body, "gpu_util", &p.gpu_util, &p.has_gpu_util, &err) &&
	    number_read(body, "cpu_util", &p.cpu_util, &p.has_cpu_util, &err);
	p.gpu_mem_used_mib = json_i64(body, "gpu_mem_used_mib", -1, &err);
	p.has_gpu_mem_used_mib = p.gpu_mem_used_mib >= 0;
	p.gpu_mem_total_mib = json_i64(body, "gpu_mem_total_mib", -1, &err);
	p.has_gpu_mem_total_mib = p.gpu_mem_total_mib >= 0;
	p.gpu_power_mw = json_i64(body, "gpu_power_mw", -1, &err);
	p.has_gpu_power_mw = p.gpu_power_mw >= 0;
	p.mem_used_mib = json_i64(body, "mem_used_mib", -1, &err);
	p.has_mem_used_mib = p.mem_used_mib >= 0;
	if (err.rc != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	if (!ok || p.gpus < 0 || p.gpus > 1024) {
		areq_fail_field(q, "gpus", "numbers of a sample must not be negative");
		return;
	}
	/* A node's clock may be wrong; rows are kept by ours. */
	if (p.at_us > q->now_us || p.at_us < q->now_us - SPOT_US_PER_HOUR) {
		p.at_us = q->now_us;
	}
	areq_sql_begin(q, notice_written);
	q_api_agent_sample(areq_pg(q), &q->pg, &p, areq_sql_done);
}
