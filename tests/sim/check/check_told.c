/*
 * The rows agree with clouds, machines and users. A machine that its cloud has is neither called
 * gone nor an orphan. Prices are the cloud's. A stated deadline is not put off. A log has exactly
 * its program's lines. Orders to programs had their effect: a job that moves has saved.
 */
#include "sim/world/world.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/broker/leaders.h"
#include "sim/store/sim_store.h"
#include "sim/store/twice.h"

#include "base/text/text.h"

/* ---- machines -------------------------------------------------------------------------------- */

static const struct cloud_instance *instance_of(const struct cloud_instance *all, size_t n,
    const char *ref)
{
	const char *tail = strrchr(ref, '/');

	for (size_t i = 0; i < n; i++) {
		if (str_same(all[i].ref, tail != NULL ? tail + 1 : ref)) {
			return &all[i];
		}
	}
	return NULL;
}

/* Lists may lack it once, questions may remain without an answer: neither ends it, however silent
 * its agent is. */
static void check_vanished(const struct cloud_instance *all, size_t n)
{
	PGresult *r =
	    check_rows("SELECT v.node_id, v.at_us, n.ref, v.why FROM verdict v JOIN node n ON n.id "
		       "= v.node_id "
		       "WHERE v.kind IN ('lost', 'reclaimed') AND n.ref IS NOT NULL ORDER BY v.id");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		const struct cloud_instance *i = instance_of(all, n, PQgetvalue(r, k, 2));
		int64_t at = strtoll(PQgetvalue(r, k, 1), NULL, 10);

		sometimes("a machine was called gone");
		always(i == NULL || !i->running || i->gone_us != 0,
		    "a machine that its cloud has is not called gone", "n%s: %s; %s runs",
		    PQgetvalue(r, k, 0), PQgetvalue(r, k, 3), i != NULL ? i->id : "");
		always(i == NULL || i->gone_us == 0 || i->gone_us <= at + world.skew_max,
		    "a machine that its cloud has is not called gone",
		    "n%s: %s; %s ended %" PRId64 " s later", PQgetvalue(r, k, 0),
		    PQgetvalue(r, k, 3), i != NULL ? i->id : "",
		    i != NULL ? (i->gone_us - at) / SPOT_US_PER_S : 0);
	}
	PQclear(r);
}

/* That nobody answered says nothing. Asked when an answer was written down: the next one takes it
 * back. */
void check_absent(void)
{
	PGresult *r = check_rows("SELECT id, ref FROM node WHERE gone_seen > 0 AND state IN "
				 "('BOOTING', 'READY', 'DRAINING') AND ref IS NOT NULL ORDER BY 1");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		const char *ref = PQgetvalue(r, k, 1), *tail = strrchr(ref, '/');

		always(!cloud_lists_all(tail != NULL ? tail + 1 : ref),
		    "a machine that lists have is not called absent", "n%s", PQgetvalue(r, k, 0));
	}
	PQclear(r);
}

/* The row of a launch stands for its machine before it knows the ref. */
static void check_alarms(void)
{
	check_rule("a machine with a row is no orphan");
}

/* ---- notices --------------------------------------------------------------------------------- */

#define NODES_MAX 1024

/* Of two that were told the earlier counts, in whatever order they come. */
static void check_deadlines(void)
{
	static int64_t told[NODES_MAX]; /* by the node's number; 0 = none yet */
	PGresult *r = check_rows("SELECT node_id, deadline_us FROM notice WHERE kind = "
				 "'interruption' AND deadline_us > 0 ORDER BY 1");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		int64_t node = strtoll(PQgetvalue(r, k, 0), NULL, 10),
			deadline = strtoll(PQgetvalue(r, k, 1), NULL, 10);

		if (node >= NODES_MAX) {
			continue;
		}
		always(told[node] == 0 || deadline <= told[node],
		    "a deadline that was told is not put off", "n%" PRId64 ": by %" PRId64 " ms",
		    node, (deadline - told[node]) / 1000);
		told[node] = told[node] == 0 ? deadline : MIN(told[node], deadline);
	}
	PQclear(r);
}

