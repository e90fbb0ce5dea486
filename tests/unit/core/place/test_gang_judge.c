/* Ranks of a gang are judged as a whole, by edges that the table of jobs has. */
#include "base/base.h"
#include "core/place/place.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* ---- running --------------------------------------------------------------------------------- */

#define CASES 10000

static const char *word_pick(struct rng *r, const char *const *list, size_t n)
{
	return list[rng_below(r, n)];
}

static struct gang_run random_run(struct rng *r, struct gang_rank *ranks)
{
	static const enum job_state states[] = { JOB_STARTING, JOB_RUNNING, JOB_DRAINING,
		JOB_CANCELLING, JOB_QUEUED, JOB_FAILED };
	static const enum node_state nodes[] = { NODE_READY, NODE_READY, NODE_READY, NODE_DRAINING,
		NODE_GONE };
	static const char *const desired[] = { "run", "drain", "kill" },
				 *const ends[] = { "ok", "ok", "error", "drained", "killed",
					 "lost" };
	static const enum attempt_phase phases[] = { ATTEMPT_ASSIGNED, ATTEMPT_SETUP,
		ATTEMPT_RUNNING, ATTEMPT_SAVING };
	struct gang_run in = { .job = states[rng_below(r, ARRAY_LEN(states))],
		.current = rng_below(r, 10) > 0,
		.cancel = rng_below(r, 5) == 0,
		.overtime = rng_below(r, 8) == 0,
		.restarts = (int32_t)rng_below(r, 2),
		.max_restarts = (int64_t)rng_below(r, 2),
		.ranks = ranks,
		.n = 2 + rng_below(r, 4) };
	/* All ranks are told the same. */
	const char *told = in.job == JOB_STARTING || in.job == JOB_RUNNING ? "run"
	    : in.job == JOB_CANCELLING                                     ? "kill"
				       : desired[1 + rng_below(r, 2)];
	bool all_over = rng_below(r, 3) == 0;

	for (size_t i = 0; i < in.n; i++) {
		bool over = all_over || rng_below(r, 3) == 0;
		enum node_state node = nodes[rng_below(r, ARRAY_LEN(nodes))];

		ranks[i] = (struct gang_rank){ .rank = (int32_t)i,
			.node = node == NODE_GONE && !over ? NODE_READY : node,
			.node_id = (int64_t)i + 1,
			.node_deadline_us =
			    node == NODE_DRAINING ? 50 + (int64_t)rng_below(r, 9) : 0,
			.noticed = node == NODE_DRAINING && rng_below(r, 2) == 0,
			.node_why = "why",
			.desired = told,
			.ended = over,
			.phase = over ? ATTEMPT_EXITED : phases[rng_below(r, ARRAY_LEN(phases))],
			.exit_reason = over ? word_pick(r, ends, ARRAY_LEN(ends)) : "" };
	}
	return in;
}

static void check_verdict(const struct gang_run *in, const struct gang_verdict *v)
{
	size_t live = 0, ok = 0, lost = 0;
	bool leaving = false, parted = false;

	for (size_t i = 0; i < in->n; i++) {
		live += !in->ranks[i].ended;
		ok += in->ranks[i].ended && strcmp(in->ranks[i].exit_reason, "ok") == 0;
		lost += in->ranks[i].ended && strcmp(in->ranks[i].exit_reason, "lost") == 0;
		leaving |= in->ranks[i].node == NODE_DRAINING;
		parted |= in->ranks[i].ended && strcmp(in->ranks[i].exit_reason, "drained") == 0;
	}
	if (!in->current || job_state_final(in->job) || in->job == JOB_QUEUED) {
		assert_int_equal(v->act, live == 0 ? GANG_SHUT : GANG_LEAVE);
		return;
	}
	if (v->act == GANG_TELL || v->act == GANG_SETTLE || v->act == GANG_BEGUN) {
		assert_int_not_equal(job_edge(in->job, v->event).to, 0);
	}
	assert_int_equal(v->act == GANG_SETTLE, live == 0);
	if (v->act == GANG_SETTLE) {
		assert_int_equal(v->event == JOB_EV_EXITED_OK, ok == in->n);
		assert_true(ok == in->n || lost == 0 || v->event == JOB_EV_NODE_LOST);
		/* A rank that is reclaimed, or starts again, is never the job's fault. */
		assert_false((leaving || parted) &&
		    (v->event == JOB_EV_EXITED_BAD || v->event == JOB_EV_RETRY));
		assert_int_equal(v->retry, v->event == JOB_EV_RETRY);
	}
	if (v->act == GANG_TELL) {
		assert_true(strcmp(v->desired, "drain") == 0 || strcmp(v->desired, "kill") == 0);
	}
	if (live > 0 && in->cancel && in->job != JOB_CANCELLING) {
		assert_int_equal(v->event, JOB_EV_CANCEL);
	}
	/* Nobody goes on alone. */
	if (live > 0 && in->job == JOB_RUNNING && (leaving || ok + live < in->n || in->cancel)) {
		assert_int_equal(v->act, GANG_TELL);
	}
}

static void ranks_are_judged_as_a_whole(void **state)
{
	struct rng r;

	(void)state;
	rng_seeded_init(&r, 43);
	for (int k = 0; k < 3 * CASES; k++) {
		AUTO(arena) struct arena *a = arena_new(0);
		struct gang_rank ranks[6];
		struct gang_run in = random_run(&r, ranks);
		struct gang_verdict v;

		gang_judge(a, &in, &v);
		check_verdict(&in, &v);
	}
}

static void the_earliest_deadline_is_told_to_all(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct gang_rank k[] = { { .rank = 0,
				     .node = NODE_READY,
				     .node_why = "",
				     .desired = "run",
				     .phase = ATTEMPT_RUNNING,
				     .exit_reason = "" },
		{ .rank = 1,
		    .node = NODE_DRAINING,
		    .node_deadline_us = 90,
		    .noticed = true,
		    .node_why = "taken",
		    .desired = "run",
		    .phase = ATTEMPT_RUNNING,
		    .exit_reason = "" },
		{ .rank = 2,
		    .node = NODE_DRAINING,
		    .node_deadline_us = 70,
		    .noticed = true,
		    .node_why = "taken",
		    .desired = "run",
		    .phase = ATTEMPT_RUNNING,
		    .exit_reason = "" } };
	struct gang_run in = { .job = JOB_RUNNING, .current = true, .ranks = k, .n = 3 };
	struct gang_verdict v;

	(void)state;
	gang_judge(a, &in, &v);
	assert_int_equal(v.act, GANG_TELL);
	assert_string_equal(v.desired, "drain");
	assert_int_equal(v.event, JOB_EV_NOTICE);
	assert_int_equal(v.deadline_us, 70);
	/* Told so, nothing more is said. */
	in.job = JOB_DRAINING;
	for (int i = 0; i < 3; i++) {
		k[i].desired = "drain";
		k[i].deadline_us = 70;
	}
	gang_judge(a, &in, &v);
	assert_int_equal(v.act, GANG_LEAVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_are_judged_as_a_whole),
		cmocka_unit_test(the_earliest_deadline_is_told_to_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
