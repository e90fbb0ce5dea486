#include "base/base.h"
#include "agent/proc/proc.h"

#include "base/text/text.h"
#include "base/crypto/crypto.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define INSTRUCTIONS_MAX ((size_t)8 << 20)
#define ARGUMENT_MAX ((size_t)128 << 10) /* Linux's limit of one argument, with its NUL */
#define SCRIPT_FD 9 /* one digit: some shells cannot close others */
#define SCRIPT_FILE "/proc/self/fd/9"
#define LINGER_S 60
/* Limit of retries on a machine short of disk, memory or processes, as in fetch.c. */
#define TRY_S 600

struct shim {
	const char *dir, *cwd, *setup, *run, *command, *shell, *cgroup, *saved, *ckpt;
	char **env;
	int log_fd;
	sigset_t wait_for; /* CHLD TERM USR1, blocked here, but not in children */
	const char *phase;
	pid_t leader; /* of setup or run; 0 = none */
	int leader_status;
	bool leader_ended, killed;
	pid_t command_pid; /* the checkpoint command, 0 = none */
};

/* ---- the agent's side ------------------------------------------------------------------------ */

static int memory_file(const char *text)
{
	int fd = memfd_create("spot-job", MFD_CLOEXEC);
	size_t n = strlen(text), at = 0;

	while (fd >= 0 && at < n) {
		ssize_t put = write(fd, text + at, n - at);

		if (put <= 0) {
			close(fd);
			return -1;
		}
		at += (size_t)put;
	}
	return fd;
}

/* Makes only async-signal-safe calls between fork and exec: curl's resolver may have threads. */
static void shim_exec(int fd)
{
	char *argv[] = { (char *)(uintptr_t) "spot-agent", (char *)(uintptr_t) "--shim", NULL };
	char *envp[] = { NULL };
	int null_fd = open("/dev/null", O_RDWR);
	sigset_t none;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid();
	if (fd == SHIM_FD) {
		(void)fcntl(fd, F_SETFD, 0);
	} else if (dup2(fd, SHIM_FD) < 0) {
		_exit(125);
	}
	for (int i = 0; i < 3; i++) {
		(void)dup2(null_fd, i);
	}
	(void)execve("/proc/self/exe", argv, envp);
	_exit(125);
}

enum spot_rc shim_spawn(json_t *instructions, pid_t *ret, struct spot_err *err)
{
	char *text = json_dumps(instructions, JSON_COMPACT);
	int fd;
	pid_t pid;

	if (text == NULL) {
		return err_set(err, SPOT_INVALID, "job: environment is not valid UTF-8");
	}
	fd = memory_file(text);
	mem_wipe(text, strlen(text));
	free(text);
	if (fd < 0) {
		return err_set(err, SPOT_INTERNAL, "memfd_create: %s", strerror(errno));
	}
	pid = spawn_fork();
	if (pid == 0) {
		shim_exec(fd);
	}
	close(fd);
	if (pid < 0) {
		return err_set(err, SPOT_INTERNAL, "fork: %s", strerror(errno));
	}
	*ret = pid;
	return SPOT_OK;
}

/* ---- the shim -------------------------------------------------------------------------------- */

static void log_line(struct shim *s, const char *text)
{
	char line[600];
	int n = snprintf(line, sizeof(line), "[spot] %s\n", text);

	if (n > 0 && write(s->log_fd, line, (size_t)MIN(n, (int)sizeof(line) - 1)) < 0) {
		return; /* a full disk: drop the line */
	}
}

static bool file_put(const char *name, json_t *o)
{
	char path[AGENT_PATH_MAX], *text = json_dumps(o, JSON_COMPACT);
	bool ok = text != NULL && path_join(path, ".", name) &&
	    file_write(path, str_from(text), 0600, true, NULL) == SPOT_OK;

	free(text);
	json_decref(o);
	return ok;
}

/* Opens a memory file with the script. Its first line closes the descriptor, so that the programs
 * it starts do not inherit it. */
