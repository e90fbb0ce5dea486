/* When each (provider, region) was last asked about our nodes, and last swept. Only pacing: after a
 * restart everything is simply asked at once. */
#ifndef ENGINE_WATCH_H
#define ENGINE_WATCH_H

#include <sys/queue.h>

#include "base/base.h"

struct act;
struct engine;
struct watch_place {
	char *provider, *region;
	int64_t asked_us, swept_us; /* mono; 0 = never */
	/* the last node that this round has asked about; 0: the next round begins with the first */
	int64_t after_id;
	bool asking, noticing, sweeping;
	struct act *stream; /* the long poll that is out; NULL = none */
	int64_t stream_next_us; /* mono: none before this */
	int stream_fails; /* in a row */
	LIST_ENTRY(watch_place) link;
};
struct watch {
	LIST_HEAD(, watch_place) places;
	int64_t doubted_us; /* mono: when nodes were last looked at for doubts */
};
struct watch *watch_new(void);
void watch_free(struct watch *w);
struct watch_place *watch_place(struct watch *w, const char *provider, const char *region);
/* That whose lists cover the region: of some providers one covers all. NULL: the provider is not
 * configured. */
struct watch_place *watch_place_of(struct engine *e, const char *provider, const char *region);

#endif
