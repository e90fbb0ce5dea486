/* The market as it stands: a snapshot of the kept market (store/market/market.h), shared by every
 * pass that needs it within offers_age. */
#include "base/base.h"
#include "engine/kernel/kernel_priv.h"

/* Memory of one read. Passes that were given it hold it until they end, even if it is read again
 * meanwhile. */
struct offers_held {
	struct market_snap *snap;
	struct arena *arena; /* of cooldowns and busy places of gangs */
	int holds;
};

struct wait {
	struct market_want want;
	struct recon *r;
	void (*then)(struct recon *r, void *ctx);
	void *ctx;
	int64_t sent_us; /* mono */
	struct q_engine_gang_market_row *gangs;
	size_t gangs_n;
};

void offers_start(struct engine *e)
{
	e->offers.market = market_new(e->loop, e->pg, &e->conf.rank);
}

void offers_reload(struct engine *e)
{
	market_policy_set(e->offers.market, &e->conf.rank);
	offers_invalidate(e);
}

int64_t engine_market_mended(const struct engine *e)
{
	return market_stats(e->offers.market).mended;
}

int64_t engine_returns_judged(const struct engine *e)
{
	return e->offers.returns_judged;
}

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

static void held_let_go(struct offers_held *h)
{
	if (h != NULL && --h->holds == 0) {
		market_drop(h->snap);
		arena_free(h->arena);
		free(h);
	}
}

static void held_passed(struct recon *r, void *ctx)
{
	(void)r;
	held_let_go(ctx);
}

/* Passes that wait for the market are forgotten. */
void offers_stop(struct engine *e)
{
	market_free(e->offers.market);
	e->offers.market = NULL;
}

void offers_drop(struct engine *e)
{
	held_let_go(e->offers.held);
	e->offers.held = NULL;
}

/* The pass's decisions point into the read that it was given. */
static void offers_hold(struct recon *r)
{
	struct offers_held *h = r->e->offers.held;
	const struct recon_end *end;

	for (end = r->ends; end != NULL; end = end->next) {
		if (end->run == held_passed && end->ctx == h) {
			return;
		}
	}
	recon_at_end(r, held_passed, h);
	h->holds++;
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

/* The same in any order of the rows. A rest that ended is no row any more. */
static uint64_t gangs_hash(const struct wait *w)
{
	uint64_t sum = HASH_START;

	for (size_t i = 0; i < w->gangs_n; i++) {
		const struct q_engine_gang_market_row *g = &w->gangs[i];
		uint64_t h = hash_mix(hash_mix((uint64_t)g->pool_id, (uint64_t)g->want),
		    (uint64_t)g->until_us);

		sum += hash_words(h, g->place, strlen(g->place));
	}
	return sum;
}

/* Takes the snapshot over. An unchanged one keeps the version until a cooldown ends, so that
 * rankings stay known. */
static void held_new(struct engine *e, struct market_snap *snap, const struct wait *w)
{
	struct offers *o = &e->offers;
	struct offers_held *h = calloc(1, sizeof(*h));
	int64_t now = engine_now(e);

	if (h == NULL) {
		abort();
	}
	*h = (struct offers_held){ .snap = snap, .arena = arena_new(0), .holds = 1 };
	if (o->held == NULL || o->held->snap != snap || o->gangs_hash != gangs_hash(w) ||
	    market_cool_end(snap, o->taken_us) <= now) {
		o->version++;
	}
	o->taken_us = now;
	o->gangs_hash = gangs_hash(w);
	gangs_keep(o, h->arena, w);
	held_let_go(o->held);
	o->held = h;
	o->list = snap->offers;
	o->n = snap->n;
	o->hazards = snap->hazards;
}

void offers_mark_busy(struct engine *e, const struct offer *offer)
{
	struct offers *o = &e->offers;
	struct arena *a = o->held->arena;

	o->version++;
	o->gangs_hash = 0; /* of no rows: the next read is another market */
	o->busy = arena_grow(a, o->busy, o->busy_n, &o->busy_cap, sizeof(*o->busy));
	o->busy[o->busy_n++] = gang_place(a, offer);
}

static void market_came(struct market_want *want, struct market_snap *snap,
    const struct spot_err *err UNUSED)
{
	struct wait *w = container_of(want, struct wait, want);
	struct recon *r = w->r;
	struct offers *o = &r->e->offers;

	if (snap == NULL) { /* logged; nothing is lost: the next pass asks again */
		recon_release(r);
		return;
	}
	held_new(r->e, snap, w);
	if (o->wanting > 0 || o->stale_us > w->sent_us) {
		/* Changes made meanwhile may be missing, for us and for passes that read before
		 * us. */
		o->read_us = 0;
		offers_need(r, w->then, w->ctx);
	} else {
		o->read_us = loop_mono_us(r->e->loop);
		offers_hold(r);
		w->then(r, w->ctx);
	}
	recon_release(r);
}

static void gangs_read(struct step *s)
{
	struct wait *w = s->ctx;

	w->gangs_n = q_engine_gang_market_rows(&s->req, s->r->arena, &w->gangs);
	recon_hold(s->r);
	w->want.then = market_came;
	market_need(s->r->e->offers.market, &w->want, w->sent_us);
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
	w->r = r;
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
	if (o->has_quota) {
		e->offers.version++;
		market_count(e->offers.held->snap, o, nodes);
	}
}
