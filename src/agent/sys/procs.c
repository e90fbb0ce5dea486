#include "base/base.h"
#include "agent/sys/sys.h"

#include "base/text/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

/* Linux limits arguments and environment to a quarter of the stack: 2 MiB for the default of 8. */
#define ENVIRON_MAX ((size_t)4 << 20)

/* Reads a small /proc file. False: see errno; ENOENT or ESRCH if the process is gone. */
static bool proc_file(pid_t pid, const char *name, char *buf, size_t n)
{
	char path[64];
	int fd;
	ssize_t got;
	int why;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return false;
	}
	got = read(fd, buf, n - 1);
	why = got < 0 ? errno : EIO;
	close(fd);
	if (got <= 0) {
		errno = why;
		return false;
	}
	buf[got] = '\0';
	return true;
}

/* Returns the text after the command name in proc(5) stat: "S ppid ...". The name may hold any
 * bytes. */
static const char *proc_stat(pid_t pid, char *buf, size_t n)
{
	const char *p;

	if (!proc_file(pid, "stat", buf, n)) {
		return NULL;
	}
	p = strrchr(buf, ')');
	return p != NULL && p[1] == ' ' ? p + 2 : NULL;
}

static uint64_t stat_start(const char *p)
{
	if (p[0] == 'Z' || p[0] == 'X') {
		return 0;
	}
	for (int field = 3; field < 22; field++) {
		p = strchr(p, ' ');
		if (p == NULL) {
			return 0;
		}
		p++;
	}
	return strtoull(p, NULL, 10);
}

uint64_t proc_start_time(pid_t pid)
{
	char buf[1024];
	const char *p = pid <= 0 ? NULL : proc_stat(pid, buf, sizeof(buf));

	return p == NULL ? 0 : stat_start(p);
}

bool proc_is_gone(pid_t pid, uint64_t start)
{
	char buf[1024];
	const char *p;
	uint64_t now;

	if (pid <= 0) {
		return true;
	}
	errno = 0;
	p = proc_stat(pid, buf, sizeof(buf));
	if (p == NULL) {
		return errno == ENOENT || errno == ESRCH;
	}
	now = stat_start(p);
	return now == 0 || (start != 0 && now != start);
}

struct proc_parent {
	pid_t pid, parent;
};

static size_t proc_all(struct proc_parent *all, size_t max)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	size_t n = 0;

	if (d == NULL) {
		return 0;
	}
	while (n < max && (e = readdir(d)) != NULL) {
		char buf[1024];
		int64_t pid;
		const char *p;

		if (!parse_i64(e->d_name, 1, INT32_MAX, &pid)) {
			continue;
		}
		p = proc_stat((pid_t)pid, buf, sizeof(buf));
		if (p == NULL || p[0] == 'Z' || p[0] == 'X' || p[1] != ' ') {
			continue;
		}
		all[n++] = (struct proc_parent){ (pid_t)pid, (pid_t)strtol(p + 2, NULL, 10) };
	}
	closedir(d);
	return n;
}

size_t proc_tree(pid_t root, pid_t ret[PROCS_MAX])
{
	size_t max = 65536, all_n, n = 0;
	struct proc_parent *all = malloc(max * sizeof(*all));

	if (all == NULL) {
		abort();
	}
	all_n = proc_all(all, max);
	/* Breadth first; at 0 the parent is the root. */
	for (size_t at = 0; at <= n; at++) {
		pid_t parent = at == 0 ? root : ret[at - 1];

		for (size_t i = 0; i < all_n && n < PROCS_MAX; i++) {
			if (all[i].parent == parent) {
				ret[n++] = all[i].pid;
			}
		}
	}
	free(all);
	return n;
}

bool proc_catches(pid_t pid, int signo)
{
	char buf[8192];
	const char *p;

	if (!proc_file(pid, "status", buf, sizeof(buf))) {
		return false;
	}
	p = strstr(buf, "\nSigCgt:");
	return p != NULL && (strtoull(p + 8, NULL, 16) >> (signo - 1) & 1) != 0;
}

void proc_kill_tree(pid_t root)
{
	pid_t *pids = malloc(PROCS_MAX * sizeof(*pids));

	if (pids == NULL) {
		abort();
	}
	/* Stop all first, so that a fork loop cannot outrun us. More rounds find processes that
	 * forked meanwhile. */
	for (int round = 0; round < 3; round++) {
		size_t n = proc_tree(root, pids);

		for (size_t i = 0; i < n; i++) {
			(void)kill(pids[i], SIGSTOP);
		}
	}
	for (size_t n = proc_tree(root, pids); n > 0; n--) {
		(void)kill(pids[n - 1], SIGKILL);
	}
	free(pids);
}

