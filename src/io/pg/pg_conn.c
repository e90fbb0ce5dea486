#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "io/pg/pg_priv.h"

static void conn_attempt(struct pg_conn *c);
static void conn_event(struct loop_fd *f, int events);
static void conn_timer(struct loop_timer *t);

void pg_conn_init(struct pg_conn *c, struct pg *p, int no, bool listener)
{
	memset(c, 0, sizeof(*c));
	c->pg = p;
	c->no = no;
	c->listener = listener;
	c->state = PG_CONN_DOWN;
	map_init(&c->names, NULL, map_same_text);
	loop_fd_init(&c->fd, p->loop, conn_event);
	loop_timer_init(&c->timer, p->loop, conn_timer);
	loop_timer_set(&c->timer, 1); /* the loop makes the first attempt */
}

static void conn_close(struct pg_conn *c)
{
	pg_resolve_cancel(STEAL(c->resolve));
	loop_timer_stop(&c->timer);
	loop_fd_stop(&c->fd); /* before PQfinish closes the descriptor */
	if (c->c != NULL) {
		PQfinish(c->c);
	}
	c->c = NULL;
	if (c->state == PG_CONN_READY || c->state == PG_CONN_COPY) {
		c->pg->stats.up--;
	}
	c->state = PG_CONN_DOWN;
	c->busy_us = c->awaited_us = 0;
	c->reserved = c->retiring = c->dirty = c->listen_busy = false;
	c->nulls = 0;
	map_clear(&c->names);
}

void pg_conn_fini(struct pg_conn *c)
{
	conn_close(c);
	map_fini(&c->names);
}

const char *pg_conn_words(const struct pg_conn *c, char *buf, size_t n)
{
	pg_words_trim(c->c == NULL ? "not connected" : PQerrorMessage(c->c), buf, n);
	return buf;
}

/* ---- losing and coming back ------------------------------------------------------------------ */

static void item_lost(struct pg *p, struct pg_item *i, const char *why)
{
	const char *what = i->stmt == NULL ? "copy" : i->stmt->name;
	bool ended = i->sqlstate[0] == '\0' || str_prefix(i->sqlstate, "57P") ||
	    str_prefix(i->sqlstate, "08");
	enum spot_rc rc = i->err.rc;
	bool maybe;

	assert(i->copy != NULL || i->op == NULL || i->stmt != NULL);
	maybe = i->copy != NULL || i->op == NULL ? i->commit_sent : i->stmt->writes;
	/* An error of the statement stands, since its transaction was over before the loss. Two
	 * errors are the loss itself: the server's shutdown message (57P), and one without
	 * SQLSTATE, which is libpq's about the connection. */
	if (rc == SPOT_OK || ended) {
		rc = pg_err_lost(what, maybe, why, &i->err);
	}
	pg_item_finish(p, i, rc);
}

static int64_t backoff_us(struct pg_conn *c)
{
	static const struct backoff waits = { .first_us = PG_BACKOFF_MIN_US,
		.cap_us = PG_BACKOFF_MAX_US,
		.jitter = 0.5 };

	return backoff_wait_us(&waits, c->fails - 1, loop_rng(c->pg->loop));
}

/* Logs the loss of the last connection, but not each failed attempt. */
static void log_loss(struct pg_conn *c, bool was_up, const char *why)
{
	struct pg *p = c->pg;

	if (was_up && p->stats.up > 0) {
		log_warn("pg.connection_lost", I64("conn", c->no), STR("why", why));
	} else if (!c->listener && p->stats.up == 0 &&
	    (p->was_up || (c->no == 0 && c->fails == 1))) {
		log_error("pg.down", STR("why", why));
	} else {
		log_debug("pg.attempt_failed", I64("conn", c->no), I64("fails", c->fails),
		    STR("why", why));
	}
	if (!c->listener && p->stats.up == 0) {
		p->was_up = false;
	}
}

void pg_conn_lost(struct pg_conn *c, const char *why)
{
	bool was_up = c->state >= PG_CONN_READY;
	struct pg *p = c->pg;
	struct pg_item *i;
	char words[300];

	pg_words_trim(why, words, sizeof(words)); /* why may live in the PGconn */
	conn_close(c);
	c->fails = was_up ? 0 : c->fails + 1;
	while ((i = c->inflight.head) != NULL) {
		pg_list_remove(&c->inflight, i);
		item_lost(p, i, words);
	}
	if (c == p->scout) {
		pg_scout_lost(c);
		return;
	}
	p->stats.reconnects += was_up;
	log_loss(c, was_up, words);
	loop_timer_set(&c->timer, backoff_us(c));
	pg_dispatch_soon(p);
}

