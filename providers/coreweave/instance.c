/*
 * Reads the state of our machine from its Pod, its node and their events. The vendor's words go
 * verbatim into raw_state and raw_reason; the words in front of them are ours.
 */
#include "base/base.h"
#include "coreweave_priv.h"

/* a condition may be of an earlier order: believed after this */
#define STALE_US (60 * SPOT_US_PER_S)
/* as long may a node that is there stay without the Pod that wants it */
#define FIT_US (5 * 60 * SPOT_US_PER_S)

/* Of the kubelet: not worth waiting for. */
static const struct {
	const char *reason;
	int64_t restarts;
} broken[] = {
	{ "ErrImagePull", 0 },
	{ "ImagePullBackOff", 0 },
	{ "InvalidImageName", 0 },
	{ "ErrImageNeverPull", 0 },
	{ "CreateContainerConfigError", 0 },
	{ "CreateContainerError", 0 },
	{ "RunContainerError", 0 },
	{ "CrashLoopBackOff", 2 },
};

static bool reclaim_reason(const struct cw_pod *p)
{
	static const char *const reasons[] = { "Evicted", "NodeShutdown", "Terminated", "Shutdown",
		"NodeLost", "Preempting", "NodeAffinity", "UnexpectedAdmissionError",
		"TopologyAffinityError" };

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
		if (strcmp(p->reason, reasons[i]) == 0) {
			return true;
		}
	}
	/* Rejected by the kubelet before anything ran (OutOfcpu, OutOfnvidia.com/gpu), or lost with
	 * the node. */
	return p->disruption != NULL || str_prefix(p->reason, "OutOf") ||
	    (p->ended != NULL && strstr(p->ended, "ContainerStatusUnknown") != NULL);
}

/* ---- a Pod that waits ------------------------------------------------------------------------ */

static void instance_fail(struct spot_call *c, struct spot_instance *i, const char *what,
    const char *words)
{
	i->state = SPOT_INSTANCE_FAILED;
	i->raw_reason = cw_words(c->arena, arena_printf(c->arena, "%s: %s", what, words));
}

static const char *rc_word(enum spot_rc rc)
{
	return rc == SPOT_QUOTA ? "QUOTA" : "NO_CAPACITY";
}

/* Events about the Pod or its NodePool since the Pod was made. */
static const struct cw_event *bad_event(const struct cw_view *v, const struct cw_pod *p,
    enum spot_rc *ret)
{
	for (size_t i = 0; i < v->events_n; i++) {
		const struct cw_event *e = &v->events[i];
		bool about = (strcmp(e->kind, "Pod") == 0 && strcmp(e->name, p->name) == 0) ||
		    (strcmp(e->kind, "NodePool") == 0 && strcmp(e->name, p->pool) == 0);

		*ret = about && e->at_us >= p->created_us ? cw_words_verdict(e->reason) : SPOT_OK;
		if (*ret != SPOT_OK && cw_words_negative(e->reason)) {
			return e;
		}
	}
	return NULL;
}

static void instance_unscheduled(const struct cw *self, struct spot_call *c, const struct cw_pod *p,
    const struct cw_view *v, struct spot_instance *i)
{
	int64_t off = 0,
		most = i->key.market == SPOT_MARKET_SPOT ? self->pending_spot_us : self->pending_us;
	/* The server dated it: by the server's clock it is that old. */
	int64_t age = (c->in != NULL && call_clock_off(c, &off) ? c->now_us + off : c->now_us) -
	    p->created_us;
	const struct cw_pool *pool = cw_view_pool(v, p->pool);
	bool short_of = pool == NULL || pool->current < pool->live;
	enum spot_rc rc = SPOT_OK;
	const struct cw_event *e = short_of ? bad_event(v, p, &rc) : NULL;
	bool said = pool != NULL && pool->verdict != SPOT_OK &&
	    (age >= STALE_US || pool->verdict_us >= p->created_us);

	if (said && short_of && pool->in_progress == 0) {
		instance_fail(c, i, rc_word(pool->verdict), pool->words);
	} else if (e != NULL && (pool == NULL || pool->in_progress == 0)) {
		instance_fail(c, i, rc_word(rc),
		    arena_printf(c->arena, "event %s: %s", e->reason, e->message));
	} else if (pool != NULL && !short_of && pool->current > 0 && age > FIT_US) {
		instance_fail(c, i, "CONFIG",
		    arena_printf(c->arena,
			"the NodePool has its nodes but the Pod does not fit on them: %s",
			p->unscheduled));
	} else if (age >= most) {
		instance_fail(c, i, "NO_CAPACITY",
		    arena_printf(c->arena, "no node within %" PRId64 " s: %s", most / SPOT_US_PER_S,
			p->unscheduled));
	} else {
		i->raw_reason = p->unscheduled;
	}
}

