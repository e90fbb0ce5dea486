/* plan: every term of the score, so that the arithmetic can be checked by hand. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/cmd/cmd.h"

static const struct column cols[] = { { "", "mark", CELL_TEXT, ALWAYS },
	{ "POOL", "pool.id", CELL_TEXT, ALWAYS }, { "PLACE", "pool", CELL_PLACE, ALWAYS },
	{ "TYPE", "pool.instance_type", CELL_TEXT, ALWAYS }, { "GPU", "pool", CELL_GPU, ALWAYS },
	{ "MARKET", "pool.market", CELL_TEXT, ALWAYS },
	{ "USD/H", "price_micros", CELL_USD, ALWAYS },
	{ "RECLAIMS/H", "hazard_per_hour", CELL_RATE, ALWAYS },
	{ "SPEED", "throughput", CELL_REAL, ALWAYS },
	{ "WORK H", "work_hours", CELL_HOURS, ALWAYS },
	{ "INTERRUPTS", "expected_interruptions", CELL_REAL, ALWAYS },
	{ "LOST H", "lost_work_hours", CELL_HOURS, ALWAYS },
	{ "FINISH H", "hours_to_finish", CELL_HOURS, ALWAYS },
	{ "P95 H", "hours_p95", CELL_HOURS, ALWAYS },
	{ "LATE", "deadline_risk", CELL_RATE, ALWAYS },
	{ "TOTAL USD", "total_micros", CELL_USD, ALWAYS },
	{ "P95 USD", "cost_p95_micros", CELL_USD, ALWAYS },
	{ "RECLAIMS LOW", "hazard_lo", CELL_RATE, WIDE },
	{ "RECLAIMS HIGH", "hazard_hi", CELL_RATE, WIDE },
	{ "RECLAIMS FROM", "hazard_source", CELL_TEXT, WIDE },
	{ "PRICE AGE", "price_age_s", CELL_AGE, WIDE }, { "ENDS", "pool.ends_at", CELL_TIME, WIDE },
	{ 0 } };

/* In the order in which they are added up: hours, then dollars, then the spread. */
static const struct column term_cols[] = { { "WORK REF", "terms.work_ref_h", CELL_FINE, WIDE },
	{ "SPEED TABLE", "terms.throughput_table", CELL_FINE, WIDE },
	{ "SPEED", "terms.throughput", CELL_FINE, WIDE },
	{ "SPEED FROM", "terms.throughput_source", CELL_TEXT, WIDE },
	{ "WORK", "terms.work_h", CELL_FINE, WIDE }, { "SAVE S", "terms.save_s", CELL_FINE, WIDE },
	{ "EVERY S", "terms.interval_s", CELL_FINE, WIDE },
	{ "EVERY FROM", "terms.interval_source", CELL_TEXT, WIDE },
	{ "SAVING", "terms.overhead_h", CELL_FINE, WIDE },
	{ "RECLAIMS", "terms.interruptions", CELL_FINE, WIDE },
	{ "LOST EACH", "terms.lost_per_h", CELL_FINE, WIDE },
	{ "LOST", "terms.lost_h", CELL_FINE, WIDE },
	{ "RESTART EACH", "terms.restart_per_h", CELL_FINE, WIDE },
	{ "RESTART FROM", "terms.restart_source", CELL_TEXT, WIDE },
	{ "RESTARTS", "terms.restart_h", CELL_FINE, WIDE },
	{ "START", "terms.start_h", CELL_FINE, WIDE },
	{ "PAID H", "terms.paid_hours", CELL_FINE, WIDE },
	{ "ODDS", "terms.odds", CELL_FINE, WIDE },
	{ "ODDS FROM", "terms.odds_source", CELL_TEXT, WIDE },
	{ "WAITS", "terms.wait_h", CELL_FINE, WIDE }, { "HOURS", "terms.hours", CELL_FINE, WIDE },
	{ "ENDS H", "terms.ends_h", CELL_FINE, WIDE },
	{ "PRICE NOW", "terms.price_now_micros", CELL_FINE, WIDE },
	{ "PRICE MEAN", "terms.price_mean_micros", CELL_FINE, WIDE },
	{ "STAYS", "terms.price_stay", CELL_FINE, WIDE },
	{ "SEEN", "terms.price_cover", CELL_FINE, WIDE },
	{ "MOVE", "terms.price_move_micros", CELL_FINE, WIDE },
	{ "PENALTY", "terms.penalty_micros", CELL_FINE, WIDE },
	{ "PRICE", "terms.price_micros", CELL_FINE, WIDE },
	{ "COMPUTE", "terms.compute_micros", CELL_FINE, WIDE },
	{ "RESTORING", "terms.restore_micros", CELL_FINE, WIDE },
	{ "UPLOADS", "terms.upload_micros", CELL_FINE, WIDE },
	{ "DATA", "terms.data_micros", CELL_FINE, WIDE },
	{ "EGRESS", "terms.egress_micros", CELL_FINE, WIDE },
	{ "TOTAL", "terms.total_micros", CELL_FINE, WIDE },
	{ "P50 USD", "terms.cost_p50_micros", CELL_FINE, WIDE },
	{ "P50 H", "terms.hours_p50", CELL_FINE, WIDE }, { 0 } };

