/* The days of prices: partitions that come and go, and the prices that outlive them. */
#include "base/base.h"
#include "store/store.h"
#include "store/q.h"
#include "price_world.h"
#include <math.h>

static void partitions_are_made_ahead_once_and_dropped_past_retention(void **state)
{
	struct q_price_partitions_drop_row *row;
	struct pg_req req = { 0 };
	int64_t day = NOW_US - NOW_US % PRICE_DAY_US;

	(void)state;
	assert_int_equal(prices_partitions(day - 2 * PRICE_DAY_US, day + 3 * PRICE_DAY_US), 5);
	assert_int_equal(prices_partitions(day - 2 * PRICE_DAY_US, day + 3 * PRICE_DAY_US), 0);
	assert_int_equal(prices_partitions(day + 3 * PRICE_DAY_US - 1, day + 3 * PRICE_DAY_US + 1),
	    1);
	/* A limit inside a day keeps that day. */
	q_price_partitions_drop(pg, &req, &(struct q_price_partitions_drop){ day - 5 }, no_done);
	assert_true(test_op_wait(&req.op));
	assert_string_equal(req.op.err.text, "");
	assert_int_equal(q_price_partitions_drop_rows(&req, arena, &row), 1);
	assert_int_equal(row->dropped, 1);
	assert_int_equal(testdb_int(dsn,
			     "SELECT count(*) FROM pg_inherits WHERE inhparent = "
			     "'price_point'::regclass"),
	    5);
	assert_int_equal(prices_partitions(day - 1, day), 0);
	pg_req_fini(&req);
}

/* A backup has read prices and reads on. A lock request that must wait makes everybody after it
 * wait. */
static void partitions_come_and_go_beside_a_long_reader(void **state)
{
	struct pg_sync *reader;
	struct q_price_partitions_drop drop = { NOW_US - NOW_US % PRICE_DAY_US + PRICE_DAY_US };
	struct q_price_partitions_drop_row *row;
	struct pg_req req = { 0 }, other = { 0 };
	struct spot_err err = { 0 };

	(void)state;
	prices_pools_make(1);
	prices_partitions(NOW_US, NOW_US + PRICE_DAY_US);
	prices_ingest(&(struct point){ 1, 500, 0, NOW_US }, 1);
	assert_int_equal(pg_sync_open(dsn, &reader, &err), SPOT_OK);
	assert_int_equal(pg_sync_exec(reader, "reader", "BEGIN; SELECT FROM price_point", NULL, 0,
			     NULL, &err),
	    SPOT_OK);

	assert_int_equal(prices_partitions(NOW_US, NOW_US + 3 * PRICE_DAY_US), 2);
	prices_ingest(&(struct point){ 1, 510, 0, NOW_US + 2 * PRICE_DAY_US }, 1);

	q_price_partitions_drop(pg, &req, &drop, no_done);
	q_price_history_pool(pg, &other,
	    &(struct q_price_history_pool){ 1, 0, NOW_US + PRICE_DAY_US }, no_done);
	assert_true(test_op_wait(&other.op));
	assert_int_equal(other.op.rc, SPOT_OK);
	assert_true(test_op_wait(&req.op));
	assert_non_null(strstr(req.op.err.text, "lock timeout"));
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_point"), 2);

	assert_int_equal(pg_sync_exec(reader, "reader", "COMMIT", NULL, 0, NULL, &err), SPOT_OK);
	q_price_partitions_drop(pg, &req, &drop, no_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(q_price_partitions_drop_rows(&req, arena, &row), 1);
	assert_int_equal(row->dropped, 1);
	pg_req_fini(&other);
	pg_req_fini(&req);
	pg_sync_close(reader);
}

static const char *prices_kept(int64_t from_us)
{
	char sql[300];

	(void)snprintf(sql, sizeof(sql),
	    "SELECT string_agg(concat_ws(' ', pool_id, price_micros, observed_us - %" PRId64
	    ", effective_us - %" PRId64 "), ', ' ORDER BY pool_id, observed_us) FROM price_dated",
	    from_us, from_us);
	return testdb_text(dsn, sql);
}

static void drop_before(int64_t us)
{
	char sql[100];

	(void)snprintf(sql, sizeof(sql), "SELECT price_partitions_drop(%" PRId64 ")", us);
	assert_int_not_equal(testdb_int(dsn, sql), 0);
}

/* Pool 1 has not changed for long. Pools 2 and 3 change on the first day that is kept, 3 at once.
 * Pool 4's last point was misdated. */
static void the_price_in_force_is_kept_when_its_day_is_dropped(void **state)
{
	int64_t day = NOW_US - NOW_US % PRICE_DAY_US;
	const struct point old[] = { { 1, 490, day - 60, day + 4 }, { 1, 500, 0, day + 5 },
		{ 2, 600, 0, day + 6 }, { 3, 700, 0, day + 7 }, { 4, 800, 0, day + 8 } };
	const struct point ahead[] = { { 4, 810, 0, day + PRICE_DAY_US - 1 } };
	const struct point later[] = { { 2, 610, 0, day + PRICE_DAY_US + 20 },
		{ 3, 710, 0, day + PRICE_DAY_US } };
	const struct point past[] = { { 1, 480, day - 1000, day + 2 * PRICE_DAY_US } };
	char sql[300];

	(void)state;
	prices_pools_make(4);
	prices_partitions(day, day + 3 * PRICE_DAY_US);
	prices_ingest(old, 5);
	prices_ingest(ahead, 1);
	prices_ingest(later, 2);
	(void)snprintf(sql, sizeof(sql), "INSERT INTO price_misdated VALUES (4, %" PRId64 ")",
	    ahead[0].observed_us);
	testdb_exec(dsn, sql);

	drop_before(day + PRICE_DAY_US);
	(void)snprintf(sql, sizeof(sql),
	    "1 500 60000000 %" PRId64 ", 2 600 19 %" PRId64
	    ", 2 610 20 20, 3 710 0 0, 4 800 60000000 %" PRId64,
	    5 - PRICE_DAY_US, 6 - PRICE_DAY_US, 8 - PRICE_DAY_US);
	assert_string_equal(prices_kept(day + PRICE_DAY_US), sql);

	/* Earlier prices may still be learned, and the next day's end changes nothing. */
	assert_int_equal(prices_ingest_by(past, 1, price_ingest_past).changed, 1);
	drop_before(day + 2 * PRICE_DAY_US);
	(void)snprintf(sql, sizeof(sql),
	    "1 500 60000000 %" PRId64 ", 2 610 60000000 %" PRId64 ", 3 710 60000000 %" PRId64
	    ", 4 800 60000000 %" PRId64,
	    5 - 2 * PRICE_DAY_US, 20 - PRICE_DAY_US, -PRICE_DAY_US, 8 - 2 * PRICE_DAY_US);
	assert_string_equal(prices_kept(day + 2 * PRICE_DAY_US), sql);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(partitions_are_made_ahead_once_and_dropped_past_retention),
		T(partitions_come_and_go_beside_a_long_reader),
		T(the_price_in_force_is_kept_when_its_day_is_dropped),
	};

	return STORE_TESTS(tests);
}
