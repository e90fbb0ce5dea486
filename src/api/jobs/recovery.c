/* The report of recoveries by provider. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

#define REPORT_US (30 * 24 * SPOT_US_PER_HOUR)

static void recovery_done(struct areq *q)
{
	struct q_api_recovery_report_row *row;

	if (q_api_recovery_report_rows(&q->pg, q->arena, &row) == 1) {
		areq_text(q, 200, row->doc);
	}
}

void get_recovery(struct areq *q)
{
	int64_t since;

	if (areq_query_time(q, "since", q->now_us - REPORT_US, &since)) {
		SQL(q, api_recovery_report, recovery_done, .since_us = since);
	}
}
