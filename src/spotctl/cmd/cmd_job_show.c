/* job show and job why. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/cmd/cmd.h"

static void put_line(struct ctl *c, const char *head, const char *text)
{
	if (!str_empty(text)) {
		printf("%-12s %s\n", head, text_clean(c->arena, text));
	}
}

static void show_head(struct ctl *c, const json_t *j)
{
	static const struct column steps = { "", "steps_done", CELL_STEPS, ALWAYS },
				   place = { "", "pool", CELL_PLACE, ALWAYS },
				   gpu = { "", "pool", CELL_GPU, ALWAYS },
				   cost = { "", "cost_micros", CELL_USD, ALWAYS };
	const json_t *ckpt = json_object_get(j, "checkpoint");
	const char *state = json_str(j, "state", "", NULL);

	put_line(c, "job",
	    arena_printf(c->arena, "%s  %s", json_str(j, "id", "", NULL),
		json_str(j, "name", "", NULL)));
	printf("%-12s %s%s%s  %s\n", "state", state_color(c, state), text_clean(c->arena, state),
	    c->color ? "\033[0m" : "", text_clean(c->arena, json_str(j, "why", "", NULL)));
	if (json_is_object(json_object_get(j, "queue"))) {
		put_line(c, "queue",
		    arena_printf(c->arena, "%" PRId64 ": %s",
			json_i64(json_object_get(j, "queue"), "position", 0, NULL),
			json_str(json_object_get(j, "queue"), "why", "", NULL)));
	}
	put_line(c, "steps", cell_text(c, j, &steps));
	if (json_is_object(json_object_get(j, "pool"))) {
		put_line(c, "where",
		    arena_printf(c->arena, "%s  %s  %s  on %s", cell_text(c, j, &place),
			cell_text(c, j, &gpu), json_str(j, "market", "", NULL),
			json_str(j, "node", "", NULL)));
	}
	if (json_i64(j, "num_nodes", 1, NULL) > 1) {
		put_line(c, "nodes",
		    arena_printf(c->arena, "%" PRId64 ", together in one zone%s; showing rank 0",
			json_i64(j, "num_nodes", 1, NULL),
			strcmp(json_str(j, "network_tier", "", NULL), "best") == 0
			    ? ", close to each other if the cloud can"
			    : ""));
	}
	put_line(c, "owner",
	    arena_printf(c->arena, "%s  team %s  project %s  class %s",
		json_str(j, "owner", "", NULL), json_str(j, "team", "-", NULL),
		json_str(j, "project", "-", NULL), json_str(j, "class", "", NULL)));
	put_line(c, "fleet", json_str(j, "fleet", "", NULL));
	put_line(c, "created", json_str(j, "created_at", "", NULL));
	put_line(c, "deadline", json_str(j, "deadline_at", "", NULL));
	put_line(c, "ended", json_str(j, "ended_at", "", NULL));
	put_line(c, "cost",
	    arena_printf(c->arena, "%s USD, %" PRId64 " attempts, %" PRId64 " interruptions",
		cell_text(c, j, &cost), json_i64(j, "attempts", 0, NULL),
		json_i64(j, "interruptions", 0, NULL)));
	put_line(c, "budget", job_budget_words(c, j));
	put_line(c, "parked", job_parked_words(c, j));
	if (json_is_object(ckpt)) {
		put_line(c, "checkpoint",
		    arena_printf(c->arena, "%s at step %" PRId64 ", %" PRId64 " bytes, %s",
			json_str(ckpt, "id", "", NULL), json_i64(ckpt, "steps", 0, NULL),
			json_i64(ckpt, "bytes", 0, NULL),
			json_str(ckpt, "committed_at", "", NULL)));
	}
	put_line(c, "not saved", json_str(j, "not_stored", "", NULL));
	put_line(c, "lost steps",
	    arena_printf(c->arena, "%" PRId64, json_i64(j, "lost_steps", 0, NULL)));
}

static void show_attempts(struct ctl *c, const json_t *j)
{
	static const struct column cols[] = { { "TRY", "epoch", CELL_INT, ALWAYS },
		{ "RANK", "rank", CELL_INT, SPARE_2 }, { "NODE", "node", CELL_TEXT, ALWAYS },
		{ "WHERE", "pool", CELL_PLACE, ALWAYS },
		{ "TYPE", "pool.instance_type", CELL_TEXT, SPARE_2 },
		{ "MARKET", "market", CELL_TEXT, SPARE_4 },
		{ "PHASE", "phase", CELL_STATE, SPARE_1 },
		{ "END", "exit_reason", CELL_TEXT, SPARE_3 },
		{ "FROM STEP", "steps_start", CELL_INT, SPARE_1 },
		{ "TO STEP", "steps_done", CELL_INT, ALWAYS },
		{ "STARTED", "started_at", CELL_TIME, SPARE_2 },
		{ "ENDED", "ended_at", CELL_TIME, SPARE_1 },
		{ "WHY", "drain_why", CELL_TEXT, ALWAYS }, { 0 } };
	const json_t *list = json_object_get(j, "attempts_list"), *one;
	bool lost = false;
	size_t i;

	if (json_array_size(list) == 0) {
		return;
	}
	putchar('\n');
	render_list(c, list, list, cols, "");
	json_array_foreach (list, i, one) {
		lost = lost || strcmp(json_str(one, "exit_reason", "", NULL), "lost") == 0;
	}
	if (lost) {
		say("'spotctl job show %s --why' shows the evidence for each lost machine",
		    json_str(j, "id", "JOB", NULL));
	}
}

/* Every term of the offers that the newest placement was chosen from. */
static int show_terms(struct ctl *c, const json_t *decisions)
{
	static const struct column cols[] = { { "POOL", "pool", CELL_INT, ALWAYS },
		{ "PLACE", "", CELL_PLACE, ALWAYS },
		{ "TYPE", "instance_type", CELL_TEXT, SPARE_2 },
		{ "MARKET", "market", CELL_TEXT, ALWAYS },
		{ "RECLAIMS/H", "hazard_per_hour", CELL_RATE, ALWAYS },
		{ "LOW", "hazard_lo", CELL_RATE, ALWAYS },
		{ "HIGH", "hazard_hi", CELL_RATE, ALWAYS },
		{ "RECLAIMS FROM", "hazard_source", CELL_TEXT, SPARE_1 }, { 0 } };
	const json_t *offers = NULL, *d, *o;
	size_t i;

	json_array_foreach (decisions, i, d) {
		o = json_path(d, "inputs.offers");
		offers = json_array_size(o) > 0 ? o : offers;
	}
	if (offers == NULL) {
		return CTL_OK;
	}
	putchar('\n');
	return render_list(c, offers, offers, score_columns(c, cols), "");
}

