/* Machines and their agents' turns. */
#include "sim/world/world.h"
#include "sim/net/net.h"
#include "sim/cloud/cloud.h"
#include "sim/host/host_priv.h"

#include "base/base.h"
#include "base/text/text.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAVES_US (10 * SPOT_US_PER_S)

struct host *host_now;
static struct host *hosts;
static void host_off(struct loop_timer *t);

static struct host *host_find(const char *id)
{
	for (struct host *h = hosts; h != NULL; h = h->next) {
		if (strcmp(h->id, id) == 0) {
			return h;
		}
	}
	return NULL;
}

bool host_runs(const char *id)
{
	const struct host *h = host_find(id);

	return h != NULL && h->running;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void agent_over(struct host *h)
{
	h->running = false;
	loop_timer_stop(&h->timer);
	loop_defer_cancel(world.loop, &h->task);
	host_now = h;
	agent_end(&h->agent);
	host_now = NULL;
}

/* ---- containers: their first process is the script that keeps the agent running -------------- */

static void container_gone(struct loop_timer *t)
{
	struct host *h = container_of(t, struct host, gone);

	h->over(h->id, h->code);
}

static void container_over(struct host *h, int code)
{
	trace("host %s container ends %d", h->id, code);
	program_end_all(h);
	if (h->running) {
		agent_over(h);
	}
	net_cut(h->id, false);
	h->code = code;
	if (!h->gone.armed) {
		loop_timer_set(&h->gone, 0);
	}
}

/* The agent's environment is its container's. */
char *agent_getenv(const char *name);
char *agent_getenv(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; host_now != NULL && host_now->env != NULL && host_now->env[i] != NULL;
	     i++) {
		if (strncmp(host_now->env[i], name, n) == 0 && host_now->env[i][n] == '=') {
			return host_now->env[i] + n + 1;
		}
	}
	return getenv(name);
}

static void env_copy(struct host *h, const char *const *env)
{
	size_t n = 0;

	while (env[n] != NULL) {
		n++;
	}
	h->env = calloc(n + 1, sizeof(*h->env));
	assert(h->env != NULL);
	for (size_t i = 0; i < n; i++) {
		h->env[i] = strdup(env[i]);
		assert(h->env[i] != NULL);
	}
}

void host_term(const char *id)
{
	struct host *h = host_find(id);

	if (h == NULL) {
		return;
	}
	trace("host %s is told to stop", id);
	h->stopping = true;
	if (!h->running) {
		if (!h->gone.armed) {
			container_over(h, 143);
		}
		return;
	}
	host_enter(h);
	notice_stop(&h->agent, SIGTERM);
	host_now = NULL;
	host_wake(h);
}

/* Its agent gave up waiting for a daemon: its unit's end switches the machine off, and the cloud
 * acts in its own way on that. */
static void host_leaves(struct loop_timer *t)
{
	struct host *h = container_of(t, struct host, leaves);

	if (h->running || h->end.armed) {
		return;
	}
	trace("host %s switches itself off", h->id);
	sometimes("a machine without a daemon switched itself off");
	host_off(&h->end);
	cloud_guest_off(h->id);
}

static void orphan_look(struct host *h)
{
	if (h->agent.orphan_until_us == 0) {
		return;
	}
	if (!h->orphan) {
		trace("host %s has no daemon", h->id);
	}
	h->orphan = true;
	h->was_cut = true; /* nobody can hear of its job's end */
	sometimes(h->agent.ckpt.at != CKPT_IDLE ? "a job saved without a daemon"
						: "an agent was without a daemon for long");
}

#define LEFT_WITHIN_US (5 * SPOT_US_PER_S)

void host_answered(struct host *h)
{
	h->answered_us = h->agent.clock->mono_us(h->agent.clock);
}

/* After a turn. Somebody else may have its job by then. */
static void answered_check(const struct host *h)
{
	const struct agent *a = &h->agent;
	int64_t silent = a->clock->mono_us(a->clock) - h->answered_us;

	if (!a->quit && !a->leaving && a->orphan_until_us == 0) {
		always(a->orphan_us == 0 || silent < a->orphan_us + LEFT_WITHIN_US,
		    "an agent that hears nobody leaves", "%s has heard nobody for %" PRId64 " s",
		    h->id, silent / SPOT_US_PER_S);
	}
}

void host_unanswered(void)
{
	for (const struct host *h = hosts; h != NULL; h = h->next) {
		struct host x = *h;

		x.agent.quit = x.agent.leaving = false;
		x.agent.orphan_until_us = 0;
		x.agent.orphan_us = 1;
		x.answered_us -= SPOT_US_PER_HOUR;
		answered_check(&x);
	}
}

