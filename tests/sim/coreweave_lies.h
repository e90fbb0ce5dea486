/* What goes wrong with Kubernetes clusters (coreweave_lies.c). */
#ifndef SIM_COREWEAVE_LIES_H
#define SIM_COREWEAVE_LIES_H

#include "base/base.h"

void coreweave_lie(const char *action); /* one of those about it, once */

#define PULL_US (3 * SPOT_US_PER_S) /* of an image */

#endif
