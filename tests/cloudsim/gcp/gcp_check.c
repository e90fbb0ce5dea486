/* Immediate refusals of instances.insert and bulkInsert (400, 404): fields, names, combinations. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#include <ctype.h>

#define METADATA_VALUE_MAX ((size_t)256 << 10)
#define METADATA_MAX ((size_t)512 << 10)

bool gcp_name_valid(const char *name)
{
	size_t n = name ? strlen(name) : 0;

	return n >= 1 && n <= 63 && name[0] >= 'a' && name[0] <= 'z' && name[n - 1] != '-' &&
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static bool invalid_fail(struct gcp_call *c, const char *field, const char *value, const char *why)
{
	gcp_fail(c, 400, "invalid", "Invalid value for field 'resource.%s': '%s'. %s", field,
	    value ? value : "", why);
	return false;
}

static bool required_fail(struct gcp_call *c, const char *field)
{
	gcp_fail(c, 400, "required", "Required field 'resource.%s' not specified", field);
	return false;
}

/* "zones/z/kind/name", also with projects/p/ and a host before; NULL: not of that form. */
static const char *zonal_name(struct gcp_call *c, const char *url, const char *kind,
    const char *zone)
{
	const char *want = arena_printf(c->a, "zones/%s/%s/", zone, kind),
		   *p = strstr(url, "zones/");

	if (!p || !str_prefix(p, want) || !p[strlen(want)] || strchr(p + strlen(want), '/')) {
		return NULL;
	}
	return p + strlen(want);
}

/* ---- labels, metadata ------------------------------------------------------------------------ */

