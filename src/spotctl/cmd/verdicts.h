/* Prints the verdicts about machines that might be lost, with the evidence; -o json has them
 * whole. */
#ifndef SPOTCTL_VERDICTS_H
#define SPOTCTL_VERDICTS_H

#include "spotctl/ctl.h"

/* Prints nothing where there are none. */
void show_verdicts(struct ctl *c, const json_t *list);

#endif
