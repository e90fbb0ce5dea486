/*
 * Inside of the Azure provider. One struct azure per open provider instance: settings (read once at
 * open) and tokens (changed by auth only). A lease is one resource group with one machine of the
 * same name in it; that name, in lower case, is the instance's ref. Steps keep their place in
 * struct call_state (arena memory of the call), not in c->at: the number of the request that is
 * out. So a step entered with c->in == NULL builds that request again, which is what AGAIN and
 * REAUTH want.
 */
#ifndef PROVIDERS_AZURE_PRIV_H
#define PROVIDERS_AZURE_PRIV_H

#include "base/base.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"

#define AZURE_TAG_INSTALL "spotbroker-install"
#define AZURE_TAG_TOKEN "spotbroker-token"
#define AZURE_TAG_NAME "spotbroker-name"
#define AZURE_TAG_CREATED "spotbroker-created"
#define AZURE_PAGES_MAX 2000
#define AZURE_NAME_MAX 64 /* of a Linux machine */

/* One version per resource type; they have series of their own. */
#define API_COMPUTE "2024-03-01"
#define API_RESERVATIONS "2025-04-01" /* the first that tells which ones are blocks */
#define API_SKUS "2021-07-01"
#define API_PLACEMENT "2025-06-05"
#define API_NETWORK "2022-11-01" /* of the network card inside a machine's body */
#define API_GROUPS "2021-04-01"
#define API_LOCATIONS "2022-12-01"
#define API_GRAPH "2024-04-01"
#define API_PERMISSIONS "2022-04-01"
#define API_PRICES "2023-01-01-preview"
#define API_IDENTITY "2018-02-01"
#define API_BLOB "2023-11-03"

/* Indexes into azure_ops.limits, in the order of azure_limits[]. */
enum azure_limit {
	AZURE_LIMIT_READ = 0,
	AZURE_LIMIT_WRITE,
	AZURE_LIMIT_DELETE,
	AZURE_LIMIT_GRAPH,
	AZURE_LIMIT_PLACEMENT,
	AZURE_LIMIT_PRICES,
	AZURE_LIMIT_LOGIN,
	AZURE_LIMIT_METADATA,
	AZURE_LIMIT_BLOB,
	AZURE_LIMIT_CERTIFICATES,
	AZURE_LIMIT_COUNT,
};

enum azure_auth_kind { AUTH_SECRET = 1, AUTH_CERTIFICATE, AUTH_WORKLOAD, AUTH_MANAGED };

/* refresh_us: from then on a new one is asked for; expires_us: until then the old one works. */
struct azure_token {
	struct secret value;
	int64_t refresh_us, expires_us;
};

/* A user delegation key (Blob service, Get User Delegation Key). */
struct azure_delegation {
	struct secret value; /* base64, as it came */
	char *oid, *tid, *start, *expiry, *service, *version;
	int64_t from_us, refresh_us, expires_us;
};

struct azure {
	const char *name; /* provider instance name */
	/* for subnet.<region> and nsg.<region>, looked up per launch */
	struct spot_provider_conf conf;
	struct arena *arena; /* settings that had to be taken apart */
	const char **regions;
	size_t regions_n; /* setting; 0 = all of the subscription */
	const char *subscription, *tenant, *client_id;
	const char *endpoint, *authority, *audience, *prices_endpoint, *metadata;
	const char *group_prefix;
	const char *image, *image_arm64, *ssh_public_key, *admin_user, *identity;
	const char *disk_type;
	int64_t disk_gib; /* 0 = as the image says */
	bool public_ip, placement_scores;
	const char *storage_account, *blob_endpoint; /* NULL = none; the vendor's */
	const char *attested_ca_file, *attested_name;
	enum azure_auth_kind auth_kind;
	const char *secret_file, *certificate_file, *federated_file, *storage_key_file;
	struct secret env_secret; /* client secret of the environment */
	struct secret storage_key; /* base64; of the environment, or read by auth */
	/* auth only */
	struct azure_token arm, blob;
	struct azure_delegation delegation;
	/* the content of a file, during auth: secret, assertion or certificate */
	struct secret credential;
	/* why there is no delegation key, "" = there is one or none is wanted */
	char blob_refused[200];
	int64_t retry_us, blob_retry_us; /* not before this, after a failed renewal */
};

struct azure_request {
	const char *what; /* "PUT virtualMachines", for messages */
	const char *method;
	const char *url; /* absolute: a page or an operation; NULL: path */
	const char *path; /* below the endpoint, query and all */
	const char *body; /* JSON, NULL = none */
	enum azure_limit limit;
	const char *limit_scope; /* "" unless set */
	bool mutating;
	size_t reply_bytes_max;
	int64_t timeout_us;
};

/* ---- settings.c ------------------------------------------------------------------------------ */
enum spot_rc azure_settings_read(struct azure *self, struct spot_err *err);
const char *azure_setting(const struct azure *self, const char *key); /* NULL if unset or "" */
const char *azure_env(const struct azure *self, const char *name); /* NULL if unset or "" */
bool azure_region_ok(const char *region);
/* Lower case, blanks dropped: "West US 3" and "WestUS3" are westus3. */
const char *azure_region(struct arena *a, const char *text);
bool azure_id_ok(const char *id, const char *type); /* /subscriptions/.../providers/.../type/name */
bool azure_guid_ok(const char *text);

