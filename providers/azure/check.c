#include "base/base.h"
#include "azure_priv.h"

/*
 * Checks a configuration before an operator trusts it. The vendor lists the permissions at the
 * subscription (learn.microsoft.com/rest/api/authorization/permissions), so nothing is created to
 * try them out. Placement scores and Resource Graph get one trial request each. The role of the
 * first hides its right behind a service of its own. The second builds its spot table from the
 * resources that an identity may read.
 */

#include <fnmatch.h>
#include <strings.h>

#define CLOCK_BAD_US (60 * SPOT_US_PER_S)

enum { SUBSCRIPTION = 0, PERMISSIONS, USAGES, SCORES, GRAPH, CONTAINERS, OVER };

struct usage {
	const char *name;
	int64_t used, limit;
};
struct checking {
	struct check_list found;
	struct usage *usages;
	size_t usages_n, usages_cap;
	bool *allowed;
	bool reserves; /* reservation_group of the region is set */
};

/* Needed only where reservation_group of the region is set. */
#define RESERVATIONS "reservations"

/* The action that each item needs (deploy/iam/azure-role.json). */
static const struct {
	const char *item, *action;
	const char *without; /* the loss without it */
} needs[] = {
	{ "launch", "Microsoft.Resources/subscriptions/resourceGroups/write",
	    "no machine can be launched" },
	{ "launch", "Microsoft.Compute/virtualMachines/write", "no machine can be launched" },
	{ "launch", "Microsoft.Network/networkInterfaces/write", "no machine can be launched" },
	{ "launch", "Microsoft.Network/publicIPAddresses/write",
	    "no machine with a public address can be launched" },
	{ "launch", "Microsoft.Network/virtualNetworks/subnets/join/action",
	    "no machine can be launched" },
	{ "launch", "Microsoft.Compute/disks/write", "no machine can be launched" },
	{ "terminate", "Microsoft.Resources/subscriptions/resourceGroups/delete",
	    "machines cannot be ended" },
	{ "terminate", "Microsoft.Compute/virtualMachines/delete", "machines cannot be ended" },
	{ "list", "Microsoft.Resources/subscriptions/resourceGroups/read",
	    "machines cannot be found again" },
	{ "list", "Microsoft.Compute/virtualMachines/read", "machines cannot be found again" },
	{ "market", "Microsoft.Compute/skus/read", "no pools are known" },
	{ "quotas", "Microsoft.Compute/locations/usages/read", "quotas are not known" },
	{ "placement", "Microsoft.Compute/proximityPlacementGroups/write",
	    "jobs with network_tier: best are refused" },
	{ RESERVATIONS, "Microsoft.Compute/capacityReservationGroups/capacityReservations/read",
	    "reserved capacity is not known" },
	{ RESERVATIONS, "Microsoft.Compute/capacityReservationGroups/deploy/action",
	    "no machine can be launched into a reservation" },
};

/* ---- subscription and clock ------------------------------------------------------------------ */

static enum spot_step subscription_reply(struct azure *self, struct spot_call *c,
    struct checking *k)
{
	json_t *doc AUTO(json) = NULL;
	enum spot_step s = azure_reply(c, "GET subscription", &doc);
	const char *state;

	if (s == SPOT_FAIL) {
		check_add_err(c, &k->found, "subscription", SPOT_CHECK_BAD,
		    "check the subscription's id, and give the identity a role on it "
		    "(deploy/iam/azure-role.json)");
		return SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	state = azure_text(doc, "state");
	if (strcasecmp(state, "Enabled") == 0 || *state == '\0') {
		check_add(c, &k->found, "subscription", SPOT_CHECK_OK,
		    arena_printf(c->arena, "%s (%.60s)", self->subscription,
			azure_text(doc, "displayName")),
		    "");
	} else {
		check_add(c, &k->found, "subscription", SPOT_CHECK_BAD,
		    arena_printf(c->arena, "it is %.40s", state), "enable the subscription");
	}
	return SPOT_STEP_NONE;
}

/* ---- permissions ----------------------------------------------------------------------------- */

static bool action_matches(const json_t *patterns, const char *action)
{
	for (size_t i = 0; i < json_array_size(patterns); i++) {
		const char *p = json_string_value(json_array_get(patterns, i));

		if (p != NULL && fnmatch(p, action, FNM_CASEFOLD) == 0) {
			return true;
		}
	}
	return false;
}

/* Each row is what one assignment grants: its actions less its own exceptions; rows add up. */
static enum spot_step permissions_reply(struct azure *self, struct spot_call *c, struct checking *k)
{
	static const char what[] = "GET permissions";
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = azure_reply(c, what, &doc);

