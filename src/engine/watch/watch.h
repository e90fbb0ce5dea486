/*
 * Machines that exist: reports of providers, doubts, giving back, ending, and instances
 * without a row.
 */
#ifndef ENGINE_WATCH_H
#define ENGINE_WATCH_H

#include <sys/queue.h>

#include "base/base.h"

struct act;
struct arena;
struct engine;
struct recon;
struct recon_kind;
struct spot_instance;

extern const struct recon_kind watch_kind; /* describes our nodes; boot timeouts, silent agents */
extern const struct recon_kind verdict_kind; /* suspicions, and verdicts that proved wrong */
extern const struct recon_kind release_kind; /* gives back nodes that no job needs */
extern const struct recon_kind reaper_kind; /* terminates until the provider confirms the end */
extern const struct recon_kind sweep_kind; /* lists everything with our tag: orphans */

/* When each (provider, region) was last asked about our nodes, and last swept. Only pacing: after a
 * restart every place is asked at once. */
struct watch_place {
	char *provider, *region;
	int64_t asked_us, swept_us; /* mono; 0 = never */
	/* the last node that this round has asked about; 0: the next round begins with the first */
	int64_t after_id;
	bool asking, noticing, sweeping;
	bool watched; /* it has machines of ours, as far as we know */
	bool hurry; /* one of them is in doubt, or has just come to enrol */
	struct act *stream; /* the long poll that is out; NULL = none */
	int64_t stream_next_us; /* mono: none before this */
	int stream_fails; /* in a row */
	LIST_ENTRY(watch_place) link;
};
LIST_HEAD(watch_places, watch_place);
struct watch_places *watch_places(const struct engine *e);
/* The place whose lists cover the region: of some providers one covers all. Created when it is
 * missing. NULL: the provider is not configured. */
struct watch_place *watch_place_of(struct engine *e, const char *provider, const char *region);

/* Ends the machines about which the rows tell enough (watch_due.c). */
void watch_due_ask(struct recon *r);

/* The instance's state as rows have it ("gone_reclaimed", "failed_no_capacity"). */
const char *instance_state(const struct spot_instance *i);
/* The words for the end of an instance. */
const char *instance_reason(struct arena *a, const struct spot_instance *i);

#endif
