/* How fast a job runs on one GPU against another, and what moving bytes costs: lookups in the tables. */
#include "base/base.h"
#include "core/jobspec.h"
#include "core/rank.h"
#include "core/tables.h"

#include <strings.h>

/* A transfer between places that no row covers: the dearest common internet tier of the five. */
#define EGRESS_UNKNOWN_MICROS 120000

const struct gpu_perf *gpu_perf_find(const char *gpu)
{
	const struct gpu_perf *best = NULL;

	for (size_t i = 0; i < gpu_perf_table_n; i++) {
		if (strcasecmp(gpu_perf_table[i].gpu, gpu) == 0) {
			return &gpu_perf_table[i];
		}
		if (best == NULL && gpu_matches(gpu, gpu_perf_table[i].gpu)) {
			best = &gpu_perf_table[i];
		}
	}
	return best;
}

static double per_gpu_ratio(const char *gpu, const char *reference)
{
	const struct gpu_perf *g, *r;

	if (gpu_matches(reference, gpu)) {
		return 1.0;
	}
	g = gpu_perf_find(gpu);
	r = gpu_perf_find(reference);
	if (g == NULL || r == NULL) {
		return 1.0;
	}
	if (g->fp16_tflops > 0 && r->fp16_tflops > 0) {
		return g->fp16_tflops / r->fp16_tflops;
	}
	if (g->bandwidth_gb_s > 0 && r->bandwidth_gb_s > 0) {
		return g->bandwidth_gb_s / r->bandwidth_gb_s;
	}
	return 1.0;
}

double rank_throughput(const struct job_spec *spec, const struct offer *o)
{
	const struct gpu_ask *ref = NULL;

	for (size_t i = 0; ref == NULL && i < spec->asks_n; i++) {
		ref = spec->asks[i].gpus_n > 0 ? &spec->asks[i].gpus[0] : NULL;
	}
	if (ref == NULL || o->gpu_milli <= 0 || ref->milli <= 0) {
		return 1.0;
	}
	return per_gpu_ratio(o->gpu_name, ref->gpu) * o->gpu_milli / ref->milli;
}

static int pair_compare(const struct egress_pair *p, const char *fp, const char *fr, const char *tp, const char *tr)
{
	int d = strcmp(p->from_provider, fp);

	d = d != 0 ? d : strcmp(p->from_region, fr);
	d = d != 0 ? d : strcmp(p->to_provider, tp);
	return d != 0 ? d : strcmp(p->to_region, tr);
}

static int64_t pair_rate(const char *fp, const char *fr, const char *tp, const char *tr)
{
	size_t lo = 0, hi = egress_pairs_n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int d = pair_compare(&egress_pairs[mid], fp, fr, tp, tr);

		if (d == 0) {
			return egress_pairs[mid].micros_per_gb;
		}
		if (d < 0) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return -1;
}

int64_t egress_micros_per_gb(const char *from_provider, const char *from_region, const char *to_provider,
    const char *to_region)
{
	bool inside = strcmp(from_provider, to_provider) == 0;
	const char *to = inside ? "other-region" : "internet";
	int64_t rate;

	if (inside && strcmp(from_region, to_region) == 0) {
		return 0;
	}
	rate = pair_rate(from_provider, from_region, to_provider, to_region);
	for (size_t i = 0; rate < 0 && i < egress_rates_n; i++) {
		const struct egress_rate *e = &egress_rates[i];

		if (strcmp(e->provider, from_provider) == 0 && strcmp(e->from, from_region) == 0 &&
		    strcmp(e->to, to) == 0) {
			rate = e->micros_per_gb;
		}
	}
	return rate < 0 ? EGRESS_UNKNOWN_MICROS : rate;
}
