/* Between the files of the gangs (gang.c says how they work together) and placing. */
#ifndef ENGINE_GANG_H
#define ENGINE_GANG_H

#include "engine/kernel/kernel.h"

/* gang_place.c: wants a gang where score s of p->scores is; replaces: each rank for the machine
 * that its rank has. */
void gang_want(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct score *s, bool replaces, const char *kind, const char *why);
/* why, or why no place can give all nodes together. */
const char *gang_why_wait(struct recon *r, const struct job_facts *f, const struct placing *p,
    const char *why);

#endif
