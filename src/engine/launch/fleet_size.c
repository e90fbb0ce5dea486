/*
 * Decides the size of fleets that follow demand, by core/fleet/fleet_size.h, and writes it to the
 * fleet's row. fleet.c brings the nodes to that size. A pass covers a page of such fleets with one
 * read. The size is written when it changes. Its reason is written at most each NOTE_US.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"
#include "engine/launch/launch_priv.h"

#define PAGE 50 /* fleets in a pass */
#define NOTE_US (5 * SPOT_US_PER_S)
/* Changes of jobs and nodes come in bursts: a read follows the last one no sooner. */
#define PAUSE_US INT64_C(250000)
#define PAUSES 3
#define ZONES_US SPOT_US_PER_HOUR /* the zone database is read again */

struct zone_kept {
	const char *name;
	const struct zone *zone; /* NULL: not in the database */
	struct zone_kept *next;
};
struct size_state {
	int64_t after; /* the next pass begins behind this fleet; 0 = with the first */
	int64_t read_us, next_us; /* mono: the read began, and the next begins */
	int64_t soon_us; /* wall: the first clock edge of the pages so far; 0 = none */
	struct arena *zones_arena;
	struct zone_kept *zones;
	int64_t zones_us; /* mono: since when they are kept */
};
/* ---- zones ----------------------------------------------------------------------------------- */

static const struct zone *zone_find(struct recon *r, const char *name)
{
	struct size_state *st = r->state;
	int64_t now = loop_mono_us(r->e->loop);
	struct spot_err err = { 0 };
	struct zone_kept *z;

	if (st->zones_arena == NULL) {
		st->zones_arena = arena_new(0);
	}
	if (now - st->zones_us > ZONES_US) {
		arena_reset(st->zones_arena);
		st->zones = NULL;
		st->zones_us = now;
	}
	for (z = st->zones; z != NULL; z = z->next) {
		if (strcmp(z->name, name) == 0) {
			return z->zone;
		}
	}
	z = arena_alloc(st->zones_arena, sizeof(*z));
	*z = (struct zone_kept){ .name = arena_strdup(st->zones_arena, name), .next = st->zones };
	if (zone_load(st->zones_arena, name, &z->zone, &err) != SPOT_OK) {
		log_error("fleet.zone", STR("zone", name), STR("error", err.text));
		z->zone = NULL;
	}
	st->zones = z;
	return z->zone;
}

static bool zones_read(struct recon *r, const struct fleet_scaling *s,
    const struct zone *const **ret)
{
	const struct zone **list = arena_array(r->arena, s->windows_n + 1, sizeof(*list));

	for (size_t i = 0; i < s->windows_n; i++) {
		list[i] = zone_find(r, s->windows[i].tz);
		if (list[i] == NULL) {
			return false;
		}
	}
	*ret = list;
	return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Nodes on their way out do not count, nor those that move in for a node which still counts. */
static bool node_counts(const struct q_engine_fleet_nodes_row *n)
{
	return n->state != NODE_DRAINING && n->state != NODE_TERMINATING && !n->stands_in;
}

static void node_read(const struct fleet_spec *f, const struct q_engine_fleet_nodes_row *n,
    struct fleet_size_node *ret)
{
	int64_t milli = fleet_node_milli(f, n->gpu_name, n->gpu_milli);

	*ret = (struct fleet_size_node){ .used = n->used,
		.ready = n->state == NODE_READY,
		.unsent = n->state == NODE_WANTED,
		.idle_since_us = n->idle_since_us,
		.milli = milli,
		.floor = spot_market_reclaims(n->market) ? 0
		    : f->floor_pm > 0                    ? milli
							 : 1 };
}

size_t fleet_idle_find(struct arena *a, const struct q_engine_fleet_nodes_row *nodes, size_t n,
    const struct fleet_spec *spec, int64_t floor_want, size_t **ret)
{
	struct fleet_size_node *list = arena_array(a, n + 1, sizeof(*list));
	size_t *from = arena_array(a, n + 1, sizeof(*from)), *at, k = 0, found;
	int64_t floor_spare = -floor_want;

	for (size_t i = 0; i < n; i++) {
		if (node_counts(&nodes[i])) {
			from[k] = i;
			node_read(spec, &nodes[i], &list[k++]);
			floor_spare += list[k - 1].floor;
			/* Under a call: its outcome comes first. */
			list[k - 1].used |=
			    nodes[i].state == NODE_LAUNCHING || nodes[i].state == NODE_UNKNOWN;
		}
	}
	found = fleet_give_idle(a, list, k, spec->scaling->by_gpus ? spec->gpus : spec->nodes,
	    floor_spare, &at);
	for (size_t i = 0; i < found; i++) {
		at[i] = from[at[i]];
	}
	*ret = at;
	return found;
}

static bool nodes_take(struct recon *r, const struct q_engine_fleet_sizes_row *row,
    const struct fleet_spec *f, struct fleet_size_in *in)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *doc = NULL;
	struct fleet_size_node *list;

	if (json_parse(str_from(row->nodes), "nodes", &doc, &err) != SPOT_OK) {
		log_error("fleet.nodes", I64("fleet", row->id), STR("error", err.text));
		return false;
	}
	in->nodes_n = json_array_size(doc);
	list = arena_array(r->arena, in->nodes_n + 1, sizeof(*list));
	for (size_t i = 0; i < in->nodes_n; i++) {
		const json_t *n = json_array_get(doc, i);
		enum node_state state = node_state_parse(json_string_value(json_array_get(n, 0)));

		list[i] = (struct fleet_size_node){ .used = json_is_true(json_array_get(n, 1)),
			.ready = state == NODE_READY,
			.unsent = state == NODE_WANTED,
			.idle_since_us = json_integer_value(json_array_get(n, 2)),
			.milli = fleet_node_milli(f, json_string_value(json_array_get(n, 3)),
			    json_integer_value(json_array_get(n, 4))) };
	}
	in->nodes = list;
	return true;
}

