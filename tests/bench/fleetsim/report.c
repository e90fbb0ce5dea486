/* Tables of results, and seeds in several processes: see report.h. */
#include "base/base.h"

#include "report.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 2 /* processes: seeds know nothing of each other */

/* ---- columns --------------------------------------------------------------------------------- */

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

static double c_short(const struct fs_result *r)
{
	return r->short_h;
}

const struct column *report_columns(enum report_columns which, size_t *ret_n)
{
	static const struct column money[] = {
		{ "USD", 0, c_dollars },
		{ "USD per GPU-hour of work", 3, c_per_hour },
		{ "node dollars on spot, %", 0, c_spot },
		{ "deadlines missed", 1, c_miss },
		{ "finish p50, h", 2, c_turn50 },
		{ "p95, h", 1, c_turn95 },
		{ "finish / work p50", 2, c_p50 },
		{ "p95", 2, c_p95 },
	};
	static const struct column events[] = {
		{ "moves", 1, c_moves },
		{ "reclaims", 0, c_reclaims },
		{ "lost work, h", 1, c_lost },
		{ "waited, h", 1, c_wait },
		{ "refused launches", 0, c_refused },
		{ "starts", 0, c_starts },
		{ "egress, USD", 0, c_egress },
	};
	static const struct column fleet[] = {
		{ "USD", 0, c_dollars },
		{ "USD per GPU-hour of work", 3, c_per_hour },
		{ "node dollars on spot, %", 0, c_spot },
		{ "moves", 1, c_moves },
		{ "reclaims", 0, c_reclaims },
		{ "lost work, h", 1, c_lost },
		{ "node-hours below the wanted size", 1, c_short },
		{ "refused launches", 0, c_refused },
		{ "waited, h", 1, c_wait },
		{ "egress, USD", 0, c_egress },
	};

	*ret_n = which == REPORT_MONEY ? ARRAY_LEN(money)
	    : which == REPORT_EVENTS   ? ARRAY_LEN(events)
				       : ARRAY_LEN(fleet);
	return which == REPORT_MONEY ? money : which == REPORT_EVENTS ? events : fleet;
}

/* ---- tables ---------------------------------------------------------------------------------- */

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

void report_table(const struct fs_brain *b, size_t policies_n, struct fs_result (*r)[SEEDS_MAX],
    size_t seeds, const struct column *columns, size_t columns_n, bool ratio)
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

/* ---- seeds ----------------------------------------------------------------------------------- */

struct fs_result (*report_results(void))[SEEDS_MAX]
{
	void *p = mmap(NULL, (size_t)POLICIES_MAX * SEEDS_MAX * sizeof(struct fs_result),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED ? p : NULL;
}

static bool worker_run(bool (*run)(const void *ctx, int64_t seed), const void *ctx, int64_t seeds,
    int64_t first)
{
	for (int64_t k = first; k < seeds; k += WORKERS) {
		if (!run(ctx, k)) {
			return false;
		}
	}
	return true;
}

bool report_seeds(bool (*run)(const void *ctx, int64_t seed), const void *ctx, int64_t seeds)
{
	bool good = true;
	int status;

	(void)fflush(NULL);
	for (int64_t i = 0; i < WORKERS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			_exit(worker_run(run, ctx, seeds, i) ? 0 : 1);
		}
		good = good && pid > 0;
	}
	while (wait(&status) > 0) {
		good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	}
	return good;
}
