/*
 * Each pass of the engine asks some forty questions, and nine of ten have no answer: nothing to
 * launch, look up or bill. The server's time for those is most of a seed's cost. This file has, for
 * each, the condition on the rows for it to return any. One statement asks all the conditions after
 * rows may have changed. A question that cannot return rows is answered without the server.
 *
 * Wrong gates would hide the product's acts. So every GATE_AUDIT-th gated statement runs all the
 * same, and ends the seed if it has rows. SPOT_SIM_GATES turns all gates off; test_sim.py compares
 * the traces.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "sim/store/gates.h"
#include "sim/store/sim_store.h"
#include "sim/world/world.h"

#include <stdlib.h>

#define GATE_AUDIT 64
/* A small world asks so little that an audit is mostly the one use of its statement, which is
 * parsed and planned for it. So it has fewer audits, and each seed begins at another place. */
#define GATE_AUDIT_SMALL 512

#define IF(cond) "CASE WHEN " cond " THEN 0 END"

/* from: the least value of its parameter `at` for which there may be rows; NULL = none, 0 = any.
 * Writes are gated only where they return a row for whatever they wrote. */
static const struct gate {
	const char *name, *from;
	int at; /* from 1; 0 = no parameter is compared */
} gates[] = {
	{ "engine_launch_due", IF("n.wanted"), 0 },
	{ "engine_launch_stale", IF("n.launching"), 0 },
	{ "engine_launch_flying", IF("n.launching"), 0 },
	{ "engine_lookup_due", IF("n.unknown"), 0 },
	{ "engine_reap_due", IF("n.terminating"), 0 },
	{ "engine_watch_due", IF("n.booting OR n.ready OR n.draining"), 0 },
	{ "engine_watch_places", IF("n.booting OR n.ready OR n.draining OR n.terminating"), 0 },
	{ "engine_watch_odd", IF("n.booting OR n.ready"), 0 },
	{ "engine_stream_places", IF("n.live"), 0 },
	{ "engine_credit_due", IF("n.credits"), 0 },
	{ "engine_bill_due", "CASE WHEN n.unbilled THEN 0 ELSE n.billed_to END", 1 },
	{ "engine_release_due", IF("n.wanted OR n.booting OR n.draining OR f.free OR j.stops"), 0 },
	{ "engine_free_nodes", IF("f.idle"), 0 },
	{ "engine_fleets", IF("EXISTS (SELECT FROM fleet WHERE state IN ('ACTIVE', 'CLOSING'))"),
	    0 },
	{ "engine_fleet_sizes",
	    IF("EXISTS (SELECT FROM fleet WHERE state = 'ACTIVE' AND spec ? 'scaling')"), 0 },
	{ "engine_fleet_any", IF("EXISTS (SELECT FROM job WHERE fleet_any)"), 0 },
	{ "engine_fleet_any_free", IF("EXISTS (SELECT FROM job WHERE fleet_any)"), 0 },
	{ "engine_fleet_metrics", IF("EXISTS (SELECT FROM fleet WHERE spec->'scaling' ? 'metric')"),
	    0 },
	{ "engine_gangs", IF("EXISTS (SELECT FROM gang WHERE state <> 'RELEASED')"), 0 },
	{ "engine_gang_sets", IF("j.gang"), 0 },
	{ "engine_gang_ranks", IF("j.gang OR EXISTS (SELECT FROM gang)"), 0 },
	{ "engine_attempts_odd", IF("a.odd"), 0 },
	{ "engine_attempts_ended", IF("a.exited"), 0 },
	{ "engine_files_stale", IF("a.assigned"), 0 },
	{ "engine_lost_due", IF("a.lost"), 0 },
	{ "engine_running", IF("a.live OR n.draining"), 0 },
	{ "engine_jobs_idle", IF("j.cancelled OR j.parked"), 0 },
	{ "engine_move_jobs", IF("j.running"), 0 },
	{ "engine_queue_jobs", IF("j.queued"), 0 },
	{ "engine_assign_jobs", IF("j.queued OR j.stops"), 0 },
	{ "engine_notices_due", IF("EXISTS (SELECT FROM notice WHERE handled_us IS NULL)"), 0 },
	{ "engine_recommended", IF("EXISTS (SELECT FROM notice WHERE kind = 'rebalance')"), 0 },
	{ "engine_burst_due", IF("EXISTS (SELECT FROM burst)"), 0 },
	{ "engine_enrol_due", IF("e.open"), 0 },
	{ "engine_enrol_waive", IF("e.open"), 0 },
	{ "engine_enrol_unlisted", IF("e.open"), 0 },
	{ "engine_enrol_denied", IF("e.denied"), 0 },
	{ "engine_presign_due", IF("c.unminted"), 0 },
	{ "engine_presign_empty", IF("c.unminted"), 0 },
	{ "engine_dispose_due", "c.urls_us", 1 },
	{ "engine_dispose_close", "CASE WHEN c.bare THEN 0 ELSE c.urls_us END", 1 },
	{ "engine_doctor_due", IF("EXISTS (SELECT FROM doctor_run WHERE state <> 'done')"), 0 },
	{ "engine_rebalance_due",
	    IF("EXISTS (SELECT FROM decision WHERE kind = 'rebalance_request')"), 0 },
	{ "engine_watch_doubt", IF("n.ready"), 0 },
	{ "engine_watch_alive", IF("EXISTS (SELECT FROM verdict WHERE false_us IS NULL)"), 0 },
};
static const char tables[] =
    " FROM (SELECT bool_or(state = 'WANTED') AS wanted, bool_or(state = 'LAUNCHING') AS launching,"
    " bool_or(state = 'UNKNOWN') AS unknown, bool_or(state = 'TERMINATING') AS terminating,"
    " bool_or(state = 'BOOTING') AS booting, bool_or(state = 'READY') AS ready, bool_or(state = "
    "'DRAINING') AS draining,"
    " bool_or(state NOT IN ('GONE', 'FAILED', 'WANTED')) AS live,"
    " bool_or(state = 'GONE' AND (provider_state = 'gone_reclaimed' OR end_cause = 'refused'))"
    " AS credits,"
    " bool_or(launched_us IS NOT NULL AND ended_us IS NOT NULL AND coalesce(billed_to_us < "
    "ended_us, true)) AS unbilled,"
    " min(coalesce(billed_to_us, launched_us)) FILTER (WHERE ended_us IS NULL) AS billed_to FROM "
    "node) n,"
    " (SELECT bool_or(state = 'READY' AND NOT EXISTS (SELECT FROM attempt a WHERE a.node_id = "
    "node.id"
    " AND (a.ended_us IS NULL OR NOT a.settled))) AS free, bool_or(state = 'READY' AND NOT EXISTS "
    "(SELECT FROM attempt a"
    " WHERE a.node_id = node.id AND a.ended_us IS NULL)) AS idle FROM node) f,"
    " (SELECT bool_or(state = 'QUEUED') AS queued, bool_or(state = 'RUNNING') AS running,"
    " bool_or(state IN ('CANCELLING', 'DRAINING')) AS stops,"
    " bool_or(cancel_us IS NOT NULL AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')) AS "
    "cancelled,"
    " bool_or(state = 'PARKED') AS parked, bool_or(num_nodes > 1) AS gang FROM job) j,"
    " (SELECT bool_or(a.ended_us IS NULL) AS live, bool_or(a.phase = 'EXITED' AND NOT a.settled) "
    "AS exited,"
    " bool_or(a.ended_us IS NULL AND a.phase IN ('ASSIGNED', 'SETUP')) AS assigned, "
    "bool_or(a.exit_reason = 'lost') AS lost,"
    " bool_or(a.ended_us IS NULL AND (n.state <> 'READY' OR j.cancel_us IS NOT NULL OR j.state = "
    "'STARTING'"
    " OR coalesce((j.spec->>'max_duration_s')::int8, 0) > 0 OR j.budget_micros IS NOT NULL)) AS odd"
    " FROM attempt a JOIN job j ON j.id = a.job_id JOIN node n ON n.id = a.node_id) a,"
    " (SELECT bool_or(state = 'OPEN' AND urls_us IS NULL) AS unminted,"
    " bool_or(state = 'ABANDONED' AND disposed_us IS NULL AND urls_us IS NULL) AS bare,"
    " min(urls_us) FILTER (WHERE state = 'ABANDONED' AND disposed_us IS NULL) AS urls_us FROM "
    "checkpoint) c,"
    " (SELECT bool_or(verdict = '') AS open, bool_or(verdict = 'denied') AS denied FROM "
    "enrol_proof) e";

