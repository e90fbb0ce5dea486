/* One row confirms a poll of a feed, and means the same as a time in each pool's row. */
#include "base/base.h"
#include "price_world.h"

#include "store/q.h"
#include "store/store.h"

static void confirmed_are(const char *want)
{
	assert_string_equal(testdb_text(dsn,
				arena_printf(arena,
				    "SELECT string_agg((observed_us - %" PRId64
				    ")::text || ' ' || state, ', ' ORDER BY pool_id) FROM "
				    "pool_price",
				    NOW_US)),
	    want);
}

static const char *rows_at(void)
{
	return arena_strdup(arena,
	    testdb_text(dsn,
		"SELECT string_agg(ctid::text, ' ' ORDER BY pool_id) FROM pool_latest"));
}

static void a_poll_confirms_what_it_lists_and_writes_only_what_changed(void **state)
{
	struct point at[] = { { 1, 500, NOW_US - 50, 0 }, { 2, 700, 0, 0 }, { 3, 900, 0, 0 } };
	const struct point late[] = { { 2, 600, 0, NOW_US + 25 } };
	const char *before;

	(void)state;
	testdb_exec(dsn, "INSERT INTO leader VALUES ('engine', 1, 'test', 0)");
	prices_pools_make(3);
	prices_partitions(NOW_US, NOW_US + 1);
	for (int i = 0; i < 3; i++) {
		at[0].observed_us = at[1].observed_us = at[2].observed_us = NOW_US + 10 * i;
		assert_int_equal(prices_poll(at, 3).pools, 3);
		before = i == 0 ? rows_at() : before;
		assert_string_equal(rows_at(), before);
	}
	confirmed_are("20 fresh, 20 fresh, 20 fresh");
	/* The third pool is not listed: it keeps its time, however often the feed is polled. */
	for (int i = 3; i < 6; i++) {
		at[0].observed_us = at[1].observed_us = NOW_US + 10 * i;
		assert_int_equal(prices_poll(at, 2).changed, 0);
		confirmed_are(arena_printf(arena, "%d fresh, %d fresh, 20 fresh", 10 * i, 10 * i));
	}
	/* A list read before the last poll changes nothing. */
	assert_int_equal(prices_ingest(late, 1).changed, 0);
	testdb_exec(dsn,
	    "UPDATE pool_latest SET state = CASE pool_id WHEN 1 THEN 'implausible' ELSE 'frozen' "
	    "END");
	at[0].observed_us = at[1].observed_us = at[2].observed_us = NOW_US + 60;
	assert_int_equal(prices_poll(at, 3).changed, 0);
	confirmed_are("60 fresh, 60 frozen, 60 frozen");
	prices_poll(NULL, 0);
	at[0].observed_us = NOW_US + 70;
	prices_poll(at, 1);
	confirmed_are("70 fresh, 60 frozen, 60 frozen");
	/* A poll that finds the price of the round alone, but stale. */
	testdb_exec(dsn, "UPDATE pool_latest SET state = 'stale' WHERE pool_id = 1");
	at[0].observed_us = NOW_US + 80;
	assert_int_equal(prices_poll(at, 1).changed, 0);
	confirmed_are("80 fresh, 60 frozen, 60 frozen");
	/* A poll that began before the last one brings no price. */
	assert_int_equal(prices_poll(&(struct point){ 1, 600, 0, NOW_US + 75 }, 1).changed, 0);
	assert_int_equal(testdb_int(dsn,
			     "SELECT max(price_micros) FROM price_point WHERE pool_id = 1"),
	    500);
}

static void a_poll_without_the_lease_confirms_only_its_own_pools(void **state)
{
	struct point at[] = { { 1, 500, 0, NOW_US }, { 2, 700, 0, NOW_US } };

	(void)state;
	testdb_exec(dsn, "INSERT INTO leader VALUES ('engine', 1, 'test', 0)");
	prices_pools_make(2);
	prices_partitions(NOW_US, NOW_US + 1);
	prices_poll(at, 2);
	testdb_exec(dsn, "UPDATE leader SET epoch = 2");
	at[0].observed_us = NOW_US + 10;
	prices_poll(at, 1);
	confirmed_are("10 fresh, 0 fresh");
}

