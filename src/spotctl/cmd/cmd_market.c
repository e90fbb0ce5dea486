/* prices, pools, providers, quota, supply. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

static const struct column price_cols[] = { { "POOL", "id", CELL_TEXT, ALWAYS },
	{ "PROVIDER", "provider", CELL_TEXT, SPARE_4 }, { "REGION", "region", CELL_TEXT, SPARE_3 },
	{ "ZONE", "zone", CELL_TEXT, ALWAYS }, { "TYPE", "instance_type", CELL_TEXT, ALWAYS },
	{ "GPU", "", CELL_GPU, ALWAYS }, { "MARKET", "market", CELL_TEXT, ALWAYS },
	{ "USD/H", "price_micros", CELL_USD, ALWAYS },
	{ "USD/GPU/H", "price_per_gpu_micros", CELL_USD, ALWAYS },
	{ "AGE", "age_s", CELL_AGE, SPARE_2 }, { "STATE", "price_state", CELL_STATE, SPARE_2 },
	{ "RECLAIMS/H", "hazard", CELL_INTERVAL, SPARE_3 },
	{ "FROM", "hazard.source", CELL_TEXT, SPARE_1 },
	{ "CAPACITY", "signals", CELL_CAPACITY, SPARE_2 },
	{ "SOURCE", "source", CELL_TEXT, SPARE_1 }, { "SINCE", "effective_at", CELL_TIME, WIDE },
	{ "VCPUS", "vcpus", CELL_INT, WIDE }, { "MEM_MIB", "mem_mib", CELL_INT, WIDE },
	{ "WHY", "price_why", CELL_TEXT, WIDE }, { 0 } };
const struct column pool_cols[] = { { "POOL", "id", CELL_TEXT, ALWAYS },
	{ "PLACE", "", CELL_PLACE, ALWAYS }, { "TYPE", "instance_type", CELL_TEXT, SPARE_3 },
	{ "GPU", "", CELL_GPU, ALWAYS }, { "MARKET", "market", CELL_TEXT, ALWAYS },
	{ "USD/H", "price_micros", CELL_USD, ALWAYS },
	{ "STATE", "price_state", CELL_STATE, SPARE_1 },
	{ "RECLAIMS/H", "hazard", CELL_HAZARD, SPARE_2 },
	{ "FROM", "hazard.source", CELL_TEXT, SPARE_1 },
	{ "CAPACITY", "signals", CELL_CAPACITY, SPARE_1 },
	{ "SIGNAL/H", "hazard.prior_per_hour", CELL_RATE, WIDE },
	{ "NEIGHBOURS/H", "hazard.group_per_hour", CELL_RATE, WIDE },
	{ "WEIGHT-H", "hazard.weight_hours", CELL_REAL, WIDE },
	{ "USUAL/H", "hazard.usual_per_hour", CELL_RATE, WIDE },
	{ "DAY", "hazard.day_factor", CELL_REAL, WIDE },
	{ "RISE/H", "hazard.raised_per_hour", CELL_RATE, WIDE },
	{ "ODDS", "launch_odds.odds", CELL_REAL, WIDE },
	{ "NODE-H", "record.node_hours", CELL_REAL, WIDE },
	{ "RECLAIMS", "record.reclaims", CELL_INT, WIDE },
	{ "REFUSALS", "record.refusals", CELL_INT, WIDE },
	{ "COOLING", "cooling_until_at", CELL_TIME, SPARE_1 },
	{ "WHY", "cooling_why", CELL_TEXT, WIDE }, { 0 } };

static int prices_refused(struct ctl *c)
{
	static const struct column cols[] = { { "POOL", "pool.id", CELL_TEXT, ALWAYS },
		{ "PLACE", "pool", CELL_PLACE, ALWAYS },
		{ "TYPE", "pool.instance_type", CELL_TEXT, SPARE_2 },
		{ "GPU", "pool", CELL_GPU, SPARE_3 },
		{ "MARKET", "pool.market", CELL_TEXT, SPARE_4 },
		{ "SAID USD/H", "refused_micros", CELL_USD, ALWAYS },
		{ "KEPT USD/H", "pool.price_micros", CELL_USD, ALWAYS },
		{ "AGE", "age_s", CELL_AGE, SPARE_1 }, { "SOURCE", "source", CELL_TEXT, SPARE_1 },
		{ "WHY", "why", CELL_TEXT, ALWAYS }, { 0 } };

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
	return list_command(c,
	    opt_value(c, "gpu") != NULL ? "/v1/prices?sort=gpu_price" : "/v1/prices", price_cols,
	    "no prices yet; check the providers with 'spotctl providers'");
}

int cmd_pools(struct ctl *c)
{
	return list_command(c, "/v1/pools", pool_cols,
	    "no pools yet; check the providers with 'spotctl providers'");
}

int cmd_providers(struct ctl *c)
{
	static const struct column cols[] = { { "PROVIDER", "name", CELL_TEXT, ALWAYS },
		{ "KIND", "kind", CELL_TEXT, SPARE_2 },
		{ "ACCOUNT", "account", CELL_TEXT, SPARE_2 },
		{ "STATE", "state", CELL_STATE, ALWAYS },
		{ "LAST OK", "last_ok_at", CELL_AGE, ALWAYS },
		{ "REQUESTS", "requests", CELL_INT, SPARE_1 },
		{ "THROTTLED", "throttled", CELL_INT, SPARE_1 },
		{ "LAST ERROR", "last_error", CELL_TEXT, ALWAYS }, { 0 } };

	return list_command(c, "/v1/providers", cols,
	    "no provider is configured; add a [provider NAME] section to the daemon's "
	    "configuration file");
}

int cmd_supply(struct ctl *c)
{
	static const struct column cols[] = { { "PROVIDER", "provider", CELL_TEXT, ALWAYS },
		{ "REGION", "region", CELL_TEXT, ALWAYS }, { "GPU", "gpu", CELL_TEXT, ALWAYS },
		{ "STATE", "state", CELL_STATE, ALWAYS },
		{ "SINCE", "since_at", CELL_AGE, SPARE_1 },
		{ "INDEX", "index", CELL_REAL, SPARE_1 },
		{ "REFUSALS", "parts.refusals", CELL_REAL, WIDE },
		{ "RECLAIMS", "parts.reclaims", CELL_REAL, WIDE },
		{ "SCORES", "parts.scores", CELL_REAL, WIDE },
		{ "PRICE", "parts.price", CELL_REAL, WIDE }, { "WHY", "why", CELL_TEXT, ALWAYS },
		{ 0 } };

	return list_command(c, "/v1/supply", cols,
	    "no spot launch was tried recently, and no supply is tight");
}

int cmd_quota(struct ctl *c)
{
	static const struct column cols[] = { { "PROVIDER", "provider", CELL_TEXT, ALWAYS },
		{ "REGION", "region", CELL_TEXT, ALWAYS }, { "CLASS", "class", CELL_TEXT, ALWAYS },
		{ "MARKET", "market", CELL_TEXT, ALWAYS }, { "LIMIT", "limit", CELL_INT, ALWAYS },
		{ "UNIT", "unit", CELL_TEXT, ALWAYS }, { "AGE", "observed_at", CELL_AGE, ALWAYS },
		{ 0 } };

	return list_command(c, "/v1/quotas", cols, "no quotas are known yet");
}
