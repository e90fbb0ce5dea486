/* cost and rebalance. */
#include "base/base.h"
#include "base/clock.h"
#include "base/str.h"
#include "spotctl/ctl.h"

static int time_param(struct ctl *c, const char *name, char **ret)
{
	const char *v = opt_value(c, name);
	char buf[TIME_TEXT_MAX];
	int64_t us;

	*ret = NULL;
	if (v == NULL) {
		return CTL_OK;
	}
	if (!parse_time_us(v, &us)) {
		if (!parse_duration_us(v, &us)) {
			say("spotctl cost: --%s wants a time such as 2026-01-31T00:00:00Z, or a duration such as 7d", name);
			return CTL_USAGE;
		}
		us = clock_real.wall_us(&clock_real) - us;
	}
	*ret = arena_printf(c->arena, "%s=%s", name, url_encode(c->arena, format_time(us, buf), false));
	return CTL_OK;
}

static int job_cost(struct ctl *c, const char *job)
{
	static const struct column cols[] = {
		{"KIND", "kind", CELL_TEXT, false}, {"USD", "amount_micros", CELL_USD, false}, {"SECONDS", "seconds", CELL_REAL, false},
		{"POOL", "pool", CELL_PLACE, false}, {"MARKET", "market", CELL_TEXT, false},
		{"USD/H", "price_micros", CELL_USD_HOUR, false}, {"NODE", "node", CELL_TEXT, false}, {"TRY", "epoch", CELL_INT, false},
		{"FROM", "from_at", CELL_TIME, true}, {"TO", "to_at", CELL_TIME, true}, {0}};
	struct reply r;
	const json_t *savings, *s;
	size_t i;
	int rc = conn_get(c, arena_printf(c->arena, "/v1/jobs/%s/cost", url_encode(c->arena, job, false)), &r);

	if (rc != CTL_OK) {
		return rc;
	}
	if (c->format == FORMAT_JSON) {
		return render_json(r.json);
	}
	rc = render_list(c, r.json, json_object_get(r.json, "items"), cols, "nothing was spent yet");
	printf("total  %.6f USD\n", (double)json_i64(r.json, "total_micros", 0, NULL) / 1e6);
	savings = json_object_get(r.json, "savings");
	json_array_foreach(savings, i, s) {
		printf("against %s: %.6f USD, saved %.1f %%\n", json_str(s, "baseline", "", NULL),
		    (double)json_i64(s, "baseline_micros", 0, NULL) / 1e6, json_f64(s, "saved_pct", 0, NULL));
	}
	return rc;
}

int cmd_cost(struct ctl *c)
{
	static const struct column cols[] = {
		{"WHO", "key", CELL_TEXT, false}, {"COMPUTE", "compute_micros", CELL_USD, false}, {"BOOT", "boot_micros", CELL_USD, false},
		{"IDLE", "idle_micros", CELL_USD, false}, {"LOST WORK", "lost_work_micros", CELL_USD, false},
		{"TOTAL USD", "total_micros", CELL_USD, false}, {"NODE HOURS", "node_hours", CELL_REAL, false}, {0}};
	char *since, *until, *path;
	struct reply r;
	int rc;

	if (opt_value(c, "job") != NULL) {
		return job_cost(c, opt_value(c, "job"));
	}
	rc = time_param(c, "since", &since);
	rc = rc != CTL_OK ? rc : time_param(c, "until", &until);
	if (rc != CTL_OK) {
		return rc;
	}
	path = arena_printf(c->arena, "/v1/cost?%s%s%s%s%s", opt_value(c, "by") == NULL ? "by=team" : "limit=1000",
	    since != NULL ? "&" : "", since != NULL ? since : "", until != NULL ? "&" : "", until != NULL ? until : "");
	path = opts_path(c, path);
	rc = conn_get(c, path, &r);
	if (rc != CTL_OK) {
		return rc;
	}
	rc = render_list(c, r.json, json_object_get(r.json, "items"), cols, "nothing was spent in that time");
	if (rc == CTL_OK && (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE)) {
		printf("total  %.6f USD\n", (double)json_i64(json_object_get(r.json, "total"), "total_micros", 0, NULL) / 1e6);
	}
	return rc;
}

static int show_moves(struct ctl *c, const json_t *out)
{
	static const struct column cols[] = {
		{"JOB", "job", CELL_TEXT, false}, {"FROM", "from", CELL_PLACE, false}, {"TO", "to", CELL_PLACE, false},
		{"SAVES", "saving_micros", CELL_USD, false}, {"COSTS", "cost_micros", CELL_USD, false}, {"WHY", "why", CELL_TEXT, false},
		{0}};

	if (c->format == FORMAT_JSON) {
		return render_json(out);
	}
	return render_list(c, out, json_object_get(out, "moves"), cols, "nothing to move: every running job is where it should be");
}

int cmd_rebalance(struct ctl *c)
{
	const char *timeout = opt_value(c, "timeout"), *id;
	int64_t left = 120;
	struct reply r;
	int rc;

	if (timeout != NULL && !parse_i64(timeout, 1, 86400, &left)) {
		say("spotctl rebalance: --timeout wants seconds");
		return CTL_USAGE;
	}
	rc = conn_send(c, "POST", "/v1/rebalance", NULL,
	    opt_flag(c, "dry-run") ? STR_LIT("{\"dry_run\":true}") : STR_LIT("{\"dry_run\":false}"), &r);
	if (rc != CTL_OK) {
		return rc;
	}
	id = json_str(r.json, "id", "", NULL);
	left = left * SPOT_US_PER_S + clock_real.mono_us(&clock_real);
	while (clock_real.mono_us(&clock_real) < left) {
		rc = conn_get(c, arena_printf(c->arena, "/v1/rebalance/%s?timeout_s=20", id), &r);
		if (rc != CTL_OK) {
			return rc;
		}
		if (strcmp(json_str(r.json, "state", "", NULL), "done") == 0) {
			return show_moves(c, r.json);
		}
	}
	say("spotctl rebalance: %s is not evaluated yet; is an engine running?", id);
	return CTL_UNREACHABLE;
}
