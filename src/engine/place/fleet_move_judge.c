/* One fleet's moves: its rows as the decision wants them, the replacements, the answer. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"
#include "engine/launch/launch.h"
#include "engine/market/market.h"
#include "engine/place/place_priv.h"

/* Older refusals say nothing about now. */
#define REFUSED_MOST 100

struct fleet_judged {
	const struct q_engine_fleet_move_facts_row *facts;
	const struct q_engine_fleet_move_nodes_row *rows;
	size_t rows_n;
	struct fleet_spec *spec;
	struct fleet_have *have;
	struct fleet_move_node *nodes;
	const struct q_engine_fleet_move_nodes_row **of; /* each node's row */
	struct fleet_leaving *leaving;
	struct fleet_ask ask;
	struct fleet_move_policy policy;
	struct fleet_move_in in;
	struct fleet_moves out;
};

/* ---- nodes ----------------------------------------------------------------------------------- */

static int64_t job_end_us(const struct engine *e, const struct q_engine_fleet_move_nodes_row *n)
{
	const struct q_engine_running_row w = { .has_started_us = n->has_started_us,
		.started_us = n->started_us,
		.created_us = n->created_us,
		.work_s = n->work_s,
		.steps_total = n->steps_total,
		.steps_start = n->steps_start,
		.steps_done = n->steps_done };

	return running_end_us(e, &w);
}

static const char *job_fixes(struct recon *r, const struct q_engine_fleet_move_nodes_row *n,
    const struct fleet_move_node *m, bool ends)
{
	if (!n->runs) {
		return arena_printf(r->arena, "its job j%" PRId64 " is about to leave", n->job_id);
	}
	if (!n->has_path) {
		return arena_printf(r->arena,
		    "its job j%" PRId64 " saves nothing: a move would throw away its work",
		    n->job_id);
	}
	if (n->has_deadline_us && !ends &&
	    job_end_us(r->e, n) + m->save_us + m->restart_us > n->deadline_us) {
		return arena_printf(r->arena, "its job j%" PRId64 " could miss its deadline",
		    n->job_id);
	}
	return NULL;
}

static const char *node_fixed(struct recon *r, const struct q_engine_fleet_move_nodes_row *n,
    const struct fleet_move_node *m, bool ends)
{
	if (n->has_replaces_id && n->stands_in) {
		return arena_printf(r->arena, "replaces n%" PRId64 ", which is still there",
		    n->replaces_id);
	}
	if (n->state != NODE_READY) {
		return "it is not ready yet";
	}
	if (n->used && !n->has_job_id) {
		return "its last job is being settled";
	}
	return n->has_job_id ? job_fixes(r, n, m, ends) : NULL;
}

static void asks_read(struct recon *r, const struct q_engine_fleet_move_nodes_row *n,
    struct fleet_move_node *m)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *list = NULL;
	struct resource_ask *asks;

	if (n->asks == NULL || json_parse(str_from(n->asks), "asks", &list, &err) != SPOT_OK) {
		return;
	}
	asks = arena_array(r->arena, json_array_size(list) + 1, sizeof(*asks));
	for (size_t i = 0; i < json_array_size(list) && err.rc == SPOT_OK; i++) {
		resource_ask_from_json(r->arena, json_array_get(list, i), &asks[m->asks_n++], &err);
		if (!n->interruptible) {
			asks[i].use_spot = 0;
		}
	}
	m->asks = asks;
	m->asks_n = err.rc == SPOT_OK ? m->asks_n : 0;
}

static struct fleet_move_policy move_policy(const struct engine *e)
{
	return (struct fleet_move_policy){ &e->conf.supply, e->conf.fleet_rest_us, &e->conf.rank };
}

static void node_fill(struct recon *r, const struct q_engine_fleet_move_nodes_row *n,
    struct fleet_move_node *ret)
{
	const struct offer *o = offer_find(r->e, n->pool_id);
	const struct rank_policy *k = &r->e->conf.rank;
	const struct fleet_move_policy policy = move_policy(r->e);

