/*
 * Orders the suitable offers by the expected cost of the work. Made for tens of thousands of
 * offers. It compares names once per distinct name and makes words on request. A refused offer
 * costs a byte.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/rank/rank_priv.h"

#include <math.h>

/* A request that is refused 19 times out of 20 only puts the pool into cooldown. */
#define ODDS_MIN 0.05
#define ASKED_BITS 64

void rank_policy_default(struct rank_policy *p)
{
	*p = (struct rank_policy){
		.prior_hours = 24,
		.unknown_spot_per_hour = 0.10,
		.on_demand_per_hour = 0.0005,
		.price_stale_penalty_pm = 250,
		.price_frozen_penalty_pm = 20,
		.restart_s = 240,
		.save_s = 20,
		.default_work_s = 3600,
		.notice_saves = 0.9,
		.refused_s = 60,
		.price_reversion_s = INT64_C(90) * 86400,
		.age_half_life_h = 336,
		.odds_half_life_h = 8,
		.recent_half_life_h = 8,
		.ends_margin_s = 300,
	};
}

/* ---- lookups that many offers share ---------------------------------------------------------- */

static bool asks_fit_bits(const struct job_spec *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->asks_n; i++) {
		n += s->asks[i].gpus_n;
	}
	return n <= ASKED_BITS;
}

static void gpu_fill(const struct rank_ctx *c, struct gpu_memo *m, const char *gpu)
{
	const struct job_spec *s = c->job.spec;
	size_t bit = 0;

	*m = (struct gpu_memo){ .gpu = gpu, .table = gpu_speed_table(s, gpu) };
	m->speed = gpu_speed(&c->job, gpu, &m->measured_h);
	for (size_t i = 0; i < s->asks_n; i++) {
		for (size_t k = 0; k < s->asks[i].gpus_n && bit < ASKED_BITS; k++, bit++) {
			m->asked |= (uint64_t)gpu_matches(s->asks[i].gpus[k].gpu, gpu) << bit;
		}
	}
}

const struct gpu_memo *rank_gpu(struct rank_ctx *c, const char *gpu)
{
	size_t at = (size_t)(hash_str(HASH_START, gpu) >> 32) % GPU_MEMO;

	for (size_t tried = 0; tried < GPU_MEMO; tried++, at = (at + 1) % GPU_MEMO) {
		struct gpu_memo *m = &c->gpus[at];

		if (m->gpu == NULL) {
			gpu_fill(c, m, gpu);
			return m;
		}
		if (m->gpu == gpu || strcmp(m->gpu, gpu) == 0) {
			return m;
		}
	}
	gpu_fill(c, &c->gpu_spare, gpu);
	return &c->gpu_spare;
}

/* A bucket of the offer's own cloud without a region counts as in another of its regions. */
static int64_t rate_from(const char *provider, const char *region, const struct offer *o)
{
	if (provider == NULL) {
		return 0;
	}
	if (region == NULL || region[0] == '\0') {
		return strcmp(provider, o->provider) == 0
		    ? egress_micros_per_gb(provider, o->region, provider, "")
		    : egress_micros_per_gb(provider, "", o->provider, o->region);
	}
	return egress_micros_per_gb(provider, region, o->provider, o->region);
}

static void place_fill(const struct rank_ctx *c, struct place_memo *m, const struct offer *o)
{
	*m = (struct place_memo){ .provider = o->provider,
		.region = o->region,
		.restore_per_gb = rate_from(c->from_provider, c->from_region, o),
		.data_per_gb = rate_from(c->data_provider, c->job.spec->data_region, o) };
	if (c->job.store_provider != NULL) {
		m->upload_per_gb = egress_micros_per_gb(o->provider, o->region,
		    c->job.store_provider, c->job.store_region);
	}
}

static bool place_is(const struct place_memo *m, const struct offer *o)
{
	return strcmp(m->region, o->region) == 0 && strcmp(m->provider, o->provider) == 0;
}

const struct place_memo *rank_place(struct rank_ctx *c, const struct offer *o)
{
	uint64_t h = hash_str(hash_str(HASH_START, o->provider), o->region);
	size_t at = (size_t)(h >> 32) % PLACE_MEMO;

	for (size_t tried = 0; tried < 8; tried++, at = (at + 1) % PLACE_MEMO) {
		struct place_memo *m = &c->places[at];

		if (m->provider == NULL) {
			place_fill(c, m, o);
			return m;
		}
		if (place_is(m, o)) {
			return m;
		}
	}
	place_fill(c, &c->place_last, o);
	return &c->place_last;
}

