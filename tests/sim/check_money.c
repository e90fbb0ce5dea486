/*
 * What must hold of money beyond each line for itself: its price is what the pool's rows say, what
 * was reversed was that line and once, work is lost from the last checkpoint on, and what is
 * credited the cloud does not bill.
 */
#include "world.h"
#include "check.h"
#include "cloud.h"
#include "store.h"
#include "store/q.h"

#include "base/text/str.h"

/* A line says which row of prices it is of. Where neither clocks nor daemons stood still that was
 * the newest one for its time that had been in the rows for a minute. */
static void check_prices(void)
{
	check_none("a price is the pool's",
	    "SELECT string_agg('line ' || l.id || ' of n' || l.node_id, '; ') FROM ledger l JOIN "
	    "node n ON n.id = l.node_id "
	    "WHERE NOT CASE WHEN l.price_observed_us = 0 THEN l.price_micros = n.price_micros ELSE "
	    "EXISTS (SELECT FROM price_point p "
	    "WHERE p.pool_id = n.pool_id AND p.observed_us = l.price_observed_us AND "
	    "p.price_micros = l.price_micros AND p.effective_us <= l.from_us) END");
	if (world.skew_max == 0 && !world.stood) {
		check_none("a price is the newest",
		    "SELECT string_agg('line ' || l.id || ' of n' || l.node_id || ' is of ' || "
		    "l.price_observed_us || ', not ' || q.observed_us, '; ') "
		    "FROM ledger l JOIN price_point q ON q.pool_id = l.pool_id AND q.observed_us > "
		    "l.price_observed_us AND q.effective_us < l.to_us "
		    "AND q.observed_us < l.at_us - 60000000 AND q.price_micros <> l.price_micros "
		    "WHERE l.reverses IS NULL AND NOT EXISTS (SELECT FROM ledger r WHERE r.node_id "
		    "= l.node_id AND r.reverses IS NOT NULL) "
		    "AND NOT EXISTS (SELECT FROM price_point o WHERE o.pool_id = q.pool_id AND "
		    "o.observed_us > q.observed_us AND o.effective_us < l.to_us)");
	}
}

/* Each minute times that have not come yet become now, and no daemon's clock is wrong any more:
 * until then no newer price would count. */
static void check_prices_dated(void)
{
	char sql[500];

	if (world_now() < world.quiet_us + 150 * SPOT_US_PER_S) {
		return;
	}
	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('p' || pool_id || ' in ' || s || ' s', '; ') FROM (SELECT pool_id, "
	    "(greatest(observed_us, changed_us) - %" PRId64
	    ") / 1000000 AS s FROM pool_latest UNION ALL SELECT pool_id, (observed_us - %" PRId64
	    ") / 1000000 FROM price_dated) x WHERE s > 5",
	    world_now(), world_now());
	check_none_now("no price is of a time to come", sql);
}

static void check_reversals(void)
{
	check_none("a reversal takes one line back",
	    "SELECT string_agg('line ' || l.id || ' of n' || l.node_id, '; ') FROM ledger l WHERE "
	    "EXISTS "
	    "(SELECT FROM ledger r WHERE r.reverses = l.id AND (r.amount_micros <> "
	    "-l.amount_micros OR (r.from_us, r.to_us, r.node_id) <> (l.from_us, l.to_us, "
	    "l.node_id))) "
	    "OR (SELECT count(*) FROM ledger r WHERE r.reverses = l.id) > 1");
	check_none("lost work is billed as well",
	    "SELECT string_agg('n' || n.id || ' lived ' || (n.ended_us - n.launched_us) || ' "
	    "billed ' || b.us, '; ') FROM node n, LATERAL "
	    "(SELECT sum(l.to_us - l.from_us) us FROM ledger l WHERE l.node_id = n.id AND "
	    "l.reverses IS NULL AND NOT EXISTS "
	    "(SELECT FROM ledger x WHERE x.reverses = l.id)) b WHERE n.ended_us > n.launched_us "
	    "AND b.us <> n.ended_us - n.launched_us "
	    "AND EXISTS (SELECT FROM ledger r WHERE r.node_id = n.id AND r.kind = 'lost_work')");
	check_none("work is lost from the last checkpoint on",
	    "SELECT string_agg('line ' || l.id || ' of j' || l.job_id || ' epoch ' || l.epoch || "
	    "': c' || c.id, '; ') "
	    "FROM ledger l JOIN attempt a ON a.job_id = l.job_id AND a.epoch = l.epoch AND "
	    "a.node_id = l.node_id "
	    "JOIN checkpoint c ON c.job_id = a.job_id AND c.epoch = a.epoch AND c.rank = a.rank "
	    "AND c.state = 'COMMITTED' "
	    "WHERE l.kind = 'lost_work' AND l.reverses IS NULL AND CASE WHEN c.set_key IS NULL "
	    "THEN c.committed_us ELSE c.set_us END > l.from_us");
}

