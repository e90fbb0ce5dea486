/*
 * Azure, after the vendor's REST references: login (OAuth 2), Resource Manager, the Retail Prices
 * API, Blob storage (blob.h), the instance metadata service. The resource providers are Compute,
 * Network, Resources, ResourceGraph and Authorization. One state per sim; resources are JSON
 * documents kept as a GET returns them.
 *
 * A VM is a resource with an instance of the shared market behind it once capacity was found. Its
 * changes are made by the instance's events (azure_event) and, where no instance takes part, when a
 * request finds that their time has come (az_tick).
 */
#ifndef CLOUDSIM_AZURE_H
#define CLOUDSIM_AZURE_H

#include "cloudsim/sim/cloud.h"

#define AZ_ETAG "\"1\"" /* of every machine: changes are not counted */
#define AZ_SUBSCRIPTION "6f0d4b52-9f3e-4c1b-8a77-2d5c0e9a1b34"
#define AZ_TENANT "1c7be6d0-53a9-4f0e-9b86-7f2f64c3e8a5"
#define AZ_CLIENT "a3e1f2c4-0b6d-4c58-b1f7-90d2e5a87c16"
#define AZ_CLIENT_OID "b8f9d0e1-7c2a-4d36-a54e-31c0b6f7e829"
#define AZ_ACCOUNT "cloudsimstore"
#define AZ_ID_MAX 37

enum az_kind {
	AZ_NONE = 0,
	AZ_GROUP,
	AZ_VM,
	AZ_NIC,
	AZ_IP,
	AZ_DISK,
	AZ_VNET,
	AZ_NSG,
	AZ_IDENTITY,
	AZ_NEAR, /* a proximity placement group */
	AZ_KIND_COUNT
};

struct az_op {
	struct az_op *next;
	char *id, *location, *resource; /* resource: its id */
	char *code, *message; /* failed */
	json_t *output; /* its Location's answer at the end */
	const char *status; /* "InProgress" "Succeeded" "Failed" "Canceled" */
	int64_t started_us, ended_us;
	bool is_delete;
};
struct az_res {
	struct az_res *next;
	enum az_kind kind;
	char *group, *name, *id, *location;
	json_t *doc; /* the fixed part: id, name, type, location, tags, properties, ... */
	json_t *asked; /* a VM's request body */
	const char *state; /* provisioningState */
	int64_t made_us, visible_us;
	/* a VM */
	struct inst *inst;
	char vm_id[AZ_ID_MAX];
	struct az_op *op;
	int64_t due_us; /* without an instance: the end of creating or deleting */
	bool deallocated, stopped, force;
	/* the error at the end of its creation; instanceView shows it */
	char *fail_code, *fail_message;
	/* parts of a VM */
	struct az_res *owner; /* NIC, disk: the VM. IP: the NIC */
	bool delete_with; /* deleteOption Delete */
	int64_t reserved_us; /* a NIC after its VM failed or went: not to be deleted until then */
	char ip[24];
	int64_t scheduled_us; /* group being deleted: gone by then */
};

struct az_trust { /* an issuer of client assertions */
	struct az_trust *next;
	char *issuer, *subject;
	void *key; /* EVP_PKEY */
};
struct az_user_key { /* user delegation keys handed out */
	struct az_user_key *next;
	char *oid, *start, *expiry, *version, *value;
};
struct blob_store;
struct az_sku_rule { /* restrictions set by hand */
	struct az_sku_rule *next;
	char *region, *type, *zone, *reason;
};
struct azure {
	struct az_res *res, *res_last;
	struct az_op *ops;
	struct httpd *tls;
	/* keys: ca signs server and leaf; leaf signs tokens and attested documents */
	void *ca_key, *ca_cert, *leaf_key, *leaf_cert;
	char *ca_pem, *ca_path;
	char *client_secret, *storage_key;
	int64_t revoked_us; /* tokens issued before are expired */
	struct az_trust *trust;
	struct az_user_key *user_keys;
	struct blob_store *blobs;
	struct az_sku_rule *rules;
	struct az_reserved *reserved; /* azure_reserved.c */
	struct {
		char *region, *code;
		int64_t limit;
	} *quotas;
	size_t quotas_n;
	/* knobs (POST /azure/config) */
	char *capacity; /* "mixed" "sync" "async": how a shortage shows */
	char *fail_code, *fail_message;
	int64_t fail_count; /* creates that fail in their operation with fail_code */
	int64_t page, price_page, nic_reserve_us, events_us, forget_us;
	bool spot_allowed, text_throttle, system_events;
	uint64_t incarnation;
	int turn;
};

