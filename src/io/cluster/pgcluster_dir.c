#include "base/base.h"
#include "base/text/text.h"
#include "io/cluster/pgcluster_priv.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME "/.s.PGSQL.5432"

static bool path_join(char ret[PGCLUSTER_PATH], const char *dir, const char *name)
{
	int n = snprintf(ret, PGCLUSTER_PATH, "%s/%s", dir, name);

	return n > 0 && n < PGCLUSTER_PATH;
}

/* ---- binaries -------------------------------------------------------------------------------- */

static bool bin_usable(const char *dir)
{
	char path[PGCLUSTER_PATH];

	return path_join(path, dir, "postgres") && access(path, X_OK) == 0 &&
	    path_join(path, dir, "initdb") && access(path, X_OK) == 0;
}

/* Finds /usr/lib/postgresql/NN/bin of Debian and Ubuntu; want 0 = the newest version. */
static bool bin_debian(int want, char ret[PGCLUSTER_PATH])
{
	DIR *d = opendir("/usr/lib/postgresql");
	int64_t best = 0, v;
	struct dirent *e;

	if (d == NULL) {
		return false;
	}
	while ((e = readdir(d)) != NULL) {
		char path[PGCLUSTER_PATH];

		if (!parse_i64(e->d_name, 10, 999, &v) || v <= best || (want != 0 && v != want)) {
			continue;
		}
		(void)snprintf(path, sizeof(path), "/usr/lib/postgresql/%d/bin", (int)v);
		if (bin_usable(path)) {
			best = v;
			(void)snprintf(ret, PGCLUSTER_PATH, "%s", path);
		}
	}
	closedir(d);
	return best > 0;
}

/* Finds the folder of initdb by PATH. Follows a link, since postgres finds its files by its own
 * real path. */
static bool bin_path(char ret[PGCLUSTER_PATH])
{
	const char *s = getenv("PATH");
	char path[PATH_MAX], real[PATH_MAX];

	while (s != NULL && *s != '\0') {
		size_t n = strcspn(s, ":");

		(void)snprintf(path, sizeof(path), "%.*s/initdb", (int)n, s);
		if (realpath(path, real) != NULL) {
			*strrchr(real, '/') = '\0';
			if (bin_usable(real) && str_copy(ret, PGCLUSTER_PATH, real)) {
				return true;
			}
		}
		s += n + (s[n] == ':');
	}
	return false;
}

static int data_version(const struct pgcluster_dir *d)
{
	char path[PGCLUSTER_PATH + 16], text[16] = "";
	int64_t v = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/PG_VERSION", d->data);
	f = fopen(path, "re");
	if (f == NULL) {
		return 0;
	}
	if (fgets(text, sizeof(text), f) != NULL) {
		text[strcspn(text, "\n")] = '\0';
	}
	fclose(f);
	return parse_i64(text, 1, 999, &v) ? (int)v : 0;
}

bool pgcluster_dir_has_data(const struct pgcluster_dir *d)
{
	return data_version(d) > 0;
}

static enum spot_rc bin_find(struct pgcluster_dir *d, struct spot_err *err)
{
	int want = data_version(d);

	if (bin_debian(want, d->bin) || bin_path(d->bin)) {
		return SPOT_OK;
	}
	if (want > 0) {
		return err_set(err, SPOT_CONFIG,
		    "%s was made by PostgreSQL %d, whose server is not installed "
		    "here (package postgresql-%d)",
		    d->data, want, want);
	}
	return err_set(err, SPOT_CONFIG,
	    "no PostgreSQL server found: install the package 'postgresql', or "
	    "set DATABASE_URL to use another server");
}

/* ---- folders --------------------------------------------------------------------------------- */

/* Chooses the server's user: the server refuses to run as root, so root runs it as postgres or
 * nobody. */
static enum spot_rc user_find(struct pgcluster_dir *d, struct spot_err *err)
{
	static const char *const names[] = { "postgres", "nobody" };

	d->uid = d->gid = -1;
	if (geteuid() != 0) {
		return SPOT_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct passwd *pw = getpwnam(names[i]);

		if (pw != NULL && pw->pw_uid != 0) {
			d->uid = (int)pw->pw_uid;
			d->gid = (int)pw->pw_gid;
			return SPOT_OK;
		}
	}
	return err_set(err, SPOT_CONFIG,
	    "PostgreSQL does not run as root and there is no user 'postgres' or "
	    "'nobody' to run it as");
}

static bool user_may_enter(const struct pgcluster_dir *d, const struct stat *st)
{
	if (st->st_uid == (uid_t)d->uid) {
		return (st->st_mode & S_IXUSR) != 0;
	}
	if (st->st_gid == (gid_t)d->gid) {
		return (st->st_mode & S_IXGRP) != 0;
	}
	return (st->st_mode & S_IXOTH) != 0;
}