static bool label_text(const char *t, bool key)
{
	size_t n = strlen(t);

	/* Letters of other alphabets are allowed and are all one here. */
	return n <= 63 && (!key || (n > 0 && ((t[0] >= 'a' && t[0] <= 'z') || (t[0] & 0x80)))) &&
	    strcspn(t,
		" !\"#$%&'()*+,./:;<=>?@[\\]^`{|}~\t\r\n"
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ") == n;
}

static bool check_labels(struct gcp_call *c, const json_t *labels)
{
	json_t *map = (json_t *)(uintptr_t)labels; /* jansson iterates without const */
	const char *key;
	json_t *v;

	if (json_object_size(labels) > 64) {
		return invalid_fail(c, "labels", "", "At most 64 labels are allowed.");
	}
	json_object_foreach (map, key, v) {
		if (!label_text(key, true) || !label_text(json_string_value(v), false)) {
			return invalid_fail(c, "labels",
			    arena_printf(c->a, "%s: %s", key, json_string_value(v)),
			    "Label keys and values must match the regex "
			    "'[\\p{Ll}\\p{Lo}\\p{N}_-]{0,63}'.");
		}
	}
	return true;
}

bool gcp_metadata_check(struct gcp_call *c, const json_t *metadata)
{
	json_t *seen AUTO(json) = json_object(), *one;
	size_t k, sum = 0;

	json_array_foreach (json_object_get(metadata, "items"), k, one) {
		const char *key = gcp_text(one, "key");
		const char *value = json_string_value(json_object_get(one, "value"));
		size_t n = value ? strlen(value) : 0;

		if (!key || strlen(key) > 128 ||
		    strspn(key,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
			strlen(key)) {
			return invalid_fail(c, "metadata.items.key", key,
			    "Must be a match of regex '[a-zA-Z0-9-_]{1,128}'");
		}
		if (json_object_get(seen, key)) {
			return invalid_fail(c, "metadata", key, "Metadata has duplicate key.");
		}
		json_object_set_new(seen, key, json_true());
		sum += n + strlen(key);
		if (n > METADATA_VALUE_MAX || sum > METADATA_MAX) {
			return invalid_fail(c, "metadata.items.value", key,
			    "Value is too large: the maximum is 262144 bytes.");
		}
	}
	return true;
}

/* ---- scheduling ------------------------------------------------------------------------------ */

static int64_t seconds_of(const json_t *scheduling, const char *key)
{
	return gcp_i64(json_object_get(scheduling, key), "seconds", 0);
}

static bool check_notice(struct gcp_call *c, const json_t *s)
{
	int64_t n = seconds_of(s, "preemptionNoticeDuration");

	if (!json_object_get(s, "preemptionNoticeDuration")) {
		return true;
	}
	if (!c->g->notice_field) {
		return invalid_fail(c, "scheduling.preemptionNoticeDuration", "",
		    "Preemption notice duration is not available for this project.");
	}
	return n == 0 || n == 120 ||
	    invalid_fail(c, "scheduling.preemptionNoticeDuration",
		arena_printf(c->a, "%" PRId64, n), "Only 0 and 120 seconds are supported.");
}

static bool check_termination(struct gcp_call *c, const json_t *s, bool spot)
{
	const char *action = gcp_text(s, "instanceTerminationAction");
	int64_t run = seconds_of(s, "maxRunDuration");
	bool bounded =
	    json_object_get(s, "maxRunDuration") || json_object_get(s, "terminationTime");

	if (action && !str_same(action, "STOP") && !str_same(action, "DELETE")) {
		return invalid_fail(c, "scheduling.instanceTerminationAction", action, "");
	}
	if (action && !spot && !bounded) {
		return invalid_fail(c, "scheduling.instanceTerminationAction", action,
		    "instanceTerminationAction is only supported for Spot VMs and VMs "
		    "with a limited run time.");
	}
	if (bounded && !action) {
		return invalid_fail(c, "scheduling.maxRunDuration", "",
		    "instanceTerminationAction must be specified with maxRunDuration or "
		    "terminationTime.");
	}
	if (json_object_get(s, "maxRunDuration") && json_object_get(s, "terminationTime")) {
		return invalid_fail(c, "scheduling.terminationTime", gcp_text(s, "terminationTime"),
		    "Only one of maxRunDuration and terminationTime can be specified.");
	}
	if (json_object_get(s, "maxRunDuration") && (run < 30 || run > 120 * 86400)) {
		return invalid_fail(c, "scheduling.maxRunDuration",
		    arena_printf(c->a, "%" PRId64, run),
		    "Must be between 30 seconds and 120 days.");
	}
	return true;
}

static bool check_scheduling(struct gcp_call *c, struct gcp_want *w)
{
	const json_t *s = json_object_get(w->props, "scheduling");
	const char *model = gcp_text(s, "provisioningModel");
	const char *maintenance = gcp_text(s, "onHostMaintenance");

	if (model && !str_same(model, "SPOT") && !str_same(model, "STANDARD") &&
	    !str_same(model, "FLEX_START") && !str_same(model, "RESERVATION_BOUND")) {
		return invalid_fail(c, "scheduling.provisioningModel", model, "");
	}
	w->spot = str_same(model, "SPOT") || json_is_true(json_object_get(s, "preemptible"));
	w->side = w->spot ? SIDE_SPOT : SIDE_ON_DEMAND;
	/* Left out is fine: then it is false for Spot (the page "Create and use Spot VMs" sends
	 * none). */
	if (w->spot && json_is_true(json_object_get(s, "automaticRestart"))) {
		return invalid_fail(c, "scheduling.automaticRestart", "true",
		    "Scheduling must have automaticRestart be false when preemptible is true.");
	}
	if (w->spot && maintenance && !str_same(maintenance, "TERMINATE")) {
		return invalid_fail(c, "scheduling.onHostMaintenance", maintenance,
		    "Scheduling must have onHostMaintenance be TERMINATE when "
		    "preemptible is true.");
	}
	if (w->type && w->type->gpus > 0 && !str_same(maintenance, "TERMINATE") && !w->spot) {
		return invalid_fail(c, "scheduling.onHostMaintenance",
		    maintenance ? maintenance : "MIGRATE",
		    "Instances with guest accelerators do not support live migration.");
	}
	if (json_object_get(s, "preemptionNoticeDuration") && !w->spot) {
		return invalid_fail(c, "scheduling.preemptionNoticeDuration", "",
		    "Only Spot VMs have a preemption notice.");
	}
	return check_notice(c, s) && check_termination(c, s, w->spot);
}

/* ---- disks, network, accounts ---------------------------------------------------------------- */

static bool check_disk(struct gcp_call *c, const struct gcp_want *w, const json_t *d,
    const char *zone)
{
	const json_t *p = json_object_get(d, "initializeParams");
	const char *image = gcp_text(p, "sourceImage"), *type = gcp_text(p, "diskType");
	bool newer =
	    w->type && (str_prefix(w->type->machine, "g4-") || str_prefix(w->type->machine, "a4-"));
	const char *name = type ? w->bulk ? type : zonal_name(c, type, "diskTypes", zone) : NULL;

	if (name && !gcp_disk_type_known(gcp_last(name))) {
		gcp_not_found(c,
		    arena_printf(c->a, GCP_P "zones/%s/diskTypes/%s", zone, gcp_last(name)));
		return false;
	}
	if (gcp_text(d, "source")) {
		return invalid_fail(c, "disks[0].source", gcp_text(d, "source"),
		    "Existing disks are not emulated.");
	}
	if (str_same(gcp_text(d, "type"), "SCRATCH")) {
		return true;
	}
	/* More disks may be blank. */
	if (!image && !json_is_true(json_object_get(d, "boot"))) {
		return !type || name ||
		    invalid_fail(c, "disks[1].initializeParams.diskType", type,
			"The URL is malformed.");
	}
	if (!image) {
		return invalid_fail(c, "disks[0].initializeParams.sourceImage", "",
		    "A boot disk needs a source image.");
	}
	if (!gcp_image_resolve(c->a, image)) {
		gcp_not_found(c, strstr(image, "projects/") ? strstr(image, "projects/") : image);
		return false;
	}
	if (type && !name) {
		return invalid_fail(c, "disks[0].initializeParams.diskType", type,
		    "The URL is malformed.");
	}
	if (newer && !str_same(name, "hyperdisk-balanced")) {
		return invalid_fail(c, "disks[0].initializeParams.diskType",
		    name ? name : "pd-standard",
		    arena_printf(c->a, "[%s] features are not compatible for creating instance.",
			name ? name : "pd-standard"));
	}
	return check_labels(c, json_object_get(p, "labels"));
}

static bool check_disks(struct gcp_call *c, const struct gcp_want *w, const char *zone)
{
	const json_t *disks = json_object_get(w->props, "disks");
	size_t k;
	json_t *d;

	if (json_array_size(disks) == 0) {
		return invalid_fail(c, "disks", "", "No disks are specified.");
	}
	if (!json_is_true(json_object_get(json_array_get(disks, 0), "boot"))) {
		return invalid_fail(c, "disks[0].boot", "false",
		    "The first disk must be a boot disk.");
	}
	json_array_foreach (disks, k, d) {
		if (!check_disk(c, w, d, zone)) {
			return false;
		}
	}
	return true;
}

static bool check_nics(struct gcp_call *c, const struct gcp_want *w)
{
	const json_t *nics = json_object_get(w->props, "networkInterfaces");
	size_t k;
	json_t *n;

	if (json_array_size(nics) == 0) {
		return invalid_fail(c, "networkInterfaces", "",
		    "At least one network interface is required.");
	}
	json_array_foreach (nics, k, n) {
		const char *net = gcp_text(n, "network"), *sub = gcp_text(n, "subnetwork");

		if (net && !str_same(gcp_last(net), "default")) {
			gcp_not_found(c,
			    arena_printf(c->a, GCP_P "global/networks/%s", gcp_last(net)));
			return false;
		}
		if (sub && !str_same(gcp_last(sub), "default")) {
			gcp_not_found(c,
			    arena_printf(c->a, GCP_P "regions/-/subnetworks/%s", gcp_last(sub)));
			return false;
		}
	}
	return true;
}

static bool check_accounts(struct gcp_call *c, const struct gcp_want *w)
{
	size_t k;
	json_t *s;

	json_array_foreach (json_object_get(w->props, "serviceAccounts"), k, s) {
		const char *email = gcp_text(s, "email");

		if (email && !str_same(email, "default") && !str_same(email, GCP_NODE_SA) &&
		    !str_suffix(email, "@" GCP_PROJECT ".iam.gserviceaccount.com")) {
			return invalid_fail(c, "serviceAccounts[0].email", email,
			    "The user does not have access to service account.");
		}
		if (json_array_size(json_object_get(s, "scopes")) == 0) {
			return required_fail(c, "serviceAccounts[0].scopes");
		}
	}
	return true;
}

/* ---- machine --------------------------------------------------------------------------------- */

/* On demand is not offered for these (page "Accelerator-optimized machines", consumption options).
 */
static bool spot_only(const char *machine)
{
	static const char *const names[] = { "a4-*", "a4x-*", "a3-ultragpu-*", "a3-highgpu-1g",
		"a3-highgpu-2g", "a3-highgpu-4g" };

	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		if (glob_match(names[k], machine)) {
			return true;
		}
	}
	return false;
}

/* The type with its attached GPUs, as the market names it. */
static const char *pool_name(struct gcp_call *c, const struct gcp_want *w, const char *zone)
{
	const json_t *list = json_object_get(w->props, "guestAccelerators");
	const json_t *one = json_array_get(list, 0);
	const char *type = gcp_text(one, "acceleratorType");

	if (!str_prefix(w->machine, "n1-")) {
		if (json_array_size(list) > 0) {
			invalid_fail(c, "guestAccelerators", type,
			    arena_printf(c->a,
				"Accelerators are bundled with machine type '%s' and "
				"must not be given.",
				w->machine));
			return NULL;
		}
		return w->machine;
	}
	if (!type) {
		invalid_fail(c, "guestAccelerators", "",
		    "cloudsim offers N1 machines with GPUs only.");
		return NULL;
	}
	if (!w->bulk && !zonal_name(c, type, "acceleratorTypes", zone)) {
		invalid_fail(c, "guestAccelerators[0].acceleratorType", type,
		    "The URL is malformed.");
		return NULL;
	}
	return arena_printf(c->a, "%s+%sx%" PRId64, w->machine, gcp_last(type),
	    gcp_i64(one, "acceleratorCount", 0));
}

static bool check_machine(struct gcp_call *c, struct gcp_want *w, const char *zone)
{
	const char *url = gcp_text(w->props, "machineType"), *name;

	if (!w->machine) {
		if (!url) {
			return required_fail(c, "machineType");
		}
		w->machine = zonal_name(c, url, "machineTypes", zone);
		if (!w->machine) {
			return invalid_fail(c, "machineType", url, "The URL is malformed.");
		}
	}
	name = pool_name(c, w, zone);
	if (!name) {
		return false;
	}
	w->type = gcp_type_named(c->g, name);
	w->pool = w->type
	    ? market_pool(c->sim->market, CLOUD_GCP, w->zone->region->name, w->zone, name)
	    : NULL;
	if (!w->pool) {
		return invalid_fail(c, "machineType", url ? url : w->machine,
		    arena_printf(c->a, "Machine type with name '%s' does not exist in zone '%s'.",
			w->machine, zone));
	}
	return true;
}

bool gcp_check(struct gcp_call *c, struct gcp_want *w, const char *where)
{
	const json_t *labels = json_object_get(w->props, "labels");

	(void)where;
	if (!w->bulk && !w->name) {
		return required_fail(c, "name");
	}
	if (w->name && !gcp_name_valid(w->name)) {
		return invalid_fail(c, "name", w->name,
		    "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'");
	}
	if (!check_machine(c, w, w->zone->name) || !check_scheduling(c, w)) {
		return false;
	}
	if (!gcp_flex_check(c, w) || !gcp_reserved_take(c, w) || !gcp_policy_take(c, w)) {
		return false;
	}
	if (!w->spot && !w->reserved && !w->flex &&
	    (spot_only(w->machine) || !w->pool->price[SIDE_ON_DEMAND].sold)) {
		return invalid_fail(c, "scheduling.provisioningModel", "STANDARD",
		    arena_printf(c->a,
			"Machine type '%s' is not available with the provisioning model STANDARD.",
			w->machine));
	}
	return check_disks(c, w, w->zone->name) && check_nics(c, w) && check_labels(c, labels) &&
	    gcp_metadata_check(c, json_object_get(w->props, "metadata")) && check_accounts(c, w);
}
