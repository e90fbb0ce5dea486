/* /v1/fleets/{fleet}/demand: capacity that something outside asks for, for a limited time. */
#include "base/base.h"
#include "api/fleet/fleet_priv.h"

#define VALUE_MAX 100000
#define TTL_S 120
#define TTL_MAX_S 86400

struct demand_ask {
	int64_t version; /* of If-Match; 0 = none sent */
	const char *unit;
	int64_t value, ttl_s;
};

static void demand_shown(struct areq *q)
{
	struct q_api_fleet_row *row;
	json_t *doc;

	if (q_api_fleet_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no fleet 'f%" PRId64 "'", q->id);
		return;
	}
	doc = view_parse(row->demand);
	httpd_set(q->http, "ETag",
	    arena_printf(q->arena, "\"v%" PRId64 "\"", json_i64(doc, "version", 0, NULL)));
	areq_json(q, 200, doc);
}

static void demand_show(struct areq *q)
{
	SQL(q, api_fleet, demand_shown, .id = q->id);
}

void get_fleet_demand(struct areq *q)
{
	demand_show(q);
}

static void demand_set(struct areq *q)
{
	struct q_api_fleet_demand_row *row;
	struct spot_err err = { 0 };

	if (q_api_fleet_demand_rows(&q->pg, q->arena, &row) == 1) {
		demand_show(q);
		return;
	}
	err_set(&err, SPOT_CONFLICT,
	    "the demand of fleet 'f%" PRId64 "' was changed meanwhile; read it again and repeat",
	    q->id);
	areq_problem(q, 412, &err, "If-Match");
}

static void demand_read(struct areq *q)
{
	const struct demand_ask *d = q->own;
	struct q_api_fleet_row *row;
	const char *unit;

	if (q_api_fleet_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no fleet 'f%" PRId64 "'", q->id);
		return;
	}
	if (!fleet_team_allowed(q, row->team)) {
		return;
	}
	AUTO(json) json_t *spec = view_parse(row->spec);
	const json_t *s = json_object_get(spec, "scaling");

	if (row->state != FLEET_ACTIVE) {
		areq_fail(q, SPOT_CONFLICT, "fleet 'f%" PRId64 "' is %s", q->id,
		    fleet_state_name(row->state));
		return;
	}
	unit = json_str(s, "unit", "", NULL);
	if (*unit == '\0' || json_i64(s, "min", 0, NULL) == json_i64(s, "max", 0, NULL)) {
		areq_fail(q, SPOT_CONFLICT,
		    "the size of fleet 'f%" PRId64
		    "' is fixed; give a range in its file, such as nodes: {min: 0, max: 8}",
		    q->id);
		return;
	}
	if (strcmp(d->unit, "replicas") != 0 && strcmp(d->unit, unit) != 0) {
		areq_fail_field(q, d->unit, "the size of this fleet counts '%s'", unit);
		return;
	}
	SQL(q, api_fleet_demand, demand_set, .id = q->id, .version = d->version,
	    .demand = (int32_t)d->value, .unit = d->unit,
	    .until_us = q->now_us + d->ttl_s * SPOT_US_PER_S, .actor = q->who.name,
	    .at_us = q->now_us);
}

void put_fleet_demand(struct areq *q)
{
	static const char *const known[] = { "replicas", "nodes", "gpus", "ttl_s", NULL };
	struct demand_ask *d = arena_alloc(q->arena, sizeof(*d));
	struct spot_err err = { 0 };
	json_t *body;

	if (!areq_body(q, &body) || !areq_body_keys(q, body, known) ||
	    !fleet_if_match(q, &d->version)) {
		return;
	}
	for (size_t i = 0; i < 3; i++) {
		if (json_object_get(body, known[i]) != NULL) {
			if (d->unit != NULL) {
				areq_fail_field(q, known[i],
				    "give replicas, nodes or gpus, only one");
				return;
			}
			d->unit = known[i];
		}
	}
	if (d->unit == NULL) {
		areq_fail(q, SPOT_INVALID, "the body must have 'replicas', 'nodes' or 'gpus'");
		return;
	}
	d->value = json_need_i64(body, d->unit, &err);
	if (err.rc != SPOT_OK || d->value < 0 || d->value > VALUE_MAX) {
		areq_fail_field(q, d->unit, "must be a whole number from 0 to %d", VALUE_MAX);
		return;
	}
	d->ttl_s = json_i64(body, "ttl_s", TTL_S, &err);
	if (err.rc != SPOT_OK || d->ttl_s < 1 || d->ttl_s > TTL_MAX_S) {
		areq_fail_field(q, "ttl_s", "must be a number of seconds from 1 to %d", TTL_MAX_S);
		return;
	}
	q->own = d;
	SQL(q, api_fleet, demand_read, .id = q->id);
}
