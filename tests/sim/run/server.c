/*
 * Each seed has a copy of one process of the server that knows all statements, if copies work
 * (universe/universe.c). Otherwise, or with SPOT_SIM_UNIVERSES "off", it has a database of its own,
 * made from the migrated template. Both begin alike.
 */
#include "base/base.h"
#include "sim/world/world.h"
#include "sim/run/server.h"
#include "base/text/text.h"
#include "io/proc/proc.h"
#include "sim/run/stop.h"
#include "sim/store/sim_store.h"

#include "harness.h"
#include "pg_image.h"

#include <libpq-fe.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct testdb *db;
static PGconn *admin;
static char server[1400];

static void sql_run(const char *fmt, ...) PRINTF(1, 2);
static void sql_run(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	PGresult *r;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r = PQexec(admin, text);
	if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
		fprintf(stderr, "sim: %s: %s", text, PQresultErrorMessage(r));
	}
	PQclear(r);
}

/* ---- universes ------------------------------------------------------------------------------- */

#define PRELOAD "libsim_universe.so"
#define DOOR "5433" /* only part of the socket's name */

static char preload[PATH_MAX], universes[1500]; /* dsn of the copies; "" = there are none */

/* The library lies where this program does; the server's user may not be able to read there. */
static void preload_copy(void)
{
	char self[PATH_MAX], from[PATH_MAX + 32];
	const char *const argv[] = { "/bin/cp", from, preload, NULL };
	struct proc_spec spec = { .argv = argv,
		.in = -1,
		.out = -1,
		.err = -1,
		.uid = -1,
		.gid = -1 };
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int pid, status = 1;

	assert(n > 0);
	self[n] = '\0';
	(void)snprintf(from, sizeof(from), "%.*s/" PRELOAD, (int)(strrchr(self, '/') - self), self);
	(void)snprintf(preload, sizeof(preload), "%s/" PRELOAD, stop_folder());
	if (proc_spawn(&spec, &pid, NULL) == SPOT_OK) {
		(void)waitpid(pid, &status, 0);
	}
	if (status != 0 || chmod(stop_folder(), 0711) != 0 || chmod(preload, 0755) != 0) {
		preload[0] = '\0';
	}
}

enum spot_rc __real_proc_spawn(const struct proc_spec *s, int *ret_pid, struct spot_err *err);
enum spot_rc __wrap_proc_spawn(const struct proc_spec *s, int *ret_pid, struct spot_err *err);
/* The product starts the server; here with the library. */
enum spot_rc __wrap_proc_spawn(const struct proc_spec *s, int *ret_pid, struct spot_err *err)
{
	struct proc_spec with = *s;
	char text[PATH_MAX + 16];
	const char *env[16] = { text };
	size_t n = 1;

	for (size_t i = 0; s->env != NULL && s->env[i] != NULL && n < ARRAY_LEN(env) - 1; i++) {
		env[n++] = s->env[i];
	}
	(void)snprintf(text, sizeof(text), "LD_PRELOAD=%s", preload);
	if (preload[0] != '\0' && str_suffix(s->argv[0], "/postgres")) {
		with.env = env;
	}
	return __real_proc_spawn(&with, ret_pid, err);
}

/* One that does not answer was copied while another process held a lock that it needs. */
static bool universe_works(void)
{
	PGconn *c = PQconnectdb(universes);
	struct pollfd p = { .fd = PQsocket(c), .events = POLLIN };
	PGresult *r;
	bool yes;

	if (PQsendQuery(c,
		"CREATE TABLE universe (a int PRIMARY KEY); INSERT INTO universe SELECT "
		"generate_series(1, 1000); "
		"DROP TABLE universe") != 1 ||
	    poll(&p, 1, 10000) != 1) {
		PQfinish(c);
		return false;
	}
	r = PQgetResult(c);
	yes = PQresultStatus(r) == PGRES_COMMAND_OK;
	PQclear(r);
	PQfinish(c);
	return yes;
}

bool server_copies(void)
{
	return preload[0] != '\0';
}

void server_warm(void)
{
	char dsn[1500];

	(void)snprintf(dsn, sizeof(dsn), "%s dbname=" PG_IMAGE_DATABASE, server);
	store_warm(dsn);
}