/* Checks that the server's user can pass every folder above dir. */
static enum spot_rc parents_check(const struct pgcluster_dir *d, struct spot_err *err)
{
	char path[PGCLUSTER_PATH];
	struct stat st;

	if (d->uid < 0) {
		return SPOT_OK;
	}
	for (const char *s = strchr(d->dir + 1, '/'); s != NULL; s = strchr(s + 1, '/')) {
		(void)snprintf(path, sizeof(path), "%.*s", (int)(s - d->dir), d->dir);
		if (stat(path, &st) == 0 && !user_may_enter(d, &st)) {
			return err_set(err, SPOT_CONFIG,
			    "the database runs as user %d, which may not enter %s: choose "
			    "another folder, such as /var/lib/spotbroker",
			    d->uid, path);
		}
	}
	return SPOT_OK;
}

static enum spot_rc folder_make(const struct pgcluster_dir *d, const char *path,
    struct spot_err *err)
{
	uid_t owner = d->uid >= 0 ? (uid_t)d->uid : geteuid();
	struct stat st;

	if (mkdir(path, 0700) != 0 && errno != EEXIST) {
		return err_set(err, SPOT_CONFIG, "cannot create %s: %s", path, strerror(errno));
	}
	if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
		return err_set(err, SPOT_CONFIG, "%s is not a folder", path);
	}
	if (st.st_uid != owner && st.st_uid != geteuid()) {
		return err_set(err, SPOT_CONFIG, "%s belongs to user %d: refused", path,
		    (int)st.st_uid);
	}
	if ((st.st_uid != owner && lchown(path, owner, (gid_t)d->gid) != 0) ||
	    chmod(path, 0700) != 0) {
		return err_set(err, SPOT_CONFIG, "cannot set the owner of %s: %s", path,
		    strerror(errno));
	}
	return SPOT_OK;
}

static enum spot_rc parents_make(const char *dir, struct spot_err *err)
{
	char path[PGCLUSTER_PATH];

	for (const char *s = strchr(dir + 1, '/'); s != NULL; s = strchr(s + 1, '/')) {
		(void)snprintf(path, sizeof(path), "%.*s", (int)(s - dir), dir);
		if (mkdir(path, 0755) != 0 && errno != EEXIST) {
			return err_set(err, SPOT_CONFIG, "cannot create %s: %s", path,
			    strerror(errno));
		}
	}
	return SPOT_OK;
}

/* Differs from HASH_START, since folders with names from this value exist. */
#define SOCK_HASH_START UINT64_C(1469598103934665603)

/* Makes the folder of the socket, outside dir if the path passes the 107 bytes of sun_path. That
 * name follows from dir, so that the next start after a crash finds and removes it. */
static enum spot_rc sock_make(struct pgcluster_dir *d, struct spot_err *err)
{
	struct sockaddr_un un;

	if (!path_join(d->sock, d->dir, "sock")) {
		return err_set(err, SPOT_CONFIG, "%s: path too long", d->dir);
	}
	if (strlen(d->sock) + strlen(SOCKET_NAME) >= sizeof(un.sun_path)) {
		(void)snprintf(d->sock, sizeof(d->sock), "/tmp/spotbroker-%d-%016" PRIx64,
		    (int)geteuid(), hash_str(SOCK_HASH_START, d->dir));
		d->sock_outside = true;
	}
	return folder_make(d, d->sock, err);
}

static enum spot_rc lock_take(struct pgcluster_dir *d, struct spot_err *err)
{
	char path[PGCLUSTER_PATH], who[32] = "";
	ssize_t n;

	if (!path_join(path, d->dir, "lock")) {
		return err_set(err, SPOT_CONFIG, "%s: path too long", d->dir);
	}
	d->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->lock_fd < 0) {
		return err_set(err, SPOT_CONFIG, "cannot open %s: %s", path, strerror(errno));
	}
	if (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0) {
		n = pread(d->lock_fd, who, sizeof(who) - 1, 0);
		who[n > 0 ? n : 0] = '\0';
		close(d->lock_fd);
		d->lock_fd = -1;
		return err_set(err, SPOT_CONFLICT,
		    "the database in %s is in use by process %s: stop that first, or "
		    "choose another folder",
		    d->dir, n > 0 ? who : "(unknown)");
	}
	(void)snprintf(who, sizeof(who), "%d", (int)getpid());
	if (ftruncate(d->lock_fd, 0) != 0 || pwrite(d->lock_fd, who, strlen(who), 0) < 0) {
		return err_set(err, SPOT_CONFIG, "cannot write %s: %s", path, strerror(errno));
	}
	return SPOT_OK;
}

