/* Blocking access to the database, for start-up and tools: no loop, no pool, no prepared
 * statements. */
#include "base/base.h"
#include "base/text/text.h"
#include "io/pg/pg_priv.h"

struct pg_sync {
	PGconn *c;
};
struct pg_text {
	PGresult *r;
};

static void notice_drop(void *arg, const char *message)
{
	(void)arg;
	(void)message;
}

enum spot_rc pg_sync_open(const char *dsn, struct pg_sync **ret, struct spot_err *err)
{
	PGconn *c = PQconnectdb(dsn);
	PQconninfoOption *info;
	enum spot_rc rc;
	char words[300];

	if (PQstatus(c) == CONNECTION_OK) {
		struct pg_sync *s = calloc(1, sizeof(*s));

		assert(s != NULL);
		PQsetNoticeProcessor(c, notice_drop, NULL);
		s->c = c;
		*ret = s;
		return SPOT_OK;
	}
	/* The parser's message may quote the DSN with its password. */
	info = PQconninfoParse(dsn, NULL);
	if (info == NULL) {
		rc = err_set(err, SPOT_CONFIG, "database: the DSN does not parse");
	} else {
		pg_words_trim(PQerrorMessage(c), words, sizeof(words));
		rc = err_set(err, SPOT_UNAVAILABLE, "database: %s", words);
	}
	PQconninfoFree(info);
	PQfinish(c);
	return rc;
}

void pg_sync_close(struct pg_sync *s)
{
	if (s != NULL) {
		PQfinish(s->c);
		free(s);
	}
}

bool pg_sync_in_transaction(const struct pg_sync *s)
{
	return PQtransactionStatus(s->c) == PQTRANS_INTRANS;
}

enum spot_rc pg_sync_exec(struct pg_sync *s, const char *what, const char *sql,
    const char *const *params, int params_n, struct pg_text **ret, struct spot_err *err)
{
	PGresult *r = params_n == 0
	    ? PQexec(s->c, sql)
	    : PQexecParams(s->c, sql, params_n, NULL, params, NULL, NULL, 0);
	ExecStatusType st = PQresultStatus(r);
	struct spot_err e = { 0 };
	enum spot_rc rc;
	char state[6], words[300];

	if (st == PGRES_COMMAND_OK || st == PGRES_TUPLES_OK || st == PGRES_EMPTY_QUERY) {
		if (ret != NULL) {
			*ret = calloc(1, sizeof(**ret));
			assert(*ret != NULL);
			(*ret)->r = r;
		} else {
			PQclear(r);
		}
		return SPOT_OK;
	}
	if (PQstatus(s->c) != CONNECTION_OK) {
		pg_words_trim(PQerrorMessage(s->c), words, sizeof(words));
		rc = err_set(&e, SPOT_UNAVAILABLE, "%s: %s", what, words);
	} else {
		rc = pg_err_from(r, what, &e, state);
	}
	PQclear(r);
	if (err != NULL) {
		*err = e;
	}
	return rc;
}

int pg_text_rows(const struct pg_text *t)
{
	return PQntuples(t->r);
}

const char *pg_text_at(const struct pg_text *t, int row, int col)
{
	return PQgetvalue(t->r, row, col);
}

void pg_text_free(struct pg_text *t)
{
	if (t != NULL) {
		PQclear(t->r);
		free(t);
	}
}

enum spot_rc pg_script(const char *dsn, const char *sql, struct spot_err *err)
{
	AUTO(pg_sync) struct pg_sync *s = NULL;
	enum spot_rc rc = pg_sync_open(dsn, &s, err);

	return rc != SPOT_OK ? rc : pg_sync_exec(s, "script", sql, NULL, 0, NULL, err);
}
