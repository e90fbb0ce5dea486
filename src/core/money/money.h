/* Money: the amounts of ledger lines, and budgets that bind. */
#ifndef CORE_MONEY_MONEY_H
#define CORE_MONEY_MONEY_H

#include "base/base.h"
#include "core/spec/spec.h"

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

/*
 * Budgets of jobs: the most that a job may cost, in micro-dollars, from its first machine to its
 * last. A budget binds before it is exceeded. Part of it is reserved for the time from the order to
 * stop until the machines' confirmed end (saving, stopping, ending).
 *
 * The declared bound: a job spends at most its budget, plus the price of its machines from then
 * until each is gone. No machine is added.
 *
 * The schema's job_spent() and job_budget_left() (migrations/0024, 0028) define spending and the
 * rest for all statements. This file computes the need of a start.
 */

/* From the end of a save to the end of the machine: 10 s for the job to stop and two minutes for
 * the cloud. The engine's budget_look_us (engine/engine.h) comes on top. */
#define BUDGET_END_US (130 * SPOT_US_PER_S)
/* A start that leaves no time to work is money thrown away. */
#define BUDGET_WORK_US INT64_C(300000000)

/* Returns the budget that a start needs: the machines' start, BUDGET_WORK_US of work, a save and
 * the machines' end. Parameter price_micros is their total price per hour. They are ready after
 * start_us, and end within end_us after a save. Rounds up; INT64_MAX on overflow. */
int64_t budget_need(int64_t price_micros, int64_t start_us, int64_t end_us,
    const struct job_spec *s);
/* Returns the budget needed to replace `missing` of a gang's nodes while the others are held. It
 * covers the work of all nodes at price_micros an hour each, a save, and the end of the missing
 * ones. The start is not included. The gang's first start already paid for it. Counting it twice
 * would give up a gang at the first refused machine. */
int64_t budget_need_again(int64_t price_micros, int32_t nodes, size_t missing, int64_t end_us,
    const struct job_spec *s);
/* "4.90 of 5.00 USD", in the arena. */
const char *budget_words(struct arena *a, int64_t left_micros, int64_t budget_micros);

#endif
