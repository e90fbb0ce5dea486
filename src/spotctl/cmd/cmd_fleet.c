/* fleet create, ls, show, scale, rm. */
#include "base/base.h"
#include "base/text/str.h"
#include "spotctl/ctl.h"

static const struct column cols[] = { { "FLEET", "id", CELL_TEXT, false },
	{ "NAME", "name", CELL_TEXT, false }, { "STATE", "state", CELL_STATE, false },
	{ "WANT NODES", "spec.nodes", CELL_INT, false },
	{ "WANT GPUS", "spec.gpus", CELL_INT, false }, { "NODES", "nodes_live", CELL_INT, false },
	{ "READY", "nodes_ready", CELL_INT, false }, { "POOLS", "pools", CELL_INT, false },
	{ "USD", "cost_micros", CELL_USD, false }, { "AGE", "created_at", CELL_AGE, false },
	{ "OWNER", "owner", CELL_TEXT, true }, { "TEAM", "team", CELL_TEXT, true },
	{ "PROJECT", "project", CELL_TEXT, true }, { "WHY", "why", CELL_TEXT, true }, { 0 } };

static char *fleet_path(struct ctl *c)
{
	return arena_printf(c->arena, "/v1/fleets/%s", url_encode(c->arena, c->args[0], false));
}

/* ---- plans ----------------------------------------------------------------------------------- */

static const struct column place_cols[] = { { "POOL", "pool", CELL_TEXT, false },
	{ "PROVIDER", "provider", CELL_TEXT, false }, { "REGION", "region", CELL_TEXT, false },
	{ "ZONE", "zone", CELL_TEXT, false }, { "TYPE", "instance_type", CELL_TEXT, false },
	{ "GPU", "gpu", CELL_TEXT, false }, { "MARKET", "market", CELL_TEXT, false },
	{ "HAS", "held", CELL_INT, false }, { "ADD", "add", CELL_INT, false },
	{ "GIVE BACK", "give_back", CELL_INT, false }, { "USD/H", "price_micros", CELL_USD, false },
	{ "USD PER WORK HOUR", "work_micros", CELL_USD, false },
	{ "RECLAIMS/H", "reclaims_per_hour", CELL_RATE, false },
	{ "LAST ONE USD/H", "marginal_micros", CELL_USD, true }, { 0 } };
static const struct column limit_cols[] = { { "LIMIT", "limit", CELL_TEXT, false },
	{ "WHERE", "where", CELL_TEXT, false }, { "USED", "used", CELL_INT, false },
	{ "OF", "max", CELL_INT, false }, { "UNIT", "unit", CELL_TEXT, false },
	{ "POOLS KEPT OUT", "pools_kept_out", CELL_INT, false },
	{ "ONE MORE SAVES USD/H", "worth_micros", CELL_FINE, false }, { 0 } };

static double usd_of(const json_t *plan, const char *key)
{
	return (double)json_i64(plan, key, 0, NULL) / 1e6;
}

static double real_of(const json_t *plan, const char *key)
{
	return json_number_value(json_object_get(plan, key));
}

/* The sums so that they can be added up again. */
static void say_sums(const json_t *plan)
{
	const char *of = json_str(plan, "gpus_of", "", NULL),
		   *unit = json_str(plan, "unit", "nodes", NULL);

	say("wants %g %s%s, has %g; %" PRId64 " missing, %" PRId64 " to release; %" PRId64
	    " pools (pools_min %" PRId64 "); on-demand %g of %g",
	    real_of(plan, "want"), *of != '\0' ? "times the work of one " : unit, of,
	    real_of(plan, "have"), json_i64(plan, "missing", 0, NULL),
	    json_i64(plan, "surplus", 0, NULL), json_i64(plan, "pools", 0, NULL),
	    json_i64(plan, "pools_want", 0, NULL), real_of(plan, "floor_have"),
	    real_of(plan, "floor_want"));
	say("list price %.4f USD/h; expected %.4f USD per hour of work + risk %.4f = %.4f USD",
	    usd_of(plan, "hourly_micros"), usd_of(plan, "cost_micros"), usd_of(plan, "risk_micros"),
	    usd_of(plan, "total_micros"));
	say("risk: %.6f node losses per hour, weighted with the share of the fleet lost together, "
	    "at %.4f USD (%g h of the cheapest node)",
	    real_of(plan, "lost_together_per_hour"), usd_of(plan, "risk_price_micros"),
	    real_of(plan, "risk_hours"));
	say("lower bound %.4f USD: gap %.3f %%%s", usd_of(plan, "bound_micros"),
	    real_of(plan, "gap") * 100,
	    json_is_true(json_object_get(plan, "proved")) ? ", every alternative examined" : "");
	say("%s", json_str(plan, "why", "", NULL));
}

