/*
 * Rules about budgets. A budget binds before it is exceeded: the engine wants nothing that the
 * budget cannot pay to its end. A job that has used up its budget is told to save, stops, and keeps
 * no machine. No job is parked that could begin. Checked each minute, since all budgets are lifted
 * in the end.
 */
#include "sim/world/world.h"
#include "sim/broker/broker.h"
#include "sim/check/check.h"
#include "sim/broker/leaders.h"
#include "sim/users/work.h"

/* A wanted machine had money for five minutes of work there, a save and its end. Lines that began
 * later do not count against it. */
static void check_wanted(void)
{
	if (world.skew_max != 0) {
		return;
	}
	check_rule("nothing is wanted that a budget does not pay for");
}

/* By the ledger alone, of which the newest minute is missing. */
static void check_budget_told(void)
{
	static int64_t spends[CHECK_JOBS_MAX], keeps[CHECK_JOBS_MAX], rests[CHECK_JOBS_MAX];

	check_soon("a job that used up its budget is told to stop", spends);
	check_soon("a parked job keeps no machine", keeps);
	/* The unbilled cost of a machine is too high by as much as the clock is ahead. Nothing is
	 * billed meanwhile, so the error ends with the clock step. */
	if (!brokers_on_time()) {
		memset(rests, 0, sizeof(rests));
		return;
	}
	check_soon("nobody is parked who could begin", rests);
}

static void check_kept(void)
{
	if (world.skew_max == 0 && !world.stood && check_rule("a budget is kept") > 0) {
		sometimes("it was judged whether a budget was kept");
	}
}

/* A daemon that leads before and after tells the job while most of the reserve is left, whatever
 * clouds and agents do. */
static void check_told_early(void)
{
	int64_t steady = leaders_steady_since();
	if (world.skew_max != 0 || world.stood || steady == 0) {
		return;
	}
	check_rule("a budget is kept / told early");
}

static void state_note(const char *name, const char *sql)
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
	state_note("a running job was told that its budget is used up",
	    "SELECT count(*) FROM event WHERE event = 'BUDGET' AND now = 'DRAINING'");
	state_note("a job was parked", "SELECT count(*) FROM event WHERE now = 'PARKED'");
	state_note("a job was parked before it began",
	    "SELECT count(*) FROM event WHERE now = 'PARKED' AND epoch = 0");
	state_note("a parked job was cancelled",
	    "SELECT count(*) FROM event WHERE was = 'PARKED' AND now = 'CANCELLED'");
	state_note("a gang was parked",
	    "SELECT count(*) FROM event e JOIN job j ON j.id = e.job_id AND j.num_nodes > 1 WHERE "
	    "e.now = 'PARKED'");
	state_note("a job on a fleet was parked",
	    "SELECT count(*) FROM event e JOIN job j ON j.id = e.job_id AND j.fleet_id IS NOT NULL "
	    "WHERE e.now = 'PARKED'");
	state_note("a parked job went on from its checkpoint",
	    "SELECT count(*) FROM attempt a JOIN event e ON e.job_id = a.job_id AND e.now = "
	    "'PARKED' AND a.created_us > e.at_us "
	    "WHERE a.steps_start > 0");
}
