/*
 * backtest: the cost of the deadline policies for a job file on one's own past. Prices and supply
 * come from the daemon's rows (POST /v1/backtest); the code of simulate makes the runs here. A run
 * sees the pools that were picked in the round in which it begins, and those of later rounds once
 * these begin. Supply that nobody tried is unknown, and drawn from the prior. The output also has
 * the figures for all of it there, and none of it.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/trace/trace.h"
#include "spotctl/ctl.h"
#include "spotctl/cmd/cmd.h"

#define TICKS_MOST 100000
#define MARKET_BYTES_MAX ((size_t)2 << 30)

static int bad_reply(void)
{
	say("spotctl backtest: unexpected reply of the daemon; check that spotctl and spotd have "
	    "the same version");
	return CTL_FAILED;
}

struct pool {
	char *up; /* '?' if nothing is known */
	double odds, hazard;
	size_t first; /* round in which it was picked first */
	bool *rounds;
	struct trace supply, price;
};

struct backtest {
	struct ctl *ctl;
	const json_t *doc;
	struct pool *pools;
	size_t n, ticks, rounds, round_ticks;
	size_t unknown, tried; /* samples of all pools; pools */
	int64_t seed;
};

/* [[tick, micros], ...] as one price a tick; before the first one known, that one. */
static bool prices_of(struct ctl *c, const json_t *pool, size_t n, struct trace *ret)
{
	const json_t *list = json_object_get(pool, "prices");
	int64_t *prices = arena_array(c->arena, n, sizeof(*prices));
	size_t at = 0, k = json_array_size(list);

	if (k == 0) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		while (at + 1 < k &&
		    json_integer_value(json_array_get(json_array_get(list, at + 1), 0)) <=
			(json_int_t)i) {
			at++;
		}
		prices[i] = json_integer_value(json_array_get(json_array_get(list, at), 1));
		if (prices[i] <= 0 || prices[i] > TRACE_PRICE_MICROS_MAX) {
			return false;
		}
	}
	ret->n = n;
	ret->price_micros = prices;
	return true;
}

static bool rounds_of(struct backtest *b, const json_t *pool, struct pool *ret)
{
	const json_t *list = json_object_get(pool, "rounds"), *v;
	size_t i;

	ret->rounds = arena_array(b->ctl->arena, b->rounds + 1, sizeof(*ret->rounds));
	ret->first = b->rounds;
	json_array_foreach (list, i, v) {
		json_int_t at = json_integer_value(v);

		if (at < 0 || (size_t)at >= b->rounds) {
			return false;
		}
		ret->rounds[at] = true;
		ret->first = MIN(ret->first, (size_t)at);
	}
	return ret->first < b->rounds;
}

static bool pool_of(struct backtest *b, const json_t *pool, struct pool *ret)
{
	struct ctl *c = b->ctl;
	const char *up = json_str(pool, "up", "", NULL);

	ret->supply = (struct trace){
		.name = json_str(pool, "id", "?", NULL),
		.zone = arena_printf(c->arena, "%s/%s/%s", json_str(pool, "provider", "", NULL),
		    *json_str(pool, "zone", "", NULL) != '\0' ? json_str(pool, "zone", "", NULL)
							      : json_str(pool, "region", "", NULL),
		    json_str(pool, "instance_type", "", NULL)),
		.region = arena_printf(c->arena, "%s/%s", json_str(pool, "provider", "", NULL),
		    json_str(pool, "region", "", NULL)),
		.gap_us = json_i64(b->doc, "tick_s", 0, NULL) * SPOT_US_PER_S,
	};
	ret->price = ret->supply;
	ret->up = arena_strdup(c->arena, up);
	ret->odds = json_number_value(json_object_get(pool, "launch_odds"));
	ret->hazard = json_number_value(json_object_get(pool, "hazard_per_hour"));
	for (size_t i = 0; up[i] != '\0'; i++) {
		b->unknown += up[i] == '?';
	}
	b->tried += json_bool(pool, "tried", false, NULL);
	return strlen(up) == b->ticks && rounds_of(b, pool, ret) &&
	    prices_of(c, pool, b->ticks, &ret->price);
}

