/* Finds a pool's group, and the offer with a pool id. Names are hashed once and compared as 64
 * bits. The tables are hand-made: base/map would call through a pointer at each look-up, and
 * model_join() could not prefetch its slots. */
#include "base/base.h"
#include "core/hazard/hazard_priv.h"

#define SLOTS_MIN 64

/* ---- names to ids ---------------------------------------------------------------------------- */

static uint64_t name_hash(const char *s)
{
	return s == NULL ? 0 : hash_words(1, s, strlen(s));
}

/* Like name_hash(), but caches by the name's address, since offers_share_names() stores each name
 * once. near NULL: computes it. */
static uint64_t near_hash(struct name_near *near, const char *s)
{
	struct name_near *at;

	if (near == NULL || s == NULL) {
		return name_hash(s);
	}
	at = &near[(uint64_t)(uintptr_t)s * HASH_MIXER >> 54];
	if (at->name != s) {
		*at = (struct name_near){ s, name_hash(s) };
	}
	return at->hash;
}

/* Hashes the hardware that pools share: the GPU, or without one the type's name up to its size.
 * That is "m5" of m5.large, "n2" of n2-standard-4, "Standard_D" of Standard_D4s_v5. */
static uint64_t family_hash(struct name_near *near, const struct offer *o)
{
	const char *t = o->instance_type;

	if (o->gpu_name != NULL && o->gpu_name[0] != '\0') {
		return near_hash(near, o->gpu_name);
	}
	if (t == NULL) {
		return 1;
	}
	return strncmp(t, "Standard_", 9) == 0 ? hash_words(2, t, 9 + strcspn(t + 9, "0123456789"))
					       : hash_words(2, t, strcspn(t, ".-"));
}

struct place {
	uint64_t provider, region, zone, family;
	enum signal signal;
};

static void place_hash(struct name_near *near, const struct offer *o, enum signal signal,
    struct place *ret)
{
	ret->signal = signal;
	ret->provider = hash_mix(hash_mix(hash_mix(3, (uint64_t)o->market), (uint64_t)signal),
	    near_hash(near, o->provider));
	ret->region = hash_mix(ret->provider, near_hash(near, o->region));
	ret->zone = hash_mix(ret->region, near_hash(near, o->zone));
	ret->family = family_hash(near, o);
}

uint64_t model_kin(const struct offer *o)
{
	uint64_t h = hash_mix(6, name_hash(o->provider));

	return hash_mix(hash_mix(h, name_hash(o->region)), family_hash(NULL, o));
}

static uint64_t group_key(const struct place *place, enum level level)
{
	uint64_t h = hash_mix(place->provider, level);

	switch (level) {
	case LEVEL_PROVIDER:
		break;
	case LEVEL_FAMILY:
		h = hash_mix(h, place->family);
		break;
	case LEVEL_REGION:
		h = hash_mix(hash_mix(h, place->family), place->region);
		break;
	case LEVEL_ZONE:
	case LEVEL_POOL:
		h = hash_mix(hash_mix(h, place->family), place->zone);
		break;
	}
	return h | 1; /* 0 is an empty slot */
}

static size_t slot_of(const struct hazard_model *m, uint64_t key)
{
	size_t i = (size_t)(key >> 7) & (m->slots_n - 1);

	while (m->keys[i] != 0 && m->keys[i] != key) {
		i = (i + 1) & (m->slots_n - 1);
	}
	return i;
}

static void slots_grow(struct arena *a, struct hazard_model *m)
{
	const uint64_t *keys = m->keys;
	const int32_t *slots = m->slots;
	size_t n = m->slots_n;

	m->slots_n = n == 0 ? SLOTS_MIN : n * 4;
	m->keys = arena_array(a, m->slots_n, sizeof(*m->keys));
	m->slots = arena_array(a, m->slots_n, sizeof(*m->slots));
	for (size_t i = 0; i < n; i++) {
		if (keys[i] != 0) {
			size_t to = slot_of(m, keys[i]);

			m->keys[to] = keys[i];
			m->slots[to] = slots[i];
		}
	}
}

