/*
 * Turns the daemon's "run" into a running shim: the specification, the environment, the start. The
 * file include/spot/agent.h lists our variables. The SKYPILOT_* names follow SkyPilot's
 * documentation, "Using environment variables".
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

#include <math.h>
#include <pwd.h>
#include <unistd.h>

#define ADDRESSES_MAX (64 << 10)
#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define BUDGET_DEFAULT_S 60
#define KILL_AFTER_DEFAULT_S 10

static enum spot_rc checkpoint_read(struct job *j, const json_t *c, const char **ret_path,
    struct spot_err *err)
{
	struct spot_err bad = { 0 };
	int64_t interval_s, budget_s, kill_s;

	*ret_path = "ckpt";
	j->signal = "USR1";
	j->then = "TERM";
	j->command = "";
	/* A job without a checkpoint has an object with an empty path, or none. */
	j->has_checkpoint = json_is_object(c) && !str_empty(json_str(c, "path", "ckpt", &bad));
	if (!j->has_checkpoint) {
		/* Without a store the job still gets the directory that its file names. */
		if (!str_empty(json_str(c, "dir", "", &bad))) {
			*ret_path = json_str(c, "dir", "", &bad);
		}
		j->kill_after_us = KILL_AFTER_DEFAULT_S * SPOT_US_PER_S;
		return SPOT_OK;
	}
	*ret_path = json_str(c, "path", "ckpt", &bad);
	j->signal = json_str(c, "signal", "USR1", &bad);
	j->then = json_str(c, "then", "TERM", &bad);
	j->command = json_str(c, "command", "", &bad);
	interval_s = json_i64(c, "interval_s", 0, &bad);
	budget_s = json_i64(c, "budget_s", BUDGET_DEFAULT_S, &bad);
	kill_s = json_i64(c, "kill_after_s", KILL_AFTER_DEFAULT_S, &bad);
	if (bad.rc == SPOT_OK && j->signal[0] == '\0') {
		j->signal = "USR1";
	}
	if (bad.rc == SPOT_OK && signal_parse(j->signal) == 0) {
		(void)err_set(&bad, SPOT_INVALID, "signal '%.20s' is not known", j->signal);
	}
	if (bad.rc == SPOT_OK && signal_parse(j->then) == 0) {
		(void)err_set(&bad, SPOT_INVALID, "then '%.20s' is not a known signal", j->then);
	}
	if (bad.rc == SPOT_OK &&
	    (interval_s < 0 || budget_s < 0 || kill_s < 0 ||
		MAX(interval_s, MAX(budget_s, kill_s)) > 30 * 86400)) {
		(void)err_set(&bad, SPOT_INVALID, "a time is out of range");
	}
	if (bad.rc != SPOT_OK) {
		return err_set(err, SPOT_INVALID, "checkpoint: %s", bad.text);
	}
	j->interval_us = interval_s * SPOT_US_PER_S;
	j->budget_us = (budget_s > 0 ? budget_s : BUDGET_DEFAULT_S) * SPOT_US_PER_S;
	j->kill_after_us = kill_s * SPOT_US_PER_S;
	return SPOT_OK;
}

static enum spot_rc places_set(struct agent *a, struct job *j, const char *workdir,
    const char *ckpt, struct spot_err *err)
{
	char jobs[AGENT_PATH_MAX], name[AGENT_ID_MAX + 32], work[AGENT_PATH_MAX];
	bool ok = path_join(jobs, a->dir, "jobs");

	(void)snprintf(name, sizeof(name), "%s-%" PRId64, j->id, j->epoch);
	if (workdir[0] != '\0' && strcmp(workdir, ".") != 0 && !path_is_inside(workdir)) {
		return err_set(err, SPOT_INVALID, "workdir '%.100s' must be a relative path",
		    workdir);
	}
	if (!path_is_inside(ckpt)) {
		return err_set(err, SPOT_INVALID,
		    "checkpoint.path '%.100s' must be a relative path", ckpt);
	}
	ok = ok && path_join(j->dir, jobs, name) && path_join(work, j->dir, "work");
	ok = ok &&
	    (workdir[0] == '\0' || strcmp(workdir, ".") == 0
		    ? str_copy(j->cwd, sizeof(j->cwd), work)
		    : path_join(j->cwd, work, workdir));
	ok = ok && path_join(j->ckpt_dir, j->cwd, ckpt) &&
	    path_join(j->log, j->dir, SHIM_LOG_FILE) &&
	    path_join(j->progress, j->dir, "progress/steps") &&
	    path_join(j->saved, j->dir, "saved") && path_join(j->notice, j->dir, "notice.json");
	return ok ? SPOT_OK : err_set(err, SPOT_INVALID, "the job's paths are too long");
}