	*ret = (struct fleet_move_node){ .node_id = n->id,
		.job_id = n->has_job_id ? n->job_id : 0,
		.pool_id = n->pool_id,
		.ready_us = n->ready_us,
		.ends_us = n->ends_us,
		.price_micros = o != NULL ? o->price_micros : n->price_micros };
	if (n->has_job_id) {
		ret->save_us = n->save_us > 0 ? n->save_us : k->save_s * SPOT_US_PER_S;
		ret->restart_us =
		    n->restart_us > 0 ? n->restart_us : r->e->conf.supply.changeover_us;
		ret->checkpoint_bytes = n->checkpoint_bytes;
		asks_read(r, n, ret);
	}
	ret->fixed = node_fixed(r, n, ret,
	    fleet_move_ends(&policy, ret->ends_us, ret->save_us, engine_now(r->e)));
}

static bool node_leaves(const struct q_engine_fleet_move_nodes_row *n)
{
	return n->state == NODE_DRAINING || n->state == NODE_TERMINATING;
}

/* A pair counts at its new place: the moves after this one must hold there. */
static bool node_counted(const struct q_engine_fleet_move_nodes_row *n)
{
	return !node_leaves(n) && !n->has_replacement_id;
}

static void have_add(struct recon *r, struct fleet_judged *j,
    const struct q_engine_fleet_move_nodes_row *n)
{
	size_t k = 0;

	while (k < j->ask.have_n && j->have[k].pool_id != n->pool_id) {
		k++;
	}
	if (k == j->ask.have_n) {
		j->have[j->ask.have_n++] = (struct fleet_have){ .pool_id = n->pool_id,
			.zone = n->zone,
			.region = n->region,
			.provider = n->provider,
			.market = n->market,
			.gpu_milli = n->gpu_milli,
			.price_micros = n->price_micros,
			.offer = offer_find(r->e, n->pool_id) };
	}
	j->have[k].nodes++;
	j->have[k].idle += !n->used;
}

static void nodes_take(struct recon *r, struct fleet_judged *j)
{
	j->have = arena_array(r->arena, j->rows_n + 1, sizeof(*j->have));
	j->nodes = arena_array(r->arena, j->rows_n + 1, sizeof(*j->nodes));
	j->of = arena_array(r->arena, j->rows_n + 1, sizeof(*j->of));
	j->leaving = arena_array(r->arena, j->rows_n + 1, sizeof(*j->leaving));
	for (size_t i = 0; i < j->rows_n; i++) {
		const struct q_engine_fleet_move_nodes_row *n = &j->rows[i];

		if (n->has_replacement_id && n->state != NODE_TERMINATING) {
			j->leaving[j->in.leaving_n++] =
			    (struct fleet_leaving){ n->provider, n->region, n->zone };
		}
		if (node_counted(n)) {
			have_add(r, j, n);
			j->of[j->in.n] = n;
			node_fill(r, n, &j->nodes[j->in.n++]);
		}
	}
}

/* ---- the decision ---------------------------------------------------------------------------- */

static bool offer_tight(const void *ctx, const struct offer *o)
{
	return supply_tight(ctx, o);
}

static void refused_read(struct recon *r, struct fleet_judged *j)
{
	const struct offer **list = NULL;
	size_t n = 0, cap = 0;
	char *end;

	for (const char *at = j->facts->refused; at != NULL && *at != '\0' && n < REFUSED_MOST;
	     at = end) {
		const struct offer *o = offer_find(r->e, (int32_t)strtol(at, &end, 10));

		if (o != NULL) {
			list = arena_grow(r->arena, list, n, &cap, sizeof(*list));
			list[n++] = o;
		}
	}
	j->in.refused = list;
	j->in.refused_n = n;
}

