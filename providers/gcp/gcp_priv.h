/*
 * Inside of the Google Cloud provider. One struct gcp per open provider instance: settings (read
 * once at open), the access token and the service account's key (changed by auth only). Steps keep
 * their place in struct call_state (arena memory of the call), not in c->at: the number of the
 * request that is out. So a step entered with c->in == NULL builds that request again, which is
 * what AGAIN and REAUTH want.
 *
 * An instance's ref is "zone/id" with the numeric id: names are used again, ids never, and a zone
 * is needed to address it. A leftover disk's ref is "zone/disks/id".
 */
#ifndef PROVIDERS_GCP_PRIV_H
#define PROVIDERS_GCP_PRIV_H

#include "base/base.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"

#define GCP_LABEL_INSTALL "spotbroker-install"
#define GCP_LABEL_TOKEN "spotbroker-token"
#define GCP_LABEL_EXPIRES "spotbroker-expires"
#define GCP_SCOPE "https://www.googleapis.com/auth/cloud-platform"
#define GCP_PAGES_MAX 2000
#define GCP_PAGE "maxResults=500"
/* 500 instances, each with 16 KiB of user data in its metadata */
#define GCP_LIST_BYTES_MAX ((size_t)32 << 20)
#define GCP_REFRESH_US (INT64_C(5) * 60 * SPOT_US_PER_S) /* google-auth-library: five minutes */
#define GCP_LABEL_MAX 64 /* 63 characters and the end */

/* Indexes into gcp_ops.limits, in the order of gcp_limits[]. */
enum gcp_limit {
	GCP_LIMIT_READ = 0,
	GCP_LIMIT_LIST,
	GCP_LIMIT_MUTATE,
	GCP_LIMIT_BULK,
	GCP_LIMIT_OPERATION,
	GCP_LIMIT_ADVICE,
	GCP_LIMIT_BILLING,
	GCP_LIMIT_QUOTAS,
	GCP_LIMIT_AUTH,
	GCP_LIMIT_METADATA,
	GCP_LIMIT_COUNT,
};

enum gcp_service {
	GCP_COMPUTE = 1,
	GCP_BILLING,
	GCP_OAUTH,
	GCP_STS,
	GCP_IAM,
	GCP_QUOTAS,
	GCP_STORAGE,
	GCP_PROJECTS,
	GCP_CERTS,
	GCP_SERVICE_COUNT
};

struct gcp {
	const char *name; /* provider instance name */
	struct spot_provider_conf conf; /* for subnetwork.<region>, looked up by region */
	struct arena *arena;
	const char *project;
	const char **regions;
	size_t regions_n; /* setting; 0 = all that the project has */
	const char *endpoint; /* NULL = the vendor's hosts */
	const char *credentials; /* file; NULL = environment, gcloud's file, metadata server */
	const char *network, *image, *service_account, *disk_type;
	const char *advice_version; /* "v1" or "beta"; "" = off */
	const char *bucket; /* for check only; NULL = none */
	int64_t disk_gib, advice_calls, run_hours;
	bool reservations; /* pools and launches of market reserved */
	bool flex_start; /* the same of market flex_start */
	int64_t flex_wait_s; /* how long an order may wait for capacity */
	bool public_ip, notice; /* notice: preemptionNoticeDuration is asked for */
	/* auth only */
	struct secret token, next, subject; /* in use; being fetched; to be exchanged */
	int64_t expires_us, next_expires_us;
	bool have_token;
	/* of a service account's key file, for signed URLs; NULL if there is none */
	struct rsa_key *key;
	char *email; /* the key's account */
	/* auth, and clock-skew correction */
	int64_t skew_us; /* vendor's clock minus ours */
	/* describe */
	size_t describe_first; /* whom the gets of one of many begin with */
};

struct gcp_request {
	enum gcp_service service;
	const char *method, *path; /* path with query */
	const char *what; /* "instances.insert", for messages */
	const char *body; /* JSON, NULL = none */
	enum gcp_limit limit;
	const char *scope; /* of the limit; NULL = "" */
	bool mutating, no_token;
	int64_t timeout_us;
	size_t reply_bytes_max;
};

