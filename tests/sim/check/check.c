/*
 * Rules checked each simulated minute, and rules checked once no more faults come. They compare the
 * rows with the facts that the clouds and the programs know.
 */
#include "sim/world/world.h"
#include "sim/net/net.h"
#include "sim/users/asks.h"
#include "sim/broker/broker.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/broker/leaders.h"
#include "sim/world/spin.h"
#include "sim/store/sim_store.h"
#include "sim/users/work.h"

#define SETTLE_US (30 * SPOT_US_PER_S)
/* After its job's end an instance may live so long: a crash, the lease, silence of the cloud, the
 * tries. */
#define RELEASE_US (3 * SPOT_US_PER_HOUR)

/* ---- instances and rows ---------------------------------------------------------------------- */

struct rows {
	PGresult *r;
	int n;
};

static struct rows nodes_read(void)
{
	struct rows rows = {
		.r = check_rows(
		    "SELECT token, name, state, coalesce(ref, ''), coalesce(ended_us, 0), id, "
		    "coalesce(terminate_us, 0), coalesce(launched_us, 0), coalesce(launch_sent_us, "
		    "0) FROM node ORDER BY id")
	};

	assert(PQresultStatus(rows.r) == PGRES_TUPLES_OK);
	rows.n = PQntuples(rows.r);
	return rows;
}

static const char *cell_text(const struct rows *rows, int row, int col)
{
	return PQgetvalue(rows->r, row, col);
}

/* The row of an instance: its launch token, or at a cloud without tokens its name. */
static int row_of(const struct rows *rows, const struct cloud_instance *i)
{
	for (int k = 0; i->token != NULL && k < rows->n; k++) {
		if (strcmp(cell_text(rows, k, 0), i->token) == 0 ||
		    strcmp(cell_text(rows, k, 1), i->token) == 0) {
			return k;
		}
	}
	return -1;
}

static bool row_is_over(const struct rows *rows, int row)
{
	return strcmp(cell_text(rows, row, 2), "GONE") == 0 ||
	    strcmp(cell_text(rows, row, 2), "FAILED") == 0;
}

/* A row's life is its instance's life. It ends when the instance ends, not when we ask for the end
 * or hear nothing. It begins when the cloud launches the instance, not when we hear of it. A
 * repeated message may make a second instance of the same token. No row owns it, and the sweeper
 * ends it. At a cloud without tokens it may be the only one: the first message made none, and a
 * late repeat made it (flight_ghost). */
static void check_row_life(const struct rows *rows, int row, const struct cloud_instance *i)
{
	const char *ref = cell_text(rows, row, 3), *tail = strrchr(ref, '/');
	int64_t ended = strtoll(cell_text(rows, row, 4), NULL, 10),
		began = strtoll(cell_text(rows, row, 7), NULL, 10);
	bool other = ref[0] != '\0' && strcmp(tail != NULL ? tail + 1 : ref, i->ref) != 0;

	always(ref[0] == '\0' || other || began <= i->launched_us + world.skew_max,
	    "a row begins with its instance", "n%s began at %" PRId64 " s, %s %s at %" PRId64 " s",
	    cell_text(rows, row, 5), (began - SIM_T0) / SPOT_US_PER_S, i->cloud, i->id,
	    (i->launched_us - SIM_T0) / SPOT_US_PER_S);
	if (strcmp(i->cloud, "lambda") == 0 && strcmp(cell_text(rows, row, 2), "FAILED") == 0 &&
	    ref[0] == '\0' &&
	    i->launched_us >
		strtoll(cell_text(rows, row, 8), NULL, 10) + NET_GHOST_US + world.skew_max) {
		return;
	}
	if (ended == 0 || !row_is_over(rows, row) || other) {
		return;
	}
	always(i->launched_us >= ended || (i->over_us != 0 && i->over_us <= ended + world.skew_max),
	    "a row ends after its instance",
	    "n%s ended as %s at %" PRId64 " s, %s %s was there since %" PRId64 " s",
	    cell_text(rows, row, 5), cell_text(rows, row, 2), (ended - SIM_T0) / SPOT_US_PER_S,
	    i->cloud, i->id, (i->launched_us - SIM_T0) / SPOT_US_PER_S);
}

/* Beside that of a row that lives: three sweeps find it, wait and end it. */
#define SECOND_US (720 * SPOT_US_PER_S)

