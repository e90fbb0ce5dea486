/*
 * Enrolment: the agent sends the one-time token of boot.json and its proof of identity
 * (identity.c), and gets a session for this node. 503: the daemon still verifies the proof. 403: it
 * rejects the proof.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

/* Longer than the 20 s that the daemon may hold the request. */
#define POST_TIMEOUT_US (30 * SPOT_US_PER_S)

/* ---- the post -------------------------------------------------------------------------------- */

static enum spot_rc enrol_accept(struct agent *a, const json_t *body, struct spot_err *err)
{
	struct spot_err first = { 0 };
	const char *node = json_need_str(body, "node", &first);
	const char *session = json_need_str(body, "session", &first);
	int64_t sample_s;

	a->hold_ms = json_i64(body, "poll_hold_ms", 25000, &first);
	sample_s = json_i64(body, "sample_s", 15, &first);
	if (first.rc != SPOT_OK || !str_copy(a->node, sizeof(a->node), node)) {
		return err_set(err, SPOT_BAD_REPLY, "enrol: %s", first.text);
	}
	a->hold_ms = MAX(INT64_C(0), MIN(a->hold_ms, INT64_C(120000)));
	a->sample_us = MAX(INT64_C(1), MIN(sample_s, INT64_C(86400))) * SPOT_US_PER_S;
	http_bearer(a->http, session);
	return session_write(a, session, err);
}

/* Reports a final refusal: a wrong, spent or expired token. Other failures may pass. */
static bool enrol_is_refused(int status)
{
	return status == 400 || status == 401 || status == 403 || status == 404 || status == 409 ||
	    status == 410;
}

static void enrol_done(void *agent, const struct http_reply *reply)
{
	struct agent *a = agent;
	AUTO(daemon_reply) struct daemon_reply r;
	struct spot_err err = { 0 };

	daemon_read(a, reply, &r);
	a->enrol.call = NULL;
	if (r.status == 200 && enrol_accept(a, r.body, &err) == SPOT_OK) {
		a->enrol.at = ENROL_DONE;
		retry_clear(&a->enrol.backoff);
		log_info("enrol.done", STR("node", a->node),
		    STR("instance", a->enrol.identity.ref));
		return;
	}
	if (enrol_is_refused(r.status)) {
		log_error("enrol.refused", I64("status", r.status), STR("code", r.code),
		    STR("error", r.error));
		job_stop(a, STOP_DROPPED, 0, "the daemon does not know this node");
		a->leaving = true;
		a->exit_code = AGENT_EXIT_REFUSED;
	}
	retry_fail(a, &a->enrol.backoff, r.retry_after_us);
	log_warn("enrol.retry", I64("status", r.status),
	    STR("error", err.rc != SPOT_OK ? err.text : r.error));
}

static void enrol_post(struct agent *a)
{
	struct enrol *e = &a->enrol;
	json_t *proof = e->identity.proof != NULL ? json_incref(e->identity.proof) : json_object();

	e->call = daemon_post(a, "enrol",
	    json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "token", secret_reveal(&a->boot.token),
		"version", AGENT_VERSION, "boot_id", e->boot_id, "instance_ref", e->identity.ref,
		"proof", proof, "hw", sample_hw(a)),
	    POST_TIMEOUT_US, enrol_done);
}

/* Backs off: two agents with one identity would end each other's session in a fast loop. */
static void enrol_again(struct agent *a)
{
	log_warn("enrol.session_refused", STR("node", a->node));
	session_remove(a);
	a->enrol.refused = false;
	retry_fail(a, &a->enrol.backoff, SPOT_US_PER_S);
	retry_fail(a, &a->enrol.backoff, SPOT_US_PER_S);
}

void enrol_step(struct agent *a)
{
	struct enrol *e = &a->enrol;
	int64_t settles_us;

	if (e->refused) {
		enrol_again(a);
	}
	if (e->at == ENROL_DONE || e->call != NULL || a->leaving || !retry_due(a, &e->backoff)) {
		return;
	}
	/* Before a retry, too: an expired proof must be fetched again. */
	if (!identity_ready(a)) {
		return;
	}
	e->at = ENROL_POST;
	/* Wait for the GPU helper, so that the first facts of the node are complete, and for the
	 * GPUs, until programs can use them. */
	settles_us = e->hw_ready ? 0 : gpu_settles_us(&a->gpu.now, a->contact_us, a->now_us);
	if (settles_us > 0) {
		agent_wake(a, settles_us);
		return;
	}
	e->hw_ready = true;
	enrol_post(a);
}
