#include "base/base.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"
#include "io/pg/pg.h"
#include "store/store.h"
#include <dirent.h>
#include <errno.h>

/* Any fixed number; the same in every release. */
#define LOCK_KEY "7236834561"
#define FILE_BYTES_MAX (4 << 20)
#define MIGRATIONS_MAX 1000

/*
 * A waiting lock request blocks all later ones on every connection, agents and leader too, for as
 * long as a backup reads. A migration therefore waits only briefly (less than a lease), rolls back,
 * and retries after a pause. Every eighth try waits a little longer, since a vacuum yields only
 * after deadlock_timeout (1 s).
 */
#define LOCK_WAIT "500ms"
#define LOCK_WAIT_LONG "1500ms"
#define LONG_EVERY 8
#define PAUSE_MAX_S 8

/* ---- applied and known migrations ------------------------------------------------------------ */

struct applied {
	int n; /* versions 1..n are applied */
};

static enum spot_rc compare_row(const struct pg_text *t, int row, const struct migration *list,
    size_t n, struct spot_err *err)
{
	int64_t version = strtol(pg_text_at(t, row, 0), NULL, 10);
	const char *name = pg_text_at(t, row, 1), *sum = pg_text_at(t, row, 2);

	if (version != row + 1) {
		return err_set(err, SPOT_CONFIG,
		    "schema: migration %d is missing from schema_version although "
		    "%d is there: the table was edited by hand",
		    row + 1, (int)version);
	}
	if ((size_t)version > n) {
		return err_set(err, SPOT_CONFIG,
		    "schema: the database is at version %d (%s), this program knows "
		    "only up to %zu: run the newer release",
		    pg_text_rows(t), name, n);
	}
	if (strcmp(sum, list[version - 1].sha256) != 0) {
		return err_set(err, SPOT_CONFIG,
		    "schema: migration %04d_%s was changed after it was applied (%.12s "
		    "in the database, %.12s here): restore its text and make the change "
		    "a new migration",
		    (int)version, name, sum, list[version - 1].sha256);
	}
	return SPOT_OK;
}

static enum spot_rc applied_read(struct pg_sync *c, const struct migration *list, size_t n,
    struct applied *ret, struct spot_err *err)
{
	AUTO(pg_text) struct pg_text *t = NULL;
	enum spot_rc rc = pg_sync_exec(c, "schema_version",
	    "SELECT version, name, sha256 FROM schema_version "
	    "ORDER BY version",
	    NULL, 0, &t, err);

	for (int i = 0; rc == SPOT_OK && i < pg_text_rows(t); i++) {
		rc = compare_row(t, i, list, n, err);
	}
	if (rc == SPOT_OK) {
		ret->n = pg_text_rows(t);
	}
	return rc;
}

static enum spot_rc list_check(const struct migration *list, size_t n, struct spot_err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i].version != (int)i + 1) {
			return err_set(err, SPOT_CONFIG,
			    "migration %zu is missing or given twice (found %04d_%s)", i + 1,
			    list[i].version, list[i].name);
		}
	}
	return SPOT_OK;
}

/* ---- applying -----------------------------------------------------------------------------------
 */

static enum spot_rc sql_run(struct pg_sync *c, const char *what, const char *sql,
    struct spot_err *err)
{
	return pg_sync_exec(c, what, sql, NULL, 0, NULL, err);
}

