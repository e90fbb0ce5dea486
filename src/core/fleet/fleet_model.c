/* The allocation problem as arrays: pools by id, the groups that share a limit or fail together,
 * and the state of the plan. */
#include "base/base.h"
#include "core/fleet/fleet_priv.h"
#include "core/hazard/hazard.h"

#include <math.h>

/* ---- groups ---------------------------------------------------------------------------------- */

static bool group_is(const struct fleet_group *g, enum fleet_kind kind, int32_t parent,
    const char *name, const char *name2)
{
	return g->kind == kind && g->parent == parent && strcmp(g->name, name) == 0 &&
	    strcmp(g->name2, name2) == 0;
}

static int64_t kind_cap(const struct fleet_spec *f, enum fleet_kind kind)
{
	int32_t caps[FLEET_KINDS] = { [FG_PROVIDER] = f->per_provider_max,
		[FG_REGION] = f->per_region_max,
		[FG_ZONE] = f->per_zone_max,
		[FG_GPU] = f->per_gpu_max };

	return caps[kind] > 0 ? caps[kind] : FLEET_NONE;
}

/* The table is hand-made: base/map would call through a pointer at each look-up, and each item asks
 * for five or six groups. */
static int32_t group_get(struct fleet_model *m, enum fleet_kind kind, int32_t parent,
    const char *name, const char *name2)
{
	uint64_t h = (HASH_START ^ (uint64_t)kind) + (uint64_t)(parent + 1) * HASH_MIXER;
	size_t at;

	h = hash_str(hash_str(h, name), name2);
	at = (size_t)(h ^ (h >> 29)) & (m->slots_n - 1);
	for (; m->slots[at] != 0; at = (at + 1) & (m->slots_n - 1)) {
		if (group_is(&m->groups[m->slots[at] - 1], kind, parent, name, name2)) {
			return m->slots[at] - 1;
		}
	}
	m->groups =
	    arena_grow(m->arena, m->groups, m->groups_n, &m->groups_cap, sizeof(*m->groups));
	m->groups[m->groups_n] = (struct fleet_group){ .kind = kind,
		.parent = parent,
		.name = name,
		.name2 = name2,
		.cap = kind_cap(m->ask->spec, kind) };
	m->slots[at] = (int32_t)++m->groups_n;
	return m->slots[at] - 1;
}

/* Like group_get(), but caches by the addresses of the names. One read of the market stores each
 * name once (offers_share_names). */
static int32_t group_near(struct fleet_model *m, enum fleet_kind kind, int32_t parent,
    const char *name, const char *name2)
{
	uint64_t h = (uint64_t)(uintptr_t)name + 3 * (uint64_t)(uintptr_t)name2 +
	    ((uint64_t)(parent + 1) << 3) + (uint64_t)kind;
	struct fleet_near *near = &m->near[h * HASH_MIXER >> (64 - FLEET_NEAR_BITS)];

	if (near->name != name || near->name2 != name2 || near->parent != parent ||
	    near->kind != kind) {
		*near = (struct fleet_near){ name, name2, kind, parent,
			group_get(m, kind, parent, name, name2) };
	}
	return near->group;
}

static const char *or_empty(const char *s)
{
	return s != NULL ? s : "";
}

static void item_groups(struct fleet_model *m, struct fleet_item *i)
{
	const struct offer *o = i->offer;
	const char *provider = or_empty(o != NULL ? o->provider : i->have->provider);
	const char *region = or_empty(o != NULL ? o->region : i->have->region);
	const char *zone = or_empty(o != NULL ? o->zone : i->have->zone);
	const char *gpu = or_empty(o != NULL ? o->gpu_name : "");

	i->g[FG_PROVIDER] = group_near(m, FG_PROVIDER, -1, provider, "");
	i->g[FG_REGION] = group_near(m, FG_REGION, i->g[FG_PROVIDER], region, "");
	i->g[FG_ZONE] = group_near(m, FG_ZONE, i->g[FG_REGION], zone, "");
	i->g[FG_FAMILY] = group_near(m, FG_FAMILY, i->g[FG_ZONE],
	    *gpu != '\0' || o == NULL ? gpu : or_empty(o->instance_type), "");
	i->g[FG_GPU] = *gpu != '\0' ? group_near(m, FG_GPU, -1, gpu, "") : -1;
	i->g[FG_QUOTA] = -1;
	if (o != NULL && o->has_quota) {
		struct fleet_group *g;

		i->g[FG_QUOTA] = group_near(m, FG_QUOTA, i->g[FG_REGION], or_empty(o->quota_class),
		    spot_market_name(o->market));
		g = &m->groups[i->g[FG_QUOTA]];
		i->need = MAX(offer_quota_need(o), 1);
		g->cap = MIN(g->cap, MAX(o->quota_limit - o->quota_used, 0));
	}
}

