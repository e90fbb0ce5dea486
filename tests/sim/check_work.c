/* What must hold of gangs, fleets, deadlines and jobs that may run for so long, of where jobs run
 * and of how much is launched for them. */
#include "world.h"
#include "check.h"
#include "cloud.h"
#include "host.h"
#include "leaders.h"
#include "work.h"

#include "base/text/str.h"

/* ---- gangs ----------------------------------------------------------------------------------- */

static void check_gangs(void)
{
	check_none("a gang begins whole",
	    "SELECT string_agg('j' || g.job_id || ' epoch ' || g.epoch || ' has ' || g.n || ' of ' "
	    "|| j.num_nodes, '; ') "
	    "FROM (SELECT job_id, epoch, count(*) n FROM attempt GROUP BY job_id, epoch) g JOIN "
	    "job j ON j.id = g.job_id WHERE g.n <> j.num_nodes");
	check_none("the ranks of a gang are in one place",
	    "SELECT string_agg('j' || job_id || ' epoch ' || epoch, '; ') FROM "
	    "(SELECT a.job_id, a.epoch FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p "
	    "ON p.id = n.pool_id "
	    "GROUP BY a.job_id, a.epoch HAVING count(DISTINCT (p.provider, p.region, p.zone, "
	    "p.instance_type, p.market)) > 1) x");
	check_none("a machine has one rank of one job",
	    "SELECT string_agg('n' || node_id, '; ') FROM "
	    "(SELECT node_id FROM attempt WHERE ended_us IS NULL GROUP BY node_id HAVING count(*) "
	    "> 1) x");
}

/* ---- as many machines as are needed ---------------------------------------------------------- */

#define NEEDLESS_US "3600000000"

static void check_numbers(void)
{
	char sql[500];

	check_none("a job is sought one machine at a time",
	    "SELECT string_agg('j' || job_id || ' has ' || n || ' on their way', '; ') FROM "
	    "(SELECT job_id, count(*) n FROM node WHERE state IN ('WANTED', 'LAUNCHING', "
	    "'UNKNOWN', 'BOOTING') AND gang_id IS NULL AND job_id IS NOT NULL "
	    "AND end_cause <> 'unwanted' GROUP BY job_id HAVING count(*) > 1) x");
	check_none("a fleet is not larger than it was asked to be",
	    "SELECT string_agg('f' || f.id || ' has ' || x.n, '; ') FROM fleet f, LATERAL (SELECT "
	    "count(*) n "
	    "FROM node n WHERE n.fleet_id = f.id AND n.state IN ('WANTED', 'LAUNCHING', 'BOOTING', "
	    "'READY')) x WHERE x.n > (f.spec->>'nodes')::int");
	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('n' || n.id || ' ' || n.state || ' of j' || j.id, '; ') FROM node n "
	    "JOIN job j ON j.id = n.job_id "
	    "WHERE n.state IN ('WANTED', 'BOOTING', 'READY') AND n.fleet_id IS NULL AND "
	    "greatest(j.ended_us, n.state_us) + " NEEDLESS_US " + %" PRId64 " < %" PRId64,
	    world.skew_max, world_now());
	check_none_now("a machine without work is given back", sql);
}

/* What is cancelled ends soon, unless something goes wrong meanwhile. */
#define CANCEL_US (150 * SPOT_US_PER_S)