static void moves_choose(struct recon *r, const struct fleet_moving *m, struct fleet_judged *j)
{
	const struct engine *e = r->e;
	struct fleet_use *use = arena_alloc(r->arena, sizeof(*use));
	struct score *scores;

	fleet_job(j->spec, &use->job);
	use->saves = (struct fleet_saves){ j->facts->saved_bytes, j->facts->save_us };
	fleet_rank(r, e->offers.list, e->offers.n, use, &scores, &j->ask.scores_n);
	j->ask.scores = scores;
	nodes_take(r, j);
	fleet_have_score(r, use, j->have, j->ask.have_n);
	refused_read(r, j);
	j->ask.spec = j->spec;
	j->ask.have = j->have;
	j->ask.hazards = e->offers.hazards;
	j->policy = move_policy(e);
	j->in.ask = &j->ask;
	j->in.nodes = j->nodes;
	j->in.policy = &j->policy;
	j->in.return_only = m->return_only;
	j->in.tight = offer_tight;
	j->in.tight_ctx = e;
	j->in.leaving = j->leaving;
	j->in.began_hour = j->facts->began_hour;
	j->in.probes_refused = j->facts->probes_refused;
	j->in.last_probe_us = j->facts->last_probe_us;
	j->in.store_provider = e->conf.store_provider;
	j->in.store_region = e->conf.store_region;
	j->in.now_us = engine_now(e);
	fleet_moves_choose(r->arena, &j->in, &j->out);
}

/* ---- replacements and the answer ------------------------------------------------------------- */

static void wanted(struct step *s)
{
	offers_write_end(s->r->e);
}

static void replacement_want(struct recon *r, const struct fleet_judged *j,
    const struct fleet_move *m)
{
	const struct q_engine_fleet_move_nodes_row *n = j->of[m->node];
	const struct offer *to = m->to->offer;
	bool back = n->market == SPOT_MARKET_ON_DEMAND && spot_market_reclaims(to->market);
	AUTO(json)
	json_t *in = json_pack("{s:I, s:s, s:I, s:o}", "now_us", (json_int_t)j->in.now_us, "fleet",
	    j->facts->name, "version", (json_int_t)j->facts->version, "move",
	    fleet_move_json(&j->in, m));
	AUTO(json) json_t *out = json_pack("{s:o}", "pool", score_json(m->to));
	struct q_node_label *label = node_labels_make(r, 1);
	struct step *s = step_new(r, wanted, NULL);

	s->always = true;
	offers_count(r->e, to, 1);
	offers_write_begin(r->e);
	log_info("fleet.replaces", STR("fleet", j->facts->name), I64("node", n->id),
	    I64("pool", to->pool_id), STR("why", m->why));
	STEP(s, engine_fleet_move_want,
	    (&(struct q_engine_fleet_move_want){ .fleet_id = j->facts->id,
		.version = j->facts->version,
		.node_id = n->id,
		.at_once = m->ends ? INT32_MAX : fleet_rebalance_of(j->spec).at_once,
		.pool_id = to->pool_id,
		.token = label->token,
		.name = label->name,
		.price_micros = to->price_micros,
		.kind = back ? "return" : "rebalance",
		.inputs = json_text(r->arena, in),
		.outcome = json_text(r->arena, out),
		.why = m->why,
		.at_us = j->in.now_us,
		.fence = r->epoch }));
}

static json_t *place_json(const struct score *s, const struct q_engine_fleet_move_nodes_row *n)
{
	const struct offer *o = s != NULL ? s->offer : NULL;

	return json_pack("{s:o, s:s, s:s, s:s, s:s, s:s, s:I}", "id",
	    json_sprintf("p%d", (int)(o != NULL ? o->pool_id : n->pool_id)), "provider",
	    o != NULL ? o->provider : n->provider, "region", o != NULL ? o->region : n->region,
	    "zone", o != NULL ? o->zone : n->zone, "instance_type",
	    o != NULL ? o->instance_type : "", "market",
	    spot_market_name(o != NULL ? o->market : n->market), "price_micros",
	    (json_int_t)(o != NULL ? o->price_micros : n->price_micros));
}

static json_t *node_json(const struct fleet_judged *j,
    const struct q_engine_fleet_move_nodes_row *n, const char *why)
{
	json_t *out =
	    json_pack("{s:o, s:s, s:o, s:s}", "fleet", json_sprintf("f%" PRId64, j->facts->id),
		"fleet_name", j->facts->name, "node", json_sprintf("n%" PRId64, n->id), "why", why);

	json_object_set_new(out, "job",
	    n->has_job_id ? json_sprintf("j%" PRId64, n->job_id) : json_null());
	return out;
}

