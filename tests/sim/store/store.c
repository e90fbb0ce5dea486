/*
 * The connections to Postgres. The server is a real one, and src/io/pg/pg.c is the real queue in
 * front of it. A connection here is a place in which a statement waits for its turn. All of them
 * share one real connection (conn.c), which runs one statement at a time to its end. Their order is
 * drawn, not raced for.
 *
 * A connection may break before its statement ran or after it was committed; later statements on
 * the same connection then never run.
 */
#include "base/base.h"
#include "sim/world/world.h"
#include "base/text/text.h"
#include "sim/check/check.h"
#include "sim/store/gates.h"
#include "io/pg/pg_priv.h"
#include "sim/broker/fence.h"
#include "sim/store/refuse.h"
#include "sim/store/sim_store.h"
#include "sim/store/conn.h"
#include "store/q.h"
#include "sim/store/twice.h"

#include <poll.h>
#include <unistd.h>

struct note {
	struct note *next;
	char channel[64], payload[256];
};
static struct listener {
	struct pg_conn *c;
	struct note *notes, **end; /* on their way to it */
} listeners[8];

/* ---- notifications --------------------------------------------------------------------------- */

static void note_add(struct listener *l, const PGnotify *n)
{
	struct note *k = calloc(1, sizeof(*k));

	assert(k != NULL);
	snprintf(k->channel, sizeof(k->channel), "%s", n->relname);
	snprintf(k->payload, sizeof(k->payload), "%s", n->extra);
	*l->end = k;
	l->end = &k->next;
	if (!l->c->timer.armed) {
		loop_timer_set(&l->c->timer, dice_us(50, 2000));
	}
}

static void notes_take(void)
{
	PGnotify *n;

	(void)PQconsumeInput(store_conn());
	while ((n = PQnotifies(store_conn())) != NULL) {
		for (size_t i = 0; i < ARRAY_LEN(listeners); i++) {
			if (listeners[i].c != NULL && listeners[i].c->state == PG_CONN_LISTEN) {
				note_add(&listeners[i], n);
			}
		}
		PQfreemem(n);
	}
}

static struct listener *listener_of(const struct pg_conn *c)
{
	size_t i = 0;

	while (listeners[i].c != c) {
		i++;
	}
	return &listeners[i];
}

static void note_tell(struct pg *p, const struct note *n)
{
	for (struct pg_listen *l = p->listens, *next; l != NULL; l = next) {
		next = l->next;
		if (strcmp(l->channel, n->channel) == 0) {
			l->woken(l, n->channel, n->payload);
		}
	}
}

/* In a turn of the process that listens. */
static void notes_tell(struct pg_conn *c, bool tell)
{
	struct listener *l = listener_of(c);
	struct note *n;

	while ((n = l->notes) != NULL) {
		l->notes = n->next;
		if (tell) {
			note_tell(c->pg, n);
		}
		free(n);
	}
	l->end = &l->notes;
}

void pg_listen(struct pg *p, struct pg_listen *l, const char *channel,
    void (*woken)(struct pg_listen *, const char *, const char *))
{
	l->woken = woken;
	l->channel = channel;
	l->next = p->listens;
	p->listens = l;
	if (p->listener == NULL) {
		p->listener = calloc(1, sizeof(*p->listener));
		assert(p->listener != NULL);
		pg_conn_init(p->listener, p, -1, true);
	}
}

void pg_listen_stop(struct pg *p, struct pg_listen *l)
{
	for (struct pg_listen **at = &p->listens; *at != NULL; at = &(*at)->next) {
		if (*at == l) {
			*at = l->next;
			return;
		}
	}
}

void pg_listen_up(struct pg_conn *c)
{
	for (struct pg_listen *l = c->pg->listens, *next; l != NULL; l = next) {
		next = l->next;
		l->woken(l, l->channel, "");
	}
}

void pg_listen_event(struct pg_conn *c UNUSED)
{
}

/* ---- life of a connection -------------------------------------------------------------------- */

static void conn_timer(struct loop_timer *t);

void pg_conn_init(struct pg_conn *c, struct pg *p, int no, bool listener)
{
	memset(c, 0, sizeof(*c));
	c->pg = p;
	c->no = no;
	c->listener = listener;
	c->state = PG_CONN_DOWN;
	loop_timer_init(&c->timer, p->loop, conn_timer);
	loop_timer_set(&c->timer, dice_us(100, 5000));
	for (size_t i = 0; listener && i < ARRAY_LEN(listeners); i++) {
		if (listeners[i].c == NULL) {
			listeners[i] = (struct listener){ .c = c, .end = &listeners[i].notes };
			break;
		}
	}
}

