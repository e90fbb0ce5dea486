/*
 * simulate: deadline policies over recorded supply, without daemon or database. The model and the
 * policies are core's (core/trace/trace.h), the same code that places real jobs. Means are over
 * runs. Cost against on demand and against the optimum is mean by mean, as published figures are.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"
#include "spotctl/cmd/cmd.h"

#define RUN_BYTES_MAX ((size_t)2 << 30)

static const struct column cols[] = { { "POLICY", "policy", CELL_TEXT, ALWAYS },
	{ "RUNS", "runs", CELL_INT, ALWAYS }, { "MEAN USD", "mean_cost", CELL_NUMBER, ALWAYS },
	{ "MEDIAN USD", "median_cost", CELL_NUMBER, SPARE_1 },
	{ "VS ON-DEMAND", "mean_cost_vs_on_demand", CELL_NUMBER, ALWAYS },
	{ "VS OPTIMAL", "mean_cost_vs_optimal", CELL_NUMBER, ALWAYS },
	{ "MISSES", "deadline_misses", CELL_INT, ALWAYS },
	{ "CHANGEOVERS", "mean_changeovers", CELL_NUMBER, SPARE_2 }, { 0 } };

static double hours_json(int64_t us)
{
	return (double)us / (double)SPOT_US_PER_HOUR;
}

static double usd_json(int64_t micros)
{
	return (double)micros / 1e6;
}

static const char *act_word(enum policy_act act)
{
	return act == POLICY_SPOT ? "spot" : act == POLICY_ON_DEMAND ? "on-demand" : "wait";
}

static const struct trace_market *market_at(const struct simulation *s, size_t start)
{
	return s->markets != NULL ? &s->markets[start / s->stretch_ticks] : &s->market;
}

static const struct trace *traces_at(const struct simulation *s, size_t start)
{
	return s->markets != NULL ? s->market_traces[start / s->stretch_ticks] : s->traces;
}

/* Several ticks without a change make one row. */
static json_t *steps_json(const struct simulation *s, const struct trace_run *r)
{
	json_t *list = json_array(), *row = NULL;
	int32_t n = r->spot_ticks + r->on_demand_ticks + r->wait_ticks;

	for (int32_t i = 0; r->steps != NULL && i < n; i++) {
		const struct trace_step *t = &r->steps[i], *was = i > 0 ? &r->steps[i - 1] : NULL;

		if (was == NULL || was->act != t->act || was->pool != t->pool ||
		    !str_same(was->why, t->why)) {
			row = json_pack("{s:f, s:s, s:s*, s:f, s:s*}", "from",
			    hours_json(i * s->market.tick_us), "choice", act_word(t->act), "zone",
			    t->pool >= 0 ? traces_at(s, r->start)[t->pool].zone : NULL, "progress",
			    hours_json(t->done_us), "why", t->why);
			json_array_append_new(list, row);
		}
		json_object_set_new(row, "ticks",
		    json_integer(json_i64(row, "ticks", 0, NULL) + 1));
	}
	return list;
}

static json_t *run_json(const struct ctl *c, const struct simulation *s, const struct trace_run *r)
{
	json_t *o = json_pack("{s:f, s:f, s:f, s:i, s:b}", "start",
	    hours_json((int64_t)r->start * s->market.tick_us), "cost", usd_json(r->cost_micros),
	    "finish", hours_json(r->finish_us), "changeovers", (int)r->changeovers, "missed",
	    r->missed);

	if (opt_flag(c, "decisions") && r->steps != NULL) {
		json_object_set_new(o, "decisions", steps_json(s, r));
	}
	return o;
}

static int by_value(const void *pa, const void *pb)
{
	const int64_t *a = pa, *b = pb;

	return (*a > *b) - (*a < *b);
}

static double costs_median(struct ctl *c, const int64_t *costs, size_t n)
{
	int64_t *v = arena_array(c->arena, n, sizeof(*v));

	memcpy(v, costs, n * sizeof(*v));
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 == 1 ? usd_json(v[n / 2]) : (usd_json(v[n / 2 - 1]) + usd_json(v[n / 2])) / 2;
}

static int64_t costs_sum(const int64_t *v, size_t n)
{
	int64_t s = 0;

	for (size_t i = 0; i < n; i++) {
		s += v[i];
	}
	return s;
}

struct outcome {
	int64_t *costs;
	int64_t misses, changeovers;
	json_t *runs;
};