/* ---- http.c ---------------------------------------------------------------------------------- */
/* To the Resource Manager, with its token. */
enum spot_step azure_send(struct azure *self, struct spot_call *c, const struct azure_request *r);
/* Reads the reply in c->in. SPOT_STEP_NONE: status 200..299 and a JSON object in *ret; else the
 * step's verdict. */
enum spot_step azure_reply(struct spot_call *c, const char *what, json_t **ret);
/* The same for replies without a body to read. */
enum spot_step azure_reply_plain(struct spot_call *c, const char *what);
/* BAD_REPLY, or UNKNOWN where the request may have had an effect. */
#define azure_bad_reply(c, what, ...) call_bad_reply(c, "azure", what, __VA_ARGS__)
/* Takes over the link to the next page. NONE: st->next is set, or NULL at the end. A bad reply if
 * the link leads away from base or in circles. */
enum spot_step azure_next_page(struct call_state *st, struct spot_call *c, const char *what,
    const char *base, const char *link);
/* The same scheme, host and port, default ports left out or not. */
bool azure_same_host(const char *base, const char *url);
const char *azure_request_id(struct spot_call *c); /* a fresh GUID */
/* Members of arrays and objects that may be anything: NULL or "" when they are not what is
 * wanted. */
const char *azure_text(const json_t *o, const char *key);
/* The value of a tag, or "". Names of tags may come back in another case
 * (azure-resource-manager/management/tag-resources). */
const char *azure_tag(const json_t *tags, const char *name);

/* ---- errors.c -------------------------------------------------------------------------------- */
enum azure_how { AZURE_FAIL = 1, AZURE_AGAIN, AZURE_REAUTH };
struct azure_code {
	const char *code;
	enum spot_rc rc;
	enum azure_how how;
	const char *scope; /* the thing that is empty, full or wrong: for people */
	enum spot_scope rests;
};
extern const struct azure_code azure_codes[];
extern const size_t azure_codes_n;
const struct azure_code *azure_code_find(const char *code, const char *message);
/* The innermost code that we know and its message, from {"error":{...}} or the inside of it; "" if
 * none. */
void azure_error_walk(struct arena *a, const json_t *error, const char **ret_code,
    const char **ret_message);
void azure_error_read(struct spot_call *c, const char **ret_code, const char **ret_message);
/* Verdict for an error reply. */
enum spot_step azure_error(struct spot_call *c, const char *what, const char *code,
    const char *message);

/* ---- creds.c, creds_source.c ----------------------------------------------------------------- */
void azure_token_fini(struct azure_token *t);
void azure_delegation_fini(struct azure_delegation *d);
bool azure_blob_wanted(const struct azure *self); /* a storage account without a key */
enum spot_step azure_token_send(struct azure *self, struct spot_call *c, const char *audience);
enum spot_step azure_token_reply(struct azure *self, struct spot_call *c, struct azure_token *t);

/* ---- graph.c: Azure Resource Graph ----------------------------------------------------------- */
enum spot_step azure_graph_send(struct azure *self, struct spot_call *c, const char *query);
/* NONE: rows in *ret (borrowed from *ret_doc, which the caller frees), st->next tells whether there
 * are more. */
enum spot_step azure_graph_reply(struct spot_call *c, json_t **ret_doc, const json_t **ret_rows);
/* A text inside a query: quoted, with nothing in it that could end the quotes. */
const char *azure_graph_quote(struct arena *a, const char *text);

/* ---- gpus.c ---------------------------------------------------------------------------------- */
struct azure_gpu {
	const char *name; /* our catalogue's; "" = a size that we leave out */
	int32_t milli, mem_mib;
};
/* Finds the GPU of a size; gpus is the vendor's count (0 = not said). False: no GPU size that we
 * know. */
bool azure_gpu_find(const char *size, int64_t gpus, struct azure_gpu *ret);

/* ---- pools.c --------------------------------------------------------------------------------- */
const char *azure_quota_class(struct arena *a, const char *family); /* lower case, blanks dropped */
#define AZURE_CLASS_SPOT "lowprioritycores"
/* eastus2-1; "" for none */
const char *azure_zone(struct arena *a, const char *region, const char *number);
/* Pools of one size and market by the vendor's name, in any case: next index from on, or n. */
size_t azure_pool_next(const struct spot_pool_info *pools, size_t n, size_t from, const char *size,
    enum spot_market market);

/* ---- reserved.c ------------------------------------------------------------------------------ */
#define AZURE_RESERVATIONS "capacityReservations" /* the source of prices and signals */
struct azure_reservation {
	const char *size, *zone; /* zone: its number, "" = none */
	int64_t free;
};
struct azure_reservations {
	struct azure_reservation *list;
	size_t n, cap;
};
/* The group that is set for a region; *ret NULL: none. */
enum spot_step azure_reservation_group(const struct azure *self, struct spot_call *c,
    const char *region, const char **ret);
