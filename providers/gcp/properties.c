#include "base/base.h"
#include "gcp_priv.h"

/*
 * The properties of a machine, as instances.insert takes them. With bare names instead of paths,
 * bulkInsert's instanceProperties take the same
 * (docs.cloud.google.com/compute/docs/reference/rest/v1/instances/insert).
 */

#define IDENTITY_SCOPE "https://www.googleapis.com/auth/userinfo.email"
#define NOTICE_S "120" /* the one value besides 0 that is taken */
#define LABELS_MAX 64

/* Seconds and other int64 are strings in Google's JSON. */
static json_t *seconds_json(struct arena *a, int64_t s)
{
	return json_pack("{s:s}", "seconds", arena_printf(a, "%" PRId64, s));
}

static json_t *scheduling_json(const struct gcp *self, struct spot_call *c,
    const struct spot_launch *l, bool notice)
{
	bool spot = l->key.market == SPOT_MARKET_SPOT;
	bool flex = l->key.market == SPOT_MARKET_FLEX_START;
	int64_t run_s = flex ? gcp_flex_run_s(self) : self->run_hours * 3600;
	/* GPU machines cannot be moved, spot ones may not be started again. */
	json_t *o = json_pack("{s:s, s:b, s:s}", "provisioningModel",
	    spot       ? "SPOT"
		: flex ? "FLEX_START"
		       : "STANDARD",
	    "automaticRestart", 0, "onHostMaintenance", "TERMINATE");

	/* The default, STOP, leaves a machine behind whose disks go on costing money. */
	if (spot || run_s > 0) {
		json_object_set_new(o, "instanceTerminationAction", json_string("DELETE"));
	}
	if (run_s > 0) {
		json_object_set_new(o, "maxRunDuration", seconds_json(c->arena, run_s));
	}
	if (spot && notice) {
		json_object_set_new(o, "preemptionNoticeDuration",
		    json_pack("{s:s}", "seconds", NOTICE_S));
	}
	return o;
}

static json_t *labels_json(struct arena *a, const struct spot_launch *l, int64_t expires_us)
{
	json_t *o = json_pack("{s:s, s:s}", GCP_LABEL_INSTALL, gcp_label(a, l->install),
	    GCP_LABEL_TOKEN, gcp_label(a, l->token));

	if (expires_us > 0) {
		json_object_set_new(o, GCP_LABEL_EXPIRES,
		    json_string(arena_printf(a, "%" PRId64, expires_us / SPOT_US_PER_S)));
	}
	for (size_t i = 0; i < l->tags_n; i++) {
		const char *key = gcp_label_key(a, l->tags[i].key);

		if (json_object_get(o, key) == NULL && json_object_size(o) < LABELS_MAX) {
			json_object_set_new(o, key,
			    json_string(gcp_label_plain(a, l->tags[i].value)));
		}
	}
	return o;
}

static const char *image_url(const struct gcp *self, struct arena *a, const struct spot_launch *l)
{
	const char *at = strstr(self->image, "{arch}");

	if (at == NULL) {
		return self->image;
	}
	return arena_printf(a, "%.*s%s%s", (int)(at - self->image), self->image,
	    str_same(l->shape.arch, "arm64") ? "arm64" : "amd64", at + 6);
}

/* A3 and newer families and G4 boot from Hyperdisk; A2 and G2 know persistent disks only. */
static const char *disk_type(const struct gcp *self, const struct spot_launch *l)
{
	const char *type = l->key.instance_type;

	if (self->disk_type != NULL) {
		return self->disk_type;
	}
	return str_prefix(type, "a2-") || str_prefix(type, "g2-") || str_prefix(type, "n1-")
	    ? "pd-balanced"
	    : "hyperdisk-balanced";
}

static json_t *disk_json(const struct gcp *self, struct arena *a, const struct spot_launch *l,
    bool bulk, json_t *tags)
{
	const char *type = disk_type(self, l);

	if (!bulk) {
		type = arena_printf(a, "zones/%s/diskTypes/%s", l->key.zone, type);
	}
	return json_pack("{s:b, s:b, s:{s:s, s:s, s:s, s:O}}", "boot", 1, "autoDelete", 1,
	    "initializeParams", "sourceImage", image_url(self, a, l), "diskSizeGb",
	    arena_printf(a, "%" PRId64, self->disk_gib), "diskType", type, "labels", tags);
}

