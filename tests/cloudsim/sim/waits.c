/*
 * Long polls on the event record: GET /wait is answered when a matching event exists, so that tests
 * await events and never sleep.
 */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

struct wait {
	struct wait *next;
	struct sim *sim;
	struct httpd_req *r;
	uint64_t since;
	const char *type, *instance, *token; /* in the request's arena */
	int64_t want; /* matching events wanted */
	struct loop_timer timer;
};
struct waits {
	struct wait *first;
	struct loop_task task;
	struct sim *sim;
};

static void wait_unlink(struct wait *w)
{
	for (struct wait **at = &w->sim->waits->first; *at; at = &(*at)->next) {
		if (*at == w) {
			*at = w->next;
			break;
		}
	}
	loop_timer_stop(&w->timer);
}

static void wait_answer(struct wait *w, json_t *events, bool timeout)
{
	json_t *doc = json_pack("{s:o, s:I, s:b}", "events", events, "seq",
	    (json_int_t)books_seq(w->sim), "timeout", timeout);
	char *text = json_dumps(doc, JSON_COMPACT);

	json_decref(doc);
	wait_unlink(w);
	w->r->gone = NULL;
	httpd_reply(w->r, 200, "application/json", text, strlen(text));
	free(text);
	loop_bury(w->sim->loop, w, free);
}

/* true: answered. */
static bool wait_try(struct wait *w)
{
	json_t *events = books_events(w->sim, w->since, w->type, w->instance, w->token);

	if ((int64_t)json_array_size(events) < w->want) {
		json_decref(events);
		return false;
	}
	wait_answer(w, events, false);
	return true;
}

static void wait_timeout(struct loop_timer *t)
{
	struct wait *w = container_of(t, struct wait, timer);

	wait_answer(w, books_events(w->sim, w->since, w->type, w->instance, w->token), true);
}

static void wait_gone(struct httpd_req *r)
{
	struct wait *w = r->user;

	wait_unlink(w);
	loop_bury(w->sim->loop, w, free);
}

static int64_t query_i64(struct httpd_req *r, const char *name, int64_t dflt)
{
	const char *text = httpd_query(r, name);
	int64_t v;

	return text && parse_i64(text, 0, INT64_MAX / 2000, &v) ? v : dflt;
}

void waits_park(struct sim *s, struct httpd_req *r)
{
	struct wait *w = calloc(1, sizeof(*w));

	if (!w) {
		abort();
	}
	w->sim = s;
	w->r = r;
	w->since = (uint64_t)query_i64(r, "since", 0);
	w->want = MAX(query_i64(r, "count", 1), 1);
	w->type = httpd_query(r, "event");
	w->instance = httpd_query(r, "instance");
	w->token = httpd_query(r, "token");
	w->next = s->waits->first;
	s->waits->first = w;
	loop_timer_init(&w->timer, s->loop, wait_timeout);
	r->user = w;
	r->gone = wait_gone;
	if (!wait_try(w)) {
		loop_timer_set(&w->timer, MAX(query_i64(r, "timeout_ms", 30000), 1) * 1000);
	}
}

static void waits_check(struct loop_task *t)
{
	struct waits *all = container_of(t, struct waits, task);
	struct wait *next;

	for (struct wait *w = all->first; w; w = next) {
		next = w->next;
		wait_try(w);
	}
}

void waits_wake(struct sim *s)
{
	if (s->waits && s->waits->first && !s->waits->task.queued) {
		loop_defer(s->loop, &s->waits->task, waits_check);
	}
}

void waits_new(struct sim *s)
{
	s->waits = calloc(1, sizeof(*s->waits));
	if (!s->waits) {
		abort();
	}
	s->waits->sim = s;
}

void waits_free(struct sim *s)
{
	struct wait *next;

	if (!s->waits) {
		return;
	}
	loop_defer_cancel(s->loop, &s->waits->task);
	for (struct wait *w = s->waits->first; w; w = next) {
		next = w->next;
		loop_timer_stop(&w->timer);
		w->r->gone = NULL;
		free(w);
	}
	free(s->waits);
	s->waits = NULL;
}
