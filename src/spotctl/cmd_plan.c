/* plan: every term of the score, so that the arithmetic can be checked by hand. */
#include "base/base.h"
#include "base/str.h"
#include "spotctl/ctl.h"

static const struct column cols[] = {
	{"", "mark", CELL_TEXT, false},
	{"POOL", "pool.id", CELL_TEXT, false},
	{"PLACE", "pool", CELL_PLACE, false},
	{"TYPE", "pool.instance_type", CELL_TEXT, false},
	{"GPU", "pool", CELL_GPU, false},
	{"MARKET", "pool.market", CELL_TEXT, false},
	{"USD/H", "price_micros", CELL_USD, false},
	{"RECLAIMS/H", "hazard_per_hour", CELL_RATE, false},
	{"LOW", "hazard_lo", CELL_RATE, true},
	{"HIGH", "hazard_hi", CELL_RATE, true},
	{"SPEED", "throughput", CELL_REAL, false},
	{"WORK H", "work_hours", CELL_HOURS, false},
	{"SAVE EVERY S", "checkpoint_interval_s", CELL_REAL, true},
	{"OVERHEAD", "checkpoint_overhead", CELL_RATE, false},
	{"INTERRUPTS", "expected_interruptions", CELL_REAL, false},
	{"LOST H", "lost_work_hours", CELL_HOURS, false},
	{"RESTART H", "restart_hours", CELL_HOURS, false},
	{"FINISH H", "hours_to_finish", CELL_HOURS, false},
	{"EGRESS", "egress_micros", CELL_USD, true},
	{"TOTAL USD", "total_micros", CELL_USD, false},
	{"HAZARD FROM", "hazard_source", CELL_TEXT, true},
	{"PRICE AGE", "price_age_s", CELL_AGE, true},
	{"PENALTY", "price_penalty_micros", CELL_USD, true},
	{0}};

#define SHOWN 15

/* Why pools do not suit, most frequent first: what a person must change. */
static void say_refusals(struct ctl *c, const json_t *refused)
{
	struct why { const char *text; int n; } *whys = arena_array(c->arena, json_array_size(refused) + 1, sizeof(*whys));
	size_t n = 0, i;
	const json_t *o;

	json_array_foreach(refused, i, o) {
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
		say("%6d pools: %s", whys[most].n, whys[most].text);
		whys[most] = whys[--n];
	}
}

static void say_rest(struct ctl *c, const json_t *plan, size_t offers)
{
	const json_t *list = json_object_get(plan, "warnings"), *refused = json_object_get(plan, "refused"), *w;
	const char *note = json_str(plan, "note", "", NULL);
	size_t i;

	json_array_foreach(list, i, w) {
		say("warning: %s", json_string_value(w));
	}
	if (*note != '\0') {
		say("%s", note);
	}
	if (json_array_size(refused) > 0 && offers > 0) {
		say("%zu other pools do not suit (-o json tells why)", json_array_size(refused));
	} else if (json_array_size(refused) > 0) {
		say_refusals(c, refused);
	}
}

int cmd_plan(struct ctl *c)
{
	struct str file;
	struct reply r;
	json_t *offers, *o;
	size_t i, n;
	int rc = read_input(c, c->args[0], &file);

	if (rc == CTL_OK) {
		rc = conn_send(c, "POST", "/v1/plan", "application/yaml", file, &r);
	}
	if (rc != CTL_OK) {
		return rc;
	}
	offers = json_object_get(r.json, "offers");
	n = json_array_size(offers);
	if (c->format == FORMAT_JSON) {
		rc = render_json(r.json);
		return n == 0 && rc == CTL_OK ? CTL_NO_CAPACITY : rc;
	}
	json_array_foreach(offers, i, o) {
		json_object_set_new(o, "mark", json_string(json_bool(o, "chosen", false, NULL) ? "*" : ""));
		json_object_set(o, "id", json_object_get(json_object_get(o, "pool"), "id"));
	}
	if (c->format == FORMAT_TABLE && n > SHOWN) {
		say("the best %d of %zu offers (-o wide: all, with every term)", SHOWN, n);
		for (i = n; i > SHOWN; i--) {
			json_array_remove(offers, i - 1);
		}
	}
	rc = render_list(c, r.json, offers, cols, "no pool suits");
	say_rest(c, r.json, n);
	return n == 0 && rc == CTL_OK ? CTL_NO_CAPACITY : rc;
}
