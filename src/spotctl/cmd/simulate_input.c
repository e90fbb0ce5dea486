/* simulate: options and files. Hours and dollars are decimal text, taken exactly. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"
#include "spotctl/cmd/cmd.h"

#define FILE_BYTES_MAX ((size_t)32 << 20)
#define HOURS_MAX 100000
#define US_PER_MICRO_HOUR (SPOT_US_PER_HOUR / 1000000)
#define STARTS_MAX 100000
#define POLICIES_MAX 16

/* Values of an option that may be given several times, in their order. */
static size_t values_of(const struct ctl *c, const char *name, const char **ret)
{
	size_t n = 0;

	for (int i = 0; i < c->values_n; i++) {
		if (strcmp(c->given[i]->name, name) == 0) {
			ret[n++] = c->values[i];
		}
	}
	return n;
}

bool simulation_hours(const char *text, int64_t *ret)
{
	int64_t micro_hours;

	if (!parse_usd_micros(text, &micro_hours) || micro_hours > HOURS_MAX * INT64_C(1000000)) {
		return false;
	}
	*ret = micro_hours * US_PER_MICRO_HOUR;
	return true;
}

/* dflt < 0: must be given. */
static int read_hours(const struct ctl *c, const char *name, int64_t dflt_us, int64_t *ret)
{
	const char *text = opt_value(c, name);

	if (text == NULL && dflt_us >= 0) {
		*ret = dflt_us;
		return CTL_OK;
	}
	if (text == NULL) {
		say("spotctl %s: --%s HOURS is required", c->cmd->noun, name);
		return CTL_USAGE;
	}
	if (!simulation_hours(text, ret)) {
		say("spotctl %s: --%s must be hours such as 48 or 52.8, at most %d, not '%s'",
		    c->cmd->noun, name, HOURS_MAX, text);
		return CTL_USAGE;
	}
	return CTL_OK;
}

static int read_usd(const struct ctl *c, const char *name, int64_t dflt, int64_t *ret)
{
	const char *text = opt_value(c, name);

	if (text == NULL && dflt >= 0) {
		*ret = dflt;
		return CTL_OK;
	}
	if (text == NULL) {
		say("spotctl %s: --%s USD is required", c->cmd->noun, name);
		return CTL_USAGE;
	}
	if (!parse_usd_micros(text, ret) || *ret > TRACE_PRICE_MICROS_MAX) {
		say("spotctl %s: --%s must be dollars such as 0.9731, at most %d, not '%s'",
		    c->cmd->noun, name, TRACE_PRICE_MICROS_MAX / 1000000, text);
		return CTL_USAGE;
	}
	return CTL_OK;
}

static int read_count(const struct ctl *c, const char *name, int64_t least, int64_t most,
    int64_t dflt, int64_t *ret)
{
	const char *text = opt_value(c, name);

	*ret = dflt;
	if (text != NULL && !parse_i64(text, least, most, ret)) {
		say("spotctl %s: --%s must be a number from %" PRId64 " to %" PRId64 ", not '%s'",
		    c->cmd->noun, name, least, most, text);
		return CTL_USAGE;
	}
	return CTL_OK;
}

typedef enum spot_rc trace_parse(struct arena *a, struct str text, const char *path,
    struct trace *ret, struct spot_err *err);

static int read_traces(struct ctl *c, const char *option, trace_parse *parse,
    const struct trace **ret, size_t *ret_n)
{
	const char *paths[CTL_VALUES_MAX];
	size_t n = values_of(c, option, paths);
	struct trace *t = arena_array(c->arena, n + 1, sizeof(*t));

	for (size_t i = 0; i < n; i++) {
		struct spot_err err = { 0 };
		struct str text;
		int rc = read_file(c, paths[i], FILE_BYTES_MAX, &text);

		if (rc != CTL_OK) {
			return rc;
		}
		if (parse(c->arena, text, paths[i], &t[i], &err) != SPOT_OK) {
			say("spotctl %s: --%s %s", c->cmd->noun, option, err.text);
			return CTL_USAGE;
		}
	}
	*ret = t;
	*ret_n = n;
	return CTL_OK;
}

static int read_job(const struct ctl *c, struct trace_job *ret)
{
	int rc = read_hours(c, "work", -1, &ret->work_us);

	rc = rc != CTL_OK ? rc : read_hours(c, "deadline", -1, &ret->deadline_us);
	rc = rc != CTL_OK ? rc
			  : read_hours(c, "changeover", SPOT_US_PER_HOUR / 5, &ret->changeover_us);
	rc = rc != CTL_OK ? rc : read_usd(c, "on-demand-price", -1, &ret->on_demand_micros);
	return rc != CTL_OK ? rc : read_usd(c, "transfer-fee", 0, &ret->transfer_micros);
}

