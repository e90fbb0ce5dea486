/*
 * The agent's identity, in its directory (0700):
 *
 * - boot.json, from the node's user data
 * - home, 16 random hex digits, made at the first start
 * - session, {"session","boot_id","node","poll_hold_ms","sample_s"}, 0600
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

#include <unistd.h>

static char *dup_or_null(const char *s)
{
	char *p = s != NULL ? strdup(s) : NULL;

	if (s != NULL && p == NULL) {
		abort();
	}
	return p;
}

enum spot_rc boot_read(const char *dir, struct boot *ret, struct spot_err *err)
{
	AUTO(json) json_t *o = NULL;
	struct spot_err first = { 0 };
	const char *url, *token;
	int64_t orphan_s;
	size_t n;
	enum spot_rc rc = json_file_read(dir, "boot.json", &o, err);

	if (rc != SPOT_OK) {
		return rc;
	}
	url = json_need_str(o, "url", &first);
	token = json_need_str(o, "token", &first);
	if (first.rc == SPOT_OK && !str_prefix(url, "https://") && !str_prefix(url, "http://")) {
		(void)err_set(&first, SPOT_INVALID, "url: must begin with http:// or https://");
	}
	if (first.rc == SPOT_OK && (strlen(url) > 1000 || strlen(token) > 1000)) {
		(void)err_set(&first, SPOT_INVALID, "url or token: too long");
	}
	orphan_s = json_i64(o, "orphan_timeout_s", 900, &first);
	(void)json_str(o, "ca_pem", NULL, &first);
	if (first.rc == SPOT_OK && (orphan_s <= 0 || orphan_s > STATE_SECONDS_MAX)) {
		(void)err_set(&first, SPOT_INVALID,
		    "orphan_timeout_s: must be more than 0 and at most a year");
	}
	if (first.rc != SPOT_OK) {
		return err_set(err, SPOT_CONFIG, "%s/boot.json: %s", dir, first.text);
	}
	ret->orphan_us = orphan_s * SPOT_US_PER_S;
	ret->audience = dup_or_null(url);
	ret->url = dup_or_null(url);
	for (n = strlen(url); n > 0 && url[n - 1] == '/'; n--) {
		ret->url[n - 1] = '\0';
	}
	ret->ca_pem = dup_or_null(json_str(o, "ca_pem", NULL, NULL));
	ret->provider = dup_or_null(json_str(o, "provider", "", NULL));
	ret->install = dup_or_null(json_str(o, "install", "", NULL));
	ret->node = dup_or_null(json_str(o, "node", "", NULL));
	secret_init(&ret->token, token, strlen(token));
	return SPOT_OK;
}

void boot_fini(struct boot *b)
{
	free(b->url);
	free(b->audience);
	free(b->ca_pem);
	free(b->provider);
	free(b->install);
	free(b->node);
	secret_fini(&b->token);
}

/* Machines of one launch share boot.json, and Pods of one host share a kernel. A random id tells
 * them apart, and a restart finds it again. A directory with a session and without an id comes from
 * an earlier version, which enrolled without it. */
void home_id(struct agent *a, char ret[HOME_ID_MAX])
{
	char path[AGENT_PATH_MAX], session[AGENT_PATH_MAX];
	struct spot_err err = { 0 };
	struct str text;

	ret[0] = '\0';
	if (!path_join(path, a->dir, "home") || !path_join(session, a->dir, "session")) {
		return;
	}
	if (file_read(path, 128, &text, NULL) == SPOT_OK) {
		(void)snprintf(ret, HOME_ID_MAX, "%.*s", (int)strspn(text.p, "0123456789abcdef"),
		    text.p);
		free((char *)(uintptr_t)text.p);
	}
	if (ret[0] != '\0' || file_exists(session)) {
		return;
	}
	rng_hex(&a->rng, ret, (HOME_ID_MAX - 1) / 2);
	if (file_write(path, str_from(ret), 0600, true, &err) != SPOT_OK) {
		/* The daemon would take a restarted agent for another machine. */
		log_error("home.not_written", STR("error", err.text));
	}
}

/* ---- session --------------------------------------------------------------------------------- */

enum spot_rc session_read(struct agent *a, struct spot_err *err)
{
	AUTO(json) json_t *o = NULL;
	struct spot_err first = { 0 };
	const char *session, *node;
	int64_t sample_s;
	enum spot_rc rc = json_file_read(a->dir, "session", &o, err);

	if (rc != SPOT_OK) {
		return rc;
	}
	session = json_need_str(o, "session", &first);
	node = json_need_str(o, "node", &first);
	a->hold_ms = json_i64(o, "poll_hold_ms", 25000, &first);
	sample_s = json_i64(o, "sample_s", 15, &first);
	if (first.rc == SPOT_OK && (sample_s <= 0 || sample_s > STATE_SECONDS_MAX)) {
		(void)err_set(&first, SPOT_INVALID,
		    "sample_s: must be more than 0 and at most a year");
	}
	if (first.rc != SPOT_OK || !str_copy(a->node, sizeof(a->node), node)) {
		return err_set(err, SPOT_INVALID, "session: %s", first.text);
	}
	a->sample_us = sample_s * SPOT_US_PER_S;
	http_bearer(a->http, session);
	return SPOT_OK;
}

enum spot_rc session_write(struct agent *a, const char *session, struct spot_err *err)
{
	AUTO(json)
	json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:I}", "session", session, "boot_id",
	    a->enrol.boot_id, "node", a->node, "poll_hold_ms", (json_int_t)a->hold_ms, "sample_s",
	    (json_int_t)(a->sample_us / SPOT_US_PER_S));

	return json_file_write(a->dir, "session", o, err);
}

void session_remove(struct agent *a)
{
	char path[AGENT_PATH_MAX];

	if (path_join(path, a->dir, "session")) {
		(void)unlink(path);
	}
}