/* Returns the group of this level. Creates it and those above it if missing. */
static int32_t group_get(struct arena *a, struct hazard_model *m, const struct place *place,
    enum level level)
{
	uint64_t key = group_key(place, level);
	size_t slot = slot_of(m, key);
	int32_t parent = -1;
	struct group *g;

	if (m->keys[slot] != 0) {
		return m->slots[slot];
	}
	if (level != LEVEL_PROVIDER) {
		parent = group_get(a, m, place, level - 1);
	}
	if ((m->groups_n + 1) * 2 > m->slots_n) {
		slots_grow(a, m);
	}
	slot = slot_of(m, key);
	m->groups = arena_grow(a, m->groups, m->groups_n, &m->groups_cap, sizeof(*m->groups));
	g = &m->groups[m->groups_n];
	*g = (struct group){ .parent = parent, .level = level, .signal = place->signal };
	g->a = g->b = signal_shape(place->signal);
	m->keys[slot] = key;
	m->slots[slot] = (int32_t)m->groups_n;
	return (int32_t)m->groups_n++;
}

void model_join(struct arena *a, struct hazard_model *m, struct name_near near[NAMES_NEAR],
    size_t from, size_t n)
{
	struct place places[JOIN_MAX];

	if (m->slots_n == 0) {
		slots_grow(a, m);
	}
	for (size_t i = 0; i < n; i++) {
		place_hash(near, &m->offers[from + i], m->leaves[from + i].signal, &places[i]);
		__builtin_prefetch(
		    &m->keys[(size_t)(group_key(&places[i], LEVEL_ZONE) >> 7) & (m->slots_n - 1)]);
	}
	for (size_t i = 0; i < n; i++) {
		m->leaves[from + i].group = group_get(a, m, &places[i], LEVEL_ZONE);
	}
}

int32_t model_group(const struct hazard_model *m, const struct offer *o)
{
	struct place place;

	if (m->slots_n == 0) {
		return -1;
	}
	place_hash(NULL, o, hazard_prior(o, m->policy).signal, &place);
	for (int level = LEVEL_ZONE; level >= LEVEL_PROVIDER; level--) {
		size_t slot = slot_of(m, group_key(&place, (enum level)level));

		if (m->keys[slot] != 0) {
			return m->slots[slot];
		}
	}
	return -1;
}

/* ---- pool ids -------------------------------------------------------------------------------- */

static size_t id_slot(const struct hazard_model *m, int32_t id)
{
	size_t i = (size_t)(hash_mix(5, (uint32_t)id) >> 7) & (m->ids_n - 1);

	while (m->ids[i] >= 0 && m->offers[m->ids[i]].pool_id != id) {
		i = (i + 1) & (m->ids_n - 1);
	}
	return i;
}

/* Builds the table of pool ids. Offers that come ordered by id, as from the database, need none. */
void model_ids(struct arena *a, struct hazard_model *m)
{
	size_t i = 1;

	while (i < m->n && m->offers[i - 1].pool_id < m->offers[i].pool_id) {
		i++;
	}
	if (i >= m->n) {
		return;
	}
	for (m->ids_n = SLOTS_MIN; m->ids_n < m->n * 2; m->ids_n *= 2) {
	}
	m->ids = arena_array(a, m->ids_n, sizeof(*m->ids));
	memset(m->ids, 0xff, m->ids_n * sizeof(*m->ids));
	for (i = 0; i < m->n; i++) {
		m->ids[id_slot(m, m->offers[i].pool_id)] = (int32_t)i;
	}
}

const struct offer *model_find(const struct hazard_model *m, const struct offer *o)
{
	size_t lo = 0, hi = m->n;

	if (m->n > 0 && o >= m->offers && o < m->offers + m->n) {
		return o;
	}
	if (m->ids != NULL) {
		int32_t i = m->ids[id_slot(m, o->pool_id)];

		return i < 0 ? NULL : &m->offers[i];
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->offers[mid].pool_id < o->pool_id) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < m->n && m->offers[lo].pool_id == o->pool_id ? &m->offers[lo] : NULL;
}
