/*
 * Gives back what no job needs, nodes whose drain is over, and those whose agents do not stop what
 * they were told to. How long such an agent had is counted like its silence (engine_watch_due): by
 * our own clock that never jumps, from when we first saw it told under this lease, and only while
 * an API was there to be told. A daemon that was stopped, or has just taken over, gives it its time
 * again.
 */
#include "base/base.h"
#include "engine/kernel/kernel.h"
#include "store/listen.h"

#define STOP_US (120 * SPOT_US_PER_S)

struct release_told {
	int64_t id;
	int64_t since_us; /* mono */
	int64_t beats;
};

static const struct release_told *told_of(const struct engine *e, int64_t id)
{
	for (size_t i = 0; i < e->told_n; i++) {
		if (e->told[i].id == id) {
			return &e->told[i];
		}
	}
	return NULL;
}

/* Keeps since when each has been told; what is not among the rows has stopped, or is over. */
static void told_keep(struct recon *r, const struct q_engine_release_due_row *rows, size_t n)
{
	struct engine *e = r->e;
	struct release_told *list = calloc(n + 1, sizeof(*list));
	size_t list_n = 0;

	if (list == NULL) {
		abort();
	}
	if (e->told_epoch != r->epoch) {
		e->told_n = 0;
	}
	for (size_t i = 0; i < n; i++) {
		const struct release_told *was = told_of(e, rows[i].id);

		if (rows[i].patience_us > 0) {
			list[list_n++] = was != NULL ? *was
						     : (struct release_told){ .id = rows[i].id,
							       .since_us = loop_mono_us(e->loop),
							       .beats = rows[i].beats };
		}
	}
	free(e->told);
	e->told = list;
	e->told_n = list_n;
	e->told_epoch = r->epoch;
}

static bool time_is_up(const struct engine *e, const struct q_engine_release_due_row *w)
{
	const struct release_told *t = told_of(e, w->id);

	return t == NULL ||
	    (w->due && loop_mono_us(e->loop) - t->since_us >= w->patience_us &&
		(!w->has_beats || w->beats - t->beats >= w->patience_us / (2 * LISTEN_BEAT_US)));
}

static void release_due(struct step *s)
{
	struct q_engine_release_due_row *rows;
	size_t n = q_engine_release_due_rows(&s->req, s->r->arena, &rows);

	if (!lease_held(s->r->e)) {
		return; /* how long the answer was on its way, nobody knows */
	}
	told_keep(s->r, rows, n);
	for (size_t i = 0; i < n; i++) {
		bool unsure = strcmp(rows[i].event, "AMBIGUOUS") == 0;
		bool overdue = strcmp(rows[i].event, "TERMINATE") == 0;

		if (!time_is_up(s->r->e, &rows[i])) {
			continue;
		}
		if (unsure || strcmp(rows[i].event, "UNWANTED") == 0) {
			node_unwanted(s->r, rows[i].id, unsure, rows[i].why);
		} else {
			node_event(s->r, rows[i].id, rows[i].state,
			    overdue ? NODE_EV_TERMINATE : NODE_EV_RELEASE, "released", rows[i].why);
		}
	}
}

void release_run(struct recon *r)
{
	const struct engine_conf *c = &r->e->conf;
	struct step *s = step_new(r, release_due, NULL);

	STEP(s, engine_release_due,
	    (&(struct q_engine_release_due){ .at_us = engine_now(r->e),
		.idle_us = c->idle_keep_us,
		.grace_us = c->drain_grace_us,
		.stop_us = MIN(STOP_US, c->agent_lost_us),
		.notice_us = c->notice_default_us }));
}