/* ---- weight and cost of a node --------------------------------------------------------------- */

static const struct gpu_ask *first_gpu(const struct fleet_spec *f)
{
	for (size_t i = 0; i < f->asks_n; i++) {
		if (f->asks[i].gpus_n > 0) {
			return &f->asks[i].gpus[0];
		}
	}
	return NULL;
}

bool fleet_by_work(const struct fleet_spec *f)
{
	return f->nodes == 0 && f->gpus_of != NULL && *f->gpus_of != '\0';
}

double fleet_gpu_worth(const struct fleet_spec *f, const char *gpu)
{
	struct gpu_ask ask = { f->gpus_of, 1000 };
	struct resource_ask res = { .gpus = &ask, .gpus_n = 1 };
	struct job_spec job = { .asks = &res, .asks_n = 1 };

	return gpu_speed_table(&job, gpu);
}

static int64_t weight_of(struct fleet_model *m, const struct fleet_item *i)
{
	const struct fleet_spec *f = m->ask->spec;
	int32_t milli = i->offer != NULL ? i->offer->gpu_milli : i->have->gpu_milli;
	struct fleet_group *g = i->g[FG_GPU] >= 0 ? &m->groups[i->g[FG_GPU]] : NULL;

	if (f->nodes > 0 || f->gpus == 0) {
		return 1000;
	}
	if (!fleet_by_work(f) || g == NULL) {
		return milli;
	}
	/* looked up once; the bound overwrites dual later */
	if (g->dual <= 0) {
		g->dual = fleet_gpu_worth(f, g->name);
	}
	return llround(g->dual * milli);
}

static int64_t weight_of_reference(const struct fleet_spec *f)
{
	const struct gpu_ask *ref = first_gpu(f);

	if (f->nodes > 0 || f->gpus == 0 || ref == NULL || ref->milli <= 0) {
		return 1000;
	}
	return fleet_by_work(f) ? MAX(llround(fleet_gpu_worth(f, ref->gpu) * ref->milli), 1)
				: ref->milli;
}

/* Returns the score now, or for a held pool that is not usable now the one it would have. */
static const struct score *score_of(const struct fleet_item *i)
{
	return i->score != NULL ? i->score : i->have->score;
}

static double unscored_cost(const struct fleet_ask *ask, const struct fleet_item *i)
{
	struct job_spec job = { .asks = ask->spec->asks, .asks_n = ask->spec->asks_n };

	return (double)i->price_micros / 1e6 /
	    (i->offer != NULL ? fmax(rank_throughput(&job, i->offer), 1e-3) : 1);
}

static double reference_cost(const struct fleet_ask *ask, const struct fleet_item *i)
{
	const struct score *s = score_of(i);
	double work_h = s != NULL ? s->work_h * s->throughput : 0;

	if (i->offer != NULL && i->offer->market == SPOT_MARKET_RESERVED) {
		return 0;
	}
	if (s != NULL) {
		return (double)s->total_micros / 1e6 / (work_h > 0 ? work_h : 1);
	}
	return unscored_cost(ask, i);
}

