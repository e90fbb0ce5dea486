/* prices, pools, providers, quota, supply. */
#include "base/base.h"
#include "base/text/str.h"
#include "spotctl/ctl.h"

static const struct column price_cols[] = { { "POOL", "id", CELL_TEXT, false },
	{ "PROVIDER", "provider", CELL_TEXT, false }, { "REGION", "region", CELL_TEXT, false },
	{ "ZONE", "zone", CELL_TEXT, false }, { "TYPE", "instance_type", CELL_TEXT, false },
	{ "GPU", "", CELL_GPU, false }, { "MARKET", "market", CELL_TEXT, false },
	{ "USD/H", "price_micros", CELL_USD, false },
	{ "USD/GPU/H", "price_per_gpu_micros", CELL_USD, false },
	{ "AGE", "age_s", CELL_AGE, false }, { "STATE", "price_state", CELL_STATE, false },
	{ "RECLAIMS/H", "hazard", CELL_INTERVAL, false },
	{ "FROM", "hazard.source", CELL_TEXT, false },
	{ "CAPACITY", "signals", CELL_CAPACITY, false }, { "SOURCE", "source", CELL_TEXT, false },
	{ "SINCE", "effective_at", CELL_TIME, true }, { "VCPUS", "vcpus", CELL_INT, true },
	{ "MEM_MIB", "mem_mib", CELL_INT, true }, { "WHY", "price_why", CELL_TEXT, true }, { 0 } };
const struct column pool_cols[] = { { "POOL", "id", CELL_TEXT, false },
	{ "PLACE", "", CELL_PLACE, false }, { "TYPE", "instance_type", CELL_TEXT, false },
	{ "GPU", "", CELL_GPU, false }, { "MARKET", "market", CELL_TEXT, false },
	{ "USD/H", "price_micros", CELL_USD, false }, { "STATE", "price_state", CELL_STATE, false },
	{ "RECLAIMS/H", "hazard", CELL_HAZARD, false },
	{ "FROM", "hazard.source", CELL_TEXT, false },
	{ "SIGNAL/H", "hazard.prior_per_hour", CELL_RATE, true },
	{ "NEIGHBOURS/H", "hazard.group_per_hour", CELL_RATE, true },
	{ "WEIGHT-H", "hazard.weight_hours", CELL_REAL, true },
	{ "USUAL/H", "hazard.usual_per_hour", CELL_RATE, true },
	{ "DAY", "hazard.day_factor", CELL_REAL, true },
	{ "ODDS", "launch_odds.odds", CELL_REAL, true },
	{ "NODE-H", "record.node_hours", CELL_REAL, true },
	{ "RECLAIMS", "record.reclaims", CELL_INT, true },
	{ "REFUSALS", "record.refusals", CELL_INT, true },
	{ "COOLING", "cooling_until_at", CELL_TIME, false },
	{ "WHY", "cooling_why", CELL_TEXT, true }, { 0 } };

static int prices_refused(struct ctl *c)
{
	static const struct column cols[] = { { "POOL", "pool.id", CELL_TEXT, false },
		{ "PLACE", "pool", CELL_PLACE, false },
		{ "TYPE", "pool.instance_type", CELL_TEXT, false },
		{ "GPU", "pool", CELL_GPU, false }, { "MARKET", "pool.market", CELL_TEXT, false },
		{ "SAID USD/H", "refused_micros", CELL_USD, false },
		{ "KEPT USD/H", "pool.price_micros", CELL_USD, false },
		{ "AGE", "age_s", CELL_AGE, false }, { "SOURCE", "source", CELL_TEXT, false },
		{ "WHY", "why", CELL_TEXT, false }, { 0 } };

	return list_command(c, "/v1/prices/refused", cols, "no price was rejected recently");
}

/* One row per GPU, cloud and market, those of a GPU together: what the table of the clouds side by
 * side has no room for. */
static int prices_cheapest(struct ctl *c)
{
	AUTO(json) json_t *pools = json_array();
	const json_t *row, *offer;
	struct reply r;
	size_t i, k;
	int rc = conn_get(c, opts_path(c, "/v1/prices/gpus"), &r);

	if (rc != CTL_OK) {
		return rc;
	}
	json_array_foreach (json_object_get(r.json, "items"), i, row) {
		json_array_foreach (json_object_get(row, "offers"), k, offer) {
			json_array_append(pools, json_object_get(offer, "pool"));
		}
	}
	return render_list(c, r.json, pools, price_cols,
	    "no prices yet; check the providers with 'spotctl providers'");
}