static void check_second(const struct rows *rows, int row, const struct cloud_instance *i)
{
	const char *ref = cell_text(rows, row, 3), *tail = strrchr(ref, '/');
	int64_t steady = leaders_steady_since();

	if (ref[0] == '\0' || !i->alive || strcmp(tail != NULL ? tail + 1 : ref, i->ref) == 0) {
		return;
	}
	for (int k = 0; k < rows->n; k++) { /* one of a gang that came by one call */
		const char *end = strrchr(cell_text(rows, k, 3), '/');

		if (strcmp(end != NULL ? end + 1 : cell_text(rows, k, 3), i->ref) == 0) {
			return;
		}
	}
	sometimes("a launch had made a second machine");
	always(steady == 0 ||
		MAX(MAX(i->launched_us, steady), world.taken_until) + SECOND_US + world.skew_max >
		    world_now(),
	    "no instance is left behind", "%s %s lives beside that of n%s since %" PRId64 " s",
	    i->cloud, i->id, cell_text(rows, row, 5),
	    (world_now() - i->launched_us) / SPOT_US_PER_S);
}

static void check_instances(void)
{
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);
	struct rows rows = nodes_read();

	for (size_t i = 0; i < n; i++) {
		int row = row_of(&rows, &all[i]);

		if (all[i].server) {
			always(!all[i].alive || all[i].idle_us == 0 ||
				world_now() < all[i].idle_us + RELEASE_US,
			    "no instance is left behind",
			    "%s %s is without a Pod since %" PRId64 " s", all[i].cloud, all[i].id,
			    (world_now() - all[i].idle_us) / SPOT_US_PER_S);
			continue;
		}
		always(row >= 0, "no instance without a row", "%s %s has the token '%s'",
		    all[i].cloud, all[i].id, all[i].token != NULL ? all[i].token : "");
		if (row >= 0) {
			check_second(&rows, row, &all[i]);
			check_row_life(&rows, row, &all[i]);
		}
		/* A row may end while a lost launch still takes effect; the sweeper finds that
		 * one. */
		if (row >= 0 && all[i].alive && row_is_over(&rows, row)) {
			int64_t ended = strtoll(cell_text(&rows, row, 4), NULL, 10);

			sometimes("an instance outlived its row");
			always(world_now() <
				MAX(ended, all[i].launched_us) + RELEASE_US + world.skew_max,
			    "no instance is left behind",
			    "%s %s lives, its node n%s is %s since %" PRId64 " s", all[i].cloud,
			    all[i].id, cell_text(&rows, row, 5), cell_text(&rows, row, 2),
			    (world_now() - ended) / SPOT_US_PER_S);
		}
	}
	PQclear(rows.r);
	free(all);
}

/* A row may say READY for a while after the machine went; not for ever. */
static void check_ready_rows(void)
{
	static int64_t since[1024];
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);
	struct rows rows = nodes_read();

	for (int k = 0; k < rows.n && k < (int)ARRAY_LEN(since); k++) {
		bool live = false,
		     claims = strcmp(cell_text(&rows, k, 2), "READY") == 0 ||
		    strcmp(cell_text(&rows, k, 2), "DRAINING") == 0;

		for (size_t i = 0; i < n; i++) {
			live = live || (all[i].alive && row_of(&rows, &all[i]) == k);
		}
		if (!claims || live) {
			since[k] = 0;
		} else if (since[k] == 0) {
			since[k] = world_now();
		}
		always(since[k] == 0 || world_now() < since[k] + 3600 * SPOT_US_PER_S,
		    "no row is ready without an instance",
		    "n%s is %s since an hour after its instance went", cell_text(&rows, k, 5),
		    cell_text(&rows, k, 2));
	}
	PQclear(rows.r);
	free(all);
}

/* Each notice in the rows was a notice of this machine, or of another of its launch that came to
 * enrol. A machine without a notice goes on. The cloud's part of CoreWeave's notices is not known
 * here. */
static void check_notices(void)
{
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);
	PGresult *r = check_rows("SELECT n.id, o.source, coalesce(n.ref, ''), n.token, n.name FROM "
				 "notice o JOIN node n ON n.id = o.node_id "
				 "JOIN pool p ON p.id = n.pool_id WHERE o.kind = 'interruption' "
				 "AND p.provider <> 'coreweave' ORDER BY 1");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		const char *ref = PQgetvalue(r, k, 2), *tail = strrchr(ref, '/');
		bool taken = false;

		for (size_t i = 0; i < n; i++) {
			bool its = strcmp(tail != NULL ? tail + 1 : ref, all[i].ref) == 0 ||
			    (all[i].token != NULL &&
				(strcmp(all[i].token, PQgetvalue(r, k, 3)) == 0 ||
				    strcmp(all[i].token, PQgetvalue(r, k, 4)) == 0));

			taken = taken || (its && (all[i].notice_us != 0 || !all[i].alive));
		}
		always(taken, "a notice is the machine's",
		    "n%s heard one by %s, and nobody takes it", PQgetvalue(r, k, 0),
		    PQgetvalue(r, k, 1));
	}
	PQclear(r);
	free(all);
}

/* ---- when ------------------------------------------------------------------------------------ */

