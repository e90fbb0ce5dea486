/*
 * Deadline policies on recorded traces: policy_bench DIR [STARTS] [HISTORY-FOLDER...]
 *
 * DIR holds the folders availability/, preemption/ and prices/ (zones of one market in one folder).
 * Prints three tables: the reference table, one pool in every folder, and zones of a folder side by
 * side. The reference table, after "Can't Be Late" (NSDI'24), has one pool and 48 h of work. Cost
 * is mean over mean of the optimum on the same starts. The gap is the share of the way from Uniform
 * Progress to the optimum that auto closes. The policy auto learns from the pool's own past, and
 * from the traces of named folders (never the row's own).
 */
#include "bench.h"
#include "bench_file.h"
#include "base/base.h"
#include "base/text/text.h"
#include "core/trace/trace.h"

#include <dirent.h>
#include <math.h>

#define FOLDER_MAX 24
#define STARTS_DEFAULT 24
#define PRICE_OD 3060000
#define PRICE_SPOT 973100

struct folder {
	const char *path; /* below DIR */
	struct trace t[FOLDER_MAX], prices[FOLDER_MAX];
	size_t n, prices_n;
};
enum { P_OD, P_GREEDY, P_UP, P_AUTO, P_OPT, P_COUNT };
struct cell {
	double cost[P_COUNT], gap_cost; /* sums; cost of C0 at the on-demand price */
	double squares; /* of UP's ratio per run, for its standard error */
	size_t runs, misses;
	int64_t auto_us, auto_most_us, decisions;
	bool has_auto;
};

static struct arena *arena, *run_arena;
static struct policy_track history[8 * FOLDER_MAX];
static const char *history_folder[8 * FOLDER_MAX];
static size_t history_n;
static int starts_wanted = STARTS_DEFAULT;

/* ---- auto, with its time taken --------------------------------------------------------------- */

static int64_t spent_us, most_us, decided;

static void *timed_begin(struct arena *a, const struct policy_setup *s,
    const struct policy_track *tracks, size_t n)
{
	return policy_find("auto")->begin(a, s, tracks, n);
}

static void timed_decide(void *state, const struct policy_view *v, struct policy_choice *ret)
{
	int64_t at = bench_us();

	policy_find("auto")->decide(state, v, ret);
	at = bench_us() - at;
	spent_us += at;
	most_us = MAX(most_us, at);
	decided++;
}
static const struct policy timed_auto = { "auto", timed_begin, timed_decide };

/* ---- files ----------------------------------------------------------------------------------- */

static struct str read_file(const char *path)
{
	struct str text = { 0 };

	(void)bench_file_read(arena, path, &text);
	return text;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_trace(const struct dirent *e)
{
	return str_suffix(e->d_name, ".json");
}

/* Prices lie in a folder of the same name under prices/. */
static bool load_folder(const char *dir, const char *path, struct folder *ret)
{
	struct dirent **list = NULL;
	const char *name = strrchr(path, '/') + 1;
	int n = scandir(arena_printf(arena, "%s/%s", dir, path), &list, is_trace, by_name);
	struct spot_err err = { 0 };

	*ret = (struct folder){ .path = path };
	for (int i = 0; i < n && ret->n < FOLDER_MAX; i++) {
		struct str text =
		    read_file(arena_printf(arena, "%s/%s/%s", dir, path, list[i]->d_name));
		struct str prices =
		    read_file(arena_printf(arena, "%s/prices/%s/%s", dir, name, list[i]->d_name));

		if (trace_parse_supply(arena, text, list[i]->d_name, &ret->t[ret->n], &err) !=
		    SPOT_OK) {
			fprintf(stderr, "%s\n", err.text);
			exit(1);
		}
		if (prices.p != NULL &&
		    trace_parse_prices(arena, prices, list[i]->d_name, &ret->prices[ret->n],
			&err) == SPOT_OK) {
			ret->prices_n++;
		}
		ret->n++;
		free(list[i]);
	}
	free(list);
	return ret->n > 0;
}

static void add_history(const char *dir, const char *path)
{
	struct folder *f = arena_alloc(arena, sizeof(*f));

	if (!load_folder(dir, path, f)) {
		fprintf(stderr, "%s/%s: no traces\n", dir, path);
		exit(1);
	}
	for (size_t i = 0; i < f->n && history_n < ARRAY_LEN(history); i++) {
		history_folder[history_n] = path;
		history[history_n++] = (struct policy_track){ .pool = -1,
			.tick_us = f->t[i].gap_us,
			.n = f->t[i].n,
			.up = trace_up(arena, &f->t[i], 1) };
	}
}

/* ---- runs ------------------------------------------------------------------------------------ */

static double run_one(const struct trace_market *m, const struct trace_job *j, size_t start,
    const struct policy *p, const struct policy_track *tracks, size_t n, struct cell *c)
{
	struct trace_run r;
	struct spot_err err = { 0 };

	arena_reset(run_arena);
	if (p == NULL) {
		trace_run_optimal(run_arena, m, j, start, &r);
	} else if (trace_run_policy(run_arena, m, j, start, p, tracks, n, false, &r, &err) !=
	    SPOT_OK) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	c->misses += r.missed;
	return (double)r.cost_micros;
}

static void run_market(const struct trace_market *m, const struct trace_job *j, const char *folder,
    struct rng *rng, struct cell *c)
{
	struct policy_track other[ARRAY_LEN(history)];
	const struct policy *const all[P_COUNT] = { &policy_on_demand, &policy_greedy,
		&policy_uniform_progress, policy_find("auto") != NULL ? &timed_auto : NULL, NULL };
	size_t n = 0;

