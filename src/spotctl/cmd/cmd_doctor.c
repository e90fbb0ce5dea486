/* doctor: what an examination of the providers and of the daemon saw, and what to do about it. */
#include "base/base.h"
#include "base/text/str.h"
#include "spotctl/ctl.h"

#define WAIT_DEFAULT_S 60
#define HOLD_MAX_S 60 /* of one request */

static const struct column cols[] = { { "PROVIDER", "provider", CELL_TEXT, false },
	{ "REGION", "region", CELL_TEXT, false }, { "CHECK", "name", CELL_TEXT, false },
	{ "STATE", "state", CELL_STATE, false }, { "SEEN", "words", CELL_TEXT, false },
	{ "FIX", "fix", CELL_TEXT, false }, { "AMOUNT", "amount", CELL_INT, true }, { 0 } };

/* Long words would push the fix off the screen: on a terminal they are cut unless all was asked
 * for. */
#define SEEN_MAX 72

static bool same_group(unsigned char c)
{
	return (c & 0xC0) == 0x80;
}

static void item_shorten(json_t *item)
{
	const char *words = json_str(item, "words", "", NULL);
	char cut[SEEN_MAX * 4 + 8];
	size_t n = 0, columns = 0;

	if (text_width(words) <= SEEN_MAX) {
		return;
	}
	while (words[n] != '\0' && n + 8 < sizeof(cut) &&
	    (columns < SEEN_MAX - 3 || same_group((unsigned char)words[n]))) {
		columns += !same_group((unsigned char)words[n]);
		n++;
	}
	snprintf(cut, sizeof(cut), "%.*s...", (int)n, words);
	json_object_set_new(item, "words", json_string(cut));
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
	json_t *items, *item;
	size_t i;
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
	items = json_object_get(r.json, "items");
	if (c->tty && c->format == FORMAT_TABLE && !opt_flag(c, "all")) {
		json_array_foreach (items, i, item) {
			item_shorten(item);
		}
	}
	rc = render_list(c, r.json, items, cols, "nothing was examined yet");
	if (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE) {
		say_outcome(c, r.json);
	}
	return rc != CTL_OK ? rc : run_outcome(r.json);
}
