/*
 * Fencing. A daemon that leads no longer may still send statements and requests. They must change
 * nothing in the database, and launch nothing.
 *
 * Some statements only write down an observation: a cloud's answer, or the state of a closed
 * attempt. They have no fence and need none. The claim of their rows guards them, or they are true
 * by any writer.
 */
#include "base/base.h"
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "base/text/text.h"
#include "io/pg/pg_priv.h"
#include "sim/broker/fence.h"
#include "sim/broker/leaders.h"
#include "sim/net/net.h"
#include "sim/world/profiles.h"
#include "sim/store/sim_store.h"

static const char *const facts[] = { "engine_rate_take", "engine_lease_take", "engine_lease_renew",
	"engine_lease_release", "engine_node_exists", "engine_install_create", "market_habits" };

#define PROBES_MOST 16 /* of each statement, where it had something to do */
#define PROBES_IDLE 400 /* and where it had nothing */

static bool is_fenced(const struct pg_stmt *s)
{
	if (!s->writes || (!str_prefix(s->name, "engine_") && !str_prefix(s->name, "market_"))) {
		return false;
	}
	for (size_t i = 0; i < ARRAY_LEN(facts); i++) {
		if (str_same(s->name, facts[i])) {
			return false;
		}
	}
	return true;
}

bool fence_late(const struct pg *p, const struct pg_stmt *s)
{
	return !leaders_leads(p) && is_fenced(s);
}

/* A row that was changed or only locked gives the transaction a number. */
static bool transaction_wrote(void)
{
	PGresult *r = PQexec(store_conn(), "SELECT pg_current_xact_id_if_assigned() IS NOT NULL");
	bool wrote = PQresultStatus(r) == PGRES_TUPLES_OK && PQgetvalue(r, 0, 0)[0] == 't';

	PQclear(r);
	return wrote;
}

/* How often each statement was tried without the lease. Most of them run in each pass and have
 * something to do in few: those that had nothing tell nothing. */
static struct asked {
	const struct pg_stmt *s;
	int acted, idle;
} asked[256];
static struct asked *tried; /* just now: its run with the lease is still to come */

static bool asked_enough(const struct pg_stmt *s)
{
	size_t i = 0;

	while (i < ARRAY_LEN(asked) && asked[i].s != NULL && asked[i].s != s) {
		i++;
	}
	if (i == ARRAY_LEN(asked) || asked[i].acted >= PROBES_MOST ||
	    asked[i].idle >= PROBES_IDLE) {
		return true;
	}
	asked[i].s = s;
	tried = &asked[i];
	return false;
}

static void tried_count(const PGresult *r)
{
	if (tried != NULL && strtoll(PQcmdTuples((PGresult *)(uintptr_t)r), NULL, 10) > 0) {
		tried->acted++;
	} else if (tried != NULL) {
		tried->idle++;
	}
	tried = NULL;
}

static void fence_must(const char *sql)
{
	PGresult *r = PQexec(store_conn(), sql);

	assert(PQresultStatus(r) == PGRES_COMMAND_OK);
	PQclear(r);
}

/* Few statements happen to come late. In some seeds each is tried a few times just before it runs,
 * with the lease in other hands; then all is as it was. */
void fence_try(const struct pg *p, const struct pg_stmt *s, const struct pg_item *i)
{
	PGresult *r;

	if (!profile_is(PROFILE_PROBED) || leaders_newest() == 0 || !leaders_leads(p) ||
	    !is_fenced(s) || asked_enough(s)) {
		return;
	}
	fence_must("BEGIN; UPDATE leader SET epoch = epoch + 1; COMMIT; BEGIN");
	r = PQexecPrepared(store_conn(), s->name, s->params_n, i->values, i->lengths, i->formats,
	    1);
	if (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK) {
		always(!transaction_wrote(), "a daemon that leads no longer changes nothing",
		    "%s without the lease", s->name);
	}
	PQclear(r);
	fence_must("ROLLBACK; BEGIN; UPDATE leader SET epoch = epoch - 1; COMMIT");
}

void fence_ran(const struct pg *p, const struct pg_stmt *s, const PGresult *r, bool late)
{
	uint64_t epoch = 0;

	tried_count(r);
	if (late) {
		sometimes("a statement came from a daemon that led no longer");
		always(!transaction_wrote(), "a daemon that leads no longer changes nothing",
		    "%s of daemon-%s, epoch %" PRId64 " of %" PRId64, s->name, p->application,
		    leaders_epoch(leaders_daemon(p)), leaders_newest());
	}
	/* of a gang: a row each */
	if (PQntuples(r) > 0 && str_same(s->name, "engine_launch_undone")) {
		cloud_launch_unknown();
	}
	if (PQntuples(r) > 0 &&
	    (str_same(s->name, "engine_launch_claim") ||
		str_same(s->name, "engine_launch_claim_each") ||
		str_same(s->name, "engine_launch_claim_set")) &&
	    DICE(pause_claim)) {
		sometimes("a leader was stopped with a launch in its hands");
		world.pause_asked = true;
	}
	if (PQntuples(r) != 1) {
		return;
	}
	if (str_same(s->name, "engine_lease_take") && PQgetvalue(r, 0, 1)[0] == 1) { /* taken */
		for (int i = 0; i < PQgetlength(r, 0, 0); i++) {
			epoch = epoch << 8 | (uint8_t)PQgetvalue(r, 0, 0)[i];
		}
		leaders_took(p, (int64_t)epoch);
	}
}

/* A daemon that sends a launch holds its rows' claim: another leader may have given the row up. */
void fence_send(const char *from, const char *url, struct str body)
{
	char claim[32], *text;
	const char *params[2];
	PGresult *r;

	if (!act_is_launch(url, body)) {
		return;
	}
	text = strndup(body.p, body.n);
	assert(text != NULL);
	snprintf(claim, sizeof(claim), "e%" PRId64, leaders_epoch(str_same(from, "daemon-b")));
	params[0] = text;
	params[1] = claim;
	r = PQexecParams(store_conn(),
	    "SELECT string_agg('n' || id || ' ' || state || ' ' || claimed_by, '; ') FROM node "
	    "WHERE "
	    "(position(token in $1) > 0 OR position(name in $1) > 0) AND NOT (state = 'LAUNCHING' "
	    "AND claimed_by = $2)",
	    2, NULL, params, NULL, NULL, 0);
	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	always(PQgetisnull(r, 0, 0), "a launch is sent by whoever holds its claim", "%s (%s): %s",
	    from, claim, PQgetvalue(r, 0, 0));
	PQclear(r);
	free(text);
}

void fence_break(bool late_write)
{
	struct pg p = { .application = (char *)(uintptr_t) "a" };
	struct pg_stmt s = { .name = "engine_none" };
	PGresult *r = PQexec(store_conn(), "SELECT 1 WHERE false");

	if (late_write) {
		fence_ran(&p, &s, r, true);
	} else {
		fence_send("daemon-a", "http://ec2",
		    str_from("Action=RunInstances&ClientToken=whose"));
	}
	PQclear(r);
}
