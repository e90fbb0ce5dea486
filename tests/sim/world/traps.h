/* Inside of a seed nobody asks the machine for time, chance, sleep or a socket;
 * tests/sim/world/traps.c. */
#ifndef SIM_TRAPS_H
#define SIM_TRAPS_H

#include <stdbool.h>

extern bool traps_armed; /* from the begin of a seed to its end */
void trap_sprung(const char *what) __attribute__((noreturn));

/* --trap: calls the real thing as if inside of a seed, which must end the program; false: there is
 * no such trap, or it let it pass. "list": prints the names. */
bool trap_try(const char *name);

#endif
