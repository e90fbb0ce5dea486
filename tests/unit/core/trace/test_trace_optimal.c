/* The optimum against every sequence of choices there is, and against the policies. */
#include "trace_case.h"

static struct arena *arena;

/* Its own arithmetic, changeovers tick by tick as the model has them. Costs in micro-dollars x
 * 3600e6 us. */
struct brute {
	const struct trace_case *c;
	size_t start, n;
	__int128 best;
};
struct brute_at {
	size_t i;
	int64_t done, left; /* progress; changeover left */
	int held, last; /* pool, -1 on demand, -2 nothing; last spot pool, -1 none */
	__int128 cost;
};

static void brute_go(struct brute *b, struct brute_at at);

static void brute_try(struct brute *b, struct brute_at at, int choice)
{
	const struct trace_market *m = &b->c->market;
	const struct trace_job *j = &b->c->job;
	int64_t room = MIN(m->tick_us, j->deadline_us - (int64_t)at.i * m->tick_us), lost, price;

	if (choice != at.held) {
		at.left = choice == -2 ? 0 : j->changeover_us;
		at.held = choice;
		if (choice >= 0 && at.last >= 0 && m->regions[at.last] != m->regions[choice]) {
			at.cost += (__int128)j->transfer_micros * SPOT_US_PER_HOUR;
		}
	}
	if (choice >= 0) {
		at.last = choice;
	}
	if (choice != -2) {
		price = choice == -1 ? j->on_demand_micros : m->pool_price[choice][b->start + at.i];
		at.cost += (__int128)price * m->tick_us;
		lost = MIN(at.left, room);
		at.left -= lost;
		at.done += room - lost;
	}
	if (at.done >= j->work_us) {
		b->best = MIN(b->best, at.cost);
		return;
	}
	at.i++;
	if (at.cost < b->best) {
		brute_go(b, at);
	}
}

static void brute_go(struct brute *b, struct brute_at at)
{
	const struct trace_market *m = &b->c->market;

	if (at.i == b->n) {
		return;
	}
	if (at.held >= 0 && !m->pool_up[at.held][b->start + at.i]) {
		at.held = -2;
		at.left = 0;
	}
	brute_try(b, at, -2);
	brute_try(b, at, -1);
	for (size_t k = 0; k < m->pools_n; k++) {
		if (m->pool_up[k][b->start + at.i]) {
			brute_try(b, at, (int)k);
		}
	}
}

static int64_t brute_cost(const struct trace_case *c, size_t start)
{
	struct brute b = { .c = c,
		.start = start,
		.n = trace_job_ticks(&c->market, &c->job),
		.best = (__int128)1 << 100 };

	brute_go(&b, (struct brute_at){ .held = -2, .last = -1 });
	return (int64_t)((b.best + SPOT_US_PER_HOUR / 2) / SPOT_US_PER_HOUR);
}

static void the_optimum_is_that_of_all_sequences_of_choices(void **state)
{
	struct rng r;
	size_t cheaper = 0, fees = 0;

	(void)state;
	rng_seeded_init(&r, 20240405);
	for (int n = 0; n < 3000; n++) {
		struct trace_case c;
		struct trace_run o, up;
		struct spot_err err = { 0 };
		size_t pools = 1 + rng_below(&r, 3),
		       ticks = pools == 1 ? 3 + rng_below(&r, 8)
		    : pools == 2          ? 3 + rng_below(&r, 6)
					  : 3 + rng_below(&r, 4);
		size_t start = rng_below(&r, 3);

		arena_reset(arena);
		case_draw(arena, &r, ticks, pools, 3, &c);
		assert_int_equal(trace_job_check(&c.market, &c.job, &err), SPOT_OK);
		trace_run_optimal(arena, &c.market, &c.job, start, &o);
		if (o.cost_micros != brute_cost(&c, start)) {
			fail_msg("case %d: %" PRId64 ", all sequences %" PRId64, n, o.cost_micros,
			    brute_cost(&c, start));
		}
		assert_true(o.finish_us <= c.job.deadline_us && o.changeovers >= 1);
		assert_int_equal(trace_run_policy(arena, &c.market, &c.job, start,
				     &policy_uniform_progress, NULL, 0, false, &up, &err),
		    SPOT_OK);
		cheaper += o.cost_micros < up.cost_micros;
		fees += c.job.transfer_micros > 0 && pools > 1;
	}
	assert_true(cheaper > 500 && fees > 300); /* the cases are not all alike */
}

static void no_policy_is_cheaper_than_the_optimum(void **state)
{
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 7);
	for (int n = 0; n < 300; n++) {
		struct trace_case c;
		struct trace_run o, own;
		struct spot_err err = { 0 };

		arena_reset(arena);
		case_draw(arena, &r, 20 + rng_below(&r, 60), 1 + rng_below(&r, 4), 20, &c);
		trace_run_optimal(arena, &c.market, &c.job, 5, &o);
		for (size_t i = 0; policy_at(i) != NULL; i++) {
			assert_int_equal(trace_run_policy(arena, &c.market, &c.job, 5, policy_at(i),
					     NULL, 0, false, &own, &err),
			    SPOT_OK);
			if (own.cost_micros < o.cost_micros) {
				fail_msg("case %d: %s %" PRId64 " below the optimum %" PRId64, n,
				    policy_at(i)->name, own.cost_micros, o.cost_micros);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(
						the_optimum_is_that_of_all_sequences_of_choices),
		cmocka_unit_test(no_policy_is_cheaper_than_the_optimum) };
	int failed;

	arena = arena_new((size_t)1 << 30);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_free(arena);
	return failed;
}
