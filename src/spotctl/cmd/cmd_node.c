/* node ls, show, drain, rm. */
#include "base/base.h"
#include "base/text/str.h"
#include "spotctl/ctl.h"
#include "spotctl/cmd/verdicts.h"

static const struct column cols[] = { { "NODE", "id", CELL_TEXT, false },
	{ "STATE", "state", CELL_STATE, false }, { "WHERE", "pool", CELL_PLACE, false },
	{ "TYPE", "pool.instance_type", CELL_TEXT, false }, { "GPU", "pool", CELL_GPU, false },
	{ "MARKET", "pool.market", CELL_TEXT, false }, { "USD/H", "price_micros", CELL_USD, false },
	{ "JOB", "job", CELL_TEXT, false }, { "RANK", "rank", CELL_INT, true },
	{ "FLEET", "fleet", CELL_TEXT, true }, { "USD", "cost_micros", CELL_USD, false },
	{ "AGE", "created_at", CELL_AGE, false }, { "HEARD", "last_seen_at", CELL_AGE, false },
	{ "NOTICE", "notice.kind", CELL_TEXT, false }, { "REF", "ref", CELL_TEXT, true },
	{ "END", "end_cause", CELL_TEXT, true }, { "WHY", "why", CELL_TEXT, true },
	{ "LAST ERROR", "last_error", CELL_TEXT, true }, { 0 } };

int cmd_node_ls(struct ctl *c)
{
	bool all = opt_flag(c, "all") || opt_flag(c, "state");

	return list_command(c, all ? "/v1/nodes" : "/v1/nodes?state=live", cols,
	    "no live nodes (--all also shows ended ones)");
}

static int show_parts(struct ctl *c, const json_t *node)
{
	static const struct column notices[] = { { "NOTICE", "kind", CELL_TEXT, false },
		{ "HEARD", "heard_at", CELL_TIME, false },
		{ "DEADLINE", "deadline_at", CELL_TIME, false },
		{ "FROM", "source", CELL_TEXT, false }, { 0 } };
	static const struct column attempts[] = { { "JOB", "job", CELL_TEXT, false },
		{ "TRY", "epoch", CELL_INT, false }, { "PHASE", "phase", CELL_STATE, false },
		{ "END", "exit_reason", CELL_TEXT, false },
		{ "BEGAN", "created_at", CELL_TIME, false },
		{ "ENDED", "ended_at", CELL_TIME, false }, { 0 } };
	static const struct column events[] = { { "AT", "at", CELL_TIME, false },
		{ "EVENT", "event", CELL_TEXT, false }, { "FROM", "was", CELL_TEXT, false },
		{ "TO", "now", CELL_TEXT, false }, { "WHY", "why", CELL_TEXT, false }, { 0 } };
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
