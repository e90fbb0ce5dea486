/*
 * Random jobs and offers with the score that core/rank gives them, one JSON object per line.
 * test_score.py computes each score again without our code. Everything that the score is made of is
 * printed with all digits.
 *
 *   score_cases N SEED
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/rank/rank.h"

static struct gpu_ask asked[] = { { .gpu = "A100-80GB", .milli = 1000 },
	{ .gpu = "H100", .milli = 8000 } };
static const char *const gpus[] = { "A100-80GB", "H100-80GB-SXM", "V100-16GB", "A100-40GB" };
static const char *const places[][2] = { { "aws", "us-east-1" }, { "aws", "eu-west-1" },
	{ "gcp", "us-central1" }, { "azure", "eastus" }, { "lambda", "us-south-2" } };

struct one {
	struct job_spec spec;
	struct resource_ask ask;
	struct rank_job job;
	struct rank_policy policy;
	struct gpu_rate rates[3];
	struct offer offer;
};

static double unit_draw(struct rng *r, double lo, double hi)
{
	return lo + (hi - lo) * rng_unit(r);
}

static bool coin_flip(struct rng *r)
{
	return rng_below(r, 2) == 0;
}

static void job_make(struct one *x, struct rng *r)
{
	size_t at = rng_below(r, ARRAY_LEN(places)), store = rng_below(r, ARRAY_LEN(places));

	x->ask =
	    (struct resource_ask){ .use_spot = -1, .gpus = &asked[rng_below(r, 2)], .gpus_n = 1 };
	x->spec = (struct job_spec){ .asks = &x->ask, .asks_n = 1, .interruptible = true };
	if (rng_below(r, 4) > 0) {
		x->spec.checkpoint.path = "ckpt";
		x->spec.checkpoint.interval_s = rng_below(r, 3) == 0 ? 600 : 0;
		x->spec.checkpoint.interval_off = rng_below(r, 8) == 0;
		x->spec.checkpoint.size_bytes = (int64_t)rng_below(r, 50) * 1000000000;
	}
	if (coin_flip(r)) {
		x->spec.data_uri = "s3://b/d";
		x->spec.data_provider = "aws";
		x->spec.data_region = coin_flip(r) ? "us-east-1" : NULL;
		x->spec.data_bytes = (int64_t)rng_below(r, 2000) * 1000000000;
	}
	x->job = (struct rank_job){ .spec = &x->spec,
		.work_left_s = coin_flip(r) ? (int64_t)rng_below(r, 300000) + 60 : 0,
		.save_us = coin_flip(r) ? (int64_t)rng_below(r, 300) * 1000000 : 0,
		.restart_us = coin_flip(r) ? (int64_t)rng_below(r, 900000000) : 0,
		.spot_allowed = true,
		.on_demand_allowed = true,
		.rates = x->rates,
		.rates_n = rng_below(r, 4) };
	for (size_t i = 0; i < x->job.rates_n; i++) {
		x->rates[i] = (struct gpu_rate){ .gpu = gpus[rng_below(r, ARRAY_LEN(gpus))],
			.gpu_milli = 1000 << rng_below(r, 4),
			.steps = unit_draw(r, 10, 100000),
			.hours = unit_draw(r, 0.01, 20) };
	}
	x->job.runs_there = rng_below(r, 4) == 0;
	if (rng_below(r, 3) == 0) {
		x->job.deadline_us = (int64_t)(unit_draw(r, 0.2, 200) * 3.6e9);
	}
	if (coin_flip(r)) {
		x->job.at_provider = places[at][0];
		x->job.at_region = places[at][1];
	}
	if (coin_flip(r)) {
		x->job.store_provider = places[store][0];
		x->job.store_region = places[store][1];
	}
}

static void offer_make(struct one *x, struct rng *r)
{
	size_t at = rng_below(r, ARRAY_LEN(places));
	size_t gpu = x->ask.gpus == &asked[0] ? 0 : 1;

	x->offer = (struct offer){ .pool_id = 7,
		.provider = places[at][0],
		.region = places[at][1],
		.zone = "z",
		.zone_name = "",
		.instance_type = "t",
		.market = rng_below(r, 4) == 0 ? SPOT_MARKET_ON_DEMAND
		    : rng_below(r, 4) == 0     ? SPOT_MARKET_INTERRUPTIBLE
					       : SPOT_MARKET_SPOT,
		.gpu_name = gpus[gpu],
		.gpu_milli = x->ask.gpus->milli,
		.price_micros = (int64_t)rng_below(r, 40000000) + 10000,
		.price_state = coin_flip(r) ? PRICE_FRESH
		    : coin_flip(r)          ? PRICE_STALE
					    : PRICE_FROZEN,
		.advisor_lo = -1,
		.placement_score = -1,
		.capacity = -1,
		.arch = "",
		.quota_class = "",
		.has_hazard = true,
		.hazard_source = "case",
		.launch_source = "case" };
	x->offer.hazard = unit_draw(r, 0, 1) * unit_draw(r, 0, 1) * 0.8;
	x->offer.hazard_lo = x->offer.hazard * unit_draw(r, 0.1, 1);
	x->offer.hazard_hi = x->offer.hazard * unit_draw(r, 1, 3);
	x->offer.launch = unit_draw(r, 0.02, 1);
	if (coin_flip(r)) {
		x->offer.price_mean = (double)x->offer.price_micros / 1e6 * unit_draw(r, 0.5, 2);
		x->offer.price_var =
		    x->offer.price_mean * x->offer.price_mean * unit_draw(r, 0, 0.1);
		x->offer.price_cover = unit_draw(r, 0.01, 1);
	}
	rank_policy_default(&x->policy);
	x->policy.notice_saves = rng_below(r, 4) == 0 ? 0.5 : 0.9;
	x->policy.refused_s = (int64_t)rng_below(r, 300);
	x->policy.price_reversion_s = (int64_t)rng_below(r, 3) * 30 * 86400;
}

static json_t *text_json(const char *s)
{
	return s != NULL ? json_string(s) : json_null();
}

static json_t *job_json(const struct one *x)
{
	const struct checkpoint_spec *c = &x->spec.checkpoint;
	json_t *rates = json_array();

	for (size_t i = 0; i < x->job.rates_n; i++) {
		json_array_append_new(rates,
		    json_pack("{s:s, s:i, s:f, s:f}", "gpu", x->rates[i].gpu, "milli",
			x->rates[i].gpu_milli, "steps", x->rates[i].steps, "hours",
			x->rates[i].hours));
	}
	return json_pack("{s:s, s:i, s:o, s:b, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, "
			 "s:o, s:o, s:b, s:I}",
	    "ref", x->ask.gpus->gpu, "ref_milli", x->ask.gpus->milli, "rates", rates, "checkpoints",
	    c->path != NULL, "interval_s", (json_int_t)c->interval_s, "interval_off",
	    c->interval_off, "size_bytes", (json_int_t)c->size_bytes, "data_bytes",
	    (json_int_t)x->spec.data_bytes, "work_left_s", (json_int_t)x->job.work_left_s,
	    "save_us", (json_int_t)x->job.save_us, "restart_us", (json_int_t)x->job.restart_us,
	    "data_provider", text_json(x->spec.data_provider), "data_region",
	    text_json(x->spec.data_region), "at",
	    x->job.at_provider != NULL ? json_pack("[s, s]", x->job.at_provider, x->job.at_region)
				       : json_null(),
	    "store",
	    x->job.store_provider != NULL
		? json_pack("[s, s]", x->job.store_provider, x->job.store_region)
		: json_null(),
	    "table", json_real(gpu_speed_table(&x->spec, x->offer.gpu_name)), "runs_there",
	    x->job.runs_there, "deadline_us", (json_int_t)x->job.deadline_us);
}

static json_t *case_json(const struct one *x)
{
	const struct offer *o = &x->offer;
	const struct rank_policy *p = &x->policy;
	json_t *tables = json_object();

	/* The speeds by the table of everything that was measured are inputs too. */
	for (size_t i = 0; i < ARRAY_LEN(gpus); i++) {
		json_object_set_new(tables, gpus[i], json_real(gpu_speed_table(&x->spec, gpus[i])));
	}
	return json_pack("{s:o, s:o, s:{s:s, s:s, s:s, s:s, s:i, s:I, s:s, s:f, s:f, s:f, s:f, "
			 "s:f, s:f, s:f}, s:{s:f, s:I, s:I, s:I, s:I, "
			 "s:I, s:I, s:I}}",
	    "job", job_json(x), "table", tables, "offer", "provider", o->provider, "region",
	    o->region, "market", spot_market_name(o->market), "gpu", o->gpu_name, "milli",
	    o->gpu_milli, "price_micros", (json_int_t)o->price_micros, "state",
	    price_state_name(o->price_state), "hazard", o->hazard, "hazard_lo", o->hazard_lo,
	    "hazard_hi", o->hazard_hi, "odds", o->launch, "price_mean", o->price_mean, "price_var",
	    o->price_var, "price_cover", o->price_cover, "policy", "notice_saves", p->notice_saves,
	    "restart_s", (json_int_t)p->restart_s, "save_s", (json_int_t)p->save_s,
	    "default_work_s", (json_int_t)p->default_work_s, "refused_s", (json_int_t)p->refused_s,
	    "price_reversion_s", (json_int_t)p->price_reversion_s, "stale_pm",
	    (json_int_t)p->price_stale_penalty_pm, "frozen_pm",
	    (json_int_t)p->price_frozen_penalty_pm);
}

