/*
 * fleetsim TRACES_DIR CATALOG_DIR JOBS_CSV [--seeds N] [--jobs N] [--days N] [--only NAME]
 *
 * A whole fleet through recorded markets by every policy, the same jobs, world and luck for all: the Markdown of README.md.
 */
#include "bench.h"

#include "brains.h"
#include "load.h"

#include "base/arena.h"
#include "base/str.h"

#include <math.h>

#define POLICIES_MAX 16
#define SEEDS_MAX 100
#define HORIZON_US (60 * 24 * SPOT_US_PER_HOUR)

static const struct ours_conf whole, no_hazards = {.no_hazards = true}, no_odds = {.no_odds = true},
    no_return = {.no_return = true}, no_deadline = {.no_deadline = true}, no_rebalance = {.no_rebalance = true},
    no_defer = {.no_defer = true}, fixed_interval = {.fixed_interval = true};
static const struct base_conf on_demand = {.kind = BASE_ON_DEMAND}, eager = {.kind = BASE_EAGER},
    failover = {.kind = BASE_FAILOVER}, eager_any = {.kind = BASE_EAGER, .or_on_demand = true},
    failover_any = {.kind = BASE_FAILOVER, .or_on_demand = true};

struct options { int64_t seeds, jobs, days; const char *only; };

static size_t policies(struct fs_brain *ret)
{
	size_t n = 0;

	ours_brain("Spotbroker", &whole, &ret[n++]);
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

/* ---- the table ----------------------------------------------------------------------------------------- */

struct column { const char *title; int digits; double (*of)(const struct fs_result *r); };

static double c_dollars(const struct fs_result *r) { return (double)r->dollars_micros / 1e6; }
static double c_per_hour(const struct fs_result *r) { return (double)r->dollars_micros / 1e6 / r->work_h; }
static double c_spot(const struct fs_result *r) { return 100.0 * (double)r->spot_micros / (double)MAX(r->node_micros, 1); }
static double c_p50(const struct fs_result *r) { return r->slow_p50; }
static double c_p95(const struct fs_result *r) { return r->slow_p95; }
static double c_turn50(const struct fs_result *r) { return r->turn_p50_h; }
static double c_turn95(const struct fs_result *r) { return r->turn_p95_h; }
static double c_miss(const struct fs_result *r) { return (double)r->misses; }
static double c_moves(const struct fs_result *r) { return (double)r->moves; }
static double c_reclaims(const struct fs_result *r) { return (double)r->reclaims; }
static double c_lost(const struct fs_result *r) { return r->lost_h; }
static double c_wait(const struct fs_result *r) { return r->wait_h; }
static double c_refused(const struct fs_result *r) { return (double)r->refused; }
static double c_egress(const struct fs_result *r) { return (double)r->egress_micros / 1e6; }

static const struct column columns[] = {
	{"USD", 0, c_dollars}, {"USD per GPU-hour of work", 3, c_per_hour}, {"of it egress, USD", 0, c_egress},
	{"% of node dollars on spot", 0, c_spot}, {"finish p50, h", 2, c_turn50}, {"p95, h", 1, c_turn95},
	{"finish / work p50", 2, c_p50}, {"p95", 2, c_p95}, {"deadlines missed", 1, c_miss}, {"moves", 1, c_moves},
	{"reclaims", 1, c_reclaims}, {"lost work, h", 1, c_lost}, {"waited, h", 1, c_wait}, {"refused launches", 0, c_refused},
};

static void mean_se(const struct fs_result *r, size_t n, double (*of)(const struct fs_result *), double *mean, double *se)
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

static void table(const struct fs_brain *b, size_t policies_n, struct fs_result (*r)[SEEDS_MAX], size_t seeds)
{
	double mean, se;

	printf("| policy |");
	for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
		printf(" %s |", columns[c].title);
	}
	printf(" USD against Spotbroker, same seed |\n|---|");
	for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
		printf("---|");
	}
	printf("---|\n");
	for (size_t i = 0; i < policies_n; i++) {
		double ratio = 0, squares = 0;

		printf("| %s |", b[i].name);
		for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
			mean_se(r[i], seeds, columns[c].of, &mean, &se);
			printf(" %.*f ± %.*f |", columns[c].digits, mean, columns[c].digits, se);
		}
		for (size_t k = 0; k < seeds; k++) {
			double x = c_per_hour(&r[i][k]) / c_per_hour(&r[0][k]);

			ratio += x / (double)seeds;
			squares += x * x / (double)seeds;
		}
		printf(" %.3f ± %.3f |\n", ratio,
		    seeds > 1 ? sqrt(fmax(squares - ratio * ratio, 0) / (double)(seeds - 1)) : 0.0);
	}
}

static void seed_line(uint64_t seed, const struct fs_brain *b, const struct fs_result *r, int64_t us)
{
	fprintf(stderr, "seed %" PRIu64 " %-48s %9.2f USD, %3d of %3d deadlines missed, %4d reclaims, %5.1f h lost, %4d unfinished, "
	    "%.1f s\n", seed, b->name, c_dollars(r), (int)r->misses, (int)r->deadlines, (int)r->reclaims, r->lost_h,
	    (int)r->unfinished, (double)us / 1e6);
}

/* ---- running --------------------------------------------------------------------------------------------- */

static bool seed_run(const struct fs_data *d, const struct options *o, uint64_t seed, const struct fs_brain *b, size_t n,
    struct fs_result (*ret)[SEEDS_MAX], size_t at, struct fs_world *w)
{
	AUTO(arena) struct arena *a = arena_new(0);

	if (!fs_world_make(a, d, &(struct fs_plan){.seed = seed, .jobs = (int32_t)o->jobs, .days = o->days}, w)) {
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

static bool options_read(int argc, char **argv, struct options *o)
{
	*o = (struct options){.seeds = 12, .jobs = 400, .days = 7};
	for (int i = 4; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--seeds") == 0 && parse_i64(argv[i + 1], 1, SEEDS_MAX, &o->seeds)) {
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
	static struct fs_result results[POLICIES_MAX][SEEDS_MAX];
	AUTO(arena) struct arena *a = arena_new(0);
	struct fs_brain brains[POLICIES_MAX];
	const struct fs_data *d;
	static struct fs_world w;
	struct options o;
	size_t n, rows, used;

	if (!options_read(argc, argv, &o)) {
		fprintf(stderr, "usage: fleetsim TRACES_DIR CATALOG_DIR JOBS_CSV [--seeds N] [--jobs N] [--days N] [--only NAME]\n");
		return 2;
	}
	d = fs_load(a, argv[1], argv[2], argv[3]);
	if (d == NULL) {
		return 1;
	}
	n = policies(brains);
	for (size_t i = 0; o.only != NULL && i < n; i++) {
		if (strcmp(brains[i].name, o.only) == 0) {
			brains[0] = brains[i];
			n = 1;
		}
	}
	for (int64_t k = 0; k < o.seeds; k++) {
		if (!seed_run(d, &o, (uint64_t)k + 1, brains, n, results, (size_t)k, &w)) {
			return 1;
		}
	}
	fs_data_words(d, &rows, &used);
	printf("%" PRId64 " seeds, up to %" PRId64 " jobs submitted in %" PRId64 " days each (drawn from %zu of %zu jobs of the list), "
	    "mean ± standard error.\n\n", o.seeds, o.jobs, o.days, used, rows);
	table(brains, n, results, (size_t)o.seeds);
	return 0;
}
