/*
 * The schema's migrations: numbered, forward only, one transaction each, with a checksum of every
 * applied text in schema_version, under an advisory lock so that two daemons starting at once do
 * not race. Blocking libpq: it runs before the loop does, and in tools and tests.
 *
 * Refused, with words that say what to do: a text that changed after it was applied, a hole in the
 * numbering, and a schema newer than this program knows (an old binary must not write to it).
 */
#ifndef STORE_MIGRATE_H
#define STORE_MIGRATE_H

#include "base/base.h"

struct migration {
	int version; /* 1, 2, 3, ... without holes */
	const char *name; /* "base" of 0001_base.sql */
	const char *sql;
	const char *sha256; /* lower-case hex of sql */
};

/*
 * Brings the database up to date. list has n migrations (migrations_all of store/q.h). If dir is
 * not NULL, *.sql there is used instead of list. now_us is written as applied_us. ret_applied (may
 * be NULL) is the number applied now. Nothing of a failed migration remains; earlier ones stay.
 * Where a migration must wait for a lock (a backup reads the table) it is tried again until it gets
 * through, whoever else uses the table waits for moments only, and the log says who holds it.
 */
NODISCARD enum spot_rc migrate_run(const char *dsn, const char *dir, const struct migration *list,
    size_t n, int64_t now_us, int *ret_applied, struct spot_err *err);
/* Changes nothing: SPOT_OK if the schema is exactly at list's end, CONFIG with what is wrong. */
NODISCARD enum spot_rc migrate_check(const char *dsn, const struct migration *list, size_t n,
    struct spot_err *err);

#endif
