/* The size of a fleet that follows its queue, and the nodes that it gives back (held_ours.h). */
#include "base/base.h"

#include "fleets/held_ours.h"

static void size_node_fill(const struct held *h, const struct mind *m, int64_t node,
    struct fleet_size_node *ret)
{
	const struct fs_node *n = &h->s.nodes[node];
	const struct fs_pool *p = &h->s.w->pools[n->pool];
	int64_t milli = fleet_node_milli(&m->spec, p->gpu, p->gpu_milli);

	*ret = (struct fleet_size_node){ .used = !held_idle(h, node),
		.ready = n->ready_us <= h->s.t,
		.idle_since_us = sim_now(&h->s, h->nodes[node].idle_us),
		.milli = milli,
		.floor = p->market == SPOT_MARKET_SPOT ? 0
		    : m->spec.floor_pm > 0             ? milli
						       : 1 };
}

/* Fills the counted nodes, and their indices. Returns their number. */
static size_t size_nodes(const struct held *h, struct mind *m, struct fleet_size_node **ret,
    int64_t **ret_at)
{
	size_t n = 0;

	*ret = arena_array(m->o.step, h->alive_n + 1, sizeof(**ret));
	*ret_at = arena_array(m->o.step, h->alive_n + 1, sizeof(**ret_at));
	for (size_t i = 0; i < h->alive_n; i++) {
		if (node_counts(h, h->alive[i])) {
			(*ret_at)[n] = h->alive[i];
			size_node_fill(h, m, h->alive[i], &(*ret)[n++]);
		}
	}
	return n;
}

static void queue_read(const struct held *h, struct fleet_size_in *in)
{
	const struct fs_sim *s = &h->s;

	for (size_t i = 0; i < s->w->jobs_n && s->w->jobs[i].submit_us <= s->t; i++) {
		const struct fs_task *k = &s->tasks[i];
		int64_t since = sim_now(s, k->queued_us);

		if (k->state == FS_QUEUED) {
			in->queue_oldest_us =
			    in->queue_jobs == 0 ? since : MIN(in->queue_oldest_us, since);
			in->queue_jobs++;
			in->queue_milli += 1000;
		}
	}
}

void size_step(struct held *h, struct mind *m)
{
	int64_t *at, now = sim_now(&h->s, h->s.t);
	struct fleet_size_node *nodes;
	struct fleet_size_in in = { .scaling = m->spec.scaling,
		.now_us = now,
		.created_us = h->s.w->epoch_us,
		.sized = m->sized,
		.open = m->open,
		.size = h->wanted,
		.size_us = m->size_us,
		.slack_us = m->slack_us };
	struct fleet_size d;

	if (m->spec.scaling == NULL) {
		return;
	}
	in.nodes_n = size_nodes(h, m, &nodes, &at);
	in.nodes = nodes;
	queue_read(h, &in);
	fleet_size_decide(m->o.step, &in, &d);
	if (!m->sized || d.size != h->wanted) {
		m->size_us = now;
	}
	m->sized = true;
	m->open = d.open;
	m->slack_us = d.slack_us;
	h->wanted = d.size;
	fleet_spec_resize(&m->spec, d.size);
}

/* ---- giving back ----------------------------------------------------------------------------- */

void surplus_drop(struct held *h, int64_t node)
{
	int64_t next = held_next(h, node);

	if (next >= 0) {
		held_release(h, next);
	}
	held_release(h, node);
}

void idle_drop(struct held *h, struct mind *m, int32_t floor_want)
{
	struct fleet_size_node *nodes;
	int64_t *at, spare = -(int64_t)floor_want;
	size_t n = size_nodes(h, m, &nodes, &at), *order, found;

	for (size_t i = 0; i < n; i++) {
		spare += nodes[i].floor;
	}
	found = fleet_give_idle(m->o.step, nodes, n, m->spec.nodes, spare, &order);
	for (size_t i = 0; i < found; i++) {
		surplus_drop(h, at[order[i]]);
	}
}
