#include "base/base.h"
#include "aws_priv.h"

/*
 * Instances as EC2 tells of them: find by token, list by installation tag, describe, terminate.
 */

#define REFS_PER_CALL 100
#define DESCRIBE_PAGE "500"
#define TRIES_WHOLE 2 /* of a chunk, before it is taken apart */
#define ALONE_MAX 3 /* that fail alone while none was described: then it is not a zone */

/* ---- one instance ---------------------------------------------------------------------------- */

/* instanceState.code: the low byte is the state, the rest is internal (API_InstanceState.html). */
static enum spot_instance_state state_read(const struct xml *state)
{
	int64_t code;

	if (!parse_i64(xml_text(state, "code", ""), 0, INT32_MAX, &code)) {
		return SPOT_INSTANCE_ODD;
	}
	switch (code & 0xff) {
	case 0:
		return SPOT_INSTANCE_PENDING;
	case 16:
		return SPOT_INSTANCE_RUNNING;
	case 32:
	case 64:
		return SPOT_INSTANCE_STOPPING;
	case 48:
		return SPOT_INSTANCE_GONE;
	case 80: /* stopped: its volumes cost money and it does no work; ours never stop */
		return SPOT_INSTANCE_FAILED;
	default:
		return SPOT_INSTANCE_ODD;
	}
}

/* API_StateReason.html. UserInitiatedShutdown includes our own terminate. */
static enum spot_end_cause cause_read(const char *code)
{
	static const struct {
		const char *code;
		enum spot_end_cause cause;
	} causes[] = {
		{ "Server.SpotInstanceTermination", SPOT_END_RECLAIM },
		{ "Server.SpotInstanceShutdown", SPOT_END_RECLAIM },
		{ "Client.UserInitiatedShutdown", SPOT_END_USER },
		{ "Client.UserInitiatedHibernate", SPOT_END_USER },
		{ "Client.InstanceInitiatedShutdown", SPOT_END_GUEST },
		{ "Client.InstanceTerminated", SPOT_END_GUEST },
		{ "Server.InsufficientInstanceCapacity", SPOT_END_PROVIDER },
		{ "Server.InternalError", SPOT_END_PROVIDER },
		{ "Server.ScheduledStop", SPOT_END_PROVIDER },
		{ "Client.VolumeLimitExceeded", SPOT_END_PROVIDER },
		{ "Client.InvalidSnapshot.NotFound", SPOT_END_PROVIDER },
		{ "Client.InternalError", SPOT_END_PROVIDER },
	};

	for (size_t i = 0; i < ARRAY_LEN(causes); i++) {
		if (strcmp(causes[i].code, code) == 0) {
			return causes[i].cause;
		}
	}
	return SPOT_END_NONE;
}

const char *aws_tag_read(const struct xml *item, const char *key)
{
	const struct xml *set = xml_at(item, "tagSet");

	for (const struct xml *t = xml_first(set, "item"); t != NULL; t = xml_next(t, "item")) {
		if (strcmp(xml_text(t, "key", ""), key) == 0) {
			return xml_text(t, "value", "");
		}
	}
	return "";
}

/* The message mostly repeats the code in front. */
static const char *reason_text(struct arena *a, const char *code, const char *words)
{
	if (*code == '\0' || str_prefix(words, code)) {
		return words;
	}
	return *words != '\0' ? arena_printf(a, "%s: %s", code, words) : code;
}

