/*
 * Google Cloud: one port for compute, billing, oauth2, sts, iamcredentials, cloudquotas and
 * storage, told apart by path. Written from the vendor's reference and discovery documents
 * (data/gcp_schema.json is made of those). As with the vendor, times in answers of compute are
 * Pacific, links name www.googleapis.com, and 64-bit numbers are texts. Fields with their default
 * value are left out.
 */
#ifndef CLOUDSIM_GCP_H
#define CLOUDSIM_GCP_H

#include "cloudsim/sim/cloud.h"

#define GCP_PROJECT "cloudsim-project"
#define GCP_PROJECT_NUMBER "415104041262"
#define GCP_SA "broker@" GCP_PROJECT ".iam.gserviceaccount.com"
#define GCP_NODE_SA GCP_PROJECT_NUMBER "-compute@developer.gserviceaccount.com"
#define GCP_LINKS "https://www.googleapis.com/compute/v1/"
#define GCP_P "projects/" GCP_PROJECT "/"
#define GCP_ARGS_MAX 6

struct evp_pkey_st;
struct gcp_req;
struct gcs;

struct gcp_token {
	struct gcp_token *next; /* newest first */
	char *text, *email, *scopes;
	int64_t expires_us;
};
/* A price of one SKU, by region: a unit in nano-dollars. */
struct gcp_part {
	const char *part, *region;
	int64_t nanos[SIDE_COUNT]; /* -1 = none */
	int64_t shift[SIDE_COUNT]; /* micro-dollars that /price added to it */
	int64_t told[SIDE_COUNT]; /* the same as the list has it: not while its feed is frozen */
};
struct gcp_sku {
	const char *id, *description, *family, *group, *usage, *unit, *regions, *tiers, *part;
	enum side side;
};
/* Facts that the market's itype lacks. */
struct gcp_type {
	struct itype *type;
	const char *machine, *family, *gpu, *accelerator;
	int gpus, ssds;
	bool attached; /* N1: GPUs are asked for beside the machine type */
};
struct gcp_zone {
	struct zone *zone;
	bool unreachable;
};
struct gcp_op {
	struct gcp_op *next; /* oldest first */
	struct sim *sim;
	uint64_t id;
	char *name, *type, *scope; /* "zones/us-central1-a", "regions/...", "global" */
	char *user, *target, *target_id, *request_id, *group, *body_hash, *status_message;
	int64_t insert_us, end_us;
	bool done;
	int http;
	char *http_message;
	json_t *errors; /* error.errors[] */
	json_t *metadata; /* bulk insert */
	struct inst *inst;
	struct loop_timer timer;
	void (*finish)(struct gcp_op *op);
};
struct gcp_disk {
	struct gcp_disk *next;
	uint64_t id;
	char *name, *zone, *type, *image;
	int64_t size_gb, created_us;
	bool auto_delete;
	struct inst *inst; /* attached to; NULL = left behind */
	struct inst_tag *labels;
	size_t labels_n;
	unsigned label_version;
};
struct gcp_vm {
	bool exists; /* answered for: a stopped or preempted VM may still exist */
	bool spot, stop_at_end, notice_two, undeletable;
	bool flex, queued; /* flex-start: still without a machine */
	int64_t max_run_us, notice_extra_us, wait_us;
	unsigned label_version, metadata_version, tags_version;
	json_t *scheduling, *metadata, *tags, *accounts, *nics, *accelerators, *affinity;
	char *reservation; /* that it uses up; NULL = none */
	char *policy; /* of placement; NULL = none */
	const char *platform;
	struct gcp_op *insert_op, *delete_op;
	struct gcp_hang *hangs;
	unsigned etag; /* changes with every value of the metadata */
	char *maintenance;
	struct loop_timer expiry, queue;
	struct inst *inst;
};
struct gcp_quota {
	char *metric, *region; /* region "*" = any */
	int64_t limit;
};
struct gcp {
	struct gcp_part *parts;
	size_t parts_n, parts_cap;
	struct gcp_sku *skus;
	size_t skus_n, skus_cap;
	struct gcp_type *types;
	size_t types_n;
	struct gcp_zone *zones;
	size_t zones_n;
	json_t *schema;
	struct gcp_token *tokens;
	struct evp_pkey_st *key, *google_key;
	char *key_id, *api_key;
	struct gcp_op *ops, *ops_last;
	struct gcp_disk *disks;
	struct gcp_template *templates;
	struct gcp_reserved *reserved; /* gcp_reserved.c */
	struct gcp_policy *policies; /* gcp_policy.c */
	struct gcp_hang *waits; /* operations.wait that are held */
	struct gcp_quota *quotas;
	size_t quotas_n;
	json_t *preferences;
	struct gcs *gcs;
	/* control: POST /gcp/config */
	bool advice_v1, advice_v1_spot,
	    notice_field; /* advice_v1_spot: v1 takes SPOT in capacity */
	int64_t rate_per_min;
	int64_t wait_us;
	int64_t keep_bytes; /* of each chunk of an upload; 0 = all */
	/* gcp_flex.c: until capacity comes, -1 = never; wait and run in place of theirs, 0 = not */
	int64_t flex_queue_us, flex_expire_us, flex_run_us;
};