static void check_cancelled(void)
{
	char sql[500];

	if (world.skew_max != 0 ||
	    MAX(world.harm_until, world.taken_until) + CANCEL_US > world_now() || net_any_cut()) {
		return;
	}
	sometimes("a cancellation had time to take effect");
	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('j' || id || ' is ' || state || ' ' || (%" PRId64
	    " - cancel_us) / 1000000 || ' s after it was cancelled', '; ') "
	    "FROM job WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED') AND cancel_us + "
	    "%" PRId64 " < %" PRId64,
	    world_now(), CANCEL_US, world_now());
	check_none_now("a cancellation is heard", sql);
}

/* What a pass of the engine does is done after a few of them, whatever becomes of clouds and
 * agents: by our clock, under one leader. */
#define PASSES_US (100 * SPOT_US_PER_S)

static void soon(const char *rule, size_t job, const char *state, bool open[static CHECK_JOBS_MAX],
    int64_t since[static CHECK_JOBS_MAX])
{
	int64_t steady = leaders_steady_since();

	assert(job < CHECK_JOBS_MAX);
	open[job] = true;
	since[job] = since[job] == 0 ? world_now() : since[job];
	always(steady == 0 || MAX(since[job], steady) + PASSES_US > world_now(), rule,
	    "j%zu is %s, for %" PRId64 " s", job, state,
	    (world_now() - since[job]) / SPOT_US_PER_S);
}

static void soon_end(const bool open[static CHECK_JOBS_MAX], int64_t since[static CHECK_JOBS_MAX])
{
	for (size_t k = 0; k < CHECK_JOBS_MAX; k++) {
		since[k] = open[k] ? since[k] : 0;
	}
}

void check_soon(const char *rule, const char *sql, int64_t since[static CHECK_JOBS_MAX])
{
	bool open[CHECK_JOBS_MAX] = { false };
	PGresult *r = check_rows(sql);

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int i = 0; i < PQntuples(r); i++) {
		soon(rule, (size_t)strtoull(PQgetvalue(r, i, 0), NULL, 10), PQgetvalue(r, i, 1),
		    open, since);
	}
	soon_end(open, since);
	PQclear(r);
}

static void check_told_soon(void)
{
	static int64_t cancelled[CHECK_JOBS_MAX], parted[CHECK_JOBS_MAX];

	check_soon("a cancellation is told",
	    "SELECT id, state FROM job WHERE cancel_us IS NOT NULL AND state NOT IN ('SUCCEEDED', "
	    "'FAILED', 'CANCELLED', "
	    "'CANCELLING') ORDER BY id",
	    cancelled);
	check_soon("a gang stops with the rank that it has lost",
	    "SELECT id, state FROM job j WHERE num_nodes > 1 AND EXISTS (SELECT FROM attempt a "
	    "WHERE a.job_id = j.id AND a.epoch = j.epoch AND a.ended_us IS NULL AND a.desired = "
	    "'run') AND EXISTS (SELECT FROM attempt o "
	    "WHERE o.job_id = j.id AND o.epoch = j.epoch AND o.ended_us IS NOT NULL AND "
	    "o.exit_reason <> 'ok') ORDER BY id",
	    parted);
}

/* ---- jobs that may run for so long ----------------------------------------------------------- */

/* All attempts of its first rank together; what ran and what still runs tells when each began. */
static const char timed[] =
    "SELECT j.id, j.state, (j.spec->>'max_duration_s')::int8 * 1000000, "
    "coalesce(sum(greatest(a.ended_us - a.started_us, 0)), 0)::int8, "
    "coalesce(max(a.started_us) FILTER (WHERE a.ended_us IS NULL), 0), coalesce(bool_or(a.ended_us "
    "IS NULL AND a.desired = 'run'), false), "
    "position('fail_at=1' IN j.spec->>'run') > 0 OR j.fleet_id IS NOT NULL, "
    "EXISTS (SELECT FROM attempt x WHERE x.job_id = j.id AND (x.ended_us IS NULL OR NOT "
    "x.settled)) FROM job j LEFT JOIN attempt a ON a.job_id = j.id AND a.rank = 0 AND a.started_us "
    "IS NOT NULL "
    "WHERE (j.spec->>'max_duration_s')::int8 > 0 GROUP BY j.id ORDER BY j.id";

static int64_t cell_int(PGresult *r, int row, int col)
{
	return strtoll(PQgetvalue(r, row, col), NULL, 10);
}

static bool cell_true(PGresult *r, int row, int col)
{
	return PQgetvalue(r, row, col)[0] == 't';
}

