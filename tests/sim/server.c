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

static struct database spare; /* name "": none */
static struct database over[32];
static size_t over_n;

static void database_make(struct database *ret)
{
	static unsigned no;

	(void)snprintf(ret->name, sizeof(ret->name), "seed%u", no++);
	(void)snprintf(ret->dsn, sizeof(ret->dsn), "%s dbname=%s", server, ret->name);
	sql("CREATE DATABASE %s TEMPLATE migrated STRATEGY FILE_COPY", ret->name); /* half the time of WAL_LOG here */
}

void database_take(struct database *ret)
{
	if (spare.name[0] == '\0')
		database_make(&spare);
	*ret = spare;
	spare.name[0] = '\0';
}

void database_give(const struct database *d)
{
	if (over_n == ARRAY_LEN(over))
		databases_tidy();
	over[over_n++] = *d;
}

void databases_tidy(void)
{
	while (over_n > 0)
		sql("DROP DATABASE %s WITH (FORCE)", over[--over_n].name);
	if (spare.name[0] == '\0')
		database_make(&spare);
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
