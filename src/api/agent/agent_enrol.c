/*
 * Enrolment: a node shows its one-time token and what its cloud vouches with (include/spot/agent.h,
 * "proof"). The token is HMAC(install.enrol_key, launch token), so nothing secret is stored per
 * node and a launch may be repeated with the same bytes. The proof becomes a row. The engine, which
 * has the cloud keys, judges it. The request is held until then (20 s, then 503: repeat). The first
 * use binds the token to boot and instance. The same machine may ask again with a good proof (its
 * agent restarted, or the reply was lost) and gets a new session. Another machine gets 409 and an
 * alarm. Two machines that one launch made differ in boot_id, which names the agent's directory,
 * too. Only the session's SHA-256 is stored.
 */
#include "base/base.h"
#include "api/agent/agent_priv.h"

#include "base/crypto/crypto.h"

#define HOLD_MS 25000
#define SAMPLE_S 15
#define VERIFY_US (20 * SPOT_US_PER_S)
#define AGAIN_US (SPOT_US_PER_S / 2)
#define PROOF_MAX (32 * 1024)

struct enrol {
	const char *token, *version, *boot_id, *ref, *hw;
	int64_t node; /* as the agent says; 0 = it does not */
	struct str key;
	const char *why;
	const char *proof; /* JSON text */
	char proof_sha[SHA256_HEX];
	char session[API_TOKEN_MAX];
	uint8_t hash[32];
};

static void enrol_done(struct areq *q)
{
	struct enrol *e = q->own;
	struct q_api_enrol_row *row;

	if (q_api_enrol_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_CONFLICT,
		    "node 'n%" PRId64 "' does not wait for an agent any more", e->node);
		return;
	}
	log_info("agent.enrolled", I64("node", row->id), STR("version", e->version),
	    STR("peer", q->http->peer));
	areq_json(q, 200,
	    json_pack("{s:o, s:s, s:i, s:i}", "node", json_sprintf("n%" PRId64, row->id), "session",
		e->session, "poll_hold_ms", HOLD_MS, "sample_s", SAMPLE_S));
	mem_wipe(e->session, sizeof(e->session));
}

static void enrol_denied(struct areq *q)
{
	struct enrol *e = q->own;

	areq_fail(q, SPOT_CONFLICT, "%s", e->why);
}

/* ---- the proof ------------------------------------------------------------------------------- */

static void session_open(struct areq *q)
{
	struct enrol *e = q->own;

	api_token_make(loop_rng(q->api->loop), e->session, e->hash);
	SQL(q, api_enrol, enrol_done, .id = e->node, .boot_id = e->boot_id, .instance_ref = e->ref,
	    .session_hash = (struct str){ (const char *)e->hash, 32 }, .version = e->version,
	    .hw = e->hw, .at_us = q->now_us, .sha256 = e->proof_sha);
}

static void enrol_judged(struct areq *q, const struct q_enrol_verdict_row *v)
{
	struct enrol *e = q->own;

	if (strcmp(v->verdict, "denied") == 0) {
		log_warn("agent.enrol_denied", I64("node", e->node), STR("why", v->why),
		    STR("peer", q->http->peer));
		areq_fail(q, SPOT_DENIED, "%s", v->why);
		return;
	}
	if (*v->verdict) {
		session_open(q);
		return;
	}
	if (areq_park(q)) {
		return;
	}
	httpd_set(q->http, "Retry-After", "1");
	areq_fail(q, SPOT_UNAVAILABLE,
	    "the provider has not yet confirmed this machine as ours%s%s; repeat the request",
	    *v->why ? ": " : "", v->why);
}

static void verdict_read(struct areq *q)
{
	struct q_enrol_verdict_row *row;

	if (q_api_enrol_verdict_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_CONFLICT, "node 'n%" PRId64 "' has ended",
		    ((struct enrol *)q->own)->node);
		return;
	}
	enrol_judged(q, row);
}

