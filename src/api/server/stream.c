/*
 * Events: a JSON list, and a stream of server-sent events. The hub reads the event table once for
 * all live readers, in the order of ids. It reads at each notification, and once a second in case
 * one was lost. Ids are assigned before their transactions commit, so a later id may appear first.
 * The hub waits GAP_US at a gap before it treats the id as unused. A reader with Last-Event-ID
 * first catches up by its own reads, then joins the live ones. A reader that lags more than the
 * server's limit is cut and resumes where it was.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#define BATCH 500
#define POLL_US SPOT_US_PER_S
#define SOON_US (20 * 1000)
#define GAP_US SPOT_US_PER_S
#define PING_US (15 * SPOT_US_PER_S)

struct reader {
	struct reader *prev, *next;
	struct areq *q;
	int64_t at; /* last id sent */
	bool live, has_job, has_node;
	int64_t job, node;
	int64_t spoke_us;
};

struct stream_hub {
	struct api *api;
	struct reader *readers;
	size_t n;
	struct pg_req req;
	struct loop_timer timer;
	/* everything up to here was given to live readers; -1 = not known yet */
	int64_t tail;
	int64_t gap_us; /* mono since when the id behind tail is missing; 0 = it is not */
	bool busy, again;
};

/* ---- readers --------------------------------------------------------------------------------- */

static void reader_remove(struct stream_hub *h, struct reader *r)
{
	if (r->prev) {
		r->prev->next = r->next;
	} else if (h->readers == r) {
		h->readers = r->next;
	} else {
		return;
	}
	if (r->next) {
		r->next->prev = r->prev;
	}
	r->prev = r->next = NULL;
	h->n--;
}

static void reader_gone(struct httpd_req *req)
{
	struct areq *q = req->user;

	reader_remove(q->api->hub, q->own);
	areq_end(q);
}

/* False: the reader is lost; it is told by reader_gone. */
static bool reader_write(struct reader *r, const char *text, size_t n)
{
	r->spoke_us = loop_mono_us(r->q->api->loop);
	return httpd_stream_write(r->q->http, text, n);
}

static bool reader_event(struct reader *r, const struct q_api_event_row *e, const char *text,
    size_t n)
{
	r->at = e->id;
	if ((r->has_job && (!e->has_job_id || e->job_id != r->job)) ||
	    (r->has_node && (!e->has_node_id || e->node_id != r->node))) {
		return true;
	}
	return reader_write(r, text, n);
}

/* Writes one event into the buffer, in the form of a stream. */
static void event_put(struct sbuf *b, const struct q_api_event_row *e, const struct pg_result *r,
    size_t at, int64_t now_us)
{
	sbuf_reset(b);
	sbuf_printf(b, "id: %" PRId64 "\nevent: %s\ndata: {", e->id, e->entity);
	shape_put(b, &q_shape_api_events_after, r, at, now_us);
	sbuf_puts(b, "}\n\n");
}

/* ---- catching up ----------------------------------------------------------------------------- */

static void catch_up(struct areq *q);

static void reader_end(struct areq *q)
{
	reader_remove(q->api->hub, q->own);
	q->http->gone = NULL;
	httpd_stream_end(q->http);
	areq_end(q);
}

/* The database is away: the client connects again and resumes. */
static bool catch_failed(struct areq *q)
{
	reader_end(q);
	return true;
}

static void catch_up_read(struct areq *q)
{
	struct reader *r = q->own;
	struct stream_hub *h = q->api->hub;
	struct q_api_event_row *rows;
	struct arena *a = arena_new(0);
	size_t n = q_api_events_after_rows(&q->pg, a, &rows);
	bool full = n == BATCH, ok = httpd_alive(q->http) && !q->api->draining;
	AUTO(sbuf) struct sbuf b;

	sbuf_init(&b, 0);
	for (size_t i = 0; i < n && ok && rows[i].id <= h->tail; i++) {
		event_put(&b, &rows[i], q->pg.result, i, q->now_us);
		ok = reader_event(r, &rows[i], b.p, b.n);
	}
	arena_free(a);
	pg_req_fini(&q->pg);
	if (!ok) {
		/* nobody listens any more, and no callback was set while the statement ran */
		reader_end(q);
		return;
	}
	if (full && r->at < h->tail) {
		catch_up(q);
		return;
	}
	r->at = MAX(r->at, h->tail);
	r->live = true;
	q->http->gone = reader_gone;
}

