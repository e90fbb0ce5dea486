/*
 * Memory for one unit of work (a served request, a call, a pass), freed as a whole. Running out of
 * memory aborts. Passing the cap aborts too: callers must cap input from outside first.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/macros.h"

struct arena;
struct arena *arena_new(size_t bytes_max); /* 0 = 256 MiB */
void arena_free(struct arena *a); /* NULL accepted */
void arena_reset(struct arena *a); /* frees all allocations, keeps the arena */
size_t arena_used(const struct arena *a); /* bytes */
void *arena_alloc(struct arena *a, size_t n); /* zeroed, aligned for any type */
void *arena_array(struct arena *a, size_t count, size_t size); /* overflow-checked */
/* Not zeroed: the caller writes every byte before it reads one. */
void *arena_array_raw(struct arena *a, size_t count, size_t size);
char *arena_strdup(struct arena *a, const char *s); /* NULL gives NULL */
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF(2, 3);
struct str arena_bytes(struct arena *a, const void *p, size_t n); /* copies and appends NUL */
/* Makes room for n + 1 elements of size bytes in items, which holds *cap now. Returns the array,
 * moved if it had to grow, and updates *cap. */
void *arena_grow(struct arena *a, void *items, size_t n, size_t *cap, size_t size);

static inline void auto_arena(struct arena **a)
{
	arena_free(*a);
}

#endif
