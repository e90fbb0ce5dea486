/* See gang.h. */
#include "base/base.h"
#include "core/place/gang.h"

#include <math.h>

#define REFILL_PAUSES 5 /* a missing rank is wanted again so many times within the hold, at most */

/* ---- where ----------------------------------------------------------------------------------- */

const char *gang_place(struct arena *a, const struct offer *o)
{
	return arena_printf(a, "%s/%s/%s/%s", o->provider, o->region, o->zone, o->instance_type);
}

static const struct gang_rest *rest_of(const struct gang_ask *ask, int32_t pool_id)
{
	for (size_t i = 0; i < ask->rests_n; i++) {
		const struct gang_rest *r = &ask->rests[i];

		if (r->pool_id == pool_id && ask->want >= r->want && r->until_us > ask->now_us) {
			return r;
		}
	}
	return NULL;
}

static bool place_is_busy(const struct gang_ask *ask, const char *place)
{
	for (size_t i = 0; i < ask->busy_n; i++) {
		if (strcmp(ask->busy[i], place) == 0) {
			return true;
		}
	}
	return false;
}

/* NULL: the whole gang may be sought there. */
static const char *refusal_of(struct arena *a, const struct offer *o, const struct gang_ask *ask,
    bool *ret_cooling)
{
	const char *quota = offer_quota_refusal(a, o, ask->want);

	if (quota != NULL) {
		return quota;
	}
	*ret_cooling = true;
	if (rest_of(ask, o->pool_id) != NULL) {
		return "it could not give so many together a short while ago";
	}
	if (ask->busy_n > 0 && place_is_busy(ask, gang_place(a, o))) {
		return "another gang is being acquired there";
	}
	*ret_cooling = false;
	return NULL;
}

void gang_whole(const struct score *s, int32_t want, struct gang_score *g)
{
	struct score_terms t = { 0 };
	double n = want;

	*g = (struct gang_score){ .one = s };

	if (s->by != NULL) {
		score_explain(s, &t);
	}
	g->interruptions = n * s->interruptions;
	g->lost_h = (n - 1) * s->interruptions * (t.lost_per_h + t.restart_per_h);
	g->hours = s->hours + g->lost_h;
	g->paid_hours = s->paid_hours + g->lost_h;
	g->compute_micros = llround(n * (double)s->price_micros * g->paid_hours);
	g->egress_micros = want * s->egress_micros;
	g->total_micros = g->compute_micros + g->egress_micros;
}

static int by_total(const void *pa, const void *pb)
{
	const struct gang_score *a = pa, *b = pb;
	int32_t x = a->one->offer->pool_id, y = b->one->offer->pool_id;

	if ((a->refused == NULL) != (b->refused == NULL)) {
		return a->refused == NULL ? -1 : 1;
	}
	if (a->refused == NULL && a->total_micros != b->total_micros) {
		return a->total_micros < b->total_micros ? -1 : 1;
	}
	if (a->refused == NULL && fabs(a->hours - b->hours) > 0) {
		return a->hours < b->hours ? -1 : 1;
	}
	return x < y ? -1 : x > y;
}

void gang_scores(struct arena *a, const struct score *scores, size_t n, const struct gang_ask *ask,
    struct gang_score **ret, size_t *ret_usable)
{
	struct gang_score *out = arena_array(a, n + 1, sizeof(*out));

	*ret_usable = 0;
	for (size_t i = 0; i < n; i++) {
		out[i] = (struct gang_score){ .one = &scores[i] };
		out[i].refused = refusal_of(a, scores[i].offer, ask, &out[i].cooling);
		if (out[i].refused == NULL) {
			gang_whole(&scores[i], ask->want, &out[i]);
			++*ret_usable;
		}
	}
	qsort(out, n, sizeof(*out), by_total);
	*ret = out;
}

struct score gang_as_score(const struct gang_score *g, int32_t want)
{
	struct score s = *g->one;

	s.total_micros = g->total_micros;
	s.compute_micros = g->compute_micros;
	s.egress_micros = g->egress_micros;
	s.price_micros *= want;
	s.penalty_micros *= want;
	s.hours = g->hours;
	s.paid_hours = g->paid_hours;
	s.interruptions = g->interruptions;
	return s;
}

