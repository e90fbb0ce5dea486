/*
 * Breaks each rule of the checks on purpose: a wrong row or fact, in a transaction that is rolled
 * back. A rule that stays silent checks nothing. Not every seed has the rows for each break, such
 * as an attempt that resumed. test_sim.py requires that some seed proves each rule.
 */
#include "sim/world/world.h"
#include "sim/check/breaks.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/host/host.h"
#include "sim/broker/broker.h"
#include "sim/broker/fence.h"
#include "sim/broker/leaders.h"
#include "sim/store/refuse.h"
#include "sim/world/spin.h"
#include "sim/store/sim_store.h"
#include "sim/store/twice.h"
#include "sim/users/work.h"

static void rows_change(const char *sql)
{
	PGresult *r = PQexec(store_conn(), sql);

	if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
		fprintf(stderr, "sim: break: %s: %s", sql, PQresultErrorMessage(r));
		abort();
	}
	PQclear(r);
}

static void spin_break(void)
{
	spin_raise(true);
	check_rules_end();
	spin_raise(false);
}

static void statement_fails(void)
{
	PGresult *r = PQexec(store_conn(), "SELECT 1 / 0");

	(void)store_took(r, "none");
	PQclear(r);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static void instance_lives(void)
{
	if (cloud_raise(true)) {
		check_rules_end();
		(void)cloud_raise(false);
	}
}

static void order_stands(void)
{
	cloud_orders_raise(true);
	check_rules_end();
	cloud_orders_raise(false);
}

static void left_there(void)
{
	cloud_leave(true);
	check_rules_end();
	cloud_leave(false);
}

static void hours_pass(void)
{
	check_rules_end();
	clock_manual_advance(&world.clock, 4 * SPOT_US_PER_HOUR);
	check_rules_end();
}

static void launched_twice(void)
{
	cloud_launch_doubles(true);
	check_rules_end();
	cloud_launch_doubles(false);
}

static void lives_on(void)
{
	if (cloud_raise(true)) {
		hours_pass();
		(void)cloud_raise(false);
	}
}

static void notice_unheeded(void)
{
	cloud_unheeded("j1", "i-1");
}

static void other_ended(void)
{
	cloud_end_other(true);
	check_rules_end();
	cloud_end_other(false);
}

static void nobodys_lives(void)
{
	others_lose(true);
	check_rules_end();
	others_lose(false);
}

static void all_young(void)
{
	cloud_seem_young(true);
	check_rules_end();
	cloud_seem_young(false);
}

static void user_unheard(void)
{
	work_forget(true);
	check_rules_end();
	work_forget(false);
}

static void launch_unclaimed(void)
{
	check_sent("x", "http://ec2", str_from("Action=RunInstances&ClientToken=whose"));
}

static void launch_again(void)
{
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(all[i].cloud, "lambda") == 0 && all[i].token != NULL) {
			check_sent("x", "http://lambda/instance-operations/launch",
			    str_from(all[i].token));
		}
	}
	free(all);
}

static void launch_hurried(void)
{
	for (int i = 0; i < 2; i++) {
		check_sent("y", "http://lambda/instance-operations/launch", str_from("{}"));
	}
}

static void launch_late(void)
{
	fence_break(false);
}

static void write_late(void)
{
	fence_break(true);
}

/* As if nothing had gone wrong. */
static void harm_forget(void)
{
	int64_t harm = world.harm_until, taken = world.taken_until;
	bool stood = world.stood;

	world.harm_until = world.taken_until = 0;
	world.stood = false;
	hours_pass();
	world.harm_until = harm;
	world.taken_until = taken;
	world.stood = stood;
}

static void each_minute(void)
{
	check_budget();
}

/* ---- the rules ------------------------------------------------------------------------------- */

