/* fleet create, ls, show, rm. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/cmd/cmd.h"
#include "spotctl/ctl.h"

const struct column fleet_cols[] = { { "FLEET", "id", CELL_TEXT, ALWAYS },
	{ "NAME", "name", CELL_TEXT, ALWAYS }, { "STATE", "state", CELL_STATE, ALWAYS },
	{ "SIZE", "size", CELL_SIZE, ALWAYS }, { "BY", "size.rule", CELL_TEXT, SPARE_4 },
	{ "WANT NODES", "spec.nodes", CELL_INT, WIDE },
	{ "WANT GPUS", "spec.gpus", CELL_INT, WIDE }, { "NODES", "nodes_live", CELL_INT, SPARE_3 },
	{ "READY", "nodes_ready", CELL_INT, ALWAYS }, { "POOLS", "pools", CELL_INT, SPARE_2 },
	{ "USD/H", "size.hourly_micros", CELL_USD, ALWAYS },
	{ "SAVES", "on_demand_micros", CELL_SAVING, ALWAYS },
	{ "USD", "cost_micros", CELL_USD, ALWAYS }, { "AGE", "created_at", CELL_AGE, SPARE_1 },
	{ "NEXT", "size.next_at", CELL_TIME, WIDE },
	{ "WHY THIS SIZE", "size.why", CELL_TEXT, WIDE }, { "OWNER", "owner", CELL_TEXT, WIDE },
	{ "TEAM", "team", CELL_TEXT, WIDE }, { "PROJECT", "project", CELL_TEXT, WIDE },
	{ "WHY", "why", CELL_TEXT, WIDE }, { 0 } };

char *fleet_path(struct ctl *c)
{
	return arena_printf(c->arena, "/v1/fleets/%s", url_encode(c->arena, c->args[0], false));
}

/* ---- plans ----------------------------------------------------------------------------------- */

static const struct column place_cols[] = { { "POOL", "pool", CELL_TEXT, ALWAYS },
	{ "PROVIDER", "provider", CELL_TEXT, SPARE_4 }, { "REGION", "region", CELL_TEXT, SPARE_3 },
	{ "ZONE", "zone", CELL_TEXT, ALWAYS }, { "TYPE", "instance_type", CELL_TEXT, SPARE_2 },
	{ "GPU", "gpu", CELL_TEXT, ALWAYS }, { "MARKET", "market", CELL_TEXT, SPARE_4 },
	{ "HAS", "held", CELL_INT, ALWAYS }, { "ADD", "add", CELL_INT, ALWAYS },
	{ "GIVE BACK", "give_back", CELL_INT, ALWAYS },
	{ "USD/H", "price_micros", CELL_USD, ALWAYS },
	{ "USD PER WORK HOUR", "work_micros", CELL_USD, SPARE_3 },
	{ "OF IT EGRESS", "egress_micros", CELL_USD, WIDE },
	{ "RECLAIMS/H", "reclaims_per_hour", CELL_RATE, SPARE_1 },
	{ "LAST ONE USD/H", "marginal_micros", CELL_USD, WIDE }, { 0 } };
static const struct column limit_cols[] = { { "LIMIT", "limit", CELL_TEXT, ALWAYS },
	{ "WHERE", "where", CELL_TEXT, ALWAYS }, { "USED", "used", CELL_INT, ALWAYS },
	{ "OF", "max", CELL_INT, ALWAYS }, { "UNIT", "unit", CELL_TEXT, ALWAYS },
	{ "POOLS KEPT OUT", "pools_kept_out", CELL_INT, ALWAYS },
	{ "ONE MORE SAVES USD/H", "worth_micros", CELL_FINE, ALWAYS }, { 0 } };

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

/* ---- the size ----------------------------------------------------------------------------- */

#define HEAD_WIDTH 10 /* of the word before a line */
#define LINE_WIDTH 80

/* On a terminal long text goes on below, beside the same word. */
static void put_line(struct ctl *c, const char *head, const char *text)
{
	const char *at = str_empty(text) ? "" : text_clean(c->arena, text);

	while (*at != '\0') {
		size_t n = c->tty ? text_break(at, LINE_WIDTH - HEAD_WIDTH) : strlen(at);

		printf("%-*s%.*s\n", HEAD_WIDTH, head, (int)n, at);
		at += n + strspn(at + n, " ");
		head = "";
	}
}

