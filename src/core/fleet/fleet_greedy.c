/*
 * Fills a fleet by marginal cost, and gives back the surplus. Marginal costs only grow while nodes
 * are added, so a heap of stale costs is enough. The top is recomputed, and taken if it is still
 * the least (M. Minoux, "Accelerated greedy algorithms for maximizing submodular set functions",
 * 1978).
 */
#include "base/base.h"
#include "core/fleet/fleet_priv.h"

#include <math.h>

struct heap_entry {
	double key;
	int32_t item;
};
struct heap {
	struct heap_entry *e;
	size_t n;
};

static bool entry_before(const struct heap_entry *a, const struct heap_entry *b)
{
	return a->key < b->key || (!(b->key < a->key) && a->item < b->item);
}

static void sift_down(struct heap *h, size_t at)
{
	struct heap_entry x = h->e[at];

	for (size_t kid = 2 * at + 1; kid < h->n; kid = 2 * at + 1) {
		kid += kid + 1 < h->n && entry_before(&h->e[kid + 1], &h->e[kid]);
		if (!entry_before(&h->e[kid], &x)) {
			break;
		}
		h->e[at] = h->e[kid];
		at = kid;
	}
	h->e[at] = x;
}

static void heap_pop(struct heap *h)
{
	h->e[0] = h->e[--h->n];
	if (h->n > 0) {
		sift_down(h, 0);
	}
}

/* The order of filling: the floor, a first node in enough pools, the rest. */
enum phase { PHASE_FLOOR, PHASE_POOLS, PHASE_REST };

static bool phase_goes_on(const struct fleet_model *m, enum phase p)
{
	switch (p) {
	case PHASE_FLOOR:
		return m->floor_have < m->floor;
	case PHASE_POOLS:
		return m->pools < m->pools_want && m->total < m->want;
	case PHASE_REST:
		return m->total < m->want;
	}
	return false;
}

static bool phase_takes(const struct fleet_model *m, enum phase p, const struct fleet_item *i)
{
	return (p != PHASE_FLOOR || i->fw > 0) && (p != PHASE_POOLS || (i->spread && i->x == 0)) &&
	    fleet_room(m, i);
}

/* Weight beyond the missing amount is worth nothing. That amount only shrinks, so keys only grow
 * here too. */
static double phase_key(const struct fleet_model *m, enum phase p, const struct fleet_item *i)
{
	int64_t counts =
	    p == PHASE_FLOOR ? MIN(i->fw, m->floor - m->floor_have) : MIN(i->w, m->want - m->total);

	return fleet_marginal(m, i) / (double)MAX(counts, 1);
}

static void phase_run(struct fleet_model *m, struct heap *h, enum phase p)
{
	h->n = 0;
	for (size_t i = 0; i < m->n; i++) {
		if (phase_takes(m, p, &m->items[i])) {
			h->e[h->n++] =
			    (struct heap_entry){ phase_key(m, p, &m->items[i]), (int32_t)i };
		}
	}
	for (size_t i = h->n / 2; i-- > 0;) {
		sift_down(h, i);
	}
	while (h->n > 0 && phase_goes_on(m, p)) {
		struct heap_entry *top = &h->e[0];
		struct fleet_item *x = &m->items[top->item];

		m->steps++;
		if (!phase_takes(m, p, x)) {
			heap_pop(h);
			continue;
		}
		struct heap_entry now = { phase_key(m, p, x), top->item };
		bool first = (h->n < 2 || !entry_before(&h->e[1], &now)) &&
		    (h->n < 3 || !entry_before(&h->e[2], &now));

		if (!first) {
			*top = now;
			sift_down(h, 0);
			continue;
		}
		fleet_put(m, x, 1);
	}
}

/* Later nodes may make earlier ones needless. Drops the most expensive of those until none is
 * left. */
static void needless_drop(struct fleet_model *m)
{
	while (!fleet_sane(m)) {
		struct fleet_item *most = NULL;

		for (size_t k = 0; k < m->n; k++) {
			struct fleet_item *i = &m->items[k];

			if (i->x > i->held && fleet_needless(m, i) &&
			    (most == NULL || fleet_gain(m, i) > fleet_gain(m, most))) {
				most = i;
			}
		}
		fleet_put(m, most, -1);
	}
}

void fleet_fill(struct fleet_model *m)
{
	struct heap h = { .e = arena_array(m->arena, m->n + 1, sizeof(struct heap_entry)) };

	if (m->floor_have < m->floor) {
		phase_run(m, &h, PHASE_FLOOR);
	}
	if (m->pools < m->pools_want) {
		phase_run(m, &h, PHASE_POOLS);
	}
	if (m->total < m->want) {
		phase_run(m, &h, PHASE_REST);
	}
	needless_drop(m);
}

/* ---- giving back ----------------------------------------------------------------------------- */

/* Nodes over a limit go first: the limit was lowered, or pools moved into one quota. */
static bool over_limit(const struct fleet_model *m, const struct fleet_item *i)
{
	bool over = i->x > i->cap;

	for (int k = 0; k < FG_QUOTA; k++) {
		over = over || (i->g[k] >= 0 && m->groups[i->g[k]].used > m->groups[i->g[k]].cap);
	}
	return over;
}

static bool may_go(const struct fleet_model *m, const struct fleet_item *i)
{
	return i->x > 0 && i->held - i->x < i->idle && fleet_needless(m, i);
}

/* Returns whether a goes back before b: by limits, then the number of pools, then the saving. */
static bool goes_before(const struct fleet_model *m, const struct fleet_item *a,
    const struct fleet_item *b)
{
	bool over_a = over_limit(m, a), over_b = over_limit(m, b);
	bool few = m->pools <= m->pools_want, last_a = few && a->spread && a->x == 1,
	     last_b = few && b->spread && b->x == 1;
	double gain_a = fleet_gain(m, a), gain_b = fleet_gain(m, b);

	if (over_a != over_b) {
		return over_a;
	}
	if (last_a != last_b) {
		return last_b;
	}
	return gain_a > gain_b + 1e-12 * fabs(gain_b);
}

void fleet_drop(struct fleet_model *m)
{
	size_t n = 0;
	int32_t *held = arena_array(m->arena, m->n + 1, sizeof(*held));

	for (size_t i = 0; i < m->n; i++) {
		if (m->items[i].held > 0) {
			held[n++] = (int32_t)i;
		}
	}
	for (;;) {
		struct fleet_item *best = NULL;

		for (size_t k = 0; k < n; k++) {
			struct fleet_item *x = &m->items[held[k]];

			m->steps++;
			if (may_go(m, x) && (best == NULL || goes_before(m, x, best))) {
				best = x;
			}
		}
		if (best == NULL) {
			return;
		}
		fleet_put(m, best, -1);
	}
}
