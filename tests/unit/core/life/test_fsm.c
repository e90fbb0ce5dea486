/* The transition tables: every (state, event) pair is either an edge listed here or refused. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/life/life.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static int edges_count(bool node)
{
	int n = 0;

	for (int s = 1; s < (node ? (int)NODE_STATE_COUNT : (int)JOB_STATE_COUNT); s++) {
		for (int e = 1; e < (node ? (int)NODE_EVENT_COUNT : (int)JOB_EVENT_COUNT); e++) {
			struct fsm_edge g = node ? node_edge((enum node_state)s, (enum node_event)e)
						 : job_edge((enum job_state)s, (enum job_event)e);

			if (g.to != 0) {
				assert_non_null(g.why);
				assert_true(strlen(g.why) > 3);
				n++;
			}
		}
	}
	return n;
}

static void final_states_have_no_way_out(void **state)
{
	(void)state;
	for (int s = 1; s < (int)JOB_STATE_COUNT; s++) {
		for (int e = 1; job_state_final((enum job_state)s) && e < (int)JOB_EVENT_COUNT;
		     e++) {
			assert_int_equal(job_edge((enum job_state)s, (enum job_event)e).to, 0);
		}
	}
	for (int e = 1; e < (int)NODE_EVENT_COUNT; e++) {
		assert_int_equal(node_edge(NODE_GONE, (enum node_event)e).to, 0);
		assert_int_equal(node_edge(NODE_FAILED, (enum node_event)e).to, 0);
	}
}

static void every_state_is_reachable_and_can_end(void **state)
{
	bool seen[NODE_STATE_COUNT] = { [NODE_WANTED] = true };
	bool job[JOB_STATE_COUNT] = { [JOB_QUEUED] = true };

	(void)state;
	for (int round = 0; round < 20; round++) {
		for (int s = 1; s < (int)NODE_STATE_COUNT; s++) {
			for (int e = 1; seen[s] && e < (int)NODE_EVENT_COUNT; e++) {
				seen[node_edge((enum node_state)s, (enum node_event)e).to] = true;
			}
		}
		for (int s = 1; s < (int)JOB_STATE_COUNT; s++) {
			for (int e = 1; job[s] && e < (int)JOB_EVENT_COUNT; e++) {
				job[job_edge((enum job_state)s, (enum job_event)e).to] = true;
			}
		}
	}
	for (int s = 1; s < (int)NODE_STATE_COUNT; s++) {
		assert_true(seen[s]);
	}
	for (int s = 1; s < (int)JOB_STATE_COUNT; s++) {
		assert_true(job[s]);
	}
}

static void an_instance_that_may_exist_ends_only_confirmed(void **state)
{
	/* FAILED means "never existed": only states in which nothing can exist may lead there. */
	(void)state;
	for (int s = 1; s < (int)NODE_STATE_COUNT; s++) {
		for (int e = 1; e < (int)NODE_EVENT_COUNT; e++) {
			int to = node_edge((enum node_state)s, (enum node_event)e).to;

			if (to == NODE_FAILED) {
				assert_true(
				    s == NODE_WANTED || s == NODE_LAUNCHING || s == NODE_UNKNOWN);
			}
			if (to == NODE_GONE) {
				assert_int_equal(s, NODE_TERMINATING);
				assert_int_equal(e, NODE_EV_CONFIRMED);
			}
		}
	}
	assert_int_equal(node_edge(NODE_UNKNOWN, NODE_EV_CLAIMED).to, 0);
	assert_int_equal(node_edge(NODE_WANTED, NODE_EV_AMBIGUOUS).to, NODE_UNKNOWN);
	assert_int_equal(node_edge(NODE_LAUNCHING, NODE_EV_UNWANTED).to, 0);
}

