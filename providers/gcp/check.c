#include "base/base.h"
#include "gcp_priv.h"

/*
 * Checks a configuration before an operator trusts it. Nothing is created.
 * projects.testIamPermissions tells the permissions
 * (docs.cloud.google.com/resource-manager/reference/rest/v1/projects/testIamPermissions),
 * storage.buckets.testIamPermissions those of the bucket. The clock is compared with the Date of
 * the replies.
 */

#define CLOCK_BAD_US (60 * SPOT_US_PER_S)
#define RESERVED "reservations" /* needed only with reservations = on */
#define TOGETHER "jobs with network_tier: best are refused, or their placement policies stay"
#define ADVICE "Google's odds of launches and preemptions and the past of prices are left out"

/* Verb by verb: a verb is fine if all of its permissions are held. without: what is missing then is
 * only that. */
static const struct {
	const char *verb, *permission, *without;
} needs[] = {
	{ "regions", "compute.regions.list" },
	{ "pools", "compute.machineTypes.list" },
	{ "attached GPUs", "compute.acceleratorTypes.list",
	    "N1 machines with T4, P4, V100 or P100 are left out" },
	{ RESERVED, "compute.reservations.list" },
	{ "launch", "compute.instances.create" },
	{ "launch", "compute.disks.create" },
	{ "launch", "compute.subnetworks.use" },
	{ "launch", "compute.instances.setMetadata" },
	{ "launch", "compute.instances.setLabels" },
	{ "launch", "compute.zoneOperations.get" },
	{ "list", "compute.instances.list" },
	{ "list", "compute.disks.list" },
	{ "describe", "compute.instances.get" },
	{ "terminate", "compute.instances.delete" },
	{ "terminate", "compute.disks.delete" },
	{ "notices", "compute.globalOperations.list" },
	{ "notices", "compute.zoneOperations.list" },
	{ "quotas", "compute.projects.get" },
	{ "placement", "compute.resourcePolicies.create", TOGETHER },
	{ "placement", "compute.resourcePolicies.get", TOGETHER },
	{ "placement", "compute.resourcePolicies.use", TOGETHER },
	{ "placement", "compute.resourcePolicies.list", TOGETHER },
	{ "placement", "compute.resourcePolicies.delete", TOGETHER },
	{ "placement", "compute.regionOperations.get", TOGETHER },
	{ "spot advice", "compute.advice.capacity", ADVICE },
	{ "spot advice", "compute.advice.capacityHistory", ADVICE },
};
static const char *const bucket_needs[] = { "storage.objects.create", "storage.objects.get",
	"storage.objects.delete" };

enum { PROJECT = 0, PERMISSIONS, BUCKET, QUOTAS, OVER };

struct checking {
	struct check_list found;
	struct spot_call inner; /* of the quotas verb */
	struct spot_quotas quotas;
	bool inner_on;
};

static bool need_counts(const struct gcp *self, size_t i)
{
	return self->reservations || strcmp(needs[i].verb, RESERVED) != 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum spot_step permissions_send(struct gcp *self, struct spot_call *c)
{
	json_t *list = json_array(), *doc AUTO(json) = json_pack("{s:o}", "permissions", list);
	struct gcp_request r = { .service = GCP_PROJECTS,
		.method = "POST",
		.what = "projects.testIamPermissions",
		.path = arena_printf(c->arena, "/v1/projects/%s:testIamPermissions", self->project),
		.limit = GCP_LIMIT_AUTH };

	for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
		if (need_counts(self, i)) {
			json_array_append_new(list, json_string(needs[i].permission));
		}
	}
	r.body = json_text(c->arena, doc);
	return gcp_send(self, c, &r);
}

static enum spot_step bucket_send(struct gcp *self, struct spot_call *c)
{
	struct gcp_request r = { .service = GCP_STORAGE,
		.method = "GET",
		.what = "buckets.testIamPermissions",
		.limit = GCP_LIMIT_AUTH };
	const char *query = "";

	for (size_t i = 0; i < ARRAY_LEN(bucket_needs); i++) {
		query = arena_printf(c->arena, "%s%spermissions=%s", query, i > 0 ? "&" : "",
		    bucket_needs[i]);
	}
	r.path = arena_printf(c->arena, "/storage/v1/b/%s/iam/testPermissions?%s",
	    url_encode(c->arena, self->bucket, false), query);
	return gcp_send(self, c, &r);
}

