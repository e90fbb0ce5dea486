/*
 * Linked with -Wl,--wrap=pg_exec into a test or the daemon. Before each write of the engine or the
 * poller, the same statement with the same values runs in transactions that are rolled back. They
 * use a connection of ours. It runs once as it is. If it has an effect, it runs once more after the
 * lease was taken away: any row that it touches then ends the process. At the end the counts are
 * appended to the file that SPOT_FENCE_REPORT names, a line "NAME SEEN EFFECTIVE" each.
 */
#ifndef FENCE_PROBE_H
#define FENCE_PROBE_H

#include "base/base.h"

/* A statement of the engine or the poller that may write without the lease; why. NULL = it may
 * not. */
const char *fence_waived(const char *statement);
/* Is it one of theirs at all? */
bool fence_concerns(const char *statement);

#endif
