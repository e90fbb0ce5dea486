/* Fleets: create, list, show. */
#include "base/base.h"
#include "api/fleet/fleet_priv.h"

#include "core/fleet/fleet.h"

bool fleet_team_allowed(struct areq *q, const char *team)
{
	if (!*q->who.team || q->who.scope >= SCOPE_LEAD || strcmp(team, q->who.team) == 0) {
		return true;
	}
	areq_fail(q, SPOT_DENIED,
	    "token '%s' is limited to team '%s', and the fleet belongs to team '%s'; ask a lead",
	    q->who.name, q->who.team, *team ? team : "(none)");
	return false;
}

/* ---- create ---------------------------------------------------------------------------------- */

static void fleet_created(struct areq *q)
{
	struct q_api_fleet_create_row *row;

	if (q_api_fleet_create_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_INTERNAL, "the fleet was not written");
		return;
	}
	if (idem_overtaken(q, row->id)) {
		return;
	}
	q->id = row->id;
	httpd_set(q->http, "Location", arena_printf(q->arena, "/v1/fleets/f%" PRId64, row->id));
	show_fleet(q, 201);
}

static bool name_taken(struct areq *q)
{
	if (q->pg.op.rc != SPOT_CONFLICT) {
		return false;
	}
	areq_fail(q, SPOT_CONFLICT,
	    "a fleet that is not closed has this name; choose another name or change that fleet");
	return true;
}

void post_fleet(struct areq *q)
{
	struct fleet_spec *spec = NULL;
	const char *name = NULL;
	struct spot_err err = { 0 };
	json_t *doc;

	if (q->http->body.n == 0) {
		areq_fail(q, SPOT_INVALID,
		    "the body must be a fleet file (name, nodes or gpus, resources)");
		return;
	}
	if (fleet_spec_parse(q->arena, q->http->body, &spec, &name, &err) != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	if (!*spec->team) {
		spec->team = q->who.team;
	}
	if (!fleet_team_allowed(q, spec->team)) {
		return;
	}
	doc = fleet_spec_to_json(spec);
	SQL(q, api_fleet_create, fleet_created, .name = name, .owner = q->who.name,
	    .team = spec->team, .project = spec->project, .spec = json_text(q->arena, doc),
	    .at_us = q->now_us, .token_id = q->who.token_id,
	    .idem_key = q->idem_key ? q->idem_key : "");
	q->failed = name_taken;
	json_decref(doc);
}

/* ---- show ------------------------------------------------------------------------------------ */

static void fleets_done(struct areq *q)
{
	areq_list_page(q, &q_shape_api_fleets, NULL);
}

void get_fleets(struct areq *q)
{
	int32_t *limit = arena_alloc(q->arena, sizeof(*limit));
	const char *text = areq_query(q, "state");
	enum fleet_state state = fleet_state_parse(text);
	int64_t before;

	if (!areq_page(q, INT64_MAX, &before, limit)) {
		return;
	}
	if (text != NULL && state == FLEET_STATE_NONE) {
		areq_fail_field(q, "state", "must be 'ACTIVE', 'CLOSING' or 'CLOSED'");
		return;
	}
	q->own = limit;
	SQL(q, api_fleets, fleets_done, .state = state, .team = areq_query(q, "team"),
	    .before_id = before, .most = *limit + 1);
}

static void fleet_shown(struct areq *q)
{
	struct q_api_fleet_row *row;
	int status = *(int *)q->own;
	json_t *doc;

	if (q_api_fleet_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no fleet 'f%" PRId64 "'", q->id);
		return;
	}
	httpd_set(q->http, "ETag", arena_printf(q->arena, "\"v%" PRId64 "\"", row->version));
	doc = view_parse(row->doc);
	json_object_set_new(doc, "nodes", view_parse(row->nodes));
	json_object_set_new(doc, "node_prices", view_parse(row->prices));
	json_object_set_new(doc, "plan", row->plan != NULL ? view_parse(row->plan) : json_null());
	json_object_set_new(doc, "planned@",
	    row->plan_us > 0 ? json_integer(row->plan_us) : json_null());
	json_object_set_new(doc, "size", view_parse(row->size));
	json_object_set_new(doc, "demand", view_parse(row->demand));
	json_object_set_new(doc, "on_demand$", json_integer(row->on_demand_micros));
	json_object_set_new(doc, "moves",
	    row->moves != NULL ? view_parse(row->moves) : json_null());
	json_object_set_new(doc, "moves@",
	    row->moves_us > 0 ? json_integer(row->moves_us) : json_null());
	areq_json(q, status, doc);
}

static void fleet_look(struct areq *q)
{
	SQL(q, api_fleet, fleet_shown, .id = q->id);
}

void show_fleet(struct areq *q, int status)
{
	areq_show(q, status, fleet_look);
}

void get_fleet(struct areq *q)
{
	show_fleet(q, 200);
}
