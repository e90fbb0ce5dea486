/*
 * The contract of core/place: the one answer to "where would this job run".
 *
 * - placement: ranks the offers for a job and decides
 * - gang: the same for a job of several nodes, and the state of a gang
 * - gang_wait: whether a gang that lost one machine waits for another
 *
 * Other folders include this header alone.
 */
#ifndef CORE_PLACE_PLACE_H
#define CORE_PLACE_PLACE_H

#include "core/place/gang.h"
#include "core/place/gang_wait.h"
#include "core/place/placement.h"

#endif
