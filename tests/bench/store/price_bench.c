/*
 * Prices at full size: 50,000 pools, 30 days of history, then the three things that users feel.
 * Prints one line per figure, and with --json an object of the stored polls as the last line. Not
 * part of the test suite: it takes minutes and some GB of disk.
 *
 *   build/tests/bench/store/price_bench [--json] [POOLS [DAYS]]
 *
 * The history is hourly and made inside the server. The references are the same rows by a bare
 * COPY and by bare SQL in the same run. The cluster runs with fsync on.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "harness.h"
#include "io/cluster/pgcluster.h"
#include "price_writes.h"
#include "store/q.h"
#include <libpq-fe.h>
#include <ftw.h>
#include <unistd.h>

static int64_t pools = 50000, days = 30;
static struct loop *loop;
static struct pg *pg;
static const char *dsn;

static int64_t mono_us(void)
{
	return clock_real.mono_us(&clock_real);
}

static void no_done(struct op *op)
{
	(void)op;
}

static bool op_over(void *arg)
{
	return !op_busy(arg);
}

static void op_must(struct op *op)
{
	if (!test_until(loop, 600 * SPOT_US_PER_S, op_over, op) || op->rc != SPOT_OK) {
		fprintf(stderr, "%s: %s\n", op->what, op->err.text);
		exit(1);
	}
}

static void history_make(int64_t now_us)
{
	struct pg_req req = { 0 };
	int64_t t0 = mono_us(), from_us = now_us - days * PRICE_DAY_US;
	char text[1200];

	(void)snprintf(text, sizeof(text),
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, "
	    "market, gpu_name, gpu_milli, gpu_mem_mib, vcpus, mem_mib, arch, "
	    "quota_class, offered, seen_us) "
	    "SELECT 'p' || i %% 5, 'r' || i %% 30, 'z' || i %% 90, '', 't' || i, "
	    "'spot', 'H100', 1000, 80000, 8, "
	    "1000, 'x86_64', '', true, 1 FROM generate_series(1, %" PRId64 ") i",
	    pools);
	testdb_exec(dsn, text);
	q_price_partitions_ensure(pg, &req,
	    &(struct q_price_partitions_ensure){ from_us, now_us + 2 * PRICE_DAY_US }, no_done);
	op_must(&req.op);
	pg_req_fini(&req);
	for (int64_t d = 0; d < days; d++) {
		(void)snprintf(text, sizeof(text),
		    "INSERT INTO price_point SELECT p, t, t, 1000000 + (p * 7919 + "
		    "t / 3600000000) %% 900000, 'bench' FROM generate_series(%" PRId64
		    "::int8, %" PRId64 ", 3600000000) t, generate_series(1, %" PRId64 ") p",
		    from_us + d * PRICE_DAY_US, from_us + (d + 1) * PRICE_DAY_US - 1, pools);
		testdb_exec(dsn, text);
	}
	(void)snprintf(text, sizeof(text),
	    "INSERT INTO pool_latest SELECT p, 1000000 + (p * 7919) %% 900000, "
	    "%" PRId64 ", %" PRId64 ", %" PRId64
	    ", 'bench', 'fresh' FROM generate_series(1, %" PRId64 ") p; "
	    "VACUUM ANALYZE pool, pool_latest, price_point; CHECKPOINT",
	    now_us - 1, now_us - 1, now_us - 1, pools);
	/* VACUUM refuses to share a simple query with others. */
	char *vacuum = strstr(text, "VACUUM");
	vacuum[-1] = '\0';
	testdb_exec(dsn, text);
	testdb_exec(dsn, "VACUUM ANALYZE pool, pool_latest, price_point");
	testdb_exec(dsn, "CHECKPOINT");
	printf("history: %" PRId64 " rows in %.1f s\n", pools * days * 24,
	    (double)(mono_us() - t0) / 1e6);
}

/* ---- reading
 * -------------------------------------------------------------------------------------- */

static int64_t median_of(int64_t *v, int n)
{
	for (int i = 1; i < n; i++) {
		for (int k = i; k > 0 && v[k] < v[k - 1]; k--) {
			int64_t t = v[k];

			v[k] = v[k - 1];
			v[k - 1] = t;
		}
	}
	return v[n / 2];
}

