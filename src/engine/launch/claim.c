/*
 * Claims rows for launches, then sends the calls. All launches of one machine that a pass begins
 * are claimed by one statement. Each has its own call, and a row that another statement moved first
 * drops out. A gang and a set have a statement each.
 */
#include "base/base.h"
#include "engine/launch/launch_priv.h"

#define CLAIM_SLACK_US (30 * SPOT_US_PER_S) /* the call's own deadline ends it well before */

static struct act *launch_prepare(struct engine *e, const struct q_engine_launch_due_row *w,
    struct call_provider *p)
{
	struct act *a = act_new(e, w->id, launch_called);
	struct launching *l = arena_alloc(a->arena, sizeof(*l));

#define KEEP(s) arena_strdup(a->arena, (s))
	l->token = (call_provider_ops(p)->caps & SPOT_CAP_TOKEN) != 0;
	l->unsure = w->unsure;
	l->tries = w->tries;
	memcpy(l->me, e->me, sizeof(l->me));
	l->gang_id = w->gang_id;
	l->job_id = w->has_job_id ? w->job_id : 0;
	l->set = w->in_set;
	l->args.common = (struct spot_launch){
		.key = { .provider = KEEP(w->provider),
		    .region = KEEP(w->region),
		    .zone = KEEP(w->zone),
		    .instance_type = KEEP(w->instance_type),
		    .market = w->market },
		.zone_name = KEEP(w->zone_name),
		.shape = { .gpu_name = KEEP(w->gpu_name),
		    .gpu_milli = w->gpu_milli,
		    .gpu_mem_mib = w->gpu_mem_mib,
		    .vcpus = w->vcpus,
		    .mem_mib = w->mem_mib,
		    .arch = KEEP(w->arch) },
		.install = e->install,
		.price_cap_micros = w->price_cap_micros,
		.audience = e->conf.public_url,
		/* Of the gang, not of the launch: a lost rank comes back to the others. */
		.together = w->together && w->has_gang_id &&
			(call_provider_ops(p)->caps & SPOT_CAP_TOGETHER) != 0
		    ? arena_printf(a->arena, "brk-%s-g%" PRId64, e->install, w->gang_id)
		    : NULL,
	};
#undef KEEP
	a->ctx = l;
	return a;
}

/* The rest of the call, once its rows are known: those of want machines, of which the first has
 * this token and name. */
static void launch_name(struct act *a, const char *token, const char *name, size_t want,
    const char *kind)
{
	struct launching *l = a->ctx;
	struct spot_launch *c = &l->args.common;
	const char *id = arena_printf(a->arena, "n%" PRId64, a->id);
	size_t n = 0;

	l->set = l->set && want > 1;
	l->args.want = want;
	l->args.least = l->set ? 1 : want;
	c->token = arena_strdup(a->arena, token);
	c->name = arena_strdup(a->arena, name);
	l->tags[n++] = l->set ? (struct spot_tag){ "brk-set", id }
	    : want > 1
	    ? (struct spot_tag){ "brk-gang", arena_printf(a->arena, "g%" PRId64, l->gang_id) }
	    : (struct spot_tag){ "brk-node", id };
	if (l->job_id != 0 && !l->set) {
		l->tags[n++] =
		    (struct spot_tag){ "brk-job", arena_printf(a->arena, "j%" PRId64, l->job_id) };
	}
	c->tags = l->tags;
	c->tags_n = n;
	c->user_data = userdata_make(a->e, a->arena, a->id, token, kind);
}

static void launch_send(struct act *a, struct call_provider *p)
{
	struct launching *l = a->ctx;
	const struct spot_launch *c = &l->args.common;
	int64_t most_us = a->e->conf.launch_timeout_us;

	log_info("launch.sent",
	    I64(l->args.want > 1 && !l->set ? "gang" : "node",
		l->args.want > 1 && !l->set ? l->gang_id : a->id),
	    I64("machines", (int64_t)l->args.want), STR("provider", c->key.provider),
	    STR("zone", c->key.zone), STR("type", c->key.instance_type),
	    STR("launch_token", c->token));
	if (l->args.want > 1) {
		act_call(a, p, CALL_LAUNCH_GANG, &l->args, most_us, false);
	} else {
		act_call(a, p, CALL_LAUNCH, &l->args.common, most_us, false);
	}
}

/* ---- single launches ------------------------------------------------------------------------- */

static void claims_add(struct recon *r, struct launch_claims *all, struct act *a, const char *why)
{
	all->rows = arena_grow(r->arena, all->rows, all->n, &all->rows_cap, sizeof(*all->rows));
	all->acts = arena_grow(r->arena, all->acts, all->n, &all->acts_cap, sizeof(struct act *));
	all->rows[all->n] = (struct q_engine_launch_claim_each_launch){ .id = a->id, .why = why };
	all->acts[all->n++] = a;
}

