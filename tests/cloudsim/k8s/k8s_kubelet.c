/*
 * The kubelet of every node: images, volumes, the container's program (k8s_program.c), phases and
 * container states. It sends TERM at deletion and KILL after the grace period (kubernetes.io, "Pod
 * Lifecycle"). Without --agents a container runs as long as nobody ends it.
 */
#include "base/base.h"
#include "cloudsim/coreweave/coreweave.h"
#include "base/text/text.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define RETRY_US SPOT_US_PER_S

enum { STAGE_START = 1, STAGE_BACKOFF, STAGE_KILL };

static struct inst *server_of(const struct kubelet_pod *k)
{
	const struct k8s_obj *node = k->pod
	    ? k8s_find(k->pod->c, K8S_NODE, NULL, k_str(k->pod->doc, "spec.nodeName"))
	    : NULL;

	return node ? node->inst : NULL;
}

static const json_t *container_of_pod(const struct k8s_obj *pod)
{
	return json_array_get(k_at(pod->doc, "spec.containers"), 0);
}

/* ---- status ---------------------------------------------------------------------------------- */

static void container_states(json_t *doc, const char *name, json_t *state, bool running)
{
	json_t *status = k_obj(doc, "status"), *had = k_at(status, "containerStatuses"),
	       *list = json_array(), *c;
	char hash[33], id[120];
	size_t i;

	json_array_foreach (k_at(doc, "spec.containers"), i, c) {
		const json_t *was = json_array_get(had, i);
		json_t *s = json_pack("{s:s, s:{s:O}, s:{}, s:b, s:b, s:I, s:s, s:s}", "name",
		    k_str(c, "name"), "state", name, state, "lastState", "ready", running,
		    "started", running, "restartCount", (json_int_t)k_int(was, "restartCount", 0),
		    "image", k_str(c, "image"), "imageID",
		    str_same(name, "waiting") ? "" : k_str(c, "image"));

		snprintf(hash, sizeof(hash), "%.32s", k_str(doc, "metadata.uid"));
		snprintf(id, sizeof(id), "containerd://%s", hash);
		if (!str_same(name, "waiting")) {
			k_set(s, "containerID", id);
		}
		json_array_append_new(list, s);
	}
	json_object_set_new(status, "containerStatuses", list);
	json_decref(state);
}

static void ready_conditions(json_t *doc, struct sim *s, bool ready, const char *reason)
{
	json_t *status = k_obj(doc, "status");

	k_condition(status, s, "PodReadyToStartContainers", "True", NULL, NULL);
	k_condition(status, s, "Initialized", "True", NULL, NULL);
	k_condition(status, s, "Ready", ready ? "True" : "False", reason, NULL);
	k_condition(status, s, "ContainersReady", ready ? "True" : "False", reason, NULL);
}

static void set_waiting(struct k8s_obj *pod, const char *reason, const char *message)
{
	json_t *doc = k8s_edit(pod), *state = json_pack("{s:s}", "reason", reason);

	k_set(state, "message", message);
	container_states(doc, "waiting", state, false);
	ready_conditions(doc, pod->c->sim, false, "ContainersNotReady");
	k8s_commit(pod, doc);
}

static void set_running(struct k8s_obj *pod)
{
	json_t *doc = k8s_edit(pod);

	container_states(doc, "running", json_pack("{s:o}", "startedAt", k_now(pod->c->sim)), true);
	k_set(k_obj(doc, "status"), "phase", "Running");
	ready_conditions(doc, pod->c->sim, true, NULL);
	k8s_commit(pod, doc);
}

static void set_ended(struct k8s_obj *pod, int code)
{
	json_t *doc = k8s_edit(pod), *started = NULL, *state;
	bool good = code == 0;

	started = k_at(json_array_get(k_at(doc, "status.containerStatuses"), 0),
	    "state.running.startedAt");
	state = json_pack("{s:i, s:s, s:o, s:O*, s:s}", "exitCode", code, "reason",
	    good ? "Completed" : "Error", "finishedAt", k_now(pod->c->sim), "startedAt", started,
	    "containerID", "containerd://ended");
	container_states(doc, "terminated", state, false);
	k_set(k_obj(doc, "status"), "phase", good ? "Succeeded" : "Failed");
	ready_conditions(doc, pod->c->sim, false, good ? "PodCompleted" : "PodFailed");
	k8s_commit(pod, doc);
}

