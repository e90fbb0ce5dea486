/*
 * The schema's migrations: numbered, forward only, one transaction each. Table schema_version has a
 * checksum of every applied text. An advisory lock keeps two starting daemons from racing. Blocking
 * libpq: it runs before the loop, and in tools and tests.
 *
 * Refuses a text changed after it was applied, a gap in the numbering, and a schema newer than this
 * program. The error says what to do. An old binary must not write to a newer schema.
 */
#ifndef STORE_MIGRATE_H
#define STORE_MIGRATE_H

#include "base/base.h"
#include "base/crypto/sign.h"

struct migration {
	int version; /* 1, 2, 3, ... without holes */
	const char *name; /* "base" of 0001_base.sql */
	const char *sql;
	const char *sha256; /* lower-case hex of sql */
};

/*
 * Brings the database up to date. list has n migrations (migrations_all of store/q.h). If dir is
 * not NULL, its *.sql files replace list. The time now_us becomes applied_us. Sets ret_applied (may
 * be NULL) to the number applied now. Nothing of a failed migration remains; earlier ones stay. A
 * migration that must wait for a lock (a backup reads the table) retries until it succeeds. Other
 * users of the table wait only for moments, and the log names the holder.
 */
NODISCARD enum spot_rc migrate_run(const char *dsn, const char *dir, const struct migration *list,
    size_t n, int64_t now_us, int *ret_applied, struct spot_err *err);
/* Checks the schema and changes nothing. SPOT_OK if it is exactly at the end of list, else CONFIG
 * with the difference. */
NODISCARD enum spot_rc migrate_check(const char *dsn, const struct migration *list, size_t n,
    struct spot_err *err);
/* A name for a schema that has exactly these migrations: a hash of their texts, in hex. */
void migrations_id(const struct migration *list, size_t n, char ret[SHA256_HEX]);

#endif
