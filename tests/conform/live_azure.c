/* Azure at the emulator. */
#include "live.h"

#include "azure/azure.h"
#include "base/text/text.h"

#define SUBNET \
	"/subscriptions/%s/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/net/" \
	"subnets/nodes"

#define RESERVED \
	"/subscriptions/%s/resourceGroups/reserved/providers/Microsoft.Compute/" \
	"capacityReservationGroups/gpus"

static const char *env_value(struct live *v, const char *name)
{
	if (strcmp(name, "AZURE_CLIENT_SECRET") == 0) {
		return live_text(v, "credentials/azure/client_secret");
	}
	return strcmp(name, "AZURE_STORAGE_KEY") == 0
	    ? live_text(v, "credentials/azure/storage_key")
	    : NULL;
}

static const char *setting_value(struct live *v, const char *key)
{
	static const struct {
		const char *key, *path, *text;
	} all[] = {
		{ "endpoint", "urls/azure", NULL },
		{ "authority", "urls/azure", NULL },
		{ "prices_endpoint", "urls/azure", NULL },
		{ "blob_endpoint", "urls/azure_blob", NULL },
		{ "subscription", "credentials/azure/subscription_id", NULL },
		{ "tenant", "credentials/azure/tenant_id", NULL },
		{ "client_id", "credentials/azure/client_id", NULL },
		{ "storage_account", "credentials/azure/storage_account", NULL },
		{ "regions", NULL, "eastus2" },
		{ "ssh_public_key", NULL,
		    "ssh-ed25519 "
		    "AAAAC3NzaC1lZDI1NTE5AAAAIFyl5bqkIFkR5l8y0n1lYv9cV1P0kQJ9c3z0b1m2n3o4 x" },
	};

	if (strcmp(key, "reservation_group.eastus2") == 0) {
		return arena_printf(v->arena, RESERVED,
		    live_text(v, "credentials/azure/subscription_id"));
	}
	if (strcmp(key, "subnet.eastus2") == 0) {
		return arena_printf(v->arena, SUBNET,
		    live_text(v, "credentials/azure/subscription_id"));
	}
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (strcmp(all[i].key, key) == 0) {
			return all[i].path != NULL ? live_text(v, all[i].path) : all[i].text;
		}
	}
	return NULL;
}

static void arm_put(struct live *v, const char *token, const char *path, const char *version,
    const char *body)
{
	char *url = arena_printf(v->arena,
	    "%s/subscriptions/%s/resourceGroups/net%s?api-version=%s", live_text(v, "urls/azure"),
	    live_text(v, "credentials/azure/subscription_id"), path, version);
	int status = live_plain(v, "PUT", url, token, body);

	if (status != 200 && status != 201) {
		fail_msg("PUT %s: %d", url, status);
	}
}

static json_t *token_get(struct live *v, const char *scope)
{
	json_t *reply = live_form(v,
	    arena_printf(v->arena, "%s/%s/oauth2/v2.0/token", live_text(v, "urls/azure"),
		live_text(v, "credentials/azure/tenant_id")),
	    arena_printf(v->arena,
		"client_id=%s&client_secret=%s&grant_type=client_credentials&scope=https%%3A%%2F%%"
		"2F%s%%2F.default",
		live_text(v, "credentials/azure/client_id"),
		url_encode(v->arena, live_text(v, "credentials/azure/client_secret"), false),
		scope));

	assert_non_null(json_object_get(reply, "access_token"));
	return reply;
}

static void container_put(struct live *v)
{
	json_t *reply = token_get(v, "storage.azure.com");
	struct spot_presign p = { .method = "PUT",
		.headers_n = 2,
		.url = arena_printf(v->arena, "%s/conform?restype=container",
		    live_text(v, "urls/azure_blob")),
		.headers = { { "x-ms-version", "2023-11-03" },
		    { "authorization",
			arena_printf(v->arena, "Bearer %s",
			    json_string_value(json_object_get(reply, "access_token"))) } } };
	struct spot_http_request out;
	struct http_req req;

	live_send(v, &p, "", &out, &req);
	if (req.in.status != 201) {
		fail_msg("the container is not made: %d %s", req.in.status, req.in.body.p);
	}
	json_decref(reply);
}