static const char *demand_words(struct ctl *c, const json_t *d)
{
	if (!json_is_integer(json_object_get(d, "value"))) {
		return "";
	}
	return arena_printf(c->arena, "%" PRId64 " %s by %s until %s",
	    json_i64(d, "value", 0, NULL), json_str(d, "unit", "", NULL),
	    json_str(d, "by", "", NULL), json_str(d, "until_at", "", NULL));
}

static const char *metric_words(struct ctl *c, const json_t *m)
{
	const char *error = json_str(m, "error", NULL, NULL);

	if (!json_is_object(m)) {
		return "";
	}
	return arena_printf(c->arena, "%s = %s, target %g%s%s", json_str(m, "query", "", NULL),
	    json_is_number(json_object_get(m, "value"))
		? arena_printf(c->arena, "%g", json_f64(m, "value", 0, NULL))
		: "unknown",
	    json_f64(m, "target", 1, NULL), error != NULL ? "; " : "", error != NULL ? error : "");
}

static const char *price_words(struct ctl *c, const json_t *fleet, const json_t *size)
{
	int64_t now = json_i64(size, "hourly_micros", 0, NULL),
		instead = json_i64(fleet, "on_demand_micros", 0, NULL);

	return instead <= 0 ? arena_printf(c->arena, "%s USD/h", usd_text(c, now, 4))
			    : arena_printf(c->arena, "%s USD/h; on demand %s USD/h, saves %.0f %%",
				  usd_text(c, now, 4), usd_text(c, instead, 4),
				  100.0 * (double)(instead - now) / (double)instead);
}

/* "2: 3 in aws/use1-az1 g5.xlarge spot, 1 in ..." */
static const char *pools_words(struct ctl *c, const json_t *nodes)
{
	static const struct column place = { "", "pool", CELL_PLACE, ALWAYS };
	AUTO(json) json_t *counts = json_object();
	const char *words = "", *key;
	const json_t *n, *v;
	size_t i;

	json_array_foreach (nodes, i, n) {
		const json_t *pool = json_object_get(n, "pool");

		key = arena_printf(c->arena, "%s %s %s", cell_text(c, n, &place),
		    json_str(pool, "instance_type", "", NULL), json_str(pool, "market", "", NULL));
		json_object_set_new(counts, key,
		    json_integer(json_integer_value(json_object_get(counts, key)) + 1));
	}
	json_object_foreach (counts, key, v) {
		words = arena_printf(c->arena, "%s%s%" JSON_INTEGER_FORMAT " in %s", words,
		    *words != '\0' ? ", " : "", json_integer_value(v), key);
	}
	return json_object_size(counts) == 0
	    ? ""
	    : arena_printf(c->arena, "%zu: %s", json_object_size(counts), words);
}

/* The next moves and the next time at which the size can change. */
static const char *next_words(struct ctl *c, const json_t *fleet)
{
	static const struct column to = { "", "to", CELL_PLACE, ALWAYS };
	const json_t *moves = json_path(fleet, "moves.moves"), *m = json_array_get(moves, 0);
	const char *at = json_str(json_object_get(fleet, "size"), "next_at", "", NULL), *words = "";

	if (m != NULL) {
		words = arena_printf(c->arena, "%s moves to %s: %s", json_str(m, "node", "?", NULL),
		    cell_text(c, m, &to), json_str(m, "why", "", NULL));
	}
	if (json_array_size(moves) > 1) {
		words = arena_printf(c->arena, "%s; %zu more", words, json_array_size(moves) - 1);
	}
	return *at == '\0' ? words
			   : arena_printf(c->arena, "%s%sits size is decided again at %s", words,
				 *words != '\0' ? "; " : "", at);
}

/* The answer to: how large is it, why, and what happens next. */
static void show_size(struct ctl *c, const json_t *fleet)
{
	static const struct column col = { "", "size", CELL_SIZE, ALWAYS };
	const json_t *size = json_object_get(fleet, "size"),
		     *demand = json_object_get(fleet, "demand");

	if (!json_is_object(size)) {
		return;
	}
	put_line(c, "size",
	    arena_printf(c->arena, "%s: %s with work, %s idle, %s on their way",
		cell_text(c, fleet, &col), amount_text(c, json_object_get(size, "used")),
		amount_text(c, json_object_get(size, "idle")),
		amount_text(c, json_object_get(size, "coming"))));
	put_line(c, "why", json_str(size, "why", "", NULL));
	put_line(c, "demand", demand_words(c, demand));
	put_line(c, "query", metric_words(c, json_object_get(demand, "metric")));
	put_line(c, "price", price_words(c, fleet, size));
	put_line(c, "pools", pools_words(c, json_object_get(fleet, "nodes")));
	put_line(c, "next", next_words(c, fleet));
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
	return rc != CTL_OK ? rc : render_one(c, r.json, fleet_cols);
}

