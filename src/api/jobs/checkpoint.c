/* GET /v1/checkpoints: one checkpoint and its chunks. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

static void checkpoint_done(struct areq *q)
{
	struct q_api_checkpoint_row *row;

	if (q_api_checkpoint_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no checkpoint 'c%" PRId64 "'", q->id);
		return;
	}
	areq_text(q, 200, row->doc);
}

void get_checkpoint(struct areq *q)
{
	SQL(q, api_checkpoint, checkpoint_done, .id = q->id);
}