static int show_plan(struct ctl *c, json_t *plan)
{
	json_t *limits = json_object_get(plan, "limits");
	int rc = render_list(c, plan, json_object_get(plan, "pool_list"), place_cols,
	    "no pool can provide a node");

	if (c->format != FORMAT_TABLE && c->format != FORMAT_WIDE) {
		return rc;
	}
	if (rc == CTL_OK && json_array_size(limits) > 0) {
		putchar('\n');
		rc = render_list(c, plan, limits, limit_cols, "");
	}
	say_sums(plan);
	return rc;
}

/* ---- commands -------------------------------------------------------------------------------- */

int cmd_fleet_create(struct ctl *c)
{
	struct str file;
	struct reply r;
	int rc = read_input(c, c->args[0], &file);

	if (rc == CTL_OK && opt_flag(c, "dry-run")) {
		rc = conn_send(c, "POST", "/v1/fleets/plan", "application/yaml", file, &r);
		return rc != CTL_OK ? rc : show_plan(c, r.json);
	}
	if (rc == CTL_OK) {
		rc = conn_send(c, "POST", "/v1/fleets", "application/yaml", file, &r);
	}
	return rc != CTL_OK ? rc : render_one(c, r.json, cols);
}

int cmd_fleet_ls(struct ctl *c)
{
	return list_command(c, "/v1/fleets", cols,
	    "no fleets; 'spotctl fleet create FILE' creates one");
}

int cmd_fleet_show(struct ctl *c)
{
	static const struct column nodes[] = { { "NODE", "id", CELL_TEXT, false },
		{ "STATE", "state", CELL_STATE, false }, { "WHERE", "pool", CELL_PLACE, false },
		{ "TYPE", "pool.instance_type", CELL_TEXT, false },
		{ "MARKET", "pool.market", CELL_TEXT, false },
		{ "USD/H", "price_micros", CELL_USD, false }, { "JOB", "job", CELL_TEXT, false },
		{ "AGE", "created_at", CELL_AGE, false }, { 0 } };
	struct reply r;
	int rc = conn_get(c, fleet_path(c), &r);

	rc = rc != CTL_OK ? rc : render_one(c, r.json, cols);
	if (rc == CTL_OK && (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE)) {
		putchar('\n');
		rc =
		    render_list(c, r.json, json_object_get(r.json, "nodes"), nodes, "no nodes yet");
		if (rc == CTL_OK && json_is_object(json_object_get(r.json, "plan"))) {
			putchar('\n');
			rc = show_plan(c, json_object_get(r.json, "plan"));
		}
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
		say("spotctl fleet scale: use --nodes N or --gpus N, from 0 to 100000");
		return CTL_USAGE;
	}
	body = arena_printf(c->arena, "{\"%s\":%" PRId64 "}", nodes != NULL ? "nodes" : "gpus", n);
	rc = conn_send(c, "PATCH", fleet_path(c), NULL, str_from(body), &r);
	return rc != CTL_OK ? rc : render_one(c, r.json, cols);
}

int cmd_fleet_rm(struct ctl *c)
{
	struct reply r;
	int rc = conn_send(c, "DELETE", fleet_path(c), NULL, (struct str){ 0 }, &r);

	return rc != CTL_OK
	    ? rc
	    : render_done(c, &r, "%s: closing; its nodes are being released", c->args[0]);
}
