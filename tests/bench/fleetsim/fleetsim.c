/*
 * fleetsim TRACES_DIR CATALOG_DIR JOBS_CSV [--fleet FILE] [--seeds N] [--ablations SEEDS]
 * [--jobs N] [--days N] [--only NAME]
 *
 * A whole fleet through recorded markets by every policy, the same jobs, world and luck for all:
 * the Markdown of README.md.
 */
#include "bench.h"

#include "brains.h"
#include "fleets/fleets.h"
#include "load.h"
#include "report.h"

#include "base/base.h"
#include "base/text/text.h"

#define HORIZON_US (60 * 24 * SPOT_US_PER_HOUR)

static const struct ours_conf whole,
    no_hazards = { .no_hazards = true }, no_odds = { .no_odds = true },
    no_return = { .no_return = true }, no_deadline = { .no_deadline = true },
    no_rebalance = { .no_rebalance = true }, no_defer = { .no_defer = true },
    fixed_interval = { .fixed_interval = true }, patient_1h = { .patience_us = SPOT_US_PER_HOUR },
    patient_6h = { .patience_us = 6 * SPOT_US_PER_HOUR },
    patient_1d = { .patience_us = 24 * SPOT_US_PER_HOUR },
    patient_7d = { .patience_us = 7 * 24 * SPOT_US_PER_HOUR };
static const struct base_conf on_demand = { .kind = BASE_ON_DEMAND },
			      eager = { .kind = BASE_EAGER }, failover = { .kind = BASE_FAILOVER },
			      eager_any = { .kind = BASE_EAGER, .or_on_demand = true },
			      failover_any = { .kind = BASE_FAILOVER, .or_on_demand = true };

struct options {
	int64_t seeds, ablations, jobs, days;
	const char *only, *fleet; /* fleet: file of a fleet to hold; NULL = single jobs */
};
/* So many policies are compared; behind them stand variants of ours without one part. */
#define COMPARED 10

static size_t policies_fill(struct fs_brain *ret)
{
	size_t n = 0;

	ours_brain("Spotbroker", &whole, &ret[n++]);
	ours_brain("Spotbroker, patience = 1h", &patient_1h, &ret[n++]);
	ours_brain("Spotbroker, patience = 6h", &patient_6h, &ret[n++]);
	ours_brain("Spotbroker, patience = 1d", &patient_1d, &ret[n++]);
	ours_brain("Spotbroker, patience = 7d", &patient_7d, &ret[n++]);
	base_brain("cheapest, EAGER_NEXT_REGION, spot or on demand", &eager_any, &ret[n++]);
	base_brain("cheapest, FAILOVER, spot or on demand", &failover_any, &ret[n++]);
	base_brain("cheapest, EAGER_NEXT_REGION, spot only", &eager, &ret[n++]);
	base_brain("cheapest, FAILOVER, spot only", &failover, &ret[n++]);
	base_brain("on demand only", &on_demand, &ret[n++]);
	ours_brain("without hazards", &no_hazards, &ret[n++]);
	ours_brain("without odds of a launch", &no_odds, &ret[n++]);
	ours_brain("without return to spot", &no_return, &ret[n++]);
	ours_brain("without rebalancing", &no_rebalance, &ret[n++]);
	ours_brain("without deadline policy", &no_deadline, &ret[n++]);
	ours_brain("without deferral", &no_defer, &ret[n++]);
	ours_brain("saved every 30 min", &fixed_interval, &ret[n++]);
	ours_brain("deaf to notices", &whole, &ret[n]);
	ret[n++].hears_notice = false;
	return n;
}

static void both_tables(const struct fs_brain *b, size_t n, struct fs_result (*r)[SEEDS_MAX],
    size_t seeds)
{
	size_t money_n, events_n;
	const struct column *money = report_columns(REPORT_MONEY, &money_n),
			    *events = report_columns(REPORT_EVENTS, &events_n);

	report_table(b, n, r, seeds, money, money_n, true);
	printf("\n");
	report_table(b, n, r, seeds, events, events_n, false);
}

static void report_print(const struct fs_data *d, const struct options *o, const struct fs_brain *b,
    size_t n, struct fs_result (*r)[SEEDS_MAX])
{
	size_t rows, used, seeds = (size_t)o->seeds;
	double due = 0, work = 0;

	fs_data_words(d, &rows, &used);
	for (size_t k = 0; k < seeds; k++) {
		due += (double)r[0][k].deadlines / (double)seeds;
		work += r[0][k].work_h / (double)seeds;
	}
	printf("%zu seeds, up to %" PRId64 " jobs submitted in %" PRId64
	       " days each (drawn from %zu of the list's %zu), in the mean %.0f "
	       "GPU-hours of work and %.1f jobs with a deadline. Mean over seeds ± standard "
	       "error.\n\n",
	    seeds, o->jobs, o->days, used, rows, work, due);
	both_tables(b, n, r, seeds);
}

static void seed_line(uint64_t seed, const struct fs_brain *b, const struct fs_result *r,
    int64_t us)
{
	fprintf(stderr,
	    "seed %" PRIu64 " %-48s %9.2f USD, %3d of %3d deadlines missed, %4d reclaims, %5.1f h "
	    "lost, %4d unfinished, "
	    "%.1f s\n",
	    seed, b->name, (double)r->dollars_micros / 1e6, (int)r->misses, (int)r->deadlines,
	    (int)r->reclaims, r->lost_h, (int)r->unfinished, (double)us / 1e6);
}

