/*
 * Memory for one unit of work (one request served, one call, one pass). Freed as a whole. Out of
 * memory aborts. An arena that passes its cap aborts too, so every input from outside must be
 * capped before it gets here.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/base.h"

struct arena;
struct arena *arena_new(size_t bytes_max); /* 0 = 256 MiB */
void arena_free(struct arena *a); /* NULL accepted */
void arena_reset(struct arena *a);
size_t arena_used(const struct arena *a);
void *arena_alloc(struct arena *a, size_t n); /* zeroed, aligned for any type */
void *arena_array(struct arena *a, size_t count, size_t size); /* overflow-checked */
/* not zeroed: for what is written whole before it is read */
void *arena_array_raw(struct arena *a, size_t count, size_t size);
char *arena_strdup(struct arena *a, const char *s); /* NULL gives NULL */
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF(2, 3);
struct str arena_bytes(struct arena *a, const void *p, size_t n); /* copy, NUL behind it */
/* Growing array: *items has room for *cap elements of size; makes room for n+1 and returns
 * items. */
void *arena_grow(struct arena *a, void *items, size_t n, size_t *cap, size_t size);

static inline void auto_arena(struct arena **a)
{
	arena_free(*a);
}

#endif
