/* A market of four pools and one job of an hour, which the tests of the placement change. */
#ifndef PLACE_SHOP_H
#define PLACE_SHOP_H

#include "base/base.h"
#include "core/place/place.h"

#define NOW (1000 * SPOT_US_PER_HOUR)
#define HOUR SPOT_US_PER_HOUR

struct shop {
	struct arena *a;
	struct offer offers[8];
	struct place_market market;
	struct place_policy policy;
	struct place_in in;
	struct job_spec spec;
	struct resource_ask ask;
	struct gpu_ask gpus[2];
	struct job_facts facts;
	struct placing placing;
};

static inline void offer_add(struct shop *s, const char *gpu, enum spot_market m, double usd)
{
	size_t n = s->market.offers_n++;

	s->offers[n] = (struct offer){ .pool_id = (int32_t)n + 1,
		.provider = "aws",
		.region = "us-east-1",
		.zone = "a",
		.zone_name = "us-east-1a",
		.instance_type = "t",
		.gpu_name = gpu,
		.gpu_milli = 1000,
		.vcpus = 8,
		.mem_mib = 65536,
		.market = m,
		.arch = "x86_64",
		.quota_class = "",
		.price_micros = (int64_t)(usd * 1e6),
		.price_state = PRICE_FRESH,
		.advisor_lo = -1,
		.advisor_hi = -1,
		.placement_score = -1,
		.capacity = -1,
		.has_hazard = true,
		.hazard = m == SPOT_MARKET_SPOT ? 0.01 : 0.0005,
		.launch = 0.98 };
}

/* One hour of work on one H100 or one L40S. The L40S has the cheapest spot and is half as fast. */
static inline void shop_open(struct shop *s)
{
	*s = (struct shop){ .a = arena_new(0) };
	place_policy_default(&s->policy);
	offer_add(s, "H100-80GB-SXM", SPOT_MARKET_SPOT, 2.4);
	offer_add(s, "H100-80GB-SXM", SPOT_MARKET_ON_DEMAND, 4);
	offer_add(s, "L40S", SPOT_MARKET_SPOT, 0.4);
	offer_add(s, "L40S", SPOT_MARKET_ON_DEMAND, 9);
	s->market.offers = s->offers;
	s->gpus[0] = (struct gpu_ask){ "H100", 1000 };
	s->gpus[1] = (struct gpu_ask){ "L40S", 1000 };
	s->ask = (struct resource_ask){ .gpus = s->gpus, .gpus_n = 2, .use_spot = -1 };
	s->spec = (struct job_spec){ .name = "x",
		.run = "x",
		.num_nodes = 1,
		.interruptible = true,
		.work_s = 3600,
		.off_peak = 0,
		.patience_s = -1,
		.asks = &s->ask,
		.asks_n = 1,
		.checkpoint = { .path = "c", .budget_s = 60 } };
	s->facts = (struct job_facts){ .state = JOB_QUEUED,
		.nodes = 1,
		.created_us = NOW,
		.queued_us = NOW };
	s->in = (struct place_in){ s->a, &s->market, &s->policy, NOW };
}

#endif
