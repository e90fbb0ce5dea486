/*
 * A hash map from a key to a pointer. The caller hashes (base/hash.h) and compares: keys may be
 * texts, ids or structs, and live wherever the caller keeps them, usually in the value.
 *
 *     static bool node_is(const void *node, const void *id)
 *     {
 *             return strcmp(((const struct node *)node)->id, id) == 0;
 *     }
 *     map_init(&m, NULL, node_is);
 *     map_put(&m, hash_str(HASH_START, n->id), n);
 *     n = map_get(&m, hash_str(HASH_START, id), id);
 *
 * Open addressing with linear probing, at most half full; removal moves entries back, so no
 * tombstones remain. Not uthash: its macros put 60 lines into each user and a handle into each
 * struct. It would be a build dependency in place of a hundred lines.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/base.h"

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

/* arena NULL: the memory is the map's, and map_fini frees it; else it grows in the arena. Allocates
 * nothing yet. same: is value the entry of key? */
void map_init(struct map *m, struct arena *arena, bool (*same)(const void *value, const void *key));
void map_fini(struct map *m); /* the values are the caller's */
void map_clear(struct map *m); /* no entries, same memory */
void *map_get(const struct map *m, uint64_t hash, const void *key); /* NULL if there is none */
/* value not NULL, its key not in the map. */
void map_put(struct map *m, uint64_t hash, void *value);
void *map_remove(struct map *m, uint64_t hash, const void *key); /* NULL if there is none */
bool map_same_text(const void *value, const void *key); /* for sets of texts: value is the text */

#endif