#define RUNS 21

static void latest_bench(void)
{
	int64_t us[RUNS], bare[RUNS];
	struct pg_req req = { 0 };
	size_t n = 0;

	for (int i = 0; i < RUNS; i++) {
		AUTO(arena) struct arena *a = arena_new(0);
		struct q_pool_latest_row *rows;
		int64_t t0 = mono_us();

		q_pool_latest_all(pg, &req, NULL, no_done);
		op_must(&req.op);
		n = q_pool_latest_all_rows(&req, a, &rows);
		us[i] = mono_us() - t0;
	}
	pg_req_fini(&req);
	PGconn *c = PQconnectdb(dsn);
	for (int i = 0; i < RUNS; i++) {
		int64_t t0 = mono_us();

		PQclear(PQexecParams(c, q_stmt_pool_latest_all.sql, 0, NULL, NULL, NULL, NULL, 1));
		bare[i] = mono_us() - t0;
	}
	PQfinish(c);
	printf("all current offers: %zu rows in %.1f ms as structs (median of %d); bare libpq %.1f "
	       "ms\n",
	    n, (double)median_of(us, RUNS) / 1e3, RUNS, (double)median_of(bare, RUNS) / 1e3);
}

static void history_bench(int64_t now_us)
{
	struct pg_req req = { 0 };
	int64_t us[RUNS];
	size_t n = 0;

	for (int i = 0; i < RUNS; i++) {
		AUTO(arena) struct arena *a = arena_new(0);
		struct q_price_history_pool_row *rows;
		int64_t t0 = mono_us();

		q_price_history_pool(pg, &req,
		    &(struct q_price_history_pool){ .pool_id = (int32_t)(1 + i * 997 % pools),
			.from_us = now_us - days * PRICE_DAY_US,
			.to_us = now_us },
		    no_done);
		op_must(&req.op);
		n = q_price_history_pool_rows(&req, a, &rows);
		us[i] = mono_us() - t0;
	}
	pg_req_fini(&req);
	printf("history of one pool: %zu rows in %.1f ms (median of %d)\n", n,
	    (double)median_of(us, RUNS) / 1e3, RUNS);
}

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

int main(int argc, char **argv)
{
	struct pgcluster *cluster = NULL;
	struct spot_err err = { 0 };
	char dir[] = "/tmp/spotbroker-bench-XXXXXX";
	int64_t now_us = clock_real.wall_us(&clock_real);
	bool json = argc > 1 && strcmp(argv[1], "--json") == 0;

	argc -= json;
	argv += json;
	if ((argc > 1 && !parse_i64(argv[1], 1, PRICE_BATCH_MAX, &pools)) ||
	    (argc > 2 && !parse_i64(argv[2], 1, 365, &days))) {
		fprintf(stderr, "usage: price_bench [--json] [POOLS [DAYS]]\n");
		return 2;
	}
	if (mkdtemp(dir) == NULL ||
	    pgcluster_start(dir, "bench", false, &cluster, &err) != SPOT_OK) {
		fprintf(stderr, "%s: %s\n", dir, err.text);
		return 1;
	}
	dsn = pgcluster_dsn(cluster);
	if (migrate_run(dsn, NULL, migrations_all, migrations_all_n, now_us, NULL, &err) !=
	    SPOT_OK) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	loop = test_loop_new();
	pg = pg_new(loop,
	    &(struct pg_conf){ .dsn = dsn,
		.connections = 2,
		.statement_timeout_us = 600 * SPOT_US_PER_S });
	testdb_exec(dsn, "INSERT INTO leader VALUES ('engine', 1, 'bench', 0)");
	history_make(now_us);
	latest_bench();
	history_bench(now_us);
	price_writes_bench(&(struct price_writes){ .loop = loop,
	    .pg = pg,
	    .dsn = dsn,
	    .server = pgcluster_pid(cluster),
	    .pools = pools,
	    .now_us = now_us,
	    .json = json });
	pg_free(pg);
	(void)loop_turn(loop, 0);
	loop_free(loop);
	pgcluster_stop(cluster);
	(void)nftw(dir, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
