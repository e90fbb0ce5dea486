/* Items about machines that were given up, and were alive or over for long (table verdict). */
#include "base/base.h"
#include "engine/doctor/doctor_priv.h"

#define HISTORY_US (INT64_C(30) * 86400 * SPOT_US_PER_S)

static void verdicts_items(struct act *a, const struct q_engine_doctor_verdicts_row *w)
{
	if (w->alive == 0) {
		probe_item(a, "false recoveries", SPOT_CHECK_OK, "",
		    "of %" PRId64 " machines given up in 30 days none is known to have been alive",
		    w->total);
	} else {
		probe_item(a, "false recoveries", SPOT_CHECK_WARN,
		    "spotctl node show NODE lists the last reports about it; raise [engine] "
		    "agent_lost, or boot_timeout if machines come late",
		    "%" PRId64 " of %" PRId64 " machines given up in 30 days were alive: %s",
		    w->alive, w->total, w->alive_words);
	}
	probe_amount(a, w->alive);
	if (w->missed == 0) {
		probe_item(a, "missed losses", SPOT_CHECK_OK, "",
		    "of %" PRId64 " machines given up in 30 days none was over for long before",
		    w->total);
	} else {
		probe_item(a, "missed losses", SPOT_CHECK_WARN,
		    "spotctl node show NODE lists the last reports about it; check that the "
		    "provider answers (spotctl doctor PROVIDER), and [engine] watch, agent_lost, "
		    "loss_bound",
		    "%" PRId64 " of %" PRId64
		    " machines given up in 30 days were over for too long before: %s",
		    w->missed, w->total, w->missed_words);
	}
	probe_amount(a, w->missed);
	probe_item(a, "suspected machines", SPOT_CHECK_OK, "", "%" PRId64 " now", w->suspects);
	probe_amount(a, w->suspects);
}

static void verdicts_read(struct op *op)
{
	struct pg_req *req = container_of(op, struct pg_req, op);
	struct act *a = container_of(req, struct act, req);
	struct q_engine_doctor_verdicts_row *row;

	a->writing = false;
	if (op->rc == SPOT_OK && q_engine_doctor_verdicts_rows(req, a->arena, &row) == 1) {
		verdicts_items(a, row);
	} else {
		probe_item(a, "false recoveries", SPOT_CHECK_UNTESTED,
		    "ask again when the database has less to do", "%s", op->err.text);
	}
	pg_req_fini(req);
	probe_write(a);
}

void verdicts_examine(struct exam *x)
{
	struct act *a = probe_new(x, DOCTOR_SELF, "", "verdicts", NULL);

	a->writing = true;
	q_engine_doctor_verdicts(a->e->pg, &a->req,
	    &(struct q_engine_doctor_verdicts){ .since_us = engine_now(a->e) - HISTORY_US },
	    verdicts_read);
}
