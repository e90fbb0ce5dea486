/* events, whoami, version, tokens. */
#include "base/base.h"
#include "base/str.h"
#include "spotctl/ctl.h"

#ifndef SPOT_VERSION
#define SPOT_VERSION "0.1.0"
#endif

static const struct column event_cols[] = {
	{"ID", "id", CELL_INT, false}, {"AT", "at", CELL_TIME, false}, {"WHAT", "entity_id", CELL_TEXT, false},
	{"EVENT", "event", CELL_TEXT, false}, {"FROM", "was", CELL_TEXT, false}, {"TO", "now", CELL_TEXT, false},
	{"ACTOR", "actor", CELL_TEXT, true}, {"WHY", "why", CELL_TEXT, false}, {0}};

static bool print_event(struct ctl *c, const char *data)
{
	AUTO(json) json_t *j = NULL;
	struct spot_err err = {0};

	if (c->format == FORMAT_JSON) {
		printf("%s\n", data);
	} else if (json_parse(str_from(data), "event", &j, &err) == SPOT_OK) {
		printf("%.19s  %-6s %-14s %-12s %-12s %s\n", json_str(j, "at", "", NULL), json_str(j, "entity_id", "", NULL),
		    json_str(j, "event", "", NULL), json_str(j, "was", "", NULL), json_str(j, "now", "", NULL), json_str(j, "why", "", NULL));
	}
	return fflush(stdout) == 0;
}

int cmd_events(struct ctl *c)
{
	if (opt_flag(c, "follow")) {
		return conn_events(c, opts_path(c, "/v1/events"), print_event);
	}
	return list_command(c, "/v1/events", event_cols, "nothing happened yet");
}

int cmd_whoami(struct ctl *c)
{
	struct reply r;
	int rc = conn_get(c, "/v1/whoami", &r);

	if (rc != CTL_OK) {
		return rc;
	}
	if (c->format == FORMAT_JSON) {
		return render_json(r.json);
	}
	printf("%s  role %s  team %s  at %s\n", json_str(r.json, "name", "", NULL), json_str(r.json, "role", "", NULL),
	    json_str(r.json, "team", "-", NULL), c->url);
	return CTL_OK;
}

int cmd_version(struct ctl *c)
{
	struct reply r;
	int rc;

	if (c->format != FORMAT_JSON) {
		printf("spotctl %s\n", SPOT_VERSION);
		fflush(stdout);
	}
	rc = conn_get(c, "/v1/version", &r);
	if (rc != CTL_OK) {
		return rc;
	}
	if (c->format == FORMAT_JSON) {
		json_object_set_new(r.json, "client", json_string(SPOT_VERSION));
		return render_json(r.json);
	}
	printf("spotd %s  installation %s  at %s\n", json_str(r.json, "version", "?", NULL), json_str(r.json, "install", "?", NULL), c->url);
	return CTL_OK;
}

int cmd_token_ls(struct ctl *c)
{
	static const struct column cols[] = {
		{"ID", "id", CELL_TEXT, false}, {"NAME", "name", CELL_TEXT, false}, {"ROLE", "role", CELL_TEXT, false},
		{"TEAM", "team", CELL_TEXT, false}, {"CREATED", "created_at", CELL_TIME, false},
		{"EXPIRES", "expires_at", CELL_TIME, false}, {"REVOKED", "revoked_at", CELL_TIME, false}, {0}};

	return list_command(c, "/v1/tokens", cols, "no tokens");
}

int cmd_token_create(struct ctl *c)
{
	const char *role = opt_value(c, "role"), *team = opt_value(c, "team"), *expires = opt_value(c, "expires");
	AUTO(json) json_t *body = json_pack("{s:s, s:s, s:s}", "name", c->args[0], "role", role != NULL ? role : "engineer", "team",
	    team != NULL ? team : "");
	struct reply r;
	int64_t us;
	int rc;

	if (expires != NULL) {
		if (!parse_duration_us(expires, &us) || us < SPOT_US_PER_S) {
			say("spotctl token create: --expires wants a duration such as 90d");
			return CTL_USAGE;
		}
		json_object_set_new(body, "expires_s", json_integer(us / SPOT_US_PER_S));
	}
	rc = conn_send(c, "POST", "/v1/tokens", NULL, str_from(json_text(c->arena, body)), &r);
	if (rc != CTL_OK) {
		return rc;
	}
	if (c->format == FORMAT_JSON) {
		return render_json(r.json);
	}
	printf("%s\n", json_str(r.json, "token", "", NULL));
	say("shown only now: store it in a file of mode 0600");
	return CTL_OK;
}

int cmd_token_rm(struct ctl *c)
{
	struct reply r;

	return conn_send(c, "DELETE", arena_printf(c->arena, "/v1/tokens/%s", url_encode(c->arena, c->args[0], false)), NULL,
	    (struct str){0}, &r);
}
