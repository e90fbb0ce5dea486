/*
 * Ledger lines from node intervals, cut at attempt boundaries and price changes. One statement
 * writes them with the new billed_to, and succeeds only on the billed_to that it was computed from.
 * Work that was lost is reversed and written again under its own name. A provider may give time for
 * free: AWS the first hour of a spot machine that it reclaims early. Such time is billed as it
 * runs, and credited once the provider confirms that the reclaim was its own
 * (docs.aws.amazon.com/AWSEC2/latest/UserGuide/billing-for-interrupted-spot-instances.html).
 */
#include "base/base.h"
#include "base/log.h"
#include "core/money/ledger.h"
#include "engine/kernel/kernel.h"
#include "engine/money/money.h"

#define LOST_LOOK_BACK_US (INT64_C(7) * 86400 * SPOT_US_PER_S)
/* Lines read of one attempt, 192 bytes each in the pass's arena, 50 attempts a pass; later lines
 * are rewritten unread. */
#define LOST_LINES INT64_C(1000)

struct billing {
	struct q_engine_bill_due_row row;
	int64_t from_us, to_us;
	struct ledger_price *prices;
	size_t prices_n;
	struct ledger_attempt *attempts;
	size_t attempts_n;
	int waits;
};

static void bill_write(struct recon *r, const struct billing *b)
{
	const struct q_engine_bill_due_row *w = &b->row;
	struct ledger_line *lines = NULL;
	struct q_engine_bill_write_line *rows;
	struct step *s;
	size_t n = 0;

	if (b->to_us > b->from_us) {
		ledger_cut(r->arena, w->launched_us, b->from_us, b->to_us,
		    w->has_ready_us ? w->ready_us : 0,
		    /* A fleet's machine belongs to the fleet between two jobs. */
		    w->has_job_id && !w->has_fleet_id ? w->job_id : 0, b->prices, b->prices_n,
		    b->attempts, b->attempts_n, &lines, &n);
	}
	rows = arena_array(r->arena, n + 1, sizeof(*rows));
	for (size_t i = 0; i < n; i++) {
		rows[i] = (struct q_engine_bill_write_line){
			.kind = lines[i].kind,
			.job_id = lines[i].job_id,
			.epoch = lines[i].epoch,
			.from_us = lines[i].from_us,
			.to_us = lines[i].to_us,
			.price_micros = lines[i].price_micros,
			.price_observed_us = lines[i].price_observed_us,
			.amount_micros = lines[i].amount_micros,
		};
	}
	s = step_new(r, NULL, NULL);
	STEP(s, engine_bill_write,
	    (&(struct q_engine_bill_write){ .node_id = w->id,
		.from_us = b->from_us,
		.to_us = b->to_us,
		.first = !w->has_billed_to_us,
		.at_us = engine_now(r->e),
		.day = engine_day(r->e),
		.market = w->market,
		.line = rows,
		.line_n = n,
		.fence = r->epoch }));
}

static void bill_ready(struct recon *r, struct billing *b)
{
	if (--b->waits == 0) {
		bill_write(r, b);
	}
}

static void bill_prices(struct step *s)
{
	struct billing *b = s->ctx;
	struct q_engine_bill_prices_row *rows;
	size_t n = q_engine_bill_prices_rows(&s->req, s->r->arena, &rows);
	struct ledger_price *p = arena_array(s->r->arena, n + 1, sizeof(*p));

	/* Without a point from before the interval, the price noted at the launch holds until the
	 * first one. */
	if (n == 0 || rows[0].effective_us > b->from_us) {
		p[b->prices_n++] = (struct ledger_price){ .from_us = b->row.launched_us,
			.price_micros = b->row.price_micros };
	}
	for (size_t i = 0; i < n; i++) {
		p[b->prices_n++] = (struct ledger_price){ .from_us = rows[i].effective_us,
			.price_micros = rows[i].price_micros,
			.observed_us = rows[i].observed_us };
	}
	b->prices = p;
	bill_ready(s->r, b);
}

