/* Fail-over to on-demand and the way back. */
#include "base/base.h"
#include "core/policy/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define S SPOT_US_PER_S

static enum supply_choice supply_ask(struct supply_in in, const char **why, int64_t *until)
{
	static struct arena *a;
	struct supply_policy p;

	arena_free(a);
	a = arena_new(0);
	supply_policy_default(&p);
	in.spot_allowed = in.on_demand_allowed = true;
	return supply_choose(a, &in, &p, why, until);
}

static void spot_first_while_it_is_cheaper(void **state)
{
	const char *why;
	int64_t until;

	(void)state;
	assert_int_equal(supply_ask((struct supply_in){ .now_us = S,
					.queued_us = S,
					.spot_usable = 3,
					.on_demand_usable = 2,
					.spot_best_micros = 100,
					.on_demand_best_micros = 300 },
			     &why, &until),
	    SUPPLY_SPOT);
	assert_int_equal(supply_ask((struct supply_in){ .now_us = S,
					.queued_us = S,
					.spot_usable = 3,
					.on_demand_usable = 2,
					.spot_best_micros = 300,
					.on_demand_best_micros = 100 },
			     &why, &until),
	    SUPPLY_ON_DEMAND);
	assert_non_null(why);
}

static void without_spot_it_waits_for_the_patience_then_fails_over(void **state)
{
	struct supply_in in = { .queued_us = 1000 * S,
		.on_demand_usable = 1,
		.on_demand_best_micros = 100 };
	const char *why;
	int64_t until;

	(void)state;
	in.now_us = 1001 * S;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_WAIT);
	assert_int_equal(until, 1600 * S);
	in.now_us = 1599 * S;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_WAIT);
	in.now_us = 1600 * S;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_ON_DEMAND);
}

static void pools_that_refuse_one_after_the_other_use_up_the_patience(void **state)
{
	struct supply_in in = { .queued_us = 1000 * S,
		.now_us = 1599 * S,
		.spot_usable = 90,
		.spot_refused = 40,
		.on_demand_usable = 1,
		.on_demand_best_micros = 300,
		.spot_best_micros = 100 };
	const char *why;
	int64_t until;

	(void)state;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_SPOT);
	in.now_us = 1600 * S;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_ON_DEMAND);
	/* Without a refusal the wait had another cause, such as a daemon that was down: spot is
	 * tried first. */
	in.spot_refused = 0;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_SPOT);
}

static void a_deadline_shortens_the_patience(void **state)
{
	struct supply_in in = { .now_us = 1000 * S,
		.queued_us = 1000 * S,
		.on_demand_usable = 1,
		.on_demand_best_micros = 1,
		.work_left_us = 3000 * S };
	const char *why;
	int64_t until;

	(void)state;
	/* slack = 4640 - 1000 - 3000 - 240 = 400 s; a quarter of it is 100 s */
	in.deadline_us = 4640 * S;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_WAIT);
	assert_int_equal(until, 1100 * S);
	in.deadline_us = 4240 * S;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_ON_DEMAND);
	in.spot_usable = 1;
	in.spot_best_micros = 0;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_ON_DEMAND);
	assert_non_null(strstr(why, "last safe moment"));
	/* 240 s of slack are gone once spot is lost: one second more, and on-demand still fits
	 * behind it. */
	in.on_demand_best_micros = 300;
	in.spot_best_micros = 100;
	in.deadline_us = 4480 * S;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_ON_DEMAND);
	in.deadline_us = 4481 * S;
	assert_int_equal(supply_ask(in, &why, &until), SUPPLY_SPOT);
}

static void nothing_anywhere_waits_and_says_so(void **state)
{
	const char *why;
	int64_t until;

	(void)state;
	assert_int_equal(supply_ask((struct supply_in){ .now_us = 5000 * S, .queued_us = S }, &why,
			     &until),
	    SUPPLY_WAIT);
	assert_non_null(strstr(why, "no pool suits"));
	assert_true(until > 5000 * S);
}

static struct return_out return_ask(struct return_in in)
{
	static struct arena *a;
	struct supply_policy p;
	struct return_out out;

	arena_free(a);
	a = arena_new(0);
	supply_policy_default(&p);
	return_decide(a, &in, &p, &out);
	return out;
}