static bool script_open(const char *text)
{
	char *script;
	int fd;
	bool ok;

	if (asprintf(&script, "exec %d<&-; %s", SCRIPT_FD, text) < 0) {
		abort();
	}
	fd = memory_file(script);
	mem_wipe(script, strlen(script));
	free(script);
	if (fd < 0) {
		return false;
	}
	if (fd == SCRIPT_FD) {
		return fcntl(fd, F_SETFD, 0) == 0;
	}
	ok = dup2(fd, SCRIPT_FD) == SCRIPT_FD;
	close(fd);
	return ok;
}

/* Becomes the shell, and retries after failures that may pass. A text that fits is an argument:
 * then the last command replaces the shell, so it gets the signals and its exit is the job's. A
 * longer text is a script, and the shell stays. */
static void shell_exec(struct shim *s, const char *text)
{
	static const int passing[] = { EAGAIN, ENOMEM, ENFILE, EMFILE, EIO, ETXTBSY, EINTR };
	bool fits = strlen(text) < ARGUMENT_MAX;
	const char *argv[] = { s->shell, fits ? "-c" : SCRIPT_FILE, fits ? text : NULL, NULL };
	const struct timespec second = { 1, 0 };
	char words[200];
	sigset_t none;

	sigemptyset(&none);
	for (int waited_s = 0;; waited_s++) {
		bool again = false;
		int error;

		if (chdir(s->cwd) == 0 && (fits || script_open(text))) {
			(void)execve(s->shell, (char **)(uintptr_t)argv, s->env);
		}
		error = errno;
		for (size_t i = 0; i < ARRAY_LEN(passing); i++) {
			again = again || error == passing[i];
		}
		if (again && waited_s < TRY_S) {
			/* No event comes for it: wait a second. A signal ends us. */
			(void)sigtimedwait(&none, NULL, &second);
			continue;
		}
		(void)snprintf(words, sizeof(words),
		    "cannot start the shell in the working directory: %s", strerror(error));
		log_line(s, words);
		return;
	}
}

static void child_exec(struct shim *s, const char *text)
{
	int null_fd = open("/dev/null", O_RDONLY), fd;
	sigset_t none;

	(void)setsid();
	if (s->cgroup[0] != '\0') {
		(void)!cgroup_join(s->cgroup);
	}
	/* The job must not inherit the agent's protection from the OOM killer. */
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "0", 1) < 0) {
		close(fd);
	}
	(void)dup2(null_fd, 0);
	(void)dup2(s->log_fd, 1);
	(void)dup2(s->log_fd, 2);
	for (int signo = 1; signo < 32; signo++) {
		(void)signal(signo, SIG_DFL);
	}
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	shell_exec(s, text);
	_exit(126);
}

static pid_t child_start(struct shim *s, const char *text)
{
	pid_t pid = fork();

	if (pid == 0) {
		child_exec(s, text);
	}
	return pid;
}

static void kill_all(struct shim *s)
{
	s->killed = true;
	cgroup_kill(s->cgroup);
	proc_kill_tree(getpid());
}

static void command_start(struct shim *s)
{
	pid_t pid = child_start(s, s->command);

	if (pid < 0) {
		log_line(s,
		    "the checkpoint command cannot be started: there is no room for a process");
	}
	s->command_pid = MAX(pid, 0);
}

static void command_ended(struct shim *s, int status)
{
	s->command_pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		/* The command may have written its step count there. */
		if (!file_exists(s->saved)) {
			(void)!file_write(s->saved, str_from("\n"), 0644, false, NULL);
		}
	} else {
		log_line(s, "the checkpoint command failed");
	}
}

static void children_reap(struct shim *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == s->leader) {
			s->leader_ended = true;
			s->leader_status = status;
		} else if (pid == s->command_pid) {
			command_ended(s, status);
		}
	}
}

