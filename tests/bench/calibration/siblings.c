/*
 * Do reclaims come together, and by how much? Fits the rise of the hazard after reclaims of
 * siblings (core/hazard/hazard.h) on recorded traces. Then scores it on parts that the fit
 * did not see: the last 40 % of each folder, and every third zone.
 *
 *   siblings [--write FILE] DIR...
 *
 * In each slot the model knows what a broker knew at its start. The usual hazard comes from the
 * hazard model with all experience so far, made again every hour and after each reclaim. A slot of
 * a pool weighs as one machine drawn at random from it.
 */
#include "base/base.h"

#include "siblings.h"

#include "core/hazard/hazard.h"

#include <math.h>

#define SETS_MAX 64
#define WARM_SHARE 0.1
#define TRAIN_SHARE 0.6
#define AGE_MAX_H 6.0
/* 92 % within three minutes (arXiv:2604.16457). */
#define QUICK_TAU_H (0.05 / 2.525728644)

const char *const part_names[PARTS] = { "fitted on", "later", "other zones", "other zones, later" };
const char *const model_names[MODELS] = { "constant", "today", "siblings" };

static enum sibling level_of(const struct trace_set *s, size_t a, size_t b)
{
	const struct trace_pool *p = &s->pools[a], *q = &s->pools[b];

	if (a == b) {
		return SIBLING_POOL;
	}
	if (strcmp(p->provider, q->provider) != 0 || strcmp(p->gpu, q->gpu) != 0 ||
	    strcmp(p->region, q->region) != 0) {
		return SIBLING_NONE;
	}
	return strcmp(p->zone, q->zone) == 0 ? SIBLING_ZONE : SIBLING_REGION;
}

static double hour_of(const struct trace_pool *p, size_t slot)
{
	return (double)slot * (double)p->gap_s / 3600;
}

/* The newest reclaim of q that was known at hour; -1: none. Its time is the middle of its slot. */
static double strike_age(const struct trace_pool *q, double hour)
{
	size_t i = (size_t)fmin(floor(hour * 3600 / (double)q->gap_s + 1e-9) + 1, (double)q->n);

	while (i-- > 1) {
		double at = hour_of(q, i) - (double)q->gap_s / 7200;

		if (hour - at > AGE_MAX_H) {
			return -1;
		}
		if (q->alive[i] < q->alive[i - 1] && hour_of(q, i) <= hour + 1e-9) {
			return hour - at;
		}
	}
	return -1;
}

/* Of the nodes held at the start of the slot, those taken by its end `slots` later. */
static double taken_share(const struct trace_pool *p, size_t slot, size_t slots)
{
	double lost = 0;

	for (size_t i = slot; i < MIN(slot + slots, p->n); i++) {
		lost += MAX(p->alive[i - 1] - p->alive[i], 0);
	}
	return fmin(lost / p->alive[slot - 1], 1);
}

static struct offer offer_of(struct arena *a, const struct trace_pool *p, size_t i,
    const struct offer_record *r)
{
	return (struct offer){ .pool_id = (int32_t)i + 1,
		.provider = p->provider,
		.region = p->region,
		.zone = p->zone,
		.instance_type = arena_printf(a, "%s-%d", p->gpu, p->size),
		.gpu_name = p->gpu,
		.gpu_milli = p->size * 1000,
		.market = SPOT_MARKET_SPOT,
		.advisor_lo = -1,
		.placement_score = -1,
		.capacity = -1,
		.record = r };
}

/* The usual hazards of all pools of the set, and the constant rate, as known at the hour. */
static void usual_make(const struct trace_set *s, double hour, double *rates, double *constant)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct offer_record records[32];
	struct offer offers[32];
	struct rank_policy policy;
	double hours = 0, reclaims = 0;
	const struct hazard_model *m;

	rank_policy_default(&policy);
	for (size_t i = 0; i < s->pools_n; i++) {
		double h, o;

		trace_record(s, i, hour, &policy, &records[i]);
		offers[i] = offer_of(a, &s->pools[i], i, &records[i]);
		trace_count(&s->pools[i], 0, hour, &h, &o);
		hours += h;
		reclaims += o;
	}
	m = hazard_model_build(a, offers, s->pools_n, &policy,
	    (int64_t)(hour * 3.6e9) + s->pools[0].start_s * SPOT_US_PER_S);
	for (size_t i = 0; i < s->pools_n; i++) {
		struct hazard h;

		hazard_of(m, &offers[i], &h);
		rates[i] = h.per_hour;
	}
	*constant = (reclaims + 0.5) / (hours + 1);
}

