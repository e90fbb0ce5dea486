/* Between launcher.c and lookup.c. */
#ifndef ENGINE_LAUNCH_H
#define ENGINE_LAUNCH_H

#include "engine/kernel/kernel.h"

/* The machines that the launch of node a->id with that token gave, at most as many as it has rows;
 * how: "launched". Sorts the list. Ends a. */
void launch_exists(struct act *a, const char *token, struct spot_instance *list, size_t n,
    const char *const *was, size_t was_n, enum node_event ev, const char *how);

#endif
