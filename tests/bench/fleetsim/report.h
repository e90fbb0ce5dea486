/* The report of the simulation: results of policies and seeds as Markdown tables. */
#ifndef FLEETSIM_REPORT_H
#define FLEETSIM_REPORT_H

#include "sim.h"

#define POLICIES_MAX 20
#define SEEDS_MAX 100

struct column {
	const char *title;
	int digits;
	double (*of)(const struct fs_result *r);
};
/* Of single jobs: the money, and what happened. Of a fleet: both. */
enum report_columns { REPORT_MONEY = 1, REPORT_EVENTS, REPORT_FLEET };
const struct column *report_columns(enum report_columns which, size_t *ret_n);

/* Prints a row for each policy: the mean over the seeds with its standard error. ratio: adds the
 * price of work against the first policy. */
void report_table(const struct fs_brain *b, size_t policies_n, struct fs_result (*r)[SEEDS_MAX],
    size_t seeds, const struct column *columns, size_t columns_n, bool ratio);

/* Results of POLICIES_MAX policies, which all processes share. NULL: no memory. */
struct fs_result (*report_results(void))[SEEDS_MAX];
/* Runs every seed from 0 on, in two processes. Returns false if one fails. */
bool report_seeds(bool (*run)(const void *ctx, int64_t seed), const void *ctx, int64_t seeds);

#endif