static void it_returns_only_when_the_move_pays(void **state)
{
	struct return_in in = { .now_us = 10000 * S,
		.here_total_micros = 10000000,
		.there_total_micros = 3000000,
		.here_price_micros = 1000000,
		.there_price_micros = 300000 };

	(void)state;
	assert_true(return_ask(in).move);
	in.there_total_micros = 9950000;
	assert_false(return_ask(in).move);
	in.there_total_micros = 0;
	assert_false(return_ask(in).move);
}

/* Here 3 dollars an hour, there 1; four minutes of start and five of holding, in which work is done
 * here. */
static void a_move_costs_what_is_paid_twice_and_one_start_only_once(void **state)
{
	struct return_in in = { .now_us = 10000 * S,
		.here_total_micros = 30000000,
		.there_total_micros = 11000000,
		.here_price_micros = 3000000,
		.there_price_micros = 1000000 };

	(void)state;
	/* Nine minutes here; there_total has four minutes of start already. */
	assert_int_equal(return_ask(in).cost_micros, (int64_t)(3e6 * 9 / 60 - 1e6 * 4 / 60));
	/* Work done here is worth half as much there: half of the nine minutes is paid on top. */
	in.speed = 2;
	assert_int_equal(return_ask(in).cost_micros, (int64_t)(450000 + 75000 - 1e6 * 4 / 60));
	/* A move without a saving is no move, however little it costs. */
	in.here_price_micros = 1;
	in.here_total_micros = in.there_total_micros;
	in.speed = 0.01;
	assert_int_equal(return_ask(in).cost_micros, 0);
	assert_false(return_ask(in).move);
}

static const struct offer in_a = { .pool_id = 1,
	.provider = "aws",
	.region = "a",
	.gpu_name = "H100" };
static const struct offer in_b = { .pool_id = 2,
	.provider = "aws",
	.region = "b",
	.gpu_name = "H100" };
static const struct offer in_a_too = { .pool_id = 3,
	.provider = "aws",
	.region = "a",
	.gpu_name = "H100" };

/* The pools that are asked one after another, all of which refuse. */
static void probes_run(const struct score *const *list, size_t n, const struct score *here,
    int32_t *ret, size_t probes_n)
{
	const struct offer *refused[16];
	struct supply_policy p;

	supply_policy_default(&p);
	for (size_t i = 0; i < probes_n; i++) {
		const struct score *s = return_probe(list, n, here, refused, i, &p);

		refused[i] = s->offer;
		ret[i] = s->offer->pool_id;
	}
}

/* Here 10 dollars an hour for 10 hours. */
static void a_refused_probe_has_the_next_ask_another_pool_and_forgets_none(void **state)
{
	struct score here = { .total_micros = 100000000,
		.price_micros = 10000000,
		.hours = 10,
		.throughput = 1 };
	struct score cheap = { .offer = &in_a,
		.total_micros = 20000000,
		.price_micros = 2000000,
		.hours = 10,
		.throughput = 1 };
	struct score fair = { .offer = &in_b,
		.total_micros = 70000000,
		.price_micros = 7000000,
		.hours = 10,
		.throughput = 1 };
	struct score dear = { .offer = &in_a_too,
		.total_micros = 99900000,
		.price_micros = 9990000,
		.hours = 10,
		.throughput = 1 };
	const struct score *const list[] = { &cheap, &fair, &dear };
	struct supply_policy p;
	int32_t asked[7];

	(void)state;
	supply_policy_default(&p);
	/* 80, 40, 20 against 30; then 20 against 15; ... a pool that does not pay for the move is
	 * never asked. */
	probes_run(list, 3, &here, asked, 7);
	assert_memory_equal(asked, ((int32_t[]){ 1, 1, 2, 1, 2, 1, 2 }), sizeof(asked));
	assert_null(return_probe(&list[2], 1, &here, NULL, 0, &p));
	assert_null(return_probe(list, 0, &here, NULL, 0, &p));
	/* A neighbour's refusal counts half: of two alike in one region and one elsewhere the one
	 * elsewhere is next. */
	dear = cheap;
	dear.offer = &in_a_too;
	fair.total_micros = 25000000;
	fair.price_micros = 2500000;
	probes_run(list, 3, &here, asked, 4);
	assert_memory_equal(asked, ((int32_t[]){ 1, 2, 3, 2 }), 4 * sizeof(asked[0]));
}

