/*
 * Between the socket and the clouds: a request is classified, checked against faults and limits,
 * served into a struct sim_reply, and sent. Handlers are synchronous.
 */
#ifndef EMULATOR_FRONT_H
#define EMULATOR_FRONT_H

#include "cloudsim/sim/sim.h"

enum proto {
	PROTO_NONE = 0,
	PROTO_EC2,
	PROTO_QUERY,
	PROTO_JSON,
	PROTO_S3,
	PROTO_LAMBDA,
	PROTO_PLAIN,
	PROTO_CLOUD /* by the cloud of the port (clouds.h) */
};

struct cred;
struct sim_req {
	struct sim *sim;
	enum cloud cloud; /* of the port; CLOUD_NONE on the shared one */
	struct front_port *port;
	struct httpd_req *http;
	struct arena *arena;
	enum proto proto;
	const char *service; /* "ec2", "sts", ..., "lambda" */
	const char *action; /* "RunInstances", "GetObject", "POST /instance-operations/launch" */
	const char *region;
	const char *account;
	const char *request_id;
	const struct cred *cred; /* after verification */
	int64_t skew_us; /* fault: our clock is off by this */
	bool expire; /* fault: credentials count as expired */
	const char *key; /* s3: bucket/key part */
	void *own; /* the cloud's, between classify and serve */
};
struct sim_reply {
	int status;
	const char *type;
	struct str body;
	size_t head_n; /* HEAD: length to announce */
	struct spot_header headers[24];
	size_t headers_n;
	const char *code; /* the vendor's error code, for the counters */
	bool parked; /* the handler keeps the request and answers it itself, later */
};

void reply_set(struct sim_reply *rep, int status, const char *type, const char *body, size_t n);
void reply_header(struct sim_reply *rep, const char *name, const char *value);
/* The error in the shape of the request's protocol. */
void reply_fail(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *fmt, ...) PRINTF(5, 6);
void reply_json(struct sim_req *rq, struct sim_reply *rep, int status,
    json_t *doc); /* steals doc */
const char *req_header(const struct sim_req *rq, const char *name);

/* aws.c, lambda.c, s3.c */
void aws_classify(struct sim_req *rq);
void aws_serve(struct sim_req *rq, struct sim_reply *rep);
void lambda_classify(struct sim_req *rq);
void lambda_serve(struct sim_req *rq, struct sim_reply *rep);
void s3_serve(struct sim_req *rq, struct sim_reply *rep);
const char *s3_action(struct sim_req *rq);

/* faults.c */
enum fault_kind {
	FAULT_NONE = 0,
	FAULT_DELAY,
	FAULT_HANG,
	FAULT_RESET_BEFORE,
	FAULT_RESET_AFTER,
	FAULT_STATUS,
	FAULT_TRUNCATE,
	FAULT_MALFORM,
	FAULT_DUPLICATE,
	FAULT_EXPIRED,
	FAULT_SKEW,
	FAULT_PRETEND, /* the answer of success, and nothing has happened (instance.h) */
};
struct fault {
	uint64_t id;
	enum fault_kind kind;
	char *service, *action, *path, *region; /* patterns, NULL = any */
	int64_t count, skip; /* count < 0: for ever */
	double probability;
	int64_t us;
	int status;
	bool after; /* status, hang, delay: the effect happens first */
	char *code, *message, *body;
	int64_t hits;
};
struct fault *fault_match(struct sim *s, const struct sim_req *rq);
bool fault_add(struct sim *s, const json_t *doc, uint64_t *ret_id, struct spot_err *err);
size_t fault_drop(struct sim *s, uint64_t id); /* 0 = all */
json_t *fault_json(const struct sim *s);
void faults_new(struct sim *s);
void faults_free(struct sim *s);

/* throttle.c: token buckets keyed by text. true = one token (cost) was there. */
bool throttle_take(struct sim *s, const char *key, double burst, double per_second, double cost);
/* Tokens that were left after the last take; burst if there was none. */
double throttle_left(const struct sim *s, const char *key, double burst);
void throttle_reset(struct sim *s);
void throttle_new(struct sim *s);
void throttle_free(struct sim *s);

#endif
