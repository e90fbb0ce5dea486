/* Our policy's experience, kept as the database keeps it, and the offers made of it (ours.h). */
#include "base/base.h"

#include "ours.h"

#include <math.h>

#define FADE_H 168.0
#define WEEK_H 168.0

static bool is_same(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static struct group *group_of(struct ours *o, const char *provider, const char *region,
    const char *gpu)
{
	for (size_t i = 0; i < o->groups_n; i++) {
		struct group *g = &o->groups[i];

		if (is_same(g->gpu, gpu) && is_same(g->region, region) &&
		    is_same(g->provider, provider)) {
			return g;
		}
	}
	return NULL;
}

void market_init(struct fs_sim *s, struct ours *o)
{
	for (size_t i = 0; i < s->w->pools_n; i++) {
		const struct fs_pool *p = &s->w->pools[i];

		o->seen[i].lost_hour = -1;
		if (p->market == SPOT_MARKET_SPOT &&
		    group_of(o, p->provider, p->region, p->gpu) == NULL) {
			o->groups[o->groups_n++] = (struct group){ .provider = p->provider,
				.region = p->region,
				.gpu = p->gpu };
		}
	}
}

/* ---- the record ------------------------------------------------------------------------------ */

static void record_fade(struct seen *x, const struct rank_policy *k, double dt_h)
{
	double age = exp2(-dt_h / k->age_half_life_h), odds = exp2(-dt_h / k->odds_half_life_h);
	double recent = exp2(-dt_h / k->recent_half_life_h);
	struct offer_record *r = &x->record;

	r->node_hours *= age;
	r->reclaims *= age;
	r->reclaim_hours *= age;
	r->hour_reclaims *= age;
	r->reclaim_cos *= age;
	r->reclaim_sin *= age;
	r->hour_nodes *= age;
	r->node_cos *= age;
	r->node_sin *= age;
	r->node_cos2 *= age;
	r->node_sin2 *= age;
	r->launches *= odds;
	r->refusals *= odds;
	r->recent_hours *= recent;
	r->recent_reclaims *= recent;
}

static double day_angle(int64_t now_us)
{
	return (double)(now_us % (24 * SPOT_US_PER_HOUR)) / (24.0 * (double)SPOT_US_PER_HOUR) * 2 *
	    M_PI;
}

static void record_live(struct seen *x, int32_t live, double dt_h, int64_t now_us)
{
	double h = live * dt_h, at = day_angle(now_us);
	struct offer_record *r = &x->record;

	r->node_hours += h;
	r->recent_hours += h;
	r->hour_nodes += h;
	r->node_cos += h * cos(at);
	r->node_sin += h * sin(at);
	r->node_cos2 += h * cos(2 * at);
	r->node_sin2 += h * sin(2 * at);
}

static void price_seen(struct seen *x, int64_t price_micros, int64_t now_us, double dt_h)
{
	double keep = exp(-dt_h / FADE_H), p = (double)price_micros / 1e6;
	int hour = (int)(now_us / SPOT_US_PER_HOUR % DEFER_HOURS);

	x->fade_w = x->fade_w * keep + 1 - keep;
	x->fade_1 = x->fade_1 * keep + (1 - keep) * p;
	x->fade_2 = x->fade_2 * keep + (1 - keep) * p * p;
	x->hours[hour].sum += p;
	x->hours[hour].n++;
}

static void word_add(struct fs_sim *s, struct seen *x, int32_t pool, int64_t now_us, bool up)
{
	x->words = arena_grow(s->arena, x->words, x->words_n, &x->words_cap, sizeof(*x->words));
	x->words[x->words_n++] =
	    (struct supply_word){ .pool_id = pool, .from_us = now_us, .up = up };
}

static void try_add(struct fs_sim *s, struct seen *x, int64_t t, int kind)
{
	x->tries = arena_grow(s->arena, x->tries, x->tries_n, &x->tries_cap, sizeof(*x->tries));
	x->tries[x->tries_n++] = (struct try){ t, kind };
}

void market_tried(struct fs_sim *s, struct ours *o, int32_t pool, bool got, int64_t t)
{
	struct seen *x = &o->seen[pool];
	int hour = (int)(sim_now(s, t) / SPOT_US_PER_HOUR % DEFER_HOURS);

	try_add(s, x, t, got ? 0 : 1);
	word_add(s, x, pool, sim_now(s, t), got);
	if (got) {
		x->record.launches++;
		x->hours[hour].launches++;
		if (!x->cool_reclaimed) {
			x->cool_until_us = 0;
			x->cool_n = 0;
		}
	} else {
		x->record.refusals++;
		x->hours[hour].refusals++;
		x->cool_until_us =
		    MAX(x->cool_until_us, t + MIN(COOL_MAX_US, COOL_MIN_US << MIN(x->cool_n, 10)));
		x->cool_n++;
		x->cool_reclaimed = false;
	}
	market_need(s, o);
	o->offers[pool].cool_until_us = x->cool_until_us > 0 ? sim_now(s, x->cool_until_us) : 0;
}

void market_reclaimed(struct fs_sim *s, struct ours *o, int32_t pool, int64_t t)
{
	struct seen *x = &o->seen[pool];
	int64_t now = sim_now(s, t), hour = now / SPOT_US_PER_HOUR;

	try_add(s, x, t, 2);
	word_add(s, x, pool, now, false);
	x->reclaimed_us = now;
	x->record.reclaims++;
	x->record.recent_reclaims++;
	x->cool_until_us = MAX(x->cool_until_us, t + RECLAIM_COOL_US);
	x->cool_n = MAX(x->cool_n, 1);
	x->cool_reclaimed = true;
	if (x->lost_hour != hour) {
		x->lost_hour = hour;
		x->record.reclaim_hours++;
		x->record.hour_reclaims++;
		x->record.reclaim_cos += cos(day_angle(now));
		x->record.reclaim_sin += sin(day_angle(now));
	}
}

/* ---- the market as ranking reads it ---------------------------------------------------------- */

static void offer_fill(const struct fs_sim *s, const struct ours *o, size_t i, int64_t t,
    struct offer *ret)
{
	const struct fs_pool *p = &s->w->pools[i];
	const struct seen *x = &o->seen[i];

	*ret = (struct offer){
		.pool_id = (int32_t)i,
		.market = p->market,
		.price_state = PRICE_FRESH,
		.provider = p->provider,
		.region = p->region,
		.zone = p->zone,
		.zone_name = p->zone,
		.instance_type = p->type,
		.gpu_name = p->gpu,
		.gpu_milli = p->gpu_milli,
		.vcpus = p->vcpus,
		.mem_mib = p->mem_mib,
		.arch = "x86_64",
		.quota_class = "",
		.price_micros = fs_price(p, t),
		.price_observed_us = sim_now(s, t),
		.cool_until_us = x->cool_until_us > t ? sim_now(s, x->cool_until_us) : 0,
		.capacity = -1,
		.placement_score = -1,
		.advisor_lo = p->advisor_lo,
		.advisor_hi = p->advisor_hi,
		.live_nodes = s->live[i],
		.record = &x->record,
		.reclaimed_us = x->reclaimed_us,
		.price_mean = x->fade_w > 0 ? x->fade_1 / x->fade_w : 0,
		.price_var = x->fade_w > 0
		    ? fmax(x->fade_2 / x->fade_w - pow(x->fade_1 / x->fade_w, 2), 0)
		    : 0,
		.price_cover = x->fade_w,
	};
}

void market_need(struct fs_sim *s, struct ours *o)
{
	int64_t t = s->t;

	if (o->offers != NULL) {
		return;
	}
	o->offers = arena_array(o->step, s->w->pools_n + 1, sizeof(*o->offers));
	for (size_t i = 0; i < s->w->pools_n; i++) {
		offer_fill(s, o, i, t, &o->offers[i]);
	}
	o->model = hazard_model_build(o->step, o->offers, s->w->pools_n, &o->rank, sim_now(s, t));
	offers_believe(o->model, o->offers, s->w->pools_n);
	for (size_t i = 0; i < s->w->pools_n; i++) {
		struct offer *x = &o->offers[i];

		if (o->conf->no_hazards) {
			x->hazard = x->hazard_lo = x->hazard_hi = 1e-9;
			x->rise = (struct rise){ 0 };
		}
		if (o->conf->no_odds) {
			x->launch = x->launch_lo = x->launch_hi = 1;
		}
	}
}

/* ---- tightness ------------------------------------------------------------------------------- */

static bool in_group(const struct fs_pool *p, const struct group *g)
{
	return p->market == SPOT_MARKET_SPOT && is_same(p->gpu, g->gpu) &&
	    is_same(p->region, g->region) && is_same(p->provider, g->provider);
}

static void pool_measure(const struct ours *o, size_t i, int64_t t, struct tightness_seen *ret)
{
	const struct seen *x = &o->seen[i];

	for (size_t k = x->tries_n; k > 0 && x->tries[k - 1].at_us > t - o->tightness.window_us;
	     k--) {
		ret->launches += x->tries[k - 1].kind == 0;
		ret->refusals += x->tries[k - 1].kind == 1;
		ret->reclaims += x->tries[k - 1].kind == 2;
	}
	for (int m = 0; m < WINDOW_MIN; m++) {
		ret->node_hours += x->minutes[m] / 60.0;
	}
	ret->pools++;
	ret->pools_out += x->cool_until_us > t;
}

static void price_measure(const struct fs_sim *s, const struct ours *o, size_t i,
    struct tightness_seen *ret, int32_t *priced)
{
	const struct seen *x = &o->seen[i];
	double mean = x->fade_w > 0 ? x->fade_1 / x->fade_w : 0;

	ret->hazard_per_hour += o->offers[i].hazard;
	if (mean > 0 &&
	    (s->live[i] > 0 ||
		(x->tries_n > 0 &&
		    x->tries[x->tries_n - 1].at_us > s->t - o->tightness.window_us))) {
		ret->price += (double)o->offers[i].price_micros / 1e6 / mean;
		++*priced;
	}
}

static void group_step(struct fs_sim *s, struct ours *o, struct group *g, int64_t t)
{
	struct tightness_seen seen = { 0 };
	struct tightness was = g->now;
	int32_t priced = 0;

	for (size_t i = 0; i < s->w->pools_n; i++) {
		if (in_group(&s->w->pools[i], g)) {
			pool_measure(o, i, t, &seen);
		}
	}
	if (was.state != SUPPLY_TIGHT && seen.launches + seen.refusals + seen.reclaims == 0) {
		return;
	}
	market_need(s, o);
	for (size_t i = 0; i < s->w->pools_n; i++) {
		if (in_group(&s->w->pools[i], g)) {
			price_measure(s, o, i, &seen, &priced);
		}
	}
	seen.hazard_per_hour /= MAX(seen.pools, 1);
	if (priced > 0) {
		seen.price /= priced;
		seen.price_mean = 1;
	}
	tightness_step(o->step, &was, &seen, &o->tightness, sim_now(s, t), &g->now);
	g->now.why = NULL;
}

void market_step(struct fs_sim *s, struct ours *o, int64_t t)
{
	double dt_h = (double)FS_STEP_US / (double)SPOT_US_PER_HOUR;

	for (size_t i = 0; i < s->w->pools_n; i++) {
		struct seen *x = &o->seen[i];

		record_fade(x, &o->rank, dt_h);
		record_live(x, s->live[i], dt_h, sim_now(s, t));
		price_seen(x, fs_price(&s->w->pools[i], t), sim_now(s, t), dt_h);
		x->minutes[t / FS_STEP_US % WINDOW_MIN] = s->live[i];
	}
	for (size_t i = 0; i < o->groups_n; i++) {
		group_step(s, o, &o->groups[i], t);
	}
}

bool market_tight(const struct ours *o, const struct offer *x)
{
	for (size_t i = 0; i < o->groups_n && x->market == SPOT_MARKET_SPOT; i++) {
		const struct group *g = &o->groups[i];

		if (is_same(g->gpu, x->gpu_name) && is_same(g->region, x->region) &&
		    is_same(g->provider, x->provider)) {
			return g->now.state == SUPPLY_TIGHT;
		}
	}
	return false;
}

const struct score *market_probe(const struct ours *o, const struct ranking *r,
    const struct score *here, const struct job_mind *m, bool spot_only)
{
	const struct offer *refused[ARRAY_LEN(m->refused)];
	const struct score **list = arena_array(o->step, r->usable + 1, sizeof(*list)), *best;
	size_t n = 0;

	if (!spot_only && r->usable > 0 && r->scores[0].offer->market != SPOT_MARKET_SPOT) {
		return &r->scores[0];
	}
	for (size_t i = 0; i < r->usable; i++) {
		if (r->scores[i].offer->market == SPOT_MARKET_SPOT &&
		    !(spot_only && market_tight(o, r->scores[i].offer))) {
			list[n++] = &r->scores[i];
		}
	}
	for (size_t i = 0; i < m->refused_n; i++) {
		refused[i] = &o->offers[m->refused[i]];
	}
	best = return_probe(list, n, here, refused, m->refused_n, &o->supply);
	return best != NULL || n == 0 ? best : list[0];
}

const struct score *market_easy(const struct ours *o, const struct ranking *r)
{
	for (size_t i = 0; i < r->usable; i++) {
		if (r->scores[i].offer->market == SPOT_MARKET_SPOT &&
		    !market_tight(o, r->scores[i].offer)) {
			return &r->scores[i];
		}
	}
	return NULL;
}
