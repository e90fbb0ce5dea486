/* A batch of seeds. */
#ifndef SIM_BATCH_H
#define SIM_BATCH_H

#include "sim/run/options.h"

double batch_clock_s(void); /* real seconds */
/* Runs all seeds and tells of them. Returns the exit code. */
int batch_run(const struct options *o, const char *dir);

#endif