/* Soon after an attempt was lost, what it computed since its last checkpoint is not called work any
 * more; but for what is credited. */
static void check_lost(void)
{
	char sql[1100];

	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('line ' || l.id || ' of j' || a.job_id || ' epoch ' || a.epoch || ' "
	    "on n' || a.node_id, '; ') "
	    "FROM attempt a JOIN node n ON n.id = a.node_id JOIN ledger l ON (l.job_id, l.epoch, "
	    "l.node_id) = (a.job_id, a.epoch, a.node_id) "
	    "WHERE (a.exit_reason = 'lost' OR (a.exit_reason = 'killed' AND EXISTS (SELECT FROM "
	    "attempt o WHERE (o.job_id, o.epoch) = (a.job_id, a.epoch) "
	    "AND o.exit_reason = 'lost'))) AND a.started_us IS NOT NULL AND n.state IN ('GONE', "
	    "'FAILED') AND greatest(a.ended_us, n.ended_us) < %" PRId64 " "
	    "AND l.kind = 'compute' AND l.reverses IS NULL AND NOT EXISTS (SELECT FROM ledger r "
	    "WHERE r.reverses = l.id) "
	    "AND l.from_us < least(a.ended_us, n.ended_us) AND l.from_us >= coalesce((SELECT "
	    "max(CASE WHEN c.set_key IS NULL THEN c.committed_us ELSE c.set_us END) "
	    "FROM checkpoint c WHERE (c.job_id, c.epoch, c.rank) = (a.job_id, a.epoch, a.rank) AND "
	    "c.state = 'COMMITTED'), a.started_us) "
	    "AND NOT EXISTS (SELECT FROM ledger x WHERE x.node_id = n.id AND x.kind = 'credit')",
	    world_now() - 300 * SPOT_US_PER_S - world.skew_max);
	check_none_now("what was lost is booked as lost", sql);
}

/* A cloud that bills a machine gives nothing back for it. */
static void check_credits(void)
{
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);
	PGresult *r = check_rows("SELECT n.id, n.ref FROM node n WHERE EXISTS (SELECT FROM ledger "
				 "l WHERE l.node_id = n.id AND l.kind = 'credit') ORDER BY 1");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		for (size_t i = 0; i < n; i++) {
			if (strcmp(all[i].ref, PQgetvalue(r, k, 1)) == 0) {
				always(all[i].free && str_same(all[i].ended_by, "reclaim"),
				    "what the cloud bills is not credited",
				    "n%s was credited, %s was ended by %s%s", PQgetvalue(r, k, 0),
				    all[i].id, all[i].ended_by,
				    all[i].free ? "" : ", and is billed");
			}
		}
		sometimes("a machine was credited");
	}
	PQclear(r);
	free(all);
}

/* Also what was booked anew in between, such as lost work. */
static void check_credited_whole(void)
{
	check_none("a credit takes back all of it",
	    "SELECT string_agg('n' || node_id || ' keeps ' || sum, '; ') FROM (SELECT node_id, "
	    "sum(amount_micros) FROM ledger "
	    "GROUP BY node_id HAVING bool_or(kind = 'credit')) x WHERE sum <> 0");
}

/* For what each line is: a job's time on a machine is compute, no other is; a fleet's machine is
 * idle for nobody's job; half a minute for what was decided meanwhile. */
