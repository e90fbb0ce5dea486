/*
 * A template: the packed data folder of a stopped cluster (tar and gzip). Its file "template" holds
 * its id. tar unpacks it as the server's user. The server then checks pg_control as it does at a
 * start, and only after that the folder gets its final name.
 *
 * Copies must not share what identifies a cluster. Backup and replication tools take two clusters
 * with one system identifier for the same cluster. It is in pg_control, protected by a CRC-32C, and
 * in the first page of a WAL segment.
 *
 * A copy costs its number of files and bytes. So a template has only the first page of its WAL
 * segment, and no maps of free space or of visible rows. The server makes maps again as it needs
 * them.
 */
#include "base/base.h"
#include "io/cluster/pgcluster_priv.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAR "/bin/tar"
#define CONTROL_MAX 8192
#define CONTROL_MIN 200 /* every version has more */
#define NONCE_BYTES 32 /* for passwords of users that do not exist; before the CRC */
#define WAL_LONG_HEADER 0x0002 /* of xlp_info: the header has the system identifier */
#define WAL_HEADER 40
#define WAL_SYSTEM_AT 24
#define WAL_SEGMENT_AT 32 /* bytes of a segment, and of a page */
#define WAL_PAGE_AT 36
#define WAL_SEGMENT_MAX (1U << 30)

static uint32_t crc32c(const uint8_t *p, size_t n)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++) {
			crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
		}
	}
	return ~crc;
}

/* Finds the CRC by its value, since its place differs between versions of PostgreSQL. */
static size_t crc_find(const uint8_t *control, size_t n)
{
	for (size_t at = CONTROL_MIN; at + sizeof(uint32_t) <= n; at += sizeof(uint32_t)) {
		uint32_t have;

		memcpy(&have, control + at, sizeof(have));
		if (have == crc32c(control, at)) {
			return at;
		}
	}
	return 0;
}

static bool control_change(const char *path, uint64_t *was, uint64_t identifier, struct rng *rng)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	uint8_t control[CONTROL_MAX];
	ssize_t n = fd < 0 ? -1 : pread(fd, control, sizeof(control), 0);
	size_t at = n > 0 ? crc_find(control, MIN((size_t)n, 512)) : 0;
	bool done = false;

	if (at > 0) {
		uint32_t crc;

		memcpy(was, control, sizeof(*was));
		memcpy(control, &identifier, sizeof(identifier));
		rng->fill(rng, control + at - NONCE_BYTES, NONCE_BYTES);
		crc = crc32c(control, at);
		memcpy(control + at, &crc, sizeof(crc));
		done = pwrite(fd, control, (size_t)n, 0) == n;
	}
	if (fd >= 0) {
		close(fd);
	}
	return done;
}

/* The system identifier that a segment had, and the one that it gets. */
struct wal_identity {
	uint64_t was, identifier;
};

struct wal_header {
	uint64_t identifier;
	uint32_t segment, page; /* bytes */
};

static bool segment_read(int fd, struct wal_header *ret)
{
	uint8_t header[WAL_HEADER];
	uint16_t info = 0;

	if (fd < 0 || pread(fd, header, sizeof(header), 0) != (ssize_t)sizeof(header)) {
		return false;
	}
	memcpy(&info, header + 2, sizeof(info));
	memcpy(&ret->identifier, header + WAL_SYSTEM_AT, sizeof(ret->identifier));
	memcpy(&ret->segment, header + WAL_SEGMENT_AT, sizeof(ret->segment));
	memcpy(&ret->page, header + WAL_PAGE_AT, sizeof(ret->page));
	return (info & WAL_LONG_HEADER) != 0 && ret->page >= WAL_HEADER &&
	    ret->page <= ret->segment && ret->segment <= WAL_SEGMENT_MAX;
}

/* Gives a segment its identifier and its whole length. The disk is full here, not later. */
static bool segment_change(int fd, const struct wal_identity *to)
{
	struct wal_header h;

	return segment_read(fd, &h) && h.identifier == to->was &&
	    pwrite(fd, &to->identifier, sizeof(to->identifier), WAL_SYSTEM_AT) ==
	    (ssize_t)sizeof(to->identifier) &&
	    posix_fallocate(fd, 0, (off_t)h.segment) == 0;
}

