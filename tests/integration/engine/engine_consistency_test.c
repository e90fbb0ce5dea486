/*
 * The invariants of spotctl doctor --consistency (src/store/rules). A world in which a job was
 * drained, lost its node and ended keeps all of them. Each is broken here once, by SQL, and
 * reported in words.
 */
#include "engine_world.h"

#include "store/q.h"

#include <libpq-fe.h>

#define MARGIN_US 60000000
/* A minute before the end of lived; the tests' grace is none, or an hour. */
#define AGO "ago()"
/* A line that has time and counts. */
#define LINE_THAT_COUNTS \
	"SELECT min(l.id) FROM ledger l WHERE l.reverses IS NULL AND l.to_us > l.from_us " \
	"AND NOT EXISTS (SELECT FROM ledger r WHERE r.reverses = l.id)"
#define NODE \
	"INSERT INTO node (pool_id, token, name, price_micros, created_us, launched_us, " \
	"billed_to_us, state_us, ref, state, job_id, " \
	"provider_state, provider_seen_us, terminate_us) SELECT 1, 't-odd', 'n-odd', 5, a, a, a, " \
	"a, "
#define LINE \
	"INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, from_us, " \
	"to_us, price_micros, price_observed_us, " \
	"amount_micros, reverses) SELECT at_us, kind, node_id, pool_id, market, job_id, epoch, "
#define JOB \
	"INSERT INTO job (name, owner, team, project, class, spec, source, created_us, " \
	"queued_us, state_us, state) " \
	"SELECT 'odd', '', '', '', '', '{}', '', a, a, a, "
#define FROM_AGO " FROM (SELECT " AGO " AS a) x"
#define A_LINE " FROM ledger WHERE id = a_line()"
#define REVERSAL LINE "from_us, to_us, price_micros, price_observed_us, -amount_micros, id" A_LINE

struct tested_rule {
	const struct pg_stmt *stmt;
	/* parameters: since when we lead, then times of grace; else since when rows are looked
	 * at */
	bool up_first, timed;
};
static const struct tested_rule machines = { &q_stmt_consistency_machines, false, true },
				vouched = { &q_stmt_consistency_vouched, true, true },
				outlived = { &q_stmt_consistency_outlived, true, true },
				epochs = { &q_stmt_consistency_epochs, false, false },
				checkpoints = { &q_stmt_consistency_checkpoints, false, false },
				progress = { &q_stmt_consistency_progress, false, false },
				ledger_time = { &q_stmt_consistency_ledger_time, false, false },
				ledger_amounts = { &q_stmt_consistency_ledger_amounts, false,
					false },
				ledger_reversals = { &q_stmt_consistency_ledger_reversals, false,
					false },
				moving = { &q_stmt_consistency_moving, true, true },
				budget = { &q_stmt_consistency_budget, false, false },
				leaders = { &q_stmt_consistency_leaders, false, false },
				orphans = { &q_stmt_consistency_orphans, true, true };
static const struct tested_rule *const rules[] = { &machines, &vouched, &outlived, &epochs,
	&checkpoints, &progress, &ledger_time, &ledger_amounts, &ledger_reversals, &moving, &budget,
	&leaders, &orphans };

struct seen {
	int64_t checked, broken;
	char words[2048];
};

static void look_at(struct world *w, const struct tested_rule *rule, int64_t up_us,
    int64_t before_us, struct seen *ret)
{
	char text[2][32];
	const char *values[4];
	PGresult *r;

	snprintf(text[0], sizeof(text[0]), "%" PRId64, up_us);
	snprintf(text[1], sizeof(text[1]), "%" PRId64, rule->timed ? before_us : 0);
	for (int i = 0; i < rule->stmt->params_n; i++) {
		values[i] = text[i == 0 && rule->up_first ? 0 : 1];
	}
	r = PQexecParams(w->conn, rule->stmt->sql, rule->stmt->params_n, rule->stmt->param_types,
	    values, NULL, NULL, 0);
	if (PQresultStatus(r) != PGRES_TUPLES_OK) {
		fail_msg("%s: %s", rule->stmt->name, PQresultErrorMessage(r));
	}
	ret->checked = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
	ret->broken = strtoll(PQgetvalue(r, 0, 1), NULL, 10);
	snprintf(ret->words, sizeof(ret->words), "%s", PQgetvalue(r, 0, 2));
	PQclear(r);
}

static int64_t now_us(void)
{
	return world_us();
}

