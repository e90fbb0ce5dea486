/* Money: sums over the ledger, and one job's lines against its baselines. */
#include "api/api_priv.h"

static json_t *saving(const json_t *baseline, const char *key, int64_t total)
{
	const json_t *b = json_object_get(baseline, key);
	int64_t would = json_integer_value(json_object_get(b, "total_micros"));

	if (would <= 0)
		return json_null();
	return json_pack("{s:I, s:I, s:f}", "would_have_been$", (json_int_t)would, "saved$", (json_int_t)(would - total),
	    "saved_pct", (double)(would - total) * 100.0 / (double)would);
}

static void job_cost_done(struct areq *q)
{
	struct q_api_job_cost_row *row;
	json_t *doc, *baseline;
	int64_t total;

	if (q_api_job_cost_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "there is no job j%" PRId64, q->id);
		return;
	}
	doc = view_parse(row->doc);
	baseline = json_object_get(doc, "baseline");
	total = json_integer_value(json_object_get(doc, "total$"));
	json_object_set_new(doc, "against_on_demand", saving(baseline, "on_demand", total));
	json_object_set_new(doc, "against_cheapest_pool", saving(baseline, "cheapest", total));
	areq_json(q, 200, doc);
}

void get_job_cost(struct areq *q)
{
	SQL(q, api_job_cost, job_cost_done, .id = q->id);
}

static void cost_done(struct areq *q)
{
	struct q_api_cost_row *row;

	if (q_api_cost_rows(&q->pg, q->arena, &row) == 1)
		areq_text(q, 200, row->doc);
}

void get_cost(struct areq *q)
{
	static const char *const dims[] = {"team", "project", "class", "provider", "gpu", "job", "market", "kind"};
	const char **by;
	int64_t since, until;
	size_t n;

	if (!areq_query_list(q, "by", &by, &n) || !areq_query_time(q, "since", 0, &since) ||
	    !areq_query_time(q, "until", q->now_us + 1, &until))
		return;
	for (size_t i = 0; i < n; i++) {
		bool known = false;

		for (size_t k = 0; k < ARRAY_LEN(dims); k++)
			known = known || strcmp(by[i], dims[k]) == 0;
		if (!known) {
			areq_fail_field(q, "by", "%s is not known; these are: team, project, class, provider, gpu, job, market, "
			    "kind", by[i]);
			return;
		}
	}
	SQL(q, api_cost, cost_done, .by = by, .by_n = n, .since_us = since, .until_us = until);
}
