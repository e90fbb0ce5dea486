/*
 * The network. Requests travel to the server that listens at the port of their URL, in this
 * process, and replies travel back. Each has a latency of its own, so messages overtake one
 * another. Their faults on the way are drawn per message.
 */
#include "base/base.h"
#include "sim/world/world.h"
#include "sim/net/net_priv.h"
#include "sim/world/profiles.h"
#include "base/text/text.h"
#include "io/httpd/httpd.h"

#include <strings.h>

#define REPLY_MAX ((size_t)64 << 20)

struct httpd *net_servers;
struct flight *net_flights;
#define CUTS_MAX 64
static char *cuts[CUTS_MAX];

/* ---- cuts ------------------------------------------------------------------------------------ */

static bool is_cut(const char *from)
{
	for (size_t i = 0; i < CUTS_MAX; i++) {
		if (cuts[i] != NULL && strcmp(cuts[i], from) == 0) {
			return true;
		}
	}
	return false;
}

bool net_any_cut(void)
{
	for (size_t i = 0; i < CUTS_MAX; i++) {
		if (cuts[i] != NULL) {
			return true;
		}
	}
	return false;
}

void net_cut(const char *from, bool cut)
{
	for (size_t i = 0; i < CUTS_MAX; i++) {
		if (!cut && cuts[i] != NULL && strcmp(cuts[i], from) == 0) {
			free(cuts[i]);
			cuts[i] = NULL;
		} else if (cut && cuts[i] == NULL) {
			cuts[i] = strdup(from);
			return;
		}
	}
}

/* Only requests to the daemon: a node that is cut off still reaches its metadata service. */
static bool is_blocked(const struct flight *f)
{
	return f->port == 8080 && is_cut(f->from);
}

/* ---- the client's side ----------------------------------------------------------------------- */

static void flight_free(void *p)
{
	struct flight *f = p;

	sbuf_fini(&f->lines);
	arena_free(f->arena);
	free(f);
}

static void flight_end(struct flight *f)
{
	loop_timer_stop(&f->timer);
	loop_timer_stop(&f->lines_timer);
	*f->at = f->next;
	if (f->next != NULL) {
		f->next->at = f->at;
	}
	if (f->served != NULL) {
		f->served->flight = NULL;
	}
	if (f->to != NULL) {
		f->to->flight = NULL;
	}
	loop_bury(world.loop, f, flight_free);
}

static void served_bury(void *p)
{
	struct served *s = p;

	sbuf_fini(&s->stream);
	arena_free(s->arena);
	free(s);
}

void net_served_done(struct served *s)
{
	loop_timer_stop(&s->gone);
	*s->at = s->next;
	if (s->next != NULL) {
		s->next->at = s->at;
	}
	s->h->stats.open--;
	loop_bury(s->h->loop, s, served_bury);
}

/* In a turn of the server. */
void net_served_gone(struct loop_timer *t)
{
	struct served *s = container_of(t, struct served, gone);
	void (*gone)(struct httpd_req *) = STEAL(s->pub.gone);

	if (gone != NULL) {
		gone(&s->pub);
	}
	if (gone != NULL || s->streaming) {
		net_served_done(s);
	}
}

static void served_lost(struct served *s)
{
	s->flight = NULL;
	if (s->pub.gone != NULL) {
		loop_timer_set(&s->gone, 0);
	}
}

void flight_forget(struct flight_to *t)
{
	struct flight *f = STEAL(t->flight);
	struct served *s;

	if (f == NULL) {
		return;
	}
	f->to = NULL;
	s = f->served;
	if (s != NULL) {
		f->served = NULL;
		served_lost(s);
		flight_end(f);
	} else if (f->answered || f->swallowed) {
		flight_end(f);
	}
	/* else: the request is on its way and arrives although nobody waits */
}

void net_crash(const char *from)
{
	for (struct flight *f = net_flights, *next; f != NULL; f = next) {
		next = f->next;
		if (strcmp(f->from, from) == 0 && f->to != NULL) {
			flight_forget(f->to);
		}
	}
}

/* A watch that asks for changes that are forgotten: told by the status, or by an event of a good
 * stream. */
static void too_old(const struct flight_to *t)
{
	if (t->streamed != NULL &&
	    (t->status == 410 || memmem(t->reply.p, t->reply.n, "\"code\":410", 10) != NULL)) {
		sometimes("a watch was too old to go on");
	}
}

static void flight_tell(struct flight *f)
{
	struct flight_to *t = f->to;

	if (t == NULL) {
		flight_end(f);
		return;
	}
	t->reset = f->broken;
	t->sent = f->answered || f->served != NULL;
	t->status = f->status;
	t->reply_headers = f->reply_headers;
	t->reply_headers_n = f->reply_headers_n;
	t->reply = f->reply;
	trace("net %s <- %s %s %d", f->from, f->method, f->url, f->status);
	too_old(t);
	t->over(t);
	if (t->flight == f) {
		flight_forget(t);
	}
}