static bool queue_take(const struct q_engine_fleet_sizes_row *row, const struct fleet_spec *f,
    struct fleet_size_in *in)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *doc = NULL;

	if (json_parse(str_from(row->queue), "queue", &doc, &err) != SPOT_OK) {
		log_error("fleet.queue", I64("fleet", row->id), STR("error", err.text));
		return false;
	}
	in->queue_milli = f->scaling->by_gpus ? 0 : 1000 * in->queue_jobs;
	for (size_t i = 0; f->scaling->by_gpus && i < json_array_size(doc); i++) {
		const json_t *g = json_array_get(doc, i);

		in->queue_milli += fleet_node_milli(f, json_string_value(json_array_get(g, 0)),
		    json_integer_value(json_array_get(g, 1)));
	}
	return true;
}

/* ---- demand ---------------------------------------------------------------------------------- */

static void demand_read(struct recon *r, const struct q_engine_fleet_sizes_row *f,
    const struct fleet_scaling *s, struct fleet_demand *ret)
{
	int64_t per = strcmp(f->demand_unit, "replicas") == 0 ? s->per : 1;

	*ret = (struct fleet_demand){ 0 };
	if (f->has_demand) {
		*ret = (struct fleet_demand){ .there = true,
			.units = (int32_t)MIN(f->demand * per, INT32_MAX / 2),
			.until_us = f->demand_until_us,
			.words = arena_printf(r->arena, "demand of %d %s by %s", (int)f->demand,
			    f->demand_unit, f->demand_by) };
	}
}

static void metric_demand(struct recon *r, const struct q_engine_fleet_sizes_row *f,
    const struct fleet_metric *m, int64_t now_us, struct fleet_demand *ret)
{
	const struct fleet_answer last = { .there = f->has_metric_value,
		.before_there = f->has_metric_before,
		.value = f->metric_value,
		.before = f->metric_before,
		.at_us = f->metric_us,
		.error = f->metric_error };

	*ret = (struct fleet_demand){ 0 };
	if (m->url != NULL) {
		fleet_metric_demand(r->arena, m, &last, now_us, ret);
	}
}

/* ---- the decision ---------------------------------------------------------------------------- */

static const char *seen_text(struct recon *r, const struct fleet_size_in *in,
    const struct fleet_size *d)
{
	const struct fleet_demand *asked = in->demands;
	AUTO(json)
	json_t *o = json_pack("{s:s, s:i, s:f, s:f, s:f, s:I, s:f, s:o, s:i, s:i}", "unit",
	    in->scaling->by_gpus ? "gpus" : "nodes", "need", (int)d->need, "used",
	    (double)d->used_milli / 1e3, "idle", (double)d->idle_milli / 1e3, "coming",
	    (double)d->coming_milli / 1e3, "queue_jobs", (json_int_t)in->queue_jobs, "queue",
	    (double)in->queue_milli / 1e3, "demand",
	    asked->there && asked->until_us > in->now_us ? json_integer(asked->units) : json_null(),
	    "min", (int)in->scaling->min, "max", (int)in->scaling->max);

	return json_text(r->arena, o);
}

static void size_write(struct recon *r, const struct q_engine_fleet_sizes_row *f,
    const struct fleet_size_in *in, const struct fleet_size *d)
{
	struct step *s = step_new(r, NULL, NULL);

	STEP(s, engine_fleet_size,
	    (&(struct q_engine_fleet_size){ .id = f->id,
		.version = f->version,
		.has_was = f->has_size,
		.was = f->size,
		.demand_version = f->demand_version,
		.size = d->size,
		.rule = d->rule,
		.why = d->why,
		.seen = seen_text(r, in, d),
		.open = d->open,
		.slack_us = d->slack_us,
		.next_us = d->next_us,
		.closing = d->close,
		.at_us = in->now_us,
		.fence = r->epoch }));
}

