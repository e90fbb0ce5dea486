/*
 * First include of every source: the contract of base. Nothing above it is known here.
 *
 * - macros: attributes, small macros, and the calls that we ban
 * - err: errors, a small enum and words
 * - arena: memory for one unit of work
 * - map, hash: a hash map, FNV-1a and mixers
 * - rng, backoff: injected randomness, waits that double
 * - clock: injected time in microseconds
 * - log: events with typed pairs, redacted
 * - check, call: helpers for provider verbs
 *
 * Other folders include this header alone.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "base/macros.h"
#include "base/err.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/check.h"
#include "base/call.h"

#endif