int cmd_fleet_ls(struct ctl *c)
{
	return list_command(c, "/v1/fleets", fleet_cols,
	    "no fleets; 'spotctl fleet create FILE' creates one");
}

/* Why each node is where it is, and its next move. */
static int show_reasons(struct ctl *c, json_t *fleet)
{
	static const struct column reasons[] = { { "NODE", "node", CELL_TEXT, ALWAYS },
		{ "JOB", "job", CELL_TEXT, SPARE_1 }, { "TO", "to", CELL_PLACE, ALWAYS },
		{ "WHY IT STAYS OR MOVES", "why", CELL_TEXT, ALWAYS }, { 0 } };
	const json_t *doc = json_object_get(fleet, "moves");
	AUTO(json) json_t *list = json_array();

	if (!json_is_object(doc)) {
		return CTL_OK;
	}
	json_array_extend(list, json_object_get(doc, "moves"));
	json_array_extend(list, json_object_get(doc, "kept"));
	putchar('\n');
	return render_list(c, fleet, list, reasons, "no nodes yet");
}

/* Gives each node its price on demand. Both lists are in the order of the nodes. */
static void prices_join(json_t *fleet)
{
	const json_t *nodes = json_object_get(fleet, "nodes"),
		     *prices = json_object_get(fleet, "node_prices");
	size_t at = 0, n = json_array_size(prices);

	for (size_t i = 0; i < json_array_size(nodes); i++) {
		json_t *node = json_array_get(nodes, i);
		const char *id = json_str(node, "id", "", NULL);

		while (at < n &&
		    strcmp(json_str(json_array_get(prices, at), "node", "", NULL), id) != 0) {
			at++;
		}
		if (at < n) {
			json_object_set(node, "on_demand_micros",
			    json_object_get(json_array_get(prices, at), "on_demand_micros"));
		} else {
			at = 0;
		}
	}
}

int cmd_fleet_show(struct ctl *c)
{
	static const struct column nodes[] = { { "NODE", "id", CELL_TEXT, ALWAYS },
		{ "STATE", "state", CELL_STATE, ALWAYS }, { "WHERE", "pool", CELL_PLACE, ALWAYS },
		{ "TYPE", "pool.instance_type", CELL_TEXT, SPARE_2 },
		{ "MARKET", "pool.market", CELL_TEXT, ALWAYS },
		{ "USD/H", "price_micros", CELL_USD, ALWAYS },
		{ "SAVES", "on_demand_micros", CELL_SAVING, ALWAYS },
		{ "JOB", "job", CELL_TEXT, ALWAYS }, { "AGE", "created_at", CELL_AGE, SPARE_1 },
		{ "CAPACITY ENDS", "ends_at", CELL_TIME, SPARE_3 }, { 0 } };
	struct reply r;
	int rc = conn_get(c, fleet_path(c), &r);

	rc = rc != CTL_OK ? rc : render_one(c, r.json, fleet_cols);
	if (rc == CTL_OK && (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE)) {
		putchar('\n');
		show_size(c, r.json);
		putchar('\n');
		prices_join(r.json);
		rc =
		    render_list(c, r.json, json_object_get(r.json, "nodes"), nodes, "no nodes yet");
		if (rc == CTL_OK) {
			rc = show_reasons(c, r.json);
		}
		if (rc == CTL_OK && json_is_object(json_object_get(r.json, "plan"))) {
			putchar('\n');
			rc = show_plan(c, json_object_get(r.json, "plan"));
		}
	}
	return rc;
}

int cmd_fleet_rm(struct ctl *c)
{
	struct reply r;
	int rc = conn_send(c, "DELETE", fleet_path(c), NULL, (struct str){ 0 }, &r);

	return rc != CTL_OK
	    ? rc
	    : render_done(c, &r, "%s: closing; its nodes are being released", c->args[0]);
}
