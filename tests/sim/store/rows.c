/* The statements of the checks and of the world: reads of rows between turns. */
#include "sim/world/world.h"
#include "sim/store/rows.h"
#include "sim/store/sim_store.h"

/* The same statements each minute: they are planned once. Known by where their text stands. */
static const char *known[192];

static size_t check_at(const char *sql)
{
	size_t i = 0;

	while (i < ARRAY_LEN(known) && known[i] != sql && known[i] != NULL) {
		i++;
	}
	assert(i < ARRAY_LEN(known));
	return i;
}

void check_prepare(const char *sql)
{
	size_t i = check_at(sql);
	char name[32];

	if (known[i] != NULL) {
		return;
	}
	snprintf(name, sizeof(name), "check%zu", i);
	if (store_prepare(name, sql)) {
		known[i] = sql;
	}
}

size_t check_prepared(const char *const **ret)
{
	*ret = known;
	return check_at(NULL);
}

PGresult *check_rows_of(const char *sql, int n, const char *const *params)
{
	char name[32];

	check_prepare(sql);
	snprintf(name, sizeof(name), "check%zu", check_at(sql));
	return PQexecPrepared(store_conn(), name, n, params, NULL, NULL, 0);
}

PGresult *check_rows(const char *sql)
{
	return check_rows_of(sql, 0, NULL);
}

static char *text_of(PGresult *r, const char *sql)
{
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

char *check_text(const char *sql)
{
	return text_of(check_rows(sql), sql);
}

/* Of a text made for this once. */
int64_t check_value_now(const char *sql)
{
	char *v = text_of(PQexec(store_conn(), sql), sql);
	int64_t n = strtoll(v, NULL, 10);

	free(v);
	return n;
}

void check_none_now(const char *name, const char *sql)
{
	char *found = text_of(PQexec(store_conn(), sql), sql);

	always(found[0] == '\0', name, "%.1000s", found);
	free(found);
}

int64_t check_value(const char *sql)
{
	char *v = check_text(sql);
	int64_t n = strtoll(v, NULL, 10);

	free(v);
	return n;
}

bool check_no_faults(void)
{
	static const struct faults_mix none_at_all;

	return memcmp(&world.conf.mix, &none_at_all, sizeof(none_at_all)) == 0;
}
