#include "base/base.h"
#include "base/text/text.h"
#include "io/pg/pg_priv.h"

/* Errcodes: postgresql.org/docs/15/errcodes-appendix.html */
static const struct {
	const char *sqlstate; /* a whole code or a class of two */
	enum spot_rc rc;
} pg_err_map[] = {
	{ "23505", SPOT_CONFLICT }, /* unique_violation */
	{ "23514", SPOT_CONFLICT }, /* check_violation */
	{ "23503", SPOT_CONFLICT }, /* foreign_key_violation */
	{ "40001", SPOT_UNAVAILABLE }, /* serialization_failure */
	{ "40P01", SPOT_UNAVAILABLE }, /* deadlock_detected */
	{ "55P03", SPOT_UNAVAILABLE }, /* lock_not_available */
	{ "57014", SPOT_TIMEOUT }, /* query_canceled: statement_timeout */
	{ "25006",
	    SPOT_UNAVAILABLE }, /* read_only_sql_transaction: the old server after a fail-over */
	{ "26000", SPOT_UNAVAILABLE }, /* invalid_sql_statement_name: its Prepare has failed */
	{ "0A000", SPOT_UNAVAILABLE }, /* cached plan must not change result type: prepare again */
	{ "53", SPOT_UNAVAILABLE }, /* insufficient_resources */
	{ "57P", SPOT_UNAVAILABLE }, /* operator_intervention: shutdown, crash, starting up */
	{ "08", SPOT_UNAVAILABLE }, /* connection_exception */
};

/* Copies the first line only: libpq's texts end with a newline and may add hints. */
void pg_words_trim(const char *s, char *buf, size_t n)
{
	size_t len;

	if (s == NULL) {
		s = "";
	}
	len = strcspn(s, "\n");
	if (len >= n) {
		len = n - 1;
	}
	memcpy(buf, s, len);
	buf[len] = '\0';
}

/* Leaves out DETAIL, which quotes row values: some of our columns are secrets. */
enum spot_rc pg_err_from(const PGresult *r, const char *what, struct spot_err *err,
    char sqlstate[6])
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	const char *constraint = PQresultErrorField(r, PG_DIAG_CONSTRAINT_NAME);
	const char *primary = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
	enum spot_rc rc = SPOT_INTERNAL;
	char words[300];

	if (state == NULL) {
		state = "";
	}
	for (size_t i = 0; i < ARRAY_LEN(pg_err_map); i++) {
		if (str_prefix(state, pg_err_map[i].sqlstate)) {
			rc = pg_err_map[i].rc;
			break;
		}
	}
	pg_words_trim(primary != NULL ? primary : PQresultErrorMessage(r), words, sizeof(words));
	err_set(err, rc, "%s: %s", what, words);
	if (rc == SPOT_CONFLICT && constraint != NULL) {
		state = constraint;
	}
	(void)snprintf(err->code, sizeof(err->code), "%s", state);
	state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	(void)snprintf(sqlstate, 6, "%s", state == NULL ? "" : state);
	return rc;
}

enum spot_rc pg_err_lost(const char *what, bool maybe, const char *why, struct spot_err *err)
{
	if (maybe) {
		return err_set(err, SPOT_UNKNOWN,
		    "%s: the database connection broke after it was sent, it may have happened: %s",
		    what, why);
	}
	return err_set(err, SPOT_UNAVAILABLE, "%s: the database connection broke: %s", what, why);
}
