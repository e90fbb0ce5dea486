/* Gives a backtest only what was known at the time. The rules are in the header. */
#include "base/base.h"
#include "core/trace/trace.h"

#include <math.h>

int64_t past_price_at(const struct past_pool *p, int64_t at_us)
{
	size_t lo = 0, hi = p->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->prices[mid].at_us <= at_us) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return p->n == 0 ? 0 : p->prices[lo > 0 ? lo - 1 : 0].micros;
}

/* Inserts a pool into the cheapest so far. */
static void pick_insert(struct past_pick *picks, double *costs, size_t *n, size_t most,
    struct past_pick x, double cost)
{
	size_t at = *n;

	while (at > 0 && costs[at - 1] > cost) {
		at--;
	}
	if (at == most) {
		return;
	}
	*n = MIN(*n + 1, most);
	for (size_t k = *n - 1; k > at; k--) {
		picks[k] = picks[k - 1];
		costs[k] = costs[k - 1];
	}
	picks[at] = x;
	costs[at] = cost;
}

size_t past_picks(struct arena *a, const struct past_pool *pools, size_t n, int64_t from_us,
    int64_t to_us, int64_t every_us, size_t most, struct past_pick **ret)
{
	size_t rounds = (size_t)((to_us - from_us + every_us - 1) / every_us), all = 0;
	double *costs = arena_array(a, most + 1, sizeof(*costs));

	*ret = arena_array(a, rounds * most + 1, sizeof(**ret));
	for (size_t round = 0; round < rounds; round++) {
		size_t here = 0;

		for (size_t k = 0; k < n; k++) {
			int64_t micros =
			    past_price_at(&pools[k], from_us + (int64_t)round * every_us);

			if (micros > 0 && pools[k].speed > 0) {
				pick_insert(*ret + all, costs, &here, most,
				    (struct past_pick){ round, k },
				    (double)micros / pools[k].speed);
			}
		}
		all += here;
	}
	return all;
}

void past_fill_with(char *up, size_t n, char with)
{
	for (size_t i = 0; i < n; i++) {
		up[i] = up[i] == '?' ? with : up[i];
	}
}

void past_fill(char *up, size_t n, int64_t tick_us, double odds, double hazard, struct rng *r)
{
	double tick_h = (double)tick_us / (double)SPOT_US_PER_HOUR,
	       share = fmin(fmax(odds, 0.01), 0.99);
	/* In equilibrium as many leave as come: share * leave = (1 - share) * come. */
	double come = hazard * share / (1 - share), both = hazard + come;
	double moved = -expm1(-both * tick_h);

	for (size_t i = 0; i < n; i++) {
		double p;

		if (up[i] != '?') {
			continue;
		}
		/* The exact chance that the chain is up one tick later. */
		p = i == 0 ? share : up[i - 1] == '1' ? 1 - (1 - share) * moved : share * moved;
		up[i] = rng_unit(r) < p ? '1' : '0';
	}
}