/* ---- one request ----------------------------------------------------------------------------- */
enum az_service { AZ_SVC_ARM = 1, AZ_SVC_LOGIN, AZ_SVC_PRICES, AZ_SVC_BLOB, AZ_SVC_NONE };
#define AZ_SEGMENTS 24
struct az_call {
	struct sim_req *rq;
	struct sim_reply *rep;
	struct azure *az;
	enum az_service svc;
	const char *seg[AZ_SEGMENTS]; /* decoded path segments */
	size_t n;
	const char *sub, *group, *ns, *type, *name, *child, *child_name;
	const char *version, *base;
	json_t *doc; /* body, or NULL */
	char oid[AZ_ID_MAX];
};

/* azure.c */
struct azure *azure_of(const struct sim *s);
char *az_guid(struct sim *s, char ret[AZ_ID_MAX]);
void az_fail(struct az_call *c, int status, const char *code, const char *fmt, ...) PRINTF(4, 5);
void az_send(struct az_call *c, int status, json_t *doc); /* steals doc */
/* any case of the name; NULL if absent */
const char *az_query(struct az_call *c, const char *name);
bool az_same(const char *a, const char *b); /* without case */
const char *az_location(struct arena *a, const char *text); /* "West US 3" to "westus3" */
const char *az_lower(struct arena *a, const char *text);

/* azure_tls.c: the CA, the server's certificate, the leaf that signs */
bool az_keys_new(struct sim *s, struct spot_err *err);
void az_keys_free(struct azure *az);
/* RSASSA-PKCS1-v1_5 with SHA-256 by the leaf; base64url. */
const char *az_sign(struct azure *az, struct arena *a, const char *text);
const char *az_pkcs7(const struct sim *s, struct arena *a, const char *text);
const char *az_b64url(struct arena *a, const void *p, size_t n);
bool az_b64url_decode(struct arena *a, const char *s, size_t n, struct str *ret);
/* kid, n, e of the leaf for the key set */
json_t *az_jwk(struct azure *az, struct arena *a);

/* azure_login.c */
void az_login(struct az_call *c);
const char *az_token(struct sim *s, struct arena *a, const char *audience, const char *app,
    const char *oid, int64_t seconds);
/* Checks a bearer token for one of the audiences. Returns the error; NULL = valid. Fills oid. */
const char *az_token_check(struct az_call *c, const char *const *audiences);
bool az_trust_add(struct sim *s, const json_t *doc, struct spot_err *err);
void az_trust_drop(struct az_trust *t);

/* azure_arm.c */
void az_arm_name(struct az_call *c); /* service and action of the request */
void az_arm(struct az_call *c);
struct az_op *az_op_new(struct az_call *c, struct az_res *r, bool is_delete);
void az_op_end(struct sim *s, struct az_op *op, const char *status, const char *code,
    const char *message);
void az_op_headers(struct az_call *c, const struct az_op *op);
int64_t az_retry_after(const struct sim *s);
bool az_need_doc(struct az_call *c);
/* A list as the vendor pages it: takes items, sends value and nextLink. */
void az_list(struct az_call *c, json_t *items);
char *az_time(struct arena *a, int64_t us); /* 2026-01-02T03:04:05.0000000+00:00 */

/* azure_res.c */
struct az_res *az_find(struct azure *az, enum az_kind kind, const char *group, const char *name);
struct az_res *az_by_id(struct azure *az, const char *id);
struct az_res *az_new(struct sim *s, enum az_kind kind, const char *group, const char *name,
    const char *location, json_t *doc);
void az_drop(struct azure *az, struct az_res *r);
bool az_visible(const struct sim *s, const struct az_res *r);
const char *az_kind_type(enum az_kind k); /* "Microsoft.Compute/virtualMachines" */
json_t *az_view(struct sim *s, const struct az_res *r);
void az_tick(struct sim *s);
void az_res_free(struct azure *az);
bool az_tags_valid(struct az_call *c, const json_t *tags);
bool az_tags_patch(struct az_call *c, json_t *to);

/* azure_group.c */
void az_groups(struct az_call *c);
void az_group_one(struct az_call *c);
void az_resources(struct az_call *c);
struct az_res *az_group_for_write(struct az_call *c);

/* azure_net.c */
void az_plain_resource(struct az_call *c, enum az_kind kind);
void az_plain_list(struct az_call *c, enum az_kind kind);
struct az_res *az_nic_make(struct az_call *c, struct az_res *vm, const json_t *conf);
struct az_res *az_disk_make(struct az_call *c, struct az_res *vm, const json_t *disk, bool os,
    int lun);
