/* Handlers that show one row, at once or when it changes. */
#include "base/base.h"
#include "api/server/server_priv.h"

#define HOLD_AGAIN_US SPOT_US_PER_S /* a notification may have been lost */

void areq_show(struct areq *q, int status, void (*look)(struct areq *))
{
	int *keep = arena_alloc(q->arena, sizeof(*keep));

	*keep = status;
	q->own = keep;
	look(q);
}

void areq_hold(struct areq *q, char kind, int64_t hold_max_s, void (*look)(struct areq *))
{
	int64_t hold;

	if (!areq_query_i64(q, "timeout_s", 0, hold_max_s, 0, &hold)) {
		return;
	}
	if (hold > 0) {
		areq_watch(q, kind, q->id, hold * SPOT_US_PER_S, HOLD_AGAIN_US, look);
	}
	areq_show(q, 200, look);
}
