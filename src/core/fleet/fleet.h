/*
 * The contract of core/fleet: the decisions about fleets. All are pure.
 *
 * - fleet_plan: how the nodes of a fleet spread over pools
 * - fleet_move: which nodes move to other pools now
 * - fleet_size: how large a fleet is
 *
 * Other folders include this header alone.
 */
#ifndef CORE_FLEET_FLEET_H
#define CORE_FLEET_FLEET_H

#include "core/fleet/fleet_plan.h"
#include "core/fleet/fleet_move.h"
#include "core/fleet/fleet_size.h"

#endif
