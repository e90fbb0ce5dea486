/* The job file: top level, envs and config.spotctl. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/place/place.h"
#include "core/spec/spec.h"
#include "spot/agent.h"

#include <ctype.h>

#define ENVS_MAX 512
#define SCRIPT_MAX 262144
#define NAME_MAX_LEN 60
#define OWNER_MAX_LEN 60 /* as of a token's team */
/* Linux limits one NAME=VALUE to MAX_ARG_STRLEN (with pages of 4 KiB, the NUL included). It limits
 * all variables and arguments together to a quarter of the stack, 2 MiB. Half of that stays for the
 * job's own programs and the agent. */
#define ENV_MAX 131072
#define ENVS_BYTES_MAX 1048576
#define SAVE_MAX_S 2592000 /* 30 days: src/agent/proc/start.c accepts no longer times */
#define SAVED_MAX (SPOT_AGENT_FILES_MAX * SPOT_AGENT_CHUNK_BYTES)

void jobspec_warn(struct jobspec_ctx *x, const struct yaml *at, const char *text)
{
	x->warnings = arena_grow(x->arena, x->warnings, x->warnings_n, &x->warnings_cap,
	    sizeof(*x->warnings));
	x->warnings[x->warnings_n++] = arena_printf(x->arena, "line %d: %s", at->line, text);
}

enum spot_rc spec_text(const struct yaml *y, const char **ret, struct spot_err *err)
{
	if (y == NULL || yaml_is_null(y)) {
		return SPOT_OK;
	}
	if (y->kind != YAML_SCALAR) {
		return yaml_fail(y, err, "%s: must be text", y->key != NULL ? y->key : "entry");
	}
	*ret = y->text;
	return SPOT_OK;
}

enum spot_rc spec_int(const struct yaml *y, int64_t min, int64_t max, int64_t *ret,
    struct spot_err *err)
{
	if (y == NULL || yaml_is_null(y)) {
		return SPOT_OK;
	}
	if (y->kind != YAML_SCALAR || !parse_i64(y->text, min, max, ret)) {
		return yaml_fail(y, err, "%s: a whole number from %" PRId64 " to %" PRId64, y->key,
		    min, max);
	}
	return SPOT_OK;
}

enum spot_rc spec_bool(const struct yaml *y, bool *ret, struct spot_err *err)
{
	if (y == NULL || yaml_is_null(y)) {
		return SPOT_OK;
	}
	if (y->kind == YAML_SCALAR &&
	    (strcmp(y->text, "true") == 0 || strcmp(y->text, "True") == 0)) {
		*ret = true;
		return SPOT_OK;
	}
	if (y->kind == YAML_SCALAR &&
	    (strcmp(y->text, "false") == 0 || strcmp(y->text, "False") == 0)) {
		*ret = false;
		return SPOT_OK;
	}
	return yaml_fail(y, err, "%s: true or false", y->key);
}

enum spot_rc spec_seconds(const struct yaml *y, int64_t *ret, struct spot_err *err)
{
	int64_t us;

	if (y == NULL || yaml_is_null(y)) {
		return SPOT_OK;
	}
	if (y->kind != YAML_SCALAR || !parse_duration_us(y->text, &us) || us < SPOT_US_PER_S) {
		return yaml_fail(y, err, "%s: a duration such as 90s, 30m, 6h or 2d", y->key);
	}
	*ret = us / SPOT_US_PER_S;
	return SPOT_OK;
}

/* The same, limited to the longest time that the agent waits. */
static enum spot_rc save_seconds(const struct yaml *y, int64_t *ret, struct spot_err *err)
{
	enum spot_rc rc = spec_seconds(y, ret, err);

	if (rc == SPOT_OK && y != NULL && *ret > SAVE_MAX_S) {
		return yaml_fail(y, err, "checkpoint.%s: at most %d days", y->key,
		    SAVE_MAX_S / 86400);
	}
	return rc;
}