static enum spot_step project_send(struct gcp *self, struct spot_call *c)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = "projects.get",
		.path = arena_printf(c->arena, "/compute/v1/projects/%s", self->project),
		.limit = GCP_LIMIT_READ };

	return gcp_send(self, c, &r);
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Adds the failure of a request as a finding. The check goes on, so passing faults become findings
 * too. */
static enum spot_step finding_add(struct spot_call *c, struct checking *x, enum spot_step s,
    const char *name, const char *fix)
{
	if (s == SPOT_AGAIN || s == SPOT_REAUTH) {
		return s;
	}
	check_add_err(c, &x->found, name, SPOT_CHECK_BAD, fix);
	return SPOT_STEP_NONE;
}

static enum spot_step project_reply(struct gcp *self, struct spot_call *c, struct checking *x)
{
	json_t *doc AUTO(json) = NULL;
	enum spot_step s = gcp_reply(self, c, "projects.get", "compute#project", &doc);

	if (s == SPOT_AGAIN || s == SPOT_REAUTH) {
		return s;
	}
	check_clock(c, &x->found, CLOCK_BAD_US,
	    "signed tokens and URLs are refused when it is off");
	if (s != SPOT_STEP_NONE) {
		return finding_add(c, x, s, "project",
		    "enable the Compute Engine API in the project and give the account the role of "
		    "deploy/iam/gcp-role.yaml");
	}
	check_add(c, &x->found, "credentials", SPOT_CHECK_OK,
	    self->email != NULL ? self->email : "an access token without a key of its own", "");
	check_add(c, &x->found, "project", SPOT_CHECK_OK, self->project, "");
	if (self->key == NULL) {
		check_add(c, &x->found, "signed URLs", SPOT_CHECK_WARN,
		    "the credentials hold no private key",
		    "to keep checkpoints in Cloud Storage set credentials to a service account's "
		    "key file");
	} else {
		check_add(c, &x->found, "signed URLs", SPOT_CHECK_OK,
		    "signed with the service account's key", "");
	}
	return SPOT_STEP_NONE;
}

static bool permission_held(const json_t *list, const char *permission)
{
	const json_t *v;
	size_t i;

	json_array_foreach (list, i, v) {
		if (str_same(json_string_value(v), permission)) {
			return true;
		}
	}
	return false;
}

static enum spot_step permissions_reply(struct gcp *self, struct spot_call *c, struct checking *x)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *list;
	enum spot_step s = gcp_reply(self, c, "projects.testIamPermissions", NULL, &doc);

	if (s == SPOT_AGAIN || s == SPOT_REAUTH) {
		return s;
	}
	list = json_object_get(doc, "permissions");
	for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
		const char *verb = needs[i].verb, *without = needs[i].without, *missing = "";

		if ((i > 0 && strcmp(needs[i - 1].verb, verb) == 0) || !need_counts(self, i)) {
			continue;
		}
		for (size_t k = i; k < ARRAY_LEN(needs) && strcmp(needs[k].verb, verb) == 0; k++) {
			if (!permission_held(list, needs[k].permission)) {
				missing =
				    arena_printf(c->arena, "%s %s", missing, needs[k].permission);
			}
		}
		if (s != SPOT_STEP_NONE) {
			check_add(c, &x->found, verb, SPOT_CHECK_UNTESTED, c->err.text,
			    "enable the Cloud Resource Manager API");
		} else if (*missing == '\0') {
			check_add(c, &x->found, verb, SPOT_CHECK_OK, "permitted", "");
		} else {
			check_add(c, &x->found, verb,
			    without != NULL ? SPOT_CHECK_WARN : SPOT_CHECK_BAD,
			    arena_printf(c->arena, "not permitted:%s%s%s", missing,
				without != NULL ? "; " : "", without != NULL ? without : ""),
			    "give the account the role of deploy/iam/gcp-role.yaml");
		}
	}
	return SPOT_STEP_NONE;
}

static enum spot_step bucket_reply(struct gcp *self, struct spot_call *c, struct checking *x)
{
	json_t *doc AUTO(json) = NULL;
	const char *missing = "";
	enum spot_step s = gcp_reply(self, c, "buckets.testIamPermissions",
	    "storage#testIamPermissionsResponse", &doc);

