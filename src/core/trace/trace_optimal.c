/*
 * Computes the omniscient optimum exactly: a dynamic programme over tick, progress and held
 * instance, forward in time.
 *
 * Progress of K ticks on an instance with m starts is K x tick - m x changeover. An instance given
 * up during its changeover would count as less than nothing. No optimal sequence does that, since
 * it only burns money. The minimum is therefore the same, and a changeover under way needs no
 * state.
 *
 * Each instance has a front: labels of progress and cost, more progress costing more. If moving a
 * checkpoint costs, each region of the checkpoint has its own. Three rules drop labels without
 * losing the minimum:
 *
 * - Another label in the same place has no less progress at no more cost.
 * - The work left does not fit before the deadline.
 * - The cost plus a lower bound of the rest is not below a cost known to be reachable. The bound
 *   takes the cheapest ticks to come, without changeovers.
 */
#include "base/base.h"
#include "core/trace/trace.h"

struct label {
	int64_t done, cost; /* microseconds; units of cost */
	int32_t starts, spot_ticks, on_demand_ticks;
};
struct front { /* by falling progress, and cost with it */
	struct label *v;
	size_t n;
};
struct source { /* a front, and the effect of a tick on its labels */
	const struct front *front;
	int64_t gain, cost;
	int32_t starts, spot_ticks, on_demand_ticks;
	size_t at; /* its next label */
};
struct price_class {
	int64_t price;
	size_t n;
};

struct search {
	struct arena *a;
	const struct trace_market *m;
	const struct trace_job *j;
	struct trace_unit unit;
	size_t start, n, i; /* first tick in the market; ticks; this one */
	int64_t piece_us; /* the part of this tick before the deadline */
	struct price_class *classes; /* ascending, by the cheapest price of each tick to come */
	size_t classes_n;
	/* least cost of k more whole ticks, from the next tick on */
	int64_t *bound;
	size_t bound_n;
	size_t regions_n; /* of checkpoints; 1 if moving costs nothing */
	size_t *region; /* per pool, below regions_n */
	struct front *spot[2]; /* per pool; before and after this tick */
	struct front *on_demand[2]; /* per region of the checkpoint, and one more for none yet */
	/* the same: fronts that an instance can start from. any: in some region */
	struct front *idle, any;
	struct label *room[2]; /* the labels before and after this tick */
	size_t room_cap[2], room_n;
	int64_t best_cost, best_finish;
	struct label best;
};

static int64_t tick_price(const struct search *s, size_t i)
{
	int64_t least = s->j->on_demand_micros;

	for (size_t k = 0, n = s->m->pools_n; k < n; k++) {
		size_t at = (s->start + i) * n + k;

		least = s->m->up[at] ? MIN(least, s->m->price_micros[at]) : least;
	}
	return least;
}

static int by_price(const void *pa, const void *pb)
{
	const struct price_class *a = pa, *b = pb;

	return (a->price > b->price) - (a->price < b->price);
}

static void sort_prices(struct search *s)
{
	struct price_class *c = arena_array(s->a, s->n, sizeof(*c));
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		c[i] = (struct price_class){ tick_price(s, i), 1 };
	}
	qsort(c, s->n, sizeof(*c), by_price);
	for (size_t i = 0; i < s->n; i++) {
		if (n > 0 && c[n - 1].price == c[i].price) {
			c[n - 1].n++;
		} else {
			c[n++] = c[i];
		}
	}
	s->classes = c;
	s->classes_n = n;
}

/* Advances the bounds to the next tick. */
static void renew_bound(struct search *s)
{
	struct price_class here = { tick_price(s, s->i), 0 },
			   *at = bsearch(&here, s->classes, s->classes_n, sizeof(here), by_price);
	size_t k = 0;

	at->n--; /* the classes cover the ticks after this one */
	for (size_t c = 0; c < s->classes_n && k + 1 < s->bound_n; c++) {
		int64_t cost = s->classes[c].price * s->unit.num;

		for (size_t x = 0; x < s->classes[c].n && k + 1 < s->bound_n; x++, k++) {
			s->bound[k + 1] = s->bound[k] + cost;
		}
	}
	for (k++; k < s->bound_n; k++) {
		s->bound[k] = INT64_MAX / 2; /* more than there are ticks */
	}
}

static void note_end(struct search *s, const struct label *l)
{
	if (l->cost < s->best_cost) {
		s->best_cost = l->cost;
		s->best = *l;
		s->best_finish =
		    (int64_t)s->i * s->m->tick_us + s->piece_us - (l->done - s->j->work_us);
	}
}

