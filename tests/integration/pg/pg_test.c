/* The database client against a real server: how statements affect one another, and values both
 * ways. pg_loss_test.c has lost connections. */
#include "base/base.h"
#include "pg_world.h"

#include "base/text/text.h"
#include "store/bind.h"

static const unsigned int8_type[] = { OID_INT8 };
static const struct pg_stmt stmt_divide = { .name = "divide",
	.sql = "SELECT 10 / $1",
	.params_n = 1,
	.param_types = int8_type };
static const struct pg_stmt stmt_broken = { .name = "broken",
	.sql = "SELECT nothing FROM nowhere" };

/* ---- statements ------------------------------------------------------------------------------ */

static void a_statement_gives_its_row_and_never_completes_inside_the_call(void **state)
{
	struct world *w = *state;
	struct pg_req req = { 0 };

	exec_int(w, &req, &stmt_echo, 41);
	assert_int_equal(done_count, 0);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	assert_int_equal(pg_rows(req.result), 1);
	assert_int_equal(pg_int(req.result, 0, 0), 42);
	assert_int_equal(done_count, 1);
	pg_req_fini(&req);
	pg_req_fini(&req);
}

static void a_failing_statement_leaves_its_pipeline_neighbours_alone(void **state)
{
	struct world *w = *state;
	struct pg_req reqs[300] = { 0 };

	for (int i = 0; i < 300; i++) {
		exec_int(w, &reqs[i], i % 3 == 0 ? &stmt_divide : &stmt_echo, i % 6 == 0 ? 0 : i);
	}
	for (int i = 0; i < 300; i++) {
		assert_true(test_op_wait(&reqs[i].op));
		if (i % 6 == 0) {
			assert_int_equal(reqs[i].op.rc, SPOT_INTERNAL);
			assert_string_equal(reqs[i].op.err.code, "22012");
			assert_non_null(strstr(reqs[i].op.err.text, "divide: division by zero"));
			assert_null(reqs[i].result);
		} else {
			assert_int_equal(reqs[i].op.rc, SPOT_OK);
			assert_int_equal(pg_int(reqs[i].result, 0, 0), i % 3 == 0 ? 10 / i : i + 1);
		}
		pg_req_fini(&reqs[i]);
	}
	assert_int_equal(done_count, 300);
	assert_int_equal(pg_stats(w->pg).reconnects, 0);
}

/* Without lanes the two of them would have both connections. */
static void a_quick_statement_never_waits_behind_long_ones(void **state)
{
	static const struct pg_stmt nap = { .name = "nap",
		.sql = "SELECT pg_sleep(30 + $1)",
		.params_n = 1,
		.param_types = int8_type,
		.lane = PG_LONG };
	struct world *w = *state;
	struct pg_req naps[3] = { 0 }, quick = { 0 }, lost = { 0 };

	for (int i = 0; i < 3; i++) {
		exec_int(w, &naps[i], &nap, 0);
	}
	for (int i = 0; i < 100; i++) {
		exec_int(w, &quick, &stmt_echo, i);
		assert_true(test_op_wait(&quick.op));
		assert_int_equal(quick.op.rc, SPOT_OK);
	}
	assert_int_equal(done_count, 100);
	assert_int_equal(pg_stats(w->pg).busy, 1);
	exec_int(w, &lost, &nap, 0); /* one that waits in its lane goes at its owner's word */
	pg_req_fini(&lost);
	pg_req_fini(&quick);
	for (int i = 0; i < 3; i++) {
		pg_req_fini(&naps[i]);
	}
}

