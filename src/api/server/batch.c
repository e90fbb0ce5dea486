/*
 * Rows by id, read for several requests at once. The end of a turn starts one statement for all
 * that asked in it. Two statements run at the same time at most; later requests wait for the next.
 * So few requests have one each, at once, and many cost little more than one.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#define BATCH_MOST 100 /* rows of one statement */
#define FLIGHTS 2

struct flight { /* a statement and those it reads for */
	struct batch *batch;
	struct pg_req pg;
	struct areq *first; /* NULL: no statement runs */
};

struct batch { /* of one kind */
	struct batch *next;
	struct api *api;
	const struct batch_kind *kind;
	struct areq *waiting, **end;
	struct loop_task task;
	struct flight flights[FLIGHTS];
};

static void batch_start(struct batch *b);

static struct batch *batch_of(struct api *api, const struct batch_kind *kind)
{
	struct batch *b = api->batches;

	while (b != NULL && b->kind != kind) {
		b = b->next;
	}
	if (b != NULL) {
		return b;
	}
	b = calloc(1, sizeof(*b));
	if (b == NULL) {
		abort();
	}
	b->api = api;
	b->kind = kind;
	b->end = &b->waiting;
	for (size_t i = 0; i < FLIGHTS; i++) {
		b->flights[i].batch = b;
	}
	b->next = api->batches;
	api->batches = b;
	return b;
}

static size_t row_find(const struct pg_result *r, int64_t id)
{
	for (size_t i = 0; i < pg_rows(r); i++) {
		if (pg_int(r, i, 0) == id) {
			return i;
		}
	}
	return BATCH_NONE;
}

static void flight_landed(struct op *op)
{
	struct flight *f = container_of(op, struct flight, pg.op);
	struct areq *q = STEAL(f->first);
	struct spot_err err = op->err;

	err.rc = op->rc;
	for (struct areq *next; q != NULL; q = next) {
		next = q->batched;
		q->batched = NULL;
		if (op->rc == SPOT_OK) {
			q->batch_then(q, f->pg.result, row_find(f->pg.result, q->id));
		} else {
			areq_error(q, &err);
		}
	}
	pg_req_fini(&f->pg);
	batch_start(f->batch);
}

static void flight_start(struct flight *f)
{
	struct batch *b = f->batch;
	int64_t ids[BATCH_MOST];
	struct areq **at = &b->waiting;
	size_t n = 0;

	for (; *at != NULL && n < BATCH_MOST; at = &(*at)->batched) {
		ids[n++] = (*at)->id;
	}
	f->first = b->waiting;
	b->waiting = *at;
	*at = NULL;
	if (b->waiting == NULL) {
		b->end = &b->waiting;
	}
	b->kind->start(b->api->pg, &f->pg, ids, n, loop_wall_us(b->api->loop), flight_landed);
}

static void batch_run(struct loop_task *t)
{
	struct batch *b = container_of(t, struct batch, task);

	for (size_t i = 0; i < FLIGHTS && b->waiting != NULL; i++) {
		if (b->flights[i].first == NULL) {
			flight_start(&b->flights[i]);
		}
	}
}

static void batch_start(struct batch *b)
{
	if (b->waiting != NULL) {
		loop_defer(b->api->loop, &b->task, batch_run);
		loop_wake(b->api->loop);
	}
}

void areq_batch(struct areq *q, const struct batch_kind *kind,
    void (*then)(struct areq *q, const struct pg_result *r, size_t row))
{
	struct batch *b = batch_of(q->api, kind);

	q->batch_then = then;
	q->batched = NULL;
	*b->end = q;
	b->end = &q->batched;
	batch_start(b);
}

void batches_fini(struct api *api)
{
	struct batch *b;

	while ((b = api->batches) != NULL) {
		api->batches = b->next;
		loop_defer_cancel(api->loop, &b->task);
		for (size_t i = 0; i < FLIGHTS; i++) {
			pg_req_fini(&b->flights[i].pg);
		}
		free(b);
	}
}