static void size_note(struct recon *r, const struct q_engine_fleet_sizes_row *f,
    const struct fleet_size_in *in, const struct fleet_size *d)
{
	bool clock = d->slack_us != f->size_slack_us || d->open != f->size_open,
	     words = strcmp(d->why, f->size_why) != 0 || d->next_us != f->size_next_us;
	struct step *s;

	if (!clock && !words) {
		return;
	}
	if (!clock && in->now_us - f->size_look_us < NOTE_US && in->now_us >= f->size_look_us) {
		recon_later(r, NOTE_US - (in->now_us - f->size_look_us));
		return;
	}
	s = step_new(r, NULL, NULL);
	STEP(s, engine_fleet_size_note,
	    (&(struct q_engine_fleet_size_note){ .id = f->id,
		.version = f->version,
		.has_was = f->has_size,
		.was = f->size,
		.demand_version = f->demand_version,
		.rule = d->rule,
		.why = d->why,
		.seen = seen_text(r, in, d),
		.open = d->open,
		.slack_us = d->slack_us,
		.next_us = d->next_us,
		.at_us = in->now_us,
		.fence = r->epoch }));
}

static bool spec_read(struct recon *r, const struct q_engine_fleet_sizes_row *f,
    struct fleet_spec *ret)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *doc = NULL;

	if (json_parse(str_from(f->scaling), "fleet.spec", &doc, &err) == SPOT_OK) {
		*ret = (struct fleet_spec){ .gpus_of = f->gpus_of,
			.scaling = fleet_scaling_from_json(r->arena, doc, &err) };
	}
	if (err.rc != SPOT_OK) {
		log_error("fleet.spec", I64("fleet", f->id), STR("error", err.text));
	}
	return err.rc == SPOT_OK;
}

static void fleet_size_one(struct recon *r, const struct q_engine_fleet_sizes_row *f)
{
	struct size_state *st = r->state;
	struct fleet_demand demands[2];
	struct fleet_size_in in = { .now_us = engine_now(r->e),
		.created_us = f->created_us,
		.sized = f->has_size,
		.open = f->size_open,
		.size = f->size,
		.size_us = f->size_us,
		.slack_us = f->size_slack_us,
		.queue_jobs = f->queue_jobs,
		.queue_oldest_us = f->queue_oldest_us,
		.demands = demands,
		.demands_n = ARRAY_LEN(demands) };
	struct fleet_spec spec;
	struct fleet_size d;

	if (!spec_read(r, f, &spec) || !zones_read(r, spec.scaling, &in.zones)) {
		return;
	}
	in.scaling = spec.scaling;
	if (!nodes_take(r, f, &spec, &in) || !queue_take(f, &spec, &in)) {
		return;
	}
	demand_read(r, f, spec.scaling, &demands[0]);
	metric_demand(r, f, &spec.scaling->metric, in.now_us, &demands[1]);
	fleet_size_decide(r->arena, &in, &d);
	if (d.next_us != 0 && (st->soon_us == 0 || d.next_us < st->soon_us)) {
		st->soon_us = d.next_us;
	}
	if (d.close && clock_doubted(r->e)) {
		recon_later(r, SPOT_US_PER_S);
	} else if (d.close || !f->has_size || d.size != f->size) {
		size_write(r, f, &in, &d);
	} else {
		size_note(r, f, &in, &d);
	}
}

static void fleets_in(struct step *s)
{
	struct recon *r = s->r;
	struct size_state *st = r->state;
	struct q_engine_fleet_sizes_row *fleets;
	size_t n = q_engine_fleet_sizes_rows(&s->req, r->arena, &fleets);
	int64_t now = loop_mono_us(r->e->loop);

	st->next_us = now + MAX(PAUSES * (now - st->read_us), PAUSE_US);
	st->after = n == PAGE ? fleets[n - 1].id : 0;
	r->changed |= st->after != 0;
	for (size_t i = 0; i < n; i++) {
		part_begin(r);
		fleet_size_one(r, &fleets[i]);
		part_end(r);
	}
	if (st->after == 0 && st->soon_us != 0) {
		recon_later(r, MAX(st->soon_us - engine_now(r->e), PAUSE_US));
	}
}

static void fleet_size_pass(struct recon *r, void *state)
{
	struct size_state *st = state;
	int64_t now = loop_mono_us(r->e->loop);
	struct step *s;

	if (st->after == 0 && now < st->next_us) {
		recon_later(r, st->next_us - now);
		return;
	}
	if (st->after == 0) {
		st->soon_us = 0;
	}
	st->read_us = now;
	s = step_new(r, fleets_in, NULL);
	STEP(s, engine_fleet_sizes,
	    (&(struct q_engine_fleet_sizes){ .after_id = st->after,
		.most = PAGE,
		.at_us = engine_now(r->e) }));
}

static void fleet_size_fini(void *state)
{
	struct size_state *st = state;

	arena_free(st->zones_arena);
}

const struct recon_kind fleet_size_kind = { .name = "fleet_size",
	.wakes = TOUCH_FLEET | TOUCH_NODE | TOUCH_ATTEMPT | TOUCH_JOB,
	.idle_ticks = 10,
	.state_size = sizeof(struct size_state),
	.fini = fleet_size_fini,
	.pass = fleet_size_pass };
