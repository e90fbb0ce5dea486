#include "base/base.h"
#include "store/q.h"
#include "store_world.h"
#include <libpq-fe.h>

struct loop *loop;
struct pg *pg;
const char *dsn;
struct arena *arena;
static struct testdb *db;

void no_done(struct op *op)
{
	(void)op;
}

int set_up(void **state)
{
	(void)state;
	loop = test_loop_new();
	dsn = testdb_new(db);
	pg = pg_new(loop, &(struct pg_conf){ .dsn = dsn, .connections = 2 });
	arena = arena_new(0);
	return 0;
}

int tear_down(void **state)
{
	(void)state;
	pg_free(pg);
	loop_turn(loop, 0);
	loop_free(loop);
	arena_free(arena);
	return 0;
}

int64_t rows_read(const char *table, const char *name, const char *const *values, int rows)
{
	PGconn *c = PQconnectdb(dsn);
	const struct pg_stmt *s = NULL;
	PGresult *r;
	int64_t n;

	for (size_t i = 0; i < q_all_n && s == NULL; i++) {
		s = strcmp(q_all[i].name, name) == 0 ? &q_all[i] : NULL;
	}
	assert_non_null(s);
	/* as a daemon that runs for long */
	PQclear(PQexec(c, "SET plan_cache_mode = force_generic_plan"));
	PQclear(PQexec(c, "BEGIN"));
	PQclear(PQprepare(c, "", s->sql, s->params_n, s->param_types));
	r = PQexecPrepared(c, "", s->params_n, values, NULL, NULL, 0);
	assert_string_equal(PQresultErrorMessage(r), "");
	assert_int_equal(PQntuples(r), rows);
	PQclear(r);
	r = PQexecParams(c,
	    "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE "
	    "relname = $1",
	    1, NULL, &table, NULL, NULL, 0);
	assert_int_equal(PQntuples(r), 1);
	n = strtol(PQgetvalue(r, 0, 0), NULL, 10);
	PQclear(r);
	PQfinish(c);
	return n;
}

int store_tests_run(const struct CMUnitTest *tests, size_t n)
{
	int failed;

	db = testdb_start();
	failed = _cmocka_run_group_tests("store", tests, n, NULL, NULL);
	testdb_stop(db);
	return failed;
}
