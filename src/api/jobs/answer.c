/* Remembered rankings: the key of an ask, how long its answer holds, and which one is forgotten. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

#include <sys/queue.h>

#define BYTES_MAX ((size_t)96 << 20) /* of all answers that nobody holds */
#define ANSWER_BYTES_MAX ((size_t)1 << 30)
#define LIFE_US (5 * SPOT_US_PER_S)
/* The time that is left is part of the ranking. It holds for so much less of it. */
#define LEFT_LESS_US (SPOT_US_PER_S / 2)
#define RUNS_KEPT 8 /* of one ranking; a plan has three */

struct run_kept {
	struct montecarlo_in in;
	struct montecarlo_out out;
};

struct kept {
	struct answer answer;
	struct answers *owner;
	struct arena *arena;
	struct market_snap *snap;
	const char *key;
	uint64_t hash;
	int64_t until_us; /* wall */
	int64_t deadline_us, left_us; /* of the ask */
	struct run_kept runs[RUNS_KEPT];
	size_t runs_n; /* that were made; the newest are kept */
	int holds;
	size_t bytes;
	TAILQ_ENTRY(kept) link;
};

struct answers {
	struct api_part part;
	TAILQ_HEAD(kepts, kept) list; /* the last used first */
	size_t bytes;
};

/* ---- life ------------------------------------------------------------------------------------ */

static void kept_let_go(void *p)
{
	struct kept *k = p;

	if (--k->holds == 0) {
		market_drop(k->snap);
		arena_free(k->arena);
	}
}

static void kept_forget(struct answers *all, struct kept *k)
{
	TAILQ_REMOVE(&all->list, k, link);
	all->bytes -= k->bytes;
	kept_let_go(k);
}

static void answers_free(struct api_part *part)
{
	struct answers *all = container_of(part, struct answers, part);

	while (!TAILQ_EMPTY(&all->list)) {
		kept_forget(all, TAILQ_FIRST(&all->list));
	}
	free(all);
}

static struct answers *answers_of(struct api *api)
{
	if (api->answers == NULL) {
		api->answers = calloc(1, sizeof(*api->answers));
		if (api->answers == NULL) {
			abort();
		}
		TAILQ_INIT(&api->answers->list);
		api_own(api, &api->answers->part, answers_free);
	}
	return api->answers;
}

/* ---- the ask --------------------------------------------------------------------------------- */

/* Everything of the file but the members that no ranking reads, and what is known besides. The
 * deadline is compared by itself (deadline_fits). */
static const char *ask_key(struct areq *q, const struct planned *p)
{
	static const char *const unread[] = { "name", "setup", "run", "envs", "secrets", "mounts",
		"priority", "max_restarts", "team", "project", "fleet", "max_duration_s",
		"deadline_us", NULL };
	AUTO(json) json_t *spec = jobspec_to_json(p->spec);

	for (size_t i = 0; unread[i] != NULL; i++) {
		json_object_del(spec, unread[i]);
	}
	return arena_printf(q->arena, "%s %s %s %" PRId64 " %" PRId64 " %s",
	    json_text(q->arena, spec), p->policy.store_provider ? p->policy.store_provider : "",
	    p->policy.store_region ? p->policy.store_region : "", p->facts.restart_us,
	    p->facts.has_budget ? p->facts.budget_left : -1, p->facts.rates ? p->facts.rates : "");
}

static int64_t left_us(const struct planned *p)
{
	return p->spec->deadline_us != 0 ? p->spec->deadline_us - p->begin_us : 0;
}

/* "In 30 hours" leaves the same time at each request. Of an absolute deadline a little less is left
 * each time. */
static bool deadline_fits(const struct kept *k, const struct planned *p)
{
	int64_t less = k->left_us - left_us(p);

	if ((k->deadline_us == 0) != (p->spec->deadline_us == 0)) {
		return false;
	}
	return less == 0 ||
	    (k->deadline_us == p->spec->deadline_us && less > 0 && less < LEFT_LESS_US);
}

static struct kept *kept_find(struct answers *all, struct areq *q, const struct planned *p,
    uint64_t hash, const char *key)
{
	struct kept *k, *next;

	for (k = TAILQ_FIRST(&all->list); k != NULL; k = next) {
		next = TAILQ_NEXT(k, link);
		if (k->snap != q->snap || q->now_us >= k->until_us) {
			kept_forget(all, k);
		} else if (k->hash == hash && strcmp(k->key, key) == 0 && deadline_fits(k, p)) {
			return k;
		}
	}
	return NULL;
}

/* The end of a cooldown makes a pool usable. */
static int64_t kept_until(const struct market_snap *m, int64_t now_us)
{
	return MIN(now_us + LIFE_US, market_cool_end(m, now_us));
}

