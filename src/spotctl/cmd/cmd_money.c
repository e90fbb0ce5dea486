/* cost and rebalance. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

int time_param(struct ctl *c, const char *name, char **path)
{
	const char *v = opt_value(c, name);
	char buf[TIME_TEXT_MAX];
	int64_t us;

	if (v == NULL) {
		return CTL_OK;
	}
	if (!parse_time_us(v, &us)) {
		if (!parse_duration_us(v, &us)) {
			say("spotctl %s: --%s must be a time such as 2026-01-31T00:00:00Z or a "
			    "duration such as 7d, not '%s'",
			    c->cmd->noun, name, v);
			return CTL_USAGE;
		}
		us = clock_real.wall_us(&clock_real) - us;
	}
	*path = arena_printf(c->arena, "%s&%s=%s", *path, name,
	    url_encode(c->arena, format_time(us, buf), false));
	return CTL_OK;
}

static void say_savings(struct ctl *c, const json_t *cost)
{
	const json_t *savings = json_object_get(cost, "savings"), *s;
	size_t i;

	json_array_foreach (savings, i, s) {
		printf("against %s: %s USD, saved %.1f %%\n",
		    text_clean(c->arena, json_str(s, "baseline", "?", NULL)),
		    usd_text(c, json_i64(s, "baseline_micros", 0, NULL), 6),
		    json_f64(s, "saved_pct", 0, NULL));
	}
}

static int job_cost(struct ctl *c, const char *job)
{
	static const struct column cols[] = { { "KIND", "kind", CELL_TEXT, ALWAYS },
		{ "USD", "amount_micros", CELL_USD, ALWAYS },
		{ "SECONDS", "seconds", CELL_REAL, SPARE_1 },
		{ "POOL", "pool", CELL_PLACE, ALWAYS },
		{ "TYPE", "pool.instance_type", CELL_TEXT, SPARE_2 },
		{ "MARKET", "market", CELL_TEXT, ALWAYS },
		{ "USD/H", "price_micros", CELL_USD, ALWAYS },
		{ "NODE", "node", CELL_TEXT, ALWAYS }, { "TRY", "epoch", CELL_INT, SPARE_1 },
		{ "FROM", "from_at", CELL_TIME, WIDE }, { "TO", "to_at", CELL_TIME, WIDE }, { 0 } };
	struct reply r;
	int rc;

	if (opt_flag(c, "by") || opt_flag(c, "since") || opt_flag(c, "until")) {
		say("spotctl cost: --job cannot be combined with --by, --since and --until");
		return CTL_USAGE;
	}
	rc = conn_get(c,
	    arena_printf(c->arena, "/v1/jobs/%s/cost", url_encode(c->arena, job, false)), &r);
	rc = rc != CTL_OK ? rc
			  : render_list(c, r.json, json_object_get(r.json, "items"), cols,
				"nothing was spent yet");
	if (rc == CTL_OK && (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE)) {
		printf("total  %s USD\n",
		    usd_text(c, json_i64(r.json, "total_micros", 0, NULL), 6));
		say_savings(c, r.json);
	}
	return rc;
}

#define DIMENSIONS_MAX 8

/* A column for each dimension asked for, then the sums. */
static const struct column *cost_columns(struct ctl *c, const json_t *by)
{
	static const struct column sums[] = { { "COMPUTE", "compute_micros", CELL_USD, ALWAYS },
		{ "BOOT", "boot_micros", CELL_USD, ALWAYS },
		{ "IDLE", "idle_micros", CELL_USD, ALWAYS },
		{ "LOST WORK", "lost_work_micros", CELL_USD, ALWAYS },
		{ "CREDIT", "credit_micros", CELL_USD, ALWAYS },
		{ "TOTAL USD", "total_micros", CELL_USD, ALWAYS },
		{ "GPU HOURS", "gpu_hours", CELL_REAL, ALWAYS }, { 0 } };
	struct column *cols =
	    arena_array(c->arena, DIMENSIONS_MAX + ARRAY_LEN(sums), sizeof(*cols));
	size_t n = 0, i;
	const json_t *name;

	json_array_foreach (by, i, name) {
		if (json_is_string(name) && n < DIMENSIONS_MAX) {
			char *head = arena_strdup(c->arena, json_string_value(name));

			for (char *p = head; *p != '\0'; p++) {
				*p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
			}
			cols[n++] =
			    (struct column){ head, json_string_value(name), CELL_TEXT, ALWAYS };
		}
	}
	memcpy(&cols[n], sums, sizeof(sums));
	return cols;
}

int cmd_cost(struct ctl *c)
{
	const char *by = opt_value(c, "by");
	char *path = arena_printf(c->arena, "/v1/cost?by=%s",
	    url_encode(c->arena, by != NULL ? by : "team", false));
	struct reply r;
	int rc;

	if (opt_value(c, "job") != NULL) {
		return job_cost(c, opt_value(c, "job"));
	}
	rc = time_param(c, "since", &path);
	rc = rc != CTL_OK ? rc : time_param(c, "until", &path);
	rc = rc != CTL_OK ? rc : conn_get(c, path, &r);
	if (rc != CTL_OK) {
		return rc;
	}
	rc = render_list(c, r.json, json_object_get(r.json, "rows"),
	    cost_columns(c, json_object_get(r.json, "by")), "nothing was spent in that time");
	if (rc == CTL_OK && (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE)) {
		printf("total  %s USD\n",
		    usd_text(c,
			json_i64(json_object_get(r.json, "totals"), "total_micros", 0, NULL), 6));
	}
	return rc;
}

