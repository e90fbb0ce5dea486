/*
 * The baseline policies. Uniform Progress (Wu et al., "Can't Be Late", NSDI'24) follows the line
 * from nothing at the start to all at the deadline. It runs on spot while there is some. Once
 * behind it runs on demand, until spot is back and the lead pays for two changeovers. Idling as
 * soon as the line is reached would pay a changeover every few ticks. The published figures do not
 * come from that.
 *
 * Greedy runs on spot while there is some, else waits. At the end the clock drives both on demand
 * (tail). Of several pools they take the cheapest that is up, of equal ones the one up longest.
 * They stay there until it is lost.
 */
#include "base/base.h"
#include "core/policy/deadline_policy.h"

struct basic {
	const struct policy_setup *s;
	int64_t *up_us; /* per pool, how long it has been up without a break */
	/* elapsed_us of the last tick seen, so that seeing it twice adds nothing */
	int64_t seen_us;
};

static int64_t ticks_up(int64_t us, int64_t tick_us)
{
	return us <= 0 ? 0 : (us + tick_us - 1) / tick_us;
}

static int64_t ticks_left(const struct policy_setup *s, const struct policy_view *v)
{
	return (s->deadline_us - v->elapsed_us) / s->tick_us;
}

/* Returns whether the work left then fits if on demand begins with the next tick. */
static bool fits_after(const struct policy_setup *s, const struct policy_view *v, int64_t gain_us,
    int64_t changeover_us)
{
	int64_t left = s->work_us - v->done_us - gain_us;

	return left <= 0 || ticks_up(left + changeover_us, s->tick_us) < ticks_left(s, v);
}

bool policy_must_run(const struct policy_setup *s, const struct policy_view *v)
{
	return !fits_after(s, v, 0, s->changeover_us);
}

bool policy_spot_safe(const struct policy_setup *s, const struct policy_view *v, size_t pool)
{
	bool stays = v->held == POLICY_SPOT && v->held_pool == pool;
	int64_t changeover = stays ? v->changeover_left_us : s->changeover_us;

	/* Spot whose changeover is done loses no ground. If it had to yield to on demand, the tick
	 * before would already have said so. */
	return (stays && changeover == 0) ||
	    fits_after(s, v, MAX(s->tick_us - changeover, 0), s->changeover_us);
}

static void *basic_begin(struct arena *a, const struct policy_setup *s,
    const struct policy_track *tracks, size_t n)
{
	struct basic *b = arena_alloc(a, sizeof(*b));

	b->s = s;
	b->seen_us = -1;
	b->up_us = arena_array(a, s->pools_n, sizeof(*b->up_us));
	for (size_t i = 0; i < n; i++) {
		const struct policy_track *t = &tracks[i];

		for (size_t k = t->n; t->pool >= 0 && k > 0 && t->up[k - 1]; k--) {
			b->up_us[t->pool] += t->tick_us;
		}
	}
	return b;
}

static void note_ages(struct basic *b, const struct policy_view *v)
{
	if (v->elapsed_us <= b->seen_us) {
		return;
	}
	b->seen_us = v->elapsed_us;
	for (size_t i = 0; i < b->s->pools_n; i++) {
		b->up_us[i] = v->up[i] ? b->up_us[i] + b->s->tick_us : 0;
	}
}

/* Returns the pool to use; SIZE_MAX: none is up. */
static size_t choose_pool(const struct basic *b, const struct policy_view *v)
{
	size_t best = SIZE_MAX;

	if (v->held == POLICY_SPOT) {
		return v->held_pool;
	}
	for (size_t i = 0; i < b->s->pools_n; i++) {
		if (v->up[i] &&
		    (best == SIZE_MAX || v->price_micros[i] < v->price_micros[best] ||
			(v->price_micros[i] == v->price_micros[best] &&
			    b->up_us[i] > b->up_us[best]))) {
			best = i;
		}
	}
	return best;
}

static void choice_set(struct policy_choice *ret, enum policy_act act, size_t pool, const char *why)
{
	*ret =
	    (struct policy_choice){ .act = act, .pool = act == POLICY_SPOT ? pool : 0, .why = why };
}

