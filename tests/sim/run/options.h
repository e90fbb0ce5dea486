/* The command line. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define JOBS_MAX 16 /* seeds at a time */
struct options {
	uint64_t from, to;
	int jobs;
	int64_t minutes; /* 0 = by the seed */
	const char *mix, *clouds;
	double seconds; /* no seed begins after so many; 0 = all do */
	bool trace, stop, quiet, prove, learn, states, profiles;
	const char *trap; /* the first seed does so */
};
/* False: unknown option; the usage lists the options. */
bool options_read(struct options *o, int argc, char **argv);
extern const char options_usage[];

#endif
