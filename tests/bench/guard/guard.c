/*
 * A fixed amount of work in one process, for a count of its instructions (guard.py):
 *
 *   guard rank|parse|sign TIMES
 *   guard compiler               prints the one that built us
 */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "core/hazard/hazard.h"
#include "core/rank/rank.h"
#include "core/spec/spec.h"

#define NOW INT64_C(1767323045000000)
#define OFFERS 5000
#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static const char job_text[] = "name: guard\n"
			       "resources:\n"
			       "  accelerators: {H100: 1, A100-80GB: 2, L4: 4}\n"
			       "  use_spot: true\n"
			       "  cpus: 4+\n"
			       "  memory: 16+\n"
			       "  max_hourly_cost: 20\n"
			       "envs: {EPOCHS: \"12\", MODEL: small}\n"
			       "setup: pip install -r requirements.txt\n"
			       "run: ./train --resume\n"
			       "config:\n"
			       "  spotctl:\n"
			       "    deadline: 12h\n"
			       "    checkpoint:\n"
			       "      path: ckpt\n"
			       "      size_gb: 40\n";

static struct job_spec *job_read(struct arena *a)
{
	struct str text = { job_text, sizeof(job_text) - 1 };
	const char **warnings = NULL;
	struct job_spec *spec = NULL;
	struct spot_err err;
	size_t n = 0;

	if (jobspec_parse(a, text, NOW, &spec, &warnings, &n, &err) != SPOT_OK) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	return spec;
}

static void parse_times(int64_t times)
{
	AUTO(arena) struct arena *a = arena_new(0);

	for (int64_t i = 0; i < times; i++) {
		(void)job_read(a);
		arena_reset(a);
	}
}

static void sign_times(int64_t times)
{
	static const struct sigv4 keys = { .access_key = "AKIDEXAMPLE",
		.secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
		.session_token = "",
		.region = "us-east-1",
		.service = "ec2",
		.now_us = NOW };
	static const char body[1000];
	AUTO(arena) struct arena *a = arena_new(0);

	for (int64_t i = 0; i < times; i++) {
		struct spot_http_request req = { .method = "POST",
			.url = "https://ec2.us-east-1.amazonaws.com/",
			.headers = { { "content-type", "application/x-www-form-urlencoded" } },
			.headers_n = 1,
			.body = { body, sizeof(body) } };

		sigv4_sign(a, &keys, &req);
		arena_reset(a);
	}
}

static void offer_make(struct offer *o, int32_t id, struct rng *r)
{
	static const char *const gpus[] = { "H100-80GB-SXM", "A100-80GB", "L4", "T4" };
	static const char *const regions[] = { "us-east-1", "us-west-2", "eu-west-1" };
	int32_t count = 1 << rng_below(r, 4);

	*o = (struct offer){ .pool_id = id,
		.provider = "aws",
		.region = regions[rng_below(r, ARRAY_LEN(regions))],
		.zone = "z1",
		.zone_name = "z1",
		.instance_type = "type",
		.market = rng_below(r, 3) == 0 ? SPOT_MARKET_ON_DEMAND : SPOT_MARKET_SPOT,
		.gpu_name = gpus[rng_below(r, ARRAY_LEN(gpus))],
		.gpu_milli = count * 1000,
		.gpu_mem_mib = 81920,
		.vcpus = count * 4,
		.mem_mib = count * 16384,
		.arch = "x86_64",
		.quota_class = "G/Spot",
		.price_micros = (int64_t)(100000 + rng_below(r, 3000000)) * count,
		.price_observed_us = NOW - 60 * SPOT_US_PER_S,
		.price_state = PRICE_FRESH,
		.placement_score = (double)(1 + rng_below(r, 10)),
		.capacity = -1,
		.own_node_us = (int64_t)rng_below(r, 200) * SPOT_US_PER_HOUR,
		.own_reclaims = (int32_t)rng_below(r, 4),
		.advisor_lo = 0.05,
		.advisor_hi = 0.10 };
}

static void rank_times(int64_t times)
{
	AUTO(arena) struct arena *a = arena_new(0), *market = arena_new(0);
	struct offer *offers = arena_array(market, OFFERS, sizeof(*offers));
	struct rank_job job = { .spec = job_read(market),
		.work_left_s = 36000,
		.spot_allowed = true,
		.on_demand_allowed = true };
	struct rank_policy policy;
	struct rng r;

	rng_seeded_init(&r, 7);
	rank_policy_default(&policy);
	for (int32_t i = 0; i < OFFERS; i++) {
		offer_make(&offers[i], i + 1, &r);
	}
	offers_share_names(offers, OFFERS);
	offers_believe(hazard_model_build(market, offers, OFFERS, &policy, NOW), offers, OFFERS);
	for (int64_t i = 0; i < times; i++) {
		struct ranking ranking;

		rank_run(a, offers, OFFERS, &job, &policy, NOW, &ranking);
		assert(ranking.usable > 0);
		arena_reset(a);
	}
}

int main(int argc, char **argv)
{
	int64_t times;

	if (argc == 2 && strcmp(argv[1], "compiler") == 0) {
		puts(COMPILER);
		return 0;
	}
	if (argc != 3 || !parse_i64(argv[2], 1, INT32_MAX, &times)) {
		fprintf(stderr, "usage: %s rank|parse|sign TIMES\n", argv[0]);
		return 2;
	}
	if (strcmp(argv[1], "rank") == 0) {
		rank_times(times);
	} else if (strcmp(argv[1], "parse") == 0) {
		parse_times(times);
	} else if (strcmp(argv[1], "sign") == 0) {
		sign_times(times);
	} else {
		return 2;
	}
	return 0;
}
