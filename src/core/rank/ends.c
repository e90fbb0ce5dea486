/*
 * Pools that end: reservations with an end date. A run that is longer than ends_h, the hours until
 * the end less two saves and ends_margin_s, begins once more elsewhere (score_terms.starts). Its
 * rest costs as much as in the cheapest pool without an end; price_move has that.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "core/rank/rank_priv.h"

#include <math.h>

/* The least piece of work that is worth a start. */
#define PIECE_H 0.25

int64_t rank_leave_us(const struct rank_policy *p, int64_t save_us)
{
	int64_t save = save_us > 0 ? save_us : p->save_s * SPOT_US_PER_S;

	/* The signal may come in the middle of a save, and the next one takes as long again. */
	return 2 * save + p->ends_margin_s * SPOT_US_PER_S;
}

double rank_ends_h(const struct rank_ctx *c, const struct offer *o)
{
	int64_t left =
	    o->ends_us - c->now_us - rank_leave_us(&c->policy, (int64_t)(c->save_s * 1e6));

	return fmax((double)left / (double)SPOT_US_PER_HOUR, 0);
}

bool rank_ends_suit(struct rank_ctx *c, const struct offer *o)
{
	const struct gpu_memo *g = rank_gpu_near(c, o->gpu_name);
	double speed = c->ref_milli > 0 && o->gpu_milli > 0
	    ? g->speed * (double)o->gpu_milli / c->ref_milli
	    : 1;
	double work = c->work_ref_h / speed;

	if (c->job.spec->checkpoint.path != NULL) {
		work = fmin(work, PIECE_H);
	}
	return (c->job.runs_there ? 0 : c->restart_h) + work <= rank_ends_h(c, o);
}

const char *rank_ends_words(struct arena *a, const struct rank_ctx *c, const struct offer *o)
{
	char left[32];

	format_duration(MAX(o->ends_us - c->now_us, 0), left);
	return c->job.spec->checkpoint.path != NULL
	    ? arena_printf(a, "it ends in %s: too soon for a start, some work and a save", left)
	    : arena_printf(a,
		  "it ends in %s, before the work: without a checkpoint all would be lost", left);
}