static void bill_attempts(struct step *s)
{
	struct billing *b = s->ctx;
	struct q_engine_bill_attempts_row *rows;
	size_t n = q_engine_bill_attempts_rows(&s->req, s->r->arena, &rows);

	b->attempts = arena_array(s->r->arena, n + 1, sizeof(*b->attempts));
	for (size_t i = 0; i < n; i++) {
		b->attempts[b->attempts_n++] = (struct ledger_attempt){ .job_id = rows[i].job_id,
			.epoch = rows[i].epoch,
			.from_us = rows[i].from_us,
			.to_us = rows[i].to_us };
	}
	bill_ready(s->r, b);
}

/* Of that many machines a pass writes lines. Behind a full page of running ones it pauses. So with
 * thousands of machines lines get longer instead of more, at a hundredth of a core.
 * Budgets count time without a line too. Machines that have ended come first, without a pause. */
#define BILLS_MOST 200
#define BILLS_PAUSE_US (20 * SPOT_US_PER_S)

struct biller {
	int64_t next_us; /* mono: no pass before that */
};

static void bill_due(struct step *s)
{
	struct q_engine_bill_due_row *rows;
	size_t n = q_engine_bill_due_rows(&s->req, s->r->arena, &rows);
	struct recon *r = s->r;
	struct biller *st = r->state;

	if (n == BILLS_MOST && !rows[n - 1].has_ended_us) {
		st->next_us = loop_mono_us(r->e->loop) + BILLS_PAUSE_US;
	}
	/* Our clock may have stepped since the statement was sent. */
	for (size_t i = 0; i < n && !clock_doubted(r->e); i++) {
		struct billing *b = arena_alloc(r->arena, sizeof(*b));
		struct step *p = step_new(r, bill_prices, b), *t = step_new(r, bill_attempts, b);

		b->row = rows[i];
		b->waits = 2;
		b->from_us = rows[i].has_billed_to_us ? rows[i].billed_to_us : rows[i].launched_us;
		b->to_us = MAX(rows[i].has_ended_us ? rows[i].ended_us
						    : engine_now(r->e) - r->e->conf.bill_lag_us,
		    b->from_us);
		STEP(p, engine_bill_prices,
		    (&(struct q_engine_bill_prices){ .pool_id = rows[i].pool_id,
			.from_us = b->from_us,
			.to_us = b->to_us }));
		STEP(t, engine_bill_attempts,
		    (&(struct q_engine_bill_attempts){ .node_id = rows[i].id,
			.from_us = b->from_us,
			.to_us = b->to_us }));
	}
}

/* ---- lost work ---------------------------------------------------------------------------------
 */

static void lost_lines(struct step *s)
{
	const struct q_engine_lost_due_row *l = s->ctx;
	struct q_engine_lost_lines_row *rows;
	size_t n = q_engine_lost_lines_rows(&s->req, s->r->arena, &rows);
	struct recon *r = s->r;
	struct q_engine_lost_write_part *parts = arena_array(r->arena, 2 * n + 1, sizeof(*parts));
	size_t parts_n = 0;
	int64_t *reversed = arena_array(r->arena, n + 1, sizeof(*reversed));
	struct step *w;

	if (n == 0) {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		int64_t cut = MAX(rows[i].from_us, l->lost_from_us);
		const int64_t ends[] = { rows[i].from_us, cut, rows[i].to_us };

		reversed[i] = rows[i].id;
		for (int k = 0; k < 2; k++) {
			if (ends[k + 1] <= ends[k]) {
				continue;
			}
			parts[parts_n++] = (struct q_engine_lost_write_part){
				.line_id = rows[i].id,
				.kind = k == 0 ? "compute" : "lost_work",
				.from_us = ends[k],
				.to_us = ends[k + 1],
				.amount_micros = ledger_amount(l->launched_us, ends[k], ends[k + 1],
				    rows[i].price_micros),
			};
		}
	}
	w = step_new(r, NULL, NULL);
	STEP(w, engine_lost_write,
	    (&(struct q_engine_lost_write){ .job_id = l->job_id,
		.epoch = l->epoch,
		.at_us = engine_now(r->e),
		.ids = reversed,
		.ids_n = n,
		.part = parts,
		.part_n = parts_n,
		.fence = r->epoch,
		.node_id = l->node_id,
		.from_us = l->lost_from_us,
		.after_id = n < LOST_LINES ? 0 : rows[n - 1].id }));
}

