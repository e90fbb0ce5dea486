/* Rules about gangs, fleets, deadlines and time limits, about where jobs run and how much is
 * launched for them. */
#include "sim/world/world.h"
#include "sim/net/net.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/host/host.h"
#include "sim/broker/leaders.h"
#include "sim/users/work.h"

#include "base/text/text.h"

/* ---- gangs ----------------------------------------------------------------------------------- */

static void check_gangs(void)
{
	check_rule("a gang begins whole");
	check_rule("the ranks of a gang are in one place");
	check_rule("a machine has one rank of one job");
	check_rule("a gang waits for one machine at a time");
}

/* ---- as many machines as are needed ---------------------------------------------------------- */

static void check_numbers(void)
{
	check_rule("a job is sought one machine at a time");
	check_rule("a fleet is not larger than it was asked to be");
	check_rule("a fleet gives back no machine with work");
	check_rule("a node of a fleet has one replacement");
	check_rule("a node of a fleet leaves for one that is ready");
	check_rule("a fleet gives nothing back while its size stays");
	check_rule("a machine without work is given back");
}

static void check_bursts(void)
{
	if (check_rule("a burst asks for saves on siblings") > 0) {
		sometimes("a burst asked a job to save");
	}
	check_rule("a burst asks a job once");
}

/* A cancelled job ends soon, unless something goes wrong meanwhile. */
#define CANCEL_US (150 * SPOT_US_PER_S)

static void check_cancelled(void)
{
	if (world.skew_max != 0 ||
	    MAX(world.harm_until, world.taken_until) + CANCEL_US > world_now() || net_any_cut()) {
		return;
	}
	sometimes("a cancellation had time to take effect");
	check_rule("a cancellation is heard");
}

static void check_told_soon(void)
{
	static int64_t cancelled[CHECK_JOBS_MAX], parted[CHECK_JOBS_MAX], waiting[CHECK_JOBS_MAX];

	check_soon("a cancellation is told", cancelled);
	check_soon("a gang stops with the rank that it has lost", parted);
	check_soon("an elastic gang keeps no machine waiting beyond its bound", waiting);
}

/* ---- jobs that may run for so long ----------------------------------------------------------- */

/* All attempts of its first rank together; the programs tell when each began. */
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

/* A job whose time is over is told to stop, and goes on nowhere. A daemon with a wrong clock may
 * notice it later. */
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
			check_job_soon("a job whose time is over is told to stop", job, state, open,
			    runs_on);
		}
		if (str_same(state, "QUEUED") && !cell_true(r, i, 7)) {
			check_job_soon("a job whose time is over fails", job, state, queued,
			    begins);
		}
	}
	check_soon_end(open, runs_on);
	check_soon_end(queued, begins);
	PQclear(r);
}

/* An agent ends its attempt by that attempt's own time, and needs nobody for it. */
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
	check_rule("a job whose time is over does not begin");
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

/* The row agrees with the API's answer to the user. */
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
	check_rule("a job that is over runs nowhere");
}

void check_work(void)
{
	check_gangs();
	check_over_runs();
	check_numbers();
	check_bursts();
	check_cancelled();
	check_told_soon();
	if (work_timed()) {
		check_timed();
	}
	check_budget();
}

/* ---- at the end ------------------------------------------------------------------------------ */

/* Each request of a user, or of one part of the system to another, gets its answer. */
static void check_requests(void)
{
	check_rule("every accepted request is over in the end");
}

static void check_fleets_closed(void)
{
	check_rule("a fleet that was closed ends at zero");
}

/* The API accepted the deadline as feasible, and nothing went wrong. With Azure and without Google
 * Cloud nobody has an L4 (aws_short). */
static void check_deadlines(void)
{
	bool no_l4 = cloud_is_here("azure") && !cloud_is_here("gcp");

	if (!check_no_faults()) {
		return;
	}
	check_rule(no_l4 ? "a deadline that can be met is met / where nobody has an L4"
			 : "a deadline that can be met is met");
}

static void state_note(const char *name, const char *sql)
{
	if (check_value(sql) > 0) {
		sometimes(name);
	}
}

