/*
 * Whether the database gives us sessions of our own. Behind a pooler that hands them out by
 * transaction or statement (PgBouncer, https://www.pgbouncer.org/features.html) it does not:
 * daemons LISTEN, prepare by name, lock by session.
 */
#ifndef STORE_SESSION_H
#define STORE_SESSION_H

#include "base/base.h"
#include "base/err.h"

/* Blocking, for start-up: two connections. SPOT_CONFIG when sessions are shared, with what to
 * do. */
NODISCARD enum spot_rc session_check(const char *dsn, struct spot_err *err);

#endif
