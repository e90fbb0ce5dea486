/*
 * A statement that changes a state names the state before, so that a repeat of it changes nothing.
 * It may repeat because its reply was lost or another daemon decided the same. Chance seldom does
 * that. So in some seeds each is repeated right after it had an effect, in a transaction that is
 * rolled back.
 */
#include "base/base.h"
#include "sim/world/world.h"
#include "sim/world/profiles.h"
#include "base/text/text.h"
#include "io/pg/pg_priv.h"
#include "sim/store/sim_store.h"
#include "store/q.h"
#include "sim/store/twice.h"

#define TRIES_MOST 16

static struct {
	const char *name;
	int tried;
} moves[] = { { "engine_node_move", 0 }, { "engine_job_move", 0 }, { "engine_assign", 0 },
	{ "engine_gang_assign", 0 }, { "engine_want_for_job", 0 }, { "engine_want_for_fleet", 0 },
	{ "engine_gang_want", 0 }, { "engine_gang_refill", 0 }, { "engine_gang_release", 0 },
	{ "engine_gang_wait", 0 }, { "engine_gang_wait_over", 0 }, { "engine_launch_claim", 0 },
	{ "engine_launch_claim_each", 0 }, { "engine_launch_claim_set", 0 },
	{ "engine_launch_refused", 0 }, { "engine_launch_undone", 0 }, { "engine_node_exists", 0 },
	{ "engine_attempt_settle", 0 }, { "engine_attempt_shut", 0 }, { "engine_gang_settle", 0 },
	{ "engine_bill_write", 0 }, { "engine_lost_write", 0 }, { "engine_credit_write", 0 },
	{ "engine_notice_handle", 0 }, { "engine_presign_put", 0 }, { "engine_fleet_closed", 0 },
	{ "engine_preempt", 0 }, { "engine_fleet_size", 0 }, { "engine_fleet_any_set", 0 } };

static bool is_due(const struct pg_stmt *s)
{
	for (size_t i = 0; i < ARRAY_LEN(moves); i++) {
		if (str_same(moves[i].name, s->name)) {
			return moves[i].tried++ < TRIES_MOST;
		}
	}
	return false;
}

static void sql_must(const char *sql)
{
	PGresult *r = PQexec(store_conn(), sql);

	assert(PQresultStatus(r) == PGRES_COMMAND_OK);
	PQclear(r);
}

/* A row that is there already (its token) is no change either. */
static void result_judge(const struct pg_stmt *s, const PGresult *r)
{
	always(PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) == 0,
	    "a repeated statement changes nothing", "%s", s->name);
}

/* A notice that says a later time than one that was told before. Few machines hear two; so each is
 * told once more, as if that had been so. */
static void later_try(const struct pg_stmt *s, const struct pg_item *i)
{
	static int tried;
	PGresult *r;

	if ((!str_same(s->name, "api_agent_notice") && !str_same(s->name, "engine_notice_add")) ||
	    tried++ >= TRIES_MOST) {
		return;
	}
	sql_must("BEGIN; UPDATE notice SET deadline_us = 1000000 WHERE deadline_us > 0");
	PQclear(PQexecPrepared(store_conn(), s->name, s->params_n, i->values, i->lengths,
	    i->formats, 1));
	r = PQexec(store_conn(), "SELECT FROM notice WHERE deadline_us > 1000000");
	always(PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) == 0,
	    "a deadline that was told is not put off", "by %s", s->name);
	PQclear(r);
	sql_must("ROLLBACK");
}

void twice_try(const struct pg_stmt *s, const struct pg_item *i, const PGresult *first)
{
	PGresult *r;

	later_try(s, i);
	if (!profile_is(PROFILE_PROBED) || PQresultStatus(first) != PGRES_TUPLES_OK ||
	    PQntuples(first) == 0 || !is_due(s)) {
		return;
	}
	sql_must("BEGIN");
	r = PQexecPrepared(store_conn(), s->name, s->params_n, i->values, i->lengths, i->formats,
	    1);
	result_judge(s, r);
	PQclear(r);
	sql_must("ROLLBACK");
}

/* ---- trials at the end of a seed ------------------------------------------------------------- */