static bool label_is_hopeful(const struct search *s, const struct label *l, int64_t ahead_us)
{
	int64_t left = s->j->work_us - l->done + ahead_us;
	size_t need = (size_t)((left + s->m->tick_us - 1) / s->m->tick_us);

	return need < s->bound_n && l->cost + s->bound[need] < s->best_cost;
}

static bool take_next(struct source *src, size_t n, struct label *ret)
{
	struct source *best = NULL;

	for (size_t k = 0; k < n; k++) {
		struct source *o = &src[k];
		const struct label *l;
		struct label moved;

		if (o->at == o->front->n) {
			continue;
		}
		l = &o->front->v[o->at];
		moved = (struct label){ l->done + o->gain, l->cost + o->cost, l->starts + o->starts,
			l->spot_ticks + o->spot_ticks, l->on_demand_ticks + o->on_demand_ticks };
		if (best == NULL || moved.done > ret->done ||
		    (moved.done == ret->done && moved.cost < ret->cost)) {
			best = o;
			*ret = moved;
		}
	}
	if (best == NULL) {
		return false;
	}
	best->at++;
	return true;
}

/* ahead_us: the changeover with which every continuation begins. */
static void labels_merge(struct search *s, struct source *src, size_t n, int64_t ahead_us,
    struct front *ret)
{
	struct label l = { 0 }, *out = s->room[1] + s->room_n;
	int64_t least = INT64_MAX;
	size_t kept = 0;

	while (take_next(src, n, &l)) {
		if (l.cost >= least) {
			continue;
		}
		least = l.cost;
		if (l.done >= s->j->work_us) {
			note_end(s, &l);
		} else if (label_is_hopeful(s, &l, ahead_us)) {
			out[kept++] = l;
		}
	}
	s->room_n += kept;
	*ret = (struct front){ out, kept };
}

static void give_room(struct search *s)
{
	size_t all = 1, places = s->m->pools_n + s->regions_n + 1;

	for (size_t k = 0; k < s->m->pools_n; k++) {
		all += s->spot[0][k].n;
	}
	for (size_t r = 0; r <= s->regions_n; r++) {
		all += s->on_demand[0][r].n + s->idle[r].n;
	}
	all *= 3 * places + 2; /* no front of this tick reads more than three times all labels */
	if (s->room_cap[1] < all) {
		s->room_cap[1] = 2 * all;
		s->room[1] = arena_array(s->a, s->room_cap[1], sizeof(*s->room[1]));
	}
	s->room_n = 0;
}

/* Every label of a region can go idle there, since giving up an instance costs nothing. */
static void merge_idle(struct search *s, struct source *src)
{
	for (size_t r = 0; r <= s->regions_n; r++) {
		struct front was = s->idle[r];
		size_t n = 0;

		src[n++] = (struct source){ .front = &was };
		src[n++] = (struct source){ .front = &s->on_demand[0][r] };
		for (size_t k = 0; k < s->m->pools_n; k++) {
			if (s->region[k] == r) {
				src[n++] = (struct source){ .front = &s->spot[0][k] };
			}
		}
		labels_merge(s, src, n, s->j->changeover_us, &s->idle[r]);
	}
	s->any = (struct front){ NULL, 0 };
	if (s->regions_n > 1) {
		for (size_t r = 0; r < s->regions_n; r++) {
			src[r] = (struct source){ .front = &s->idle[r] };
		}
		labels_merge(s, src, s->regions_n, s->j->changeover_us, &s->any);
	}
}

static void pass_spot(struct search *s, size_t k, struct source *src)
{
	size_t at = (s->start + s->i) * s->m->pools_n + k, r = s->region[k];
	int64_t stay = s->piece_us, fresh = stay - s->j->changeover_us,
		cost = s->m->price_micros[at] * s->unit.num;

	if (!s->m->up[at]) {
		s->spot[1][k] = (struct front){ NULL, 0 };
		return;
	}
	src[0] = (struct source){ &s->spot[0][k], stay, cost, 0, 1, 0, 0 };
	src[1] = (struct source){ &s->idle[r], fresh, cost, 1, 1, 0, 0 };
	src[2] = (struct source){ &s->idle[s->regions_n], fresh, cost, 1, 1, 0, 0 };
	src[3] = (struct source){ &s->any, fresh, cost + s->j->transfer_micros * s->unit.den, 1, 1,
		0, 0 };
	labels_merge(s, src, 4, 0, &s->spot[1][k]);
}