static void instance_pending(const struct cw *self, struct spot_call *c, const struct cw_pod *p,
    const struct cw_view *v, struct spot_instance *i)
{
	i->state = SPOT_INSTANCE_PENDING;
	if (p->waiting[0] != '\0') {
		i->raw_reason = arena_printf(c->arena, "%s: %s", p->waiting, p->waiting_words);
	}
	for (size_t k = 0; k < ARRAY_LEN(broken); k++) {
		if (strcmp(broken[k].reason, p->waiting) == 0 &&
		    p->restarts >= broken[k].restarts) {
			instance_fail(c, i,
			    strstr(p->waiting, "Image") != NULL ? "IMAGE" : "CONFIG",
			    i->raw_reason);
			return;
		}
	}
	if (p->unscheduled != NULL && p->node[0] == '\0' && v != NULL) {
		instance_unscheduled(self, c, p, v, i);
	} else if (p->unscheduled != NULL) {
		i->raw_reason = p->unscheduled;
	}
}

/* ---- a Pod that ran -------------------------------------------------------------------------- */

static const char *end_words(struct spot_call *c, const struct cw_pod *p)
{
	return cw_words(c->arena,
	    arena_printf(c->arena, "%s %s %s %s", p->disruption != NULL ? p->disruption : "",
		p->reason, p->message, p->ended != NULL ? p->ended : ""));
}

static void instance_running(struct spot_call *c, const struct cw_pod *p, const struct cw_view *v,
    struct spot_instance *i)
{
	const struct cw_node *n = v != NULL && v->have_nodes ? cw_view_node(v, p->node) : NULL;

	i->state = SPOT_INSTANCE_RUNNING;
	if (v != NULL && v->have_nodes && p->node[0] != '\0' && n == NULL) {
		i->state = SPOT_INSTANCE_INTERRUPTED;
		i->end_cause = SPOT_END_RECLAIM;
		i->raw_reason = arena_printf(c->arena, "node %s does not exist any more", p->node);
	} else if (n != NULL && (n->lost != NULL || n->cordon != NULL)) {
		i->raw_reason = arena_printf(c->arena, "node %s: %s", n->name,
		    n->lost != NULL ? n->lost : n->cordon);
	}
}

static void instance_leaving(struct spot_call *c, const struct cw_pod *p, struct spot_instance *i)
{
	i->state = SPOT_INSTANCE_STOPPING;
	i->end_cause = cw_pod_ours(p) ? SPOT_END_USER
	    : p->disruption != NULL   ? SPOT_END_RECLAIM
				      : SPOT_END_NONE;
	i->raw_reason = arena_printf(c->arena, "deleted by %s, grace %" PRId64 " s %s",
	    cw_pod_ours(p) ? "us" : "somebody else", p->grace_s,
	    p->disruption != NULL ? p->disruption : "");
}

static void instance_failed(struct spot_call *c, const struct cw_pod *p, struct spot_instance *i)
{
	bool reclaim = reclaim_reason(p);

	i->state = reclaim ? SPOT_INSTANCE_INTERRUPTED : SPOT_INSTANCE_GONE;
	i->end_cause = cw_pod_ours(p) ? SPOT_END_USER : reclaim ? SPOT_END_RECLAIM : SPOT_END_GUEST;
	i->raw_reason = end_words(c, p);
}