/* ---- gcp.c, settings.c ----------------------------------------------------------------------- */
const char *gcp_setting(const struct gcp *self, const char *key); /* NULL if unset or "" */
const char *gcp_env(const struct gcp *self, const char *name); /* NULL if unset or "" */
enum spot_rc gcp_settings_read(struct gcp *self, struct spot_err *err);
bool gcp_url_ok(const char *url); /* http:// or https://, no user, no blanks, at most 500 bytes */
const char *gcp_base(const struct gcp *self, enum gcp_service s);
/* url as a credentials file gives it; with `endpoint` set, Google's hosts are replaced by it. */
const char *gcp_rebase(const struct gcp *self, struct arena *a, const char *url);
bool gcp_region_wanted(const struct gcp *self, const char *region);

/* ---- names.c: places, names, labels ---------------------------------------------------------- */
bool gcp_zone_ok(const char *zone); /* "us-central1-ai1a": goes into paths */
bool gcp_name_ok(const char *name); /* [a-z]([-a-z0-9]*[a-z0-9])?, at most 63 */
bool gcp_id_ok(const char *id); /* digits */
/* Up to the last dash: AI zones have longer suffixes than one letter (LocationPolicy). */
const char *gcp_zone_region(struct arena *a, const char *zone);
const char *gcp_last(const char *link); /* last path segment of a link or name */
/* A name for the VM made from ours, which is used once: the same for the same. */
const char *gcp_vm_name(struct arena *a, const char *name);
/* A label's value for text: same text, same value; short plain text can be read back. */
const char *gcp_label(struct arena *a, const char *text);
const char *gcp_unlabel(struct arena *a, const char *label);
const char *gcp_label_plain(struct arena *a, const char *text);
const char *gcp_label_key(struct arena *a, const char *key);
const char *gcp_uuid(struct arena *a, const char *token); /* requestId */
/* "zone/id" and "zone/disks/id"; false: not a ref of ours. */
bool gcp_ref_read(struct arena *a, const char *ref, const char **ret_zone, const char **ret_id,
    bool *ret_disk);
int64_t gcp_time(const char *text); /* 0 if it does not parse */

/* ---- http.c ---------------------------------------------------------------------------------- */
enum spot_step gcp_send(struct gcp *self, struct spot_call *c, const struct gcp_request *r);
/* Reads the reply in c->in. SPOT_STEP_NONE: *ret is an object of this kind (NULL = any), owned by
 * the caller; else the step's verdict. */
enum spot_step gcp_reply(struct gcp *self, struct spot_call *c, const char *what, const char *kind,
    json_t **ret);
/* BAD_REPLY, or UNKNOWN where the request may have had an effect. */
#define gcp_bad_reply(c, what, ...) call_bad_reply(c, "gcp", what, __VA_ARGS__)
/* Takes nextPageToken over: true = there is another page to ask for; *ret_step: NONE or the
 * verdict. */
bool gcp_next_page(struct spot_call *c, const char *what, const json_t *doc,
    enum spot_step *ret_step);
/* "&pageToken=..." of the page to ask for, "" for the first. */
const char *gcp_page(struct spot_call *c);
/* An integer that may be JSON number or string (int64 in Google's JSON mapping); dflt if absent,
 * bad set if neither. */
int64_t gcp_int(const json_t *o, const char *key, int64_t dflt, bool *bad);
/* A string member; "" if absent; copied into the arena. bad set if it is something else. */
const char *gcp_str(struct arena *a, const json_t *o, const char *key, bool *bad);
/* The same of an id, which may be a number too. */
const char *gcp_id(struct arena *a, const json_t *o, const char *key, bool *bad);
/* A double that may be JSON number or string; 0 if absent. False: neither. */
bool gcp_double(const json_t *v, double *ret);
/* Money {units, nanos} to nano-dollars; false: not USD, negative, absurd. */
bool gcp_money(const json_t *m, int64_t *ret_nanos);
int64_t gcp_micros(int64_t nanos);