/* By its programs: of a gang the rank that ran longest. */
static int64_t programs_ran(const char *job)
{
	const struct host_progress *p;
	size_t n = host_programs(&p);
	int64_t ranks[8] = { 0 }, most = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i].begun_us == 0 || !str_same(p[i].job, job) ||
		    p[i].rank >= (int64_t)ARRAY_LEN(ranks)) {
			continue;
		}
		ranks[p[i].rank] += (p[i].alive ? world_now() : p[i].ended_us) - p[i].begun_us;
		most = MAX(most, ranks[p[i].rank]);
	}
	return most;
}

/* By then an agent has not yet ended it by itself, which it does after two minutes. */
#define TOLD_EARLIER_US (40 * SPOT_US_PER_S)

/* Whose time is over is told to stop, and goes on nowhere; a clock that is wrong may think so
 * later. */
static void check_timed(void)
{
	static int64_t runs_on[CHECK_JOBS_MAX], begins[CHECK_JOBS_MAX];
	bool open[CHECK_JOBS_MAX] = { false }, queued[CHECK_JOBS_MAX] = { false };
	PGresult *r = check_rows(timed);

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int i = 0; i < PQntuples(r); i++) {
		int64_t began = cell_int(r, i, 4),
			ran = cell_int(r, i, 3) + (began > 0 ? world_now() - began : 0);
		size_t job = (size_t)cell_int(r, i, 0);
		const char *state = PQgetvalue(r, i, 1);

		if (ran < cell_int(r, i, 2) + world.skew_max) {
			continue;
		}
		if (cell_true(r, i, 5) && runs_on[job] == 0) {
			runs_on[job] = world_now() - (ran - cell_int(r, i, 2) - world.skew_max) -
			    TOLD_EARLIER_US;
		}
		if (cell_true(r, i, 5)) {
			soon("whose time is over is told to stop", job, state, open, runs_on);
		}
		if (str_same(state, "QUEUED") && !cell_true(r, i, 7)) {
			soon("whose time is over fails", job, state, queued, begins);
		}
	}
	soon_end(open, runs_on);
	soon_end(queued, begins);
	PQclear(r);
}

/* An agent ends its attempt by what that alone ran, and needs nobody for it. */
#define STOP_US (300 * SPOT_US_PER_S)

static void check_programs_timed(const char *job, int64_t most)
{
	const struct host_progress *p;
	size_t n = host_programs(&p);

	for (size_t k = 0; k < n; k++) {
		if (p[k].begun_us != 0 && str_same(p[k].job, job)) {
			always((p[k].alive ? world_now() : p[k].ended_us) - p[k].begun_us <=
				most + STOP_US,
			    "no attempt runs longer than its job may",
			    "%s epoch %" PRId64 " of %" PRId64 " s", job, p[k].epoch,
			    most / SPOT_US_PER_S);
		}
	}
}

static void check_timed_end(void)
{
	PGresult *r = check_rows(timed);
	char sql[600];

	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('j' || a.job_id || ' epoch ' || a.epoch, '; ') FROM attempt a JOIN "
	    "job j ON j.id = a.job_id "
	    "WHERE a.rank = 0 AND (j.spec->>'max_duration_s')::int8 > 0 AND (SELECT sum(b.ended_us "
	    "- b.started_us) FROM attempt b WHERE b.job_id = a.job_id "
	    "AND b.rank = 0 AND b.epoch < a.epoch AND b.ended_us > b.started_us) >= "
	    "(j.spec->>'max_duration_s')::int8 * 1000000 + %" PRId64,
	    world.skew_max);
	check_none_now("whose time is over does not begin", sql);
	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int i = 0; i < PQntuples(r); i++) {
		const char *state = PQgetvalue(r, i, 1);
		int64_t most = cell_int(r, i, 2), ran;
		char job[32];

		snprintf(job, sizeof(job), "j%s", PQgetvalue(r, i, 0));
		check_programs_timed(job, most);
		if (!str_same(state, "FAILED") || cell_true(r, i, 6)) {
			continue;
		}
		ran = MAX(cell_int(r, i, 3), programs_ran(job));
		always(ran >= most - 10 * SPOT_US_PER_S - world.skew_max,
		    "a job's time is over when it ran so long", "%s: %" PRId64 " of %" PRId64 " s",
		    job, ran / SPOT_US_PER_S, most / SPOT_US_PER_S);
		sometimes("a job's time was over");
	}
	PQclear(r);
}

