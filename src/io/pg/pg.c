#include "base/base.h"
#include "io/pg/pg_priv.h"

static void *pg_alloc(size_t n)
{
	void *p = calloc(1, n);

	assert(p != NULL);
	return p;
}

void pg_list_push(struct pg_list *l, struct pg_item *i)
{
	i->next = NULL;
	i->prev = l->tail;
	if (l->tail != NULL) {
		l->tail->next = i;
	} else {
		l->head = i;
	}
	l->tail = i;
	l->n++;
}

void pg_list_remove(struct pg_list *l, struct pg_item *i)
{
	if (i->prev != NULL) {
		i->prev->next = i->next;
	} else {
		l->head = i->next;
	}
	if (i->next != NULL) {
		i->next->prev = i->prev;
	} else {
		l->tail = i->prev;
	}
	i->next = i->prev = NULL;
	l->n--;
}

void pg_item_free(struct pg_item *i)
{
	PQclear(i->res);
	free(i->mem);
	free(i);
}

static void result_free(struct pg_result **r)
{
	if (*r != NULL) {
		PQclear((*r)->res);
	}
	free(*r);
	*r = NULL;
}

void pg_item_finish(struct pg *p, struct pg_item *i, enum spot_rc rc)
{
	struct pg_result **ret = i->req != NULL ? &i->req->result
	    : i->copy != NULL                   ? &i->copy->result
						: NULL;

	p->stats.statements++;
	p->stats.failed += rc != SPOT_OK;
	if (i->op != NULL) {
		if (rc == SPOT_OK && i->res != NULL) {
			*ret = pg_alloc(sizeof(**ret));
			(*ret)->res = STEAL(i->res);
		}
		if (i->req != NULL) {
			i->req->item = NULL;
		} else {
			i->copy->item = NULL;
		}
		op_finish(i->op, rc, rc == SPOT_OK ? NULL : &i->err);
	}
	pg_item_free(i);
}

int64_t pg_deadline_us(const struct pg *p)
{
	return p->statement_timeout_us + PG_GRACE_US;
}

/* ---- queue ----------------------------------------------------------------------------------- */

/* Estimates the wait of a new item: statements in flight, and the silence so far. A statement that
 * waits for a lock may block the connection until the statement timeout. */
static int64_t conn_cost(const struct pg_conn *c, int64_t now)
{
	return c->inflight.n + (c->busy_us > 0 ? (now - c->busy_us) / PG_SLOW_US : 0);
}

static struct pg_conn *conn_least_busy(struct pg *p, enum pg_lane lane)
{
	int64_t now = loop_mono_us(p->loop);
	struct pg_conn *best = NULL;

	for (int i = 0; i < p->conns_n; i++) {
		struct pg_conn *c = &p->conns[i];

		if (c->lane == lane && pg_conn_takes(c) &&
		    (best == NULL || conn_cost(c, now) < conn_cost(best, now))) {
			best = c;
		}
	}
	return best;
}

/* The connections that statements of a lane use. */
static enum pg_lane lane_used(const struct pg *p, enum pg_lane lane)
{
	return p->lane_n[lane] > 0 ? lane : PG_QUICK;
}

/* Gives each copy a connection of its own: reserves the least busy one, and lends it once inflight
 * is empty. Copies use at most half of the lane's connections, so that statements keep flowing. */
static void copies_dispatch(struct pg *p)
{
	enum pg_lane lane = lane_used(p, PG_LONG);
	int lent = 0, lent_max = MAX(1, p->lane_n[lane] / 2);

	for (int i = 0; i < p->conns_n; i++) {
		struct pg_conn *c = &p->conns[i];

		if (c->state == PG_CONN_READY && c->reserved && c->inflight.n == 0) {
			struct pg_item *item = p->copies.head;

			c->reserved = false;
			if (item != NULL) {
				pg_list_remove(&p->copies, item);
				pg_copy_start(c, item);
			}
		}
		lent += c->state == PG_CONN_COPY || c->reserved;
	}
	for (int waiting = p->copies.n; waiting > 0 && lent < lent_max; waiting--, lent++) {
		struct pg_conn *c = conn_least_busy(p, lane);
		struct pg_item *item = p->copies.head;

		if (c == NULL) {
			return;
		}
		if (c->inflight.n > 0) {
			c->reserved = true;
			continue;
		}
		pg_list_remove(&p->copies, item);
		pg_copy_start(c, item);
	}
}

static void lane_dispatch(struct pg *p, enum pg_lane lane)
{
	struct pg_list *queue = &p->queues[lane];

	while (queue->head != NULL) {
		struct pg_item *item = queue->head;
		struct pg_conn *c = conn_least_busy(p, lane);

		if (c == NULL) {
			return;
		}
		pg_list_remove(queue, item);
		pg_conn_send(c, item);
	}
}

static void items_dispatch(struct loop_task *t)
{
	struct pg *p = container_of(t, struct pg, dispatch);

	copies_dispatch(p);
	for (enum pg_lane lane = 0; lane < PG_LANES; lane++) {
		lane_dispatch(p, lane);
	}
	for (int i = 0; i < p->conns_n; i++) {
		if (p->conns[i].dirty) {
			pg_conn_flush(&p->conns[i]);
		}
	}
}

