/* One gang of two: each verdict on it and each reason by hand. */
#include "base/base.h"
#include "core/place/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct pair {
	struct arena *a;
	struct gang_rank ranks[2];
	struct gang_run run;
	struct gang_verdict verdict;
};

/* Both run. */
static void pair_open(struct pair *p)
{
	*p = (struct pair){ .a = arena_new(0) };
	for (int32_t i = 0; i < 2; i++) {
		p->ranks[i] = (struct gang_rank){ .rank = i,
			.node = NODE_READY,
			.node_id = 7 + i,
			.node_why = "",
			.desired = "run",
			.phase = ATTEMPT_RUNNING,
			.exit_reason = "" };
	}
	p->run = (struct gang_run){ .job = JOB_RUNNING, .current = true, .n = 2 };
}

static void rank_end(struct pair *p, size_t i, const char *reason)
{
	p->ranks[i].ended = true;
	p->ranks[i].phase = ATTEMPT_EXITED;
	p->ranks[i].exit_reason = reason;
}

static const struct gang_verdict *verdict_of(struct pair *p)
{
	p->run.ranks = p->ranks;
	gang_judge(p->a, &p->run, &p->verdict);
	return &p->verdict;
}

static void assert_settled(struct pair *p, enum job_event event, const char *why)
{
	const struct gang_verdict *v = verdict_of(p);

	assert_int_equal(v->act, GANG_SETTLE);
	assert_int_equal(v->event, event);
	assert_string_equal(v->why, why);
}

static void assert_told(struct pair *p, enum job_event event, const char *desired, const char *why)
{
	const struct gang_verdict *v = verdict_of(p);

	assert_int_equal(v->act, GANG_TELL);
	assert_int_equal(v->event, event);
	assert_string_equal(v->desired, desired);
	assert_string_equal(v->why, why);
}

static void a_gang_that_runs_is_left_alone(void **state UNUSED)
{
	struct pair p;

	pair_open(&p);
	assert_int_equal(verdict_of(&p)->act, GANG_LEAVE);
	p.run.job = JOB_STARTING;
	p.ranks[1].phase = ATTEMPT_SETUP;
	assert_int_equal(verdict_of(&p)->act, GANG_LEAVE);
	p.ranks[1].phase = ATTEMPT_SAVING;
	assert_int_equal(verdict_of(&p)->act, GANG_BEGUN);
	assert_string_equal(p.verdict.why, "runs on 2 nodes");
	p.run.job = JOB_PARKED;
	assert_int_equal(verdict_of(&p)->act, GANG_LEAVE);
	arena_free(p.a);
}

static void an_end_says_how_each_rank_ended(void **state UNUSED)
{
	struct pair p;

	pair_open(&p);
	rank_end(&p, 0, "ok");
	rank_end(&p, 1, "ok");
	assert_settled(&p, JOB_EV_EXITED_OK, "finished on all ranks");
	p.ranks[1].exit_reason = "error";
	p.ranks[1].exit_code = 3;
	assert_settled(&p, JOB_EV_EXITED_BAD, "rank 1: error: exit code 3");
	assert_string_equal(p.verdict.reason, "error");
	p.ranks[1].exit_said = "";
	assert_settled(&p, JOB_EV_EXITED_BAD, "rank 1: error: exit code 3");
	p.ranks[1].exit_said = "the disk is full";
	assert_settled(&p, JOB_EV_EXITED_BAD, "rank 1: the disk is full");
	p.ranks[1].exit_signal = 9;
	assert_settled(&p, JOB_EV_EXITED_BAD, "rank 1: error: killed by signal 9");
	/* One that was only killed does not say why. */
	rank_end(&p, 0, "killed");
	assert_settled(&p, JOB_EV_EXITED_BAD, "rank 1: error: killed by signal 9");
	p.run.max_restarts = 2;
	p.run.restarts = 1;
	assert_settled(&p, JOB_EV_RETRY, "rank 1: error: killed by signal 9; restart 2 of 2");
	assert_true(p.verdict.retry);
	p.run.job = JOB_CANCELLING;
	assert_settled(&p, JOB_EV_KILLED, "stopped by request");
	p.ranks[0].exit_reason = "lost";
	p.ranks[0].node_why = "it vanished";
	assert_settled(&p, JOB_EV_NODE_LOST, "rank 0 on n7 is lost: it vanished");
	arena_free(p.a);
}

/* While a peer is being reclaimed, no act of a rank is the job's fault. */
static void a_gang_that_is_taken_has_stopped(void **state UNUSED)
{
	static const enum node_state going[] = { NODE_DRAINING, NODE_TERMINATING, NODE_GONE,
		NODE_FAILED };
	struct pair p;

	pair_open(&p);
	rank_end(&p, 0, "drained");
	rank_end(&p, 1, "drained");
	assert_settled(&p, JOB_EV_STOPPED, "stopped on all ranks");
	rank_end(&p, 0, "ok");
	rank_end(&p, 1, "error");
	for (size_t i = 0; i < ARRAY_LEN(going); i++) {
		p.ranks[0].node = going[i];
		assert_settled(&p, JOB_EV_STOPPED, "stopped (rank 1: error: exit code 0)");
	}
	p.ranks[0].node = NODE_READY;
	p.ranks[0].noticed = true;
	assert_settled(&p, JOB_EV_STOPPED, "stopped (rank 1: error: exit code 0)");
	p.ranks[0].noticed = false;
	p.ranks[0].desired = "drain";
	assert_settled(&p, JOB_EV_STOPPED, "stopped (rank 1: error: exit code 0)");
	p.ranks[0].desired = NULL; /* nobody told it anything */
	assert_settled(&p, JOB_EV_EXITED_BAD, "rank 1: error: exit code 0");
	arena_free(p.a);
}

