/* Trace files. A refusal has words. An accepted file has samples in range and a zone, and its
 * simulation ends with no policy below the optimum. */
#include "base/base.h"
#include "fuzz.h"
#include "core/trace/trace.h"

static void trace_simulate(struct arena *a, struct trace *t)
{
	struct trace_market m;
	struct trace_job j = { .changeover_us = t->gap_us / 2, .on_demand_micros = 3000000 };
	struct trace_run best, own;
	struct spot_err err = { 0 };

	t->n = MIN(t->n, 60);
	j.work_us = t->gap_us * (int64_t)(t->n / 2) + 1;
	j.deadline_us = t->gap_us * (int64_t)t->n;
	if (trace_market_build(a, t, NULL, 1, 1, 900000, &m, &err) != SPOT_OK ||
	    trace_job_check(&m, &j, &err) != SPOT_OK) {
		FUZZ_CHECK(err.text[0] != '\0');
		return;
	}
	trace_run_optimal(a, &m, &j, 0, &best);
	for (size_t i = 0; policy_at(i) != NULL; i++) {
		enum spot_rc rc =
		    trace_run_policy(a, &m, &j, 0, policy_at(i), NULL, 0, true, &own, &err);

		FUZZ_CHECK(rc == SPOT_OK && !own.missed && own.cost_micros >= best.cost_micros);
	}
}

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct str text = fuzz_view(a, p, n);
	enum spot_rc rc;
	struct trace t = { 0 };
	struct spot_err err = { 0 };

	rc = trace_parse_supply(a, text, "f/us-east-1a_v100_1.json", &t, &err);
	fuzz_check_err(rc, &err);
	if (rc == SPOT_OK) {
		FUZZ_CHECK(
		    t.n > 0 && t.gap_us >= SPOT_US_PER_S && strcmp(t.region, "us-east-1") == 0);
		for (size_t i = 0; i < t.n; i++) {
			FUZZ_CHECK(t.counts[i] >= 0 && t.counts[i] <= TRACE_COUNT_MAX);
		}
		trace_simulate(a, &t);
	}
	err = (struct spot_err){ 0 };
	rc = trace_parse_prices(a, text, "p.json", &t, &err);
	fuzz_check_err(rc, &err);
	for (size_t i = 0; rc == SPOT_OK && i < t.n; i++) {
		FUZZ_CHECK(t.price_micros[i] >= 0 && t.price_micros[i] <= TRACE_PRICE_MICROS_MAX);
	}
	return 0;
}
