#include "base/base.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

pid_t spawn_fork(void)
{
	int gate[2], high;
	char none;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) != 0) {
		return -1;
	}
	/* Move it above the low descriptors that a child passes to its program. */
	high = fcntl(gate[1], F_DUPFD_CLOEXEC, 64);
	close(gate[1]);
	pid = high < 0 ? -1 : fork();
	if (pid == 0) {
		return 0;
	}
	if (high >= 0) {
		close(high);
	}
	/* The end of file comes when the child's copy closes, at its exec or its end. */
	while (pid > 0 && read(gate[0], &none, 1) < 0 && errno == EINTR) {
		continue;
	}
	close(gate[0]);
	return pid;
}
