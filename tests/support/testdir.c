#include "testdir.h"

#include "base/base.h"
#include "io/proc/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PREFIX "spotbroker-test-"

static const char *tmp_dir(void)
{
	const char *s = getenv("TMPDIR");

	return s != NULL && s[0] == '/' ? s : "/tmp";
}

/* Locks a folder for the life of this process, or for the life of the file if ret_fd is given. */
static bool owner_lock(const char *dir, int flags, int *ret_fd)
{
	char path[600];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/owner", dir);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
		if (ret_fd != NULL) {
			*ret_fd = fd;
		}
		return true;
	}
	if (fd >= 0) {
		close(fd);
	}
	return false;
}

void testdir_make(char *ret, size_t size)
{
	(void)snprintf(ret, size, "%s/" PREFIX "XXXXXX", tmp_dir());
	if (mkdtemp(ret) == NULL || !owner_lock(ret, O_CREAT, NULL)) {
		fprintf(stderr, "harness: %s: %s\n", ret, strerror(errno));
		exit(1);
	}
}

static bool program_run(const char *const *argv)
{
	struct proc_spec spec = { .argv = argv,
		.in = -1,
		.out = -1,
		.err = -1,
		.uid = -1,
		.gid = -1 };
	int pid, status = -1;

	if (proc_spawn(&spec, &pid, NULL) != SPOT_OK) {
		return false;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0;
}

void testdir_remove(const char *path)
{
	(void)program_run((const char *const[]){ "/bin/rm", "-rf", "--", path, NULL });
}

bool testdir_copy(const char *from, const char *to)
{
	return program_run(
	    (const char *const[]){ "/bin/cp", "-a", "--reflink=auto", "--", from, to, NULL });
}

void testdir_sweep(void)
{
	DIR *d = opendir(tmp_dir());
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		char dir[512], lock[600];
		struct stat st;
		int fd, owner;

		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0) {
			continue;
		}
		(void)snprintf(dir, sizeof(dir), "%s/%s", tmp_dir(), e->d_name);
		(void)snprintf(lock, sizeof(lock), "%s/lock", dir);
		/* A test that has killed its server still owns the folder. */
		if (!owner_lock(dir, 0, &owner)) {
			continue;
		}
		fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		/* The server writes its number into the lock file once it holds the lock. */
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
		    st.st_size > 0) {
			testdir_remove(dir);
		}
		if (fd >= 0) {
			close(fd);
		}
		close(owner);
	}
	if (d != NULL) {
		closedir(d);
	}
}
