/*
 * What must hold of budgets. A budget binds before it is exceeded: nothing is wanted that it does
 * not pay for to its end, who has used it up is told to save, stops, and keeps no machine; and
 * nobody is parked who could begin. Asked each minute, since all are lifted in the end.
 */
#include "world.h"
#include "broker.h"
#include "check.h"
#include "leaders.h"
#include "work.h"

/* Of the budget as much is kept back as saving (30 s in these files), stopping, a look and an end
 * take: src/core/money/budget.h. */
#define KEPT_US "170000000"
#define TOLD_US "120000000"
#define COST "coalesce((SELECT sum(l.amount_micros) FROM ledger l WHERE l.job_id = j.id), 0)"
#define LAST_SET \
	"coalesce((SELECT max(s.at_us) FROM event s WHERE s.job_id = j.id AND s.event = " \
	"'BUDGET_SET'), 0)"

/* What a machine was wanted for had money for five minutes of work there, a save and its end; lines
 * that began later do not count against it. */
static void check_wanted(void)
{
	if (world.skew_max != 0) {
		return;
	}
	check_none("nothing is wanted that a budget does not pay for",
	    "SELECT string_agg('n' || n.id || ' for j' || j.id || ', of which ' || b.left_micros "
	    "|| ' were left', '; ') "
	    "FROM node n JOIN job j ON j.id = n.job_id AND j.budget_micros IS NOT NULL AND "
	    "n.fleet_id IS NULL AND n.created_us > " LAST_SET " + 1000000 "
	    "CROSS JOIN LATERAL (SELECT j.budget_micros - coalesce(sum(l.amount_micros), 0) AS "
	    "left_micros FROM ledger l WHERE l.job_id = j.id "
	    "AND l.to_us <= n.created_us) b WHERE b.left_micros < n.price_micros * (300000000 "
	    "+ " KEPT_US ") / 3600000000");
}

/* By the ledger alone, of which the newest minute is missing. */
static void check_budget_told(void)
{
	static int64_t spends[CHECK_JOBS_MAX], keeps[CHECK_JOBS_MAX], rests[CHECK_JOBS_MAX];

	check_soon("who has used a budget up is told to stop",
	    "SELECT j.id, j.state FROM job j WHERE j.budget_micros <= " COST
	    " AND EXISTS (SELECT FROM attempt a "
	    "WHERE a.job_id = j.id AND a.ended_us IS NULL AND a.desired = 'run') ORDER BY j.id",
	    spends);
	check_soon("who is parked keeps no machine",
	    "SELECT j.id, j.state FROM job j WHERE j.state = 'PARKED' AND EXISTS (SELECT FROM node "
	    "n WHERE n.job_id = j.id "
	    "AND n.fleet_id IS NULL AND n.state IN ('WANTED', 'BOOTING', 'READY') AND n.end_cause "
	    "<> 'unwanted') ORDER BY j.id",
	    keeps);
	/* What a machine has cost since its last bill is as much more as the clock is ahead;
	 * nothing is billed meanwhile, so that is over with it. */
	if (!brokers_on_time()) {
		memset(rests, 0, sizeof(rests));
		return;
	}
	check_soon("nobody is parked who could begin",
	    "SELECT j.id, j.state FROM job j WHERE j.state = 'PARKED' AND (j.budget_micros IS NULL "
	    "OR j.budget_micros - " COST
	    " > j.num_nodes * (SELECT min(q.price_micros) / 2 FROM pool p JOIN pool_latest q ON "
	    "q.pool_id = p.id, jsonb_array_elements(j.spec->'asks') k, "
	    "jsonb_array_elements(k->'gpus') g WHERE p.market = 'on_demand' AND "
	    "position(lower(g->>'gpu') IN lower(p.gpu_name)) > 0 "
	    "AND p.gpu_milli >= (g->>'milli')::int)) ORDER BY j.id",
	    rests);
}

/* Of a BUDGET event e: what the budget was then. Who raises it soon after says what it was. */
#define AMOUNT(of, words) \
	"(substring(" of ".why FROM '" words " ([0-9.]+) USD')::numeric * 1000000)::int8"
#define BUDGET_THEN \
	"coalesce((SELECT " AMOUNT("s", \
	    "budget set to") " FROM event s WHERE s.job_id = j.id AND s.event = 'BUDGET_SET' AND " \
			     "s.at_us <= e.at_us " \
			     "ORDER BY s.at_us DESC LIMIT 1), (SELECT " AMOUNT("s", \
				 "it was") " FROM event s WHERE s.job_id = j.id AND s.event = " \
					   "'BUDGET_SET' AND s.at_us > e.at_us " \
					   "ORDER BY s.at_us LIMIT 1), j.budget_micros)"

/* Where nothing went wrong and nobody lowered it just before, what it cost until it and its
 * machines had the time that is kept back was within it, but for what prices rose meanwhile. What
 * it costs when it goes on with more is of a later epoch. */
