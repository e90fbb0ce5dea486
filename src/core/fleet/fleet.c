/* A fleet's plan: the allocation and its report. */
#include "base/base.h"
#include "core/fleet/fleet_priv.h"

#include <math.h>

#define SEARCH_DEFAULT 20000
#define STEPS_MAX 400000
#define BINDINGS_MAX 20

static const char *const limit_names[] = { [FLEET_PER_POOL] = "limits.per_pool",
	[FLEET_PER_ZONE] = "limits.per_zone",
	[FLEET_PER_REGION] = "limits.per_region",
	[FLEET_PER_PROVIDER] = "limits.per_provider",
	[FLEET_PER_GPU] = "limits.per_gpu",
	[FLEET_QUOTA] = "quota" };

const char *fleet_limit_name(enum fleet_limit l)
{
	return l > 0 && (size_t)l < ARRAY_LEN(limit_names) ? limit_names[l] : "";
}

/* ---- limits that bind ------------------------------------------------------------------------ */

static const char *group_words(struct fleet_model *m, const struct fleet_group *g)
{
	const struct fleet_group *up = g->parent >= 0 ? &m->groups[g->parent] : NULL;
	const struct fleet_group *top =
	    up != NULL && up->parent >= 0 ? &m->groups[up->parent] : NULL;

	if (g->kind == FG_QUOTA) {
		return arena_printf(m->arena, "%s %s %s %s", top != NULL ? top->name : "",
		    up != NULL ? up->name : "", g->name2, g->name);
	}
	return arena_printf(m->arena, "%s%s%s%s%s", top != NULL ? top->name : "",
	    top != NULL ? " " : "", up != NULL ? up->name : "", up != NULL ? " " : "", g->name);
}

static void quota_fill(struct fleet_model *m, const struct fleet_group *g, struct fleet_binding *b)
{
	for (int32_t k = 0; k < g->n; k++) {
		const struct fleet_item *i = &m->items[m->members[g->first + k]];

		if (i->offer != NULL && i->offer->has_quota) {
			b->unit = i->offer->quota_unit != NULL ? i->offer->quota_unit : "";
			b->max = i->offer->quota_limit;
			b->used = i->offer->quota_used + g->used;
			return;
		}
	}
}

static struct fleet_binding *binding_of(struct fleet_model *m, struct fleet_plan *p,
    enum fleet_limit l, int32_t group, int32_t *slots)
{
	int32_t *slot = &slots[group + 1];
	struct fleet_binding *b;

	if (*slot != 0) {
		return &p->bindings[*slot - 1];
	}
	b = &p->bindings[p->bindings_n];
	*slot = (int32_t)++p->bindings_n;
	*b = (struct fleet_binding){ .limit = l,
		.where = "",
		.unit = "nodes",
		.max = m->ask->spec->per_pool_max };
	if (group >= 0) {
		const struct fleet_group *g = &m->groups[group];

		b->where = group_words(m, g);
		b->max = g->cap;
		b->used = g->used;
		b->worth_micros = llround(g->dual * 1e6);
		if (l == FLEET_QUOTA) {
			quota_fill(m, g, b);
		}
	} else {
		b->used = b->max;
	}
	return b;
}

static int binding_compare(const void *pa, const void *pb)
{
	const struct fleet_binding *a = pa, *b = pb;

	if (a->worth_micros != b->worth_micros) {
		return a->worth_micros > b->worth_micros ? -1 : 1;
	}
	if (a->pools != b->pools) {
		return b->pools - a->pools;
	}
	return a->limit != b->limit ? (int)a->limit - (int)b->limit : strcmp(a->where, b->where);
}

/* Finds the limits that keep wanted pools out. While something is missing every pool is wanted,
 * else those cheaper than the most expensive picked one. */