const struct column *score_columns(struct ctl *c, const struct column *head)
{
	struct column *all;
	size_t n = 0, k = 0;

	while (head[n].head != NULL) {
		n++;
	}
	all = arena_array(c->arena, n + ARRAY_LEN(term_cols), sizeof(*all));
	for (; k < n; k++) {
		all[k] = head[k];
	}
	for (; k < n + ARRAY_LEN(term_cols); k++) {
		all[k] = term_cols[k - n];
	}
	return all;
}

/* For a terminal of 80 columns; -o wide has the rest. The cells are made by plan_cells.c. */
static const struct column narrow_cols[] = { { "", "mark", CELL_TEXT, ALWAYS },
	{ "POOL", "pool.id", CELL_TEXT, ALWAYS }, { "PLACE", "cell.place", CELL_TEXT, ALWAYS },
	{ "GPU", "cell.gpu", CELL_TEXT, ALWAYS }, { "MARKET", "cell.market", CELL_TEXT, ALWAYS },
	{ "USD/H", "cell.price", CELL_NUMBER, ALWAYS },
	{ "ODDS", "cell.odds", CELL_NUMBER, ALWAYS },
	{ "HOURS", "cell.hours", CELL_NUMBER, ALWAYS },
	{ "LATE", "cell.late", CELL_NUMBER, ALWAYS }, { "USD", "cell.total", CELL_NUMBER, ALWAYS },
	{ 0 } };

static const struct column spread_cols[] = { { "COST OF", "what", CELL_TEXT, ALWAYS },
	{ "FROM POOL", "pool", CELL_TEXT, ALWAYS },
	{ "EXPECTED", "expected_micros", CELL_USD, ALWAYS },
	{ "USD P5", "cost_p5_micros", CELL_USD, ALWAYS },
	{ "P50", "cost_p50_micros", CELL_USD, ALWAYS },
	{ "P95", "cost_p95_micros", CELL_USD, ALWAYS },
	{ "HOURS P5", "hours_p5", CELL_HOURS, ALWAYS }, { "P50", "hours_p50", CELL_HOURS, ALWAYS },
	{ "P95", "hours_p95", CELL_HOURS, ALWAYS },
	{ "INTERRUPTS", "interruptions", CELL_REAL, ALWAYS },
	{ "LOST H", "lost_work_hours", CELL_HOURS, ALWAYS },
	{ "MOVES", "moves", CELL_REAL, ALWAYS }, { "LATE", "deadline_risk", CELL_RATE, ALWAYS },
	{ 0 } };

