/*
 * Inside of the AWS provider. One struct aws per open provider instance: settings (read once at
 * open), credentials (changed by auth only) and the clock skew. Steps keep their place in struct
 * call_state (arena memory of the call), not in c->at: the number of the request that is out. So a
 * step entered with c->in == NULL builds that request again, which is what AGAIN and REAUTH want.
 */
#ifndef PROVIDERS_AWS_PRIV_H
#define PROVIDERS_AWS_PRIV_H

#include "base/base.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"

#define AWS_TAG_INSTALL "spotbroker:install"
#define AWS_PAGES_MAX 2000
/* Refresh rules of botocore (credentials.py): try from 15 minutes before expiry, insist from 10. */
#define AWS_REFRESH_ADVISORY_US (INT64_C(15) * 60 * SPOT_US_PER_S)
#define AWS_REFRESH_MANDATORY_US (INT64_C(10) * 60 * SPOT_US_PER_S)

/* Indexes into aws_ops.limits, in the order of aws_limits[]. */
enum aws_limit {
	AWS_LIMIT_DESCRIBE = 0,
	AWS_LIMIT_RUN,
	AWS_LIMIT_RUN_MACHINES,
	AWS_LIMIT_TERMINATE,
	AWS_LIMIT_PRICING,
	AWS_LIMIT_QUOTAS,
	AWS_LIMIT_SSM,
	AWS_LIMIT_STS,
	AWS_LIMIT_METADATA,
	AWS_LIMIT_ADVISOR,
	AWS_LIMIT_SQS,
	AWS_LIMIT_COUNT,
};

enum aws_service {
	AWS_EC2 = 1,
	AWS_PRICING,
	AWS_STS,
	AWS_QUOTAS,
	AWS_SSM,
	AWS_S3,
	AWS_SQS,
	AWS_SERVICE_COUNT
};

/* One set of keys; expires_us 0 = never. */
struct aws_keys {
	char *access_key;
	struct secret secret_key, session_token;
	int64_t expires_us;
};

/* When Capacity Manager last told of a region; 0 = never. */
struct aws_asked {
	const char *region;
	int64_t at_us;
};

struct aws {
	const char *name; /* provider instance name */
	struct spot_provider_conf conf; /* for subnet.* and security_groups.*, looked up by zone */
	const char **regions;
	size_t regions_n; /* setting; 0 = all enabled */
	const char *home; /* region of calls that have none of their own */
	bool home_guessed; /* nobody said: auth takes the profile's, if it has one */
	const char *endpoints[AWS_SERVICE_COUNT]; /* NULL = the vendor's host */
	const char *advisor_url; /* "" = off */
	const char *profile; /* setting; NULL = environment or "default" */
	const char *ami, *ami_arm64, *ami_parameter, *instance_profile, *root_device;
	const char *identity_certs; /* file; NULL = the vendor's own */
	const char *public_ip; /* "true", "false" or NULL = the subnet's own setting */
	int64_t root_gib; /* 0 = as the image says */
	bool placement_scores;
	bool manager; /* EC2 Capacity Manager is asked */
	const char *manager_region; /* NULL = home */
	bool reservations; /* pools and launches of market reserved */
	bool lent; /* and of market interruptible */
	bool efa; /* machines that are placed together get EFA */
	struct arena *arena; /* settings that had to be taken apart */
	/* auth only */
	struct aws_keys keys, next; /* in use; being fetched */
	bool have_keys;
	struct secret hop; /* token of the source being asked: metadata, container */
	int64_t retry_us; /* not before this, after a failed advisory refresh */
	/* any step */
	int64_t skew_us; /* vendor's clock minus ours */
	struct aws_asked *asked; /* fulfilment.c */
	size_t asked_n, asked_cap;
};

struct aws_request {
	enum aws_service service;
	const char *region;
	const char *action; /* "RunInstances", for messages */
	const char *target; /* JSON protocols: X-Amz-Target */
	const char *content_type;
	const char *body;
	size_t body_n;
	enum aws_limit limit;
	bool mutating;
	bool unsigned_call;
	const struct aws_keys *keys; /* NULL = self->keys */
};

/* ---- settings.c ------------------------------------------------------------------------------ */
NODISCARD enum spot_rc aws_settings_read(struct aws *self, struct spot_err *err);
const char *aws_endpoint(const struct aws *self, struct arena *a, enum aws_service s,
    const char *region);