/* One request, routed. arg[] are the path's variable segments, decoded. */
struct gcp_call {
	struct sim_req *rq;
	struct sim_reply *rep;
	struct sim *sim;
	struct gcp *g;
	struct arena *a;
	const char *arg[GCP_ARGS_MAX];
	const char *email; /* the caller */
	const char *version; /* "v1", "beta" */
	json_t *body; /* parsed and checked where the route has a schema; else NULL */
};
struct gcp_route {
	/* {} = one segment, {*} = the rest; "wait" style suffixes are segments, ":verb" ends the
	 * last one */
	const char *service, *method, *path;
	const char *action; /* the vendor's method id without the service */
	void (*fn)(struct gcp_call *c);
	const char *schema; /* of the body; NULL = none */
	const char *params; /* allowed query parameters, space-separated */
	const char *scopes; /* any of these beside cloud-platform; NULL = no token asked */
	const char *group; /* rate limit group; NULL = not limited */
};

/* gcp.c */
void gcp_classify(struct sim_req *rq);
void gcp_serve(struct sim_req *rq, struct sim_reply *rep);
void gcp_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message);
const char *gcp_param(struct gcp_call *c, const char *name); /* NULL if absent or "" */
bool gcp_param_bool(struct gcp_call *c, const char *name, bool dflt);
void gcp_fail(struct gcp_call *c, int status, const char *reason, const char *fmt, ...)
    PRINTF(4, 5);
void gcp_reply(struct gcp_call *c, json_t *doc); /* steals; status 200 */
void gcp_not_found(struct gcp_call *c, const char *resource);
const char *gcp_link(struct arena *a, const char *fmt, ...)
    PRINTF(2, 3); /* after GCP_LINKS GCP_P */
const char *gcp_time(struct arena *a, int64_t us); /* Pacific, milliseconds */
int64_t gcp_pacific_offset(int64_t us); /* seconds, negative */
const char *gcp_u64(struct arena *a, uint64_t v);
uint64_t gcp_new_id(struct sim *s);
uint64_t gcp_hash_id(const char *text); /* a constant id for fixed resources */
const char *gcp_fingerprint(struct arena *a, uint64_t seed);
const char *gcp_last(const char *url); /* last path segment */
bool gcp_known_project(struct gcp_call *c);

/* gcp_schema.c: Google's JSON parser: unknown names, wrong types. false: answered 400. */
bool gcp_schema_load(struct sim *s, struct spot_err *err);
bool gcp_schema_check(struct gcp_call *c, const char *schema, const json_t *doc);
int64_t gcp_i64(const json_t *o, const char *key, int64_t dflt); /* number or text */
const char *gcp_text(const json_t *o, const char *key); /* NULL if absent or "" */

/* gcp_filter.c: AIP-160 as compute takes it. */
bool gcp_filter_valid(const char *filter, struct arena *a);
bool gcp_filter_match(const char *filter, const json_t *item, struct arena *a);

/* gcp_list.c: filter, order and page a list; steals items. */
void gcp_list(struct gcp_call *c, const char *kind, const char *path, json_t *items);
/* items: pairs [scope, item]; member: "instances". */
void gcp_aggregate(struct gcp_call *c, const char *kind, const char *path, const char *member,
    json_t *items, bool regions);