static void check_kinds(void)
{
	if (world.skew_max != 0 || world.stood) {
		return;
	}
	check_none("a line is of what the machine did",
	    "SELECT string_agg('line ' || l.id || ' of n' || l.node_id || ' ' || l.kind, '; ') "
	    "FROM ledger l "
	    "JOIN node n ON n.id = l.node_id WHERE l.reverses IS NULL AND NOT EXISTS (SELECT FROM "
	    "ledger r WHERE r.reverses = l.id) AND CASE l.kind "
	    "WHEN 'boot' THEN l.to_us > n.ready_us WHEN 'idle' THEN (n.fleet_id IS NOT NULL AND "
	    "l.job_id IS NOT NULL) OR n.ready_us IS NULL OR l.from_us < n.ready_us OR EXISTS "
	    "(SELECT FROM attempt a "
	    "WHERE a.node_id = l.node_id AND least(l.to_us, coalesce(a.ended_us, l.to_us)) - "
	    "greatest(l.from_us, a.created_us) > 30000000) "
	    "WHEN 'compute' THEN NOT EXISTS (SELECT FROM attempt a WHERE (a.job_id, a.epoch, "
	    "a.node_id) = (l.job_id, l.epoch, l.node_id) "
	    "AND a.created_us <= l.from_us + 30000000 AND coalesce(a.ended_us, l.to_us) + 30000000 "
	    ">= l.to_us) ELSE false END");
	check_none("a line is the team's",
	    "SELECT string_agg('line ' || l.id, '; ') FROM ledger l JOIN job j ON j.id = l.job_id "
	    "WHERE (l.team, l.project) "
	    "<> (j.team, j.project)");
}

/* EC2 ended it within its first hour, whatever else was asked of it then. Soon after it is
 * credited. By a clock that was set back it may have ended before it began: then nothing was
 * billed. */
static void check_uncredited(void)
{
	char sql[500];
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);
	PGresult *r;

	snprintf(sql, sizeof(sql),
	    "SELECT n.id, n.ref FROM node n JOIN pool p ON p.id = n.pool_id WHERE p.provider = "
	    "'aws' AND p.market = 'spot' AND n.state = 'GONE' "
	    "AND n.ended_us - n.launched_us BETWEEN 1 AND 3599999999 AND n.ended_us < %" PRId64
	    " AND NOT EXISTS (SELECT FROM ledger l WHERE l.node_id = n.id AND l.kind = 'credit')",
	    world_now() - 300 * SPOT_US_PER_S - world.skew_max);
	r = PQexec(store_conn(), sql);
	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		for (size_t i = 0; i < n; i++) {
			always(strcmp(all[i].ref, PQgetvalue(r, k, 1)) != 0 ||
				!str_same(all[i].ended_by, "reclaim"),
			    "what the cloud does not bill is credited",
			    "n%s is not, %s was ended by %s", PQgetvalue(r, k, 0), all[i].id,
			    all[i].ended_by);
		}
	}
	PQclear(r);
	free(all);
}

/* Times by which a row may be off: nobody looked, nobody answered, or the clock was wrong
 * meanwhile. By how much that was is no excuse: what such a clock wrote down of a life is put right
 * before it is billed; what lies too early only by who still leads then. */
#define LIFE_OFF_US (2400 * SPOT_US_PER_S)

static void check_lives(void)
{
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);
	int64_t early = check_value("SELECT count(*) FROM led") == 1 ? LIFE_OFF_US : INT64_MAX;
	PGresult *r = check_rows("SELECT id, ref, launched_us, ended_us FROM node WHERE ref IS NOT "
				 "NULL AND launched_us IS NOT NULL AND state = 'GONE' ORDER BY 1");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		const char *ref = PQgetvalue(r, k, 1), *tail = strrchr(ref, '/');
		int64_t began = strtoll(PQgetvalue(r, k, 2), NULL, 10),
			ended = strtoll(PQgetvalue(r, k, 3), NULL, 10);

		for (size_t i = 0; i < n; i++) {
			if (!str_same(all[i].ref, tail != NULL ? tail + 1 : ref) ||
			    all[i].over_us == 0) {
				continue;
			}
			always(began - all[i].launched_us <= LIFE_OFF_US &&
				ended - all[i].over_us <= LIFE_OFF_US &&
				all[i].launched_us - began <= early &&
				all[i].over_us - ended <= early,
			    "a life is its machine's, whatever a clock said",
			    "n%s began %" PRId64 " s and ended %" PRId64 " s after %s %s did",
			    PQgetvalue(r, k, 0), (began - all[i].launched_us) / SPOT_US_PER_S,
			    (ended - all[i].over_us) / SPOT_US_PER_S, all[i].cloud, all[i].id);
		}
	}
	PQclear(r);
	free(all);
}

