/* Between the files of the gangs (gang.c says how they work together). */
#ifndef ENGINE_GANG_H
#define ENGINE_GANG_H

#include "core/gang.h"
#include "engine/engine_int.h"

/* gang_place.c: jobs that wait for a gang and have none; finds each a place, or says why it waits. */
void gang_seek(struct recon *r);

#endif
