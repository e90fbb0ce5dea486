/* Turns our own rows into samples of a pool's supply. The rules are in supply_track.h. */
#include "base/base.h"
#include "core/policy/supply_track.h"

/* A year of ten-minute ticks: no caller needs more. */
#define SAMPLES_MAX 52560

static int64_t first_word(const struct supply_word *w, size_t n, int32_t pool_id)
{
	for (size_t i = 0; i < n; i++) {
		if (w[i].pool_id == pool_id) {
			return w[i].from_us;
		}
	}
	return 0;
}

/* Adds the time of [from, to) to every tick it touches. */
static void down_add(int64_t *down, size_t n, int64_t start_us, int64_t tick_us, int64_t from,
    int64_t to)
{
	for (int64_t t = MAX(from, start_us); t < to;) {
		size_t i = (size_t)((t - start_us) / tick_us);
		int64_t end = MIN(start_us + (int64_t)(i + 1) * tick_us, to);

		if (i >= n) {
			return;
		}
		down[i] += end - t;
		t = end;
	}
}

void supply_track_make(struct arena *a, const struct supply_word *words, size_t n, int32_t pool_id,
    int64_t tick_us, int64_t down_us, int64_t now_us, struct policy_track *ret)
{
	int64_t first = first_word(words, n, pool_id), start, down_from = 0, *down;
	uint8_t *up;

	*ret = (struct policy_track){ .tick_us = tick_us };
	if (first == 0 || first >= now_us || tick_us <= 0) {
		return;
	}
	/* Ticks end at now, so that the newest sample is whole. */
	ret->n = (size_t)MIN((now_us - first + tick_us - 1) / tick_us, (int64_t)SAMPLES_MAX);
	start = now_us - (int64_t)ret->n * tick_us;
	down = arena_array(a, ret->n, sizeof(*down));
	up = arena_array(a, ret->n, sizeof(*up));
	for (size_t i = 0; i < n; i++) {
		const struct supply_word *w = &words[i];

		if (w->pool_id != pool_id) {
			continue;
		}
		/* A second refusal keeps the first one's start. A new node ends the refusal. */
		if (down_from != 0) {
			down_add(down, ret->n, start, tick_us, down_from,
			    MIN(MIN(w->from_us, down_from + down_us), now_us));
		}
		down_from = w->up ? 0 : w->from_us;
	}
	if (down_from != 0) {
		down_add(down, ret->n, start, tick_us, down_from, MIN(down_from + down_us, now_us));
	}
	for (size_t i = 0; i < ret->n; i++) {
		up[i] = down[i] * 2 <= tick_us;
	}
	ret->up = up;
}