static const struct rule_break breaks[] = {
	{ "no instance without a row", "UPDATE node SET token = 'x' || id, name = 'x' || id",
	    NULL },
	{ "a row ends after its instance",
	    "UPDATE node SET ended_us = (launched_us + ended_us) / 2 WHERE launched_us IS NOT NULL",
	    NULL },
	{ "a life is its machine's, whatever a clock said",
	    "UPDATE node SET ended_us = ended_us + 3600000000, launched_us = launched_us + "
	    "3600000000",
	    NULL },
	{ "a row begins with its instance", "UPDATE node SET launched_us = launched_us + 60000000",
	    NULL },
	{ "no instance is left behind", "", lives_on },
	{ "no row is ready without an instance", "UPDATE node SET state = 'READY', gang_id = NULL",
	    hours_pass },
	{ "in the end no instance is left", "", instance_lives },
	{ "in the end no order is left", "", order_stands },
	{ "in the end nothing is left at the clouds", "", left_there },
	{ "the doctor finds nothing", "UPDATE ledger SET amount_micros = amount_micros + 1", NULL },
	{ "a launch leaves after its row was claimed",
	    "UPDATE node SET token = 'whose', launch_sent_us = NULL "
	    "WHERE id = (SELECT min(id) FROM node)",
	    launch_unclaimed },
	{ "a launch without a token is not sent again", "", launch_again },
	{ "a launch is sent by whoever holds its claim",
	    "UPDATE node SET token = 'whose', state = 'LAUNCHING', claimed_by = 'e0' "
	    "WHERE id = (SELECT min(id) FROM node)",
	    launch_late },
	{ "a daemon that leads no longer changes nothing", "UPDATE job SET why = 'late'",
	    write_late },
	{ "each lease holder has an epoch of its own", "", leaders_break_lease },
	{ "a lease that is kept is not taken", "", leaders_break_lease },
	{ "one epoch runs on one machine", "", epoch_twice },
	{ "an epoch runs once", "", begun_twice },
	{ "only the newest epoch of a job is live",
	    "UPDATE attempt SET ended_us = NULL FROM job WHERE job.id = job_id AND attempt.epoch = "
	    "1 AND job.epoch > 1 AND rank = 0",
	    NULL },
	{ "the end of an epoch stays", "UPDATE attempt SET exit_code = 99", NULL },
	{ "progress never goes back behind a committed checkpoint", "", begun_anew },
	{ "an epoch that is over commits nothing",
	    "UPDATE checkpoint SET committed_us = committed_us + 3600000000", NULL },
	{ "every committed checkpoint can be restored",
	    "UPDATE checkpoint_chunk SET object_key = 'x'", NULL },
	{ "an abandoned checkpoint is deleted", "UPDATE checkpoint SET state = 'ABANDONED'", NULL },
	{ "each rank goes on from its own checkpoint", "UPDATE checkpoint SET rank = rank + 1",
	    NULL },
	{ "a checkpoint has all that its program saved",
	    "INSERT INTO checkpoint_chunk SELECT checkpoint_id, path || 'x', seq, bytes, mode, "
	    "sha256, object_key, false "
	    "FROM checkpoint_chunk",
	    NULL },
	{ "no interval is billed twice", "UPDATE ledger SET from_us = from_us - 1000000", NULL },
	{ "an amount is its interval times its price",
	    "UPDATE ledger SET amount_micros = amount_micros + 5", NULL },
	{ "bills lie within the machine's life", "UPDATE ledger SET to_us = to_us + 3600000000",
	    NULL },
	{ "every machine's life is billed whole", "UPDATE ledger SET to_us = to_us - 1", NULL },
	{ "no healthy machine is given up",
	    "UPDATE attempt SET exit_reason = 'lost', ended_us = started_us + 1 WHERE started_us "
	    "IS NOT NULL",
	    NULL },
	{ "a healthy job is never recovered", "UPDATE job SET epoch = epoch + 1", NULL },
	{ "a cancelled job does not go on",
	    "UPDATE job SET cancel_us = ended_us - 700000000, state = 'SUCCEEDED'", NULL },
	{ "a job that succeeded did all its steps",
	    "UPDATE job SET steps_done = steps_total - 1 WHERE steps_total > 0", NULL },
	{ "a job that succeeded ended well on all ranks", "UPDATE attempt SET exit_reason = 'lost'",
	    NULL },
	{ "a succeeded job's result is stored", "DELETE FROM checkpoint", NULL },
	{ "a gang begins whole", "DELETE FROM attempt WHERE rank = 1", NULL },
	{ "the ranks of a gang are in one place",
	    "UPDATE node SET pool_id = (SELECT min(id) FROM pool) + id", NULL },
	{ "a machine has one rank of one job",
	    "DROP INDEX attempt_one_live; DROP INDEX attempt_one_per_node; UPDATE attempt SET "
	    "ended_us = NULL, node_id = 1",
	    NULL },
	{ "a burst asks for saves on siblings",
	    "WITH b AS (INSERT INTO burst (provider, region, family, began_us, last_us) VALUES "
	    "('', '', '', 1, 1) RETURNING id) INSERT INTO burst_save SELECT b.id, job_id, epoch, "
	    "node_id, 1, 1 FROM b, attempt WHERE rank = 0",
	    NULL },
	{ "a burst asks a job once", "UPDATE event SET event = 'SAVE_ASKED'", NULL },
	{ "a fleet that was closed ends at zero", "UPDATE fleet SET state = 'ACTIVE'", NULL },
	{ "a deadline that can be met is met", "UPDATE job SET deadline_us = started_us", NULL },
	{ "every accepted job reaches an end", "UPDATE job SET state = 'RUNNING'", NULL },
	{ "every accepted request is over in the end",
	    "UPDATE decision SET outcome = '{\"state\":\"pending\"}'", NULL },
	{ "every node reaches an end",
	    "UPDATE node SET state = 'UNKNOWN' WHERE id IN (SELECT max(id) FROM node GROUP BY "
	    "coalesce(gang_id, -id), gang_rank)",
	    NULL },
	{ "a price is the pool's", "UPDATE ledger SET price_micros = price_micros + 1", NULL },
	{ "a price is the newest",
	    "INSERT INTO price_point SELECT pool_id, greatest(max(price_observed_us), "
	    "min(from_us)) + 1, 1, 7, 'x' FROM ledger GROUP BY 1",
	    NULL },
	{ "a machine costs what its cloud bills",
	    "UPDATE ledger SET price_micros = price_micros * 1000", NULL },
	{ "a launch makes its machines once", "", launched_twice },
	{ "a line is of what the machine did",
	    "UPDATE ledger SET kind = CASE kind WHEN 'boot' THEN 'idle' ELSE 'boot' END", NULL },
	{ "a line is the team's", "UPDATE ledger SET team = 'x'", NULL },
	{ "unbilled time is credited", "UPDATE ledger SET kind = 'compute'", hours_pass },
	{ "a reversal takes one line back",
	    "UPDATE ledger SET amount_micros = amount_micros - 5 WHERE reverses IS NOT NULL",
	    NULL },
	{ "lost work is billed as well",
	    "UPDATE ledger SET to_us = to_us + 1000000 WHERE kind = 'lost_work'", NULL },
	{ "lost work is booked as lost",
	    "DELETE FROM checkpoint; UPDATE attempt SET exit_reason = 'lost', started_us = 1",
	    hours_pass },
	{ "work is lost from the last checkpoint on",
	    "UPDATE ledger SET kind = 'lost_work', from_us = 0", NULL },
	{ "billed time is not credited", "UPDATE ledger SET kind = 'credit'", NULL },
	{ "a program finds its own checkpoint", "", alien_found },
	{ "a notice is heeded", "", notice_unheeded },
	{ "a notice is the machine's",
	    "INSERT INTO notice (node_id, kind, deadline_us, source, heard_us) SELECT id, "
	    "'interruption', 0, 'x', 0 FROM node "
	    "ON CONFLICT DO NOTHING; UPDATE node SET token = 'x' || id, name = 'x' || id, ref = "
	    "'x' || id",
	    NULL },
	{ "other people's machines are left alone", "", other_ended },
	{ "machines unknown to a restored backup are kept", "", other_ended },
	{ "a machine recommended for rebalance stays",
	    "INSERT INTO event (at_us, entity, entity_id, node_id, event, was, now, why, actor) "
	    "SELECT 1, 'node', 'n' || id, id, 'NOTICE', "
	    "'READY', 'DRAINING', '', 'x' FROM node; DELETE FROM notice",
	    NULL },
	{ "an agent that hears nobody leaves", "", host_unanswered },
	{ "an attempt begins once", "UPDATE attempt SET started_us = started_us + 1000000", NULL },
	{ "a machine has its time to boot",
	    "UPDATE node SET state = 'TERMINATING'; UPDATE event SET event = 'BOOT_TIMEOUT'",
	    all_young },
	{ "an orphan is ended in the end", "", nobodys_lives },
	{ "a job is sought one machine at a time",
	    "UPDATE node SET state = 'WANTED', gang_id = NULL, job_id = 1, end_cause = ''", NULL },
	{ "a fleet gives back no machine with work", BREAK_RELEASED, NULL },
	{ "a machine without work is given back",
	    "UPDATE node SET state = 'READY', gang_id = NULL, fleet_id = NULL", hours_pass },
	{ "a cancellation is heard", "UPDATE job SET cancel_us = 1, state = 'RUNNING'",
	    hours_pass },
	{ "a cancellation is told", "UPDATE job SET cancel_us = 1, state = 'RUNNING'", hours_pass },
	{ "nothing is wanted that a budget does not pay for",
	    "UPDATE job SET budget_micros = 1; UPDATE node SET created_us = 9000000000000000",
	    each_minute },
	{ "a job that used up its budget is told to stop",
	    "DROP INDEX attempt_one_live; DROP INDEX attempt_one_per_node; UPDATE job SET "
	    "budget_micros = 1, state = 'RUNNING'; "
	    "UPDATE attempt SET ended_us = NULL, desired = 'run'",
	    hours_pass },
	{ "a parked job keeps no machine",
	    "DROP INDEX node_gang; UPDATE job SET state = 'PARKED'; UPDATE node SET state = "
	    "'READY', end_cause = ''",
	    hours_pass },
	{ "nobody is parked who could begin",
	    "UPDATE job SET state = 'PARKED', budget_micros = 900000000000", hours_pass },
	{ "a budget is kept",
	    "UPDATE job SET budget_micros = 1; UPDATE event SET event = 'BUDGET', now = "
	    "'DRAINING', at_us = (SELECT max(at_us) FROM event) WHERE entity = 'job'",
	    harm_forget },
	{ "a job whose time is over is told to stop",
	    "DROP INDEX attempt_one_live; DROP INDEX attempt_one_per_node; "
	    "UPDATE job SET spec = jsonb_set(spec, '{max_duration_s}', '1'); UPDATE attempt SET "
	    "ended_us = NULL, desired = 'run'",
	    hours_pass },
	{ "a job whose time is over fails",
	    "UPDATE job SET spec = jsonb_set(spec, '{max_duration_s}', '1'), state = 'QUEUED'",
	    hours_pass },
	{ "a job whose time is over does not begin",
	    "UPDATE job SET spec = jsonb_set(spec, '{max_duration_s}', '1'); UPDATE attempt SET "
	    "started_us = 1, "
	    "ended_us = 9000000000000000; INSERT INTO attempt (job_id, epoch, node_id, pool_id, "
	    "market, desired, phase, created_us, started_us, ended_us, settled) "
	    "SELECT job_id, epoch + 100, node_id, pool_id, market, 'drain', 'EXITED', 1, 1, 2, "
	    "true FROM attempt WHERE rank = 0",
	    NULL },
	{ "no attempt runs longer than its job may",
	    "UPDATE job SET spec = jsonb_set(spec, '{max_duration_s}', '1')", began_long_ago },
	{ "a job's time is over when it ran so long",
	    "UPDATE job SET state = 'FAILED', fleet_id = NULL, "
	    "spec = jsonb_set(jsonb_set(spec, '{run}', '\"\"'), '{max_duration_s}', '99999999')",
	    NULL },
	{ "a cancellation that was accepted is kept", "UPDATE job SET cancel_us = NULL", NULL },
	{ "a gang stops with the rank that it has lost",
	    "DROP INDEX attempt_one_live; DROP INDEX attempt_one_per_node; UPDATE attempt SET "
	    "desired = 'run', "
	    "ended_us = CASE WHEN rank = 0 THEN ended_us END, exit_reason = CASE WHEN rank = 0 "
	    "THEN 'lost' ELSE '' END",
	    hours_pass },
	{ "an elastic gang keeps no machine waiting beyond its bound",
	    "UPDATE gang SET state = 'SERVING', wait_us = 1, wait_until_us = 2, wait_over = false "
	    "WHERE id = (SELECT max(id) FROM gang); UPDATE node SET state = 'BOOTING' WHERE id IN "
	    "(SELECT max(id) FROM node GROUP BY coalesce(gang_id, -id), gang_rank)",
	    hours_pass },
	{ "a gang waits for one machine at a time",
	    "DROP INDEX gang_one_serves; INSERT INTO gang (job_id, pool_id, place, want, state, "
	    "created_us, wait_us) SELECT j.id, p.id, 'x', 2, unnest(ARRAY['SERVING', "
	    "'ACQUIRING']), 1, 1 FROM (SELECT max(id) AS id FROM job) j, (SELECT max(id) AS id "
	    "FROM pool) p",
	    NULL },
	{ "a job leaves a machine that is about to end",
	    "INSERT INTO notice (node_id, kind, deadline_us, source, heard_us) SELECT id, "
	    "'maintenance', 0, 'x', 0 FROM node "
	    "ON CONFLICT DO NOTHING; UPDATE node SET state = 'READY', gang_id = NULL",
	    hours_pass },
	{ "a deadline is the cloud's",
	    "INSERT INTO notice (node_id, kind, deadline_us, source, heard_us) SELECT id, "
	    "'interruption', 9000000000000000, 'x', 0 FROM node "
	    "ON CONFLICT (node_id, kind) DO UPDATE SET deadline_us = 9000000000000000",
	    NULL },
	{ "a job begins on machines that are ready", "UPDATE node SET ready_us = NULL", NULL },
	{ "a repeated statement changes nothing", "", twice_break },
	{ "a refused statement is not repeated at once", "", refuse_break },
	{ "a job that is over does not begin", "UPDATE job SET ended_us = 1", NULL },
	{ "a job that is over runs nowhere",
	    "DROP INDEX attempt_one_live; DROP INDEX attempt_one_per_node; UPDATE attempt SET "
	    "ended_us = NULL",
	    NULL },
	{ "a job that finished does not run again",
	    "UPDATE attempt SET exit_reason = 'ok'; UPDATE job SET epoch = epoch + 1", NULL },
	{ "a job is restarted as often as it may be", "UPDATE job SET restarts = 99", NULL },
	{ "each restart is counted", "UPDATE job SET restarts = restarts + 1", NULL },
	{ "a job fails when it may be restarted no more",
	    "UPDATE job SET state = 'FAILED', reason = 'error', restarts = 0, spec = "
	    "jsonb_set(spec, '{max_restarts}', '1')",
	    NULL },
	{ "no machine is wanted for a job that is over",
	    "UPDATE job SET cancel_us = 1; UPDATE node SET job_id = (SELECT min(id) FROM job)",
	    NULL },
	{ "a job moves to machines that are ready",
	    "INSERT INTO event (at_us, entity, entity_id, job_id, event, why, actor) SELECT 1, "
	    "'job', 'j' || j.id, j.id, 'MOVE', "
	    "'moves from n0 to n' || n.id || ', which is ready', 'x' FROM job j, node n",
	    NULL },
	{ "a pool that refused rests",
	    "UPDATE node SET state = 'FAILED', end_cause = 'refused', pool_id = 1, ended_us = "
	    "created_us - 40000000, gang_id = NULL; DELETE FROM event",
	    NULL },
	{ "no pool rests longer than the longest rest",
	    "INSERT INTO pool_cool (pool_id, until_us, refusals, rc, why, at_us) SELECT min(id), "
	    "921000000, 1, 'x', '', 0 FROM pool "
	    "ON CONFLICT (pool_id) DO UPDATE SET until_us = pool_cool.at_us + 921000000",
	    NULL },
	{ "a job runs where it may", "UPDATE job SET spec = jsonb_set(spec, '{asks}', '[]')",
	    NULL },
	{ "no job begins on a machine that is being taken",
	    "INSERT INTO notice (node_id, kind, deadline_us, source, heard_us) SELECT DISTINCT "
	    "node_id, "
	    "'interruption', 0, 'x', 0 FROM attempt ON CONFLICT (node_id, kind) DO UPDATE SET "
	    "heard_us = 0",
	    NULL },
	{ "a preempted job is less urgent",
	    "INSERT INTO decision (at_us, kind, job_id, inputs, outcome, why) SELECT 1, "
	    "'preempted', id, '{}', "
	    "jsonb_build_object('for_job', id), '' FROM job",
	    NULL },
	{ "a request that is repeated is served once",
	    "DELETE FROM job WHERE id = (SELECT max(id) FROM job)", NULL },
	{ "no submit is half done", "DELETE FROM event WHERE event = 'SUBMITTED'", NULL },
	{ "a job fails for a reason of its own",
	    "UPDATE job SET state = 'FAILED', fleet_id = NULL, spec = jsonb_set(spec, '{run}', "
	    "'\"\"')",
	    NULL },
	{ "an orphan is ended after its grace",
	    "INSERT INTO orphan (provider, region, ref, kind, first_us, last_us, why, "
	    "terminate_us) "
	    "VALUES ('aws', 'x', 'i-1', 'instance', 100, 100, '', 100)",
	    NULL },
	{ "a cloud is not asked more often than it allows", "", launch_hurried },
	{ "a machine that its cloud has is not called gone",
	    "INSERT INTO verdict (at_us, node_id, kind, why, seen, step) SELECT 1, id, 'lost', '', "
	    "'{}', 0 FROM node",
	    NULL },
	{ "a machine that lists have is not called absent",
	    "UPDATE node SET gone_seen = 1, gang_id = NULL, state = 'READY'", instance_lives },
	{ "a machine with a row is no orphan",
	    "INSERT INTO event (at_us, entity, entity_id, event, why, actor) SELECT 1, 'instance', "
	    "p.provider || '/' || n.ref, "
	    "'ORPHAN', '', 'x' FROM node n JOIN pool p ON p.id = n.pool_id WHERE n.ref IS NOT NULL",
	    NULL },
	{ "a deadline that was told is not put off",
	    "UPDATE notice SET deadline_us = deadline_us + 1000", NULL },
	{ "a reclaimed machine is left to its cloud",
	    "UPDATE node SET drain_deadline_us = 9000000000000000; INSERT INTO notice (node_id, "
	    "kind, deadline_us, source, heard_us) "
	    "SELECT id, 'interruption', 0, 'x', 0 FROM node ON CONFLICT (node_id, kind) DO UPDATE "
	    "SET heard_us = 0; INSERT INTO event (at_us, entity, entity_id, node_id, "
	    "was, now, event, why, actor) SELECT 1, 'node', 'n' || id, id, 'DRAINING', "
	    "'TERMINATING', 'RELEASE', '', 'x' FROM node",
	    NULL },
	{ "a job that moves has saved",
	    "UPDATE job SET cancel_us = NULL; UPDATE attempt SET settled = true, exit_reason = "
	    "'drained', started_us = 1; "
	    "INSERT INTO event (at_us, entity, entity_id, job_id, epoch, event, why, actor) SELECT "
	    "9000000000000000, 'job', 'j' || job_id, job_id, epoch, 'MOVE', '', 'x' "
	    "FROM attempt",
	    NULL },
	{ "a log is what its program wrote", "UPDATE job_log SET at_offset = 1", NULL },
	{ "a price is the cloud's", "UPDATE ledger SET price_micros = price_micros + 3", NULL },
	{ "a machine is given back after what ran there is settled",
	    "INSERT INTO event (at_us, entity, entity_id, job_id, epoch, event, why, actor) "
	    "SELECT 1, 'job', 'j' || job_id, job_id, epoch, 'STOPPED', '', 'x' FROM attempt",
	    NULL },
	{ "a rank is sought again while the others are held",
	    "UPDATE gang SET token = NULL, state = 'RELEASED', why = 'came within the hold', "
	    "ended_us = 900000000; "
	    "UPDATE node SET launched_us = 1, ended_us = CASE WHEN gang_rank = 0 THEN "
	    "-9000000000000000 ELSE 900000000 END WHERE gang_id IS NOT NULL",
	    NULL },
	{ "a terminate knows when its machine came", "", lag_break },
	{ "a credit takes back all of it",
	    "UPDATE ledger SET amount_micros = amount_micros + 1, kind = 'credit'", NULL },
	{ "no price is of a time to come", "UPDATE pool_latest SET observed_us = 9000000000000000",
	    hours_pass },
	{ "an event that did not happen has no time",
	    "UPDATE node SET ready_us = 1; DELETE FROM event", NULL },
	{ "the database takes every statement", "", statement_fails },
	{ SPIN_RULE, "", spin_break },
	{ "the kept market equals the rows", "", brokers_market_break },
	{ "every user is heard", "", user_unheard },
	{ "a user's request is understood", "", work_mishear },
};

static void rule_prove(const struct rule_break *b)
{
	int64_t lines = world.lines;

	world.proving = b->rule;
	world.proven = false;
	check_rules_end();
	assert(!world.proven); /* whole before it is broken */
	/* Triggers and keys are off: a wrong row is wanted. */
	rows_change("BEGIN; SET LOCAL session_replication_role = replica; "
		    "DROP INDEX IF EXISTS node_fleet_replacement, node_replacement");
	if (b->sql[0] != '\0') {
		rows_change(b->sql);
	}
	if (b->act != NULL) {
		b->act();
	} else {
		check_rules_end();
	}
	rows_change("ROLLBACK");
	if (world.proven) {
		proven(b->rule);
	}
	world.lines = lines;
}

void breaks_all(void)
{
	for (size_t i = 0; i < ARRAY_LEN(breaks); i++) {
		rule_prove(&breaks[i]);
	}
	for (size_t i = 0; i < breaks_fleets_n; i++) {
		rule_prove(&breaks_fleets[i]);
	}
	world.proving = NULL;
}