static const struct column gang_cols[] = { { "TOGETHER ON", "pool", CELL_TEXT, ALWAYS },
	{ "PLACE", "place", CELL_TEXT, ALWAYS }, { "MARKET", "market", CELL_TEXT, ALWAYS },
	{ "INTERRUPTS", "interruptions", CELL_REAL, ALWAYS },
	{ "LOST H", "lost_h", CELL_HOURS, ALWAYS }, { "FINISH H", "hours", CELL_HOURS, ALWAYS },
	{ "TOTAL USD", "total_micros", CELL_USD, ALWAYS },
	{ "NOT NOW", "refused", CELL_TEXT, ALWAYS }, { 0 } };

static const struct column narrow_spread_cols[] = { { "COST OF", "what", CELL_TEXT, ALWAYS },
	{ "POOL", "pool", CELL_TEXT, ALWAYS }, { "EXPECTED", "cell.expected", CELL_NUMBER, ALWAYS },
	{ "P5", "cell.p5", CELL_NUMBER, ALWAYS }, { "P50", "cell.p50", CELL_NUMBER, ALWAYS },
	{ "P95", "cell.p95", CELL_NUMBER, ALWAYS },
	{ "H P50", "cell.hours_p50", CELL_NUMBER, ALWAYS },
	{ "H P95", "cell.hours_p95", CELL_NUMBER, ALWAYS },
	{ "LATE", "cell.late", CELL_NUMBER, ALWAYS }, { 0 } };

static const struct column narrow_gang_cols[] = { { "TOGETHER ON", "pool", CELL_TEXT, ALWAYS },
	{ "PLACE", "cell.place", CELL_TEXT, ALWAYS },
	{ "MARKET", "cell.market", CELL_TEXT, ALWAYS },
	{ "HOURS", "cell.hours", CELL_NUMBER, ALWAYS },
	{ "USD", "cell.total", CELL_NUMBER, ALWAYS }, { "", "cell.refused", CELL_TEXT, ALWAYS },
	{ 0 } };

#define SHOWN 15
#define GANG_SHOWN 8

/* Why pools do not suit, most frequent first: what a person must change. */
static void say_refusals(struct ctl *c, const json_t *refused)
{
	struct why {
		const char *text;
		int n;
	} *whys = arena_array(c->arena, json_array_size(refused) + 1, sizeof(*whys));
	size_t n = 0, i;
	const json_t *o;

	json_array_foreach (refused, i, o) {
		const char *text = json_str(o, "why", "?", NULL);
		size_t k = 0;

		while (k < n && strcmp(whys[k].text, text) != 0) {
			k++;
		}
		whys[k].text = text;
		whys[k].n++;
		n = MAX(n, k + 1);
	}
	for (int lines = 0; lines < 8 && n > 0; lines++) {
		size_t most = 0;

		for (size_t k = 1; k < n; k++) {
			most = whys[k].n > whys[most].n ? k : most;
		}
		plan_say(c, "%6d pools: %s", whys[most].n, whys[most].text);
		whys[most] = whys[--n];
	}
}

static void say_rest(struct ctl *c, const json_t *plan, size_t offers)
{
	const json_t *list = json_object_get(plan, "warnings"),
		     *refused = json_object_get(plan, "refused"), *w;
	const char *note = json_str(plan, "note", "", NULL);
	size_t i;

	json_array_foreach (list, i, w) {
		plan_say(c, "warning: %s", json_string_value(w));
	}
	if (*note != '\0') {
		plan_say(c, "%s", note);
	}
	if (json_array_size(refused) > 0 && offers > 0) {
		say("%zu other pools do not suit (-o json tells why)", json_array_size(refused));
	} else if (json_array_size(refused) > 0) {
		say_refusals(c, refused);
	}
}

static void spread_add(json_t *list, json_t *spread, const char *what)
{
	if (json_is_object(spread)) {
		json_object_set_new(spread, "what", json_string(what));
		json_array_append(list, spread);
	}
}