void pg_conn_watchdog(struct pg_conn *c, bool on)
{
	pg_scout_watch(c, on);
	c->busy_us = on ? loop_mono_us(c->pg->loop) : 0;
	if (on) {
		loop_timer_set(&c->timer, pg_deadline_us(c->pg));
	} else {
		loop_timer_stop(&c->timer);
	}
}

static void conn_timer(struct loop_timer *t)
{
	struct pg_conn *c = container_of(t, struct pg_conn, timer);

	switch (c->state) {
	case PG_CONN_DOWN:
		conn_attempt(c);
		return;
	case PG_CONN_RESOLVING:
		pg_conn_lost(c, "the name of the database server did not resolve in 10 s");
		return;
	case PG_CONN_CONNECTING:
	case PG_CONN_SETUP:
		pg_conn_lost(c, "the database server did not answer in 10 s");
		return;
	case PG_CONN_READY:
	case PG_CONN_COPY:
	case PG_CONN_LISTEN:
		pg_conn_lost(c, "no progress before the deadline");
		return;
	default:
		assert(false && "conn_timer: impossible state");
	}
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* The parser's errors may quote the DSN with its password, so we do not show them. */
#define DSN_BAD "the database DSN does not parse (it is not shown, as it may hold a password)"

static void notice_drop(void *arg, const char *message)
{
	(void)arg;
	(void)message; /* the default would print it */
}

/* Restarts the wait for an answer: the connect has made a step. */
static void conn_awaits(struct pg_conn *c)
{
	if (c == c->pg->scout) {
		pg_scout_asks(c);
	} else {
		pg_scout_watch(c, true);
	}
}

static void conn_poll(struct pg_conn *c)
{
	PostgresPollingStatusType st = PQconnectPoll(c->c);
	char words[300];

	conn_awaits(c);

	/* Register the descriptor again. libpq may have moved to the next host or address, with a
	 * new socket of the same number. */
	loop_fd_stop(&c->fd);
	if (st == PGRES_POLLING_READING) {
		loop_fd_set(&c->fd, PQsocket(c->c), LOOP_READ);
		return;
	}
	if (st == PGRES_POLLING_WRITING) {
		loop_fd_set(&c->fd, PQsocket(c->c), LOOP_WRITE);
		return;
	}
	if (st != PGRES_POLLING_OK) {
		pg_conn_lost(c, pg_conn_words(c, words, sizeof(words)));
		return;
	}
	if (c == c->pg->scout) {
		pg_scout_found(c);
		return;
	}
	/* jit = off: our statements are short, and to compile them costs more than to run them. */
	(void)snprintf(words, sizeof(words),
	    "SET statement_timeout = %" PRId64
	    "; SET idle_in_transaction_session_timeout = %" PRId64
	    "; SET jit = off; SET client_min_messages = warning; SET timezone = 'UTC'",
	    c->listener ? 0 : c->pg->statement_timeout_us / 1000, PG_IDLE_TX_US / 1000);
	c->state = PG_CONN_SETUP;
	if (PQsetnonblocking(c->c, 1) != 0 || PQsendQuery(c->c, words) == 0) {
		pg_conn_lost(c, pg_conn_words(c, words, sizeof(words)));
		return;
	}
	pg_conn_flush(c);
}

/* Starts an attempt; each connection and each attempt begins with another host. Returns NULL or the
 * reason of a failure. */
static const char *conn_begin(struct pg_conn *c, struct pg_opts *o,
    const struct pg_resolve_result *res)
{
	struct pg *p = c->pg;
	bool scout = c == p->scout;
	int n;

	if (!pg_opts_parse(p->dsn, o)) {
		return DSN_BAD;
	}
	pg_opts_complete(o, p->application, res);
	n = pg_opts_order(o, MAX(c->no, 0) + c->fails, &p->shunned,
	    !scout               ? PG_ORDER_LAST
		: c->ask_shunned ? PG_ORDER_ONLY
				 : PG_ORDER_OTHERS);
	if (n == 0) {
		return "there is no such host";
	}
	if (!scout) {
		p->hosts_n = n;
	}
	c->c = PQconnectStartParams(o->keys, o->values, 0);
	return c->c == NULL ? "no memory to connect" : NULL;
}

static void conn_start(struct pg_conn *c, const struct pg_resolve_result *res)
{
	struct pg_opts o;
	const char *why;
	char words[300];

	c->state = PG_CONN_CONNECTING;
	why = conn_begin(c, &o, res);
	pg_opts_fini(&o);
	if (why == NULL && PQstatus(c->c) == CONNECTION_BAD) {
		why = pg_conn_words(c, words, sizeof(words));
	}
	if (why != NULL) {
		pg_conn_lost(c, why);
		return;
	}
	PQsetNoticeProcessor(c->c, notice_drop, NULL);
	/* "behave as if PQconnectPoll last returned PGRES_POLLING_WRITING" (libpq, Connecting). */
	loop_fd_set(&c->fd, PQsocket(c->c), LOOP_WRITE);
	conn_awaits(c);
}

static void conn_resolved(void *arg, const struct pg_resolve_result *res)
{
	struct pg_conn *c = arg;

	c->resolve = NULL;
	if (res->why != NULL) {
		pg_conn_lost(c, res->why);
	} else {
		conn_start(c, res);
	}
}

static void conn_attempt(struct pg_conn *c)
{
	struct pg_opts o;
	const char *host;

	loop_timer_set(&c->timer, PG_CONNECT_US);
	if (!pg_opts_parse(c->pg->dsn, &o)) {
		pg_opts_fini(&o);
		pg_conn_lost(c, DSN_BAD);
		return;
	}
	host = pg_opts_get(&o, "host", "PGHOST");
	/* Without a host libpq uses the default socket. */
	if (pg_opts_get(&o, "hostaddr", "PGHOSTADDR") != NULL || host == NULL ||
	    !pg_resolve_needed(host)) {
		conn_start(c, NULL);
	} else {
		c->state = PG_CONN_RESOLVING;
		c->resolve = pg_resolve_start(c->pg->loop, host, pg_opts_get(&o, "port", "PGPORT"),
		    conn_resolved, c);
		if (c->resolve == NULL) {
			pg_conn_lost(c,
			    "no descriptor or thread left to look up the database host");
		}
	}
	pg_opts_fini(&o);
}

/* ---- up -------------------------------------------------------------------------------------- */

void pg_conn_ready(struct pg_conn *c)
{
	char words[300];

	pg_conn_watchdog(c, false);
	if (PQenterPipelineMode(c->c) != 1) {
		pg_conn_lost(c, pg_conn_words(c, words, sizeof(words)));
		return;
	}
	c->state = PG_CONN_READY;
	pg_dispatch_soon(c->pg);
}

static void conn_up(struct pg_conn *c)
{
	struct pg *p = c->pg;

	c->fails = 0;
	if (c->listener) {
		loop_timer_stop(&c->timer);
		c->state = PG_CONN_LISTEN;
		pg_listen_up(c);
		return;
	}
	p->stats.up++;
	if (!p->was_up) {
		log_info("pg.up", I64("server", PQserverVersion(c->c)));
	}
	p->was_up = true;
	c->state = PG_CONN_READY; /* a failure from now on counts as a loss */
	pg_conn_ready(c);
}

static void setup_event(struct pg_conn *c)
{
	struct spot_err err = { 0 };
	char state[6];

	while (c->state == PG_CONN_SETUP && !PQisBusy(c->c)) {
		PGresult *r = PQgetResult(c->c);

		if (r == NULL) {
			conn_up(c);
			return;
		}
		if (PQresultStatus(r) != PGRES_COMMAND_OK) {
			pg_err_from(r, "session settings", &err, state);
			PQclear(r);
			pg_conn_lost(c, err.text);
			return;
		}
		PQclear(r);
	}
}

/* ---- statements ------------------------------------------------------------------------------ */

static void name_forget(struct pg_conn *c, const char *name)
{
	(void)map_remove(&c->names, hash_str(HASH_START, name), name);
}

bool pg_conn_takes(const struct pg_conn *c)
{
	return c->state == PG_CONN_READY && !c->reserved && !c->retiring &&
	    c->inflight.n < PG_PIPELINE_MAX;
}

static bool item_send(struct pg_conn *c, struct pg_item *i)
{
	const struct pg_stmt *s = i->stmt;
	uint64_t hash = hash_str(HASH_START, s->name);

	if (map_get(&c->names, hash, s->name) == NULL) {
		if (PQsendPrepare(c->c, s->name, s->sql, s->params_n, s->param_types) == 0) {
			return false;
		}
		i->preparing = true;
		map_put(&c->names, hash, (char *)(uintptr_t)s->name);
	}
	return PQsendQueryPrepared(c->c, s->name, s->params_n, i->values, i->lengths, i->formats,
		   1) != 0 &&
	    PQpipelineSync(c->c) != 0;
}

/* Sends a Sync after every statement, so that each is its own transaction. The failure of one then
 * does not make the server skip the next. */
void pg_conn_send(struct pg_conn *c, struct pg_item *i)
{
	char words[300];

	i->conn = c;
	pg_list_push(&c->inflight, i);
	if (c->inflight.n == 1) {
		pg_conn_watchdog(c, true);
	}
	if (!item_send(c, i)) {
		pg_conn_lost(c, pg_conn_words(c, words, sizeof(words)));
		return;
	}
	c->dirty = true;
}

/* Flushes the output. A COPY with rows left waits for LOOP_WRITE even with an empty buffer: this
 * flush may have written the bytes that stopped the last one. */
void pg_conn_flush(struct pg_conn *c)
{
	bool more = c->state == PG_CONN_COPY && c->copy_step == PG_COPY_DATA;
	char words[300];
	int left;

	c->dirty = false;
	left = PQflush(c->c);
	if (left < 0) {
		pg_conn_lost(c, pg_conn_words(c, words, sizeof(words)));
	} else {
		loop_fd_set(&c->fd, PQsocket(c->c),
		    left > 0 || more ? LOOP_READ | LOOP_WRITE : LOOP_READ);
	}
}

static void item_error(struct pg_conn *c, struct pg_item *i, const PGresult *r)
{
	if (i->err.rc != SPOT_OK) {
		return; /* the first error is the cause */
	}
	pg_err_from(r, i->stmt->name, &i->err, i->sqlstate);
	if ((i->preparing && !i->prepared) || strcmp(i->sqlstate, "26000") == 0) {
		name_forget(c, i->stmt->name);
	}
	if (strcmp(i->sqlstate, "0A000") == 0) {
		if (i->preparing) {
			i->err.rc = SPOT_INTERNAL; /* the server lacks the feature */
		} else {
			c->retiring = true; /* the schema has changed since its plans */
		}
	} else if (strcmp(i->sqlstate, "25006") == 0) {
		c->retiring = true;
	}
}

static void item_synced(struct pg_conn *c, struct pg_item *i)
{
	struct pg *p = c->pg;

	pg_list_remove(&c->inflight, i);
	pg_conn_watchdog(c, c->inflight.n > 0);
	pg_item_finish(p, i, i->err.rc);
	if (c->reserved || pg_waiting(p)) {
		pg_dispatch_soon(p);
	}
}

/* Handles one result. False: it does not belong to a statement of ours. */
static bool item_result(struct pg_conn *c, PGresult *r)
{
	struct pg_item *i = c->inflight.head;
	ExecStatusType st = PQresultStatus(r);

	if (st == PGRES_PIPELINE_SYNC) {
		PQclear(r);
		item_synced(c, i);
		return true;
	}
	if (st == PGRES_TUPLES_OK || st == PGRES_COMMAND_OK || st == PGRES_EMPTY_QUERY) {
		if (i->preparing && !i->prepared) {
			i->prepared = true;
			PQclear(r);
		} else {
			PQclear(i->res);
			i->res = r;
		}
		return true;
	}
	if (st == PGRES_FATAL_ERROR) {
		item_error(c, i, r);
	}
	PQclear(r);
	return st == PGRES_FATAL_ERROR || st == PGRES_PIPELINE_ABORTED;
}

static void pipeline_event(struct pg_conn *c)
{
	while (c->inflight.head != NULL && !PQisBusy(c->c)) {
		PGresult *r = PQgetResult(c->c);

		/* NULL ends the results of one command; two in a row are not due. */
		if (r == NULL ? ++c->nulls > 2 : !item_result(c, r)) {
			const struct pg_item *i = c->inflight.head;

			/* After the server's shutdown message (57P) libpq has no more results, and
			 * the stream ends soon. */
			pg_conn_lost(c,
			    i != NULL && i->err.rc != SPOT_OK
				? i->err.text
				: "the database server answered out of turn");
			return;
		}
		if (r != NULL) {
			c->nulls = 0;
		}
	}
	if (c->inflight.head == NULL) {
		(void)PQisBusy(c->c); /* parses messages such as parameter changes */
		if (c->retiring) {
			pg_conn_lost(c,
			    "prepared statements are outdated or the server is read-only");
		}
	}
}

static void conn_event(struct loop_fd *f, int events)
{
	struct pg_conn *c = container_of(f, struct pg_conn, fd);
	bool idle = c->state == PG_CONN_READY && c->inflight.n == 0;
	char words[300];

	if (c->state == PG_CONN_CONNECTING) {
		conn_poll(c);
		return;
	}
	/* A server that shuts down sends a message and closes. Read again, to see the close before
	 * we send the next statement. */
	if ((events & LOOP_READ) != 0 &&
	    (PQconsumeInput(c->c) == 0 || (idle && PQconsumeInput(c->c) == 0))) {
		/* Use the bytes before the end: results may be complete. */
		if (c->state == PG_CONN_READY) {
			pipeline_event(c);
		}
		if (c->c != NULL) {
			pg_conn_lost(c, pg_conn_words(c, words, sizeof(words)));
		}
		return;
	}
	if (c->state == PG_CONN_SETUP) {
		setup_event(c);
	} else if (c->state == PG_CONN_READY) {
		pipeline_event(c);
	} else if (c->state == PG_CONN_COPY) {
		pg_copy_event(c);
	} else if (c->state == PG_CONN_LISTEN) {
		pg_listen_event(c);
	}
	if (c->c != NULL && c->state >= PG_CONN_SETUP) {
		pg_conn_flush(c);
	}
}