static void verdict_look(struct areq *q)
{
	struct enrol *e = q->own;

	SQL(q, api_enrol_verdict, verdict_read, .id = e->node, .boot_id = e->boot_id,
	    .sha256 = e->proof_sha);
}

static void enrol_asked(struct areq *q)
{
	struct enrol *e = q->own;
	struct q_enrol_verdict_row *row;

	if (q_api_enrol_ask_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_CONFLICT, "too many different proofs received for node n%" PRId64,
		    e->node);
		return;
	}
	areq_watch(q, 'v', e->node, VERIFY_US, AGAIN_US, verdict_look);
	if (*row->verdict) {
		enrol_judged(q, row);
	} else {
		verdict_look(q); /* a verdict between the statement and the registration */
	}
}

/* False: answered. Absent is {}: where the cloud has nothing, or where an agent should have sent
 * something. */
static bool proof_read(struct areq *q, struct enrol *e, const json_t *body)
{
	json_t *proof = json_object_get(body, "proof");

	if (proof && !json_is_object(proof) && !json_is_null(proof)) {
		areq_fail_field(q, "proof", "must be an object with 'kind'");
		return false;
	}
	e->proof = json_is_object(proof) ? json_text(q->arena, proof) : "{}";
	if (strlen(e->proof) > PROOF_MAX) {
		areq_fail_field(q, "proof", "must have at most %d bytes", PROOF_MAX);
		return false;
	}
	sha256_hex(e->proof, strlen(e->proof), e->proof_sha);
	return true;
}

/* ---- the token ------------------------------------------------------------------------------- */

static void enrol_node(struct areq *q, const struct q_enrol_node_row *n)
{
	struct enrol *e = q->own;

	e->node = n->id;
	if (n->used && strcmp(n->boot_id, e->boot_id) != 0) {
		e->why = "another boot of this machine used the one-time token; the node must be "
			 "replaced";
	} else if (n->ref && *e->ref && strcmp(n->ref, e->ref) != 0) {
		e->why = "the one-time token belongs to another instance";
	}
	if (e->why) {
		log_warn("agent.enrol_refused", I64("node", n->id), STR("why", e->why),
		    STR("peer", q->http->peer));
		SQL(q, api_enrol_alarm, enrol_denied, .id = n->id,
		    .why = arena_printf(q->arena, "%s (instance %s, from %s)", e->why, e->ref,
			q->http->peer),
		    .at_us = q->now_us);
		return;
	}
	SQL(q, api_enrol_ask, enrol_asked, .id = n->id, .boot_id = e->boot_id,
	    .sha256 = e->proof_sha, .proof = e->proof, .instance_ref = e->ref,
	    .peer = q->http->peer, .at_us = q->now_us);
}

static bool token_of(const struct enrol *e, const char *launch_token)
{
	uint8_t mac[SHA256_BYTES];
	char hex[SHA256_HEX];

	hmac_sha256(e->key.p, e->key.n, launch_token, strlen(launch_token), mac);
	hex_encode(mac, sizeof(mac), hex);
	return strlen(e->token) == SHA256_HEX - 1 && mem_equal_const(hex, e->token, SHA256_HEX - 1);
}

/* It has the token of a gang's launch and is none of the machines that we know of it: the launch's
 * reply may be out. */
static void gang_stranger(struct areq *q, bool early)
{
	const struct enrol *e = q->own;

	if (early) {
		httpd_set(q->http, "Retry-After", "1");
		areq_fail(q, SPOT_UNAVAILABLE,
		    "the outcome of the launch is not known yet; repeat the request");
		return;
	}
	log_warn("agent.enrol_refused", STR("why", "the machine is not part of this gang"),
	    STR("instance", e->ref), STR("peer", q->http->peer));
	areq_fail(q, SPOT_CONFLICT, "instance '%.100s' was not launched with this token", e->ref);
}

