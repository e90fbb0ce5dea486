/*
 * Finds the server that takes writes after a fail-over. A frozen primary keeps its connections and
 * sends nothing, and new connects to it hang. Without the scout, a statement would wait for its
 * deadline, half a minute after another server has become primary.
 *
 * The scout is an extra connection, for a DSN with several hosts. It starts when a connection that
 * owes an answer is silent for SILENCE_US. It tries the silent server first, then the others. As
 * soon as another server takes writes, we drop every connection to the rest.
 *
 * Until then the silent connections stay, since a statement may be slow. A live proxy hides the
 * server behind it from the scout.
 *
 * The means of libpq are not enough. Its connect_timeout covers only attempts and is at least two
 * seconds; the kernel of a frozen process answers keepalives and satisfies tcp_user_timeout.
 */
#include "base/base.h"
#include "io/pg/pg_priv.h"

#define SILENCE_US (SPOT_US_PER_S / 2)
#define PERIOD_US (SPOT_US_PER_S / 4)
/* A server that accepts the scout is slow, not frozen: wait this long before the next try. */
#define SLOW_US (2 * SPOT_US_PER_S)
#define QUIET_US (SPOT_US_PER_S * 7 / 10)

static struct pg_conn *conn_nth(struct pg *p, int k)
{
	return k < p->conns_n ? &p->conns[k] : p->listener;
}

/* Returns the connection with the longest silence above SILENCE_US, or NULL. *ret_owing: some
 * connection owes an answer. */
static struct pg_conn *conn_silent_find(struct pg *p, bool *ret_owing)
{
	int64_t now = loop_mono_us(p->loop);
	struct pg_conn *worst = NULL;

	*ret_owing = false;
	for (int k = 0; k <= p->conns_n; k++) {
		struct pg_conn *c = conn_nth(p, k);

		if (c == NULL || c->awaited_us == 0) {
			continue;
		}
		*ret_owing = true;
		if (now - c->awaited_us >= SILENCE_US &&
		    (worst == NULL || c->awaited_us < worst->awaited_us)) {
			worst = c;
		}
	}
	return worst;
}

static void scout_tick(struct loop_timer *t)
{
	struct pg *p = container_of(t, struct pg, scouting);
	struct pg_conn *c;
	bool owing;

	c = conn_silent_find(p, &owing);
	if (c == NULL && p->scout->out) {
		pg_conn_fini(p->scout); /* the silent connections have answered */
		p->scout->out = false;
	} else if (c != NULL && !p->scout->out) {
		pg_place_of(c->c, &p->shunned);
		p->scout->out = p->scout->ask_shunned = true;
		loop_timer_set(&p->scout->timer, 1);
	}
	if (owing) {
		loop_timer_set(&p->scouting, PERIOD_US);
	}
}

void pg_scout_watch(struct pg_conn *c, bool on)
{
	struct pg *p = c->pg;

	c->awaited_us = 0;
	if (!on || c == p->scout || p->hosts_n < 2) {
		return;
	}
	c->awaited_us = loop_mono_us(p->loop);
	if (p->scout == NULL) {
		p->scout = calloc(1, sizeof(*p->scout));
		assert(p->scout != NULL);
		pg_conn_init(p->scout, p, -1, false);
		loop_timer_stop(&p->scout->timer);
		loop_timer_init(&p->scouting, p->loop, scout_tick);
		loop_timer_set(&p->scouting, PERIOD_US);
	} else if (!p->scouting.armed) {
		loop_timer_set(&p->scouting, PERIOD_US);
	}
}

void pg_scout_asks(struct pg_conn *c)
{
	loop_timer_set(&c->timer, QUIET_US);
}

void pg_scout_lost(struct pg_conn *c)
{
	c->ask_shunned = !c->ask_shunned;
	loop_timer_set(&c->timer, c->ask_shunned ? PG_BACKOFF_MIN_US : 1);
}

static void others_lost(struct pg *p, const struct pg_place *there)
{
	for (int k = 0; k <= p->conns_n; k++) {
		struct pg_conn *c = conn_nth(p, k);
		struct pg_place place;

		if (c == NULL) {
			continue;
		}
		pg_place_of(c->c, &place);
		if (c->c != NULL && !pg_place_same(&place, there)) {
			pg_conn_lost(c,
			    "its database server is silent and another one takes writes");
		}
		if (c->state == PG_CONN_DOWN) {
			loop_timer_set(&c->timer, 1);
		}
	}
}

void pg_scout_found(struct pg_conn *c)
{
	struct pg *p = c->pg;
	bool shunned = c->ask_shunned;
	struct pg_place there;

	pg_place_of(c->c, &there);
	pg_conn_fini(c);
	c->out = false;
	if (!shunned) {
		log_warn("pg.server_changed", STR("silent", p->shunned.port),
		    STR("takes_writes", there.port));
		others_lost(p, &there);
		return;
	}
	for (int k = 0; k <= p->conns_n; k++) {
		struct pg_conn *x = conn_nth(p, k);

		if (x != NULL && x->awaited_us > 0) {
			x->awaited_us = loop_mono_us(p->loop) + SLOW_US;
		}
	}
}

void pg_scout_fini(struct pg *p)
{
	if (p->scout == NULL) {
		return;
	}
	loop_timer_stop(&p->scouting);
	pg_conn_fini(p->scout);
	free(p->scout);
}