/* ---- the program ----------------------------------------------------------------------------- */

static const char *env_value(struct kubelet_pod *k, struct arena *a, const json_t *e)
{
	const char *field = k_str(e, "valueFrom.fieldRef.fieldPath"), *v = k_str(e, "value");

	if (field) {
		v = str_same(field, "spec.nodeName") || !k_str(k->pod->doc, field)
		    ? k_str(k->pod->doc, "spec.nodeName")
		    : k_str(k->pod->doc, field);
	}
	return volumes_map(k, a, v ? v : "");
}

static const char *variable_find(const char *const *env, size_t n, const char *name, size_t len)
{
	for (size_t i = 0; i < n; i++) {
		if (strncmp(env[i], name, len) == 0 && env[i][len] == '=') {
			return env[i] + len + 1;
		}
	}
	return NULL;
}

/* $(NAME) of the container's own variables, others stay as they are; $$ is one $, anywhere: a
 * shell's $$ in a command comes out as $ (third_party/forked/golang/expansion of Kubernetes). */
static const char *text_expand(struct arena *a, const char *text, const char *const *env, size_t n)
{
	struct sbuf b AUTO(sbuf) = { 0 };

	sbuf_init(&b, 4 << 20);
	for (const char *p = text; *p;) {
		const char *close = p[0] == '$' && p[1] == '(' ? strchr(p, ')') : NULL, *value;

		if (p[0] == '$' && p[1] == '$') {
			sbuf_putc(&b, '$');
			p += 2;
		} else if (close) {
			value = variable_find(env, n, p + 2, (size_t)(close - p - 2));
			if (value) {
				sbuf_puts(&b, value);
			} else {
				sbuf_add(&b, p, (size_t)(close + 1 - p));
			}
			p = close + 1;
		} else {
			sbuf_putc(&b, *p++);
		}
	}
	return arena_strndup(a, b.p ? b.p : "", b.n);
}

/* A later variable of the same name takes the earlier one's place. */
static void env_put(const char **env, size_t max, size_t *n, const char *pair)
{
	size_t len = strcspn(pair, "=") + 1;

	for (size_t i = 0; i < *n; i++) {
		if (strncmp(env[i], pair, len) == 0) {
			env[i] = pair;
			return;
		}
	}
	if (*n < max) {
		env[(*n)++] = pair;
	}
}

/* Why the container's settings cannot be had; NULL: env is filled. */
static const char *env_fill(struct kubelet_pod *k, struct arena *a, const char **env, size_t max,
    size_t *ret_n)
{
	size_t n = 0, i;
	json_t *e;

	env[n++] = arena_printf(a, "HOME=%s", k->home);
	env[n++] = arena_printf(a,
	    "PATH=%s/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", k->home);
	env[n++] = arena_printf(a, "SPOT_AGENT_DIR=%s/var/lib/spot-agent", k->home);
	env[n++] = arena_printf(a, "HOSTNAME=%s", k->pod->name);
	env[n++] = "KUBERNETES_SERVICE_HOST=127.0.0.1";
	env[n++] = arena_printf(a, "KUBERNETES_SERVICE_PORT=%d",
	    k8s_cluster_port(k->pod->c, K8S_PORT_TLS));
	json_array_foreach (k_at(container_of_pod(k->pod), "env"), i, e) {
		const json_t *ref = k_at(e, "valueFrom.secretKeyRef");

		if (ref && !k_true(ref, "optional")) {
			return arena_printf(a, "secret \"%s\" not found", k_str(ref, "name"));
		}
		env_put(env, max, &n,
		    arena_printf(a, "%s=%s", k_str(e, "name"),
			text_expand(a, env_value(k, a, e), env, n)));
	}
	*ret_n = n;
	return NULL;
}

