/* Amazon SQS, JSON 1.0 protocol: standard queues with visibility, long polls and retention.
 * Delivery is at least once and a receipt handle is good for the last delivery. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/text/text.h"

#define BODY_MAX 1048576
#define BATCH_MAX 10
#define WAIT_MAX_S 20
#define HIDE_MAX_S 43200
#define DELAY_MAX_S 900

/* ---- replies --------------------------------------------------------------------------------- */

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

/* ---- parameters ------------------------------------------------------------------------------ */

static bool number_read(struct sim_req *rq, struct sim_reply *rep, const json_t *doc,
    const char *key, int64_t min, int64_t max, int64_t dflt, int64_t *ret)
{
	const json_t *v = json_object_get(doc, key);

	*ret = v ? json_integer_value(v) : dflt;
	if (!v || (json_is_integer(v) && *ret >= min && *ret <= max)) {
		return true;
	}
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
	if (*name) {
		q = sqs_queue_find(rq->sim, rq->region, name);
	}
	if (!q) {
		sqs_fail(rq, rep, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue",
		    "The specified queue does not exist.");
	}
	return q;
}

/* ---- calls ----------------------------------------------------------------------------------- */

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

static bool attributes_set(struct sim_req *rq, struct sim_reply *rep, struct queue *q,
    const json_t *attributes)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)attributes, key, value) {
		const char *text = json_string_value(value);
		int64_t v = 0;

		if (!text) {
			sqs_fail(rq, rep, "InvalidAttributeValue", "InvalidAttributeValue", key);
			return false;
		}
		if (str_same(key, "VisibilityTimeout") && parse_i64(text, 0, HIDE_MAX_S, &v)) {
			q->hide_us = v * SPOT_US_PER_S;
		} else if (str_same(key, "MessageRetentionPeriod") &&
		    parse_i64(text, 60, 1209600, &v)) {
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
	q = sqs_queue_find(rq->sim, rq->region, name);
	if (!q) {
		q = sqs_queue_new(rq->sim, rq->region, name);
	}
	if (attributes_set(rq, rep, q, json_object_get(doc, "Attributes"))) {
		sqs_reply(rq, rep, json_pack("{s:s}", "QueueUrl", url_of(rq, q)));
	}
}

static void get_url(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const char *name = json_string_value(json_object_get(doc, "QueueName"));
	struct queue *q = name ? sqs_queue_find(rq->sim, rq->region, name) : NULL;

	if (q) {
		sqs_reply(rq, rep, json_pack("{s:s}", "QueueUrl", url_of(rq, q)));
	} else {
		sqs_fail(rq, rep, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue",
		    "The specified queue does not exist.");
	}
}

static void get_attributes(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	struct queue *q = need_queue(rq, rep, doc);
	int64_t shown = 0, hidden = 0, now = sim_wall(rq->sim);

	if (!q) {
		return;
	}
	sqs_forget_old(q);
	for (const struct message *m = q->first; m; m = m->next) {
		*(m->visible_us > now ? &hidden : &shown) += 1;
	}
	sqs_reply(rq, rep,
	    json_pack("{s:{s:o, s:o, s:o, s:o, s:o}}", "Attributes", "QueueArn",
		json_sprintf("arn:aws:sqs:%s:%s:%s", q->region, AWS_ACCOUNT, q->name),
		"ApproximateNumberOfMessages", json_sprintf("%" PRId64, shown),
		"ApproximateNumberOfMessagesNotVisible", json_sprintf("%" PRId64, hidden),
		"VisibilityTimeout", json_sprintf("%" PRId64, q->hide_us / SPOT_US_PER_S),
		"MessageRetentionPeriod", json_sprintf("%" PRId64, q->keep_us / SPOT_US_PER_S)));
}

static void send_message(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const char *body = json_string_value(json_object_get(doc, "MessageBody"));
	struct queue *q = need_queue(rq, rep, doc);
	struct message *m;
	int64_t delay_s;

	if (!q || !number_read(rq, rep, doc, "DelaySeconds", 0, DELAY_MAX_S, 0, &delay_s)) {
		return;
	}
	if (!body || !*body || strlen(body) > BODY_MAX) {
		bad_value(rq, rep,
		    "The request must contain the parameter MessageBody of 1 to 1048576 bytes.");
		return;
	}
	m = sqs_put(q, body);
	m->visible_us += delay_s * SPOT_US_PER_S;
	sqs_reply(rq, rep,
	    json_pack("{s:s, s:s}", "MessageId", m->id, "MD5OfMessageBody",
		sqs_md5(rq->arena, body)));
	sqs_wake(q);
}

static void messages_receive(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	struct queue *q = need_queue(rq, rep, doc);
	int64_t max, wait_s, hide_s;

	if (!q || !number_read(rq, rep, doc, "MaxNumberOfMessages", 1, BATCH_MAX, 1, &max) ||
	    !number_read(rq, rep, doc, "WaitTimeSeconds", 0, WAIT_MAX_S, q->wait_s, &wait_s) ||
	    !number_read(rq, rep, doc, "VisibilityTimeout", 0, HIDE_MAX_S,
		q->hide_us / SPOT_US_PER_S, &hide_s)) {
		return;
	}
	sqs_forget_old(q);
	if (wait_s > 0 && !sqs_anything(q)) {
		sqs_park(rq, rep, q, max, hide_s * SPOT_US_PER_S, wait_s);
	} else {
		sqs_reply(rq, rep, sqs_taken(rq, q, max, hide_s * SPOT_US_PER_S));
	}
}

static void delete_message(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	struct queue *q = need_queue(rq, rep, doc);

	if (!q) {
		return;
	}
	if (sqs_delete(q, json_string_value(json_object_get(doc, "ReceiptHandle")))) {
		sqs_reply(rq, rep, json_object());
	} else {
		sqs_fail(rq, rep, "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid",
		    "The input receipt handle is invalid.");
	}
}

static bool ids_distinct(const json_t *entries)
{
	for (size_t i = 0; i < json_array_size(entries); i++) {
		for (size_t k = 0; k < i; k++) {
			if (json_equal(json_object_get(json_array_get(entries, i), "Id"),
				json_object_get(json_array_get(entries, k), "Id"))) {
				return false;
			}
		}
	}
	return true;
}

static void delete_batch(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const json_t *entries = json_object_get(doc, "Entries"), *x;
	struct queue *q = need_queue(rq, rep, doc);
	json_t *good, *bad;
	size_t i;

	if (!q) {
		return;
	}
	if (json_array_size(entries) == 0) {
		sqs_fail(rq, rep, "EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest",
		    "There should be at least one DeleteMessageBatchRequestEntry in the request.");
		return;
	}
	if (json_array_size(entries) > BATCH_MAX || !ids_distinct(entries)) {
		bool many = json_array_size(entries) > BATCH_MAX;

		sqs_fail(rq, rep,
		    many ? "TooManyEntriesInBatchRequest" : "BatchEntryIdsNotDistinct",
		    many ? "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"
			 : "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
		    "Maximum number of entries per request are 10, with distinct ids.");
		return;
	}
	good = json_array();
	bad = json_array();
	json_array_foreach (entries, i, x) {
		json_t *id = json_object_get(x, "Id");

		if (sqs_delete(q, json_string_value(json_object_get(x, "ReceiptHandle")))) {
			json_array_append_new(good, json_pack("{s:O}", "Id", id));
		} else {
			json_array_append_new(bad,
			    json_pack("{s:O, s:s, s:b, s:s}", "Id", id, "Code",
				"ReceiptHandleIsInvalid", "SenderFault", 1, "Message",
				"The input receipt handle is invalid."));
		}
	}
	/* Both lists are required by the model, also when empty. */
	sqs_reply(rq, rep, json_pack("{s:o, s:o}", "Successful", good, "Failed", bad));
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
	const char *action;
	void (*fn)(struct sim_req *, struct sim_reply *, const json_t *);
	const char *known[8]; /* members of the request */
} calls[] = {
	{ "CreateQueue", create_queue, { "QueueName", "Attributes", "tags" } },
	{ "GetQueueUrl", get_url, { "QueueName", "QueueOwnerAWSAccountId" } },
	{ "GetQueueAttributes", get_attributes, { "QueueUrl", "AttributeNames" } },
	{ "SendMessage", send_message, { "QueueUrl", "MessageBody", "DelaySeconds" } },
	{ "ReceiveMessage", messages_receive,
	    { "QueueUrl", "MaxNumberOfMessages", "WaitTimeSeconds", "VisibilityTimeout",
		"AttributeNames", "MessageSystemAttributeNames", "MessageAttributeNames" } },
	{ "DeleteMessage", delete_message, { "QueueUrl", "ReceiptHandle" } },
	{ "DeleteMessageBatch", delete_batch, { "QueueUrl", "Entries" } },
};

void sqs_serve(struct sim_req *rq, struct sim_reply *rep)
{
	json_t *doc AUTO(json) = aws_json_body(rq, rep);

	if (!doc) {
		return;
	}
	if (!str_same(req_header(rq, "content-type"), "application/x-amz-json-1.0")) {
		sqs_fail(rq, rep, "UnsupportedOperation",
		    "AWS.SimpleQueueService.UnsupportedOperation", "This service speaks JSON 1.0.");
		return;
	}
	for (size_t k = 0; k < ARRAY_LEN(calls); k++) {
		const char *unknown;

		if (!str_same(calls[k].action, rq->action)) {
			continue;
		}
		unknown = json_unknown_key(doc, calls[k].known);
		if (unknown) {
			bad_value(rq, rep,
			    arena_printf(rq->arena, "The member %s is not known here.", unknown));
		} else {
			calls[k].fn(rq, rep, doc);
		}
		return;
	}
	sqs_fail(rq, rep, "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation",
	    "The action is not emulated.");
}