void rank_ctx_init(struct rank_ctx *c, const struct rank_job *job, const struct rank_policy *p,
    int64_t now_us)
{
	const struct job_spec *s = job->spec;
	int64_t work_s = job->work_left_s > 0 ? job->work_left_s : p->default_work_s;

	c->job = *job;
	c->policy = *p;
	c->now_us = now_us;
	c->work_ref_h = (double)work_s / 3600.0;
	c->save_s = job->save_us > 0 ? (double)job->save_us / 1e6 : (double)p->save_s;
	c->restart_h = job->restart_us > 0 ? (double)job->restart_us / (double)SPOT_US_PER_HOUR
					   : (double)p->restart_s / 3600.0;
	c->refused_h = (double)p->refused_s / 3600.0;
	c->checkpoint_bytes =
	    job->checkpoint_bytes > 0 ? job->checkpoint_bytes : s->checkpoint.size_bytes;
	c->data_bytes = s->data_bytes;
	c->data_provider = s->data_provider;
	c->from_provider = job->at_provider != NULL ? job->at_provider : job->store_provider;
	c->from_region = job->at_provider != NULL ? job->at_region : job->store_region;
	for (size_t i = 0; i < s->asks_n && c->ref_milli == 0; i++) {
		c->ref_milli = s->asks[i].gpus_n > 0 ? s->asks[i].gpus[0].milli : 0;
	}
}

/* ---- does it suit? --------------------------------------------------------------------------- */

/* The rules of offer_refusal() in offer.c without words, for speed. A change must go into both. */
static bool ask_suits(const struct offer *o, const struct resource_ask *k, uint64_t asked)
{
	bool gpu = k->gpus_n == 0;

	for (size_t i = 0; i < k->gpus_n && !gpu; i++) {
		gpu = (asked >> i & 1) != 0 && o->gpu_milli == k->gpus[i].milli;
	}
	return gpu && (k->use_spot != 0 || !spot_market_reclaims(o->market)) &&
	    (k->vcpus_min <= 0 || o->vcpus >= k->vcpus_min) &&
	    (k->mem_mib_min <= 0 || o->mem_mib >= k->mem_mib_min) &&
	    (k->max_hourly_micros <= 0 || o->price_micros <= k->max_hourly_micros) &&
	    (k->provider == NULL || strcmp(k->provider, o->provider) == 0) &&
	    (k->region == NULL || strcmp(k->region, o->region) == 0) &&
	    (k->zone == NULL || strcmp(k->zone, o->zone) == 0 ||
		strcmp(k->zone, o->zone_name) == 0) &&
	    (k->instance_type == NULL || strcmp(k->instance_type, o->instance_type) == 0) &&
	    (k->tiers_n == 0 || offer_tier_allowed(o, k));
}

static bool asks_suit(struct rank_ctx *c, struct arena *a, const struct offer *o, bool bits)
{
	const struct job_spec *s = c->job.spec;
	uint64_t asked = bits ? rank_gpu_near(c, o->gpu_name)->asked : 0;

	for (size_t i = 0; i < s->asks_n; i++) {
		if (bits ? ask_suits(o, &s->asks[i], asked)
			 : offer_refusal(a, o, &s->asks[i]) == NULL) {
			return true;
		}
		asked = s->asks[i].gpus_n < ASKED_BITS ? asked >> s->asks[i].gpus_n : 0;
	}
	return false;
}

static enum refusal offer_refused_for(struct rank_ctx *c, struct arena *a, const struct offer *o,
    bool bits)
{
	if (spot_market_reclaims(o->market) && !c->job.spot_allowed) {
		return REFUSED_SPOT;
	}
	if (o->market == SPOT_MARKET_ON_DEMAND && !c->job.on_demand_allowed) {
		return REFUSED_ON_DEMAND;
	}
	if (o->market == SPOT_MARKET_FLEX_START && !c->job.queue_allowed) {
		return REFUSED_QUEUE;
	}
	if (o->price_state == PRICE_IMPLAUSIBLE) {
		return REFUSED_IMPLAUSIBLE;
	}
	if (!asks_suit(c, a, o, bits)) {
		return REFUSED_ASK;
	}
	if (o->cool_until_us > c->now_us) {
		return REFUSED_COOLING;
	}
	if (o->capacity >= 0 && o->capacity < 0.5) {
		return REFUSED_CAPACITY;
	}
	if (o->has_odds && o->odds < ODDS_MIN) {
		return REFUSED_ODDS;
	}
	if (o->has_quota && offer_quota_room(o) < MAX(c->job.nodes, 1)) {
		return REFUSED_QUOTA;
	}
	return o->ends_us == 0 || rank_ends_suit(c, o) ? REFUSED_NOT : REFUSED_ENDS;
}

