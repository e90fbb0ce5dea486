/*
 * Finds out whether an ambiguous launch happened. Found: the node is adopted. Not found: with a
 * token the launch is repeated with identical parameters (harmless by the provider's contract)
 * while somebody still wants the node; without one it is asked again until the provider's list lag
 * is over, and only then declared void (lambda.md section 7). Should it appear even later, the
 * sweep ends it.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engine_int.h"

#define RESEND_DOUBLINGS 4

struct looking {
	struct spot_find args;
	char me[32];
	int64_t sent_us;
	int32_t tries;
	bool token, wanted;
	const char *mismatch; /* words to keep, NULL = none */
	int64_t lag_us, life_us;
};

static const struct spot_instance *oldest(const struct spot_find *f)
{
	const struct spot_instance *best = &f->found[0];

	for (size_t i = 1; i < f->n; i++) {
		const struct spot_instance *x = &f->found[i];
		/* A live one before an ended one, then by age, then by ref: the same choice every
		 * time. */
		bool live = x->state != SPOT_INSTANCE_GONE,
		     best_live = best->state != SPOT_INSTANCE_GONE;

		if (live != best_live
			? live
			: (x->created_us != best->created_us ? x->created_us < best->created_us
							     : strcmp(x->ref, best->ref) < 0)) {
			best = x;
		}
	}
	return best;
}

static void look_found(struct act *a, const struct looking *l)
{
	const char *was[] = {"UNKNOWN"};
	const struct spot_instance *i = oldest(&l->args);

	if (l->args.n > 1) {
		log_error("launch.doubled", I64("node", a->id), STR("launch_token", l->args.token),
			  I64("instances", l->args.n), STR("adopted", i->ref));
	}
	ACT_WRITE(
	    a, engine_node_exists,
	    (&(struct q_engine_node_exists){
		.id = a->id,
		.was = was,
		.was_n = 1,
		.now = node_next(a->id, "UNKNOWN", NODE_EV_FOUND),
		.event = node_event_name(NODE_EV_FOUND),
		.why = arena_printf(
		    a->arena, "%s found by its token%s", i->ref,
		    l->args.n > 1 ? "; others with the same token are ended by the sweep" : ""),
		.ref = i->ref,
		.spot_request = i->spot_request == NULL ? "" : i->spot_request,
		.ip = i->ip == NULL ? "" : i->ip,
		.at_us = engine_now(a->e),
		.day = engine_day(a->e)}));
}

static void look_move(struct act *a, const struct looking *l, enum node_event ev, const char *why,
		      int64_t next_us)
{
	if (ev == NODE_EV_VOID) {
		ACT_WRITE(a, engine_node_move,
			  (&(struct q_engine_node_move){.id = a->id,
							.was = "UNKNOWN",
							.now = node_next(a->id, "UNKNOWN", ev),
							.event = node_event_name(ev),
							.why = why,
							.cause = "void",
							.at_us = engine_now(a->e),
							.next_us = 0,
							.fence = a->e->epoch}));
		return;
	}
	ACT_WRITE(a, engine_launch_undone,
		  (&(struct q_engine_launch_undone){.id = a->id,
						    .was = "UNKNOWN",
						    .now = node_next(a->id, "UNKNOWN", ev),
						    .event = node_event_name(ev),
						    .why = why,
						    .claimed_by = l->me,
						    .next_us = next_us,
						    .at_us = engine_now(a->e)}));
}

static void look_again(struct act *a, const struct looking *l, const char *error)
{
	ACT_WRITE(
	    a, engine_act_done,
	    (&(struct q_engine_act_done){.id = a->id,
					 .state = "UNKNOWN",
					 .claimed_by = l->me,
					 .next_us = engine_now(a->e) + a->e->conf.lookup_again_us,
					 .error = l->mismatch != NULL ? l->mismatch : error}));
}

/* A disk that carries the token is no machine. */
static void machines_only(struct spot_find *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (!f->found[i].leftover) {
			f->found[n++] = f->found[i];
		}
	}
	f->n = n;
}

