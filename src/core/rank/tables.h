/* Reference tables made from src/core/rank/data at build time. 0 in a figure is a hole. */
#ifndef CORE_TABLES_H
#define CORE_TABLES_H

#include "base/base.h"

struct gpu_perf {
	const char *gpu;
	double fp16_tflops, mem_gib, bandwidth_gb_s;
};
struct egress_rate {
	/* from: region or "" ; to: internet, other-region, ... */
	const char *provider, *from, *to;
	int64_t micros_per_gb;
};
struct egress_pair {
	const char *from_provider, *from_region, *to_provider, *to_region;
	int64_t micros_per_gb;
};
extern const struct gpu_perf gpu_perf_table[];
extern const size_t gpu_perf_table_n;
extern const struct egress_rate egress_rates[];
extern const size_t egress_rates_n;
extern const struct egress_pair egress_pairs[]; /* sorted */
extern const size_t egress_pairs_n;

#endif
