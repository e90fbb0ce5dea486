/*
 * An instance's program: its user data as a local process tree. The root of the tree is this same
 * binary as "instance-init". It is a child subreaper, so nothing started below it can leave the
 * tree, whatever sessions or groups it makes. TERM makes it kill all that is below and exit. If
 * cloudsim itself dies, the kernel sends that TERM.
 */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"
#include "io/proc/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_POWEROFF 99
#define ENV_MAX 16

/* ---- on cloudsim's side ---------------------------------------------------------------------- */

static void agent_ended(struct loop_child *c, int status)
{
	struct inst *i = container_of(c, struct inst, child);
	bool poweroff = WIFEXITED(status) && WEXITSTATUS(status) == STATUS_POWEROFF;

	i->pid = 0;
	i->agent_ended = true;
	i->agent_status = status;
	books_event(i->sim, "agent_ended", i, json_pack("{s:i}", "status", status));
	if (i->rebooting && i->state == INST_RUNNING) {
		i->rebooting = false;
		agent_start(i);
		return;
	}
	if (poweroff) {
		inst_guest_off(i);
	}
}

/* A guest's power-off commands must not reach the host: these come first in PATH. */
static void write_guest_tools(const char *home)
{
	static const char *const names[] = { "shutdown", "poweroff", "halt", "reboot",
		"systemctl" };
	char path[4096], text[4200];
	int n;

	snprintf(path, sizeof(path), "%s/sbin", home);
	dir_make(path, 0755);
	n = snprintf(text, sizeof(text),
	    "#!/bin/sh\n[ \"${0##*/}\" = systemctl ] && case \"$*\" in\n"
	    "*poweroff*|*halt*|*reboot*) ;; *) exit 1 ;; esac\nkill -USR1 \"$(cat "
	    "'%s/init.pid')\"\n",
	    home);
	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		snprintf(path, sizeof(path), "%s/sbin/%s", home, names[k]);
		file_put(path, text, (size_t)n, 0755);
	}
}

static bool prepare_home(struct inst *i, char *script, size_t script_n)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/instances/%s", i->sim->conf.dir, i->id);
	if (i->home == NULL) { /* else it starts again */
		i->home = dup_text(path);
	}
	snprintf(path, sizeof(path), "%s/var/lib/cloud", i->home);
	dir_make(path, 0755);
	snprintf(path, sizeof(path), "%s/var/lib/spot-agent", i->home);
	dir_make(path, 0700);
	write_guest_tools(i->home);
	snprintf(script, script_n, "%s/var/lib/cloud/user-data", i->home);
	return file_put(script, i->user_data, i->user_data_n, 0700);
}

void agent_start(struct inst *i)
{
	struct arena *a AUTO(arena) = arena_new(0);
	char script[4096], self[4096], home[4200], path[4300], dir[4200];
	const char *argv[] = { self, "instance-init", NULL, script, NULL };
	const char *env[3 + ENV_MAX + 1] = { home, path, dir };
	struct spot_err err = { 0 };
	struct proc_spec spec = { .argv = argv,
		.env = env,
		.in = -1,
		.new_session = true,
		.uid = -1,
		.gid = -1,
		.death_signal = SIGTERM };
	char console[4200];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0 || !prepare_home(i, script, sizeof(script))) {
		return;
	}
	self[n] = '\0';
	argv[2] = i->home;
	snprintf(home, sizeof(home), "HOME=%s", i->home);
	snprintf(path, sizeof(path),
	    "PATH=%s/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", i->home);
	snprintf(dir, sizeof(dir), "SPOT_AGENT_DIR=%s/var/lib/spot-agent", i->home);
	if (cloud_ops(i->cloud)->imds && !i->metadata_off && !i->imds_http) {
		imds_open(i);
	}
	if (cloud_ops(i->cloud)->env) {
		cloud_ops(i->cloud)->env(i, a, env + 3, ENV_MAX);
	}
	snprintf(console, sizeof(console), "%s/console.log", i->home);
	spec.dir = i->home;
	spec.out = spec.err = open(console, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (proc_spawn(&spec, &i->pid, &err) != SPOT_OK) {
		log_error("instance.program_failed", STR("instance", i->id),
		    STR("error", err.text));
		i->pid = 0;
	} else {
		i->agent_started = true;
		loop_child_start(&i->child, i->sim->loop, i->pid, agent_ended);
		books_event(i->sim, "agent_started", i, NULL);
	}
	if (spec.out >= 0) {
		close(spec.out);
	}
}