/* What was answered to its user stands in the row. */
static void check_cancel_kept(void)
{
	char sql[120];
	const char *job;

	for (size_t k = 0; k < work_accepted(); k++) {
		if ((job = work_cancelled(k)) == NULL) {
			continue;
		}
		snprintf(sql, sizeof(sql),
		    "SELECT state FROM job WHERE id = %s AND cancel_us IS NULL", job + 1);
		check_none_now("a cancellation that was accepted is kept", sql);
	}
}

/* That a job is over is said when its programs are. */
static void check_over_runs(void)
{
	check_none("a job that is over runs nowhere",
	    "SELECT string_agg('j' || j.id || ' is ' || j.state || ', epoch ' || a.epoch || ' rank "
	    "' || a.rank || ' lives', '; ') "
	    "FROM job j JOIN attempt a ON a.job_id = j.id AND a.ended_us IS NULL WHERE j.state IN "
	    "('SUCCEEDED', 'FAILED', 'CANCELLED')");
}

void check_work(void)
{
	check_gangs();
	check_over_runs();
	check_numbers();
	check_cancelled();
	check_told_soon();
	if (work_timed()) {
		check_timed();
	}
	check_budget();
}

/* ---- at the end ------------------------------------------------------------------------------ */

/* Whoever asked for something hears what became of it; so do the parts of the system that ask each
 * other. */
static void check_requests(void)
{
	check_none("every accepted request is over in the end",
	    "SELECT string_agg(x.what, '; ') FROM ("
	    "SELECT 'd' || id || ', a ' || kind || ', is pending' AS what FROM decision WHERE "
	    "outcome->>'state' = 'pending' "
	    "UNION ALL SELECT 'doctor run ' || id || ' is ' || state FROM doctor_run WHERE state "
	    "<> 'done' "
	    "UNION ALL SELECT 'the end of ' || ref || ' is asked for' FROM orphan WHERE word = "
	    "'end' AND gone_us IS NULL "
	    "UNION ALL SELECT 'f' || id || ' is ' || state FROM fleet WHERE state = 'CLOSING' "
	    "UNION ALL SELECT 'j' || id || ' is cancelled and ' || state FROM job WHERE cancel_us "
	    "IS NOT NULL AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED') "
	    "UNION ALL SELECT 'a ' || o.kind || ' notice of n' || o.node_id || ' is not handled' "
	    "FROM notice o WHERE o.handled_us IS NULL "
	    "UNION ALL SELECT 'j' || job_id || ' epoch ' || epoch || ' is not settled' FROM "
	    "attempt WHERE NOT settled "
	    "UNION ALL SELECT 'gang ' || id || ' is ' || state FROM gang WHERE state <> "
	    "'RELEASED') x");
}

static void check_fleets(void)
{
	check_none("a fleet that was closed ends at zero",
	    "SELECT string_agg('f' || f.id || ' ' || f.state, '; ') FROM fleet f WHERE f.state <> "
	    "'CLOSED' "
	    "OR EXISTS (SELECT 1 FROM node n WHERE n.fleet_id = f.id AND n.state NOT IN ('GONE', "
	    "'FAILED'))");
}

#define LATE(more) \
	"SELECT string_agg('j' || id || ' ' || state || ' ' || (ended_us - deadline_us) / " \
	"1000000 || ' s late', '; ') " \
	"FROM job WHERE deadline_us IS NOT NULL AND ended_us > deadline_us AND state IN " \
	"('SUCCEEDED', 'FAILED') AND fleet_id IS NULL" more

/* It was accepted as one that can be met, and nothing went wrong. Where there is Azure and not
 * Google Cloud nobody has an L4 (aws_short). */