	if (s == SPOT_FAIL) {
		check_add_err(c, &k->found, "permissions", SPOT_CHECK_UNTESTED,
		    "give the identity Microsoft.Authorization/permissions/read to have them "
		    "looked at");
		k->allowed = NULL;
		((struct call_state *)c->state)->next = NULL; /* the pages end here */
		return SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	rows = json_object_get(doc, "value");
	if (!json_is_array(rows)) {
		return azure_bad_reply(c, what, "no list of values in it");
	}
	for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
		for (size_t r = 0; r < json_array_size(rows); r++) {
			const json_t *row = json_array_get(rows, r);

			k->allowed[i] = k->allowed[i] ||
			    (action_matches(json_object_get(row, "actions"), needs[i].action) &&
				!action_matches(json_object_get(row, "notActions"),
				    needs[i].action));
		}
	}
	return azure_next_page(c->state, c, what, self->endpoint, azure_text(doc, "nextLink"));
}

static bool action_needed(const struct azure *self, const struct checking *k, size_t i)
{
	if (strcmp(needs[i].item, RESERVATIONS) == 0) {
		return k->reserves;
	}
	return self->public_ip || strstr(needs[i].action, "publicIPAddresses") == NULL;
}

static void permissions_judge(const struct azure *self, struct spot_call *c, struct checking *k)
{
	for (size_t i = 0; k->allowed != NULL && i < ARRAY_LEN(needs); i++) {
		bool last =
			 i + 1 == ARRAY_LEN(needs) || strcmp(needs[i].item, needs[i + 1].item) != 0,
		     good = true;

		if (!k->allowed[i] && action_needed(self, k, i)) {
			check_add(c, &k->found, needs[i].item, SPOT_CHECK_BAD,
			    arena_printf(c->arena, "%s is not permitted: %s", needs[i].action,
				needs[i].without),
			    "assign the role of deploy/iam/azure-role.json on the subscription");
		}
		if (!last) {
			continue;
		}
		for (size_t b = 0; b <= i; b++) {
			good = good &&
			    (strcmp(needs[b].item, needs[i].item) != 0 || k->allowed[b] ||
				!action_needed(self, k, b));
		}
		if (good && action_needed(self, k, i)) {
			check_add(c, &k->found, needs[i].item, SPOT_CHECK_OK, "permitted", "");
		}
	}
}

/* ---- quotas ---------------------------------------------------------------------------------- */

static enum spot_step usages_reply(struct azure *self, struct spot_call *c, struct checking *k)
{
	static const char what[] = "GET usages";
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = azure_reply(c, what, &doc);

	if (s == SPOT_FAIL) {
		c->err = (struct spot_err){ 0 };
		((struct call_state *)c->state)->next = NULL;
		return SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	rows = json_object_get(doc, "value");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		k->usages = arena_grow(c->arena, k->usages, k->usages_n, &k->usages_cap,
		    sizeof(*k->usages));
		k->usages[k->usages_n++] =
		    (struct usage){ azure_quota_class(c->arena,
					azure_text(json_object_get(row, "name"), "value")),
			    json_integer_value(json_object_get(row, "currentValue")),
			    json_integer_value(json_object_get(row, "limit")) };
	}
	return azure_next_page(c->state, c, what, self->endpoint, azure_text(doc, "nextLink"));
}

static void quota_judge(struct spot_call *c, struct checking *k, const struct spot_check *a,
    const struct spot_pool_info *p, const char *class)
{
	const char *name = arena_printf(c->arena, "quota %s %s", a->region, class);

	if (check_has(&k->found, name)) {
		return; /* once per class, for the first pool */
	}
	for (size_t i = 0; i < k->usages_n; i++) {
		const struct usage *u = &k->usages[i];
		bool enough = u->limit - u->used >= p->shape.vcpus;

		if (strcmp(u->name, class) != 0) {
			continue;
		}
		check_add(c, &k->found, name, enough ? SPOT_CHECK_OK : SPOT_CHECK_BAD,
		    arena_printf(c->arena, "%" PRId64 " of %" PRId64 " vCPUs used; one %s needs %d",
			u->used, u->limit, p->key.instance_type, (int)p->shape.vcpus),
		    enough ? ""
			   : "ask for more in the portal under Quotas (Compute), or with az "
			     "quota update");
		return;
	}
	check_add(c, &k->found, name, SPOT_CHECK_UNTESTED,
	    "the vendor lists no such quota in the region", "");
}

static void quotas_judge(struct spot_call *c, struct checking *k, const struct spot_check *a)
{
	for (size_t i = 0; i < a->pools_n; i++) {
		const struct spot_pool_info *p = &a->pools[i];

		if (!str_empty(a->region) && strcmp(p->key.region, a->region) != 0) {
			continue;
		}
		if (!str_empty(p->quota_class)) {
			quota_judge(c, k, a, p, p->quota_class);
		}
		/* On-demand needs room in its family and in the region's total. */
		if (p->key.market == SPOT_MARKET_ON_DEMAND) {
			quota_judge(c, k, a, p, "cores");
		}
	}
}

/* ---- placement scores, storage, settings ----------------------------------------------------- */

static enum spot_step scores_reply(struct spot_call *c, struct checking *k)
{
	enum spot_step s = azure_reply_plain(c, "placementScores");

