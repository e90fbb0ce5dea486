/* Holds one fleet by every policy, in the same worlds, and prints the table: see fleets.h. */
#include "base/base.h"

#include "bench.h"
#include "bench_file.h"
#include "fleets/fleets.h"
#include "fleets/held_brains.h"
#include "report.h"

static const struct held_conf whole,
    no_return = { .no_return = true }, no_rebalance = { .no_rebalance = true },
    neither = { .no_return = true, .no_rebalance = true }, no_size = { .no_size = true },
    no_floor = { .no_floor = true }, no_spread = { .no_floor = true, .no_pools_min = true },
    sized_on_demand = { .on_demand = true };
static const struct held_base_conf
    on_demand = { .base = { .kind = BASE_ON_DEMAND } },
    eager_any = { .base = { .kind = BASE_EAGER, .or_on_demand = true } },
    failover_any = { .base = { .kind = BASE_FAILOVER, .or_on_demand = true } },
    eager = { .base = { .kind = BASE_EAGER } }, failover = { .base = { .kind = BASE_FAILOVER } },
    cluster_any = { .base = { .kind = BASE_EAGER, .or_on_demand = true }, .whole = true },
    cluster = { .base = { .kind = BASE_EAGER }, .whole = true };

static size_t policies_fill(const struct fleet_spec *f, struct fs_brain *ret)
{
	bool range = f->scaling != NULL;
	size_t n = 0;

	held_ours("Spotbroker", &whole, &ret[n++]);
	held_ours("without return to spot", &no_return, &ret[n++]);
	held_ours("without rebalancing", &no_rebalance, &ret[n++]);
	held_ours("without either", &neither, &ret[n++]);
	if (f->on_demand_floor > 0 || f->floor_pm > 0) {
		held_ours("without the floor", &no_floor, &ret[n++]);
	}
	held_ours("without the floor and pools_min", &no_spread, &ret[n++]);
	if (range) {
		held_ours("without a size by demand", &no_size, &ret[n++]);
	}
	held_base("EAGER_NEXT_REGION, spot or on demand", &eager_any, &ret[n++]);
	held_base("FAILOVER, spot or on demand", &failover_any, &ret[n++]);
	held_base("EAGER_NEXT_REGION, spot only", &eager, &ret[n++]);
	held_base("FAILOVER, spot only", &failover, &ret[n++]);
	if (!range) {
		held_base("one cluster, spot or on demand", &cluster_any, &ret[n++]);
		held_base("one cluster, spot only", &cluster, &ret[n++]);
	}
	held_base("on demand only", &on_demand, &ret[n++]);
	if (range) {
		held_ours("on demand only, size by demand", &sized_on_demand, &ret[n++]);
	}
	return n;
}

/* ---- running --------------------------------------------------------------------------------- */

struct running {
	const struct fs_data *d;
	const struct fleets_conf *c;
	const struct fleet_spec *spec;
	struct fs_brain brains[POLICIES_MAX];
	size_t n;
	struct fs_result (*results)[SEEDS_MAX];
};

static void seed_line(int64_t seed, const char *name, const struct fs_result *r, int64_t us)
{
	fprintf(stderr,
	    "seed %" PRId64 " %-38s %9.2f USD, %6.1f h of work, %4d reclaims, %5.1f h lost, %5.1f "
	    "h short, %.1f s\n",
	    seed, name, (double)r->dollars_micros / 1e6, r->work_h, (int)r->reclaims, r->lost_h,
	    r->short_h, (double)us / 1e6);
}

static bool seed_run(const void *ctx, int64_t at)
{
	const struct running *x = ctx;
	AUTO(arena) struct arena *a = arena_new(0);
	struct fs_world *w = arena_alloc(a, sizeof(*w));
	struct held_world *held = arena_alloc(a, sizeof(*held));

	if (!fs_world_make(a, x->d,
		&(struct fs_plan){ .seed = (uint64_t)at + 1,
		    .jobs = x->c->jobs,
		    .days = x->c->days },
		w) ||
	    !held_world_make(a, w, x->spec, held)) {
		fprintf(stderr, "seed %" PRId64 ": no jobs\n", at + 1);
		return false;
	}
	for (size_t i = 0; i < x->n; i++) {
		AUTO(arena) struct arena *run = arena_new(0);
		struct held *h = arena_alloc(run, sizeof(*h));
		int64_t began = bench_us();

		held_run(run, held, &x->brains[i], x->c->days * 24 * SPOT_US_PER_HOUR, h);
		held_result(run, h, &x->results[i][at]);
		seed_line(at + 1, x->brains[i].name, &x->results[i][at], bench_us() - began);
	}
	return true;
}

/* ---- the report ------------------------------------------------------------------------------ */

static void report_print(const struct running *x)
{
	const struct fleet_spec *f = x->spec;
	double work = 0;
	size_t n;
	const struct column *columns = report_columns(REPORT_FLEET, &n);

	for (int64_t k = 0; k < x->c->seeds; k++) {
		work += x->results[0][k].work_h / (double)x->c->seeds;
	}
	printf("%" PRId64 " seeds of %" PRId64 " days, a fleet of ", x->c->seeds, x->c->days);
	if (f->scaling != NULL) {
		printf("%d to %d", (int)f->scaling->min, (int)f->scaling->max);
	} else {
		printf("%d", (int)f->nodes);
	}
	printf(" nodes, in the mean %.0f GPU-hours of work by the first policy. Mean over seeds "
	       "± standard error.\n\n",
	    work);
	report_table(x->brains, x->n, x->results, (size_t)x->c->seeds, columns, n, true);
}

int fleets_report(const struct fs_data *d, const struct fleets_conf *c)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct running x = { .d = d, .c = c, .results = report_results() };
	struct fleet_spec *spec;
	struct str text;

	if (!bench_file_read(a, c->file, &text)) {
		fprintf(stderr, "%s: cannot be read\n", c->file);
		return 1;
	}
	if (!held_spec_read(a, text, &spec)) {
		return 1;
	}
	x.spec = spec;
	x.n = policies_fill(spec, x.brains);
	for (size_t i = 0; c->only != NULL && i < x.n; i++) {
		if (strcmp(x.brains[i].name, c->only) == 0) {
			x.brains[0] = x.brains[i];
			x.n = 1;
		}
	}
	if (x.results == NULL || !report_seeds(seed_run, &x, c->seeds)) {
		fprintf(stderr, "a run failed\n");
		return 1;
	}
	report_print(&x);
	return 0;
}