static void catch_up(struct areq *q)
{
	struct reader *r = q->own;

	q->http->gone = NULL;
	SQL(q, api_events_after, catch_up_read, .after_id = r->at, .most = BATCH);
	q->failed = catch_failed;
}

/* ---- the hub --------------------------------------------------------------------------------- */

static void hub_read(struct stream_hub *h);

static void hub_arm(struct stream_hub *h, int64_t us)
{
	if (h->n > 0) {
		loop_timer_set(&h->timer, us);
	}
}

/* How many of the rows may be given out: up to a gap that is younger than GAP_US. */
static size_t in_order(struct stream_hub *h, const struct q_api_event_row *rows, size_t n)
{
	int64_t now = loop_mono_us(h->api->loop), expect = h->tail + 1;

	for (size_t i = 0; i < n; i++, expect++) {
		if (rows[i].id == expect) {
			continue;
		}
		if (i > 0) {
			h->gap_us = 0; /* another gap than the one that was waited for */
		}
		if (!h->gap_us) {
			h->gap_us = now;
		}
		if (now - h->gap_us < GAP_US) {
			return i;
		}
		h->gap_us = 0;
		expect = rows[i].id;
	}
	h->gap_us = 0;
	return n;
}

static void hub_give(struct stream_hub *h, const struct q_api_event_row *e, const char *text,
    size_t n)
{
	struct reader *next;

	h->tail = e->id;
	for (struct reader *r = h->readers; r; r = next) {
		next = r->next;
		if (r->live && r->at < e->id && httpd_alive(r->q->http)) {
			reader_event(r, e, text, n);
		}
	}
}

static void hub_ping(struct stream_hub *h)
{
	int64_t now = loop_mono_us(h->api->loop);
	struct reader *next;

	for (struct reader *r = h->readers; r; r = next) {
		next = r->next;
		if (r->live && now - r->spoke_us >= PING_US) {
			reader_write(r, ": still here\n\n", 14);
		}
	}
}

static void hub_done(struct op *op)
{
	struct stream_hub *h = container_of(op, struct stream_hub, req.op);
	int64_t now_us = loop_wall_us(h->api->loop);
	struct arena *a = arena_new(0);
	struct q_api_event_row *rows;
	size_t n = 0, give = 0;
	AUTO(sbuf) struct sbuf b;

	sbuf_init(&b, 0);
	h->busy = false;
	if (op->rc == SPOT_OK) {
		n = q_api_events_after_rows(&h->req, a, &rows);
		give = in_order(h, rows, n);
		for (size_t i = 0; i < give; i++) {
			event_put(&b, &rows[i], h->req.result, i, now_us);
			hub_give(h, &rows[i], b.p, b.n);
		}
	}
	pg_req_fini(&h->req);
	arena_free(a);
	hub_ping(h);
	if (n == BATCH && give == n) {
		hub_arm(h, 0);
	} else {
		hub_arm(h, h->again || give < n ? SOON_US : POLL_US);
	}
	h->again = false;
}

static void tail_done(struct op *op)
{
	struct stream_hub *h = container_of(op, struct stream_hub, req.op);
	struct arena *a = arena_new(0);
	struct q_api_events_tail_row *row;
	struct reader *next;

	h->busy = false;
	if (op->rc == SPOT_OK && q_api_events_tail_rows(&h->req, a, &row) == 1) {
		h->tail = row->id;
	}
	pg_req_fini(&h->req);
	arena_free(a);
	if (h->tail < 0) {
		hub_arm(h, POLL_US);
		return;
	}
	/* the readers that came before the tail was known */
	for (struct reader *r = h->readers; r; r = next) {
		next = r->next;
		if (r->live) {
			continue;
		}
		if (r->at < 0) {
			r->at = h->tail;
		}
		catch_up(r->q);
	}
	hub_arm(h, POLL_US);
}

