/* The parts of a snapshot for lists: texts and signals of pools, and the order by price. */
#include "base/base.h"
#include "base/text/text.h"
#include "store/market/market_priv.h"

#define LINES_MAX 32
#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)

/* ---- one pool -------------------------------------------------------------------------------- */

struct line { /* of a signal: "KIND JSON" */
	const char *kind, *json;
	size_t kind_n, json_n;
};

static int line_order(const struct line *a, const struct line *b)
{
	int by = memcmp(a->kind, b->kind, MIN(a->kind_n, b->kind_n));

	return by != 0 ? by : (a->kind_n > b->kind_n) - (a->kind_n < b->kind_n);
}

/* Ordered by kind. Those beyond LINES_MAX are left out. */
static size_t lines_read(const char *text, struct line lines[LINES_MAX])
{
	size_t n = 0;

	while (*text != '\0' && n < LINES_MAX) {
		size_t kind_n = strcspn(text, " "), whole = strcspn(text, "\n"), at = n++;
		struct line x = { text, text + kind_n + 1, kind_n, whole - kind_n - 1 };

		for (; at > 0 && line_order(&x, &lines[at - 1]) < 0; at--) {
			lines[at] = lines[at - 1];
		}
		lines[at] = x;
		text += whole + (text[whole] == '\n');
	}
	return n;
}

static const char *signals_text(struct market_names *names, const char *text)
{
	AUTO(sbuf) struct sbuf b;
	struct line lines[LINES_MAX];
	size_t n = lines_read(text, lines);

	sbuf_init(&b, 0);
	for (size_t i = 0; i < n; i++) {
		sbuf_putc(&b, i > 0 ? ',' : '[');
		sbuf_add(&b, lines[i].json, lines[i].json_n);
	}
	sbuf_putc(&b, ']');
	return names_text(names, b.p);
}

struct market_told told_of(struct market_names *names, const struct q_offers_row *w)
{
	return (struct market_told){ .price_why = w->price_why != NULL
		    ? names_text(names, w->price_why)
		    : "",
		.source = w->source != NULL ? names_text(names, w->source) : "",
		.effective_us = w->effective_us,
		.signals = str_empty(w->signals) ? "[]" : signals_text(names, w->signals) };
}

/* The texts of two reads are not the same pointers. */
bool told_same(const struct market_told *a, const struct market_told *b)
{
	return a->effective_us == b->effective_us && strcmp(a->price_why, b->price_why) == 0 &&
	    strcmp(a->source, b->source) == 0 && strcmp(a->signals, b->signals) == 0;
}

/* ---- a snapshot ------------------------------------------------------------------------------ */

static size_t bare_count(const struct pool_rows *rows)
{
	size_t n = 0;

	for (size_t i = 0; i < rows->n; i++) {
		n += rows->list[i].offered && !rows->list[i].listed;
	}
	return n;
}

void told_fill(struct market_snap *s, const struct pool_rows *rows)
{
	size_t bare = bare_count(rows), at = 0;
	struct market_told *told = arena_array_raw(s->arena, s->n + 1, sizeof(*told)),
			   *bare_told = arena_array_raw(s->arena, bare + 1, sizeof(*told));
	struct offer *offers = arena_array_raw(s->arena, bare + 1, sizeof(*offers));

	for (size_t i = 0; i < rows->n; i++) {
		const struct pool_row *w = &rows->list[i];

		if (w->listed) {
			told[at++] = w->told;
		} else if (w->offered) {
			offers[s->bare_n] = w->offer;
			bare_told[s->bare_n++] = w->told;
		}
	}
	s->told = told;
	s->bare = offers;
	s->bare_told = bare_told;
}

struct key {
	uint64_t price;
	uint32_t at;
};

static void digit_sort(const struct key *from, struct key *to, size_t n, int shift)
{
	uint32_t count[DIGITS] = { 0 }, sum = 0;

	for (size_t i = 0; i < n; i++) {
		count[from[i].price >> shift & (DIGITS - 1)]++;
	}
	for (size_t d = 0; d < DIGITS; d++) {
		uint32_t here = count[d];

		count[d] = sum;
		sum += here;
	}
	for (size_t i = 0; i < n; i++) {
		to[count[from[i].price >> shift & (DIGITS - 1)]++] = from[i];
	}
}

int64_t market_gpu_price(const struct offer *o)
{
	return o->gpu_milli > 0 ? o->price_micros * 1000 / o->gpu_milli : INT64_MAX;
}

static int64_t whole_price(const struct offer *o)
{
	return o->price_micros;
}

/* A stable sort by digits. The offers come by pool id. */
static uint32_t *order_make(struct market_snap *s, int64_t (*price)(const struct offer *))
{
	uint32_t *order = arena_array_raw(s->arena, s->n + 1, sizeof(*order));
	struct key *keys = calloc(2 * s->n + 1, sizeof(*keys)), *both = keys, *spare, *swap;
	uint64_t any = 0;

	if (keys == NULL) {
		abort();
	}
	spare = keys + s->n;
	for (size_t i = 0; i < s->n; i++) {
		keys[i] = (struct key){ (uint64_t)MAX(price(&s->offers[i]), 0), (uint32_t)i };
		any |= keys[i].price;
	}
	for (int shift = 0; shift < 64 && any >> shift != 0; shift += DIGIT_BITS) {
		digit_sort(keys, spare, s->n, shift);
		swap = keys;
		keys = spare;
		spare = swap;
	}
	for (size_t i = 0; i < s->n; i++) {
		order[i] = keys[i].at;
	}
	free(both);
	return order;
}

const uint32_t *market_by_price(struct market_snap *s)
{
	if (s->by_price == NULL) {
		s->by_price = order_make(s, whole_price);
	}
	return s->by_price;
}

const uint32_t *market_by_gpu_price(struct market_snap *s)
{
	if (s->by_gpu_price == NULL) {
		s->by_gpu_price = order_make(s, market_gpu_price);
	}
	return s->by_gpu_price;
}
