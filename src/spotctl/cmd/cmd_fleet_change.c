/* fleet scale, set, demand. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/cmd/cmd.h"
#include "spotctl/ctl.h"

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
	return rc != CTL_OK ? rc : render_one(c, r.json, fleet_cols);
}

int cmd_fleet_set(struct ctl *c)
{
	static const char *const keys[] = { "min", "max", "target", "headroom" };
	AUTO(json) json_t *body = json_object();
	struct reply r;
	int rc;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *value = opt_value(c, keys[i]);
		int64_t n;

		if (value != NULL && !parse_i64(value, 0, 100000, &n)) {
			say("spotctl fleet set: --%s must be a whole number from 0 to 100000",
			    keys[i]);
			return CTL_USAGE;
		}
		if (value != NULL) {
			json_object_set_new(body, keys[i], json_integer(n));
		}
	}
	if (json_object_size(body) == 0) {
		say("spotctl fleet set: use some of --min, --max, --target and --headroom");
		return CTL_USAGE;
	}
	rc = conn_send(c, "PATCH", fleet_path(c), NULL, str_from(json_text(c->arena, body)), &r);
	return rc != CTL_OK ? rc : render_one(c, r.json, fleet_cols);
}

/* Without an amount it shows the demand. */
int cmd_fleet_demand(struct ctl *c)
{
	static const struct column demand[] = { { "VALUE", "value", CELL_INT, ALWAYS },
		{ "UNIT", "unit", CELL_TEXT, ALWAYS }, { "BY", "by", CELL_TEXT, ALWAYS },
		{ "UNTIL", "until_at", CELL_TIME, ALWAYS },
		{ "QUERY", "metric.query", CELL_TEXT, ALWAYS },
		{ "ANSWER", "metric.value", CELL_REAL, ALWAYS },
		{ "ERROR", "metric.error", CELL_TEXT, WIDE }, { 0 } };
	static const char *const units[] = { "replicas", "nodes", "gpus" };
	const char *path = arena_printf(c->arena, "%s/demand", fleet_path(c)), *unit = NULL,
		   *ttl = opt_value(c, "ttl");
	int64_t n = 0, ttl_us = 120 * SPOT_US_PER_S;
	struct reply r;
	int given = 0, rc;

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (opt_value(c, units[i]) != NULL) {
			unit = units[i];
			given++;
		}
	}
	if (given > 1 || (unit == NULL && ttl != NULL) ||
	    (unit != NULL && !parse_i64(opt_value(c, unit), 0, 100000, &n)) ||
	    (ttl != NULL && (!parse_duration_us(ttl, &ttl_us) || ttl_us < SPOT_US_PER_S))) {
		say("spotctl fleet demand: use --replicas N, --nodes N or --gpus N, and --ttl such "
		    "as 5m");
		return CTL_USAGE;
	}
	rc = unit == NULL
	    ? conn_get(c, path, &r)
	    : conn_send(c, "PUT", path, NULL,
		  str_from(arena_printf(c->arena, "{\"%s\":%" PRId64 ",\"ttl_s\":%" PRId64 "}",
		      unit, n, ttl_us / SPOT_US_PER_S)),
		  &r);
	return rc != CTL_OK ? rc : render_one(c, r.json, demand);
}