static void item_terms(struct fleet_model *m, struct fleet_item *i)
{
	const struct fleet_spec *f = m->ask->spec;
	enum spot_market market = i->offer != NULL ? i->offer->market : i->have->market;
	double hazard = score_of(i) != NULL            ? score_of(i)->hazard
	    : i->offer != NULL && i->offer->has_hazard ? i->offer->hazard
						       : 0;

	item_groups(m, i);
	i->w = weight_of(m, i);
	i->u = (double)i->w / (double)m->w_ref;
	i->fw = spot_market_reclaims(market) || market == SPOT_MARKET_NONE ? 0
	    : f->floor_pm > 0                                              ? i->w
									   : 1;
	i->c = reference_cost(m->ask, i) * i->u;
	i->q = i->u * sqrt(fmax(hazard, 0));
	i->cap = f->per_pool_max > 0 ? f->per_pool_max : INT32_MAX;
	i->spread =
	    market == SPOT_MARKET_RESERVED || (i->fw == 0 && i->c < m->least.on_demand * i->u);
	if (i->w <= 0) {
		i->score = NULL;
	}
}

/* ---- items ----------------------------------------------------------------------------------- */

/* The source of an item: an index into the scores, then into the held nodes. */
struct source {
	uint32_t id; /* of the pool, so that unsigned order is that of ids */
	uint32_t at;
};

static uint32_t id_key(int32_t pool_id)
{
	return (uint32_t)pool_id ^ UINT32_C(0x80000000);
}

/* Sorts by pool id, stable. */
static struct source *sources_sort(struct arena *a, struct source *from, size_t n)
{
	struct source *to;
	bool sorted = true;

	for (size_t i = 1; i < n && sorted; i++) {
		sorted = from[i - 1].id <= from[i].id;
	}
	if (sorted) {
		return from;
	}
	to = arena_array_raw(a, n, sizeof(*to));
	for (unsigned shift = 0; shift < 33; shift += 11) {
		size_t at[2049] = { 0 };
		struct source *swap = from;

		for (size_t i = 0; i < n; i++) {
			at[(from[i].id >> shift & 2047) + 1]++;
		}
		for (size_t k = 1; k < 2049; k++) {
			at[k] += at[k - 1];
		}
		for (size_t i = 0; i < n; i++) {
			to[at[from[i].id >> shift & 2047]++] = from[i];
		}
		from = to;
		to = swap;
	}
	return from;
}