const char *aws_service_name(enum aws_service s);
const char *aws_setting(const struct aws *self, const char *key); /* NULL if unset or "" */
const char *aws_env(const struct aws *self, const char *name); /* NULL if unset or "" */
bool aws_region_ok(const char *region);
bool aws_id_ok(const char *id, const char *prefix); /* "subnet-0a1b" */
const char *aws_queue(const struct aws *self, const char *region); /* NULL if unset */
bool aws_queue_ok(const char *url);

/* ---- http.c ---------------------------------------------------------------------------------- */
enum spot_step aws_send(struct aws *self, struct spot_call *c, const struct aws_request *r);
/* Reads the reply in c->in. SPOT_STEP_NONE: it is good and parsed into *ret; else the step's
 * verdict. */
enum spot_step aws_reply_xml(struct aws *self, struct spot_call *c, const char *action,
    const char *root, const struct xml **ret);
enum spot_step aws_reply_json(struct aws *self, struct spot_call *c, const char *action,
    json_t **ret);
/* A reply of a service that does not answer in either protocol: only the status is looked at. */
enum spot_step aws_reply_plain(struct aws *self, struct spot_call *c, const char *what);
/* BAD_REPLY, or UNKNOWN where the request may have had an effect. */
#define aws_bad_reply(c, action, ...) call_bad_reply(c, "aws", action, __VA_ARGS__)
/* Takes the page token over: true = there is another page to ask for; false with *ret_bad = the
 * vendor repeats itself. The end is an absent or an empty token (EC2 API,
 * DescribeSpotPriceHistory: NextToken). */
bool aws_next_page(struct call_state *st, struct arena *a, const char *token, bool *ret_bad);

int64_t aws_time(const char *text); /* 0 if it does not parse */

/* ---- errors.c -------------------------------------------------------------------------------- */
enum aws_how { AWS_FAIL = 1, AWS_AGAIN, AWS_REAUTH, AWS_SKEW, AWS_KEYS, AWS_EXPIRED };
struct aws_code {
	const char *code;
	enum spot_rc rc;
	enum aws_how how;
	const char *scope; /* the thing that is empty, full or wrong: for people */
	enum spot_scope rests;
};
extern const struct aws_code aws_codes[];
extern const size_t aws_codes_n;
const struct aws_code *aws_code_find(const char *code, const char *message);
/* Verdict for an error reply: code and message as the vendor gave them ("" if none). */
enum spot_step aws_error(struct aws *self, struct spot_call *c, const char *action,
    const char *code, const char *message);
/* Vendor's words made safe: no encoded blobs, no canonical strings, no secrets, one line. */
const char *aws_words(struct arena *a, const char *message);
/* code and message of an error reply in either protocol, "" if it has none. */
void aws_error_read(struct spot_call *c, const char **ret_code, const char **ret_message);

/* ---- ec2_query.c ----------------------------------------------------------------------------- */
struct query {
	struct arena *arena;
	struct sbuf body;
};
void query_begin(struct query *q, struct arena *a, const char *action, const char *version);
void query_add(struct query *q, const char *key, const char *value);
/* value first, then the key's format: query_addf(&q, id, "InstanceId.%zu", i). */
void query_addf(struct query *q, const char *value, const char *key_fmt, ...) PRINTF(3, 4);
void query_filter(struct query *q, size_t n, const char *name, const char *value);
/* Sends the query to EC2 and frees it. */
enum spot_step query_send_ec2(struct query *q, struct aws *self, struct spot_call *c,
    const char *region, const char *action, enum aws_limit limit, bool mutating);
const char *query_end(struct query *q, size_t *ret_n);
#define EC2_VERSION "2016-11-15"
#define STS_VERSION "2011-06-15"

/* ---- pools.c --------------------------------------------------------------------------------- */
const char *aws_quota_class(struct arena *a, const char *instance_type, enum spot_market market);
/* Index of pools by type and zone, for feeds that name pools by their parts. */
struct pool_index {
	const struct spot_pool_info **items;
	size_t n;
};
void pool_index_init(struct pool_index *x, struct arena *a, const struct spot_pool_info *pools,
    size_t n, enum spot_market market);
/* First item of type; NULL if none. Items of one type are adjacent. */
const struct spot_pool_info **pool_index_type(const struct pool_index *x, const char *type);
/* By zone id, or by zone name where the feed has no id. */
const struct spot_pool_info *pool_index_find(const struct pool_index *x, const char *type,
    const char *zone_id, const char *zone_name);

