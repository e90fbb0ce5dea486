/* Shared by the files of engine/job alone. */
#ifndef ENGINE_JOB_PRIV_H
#define ENGINE_JOB_PRIV_H

#include "base/base.h"
#include "engine/job/job.h"
#include "engine/kernel/kernel.h"

/* For a serving gang that may wait for another machine of a rank that lost its own (gang_wait.c).
 * g: n rows, one per rank. Returns true while the gang keeps its machines and starts no attempt. */
bool gang_stands_by(struct recon *r, const struct q_engine_gangs_row *g, size_t n);

#endif