static PGresult *statement_try(const struct pg_stmt *s, const char *const *params)
{
	PGresult *r =
	    PQexecParams(store_conn(), s->sql, s->params_n, s->param_types, params, NULL, NULL, 0);

	if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK) {
		fprintf(stderr, "sim: %s: %s", s->name, PQresultErrorMessage(r));
		abort();
	}
	return r;
}

/* A machine of which work was lost is credited: few are both, since a cloud that takes one says so
 * before. */
static void credit_try(void)
{
	PGresult *n = PQexec(store_conn(),
		     "SELECT l.node_id, (SELECT epoch FROM leader WHERE name = 'engine') FROM "
		     "ledger l WHERE l.kind = 'lost_work' "
		     "AND NOT EXISTS (SELECT FROM ledger c WHERE c.node_id = l.node_id AND c.kind "
		     "= 'credit') ORDER BY 1 LIMIT 1"),
		 *r;

	if (PQresultStatus(n) == PGRES_TUPLES_OK && PQntuples(n) == 1) {
		const char *params[] = { PQgetvalue(n, 0, 0), "1", "", PQgetvalue(n, 0, 1) };

		sql_must("BEGIN");
		PQclear(statement_try(&q_stmt_engine_credit_write, params));
		r = PQexecParams(store_conn(),
		    "SELECT sum(amount_micros) FROM ledger WHERE node_id = $1 HAVING "
		    "sum(amount_micros) <> 0",
		    1, NULL, params, NULL, NULL, 0);
		always(PQntuples(r) == 0, "a credit takes back all of it", "n%s would keep %s",
		    params[0], PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
		PQclear(r);
		sql_must("ROLLBACK");
	}
	PQclear(n);
}

static void lag_judge(const char *node, const char *told, const char *came)
{
	always(strtoll(told, NULL, 10) == strtoll(came, NULL, 10),
	    "a terminate knows when its machine came", "n%s: %s, not %s", node, told, came);
}

void lag_break(void)
{
	lag_judge("1", "1", "2");
}

/* EC2 reclaims a machine when its first hour is over to the microsecond, and a microsecond earlier.
 * No seed has a spot machine for so long. */
static void hour_try(void)
{
	static const char *const made[] = { "DELETE FROM attempt WHERE node_id = $1",
		"DELETE FROM ledger WHERE node_id = $1 AND kind = 'credit'",
		("UPDATE node SET provider_state = 'gone_reclaimed', launched_us = ended_us - "
		 "3600000000 WHERE id = $1") };
	static const char *const params[] = { "{aws}", "{3600000000}", "0" };
	PGresult *n = PQexec(store_conn(),
		     "SELECT n.id FROM node n JOIN pool p ON p.id = n.pool_id WHERE p.provider = "
		     "'aws' AND p.market = 'spot' AND n.state = 'GONE' "
		     "AND n.billed_to_us = n.ended_us AND EXISTS (SELECT FROM ledger l WHERE "
		     "l.node_id = n.id AND l.kind <> 'credit') ORDER BY 1 LIMIT 1"),
		 *r;

	if (PQresultStatus(n) == PGRES_TUPLES_OK && PQntuples(n) == 1) {
		const char *of[] = { PQgetvalue(n, 0, 0) };

		sql_must("BEGIN; SET LOCAL session_replication_role = replica");
		for (size_t k = 0; k < ARRAY_LEN(made); k++) {
			PQclear(PQexecParams(store_conn(), made[k], 1, NULL, of, NULL, NULL, 0));
		}
		r = statement_try(&q_stmt_engine_credit_due, params);
		always(PQntuples(r) == 0, "billed time is not credited",
		    "n%s would be, after an hour", of[0]);
		PQclear(r);
		PQclear(PQexecParams(store_conn(),
		    "UPDATE node SET launched_us = launched_us + 1 WHERE id = $1", 1, NULL, of,
		    NULL, NULL, 0));
		r = statement_try(&q_stmt_engine_credit_due, params);
		always(PQntuples(r) == 1, "unbilled time is credited",
		    "n%s would not be, within its hour", of[0]);
		PQclear(r);
		sql_must("ROLLBACK");
	}
	PQclear(n);
}

/* A restored backup had a leader once; then nobody led until the restore. A machine that was
 * launched meanwhile is no orphan of ours. A machine that was launched while somebody led, and has
 * no row, is one. */
static void led_try(void)
{
	PGresult *n = PQexec(store_conn(), "SELECT epoch FROM leader WHERE name = 'engine'"), *r;
	char now[24], created[64], led[120];

	if (PQresultStatus(n) == PGRES_TUPLES_OK && PQntuples(n) == 1) {
		const char *const params[] = { "aws", "us-east-1", "{i-led,i-unled}", "{\"\",\"\"}",
			"{\"\",\"\"}", "{f,f}", "{z,z}", "{us-east-1,us-east-1}",
			"{g5.xlarge,g5.xlarge}", "{spot,spot}", created, now, "60000000",
			PQgetvalue(n, 0, 0), "{}", "0", "600000000", "f" };

		snprintf(now, sizeof(now), "%" PRId64, world_now());
		snprintf(created, sizeof(created), "{%" PRId64 ",%" PRId64 "}",
		    SIM_T0 - 60 * SPOT_US_PER_HOUR, SIM_T0 - 24 * SPOT_US_PER_HOUR);
		snprintf(led, sizeof(led),
		    "BEGIN; INSERT INTO led VALUES (0, %" PRId64 ", %" PRId64 ")",
		    SIM_T0 - 72 * SPOT_US_PER_HOUR, SIM_T0 - 48 * SPOT_US_PER_HOUR);
		sql_must(led);
		r = statement_try(&q_stmt_engine_sweep_judge, params);
		always(PQntuples(r) == 2 && PQgetvalue(r, 1, 5)[0] == 't',
		    "machines unknown to a restored backup are kept",
		    "what came while nobody led would not be");
		always(PQntuples(r) == 2 && PQgetvalue(r, 0, 5)[0] == 'f',
		    "an orphan is ended in the end",
		    "what came under an earlier leader would not be");
		PQclear(r);
		sql_must("ROLLBACK");
	}
	PQclear(n);
}

/* Two lists lack a machine that the engine wanted to end, and never did. */
static void unasked_try(void)
{
	PGresult *n = PQexec(store_conn(),
		     "SELECT id, (SELECT array_agg(DISTINCT provider) FROM pool) FROM node WHERE "
		     "ref IS NOT NULL AND launched_us IS NOT NULL ORDER BY 1 LIMIT 1"),
		 *r;

	if (PQresultStatus(n) == PGRES_TUPLES_OK && PQntuples(n) == 1) {
		const char *of[] = { PQgetvalue(n, 0, 0) };
		const char *const params[] = { "x", "9000000000000000", "{}", PQgetvalue(n, 0, 1) };

		sql_must("BEGIN");
		PQclear(PQexecParams(store_conn(),
		    "UPDATE node SET state = 'TERMINATING', ended_us = NULL, gone_seen = 2, tries "
		    "= 0, provider_state = 'absent' "
		    "WHERE id = $1",
		    1, NULL, of, NULL, NULL, 0));
		r = statement_try(&q_stmt_engine_reap_due, params);
		always(PQntuples(r) != 1 || PQgetvalue(r, 0, 7)[0] == 'f',
		    "a row ends after its instance", "n%s would, and nobody has asked for its end",
		    of[0]);
		PQclear(r);
		sql_must("ROLLBACK");
	}
	PQclear(n);
}

/* It is ended soon after it came, of a launch that was first sent long ago; and one list lacks
 * it. */
static void lag_try(void)
{
	PGresult *n = PQexec(store_conn(),
		     "SELECT e.node_id, max(e.at_us), (SELECT array_agg(DISTINCT provider) FROM "
		     "pool) FROM event e WHERE e.now = 'BOOTING' GROUP BY 1 ORDER BY 1 LIMIT 1"),
		 *r;

	if (PQresultStatus(n) == PGRES_TUPLES_OK && PQntuples(n) == 1) {
		const char *of[] = { PQgetvalue(n, 0, 0) };
		const char *const params[] = { "x", "9000000000000000", "{}", PQgetvalue(n, 0, 2) };

		sql_must("BEGIN");
		PQclear(PQexecParams(store_conn(),
		    "UPDATE node SET state = 'TERMINATING', ended_us = NULL, launched_us = 1, "
		    "launch_sent_us = 1, "
		    "gone_seen = 1, tries = 1, provider_state = 'absent' WHERE id = $1",
		    1, NULL, of, NULL, NULL, 0));
		r = statement_try(&q_stmt_engine_reap_due, params);
		always(PQntuples(r) != 1 || PQgetvalue(r, 0, 7)[0] == 'f',
		    "a row ends after its instance", "n%s would, when one list lacks it", of[0]);
		lag_judge(of[0], PQntuples(r) == 1 ? PQgetvalue(r, 0, 12) : "",
		    PQgetvalue(n, 0, 1));
		PQclear(r);
		sql_must("ROLLBACK");
	}
	PQclear(n);
}

/* The commit of an earlier checkpoint comes once more, from a message that was on its way for
 * long. */
static void commit_try(void)
{
	PGresult *n = PQexec(store_conn(),
		     "SELECT a.node_id, c.job_id, c.epoch, c.id FROM checkpoint c JOIN job j ON "
		     "j.id = c.job_id AND j.epoch = c.epoch "
		     "JOIN attempt a ON a.job_id = c.job_id AND a.epoch = c.epoch AND a.rank = "
		     "c.rank WHERE c.state = 'COMMITTED' AND EXISTS (SELECT FROM checkpoint o "
		     "WHERE o.job_id = c.job_id AND o.epoch = c.epoch AND o.rank = c.rank AND o.id "
		     "> c.id AND o.state = 'COMMITTED') ORDER BY c.id LIMIT 1"),
		 *r;

	if (PQresultStatus(n) == PGRES_TUPLES_OK && PQntuples(n) == 1) {
		const char *params[] = { PQgetvalue(n, 0, 0), PQgetvalue(n, 0, 1),
			PQgetvalue(n, 0, 2), PQgetvalue(n, 0, 3), "9000000000000000" };

		sql_must("BEGIN");
		PQclear(statement_try(&q_stmt_api_checkpoint_commit, params));
		r = PQexecParams(store_conn(),
		    "SELECT FROM checkpoint c LEFT JOIN job j ON j.checkpoint_id = c.id WHERE c.id "
		    "= $1 AND (c.committed_us = "
		    "9000000000000000 OR j.id IS NOT NULL)",
		    1, NULL, params + 3, NULL, NULL, 0);
		always(PQntuples(r) == 0, "a repeated statement changes nothing",
		    "c%s is committed again", params[3]);
		PQclear(r);
		sql_must("ROLLBACK");
	}
	PQclear(n);
}

/* The machine goes in the moment between the report of a job's end and the pass that would settle
 * it. */
static void exit_try(void)
{
	PGresult *n = PQexec(store_conn(),
		     "SELECT a.job_id, a.epoch, (SELECT epoch FROM leader WHERE name = 'engine') "
		     "FROM attempt a JOIN job j ON j.id = a.job_id "
		     "AND j.epoch = a.epoch WHERE j.num_nodes = 1 AND a.exit_reason = 'ok' ORDER "
		     "BY 1 LIMIT 1"),
		 *r;

	if (PQresultStatus(n) == PGRES_TUPLES_OK && PQntuples(n) == 1) {
		const char *params[] = { PQgetvalue(n, 0, 0), PQgetvalue(n, 0, 1), "RUNNING",
			"QUEUED", "NODE_LOST", "", "", "f", "t", "9000000000000000",
			PQgetvalue(n, 0, 2) };

		sql_must("BEGIN; SET LOCAL session_replication_role = replica");
		PQclear(PQexecParams(store_conn(),
		    "UPDATE job SET state = 'RUNNING', ended_us = NULL WHERE id = $1", 1, NULL,
		    params, NULL, NULL, 0));
		PQclear(PQexecParams(store_conn(),
		    "UPDATE attempt SET settled = false WHERE job_id = $1 AND epoch = $2", 2, NULL,
		    params, NULL, NULL, 0));
		r = statement_try(&q_stmt_engine_attempt_settle, params);
		always(PQntuples(r) == 0, "the end of an epoch stays", "j%s epoch %s would be lost",
		    params[0], params[1]);
		PQclear(r);
		sql_must("ROLLBACK");
	}
	PQclear(n);
}

/* After s, no row made by `made` is in the state that `wrong` finds. */
static void row_try(const char *made, const struct pg_stmt *s, const char *const *params,
    const char *wrong, const char *rule)
{
	PGresult *r;

	sql_must("BEGIN; SET LOCAL session_replication_role = replica");
	PQclear(PQexecParams(store_conn(), made, 1, NULL, params, NULL, NULL, 0));
	PQclear(statement_try(s, params));
	r = PQexecParams(store_conn(), wrong, 1, NULL, params, NULL, NULL, 0);
	always(PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 0, rule, "%s of n%s",
	    s->name, params[0]);
	PQclear(r);
	sql_must("ROLLBACK");
}

/* One answer lacked it, and the next has it again: that begins anew. And it ends when a clock that
 * was set back says so, earlier than it is billed to. */
static void row_tries(void)
{
	PGresult *n = PQexec(store_conn(),
	    "SELECT id, '{' || id || '}', (SELECT epoch FROM leader WHERE name = 'engine') FROM "
	    "node WHERE launched_us IS NOT NULL "
	    "ORDER BY 1 LIMIT 1");

	if (PQresultStatus(n) == PGRES_TUPLES_OK && PQntuples(n) == 1) {
		const char *seen[] = { PQgetvalue(n, 0, 1), "{running}", "{\"\"}", "{\"\"}",
			"9000000000000000", "0", PQgetvalue(n, 0, 2), "9000000000000000" };
		const char *ends[] = { PQgetvalue(n, 0, 0), "TERMINATING", "GONE", "CONFIRMED", "",
			"", "1", "0", PQgetvalue(n, 0, 2), "0", "0" };

		row_try("UPDATE node SET state = 'READY', ended_us = NULL, gone_seen = 1, "
			"provider_state = 'absent', provider_since_us = 1 WHERE id = ANY "
			"($1::int8[])",
		    &q_stmt_engine_watch_seen, seen,
		    "SELECT FROM node WHERE id = ANY ($1::int8[]) AND gone_seen <> 0",
		    "a row ends after its instance");
		row_try("UPDATE node SET state = 'TERMINATING', ended_us = NULL, billed_to_us = "
			"9000000000000000 WHERE id = $1",
		    &q_stmt_engine_node_move, ends,
		    "SELECT FROM node WHERE id = $1 AND ended_us < 9000000000000000",
		    "bills lie within the machine's life");
	}
	PQclear(n);
}

/* Of a row made so the statement has something to do; not for a daemon that leads no longer. fence:
 * its parameter, the last. */
static void fence_try(const char *made, const struct pg_stmt *s, const char **params,
    const char *fence)
{
	const char *const epochs[] = { "0", fence };

	for (size_t k = 0; k < ARRAY_LEN(epochs); k++) {
		PGresult *r;

		sql_must("BEGIN; SET LOCAL session_replication_role = replica");
		sql_must(made);
		params[s->params_n - 1] = epochs[k];
		r = statement_try(s, params);
		if (k == 0) {
			always(PQntuples(r) == 0, "a daemon that leads no longer changes nothing",
			    "%s without the lease", s->name);
		} else if (PQntuples(r) > 0) {
			sometimes("a statement of the end had something to do");
		}
		PQclear(r);
		sql_must("ROLLBACK");
	}
}

static void fence_tries(void)
{
	PGresult *n = PQexec(store_conn(), "SELECT epoch FROM leader WHERE name = 'engine'");
	const char *empty[] = { "1", NULL }, *alive[] = { "2", "0", NULL };

	if (PQresultStatus(n) == PGRES_TUPLES_OK && PQntuples(n) == 1) {
		fence_try("UPDATE checkpoint_chunk SET fresh = false; UPDATE checkpoint SET state "
			  "= 'OPEN', urls_us = NULL",
		    &q_stmt_engine_presign_empty, empty, PQgetvalue(n, 0, 0));
		fence_try("INSERT INTO verdict (at_us, node_id, kind, why, seen, step) SELECT 1, "
			  "id, 'silent', '', '{}', 0 FROM node WHERE last_seen_us > 1 ORDER BY id "
			  "LIMIT 1",
		    &q_stmt_engine_watch_alive, alive, PQgetvalue(n, 0, 0));
	}
	PQclear(n);
}

void statements_try(void)
{
	if (PQtransactionStatus(store_conn()) != PQTRANS_IDLE) { /* breaks.c */
		return;
	}
	credit_try();
	hour_try();
	led_try();
	unasked_try();
	lag_try();
	commit_try();
	exit_try();
	row_tries();
	fence_tries();
}

void twice_break(void)
{
	static const struct pg_stmt s = { .name = "engine_preempt" };
	PGresult *r = PQexec(store_conn(), "SELECT 1");

	result_judge(&s, r);
	PQclear(r);
}