static void hub_read(struct stream_hub *h)
{
	if (h->busy) {
		h->again = true;
		return;
	}
	h->busy = true;
	if (h->tail < 0) {
		q_api_events_tail(h->api->pg, &h->req,
		    &(struct q_api_events_tail){
			.before_us = loop_wall_us(h->api->loop) - 2 * GAP_US },
		    tail_done);
	} else {
		q_api_events_after(h->api->pg, &h->req,
		    &(struct q_api_events_after){ .after_id = h->tail, .most = BATCH }, hub_done);
	}
}

static void timer_fire(struct loop_timer *t)
{
	hub_read(container_of(t, struct stream_hub, timer));
}

void hub_poke(struct stream_hub *h)
{
	if (h->n == 0) {
		return;
	}
	if (h->busy) {
		h->again = true;
	} else {
		loop_timer_set(&h->timer, SOON_US);
	}
}

struct stream_hub *hub_new(struct api *api)
{
	struct stream_hub *h = arena_alloc(api->arena, sizeof(*h));

	h->api = api;
	h->tail = -1;
	loop_timer_init(&h->timer, api->loop, timer_fire);
	return h;
}

void hub_free(struct stream_hub *h)
{
	loop_timer_stop(&h->timer);
	pg_req_fini(&h->req);
	h->readers = NULL;
	h->n = 0;
}

/* Readers are told by the end of their stream and connect to another daemon. */
void hub_drain(struct stream_hub *h)
{
	struct reader *next;

	for (struct reader *r = h->readers; r; r = next) {
		next = r->next;
		if (r->live) {
			reader_end(r->q);
		}
	}
}

size_t hub_readers(const struct stream_hub *h)
{
	return h->n;
}

/* ---- the route ------------------------------------------------------------------------------- */

static void stream_open(struct areq *q, struct reader *r)
{
	struct stream_hub *h = q->api->hub;

	r->q = q;
	r->next = h->readers;
	if (r->next) {
		r->next->prev = r;
	}
	h->readers = r;
	/* The first reader after a while without: the tail is old, and nobody waits for it. */
	if (h->n++ == 0 && !h->busy) {
		h->tail = -1;
		h->gap_us = 0;
	}
	q->own = r;
	q->http->user = q;
	served_count(q, 200);
	httpd_set(q->http, "X-Accel-Buffering", "no");
	httpd_stream_begin(q->http, 200, "text/event-stream");
	reader_write(r, ": events of the broker\nretry: 1000\n\n", 36);
	if (h->tail < 0) {
		hub_read(h);
		return;
	}
	if (r->at < 0) {
		r->at = h->tail;
	}
	catch_up(q);
	hub_poke(h);
}

static void events_done(struct areq *q)
{
	struct q_api_event_row *rows;
	size_t n = q_api_events_rows(&q->pg, q->arena, &rows);

	areq_list_rows(q, &q_shape_api_events_after, n,
	    n > 0 ? arena_printf(q->arena, "%" PRId64, rows[n - 1].id) : NULL, NULL);
}

void get_events(struct areq *q)
{
	const char *accept = httpd_header(q->http, "accept"),
		   *last = httpd_header(q->http, "last-event-id");
	struct reader *r = arena_alloc(q->arena, sizeof(*r));
	int64_t after, limit;

	if (!areq_query_i64(q, "after", 0, INT64_MAX / 2, -1, &after) ||
	    !areq_query_i64(q, "limit", 1, 1000, 100, &limit) ||
	    !areq_query_id(q, "job", 'j', &r->has_job, &r->job) ||
	    !areq_query_id(q, "node", 'n', &r->has_node, &r->node)) {
		return;
	}
	if (!accept || !strstr(accept, "text/event-stream")) {
		SQL(q, api_events, events_done, .has_after_id = after >= 0, .after_id = after,
		    .has_job_id = r->has_job, .job_id = r->job, .has_node_id = r->has_node,
		    .node_id = r->node, .most = (int32_t)limit);
		return;
	}
	r->at = after;
	if (last && !parse_i64(last, 0, INT64_MAX / 2, &r->at)) {
		areq_fail_field(q, "Last-Event-ID", "must be the id of an event");
		return;
	}
	stream_open(q, r);
}
