#include "base/base.h"
#include "store/store.h"

#include "io/pg/pg.h"

#include <string.h>

/* Not prepared by name, since a shared session may already have the name. */
static enum spot_rc mark_ask(struct pg_sync *s, const char *sql, const char *mark, bool *ret_same,
    struct spot_err *err)
{
	AUTO(pg_text) struct pg_text *rows = NULL;
	enum spot_rc rc =
	    pg_sync_exec(s, "whether sessions are our own", sql, &mark, 1, &rows, err);

	*ret_same =
	    rc == SPOT_OK && pg_text_rows(rows) == 1 && strcmp(pg_text_at(rows, 0, 0), "t") == 0;
	return rc;
}

/* One connection marks its session. If another one finds the mark, or the first loses it, sessions
 * are shared or reset. */
static enum spot_rc session_shared(const char *dsn, const char *mark, bool *ret,
    struct spot_err *err)
{
	static const char put[] = "SELECT set_config('spotbroker.session', $1, false) = $1";
	static const char look[] =
	    "SELECT coalesce(current_setting('spotbroker.session', true), '') = $1";
	AUTO(pg_sync) struct pg_sync *one = NULL;
	AUTO(pg_sync) struct pg_sync *other = NULL;
	bool there = false, kept = true;
	enum spot_rc rc = pg_sync_open(dsn, &one, err);

	if (rc == SPOT_OK) {
		rc = pg_sync_open(dsn, &other, err);
	}
	if (rc == SPOT_OK) {
		rc = mark_ask(one, put, mark, &kept, err);
	}
	if (rc == SPOT_OK) {
		rc = mark_ask(other, look, mark, &there, err);
	}
	if (rc == SPOT_OK && !there) {
		rc = mark_ask(one, look, mark, &kept, err);
	}
	*ret = there || !kept;
	return rc;
}

enum spot_rc session_check(const char *dsn, struct spot_err *err)
{
	struct rng rng;
	char mark[32];
	bool shared = false;
	enum spot_rc rc;

	rng_real_init(&rng);
	(void)snprintf(mark, sizeof(mark), "%016" PRIx64, rng_u64(&rng));
	rc = session_shared(dsn, mark, &shared, err);
	if (rc == SPOT_OK && shared) {
		rc = err_set(err, SPOT_CONFIG,
		    "the database is behind a pooler that shares sessions (PgBouncer), but spotd "
		    "needs its own: set pool_mode = session, or name the server in [database] dsn");
	}
	return rc;
}
