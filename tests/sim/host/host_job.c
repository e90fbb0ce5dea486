/*
 * Processes as the agent sees them: the shim and the program below it, with numbers of their own.
 * The program's run text has its settings: "steps=100 step_ms=5000 save_ms=2000".
 */
#include "sim/world/world.h"
#include "sim/host/host_priv.h"
#include "sim/world/profiles.h"

#include "base/base.h"
#include "base/text/text.h"
#include "agent/sys/sys.h"
#include "agent/proc/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define PID_FIRST 1000000
#define SAVE_ROUND 10 /* steps */
#define TICK_US (15 * SPOT_US_PER_S)

struct program {
	struct host *host;
	pid_t shim, leader;
	uint64_t start;
	char dir[AGENT_PATH_MAX], saved[AGENT_PATH_MAX], progress[AGENT_PATH_MAX],
	    ckpt[AGENT_PATH_MAX];
	const char *phase; /* "setup", "run" */
	bool alive;
	int64_t steps, step_us, save_us, fail_at;
	int64_t run_us; /* when it began to run */
	int64_t saved_wall_us;
	int64_t save_at; /* the step that is being saved */
	struct loop_timer next, save, term, alone;
	size_t log; /* its line in the list of programs */
	struct program *older;
};

static struct program *programs;
static pid_t pid_next = PID_FIRST;
static struct host_progress *history;
static size_t history_n, history_cap;

size_t host_programs(const struct host_progress **ret)
{
	*ret = history;
	return history_n;
}

