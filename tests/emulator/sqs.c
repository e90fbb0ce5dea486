/* Amazon SQS, JSON 1.0 protocol: standard queues with visibility, long polls and retention. Delivery is at
 * least once and a receipt handle is good for the last delivery. */
#include "base/base.h"
#include "aws.h"
#include "sqs.h"
#include "base/sign.h"
#include "base/str.h"

#include <openssl/evp.h>

#define BODY_MAX    1048576
#define BATCH_MAX   10
#define WAIT_MAX_S  20
#define HIDE_MAX_S  43200
#define HANDLE_HEAD "AQEB"

struct message {
	struct message *next;
	char *id, *body, *handle;
	int64_t sent_us, visible_us, first_us;
	int64_t received; /* times */
};
struct receiver {
	struct receiver *next;
	struct sim_req *rq;
	struct queue *queue;
	int64_t max, hide_us;
	struct loop_timer timer;
};
struct queue {
	struct queue *next;
	struct sim *sim;
	char *region, *name;
	int64_t hide_us, keep_us, wait_s, made_us;
	char *policy;
	struct message *first, **last;
	struct receiver *receivers;
	struct loop_timer timer; /* when a hidden message shows again */
};
struct sqs {
	struct queue *queues;
};

/* ---- replies ---------------------------------------------------------------------------- */

/* The code of the query protocol goes into a header: the service is "query compatible". */
static void sqs_fail(struct sim_req *rq, struct sim_reply *rep, const char *type,
    const char *query_code, const char *message)
{
	reply_fail(rq, rep, 400, arena_printf(rq->arena, "com.amazonaws.sqs#%s", type), "%s",
	    message);
	reply_header(rep, "x-amzn-query-error", arena_printf(rq->arena, "%s;Sender", query_code));
	rep->type = "application/x-amz-json-1.0";
	rep->code = query_code;
}

static void sqs_reply(struct sim_req *rq, struct sim_reply *rep, json_t *doc)
{
	reply_json(rq, rep, 200, doc);
	rep->type = "application/x-amz-json-1.0";
}

static void bad_value(struct sim_req *rq, struct sim_reply *rep, const char *message)
{
	sqs_fail(rq, rep, "InvalidParameterValueException", "InvalidParameterValue", message);
}

/* ---- queues ----------------------------------------------------------------------------- */

static struct sqs *state(struct sim *s)
{
	struct sqs **at = aws_sqs(s);

	if (!*at && !(*at = calloc(1, sizeof(**at))))
		abort();
	return *at;
}

static void shows_again(struct loop_timer *t);

static struct queue *queue_new(struct sim *s, const char *region, const char *name)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q)
		abort();
	*q = (struct queue){.next = state(s)->queues, .sim = s, .region = dup_text(region),
	    .name = dup_text(name), .hide_us = 30 * SPOT_US_PER_S,
	    .keep_us = 4 * 24 * SPOT_US_PER_HOUR, .made_us = sim_wall(s)};
	q->last = &q->first;
	loop_timer_init(&q->timer, s->loop, shows_again);
	state(s)->queues = q;
	return q;
}

/* The account's own queue is there from the start in every region, as its stack made it. */
static struct queue *queue_find(struct sim *s, const char *region, const char *name)
{
	const struct region *r;
	struct queue *q;

	for (q = state(s)->queues; q; q = q->next) {
		if (str_same(q->region, region) && str_same(q->name, name))
			return q;
	}
	r = market_region(s->market, CLOUD_AWS, region);
	if (!str_same(name, SQS_OWN_QUEUE) || !r || !r->enabled)
		return NULL;
	q = queue_new(s, region, name);
	q->keep_us = 300 * SPOT_US_PER_S;
	return q;
}

static void message_free(struct message *m)
{
	free(m->id);
	free(m->body);
	free(m->handle);
	free(m);
}

static void message_drop(struct queue *q, struct message **at)
{
	struct message *m = *at;

	*at = m->next;
	if (!m->next)
		q->last = at;
	message_free(m);
}

static void forget_old(struct queue *q)
{
	int64_t now = sim_wall(q->sim);

	for (struct message **at = &q->first; *at;) {
		if (now - (*at)->sent_us > q->keep_us)
			message_drop(q, at);
		else
			at = &(*at)->next;
	}
}