static void conn_close(struct pg_conn *c)
{
	loop_timer_stop(&c->timer);
	if (c->state == PG_CONN_READY || c->state == PG_CONN_COPY) {
		c->pg->stats.up--;
	}
	c->state = PG_CONN_DOWN;
	c->c = NULL;
	c->reserved = c->retiring = c->dirty = false;
}

void pg_conn_fini(struct pg_conn *c)
{
	if (c->listener) {
		notes_tell(c, false);
		listener_of(c)->c = NULL;
	}
	conn_close(c);
}

const char *pg_conn_words(const struct pg_conn *c UNUSED, char *buf, size_t n)
{
	snprintf(buf, n, "the connection broke");
	return buf;
}

void pg_conn_lost(struct pg_conn *c, const char *why)
{
	struct pg *p = c->pg;
	struct pg_item *i;

	trace("db %s%d lost: %s", p->application, c->no, why);
	if (c->state == PG_CONN_COPY) {
		store_must("ROLLBACK");
	}
	conn_close(c);
	while ((i = c->inflight.head) != NULL) {
		const char *what = i->stmt == NULL ? "copy" : i->stmt->name;
		bool maybe = i->copy != NULL || i->op == NULL ? i->commit_sent : i->stmt->writes;

		pg_list_remove(&c->inflight, i);
		pg_item_finish(p, i, pg_err_lost(what, maybe, why, &i->err));
	}
	p->stats.reconnects++;
	loop_timer_set(&c->timer, dice_us(50000, 3 * SPOT_US_PER_S));
	pg_dispatch_soon(p);
}

void pg_conn_watchdog(struct pg_conn *c UNUSED, bool on UNUSED)
{
}

void pg_conn_ready(struct pg_conn *c)
{
	c->state = PG_CONN_READY;
	pg_dispatch_soon(c->pg);
}

bool pg_conn_takes(const struct pg_conn *c)
{
	return c->state == PG_CONN_READY && !c->reserved && c->inflight.n < PG_PIPELINE_MAX;
}

static void conn_up(struct pg_conn *c)
{
	c->c = store_conn();
	if (c->listener) {
		c->state = PG_CONN_LISTEN;
		pg_listen_up(c);
		return;
	}
	c->pg->stats.up++;
	pg_conn_ready(c);
}

/* ---- statements ------------------------------------------------------------------------------ */

/* An answer that needs no statement: the database refuses, or the gate knows that nothing is to
 * be done. Returns true when i has it. audit: the statement is sent all the same, to prove the
 * gate. */
static bool item_answered(struct pg_conn *c, struct pg_item *i, bool late, bool *audit)
{
	const struct pg_stmt *s = i->stmt;
	PGresult *r = refuse_ran(s);

	if (r != NULL) {
		pg_err_from(r, s->name, &i->err, i->sqlstate);
		trace("db %s%d %s: %s", c->pg->application, c->no, s->name, i->err.text);
		PQclear(r);
		return true;
	}
	if (!late && gate_closed(store_conn(), s, i, audit)) {
		trace("db %s%d %s: 0 0", c->pg->application, c->no, s->name);
		i->res = PQmakeEmptyPGresult(store_conn(), PGRES_TUPLES_OK);
		return true;
	}
	i->res = gate_steady(s);
	if (i->res == NULL) {
		return false;
	}
	trace("db %s%d %s: %d %d", c->pg->application, c->no, s->name, PQntuples(i->res),
	    PQntuples(i->res));
	return true;
}

static void item_run(struct pg_conn *c, struct pg_item *i)
{
	const struct pg_stmt *s = i->stmt;
	bool late = fence_late(c->pg, s), audit = false;
	PGresult *r;

	world.statements++;
	if (item_answered(c, i, late, &audit) || !store_prepare_product(s, i)) {
		return;
	}
	world.asked++;
	if (late) {
		store_must("BEGIN");
	} else {
		fence_try(c->pg, s, i);
	}
	r = PQexecPrepared(store_conn(), s->name, s->params_n, i->values, i->lengths, i->formats,
	    1);
	fence_ran(c->pg, s, r, late);
	if (late) {
		store_must("COMMIT");
	} else {
		twice_try(s, i, r);
	}
	if (s == &q_stmt_engine_watch_seen && !str_same(PQcmdTuples(r), "0")) {
		check_absent();
	}
	gate_ran(s, PQntuples(r));
	gate_keep(s, r);
	if (audit && PQntuples(r) > 0) {
		fprintf(stderr,
		    "sim: the gate of %s is wrong (tests/sim/store/gates.c): from here on without "
		    "gates\n",
		    s->name);
		_exit(GATE_WRONG);
	}
	if (store_took(r, s->name)) {
		trace("db %s%d %s: %d %s", c->pg->application, c->no, s->name, PQntuples(r),
		    PQcmdTuples(r));
		i->res = r;
	} else {
		pg_err_from(r, s->name, &i->err, i->sqlstate);
		trace("db %s%d %s: %s", c->pg->application, c->no, s->name, i->err.text);
		PQclear(r);
		if (PQstatus(store_conn()) != CONNECTION_OK) {
			fprintf(stderr, "sim: the real connection to Postgres broke\n");
			abort();
		}
	}
	notes_take();
}

