/*
 * The rules that are .sql files: those of the doctor (src/store/rules) and those that only tests
 * ask (rules/). Each is asked by its key; its time and its excuses stand where it is asked.
 */
#include "sim/world/world.h"
#include "sim/check/check.h"
#include "sim/host/host.h"
#include "sim/broker/leaders.h"
#include "sim/store/sim_store.h"
#include "sim/world/profiles.h"

#include "base/text/text.h"
#include "store/store.h"

extern const struct rule sim_rules[];

static const struct rule *rule_find(const char *key)
{
	const struct rule *r = sim_rules;

	while (r->key != NULL && strcmp(r->key, key) != 0) {
		r++;
	}
	assert(r->key != NULL);
	return r;
}

/* Returns a parameter of a rule. Words of grace stand for the excuses of this world's clocks and
 * faults. */
static int64_t param_value(const char *name)
{
	if (str_same(name, "skew")) {
		return world.skew_max;
	}
	if (str_same(name, "now")) {
		return world_now();
	}
	if (str_same(name, "harm")) {
		return MAX(world.harm_until, world.taken_until);
	}
	if (str_same(name, "steady")) {
		return leaders_steady_since();
	}
	if (str_same(name, "hold")) { /* [engine] return_hold */
		return (profile_is(PROFILE_MOVING_FLEETS) ? 60 : 300) * SPOT_US_PER_S;
	}
	if (str_same(name, "files")) {
		return (int64_t)host_files();
	}
	assert(str_same(name, "since")); /* all history */
	return 0;
}

static PGresult *rule_rows(const struct rule *r)
{
	char values[RULE_PARAMS_MAX][24];
	const char *params[RULE_PARAMS_MAX];
	int n = 0;
	PGresult *res;

	for (; r->params[n] != NULL; n++) {
		snprintf(values[n], sizeof(values[n]), "%" PRId64, param_value(r->params[n]));
		params[n] = values[n];
	}
	res = check_rows_of(r->stmt->sql, n, params);
	if (PQresultStatus(res) != PGRES_TUPLES_OK) {
		fprintf(stderr, "sim: rule '%s': %s", r->key, PQresultErrorMessage(res));
		abort();
	}
	return res;
}

int64_t check_rule(const char *key)
{
	const struct rule *r = rule_find(key);
	PGresult *res = rule_rows(r);
	int64_t checked = strtoll(PQgetvalue(res, 0, 0), NULL, 10);

	always(str_same(PQgetvalue(res, 0, 1), "0"), r->rule, "%.1000s", PQgetvalue(res, 0, 2));
	PQclear(res);
	return checked;
}

/* A pass of the engine does its part after a few tries, whatever becomes of clouds and agents: by
 * our clock, under one leader. */
#define PASSES_US (100 * SPOT_US_PER_S)

void check_job_soon(const char *rule, size_t job, const char *state,
    bool open[static CHECK_JOBS_MAX], int64_t since[static CHECK_JOBS_MAX])
{
	int64_t steady = leaders_steady_since();

	assert(job < CHECK_JOBS_MAX);
	open[job] = true;
	since[job] = since[job] == 0 ? world_now() : since[job];
	always(steady == 0 || MAX(since[job], steady) + PASSES_US > world_now(), rule,
	    "j%zu is %s, for %" PRId64 " s", job, state,
	    (world_now() - since[job]) / SPOT_US_PER_S);
}

void check_soon_end(const bool open[static CHECK_JOBS_MAX], int64_t since[static CHECK_JOBS_MAX])
{
	for (size_t k = 0; k < CHECK_JOBS_MAX; k++) {
		since[k] = open[k] ? since[k] : 0;
	}
}

void check_soon(const char *key, int64_t since[static CHECK_JOBS_MAX])
{
	const struct rule *r = rule_find(key);
	bool open[CHECK_JOBS_MAX] = { false };
	PGresult *res = rule_rows(r);

	for (int i = 0; i < PQntuples(res); i++) {
		check_job_soon(r->rule, (size_t)strtoull(PQgetvalue(res, i, 0), NULL, 10),
		    PQgetvalue(res, i, 1), open, since);
	}
	check_soon_end(open, since);
	PQclear(res);
}

/* Whether a rule asks for no times of grace: the simulation has none for the daemon's sake. */
static bool is_without_grace(const struct rule *r)
{
	for (size_t i = 0; r->params[i] != NULL; i++) {
		if (!str_same(r->params[i], "since")) {
			return false;
		}
	}
	return true;
}

void check_doctor(void)
{
	for (const struct rule *r = rules_all; r->key != NULL; r++) {
		PGresult *res;

		/* Daemons note the times of leaders by their own clocks. */
		if (!is_without_grace(r) || (world.skew_max != 0 && str_same(r->name, "leaders"))) {
			continue;
		}
		res = rule_rows(r);
		always(str_same(PQgetvalue(res, 0, 1), "0"), "the doctor finds nothing", "%s: %s",
		    r->stmt->name, PQgetvalue(res, 0, 2));
		PQclear(res);
	}
}