void cw_instance(const struct cw *self, struct spot_call *c, const struct cw_cluster *cl,
    const struct cw_pod *p, const struct cw_view *view, struct spot_instance *i)
{
	*i = (struct spot_instance){
		.ref = cw_pod_ref(c->arena, cl, p),
		.token = p->token,
		.install = p->install,
		.key = { .provider = self->name,
		    .region = cl->region,
		    .zone = cl->zone,
		    .instance_type = p->type,
		    .market = spot_market_parse(p->market) },
		.state = SPOT_INSTANCE_ODD,
		.raw_state = p->phase,
		.raw_reason = "",
		.ip = p->ip,
		.spot_request = p->pool,
		.created_us = p->created_us,
	};
	if (strcmp(p->phase, "Failed") == 0) {
		instance_failed(c, p, i);
	} else if (strcmp(p->phase, "Succeeded") == 0) {
		/* An agent that saved within the grace of an eviction ends well. The API server
		 * wrote the condition before that: who is over already gets none. */
		i->state = SPOT_INSTANCE_GONE;
		i->end_cause = cw_pod_ours(p) ? SPOT_END_USER
		    : p->disruption != NULL   ? SPOT_END_RECLAIM
					      : SPOT_END_GUEST;
		i->raw_reason = end_words(c, p);
	} else if (p->deleting_us != 0) {
		instance_leaving(c, p, i);
	} else if (strcmp(p->phase, "Pending") == 0 || p->phase[0] == '\0') {
		instance_pending(self, c, p, view, i);
	} else if (strcmp(p->phase, "Running") == 0) {
		instance_running(c, p, view, i);
	} else if (strcmp(p->phase, "Unknown") == 0) {
		/* The kubelet does not answer: it may run on. */
		instance_running(c, p, view, i);
	}
}

/* ---- notices --------------------------------------------------------------------------------- */

bool cw_notice(struct spot_call *c, const struct cw_cluster *cl, const struct cw_pod *p,
    const struct cw_node *n, struct spot_notice *ret)
{
	*ret = (struct spot_notice){ .ref = cw_pod_ref(c->arena, cl, p),
		.kind = SPOT_NOTICE_INTERRUPTION };
	if (cw_pod_ours(p) || strcmp(p->phase, "Succeeded") == 0 ||
	    strcmp(p->phase, "Failed") == 0) {
		return false;
	}
	if (p->deleting_us != 0) {
		ret->deadline_us = p->deleting_us;
		ret->source = "pod-deletion";
		ret->raw = arena_printf(c->arena, "deletionTimestamp, grace %" PRId64 " s %s",
		    p->grace_s, p->disruption != NULL ? p->disruption : "");
	} else if (p->disruption != NULL) {
		ret->source = "pod-disruption-target";
		ret->raw = p->disruption;
	} else if (n != NULL && (n->deleting || n->lost != NULL)) {
		ret->source = "node-lost";
		ret->raw = n->lost != NULL ? n->lost : "the node is being deleted";
	} else if (n != NULL && n->cordon != NULL) {
		/* Cordons come and go by the vendor's automation (docs: cks/nodes/cordon): no
		 * reason to run. */
		ret->kind = SPOT_NOTICE_REBALANCE;
		ret->source = "node-cordon";
		ret->raw = n->cordon;
	} else {
		return false;
	}
	return true;
}

/* ---- references ------------------------------------------------------------------------------ */

const char *cw_pod_ref(struct arena *a, const struct cw_cluster *cl, const struct cw_pod *p)
{
	return arena_printf(a, "%s/%s/%s", cl->name, p->name, p->uid);
}

static bool word_ok(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= 253 &&
	    strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == n;
}

bool cw_ref_parse(const struct cw *self, struct arena *a, const char *ref, struct cw_ref *ret)
{
	const char *first = strchr(ref, '/'),
		   *second = first != NULL ? strchr(first + 1, '/') : NULL;
	const char *one, *two, *three;

	if (second == NULL || strchr(second + 1, '/') != NULL) {
		return false;
	}
	one = arena_strndup(a, ref, (size_t)(first - ref));
	two = arena_strndup(a, first + 1, (size_t)(second - first - 1));
	three = arena_strdup(a, second + 1);
	if (!word_ok(one) || !word_ok(two) || !word_ok(three)) {
		return false;
	}
	*ret = (struct cw_ref){ 0 };
	if (strcmp(one, "nodepool") == 0) {
		ret->cl = cw_cluster_named(self, two, strlen(two));
		ret->pool = three;
	} else {
		ret->cl = cw_cluster_named(self, one, strlen(one));
		ret->pod = two;
		ret->uid = three;
	}
	return true;
}
