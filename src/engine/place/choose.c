/* The engine's side of core/place/placement.h: the facts for a decision, and the node that it
 * wants. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/market/market.h"
#include "engine/place/place_priv.h"

struct place_policy place_policy_of(const struct engine *e)
{
	return engine_place_policy(&e->conf);
}

static size_t spot_sellers(struct recon *r, const char *const **ret)
{
	const struct engine *e = r->e;
	const char **names = arena_array(r->arena, e->providers_n + 1, sizeof(*names));
	size_t n = 0;

	for (size_t i = 0; i < e->providers_n; i++) {
		if ((call_provider_ops(e->providers[i])->caps & SPOT_CAP_SPOT) != 0) {
			names[n++] = call_provider_name(e->providers[i]);
		}
	}
	*ret = names;
	return n;
}

struct place_in place_in(struct recon *r)
{
	const struct offers *o = &r->e->offers;
	struct place_market *m = arena_alloc(r->arena, sizeof(*m));
	struct place_policy *k = arena_alloc(r->arena, sizeof(*k));

	*k = place_policy_of(r->e);
	*m = (struct place_market){ .offers = o->list,
		.offers_n = o->n,
		.rests = o->rests,
		.rests_n = o->rests_n,
		.busy = o->busy,
		.busy_n = o->busy_n,
		.sellers_known = true };
	m->tight_n = supply_tight_groups(r->e, &m->tight);
	m->sellers_n = spot_sellers(r, &m->sellers);
	return (struct place_in){ .arena = r->arena,
		.market = m,
		.policy = k,
		.now_us = engine_now(r->e) };
}

static bool spec_read(struct recon *r, const struct job_facts *f, struct job_spec **ret)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *j = NULL;

	if (json_parse(str_from(f->spec_json), "job.spec", &j, &err) != SPOT_OK ||
	    jobspec_from_json(r->arena, j, ret, &err) != SPOT_OK) {
		log_error("job.spec", I64("job", f->id), STR("error", err.text));
		return false;
	}
	return true;
}

/* An expired cooldown for gangs is read again soon. Without this the engine would ask a thousand
 * times a second until then. */
static void rests_await(struct recon *r, const struct placing *p)
{
	const struct offers *o = &r->e->offers;

	for (size_t i = 0; i < o->rests_n && p->usable < p->gang_n; i++) {
		recon_later(r, MAX(o->rests[i].until_us - engine_now(r->e), SPOT_US_PER_S / 4));
	}
}

bool place_rank(struct recon *r, struct job_facts *f, struct placing *ret)
{
	struct place_in in = place_in(r);
	struct job_spec *spec;

	*ret = (struct placing){ 0 };
	if (!spec_read(r, f, &spec)) {
		return false;
	}
	placement_rank(&in, f, spec, ret);
	rests_await(r, ret);
	return true;
}

static void node_wanted(struct step *s)
{
	struct q_engine_want_for_job_row *rows;

	offers_write_end(s->r->e);
	if (step_rows(s) == 1 && q_engine_want_for_job_rows(&s->req, s->r->arena, &rows) == 1) {
		log_info("node.wanted", I64("node", rows[0].id), STR("why", s->ctx));
	}
}

void place_want(struct recon *r, const struct job_facts *f, const struct placing *p,
    const struct score *s, int64_t replaces_id, const char *kind, const char *why)
{
	struct engine *e = r->e;

	if (f->nodes > 1) {
		gang_want(r, f, p, s, replaces_id != 0, kind, why);
		return;
	}
	struct place_in at = place_in(r);
	AUTO(json) json_t *in = placement_inputs(&at, f, p);
	AUTO(json)
	json_t *out = json_pack("{s:s, s:o}", "choice", spot_market_name(s->offer->market), "pool",
	    score_json(s));
	const struct offer *o = s->offer;
	char token[65], name[65];
	const char *text = arena_printf(r->arena, "%s %s %s %s at %.4f USD/h: %s", o->provider,
	    o->zone[0] != '\0' ? o->zone : o->region, o->instance_type,
	    o->market == SPOT_MARKET_ON_DEMAND ? "on demand" : spot_market_name(o->market),
	    (double)o->price_micros / 1e6, why);
	struct step *st = step_new(r, node_wanted, arena_strdup(r->pass_arena, text));

	token_make(e, token, name);
	st->always = true;
	offers_count(e, o, 1);
	offers_write_begin(e);
	STEP(st, engine_want_for_job,
	    (&(struct q_engine_want_for_job){ .job_id = f->id,
		.was = f->state,
		.epoch = f->epoch,
		.pool_id = o->pool_id,
		.has_replaces_id = replaces_id != 0,
		.replaces_id = replaces_id,
		.token = token,
		.name = name,
		.price_micros = o->price_micros,
		.cap_micros = 0,
		.kind = kind,
		.inputs = json_text(r->arena, in),
		.outcome = json_text(r->arena, out),
		.why = text,
		.at_us = engine_now(e),
		.fence = r->epoch,
		.need_micros = budget_need_of(r, f, p->spec, s->price_micros),
		.end_us = budget_end_us(e) }));
}
