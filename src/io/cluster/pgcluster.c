#include "base/base.h"
#include "io/pg/pg.h"
#include "io/cluster/pgcluster_priv.h"
#include "io/proc/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_US (60 * SPOT_US_PER_S)
#define ORPHAN_US (20 * SPOT_US_PER_S)
#define STOP_MS 20000
#define PORT "5432" /* only part of the socket's name */
#define SUPERUSER "spotbroker"
#define LOG_MAX (16 << 20)

struct pgcluster {
	struct pgcluster_dir dir;
	char dsn[PGCLUSTER_PATH * 2 + 160];
	int pid, pid_fd;
};

/* The oldest system that we build on has no wrapper for this call in glibc. A poll of a pid
 * descriptor sees the end of the process even if an event loop of ours has reaped the child. */
static int pid_open(int pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void pid_signal(int fd, int signo)
{
	(void)syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
}

static bool pid_ended(int fd, int wait_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int rc;

	do {
		rc = poll(&p, 1, wait_ms);
	} while (rc < 0 && errno == EINTR);
	return rc > 0;
}

static int64_t log_size(const struct pgcluster_dir *d)
{
	struct stat st;

	return stat(d->log, &st) == 0 ? (int64_t)st.st_size : 0;
}

static int log_open(const struct pgcluster_dir *d)
{
	char old[PGCLUSTER_PATH + 8];

	if (log_size(d) > LOG_MAX) {
		(void)snprintf(old, sizeof(old), "%s.1", d->log);
		(void)rename(d->log, old);
	}
	return open(d->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

enum spot_rc pgcluster_spawn(const struct pgcluster_dir *d, const char *const *argv, int in,
    int *ret_pid, struct spot_err *err)
{
	/* Do not inherit our environment: PG* variables would change the server's behaviour, and
	 * secrets do not belong there. */
	static const char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC", NULL };
	int log = log_open(d);
	struct proc_spec spec = {
		.argv = argv,
		.env = env,
		.dir = d->dir,
		.in = in,
		.out = log,
		.err = log,
		.new_session = true, /* Ctrl-C at our terminal is for us; we end the server */
		.uid = d->uid,
		.gid = d->gid,
		.death_signal = SIGINT,
	};
	enum spot_rc rc;

	if (log < 0) {
		return err_set(err, SPOT_CONFIG, "cannot open %s: %s", d->log, strerror(errno));
	}
	rc = proc_spawn(&spec, ret_pid, err);
	close(log);
	return rc;
}

enum spot_rc pgcluster_run_start(const struct pgcluster_dir *d, const char *const *argv, int in,
    struct pgcluster_run *ret, struct spot_err *err)
{
	ret->offset = log_size(d);
	ret->program = strrchr(argv[0], '/') + 1;
	return pgcluster_spawn(d, argv, in, &ret->pid, err);
}

enum spot_rc pgcluster_run_end(const struct pgcluster_dir *d, const struct pgcluster_run *run,
    struct spot_err *err)
{
	int status = -1;
	char words[300];

	while (waitpid(run->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status == 0) {
		return SPOT_OK;
	}
	pgcluster_dir_log_tail(d, run->offset, words, sizeof(words));
	return err_set(err, SPOT_CONFIG, "%s failed: %s (see %s)", run->program,
	    words[0] != '\0' ? words : "no words", d->log);
}

enum spot_rc pgcluster_run(const struct pgcluster_dir *d, const char *const *argv, int in,
    struct spot_err *err)
{
	struct pgcluster_run run;

	if (pgcluster_run_start(d, argv, in, &run, err) != SPOT_OK) {
		return err->rc;
	}
	return pgcluster_run_end(d, &run, err);
}

/* ---- creating -------------------------------------------------------------------------------- */

void pgcluster_tree_remove(const char *path)
{
	const char *const argv[] = { "/bin/rm", "-rf", "--", path, NULL };
	struct proc_spec spec = { .argv = argv,
		.in = -1,
		.out = -1,
		.err = -1,
		.uid = -1,
		.gid = -1 };
	int pid, status;

	if (proc_spawn(&spec, &pid, NULL) == SPOT_OK) {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
}

/*
 * Runs initdb in data.new and renames it to data at the end, so that a crash leaves nothing that
 * looks like a database. The server trusts every user of the socket, since only its own user and
 * root can reach the folder (mode 0700). TCP is off, and pg_hba.conf refuses it anyway.
 */
static enum spot_rc cluster_create(const struct pgcluster_dir *d, bool unsafe, struct spot_err *err)
{
	char initdb[PGCLUSTER_PATH + 16], fresh[PGCLUSTER_PATH + 8];
	const char *const argv[] = { initdb, "-D", fresh, "-k", "-U", SUPERUSER, "-E", "UTF8",
		"--locale=C.UTF-8", "--auth-local=trust", "--auth-host=reject", "--no-instructions",
		unsafe ? "--no-sync" : NULL, NULL };

	(void)snprintf(initdb, sizeof(initdb), "%s/initdb", d->bin);
	(void)snprintf(fresh, sizeof(fresh), "%s.new", d->data);
	if (access(fresh, F_OK) == 0) {
		pgcluster_tree_remove(fresh);
	}
	if (pgcluster_run(d, argv, -1, err) != SPOT_OK) {
		return err->rc;
	}
	if (rename(fresh, d->data) != 0) {
		return err_set(err, SPOT_CONFIG, "cannot rename %s: %s", fresh, strerror(errno));
	}
	return SPOT_OK;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Waits for the end of a server whose owner died: we hold the lock, and the death signal shuts the
 * server down. Signals it too, as it may wait for the end of a session. */
static enum spot_rc orphan_wait(const struct pgcluster_dir *d, struct spot_err *err)
{
	int64_t until = clock_real.mono_us(&clock_real) + ORPHAN_US;
	int pid = pgcluster_dir_postmaster(d), fd;

	if (pid == 0) {
		return SPOT_OK;
	}
	fd = pid_open(pid);
	if (fd >= 0) {
		pid_signal(fd, SIGINT);
		while (!pid_ended(fd, 50) && pgcluster_dir_postmaster(d) == pid &&
		    clock_real.mono_us(&clock_real) < until)
			;
		close(fd);
	}
	if (pgcluster_dir_postmaster(d) == 0) {
		return SPOT_OK;
	}
	return err_set(err, SPOT_UNAVAILABLE,
	    "the database server of %s (process %d) does not end: stop it by "
	    "hand",
	    d->dir, pid);
}

static enum spot_rc server_start(struct pgcluster *c, bool unsafe, struct spot_err *err)
{
	const struct pgcluster_dir *d = &c->dir;
	char postgres[PGCLUSTER_PATH + 16];
	const char *argv[48];
	int n = 0;

	(void)snprintf(postgres, sizeof(postgres), "%s/postgres", d->bin);
#define ARG(s) (argv[n++] = (s))
#define CONF(s) (ARG("-c"), ARG(s))
	ARG(postgres), ARG("-D"), ARG(d->data), ARG("-k"), ARG(d->sock), ARG("-p"), ARG(PORT);
	CONF("listen_addresses="), CONF("unix_socket_permissions=0700"),
	    CONF("max_connections=100");
	CONF("logging_collector=off"), CONF("log_destination=stderr"),
	    CONF("log_min_messages=warning");
	CONF("log_line_prefix=%m [%p] "), CONF("log_checkpoints=off"), CONF("log_timezone=UTC");
	CONF("jit=off"); /* our statements are short: compiling them costs more than running them */
	if (unsafe) {
		/* Survives kill -9 of the server, but not a power cut. */
		CONF("fsync=off"), CONF("full_page_writes=off");
		CONF("shared_buffers=64MB"), CONF("max_parallel_workers_per_gather=0");
		CONF("max_wal_senders=0"), CONF("wal_level=minimal");
	} else {
		CONF("shared_buffers=256MB"), CONF("max_wal_size=2GB"),
		    CONF("checkpoint_timeout=15min");
	}
	argv[n] = NULL;
	assert((size_t)n < ARRAY_LEN(argv));
#undef CONF
#undef ARG
	if (pgcluster_spawn(d, argv, -1, &c->pid, err) != SPOT_OK) {
		return err->rc;
	}
	c->pid_fd = pid_open(c->pid);
	if (c->pid_fd < 0) {
		(void)kill(c->pid, SIGINT);
		(void)waitpid(c->pid, NULL, 0);
		return err_set(err, SPOT_CONFIG, "pidfd_open: %s (Linux 5.3 or later is needed)",
		    strerror(errno));
	}
	return SPOT_OK;
}

static void dsn_write(struct pgcluster *c, const char *database)
{
	char sock[PGCLUSTER_PATH * 2];
	size_t n = 0;

	for (const char *s = c->dir.sock; *s != '\0' && n < sizeof(sock) - 2; s++) {
		if (*s == '\'' || *s == '\\') {
			sock[n++] = '\\';
		}
		sock[n++] = *s;
	}
	sock[n] = '\0';
	(void)snprintf(c->dsn, sizeof(c->dsn),
	    "host='%s' port=" PORT " user=" SUPERUSER " dbname=%s", sock, database);
}

static void server_reap(struct pgcluster *c)
{
	if (c->pid_fd >= 0) {
		close(c->pid_fd);
	}
	c->pid_fd = -1;
	if (c->pid > 0) {
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			; /* ECHILD: an event loop of ours has reaped it */
	}
	c->pid = 0;
}

/* Polls until the server accepts connections (true), or has ended or is late (false). A server does
 * not report that it is ready; its end is an event. */
static bool server_ready(struct pgcluster *c, int64_t until)
{
	while (clock_real.mono_us(&clock_real) < until) {
		if (PQping(c->dsn) == PQPING_OK) {
			return true;
		}
		if (pid_ended(c->pid_fd, 10)) {
			return false;
		}
	}
	return false;
}

static enum spot_rc server_up(struct pgcluster *c, bool unsafe, struct spot_err *err)
{
	int64_t until = clock_real.mono_us(&clock_real) + START_US, offset;
	char words[300];

	for (;;) {
		offset = log_size(&c->dir);
		if (server_start(c, unsafe, err) != SPOT_OK) {
			return err->rc;
		}
		if (server_ready(c, until)) {
			return SPOT_OK;
		}
		if (!pid_ended(c->pid_fd, 0)) {
			return err_set(err, SPOT_UNAVAILABLE,
			    "the database server was not ready in 60 s");
		}
		server_reap(c);
		pgcluster_dir_log_tail(&c->dir, offset, words, sizeof(words));
		/* Backends of a killed server keep its memory for some 100 ms. */
		if (strstr(words, "shared memory") == NULL ||
		    clock_real.mono_us(&clock_real) >= until) {
			return err_set(err, SPOT_CONFIG,
			    "the database server does not start: %s (see %s)",
			    words[0] != '\0' ? words : "no words", c->dir.log);
		}
		(void)poll(NULL, 0, 100);
	}
}

static enum spot_rc database_check(const char *database, struct spot_err *err)
{
	assert(database != NULL);
	/* The program chooses the name: allow only characters that need no quotes in SQL. */
	if (database[0] == '\0' || strlen(database) > 60 ||
	    strspn(database, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(database)) {
		return err_set(err, SPOT_INVALID,
		    "database name '%.60s': lower case, digits and _ only", database);
	}
	return SPOT_OK;
}

/* A cluster from a template has the database. One from initdb has "postgres". */
static enum spot_rc database_ensure(struct pgcluster *c, const char *database, bool by_initdb,
    struct spot_err *err)
{
	struct spot_err e = { 0 };
	char sql[128];

	if (!by_initdb && pg_script(c->dsn, "SELECT 1", &e) == SPOT_OK) {
		return SPOT_OK;
	}
	if (by_initdb || strcmp(e.code, "3D000") == 0) { /* invalid_catalog_name */
		dsn_write(c, "postgres");
		(void)snprintf(sql, sizeof(sql), "CREATE DATABASE %s", database);
		if (strcmp(database, "postgres") == 0 || pg_script(c->dsn, sql, &e) == SPOT_OK) {
			dsn_write(c, database);
			return SPOT_OK;
		}
	}
	*err = e;
	return e.rc;
}

/* Makes the data folder if it is absent, starts the server and finds the database. */
static enum spot_rc cluster_up(struct pgcluster *c, const struct pgcluster_template *t,
    const char *database, bool unsafe, struct spot_err *err)
{
	bool absent, by_initdb;

	if (orphan_wait(&c->dir, err) != SPOT_OK) {
		return err->rc;
	}
	absent = !pgcluster_dir_has_data(&c->dir);
	by_initdb = absent && (t == NULL || pgcluster_template_copy(&c->dir, t, err) != SPOT_OK);
	if (by_initdb && t != NULL) {
		log_info("pgcluster.no_template", STR("reason", err->text));
	}
	if (by_initdb && cluster_create(&c->dir, unsafe, err) != SPOT_OK) {
		return err->rc;
	}
	dsn_write(c, by_initdb ? "postgres" : database);
	if (server_up(c, unsafe, err) != SPOT_OK) {
		return err->rc;
	}
	return database_ensure(c, database, by_initdb, err);
}

enum spot_rc pgcluster_start_from(const struct pgcluster_template *t, const char *dir,
    const char *database, bool fast_and_unsafe, struct pgcluster **ret, struct spot_err *err)
{
	struct pgcluster *c = calloc(1, sizeof(*c));
	struct spot_err mine = { 0 };
	enum spot_rc rc;

	assert(c != NULL);
	c->pid_fd = -1;
	if (err == NULL) {
		err = &mine;
	}
	rc = database_check(database, err);
	if (rc == SPOT_OK) {
		rc = pgcluster_dir_open(&c->dir, dir, err);
	}
	if (rc != SPOT_OK) {
		free(c);
		return rc;
	}
	rc = cluster_up(c, t, database, fast_and_unsafe, err);
	if (rc != SPOT_OK) {
		struct spot_err keep = *err;

		pgcluster_stop(c);
		*err = keep;
		return rc;
	}
	*ret = c;
	return SPOT_OK;
}

enum spot_rc pgcluster_start(const char *dir, const char *database, bool fast_and_unsafe,
    struct pgcluster **ret, struct spot_err *err)
{
	return pgcluster_start_from(NULL, dir, database, fast_and_unsafe, ret, err);
}

const char *pgcluster_dsn(const struct pgcluster *c)
{
	return c->dsn;
}

int pgcluster_pid(const struct pgcluster *c)
{
	return c->pid;
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void server_end(struct pgcluster *c)
{
	static const int signals[] = { SIGINT, SIGQUIT, SIGKILL }; /* fast, immediate, by force */

	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		pid_signal(c->pid_fd, signals[i]);
		if (pid_ended(c->pid_fd, i == 0 ? STOP_MS : 5000)) {
			return;
		}
		log_warn("pgcluster.slow_stop", I64("pid", c->pid), I64("signal", signals[i]));
	}
}

void pgcluster_stop(struct pgcluster *c)
{
	if (c == NULL) {
		return;
	}
	if (c->pid > 0 && c->pid_fd >= 0) {
		server_end(c);
	}
	server_reap(c);
	pgcluster_dir_close(&c->dir);
	free(c);
}
