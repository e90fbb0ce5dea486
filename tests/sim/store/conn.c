/* The one real connection to Postgres, and the statements that are prepared on it. */
#include "base/base.h"
#include "sim/world/world.h"
#include "sim/store/conn.h"
#include "sim/store/sim_store.h"
#include "store/q.h"

#include <poll.h>
#include <sched.h>
#include <sys/pidfd.h>
#include <unistd.h>

#define PREPARED_MAX 1024

static struct {
	PGconn *c;
	const char *names[PREPARED_MAX];
	size_t names_n;
	bool warm; /* connections begin with all statements planned */
} db;

static void notice_drop(void *arg UNUSED, const char *message UNUSED)
{
}

void store_must(const char *sql)
{
	PGresult *r = PQexec(db.c, sql);

	if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
		fprintf(stderr, "sim: %s: %s", sql, PQerrorMessage(db.c));
		abort();
	}
	PQclear(r);
}

/* Both sides take turns and never work at once: on one core nobody has to wake another. */
static void core_share(void)
{
	cpu_set_t mine;

	if (sched_getaffinity(0, sizeof(mine), &mine) == 0 && CPU_COUNT(&mine) == 1) {
		/* refused: only slower */
		(void)sched_setaffinity(PQbackendPID(db.c), sizeof(mine), &mine);
	}
}

static void connect_to(const char *dsn)
{
	db.c = PQconnectdb(dsn);
	if (PQstatus(db.c) != CONNECTION_OK) {
		fprintf(stderr, "sim: %s", PQerrorMessage(db.c));
		abort();
	}
	PQsetNoticeProcessor(db.c, notice_drop, NULL);
}

static void session_set(void)
{
	/* No plan may depend on earlier statements. */
	store_must(
	    "SET timezone = 'UTC'; SET client_min_messages = warning; SET plan_cache_mode = "
	    "force_generic_plan; "
	    "SET jit = off; SET max_parallel_workers_per_gather = 0; SET synchronize_seqscans = "
	    "off; "
	    "LISTEN spot_engine; LISTEN spot_api");
}

void store_open(const char *dsn)
{
	connect_to(dsn);
	core_share();
	if (!db.warm) {
		session_set();
	}
}

static bool is_prepared(const char *name)
{
	for (size_t k = 0; k < db.names_n; k++) {
		if (strcmp(db.names[k], name) == 0) {
			return true;
		}
	}
	return false;
}

bool store_prepare_product(const struct pg_stmt *s, struct pg_item *i)
{
	static const struct pg_stmt *seen[4096];
	const struct pg_stmt **at = &seen[(uintptr_t)s / sizeof(*s) % ARRAY_LEN(seen)];
	PGresult *r;

	if (*at == s || is_prepared(s->name)) {
		*at = s;
		return true;
	}
	assert(db.names_n < PREPARED_MAX);
	r = PQprepare(db.c, s->name, s->sql, s->params_n, s->param_types);
	if (PQresultStatus(r) != PGRES_COMMAND_OK) {
		pg_err_from(r, s->name, &i->err, i->sqlstate);
		PQclear(r);
		return false;
	}
	PQclear(r);
	db.names[db.names_n++] = s->name;
	return true;
}

static void statement_plan(const struct pg_stmt *s)
{
	char sql[512];
	size_t n = (size_t)snprintf(sql, sizeof(sql), "EXPLAIN EXECUTE %s", s->name);

	for (int i = 0; i < s->params_n; i++) {
		n += (size_t)snprintf(sql + n, sizeof(sql) - n, "%sNULL%s", i == 0 ? "(" : ", ",
		    i == s->params_n - 1 ? ")" : "");
	}
	assert(n < sizeof(sql));
	PQclear(PQexec(db.c, sql)); /* a statement without a plan is refused */
}

/* Returns how many parameters a statement of ours has. */
static int params_count(const char *sql)
{
	int most = 0;

	for (const char *p = strchr(sql, '$'); p != NULL; p = strchr(p + 1, '$')) {
		most = MAX(most, (int)strtol(p + 1, NULL, 10));
	}
	return most;
}

bool store_prepare(const char *name, const char *sql)
{
	PGresult *r = PQprepare(db.c, name, sql, 0, NULL);
	bool done = PQresultStatus(r) == PGRES_COMMAND_OK;

	if (!done) {
		fprintf(stderr, "sim: %s: %s", sql, PQresultErrorMessage(r));
	}
	PQclear(r);
	if (done && db.warm) {
		statement_plan(&(struct pg_stmt){ .name = name, .params_n = params_count(sql) });
	}
	return done;
}

void store_warm(const char *dsn)
{
	struct pg_item none = { 0 };

	connect_to(dsn);
	session_set();
	/* Plans depend on its name for temporary tables. */
	store_must("CREATE TEMP TABLE first (); DROP TABLE first");
	/* functions are read once */
	store_must("SELECT price_partitions_ensure(0, 0), price_partitions_drop(0)");
	for (size_t i = 0; i < q_all_n; i++) {
		if (store_prepare_product(&q_all[i], &none)) { /* a COPY's needs its table */
			statement_plan(&q_all[i]);
		}
	}
	db.warm = true;
}

void store_cold(void)
{
	PQfinish(db.c);
	db.c = NULL;
	db.names_n = 0;
	db.warm = false;
}

void store_close(void)
{
	struct pollfd p = { .fd = pidfd_open(PQbackendPID(db.c), 0), .events = POLLIN };

	PQfinish(db.c);
	db.c = NULL;
	if (p.fd >= 0) {
		(void)poll(&p, 1, 10000);
		close(p.fd);
	}
}

PGconn *store_conn(void)
{
	return db.c;
}

int64_t store_server_ms(void)
{
	char path[64], text[1024];
	unsigned long user = 0, kernel = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", PQbackendPID(db.c));
	f = fopen(path, "re");
	if (f == NULL) {
		return 0;
	}
	if (fgets(text, sizeof(text), f) != NULL && strrchr(text, ')') != NULL) {
		(void)sscanf(strrchr(text, ')') + 2,
		    "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
	}
	fclose(f);
	return (int64_t)(user + kernel) * 1000 / sysconf(_SC_CLK_TCK);
}

/* A healthy database and one statement at a time: a failing statement is wrong, and fails again. */
bool store_took(const PGresult *r, const char *name)
{
	bool ok = PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK;

	always(ok, "the database takes every statement", "%s: %s", name, PQresultErrorMessage(r));
	return ok;
}
