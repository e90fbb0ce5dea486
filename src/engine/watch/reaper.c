/* Terminates until the provider confirms the end. Only a list or description that shows it gone, or
 * two in a row that lack the instance, end the row. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/kernel/kernel.h"
#include "engine/watch/watch.h"

#define RETRY_MAX_US (60 * SPOT_US_PER_S)

struct reaping {
	struct spot_terminate args;
	struct call_provider *provider;
	char me[32];
	int32_t tries;
	int64_t launched_us, lag_us;
};

/* Some of the provider's own servers may not know an instance this young (EC2: "eventual
 * consistency"). Their "not found" proves nothing, and its row must not end before it. */
static bool instance_too_young(const struct act *a, const struct reaping *p, enum spot_rc rc)
{
	bool unknown = rc == SPOT_OK ? p->args.after.state == SPOT_INSTANCE_GONE &&
		str_same(p->args.after.raw_state, SPOT_NOT_FOUND_STATE)
				     : rc == SPOT_NOT_FOUND;

	return unknown && engine_now(a->e) - p->launched_us < clock_span_us(a->e, p->lag_us);
}

/* A second terminate learns no more than the next description of our nodes. That one waits for two
 * answers that lack the instance, and has the cause too. */
static bool next_describe_decides(const struct reaping *p)
{
	return p->args.was_gone ||
	    (p->args.after.state == SPOT_INSTANCE_GONE &&
		str_same(p->args.after.raw_state, SPOT_ABSENT_STATE));
}

static void reap_called(struct act *a)
{
	struct reaping *p = a->ctx;
	enum spot_rc rc = a->call.op.rc;
	int64_t first_us = a->e->conf.terminate_retry_us;
	const struct backoff pauses = { .first_us = first_us,
		.cap_us = MIN(64 * first_us, RETRY_MAX_US) };
	const char *state = "";

	if (instance_too_young(a, p, rc)) {
		log_warn("terminate.not_found_yet", I64("node", a->id), STR("ref", p->args.ref));
	} else if (rc == SPOT_OK && next_describe_decides(p)) {
		state = "";
	} else if (rc == SPOT_OK && p->args.after.state != SPOT_INSTANCE_NONE) {
		state = spot_instance_state_name(p->args.after.state);
	} else if (rc == SPOT_GONE || rc == SPOT_NOT_FOUND) {
		state = "gone";
	} else if (rc != SPOT_OK) {
		log_warn("terminate.failed", I64("node", a->id), STR("rc", spot_rc_name(rc)),
		    STR("error", a->call.op.err.text));
	}
	ACT_WRITE(a, engine_reap_result,
	    (&(struct q_engine_reap_result){ .id = a->id,
		.claimed_by = p->me,
		.state = state,
		.next_us = engine_now(a->e) + backoff_wait_us(&pauses, p->tries - 1, NULL),
		.error = rc == SPOT_OK ? "" : a->call.op.err.text,
		.at_us = engine_now(a->e),
		.fence = a->epoch }));
}

static void reap_claimed(struct step *s)
{
	struct act *a = s->ctx;
	struct reaping *p = a->ctx;

	if (step_rows(s) != 1) {
		act_end(a);
		return;
	}
	p->tries = (int32_t)pg_int(s->req.result, 0, 0);
	act_call(a, p->provider, CALL_TERMINATE, &p->args, a->e->conf.call_timeout_us, true);
}

static void reap_one(struct recon *r, const struct q_engine_reap_due_row *w)
{
	struct engine *e = r->e;
	struct call_provider *provider = engine_provider(e, w->provider);
	struct reaping *p;
	struct act *a;
	struct step *s;

	if (engine_now(e) - w->terminate_us > e->conf.terminate_alarm_us && w->tries % 8 == 7) {
		log_error("node.will_not_end", I64("node", w->id), STR("ref", w->ref),
		    STR("provider", w->provider), STR("provider_state", w->provider_state),
		    STR("last_error", w->last_error));
	}
	if (provider == NULL) {
		return;
	}
	a = act_new(e, w->id, reap_called);
	p = arena_alloc(a->arena, sizeof(*p));
	a->ctx = p;
	p->provider = provider;
	memcpy(p->me, e->me, sizeof(p->me));
	p->launched_us = w->launched_us;
	p->lag_us = e->conf.list_lag_us > 0 ? e->conf.list_lag_us
					    : call_provider_ops(provider)->list_lag_us;
	p->args = (struct spot_terminate){
		.region = arena_strdup(a->arena, w->region),
		.zone = arena_strdup(a->arena, w->zone),
		.ref = arena_strdup(a->arena, w->ref),
		.spot_request = arena_strdup(a->arena, w->spot_request),
	};
	s = step_new(r, reap_claimed, a);
	s->always = true;
	STEP(s, engine_act_claim,
	    (&(struct q_engine_act_claim){ .id = w->id,
		.state = NODE_TERMINATING,
		.claimed_by = e->me,
		.at_us = engine_now(e),
		.until_us = engine_now(e) + e->conf.call_timeout_us * 2,
		.fence = r->epoch }));
}

static void reap_due(struct step *s)
{
	struct q_engine_reap_due_row *rows;
	size_t n = q_engine_reap_due_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		if (rows[i].confirmed) {
			node_event(s->r, rows[i].id, NODE_TERMINATING, NODE_EV_CONFIRMED, "",
			    rows[i].provider_state[0] == '\0'
				? "it never had an instance"
				: arena_printf(s->r->arena, "provider says %s",
				      rows[i].provider_state));
		} else {
			reap_one(s->r, &rows[i]);
		}
	}
}

static bool provider_leaves(const struct engine *e UNUSED, struct call_provider *p)
{
	return (call_provider_ops(p)->caps & SPOT_CAP_LEAVES) != 0;
}

static void reaper_pass(struct recon *r, void *state)
{
	const char **leaving, **names;
	size_t leaving_n = engine_provider_names(r, provider_leaves, &leaving);
	size_t n = engine_provider_names(r, NULL, &names);
	struct step *s = step_new(r, reap_due, NULL);

	(void)state;
	STEP(s, engine_reap_due,
	    (&(struct q_engine_reap_due){ .claimed_by = r->e->me,
		.at_us = engine_now(r->e),
		.leaving = leaving,
		.leaving_n = leaving_n,
		.providers = names,
		.providers_n = n }));
}

const struct recon_kind reaper_kind = { .name = "reaper", .pass = reaper_pass };
