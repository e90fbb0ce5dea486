/*
 * Each rule of the checks is broken on purpose, by what a wrong row or a wrong fact would look like, in a
 * transaction that is rolled back: a rule that stays silent checks nothing. Not every seed has what a break
 * needs (an attempt that went on from a checkpoint, say); test_sim.py wants each rule proven in some seed.
 */
#include "world.h"
#include "check.h"
#include "cloud.h"
#include "host.h"
#include "leaders.h"
#include "store.h"
#include "work.h"

static void rows(const char *sql)
{
	PGresult *r = PQexec(store_conn(), sql);

	if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
		fprintf(stderr, "sim: break: %s: %s", sql, PQresultErrorMessage(r));
		abort();
	}
	PQclear(r);
}

/* ---- facts ------------------------------------------------------------------------------------- */

static struct host_progress *programs(size_t *n)
{
	const struct host_progress *p;

	*n = host_programs(&p);
	return (struct host_progress *)(uintptr_t)p;
}

static void instance_lives(void)
{
	if (cloud_raise(true)) {
		check_rules_end();
		(void)cloud_raise(false);
	}
}

static void later(void)
{
	check_rules_end();
	clock_manual_advance(&world.clock, 4 * SPOT_US_PER_HOUR);
	check_rules_end();
}

static void lives_on(void)
{
	if (cloud_raise(true)) {
		later();
		(void)cloud_raise(false);
	}
}

static void epoch_twice(void)
{
	size_t n;
	struct host_progress *p = programs(&n);

	for (size_t i = 1; i < n; i++) {
		struct host_progress had = p[i];

		memcpy(p[i].job, p[0].job, sizeof(p[i].job));
		p[i].epoch = p[0].epoch;
		check_rules_end();
		p[i] = had;
	}
}

static void begun_anew(void)
{
	size_t n;
	struct host_progress *p = programs(&n);

	for (size_t i = 0; i < n; i++) {
		int64_t had = p[i].begun_at;

		p[i].begun_at = 0;
		check_progress_again();
		check_rules_end();
		p[i].begun_at = had;
	}
}

static void user_unheard(void)
{
	work_forget(true);
	check_rules_end();
	work_forget(false);
}

static void launch_unclaimed(void)
{
	check_sent("http://ec2", str_from("Action=RunInstances&ClientToken=whose"));
}

static void launch_late(void)
{
	leaders_break(false);
}

static void write_late(void)
{
	leaders_break(true);
}

/* ---- the rules --------------------------------------------------------------------------------- */

static const struct rule_break {
	const char *rule, *sql;
	void (*act)(void); /* NULL: the rows are looked at */
} breaks[] = {
    {"no instance without a row", "UPDATE node SET token = 'x' || id, name = 'x' || id", NULL},
    {"a row ends after its instance",
	"UPDATE node SET ended_us = (launched_us + ended_us) / 2 WHERE launched_us IS NOT NULL", NULL},
    {"no instance is left behind", "", lives_on},
    {"no row is ready without an instance", "UPDATE node SET state = 'READY'", later},
    {"in the end no instance is left", "", instance_lives},
    {"a launch leaves after its row was claimed", "UPDATE node SET token = 'whose', launch_sent_us = NULL "
	"WHERE id = (SELECT min(id) FROM node)", launch_unclaimed},
    {"a launch is sent by whoever holds its claim", "UPDATE node SET token = 'whose', state = 'LAUNCHING', claimed_by = 'e0' "
	"WHERE id = (SELECT min(id) FROM node)", launch_late},
    {"a daemon that leads no longer changes nothing", "UPDATE job SET why = 'late'", write_late},
    {"one epoch runs on one machine", "", epoch_twice},
    {"only the newest epoch of a job is live",
	"UPDATE attempt SET ended_us = NULL FROM job WHERE job.id = job_id AND attempt.epoch = 1 AND job.epoch > 1 AND rank = 0", NULL},
    {"what an epoch ended as stays", "UPDATE attempt SET exit_code = 99", NULL},
    {"progress never goes back behind a committed checkpoint", "", begun_anew},
    {"an epoch that is over commits nothing", "UPDATE checkpoint SET committed_us = committed_us + 3600000000", NULL},
    {"every committed checkpoint can be restored", "UPDATE checkpoint_chunk SET object_key = 'x'", NULL},
    {"no interval is billed twice", "UPDATE ledger SET from_us = from_us - 1000000", NULL},
    {"an amount is its interval times its price", "UPDATE ledger SET amount_micros = amount_micros + 5", NULL},
    {"what is billed lies within the machine's life", "UPDATE ledger SET to_us = to_us + 3600000000", NULL},
    {"every machine's life is billed whole", "UPDATE ledger SET to_us = to_us - 1", NULL},
    {"no healthy machine is given up",
	"UPDATE attempt SET exit_reason = 'lost', ended_us = started_us + 1 WHERE started_us IS NOT NULL", NULL},
    {"a healthy job is never recovered", "UPDATE job SET epoch = epoch + 1", NULL},
    {"a cancelled job does not go on",
	"UPDATE job SET cancel_us = ended_us - 700000000, state = 'SUCCEEDED'", NULL},
    {"a job that succeeded did all its steps", "UPDATE job SET steps_done = steps_total - 1 WHERE steps_total > 0", NULL},
    {"a gang begins whole", "DELETE FROM attempt WHERE rank = 1", NULL},
    {"the ranks of a gang are in one place", "UPDATE node SET pool_id = (SELECT min(id) FROM pool) + id", NULL},
    {"a machine has one rank of one job", "DROP INDEX attempt_one_live; DROP INDEX attempt_one_per_node; UPDATE attempt SET ended_us = NULL, node_id = 1", NULL},
    {"a fleet that was closed ends at zero", "UPDATE fleet SET state = 'ACTIVE'", NULL},
    {"a deadline that can be met is met", "UPDATE job SET deadline_us = started_us", NULL},
    {"every accepted job reaches an end", "UPDATE job SET state = 'RUNNING'", NULL},
    {"every node reaches an end", "UPDATE node SET state = 'UNKNOWN'", NULL},
    {"every user is heard", "", user_unheard},
    {"a user's request is understood", "", work_mishear},
};

void breaks_all(void)
{
	for (size_t i = 0; i < ARRAY_LEN(breaks); i++) {
		const struct rule_break *b = &breaks[i];
		int64_t lines = world.lines;

		world.proving = b->rule;
		world.proven = false;
		check_rules_end();
		assert(!world.proven); /* whole before it is broken */
		/* Triggers and foreign keys are off: a wrong row is wanted. */
		rows("BEGIN; SET LOCAL session_replication_role = replica");
		if (b->sql[0] != '\0')
			rows(b->sql);
		if (b->act != NULL)
			b->act();
		else
			check_rules_end();
		rows("ROLLBACK");
		if (world.proven)
			proven(b->rule);
		world.lines = lines;
	}
	world.proving = NULL;
}