static struct program *program_of(pid_t pid)
{
	for (struct program *p = programs; p != NULL; p = p->older) {
		if (p->alive && (p->shim == pid || p->leader == pid)) {
			return p;
		}
	}
	return NULL;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Its time is the world's: the agent compares it with those of the scan below. */
static void text_write(const char *path, const char *text)
{
	struct spot_err err = { 0 };
	int64_t now = world_now();
	struct timespec at = { .tv_sec = now / SPOT_US_PER_S,
		.tv_nsec = now % SPOT_US_PER_S * 1000 },
			both[] = { at, at };

	if (file_write(path, str_from(text), 0600, false, &err) != SPOT_OK) {
		trace("file %s: %s", path, err.text); /* the agent has removed the folder */
	} else if (utimensat(AT_FDCWD, path, both, 0) != 0) {
		abort();
	}
}

static void put_in(const struct program *p, const char *name, const char *text)
{
	char path[AGENT_PATH_MAX];

	if (path_join(path, p->dir, name)) {
		text_write(path, text);
	}
}

static void job_json(const struct program *p)
{
	char text[256];

	snprintf(text, sizeof(text),
	    "{\"shim_pid\":%d,\"shim_start\":%" PRIu64 ",\"phase\":\"%s\",\"leader\":%d}",
	    (int)p->shim, p->start, p->phase, (int)p->leader);
	put_in(p, SHIM_JOB_FILE, text);
}

static int64_t steps_done(const struct program *p)
{
	int64_t ran = p->run_us == 0 ? 0 : (world_now() - p->run_us) / p->step_us;

	return MIN(history[p->log].begun_at + ran, p->steps);
}

static void progress_put(struct program *p)
{
	char text[64];

	history[p->log].steps = steps_done(p);
	snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 "\n", history[p->log].steps, p->steps);
	text_write(p->progress, text);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Of dice of its own, so that all else falls as it does. */
static uint64_t program_draw(const struct host_progress *h, uint64_t salt)
{
	uint64_t x = (world.conf.seed + 1 + strtoull(h->job + 1, NULL, 10) * 1000003 +
			 (uint64_t)(h->epoch * 101 + h->rank) * 7919 + salt) *
	    UINT64_C(0x9e3779b97f4a7c15);

	return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 24;
}

/* In every third gang a rank fails that waits for a stopped or lost rank: its collective library
 * ends it. */
static bool fails_alone(const struct host_progress *h)
{
	struct host_progress whole = { .epoch = 1 };

	memcpy(whole.job, h->job, sizeof(whole.job));
	return h->ranks > 1 && program_draw(&whole, 1) % 3 == 0;
}

static void peers_fail(const struct program *p)
{
	const struct host_progress *h = &history[p->log];

	if (!fails_alone(h) || p->run_us == 0 || h->steps >= p->steps) {
		return;
	}
	for (struct program *o = programs; o != NULL; o = o->older) {
		const struct host_progress *x = &history[o->log];

		if (o->alive && o->run_us != 0 && x->epoch == h->epoch &&
		    str_same(x->job, h->job) && !o->alone.armed) {
			loop_timer_set(&o->alone,
			    (200 + (int64_t)(program_draw(x, 2) % 5000)) * 1000);
		}
	}
}

static void program_died(struct program *p)
{
	p->alive = false;
	history[p->log].alive = false;
	history[p->log].ended_us = world_now();
	loop_timer_stop(&p->next);
	loop_timer_stop(&p->save);
	loop_timer_stop(&p->term);
	loop_timer_stop(&p->alone);
}

static void program_exit(struct program *p, int code, int signo)
{
	char text[128];

	if (!p->alive) {
		return;
	}
	if (p->run_us != 0) {
		progress_put(p);
	}
	trace("host %s program %d exits %d signal %d at step %" PRId64, p->host->id, (int)p->shim,
	    code, signo, history[p->log].steps);
	snprintf(text, sizeof(text), "{\"phase\":\"%s\",\"code\":%d,\"signal\":%d}", p->phase, code,
	    signo);
	put_in(p, SHIM_EXIT_FILE, text);
	put_in(p, SHIM_SAFE_FILE, "{}");
	program_died(p);
	if (code <= 0) {
		peers_fail(p);
	}
	host_wake(p->host);
}

static const char *const files[] = { "model.bin", "optimizer.bin" };

size_t host_files(void)
{
	return profile_is(PROFILE_TWO_FILES) ? ARRAY_LEN(files) : 1;
}

static bool saves_nothing(const struct host_progress *h)
{
	return h->ranks > 1 && h->rank > 0 && profile_is(PROFILE_ONE_RANK_SAVES);
}

static void ckpt_put(struct program *p, int64_t step)
{
	char path[AGENT_PATH_MAX], text[128];

	if (p->ckpt[0] == '\0') {
		return;
	}
	for (size_t i = 0; i < host_files() && !saves_nothing(&history[p->log]); i++) {
		snprintf(text, sizeof(text), "step %" PRId64 " of %s\n%s", step,
		    history[p->log].job, i > 0 ? files[i] : "");
		if (path_join(path, p->ckpt, files[i])) {
			text_write(path, text);
		}
	}
	p->saved_wall_us = world_now();
}

static void program_saved(struct loop_timer *t)
{
	struct program *p = container_of(t, struct program, save);
	char text[32];

	if (history[p->log].ranks <= 1) {
		p->save_at = steps_done(p);
	}
	ckpt_put(p, p->save_at);
	progress_put(p);
	snprintf(text, sizeof(text), "%" PRId64 "\n", p->save_at);
	text_write(p->saved, text);
	trace("host %s program %d saved step %" PRId64, p->host->id, (int)p->shim, p->save_at);
	host_wake(p->host);
}

static void program_tick(struct loop_timer *t)
{
	struct program *p = container_of(t, struct program, next);
	int64_t left;

	if (p->run_us == 0) {
		p->phase = "run";
		p->leader = pid_next++;
		p->run_us = world_now();
		history[p->log].begun_us = world_now();
		job_json(p);
		progress_put(p);
		host_wake(p->host);
	}
	if (p->fail_at > 0 && steps_done(p) >= p->fail_at) {
		program_exit(p, 7, 0);
		return;
	}
	if (steps_done(p) >= p->steps) {
		ckpt_put(p, p->steps);
		program_exit(p, 0, 0);
		return;
	}
	progress_put(p);
	left = (p->steps - steps_done(p)) * p->step_us;
	loop_timer_set(&p->next, MIN(TICK_US, MAX(left, INT64_C(1000))));
}

void program_end_all(struct host *h)
{
	for (struct program *p = programs; p != NULL; p = p->older) {
		if (p->alive && p->host == h) {
			program_died(p);
			peers_fail(p);
		}
	}
}

const char *host_unheeding(const char *id, int64_t notice_us)
{
	for (const struct program *p = programs; p != NULL; p = p->older) {
		if (p->alive && strcmp(p->host->id, id) == 0 && p->ckpt[0] != '\0' &&
		    p->run_us != 0 && p->run_us + 30 * SPOT_US_PER_S < notice_us &&
		    p->host->clock.skew_us == 0) {
			return history[p->log].job;
		}
	}
	return NULL;
}

/* ---- signals --------------------------------------------------------------------------------- */

/* In seeds in which agents die, a quarter of the programs take long to set up, so that it shows. */
static int64_t long_setup_us(const struct program *p)
{
	uint64_t h = program_draw(&history[p->log], 4);

	return world.conf.mix.agent_crash > 0 && h % 4 == 0
	    ? (int64_t)((h >> 20) % 60) * SPOT_US_PER_S
	    : 0;
}

/* A third of the programs leave well when they are told to, whatever they have not done yet. */
static void program_killed(struct loop_timer *t)
{
	struct program *p = container_of(t, struct program, term);
	bool well = p->run_us != 0 && program_draw(&history[p->log], 3) % 3 == 0;

	program_exit(p, well ? 0 : -1, well ? 0 : SIGTERM);
}

static void program_alone(struct loop_timer *t)
{
	sometimes("a rank failed since another was stopped");
	program_exit(container_of(t, struct program, alone), 9, 0);
}

/* The ranks of a gang save at a common step: the next round one. */
static int64_t save_begin(struct program *p)
{
	int64_t from = history[p->log].begun_at, next;

	if (history[p->log].ranks <= 1 || p->run_us == 0) {
		return p->save_us;
	}
	next = MIN((steps_done(p) / SAVE_ROUND + 1) * SAVE_ROUND, p->steps);
	p->save_at = next;
	return MAX(p->run_us + (next - from) * p->step_us - world_now(), INT64_C(0)) + p->save_us;
}

int host_kill(pid_t pid, int signo)
{
	struct program *p = program_of(pid < 0 ? -pid : pid);

	if (p == NULL) {
		return -1;
	}
	trace("host %s signal %d to %d", p->host->id, signo, (int)pid);
	if (signo == SIGUSR1) {
		if (!p->save.armed) {
			loop_timer_set(&p->save, save_begin(p));
		}
	} else if (p->shim == pid && signo == SIGTERM) {
		program_exit(p, -1, SIGKILL);
	} else if (signo == SIGKILL) {
		if (p->shim == pid) {
			program_died(p);
		} else {
			program_exit(p, -1, SIGKILL);
		}
	} else if (signo == SIGTERM) {
		if (!p->term.armed) {
			loop_timer_set(&p->term, dice_us(1000, 500000));
		}
	}
	return 0;
}

uint64_t proc_start_time(pid_t pid)
{
	const struct program *p = program_of(pid);

	return p == NULL ? 0 : p->start;
}

bool proc_is_gone(pid_t pid, uint64_t start)
{
	uint64_t now = proc_start_time(pid);

	return now == 0 || (start != 0 && now != start);
}

size_t proc_tree(pid_t root, pid_t ret[PROCS_MAX])
{
	const struct program *p = program_of(root);

	if (p == NULL || p->leader == 0) {
		return 0;
	}
	ret[0] = p->leader;
	return 1;
}

void proc_kill_env(const char *name UNUSED, const char *value UNUSED)
{
	/* A simulated job is its leader alone. */
}

bool proc_catches(pid_t pid, int signo)
{
	const struct program *p = program_of(pid);

	return p != NULL && p->run_us != 0 && signo == SIGUSR1;
}

bool cgroup_make(const char *name UNUSED, char ret[AGENT_PATH_MAX])
{
	ret[0] = '\0';
	return false;
}

int __real_kill(pid_t pid, int signo);
int __wrap_kill(pid_t pid, int signo);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_rm_watch(int fd, int watch);

int __wrap_kill(pid_t pid, int signo)
{
	return pid > -PID_FIRST && pid < PID_FIRST ? __real_kill(pid, signo)
						   : host_kill(pid, signo);
}

int __wrap_inotify_add_watch(int fd UNUSED, const char *path UNUSED, uint32_t mask UNUSED)
{
	return 1;
}

int __wrap_inotify_rm_watch(int fd UNUSED, int watch UNUSED)
{
	return 0;
}

/* ---- start ----------------------------------------------------------------------------------- */

static int64_t number_of(const char *run, const char *name, int64_t otherwise)
{
	const char *at = strstr(run, name);

	return at == NULL ? otherwise : strtoll(at + strlen(name), NULL, 10);
}

/* The program resumes from its checkpoint directory, as a real one does. */
static bool restore_file(const struct program *p, const char *name, struct host_progress *h)
{
	char path[AGENT_PATH_MAX], job[64];
	struct str text;
	long long step = 0;

	if (!path_join(path, p->ckpt, name) || file_read(path, 256, &text, NULL) != SPOT_OK) {
		return false;
	}
	h->alien = sscanf(text.p, "step %lld of %63s", &step, job) != 2 || strcmp(job, h->job) != 0;
	h->begun_at = h->alien ? -1 : step;
	free((char *)(uintptr_t)text.p);
	return true;
}

/* Files that are not all there, or not of one step, are no checkpoint. */
static void program_restore(const struct program *p, struct host_progress *h, const json_t *env)
{
	struct host_progress other = *h;
	bool has;

	if (p->ckpt[0] == '\0') {
		return;
	}
	has = restore_file(p, files[0], h);
	if (saves_nothing(h)) {
		h->alien = has;
		h->begun_at = strtoll(json_str(env, "SPOT_STEPS_START", "0", NULL), NULL, 10);
		return;
	}
	for (size_t i = 1; i < host_files(); i++) {
		bool too = restore_file(p, files[i], &other);

		if (too != has || other.begun_at != h->begun_at || other.alien) {
			h->alien = true;
			h->begun_at = -1;
		}
	}
}

static void history_add(struct program *p, const json_t *env)
{
	if (history_n == history_cap) {
		history_cap = MAX(history_cap * 2, (size_t)64);
		history = reallocarray(history, history_cap, sizeof(*history));
		assert(history != NULL);
	}
	p->log = history_n++;
	history[p->log] = (struct host_progress){ .alive = true,
		.host = p->host->id,
		.epoch = strtoll(json_str(env, "SPOT_EPOCH", "0", NULL), NULL, 10),
		.rank = strtoll(json_str(env, "SPOT_NODE_RANK", "0", NULL), NULL, 10),
		.ranks = strtoll(json_str(env, "SPOT_NUM_NODES", "1", NULL), NULL, 10) };
	snprintf(history[p->log].job, sizeof(history[p->log].job), "%s",
	    json_str(env, "SPOT_JOB_ID", "", NULL));
	program_restore(p, &history[p->log], env);
	history[p->log].steps = history[p->log].begun_at;
}

enum spot_rc shim_spawn(json_t *o, pid_t *ret, struct spot_err *err UNUSED)
{
	struct program *p = calloc(1, sizeof(*p));
	const json_t *env = json_object_get(o, "env");
	const char *run = json_str(o, "run", "", NULL);
	bool fits;