enum spot_rc job_spec_read(struct agent *a, struct job *j, struct spot_err *err)
{
	struct spot_err bad = { 0 };
	const char *workdir, *ckpt;
	enum spot_rc rc;

	workdir = json_str(j->spec, "workdir", "", &bad);
	j->name = json_str(j->spec, "name", "", &bad);
	/* A fraction of a GPU counts as one. */
	j->num_gpus = (int64_t)ceil(json_f64(j->spec, "num_gpus", 0, &bad));
	j->max_us =
	    MIN(json_i64(j->spec, "max_duration_s", 0, &bad), INT64_C(1) << 32) * SPOT_US_PER_S;
	j->steps_start = json_i64(j->spec, "steps_start", 0, &bad);
	j->log_base = json_i64(j->spec, "log_offset", 0, &bad);
	j->restored = json_str(j->spec, "restored_from", NULL, &bad) != NULL;
	j->num_nodes = json_i64(json_object_get(j->spec, "nodes"), "count", 1, NULL);
	rc = checkpoint_read(j, json_object_get(j->spec, "checkpoint"), &ckpt, err);
	if (rc == SPOT_OK && bad.rc != SPOT_OK) {
		rc = err_set(err, SPOT_INVALID, "job: %s", bad.text);
	}
	return rc == SPOT_OK ? places_set(a, j, workdir, ckpt, err) : rc;
}

/* ---- environment ----------------------------------------------------------------------------- */

static void env_set(json_t *env, const char *name, const char *value)
{
	(void)json_object_set_new(env, name, json_string(value));
}

static void env_set_i64(json_t *env, const char *name, int64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, value);
	env_set(env, name, text);
}

/* Starts the job's environment: empty, but for the paths of the image's programs and libraries.
 * NVIDIA's images name the driver's folder in LD_LIBRARY_PATH. If a cluster mounts the driver
 * there, the loader may find it by nothing else. */
static void env_base(json_t *env)
{
	const char *path = getenv("PATH"), *libraries = getenv("LD_LIBRARY_PATH");
	const struct passwd *pw = getpwuid(getuid());

	env_set(env, "PATH", str_empty(path) ? PATH_DEFAULT : path);
	if (!str_empty(libraries)) {
		env_set(env, "LD_LIBRARY_PATH", libraries);
	}
	env_set(env, "HOME", home_dir());
	env_set(env, "USER", pw != NULL ? pw->pw_name : "root");
	env_set(env, "LANG", "C.UTF-8");
}

static void env_given(json_t *env, const json_t *given)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)given, name, value) {
		if (json_is_string(value)) {
			(void)json_object_set(env, name, value);
		}
	}
}

/* Sets the addresses of the job's nodes, one per line by rank. A job of one node gets its own. */
static void env_nodes(const struct job *j, json_t *env)
{
	const json_t *nodes = json_object_get(j->run, "nodes"),
		     *ips = json_object_get(nodes, "ips");
	int64_t rank = json_i64(nodes, "rank", 0, NULL);
	char own[INET_ADDRSTRLEN];
	struct sbuf list;

	sbuf_init(&list, ADDRESSES_MAX);
	own_address(own);
	for (size_t i = 0; i < json_array_size(ips); i++) {
		const char *ip = json_string_value(json_array_get(ips, i));

		sbuf_printf(&list, "%s%s", i > 0 ? "\n" : "", ip != NULL ? ip : "");
	}
	if (json_array_size(ips) == 0) {
		sbuf_puts(&list, own);
	}
	env_set_i64(env, "SPOT_NUM_NODES", j->num_nodes);
	env_set_i64(env, "SPOT_NODE_RANK", rank);
	env_set(env, "SPOT_NODE_IPS", list.p);
	env_set(env, "SPOT_HEAD_IP",
	    json_array_size(ips) > 0 && json_is_string(json_array_get(ips, 0))
		? json_string_value(json_array_get(ips, 0))
		: own);
	env_set_i64(env, "SKYPILOT_NUM_NODES", j->num_nodes);
	env_set_i64(env, "SKYPILOT_NODE_RANK", rank);
	env_set(env, "SKYPILOT_NODE_IPS", list.p);
	sbuf_fini(&list);
}