/* ---- rebalance ------------------------------------------------------------------------------- */

/* The items of a list that are about fleets, or those about jobs. */
static json_t *moves_of(const json_t *list, bool fleets)
{
	json_t *out = json_array(), *k;
	size_t i;

	json_array_foreach (list, i, k) {
		if ((json_object_get(k, "fleet") != NULL) == fleets) {
			json_array_append(out, k);
		}
	}
	return out;
}

static const struct column job_moves[] = { { "JOB", "job", CELL_TEXT, ALWAYS },
	{ "FROM", "from", CELL_PLACE, ALWAYS },
	{ "TYPE", "from.instance_type", CELL_TEXT, SPARE_2 }, { "TO", "to", CELL_PLACE, ALWAYS },
	{ "TYPE", "to.instance_type", CELL_TEXT, ALWAYS },
	{ "SAVES", "saving_micros", CELL_USD, ALWAYS },
	{ "COSTS", "cost_micros", CELL_USD, SPARE_1 }, { "WHY", "why", CELL_TEXT, ALWAYS }, { 0 } };
static const struct column node_moves[] = { { "FLEET", "fleet", CELL_TEXT, ALWAYS },
	{ "NODE", "node", CELL_TEXT, ALWAYS }, { "JOB", "job", CELL_TEXT, SPARE_2 },
	{ "FROM", "from", CELL_PLACE, ALWAYS }, { "MARKET", "from.market", CELL_TEXT, SPARE_1 },
	{ "TO", "to", CELL_PLACE, ALWAYS }, { "MARKET", "to.market", CELL_TEXT, ALWAYS },
	{ "SAVES", "saving_micros", CELL_USD, ALWAYS },
	{ "COSTS", "cost_micros", CELL_USD, SPARE_1 }, { "WHY", "why", CELL_TEXT, WIDE }, { 0 } };
static const struct column node_stays[] = { { "FLEET", "fleet", CELL_TEXT, ALWAYS },
	{ "NODE", "node", CELL_TEXT, ALWAYS }, { "JOB", "job", CELL_TEXT, SPARE_1 },
	{ "STAYS", "why", CELL_TEXT, ALWAYS }, { 0 } };

static void say_kept(struct ctl *c, json_t *kept)
{
	json_t *k;
	size_t i;

	if (c->format == FORMAT_WIDE) {
		json_array_foreach (kept, i, k) {
			say("%s stays: %s", json_str(k, "job", "?", NULL),
			    json_str(k, "why", "", NULL));
		}
	} else if (c->format == FORMAT_TABLE && json_array_size(kept) > 0) {
		say("%zu stay where they are (-o wide shows the reasons)", json_array_size(kept));
	}
}

static int show_fleet_moves(struct ctl *c, json_t *out, bool dry)
{
	AUTO(json) json_t *moves = moves_of(json_object_get(out, "moves"), true);
	AUTO(json) json_t *kept = moves_of(json_object_get(out, "kept"), true);
	int rc = CTL_OK;

	if (json_array_size(moves) + json_array_size(kept) == 0) {
		return CTL_OK;
	}
	putchar('\n');
	rc = render_list(c, out, moves, node_moves, "no node of a fleet moves now");
	if (rc == CTL_OK && (dry || c->format == FORMAT_WIDE) && json_array_size(kept) > 0) {
		putchar('\n');
		rc = render_list(c, out, kept, node_stays, "");
	}
	return rc;
}

static void name_moves(struct ctl *c, const json_t *moves)
{
	json_t *k;
	size_t i;

	json_array_foreach (moves, i, k) {
		const char *node = json_str(k, "node", NULL, NULL);

		printf("%s\n",
		    text_clean(c->arena, node != NULL ? node : json_str(k, "job", "", NULL)));
	}
}

static int show_moves(struct ctl *c, json_t *out, bool dry)
{
	json_t *all = json_object_get(out, "moves");
	AUTO(json) json_t *moves = moves_of(all, false);
	AUTO(json) json_t *kept = moves_of(json_object_get(out, "kept"), false);
	bool table = c->format == FORMAT_TABLE || c->format == FORMAT_WIDE;
	int rc = CTL_OK;

	if (c->format == FORMAT_NAME) {
		name_moves(c, all);
		return CTL_OK;
	}
	if (!table || json_str(out, "fleet", NULL, NULL) == NULL) {
		rc = render_list(c, out, table ? moves : all, job_moves,
		    "nothing to move: every running job is in the best place");
		say_kept(c, kept);
	}
	if (rc == CTL_OK && table) {
		rc = show_fleet_moves(c, out, dry);
	}
	if (dry && json_array_size(all) > 0 && c->format != FORMAT_JSON) {
		say("dry run: nothing was moved");
	}
	return rc;
}