static void tables_have_the_edges_we_know(void **state)
{
	(void)state;
	assert_int_equal(edges_count(false), 43);
	assert_int_equal(edges_count(true), 32);
	assert_int_equal(job_edge(JOB_RUNNING, JOB_EV_NOTICE).to, JOB_DRAINING);
	assert_int_equal(job_edge(JOB_DRAINING, JOB_EV_STOPPED).to, JOB_QUEUED);
	assert_int_equal(job_edge(JOB_CANCELLING, JOB_EV_NODE_LOST).to, JOB_CANCELLED);
	assert_int_equal(job_edge(JOB_RUNNING, JOB_EV_RANK_ENDED).to, JOB_DRAINING);
	assert_int_equal(job_edge(JOB_RUNNING, JOB_EV_BUDGET).to, JOB_DRAINING);
	assert_int_equal(job_edge(JOB_QUEUED, JOB_EV_BUDGET).to, JOB_PARKED);
	assert_int_equal(job_edge(JOB_PARKED, JOB_EV_FUNDED).to, JOB_QUEUED);
	assert_int_equal(job_edge(JOB_PARKED, JOB_EV_PLACED).to, 0);
	assert_int_equal(job_edge(JOB_QUEUED, JOB_EV_NODE_LOST).to, 0);
	assert_int_equal(job_edge(JOB_RUNNING, JOB_EV_BUDGET).to, JOB_DRAINING);
	assert_int_equal(job_edge(JOB_QUEUED, JOB_EV_BUDGET).to, JOB_PARKED);
	assert_int_equal(job_edge(JOB_PARKED, JOB_EV_FUNDED).to, JOB_QUEUED);
	assert_int_equal(job_edge(JOB_PARKED, JOB_EV_CANCEL).to, JOB_CANCELLED);
	/* nothing begins before its budget pays for it */
	assert_int_equal(job_edge(JOB_PARKED, JOB_EV_PLACED).to, 0);
	assert_false(job_state_final(JOB_PARKED));
	assert_int_equal(job_edge(JOB_NONE, JOB_EV_CANCEL).to, 0);
	assert_int_equal(job_edge((enum job_state)99, JOB_EV_CANCEL).to, 0);
}

static void an_invalid_state_or_event_has_no_edge(void **state)
{
	(void)state;
	assert_int_equal(node_edge(NODE_NONE, NODE_EV_CLAIMED).to, 0);
	assert_int_equal(node_edge(NODE_STATE_COUNT, NODE_EV_CLAIMED).to, 0);
	assert_int_equal(node_edge(NODE_WANTED, NODE_EV_NONE).to, 0);
	assert_int_equal(node_edge(NODE_WANTED, NODE_EVENT_COUNT).to, 0);
	assert_int_equal(job_edge(JOB_STATE_COUNT, JOB_EV_CANCEL).to, 0);
	assert_int_equal(job_edge(JOB_QUEUED, JOB_EV_NONE).to, 0);
	assert_int_equal(job_edge(JOB_QUEUED, JOB_EVENT_COUNT).to, 0);
}

static void names_go_there_and_back(void **state)
{
	AUTO(sbuf) struct sbuf b;

	(void)state;
	for (int s = 1; s < (int)JOB_STATE_COUNT; s++) {
		assert_int_equal(job_state_parse(job_state_name((enum job_state)s)), s);
	}
	for (int s = 1; s < (int)NODE_STATE_COUNT; s++) {
		assert_int_equal(node_state_parse(node_state_name((enum node_state)s)), s);
	}
	for (int e = 1; e < (int)NODE_EVENT_COUNT; e++) {
		assert_int_equal(node_event_parse(node_event_name((enum node_event)e)), e);
	}
	assert_int_equal(job_state_parse("ASLEEP"), JOB_NONE);
	assert_int_equal(node_state_parse(NULL), NODE_NONE);
	assert_int_equal(node_event_parse("PLACED"), NODE_EV_NONE);
	sbuf_init(&b, 1 << 16);
	fsm_mermaid(true, &b);
	assert_non_null(strstr(b.p, "TERMINATING --> GONE: CONFIRMED"));
	fsm_mermaid(false, &b);
	assert_non_null(strstr(b.p, "RUNNING --> DRAINING: NOTICE"));
	assert_string_equal(job_event_name(JOB_EV_CANCEL), "CANCEL");
	assert_string_equal(job_event_name(JOB_EV_NONE), "?");
	assert_string_equal(job_event_name(JOB_EVENT_COUNT), "?");
	assert_string_equal(node_event_name(NODE_EV_CONFIRMED), "CONFIRMED");
	assert_string_equal(node_state_name(NODE_STATE_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(final_states_have_no_way_out),
		cmocka_unit_test(every_state_is_reachable_and_can_end),
		cmocka_unit_test(an_instance_that_may_exist_ends_only_confirmed),
		cmocka_unit_test(tables_have_the_edges_we_know),
		cmocka_unit_test(an_invalid_state_or_event_has_no_edge),
		cmocka_unit_test(names_go_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