/* Tells NCCL about the network between the nodes. The other ranks may know this node by the address
 * of a gateway. Then the interface is that of the machine's own address. */
static void env_network(struct agent *a, const struct job *j, json_t *env)
{
	const json_t *nodes = json_object_get(j->run, "nodes");
	const char *address = json_string_value(json_array_get(json_object_get(nodes, "ips"),
	    (size_t)json_i64(nodes, "rank", 0, NULL)));
	char interface[IFNAMSIZ], own[INET_ADDRSTRLEN];

	if (j->num_nodes < 2) {
		return;
	}
	interface_of(address != NULL ? address : "", interface);
	if (interface[0] == '\0') {
		own_address(own);
		interface_of(own, interface);
	}
	nccl_env_set(a->boot.provider, interface, fabric_devices(), env);
}

static void env_spot(struct agent *a, const struct job *j, json_t *env)
{
	char task[2 * AGENT_ID_MAX + 8];

	env_set(env, "SPOT_JOB_ID", j->id);
	env_set(env, "SPOT_JOB_NAME", j->name);
	env_set_i64(env, "SPOT_EPOCH", j->epoch);
	env_set(env, "SPOT_NODE_ID", a->node);
	env_set_i64(env, "SPOT_NUM_GPUS", j->num_gpus);
	env_set(env, "SPOT_CHECKPOINT_DIR", j->ckpt_dir);
	env_set(env, "SPOT_RESTORED", j->restored ? "1" : "0");
	env_set_i64(env, "SPOT_STEPS_START", j->steps_start);
	env_set(env, "SPOT_PROGRESS_FILE", j->progress);
	env_set(env, "SPOT_SAVED_FILE", j->saved);
	env_set(env, "SPOT_NOTICE_FILE", j->notice);
	/* The same for all attempts of a job: experiment trackers resume a run by it. */
	(void)snprintf(task, sizeof(task), "spot-%.60s-%s", a->boot.install, j->id);
	env_set(env, "SKYPILOT_TASK_ID", task);
	env_nodes(j, env);
	env_set_i64(env, "SKYPILOT_NUM_GPUS_PER_NODE", j->num_gpus);
	/* CUDA numbers the fastest GPU first, NVML and nvidia-smi by bus: make them agree. */
	if (json_object_get(env, "CUDA_DEVICE_ORDER") == NULL) {
		env_set(env, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
	}
}

/* ---- start ----------------------------------------------------------------------------------- */

enum spot_rc job_start(struct agent *a, struct spot_err *err)
{
	struct job *j = &a->job;
	char name[AGENT_ID_MAX * 2 + 64], unique[9];
	json_t *env = json_object();
	AUTO(json) json_t *all = NULL;

	env_base(env);
	env_given(env, json_object_get(j->run, "envs"));
	env_given(env, json_object_get(j->run, "secrets"));
	env_spot(a, j, env);
	env_network(a, j, env);
	/* Several agents may share a machine (in the emulator): use a cgroup of our own. */
	rng_hex(&a->rng, unique, 4);
	(void)snprintf(name, sizeof(name), "spot-%s-%s-%" PRId64 "-%s", a->node, j->id, j->epoch,
	    unique);
	if (!cgroup_make(name, j->cgroup)) {
		j->cgroup[0] = '\0';
	}
	all = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "dir", j->dir, "cwd",
	    j->cwd, "setup", json_str(j->run, "setup", "", NULL), "run",
	    json_str(j->run, "run", "", NULL), "command", j->command, "shell",
	    access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh", "cgroup", j->cgroup, "saved",
	    j->saved, "ckpt", j->ckpt_dir, "env", env);
	if (all == NULL) {
		return err_set(err, SPOT_INVALID, "job: its environment cannot be written as JSON");
	}
	json_decref(STEAL(j->run));
	return shim_spawn(all, &j->shim, err);
}
