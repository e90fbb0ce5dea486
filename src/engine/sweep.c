/*
 * Lists everything with our installation tag in every region we know, at start and then regularly.
 * What no live row accounts for is alarmed first and ended after a grace period. An instance
 * without exactly our tag is never touched: accounts are shared.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engine_int.h"
#include "engine/watch.h"

struct sweeping {
	struct watch_place *place;
	struct call_provider *provider;
	struct spot_list list;
	const struct spot_instance **ours;
	size_t n;
	const char **refs, **tokens, **whys;
	int64_t *created;
};

static void doomed_called(struct act *a)
{
	const struct spot_terminate *t = a->ctx;

	if (a->call.op.rc != SPOT_OK) {
		log_warn("orphan.terminate", STR("ref", t->ref),
			 STR("rc", spot_rc_name(a->call.op.rc)), STR("error", a->call.op.err.text));
	} else {
		log_info("orphan.terminated", STR("ref", t->ref));
	}
	act_end(a);
}

static void doom(struct engine *e, const struct sweeping *w, const struct spot_instance *i)
{
	struct act *a = act_new(e, 0, doomed_called);
	struct spot_terminate *t = arena_alloc(a->arena, sizeof(*t));

	*t = (struct spot_terminate){
	    .region = w->place->region,
	    .zone = arena_strdup(a->arena, i->key.zone == NULL ? "" : i->key.zone),
	    .ref = arena_strdup(a->arena, i->ref),
	    .spot_request = arena_strdup(a->arena, i->spot_request == NULL ? "" : i->spot_request),
	};
	a->ctx = t;
	act_call(a, w->provider, CALL_TERMINATE, t, e->conf.call_timeout_us, true);
}

static const struct spot_instance *instance_of(const struct sweeping *w, const char *ref)
{
	for (size_t i = 0; i < w->n; i++) {
		if (strcmp(w->ours[i]->ref, ref) == 0) {
			return w->ours[i];
		}
	}
	return NULL;
}

/* The orphans are known: alarms for the new ones, the end for those whose grace is over. */
static void sweep_judged(struct op *op)
{
	struct act *a = container_of(container_of(op, struct pg_req, op), struct act, req);
	struct sweeping *w = a->ctx;
	struct engine *e = a->e;
	struct q_engine_sweep_orphans_row *rows;
	int64_t now = engine_now(e);
	size_t n, fresh = 0;

	a->writing = false;
	w->place->sweeping = false;
	if (op->rc != SPOT_OK) {
		log_warn("sweep.failed", STR("provider", w->place->provider),
			 STR("error", op->err.text));
		act_end(a);
		return;
	}
	n = q_engine_sweep_orphans_rows(&a->req, a->arena, &rows);
	for (size_t i = 0; i < n; i++) {
		const struct spot_instance *x = instance_of(w, rows[i].ref);
		bool old = x->created_us == 0 || now - x->created_us >= e->conf.orphan_grace_us;

		if (!rows[i].has_alarm_us) {
			log_error("orphan.found", STR("provider", w->place->provider),
				  STR("region", w->place->region), STR("ref", rows[i].ref),
				  STR("why", rows[i].why));
			w->refs[fresh] = rows[i].ref;
			w->whys[fresh] = rows[i].why;
			fresh++;
		} else if (old && now - rows[i].alarm_us >= e->conf.orphan_grace_us) {
			doom(e, w, x);
		}
	}
	if (fresh == 0) {
		act_end(a);
		return;
	}
	pg_req_fini(&a->req);
	ACT_WRITE(a, engine_sweep_alarm,
		  (&(struct q_engine_sweep_alarm){.provider = w->place->provider,
						  .refs = w->refs,
						  .refs_n = fresh,
						  .whys = w->whys,
						  .whys_n = fresh,
						  .at_us = now}));
}

static bool counts(const struct engine *e, const struct spot_instance *i)
{
	return i->install != NULL && strcmp(i->install, e->install) == 0 &&
	       i->state != SPOT_INSTANCE_GONE && i->state != SPOT_INSTANCE_INTERRUPTED &&
	       i->state != SPOT_INSTANCE_STOPPING && i->ref != NULL;
}

static void sweep_called(struct act *a)
{
	struct sweeping *w = a->ctx;
	size_t most = w->list.n;

	if (a->call.op.rc != SPOT_OK) {
		w->place->sweeping = false;
		log_warn("sweep.failed", STR("provider", w->place->provider),
			 STR("region", w->place->region), STR("rc", spot_rc_name(a->call.op.rc)),
			 STR("error", a->call.op.err.text));
		act_end(a);
		return;
	}
	w->ours = arena_array(a->arena, most + 1, sizeof(*w->ours));
	w->refs = arena_array(a->arena, most + 1, sizeof(*w->refs));
	w->tokens = arena_array(a->arena, most + 1, sizeof(*w->tokens));
	w->whys = arena_array(a->arena, most + 1, sizeof(*w->whys));
	w->created = arena_array(a->arena, most + 1, sizeof(*w->created));
	for (size_t i = 0; i < most; i++) {
		const struct spot_instance *x = &w->list.found[i];

		if (counts(a->e, x)) {
			w->ours[w->n] = x;
			w->refs[w->n] = x->ref;
			w->tokens[w->n] = x->token == NULL ? "" : x->token;
			w->created[w->n] = x->created_us;
			w->n++;
		}
	}
	if (w->n == 0) {
		w->place->sweeping = false;
		act_end(a);
		return;
	}
	a->writing = true;
	q_engine_sweep_orphans(a->e->pg, &a->req,
			       &(struct q_engine_sweep_orphans){.provider = w->place->provider,
								.refs = w->refs,
								.refs_n = w->n,
								.tokens = w->tokens,
								.tokens_n = w->n,
								.created = w->created,
								.created_n = w->n},
			       sweep_judged);
}

static void sweep_one(struct engine *e, struct watch_place *place, struct call_provider *p)
{
	struct act *a = act_new(e, 0, sweep_called);
	struct sweeping *w = arena_alloc(a->arena, sizeof(*w));

	w->place = place;
	w->provider = p;
	w->list = (struct spot_list){.region = place->region, .install = e->install};
	a->ctx = w;
	place->sweeping = true;
	place->swept_us = loop_mono_us(e->loop);
	act_call(a, p, CALL_LIST, &w->list, e->conf.call_timeout_us, false);
}

static void sweep_places(struct step *s)
{
	struct q_engine_sweep_places_row *rows;
	size_t n = q_engine_sweep_places_rows(&s->req, s->r->arena, &rows);
	struct engine *e = s->r->e;
	int64_t now = loop_mono_us(e->loop);

	for (size_t i = 0; i < n; i++) {
		struct call_provider *p = engine_provider(e, rows[i].provider);
		bool all = p != NULL && (call_provider_ops(p)->caps & SPOT_CAP_ALL_REGIONS) != 0;
		struct watch_place *place;

		if (p == NULL) {
			continue;
		}
		place = watch_place(e->watch, rows[i].provider, all ? "" : rows[i].region);
		if (!place->sweeping &&
		    (place->swept_us == 0 || now - place->swept_us >= e->conf.sweep_us)) {
			sweep_one(e, place, p);
		}
	}
}

void sweep_run(struct recon *r)
{
	struct step *s = step_new(r, sweep_places, NULL);

	STEP(s, engine_sweep_places, NULL);
}
