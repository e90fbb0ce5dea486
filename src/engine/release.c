/* Gives back what no job needs, and nodes whose drain is over. */
#include "base/base.h"
#include "engine/engine_int.h"

static void release_due(struct step *s)
{
	struct q_engine_release_due_row *rows;
	size_t n = q_engine_release_due_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		bool unsure = strcmp(rows[i].event, "AMBIGUOUS") == 0;
		bool overdue = strcmp(rows[i].event, "TERMINATE") == 0;

		if (unsure || strcmp(rows[i].event, "UNWANTED") == 0) {
			node_unwanted(s->r, rows[i].id, unsure, rows[i].why);
		} else {
			node_event(s->r, rows[i].id, rows[i].state,
				   overdue ? NODE_EV_TERMINATE : NODE_EV_RELEASE, "released",
				   rows[i].why);
		}
	}
}

void release_run(struct recon *r)
{
	struct step *s = step_new(r, release_due, NULL);

	STEP(s, engine_release_due,
	     (&(struct q_engine_release_due){.at_us = engine_now(r->e),
					     .idle_us = r->e->conf.idle_keep_us,
					     .grace_us = r->e->conf.drain_grace_us}));
}