static void claims_claimed(struct step *s)
{
	struct launch_claims *all = s->ctx;
	struct q_engine_launch_claim_each_row *rows = NULL;
	size_t n = step_rows(s);

	if (n > 0) {
		n = q_engine_launch_claim_each_rows(&s->req, s->r->arena, &rows);
	}
	for (size_t i = 0; i < all->n; i++) {
		struct act *a = all->acts[i];
		struct launching *l = a->ctx;
		struct call_provider *p = engine_provider(a->e, l->args.common.key.provider);
		bool ours = false;

		for (size_t k = 0; k < n && !ours; k++) {
			ours = rows[k].id == a->id;
		}
		if (ours && p != NULL) {
			launch_send(a, p);
		} else {
			act_end(a); /* another statement moved it first */
		}
	}
}

void launch_claims_end(struct recon *r, struct launch_claims *all)
{
	struct engine *e = r->e;
	int64_t now = engine_now(e);
	struct step *s;

	if (all->n == 0) {
		return;
	}
	s = step_new(r, claims_claimed, all);
	s->always = true;
	STEP(s, engine_launch_claim_each,
	    (&(struct q_engine_launch_claim_each){ .launch = all->rows,
		.launch_n = all->n,
		.was = NODE_WANTED,
		.now = node_next(all->rows[0].id, NODE_WANTED, NODE_EV_CLAIMED),
		.event = NODE_EV_CLAIMED,
		.claimed_by = e->me,
		.at_us = now,
		.until_us = now + e->conf.launch_timeout_us + CLAIM_SLACK_US,
		.fence = r->epoch }));
}

/* ---- gangs and sets -------------------------------------------------------------------------- */

static void launch_claimed(struct step *s)
{
	struct act *a = s->ctx;
	struct launching *l = a->ctx;
	struct call_provider *p = engine_provider(a->e, l->args.common.key.provider);

	if (step_rows(s) != l->args.want || p == NULL) {
		act_end(a); /* another statement moved one of them first */
		return;
	}
	launch_send(a, p);
}

void launch_claim(struct recon *r, struct launch_claims *all,
    const struct q_engine_launch_due_row *w, int32_t want, struct call_provider *p)
{
	struct engine *e = r->e;
	int64_t now = engine_now(e);
	struct act *a = launch_prepare(e, w, p);
	const char *why = w->fresh ? "launch" : "launch again with the same token";
	struct step *s;

	launch_name(a, w->token, w->name, (size_t)want, call_provider_ops(p)->kind);
	if (want == 1) {
		claims_add(r, all, a, why);
		return;
	}
	s = step_new(r, launch_claimed, a);
	s->always = true;
	STEP(s, engine_launch_claim,
	    (&(struct q_engine_launch_claim){ .id = w->id,
		.want = want,
		.was = NODE_WANTED,
		.now = node_next(w->id, NODE_WANTED, NODE_EV_CLAIMED),
		.event = NODE_EV_CLAIMED,
		.why = why,
		.claimed_by = e->me,
		.at_us = now,
		.until_us = now + e->conf.launch_timeout_us + CLAIM_SLACK_US,
		.fence = r->epoch }));
}

static void set_claimed(struct step *s)
{
	struct act *a = s->ctx;
	struct launching *l = a->ctx;
	struct call_provider *p = engine_provider(a->e, l->args.common.key.provider);
	struct q_engine_launch_claim_set_row *rows;
	size_t n = step_rows(s);

	if (n == 0 || p == NULL) {
		act_end(a);
		return;
	}
	q_engine_launch_claim_set_rows(&s->req, a->arena, &rows);
	l->job_id = rows[0].has_job_id ? rows[0].job_id : 0;
	launch_name(a, rows[0].token, rows[0].name, n, call_provider_ops(p)->kind);
	launch_send(a, p);
}

void set_claim(struct recon *r, const struct q_engine_launch_due_row *w, int64_t most,
    struct call_provider *p)
{
	struct engine *e = r->e;
	int64_t now = engine_now(e);
	struct act *a = launch_prepare(e, w, p);
	struct launching *l = a->ctx;
	struct step *s = step_new(r, set_claimed, a);

	l->set = true;
	l->args.want = (size_t)most;
	s->always = true;
	STEP(s, engine_launch_claim_set,
	    (&(struct q_engine_launch_claim_set){ .id = w->id,
		.last_id = w->last_id,
		.most = most,
		.was = NODE_WANTED,
		.now = node_next(w->id, NODE_WANTED, NODE_EV_CLAIMED),
		.event = NODE_EV_CLAIMED,
		.why = "launch in a set",
		.claimed_by = e->me,
		.at_us = now,
		.until_us = now + e->conf.launch_timeout_us + CLAIM_SLACK_US,
		.fence = r->epoch }));
}
