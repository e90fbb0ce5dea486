#include "base/base.h"
#include "fence_probe.h"
#include "io/pg/pg_priv.h"
#include "store/q.h"

#include <stdio.h>
#include <stdlib.h>

#define ENOUGH 8 /* effective probes of one statement */

void __real_pg_exec(struct pg *p, struct pg_req *req, const struct pg_stmt *stmt,
    const struct pg_param *params, void (*done)(struct op *));
void __wrap_pg_exec(struct pg *p, struct pg_req *req, const struct pg_stmt *stmt,
    const struct pg_param *params, void (*done)(struct op *));

static struct {
	const char *name;
	int seen, effective;
	bool prepared; /* on conn */
} counts[1024];
static size_t counts_n;
static PGconn *conn;
static char dsn[1024];

static void report_append(void)
{
	const char *path = getenv("SPOT_FENCE_REPORT");
	FILE *f = path == NULL ? NULL : fopen(path, "ae");

	for (size_t i = 0; f != NULL && i < counts_n; i++) {
		fprintf(f, "%s %d %d\n", counts[i].name, counts[i].seen, counts[i].effective);
	}
	if (f != NULL) {
		fclose(f);
	}
}

static size_t count_of(const char *name)
{
	for (size_t i = 0; i < counts_n; i++) {
		if (strcmp(counts[i].name, name) == 0) {
			return i;
		}
	}
	assert(counts_n < ARRAY_LEN(counts));
	if (counts_n == 0) {
		atexit(report_append);
	}
	counts[counts_n].name = name;
	return counts_n++;
}

static bool result_ok(PGresult *r)
{
	ExecStatusType st = PQresultStatus(r);

	PQclear(r);
	return st == PGRES_COMMAND_OK || st == PGRES_TUPLES_OK;
}

/* Of a database that a test has left the connection is of no use any more. */
static bool conn_open(const struct pg *p)
{
	if (conn != NULL && (strcmp(dsn, p->dsn) != 0 || PQstatus(conn) != CONNECTION_OK)) {
		PQfinish(conn);
		conn = NULL;
		for (size_t i = 0; i < counts_n; i++) {
			counts[i].prepared = false;
		}
	}
	if (conn == NULL) {
		(void)snprintf(dsn, sizeof(dsn), "%s", p->dsn);
		conn = PQconnectdb(dsn);
		if (!result_ok(
			PQexec(conn, "SET lock_timeout = 2000; SET client_min_messages = error"))) {
			return false;
		}
	}
	return true;
}

#define TOUCHED \
	"SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::int8 FROM " \
	"pg_stat_xact_user_tables"

/* The script's last row as a number. -1: it went wrong. */
static int64_t script_number(const char *script)
{
	PGresult *r = PQexec(conn, script);
	int64_t n = PQntuples(r) == 1 ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : -1;

	PQclear(r);
	return n;
}

/* Rows that the statement touches; -1: it could not be tried (a lock, a lost server). */
static int64_t statement_effect(size_t at, const struct pg_stmt *s, const struct pg_param *params,
    const char *before)
{
	const char *values[64];
	int lengths[64], formats[64];
	int64_t n = -1, was;

	assert(s->params_n <= (int)ARRAY_LEN(values));
	for (int i = 0; i < s->params_n; i++) {
		values[i] = params[i].p;
		lengths[i] = params[i].n;
		formats[i] = params[i].binary;
	}
	if (!counts[at].prepared &&
	    !result_ok(PQprepare(conn, s->name, s->sql, s->params_n, s->param_types))) {
		return -1;
	}
	counts[at].prepared = true;
	was = script_number(before);
	if (was >= 0 &&
	    result_ok(PQexecPrepared(conn, s->name, s->params_n, values, lengths, formats, 1))) {
		n = script_number(TOUCHED) - was;
	}
	(void)result_ok(PQexec(conn, "ROLLBACK"));
	return n;
}

static void statement_probe(const struct pg *p, const struct pg_stmt *s,
    const struct pg_param *params)
{
	size_t i;
	int64_t n;

	if (!s->writes || !fence_concerns(s->name) || fence_waived(s->name) != NULL) {
		return;
	}
	i = count_of(s->name);
	/* A statement that never finds anything to do is tried less often. */
	if (counts[i].effective >= ENOUGH || (counts[i].seen++ > 50 && counts[i].seen % 8 != 0) ||
	    !conn_open(p) || statement_effect(i, s, params, "BEGIN; " TOUCHED) <= 0) {
		return;
	}
	n = statement_effect(i, s, params,
	    "BEGIN; UPDATE leader SET epoch = epoch + 1000, holder = 'another'; " TOUCHED);
	if (n > 0) {
		/* of a daemon, for the log */
		const char *path = getenv("SPOT_FENCE_VIOLATIONS");
		FILE *f = path == NULL ? NULL : fopen(path, "ae");

		if (f != NULL) {
			fprintf(f, "fence: %s\n", s->name);
			fclose(f);
		}
		fprintf(stderr,
		    "fence: %s touches %" PRId64 " rows after the lease was taken away\n", s->name,
		    n);
		abort();
	}
	counts[i].effective += n == 0;
}

void __wrap_pg_exec(struct pg *p, struct pg_req *req, const struct pg_stmt *stmt,
    const struct pg_param *params, void (*done)(struct op *))
{
	statement_probe(p, stmt, params);
	__real_pg_exec(p, req, stmt, params, done);
}
