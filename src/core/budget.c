/* What a start needs of a budget: the rules are in budget.h. */
#include "base/base.h"
#include "base/arena.h"
#include "core/budget.h"

int64_t budget_need(int64_t price_micros, int64_t start_us, int64_t end_us, const struct job_spec *s)
{
	__extension__ typedef __int128 wide;
	wide us = (wide)start_us + BUDGET_WORK_US + end_us + (wide)s->checkpoint.budget_s * SPOT_US_PER_S, need;

	assert(price_micros >= 0 && start_us >= 0 && end_us >= 0);
	need = ((wide)price_micros * us + SPOT_US_PER_HOUR - 1) / SPOT_US_PER_HOUR;
	return need > INT64_MAX ? INT64_MAX : (int64_t)need;
}

const char *budget_words(struct arena *a, int64_t left_micros, int64_t budget_micros)
{
	return arena_printf(a, "%.4f of %.4f USD", (double)MAX(left_micros, 0) / 1e6, (double)budget_micros / 1e6);
}
