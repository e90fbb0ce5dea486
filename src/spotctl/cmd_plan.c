/* plan: every term of the score, so that the arithmetic can be checked by hand. */
#include "base/base.h"
#include "spotctl/ctl.h"

static const struct column cols[] = {
	{"", "mark", CELL_TEXT, false},
	{"POOL", "pool.id", CELL_TEXT, false},
	{"PLACE", "pool", CELL_PLACE, false},
	{"TYPE", "pool.instance_type", CELL_TEXT, false},
	{"GPU", "pool", CELL_GPU, false},
	{"MARKET", "pool.market", CELL_TEXT, false},
	{"USD/H", "price_micros", CELL_USD_HOUR, false},
	{"RECLAIMS/H", "hazard_per_hour", CELL_HOURS, false},
	{"SPEED", "throughput", CELL_REAL, false},
	{"WORK H", "work_hours", CELL_HOURS, false},
	{"SAVE EVERY S", "checkpoint_interval_s", CELL_REAL, true},
	{"OVERHEAD", "checkpoint_overhead", CELL_HOURS, true},
	{"INTERRUPTS", "expected_interruptions", CELL_REAL, false},
	{"LOST H", "lost_work_hours", CELL_HOURS, false},
	{"RESTART H", "restart_hours", CELL_HOURS, false},
	{"FINISH H", "hours_to_finish", CELL_HOURS, false},
	{"EGRESS", "egress_micros", CELL_USD, true},
	{"TOTAL USD", "total_micros", CELL_USD, false},
	{"HAZARD FROM", "hazard_source", CELL_TEXT, true},
	{"PRICE AGE", "price_age_s", CELL_AGE, true},
	{0}};

int cmd_plan(struct ctl *c)
{
	struct str file;
	struct reply r;
	json_t *offers, *o;
	size_t i;
	int rc = read_input(c, c->args[0], &file);

	if (rc == CTL_OK) {
		rc = conn_send(c, "POST", "/v1/plan", "application/yaml", file, &r);
	}
	if (rc != CTL_OK) {
		return rc;
	}
	if (c->format == FORMAT_JSON) {
		return render_json(r.json);
	}
	offers = json_object_get(r.json, "offers");
	json_array_foreach(offers, i, o) {
		json_object_set_new(o, "mark", json_string(json_bool(o, "chosen", false, NULL) ? "*" : ""));
	}
	if (c->format == FORMAT_TABLE && json_array_size(offers) > 15) {
		say("the best 15 of %zu offers (-o wide: all, with every term)", json_array_size(offers));
		for (i = json_array_size(offers); i > 15; i--) {
			json_array_remove(offers, i - 1);
		}
	}
	rc = render_list(c, r.json, offers, cols, "no pool suits");
	if (json_str(r.json, "note", NULL, NULL) != NULL) {
		say("%s", json_str(r.json, "note", "", NULL));
	}
	if (json_array_size(json_object_get(r.json, "refused")) > 0) {
		say("%zu other pools do not suit (-o json tells why)", json_array_size(json_object_get(r.json, "refused")));
	}
	return json_array_size(offers) == 0 && rc == CTL_OK ? CTL_NO_CAPACITY : rc;
}