/* Writes that no gate looks at, by how their names begin; a lease that is renewed only opens later
 * than known. */
static const char *const elsewhere[] = { "api_agent_sample", "api_agents_seen", "api_idem_",
	"api_log_append", "engine_act_claim", "engine_lease_renew", "engine_lookup_claim",
	"engine_pool_", "engine_queue_write", "engine_rate_take", "engine_reap_result",
	"engine_shares_spend", "engine_supply_", "engine_sweep_", "engine_wait_for_job",
	"engine_watch_seen", "market_", "price_" };

/* The one question with a constant answer: it reads only pools. */
#define STEADY "engine_sweep_places"
static PGresult *steady;

static int64_t from[ARRAY_LEN(gates)]; /* INT64_MAX = closed */
static bool known;
static int64_t asked;

void gates_prepare(void)
{
	static bool prepared;
	char sql[8192];
	size_t n = (size_t)snprintf(sql, sizeof(sql), "SELECT ");

	if (prepared) {
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(gates); i++) {
		n += (size_t)snprintf(sql + n, sizeof(sql) - n, "%s%s", i > 0 ? ", " : "",
		    gates[i].from);
	}
	snprintf(sql + n, sizeof(sql) - n, "%s", tables);
	prepared = store_prepare("gates", sql);
}

