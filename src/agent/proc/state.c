/*
 * state.json: the agent's job, without its environment and secrets. A restarted agent reads it and
 * goes on.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

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

	if (seconds >= 0 && seconds <= STATE_SECONDS_MAX) {
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

bool state_read(struct agent *a)
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
		return false;
	}
	a->poll.version = json_i64(o, "version", 0, NULL);
	orphan_timeout_set(a, json_i64(o, "orphan_timeout_s", -1, NULL));
	job = json_object_get(o, "job");
	phase = json_i64(job, "phase", 0, NULL);
	if (!json_is_object(job) || phase <= JOB_NONE || phase > JOB_REPORTED) {
		return false;
	}
	if (!str_copy(j->id, sizeof(j->id), json_str(job, "id", "", NULL)) ||
	    !str_copy(j->cgroup, sizeof(j->cgroup), json_str(job, "cgroup", "", NULL)) ||
	    !str_copy(j->why, sizeof(j->why), json_str(job, "why", "", NULL))) {
		return false;
	}
	j->epoch = json_i64(job, "epoch", 0, NULL);
	j->stop = (enum stop_kind)json_i64(job, "stop", 0, NULL);
	j->running_us = json_i64(job, "running_us", 0, NULL);
	j->spawned_us = json_i64(job, "spawned_us", 0, NULL);
	j->finished = json_bool(job, "finished", false, NULL);
	/* Count at most one kill, so that a restarted agent begins with SIGTERM again. */
	j->kills = (int)MIN(json_i64(job, "kills", 0, NULL), INT64_C(1));
	j->reason = reason_read(json_str(job, "reason", "", NULL));
	j->spec = json_incref(json_object_get(job, "spec"));
	j->phase = (enum job_phase)phase;
	if (strcmp(json_str(o, "boot_id", "", NULL), a->enrol.boot_id) != 0) {
		j->spawned_us = j->running_us = 0; /* times of another boot are useless */
	}
	if (job_spec_read(a, j, &err) != SPOT_OK) {
		log_error("state.unreadable", STR("error", err.text));
		json_decref(STEAL(j->spec));
		j->phase = JOB_NONE;
		return false;
	}
	a->logs.sent = json_i64(job, "log_sent", 0, NULL);
	return true;
}
