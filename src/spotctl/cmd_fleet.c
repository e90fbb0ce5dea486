/* fleet create, ls, show, scale, rm. */
#include "base/base.h"
#include "base/str.h"
#include "spotctl/ctl.h"

static const struct column cols[] = {
	{"FLEET", "id", CELL_TEXT, false}, {"NAME", "name", CELL_TEXT, false}, {"STATE", "state", CELL_STATE, false},
	{"WANT NODES", "spec.nodes", CELL_INT, false}, {"WANT GPUS", "spec.gpus", CELL_INT, false},
	{"NODES", "nodes_live", CELL_INT, false}, {"READY", "nodes_ready", CELL_INT, false},
	{"POOLS", "pools", CELL_INT, false}, {"USD", "cost_micros", CELL_USD, false},
	{"AGE", "created_at", CELL_AGE, false}, {"OWNER", "owner", CELL_TEXT, true}, {"TEAM", "team", CELL_TEXT, true},
	{"PROJECT", "project", CELL_TEXT, true}, {"WHY", "why", CELL_TEXT, true}, {0}};

static char *fleet_path(struct ctl *c)
{
	return arena_printf(c->arena, "/v1/fleets/%s", url_encode(c->arena, c->args[0], false));
}

int cmd_fleet_create(struct ctl *c)
{
	struct str file;
	struct reply r;
	int rc = read_input(c, c->args[0], &file);

	if (rc == CTL_OK) {
		rc = conn_send(c, "POST", "/v1/fleets", "application/yaml", file, &r);
	}
	return rc != CTL_OK ? rc : render_one(c, r.json, cols);
}

int cmd_fleet_ls(struct ctl *c)
{
	return list_command(c, "/v1/fleets", cols, "no fleets: 'spotctl fleet create FILE' makes one");
}

int cmd_fleet_show(struct ctl *c)
{
	static const struct column nodes[] = {
		{"NODE", "id", CELL_TEXT, false}, {"STATE", "state", CELL_STATE, false}, {"WHERE", "pool", CELL_PLACE, false},
		{"TYPE", "pool.instance_type", CELL_TEXT, false}, {"MARKET", "pool.market", CELL_TEXT, false},
		{"USD/H", "price_micros", CELL_USD, false}, {"JOB", "job", CELL_TEXT, false}, {"AGE", "created_at", CELL_AGE, false}, {0}};
	struct reply r;
	int rc = conn_get(c, fleet_path(c), &r);

	rc = rc != CTL_OK ? rc : render_one(c, r.json, cols);
	if (rc == CTL_OK && (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE)) {
		putchar('\n');
		rc = render_list(c, r.json, json_object_get(r.json, "nodes"), nodes, "no nodes yet");
	}
	return rc;
}

int cmd_fleet_scale(struct ctl *c)
{
	const char *nodes = opt_value(c, "nodes"), *gpus = opt_value(c, "gpus");
	const char *value = nodes != NULL ? nodes : gpus;
	struct reply r;
	int64_t n;
	char *body;
	int rc;

	if ((nodes == NULL) == (gpus == NULL) || !parse_i64(value, 0, 100000, &n)) {
		say("spotctl fleet scale: --nodes N or --gpus N, from 0 to 100000");
		return CTL_USAGE;
	}
	body = arena_printf(c->arena, "{\"%s\":%" PRId64 "}", nodes != NULL ? "nodes" : "gpus", n);
	rc = conn_send(c, "PATCH", fleet_path(c), NULL, str_from(body), &r);
	return rc != CTL_OK ? rc : render_one(c, r.json, cols);
}

int cmd_fleet_rm(struct ctl *c)
{
	struct reply r;
	int rc = conn_send(c, "DELETE", fleet_path(c), NULL, (struct str){0}, &r);

	return rc != CTL_OK ? rc : render_done(c, &r, "%s: being closed; its nodes are given back", c->args[0]);
}