/* An operator's network, made by hand before the daemon is pointed at it, and the container of the
 * presigned requests. */
static void container_prepare(struct live *v)
{
	json_t *reply = token_get(v, "management.azure.com");
	const char *token = json_string_value(json_object_get(reply, "access_token"));

	arm_put(v, token, "", "2021-04-01", "{\"location\":\"eastus2\"}");
	arm_put(v, token, "/providers/Microsoft.Network/virtualNetworks/net", "2023-11-01",
	    "{\"location\":\"eastus2\",\"properties\":{\"addressSpace\":{\"addressPrefixes\":[\"10."
	    "0.0.0/16\"]},"
	    "\"subnets\":[{\"name\":\"nodes\",\"properties\":{\"addressPrefix\":\"10.0.1.0/"
	    "24\"}}]}}");
	json_decref(reply);
	container_put(v);
}

static void reserve(struct live *v, const char *zone, const char *type, int count)
{
	json_decref(live_control(v, "/azure/reservation",
	    arena_printf(v->arena,
		"{\"group\":\"gpus\",\"region\":\"eastus2\",\"zone\":\"%s\",\"type\":\"%s\","
		"\"count\":%d}",
		zone, type, count)));
}

static void a_reservation_is_a_pool_and_is_used(struct live *v)
{
	struct spot_launch a = live_launch(v), more = live_launch(v);
	struct spot_pools pools = { .region = "eastus2" };
	struct spot_pool_info pool = { .key = a.key, .zone_name = a.zone_name };
	struct spot_signals s = { .region = "eastus2", .pools = &pool, .pools_n = 1 };
	const char *refs[1];
	struct spot_describe d = { .region = "eastus2",
		.refs = refs,
		.refs_n = 1,
		.install = LIVE_INSTALL };
	struct spot_err err;
	size_t found = 0;

	a.key.market = more.key.market = pool.key.market = SPOT_MARKET_RESERVED;
	reserve(v, a.zone_name, a.key.instance_type, 1);
	live_ok(v, CALL_POOLS, &pools);
	for (size_t i = 0; i < pools.n; i++) {
		found += pools.pools[i].key.market == SPOT_MARKET_RESERVED;
	}
	assert_int_equal(found, 1);
	live_ok(v, CALL_SIGNALS, &s);
	assert_int_equal(s.n, 1);
	assert_true(s.signals[0].value > 0);
	live_ok(v, CALL_LAUNCH, &a);
	refs[0] = a.instance.ref;
	live_ok(v, CALL_DESCRIBE, &d);
	assert_int_equal(d.n, 1);
	assert_int_equal(d.found[0].key.market, SPOT_MARKET_RESERVED);
	assert_int_equal(live_run(v, CALL_LAUNCH, &more, &err), SPOT_NO_CAPACITY);
	live_ok(v, CALL_SIGNALS, &s);
	assert_true(s.signals[0].value < 1);
}

static const struct live_case own[] = {
	{ "a_reservation_is_a_pool_and_is_used", a_reservation_is_a_pool_and_is_used },
	{ NULL, NULL },
};

#define ARM(action) "\"service\":\"arm\",\"action\":\"" action "\""
#define REFUSED(n, code, words) \
	"\"kind\":\"status\",\"status\":" #n ",\"code\":\"" code "\",\"message\":\"" words "\""

const struct live_cloud live_azure = {
	.name = "azure",
	.ops = &azure_ops,
	.env = env_value,
	.setting = setting_value,
	.prepare = container_prepare,
	.region = "eastus2",
	.type = "Standard_NC16as_T4_v3",
	.create = ARM("PUT virtualMachines"),
	.list = ARM("LIST resource*roups"),
	.end = ARM("DELETE resource*roups"),
	.service = "\"service\":\"arm\"",
	.throttled = REFUSED(429, "TooManyRequests", "slow down"),
	.expired = REFUSED(401, "ExpiredAuthenticationToken",
	    "The access token expiry UTC time has passed."),
	.quota = REFUSED(409, "OperationNotAllowed",
	    "Operation could not be completed as it results in exceeding "
	    "approved LowPriorityCores quota."),
	.bucket = "conform",
	.objects = "urls/azure_blob",
	.own = own,
};