/* Rows that have been so for for_us must keep all rules. */
static void all_hold(struct world *w, const char *when, int64_t for_us)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		struct seen s;

		look_at(w, rules[i], 0, now_us() - for_us, &s);
		if (s.broken != 0) {
			fail_msg("%s, %s: %s", rules[i]->stmt->name, when, s.words);
		}
	}
}

/* A job that saved when its node was noticed, lost its second node and ended; the engine is gone,
 * the books are closed. */
static void story_run(struct world *w)
{
	world_reset(w, true);
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_pool(w, "z2", "a1", "spot", 1100000);
	w->agents = w->agents_save = true;
	world_start(w);
	world_job(w, "{}");
	world_sql(w, "UPDATE job SET budget_micros = 1000000000");
	world_until_job(w, "RUNNING");
	all_hold(w, "while it runs", MARGIN_US / 3);
	world_sql(w,
	    "INSERT INTO notice VALUES (1, 'interruption', %" PRId64
	    ", 'agent', '', 1, NULL); NOTIFY spot_engine",
	    now_us() + 60 * SPOT_US_PER_S);
	world_until_epoch(w, 2);
	all_hold(w, "after its move", MARGIN_US / 3);
	w->cloud.list[0].state = SPOT_INSTANCE_GONE;
	cloud_by_ref(&w->cloud,
	    world_text(w,
		"SELECT n.ref FROM node n JOIN attempt a ON a.node_id = n.id WHERE a.epoch = 2"))
	    ->state = SPOT_INSTANCE_GONE;
	world_until_epoch(w, 3);
	world_until(w, LIMIT, "SELECT count(*) FROM ledger WHERE kind = 'lost_work'");
	world_for(w, 500);
	world_finish(w, 1);
	world_until(w, LIMIT,
	    "SELECT bool_and(billed_to_us >= ended_us)::int FROM node WHERE launched_us IS NOT "
	    "NULL");
	world_kill(w);
	world_sql(w, "CREATE FUNCTION ago() RETURNS int8 LANGUAGE sql AS 'SELECT %" PRId64 "'",
	    now_us() - 60 * SPOT_US_PER_S);
	world_sql(w,
	    "CREATE FUNCTION a_line() RETURNS int8 LANGUAGE sql AS 'SELECT %" PRId64 "::int8'",
	    world_int(w, LINE_THAT_COUNTS));
}

static void test_a_world_with_a_move_and_a_loss_keeps_every_invariant(void **state)
{
	struct world *w = *state;
	const struct tested_rule *const busy[] = { &checkpoints, &progress, &ledger_time,
		&ledger_amounts, &ledger_reversals, &budget, &leaders };

	story_run(w);
	all_hold(w, "at the end", SPOT_US_PER_S);
	for (size_t i = 0; i < ARRAY_LEN(busy); i++) {
		struct seen s;

		look_at(w, busy[i], 0, now_us(), &s);
		if (s.checked == 0) {
			fail_msg("%s looked at nothing", busy[i]->stmt->name);
		}
	}
}

