/*
 * Shared reads: equal requests that wait at the same time get one reply. While a statement of the
 * first one runs, later ones wait; the next statement then serves all of them. So each request is
 * answered from a snapshot that is younger than itself, and a hundred dashboards cost one query at
 * a time. The target decides: replies of these routes do not depend on the caller.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

struct crew { /* requests, in the order in which they came */
	struct areq *first, **end;
};

struct share {
	struct share *next;
	struct share *next_start; /* in api->shares_start */
	char *target;
	struct crew served; /* by the statement that runs; empty: none runs */
	struct crew waiting;
};

static struct share **share_place(struct api *api, const char *target)
{
	struct share **at = &api->shares[hash_str(HASH_START, target) % SHARE_BUCKETS];

	while (*at != NULL && strcmp((*at)->target, target) != 0) {
		at = &(*at)->next;
	}
	return at;
}

static void share_free(struct share *s)
{
	free(s->target);
	free(s);
}

static struct share *share_new(const char *target)
{
	struct share *s = calloc(1, sizeof(*s));

	if (s == NULL || (s->target = strdup(target)) == NULL) {
		abort();
	}
	return s;
}

static void crew_add(struct crew *c, struct areq *q)
{
	q->mate = NULL;
	if (c->first == NULL) {
		c->end = &c->first;
	}
	*c->end = q;
	c->end = &q->mate;
}

/* The first request runs the handler; its reply is everybody's. */
static void shares_run(struct loop_task *t)
{
	struct api *api = container_of(t, struct api, shares_task);
	struct share *s;

	while ((s = api->shares_start) != NULL) {
		struct areq *q = s->waiting.first;

		api->shares_start = s->next_start;
		s->served = s->waiting;
		s->waiting.first = NULL;
		q->share = s;
		q->now_us = loop_wall_us(api->loop);
		q->route->run(q);
	}
}

/* The end of the turn starts it, so that requests of one turn come together. */
static void share_start(struct api *api, struct share *s)
{
	s->next_start = api->shares_start;
	api->shares_start = s;
	loop_defer(api->loop, &api->shares_task, shares_run);
	loop_wake(api->loop);
}

/* A route of one row may hold a request, if its query says so. */
static bool share_fits(const struct areq *q)
{
	const char *accept = httpd_header(q->http, "accept");

	return q->route->shared && (strchr(q->route->path, '{') == NULL || !*q->http->query) &&
	    (accept == NULL || strstr(accept, "text/event-stream") == NULL);
}

bool share_begin(struct areq *q)
{
	struct api *api = q->api;
	struct share **at, *s;

	if (!share_fits(q)) {
		return false;
	}
	at = share_place(api, q->http->target);
	if (*at == NULL) {
		*at = share_new(q->http->target);
		share_start(api, *at);
	} else {
		api->shared++;
	}
	s = *at;
	crew_add(&s->waiting, q);
	return true;
}

/* A failure is the first one's alone: the others try by themselves. */
static void mates_run(struct areq *q)
{
	while (q != NULL) {
		struct areq *next = q->mate;

		q->route->run(q);
		q = next;
	}
}

void share_reply(struct areq *q, int status, const char *type, const char *body, size_t n)
{
	struct api *api = q->api;
	struct share *s = STEAL(q->share), **at = share_place(api, s->target);
	struct areq *mates = q->mate;
	struct form form = { .type = type, .body = body, .n = n };

	s->served.first = NULL;
	if (s->waiting.first != NULL) {
		share_start(api, s);
	} else {
		*at = s->next;
		share_free(s);
	}
	if (status != 200) {
		reply_send(q, status, type, body, n);
		mates_run(mates);
		return;
	}
	for (struct areq *next; q != NULL; q = next) {
		next = q->mate;
		form_send(q, &form);
	}
}

void shares_fini(struct api *api)
{
	loop_defer_cancel(api->loop, &api->shares_task);
	for (size_t i = 0; i < SHARE_BUCKETS; i++) {
		struct share *s;

		while ((s = api->shares[i]) != NULL) {
			api->shares[i] = s->next;
			if (s->served.first != NULL) {
				s->served.first->share = NULL;
			}
			share_free(s);
		}
	}
}
