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

/* The filters of a list. areq_list_page reads the limit, which is the first member. */
struct nodes_asked {
	int32_t limit;
	enum node_state *states;
	size_t states_n;
	const char *provider;
	bool live, has_job, has_fleet;
	int64_t before, job, fleet;
};

static void nodes_list(struct areq *q)
{
	const struct nodes_asked *k = q->own;

	if (k->has_job) {
		SQL(q, api_nodes_of_job, nodes_done, .states = k->states, .states_n = k->states_n,
		    .live = k->live, .provider = k->provider, .job_id = k->job,
		    .has_fleet_id = k->has_fleet, .fleet_id = k->fleet, .before_id = k->before,
		    .most = k->limit + 1);
	} else if (k->states_n > 0 || k->provider || k->has_fleet) {
		SQL(q, api_nodes_filtered, nodes_done, .states = k->states, .states_n = k->states_n,
		    .live = k->live, .provider = k->provider, .has_fleet_id = k->has_fleet,
		    .fleet_id = k->fleet, .before_id = k->before, .most = k->limit + 1);
	} else if (k->live) {
		SQL(q, api_nodes_live, nodes_done, .before_id = k->before, .most = k->limit + 1);
	} else {
		SQL(q, api_nodes, nodes_done, .before_id = k->before, .most = k->limit + 1);
	}
}

static void nodes_fleet_named(struct areq *q)
{
	struct q_api_fleet_named_row *row;
	struct nodes_asked *k = q->own;

	if (q_api_fleet_named_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail_field(q, "fleet", "no fleet '%s'; give its id or its name",
		    areq_query(q, "fleet"));
		return;
	}
	k->fleet = row->id;
	nodes_list(q);
}

static bool nodes_states_read(struct areq *q, struct nodes_asked *k)
{
	const char **names = NULL, *state = areq_query(q, "state");

	k->live = state && strcmp(state, "live") == 0;
	if (!k->live && !areq_query_list(q, "state", &names, &k->states_n)) {
		return false;
	}
	k->states = arena_array(q->arena, k->states_n, sizeof(*k->states));
	for (size_t i = 0; i < k->states_n; i++) {
		k->states[i] = node_state_parse(names[i]);
		if (k->states[i] == NODE_NONE) {
			areq_fail_field(q, "state",
			    "no node state '%s'; valid are live, WANTED, LAUNCHING, UNKNOWN, "
			    "BOOTING, READY, DRAINING, TERMINATING, GONE, FAILED",
			    names[i]);
			return false;
		}
	}
	return true;
}

void get_nodes(struct areq *q)
{
	struct nodes_asked *k = arena_alloc(q->arena, sizeof(*k));
	const char *fleet = areq_query(q, "fleet");

	*k = (struct nodes_asked){ .provider = areq_query(q, "provider"),
		.has_fleet = fleet != NULL };
	if (!areq_page(q, INT64_MAX, &k->before, &k->limit) ||
	    !areq_query_id(q, "job", 'j', &k->has_job, &k->job) || !nodes_states_read(q, k)) {
		return;
	}
	q->own = k;
	/* A fleet has a name, too, which no id looks like. */
	if (fleet != NULL && !parse_id(fleet, 'f', &k->fleet)) {
		SQL(q, api_fleet_named, nodes_fleet_named, .name = fleet);
		return;
	}
	nodes_list(q);
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