/* A random poll of the pools from first on: one to three points of some of them. */
static size_t poll_make(struct rng *r, int32_t first, int64_t now_us, struct point *ret)
{
	size_t n = 0;

	for (int32_t i = 0; i < 12; i++) {
		uint64_t points = rng_below(r, 8) == 0 ? 0 : rng_below(r, 8) == 0 ? 3 : 1;

		for (uint64_t k = 0; k < points; k++) {
			int64_t age = (int64_t)rng_below(r, 3) * 3600 * SPOT_US_PER_S;

			ret[n++] = (struct point){ first + i, 100 + (int64_t)rng_below(r, 2),
				i % 3 == 0 ? 0 : now_us - now_us % (7200 * SPOT_US_PER_S) - age,
				now_us };
		}
	}
	return n;
}

#define POLLS_ALL \
	"SELECT string_agg(concat_ws(' ', (pool_id - 1) % 12, price_micros, observed_us, " \
	"CASE WHEN pool_id % 3 <> 1 THEN effective_us END, changed_us, state, why, fade_us, " \
	"round(fade_w::numeric, 12), round(fade_1::numeric, 12), round(fade_2::numeric, 12)), " \
	"E'\n' ORDER BY pool_id) FROM pool_price WHERE pool_id "
#define POINTS_ALL \
	"SELECT md5(string_agg(concat_ws(' ', (pool_id - 1) % 12, price_micros, observed_us, " \
	"effective_us), E'\n' ORDER BY pool_id, observed_us)) FROM price_point WHERE pool_id "

/* Pools 1 to 12 by whole polls, and 13 to 24 by the same points with a row's own time each. A third
 * of the polls says that no price moved, which is wrong. */
static void a_poll_means_the_same_as_a_time_in_each_row(void **state)
{
	struct point at[40];
	struct rng a, b;

	(void)state;
	testdb_exec(dsn, "INSERT INTO leader VALUES ('engine', 1, 'test', 0)");
	prices_pools_make(24);
	prices_partitions(NOW_US, NOW_US + 3 * PRICE_DAY_US);
	rng_seeded_init(&a, 11);
	rng_seeded_init(&b, 11);
	for (int i = 0; i < 60; i++) {
		int64_t now_us = NOW_US + i * 1800 * SPOT_US_PER_S;

		prices_still = i % 3 == 2;
		prices_poll(at, poll_make(&a, 1, now_us, at));
		prices_ingest(at, poll_make(&b, 13, now_us, at));
		if (i % 4 == 3) {
			testdb_exec(dsn,
			    arena_printf(arena,
				"UPDATE pool_latest SET state = '%s', why = 'x' WHERE pool_id %% "
				"12 "
				"IN (%d, %d)",
				i % 8 == 3 ? "frozen" : "stale", i % 12, (i * 5) % 12));
		}
		assert_string_equal(testdb_text(dsn, POLLS_ALL "<= 12"),
		    arena_strdup(arena, testdb_text(dsn, POLLS_ALL "> 12")));
	}
	prices_still = false;
	assert_string_equal(arena_strdup(arena, testdb_text(dsn, POINTS_ALL "<= 12")),
	    testdb_text(dsn, POINTS_ALL "> 12"));
}

#define POLL_ROWS \
	"CREATE TEMP TABLE price_in (pool_id int4 NOT NULL, observed_us int8 NOT NULL, " \
	"effective_us " \
	"int8 NOT NULL, price_micros int8 NOT NULL, source text NOT NULL, several bool NOT NULL) " \
	"ON COMMIT DELETE ROWS; INSERT INTO price_in SELECT 0, %" PRId64 ", 1, 1, E'p\\n%s\\n" \
	"prices_spot', false; INSERT INTO price_in SELECT i, %" PRId64 \
	", 0, %d + i / %d, 'test', " \
	"false FROM generate_series(%d, %d) i"

/* Polls pools with the ids from to to, of which the last may have another price. Returns how many
 * rows of pool_latest were read. */