bool aws_instance_read(const struct aws *self, struct spot_call *c, const char *region,
    const struct xml *item, struct spot_instance *ret)
{
	const char *life = xml_text(item, "instanceLifecycle", "");
	const char *why = xml_text(item, "stateReason/code", "");
	const char *words = xml_text(item, "stateReason/message", xml_text(item, "reason", ""));
	struct spot_instance i = { .ref = xml_text(item, "instanceId", "") };

	if (*i.ref == '\0') {
		return false;
	}
	i.token = xml_text(item, "clientToken", "");
	i.install = aws_tag_read(item, AWS_TAG_INSTALL);
	i.key.provider = self->name;
	i.key.region = arena_strdup(c->arena, region);
	i.key.zone = xml_text(item, "placement/availabilityZoneId", "");
	i.key.instance_type = xml_text(item, "instanceType", "");
	/* On-demand has no instanceLifecycle at all, in a reservation neither. */
	i.key.market = strcmp(life, "spot") == 0                      ? SPOT_MARKET_SPOT
	    : strcmp(life, "interruptible-capacity-reservation") == 0 ? SPOT_MARKET_INTERRUPTIBLE
	    : *life == '\0' && *xml_text(item, "capacityReservationId", "") == '\0'
	    ? SPOT_MARKET_ON_DEMAND
	    : SPOT_MARKET_RESERVED;
	i.state = state_read(xml_at(item, "instanceState"));
	i.raw_state = xml_text(item, "instanceState/name", "");
	i.raw_reason = reason_text(c->arena, why, words);
	if (i.state == SPOT_INSTANCE_GONE || i.state == SPOT_INSTANCE_STOPPING ||
	    i.state == SPOT_INSTANCE_FAILED) {
		i.end_cause = cause_read(why);
	}
	i.ip = xml_text(item, "ipAddress", xml_text(item, "privateIpAddress", ""));
	i.spot_request = xml_text(item, "spotInstanceRequestId", "");
	i.created_us = aws_time(xml_text(item, "launchTime", ""));
	*ret = i;
	return true;
}

/* ---- DescribeInstances, paged ---------------------------------------------------------------- */

/* A machine is in its group until it has ended. */
static void group_keep(struct spot_call *c, struct aws_instances *l, const struct xml *item,
    enum spot_instance_state state)
{
	const char *name = xml_text(item, "placement/groupName", "");

	if (*name != '\0' && state != SPOT_INSTANCE_GONE) {
		l->groups = arena_grow(c->arena, l->groups, l->groups_n, &l->groups_cap,
		    sizeof(*l->groups));
		l->groups[l->groups_n++] = name;
	}
}

enum spot_step aws_instances_read(struct aws *self, struct spot_call *c, const char *region,
    struct aws_instances *l, const struct xml **ret_doc)
{
	const struct xml *set;
	enum spot_step s =
	    aws_reply_xml(self, c, "DescribeInstances", "DescribeInstancesResponse", ret_doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(*ret_doc, "reservationSet");
	if (set == NULL) {
		return aws_bad_reply(c, "DescribeInstances", "no reservationSet");
	}
	for (const struct xml *r = xml_first(set, "item"); r != NULL; r = xml_next(r, "item")) {
		const struct xml *in = xml_at(r, "instancesSet");

		for (const struct xml *i = xml_first(in, "item"); i != NULL;
		     i = xml_next(i, "item")) {
			l->items = arena_grow(c->arena, l->items, l->n, &l->cap, sizeof(*l->items));
			if (!aws_instance_read(self, c, region, i, &l->items[l->n])) {
				return aws_bad_reply(c, "DescribeInstances",
				    "an instance without instanceId");
			}
			group_keep(c, l, i, l->items[l->n].state);
			l->n++;
		}
	}
	return SPOT_STEP_NONE;
}

struct found {
	struct aws_instances l;
	/* describe only */
	const char **refs;
	size_t refs_n; /* not known to be unknown */
	size_t from, count; /* the chunk that is out */
	size_t most; /* of one chunk; less while a zone is disrupted */
	int tries; /* of this chunk, that met a fault */
	size_t alone; /* that could not be described even alone */
	bool by_filter; /* this chunk is asked for by filter */
	bool done;
};

/* Adds all instances of the reply and takes the page token. */
static enum spot_step found_add(struct aws *self, struct spot_call *c, const char *region,
    struct found *f, bool *ret_more)
{
	const struct xml *doc;
	bool bad;
	enum spot_step s = aws_instances_read(self, c, region, &f->l, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	*ret_more = aws_next_page(c->state, c->arena, xml_text(doc, "nextToken", ""), &bad);
	if (bad) {
		return aws_bad_reply(c, "DescribeInstances", "the page token repeats");
	}
	return SPOT_STEP_NONE;
}

/* Handles a reply of find and list. NONE: ask for more; DONE: all of it is in *ret. */
static enum spot_step found_step(struct aws *self, struct spot_call *c, const char *region,
    struct spot_instance **ret, size_t *ret_n)
{
	struct found *f = call_state_get(c, sizeof(*f))->own;
	bool more = true;
	enum spot_step s = c->in != NULL ? found_add(self, c, region, f, &more) : SPOT_STEP_NONE;

