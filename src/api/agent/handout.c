#include "base/base.h"
#include "api/agent/agent.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (64 << 20)

static void read_one(struct arena *a, struct handout_file *f, const char *dir)
{
	char path[4200];
	struct stat st;
	char *p;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, f->name) >= sizeof(path)) {
		return;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
	    st.st_size <= FILE_MAX) {
		size_t n = 0;
		ssize_t r = 1;

		p = arena_alloc(a, (size_t)st.st_size);
		while (
		    n < (size_t)st.st_size && (r = read(fd, p + n, (size_t)st.st_size - n)) > 0) {
			n += (size_t)r;
		}
		if (n == (size_t)st.st_size) {
			f->bytes = (struct str){ p, n };
			sha256_hex(p, n, f->sha256);
		}
	}
	close(fd);
}

struct handout *handout_read(const char *dir)
{
	static const char *const names[HANDOUT_FILES] = { "spot-agent", "spot-nvml",
		"spot-agent-aarch64", "spot-nvml-aarch64" };
	struct arena *a = arena_new(0);
	struct handout *h = arena_alloc(a, sizeof(*h));

	h->arena = a;
	for (size_t i = 0; i < HANDOUT_FILES; i++) {
		h->files[i].name = names[i];
		read_one(a, &h->files[i], dir);
	}
	return h;
}

void handout_free(struct handout *h)
{
	if (h != NULL) {
		arena_free(h->arena);
	}
}

const struct handout_file *handout_find(const struct handout *h, const char *name)
{
	for (size_t i = 0; h != NULL && i < HANDOUT_FILES; i++) {
		if (strcmp(h->files[i].name, name) == 0 && h->files[i].bytes.n > 0) {
			return &h->files[i];
		}
	}
	return NULL;
}