	if (s == SPOT_STEP_NONE) {
		check_add(c, &k->found, "placement scores", SPOT_CHECK_OK, "permitted", "");
	} else if (s == SPOT_FAIL) {
		check_add_err(c, &k->found, "placement scores", SPOT_CHECK_WARN,
		    "assign the role Compute Recommendations, or set placement_scores = off");
		s = SPOT_STEP_NONE;
	}
	return s;
}

static enum spot_step graph_reply(struct spot_call *c, struct checking *k)
{
	enum spot_step s = azure_reply_plain(c, "POST ResourceGraph");

	if (s == SPOT_STEP_NONE) {
		check_add(c, &k->found, "resource graph", SPOT_CHECK_OK, "permitted", "");
	} else if (s == SPOT_FAIL) {
		check_add_err(c, &k->found, "resource graph", SPOT_CHECK_WARN,
		    "assign the role of deploy/iam/azure-role.json on the subscription: without "
		    "Microsoft.ResourceGraph/resources/read eviction rates and the past of "
		    "spot prices are not known");
		s = SPOT_STEP_NONE;
	}
	return s;
}

static enum spot_step containers_reply(struct azure *self, struct spot_call *c, struct checking *k)
{
	enum spot_step s = azure_reply_plain(c, "Blob service");

	if (s == SPOT_STEP_NONE) {
		check_add(c, &k->found, "object store", SPOT_CHECK_OK,
		    arena_printf(c->arena, "%s answers", self->storage_account), "");
	} else if (s == SPOT_FAIL || s == SPOT_REAUTH) {
		check_add_err(c, &k->found, "object store", SPOT_CHECK_BAD,
		    "give the identity Storage Blob Data Contributor on the storage account, "
		    "and let the account's network rules "
		    "admit this host");
		s = SPOT_STEP_NONE;
	}
	return s;
}

static void settings_judge(const struct azure *self, struct spot_call *c, struct checking *k,
    const struct spot_check *a)
{
	const char *key = arena_printf(c->arena, "subnet.%s", a->region);

	if (self->ssh_public_key == NULL) {
		check_add(c, &k->found, "ssh_public_key", SPOT_CHECK_BAD,
		    "it is not set: no machine can be launched",
		    "set it to the text of a public key");
	}
	if (!str_empty(a->region) && azure_setting(self, key) == NULL) {
		check_add(c, &k->found, key, SPOT_CHECK_BAD,
		    "it is not set: no machine can be launched in the region",
		    "set it to the id of a subnet there");
	}
}

/* ---- the frame ------------------------------------------------------------------------------- */

static enum spot_step containers_send(struct azure *self, struct spot_call *c)
{
	call_request(c, "GET",
	    arena_printf(c->arena, "%s/?comp=list&maxresults=1", self->blob_endpoint));
	call_header(c, "authorization",
	    arena_printf(c->arena, "Bearer %s", secret_reveal(&self->blob.value)));
	call_header(c, "x-ms-version", API_BLOB);
	c->limit = AZURE_LIMIT_BLOB;
	c->limit_cost = 1;
	c->limit_scope = "";
	c->mutating = false;
	return SPOT_SEND;
}

/* Is there anything to ask at this place? */
static bool question_applies(const struct azure *self, const struct spot_check *a, int at)
{
	switch (at) {
	case USAGES:
		return !str_empty(a->region);
	case SCORES:
		return !str_empty(a->region) && self->placement_scores;
	case GRAPH:
		return !str_empty(a->region);
	case CONTAINERS:
		return azure_blob_wanted(self) && secret_set(&self->blob.value);
	default:
		return at < OVER;
	}
}

static enum spot_step check_send(struct azure *self, struct spot_call *c,
    const struct spot_check *a)
{
	const struct call_state *st = c->state;
	struct azure_request r = { .what = "GET subscription",
		.method = "GET",
		.limit = AZURE_LIMIT_READ,
		.url = st->next };
	const char *sub = arena_printf(c->arena, "/subscriptions/%s", self->subscription);

	switch (st->at) {
	case PERMISSIONS:
		r.what = "GET permissions";
		r.path = arena_printf(c->arena,
		    "%s/providers/Microsoft.Authorization/permissions?api-version=" API_PERMISSIONS,
		    sub);
		break;
	case USAGES:
		r.what = "GET usages";
		r.path = arena_printf(c->arena,
		    "%s/providers/Microsoft.Compute/locations/%s/usages?api-version=" API_COMPUTE,
		    sub, a->region);
		break;
	case SCORES:
		r.what = "GET placementScores";
		r.limit = AZURE_LIMIT_PLACEMENT;
		r.path = arena_printf(c->arena,
		    "%s/providers/Microsoft.Compute/locations/%s/placementScores/"
		    "spot?api-version=" API_PLACEMENT,
		    sub, a->region);
		break;
	case GRAPH:
		return azure_graph_send(self, c,
		    "SpotResources | where type =~ "
		    "'microsoft.compute/skuspotevictionrate/location' "
		    "| project id | take 1");
	case CONTAINERS:
		return containers_send(self, c);
	default:
		r.path = arena_printf(c->arena, "%s?api-version=" API_LOCATIONS, sub);
		break;
	}
	return azure_send(self, c, &r);
}

static enum spot_step check_reply(struct azure *self, struct spot_call *c, struct checking *k)
{
	const struct call_state *st = c->state;

