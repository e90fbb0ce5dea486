/*
 * What the agent keeps on disk, in its directory (0700):
 *   boot.json   written by the node's user data
 *   home        who we are beside others with the same boot.json: 16 random hex digits, made at the
 *               first start
 *   session     {"session","boot_id","node","poll_hold_ms","sample_s"}, 0600
 *   state.json  the job it is responsible for, without environment and secrets
 *   jobs/ID-EPOCH/  the job's own directory
 * A restarted agent reads them and goes on where it was.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/err.h"
#include "base/log.h"
#include "base/text/str.h"

#include <unistd.h>

#define STATE_BYTES_MAX ((size_t)4 << 20)
#define SECONDS_MAX INT64_C(31622400)

static enum spot_rc json_file_read(const char *dir, const char *name, json_t **ret,
    struct spot_err *err)
{
	char path[AGENT_PATH_MAX];
	struct str text;
	enum spot_rc rc;

	if (!path_join(path, dir, name)) {
		return err_set(err, SPOT_INVALID, "%s: path too long", name);
	}
	rc = file_read(path, STATE_BYTES_MAX, &text, err);
	if (rc != SPOT_OK) {
		return rc;
	}
	rc = json_parse(text, path, ret, err);
	mem_wipe((char *)(uintptr_t)text.p, text.n);
	free((char *)(uintptr_t)text.p);
	if (rc == SPOT_OK && !json_is_object(*ret)) {
		json_decref(STEAL(*ret));
		return err_set(err, SPOT_INVALID, "%s: not an object", path);
	}
	return rc;
}

static enum spot_rc json_file_write(const char *dir, const char *name, const json_t *o,
    struct spot_err *err)
{
	char path[AGENT_PATH_MAX];
	char *text = json_dumps(o, JSON_COMPACT);
	enum spot_rc rc;

	if (text == NULL || !path_join(path, dir, name)) {
		free(text);
		return err_set(err, SPOT_INVALID, "%s: cannot be written as JSON", name);
	}
	rc = file_write(path, str_from(text), 0600, true, err);
	mem_wipe(text, strlen(text));
	free(text);
	return rc;
}

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
		(void)err_set(&first, SPOT_INVALID, "url: http:// or https:// is wanted");
	}
	if (first.rc == SPOT_OK && (strlen(url) > 1000 || strlen(token) > 1000)) {
		(void)err_set(&first, SPOT_INVALID, "url or token: too long");
	}
	orphan_s = json_i64(o, "orphan_timeout_s", 900, &first);
	(void)json_str(o, "ca_pem", NULL, &first);
	if (first.rc == SPOT_OK && (orphan_s <= 0 || orphan_s > SECONDS_MAX)) {
		(void)err_set(&first, SPOT_INVALID,
		    "orphan_timeout_s: more than 0 and at most a year is wanted");
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

/* Two machines of one launch have one boot.json, and Pods of one host one kernel: what is drawn
 * here tells them apart, and a restart finds it again. A directory that is in use without it is an
 * earlier agent's, which enrolled as it was. */
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
		/* a restart is taken for another machine then */
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
	if (first.rc == SPOT_OK && (sample_s <= 0 || sample_s > SECONDS_MAX)) {
		(void)err_set(&first, SPOT_INVALID,
		    "sample_s: more than 0 and at most a year is wanted");
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

/* ---- state ----------------------------------------------------------------------------------- */

void state_write(struct agent *a)
{
	const struct job *j = &a->job;
	struct spot_err err = { 0 };
	AUTO(json)
	json_t *o = json_pack("{s:s, s:I, s:I}", "boot_id", a->enrol.boot_id, "version",
	    (json_int_t)a->poll.version, "orphan_timeout_s",
	    (json_int_t)(a->orphan_us / SPOT_US_PER_S));

	if (j->phase != JOB_NONE && j->spec != NULL) {
		(void)json_object_set_new(o, "job",
		    json_pack("{s:s, s:I, s:i, s:O, s:s, s:i, s:s, s:I, s:I, s:I, s:b, s:i, s:s}",
			"id", j->id, "epoch", (json_int_t)j->epoch, "phase", (int)j->phase, "spec",
			j->spec, "cgroup", j->cgroup, "stop", (int)j->stop, "why", j->why,
			"running_us", (json_int_t)j->running_us, "log_sent",
			(json_int_t)a->logs.sent, "spawned_us", (json_int_t)j->spawned_us,
			"finished", (int)j->finished, "kills", j->kills, "reason",
			j->reason != NULL ? j->reason : ""));
	}
	if (json_file_write(a->dir, "state.json", o, &err) != SPOT_OK) {
		log_error("state.not_written", STR("error", err.text));
	}
}

bool orphan_timeout_set(struct agent *a, int64_t seconds)
{
	int64_t was = a->orphan_us;

	if (seconds >= 0 && seconds <= SECONDS_MAX) {
		a->orphan_us = seconds * SPOT_US_PER_S;
	}
	return a->orphan_us != was;
}

static const char *reason_read(const char *text)
{
	static const char *const known[] = { "ok", "drained", "killed", "error", "setup_failed" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(text, known[i]) == 0) {
			return known[i];
		}
	}
	return NULL;
}

void state_read(struct agent *a)
{
	AUTO(json) json_t *o = NULL;
	struct spot_err err = { 0 };
	const json_t *job;
	struct job *j = &a->job;
	int64_t phase;

	if (json_file_read(a->dir, "state.json", &o, &err) != SPOT_OK) {
		if (err.rc != SPOT_NOT_FOUND) {
			log_error("state.unreadable", STR("error", err.text));
		}
		return;
	}
	a->poll.version = json_i64(o, "version", 0, NULL);
	orphan_timeout_set(a, json_i64(o, "orphan_timeout_s", -1, NULL));
	job = json_object_get(o, "job");
	phase = json_i64(job, "phase", 0, NULL);
	if (!json_is_object(job) || phase <= JOB_NONE || phase > JOB_REPORTED) {
		return;
	}
	if (!str_copy(j->id, sizeof(j->id), json_str(job, "id", "", NULL)) ||
	    !str_copy(j->cgroup, sizeof(j->cgroup), json_str(job, "cgroup", "", NULL)) ||
	    !str_copy(j->why, sizeof(j->why), json_str(job, "why", "", NULL))) {
		return;
	}
	j->epoch = json_i64(job, "epoch", 0, NULL);
	j->stop = (enum job_stop)json_i64(job, "stop", 0, NULL);
	j->running_us = json_i64(job, "running_us", 0, NULL);
	j->spawned_us = json_i64(job, "spawned_us", 0, NULL);
	j->finished = json_bool(job, "finished", false, NULL);
	/* another one is asked politely first */
	j->kills = (int)MIN(json_i64(job, "kills", 0, NULL), INT64_C(1));
	j->reason = reason_read(json_str(job, "reason", "", NULL));
	j->spec = json_incref(json_object_get(job, "spec"));
	j->phase = (enum job_phase)phase;
	if (strcmp(json_str(o, "boot_id", "", NULL), a->enrol.boot_id) != 0) {
		j->spawned_us = j->running_us = 0; /* times of another boot mean nothing */
	}
	if (job_spec_read(a, j, &err) != SPOT_OK) {
		log_error("state.unreadable", STR("error", err.text));
		json_decref(STEAL(j->spec));
		j->phase = JOB_NONE;
		return;
	}
	a->logs.sent = json_i64(job, "log_sent", 0, NULL);
	job_adopt(a);
}
