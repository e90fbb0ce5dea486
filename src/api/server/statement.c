/* One database statement of a request, and its continuation (the SQL macro). */
#include "base/base.h"
#include "api/server/server_priv.h"

struct pg *areq_pg(struct areq *q)
{
	return q->api->pg;
}

void areq_sql_begin(struct areq *q, void (*next)(struct areq *))
{
	pg_req_fini(&q->pg);
	q->then = next;
	q->failed = NULL;
}

void areq_sql_done(struct op *op)
{
	struct areq *q = container_of(op, struct areq, pg.op);
	bool (*failed)(struct areq *) = q->failed;
	void (*then)(struct areq *) = q->then;
	struct spot_err err;

	q->failed = NULL;
	q->then = NULL;
	if (op->rc == SPOT_OK) {
		then(q);
		return;
	}
	if (failed && failed(q)) {
		return;
	}
	err = op->err;
	err.rc = op->rc;
	areq_error(q, &err);
}