/* Shows the simulated cost and finish of the choice, and of the baselines. */
static int show_spread(struct ctl *c, const json_t *plan)
{
	const json_t *base = json_object_get(plan, "baselines"),
		     *chosen = json_object_get(plan, "chosen");
	json_t *list = json_array();
	int rc = CTL_OK;

	spread_add(list, json_object_get(plan, "chosen"), "chosen");
	spread_add(list, json_object_get(base, "cheapest_listed"), "lowest price");
	spread_add(list, json_object_get(base, "on_demand"), "on demand only");
	if (json_array_size(list) > 0) {
		putchar('\n');
		plan_spread_cells(c, list);
		rc = render_list(c, list, list,
		    c->format == FORMAT_TABLE ? narrow_spread_cols : spread_cols, "");
		plan_say(c, "played through %" PRId64 " times (--seed %" PRId64 "); %s",
		    json_i64(chosen, "runs", 0, NULL), json_i64(chosen, "seed", 0, NULL),
		    json_str(json_object_get(plan, "job"), "class_why", "", NULL));
	}
	json_decref(list);
	return rc;
}

/* A job of several nodes: the offers above are of one. */
static int show_gang(struct ctl *c, const json_t *plan)
{
	const json_t *gang = json_object_get(plan, "gang");
	json_t *list = json_object_get(gang, "offers");
	int rc;

	if (!json_is_object(gang)) {
		return CTL_OK;
	}
	for (size_t i = json_array_size(list); i > GANG_SHOWN; i--) {
		json_array_remove(list, i - 1);
	}
	putchar('\n');
	plan_gang_cells(c, list);
	rc = render_list(c, list, list, c->format == FORMAT_TABLE ? narrow_gang_cols : gang_cols,
	    "no pool suits");
	plan_say(c,
	    "%" PRId64
	    " nodes in one zone; the offers above are of one node, what it will cost is of all",
	    json_i64(gang, "nodes", 0, NULL));
	return rc;
}

/* Marks the chosen one, and leaves the best of many for a table. */
static void rows_mark(struct ctl *c, json_t *offers)
{
	size_t i, n = json_array_size(offers);
	json_t *o;

	json_array_foreach (offers, i, o) {
		json_object_set_new(o, "mark",
		    json_string(json_bool(o, "chosen", false, NULL) ? "*" : ""));
		json_object_set(o, "id", json_object_get(json_object_get(o, "pool"), "id"));
	}
	if (c->format == FORMAT_TABLE && n > SHOWN) {
		plan_say(c, "the best %d of %zu offers (-o wide: all, with every term)", SHOWN, n);
		for (i = n; i > SHOWN; i--) {
			if (!json_bool(json_array_get(offers, i - 1), "chosen", false, NULL)) {
				json_array_remove(offers, i - 1);
			}
		}
	}
	if (c->format == FORMAT_TABLE) {
		plan_offer_cells(c, offers);
	}
}

int cmd_plan(struct ctl *c)
{
	struct str file;
	struct reply r;
	json_t *offers;
	size_t n;
	int exit, rc = read_input(c, c->args[0], &file);

	if (rc == CTL_OK) {
		rc = conn_send(c, "POST", opts_path(c, "/v1/plan"), "application/yaml", file, &r);
	}
	if (rc != CTL_OK) {
		return rc;
	}
	offers = json_object_get(r.json, "offers");
	n = json_array_size(offers);
	exit = plan_exit(r.json);
	exit = exit == CTL_OK && n == 0 ? CTL_NO_CAPACITY : exit;
	if (c->format == FORMAT_JSON) {
		rc = render_json(r.json);
		return rc == CTL_OK ? exit : rc;
	}
	plan_say_decision(c, r.json);
	rows_mark(c, offers);
	rc = render_list(c, r.json, offers,
	    c->format == FORMAT_TABLE ? narrow_cols : score_columns(c, cols), "no pool suits");
	if (rc == CTL_OK && (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE)) {
		rc = show_spread(c, r.json);
		rc = rc == CTL_OK ? show_gang(c, r.json) : rc;
	}
	say_rest(c, r.json, n);
	plan_say_refusal(c, r.json);
	return rc == CTL_OK ? exit : rc;
}
