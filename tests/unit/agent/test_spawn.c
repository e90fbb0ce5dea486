/* A program that was just written can be run, whatever else the agent starts at that moment. */
#include "base/base.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* A child that takes its time before it becomes `cat`, which waits for the end of its input. */
static pid_t slow_child(int input)
{
	pid_t pid = spawn_fork();

	if (pid == 0) {
		(void)poll(NULL, 0, 100);
		(void)dup2(input, 0);
		(void)execl("/bin/cat", "cat", (char *)NULL);
		_exit(127);
	}
	return pid;
}

static int program_run(const char *path)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl(path, path, (char *)NULL);
		_exit(errno == ETXTBSY ? 26 : 27);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_program_written_while_another_child_starts_can_be_run(void **state)
{
	char path[] = "/tmp/spot_spawn_XXXXXX";
	int from = open("/bin/true", O_RDONLY | O_CLOEXEC), to = mkostemp(path, O_CLOEXEC),
	    input[2];
	char buf[4096];
	ssize_t n;
	pid_t pid;

	(void)state;
	assert_true(from >= 0 && to >= 0);
	assert_int_equal(pipe2(input, O_CLOEXEC), 0);
	while ((n = read(from, buf, sizeof(buf))) > 0) {
		assert_int_equal(write(to, buf, (size_t)n), n);
	}
	assert_int_equal(fchmod(to, 0700), 0);
	pid = slow_child(input[0]);
	close(to);
	assert_int_equal(program_run(path), 0);
	close(input[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(input[0]);
	close(from);
	(void)unlink(path);
}

static void a_child_that_ends_instead_lets_the_parent_go_on(void **state)
{
	pid_t pid = spawn_fork();
	int status;

	(void)state;
	if (pid == 0) {
		_exit(3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_written_while_another_child_starts_can_be_run),
		cmocka_unit_test(a_child_that_ends_instead_lets_the_parent_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
