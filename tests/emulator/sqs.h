/* Queues of the AWS side (sqs.c) and what EventBridge puts into them (aws_events.c). */
#ifndef EMULATOR_SQS_H
#define EMULATOR_SQS_H

#include "front.h"

/* The account has a rule in every region that sends its instances' events to every queue of this
 * prefix, and one such queue, as deploy/iam/aws-interruptions.yaml makes them. */
#define SQS_RULE_PREFIX "spotbroker-"
#define SQS_OWN_QUEUE	"spotbroker-interruptions"

struct sqs;
void sqs_serve(struct sim_req *rq, struct sim_reply *rep);
void sqs_event(struct sim *s, const char *region, const char *body);
void sqs_free(struct sqs *x);

#endif
