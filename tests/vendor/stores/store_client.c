/*
 * The two ends of a checkpoint's way, for third parties to judge: the providers' presigned
 * addresses, and the agent's own upload code. The Python beside it (stores.py) runs the
 * stores.
 *
 * - store_client presign KIND METHOD ENDPOINT BUCKET KEY QUERY [SETTING=VALUE...]:
 *   prints url, how, header lines
 * - store_client upload HOW FILE URL [HEADER...]: exit 0 = the store has all of it
 *
 * Credentials come by the environment. Nothing here is a stand-in: struct upload and its steps are
 * the agent's.
 */
#include "base/base.h"

#include "agent/agent.h"
#include "agent/ckpt/upload.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "registry.h"
#include "spot/agent.h"

#include <libgen.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#define GIVE_UP_US (60 * SPOT_US_PER_S)

static const char *const hows[] = { "put", "resumable", "blocks" };

/* ---- presign --------------------------------------------------------------------------------- */

static const char *conf_env(void *ctx UNUSED, const char *name)
{
	return getenv(name);
}

static const char *conf_setting(void *ctx, const char *key)
{
	size_t n = strlen(key);

	for (char **p = ctx; *p != NULL; p++) {
		if (strncmp(*p, key, n) == 0 && (*p)[n] == '=') {
			return *p + n + 1;
		}
	}
	return NULL;
}

/* Credentials from a file or from the environment; sources that need a request are not for this. */
static bool auth_run(const struct spot_provider_ops *ops, void *self, struct arena *a)
{
	struct spot_call c = { .arena = a, .now_us = clock_real.wall_us(&clock_real) };
	struct spot_http_response r;
	enum spot_step s;

	if (ops->auth_fresh(self, c.now_us)) {
		return true;
	}
	while ((s = ops->auth(self, &c)) == SPOT_READ) {
		char *text = arena_alloc(a, 65536);
		FILE *f = fopen(c.path, "re");

		r = (struct spot_http_response){ .status = f != NULL ? 200 : 404 };
		r.body = (struct str){ text, f != NULL ? fread(text, 1, 65535, f) : 0 };
		if (f != NULL) {
			fclose(f);
		}
		c.in = &r;
	}
	return s == SPOT_DONE;
}

static int presign(char **argv)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct spot_provider_ops *ops = provider_by_kind(argv[0]);
	const struct spot_provider_conf conf = { .name = argv[0],
		.env = conf_env,
		.setting = conf_setting,
		.ctx = argv + 6 };
	struct spot_presign p = { .method = argv[1],
		.endpoint = argv[2],
		.region = "",
		.bucket = argv[3],
		.key = argv[4],
		.query = argv[5],
		.expires_s = 600 };
	struct spot_err err = { 0 };
	void *self = NULL;
	enum spot_rc rc;

	if (ops == NULL || ops->open(&conf, &self, &err) != SPOT_OK) {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return 1;
	}
	(void)auth_run(ops, self, a);
	rc = ops->presign(self, a, clock_real.wall_us(&clock_real), &p, &err);
	if (rc == SPOT_OK) {
		printf("%s\n%s\n", p.url, hows[p.upload]);
		for (size_t i = 0; i < p.headers_n; i++) {
			printf("%s: %s\n", p.headers[i].name, p.headers[i].value);
		}
	} else {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
	}
	ops->close(self);
	return rc == SPOT_OK ? 0 : 1;
}

/* ---- upload ---------------------------------------------------------------------------------- */

static bool file_hash(const char *path, struct scan_file *f, char sha[1][65])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0 ||
	    st.st_size > SPOT_AGENT_CHUNK_BYTES) {
		return false;
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED) {
		return false;
	}
	sha256_hex(map, (size_t)st.st_size, sha[0]);
	munmap(map, (size_t)st.st_size);
	f->bytes = st.st_size;
	f->chunks_n = 1;
	f->sha256 = sha;
	return true;
}

static bool upload_run(struct agent *a)
{
	int64_t begun = clock_real.mono_us(&clock_real);

	while (a->ckpt.at == CKPT_UPLOAD && clock_real.mono_us(&clock_real) - begun < GIVE_UP_US) {
		a->now_us = clock_real.mono_us(&clock_real);
		a->wake_us = a->now_us + SPOT_US_PER_S;
		upload_step(a);
		if (a->ckpt.at == CKPT_UPLOAD) {
			http_wait(a->http, NULL, 0, MAX(a->wake_us - a->now_us, 0));
		}
	}
	return a->ckpt.at == CKPT_COMMIT;
}

static int upload(char **argv)
{
	static struct agent a;
	static struct scan_file file;
	static char sha[1][65];
	char path[PATH_MAX], dir[PATH_MAX];
	struct upload *u = calloc(1, sizeof(*u));
	size_t how = 0;
	bool good;

	while (how < ARRAY_LEN(hows) && strcmp(hows[how], argv[0]) != 0) {
		how++;
	}
	if (u == NULL || how == ARRAY_LEN(hows) || !str_copy(path, sizeof(path), argv[1]) ||
	    !str_copy(dir, sizeof(dir), argv[1]) || !file_hash(argv[1], &file, sha)) {
		fprintf(stderr, "a way, and a file of 1 byte to a chunk's size are needed\n");
		return 2;
	}
	file.path = basename(path);
	a.clock = &clock_real;
	rng_real_init(&a.rng);
	a.http = http_new(NULL);
	a.enrol.at = ENROL_DONE;
	a.inotify_fd = a.signal_fd = -1;
	snprintf(a.job.ckpt_dir, sizeof(a.job.ckpt_dir), "%s", dirname(dir));
	*u = (struct upload){ .agent = &a,
		.file = &file,
		.how = (enum upload_how)how,
		.url = strdup(argv[2]),
		.fd = -1,
		.bytes = file.bytes,
		.ask = how == UPLOAD_BLOCKS && file.bytes > UPLOAD_PIECE_BYTES };
	for (size_t i = 0; argv[3 + i] != NULL && i < UPLOAD_HEADERS_MAX; i++) {
		u->headers[i] = strdup(argv[3 + i]);
	}
	a.ckpt.at = CKPT_UPLOAD;
	a.ckpt.leave = true; /* every round counts: a refusal ends it here */
	a.ckpt.uploads = u;
	a.ckpt.uploads_n = 1;
	good = upload_run(&a);
	upload_stop(&a);
	http_free(a.http);
	return good ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc >= 8 && strcmp(argv[1], "presign") == 0) {
		return presign(argv + 2);
	}
	if (argc >= 5 && strcmp(argv[1], "upload") == 0) {
		return upload(argv + 2);
	}
	fprintf(stderr,
	    "usage: store_client presign KIND METHOD ENDPOINT BUCKET KEY QUERY [SETTING=VALUE...]\n"
	    "       store_client upload HOW FILE URL [HEADER...]\n");
	return 2;
}