static int run_all(struct ctl *c, const struct simulation *s, const char *name, struct outcome *ret)
{
	AUTO(arena) struct arena *a = arena_new(RUN_BYTES_MAX);
	const struct policy *p = policy_find(name);

	ret->costs = arena_array(c->arena, s->starts_n, sizeof(*ret->costs));
	for (size_t i = 0; i < s->starts_n; i++) {
		struct trace_run r;
		struct spot_err err = { 0 };

		arena_reset(a);
		if (p == NULL) {
			trace_run_optimal(a, market_at(s, s->starts[i]), &s->job, s->starts[i], &r);
		} else if (trace_run_policy(a, market_at(s, s->starts[i]), &s->job, s->starts[i], p,
			       s->history, s->history_n, opt_flag(c, "decisions"), &r,
			       &err) != SPOT_OK) {
			say("spotctl %s: %s", c->cmd->noun, err.text);
			return CTL_FAILED;
		}
		ret->costs[i] = r.cost_micros;
		ret->misses += r.missed;
		ret->changeovers += r.changeovers;
		if (ret->runs != NULL) {
			json_array_append_new(ret->runs, run_json(c, s, &r));
		}
	}
	return CTL_OK;
}

static json_t *outcome_json(struct ctl *c, const struct simulation *s, const struct outcome *o,
    int64_t optimal)
{
	double n = (double)s->starts_n, mean = usd_json(costs_sum(o->costs, s->starts_n)) / n;
	json_t *j = json_pack("{s:I, s:f, s:f, s:f, s:f, s:I, s:f}", "runs",
	    (json_int_t)s->starts_n, "mean_cost", mean, "median_cost",
	    costs_median(c, o->costs, s->starts_n), "mean_cost_vs_on_demand",
	    mean / usd_json(trace_on_demand_cost(&s->market, &s->job)), "mean_cost_vs_optimal",
	    mean / (usd_json(optimal) / n), "deadline_misses", (json_int_t)o->misses,
	    "mean_changeovers", (double)o->changeovers / n);

	if (o->runs != NULL) {
		json_object_set(j, "per_run", o->runs);
	}
	return j;
}

/* For a table: the figures as text with as many digits as mean something. */
static json_t *table_rows(json_t *policies)
{
	json_t *rows = json_array(), *o, *v;
	const char *name, *key;

	json_object_foreach (policies, name, o) {
		json_t *row = json_pack("{s:s, s:s}", "policy", name, "id", name);

		json_object_foreach (o, key, v) {
			char text[40];

			if (json_is_real(v)) {
				snprintf(text, sizeof(text),
				    strstr(key, "_vs_") != NULL ? "%.3f" : "%.2f",
				    json_real_value(v));
			}
			json_object_set_new(row, key,
			    json_is_real(v) ? json_string(text) : json_incref(v));
		}
		json_array_append_new(rows, row);
	}
	return rows;
}

static int print_outcomes(struct ctl *c, json_t *whole)
{
	AUTO(json) json_t *rows = table_rows(json_object_get(whole, "policies"));

	return render_list(c, whole, rows, cols, "no policy");
}

int simulation_print(struct ctl *c, const struct simulation *s, json_t *whole)
{
	bool per_run = opt_flag(c, "per-run") || opt_flag(c, "decisions");
	struct outcome best = { .runs = per_run ? json_array() : NULL };
	int rc = run_all(c, s, "optimal", &best);
	int64_t optimal = rc == CTL_OK ? costs_sum(best.costs, s->starts_n) : 0;

	json_object_set_new(whole, "policies", json_object());
	for (size_t i = 0; rc == CTL_OK && i < s->policies_n; i++) {
		struct outcome own = { .runs = per_run ? json_array() : NULL };
		bool known = strcmp(s->policies[i], "optimal") == 0;

		rc = known ? CTL_OK : run_all(c, s, s->policies[i], &own);
		if (rc == CTL_OK) {
			json_object_set_new(json_object_get(whole, "policies"), s->policies[i],
			    outcome_json(c, s, known ? &best : &own, optimal));
		}
		json_decref(own.runs);
	}
	json_decref(best.runs);
	return rc == CTL_OK ? print_outcomes(c, whole) : rc;
}

int simulation_costs(struct ctl *c, const struct simulation *s, json_t **ret)
{
	AUTO(json) json_t *all = json_object();

	for (size_t i = 0; i < s->policies_n; i++) {
		struct outcome own = { 0 };
		int rc = run_all(c, s, s->policies[i], &own);

		if (rc != CTL_OK) {
			return rc;
		}
		json_object_set_new(all, s->policies[i],
		    json_real(usd_json(costs_sum(own.costs, s->starts_n)) / (double)s->starts_n));
	}
	*ret = STEAL(all);
	return CTL_OK;
}

int cmd_simulate(struct ctl *c)
{
	AUTO(json) json_t *whole = json_object();
	struct simulation s;
	int rc = simulation_read(c, &s);

	return rc == CTL_OK ? simulation_print(c, &s, whole) : rc;
}
