/* The reasons of a fleet's moves: why a node may not move, why a move waits, why a node stays. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet_priv.h"
#include "core/place/place.h"

/* ---- refusals -------------------------------------------------------------------------------- */

const char *fleet_move_never(const struct fleet_movement *x, size_t node)
{
	const struct fleet_move_in *in = x->in;
	const struct fleet_move_node *n = &in->nodes[node];
	const struct fleet_item *i = x->at[node];
	enum spot_market market;
	char text[32];

	if (n->fixed != NULL) {
		return n->fixed;
	}
	if (i == NULL || i->held <= 0) {
		return "the fleet does not count it";
	}
	if (n->job_id == 0 && x->m.total - i->w >= x->m.want) {
		return "it is idle, and more than the fleet wants";
	}
	if (fleet_node_ends(x, node)) {
		return NULL;
	}
	if (in->ask->spec->rebalance.off) {
		return "rebalance.enabled is false";
	}
	market = i->offer != NULL ? i->offer->market : i->have->market;
	if (in->return_only && market != SPOT_MARKET_ON_DEMAND) {
		return "it is not on demand";
	}
	if (in->now_us - n->ready_us < in->policy->supply->return_hold_us) {
		return arena_printf(x->arena, "it is ready only for %s",
		    format_duration(MAX(in->now_us - n->ready_us, 0), text));
	}
	return NULL;
}

static bool zone_same(const struct fleet_leaving *l, const char *provider, const char *region,
    const char *zone)
{
	return strcmp(l->provider, provider) == 0 && strcmp(l->region, region) == 0 &&
	    strcmp(l->zone, zone) == 0;
}

static struct fleet_leaving leaving_of(const struct fleet_movement *x, size_t node)
{
	const struct fleet_item *i = x->at[node];

	return i->offer != NULL
	    ? (struct fleet_leaving){ i->offer->provider, i->offer->region, i->offer->zone }
	    : (struct fleet_leaving){ i->have->provider, i->have->region, i->have->zone };
}

static int32_t zone_leaves(const struct fleet_movement *x, const struct fleet_moves *so_far,
    size_t node)
{
	struct fleet_leaving l = leaving_of(x, node);
	int32_t n = 0;

	for (size_t i = 0; i < x->in->leaving_n; i++) {
		const struct fleet_leaving *o = &x->in->leaving[i];

		n += zone_same(&l, o->provider, o->region, o->zone);
	}
	for (size_t i = 0; i < so_far->now; i++) {
		struct fleet_leaving o = leaving_of(x, so_far->moves[i].node);

		n += zone_same(&l, o.provider, o.region, o.zone);
	}
	return n;
}

const char *fleet_move_waits(const struct fleet_movement *x, const struct fleet_moves *so_far,
    size_t node)
{
	const struct fleet_move_in *in = x->in;
	struct fleet_rebalance b = fleet_rebalance_of(in->ask->spec);
	int64_t pause = return_pause_us(in->policy->supply, in->probes_refused);
	int64_t now = in->now_us;
	char text[32];

	if ((b.hours >> (now / SPOT_US_PER_HOUR % 24) & 1) == 0) {
		return arena_printf(x->arena, "waits for the hours %s (UTC)", b.hours_text);
	}
	if (in->probes_refused > 0 && now - in->last_probe_us < pause) {
		return arena_printf(x->arena, "waits %s: probes refused in a row: %d",
		    format_duration(in->last_probe_us + pause - now, text),
		    (int)in->probes_refused);
	}
	if (in->began_hour + (int64_t)so_far->now >= b.per_hour) {
		return arena_printf(x->arena, "waits: rebalance.per_hour %d is reached",
		    b.per_hour);
	}
	if ((int64_t)(in->leaving_n + so_far->now) >= b.at_once) {
		return arena_printf(x->arena, "waits: rebalance.at_once %d is reached", b.at_once);
	}
	if (zone_leaves(x, so_far, node) >= b.per_zone) {
		return arena_printf(x->arena, "waits: rebalance.per_zone %d is reached",
		    b.per_zone);
	}
	return NULL;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *fleet_move_words(const struct fleet_movement *x, const struct fleet_move *m,
    const char *wait)
{
	char rest[32];

	return arena_printf(x->arena, "%s%ssaves %.4f USD/h for %s, the move costs %.4f USD",
	    wait != NULL ? wait : "", wait != NULL ? "; " : "", (double)m->hourly_micros / 1e6,
	    format_duration(m->rest_us, rest), (double)m->cost_micros / 1e6);
}

static const char *stay_words(const struct fleet_movement *x, size_t i)
{
	const struct fleet_move *m = &x->best[i];
	char rest[32];

	if (x->why[i] != NULL) {
		return x->why[i];
	}
	if (!x->better[i]) {
		return x->bound[i] != NULL ? x->bound[i] : "no other place is better";
	}
	return arena_printf(x->arena,
	    "p%d would save %.4f USD in %s, the move costs %.4f%s: not worth it",
	    (int)m->to->offer->pool_id, (double)m->saving_micros / 1e6,
	    format_duration(m->rest_us, rest), (double)m->cost_micros / 1e6,
	    m->share < 1 ? ", and its pool refused before" : "");
}

void fleet_stays_fill(const struct fleet_movement *x, struct fleet_moves *ret)
{
	ret->stays = arena_array(x->arena, x->in->n + 1, sizeof(*ret->stays));
	for (size_t i = 0; i < x->in->n; i++) {
		if (!x->moved[i]) {
			ret->stays[ret->stays_n++] =
			    (struct fleet_stay){ .node = i, .why = stay_words(x, i) };
		}
	}
}

json_t *fleet_move_json(const struct fleet_move_in *in, const struct fleet_move *m)
{
	const struct fleet_move_node *n = &in->nodes[m->node];
	double here = m->here != NULL ? m->here->throughput : 0;

	return json_pack("{s:I, s:i, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
	    "from_node", (json_int_t)n->node_id, "from_pool", (int)n->pool_id, "here_price_micros",
	    (json_int_t)n->price_micros, "speed", here > 0 ? m->to->throughput / here : 1.0,
	    "saving_micros", (json_int_t)m->saving_micros, "cost_micros",
	    (json_int_t)m->cost_micros, "hourly_micros", (json_int_t)m->hourly_micros,
	    "risk_micros", (json_int_t)m->risk_micros, "rest_us", (json_int_t)m->rest_us,
	    "both_micros", (json_int_t)m->both_micros, "restart_micros",
	    (json_int_t)m->restart_micros, "egress_micros", (json_int_t)m->egress_micros,
	    "margin_pm", (json_int_t)in->policy->supply->return_margin_pm, "here",
	    m->here != NULL ? score_json(m->here) : json_null());
}
