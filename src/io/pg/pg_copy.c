#include "base/base.h"
#include "io/pg/pg_priv.h"

/*
 * Binary COPY (postgresql.org/docs/15/sql-copy.html, "Binary Format"). The header has signature,
 * flags and the length of an extension. A row has a field count, and per field its length (-1 =
 * NULL) and bytes in network order. The trailer is -1.
 */
static const char copy_head[19] = { 'P', 'G', 'C', 'O', 'P', 'Y', '\n', '\377', '\r', '\n', '\0' };
static const char copy_trail[2] = { '\377', '\377' };
#define COPY_CHUNK 65536

static void copy_add(struct pg_copy *c, const void *p, size_t n)
{
	if (c->overflow || n > c->max - c->n) {
		c->overflow = true;
		return;
	}
	if (c->n + n > c->cap) {
		c->cap = MIN(MAX(c->cap * 2, c->n + n), c->max);
		c->buf = realloc(c->buf, c->cap);
		assert(c->buf != NULL);
	}
	memcpy(c->buf + c->n, p, n);
	c->n += n;
}

static void put_be(char *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++) {
		p[i] = (char)(v >> (8 * (bytes - 1 - i)));
	}
}

static void copy_number(struct pg_copy *c, uint64_t v, int bytes)
{
	char field[12];

	put_be(field, (uint64_t)bytes, 4);
	put_be(field + 4, v, bytes);
	copy_add(c, field, 4 + (size_t)bytes);
}

void pg_copy_begin(struct pg_copy *c, size_t bytes_max)
{
	c->n = 0;
	c->max = MAX(bytes_max, sizeof(copy_head) + 1);
	c->overflow = false;
	if (c->cap > c->max) {
		free(c->buf);
		c->buf = NULL;
		c->cap = 0;
	}
	copy_add(c, copy_head, sizeof(copy_head));
}

void pg_copy_row(struct pg_copy *c, int columns)
{
	char n[2];

	assert(columns > 0 && columns <= INT16_MAX);
	put_be(n, (uint64_t)columns, 2);
	copy_add(c, n, 2);
}

void pg_copy_i64(struct pg_copy *c, int64_t v)
{
	copy_number(c, (uint64_t)v, 8);
}

void pg_copy_i32(struct pg_copy *c, int32_t v)
{
	copy_number(c, (uint32_t)v, 4);
}

void pg_copy_f64(struct pg_copy *c, double v)
{
	uint64_t u;

	memcpy(&u, &v, sizeof(u));
	copy_number(c, u, 8);
}

void pg_copy_bool(struct pg_copy *c, bool v)
{
	copy_number(c, v ? 1 : 0, 1);
}

void pg_copy_text(struct pg_copy *c, const char *s)
{
	size_t n = s == NULL ? 0 : strlen(s);
	char len[4];

	if (s == NULL || n > INT32_MAX) {
		c->overflow |= s != NULL;
		pg_copy_null(c);
		return;
	}
	put_be(len, n, 4);
	copy_add(c, len, 4);
	copy_add(c, s, n);
}

void pg_copy_null(struct pg_copy *c)
{
	copy_add(c, "\377\377\377\377", 4);
}

/*
 * ---- on the wire -----------------------------------------------------------------------------
 *
 * Sends "BEGIN; setup; COPY" as one simple query, and the rows once the server is ready. The merge
 * and COMMIT follow, each after the result before it. The connection leaves pipeline mode for this.
 * After an error of the server we send ROLLBACK and return the connection to the pool.
 */

static const char *copy_what(const struct pg_item *i)
{
	return i->stmt == NULL ? "copy" : i->stmt->name;
}

static bool copy_query(struct pg_conn *c, const char *sql, enum pg_copy_step step)
{
	c->copy_step = step;
	return PQsendQuery(c->c, sql) != 0;
}

static void copy_lost(struct pg_conn *c)
{
	char words[300];

	pg_conn_lost(c, pg_conn_words(c, words, sizeof(words)));
}

void pg_copy_start(struct pg_conn *c, struct pg_item *i)
{
	i->conn = c;
	pg_list_push(&c->inflight, i);
	c->copy_sent = 0;
	/* Stay READY until pipeline mode has ended, so that a failure counts as a loss. */
	if (PQexitPipelineMode(c->c) != 1) {
		copy_lost(c);
		return;
	}
	c->state = PG_CONN_COPY;
	pg_conn_watchdog(c, true);
	if (copy_query(c, i->mem, PG_COPY_BEGIN)) {
		c->dirty = true;
	} else {
		copy_lost(c);
	}
}