/* Leaves the first page. pg_resetwal has filled the rest with zeros. */
static bool segment_cut(int fd, const struct wal_identity *unused)
{
	struct wal_header h;

	(void)unused;
	return segment_read(fd, &h) && ftruncate(fd, (off_t)h.page) == 0;
}

static bool segments_each(const char *data, bool (*change)(int fd, const struct wal_identity *),
    const struct wal_identity *to)
{
	char path[PGCLUSTER_PATH + 32];
	struct dirent *e;
	int changed = 0;
	bool done;
	DIR *d;

	(void)snprintf(path, sizeof(path), "%s/pg_wal", data);
	d = opendir(path);
	done = d != NULL;
	while (done && (e = readdir(d)) != NULL) {
		if (strlen(e->d_name) == 24 && strspn(e->d_name, "0123456789ABCDEF") == 24) {
			int fd = openat(dirfd(d), e->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

			done = change(fd, to);
			if (fd >= 0) {
				close(fd);
			}
			changed++;
		}
	}
	if (d != NULL) {
		closedir(d);
	}
	return done && changed > 0;
}

/* Gives the copy an identity. As initdb does, the identifier has the time in its upper half. */
static enum spot_rc identity_change(const char *data, struct spot_err *err)
{
	uint64_t now = (uint64_t)clock_real.wall_us(&clock_real) / SPOT_US_PER_S;
	struct wal_identity to = { 0 };
	char path[PGCLUSTER_PATH + 32];
	struct rng rng;

	rng_real_init(&rng);
	to.identifier = now << 32 | (rng_u64(&rng) & UINT32_MAX);
	(void)snprintf(path, sizeof(path), "%s/global/pg_control", data);
	if (!control_change(path, &to.was, to.identifier, &rng)) {
		return err_set(err, SPOT_CONFIG, "%s: not as expected", path);
	}
	if (!segments_each(data, segment_change, &to)) {
		return err_set(err, SPOT_CONFIG, "%s/pg_wal: not as expected", data);
	}
	return SPOT_OK;
}

static enum spot_rc id_check(const char *data, const char *id, struct spot_err *err)
{
	char path[PGCLUSTER_PATH + 32], have[80] = "";
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/template", data);
	f = fopen(path, "re");
	if (f != NULL) {
		if (fgets(have, sizeof(have), f) == NULL) {
			have[0] = '\0';
		}
		fclose(f);
	}
	if (strcmp(have, id) != 0) {
		return err_set(err, SPOT_CONFIG, "the template has id '%s', not '%s'", have, id);
	}
	(void)unlink(path);
	return SPOT_OK;
}

/* One call for the whole file system: a flush for each of a thousand files takes a second. */
static enum spot_rc data_sync(const char *data, struct spot_err *err)
{
	int fd = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool done = fd >= 0 && syncfs(fd) == 0;

	if (fd >= 0) {
		close(fd);
	}
	return done ? SPOT_OK
		    : err_set(err, SPOT_CONFIG, "cannot sync %s: %s", data, strerror(errno));
}

/* Lets the server check version and pg_control, as it does at a start. Meanwhile syncs. */
static enum spot_rc data_check_and_sync(const struct pgcluster_dir *d, const char *data,
    struct spot_err *err)
{
	char postgres[PGCLUSTER_PATH + 16];
	const char *const argv[] = { postgres, "-C", "data_checksums", "-D", data, NULL };
	struct pgcluster_run run;
	enum spot_rc rc;

	(void)snprintf(postgres, sizeof(postgres), "%s/postgres", d->bin);
	rc = pgcluster_run_start(d, argv, -1, &run, err);
	if (rc == SPOT_OK) {
		enum spot_rc synced = data_sync(data, err);

		rc = pgcluster_run_end(d, &run, err);
		rc = rc == SPOT_OK ? synced : rc;
	}
	return rc;
}

static enum spot_rc template_unpack(const struct pgcluster_dir *d, const char *path,
    const char *data, struct spot_err *err)
{
	const char *const argv[] = { TAR, "-xzpf", "-", "-C", data, NULL };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum spot_rc rc;

	if (fd < 0) {
		return err_set(err, SPOT_CONFIG, "cannot open %s: %s", path, strerror(errno));
	}
	if (mkdir(data, 0700) != 0 ||
	    (d->uid >= 0 && lchown(data, (uid_t)d->uid, (gid_t)d->gid) != 0)) {
		close(fd);
		return err_set(err, SPOT_CONFIG, "cannot create %s: %s", data, strerror(errno));
	}
	rc = pgcluster_run(d, argv, fd, err);
	close(fd);
	return rc;
}

enum spot_rc pgcluster_template_copy(const struct pgcluster_dir *d,
    const struct pgcluster_template *t, struct spot_err *err)
{
	char fresh[PGCLUSTER_PATH + 8];
	enum spot_rc rc;

	(void)snprintf(fresh, sizeof(fresh), "%s.new", d->data);
	if (access(fresh, F_OK) == 0) {
		pgcluster_tree_remove(fresh);
	}
	rc = template_unpack(d, t->path, fresh, err);
	if (rc == SPOT_OK) {
		rc = id_check(fresh, t->id, err);
	}
	if (rc == SPOT_OK) {
		rc = identity_change(fresh, err);
	}
	if (rc == SPOT_OK) {
		rc = data_check_and_sync(d, fresh, err);
	}
	if (rc == SPOT_OK && rename(fresh, d->data) != 0) {
		rc = err_set(err, SPOT_CONFIG, "cannot rename %s: %s", fresh, strerror(errno));
	}
	if (rc != SPOT_OK) {
		pgcluster_tree_remove(fresh);
	}
	return rc;
}

/* ---- making ---------------------------------------------------------------------------------- */

static enum spot_rc id_write(const struct pgcluster_dir *d, const char *id, struct spot_err *err)
{
	char path[PGCLUSTER_PATH + 32];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/template", d->data);
	f = fopen(path, "we");
	if (f == NULL || fputs(id, f) < 0 || fclose(f) != 0) {
		return err_set(err, SPOT_CONFIG, "cannot write %s: %s", path, strerror(errno));
	}
	if (chmod(path, 0644) != 0) {
		return err_set(err, SPOT_CONFIG, "cannot change %s: %s", path, strerror(errno));
	}
	return SPOT_OK;
}

/* pg_resetwal leaves one segment that is empty but for a checkpoint, and so packs well. */
static enum spot_rc cluster_pack(const struct pgcluster_dir *d, const char *packed,
    struct spot_err *err)
{
	char reset[PGCLUSTER_PATH + 16];
	const char *const reset_argv[] = { reset, "-f", "-D", d->data, NULL };
	const char *const tar_argv[] = { TAR, "-czf", packed, "--exclude=./postmaster.opts",
		"--exclude=*_fsm", "--exclude=*_vm", "-C", d->data, ".", NULL };

	(void)snprintf(reset, sizeof(reset), "%s/pg_resetwal", d->bin);
	if (pgcluster_run(d, reset_argv, -1, err) != SPOT_OK) {
		return err->rc;
	}
	if (!segments_each(d->data, segment_cut, NULL)) {
		return err_set(err, SPOT_CONFIG, "%s/pg_wal: not as expected", d->data);
	}
	return pgcluster_run(d, tar_argv, -1, err);
}

enum spot_rc pgcluster_template_make(const char *dir, const char *id, struct spot_err *err)
{
	char packed[PGCLUSTER_PATH + 16];
	struct pgcluster_dir d;
	enum spot_rc rc;

	if (pgcluster_dir_open(&d, dir, err) != SPOT_OK) {
		return err->rc;
	}
	(void)snprintf(packed, sizeof(packed), "%s/" PGCLUSTER_TEMPLATE, d.dir);
	rc = id_write(&d, id, err);
	if (rc == SPOT_OK) {
		rc = cluster_pack(&d, packed, err);
	}
	pgcluster_dir_close(&d);
	return rc;
}
