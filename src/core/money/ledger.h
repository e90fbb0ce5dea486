/*
 * Money from node intervals and prices. Pure. A node's time [launched, ended) is cut at attempt
 * boundaries and at price changes; each piece costs floor-differences, so that however an interval
 * is cut the parts sum to the whole: amount(a,b) = floor(price*(b-o)/3600e6) -
 * floor(price*(a-o)/3600e6), o = launched. What a provider does not bill after all is taken back by
 * lines of kind credit, one per line that stands, so that a node's lines sum to nothing.
 */
#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include "base/base.h"

struct arena;
/* ascending; first covers launch */
struct ledger_price {
	int64_t from_us, price_micros, observed_us;
};
struct ledger_attempt {
	int64_t job_id;
	int32_t epoch;
	int64_t from_us, to_us; /* to 0 = still */
};
struct ledger_line {
	const char *kind; /* boot, compute, idle */
	int64_t job_id;
	int32_t epoch; /* 0 = none */
	int64_t from_us, to_us, price_micros, price_observed_us, amount_micros;
};
int64_t ledger_amount(int64_t origin_us, int64_t from_us, int64_t to_us, int64_t price_micros);
/* Lines for [from_us, to_us) of one node; ready_us 0 = never. for_job: the job it was launched for
 * (boot and idle are attributed to it), 0 = none. */
void ledger_cut(struct arena *a, int64_t origin_us, int64_t from_us, int64_t to_us,
    int64_t ready_us, int64_t for_job, const struct ledger_price *prices, size_t prices_n,
    const struct ledger_attempt *attempts, size_t attempts_n, struct ledger_line **ret,
    size_t *ret_n);

#endif