json_t *gang_score_json(const struct gang_score *g)
{
	json_t *j = json_pack("{s:i, s:b}", "pool", (int)g->one->offer->pool_id, "usable",
	    g->refused == NULL);

	if (g->refused != NULL) {
		json_object_set_new(j, "refused", json_string(g->refused));
		return j;
	}
	json_object_set_new(j, "interruptions", json_real(g->interruptions));
	json_object_set_new(j, "lost_h", json_real(g->lost_h));
	json_object_set_new(j, "hours", json_real(g->hours));
	json_object_set_new(j, "paid_hours", json_real(g->paid_hours));
	json_object_set_new(j, "compute_micros", json_integer((json_int_t)g->compute_micros));
	json_object_set_new(j, "egress_micros", json_integer((json_int_t)g->egress_micros));
	json_object_set_new(j, "total_micros", json_integer((json_int_t)g->total_micros));
	return j;
}

/* ---- acquiring ------------------------------------------------------------------------------- */

static bool member_missing(const struct gang_member *m)
{
	return m->state == NODE_NONE || m->state == NODE_FAILED || m->state == NODE_GONE ||
	    m->state == NODE_TERMINATING || m->state == NODE_DRAINING;
}

size_t gang_gaps(const struct gang_member *members, size_t n)
{
	size_t gaps = 0;

	for (size_t i = 0; i < n; i++) {
		gaps += member_missing(&members[i]);
	}
	return gaps;
}

static void give_up(struct gang_hold_out *ret, bool cool, const char *why)
{
	ret->what = GANG_GIVE_UP;
	ret->cool = cool;
	ret->why = why;
}

struct muster {
	size_t ready, there, way; /* ready; the provider gave one; asked for, and not known */
	int64_t since_us; /* the oldest that is there; 0 = none */
	bool noticed;
	int32_t *gaps;
	size_t gaps_n;
};

static struct muster gang_muster(struct arena *a, const struct gang_hold_in *in)
{
	struct muster k = { .gaps = arena_array(a, in->members_n + 1, sizeof(*k.gaps)) };

	for (size_t i = 0; i < in->members_n; i++) {
		const struct gang_member *m = &in->members[i];

		k.noticed |= m->noticed || m->state == NODE_DRAINING;
		if (member_missing(m)) {
			k.gaps[k.gaps_n++] = m->rank;
			continue;
		}
		k.ready += m->state == NODE_READY;
		k.there += m->launched_us > 0;
		k.way += m->launched_us == 0;
		if (m->launched_us > 0 && (k.since_us == 0 || m->launched_us < k.since_us)) {
			k.since_us = m->launched_us;
		}
	}
	return k;
}

/* Some are there and some are not. */
static void hold_or_not(struct arena *a, const struct gang_hold_in *in, const struct muster *k,
    struct gang_hold_out *ret)
{
	int64_t until = k->since_us + in->hold_us, pause = MAX(in->hold_us / REFILL_PAUSES, 1);
	int64_t next;

	if (__builtin_add_overflow(in->last_lost_us, pause, &next)) {
		next = in->last_lost_us;
	}
	if (in->now_us >= until) {
		give_up(ret, true,
		    arena_printf(a, "%zu of %d machines came within the hold: all are given back",
			k->there, (int)in->want));
		return;
	}
	ret->why = arena_printf(a, "holds %zu of %d machines", k->there, (int)in->want);
	if (k->way > 0 || in->now_us < next) {
		ret->again_us = k->way > 0 ? until : MIN(next, until);
		return;
	}
	if (in->unpaid != NULL) {
		give_up(ret, false, in->unpaid);
		return;
	}
	ret->what = GANG_REFILL;
	ret->missing = k->gaps;
	ret->missing_n = k->gaps_n;
}

void gang_hold(struct arena *a, const struct gang_hold_in *in, struct gang_hold_out *ret)
{
	struct muster k = gang_muster(a, in);

	*ret = (struct gang_hold_out){ .what = GANG_WAIT, .why = "" };
	if (!in->wanted) {
		give_up(ret, false, "the job does not need it any more");
	} else if (k.noticed) {
		give_up(ret, false, "the provider takes a machine of it back before it began");
	} else if (k.gaps_n == 0 && k.ready == (size_t)in->want) {
		ret->what = in->queued ? GANG_START : GANG_WAIT;
	} else if (k.gaps_n == 0) {
		/* A launch may hang: what is there does not wait for it longer than the hold. */
		if (k.there > 0 && k.way > 0 && in->now_us >= k.since_us + in->hold_us) {
			give_up(ret, true,
			    arena_printf(a,
				"%zu of %d machines came within the hold: all are given back",
				k.there, (int)in->want));
		} else {
			ret->again_us = k.there > 0 && k.way > 0 ? k.since_us + in->hold_us : 0;
			ret->why =
			    arena_printf(a, "%zu of %d machines are ready", k.ready, (int)in->want);
		}
	} else if (k.there == 0 && k.way == 0) {
		give_up(ret, true, arena_printf(a, "none of %d machines came", (int)in->want));
	} else if (in->one_call) {
		give_up(ret, true,
		    arena_printf(a, "%zu of %d machines of one launch are left", k.there,
			(int)in->want));
	} else if (k.there > 0) {
		hold_or_not(a, in, &k, ret);
	} else {
		ret->why = arena_printf(a, "%zu of %d launches are out", k.way, (int)in->want);
	}
}