static void check_deadlines(void)
{
	bool no_l4 = cloud_is_here("azure") && !cloud_is_here("gcp");

	if (!check_no_faults()) {
		return;
	}
	check_none("a deadline that can be met is met",
	    no_l4 ? LATE(" AND spec::text NOT LIKE '%L4%'") : LATE(""));
}

static void seen(const char *name, const char *sql)
{
	if (check_value(sql) > 0) {
		sometimes(name);
	}
}

void check_work_seen(void)
{
	check_budget_seen();
	seen("a gang succeeded",
	    "SELECT count(*) FROM job WHERE num_nodes > 1 AND state = 'SUCCEEDED'");
	seen("a gang began again elsewhere",
	    "SELECT count(*) FROM job WHERE num_nodes > 1 AND epoch > 1");
	seen("a gang went on from a whole checkpoint",
	    "SELECT count(*) FROM attempt a JOIN job j ON j.id = a.job_id "
	    "WHERE j.num_nodes > 1 AND a.steps_start > 0");
	seen("a gang went on from what one rank had saved for all",
	    "SELECT count(*) FROM attempt a JOIN checkpoint c ON c.id = a.restore_id "
	    "WHERE a.rank > 0 AND c.steps > 0 AND c.bytes = 0");
	seen("a job with a deadline succeeded",
	    "SELECT count(*) FROM job WHERE deadline_us IS NOT NULL AND state = 'SUCCEEDED'");
	seen("a job was late", "SELECT count(*) FROM job WHERE deadline_us < ended_us");
	seen("a job left for one of higher priority",
	    "SELECT count(*) FROM decision WHERE kind = 'preempted'");
	seen("a fleet was closed", "SELECT count(*) FROM fleet WHERE state = 'CLOSED'");
	seen("a job ran on a fleet",
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id WHERE n.fleet_id IS "
	    "NOT NULL");
	seen("a job went to on-demand since there was no spot",
	    "SELECT count(*) FROM decision WHERE kind = 'failover'");
	seen("a job ran at Google Cloud",
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = "
	    "n.pool_id "
	    "WHERE p.provider = 'gcp' AND a.started_us IS NOT NULL");
	seen("a job ran at Azure",
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = "
	    "n.pool_id "
	    "WHERE p.provider = 'azure' AND a.started_us IS NOT NULL");
	seen("a job ran at CoreWeave",
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = "
	    "n.pool_id "
	    "WHERE p.provider = 'coreweave' AND a.started_us IS NOT NULL");
	seen("a gang ran at CoreWeave",
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = "
	    "n.pool_id "
	    "WHERE p.provider = 'coreweave' AND a.rank = 1 AND a.started_us IS NOT NULL");
	seen("a gang of Google Cloud came by one call",
	    "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id "
	    "WHERE p.provider = 'gcp' AND n.gang_call AND n.launched_us IS NOT NULL");
	seen("a job came back to spot", "SELECT count(*) FROM decision WHERE kind = 'return'");
	seen("a job was moved since it paid",
	    "SELECT count(*) FROM decision WHERE kind = 'rebalance' AND job_id IS NOT NULL");
}

/* Where its file lets it: its market, its GPU, its fleet or none; not on a machine that was known
 * to be taken. */
