/* Between the files of the gangs (gang.c says how they work together). */
#ifndef ENGINE_GANG_H
#define ENGINE_GANG_H

#include "core/gang.h"
#include "engine/engine_int.h"

/* gang_place.c: jobs that wait for a gang and have none; finds each a place, or says why it waits. */
void gang_seek(struct recon *r);

/* launcher.c: what rests after a refusal ("pool", "class", ...; "" = nothing), and how long until a launch that had no effect
 * is repeated. */
const char *launch_refusal_scope(const struct spot_err *err);
int64_t launch_retry_us(struct engine *e, int32_t tries, int64_t said_us);
/* gang_launch.c: the machines that the launch of gang a->id gave, to its ranks. */
void gang_exists(struct act *a, struct spot_instance *list, size_t n, const char *const *was,
		 size_t was_n, enum node_event ev);
/* gang_lookup.c: launches of gangs whose outcome is not known. */
void gang_lookup(struct recon *r);

#endif