enum spot_step azure_reservations_send(struct azure *self, struct spot_call *c, const char *group);
/* Adds those of a page that our machines can run in. st->next tells whether there are more. */
enum spot_step azure_reservations_reply(struct azure *self, struct spot_call *c,
    struct azure_reservations *x);
/* Is there one with room for so many? */
bool azure_reserved(const struct azure_reservations *x, const char *size, const char *zone,
    int64_t count);

/* ---- prices_history.c ------------------------------------------------------------------------ */
/* A JSON number of dollars; exact to nine decimals. */
bool azure_usd(const json_t *number, int64_t *ret_micros);
enum spot_step azure_history_send(struct azure *self, struct spot_call *c,
    const struct spot_prices *a);
enum spot_step azure_history_reply(struct spot_call *c, const struct spot_prices *a,
    struct price_points *x);

/* ---- near.c: proximity placement groups ------------------------------------------------------ */
/* Name of the resource group and of the placement group in it, for a launch; NULL = none. */
const char *azure_near_lease(const struct azure *self, struct arena *a,
    const struct spot_launch *l);
const char *azure_near_path(const struct azure *self, struct arena *a, const char *lease);
enum spot_step azure_near_group_send(struct azure *self, struct spot_call *c,
    const struct spot_launch *l);
enum spot_step azure_near_send(struct azure *self, struct spot_call *c,
    const struct spot_launch *l);
enum spot_step azure_near_reply(struct spot_call *c, const char *what);

/* ---- vm_body.c, instances.c, lists.c --------------------------------------------------------- */
/* Resource group, machine and ref of a launch. */
const char *azure_lease(const struct azure *self, struct arena *a, const char *launch_name);
bool azure_lease_ok(const struct azure *self, const char *ref);
const char *azure_group_path(const struct azure *self, struct arena *a, const char *lease);
const char *azure_vm_path(const struct azure *self, struct arena *a, const char *lease);
enum spot_step azure_vm_body(struct azure *self, struct spot_call *c, const struct spot_launch *l,
    const char *lease, const char **ret);
const char *azure_group_body(struct spot_call *c, const struct spot_launch *l);
/* Reads one machine. False: it has no name or not the parts that a machine has. */
bool azure_instance_read(const struct azure *self, struct arena *a, const json_t *vm,
    struct spot_instance *ret);
/* "x" of ".../<kind>/x..." in an id, lower case; "" if it is not in it. */
const char *azure_id_part(struct arena *a, const char *id, const char *kind);
/* The code in the raw_reason of a machine that failed: "ProvisioningState/failed/<code>: words"; ""
 * if none. */
const char *azure_status_code(struct arena *a, const char *reason);
int64_t azure_time(const char *text); /* 0 if it does not parse */

/* ---- blob.c ---------------------------------------------------------------------------------- */
struct azure_sas {
	const char *endpoint, *path; /* path: container, or container/blob, not encoded */
	const char *resource; /* "b" or "c" */
	const char *permissions;
	int64_t expires_us;
};
enum spot_rc azure_sas_query(const struct azure *self, struct arena *a, const struct azure_sas *s,
    const char **ret, struct spot_err *err);

/* ---- attested_roots.txt, embedded ------------------------------------------------------------ */
extern const char azure_attested_roots[];

/* ---- the verbs ------------------------------------------------------------------------------- */
enum spot_step azure_auth(void *self, struct spot_call *c);
bool azure_auth_fresh(const void *self, int64_t now_us);
enum spot_step azure_whoami(void *self, struct spot_call *c, const char **ret_account);
enum spot_step azure_regions(void *self, struct spot_call *c, struct spot_regions *a);
enum spot_step azure_pools(void *self, struct spot_call *c, struct spot_pools *a);
enum spot_step azure_prices(void *self, struct spot_call *c, struct spot_prices *a);
enum spot_step azure_signals(void *self, struct spot_call *c, struct spot_signals *a);
enum spot_step azure_quotas(void *self, struct spot_call *c, struct spot_quotas *a);
enum spot_step azure_launch(void *self, struct spot_call *c, struct spot_launch *a);
enum spot_step azure_find(void *self, struct spot_call *c, struct spot_find *a);
enum spot_step azure_list(void *self, struct spot_call *c, struct spot_list *a);
enum spot_step azure_describe(void *self, struct spot_call *c, struct spot_describe *a);
enum spot_step azure_terminate(void *self, struct spot_call *c, struct spot_terminate *a);
enum spot_step azure_notices(void *self, struct spot_call *c, struct spot_notices *a);
enum spot_step azure_verify(void *self, struct spot_call *c, struct spot_verify *a);
enum spot_step azure_check(void *self, struct spot_call *c, struct spot_check *a);
enum spot_rc azure_presign(void *self, struct arena *arena, int64_t now_us, struct spot_presign *a,
    struct spot_err *err);

#endif
