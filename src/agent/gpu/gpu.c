/*
 * GPU facts from the helper spot-nvml, beside this program or in the agent's directory. It writes
 * one line of JSON per interval of the daemon's samples. A hanging driver hangs the helper, so the
 * agent kills it after HANG_US of silence and starts it again.
 *
 * If the helper is absent or cannot run (old libc), the agent runs nvidia-smi, with a time limit.
 * Without both there is no GPU.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_US (10 * SPOT_US_PER_S)
#define SMI_LIMIT_US (30 * SPOT_US_PER_S)
#define RESTART_US (60 * SPOT_US_PER_S)
#define TEXT_MAX ((size_t)256 << 10)
#define FIRST_US (5 * SPOT_US_PER_S)
/* NVSwitch machines join their GPUs to the fabric within a minute or two of the driver's start. */
#define SETTLE_US (300 * SPOT_US_PER_S)

static void gpus_replace(struct gpu_now *now, json_t *gpus)
{
	json_decref(now->gpus);
	now->gpus = gpus;
}

/* Reads a line of the helper:
 * {"driver","gpus":[{"uuid","name","mem_mib","mem_used_mib","util","power_mw"}]} or {"error"} */
enum spot_rc gpu_helper_line(struct str line, struct gpu_now *now, struct spot_err *err)
{
	AUTO(json) json_t *o = NULL;
	json_t *list, *gpus = json_array();
	double util = 0;
	int64_t util_n = 0;
	enum spot_rc rc = json_parse(line, "spot-nvml", &o, err);

	if (rc != SPOT_OK) {
		json_decref(gpus);
		return rc;
	}
	now->known = true;
	(void)snprintf(now->error, sizeof(now->error), "%s", json_str(o, "error", "", NULL));
	(void)snprintf(now->driver, sizeof(now->driver), "%s", json_str(o, "driver", "", NULL));
	(void)snprintf(now->not_ready, sizeof(now->not_ready), "%s",
	    json_str(o, "not_ready", "", NULL));
	now->failed = json_is_true(json_object_get(o, "failed"));
	list = json_object_get(o, "gpus");
	now->count = (int64_t)json_array_size(list);
	now->mem_used_mib = now->mem_total_mib = now->power_mw = 0;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *g = json_array_get(list, i);
		int64_t percent = json_i64(g, "util", -1, NULL);

		now->mem_used_mib += json_i64(g, "mem_used_mib", 0, NULL);
		now->mem_total_mib += json_i64(g, "mem_mib", 0, NULL);
		now->power_mw += json_i64(g, "power_mw", 0, NULL);
		if (percent >= 0) {
			util += (double)percent / 100;
			util_n++;
		}
		(void)json_array_append_new(gpus,
		    json_pack("{s:s, s:s, s:I, s:s}", "uuid", json_str(g, "uuid", "", NULL), "name",
			json_str(g, "name", "", NULL), "mem_mib",
			(json_int_t)json_i64(g, "mem_mib", 0, NULL), "driver", now->driver));
	}
	now->util = util_n > 0 ? util / (double)util_n : -1;
	if (now->count == 0 && now->error[0] == '\0') {
		(void)snprintf(now->error, sizeof(now->error), "no GPU");
	}
	gpus_replace(now, gpus);
	return SPOT_OK;
}

int64_t gpu_settles_us(const struct gpu_now *now, int64_t since_us, int64_t now_us)
{
	int64_t until = since_us + (!now->known ? FIRST_US : SETTLE_US);

	if (now->known && (now->not_ready[0] == '\0' || now->failed)) {
		return 0;
	}
	return now_us < until ? until : 0;
}

const char *gpu_fault(const struct gpu_now *now)
{
	return now->not_ready[0] != '\0' ? now->not_ready : now->failed ? now->error : "";
}

/* Returns one comma-separated field. For absent values nvidia-smi writes "N/A", "[N/A]" or "[Not
 * Supported]". */
static const char *smi_field(char **at)
{
	char *p = *at, *end = strchr(p, ',');

	if (end != NULL) {
		*end = '\0';
	}
	*at = end != NULL ? end + 1 : p + strlen(p);
	while (*p == ' ') {
		p++;
	}
	for (size_t n = strlen(p); n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\r'); n--) {
		p[n - 1] = '\0';
	}
	return p;
}

static double smi_number(const char *text, double dflt)
{
	double v;

	return parse_f64(text, 0, 1e9, &v) ? v : dflt;
}