/* ---- running --------------------------------------------------------------------------------- */

struct running {
	const struct fs_data *d;
	const struct options *o;
	const struct fs_brain *brains;
	size_t n;
	struct fs_result (*results)[SEEDS_MAX];
};

static bool seed_run(const void *ctx, int64_t at)
{
	const struct running *x = ctx;
	AUTO(arena) struct arena *a = arena_new(0);
	struct fs_world *w = arena_alloc(a, sizeof(*w));
	uint64_t seed = (uint64_t)at + 1;

	if (!fs_world_make(a, x->d,
		&(struct fs_plan){ .seed = seed, .jobs = (int32_t)x->o->jobs, .days = x->o->days },
		w)) {
		fprintf(stderr, "seed %" PRIu64 ": no jobs\n", seed);
		return false;
	}
	for (size_t i = 0; i < x->n; i++) {
		AUTO(arena) struct arena *run = arena_new(0);
		int64_t began = bench_us();
		struct fs_sim s;

		fs_run(run, w, &x->brains[i], HORIZON_US, &s);
		fs_result(run, &s, &x->results[i][at]);
		seed_line(seed, &x->brains[i], &x->results[i][at], bench_us() - began);
	}
	return true;
}

static bool all_run(const struct fs_data *d, const struct options *o, const struct fs_brain *b,
    size_t n, struct fs_result (*ret)[SEEDS_MAX], int64_t seeds)
{
	return report_seeds(seed_run, &(struct running){ d, o, b, n, ret }, seeds);
}

static bool number_read(const char *key, const char *value, struct options *o)
{
	const struct {
		const char *key;
		int64_t most, *into;
	} numbers[] = { { "--seeds", SEEDS_MAX, &o->seeds },
		{ "--ablations", SEEDS_MAX, &o->ablations }, { "--jobs", 100000, &o->jobs },
		{ "--days", 50, &o->days } };

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		if (strcmp(key, numbers[i].key) == 0) {
			return parse_i64(value, 1, numbers[i].most, numbers[i].into);
		}
	}
	return false;
}

static bool options_read(int argc, char **argv, struct options *o)
{
	*o = (struct options){ .ablations = 4 };
	for (int i = 4; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--only") == 0) {
			o->only = argv[i + 1];
		} else if (strcmp(argv[i], "--fleet") == 0) {
			o->fleet = argv[i + 1];
		} else if (!number_read(argv[i], argv[i + 1], o)) {
			return false;
		}
	}
	/* A fleet keeps about 40 % of the jobs: those of its GPU and one machine. */
	o->seeds = o->seeds > 0 ? o->seeds : 10;
	o->days = o->days > 0 ? o->days : o->fleet != NULL ? 7 : 3;
	o->jobs = o->jobs > 0 ? o->jobs : o->fleet != NULL ? 50 * o->days : 120;
	return argc >= 4 && argc % 2 == 0;
}

static int jobs_report(const struct fs_data *d, struct options *o)
{
	struct fs_result(*results)[SEEDS_MAX] = report_results();
	struct fs_brain brains[POLICIES_MAX];
	size_t n = policies_fill(brains);

	for (size_t i = 0; o->only != NULL && i < n; i++) {
		if (strcmp(brains[i].name, o->only) == 0) {
			brains[0] = brains[i];
			n = 1;
		}
	}
	if (results == NULL || !all_run(d, o, brains, MIN(n, COMPARED), results, o->seeds)) {
		fprintf(stderr, "a run failed\n");
		return 1;
	}
	report_print(d, o, brains, MIN(n, COMPARED), results);
	if (n <= COMPARED) {
		return 0;
	}
	o->ablations = MIN(o->ablations, o->seeds);
	if (!all_run(d, o, &brains[COMPARED], n - COMPARED, &results[COMPARED], o->ablations)) {
		fprintf(stderr, "a run failed\n");
		return 1;
	}
	printf("\nThe first %" PRId64
	       " of these seeds, and what each part of ours is worth in them:\n\n",
	    o->ablations);
	brains[COMPARED - 1] = brains[0];
	memcpy(results[COMPARED - 1], results[0], sizeof(results[0]));
	both_tables(&brains[COMPARED - 1], n - COMPARED + 1, &results[COMPARED - 1],
	    (size_t)o->ablations);
	return 0;
}

int main(int argc, char **argv)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct fs_data *d;
	struct options o;

	if (!options_read(argc, argv, &o)) {
		fprintf(stderr,
		    "usage: fleetsim TRACES_DIR CATALOG_DIR JOBS_CSV [--fleet FILE] [--seeds N] "
		    "[--ablations SEEDS] [--jobs N] [--days N] [--only NAME]\n");
		return 2;
	}
	d = fs_load(a, argv[1], argv[2], argv[3]);
	if (d == NULL) {
		return 1;
	}
	return o.fleet != NULL ? fleets_report(d,
				     &(struct fleets_conf){ .file = o.fleet,
					 .only = o.only,
					 .seeds = o.seeds,
					 .jobs = (int32_t)o.jobs,
					 .days = o.days })
			       : jobs_report(d, &o);
}