/* Waits for one signal, at most wait_s seconds (0 = for ever), and acts on it. */
static void shim_turn(struct shim *s, int wait_s)
{
	struct timespec wait = { wait_s, 0 };
	int signo =
	    wait_s > 0 ? sigtimedwait(&s->wait_for, NULL, &wait) : sigwaitinfo(&s->wait_for, NULL);

	if (signo == SIGTERM) {
		kill_all(s);
	} else if (signo == SIGUSR1 && s->command[0] != '\0' && s->command_pid == 0) {
		command_start(s);
	}
	children_reap(s);
}

static bool tree_is_empty(struct shim *s)
{
	pid_t *pids = malloc(PROCS_MAX * sizeof(*pids));
	size_t n;

	if (pids == NULL) {
		abort();
	}
	children_reap(s);
	n = proc_tree(getpid(), pids);
	free(pids);
	return n == 0;
}

/* Reports whether our working directory still has its name. If another one has it, the agent has
 * given up this start and begun a later one. */
static bool dir_is_ours(const struct shim *s)
{
	struct stat named, ours;

	return stat(s->dir, &named) == 0 && stat(".", &ours) == 0 && named.st_dev == ours.st_dev &&
	    named.st_ino == ours.st_ino;
}

/* Waits a second for disk space or a process, which the job cannot do without. False: the time is
 * over, or the agent has ended this start. */
static bool room_awaited(struct shim *s, int waited_s)
{
	if (waited_s >= TRY_S || s->killed || !dir_is_ours(s)) {
		return false;
	}
	shim_turn(s, 1);
	return true;
}

static bool file_put_patiently(struct shim *s, const char *name, json_t *o)
{
	bool ok;

	for (int i = 0; !(ok = file_put(name, json_incref(o))) && room_awaited(s, i);) {
		i++;
	}
	json_decref(o);
	return ok;
}

static bool log_open(struct shim *s)
{
	for (int i = 0; (s->log_fd = open(SHIM_LOG_FILE, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
			     0600)) < 0 &&
	     room_awaited(s, i);) {
		i++;
	}
	return s->log_fd >= 0;
}

/* Writes job.json. Fails if the agent has removed the directory to give up this start; then the
 * shim must not run anything. */
static bool job_file_put(struct shim *s)
{
	return file_put_patiently(s, SHIM_JOB_FILE,
	    json_pack("{s:i, s:I, s:s, s:i}", "shim_pid", (int)getpid(), "shim_start",
		(json_int_t)proc_start_time(getpid()), "phase", s->phase, "leader",
		(int)s->leader));
}

/* Runs one of the two scripts to its end; true if it ended with 0. */
static bool stage_run(struct shim *s, const char *phase, const char *text)
{
	s->phase = phase;
	s->leader = 0;
	s->leader_ended = false;
	/* Write the phase before the script starts: the agent chooses signals by it. */
	if (!job_file_put(s)) {
		s->killed = true;
		s->leader_status = 126 << 8;
		return false;
	}
	for (int i = 0; (s->leader = child_start(s, text)) < 0 && room_awaited(s, i);) {
		i++;
	}
	if (s->leader < 0) {
		log_line(s, "cannot start the shell: there is no room for a process");
		s->leader = 0;
		s->leader_status = 126 << 8; /* like an exit with 126 */
		return false;
	}
	if (!job_file_put(s)) {
		kill_all(s);
	}
	while (!s->leader_ended) {
		shim_turn(s, 0);
	}
	return WIFEXITED(s->leader_status) && WEXITSTATUS(s->leader_status) == 0;
}

/* Ends the processes that the leader left. If a signal ended the leader, a program below it may
 * still save: it gets LINGER_S, or until the agent kills. After an exit the rest ends at once. */
static void clear_up(struct shim *s)
{
	if (WIFSIGNALED(s->leader_status) && !s->killed) {
		for (int i = 0; i < LINGER_S && !s->killed && !tree_is_empty(s); i++) {
			shim_turn(s, 1);
		}
	}
	while (!tree_is_empty(s)) {
		kill_all(s);
		shim_turn(s, 1);
	}
	cgroup_remove(s->cgroup);
}

