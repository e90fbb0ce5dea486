/* The moves of a fleet's nodes (held_ours.h). */
#include "base/base.h"

#include "fleets/held_ours.h"

/* As src/spotd/conf_items.c has it by default. */
#define REST_US (8 * SPOT_US_PER_HOUR)

void pairs_step(struct held *h, struct mind *m)
{
	for (size_t i = 0; i < h->alive_n; i++) {
		int64_t node = h->alive[i];
		int64_t next = held_there(h, node) ? held_next(h, node) : -1;

		if (next >= 0 &&
		    h->s.nodes[next].ready_us +
			    (held_idle(h, node) ? 0 : m->o.supply.return_hold_us) <=
			h->s.t) {
			held_move(h, node);
		}
	}
}

static void move_node_fill(const struct held *h, const struct mind *m, int64_t node,
    struct fleet_move_node *ret)
{
	const struct fs_node *n = &h->s.nodes[node];
	const struct fs_task *k = held_idle(h, node) ? NULL : &h->s.tasks[n->task];

	*ret = (struct fleet_move_node){ .node_id = node,
		.pool_id = n->pool,
		.ready_us = sim_now(&h->s, n->ready_us),
		.price_micros = fs_price(&h->s.w->pools[n->pool], h->s.t) };
	if (held_stands_in(h, node)) {
		ret->fixed = "it replaces a node that is still there";
	} else if (n->ready_us > h->s.t) {
		ret->fixed = "it is not ready yet";
	}
	if (k != NULL) {
		ret->job_id = (int64_t)n->task + 1;
		ret->save_us =
		    k->has_checkpoint ? k->job->save_us : m->o.rank.save_s * SPOT_US_PER_S;
		ret->restart_us = k->starts > 1 ? h->s.w->restore_us : m->o.supply.changeover_us;
		ret->checkpoint_bytes = k->has_checkpoint ? k->job->checkpoint_bytes : 0;
	}
}

static const struct fs_job *job_any(const struct held *h)
{
	return &h->s.w->jobs[0];
}

/* A pair counts at its new place. */
static void moving_fill(struct held *h, struct mind *m, struct fleet_ask *ask,
    struct fleet_move_in *in)
{
	struct fleet_have *list = arena_array(m->o.step, h->alive_n + 1, sizeof(*list));
	struct fleet_move_node *nodes = arena_array(m->o.step, h->alive_n + 1, sizeof(*nodes));
	struct fleet_leaving *leaving = arena_array(m->o.step, h->alive_n + 1, sizeof(*leaving));

	for (size_t i = 0; i < h->alive_n; i++) {
		int64_t node = h->alive[i];
		const struct fs_pool *p = &h->s.w->pools[h->s.nodes[node].pool];
		struct fleet_have *x;

		if (!held_there(h, node)) {
			continue;
		}
		if (held_next(h, node) >= 0) {
			leaving[in->leaving_n++] =
			    (struct fleet_leaving){ p->provider, p->region, p->zone };
			continue;
		}
		x = have_find(h, m, ask, list, h->s.nodes[node].pool);
		x->nodes++;
		x->idle += held_idle(h, node);
		move_node_fill(h, m, node, &nodes[in->n++]);
	}
	have_end(h, m, ask, list);
	in->nodes = nodes;
	in->leaving = leaving;
}

/* The moves of the last day: those of the last hour, and probes that failed since a replacement
 * last became ready. */
static void probes_read(const struct held *h, struct mind *m, struct fleet_move_in *in)
{
	const struct offer **refused = arena_array(m->o.step, m->sent_n + 1, sizeof(*refused));
	bool ready = false;

	for (size_t i = m->sent_n; i > 0 && m->sent[i - 1].at_us >= h->s.t - PAST_US; i--) {
		const struct sent *x = &m->sent[i - 1];
		bool failed;

		if (!x->probe) {
			continue;
		}
		failed = x->node < 0 ||
		    (h->s.nodes[x->node].reclaimed &&
			h->s.nodes[x->node].ended_us <= h->s.nodes[x->node].ready_us);
		in->began_hour += !failed && x->at_us > h->s.t - SPOT_US_PER_HOUR;
		ready |= x->node >= 0 && node_was_ready(h, x->node);
		if (failed && !ready) {
			in->last_probe_us = MAX(in->last_probe_us, sim_now(&h->s, x->at_us));
			in->probes_refused++;
			refused[in->refused_n++] = &m->o.offers[x->pool];
		}
	}
	in->refused = refused;
}

static bool offer_tight(const void *ctx, const struct offer *o)
{
	return market_tight(ctx, o);
}

void moves_step(struct held *h, struct mind *m, bool return_only)
{
	struct fleet_move_policy policy = { &m->o.supply, REST_US, &m->o.rank };
	struct fleet_ask ask;
	struct fleet_move_in in = { .ask = &ask,
		.policy = &policy,
		.return_only = return_only,
		.tight = offer_tight,
		.tight_ctx = &m->o,
		.store_provider = job_any(h)->store_provider,
		.store_region = job_any(h)->store_region,
		.now_us = sim_now(&h->s, h->s.t) };
	struct fleet_moves out;

	(void)ask_begin(h, m, &ask);
	moving_fill(h, m, &ask, &in);
	probes_read(h, m, &in);
	fleet_moves_choose(m->o.step, &in, &out);
	for (size_t i = 0; i < out.now; i++) {
		const struct fleet_move *x = &out.moves[i];

		(void)mind_launch(h, m, x->to->offer->pool_id, in.nodes[x->node].node_id);
	}
}

bool return_due(const struct held *h, const struct mind *m)
{
	int32_t n = 0;

	for (size_t i = 0; i < h->alive_n; i++) {
		int64_t node = h->alive[i];

		n += held_there(h, node) && h->s.nodes[node].ready_us <= h->s.t &&
		    h->s.w->pools[h->s.nodes[node].pool].market == SPOT_MARKET_ON_DEMAND &&
		    held_next(h, node) < 0;
	}
	return n > (m->spec.floor_pm > 0 ? 0 : m->spec.on_demand_floor);
}
