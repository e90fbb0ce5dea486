/*
 * Launches a gang by one call where its provider has one (verb launch_gang), under rank 0's token and name. All its rows
 * are claimed before anything is sent, in one statement, and what the reply says moves all of them: machines are given to
 * ranks in the order of their refs, so that a repeat gives the same. An indefinite answer makes all of them UNKNOWN
 * (gang_lookup.c). A refusal says nothing about a single machine: the pool rests only for gangs (gang.c), except where
 * it was the quota's or the account's.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/gang.h"

#define LAUNCH_MOST   16
#define CLAIM_SLACK_US (30 * SPOT_US_PER_S)

struct ganging {
	struct spot_launch_gang args;
	struct spot_tag tags[4];
	char me[32];
	int32_t tries;
	bool token; /* a repeat is harmless */
};

/* ---- the reply ---------------------------------------------------------------------------- */

static int by_ref(const void *a, const void *b)
{
	const struct spot_instance *x = a, *y = b;

	return strcmp(x->ref, y->ref);
}

/* Machines to ranks. Fewer than the gang wants: the ranks beyond them never came. */
void gang_exists(struct act *a, struct spot_instance *list, size_t n, const char *const *was,
		 size_t was_n, enum node_event ev)
{
	const char **refs = arena_array(a->arena, n + 1, sizeof(*refs));
	const char **requests = arena_array(a->arena, n + 1, sizeof(*requests));
	const char **ips = arena_array(a->arena, n + 1, sizeof(*ips));

	qsort(list, n, sizeof(*list), by_ref);
	for (size_t i = 0; i < n; i++) {
		refs[i] = list[i].ref;
		requests[i] = list[i].spot_request == NULL ? "" : list[i].spot_request;
		ips[i] = list[i].ip == NULL ? "" : list[i].ip;
	}
	ACT_WRITE(a, engine_gang_exists,
		  (&(struct q_engine_gang_exists){.id = a->id,
						  .was = was,
						  .was_n = was_n,
						  .now = node_next(a->id, "UNKNOWN", ev),
						  .event = node_event_name(ev),
						  .refs = refs,
						  .refs_n = n,
						  .requests = requests,
						  .requests_n = n,
						  .ips = ips,
						  .ips_n = n,
						  .at_us = engine_now(a->e),
						  .day = engine_day(a->e),
						  .void_event = node_event_name(NODE_EV_VOID),
						  .void_now = node_next(a->id, "UNKNOWN", NODE_EV_VOID)}));
}

static void gang_refused(struct act *a, const struct ganging *g, enum spot_rc rc)
{
	const struct engine_conf *c = &a->e->conf;

	offers_stale(a->e);
	ACT_WRITE(a, engine_gang_refused,
		  (&(struct q_engine_gang_refused){
		      .id = a->id,
		      .was = "LAUNCHING",
		      .now = node_next(a->id, "LAUNCHING", NODE_EV_REFUSED),
		      .event = node_event_name(NODE_EV_REFUSED),
		      .why = a->call.op.err.text,
		      .rc = spot_rc_name(rc),
		      .scope = launch_refusal_scope(&a->call.op.err),
		      .cool_min_us = c->cool_min_us,
		      .cool_max_us = c->cool_max_us,
		      .claimed_by = g->me,
		      .at_us = engine_now(a->e),
		      .day = engine_day(a->e)}));
}

static void gang_undone(struct act *a, const struct ganging *g, enum node_event ev,
			int64_t after_us)
{
	const char *why = a->call.op.err.text;

	if (a->call.op.rc == SPOT_MISMATCH) {
		why = arena_printf(a->arena, LAUNCH_MISMATCH "%s", why);
	}
	ACT_WRITE(a, engine_gang_undone,
		  (&(struct q_engine_gang_undone){.id = a->id,
						  .was = "LAUNCHING",
						  .now = node_next(a->id, "LAUNCHING", ev),
						  .event = node_event_name(ev),
						  .why = why,
						  .claimed_by = g->me,
						  .next_us = engine_now(a->e) + after_us,
						  .at_us = engine_now(a->e)}));
}

static void gang_called(struct act *a)
{
	static const char *const was[] = {"LAUNCHING", "UNKNOWN"};
	struct ganging *g = a->ctx;
	enum spot_rc rc = a->call.op.rc;
	const struct spot_err *err = &a->call.op.err;

	if (rc == SPOT_OK && g->args.instances_n == g->args.want) {
		gang_exists(a, g->args.instances, g->args.instances_n, was, ARRAY_LEN(was),
			    NODE_EV_LAUNCHED);
		return;
	}
	log_warn("launch.failed", I64("gang", a->id), STR("rc", spot_rc_name(rc)),
		 STR("code", err->code), STR("error", err->text));
	switch (rc) {
	case SPOT_THROTTLED:
	case SPOT_UNAVAILABLE:
	case SPOT_TIMEOUT:
		if (g->token) {
			gang_undone(a, g, NODE_EV_RESEND,
				    launch_retry_us(a->e, g->tries, err->retry_after_us));
		} else {
			gang_refused(a, g, rc);
		}
		return;
	case SPOT_OK: /* not so many as were asked for: looked up */
	case SPOT_UNKNOWN:
	case SPOT_MISMATCH:
	case SPOT_BAD_REPLY:
	case SPOT_CANCELLED:
	case SPOT_INTERNAL:
		gang_undone(a, g, NODE_EV_AMBIGUOUS, 0);
		return;
	case SPOT_INVALID:
	case SPOT_UNAUTHENTICATED:
	case SPOT_DENIED:
	case SPOT_NOT_FOUND:
	case SPOT_CONFLICT:
	case SPOT_STALE_EPOCH:
	case SPOT_GONE:
	case SPOT_TOO_LARGE:
	case SPOT_NO_CAPACITY:
	case SPOT_NOT_OFFERED:
	case SPOT_PRICE_CAP:
	case SPOT_QUOTA:
	case SPOT_CONFIG:
	case SPOT_RC_COUNT:
		break;
	}
	gang_refused(a, g, rc);
}

