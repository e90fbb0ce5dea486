/* Nodes: list, show, give back (drain), end. */
#include "base/base.h"
#include "api/fleet/fleet_priv.h"

#include "core/life/life.h"

/* time that a requested drain leaves for saving */
#define DRAIN_US (15 * 60 * SPOT_US_PER_S)

static void nodes_done(struct areq *q)
{
	areq_list_page(q, &q_shape_api_nodes, NULL);
}

void get_nodes(struct areq *q)
{
	int32_t *limit = arena_alloc(q->arena, sizeof(*limit));
	const char **names = NULL, *state = areq_query(q, "state"),
		   *provider = areq_query(q, "provider");
	bool live = state && strcmp(state, "live") == 0, has_job, has_fleet;
	int64_t before, job, fleet;
	enum node_state *states;
	size_t n = 0;

	if (!areq_page(q, INT64_MAX, &before, limit) ||
	    !areq_query_id(q, "job", 'j', &has_job, &job) ||
	    !areq_query_id(q, "fleet", 'f', &has_fleet, &fleet) ||
	    (!live && !areq_query_list(q, "state", &names, &n))) {
		return;
	}
	states = arena_array(q->arena, n, sizeof(*states));
	for (size_t i = 0; i < n; i++) {
		states[i] = node_state_parse(names[i]);
		if (states[i] == NODE_NONE) {
			areq_fail_field(q, "state",
			    "no node state '%s'; valid are live, WANTED, LAUNCHING, UNKNOWN, "
			    "BOOTING, READY, DRAINING, TERMINATING, GONE, FAILED",
			    names[i]);
			return;
		}
	}
	q->own = limit;
	if (has_job) {
		SQL(q, api_nodes_of_job, nodes_done, .states = states, .states_n = n, .live = live,
		    .provider = provider, .job_id = job, .has_fleet_id = has_fleet,
		    .fleet_id = fleet, .before_id = before, .most = *limit + 1);
	} else if (n > 0 || provider || has_fleet) {
		SQL(q, api_nodes_filtered, nodes_done, .states = states, .states_n = n,
		    .live = live, .provider = provider, .has_fleet_id = has_fleet,
		    .fleet_id = fleet, .before_id = before, .most = *limit + 1);
	} else if (live) {
		SQL(q, api_nodes_live, nodes_done, .before_id = before, .most = *limit + 1);
	} else {
		SQL(q, api_nodes, nodes_done, .before_id = before, .most = *limit + 1);
	}
}

static void node_shown(struct areq *q)
{
	struct q_api_node_row *row;
	json_t *doc, *more;

	if (q_api_node_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no node 'n%" PRId64 "'", q->id);
		return;
	}
	doc = view_parse(row->doc);
	more = view_parse(row->more);
	json_object_update(doc, more);
	json_decref(more);
	areq_json(q, q->route->status, doc);
}

void get_node(struct areq *q)
{
	SQL(q, api_node, node_shown, .id = q->id);
}

static void drain_asked(struct areq *q)
{
	struct q_api_node_drain_row *row;

	if (q_api_node_drain_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no node 'n%" PRId64 "'", q->id);
		return;
	}
	switch (row->state) {
	case NODE_WANTED:
	case NODE_LAUNCHING:
	case NODE_UNKNOWN:
		areq_fail(q, SPOT_CONFLICT,
		    "node 'n%" PRId64 "' is %s and has nothing to drain; repeat after its boot",
		    q->id, node_state_name(row->state));
		return;
	case NODE_NONE:
	case NODE_BOOTING:
	case NODE_READY:
	case NODE_DRAINING:
	case NODE_TERMINATING:
	case NODE_GONE:
	case NODE_FAILED:
	case NODE_STATE_COUNT:
		break;
	}
	get_node(q);
}

void post_node_drain(struct areq *q)
{
	SQL(q, api_node_drain, drain_asked, .id = q->id, .actor = q->who.name,
	    .deadline_us = q->now_us + DRAIN_US, .at_us = q->now_us);
}

/* ---- end ------------------------------------------------------------------------------------- */

static void end_read(struct areq *q);

static void node_ended(struct areq *q)
{
	struct q_api_node_terminate_row *row;

	if (q_api_node_terminate_rows(&q->pg, q->arena, &row) == 1) {
		get_node(q);
	} else { /* it moved meanwhile: decide again on what it is now */
		SQL(q, api_node, end_read, .id = q->id);
	}
}

static void end_read(struct areq *q)
{
	struct q_api_node_row *row;
	enum node_event event;
	struct fsm_edge edge;

	if (q_api_node_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no node 'n%" PRId64 "'", q->id);
		return;
	}
	if (row->state == NODE_TERMINATING || row->state == NODE_GONE ||
	    row->state == NODE_FAILED) {
		get_node(q);
		return;
	}
	event = row->state == NODE_WANTED ? NODE_EV_UNWANTED : NODE_EV_TERMINATE;
	edge = node_edge(row->state, event);
	if (!edge.to || row->unsure) {
		areq_fail(q, SPOT_CONFLICT,
		    "node 'n%" PRId64 "' is %s and its launch is not confirmed; repeat later",
		    q->id, node_state_name(row->state));
		return;
	}
	SQL(q, api_node_terminate, node_ended, .id = q->id, .was = row->state,
	    .now = (enum node_state)edge.to, .event = event,
	    .why = arena_printf(q->arena, "ended by %s", q->who.name), .actor = q->who.name,
	    .at_us = q->now_us);
}

static void gentle_read(struct areq *q)
{
	struct q_api_node_row *row;
	enum node_state state = NODE_NONE;

	if (q_api_node_rows(&q->pg, q->arena, &row) == 1) {
		state = row->state;
	}
	/* A node that serves nobody yet has nothing to save. */
	if (state == NODE_READY || state == NODE_DRAINING) {
		post_node_drain(q);
	} else {
		end_read(q);
	}
}

void delete_node(struct areq *q)
{
	int64_t force;

	if (!areq_query_i64(q, "force", 0, 1, 0, &force)) {
		return;
	}
	if (force) {
		SQL(q, api_node, end_read, .id = q->id);
	} else {
		SQL(q, api_node, gentle_read, .id = q->id);
	}
}