enum spot_rc spec_keys(const struct yaml *map, const char *what, const char *const *known,
    const struct spec_unsupported *later, struct spot_err *err)
{
	if (map == NULL) {
		return SPOT_OK;
	}
	if (map->kind != YAML_MAP) {
		return yaml_fail(map, err, "%s: must be a mapping", what);
	}
	for (const struct yaml *i = map->child; i != NULL; i = i->next) {
		const struct yaml at = { .kind = YAML_SCALAR,
			.line = i->key_line,
			.column = i->key_column };
		const char *near = NULL;
		char hint[NEAR_HINT_MAX];
		bool found = false;
		int least = NEAR_LEAST;

		for (size_t k = 0; known[k] != NULL && !found; k++) {
			found = strcmp(known[k], i->key) == 0;
			near = near_better(i->key, known[k], near, &least);
		}
		for (size_t k = 0; !found && later[k].key != NULL; k++) {
			if (strcmp(later[k].key, i->key) == 0) {
				return yaml_fail(&at, err, "%s.%s is not supported: %s", what,
				    i->key, later[k].why);
			}
		}
		if (!found) {
			return yaml_fail(&at, err, "%s: unknown key '%s'%s", what, i->key,
			    near_hint(near, hint));
		}
	}
	return SPOT_OK;
}

static bool env_name_ok(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_') {
		return false;
	}
	for (; *s != '\0'; s++) {
		if (!isalnum((unsigned char)*s) && *s != '_') {
			return false;
		}
	}
	return true;
}

/* NAME=VALUE and its NUL. */
static size_t env_bytes(const char *name, const char *value)
{
	return strlen(name) + strlen(value) + 2;
}

static size_t envs_bytes(const struct job_env *envs, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum += env_bytes(envs[i].name, envs[i].value) + sizeof(char *);
	}
	return sum;
}

static enum spot_rc parse_envs(struct jobspec_ctx *x, const struct yaml *y, const char *what,
    struct job_env **ret, size_t *ret_n, struct spot_err *err)
{
	if (y == NULL || yaml_is_null(y)) {
		return SPOT_OK;
	}
	if (y->kind != YAML_MAP || y->children > ENVS_MAX) {
		return yaml_fail(y, err, "%s: a mapping of at most %d names", what, ENVS_MAX);
	}
	*ret = arena_array(x->arena, y->children + 1, sizeof(**ret));
	for (const struct yaml *i = y->child; i != NULL; i = i->next) {
		if (!env_name_ok(i->key)) {
			return yaml_fail(i, err, "%s: '%s' is not a variable name", what, i->key);
		}
		if (yaml_is_null(i)) {
			return yaml_fail(i, err, "%s: %s needs a value: write %s: value", what,
			    i->key, i->key);
		}
		if (i->kind != YAML_SCALAR) {
			return yaml_fail(i, err, "%s: %s must be text", what, i->key);
		}
		if (env_bytes(i->key, i->text) > ENV_MAX) {
			return yaml_fail(i, err,
			    "%s: %.60s: name and value have more than %d bytes together, the "
			    "limit of Linux: put the value into a file (file_mounts)",
			    what, i->key, ENV_MAX - 2);
		}
		(*ret)[(*ret_n)++] = (struct job_env){ .name = i->key, .value = i->text };
	}
	return SPOT_OK;
}

static enum spot_rc parse_secrets(struct jobspec_ctx *x, const struct yaml *doc, struct job_spec *s,
    struct spot_err *err)
{
	const struct yaml *y = yaml_get(doc, "secrets");
	enum spot_rc rc = parse_envs(x, y, "secrets", &s->secrets, &s->secrets_n, err);

	for (size_t i = 0; rc == SPOT_OK && i < s->secrets_n; i++) {
		if (strcmp(s->secrets[i].value, JOB_SECRET_SHOWN) == 0) {
			return yaml_fail(yaml_get(y, s->secrets[i].name), err,
			    "secrets: %.60s is starred out, as the daemon shows job files: "
			    "write its value",
			    s->secrets[i].name);
		}
	}
	if (rc == SPOT_OK &&
	    envs_bytes(s->envs, s->envs_n) + envs_bytes(s->secrets, s->secrets_n) >
		ENVS_BYTES_MAX) {
		return yaml_fail(y != NULL ? y : yaml_get(doc, "envs"), err,
		    "envs and secrets have more than %d KiB together, which leaves a program no "
		    "room for arguments: put values into files (file_mounts)",
		    ENVS_BYTES_MAX / 1024);
	}
	return rc;
}

