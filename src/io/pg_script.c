#include "base/base.h"
#include "base/err.h"
#include "base/str.h"
#include "io/pg_priv.h"

static void notice_drop(void *arg, const char *message)
{
	(void)arg;
	(void)message;
}

enum spot_rc pg_script(const char *dsn, const char *sql, struct spot_err *err)
{
	enum spot_rc rc = SPOT_OK;
	char words[300], state[6];
	PGconn *c = PQconnectdb(dsn);
	PGresult *r;

	if (PQstatus(c) != CONNECTION_OK) {
		PQconninfoOption *info = PQconninfoParse(dsn, NULL);

		/* A parser's message may quote the DSN and with it a password. */
		pg_words_trim(info == NULL ? "the DSN does not parse" : PQerrorMessage(c), words, sizeof(words));
		PQconninfoFree(info);
		PQfinish(c);
		return err_set(err, SPOT_UNAVAILABLE, "database: %s", words);
	}
	PQsetNoticeProcessor(c, notice_drop, NULL);
	r = PQexec(c, sql);
	if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK &&
	    PQresultStatus(r) != PGRES_EMPTY_QUERY) {
		struct spot_err e = { 0 };

		rc = pg_err_from(r, "script", &e, state);
		if (err != NULL)
			*err = e;
	}
	PQclear(r);
	PQfinish(c);
	return rc;
}