	if (s != SPOT_STEP_NONE) {
		return finding_add(c, x, s, "bucket",
		    "check the bucket's name, and that the account may use it");
	}
	for (size_t i = 0; i < ARRAY_LEN(bucket_needs); i++) {
		if (!permission_held(json_object_get(doc, "permissions"), bucket_needs[i])) {
			missing = arena_printf(c->arena, "%s %s", missing, bucket_needs[i]);
		}
	}
	if (*missing == '\0') {
		check_add(c, &x->found, "bucket", SPOT_CHECK_OK, self->bucket, "");
	} else {
		check_add(c, &x->found, "bucket", SPOT_CHECK_BAD,
		    arena_printf(c->arena, "%s: not permitted:%s", self->bucket, missing),
		    "give the account roles/storage.objectUser on the bucket");
	}
	return SPOT_STEP_NONE;
}

/* ---- quotas ---------------------------------------------------------------------------------- */

/* The quotas verb inside of this one: its state is its own. */
static enum spot_step quotas_step(struct gcp *self, struct spot_call *c, struct spot_check *a,
    struct checking *x)
{
	void *state = c->state;
	enum spot_step s;

	x->quotas.region = a->region;
	c->state = x->inner.state;
	s = gcp_quotas(self, c, &x->quotas);
	x->inner.state = c->state;
	c->state = state;
	return s;
}

static void pool_check(struct spot_call *c, struct checking *x, const struct spot_pool_info *pool)
{
	const char *name = arena_printf(c->arena, "quota %s in %s",
	    pool->quota_class != NULL ? pool->quota_class : "", pool->key.region);
	int64_t gpus = (pool->shape.gpu_milli + 999) / 1000;

	if (check_has(&x->found, name)) {
		return; /* once per class, for the first pool */
	}
	for (size_t i = 0; i < x->quotas.n; i++) {
		const struct spot_quota *q = &x->quotas.quotas[i];

		if (!str_same(q->class, pool->quota_class) ||
		    !str_same(q->region, pool->key.region)) {
			continue;
		}
		if (q->limit < 0) {
			check_add(c, &x->found, name, SPOT_CHECK_WARN, "Google lists no limit",
			    "look at IAM & Admin, Quotas");
		} else {
			check_add(c, &x->found, name,
			    q->limit >= gpus ? SPOT_CHECK_OK : SPOT_CHECK_BAD,
			    arena_printf(c->arena, "%" PRId64 " GPUs", q->limit),
			    q->limit >= gpus ? "" : "ask for more: IAM & Admin, Quotas");
		}
		return;
	}
	check_add(c, &x->found, name, SPOT_CHECK_UNTESTED, "Google lists no such quota", "");
}

/* ---- the verb -------------------------------------------------------------------------------- */

static enum spot_step check_reply(struct gcp *self, struct spot_call *c, struct checking *x)
{
	struct call_state *st = c->state;
	enum spot_step s = st->at == PROJECT ? project_reply(self, c, x)
	    : st->at == PERMISSIONS          ? permissions_reply(self, c, x)
					     : bucket_reply(self, c, x);

	if (s == SPOT_STEP_NONE) {
		st->at++;
	}
	return s;
}

static enum spot_step check_quotas(struct gcp *self, struct spot_call *c, struct spot_check *a,
    struct checking *x)
{
	enum spot_step s = a->pools_n > 0 ? quotas_step(self, c, a, x) : SPOT_DONE;

	if (s == SPOT_FAIL) {
		check_add_err(c, &x->found, "quotas", SPOT_CHECK_BAD, "");
	} else if (s != SPOT_DONE) {
		return s;
	}
	for (size_t i = 0; s == SPOT_DONE && i < a->pools_n; i++) {
		pool_check(c, x, &a->pools[i]);
	}
	check_done(&x->found, a);
	return SPOT_DONE;
}

enum spot_step gcp_check(void *p, struct spot_call *c, struct spot_check *a)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct checking));
	struct checking *x = st->own;

	if (c->in != NULL && st->at < QUOTAS) {
		enum spot_step s = check_reply(self, c, x);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
		c->in = NULL; /* of the quotas verb nothing is out yet */
	}
	if (st->at == BUCKET && self->bucket == NULL) {
		st->at = QUOTAS;
	}
	if (st->at == PROJECT) {
		return project_send(self, c);
	}
	if (st->at == PERMISSIONS) {
		return permissions_send(self, c);
	}
	if (st->at == BUCKET) {
		return bucket_send(self, c);
	}
	return check_quotas(self, c, a, x);
}
