/* job submit, ls, logs, cancel, wait. */
#include "base/base.h"
#include "base/clock.h"
#include "base/str.h"
#include "spotctl/ctl.h"

#include <poll.h>

static int follow_logs(struct ctl *c, const char *job, const char *epoch, bool follow);
static int wait_end(struct ctl *c, const char *job, int64_t timeout_s, bool quiet);

static void print_warnings(const json_t *job)
{
	const json_t *list = json_object_get(job, "warnings"), *w;
	size_t i;

	json_array_foreach(list, i, w) {
		say("warning: %s", json_string_value(w));
	}
}

int cmd_job_submit(struct ctl *c)
{
	struct str file;
	struct reply r;
	const char *id;
	int rc = read_input(c, c->args[0], &file);

	if (rc == CTL_OK) {
		rc = conn_send(c, "POST", "/v1/jobs", "application/yaml", file, &r);
	}
	if (rc != CTL_OK) {
		return rc;
	}
	id = json_str(r.json, "id", "?", NULL);
	print_warnings(r.json);
	if (c->format == FORMAT_JSON) {
		rc = render_json(r.json);
	} else {
		printf("%s\n", id);
		say("submitted %s; 'spotctl job show %s', 'spotctl job logs -f %s'", id, id, id);
	}
	fflush(stdout);
	if (rc == CTL_OK && opt_flag(c, "follow")) {
		rc = follow_logs(c, id, NULL, true);
	}
	if (rc == CTL_OK && (opt_flag(c, "wait") || opt_flag(c, "follow"))) {
		rc = wait_end(c, id, 0, false);
	}
	return rc;
}

int cmd_job_ls(struct ctl *c)
{
	static const struct column cols[] = {
		{"JOB", "id", CELL_TEXT, false},
		{"NAME", "name", CELL_TEXT, false},
		{"STATE", "state", CELL_STATE, false},
		{"STEPS", "steps_done", CELL_STEPS, false},
		{"WHERE", "pool", CELL_PLACE, false},
		{"GPU", "pool", CELL_GPU, false},
		{"MARKET", "market", CELL_TEXT, false},
		{"TRIES", "attempts", CELL_INT, false},
		{"USD", "cost_micros", CELL_USD, false},
		{"AGE", "created_at", CELL_AGE, false},
		{"OWNER", "owner", CELL_TEXT, true},
		{"TEAM", "team", CELL_TEXT, true},
		{"PROJECT", "project", CELL_TEXT, true},
		{"CLASS", "class", CELL_TEXT, true},
		{"DEADLINE", "deadline_at", CELL_TIME, true},
		{"NODE", "node", CELL_TEXT, true},
		{"WHY", "why", CELL_TEXT, true},
		{0}};

	return list_command(c, "/v1/jobs", cols, "no jobs: 'spotctl job submit FILE' starts one");
}

