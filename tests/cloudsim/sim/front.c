/* Classification, counting, faults, sending. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

#define OBJECT_BODY_MAX ((size_t)80 << 20) /* agents send chunks of 64 MiB */

size_t front_body_max(void *ctx, const char *method, const char *path)
{
	(void)ctx;
	(void)method;
	return str_prefix(path, "/api/") || str_same(path, "/") ? (size_t)2 << 20 : OBJECT_BODY_MAX;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void send_reply(struct sim_req *rq, const struct sim_reply *rep)
{
	size_t n = rep->head_n ? rep->head_n : rep->body.n;

	for (size_t k = 0; k < rep->headers_n; k++) {
		httpd_set(rq->http, rep->headers[k].name, rep->headers[k].value);
	}
	if (rq->id_header) {
		httpd_set(rq->http, rq->id_header, rq->request_id);
	}
	if (rq->skew_us) {
		char date[64];

		sim_http_date(sim_wall(rq->sim) + rq->skew_us, date);
		httpd_set(rq->http, "Date", date);
	}
	httpd_reply(rq->http, rep->status, rep->type, rep->body.p, n);
}

/* Head and half of the body, then the connection is cut. */
static void send_truncated(struct sim_req *rq, const struct sim_reply *rep)
{
	for (size_t k = 0; k < rep->headers_n; k++) {
		httpd_set(rq->http, rep->headers[k].name, rep->headers[k].value);
	}
	httpd_stream_begin(rq->http, rep->status, rep->type);
	if (rep->body.n > 1) {
		httpd_stream_write(rq->http, rep->body.p, rep->body.n / 2);
	}
	httpd_abort(rq->http);
}

static void reply_malform(struct sim_req *rq, struct sim_reply *rep)
{
	char *text = arena_strndup(rq->arena, rep->body.p ? rep->body.p : "", rep->body.n);
	size_t n = rep->body.n;

	/* A document that starts well and does not parse. */
	n = n / 2;
	text = arena_printf(rq->arena, "%.*s<\x01{\"&&", (int)n, text);
	rep->body = (struct str){ text, strlen(text) };
}

static void hang_gone(struct httpd_req *r)
{
	(void)r; /* parked until the client gave up */
}

static void request_serve(struct sim_req *rq, struct sim_reply *rep)
{
	cloud_ops(rq->cloud)->serve(rq, rep);
}

static void fault_finish(struct sim_req *rq, const struct fault *f, enum fault_kind kind)
{
	struct sim_reply rep = { .status = 500 }, again = { .status = 500 };

	rq->sim->pretend = kind == FAULT_PRETEND;
	request_serve(rq, &rep);
	if (kind == FAULT_PRETEND) {
		insts_pretended(rq->sim);
	}
	if (kind == FAULT_DUPLICATE) {
		request_serve(rq, &again);
		rep = again;
	}
	books_request(rq->sim, rq->service, rq->action, rep.code, rep.parked ? 0 : rep.status);
	if (rep.parked && kind != FAULT_RESET_AFTER) {
		return;
	}
	if (kind == FAULT_STATUS) {
		rep = (struct sim_reply){ 0 };
		reply_fail(rq, &rep, f->status, f->code ? f->code : "InternalError", "%s",
		    f->message ? f->message : "An internal error has occurred");
	}
	if (kind == FAULT_MALFORM) {
		reply_malform(rq, &rep);
	}
	if (kind == FAULT_TRUNCATE) {
		send_truncated(rq, &rep);
	} else if (kind == FAULT_RESET_AFTER) {
		httpd_abort(rq->http);
	} else if (kind == FAULT_HANG) {
		rq->http->gone = hang_gone;
	} else {
		send_reply(rq, &rep);
	}
}

/* ---- delayed requests ------------------------------------------------------------------------ */

struct delayed {
	struct sim_req rq;
	struct loop_timer timer;
	struct sim_reply rep;
	bool served;
};

static void delayed_due(struct loop_timer *t)
{
	struct delayed *d = container_of(t, struct delayed, timer);

	d->rq.http->gone = NULL;
	if (d->served) {
		send_reply(&d->rq, &d->rep);
	} else {
		fault_finish(&d->rq, NULL, FAULT_NONE);
	}
}

static void delayed_gone(struct httpd_req *r)
{
	struct delayed *d = r->user;

	loop_timer_stop(&d->timer);
}

static void reply_delay(struct sim_req *rq, const struct fault *f)
{
	struct delayed *d = arena_alloc(rq->arena, sizeof(*d));

	d->rq = *rq;
	if (f->after) {
		request_serve(&d->rq, &d->rep);
		books_request(rq->sim, rq->service, rq->action, d->rep.code, d->rep.status);
		d->served = true;
		if (d->rep.parked) {
			return;
		}
	}
	rq->http->user = d;
	rq->http->gone = delayed_gone;
	loop_timer_init(&d->timer, rq->sim->loop, delayed_due);
	loop_timer_set(&d->timer, MAX(f->us, 1));
}

static void run_fault(struct sim_req *rq, const struct fault *f)
{
	struct sim_reply rep = { 0 };

	books_request(rq->sim, "fault", rq->action, NULL, 0);
	switch (f->kind) {
	case FAULT_DELAY:
		reply_delay(rq, f);
		return;
	case FAULT_HANG:
		if (f->after) {
			fault_finish(rq, f, FAULT_HANG);
		} else {
			rq->http->gone = hang_gone;
		}
		return;
	case FAULT_RESET_BEFORE:
		httpd_abort(rq->http);
		return;
	case FAULT_STATUS:
		if (f->after) {
			fault_finish(rq, f, FAULT_STATUS);
			return;
		}
		if (f->body) {
			reply_set(&rep, f->status, "text/html", f->body, strlen(f->body));
		} else {
			reply_fail(rq, &rep, f->status,
			    f->code                ? f->code
				: f->status == 429 ? "TooManyRequestsException"
						   : "InternalError",
			    "%s", f->message ? f->message : "An internal error has occurred");
		}
		send_reply(rq, &rep);
		return;
	case FAULT_EXPIRED:
		rq->expire = true;
		fault_finish(rq, f, FAULT_NONE);
		return;
	case FAULT_SKEW:
		rq->skew_us = f->us;
		fault_finish(rq, f, FAULT_NONE);
		return;
	case FAULT_RESET_AFTER:
	case FAULT_TRUNCATE:
	case FAULT_MALFORM:
	case FAULT_DUPLICATE:
	case FAULT_PRETEND:
	case FAULT_NONE:
		fault_finish(rq, f, f->kind);
		return;
	}
}

void front_handle(void *ctx, struct httpd_req *r)
{
	struct front_port *port = ctx;
	struct sim *s = port->sim;
	struct sim_req *rq = arena_alloc(r->arena, sizeof(*rq));
	char id[33];
	const struct fault *f;

	rng_hex(&s->rng, id, 16);
	*rq = (struct sim_req){ .sim = s, .http = r, .arena = r->arena };
	rq->request_id = arena_printf(r->arena, "%.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8, id + 12,
	    id + 16, id + 20);
	rq->cloud = port->cloud != CLOUD_NONE ? port->cloud : cloud_shared(r->path);
	rq->port = port;
	cloud_ops(rq->cloud)->classify(rq);
	f = fault_match(s, rq);
	if (f) {
		run_fault(rq, f);
	} else {
		fault_finish(rq, NULL, FAULT_NONE);
	}
}