static void reply_arrived(struct loop_timer *timer)
{
	struct flight *f = container_of(timer, struct flight, timer);

	f->answered = true;
	if (!f->broken && is_blocked(f) && f->to != NULL) {
		f->swallowed = true; /* the deadline of the sender ends it */
	} else {
		flight_tell(f);
	}
}

void net_travel_back(struct flight *f, int64_t us)
{
	f->answered = true;
	loop_timer_init(&f->timer, f->to != NULL ? f->to->loop : world.loop, reply_arrived);
	loop_timer_set(&f->timer, us);
}

void net_break_up(struct flight *f, const char *why)
{
	trace("net %s -- %s %s: %s", f->from, f->method, f->url, why);
	loop_timer_stop(&f->lines_timer);
	f->broken = true;
	f->status = 0;
	f->reply = (struct str){ "", 0 };
	net_travel_back(f, dice_us(200, 40000));
}

/* ---- replies that go on ---------------------------------------------------------------------- */

static void lines_arrived(struct loop_timer *timer)
{
	struct flight *f = container_of(timer, struct flight, lines_timer);
	struct flight_to *t = f->to;

	trace("net %s <~ %s %s", f->from, f->method, f->url);
	t->status = f->status;
	t->reply = (struct str){ f->lines.p, f->lines.n };
	too_old(t);
	t->streamed(t);
	sbuf_reset(&f->lines);
}

/* Bytes written while others are on their way arrive with them: in order, whatever the latency. */
void net_stream(struct served *s, const char *p, size_t n)
{
	struct flight *f = s->flight;
	int64_t us = dice_us(150, 3000);

	f->status = s->status;
	sbuf_add(&f->lines, p, n);
	if (f->lines_timer.armed) {
		return;
	}
	if (DICE(stream_cut)) {
		fault_seen("stream_cut");
		sometimes("a stream of lines broke");
		f->served = NULL;
		served_lost(s);
		net_break_up(f, "the stream broke");
		return;
	}
	if (DICE(net_slow)) {
		fault_seen("net_slow");
		us = dice_us(SPOT_US_PER_S / 2, 20 * SPOT_US_PER_S);
	}
	loop_timer_init(&f->lines_timer, f->to->loop, lines_arrived);
	loop_timer_set(&f->lines_timer, us);
}

/* ---- arrival --------------------------------------------------------------------------------- */

/* A balancer that keeps its choice (long-lived connections) keeps each client's for a quarter of an
 * hour. */
static size_t choice_kept(const char *from, size_t n)
{
	uint64_t x = world.conf.seed * UINT64_C(0x9e3779b97f4a7c15) +
	    (uint64_t)(world_now() / (900 * SPOT_US_PER_S));

	return (size_t)((hash_str(x, from) >> 32) % n);
}

/* Draws one of several servers at one port (the daemons, behind a balancer). In half of the seeds
 * the draw lasts long. A server that does not answer gets less. */
static struct httpd *server_at(int port, const char *from)
{
	struct httpd *found[4];
	size_t n = 0, k;

	for (struct httpd *h = net_servers; h != NULL && n < ARRAY_LEN(found); h = h->next) {
		if (h->port == port && !h->draining) {
			found[n++] = h;
		}
	}
	if (n <= 1) {
		return n == 0 ? NULL : found[0];
	}
	k = profile_is(PROFILE_STICKY) ? choice_kept(from, n) : (size_t)rng_below(&world.dice, n);
	if (world_loop_paused(found[k]->loop) && rng_below(&world.dice, 4) > 0) {
		k = (k + 1) % n;
	}
	return found[k];
}

static const char *after_host(const char *url, size_t *ret_host)
{
	const char *host = strstr(url, "://");

	host = host == NULL ? url : host + 3;
	*ret_host = (size_t)(host - url);
	return host + strcspn(host, "/?#");
}

static void request_fill(struct served *s, const struct flight *f)
{
	struct httpd_req *r = &s->pub;
	size_t host;
	const char *path = after_host(f->url, &host);
	size_t n = strcspn(path, "?#");

	r->method = arena_strdup(s->arena, f->method);
	r->path = n == 0 ? "/" : arena_strndup(s->arena, path, n);
	r->query = path[n] == '?' ? arena_strdup(s->arena, path + n + 1) : "";
	r->target = *path == '\0' ? "/" : arena_strdup(s->arena, path);
	r->headers = f->headers;
	r->headers_n = f->headers_n;
	r->body = f->body;
	r->peer = "10.0.0.1:1";
	r->arena = s->arena;
	r->received_us = loop_wall_us(s->h->loop);
	r->priv = s;
}