/* An attempt leaves a machine that is announced to end or restart, within a few passes of one
 * leader, whatever clouds and agents do. */
static void check_noticed(void)
{
	static int64_t since[NODES_MAX];
	bool open[NODES_MAX] = { false };
	int64_t steady = leaders_steady_since();
	PGresult *r = check_rows("SELECT n.id, n.state FROM node n WHERE n.state IN ('BOOTING', "
				 "'READY') AND EXISTS (SELECT FROM notice o WHERE o.node_id = n.id "
				 "AND o.kind <> 'rebalance') ORDER BY 1");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		int64_t node = strtoll(PQgetvalue(r, k, 0), NULL, 10);

		if (node >= NODES_MAX) {
			continue;
		}
		open[node] = true;
		since[node] = since[node] == 0 ? world_now() : since[node];
		always(steady == 0 || MAX(since[node], steady) + 240 * SPOT_US_PER_S > world_now(),
		    "a job leaves a machine that is about to end",
		    "n%" PRId64 " is %s, for %" PRId64 " s", node, PQgetvalue(r, k, 1),
		    (world_now() - since[node]) / SPOT_US_PER_S);
	}
	for (size_t k = 0; k < NODES_MAX; k++) {
		since[k] = open[k] ? since[k] : 0;
	}
	PQclear(r);
}

/* The cloud knows when it reclaims a machine. The rows' time is not much later: a quarter of an
 * hour for notices that are repeated. */
static void check_taken(const struct cloud_instance *all, size_t n)
{
	PGresult *r = check_rows("SELECT o.node_id, o.deadline_us, n.ref FROM notice o JOIN node n "
				 "ON n.id = o.node_id JOIN pool p ON p.id = n.pool_id "
				 "WHERE o.kind = 'interruption' AND n.ref IS NOT NULL AND "
				 "p.provider <> 'coreweave' ORDER BY 1");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		const struct cloud_instance *i = instance_of(all, n, PQgetvalue(r, k, 2));
		int64_t deadline = strtoll(PQgetvalue(r, k, 1), NULL, 10);

		always(i == NULL || i->notice_us == 0 ||
			deadline <= i->taken_us + 900 * SPOT_US_PER_S + world.skew_max,
		    "a deadline is the cloud's", "n%s: %" PRId64 " s too late", PQgetvalue(r, k, 0),
		    i != NULL ? (deadline - i->taken_us) / SPOT_US_PER_S : 0);
	}
	PQclear(r);
}

/* Ended by its cloud it may cost nothing, ended by us it does: until its time is over it is left
 * alone. A notice may come as the machine is given back: then nobody knows the cause of the end. */
