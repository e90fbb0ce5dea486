/* events, whoami, version, tokens. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

static const struct column event_cols[] = { { "ID", "id", CELL_INT, ALWAYS },
	{ "AT", "at", CELL_TIME, ALWAYS }, { "WHAT", "entity_id", CELL_TEXT, ALWAYS },
	{ "EVENT", "event", CELL_TEXT, ALWAYS }, { "FROM", "was", CELL_TEXT, SPARE_1 },
	{ "TO", "now", CELL_TEXT, ALWAYS }, { "ACTOR", "actor", CELL_TEXT, WIDE },
	{ "WHY", "why", CELL_TEXT, ALWAYS }, { 0 } };

/* A row of the stream: the same columns as the list, at fixed widths, because the end of the list
 * is not known. */
static bool print_event(struct ctl *c, const char *data)
{
	static const int widths[] = { 6, 20, 6, 16, 12, 12 };
	json_t *j = NULL;
	struct spot_err err = { 0 };
	size_t n = 0;

	if (c->format == FORMAT_JSON) {
		printf("%s\n", data);
		return fflush(stdout) == 0;
	}
	if (json_parse(str_from(data), "event", &j, &err) != SPOT_OK) {
		say("spotctl: %s", err.text);
		return true;
	}
	for (const struct column *col = event_cols; col->head != NULL; col++) {
		const char *text = text_clean(c->arena, cell_text(c, j, col));

		if (col->show == WIDE && c->format != FORMAT_WIDE) {
			continue;
		}
		if (col[1].head == NULL) {
			printf("%s\n", text);
		} else if (c->tty) {
			int width = n < ARRAY_LEN(widths) ? widths[n] : 12;

			printf("%-*s  ", width, text);
		} else {
			printf("%s\t", text);
		}
		n++;
	}
	json_decref(j);
	return fflush(stdout) == 0;
}

/* Shows the last events, then new ones, without a gap: the stream begins behind the last event of
 * the list. */
static int events_follow(struct ctl *c, char *path, int64_t limit)
{
	const char *after = opt_value(c, "after");
	char last[32] = "";
	struct reply r;
	const json_t *items, *e;
	size_t i;
	int rc;

	if (after != NULL) {
		return conn_events(c, path, after, false, print_event);
	}
	rc = conn_get(c,
	    arena_printf(c->arena, "%s%climit=%" PRId64, path,
		strchr(path, '?') != NULL ? '&' : '?', limit),
	    &r);
	if (rc != CTL_OK) {
		return rc;
	}
	items = json_object_get(r.json, "items");
	json_array_foreach (items, i, e) {
		if (!print_event(c, json_text(c->arena, e))) {
			return CTL_FAILED;
		}
		snprintf(last, sizeof(last), "%" PRId64, json_i64(e, "id", 0, NULL));
	}
	return conn_events(c, path, last, true, print_event);
}

int cmd_events(struct ctl *c)
{
	const char *limit = opt_value(c, "limit"), *after = opt_value(c, "after");
	bool on = opt_flag(c, "follow");
	char *path = opts_path(c, "/v1/events");
	const char *sep;
	int64_t most = on ? 10 : 100, id;
	struct reply r;
	int rc;

	if (limit != NULL && !parse_i64(limit, 1, 1000, &most)) {
		say("spotctl events: --limit must be a number from 1 to 1000, not '%s'", limit);
		return CTL_USAGE;
	}
	if (after != NULL && !parse_i64(after, 0, INT64_MAX / 2, &id)) {
		say("spotctl events: --after must be the number of an event, not '%s'", after);
		return CTL_USAGE;
	}
	if (on && (c->format == FORMAT_CSV || c->format == FORMAT_NAME || c->watch_s > 0)) {
		say("spotctl events: --follow needs -o table, wide or json, and cannot be combined "
		    "with --watch");
		return CTL_USAGE;
	}
	if (on) {
		return events_follow(c, path, most);
	}
	sep = strchr(path, '?') != NULL ? "&" : "?";
	path = arena_printf(c->arena, "%s%slimit=%" PRId64 "%s%s", path, sep, most,
	    after != NULL ? "&after=" : "", after != NULL ? after : "");
	rc = conn_get(c, path, &r);
	return rc != CTL_OK
	    ? rc
	    : render_list(c, r.json, json_object_get(r.json, "items"), event_cols, "no events yet");
}