/* Reads the lines of
 * --query-gpu=uuid,name,driver_version,memory.total,memory.used,utilization.gpu,power.draw */
enum spot_rc gpu_smi_text(const char *text, struct gpu_now *now, struct spot_err *err)
{
	AUTO(json) json_t *gpus = json_array();
	AUTO(json) json_t *o = NULL;
	char *copy = strdup(text), *line = copy, *next;
	char *whole;
	enum spot_rc rc;

	if (copy == NULL) {
		abort();
	}
	o = json_pack("{s:s}", "driver", "");
	for (; line != NULL && *line != '\0'; line = next) {
		const char *uuid, *name, *driver;
		double total, used, util, power;

		next = strchr(line, '\n');
		if (next != NULL) {
			*next++ = '\0';
		}
		uuid = smi_field(&line);
		name = smi_field(&line);
		driver = smi_field(&line);
		total = smi_number(smi_field(&line), 0);
		used = smi_number(smi_field(&line), 0);
		util = smi_number(smi_field(&line), -1);
		power = smi_number(smi_field(&line), 0);
		if (!str_prefix(uuid, "GPU-")) {
			continue; /* a message, not a GPU */
		}
		(void)json_object_set_new(o, "driver", json_string(driver));
		(void)json_array_append_new(gpus,
		    json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "uuid", uuid, "name", name,
			"mem_mib", (json_int_t)total, "mem_used_mib", (json_int_t)used, "util",
			(json_int_t)util, "power_mw", (json_int_t)lround(power * 1000)));
	}
	free(copy);
	(void)json_object_set(o, "gpus", gpus);
	whole = json_dumps(o, JSON_COMPACT);
	if (whole == NULL) {
		return err_set(err, SPOT_BAD_REPLY, "nvidia-smi: not UTF-8");
	}
	rc = gpu_helper_line(str_from(whole), now, err);
	free(whole);
	return rc;
}

/* ---- processes ------------------------------------------------------------------------------- */

static bool helper_find(struct agent *a, char ret[AGENT_PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", ret, AGENT_PATH_MAX - 16);
	char *slash;

	if (n > 0) {
		ret[n] = '\0';
		slash = strrchr(ret, '/');
		if (slash != NULL) {
			memcpy(slash + 1, "spot-nvml", sizeof("spot-nvml"));
			if (access(ret, X_OK) == 0) {
				return true;
			}
		}
	}
	return path_join(ret, a->dir, "spot-nvml") && access(ret, X_OK) == 0;
}

static void child_exec(int out, const char *const *argv)
{
	sigset_t none;
	int null_fd = open("/dev/null", O_RDWR);

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)dup2(null_fd, 0);
	(void)dup2(out, 1);
	(void)dup2(null_fd, 2);
	(void)execvp(argv[0], (char **)(uintptr_t)argv);
	_exit(127);
}

static bool child_start(struct gpu *g, const char *const *argv)
{
	int out[2];

	if (pipe2(out, O_CLOEXEC) != 0) {
		return false;
	}
	g->pid = spawn_fork();
	if (g->pid == 0) {
		child_exec(out[1], argv);
	}
	close(out[1]);
	if (g->pid < 0) {
		close(out[0]);
		g->pid = 0;
		return false;
	}
	(void)fcntl(out[0], F_SETFL, O_NONBLOCK);
	g->fd = out[0];
	sbuf_fini(&g->text);
	sbuf_init(&g->text, TEXT_MAX);
	return true;
}

static void source_none(struct gpu *g)
{
	g->by = GPU_NONE;
	g->now.known = true;
	if (g->now.error[0] == '\0') {
		(void)snprintf(g->now.error, sizeof(g->now.error), "no GPU");
	}
}

static void source_start(struct agent *a)
{
	static const char *const smi[] = { "nvidia-smi",
		"--query-gpu=uuid,name,driver_version,memory.total,memory.used,utilization.gpu,"
		"power.draw",
		"--format=csv,noheader,nounits", NULL };
	struct gpu *g = &a->gpu;
	char path[AGENT_PATH_MAX], every[24];
	const char *helper[] = { path, "--interval", every, NULL };

	if (g->by == GPU_HELPER && !helper_find(a, path)) {
		g->by = GPU_SMI;
	}
	g->heard_us = a->now_us;
	g->every_us = a->sample_us;
	(void)snprintf(every, sizeof(every), "%" PRId64,
	    MAX(INT64_C(1), g->every_us / SPOT_US_PER_S));
	if (!child_start(g, g->by == GPU_HELPER ? helper : smi)) {
		g->next_us = a->now_us + RESTART_US;
	}
}

