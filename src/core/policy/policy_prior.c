/*
 * Rates at which usual spot pools are lost and come back. tests/bench/policy/policy_fit.c made them
 * from public traces (2026-11-21). Statistics only.
 *
 * - Availability of p2/p3 instances: skypilot-org/spot-traces 221da1a, 2022-10 and 2023-02;
 *   Michaelvll/skypilot-spot-strategy, 2022-11.
 * - Availability of 16 p3: skypilot-org/spot-traces, 2023-08.
 * - Availability of 16 H100: andylizf/skynomad-artifact 62b9aaa, 2025-10, Apache-2.0.
 * - Availability of 4 A100: MaoZiming/spothedge_ae.
 * - Preemptions: skypilot-org/spot-traces, 2023-04 and 2023-08.
 */
#include "base/base.h"
#include "core/policy/policy_priv.h"

const struct policy_prior
    policy_prior_public = { .per_hour = {
				{
				    { 1.9747, 2.3956, 2.9129, 3.5594, 4.0488 },
				    { 1.0755, 1.3646, 1.6675, 2.0719, 2.4331 },
				    { 0.6862, 0.8853, 1.0228, 1.1676, 1.1408 },
				    { 0.3705, 0.4443, 0.5503, 0.6616, 0.7646 },
				    { 0.2103, 0.2664, 0.3083, 0.4455, 0.3731 },
				    { 0.1214, 0.1785, 0.2722, 0.3811, 0.1912 },
				    { 0.0870, 0.1160, 0.1215, 0.1030, 0.1030 },
				    { 0.0231, 0.0458, 0.0249, 0.0249, 0.0249 },
				},
				{
				    { 2.9523, 3.1356, 2.7068, 2.0069, 1.3919 },
				    { 1.8101, 1.8048, 1.5019, 1.1473, 0.7874 },
				    { 0.9473, 1.1422, 0.9657, 0.6391, 0.4247 },
				    { 0.5101, 0.7024, 0.4757, 0.4019, 0.3199 },
				    { 0.2666, 0.3419, 0.3480, 0.2541, 0.1678 },
				    { 0.1516, 0.2848, 0.2581, 0.1591, 0.1200 },
				    { 0.1021, 0.1021, 0.0905, 0.1201, 0.0931 },
				    { 0.0468, 0.0468, 0.0468, 0.0673, 0.0451 },
				},
			    } };
