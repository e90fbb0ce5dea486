#include "base/base.h"
#include "pg_world.h"

#include "store/bind.h"

struct testdb *db;

static const unsigned int8_type[] = { OID_INT8 };
const struct pg_stmt stmt_echo = { .name = "echo",
	.sql = "SELECT $1 + 1",
	.params_n = 1,
	.param_types = int8_type };
const struct pg_stmt stmt_insert = { .name = "insert",
	.sql = "INSERT INTO t (id) VALUES ($1)",
	.params_n = 1,
	.param_types = int8_type,
	.writes = true };
const struct pg_stmt stmt_sleep = { .name = "sleep",
	.sql = "SELECT pg_sleep($1)",
	.params_n = 1,
	.param_types = (const unsigned[]){ OID_FLOAT8 } };
const struct pg_stmt stmt_insert_slow = { .name = "insert_slow",
	.sql = "INSERT INTO t SELECT 77 FROM pg_sleep($1)",
	.params_n = 1,
	.param_types = (const unsigned[]){ OID_FLOAT8 },
	.writes = true };

int done_count;

void count_done(struct op *op)
{
	(void)op;
	done_count++;
}

static bool is_ready(void *arg)
{
	return pg_ready(arg);
}

static int world_set_up(void **state, int connections, int long_connections,
    int64_t statement_timeout_us)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	done_count = 0;
	w->loop = test_loop_new();
	w->connections = connections;
	w->dsn = testdb_new_empty(db);
	testdb_exec(w->dsn, "CREATE TABLE t (id int8 PRIMARY KEY)");
	w->pg = pg_new(w->loop,
	    &(struct pg_conf){ .dsn = w->dsn,
		.connections = connections,
		.long_connections = long_connections,
		.statement_timeout_us = statement_timeout_us });
	assert_true(test_until(w->loop, 60 * SPOT_US_PER_S, is_ready, w->pg));
	*state = w;
	return 0;
}

int set_up(void **state)
{
	return world_set_up(state, 2, 0, 0);
}

static bool lanes_are_up(void *arg)
{
	return pg_stats(arg).up == 2; /* of two, one is of the long lane */
}

int set_up_lanes(void **state)
{
	int rc = world_set_up(state, 2, 1, 0);
	struct world *w = *state;

	assert_true(test_until(w->loop, 60 * SPOT_US_PER_S, lanes_are_up, w->pg));
	return rc;
}

int set_up_one(void **state)
{
	return world_set_up(state, 1, 0, 0);
}

int set_up_hasty(void **state)
{
	return world_set_up(state, 1, 0, SPOT_US_PER_S / 2);
}

int tear_down(void **state)
{
	struct world *w = *state;

	pg_free(w->pg);
	loop_turn(w->loop, 0);
	loop_free(w->loop);
	free(w);
	return 0;
}

void exec_int(struct world *w, struct pg_req *req, const struct pg_stmt *stmt, int64_t v)
{
	struct bind b;

	bind_init(&b, stmt->name);
	bind_i64(&b, v);
	pg_exec(w->pg, req, stmt, b.params, count_done);
	bind_fini(&b);
}

void exec_float(struct world *w, struct pg_req *req, const struct pg_stmt *stmt, double v)
{
	struct bind b;

	bind_init(&b, stmt->name);
	bind_f64(&b, v);
	pg_exec(w->pg, req, stmt, b.params, count_done);
	bind_fini(&b);
}
