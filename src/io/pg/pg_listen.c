#include "base/base.h"
#include "io/pg/pg_priv.h"

/* Sends LISTEN for all channels in one simple query, and again after a channel was added. The
 * server ignores a LISTEN that is in force. */
static void listen_send(struct pg_conn *c)
{
	char sql[2048] = "";
	char words[300];
	size_t n = 0;

	if (c->listen_busy) {
		return;
	}
	c->listened = 0;
	for (struct pg_listen *l = c->pg->listens; l != NULL; l = l->next) {
		char *quoted = PQescapeIdentifier(c->c, l->channel, strlen(l->channel));

		assert(quoted != NULL);
		n += (size_t)snprintf(sql + n, sizeof(sql) - n, "LISTEN %s; ", quoted);
		assert(n < sizeof(sql));
		PQfreemem(quoted);
		c->listened++;
	}
	c->listen_busy = true;
	pg_conn_watchdog(c, true);
	if (PQsendQuery(c->c, sql) == 0) {
		pg_conn_lost(c, pg_conn_words(c, words, sizeof(words)));
	} else {
		pg_conn_flush(c);
	}
}

static void round_done(struct pg_conn *c)
{
	struct pg_listen *next;
	int n = 0;

	c->listen_busy = false;
	pg_conn_watchdog(c, false);
	/* Wake all: notifications may have been lost before this moment. */
	for (struct pg_listen *l = c->pg->listens; l != NULL; l = next, n++) {
		next = l->next; /* woken() may stop and free l */
		l->woken(l, l->channel, "");
	}
	if (c->listened < n) {
		listen_send(c);
	}
}

void pg_listen_up(struct pg_conn *c)
{
	listen_send(c);
}

static void notify_all(struct pg_conn *c)
{
	struct pg_listen *next;
	PGnotify *n;

	while (c->c != NULL && (n = PQnotifies(c->c)) != NULL) {
		for (struct pg_listen *l = c->pg->listens; l != NULL; l = next) {
			next = l->next;
			if (strcmp(l->channel, n->relname) == 0) {
				l->woken(l, n->relname, n->extra);
			}
		}
		PQfreemem(n);
	}
}

void pg_listen_event(struct pg_conn *c)
{
	char words[300];

	while (c->listen_busy && !PQisBusy(c->c)) {
		PGresult *r = PQgetResult(c->c);
		bool ok;

		if (r == NULL) {
			round_done(c);
			break;
		}
		/* An empty query: the last listener stopped while the connection was down. */
		ok =
		    PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_EMPTY_QUERY;
		PQclear(r);
		if (!ok) {
			pg_conn_lost(c, pg_conn_words(c, words, sizeof(words)));
			return;
		}
	}
	if (c->c == NULL) {
		return;
	}
	(void)PQisBusy(c->c); /* parses notifications */
	notify_all(c);
}

void pg_listen(struct pg *p, struct pg_listen *l, const char *channel,
    void (*woken)(struct pg_listen *, const char *, const char *))
{
	assert(strlen(channel) < 64);
	l->woken = woken;
	l->channel = channel;
	l->next = p->listens;
	p->listens = l;
	if (p->listener == NULL) {
		p->listener = calloc(1, sizeof(*p->listener));
		assert(p->listener != NULL);
		pg_conn_init(p->listener, p, -1, true);
	} else if (p->listener->state == PG_CONN_LISTEN) {
		listen_send(p->listener);
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