static bool reply_read(struct backtest *b)
{
	const json_t *pools = json_object_get(b->doc, "pools"), *pool;
	int64_t tick_s = json_i64(b->doc, "tick_s", 0, NULL),
		round_s = json_i64(b->doc, "round_s", 0, NULL);
	size_t i;

	b->n = json_array_size(pools);
	b->ticks = strlen(json_str(json_array_get(pools, 0), "up", "", NULL));
	if (tick_s <= 0 || round_s < tick_s || b->ticks == 0 || b->ticks > TICKS_MOST) {
		return false;
	}
	b->round_ticks = (size_t)(round_s / tick_s);
	b->rounds = (b->ticks + b->round_ticks - 1) / b->round_ticks;
	b->pools = arena_array(b->ctl->arena, b->n, sizeof(*b->pools));
	json_array_foreach (pools, i, pool) {
		if (!pool_of(b, pool, &b->pools[i])) {
			return false;
		}
	}
	return true;
}

static int job_of(const json_t *doc, struct trace_job *ret)
{
	*ret = (struct trace_job){
		.work_us = json_i64(doc, "work_us", 0, NULL),
		.deadline_us = json_i64(doc, "deadline_us", 0, NULL),
		.changeover_us = json_i64(doc, "changeover_us", 0, NULL),
		.on_demand_micros = json_i64(doc, "on_demand_micros", 0, NULL),
		.transfer_micros = json_i64(doc, "transfer_micros", 0, NULL),
	};
	if (ret->deadline_us == 0) {
		say("spotctl backtest: the job file has no deadline; add one, or use --deadline "
		    "HOURS");
		return CTL_USAGE;
	}
	return CTL_OK;
}

/* ---- supply for the runs --------------------------------------------------------------------- */

/* How supply that is not known is taken. */
static void unknown_fill(const struct backtest *b, size_t k, const char *how, char *up)
{
	const struct pool *p = &b->pools[k];
	struct rng r;

	if (strcmp(how, "prior") != 0) {
		past_fill_with(up, b->ticks, strcmp(how, "up") == 0 ? '1' : '0');
		return;
	}
	rng_seeded_init(&r, (uint64_t)b->seed * 1000003 + k);
	past_fill(up, b->ticks, p->supply.gap_us, p->odds, p->hazard, &r);
}

/* A pool that is picked only in a later round is not there before it. */
static void supply_fill(const struct backtest *b, struct arena *a, const char *up, size_t from_tick,
    struct trace *ret)
{
	int32_t *counts = arena_array(a, b->ticks, sizeof(*counts));

	for (size_t i = from_tick; i < b->ticks; i++) {
		counts[i] = up[i] == '1';
	}
	ret->n = b->ticks;
	ret->counts = counts;
}

/* The round from first on in which a pool is picked, up to last; false: in none. */
static bool round_of(const struct pool *p, size_t first, size_t last, size_t *ret)
{
	for (*ret = first; *ret <= last; ++*ret) {
		if (p->rounds[*ret]) {
			return true;
		}
	}
	return false;
}

/* Pools picked in one of these rounds, each from its round on; those of the first one with all of
 * their past. */
static int market_make(const struct backtest *b, struct arena *a, char *const *up, size_t first,
    size_t last, struct trace_market *ret, const struct trace **ret_traces)
{
	struct trace *supply = arena_array(a, b->n, sizeof(*supply));
	const struct trace **prices = arena_array(a, b->n, sizeof(*prices));
	struct spot_err err = { 0 };
	size_t n = 0, round;

	for (size_t k = 0; k < b->n; k++) {
		if (!round_of(&b->pools[k], first, last, &round)) {
			continue;
		}
		supply[n] = b->pools[k].supply;
		supply_fill(b, a, up[k], round > first ? round * b->round_ticks : 0, &supply[n]);
		prices[n++] = &b->pools[k].price;
	}
	*ret_traces = supply;
	if (n == 0 || trace_market_build(a, supply, prices, n, 1, 0, ret, &err) != SPOT_OK) {
		say("spotctl backtest: %s", n == 0 ? "no pool has a price" : err.text);
		return CTL_FAILED;
	}
	ret->ends_first = "the time between --from and --to";
	return CTL_OK;
}

static int markets_make(const struct backtest *b, struct arena *a, const char *how,
    struct simulation *s)
{
	struct trace_market *markets = arena_array(a, b->rounds, sizeof(*markets));
	const struct trace **traces = arena_array(a, b->rounds, sizeof(*traces));
	char **up = arena_array(a, b->n, sizeof(*up));
	size_t run;
	int rc;

