/* The market as it stands: one read shared by every pass that needs it within offers_age. */
#include "base/base.h"
#include "base/text/str.h"
#include "engine/kernel/kernel_priv.h"
#include "store/offers.h"

/* Memory of one read. Passes that were given it hold it until they end, even if it is read again
 * meanwhile. */
struct market {
	struct arena *arena;
	int holds;
};

struct wait {
	void (*then)(struct recon *r, void *ctx);
	void *ctx;
	int64_t sent_us; /* mono */
	struct q_engine_gang_market_row *gangs;
	size_t gangs_n;
};

void offers_invalidate(struct engine *e)
{
	e->offers.read_us = 0;
	e->offers.stale_us = loop_mono_us(e->loop);
}

/* A statement writes nodes or a refusal: until it is over a read of the market may lack them, and
 * is repeated. The market that the nodes were chosen from counts them already (offers_count). */
void offers_write_begin(struct engine *e)
{
	e->offers.wanting++;
}

void offers_write_end(struct engine *e)
{
	e->offers.wanting--;
	e->offers.stale_us = loop_mono_us(e->loop);
}

static void market_let_go(struct market *m)
{
	if (m != NULL && --m->holds == 0) {
		arena_free(m->arena);
		free(m);
	}
}

static void market_passed(struct recon *r, void *ctx)
{
	(void)r;
	market_let_go(ctx);
}

void offers_drop(struct engine *e)
{
	market_let_go(e->offers.market);
	e->offers.market = NULL;
}

/* The pass's decisions point into the read that it was given. */
static void offers_hold(struct recon *r)
{
	struct market *m = r->e->offers.market;
	const struct recon_end *end;

	for (end = r->ends; end != NULL; end = end->next) {
		if (end->run == market_passed && end->ctx == m) {
			return;
		}
	}
	recon_at_end(r, market_passed, m);
	m->holds++;
}

static void market_new(struct engine *e, struct arena *a)
{
	struct market *m = calloc(1, sizeof(*m));

	if (m == NULL) {
		abort();
	}
	offers_drop(e);
	*m = (struct market){ .arena = a, .holds = 1 };
	e->offers.market = m;
}

static void gangs_keep(struct offers *o, struct arena *a, const struct wait *w)
{
	o->rests = arena_array(a, w->gangs_n + 1, sizeof(*o->rests));
	o->rests_n = o->busy_n = o->busy_cap = 0;
	o->busy = NULL;
	for (size_t i = 0; i < w->gangs_n; i++) {
		const struct q_engine_gang_market_row *g = &w->gangs[i];

		if (g->place[0] == '\0') {
			o->rests[o->rests_n++] = (struct gang_rest){ .pool_id = g->pool_id,
				.want = g->want,
				.until_us = g->until_us };
		} else {
			o->busy = arena_grow(a, o->busy, o->busy_n, &o->busy_cap, sizeof(*o->busy));
			o->busy[o->busy_n++] = arena_strdup(a, g->place);
		}
	}
}

void offers_mark_busy(struct engine *e, const struct offer *offer)
{
	struct offers *o = &e->offers;
	struct arena *a = o->market->arena;

	o->version++;
	o->busy = arena_grow(a, o->busy, o->busy_n, &o->busy_cap, sizeof(*o->busy));
	o->busy[o->busy_n++] = gang_place(a, offer);
}

static void offers_read(struct step *s)
{
	struct offers *o = &s->r->e->offers;
	struct wait *w = s->ctx;
	struct arena *a = arena_new(0);

	market_new(s->r->e, a);
	o->version++;
	o->n = offers_rows(&s->req, a, &o->list);
	gangs_keep(o, a, w);
	o->hazards = hazard_model_build(a, o->list, o->n, &s->r->e->conf.rank, engine_now(s->r->e));
	offers_believe(o->hazards, o->list, o->n);
	if (o->wanting > 0 || o->stale_us > w->sent_us) {
		/* Changes made meanwhile may be missing, for us and for passes that read before us.
		 * */
		o->read_us = 0;
		offers_need(s->r, w->then, w->ctx);
		return;
	}
	o->read_us = loop_mono_us(s->r->e->loop);
	offers_hold(s->r);
	w->then(s->r, w->ctx);
}

static void gangs_read(struct step *s)
{
	struct wait *w = s->ctx;
	struct step *next = step_new(s->r, offers_read, w);
	struct q_offers ask;

	w->gangs_n = q_engine_gang_market_rows(&s->req, s->r->arena, &w->gangs);
	offers_ask(&s->r->e->conf.rank, engine_now(s->r->e), &ask);
	STEP(next, offers, &ask);
}

void offers_need(struct recon *r, void (*then)(struct recon *, void *), void *ctx)
{
	struct engine *e = r->e;
	struct wait *w;
	struct step *s;

	if (e->offers.read_us > 0 &&
	    loop_mono_us(e->loop) - e->offers.read_us < e->conf.offers_age_us) {
		offers_hold(r);
		then(r, ctx);
		return;
	}
	w = arena_alloc(r->arena, sizeof(*w));
	w->then = then;
	w->ctx = ctx;
	w->sent_us = loop_mono_us(e->loop);
	s = step_new(r, gangs_read, w);
	STEP(s, engine_gang_market, (&(struct q_engine_gang_market){ .at_us = engine_now(e) }));
}

const struct offer *offer_find(const struct engine *e, int32_t pool_id)
{
	size_t lo = 0, hi = e->offers.n;

	while (lo < hi) { /* the read is ordered by id */
		size_t mid = lo + (hi - lo) / 2;

		if (e->offers.list[mid].pool_id == pool_id) {
			return &e->offers.list[mid];
		}
		if (e->offers.list[mid].pool_id < pool_id) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return NULL;
}

void offers_count(struct engine *e, const struct offer *o, int64_t nodes)
{
	int64_t took = nodes * offer_quota_need(o);

	if (!o->has_quota) {
		return;
	}
	e->offers.version++;
	for (size_t i = 0; i < e->offers.n; i++) {
		struct offer *x = &e->offers.list[i];

		if (x->has_quota && x->market == o->market &&
		    strcmp(x->provider, o->provider) == 0 && strcmp(x->region, o->region) == 0 &&
		    strcmp(x->quota_class, o->quota_class) == 0) {
			x->quota_used += took;
		}
	}
}