static void gates_read(PGconn *c)
{
	PGresult *r;

	gates_prepare();
	r = PQexecPrepared(c, "gates", 0, NULL, NULL, NULL, 0);
	assert(PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1);
	for (size_t i = 0; i < ARRAY_LEN(gates); i++) {
		from[i] = PQgetisnull(r, 0, (int)i) ? INT64_MAX
						    : strtoll(PQgetvalue(r, 0, (int)i), NULL, 10);
	}
	PQclear(r);
	known = true;
}

static const struct gate *gate_of(const struct pg_stmt *s)
{
	for (size_t i = 0; i < ARRAY_LEN(gates); i++) {
		if (strcmp(gates[i].name, s->name) == 0) {
			return &gates[i];
		}
	}
	return NULL;
}

static int64_t parameter_get(const struct pg_item *i, int at)
{
	uint64_t v = 0;

	assert(i->formats[at - 1] == 1 && i->lengths[at - 1] == 8);
	for (int k = 0; k < 8; k++) {
		v = v << 8 | (uint8_t)i->values[at - 1][k];
	}
	return (int64_t)v;
}

bool gate_closed(PGconn *c, const struct pg_stmt *s, const struct pg_item *i, bool *audit)
{
	const struct gate *g = gate_of(s);
	int64_t at;

	*audit = false;
	if (g == NULL || world.conf.gates_off) {
		return false;
	}
	if (!known) {
		gates_read(c);
	}
	at = from[g - gates];
	if (at == 0 || (at != INT64_MAX && g->at > 0 && parameter_get(i, g->at) >= at)) {
		return false;
	}
	asked++;
	*audit = world.conf.small
	    ? (asked + (int64_t)(world.conf.seed % GATE_AUDIT_SMALL) * 37) % GATE_AUDIT_SMALL == 0
	    : asked % GATE_AUDIT == 0;
	return !*audit;
}

PGresult *gate_steady(const struct pg_stmt *s)
{
	return world.conf.gates_off || steady == NULL || strcmp(s->name, STEADY) != 0
	    ? NULL
	    : PQcopyResult(steady, PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);
}

void gate_keep(const struct pg_stmt *s, const PGresult *r)
{
	if (strcmp(s->name, STEADY) == 0) {
		PQclear(steady);
		steady = PQcopyResult(r, PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);
	}
}

void gate_ran(const struct pg_stmt *s, int rows)
{
	if (s == NULL || (s->writes && str_prefix(s->name, "market_"))) {
		PQclear(steady);
		steady = NULL;
	}
	if (s == NULL || !s->writes || (rows == 0 && gate_of(s) != NULL)) {
		return; /* a COPY brings prices and pools */
	}
	for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++) {
		if (str_prefix(s->name, elsewhere[i])) {
			return;
		}
	}
	known = false;
}