/* What we have of the cloud's interval, which lies within ours, at prices that the cloud had: no
 * less and no more than it bills but for a micro-dollar a line and for prices that were heard late.
 * Clocks that are wrong are told by other rules. */
static const char ours[] =
    "SELECT coalesce(sum(l.price_micros::numeric * (least(l.to_us, $3) - greatest(l.from_us, $2)) "
    "/ 3600000000), 0)::int8, count(*) FROM ledger l "
    "WHERE l.node_id = $1 AND l.from_us < $3 AND l.to_us > $2 AND l.reverses IS NULL AND NOT "
    "EXISTS (SELECT FROM ledger x WHERE x.reverses = l.id AND x.kind <> 'credit')";

static void check_bill(const char *node, int64_t began, int64_t ended,
    const struct cloud_instance *i)
{
	static const char rule[] = "a machine costs what its cloud bills";
	char from[24], to[24];
	const char *params[] = { node, from, to };
	int64_t us = i->bill_to_us - i->bill_from_us, have, lines;
	PGresult *r;

	always(began <= i->bill_from_us && ended >= i->bill_to_us, rule,
	    "n%s lived %" PRId64 " to %" PRId64 " s, %s is billed %" PRId64 " to %" PRId64 " s",
	    node, (began - SIM_T0) / SPOT_US_PER_S, (ended - SIM_T0) / SPOT_US_PER_S, i->id,
	    (i->bill_from_us - SIM_T0) / SPOT_US_PER_S, (i->bill_to_us - SIM_T0) / SPOT_US_PER_S);
	snprintf(from, sizeof(from), "%" PRId64, i->bill_from_us);
	snprintf(to, sizeof(to), "%" PRId64, i->bill_to_us);
	r = PQexecParams(store_conn(), ours, 3, NULL, params, NULL, NULL, 0);
	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	have = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
	lines = strtoll(PQgetvalue(r, 0, 1), NULL, 10) + 1;
	always(have >= (int64_t)((__int128)us * i->least_micros / SPOT_US_PER_HOUR) - lines &&
		have <= (int64_t)((__int128)us * i->most_micros / SPOT_US_PER_HOUR) + lines,
	    rule, "n%s: %" PRId64 " micro-dollars, %s is billed %" PRId64, node, have, i->id,
	    i->cost_micros);
	if (i->least_micros == i->most_micros) {
		always(llabs(have - i->cost_micros) <= lines, rule,
		    "n%s: %" PRId64 " micro-dollars, %s is billed %" PRId64, node, have, i->id,
		    i->cost_micros);
	}
	PQclear(r);
}

static void check_bills(void)
{
	struct cloud_instance *all;
	size_t n;
	PGresult *r;

	if (world.skew_max != 0) {
		return;
	}
	n = cloud_instances(&all);
	r = check_rows("SELECT n.id, n.ref, n.launched_us, n.ended_us FROM node n JOIN pool p ON "
		       "p.id = n.pool_id WHERE n.ref IS NOT NULL AND n.launched_us IS NOT NULL "
		       "AND n.state = 'GONE' AND p.provider <> 'coreweave' ORDER BY 1");
	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		const char *ref = PQgetvalue(r, k, 1), *tail = strrchr(ref, '/');

		for (size_t i = 0; i < n; i++) {
			if (str_same(all[i].ref, tail != NULL ? tail + 1 : ref) &&
			    all[i].bill_to_us > all[i].bill_from_us) {
				check_bill(PQgetvalue(r, k, 0),
				    strtoll(PQgetvalue(r, k, 2), NULL, 10),
				    strtoll(PQgetvalue(r, k, 3), NULL, 10), &all[i]);
			}
		}
	}
	PQclear(r);
	free(all);
}

