/* Preloaded into the simulation's Postgres server: universe.c. */
#ifndef SIM_UNIVERSE_H
#define SIM_UNIVERSE_H

#include <stdbool.h>

/* True in a process with a database of its own: its writes must not reach others' files. */
extern bool universe_inside;
/* Descriptors below are the server's own. */
#define UNIVERSE_FDS 2048
/* Processor time of a copy: a seed's uses a second. */
#define UNIVERSE_CPU_S 120

#endif
