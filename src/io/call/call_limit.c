/*
 * Token buckets for provider calls. Each access computes the refill; one timer per bucket wakes the
 * head of its queue. A bucket of rate r and burst b grants at most b + r*t tokens in any time t.
 * Vendors publish their limits in this form.
 */
#include "base/base.h"

#include <math.h>

#include "io/call/call_priv.h"

TAILQ_HEAD(limit_queue, limit_wait);

struct limit_bucket {
	struct limit_bucket *next;
	const struct spot_limit *limit;
	double factor; /* of the limit */
	char *scope;
	double tokens;
	int64_t as_of_us; /* mono: time of the last refill */
	int64_t shut_until_us; /* mono */
	struct limit_queue urgent, normal;
	struct loop_timer timer;
};

struct limiter {
	struct loop *loop;
	double factor; /* of all limits */
	struct limit_bucket *buckets;
};

static void bucket_fire(struct loop_timer *t);

struct limiter *limiter_new(struct loop *l)
{
	struct limiter *lim = calloc(1, sizeof(*lim));

	if (lim == NULL) {
		abort();
	}
	lim->loop = l;
	lim->factor = 1;
	return lim;
}

void limiter_scale(struct limiter *l, double factor)
{
	l->factor = factor;
}

struct spot_limit limiter_scaled(const struct limiter *l, const struct spot_limit *limit)
{
	struct spot_limit ret = *limit;

	ret.per_second *= l->factor;
	ret.burst *= l->factor;
	return ret;
}

bool limiter_holds(const struct limiter *l, const struct spot_limit *limit)
{
	return limit->per_second * l->factor > 0;
}

void limiter_free(struct limiter *l)
{
	if (l == NULL) {
		return;
	}
	while (l->buckets != NULL) {
		struct limit_bucket *b = l->buckets;

		assert(TAILQ_EMPTY(&b->urgent) && TAILQ_EMPTY(&b->normal));
		l->buckets = b->next;
		loop_timer_stop(&b->timer);
		free(b->scope);
		free(b);
	}
	free(l);
}

static double bucket_burst(const struct limit_bucket *b)
{
	return MAX(b->limit->burst * b->factor, 1.0);
}

static struct limit_bucket *bucket_get(struct limiter *l, const struct spot_limit *limit,
    const char *scope)
{
	struct limit_bucket *b;

	scope = scope == NULL ? "" : scope;
	for (b = l->buckets; b != NULL; b = b->next) {
		if (b->limit == limit && strcmp(b->scope, scope) == 0) {
			return b;
		}
	}
	b = calloc(1, sizeof(*b));
	if (b == NULL || (b->scope = strdup(scope)) == NULL) {
		abort();
	}
	b->limit = limit;
	b->factor = l->factor;
	b->tokens = bucket_burst(b);
	b->as_of_us = loop_mono_us(l->loop);
	TAILQ_INIT(&b->urgent);
	TAILQ_INIT(&b->normal);
	loop_timer_init(&b->timer, l->loop, bucket_fire);
	b->next = l->buckets;
	l->buckets = b;
	return b;
}

static void bucket_refill(struct limit_bucket *b)
{
	int64_t now = loop_mono_us(b->timer.loop);
	double gained = (double)(now - b->as_of_us) * b->limit->per_second * b->factor / 1e6;

	b->tokens = MIN(b->tokens + MAX(gained, 0.0), bucket_burst(b));
	b->as_of_us = now;
}

/* Takes cost tokens if the bucket has them. The comparison has a little slack, because a refill
 * after exactly the computed wait may fall short by a rounding error. */
static bool bucket_draw(struct limit_bucket *b, double cost)
{
	bucket_refill(b);
	cost = MIN(cost, bucket_burst(b));
	if (b->as_of_us < b->shut_until_us || b->tokens + 1e-6 < cost) {
		return false;
	}
	b->tokens -= cost;
	return true;
}