/* ---- credits --------------------------------------------------------------------------------- */

static void credit_due(struct step *s)
{
	struct q_engine_credit_due_row *rows;
	size_t n = q_engine_credit_due_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		struct step *w = step_new(s->r, NULL, NULL);

		STEP(w, engine_credit_write,
		    (&(struct q_engine_credit_write){ .node_id = rows[i].id,
			.at_us = engine_now(s->r->e),
			.why = arena_printf(s->r->arena,
			    "%s, so it is not billed: %" PRId64 " micro-dollars credited",
			    rows[i].never_ran ? "the provider refused it before it ran"
					      : "the provider took it back early",
			    rows[i].credit_micros),
			.fence = s->r->epoch }));
	}
}

static void credits_read(struct recon *r)
{
	struct q_engine_credit_due_provider *rows =
	    arena_array(r->arena, engine_providers(r->e) + 1, sizeof(*rows));
	struct step *s;
	size_t n = 0;

	for (size_t i = 0; i < engine_providers(r->e); i++) {
		struct call_provider *p = engine_provider_at(r->e, i);

		if (call_provider_ops(p)->reclaim_free_us > 0) {
			rows[n++] = (struct q_engine_credit_due_provider){
				.name = call_provider_name(p),
				.free_us = call_provider_ops(p)->reclaim_free_us,
			};
		}
	}
	s = step_new(r, credit_due, NULL);
	STEP(s, engine_credit_due,
	    (&(struct q_engine_credit_due){ .provider = rows,
		.provider_n = n,
		.since_us = engine_now(r->e) - LOST_LOOK_BACK_US }));
}

static void lost_due(struct step *s)
{
	struct q_engine_lost_due_row *rows;
	size_t n = q_engine_lost_due_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		struct step *l = step_new(s->r, lost_lines, &rows[i]);

		STEP(l, engine_lost_lines,
		    (&(struct q_engine_lost_lines){ .job_id = rows[i].job_id,
			.epoch = rows[i].epoch,
			.node_id = rows[i].node_id,
			.from_us = rows[i].lost_from_us,
			.most = LOST_LINES }));
	}
}

static void biller_pass(struct recon *r, void *state)
{
	const struct biller *st = state;
	int64_t now = engine_now(r->e), left = st->next_us - loop_mono_us(r->e->loop);
	struct step *s;

	if (clock_doubted(r->e)) {
		return; /* time not billed now is billed later; billed time stays */
	}
	if (left > 0) {
		recon_later(r, left);
		return;
	}
	s = step_new(r, bill_due, NULL);
	STEP(s, engine_bill_due,
	    (&(struct q_engine_bill_due){ .before_us =
					      now - r->e->conf.bill_us - r->e->conf.bill_lag_us,
		.settled_us = now - r->e->conf.bill_lag_us,
		.at_us = now }));
	s = step_new(r, lost_due, NULL);
	STEP(s, engine_lost_due,
	    (&(struct q_engine_lost_due){ .since_us = now - LOST_LOOK_BACK_US }));
	credits_read(r);
}

const struct recon_kind biller_kind = { .name = "biller",
	.state_size = sizeof(struct biller),
	.ticks = 5,
	.wakes = TOUCH_NODE | TOUCH_ATTEMPT | TOUCH_CHECKPOINT | TOUCH_MONEY | TOUCH_VERDICT,
	.pass = biller_pass };
