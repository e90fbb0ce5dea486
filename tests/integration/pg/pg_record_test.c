/* Our own record as the database ages and sums it, read by the hazard model's own reader. */
#include "base/base.h"
#include "core/hazard/hazard.h"
#include "harness.h"
#include "io/pg/pg.h"
#include "store/q.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* A day's middle: the 20,000th since the epoch, 12:00. */
#define NOW (INT64_C(20000) * 86400 * SPOT_US_PER_S + 12 * SPOT_US_PER_HOUR)
#define NOW_HOUR (INT64_C(20000) * 24 + 12)

static struct testdb *db;
static struct loop *loop;
static struct pg *pg;
static struct arena *arena;
static const char *dsn;

static bool is_ready(void *arg)
{
	return pg_ready(arg);
}

static void no_done(struct op *op)
{
	(void)op;
}

static int set_up(void **state)
{
	(void)state;
	loop = test_loop_new();
	dsn = testdb_new(db);
	arena = arena_new(0);
	/* 1 and 2 share zone and GPU, 3 the zone, 4 the region, 5 the provider, 6 nothing. */
	testdb_exec(dsn,
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	    "gpu_milli, gpu_mem_mib, "
	    "vcpus, mem_mib, arch, quota_class, offered, seen_us) SELECT p, r, z, z, t, 'spot', g, "
	    "1000, 1, 1, 1, 'x86_64', "
	    "'', true, 1 FROM (VALUES ('aws', 'r1', 'z1', 'a', 'H100'), ('aws', 'r1', 'z1', 'b', "
	    "'H100'), "
	    "('aws', 'r1', 'z1', 'c', 'T4'), ('aws', 'r1', 'z2', 'a', 'H100'), ('aws', 'r2', 'z3', "
	    "'a', 'H100'), "
	    "('gcp', 'r1', 'z1', 'a', 'H100')) v (p, r, z, t, g)");
	pg = pg_new(loop, &(struct pg_conf){ .dsn = dsn, .connections = 2 });
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, is_ready, pg));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pg_free(pg);
	loop_turn(loop, 0);
	loop_free(loop);
	arena_free(arena);
	return 0;
}

static bool is_near(double a, double b)
{
	return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
}