void server_universes(void)
{
	char order[1500];
	const char *sock = server + strlen("host='"), *end = strchr(sock, '\'');

	assert(end != NULL);
	databases_tidy(); /* later it would wait for that process, for ever */
	sql_run("CHECKPOINT"); /* the server's other processes have nothing to do from here on */
	(void)snprintf(order, sizeof(order), "SELECT 1 /* universes at %.*s/.s.PGSQL." DOOR " */",
	    (int)(end - sock), sock);
	PQclear(PQexec(store_conn(), order));
	(void)snprintf(universes, sizeof(universes),
	    "host='%.*s' port=" DOOR " dbname=seeds connect_timeout=10", (int)(end - sock), sock);
	if (universe_works()) {
		return;
	}
	fprintf(stderr,
	    "sim: the server cannot be copied: a database for each seed, which takes longer\n");
	preload[0] = universes[0] = '\0';
	store_cold();
}

/* Makes the tables that each seed would make first. */
static void template_make(void)
{
	char dsn[1500], text[160];

	(void)snprintf(dsn, sizeof(dsn), "%s dbname=" PG_IMAGE_DATABASE, server);
	(void)snprintf(text, sizeof(text),
	    "SELECT price_partitions_ensure(%" PRId64 ", %" PRId64 ")",
	    SIM_T0 - 2 * 24 * SPOT_US_PER_HOUR, SIM_T0 + 4 * 24 * SPOT_US_PER_HOUR);
	testdb_exec(dsn, text);
}

/* ---- the server ------------------------------------------------------------------------------ */

void server_start(void)
{
	const char *dsn, *at;
	char text[1500];

	/* A database for each seed is some thousand files: in memory they cost nothing. */
	setenv("TMPDIR", "/dev/shm", 1);
	if (!str_same(getenv("SPOT_SIM_UNIVERSES") != NULL ? getenv("SPOT_SIM_UNIVERSES") : "",
		"off")) {
		preload_copy();
	}
	db = testdb_start();
	dsn = testdb_new(db); /* with the template */
	at = strstr(dsn, " dbname=");
	assert(at != NULL);
	(void)snprintf(server, sizeof(server), "%.*s", (int)(at - dsn), dsn);
	(void)snprintf(text, sizeof(text), "%s dbname=postgres", server);
	admin = PQconnectdb(text);
	PQclear(PQexec(admin, "SET client_min_messages = error"));
	/* Nothing may run in the server that the seed did not ask for. */
	sql_run("ALTER SYSTEM SET autovacuum = off");
	sql_run("ALTER SYSTEM SET max_connections = 50");
	sql_run("ALTER SYSTEM SET bgwriter_lru_maxpages = 0");
	sql_run("ALTER SYSTEM SET bgwriter_delay = '10s'");
	sql_run("ALTER SYSTEM SET wal_writer_delay = '10s'");
	sql_run("ALTER SYSTEM SET track_counts = off");
	sql_run("SELECT pg_reload_conf()");
	template_make();
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
	/* half the time of WAL_LOG here */
	sql_run("CREATE DATABASE %s TEMPLATE " PG_IMAGE_DATABASE " STRATEGY FILE_COPY", ret->name);
}

void database_take(struct database *ret)
{
	if (universes[0] != '\0') {
		(void)snprintf(ret->dsn, sizeof(ret->dsn), "%s", universes);
		return;
	}
	if (spare.name[0] == '\0') {
		database_make(&spare);
	}
	*ret = spare;
	spare.name[0] = '\0';
}

void database_give(const struct database *d)
{
	if (universes[0] != '\0') {
		return;
	}
	if (over_n == ARRAY_LEN(over)) {
		databases_tidy();
	}
	over[over_n++] = *d;
}

void databases_tidy(void)
{
	while (over_n > 0) {
		sql_run("DROP DATABASE %s WITH (FORCE)", over[--over_n].name);
	}
	if (spare.name[0] == '\0' && !server_copies()) {
		database_make(&spare);
	}
}

void core_take(int slot)
{
	cpu_set_t all, one;
	int n = 0;

	if (sched_getaffinity(0, sizeof(all), &all) != 0) {
		return;
	}
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all) && n++ == slot % CPU_COUNT(&all)) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			(void)sched_setaffinity(0, sizeof(one), &one);
			return;
		}
	}
}