/* A machine without any row is from a history that a restored backup lacks, or the second machine
 * of a launch. The sweeper decides about it. Until then its agent waits and its job goes on. If
 * that history comes back, the machine is taken up again. */
static void stranger_read(struct areq *q)
{
	const struct enrol *e = q->own;
	struct q_api_enrol_stranger_row *row;

	if (q_api_enrol_stranger_rows(&q->pg, q->arena, &row) == 1 && row->stranger) {
		log_warn("agent.stranger",
		    STR("why", "no node accounts for this machine; see 'spotctl leaks'"),
		    STR("instance", e->ref), STR("peer", q->http->peer));
		httpd_set(q->http, "Retry-After", "30");
		areq_fail(q, SPOT_THROTTLED,
		    "no node accounts for this machine; its work may continue until an operator "
		    "decides ('spotctl leaks')");
		return;
	}
	log_warn("agent.enrol_refused", STR("why", "unknown token"), STR("peer", q->http->peer));
	areq_fail(q, SPOT_UNAUTHENTICATED,
	    "the one-time token belongs to no live node of this installation");
}

static void candidates_read(struct areq *q)
{
	struct q_enrol_node_row *rows;
	struct enrol *e = q->own;
	/* the statement was the one for one node, or that for all */
	bool gang = false, early = false;
	size_t n = e->node ? q_api_enrol_node_rows(&q->pg, q->arena, &rows)
			   : q_api_enrol_candidates_rows(&q->pg, q->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		if (!token_of(e, rows[i].token)) {
			continue;
		}
		if (!rows[i].shared || (rows[i].ref && strcmp(rows[i].ref, e->ref) == 0)) {
			enrol_node(q, &rows[i]);
			return;
		}
		gang = true;
		early |= !rows[i].ref;
	}
	if (gang) {
		gang_stranger(q, early);
		return;
	}
	SQL(q, api_enrol_stranger, stranger_read, .ref = e->ref, .at_us = q->now_us);
}

static void key_read(struct areq *q)
{
	struct enrol *e = q->own;
	struct q_api_enrol_key_row *row;

	if (q_api_enrol_key_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_UNAVAILABLE,
		    "the installation is not set up yet; start spotd first");
		return;
	}
	e->key = row->enrol_key;
	if (e->node) {
		SQL(q, api_enrol_node, candidates_read, .id = e->node);
	} else {
		SQL0(q, api_enrol_candidates, candidates_read);
	}
}

void post_enrol(struct areq *q)
{
	struct enrol *e = arena_alloc(q->arena, sizeof(*e));
	struct spot_err err = { 0 };
	const char *node;
	json_t *body, *hw;

	if (!agent_body(q, &body)) {
		return;
	}
	e->token = json_need_str(body, "token", &err);
	e->version = json_str(body, "version", "", &err);
	e->boot_id = json_need_str(body, "boot_id", &err);
	e->ref = json_str(body, "instance_ref", "", &err);
	node = json_str(body, "node", NULL, &err);
	hw = json_object_get(body, "hw");
	if (err.rc != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	if (!*e->boot_id || strlen(e->boot_id) > 100 || strlen(e->ref) > 200 ||
	    strlen(e->version) > 60) {
		areq_fail_field(q, "boot_id",
		    "boot_id must have 1 to 100 bytes, instance_ref at most 200, version at most "
		    "60");
		return;
	}
	if (hw && !json_is_object(hw)) {
		areq_fail_field(q, "hw", "must be an object");
		return;
	}
	if (node && !parse_id(node, 'n', &e->node)) {
		areq_fail_field(q, "node", "must be a node id such as 'n7'");
		return;
	}
	if (!proof_read(q, e, body)) {
		return;
	}
	e->hw = hw ? json_text(q->arena, hw) : NULL;
	q->own = e;
	SQL0(q, api_enrol_key, key_read);
}