/* ---- fulfilment.c: EC2 Capacity Manager ------------------------------------------------------ */
struct aws_manager {
	bool enabled;
	int64_t latest_us; /* its newest hour; 0 = it has none */
	const char *ingestion;
};
const char *aws_manager_region(const struct aws *self);
enum spot_step aws_manager_send(struct aws *self, struct spot_call *c);
enum spot_step aws_manager_reply(struct aws *self, struct spot_call *c, struct aws_manager *ret);
/* Says for people what it is and, if it is not enabled, how that is done. */
const char *aws_manager_words(const struct aws *self, struct spot_call *c,
    const struct aws_manager *m);
/* Asks for the day until until_us; dry only asks whether it may. */
enum spot_step aws_fulfilment_query(struct aws *self, struct spot_call *c, const char *region,
    int64_t until_us, bool dry);
struct aws_fulfilment;
bool aws_fulfilment_due(struct aws *self, const char *region, int64_t now_us);
void aws_fulfilment_asked(struct aws *self, const char *region, int64_t now_us);
/* x starts as NULL; each reply sets *ret_over when there is nothing more to send. */
enum spot_step aws_fulfilment_send(struct aws *self, struct spot_call *c,
    const struct aws_fulfilment *x, const char *region);
enum spot_step aws_fulfilment_reply(struct aws *self, struct spot_call *c,
    struct aws_fulfilment **x, const struct pool_index *pools, bool *ret_over);
/* Fills one pool's signal and steps on from *at; false at the end. */
bool aws_fulfilment_next(const struct aws_fulfilment *x, size_t *at, struct spot_signal *ret);

/* ---- launch.c -------------------------------------------------------------------------------- */
/* Capacity that is paid for already (reserved.c). */
struct aws_reservation {
	const char *id, *type, *zone, *zone_name;
	const char *owner; /* account; "" = not given */
	int64_t total, free;
	int64_t ends_us; /* its machines lose their place then; 0 = it has no end */
	bool block, interruptible;
};
/* One RunInstances: what the request is built out of. */
struct aws_run {
	const struct spot_launch *launch;
	const char *ami;
	size_t count, least; /* MaxCount, MinCount */
	/* of the type, once read; efa is 0 without EFA */
	int64_t efa, cards;
	struct aws_reservation reserved; /* market reserved; else its id is NULL */
	bool dry;
};
/* Places of a launch, in call_state.at. */
enum {
	AWS_AT_RESERVATION = 0,
	AWS_AT_IMAGE,
	AWS_AT_TYPE,
	AWS_AT_GROUP,
	AWS_AT_GROUP_READ,
	AWS_AT_RUN
};
/* The image that is set for an architecture; NULL = it is looked up. */
const char *aws_image_fixed(const struct aws *self, const char *arch);
enum spot_step aws_image_send(struct aws *self, struct spot_call *c, const char *region,
    const char *arch);
enum spot_step aws_image_reply(struct aws *self, struct spot_call *c, const char **ret_ami);
enum spot_step aws_launch_check(const struct aws *self, struct spot_call *c,
    const struct spot_launch *l);
void aws_launch_begin(const struct aws *self, struct call_state *st, struct aws_run *r,
    const struct spot_launch *l);
/* Makes the calls before RunInstances: reservation, image, placement group. SPOT_STEP_NONE: it can
 * be sent, or (*ret_answered) c->in is the reply to it or to what came after it. */
enum spot_step aws_launch_prepare(struct aws *self, struct spot_call *c, struct aws_run *r,
    bool *ret_answered);
enum spot_step aws_run_send(struct aws *self, struct spot_call *c, const struct aws_run *r);
/* One <item> of the reply. False: no id in it. */
bool aws_run_read(struct aws *self, struct spot_call *c, const struct spot_launch *l,
    const struct xml *item, struct spot_instance *ret);

/* ---- network.c: the interfaces of a launch --------------------------------------------------- */
bool aws_efa_wanted(const struct aws *self, const struct spot_launch *l);
/* Reads how many EFAs and network cards the type has, into r. */
enum spot_step aws_efa_send(struct aws *self, struct spot_call *c, const struct spot_launch *l);
enum spot_step aws_efa_reply(struct aws *self, struct spot_call *c, struct aws_run *r);
/* Adds zone, placement group, interfaces, subnet and security groups. */
enum spot_step aws_network_add(const struct aws *self, struct spot_call *c, const struct aws_run *r,
    struct query *q);