void check_step(void)
{
	spin_check();
	brokers_market_check();
	check_instances();
	check_ready_rows();
	check_notices();
	check_programs();
	check_progress();
	check_checkpoints();
	check_ledger();
	check_losses();
	check_ended();
	check_boots();
	check_work();
	check_fleets();
	check_told();
	cloud_check_others();
}

/* Beside instances. rule: it must be so. */
static bool nothing_left(bool rule)
{
	json_t *left = cloud_left();
	bool none_left = json_array_size(left) == 0;
	char *words = json_dumps(left, 0);

	if (rule) {
		always(none_left, "in the end nothing is left at the clouds", "%s", words);
	}
	free(words);
	json_decref(left);
	return none_left;
}

/* Nothing is left to do: all jobs are over, all rows, all machines. */
bool check_settled(void)
{
	static int64_t looked;
	struct cloud_instance *all;
	size_t n, alive = 0;

	if (!work_done() || !asks_done() || !broker_up() || world_now() < looked + SETTLE_US) {
		return false;
	}
	looked = world_now();
	n = cloud_instances(&all);
	for (size_t i = 0; i < n; i++) {
		alive += all[i].alive;
	}
	free(all);
	if (check_disposes() &&
	    check_value(
		"SELECT count(*) FROM checkpoint WHERE state = 'ABANDONED' AND disposed_us IS "
		"NULL") > 0) {
		return false;
	}
	return alive == 0 && others_settled() && cloud_orders_open() == 0 && nothing_left(false) &&
	    check_value(
		"SELECT (SELECT count(*) FROM job WHERE state NOT IN ('SUCCEEDED', 'FAILED', "
		"'CANCELLED')) + "
		"(SELECT count(*) FROM fleet WHERE state <> 'CLOSED') + "
		"(SELECT count(*) FROM decision WHERE outcome->>'state' = 'pending') + (SELECT "
		"count(*) FROM doctor_run WHERE state <> 'done') + "
		"(SELECT count(*) FROM orphan WHERE word = 'end' AND gone_us IS NULL) + "
		"(SELECT count(*) FROM node WHERE state NOT IN ('GONE', 'FAILED') OR (launched_us "
		"IS NOT NULL AND "
		"ended_us > launched_us AND (billed_to_us IS NULL OR billed_to_us < ended_us)))") ==
	    0;
}

void check_timeline(void)
{
	char *t = check_text(
	    "SELECT string_agg((at_us - "
	    "1793491200000000"
	    ") / 1000000 || ' ' || entity || ' ' || entity_id || ' ' || was "
	    "|| '->' || now || ' ' || event || ': ' || why, chr(10) ORDER BY id) FROM event "
	    "WHERE entity IN ('job', 'node', 'checkpoint', 'orphan', 'fleet')");

	printf("%s\n", t);
	free(t);
}

void check_rules_end(void)
{
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);

	check_rule("every accepted job reaches an end");
	check_rule("every node reaches an end");
	for (size_t i = 0; i < n; i++) {
		always(!all[i].alive, "in the end no instance is left", "%s %s is %s", all[i].cloud,
		    all[i].id, all[i].state);
	}
	if (cloud_is_here("coreweave")) {
		always(cloud_orders_open() == 0, "in the end no order is left",
		    "%zu machines are still ordered", cloud_orders_open());
	}
	nothing_left(true);
	always(work_done() && asks_done(), "every user is heard", "%zu were", work_accepted());
	check_step();
	check_restorable(true);
	check_disposed();
	check_ledger_end();
	check_money_end();
	check_told_end();
	check_healthy();
	check_results();
	check_cancels();
	check_work_end();
	check_fleets_end();
	others_check_end();
	free(all);
}

void check_end(void)
{
	if (world.failed == NULL) {
		check_rules_end();
	}
	if (check_value("SELECT count(*) FROM job WHERE state = 'SUCCEEDED'") > 0) {
		sometimes("a job succeeded");
	}
	if (check_value("SELECT count(*) FROM job WHERE state = 'FAILED'") > 0) {
		sometimes("a job failed");
	}
	if (check_value("SELECT count(*) FROM job WHERE state = 'CANCELLED'") > 0) {
		sometimes("a job ended by its cancellation");
	}
	if (check_value("SELECT count(*) FROM event WHERE now = 'UNKNOWN'") > 0) {
		sometimes("a launch's outcome was unknown");
	}
	if (check_value("SELECT count(*) FROM orphan") > 0) {
		sometimes("the sweeper found an instance without a live row");
	}
	if (check_value("SELECT count(*) FROM attempt WHERE exit_reason = 'lost'") > 0) {
		sometimes("an attempt was lost");
	}
	if (check_value("SELECT count(*) FROM attempt WHERE exit_reason = 'drained'") > 0) {
		sometimes("an attempt was drained");
	}
	check_work_seen();
	check_fleets_seen();
	if (world.failed != NULL || world.conf.trace) {
		check_timeline();
	}
}
