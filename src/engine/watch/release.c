/*
 * Gives back nodes that no job needs, nodes whose drain is over, and nodes whose agents ignore an
 * order to stop. An agent's time to stop counts like its silence (engine_watch_due): by our
 * monotonic clock, from when this leader first saw the order. Only time with an API up to deliver
 * it counts. A daemon that was paused, or has just taken over, gives it the full time again.
 */
#include "base/base.h"
#include "engine/kernel/kernel.h"
#include "engine/watch/watch.h"
#include "store/store.h"

#define STOP_US (120 * SPOT_US_PER_S)

struct release_told {
	int64_t id;
	int64_t since_us; /* mono */
	int64_t beats;
};

/* Nodes whose agents were told to stop, as seen under the lease `epoch`. */
struct release {
	struct release_told *told;
	size_t n;
	int64_t epoch;
};

static const struct release_told *told_find(const struct release *st, int64_t id)
{
	for (size_t i = 0; i < st->n; i++) {
		if (st->told[i].id == id) {
			return &st->told[i];
		}
	}
	return NULL;
}

/* Keeps the time of each order to stop. A node without a row has stopped or ended. */
static void told_keep(struct recon *r, const struct q_engine_release_due_row *rows, size_t n)
{
	struct release *st = r->state;
	struct release_told *list = calloc(n + 1, sizeof(*list));
	size_t list_n = 0;

	if (list == NULL) {
		abort();
	}
	if (st->epoch != r->epoch) {
		st->n = 0;
	}
	for (size_t i = 0; i < n; i++) {
		const struct release_told *was = told_find(st, rows[i].id);

		if (rows[i].patience_us > 0) {
			list[list_n++] = was != NULL ? *was
						     : (struct release_told){ .id = rows[i].id,
							       .since_us = loop_mono_us(r->e->loop),
							       .beats = rows[i].beats };
		}
	}
	free(st->told);
	st->told = list;
	st->n = list_n;
	st->epoch = r->epoch;
}

static bool patience_over(const struct recon *r, const struct q_engine_release_due_row *w)
{
	const struct release_told *t = told_find(r->state, w->id);

	return t == NULL ||
	    (w->due && loop_mono_us(r->e->loop) - t->since_us >= w->patience_us &&
		(!w->has_beats || w->beats - t->beats >= w->patience_us / (2 * LISTEN_BEAT_US)));
}

static void release_due(struct step *s)
{
	struct q_engine_release_due_row *rows;
	size_t n = q_engine_release_due_rows(&s->req, s->r->arena, &rows);

	if (!lease_held(s->r->e)) {
		return; /* the answer may have been under way for any time */
	}
	told_keep(s->r, rows, n);
	for (size_t i = 0; i < n; i++) {
		bool unsure = rows[i].event == NODE_EV_AMBIGUOUS;

		if (!patience_over(s->r, &rows[i])) {
			continue;
		}
		if (unsure || rows[i].event == NODE_EV_UNWANTED) {
			node_unwanted(s->r, rows[i].id, unsure, rows[i].why);
		} else {
			node_event(s->r, rows[i].id, rows[i].state, rows[i].event, "released",
			    rows[i].why);
		}
	}
}

static void release_pass(struct recon *r, void *state)
{
	const struct engine_conf *c = &r->e->conf;
	struct step *s = step_new(r, release_due, NULL);

	(void)state;
	STEP(s, engine_release_due,
	    (&(struct q_engine_release_due){ .at_us = engine_now(r->e),
		.idle_us = c->idle_keep_us,
		.grace_us = c->drain_grace_us,
		.stop_us = MIN(STOP_US, c->agent_lost_us),
		.notice_us = c->notice_default_us }));
}

static void release_fini(void *state)
{
	struct release *st = state;

	free(st->told);
}

const struct recon_kind release_kind = { .name = "release",
	.idle_ticks = 10,
	.state_size = sizeof(struct release),
	.fini = release_fini,
	.pass = release_pass };