/* ---- receiving -------------------------------------------------------------------------- */

static const char *md5_hex(struct arena *a, const char *text)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned int n = 0;
	char *hex = arena_alloc(a, 33);

	if (!EVP_Digest(text, strlen(text), md, &n, EVP_md5(), NULL) || n != 16)
		abort();
	for (unsigned int k = 0; k < n; k++)
		snprintf(hex + 2 * k, 3, "%02x", md[k]);
	return hex;
}

static json_t *deliver(struct sim_req *rq, struct queue *q, struct message *m, int64_t hide_us)
{
	char id[33];
	int64_t now = sim_wall(q->sim);

	rng_hex(&q->sim->rng, id, 16);
	free(m->handle);
	m->handle = dup_text(arena_printf(rq->arena, HANDLE_HEAD "%s%s", id, m->id));
	m->visible_us = now + hide_us;
	m->first_us = m->first_us ? m->first_us : now;
	m->received++;
	return json_pack("{s:s, s:s, s:s, s:s}", "MessageId", m->id, "ReceiptHandle", m->handle,
	    "MD5OfBody", md5_hex(rq->arena, m->body), "Body", m->body);
}

static json_t *take(struct sim_req *rq, struct queue *q, int64_t max, int64_t hide_us)
{
	json_t *list = json_array();
	int64_t now = sim_wall(q->sim), n = 0;

	forget_old(q);
	for (struct message *m = q->first; m && n < max; m = m->next) {
		if (m->visible_us > now)
			continue;
		json_array_append_new(list, deliver(rq, q, m, hide_us));
		n++;
	}
	return list;
}

/* An empty answer has no Messages at all. */
static json_t *taken_doc(json_t *list)
{
	json_t *doc = json_object();

	if (json_array_size(list) > 0)
		json_object_set(doc, "Messages", list);
	json_decref(list);
	return doc;
}

static void receiver_unlink(struct receiver *w)
{
	struct receiver **at = &w->queue->receivers;

	while (*at && *at != w)
		at = &(*at)->next;
	if (*at)
		*at = w->next;
	loop_timer_stop(&w->timer);
}

static void receiver_answer(struct receiver *w)
{
	struct sim_req *rq = w->rq;
	char *text;
	json_t *doc;

	receiver_unlink(w);
	doc = taken_doc(take(rq, w->queue, w->max, w->hide_us));
	text = json_text(rq->arena, doc);
	json_decref(doc);
	rq->http->gone = NULL;
	httpd_set(rq->http, "x-amzn-RequestId", rq->request_id);
	httpd_reply(rq->http, 200, "application/x-amz-json-1.0", text, strlen(text));
}

static void receiver_late(struct loop_timer *t)
{
	receiver_answer(container_of(t, struct receiver, timer));
}

static void receiver_gone(struct httpd_req *r)
{
	receiver_unlink(r->user);
}

static bool anything(const struct queue *q)
{
	int64_t now = sim_wall(q->sim);

	for (const struct message *m = q->first; m; m = m->next) {
		if (m->visible_us <= now)
			return true;
	}
	return false;
}

/* Whoever waits gets what there is now; the next hidden message wakes us again. */
static void queue_wake(struct queue *q)
{
	int64_t next = 0, now = sim_wall(q->sim);

	while (q->receivers && anything(q))
		receiver_answer(q->receivers);
	for (const struct message *m = q->first; m; m = m->next) {
		if (m->visible_us > now && (!next || m->visible_us < next))
			next = m->visible_us;
	}
	if (q->receivers && next)
		loop_timer_set(&q->timer, MAX(next - now, 1000));
}

static void shows_again(struct loop_timer *t)
{
	queue_wake(container_of(t, struct queue, timer));
}

static void park(struct sim_req *rq, struct sim_reply *rep, struct queue *q, int64_t max,
    int64_t hide_us, int64_t wait_s)
{
	struct receiver *w = arena_alloc(rq->arena, sizeof(*w));

	*w = (struct receiver){.next = q->receivers, .rq = rq, .queue = q, .max = max,
	    .hide_us = hide_us};
	q->receivers = w;
	loop_timer_init(&w->timer, q->sim->loop, receiver_late);
	loop_timer_set(&w->timer, wait_s * SPOT_US_PER_S);
	rq->http->user = w;
	rq->http->gone = receiver_gone;
	rep->parked = true;
	queue_wake(q);
}