	if (s != SPOT_STEP_NONE || more) {
		return s;
	}
	*ret = f->l.items;
	*ret_n = f->l.n;
	return SPOT_DONE;
}

static enum spot_step found_send(struct aws *self, struct spot_call *c, const char *region,
    struct query *q)
{
	const struct call_state *st = c->state;

	if (st->next != NULL) {
		query_add(q, "NextToken", st->next);
	}
	return query_send_ec2(q, self, c, region, "DescribeInstances", AWS_LIMIT_DESCRIBE, false);
}

enum spot_step aws_find(void *p, struct spot_call *c, struct spot_find *a)
{
	struct aws *self = p;
	struct query q;
	enum spot_step s = found_step(self, c, a->region, &a->found, &a->n);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (str_empty(a->token) && str_empty(a->name)) {
		return call_fail(c, SPOT_INVALID, NULL, "aws find: neither token nor name given");
	}
	query_begin(&q, c->arena, "DescribeInstances", EC2_VERSION);
	if (!str_empty(a->token)) {
		query_filter(&q, 1, "client-token", a->token);
	} else {
		query_filter(&q, 1, "tag:Name", a->name);
		query_filter(&q, 2, "tag:" AWS_TAG_INSTALL, a->install != NULL ? a->install : "");
	}
	query_add(&q, "MaxResults", DESCRIBE_PAGE);
	return found_send(self, c, a->region, &q);
}

/* Places of a list: its pages, then the placement groups. */
enum { LIST_INSTANCES = 0, LIST_GROUPS };

static enum spot_step list_groups(struct aws *self, struct spot_call *c, struct spot_list *a)
{
	struct call_state *st = c->state;
	struct found *f = st->own;

	if (st->at == LIST_INSTANCES || c->in == NULL) {
		st->at = LIST_GROUPS;
		return aws_group_read(self, c, a->region, NULL, a->install);
	}
	aws_groups_add(self, c, a, &f->l);
	a->found = f->l.items;
	a->n = f->l.n;
	return SPOT_DONE;
}

enum spot_step aws_list(void *p, struct spot_call *c, struct spot_list *a)
{
	struct aws *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct found));
	struct spot_instance *found;
	struct query q;
	size_t n;
	enum spot_step s =
	    st->at == LIST_GROUPS ? SPOT_DONE : found_step(self, c, a->region, &found, &n);

	if (s == SPOT_DONE) {
		return list_groups(self, c, a);
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (str_empty(a->install)) {
		return call_fail(c, SPOT_INVALID, NULL, "aws list: no installation given");
	}
	/* No state filter: ended instances tell who ended them for about an hour. */
	query_begin(&q, c->arena, "DescribeInstances", EC2_VERSION);
	query_filter(&q, 1, "tag:" AWS_TAG_INSTALL, a->install);
	query_add(&q, "MaxResults", DESCRIBE_PAGE);
	return found_send(self, c, a->region, &q);
}

/* ---- describe -------------------------------------------------------------------------------- */

static enum spot_step describe_send(struct aws *self, struct spot_call *c, const char *region,
    struct found *f)
{
	struct query q;

