/* Gives each job that takes any fleet of its team one that has room (core/fleet/fleet_any.c). A job
 * whose fleet closes gets another one. */
#include "base/base.h"
#include "core/fleet/fleet.h"
#include "engine/launch/launch_priv.h"

#define MOST 200 /* jobs of a fleet in a pass */
#define PAUSE_US INT64_C(250000)

struct any_state {
	int64_t next_us; /* mono: the next pass begins */
};

static bool gpus_read(struct recon *r, const char *text, struct fleet_gpus **ret, size_t *ret_n)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *doc = NULL;

	if (json_parse(str_from(text), "gpus", &doc, &err) != SPOT_OK) {
		log_error("fleet.gpus", STR("error", err.text));
		return false;
	}
	*ret_n = json_array_size(doc);
	*ret = arena_array(r->arena, *ret_n + 1, sizeof(**ret));
	for (size_t i = 0; i < *ret_n; i++) {
		const json_t *g = json_array_get(doc, i);

		(*ret)[i] = (struct fleet_gpus){
			arena_strdup(r->arena, json_string_value(json_array_get(g, 0))),
			json_integer_value(json_array_get(g, 1)),
			json_integer_value(json_array_get(g, 2)),
		};
	}
	return true;
}

/* Weighs what SQL counted by GPU. Returns false if it cannot be read. */
static bool work_weigh(struct recon *r, const struct q_engine_fleet_any_row *row,
    struct fleet_any *ret)
{
	struct fleet_gpus *nodes, *queue;
	size_t nodes_n, queue_n;

	ret->weight = MAX(fleet_gpus_work(row->gpus_of, row->gpu, row->weight), 1);
	if (!gpus_read(r, row->nodes, &nodes, &nodes_n) ||
	    !gpus_read(r, row->queue, &queue, &queue_n)) {
		return false;
	}
	ret->grow = fleet_gpus_grow(row->gpus_of, row->most, nodes, nodes_n, queue, queue_n);
	return true;
}

static void fleets_read(struct step *s)
{
	struct recon *r = s->r;
	struct q_engine_fleet_any_row *rows;
	size_t n = q_engine_fleet_any_rows(&s->req, r->arena, &rows), kept = 0;
	struct fleet_any *list = arena_array(r->arena, n + 1, sizeof(*list));
	struct q_engine_fleet_any_set_pick *picks = arena_array(r->arena, n + 1, sizeof(*picks));
	struct step *next;

	for (size_t i = 0; i < n; i++) {
		list[kept] = (struct fleet_any){ .job_id = rows[i].job_id,
			.fleet_id = rows[i].fleet_id,
			.free = rows[i].free,
			.grow = rows[i].grow,
			.weight = rows[i].weight };
		if (*rows[i].gpus_of != '\0') {
			kept += work_weigh(r, &rows[i], &list[kept]);
		} else {
			kept++;
		}
	}
	n = fleet_any_choose(r->arena, list, kept);
	for (size_t i = 0; i < n; i++) {
		picks[i].job_id = list[i].job_id;
		picks[i].fleet_id = list[i].fleet_id;
	}
	if (n > 0) {
		next = step_new(r, NULL, NULL);
		STEP(next, engine_fleet_any_set,
		    (&(struct q_engine_fleet_any_set){ .pick = picks,
			.pick_n = n,
			.at_us = engine_now(r->e),
			.fence = r->epoch }));
	}
}

static void jobs_freed(struct step *s)
{
	struct step *next = step_new(s->r, fleets_read, NULL);

	STEP(next, engine_fleet_any, (&(struct q_engine_fleet_any){ .most = MOST }));
}

static void fleet_any_pass(struct recon *r, void *state)
{
	struct any_state *st = state;
	struct step *s;

	if (!recon_paced(r, &st->next_us, PAUSE_US)) {
		return;
	}
	s = step_new(r, jobs_freed, NULL);
	STEP(s, engine_fleet_any_free, (&(struct q_engine_fleet_any_free){ .fence = r->epoch }));
}

const struct recon_kind fleet_any_kind = { .name = "fleet_any",
	.wakes = TOUCH_FLEET | TOUCH_NODE | TOUCH_ATTEMPT | TOUCH_JOB,
	.idle_ticks = 10,
	.state_size = sizeof(struct any_state),
	.pass = fleet_any_pass };
