/* queue, classes, gpus, shares: who waits in which order, what classes mean, and the teams'
 * claims. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

int cmd_queue(struct ctl *c)
{
	static const struct column cols[] = { { "POS", "position", CELL_INT, ALWAYS },
		{ "JOB", "job", CELL_TEXT, ALWAYS }, { "NAME", "name", CELL_TEXT, ALWAYS },
		{ "TEAM", "team", CELL_TEXT, SPARE_2 }, { "CLASS", "class", CELL_TEXT, WIDE },
		{ "PRIORITY", "priority", CELL_INT, SPARE_3 },
		{ "WITH AGE", "effective_priority", CELL_INT, WIDE },
		{ "SHARE USED", "share_ratio", CELL_REAL, SPARE_1 },
		{ "WAITS", "queued_at", CELL_AGE, ALWAYS },
		{ "DEADLINE", "deadline_at", CELL_TIME, WIDE },
		{ "ORDER", "queue_why", CELL_TEXT, SPARE_2 }, { "WHY", "why", CELL_TEXT, ALWAYS },
		{ 0 } };

	return list_command(c, "/v1/queue", cols, "nothing waits");
}

int cmd_classes(struct ctl *c)
{
	static const struct column cols[] = { { "CLASS", "name", CELL_TEXT, ALWAYS },
		{ "TOLERANCE", "tolerance", CELL_TEXT, ALWAYS },
		{ "PREEMPTIBLE", "preemptible", CELL_TEXT, ALWAYS },
		{ "PRIORITY", "priority", CELL_INT, ALWAYS },
		{ "PATIENCE S", "patience_s", CELL_INT, SPARE_1 },
		{ "LATE", "late", CELL_TEXT, SPARE_2 }, { "GPUS", "tiers", CELL_TEXT, ALWAYS },
		{ 0 } };

	return list_command(c, "/v1/classes", cols, "");
}

int cmd_gpus(struct ctl *c)
{
	static const struct column cols[] = { { "GPU", "name", CELL_TEXT, ALWAYS },
		{ "FP16 TFLOPS", "fp16_tflops", CELL_REAL, ALWAYS },
		{ "MEM GIB", "mem_gib", CELL_REAL, ALWAYS },
		{ "BANDWIDTH GB/S", "bandwidth_gb_s", CELL_REAL, ALWAYS }, { 0 } };

	return list_command(c, "/v1/gpus", cols, "");
}

static const struct column share_cols[] = { { "TEAM", "team", CELL_TEXT, ALWAYS },
	{ "WEIGHT", "weight", CELL_REAL, ALWAYS }, { "SOURCE", "source", CELL_TEXT, SPARE_1 },
	{ "IN FILE", "file_weight", CELL_REAL, WIDE }, { "SHARE", "share", CELL_REAL, ALWAYS },
	{ "SPENT USD", "spent_micros", CELL_USD, ALWAYS },
	{ "USED/SHARE", "ratio", CELL_REAL, ALWAYS }, { "WAITING", "waiting", CELL_INT, ALWAYS },
	{ "SET BY", "set_by", CELL_TEXT, WIDE }, { "SET", "updated_at", CELL_AGE, WIDE }, { 0 } };

int cmd_shares(struct ctl *c)
{
	return list_command(c, "/v1/shares", share_cols,
	    "no team has spent anything or has a share of its own");
}

static int share_put(struct ctl *c, json_t *weight)
{
	AUTO(json) json_t *body = json_pack("{s:s, s:o}", "team", c->args[0], "weight", weight);
	struct reply r;
	int rc = conn_send(c, "PUT", "/v1/shares", NULL, str_from(json_text(c->arena, body)), &r);

	return rc != CTL_OK
	    ? rc
	    : render_list(c, r.json, json_object_get(r.json, "items"), share_cols, "");
}

int cmd_share_set(struct ctl *c)
{
	double weight;

	if (!parse_f64(c->args[1], 0.001, 1000, &weight)) {
		say("spotctl shares set: WEIGHT must be a number from 0.001 to 1000, not '%s'",
		    c->args[1]);
		return CTL_USAGE;
	}
	return share_put(c, json_real(weight));
}

int cmd_share_unset(struct ctl *c)
{
	return share_put(c, json_null());
}
