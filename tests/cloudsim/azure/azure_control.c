/* Azure's own control calls, and its paid things beside instances. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "cloudsim/blob/blob.h"
#include "base/text/text.h"

static void set_text(char **at, const char *text)
{
	free(*at);
	*at = dup_text(text);
}

static json_t *config_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	struct azure *az = s->azure;
	static const char *const known[] = { "capacity", "page", "price_page", "nic_reserve_ms",
		"events_ms", "forget_ms", "spot_allowed", NULL };
	const char *capacity = json_str(doc, "capacity", az->capacity, err);

	if (json_unknown_key(doc, known)) {
		err_set(err, SPOT_INVALID, "unknown setting %s", json_unknown_key(doc, known));
		return NULL;
	}
	az->page = MAX(json_i64(doc, "page", az->page, err), 1);
	az->price_page = MAX(json_i64(doc, "price_page", az->price_page, err), 1);
	az->nic_reserve_us = json_i64(doc, "nic_reserve_ms", az->nic_reserve_us / 1000, err) * 1000;
	az->events_us = json_i64(doc, "events_ms", az->events_us / 1000, err) * 1000;
	az->forget_us = json_i64(doc, "forget_ms", az->forget_us / 1000, err) * 1000;
	az->spot_allowed = json_bool(doc, "spot_allowed", az->spot_allowed, err);
	if (err->rc == SPOT_OK && !str_same(capacity, "mixed") && !str_same(capacity, "sync") &&
	    !str_same(capacity, "async")) {
		err_set(err, SPOT_INVALID, "capacity is mixed, sync or async");
	}
	if (err->rc != SPOT_OK) {
		return NULL;
	}
	if (capacity != az->capacity) {
		set_text(&az->capacity, capacity);
	}
	return json_object();
}

/* The next creates fail in their operation. */
static json_t *fail_create_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	struct azure *az = s->azure;
	const char *code = json_str(doc, "code", NULL, err),
		   *message = json_str(doc, "message", NULL, err);
	int64_t count = json_i64(doc, "count", 1, err);

	if (err->rc != SPOT_OK) {
		return NULL;
	}
	set_text(&az->fail_code, code);
	set_text(&az->fail_message, message);
	az->fail_count = count;
	return json_object();
}

static json_t *restrict_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	struct azure *az = s->azure;
	const char *region = json_str(doc, "region", "*", err),
		   *type = json_str(doc, "type", "*", err),
		   *zone = json_str(doc, "zone", NULL, err),
		   *reason = json_str(doc, "reason", "NotAvailableForSubscription", err);
	struct az_sku_rule *r;

	if (err->rc != SPOT_OK) {
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		abort();
	}
	*r = (struct az_sku_rule){ az->rules, dup_text(region), dup_text(type), dup_text(zone),
		dup_text(reason) };
	az->rules = r;
	return json_object();
}

static json_t *vcpus_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	struct azure *az = s->azure;
	const char *region = json_str(doc, "region", "*", err),
		   *code = json_str(doc, "code", "*", err);
	int64_t limit = json_need_i64(doc, "vcpus", err);

	if (err->rc != SPOT_OK) {
		return NULL;
	}
	az->quotas = realloc(az->quotas, (az->quotas_n + 1) * sizeof(*az->quotas));
	if (!az->quotas) {
		abort();
	}
	az->quotas[az->quotas_n].region = dup_text(region);
	az->quotas[az->quotas_n].code = dup_text(code);
	az->quotas[az->quotas_n++].limit = limit;
	return json_object();
}

/* {"action": "rotate"}: a new client secret; "expire": all tokens so far; "storage": a new account
 * key. */
static json_t *credentials_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	const char *action = json_need_str(doc, "action", err);
	json_t *out;

	if (err->rc != SPOT_OK) {
		return NULL;
	}
	if (str_same(action, "rotate")) {
		free(s->azure->client_secret);
		s->azure->client_secret = sim_id(s, NULL, "sim~", 18);
	} else if (str_same(action, "expire")) {
		s->azure->revoked_us = sim_wall(s) + SPOT_US_PER_S;
	} else {
		err_set(err, SPOT_INVALID, "unknown action %s", action);
		return NULL;
	}
	out = json_object();
	cloud_ops(CLOUD_AZURE)->announce(s, NULL, out);
	return out;
}

static json_t *trust_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	return az_trust_add(s, doc, err) ? json_object() : NULL;
}

static json_t *event_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	return az_event_add(s, doc, err);
}

static json_t *container_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	return blob_container_add(s, doc, err);
}

