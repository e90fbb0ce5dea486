/*
 * The contract of core/rank: the ranking of offers by expected dollars per finished work.
 *
 * - offer: one pool at one moment, and whether it suits a request
 * - ranking: every term of the cost, and the order
 * - montecarlo: cost and end as a distribution
 * - tables: throughput of GPUs, egress prices and other reference data
 *
 * Other folders include this header alone.
 */
#ifndef CORE_RANK_RANK_H
#define CORE_RANK_RANK_H

#include "core/rank/offer.h"
#include "core/rank/ranking.h"
#include "core/rank/montecarlo.h"
#include "core/rank/tables.h"

#endif
