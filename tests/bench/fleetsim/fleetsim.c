/*
 * fleetsim TRACES_DIR CATALOG_DIR JOBS_CSV [--seeds N] [--ablations SEEDS] [--jobs N] [--days N]
 * [--only NAME]
 *
 * A whole fleet through recorded markets by every policy, the same jobs, world and luck for all:
 * the Markdown of README.md.
 */
#include "bench.h"

#include "brains.h"
#include "load.h"

#include "base/base.h"
#include "base/text/text.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLICIES_MAX 20
#define SEEDS_MAX 100
#define WORKERS 2 /* processes: seeds know nothing of each other */
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
	const char *only;
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

/* ---- the table ------------------------------------------------------------------------------- */

struct column {
	const char *title;
	int digits;
	double (*of)(const struct fs_result *r);
};

static double c_dollars(const struct fs_result *r)
{
	return (double)r->dollars_micros / 1e6;
}
static double c_per_hour(const struct fs_result *r)
{
	return (double)r->dollars_micros / 1e6 / r->work_h;
}
static double c_spot(const struct fs_result *r)
{
	return 100.0 * (double)r->spot_micros / (double)MAX(r->node_micros, 1);
}
static double c_p50(const struct fs_result *r)
{
	return r->slow_p50;
}
static double c_p95(const struct fs_result *r)
{
	return r->slow_p95;
}
static double c_turn50(const struct fs_result *r)
{
	return r->turn_p50_h;
}
static double c_turn95(const struct fs_result *r)
{
	return r->turn_p95_h;
}
static double c_miss(const struct fs_result *r)
{
	return (double)r->misses;
}
static double c_moves(const struct fs_result *r)
{
	return (double)r->moves;
}
static double c_reclaims(const struct fs_result *r)
{
	return (double)r->reclaims;
}
static double c_lost(const struct fs_result *r)
{
	return r->lost_h;
}
static double c_wait(const struct fs_result *r)
{
	return r->wait_h;
}
static double c_refused(const struct fs_result *r)
{
	return (double)r->refused;
}
static double c_starts(const struct fs_result *r)
{
	return (double)r->starts;
}
static double c_egress(const struct fs_result *r)
{
	return (double)r->egress_micros / 1e6;
}

static const struct column money[] = {
	{"USD", 0, c_dollars}, {"USD per GPU-hour of work", 3, c_per_hour},
	{"node dollars on spot, %", 0, c_spot},
	{"deadlines missed", 1, c_miss}, {"finish p50, h", 2, c_turn50}, {"p95, h", 1, c_turn95},
	{"finish / work p50", 2, c_p50}, {"p95", 2, c_p95},
}, events[] = {
	{"moves", 1, c_moves}, {"reclaims", 0, c_reclaims}, {"lost work, h", 1, c_lost},
	{"waited, h", 1, c_wait},
	{"refused launches", 0, c_refused}, {"starts", 0, c_starts}, {"egress, USD", 0, c_egress},
};

static void mean_se(const struct fs_result *r, size_t n, double (*of)(const struct fs_result *),
    double *mean, double *se)
{
	double sum = 0, squares = 0;

	for (size_t i = 0; i < n; i++) {
		sum += of(&r[i]);
	}
	*mean = sum / (double)n;
	for (size_t i = 0; i < n; i++) {
		squares += pow(of(&r[i]) - *mean, 2);
	}
	*se = n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : 0;
}

/* Against the first policy, seed by seed: a seed's common luck falls out. */
static void ratio_print(const struct fs_result *r, const struct fs_result *first, size_t seeds)
{
	double sum = 0, squares = 0;

	for (size_t k = 0; k < seeds; k++) {
		double x = c_per_hour(&r[k]) / c_per_hour(&first[k]);

		sum += x / (double)seeds;
		squares += x * x / (double)seeds;
	}
	printf(" %.3f ± %.3f |", sum,
	    seeds > 1 ? sqrt(fmax(squares - sum * sum, 0) / (double)(seeds - 1)) : 0.0);
}

static void table_print(const struct fs_brain *b, size_t policies_n,
    struct fs_result (*r)[SEEDS_MAX], size_t seeds, const struct column *columns, size_t columns_n,
    bool ratio)
{
	double mean, se;

	printf("| policy |%s", ratio ? " USD, ours = 1 |" : "");
	for (size_t c = 0; c < columns_n; c++) {
		printf(" %s |", columns[c].title);
	}
	printf("\n|---|%s", ratio ? "---|" : "");
	for (size_t c = 0; c < columns_n; c++) {
		printf("---|");
	}
	printf("\n");
	for (size_t i = 0; i < policies_n; i++) {
		printf("| %s |", b[i].name);
		if (ratio) {
			ratio_print(r[i], r[0], seeds);
		}
		for (size_t c = 0; c < columns_n; c++) {
			mean_se(r[i], seeds, columns[c].of, &mean, &se);
			printf(" %.*f ± %.*f |", columns[c].digits, mean, columns[c].digits, se);
		}
		printf("\n");
	}
}