static int id_compare(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

static int32_t *held_ids(const struct fleet_model *m)
{
	int32_t *ids = arena_array(m->arena, m->ask->have_n + 1, sizeof(*ids));

	for (size_t i = 0; i < m->ask->have_n; i++) {
		ids[i] = m->ask->have[i].pool_id;
	}
	qsort(ids, m->ask->have_n, sizeof(*ids), id_compare);
	return ids;
}

#define AHEAD 8

static struct source *sources_take(struct fleet_model *m, bool only_held, size_t *ret_n)
{
	const struct fleet_ask *ask = m->ask;
	const int32_t *held = only_held ? held_ids(m) : NULL;
	struct source *list = arena_array_raw(m->arena,
	    (only_held ? ask->have_n : ask->scores_n) + ask->have_n + 1, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; i < ask->scores_n && !(only_held && n == ask->have_n); i++) {
		int32_t id = ask->scores[i].offer->pool_id;

		__builtin_prefetch(ask->scores[MIN(i + AHEAD, ask->scores_n - 1)].offer);
		if (!only_held ||
		    bsearch(&id, held, ask->have_n, sizeof(*held), id_compare) != NULL) {
			list[n++] = (struct source){ id_key(id), (uint32_t)i };
		}
	}
	for (size_t i = 0; i < ask->have_n; i++) {
		list[n++] =
		    (struct source){ id_key(ask->have[i].pool_id), (uint32_t)(ask->scores_n + i) };
	}
	*ret_n = n;
	return sources_sort(m->arena, list, n);
}

static void source_read(const struct fleet_ask *ask, const struct source *from,
    struct fleet_item *ret)
{
	if (from->at < ask->scores_n) {
		const struct score *s = &ask->scores[from->at];

		*ret = (struct fleet_item){ .score = s,
			.offer = s->offer,
			.pool_id = s->offer->pool_id,
			.price_micros = s->offer->price_micros };
	} else {
		const struct fleet_have *h = &ask->have[from->at - ask->scores_n];

		*ret = (struct fleet_item){ .have = h,
			.offer = h->offer,
			.pool_id = h->pool_id,
			.held = h->nodes,
			.idle = MIN(h->idle, h->nodes),
			.coming = h->coming,
			.price_micros = h->price_micros };
	}
}

/* Merges two sources of one pool: a held pool that is usable is one item. */
static void item_merge(struct fleet_item *to, const struct fleet_item *x)
{
	to->score = to->score != NULL ? to->score : x->score;
	to->offer = to->offer != NULL ? to->offer : x->offer;
	to->have = to->have != NULL ? to->have : x->have;
	to->held += x->held;
	to->idle += x->idle;
	to->coming += x->coming;
	to->price_micros = MAX(to->price_micros, x->price_micros);
}

static void items_take(struct fleet_model *m, bool only_held)
{
	const struct fleet_ask *ask = m->ask;
	size_t n;
	const struct source *from = sources_take(m, only_held, &n);

	m->items = arena_array_raw(m->arena, n + 1, sizeof(*m->items));
	for (size_t i = 0; i < n; i++) {
		const struct source *next = &from[MIN(i + AHEAD, n - 1)];

		if (next->at < ask->scores_n) {
			__builtin_prefetch(&ask->scores[next->at]);
			__builtin_prefetch(&ask->scores[next->at].hazard);
		}
		source_read(ask, &from[i], &m->items[m->n]);
		if (m->n > 0 && m->items[m->n - 1].pool_id == m->items[m->n].pool_id) {
			item_merge(&m->items[m->n - 1], &m->items[m->n]);
			continue;
		}
		if (m->n > 0) {
			item_terms(m, &m->items[m->n - 1]);
		}
		m->n++;
	}
	if (m->n > 0) {
		item_terms(m, &m->items[m->n - 1]);
	}
}

/* ---- the wanted amount ----------------------------------------------------------------------- */

/* Reads how much pools fail together, by what they share, from made-up pools of each level. */
static void deltas_read(struct fleet_model *m)
{
	struct offer a = { .pool_id = -1,
		.provider = "p",
		.region = "r",
		.zone = "z",
		.gpu_name = "g",
		.instance_type = "t" };
	struct offer b[FLEET_LEVELS];
	double was = 0;

	for (int l = 0; l < FLEET_LEVELS && m->ask->hazards != NULL; l++) {
		b[l] = a;
		b[l].pool_id = -2;
		b[l].region = l >= FG_REGION ? a.region : "other";
		b[l].zone = l >= FG_ZONE ? a.zone : "other";
		b[l].gpu_name = l >= FG_FAMILY ? a.gpu_name : "other";
		b[l].instance_type = b[l].gpu_name;
		m->delta[l] =
		    fmax(fmin(hazard_correlation(m->ask->hazards, &a, &b[l]), 1) - was, 0);
		was += m->delta[l];
	}
	m->delta[FLEET_LEVELS] = 1 - was;
}

void fleet_least_find(const struct fleet_ask *ask, struct fleet_least *ret)
{
	struct fleet_least least = { INFINITY, INFINITY, INFINITY };

	for (size_t i = 0; i < ask->scores_n; i++) {
		const struct fleet_item x = { .score = &ask->scores[i],
			.offer = ask->scores[i].offer };
		double c;

		__builtin_prefetch(ask->scores[MIN(i + AHEAD, ask->scores_n - 1)].offer);
		c = reference_cost(ask, &x);
		if (c <= 0) {
			continue;
		}
		least.any = fmin(least.any, c);
		if (x.offer->market == SPOT_MARKET_SPOT) {
			least.spot = fmin(least.spot, c);
		} else if (x.offer->market == SPOT_MARKET_ON_DEMAND) {
			least.on_demand = fmin(least.on_demand, c);
		}
	}
	*ret = least;
}

static void wanted_read(struct fleet_model *m)
{
	const struct fleet_spec *f = m->ask->spec;

	m->w_min = INT64_MAX;
	for (size_t i = 0; i < m->n; i++) {
		const struct fleet_item *x = &m->items[i];

		if (x->score != NULL) {
			m->w_max = MAX(m->w_max, x->w);
			m->fw_max = MAX(m->fw_max, x->fw);
			m->w_min = MIN(m->w_min, x->w);
		}
	}
	m->want = 1000 * (int64_t)(f->nodes > 0 ? f->nodes : f->gpus);
	m->floor = f->floor_pm > 0 ? (m->want * f->floor_pm + 999) / 1000 : f->on_demand_floor;
	m->floor = f->nodes > 0 && f->floor_pm == 0 ? MIN(m->floor, f->nodes)
	    : m->want == 0                          ? 0
						    : m->floor;
	m->kappa = m->want > 0 && isfinite(m->least.any)
	    ? fmax(f->risk, 0) * m->least.any / ((double)m->want / (double)m->w_ref)
	    : 0;
}

/* Sets how many pools the nodes beyond the floor should use. The floor counts as one pool. None if
 * only on-demand pools are there. */
static void pools_want_read(struct fleet_model *m)
{
	const struct fleet_spec *f = m->ask->spec;
	int64_t unit = m->w_min < INT64_MAX ? m->w_min : 1000;
	int64_t rest = m->want - (f->floor_pm > 0 ? m->floor : m->floor * unit);
	bool any = m->least.spot < m->least.on_demand;

	for (size_t i = 0; i < m->n && !any; i++) {
		any = m->items[i].spread;
	}
	m->pools_want =
	    any ? MIN(MAX(f->pools_min, 1) - (m->floor > 0), (MAX(rest, 0) + unit - 1) / unit) : 0;
}

static void members_fill(struct fleet_model *m)
{
	int32_t at = 0;

	m->members = arena_array(m->arena, m->n * FLEET_KINDS + 1, sizeof(*m->members));
	for (size_t i = 0; i < m->n; i++) {
		for (int k = 0; k < FLEET_KINDS; k++) {
			if (m->items[i].g[k] >= 0) {
				m->groups[m->items[i].g[k]].n++;
			}
		}
	}
	for (size_t g = 0; g < m->groups_n; g++) {
		m->groups[g].first = at;
		at += m->groups[g].n;
		m->groups[g].n = 0;
		m->groups[g].dual = 0;
	}
	for (size_t i = 0; i < m->n; i++) {
		for (int k = 0; k < FLEET_KINDS; k++) {
			if (m->items[i].g[k] >= 0) {
				struct fleet_group *g = &m->groups[m->items[i].g[k]];

				m->members[g->first + g->n++] = (int32_t)i;
			}
		}
	}
}

/* Nodes that come in the place of others take their share of the limits. */
static void item_reserve(struct fleet_model *m, struct fleet_item *i)
{
	static const enum fleet_kind kinds[] = { FG_PROVIDER, FG_REGION, FG_ZONE, FG_GPU };

	i->cap -= i->coming;
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		if (i->g[kinds[k]] >= 0) {
			m->groups[i->g[kinds[k]]].used += i->coming;
		}
	}
}

void fleet_model_build(struct fleet_model *m, struct arena *a, const struct fleet_ask *ask,
    bool only_held, const struct fleet_least *least)
{
	size_t most = (only_held ? ask->have_n : ask->scores_n) + ask->have_n;

	*m = (struct fleet_model){ .arena = a,
		.ask = ask,
		.least = *least,
		.w_ref = weight_of_reference(ask->spec) };
	for (m->slots_n = 64; m->slots_n < most * 8; m->slots_n *= 2) {
	}
	m->slots = arena_array(a, m->slots_n, sizeof(*m->slots));
	m->near = arena_array(a, (size_t)1 << FLEET_NEAR_BITS, sizeof(*m->near));
	items_take(m, only_held);
	deltas_read(m);
	wanted_read(m);
	pools_want_read(m);
	members_fill(m);
	for (size_t i = 0; i < m->n; i++) {
		fleet_put(m, &m->items[i], m->items[i].held);
		item_reserve(m, &m->items[i]);
	}
	m->held = m->total;
}