void gcp_page_generic(struct gcp_call *c, const char *member, json_t *items, int64_t size_max,
    bool token_always);

/* gcp_auth.c */
bool gcp_auth_new(struct sim *s, struct spot_err *err);
bool gcp_auth_key_file(struct sim *s, struct spot_err *err); /* ports are open */
void gcp_auth_free(struct sim *s);
struct evp_pkey_st *gcp_google_key(struct gcp *g); /* the key of identity tokens and signBlob */
bool gcp_authorize(struct gcp_call *c, const char *scopes); /* false: answered */
struct gcp_token *gcp_token_new(struct sim *s, const char *email, const char *scopes,
    int64_t seconds);
size_t gcp_tokens_expire(struct sim *s);
void gcp_key_rotate(struct sim *s);
/* {"iss":...} signed by Google's own key (RS256), as an identity token is. */
char *gcp_identity_token(struct sim *s, struct arena *a, json_t *claims);
const char *gcp_base64url(struct arena *a, const void *p, size_t n);
bool gcp_base64url_decode(struct arena *a, const char *s, size_t n, struct str *ret);
bool gcp_rsa_verify(struct evp_pkey_st *key, struct str text, struct str signature);
void oauth_token(struct gcp_call *c);
void oauth_certs(struct gcp_call *c);
void sts_token(struct gcp_call *c);
void iam_access_token(struct gcp_call *c);
void iam_sign_blob(struct gcp_call *c);

/* gcp_market.c */
bool gcp_market_load(struct sim *s, struct spot_err *err);
const struct gcp_type *gcp_type_of(const struct gcp *g, const struct itype *t);
const struct gcp_type *gcp_type_named(const struct gcp *g, const char *name);
struct gcp_part *gcp_part_find(const struct gcp *g, const char *part, const char *region);
void gcp_prices_told(struct sim *s); /* the list of SKUs follows, unless the feed is frozen */
/* A price was set by hand: the SKU it stands on follows, and all machines that stand on it. */
void gcp_price_moved(struct sim *s, struct pool *p, enum side side);
struct zone *gcp_zone(const struct sim *s, const char *name);
struct gcp_zone *gcp_zone_state(const struct gcp *g, const struct zone *z);

/* gcp_inventory.c */
void gcp_zones_list(struct gcp_call *c);
void gcp_zone_get(struct gcp_call *c);
void gcp_regions_list(struct gcp_call *c);
void gcp_region_get(struct gcp_call *c);
void gcp_project_get(struct gcp_call *c);
void gcp_types_aggregated(struct gcp_call *c);
void gcp_types_list(struct gcp_call *c);
void gcp_type_get(struct gcp_call *c);
void gcp_accelerators_aggregated(struct gcp_call *c);
void gcp_accelerators_list(struct gcp_call *c);
void gcp_accelerator_get(struct gcp_call *c);
void gcp_images_list(struct gcp_call *c);
void gcp_image_family(struct gcp_call *c);
void gcp_image_get(struct gcp_call *c);
/* The image a URL names (family or image), or NULL. */
const char *gcp_image_resolve(struct arena *a, const char *url);

/* gcp_ops.c */
struct gcp_op *gcp_op_new(struct sim *s, const char *type, const char *scope, const char *user,
    const char *target, const char *target_id);
void gcp_op_done(struct gcp_op *op); /* now; wakes waiting requests */
void gcp_op_after(struct gcp_op *op, int64_t us, void (*finish)(struct gcp_op *op));
void gcp_op_error(struct gcp_op *op, int http, const char *http_message,
    json_t *error); /* steals */
json_t *gcp_op_json(const struct gcp_op *op, struct arena *a);
struct gcp_op *gcp_op_by_request(const struct gcp *g, const char *scope, const char *request_id);
void gcp_ops_free(struct sim *s);
void gcp_op_get(struct gcp_call *c);
void gcp_op_wait(struct gcp_call *c);
void gcp_ops_global(struct gcp_call *c);
void gcp_ops_zone(struct gcp_call *c);
void gcp_ops_region(struct gcp_call *c);
void gcp_ops_aggregated(struct gcp_call *c);
/* requestId: false = answered (invalid, or a repeat); *ret = the id or NULL. */
bool gcp_request_id(struct gcp_call *c, const char *scope, const char **ret);