static char **env_from(json_t *o)
{
	char **env = calloc(json_object_size(o) + 1, sizeof(*env));
	size_t n = 0;
	const char *key;
	json_t *v;

	if (env == NULL) {
		abort();
	}
	json_object_foreach (o, key, v) {
		if (!json_is_string(v) || key[0] == '\0' || strchr(key, '=') != NULL) {
			continue;
		}
		if (asprintf(&env[n], "%s=%s", key, json_string_value(v)) < 0) {
			abort();
		}
		n++;
	}
	return env;
}

static bool instructions_read(struct shim *s, json_t **ret)
{
	struct str text;
	char path[32];
	json_t *o;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", SHIM_FD);
	if (file_read(path, INSTRUCTIONS_MAX, &text, NULL) != SPOT_OK) {
		return false;
	}
	close(SHIM_FD);
	if (json_parse(text, "job instructions", &o, NULL) != SPOT_OK) {
		return false;
	}
	mem_wipe((char *)(uintptr_t)text.p, text.n);
	free((char *)(uintptr_t)text.p);
	s->dir = json_str(o, "dir", "", NULL);
	s->cwd = json_str(o, "cwd", "", NULL);
	s->setup = json_str(o, "setup", "", NULL);
	s->run = json_str(o, "run", "", NULL);
	s->command = json_str(o, "command", "", NULL);
	s->shell = json_str(o, "shell", "/bin/sh", NULL);
	s->cgroup = json_str(o, "cgroup", "", NULL);
	s->saved = json_str(o, "saved", "", NULL);
	s->ckpt = json_str(o, "ckpt", "", NULL);
	s->env = env_from(json_object_get(o, "env"));
	*ret = o;
	return true;
}

static bool exit_file_put(struct shim *s)
{
	s->command = "";
	return file_put_patiently(s, SHIM_EXIT_FILE,
	    json_pack("{s:s, s:i, s:i}", "phase", s->phase, "code",
		WIFEXITED(s->leader_status) ? WEXITSTATUS(s->leader_status) : -1, "signal",
		WIFSIGNALED(s->leader_status) ? WTERMSIG(s->leader_status) : 0));
}

static bool on_disk(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool ok = fd < 0 ? errno == ENOENT : syncfs(fd) == 0;

	if (fd >= 0) {
		close(fd);
	}
	return ok;
}

/* Makes the file, empty, before exit.json: after exit.json the agent may remove the directory. */
static int safe_file_make(void)
{
	return open(SHIM_SAFE_FILE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
}

/* Syncs the job's output and marks the file. It comes after exit.json, because it may take minutes,
 * and a reclaimed machine has no time. Until then the end does not count after a power cut
 * (job.c). */
static void safe_file_fill(struct shim *s, int fd)
{
	if (fd >= 0 && on_disk(s->dir) && on_disk(s->ckpt) && write(fd, "1\n", 2) == 2) {
		(void)fsync(fd);
	}
}

int shim_main(void)
{
	struct shim s = { 0 };
	json_t *keep;
	bool ok = true;
	int safe_fd;

	if (!instructions_read(&s, &keep)) {
		return 125;
	}
	/* Our memory holds the job's secrets: allow no core file, and no ptrace by our user. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* adopt daemonised parts of the job */
	sigemptyset(&s.wait_for);
	sigaddset(&s.wait_for, SIGCHLD);
	sigaddset(&s.wait_for, SIGTERM);
	sigaddset(&s.wait_for, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &s.wait_for, NULL);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	s.phase = "setup";
	/* Work in the job's directory, so that a later start with the same name gets no files of
	 * ours. The log shows that the shim has begun. */
	if (chdir(s.dir) != 0 || !log_open(&s) || !job_file_put(&s)) {
		return 125;
	}
	if (s.setup[0] != '\0') {
		ok = stage_run(&s, "setup", s.setup);
	}
	if (ok && !s.killed) {
		(void)stage_run(&s, "run", s.run);
	}
	clear_up(&s);
	safe_fd = safe_file_make();
	ok = exit_file_put(&s);
	if (ok) {
		safe_file_fill(&s, safe_fd);
	}
	json_decref(keep);
	return ok ? 0 : 125;
}