static void a_statement_that_does_not_prepare_fails_and_may_be_tried_again(void **state)
{
	struct world *w = *state;
	struct pg_req bad = { 0 }, good = { 0 };

	for (int i = 0; i < 2; i++) {
		pg_exec(w->pg, &bad, &stmt_broken, NULL, count_done);
		exec_int(w, &good, &stmt_echo, i);
		assert_true(test_op_wait(&bad.op) && test_op_wait(&good.op));
		assert_int_equal(bad.op.rc, SPOT_INTERNAL);
		assert_string_equal(bad.op.err.code, "42P01");
		assert_int_equal(good.op.rc, SPOT_OK);
	}
	testdb_exec(w->dsn, "CREATE TABLE nowhere (nothing int)");
	pg_exec(w->pg, &bad, &stmt_broken, NULL, count_done);
	assert_true(test_op_wait(&bad.op));
	assert_int_equal(bad.op.rc, SPOT_OK);
	pg_req_fini(&bad);
	pg_req_fini(&good);
}

/* The same request writes down its own failure. */
static void parameters_may_be_what_the_request_said_last(void **state)
{
	static const unsigned text_type[] = { OID_TEXT };
	static const struct pg_stmt shout = { .name = "shout",
		.sql = "SELECT $1 || '!'",
		.params_n = 1,
		.param_types = text_type };
	struct world *w = *state;
	struct pg_req req = { 0 };
	struct str said;

	pg_exec(w->pg, &req, &stmt_broken, NULL, count_done);
	assert_true(test_op_wait(&req.op));
	said = (struct str){ req.op.err.text, strlen(req.op.err.text) };
	for (int i = 0; i < 2; i++) {
		pg_exec(w->pg, &req, &shout, &(struct pg_param){ .p = said.p, .n = (int)said.n },
		    count_done);
		assert_true(test_op_wait(&req.op));
		assert_int_equal(req.op.rc, SPOT_OK);
		said = pg_bytes(req.result, 0, 0);
	}
	assert_true(str_eq(said, "broken: relation \"nowhere\" does not exist!!"));
	pg_req_fini(&req);
}

static void a_statement_prepared_before_a_schema_change_works_again_after_one_retry(void **state)
{
	static const struct pg_stmt all = { .name = "all", .sql = "SELECT * FROM t" };
	struct world *w = *state;
	struct pg_req req = { 0 };
	int tries = 0;

	pg_exec(w->pg, &req, &all, NULL, count_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	testdb_exec(w->dsn, "ALTER TABLE t ADD COLUMN more int");
	do {
		pg_exec(w->pg, &req, &all, NULL, count_done);
		assert_true(test_op_wait(&req.op));
	} while (req.op.rc != SPOT_OK && ++tries < 3);
	assert_int_equal(req.op.rc, SPOT_OK);
	assert_int_equal(pg_columns(req.result), 2);
	assert_true(tries <= 1);
	pg_req_fini(&req);
}

static void a_violated_constraint_is_a_conflict_with_its_name(void **state)
{
	struct world *w = *state;
	struct pg_req req = { 0 };

	for (int i = 0; i < 2; i++) {
		exec_int(w, &req, &stmt_insert, 5);
		assert_true(test_op_wait(&req.op));
	}
	assert_int_equal(req.op.rc, SPOT_CONFLICT);
	assert_string_equal(req.op.err.code, "t_pkey");
	assert_null(strstr(req.op.err.text, "(5)")); /* row values may be secrets */
	pg_req_fini(&req);
}

/* Deferred constraints are checked by the commit, which comes after the statement's own result. */
static void an_error_at_commit_is_an_error_of_the_statement(void **state)
{
	struct world *w = *state;
	struct pg_req req = { 0 };

	testdb_exec(w->dsn,
	    "ALTER TABLE t ADD COLUMN twin int8 DEFAULT 9 REFERENCES t DEFERRABLE "
	    "INITIALLY DEFERRED");
	exec_int(w, &req, &stmt_insert, 5);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_CONFLICT);
	assert_string_equal(req.op.err.code, "t_twin_fkey");
	assert_int_equal(testdb_int(w->dsn, "SELECT count(*) FROM t"), 0);
	pg_req_fini(&req);
}