	f->count = MIN(f->refs_n - f->from, f->most);
	query_begin(&q, c->arena, "DescribeInstances", EC2_VERSION);
	/* MaxResults is not allowed together with InstanceId. */
	if (f->by_filter) {
		query_add(&q, "Filter.1.Name", "instance-id");
		for (size_t i = 0; i < f->count; i++) {
			query_addf(&q, f->refs[f->from + i], "Filter.1.Value.%zu", i + 1);
		}
		query_add(&q, "MaxResults", DESCRIBE_PAGE);
	} else {
		for (size_t i = 0; i < f->count; i++) {
			query_addf(&q, f->refs[f->from + i], "InstanceId.%zu", i + 1);
		}
	}
	return found_send(self, c, region, &q);
}

/* "The instance IDs 'i-1, i-2' do not exist": one unknown id fails the whole call. Takes the named
 * ones out of the chunk; none named: the chunk is asked for by filter, which does not mind unknown
 * ids. */
static void describe_drop(struct found *f, const char *message)
{
	size_t kept = f->from, end = f->from + f->count;

	for (size_t i = f->from; i < f->refs_n; i++) {
		const char *at = i < end ? strstr(message, f->refs[i]) : NULL;

		/* The whole id, not the beginning of a longer one. */
		if (at != NULL && strspn(at + strlen(f->refs[i]), "0123456789abcdef") == 0) {
			continue;
		}
		f->refs[kept++] = f->refs[i];
	}
	f->by_filter = kept == f->refs_n;
	f->refs_n = kept;
}

static bool id_not_found(const char *code)
{
	return strcmp(code, "InvalidInstanceID.NotFound") == 0 ||
	    strcmp(code, "InvalidInstanceID.Malformed") == 0;
}

/* An instance that cannot be described now: it is there, and nobody knows how it is. */
static void describe_odd(struct aws *self, struct spot_call *c, const char *region, struct found *f)
{
	const char *ref = f->refs[f->from];

	f->l.items = arena_grow(c->arena, f->l.items, f->l.n, &f->l.cap, sizeof(*f->l.items));
	f->l.items[f->l.n++] = (struct spot_instance){ .ref = ref,
		.token = "",
		.install = "",
		.key = { .provider = self->name,
		    .region = region,
		    .zone = "",
		    .instance_type = "" },
		.state = SPOT_INSTANCE_ODD,
		.raw_state = "not described",
		.raw_reason = arena_strdup(c->arena, c->err.text),
		.ip = "",
		.spot_request = "" };
	f->from++;
	f->alone++;
}

/* While a zone is disrupted, a call that names an instance there fails as a whole
 * (API_DescribeInstances.html). Instances elsewhere still work, so the chunk is halved until the
 * rest is through. If nothing gets through at all, it is the region: the fault stays the
 * verdict. */
static enum spot_step describe_halve(struct aws *self, struct spot_call *c, const char *region,
    struct found *f, enum spot_step s)
{
	if (s != SPOT_AGAIN || c->err.rc != SPOT_UNAVAILABLE || ++f->tries < TRIES_WHOLE) {
		return s;
	}
	if (f->count > 1) {
		f->most = (f->count + 1) / 2;
	} else if (f->l.n > f->alone || f->alone + 1 < ALONE_MAX) {
		if (f->refs_n == 1) {
			return s;
		}
		describe_odd(self, c, region, f);
	} else {
		return s;
	}
	c->err = (struct spot_err){ 0 };
	f->by_filter = false;
	/* Taken apart, each part has one try: the fault is known. */
	f->tries = TRIES_WHOLE - 1;
	return SPOT_STEP_NONE;
}

static enum spot_step describe_reply(struct aws *self, struct spot_call *c, const char *region,
    struct found *f)
{
	const char *code, *message;
	bool more;
	enum spot_step s;

