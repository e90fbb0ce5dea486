/*
 * Judges enrolments. The API writes the agent's proof (table enrol_proof) and holds the request.
 * This process has the cloud keys: it asks the node's provider (verb verify) and writes the verdict
 * for exactly this node, boot and proof. A proof that cannot be judged now (the provider is
 * unreachable, the launch is still being looked up) stays open, and the agent retries. A denial is
 * an alarm. A node whose token another machine presented first is replaced.
 */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "engine/launch/launch_priv.h"
#include "engine/watch/watch.h"

#define AGAIN_US (2 * SPOT_US_PER_S)
#define AGAIN_MAX_US (16 * AGAIN_US)

struct judging {
	struct spot_verify args;
	struct call_provider *provider;
	const char *boot_id, *sha256, *peer;
	char me[32];
	int32_t tries;
};

static bool identity_off(const struct engine *e, const char *provider)
{
	for (size_t i = 0; i < e->identity_off_n; i++) {
		if (strcmp(e->identity_off[i], provider) == 0) {
			return true;
		}
	}
	return false;
}

bool provider_vouches(const struct engine *e, struct call_provider *p)
{
	return call_provider_ops(p)->verify != NULL && !identity_off(e, call_provider_name(p));
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void verdict_write(struct act *a, const struct judging *j, const char *verdict,
    const char *why)
{
	ACT_WRITE(a, engine_enrol_verdict,
	    (&(struct q_engine_enrol_verdict){ .node_id = a->id,
		.boot_id = j->boot_id,
		.sha256 = j->sha256,
		.claimed_by = j->me,
		.verdict = verdict,
		.why = why,
		.at_us = engine_now(a->e),
		.fence = a->epoch }));
}

static void enrol_deny(struct act *a, const struct judging *j, const char *why)
{
	log_error("agent.identity_denied", I64("node", a->id), STR("ref", j->args.ref),
	    STR("peer", j->peer), STR("why", why));
	verdict_write(a, j, "denied", why);
}

static void enrol_retry(struct act *a, const struct judging *j)
{
	const struct spot_err *err = &a->call.op.err;
	const struct backoff pauses = { .first_us = AGAIN_US, .cap_us = AGAIN_MAX_US };
	int64_t pause = backoff_wait_us(&pauses, j->tries - 1, NULL);

	if (a->call.op.rc == SPOT_CONFIG || a->call.op.rc == SPOT_DENIED) {
		log_error("agent.identity_unchecked", I64("node", a->id), STR("error", err->text));
	} else {
		log_warn("agent.identity_unchecked", I64("node", a->id),
		    STR("rc", spot_rc_name(a->call.op.rc)), STR("error", err->text));
	}
	recon_later_of(a->e, &enrol_kind, pause);
	ACT_WRITE(a, engine_enrol_later,
	    (&(struct q_engine_enrol_later){ .node_id = a->id,
		.boot_id = j->boot_id,
		.sha256 = j->sha256,
		.claimed_by = j->me,
		.next_us = engine_now(a->e) + MAX(pause, err->retry_after_us),
		.why = err->text,
		.fence = a->epoch }));
}

/* A refusal with a vendor's code concerns our own request (our account lacks a permission), not the
 * proof. A verdict on the proof is the provider's own and has no such code. */
static void judge_called(struct act *a)
{
	const struct judging *j = a->ctx;

	if (a->call.op.rc == SPOT_OK) {
		log_info("agent.identity_verified", I64("node", a->id), STR("ref", j->args.ref));
		verdict_write(a, j, "verified",
		    arena_printf(a->arena, "%s vouches for %s", call_provider_name(j->provider),
			j->args.ref));
	} else if (a->call.op.rc == SPOT_DENIED && a->call.op.err.code[0] == '\0') {
		enrol_deny(a, j, a->call.op.err.text);
	} else {
		enrol_retry(a, j);
	}
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void judge_claimed(struct step *s)
{
	struct act *a = s->ctx;
	struct judging *j = a->ctx;

	if (step_rows(s) != 1) {
		act_end(a);
		return;
	}
	j->tries = (int32_t)pg_int(s->req.result, 0, 0);
	if (strcmp(j->args.proof.p, "{}") == 0) {
		enrol_deny(a, j,
		    "the agent sent nothing that proves which machine it is; "
		    "[provider NAME] identity = off takes the one-time token alone");
		return;
	}
	act_call(a, j->provider, CALL_VERIFY, &j->args, a->e->conf.call_timeout_us, true);
}

/* Ten digits of the one-time token (include/spot/agent.h). */
static const char *nonce_make(struct engine *e, struct arena *a, const char *launch_token)
{
	uint8_t mac[SHA256_BYTES], sum[SHA256_BYTES];
	char hex[SHA256_HEX];
	uint32_t n;

	hmac_sha256(e->enrol_key, e->enrol_key_n, launch_token, strlen(launch_token), mac);
	hex_encode(mac, sizeof(mac), hex);
	sha256(hex, strlen(hex), sum);
	n = (uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 | (uint32_t)sum[2] << 8 | sum[3];
	return arena_printf(a, "%010" PRIu32, n);
}

static void judge_one(struct recon *r, const struct q_engine_enrol_due_row *w,
    struct call_provider *p)
{
	struct engine *e = r->e;
	struct act *a = act_new(e, w->node_id, judge_called);
	struct judging *j = arena_alloc(a->arena, sizeof(*j));
	struct step *s;

	a->ctx = j;
	j->provider = p;
#define KEEP(s) arena_strdup(a->arena, (s))
	j->boot_id = KEEP(w->boot_id);
	j->sha256 = KEEP(w->sha256);
	j->peer = KEEP(w->peer);
	memcpy(j->me, e->me, sizeof(j->me));
	j->args = (struct spot_verify){
		.region = KEEP(w->region),
		.zone = KEEP(w->zone),
		.ref = KEEP(w->ref),
		.name = KEEP(w->name),
		.proof = str_from(KEEP(w->proof)),
		.audience = KEEP(e->conf.public_url),
		.nonce = nonce_make(e, a->arena, w->token),
	};
#undef KEEP
	s = step_new(r, judge_claimed, a);
	s->always = true;
	STEP(s, engine_enrol_claim,
	    (&(struct q_engine_enrol_claim){ .node_id = w->node_id,
		.boot_id = j->boot_id,
		.sha256 = j->sha256,
		.claimed_by = e->me,
		.at_us = engine_now(e),
		.until_us = engine_now(e) + e->conf.call_timeout_us * 2,
		.fence = r->epoch }));
}

static void judge_due(struct step *s)
{
	struct q_engine_enrol_due_row *rows;
	size_t n = q_engine_enrol_due_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		struct call_provider *p = engine_provider(s->r->e, rows[i].provider);

		if (p != NULL) {
			judge_one(s->r, &rows[i], p);
		}
	}
}

static void denied_read(struct step *s)
{
	struct q_engine_enrol_denied_row *rows;
	size_t n = q_engine_enrol_denied_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		node_event(s->r, rows[i].id, rows[i].state, NODE_EV_BROKEN, "identity",
		    arena_printf(s->r->arena, "somebody else used its one-time token: %s",
			rows[i].why));
	}
}

/* Lists the account ahead of schedule for an enrolment that waits for it. */
static void unlisted_read(struct step *s)
{
	struct q_engine_enrol_unlisted_row *rows;
	size_t n = q_engine_enrol_unlisted_rows(&s->req, s->r->arena, &rows);
	struct engine *e = s->r->e;
	int64_t now = loop_mono_us(e->loop);

	for (size_t i = 0; i < n; i++) {
		struct watch_place *place = watch_place_of(e, rows[i].provider, rows[i].region);

		if (place == NULL || place->sweeping) {
			continue;
		}
		if (now - place->swept_us >= AGAIN_US) {
			place->swept_us = 0;
		}
		recon_later_of(e, &sweep_kind, MAX(place->swept_us + AGAIN_US - now, 0));
	}
}

static void enrol_waive(struct recon *r)
{
	struct engine *e = r->e;
	const char **names = arena_array(r->arena, e->providers_n + 1, sizeof(*names));
	struct q_engine_enrol_waive_provider *rows =
	    arena_array(r->arena, e->providers_n + 1, sizeof(*rows));
	struct step *s;
	size_t n = 0;

	for (size_t i = 0; i < e->providers_n; i++) {
		const struct spot_provider_ops *ops = call_provider_ops(e->providers[i]);
		const char *name = call_provider_name(e->providers[i]);

		if (!provider_vouches(e, e->providers[i])) {
			rows[n] = (struct q_engine_enrol_waive_provider){ .name = name,
				.lag_us = clock_span_us(e,
				    e->conf.list_lag_us > 0 ? e->conf.list_lag_us
							    : ops->list_lag_us) };
			names[n++] = name;
		}
	}
	if (n == 0) {
		return;
	}
	s = step_new(r, unlisted_read, NULL);
	STEP(s, engine_enrol_unlisted,
	    (&(struct q_engine_enrol_unlisted){ .providers = names, .providers_n = n }));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_enrol_waive,
	    (&(struct q_engine_enrol_waive){ .provider = rows,
		.provider_n = n,
		.at_us = engine_now(e),
		.fence = r->epoch }));
}

static void enrol_pass(struct recon *r, void *state)
{
	const char **names;
	size_t n = engine_provider_names(r, provider_vouches, &names);
	struct step *s;

	(void)state;
	enrol_waive(r);
	s = step_new(r, judge_due, NULL);
	STEP(s, engine_enrol_due,
	    (&(struct q_engine_enrol_due){ .claimed_by = r->e->me,
		.at_us = engine_now(r->e),
		.providers = names,
		.providers_n = n }));
	s = step_new(r, denied_read, NULL);
	STEP(s, engine_enrol_denied, NULL);
}

const struct recon_kind enrol_kind = { .name = "enrol", .pass = enrol_pass };
