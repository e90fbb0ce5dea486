/* The report of one fleet file, held by every policy. */
#ifndef FLEETSIM_FLEETS_H
#define FLEETSIM_FLEETS_H

#include "load.h"

struct fleets_conf {
	const char *file; /* of the fleet */
	const char *only; /* the one policy to run; NULL = all */
	int64_t seeds, days;
	int32_t jobs; /* of the list, before those of other GPUs are left out */
};
/* Prints the table. Returns the exit status. */
int fleets_report(const struct fs_data *d, const struct fleets_conf *c);

#endif
