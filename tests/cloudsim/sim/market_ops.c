/* Changes of prices and stock, and the replay of recorded ones. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

/* A cap below the new price takes the instance back: the vendor calls it terminated by price. */
static void price_check_caps(struct sim *s, struct pool *p, int64_t micros)
{
	if (p->used[SIDE_SPOT] == 0) {
		return;
	}
	for (struct inst *i = s->insts; i; i = i->next) {
		if (i->pool == p && i->side == SIDE_SPOT && i->counted && i->max_price > 0 &&
		    i->max_price < micros) {
			inst_reclaim(i, s->conf.notice_us, 0, true);
		}
	}
}

void price_set(struct sim *s, struct pool *p, enum side side, int64_t us, int64_t micros)
{
	struct price_log *l = &p->price[side];

	if (l->n > 0 && l->at[l->n - 1].micros == micros) {
		return;
	}
	price_append(l, us, micros);
	if (side == SIDE_SPOT && s->insts) {
		price_check_caps(s, p, micros);
	}
}

void pool_stock_set(struct sim *s, struct pool *p, enum side side, int64_t count)
{
	(void)s;
	p->stock[side] = count;
	if (p->cloud == CLOUD_LAMBDA && !p->advertised_by_hand) {
		p->advertised = pool_free(p, SIDE_ON_DEMAND) > 0;
	}
}

/* Supply fell below the running instances: the oldest go first, with the usual notice. */
static void supply_shrink(struct sim *s, struct pool *p)
{
	int64_t over = p->used[SIDE_SPOT] - p->stock[SIDE_SPOT];

	for (struct inst *i = s->insts; i && over > 0; i = i->next) {
		if (i->pool != p || i->side != SIDE_SPOT || !i->counted || i->reclaimed) {
			continue;
		}
		inst_reclaim(i, s->conf.notice_us, 0, false);
		over--;
	}
}

void market_replay(struct sim *s)
{
	struct market *m = s->market;
	int64_t now = sim_clock(s);

	for (; m->replay_at < m->replay_n && m->replay[m->replay_at].sim_us <= now;
	     m->replay_at++) {
		const struct replay *r = &m->replay[m->replay_at];

		if (r->supply && !r->pool->supply_held) {
			pool_stock_set(s, r->pool, SIDE_SPOT, r->value);
			supply_shrink(s, r->pool);
		} else if (!r->supply && !r->pool->price[SIDE_SPOT].held) {
			price_set(s, r->pool, SIDE_SPOT, MIN(r->sim_us, sim_wall(s)), r->value);
		}
	}
	if (m->replay_at < m->replay_n && s->conf.scale > 0) {
		double wait = (double)(m->replay[m->replay_at].sim_us - now) / s->conf.scale;

		loop_timer_set(&m->timer, MAX((int64_t)wait, 1000));
	}
}
