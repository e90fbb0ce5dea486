/* job submit, ls, cancel, wait. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/cmd/cmd.h"

const struct column job_cols[] = { { "JOB", "id", CELL_TEXT, ALWAYS },
	{ "NAME", "name", CELL_TEXT, ALWAYS }, { "STATE", "state", CELL_STATE, ALWAYS },
	{ "STEPS", "steps_done", CELL_STEPS, ALWAYS }, { "WHERE", "pool", CELL_PLACE, ALWAYS },
	{ "GPU", "pool", CELL_GPU, SPARE_3 }, { "MARKET", "market", CELL_TEXT, SPARE_2 },
	{ "TRIES", "attempts", CELL_INT, SPARE_1 }, { "USD", "cost_micros", CELL_USD, ALWAYS },
	{ "AGE", "created_at", CELL_AGE, SPARE_4 }, { "NODES", "num_nodes", CELL_INT, WIDE },
	{ "OWNER", "owner", CELL_TEXT, WIDE }, { "TEAM", "team", CELL_TEXT, WIDE },
	{ "PROJECT", "project", CELL_TEXT, WIDE }, { "CLASS", "class", CELL_TEXT, WIDE },
	{ "DEADLINE", "deadline_at", CELL_TIME, WIDE }, { "NODE", "node", CELL_TEXT, WIDE },
	{ "WHY", "why", CELL_TEXT, WIDE }, { 0 } };

static void print_warnings(const json_t *job)
{
	const json_t *list = json_object_get(job, "warnings"), *w;
	size_t i;

	json_array_foreach (list, i, w) {
		say("warning: %s", json_string_value(w));
	}
}

int cmd_job_submit(struct ctl *c)
{
	bool follow = opt_flag(c, "follow"), wait = opt_flag(c, "wait");
	struct str file;
	struct reply r;
	const char *id;
	int rc;

	if (follow && c->format == FORMAT_JSON) {
		say("spotctl job submit: --follow prints a log; use --wait with -o json");
		return CTL_USAGE;
	}
	rc = read_input(c, c->args[0], &file);
	if (rc == CTL_OK) {
		rc = conn_send(c, "POST", "/v1/jobs", "application/yaml", file, &r);
	}
	if (rc != CTL_OK) {
		return rc;
	}
	id = json_str(r.json, "id", "?", NULL);
	print_warnings(r.json);
	if (c->format == FORMAT_JSON && !wait) {
		return render_json(r.json);
	}
	if (c->format != FORMAT_JSON) {
		printf("%s\n", id);
		fflush(stdout);
	}
	if (!follow && !wait) {
		say("submitted %s; 'spotctl job show %s', 'spotctl job logs -f %s'", id, id, id);
	}
	if (follow) {
		rc = job_follow(c, id, 0, 0, true);
	}
	return rc == CTL_OK && (wait || follow) ? job_wait_end(c, id, 0) : rc;
}

int cmd_job_ls(struct ctl *c)
{
	return list_command(c, "/v1/jobs", job_cols,
	    "no jobs; 'spotctl job submit FILE' starts one");
}

int cmd_job_cancel(struct ctl *c)
{
	int done = 0, last = CTL_OK;

	for (int i = 0; i < c->args_n; i++) {
		struct reply r;
		int rc = conn_send(c, "POST",
		    arena_printf(c->arena, "/v1/jobs/%s/cancel",
			url_encode(c->arena, c->args[i], false)),
		    NULL, STR_LIT("{}"), &r);

		if (rc == CTL_OK) {
			done++;
			say("%s: cancelling", c->args[i]);
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
	return strcmp(s, "SUCCEEDED") == 0 || strcmp(s, "FAILED") == 0 ||
	    strcmp(s, "CANCELLED") == 0;
}

struct waiting {
	const char *job;
	char state[32];
	bool away; /* the daemon does not answer, and we said so */
};

/* One look. Returns -1 while the job goes on. */
static int job_look(struct ctl *c, struct waiting *w, const char *hold)
{
	char *path =
	    arena_printf(c->arena, "/v1/jobs/%s%s", url_encode(c->arena, w->job, false), hold);
	struct reply r;
	const char *state;
	int rc = *hold == '\0' ? conn_get(c, path, &r) : conn_poll(c, path, false, &r);

	if (rc == CTL_UNREACHABLE && *hold != '\0') {
		if (!w->away) {
			say("spotctl: %s does not answer; retrying", c->url);
		}
		w->away = true;
		pause_ms(1000);
		return -1;
	}
	if (rc != CTL_OK) {
		return rc;
	}
	w->away = false;
	state = json_str(r.json, "state", "?", NULL);
	if (strcmp(state, w->state) != 0) {
		say("%s: %s %s", w->job, state, json_str(r.json, "why", "", NULL));
		if (strcmp(state, "PARKED") == 0) {
			say("%s: %s; still waiting", w->job, job_parked_words(c, r.json));
		}
		if (!str_copy(w->state, sizeof(w->state), state)) {
			w->state[0] = '\0';
		}
	}
	if (!final_state(state)) {
		pause_ms(*hold == '\0' ? 0 : 100); /* a daemon that stops answers at once */
		return -1;
	}
	if (c->format == FORMAT_JSON && render_json(r.json) != CTL_OK) {
		return CTL_FAILED;
	}
	return strcmp(state, "SUCCEEDED") == 0 ? CTL_OK : CTL_FAILED;
}

int job_wait_end(struct ctl *c, const char *job, int64_t timeout_s)
{
	int64_t start = clock_real.mono_us(&clock_real), left = 10;
	struct waiting w = { .job = job };
	bool first = true;
	int rc;

	do {
		struct round round;
		char hold[64] = "";

		if (timeout_s > 0) {
			left = MIN(10,
			    timeout_s - (clock_real.mono_us(&clock_real) - start) / SPOT_US_PER_S);
		}
		if (!first && left <= 0) {
			say("spotctl: %s is still %s", job, w.state);
			return CTL_UNREACHABLE;
		}
		if (!first) {
			snprintf(hold, sizeof(hold), "?wait_state=terminal&timeout_s=%" PRId64,
			    left);
		}
		round_begin(c, &round);
		rc = job_look(c, &w, hold);
		round_end(c, &round);
		first = false;
	} while (rc < 0);
	return rc;
}

int cmd_job_wait(struct ctl *c)
{
	const char *timeout = opt_value(c, "timeout");
	int64_t s = 0;

	if (timeout != NULL && !parse_i64(timeout, 1, 31536000, &s)) {
		say("spotctl job wait: --timeout must be seconds, not '%s'", timeout);
		return CTL_USAGE;
	}
	return job_wait_end(c, c->args[0], s);
}
