/* node ls, show, drain, rm. */
#include "base/base.h"
#include "base/str.h"
#include "spotctl/ctl.h"

static const struct column cols[] = {
	{"NODE", "id", CELL_TEXT, false}, {"STATE", "state", CELL_STATE, false}, {"WHERE", "pool", CELL_PLACE, false},
	{"TYPE", "pool.instance_type", CELL_TEXT, false}, {"GPU", "pool", CELL_GPU, false},
	{"MARKET", "pool.market", CELL_TEXT, false}, {"USD/H", "price_micros", CELL_USD_HOUR, false},
	{"JOB", "job", CELL_TEXT, false}, {"FLEET", "fleet", CELL_TEXT, true}, {"USD", "cost_micros", CELL_USD, false},
	{"AGE", "created_at", CELL_AGE, false}, {"HEARD", "last_seen_at", CELL_AGE, false}, {"REF", "ref", CELL_TEXT, true},
	{"END", "end_cause", CELL_TEXT, true}, {"WHY", "why", CELL_TEXT, true}, {"LAST ERROR", "last_error", CELL_TEXT, true},
	{0}};

int cmd_node_ls(struct ctl *c)
{
	bool all = opt_flag(c, "all") || opt_flag(c, "state");

	return list_command(c, all ? "/v1/nodes" : "/v1/nodes?state=live", cols, "no live nodes (--all shows those that are gone)");
}

int cmd_node_show(struct ctl *c)
{
	static const struct column events[] = {
		{"AT", "at", CELL_TIME, false}, {"EVENT", "event", CELL_TEXT, false}, {"FROM", "was", CELL_TEXT, false},
		{"TO", "now", CELL_TEXT, false}, {"WHY", "why", CELL_TEXT, false}, {0}};
	struct reply r;
	json_t *one;
	int rc = conn_get(c, arena_printf(c->arena, "/v1/nodes/%s", url_encode(c->arena, c->args[0], false)), &r);

	if (rc != CTL_OK) {
		return rc;
	}
	if (c->format == FORMAT_JSON) {
		return render_json(r.json);
	}
	one = json_pack("[O]", r.json);
	c->format = FORMAT_WIDE;
	rc = render_list(c, one, one, cols, "");
	json_decref(one);
	putchar('\n');
	return rc != CTL_OK ? rc : render_list(c, r.json, json_object_get(r.json, "events"), events, "no events");
}

int cmd_node_drain(struct ctl *c)
{
	struct reply r;
	int rc = conn_send(c, "POST", arena_printf(c->arena, "/v1/nodes/%s/drain", url_encode(c->arena, c->args[0], false)), NULL,
	    STR_LIT("{}"), &r);

	if (rc == CTL_OK) {
		say("%s: draining; what runs there is checkpointed and placed elsewhere", c->args[0]);
	}
	return rc;
}

int cmd_node_rm(struct ctl *c)
{
	struct reply r;
	int rc = conn_send(c, "DELETE", arena_printf(c->arena, "/v1/nodes/%s%s", url_encode(c->arena, c->args[0], false),
	    opt_flag(c, "force") ? "?force=1" : ""), NULL, (struct str){0}, &r);

	if (rc == CTL_OK) {
		say("%s: being terminated", c->args[0]);
	}
	return rc;
}
