/* Snapshots: the listed pools with quotas, hazards and odds. */
#include "base/base.h"
#include "store/market/market_priv.h"

#define SNAP_BYTES_MAX ((size_t)1 << 30)

/* Our nodes' use of one quota. Names are shared, so pointers compare. */
struct quota_use {
	const char *provider, *region, *class; /* region NULL: of all regions */
	enum spot_market market;
	int64_t machines, vcpus, gpus;
};

/* Queued machines use up the quota of spot machines (Google). */
static enum spot_market quota_market(enum spot_market m)
{
	return m == SPOT_MARKET_FLEX_START ? SPOT_MARKET_SPOT : m;
}

static bool use_same(const void *value, const void *key)
{
	const struct quota_use *a = value, *b = key;

	return a->provider == b->provider && a->region == b->region && a->class == b->class &&
	    a->market == b->market;
}

static uint64_t use_hash(const struct quota_use *u)
{
	uint64_t h = hash_mix(HASH_START, (uint64_t)(uintptr_t)u->provider);

	h = hash_mix(hash_mix(h, (uint64_t)(uintptr_t)u->region), (uint64_t)(uintptr_t)u->class);
	return hash_mix(h, (uint64_t)u->market);
}

static struct quota_use use_of(const struct offer *o, bool wide)
{
	return (struct quota_use){ .provider = o->provider,
		.region = wide ? NULL : o->region,
		.class = o->quota_class,
		.market = quota_market(o->market) };
}

static void use_add(struct map *uses, struct arena *a, const struct pool_row *w, bool wide)
{
	struct quota_use key = use_of(&w->offer, wide);
	uint64_t h = use_hash(&key);
	struct quota_use *u = map_get(uses, h, &key);

	if (u == NULL) {
		u = arena_alloc(a, sizeof(*u));
		*u = key;
		map_put(uses, h, u);
	}
	u->machines += w->counted;
	u->vcpus += (int64_t)w->counted * w->offer.vcpus;
	u->gpus += (int64_t)w->counted * ((w->offer.gpu_milli + 999) / 1000);
}

static int64_t quota_used(const struct map *uses, const struct pool_row *w)
{
	struct quota_use key = use_of(&w->offer, w->quota_wide);
	const struct quota_use *u = map_get(uses, use_hash(&key), &key);

	if (u == NULL) {
		return 0;
	}
	return strcmp(w->offer.quota_unit, "vcpu") == 0 ? u->vcpus
	    : strcmp(w->offer.quota_unit, "gpus") == 0  ? u->gpus
							: u->machines;
}

static void cool_ends_fill(struct market_snap *s)
{
	int64_t *ends = NULL;
	size_t cap = 0;

	for (size_t i = 0; i < s->n; i++) {
		const int64_t at[] = { s->offers[i].cool_until_us, s->offers[i].ends_us };

		for (size_t k = 0; k < ARRAY_LEN(at); k++) {
			if (at[k] > s->at_us) {
				ends =
				    arena_grow(s->arena, ends, s->cool_ends_n, &cap, sizeof(*ends));
				ends[s->cool_ends_n++] = at[k];
			}
		}
	}
	s->cool_ends = ends;
}

int64_t market_cool_end(const struct market_snap *s, int64_t now_us)
{
	int64_t end = INT64_MAX;

	for (size_t i = 0; i < s->cool_ends_n; i++) {
		if (s->cool_ends[i] > now_us) {
			end = MIN(end, s->cool_ends[i]);
		}
	}
	return end;
}

static void offers_fill(struct market_snap *s, const struct pool_rows *rows)
{
	struct map uses;

	map_init(&uses, s->arena, use_same);
	for (size_t i = 0; i < rows->n; i++) {
		if (rows->list[i].counted > 0) {
			use_add(&uses, s->arena, &rows->list[i], false);
			use_add(&uses, s->arena, &rows->list[i], true);
		}
	}
	s->offers = arena_array_raw(s->arena, rows->n + 1, sizeof(*s->offers));
	for (size_t i = 0; i < rows->n; i++) {
		const struct pool_row *w = &rows->list[i];
		struct offer *o = &s->offers[s->n];

		if (!w->listed) {
			continue;
		}
		*o = w->offer;
		if (o->has_quota && uses.n > 0) {
			o->quota_used = quota_used(&uses, w);
		}
		s->n++;
	}
}

/* One name a line; NULL: no engine has said who sells spot. */
static void sellers_fill(struct market_snap *s, const char *text)
{
	const char **names = NULL;
	size_t cap = 0;

	s->sellers_known = text != NULL;
	for (const char *at = text; at != NULL && *at != '\0';) {
		size_t n = strcspn(at, "\n");

		names = arena_grow(s->arena, names, s->sellers_n, &cap, sizeof(*names));
		names[s->sellers_n++] = arena_strndup(s->arena, at, n);
		at += n + (at[n] == '\n');
	}
	s->sellers = names;
}

struct market_snap *snap_make(const struct pool_rows *rows, const struct rank_policy *p,
    int64_t version, int64_t at_us, const char *sellers, bool known)
{
	struct arena *a = arena_new(SNAP_BYTES_MAX);
	struct market_snap *s = arena_alloc(a, sizeof(*s));

	s->holds = 1;
	s->arena = a;
	s->names = rows->names;
	s->names->holds++;
	s->version = version;
	s->at_us = at_us;
	s->policy = *p;
	s->known = known;
	sellers_fill(s, sellers);
	offers_fill(s, rows);
	cool_ends_fill(s);
	if (rows->told) {
		told_fill(s, rows);
	}
	s->hazards = hazard_model_build(a, s->offers, s->n, &s->policy, at_us);
	s->hazards_until_us = hazard_until_us(s->hazards);
	offers_believe(s->hazards, s->offers, s->n);
	return s;
}

static const struct offer *offer_find(const struct offer *offers, size_t n, int32_t pool_id)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (offers[mid].pool_id < pool_id) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < n && offers[lo].pool_id == pool_id ? &offers[lo] : NULL;
}

const struct offer *market_offer(const struct market_snap *s, int32_t pool_id)
{
	const struct offer *o = offer_find(s->offers, s->n, pool_id);

	return o != NULL ? o : offer_find(s->bare, s->bare_n, pool_id);
}

/* o may be of another snapshot, whose names are its own. */
static bool name_same(const char *a, const char *b)
{
	return a == b || strcmp(a, b) == 0;
}

void market_count(struct market_snap *s, const struct offer *o, int64_t machines)
{
	int64_t took = machines * offer_quota_need(o);

	s->counted = true;
	for (size_t i = 0; i < s->n; i++) {
		struct offer *x = &s->offers[i];

		if (x->has_quota && quota_market(x->market) == quota_market(o->market) &&
		    name_same(x->provider, o->provider) && name_same(x->region, o->region) &&
		    name_same(x->quota_class, o->quota_class)) {
			x->quota_used += took;
		}
	}
}

struct market_snap *market_hold(struct market_snap *s)
{
	if (s != NULL) {
		s->holds++;
	}
	return s;
}

void market_drop(struct market_snap *s)
{
	if (s != NULL && --s->holds == 0) {
		names_drop(s->names);
		arena_free(s->arena);
	}
}