/* ---- claim and call ----------------------------------------------------------------------- */

static struct act *gang_prepare(struct engine *e, const struct q_engine_gang_launch_due_row *w,
				struct call_provider *p)
{
	struct act *a = act_new(e, w->id, gang_called);
	struct ganging *g = arena_alloc(a->arena, sizeof(*g));

#define KEEP(s) arena_strdup(a->arena, (s))
	g->token = (call_provider_ops(p)->caps & SPOT_CAP_TOKEN) != 0;
	g->tries = w->tries;
	memcpy(g->me, e->me, sizeof(g->me));
	g->tags[0] = (struct spot_tag){"brk-gang", arena_printf(a->arena, "g%" PRId64, w->id)};
	g->tags[1] = (struct spot_tag){"brk-job", arena_printf(a->arena, "j%" PRId64, w->job_id)};
	g->args.want = (size_t)w->want;
	g->args.common = (struct spot_launch){
	    .key = {.provider = KEEP(w->provider),
		    .region = KEEP(w->region),
		    .zone = KEEP(w->zone),
		    .instance_type = KEEP(w->instance_type),
		    .market = spot_market_parse(w->market)},
	    .zone_name = KEEP(w->zone_name),
	    .shape = {.gpu_name = KEEP(w->gpu_name),
		      .gpu_milli = w->gpu_milli,
		      .gpu_mem_mib = w->gpu_mem_mib,
		      .vcpus = w->vcpus,
		      .mem_mib = w->mem_mib,
		      .arch = KEEP(w->arch)},
	    .token = KEEP(w->token),
	    .name = KEEP(w->name),
	    .install = e->install,
	    .tags = g->tags,
	    .tags_n = 2,
	    .user_data =
		userdata_make(e, a->arena, w->node_id, w->token, call_provider_ops(p)->kind),
	    .audience = e->conf.public_url,
	};
#undef KEEP
	a->ctx = g;
	return a;
}

static void gang_claimed(struct step *s)
{
	struct act *a = s->ctx;
	struct ganging *g = a->ctx;
	struct engine *e = a->e;
	struct call_provider *p = engine_provider(e, g->args.common.key.provider);

	if (step_rows(s) != g->args.want || p == NULL) {
		act_end(a); /* somebody moved one of them first */
		return;
	}
	log_info("launch.sent", I64("gang", a->id), I64("machines", (int64_t)g->args.want),
		 STR("provider", g->args.common.key.provider), STR("zone", g->args.common.key.zone),
		 STR("type", g->args.common.key.instance_type),
		 STR("launch_token", g->args.common.token));
	act_call(a, p, CALL_LAUNCH_GANG, &g->args, e->conf.launch_timeout_us, false);
}

static void gang_claim(struct recon *r, const struct q_engine_gang_launch_due_row *w)
{
	struct engine *e = r->e;
	struct call_provider *p = engine_provider(e, w->provider);
	int64_t now = engine_now(e);
	struct step *s;

	if (p == NULL || call_provider_ops(p)->launch_gang == NULL) {
		node_event(r, w->node_id, "WANTED", NODE_EV_REFUSED, "refused",
			   "its provider is not configured any more");
		return;
	}
	s = step_new(r, gang_claimed, gang_prepare(e, w, p));
	s->always = true;
	STEP(s, engine_gang_launch_claim,
	     (&(struct q_engine_gang_launch_claim){
		 .id = w->id,
		 .was = "WANTED",
		 .now = node_next(w->node_id, "WANTED", NODE_EV_CLAIMED),
		 .event = node_event_name(NODE_EV_CLAIMED),
		 .why = w->fresh ? "launch of the whole gang" : "launch again with the same token",
		 .claimed_by = e->me,
		 .at_us = now,
		 .until_us = now + e->conf.launch_timeout_us + CLAIM_SLACK_US,
		 .fence = e->epoch}));
}

static void launch_due(struct step *s)
{
	struct q_engine_gang_launch_due_row *rows;
	size_t n = q_engine_gang_launch_due_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		gang_claim(s->r, &rows[i]);
	}
}

void gang_launch_run(struct recon *r)
{
	struct step *s = step_new(r, launch_due, NULL);

	STEP(s, engine_gang_launch_due,
	     (&(struct q_engine_gang_launch_due){.at_us = engine_now(r->e), .most = LAUNCH_MOST}));
	gang_lookup(r);
}
