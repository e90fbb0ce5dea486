/* Names in place of job ids. A name stands for its only job that is not over, else for its newest
 * job. The daemon is asked only about words that are no ids. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#define NAMESAKES_MOST 200

static bool is_id(const char *word)
{
	const char *digits = word + (*word == 'j');

	return *digits != '\0' && digits[strspn(digits, "0123456789")] == '\0';
}

static bool is_over(const json_t *job)
{
	const char *state = json_str(job, "state", "", NULL);

	return strcmp(state, "SUCCEEDED") == 0 || strcmp(state, "FAILED") == 0 ||
	    strcmp(state, "CANCELLED") == 0;
}

/* The jobs come newest first. Returns NULL after words. */
static const char *namesake_choose(struct ctl *c, const json_t *jobs, const char *name, int *ret)
{
	const json_t *job, *open = NULL;
	const char *ids = "";
	size_t i, n = 0;

	json_array_foreach (jobs, i, job) {
		if (!is_over(job)) {
			open = job;
			ids = arena_printf(c->arena, "%s%s%s", ids, n++ > 0 ? ", " : "",
			    json_str(job, "id", "", NULL));
		}
	}
	if (n > 1) {
		say("spotctl: %zu jobs that are not over have the name '%s': %s; give the id of "
		    "one",
		    n, name, text_clean(c->arena, ids));
		*ret = CTL_USAGE;
		return NULL;
	}
	if (json_array_size(jobs) == 0) {
		say("spotctl: no job '%s'; 'spotctl job ls' lists names and ids", name);
		*ret = CTL_NOT_FOUND;
		return NULL;
	}
	job = open != NULL ? open : json_array_get(jobs, 0);
	return arena_strdup(c->arena, json_str(job, "id", "", NULL));
}

static int job_resolve(struct ctl *c, const char **word)
{
	struct reply r;
	const char *id;
	int rc;

	if (is_id(*word)) {
		return CTL_OK;
	}
	rc = conn_get(c,
	    arena_printf(c->arena, "/v1/jobs?name=%s&limit=%d", url_encode(c->arena, *word, false),
		NAMESAKES_MOST),
	    &r);
	if (rc == CTL_OK) {
		id = namesake_choose(c, json_object_get(r.json, "items"), *word, &rc);
		*word = id != NULL ? id : *word;
	}
	return rc;
}

int refs_resolve(struct ctl *c)
{
	int rc = CTL_OK;

	for (int i = 0; str_prefix(c->cmd->args, "JOB") && i < c->args_n && rc == CTL_OK; i++) {
		if (i == 0 || str_prefix(c->cmd->args, "JOB...")) {
			rc = job_resolve(c, &c->args[i]);
		}
	}
	for (int i = 0; i < c->values_n && rc == CTL_OK; i++) {
		if (strcmp(c->given[i]->name, "job") == 0) {
			rc = job_resolve(c, &c->values[i]);
		}
	}
	return rc;
}
