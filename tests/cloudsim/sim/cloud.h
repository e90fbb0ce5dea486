/*
 * The contract of a cloud: its part beyond the shared market, instances and books. sim/ calls a
 * cloud only through struct cloud_ops. AWS and Lambda share the main port; every other cloud has a
 * port of its own.
 */
#ifndef CLOUDSIM_CLOUD_H
#define CLOUDSIM_CLOUD_H

#include "cloudsim/sim/sim.h"

/* ---- requests and replies: front.c, reply.c, faults.c, throttle.c ---------------------------- */

/* A request is classified, checked against faults and limits, served into a struct sim_reply, and
 * sent. Handlers are synchronous. */

enum proto {
	PROTO_NONE = 0,
	PROTO_EC2,
	PROTO_QUERY,
	PROTO_JSON,
	PROTO_S3,
	PROTO_PLAIN /* JSON without a protocol */
};

struct cred;
struct sim_req {
	struct sim *sim;
	enum cloud cloud;
	struct front_port *port;
	struct httpd_req *http;
	struct arena *arena;
	enum proto proto;
	const char *service; /* "ec2", "sts", ..., "lambda" */
	const char *action; /* "RunInstances", "GetObject", "POST /instance-operations/launch" */
	const char *region;
	const char *account;
	const char *request_id;
	const char *id_header; /* carries the request id in the reply; NULL = none */
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
	FAULT_PRETEND, /* the answer of success, and nothing has happened (sim.h) */
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

/* ---- the record: books.c, waits.c, bill.c ---------------------------------------------------- */

void books_new(struct sim *s);
void books_free(struct sim *s);
void books_request(struct sim *s, const char *service, const char *action, const char *code,
    int status);
/* One launch request that reached the point of effect. code NULL = instances were made. */
void books_launch(struct sim *s, enum cloud c, const char *token, const char *scope,
    const char *params_hash, const struct pool *p, enum side side, const char *code,
    struct inst *const *insts, size_t n, bool replayed);
/* Event for /wait; detail may be NULL, is stolen. */
void books_event(struct sim *s, const char *type, struct inst *i, json_t *detail);
json_t *books_counts(const struct sim *s);
json_t *books_launches(const struct sim *s);
json_t *books_bill(const struct sim *s);
/* Events after seq that match (NULL = any); new array. */
json_t *books_events(const struct sim *s, uint64_t since, const char *type, const char *instance,
    const char *token);
uint64_t books_seq(const struct sim *s);
/* waits.c: parks the request until events match. */
void waits_new(struct sim *s);
void waits_free(struct sim *s);
void waits_park(struct sim *s, struct httpd_req *r);
void waits_wake(struct sim *s);
/* Cost of one instance so far, in micro-dollars: price in force, second by second. */
int64_t bill_micros(const struct inst *i, int64_t *ret_from, int64_t *ret_to);

/* ---- the table: clouds.c --------------------------------------------------------------------- */

/* One call of the control API. CONTROL.md is made from these tables. */
struct control_call {
	const char *method, *path; /* path "/role/..." stands for all below /role/ */
	const char *takes; /* members of the body, or query parameters, as JSON; "" = nothing */
	const char *gives; /* the reply, as JSON */
	const char *about; /* one sentence, or a few */
	/* POST: NULL = refused, err says why. */
	json_t *(*post)(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
	/* The others: NULL = it has answered the request itself, or will. */
	json_t *(*get)(struct sim *s, struct httpd_req *r);
};

struct cloud_ops {
	const char *name; /* as in pools ("gcp/us-central1/...") and in cloudsim.json */
	/* Seconds between notice and end when /reclaim names none. */
	int notice_s;
	/* Path prefix of its requests on the shared port; the longest match wins. NULL: it has a
	 * port of its own, if it serves at all. */
	const char *shared_prefix;
	/* Makes the cloud's state, before the market is loaded. */
	void (*init)(struct sim *s);
	/* Adds regions, zones, types and pools to the market (market.h) and makes the cloud's
	 * state. */
	bool (*load)(struct sim *s, struct spot_err *err);
	/* Completes the configuration of its port (TLS, larger bodies); handle and ctx are set. */
	bool (*port)(struct sim *s, struct httpd_conf *conf, struct spot_err *err);
	/* After all ports are open: makes keys that contain the port, and the like. */
	bool (*ready)(struct sim *s, struct spot_err *err);
	/* Members of cloudsim.json and of GET /credentials. urls NULL: credentials alone. */
	void (*announce)(const struct sim *s, json_t *urls, json_t *credentials);
	void (*free)(struct sim *s);
	/* Requests: classify names service, action, region; serve answers (or
	 * parks). */
	void (*classify)(struct sim_req *rq);
	void (*serve)(struct sim_req *rq, struct sim_reply *rep);
	/* The vendor's error body; also used by faults of kind status. service tells which API. */
	void (*error)(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
	    const char *message);
	/* Metadata service of one instance; path is the part after the host. */
	void (*imds)(struct inst *i, struct httpd_req *r, const char *path);
	/* Environment of an instance's program ("NAME=value" in the arena, at most max); the count.
	 * imds_port is open when imds is set. */
	size_t (*env)(const struct inst *i, struct arena *a, const char **env, size_t max);
	/* Every event of the books about one of its instances, after it was recorded. */
	void (*event)(struct inst *i, const char *type);
	/* The program powered its guest off; NULL: as at AWS (stopped or terminated). */
	void (*guest_off)(struct inst *i);
	/* Frees the cloud's part of an instance (inst.own). */
	void (*inst_free)(struct inst *i);
	/* Billing starts with the launch answer, not with running. */
	bool bills_from_launch;
	/* Things besides instances that still cost money (disks, uploads): texts into /books
	 * "left". */
	void (*left)(const struct sim *s, json_t *left);
	/* It has a feed of prices that can be frozen (sim.frozen_us). */
	bool has_feed;
	void (*feed)(struct sim *s); /* the feed was frozen, or goes on */
	/* A price of one of its pools was set by hand, or follows its record again (held tells). */
	void (*price)(struct sim *s, struct pool *p, enum side side);
	/* Control calls of this cloud alone; the last has no path. */
	const struct control_call *calls;
	/* On the way out: ends programs that are no instance's; busy until the last has gone. */
	void (*stop)(struct sim *s);
	bool (*busy)(const struct sim *s);
	void (*close)(struct sim *s); /* more ports than its own one */
};

extern const struct cloud_ops aws_cloud, lambda_cloud, gcp_cloud, azure_cloud, coreweave_cloud;
extern const struct cloud_ops *const cloud_table[CLOUD_COUNT]; /* clouds.c of the program */

const struct cloud_ops *cloud_ops(enum cloud c); /* never NULL */
enum cloud cloud_parse(const char *name); /* CLOUD_NONE if unknown */
int cloud_port(const struct sim *s, enum cloud c); /* 0 = none of its own */

/* The cloud that answers path on the shared port. */
enum cloud cloud_shared(const char *path);

void clouds_init(struct sim *s);
bool clouds_load(struct sim *s, struct spot_err *err);
void clouds_close(struct sim *s); /* ports */
void clouds_free(struct sim *s); /* states */
void clouds_stop(struct sim *s);
bool clouds_busy(const struct sim *s);
void clouds_announce(const struct sim *s, json_t *urls, json_t *credentials);
void clouds_left(const struct sim *s, json_t *left);
/* The call of a cloud by method and path; NULL = there is none. */
const struct control_call *clouds_call(const char *method, const char *path);

/* ---- metadata services: imds.c, imds_identity.c ---------------------------------------------- */

/* kind: "signature" (RSA, SHA-256), "pkcs7", "rsa2048"; NULL for anything else. */
const char *imds_signature(struct sim *s, struct arena *a, const char *kind, const char *document);
const char *imds_certificate(struct sim *s, struct arena *a); /* PEM */
void imds_free(struct sim *s);

/* Replies of a metadata service. */
void imds_text(struct httpd_req *r, int status, const char *type, const char *body);
void imds_not_found(struct httpd_req *r);

#endif