static void affected_rows_are_counted(void **state)
{
	static const struct pg_stmt fill = { .name = "fill",
		.writes = true,
		.sql = "INSERT INTO t SELECT generate_series(1, 123)" };
	struct world *w = *state;
	struct pg_req req = { 0 };

	pg_exec(w->pg, &req, &fill, NULL, count_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(pg_affected(req.result), 123);
	pg_req_fini(&req);
}

/* ---- values ------------------------------------------------------------------------------------
 */

static void values_come_back_as_they_went(void **state)
{
	static const unsigned types[] = { OID_INT8, OID_FLOAT8, OID_BOOL, OID_TEXT, OID_TEXT, 17,
		3802, 23 };
	static const struct pg_stmt stmt = {
		.name = "values",
		.params_n = 8,
		.param_types = types,
		.sql =
		    "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $1::int2 IS NULL, 7::int2, 1.5::float4"
	};
	static const char bytes[] = { 0, 1, '\\', '\'', '\377' };
	static const char text[] = "it's \"quoted\" \\ \xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80 {,} \n";
	struct world *w = *state;
	struct pg_req req = { 0 };
	struct bind b;

	bind_init(&b, stmt.name);
	bind_null(&b);
	bind_f64(&b, -0.1);
	bind_bool(&b, true);
	bind_text(&b, text, false);
	bind_text(&b, NULL, true);
	bind_bytes(&b, (struct str){ bytes, sizeof(bytes) }, false);
	bind_jsonb(&b, "{\"a\": [1, null]}", false);
	bind_i32(&b, INT32_MIN);
	pg_exec(w->pg, &req, &stmt, b.params, count_done);
	bind_fini(&b);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	assert_true(pg_null(req.result, 0, 0));
	assert_true(pg_float(req.result, 0, 1) == -0.1);
	assert_true(pg_bool(req.result, 0, 2));
	assert_string_equal(pg_bytes(req.result, 0, 3).p, text);
	assert_true(pg_null(req.result, 0, 4));
	assert_int_equal(pg_bytes(req.result, 0, 5).n, sizeof(bytes));
	assert_memory_equal(pg_bytes(req.result, 0, 5).p, bytes, sizeof(bytes));
	assert_string_equal(pg_bytes(req.result, 0, 6).p + 1, "{\"a\": [1, null]}");
	assert_int_equal(pg_int(req.result, 0, 7), INT32_MIN);
	assert_true(pg_bool(req.result, 0, 8));
	assert_int_equal(pg_int(req.result, 0, 9), 7);
	assert_true(pg_float(req.result, 0, 10) == 1.5);
	pg_req_fini(&req);
}

static void arrays_carry_any_text_and_nulls(void **state)
{
	static const unsigned types[] = { 1016, 1009, 1022, 1000, 1007, 1009 };
	static const struct pg_stmt stmt = { .name = "arrays",
		.params_n = 6,
		.param_types = types,
		.sql = "SELECT a, b, c::text, d::text FROM unnest($1, $2, $3, $4) u (a, b, c, d) "
		       "UNION ALL SELECT cardinality($5), array_to_string($6, '-'), NULL, NULL" };
	static const int64_t ints[] = { INT64_MIN, 0, INT64_MAX };
	static const char *const texts[] = { "a \"b\" \\c, {d} 'e'", NULL, "\xe2\x82\xac NULL" };
	static const double floats[] = { 1.5, -2, 0 };
	static const bool bools[] = { true, false, true };
	struct world *w = *state;
	struct pg_req req = { 0 };
	struct bind b;

	bind_init(&b, stmt.name);
	bind_i64_array(&b, ints, 3, false);
	bind_text_array(&b, texts, 3, false);
	bind_f64_array(&b, floats, 3, false);
	bind_bool_array(&b, bools, 3, false);
	bind_i32_array(&b, NULL, 0, false);
	bind_text_array(&b, NULL, 0, true);
	pg_exec(w->pg, &req, &stmt, b.params, count_done);
	bind_fini(&b);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(req.op.rc, SPOT_OK);
	assert_int_equal(pg_rows(req.result), 4);
	for (size_t i = 0; i < 3; i++) {
		assert_true(pg_int(req.result, i, 0) == ints[i]);
		assert_int_equal(pg_null(req.result, i, 1), texts[i] == NULL);
		if (texts[i] != NULL) {
			assert_string_equal(pg_bytes(req.result, i, 1).p, texts[i]);
		}
	}
	assert_string_equal(pg_bytes(req.result, 1, 2).p, "-2");
	assert_string_equal(pg_bytes(req.result, 1, 3).p, "false");
	assert_int_equal(pg_int(req.result, 3, 0), 0);
	assert_true(pg_null(req.result, 3, 1));
	pg_req_fini(&req);
}

static void megabytes_both_ways_in_one_pipeline_do_not_block_each_other(void **state)
{
	enum { N = 60, BYTES = 1 << 20 };
	static const unsigned types[] = { OID_TEXT };
	static const struct pg_stmt stmt = { .name = "big",
		.sql = "SELECT $1",
		.params_n = 1,
		.param_types = types };
	struct world *w = *state;
	struct pg_req reqs[N] = { 0 };
	char *text = malloc(BYTES + 1);

	assert_non_null(text);
	memset(text, 'x', BYTES);
	text[BYTES] = '\0';
	for (int i = 0; i < N; i++) {
		struct bind b;

		text[0] = (char)('0' + i);
		bind_init(&b, stmt.name);
		bind_text(&b, text, false);
		pg_exec(w->pg, &reqs[i], &stmt, b.params, count_done);
		bind_fini(&b);
	}
	for (int i = 0; i < N; i++) {
		assert_true(test_op_wait(&reqs[i].op));
		assert_string_equal(reqs[i].op.err.text, "");
		assert_int_equal(pg_bytes(reqs[i].result, 0, 0).n, BYTES);
		assert_int_equal(pg_bytes(reqs[i].result, 0, 0).p[0], '0' + i);
		pg_req_fini(&reqs[i]);
	}
	free(text);
}

static bool both_up(void *arg)
{
	return pg_stats(arg).up == 2;
}

/* One that waits for a lock may take half a minute: nothing is sent behind it where another
 * connection answers. */
static void nothing_waits_behind_a_slow_statement_while_another_connection_answers(void **state)
{
	struct world *w = *state;
	struct pg_req slow = { 0 }, quick = { 0 }, more[5] = { 0 };

	assert_true(test_until(w->loop, 60 * SPOT_US_PER_S, both_up, w->pg));
	exec_float(w, &slow, &stmt_sleep, 30);
	exec_float(w, &quick, &stmt_sleep, 0.1);
	assert_true(test_op_wait(&quick.op));
	exec_float(w, &quick, &stmt_sleep, 0.1);
	for (int i = 0; i < 5; i++) {
		exec_int(w, &more[i], &stmt_echo, i);
	}
	for (int i = 0; i < 5; i++) {
		assert_true(test_op_wait(&more[i].op));
		assert_int_equal(pg_int(more[i].result, 0, 0), i + 1);
		pg_req_fini(&more[i]);
	}
	assert_true(op_busy(&slow.op));
	pg_req_fini(&slow);
	pg_req_fini(&quick);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_statement_gives_its_row_and_never_completes_inside_the_call, set_up),
		T(a_failing_statement_leaves_its_pipeline_neighbours_alone, set_up),
		T(nothing_waits_behind_a_slow_statement_while_another_connection_answers, set_up),
		T(a_quick_statement_never_waits_behind_long_ones, set_up_lanes),
		T(a_statement_that_does_not_prepare_fails_and_may_be_tried_again, set_up),
		T(parameters_may_be_what_the_request_said_last, set_up),
		T(a_statement_prepared_before_a_schema_change_works_again_after_one_retry,
		    set_up_one),
		T(a_violated_constraint_is_a_conflict_with_its_name, set_up),
		T(an_error_at_commit_is_an_error_of_the_statement, set_up),
		T(affected_rows_are_counted, set_up),
		T(values_come_back_as_they_went, set_up),
		T(arrays_carry_any_text_and_nulls, set_up),
		T(megabytes_both_ways_in_one_pipeline_do_not_block_each_other, set_up_one),
	};
	int failed;

	db = testdb_start();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	testdb_stop(db);
	return failed;
}