void agent_kill(struct inst *i)
{
	if (i->pid) {
		kill(i->pid, SIGTERM);
	}
}

/* A machine starts its agent at every boot (systemd has the unit); the user data does the same and
 * may run again. */
void agent_reboot(struct inst *i)
{
	i->rebooting = i->pid != 0;
	agent_kill(i);
}

/* ---- instance-init --------------------------------------------------------------------------- */

struct proc_pair {
	int pid, parent;
};

static int parent_of(int pid)
{
	char path[64], text[512];
	const char *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return 0;
	}
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0) {
		return 0;
	}
	text[n] = '\0';
	p = strrchr(text, ')'); /* the name may hold anything, also brackets */
	return p && p[1] ? (int)strtol(p + 4, NULL, 10) : 0;
}

static size_t list_processes(struct proc_pair *all, size_t max)
{
	DIR *d = opendir("/proc");
	size_t n = 0;

	if (!d) {
		return 0;
	}
	for (struct dirent *e; n < max && (e = readdir(d)) != NULL;) {
		if (!isdigit((unsigned char)e->d_name[0])) {
			continue;
		}
		all[n].pid = (int)strtol(e->d_name, NULL, 10);
		all[n].parent = parent_of(all[n].pid);
		n++;
	}
	closedir(d);
	return n;
}

static bool is_below(const struct proc_pair *all, size_t n, int pid, int root)
{
	for (int depth = 0; depth < 64 && pid > 1; depth++) {
		int parent = 0;

		for (size_t k = 0; k < n; k++) {
			if (all[k].pid == pid) {
				parent = all[k].parent;
			}
		}
		if (parent == root) {
			return true;
		}
		pid = parent;
	}
	return false;
}

/* Orphans come to us, so having no child left means that the tree is empty. */
void agent_kill_tree(void)
{
	static struct proc_pair all[32768];

	for (;;) {
		size_t n = list_processes(all, ARRAY_LEN(all));
		int self = getpid();

		for (size_t k = 0; k < n; k++) {
			if (all[k].pid != self && is_below(all, n, all[k].pid, self)) {
				kill(all[k].pid, SIGKILL);
			}
		}
		if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD) {
			return;
		}
	}
}

static int start_script(const char *script, const sigset_t *unblock)
{
	int pid = fork();

	if (pid == 0) {
		char *copy = dup_text(script);
		char *argv[] = { copy, NULL };

		sigprocmask(SIG_UNBLOCK, unblock, NULL);
		setsid();
		execv(script, argv);
		dprintf(2, "user data: %s\n", strerror(errno));
		_exit(127);
	}
	return pid;
}

int agent_init_main(int argc, char **argv)
{
	char text[32], path[4096];
	sigset_t set;
	int n;

	if (argc < 4) {
		return 2;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	snprintf(path, sizeof(path), "%s/init.pid", argv[2]);
	file_put(path, text, (size_t)n, 0644);
	if (start_script(argv[3], &set) < 0) {
		return 1;
	}
	for (;;) {
		int signo = sigwaitinfo(&set, NULL);

		if (signo == SIGCHLD) {
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
		} else if (signo == SIGTERM || signo == SIGUSR1) {
			agent_kill_tree();
			return signo == SIGUSR1 ? STATUS_POWEROFF : 0;
		}
	}
}