bool pg_waiting(const struct pg *p)
{
	bool waiting = p->copies.n > 0;

	for (enum pg_lane lane = 0; lane < PG_LANES; lane++) {
		waiting = waiting || p->queues[lane].n > 0;
	}
	return waiting;
}

void pg_dispatch_soon(struct pg *p)
{
	if (!p->dispatch.queued && !p->freeing) {
		loop_defer(p->loop, &p->dispatch, items_dispatch);
	}
}

/* Sets the result of an expired deadline for an item that was not sent, and so had no effect. */
static void op_no_effect(const struct pg *p, struct op *op)
{
	op->timeout_rc = p->stats.up > 0 ? SPOT_TIMEOUT : SPOT_UNAVAILABLE;
}

static void exec_abort(struct op *op)
{
	struct pg_req *req = container_of(op, struct pg_req, op);
	struct pg_item *i = STEAL(req->item);

	if (i == NULL) {
		return;
	}
	i->op = NULL;
	i->req = NULL;
	if (i->conn == NULL) {
		op_no_effect(req->pg, op);
		pg_list_remove(&req->pg->queues[i->lane], i);
		pg_item_free(i);
	}
}

static void params_copy(struct pg_item *i, const struct pg_param *params, size_t n)
{
	size_t bytes = 0;
	char *p;

	for (size_t k = 0; k < n; k++) {
		bytes += params[k].p == NULL ? 0 : (size_t)params[k].n + 1;
	}
	i->mem = pg_alloc(n * (sizeof(char *) + 2 * sizeof(int)) + bytes + 1);
	i->values = (const char **)(void *)i->mem;
	i->lengths = (int *)(void *)(i->mem + n * sizeof(char *));
	i->formats = i->lengths + n;
	p = (char *)(i->formats + n);
	for (size_t k = 0; k < n; k++) {
		i->lengths[k] = params[k].n;
		i->formats[k] = params[k].binary;
		if (params[k].p == NULL) {
			continue;
		}
		memcpy(p, params[k].p, (size_t)params[k].n);
		i->values[k] = p; /* calloc leaves a NUL after it, for the text format */
		p += params[k].n + 1;
	}
}

void pg_exec(struct pg *p, struct pg_req *req, const struct pg_stmt *stmt,
    const struct pg_param *params, void (*done)(struct op *))
{
	struct spot_err err = { 0 };
	struct pg_item *i = pg_alloc(sizeof(*i));
	struct pg_list *queue;

	/* Copy first: parameters may point into the last result or error of the request. */
	params_copy(i, params, (size_t)stmt->params_n);
	result_free(&req->result);
	op_init(&req->op, p->loop, done);
	req->stmt = stmt;
	req->pg = p;
	req->item = NULL;
	op_begin(&req->op, stmt->name, pg_deadline_us(p),
	    stmt->writes ? SPOT_UNKNOWN : SPOT_TIMEOUT, exec_abort);
	i->lane = lane_used(p, stmt->lane);
	queue = &p->queues[i->lane];
	if (queue->n >= PG_QUEUE_MAX) {
		pg_item_free(i);
		p->stats.failed++;
		op_finish(&req->op,
		    err_set(&err, SPOT_UNAVAILABLE,
			"%s: %d statements already wait for the database", stmt->name, queue->n),
		    &err);
		return;
	}
	i->op = &req->op;
	i->req = req;
	i->stmt = stmt;
	req->item = i;
	pg_list_push(queue, i);
	pg_dispatch_soon(p);
}

void pg_req_fini(struct pg_req *req)
{
	if (req->item != NULL || (req->op.loop != NULL && op_busy(&req->op))) {
		op_fini(&req->op);
	}
	result_free(&req->result);
}

/* ---- copy: the side of the request; pg_copy.c has the side of the wire ----------------------- */

static void copy_abort(struct op *op)
{
	struct pg_copy *c = container_of(op, struct pg_copy, op);
	struct pg_item *i = STEAL(c->item);

	if (i == NULL) {
		return;
	}
	i->op = NULL;
	i->copy = NULL;
	if (i->conn == NULL) {
		op_no_effect(c->pg, op);
		pg_list_remove(&c->pg->copies, i);
		pg_item_free(i);
		return;
	}
	/* The request owns the rows, so the transfer ends with it; the server rolls back. */
	op->timeout_rc = i->commit_sent ? SPOT_UNKNOWN : SPOT_TIMEOUT;
	pg_conn_lost(i->conn, "a COPY was stopped or passed its deadline");
}

