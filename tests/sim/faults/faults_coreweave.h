/* Faults of Kubernetes clusters (faults_coreweave.c). */
#ifndef SIM_FAULTS_COREWEAVE_H
#define SIM_FAULTS_COREWEAVE_H

#include "base/base.h"

void faults_coreweave_once(const char *action); /* one of those about it, once */

#define PULL_US (3 * SPOT_US_PER_S) /* of an image */

#endif
