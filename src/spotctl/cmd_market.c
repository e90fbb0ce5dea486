/* prices, pools, providers, quota. */
#include "base/base.h"
#include "base/str.h"
#include "spotctl/ctl.h"

static const struct column price_cols[] = {
	{"POOL", "id", CELL_TEXT, false},
	{"PROVIDER", "provider", CELL_TEXT, false},
	{"REGION", "region", CELL_TEXT, false},
	{"ZONE", "zone", CELL_TEXT, false},
	{"TYPE", "instance_type", CELL_TEXT, false},
	{"GPU", "", CELL_GPU, false},
	{"MARKET", "market", CELL_TEXT, false},
	{"USD/H", "price_micros", CELL_USD, false},
	{"USD/GPU/H", "price_per_gpu_micros", CELL_USD, false},
	{"AGE", "age_s", CELL_AGE, false},
	{"STATE", "price_state", CELL_STATE, false},
	{"SINCE", "effective_at", CELL_TIME, true},
	{"SOURCE", "source", CELL_TEXT, true},
	{"VCPUS", "vcpus", CELL_INT, true},
	{"MEM_MIB", "mem_mib", CELL_INT, true},
	{"WHY", "price_why", CELL_TEXT, true},
	{0}};
static const struct column pool_cols[] = {
	{"POOL", "id", CELL_TEXT, false},
	{"PLACE", "", CELL_PLACE, false},
	{"TYPE", "instance_type", CELL_TEXT, false},
	{"GPU", "", CELL_GPU, false},
	{"MARKET", "market", CELL_TEXT, false},
	{"USD/H", "price_micros", CELL_USD, false},
	{"STATE", "price_state", CELL_STATE, false},
	{"RECLAIMS/H", "hazard", CELL_HAZARD, false},
	{"FROM", "hazard.source", CELL_TEXT, false},
	{"NODE-H", "record.node_hours", CELL_REAL, true},
	{"RECLAIMS", "record.reclaims", CELL_INT, true},
	{"REFUSALS", "record.refusals", CELL_INT, true},
	{"COOLING", "cooling_until_at", CELL_TIME, false},
	{"WHY", "cooling_why", CELL_TEXT, true},
	{0}};

int cmd_prices(struct ctl *c)
{
	return list_command(c, "/v1/prices", price_cols, "no prices yet: are providers configured? ('spotctl providers')");
}

int cmd_pools(struct ctl *c)
{
	return list_command(c, "/v1/pools", pool_cols, "no pools yet: are providers configured? ('spotctl providers')");
}

/* The last 60 points as bars between the lowest and the highest. */
static void plot(struct ctl *c, const json_t *points)
{
	static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	size_t n = json_array_size(points);
	int64_t lo = INT64_MAX, hi = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t v = json_i64(json_array_get(points, i), "price_micros", 0, NULL);

		lo = MIN(lo, v);
		hi = MAX(hi, v);
	}
	if (n == 0) {
		say("no price in that time");
		return;
	}
	printf("\nUSD/h from %s to %s, %zu points\n", usd_text(c, lo, 4), usd_text(c, hi, 4), n);
	for (size_t i = n > 60 ? n - 60 : 0; i < n; i++) {
		int64_t v = json_i64(json_array_get(points, i), "price_micros", 0, NULL);

		fputs(bars[hi > lo ? (v - lo) * 7 / (hi - lo) : 3], stdout);
	}
	putchar('\n');
}

int cmd_pool_show(struct ctl *c)
{
	const char *history = opt_value(c, "history");
	char *path = arena_printf(c->arena, "/v1/pools/%s?history=%s", url_encode(c->arena, c->args[0], false),
	    history != NULL ? url_encode(c->arena, history, false) : "7d");
	struct reply r;
	int rc = conn_get(c, path, &r);

	rc = rc != CTL_OK ? rc : render_one(c, r.json, pool_cols);
	if (rc == CTL_OK && (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE)) {
		plot(c, json_object_get(r.json, "history"));
	}
	return rc;
}

int cmd_providers(struct ctl *c)
{
	static const struct column cols[] = {
		{"PROVIDER", "name", CELL_TEXT, false},
		{"KIND", "kind", CELL_TEXT, false},
		{"ACCOUNT", "account", CELL_TEXT, false},
		{"STATE", "state", CELL_STATE, false},
		{"LAST OK", "last_ok_at", CELL_AGE, false},
		{"REQUESTS", "requests", CELL_INT, false},
		{"THROTTLED", "throttled", CELL_INT, false},
		{"LAST ERROR", "last_error", CELL_TEXT, false},
		{0}};

	return list_command(c, "/v1/providers", cols, "no provider is configured: see the [provider NAME] sections of the daemon's file");
}

int cmd_quota(struct ctl *c)
{
	static const struct column cols[] = {
		{"PROVIDER", "provider", CELL_TEXT, false}, {"REGION", "region", CELL_TEXT, false},
		{"CLASS", "class", CELL_TEXT, false}, {"MARKET", "market", CELL_TEXT, false},
		{"LIMIT", "limit", CELL_INT, false}, {"UNIT", "unit", CELL_TEXT, false},
		{"AGE", "observed_at", CELL_AGE, false}, {0}};

	return list_command(c, "/v1/quotas", cols, "no quotas are known yet");
}