static const char *ask_words(struct arena *a, const struct rank_ctx *c, const struct offer *o)
{
	const struct job_spec *s = c->job.spec;
	const char *why = "nothing was asked for";

	for (size_t i = 0; i < s->asks_n; i++) {
		why = offer_refusal(a, o, &s->asks[i]);
	}
	return why != NULL ? why : "does not suit";
}

const char *refusal_words(struct arena *a, const struct ranking *r, const struct refused *x)
{
	const struct offer *o = x->offer;
	char left[32];

	switch (x->why) {
	case REFUSED_SPOT:
		return "spot is not allowed for this job";
	case REFUSED_ON_DEMAND:
		return "on-demand is not allowed for this job";
	case REFUSED_QUEUE:
		return "its machines come from a queue: only jobs of one node take them, without "
		       "a deadline";
	case REFUSED_IMPLAUSIBLE:
		return "its price is implausible";
	case REFUSED_ASK:
		return ask_words(a, r->ctx, o);
	case REFUSED_COOLING:
		return arena_printf(a, "cooling for %s: %s",
		    format_duration(o->cool_until_us - r->ctx->now_us, left),
		    o->cool_why != NULL ? o->cool_why : "refused lately");
	case REFUSED_CAPACITY:
		return "the provider says it has none now";
	case REFUSED_ODDS:
		return arena_printf(a, "the provider gives a launch now odds of %.1f %%",
		    o->odds * 100);
	case REFUSED_QUOTA:
		return offer_quota_refusal(a, o, r->ctx->job.nodes);
	case REFUSED_ENDS:
		return rank_ends_words(a, r->ctx, o);
	case REFUSED_HAZARD:
		return "interruptions would eat the progress";
	case REFUSED_NOT:
		break;
	}
	return "";
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Indices of the offers by pool id. */
static const struct key *by_pool(struct arena *a, const struct offer *offers, size_t n)
{
	struct key *keys = arena_array_raw(a, n, sizeof(*keys));

	for (size_t i = 0; i < n; i++) {
		keys[i] = (struct key){ .value = (uint32_t)offers[i].pool_id ^ UINT32_C(0x80000000),
			.at = (uint32_t)i };
	}
	return keys_sort(keys, arena_array_raw(a, n, sizeof(*keys)), n);
}

/* Offers are read block by block. Suitable ones are prefetched before they are scored. */
#define BLOCK 256
#define AHEAD 8
#define SCORES_EACH 1024 /* scores that are allocated at a time */

struct pass { /* of rank_run, in the order of pool ids */
	const struct offer *offers;
	const struct key *order; /* NULL: as they come */
	size_t n;
	uint8_t *why; /* enum refusal */
	struct score **raw; /* as they are made, SCORES_EACH in each */
	struct key *keys;
	size_t usable;
	bool bits; /* the asks' GPUs fit in gpu_memo.asked */
	bool leaves; /* a usable pool ends, or is lent */
};

static const struct offer *pass_at(const struct pass *p, size_t i)
{
	return &p->offers[p->order != NULL ? p->order[i].at : i];
}

/* Fills ret with the *ret_n suitable offers of the block. Returns false if the offers do not come
 * by pool id. */
static bool block_suits(struct arena *a, struct rank_ctx *c, struct pass *p, size_t from,
    uint32_t *ret, size_t *ret_n)
{
	size_t to = MIN(from + BLOCK, p->n), n = 0;
	int32_t before = from > 0 ? pass_at(p, from - 1)->pool_id : INT32_MIN;

	for (size_t i = from; i < to; i++) {
		const struct offer *o = pass_at(p, i), *next = pass_at(p, MIN(i + AHEAD, p->n - 1));

		__builtin_prefetch(next);
		__builtin_prefetch(&next->has_odds);
		if (o->pool_id < before) {
			return false;
		}
		before = o->pool_id;
		p->why[i] = (uint8_t)offer_refused_for(c, a, o, p->bits);
		if (p->why[i] == REFUSED_NOT) {
			__builtin_prefetch(&o->hazard);
			__builtin_prefetch(&o->hazard_source);
			ret[n++] = (uint32_t)i;
		}
	}
	*ret_n = n;
	return true;
}

static void block_score(struct arena *a, struct rank_ctx *c, struct pass *p, const uint32_t *suit,
    size_t n)
{
	for (size_t k = 0; k < n; k++) {
		struct score **each = &p->raw[p->usable / SCORES_EACH], *s;

		if (*each == NULL) {
			*each = arena_array_raw(a, SCORES_EACH, sizeof(**each));
		}
		s = &(*each)[p->usable % SCORES_EACH];
		if (!score_make(c, pass_at(p, suit[k]), s)) {
			p->why[suit[k]] = REFUSED_HAZARD;
			continue;
		}
		p->leaves |= rank_leaves(s->offer);
		p->keys[p->usable] = (struct key){ .value = (uint64_t)MAX(s->total_micros, 0),
			.at = (uint32_t)p->usable };
		p->usable++;
	}
}

static bool pass_score(struct arena *a, struct rank_ctx *c, struct pass *p)
{
	uint32_t suit[BLOCK];
	size_t n;

	p->usable = 0;
	for (size_t i = 0; i < p->n; i += BLOCK) {
		if (!block_suits(a, c, p, i, suit, &n)) {
			return false;
		}
		block_score(a, c, p, suit, n);
	}
	return true;
}

static const struct score *raw_at(const struct pass *p, const struct key *k)
{
	return &p->raw[k->at / SCORES_EACH][k->at % SCORES_EACH];
}

/* Makes scores that end before the work, or whose owner may reclaim them, again, once it is known
 * what the rest costs elsewhere. */
static void pass_leaves(struct rank_ctx *c, struct pass *p)
{
	for (size_t i = 0; i < p->usable; i++) {
		const struct score *s = raw_at(p, &p->keys[i]);

		if (!rank_leaves(s->offer) &&
		    (c->elsewhere_micros == 0 || s->compute_micros < c->elsewhere_micros)) {
			c->elsewhere_micros = s->compute_micros;
		}
	}
	for (size_t i = 0; i < p->usable && c->elsewhere_micros > 0; i++) {
		struct key *k = &p->keys[i];
		struct score *s = &p->raw[k->at / SCORES_EACH][k->at % SCORES_EACH];

		if (rank_leaves(s->offer) && score_make(c, s->offer, s)) {
			k->value = (uint64_t)MAX(s->total_micros, 0);
		}
	}
}

/* Orders n offers of equal cost: the one that is expected to be done first goes first. */
static void tie_order(struct arena *a, const struct pass *p, struct key *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		/* The bits of positive doubles have their order. */
		memcpy(&keys[i].value, &raw_at(p, &keys[i])->hours, sizeof(keys[i].value));
	}
	keys_sort_run(a, keys, n);
}