static enum spot_rc dir_absolute(struct pgcluster_dir *d, const char *dir, struct spot_err *err)
{
	char cwd[PATH_MAX], path[PATH_MAX * 2], real[PATH_MAX];
	size_t n;

	if (dir[0] == '/') {
		(void)snprintf(path, sizeof(path), "%s", dir);
	} else if (getcwd(cwd, sizeof(cwd)) != NULL) {
		(void)snprintf(path, sizeof(path), "%s/%s", cwd, dir);
	} else {
		return err_set(err, SPOT_CONFIG, "cannot tell the current folder: %s",
		    strerror(errno));
	}
	for (n = strlen(path); n > 1 && path[n - 1] == '/'; n--) {
		path[n - 1] = '\0';
	}
	if (!str_copy(d->dir, sizeof(d->dir) - 32, path)) {
		return err_set(err, SPOT_CONFIG, "%.200s: path too long", path);
	}
	if (parents_make(d->dir, err) != SPOT_OK) {
		return err->rc;
	}
	if (folder_make(d, d->dir, err) != SPOT_OK) {
		return err->rc;
	}
	/* The server reports its folder without links, and we compare it with ours. */
	if (realpath(d->dir, real) == NULL || !str_copy(d->dir, sizeof(d->dir) - 32, real)) {
		return err_set(err, SPOT_CONFIG, "%.200s: %s", path, strerror(errno));
	}
	return SPOT_OK;
}

enum spot_rc pgcluster_dir_open(struct pgcluster_dir *d, const char *dir, struct spot_err *err)
{
	struct spot_err mine;

	if (err == NULL) {
		err = &mine;
	}
	memset(d, 0, sizeof(*d));
	d->lock_fd = -1;
	if (user_find(d, err) != SPOT_OK || dir_absolute(d, dir, err) != SPOT_OK ||
	    parents_check(d, err) != SPOT_OK || lock_take(d, err) != SPOT_OK) {
		pgcluster_dir_close(d);
		return err->rc;
	}
	if (!path_join(d->data, d->dir, "data") || !path_join(d->log, d->dir, "log")) {
		return err_set(err, SPOT_CONFIG, "%s: path too long", d->dir);
	}
	if (sock_make(d, err) != SPOT_OK || bin_find(d, err) != SPOT_OK) {
		pgcluster_dir_close(d);
		return err->rc;
	}
	return SPOT_OK;
}

void pgcluster_dir_close(struct pgcluster_dir *d)
{
	if (d->sock_outside) {
		(void)rmdir(d->sock);
	}
	if (d->lock_fd >= 0) {
		close(d->lock_fd);
	}
	d->lock_fd = -1;
}

/* ---- an earlier server ----------------------------------------------------------------------- */

/* Reports whether the process is a postmaster of data: its working folder is then its data folder.
 * Another process may have got the pid of an old pid file. A zombie has no working folder. */
static bool lives_in(int pid, const char *data)
{
	char link[64], cwd[PGCLUSTER_PATH];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/%d/cwd", pid);
	n = readlink(link, cwd, sizeof(cwd) - 1);
	if (n <= 0) {
		return false;
	}
	cwd[n] = '\0';
	return strcmp(cwd, data) == 0;
}

int pgcluster_dir_postmaster(const struct pgcluster_dir *d)
{
	char path[PGCLUSTER_PATH + 32], text[32] = "";
	int64_t pid;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/postmaster.pid", d->data);
	f = fopen(path, "re");
	if (f == NULL) {
		return 0;
	}
	if (fgets(text, sizeof(text), f) != NULL) {
		text[strcspn(text, "\n")] = '\0';
	}
	fclose(f);
	if (parse_i64(text, 1, INT32_MAX, &pid) && lives_in((int)pid, d->data)) {
		return (int)pid;
	}
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s" SOCKET_NAME ".lock", d->sock);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s" SOCKET_NAME, d->sock);
	(void)unlink(path);
	return 0;
}

void pgcluster_dir_log_tail(const struct pgcluster_dir *d, int64_t offset, char *buf, size_t n)
{
	FILE *f = fopen(d->log, "re");
	char line[512];

	buf[0] = '\0';
	if (f == NULL) {
		return;
	}
	if (fseek(f, (long)offset, SEEK_SET) == 0) {
		while (fgets(line, sizeof(line), f) != NULL) {
			line[strcspn(line, "\n")] = '\0';
			if (strstr(line, "FATAL") != NULL || strstr(line, "error:") != NULL ||
			    strstr(line, "PANIC") != NULL) {
				(void)snprintf(buf, n, "%s", line);
			}
		}
	}
	fclose(f);
}
