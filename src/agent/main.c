/*
 * spot-agent: one process per node. It enrols, polls, runs the daemon's jobs and watches for the
 * cloud's notices. This file has the options, the loop and the descriptors. The turn is in turn.c,
 * the parts are in agent.h.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <sys/file.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DIR_DEFAULT "/var/lib/spot-agent"

/* ---- events ---------------------------------------------------------------------------------- */

static void children_reap(struct agent *a)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		gpu_child_ended(a, pid, status);
		job_child_ended(a, pid);
	}
}

static void signals_read(struct agent *a)
{
	struct signalfd_siginfo info;

	while (read(a->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD) {
			children_reap(a);
			continue;
		}
		notice_stop(a, (int)info.ssi_signo);
	}
}

static void inotify_drain(struct agent *a)
{
	char buf[8192] __attribute__((aligned(8)));

	while (read(a->inotify_fd, buf, sizeof(buf)) > 0)
		; /* only a wake-up: the steps read the files */
}

static void wait_turn(struct agent *a)
{
	struct curl_waitfd fds[4];
	unsigned n = 0, inotify_at = 4, scan_at = 4, gpu_at = 4;

	fds[n++] = (struct curl_waitfd){ a->signal_fd, CURL_WAIT_POLLIN, 0 };
	if (a->inotify_fd >= 0) {
		inotify_at = n;
		fds[n++] = (struct curl_waitfd){ a->inotify_fd, CURL_WAIT_POLLIN, 0 };
	}
	if (a->ckpt.scan_pid > 0) {
		scan_at = n;
		fds[n++] = (struct curl_waitfd){ a->ckpt.scan_fd, CURL_WAIT_POLLIN, 0 };
	}
	if (a->gpu.fd >= 0) {
		gpu_at = n;
		fds[n++] = (struct curl_waitfd){ a->gpu.fd, CURL_WAIT_POLLIN, 0 };
	}
	http_wait(a->http, fds, n, a->wake_us - a->now_us);
	a->now_us = a->clock->mono_us(a->clock);
	/* Callbacks may have ended the scan or the helper: check again before we read from them. */
	if (scan_at < 4 && fds[scan_at].revents != 0 && a->ckpt.scan_pid > 0 &&
	    a->ckpt.scan_fd == fds[scan_at].fd) {
		ckpt_scan_ready(a);
	}
	if (gpu_at < 4 && fds[gpu_at].revents != 0 && a->gpu.fd == fds[gpu_at].fd) {
		gpu_ready(a);
	}
	if (inotify_at < 4 && fds[inotify_at].revents != 0) {
		inotify_drain(a);
	}
	if (fds[0].revents != 0) {
		signals_read(a);
	}
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void agent_turn(struct agent *a)
{
	agent_steps(a);
	if (!a->quit) {
		wait_turn(a);
	}
}

/* ---- start and end --------------------------------------------------------------------------- */

static enum spot_rc lock_take(struct agent *a, struct spot_err *err)
{
	char path[AGENT_PATH_MAX];
	int fd;

	if (!path_join(path, a->dir, "lock")) {
		return err_set(err, SPOT_INVALID, "--dir: too long");
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		return err_set(err, SPOT_INTERNAL, "%s: %s", path, strerror(errno));
	}
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		return err_set(err, SPOT_CONFLICT, "another agent runs in %s", a->dir);
	}
	return SPOT_OK; /* we hold the lock until we end */
}

/* Sets boot_id: the kernel's, which the Pods of one host share, and ours. */
static void boot_id_read(struct agent *a)
{
	char home[HOME_ID_MAX], kernel[37] = "";
	struct str text;

	home_id(a, home);
	if (file_read("/proc/sys/kernel/random/boot_id", 128, &text, NULL) == SPOT_OK) {
		(void)snprintf(kernel, sizeof(kernel), "%.*s", (int)strcspn(text.p, "\n"), text.p);
		free((char *)(uintptr_t)text.p);
	}
	(void)snprintf(a->enrol.boot_id, sizeof(a->enrol.boot_id), "%s%s%s", kernel,
	    *home != '\0' ? "." : "", home);
}

static void events_open(struct agent *a)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	a->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	a->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	/* If the job's shim dies before us, we reap its children. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* Our memory holds the token, the session and the job's secrets. */
	(void)prctl(PR_SET_DUMPABLE, 0);
}

/* Opens dir and makes it absolute, since jobs get paths below it. */
static enum spot_rc dir_open(struct agent *a, struct spot_err *err)
{
	static char absolute[AGENT_PATH_MAX];
	enum spot_rc rc = dir_make(a->dir, err);

	if (rc != SPOT_OK) {
		return rc;
	}
	if (realpath(a->dir, absolute) == NULL) {
		return err_set(err, SPOT_INTERNAL, "%s: %s", a->dir, strerror(errno));
	}
	a->dir = absolute;
	return chmod(absolute, 0700) == 0
	    ? SPOT_OK
	    : err_set(err, SPOT_INTERNAL, "%s: %s", absolute, strerror(errno));
}

static int agent_run(struct agent *a)
{
	struct spot_err err = { 0 };

	if (dir_open(a, &err) != SPOT_OK || lock_take(a, &err) != SPOT_OK ||
	    boot_read(a->dir, &a->boot, &err) != SPOT_OK) {
		fprintf(stderr, "spot-agent: %s\n", err.text);
		return 1;
	}
	events_open(a);
	rng_real_init(&a->rng);
	boot_id_read(a);
	agent_begin(a);
	while (!a->quit) {
		agent_turn(a);
	}
	agent_end(a);
	log_info("agent.end", I64("code", a->exit_code));
	return a->exit_code;
}

static int usage_print(FILE *out, int code)
{
	fprintf(out,
	    "usage: spot-agent [--dir DIR]\n"
	    "  --dir DIR   the agent's directory, which holds boot.json\n"
	    "              (default $SPOT_AGENT_DIR or " DIR_DEFAULT ")\n"
	    "  --version   print the version\n"
	    "  --help      print this\n"
	    "\n"
	    "Exit status:\n"
	    "  0      The machine can shut down.\n"
	    "  3      The daemon refuses this node for ever.\n"
	    "  128+N  Signal N stopped the agent. The job goes on; the next start adopts it.\n"
	    "\n"
	    "In a Pod a signal is the end of the node. The job then saves within\n"
	    "$SPOT_TERMINATION_GRACE_S seconds, and the exit status is 0.\n");
	return code;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "dir", required_argument, NULL, 'd' },
		{ "version", no_argument, NULL, 'v' }, { "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 } };
	const char *env = getenv("SPOT_AGENT_DIR");
	static struct agent a;
	int c;

	if (argc == 2 && strcmp(argv[1], "--shim") == 0) {
		return shim_main();
	}
	if (argc == 2 && strcmp(argv[1], "--scan") == 0) {
		return scan_main();
	}
	agent_init(&a, str_empty(env) ? DIR_DEFAULT : env, &clock_real);
	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'd') {
			a.dir = optarg;
		} else if (c == 'v') {
			return printf("spot-agent %s\n", AGENT_VERSION) < 0;
		} else {
			return usage_print(c == 'h' ? stdout : stderr, c == 'h' ? 0 : 2);
		}
	}
	if (optind != argc) {
		return usage_print(stderr, 2);
	}
	log_init(&(struct log_conf){ .fd = 2,
	    .level = LOG_INFO,
	    .program = "spot-agent",
	    .clock = &clock_real });
	return agent_run(&a);
}
