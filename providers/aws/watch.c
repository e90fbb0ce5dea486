#include "base/base.h"
#include "aws_priv.h"

/*
 * Reads the events that EC2 sends: EventBridge to one SQS queue per region, by long poll.
 * deploy/iam/aws-interruptions.yaml makes both. Events come at least once, unordered, for all
 * machines of the account (UserGuide/spot-instance-termination-notices.html,
 * monitoring-instance-state-changes.html, monitor-interruptible-cr.html). So their ids tell
 * repeats, and one look-up of the machines tells which are ours and their present state.
 *
 * The next call begins by deleting the messages, because the engine has stored their contents by
 * then. The cursor holds their receipt handles and the ids of the last events.
 */

#define WAIT_MAX_S 20 /* the vendor's: API_ReceiveMessage.html */
#define BATCH 10
#define SEEN_MAX 32
#define NOTICE_US (120 * SPOT_US_PER_S)
#define CONTENT_TYPE "application/x-amz-json-1.0"
#define SOURCE "eventbridge"

enum { DELETE = 0, RECEIVE, LOOK_UP };

struct event {
	const char *id, *type, *ref, *action, *at, *ends;
};
struct watching {
	const char *handles[BATCH]; /* to delete */
	size_t handles_n;
	const char *seen[2 * SEEN_MAX]; /* ids of events, oldest first */
	size_t seen_n;
	struct event events[BATCH];
	size_t events_n;
	struct aws_instances ours;
	struct spot_notice notices[BATCH];
	size_t notices_n;
};

/* ---- the queue ------------------------------------------------------------------------------- */

static enum spot_step queue_send(struct aws *self, struct spot_call *c, const char *region,
    const char *action, json_t *doc)
{
	const char *url = aws_queue(self, region);
	struct aws_request r = { .service = AWS_SQS,
		.region = region,
		.action = action,
		.target = arena_printf(c->arena, "AmazonSQS.%s", action),
		.content_type = CONTENT_TYPE,
		.limit = AWS_LIMIT_SQS };

	if (!aws_queue_ok(url)) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: interruption_queue.%s: '%.80s' is not the address of a queue "
		    "(https://sqs.REGION.amazonaws.com/ACCOUNT/NAME)",
		    region, url);
	}
	json_object_set_new(doc, "QueueUrl", json_string(url));
	r.body = json_text(c->arena, doc);
	r.body_n = strlen(r.body);
	return aws_send(self, c, &r);
}

enum spot_step aws_queue_receive(struct aws *self, struct spot_call *c, const char *region, int max,
    int wait_s, int hide_s)
{
	json_t *doc AUTO(json) =
	    json_pack("{s:i, s:i}", "MaxNumberOfMessages", max, "WaitTimeSeconds", wait_s);
	enum spot_step s;

	/* Negative: as the queue says. */
	if (hide_s >= 0) {
		json_object_set_new(doc, "VisibilityTimeout", json_integer(hide_s));
	}
	s = queue_send(self, c, region, "ReceiveMessage", doc);
	c->out.timeout_us = (wait_s + 15) * SPOT_US_PER_S;
	return s;
}

static enum spot_step delete_send(struct aws *self, struct spot_call *c, const char *region,
    const struct watching *w)
{
	json_t *doc AUTO(json) = json_pack("{s:[]}", "Entries");

	for (size_t i = 0; i < w->handles_n; i++) {
		json_array_append_new(json_object_get(doc, "Entries"),
		    json_pack("{s:o, s:s}", "Id", json_sprintf("%zu", i), "ReceiptHandle",
			w->handles[i]));
	}
	return queue_send(self, c, region, "DeleteMessageBatch", doc);
}

/* ---- the cursor ------------------------------------------------------------------------------ */

static size_t texts_read(struct arena *a, const json_t *list, const char **ret, size_t max)
{
	size_t n = 0, i;
	const json_t *x;

	json_array_foreach (list, i, x) {
		if (n < max && !str_empty(json_string_value(x))) {
			ret[n++] = arena_strdup(a, json_string_value(x));
		}
	}
	return n;
}

/* One that cannot be read is as none: what it held comes again or is seen twice. */
static void cursor_read(struct spot_call *c, struct watching *w, const char *text)
{
	json_t *doc AUTO(json) = NULL;
	struct spot_err err = { 0 };

	if (str_empty(text) || json_parse(str_from(text), "cursor", &doc, &err) != SPOT_OK) {
		return;
	}
	w->handles_n = texts_read(c->arena, json_object_get(doc, "delete"), w->handles, BATCH);
	w->seen_n = texts_read(c->arena, json_object_get(doc, "seen"), w->seen, SEEN_MAX);
}

