/* Recoveries: writes the phases of those under way, and adds those that ended to the histograms.
 * The rows of attempts, checkpoints and nodes tell the phases, so a late pass loses nothing. */
#include "base/base.h"
#include "engine/job/job.h"
#include "engine/kernel/kernel.h"

#define RECOVERIES_MOST 500
#define PAUSE_US (SPOT_US_PER_S / 2)

struct recoveries {
	int64_t after; /* the jobs up to this one were looked at last */
	int64_t next_us; /* mono: no pass before this */
};

static void recoveries_written(struct step *s)
{
	struct recoveries *st = s->r->state;
	struct q_engine_recoveries_row *row;

	if (q_engine_recoveries_rows(&s->req, s->r->arena, &row) == 1 &&
	    row->open >= RECOVERIES_MOST) {
		st->after = row->last;
		recon_later(s->r, PAUSE_US);
	} else {
		st->after = 0;
	}
}

static void recovery_pass(struct recon *r, void *state)
{
	struct recoveries *st = state;
	struct step *s;

	if (!recon_paced(r, &st->next_us, PAUSE_US)) {
		return;
	}
	s = step_new(r, recoveries_written, NULL);
	STEP(s, engine_recoveries,
	    (&(struct q_engine_recoveries){ .after = st->after,
		.most = RECOVERIES_MOST,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

const struct recon_kind recovery_kind = { .name = "recovery",
	.state_size = sizeof(struct recoveries),
	.wakes = TOUCH_JOB | TOUCH_NODE | TOUCH_ATTEMPT | TOUCH_CHECKPOINT | TOUCH_NOTICE,
	.ticks = 1,
	.idle_ticks = 10,
	.pass = recovery_pass };
