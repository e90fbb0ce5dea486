/*
 * Checks the invariants of the rows while everything runs (spotctl doctor --consistency). Each is
 * one statement of consistency.sql that only reads. They run one after the other, so that an
 * examination takes one connection of the database; each sees one snapshot. A statement that does
 * not end in time leaves its invariant untested.
 */
#include "base/base.h"
#include "engine/doctor/doctor_int.h"

/* rows that ended before are not checked again */
#define HISTORY_US (INT64_C(30) * 86400 * SPOT_US_PER_S)
/* work under way has that long beyond its own bounds */
#define SETTLE_US (60 * SPOT_US_PER_S)
#define STUCK_US (600 * SPOT_US_PER_S)
#define SHOWN 5

struct invariant {
	const char *name, *rule, *fix;
	void (*ask)(struct act *a, int64_t now);
};

struct checking {
	size_t at;
};

static void invariant_read(struct op *op);

#define ASK(a, stmt, ...) \
	((a)->writing = true, \
	    q_##stmt((a)->e->pg, &(a)->req, &(struct q_##stmt){ __VA_ARGS__ }, invariant_read))

static void ask_machines(struct act *a, int64_t now)
{
	ASK(a, consistency_machines, .settle_us = now - SETTLE_US - 3 * a->e->conf.watch_us);
}

static void ask_vouched(struct act *a, int64_t now)
{
	ASK(a, consistency_vouched, .up_us = a->e->led_since_us,
	    .silent_us = now - SETTLE_US - a->e->conf.agent_lost_us - 3 * a->e->conf.watch_us);
}

static void ask_outlived(struct act *a, int64_t now)
{
	const struct engine_conf *c = &a->e->conf;

	ASK(a, consistency_outlived, .up_us = a->e->led_since_us,
	    .keep_us = now - SETTLE_US - c->idle_keep_us - c->drain_grace_us - c->launch_timeout_us,
	    .ending_us = now - SETTLE_US - c->terminate_alarm_us);
}

static void ask_epochs(struct act *a, int64_t now)
{
	(void)now;
	ASK(a, consistency_epochs, .none = 0);
}

static void ask_checkpoints(struct act *a, int64_t now)
{
	ASK(a, consistency_checkpoints, .since_us = now - HISTORY_US);
}

static void ask_progress(struct act *a, int64_t now)
{
	ASK(a, consistency_progress, .since_us = now - HISTORY_US);
}

static void ask_ledger_time(struct act *a, int64_t now)
{
	ASK(a, consistency_ledger_time, .since_us = now - HISTORY_US);
}

static void ask_ledger_amounts(struct act *a, int64_t now)
{
	ASK(a, consistency_ledger_amounts, .since_us = now - HISTORY_US);
}

static void ask_ledger_reversals(struct act *a, int64_t now)
{
	ASK(a, consistency_ledger_reversals, .since_us = now - HISTORY_US);
}

static void ask_moving(struct act *a, int64_t now)
{
	ASK(a, consistency_moving, .up_us = a->e->led_since_us,
	    .stuck_us = now - STUCK_US - a->e->conf.drain_grace_us);
}

static void ask_budget(struct act *a, int64_t now)
{
	ASK(a, consistency_budget, .since_us = now - HISTORY_US);
}

static void ask_leaders(struct act *a, int64_t now)
{
	ASK(a, consistency_leaders, .since_us = now - HISTORY_US);
}

static void ask_orphans(struct act *a, int64_t now)
{
	const struct engine_conf *c = &a->e->conf;

	ASK(a, consistency_orphans, .up_us = a->e->led_since_us,
	    .grace_us = now - SETTLE_US - c->orphan_grace_us - 3 * c->sweep_us,
	    .ending_us = now - SETTLE_US - c->terminate_alarm_us - 3 * c->sweep_us);
}

#define LEDGER_FIX \
	"the ledger is never edited: compare with the provider's bill, then book the difference " \
	"where you account"

static const struct invariant invariants[] = {
	{ "machines", "nodes that serve have a machine that is there",
	    "spotctl node show NODE tells what was seen; spotctl node terminate NODE ends it, and "
	    "its job goes on elsewhere",
	    ask_machines },
	{ "vouched", "of each node that serves the agent or the provider was heard",
	    "check the provider (spotctl doctor PROVIDER) and the network between nodes and [api] "
	    "public_url",
	    ask_vouched },
	{ "outlived", "no machine outlives its job",
	    "end it at the provider if it bills; spotctl node terminate NODE asks again",
	    ask_outlived },
	{ "epochs", "of each job one attempt lives, that of its newest epoch",
	    "keep the log of all daemons and cancel the job: two attempts may write at once",
	    ask_epochs },
	{ "checkpoints", "committed checkpoints are whole",
	    "do not let the job be moved before its next checkpoint is committed; see what deletes "
	    "below the store's prefix",
	    ask_checkpoints },
	{ "progress", "attempts began at the newest checkpoint",
	    "the job's work of those steps is done again; keep the daemon's log of that time",
	    ask_progress },
	{ "ledger time", "the ledger has all time of nodes once", LEDGER_FIX, ask_ledger_time },
	{ "ledger amounts", "amounts are interval times price", LEDGER_FIX, ask_ledger_amounts },
	{ "ledger reversals", "reversals take back one line each", LEDGER_FIX,
	    ask_ledger_reversals },
	{ "moving", "jobs that are not over go somewhere",
	    "spotctl job why JOB; the daemon's log names statements and calls that fail",
	    ask_moving },
	{ "budget", "nothing was wanted, and nothing runs, for a job whose budget is used up",
	    "spotctl job cancel JOB stops what runs; spotctl job budget JOB tells what it cost; "
	    "keep the daemon's log of that time",
	    ask_budget },
	{ "leaders", "one daemon led at a time",
	    "set the clocks of the daemons' hosts (chrony), and let only one install use this "
	    "database",
	    ask_leaders },
	{ "orphans", "orphans were ended or are kept",
	    "spotctl leaks shows it; spotctl leaks end REF, or keep REF", ask_orphans },
};

static void invariant_next(struct act *a)
{
	const struct probe *l = a->ctx;
	const struct checking *k = l->more;

	if (k->at < ARRAY_LEN(invariants)) {
		invariants[k->at].ask(a, engine_now(a->e));
	} else {
		probe_write(a);
	}
}

static void invariant_item(struct act *a, const struct invariant *v,
    const struct q_consistency_row *row)
{
	if (row->broken == 0) {
		probe_item(a, v->name, SPOT_CHECK_OK, "", "%s: %" PRId64 " looked at", v->rule,
		    row->checked);
	} else {
		probe_item(a, v->name, SPOT_CHECK_BAD, v->fix,
		    "%" PRId64 " of %" PRId64 " break it (%s): %s%s", row->broken, row->checked,
		    v->rule, row->words, row->broken > SHOWN ? "; ..." : "");
	}
	probe_amount(a, row->broken);
}

static void invariant_read(struct op *op)
{
	struct pg_req *req = container_of(op, struct pg_req, op);
	struct act *a = container_of(req, struct act, req);
	const struct probe *l = a->ctx;
	struct checking *k = l->more;
	const struct invariant *v = &invariants[k->at++];
	struct q_consistency_row *row;

	a->writing = false;
	if (op->rc != SPOT_OK) {
		probe_item(a, v->name, SPOT_CHECK_UNTESTED,
		    "ask again when the database has less to do", "%s: %s", v->rule, op->err.text);
	} else {
		/* all of them have rows of one kind */
		if (q_consistency_machines_rows(req, a->arena, &row) == 1) {
			invariant_item(a, v, row);
		}
	}
	pg_req_fini(req);
	invariant_next(a);
}

void consistency_examine(struct exam *x)
{
	struct act *a = probe_new(x, DOCTOR_SELF, "", "invariants", NULL);
	struct probe *l = a->ctx;

	l->more = arena_alloc(a->arena, sizeof(struct checking));
	*(struct checking *)l->more = (struct checking){ 0 };
	invariant_next(a);
}
