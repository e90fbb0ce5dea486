/*
 * Private to doctor*.c: an examination under way. One at a time; it lives until the last of its
 * looks is written. Everything it learns is rows; a daemon that dies in the middle leaves a claimed
 * run that the next one begins again.
 */
#ifndef ENGINE_DOCTOR_H
#define ENGINE_DOCTOR_H

#include "engine/kernel/kernel.h"

#define DOCTOR_SELF "spotd" /* the daemon's own items stand under this name */
/* among the names that were asked for: the invariants too */
#define DOCTOR_CONSISTENCY "consistency"

struct exam {
	struct engine *e;
	struct arena *arena;
	int64_t id;
	char me[32];
	int64_t epoch; /* of the claim */
	const char *asked; /* names, comma separated; "" = all */
	int pending; /* looks that are not written yet */
	/* one could not be written: the run is begun again when its claim is over */
	bool lost;
	struct q_engine_doctor_places_row *places;
	size_t places_n;
	struct q_engine_doctor_pools_row *pools;
	size_t pools_n;
	struct q_engine_doctor_feeds_row *feeds;
	size_t feeds_n;
	int64_t sent_us; /* mono: when the database was asked for its time */
};

/* One look: at a provider, in a region, or at ourselves. Items are collected and written by one
 * statement. */
struct look {
	struct exam *x;
	const char *provider, *region, *part;
	struct call_provider *p;
	struct spot_check_item *items;
	int64_t *amounts;
	size_t n, cap, amounts_cap;
	int64_t begun_us; /* mono */
	union {
		struct spot_check check;
		const char *account;
	} args;
	void *more;
};

struct act *look_new(struct exam *x, const char *provider, const char *region, const char *part,
    void (*called)(struct act *));
/* name and fix are kept as they are; words are made. */
void look_item(struct act *a, const char *name, enum spot_check_state state, const char *fix,
    const char *fmt, ...) PRINTF(5, 6);
void look_amount(struct act *a, int64_t amount); /* of the item just added */
/* Writes the items; the act ends. */
void look_write(struct act *a);
const char *rc_fix(enum spot_rc rc);

/* doctor_self.c */
void self_database(struct exam *x, const struct q_engine_doctor_database_row *row);
void self_daemon(struct exam *x);
void self_feeds(struct exam *x, const struct q_engine_doctor_feeds_row *w, struct call_provider *p);
/* doctor_store.c: an object goes to the store of checkpoints and back */
void self_store(struct exam *x);
/* doctor_consistency.c: the invariants of the rows */
void self_consistency(struct exam *x);
/* doctor_objects.c: what the rows say of the object store, asked there */
void self_objects(struct exam *x);
/* verdict.c: machines that were given up */
void self_verdicts(struct exam *x);

#endif