static void pass_on_demand(struct search *s, size_t r, struct source *src)
{
	int64_t cost = s->j->on_demand_micros * s->unit.num;

	src[0] = (struct source){ &s->on_demand[0][r], s->piece_us, cost, 0, 0, 1, 0 };
	src[1] =
	    (struct source){ &s->idle[r], s->piece_us - s->j->changeover_us, cost, 1, 0, 1, 0 };
	labels_merge(s, src, 2, 0, &s->on_demand[1][r]);
}

#define SWAP(a, b) \
	do { \
		__typeof__(a) swap_tmp = (a); \
		(a) = (b); \
		(b) = swap_tmp; \
	} while (0)

static void pass_tick(struct search *s, struct source *src)
{
	give_room(s);
	merge_idle(s, src);
	renew_bound(s);
	for (size_t k = 0; k < s->m->pools_n; k++) {
		pass_spot(s, k, src);
	}
	for (size_t r = 0; r <= s->regions_n; r++) {
		pass_on_demand(s, r, src);
	}
	assert(s->room_n <= s->room_cap[1]);
	SWAP(s->spot[0], s->spot[1]);
	SWAP(s->on_demand[0], s->on_demand[1]);
	SWAP(s->room[0], s->room[1]);
	SWAP(s->room_cap[0], s->room_cap[1]);
}

/* Starts from the cost of the simple policies. More expensive labels need no search. */
static void take_known(struct search *s)
{
	static const struct policy *const known[] = { &policy_uniform_progress, &policy_greedy,
		&policy_on_demand };

	s->best_cost = INT64_MAX / 2;
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		struct trace_run r;
		struct spot_err err = { 0 };

		if (trace_run_policy(s->a, s->m, s->j, s->start, known[i], NULL, 0, false, &r,
			&err) == SPOT_OK &&
		    !r.missed) {
			/* rounded there, so above the true cost */
			s->best_cost = MIN(s->best_cost, (r.cost_micros + 1) * s->unit.den);
		}
	}
}

static void place_fronts(struct search *s)
{
	size_t pools = s->m->pools_n;
	struct label *first = arena_alloc(s->a, sizeof(*first));

	s->region = arena_array(s->a, pools, sizeof(*s->region));
	s->regions_n = 1;
	for (size_t k = 0; k < pools && s->j->transfer_micros > 0; k++) {
		/* the index of a pool of that region: below pools_n */
		s->region[k] = (size_t)s->m->regions[k];
		s->regions_n = pools;
	}
	for (int side = 0; side < 2; side++) {
		s->spot[side] = arena_array(s->a, pools, sizeof(*s->spot[side]));
		s->on_demand[side] =
		    arena_array(s->a, s->regions_n + 1, sizeof(*s->on_demand[side]));
	}
	s->idle = arena_array(s->a, s->regions_n + 1, sizeof(*s->idle));
	s->idle[s->regions_n] = (struct front){ first, 1 };
}

void trace_run_optimal(struct arena *a, const struct trace_market *m, const struct trace_job *j,
    size_t start, struct trace_run *ret)
{
	struct search s = { .a = a,
		.m = m,
		.j = j,
		.unit = trace_unit_of(m->tick_us),
		.start = start,
		.n = trace_job_ticks(m, j) };
	struct source *src = arena_array(a, m->pools_n + 4, sizeof(*src));

	take_known(&s);
	place_fronts(&s);
	sort_prices(&s);
	s.bound_n = (size_t)((j->work_us + j->changeover_us) / m->tick_us) + 2;
	s.bound = arena_array(a, s.bound_n, sizeof(*s.bound));
	for (s.i = 0; s.i < s.n; s.i++) {
		s.piece_us = MIN(m->tick_us, j->deadline_us - (int64_t)s.i * m->tick_us);
		pass_tick(&s, src);
	}
	*ret = (struct trace_run){ .start = start,
		.cost_micros = trace_unit_micros(&s.unit, s.best_cost),
		.finish_us = s.best_finish,
		.changeovers = s.best.starts,
		.spot_ticks = s.best.spot_ticks,
		.on_demand_ticks = s.best.on_demand_ticks };
	ret->wait_ticks = (int32_t)((ret->finish_us + m->tick_us - 1) / m->tick_us) -
	    ret->spot_ticks - ret->on_demand_ticks;
}