/* Returns -1 while the engine has not answered. */
static int rebalance_look(struct ctl *c, const char *path, bool dry)
{
	struct reply r;
	int rc = conn_poll(c, path, false, &r);

	if (rc == CTL_UNREACHABLE) {
		pause_ms(1000);
		return -1;
	}
	if (rc != CTL_OK) {
		return rc;
	}
	if (strcmp(json_str(r.json, "state", "", NULL), "done") != 0) {
		pause_ms(100);
		return -1;
	}
	return show_moves(c, r.json, dry);
}

int cmd_rebalance(struct ctl *c)
{
	const char *timeout = opt_value(c, "timeout"), *id;
	bool dry = opt_flag(c, "dry-run");
	int64_t wait_s = 120, until;
	AUTO(json) json_t *ask = json_pack("{s:b}", "dry_run", dry);
	struct reply r;
	int rc;

	if (opt_value(c, "fleet") != NULL) {
		json_object_set_new(ask, "fleet", json_string(opt_value(c, "fleet")));
	}
	if (timeout != NULL && !parse_i64(timeout, 1, 86400, &wait_s)) {
		say("spotctl rebalance: --timeout must be seconds, not '%s'", timeout);
		return CTL_USAGE;
	}
	rc = conn_send(c, "POST", "/v1/rebalance", NULL, str_from(json_text(c->arena, ask)), &r);
	if (rc != CTL_OK) {
		return rc;
	}
	id = json_str(r.json, "id", "", NULL);
	until = clock_real.mono_us(&clock_real) + wait_s * SPOT_US_PER_S;
	rc = strcmp(json_str(r.json, "state", "", NULL), "done") == 0 ? show_moves(c, r.json, dry)
								      : -1;
	while (rc < 0 && clock_real.mono_us(&clock_real) < until) {
		int64_t left = 1 + (until - clock_real.mono_us(&clock_real)) / SPOT_US_PER_S;
		struct round round;

		round_begin(c, &round);
		rc = rebalance_look(c,
		    arena_printf(c->arena, "/v1/rebalance/%s?timeout_s=%" PRId64,
			url_encode(c->arena, id, false), MIN(left, 20)),
		    dry);
		round_end(c, &round);
	}
	if (rc < 0) {
		say("spotctl rebalance: %s is not done after %" PRId64
		    " s; check that an engine runs (GET /readyz)",
		    id, wait_s);
		return CTL_UNREACHABLE;
	}
	return rc;
}

int cmd_rebalance_report(struct ctl *c)
{
	static const struct column cols[] = { { "AT", "at", CELL_TIME, ALWAYS },
		{ "KIND", "kind", CELL_TEXT, SPARE_3 }, { "JOB", "job", CELL_TEXT, ALWAYS },
		{ "FLEET", "fleet", CELL_TEXT, ALWAYS }, { "FROM", "from", CELL_TEXT, ALWAYS },
		{ "TO", "to", CELL_TEXT, ALWAYS }, { "HOURS", "hours", CELL_HOURS, SPARE_3 },
		{ "EXPECTED", "saving_micros", CELL_USD, ALWAYS },
		{ "STAYING", "stay_micros", CELL_USD, SPARE_2 },
		{ "PAID", "paid_micros", CELL_USD, SPARE_1 },
		{ "EARNED", "earned_micros", CELL_USD, ALWAYS },
		{ "DECISION", "decision", CELL_TEXT, WIDE }, { "WHY", "why", CELL_TEXT, WIDE },
		{ 0 } };
	char *query = arena_strdup(c->arena, "");
	struct reply r;
	const char *fleet = opt_value(c, "fleet");
	int rc = time_param(c, "since", &query);

	if (fleet != NULL) {
		query = arena_printf(c->arena, "%s&fleet=%s", query,
		    url_encode(c->arena, fleet, false));
	}
	rc = rc != CTL_OK ? rc
			  : conn_get(c,
				arena_printf(c->arena, "/v1/moves%s%s", *query ? "?" : "",
				    *query ? query + 1 : ""),
				&r);
	if (rc != CTL_OK) {
		return rc;
	}
	rc = render_list(c, r.json, json_object_get(r.json, "items"), cols,
	    "no planned move in that time");
	if (rc == CTL_OK && c->format == FORMAT_TABLE && json_i64(r.json, "moves", 0, NULL) > 0) {
		say("%" PRId64 " moves, %" PRId64
		    " done: expected saving %s USD; staying would have cost %s USD, the moves cost "
		    "%s USD: earned %s USD",
		    json_i64(r.json, "moves", 0, NULL), json_i64(r.json, "done", 0, NULL),
		    usd_text(c, json_i64(r.json, "predicted_micros", 0, NULL), 4),
		    usd_text(c, json_i64(r.json, "stay_micros", 0, NULL), 4),
		    usd_text(c, json_i64(r.json, "paid_micros", 0, NULL), 4),
		    usd_text(c, json_i64(r.json, "earned_micros", 0, NULL), 4));
	}
	return rc;
}
