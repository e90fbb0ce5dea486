/*
 * Parked requests: long polls of agents, jobs, checkpoints, rebalances. A request registers its
 * key ("n7", "j12") before it reads, so no notification is lost between reading and parking. A
 * parked request looks again when its key is notified, when its time is over, and at intervals in
 * case a notification was lost. A client that leaves is noticed at once while parked, and at the
 * next parking while a statement runs.
 *
 * Most parked requests are those of idle agents. Each keeps only a record (areq_park_record), and
 * becomes a request again when it looks.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

/* All look again after a reconnect and at the drain. This pace keeps the database's queue short. */
#define WAKE_EVERY_US 50

static uint64_t key_hash(char kind, int64_t id)
{
	return hash_mix(hash_mix(HASH_START, (uint64_t)kind), (uint64_t)id);
}

/* ---- the register ---------------------------------------------------------------------------- */

static void waiter_add(struct api *api, struct waiter *w, char kind, int64_t id)
{
	struct waiter **bucket = &api->waits[(key_hash(kind, id) >> 7) % WAIT_BUCKETS];

	w->kind = kind;
	w->id = id;
	w->at = bucket;
	w->next = *bucket;
	if (w->next) {
		w->next->at = &w->next;
	}
	*bucket = w;
	api->waiting++;
}

static void waiter_park(struct api *api, struct waiter *w, bool parked)
{
	api->parked += parked;
	api->parked -= w->parked;
	w->parked = parked;
}

static void waiter_remove(struct api *api, struct waiter *w)
{
	*w->at = w->next;
	if (w->next) {
		w->next->at = w->at;
	}
	w->at = NULL;
	waiter_park(api, w, false);
	api->waiting--;
}

static bool key_read(const char *text, char *ret_kind, int64_t *ret_id)
{
	*ret_kind = text[0];
	return text[0] >= 'a' && text[0] <= 'z' && parse_i64(text + 1, 1, INT64_MAX, ret_id);
}

void wait_wake_all(struct api *api)
{
	int64_t after_us = 0;

	/* A look that is under way missed them too, so no note is known. */
	api->notes_n += WAIT_NOTES + 1;
	for (size_t i = 0; i < WAIT_BUCKETS && api->waiting > 0; i++) {
		for (struct waiter *w = api->waits[i]; w; w = w->next) {
			after_us += WAKE_EVERY_US;
			w->wake(w, after_us);
		}
	}
}

void wait_wake(struct api *api, const char *key)
{
	struct waiter *next;
	int64_t id;
	char kind;

	if (!key_read(key, &kind, &id)) {
		return;
	}
	api->notes[api->notes_n++ % WAIT_NOTES] = key_hash(kind, id);
	for (struct waiter *w = api->waits[(key_hash(kind, id) >> 7) % WAIT_BUCKETS]; w; w = next) {
		next = w->next;
		if (w->kind == kind && w->id == id) {
			w->wake(w, 0);
		}
	}
}

uint64_t areq_notes(const struct areq *q)
{
	return q->api->notes_n;
}

static bool noted_since(const struct api *api, uint64_t since, uint64_t hash)
{
	if (api->notes_n - since > WAIT_NOTES) {
		return true; /* perhaps: those that came first are forgotten */
	}
	for (uint64_t i = since; i < api->notes_n; i++) {
		if (api->notes[i % WAIT_NOTES] == hash) {
			return true;
		}
	}
	return false;
}

/* ---- requests that stay whole ---------------------------------------------------------------- */

void areq_unwatch(struct areq *q)
{
	struct wait *w = &q->wait;

	if (w->waiter.at) {
		loop_timer_stop(&w->timer);
		waiter_remove(q->api, &w->waiter);
	}
}

static void timer_fire(struct loop_timer *t)
{
	struct wait *w = container_of(t, struct wait, timer);
	struct areq *q = container_of(w, struct areq, wait);

	waiter_park(q->api, &w->waiter, false);
	w->waiter.woken = false;
	q->http->gone = NULL;
	w->look(q);
}