void check_work_seen(void)
{
	check_budget_seen();
	state_note("a gang succeeded",
	    "SELECT count(*) FROM job WHERE num_nodes > 1 AND state = 'SUCCEEDED'");
	state_note("a gang got another machine for a lost rank",
	    "SELECT count(*) FROM gang WHERE waits_won > 0");
	state_note("a gang waited for another machine in vain",
	    "SELECT count(*) FROM gang WHERE waits_lost > 0");
	state_note("a gang began again elsewhere",
	    "SELECT count(*) FROM job WHERE num_nodes > 1 AND epoch > 1");
	state_note("a gang went on from a whole checkpoint",
	    "SELECT count(*) FROM attempt a JOIN job j ON j.id = a.job_id "
	    "WHERE j.num_nodes > 1 AND a.steps_start > 0");
	state_note("a gang went on from what one rank had saved for all",
	    "SELECT count(*) FROM attempt a JOIN checkpoint c ON c.id = a.restore_id "
	    "WHERE a.rank > 0 AND c.steps > 0 AND c.bytes = 0");
	state_note("a job with a deadline succeeded",
	    "SELECT count(*) FROM job WHERE deadline_us IS NOT NULL AND state = 'SUCCEEDED'");
	state_note("a job was late", "SELECT count(*) FROM job WHERE deadline_us < ended_us");
	state_note("a job left for one of higher priority",
	    "SELECT count(*) FROM decision WHERE kind = 'preempted'");
	state_note("a fleet was closed", "SELECT count(*) FROM fleet WHERE state = 'CLOSED'");
	state_note("a node of a fleet moved",
	    "SELECT count(*) FROM node WHERE fleet_id IS NOT NULL AND replaces_id IS NOT NULL AND "
	    "ready_us IS NOT NULL");
	state_note("a job ran on a fleet",
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id WHERE n.fleet_id IS "
	    "NOT NULL");
	state_note("a job went to on-demand since there was no spot",
	    "SELECT count(*) FROM decision WHERE kind = 'failover'");
	state_note("a job ran at Google Cloud",
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = "
	    "n.pool_id "
	    "WHERE p.provider = 'gcp' AND a.started_us IS NOT NULL");
	state_note("a job ran at Azure",
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = "
	    "n.pool_id "
	    "WHERE p.provider = 'azure' AND a.started_us IS NOT NULL");
	state_note("a job ran at CoreWeave",
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = "
	    "n.pool_id "
	    "WHERE p.provider = 'coreweave' AND a.started_us IS NOT NULL");
	state_note("a gang ran at CoreWeave",
	    "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = "
	    "n.pool_id "
	    "WHERE p.provider = 'coreweave' AND a.rank = 1 AND a.started_us IS NOT NULL");
	state_note("a gang of Google Cloud came by one call",
	    "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id "
	    "WHERE p.provider = 'gcp' AND n.gang_call AND n.launched_us IS NOT NULL");
	state_note("a set of machines came by one call",
	    "SELECT count(*) FROM node WHERE set_id = id AND launched_us IS NOT NULL");
	state_note("a job came back to spot",
	    "SELECT count(*) FROM decision WHERE kind = 'return'");
	state_note("a job was moved since it paid",
	    "SELECT count(*) FROM decision WHERE kind = 'rebalance' AND job_id IS NOT NULL");
}

/* A job runs only where its file allows: its market, its GPU, its fleet or none. It does not begin
 * on a machine that is known to be reclaimed. */
static void check_places(void)
{
	check_rule("a job runs where it may");
	check_rule("no job begins on a machine that is being taken");
	check_rule("a job begins on machines that are ready");
	check_rule("a preempted job is less urgent");
}

/* A job that was cancelled or is over begins nothing and wants no machines. The clocks of API and
 * engine may differ. */
static void check_over(void)
{
	check_rule("a job that is over does not begin");
	check_rule("no machine is wanted for a job that is over");
	check_rule("a job that finished does not run again");
}

/* As often as its file allows. */
static void check_restarts(void)
{
	check_rule("a job is restarted as often as it may be");
	check_rule("each restart is counted");
	if (check_value("SELECT count(*) FROM job WHERE restarts > 0") > 0) {
		sometimes("a job that failed was restarted");
	}
	check_rule("a job fails when it may be restarted no more");
}

/* Launch before leave: the target of a move is ready, of a gang all machines. */
static void check_moves(void)
{
	check_rule("a job moves to machines that are ready");
}

/* A pool that refused cools down for a minute at least, as long as nothing else was launched there.
 * Another job's pass may have read the market just before the refusal, and then waited for a
 * database that takes 8 s a reply. The pool's own job is placed again from rows read after it. */
static void check_rests(void)
{
	if (world.skew_max != 0 || world.stood) {
		return;
	}
	check_rule("a pool that refused rests");
	check_rule("no pool rests longer than the longest rest");
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
	check_rule("a job fails for a reason of its own");
	check_rule("no submit is half done");
}

static void check_leaks(void)
{
	check_rule("an orphan is ended after its grace");
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
	check_fleets_closed();
	check_deadlines();
}