/* Searches proc(5) environ, the environment at the start of the process. */
static bool proc_has_env(pid_t pid, const char *entry, char *buf, size_t n)
{
	char path[64];
	size_t at = 0, entry_n = strlen(entry) + 1;
	ssize_t got;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return false;
	}
	while (at < n && (got = read(fd, buf + at, n - at)) > 0) {
		at += (size_t)got;
	}
	close(fd);
	for (const char *p = buf; p != NULL && (size_t)(buf + at - p) >= entry_n;) {
		if (memcmp(p, entry, entry_n) == 0) {
			return true;
		}
		p = memchr(p, '\0', (size_t)(buf + at - p));
		p = p != NULL ? p + 1 : NULL;
	}
	return false;
}

void proc_kill_env(const char *name, const char *value)
{
	char entry[AGENT_PATH_MAX + 64];
	size_t max = 65536, n;
	struct proc_parent *all = malloc(max * sizeof(*all));
	char *buf = malloc(ENVIRON_MAX);

	if (all == NULL || buf == NULL) {
		abort();
	}
	(void)snprintf(entry, sizeof(entry), "%s=%s", name, value);
	for (int round = 0; round < 4; round++) {
		n = proc_all(all, max);
		for (size_t i = 0; i < n; i++) {
			if (all[i].pid != getpid() &&
			    proc_has_env(all[i].pid, entry, buf, ENVIRON_MAX)) {
				(void)kill(all[i].pid, round < 3 ? SIGSTOP : SIGKILL);
			}
		}
	}
	free(buf);
	free(all);
}

/* Finds the mount point of the cgroup2 tree: /sys/fs/cgroup, or on hybrid hosts
 * /sys/fs/cgroup/unified. */
static bool cgroup_root(char ret[AGENT_PATH_MAX])
{
	FILE *f = fopen("/proc/self/mounts", "re");
	char line[2 * AGENT_PATH_MAX], dir[AGENT_PATH_MAX], type[32];
	bool found = false;

	if (f == NULL) {
		return false;
	}
	while (!found && fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%*s %4095s %31s", dir, type) == 2 &&
		    strcmp(type, "cgroup2") == 0) {
			found = str_copy(ret, AGENT_PATH_MAX, dir);
		}
	}
	fclose(f);
	return found;
}

/* Finds our own group, below which systemd's Delegate=yes allows new ones. Fails in the root group:
 * there we own no part of the tree, and a new group would stay after us. */
static bool cgroup_own(char ret[AGENT_PATH_MAX])
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[AGENT_PATH_MAX];
	bool found = false;

	if (f == NULL) {
		return false;
	}
	while (!found && fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		found = str_prefix(line, "0::/") && line[4] != '\0' &&
		    str_copy(ret, AGENT_PATH_MAX, line + 3);
	}
	fclose(f);
	return found;
}

bool cgroup_make(const char *name, char ret[AGENT_PATH_MAX])
{
	char root[AGENT_PATH_MAX], own[AGENT_PATH_MAX];
	int n;

	if (!cgroup_root(root) || !cgroup_own(own)) {
		return false;
	}
	n = snprintf(ret, AGENT_PATH_MAX, "%s%s/%s", root, own, name);
	return n > 0 && n < AGENT_PATH_MAX - 32 && mkdir(ret, 0755) == 0;
}

static bool cgroup_write(const char *cgroup, const char *file, const char *text)
{
	char path[AGENT_PATH_MAX];
	size_t a = strlen(cgroup), b = strlen(file);
	int fd;
	bool ok;

	if (a + b + 2 > sizeof(path)) {
		return false;
	}
	memcpy(path, cgroup, a);
	path[a] = '/';
	memcpy(path + a + 1, file, b + 1);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		return false;
	}
	ok = write(fd, text, strlen(text)) > 0;
	close(fd);
	return ok;
}

bool cgroup_join(const char *cgroup)
{
	return cgroup_write(cgroup, "cgroup.procs", "0");
}

void cgroup_kill(const char *cgroup)
{
	if (cgroup[0] != '\0') {
		(void)cgroup_write(cgroup, "cgroup.kill", "1");
	}
}

void cgroup_remove(const char *cgroup)
{
	if (cgroup[0] != '\0') {
		(void)rmdir(cgroup);
	}
}

int signal_parse(const char *name)
{
	static const struct {
		const char *name;
		int signo;
	} known[] = { { "HUP", SIGHUP }, { "INT", SIGINT }, { "QUIT", SIGQUIT },
		{ "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "TERM", SIGTERM }, { "KILL", SIGKILL },
		{ "ALRM", SIGALRM }, { "CONT", SIGCONT }, { "WINCH", SIGWINCH } };

	if (strncmp(name, "SIG", 3) == 0) {
		name += 3;
	}
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(known[i].name, name) == 0) {
			return known[i].signo;
		}
	}
	return 0;
}