static int check_counts(const struct ctl *c)
{
	const char *paths[CTL_VALUES_MAX];
	size_t n = values_of(c, "trace", paths), prices_n = values_of(c, "price-trace", paths);

	if (n == 0) {
		say("spotctl %s: --trace FILE (the recorded supply of a zone) is required",
		    c->cmd->noun);
		return CTL_USAGE;
	}
	if (prices_n != 0 && prices_n != n) {
		say("spotctl %s: %zu --price-trace for %zu --trace; give one for each in the same "
		    "order, or none",
		    c->cmd->noun, prices_n, n);
		return CTL_USAGE;
	}
	return CTL_OK;
}

/* A run needs all of the zones and prices: what goes on behind the first end is not used, which is
 * said. */
static void say_end(const struct ctl *c, const struct trace *supply, size_t n,
    const struct trace_market *m)
{
	char end[32], most[32];
	size_t longest = 0;

	for (size_t i = 1; i < n; i++) {
		longest = supply[i].n > supply[longest].n ? i : longest;
	}
	if (supply[longest].n > m->ticks) {
		say("spotctl %s: '%s' ends after %s, '%s' after %s; data after the earlier end are "
		    "not used",
		    c->cmd->noun, m->ends_first,
		    format_duration((int64_t)m->ticks * m->tick_us, end), supply[longest].name,
		    format_duration((int64_t)supply[longest].n * m->tick_us, most));
	}
}

static int read_market(struct ctl *c, int64_t nodes, struct simulation *ret)
{
	const struct trace *supply, *prices, *per_pool[CTL_VALUES_MAX];
	size_t n, prices_n;
	int64_t spot_micros = 0;
	struct spot_err err = { 0 };
	int rc = check_counts(c);

	rc = rc != CTL_OK ? rc : read_traces(c, "trace", trace_parse_supply, &supply, &n);
	rc = rc != CTL_OK ? rc
			  : read_traces(c, "price-trace", trace_parse_prices, &prices, &prices_n);
	if (rc != CTL_OK) {
		return rc;
	}
	if (prices_n == 0) {
		rc = read_usd(c, "spot-price", -1, &spot_micros);
	}
	for (size_t i = 0; i < prices_n; i++) {
		per_pool[i] = &prices[i];
	}
	if (rc == CTL_OK &&
	    trace_market_build(c->arena, supply, prices_n > 0 ? per_pool : NULL, n, nodes,
		spot_micros, &ret->market, &err) != SPOT_OK) {
		say("spotctl %s: %s", c->cmd->noun, err.text);
		return CTL_USAGE;
	}
	if (rc == CTL_OK) {
		say_end(c, supply, n, &ret->market);
	}
	ret->traces = supply;
	ret->traces_n = n;
	return rc;
}

/* A trace that is run over says what is to come, under whatever name: of that a policy learns what
 * is before its start. */
static bool run_over(const struct ctl *c, const struct simulation *s, const struct trace *t)
{
	for (size_t i = 0; i < s->traces_n; i++) {
		const struct trace *own = &s->traces[i];
		size_t n = MIN(own->n, t->n);

		if (own->gap_us == t->gap_us &&
		    memcmp(own->counts, t->counts, n * sizeof(*t->counts)) == 0) {
			say("spotctl %s: --history '%s' is also the --trace '%s'; policies learn "
			    "only from the part before each start",
			    c->cmd->noun, t->name, own->name);
			return true;
		}
	}
	return false;
}

static int read_history(struct ctl *c, int64_t nodes, struct simulation *ret)
{
	const struct trace *t;
	struct policy_track *tracks;
	size_t n;
	int rc = read_traces(c, "history", trace_parse_supply, &t, &n);

	if (rc != CTL_OK) {
		return rc;
	}
	tracks = arena_array(c->arena, n + 1, sizeof(*tracks));
	for (size_t i = 0; i < n; i++) {
		if (!run_over(c, ret, &t[i])) {
			tracks[ret->history_n++] = (struct policy_track){ .pool = -1,
				.tick_us = t[i].gap_us,
				.n = t[i].n,
				.up = trace_up(c->arena, &t[i], nodes) };
		}
	}
	ret->history = tracks;
	return CTL_OK;
}

