/*
 * Checks that the database gives us sessions of our own, since daemons LISTEN, prepare by name and
 * lock by session. A pooler that shares them by transaction or statement does not (PgBouncer,
 * https://www.pgbouncer.org/features.html).
 */
#ifndef STORE_SESSION_H
#define STORE_SESSION_H

#include "base/base.h"
#include "base/err.h"

/* Blocking, for start-up; opens two connections. Returns SPOT_CONFIG with advice if sessions are
 * shared. */
NODISCARD enum spot_rc session_check(const char *dsn, struct spot_err *err);

#endif
