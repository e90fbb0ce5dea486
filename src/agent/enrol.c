/*
 * Enrolment: the one-time token of boot.json becomes a node-scoped session. On AWS the node first learns
 * who it is from its metadata service and adds the signed identity document as a second proof; without
 * an answer from there it enrols all the same and lets the daemon decide.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"

#define IDENTITY_TRIES 20
#define GPU_WAIT_US (5 * SPOT_US_PER_S)

static bool on_aws(const struct agent *a)
{
	return strcmp(a->boot.provider, "aws") == 0;
}

/* ---- identity: three keys one after the other ------------------------------------------------------ */

static void identity_next(struct agent *a);

static char *body_dup(const struct http_reply *r)
{
	char *p = r->body.n < 16384 && memchr(r->body.p, 0, r->body.n) == NULL ?
	    strndup(r->body.p, r->body.n) : NULL;

	return p;
}

static void identity_retry(struct agent *a, const struct http_reply *r)
{
	if (r->status == 401)
		imds_token_refused(a);
	if (++a->enrol.identity_tries >= IDENTITY_TRIES) {
		log_warn("enrol.no_identity", I64("status", r->status), STR("error", r->error));
		a->enrol.at = ENROL_POST;
		backoff_clear(&a->enrol.backoff);
		return;
	}
	backoff_fail(a, &a->enrol.backoff, 0);
}

static void signature_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;

	a->enrol.call = NULL;
	if (r->status == 200)
		a->enrol.signature = body_dup(r);
	a->enrol.at = ENROL_POST; /* not every endpoint has it: 404 is an answer */
}

static void document_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;

	a->enrol.call = NULL;
	if (r->status == 200)
		a->enrol.document = body_dup(r);
	if (a->enrol.document != NULL)
		identity_next(a);
	else if (r->status == 404)
		a->enrol.at = ENROL_POST;
	else
		identity_retry(a, r);
}

static void instance_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;

	a->enrol.call = NULL;
	if (r->status == 200 && r->body.n > 0 &&
	    str_copy(a->enrol.instance_ref, sizeof(a->enrol.instance_ref), r->body.p))
		identity_next(a);
	else
		identity_retry(a, r);
}

static void identity_next(struct agent *a)
{
	struct enrol *e = &a->enrol;

	if (e->instance_ref[0] == '\0')
		e->call = imds_get(a, "meta-data/instance-id", instance_done);
	else if (e->document == NULL)
		e->call = imds_get(a, "dynamic/instance-identity/document", document_done);
	else
		e->call = imds_get(a, "dynamic/instance-identity/rsa2048", signature_done);
}

/* ---- the post ------------------------------------------------------------------------------------------- */

static enum spot_rc enrol_accept(struct agent *a, const json_t *body, struct spot_err *err)
{
	struct spot_err first = {0};
	const char *node = json_need_str(body, "node", &first);
	const char *session = json_need_str(body, "session", &first);
	int64_t sample_s;

	a->hold_ms = json_i64(body, "poll_hold_ms", 25000, &first);
	sample_s = json_i64(body, "sample_s", 15, &first);
	if (first.rc != SPOT_OK || !str_copy(a->node, sizeof(a->node), node))
		return err_set(err, SPOT_BAD_REPLY, "enrol: %s", first.text);
	a->hold_ms = MAX(INT64_C(0), MIN(a->hold_ms, INT64_C(120000)));
	a->sample_us = MAX(INT64_C(1), MIN(sample_s, INT64_C(86400))) * SPOT_US_PER_S;
	http_bearer(a->http, session);
	return session_write(a, session, err);
}

/* The daemon's "no" is final: wrong, spent or expired token. Anything else may pass. */
static bool enrol_is_refused(int status)
{
	return status == 400 || status == 401 || status == 403 || status == 404 || status == 409 ||
	    status == 410;
}

static void enrol_done(void *agent, const struct http_reply *reply)
{
	struct agent *a = agent;
	AUTO(daemon_reply) struct daemon_reply r;
	struct spot_err err = {0};

	daemon_read(a, reply, &r);
	a->enrol.call = NULL;
	if (r.status == 200 && enrol_accept(a, r.body, &err) == SPOT_OK) {
		a->enrol.at = ENROL_DONE;
		backoff_clear(&a->enrol.backoff);
		log_info("enrol.done", STR("node", a->node), STR("instance", a->enrol.instance_ref));
		return;
	}
	if (enrol_is_refused(r.status)) {
		log_error("enrol.refused", I64("status", r.status), STR("code", r.code),
		    STR("error", r.error));
		job_stop(a, STOP_DROPPED, 0, "the daemon does not know this node");
		a->leaving = true;
		a->exit_code = AGENT_EXIT_REFUSED;
	}
	backoff_fail(a, &a->enrol.backoff, r.retry_after_us);
	log_warn("enrol.retry", I64("status", r.status),
	    STR("error", err.rc != SPOT_OK ? err.text : r.error));
}

static void enrol_post(struct agent *a)
{
	struct enrol *e = &a->enrol;
	json_t *proof = json_object();
	json_t *body;

	if (e->document != NULL)
		(void)json_object_set_new(proof, "document", json_string(e->document));
	if (e->signature != NULL)
		(void)json_object_set_new(proof, "rsa2048", json_string(e->signature));
	body = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "token", secret_reveal(&a->boot.token),
	    "version", AGENT_VERSION, "boot_id", e->boot_id, "instance_ref", e->instance_ref, "proof",
	    proof, "hw", sample_hw(a));
	e->call = daemon_post(a, "enrol", body, 15 * SPOT_US_PER_S, enrol_done);
}

void enrol_again(struct agent *a)
{
	log_warn("enrol.session_refused", STR("node", a->node));
	session_remove(a);
	a->enrol.at = ENROL_POST;
	/* Two agents with one identity would end each other's session for ever: slow that down. */
	backoff_fail(a, &a->enrol.backoff, SPOT_US_PER_S);
	backoff_fail(a, &a->enrol.backoff, SPOT_US_PER_S);
}

void enrol_step(struct agent *a)
{
	struct enrol *e = &a->enrol;

	if (e->at == ENROL_DONE || e->call != NULL || a->leaving || !backoff_due(a, &e->backoff))
		return;
	if (e->at == ENROL_IDENTITY && !on_aws(a))
		e->at = ENROL_POST;
	if (e->at == ENROL_IDENTITY) {
		if (imds_ready(a))
			identity_next(a);
		else if (a->imds.token_call == NULL && a->imds.backoff.failures >= IDENTITY_TRIES / 2)
			e->at = ENROL_POST; /* no metadata service answers here */
		return;
	}
	/* Give the GPU helper a moment, so that the first report of the node is complete. */
	if (!a->gpu.now.known && a->now_us < a->contact_us + GPU_WAIT_US && !e->hw_ready) {
		agent_wake(a, a->contact_us + GPU_WAIT_US);
		return;
	}
	e->hw_ready = true;
	enrol_post(a);
}