static void look_called(struct act *a)
{
	struct looking *l = a->ctx;
	int64_t now = engine_now(a->e), age = now - l->sent_us;

	machines_only(&l->args);
	if (a->call.op.rc != SPOT_OK) {
		log_warn("lookup.failed", I64("node", a->id),
			 STR("rc", spot_rc_name(a->call.op.rc)), STR("error", a->call.op.err.text));
		look_again(a, l, a->call.op.err.text);
	} else if (l->args.n > 0) {
		look_found(a, l);
	} else if (l->token && l->wanted && age < l->life_us && l->mismatch == NULL) {
		/* Each round counts twice: the launch and the look-up. The first repeat goes out at
		 * once. */
		int rounds = l->tries / 2;
		int64_t pause = rounds <= 1 ? 0
					    : a->e->conf.lookup_again_us
						  << MIN(rounds - 2, RESEND_DOUBLINGS);

		look_move(a, l, NODE_EV_RESEND,
			  "not found by its token: repeated with the same token", now + pause);
	} else if (age < l->lag_us) {
		look_again(a, l, "not found yet; the provider's list may lag");
	} else {
		look_move(a, l, NODE_EV_VOID, "not found after the provider's list lag", 0);
	}
}

static void look_claimed(struct step *s)
{
	struct act *a = s->ctx;
	struct looking *l = a->ctx;
	struct call_provider *p = a->call.priv;

	if (step_rows(s) != 1) {
		act_end(a);
		return;
	}
	l->tries = (int32_t)pg_int(s->req.result, 0, 0);
	act_call(a, p, CALL_FIND, &l->args, a->e->conf.call_timeout_us, true);
}

static void look_one(struct recon *r, const struct q_engine_lookup_due_row *w)
{
	struct engine *e = r->e;
	struct call_provider *p = engine_provider(e, w->provider);
	const struct spot_provider_ops *ops;
	struct looking *l;
	struct act *a;
	struct step *s;

	if (p == NULL) {
		return; /* not configured now: it stays unknown until somebody can ask */
	}
	ops = call_provider_ops(p);
	a = act_new(e, w->id, look_called);
	l = arena_alloc(a->arena, sizeof(*l));
	a->ctx = l;
	a->call.priv = p;
	memcpy(l->me, e->me, sizeof(l->me));
	l->sent_us = w->launch_sent_us;
	l->token = (ops->caps & SPOT_CAP_TOKEN) != 0;
	l->wanted = w->wanted;
	if (str_prefix(w->last_error, LAUNCH_MISMATCH)) {
		l->mismatch = arena_strdup(a->arena, w->last_error);
	}
	l->lag_us = e->conf.list_lag_us > 0 ? e->conf.list_lag_us : ops->list_lag_us;
	l->life_us = ops->token_life_us;
	l->args = (struct spot_find){
	    .region = arena_strdup(a->arena, w->region),
	    .zone = arena_strdup(a->arena, w->zone),
	    .token = arena_strdup(a->arena, w->token),
	    .name = arena_strdup(a->arena, w->name),
	    .install = e->install,
	};
	s = step_new(r, look_claimed, a);
	s->always = true;
	STEP(s, engine_act_claim,
	     (&(struct q_engine_act_claim){.id = w->id,
					   .state = "UNKNOWN",
					   .claimed_by = e->me,
					   .at_us = engine_now(e),
					   .until_us = engine_now(e) + e->conf.call_timeout_us * 2,
					   .fence = e->epoch}));
}

static void look_due(struct step *s)
{
	struct q_engine_lookup_due_row *rows;
	size_t n = q_engine_lookup_due_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		look_one(s->r, &rows[i]);
	}
}

void lookup_run(struct recon *r)
{
	struct step *s = step_new(r, look_due, NULL);

	STEP(s, engine_lookup_due,
	     (&(struct q_engine_lookup_due){.claimed_by = r->e->me, .at_us = engine_now(r->e)}));
}