static enum spot_rc apply_one(struct pg_sync *c, const struct migration *m, const char *lock_wait,
    int64_t now_us, struct spot_err *err)
{
	char version[16], at[32], what[120], begin[80];
	const char *const values[] = { version, m->name, m->sha256, at };
	enum spot_rc rc;

	(void)snprintf(version, sizeof(version), "%d", m->version);
	(void)snprintf(at, sizeof(at), "%" PRId64, now_us);
	(void)snprintf(what, sizeof(what), "migration %04d_%s", m->version, m->name);
	(void)snprintf(begin, sizeof(begin), "BEGIN; SET LOCAL lock_timeout = '%s'", lock_wait);
	rc = sql_run(c, what, begin, err);
	if (rc == SPOT_OK) {
		rc = sql_run(c, what, m->sql, err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	rc = pg_sync_exec(c, what,
	    "INSERT INTO schema_version (version, name, sha256, applied_us) "
	    "VALUES ($1, $2, $3, $4)",
	    values, ARRAY_LEN(values), NULL, err);
	/* A text with its own COMMIT would leave us outside of our transaction. */
	if (rc == SPOT_OK && !pg_sync_in_transaction(c)) {
		return err_set(err, SPOT_CONFIG, "%s: must not begin or end transactions", what);
	}
	return rc != SPOT_OK ? rc : sql_run(c, what, "COMMIT", err);
}

/* Lists the sessions that hold our tables, oldest transactions first. Another role's session shows
 * only its pid. */
static const char holders_sql[] =
    "SELECT coalesce(string_agg(format('pid %s (%s%s): %s', pid, coalesce(nullif(application_name, "
    "''), backend_type, '?'), "
    "', for ' || extract(epoch FROM clock_timestamp() - xact_start)::int8 || ' s', "
    "coalesce(left(regexp_replace(query, '\\s+', ' ', 'g'), 60), '?')), '; ' ORDER BY xact_start), "
    "'nobody any more') "
    "FROM (SELECT * FROM pg_stat_activity a WHERE pid <> pg_backend_pid() AND EXISTS (SELECT FROM "
    "pg_locks l JOIN pg_class t "
    "ON t.oid = l.relation WHERE l.pid = a.pid AND l.granted AND l.database = (SELECT oid FROM "
    "pg_database "
    "WHERE datname = current_database()) AND t.relkind IN ('r', 'p') AND t.relnamespace = "
    "current_schema()::regnamespace) "
    "ORDER BY xact_start LIMIT 3) a";

static enum spot_rc say_waits(struct pg_sync *c, const struct migration *m, int tries,
    struct spot_err *err)
{
	AUTO(pg_text) struct pg_text *t = NULL;
	enum spot_rc rc = pg_sync_exec(c, "find lock holders", holders_sql, NULL, 0, &t, err);

	if (rc == SPOT_OK) {
		log_warn("schema.waits", I64("version", m->version), STR("name", m->name),
		    I64("tries", tries), STR("held_by", pg_text_at(t, 0, 0)),
		    STR("hint",
			"it is asked for again until it is had, and nobody else waits for that; "
			"let what holds it "
			"end (a backup), or end it: SELECT pg_terminate_backend(PID)"));
	}
	return rc;
}

static bool is_locked(const struct spot_err *err)
{
	return strcmp(err->code, "55P03") == 0 || strcmp(err->code, "40P01") == 0;
}

static enum spot_rc apply_patiently(struct pg_sync *c, const struct migration *m, int64_t now_us,
    struct spot_err *err)
{
	for (int tries = 1;; tries++) {
		char pause[40];
		enum spot_rc rc = apply_one(c, m,
		    tries % LONG_EVERY == 0 ? LOCK_WAIT_LONG : LOCK_WAIT, now_us, err);

		if (rc == SPOT_OK || !is_locked(err)) {
			return rc;
		}
		/* The server counts the pause, so we notice if it goes away. A signal ends us. */
		(void)snprintf(pause, sizeof(pause), "SELECT pg_sleep(%d)",
		    MIN(tries, PAUSE_MAX_S));
		rc = sql_run(c, "schema lock", "ROLLBACK", err);
		if (rc == SPOT_OK) {
			rc = say_waits(c, m, tries, err);
		}
		if (rc == SPOT_OK) {
			rc = sql_run(c, "schema lock", pause, err);
		}
		if (rc != SPOT_OK) {
			return rc;
		}
	}
}

static enum spot_rc apply_all(struct pg_sync *c, const struct migration *list, size_t n,
    int64_t now_us, int *ret_applied, struct spot_err *err)
{
	struct applied have = { 0 };
	enum spot_rc rc;

	/* A session lock ends with the connection, whatever happens. Waiting for another runner may
	 * take as long as its migrations. */
	rc = sql_run(c, "schema lock", "SELECT pg_advisory_lock(" LOCK_KEY ")", err);
	if (rc == SPOT_OK) {
		rc = sql_run(c, "schema_version",
		    "CREATE TABLE IF NOT EXISTS schema_version (version int PRIMARY KEY, "
		    "name text NOT NULL, sha256 text NOT NULL, applied_us int8 NOT NULL)",
		    err);
	}
	if (rc == SPOT_OK) {
		rc = applied_read(c, list, n, &have, err);
	}
	for (size_t i = (size_t)have.n; rc == SPOT_OK && i < n; i++) {
		rc = apply_patiently(c, &list[i], now_us, err);
		if (rc == SPOT_OK) {
			log_info("schema.migrated", I64("version", list[i].version),
			    STR("name", list[i].name));
		}
	}
	if (rc == SPOT_OK && ret_applied != NULL) {
		*ret_applied = (int)n - have.n;
	}
	return rc;
}

/* ---- migrations from a folder
 * -------------------------------------------------------------------- */

static enum spot_rc file_read(struct arena *a, const char *path, struct str *ret,
    struct spot_err *err)
{
	AUTO(sbuf) struct sbuf b;
	FILE *f = fopen(path, "re");
	char part[4096];
	size_t n;

	sbuf_init(&b, FILE_BYTES_MAX);
	if (f == NULL) {
		return err_set(err, SPOT_CONFIG, "%s: %s", path, strerror(errno));
	}
	while ((n = fread(part, 1, sizeof(part), f)) > 0) {
		sbuf_add(&b, part, n);
	}
	fclose(f);
	if (b.overflow || b.n == 0 || memchr(b.p, '\0', b.n) != NULL) {
		return err_set(err, SPOT_CONFIG, "%s: empty, larger than 4 MiB or not text", path);
	}
	*ret = arena_bytes(a, b.p, b.n);
	return SPOT_OK;
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "0001_base.sql" */
static bool name_parse(struct arena *a, const char *file, struct migration *m)
{
	size_t n = strlen(file);

	if (n < 10 || strspn(file, "0123456789") != 4 || file[4] != '_' ||
	    strcmp(file + n - 4, ".sql") != 0) {
		return false;
	}
	m->version = (int)strtol(file, NULL, 10);
	m->name = arena_strndup(a, file + 5, n - 9);
	return true;
}

static enum spot_rc dir_names(struct arena *a, const char *dir, const char ***ret, size_t *ret_n,
    struct spot_err *err)
{
	const char **names = arena_array(a, MIGRATIONS_MAX, sizeof(*names));
	DIR *d = opendir(dir);
	struct dirent *e;
	size_t n = 0;

	if (d == NULL) {
		return err_set(err, SPOT_CONFIG, "%s: %s", dir, strerror(errno));
	}
	while ((e = readdir(d)) != NULL && n < MIGRATIONS_MAX) {
		size_t len = strlen(e->d_name);

		if (len > 4 && strcmp(e->d_name + len - 4, ".sql") == 0) {
			names[n++] = arena_strdup(a, e->d_name);
		}
	}
	closedir(d);
	qsort(names, n, sizeof(*names), name_cmp);
	*ret = names;
	*ret_n = n;
	return SPOT_OK;
}

static enum spot_rc dir_load(struct arena *a, const char *dir, const struct migration **ret,
    size_t *ret_n, struct spot_err *err)
{
	struct migration *list;
	const char **names = NULL;
	size_t n = 0;

	if (dir_names(a, dir, &names, &n, err) != SPOT_OK) {
		return SPOT_CONFIG;
	}
	list = arena_array(a, n + 1, sizeof(*list));
	for (size_t i = 0; i < n; i++) {
		struct str text;
		char *sum = arena_alloc(a, SHA256_HEX);

		if (!name_parse(a, names[i], &list[i])) {
			return err_set(err, SPOT_CONFIG,
			    "%s/%s: a migration is called NNNN_words.sql", dir, names[i]);
		}
		if (file_read(a, arena_printf(a, "%s/%s", dir, names[i]), &text, err) != SPOT_OK) {
			return SPOT_CONFIG;
		}
		sha256_hex(text.p, text.n, sum);
		list[i].sql = text.p;
		list[i].sha256 = sum;
	}
	*ret = list;
	*ret_n = n;
	return SPOT_OK;
}

/* ---- public
 * -------------------------------------------------------------------------------------- */

enum spot_rc migrate_run(const char *dsn, const char *dir, const struct migration *list, size_t n,
    int64_t now_us, int *ret_applied, struct spot_err *err)
{
	AUTO(arena) struct arena *a = arena_new((size_t)MIGRATIONS_MAX * FILE_BYTES_MAX);
	AUTO(pg_sync) struct pg_sync *c = NULL;
	struct spot_err mine = { 0 };
	enum spot_rc rc;

	if (err == NULL) {
		err = &mine;
	}
	if (dir != NULL && dir_load(a, dir, &list, &n, err) != SPOT_OK) {
		return SPOT_CONFIG;
	}
	rc = list_check(list, n, err);
	if (rc == SPOT_OK) {
		rc = pg_sync_open(dsn, &c, err);
	}
	return rc != SPOT_OK ? rc : apply_all(c, list, n, now_us, ret_applied, err);
}

enum spot_rc migrate_check(const char *dsn, const struct migration *list, size_t n,
    struct spot_err *err)
{
	AUTO(pg_sync) struct pg_sync *c = NULL;
	AUTO(pg_text) struct pg_text *t = NULL;
	struct spot_err mine = { 0 };
	struct applied have = { 0 };
	enum spot_rc rc;

	if (err == NULL) {
		err = &mine;
	}
	rc = list_check(list, n, err);
	if (rc == SPOT_OK) {
		rc = pg_sync_open(dsn, &c, err);
	}
	if (rc == SPOT_OK) {
		rc = pg_sync_exec(c, "schema_version",
		    "SELECT to_regclass('schema_version') IS NOT NULL", NULL, 0, &t, err);
	}
	if (rc == SPOT_OK && strcmp(pg_text_at(t, 0, 0), "t") != 0) {
		return err_set(err, SPOT_CONFIG,
		    "schema: the database is empty: run the migrations");
	}
	if (rc == SPOT_OK) {
		rc = applied_read(c, list, n, &have, err);
	}
	if (rc == SPOT_OK && (size_t)have.n < n) {
		return err_set(err, SPOT_CONFIG,
		    "schema: the database is at version %d, this program needs %zu: "
		    "run the migrations",
		    have.n, n);
	}
	return rc;
}

void migrations_id(const struct migration *list, size_t n, char ret[SHA256_HEX])
{
	AUTO(sbuf) struct sbuf b;

	sbuf_init(&b, (size_t)MIGRATIONS_MAX * SHA256_HEX);
	for (size_t i = 0; i < n; i++) {
		sbuf_add(&b, list[i].sha256, strlen(list[i].sha256));
	}
	assert(!b.overflow);
	sha256_hex(b.p, b.n, ret);
}