static void the_others_are_told_why_they_stop(void **state UNUSED)
{
	struct pair p;

	pair_open(&p);
	rank_end(&p, 1, "error");
	p.ranks[1].exit_code = 4;
	assert_told(&p, JOB_EV_RANK_ENDED, "kill", "rank 1: error: exit code 4");
	p.ranks[1].exit_reason = "drained";
	assert_told(&p, JOB_EV_RANK_ENDED, "drain", "rank 1 on n8 has stopped");
	p.run.cancel = true;
	assert_told(&p, JOB_EV_CANCEL, "kill", "cancelled");
	p.run.job = JOB_CANCELLING;
	assert_int_equal(verdict_of(&p)->act, GANG_LEAVE);
	arena_free(p.a);
}

static void a_gang_stops_for_its_time_and_its_budget(void **state UNUSED)
{
	struct pair p;

	pair_open(&p);
	p.run.over_budget = true;
	p.run.budget_why = "5.0000 of 5.0000 USD";
	assert_told(&p, JOB_EV_BUDGET, "drain", "5.0000 of 5.0000 USD");
	p.run.overtime = true;
	assert_told(&p, JOB_EV_OVERTIME, "drain", "max_duration is over");
	p.run.job = JOB_DRAINING; /* it stops already */
	assert_int_equal(verdict_of(&p)->act, GANG_LEAVE);
	p.run.job = JOB_RUNNING;
	p.ranks[0].desired = p.ranks[1].desired = "drain";
	assert_int_equal(verdict_of(&p)->act, GANG_LEAVE);
	arena_free(p.a);
}

static void a_machine_that_leaves_without_a_notice_is_a_move(void **state UNUSED)
{
	struct pair p;

	pair_open(&p);
	p.ranks[0].node = NODE_DRAINING;
	p.ranks[0].node_why = "a cheaper pool";
	assert_told(&p, JOB_EV_MOVE, "drain", "rank 0: a cheaper pool");
	assert_int_equal(p.verdict.deadline_us, 0); /* no hurry */
	p.ranks[0].noticed = true;
	p.ranks[0].node_deadline_us = 90;
	assert_told(&p, JOB_EV_NOTICE, "drain", "rank 0: a cheaper pool");
	assert_int_equal(p.verdict.deadline_us, 90);
	/* All were told so: they are not told twice. */
	p.run.job = JOB_DRAINING;
	p.ranks[0].desired = p.ranks[1].desired = "drain";
	p.ranks[0].deadline_us = p.ranks[1].deadline_us = 90;
	assert_int_equal(verdict_of(&p)->act, GANG_LEAVE);
	p.ranks[0].node_deadline_us = 70;
	assert_told(&p, JOB_EV_NOTICE, "drain", "rank 0: a cheaper pool");
	assert_int_equal(p.verdict.deadline_us, 70);
	arena_free(p.a);
}

/* ---- acquiring ------------------------------------------------------------------------------- */

static void assert_held(struct gang_hold_in *in, enum gang_do what, const char *why)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct gang_hold_out out;

	gang_hold(a, in, &out);
	assert_int_equal(out.what, what);
	assert_string_equal(out.why, why);
}

static void the_words_about_a_hold_count_the_machines(void **state UNUSED)
{
	struct gang_member m[2] = { { 0, NODE_LAUNCHING, 0, false }, { 1, NODE_FAILED, 0, false } };
	struct gang_hold_in in = { .want = 2,
		.members = m,
		.members_n = 2,
		.wanted = true,
		.queued = true,
		.now_us = 10,
		.hold_us = 100 };

	assert_held(&in, GANG_WAIT, "1 of 2 launches are out");
	in.one_call = true;
	assert_held(&in, GANG_GIVE_UP, "0 of 2 machines of one launch are left");
	in.one_call = false;
	m[0].state = NODE_FAILED;
	assert_held(&in, GANG_GIVE_UP, "none of 2 machines came");
	m[0] = (struct gang_member){ 0, NODE_BOOTING, 5, false };
	m[1] = (struct gang_member){ 1, NODE_READY, 4, false };
	assert_held(&in, GANG_WAIT, "1 of 2 machines are ready");
	m[0].state = NODE_READY;
	assert_held(&in, GANG_START, "");
	in.queued = false;
	assert_held(&in, GANG_WAIT, "");
	m[1].state = NODE_DRAINING;
	assert_held(&in, GANG_GIVE_UP, "the provider takes a machine of it back before it began");
	in.wanted = false;
	assert_held(&in, GANG_GIVE_UP, "the job does not need it any more");
	in.wanted = true;
	m[1] = (struct gang_member){ 1, NODE_GONE, 0, false };
	in.last_lost_us = 0;
	assert_held(&in, GANG_WAIT, "holds 1 of 2 machines");
	in.now_us = 105;
	assert_held(&in, GANG_GIVE_UP, "1 of 2 machines came within the hold: all are given back");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gang_that_runs_is_left_alone),
		cmocka_unit_test(an_end_says_how_each_rank_ended),
		cmocka_unit_test(a_gang_that_is_taken_has_stopped),
		cmocka_unit_test(the_others_are_told_why_they_stop),
		cmocka_unit_test(a_gang_stops_for_its_time_and_its_budget),
		cmocka_unit_test(a_machine_that_leaves_without_a_notice_is_a_move),
		cmocka_unit_test(the_words_about_a_hold_count_the_machines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
