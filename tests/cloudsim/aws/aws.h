/* The AWS side: signatures, credentials, protocols, and the services' entry points. */
#ifndef CLOUDSIM_AWS_H
#define CLOUDSIM_AWS_H

#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

#define AWS_ACCOUNT "123456789012"

/* creds.c: long-lived keys and sessions that exist. */
struct cred {
	struct cred *next;
	char *akid, *secret, *session_token; /* token NULL: long-lived */
	char *arn, *user_id;
	int64_t expires_us; /* 0 = never */
	bool revoked;
};
void creds_new(struct sim *s);
void creds_free(struct sim *s);
const struct cred *cred_find(const struct sim *s, const char *akid);
const struct cred *cred_main(const struct sim *s); /* the current long-lived key */
const struct cred *cred_session(struct sim *s, const char *arn, const char *user_id,
    int64_t seconds);
void creds_rotate(struct sim *s); /* new long-lived key, the old one is revoked */
size_t creds_expire(struct sim *s); /* every session has expired now */
const char *lambda_key(const struct sim *s);
void lambda_key_set(struct sim *s, const char *key);
json_t *creds_json(const struct sim *s);

/* sigv4_check.c */
enum sig_verdict {
	SIG_OK = 1,
	SIG_ABSENT,
	SIG_MALFORMED,
	SIG_KEY_UNKNOWN,
	SIG_MISMATCH,
	SIG_SKEWED,
	SIG_TOKEN_EXPIRED,
	SIG_TOKEN_INVALID,
	SIG_PRESIGN_EXPIRED,
	SIG_HEADER_UNSIGNED,
	SIG_BODY_MISMATCH,
	SIG_BODY_UNDECLARED,
	SIG_SCOPE,
};
struct sig {
	bool present, presigned;
	const char *akid, *date, *region, *service, *signed_headers, *signature, *amz_date, *token;
	int64_t at_us, expires_s;
	const char *canonical, *to_sign, *expected, *payload;
	const char *why; /* detail for SIG_MALFORMED and the like */
	struct sim_req *rq;
};
/* Reads the scope; false = malformed (why). */
bool sig_read(struct sim_req *rq, struct sig *ret);
enum sig_verdict sig_verify(struct sim_req *rq, struct sig *g, const struct cred **ret);

/* aws_reply.c, aws_auth.c */
void aws_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message);
/* Verifies; false: rep holds the refusal. */
bool aws_auth(struct sim_req *rq, struct sim_reply *rep);
const char *aws_time_ms(struct arena *a, int64_t us); /* 2026-01-01T22:10:00.000Z */

/* aws_imds.c */
void aws_imds(struct inst *i, struct httpd_req *r, const char *path);
size_t aws_env(const struct inst *i, struct arena *a, const char **env, size_t max);

/* xml_out.c */
void x_open(struct sbuf *b, const char *tag);
void x_close(struct sbuf *b, const char *tag);
void x_text(struct sbuf *b, const char *tag, const char *text);
void x_raw(struct sbuf *b, const char *text); /* escaped text */
void x_int(struct sbuf *b, const char *tag, int64_t v);
void x_bool(struct sbuf *b, const char *tag, bool v);

/* form.c: parameters of a query-protocol request, sorted by name. */
struct param {
	const char *name, *value;
	bool used;
};
struct form {
	struct param *items;
	size_t n;
	const char *broken; /* text that is not form encoding */
};
void form_parse(struct sim_req *rq, struct form *f);
const char *form_get(struct form *f, const char *name); /* marks it as known */
void form_accept(struct form *f, const char *pattern); /* marks all that match */
const char *form_unknown(const struct form *f); /* first parameter nobody asked for */
/* Adds or replaces one; a value NULL is left out. */
void form_put(struct form *f, struct arena *a, const char *name, const char *value);
/* Parameters below prefix, without it. */
void form_below(const struct form *f, struct arena *a, const char *prefix, struct form *ret);
/* Values of prefix.1, prefix.2, ... by number. */
size_t form_list(struct form *f, struct arena *a, const char *prefix, const char ***ret);

/* aws_events.c: a hook of the table */
void aws_event(struct inst *i, const char *type);

/* aws_net.c: the account's default network and images, derived from names. */
const char *net_derive(struct arena *a, const char *prefix, const char *kind, const char *x,
    const char *y);
const char *net_subnet(struct arena *a, const struct zone *z);
const char *net_vpc(struct arena *a, const char *region);
const char *net_group(struct arena *a, const char *region);
const struct zone *net_subnet_zone(struct sim *s, const char *region, const char *subnet);
struct image {
	const char *parameter, *name, *arch;
};
extern const struct image images[];
extern const size_t images_n;
const char *image_id(struct arena *a, const char *region, const struct image *m);
const struct image *image_find(struct arena *a, const char *region, const char *id);

/* aws_state.c: tokens and quotas */
struct launch_token {
	char *key; /* scope + token */
	char *hash;
	struct inst **insts;
	size_t n;
	const struct pool *pool;
	char *reply; /* a fleet's */
};
/* Set by the control API (POST /aws/...), and the lists of files of their own. */
struct aws_controls {
	struct reservation *reservations; /* ec2_reserved.c */
	struct ltemplate *templates; /* ec2_template.c */
	struct pgroup *groups; /* ec2_group.c: placement groups */
	struct spot_ask *asks; /* ec2_request.c: spot requests without an instance */
	struct key_pair *keys; /* ec2_things.c */
	struct filled_hour *filled; /* ec2_manager.c */
	char manager[32]; /* region where Capacity Manager is enabled; "" = nowhere */
	int64_t manager_lag_h; /* hours by which its data are late */
	bool events_twice;
	char impaired[32]; /* zone id; "" = none */
};
struct aws_controls *aws_controls(struct sim *s);
struct sqs;
struct sqs **aws_sqs(struct sim *s);
void aws_state_new(struct sim *s);
void aws_state_free(struct sim *s);
struct launch_token *token_find(struct sim *s, const char *key, bool create);
struct quota {
	const char *code, *name, *klass, *prefix;
	enum side side;
};
extern const struct quota quotas[];
extern const size_t quotas_n;
const struct quota *quota_of(const struct itype *t, enum side side);
int64_t quota_value(const struct sim *s, const char *region, const char *code);
/* POST /quota, and POST /aws/quota */
json_t *quota_post(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
int64_t quota_used(const struct sim *s, const char *region, const struct quota *q);

void sts_serve(struct sim_req *rq, struct sim_reply *rep);
void pricing_serve(struct sim_req *rq, struct sim_reply *rep);
void quotas_serve(struct sim_req *rq, struct sim_reply *rep);
void ssm_serve(struct sim_req *rq, struct sim_reply *rep);
/* Body of a JSON-protocol call; NULL: refused. Freed by the caller. */
json_t *aws_json_body(struct sim_req *rq, struct sim_reply *rep);

/* ---- queues: sqs.c, sqs_queue.c -------------------------------------------------------------- */

/* aws_events.c puts the events of EventBridge into them. */

/* The account has a rule in every region that sends its instances' events to every queue of this
 * prefix. It also has one such queue. deploy/iam/aws-interruptions.yaml makes both. */
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
void sqs_wake(struct queue *q); /* after a change: answers waiting requests */
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
