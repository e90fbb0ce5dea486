/*
 * A hash map from a key to a pointer. The caller hashes (base/hash.h) and compares, so a key may be
 * a text, an id or a struct. The caller keeps the keys, usually in the values. An example:
 *
 *     static bool node_is(const void *node, const void *id)
 *     {
 *             return strcmp(((const struct node *)node)->id, id) == 0;
 *     }
 *
 *     map_init(&m, NULL, node_is);
 *     map_put(&m, hash_str(HASH_START, n->id), n);
 *     n = map_get(&m, hash_str(HASH_START, id), id);
 *
 * Open addressing with linear probing, at most half full. Removal moves entries back, so no
 * tombstones remain. We do not use uthash: it would put a handle into each struct and 60 lines of
 * macros into each user.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/macros.h"

struct arena;
struct map_slot {
	uint64_t hash;
	void *value; /* NULL: free */
};
struct map {
	struct arena *arena;
	bool (*same)(const void *value, const void *key);
	struct map_slot *slots;
	size_t slots_n, n; /* n: entries */
};

/* Allocates nothing yet. The slots live in arena. If it is NULL they live on the heap, and map_fini
 * frees them. The callback same() tells whether value is the entry of key. */
void map_init(struct map *m, struct arena *arena, bool (*same)(const void *value, const void *key));
void map_fini(struct map *m); /* the caller owns the values */
void map_clear(struct map *m); /* removes all entries, keeps the memory */
void *map_get(const struct map *m, uint64_t hash, const void *key); /* NULL if absent */
/* Adds a value, not NULL, with a key that is not in the map. */
void map_put(struct map *m, uint64_t hash, void *value);
void *map_remove(struct map *m, uint64_t hash, const void *key); /* the value; NULL if absent */
bool map_same_text(const void *value, const void *key); /* for sets of texts: value is the text */

#endif
