/* Made by tests/bench/calibration/siblings --write FILE DIR; do not edit. Fitted on 67022 slots of
 * recorded pools: two zones of three, the first 60 % of each folder. SIBLINGS.md
 * beside that program has the sources and the scores. */
#include "base/base.h"
#include "core/hazard/hazard.h"

const struct sibling_fit sibling_fitted = {
	/* quick, slow */
	.share = { [SIBLING_POOL] = { 0.442, 0.481 },
	    [SIBLING_ZONE] = { 0.009, 0.032 },
	    [SIBLING_REGION] = { 0.058, 0.018 } },
	.tau_h = { 0.0198, 0.7500 },
};
