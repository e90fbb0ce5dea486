/* Looks up the relative speed of GPUs and the cost of moving bytes. */
#include "base/base.h"
#include "core/spec/spec.h"
#include "core/rank/ranking.h"
#include "core/rank/tables.h"

#include <strings.h>

/* Price of a transfer that no row covers: the most expensive common internet tier of the five
 * providers. */
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

/* Hours after which the job's own step rates count as much as the table. */
#define TABLE_WEIGHT_H 0.5

static const struct gpu_ask *reference_gpu(const struct job_spec *spec)
{
	for (size_t i = 0; i < spec->asks_n; i++) {
		if (spec->asks[i].gpus_n > 0) {
			return &spec->asks[i].gpus[0];
		}
	}
	return NULL;
}

double gpu_speed_table(const struct job_spec *spec, const char *gpu)
{
	const struct gpu_ask *ref = reference_gpu(spec);

	return ref != NULL ? per_gpu_ratio(gpu, ref->gpu) : 1.0;
}

double rank_throughput(const struct job_spec *spec, const struct offer *o)
{
	const struct gpu_ask *ref = reference_gpu(spec);

	if (ref == NULL || o->gpu_milli <= 0 || ref->milli <= 0) {
		return 1.0;
	}
	return per_gpu_ratio(o->gpu_name, ref->gpu) * o->gpu_milli / ref->milli;
}

static bool rate_counts(const struct gpu_rate *r)
{
	return r->steps > 0 && r->hours > 0 && r->gpu_milli > 0;
}

/* Steps per hour of one reference GPU, as measured on it, or else on others by the table. 0: never
 * measured. */
static double reference_rate(const struct rank_job *job, const struct gpu_ask *ref,
    double *ret_hours)
{
	double on_ref = 0, on_ref_h = 0, by_table = 0, by_table_h = 0;

	for (size_t i = 0; i < job->rates_n; i++) {
		const struct gpu_rate *r = &job->rates[i];

		if (!rate_counts(r)) {
			continue;
		}
		if (gpu_matches(ref->gpu, r->gpu)) {
			on_ref += r->steps / (r->gpu_milli / 1000.0);
			on_ref_h += r->hours;
		} else {
			by_table +=
			    r->steps / (r->gpu_milli / 1000.0) / per_gpu_ratio(r->gpu, ref->gpu);
			by_table_h += r->hours;
		}
	}
	*ret_hours = on_ref_h > 0 ? on_ref_h : by_table_h;
	return on_ref_h > 0 ? on_ref / on_ref_h : by_table_h > 0 ? by_table / by_table_h : 0;
}

double gpu_speed(const struct rank_job *job, const char *gpu, double *ret_measured_h)
{
	const struct gpu_ask *ref = reference_gpu(job->spec);
	double table = gpu_speed_table(job->spec, gpu), steps = 0, hours = 0, ref_hours, rate;

	*ret_measured_h = 0;
	if (ref == NULL) {
		return table;
	}
	for (size_t i = 0; i < job->rates_n; i++) {
		const struct gpu_rate *r = &job->rates[i];

		if (rate_counts(r) && strcasecmp(r->gpu, gpu) == 0) {
			steps += r->steps / (r->gpu_milli / 1000.0);
			hours += r->hours;
		}
	}
	rate = reference_rate(job, ref, &ref_hours);
	if (hours <= 0 || rate <= 0) {
		return table;
	}
	*ret_measured_h = hours;
	return (table * TABLE_WEIGHT_H + steps / rate) / (TABLE_WEIGHT_H + hours);
}

/* A line is "GPU milli steps hours". The name stays in the line. */
static bool rate_parse(char *line, struct gpu_rate *ret)
{
	char *milli = line + strcspn(line, " "), *steps, *hours, *end;
	long m;

	if (milli == line || *milli == '\0') {
		return false;
	}
	*milli++ = '\0';
	m = strtol(milli, &steps, 10);
	ret->gpu = line;
	ret->gpu_milli = (int32_t)m;
	ret->steps = strtod(steps, &hours);
	ret->hours = strtod(hours, &end);
	return steps != milli && hours != steps && end != hours && m >= 0 && m <= INT32_MAX;
}

size_t gpu_rates_parse(struct arena *a, const char *text, const struct gpu_rate **ret)
{
	struct gpu_rate *list = NULL;
	size_t n = 0, cap = 0;

	while (text != NULL && *text != '\0') {
		const char *end = strchr(text, '\n');
		char *line =
		    arena_strndup(a, text, end != NULL ? (size_t)(end - text) : strlen(text));
		struct gpu_rate r;

		if (rate_parse(line, &r)) {
			list = arena_grow(a, list, n, &cap, sizeof(*list));
			list[n++] = r;
		}
		text = end != NULL ? end + 1 : NULL;
	}
	*ret = list;
	return n;
}

int64_t rank_work_left_s(const struct rank_job *job, int64_t steps_left, int64_t declared_s)
{
	const struct gpu_ask *ref = reference_gpu(job->spec);
	double hours = 0, rate, measured_s;

	if (ref == NULL || steps_left <= 0 || ref->milli <= 0) {
		return declared_s;
	}
	rate = reference_rate(job, ref, &hours);
	if (rate <= 0) {
		return declared_s;
	}
	measured_s = (double)steps_left / (rate * ref->milli / 1000.0) * 3600.0;
	if (declared_s > 0) {
		measured_s = ((double)declared_s * TABLE_WEIGHT_H + measured_s * hours) /
		    (TABLE_WEIGHT_H + hours);
	}
	return MAX((int64_t)measured_s, 1);
}

static int pair_compare(const struct egress_pair *p, const char *fp, const char *fr, const char *tp,
    const char *tr)
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

int64_t egress_micros_per_gb(const char *from_provider, const char *from_region,
    const char *to_provider, const char *to_region)
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