static size_t argv_fill(struct kubelet_pod *k, struct arena *a, const char **argv, size_t max,
    const char *const *env, size_t env_n)
{
	static const char *const parts[] = { "command", "args" };
	size_t n = 0, i;
	json_t *x;

	for (size_t p = 0; p < ARRAY_LEN(parts); p++) {
		json_array_foreach (k_at(container_of_pod(k->pod), parts[p]), i, x) {
			if (n < max) {
				argv[n++] = volumes_map(k, a,
				    text_expand(a, json_string_value(x), env, env_n));
			}
		}
	}
	return n;
}

/* NULL: it runs, or there is nothing to run. */
static const char *program_start(struct kubelet_pod *k, struct arena *a)
{
	const char *argv[3 + 64 + 1] = { 0 }, *env[256 + 1] = { 0 }, *why;
	char self[4096];
	size_t n, env_n = 0;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	why = env_fill(k, a, env, ARRAY_LEN(env) - 1, &env_n);
	if (why || len <= 0 || !k->sim->conf.agents) {
		return why;
	}
	self[len] = '\0';
	argv[0] = self;
	argv[1] = "pod-init";
	argv[2] = k->home;
	n = argv_fill(k, a, argv + 3, 64, env, env_n);
	if (n > 0 && pod_program_start(k, argv, env)) {
		struct inst *i = server_of(k);

		k->started = true;
		k->pod->c->programs++;
		if (i) {
			free(i->home);
			i->home = dup_text(k->home);
			i->agent_started = true;
			i->agent_ended = false;
			books_event(k->sim, "agent_started", i,
			    json_pack("{s:s}", "pod", k->pod->name));
		}
	}
	return NULL;
}

/* ---- start ----------------------------------------------------------------------------------- */

static void tokens_due(struct loop_timer *t)
{
	struct kubelet_pod *k = container_of(t, struct kubelet_pod, token_timer);
	struct arena *a AUTO(arena) = arena_new(0);
	int64_t renew;

	if (!k->pod) {
		return;
	}
	volumes_fill(k, a, &renew);
	if (renew > 0) {
		loop_timer_set(t, renew);
	}
}

static const char *image_problem(const struct kubelet_pod *k)
{
	const char *image = k_str(container_of_pod(k->pod), "image"), *pattern;
	json_t *v;

	json_object_foreach (k->pod->c->bad_images, pattern, v) {
		if (image && glob_match(pattern, image)) {
			return json_string_value(v);
		}
	}
	return NULL;
}

static void back_off(struct kubelet_pod *k, const char *reason, const char *event, const char *why)
{
	set_waiting(k->pod, reason, why);
	k8s_tell(k->pod, "Warning", event, "kubelet", "%s", why);
	k->stage = STAGE_START;
	loop_timer_set(&k->timer, RETRY_US);
}

static void container_start(struct kubelet_pod *k)
{
	struct arena *a AUTO(arena) = arena_new(0);
	const char *image = k_str(container_of_pod(k->pod), "image"), *why = image_problem(k);
	const char *state = k_str(json_array_get(k_at(k->pod->doc, "status.containerStatuses"), 0),
	    "state.waiting.reason");
	int64_t renew = 0;

	if (why) {
		back_off(k,
		    str_same(state, why) && str_same(why, "ErrImagePull") ? "ImagePullBackOff"
									  : why,
		    "Failed", arena_printf(a, "Failed to pull image \"%s\": not found", image));
		return;
	}
	why = volumes_fill(k, a, &renew);
	if (why) {
		back_off(k, "ContainerCreating", "FailedMount", why);
		return;
	}
	why = program_start(k, a);
	if (why) {
		back_off(k, "CreateContainerConfigError", "Failed", why);
		return;
	}
	if (renew > 0) {
		loop_timer_set(&k->token_timer, renew);
	}
	k8s_tell(k->pod, "Normal", "Pulled", "kubelet", "Successfully pulled image \"%s\"", image);
	k8s_tell(k->pod, "Normal", "Started", "kubelet", "Started container %s",
	    k_str(container_of_pod(k->pod), "name"));
	set_running(k->pod);
}

