/* Jobs that take any fleet of their team. */
#include "base/base.h"
#include "core/fleet/fleet_plan.h"
#include "core/fleet/fleet_priv.h"
#include "core/fleet/fleet_size.h"

#include <math.h>

/* The room left in a fleet. */
struct left {
	int64_t fleet_id, free, grow;
};

static struct left *left_find(struct left *list, size_t *n, const struct fleet_any *x)
{
	for (size_t i = 0; i < *n; i++) {
		if (list[i].fleet_id == x->fleet_id) {
			return &list[i];
		}
	}
	list[*n] = (struct left){ x->fleet_id, MAX(x->free, 0), MAX(x->grow, 0) };
	return &list[(*n)++];
}

static bool is_better(const struct left *lx, const struct left *ly)
{
	return (lx->free > 0) != (ly->free > 0) ? lx->free > 0 : lx->grow > ly->grow;
}

int64_t fleet_gpus_work(const char *gpus_of, const char *gpu, int64_t milli)
{
	const struct fleet_spec f = { .gpus_of = gpus_of };

	return llround(fleet_gpu_worth(&f, gpu) * (double)milli);
}

int64_t fleet_gpus_grow(const char *gpus_of, int64_t most, const struct fleet_gpus *nodes,
    size_t nodes_n, const struct fleet_gpus *queue, size_t queue_n)
{
	int64_t live = 0, need = 0;

	for (size_t i = 0; i < nodes_n; i++) {
		live += fleet_gpus_work(gpus_of, nodes[i].gpu, nodes[i].milli);
		need -= fleet_gpus_work(gpus_of, nodes[i].gpu, nodes[i].idle);
	}
	for (size_t i = 0; i < queue_n; i++) {
		need += fleet_gpus_work(gpus_of, queue[i].gpu, queue[i].milli);
	}
	return 1000 * most - live - MAX(need, INT64_C(0));
}

size_t fleet_any_choose(struct arena *a, struct fleet_any *list, size_t n)
{
	struct left *lefts = arena_array(a, n + 1, sizeof(*lefts)), *left, *best_left;
	size_t lefts_n = 0, picked = 0, best;

	for (size_t i = 0; i < n;) {
		int64_t job = list[i].job_id;

		best = SIZE_MAX;
		best_left = NULL;
		for (; i < n && list[i].job_id == job; i++) {
			left = left_find(lefts, &lefts_n, &list[i]);
			if ((left->free > 0 || left->grow >= list[i].weight) &&
			    (best == SIZE_MAX || is_better(left, best_left))) {
				best = i;
				best_left = left;
			}
		}
		if (best_left != NULL) {
			best_left->grow -= best_left->free > 0 ? 0 : list[best].weight;
			best_left->free -= best_left->free > 0;
			list[picked++] = list[best];
		}
	}
	return picked;
}