int cmd_whoami(struct ctl *c)
{
	static const struct column cols[] = { { "NAME", "name", CELL_TEXT, ALWAYS },
		{ "ROLE", "role", CELL_TEXT, ALWAYS }, { "TEAM", "team", CELL_TEXT, ALWAYS },
		{ 0 } };
	struct reply r;
	int rc = conn_get(c, "/v1/whoami", &r);

	return rc != CTL_OK ? rc : render_one(c, r.json, cols);
}

int cmd_version(struct ctl *c)
{
	struct reply r;
	int rc;

	if (c->format != FORMAT_JSON) {
		printf("spotctl %s\n", SPOT_VERSION);
		fflush(stdout);
	}
	rc = settings_load(c);
	rc = rc != CTL_OK ? rc : conn_get(c, "/v1/version", &r);
	if (rc != CTL_OK) {
		return rc;
	}
	if (c->format == FORMAT_JSON) {
		json_object_set_new(r.json, "client", json_string(SPOT_VERSION));
		return render_json(r.json);
	}
	printf("spotd %s  installation %s  at %s\n",
	    text_clean(c->arena, json_str(r.json, "version", "?", NULL)),
	    text_clean(c->arena, json_str(r.json, "install", "?", NULL)), c->url);
	return CTL_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

int cmd_token_ls(struct ctl *c)
{
	static const struct column cols[] = { { "ID", "id", CELL_TEXT, ALWAYS },
		{ "NAME", "name", CELL_TEXT, ALWAYS }, { "ROLE", "role", CELL_TEXT, ALWAYS },
		{ "TEAM", "team", CELL_TEXT, ALWAYS },
		{ "CREATED", "created_at", CELL_TIME, SPARE_2 },
		{ "EXPIRES", "expires_at", CELL_TIME, ALWAYS },
		{ "REVOKED", "revoked_at", CELL_TIME, SPARE_1 }, { 0 } };

	return list_command(c, "/v1/tokens", cols, "no tokens");
}

static int token_expiry(const struct ctl *c, json_t *body)
{
	const char *expires = opt_value(c, "expires");
	int64_t us;

	if (expires == NULL) {
		return CTL_OK;
	}
	if (!parse_duration_us(expires, &us) || us < SPOT_US_PER_S) {
		say("spotctl token create: --expires must be a duration such as 90d, not '%s'",
		    expires);
		return CTL_USAGE;
	}
	json_object_set_new(body, "expires_s", json_integer(us / SPOT_US_PER_S));
	return CTL_OK;
}

int cmd_token_create(struct ctl *c)
{
	const char *role = opt_value(c, "role"), *team = opt_value(c, "team");
	AUTO(json)
	json_t *body = json_pack("{s:s, s:s, s:s}", "name", c->args[0], "role",
	    role != NULL ? role : "engineer", "team", team != NULL ? team : "");
	struct reply r;
	const char *token;
	int rc = body == NULL ? CTL_USAGE : token_expiry(c, body);

	if (body == NULL) {
		say("spotctl token create: the name must be UTF-8");
	}
	rc = rc != CTL_OK
	    ? rc
	    : conn_send(c, "POST", "/v1/tokens", NULL, str_from(json_text(c->arena, body)), &r);
	if (rc != CTL_OK) {
		return rc;
	}
	token = json_str(r.json, "token", "", NULL);
	if (*token == '\0') {
		say("spotctl: token '%s' was created, but the reply with its value was lost; "
		    "revoke it with 'spotctl token rm %s' and create another",
		    c->args[0], json_str(r.json, "id", "ID", NULL));
		return CTL_FAILED;
	}
	if (c->format == FORMAT_JSON || c->format == FORMAT_NAME) {
		return render_done(c, &r, " ");
	}
	printf("%s\n", token);
	say("the token is shown only this once; store it in a file of mode 0600");
	return CTL_OK;
}

int cmd_token_rm(struct ctl *c)
{
	struct reply r;
	int rc = conn_send(c, "DELETE",
	    arena_printf(c->arena, "/v1/tokens/%s", url_encode(c->arena, c->args[0], false)), NULL,
	    (struct str){ 0 }, &r);

	return rc != CTL_OK ? rc : render_done(c, &r, "%s: revoked", c->args[0]);
}
