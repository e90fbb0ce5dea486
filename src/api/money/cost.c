/* Money: sums over the ledger, and one job's lines against its baselines. */
#include "base/base.h"
#include "api/money/money.h"
#include "core/spec/spec.h"
#include "core/rank/rank.h"

/* Hours of the counted work on the job's reference accelerator, by the throughput of each pool.
 * Lost work is left out: a baseline without interruption would not have done it twice. */
static double reference_hours(const struct job_spec *spec, const json_t *work)
{
	const json_t *w;
	double hours = 0;
	size_t i;

	json_array_foreach (work, i, w) {
		struct offer o = { .gpu_name = json_string_value(json_object_get(w, "gpu")),
			.gpu_milli = (int32_t)json_integer_value(json_object_get(w, "milli")) };

		hours += (double)json_integer_value(json_object_get(w, "us")) /
		    (double)SPOT_US_PER_HOUR * rank_throughput(spec, &o);
	}
	return hours;
}

/* The same work on one pool at its price at submit, without interruption or wait. */
static json_t *saving_json(struct areq *q, const json_t *baseline, const char *key,
    const char *name, const struct job_spec *spec, double hours, int64_t total, int64_t lost)
{
	const json_t *b = json_object_get(baseline, key);
	struct offer o = { .gpu_name = json_str(b, "gpu", "", NULL),
		.gpu_milli = (int32_t)json_i64(b, "gpu_milli", 0, NULL) };
	int64_t price = json_i64(b, "price_micros", 0, NULL), would;
	double here;

	if (price <= 0 || hours <= 0) {
		return NULL;
	}
	here = hours / rank_throughput(spec, &o);
	would = (int64_t)((double)price * here + 0.5);
	if (would <= 0) {
		return NULL;
	}
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:f}", "baseline", name, "pool",
	    json_str(b, "pool", "", NULL), "how",
	    arena_printf(q->arena,
		"%.6f hours of the same work on %s %s (%s) without an interruption, at its price "
		"at submit%s",
		here, json_str(b, "provider", "?", NULL), json_str(b, "instance_type", "?", NULL),
		json_str(b, "market", "?", NULL),
		lost > 0
		    ? arena_printf(q->arena,
			  "; in fact this pool reclaimed or refused %" PRId64 " of the job's nodes",
			  lost)
		    : ""),
	    "baseline$", (json_int_t)would, "saved$", (json_int_t)(would - total), "saved_pct",
	    (double)(would - total) * 100.0 / (double)would);
}

static void saving_add(json_t *list, json_t *s)
{
	if (s) {
		json_array_append_new(list, s);
	}
}

static void job_cost_done(struct areq *q)
{
	struct q_api_job_cost_row *row;
	struct job_spec *spec = NULL;
	struct spot_err err = { 0 };
	json_t *doc, *baseline, *stored, *work, *savings;
	int64_t total;
	double hours;

	if (q_api_job_cost_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
		return;
	}
	stored = view_parse(row->spec);
	if (jobspec_from_json(q->arena, stored, &spec, &err) != SPOT_OK) {
		json_decref(stored);
		areq_error(q, &err);
		return;
	}
	json_decref(stored);
	work = view_parse(row->work);
	hours = reference_hours(spec, work);
	json_decref(work);
	doc = view_parse(row->doc);
	baseline = json_object_get(doc, "baseline");
	total = json_integer_value(json_object_get(doc, "total$"));
	savings = json_array();
	saving_add(savings,
	    saving_json(q, baseline, "on_demand", "on-demand", spec, hours, total, 0));
	saving_add(savings,
	    saving_json(q, baseline, "cheapest", "cheapest-pool", spec, hours, total,
		row->cheapest_lost));
	json_object_set_new(doc, "savings", savings);
	areq_json(q, 200, doc);
}

static void get_job_cost(struct areq *q)
{
	SQL(q, api_job_cost, job_cost_done, .id = q->id);
}

static void cost_done(struct areq *q)
{
	struct q_api_cost_row *row;

	if (q_api_cost_rows(&q->pg, q->arena, &row) == 1) {
		areq_text(q, 200, row->doc);
	}
}

static void get_cost(struct areq *q)
{
	static const char *const dims[] = { "team", "project", "class", "provider", "gpu", "job",
		"market", "kind" };
	const char **by;
	int64_t since, until;
	size_t n;

	if (!areq_query_list(q, "by", &by, &n) || !areq_query_time(q, "since", 0, &since) ||
	    !areq_query_time(q, "until", q->now_us + 1, &until)) {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		bool known = false;

		for (size_t k = 0; k < ARRAY_LEN(dims); k++) {
			known = known || strcmp(by[i], dims[k]) == 0;
		}
		if (!known) {
			areq_fail_field(q, "by",
			    "no dimension '%s'; valid are team, project, class, provider, gpu, "
			    "job, market, kind",
			    by[i]);
			return;
		}
	}
	SQL(q, api_cost, cost_done, .by = by, .by_n = n, .since_us = since, .until_us = until);
}

static const struct route rows[] = {
	ROUTE("GET", "/v1/jobs/{job}/cost", VIEWER, get_job_cost, 0, "", 200, NULL, "JobCost",
	    "Shows the ledger lines of one job by kind, and its savings against the baselines."),
	ROUTE("GET", "/v1/cost", VIEWER, get_cost, 0, "by since until", 200, NULL, "Cost",
	    "Sums the ledger by any of team, project, class, provider, gpu, job, market, kind."),
};

const struct route_table money_routes = { rows, ARRAY_LEN(rows) };
