/* Inside of a seed nobody asks the machine for time, chance, sleep or a socket;
 * tests/sim/world/traps.c. */
#ifndef SIM_TRAPS_H
#define SIM_TRAPS_H

#include <stdbool.h>

extern bool traps_armed; /* from the begin of a seed to its end */
void trap_sprung(const char *what) __attribute__((noreturn));

/* --trap: makes the real call as if inside a seed, which must end the program. Returns false if
 * there is no such trap, or if it let the call pass. "list" prints the names. */
bool trap_try(const char *name);

#endif