/* gcp_launch.c, gcp_check.c, gcp_bulk.c */
struct gcp_want {
	const char *name, *machine;
	struct zone *zone;
	const struct gcp_type *type;
	struct pool *pool;
	enum side side;
	bool spot, flex;
	const json_t *props; /* Instance or InstanceProperties */
	const struct gcp_reserved *reserved; /* that is used up; NULL = none */
	const char *policy; /* of placement; NULL = none */
	bool bulk;
};
/* gcp_reserved.c. take: by reservationAffinity; false: answered. */
bool gcp_reserved_take(struct gcp_call *c, struct gcp_want *w);
int64_t gcp_reserved_room(const struct sim *s, const struct gcp_want *w);
const char *gcp_reserved_name(const struct gcp_reserved *r);
void gcp_reserved_aggregated(struct gcp_call *c);
/* POST /gcp/reservation */
json_t *gcp_reserved_post(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
void gcp_reserved_free(struct sim *s);

/* gcp_flex.c. check: false: answered. */
bool gcp_flex_check(struct gcp_call *c, struct gcp_want *w);
void gcp_flex_order(struct gcp_call *c, const struct gcp_want *w, struct inst *i);
void gcp_flex_ended(struct inst *i); /* it is deleted, or its run is over */
void gcp_flex_changed(struct sim *s);
const char *gcp_flex_ends(const struct inst *i, struct arena *a); /* NULL: it has no end yet */

/* gcp_policy.c. take: by resourcePolicies; false: answered. */
bool gcp_policy_take(struct gcp_call *c, struct gcp_want *w);
void gcp_policy_insert(struct gcp_call *c);
void gcp_policy_get(struct gcp_call *c);
void gcp_policy_delete(struct gcp_call *c);
void gcp_policies_aggregated(struct gcp_call *c);
void gcp_policies_free(struct sim *s);

bool gcp_name_valid(const char *name);
bool gcp_metadata_check(struct gcp_call *c, const json_t *metadata);
bool gcp_check(struct gcp_call *c, struct gcp_want *w, const char *where);
void gcp_insert(struct gcp_call *c);
void gcp_bulk_zone(struct gcp_call *c);
void gcp_bulk_region(struct gcp_call *c);
/* NULL: room for one more; else the operation's error (new). */
json_t *gcp_shortage(struct sim *s, const struct gcp_want *w, int *ret_http,
    const char **ret_words);
struct inst *gcp_vm_make(struct gcp_call *c, const struct gcp_want *w, struct gcp_op *op);

/* gcp_vm.c: an instance seen through the API, its end, its disks. */
struct gcp_vm *gcp_vm(const struct inst *i);
struct inst *gcp_vm_find(const struct sim *s, const char *zone, const char *name_or_id);
bool gcp_vm_shown(const struct inst *i);
const char *gcp_vm_status(const struct inst *i);
json_t *gcp_vm_json(const struct inst *i, struct arena *a);
void gcp_event(struct inst *i, const char *type);
void gcp_inst_free(struct inst *i);
void gcp_vm_get(struct gcp_call *c);
void gcp_vm_list(struct gcp_call *c);
void gcp_vm_aggregated(struct gcp_call *c);
void gcp_vm_delete(struct gcp_call *c);
void gcp_vm_set_labels(struct gcp_call *c);
void gcp_vm_simulate(struct gcp_call *c);
void gcp_vm_test_permissions(struct gcp_call *c);
void gcp_project_test_permissions(struct gcp_call *c);

const char *gcp_metadata_print(struct arena *a, const struct inst *i);
const char *gcp_tags_print(struct arena *a, const struct inst *i);

/* gcp_power.c */
void gcp_vm_stop(struct gcp_call *c);
void gcp_vm_start(struct gcp_call *c);
void gcp_vm_reset(struct gcp_call *c);
void gcp_vm_protect(struct gcp_call *c);
void gcp_vm_set_metadata(struct gcp_call *c);
void gcp_vm_set_tags(struct gcp_call *c);
void gcp_vm_serial(struct gcp_call *c);
void gcp_vm_guest_attributes(struct gcp_call *c);

/* gcp_net.c */
void gcp_networks_list(struct gcp_call *c);
void gcp_network_get(struct gcp_call *c);
void gcp_subnetworks_list(struct gcp_call *c);
void gcp_subnetwork_get(struct gcp_call *c);
void gcp_subnetworks_aggregated(struct gcp_call *c);
void gcp_firewalls_list(struct gcp_call *c);
void gcp_firewall_get(struct gcp_call *c);
bool gcp_disk_type_known(const char *name);
void gcp_disk_types_list(struct gcp_call *c);
void gcp_disk_type_get(struct gcp_call *c);

/* gcp_template.c */
void gcp_templates_free(struct sim *s);
void gcp_template_insert(struct gcp_call *c);
void gcp_template_get(struct gcp_call *c);
void gcp_templates_list(struct gcp_call *c);
void gcp_template_delete(struct gcp_call *c);
/* Properties of the template at url under those of body (new); NULL: answered. */
json_t *gcp_template_under(struct gcp_call *c, const char *url, const json_t *body);

/* gcp_disk.c */
struct gcp_disk *gcp_disk_new(struct sim *s, const char *zone, const char *name);
void gcp_disk_free(struct sim *s, struct gcp_disk *d);
void gcp_disks_unmade(struct inst *i); /* the VM never was, and neither were they */
void gcp_disks_release(struct inst *i); /* the VM is deleted: autoDelete ones go, others stay */
void gcp_disks_free(struct sim *s);
void gcp_disk_get(struct gcp_call *c);
void gcp_disks_list(struct gcp_call *c);
void gcp_disks_aggregated(struct gcp_call *c);
void gcp_disk_delete(struct gcp_call *c);
void gcp_disk_insert(struct gcp_call *c);

/* gcp_quota.c */
int64_t gcp_quota_limit(const struct sim *s, const char *metric, const char *region);
int64_t gcp_quota_usage(const struct sim *s, const char *metric, const char *region);
/* The first quota that one more of w would pass, or NULL. */
const char *gcp_quota_passed(const struct sim *s, const struct gcp_want *w, int64_t *ret_limit,
    const char **ret_region);
json_t *gcp_quotas_json(const struct sim *s, const char *region); /* NULL = project-wide */
bool gcp_quota_set(struct sim *s, const json_t *doc, struct spot_err *err);
void gcp_quotas_free(struct sim *s);
void gcp_quota_infos(struct gcp_call *c);
void gcp_quota_info(struct gcp_call *c);
void gcp_quota_preference(struct gcp_call *c);

/* gcp_advice.c */
void gcp_capacity_history(struct gcp_call *c);
void gcp_capacity(struct gcp_call *c);

/* gcp_billing.c */
void billing_services(struct gcp_call *c);
void billing_skus(struct gcp_call *c);

/* gcp_imds.c */
void gcp_imds(struct inst *i, struct httpd_req *r, const char *path);
void gcp_imds_changed(struct inst *i); /* answers hanging GETs */
void gcp_imds_forget(struct inst *i);

/* gcs*.c */
bool gcs_new(struct sim *s, struct spot_err *err);
void gcs_free(struct sim *s);
void gcs_left(const struct sim *s, json_t *left);
void gcs_bucket_list(struct gcp_call *c);
void gcs_bucket_insert(struct gcp_call *c);
void gcs_bucket_get(struct gcp_call *c);
void gcs_bucket_permissions(struct gcp_call *c);
void gcs_bucket_delete(struct gcp_call *c);
void gcs_object_list(struct gcp_call *c);
void gcs_object_get(struct gcp_call *c);
void gcs_object_delete(struct gcp_call *c);
void gcs_object_compose(struct gcp_call *c);
void gcs_object_copy(struct gcp_call *c); /* gcs_change.c */
void gcs_object_rewrite(struct gcp_call *c);
void gcs_object_change(struct gcp_call *c);
void gcs_upload(struct gcp_call *c);
void gcs_upload_put(struct gcp_call *c);
void gcs_upload_delete(struct gcp_call *c);
void gcs_xml(struct gcp_call *c); /* /bucket/object, signed URLs */

/* gcp_routes.c: the methods of the emulated APIs, ended by a row without a method. */
extern const struct gcp_route gcp_routes[];

#endif
