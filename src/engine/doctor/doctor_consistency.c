/*
 * Checks the invariants of the rows while everything runs (spotctl doctor --consistency). Each is a
 * rule of src/store/rules, which only reads. They run one after the other, so that an examination
 * takes one connection of the database; each sees one snapshot. A statement that does not end in
 * time leaves its invariant untested.
 */
#include "base/base.h"
#include "engine/doctor/doctor_priv.h"
#include "store/store.h"

/* rows that ended before are not checked again */
#define HISTORY_US (INT64_C(30) * 86400 * SPOT_US_PER_S)
/* work under way has that long beyond its own bounds */
#define SETTLE_US (60 * SPOT_US_PER_S)
#define STUCK_US (600 * SPOT_US_PER_S)
#define SHOWN 5

struct checking {
	size_t at;
};

static void invariant_read(struct op *op);

/* Returns a rule's time of grace: what happened later than that is still under way. */
static int64_t grace_until(void *act, const char *name)
{
	const struct engine *e = ((const struct act *)act)->e;
	const struct engine_conf *c = &e->conf;
	int64_t now = engine_now(e), settled = now - SETTLE_US;
	const struct {
		const char *name;
		int64_t at_us;
	} graces[] = {
		{ "since", now - HISTORY_US },
		{ "up", e->led_since_us },
		{ "settle", settled - 3 * c->watch_us },
		{ "silent", settled - c->agent_lost_us - 3 * c->watch_us },
		{ "keep", settled - c->idle_keep_us - c->drain_grace_us - c->launch_timeout_us },
		{ "ending", settled - c->terminate_alarm_us },
		{ "stuck", now - STUCK_US - c->drain_grace_us },
		{ "orphan_grace", settled - c->orphan_grace_us - 3 * c->sweep_us },
		{ "orphan_ending", settled - c->terminate_alarm_us - 3 * c->sweep_us },
	};

	for (size_t i = 0; i < ARRAY_LEN(graces); i++) {
		if (strcmp(graces[i].name, name) == 0) {
			return graces[i].at_us;
		}
	}
	assert(false);
	return 0;
}

static void invariant_next(struct act *a)
{
	const struct probe *l = a->ctx;
	const struct checking *k = l->more;

	if (rules_all[k->at].key != NULL) {
		a->writing = true;
		rule_ask(a->e->pg, &a->req, &rules_all[k->at], grace_until, a, invariant_read);
	} else {
		probe_write(a);
	}
}

static void invariant_item(struct act *a, const struct rule *v, struct rule_found row)
{
	if (row.broken == 0) {
		probe_item(a, v->name, SPOT_CHECK_OK, "", "%s: %" PRId64 " looked at", v->rule,
		    row.checked);
	} else {
		probe_item(a, v->name, SPOT_CHECK_BAD, v->fix,
		    "%" PRId64 " of %" PRId64 " break it (%s): %s%s", row.broken, row.checked,
		    v->rule, row.words, row.broken > SHOWN ? "; ..." : "");
	}
	probe_amount(a, row.broken);
}

static void invariant_read(struct op *op)
{
	struct pg_req *req = container_of(op, struct pg_req, op);
	struct act *a = container_of(req, struct act, req);
	const struct probe *l = a->ctx;
	struct checking *k = l->more;
	const struct rule *v = &rules_all[k->at++];

	a->writing = false;
	if (op->rc != SPOT_OK) {
		probe_item(a, v->name, SPOT_CHECK_UNTESTED,
		    "ask again when the database has less to do", "%s: %s", v->rule, op->err.text);
	} else {
		invariant_item(a, v, rule_read(req, v, a->arena));
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