static void host_turn(struct host *h)
{
	struct agent *a = &h->agent;

	host_now = h;
	a->now_us = a->clock->mono_us(a->clock);
	if (a->ckpt.scan_pid > 0 && a->now_us >= h->scan_ready_us) {
		ckpt_scan_ready(a);
	}
	agent_steps(a);
	host_now = NULL;
	answered_check(h);
	orphan_look(h);
	if (a->quit) {
		trace("host %s agent ends %d", h->id, a->exit_code);
		if (h->over != NULL) {
			container_over(h, h->stopping && a->exit_code != 0 ? 143 : a->exit_code);
		} else {
			agent_over(h);
		}
		if (h->over == NULL && h->orphan && a->exit_code == 0) {
			loop_timer_set(&h->leaves, LEAVES_US);
		}
		return;
	}
	if (DICE(agent_crash)) {
		sometimes("an agent died after any of its turns");
		host_agent_crash(h->id);
		return;
	}
	if (a->ckpt.scan_pid > 0) {
		a->wake_us = MIN(a->wake_us, h->scan_ready_us);
	}
	loop_timer_set(&h->timer, MAX(a->wake_us - a->now_us, INT64_C(500)));
}

static void timer_fire(struct loop_timer *t)
{
	host_turn(container_of(t, struct host, timer));
}

static void task_run(struct loop_task *t)
{
	host_turn(container_of(t, struct host, task));
}

void host_wake(struct host *h)
{
	if (h->running && h != host_now) {
		loop_defer(world.loop, &h->task, task_run);
	}
}

void host_enter(struct host *h)
{
	host_now = h;
	h->agent.now_us = h->agent.clock->mono_us(h->agent.clock);
}

/* ---- boot and end ---------------------------------------------------------------------------- */

/* The line between cat's two EOFs is boot.json, as a shell would write it. */
static bool boot_json(const struct host_spec *s, const char *dir)
{
	const char *at = memmem(s->user_data.p, s->user_data.n, "{\"url\":\"$url\"", 13), *end;
	const char *url = memmem(s->user_data.p, s->user_data.n, "url='", 5), *url_end;
	char path[512], text[4096];
	struct spot_err err = { 0 };
	int n;

	if (at == NULL || url == NULL) {
		return false;
	}
	url += 5;
	url_end = strchr(url, '\'');
	end = strchr(at, '\n');
	at = memchr(at, ',', (size_t)(end - at));
	at = strstr(at, "\"token\"");
	n = snprintf(text, sizeof(text), "{\"url\":\"%.*s\",%.*s\n", (int)(url_end - url), url,
	    (int)(end - at), at);
	snprintf(path, sizeof(path), "%s/boot.json", dir);
	return file_write(path, (struct str){ text, (size_t)n }, 0600, false, &err) == SPOT_OK;
}

static void agent_start_now(struct host *h)
{
	struct agent *a = &h->agent;
	struct spot_err err = { 0 };

	agent_init(a, h->dir, &h->clock.clock);
	if (boot_read(h->dir, &a->boot, &err) != SPOT_OK) {
		fprintf(stderr, "sim: %s\n", err.text);
		abort();
	}
	rng_seeded_init(&a->rng, rng_u64(&world.dice));
	a->signal_fd = -1;
	a->inotify_fd = 1000;
	snprintf(a->enrol.boot_id, sizeof(a->enrol.boot_id), "boot-%d.%.50s", h->boots, h->id);
	loop_timer_init(&h->timer, world.loop, timer_fire);
	h->running = true;
	host_now = h;
	agent_begin(a);
	host_now = NULL;
	host_answered(h);
	trace("host %s agent starts", h->id);
	loop_timer_set(&h->timer, dice_us(1000, 3 * SPOT_US_PER_S));
}

void host_boot(const struct host_spec *s)
{
	struct host *h = calloc(1, sizeof(*h)), **at = &hosts;
	struct spot_err err = { 0 };

	assert(h != NULL);
	snprintf(h->id, sizeof(h->id), "%s", s->id);
	snprintf(h->dir, sizeof(h->dir), "%s/%s", world.conf.dir, s->id);
	snprintf(h->gpu, sizeof(h->gpu), "%s", s->gpu != NULL ? s->gpu : "");
	skewed_clock_init(&h->clock, 0);
	h->gpus = s->gpus;
	h->imds_port = s->imds_port;
	h->over = s->over;
	if (s->env != NULL) {
		env_copy(h, s->env);
	}
	loop_timer_init(&h->gone, world.loop, container_gone);
	loop_timer_init(&h->leaves, world.loop, host_leaves);
	while (*at != NULL) {
		at = &(*at)->next;
	}
	*at = h;
	if (dir_make(h->dir, &err) != SPOT_OK || !boot_json(s, h->dir)) {
		trace("host %s has no agent in its user data", h->id);
		return;
	}
	agent_start_now(h);
}

void host_agent_crash(const char *id)
{
	struct host *h = host_find(id);

	if (h == NULL || !h->running) {
		return;
	}
	trace("host %s agent crashes", h->id);
	sometimes("an agent crashed");
	if (h->stopping) { /* told to stop, the script does not start it again */
		container_over(h, 143);
		return;
	}
	agent_over(h);
	agent_start_now(h);
}

void host_reboot(const char *id)
{
	struct host *h = host_find(id);

	if (h == NULL || !h->running) {
		return;
	}
	trace("host %s starts again", h->id);
	sometimes("a machine started again");
	h->was_cut = true; /* silent for a while, and nothing runs on it afterwards */
	if (h->over != NULL) { /* a Pod that is not to be restarted ends with its node's turn */
		container_over(h, 137);
		return;
	}
	h->boots++;
	program_end_all(h);
	agent_over(h);
	agent_start_now(h);
}

