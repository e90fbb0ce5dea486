/* The poller's upkeep: it soon retries a statement that the database refused. One that is refused
 * again and again holds up nothing else. */
#include "base/base.h"
#include "engine/market/market.h"
#include "store/store.h"
#include "../pg/store_world.h"

#define LIMIT_US (60 * SPOT_US_PER_S)
#define RETENTION (90 * PRICE_DAY_US)
#define OLD_NAME "price_point_20200101"

static int64_t leader_epoch(void *ctx)
{
	(void)ctx;
	return 1;
}

static struct poller *upkeep_of(struct poller_conf *conf, int64_t look_us)
{
	*conf = (struct poller_conf){ .retention_us = RETENTION,
		.look_us = look_us,
		.parallel_max = 1 };
	return poller_new(
	    &(struct poller_deps){ .loop = loop, .pg = pg, .conf = conf, .epoch = leader_epoch });
}

static struct pg_sync *reader;

static void reader_says(const char *sql)
{
	struct spot_err err = { 0 };

	assert_int_equal(pg_sync_exec(reader, "reader", sql, NULL, 0, NULL, &err), SPOT_OK);
}

/* A day of prices that is past its retention, and a reader of it, as a backup is for hours. */
static void old_day_is_read(void)
{
	struct spot_err err = { 0 };

	testdb_exec(dsn, "SELECT price_partitions_ensure(1577836800000000, 1577836800000001)");
	assert_int_equal(testdb_int(dsn, "SELECT ('" OLD_NAME "'::regclass IS NOT NULL)::int"), 1);
	assert_int_equal(pg_sync_open(dsn, &reader, &err), SPOT_OK);
	reader_says("BEGIN; SELECT FROM price_point");
}

static bool sql_holds(void *sql)
{
	return testdb_int(dsn, sql) != 0;
}

static void await_sql(const char *sql)
{
	assert_true(test_until(loop, LIMIT_US, sql_holds, (void *)(uintptr_t)sql));
}

#define WAITS "SELECT count(*) FROM pg_locks WHERE NOT granted"

static void a_day_that_could_not_be_dropped_is_dropped_soon_after(void **state)
{
	struct poller_conf conf;
	struct poller *p;

	(void)state;
	old_day_is_read();
	p = upkeep_of(&conf, SPOT_US_PER_S);
	await_sql(WAITS);
	await_sql("SELECT (NOT EXISTS (" WAITS " HAVING count(*) > 0))::int");
	reader_says("COMMIT");
	await_sql("SELECT (to_regclass('" OLD_NAME "') IS NULL)::int");
	poller_free(p);
	pg_sync_close(reader);
}

static void a_day_that_cannot_be_dropped_keeps_nothing_else_from_being_done(void **state)
{
	struct poller_conf conf;
	struct poller *p;

	(void)state;
	old_day_is_read();
	testdb_exec(dsn,
	    "INSERT INTO feed_gap (provider, region, feed, from_us, to_us) VALUES ('p', 'r', "
	    "'prices_spot', 1, 2)");
	p = upkeep_of(&conf, SPOT_US_PER_S / 20);
	await_sql("SELECT (count(*) = 0)::int FROM feed_gap");
	assert_int_equal(testdb_int(dsn, "SELECT ('" OLD_NAME "'::regclass IS NOT NULL)::int"), 1);
	poller_free(p);
	pg_sync_close(reader);
}

/* More than one statement takes, beside a table from which nothing can be deleted. */
static void expired_rows_go_whatever_else_stays(void **state)
{
	struct poller_conf conf;
	struct poller *p;

	(void)state;
	testdb_exec(dsn,
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	    "gpu_milli, gpu_mem_mib, vcpus, mem_mib, "
	    "arch, quota_class, offered, seen_us) VALUES ('p', 'r', 'z', '', 't', 'spot', '', 0, "
	    "0, 1, 1, 'x86_64', '', true, 1); "
	    "INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us) "
	    "SELECT id, 'GONE', 1, 't', 'n', 1, 1 FROM pool; "
	    "INSERT INTO node_sample (node_id, at_us, gpus) SELECT id, i, 0 FROM node, "
	    "generate_series(1, 25000) i; "
	    "INSERT INTO price_refused VALUES (1, 1, 1, '', ''); "
	    "INSERT INTO agent_binary VALUES (repeat('a', 64), 'x', 1); "
	    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
	    "'refused'; END $$; "
	    "CREATE TRIGGER refuse BEFORE DELETE ON price_refused FOR EACH ROW EXECUTE FUNCTION "
	    "refuse()");
	p = upkeep_of(&conf, SPOT_US_PER_S / 20);
	await_sql("SELECT (count(*) = 0)::int FROM agent_binary");
	await_sql("SELECT (count(*) = 0)::int FROM node_sample");
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_refused"), 1);
	poller_free(p);
	testdb_exec(dsn, "DROP FUNCTION refuse() CASCADE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_day_that_could_not_be_dropped_is_dropped_soon_after),
		T(a_day_that_cannot_be_dropped_keeps_nothing_else_from_being_done),
		T(expired_rows_go_whatever_else_stays),
	};

	return STORE_TESTS(tests);
}