static void bindings_find(struct fleet_model *m, struct fleet_plan *p)
{
	int32_t *slots = arena_array(m->arena, m->groups_n + 2, sizeof(*slots));
	double dearest = m->total < m->want ? INFINITY : 0;

	p->bindings = arena_array(m->arena, m->groups_n + 2, sizeof(*p->bindings));
	for (size_t k = 0; k < m->n; k++) {
		const struct fleet_item *i = &m->items[k];

		if (i->score != NULL && i->x > i->held) {
			dearest = fmax(dearest, fleet_gain(m, i) / (double)i->w);
		}
	}
	for (size_t k = 0; k < m->n; k++) {
		const struct fleet_item *i = &m->items[k];
		int32_t group;
		enum fleet_limit l = i->score != NULL ? fleet_blocked(m, i, &group) : 0;

		if (l != 0 && fleet_marginal(m, i) / (double)i->w < dearest) {
			binding_of(m, p, l, group, slots)->pools++;
		}
	}
	if (p->bindings_n > 1) {
		qsort(p->bindings, p->bindings_n, sizeof(*p->bindings), binding_compare);
	}
}

/* ---- picks ----------------------------------------------------------------------------------- */

static int pick_compare(const void *pa, const void *pb)
{
	const struct fleet_pick *a = pa, *b = pb;

	if (a->score->total_micros != b->score->total_micros) {
		return a->score->total_micros < b->score->total_micros ? -1 : 1;
	}
	return (a->score->offer->pool_id > b->score->offer->pool_id) -
	    (a->score->offer->pool_id < b->score->offer->pool_id);
}