static const struct score *score_cheapest(const struct ranking *r)
{
	const struct score *best = NULL;

	for (size_t i = 0; i < r->usable; i++) {
		const struct score *s = &r->scores[i];

		if (best == NULL || s->offer->price_micros < best->offer->price_micros) {
			best = s;
		}
	}
	return best;
}

/* Ranks with a copy of the spec, since the answer outlives the request. */
static void answer_make(struct kept *k, struct areq *q, const struct planned *p,
    const char *const *gpus, size_t gpus_n)
{
	struct answer *w = &k->answer;
	AUTO(json) json_t *doc = jobspec_to_json(p->spec);
	struct place_policy policy = p->policy;
	struct place_in in = { .arena = k->arena,
		.market = &w->market,
		.policy = &policy,
		.now_us = p->begin_us };
	struct spot_err err = { 0 };
	struct job_spec *spec;
	bool has_budget = p->facts.has_budget;

	if (jobspec_from_json(k->arena, doc, &spec, &err) != SPOT_OK) {
		abort(); /* it was written just now */
	}
	policy.store_provider = arena_strdup(k->arena, policy.store_provider);
	policy.store_region = arena_strdup(k->arena, policy.store_region);
	w->facts = p->facts;
	w->facts.rates = arena_strdup(k->arena, p->facts.rates);
	plan_market(k->arena, q->snap, gpus, gpus_n, &w->market);
	w->facts.has_budget = false;
	placement_rank(&in, &w->facts, spec, &w->all);
	w->facts.has_budget = has_budget;
	w->placing = w->all;
	if (has_budget) {
		placement_rank(&in, &w->facts, spec, &w->placing);
	}
	w->cheapest = score_cheapest(&w->all.ranking);
	w->never = w->all.ranking.usable > 0 ? NULL : placement_never(&in, spec);
	k->until_us = kept_until(q->snap, q->now_us);
	k->deadline_us = p->spec->deadline_us;
	k->left_us = left_us(p);
}

static struct kept *kept_new(struct answers *all, struct areq *q, const struct planned *p,
    const char *const *gpus, size_t gpus_n)
{
	struct arena *a = arena_new(ANSWER_BYTES_MAX);
	struct kept *k = arena_alloc(a, sizeof(*k));

	k->arena = a;
	k->holds = 1;
	k->snap = market_hold(q->snap);
	answer_make(k, q, p, gpus, gpus_n);
	k->bytes = arena_used(a);
	TAILQ_INSERT_HEAD(&all->list, k, link);
	all->bytes += k->bytes;
	while (all->bytes > BYTES_MAX && TAILQ_LAST(&all->list, kepts) != k) {
		kept_forget(all, TAILQ_LAST(&all->list, kepts));
	}
	return k;
}

const struct answer *answer_take(struct areq *q, struct planned *p, const char *const *gpus,
    size_t gpus_n)
{
	struct answers *all = answers_of(q->api);
	const char *key = ask_key(q, p);
	uint64_t hash = hash_str(HASH_START, key);
	struct kept *k = kept_find(all, q, p, hash, key);
	const struct answer *w;

	if (k == NULL) {
		k = kept_new(all, q, p, gpus, gpus_n);
		k->key = arena_strdup(k->arena, key);
		k->hash = hash;
	} else {
		TAILQ_REMOVE(&all->list, k, link);
		TAILQ_INSERT_HEAD(&all->list, k, link);
	}
	k->holds++;
	areq_keep(q, k, kept_let_go);
	w = &k->answer;
	p->market = w->market;
	if (w->facts.deadline_us == 0) { /* it has passed, and does not count */
		p->facts.deadline_us = 0;
	}
	p->all = w->all;
	p->placing = w->placing;
	return w;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static bool run_same(const struct montecarlo_in *a, const struct montecarlo_in *b)
{
	return a->chosen == b->chosen && a->seed == b->seed && a->hazards == b->hazards &&
	    (a->deadline_us == 0) == (b->deadline_us == 0) &&
	    (a->deadline_us == 0 || a->deadline_us - a->now_us == b->deadline_us - b->now_us);
}

void answer_play(struct areq *q, const struct planned *p, const struct montecarlo_in *in,
    struct montecarlo_out *ret)
{
	struct kept *k = p->answer != NULL ? q->kept : NULL;
	struct run_kept *run;

	for (size_t i = 0; k != NULL && i < MIN(k->runs_n, (size_t)RUNS_KEPT); i++) {
		if (run_same(&k->runs[i].in, in)) {
			*ret = k->runs[i].out;
			return;
		}
	}
	montecarlo_run(q->arena, in, ret);
	if (k != NULL) {
		assert(&k->answer == p->answer);
		run = &k->runs[k->runs_n++ % RUNS_KEPT];
		*run = (struct run_kept){ .in = *in, .out = *ret };
	}
}

void answers_forget(struct api *api)
{
	struct answers *all = answers_of(api);

	while (!TAILQ_EMPTY(&all->list)) {
		kept_forget(all, TAILQ_FIRST(&all->list));
	}
}
