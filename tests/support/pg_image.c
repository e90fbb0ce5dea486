#include "pg_image.h"

#include "base/base.h"
#include "base/crypto/crypto.h"
#include "io/cluster/pgcluster.h"
#include "io/proc/proc.h"
#include "store/q.h"
#include "testdir.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Part of the name: counts up when this file makes another image of the same migrations. */
#define FORMAT 1

static char folder[512], image[600];

static bool image_complain(const char *what, const char *why)
{
	fprintf(stderr, "pg_image: %s: %s (tests run initdb instead)\n", what, why);
	return false;
}

static void image_name(void)
{
	char hashes[SHA256_HEX * 64], hash[SHA256_HEX];
	size_t n = 0;

	for (size_t i = 0; i < migrations_all_n; i++) {
		const char *one = migrations_all[i].sha256;

		assert(n + strlen(one) < sizeof(hashes));
		memcpy(hashes + n, one, strlen(one));
		n += strlen(one);
	}
	sha256_hex(hashes, n, hash);
	(void)snprintf(folder, sizeof(folder), "%s", HARNESS_IMAGES);
	(void)snprintf(image, sizeof(image), "%s/%.16s-%d", folder, hash, FORMAT);
}

/* Writes of a process outlive its kill -9 without fsync; no test cuts the power. */
static bool image_settings(const char *data)
{
	char path[700];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/postgresql.conf", data);
	f = fopen(path, "ae");
	if (f == NULL) {
		return image_complain(path, strerror(errno));
	}
	fputs("fsync = off\nfull_page_writes = off\n", f);
	return fclose(f) == 0 || image_complain(path, strerror(errno));
}

static bool image_fill(const char *dir)
{
	struct spot_err err = { 0 };
	struct pgcluster *c = NULL;
	enum spot_rc rc;

	if (pgcluster_start(dir, PG_IMAGE_DATABASE, true, &c, &err) != SPOT_OK) {
		return image_complain("cannot start a database", err.text);
	}
	rc = migrate_run(pgcluster_dsn(c), NULL, migrations_all, migrations_all_n, 1, NULL, &err);
	pgcluster_stop(c);
	return rc == SPOT_OK || image_complain("migrations", err.text);
}

/* The server's user cannot enter a private build folder, so the image is made in a folder for
 * temporary files. */
static bool image_make(void)
{
	char dir[256], data[300], fresh[620];
	bool done = false;

	testdir_make(dir, sizeof(dir));
	(void)snprintf(data, sizeof(data), "%s/data", dir);
	(void)snprintf(fresh, sizeof(fresh), "%s.new", image);
	testdir_remove(fresh);
	if (image_fill(dir) && image_settings(data)) {
		done = testdir_copy(data, fresh) && rename(fresh, image) == 0;
		done = done || image_complain(image, "cannot copy the folder there");
	}
	testdir_remove(dir);
	return done;
}

const char *pg_image_path(void)
{
	char lock[600];
	bool there = false;
	int fd;

	image_name();
	if (access(image, F_OK) == 0) {
		return image;
	}
	(void)mkdir(folder, 0755);
	(void)snprintf(lock, sizeof(lock), "%s/lock", folder);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) != 0) {
		image_complain(lock, strerror(errno));
	} else {
		there = access(image, F_OK) == 0 || image_make();
	}
	if (fd >= 0) {
		close(fd);
	}
	return there ? image : NULL;
}

bool pg_image_copy(const char *dir)
{
	const char *path = pg_image_path();
	char data[700];

	(void)snprintf(data, sizeof(data), "%s/data", dir);
	if (path != NULL && testdir_copy(path, data)) {
		return true;
	}
	testdir_remove(data);
	return false;
}