	for (size_t k = 0; k < b->n; k++) {
		up[k] = arena_strdup(a, b->pools[k].up);
		unknown_fill(b, k, how, up[k]);
	}
	rc = market_make(b, a, up, 0, b->rounds - 1, &s->market, &s->traces);
	if (rc != CTL_OK) {
		return rc;
	}
	run = trace_job_ticks(&s->market, &s->job);
	for (size_t i = 0; rc == CTL_OK && i < b->rounds; i++) {
		size_t last = ((i + 1) * b->round_ticks + run) / b->round_ticks;

		rc = market_make(b, a, up, i, MIN(last, b->rounds - 1), &markets[i], &traces[i]);
	}
	s->markets = markets;
	s->market_traces = traces;
	s->stretch_ticks = b->round_ticks;
	return rc;
}

/* ---- assumptions behind the figures ---------------------------------------------------------- */

static const char *const assumptions[] = { "prior", "up", "down" };

/* The same runs with what is unknown taken otherwise: how much of the figures is assumption. */
static int others_run(const struct backtest *b, const char *how, const struct simulation *s,
    json_t *whole)
{
	AUTO(json) json_t *all = json_object();

	for (size_t i = 0; i < ARRAY_LEN(assumptions); i++) {
		AUTO(arena) struct arena *a = arena_new(MARKET_BYTES_MAX);
		struct simulation other = *s;
		json_t *costs = NULL;
		int rc;

		if (strcmp(assumptions[i], how) == 0) {
			continue;
		}
		rc = markets_make(b, a, assumptions[i], &other);
		rc = rc != CTL_OK ? rc : simulation_costs(b->ctl, &other, &costs);
		if (rc != CTL_OK) {
			return rc;
		}
		json_object_set_new(all, assumptions[i], costs);
	}
	json_object_set(whole, "mean_cost_if_unknown", all);
	return CTL_OK;
}

static void basis_add(const struct backtest *b, const char *how, const struct simulation *s,
    json_t *whole)
{
	json_object_set(whole, "from_at", json_object_get(b->doc, "from_at"));
	json_object_set(whole, "to_at", json_object_get(b->doc, "to_at"));
	json_object_set_new(whole, "deadline_hours",
	    json_real((double)s->job.deadline_us / (double)SPOT_US_PER_HOUR));
	json_object_set_new(whole, "on_demand_usd",
	    json_real((double)s->job.on_demand_micros / 1e6));
	json_object_set(whole, "on_demand_type", json_object_get(b->doc, "on_demand_type"));
	json_object_set_new(whole, "transfer_usd", json_real((double)s->job.transfer_micros / 1e6));
	json_object_set(whole, "pools_known", json_object_get(b->doc, "pools_known"));
	json_object_set_new(whole, "pools_picked", json_integer((json_int_t)b->n));
	json_object_set_new(whole, "pools_tried", json_integer((json_int_t)b->tried));
	json_object_set_new(whole, "supply_known",
	    json_real(1 - (double)b->unknown / (double)(b->n * b->ticks)));
	json_object_set_new(whole, "unknown", json_string(how));
}

static void say_basis(const struct backtest *b, const json_t *whole)
{
	const json_t *others = json_object_get(whole, "mean_cost_if_unknown"), *costs, *v;
	const char *how, *policy;

	if (b->ctl->format != FORMAT_TABLE && b->ctl->format != FORMAT_WIDE) {
		return;
	}
	say("%zu spot pools that were the cheapest at their time, out of %d suitable ones, from %s "
	    "to %s, picked again every %.0f h",
	    b->n, (int)json_i64(b->doc, "pools_known", 0, NULL),
	    json_str(b->doc, "from_at", "?", NULL), json_str(b->doc, "to_at", "?", NULL),
	    (double)json_i64(b->doc, "round_s", 0, NULL) / 3600.0);
	say("the broker tried %zu of them: %.0f %% of their supply is known; the rest is %s",
	    b->tried, json_number_value(json_object_get(whole, "supply_known")) * 100,
	    strcmp(json_str(whole, "unknown", "", NULL), "prior") == 0
		? "drawn from the estimated hazard and launch odds"
		: "assumed (--unknown)");
	json_object_foreach ((json_t *)(uintptr_t)others, how, costs) {
		json_object_foreach ((json_t *)(uintptr_t)costs, policy, v) {
			say("if it were %s, %s would have cost %.2f USD",
			    strcmp(how, "prior") == 0    ? "drawn"
				: strcmp(how, "up") == 0 ? "all there"
							 : "never there",
			    policy, json_number_value(v));
		}
	}
	if (json_i64(b->doc, "checkpoint_bytes", 0, NULL) == 0) {
		say("the job file has no checkpoint.size_gb, so moves between regions cost nothing "
		    "here");
	}
}