static void request_handle(struct httpd *h, struct flight *f, bool heard)
{
	struct served *s = calloc(1, sizeof(*s));
	struct spot_header *copy;

	assert(s != NULL);
	s->h = h;
	s->arena = arena_new(0);
	s->at = &h->served;
	s->next = h->served;
	if (s->next != NULL) {
		s->next->at = &s->next;
	}
	h->served = s;
	h->stats.requests++;
	h->stats.open++;
	sbuf_init(&s->stream, REPLY_MAX);
	loop_timer_init(&s->gone, h->loop, net_served_gone);
	request_fill(s, f);
	copy = arena_array(s->arena, f->headers_n + 1, sizeof(*copy));
	for (size_t i = 0; i < f->headers_n; i++) {
		copy[i] = (struct spot_header){ arena_strdup(s->arena, f->headers[i].name),
			arena_strdup(s->arena, f->headers[i].value) };
	}
	s->pub.headers = copy;
	s->pub.body = arena_bytes(s->arena, f->body.p, f->body.n);
	if (heard) {
		s->flight = f;
		f->served = s;
	}
	world.messages++;
	net_fates.begins(f->url, f->body);
	h->conf.handle(h->conf.ctx, &s->pub);
	net_fates.ends();
}

static void request_serve(struct httpd *h, struct flight *f)
{
	trace("net %s -> %s %s", f->from, f->method, f->url);
	if (f->to == NULL) {
		request_handle(h, f, false);
		flight_end(f);
		return;
	}
	request_handle(h, f, true); /* f is there until the end of this turn */
	if (f->twice) {
		fault_seen("net_twice");
		sometimes("a message was served twice");
		request_handle(h, f, false);
	}
}

/* In a turn of the server: a paused one takes it when it goes on, whether somebody still waits or
 * not. */
static void request_taken(struct loop_timer *timer)
{
	struct flight *f = container_of(timer, struct flight, timer);

	request_serve(STEAL(f->server), f);
}

static void request_arrived(struct loop_timer *timer)
{
	struct flight *f = container_of(timer, struct flight, timer);
	struct httpd *h = server_at(f->port, f->from);

	if (is_blocked(f)) {
		f->swallowed = true;
		if (f->to == NULL) {
			flight_end(f);
		}
		return;
	}
	if (h == NULL) {
		net_break_up(f, "nobody listens");
		return;
	}
	if (h->loop == world.loop) {
		request_serve(h, f);
		return;
	}
	f->server = h;
	loop_timer_init(&f->timer, h->loop, request_taken);
	loop_timer_set(&f->timer, 0);
}

static void host_read(struct flight *f)
{
	size_t at;
	const char *end = after_host(f->url, &at), *colon;
	char *host = arena_strndup(f->arena, f->url + at, (size_t)(end - f->url) - at);

	f->host = host;
	colon = strrchr(host, ':');
	f->port = colon != NULL ? (int)strtol(colon + 1, NULL, 10) : 80;
}

static void headers_copy(struct flight *f, const struct flight_to *t)
{
	bool has_host = false;

	f->headers = arena_array(f->arena, t->headers_n + 2, sizeof(*f->headers));
	for (size_t i = 0; i < t->headers_n; i++) {
		f->headers[f->headers_n++] =
		    (struct spot_header){ arena_strdup(f->arena, t->headers[i].name),
			    arena_strdup(f->arena, t->headers[i].value) };
		has_host = has_host || strcasecmp(t->headers[i].name, "host") == 0;
	}
	if (!has_host) {
		f->headers[f->headers_n++] = (struct spot_header){ "Host", f->host };
	}
	f->headers[f->headers_n++] =
	    (struct spot_header){ "Content-Length", arena_printf(f->arena, "%zu", t->body.n) };
}

static struct flight *flight_new(const struct flight_to *t)
{
	struct flight *f = calloc(1, sizeof(*f));

	assert(f != NULL);
	f->arena = arena_new(0);
	f->at = &net_flights;
	f->next = net_flights;
	if (f->next != NULL) {
		f->next->at = &f->next;
	}
	net_flights = f;
	f->from = arena_strdup(f->arena, t->from);
	f->method = arena_strdup(f->arena, t->method);
	f->url = arena_strdup(f->arena, t->url);
	host_read(f);
	headers_copy(f, t);
	f->body = arena_bytes(f->arena, t->body.p, t->body.n);
	loop_timer_init(&f->timer, world.loop, request_arrived);
	loop_timer_init(&f->lines_timer, world.loop, lines_arrived);
	sbuf_init(&f->lines, REPLY_MAX);
	return f;
}

void net_again(const struct flight_to *t, int64_t us)
{
	loop_timer_set(&flight_new(t)->timer, us);
}

void flight_start(struct flight_to *t)
{
	struct flight *f = flight_new(t);

	net_fates.left(t);
	f->to = t;
	t->flight = f;
	t->status = 0;
	t->reset = t->sent = false;
	net_fates.drawn(f);
}
