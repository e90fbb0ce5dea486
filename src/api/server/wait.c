/*
 * Parked requests: long polls of agents, jobs, checkpoints, rebalances. A request registers its
 * key ("n7", "j12") before it reads, so no notification is lost between reading and parking. A
 * parked request looks again when its key is notified, when its time is over, and at intervals in
 * case a notification was lost. A client that leaves is noticed at once while parked, and at the
 * next parking while a statement runs.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#include "base/hash.h"

static struct wait **bucket_of(struct api *api, const char *key)
{
	uint64_t h = hash_str(HASH_START, key);

	return &api->waits[(h >> 7) % WAIT_BUCKETS];
}

static void wait_unpark(struct wait *w)
{
	if (w->parked) {
		container_of(w, struct areq, wait)->api->parked--;
	}
	w->parked = false;
}

void areq_unwatch(struct areq *q)
{
	struct wait *w = &q->wait;

	if (!w->at) {
		return;
	}
	loop_timer_stop(&w->timer);
	*w->at = w->next;
	if (w->next) {
		w->next->at = w->at;
	}
	w->at = NULL;
	wait_unpark(w);
	q->api->waiting--;
}

static void look_again(struct wait *w)
{
	struct areq *q = container_of(w, struct areq, wait);

	wait_unpark(w);
	w->woken = false;
	loop_timer_stop(&w->timer);
	q->http->gone = NULL;
	w->look(q);
}

static void timer_fire(struct loop_timer *t)
{
	look_again(container_of(t, struct wait, timer));
}

static void parked_gone(struct httpd_req *r)
{
	struct areq *q = r->user;

	areq_end(q);
}

void areq_watch(struct areq *q, char kind, int64_t id, int64_t hold_us, int64_t again_us,
    void (*look)(struct areq *))
{
	struct wait *w = &q->wait;

	assert(!w->at);
	snprintf(w->key, sizeof(w->key), "%c%" PRId64, kind, id);
	w->until_us = loop_mono_us(q->api->loop) + hold_us;
	w->again_us = again_us;
	w->look = look;
	loop_timer_init(&w->timer, q->api->loop, timer_fire);
	w->at = bucket_of(q->api, w->key);
	w->next = *w->at;
	if (w->next) {
		w->next->at = &w->next;
	}
	*w->at = w;
	q->api->waiting++;
}

bool areq_park(struct areq *q)
{
	struct wait *w = &q->wait;
	int64_t left = w->at ? w->until_us - loop_mono_us(q->api->loop) : 0;

	if (left <= 0 || q->api->draining) {
		return false;
	}
	if (!httpd_alive(q->http)) {
		areq_unwatch(q);
		return false; /* the reply goes nowhere and ends the request */
	}
	pg_req_fini(&q->pg);
	w->parked = true;
	q->api->parked++;
	q->http->user = q;
	q->http->gone = parked_gone;
	loop_timer_set(&w->timer, w->woken ? 0 : MIN(left, w->again_us));
	return true;
}

/* A wake-up in the middle of its statement makes a request look again when it parks. */
static void wait_mark(struct wait *w)
{
	w->woken = true;
	if (w->parked) {
		loop_timer_set(&w->timer, 0);
	}
}

void wait_wake_all(struct api *api)
{
	for (size_t i = 0; i < WAIT_BUCKETS && api->waiting > 0; i++) {
		for (struct wait *w = api->waits[i]; w; w = w->next) {
			wait_mark(w);
		}
	}
}

void wait_wake(struct api *api, const char *key)
{
	for (struct wait *w = *bucket_of(api, key); w; w = w->next) {
		if (strcmp(w->key, key) == 0) {
			wait_mark(w);
		}
	}
}