/* ---- errors.c -------------------------------------------------------------------------------- */
enum gcp_how { GCP_FAIL = 1, GCP_AGAIN, GCP_MINUTE, GCP_REAUTH };
struct gcp_code {
	/* compared without case and underscores: quotaExceeded is QUOTA_EXCEEDED */
	const char *code;
	enum spot_rc rc;
	enum gcp_how how;
	/* of several errors the highest counts: quota beats capacity beats the rest */
	int rank;
	const char *scope; /* the thing that is empty, full or wrong: for people */
	enum spot_scope rests;
};
extern const struct gcp_code gcp_codes[];
extern const size_t gcp_codes_n;
const struct gcp_code *gcp_code_find(const char *code, const char *message);
bool gcp_code_is(const char *code, const char *name);
/* Code and message of an error reply, "" if it has none; copied into the arena. */
void gcp_error_read(struct spot_call *c, const char **ret_code, const char **ret_message);
enum spot_step gcp_error(struct gcp *self, struct spot_call *c, const char *what);
/* An operation that is DONE: by its error, or by the HTTP status alone. */
bool gcp_operation_failed(const json_t *op);
/* Verdict for a failed operation. */
enum spot_step gcp_operation_error(struct spot_call *c, const char *what, const json_t *op);
/* The error of the list that counts: NULL if the list is empty. */
const json_t *gcp_error_worst(const json_t *errors, const struct gcp_code **ret_code);
int64_t gcp_minute_us(int64_t now_us, uint64_t rnd);

/* ---- instances.c ----------------------------------------------------------------------------- */
/* Reads one instance; false: something is missing or of another type. */
bool gcp_instance_read(const struct gcp *self, struct spot_call *c, const json_t *item,
    struct spot_instance *ret);
/* True if something of this list could not be looked at where we look: absence proves nothing. */
bool gcp_unreached(const json_t *doc, const char *region, const char *zone);
/* matches objects with the installation's label */
const char *gcp_filter_mine(struct arena *a, const char *install);
/* Google's own words for "there is none"; a 404 of something else is no proof. */
bool gcp_ref_gone(struct spot_call *c);
/* Fills a->after. */
void gcp_terminate_after(const struct gcp *self, struct spot_terminate *a, const char *region,
    const char *zone, enum spot_instance_state state, const char *raw);
/* A 404 that is no proof: the project or the zone is not there for us. NOT_FOUND would be read as
 * "gone". */
enum spot_step gcp_not_there(struct spot_call *c, enum spot_step s);

/* ---- launch.c -------------------------------------------------------------------------------- */
enum spot_step gcp_launch_check(const struct gcp *self, struct spot_call *c,
    const struct spot_launch *l);
/* {"scheduling":..., "disks":..., ...} without name. bulk: as instanceProperties. reservation: of
 * market reserved. */
json_t *gcp_properties(const struct gcp *self, struct spot_call *c, const struct spot_launch *l,
    int64_t expires_us, bool notice, bool bulk, const char *reservation);
bool gcp_notice_refused(struct spot_call *c);
bool gcp_taken(struct spot_call *c); /* 409: a machine of this name is there */
/* POST .../operations/{name}/wait. */
enum spot_step gcp_wait_send(struct gcp *self, struct spot_call *c, const char *zone,
    const char *operation);

/* ---- policy.c: compact placement ------------------------------------------------------------- */
/* The making of a launch's policy: one call of several requests. Begins as zeros. */
struct gcp_policy {
	int at, waits;
	const char *operation;
};
/* The policy that a launch goes into; NULL = none. */
const char *gcp_policy_of(struct arena *a, const struct spot_launch *l);
/* The description of the installation's policies, which have no labels. */
const char *gcp_policy_about(struct arena *a, const char *install);
/* NONE: the policy is there. */
enum spot_step gcp_policy_make(struct gcp *self, struct spot_call *c, const struct spot_launch *l,
    struct gcp_policy *p);
/* Reads a policy of a list as a leftover. False: it is not ours, or not ready. */
bool gcp_policy_read(const struct gcp *self, struct spot_call *c, const json_t *item,
    const char *install, struct spot_instance *ret);
bool gcp_policy_ref(const char *ref);
enum spot_step gcp_policy_delete(struct gcp *self, struct spot_call *c, struct spot_terminate *a);

