#include "base/base.h"
#include "base/arena.h"
#include "store/offers.h"

#define RECORD_DAYS 30

static double or_none(bool has, double v)
{
	return has ? v : -1;
}

static void offer_fill(struct offer *o, const struct q_offers_row *w)
{
	*o = (struct offer){
		.pool_id = w->id,
		.provider = w->provider,
		.region = w->region,
		.zone = w->zone,
		.zone_name = w->zone_name,
		.instance_type = w->instance_type,
		.market = spot_market_parse(w->market),
		.gpu_name = w->gpu_name,
		.gpu_milli = w->gpu_milli,
		.gpu_mem_mib = w->gpu_mem_mib,
		.vcpus = w->vcpus,
		.mem_mib = w->mem_mib,
		.arch = w->arch,
		.quota_class = w->quota_class,
		.price_micros = w->price_micros,
		.price_observed_us = w->observed_us,
		.price_state = price_state_parse(w->price_state),
		.advisor_lo = or_none(w->has_advisor_lo, w->advisor_lo),
		.advisor_hi = or_none(w->has_advisor_hi, w->advisor_hi),
		.advisor_as_of_us = w->advisor_as_of_us,
		.placement_score = or_none(w->has_score, w->score),
		.capacity = or_none(w->has_capacity, w->capacity),
		.capacity_us = w->capacity_us,
		.own_node_us = w->own_us,
		.own_reclaims = w->reclaims,
		.own_launches = w->launches,
		.own_refusals = w->refusals,
		.cool_until_us = w->cool_until_us,
		.cool_refusals = w->cool_refusals,
		.cool_why = w->cool_why != NULL ? w->cool_why : "",
		.live_nodes = w->nodes,
		.has_band = w->has_band_lo && w->has_band_hi,
		.band_lo = w->band_lo,
		.band_hi = w->band_hi,
		.has_share = w->has_share,
		.share = w->share,
		.share_lo = w->share_lo,
		.share_hi = w->share_hi,
		.has_odds = w->has_odds,
		.odds = w->odds,
		.has_quota = w->has_quota_limit,
		.quota_unit = w->quota_unit,
		.quota_limit = w->quota_limit,
		.quota_used = w->quota_used,
		.price_mean = w->price_mean,
		.price_var = w->price_var,
		.price_cover = w->has_price_mean ? w->price_cover : 0,
	};
}

void offers_ask(const struct rank_policy *p, int64_t now_us, struct q_offers *ret)
{
	*ret = (struct q_offers){
		.since_day = (int32_t)(now_us / (24 * SPOT_US_PER_HOUR)) - RECORD_DAYS,
		.at_us = now_us,
		.half_h = p->age_half_life_h,
		.recent_h = p->recent_half_life_h,
		.odds_h = p->odds_half_life_h,
	};
}

size_t offers_rows(const struct pg_req *r, struct arena *a, struct offer **ret)
{
	struct q_offers_row *rows;
	size_t n = q_offers_rows(r, a, &rows);

	*ret = arena_array(a, n + 1, sizeof(**ret));
	for (size_t i = 0; i < n; i++) {
		offer_fill(&(*ret)[i], &rows[i]);
		(*ret)[i].record = offer_record_parse(a, rows[i].record);
	}
	offers_share_names(*ret, n);
	return n;
}