	if (c->in->status == 400) {
		aws_error_read(c, &code, &message);
		if (id_not_found(code) && !f->by_filter) {
			describe_drop(f, message);
			return SPOT_STEP_NONE;
		}
	}
	s = found_add(self, c, region, f, &more);
	if (s == SPOT_STEP_NONE && !more) {
		f->from += f->count;
		f->by_filter = false;
		f->most = MIN(f->most * 2, (size_t)REFS_PER_CALL);
	}
	return describe_halve(self, c, region, f, s);
}

enum spot_step aws_describe(void *p, struct spot_call *c, struct spot_describe *a)
{
	struct aws *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct found));
	struct found *f = st->own;

	if (f->refs == NULL) {
		f->most = REFS_PER_CALL;
		f->refs = arena_array(c->arena, a->refs_n + 1, sizeof(*f->refs));
		for (size_t i = 0; i < a->refs_n; i++) {
			/* EC2 does not know a ref that is no EC2 id. */
			if (aws_id_ok(a->refs[i], "i-")) {
				f->refs[f->refs_n++] = a->refs[i];
			}
		}
	}
	if (c->in != NULL) {
		enum spot_step s = describe_reply(self, c, arena_strdup(c->arena, a->region), f);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (f->from < f->refs_n) {
		return describe_send(self, c, a->region, f);
	}
	if (f->alone > 0 && f->alone == f->l.n) {
		return call_fail(c, SPOT_UNAVAILABLE, NULL,
		    "aws DescribeInstances: none of %zu instances could be described: %.200s",
		    f->refs_n, f->l.items[0].raw_reason);
	}
	a->found = f->l.items;
	a->n = f->l.n;
	return SPOT_DONE;
}

/* ---- terminate ------------------------------------------------------------------------------- */

void aws_terminate_after(const struct aws *self, struct spot_terminate *a,
    enum spot_instance_state state, const char *raw)
{
	a->after = (struct spot_instance){ .ref = a->ref,
		.token = "",
		.install = "",
		.state = state,
		.raw_state = raw,
		.raw_reason = "",
		.ip = "",
		.spot_request = a->spot_request != NULL ? a->spot_request : "" };
	a->after.key = (struct spot_pool_key){ .provider = self->name,
		.region = a->region,
		.zone = a->zone != NULL ? a->zone : "",
		.instance_type = "" };
}

enum spot_step aws_terminate(void *p, struct spot_call *c, struct spot_terminate *a)
{
	struct aws *self = p;
	const struct xml *doc, *set;
	const char *code, *message;
	enum spot_step s;
	struct query q;

	call_state_get(c, 0);
	if (str_prefix(a->ref != NULL ? a->ref : "", AWS_GROUP_REF)) {
		return aws_group_delete(self, c, a);
	}
	if (c->in == NULL) {
		if (!aws_id_ok(a->ref, "i-")) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "aws TerminateInstances: '%.40s' is not an "
			    "instance id",
			    a->ref != NULL ? a->ref : "");
		}
		query_begin(&q, c->arena, "TerminateInstances", EC2_VERSION);
		query_add(&q, "InstanceId.1", a->ref);
		return query_send_ec2(&q, self, c, a->region, "TerminateInstances",
		    AWS_LIMIT_TERMINATE, true);
	}
	if (c->in->status == 400) {
		aws_error_read(c, &code, &message);
		if (id_not_found(code)) {
			aws_terminate_after(self, a, SPOT_INSTANCE_GONE, "not-found");
			return SPOT_DONE;
		}
	}
	s = aws_reply_xml(self, c, "TerminateInstances", "TerminateInstancesResponse", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "instancesSet");
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		if (strcmp(xml_text(i, "instanceId", ""), a->ref) != 0) {
			continue;
		}
		aws_terminate_after(self, a, state_read(xml_at(i, "currentState")),
		    xml_text(i, "currentState/name", ""));
		a->was_gone = state_read(xml_at(i, "previousState")) == SPOT_INSTANCE_GONE;
		return SPOT_DONE;
	}
	return aws_bad_reply(c, "TerminateInstances", "the instance is not in the reply");
}