static const struct {
	const struct tested_rule *rule;
	const char *sql, *words;
	bool graced; /* an hour of grace excuses it, and a leader that began only now */
} breaks[] = {
	{ &machines, NODE "NULL, 'READY', NULL, '', a, NULL" FROM_AGO,
	    "is READY without an instance", false },
	{ &machines, NODE "'i-odd', 'READY', NULL, 'gone', a, NULL" FROM_AGO,
	    "is READY while its provider says gone", true },
	{ &vouched, NODE "'i-odd', 'READY', NULL, 'running', a, NULL" FROM_AGO,
	    "its agent spoke never, its provider last at", true },
	{ &outlived,
	    "UPDATE job SET state_us = state_us - 60000000; " NODE
	    "'i-odd', 'READY', 1, 'running', a, NULL" FROM_AGO,
	    "is READY although j1 is SUCCEEDED", true },
	{ &outlived, NODE "'i-odd', 'TERMINATING', NULL, 'running', a, a" FROM_AGO,
	    "its provider does not confirm it", true },
	{ &epochs, "UPDATE attempt SET ended_us = NULL WHERE epoch = 1",
	    "j1 is at epoch 3, and epoch 1 lives on n1", false },
	{ &checkpoints, "DELETE FROM checkpoint_chunk", "c1 of j1: 0 of 1000 bytes", false },
	{ &checkpoints, "UPDATE checkpoint_chunk SET seq = seq + 1", "1 pieces missing", false },
	{ &checkpoints, "UPDATE checkpoint_chunk SET deleted_us = 5", "1 deleted", false },
	{ &progress, "UPDATE attempt SET steps_start = 0 WHERE epoch = 3",
	    "j1 epoch 3 began at step 0 with c1", false },
	{ &progress, "UPDATE attempt SET restore_id = NULL WHERE epoch = 2",
	    "without a checkpoint; c1 of epoch 1", false },
	{ &ledger_time,
	    LINE "from_us, to_us, price_micros, price_observed_us, amount_micros, NULL" A_LINE,
	    "us billed twice", false },
	{ &ledger_time, "UPDATE node SET launched_us = launched_us - 77",
	    "n1: 0 us billed twice, 77 us not at all", false },
	{ &ledger_time, "UPDATE node SET billed_to_us = billed_to_us - 5 WHERE id = 1",
	    "lines reach 5 us beyond its mark", false },
	{ &ledger_time, REVERSAL, "us not at all", false },
	{ &ledger_amounts,
	    LINE "from_us, to_us, price_micros, price_observed_us, amount_micros + 1, NULL" A_LINE,
	    "which makes", false },
	{ &ledger_amounts,
	    "INSERT INTO ledger (at_us, kind, node_id, pool_id, market, from_us, to_us, "
	    "price_micros, price_observed_us, "
	    "amount_micros) SELECT 1, 'idle', id, pool_id, 'spot', launched_us, launched_us + "
	    "3600000000, price_micros + 7, 0, "
	    "price_micros + 7 FROM node WHERE id = 1",
	    "; the price was", false },
	{ &ledger_reversals,
	    LINE "from_us, to_us, price_micros, price_observed_us, -amount_micros - 1, id" A_LINE,
	    "micro-dollars for", false },
	{ &ledger_reversals, REVERSAL "; " REVERSAL, "which is reversed twice", false },
	{ &ledger_reversals,
	    LINE "from_us, to_us, price_micros, price_observed_us, -amount_micros, id FROM ledger "
		 "WHERE reverses IS NOT NULL "
		 "LIMIT 1",
	    "which is a reversal", false },
	{ &moving, JOB "'QUEUED'" FROM_AGO, "and nothing says why", true },
	{ &moving, "UPDATE job SET state = 'QUEUED', state_us = " AGO ", cancel_us = " AGO,
	    "although it was cancelled", true },
	{ &moving, JOB "'RUNNING'" FROM_AGO, "without an attempt", true },
	{ &moving,
	    "UPDATE job SET state = 'DRAINING', state_us = " AGO
	    "; UPDATE attempt SET settled = false",
	    "neither stops nor is given up", true },
	{ &moving, JOB "'PARKED'" FROM_AGO, "is PARKED since", true },
	{ &moving,
	    "UPDATE job SET state = 'PARKED', why = 'its budget is used up', state_us = " AGO
	    ", cancel_us = " AGO,
	    "although it was cancelled", true },
	{ &budget, "UPDATE job_cost SET micros = micros - 1", "and its budget is held against",
	    false },
	{ &budget,
	    "UPDATE job SET budget_micros = 1; UPDATE node SET created_us = 9000000000000000 WHERE "
	    "id = 3",
	    "n3 was wanted for j1 at", false },
	{ &budget,
	    "UPDATE job SET budget_micros = (SELECT sum(amount_micros) FROM ledger WHERE job_id = "
	    "1); UPDATE node SET created_us = "
	    "9000000000000000 WHERE id = 3",
	    "micro-dollars had been spent", false },
	{ &budget,
	    "UPDATE job SET state = 'PARKED', ended_us = NULL; UPDATE attempt SET ended_us = NULL "
	    "WHERE epoch = 3",
	    "j1 is PARKED, and its epoch 3 lives on n3", false },
	{ &outlived,
	    "UPDATE job SET state = 'PARKED', state_us = state_us - 60000000; " NODE
	    "'i-odd', 'READY', 1, 'running', a, NULL" FROM_AGO,
	    "is READY although j1 is PARKED", true },
	{ &leaders, "INSERT INTO led VALUES (99, 5, 6)", "epoch 99 led, and the lease is at",
	    false },
	{ &leaders,
	    "UPDATE leader SET epoch = 99; INSERT INTO led VALUES (99, (SELECT max(to_us) - 1 FROM "
	    "led), 9000000000000000)",
	    "epoch 99 led since", false },
	{ &orphans,
	    "INSERT INTO orphan (provider, region, ref, kind, first_us, last_us, why) SELECT "
	    "'fake', 'r1', 'i-odd', 'instance', a, a, "
	    "'no row knows it'" FROM_AGO,
	    "instance i-odd of fake is there since", true },
	{ &orphans,
	    "INSERT INTO orphan (provider, region, ref, kind, first_us, last_us, terminate_us, "
	    "why) SELECT 'fake', 'r1', 'i-odd', "
	    "'instance', a, a, a, ''" FROM_AGO,
	    "and was asked to end at", true },
};

