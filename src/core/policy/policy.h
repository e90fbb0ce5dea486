/*
 * The contract of core/policy: when to use which market. All decisions are pure.
 *
 * - deadline_policy: spot, on demand or wait, at each tick of a job with a deadline
 * - deadline_room: the slack of a deadline
 * - supply, supply_track: fail-over and return; our rows as samples of supply
 * - tightness: how tight a group of pools is
 * - rebalance: the moves to make now
 * - defer: off-peak starts
 * - save_now: a save after the reclaim of a sibling
 *
 * Other folders include this header alone.
 */
#ifndef CORE_POLICY_POLICY_H
#define CORE_POLICY_POLICY_H

#include "core/policy/deadline_policy.h"
#include "core/policy/deadline_room.h"
#include "core/policy/supply.h"
#include "core/policy/supply_track.h"
#include "core/policy/tightness.h"
#include "core/policy/rebalance.h"
#include "core/policy/defer.h"
#include "core/policy/save_now.h"

#endif
