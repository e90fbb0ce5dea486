/*
 * A server's side of the network is io/httpd/httpd.h: the emulated clouds and the API serve as
 * they do over sockets.
 */
#include "base/base.h"
#include "sim/world/world.h"
#include "sim/net/net_priv.h"

static int port_next = 9100;

enum spot_rc httpd_new(struct loop *l, const struct httpd_conf *conf, struct httpd **ret,
    struct spot_err *err UNUSED)
{
	struct httpd *h = calloc(1, sizeof(*h));

	assert(h != NULL);
	h->loop = l;
	h->conf = *conf;
	h->port = conf->port != 0 ? conf->port : port_next++;
	h->next = net_servers;
	net_servers = h;
	*ret = h;
	return SPOT_OK;
}

/* As io/httpd/httpd_reply.c writes it: clouds tell their time, from which signers learn that their
 * own is wrong. */
static const char *date_of(const struct served *s, struct arena *a)
{
	time_t now = (time_t)(loop_wall_us(s->h->loop) / SPOT_US_PER_S);
	char text[64];
	struct tm tm;

	for (size_t i = 0; i < s->extra_n; i++) {
		if (strcasecmp(s->extra[i].name, "Date") == 0) {
			return NULL;
		}
	}
	strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
	return arena_strdup(a, text);
}

static void reply_send(struct served *s, int status, const char *type, const char *body, size_t n)
{
	struct flight *f = s->flight;
	const char *date;
	size_t k = 0;
	bool set;

	if (f == NULL) {
		return;
	}
	s->flight = NULL;
	f->served = NULL;
	f->status = status;
	if (f->lines.n > 0) { /* a stream ends behind its last lines */
		loop_timer_stop(&f->lines_timer);
		body = f->lines.p;
		n = f->lines.n;
	}
	f->reply = arena_bytes(f->arena, body, strcmp(f->method, "HEAD") == 0 ? 0 : n);
	f->reply_headers = arena_array(f->arena, s->extra_n + 3, sizeof(*f->reply_headers));
	date = date_of(s, f->arena);
	if (date != NULL) {
		f->reply_headers[k++] = (struct spot_header){ "Date", date };
	}
	if (type != NULL) {
		f->reply_headers[k++] =
		    (struct spot_header){ "Content-Type", arena_strdup(f->arena, type) };
	}
	for (size_t i = 0; i < s->extra_n; i++) {
		f->reply_headers[k++] =
		    (struct spot_header){ arena_strdup(f->arena, s->extra[i].name),
			    arena_strdup(f->arena, s->extra[i].value) };
	}
	f->reply_headers_n = k;
	trace("net %s .. %s %s %d", f->from, f->method, f->url, status);
	set = act_is_set(f->url, f->body);
	if (DICE(net_reply_lost) || f->unheard || (set && DICE(set_lost))) {
		fault_seen(set ? "set_lost" : "net_reply_lost");
		if (set) {
			sometimes("a set launch lost its reply");
		}
		net_break_up(f, "reply lost");
		return;
	}
	net_travel_back(f, dice_us(150, 3000));
}

void httpd_free(struct httpd *h)
{
	if (h == NULL) {
		return;
	}
	for (struct httpd **p = &net_servers; *p != NULL; p = &(*p)->next) {
		if (*p == h) {
			*p = h->next;
			break;
		}
	}
	for (struct flight *f = net_flights, *next; f != NULL; f = next) {
		next = f->next;
		if (f->server == h) {
			f->server = NULL;
			loop_timer_stop(&f->timer);
			net_break_up(f, "the server died");
		}
	}
	while (h->served != NULL) {
		struct served *s = h->served;
		struct flight *f = s->flight;

		if (f != NULL) {
			f->served = NULL;
			net_break_up(f, "the server died");
		}
		s->flight = NULL;
		if (s->pub.gone != NULL) {
			net_served_gone(&s->gone);
		} else {
			net_served_done(s);
		}
	}
	loop_bury(h->loop, h, free);
}

