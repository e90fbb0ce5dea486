/* How tight the supply of each pool group is. Once a minute core/policy/tightness.h moves the state
 * from our own launch tries, cooling pools and prices. Table supply_state
 * keeps it, and the next leader
 * goes on from the rows. Only groups with tries in the window, or tight ones, cost work. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/kernel/kernel.h"
#include "engine/market/market.h"

#define WEEK_US (7 * 24 * SPOT_US_PER_HOUR)

struct group {
	const char *provider, *region, *gpu;
	const struct q_engine_supply_states_row *row; /* NULL: none yet */
	struct tightness_seen seen;
	bool tried;
	int32_t priced;
};

struct tighten {
	struct q_engine_supply_window_row *tries;
	size_t tries_n;
	struct q_engine_supply_states_row *rows;
	size_t rows_n;
	struct group *groups;
	size_t groups_n, groups_cap;
};

static bool same_group(const struct group *g, const char *provider, const char *region,
    const char *gpu)
{
	return strcmp(g->gpu, gpu) == 0 && strcmp(g->region, region) == 0 &&
	    strcmp(g->provider, provider) == 0;
}

static struct group *group_find(const struct tighten *t, const struct offer *o)
{
	for (size_t i = 0; i < t->groups_n; i++) {
		if (same_group(&t->groups[i], o->provider, o->region, o->gpu_name)) {
			return &t->groups[i];
		}
	}
	return NULL;
}

static struct group *group_add(struct recon *r, struct tighten *t, const char *provider,
    const char *region, const char *gpu)
{
	t->groups =
	    arena_grow(r->arena, t->groups, t->groups_n, &t->groups_cap, sizeof(*t->groups));
	t->groups[t->groups_n] =
	    (struct group){ .provider = provider, .region = region, .gpu = gpu };
	return &t->groups[t->groups_n++];
}

/* The groups that matter: with tries in the window, or with a tight row. */
static void groups_collect(struct recon *r, struct tighten *t)
{
	for (size_t i = 0; i < t->rows_n; i++) {
		struct group *g =
		    group_add(r, t, t->rows[i].provider, t->rows[i].region, t->rows[i].gpu_name);

		g->row = &t->rows[i];
		g->tried = t->rows[i].state == SUPPLY_TIGHT || t->rows[i].calm_us == 0;
	}
	for (size_t i = 0; i < t->tries_n; i++) {
		const struct q_engine_supply_window_row *w = &t->tries[i];
		const struct offer *o = offer_find(r->e, w->pool_id);
		struct group *g = o != NULL ? group_find(t, o) : NULL;

		if (o == NULL) {
			continue;
		}
		if (g == NULL) {
			g = group_add(r, t, o->provider, o->region, o->gpu_name);
		}
		g->tried = true;
		g->seen.launches += w->launches;
		g->seen.refusals += w->refusals;
		g->seen.reclaims += w->reclaims;
		g->seen.node_hours += (double)w->node_us / (double)SPOT_US_PER_HOUR;
		if (w->price_mean > 0) {
			g->seen.price += w->price / w->price_mean;
			g->priced++;
		}
	}
}

/* Every spot pool of the groups: how many cool, and the estimated hazard. */
static void groups_measure(struct recon *r, struct tighten *t)
{
	const struct engine *e = r->e;
	int64_t now = engine_now(e);

	for (size_t i = 0; i < e->offers.n; i++) {
		const struct offer *o = &e->offers.list[i];
		struct group *g = o->market == SPOT_MARKET_SPOT ? group_find(t, o) : NULL;
		struct hazard h;

		if (g == NULL || !g->tried) {
			continue;
		}
		hazard_of(e->offers.hazards, o, &h);
		g->seen.pools++;
		g->seen.pools_out +=
		    o->cool_until_us > now || (o->capacity >= 0 && o->capacity < 0.5);
		g->seen.hazard_per_hour += h.per_hour - h.raised_per_hour;
	}
	for (size_t i = 0; i < t->groups_n; i++) {
		struct tightness_seen *s = &t->groups[i].seen;

		s->hazard_per_hour /= MAX(s->pools, 1);
		if (t->groups[i].priced > 0) {
			s->price /= t->groups[i].priced;
			s->price_mean = 1;
		}
	}
}

static json_t *parts_json(const struct tightness *n, const struct tightness_seen *s)
{
	return json_pack("{s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:f, s:f, s:i, s:i, s:f}", "refusals",
	    n->refusals, "reclaims", n->reclaims, "scores", n->scores, "price", n->price,
	    "launches_seen", s->launches, "refusals_seen", s->refusals, "reclaims_seen",
	    s->reclaims, "node_hours", s->node_hours, "hazard_per_hour", s->hazard_per_hour,
	    "pools", s->pools, "pools_out", s->pools_out, "price_to_week",
	    s->price_mean > 0 ? s->price / s->price_mean : 1.0);
}

