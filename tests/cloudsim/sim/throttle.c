/* Token buckets by name. The clock is the monotone one: wall jumps refill nothing. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

struct bucket {
	char *key;
	double tokens;
	int64_t at_us;
};
struct throttle {
	struct bucket *buckets;
	size_t n;
};

void throttle_new(struct sim *s)
{
	s->throttle = calloc(1, sizeof(*s->throttle));
	if (!s->throttle) {
		abort();
	}
}

void throttle_reset(struct sim *s)
{
	for (size_t k = 0; k < s->throttle->n; k++) {
		free(s->throttle->buckets[k].key);
	}
	free(s->throttle->buckets);
	*s->throttle = (struct throttle){ 0 };
}

void throttle_free(struct sim *s)
{
	if (!s->throttle) {
		return;
	}
	throttle_reset(s);
	free(s->throttle);
	s->throttle = NULL;
}

bool throttle_take(struct sim *s, const char *key, double burst, double per_second, double cost)
{
	struct throttle *t = s->throttle;
	struct bucket *b = NULL;
	int64_t now = loop_mono_us(s->loop);

	if (!s->conf.throttle) {
		return true;
	}
	for (size_t k = 0; k < t->n && !b; k++) {
		if (str_same(t->buckets[k].key, key)) {
			b = &t->buckets[k];
		}
	}
	if (!b) {
		t->buckets = realloc(t->buckets, (t->n + 1) * sizeof(*t->buckets));
		if (!t->buckets) {
			abort();
		}
		b = &t->buckets[t->n++];
		*b = (struct bucket){ dup_text(key), burst, now };
	}
	b->tokens = MIN(burst, b->tokens + (double)(now - b->at_us) * 1e-6 * per_second);
	b->at_us = now;
	if (b->tokens < cost) {
		return false;
	}
	b->tokens -= cost;
	return true;
}

double throttle_left(const struct sim *s, const char *key, double burst)
{
	for (size_t k = 0; k < s->throttle->n; k++) {
		if (str_same(s->throttle->buckets[k].key, key)) {
			return s->throttle->buckets[k].tokens;
		}
	}
	return burst;
}
