/*
 * Logs of a job: bytes of one attempt, of one rank of it (0 unless said), from an offset on. The
 * reply's headers say where to go on: X-Log-Epoch and X-Log-Next belong into the next request. When
 * an attempt's log is read to its end and a later attempt exists, they name that one. X-Log-End: 1
 * means that no more will come.
 */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

#include "core/life/life.h"

#define HOLD_MAX_S 60
#define AGAIN_US (2 * SPOT_US_PER_S)

struct log_read {
	int64_t offset;
	int32_t epoch, rank;
};

static void log_reply(struct areq *q, int32_t epoch, int64_t next, bool end, const char *p,
    size_t n)
{
	httpd_set(q->http, "X-Log-Epoch", arena_printf(q->arena, "%d", epoch));
	httpd_set(q->http, "X-Log-Next", arena_printf(q->arena, "%" PRId64, next));
	if (end) {
		httpd_set(q->http, "X-Log-End", "1");
	}
	areq_reply(q, 200, "text/plain; charset=utf-8", p, n);
}

static void log_read(struct areq *q)
{
	struct log_read *l = q->own;
	struct q_api_job_log_row *row;
	bool over;

	if (q_api_job_log_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
		return;
	}
	if (l->rank >= row->num_nodes) {
		areq_fail(q, SPOT_NOT_FOUND, "job 'j%" PRId64 "' has ranks 0 to %d, not %d", q->id,
		    row->num_nodes - 1, l->rank);
		return;
	}
	if (row->has_at_offset && row->bytes.n > 0) {
		/* the first piece may begin before the offset; a hole (never written) begins after
		 * it */
		int64_t skip = MAX(l->offset - row->at_offset, 0),
			from = MAX(l->offset, row->at_offset);

		log_reply(q, row->epoch, from + (int64_t)row->bytes.n - skip, false,
		    row->bytes.p + skip, row->bytes.n - (size_t)skip);
		return;
	}
	over = job_state_final(row->state);
	if (row->ended && row->has_newer) {
		log_reply(q, row->newer, 0, false, "", 0);
		return;
	}
	if (!over && areq_park(q)) {
		return;
	}
	log_reply(q, row->epoch, l->offset, over, "", 0);
}

static void log_look(struct areq *q)
{
	struct log_read *l = q->own;

	SQL(q, api_job_log, log_read, .id = q->id, .epoch = l->epoch, .from_offset = l->offset,
	    .rank = l->rank);
}

void get_job_logs(struct areq *q)
{
	struct log_read *l = arena_alloc(q->arena, sizeof(*l));
	int64_t epoch, follow, rank;

	if (!areq_query_i64(q, "offset", 0, INT64_MAX / 2, 0, &l->offset) ||
	    !areq_query_i64(q, "epoch", 0, INT32_MAX, 0, &epoch) ||
	    !areq_query_i64(q, "rank", 0, INT32_MAX, 0, &rank) ||
	    !areq_query_i64(q, "follow_s", 0, HOLD_MAX_S, 0, &follow)) {
		return;
	}
	l->rank = (int32_t)rank;
	l->epoch = (int32_t)epoch;
	q->own = l;
	if (follow > 0) {
		areq_watch(q, 'j', q->id, follow * SPOT_US_PER_S, AGAIN_US, log_look);
	}
	log_look(q);
}
