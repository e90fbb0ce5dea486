/*
 * Arena memory: chunks that double up to 1 MiB. A larger request gets a chunk of its own. Running
 * out of memory or over the cap aborts the process, because the caller must cap its input.
 */
#include "base/base.h"
#include "base/arena.h"

#include <stdarg.h>

#define ARENA_MAX_DEFAULT ((size_t)256 << 20)
#define CHUNK_MIN ((size_t)4096)
#define CHUNK_MAX ((size_t)1 << 20)
#define ALIGN (_Alignof(max_align_t))

struct chunk {
	struct chunk *next;
	size_t cap, n;
	_Alignas(max_align_t) char data[];
};
struct arena {
	struct chunk *head;
	size_t used, max, chunk_next;
};

static void arena_die(const char *why, size_t n)
{
	fprintf(stderr, "arena: %s (%zu bytes asked)\n", why, n);
	abort();
}

struct arena *arena_new(size_t bytes_max)
{
	struct arena *a = calloc(1, sizeof(*a));

	if (a == NULL) {
		arena_die("out of memory", sizeof(*a));
	}
	a->max = bytes_max != 0 ? bytes_max : ARENA_MAX_DEFAULT;
	a->chunk_next = CHUNK_MIN;
	return a;
}

static void chunks_free(struct chunk *c)
{
	while (c != NULL) {
		struct chunk *next = c->next;

		free(c);
		c = next;
	}
}

void arena_free(struct arena *a)
{
	if (a == NULL) {
		return;
	}
	chunks_free(a->head);
	free(a);
}

void arena_reset(struct arena *a)
{
	/* Keep one chunk of ordinary size, so that a reused arena does not call malloc again. */
	struct chunk *keep = NULL;

	for (struct chunk *c = a->head, *next; c != NULL; c = next) {
		next = c->next;
		if (keep == NULL && c->cap <= CHUNK_MAX) {
			keep = c;
		} else {
			free(c);
		}
	}
	if (keep != NULL) {
		keep->next = NULL;
		keep->n = 0;
	}
	a->head = keep;
	a->used = 0;
}

size_t arena_used(const struct arena *a)
{
	return a->used;
}

static struct chunk *chunk_add(struct arena *a, size_t n)
{
	size_t cap = MAX(n, a->chunk_next);
	struct chunk *c = malloc(sizeof(*c) + cap);

	if (c == NULL) {
		arena_die("out of memory", n);
	}
	c->cap = cap;
	c->n = 0;
	if (n > a->chunk_next / 2 && a->head != NULL) {
		/* Insert a big chunk after the head, so that the head's free space stays in use. */
		c->next = a->head->next;
		a->head->next = c;
	} else {
		c->next = a->head;
		a->head = c;
		a->chunk_next = MIN(a->chunk_next * 2, CHUNK_MAX);
	}
	return c;
}

static char *room_take(struct arena *a, size_t n)
{
	if (n > a->max) {
		arena_die("over its cap", n);
	}
	size_t size = (MAX(n, (size_t)1) + ALIGN - 1) / ALIGN * ALIGN;
	if (size > a->max - MIN(a->used, a->max)) {
		arena_die("over its cap", n);
	}
	struct chunk *c = a->head;
	if (c == NULL || c->cap - c->n < size) {
		c = chunk_add(a, size);
	}
	char *p = c->data + c->n;
	c->n += size;
	a->used += size;
	return p;
}

void *arena_alloc(struct arena *a, size_t n)
{
	return memset(room_take(a, n), 0, MAX(n, (size_t)1));
}

static size_t array_bytes(size_t count, size_t size)
{
	size_t n;

	if (__builtin_mul_overflow(count, size, &n)) {
		arena_die("array size overflows", SIZE_MAX);
	}
	return n;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
	return arena_alloc(a, array_bytes(count, size));
}

void *arena_array_raw(struct arena *a, size_t count, size_t size)
{
	return room_take(a, array_bytes(count, size));
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *p = arena_alloc(a, n + 1);

	if (n > 0) {
		memcpy(p, s, n);
	}
	return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return s == NULL ? NULL : arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;

	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		arena_die("format failed", 0);
	}
	char *p = arena_strndup(a, text, (size_t)n);
	free(text);
	return p;
}

struct str arena_bytes(struct arena *a, const void *p, size_t n)
{
	return (struct str){ arena_strndup(a, p, n), n };
}

void *arena_grow(struct arena *a, void *items, size_t n, size_t *cap, size_t size)
{
	if (n < *cap) {
		return items;
	}
	size_t more = MAX(*cap * 2, (size_t)8);
	void *bigger = arena_array(a, more, size);
	if (n > 0) {
		memcpy(bigger, items, n * size);
	}
	*cap = more;
	return bigger;
}