static void parked_gone(struct httpd_req *r)
{
	struct areq *q = r->user;

	areq_end(q);
}

/* A wake-up in the middle of its statement makes a request look again when it parks. */
static void request_wake(struct waiter *waiter, int64_t after_us)
{
	struct wait *w = container_of(waiter, struct wait, waiter);

	waiter->woken = true;
	if (waiter->parked) {
		loop_timer_set(&w->timer, after_us);
	}
}

void areq_watch(struct areq *q, char kind, int64_t id, int64_t hold_us, int64_t again_us,
    void (*look)(struct areq *))
{
	struct wait *w = &q->wait;

	assert(!w->waiter.at);
	w->until_us = loop_mono_us(q->api->loop) + hold_us;
	w->again_us = again_us;
	w->look = look;
	w->waiter.wake = request_wake;
	loop_timer_init(&w->timer, q->api->loop, timer_fire);
	waiter_add(q->api, &w->waiter, kind, id);
}

void areq_watch_since(struct areq *q, uint64_t since, char kind, int64_t id, int64_t hold_us,
    int64_t again_us, void (*look)(struct areq *))
{
	areq_watch(q, kind, id, hold_us, again_us, look);
	q->wait.waiter.woken = noted_since(q->api, since, key_hash(kind, id));
}

/* The time left to park for; 0: reply now. */
static int64_t park_left_us(struct areq *q)
{
	const struct wait *w = &q->wait;
	int64_t left = w->waiter.at ? w->until_us - loop_mono_us(q->api->loop) : 0;

	if (left <= 0 || q->api->draining) {
		return 0;
	}
	if (!httpd_alive(q->http)) {
		areq_unwatch(q);
		return 0; /* the reply goes nowhere and ends the request */
	}
	return left;
}

bool areq_park(struct areq *q)
{
	struct wait *w = &q->wait;
	int64_t left = park_left_us(q);

	if (left == 0) {
		return false;
	}
	pg_req_fini(&q->pg);
	waiter_park(q->api, &w->waiter, true);
	q->http->user = q;
	q->http->gone = parked_gone;
	loop_timer_set(&w->timer, w->waiter.woken ? 0 : MIN(left, w->again_us));
	return true;
}

/* ---- requests of which a record stays -------------------------------------------------------- */

static void record_look(struct areq_parked *p)
{
	struct api *api = p->api;
	struct areq *q;

	waiter_remove(api, &p->waiter);
	q = areq_new(api, httpd_unpark(&p->http));
	q->route_at = p->route_at;
	q->route = api->routes.rows[p->route_at];
	httpd_set(q->http, "Cache-Control", "no-store");
	p->again(q, p);
}

static void record_due(struct httpd_parked *http)
{
	record_look(container_of(http, struct areq_parked, http));
}

static void record_gone(struct httpd_parked *http)
{
	struct areq_parked *p = container_of(http, struct areq_parked, http);

	waiter_remove(p->api, &p->waiter);
	free(p);
}

static void record_wake(struct waiter *w, int64_t after_us)
{
	struct areq_parked *p = container_of(w, struct areq_parked, waiter);

	if (after_us == 0) {
		record_look(p);
	} else {
		httpd_parked_set(&p->http, after_us);
	}
}

bool areq_park_record(struct areq *q, struct areq_parked *p)
{
	static const struct httpd_parked_ops ops = { .due = record_due, .gone = record_gone };
	struct waiter *w = &q->wait.waiter;
	int64_t left = park_left_us(q);
	char kind = w->kind;
	int64_t id = w->id;

	if (left == 0) {
		return false;
	}
	p->api = q->api;
	p->until_us = q->wait.until_us;
	p->route_at = (uint32_t)q->route_at;
	p->http.ops = &ops;
	p->waiter = (struct waiter){ .wake = record_wake };
	left = w->woken ? 1 : left;
	areq_end(q);
	waiter_add(p->api, &p->waiter, kind, id);
	waiter_park(p->api, &p->waiter, true);
	httpd_park(q->http, &p->http, left);
	return true;
}