static void pod_due(struct loop_timer *t)
{
	struct kubelet_pod *k = container_of(t, struct kubelet_pod, timer);

	if (k->stage == STAGE_START && k->pod && !k->removing) {
		container_start(k);
	} else if (k->stage == STAGE_KILL) {
		if (k->pid) {
			pod_program_signal(k, SIGUSR2);
		} else if (k->pod) {
			k8s_remove(k->pod);
		}
	}
}

void kubelet_bound(struct k8s_obj *pod)
{
	struct kubelet_pod *k = calloc(1, sizeof(*k));
	const struct k8s_obj *node =
	    k8s_find(pod->c, K8S_NODE, NULL, k_str(pod->doc, "spec.nodeName"));
	const char *ip = node && node->inst ? node->inst->private_ip : "10.200.0.2", *key;
	char path[4096];
	json_t *doc, *v;

	if (!k) {
		abort();
	}
	k->pod = pod;
	k->sim = pod->c->sim;
	pod->run = k;
	snprintf(path, sizeof(path), "%s/instances/%s", k->sim->conf.dir, pod->uid);
	k->home = dup_text(path);
	dir_make(path, 0755);
	loop_timer_init(&k->timer, k->sim->loop, pod_due);
	loop_timer_init(&k->token_timer, k->sim->loop, tokens_due);
	loop_timer_init(&k->evict_timer, k->sim->loop, pod_evict_due);
	doc = k8s_edit(pod);
	json_object_set_new(k_obj(doc, "status"), "startTime", k_now(k->sim));
	k_set(k_obj(doc, "status"), "hostIP", ip);
	json_object_set_new(k_obj(doc, "status"), "hostIPs", json_pack("[{s:s}]", "ip", ip));
	k_set(k_obj(doc, "status"), "podIP", ip);
	json_object_set_new(k_obj(doc, "status"), "podIPs", json_pack("[{s:s}]", "ip", ip));
	k8s_commit(pod, doc);
	set_waiting(pod, "ContainerCreating", NULL);
	if (node && node->inst) {
		json_object_foreach (k_at(pod->doc, "metadata.labels"), key, v) {
			inst_tag_set(&node->inst->tags, &node->inst->tags_n, key,
			    json_string_value(v));
		}
	}
	k->stage = STAGE_START;
	loop_timer_set(&k->timer, MAX(pod->c->pull_us, 1));
}

/* ---- end ------------------------------------------------------------------------------------- */

static void run_free(void *p)
{
	struct kubelet_pod *k = p;

	free(k->home);
	free(k);
}

static void program_again(struct kubelet_pod *k, int code)
{
	json_t *doc = k8s_edit(k->pod), *list = k_at(doc, "status.containerStatuses"), *s;
	int64_t restarts = k_int(json_array_get(list, 0), "restartCount", 0) + 1;
	size_t i;

	container_states(doc, "waiting",
	    json_pack("{s:s, s:s}", "reason", "CrashLoopBackOff", "message",
		"back-off restarting failed container"),
	    false);
	json_array_foreach (k_at(doc, "status.containerStatuses"), i, s) {
		json_object_set_new(s, "restartCount", json_integer(restarts));
		json_object_set_new(s, "lastState",
		    json_pack("{s:{s:i, s:s}}", "terminated", "exitCode", code, "reason",
			code ? "Error" : "Completed"));
	}
	ready_conditions(doc, k->sim, false, "ContainersNotReady");
	k8s_commit(k->pod, doc);
	k8s_tell(k->pod, "Warning", "BackOff", "kubelet", "Back-off restarting failed container");
	k->stage = STAGE_START;
	loop_timer_set(&k->timer, RETRY_US);
}