/* ---- parameters ------------------------------------------------------------------------- */

static bool number(struct sim_req *rq, struct sim_reply *rep, const json_t *doc, const char *key,
    int64_t min, int64_t max, int64_t dflt, int64_t *ret)
{
	const json_t *v = json_object_get(doc, key);

	*ret = v ? json_integer_value(v) : dflt;
	if (!v || (json_is_integer(v) && *ret >= min && *ret <= max))
		return true;
	bad_value(rq, rep,
	    arena_printf(rq->arena,
		"Value for parameter %s is invalid. Reason: Must be >= %" PRId64 " and <= %" PRId64
		", if provided.",
		key, min, max));
	return false;
}

static struct queue *need_queue(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const char *url = json_string_value(json_object_get(doc, "QueueUrl")), *name;
	const char *account = url ? strstr(url, "/" AWS_ACCOUNT "/") : NULL;
	struct queue *q = NULL;

	if (!url) {
		sqs_fail(rq, rep, "MissingRequiredParameterException", "MissingParameter",
		    "The request must contain the parameter QueueUrl.");
		return NULL;
	}
	name = account ? account + strlen("/" AWS_ACCOUNT "/") : "";
	if (*name)
		q = queue_find(rq->sim, rq->region, name);
	if (!q)
		sqs_fail(rq, rep, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue",
		    "The specified queue does not exist.");
	return q;
}

/* ---- calls ------------------------------------------------------------------------------ */

static const char *url_of(struct sim_req *rq, const struct queue *q)
{
	return arena_printf(rq->arena, "http://127.0.0.1:%d/%s/%s", httpd_port(rq->sim->http),
	    AWS_ACCOUNT, q->name);
}

static bool name_ok(const char *name)
{
	size_t n = name ? strlen(name) : 0;

	return n >= 1 && n <= 80 &&
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n;
}

static bool attributes_set(
    struct sim_req *rq, struct sim_reply *rep, struct queue *q, const json_t *attributes)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)attributes, key, value)
	{
		const char *text = json_string_value(value);
		int64_t v = 0;

		if (!text) {
			sqs_fail(rq, rep, "InvalidAttributeValue", "InvalidAttributeValue", key);
			return false;
		}
		if (str_same(key, "VisibilityTimeout") && parse_i64(text, 0, HIDE_MAX_S, &v)) {
			q->hide_us = v * SPOT_US_PER_S;
		} else if (str_same(key, "MessageRetentionPeriod") && parse_i64(text, 60, 1209600, &v)) {
			q->keep_us = v * SPOT_US_PER_S;
		} else if (str_same(key, "ReceiveMessageWaitTimeSeconds") &&
		    parse_i64(text, 0, WAIT_MAX_S, &v)) {
			q->wait_s = v;
		} else if (str_same(key, "Policy")) {
			free(q->policy);
			q->policy = dup_text(text);
		} else if (!str_same(key, "SqsManagedSseEnabled")) {
			sqs_fail(rq, rep, "InvalidAttributeName", "InvalidAttributeName",
			    arena_printf(rq->arena, "Unknown Attribute or value: %s", key));
			return false;
		}
	}
	return true;
}

static void create_queue(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const char *name = json_string_value(json_object_get(doc, "QueueName"));
	struct queue *q;

	if (!name_ok(name)) {
		bad_value(rq, rep,
		    "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in "
		    "length");
		return;
	}
	q = queue_find(rq->sim, rq->region, name);
	if (!q)
		q = queue_new(rq->sim, rq->region, name);
	if (attributes_set(rq, rep, q, json_object_get(doc, "Attributes")))
		sqs_reply(rq, rep, json_pack("{s:s}", "QueueUrl", url_of(rq, q)));
}

static void get_url(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const char *name = json_string_value(json_object_get(doc, "QueueName"));
	struct queue *q = name ? queue_find(rq->sim, rq->region, name) : NULL;

	if (q)
		sqs_reply(rq, rep, json_pack("{s:s}", "QueueUrl", url_of(rq, q)));
	else
		sqs_fail(rq, rep, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue",
		    "The specified queue does not exist.");
}

