/* Child processes: their environment, descriptors and signals. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"
#include "io/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char output[4096];
static int last_status;

/* Runs /bin/sh -c script with the settings of base, collects its output and status. */
static enum spot_rc script_run(const char *script, struct proc_spec base, struct spot_err *err)
{
	const char *argv[] = { "/bin/sh", "-c", script, NULL };
	int fds[2], pid = -1;
	size_t n = 0;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	if (base.argv == NULL) {
		base.argv = argv;
	}
	base.in = -1;
	base.out = fds[1];
	base.err = fds[1];
	enum spot_rc rc = proc_spawn(&base, &pid, err);
	close(fds[1]);
	for (ssize_t got; (got = read(fds[0], output + n, sizeof(output) - 1 - n)) > 0;) {
		n += (size_t)got;
	}
	output[n] = '\0';
	close(fds[0]);
	if (rc == SPOT_OK) {
		assert_int_equal(waitpid(pid, &last_status, 0), pid);
	}
	return rc;
}

static const struct proc_spec plain = { .uid = -1, .gid = -1 };

static void a_child_gets_its_arguments_environment_and_directory(void **state)
{
	static const char *const env[] = { "ONLY=this", "PATH=/usr/bin:/bin", NULL };
	struct proc_spec s = plain;

	(void)state;
	s.env = env;
	s.dir = "/";
	assert_int_equal(script_run("echo \"$ONLY $HOME\"; pwd; cat; exit 3", s, NULL), SPOT_OK);
	assert_string_equal(output, "this \n/\n");
	assert_int_equal(WEXITSTATUS(last_status), 3);
}

static void no_descriptor_leaks_into_a_child(void **state)
{
	int fd = open("/dev/null", O_RDONLY); /* without close-on-exec, on purpose */

	(void)state;
	assert_int_equal(dup2(fd, 77), 77);
	assert_int_equal(script_run("ls /proc/self/fd | tr '\\n' ' '", plain, NULL), SPOT_OK);
	assert_string_equal(output, "0 1 2 3 "); /* 3 is ls's own directory */
	close(fd);
	close(77);
}

static void signal_settings_are_fresh_in_a_child(void **state)
{
	sigset_t usr1, old;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, &old);
	assert_int_equal(script_run("grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f2 | tr '\\n' "
				    "' '",
			     plain, NULL),
	    SPOT_OK);
	sigprocmask(SIG_SETMASK, &old, NULL);
	assert_string_equal(output, "0000000000000000 0000000000000000 ");
}

static void a_child_that_cannot_start_is_an_error_with_the_reason(void **state)
{
	static const char *const absent[] = { "/nonexistent/program", NULL };
	struct proc_spec s = plain;
	struct spot_err err;

	(void)state;
	s.argv = absent;
	assert_int_equal(script_run("", s, &err), SPOT_CONFIG);
	assert_string_equal(err.text,
	    "cannot start /nonexistent/program: exec: No such file or directory");
	s = plain;
	s.dir = "/nonexistent";
	assert_int_equal(script_run("true", s, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "directory: No such file"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie is left */
	assert_int_equal(errno, ECHILD);
}

static void a_new_session_leads_its_own_group(void **state)
{
	struct proc_spec s = plain;

	(void)state;
	s.new_session = true;
	assert_int_equal(script_run("test $(cut -d' ' -f6 /proc/$$/stat) = $$ && echo own", s,
			     NULL),
	    SPOT_OK);
	assert_string_equal(output, "own\n");
	assert_int_equal(script_run("test $(cut -d' ' -f6 /proc/$$/stat) = $$ && echo own", plain,
			     NULL),
	    SPOT_OK);
	assert_string_equal(output, "");
}

static void descriptors_may_be_crossed(void **state)
{
	/* out and err are each other's number: neither may be overwritten by the other. */
	static const char *const argv[] = { "/bin/sh", "-c", "echo to-out; echo to-err >&2", NULL };
	struct proc_spec s = plain;
	char text[64];
	int out[2], err[2], pid;

	(void)state;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	int keep1 = dup(1), keep2 = dup(2);
	dup2(err[1], 1);
	dup2(out[1], 2);
	s.argv = argv;
	s.in = -1;
	s.out = 2;
	s.err = 1;
	enum spot_rc rc = proc_spawn(&s, &pid, NULL);
	dup2(keep1, 1);
	dup2(keep2, 2);
	assert_int_equal(rc, SPOT_OK);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	text[read(out[0], text, sizeof(text) - 1)] = '\0';
	assert_string_equal(text, "to-out\n");
	text[read(err[0], text, sizeof(text) - 1)] = '\0';
	assert_string_equal(text, "to-err\n");
	for (int i = 0; i < 2; i++) {
		close(out[i]);
		close(err[i]);
	}
	close(keep1);
	close(keep2);
}

static void a_change_of_user_drops_groups_too(void **state)
{
	struct proc_spec s = plain;

	(void)state;
	if (geteuid() != 0) {
		skip();
	}
	s.uid = 65534;
	s.gid = 65534;
	s.dir = "/";
	assert_int_equal(script_run("id -u; id -G", s, NULL), SPOT_OK);
	assert_string_equal(output, "65534\n65534\n");
}

static void a_child_dies_with_its_parent_when_asked(void **state)
{
	int fds[2];
	char c;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid_t parent = fork();
	if (parent == 0) {
		static const char *const argv[] = { "/bin/sh", "-c",
			"while :; do read x; done < /dev/zero", NULL };
		struct proc_spec s = plain;
		int pid;

		s.argv = argv;
		s.in = -1;
		s.out = fds[1];
		s.err = 2;
		s.death_signal = SIGKILL;
		_exit(proc_spawn(&s, &pid, NULL) == SPOT_OK ? 0 : 1);
	}
	close(fds[1]);
	assert_int_equal(waitpid(parent, &last_status, 0), parent);
	assert_int_equal(WEXITSTATUS(last_status), 0);
	/* the end of the pipe: nobody holds it any more */
	assert_int_equal(read(fds[0], &c, 1), 0);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_gets_its_arguments_environment_and_directory),
		cmocka_unit_test(no_descriptor_leaks_into_a_child),
		cmocka_unit_test(signal_settings_are_fresh_in_a_child),
		cmocka_unit_test(a_child_that_cannot_start_is_an_error_with_the_reason),
		cmocka_unit_test(a_new_session_leads_its_own_group),
		cmocka_unit_test(descriptors_may_be_crossed),
		cmocka_unit_test(a_change_of_user_drops_groups_too),
		cmocka_unit_test(a_child_dies_with_its_parent_when_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
