/*
 * backtest: what the deadline policies would have cost for a job file on one's own past: prices and supply of its best pools
 * come from the daemon's rows (POST /v1/backtest), the runs are made here by the code of simulate.
 */
#include "base/base.h"
#include "base/clock.h"
#include "base/str.h"
#include "spotctl/ctl.h"
#include "spotctl/simulate.h"

#define TICKS_MOST 100000

static int bad_reply(void)
{
	say("spotctl backtest: the reply of the daemon is not as expected; are both of the same release?");
	return CTL_FAILED;
}

/* "0110.." as counts. */
static bool supply_of(struct ctl *c, const json_t *pool, struct trace *ret)
{
	const char *up = json_str(pool, "up", "", NULL);
	size_t n = strlen(up);
	int32_t *counts;

	if (n == 0 || n > TICKS_MOST) {
		return false;
	}
	counts = arena_array(c->arena, n, sizeof(*counts));
	for (size_t i = 0; i < n; i++) {
		counts[i] = up[i] == '1';
	}
	ret->n = n;
	ret->counts = counts;
	return true;
}

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
		while (at + 1 < k && json_integer_value(json_array_get(json_array_get(list, at + 1), 0)) <= (json_int_t)i) {
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

static bool trace_of(struct ctl *c, const json_t *doc, const json_t *pool, struct trace *supply, struct trace *price)
{
	*supply = (struct trace){
		.name = json_str(pool, "id", "?", NULL),
		.zone = arena_printf(c->arena, "%s/%s/%s", json_str(pool, "provider", "", NULL),
		    *json_str(pool, "zone", "", NULL) != '\0' ? json_str(pool, "zone", "", NULL) : json_str(pool, "region", "", NULL),
		    json_str(pool, "instance_type", "", NULL)),
		.region = arena_printf(c->arena, "%s/%s", json_str(pool, "provider", "", NULL), json_str(pool, "region", "", NULL)),
		.gap_us = json_i64(doc, "tick_s", 0, NULL) * SPOT_US_PER_S,
	};
	*price = *supply;
	return supply->gap_us > 0 && supply_of(c, pool, supply) && prices_of(c, pool, supply->n, price);
}

static int job_of(struct ctl *c, const json_t *doc, struct trace_job *ret)
{
	const char *deadline = opt_value(c, "deadline");

	*ret = (struct trace_job){
		.work_us = json_i64(doc, "work_us", 0, NULL),
		.deadline_us = json_i64(doc, "deadline_us", 0, NULL),
		.changeover_us = json_i64(doc, "changeover_us", 0, NULL),
		.on_demand_micros = json_i64(doc, "on_demand_micros", 0, NULL),
	};
	if (deadline != NULL && !simulation_hours(deadline, &ret->deadline_us)) {
		say("spotctl backtest: --deadline wants hours such as 60 or 52.8, not '%s'", deadline);
		return CTL_USAGE;
	}
	if (ret->deadline_us == 0) {
		say("spotctl backtest: the file has no deadline: give one there or with --deadline HOURS");
		return CTL_USAGE;
	}
	return CTL_OK;
}

static int market_of(struct ctl *c, const json_t *doc, struct simulation *s)
{
	const json_t *pools = json_object_get(doc, "pools"), *pool;
	size_t n = json_array_size(pools), i;
	struct trace *supply = arena_array(c->arena, n + 1, sizeof(*supply)), *prices = arena_array(c->arena, n + 1, sizeof(*prices));
	const struct trace **each = arena_array(c->arena, n + 1, sizeof(*each));
	struct spot_err err = {0};

	json_array_foreach(pools, i, pool) {
		if (!trace_of(c, doc, pool, &supply[i], &prices[i])) {
			return bad_reply();
		}
		each[i] = &prices[i];
	}
	s->traces = supply;
	if (n == 0 || trace_market_build(c->arena, supply, each, n, 1, 0, &s->market, &err) != SPOT_OK) {
		say("spotctl backtest: %s", n == 0 ? "no pool" : err.text);
		return CTL_FAILED;
	}
	return CTL_OK;
}

/* What the figures rest on, beside them. */
static void say_basis(const struct ctl *c, const json_t *doc)
{
	const json_t *pools = json_object_get(doc, "pools"), *pool;
	size_t i, tried = 0;

	json_array_foreach(pools, i, pool) {
		tried += json_bool(pool, "tried", false, NULL);
	}
	if (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE) {
		say("%zu spot pools from %s to %s; supply is known of %zu that we tried ourselves, the others count as up", json_array_size(pools),
		    json_str(doc, "from_at", "?", NULL), json_str(doc, "to_at", "?", NULL), tried);
	}
}

static int path_of(struct ctl *c, const char **ret)
{
	static const char *const names[] = {"from", "to"};
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
				say("spotctl backtest: --%s wants a time such as 2026-01-31T00:00:00Z, or a duration back such as 14d, not '%s'",
				    names[i], v);
				return CTL_USAGE;
			}
			us = clock_real.wall_us(&clock_real) - us;
		}
		path = arena_printf(c->arena, "%s%c%s=%s", path, strchr(path, '?') != NULL ? '&' : '?', names[i],
		    url_encode(c->arena, format_time(us, buf), false));
	}
	*ret = path;
	return CTL_OK;
}

int cmd_backtest(struct ctl *c)
{
	AUTO(json) json_t *whole = json_object();
	struct simulation s = {0};
	const char *path;
	struct str file;
	struct reply r;
	int rc = path_of(c, &path);

	rc = rc != CTL_OK ? rc : simulation_policies(c, &s);
	rc = rc != CTL_OK ? rc : read_input(c, c->args[0], &file);
	rc = rc != CTL_OK ? rc : conn_send(c, "POST", path, "application/yaml", file, &r);
	rc = rc != CTL_OK ? rc : job_of(c, r.json, &s.job);
	rc = rc != CTL_OK ? rc : market_of(c, r.json, &s);
	rc = rc != CTL_OK ? rc : simulation_starts(c, &s);
	if (rc != CTL_OK) {
		return rc;
	}
	json_object_set(whole, "from_at", json_object_get(r.json, "from_at"));
	json_object_set(whole, "to_at", json_object_get(r.json, "to_at"));
	rc = simulation_print(c, &s, whole);
	say_basis(c, r.json);
	return rc;
}
