/* One seed. */
#ifndef SIM_SEED_H
#define SIM_SEED_H

#include "sim/run/options.h"

#include <stdbool.h>
#include <stdint.h>

/* Every statement is sent: as it was asked for, or since a gate was found to be wrong. */
extern bool seed_gates_off;
/* Runs it in a folder of its own below dir, tells of it to out, a line each, and exits. */
void seed_child(const struct options *o, uint64_t seed, const char *dsn, const char *dir, int out)
    __attribute__((noreturn));

#endif
