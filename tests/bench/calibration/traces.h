/* Recorded traces as a broker's experience: node-hours, reclaims, launches, refusals. */
#ifndef CALIBRATION_TRACES_H
#define CALIBRATION_TRACES_H

#include "base/base.h"

#include "core/rank/rank.h"

struct trace_pool {
	const char *file, *provider, *region, *zone, *gpu;
	int32_t size; /* GPUs of one machine */
	int64_t gap_s, start_s; /* start: seconds into the UTC day */
	int32_t *alive; /* nodes held in each slot */
	size_t n;
	double
	    /* of the hours in which it had nodes, the share in which it lost some: the whole
	     * trace */
	    struck_per_hour;
};

struct trace_set { /* one folder: one period */
	const char *name;
	struct trace_pool pools[32];
	size_t pools_n;
	double hours; /* of the longest */
};

/* Every folder below the paths that holds traces. Prints the error and returns 0 on failure. */
size_t traces_load(struct arena *a, char **paths, int paths_n, struct trace_set *sets, size_t most);
/* Seen in [from, to) hours of the set's time: node-hours and reclaims. */
void trace_count(const struct trace_pool *p, double from_h, double to_h, double *ret_hours,
    double *ret_reclaims);
/* The record of the pool at cut_h, each event weighted by its age. */
void trace_record(const struct trace_set *s, size_t pool, double cut_h,
    const struct rank_policy *policy, struct offer_record *ret);

#endif
