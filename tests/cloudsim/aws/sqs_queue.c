/* Queues of SQS: messages with visibility and retention, receivers that wait. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/text/text.h"

#include <openssl/evp.h>

#define HANDLE_HEAD "AQEB"

struct receiver {
	struct receiver *next;
	struct sim_req *rq;
	struct queue *queue;
	int64_t max, hide_us;
	struct loop_timer timer;
};
struct sqs {
	struct queue *queues;
};

/* ---- queues ---------------------------------------------------------------------------------- */

static struct sqs *sqs_state(struct sim *s)
{
	struct sqs **at = aws_sqs(s);

	if (!*at && !(*at = calloc(1, sizeof(**at)))) {
		abort();
	}
	return *at;
}

static void shows_again(struct loop_timer *t);

struct queue *sqs_queue_new(struct sim *s, const char *region, const char *name)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q) {
		abort();
	}
	*q = (struct queue){ .next = sqs_state(s)->queues,
		.sim = s,
		.region = dup_text(region),
		.name = dup_text(name),
		.hide_us = 30 * SPOT_US_PER_S,
		.keep_us = 4 * 24 * SPOT_US_PER_HOUR,
		.made_us = sim_wall(s) };
	q->last = &q->first;
	loop_timer_init(&q->timer, s->loop, shows_again);
	sqs_state(s)->queues = q;
	return q;
}

/* The account's own queue is there from the start in every region, as its stack made it. */
struct queue *sqs_queue_find(struct sim *s, const char *region, const char *name)
{
	const struct region *r;
	struct queue *q;

	for (q = sqs_state(s)->queues; q; q = q->next) {
		if (str_same(q->region, region) && str_same(q->name, name)) {
			return q;
		}
	}
	r = market_region(s->market, CLOUD_AWS, region);
	if (!str_same(name, SQS_OWN_QUEUE) || !r || !r->enabled) {
		return NULL;
	}
	q = sqs_queue_new(s, region, name);
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
	if (!m->next) {
		q->last = at;
	}
	message_free(m);
}

void sqs_forget_old(struct queue *q)
{
	int64_t now = sim_wall(q->sim);

	for (struct message **at = &q->first; *at;) {
		if (now - (*at)->sent_us > q->keep_us) {
			message_drop(q, at);
		} else {
			at = &(*at)->next;
		}
	}
}

/* ---- receiving ------------------------------------------------------------------------------- */

const char *sqs_md5(struct arena *a, const char *text)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned int n = 0;
	char *hex = arena_alloc(a, 33);

	if (!EVP_Digest(text, strlen(text), md, &n, EVP_md5(), NULL) || n != 16) {
		abort();
	}
	for (unsigned int k = 0; k < n; k++) {
		snprintf(hex + 2 * k, 3, "%02x", md[k]);
	}
	return hex;
}

static json_t *message_deliver(struct sim_req *rq, struct queue *q, struct message *m,
    int64_t hide_us)
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
	    "MD5OfBody", sqs_md5(rq->arena, m->body), "Body", m->body);
}

static json_t *messages_take(struct sim_req *rq, struct queue *q, int64_t max, int64_t hide_us)
{
	json_t *list = json_array();
	int64_t now = sim_wall(q->sim), n = 0;

	sqs_forget_old(q);
	for (struct message *m = q->first; m && n < max; m = m->next) {
		if (m->visible_us > now) {
			continue;
		}
		json_array_append_new(list, message_deliver(rq, q, m, hide_us));
		n++;
	}
	return list;
}

/* An empty answer has no Messages at all. */
json_t *sqs_taken(struct sim_req *rq, struct queue *q, int64_t max, int64_t hide_us)
{
	json_t *doc = json_object(), *list = messages_take(rq, q, max, hide_us);

	if (json_array_size(list) > 0) {
		json_object_set(doc, "Messages", list);
	}
	json_decref(list);
	return doc;
}