/* The step at which the connection breaks: before its rows, after them, after the merge, or unheard
 * after the commit. 0 = none. */
static enum pg_copy_step copy_fate(void)
{
	static const enum pg_copy_step at[] = { PG_COPY_BEGIN, PG_COPY_END, PG_COPY_MERGE,
		PG_COPY_COMMIT };

	return DICE(copy_lost) ? at[rng_below(&world.dice, ARRAY_LEN(at))] : (enum pg_copy_step)0;
}

/* The whole COPY at once: rows, merge and commit are one transaction anyway. */
static void copy_run(struct pg_conn *c)
{
	enum pg_copy_step lost = copy_fate();

	trace("db %s%d copy", c->pg->application, c->no);
	while (c->state == PG_CONN_COPY && c->inflight.head != NULL) {
		struct pollfd p = { .fd = PQsocket(store_conn()), .events = POLLIN };

		if (PQflush(store_conn()) == 0 && PQisBusy(store_conn())) {
			(void)poll(&p, 1, 10000);
		}
		(void)PQconsumeInput(store_conn());
		if (c->copy_step == lost) {
			fault_seen(lost == PG_COPY_COMMIT
				? "a COPY was committed and the line broke"
				: "copy_lost");
			pg_conn_lost(c, "broke within a COPY");
			break;
		}
		pg_copy_event(c);
	}
	world.statements++;
	gate_ran(NULL, 0);
	notes_take();
}

static void next_set(struct pg_conn *c)
{
	int64_t us = dice_us(100, 1500);

	if (DICE(db_slow)) {
		fault_seen("db_slow");
		us = dice_us(SPOT_US_PER_S / 10, 8 * SPOT_US_PER_S);
	}
	if (c->inflight.head != NULL) {
		loop_timer_set(&c->timer, us);
	}
}

static void conn_work(struct pg_conn *c)
{
	struct pg *p = c->pg;
	struct pg_item *i = c->inflight.head;

	if (i == NULL) {
		return;
	}
	if (!i->prepared && DICE(db_lost_before)) {
		fault_seen("db_lost_before");
		pg_conn_lost(c, "broke before the statement ran");
		return;
	}
	if (!i->prepared) {
		item_run(c, i);
	}
	if (DICE(db_lost_after)) {
		fault_seen("db_lost_after");
		PQclear(STEAL(i->res));
		pg_conn_lost(c, "broke after the statement ran");
		return;
	}
	pg_list_remove(&c->inflight, i);
	pg_item_finish(p, i, i->err.rc);
	if (c->state == PG_CONN_READY) {
		next_set(c);
	}
	if (c->reserved || pg_waiting(p)) {
		pg_dispatch_soon(p);
	}
}

static void conn_timer(struct loop_timer *t)
{
	struct pg_conn *c = container_of(t, struct pg_conn, timer);

	if (c->state == PG_CONN_DOWN) {
		conn_up(c);
	} else if (c->state == PG_CONN_LISTEN) {
		notes_tell(c, true);
	} else {
		conn_work(c);
	}
}

void store_crash(struct pg *p)
{
	for (int k = 0; k < p->conns_n; k++) {
		struct pg_conn *c = &p->conns[k];

		for (struct pg_item *i = c->inflight.head;
		     i != NULL && i->stmt != NULL && i->copy == NULL; i = i->next) {
			if (i->prepared) {
				continue;
			}
			if (rng_below(&world.dice, 2) == 0) {
				break;
			}
			sometimes("a statement ran after its sender had died");
			item_run(c, i);
			PQclear(STEAL(i->res));
		}
	}
}

void store_pause(struct pg *p)
{
	for (int k = 0; k < p->conns_n; k++) {
		struct pg_conn *c = &p->conns[k];

		for (struct pg_item *i = c->inflight.head;
		     i != NULL && i->stmt != NULL && i->copy == NULL; i = i->next) {
			if (i->prepared || rng_below(&world.dice, 2) == 0) {
				break;
			}
			item_run(c, i);
			i->prepared = true;
		}
	}
}

void pg_conn_send(struct pg_conn *c, struct pg_item *i)
{
	i->conn = c;
	pg_list_push(&c->inflight, i);
	if (c->inflight.n == 1) {
		next_set(c);
	}
}

void pg_conn_flush(struct pg_conn *c)
{
	c->dirty = false;
	/* A COPY begins and ends in here: nothing else may stand on the one real connection
	 * meanwhile. */
	if (c->state == PG_CONN_COPY) {
		copy_run(c);
	}
}