static void look_fill(const struct trace_set *s, size_t pool, size_t slot, struct look *l)
{
	const struct trace_pool *p = &s->pools[pool];
	double hour = hour_of(p, slot - 1);

	l->hours = (double)p->gap_s / 3600;
	l->nodes = p->alive[slot - 1];
	l->lost = p->alive[slot - 1] - p->alive[slot] > 0
	    ? (double)(p->alive[slot - 1] - p->alive[slot])
	    : 0;
	l->taken_60 = hour + 1 > hour_of(p, p->n - 1)
	    ? -1
	    : taken_share(p, slot, (size_t)lround(3600.0 / (double)p->gap_s));
	l->taken_3 = p->gap_s > 200
	    ? -1
	    : taken_share(p, slot, (size_t)fmax(round(180.0 / (double)p->gap_s), 1));
	for (size_t i = 0; i < s->pools_n; i++) {
		enum sibling level = level_of(s, pool, i);
		double age = level == SIBLING_NONE ? -1 : strike_age(&s->pools[i], hour);

		if (age >= 0 && l->strikes_n < ARRAY_LEN(l->strikes)) {
			l->strikes[l->strikes_n++] = (struct strike){ level, age };
		}
		/* lost in the same slot: pools of one folder have one gap */
		if (level != SIBLING_NONE && i != pool && slot < s->pools[i].n) {
			l->with[level] += s->pools[i].alive[slot] < s->pools[i].alive[slot - 1];
		}
	}
}

static enum part part_of(const struct trace_set *s, size_t pool, double hour)
{
	bool other = pool % 3 == 2, later = hour > s->hours * TRAIN_SHARE;

	return other ? (later ? PART_BOTH : PART_ZONE) : later ? PART_TIME : PART_FIT;
}

static void set_look(const struct trace_set *s, struct looks *all)
{
	double rates[32], constant = 0, made = -1, step = (double)s->pools[0].gap_s / 3600;
	bool struck = true;

	for (size_t slot = 1; hour_of(&s->pools[0], slot) < s->hours; slot++) {
		double hour = hour_of(&s->pools[0], slot - 1);

		if (hour >= s->hours * WARM_SHARE && (struck || hour - made >= 1)) {
			usual_make(s, hour, rates, &constant);
			made = hour;
			struck = false;
		}
		for (size_t i = 0; i < s->pools_n; i++) {
			const struct trace_pool *p = &s->pools[i];

			if (slot >= p->n || p->alive[slot - 1] <= 0) {
				continue;
			}
			struck |= p->alive[slot] < p->alive[slot - 1];
			if (made >= 0) {
				struct look *l = looks_add(all);

				l->part = part_of(s, i, hour + step);
				l->usual = rates[i];
				l->constant = constant;
				look_fill(s, i, slot, l);
			}
		}
	}
}

int main(int argc, char **argv)
{
	AUTO(arena) struct arena *a = arena_new((size_t)1 << 30);
	struct trace_set *sets = calloc(SETS_MAX, sizeof(*sets));
	struct looks all = { 0 };
	struct sibling_fit fit = { .tau_h = { QUICK_TAU_H, 0.5 } };
	const char *write = NULL;
	int at = 1;
	size_t n;

	if (argc > 3 && strcmp(argv[1], "--write") == 0) {
		write = argv[2];
		at = 3;
	}
	if (at >= argc || sets == NULL) {
		fprintf(stderr, "usage: siblings [--write FILE] DIR...\n");
		return 2;
	}
	n = traces_load(a, argv + at, argc - at, sets, SETS_MAX);
	for (size_t i = 0; i < n; i++) {
		set_look(&sets[i], &all);
	}
	looks_fit(&all, &fit);
	looks_report(&all, &fit);
	if (write != NULL && !fit_write(write, &fit, &all)) {
		return 1;
	}
	free(sets);
	free(all.list);
	return n > 0 ? 0 : 1;
}