/* ---- prices.c -------------------------------------------------------------------------------- */
const char *aws_list_region(const char *region); /* of the Price List; NULL = none for it */
enum spot_step aws_list_prices_send(struct aws *self, struct spot_call *c, const char *region,
    const char *family, int max, const char *next);

/* ---- watch.c --------------------------------------------------------------------------------- */
enum spot_step aws_queue_receive(struct aws *self, struct spot_call *c, const char *region, int max,
    int wait_s, int hide_s);

/* ---- reserved.c ------------------------------------------------------------------------------ */
/* Says why interruptible reservations of the region are left alone; NULL = they are not. */
const char *aws_lent_lack(const struct aws *self, struct spot_call *c, const char *region);
/* Reads one <item> of a capacityReservationSet. False: not one that our machines can run in. */
bool aws_reservation_read(const struct xml *item, struct aws_reservation *ret);
/* Has it room, before its end? */
bool aws_reservation_open(const struct aws_reservation *r, int64_t now_us);
/* Does a launch prefer x to `than`? The one that ends last comes first, so that no work is refused
 * for an end that it need not meet. Then comes a block, then the smallest id: a repeat chooses the
 * same while nothing changed. */
bool aws_reservation_better(const struct aws_reservation *x, const struct aws_reservation *than);
enum spot_step aws_reservations_send(struct aws *self, struct spot_call *c, const char *region,
    const char *type); /* NULL = all */
/* Its reply: the capacityReservationSet into ret; *ret_more: there is another page. */
enum spot_step aws_reservations_reply(struct aws *self, struct spot_call *c, const struct xml **ret,
    bool *ret_more);
/* Is it one of the pool's? */
bool aws_reservation_at(const struct aws_reservation *r, const struct spot_pool_key *pool,
    const char *zone_name);
/* Which reservation of the launch's pool has room: into r->reserved. */
enum spot_step aws_reservation_reply(struct aws *self, struct spot_call *c, struct aws_run *r);

/* ---- group.c: cluster placement groups ------------------------------------------------------- */
#define AWS_GROUP_REF "pg/" /* and the name: the ref of a leftover group */
/* The group that a launch goes into; NULL = none. */
const char *aws_group_of(const struct spot_launch *l);
enum spot_step aws_group_create(struct aws *self, struct spot_call *c, const char *region,
    const char *name, const char *install, bool dry);
/* The reply. NONE: it is made, or (*ret_there) was there before. */
enum spot_step aws_group_created(struct aws *self, struct spot_call *c, bool *ret_there);
/* Reads one group by its name, or all of the installation (name NULL). */
enum spot_step aws_group_read(struct aws *self, struct spot_call *c, const char *region,
    const char *name, const char *install);
/* The reply of a launch's read. NONE: the group is ours, and a launch may use it. */
enum spot_step aws_group_checked(struct aws *self, struct spot_call *c,
    const struct spot_launch *l);
/* Value of a tag of an <item>; "" if it has none. */
const char *aws_tag_read(const struct xml *item, const char *key);
/* instances.c: fills a->after. */
void aws_terminate_after(const struct aws *self, struct spot_terminate *a,
    enum spot_instance_state state, const char *raw);
struct aws_instances;
/* The reply of a list's read: adds each group without a machine as a leftover. */
void aws_groups_add(struct aws *self, struct spot_call *c, const struct spot_list *a,
    struct aws_instances *l);
/* Deletes the group of a leftover's ref. */
enum spot_step aws_group_delete(struct aws *self, struct spot_call *c, struct spot_terminate *a);

/* ---- instances.c ----------------------------------------------------------------------------- */
/* Reads one <item> of an instancesSet. False: no id in it. */
bool aws_instance_read(const struct aws *self, struct spot_call *c, const char *region,
    const struct xml *item, struct spot_instance *ret);
struct aws_instances {
	struct spot_instance *items;
	size_t n, cap;
	const char **groups; /* placement groups of those that have not ended */
	size_t groups_n, groups_cap;
};
/* Adds all instances of a DescribeInstances reply; NONE or the verdict. */
enum spot_step aws_instances_read(struct aws *self, struct spot_call *c, const char *region,
    struct aws_instances *l, const struct xml **ret_doc);

/* ---- keys.c ---------------------------------------------------------------------------------- */
void aws_keys_fini(struct aws_keys *k);
/* Fills self->next. FAIL if a key cannot be an HTTP header. */
enum spot_step creds_next_set(struct aws *self, struct spot_call *c, const char *access,
    const char *secret, const char *token, int64_t expires_us);

