#include "base/base.h"
#include "agent/agent.h"

#define RETRY_AFTER_MAX_US (120 * SPOT_US_PER_S)
#define FAILURES_MAX 100

void agent_wake(struct agent *a, int64_t at_us)
{
	a->wake_us = MIN(a->wake_us, at_us);
}

int64_t agent_wall_us(struct agent *a)
{
	return a->clock->wall_us(a->clock);
}

void retry_fail(struct agent *a, struct retry *r, int64_t retry_after_us)
{
	static const struct backoff waits = { .first_us = 500000,
		.cap_us = 30 * SPOT_US_PER_S,
		.jitter = 0.5 };
	int64_t wait = backoff_wait_us(&waits, r->failures, &a->rng);

	r->failures = MIN(r->failures + 1, FAILURES_MAX);
	r->next_us = a->now_us + MAX(wait, MIN(retry_after_us, RETRY_AFTER_MAX_US));
}

void retry_clear(struct retry *r)
{
	*r = (struct retry){ 0 };
}

bool retry_due(struct agent *a, const struct retry *r)
{
	if (a->now_us >= r->next_us) {
		return true;
	}
	agent_wake(a, r->next_us);
	return false;
}