static json_t *resources_get(struct sim *s, struct httpd_req *r UNUSED)
{
	json_t *list = json_array();

	az_tick(s);
	for (const struct az_res *x = s->azure->res; x; x = x->next) {
		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:s}", "id", x->id, "type", az_kind_type(x->kind),
			"state", x->state));
	}
	return json_pack("{s:o}", "resources", list);
}

const struct control_call az_calls[] = {
	{ "POST", "/azure/config",
	    "{\"capacity\": \"mixed\" | \"sync\" | \"async\", \"page\": N, \"price_page\": N, "
	    "\"nic_reserve_ms\": MS, \"events_ms\": MS, \"forget_ms\": MS, \"spot_allowed\": true}",
	    "{}",
	    "Change settings. capacity says when a create without capacity fails: at once (sync) "
	    "or "
	    "in the operation (async). Under mixed, Spot without a zone fails at once, and all "
	    "else "
	    "in the operation. Scheduled events wait for events_ms. Operations are forgotten after "
	    "forget_ms.",
	    config_post, NULL },
	{ "POST", "/azure/container", "{\"name\": NAME}", "{}", "Make a Blob container.",
	    container_post, NULL },
	{ "POST", "/azure/credentials", "{\"action\": \"rotate\" | \"expire\"}",
	    "{\"azure\": CREDENTIALS}", "Make a new client secret, or expire all tokens so far.",
	    credentials_post, NULL },
	{ "POST", "/azure/event",
	    "{\"instance\": ID, \"type\": \"Redeploy\" | \"Freeze\" | \"Terminate\", \"in_s\": S}",
	    "{\"id\": ID}", "Announce a scheduled event.", event_post, NULL },
	{ "POST", "/azure/fail_create", "{\"code\": CODE, \"message\": TEXT, \"count\": 1}", "{}",
	    "End the next creates with this error in their operation. The VM stays, Failed.",
	    fail_create_post, NULL },
	{ "POST", "/azure/quota", "{\"region\": PATTERN, \"code\": PATTERN, \"vcpus\": N}", "{}",
	    "Set a limit: lowPriorityCores, cores, a family or PublicIPAddresses.", vcpus_post,
	    NULL },
	{ "POST", "/azure/reservation",
	    "{\"group\": NAME, \"region\": NAME, \"zone\": ID, \"type\": NAME, \"count\": 1}",
	    "{\"group\": ID}",
	    "Make a capacity reservation in a group of that name, or change its count.",
	    az_reserved_post, NULL },
	{ "GET", "/azure/resources", "",
	    "{\"resources\": [{\"id\": ID, \"type\": TYPE, \"state\": STATE}]}",
	    "List all resources of Resource Manager.", NULL, resources_get },
	{ "POST", "/azure/restrict",
	    "{\"region\": PATTERN, \"type\": PATTERN, \"zone\": ZONE, \"reason\": "
	    "\"NotAvailableForSubscription\"}",
	    "{}", "Restrict a size in /skus and refuse it. Reason none lifts the restriction.",
	    restrict_post, NULL },
	{ "POST", "/azure/trust",
	    "{\"issuer\": URL, \"subject\": TEXT, \"public_key_pem\": PEM} or "
	    "{\"certificate_pem\": "
	    "PEM}",
	    "{}", "Trust a signer of client assertions: a federated issuer or a certificate.",
	    trust_post, NULL },
	{ .path = NULL },
};

/* Counts things that cost money or belong to a VM: networks and their groups stay for good. */
void az_left(const struct sim *s, json_t *left)
{
	const struct azure *az = azure_of(s);

	az_tick((struct sim *)(uintptr_t)s); /* drops resources that are due, read or not */
	for (const struct az_res *r = az->res; r; r = r->next) {
		bool empty = r->kind == AZ_GROUP;

		for (const struct az_res *x = az->res; empty && x; x = x->next) {
			empty =
			    !((x->kind == AZ_VNET || x->kind == AZ_NSG || x->kind == AZ_IDENTITY) &&
				az_same(x->group, r->name));
		}
		if (r->kind == AZ_VM
			? !r->inst
			: empty || r->kind == AZ_NIC || r->kind == AZ_IP || r->kind == AZ_DISK) {
			json_array_append_new(left, json_sprintf("azure %s", r->id));
		}
	}
	blob_left(s, left);
}

void az_control_free(struct azure *az)
{
	az_reserved_free(az);
	for (size_t k = 0; k < az->quotas_n; k++) {
		free(az->quotas[k].region);
		free(az->quotas[k].code);
	}
	free(az->quotas);
}
