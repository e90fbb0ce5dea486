#include "base/base.h"
#include "server.h"

#include "harness.h"

#include <libpq-fe.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>

static struct testdb *db;
static PGconn *admin;
static char server[1400];

static void sql(const char *fmt, ...) PRINTF(1, 2);
static void sql(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	PGresult *r;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r = PQexec(admin, text);
	if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
		fprintf(stderr, "sim: %s: %s", text, PQresultErrorMessage(r));
	PQclear(r);
}

void server_start(void)
{
	const char *dsn, *at;
	char text[1500];

	/* A database for each seed is some thousand files: in memory they cost nothing. */
	setenv("TMPDIR", "/dev/shm", 1);
	db = testdb_start();
	dsn = testdb_new(db);
	at = strstr(dsn, " dbname=");
	assert(at != NULL);
	(void)snprintf(server, sizeof(server), "%.*s", (int)(at - dsn), dsn);
	(void)snprintf(text, sizeof(text), "%s dbname=postgres", server);
	admin = PQconnectdb(text);
	PQclear(PQexec(admin, "SET client_min_messages = error"));
	/* Nothing may run in the server that the seed did not ask for. */
	sql("ALTER SYSTEM SET autovacuum = off");
	sql("ALTER SYSTEM SET max_connections = 50");
	sql("SELECT pg_reload_conf()");
}

void server_stop(void)
{
	PQfinish(admin);
	testdb_stop(db);
}

void server_database(const char *name, char *buf, size_t n)
{
	(void)snprintf(buf, n, "%s dbname=%s", server, name);
	sql("CREATE DATABASE %s TEMPLATE migrated STRATEGY FILE_COPY", name); /* half the time of WAL_LOG here */
}

void server_database_drop(const char *name)
{
	sql("DROP DATABASE %s%s", name, " WITH (FORCE)");
}

void core_take(int slot)
{
	cpu_set_t all, one;
	int n = 0;

	if (sched_getaffinity(0, sizeof(all), &all) != 0)
		return;
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all) && n++ == slot % CPU_COUNT(&all)) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			(void)sched_setaffinity(0, sizeof(one), &one);
			return;
		}
	}
}