void pg_copy_send(struct pg *p, struct pg_copy *c, const char *setup_sql, const char *copy_sql,
    const struct pg_stmt *merge, void (*done)(struct op *))
{
	struct spot_err err = { 0 };
	struct pg_item *i;

	assert(c->buf != NULL && copy_sql != NULL);
	assert(merge == NULL || merge->params_n == 0);
	result_free(&c->result);
	op_init(&c->op, p->loop, done);
	c->pg = p;
	c->item = NULL;
	/* Three statements share the deadline: setup with COPY, merge, commit. */
	op_begin(&c->op, merge != NULL ? merge->name : "copy", 3 * pg_deadline_us(p), SPOT_UNKNOWN,
	    copy_abort);
	if (c->overflow) {
		op_finish(&c->op,
		    err_set(&err, SPOT_TOO_LARGE, "COPY of more than %zu bytes", c->max), &err);
		return;
	}
	if (p->copies.n >= PG_QUEUE_MAX) {
		op_finish(&c->op,
		    err_set(&err, SPOT_UNAVAILABLE, "%d COPY already wait for the database",
			p->copies.n),
		    &err);
		return;
	}
	i = pg_alloc(sizeof(*i));
	i->op = &c->op;
	i->copy = c;
	i->stmt = merge;
	i->mem = pg_alloc(64 + (setup_sql == NULL ? 0 : strlen(setup_sql)) + strlen(copy_sql));
	(void)snprintf(i->mem, 64 + (setup_sql == NULL ? 0 : strlen(setup_sql)) + strlen(copy_sql),
	    "BEGIN; %s; %s", setup_sql == NULL ? "" : setup_sql, copy_sql);
	c->item = i;
	pg_list_push(&p->copies, i);
	pg_dispatch_soon(p);
}

void pg_copy_fini(struct pg_copy *c)
{
	if (c->item != NULL || (c->op.loop != NULL && op_busy(&c->op))) {
		op_fini(&c->op);
	}
	result_free(&c->result);
	free(c->buf);
	c->buf = NULL;
	c->n = c->cap = 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The quick ones keep one connection in any case. */
static void lanes_divide(struct pg *p, const struct pg_conf *conf)
{
	int more = conf->long_connections + conf->agent_connections, i = 0;

	if (more < p->conns_n) {
		p->lane_n[PG_LONG] = conf->long_connections;
		p->lane_n[PG_AGENT] = conf->agent_connections;
	}
	p->lane_n[PG_QUICK] = p->conns_n - p->lane_n[PG_LONG] - p->lane_n[PG_AGENT];
	for (enum pg_lane lane = 0; lane < PG_LANES; lane++) {
		for (int k = 0; k < p->lane_n[lane]; k++, i++) {
			pg_conn_init(&p->conns[i], p, i, false);
			p->conns[i].lane = lane;
		}
	}
}

struct pg *pg_new(struct loop *l, const struct pg_conf *conf)
{
	struct pg *p = pg_alloc(sizeof(*p));

	p->loop = l;
	p->dsn = strdup(conf->dsn);
	p->application = strdup(conf->application == NULL ? "spotbroker" : conf->application);
	assert(p->dsn != NULL && p->application != NULL);
	p->statement_timeout_us =
	    conf->statement_timeout_us > 0 ? conf->statement_timeout_us : 30 * SPOT_US_PER_S;
	p->conns_n = conf->connections > 0 ? conf->connections : 8;
	p->conns = pg_alloc((size_t)p->conns_n * sizeof(*p->conns));
	lanes_divide(p, conf);
	return p;
}

static void list_cancel(struct pg *p, struct pg_list *l)
{
	struct pg_item *i;

	while ((i = l->head) != NULL) {
		enum spot_rc rc = SPOT_CANCELLED;

		pg_list_remove(l, i);
		if (i->conn != NULL &&
		    (i->copy != NULL ? i->commit_sent : i->stmt != NULL && i->stmt->writes)) {
			rc = SPOT_UNKNOWN;
		}
		err_set(&i->err, rc, "%s: the database client was closed",
		    i->stmt == NULL ? "copy" : i->stmt->name);
		pg_item_finish(p, i, rc);
	}
}

void pg_free(struct pg *p)
{
	if (p == NULL) {
		return;
	}
	p->freeing = true;
	loop_defer_cancel(p->loop, &p->dispatch);
	for (enum pg_lane lane = 0; lane < PG_LANES; lane++) {
		list_cancel(p, &p->queues[lane]);
	}
	list_cancel(p, &p->copies);
	for (int i = 0; i < p->conns_n; i++) {
		list_cancel(p, &p->conns[i].inflight);
		pg_conn_fini(&p->conns[i]);
	}
	if (p->listener != NULL) {
		pg_conn_fini(p->listener);
	}
	free(p->listener);
	pg_scout_fini(p);
	free(p->conns);
	free(p->dsn);
	free(p->application);
	free(p);
}

bool pg_ready(const struct pg *p)
{
	return p->stats.up > 0;
}

struct pg_stats pg_stats(const struct pg *p)
{
	struct pg_stats s = p->stats;

	s.busy = 0;
	for (int i = 0; i < p->conns_n; i++) {
		s.busy += p->conns[i].inflight.n > 0;
	}
	s.queued = p->copies.n;
	for (enum pg_lane lane = 0; lane < PG_LANES; lane++) {
		s.queued += p->queues[lane].n;
	}
	return s;
}
