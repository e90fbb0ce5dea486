#include "base/base.h"
#include "store_world.h"

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
	pg = pg_new(loop, &(struct pg_conf){.dsn = dsn, .connections = 2});
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

int store_tests_run(const struct CMUnitTest *tests, size_t n)
{
	int failed;

	db = testdb_start();
	failed = _cmocka_run_group_tests("store", tests, n, NULL, NULL);
	testdb_stop(db);
	return failed;
}
