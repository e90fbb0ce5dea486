/*
 * Money from node lives and prices. Pure. A node's time [launched, ended) is cut at attempt
 * boundaries and at price changes. Each piece costs a difference of floors, so the parts sum to the
 * whole however the life is cut (o = launched):
 *
 *     amount(a, b) = floor(price * (b - o) / 3600e6) - floor(price * (a - o) / 3600e6)
 *
 * A provider's credit reverses each standing line with one of kind credit. The node's lines then
 * sum to zero.
 */
#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include "base/base.h"

struct arena;
/* ascending; the first covers the launch */
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
/* Returns the lines for [from_us, to_us) of one node, in the arena. A ready_us of 0 means never
 * ready. Parameter for_job is the job that the node was launched for, 0 = none. Boot and idle time
 * go to it. */
void ledger_cut(struct arena *a, int64_t origin_us, int64_t from_us, int64_t to_us,
    int64_t ready_us, int64_t for_job, const struct ledger_price *prices, size_t prices_n,
    const struct ledger_attempt *attempts, size_t attempts_n, struct ledger_line **ret,
    size_t *ret_n);

#endif
