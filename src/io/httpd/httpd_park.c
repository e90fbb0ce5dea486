/*
 * Parked requests. A long poll waits for most of its life, so it costs no more than its connection
 * and the record of its owner. The connection's timer tells the owner when the time is over.
 */
#include "base/base.h"
#include "io/httpd/httpd_priv.h"

void httpd_park(struct httpd_req *pub, struct httpd_parked *p, int64_t after_us)
{
	struct hreq *r = pub->priv;
	struct hconn *c = r->conn;

	assert(c != NULL && c->state == HCONN_BUSY && !r->head);
	c->req = NULL;
	r->conn = NULL;
	loop_bury(r->loop, r, hreq_free);
	c->state = HCONN_PARKED;
	c->parked = p;
	c->parked_keep = r->keep;
	p->conn = c;
	httpd_parked_set(p, after_us);
}

void httpd_parked_set(struct httpd_parked *p, int64_t after_us)
{
	p->until_us = loop_mono_us(p->conn->h->loop) + MAX(after_us, INT64_C(1));
	hconn_settle(p->conn);
}

struct httpd_req *httpd_unpark(struct httpd_parked *p)
{
	struct hconn *c = STEAL(p->conn);
	struct hreq *r = hreq_new(c);

	assert(c->state == HCONN_PARKED && c->parked == p);
	r->keep = c->parked_keep;
	c->req = r;
	c->parked = NULL;
	c->state = HCONN_BUSY;
	hconn_settle(c);
	return &r->pub;
}

void hconn_parked_due(struct hconn *c)
{
	c->parked->ops->due(c->parked);
}

void hconn_parked_gone(struct hconn *c)
{
	struct httpd_parked *p = STEAL(c->parked);

	if (p != NULL) {
		p->conn = NULL;
		p->ops->gone(p);
	}
}
