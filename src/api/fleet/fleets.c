/* Fleets: create, list, show, resize with If-Match, close. */
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

/* ---- change ---------------------------------------------------------------------------------- */

struct fleet_change {
	int64_t version; /* of If-Match; 0 = none sent */
	bool closing, by_gpus;
	int64_t size;
};

bool fleet_if_match(struct areq *q, int64_t *version)
{
	const char *m = httpd_header(q->http, "if-match");
	struct spot_err err = { 0 };
	size_t n;

	if (!m || strcmp(m, "*") == 0) {
		return true;
	}
	n = strlen(m);
	if (n >= 4 && str_prefix(m, "\"v") && m[n - 1] == '"' &&
	    parse_i64(arena_strndup(q->arena, m + 2, n - 3), 1, INT64_MAX, version)) {
		return true;
	}
	err_set(&err, SPOT_CONFLICT, "If-Match must be an ETag of this route, such as \"v3\"");
	areq_problem(q, 412, &err, "If-Match");
	return false;
}

static void fleet_changed(struct areq *q)
{
	struct q_api_fleet_update_row *row;
	struct spot_err err = { 0 };

	if (q_api_fleet_update_rows(&q->pg, q->arena, &row) == 1) {
		show_fleet(q, q->route->status);
		return;
	}
	err_set(&err, SPOT_CONFLICT,
	    "fleet 'f%" PRId64 "' was changed meanwhile; read it again and repeat", q->id);
	areq_problem(q, 412, &err, "If-Match");
}

/* Sets the new size in a stored spec. *ret_scaled: the row has it, too. NULL: replied. */
static const char *spec_resize(struct areq *q, const char *stored, const struct fleet_change *c,
    bool *ret_scaled)
{
	const char *unit = c->by_gpus ? "gpus" : "nodes", *text;
	AUTO(json) json_t *spec = view_parse(stored);
	json_t *s = json_object_get(spec, "scaling");
	int64_t least = json_i64(s, "min", 0, NULL), most = json_i64(s, "max", 0, NULL);

	*ret_scaled = json_is_object(s);
	if (!*ret_scaled) {
		json_object_del(spec, c->by_gpus ? "nodes" : "gpus");
	} else if (strcmp(json_str(s, "unit", "", NULL), unit) != 0) {
		areq_fail_field(q, unit, "the size of this fleet counts '%s'",
		    json_str(s, "unit", "", NULL));
		return NULL;
	} else if (least == most) {
		json_object_set_new(s, "min", json_integer(c->size));
		json_object_set_new(s, "max", json_integer(c->size));
	} else if (c->size < least || c->size > most) {
		areq_fail_field(q, unit, "must be from min %" PRId64 " to max %" PRId64, least,
		    most);
		return NULL;
	}
	if (*ret_scaled) {
		json_object_set_new(s, "target", json_integer(c->size));
	}
	json_object_set_new(spec, unit, json_integer(c->size));
	text = json_text(q->arena, spec);
	return text;
}

static void change_read(struct areq *q)
{
	struct fleet_change *c = q->own;
	struct q_api_fleet_row *row;
	struct spot_err err = { 0 };
	const char *spec = NULL;
	bool scaled = false;

	if (q_api_fleet_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no fleet 'f%" PRId64 "'", q->id);
		return;
	}
	if (!fleet_team_allowed(q, row->team)) {
		return;
	}
	if (c->version && c->version != row->version) {
		err_set(&err, SPOT_CONFLICT,
		    "fleet 'f%" PRId64 "' is at version %" PRId64 "; read it again and repeat",
		    q->id, row->version);
		areq_problem(q, 412, &err, "If-Match");
		return;
	}
	if (row->state != FLEET_ACTIVE) {
		if (c->closing) {
			show_fleet(q, q->route->status);
		} else {
			areq_fail(q, SPOT_CONFLICT,
			    "fleet 'f%" PRId64 "' is %s and cannot be changed", q->id,
			    fleet_state_name(row->state));
		}
		return;
	}
	if (!c->closing && (spec = spec_resize(q, row->spec, c, &scaled)) == NULL) {
		return;
	}
	SQL(q, api_fleet_update, fleet_changed, .id = q->id, .version = row->version, .spec = spec,
	    .closing = c->closing, .has_size = scaled, .size = (int32_t)c->size,
	    .why = c->closing ? "closed by request"
			      : arena_printf(q->arena, "wanted size is now %" PRId64 " %s", c->size,
				    c->by_gpus ? "GPUs" : "nodes"),
	    .actor = q->who.name, .at_us = q->now_us);
}

void patch_fleet(struct areq *q)
{
	static const char *const known[] = { "nodes", "gpus", NULL };
	struct fleet_change *c = arena_alloc(q->arena, sizeof(*c));
	struct spot_err err = { 0 };
	const char *key;
	json_t *body;

	if (!areq_body(q, &body) || !areq_body_keys(q, body, known) ||
	    !fleet_if_match(q, &c->version)) {
		return;
	}
	if (json_object_size(body) != 1) {
		areq_fail(q, SPOT_INVALID, "the body must have either 'nodes' or 'gpus'");
		return;
	}
	c->by_gpus = json_object_get(body, "gpus") != NULL;
	key = c->by_gpus ? "gpus" : "nodes";
	c->size = json_need_i64(body, key, &err);
	if (err.rc != SPOT_OK || c->size < 0 || c->size > 100000) {
		areq_fail_field(q, key, "must be a whole number from 0 to 100000");
		return;
	}
	q->own = c;
	SQL(q, api_fleet, change_read, .id = q->id);
}

void delete_fleet(struct areq *q)
{
	struct fleet_change *c = arena_alloc(q->arena, sizeof(*c));

	if (!fleet_if_match(q, &c->version)) {
		return;
	}
	c->closing = true;
	q->own = c;
	SQL(q, api_fleet, change_read, .id = q->id);
}