/* ---- running --------------------------------------------------------------------------------- */

static bool str_is(const char *a, const char *b)
{
	return a != NULL && strcmp(a, b) == 0;
}

static bool rank_going(const struct gang_rank *r)
{
	return r->noticed || r->node == NODE_DRAINING || r->node == NODE_TERMINATING ||
	    r->node == NODE_GONE || r->node == NODE_FAILED;
}

static bool rank_failed(const struct gang_rank *r)
{
	return r->ended && !str_is(r->exit_reason, "ok") && !str_is(r->exit_reason, "drained");
}

/* The first of those that ended badly; one that says why before one that was only killed. */
static const struct gang_rank *rank_culprit(const struct gang_run *in)
{
	const struct gang_rank *best = NULL;

	for (size_t i = 0; i < in->n; i++) {
		const struct gang_rank *r = &in->ranks[i];

		if (rank_failed(r) &&
		    (best == NULL ||
			(str_is(best->exit_reason, "killed") &&
			    !str_is(r->exit_reason, "killed")))) {
			best = r;
		}
	}
	return best;
}

static const struct gang_rank *ended_as(const struct gang_run *in, const char *reason)
{
	for (size_t i = 0; i < in->n; i++) {
		if (in->ranks[i].ended && str_is(in->ranks[i].exit_reason, reason)) {
			return &in->ranks[i];
		}
	}
	return NULL;
}

static const char *rank_words(struct arena *a, const struct gang_rank *r)
{
	if (str_is(r->exit_reason, "lost")) {
		return arena_printf(a, "rank %d on n%" PRId64 " is lost: %s", (int)r->rank,
		    r->node_id, r->node_why);
	}
	if (r->exit_signal != 0) {
		return arena_printf(a, "rank %d: %s: killed by signal %d", (int)r->rank,
		    r->exit_reason, (int)r->exit_signal);
	}
	if (r->exit_said != NULL && r->exit_said[0] != '\0') {
		return arena_printf(a, "rank %d: %s", (int)r->rank, r->exit_said);
	}
	return arena_printf(a, "rank %d: %s: exit code %d", (int)r->rank, r->exit_reason,
	    (int)r->exit_code);
}

static void verdict_settle(struct gang_verdict *v, enum job_event ev, const char *why,
    const char *reason)
{
	*v = (struct gang_verdict){ .act = GANG_SETTLE,
		.event = ev,
		.why = why,
		.reason = reason,
		.desired = "" };
}

/* All have ended. */
static void judge_end(struct arena *a, const struct gang_run *in, struct gang_verdict *v)
{
	const struct gang_rank *bad = rank_culprit(in), *gone = ended_as(in, "lost");
	bool ok = true, drained = false, leaving = false;

	for (size_t i = 0; i < in->n; i++) {
		ok &= str_is(in->ranks[i].exit_reason, "ok");
		drained |= str_is(in->ranks[i].desired, "drain") ||
		    str_is(in->ranks[i].exit_reason, "drained");
		leaving |= rank_going(&in->ranks[i]);
	}
	if (ok) {
		verdict_settle(v, JOB_EV_EXITED_OK, "finished on all ranks", "");
	} else if (gone != NULL) {
		verdict_settle(v, JOB_EV_NODE_LOST, rank_words(a, gone), "");
	} else if (in->job == JOB_CANCELLING) {
		verdict_settle(v, JOB_EV_KILLED, "stopped by request", "");
	} else if (drained || leaving || bad == NULL) {
		/* A rank that was ordered to stop counts as stopped, however it ended. A rank whose
		 * peer is reclaimed, or whose machine restarts, may fail before it hears of that.
		 * The newest whole checkpoint counts. */
		verdict_settle(v, JOB_EV_STOPPED,
		    bad != NULL ? arena_printf(a, "stopped (%s)", rank_words(a, bad))
				: "stopped on all ranks",
		    "");
	} else if (in->restarts < in->max_restarts) {
		verdict_settle(v, JOB_EV_RETRY,
		    arena_printf(a, "%s; restart %d of %" PRId64, rank_words(a, bad),
			(int)in->restarts + 1, in->max_restarts),
		    "");
		v->retry = true;
	} else {
		verdict_settle(v, JOB_EV_EXITED_BAD, rank_words(a, bad), bad->exit_reason);
	}
}

