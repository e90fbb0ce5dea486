/* Nodes whose pool ends, such as a capacity block. Each moves in time, whatever the move saves. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet_priv.h"

bool fleet_move_ends(const struct fleet_move_policy *p, int64_t ends_us, int64_t save_us,
    int64_t now_us)
{
	int64_t lead = p->supply->changeover_us + p->supply->return_hold_us;

	return ends_us > 0 && p->rank != NULL &&
	    now_us >= ends_us - rank_leave_us(p->rank, save_us) - lead;
}

bool fleet_node_ends(const struct fleet_movement *x, size_t node)
{
	const struct fleet_move_node *n = &x->in->nodes[node];

	return fleet_move_ends(x->in->policy, n->ends_us, n->save_us, x->in->now_us);
}

/* The cheapest destination. kept: only among those that keep the size, the floor and the number of
 * pools. */
static struct fleet_item *dest_find(struct fleet_movement *x, size_t node, bool kept)
{
	struct fleet_item *best = NULL;
	double least = 0;

	for (size_t k = 0; k < x->dests_n; k++) {
		struct fleet_item *to = x->dests[k];
		double cost = fleet_marginal(&x->m, to);

		if (to == x->at[node] || (best != NULL && cost >= least) ||
		    !(kept ? fleet_pair_keeps(x, to) : fleet_room(&x->m, to)) ||
		    fleet_move_ends(x->in->policy, to->offer->ends_us, 0, x->in->now_us) ||
		    !fleet_job_suits(x, &x->in->nodes[node], to->offer)) {
			continue;
		}
		best = to;
		least = cost;
	}
	return best;
}

static void ending_move(struct fleet_movement *x, size_t node, struct fleet_moves *ret)
{
	struct fleet_item *from = x->at[node], *to;
	struct fleet_move m = { 0 };
	char left[32];

	fleet_put(&x->m, from, -1);
	to = dest_find(x, node, true);
	if (to == NULL) {
		to = dest_find(x, node, false);
	}
	if (to != NULL) {
		fleet_pair_fill(x, node, from, to, &m);
	}
	fleet_put(&x->m, from, 1);
	if (to == NULL) {
		x->why[node] = "its pool ends, and no other place has room";
		return;
	}
	m.now = m.ends = true;
	m.why = arena_printf(x->arena, "its pool ends in %s",
	    format_duration(MAX(x->in->nodes[node].ends_us - x->in->now_us, 0), left));
	x->to[node] = to;
	x->moved[node] = true;
	fleet_put(&x->m, from, -1);
	fleet_put(&x->m, to, 1);
	ret->moves[ret->n++] = m;
	ret->now++;
}

/* The disruption budget does not hold them back: they would be disrupted all the more. */
void fleet_endings_choose(struct fleet_movement *x, struct fleet_moves *ret)
{
	for (size_t i = 0; i < x->in->n; i++) {
		if (x->why[i] == NULL && fleet_node_ends(x, i)) {
			fleet_kept_read(x);
			ending_move(x, i, ret);
		}
	}
}