static void check_left(void)
{
	check_rule("a reclaimed machine is left to its cloud");
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* A planned move asks its program to save; a program that cannot save is not moved. */
static void check_asked(void)
{
	check_rule("a job that moves has saved");
	check_rule("a job that moves has saved / was asked to");
}

/* If no fault came since, a job's work is stored before it moves. */
static void check_moved(void)
{
	int64_t harm = MAX(world.harm_until, world.taken_until);
	if (world.skew_max != 0 || harm >= world_now()) {
		return;
	}
	check_rule("a job that moves has saved / has stored it");
}

/* The job's next state takes its program into account before the machine is given back; the job may
 * begin again there. */
static void check_given_back(void)
{
	check_rule("a machine is given back after what ran there is settled");
}

/* While the other ranks of a gang are held, the engine replaces a rank that was refused or lost.
 * Half of the hold is more than that takes. */
static void check_refilled(void)
{
	check_rule("a rank is sought again while the others are held");
}

/* Each program here writes one line as it begins. */
static void check_logs(void)
{
	check_rule("a log is what its program wrote");
	/* It ran for minutes, and its end was heard. */
	check_rule("a log is what its program wrote / has one");
}

/* A time in a row is of something that was written down when it happened. */
static void check_dated(void)
{
	check_rule("an event that did not happen has no time");
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* Each price of a line is one that the cloud had for that machine, sooner or later. */
static void check_costs(void)
{
	PGresult *r = check_rows("SELECT DISTINCT l.node_id, n.ref, p.provider, l.price_micros "
				 "FROM ledger l JOIN node n ON n.id = l.node_id "
				 "JOIN pool p ON p.id = n.pool_id WHERE n.ref IS NOT NULL AND "
				 "p.provider IN ('aws', 'lambda', 'azure', 'gcp') ORDER BY 1, 4");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		const char *ref = PQgetvalue(r, k, 1), *tail = strrchr(ref, '/');

		always(cloud_costs(tail != NULL ? tail + 1 : ref,
			   strtoll(PQgetvalue(r, k, 3), NULL, 10)),
		    "a price is the cloud's", "n%s, %s at %s, is billed at %s", PQgetvalue(r, k, 0),
		    PQgetvalue(r, k, 1), PQgetvalue(r, k, 2), PQgetvalue(r, k, 3));
	}
	PQclear(r);
}

/* ---- when ------------------------------------------------------------------------------------ */

/* It tells that a machine may be taken some day: nobody has to leave. */
static void check_recommended(void)
{
	check_rule("a machine recommended for rebalance stays");
}

/* The agent's first report that the attempt runs says when it began. The engine corrects a time
 * written by a clock that was behind; the event keeps it. */
static void check_begun(void)
{
	if (world.skew_behind > 0) {
		return;
	}
	check_rule("an attempt begins once");
}

void check_told(void)
{
	check_recommended();
	check_begun();
	check_absent();
	check_deadlines();
	check_noticed();
	check_moved();
}

/* The cloud named a machine in its reply that it never made, and a row of this launch holds that
 * name. */
static bool launch_named_nothing(const PGresult *r, const struct cloud_instance *all, size_t n)
{
	for (int k = 0; k < PQntuples(r); k++) {
		const char *ref = PQgetvalue(r, k, 1);
		bool made = ref[0] == '\0';

		for (size_t i = 0; i < n && !made; i++) {
			made = str_same(all[i].cloud, "aws") && str_same(all[i].ref, ref);
		}
		if (!made) {
			return true;
		}
	}
	return false;
}

/* A machine that EC2 made while its row was open belongs to that row, however short its life. Both
 * carry the launch token. EC2 itself answers one token with one set of machines. The exception is a
 * message that came twice. The rows hold the machines that EC2 named in its first answer, even if
 * it did not make them. The machines of the second copy are the sweeper's, if they live until a
 * sweep (check_second). */
static void check_found(const struct cloud_instance *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char launched[24];
		const char *params[] = { all[i].ref, all[i].token != NULL ? all[i].token : "",
			launched };
		PGresult *r;

		if (!str_same(all[i].cloud, "aws")) {
			continue;
		}
		snprintf(launched, sizeof(launched), "%" PRId64,
		    all[i].launched_us + world.skew_max);
		r = PQexecParams(store_conn(),
		    "SELECT id, ref FROM node WHERE token = $2 AND (ended_us IS NULL OR ended_us > "
		    "$3) AND NOT EXISTS (SELECT FROM node o WHERE o.ref = $1 "
		    "UNION ALL SELECT FROM orphan o WHERE o.ref = $1)",
		    3, NULL, params, NULL, NULL, 0);
		assert(PQresultStatus(r) == PGRES_TUPLES_OK);
		always(PQntuples(r) == 0 || launch_named_nothing(r, all, n),
		    "every machine's life is billed whole", "%s of n%s is nobody's", all[i].id,
		    PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
		PQclear(r);
	}
}

/* Rows keep these facts, so one look at the end is enough. */
void check_told_end(void)
{
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);

	check_vanished(all, n);
	check_found(all, n);
	check_taken(all, n);
	check_alarms();
	check_left();
	check_asked();
	check_given_back();
	check_refilled();
	check_logs();
	check_dated();
	check_costs();
	statements_try();
	free(all);
}
