/* EC2: the calls, their common part, and a launch between its parameters and its instances. */
#ifndef CLOUDSIM_EC2_H
#define CLOUDSIM_EC2_H

#include "cloudsim/aws/aws.h"
#include "base/crypto/crypto.h"

/* ec2_form.c, ec2.c */
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
    ec2_describe_keys, ec2_create_key, ec2_delete_key, ec2_account_attributes, ec2_create_group,
    ec2_describe_pgroups, ec2_delete_group, ec2_manager_enable, ec2_manager_disable,
    ec2_manager_attributes, ec2_manager_data;

/* ec2_reserved.c: a launch's words about reservations, and the one that it uses up (NULL =
 * none). */
struct reserved_ask {
	const char *preference, *id;
	bool spot, block, interruptible;
};
bool reserved_market(struct reserved_ask *ask, const char *market); /* is it one of theirs? */
void reserved_read(struct ec2 *e, struct reserved_ask *ask);
const char *reserved_choose(struct ec2 *e, const struct reserved_ask *ask, const struct pool *p,
    int64_t n);
int64_t reserved_free(const struct reservation *r);
const char *reserved_lifecycle(const struct inst *i); /* instanceLifecycle; NULL = none */
/* Marks a new instance that runs in an interruptible reservation. */
void reserved_mark(struct inst *i);
void reserved_free_all(struct aws_controls *c);
/* POST /aws/reservation */
json_t *reserved_post(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);

/* ec2_manager.c: POST /aws/capacity-manager, POST /aws/fulfilment */
json_t *manager_post(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *filled_post(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
void filled_free(struct aws_controls *c);

/* ec2_run.c and ec2_view.c share */
void ec2_instance_xml(struct ec2 *e, struct sbuf *b, const struct inst *i);
const char *ec2_state_word(const struct inst *i, int *ret_code);

struct inst *ec2_named(struct ec2 *e, const char *id); /* visible here, or e->failed */
void ec2_change_xml(struct ec2 *e, const struct inst *i, enum inst_state before);
/* ec2_things.c: parts of an instance */
void ec2_disk_map_xml(struct ec2 *e, struct sbuf *b, const struct inst *i);
void ec2_nic_xml(struct ec2 *e, struct sbuf *b, const struct inst *i, bool full);
const char *ec2_volume_id(struct arena *a, const struct inst *i);

/* ---- launches: ec2_run.c, ec2_launch.c ------------------------------------------------------- */

/* RunInstances, launch templates, spot requests and fleets all make one. The texts live in the
 * request's arena. */

struct run {
	const char *image, *type_name, *subnet, *zone_name, *zone_id, *token, *user_data, *market,
	    *key_name;
	const char *profile, *shutdown, *group;
	const char *pgroup; /* placement group; NULL = none */
	int64_t min, max, max_price, hop_limit;
	bool tokens_required, metadata_tags, metadata_off;
	struct str user_data_raw;
	struct inst_tag *tags, *sir_tags, *volume_tags, *nic_tags;
	size_t tags_n, sir_tags_n, volume_tags_n, nic_tags_n;
	const struct itype *type;
	const struct zone *zone; /* asked for; NULL = any of the region */
	struct pool *pool;
	enum side side;
	struct reserved_ask reserved;
	const char *reservation; /* that is used up; NULL = none */
	char hash[SHA256_HEX];
	const char *scope;
	/* Spot request: its id when it was there first, whether it lasts, the effect of an
	 * interruption. */
	const char *sir, *behaviour;
	const char *template_id; /* launched by; NULL = none */
	bool persistent;
	int64_t root_gib;
	bool keep_root, guarded;
};

/* Reads the form into r; e->failed says whether it failed. run_fini frees r in any case. */
void run_read(struct ec2 *e, struct run *r);
void run_fini(struct run *r);
/* Everything that makes two requests the same one. */
const char *form_hash(struct ec2 *e);
/* Finds image, zone and pool of a read launch. */
void run_resolve(struct ec2 *e, struct run *r);
/* Every check of a launch that the vendor makes at once, then count instances (min to max),
 * malloc'd; 0 = e->failed. Tokens are the caller's business. */
size_t run_launch(struct ec2 *e, struct run *r, struct inst ***ret);
/* Price, capacity: why it cannot be had at this moment, NULL = it can. ret_words may be NULL. */
const char *run_refused(struct ec2 *e, const struct run *r, const char **ret_words);
char *ec2_sir_id(struct sim *s); /* malloc'd */
void run_check_quota(struct ec2 *e, const struct run *r);

/* ec2_template.c: completes the request from a named launch template. */
void template_apply(struct ec2 *e);
/* The same for one named by id or name (the other NULL) and version, into f; its id, NULL:
 * e->failed. */
const char *template_under(struct ec2 *e, const char *id, const char *name, const char *version,
    struct form *f);
void templates_free(struct aws_controls *c);

/* ec2_group.c: the placement group of a launch, and whether its place fits; e->failed otherwise. */
void group_read(struct ec2 *e, struct run *r);
void group_resolve(struct ec2 *e, const struct run *r);
void groups_free(struct aws_controls *c);

/* ec2_request.c: open spot requests are looked at again. */
void requests_wake(struct ec2 *e);
void requests_free(struct aws_controls *c);
/* Requests without an instance: those of the list, one by id, the end of one (its state). */
void requests_xml(struct ec2 *e, const char *const *ids, size_t ids_n, const struct ec2_filter *f,
    size_t n);
const char *request_cancel(struct ec2 *e, struct spot_ask *q);
struct inst_tag **request_tags(struct spot_ask *q, size_t **ret_n);
struct spot_ask *request_find(struct ec2 *e, const char *id);

/* Tags of a root volume or network interface by its id; NULL: there is none. */
struct inst_tag **ec2_thing_tags(struct ec2 *e, const char *id, size_t **ret_n);
bool key_known(struct ec2 *e, const char *name);
void keys_free(struct aws_controls *c); /* ec2_things.c */

#endif