static void both_tables(const struct fs_brain *b, size_t n, struct fs_result (*r)[SEEDS_MAX],
    size_t seeds)
{
	table_print(b, n, r, seeds, money, ARRAY_LEN(money), true);
	printf("\n");
	table_print(b, n, r, seeds, events, ARRAY_LEN(events), false);
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
	    seed, b->name, c_dollars(r), (int)r->misses, (int)r->deadlines, (int)r->reclaims,
	    r->lost_h, (int)r->unfinished, (double)us / 1e6);
}

/* ---- running --------------------------------------------------------------------------------- */

static bool seed_run(const struct fs_data *d, const struct options *o, uint64_t seed,
    const struct fs_brain *b, size_t n, struct fs_result (*ret)[SEEDS_MAX], size_t at)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fs_world *w = arena_alloc(a, sizeof(*w));

	if (!fs_world_make(a, d,
		&(struct fs_plan){ .seed = seed, .jobs = (int32_t)o->jobs, .days = o->days }, w)) {
		fprintf(stderr, "seed %" PRIu64 ": no jobs\n", seed);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		AUTO(arena) struct arena *run = arena_new(0);
		int64_t began = bench_us();
		struct fs_sim s;

		fs_run(run, w, &b[i], HORIZON_US, &s);
		fs_result(run, &s, &ret[i][at]);
		seed_line(seed, &b[i], &ret[i][at], bench_us() - began);
	}
	return true;
}

static bool worker_run(const struct fs_data *d, const struct options *o, const struct fs_brain *b,
    size_t n, struct fs_result (*ret)[SEEDS_MAX], int64_t seeds, int64_t first)
{
	for (int64_t k = first; k < seeds; k += WORKERS) {
		if (!seed_run(d, o, (uint64_t)k + 1, b, n, ret, (size_t)k)) {
			return false;
		}
	}
	return true;
}

static bool all_run(const struct fs_data *d, const struct options *o, const struct fs_brain *b,
    size_t n, struct fs_result (*ret)[SEEDS_MAX], int64_t seeds)
{
	bool good = true;
	int status;

	(void)fflush(NULL);
	for (int64_t i = 0; i < WORKERS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			_exit(worker_run(d, o, b, n, ret, seeds, i) ? 0 : 1);
		}
		good = good && pid > 0;
	}
	while (wait(&status) > 0) {
		good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	}
	return good;
}

static bool options_read(int argc, char **argv, struct options *o)
{
	*o = (struct options){ .seeds = 10, .ablations = 4, .jobs = 120, .days = 3 };
	for (int i = 4; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--seeds") == 0 &&
		    parse_i64(argv[i + 1], 1, SEEDS_MAX, &o->seeds)) {
			continue;
		}
		if (strcmp(argv[i], "--ablations") == 0 &&
		    parse_i64(argv[i + 1], 1, SEEDS_MAX, &o->ablations)) {
			continue;
		}
		if (strcmp(argv[i], "--jobs") == 0 && parse_i64(argv[i + 1], 1, 100000, &o->jobs)) {
			continue;
		}
		if (strcmp(argv[i], "--days") == 0 && parse_i64(argv[i + 1], 1, 50, &o->days)) {
			continue;
		}
		if (strcmp(argv[i], "--only") != 0) {
			return false;
		}
		o->only = argv[i + 1];
	}
	return argc >= 4 && argc % 2 == 0;
}

int main(int argc, char **argv)
{
	struct fs_result(*results)[SEEDS_MAX];
	AUTO(arena) struct arena *a = arena_new(0);
	struct fs_brain brains[POLICIES_MAX];
	const struct fs_data *d;
	struct options o;
	size_t n;

	if (!options_read(argc, argv, &o)) {
		fprintf(stderr,
		    "usage: fleetsim TRACES_DIR CATALOG_DIR JOBS_CSV [--seeds N] [--ablations "
		    "SEEDS] [--jobs N] [--days N] [--only NAME]\n");
		return 2;
	}
	d = fs_load(a, argv[1], argv[2], argv[3]);
	if (d == NULL) {
		return 1;
	}
	n = policies_fill(brains);
	for (size_t i = 0; o.only != NULL && i < n; i++) {
		if (strcmp(brains[i].name, o.only) == 0) {
			brains[0] = brains[i];
			n = 1;
		}
	}
	results = mmap(NULL, POLICIES_MAX * sizeof(*results), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED || !all_run(d, &o, brains, MIN(n, COMPARED), results, o.seeds)) {
		fprintf(stderr, "a run failed\n");
		return 1;
	}
	report_print(d, &o, brains, MIN(n, COMPARED), results);
	if (n <= COMPARED) {
		return 0;
	}
	o.ablations = MIN(o.ablations, o.seeds);
	if (!all_run(d, &o, &brains[COMPARED], n - COMPARED, &results[COMPARED], o.ablations)) {
		fprintf(stderr, "a run failed\n");
		return 1;
	}
	printf("\nThe first %" PRId64
	       " of these seeds, and what each part of ours is worth in them:\n\n",
	    o.ablations);
	brains[COMPARED - 1] = brains[0];
	memcpy(results[COMPARED - 1], results[0], sizeof(results[0]));
	both_tables(&brains[COMPARED - 1], n - COMPARED + 1, &results[COMPARED - 1],
	    (size_t)o.ablations);
	return 0;
}