	switch (st->at) {
	case SUBSCRIPTION:
		check_clock(c, &k->found, CLOCK_BAD_US,
		    "tokens, signatures and lifetimes of addresses depend on it");
		return subscription_reply(self, c, k);
	case PERMISSIONS:
		return permissions_reply(self, c, k);
	case USAGES:
		return usages_reply(self, c, k);
	case SCORES:
		return scores_reply(c, k);
	case GRAPH:
		return graph_reply(c, k);
	default:
		return containers_reply(self, c, k);
	}
}

static void check_over(struct azure *self, struct spot_call *c, struct spot_check *a,
    struct checking *k)
{
	k->reserves =
	    azure_setting(self, arena_printf(c->arena, "reservation_group.%s", a->region)) != NULL;
	permissions_judge(self, c, k);
	if (!str_empty(a->region)) {
		quotas_judge(c, k, a);
	}
	settings_judge(self, c, k, a);
	if (self->storage_account != NULL && !azure_blob_wanted(self)) {
		check_add(c, &k->found, "object store", SPOT_CHECK_UNTESTED,
		    secret_set(&self->storage_key)
			? "an account key is set; it is tried when an object is"
			: "no account key yet",
		    "");
	}
	if (azure_blob_wanted(self) && !secret_set(&self->delegation.value)) {
		check_add(c, &k->found, "checkpoint addresses", SPOT_CHECK_BAD,
		    self->blob_refused[0] != '\0' ? arena_strdup(c->arena, self->blob_refused)
						  : "no user delegation key yet",
		    "give the identity Storage Blob Delegator and Storage Blob Data "
		    "Contributor on the storage account");
	}
	check_done(&k->found, a);
}

enum spot_step azure_check(void *p, struct spot_call *c, struct spot_check *a)
{
	struct azure *self = p;
	struct call_state *st = c->state;
	struct checking *k;
	enum spot_step s;

	if (st == NULL) {
		st = call_state_get(c, sizeof(*k));
		k = st->own;
		k->allowed = arena_array(c->arena, ARRAY_LEN(needs), sizeof(*k->allowed));
		check_add(c, &k->found, "credentials", SPOT_CHECK_OK,
		    "a token for the Resource Manager was had", "");
	}
	k = st->own;
	if (c->in != NULL) {
		s = check_reply(self, c, k);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (st->next == NULL) {
			st->at++;
		}
	}
	while (st->at < OVER && !question_applies(self, a, st->at)) {
		st->at++;
	}
	if (st->at < OVER) {
		return check_send(self, c, a);
	}
	check_over(self, c, a, k);
	return SPOT_DONE;
}
