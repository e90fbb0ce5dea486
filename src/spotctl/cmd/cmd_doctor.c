/* doctor: what an examination of the providers and of the daemon saw, and what to do about it. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#define WAIT_DEFAULT_S 60
#define HOLD_MAX_S 60 /* of one request */

static const struct column cols[] = { { "PROVIDER", "provider", CELL_TEXT, ALWAYS },
	{ "REGION", "region", CELL_TEXT, ALWAYS }, { "CHECK", "name", CELL_TEXT, ALWAYS },
	{ "STATE", "state", CELL_STATE, ALWAYS }, { "SEEN", "words", CELL_TEXT, ALWAYS },
	{ "FIX", "fix", CELL_TEXT, ALWAYS }, { "AMOUNT", "amount", CELL_INT, WIDE }, { 0 } };

/* On a terminal the fix stands below what the check saw. */
static const struct column screen_cols[] = { { "WHERE", "where", CELL_TEXT, ALWAYS },
	{ "CHECK", "name", CELL_TEXT, ALWAYS }, { "STATE", "state", CELL_STATE, ALWAYS },
	{ "SEEN", "told", CELL_TEXT, ALWAYS }, { 0 } };

/* Returns the findings for a terminal, with the members that screen_cols shows: those that are not
 * ok, or all. */
static json_t *items_for_screen(struct ctl *c, json_t *items, bool all)
{
	json_t *shown = json_array(), *item;
	size_t i;

	json_array_foreach (items, i, item) {
		const char *region = json_str(item, "region", "", NULL),
			   *fix = json_str(item, "fix", "", NULL);

		if (!all && strcmp(json_str(item, "state", "", NULL), "ok") == 0) {
			continue;
		}
		json_object_set_new(item, "where",
		    json_string(arena_printf(c->arena, "%s%s%s",
			json_str(item, "provider", "", NULL), *region != '\0' ? "/" : "", region)));
		json_object_set_new(item, "told",
		    json_string(arena_printf(c->arena, "%s%s%s", json_str(item, "words", "", NULL),
			*fix != '\0' ? "; " : "", fix)));
		json_array_append(shown, item);
	}
	return shown;
}

static int print_items(struct ctl *c, const struct reply *r)
{
	json_t *items = json_object_get(r->json, "items");
	bool all = opt_flag(c, "all");
	size_t hidden;
	int rc;

	if (!c->tty || c->format != FORMAT_TABLE || !json_is_array(items)) {
		return render_list(c, r->json, items, cols, "nothing was examined yet");
	}
	AUTO(json) json_t *shown = items_for_screen(c, items, all);

	hidden = json_array_size(items) - json_array_size(shown);
	rc = render_list(c, r->json, shown, screen_cols,
	    hidden > 0 ? "every check is ok" : "nothing was examined yet");
	if (hidden > 0) {
		say("(%zu checks that are ok are left out; --all shows them)", hidden);
	}
	return rc;
}

/* The row as it came, until it is done or our time is over. */
static int await_done(struct ctl *c, const char *id, int64_t left_s, struct reply *r)
{
	int rc = CTL_OK;

	while (rc == CTL_OK && left_s > 0 &&
	    strcmp(json_str(r->json, "state", "done", NULL), "done") != 0) {
		int64_t hold = MIN(left_s, HOLD_MAX_S);

		rc = conn_get(c,
		    arena_printf(c->arena, "/v1/doctor/%s?timeout_s=%" PRId64,
			url_encode(c->arena, id, false), hold),
		    r);
		left_s -= hold;
	}
	return rc;
}

static void say_outcome(struct ctl *c, const json_t *run)
{
	int64_t bad = json_i64(run, "bad", 0, NULL), warn = json_i64(run, "warn", 0, NULL);

	if (strcmp(json_str(run, "state", "", NULL), "done") != 0) {
		say("examination %s is not done yet; check that an engine runs (GET /readyz), then "
		    "repeat 'spotctl doctor'",
		    text_clean(c->arena, json_str(run, "id", "?", NULL)));
	} else if (bad > 0) {
		say("%" PRId64 " bad, %" PRId64 " warnings", bad, warn);
	} else {
		say(warn > 0 ? "nothing is bad, %" PRId64 " warnings" : "everything is in order",
		    warn);
	}
}

static int run_outcome(const json_t *run)
{
	if (strcmp(json_str(run, "state", "", NULL), "done") != 0) {
		return CTL_UNREACHABLE;
	}
	return json_i64(run, "bad", 0, NULL) > 0 ? CTL_FAILED : CTL_OK;
}

static json_t *doctor_request(const struct ctl *c)
{
	json_t *body = json_object();

	if (c->args_n > 0) {
		json_t *names = json_array();

		for (int i = 0; i < c->args_n; i++) {
			json_array_append_new(names, json_string(c->args[i]));
		}
		json_object_set_new(body, "providers", names);
	}
	if (opt_flag(c, "consistency")) {
		json_object_set_new(body, "consistency", json_true());
	}
	return body;
}

int cmd_doctor(struct ctl *c)
{
	AUTO(json) json_t *body = doctor_request(c);
	const char *timeout = opt_value(c, "timeout");
	int64_t wait_s = WAIT_DEFAULT_S;
	struct reply r;
	int rc;

	if (timeout != NULL && !parse_i64(timeout, 1, 3600, &wait_s)) {
		say("spotctl doctor: --timeout must be seconds from 1 to 3600, not '%s'", timeout);
		return CTL_USAGE;
	}
	rc = conn_send(c, "POST", "/v1/doctor", NULL, str_from(json_text(c->arena, body)), &r);
	rc = rc != CTL_OK ? rc : await_done(c, json_str(r.json, "id", "", NULL), wait_s, &r);
	if (rc != CTL_OK) {
		return rc;
	}
	rc = print_items(c, &r);
	if (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE) {
		say_outcome(c, r.json);
	}
	return rc != CTL_OK ? rc : run_outcome(r.json);
}
