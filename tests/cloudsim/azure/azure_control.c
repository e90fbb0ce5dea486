/* Azure's own control calls and what it leaves in the books. README.md lists them. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "cloudsim/blob/blob.h"
#include "base/err.h"
#include "base/text/str.h"

static void set_text(char **at, const char *text)
{
	free(*at);
	*at = dup_text(text);
}

static json_t *config(struct azure *az, const json_t *doc, struct spot_err *err)
{
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
static json_t *fail_create(struct azure *az, const json_t *doc, struct spot_err *err)
{
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

static json_t *restrict_size(struct azure *az, const json_t *doc, struct spot_err *err)
{
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

static json_t *quota(struct azure *az, const json_t *doc, struct spot_err *err)
{
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
static json_t *credentials(struct sim *s, const json_t *doc, struct spot_err *err)
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

json_t *az_control_post(struct sim *s, const char *what, const json_t *doc, struct arena *a,
    struct spot_err *err)
{
	(void)a;
	if (str_same(what, "config")) {
		return config(s->azure, doc, err);
	}
	if (str_same(what, "fail_create")) {
		return fail_create(s->azure, doc, err);
	}
	if (str_same(what, "restrict")) {
		return restrict_size(s->azure, doc, err);
	}
	if (str_same(what, "quota")) {
		return quota(s->azure, doc, err);
	}
	if (str_same(what, "credentials")) {
		return credentials(s, doc, err);
	}
	if (str_same(what, "trust")) {
		return az_trust_add(s, doc, err) ? json_object() : NULL;
	}
	if (str_same(what, "event")) {
		return az_event_add(s, doc, err);
	}
	if (str_same(what, "container")) {
		return blob_container_add(s, doc, err);
	}
	return NULL;
}

json_t *az_control_get(struct sim *s, const char *what, struct httpd_req *r)
{
	json_t *list;

	(void)r;
	if (!str_same(what, "resources")) {
		return NULL;
	}
	az_tick(s);
	list = json_array();
	for (const struct az_res *x = s->azure->res; x; x = x->next) {
		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:s}", "id", x->id, "type", az_kind_type(x->kind),
			"state", x->state));
	}
	return json_pack("{s:o}", "resources", list);
}

/* Networks and groups for them stay for good: what costs money or belongs to a VM counts. */
void az_left(const struct sim *s, json_t *left)
{
	const struct azure *az = azure_of(s);

	az_tick((struct sim *)(uintptr_t)s); /* what was due is gone, whether asked for or not */
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
	for (size_t k = 0; k < az->quotas_n; k++) {
		free(az->quotas[k].region);
		free(az->quotas[k].code);
	}
	free(az->quotas);
}