static int64_t egress_rate(const char *fp, const char *fr, const char *tp, const char *tr)
{
	return fp != NULL ? egress_micros_per_gb(fp, fr != NULL ? fr : "", tp, tr) : 0;
}

/* The prices of a GB that apply: the tables themselves are tested elsewhere. */
static json_t *rates_json(const struct one *x)
{
	const struct offer *o = &x->offer;
	const char *fp = x->job.at_provider != NULL ? x->job.at_provider : x->job.store_provider;
	const char *fr = x->job.at_provider != NULL ? x->job.at_region : x->job.store_region;
	bool home = x->spec.data_region == NULL && strcmp(o->provider, "aws") == 0;

	return json_pack("{s:I, s:I, s:I}", "restore",
	    (json_int_t)egress_rate(fp, fr, o->provider, o->region), "upload",
	    (json_int_t)(x->job.store_provider != NULL
		    ? egress_rate(o->provider, o->region, x->job.store_provider,
			  x->job.store_region)
		    : 0),
	    "data",
	    (json_int_t)(home ? egress_rate("aws", o->region, "aws", "")
			      : egress_rate(x->spec.data_provider, x->spec.data_region, o->provider,
				    o->region)));
}

int main(int argc, char **argv)
{
	struct arena *a = arena_new(0);
	struct one *x = arena_alloc(a, sizeof(*x));
	int64_t n = 0, seed = 0;
	struct rng r;

	if (argc != 3 || !parse_i64(argv[1], 1, 1000000, &n) ||
	    !parse_i64(argv[2], 0, INT64_MAX, &seed)) {
		fprintf(stderr, "usage: score_cases N SEED\n");
		return 2;
	}
	rng_seeded_init(&r, (uint64_t)seed);
	for (int64_t i = 0; i < n; i++) {
		struct arena *turn = arena_new(0);
		struct ranking k;
		json_t *doc;

		job_make(x, &r);
		offer_make(x, &r);
		rank_run(turn, &x->offer, 1, &x->job, &x->policy, 1, &k);
		doc = case_json(x);
		json_object_set_new(doc, "per_gb", rates_json(x));
		if (k.usable == 1) {
			struct score_terms t;

			score_explain(&k.scores[0], &t);
			json_object_set_new(doc, "terms", score_terms_json(&t));
			json_object_set_new(doc, "total_micros",
			    json_integer(k.scores[0].total_micros));
		} else {
			json_object_set_new(doc, "refused",
			    json_string(refusal_words(turn, &k, &k.refused[0])));
		}
		json_dumpf(doc, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(doc);
		arena_free(turn);
	}
	arena_free(a);
	return 0;
}
