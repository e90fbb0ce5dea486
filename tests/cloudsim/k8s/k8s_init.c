/*
 * The ancestor of a container's program: "cloudsim pod-init HOME COMMAND...". It does a container
 * runtime's part. TERM goes to the program alone. When the program ends, everything below it ends.
 * USR2 (from cloudsim, or from the kernel when cloudsim dies) kills the tree. Exit status is the
 * program's, 128 + signal when one ended it.
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int start_program(char **argv, const sigset_t *unblock)
{
	int pid = fork();

	if (pid == 0) {
		sigprocmask(SIG_UNBLOCK, unblock, NULL);
		setsid();
		execvp(argv[0], argv);
		dprintf(2, "exec: \"%s\": %s\n", argv[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	return pid;
}

static int exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int pod_init_main(int argc, char **argv)
{
	int pid, got, status;
	sigset_t set;

	if (argc < 4) {
		return 2;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pid = start_program(argv + 3, &set);
	if (pid < 0) {
		return 1;
	}
	for (;;) {
		int signo = sigwaitinfo(&set, NULL);

		if (signo == SIGTERM) {
			kill(pid, SIGTERM);
		} else if (signo == SIGUSR2) {
			agent_kill_tree();
			return 137;
		} else if (signo == SIGCHLD) {
			while ((got = waitpid(-1, &status, WNOHANG)) > 0) {
				if (got == pid) {
					agent_kill_tree();
					return exit_code(status);
				}
			}
		}
	}
}