	for (size_t i = 0; i < history_n; i++) {
		if (strcmp(history_folder[i], folder) != 0) {
			other[n++] = history[i];
		}
	}
	for (int s = 0; trace_starts(m, j) > 0 && s < starts_wanted; s++) {
		size_t start = rng_below(rng, trace_starts(m, j));
		double cost[P_COUNT] = { 0 };

		for (int p = 0; p < P_COUNT; p++) {
			if (p == P_AUTO && all[p] == NULL) {
				continue;
			}
			spent_us = decided = most_us = 0;
			cost[p] = run_one(m, j, start, all[p], other, n, c);
			c->cost[p] += cost[p];
			if (p == P_AUTO) {
				c->auto_us += spent_us;
				c->decisions += decided;
				c->auto_most_us = MAX(c->auto_most_us, most_us);
				c->has_auto = true;
			}
		}
		c->squares += cost[P_UP] / cost[P_OPT] * (cost[P_UP] / cost[P_OPT]);
		c->gap_cost +=
		    (double)j->work_us / (double)SPOT_US_PER_HOUR * (double)j->on_demand_micros;
		c->runs++;
	}
}

static struct trace_job job_of(double work_h, double deadline_h, int64_t changeover_s)
{
	return (struct trace_job){ .work_us = (int64_t)(work_h * 3600e6 + 0.5),
		.deadline_us = (int64_t)(deadline_h * 3600e6 + 0.5),
		.changeover_us = changeover_s * SPOT_US_PER_S,
		.on_demand_micros = PRICE_OD };
}

static void market_build(struct arena *a, const struct trace *t, const struct trace *prices,
    size_t n, int64_t nodes, struct trace_market *m)
{
	const struct trace *list[FOLDER_MAX];
	struct spot_err err = { 0 };

	for (size_t i = 0; prices != NULL && i < n; i++) {
		list[i] = &prices[i];
	}
	if (trace_market_build(a, t, prices != NULL ? list : NULL, n, nodes, PRICE_SPOT, m, &err) !=
	    SPOT_OK) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
}

/* Each trace of the folder alone; samples_max 0: all of it. */
static struct cell run_single(const struct folder *f, const struct trace_job *j, size_t samples_max,
    uint64_t seed)
{
	struct cell c = { 0 };
	struct rng rng;

	rng_seeded_init(&rng, seed);
	for (size_t i = 0; i < f->n; i++) {
		struct trace t = f->t[i];
		struct trace_market m;
		AUTO(arena) struct arena *a = arena_new(0);

		t.n = samples_max > 0 ? MIN(t.n, samples_max) : t.n;
		market_build(a, &t, NULL, 1, 1, &m);
		run_market(&m, j, f->path, &rng, &c);
	}
	return c;
}

static struct cell run_zones(const struct folder *f, const struct trace_job *j, int64_t nodes,
    uint64_t seed)
{
	struct cell c = { 0 };
	struct rng rng;
	struct trace_market m;
	AUTO(arena) struct arena *a = arena_new(0);

	rng_seeded_init(&rng, seed);
	market_build(a, f->t, f->prices_n == f->n ? f->prices : NULL, f->n, nodes, &m);
	run_market(&m, j, f->path, &rng, &c);
	return c;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void print_head(const char *what)
{
	printf("\n%s\n\n| traces | R0 (h) | d (s) | on-demand | greedy | UP (+-) | auto | optimum "
	       "/ on-demand | gap | misses | us / decision | longest ms |\n"
	       "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
	    what);
}

static void print_cell(const char *name, double deadline_h, int64_t d, const struct cell *c)
{
	double opt = c->cost[P_OPT], up = c->cost[P_UP], n = (double)c->runs, mean = up / opt;
	double error = sqrt(fmax(c->squares / n - mean * mean, 0) / n);

	if (c->runs == 0) {
		return;
	}
	printf("| %s | %g | %" PRId64 " | %.3f | %.3f | %.3f (%.3f) | ", name, deadline_h, d,
	    c->cost[P_OD] / opt, c->cost[P_GREEDY] / opt, mean, error);
	if (!c->has_auto) {
		printf("- | %.3f | - | %zu | - | - |\n", opt / c->gap_cost, c->misses);
	} else {
		printf("%.3f | %.3f | %.0f %% | %zu | %.1f | %.1f |\n", c->cost[P_AUTO] / opt,
		    opt / c->gap_cost, 100 * (up - c->cost[P_AUTO]) / (up - opt), c->misses,
		    (double)c->auto_us / (double)c->decisions, (double)c->auto_most_us / 1e3);
	}
	fflush(stdout);
}

static const double deadlines[] = { 52.8, 60, 80 };

struct total {
	double gap, ratio, up, worst;
	size_t n, wide, misses;
};

/* A share of next to nothing says nothing: the mean of shares is over cells in which Uniform
 * Progress is 1 % above the optimum. */
#define GAP_WIDE 1.01

static void add_cell(struct total *t, const struct cell *c)
{
	double opt = c->cost[P_OPT], up = c->cost[P_UP], own = c->cost[P_AUTO];

	if (c->runs == 0) {
		return;
	}
	t->misses += c->misses;
	if (up > GAP_WIDE * opt) {
		t->gap += (up - own) / (up - opt);
		t->wide++;
	}
	t->ratio += own / opt;
	t->up += up / opt;
	t->worst = MAX(t->worst, own / up);
	t->n++;
}

static void print_total(const char *what, const struct total *t)
{
	double n = (double)t->n;

	if (t->n > 0 && t->ratio <= 0) {
		printf("\n%s: %zu cells, UP %.3f of the optimum, misses %zu\n", what, t->n,
		    t->up / n, t->misses);
	} else if (t->n > 0) {
		printf("\n%s: %zu cells, UP %.3f, auto %.3f of the optimum, gap of these means "
		       "closed %.0f %%, mean of the cells' gaps %.0f %%, worst cell auto / UP "
		       "%.3f, misses %zu\n",
		    what, t->n, t->up / n, t->ratio / n, 100 * (t->up - t->ratio) / (t->up - n),
		    100 * t->gap / (double)MAX(t->wide, 1), t->worst, t->misses);
	}
}

/* Work of 48 h with three deadlines; 12 h where the traces are shorter than that. */
static void do_single(const struct folder *f, size_t samples_max, int64_t d, struct total *t)
{
	double scale =
	    (double)f->t[0].n * (double)f->t[0].gap_us < 90.0 * (double)SPOT_US_PER_HOUR ? 0.25 : 1;

	for (size_t i = 0; i < ARRAY_LEN(deadlines); i++) {
		struct trace_job j = job_of(48 * scale, deadlines[i] * scale, d);
		struct cell c = run_single(f, &j, samples_max, 1 + i);

		print_cell(samples_max > 0
			? arena_printf(arena, "%s, first %zu", f->path, samples_max)
			: f->path,
		    deadlines[i] * scale, d, &c);
		add_cell(t, &c);
	}
}

static void do_zones(const struct folder *f, int64_t nodes, int64_t d, struct total *t)
{
	double scale =
	    (double)f->t[0].n * (double)f->t[0].gap_us < 90.0 * (double)SPOT_US_PER_HOUR ? 0.25 : 1;

	for (size_t i = 0; i < ARRAY_LEN(deadlines); i++) {
		struct trace_job j = job_of(48 * scale, deadlines[i] * scale, d);
		struct cell c = run_zones(f, &j, nodes, 100 + i);

		print_cell(arena_printf(arena, "%s, %zu zones%s%s", f->path, f->n,
			       nodes > 1 ? arena_printf(arena, ", %" PRId64 " nodes", nodes) : "",
			       f->prices_n == f->n ? ", prices" : ""),
		    deadlines[i] * scale, d, &c);
		add_cell(t, &c);
	}
}

/* ---- time ------------------------------------------------------------------------------------ */

#define TIMES 9
#define WARM 2000

/* One job of 48 h: its table solved from the start, and the same moment decided again from the
 * table. */
static void time_job(size_t pools, bool own_prices, double deadline_h)
{
	struct policy_setup s = { .work_us = 48 * SPOT_US_PER_HOUR,
		.deadline_us = (int64_t)(deadline_h * 3600e6 + 0.5),
		.changeover_us = 720 * SPOT_US_PER_S,
		.tick_us = 600 * SPOT_US_PER_S,
		.on_demand_micros = PRICE_OD,
		.pools_n = pools };
	const struct policy *p = policy_find("auto");
	uint8_t up[8] = { 0, 1, 0, 1, 1 };
	int64_t price[8], solve_us[TIMES], warm_us = 0;

	for (size_t i = 0; i < pools; i++) {
		price[i] = PRICE_SPOT + (own_prices ? (int64_t)i * 200000 : 0);
	}
	for (int k = 0; k < TIMES; k++) {
		AUTO(arena) struct arena *a = arena_new((size_t)1 << 30);
		void *state = p->begin(a, &s, NULL, 0);
		struct policy_view v = { .held = POLICY_WAIT,
			.last_pool = SIZE_MAX,
			.up = up,
			.price_micros = price };
		struct policy_choice choice;

		solve_us[k] = bench_us();
		p->decide(state, &v, &choice);
		warm_us -= bench_us();
		solve_us[k] = bench_us() - solve_us[k];
		for (int i = 0; i < WARM; i++) {
			p->decide(state, &v, &choice);
		}
		warm_us += bench_us();
	}
	printf("| %zu%s | %g | %.1f | %.2f |\n", pools, own_prices ? ", each its price" : "",
	    deadline_h, bench_ms(solve_us, TIMES, 50), (double)warm_us / TIMES / WARM);
}

static void times_print(void)
{
	printf("\nTime of auto, 48 h of work, d = 720 s, ticks of 10 minutes\n\n| pools | R0 (h) | "
	       "solving the table of the whole job, ms (median of %d) "
	       "| us / decision from it |\n|---|---|---|---|\n",
	    TIMES);
	for (size_t i = 0; i < ARRAY_LEN(deadlines); i++) {
		time_job(1, false, deadlines[i]);
		time_job(3, true, deadlines[i]);
		time_job(5, false, deadlines[i]);
		time_job(5, true, deadlines[i]);
	}
	fflush(stdout);
}

static const char *const folders[] = { "availability/1-node/aws-10-26-2022",
	"availability/1-node/aws-02-15-2023", "availability/1-node/aws-11-28-2022",
	"availability/16-node/aws-08-27-2023", "availability/16-node/gcp-10-03-2025",
	"availability/4-node/gcp-a100-3day", "preemption/1-node/aws-04-22-2023",
	"preemption/1-node/aws-04-19-2023", "preemption/1-node/gcp-04-30-2023",
	"preemption/4-node/aws-08-03-2023" };

static void tables_print(const char *dir)
{
	struct folder *f = arena_array(arena, ARRAY_LEN(folders), sizeof(*f));
	struct total t[5] = { { 0 } };
	static const int64_t changeovers[] = { 720, 72 };

	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		if (!load_folder(dir, folders[i], &f[i])) {
			fprintf(stderr, "%s/%s: not there, left out\n", dir, folders[i]);
		}
	}
	print_head("Reference cells, one pool, 48 h of work, constant prices");
	for (size_t d = 0; d < 2; d++) {
		for (size_t i = 0; i < 2 && f[i].n > 0; i++) {
			do_single(&f[i], i == 0 ? 1781 : 0, changeovers[d], &t[d]);
		}
	}
	print_total("Reference, d = 720 s", &t[0]);
	print_total("Reference, d = 72 s", &t[1]);
	print_head("Every other folder, one pool");
	for (size_t d = 0; d < 2; d++) {
		for (size_t i = 2; i < ARRAY_LEN(folders); i++) {
			if (f[i].n > 0) {
				do_single(&f[i], 0, changeovers[d], &t[2 + d]);
			}
		}
	}
	print_total("Others, d = 720 s", &t[2]);
	print_total("Others, d = 72 s", &t[3]);
	print_head("Three or more zones side by side");
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		if (f[i].n >= 3) {
			do_zones(&f[i],
			    strstr(f[i].path, "/16-node/") != NULL      ? 16
				: strstr(f[i].path, "/4-node/") != NULL ? 4
									: 1,
			    720, &t[4]);
		}
	}
	print_total("Zones, d = 720 s", &t[4]);
}

int main(int argc, char **argv)
{
	int64_t n = STARTS_DEFAULT;

	if (argc < 2 || (argc > 2 && !parse_i64(argv[2], 1, 100000, &n))) {
		fprintf(stderr,
		    "usage: policy_bench DIR [STARTS] [HISTORY-FOLDER...]\n"
		    "DIR has availability/, preemption/ and prices/; a history folder is named as "
		    "in it\n");
		return 2;
	}
	starts_wanted = (int)n;
	arena = arena_new((size_t)1 << 30);
	run_arena = arena_new((size_t)4 << 30);
	for (int i = 3; i < argc; i++) {
		add_history(argv[1], argv[i]);
	}
	times_print();
	tables_print(argv[1]);
	arena_free(run_arena);
	arena_free(arena);
	return 0;
}