static int64_t poll_reads(const char *feed, int64_t at_us, int price, int moves, int from, int to)
{
	return testdb_int(dsn,
	    arena_printf(arena,
		POLL_ROWS
		"; SELECT * FROM price_merge(); SELECT seq_tup_read + "
		"idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'pool_latest'",
		at_us, feed, at_us, price, moves, from, to));
}

static void a_small_feed_reads_only_its_own_pools(void **state)
{
	const int all = 3000, few = 20;

	(void)state;
	testdb_exec(dsn, "INSERT INTO leader VALUES ('engine', 1, 'test', 0)");
	prices_pools_make(all);
	prices_partitions(NOW_US, NOW_US + 1);
	poll_reads("large", NOW_US, 100, 1000000, few + 1, all);
	poll_reads("small", NOW_US, 100, 1000000, 1, few);
	testdb_exec(dsn, "ANALYZE pool_latest");
	/* The same prices, one that is stale, a new one, and one pool less. */
	assert_in_range(poll_reads("small", NOW_US, 100, 1000000, 1, few), few, 10 * few);
	testdb_exec(dsn, "UPDATE pool_latest SET state = 'stale' WHERE pool_id = 1");
	assert_in_range(poll_reads("small", NOW_US + 1, 100, 1000000, 1, few), few, 10 * few);
	assert_in_range(poll_reads("small", NOW_US + 2, 100, few, 1, few), few, 10 * few);
	assert_in_range(poll_reads("small", NOW_US + 3, 100, few, 1, few - 1), few, 10 * few);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_point"), all + 1);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM pool_latest WHERE round_id IS NULL"),
	    1);
}

/* Ages the prices at a time. Returns when the next one can become stale, 0 = none can. */
static int64_t prices_age(int64_t now_us, int64_t changed)
{
	struct q_market_prices_age_row *row;
	struct pg_req req = { 0 };
	int64_t next;

	q_market_prices_age(pg, &req,
	    &(struct q_market_prices_age){ .now_us = now_us,
		.spot_us = 100,
		.on_demand_us = 1000,
		.frozen_us = 500,
		.fence = 1 },
	    no_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(q_market_prices_age_rows(&req, arena, &row), 1);
	assert_int_equal(row->changed, changed);
	next = row->has_next_us ? row->next_us : 0;
	pg_req_fini(&req);
	return next;
}

/* Nothing is due before the time that a look returns, so the engine need not look before. */
static void a_look_at_ages_says_when_the_next_is_due(void **state)
{
	const struct point in[] = { { 1, 500, 0, NOW_US }, { 2, 700, 0, NOW_US + 50 } };
	const struct point again[] = { { 1, 500, 0, NOW_US + 400 } };

	(void)state;
	testdb_exec(dsn, "INSERT INTO leader VALUES ('engine', 1, 'test', 0)");
	prices_pools_make(2);
	prices_partitions(NOW_US, NOW_US + 1);
	prices_ingest(in, 2);
	assert_int_equal(prices_age(NOW_US + 100, 0), NOW_US + 300);
	assert_int_equal(prices_age(NOW_US + 300, 0), NOW_US + 300);
	assert_int_equal(prices_age(NOW_US + 301, 1), NOW_US + 350);
	assert_int_equal(prices_age(NOW_US + 351, 1), 0);
	/* A new poll makes the first fresh, without a look. It is frozen later. */
	prices_ingest(again, 1);
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(state, ' ' ORDER BY pool_id) FROM pool_latest"),
	    "fresh stale");
	assert_int_equal(prices_age(NOW_US + 600, 1), NOW_US + 700);
	assert_string_equal(testdb_text(dsn, "SELECT state FROM pool_latest WHERE pool_id = 1"),
	    "frozen");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_poll_confirms_what_it_lists_and_writes_only_what_changed),
		T(a_poll_without_the_lease_confirms_only_its_own_pools),
		T(a_poll_means_the_same_as_a_time_in_each_row),
		T(a_small_feed_reads_only_its_own_pools),
		T(a_look_at_ages_says_when_the_next_is_due),
	};

	return STORE_TESTS(tests);
}