static void check_places(void)
{
	char sql[500];

	check_none("a job runs where it may",
	    "SELECT string_agg('j' || j.id || ' epoch ' || a.epoch || ' on n' || n.id || ' ' || "
	    "p.market || ' ' || p.gpu_name, '; ') "
	    "FROM attempt a JOIN job j ON j.id = a.job_id JOIN node n ON n.id = a.node_id JOIN "
	    "pool p ON p.id = n.pool_id "
	    "WHERE (p.market = 'spot' AND j.spec->>'interruptible' = 'false') OR j.fleet_id IS "
	    "DISTINCT FROM n.fleet_id "
	    "OR NOT EXISTS (SELECT FROM jsonb_array_elements(j.spec->'asks') k, "
	    "jsonb_array_elements(k->'gpus') g "
	    "WHERE (p.market <> 'spot' OR (k->>'use_spot')::int <> 0) AND "
	    "position(lower(g->>'gpu') IN lower(p.gpu_name)) > 0)");
	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('j' || a.job_id || ' epoch ' || a.epoch || ' on n' || a.node_id, '; "
	    "') FROM attempt a JOIN notice o "
	    "ON o.node_id = a.node_id AND o.kind = 'interruption' WHERE a.created_us > o.heard_us "
	    "+ 60000000 + %" PRId64,
	    world.skew_max);
	check_none_now("no job begins on a machine that is being taken", sql);
	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('j' || a.job_id || ' epoch ' || a.epoch || ' rank ' || a.rank || ' "
	    "on n' || n.id, '; ') FROM attempt a "
	    "JOIN node n ON n.id = a.node_id WHERE n.ready_us IS NULL OR n.ready_us > a.created_us "
	    "+ %" PRId64 " OR n.terminate_us + 20000000 + %" PRId64 " < a.created_us",
	    world.skew_max, world.skew_max);
	check_none_now("a job begins on machines that are ready", sql);
	check_none("who leaves for another is less urgent",
	    "SELECT string_agg('j' || v.id || ' for j' || f.id, '; ') FROM decision d JOIN job v "
	    "ON v.id = d.job_id "
	    "JOIN job f ON f.id = (d.outcome->>'for_job')::int8 WHERE d.kind = 'preempted' AND "
	    "(v.priority + 100 > f.priority OR v.spec->>'interruptible' = 'false')");
}

/* What was cancelled or is over begins nothing and wants no machines; clocks of API and engine may
 * differ. */
static void check_over(void)
{
	char sql[500];

	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('j' || j.id || ' epoch ' || a.epoch, '; ') FROM attempt a JOIN job "
	    "j ON j.id = a.job_id "
	    "WHERE a.created_us > least(j.cancel_us, j.ended_us) + 20000000 + %" PRId64,
	    world.skew_max);
	check_none_now("a job that is over does not begin", sql);
	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('n' || n.id || ' for j' || j.id, '; ') FROM node n JOIN job j ON "
	    "j.id = n.job_id "
	    "WHERE n.created_us > least(j.cancel_us, j.ended_us) + 20000000 + %" PRId64,
	    world.skew_max);
	check_none_now("no machine is wanted for a job that is over", sql);
	check_none("a job that finished does not run again",
	    "SELECT string_agg('j' || x.job_id || ' epoch ' || x.epoch, '; ') FROM (SELECT "
	    "a.job_id, a.epoch "
	    "FROM attempt a GROUP BY 1, 2 HAVING bool_and(a.exit_reason = 'ok')) x JOIN job j ON "
	    "j.id = x.job_id WHERE j.epoch > x.epoch");
}

/* As often as its file allows. */
static void check_restarts(void)
{
	check_none("a job is restarted as often as it may be",
	    "SELECT string_agg('j' || id || ' ' || restarts || ' times', '; ') FROM job "
	    "WHERE restarts > coalesce((spec->>'max_restarts')::int8, 0)");
	check_none("each restart is counted",
	    "SELECT string_agg('j' || id || ' ' || restarts || ' times', '; ') FROM job j "
	    "WHERE restarts <> (SELECT count(*) FROM event e WHERE e.job_id = j.id AND e.entity = "
	    "'job' AND e.event = 'RETRY')");
	if (check_value("SELECT count(*) FROM job WHERE restarts > 0") > 0) {
		sometimes("a job that failed was restarted");
	}
	check_none("a job fails when it may be restarted no more",
	    "SELECT string_agg('j' || id || ' after ' || restarts, '; ') FROM job "
	    "WHERE state = 'FAILED' AND reason IN ('error', 'setup_failed') AND restarts < "
	    "coalesce((spec->>'max_restarts')::int8, 0)");
}

