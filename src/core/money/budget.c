/* Computes the budget that a start needs. The rules are in money.h. */
#include "base/base.h"
#include "core/money/money.h"

__extension__ typedef __int128 wide;

/* Returns the cost of work_us of work and of the machines' ends. */
static int64_t work_cost(int64_t price_micros, wide work_us, wide ends, int64_t end_us,
    const struct job_spec *s)
{
	wide us = work_us + ends * ((wide)end_us + (wide)s->checkpoint.budget_s * SPOT_US_PER_S),
	     need;

	assert(price_micros >= 0 && end_us >= 0);
	need = ((wide)price_micros * us + SPOT_US_PER_HOUR - 1) / SPOT_US_PER_HOUR;
	return need > INT64_MAX ? INT64_MAX : (int64_t)need;
}

int64_t budget_need(int64_t price_micros, int64_t start_us, int64_t end_us,
    const struct job_spec *s)
{
	assert(start_us >= 0);
	return work_cost(price_micros, (wide)start_us + BUDGET_WORK_US, 1, end_us, s);
}

int64_t budget_need_again(int64_t price_micros, int32_t nodes, size_t missing, int64_t end_us,
    const struct job_spec *s)
{
	return work_cost(price_micros, (wide)BUDGET_WORK_US * nodes, (wide)missing, end_us, s);
}

const char *budget_words(struct arena *a, int64_t left_micros, int64_t budget_micros)
{
	return arena_printf(a, "%.4f of %.4f USD", (double)MAX(left_micros, 0) / 1e6,
	    (double)budget_micros / 1e6);
}