static void pass_order(struct arena *a, struct pass *p, struct ranking *ret)
{
	size_t n = p->usable, to;
	struct key *keys = keys_sort(p->keys, arena_array_raw(a, n + 1, sizeof(*p->keys)), n);

	for (size_t from = 0; from < n; from = to) {
		to = from + 1;
		while (to < n && keys[to].value == keys[from].value) {
			to++;
		}
		if (to - from > 1) {
			tie_order(a, p, &keys[from], to - from);
		}
	}
	ret->scores = arena_array_raw(a, n + 1, sizeof(*ret->scores));
	ret->usable = n;
	for (size_t i = 0; i < n; i++) {
		const char *next =
		    (const char *)raw_at(p, &keys[MIN(i + (size_t)2 * AHEAD, n - 1)]);

		__builtin_prefetch(next);
		__builtin_prefetch(next + 64);
		__builtin_prefetch(next + 128);
		ret->scores[i] = *raw_at(p, &keys[i]);
	}
}

static void pass_refused(struct arena *a, const struct pass *p, struct ranking *ret)
{
	ret->refused = arena_array(a, p->n - ret->usable + 1, sizeof(*ret->refused));
	for (size_t i = 0; i < p->n; i++) {
		const struct offer *o;

		if (p->why[i] == REFUSED_NOT) {
			continue;
		}
		o = pass_at(p, i);
		ret->refused[ret->refused_n++] =
		    (struct refused){ .offer = o, .why = (enum refusal)p->why[i] };
		ret->spot_cooling +=
		    p->why[i] == REFUSED_COOLING && spot_market_reclaims(o->market);
	}
}