/* Launch before leave: what a job moves to is ready, of a gang all machines. */
static void check_moves(void)
{
	char sql[700];

	snprintf(sql, sizeof(sql),
	    "SELECT string_agg('j' || e.job_id || ' ' || e.why, '; ') FROM event e JOIN job j ON "
	    "j.id = e.job_id "
	    "JOIN node t ON t.id = substring(e.why FROM ' to n([0-9]+)')::int8 WHERE e.entity = "
	    "'job' AND e.event = 'MOVE' AND e.why ~ '^moves (from|with)' "
	    "AND (SELECT count(DISTINCT coalesce(n.gang_rank, 0)) FROM node n WHERE (n.id = t.id "
	    "OR n.gang_id = t.gang_id) AND n.ready_us <= e.at_us + %" PRId64 ") < j.num_nodes",
	    world.skew_max);
	check_none_now("a job moves to machines that are ready", sql);
}

/* A pool that refused rests (a minute at least), as long as nothing else was launched there. For
 * another job a turn may have read the market just before the refusal and have waited for a
 * database of 8 s a reply since; its own is placed again by what was read after it. */
static void check_rests(void)
{
	if (world.skew_max != 0 || world.stood) {
		return;
	}
	check_none("a pool that refused rests",
	    "SELECT string_agg('n' || b.id || ' after n' || a.id || ': ' || a.why, '; ') FROM node "
	    "a JOIN node b "
	    "ON b.pool_id = a.pool_id AND b.id > a.id AND b.created_us BETWEEN a.ended_us + CASE "
	    "WHEN b.job_id = a.job_id THEN 0 ELSE 30000000 END AND a.ended_us + 50000000 "
	    "WHERE a.state = 'FAILED' AND a.end_cause = 'refused' AND a.gang_id IS NULL AND "
	    "b.gang_id IS NULL AND NOT EXISTS (SELECT FROM event e JOIN node c "
	    "ON c.id = e.node_id AND c.pool_id = a.pool_id WHERE e.now = 'BOOTING' AND e.at_us "
	    "BETWEEN a.ended_us AND b.created_us)");
	check_none("no pool rests longer than the longest rest",
	    "SELECT string_agg('p' || pool_id || ' for ' || (until_us - at_us) / 1000000 || ' s', "
	    "'; ') "
	    /* [engine] cool_max, and a statement under way */
	    "FROM pool_cool WHERE until_us - at_us > 920000000");
}

/* Each wish was accepted once, however often it was sent. */
static void check_wishes(void)
{
	int64_t jobs = check_value("SELECT count(*) FROM job"),
		fleets = check_value("SELECT count(*) FROM fleet");

	always(jobs == (int64_t)work_jobs() && fleets == (int64_t)work_fleets(),
	    "a request that is repeated is served once",
	    "%" PRId64 " jobs of %zu wishes, %" PRId64 " fleets of %zu", jobs, work_jobs(), fleets,
	    work_fleets());
	check_none("a job fails for a reason of its own",
	    "SELECT string_agg('j' || id || ' ' || reason || ': ' || why, '; ') FROM job WHERE "
	    "state = 'FAILED' "
	    "AND position('fail_at=1' IN spec->>'run') = 0 AND fleet_id IS NULL AND "
	    "coalesce((spec->>'max_duration_s')::int8, 0) = 0");
}

static void check_leaks(void)
{
	char sql[400];

	snprintf(sql, sizeof(sql),
	    "SELECT string_agg(ref || ' after ' || (terminate_us - first_us) / 1000000 || ' s', '; "
	    "') FROM orphan "
	    "WHERE kind = 'instance' AND word = '' AND terminate_us < first_us + 120000000 - "
	    "%" PRId64,
	    world.skew_max);
	check_none_now("what nobody owns is ended after its grace", sql);
}

void check_work_end(void)
{
	check_requests();
	check_cancel_kept();
	check_places();
	check_over();
	check_restarts();
	check_moves();
	check_rests();
	check_wishes();
	if (work_timed()) {
		check_timed_end();
	}
	check_leaks();
	check_fleets();
	check_deadlines();
}