static void it_never_thrashes(void **state)
{
	struct return_in in = { .now_us = 10000 * S,
		.here_total_micros = 10000000,
		.there_total_micros = 3000000,
		.here_price_micros = 1000000,
		.there_price_micros = 300000 };

	(void)state;
	in.moves_last_hour = 4;
	assert_false(return_ask(in).move);
	in.moves_last_hour = 0;
	in.last_move_us = 9900 * S;
	assert_false(return_ask(in).move);
	in.last_move_us = 0;
	in.last_probe_us = 9800 * S;
	assert_false(return_ask(in).move);
	in.last_probe_us = 9699 * S;
	assert_true(return_ask(in).move);
	in.probes_refused = 1;
	assert_false(return_ask(in).move);
	assert_int_equal(return_ask(in).again_us, (9699 + 600) * S);
	in.probes_refused = 30;
	assert_int_equal(return_ask(in).again_us, (9699 + 3600) * S);
}

/* A job in the hands of an adversary, for a week. While it runs on demand, spot is offered for next
 * to nothing. Once it has moved there, spot is reclaimed after any delay that suits him. */
struct ordeal {
	int64_t now, queued, probe, moves[4096];
	size_t moves_n;
	enum { QUEUED, ON_DEMAND, PROBING, ON_SPOT } at;
};

static int32_t moves_since(const struct ordeal *o, int64_t since)
{
	int32_t n = 0;

	for (size_t i = o->moves_n; i > 0 && o->moves[i - 1] > since; i--) {
		n++;
	}
	return n;
}

static void ordeal_step(struct ordeal *o, bool takes_back)
{
	struct return_in in = { .now_us = o->now,
		.here_total_micros = 90000000,
		.there_total_micros = 1000000,
		.here_price_micros = 9000000,
		.there_price_micros = 100000,
		.last_probe_us = o->probe,
		.last_move_us = o->moves_n > 0 ? o->moves[o->moves_n - 1] : 0,
		.moves_last_hour = moves_since(o, o->now - 3600 * S) };
	const char *why;
	int64_t until;

	if (o->at == QUEUED &&
	    supply_ask((struct supply_in){ .now_us = o->now,
			   .queued_us = o->queued,
			   .on_demand_usable = 1,
			   .on_demand_best_micros = 100 },
		&why, &until) == SUPPLY_ON_DEMAND) {
		o->at = ON_DEMAND;
	} else if (o->at == ON_DEMAND && return_ask(in).move) {
		o->at = PROBING;
		o->probe = o->now;
	} else if (o->at == PROBING && o->now - o->probe >= 300 * S) {
		o->at = ON_SPOT;
		o->moves[o->moves_n++] = o->now;
	} else if (o->at == ON_SPOT && takes_back) {
		o->at = QUEUED;
		o->queued = o->now - 600 * S; /* at worst for it, its patience is over at once */
	}
}

static void no_adversary_gets_more_moves_an_hour_than_the_limit(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct ordeal o = { .at = ON_DEMAND };
		struct rng rng;
		int32_t most = 0;

		rng_seeded_init(&rng, seed);
		for (o.now = 10000 * S; o.now < 614800 * S; o.now += 10 * S) {
			/* The first takes back at once, the others ever more rarely. */
			ordeal_step(&o, rng_below(&rng, seed * 5 + 1) == 0);
			most = MAX(most, moves_since(&o, o.now - 3600 * S));
		}
		assert_true(o.moves_n > 200);
		assert_in_range(most, 3, 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spot_first_while_it_is_cheaper),
		cmocka_unit_test(without_spot_it_waits_for_the_patience_then_fails_over),
		cmocka_unit_test(pools_that_refuse_one_after_the_other_use_up_the_patience),
		cmocka_unit_test(a_deadline_shortens_the_patience),
		cmocka_unit_test(nothing_anywhere_waits_and_says_so),
		cmocka_unit_test(it_returns_only_when_the_move_pays),
		cmocka_unit_test(a_refused_probe_has_the_next_ask_another_pool_and_forgets_none),
		cmocka_unit_test(a_move_costs_what_is_paid_twice_and_one_start_only_once),
		cmocka_unit_test(it_never_thrashes),
		cmocka_unit_test(no_adversary_gets_more_moves_an_hour_than_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
