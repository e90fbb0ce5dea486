/* queue, classes, gpus, shares: who waits in which order, what classes mean, and the teams'
 * claims. */
#include "base/base.h"
#include "base/text/str.h"
#include "spotctl/ctl.h"

int cmd_queue(struct ctl *c)
{
	static const struct column cols[] = { { "POS", "position", CELL_INT, false },
		{ "JOB", "job", CELL_TEXT, false }, { "NAME", "name", CELL_TEXT, false },
		{ "TEAM", "team", CELL_TEXT, false }, { "CLASS", "class", CELL_TEXT, true },
		{ "PRIORITY", "priority", CELL_INT, false },
		{ "WITH AGE", "effective_priority", CELL_INT, true },
		{ "SHARE USED", "share_ratio", CELL_REAL, false },
		{ "WAITS", "queued_at", CELL_AGE, false },
		{ "DEADLINE", "deadline_at", CELL_TIME, true },
		{ "ORDER", "queue_why", CELL_TEXT, false }, { "WHY", "why", CELL_TEXT, false },
		{ 0 } };

	return list_command(c, "/v1/queue", cols, "nothing waits");
}

int cmd_classes(struct ctl *c)
{
	static const struct column cols[] = { { "CLASS", "name", CELL_TEXT, false },
		{ "TOLERANCE", "tolerance", CELL_TEXT, false },
		{ "PREEMPTIBLE", "preemptible", CELL_TEXT, false },
		{ "PRIORITY", "priority", CELL_INT, false },
		{ "PATIENCE S", "patience_s", CELL_INT, false },
		{ "LATE", "late", CELL_TEXT, false }, { "GPUS", "tiers", CELL_TEXT, false },
		{ 0 } };

	return list_command(c, "/v1/classes", cols, "");
}

int cmd_gpus(struct ctl *c)
{
	static const struct column cols[] = { { "GPU", "name", CELL_TEXT, false },
		{ "FP16 TFLOPS", "fp16_tflops", CELL_REAL, false },
		{ "MEM GIB", "mem_gib", CELL_REAL, false },
		{ "BANDWIDTH GB/S", "bandwidth_gb_s", CELL_REAL, false }, { 0 } };

	return list_command(c, "/v1/gpus", cols, "");
}

static const struct column share_cols[] = { { "TEAM", "team", CELL_TEXT, false },
	{ "WEIGHT", "weight", CELL_REAL, false }, { "SOURCE", "source", CELL_TEXT, false },
	{ "IN FILE", "file_weight", CELL_REAL, true }, { "SHARE", "share", CELL_REAL, false },
	{ "SPENT USD", "spent_micros", CELL_USD, false },
	{ "USED/SHARE", "ratio", CELL_REAL, false }, { "WAITING", "waiting", CELL_INT, false },
	{ "SET BY", "set_by", CELL_TEXT, true }, { "SET", "updated_at", CELL_AGE, true }, { 0 } };

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