/* ---- creds.c: the credential chain ----------------------------------------------------------- */
/* auth is one call. creds.c runs it, creds_profile.c chooses the source from the environment and
 * the shared files, creds_source.c requests keys from that source. */
#define ROLES_MAX 5

enum creds_source { CREDS_NONE = 0, CREDS_STATIC, CREDS_WEB, CREDS_CONTAINER, CREDS_METADATA };

struct role {
	const char *arn, *session, *external_id, *duration; /* NULL = not given */
};

/* One run of auth. */
struct auth {
	struct str config, credentials; /* the shared files, empty if absent */
	enum creds_source source; /* source of the first keys */
	struct role roles[ROLES_MAX];
	size_t roles_n; /* to be assumed with them, last first */
	struct role web;
	const char *web_file; /* CREDS_WEB */
	const char *role_name; /* CREDS_METADATA */
};

/* creds_profile.c: fills a->source and what belongs to it, for CREDS_STATIC also self->next.
 * SPOT_STEP_NONE or the verdict FAIL. */
enum spot_step creds_choose(struct aws *self, struct spot_call *c, struct auth *a);
const char *creds_path(struct aws *self, struct spot_call *c, const char *variable,
    const char *under_home);
/* Are there keys in the environment? *ret is the verdict on them. */
bool creds_from_env(struct aws *self, struct spot_call *c, enum spot_step *ret);

/* creds_source.c: each builds a request or reads its reply. Replies fill self->next. */
enum spot_step creds_web_send(struct aws *self, struct spot_call *c, struct auth *a);
enum spot_step creds_role_send(struct aws *self, struct spot_call *c, struct auth *a);
enum spot_step creds_sts_reply(struct aws *self, struct spot_call *c, const char *action);
enum spot_step creds_container_send(struct aws *self, struct spot_call *c);
enum spot_step creds_container_reply(struct aws *self, struct spot_call *c);
enum spot_step creds_token_send(struct aws *self, struct spot_call *c);
enum spot_step creds_token_reply(struct aws *self, struct spot_call *c);
enum spot_step creds_metadata_send(struct aws *self, struct spot_call *c, const struct auth *a);
enum spot_step creds_name_reply(struct aws *self, struct spot_call *c, struct auth *a);
enum spot_step creds_metadata_reply(struct aws *self, struct spot_call *c);
/* Token file's text into self->hop. */
enum spot_step creds_hop_file(struct aws *self, struct spot_call *c, const char *what);

/* ---- creds_file.c ---------------------------------------------------------------------------- */
/* Value of key in [section] of a shared credentials or config file; NULL if it is not there. */
const char *aws_ini_get(struct arena *a, struct str text, const char *section, const char *key);
bool aws_ini_has(struct str text, const char *section);

/* ---- the verbs ------------------------------------------------------------------------------- */
enum spot_step aws_auth(void *self, struct spot_call *c);
bool aws_auth_fresh(const void *self, int64_t now_us);
enum spot_step aws_whoami(void *self, struct spot_call *c, const char **ret_account);
enum spot_step aws_regions(void *self, struct spot_call *c, struct spot_regions *a);
enum spot_step aws_pools(void *self, struct spot_call *c, struct spot_pools *a);
enum spot_step aws_prices(void *self, struct spot_call *c, struct spot_prices *a);
enum spot_step aws_signals(void *self, struct spot_call *c, struct spot_signals *a);
enum spot_step aws_quotas(void *self, struct spot_call *c, struct spot_quotas *a);
enum spot_step aws_launch(void *self, struct spot_call *c, struct spot_launch *a);
enum spot_step aws_find(void *self, struct spot_call *c, struct spot_find *a);
enum spot_step aws_list(void *self, struct spot_call *c, struct spot_list *a);
enum spot_step aws_describe(void *self, struct spot_call *c, struct spot_describe *a);
enum spot_step aws_terminate(void *self, struct spot_call *c, struct spot_terminate *a);
enum spot_step aws_notices(void *self, struct spot_call *c, struct spot_notices *a);
enum spot_step aws_verify(void *self, struct spot_call *c, struct spot_verify *a);
enum spot_step aws_launch_gang(void *self, struct spot_call *c, struct spot_launch_gang *a);
enum spot_step aws_watch(void *self, struct spot_call *c, struct spot_watch *a);
enum spot_step aws_check(void *self, struct spot_call *c, struct spot_check *a);
enum spot_rc aws_presign(void *self, struct arena *arena, int64_t now_us, struct spot_presign *a,
    struct spot_err *err);

#endif
