/* node ls, show, drain, rm. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"
#include "spotctl/cmd/cmd.h"

static const struct column cols[] = { { "NODE", "id", CELL_TEXT, ALWAYS },
	{ "STATE", "state", CELL_STATE, ALWAYS }, { "WHERE", "pool", CELL_PLACE, ALWAYS },
	{ "TYPE", "pool.instance_type", CELL_TEXT, SPARE_2 }, { "GPU", "pool", CELL_GPU, SPARE_3 },
	{ "MARKET", "pool.market", CELL_TEXT, ALWAYS },
	{ "USD/H", "price_micros", CELL_USD, ALWAYS }, { "JOB", "job", CELL_TEXT, ALWAYS },
	{ "RANK", "rank", CELL_INT, WIDE }, { "FLEET", "fleet", CELL_TEXT, WIDE },
	{ "USD", "cost_micros", CELL_USD, SPARE_2 }, { "AGE", "created_at", CELL_AGE, SPARE_3 },
	{ "HEARD", "last_seen_at", CELL_AGE, SPARE_1 },
	{ "NOTICE", "notice.kind", CELL_TEXT, SPARE_4 },
	{ "CAPACITY ENDS", "ends_at", CELL_TIME, SPARE_2 }, { "REF", "ref", CELL_TEXT, WIDE },
	{ "END", "end_cause", CELL_TEXT, WIDE }, { "WHY", "why", CELL_TEXT, WIDE },
	{ "LAST ERROR", "last_error", CELL_TEXT, WIDE }, { 0 } };

int cmd_node_ls(struct ctl *c)
{
	bool all = opt_flag(c, "all") || opt_flag(c, "state");

	return list_command(c, all ? "/v1/nodes" : "/v1/nodes?state=live", cols,
	    "no live nodes (--all also shows ended ones)");
}

static int show_parts(struct ctl *c, const json_t *node)
{
	static const struct column notices[] = { { "NOTICE", "kind", CELL_TEXT, ALWAYS },
		{ "HEARD", "heard_at", CELL_TIME, ALWAYS },
		{ "DEADLINE", "deadline_at", CELL_TIME, ALWAYS },
		{ "FROM", "source", CELL_TEXT, ALWAYS }, { 0 } };
	static const struct column attempts[] = { { "JOB", "job", CELL_TEXT, ALWAYS },
		{ "TRY", "epoch", CELL_INT, ALWAYS }, { "PHASE", "phase", CELL_STATE, ALWAYS },
		{ "END", "exit_reason", CELL_TEXT, ALWAYS },
		{ "BEGAN", "created_at", CELL_TIME, ALWAYS },
		{ "ENDED", "ended_at", CELL_TIME, SPARE_1 }, { 0 } };
	static const struct column events[] = { { "AT", "at", CELL_TIME, ALWAYS },
		{ "EVENT", "event", CELL_TEXT, ALWAYS }, { "FROM", "was", CELL_TEXT, ALWAYS },
		{ "TO", "now", CELL_TEXT, ALWAYS }, { "WHY", "why", CELL_TEXT, ALWAYS }, { 0 } };
	static const struct {
		const char *key;
		const struct column *cols;
	} parts[] = { { "notices", notices }, { "attempts", attempts }, { "events", events } };
	int rc = CTL_OK;

	for (size_t i = 0; i < ARRAY_LEN(parts) && rc == CTL_OK; i++) {
		const json_t *list = json_object_get(node, parts[i].key);

		if (json_array_size(list) > 0) {
			putchar('\n');
			rc = render_list(c, node, list, parts[i].cols, "");
		}
	}
	return rc;
}

int cmd_node_show(struct ctl *c)
{
	struct reply r;
	int rc = conn_get(c,
	    arena_printf(c->arena, "/v1/nodes/%s", url_encode(c->arena, c->args[0], false)), &r);

	rc = rc != CTL_OK ? rc : render_one(c, r.json, cols);
	if (rc == CTL_OK && (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE)) {
		rc = show_parts(c, r.json);
		show_verdicts(c, json_object_get(r.json, "verdicts"));
	}
	return rc;
}

/* Asking again for what is over is no error, but it is told. */
static bool node_over(const struct reply *r)
{
	const char *state = json_str(r->json, "state", "", NULL);

	return strcmp(state, "GONE") == 0 || strcmp(state, "FAILED") == 0;
}

int cmd_node_drain(struct ctl *c)
{
	struct reply r;
	int rc = conn_send(c, "POST",
	    arena_printf(c->arena, "/v1/nodes/%s/drain", url_encode(c->arena, c->args[0], false)),
	    NULL, STR_LIT("{}"), &r);

	if (rc == CTL_OK && node_over(&r)) {
		return render_done(c, &r, "%s: already over; nothing to drain", c->args[0]);
	}
	return rc != CTL_OK
	    ? rc
	    : render_done(c, &r, "%s: draining; its job is checkpointed and placed elsewhere",
		  c->args[0]);
}

int cmd_node_rm(struct ctl *c)
{
	struct reply r;
	int rc = conn_send(c, "DELETE",
	    arena_printf(c->arena, "/v1/nodes/%s%s", url_encode(c->arena, c->args[0], false),
		opt_flag(c, "force") ? "?force=1" : ""),
	    NULL, (struct str){ 0 }, &r);

	if (rc == CTL_OK && node_over(&r)) {
		return render_done(c, &r, "%s: over", c->args[0]);
	}
	return rc != CTL_OK ? rc : render_done(c, &r, "%s: terminating", c->args[0]);
}