static void test_each_invariant_that_is_broken_is_told_in_words(void **state)
{
	struct world *w = *state;

	story_run(w);
	for (size_t i = 0; i < ARRAY_LEN(breaks); i++) {
		struct seen s;

		world_sql(w, "BEGIN; %s", breaks[i].sql);
		look_at(w, breaks[i].rule, 0, now_us(), &s);
		if (s.broken == 0 || strstr(s.words, breaks[i].words) == NULL) {
			fail_msg("%zu %s: %" PRId64 " broken, '%s' instead of '%s'", i,
			    breaks[i].rule->stmt->name, s.broken, s.words, breaks[i].words);
		}
		look_at(w, breaks[i].rule, 0, now_us() - SPOT_US_PER_HOUR, &s);
		if ((s.broken == 0) != breaks[i].graced) {
			fail_msg("%zu %s with an hour of grace: %" PRId64 " broken", i,
			    breaks[i].rule->stmt->name, s.broken);
		}
		if (breaks[i].rule->up_first) {
			look_at(w, breaks[i].rule, now_us() + MARGIN_US, now_us(), &s);
			assert_int_equal(s.broken, 0);
		}
		world_sql(w, "ROLLBACK");
	}
	all_hold(w, "after everything was put back", SPOT_US_PER_S);
}

static void test_a_kept_machine_a_fleets_or_one_at_work_elsewhere_breaks_no_rule(void **state)
{
	struct world *w = *state;

	story_run(w);
	world_sql(w,
	    "INSERT INTO orphan (provider, region, ref, kind, first_us, last_us, why, kept) SELECT "
	    "'fake', 'r1', 'i-odd', 'instance', a, "
	    "a, '', true" FROM_AGO "; INSERT INTO orphan (provider, region, ref, kind, first_us, "
	    "last_us, why, word) SELECT 'fake', 'r1', "
	    "'i-kept', 'instance', a, a, '', 'keep'" FROM_AGO
	    "; INSERT INTO fleet (name, owner, team, project, spec, state, created_us, "
	    "updated_us) VALUES ('f', '', '', '', '{}', 'ACTIVE', 1, 1); " NODE
	    "'i-odd', 'READY', 1, 'running', a, NULL" FROM_AGO
	    "; UPDATE node SET fleet_id = 1, last_seen_us = %" PRId64 " WHERE token = 't-odd'; " JOB
	    "'QUEUED'" FROM_AGO "; UPDATE job SET why = 'waits for room' WHERE name = 'odd'",
	    now_us() + MARGIN_US);
	all_hold(w, "with what may be", SPOT_US_PER_S);
}

static void test_a_parked_job_is_consistent_and_a_budget_counts_from_its_start(void **state)
{
	struct world *w = *state;

	story_run(w);
	world_sql(w,
	    JOB
	    "'PARKED'" FROM_AGO
	    "; UPDATE job SET why = 'its budget is used up', budget_micros = 5 WHERE name = 'odd'");
	all_hold(w, "parked", SPOT_US_PER_S);
	/* The money was spent before the budget was lowered to it: the machine was wanted under the
	 * budget of then. */
	world_sql(w,
	    "UPDATE job SET budget_micros = (SELECT sum(amount_micros) FROM ledger WHERE job_id = "
	    "1) WHERE id = 1; UPDATE node SET "
	    "created_us = (SELECT max(to_us) FROM ledger) WHERE id = 3; INSERT INTO event (at_us, "
	    "entity, entity_id, job_id, event, why) "
	    "SELECT max(to_us) + 1, 'job', 'j1', 1, 'BUDGET_SET', '' FROM ledger");
	all_hold(w, "lowered", SPOT_US_PER_S);
}

#define T(f) cmocka_unit_test(f)
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_a_world_with_a_move_and_a_loss_keeps_every_invariant),
		T(test_each_invariant_that_is_broken_is_told_in_words),
		T(test_a_kept_machine_a_fleets_or_one_at_work_elsewhere_breaks_no_rule),
		T(test_a_parked_job_is_consistent_and_a_budget_counts_from_its_start),
	};

	return WORLD_TESTS(argc, argv, tests);
}