static const char *cursor_write(struct spot_call *c, const struct watching *w)
{
	json_t *doc AUTO(json) = json_pack("{s:[], s:[]}", "delete", "seen");
	size_t from = w->seen_n > SEEN_MAX ? w->seen_n - SEEN_MAX : 0;

	for (size_t i = 0; i < w->handles_n; i++) {
		json_array_append_new(json_object_get(doc, "delete"), json_string(w->handles[i]));
	}
	for (size_t i = from; i < w->seen_n; i++) {
		json_array_append_new(json_object_get(doc, "seen"), json_string(w->seen[i]));
	}
	return json_text(c->arena, doc);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool event_wanted(const char *type)
{
	static const char *const types[] = { "EC2 Spot Instance Interruption Warning",
		"EC2 Capacity Reservation Instance Interruption Warning",
		"EC2 Instance Rebalance Recommendation", "EC2 Instance State-change Notification" };

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (str_same(types[i], type)) {
			return true;
		}
	}
	return false;
}

static bool seen_before(const struct watching *w, const char *id)
{
	for (size_t i = 0; i < w->seen_n; i++) {
		if (strcmp(w->seen[i], id) == 0) {
			return true;
		}
	}
	return false;
}

static const char *text_of(struct arena *a, const json_t *o, const char *key)
{
	const char *v = json_string_value(json_object_get(o, key));

	return arena_strdup(a, v != NULL ? v : "");
}

/* A body that is no event of ours is dropped with its message: it would only come again. The
 * machine is in detail: the ARN in resources has been seen in several forms. */
static void event_read(struct spot_call *c, struct watching *w, const char *body)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *detail;
	struct event e;

	if (body == NULL || json_parse(str_from(body), "event", &doc, NULL) != SPOT_OK) {
		return;
	}
	detail = json_object_get(doc, "detail");
	e = (struct event){ .id = text_of(c->arena, doc, "id"),
		.type = text_of(c->arena, doc, "detail-type"),
		.at = text_of(c->arena, doc, "time"),
		.ref = text_of(c->arena, detail, "instance-id"),
		.action = text_of(c->arena, detail, "instance-action"),
		.ends = text_of(c->arena, detail, "instance-termination-time") };
	if (strcmp(text_of(c->arena, doc, "source"), "aws.ec2") != 0 || !event_wanted(e.type) ||
	    !aws_id_ok(e.ref, "i-") || *e.id == '\0' || strlen(e.id) > 100 ||
	    seen_before(w, e.id)) {
		return;
	}
	w->seen[w->seen_n++] = e.id;
	w->events[w->events_n++] = e;
}

static enum spot_step receive_reply(struct aws *self, struct spot_call *c, struct watching *w)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *list, *m;
	size_t i;
	enum spot_step s = aws_reply_json(self, c, "ReceiveMessage", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	list = json_object_get(doc, "Messages"); /* absent where there are none */
	if (list != NULL && !json_is_null(list) && !json_is_array(list)) {
		return aws_bad_reply(c, "ReceiveMessage", "Messages is not an array");
	}
	json_array_foreach (list, i, m) {
		const char *handle = json_string_value(json_object_get(m, "ReceiptHandle"));

		if (str_empty(handle)) {
			return aws_bad_reply(c, "ReceiveMessage",
			    "Messages[%zu] has no ReceiptHandle", i);
		}
		if (w->handles_n == BATCH) {
			return aws_bad_reply(c, "ReceiveMessage", "more than %d messages", BATCH);
		}
		w->handles[w->handles_n++] = arena_strdup(c->arena, handle);
		event_read(c, w, json_string_value(json_object_get(m, "Body")));
	}
	return SPOT_STEP_NONE;
}

/* ---- whose ----------------------------------------------------------------------------------- */

static enum spot_step look_up_send(struct aws *self, struct spot_call *c,
    const struct spot_watch *a, const struct watching *w)
{
	struct query q;

	query_begin(&q, c->arena, "DescribeInstances", EC2_VERSION);
	query_filter(&q, 1, "tag:" AWS_TAG_INSTALL, a->install);
	query_add(&q, "Filter.2.Name", "instance-id");
	for (size_t i = 0; i < w->events_n; i++) {
		query_addf(&q, w->events[i].ref, "Filter.2.Value.%zu", i + 1);
	}
	query_add(&q, "MaxResults", "500");
	return query_send_ec2(&q, self, c, a->region, "DescribeInstances", AWS_LIMIT_DESCRIBE,
	    false);
}

