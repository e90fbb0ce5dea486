/* The market of a request: the last snapshot, or the next one. */
#include "base/base.h"
#include "api/server/server_priv.h"

static void market_came(struct market_want *w, struct market_snap *snap, const struct spot_err *err)
{
	struct areq *q = container_of(w, struct areq, want);
	void (*then)(struct areq *q) = q->then;

	q->then = NULL;
	if (snap == NULL) {
		areq_error(q, err);
		return;
	}
	q->snap = snap;
	then(q);
}

void areq_market(struct areq *q, void (*next)(struct areq *q))
{
	struct api *api = q->api;

	market_drop(q->snap);
	q->snap = market_now(api->market, api->conf.market_age_us);
	if (q->snap != NULL) {
		next(q);
		return;
	}
	q->then = next;
	q->want.then = market_came;
	market_need(api->market, &q->want, loop_mono_us(api->loop) - api->conf.market_age_us);
}