static void receiver_unlink(struct receiver *w)
{
	struct receiver **at = &w->queue->receivers;

	while (*at && *at != w) {
		at = &(*at)->next;
	}
	if (*at) {
		*at = w->next;
	}
	loop_timer_stop(&w->timer);
}

static void receiver_answer(struct receiver *w)
{
	struct sim_req *rq = w->rq;
	char *text;
	json_t *doc;

	receiver_unlink(w);
	doc = sqs_taken(rq, w->queue, w->max, w->hide_us);
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

bool sqs_anything(const struct queue *q)
{
	int64_t now = sim_wall(q->sim);

	for (const struct message *m = q->first; m; m = m->next) {
		if (m->visible_us <= now) {
			return true;
		}
	}
	return false;
}

/* Gives waiting receivers the messages that are visible now. The next hidden message wakes us
 * again. */
void sqs_wake(struct queue *q)
{
	int64_t next = 0, now = sim_wall(q->sim);

	while (q->receivers && sqs_anything(q)) {
		receiver_answer(q->receivers);
	}
	for (const struct message *m = q->first; m; m = m->next) {
		if (m->visible_us > now && (!next || m->visible_us < next)) {
			next = m->visible_us;
		}
	}
	if (q->receivers && next) {
		loop_timer_set(&q->timer, MAX(next - now, 1000));
	}
}

static void shows_again(struct loop_timer *t)
{
	sqs_wake(container_of(t, struct queue, timer));
}

void sqs_park(struct sim_req *rq, struct sim_reply *rep, struct queue *q, int64_t max,
    int64_t hide_us, int64_t wait_s)
{
	struct receiver *w = arena_alloc(rq->arena, sizeof(*w));

	*w = (struct receiver){ .next = q->receivers,
		.rq = rq,
		.queue = q,
		.max = max,
		.hide_us = hide_us };
	q->receivers = w;
	loop_timer_init(&w->timer, q->sim->loop, receiver_late);
	loop_timer_set(&w->timer, wait_s * SPOT_US_PER_S);
	rq->http->user = w;
	rq->http->gone = receiver_gone;
	rep->parked = true;
	sqs_wake(q);
}

/* ---- sending and deleting -------------------------------------------------------------------- */

struct message *sqs_put(struct queue *q, const char *body)
{
	struct message *m = calloc(1, sizeof(*m));
	char id[33];

	if (!m) {
		abort();
	}
	rng_hex(&q->sim->rng, id, 16);
	m->id = malloc(40);
	if (!m->id) {
		abort();
	}
	snprintf(m->id, 40, "%.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8, id + 12, id + 16, id + 20);
	m->body = dup_text(body);
	m->sent_us = m->visible_us = sim_wall(q->sim);
	*q->last = m;
	q->last = &m->next;
	return m;
}

/* false: not a handle at all. One of an earlier delivery is accepted and does nothing. */
bool sqs_delete(struct queue *q, const char *handle)
{
	if (!handle || !str_prefix(handle, HANDLE_HEAD)) {
		return false;
	}
	for (struct message **at = &q->first; *at; at = &(*at)->next) {
		if (str_same((*at)->handle, handle)) {
			message_drop(q, at);
			break;
		}
	}
	return true;
}

/* ---- for events ------------------------------------------------------------------------------ */

void sqs_event(struct sim *s, const char *region, const char *body)
{
	(void)sqs_queue_find(s, region, SQS_OWN_QUEUE);
	for (struct queue *q = sqs_state(s)->queues; q; q = q->next) {
		if (!str_same(q->region, region) || !str_prefix(q->name, SQS_RULE_PREFIX)) {
			continue;
		}
		sqs_forget_old(q);
		sqs_put(q, body);
		sqs_wake(q);
	}
}

void sqs_free(struct sqs *x)
{
	while (x && x->queues) {
		struct queue *q = x->queues;

		x->queues = q->next;
		loop_timer_stop(&q->timer);
		while (q->first) {
			message_drop(q, &q->first);
		}
		free(q->region);
		free(q->name);
		free(q->policy);
		free(q);
	}
	free(x);
}