/* ---- pools.c --------------------------------------------------------------------------------- */
struct gcp_type { /* a machine type as the vendor describes it */
	const char *name, *zone;
	struct spot_shape shape;
	const char *accelerator; /* NULL: an N1 host, which has none of its own */
	int32_t ssds; /* of 375 GiB */
};
struct gcp_types {
	struct gcp_type *list;
	size_t n, cap, hosts_n; /* hosts are among the first hosts_n */
};
enum spot_step gcp_types_send(struct gcp *self, struct spot_call *c);
enum spot_step gcp_types_reply(struct gcp *self, struct spot_call *c, struct gcp_types *t,
    bool *ret_more);
bool gcp_deprecated(const json_t *item);
bool gcp_sold_on_demand(const char *type);
bool gcp_sold_queued(const char *type); /* flex-start */
const char *gcp_quota_class(struct arena *a, const char *accelerator, enum spot_market market);

/* ---- attached.c: GPUs beside the machine type (N1) ------------------------------------------- */
struct gcp_attached {
	const char *machine; /* the whole name, where nothing is attached */
	const char *accelerator;
	int count;
};
/* "n1-standard-8+nvidia-tesla-t4x1"; false: nothing is attached, or it is no name of ours. */
bool gcp_attached(struct arena *a, const char *type, struct gcp_attached *ret);
const char *gcp_attached_name(struct arena *a, const char *machine, const char *accelerator,
    int64_t count);
bool gcp_attached_type(struct arena *a, const struct gcp_type *host,
    const struct gcp_attached *what, struct gcp_type *ret);
bool gcp_host(const char *machine);
enum spot_step gcp_accelerators_send(struct gcp *self, struct spot_call *c);
/* Adds what the hosts of t can be made into. */
enum spot_step gcp_accelerators_reply(struct gcp *self, struct spot_call *c, struct gcp_types *t,
    bool *ret_more);

/* ---- reserved.c ------------------------------------------------------------------------------ */
#define GCP_RESERVATION_KEY "compute.googleapis.com/reservation-name"
#define GCP_RESERVATIONS "reservations.aggregatedList" /* the source of prices and signals */
struct gcp_reservation {
	const char *name, *zone, *type; /* type: as of the pool */
	int64_t total, used, free;
	int64_t ends_us; /* it is deleted then; 0 = never */
};
struct gcp_reservations {
	struct gcp_reservation *list;
	size_t n, cap;
};
enum spot_step gcp_reservations_send(struct gcp *self, struct spot_call *c);
/* Adds the reservations of a page that our machines can run in. */
enum spot_step gcp_reservations_reply(struct gcp *self, struct spot_call *c,
    struct gcp_reservations *x, bool *ret_more);
/* The one that a launch of so many takes: what ends last, then the smallest name. NULL: none has
 * room. */
const struct gcp_reservation *gcp_reservation_for(const struct gcp_reservations *x,
    const struct spot_pool_key *k, int64_t count, int64_t now_us);
/* A page, before a launch. *ret: the name, once all pages came. */
enum spot_step gcp_reservation_reply(struct gcp *self, struct spot_call *c,
    const struct spot_launch *l, size_t count, struct gcp_reservations *x, const char **ret);

/* ---- flex.c ---------------------------------------------------------------------------------- */
int64_t gcp_flex_run_s(const struct gcp *self); /* the time that a machine may run */
/* Adds what only a flex-start machine has to the body of an insert. */
void gcp_flex_body(const struct gcp *self, struct arena *a, json_t *doc);
/* One that is in the queue longer than it may be: a refusal. */
void gcp_flex_overdue(const struct gcp *self, struct spot_call *c, struct spot_instance *i);
/* When Google ends the machine; 0 = it has not begun, or is none of these. */
int64_t gcp_flex_ends_us(struct spot_call *c, const json_t *instance);

/* ---- gpus.c ---------------------------------------------------------------------------------- */
struct gcp_gpu {
	const char *accelerator; /* "nvidia-h100-80gb" */
	const char *ours; /* name of our catalogue */
	int32_t mem_mib;
	const char *metric; /* regional quota NVIDIA_<metric>_GPUS; "" = none */
	const char *family; /* gpu_family of Cloud Quotas */
};
extern const struct gcp_gpu gcp_gpus[];
extern const size_t gcp_gpus_n;
const struct gcp_gpu *gcp_gpu_find(const char *accelerator);