static const struct spot_instance *ours_find(const struct watching *w, const char *ref)
{
	for (size_t i = 0; i < w->ours.n; i++) {
		if (strcmp(w->ours.items[i].ref, ref) == 0) {
			return &w->ours.items[i];
		}
	}
	return NULL;
}

static void notice_add(struct spot_call *c, struct watching *w, const struct event *e)
{
	bool rebalance = strstr(e->type, "Rebalance") != NULL;
	int64_t at = aws_time(e->at), ends = rebalance ? 0 : aws_time(e->ends);

	if (strstr(e->type, "State-change") != NULL) {
		return;
	}
	w->notices[w->notices_n] = (struct spot_notice){ .ref = e->ref,
		.kind = rebalance ? SPOT_NOTICE_REBALANCE : SPOT_NOTICE_INTERRUPTION,
		.source = SOURCE,
		.raw = arena_printf(c->arena, "%s %s at %s, event %s", e->type, e->action, e->at,
		    e->id) };
	/* A reservation's warning has the time of the end. Hibernation begins at once, everything
	 * else two minutes after the warning. */
	if (ends != 0) {
		w->notices[w->notices_n].deadline_us = ends;
	} else if (!rebalance && at != 0) {
		w->notices[w->notices_n].deadline_us =
		    strcmp(e->action, "hibernate") == 0 ? at : at + NOTICE_US;
	}
	w->notices_n++;
}

static enum spot_step look_up_reply(struct aws *self, struct spot_call *c,
    const struct spot_watch *a, struct watching *w)
{
	const struct xml *doc;
	enum spot_step s =
	    aws_instances_read(self, c, arena_strdup(c->arena, a->region), &w->ours, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	for (size_t i = 0; i < w->events_n; i++) {
		if (ours_find(w, w->events[i].ref) != NULL) {
			notice_add(c, w, &w->events[i]);
		}
	}
	return SPOT_STEP_NONE;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static enum spot_step watch_done(struct spot_call *c, struct spot_watch *a, struct watching *w)
{
	a->notices = arena_array(c->arena, w->notices_n + 1, sizeof(*a->notices));
	memcpy(a->notices, w->notices, w->notices_n * sizeof(*a->notices));
	a->notices_n = w->notices_n;
	a->seen = w->ours.items;
	a->seen_n = w->ours.n;
	a->gap = str_empty(a->cursor);
	a->next_cursor = cursor_write(c, w);
	return SPOT_DONE;
}

static enum spot_step watch_reply(struct aws *self, struct spot_call *c, struct spot_watch *a,
    struct watching *w)
{
	struct call_state *st = c->state;
	json_t *doc AUTO(json) = NULL;
	enum spot_step s;

	switch (st->at) {
	case DELETE:
		/* One that is not deleted comes again, and is known by its id. */
		s = aws_reply_json(self, c, "DeleteMessageBatch", &doc);
		if (s == SPOT_STEP_NONE) {
			w->handles_n = 0;
			st->at = RECEIVE;
		}
		return s;
	case RECEIVE:
		s = receive_reply(self, c, w);
		st->at = s == SPOT_STEP_NONE && w->events_n > 0 ? LOOK_UP : st->at;
		return s != SPOT_STEP_NONE || w->events_n > 0 ? s : watch_done(c, a, w);
	default:
		s = look_up_reply(self, c, a, w);
		return s != SPOT_STEP_NONE ? s : watch_done(c, a, w);
	}
}

enum spot_step aws_watch(void *p, struct spot_call *c, struct spot_watch *a)
{
	struct aws *self = p;
	struct call_state *st = c->state;
	struct watching *w;
	enum spot_step s;

	if (st == NULL) {
		if (str_empty(a->region) || str_empty(a->install)) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "aws watch: a region and an installation are needed");
		}
		if (aws_queue(self, a->region) == NULL) {
			return call_fail(c, SPOT_NOT_OFFERED, NULL,
			    "aws watch: interruption_queue.%s is not set", a->region);
		}
		st = call_state_get(c, sizeof(*w));
		cursor_read(c, st->own, a->cursor);
	}
	w = st->own;
	if (c->in != NULL) {
		s = watch_reply(self, c, a, w);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (st->at == DELETE && w->handles_n > 0) {
		return delete_send(self, c, a->region, w);
	}
	if (st->at == LOOK_UP) {
		return look_up_send(self, c, a, w);
	}
	st->at = RECEIVE;
	return aws_queue_receive(self, c, a->region, BATCH,
	    (int)MIN(MAX(a->hold_us, 0) / SPOT_US_PER_S, WAIT_MAX_S), -1);
}
