#include "base/base.h"
#include "base/map.h"

#include "base/arena.h"

#define SLOTS_MIN 16

void map_init(struct map *m, struct arena *arena, bool (*same)(const void *value, const void *key))
{
	*m = (struct map){ .arena = arena, .same = same };
}

void map_fini(struct map *m)
{
	if (m->arena == NULL) {
		free(m->slots);
	}
	map_init(m, m->arena, m->same);
}

void map_clear(struct map *m)
{
	if (m->slots_n > 0) {
		memset(m->slots, 0, m->slots_n * sizeof(*m->slots));
	}
	m->n = 0;
}

static size_t slot_home(const struct map *m, uint64_t hash)
{
	return (size_t)(hash ^ hash >> 32) & (m->slots_n - 1);
}

static struct map_slot *slot_free(struct map *m, uint64_t hash)
{
	size_t at = slot_home(m, hash);

	while (m->slots[at].value != NULL) {
		at = (at + 1) & (m->slots_n - 1);
	}
	return &m->slots[at];
}

static struct map_slot *slot_find(const struct map *m, uint64_t hash, const void *key)
{
	if (m->n == 0) {
		return NULL;
	}
	for (size_t at = slot_home(m, hash); m->slots[at].value != NULL;
	     at = (at + 1) & (m->slots_n - 1)) {
		struct map_slot *s = &m->slots[at];

		if (s->hash == hash && m->same(s->value, key)) {
			return s;
		}
	}
	return NULL;
}

static void map_grow(struct map *m)
{
	struct map_slot *old = m->slots;
	size_t old_n = m->slots_n;

	m->slots_n = MAX(old_n * 2, (size_t)SLOTS_MIN);
	m->slots = m->arena != NULL ? arena_array(m->arena, m->slots_n, sizeof(*m->slots))
				    : calloc(m->slots_n, sizeof(*m->slots));
	if (m->slots == NULL) {
		abort();
	}
	for (size_t i = 0; i < old_n; i++) {
		if (old[i].value != NULL) {
			*slot_free(m, old[i].hash) = old[i];
		}
	}
	if (m->arena == NULL) {
		free(old);
	}
}

void *map_get(const struct map *m, uint64_t hash, const void *key)
{
	const struct map_slot *s = slot_find(m, hash, key);

	return s != NULL ? s->value : NULL;
}

void map_put(struct map *m, uint64_t hash, void *value)
{
	assert(value != NULL);
	if ((m->n + 1) * 2 > m->slots_n) {
		map_grow(m);
	}
	*slot_free(m, hash) = (struct map_slot){ hash, value };
	m->n++;
}

/* Moves later entries of a run back into the freed slot, but never before their home slot. */
static void slot_close(struct map *m, size_t hole)
{
	size_t mask = m->slots_n - 1;

	for (size_t at = (hole + 1) & mask; m->slots[at].value != NULL; at = (at + 1) & mask) {
		size_t home = slot_home(m, m->slots[at].hash);

		if (((at - home) & mask) >= ((at - hole) & mask)) {
			m->slots[hole] = m->slots[at];
			hole = at;
		}
	}
	m->slots[hole] = (struct map_slot){ 0 };
}

void *map_remove(struct map *m, uint64_t hash, const void *key)
{
	struct map_slot *s = slot_find(m, hash, key);
	void *value = s != NULL ? s->value : NULL;

	if (s != NULL) {
		slot_close(m, (size_t)(s - m->slots));
		m->n--;
	}
	return value;
}

bool map_same_text(const void *value, const void *key)
{
	return strcmp(value, key) == 0;
}