/* Prints from the first attempt on; with follow it holds each request until there is more. */
static int follow_logs(struct ctl *c, const char *job, const char *epoch, bool follow)
{
	int64_t offset = 0, at_epoch = 0;

	if (epoch != NULL && !parse_i64(epoch, 1, INT32_MAX, &at_epoch)) {
		say("spotctl job logs: --epoch wants a number");
		return CTL_USAGE;
	}
	for (;;) {
		char *path = arena_printf(c->arena, "/v1/jobs/%s/logs?offset=%" PRId64 "%s", url_encode(c->arena, job, false), offset,
		    follow ? "&follow_s=20" : "");
		struct reply r;
		const char *next, *got;
		int64_t reply_epoch = at_epoch;
		int rc;

		if (at_epoch > 0) {
			path = arena_printf(c->arena, "%s&epoch=%" PRId64, path, at_epoch);
		}
		rc = conn_get(c, path, &r);
		if (rc == CTL_UNREACHABLE && follow) {
			poll(NULL, 0, 1000); /* the daemon restarts: the log goes on where it was */
			continue;
		}
		if (rc != CTL_OK) {
			return rc;
		}
		fwrite(r.body.p, 1, r.body.n, stdout);
		fflush(stdout);
		got = reply_header(&r, "X-Log-Epoch");
		next = reply_header(&r, "X-Log-Next");
		if (got != NULL && !parse_i64(got, 0, INT32_MAX, &reply_epoch)) {
			reply_epoch = at_epoch;
		}
		if (next != NULL && !parse_i64(next, 0, INT64_MAX, &offset)) {
			return CTL_FAILED;
		}
		if (r.body.n == 0 && reply_header(&r, "X-Log-End") != NULL) {
			return CTL_OK;
		}
		if (r.body.n == 0 && !follow) {
			return CTL_OK;
		}
		const char *more = reply_header(&r, "X-Log-Next-Epoch");

		if (r.body.n == 0 && epoch == NULL && more != NULL && parse_i64(more, 1, INT32_MAX, &at_epoch)) {
			offset = 0;
			say("--- attempt %" PRId64, at_epoch);
		} else {
			at_epoch = reply_epoch;
		}
	}
}

int cmd_job_logs(struct ctl *c)
{
	return follow_logs(c, c->args[0], opt_value(c, "epoch"), opt_flag(c, "follow"));
}

int cmd_job_cancel(struct ctl *c)
{
	int done = 0, last = CTL_OK;

	for (int i = 0; i < c->args_n; i++) {
		struct reply r;
		int rc = conn_send(c, "POST", arena_printf(c->arena, "/v1/jobs/%s/cancel", url_encode(c->arena, c->args[i], false)),
		    NULL, STR_LIT("{}"), &r);

		if (rc == CTL_OK) {
			done++;
			say("%s: being cancelled", c->args[i]);
		} else {
			last = rc;
		}
	}
	if (done == c->args_n) {
		return CTL_OK;
	}
	return done > 0 ? CTL_PARTIAL : last;
}

static bool final_state(const char *s)
{
	return strcmp(s, "SUCCEEDED") == 0 || strcmp(s, "FAILED") == 0 || strcmp(s, "CANCELLED") == 0;
}

static int wait_end(struct ctl *c, const char *job, int64_t timeout_s, bool quiet)
{
	char *path = arena_printf(c->arena, "/v1/jobs/%s?wait_state=terminal&timeout_s=20", url_encode(c->arena, job, false));
	int64_t start = clock_real.mono_us(&clock_real);
	const char *last = "";

	for (;;) {
		struct reply r;
		const char *state;
		int rc = conn_get(c, path, &r);

		if (rc == CTL_UNREACHABLE && c->token != NULL) {
			poll(NULL, 0, 1000);
		} else if (rc != CTL_OK) {
			return rc;
		} else {
			state = arena_strdup(c->arena, json_str(r.json, "state", "?", NULL));
			if (!quiet && strcmp(state, last) != 0) {
				say("%s: %s %s", job, state, json_str(r.json, "why", "", NULL));
			}
			last = state;
			if (final_state(state)) {
				if (c->format == FORMAT_JSON) {
					render_json(r.json);
				}
				return strcmp(state, "SUCCEEDED") == 0 ? CTL_OK : CTL_FAILED;
			}
			json_decref(r.json);
		}
		if (timeout_s > 0 && clock_real.mono_us(&clock_real) - start > timeout_s * SPOT_US_PER_S) {
			say("spotctl: %s is still %s", job, last);
			return CTL_UNREACHABLE;
		}
	}
}

int cmd_job_wait(struct ctl *c)
{
	const char *timeout = opt_value(c, "timeout");
	int64_t s = 0;

	if (timeout != NULL && !parse_i64(timeout, 1, 31536000, &s)) {
		say("spotctl job wait: --timeout wants seconds");
		return CTL_USAGE;
	}
	return wait_end(c, c->args[0], s, false);
}