static void group_step(struct recon *r, const struct group *g)
{
	const struct q_engine_supply_states_row *row = g->row;
	struct tightness was = { 0 }, now;
	struct step *s;

	if (row != NULL) {
		was = (struct tightness){ .state = row->state,
			.since_us = row->since_us,
			.calm_us = row->calm_us };
	}
	tightness_step(r->arena, &was, &g->seen, &r->e->conf.tightness, engine_now(r->e), &now);
	AUTO(json) json_t *parts = parts_json(&now, &g->seen);

	if (now.state != was.state && (row != NULL || now.state != SUPPLY_EASY)) {
		log_info("supply.state", STR("provider", g->provider), STR("region", g->region),
		    STR("gpu", g->gpu), STR("state", supply_state_name(now.state)),
		    STR("why", now.why));
	}
	s = step_new(r, NULL, NULL);
	STEP(s, engine_supply_set,
	    (&(struct q_engine_supply_set){ .provider = g->provider,
		.region = g->region,
		.gpu_name = g->gpu,
		.was = was.state,
		.state = now.state,
		.since_us = now.since_us,
		.calm_us = now.calm_us,
		.idx = now.index,
		.parts = json_text(r->arena, parts),
		.why = now.why,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void tighten_decide(struct recon *r, void *ctx)
{
	struct tighten *t = ctx;

	groups_collect(r, t);
	if (t->groups_n == 0) {
		return;
	}
	groups_measure(r, t);
	for (size_t i = 0; i < t->groups_n; i++) {
		if (t->groups[i].tried) {
			group_step(r, &t->groups[i]);
		}
	}
}

static void tighten_tries(struct step *s)
{
	struct tighten *t = s->ctx;

	t->tries_n = q_engine_supply_window_rows(&s->req, s->r->arena, &t->tries);
	if (t->tries_n > 0 || t->rows_n > 0) {
		offers_need(s->r, tighten_decide, t);
	}
}

struct tighten_state {
	int64_t judged_us; /* mono: supply_state was last computed; 0 = never */
	struct arena *arena; /* of the tight groups, as last read from their rows */
	struct tight_group *tight;
	size_t n;
};

/* Keeps the tight groups of the rows for placing. */
static void tight_keep(struct tighten_state *st, const struct tighten *t)
{
	arena_free(st->arena);
	st->arena = arena_new(0);
	st->tight = arena_array(st->arena, t->rows_n + 1, sizeof(*st->tight));
	st->n = 0;
	for (size_t i = 0; i < t->rows_n; i++) {
		const struct q_engine_supply_states_row *w = &t->rows[i];

		if (w->state == SUPPLY_TIGHT) {
			st->tight[st->n++] =
			    (struct tight_group){ .provider = arena_strdup(st->arena, w->provider),
				    .region = arena_strdup(st->arena, w->region),
				    .gpu = arena_strdup(st->arena, w->gpu_name) };
		}
	}
}

size_t supply_tight_groups(const struct engine *e, const struct tight_group **ret)
{
	const struct tighten_state *st = recon_state(e, &tighten_kind);

	*ret = st->tight;
	return st->n;
}

bool supply_tight(const struct engine *e, const struct offer *o)
{
	const struct tighten_state *st = recon_state(e, &tighten_kind);

	return placement_tight(st->tight, st->n, o);
}

static void tighten_rows(struct step *s)
{
	struct tighten *t = arena_alloc(s->r->arena, sizeof(*t));
	int64_t now = engine_now(s->r->e);
	struct step *next;

	t->rows_n = q_engine_supply_states_rows(&s->req, s->r->arena, &t->rows);
	tight_keep(s->r->state, t);
	next = step_new(s->r, tighten_tries, t);
	STEP(next, engine_supply_window,
	    (&(struct q_engine_supply_window){ .since_us = now - s->r->e->conf.tightness.window_us,
		.week_us = now - WEEK_US,
		.at_us = now }));
}

static void tighten_pass(struct recon *r, void *state)
{
	struct tighten_state *st = state;
	int64_t now = loop_mono_us(r->e->loop);
	struct step *s;

	if (st->judged_us != 0 &&
	    now - st->judged_us < MIN(SPOT_US_PER_S * 60, r->e->conf.tightness.hold_us / 4)) {
		return;
	}
	st->judged_us = now;
	s = step_new(r, tighten_rows, NULL);
	STEP(s, engine_supply_states, NULL);
}

static void tighten_fini(void *state)
{
	struct tighten_state *st = state;

	arena_free(st->arena);
}

const struct recon_kind tighten_kind = { .name = "tighten",
	.wakes = TOUCH_OTHER,
	.idle_ticks = 10,
	.state_size = sizeof(struct tighten_state),
	.fini = tighten_fini,
	.pass = tighten_pass };