static int show_why(struct ctl *c, const char *job)
{
	static const struct column decisions[] = { { "AT", "at", CELL_TIME, ALWAYS },
		{ "DECISION", "kind", CELL_TEXT, ALWAYS }, { "NODE", "node", CELL_TEXT, SPARE_1 },
		{ "WHY", "why", CELL_TEXT, ALWAYS }, { 0 } };
	static const struct column events[] = { { "AT", "at", CELL_TIME, ALWAYS },
		{ "WHAT", "entity_id", CELL_TEXT, ALWAYS }, { "EVENT", "event", CELL_TEXT, ALWAYS },
		{ "FROM", "was", CELL_TEXT, SPARE_1 }, { "TO", "now", CELL_TEXT, ALWAYS },
		{ "WHY", "why", CELL_TEXT, ALWAYS }, { 0 } };
	struct reply r;
	int rc = conn_get(c,
	    arena_printf(c->arena, "/v1/jobs/%s/why", url_encode(c->arena, job, false)), &r);

	if (rc != CTL_OK) {
		return rc;
	}
	if (c->format == FORMAT_JSON) {
		return render_json(r.json);
	}
	if (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE) {
		printf("%s\n\n", text_clean(c->arena, json_str(r.json, "class_why", "", NULL)));
	}
	rc = render_list(c, r.json, json_object_get(r.json, "decisions"), decisions,
	    "no decisions yet");
	if (rc != CTL_OK || c->format == FORMAT_CSV || c->format == FORMAT_NAME) {
		return rc; /* one table for programs */
	}
	if (c->format == FORMAT_WIDE) {
		rc = show_terms(c, json_object_get(r.json, "decisions"));
	}
	show_verdicts(c, json_object_get(r.json, "verdicts"));
	putchar('\n');
	return rc == CTL_OK
	    ? render_list(c, r.json, json_object_get(r.json, "events"), events, "no events yet")
	    : rc;
}

int cmd_job_why(struct ctl *c)
{
	return show_why(c, c->args[0]);
}

int cmd_job_show(struct ctl *c)
{
	struct reply r;
	int rc;

	if (opt_flag(c, "why")) {
		return show_why(c, c->args[0]);
	}
	rc = conn_get(c,
	    arena_printf(c->arena, "/v1/jobs/%s", url_encode(c->arena, c->args[0], false)), &r);
	if (rc != CTL_OK) {
		return rc;
	}
	if (c->format != FORMAT_TABLE && c->format != FORMAT_WIDE) {
		return render_one(c, r.json, job_cols);
	}
	show_head(c, r.json);
	show_attempts(c, r.json);
	show_recoveries(c, r.json);
	return CTL_OK;
}