static const struct offer_record *record_of(int32_t pool)
{
	struct pg_req req = { 0 };
	struct q_offers_row *rows;
	const struct offer_record *found = NULL;
	size_t n;

	op_init(&req.op, loop, no_done);
	q_offers(pg, &req,
	    &(struct q_offers){ .since_day = 20000 - 30,
		.at_us = NOW,
		.half_h = 336,
		.recent_h = 8,
		.odds_h = 4,
		.told = true },
	    no_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	n = q_offers_rows(&req, arena, &rows);
	for (size_t i = 0; i < n; i++) {
		if (rows[i].id == pool) {
			assert_null(found);
			found = offer_record_parse(arena, rows[i].record);
		}
	}
	pg_req_fini(&req);
	return found;
}

static void habits_run(void)
{
	struct pg_req req = { 0 };

	op_init(&req.op, loop, no_done);
	q_market_habits(pg, &req, &(struct q_market_habits){ .at_us = NOW }, no_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	pg_req_fini(&req);
}

static void a_day_two_weeks_ago_counts_half(void **state)
{
	const struct offer_record *r;

	(void)state;
	testdb_exec(dsn,
	    "INSERT INTO pool_day VALUES (1, 20000, 36000000000, 2, 3, 1), (1, 19986, 72000000000, "
	    "4, 9, 9), "
	    "(1, 19900, 3600000000000, 400, 9, 9)");
	r = record_of(1);
	assert_true(is_near(r->node_hours, 10 + 20 / 2.0) && is_near(r->reclaims, 2 + 4 / 2.0));
	assert_null(record_of(2));
}

static void hours_ago_count_by_their_half_lives(void **state)
{
	const struct offer_record *r;
	char sql[400];

	(void)state;
	snprintf(sql, sizeof(sql),
	    "INSERT INTO pool_day VALUES (1, 20000, 36000000000, 9, 9, 9); "
	    "INSERT INTO pool_hour VALUES (1, %d, 3600000000, 1, 1, 0), (1, %d, 7200000000, 2, 0, "
	    "1), (1, %d, 3600000000, 8, 8, 8)",
	    (int)NOW_HOUR, (int)NOW_HOUR - 8, (int)NOW_HOUR - 200);
	testdb_exec(dsn, sql);
	r = record_of(1);
	assert_true(
	    is_near(r->recent_hours, 1 + 2 / 2.0) && is_near(r->recent_reclaims, 1 + 2 / 2.0));
	assert_true(is_near(r->launches, 1) && is_near(r->refusals, 0.25));
}

static void habits_tell_the_hour_and_how_many_at_a_time(void **state)
{
	const struct offer_record *r;
	char sql[400];

	(void)state;
	/* An hour of a node at each hour of 2 days, 4 reclaims at once on each day at 18. */
	snprintf(sql, sizeof(sql),
	    "INSERT INTO pool_day VALUES (1, 20000, 36000000000, 8, 0, 0); "
	    "INSERT INTO pool_hour SELECT 1, h, 3600000000, CASE WHEN h %% 24 = 18 THEN 4 ELSE 0 "
	    "END, 0, 0 "
	    "FROM generate_series(%d, %d) h",
	    (int)NOW_HOUR - 47, (int)NOW_HOUR);
	testdb_exec(dsn, sql);
	habits_run();
	r = record_of(1);
	assert_true(is_near(r->reclaim_hours, 8 / 4.0));
	assert_true(r->hour_reclaims > 1.8 && r->hour_reclaims < 2);
	assert_true(is_near(r->reclaim_cos / r->hour_reclaims, cos(18.5 / 24 * 2 * M_PI)));
	assert_true(is_near(r->reclaim_sin / r->hour_reclaims, sin(18.5 / 24 * 2 * M_PI)));
	assert_true(r->hour_nodes > 45 && r->hour_nodes < 48);
	assert_true(fabs(r->node_cos) < 0.5 && fabs(r->node_sin2) < 0.5);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM pool_hour"), 48);
	/* Worked out a second time it is the same, and rows that are too old go. */
	testdb_exec(dsn, "INSERT INTO pool_hour VALUES (1, 400000, 1, 1, 1, 1)");
	habits_run();
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM pool_hour"), 48);
	assert_true(is_near(record_of(1)->hour_reclaims, r->hour_reclaims));
}

static void habits_tell_which_pools_lose_nodes_together(void **state)
{
	const struct offer_record *r;
	char sql[600];

	(void)state;
	/* 1 loses a node; 2 does in the next hour, 3 to 6 have nodes and lose none, 4 lost one long
	 * before. */
	snprintf(sql, sizeof(sql),
	    "INSERT INTO pool_day SELECT i, 20000, 36000000000, 1, 0, 0 FROM generate_series(1, 6) "
	    "i; "
	    "INSERT INTO pool_hour SELECT i, %d, 3600000000, CASE i WHEN 1 THEN 1 ELSE 0 END, 0, 0 "
	    "FROM generate_series(1, 6) i; "
	    "INSERT INTO pool_hour VALUES (2, %d, 0, 1, 0, 0), (4, %d, 3600000000, 1, 0, 0)",
	    (int)NOW_HOUR - 1, (int)NOW_HOUR, (int)NOW_HOUR - 10);
	testdb_exec(dsn, sql);
	habits_run();
	r = record_of(1);
	for (int level = 0; level < 4; level++) {
		assert_true(r->joint_chances[level] > 0.99 && r->joint_chances[level] < 1);
		assert_true(
		    is_near(r->joint_hits[level], level == 3 ? r->joint_chances[level] : 0));
	}
	/* 3 and 5 never lost a node; 2 did in one of its two hours. */
	assert_true(r->joint_alone[2] <= 0 && r->joint_alone[0] <= 0);
	assert_true(fabs(r->joint_alone[3] - (1 - exp(-1.5))) < 0.01);
	assert_true(record_of(6)->joint_chances[3] <= 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(a_day_two_weeks_ago_counts_half),
		T(hours_ago_count_by_their_half_lives),
		T(habits_tell_the_hour_and_how_many_at_a_time),
		T(habits_tell_which_pools_lose_nodes_together),
	};
	int failed;

	db = testdb_start();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	testdb_stop(db);
	return failed;
}