static void picks_take(struct fleet_model *m, struct fleet_plan *p)
{
	size_t gives = 0;

	for (size_t k = 0; k < m->n; k++) {
		p->n += m->items[k].x > m->items[k].held;
		gives += m->items[k].x < m->items[k].held;
	}
	p->picks = arena_array(m->arena, p->n + 1, sizeof(*p->picks));
	p->gives = arena_array(m->arena, gives + 1, sizeof(*p->gives));
	p->n = 0;
	for (size_t k = 0; k < m->n; k++) {
		const struct fleet_item *i = &m->items[k];

		p->hourly_micros += i->price_micros * i->x;
		if (i->x > i->held) {
			p->picks[p->n++] = (struct fleet_pick){ .score = i->score,
				.nodes = i->x - i->held,
				.marginal_micros = llround(fleet_gain(m, i) * 1e6) };
		}
		if (i->x < i->held) {
			p->gives[p->gives_n++] = (struct fleet_give){ .pool_id = i->pool_id,
				.nodes = i->held - i->x,
				.saves_micros = llround(fleet_marginal(m, i) * 1e6) };
			p->surplus += i->held - i->x;
		}
	}
	if (p->n > 1) {
		qsort(p->picks, p->n, sizeof(*p->picks), pick_compare);
	}
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *binding_words(struct arena *a, const struct fleet_binding *b)
{
	if (b->limit == FLEET_PER_POOL) {
		return arena_printf(a, "limits.per_pool %" PRId64 " is reached in %d", b->max,
		    b->pools);
	}
	return arena_printf(a, "%s %s%s%" PRId64 " of %" PRId64 " %s keeps %d out",
	    fleet_limit_name(b->limit), b->where, *b->where != '\0' ? ": " : "", b->used, b->max,
	    b->unit, b->pools);
}

static const char *why_words(struct fleet_model *m, const struct fleet_plan *p)
{
	struct arena *a = m->arena;
	const char *why = arena_printf(a, "%zu pools chosen of %zu usable, %d missing, %d surplus",
	    p->n, p->usable, p->missing, p->surplus);

	if (p->missing > 0 && p->usable == 0) {
		why = arena_printf(a, "%s: no pool suits", why);
	}
	for (size_t i = 0; p->missing > 0 && i < p->bindings_n && i < 3; i++) {
		why = arena_printf(a, "%s%s%s", why, i == 0 ? ": of the usable pools " : "; ",
		    binding_words(a, &p->bindings[i]));
	}
	if (p->floor_have < p->floor_want) {
		why = arena_printf(a, "%s; %g of %g on demand: no more can be had", why,
		    p->floor_have / (m->ask->spec->floor_pm > 0 ? 1000.0 : 1),
		    p->floor_want / (m->ask->spec->floor_pm > 0 ? 1000.0 : 1));
	}
	if (p->pools < p->pools_want) {
		why = arena_printf(a, "%s; %d pools of %d beside on demand", why, p->pools,
		    p->pools_want);
	}
	if (p->n > 0) {
		why = arena_printf(a,
		    "%s; %.4f USD/h of work + %.4f risk, the least possible is at most %.2f %% "
		    "lower",
		    why, (double)p->cost_micros / 1e6, (double)p->risk_micros / 1e6, p->gap * 100);
	}
	return why;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void sums_fill(struct fleet_model *m, struct fleet_plan *p)
{
	double risk, all = fleet_cost(m, &risk);

	p->missing = (int32_t)((MAX(m->want - m->total, 0) + 999) / 1000);
	p->floor_want = (int32_t)MIN(m->floor, INT32_MAX);
	p->floor_have = (int32_t)MIN(m->floor_have, INT32_MAX);
	p->pools = (int32_t)m->pools;
	p->pools_want = (int32_t)m->pools_want;
	p->cost_micros = llround((all - risk) * 1e6);
	p->risk_micros = llround(risk * 1e6);
	p->lost_together =
	    m->kappa > 0 ? risk / m->kappa / ((double)m->want / (double)m->w_ref) : 0;
	p->risk_price_micros = llround(m->kappa * (double)m->want / (double)m->w_ref * 1e6);
	p->want = (double)m->want / 1000.0;
	p->have = (double)m->held / 1000.0;
}

static void gap_fill(struct fleet_model *m, struct fleet_plan *p)
{
	double all = fleet_cost(m, NULL), bound = m->added > 0 || !p->proved ? fleet_bound(m) : all;

	if (p->proved || bound > all) {
		bound = all;
	}
	bound = fmax(bound, 0);
	p->bound_micros = (int64_t)floor(bound * 1e6);
	p->gap = all > 1e-9 ? (all - bound) / all : 0;
}

void fleet_job(const struct fleet_spec *f, struct job_spec *ret)
{
	*ret = (struct job_spec){ .asks = f->asks,
		.asks_n = f->asks_n,
		.interruptible = true,
		.checkpoint.path = "." };
}

bool fleet_again(const struct fleet_seen *was, const struct fleet_seen *is, int64_t now_us)
{
	return was == NULL || was->fleet_id != is->fleet_id || was->version != is->version ||
	    was->offers != is->offers || was->nodes != is->nodes || now_us >= was->until_us;
}

void fleet_plan_make(struct arena *a, const struct fleet_ask *ask, struct fleet_plan *ret)
{
	struct fleet_model m;
	int64_t most = ask->search_max == 0 ? SEARCH_DEFAULT : ask->search_max;
	struct fleet_least least;

	fleet_least_find(ask, &least);
	*ret = (struct fleet_plan){ 0 };
	ret->usable = ask->scores_n;
	/* Most passes see a fleet at its size. That check does not need the whole market. */
	fleet_model_build(&m, a, ask, true, &least);
	if (m.total >= m.want && m.floor_have >= m.floor) {
		ret->proved = true;
	} else {
		fleet_model_build(&m, a, ask, false, &least);
		fleet_fill(&m);
		m.steps_max = STEPS_MAX + m.steps;
		fleet_improve(&m);
		ret->proved =
		    (most > 0 && fleet_search(&m, most)) || (m.added == 0 && m.total >= m.want);
		if (!ret->proved && (m.total < m.want || m.floor_have < m.floor)) {
			/* The exchanges may leave room for a node that makes others needless. */
			fleet_fill(&m);
		}
	}
	if (m.added == 0) {
		/* A plan never adds and gives back at once: new nodes count when they exist. */
		fleet_drop(&m);
	}
	sums_fill(&m, ret);
	gap_fill(&m, ret);
	picks_take(&m, ret);
	bindings_find(&m, ret);
	ret->steps = (size_t)m.steps;
	ret->why = why_words(&m, ret);
}