bool az_subnet_known(struct azure *az, const char *id, const char *location);

/* azure_near.c: proximity placement groups. good, take: false = answered. */
bool az_near_good(struct az_call *c);
bool az_near_take(struct az_call *c, const char *location);
/* A machine outside its resource group that refers to it; NULL = none. */
const struct az_res *az_near_user(const struct azure *az, const struct az_res *near);
void az_near_view(const struct azure *az, const struct az_res *near, json_t *properties);

/* azure_vm.c, azure_vm_check.c, azure_vm_view.c, azure_vm_life.c */
void az_vm(struct az_call *c);
void az_vm_list(struct az_call *c);
struct az_want {
	const char *size, *zone, *location;
	enum side side;
	struct itype *type;
	struct pool *pool;
	int64_t max_price; /* micro-dollars; -1 = none */
	const char *user_data;
	size_t user_data_n;
	bool ephemeral;
	bool reserved; /* there is reserved capacity for it */
};
/* azure_reserved.c */
#define AZ_RESERVATION_GROUP \
	"/subscriptions/" AZ_SUBSCRIPTION \
	"/resourceGroups/%s/providers/Microsoft.Compute/capacityReservationGroups/%s"
bool az_reserved_take(struct az_call *c, struct az_want *w); /* false: answered */
void az_reserved_get(struct az_call *c);
/* POST /azure/reservation */
json_t *az_reserved_post(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
void az_reserved_free(struct azure *az);

bool az_vm_check(struct az_call *c, struct az_want *w);
bool az_schema_check(struct az_call *c);
bool az_quota_check(struct az_call *c, const struct az_want *w);
const char *az_changed(const json_t *before, const json_t *now, struct arena *a);
json_t *az_vm_view(struct sim *s, const struct az_res *r, bool instance_view);
json_t *az_instance_view(struct sim *s, const struct az_res *r);
void az_vm_event(struct inst *i, const char *type);
bool az_vm_tick(struct sim *s, struct az_res *r); /* true: it was dropped */
void az_vm_delete(struct sim *s, struct az_res *r);
void az_vm_gone(struct sim *s, struct az_res *r); /* drops it and its parts */

/* azure_more.c */
struct az_image {
	const char *publisher, *offer, *sku, *generation;
};
extern const struct az_image az_images[];
extern const size_t az_images_n;
void az_image_catalog(struct az_call *c);
void az_send_value(struct az_call *c, json_t *list); /* steals: a bare array */
void az_sizes(struct az_call *c);
void az_sizes_of(struct az_call *c, const char *region);
void az_vms_at(struct az_call *c);
bool az_vm_action(struct az_call *c, struct az_res *r); /* false: no such action here */
void az_set(struct az_call *c);
void az_set_list(struct az_call *c);
/* A subnet of network r that a NIC's address stands in, or NULL. */
const char *az_subnet_used(struct azure *az, const struct az_res *r);
bool az_children(struct az_call *c, struct az_res *r); /* false: it has no such children */

/* azure_skus.c */
void az_skus(struct az_call *c);
void az_usages(struct az_call *c);
int64_t az_quota(const struct sim *s, const char *region, const char *code);
int64_t az_used(const struct sim *s, const char *region, const char *code);
/* NULL = sold there; else the reason code */
const char *az_restricted(const struct sim *s, const char *region, const char *type,
    const char *zone);
const char *az_family(const struct itype *t);
int az_vcpus(const struct itype *t);

/* azure_prices.c, azure_graph.c, azure_score.c, azure_imds.c, azure_market.c, azure_control.c */
void az_prices(struct az_call *c);
void az_graph(struct az_call *c);
bool az_graph_rows(struct az_call *c, const char *table, json_t *rows); /* false: no such table */
/* Rows as resultFormat "table" has them: names and types of columns, then values. */
json_t *az_graph_columns(const json_t *rows);
void az_scores(struct az_call *c);
void az_permissions(struct az_call *c);
void az_imds(struct inst *i, struct httpd_req *r, const char *path);
size_t az_env(const struct inst *i, struct arena *a, const char **env, size_t max);
bool az_market_load(struct sim *s, struct spot_err *err);
extern const struct control_call az_calls[];
void az_left(const struct sim *s, json_t *left);
json_t *az_event_add(struct sim *s, const json_t *doc, struct spot_err *err);
void az_events_free(void);
void az_control_free(struct azure *az);
void az_rule_drop(struct az_sku_rule *r);
void az_user_key_drop(struct az_user_key *k);
void az_guest_off(struct inst *i);

#endif
