/*
 * How often usual spot pools are lost and come back: made by tests/bench/policy/policy_fit.c from public traces (2026-11-21):
 * availability of p2/p3 instances (skypilot-org/spot-traces 221da1a, 2022-10 and 2023-02; Michaelvll/skypilot-spot-strategy,
 * 2022-11), of 16 p3 (skypilot-org/spot-traces, 2023-08) and of 16 H100 (andylizf/skynomad-artifact 62b9aaa, 2025-10,
 * Apache-2.0), of 4 A100 (MaoZiming/spothedge_ae), and preemptions (skypilot-org/spot-traces, 2023-04 and 2023-08). Statistics only.
 */
#include "base/base.h"
#include "core/policy_priv.h"
const struct policy_prior policy_prior_public = {.per_hour = {
	{
		{1.9714, 2.3947, 2.8913, 3.5282, 4.0475},
		{1.0734, 1.3640, 1.6493, 2.0445, 2.4316},
		{0.6845, 0.8847, 1.0023, 1.1463, 1.1385},
		{0.3699, 0.4441, 0.5408, 0.6571, 0.7628},
		{0.2101, 0.2659, 0.3026, 0.4520, 0.3712},
		{0.1213, 0.1762, 0.2751, 0.3805, 0.1899},
		{0.0873, 0.1181, 0.1319, 0.1044, 0.1044},
		{0.0230, 0.0432, 0.0246, 0.0246, 0.0246},
	},
	{
		{2.9504, 3.1350, 2.6910, 1.9919, 1.3910},
		{1.8083, 1.8043, 1.4898, 1.1366, 0.7870},
		{0.9453, 1.1417, 0.9554, 0.6310, 0.4244},
		{0.5095, 0.7023, 0.4764, 0.3990, 0.3199},
		{0.2660, 0.3418, 0.3492, 0.2526, 0.1678},
		{0.1513, 0.2847, 0.2585, 0.1589, 0.1196},
		{0.1022, 0.1022, 0.0905, 0.1210, 0.0929},
		{0.0469, 0.0469, 0.0469, 0.0681, 0.0452},
	},
}};
