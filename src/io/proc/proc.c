/*
 * Starts child processes. A failure in the child (directory, user, exec) comes back through a pipe
 * that closes on exec. So a failed start is an error of proc_spawn.
 */
#include "base/base.h"
#include "io/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct failure {
	int errnum;
	char step[28];
};

_Noreturn static void child_fail(int pipe_fd, const char *step)
{
	struct failure f = { .errnum = errno };

	snprintf(f.step, sizeof(f.step), "%s", step);
	ssize_t put = write(pipe_fd, &f, sizeof(f));
	_exit(put == (ssize_t)sizeof(f) ? 127 : 126);
}

/* Moves all three above 2 first, so that none overwrites another. */
static bool child_descriptors(const struct proc_spec *s)
{
	const int wanted[3] = { s->in, s->out, s->err };
	int high[3];

	for (int i = 0; i < 3; i++) {
		int fd = wanted[i];

		if (fd < 0) {
			fd = open("/dev/null", i == 0 ? O_RDONLY : O_WRONLY);
		}
		high[i] = fcntl(fd, F_DUPFD, 3);
		if (fd < 0 || high[i] < 0) {
			return false;
		}
	}
	for (int i = 0; i < 3; i++) {
		if (dup2(high[i], i) < 0) {
			return false;
		}
	}
	if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0) {
		return true;
	}
	/* Kernels before 5.11 have no CLOSE_RANGE_CLOEXEC. */
	int64_t max = sysconf(_SC_OPEN_MAX);
	for (int fd = 3; fd < max; fd++) {
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
	return true;
}

static void child_signals(void)
{
	sigset_t none;

	for (int signo = 1; signo < NSIG; signo++) {
		signal(signo, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool child_identity(const struct proc_spec *s)
{
	if ((s->uid >= 0 || s->gid >= 0) && geteuid() == 0 && setgroups(0, NULL) != 0) {
		return false;
	}
	if (s->gid >= 0 && setresgid((gid_t)s->gid, (gid_t)s->gid, (gid_t)s->gid) != 0) {
		return false;
	}
	return s->uid < 0 || setresuid((uid_t)s->uid, (uid_t)s->uid, (uid_t)s->uid) == 0;
}

_Noreturn static void child_run(const struct proc_spec *s, int pipe_fd, pid_t parent)
{
	/* execve() takes pointers to writable strings, but does not write. */
	union {
		const char *const *c;
		char *const *plain;
	} argv = { .c = s->argv }, env = { .c = s->env };

	pipe_fd = fcntl(pipe_fd, F_DUPFD_CLOEXEC, 3);
	child_signals();
	if (s->new_session && setsid() < 0) {
		child_fail(pipe_fd, "setsid");
	}
	if (!child_descriptors(s)) {
		child_fail(pipe_fd, "descriptors");
	}
	if (!child_identity(s)) {
		child_fail(pipe_fd, "change of user");
	}
	/* Set it after the change of user, which clears it. The parent may have ended by now. */
	if (s->death_signal != 0 && prctl(PR_SET_PDEATHSIG, s->death_signal) != 0) {
		child_fail(pipe_fd, "death signal");
	}
	if (s->death_signal != 0 && getppid() != parent) {
		_exit(125);
	}
	if (s->dir != NULL && chdir(s->dir) != 0) {
		child_fail(pipe_fd, "directory");
	}
	if (s->env != NULL) {
		execve(s->argv[0], argv.plain, env.plain);
	} else {
		execv(s->argv[0], argv.plain);
	}
	child_fail(pipe_fd, "exec");
}

/* Reads the child's error. An empty pipe means that the child has executed its program. */
static enum spot_rc child_report(int fd, const struct proc_spec *s, int pid, struct spot_err *err)
{
	struct failure f = { 0 };
	ssize_t n;

	do {
		n = read(fd, &f, sizeof(f));
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(f)) {
		return SPOT_OK;
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
		continue;
	}
	return err_set(err, SPOT_CONFIG, "cannot start %s: %s: %s", s->argv[0], f.step,
	    strerror(f.errnum));
}

enum spot_rc proc_spawn(const struct proc_spec *s, int *ret_pid, struct spot_err *err)
{
	int pipes[2];
	pid_t parent = getpid();

	if (pipe2(pipes, O_CLOEXEC) != 0) {
		return err_set(err, SPOT_INTERNAL, "cannot start %s: pipe: %m", s->argv[0]);
	}
	pid_t pid = fork();
	if (pid == 0) {
		child_run(s, pipes[1], parent);
	}
	close(pipes[1]);
	if (pid < 0) {
		close(pipes[0]);
		return err_set(err, SPOT_INTERNAL, "cannot start %s: fork: %m", s->argv[0]);
	}
	enum spot_rc rc = child_report(pipes[0], s, pid, err);
	close(pipes[0]);
	if (rc == SPOT_OK) {
		*ret_pid = pid;
	}
	return rc;
}