static enum spot_rc parse_interval(const struct yaml *y, struct checkpoint_spec *c,
    struct spot_err *err)
{
	bool text = y != NULL && y->kind == YAML_SCALAR;

	if (text && strcmp(y->text, "auto") == 0) {
		return SPOT_OK;
	}
	if (text && strcmp(y->text, "never") == 0) {
		c->interval_off = true;
		return SPOT_OK;
	}
	return save_seconds(y, &c->interval_s, err);
}

static enum spot_rc parse_signal(const struct yaml *y, struct checkpoint_spec *c,
    struct spot_err *err)
{
	static const char *const names[] = { "USR1", "USR2", "TERM", "INT", "HUP" };
	const char *text = "USR1";
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK) {
		return rc;
	}
	if (str_prefix(text, "SIG")) {
		text += 3;
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			c->signal = names[i];
			return SPOT_OK;
		}
	}
	return yaml_fail(y, err, "checkpoint.signal: one of USR1, USR2, TERM, INT, HUP");
}

static enum spot_rc parse_script(const struct yaml *y, const char *what, const char **ret,
    struct spot_err *err)
{
	enum spot_rc rc = spec_text(y, ret, err);

	if (rc == SPOT_OK && *ret != NULL && strlen(*ret) > SCRIPT_MAX) {
		return yaml_fail(y, err, "%s: longer than %d KiB", what, SCRIPT_MAX / 1024);
	}
	return rc;
}

static enum spot_rc path_check(const struct yaml *y, struct spot_err *err)
{
	const char *wrong = spec_place_wrong(y->text);

	if (*y->text == '/') {
		return yaml_fail(y, err,
		    "checkpoint.path: '%.100s' is absolute: name a directory below the one that "
		    "the job begins in, such as "
		    "ckpt; the job finds it as $SPOT_CHECKPOINT_DIR",
		    y->text);
	}
	return wrong == NULL ? SPOT_OK
			     : yaml_fail(y, err, "checkpoint.path: '%.100s': %s", y->text, wrong);
}

static enum spot_rc parse_checkpoint(const struct yaml *y, struct checkpoint_spec *c,
    struct spot_err *err)
{
	static const char *const known[] = { "path", "signal", "interval", "command", "budget",
		"size_gb", NULL };
	static const struct spec_unsupported later[] = { { NULL, NULL } };
	const struct yaml *size = yaml_get(y, "size_gb");
	double gb = 0;
	enum spot_rc rc;