static struct limit_wait *bucket_head(const struct limit_bucket *b)
{
	struct limit_wait *w = TAILQ_FIRST(&b->urgent);

	return w != NULL ? w : TAILQ_FIRST(&b->normal);
}

static void bucket_arm(struct limit_bucket *b)
{
	const struct limit_wait *w = bucket_head(b);
	double missing;
	int64_t wait_us;

	if (w == NULL) {
		loop_timer_stop(&b->timer);
		return;
	}
	missing = MAX(MIN(w->cost, bucket_burst(b)) - b->tokens, 0.0);
	wait_us = (int64_t)ceil(missing / (b->limit->per_second * b->factor) * 1e6);
	loop_timer_set(&b->timer, MAX(wait_us, b->shut_until_us - b->as_of_us));
}

static void bucket_fire(struct loop_timer *t)
{
	struct limit_bucket *b = container_of(t, struct limit_bucket, timer);
	struct limit_wait *w;

	while ((w = bucket_head(b)) != NULL && bucket_draw(b, w->cost)) {
		limiter_cancel(w);
		w->go(w);
	}
	bucket_arm(b);
}

bool limiter_take(struct limiter *l, const struct spot_limit *limit, const char *scope, int cost,
    bool urgent, struct limit_wait *w)
{
	struct limit_bucket *b;
	bool first;

	if (!limiter_holds(l, limit)) {
		return true;
	}
	b = bucket_get(l, limit, scope);
	first = TAILQ_EMPTY(&b->urgent) && (urgent || TAILQ_EMPTY(&b->normal));
	w->cost = cost > 0 ? cost : 1;
	w->urgent = urgent;
	if (first && bucket_draw(b, w->cost)) {
		return true;
	}
	w->bucket = b;
	if (urgent) {
		TAILQ_INSERT_TAIL(&b->urgent, w, link);
	} else {
		TAILQ_INSERT_TAIL(&b->normal, w, link);
	}
	bucket_refill(b);
	bucket_arm(b);
	return false;
}

double limiter_room(struct limiter *l, const struct spot_limit *limit, const char *scope)
{
	struct limit_bucket *b;

	if (!limiter_holds(l, limit)) {
		return CALL_ROOM_FREE;
	}
	b = bucket_get(l, limit, scope);
	bucket_refill(b);
	return b->as_of_us < b->shut_until_us ? 0 : b->tokens;
}

void limiter_put_back(struct limiter *l, const struct spot_limit *limit, const char *scope,
    int cost, bool urgent, int64_t wait_us, struct limit_wait *w)
{
	struct limit_bucket *b = bucket_get(l, limit, scope);

	w->cost = cost > 0 ? cost : 1;
	w->urgent = urgent;
	w->bucket = b;
	bucket_refill(b);
	b->tokens = MIN(b->tokens + w->cost, bucket_burst(b));
	b->shut_until_us = MAX(b->shut_until_us, b->as_of_us + wait_us);
	if (urgent) {
		TAILQ_INSERT_HEAD(&b->urgent, w, link);
	} else {
		TAILQ_INSERT_HEAD(&b->normal, w, link);
	}
	bucket_arm(b);
}

void limiter_cancel(struct limit_wait *w)
{
	if (w->bucket == NULL) {
		return;
	}
	if (w->urgent) {
		TAILQ_REMOVE(&w->bucket->urgent, w, link);
	} else {
		TAILQ_REMOVE(&w->bucket->normal, w, link);
	}
	w->bucket = NULL;
}

void limiter_throttled(struct limiter *l, const struct spot_limit *limit, const char *scope,
    int64_t retry_after_us)
{
	struct limit_bucket *b;

	if (!limiter_holds(l, limit)) {
		return;
	}
	b = bucket_get(l, limit, scope);
	bucket_refill(b);
	b->tokens = MIN(b->tokens, 0.0);
	b->shut_until_us = MAX(b->shut_until_us, b->as_of_us + retry_after_us);
	bucket_arm(b);
}