	assert(p != NULL && host_now != NULL);
	p->host = host_now;
	fits = str_copy(p->dir, sizeof(p->dir), json_str(o, "dir", "", NULL)) &&
	    str_copy(p->saved, sizeof(p->saved), json_str(o, "saved", "", NULL)) &&
	    str_copy(p->progress, sizeof(p->progress),
		json_str(env, "SPOT_PROGRESS_FILE", "", NULL)) &&
	    str_copy(p->ckpt, sizeof(p->ckpt), json_str(env, "SPOT_CHECKPOINT_DIR", "", NULL));
	assert(fits);
	p->shim = pid_next++;
	p->start = (uint64_t)world_now();
	p->phase = "setup";
	p->alive = true;
	p->steps = number_of(run, "steps=", 100);
	p->step_us = number_of(run, "step_ms=", 1000) * 1000;
	p->save_us = number_of(run, "save_ms=", 1000) * 1000;
	p->older = programs;
	programs = p;
	history_add(p, env);
	/* Of a gang one rank, or each. */
	p->fail_at = number_of(run, "fail_rank=", history[p->log].rank) == history[p->log].rank
	    ? number_of(run, "fail_at=", 0)
	    : 0;
	if (p->fail_at > 0 && number_of(run, "fail_last=", 0) > 0) {
		p->fail_at = p->steps;
	}
	put_in(p, SHIM_LOG_FILE, "hello\n");
	job_json(p);
	loop_timer_init(&p->next, world.loop, program_tick);
	loop_timer_init(&p->save, world.loop, program_saved);
	loop_timer_init(&p->term, world.loop, program_killed);
	loop_timer_init(&p->alone, world.loop, program_alone);
	loop_timer_set(&p->next, dice_us(SPOT_US_PER_S / 10, 5 * SPOT_US_PER_S) + long_setup_us(p));
	trace("host %s program %d of %s epoch %" PRId64 " begins at step %" PRId64, p->host->id,
	    (int)p->shim, history[p->log].job, history[p->log].epoch, history[p->log].begun_at);
	*ret = p->shim;
	return SPOT_OK;
}

/* ---- checkpoint directories, read at once and reported as by a child ------------------------- */

static void line_put(int fd, json_t *o)
{
	char *text = json_dumps(o, JSON_COMPACT);

	assert(text != NULL);
	dprintf(fd, "%s\n", text);
	free(text);
	json_decref(o);
}

enum spot_rc scan_spawn(const char *dir, const struct scan_list *known UNUSED, pid_t *ret_pid,
    int *ret_fd, struct spot_err *err)
{
	struct scan_list none = { 0 }, found = { 0 };
	enum spot_rc rc = scan_dir(dir, &none, &found, err);
	const struct program *p = programs;
	int fd[2];

	while (p != NULL && p->host != host_now) {
		p = p->older;
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) != 0) {
		abort();
	}
	for (size_t i = 0; i < found.n; i++) {
		const struct scan_file *f = &found.files[i];
		json_t *chunks = json_array();

		for (size_t k = 0; k < f->chunks_n; k++) {
			(void)json_array_append_new(chunks, json_string(f->sha256[k]));
		}
		line_put(fd[1],
		    json_pack("{s:s, s:i, s:I, s:I, s:i, s:o}", "path", f->path, "mode", f->mode,
			"bytes", (json_int_t)f->bytes, "mtime_ns",
			(json_int_t)(p != NULL ? p->saved_wall_us * 1000 : 0), "inode", 1, "chunks",
			chunks));
	}
	line_put(fd[1], json_pack("{s:b}", "done", 1));
	close(fd[1]);
	scan_list_fini(&found);
	*ret_pid = pid_next++;
	*ret_fd = fd[0];
	host_now->scan_ready_us = world.clock.mono + dice_us(10000, 500000);
	return SPOT_OK;
}
