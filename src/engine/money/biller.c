/*
 * Ledger lines from node intervals, cut at attempt boundaries and price changes. One statement
 * writes them with the new billed_to of a group of machines. It bills each only from the billed_to
 * that its lines were computed from.
 * Work that was lost is reversed and written again under its own name. A provider may give time for
 * free: AWS the first hour of a spot machine that it reclaims early. Such time is billed as it
 * runs, and credited once the provider confirms that the reclaim was its own
 * (docs.aws.amazon.com/AWSEC2/latest/UserGuide/billing-for-interrupted-spot-instances.html).
 */
#include "base/base.h"
#include "core/money/money.h"
#include "engine/kernel/kernel.h"
#include "engine/money/money.h"

#define LOST_LOOK_BACK_US (INT64_C(7) * 86400 * SPOT_US_PER_S)
/* Lines read of one attempt, 192 bytes each in the pass's arena, 50 attempts a pass; later lines
 * are rewritten unread. */
#define LOST_LINES INT64_C(1000)

/* Of that many machines a pass writes lines. Behind a full page of running ones it pauses. So with
 * thousands of machines lines get longer instead of more, at a hundredth of a core.
 * Budgets count time without a line too. Machines that have ended come first, without a pause. */
#define BILLS_MOST 200
#define BILLS_PAUSE_US (20 * SPOT_US_PER_S)
/* A statement writes so many machines, and no further one after so many lines. */
#define GROUP_MOST 50
#define GROUP_LINES 1000

struct biller {
	int64_t next_us; /* mono: no pass before that */
	bool refused; /* a group, or a machine by itself, was refused in the last pass */
	bool singly; /* this pass writes each machine by itself */
};

struct billing {
	struct q_engine_bill_due_row row;
	int64_t from_us, to_us;
	struct ledger_price *prices;
	size_t prices_n;
	struct ledger_attempt *attempts;
	size_t attempts_n;
	struct ledger_line *lines;
	size_t lines_n;
};

/* The machines of a pass, in the order of their ids. */
struct bills {
	struct billing *list;
	size_t n;
	int waits; /* for their prices and attempts */
};

static void bill_cut(struct recon *r, struct billing *b)
{
	const struct q_engine_bill_due_row *w = &b->row;

	if (b->to_us > b->from_us) {
		ledger_cut(r->arena, w->launched_us, b->from_us, b->to_us,
		    w->has_ready_us ? w->ready_us : 0,
		    /* A fleet's machine belongs to the fleet between two jobs. */
		    w->has_job_id && !w->has_fleet_id ? w->job_id : 0, b->prices, b->prices_n,
		    b->attempts, b->attempts_n, &b->lines, &b->lines_n);
	}
}

/* One row that the database refuses takes its group with it. Then each machine is written by
 * itself, until a pass in which none is refused. */
static void group_written(struct step *s)
{
	struct biller *st = s->r->state;

	if (s->req.op.rc != SPOT_OK) {
		st->refused = true;
		st->next_us = st->singly ? st->next_us : 0;
	}
}

static void group_write(struct recon *r, const struct billing *group, size_t n, size_t lines_n)
{
	struct q_engine_bill_write_machine *machines = arena_array(r->arena, n, sizeof(*machines));
	struct q_engine_bill_write_line *lines = arena_array(r->arena, lines_n + 1, sizeof(*lines));
	struct step *s = step_new(r, group_written, NULL);
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		const struct billing *b = &group[i];

		machines[i] = (struct q_engine_bill_write_machine){ .node_id = b->row.id,
			.from_us = b->from_us,
			.to_us = b->to_us,
			.first = !b->row.has_billed_to_us };
		for (size_t k = 0; k < b->lines_n; k++) {
			const struct ledger_line *l = &b->lines[k];

			lines[at++] = (struct q_engine_bill_write_line){ .node_id = b->row.id,
				.kind = l->kind,
				.job_id = l->job_id,
				.epoch = l->epoch,
				.from_us = l->from_us,
				.to_us = l->to_us,
				.price_micros = l->price_micros,
				.price_observed_us = l->price_observed_us,
				.amount_micros = l->amount_micros };
		}
	}
	s->always = true;
	STEP(s, engine_bill_write,
	    (&(struct q_engine_bill_write){ .machine = machines,
		.machine_n = n,
		.line = lines,
		.line_n = at,
		.at_us = engine_now(r->e),
		.day = engine_day(r->e),
		.fence = r->epoch }));
}

static void bills_ready(struct recon *r, struct bills *p)
{
	const struct biller *st = r->state;
	size_t most = st->singly ? 1 : GROUP_MOST, from = 0, lines = 0;

	if (--p->waits > 0) {
		return;
	}
	for (size_t i = 0; i < p->n; i++) {
		bill_cut(r, &p->list[i]);
		lines += p->list[i].lines_n;
		if (i + 1 == p->n || i + 1 - from == most || lines >= GROUP_LINES) {
			group_write(r, &p->list[from], i + 1 - from, lines);
			from = i + 1;
			lines = 0;
		}
	}
}