/* ---- skus.c ---------------------------------------------------------------------------------- */
/* How a machine is bought. */
enum gcp_sale { GCP_STANDARD = 0, GCP_SPOT, GCP_FLEX };
struct gcp_skus; /* prices of parts, by region */
struct gcp_skus *gcp_skus_new(struct arena *a);
/* Takes one SKU of the catalog if it is a part we compose from. False: it is malformed. */
bool gcp_sku_take(struct gcp_skus *s, struct arena *a, const json_t *sku, int64_t now_us);
/* Price of a type in a region, composed; false: a part is missing. */
bool gcp_price_compose(const struct gcp_skus *s, const struct gcp_type *t, const char *region,
    enum gcp_sale sale, int64_t *ret_micros, int64_t *ret_effective_us);

/* ---- advice.c -------------------------------------------------------------------------------- */
enum spot_step gcp_advice_send(struct gcp *self, struct spot_call *c, const char *version,
    const char *region, const char *method, json_t *body);
/* Pairs of region and type among spot pools. */
struct gcp_pair {
	const char *region, *type;
};
size_t gcp_pairs(struct arena *a, const struct spot_pool_info *pools, size_t n, const char *region,
    struct gcp_pair **ret);

/* ---- the verbs ------------------------------------------------------------------------------- */
enum spot_step gcp_auth(void *self, struct spot_call *c);
bool gcp_auth_fresh(const void *self, int64_t now_us);
enum spot_step gcp_whoami(void *self, struct spot_call *c, const char **ret_account);
enum spot_step gcp_list_regions(void *self, struct spot_call *c, struct spot_regions *a);
enum spot_step gcp_pools(void *self, struct spot_call *c, struct spot_pools *a);
enum spot_step gcp_prices(void *self, struct spot_call *c, struct spot_prices *a);
enum spot_step gcp_signals(void *self, struct spot_call *c, struct spot_signals *a);
enum spot_step gcp_quotas(void *self, struct spot_call *c, struct spot_quotas *a);
enum spot_step gcp_launch(void *self, struct spot_call *c, struct spot_launch *a);
enum spot_step gcp_launch_gang(void *self, struct spot_call *c, struct spot_launch_gang *a);
enum spot_step gcp_find(void *self, struct spot_call *c, struct spot_find *a);
enum spot_step gcp_list(void *self, struct spot_call *c, struct spot_list *a);
enum spot_step gcp_describe(void *self, struct spot_call *c, struct spot_describe *a);
enum spot_step gcp_terminate(void *self, struct spot_call *c, struct spot_terminate *a);
enum spot_step gcp_notices(void *self, struct spot_call *c, struct spot_notices *a);
enum spot_step gcp_verify(void *self, struct spot_call *c, struct spot_verify *a);
enum spot_step gcp_check(void *self, struct spot_call *c, struct spot_check *a);
enum spot_rc gcp_presign(void *self, struct arena *arena, int64_t now_us, struct spot_presign *a,
    struct spot_err *err);

/* ---- creds.c and creds_file.c: the credential chain ------------------------------------------ */
/* auth is one call. creds.c runs it and sends the requests; creds_file.c reads the file. */
enum creds_kind { CREDS_NONE = 0, CREDS_KEY, CREDS_USER, CREDS_EXTERNAL, CREDS_METADATA };

#define CREDS_HEADERS 8

/* One run of auth. */
struct auth {
	enum creds_kind kind;
	bool optional, resynced; /* optional: nobody named the file; it may be absent */
	const char *path;
	const char *token_uri, *key_id; /* CREDS_KEY */
	const char *client_id, *client_secret, *refresh_token; /* CREDS_USER */
	const char *audience, *subject_type, *token_url; /* CREDS_EXTERNAL */
	const char *subject_file, *subject_url, *subject_field; /* field: NULL = the whole text */
	struct spot_header headers[CREDS_HEADERS];
	size_t headers_n;
	const char *impersonate_url; /* NULL = not */
};

/* Reads the credentials file in c->in into a; for a service account's key also self->key and
 * self->email. */
enum spot_step creds_file_read(struct gcp *self, struct spot_call *c, struct auth *a);
/* A token becomes a header: printable, at most 16 KiB. */
bool creds_token_ok(const char *p, size_t n);

#endif