static void check_kept(void)
{
	char sql[3000], of[1600];
	int64_t harm = MAX(world.harm_until, world.taken_until) + 60 * SPOT_US_PER_S;

	if (world.skew_max != 0 || world.stood) {
		return;
	}
	snprintf(of, sizeof(of),
	    "FROM event e JOIN job j ON j.id = e.job_id CROSS JOIN LATERAL (SELECT " BUDGET_THEN
	    " AS micros) b "
	    "WHERE e.event = 'BUDGET' AND e.now = 'DRAINING' AND e.at_us > %" PRId64
	    " AND e.at_us < %" PRId64 " - 240000000 AND b.micros IS NOT NULL "
	    "AND NOT EXISTS (SELECT FROM event s WHERE s.job_id = j.id AND s.event = 'BUDGET_SET' "
	    "AND s.at_us BETWEEN e.at_us - 90000000 AND e.at_us)",
	    harm, world_now());
	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('j' || x.id || ' has cost ' || c.cost || ' of ' || x.micros, '; ') "
	    "FROM (SELECT j.id, b.micros, "
	    "j.num_nodes, e.at_us, e.epoch %s) x CROSS JOIN LATERAL (SELECT sum(l.amount_micros * "
	    "least(1.0, greatest(0.0, (x.at_us + " KEPT_US " - l.from_us)::numeric "
	    "/ greatest(l.to_us - l.from_us, 1)))) AS cost, coalesce(max(l.price_micros) - "
	    "min(l.price_micros) FILTER (WHERE l.to_us > x.at_us), 0) AS rise "
	    "FROM ledger l WHERE l.job_id = x.id AND l.epoch <= x.epoch) c WHERE c.cost > x.micros "
	    "+ c.rise * x.num_nodes / 10",
	    of);
	check_none_now("a budget is kept", sql);
	snprintf(sql, sizeof(sql), "SELECT count(*) %s", of);
	if (check_value_now(sql) > 0) {
		sometimes("it was judged whether a budget was kept");
	}
}

/* By a daemon that led before and after, it is told while most of what is kept back is left,
 * whatever becomes of clouds and agents. */
static void check_told_early(void)
{
	int64_t steady = leaders_steady_since();
	char sql[1600];

	if (world.skew_max != 0 || world.stood || steady == 0) {
		return;
	}
	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('j' || x.id || ' had ' || x.budget_micros - c.cost || ' left', '; "
	    "') FROM (SELECT j.id, j.budget_micros, e.at_us "
	    "FROM event e JOIN job j ON j.id = e.job_id AND j.budget_micros IS NOT NULL AND "
	    "j.num_nodes = 1 AND j.fleet_id IS NULL "
	    "WHERE e.event = 'BUDGET' AND e.now = 'DRAINING' AND e.at_us > %" PRId64
	    " AND e.at_us < %" PRId64 " AND e.at_us > " LAST_SET
	    " + 300000000) x CROSS JOIN LATERAL (SELECT sum(l.amount_micros * least(1.0, "
	    "greatest(0.0, (x.at_us - l.from_us)::numeric "
	    "/ greatest(l.to_us - l.from_us, 1)))) AS cost, min(l.price_micros) AS price FROM "
	    "ledger l WHERE l.job_id = x.id AND l.kind <> 'credit') c "
	    "WHERE x.budget_micros - c.cost < c.price * " TOLD_US " / 3600000000",
	    steady + 60 * SPOT_US_PER_S, world_now() - 120 * SPOT_US_PER_S);
	check_none_now("a budget is kept", sql);
}

static void seen(const char *name, const char *sql)
{
	if (check_value(sql) > 0) {
		sometimes(name);
	}
}

void check_budget(void)
{
	if (!work_limited()) {
		return;
	}
	check_wanted();
	check_budget_told();
	check_kept();
	check_told_early();
}

void check_budget_seen(void)
{
	if (!work_limited()) {
		return;
	}
	seen("a running job was told that its budget is used up",
	    "SELECT count(*) FROM event WHERE event = 'BUDGET' AND now = 'DRAINING'");
	seen("a job was parked", "SELECT count(*) FROM event WHERE now = 'PARKED'");
	seen("a job was parked before it began",
	    "SELECT count(*) FROM event WHERE now = 'PARKED' AND epoch = 0");
	seen("a parked job was cancelled",
	    "SELECT count(*) FROM event WHERE was = 'PARKED' AND now = 'CANCELLED'");
	seen("a gang was parked",
	    "SELECT count(*) FROM event e JOIN job j ON j.id = e.job_id AND j.num_nodes > 1 WHERE "
	    "e.now = 'PARKED'");
	seen("a job on a fleet was parked",
	    "SELECT count(*) FROM event e JOIN job j ON j.id = e.job_id AND j.fleet_id IS NOT NULL "
	    "WHERE e.now = 'PARKED'");
	seen("a parked job went on from its checkpoint",
	    "SELECT count(*) FROM attempt a JOIN event e ON e.job_id = a.job_id AND e.now = "
	    "'PARKED' AND a.created_us > e.at_us "
	    "WHERE a.steps_start > 0");
}
