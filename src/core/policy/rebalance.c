/* Waves of moves and the worth of recommendations: the rules are in rebalance.h. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/policy/rebalance.h"

#define ALL_HOURS UINT32_C(0xffffff)
/* A priori a recommendation is right one time in four. AWS calls it a best effort, and users of its
 * handlers report mostly false alarms. Two dozen of our own outweigh the prior. */
#define PRIOR_FOLLOWED 1.0
#define PRIOR_NOT 3.0

void rebalance_policy_default(struct rebalance_policy *p)
{
	*p = (struct rebalance_policy){
		.wave_max = 10,
		.budget_pm = 100,
		.pool_max = 3,
		.hours = ALL_HOURS,
		.notice_window_us = 2 * SPOT_US_PER_HOUR,
	};
}

static bool hours_add(const char *part, uint32_t *hours)
{
	char first[8];
	const char *dash = strchr(part, '-');
	int64_t from, to;

	if (dash == NULL) {
		if (!parse_i64(part, 0, 23, &from)) {
			return false;
		}
		*hours |= UINT32_C(1) << from;
		return true;
	}
	if ((size_t)(dash - part) >= sizeof(first)) {
		return false;
	}
	(void)snprintf(first, sizeof(first), "%.*s", (int)(dash - part), part);
	if (!parse_i64(first, 0, 23, &from) || !parse_i64(dash + 1, 0, 23, &to)) {
		return false;
	}
	/* "22-5" crosses midnight. */
	for (int64_t h = from;; h = (h + 1) % 24) {
		*hours |= UINT32_C(1) << h;
		if (h == to) {
			return true;
		}
	}
}

bool rebalance_hours_parse(const char *text, uint32_t *ret)
{
	char part[8];
	uint32_t hours = 0;

	if (text == NULL || *text == '\0') {
		*ret = ALL_HOURS;
		return true;
	}
	while (*text != '\0') {
		size_t n = strcspn(text, ",");

		if (n == 0 || n >= sizeof(part)) {
			return false;
		}
		memcpy(part, text, n);
		part[n] = '\0';
		if (!hours_add(part, &hours)) {
			return false;
		}
		text += n;
		if (*text == ',' && *++text == '\0') {
			return false;
		}
	}
	*ret = hours;
	return true;
}

struct ordered {
	const struct rebalance_move *move;
	size_t at;
};

static int64_t move_gain(const struct rebalance_move *m)
{
	return m->saving_micros - m->cost_micros;
}

static int by_gain(const void *pa, const void *pb)
{
	const struct ordered *a = pa, *b = pb;

	if (a->move->urgent != b->move->urgent) {
		return a->move->urgent ? -1 : 1;
	}
	if (move_gain(a->move) != move_gain(b->move)) {
		return move_gain(a->move) > move_gain(b->move) ? -1 : 1;
	}
	return a->move->job_id < b->move->job_id ? -1 : a->move->job_id > b->move->job_id;
}

struct wave {
	const struct rebalance_policy *p;
	const struct ordered *list;
	struct rebalance_choice *ret;
	int64_t begun, moving, budget;
	bool open; /* the window */
	int hour;
};

static int32_t into_pool(const struct wave *w, size_t upto, int32_t pool)
{
	int32_t n = 0;

	for (size_t i = 0; i < upto; i++) {
		n += w->ret[w->list[i].at].go && w->list[i].move->to_pool == pool;
	}
	return n;
}

static const char *why_not(struct arena *a, const struct wave *w, size_t i)
{
	const struct rebalance_move *m = w->list[i].move;

	if (!m->pays) {
		return m->why_not != NULL ? m->why_not : "it does not pay";
	}
	if (!w->open && !m->urgent) {
		return arena_printf(a, "it pays, but moves do not begin in hour %d (UTC)", w->hour);
	}
	if (w->moving + w->begun >= w->budget) {
		return arena_printf(a,
		    "it pays, but %" PRId64 " jobs are on the move, as many as may be",
		    w->moving + w->begun);
	}
	if (w->begun >= w->p->wave_max) {
		return arena_printf(a, "it pays, but this wave has its %d moves", w->p->wave_max);
	}
	if (into_pool(w, i, m->to_pool) >= w->p->pool_max) {
		return arena_printf(a,
		    "it pays, but this wave moves %d jobs into that pool already", w->p->pool_max);
	}
	return NULL;
}

void rebalance_wave(struct arena *a, const struct rebalance_move *moves, size_t n, int64_t running,
    int64_t moving, int64_t now_us, const struct rebalance_policy *p, struct rebalance_choice *ret)
{
	struct ordered *list = arena_array(a, n + 1, sizeof(*list));
	struct wave w = { .p = p, .list = list, .ret = ret, .moving = moving };

	w.hour = (int)(now_us / SPOT_US_PER_HOUR % 24);
	w.open = (p->hours >> w.hour & 1) != 0;
	w.budget = p->budget_pm == 0 ? 0 : MAX(running * p->budget_pm / 1000, 1);
	for (size_t i = 0; i < n; i++) {
		list[i] = (struct ordered){ .move = &moves[i], .at = i };
	}
	if (n > 1) {
		qsort(list, n, sizeof(*list), by_gain);
	}
	memset(ret, 0, n * sizeof(*ret));
	for (size_t i = 0; i < n; i++) {
		struct rebalance_choice *c = &ret[list[i].at];

		c->why = why_not(a, &w, i);
		c->go = c->why == NULL;
		w.begun += c->go;
	}
}

void recommend_judge(struct arena *a, const struct recommend_in *in, int64_t margin_pm,
    struct recommend_out *ret)
{
	double base = (double)in->base_followed_pm / 1000.0;

	*ret = (struct recommend_out){
		.odds = (PRIOR_FOLLOWED + (double)in->followed) /
		    (PRIOR_FOLLOWED + PRIOR_NOT + (double)in->heard),
	};
	ret->worth_micros =
	    (int64_t)((ret->odds > base ? ret->odds - base : 0) * (double)in->lost_micros);
	ret->move = ret->worth_micros * 1000 > in->move_micros * (1000 + margin_pm);
	ret->why = arena_printf(a,
	    "%" PRId64 " of %" PRId64
	    " recommendations were followed by a reclaim: odds %.0f %%, worth %.4f "
	    "USD, a move costs %.4f",
	    in->followed, in->heard, ret->odds * 100, (double)ret->worth_micros / 1e6,
	    (double)in->move_micros / 1e6);
}