/* The end of a run, common to all policies. True when it has decided. */
static bool choose_tail(const struct basic *b, const struct policy_view *v,
    struct policy_choice *ret)
{
	const struct policy_setup *s = b->s;
	int64_t left = s->work_us - v->done_us, ticks = ticks_left(s, v);

	if (v->held != POLICY_SPOT && ticks_up(left + 2 * s->changeover_us, s->tick_us) >= ticks) {
		choice_set(ret, POLICY_ON_DEMAND, 0,
		    "no room for another changeover before the deadline");
		return true;
	}
	if (policy_must_run(s, v)) {
		if (v->held == POLICY_SPOT && v->changeover_left_us == 0) {
			choice_set(ret, POLICY_SPOT, v->held_pool,
			    "last safe moment, and spot is running");
		} else {
			choice_set(ret, POLICY_ON_DEMAND, 0, "last safe moment");
		}
		return true;
	}
	return false;
}

/* The line: done / elapsed = work / deadline, compared without rounding. */
static bool ahead_of(const struct policy_setup *s, int64_t done_us, int64_t elapsed_us)
{
	return (__int128)done_us * s->deadline_us > (__int128)elapsed_us * s->work_us;
}

static bool progress_is_behind(const struct policy_setup *s, int64_t done_us, int64_t elapsed_us)
{
	return (__int128)done_us * s->deadline_us < (__int128)elapsed_us * s->work_us;
}

static void uniform_progress_decide(void *state, const struct policy_view *v,
    struct policy_choice *ret)
{
	struct basic *b = state;
	const struct policy_setup *s = b->s;
	size_t pool;

	note_ages(b, v);
	if (choose_tail(b, v, ret)) {
		return;
	}
	pool = choose_pool(b, v);
	if (pool != SIZE_MAX) {
		if (v->held == POLICY_ON_DEMAND &&
		    !ahead_of(s, v->done_us, v->elapsed_us + 2 * s->changeover_us)) {
			choice_set(ret, POLICY_ON_DEMAND, 0,
			    "spot is back, but the lead does not pay for two changeovers");
		} else {
			choice_set(ret, POLICY_SPOT, pool, "spot is up");
		}
	} else if (v->held == POLICY_ON_DEMAND) {
		choice_set(ret, POLICY_ON_DEMAND, 0,
		    "no spot, and giving up on demand would cost another changeover");
	} else if (progress_is_behind(s, v->done_us, v->elapsed_us)) {
		choice_set(ret, POLICY_ON_DEMAND, 0,
		    "no spot, and behind the line of uniform progress");
	} else {
		choice_set(ret, POLICY_WAIT, 0,
		    "no spot, and not behind the line of uniform progress");
	}
}

static void greedy_decide(void *state, const struct policy_view *v, struct policy_choice *ret)
{
	struct basic *b = state;
	size_t pool;

	note_ages(b, v);
	if (choose_tail(b, v, ret)) {
		return;
	}
	pool = choose_pool(b, v);
	choice_set(ret, pool != SIZE_MAX ? POLICY_SPOT : POLICY_WAIT, pool,
	    pool != SIZE_MAX ? "spot is up" : "no spot");
}

static void on_demand_decide(void *state, const struct policy_view *v, struct policy_choice *ret)
{
	(void)state;
	(void)v;
	choice_set(ret, POLICY_ON_DEMAND, 0, "always on demand");
}

const struct policy policy_uniform_progress = { "uniform-progress", basic_begin,
	uniform_progress_decide };
const struct policy policy_greedy = { "greedy", basic_begin, greedy_decide };
const struct policy policy_on_demand = { "on-demand", basic_begin, on_demand_decide };

const struct policy *policy_at(size_t i)
{
	static const struct policy *const all[] = { &policy_auto, &policy_uniform_progress,
		&policy_greedy, &policy_on_demand };

	return i < ARRAY_LEN(all) ? all[i] : NULL;
}

const struct policy *policy_find(const char *name)
{
	const struct policy *p = NULL;

	for (size_t i = 0; (p = policy_at(i)) != NULL && strcmp(p->name, name) != 0; i++) {
	}
	return p;
}
