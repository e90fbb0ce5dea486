/*
 * Budgets of jobs: what one may cost in all, in micro-dollars, from its first machine to its last.
 * A budget binds before it is exceeded: of what is left, as much is kept back as its machines cost
 * from when they are told to stop until their end is confirmed (saving, stopping, ending), so what
 * is spent in the end is at most the budget, save for what takes longer than that or costs more by
 * then. That is the declared bound: the price of the machines that the job had when its budget was
 * used up, from that moment until each of them is gone; none is added.
 *
 * What has been spent, and what is left so reckoned, is job_spent() and job_budget_left() of the
 * schema (migrations/0024, 0028): one definition for the statements that look and for those that
 * guard. Here is what a start needs.
 */
#ifndef CORE_BUDGET_H
#define CORE_BUDGET_H

#include "base/base.h"
#include "core/spec/jobspec.h"

/* Between the end of a save and the end of a machine: the job's time to stop (10 s), and the
 * cloud's own time to end it, which two minutes nearly always are. The pause between two looks at
 * budgets comes on top (engine_conf.h budget_look_us). */
#define BUDGET_END_US (130 * SPOT_US_PER_S)
/* A start that leaves no time to work is money thrown away. */
#define BUDGET_WORK_US (300 * SPOT_US_PER_S)

/* What must be left of a budget to begin on machines of price_micros an hour in all, that take
 * start_us to be there and end_us to end after a save: their start, BUDGET_WORK_US of work, a save
 * and their end. Rounded up; INT64_MAX where it does not fit. */
int64_t budget_need(int64_t price_micros, int64_t start_us, int64_t end_us,
    const struct job_spec *s);
/* What must be left to seek missing of a gang's nodes machines again, at price_micros an hour each,
 * while the others wait for them (saving and ending those is kept back already): the work of all, a
 * save and the end of the missing ones. Their start was asked for when the gang was wanted, and is
 * being spent: asked for again, a gang that was just paid for would be given up with the first
 * machine that is refused. */
int64_t budget_need_again(int64_t price_micros, int32_t nodes, size_t missing, int64_t end_us,
    const struct job_spec *s);
/* "4.90 of 5.00 USD", in the arena. */
const char *budget_words(struct arena *a, int64_t left_micros, int64_t budget_micros);

#endif