/* Drawn once, so that every policy begins at the same places. */
static int draw_starts(struct ctl *c, struct simulation *ret)
{
	int64_t n, seed;
	struct rng r;
	size_t *starts;
	int rc = read_count(c, "starts", 1, STARTS_MAX, 100, &n);

	rc = rc != CTL_OK ? rc : read_count(c, "seed", 0, INT64_MAX, 1, &seed);
	if (rc != CTL_OK) {
		return rc;
	}
	starts = arena_array(c->arena, (size_t)n, sizeof(*starts));
	rng_seeded_init(&r, (uint64_t)seed);
	for (int64_t i = 0; i < n; i++) {
		starts[i] = rng_below(&r, trace_starts(&ret->market, &ret->job));
	}
	ret->starts = starts;
	ret->starts_n = (size_t)n;
	return CTL_OK;
}

static int take_starts(struct ctl *c, const char *list, struct simulation *ret)
{
	char *text = arena_strdup(c->arena, list), *next = text, *word;
	size_t *starts = arena_array(c->arena, strlen(list) + 1, sizeof(*starts)), n = 0;
	size_t most = trace_starts(&ret->market, &ret->job) - 1;

	while ((word = strsep(&next, ",")) != NULL) {
		int64_t us;

		if (!simulation_hours(word, &us)) {
			say("spotctl %s: --start-hours must be hours separated by commas such as "
			    "0,24,96.5, not '%s'",
			    c->cmd->noun, word);
			return CTL_USAGE;
		}
		starts[n] = (size_t)(us / ret->market.tick_us);
		if (starts[n] > most) {
			say("spotctl %s: --start-hours '%s' is too late; a run until its deadline "
			    "fits into the trace up to hour %.2f",
			    c->cmd->noun, word,
			    (double)most * (double)ret->market.tick_us / (double)SPOT_US_PER_HOUR);
			return CTL_USAGE;
		}
		n++;
	}
	ret->starts = starts;
	ret->starts_n = n;
	return CTL_OK;
}

static bool add_policy(struct simulation *s, const char *name)
{
	for (size_t i = 0; i < s->policies_n; i++) {
		if (strcmp(s->policies[i], name) == 0) {
			return true;
		}
	}
	if (strcmp(name, "optimal") != 0 && policy_find(name) == NULL) {
		return false;
	}
	s->policies[s->policies_n++] = name;
	return true;
}

static void add_all(struct simulation *s)
{
	for (size_t i = 0; policy_at(i) != NULL; i++) {
		add_policy(s, policy_at(i)->name);
	}
	add_policy(s, "optimal");
}

int simulation_policies(struct ctl *c, struct simulation *ret)
{
	const char *names[CTL_VALUES_MAX];
	size_t n = values_of(c, "policy", names);

	ret->policies = arena_array(c->arena, POLICIES_MAX, sizeof(*ret->policies));
	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i], "all") == 0) {
			add_all(ret);
		} else if (!add_policy(ret, names[i])) {
			say("spotctl %s: no policy '%s'; valid are auto, uniform-progress, greedy, "
			    "on-demand, optimal and all",
			    c->cmd->noun, names[i]);
			return CTL_USAGE;
		}
	}
	if (n == 0) {
		add_all(ret);
	}
	return CTL_OK;
}

int simulation_starts(struct ctl *c, struct simulation *ret)
{
	struct spot_err err = { 0 };

	if (trace_job_check(&ret->market, &ret->job, &err) != SPOT_OK) {
		say("spotctl %s: %s", c->cmd->noun, err.text);
		return CTL_USAGE;
	}
	return opt_flag(c, "start-hours") ? take_starts(c, opt_value(c, "start-hours"), ret)
					  : draw_starts(c, ret);
}

int simulation_read(struct ctl *c, struct simulation *ret)
{
	int64_t nodes = 1;
	int rc = read_count(c, "nodes", 1, TRACE_COUNT_MAX, 1, &nodes);

	*ret = (struct simulation){ 0 };
	rc = rc != CTL_OK ? rc : simulation_policies(c, ret);
	rc = rc != CTL_OK ? rc : read_job(c, &ret->job);
	rc = rc != CTL_OK ? rc : read_market(c, nodes, ret);
	rc = rc != CTL_OK ? rc : read_history(c, nodes, ret);
	if (rc != CTL_OK) {
		return rc;
	}
	return simulation_starts(c, ret);
}