static void lines_take(struct agent *a)
{
	struct gpu *g = &a->gpu;
	char *end;

	while (
	    g->by == GPU_HELPER && g->text.p != NULL && (end = strchr(g->text.p, '\n')) != NULL) {
		struct spot_err err = { 0 };
		size_t n = (size_t)(end - g->text.p);

		if (gpu_helper_line((struct str){ g->text.p, n }, &g->now, &err) != SPOT_OK) {
			log_warn("gpu.bad_line", STR("error", err.text));
		}
		if (g->now.count == 0 && strcmp(g->now.error, "no GPU") == 0) {
			g->now.known = false; /* no library: let nvidia-smi decide */
		}
		g->heard_us = a->now_us;
		g->hangs = 0;
		sbuf_consume(&g->text, n + 1);
	}
}

void gpu_ready(struct agent *a)
{
	struct gpu *g = &a->gpu;
	char buf[16384];
	ssize_t got;

	while ((got = read(g->fd, buf, sizeof(buf))) > 0) {
		sbuf_add(&g->text, buf, (size_t)got);
	}
	lines_take(a);
	if (got == 0) { /* closed: the child ends soon */
		close(g->fd);
		g->fd = -1;
	}
}

void gpu_child_ended(struct agent *a, pid_t pid, int status)
{
	struct gpu *g = &a->gpu;
	bool was_smi = g->by == GPU_SMI;

	if (pid != g->pid) {
		return;
	}
	if (g->fd >= 0) {
		gpu_ready(a);
	}
	if (g->fd >= 0) {
		close(g->fd);
	}
	g->fd = -1;
	g->pid = 0;
	g->next_us = a->now_us + RESTART_US;
	if (was_smi && WIFEXITED(status) && WEXITSTATUS(status) == 127) {
		source_none(g);
	} else if (was_smi && g->text.p != NULL) {
		(void)!gpu_smi_text(g->text.p, &g->now, NULL);
		g->next_us = a->now_us + a->sample_us;
	} else if (was_smi) {
		g->now.known = true;
		(void)snprintf(g->now.error, sizeof(g->now.error), "nvidia-smi gives no output");
	} else if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
		g->by = GPU_SMI; /* no library, or it cannot run on this machine */
		g->next_us = a->now_us;
	} else if (WIFSIGNALED(status)) {
		log_warn("gpu.helper_killed", I64("pid", pid), I64("signal", WTERMSIG(status)));
		g->next_us =
		    a->now_us + (++g->hangs > 2 ? RESTART_US : MIN(a->sample_us, RESTART_US));
	}
}

/* Kills the child without a wait for its end: it may hang in the kernel. */
static void child_forget(struct gpu *g)
{
	(void)kill(g->pid, SIGKILL);
	if (g->fd >= 0) {
		close(g->fd);
	}
	g->fd = -1;
	g->pid = 0;
}

void gpu_stop(struct agent *a)
{
	struct gpu *g = &a->gpu;

	if (g->pid > 0) {
		(void)kill(g->pid, SIGKILL);
	}
	if (g->fd >= 0) {
		close(g->fd);
	}
	g->fd = -1;
	sbuf_fini(&g->text);
	json_decref(g->now.gpus);
	g->now.gpus = NULL;
}

void gpu_step(struct agent *a)
{
	struct gpu *g = &a->gpu;
	int64_t limit;

	if (g->by == GPU_NONE) {
		return;
	}
	if (g->pid != 0 && g->by == GPU_HELPER && g->every_us != a->sample_us) {
		child_forget(g); /* enrolment has changed the interval */
		g->next_us = a->now_us;
	}
	if (g->pid == 0) {
		if (a->now_us >= g->next_us) {
			source_start(a);
		}
		if (g->pid == 0) {
			agent_wake(a, MAX(g->next_us, a->now_us + 1000));
		}
		return;
	}
	limit = g->heard_us + (g->by == GPU_HELPER ? a->sample_us + HANG_US : SMI_LIMIT_US);
	if (a->now_us < limit) {
		agent_wake(a, limit);
		return;
	}
	log_warn("gpu.hang", I64("pid", g->pid), I64("times", g->hangs + 1));
	child_forget(g);
	g->next_us = a->now_us + (++g->hangs > 2 ? RESTART_US : 0);
	(void)snprintf(g->now.error, sizeof(g->now.error), "the GPU driver does not answer");
	g->now.known = true;
	g->now.count = 0;
}