static void get_attributes(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	struct queue *q = need_queue(rq, rep, doc);
	int64_t shown = 0, hidden = 0, now = sim_wall(rq->sim);

	if (!q)
		return;
	forget_old(q);
	for (const struct message *m = q->first; m; m = m->next)
		*(m->visible_us > now ? &hidden : &shown) += 1;
	sqs_reply(rq, rep,
	    json_pack("{s:{s:o, s:o, s:o, s:o, s:o}}", "Attributes", "QueueArn",
		json_sprintf("arn:aws:sqs:%s:%s:%s", q->region, AWS_ACCOUNT, q->name),
		"ApproximateNumberOfMessages", json_sprintf("%" PRId64, shown),
		"ApproximateNumberOfMessagesNotVisible", json_sprintf("%" PRId64, hidden),
		"VisibilityTimeout", json_sprintf("%" PRId64, q->hide_us / SPOT_US_PER_S),
		"MessageRetentionPeriod", json_sprintf("%" PRId64, q->keep_us / SPOT_US_PER_S)));
}

static struct message *put(struct queue *q, const char *body)
{
	struct message *m = calloc(1, sizeof(*m));
	char id[33];

	if (!m)
		abort();
	rng_hex(&q->sim->rng, id, 16);
	m->id = malloc(40);
	if (!m->id)
		abort();
	snprintf(m->id, 40, "%.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8, id + 12, id + 16, id + 20);
	m->body = dup_text(body);
	m->sent_us = m->visible_us = sim_wall(q->sim);
	*q->last = m;
	q->last = &m->next;
	return m;
}

static void send_message(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const char *body = json_string_value(json_object_get(doc, "MessageBody"));
	struct queue *q = need_queue(rq, rep, doc);
	const struct message *m;

	if (!q)
		return;
	if (!body || !*body || strlen(body) > BODY_MAX) {
		bad_value(rq, rep, "The request must contain the parameter MessageBody of 1 to 1048576 bytes.");
		return;
	}
	m = put(q, body);
	sqs_reply(rq, rep,
	    json_pack("{s:s, s:s}", "MessageId", m->id, "MD5OfMessageBody", md5_hex(rq->arena, body)));
	queue_wake(q);
}

static void receive(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	struct queue *q = need_queue(rq, rep, doc);
	int64_t max, wait_s, hide_s;

	if (!q || !number(rq, rep, doc, "MaxNumberOfMessages", 1, BATCH_MAX, 1, &max) ||
	    !number(rq, rep, doc, "WaitTimeSeconds", 0, WAIT_MAX_S, q->wait_s, &wait_s) ||
	    !number(rq, rep, doc, "VisibilityTimeout", 0, HIDE_MAX_S, q->hide_us / SPOT_US_PER_S, &hide_s))
		return;
	forget_old(q);
	if (wait_s > 0 && !anything(q))
		park(rq, rep, q, max, hide_s * SPOT_US_PER_S, wait_s);
	else
		sqs_reply(rq, rep, taken_doc(take(rq, q, max, hide_s * SPOT_US_PER_S)));
}

/* false: not a handle at all. One of an earlier delivery is accepted and does nothing. */
static bool delete_one(struct queue *q, const char *handle)
{
	if (!handle || !str_prefix(handle, HANDLE_HEAD))
		return false;
	for (struct message **at = &q->first; *at; at = &(*at)->next) {
		if (str_same((*at)->handle, handle)) {
			message_drop(q, at);
			break;
		}
	}
	return true;
}

static void delete_message(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	struct queue *q = need_queue(rq, rep, doc);

	if (!q)
		return;
	if (delete_one(q, json_string_value(json_object_get(doc, "ReceiptHandle"))))
		sqs_reply(rq, rep, json_object());
	else
		sqs_fail(rq, rep, "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid",
		    "The input receipt handle is invalid.");
}

static bool ids_distinct(const json_t *entries)
{
	for (size_t i = 0; i < json_array_size(entries); i++) {
		for (size_t k = 0; k < i; k++) {
			if (json_equal(json_object_get(json_array_get(entries, i), "Id"),
				json_object_get(json_array_get(entries, k), "Id")))
				return false;
		}
	}
	return true;
}

static void delete_batch(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const json_t *entries = json_object_get(doc, "Entries"), *x;
	struct queue *q = need_queue(rq, rep, doc);
	json_t *good, *bad, *out;
	size_t i;

	if (!q)
		return;
	if (json_array_size(entries) == 0) {
		sqs_fail(rq, rep, "EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest",
		    "There should be at least one DeleteMessageBatchRequestEntry in the request.");
		return;
	}
	if (json_array_size(entries) > BATCH_MAX || !ids_distinct(entries)) {
		bool many = json_array_size(entries) > BATCH_MAX;

		sqs_fail(rq, rep, many ? "TooManyEntriesInBatchRequest" : "BatchEntryIdsNotDistinct",
		    many ? "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"
			 : "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
		    "Maximum number of entries per request are 10, with distinct ids.");
		return;
	}
	good = json_array();
	bad = json_array();
	json_array_foreach(entries, i, x)
	{
		json_t *id = json_object_get(x, "Id");

		if (delete_one(q, json_string_value(json_object_get(x, "ReceiptHandle"))))
			json_array_append_new(good, json_pack("{s:O}", "Id", id));
		else
			json_array_append_new(bad,
			    json_pack("{s:O, s:s, s:b, s:s}", "Id", id, "Code",
				"ReceiptHandleIsInvalid", "SenderFault", 1, "Message",
				"The input receipt handle is invalid."));
	}
	out = json_pack("{s:o}", "Successful", good);
	if (json_array_size(bad) > 0)
		json_object_set(out, "Failed", bad);
	json_decref(bad);
	sqs_reply(rq, rep, out);
}

/* ---- the table -------------------------------------------------------------------------- */

static const struct {
	const char *action;
	void (*fn)(struct sim_req *, struct sim_reply *, const json_t *);
	const char *known[8]; /* members of the request */
} calls[] = {
    {"CreateQueue", create_queue, {"QueueName", "Attributes", "tags"}},
    {"GetQueueUrl", get_url, {"QueueName", "QueueOwnerAWSAccountId"}},
    {"GetQueueAttributes", get_attributes, {"QueueUrl", "AttributeNames"}},
    {"SendMessage", send_message, {"QueueUrl", "MessageBody"}},
    {"ReceiveMessage", receive,
	{"QueueUrl", "MaxNumberOfMessages", "WaitTimeSeconds", "VisibilityTimeout",
	    "AttributeNames", "MessageSystemAttributeNames", "MessageAttributeNames"}},
    {"DeleteMessage", delete_message, {"QueueUrl", "ReceiptHandle"}},
    {"DeleteMessageBatch", delete_batch, {"QueueUrl", "Entries"}},
};

void sqs_serve(struct sim_req *rq, struct sim_reply *rep)
{
	json_t *doc AUTO(json) = aws_json_body(rq, rep);

	if (!doc)
		return;
	if (!str_same(req_header(rq, "content-type"), "application/x-amz-json-1.0")) {
		sqs_fail(rq, rep, "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation",
		    "This service speaks JSON 1.0.");
		return;
	}
	for (size_t k = 0; k < ARRAY_LEN(calls); k++) {
		const char *unknown;

		if (!str_same(calls[k].action, rq->action))
			continue;
		unknown = json_unknown_key(doc, calls[k].known);
		if (unknown)
			bad_value(rq, rep,
			    arena_printf(rq->arena, "The member %s is not known here.", unknown));
		else
			calls[k].fn(rq, rep, doc);
		return;
	}
	sqs_fail(rq, rep, "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation",
	    "The action is not emulated.");
}

/* ---- for events ------------------------------------------------------------------------- */

void sqs_event(struct sim *s, const char *region, const char *body)
{
	(void)queue_find(s, region, SQS_OWN_QUEUE);
	for (struct queue *q = state(s)->queues; q; q = q->next) {
		if (!str_same(q->region, region) || !str_prefix(q->name, SQS_RULE_PREFIX))
			continue;
		forget_old(q);
		put(q, body);
		queue_wake(q);
	}
}

void sqs_free(struct sqs *x)
{
	while (x && x->queues) {
		struct queue *q = x->queues;

		x->queues = q->next;
		loop_timer_stop(&q->timer);
		while (q->first)
			message_drop(q, &q->first);
		free(q->region);
		free(q->name);
		free(q->policy);
		free(q);
	}
	free(x);
}
