/* The AWS side: signatures, credentials, protocols, and the services' entry points. */
#ifndef EMULATOR_AWS_H
#define EMULATOR_AWS_H

#include "cloudsim/sim/books.h"
#include "base/text/sbuf.h"

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

/* aws.c, aws_auth.c */
void aws_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message);
/* Verifies; false: rep holds the refusal. */
bool aws_auth(struct sim_req *rq, struct sim_reply *rep);
void aws_http_date(int64_t us, char ret[64]);
const char *aws_time_ms(struct arena *a, int64_t us); /* 2026-01-01T22:10:00.000Z */

/* imds.c */
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

/* ec2.c */
struct ec2 {
	struct sim_req *rq;
	struct sim_reply *rep;
	struct sim *sim;
	struct form form;
	struct sbuf out;
	bool failed;
	const char *why; /* words of the failure */
};
void ec2_serve(struct sim_req *rq, struct sim_reply *rep);
/* The same request with other parameters and a reply of its own, which nobody sends. */
struct ec2 ec2_inner(struct ec2 *e, const struct form *f, struct sim_reply *rep);
void ec2_fail(struct ec2 *e, int status, const char *code, const char *fmt, ...) PRINTF(4, 5);
/* After all parameters were read: refuses unknown ones, and answers DryRun. false: stop. */
bool ec2_ready(struct ec2 *e);
void ec2_begin(struct ec2 *e); /* <OpResponse><requestId> */
bool ec2_int(struct ec2 *e, const char *name, int64_t min, int64_t max, int64_t dflt, int64_t *ret);
bool ec2_bool(struct ec2 *e, const char *name, bool dflt);
struct ec2_filter {
	const char *name;
	const char **values;
	size_t n;
};
bool ec2_filters(struct ec2 *e, const char *const *known, struct ec2_filter **ret, size_t *ret_n);
/* true when some value of the filter matches some text (wildcards). */
bool ec2_filter_hits(const struct ec2_filter *f, const char *text);
/* Page of a list: MaxResults and NextToken to a start and a size. */
struct ec2_page {
	int64_t at, size;
};
bool ec2_page(struct ec2 *e, int64_t min, int64_t max, int64_t dflt, struct ec2_page *ret);
const char *ec2_next_token(struct ec2 *e, int64_t at);
bool ec2_match_any(const char *const *list, size_t n, const char *text); /* empty list: true */
void ec2_tags_xml(struct sbuf *b, const struct inst_tag *tags, size_t n);

struct reservation;
typedef void ec2_fn(struct ec2 *e);
ec2_fn ec2_describe_regions, ec2_describe_zones, ec2_describe_types, ec2_describe_offerings,
    ec2_spot_history, ec2_placement_scores, ec2_run, ec2_describe_instances, ec2_describe_status,
    ec2_terminate, ec2_create_tags, ec2_delete_tags, ec2_describe_spot_requests,
    ec2_cancel_spot_requests, ec2_describe_images, ec2_describe_subnets, ec2_describe_vpcs,
    ec2_describe_groups, ec2_describe_reservations, ec2_request_spot, ec2_create_fleet,
    ec2_describe_fleets, ec2_create_template, ec2_describe_templates, ec2_delete_template,
    ec2_describe_template_versions, ec2_stop, ec2_start, ec2_reboot, ec2_attribute,
    ec2_modify_attribute, ec2_console, ec2_describe_volumes, ec2_describe_tags, ec2_describe_nics,
    ec2_describe_keys, ec2_create_key, ec2_delete_key, ec2_account_attributes;

/* aws_reserved.c: what a launch says about reservations, and which one it uses up (NULL = none). */
struct reserved_ask {
	const char *preference, *id;
	bool spot, block;
};
void reserved_read(struct ec2 *e, struct reserved_ask *ask);
const char *reserved_choose(struct ec2 *e, const struct reserved_ask *ask, const struct pool *p,
    int64_t n);
int64_t reserved_free(struct sim *s, const struct reservation *r);
bool reserved_block(const struct inst *i); /* runs in a capacity block */
struct aws_controls;
void reserved_free_all(struct aws_controls *c);

/* aws_events.c, aws_reserved.c: hooks of clouds.c */
void aws_event(struct inst *i, const char *type);
void aws_inst_free(struct inst *i);
json_t *aws_post(struct sim *s, const char *what, const json_t *doc, struct arena *a,
    struct spot_err *err);

/* ec2_run.c and ec2_view.c share */
void ec2_instance_xml(struct ec2 *e, struct sbuf *b, const struct inst *i);
const char *ec2_state_word(const struct inst *i, int *ret_code);

struct inst *ec2_named(struct ec2 *e, const char *id); /* visible here, or e->failed */
void ec2_change_xml(struct ec2 *e, const struct inst *i, enum inst_state before);
/* ec2_things.c: what hangs on an instance */
void ec2_disk_map_xml(struct ec2 *e, struct sbuf *b, const struct inst *i);
void ec2_nic_xml(struct ec2 *e, struct sbuf *b, const struct inst *i, bool full);
const char *ec2_volume_id(struct arena *a, const struct inst *i);

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
/* What the control API sets of this cloud (POST /aws/...), and what has a file of its own. */
struct aws_controls {
	struct reservation *reservations; /* aws_reserved.c */
	struct ltemplate *templates; /* ec2_template.c */
	struct spot_ask *asks; /* ec2_request.c: spot requests without an instance */
	struct key_pair *keys; /* ec2_things.c */
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
void quota_set(struct sim *s, const char *region, const char *code, int64_t vcpus);
int64_t quota_used(const struct sim *s, const char *region, const struct quota *q);

void sts_serve(struct sim_req *rq, struct sim_reply *rep);
void pricing_serve(struct sim_req *rq, struct sim_reply *rep);
void quotas_serve(struct sim_req *rq, struct sim_reply *rep);
void ssm_serve(struct sim_req *rq, struct sim_reply *rep);
/* Body of a JSON-protocol call; NULL: refused. Freed by the caller. */
json_t *aws_json_body(struct sim_req *rq, struct sim_reply *rep);

#endif