/* False: the connection was lost. */
static bool copy_data(struct pg_conn *c, struct pg_item *i)
{
	const struct pg_copy *copy = i->copy;

	while (c->copy_sent < copy->n) {
		size_t n = MIN(copy->n - c->copy_sent, (size_t)COPY_CHUNK);
		int left = PQflush(c->c);

		if (left > 0) {
			pg_conn_watchdog(c, true);
			return true; /* the kernel is full; go on when it takes more */
		}
		if (left < 0 || PQputCopyData(c->c, copy->buf + c->copy_sent, (int)n) <= 0) {
			copy_lost(c);
			return false;
		}
		c->copy_sent += n;
	}
	if (PQputCopyData(c->c, copy_trail, sizeof(copy_trail)) <= 0 ||
	    PQputCopyEnd(c->c, NULL) <= 0) {
		copy_lost(c);
		return false;
	}
	c->copy_step = PG_COPY_END;
	return true;
}

/* Sends the next command, after all results of the last one. */
static bool copy_next(struct pg_conn *c, struct pg_item *i)
{
	struct pg *p = c->pg;

	if (c->copy_step == PG_COPY_BEGIN && i->err.rc == SPOT_OK) {
		err_set(&i->err, SPOT_INTERNAL, "%s: the statement is no COPY FROM STDIN",
		    copy_what(i));
	}
	pg_conn_watchdog(c, true);
	if (c->copy_step == PG_COPY_COMMIT || c->copy_step == PG_COPY_ROLLBACK) {
		pg_list_remove(&c->inflight, i);
		pg_conn_ready(c);
		pg_item_finish(p, i, i->err.rc);
		return false;
	}
	if (i->err.rc != SPOT_OK) {
		return copy_query(c, "ROLLBACK", PG_COPY_ROLLBACK);
	}
	if (c->copy_step == PG_COPY_END && i->stmt != NULL) {
		c->copy_step = PG_COPY_MERGE;
		return PQsendQueryParams(c->c, i->stmt->sql, 0, NULL, NULL, NULL, NULL, 1) != 0;
	}
	i->commit_sent = true;
	return copy_query(c, "COMMIT", PG_COPY_COMMIT);
}

static void copy_result(struct pg_conn *c, struct pg_item *i, PGresult *r)
{
	ExecStatusType st = PQresultStatus(r);

	if (st == PGRES_COPY_IN) {
		c->copy_step = PG_COPY_DATA;
	} else if (st == PGRES_FATAL_ERROR) {
		if (i->err.rc == SPOT_OK) {
			pg_err_from(r, copy_what(i), &i->err, i->sqlstate);
		}
		if (c->copy_step == PG_COPY_DATA) {
			c->copy_step = PG_COPY_END; /* the server has ended COPY */
		}
		if (c->copy_step == PG_COPY_COMMIT) {
			i->commit_sent = false; /* refused, not lost */
		}
	} else if (c->copy_step == PG_COPY_MERGE) {
		PQclear(i->res);
		i->res = r;
		return;
	} else if (c->copy_step == PG_COPY_COMMIT && strcmp(PQcmdStatus(r), "COMMIT") != 0 &&
	    i->err.rc == SPOT_OK) {
		err_set(&i->err, SPOT_INTERNAL, "%s: the transaction was rolled back",
		    copy_what(i));
	}
	PQclear(r);
}

void pg_copy_event(struct pg_conn *c)
{
	struct pg_item *i = c->inflight.head;

	assert(i != NULL);
	/* During the rows the server sends nothing but a refusal. Read results only after
	 * PQputCopyEnd: before it PQgetResult() returns COPY_IN again. */
	if (c->copy_step == PG_COPY_DATA && !copy_data(c, i)) {
		return;
	}
	while (c->copy_step != PG_COPY_DATA && !PQisBusy(c->c)) {
		PGresult *r = PQgetResult(c->c);

		if (r != NULL) {
			copy_result(c, i, r);
			if (c->copy_step == PG_COPY_DATA && !copy_data(c, i)) {
				return;
			}
			continue;
		}
		if (!copy_next(c, i)) {
			if (c->state == PG_CONN_COPY) {
				copy_lost(c);
			}
			return;
		}
	}
}