void kubelet_program_ended(struct kubelet_pod *k, int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 137;
	struct inst *i = server_of(k);
	const char *policy;

	k->pid = 0;
	if (i) {
		i->agent_ended = true;
		i->agent_status = status;
		books_event(k->sim, "agent_ended", i, json_pack("{s:i}", "status", status));
	}
	if (!k->pod) {
		k->sim->coreweave->orphans--;
		loop_bury(k->sim->loop, k, run_free);
		return;
	}
	k->pod->c->programs--;
	policy = k_str(k->pod->doc, "spec.restartPolicy");
	if (!k->removing &&
	    (str_same(policy, "Always") || (str_same(policy, "OnFailure") && code != 0))) {
		program_again(k, code);
		return;
	}
	loop_timer_stop(&k->token_timer);
	set_ended(k->pod, code);
	if (k->removing) {
		k8s_remove(k->pod);
	}
}

void kubelet_delete(struct k8s_obj *pod, int64_t grace_s)
{
	struct kubelet_pod *k = pod->run;

	if (!k || !node_reachable(pod)) {
		return;
	}
	if (!k->removing) {
		k8s_tell(pod, "Normal", "Killing", "kubelet", "Stopping container %s",
		    k_str(container_of_pod(pod), "name"));
	}
	k->removing = true;
	k->stage = STAGE_KILL;
	if (k->pid) {
		pod_program_signal(k, SIGTERM);
		loop_timer_set(&k->timer, MAX(grace_s, 1) * SPOT_US_PER_S);
	} else {
		loop_timer_set(&k->timer, MAX(k->sim->conf.terminate_us, 1));
	}
}

void kubelet_kill(struct k8s_obj *pod)
{
	if (pod->run && pod->run->pid) {
		pod_program_signal(pod->run, SIGUSR2);
	} else if (pod->run && str_same(k_str(pod->doc, "status.phase"), "Running")) {
		set_ended(pod, 137);
	}
}

void kubelet_lose(struct k8s_obj *pod)
{
	k8s_remove(pod);
}

/* The object goes; a program that still runs is killed and waited for. */
void kubelet_free(struct k8s_obj *pod)
{
	struct kubelet_pod *k = pod->run;

	pod->run = NULL;
	if (!k) {
		return;
	}
	loop_timer_stop(&k->timer);
	loop_timer_stop(&k->token_timer);
	loop_timer_stop(&k->evict_timer);
	k->pod = NULL;
	if (k->pid) {
		pod_program_signal(k, SIGUSR2);
		pod->c->programs--;
		pod->c->sim->coreweave->orphans++;
	} else {
		loop_bury(k->sim->loop, k, run_free);
	}
}

/* ---- logs ------------------------------------------------------------------------------------ */

static const char *tail_find(const char *p, size_t n, int64_t lines)
{
	const char *at = p + n;

	if (at > p && at[-1] == '\n') {
		at--;
	}
	for (; at > p; at--) {
		if (at[-1] == '\n' && --lines == 0) {
			return at;
		}
	}
	return p;
}

void kubelet_log(struct k8s_call *q, struct k8s_obj *pod)
{
	const char *lines = k8s_query(q, "tailLines"), *bytes = k8s_query(q, "limitBytes");
	const char *state = k_str(json_array_get(k_at(pod->doc, "status.containerStatuses"), 0),
	    "state.waiting.reason");
	struct str text = { "", 0 };
	char path[4096];
	int64_t n;

	if (!pod->run || (!pod->run->started && state)) {
		k8s_fail(q, 400, "BadRequest",
		    "container \"%s\" in pod \"%s\" is waiting to start: %s",
		    k_str(container_of_pod(pod), "name"), pod->name,
		    state ? state : "ContainerCreating");
		return;
	}
	snprintf(path, sizeof(path), "%s/console.log", pod->run->home);
	if (!file_get(q->arena, path, &text)) {
		text = (struct str){ "", 0 };
	}
	if (lines && parse_i64(lines, 0, INT32_MAX, &n)) {
		const char *at = n ? tail_find(text.p, text.n, n) : text.p + text.n;

		text = (struct str){ at, text.n - (size_t)(at - text.p) };
	}
	if (bytes && parse_i64(bytes, 1, INT32_MAX, &n)) {
		text.n = MIN(text.n, (size_t)n);
	}
	reply_set(q->rep, 200, "text/plain", text.p, text.n);
}
