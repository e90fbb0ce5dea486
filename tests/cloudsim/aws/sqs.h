/* Queues of the AWS side (sqs.c) and what EventBridge puts into them (aws_events.c). */
#ifndef EMULATOR_SQS_H
#define EMULATOR_SQS_H

#include "cloudsim/sim/front.h"

/* The account has a rule in every region that sends its instances' events to every queue of this
 * prefix, and one such queue, as deploy/iam/aws-interruptions.yaml makes them. */
#define SQS_RULE_PREFIX "spotbroker-"
#define SQS_OWN_QUEUE "spotbroker-interruptions"

struct receiver;
struct message {
	struct message *next;
	char *id, *body, *handle;
	int64_t sent_us, visible_us, first_us;
	int64_t received; /* times */
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

/* sqs_queue.c */
struct queue *sqs_queue_new(struct sim *s, const char *region, const char *name);
struct queue *sqs_queue_find(struct sim *s, const char *region, const char *name);
struct message *sqs_put(struct queue *q, const char *body);
bool sqs_anything(const struct queue *q); /* that shows now */
void sqs_forget_old(struct queue *q);
void sqs_wake(struct queue *q); /* after something changed: whoever waits is answered */
/* The reply of a receive, now; or the request waits for something. */
json_t *sqs_taken(struct sim_req *rq, struct queue *q, int64_t max, int64_t hide_us);
void sqs_park(struct sim_req *rq, struct sim_reply *rep, struct queue *q, int64_t max,
    int64_t hide_us, int64_t wait_s);
/* false: not a handle at all. One of an earlier delivery is accepted and does nothing. */
bool sqs_delete(struct queue *q, const char *handle);
const char *sqs_md5(struct arena *a, const char *text);

struct sqs;
void sqs_serve(struct sim_req *rq, struct sim_reply *rep);
void sqs_event(struct sim *s, const char *region, const char *body);
void sqs_free(struct sqs *x);

#endif
