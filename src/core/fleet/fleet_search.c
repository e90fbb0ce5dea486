/*
 * Improves the greedy plan. Exchanges replace one picked node by another, by none, or by two, as
 * long as the plan gets better. A long list of pools is cut to the most promising.
 *
 * Small fleets then get branch and bound over all plans. The cost never falls when a node is added.
 * The missing weight at the best rate left is therefore a lower bound.
 */
#include "base/base.h"
#include "core/fleet/fleet_priv.h"

#include <math.h>

#define SHORTLIST 256
#define PAIRS_ITEMS_MAX 40 /* up to this many pools, two nodes may replace one, and one two */
#define SEARCH_ITEMS_MAX 64
#define ROUNDS_MAX 200
#define MANY_MAX 32

/* ---- values without walking the pools -------------------------------------------------------- */

static struct fleet_value value_at(const struct fleet_model *m, double cost)
{
	struct fleet_value v;

	fleet_value(m, &v);
	v.cost = cost;
	return v;
}

/* Returns the value of the plan with one more node of i. */
static struct fleet_value value_with(const struct fleet_model *m, const struct fleet_item *i,
    double cost)
{
	int64_t pools = m->pools + (i->spread && i->x == 0);

	return (struct fleet_value){ .missing = MAX(m->want - m->total - i->w, 0),
		.floor_short = MAX(m->floor - m->floor_have - i->fw, 0),
		.pools_short = MAX(m->pools_want - pools, 0),
		.cost = cost + fleet_marginal(m, i) };
}

/* ---- the shortlist --------------------------------------------------------------------------- */

struct exchange {
	struct fleet_model *m;
	int32_t *in;
	size_t in_n; /* pools that may get one more */
	int32_t *out;
	size_t out_n; /* pools with picked nodes */
	double *key;
	double cost;
};

/* Moves the n least keys to the front (Hoare's selection), unsorted. The caller orders by pool
 * id. */
static void least_first(const double *key, int32_t *list, size_t len, size_t n)
{
	size_t lo = 0, hi = len - 1;

	while (lo < hi) {
		double pivot = key[list[lo + (hi - lo) / 2]];
		size_t i = lo, j = hi;

		for (;; i++, j--) {
			while (key[list[i]] < pivot) {
				i++;
			}
			while (key[list[j]] > pivot) {
				j--;
			}
			if (i >= j) {
				break;
			}
			int32_t swap = list[i];
			list[i] = list[j];
			list[j] = swap;
		}
		if (n <= j) {
			hi = j;
		} else {
			lo = j + 1;
		}
		if (lo >= n) {
			break;
		}
	}
}