	c->budget_s = 60;
	c->signal = "USR1";
	if (y == NULL || yaml_is_null(y)) {
		return SPOT_OK;
	}
	rc = spec_keys(y, "checkpoint", known, later, err);
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "path"), &c->path, err);
	}
	if (rc == SPOT_OK && str_empty(c->path)) {
		return yaml_fail(y, err,
		    "checkpoint: path is missing (the directory the job saves into)");
	}
	if (rc == SPOT_OK) {
		rc = path_check(yaml_get(y, "path"), err);
	}
	if (rc == SPOT_OK) {
		rc = parse_signal(yaml_get(y, "signal"), c, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_interval(yaml_get(y, "interval"), c, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_script(yaml_get(y, "command"), "checkpoint.command", &c->command, err);
	}
	if (rc == SPOT_OK) {
		rc = save_seconds(yaml_get(y, "budget"), &c->budget_s, err);
	}
	if (rc == SPOT_OK && size != NULL &&
	    (size->kind != YAML_SCALAR || !parse_f64(size->text, 0, 1e12, &gb))) {
		return yaml_fail(size, err, "checkpoint.size_gb: a number of GB");
	}
	if (gb * 1e9 > (double)SAVED_MAX) {
		return yaml_fail(size, err,
		    "checkpoint.size_gb: at most %d GB can be stored of one node: %d pieces of %d "
		    "MiB; save less, or "
		    "save it elsewhere yourself",
		    (int)(SAVED_MAX / 1000000000), SPOT_AGENT_FILES_MAX,
		    (int)(SPOT_AGENT_CHUNK_BYTES >> 20));
	}
	c->size_bytes = (int64_t)(gb * 1e9);
	return rc;
}

static enum spot_rc parse_class(const struct yaml *y, struct job_spec *s, struct spot_err *err)
{
	static const char *const names[] = { "training", "batch_inference", "fine_tune", "eval",
		"sweep", "dev", "serving" };
	enum spot_rc rc = spec_text(y, &s->class, err);

	for (size_t i = 0; rc == SPOT_OK && i < ARRAY_LEN(names); i++) {
		if (strcmp(names[i], s->class) == 0) {
			return SPOT_OK;
		}
	}
	return rc != SPOT_OK
	    ? rc
	    : yaml_fail(y, err,
		  "class: one of training, batch_inference, fine_tune, eval, sweep, dev, serving");
}

/* A job with a budget must save, since a stop at the limit must not throw work away. */
static enum spot_rc parse_budget(const struct yaml *y, struct job_spec *s, struct spot_err *err)
{
	enum spot_rc rc = spec_money(y, "budget", &s->budget_micros, err);

	if (rc == SPOT_OK && s->budget_micros > 0 && s->checkpoint.path == NULL) {
		return yaml_fail(y, err,
		    "budget: the job saves nothing, so its work is lost when the budget is used "
		    "up: set checkpoint.path, or limit it by max_duration");
	}
	return rc;
}

/* A team or project. Indexes have them, so the database refuses long ones. */
static enum spot_rc parse_owner(const struct yaml *y, const char **ret, struct spot_err *err)
{
	enum spot_rc rc = spec_text(y, ret, err);

	if (rc == SPOT_OK && *ret != NULL && strlen(*ret) > OWNER_MAX_LEN) {
		return yaml_fail(y, err, "%s: at most %d bytes", y->key, OWNER_MAX_LEN);
	}
	return rc;
}

static enum spot_rc parse_ours(struct jobspec_ctx *x, const struct yaml *y, struct job_spec *s,
    struct spot_err *err)
{
	static const char *const known[] = { "team", "project", "class", "deadline", "max_duration",
		"work", "fleet", "interruptible", "checkpoint", "max_restarts", "start_after",
		"off_peak", "data", "patience", "late", "budget", "elastic", NULL };
	static const struct spec_unsupported later[] = { { "metric", "not in this version" },
		{ NULL, NULL } };
	int64_t restarts = s->max_restarts;
	enum spot_rc rc = spec_keys(y, "config.spotctl", known, later, err);

	if (rc == SPOT_OK) {
		rc = parse_owner(yaml_get(y, "team"), &s->team, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_owner(yaml_get(y, "project"), &s->project, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_class(yaml_get(y, "class"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_times(x, y, s, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_data(yaml_get(y, "data"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_seconds(yaml_get(y, "max_duration"), &s->max_duration_s, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_seconds(yaml_get(y, "work"), &s->work_s, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "fleet"), &s->fleet, err);
	}
	if (rc == SPOT_OK) {
		s->interruptible_said = yaml_get(y, "interruptible") != NULL &&
		    !yaml_is_null(yaml_get(y, "interruptible"));
		rc = spec_bool(yaml_get(y, "interruptible"), &s->interruptible, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_int(yaml_get(y, "max_restarts"), 0, 1000, &restarts, err);
	}
	s->max_restarts = (int32_t)restarts;
	if (rc == SPOT_OK) {
		rc = spec_elastic(yaml_get(y, "elastic"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_checkpoint(yaml_get(y, "checkpoint"), &s->checkpoint, err);
	}
	return rc != SPOT_OK ? rc : parse_budget(yaml_get(y, "budget"), s, err);
}

static enum spot_rc parse_config(struct jobspec_ctx *x, const struct yaml *y, struct job_spec *s,
    struct spot_err *err)
{
	static const char *const known[] = { "spotctl", NULL };
	static const struct spec_unsupported later[] = {
		{ "hooks", "use config.spotctl.checkpoint.command" },
		{ "kubernetes", "spotd.conf has the settings of Pods" }, { NULL, NULL }
	};
	const struct yaml *ours = yaml_get(y, "spotctl");
	enum spot_rc rc;

	if (y != NULL && yaml_is_null(y)) {
		y = NULL;
	}
	/* A section of which every line is commented out says nothing. */
	if (ours != NULL && yaml_is_null(ours)) {
		ours = NULL;
	}
	rc = spec_keys(y, "config", known, later, err);
	return rc != SPOT_OK ? rc : parse_ours(x, ours, s, err);
}

static enum spot_rc parse_name(const struct yaml *doc, struct job_spec *s, struct spot_err *err)
{
	const struct yaml *y = yaml_get(doc, "name");
	enum spot_rc rc = spec_text(y, &s->name, err);

	if (rc != SPOT_OK || s->name == NULL) {
		s->name = "job";
		return rc;
	}
	if (*s->name == '\0' || strlen(s->name) > NAME_MAX_LEN ||
	    strspn(s->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") !=
		strlen(s->name)) {
		return yaml_fail(y, err, "name: 1 to %d letters, digits, '-', '_' or '.'",
		    NAME_MAX_LEN);
	}
	return SPOT_OK;
}

static enum spot_rc parse_task(struct jobspec_ctx *x, const struct yaml *doc, struct job_spec *s,
    struct spot_err *err)
{
	static const char *const known[] = { "name", "num_nodes", "resources", "setup", "run",
		"envs", "secrets", "file_mounts", "config", NULL };
	static const struct spec_unsupported later[] = {
		{ "workdir", "upload the code to the object store and copy it with file_mounts" },
		{ "volumes", "use file_mounts" }, { "service", "serving is not a job" },
		{ "pool", "use config.spotctl.fleet" }, { "inputs", "use file_mounts" },
		{ "outputs", "write into the checkpoint directory" },
		{ "event_callback", "watch /v1/events" }, { "managed_secrets", "use secrets" },
		{ NULL, NULL }
	};
	const struct yaml *several = yaml_get(doc, "num_nodes");
	int64_t nodes = 1;
	enum spot_rc rc = spec_keys(doc, "job file", known, later, err);

	if (rc == SPOT_OK) {
		rc = parse_name(doc, s, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_int(several, 1, GANG_NODES_MAX, &nodes, err);
	}
	s->num_nodes = (int32_t)nodes;
	if (rc == SPOT_OK) {
		rc = parse_script(yaml_get(doc, "setup"), "setup", &s->setup, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_script(yaml_get(doc, "run"), "run", &s->run, err);
	}
	if (rc == SPOT_OK && str_empty(s->run)) {
		return yaml_fail(doc, err, "run is missing: what should the job do?");
	}
	if (rc == SPOT_OK) {
		rc = parse_envs(x, yaml_get(doc, "envs"), "envs", &s->envs, &s->envs_n, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_secrets(x, doc, s, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_mounts(x, yaml_get(doc, "file_mounts"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_resources(x, yaml_get(doc, "resources"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_config(x, yaml_get(doc, "config"), s, err);
	}
	return rc != SPOT_OK ? rc : spec_gang_check(doc, s, err);
}

enum spot_rc jobspec_parse(struct arena *a, struct str text, int64_t now_us, struct job_spec **ret,
    const char ***ret_warnings, size_t *ret_warnings_n, struct spot_err *err)
{
	struct jobspec_ctx x = { .arena = a, .now_us = now_us };
	struct job_spec *s = arena_alloc(a, sizeof(*s));
	struct yaml **docs;
	size_t n;
	enum spot_rc rc = yaml_parse(a, text, &docs, &n, err);

	if (rc != SPOT_OK) {
		return rc;
	}
	if (n == 0 || yaml_is_null(docs[0])) {
		return err_set(err, SPOT_INVALID, "the job file is empty");
	}
	if (n > 1) {
		return yaml_fail(docs[1], err,
		    "one document per file: pipelines are not supported");
	}
	if (docs[0]->kind != YAML_MAP) {
		return yaml_fail(docs[0], err,
		    "a job file is a mapping (name, resources, run, ...)");
	}
	*s = (struct job_spec){ .num_nodes = 1,
		.team = "",
		.project = "",
		.class = "training",
		.interruptible = true,
		.off_peak = -1,
		.patience_s = -1 };
	rc = parse_task(&x, docs[0], s, err);
	if (rc != SPOT_OK) {
		return rc;
	}
	*ret = s;
	if (ret_warnings != NULL) {
		*ret_warnings = x.warnings;
		*ret_warnings_n = x.warnings_n;
	}
	return SPOT_OK;
}