void host_clock(const char *id, int64_t skew_us)
{
	struct host *h = host_find(id);

	if (h == NULL) {
		return;
	}
	trace("host %s has a clock that is off by %" PRId64 " s", h->id, skew_us / SPOT_US_PER_S);
	sometimes("a machine's clock jumped");
	h->clock.skew_us = skew_us;
}

void host_end(const char *id)
{
	struct host *h = host_find(id);
	bool zombie;

	if (h == NULL || h->end.armed) {
		return;
	}
	zombie = DICE(zombie);
	if (zombie || (h->stays && !world.quiet)) {
		sometimes("a machine outlived its instance");
		trace("host %s goes on although its instance has ended", h->id);
		loop_timer_init(&h->end, world.loop, host_off);
		loop_timer_set(&h->end,
		    (h->stays ? 300 * SPOT_US_PER_S : 0) +
			dice_us(SPOT_US_PER_S, 300 * SPOT_US_PER_S));
		return;
	}
	host_off(&h->end);
}

static void host_off(struct loop_timer *t)
{
	struct host *h = container_of(t, struct host, end);

	trace("host %s power off", h->id);
	program_end_all(h);
	if (h->running) {
		agent_over(h);
	}
	net_cut(h->id, false);
}

void host_end_now(const char *id)
{
	struct host *h = host_find(id);

	if (h != NULL && !h->end.armed) {
		host_off(&h->end);
	}
}

void host_halt(const char *id)
{
	struct host *h = host_find(id);

	if (h == NULL) {
		return;
	}
	h->was_cut = true;
	host_off(&h->end);
}

bool host_was_cut(const char *id)
{
	const struct host *h = host_find(id);

	return h != NULL && h->was_cut;
}

void host_cut(const char *id, bool cut)
{
	struct host *h = host_find(id);

	if (h != NULL && cut) {
		h->was_cut = true;
	}
	trace("host %s %s", id, cut ? "is cut off" : "is connected again");
	net_cut(id, cut);
}

static void host_heal(struct loop_timer *t)
{
	host_cut(container_of(t, struct host, heal)->id, false);
}

void host_cut_for(const char *id, int64_t us)
{
	struct host *h = host_find(id);

	if (h == NULL || h->heal.armed) {
		return;
	}
	host_cut(id, true);
	h->stays = true;
	loop_timer_init(&h->heal, world.loop, host_heal);
	loop_timer_set(&h->heal, us);
}

/* ---- facts about the machine: the real ones differ from run to run --------------------------- */

void own_address(char ret[INET_ADDRSTRLEN])
{
	snprintf(ret, INET_ADDRSTRLEN, "10.1.2.3");
}

void interface_of(const char *address, char ret[IFNAMSIZ])
{
	snprintf(ret, IFNAMSIZ, "%s", address[0] != '\0' ? "ens5" : "");
}

const char *fabric_devices(void)
{
	return "/nonexistent";
}

void gpu_step(struct agent *a)
{
	struct gpu_now *g = &a->gpu.now;

	if (g->known) {
		return;
	}
	g->known = true;
	g->count = host_now->gpus;
	g->gpus = json_array();
	snprintf(g->driver, sizeof(g->driver), "550.54");
	for (int i = 0; i < host_now->gpus; i++) {
		(void)json_array_append_new(g->gpus,
		    json_pack("{s:o, s:s, s:i, s:s}", "uuid",
			json_sprintf("GPU-%s-%d", host_now->id, i), "name", host_now->gpu,
			"mem_mib", 81920, "driver", g->driver));
	}
	g->util = 0.9;
}

json_t *sample_hw(struct agent *a)
{
	return json_pack("{s:i, s:i, s:s, s:s, s:o}", "vcpus", 8, "mem_mib", 65536, "kernel", "6.1",
	    "ip", "10.1.2.3", "gpus",
	    a->gpu.now.gpus != NULL ? json_incref(a->gpu.now.gpus) : json_array());
}

static void sample_done(void *agent, const struct http_reply *reply)
{
	struct agent *a = agent;
	AUTO(daemon_reply) struct daemon_reply r;

	daemon_read(a, reply, &r);
	a->sample.call = NULL;
}

void sample_step(struct agent *a)
{
	struct sample *s = &a->sample;

	if (a->enrol.at != ENROL_DONE || s->call != NULL) {
		return;
	}
	if (a->now_us >= s->next_us) {
		s->next_us = a->now_us + a->sample_us * 8;
		s->call = daemon_post(a, "sample",
		    json_pack("{s:I, s:I, s:I, s:f}", "at_us", (json_int_t)agent_wall_us(a), "gpus",
			(json_int_t)a->gpu.now.count, "mem_used_mib", (json_int_t)1000, "gpu_util",
			0.9),
		    10 * SPOT_US_PER_S, sample_done);
	}
	agent_wake(a, s->next_us);
}