static int id_compare(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

static void list_cut(struct exchange *x, int32_t *list, size_t *n, size_t most)
{
	if (*n > most) {
		least_first(x->key, list, *n, most);
		*n = most;
		qsort(list, *n, sizeof(*list), id_compare);
	}
}

static void lists_make(struct exchange *x, size_t most)
{
	struct fleet_model *m = x->m;

	x->in_n = x->out_n = 0;
	for (size_t i = 0; i < m->n; i++) {
		struct fleet_item *it = &m->items[i];

		if (it->score == NULL) {
			continue;
		}
		if (it->x < it->cap) {
			x->key[i] = fleet_marginal(m, it) / (double)it->w;
			x->in[x->in_n++] = (int32_t)i;
		}
	}
	list_cut(x, x->in, &x->in_n, most);
	for (size_t i = 0; i < m->n; i++) {
		struct fleet_item *it = &m->items[i];

		if (it->score != NULL && it->x > it->held) {
			x->key[i] = -fleet_gain(m, it) / (double)it->w;
			x->out[x->out_n++] = (int32_t)i;
		}
	}
	list_cut(x, x->out, &x->out_n, most);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static bool may_add(const struct fleet_model *m, const struct fleet_item *i)
{
	return fleet_room(m, i) &&
	    (fleet_wanted(m, i) || (i->spread && i->x == 0 && m->pools < m->pools_want));
}

static bool put_if_sane(struct fleet_model *m, struct fleet_item *i)
{
	fleet_put(m, i, 1);
	if (fleet_sane(m)) {
		return true;
	}
	fleet_put(m, i, -1);
	return false;
}

/* Returns the best single addition to the plan; NULL if none beats *best. */
static struct fleet_item *best_addition(struct exchange *x, const struct fleet_item * not,
    double cost, struct fleet_value *best)
{
	struct fleet_model *m = x->m;
	struct fleet_item *found = NULL;

	for (size_t k = 0; k < x->in_n; k++) {
		struct fleet_item *i = &m->items[x->in[k]];
		struct fleet_value v;

		m->steps++;
		if (i == not || !may_add(m, i)) {
			continue;
		}
		v = value_with(m, i, cost);
		if (fleet_value_compare(&v, best) < 0 && put_if_sane(m, i)) {
			fleet_put(m, i, -1);
			*best = v;
			found = i;
		}
	}
	return found;
}

/* Adds the two best nodes in place of the removed one, if they beat *best. */
static bool two_for(struct exchange *x, const struct fleet_item * not, double cost,
    struct fleet_value *best)
{
	struct fleet_model *m = x->m;
	struct fleet_item *first = NULL, *second = NULL;

	for (size_t k = 0; k < x->in_n; k++) {
		struct fleet_item *i = &m->items[x->in[k]], *j;
		double with;

		if (i == not || !may_add(m, i)) {
			continue;
		}
		with = cost + fleet_marginal(m, i);
		if (!put_if_sane(m, i)) {
			continue;
		}
		j = best_addition(x, NULL, with, best);
		fleet_put(m, i, -1);
		if (j != NULL) {
			first = i;
			second = j;
		}
	}
	if (first == NULL) {
		return false;
	}
	fleet_put(m, first, 1);
	fleet_put(m, second, 1);
	return true;
}

/* Puts in as many nodes as are missing, the cheapest per covered weight first. Matters if nodes
 * differ in weight. */
static bool many_for(struct exchange *x, const struct fleet_item * not, double cost,
    struct fleet_value *best)
{
	struct fleet_model *m = x->m;
	struct fleet_item *put[MANY_MAX];
	struct fleet_value v;
	size_t n = 0;

	for (; n < MANY_MAX && m->total < m->want; n++) {
		double least = INFINITY;

		put[n] = NULL;
		for (size_t k = 0; k < x->in_n; k++) {
			struct fleet_item *i = &m->items[x->in[k]];
			double key = fleet_marginal(m, i) / (double)MIN(i->w, m->want - m->total);

			m->steps++;
			if (i != not &&key < least && fleet_room(m, i)) {
				least = key;
				put[n] = i;
			}
		}
		if (put[n] == NULL) {
			break;
		}
		cost += fleet_marginal(m, put[n]);
		fleet_put(m, put[n], 1);
	}
	v = value_at(m, cost);
	if (fleet_sane(m) && fleet_value_compare(&v, best) < 0) {
		*best = v;
		return true;
	}
	while (n > 0) {
		fleet_put(m, put[--n], -1);
	}
	return false;
}

/* Replaces a, which is out already, by something better, or puts it back. */
static bool item_replace(struct exchange *x, struct fleet_item *a, const struct fleet_value *was,
    double cost, bool pairs)
{
	struct fleet_model *m = x->m;
	struct fleet_value best = *was, without = value_at(m, cost);
	bool drop = fleet_value_compare(&without, &best) < 0;
	struct fleet_item *b;

	if (drop) {
		best = without;
	}
	b = best_addition(x, a, cost, &best);
	if (pairs && two_for(x, a, cost, &best)) {
		x->cost = best.cost;
		return true;
	}
	if (m->w_min < m->w_max && many_for(x, a, cost, &best)) {
		x->cost = best.cost;
		return true;
	}
	if (b != NULL) {
		fleet_put(m, b, 1);
	}
	if (b != NULL || drop) {
		x->cost = best.cost;
		return true;
	}
	fleet_put(m, a, 1);
	return false;
}

static bool one_out(struct exchange *x, bool pairs)
{
	struct fleet_model *m = x->m;
	struct fleet_value was = value_at(m, x->cost);
	bool better = false;

	for (size_t k = 0; k < x->out_n && m->steps < m->steps_max; k++) {
		struct fleet_item *a = &m->items[x->out[k]];
		double cost;

		if (a->x <= a->held) {
			continue;
		}
		cost = x->cost - fleet_gain(m, a);
		fleet_put(m, a, -1);
		if (item_replace(x, a, &was, cost, pairs)) {
			better = true;
			was = value_at(m, x->cost);
		}
	}
	return better;
}

/* Replaces two nodes by one or two. Matters if nodes differ in weight or limits cross. */
static bool two_out(struct exchange *x)
{
	struct fleet_model *m = x->m;
	struct fleet_value was = value_at(m, x->cost);

	for (size_t k = 0; k < x->out_n; k++) {
		for (size_t l = k; l < x->out_n && m->steps < m->steps_max; l++) {
			struct fleet_item *a = &m->items[x->out[k]], *b = &m->items[x->out[l]];
			double cost = x->cost;

			if (a->x - a->held < 1 + (a == b) || b->x <= b->held) {
				continue;
			}
			cost -= fleet_gain(m, a);
			fleet_put(m, a, -1);
			cost -= fleet_gain(m, b);
			fleet_put(m, b, -1);
			if (item_replace(x, b, &was, cost, true)) {
				return true;
			}
			fleet_put(m, a, 1);
		}
	}
	return false;
}

/* Takes out the most expensive needless nodes: *n of them, in out. Returns the cost left. */
static double items_shed(struct exchange *x, double cost, struct fleet_item **out, size_t *n)
{
	struct fleet_model *m = x->m;

	for (; *n < MANY_MAX; ++*n) {
		struct fleet_item *most = NULL;

		for (size_t k = 0; k < x->out_n; k++) {
			struct fleet_item *i = &m->items[x->out[k]];

			m->steps++;
			if (i->x > i->held && m->total - i->w >= m->want &&
			    m->floor_have - i->fw >= MIN(m->floor, m->floor_have) &&
			    (most == NULL || fleet_gain(m, i) > fleet_gain(m, most))) {
				most = i;
			}
		}
		if (most == NULL) {
			return cost;
		}
		cost -= fleet_gain(m, most);
		fleet_put(m, most, -1);
		out[*n] = most;
	}
	return cost;
}

/* Replaces several small nodes by a big one. */
static bool big_in(struct exchange *x)
{
	struct fleet_model *m = x->m;
	struct fleet_value was = value_at(m, x->cost);

	for (size_t k = 0; k < x->in_n && m->steps < m->steps_max; k++) {
		struct fleet_item *i = &m->items[x->in[k]], *out[MANY_MAX];
		struct fleet_value v;
		size_t n = 0;
		double cost;

		if (!fleet_room(m, i)) {
			continue;
		}
		cost = x->cost + fleet_marginal(m, i);
		fleet_put(m, i, 1);
		v = value_at(m, items_shed(x, cost, out, &n));
		if (fleet_sane(m) && fleet_value_compare(&v, &was) < 0) {
			x->cost = v.cost;
			return true;
		}
		while (n > 0) {
			fleet_put(m, out[--n], 1);
		}
		fleet_put(m, i, -1);
	}
	return false;
}

static bool one_in(struct exchange *x)
{
	struct fleet_value best = value_at(x->m, x->cost);
	struct fleet_item *b = best_addition(x, NULL, x->cost, &best);

	if (b != NULL) {
		fleet_put(x->m, b, 1);
		x->cost = best.cost;
	}
	return b != NULL;
}

void fleet_improve(struct fleet_model *m)
{
	struct exchange x = { .m = m,
		.in = arena_array(m->arena, m->n + 1, sizeof(int32_t)),
		.out = arena_array(m->arena, m->n + 1, sizeof(int32_t)),
		.key = arena_array(m->arena, m->n + 1, sizeof(double)) };
	bool small = m->n <= PAIRS_ITEMS_MAX;

	x.cost = fleet_cost(m, NULL);
	for (int round = 0; round < ROUNDS_MAX && m->steps < m->steps_max; round++) {
		bool better;

		lists_make(&x, m->n <= 1000 ? m->n : SHORTLIST);
		better = one_in(&x) || one_out(&x, false) || (m->w_min < m->w_max && big_in(&x));
		if (!better && (small || m->total < m->want || m->floor_have < m->floor)) {
			better = (x.out_n * x.in_n * x.in_n <= 4000000 && one_out(&x, true)) ||
			    (small && two_out(&x));
		}
		if (!better) {
			return;
		}
	}
}

/* ---- branch and bound ------------------------------------------------------------------------ */

struct search {
	struct fleet_model *m;
	int32_t *order;
	size_t n; /* pools that may get nodes, the best rate first */
	double *rate; /* the least rate from each pool on */
	int32_t *now, *best;
	struct fleet_value best_value;
	int64_t left; /* alternatives that may still be weighed */
	bool found;
};

static bool branch_is_hopeless(const struct search *s, size_t at, double cost)
{
	const struct fleet_model *m = s->m;
	const struct fleet_value *b = &s->best_value;
	double more = at < s->n ? s->rate[at] * (double)MAX(m->want - m->total, 0) : 0;

	return b->missing == 0 && b->floor_short == 0 && b->pools_short == 0 &&
	    cost + more >= b->cost - 1e-9 * fabs(b->cost);
}

static void search_leaf(struct search *s, double cost)
{
	struct fleet_value v = value_at(s->m, cost);

	if (fleet_sane(s->m) && fleet_value_compare(&v, &s->best_value) < 0) {
		s->best_value = v;
		s->found = true;
		for (size_t k = 0; k < s->n; k++) {
			s->best[k] = s->m->items[s->order[k]].x;
		}
	}
}

static void search_from(struct search *s, size_t at, double cost)
{
	struct fleet_model *m = s->m;
	struct fleet_item *i;
	int32_t put = 0;

	if (s->left <= 0 || branch_is_hopeless(s, at, cost)) {
		return;
	}
	s->left--;
	m->steps++;
	if (at == s->n) {
		search_leaf(s, cost);
		return;
	}
	i = &m->items[s->order[at]];
	search_from(s, at + 1, cost);
	/* A node beyond both the missing weight and the floor is never needed later. */
	while (s->left > 0 && fleet_room(m, i) && (m->total < m->want + m->w_max || i->fw > 0)) {
		cost += fleet_marginal(m, i);
		fleet_put(m, i, 1);
		put++;
		if (!fleet_sane(m)) {
			break;
		}
		search_from(s, at + 1, cost);
	}
	fleet_put(m, i, -put);
}

static void order_make(struct search *s)
{
	struct fleet_model *m = s->m;

	for (size_t i = 0; i < m->n; i++) {
		size_t at = s->n;

		if (m->items[i].score == NULL) {
			continue;
		}
		for (; at > 0 &&
		     m->items[s->order[at - 1]].c / (double)m->items[s->order[at - 1]].w >
			 m->items[i].c / (double)m->items[i].w;
		     at--) {
			s->order[at] = s->order[at - 1];
		}
		s->order[at] = (int32_t)i;
		s->n++;
	}
	for (size_t k = s->n; k-- > 0;) {
		s->rate[k] = m->items[s->order[k]].c / (double)m->items[s->order[k]].w;
	}
}

bool fleet_search(struct fleet_model *m, int64_t most)
{
	struct search s = { .m = m, .left = most };
	double cost = 0;

	if (m->n > SEARCH_ITEMS_MAX) {
		return false;
	}
	s.order = arena_array(m->arena, m->n + 1, sizeof(*s.order));
	s.rate = arena_array(m->arena, m->n + 1, sizeof(*s.rate));
	s.best = arena_array(m->arena, m->n + 1, sizeof(*s.best));
	order_make(&s);
	s.best_value = value_at(m, fleet_cost(m, NULL));
	for (size_t k = 0; k < s.n; k++) {
		struct fleet_item *i = &m->items[s.order[k]];

		s.best[k] = i->x;
		fleet_put(m, i, i->held - i->x);
	}
	cost = fleet_cost(m, NULL);
	search_from(&s, 0, cost);
	for (size_t k = 0; k < s.n; k++) {
		fleet_put(m, &m->items[s.order[k]], s.best[k] - m->items[s.order[k]].x);
	}
	return s.left > 0;
}