int httpd_port(const struct httpd *h)
{
	return h->port;
}

void httpd_drain(struct httpd *h)
{
	h->draining = true;
}

enum spot_rc httpd_reload_tls(struct httpd *h UNUSED, struct spot_err *err)
{
	return err_set(err, SPOT_CONFIG, "there is no TLS inside of the simulation");
}

struct httpd_stats httpd_stats(const struct httpd *h)
{
	return h->stats;
}

void httpd_set(struct httpd_req *r, const char *name, const char *value)
{
	struct served *s = r->priv;

	s->extra = arena_grow(s->arena, s->extra, s->extra_n, &s->extra_cap, sizeof(*s->extra));
	s->extra[s->extra_n++] =
	    (struct spot_header){ arena_strdup(s->arena, name), arena_strdup(s->arena, value) };
}

void httpd_reply(struct httpd_req *r, int status, const char *type, const char *body, size_t n)
{
	struct served *s = r->priv;

	reply_send(s, status, type, body, n);
	net_served_done(s);
}

bool httpd_alive(const struct httpd_req *r)
{
	const struct served *s = r->priv;

	return s->flight != NULL;
}

void httpd_abort(struct httpd_req *r)
{
	struct served *s = r->priv;
	struct flight *f = s->flight;

	s->flight = NULL;
	if (f != NULL) {
		f->served = NULL;
		net_break_up(f, "closed by the server");
	}
	net_served_done(s);
}

/* The request stays whole here, and p->conn points to it. */
static struct served *served_of(struct httpd_parked *p)
{
	return (struct served *)(void *)p->conn;
}

static void parked_due(struct loop_timer *t)
{
	struct served *s = container_of(t, struct served, due);

	s->parked->ops->due(s->parked);
}

static void parked_gone(struct httpd_req *r)
{
	struct served *s = r->priv;
	struct httpd_parked *p = STEAL(s->parked);

	loop_timer_stop(&s->due);
	p->conn = NULL;
	p->ops->gone(p);
}

void httpd_park(struct httpd_req *r, struct httpd_parked *p, int64_t after_us)
{
	struct served *s = r->priv;

	s->parked = p;
	p->conn = (struct hconn *)(void *)s;
	r->gone = parked_gone;
	loop_timer_init(&s->due, s->h->loop, parked_due);
	httpd_parked_set(p, after_us);
}

void httpd_parked_set(struct httpd_parked *p, int64_t after_us)
{
	loop_timer_set(&served_of(p)->due, after_us);
}

struct httpd_req *httpd_unpark(struct httpd_parked *p)
{
	struct served *s = served_of(p);

	loop_timer_stop(&s->due);
	s->parked = NULL;
	p->conn = NULL;
	s->pub.gone = NULL;
	return &s->pub;
}

void httpd_stream_begin(struct httpd_req *r, int status, const char *type)
{
	struct served *s = r->priv;

	s->streaming = true;
	s->status = status;
	if (s->flight == NULL) { /* a request that came twice: nobody reads the second reply */
		loop_timer_set(&s->gone, 0);
	}
	if (type != NULL) {
		httpd_set(r, "Content-Type", type);
	}
}

bool httpd_stream_write(struct httpd_req *r, const char *p, size_t n)
{
	struct served *s = r->priv;

	if (s->flight == NULL) {
		return false;
	}
	if (s->flight->to->streamed != NULL) {
		net_stream(s, p, n);
	} else {
		sbuf_add(&s->stream, p, n);
	}
	return true;
}

size_t httpd_stream_queued(const struct httpd_req *r UNUSED)
{
	return 0;
}

void httpd_stream_end(struct httpd_req *r)
{
	struct served *s = r->priv;

	reply_send(s, s->status, NULL, s->stream.p, s->stream.n);
	net_served_done(s);
}