static void bill_prices(struct step *s)
{
	struct bills *p = s->ctx;
	struct q_engine_bill_prices_row *rows;
	size_t n = q_engine_bill_prices_rows(&s->req, s->r->arena, &rows), at = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct billing *b = &p->list[i];
		size_t end = at;

		while (end < n && rows[end].node_id == b->row.id) {
			end++;
		}
		b->prices = arena_array(s->r->arena, end - at + 1, sizeof(*b->prices));
		/* Without a point from before the interval, the price noted at the launch holds
		 * until the first one. */
		if (end == at || rows[at].effective_us > b->from_us) {
			b->prices[b->prices_n++] =
			    (struct ledger_price){ .from_us = b->row.launched_us,
				    .price_micros = b->row.price_micros };
		}
		for (; at < end; at++) {
			b->prices[b->prices_n++] =
			    (struct ledger_price){ .from_us = rows[at].effective_us,
				    .price_micros = rows[at].price_micros,
				    .observed_us = rows[at].observed_us };
		}
	}
	bills_ready(s->r, p);
}

static void bill_attempts(struct step *s)
{
	struct bills *p = s->ctx;
	struct q_engine_bill_attempts_row *rows;
	size_t n = q_engine_bill_attempts_rows(&s->req, s->r->arena, &rows), at = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct billing *b = &p->list[i];
		size_t end = at;

		while (end < n && rows[end].node_id == b->row.id) {
			end++;
		}
		b->attempts = arena_array(s->r->arena, end - at + 1, sizeof(*b->attempts));
		for (; at < end; at++) {
			b->attempts[b->attempts_n++] =
			    (struct ledger_attempt){ .job_id = rows[at].job_id,
				    .epoch = rows[at].epoch,
				    .from_us = rows[at].from_us,
				    .to_us = rows[at].to_us };
		}
	}
	bills_ready(s->r, p);
}

static int bills_compare(const void *a, const void *b)
{
	const struct billing *x = a, *y = b;

	return x->row.id < y->row.id ? -1 : x->row.id > y->row.id;
}

static struct bills *bills_make(struct recon *r, const struct q_engine_bill_due_row *rows, size_t n)
{
	int64_t settled_us = engine_now(r->e) - r->e->conf.bill_lag_us;
	struct bills *p = arena_alloc(r->arena, sizeof(*p));

	*p = (struct bills){ .n = n, .waits = 2 };
	p->list = arena_array(r->arena, n, sizeof(*p->list));
	for (size_t i = 0; i < n; i++) {
		const struct q_engine_bill_due_row *w = &rows[i];
		int64_t from_us = w->has_billed_to_us ? w->billed_to_us : w->launched_us;

		p->list[i] = (struct billing){ .row = *w,
			.from_us = from_us,
			.to_us = MAX(w->has_ended_us ? w->ended_us : settled_us, from_us) };
	}
	qsort(p->list, n, sizeof(*p->list), bills_compare);
	return p;
}

static void bill_due(struct step *s)
{
	struct q_engine_bill_due_row *rows;
	size_t n = q_engine_bill_due_rows(&s->req, s->r->arena, &rows);
	struct recon *r = s->r;
	struct biller *st = r->state;
	struct q_engine_bill_prices_span *pools = arena_array(r->arena, n + 1, sizeof(*pools));
	struct q_engine_bill_attempts_span *spans = arena_array(r->arena, n + 1, sizeof(*spans));
	struct bills *p;

	if (n == BILLS_MOST && !rows[n - 1].has_ended_us) {
		st->next_us = loop_mono_us(r->e->loop) + BILLS_PAUSE_US;
	}
	/* Our clock may have stepped since the statement was sent. */
	if (n == 0 || clock_doubted(r->e)) {
		return;
	}
	st->singly = st->refused;
	st->refused = false;
	p = bills_make(r, rows, n);
	for (size_t i = 0; i < n; i++) {
		const struct billing *b = &p->list[i];

		spans[i] = (struct q_engine_bill_attempts_span){ .node_id = b->row.id,
			.from_us = b->from_us,
			.to_us = b->to_us };
		pools[i] = (struct q_engine_bill_prices_span){ .node_id = b->row.id,
			.pool_id = b->row.pool_id,
			.from_us = b->from_us,
			.to_us = b->to_us };
	}
	s = step_new(r, bill_prices, p);
	STEP(s, engine_bill_prices, (&(struct q_engine_bill_prices){ .span = pools, .span_n = n }));
	s = step_new(r, bill_attempts, p);
	STEP(s, engine_bill_attempts,
	    (&(struct q_engine_bill_attempts){ .span = spans, .span_n = n }));
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
