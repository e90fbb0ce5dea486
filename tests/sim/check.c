#include "world.h"
#include "broker.h"
#include "check.h"
#include "cloud.h"
#include "host.h"
#include "store.h"
#include "work.h"

#define SETTLE_US (30 * SPOT_US_PER_S)

static int64_t value(const char *sql)
{
	PGresult *r = PQexec(store_conn(), sql);
	int64_t v;

	if (PQresultStatus(r) != PGRES_TUPLES_OK) {
		fprintf(stderr, "sim: check: %s: %s", sql, PQresultErrorMessage(r));
		abort();
	}
	v = PQntuples(r) > 0 ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : 0;
	PQclear(r);
	return v;
}

static char *text(const char *sql)
{
	PGresult *r = PQexec(store_conn(), sql);
	char *v;

	if (PQresultStatus(r) != PGRES_TUPLES_OK) {
		fprintf(stderr, "sim: check: %s: %s", sql, PQresultErrorMessage(r));
		abort();
	}
	v = strdup(PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
	assert(v != NULL);
	PQclear(r);
	return v;
}

/* The statement tells what is wrong, one line each; nothing is right. */
static void none(const char *name, const char *sql)
{
	char *found = text(sql);

	always(found[0] == '\0', name, "%.1000s", found);
	free(found);
}

void check_step(void)
{
}

bool check_settled(void)
{
	static int64_t looked;

	if (!work_done() || !broker_up() || world_now() < looked + SETTLE_US)
		return false;
	looked = world_now();
	return value("SELECT (SELECT count(*) FROM job WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')) + "
		     "(SELECT count(*) FROM node WHERE state NOT IN ('GONE', 'FAILED'))") == 0;
}

void check_end(void)
{
	none("every accepted job reaches an end",
	    "SELECT string_agg(id || ' ' || state || ' ' || why, '; ') FROM job "
	    "WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')");
	if (world.conf.trace) {
		char *t = text("SELECT string_agg(at_us || ' ' || entity || entity_id || ' ' || was || '->' || now || ' ' || event || "
			       "': ' || why, chr(10) ORDER BY id) FROM event");
		puts(t);
		free(t);
	}
}
