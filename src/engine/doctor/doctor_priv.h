/*
 * Private to src/engine/doctor: an examination under way. One at a time; it lives until its last
 * probe is written. Everything it learns is rows. A daemon that dies in the middle leaves a claimed
 * run, which the next one begins again.
 */
#ifndef ENGINE_DOCTOR_PRIV_H
#define ENGINE_DOCTOR_PRIV_H

#include "engine/doctor/doctor.h"
#include "engine/kernel/kernel.h"

#define DOCTOR_SELF "spotd" /* the name of the daemon's own items */
/* a requested name that asks for the invariants too */
#define DOCTOR_CONSISTENCY "consistency"

/* The reconciler's. */
struct doctor {
	struct exam *exam; /* under way; NULL = none */
};

struct exam {
	struct engine *e;
	struct doctor *doctor;
	struct arena *arena;
	int64_t id;
	char me[32];
	int64_t epoch; /* of the claim */
	const char *asked; /* names, comma separated; "" = all */
	int pending; /* probes that are not written yet */
	/* one could not be written: the run begins again when its claim ends */
	bool lost;
	struct q_engine_doctor_places_row *places;
	size_t places_n;
	struct q_engine_doctor_pools_row *pools;
	size_t pools_n;
	struct q_engine_doctor_feeds_row *feeds;
	size_t feeds_n;
	int64_t sent_us; /* mono: when the database was asked for its time */
};

/* One probe: of a provider, in a region, or of ourselves. Collects items and writes them with one
 * statement. */
struct probe {
	struct exam *x;
	const char *provider, *region, *part;
	struct call_provider *p;
	struct q_engine_doctor_items_item *items;
	size_t n, cap;
	int64_t begun_us; /* mono */
	union {
		struct spot_check check;
		const char *account;
	} args;
	void *more;
};

struct act *probe_new(struct exam *x, const char *provider, const char *region, const char *part,
    void (*called)(struct act *));
/* Adds an item. Formats the words, and blanks registered secrets in all texts. */
void probe_item(struct act *a, const char *name, enum spot_check_state state, const char *fix,
    const char *fmt, ...) PRINTF(5, 6);
void probe_amount(struct act *a, int64_t amount); /* of the item just added */
/* Writes the items, then ends the act. */
void probe_write(struct act *a);
const char *rc_remedy(enum spot_rc rc);
void exam_free(struct exam *x);

/* doctor_self.c */
void database_examine(struct exam *x, const struct q_engine_doctor_database_row *row);
void daemon_examine(struct exam *x);
void feeds_examine(struct exam *x, const struct q_engine_doctor_feeds_row *w,
    struct call_provider *p);
/* doctor_store.c: sends an object to the store of checkpoints and back */
void store_examine(struct exam *x);
/* doctor_consistency.c: the invariants of the rows */
void consistency_examine(struct exam *x);
/* doctor_objects.c: compares the object store with the rows */
void objects_examine(struct exam *x);
/* doctor_verdicts.c: machines that were given up */
void verdicts_examine(struct exam *x);

#endif