static json_t *move_shown(const struct fleet_judged *j, const struct fleet_move *m, bool done)
{
	json_t *out = node_json(j, j->of[m->node], m->why);

	json_object_set_new(out, "from", place_json(m->here, j->of[m->node]));
	json_object_set_new(out, "to", place_json(m->to, j->of[m->node]));
	json_object_set_new(out, "saving_micros", json_integer(m->saving_micros));
	json_object_set_new(out, "cost_micros", json_integer(m->cost_micros));
	json_object_set_new(out, "terms", fleet_move_json(&j->in, m));
	json_object_set_new(out, "done", json_boolean(done));
	return out;
}

static const char *away_words(struct recon *r, const struct q_engine_fleet_move_nodes_row *n)
{
	char text[32];
	int64_t wait = n->replacement_ready_us + r->e->conf.supply.return_hold_us;

	if (n->replacement_state != NODE_READY) {
		return arena_printf(r->arena, "moves to n%" PRId64 ", which is %s",
		    n->replacement_id, node_state_name(n->replacement_state));
	}
	return arena_printf(r->arena, "moves to n%" PRId64 " in %s", n->replacement_id,
	    format_duration(MAX(wait - engine_now(r->e), 0), text));
}

static void answer_add(struct recon *r, struct fleet_moving *m, const struct fleet_judged *j)
{
	for (size_t i = 0; i < j->out.n; i++) {
		const struct fleet_move *x = &j->out.moves[i];

		if (x->now) {
			json_array_append_new(m->moves, move_shown(j, x, !m->dry));
			m->saves_micros += x->saving_micros - x->cost_micros;
		} else {
			json_array_append_new(m->kept, node_json(j, j->of[x->node], x->why));
		}
	}
	for (size_t i = 0; i < j->out.stays_n; i++) {
		const struct fleet_stay *x = &j->out.stays[i];

		json_array_append_new(m->kept, node_json(j, j->of[x->node], x->why));
	}
	for (size_t i = 0; i < j->rows_n; i++) {
		const struct q_engine_fleet_move_nodes_row *n = &j->rows[i];

		if (n->has_replacement_id && !node_leaves(n)) {
			json_array_append_new(m->kept, node_json(j, n, away_words(r, n)));
		}
	}
	m->nodes += j->in.n;
}

static void reasons_store(struct recon *r, const struct fleet_moving *m,
    const struct fleet_judged *j)
{
	AUTO(json) json_t *doc = json_pack("{s:O, s:O}", "moves", m->moves, "kept", m->kept);
	struct step *s = step_new(r, NULL, NULL);

	STEP(s, engine_fleet_moves_shown,
	    (&(struct q_engine_fleet_moves_shown){ .id = j->facts->id,
		.version = j->facts->version,
		.moves = json_text(r->arena, doc),
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
	json_array_clear(m->moves);
	json_array_clear(m->kept);
}

void fleet_moves_judge(struct recon *r, struct fleet_moving *m,
    const struct q_engine_fleet_move_facts_row *f, const struct q_engine_fleet_move_nodes_row *rows,
    size_t n)
{
	struct fleet_judged *j = arena_alloc(r->arena, sizeof(*j));

	j->facts = f;
	j->rows = rows;
	j->rows_n = n;
	if (!fleet_spec_read(r, f->id, f->spec, &j->spec)) {
		return;
	}
	if (f->has_size) {
		fleet_spec_resize(j->spec, f->size);
	}
	if (j->spec->scaling != NULL) {
		j->in.expires_us = fleet_expiry_us(j->spec->scaling, f->created_us);
	}
	moves_choose(r, m, j);
	for (size_t i = 0; i < j->out.now && !m->dry; i++) {
		replacement_want(r, j, &j->out.moves[i]);
	}
	answer_add(r, m, j);
	if (m->shown) {
		reasons_store(r, m, j);
	}
}