/* True after words: an option that the other list alone knows. */
static bool foreign_option(const struct ctl *c, const char *option, const char *const *names)
{
	for (; *names != NULL; names++) {
		if (opt_value(c, *names) != NULL) {
			say("spotctl prices: --%s cannot be combined with --%s", option, *names);
			return true;
		}
	}
	return false;
}

/* Asked for nothing in particular, a person wants to see the clouds side by side. */
static bool wants_gpus(const struct ctl *c)
{
	for (const struct ctl_opt *o = c->cmd->opts; o->name != NULL; o++) {
		if (opt_value(c, o->name) != NULL) {
			return false;
		}
	}
	return c->format == FORMAT_TABLE;
}

int cmd_prices(struct ctl *c)
{
	static const char *const not_refused[] = { "zone", "state", "max", "cheapest", NULL };
	static const char *const not_cheapest[] = { "zone", "state", "max", "type", "market",
		"limit", NULL };

	if (opt_flag(c, "refused")) {
		return foreign_option(c, "refused", not_refused) ? CTL_USAGE : prices_refused(c);
	}
	if (opt_flag(c, "cheapest")) {
		return foreign_option(c, "cheapest", not_cheapest) ? CTL_USAGE : prices_cheapest(c);
	}
	if (wants_gpus(c)) {
		return prices_gpus(c);
	}
	return list_command(c, "/v1/prices", price_cols,
	    "no prices yet; check the providers with 'spotctl providers'");
}

int cmd_pools(struct ctl *c)
{
	return list_command(c, "/v1/pools", pool_cols,
	    "no pools yet; check the providers with 'spotctl providers'");
}

int cmd_providers(struct ctl *c)
{
	static const struct column cols[] = { { "PROVIDER", "name", CELL_TEXT, false },
		{ "KIND", "kind", CELL_TEXT, false }, { "ACCOUNT", "account", CELL_TEXT, false },
		{ "STATE", "state", CELL_STATE, false },
		{ "LAST OK", "last_ok_at", CELL_AGE, false },
		{ "REQUESTS", "requests", CELL_INT, false },
		{ "THROTTLED", "throttled", CELL_INT, false },
		{ "LAST ERROR", "last_error", CELL_TEXT, false }, { 0 } };

	return list_command(c, "/v1/providers", cols,
	    "no provider is configured; add a [provider NAME] section to the daemon's "
	    "configuration file");
}

int cmd_supply(struct ctl *c)
{
	static const struct column cols[] = { { "PROVIDER", "provider", CELL_TEXT, false },
		{ "REGION", "region", CELL_TEXT, false }, { "GPU", "gpu", CELL_TEXT, false },
		{ "STATE", "state", CELL_STATE, false }, { "SINCE", "since_at", CELL_AGE, false },
		{ "INDEX", "index", CELL_REAL, false },
		{ "REFUSALS", "parts.refusals", CELL_REAL, true },
		{ "RECLAIMS", "parts.reclaims", CELL_REAL, true },
		{ "SCORES", "parts.scores", CELL_REAL, true },
		{ "PRICE", "parts.price", CELL_REAL, true }, { "WHY", "why", CELL_TEXT, false },
		{ 0 } };

	return list_command(c, "/v1/supply", cols,
	    "no spot launch was tried recently, and no supply is tight");
}

int cmd_quota(struct ctl *c)
{
	static const struct column cols[] = { { "PROVIDER", "provider", CELL_TEXT, false },
		{ "REGION", "region", CELL_TEXT, false }, { "CLASS", "class", CELL_TEXT, false },
		{ "MARKET", "market", CELL_TEXT, false }, { "LIMIT", "limit", CELL_INT, false },
		{ "UNIT", "unit", CELL_TEXT, false }, { "AGE", "observed_at", CELL_AGE, false },
		{ 0 } };

	return list_command(c, "/v1/quotas", cols, "no quotas are known yet");
}