static void verdict_tell(struct gang_verdict *v, enum job_event ev, const char *desired,
    const char *why, int64_t deadline_us)
{
	*v = (struct gang_verdict){ .act = GANG_TELL,
		.event = ev,
		.desired = desired,
		.why = why,
		.reason = "",
		.deadline_us = deadline_us };
}

struct alive {
	size_t n;
	bool running; /* one of them is still told to run */
	bool other_deadline; /* one of them knows another deadline than there is */
	bool all_begun;
	const struct gang_rank *leaver;
	bool noticed;
	int64_t deadline_us;
};

static struct alive ranks_alive(const struct gang_run *in)
{
	struct alive k = { .all_begun = true };

	for (size_t i = 0; i < in->n; i++) {
		const struct gang_rank *r = &in->ranks[i];

		/* That of a rank that has ended concerns the others too: its peers stop with it. */
		if (r->node == NODE_DRAINING) {
			k.leaver = k.leaver == NULL ? r : k.leaver;
			k.noticed |= r->noticed;
			if (r->node_deadline_us > 0 &&
			    (k.deadline_us == 0 || r->node_deadline_us < k.deadline_us)) {
				k.deadline_us = r->node_deadline_us;
			}
		}
		k.all_begun &=
		    r->ended || r->phase == ATTEMPT_RUNNING || r->phase == ATTEMPT_SAVING;
		k.n += !r->ended;
		k.running |= !r->ended && str_is(r->desired, "run");
	}
	for (size_t i = 0; i < in->n; i++) {
		k.other_deadline |= !in->ranks[i].ended && str_is(in->ranks[i].desired, "drain") &&
		    in->ranks[i].deadline_us != k.deadline_us;
	}
	return k;
}

/* Some still live. */
static void judge_live(struct arena *a, const struct gang_run *in, const struct alive *k,
    struct gang_verdict *v)
{
	const struct gang_rank *bad = ended_as(in, "lost"), *parted = ended_as(in, "drained");

	bad = bad != NULL ? bad : rank_culprit(in);
	if (in->job == JOB_CANCELLING) {
		return;
	}
	if (in->cancel) { /* also when all were told to stop before: the job does not begin again */
		verdict_tell(v, JOB_EV_CANCEL, "kill", "cancelled", 0);
	} else if (k->leaver != NULL && (k->running || k->other_deadline)) {
		verdict_tell(v, k->noticed || in->job == JOB_DRAINING ? JOB_EV_NOTICE : JOB_EV_MOVE,
		    "drain",
		    arena_printf(a, "rank %d: %s", (int)k->leaver->rank, k->leaver->node_why),
		    k->deadline_us);
	} else if (bad != NULL && k->running) {
		/* The others cannot go on without it, and a whole checkpoint needs all of them. */
		verdict_tell(v, JOB_EV_RANK_ENDED, "kill", rank_words(a, bad), 0);
	} else if (parted != NULL && k->running) {
		/* Its machine restarted, or was reclaimed before we heard so: what it saved is
		 * whole if all save. */
		verdict_tell(v, JOB_EV_RANK_ENDED, "drain",
		    arena_printf(a, "rank %d on n%" PRId64 " has stopped", (int)parted->rank,
			parted->node_id),
		    0);
	} else if (in->overtime && k->running && in->job != JOB_DRAINING) {
		verdict_tell(v, JOB_EV_OVERTIME, "drain", "max_duration is over", 0);
	} else if (in->over_budget && k->running && in->job != JOB_DRAINING) {
		verdict_tell(v, JOB_EV_BUDGET, "drain", in->budget_why, 0);
	} else if (in->job == JOB_STARTING && k->all_begun) {
		v->act = GANG_BEGUN;
		v->event = JOB_EV_STARTED;
		v->why = arena_printf(a, "runs on %zu nodes", in->n);
	}
}

void gang_judge(struct arena *a, const struct gang_run *in, struct gang_verdict *ret)
{
	struct alive k = ranks_alive(in);

	*ret = (struct gang_verdict){ .act = GANG_LEAVE, .why = "", .reason = "", .desired = "" };
	if (!in->current || job_state_final(in->job) || in->job == JOB_QUEUED ||
	    in->job == JOB_PARKED) {
		if (k.n == 0) {
			ret->act = GANG_SHUT;
		}
	} else if (k.n == 0) {
		judge_end(a, in, ret);
	} else {
		judge_live(a, in, &k, ret);
	}
}