/* Clouds that serve a launch twice, and messages that come twice or are sent again, are faults. */
static void check_doubles(void)
{
	const struct faults_mix *m = &world.conf.mix;

	if (m->lie + m->lie_act + m->launch_twice + m->act_lost + m->net_lost + m->net_reset +
		m->net_reply_lost + m->net_twice + m->net_slow ==
	    0) {
		always(cloud_double_launches() == 0, "a launch makes its machines once",
		    "%zu were made twice", cloud_double_launches());
	}
}

/* What spotctl doctor --consistency says of rows that ask for no grace. Who led when is told by
 * clocks. */
static void check_doctor(void)
{
	static const struct pg_stmt *const asks[] = { &q_stmt_consistency_epochs,
		&q_stmt_consistency_checkpoints, &q_stmt_consistency_progress,
		&q_stmt_consistency_ledger_time, &q_stmt_consistency_ledger_amounts,
		&q_stmt_consistency_ledger_reversals, &q_stmt_consistency_budget,
		&q_stmt_consistency_leaders };
	static const char *const since[] = { "0" };

	for (size_t k = 0; k < ARRAY_LEN(asks) - (world.skew_max != 0); k++) {
		PGresult *r = PQexecParams(store_conn(), asks[k]->sql, asks[k]->params_n,
		    asks[k]->param_types, since, NULL, NULL, 0);

		assert(PQresultStatus(r) == PGRES_TUPLES_OK);
		always(str_same(PQgetvalue(r, 0, 1), "0"), "the doctor finds nothing", "%s: %s",
		    asks[k]->name, PQgetvalue(r, 0, 2));
		PQclear(r);
	}
}

void check_money_end(void)
{
	check_doctor();
	check_lives();
	check_bills();
	check_doubles();
	check_kinds();
	check_uncredited();
	check_prices();
	check_prices_dated();
	check_reversals();
	check_lost();
	check_credits();
	check_credited_whole();
}

/* ---- sums ------------------------------------------------------------------------------------ */

void check_ledger(void)
{
	check_none("no interval is billed twice",
	    "SELECT string_agg('n' || a.node_id || ' lines ' || a.id || ' and ' || b.id, '; ') "
	    "FROM ledger a JOIN ledger b "
	    "ON b.node_id = a.node_id AND b.id > a.id AND b.from_us < a.to_us AND a.from_us < "
	    "b.to_us "
	    "AND a.kind <> 'lost_work' AND b.kind <> 'lost_work' AND a.reverses IS NULL AND "
	    "b.reverses IS NULL "
	    "AND NOT EXISTS (SELECT 1 FROM ledger x WHERE x.reverses IN (a.id, b.id))");
	check_none("an amount is its interval times its price",
	    "SELECT string_agg('line ' || id, '; ') FROM ledger WHERE reverses IS NULL AND "
	    "abs(amount_micros) <> "
	    "round((to_us - from_us)::numeric * price_micros / 3600000000) AND "
	    "abs(abs(amount_micros) - "
	    "(to_us - from_us)::numeric * price_micros / 3600000000) > 1");
	check_none("what is billed lies within the machine's life",
	    "SELECT string_agg('line ' || l.id || ' of n' || n.id, '; ') FROM ledger l JOIN node n "
	    "ON n.id = l.node_id "
	    "WHERE l.from_us < n.launched_us OR (n.ended_us IS NOT NULL AND l.to_us > n.ended_us)");
}

void check_ledger_end(void)
{
	check_none("every machine's life is billed whole",
	    "SELECT string_agg('n' || n.id || ' lived ' || (n.ended_us - n.launched_us) || ' "
	    "billed ' || b.us, '; ') FROM node n, LATERAL ("
	    "SELECT coalesce(sum(l.to_us - l.from_us) FILTER (WHERE l.reverses IS NULL AND NOT "
	    "EXISTS "
	    "(SELECT 1 FROM ledger x WHERE x.reverses = l.id)), 0) us FROM ledger l WHERE "
	    "l.node_id = n.id AND l.kind <> 'lost_work') b "
	    "WHERE n.launched_us IS NOT NULL AND n.ended_us > n.launched_us AND b.us <> n.ended_us "
	    "- n.launched_us "
	    "AND NOT EXISTS (SELECT 1 FROM ledger r WHERE r.node_id = n.id AND r.reverses IS NOT "
	    "NULL)");
}
