/* The agent's boot file, as user data wrote it. */
#include "base/base.h"
#include "fuzz.h"
#include "agent/agent.h"
#include "base/str.h"

#include <fcntl.h>
#include <unistd.h>

static const char *folder(void)
{
	static char dir[] = "/tmp/fuzz-agent-XXXXXX";
	static bool made;

	if (!made) {
		FUZZ_CHECK(mkdtemp(dir) != NULL);
		made = true;
	}
	return dir;
}

__attribute__((destructor)) static void remove_folder(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/boot.json", folder());
	(void)unlink(path);
	(void)rmdir(folder());
}

int fuzz_one(const uint8_t *p, size_t n)
{
	struct boot b = {0};
	struct spot_err err = {0};
	enum spot_rc rc;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/boot.json", folder());
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
	close(fd);
	rc = boot_read(folder(), &b, &err);
	fuzz_check_err(rc, &err);
	if (rc == SPOT_OK) {
		FUZZ_CHECK(str_prefix(b.url, "http") && b.url[strlen(b.url) - 1] != '/' && b.orphan_us > 0);
		FUZZ_CHECK(b.provider != NULL && b.install != NULL && b.node != NULL);
		boot_fini(&b);
	}
	return 0;
}
