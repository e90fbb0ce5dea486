/* Capacity for a blocked job: reserved by predicted ends, or freed by preemption. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/queue/queue.h"

/* Beyond this many units the table rounds: freed units down, needed units up. */
#define UNITS_MAX 4096

/* ---- backfill -------------------------------------------------------------------------------- */

static int run_by(const void *x, const void *y)
{
	const struct backfill_run *a = x, *b = y;

	return a->end_us < b->end_us ? -1 : a->end_us > b->end_us;
}

void backfill_reserve(struct arena *a, int64_t now_us, int64_t limit, int64_t used, int64_t need,
    const struct backfill_run *runs, size_t n, struct backfill *ret)
{
	struct backfill_run *sorted = arena_array(a, n + 1, sizeof(*sorted));
	int64_t held = 0, free;
	size_t i = 0;

	for (size_t k = 0; k < n; k++) {
		held += runs[k].units;
		sorted[k] = (struct backfill_run){ .end_us = MAX(runs[k].end_us, now_us),
			.units = runs[k].units };
	}
	qsort(sorted, n, sizeof(*sorted), run_by);
	free = MAX(limit - MAX(used, held), 0);
	*ret = (struct backfill){ .shadow_us = now_us };
	while (free < need && i < n) {
		ret->shadow_us = sorted[i].end_us;
		free += sorted[i++].units;
	}
	/* Runs that end at that very moment free their units too. */
	for (; i < n && sorted[i].end_us == ret->shadow_us && free >= need; i++) {
		free += sorted[i].units;
	}
	if (free < need) {
		*ret = (struct backfill){ .shadow_us = INT64_MAX, .spare = INT64_MAX };
	} else {
		ret->spare = free - need;
	}
}

bool backfill_fits(const struct backfill *b, int64_t units, int64_t end_us)
{
	return b->shadow_us == INT64_MAX || end_us <= b->shadow_us || units <= b->spare;
}

bool backfill_take(struct backfill *b, int64_t units, int64_t end_us)
{
	if (!backfill_fits(b, units, end_us)) {
		return false;
	}
	if (b->shadow_us != INT64_MAX && end_us > b->shadow_us) {
		b->spare -= units;
	}
	return true;
}

/* ---- preemption ------------------------------------------------------------------------------ */

bool victim_deadline_holds(const struct schedule_policy *p, const struct victim *v, int64_t now_us)
{
	int64_t again = v->has_path ? v->saved_us : v->ran_us, left = v->deadline_us - now_us;

	if (v->deadline_us == 0) {
		return true;
	}
	left -= v->save_us + p->preempt_hold_us + v->restart_us + again;
	return v->left_us > 0 && left >= 0 && left - v->left_us >= v->left_us / 2;
}

const char *victim_refusal(struct arena *a, const struct schedule_policy *p, const struct victim *v,
    int32_t priority, int64_t now_us)
{
	char ago[32];

	if (p->preempt_gap <= 0) {
		return "preemption is off";
	}
	if (v->moving) {
		return "it leaves already";
	}
	if (!v->interruptible) {
		return "it must not be interrupted";
	}
	if (!v->preemptible) {
		return "its class is not preempted";
	}
	if ((int64_t)priority - v->priority < p->preempt_gap) {
		return arena_printf(a, "its priority is %d: not %" PRId64 " below %d",
		    (int)v->priority, p->preempt_gap, (int)priority);
	}
	if (!victim_deadline_holds(p, v, now_us)) {
		return "it might miss its deadline";
	}
	if (v->last_us != 0 && now_us - v->last_us < p->preempt_hold_us) {
		return arena_printf(a, "it had to leave %s ago",
		    format_duration(now_us - v->last_us, ago));
	}
	return NULL;
}

int64_t victim_cost(const struct victim *v, double notice_saves)
{
	double lost = v->has_path ? (1 - notice_saves) * (double)v->saved_us : (double)v->ran_us;
	double save = v->has_path ? (double)v->save_us : 0;

	return (int64_t)((double)v->price_micros * (save + (double)v->restart_us + lost) /
		(double)SPOT_US_PER_HOUR +
	    0.5);
}

/* Units in one cell of the table. */
static int64_t cell_units(const struct victim *list, size_t n, int64_t need)
{
	int64_t g = 0;

	for (size_t i = 0; i < n; i++) {
		g = i64_gcd(MAX(list[i].units, 0), g);
	}
	g = MAX(g, 1);
	return (need + g - 1) / g <= UNITS_MAX ? g : (need + UNITS_MAX - 1) / UNITS_MAX;
}

struct cell {
	int64_t cost;
	int32_t count;
};

static bool cell_is_better(struct cell a, struct cell b)
{
	return a.cost != b.cost ? a.cost < b.cost : a.count < b.count;
}

/* best[u] is the cheapest set of victims from i on that frees at least u; take[i * (u_n + 1) + u]
 * says whether i is in it. The loop runs from the last to the first, so the first of equals
 * wins. */
static void victims_cover(struct cell *best, bool *take, const struct victim *list, size_t n,
    size_t u_n, int64_t g)
{
	for (size_t u = 1; u <= u_n; u++) {
		best[u] = (struct cell){ .cost = INT64_MAX, .count = INT32_MAX };
	}
	for (size_t i = n; i-- > 0;) {
		size_t units = (size_t)(MAX(list[i].units, 0) / g);

		for (size_t u = u_n; u > 0 && units > 0; u--) {
			struct cell rest = best[u > units ? u - units : 0], with;

			if (rest.cost == INT64_MAX) {
				continue;
			}
			with = (struct cell){ .cost = rest.cost + MAX(list[i].cost_micros, 0),
				.count = rest.count + 1 };
			if (!cell_is_better(best[u], with)) {
				best[u] = with;
				take[i * (u_n + 1) + u] = true;
			}
		}
	}
}

bool victims_choose(struct arena *a, const struct victim *list, size_t n, int64_t need,
    size_t **ret, size_t *ret_n)
{
	int64_t g = cell_units(list, n, need);
	size_t u_n = (size_t)((MAX(need, 0) + g - 1) / g), left = u_n;
	struct cell *best = arena_array(a, u_n + 1, sizeof(*best));
	bool *take = arena_array(a, (n + 1) * (u_n + 1), sizeof(*take));
	size_t *chosen = arena_array(a, n + 1, sizeof(*chosen)), chosen_n = 0;

	victims_cover(best, take, list, n, u_n, g);
	if (best[u_n].cost == INT64_MAX) {
		return false;
	}
	for (size_t i = 0; i < n && left > 0; i++) {
		if (take[i * (u_n + 1) + left]) {
			size_t units = (size_t)(list[i].units / g);

			chosen[chosen_n++] = i;
			left -= MIN(left, units);
		}
	}
	*ret = chosen;
	*ret_n = chosen_n;
	return true;
}