static int path_of(struct ctl *c, const char **ret)
{
	static const char *const names[] = { "from", "to" };
	const char *deadline = opt_value(c, "deadline");
	char *path = arena_strdup(c->arena, "/v1/backtest");
	char buf[TIME_TEXT_MAX];
	int64_t us;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = opt_value(c, names[i]);

		if (v == NULL) {
			continue;
		}
		if (!parse_time_us(v, &us)) {
			if (!parse_duration_us(v, &us)) {
				say("spotctl backtest: --%s must be a time such as "
				    "2026-01-31T00:00:00Z or a duration back such as 14d, not '%s'",
				    names[i], v);
				return CTL_USAGE;
			}
			us = clock_real.wall_us(&clock_real) - us;
		}
		path =
		    arena_printf(c->arena, "%s%c%s=%s", path, strchr(path, '?') != NULL ? '&' : '?',
			names[i], url_encode(c->arena, format_time(us, buf), false));
	}
	/* The daemon chooses what is fallen back on by it. */
	if (deadline != NULL) {
		if (!simulation_hours(deadline, &us)) {
			say("spotctl backtest: --deadline must be hours such as 60 or 52.8, not "
			    "'%s'",
			    deadline);
			return CTL_USAGE;
		}
		path = arena_printf(c->arena, "%s%cdeadline_s=%" PRId64, path,
		    strchr(path, '?') != NULL ? '&' : '?', us / SPOT_US_PER_S);
	}
	*ret = path;
	return CTL_OK;
}

static int unknown_of(const struct ctl *c, const char **ret)
{
	const char *asked = opt_value(c, "unknown");

	*ret = assumptions[0];
	for (size_t i = 0; asked != NULL && i < ARRAY_LEN(assumptions); i++) {
		if (strcmp(asked, assumptions[i]) == 0) {
			*ret = assumptions[i];
			return CTL_OK;
		}
	}
	if (asked != NULL) {
		say("spotctl backtest: --unknown must be prior, up or down, not '%s'", asked);
	}
	return asked != NULL ? CTL_USAGE : CTL_OK;
}

static int seed_of(const struct ctl *c, int64_t *ret)
{
	const char *seed = opt_value(c, "seed");

	*ret = 1;
	if (seed != NULL && !parse_i64(seed, 0, INT64_MAX, ret)) {
		say("spotctl backtest: --seed must be a whole number, not '%s'", seed);
		return CTL_USAGE;
	}
	return CTL_OK;
}

/* The reply as runs, and their outcome. */
static int reply_run(struct backtest *b, const char *how, struct simulation *s)
{
	AUTO(arena) struct arena *a = arena_new(MARKET_BYTES_MAX);
	AUTO(json) json_t *whole = json_object();
	int rc = job_of(b->doc, &s->job);

	if (rc != CTL_OK || !reply_read(b)) {
		return rc != CTL_OK ? rc : bad_reply();
	}
	rc = markets_make(b, a, how, s);
	rc = rc != CTL_OK ? rc : simulation_starts(b->ctl, s);
	if (rc != CTL_OK) {
		return rc;
	}
	basis_add(b, how, s, whole);
	if (b->unknown > 0) {
		rc = others_run(b, how, s, whole);
	}
	rc = rc != CTL_OK ? rc : simulation_print(b->ctl, s, whole);
	say_basis(b, whole);
	return rc;
}

int cmd_backtest(struct ctl *c)
{
	struct simulation s = { 0 };
	struct backtest b = { .ctl = c };
	const char *path, *how;
	struct str file;
	struct reply r;
	int rc = path_of(c, &path);

	rc = rc != CTL_OK ? rc : unknown_of(c, &how);
	rc = rc != CTL_OK ? rc : seed_of(c, &b.seed);
	rc = rc != CTL_OK ? rc : simulation_policies(c, &s);
	rc = rc != CTL_OK ? rc : read_input(c, c->args[0], &file);
	rc = rc != CTL_OK ? rc : conn_send(c, "POST", path, "application/yaml", file, &r);
	b.doc = rc == CTL_OK ? r.json : NULL;
	return rc == CTL_OK ? reply_run(&b, how, &s) : rc;
}
