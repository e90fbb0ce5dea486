/* Private to src/engine/launch. */
#ifndef ENGINE_LAUNCH_INT_H
#define ENGINE_LAUNCH_INT_H

#include "engine/kernel/kernel.h"
#include "engine/launch/launch.h"

/* Prefixes of last_error after a refused repeat of a launch. LAUNCH_SPENT: the token is bound to
 * other parameters, or to an instance that is over. A repeat can never succeed, and the look-up
 * finds what there was. LAUNCH_TOKEN_UNREAD: the outcome was unknown, and the provider refused the
 * repeat before it read the token. */
#define LAUNCH_SPENT "its token is spent: "
#define LAUNCH_TOKEN_UNREAD "its repeat was refused: "

/* launcher.c: records the machines that the launch of node a->id with that token gave, at most as
 * many as it has rows. how: "launched". Sorts the list. Ends a. */
void launch_exists(struct act *a, const char *token, struct spot_instance *list, size_t n,
    const enum node_state *was, size_t was_n, enum node_event ev, const char *how);

/* userdata.c: the script that a node boots with. */
struct str userdata_make(struct engine *e, struct arena *a, int64_t node_id, const char *token,
    const char *provider_kind);

#endif