static json_t *network_json(const struct gcp *self, struct arena *a, const struct spot_launch *l)
{
	const char *sub = gcp_setting(self, arena_printf(a, "subnetwork.%s", l->key.region));
	json_t *o = json_pack("{s:s}", "nicType", "GVNIC");

	if (sub != NULL) {
		json_object_set_new(o, "subnetwork",
		    json_string(strchr(sub, '/') != NULL
			    ? sub
			    : arena_printf(a, "regions/%s/subnetworks/%s", l->key.region, sub)));
	} else {
		json_object_set_new(o, "network",
		    json_string(strchr(self->network, '/') != NULL
			    ? self->network
			    : arena_printf(a, "global/networks/%s", self->network)));
	}
	if (self->public_ip) {
		json_object_set_new(o, "accessConfigs",
		    json_pack("[{s:s, s:s, s:s}]", "type", "ONE_TO_ONE_NAT", "name", "External NAT",
			"networkTier", "PREMIUM"));
	}
	return o;
}

/* [{"acceleratorType","acceleratorCount"}] of what the machine type does not bundle. */
static json_t *guest_accelerators(struct arena *a, const struct spot_launch *l, bool bulk,
    const struct gcp_attached *t)
{
	const char *type = t->accelerator;

	if (!bulk) {
		type = arena_printf(a, "zones/%s/acceleratorTypes/%s", l->key.zone, type);
	}
	return json_pack("[{s:s, s:i}]", "acceleratorType", type, "acceleratorCount", t->count);
}

/* On demand takes open reservations without being asked (ANY_RESERVATION is the default). */
static json_t *affinity_json(const struct spot_launch *l, const char *reservation)
{
	if (l->key.market == SPOT_MARKET_RESERVED) {
		return json_pack("{s:s, s:s, s:[s]}", "consumeReservationType",
		    "SPECIFIC_RESERVATION", "key", GCP_RESERVATION_KEY, "values", reservation);
	}
	return json_pack("{s:s}", "consumeReservationType", "NO_RESERVATION");
}

json_t *gcp_properties(const struct gcp *self, struct spot_call *c, const struct spot_launch *l,
    int64_t expires_us, bool notice, bool bulk, const char *reservation)
{
	json_t *tags AUTO(json) = labels_json(c->arena, l, expires_us);
	json_t *o = json_pack("{s:O, s:o, s:[o], s:[o]}", "labels", tags, "scheduling",
	    scheduling_json(self, c, l, notice), "disks", disk_json(self, c->arena, l, bulk, tags),
	    "networkInterfaces", network_json(self, c->arena, l));
	struct gcp_attached t;

	if (gcp_attached(c->arena, l->key.instance_type, &t)) {
		json_object_set_new(o, "guestAccelerators",
		    guest_accelerators(c->arena, l, bulk, &t));
	}
	if ((self->reservations && l->key.market != SPOT_MARKET_SPOT) ||
	    l->key.market == SPOT_MARKET_FLEX_START) {
		json_object_set_new(o, "reservationAffinity", affinity_json(l, reservation));
	}
	if (gcp_policy_of(c->arena, l) != NULL) {
		json_object_set_new(o, "resourcePolicies",
		    json_pack("[s]",
			bulk ? gcp_policy_of(c->arena, l)
			     : arena_printf(c->arena, "projects/%s/regions/%s/resourcePolicies/%s",
				   self->project, l->key.region, gcp_policy_of(c->arena, l))));
	}
	/* A bare name for many: a path is answered with INTERNAL_ERROR. */
	json_object_set_new(o, "machineType",
	    json_string(bulk
		    ? t.machine
		    : arena_printf(c->arena, "zones/%s/machineTypes/%s", l->key.zone, t.machine)));
	/* With an identity the machine can prove who it is; the scope opens nothing but its own
	 * address. */
	if (strcmp(self->service_account, "none") != 0) {
		json_object_set_new(o, "serviceAccounts",
		    json_pack("[{s:s, s:[s]}]", "email", self->service_account, "scopes",
			IDENTITY_SCOPE));
	}
	if (l->user_data.n > 0) {
		json_object_set_new(o, "metadata",
		    json_pack("{s:[{s:s, s:o}]}", "items", "key", "startup-script", "value",
			json_stringn(l->user_data.p, l->user_data.n)));
	}
	return o;
}