void rank_run(struct arena *a, const struct offer *offers, size_t n, const struct rank_job *job,
    const struct rank_policy *p, int64_t now_us, struct ranking *ret)
{
	struct rank_ctx *c = arena_alloc(a, sizeof(*c));
	struct pass pass = { .offers = offers,
		.n = n,
		.why = arena_alloc(a, n + 1),
		.bits = asks_fit_bits(job->spec) };

	rank_ctx_init(c, job, p, now_us);
	*ret = (struct ranking){ .ctx = c };
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	pass.raw = arena_array(a, n / SCORES_EACH + 1, sizeof(*pass.raw));
	pass.keys = arena_array_raw(a, n + 1, sizeof(*pass.keys));
	/* A read of the market comes by pool id. */
	if (!pass_score(a, c, &pass)) {
		pass.order = by_pool(a, offers, n);
		pass_score(a, c, &pass);
	}
	if (pass.leaves) {
		pass_leaves(c, &pass);
	}
	pass_order(a, &pass, ret);
	pass_refused(a, &pass, ret);
}

void rank_offers(struct arena *a, const struct offer *offers, size_t n, const struct rank_job *job,
    const struct rank_policy *p, int64_t now_us, struct score **ret_scores, size_t *ret_usable)
{
	struct ranking r;

	rank_run(a, offers, n, job, p, now_us, &r);
	*ret_scores = r.scores;
	*ret_usable = r.usable;
}

const struct score *rank_one(struct arena *a, const struct offer *o, const struct rank_job *job,
    const struct rank_policy *p, int64_t now_us)
{
	struct rank_ctx *c = arena_alloc(a, sizeof(*c));
	struct score *s = arena_alloc(a, sizeof(*s));

	rank_ctx_init(c, job, p, now_us);
	return score_make(c, o, s) ? s : NULL;
}

const struct score *rank_in_time(const struct ranking *r, enum spot_market market, double within_h)
{
	const struct score *fastest = NULL;

	for (size_t i = 0; i < r->usable; i++) {
		const struct score *s = &r->scores[i];

		if (!offer_in_market(s->offer, market)) {
			continue;
		}
		if (s->hours <= within_h) {
			return s;
		}
		fastest = fastest == NULL || s->hours < fastest->hours ? s : fastest;
	}
	return fastest;
}

/* Hours with 95 %, of a score of a whole gang in proportion to those of one node. */
static double hours_sure(const struct score *s)
{
	struct score_terms t;

	if (s->by == NULL) {
		return HUGE_VAL;
	}
	score_explain(s, &t);
	return t.hours > 0 ? t.hours_p95 * s->hours / t.hours : s->hours;
}

bool rank_speed_suits(const struct score *s, const struct score *on_demand, double within_h)
{
	return !spot_market_reclaims(s->offer->market) || on_demand == NULL ||
	    s->throughput >= DEADLINE_SPEED_LEAST * on_demand->throughput ||
	    hours_sure(s) + on_demand->hours <= within_h;
}

bool rank_suits_deadline(const struct score *s, const struct score *on_demand, double within_h)
{
	return s->hours <= within_h && rank_speed_suits(s, on_demand, within_h);
}

#define AS_QUICK 1.02

static double late_hours(const struct score *s)
{
	struct score_terms t;

	if (!spot_market_reclaims(s->offer->market)) {
		return s->hours;
	}
	score_explain(s, &t);
	return t.hours_p95;
}

const struct score *rank_quickest(const struct score *scores, size_t n)
{
	double least = INFINITY;

	for (size_t i = 0; i < n; i++) {
		least = fmin(least, late_hours(&scores[i]));
	}
	for (size_t i = 0; i < n; i++) {
		if (late_hours(&scores[i]) <= least * AS_QUICK) {
			return &scores[i];
		}
	}
	return NULL;
}
