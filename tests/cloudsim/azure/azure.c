/* The table of Azure: the target of a request, the reply's shape, start and end. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "cloudsim/blob/blob.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

/* ---- replies --------------------------------------------------------------------------------- */

static void login_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message)
{
	/* code is "invalid_client/7000215" or a plain one */
	const char *slash = strchr(code, '/');
	int64_t number = 0;
	json_t *doc;

	if (slash && !parse_i64(slash + 1, 0, 1000000000, &number)) {
		number = 0;
	}
	doc = json_pack("{s:s%, s:o, s:[I], s:s, s:s}", "error", code,
	    slash ? (size_t)(slash - code) : strlen(code), "error_description",
	    json_sprintf("AADSTS%lld: %s Trace ID: %s", (long long)number, message, rq->request_id),
	    "error_codes", (json_int_t)number, "trace_id", rq->request_id, "correlation_id",
	    rq->request_id);
	reply_json(rq, rep, status, doc);
}

static void azure_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message)
{
	if (str_same(rq->service, "blob")) {
		blob_error(rq, rep, status, code, message);
		return;
	}
	if (str_same(rq->service, "login")) {
		login_error(rq, rep, status, code, message);
		return;
	}
	if (status == 429) {
		reply_header(rep, "Retry-After", "1");
	}
	reply_json(rq, rep, status,
	    json_pack("{s:{s:s, s:s}}", "error", "code", code, "message", message));
	rep->type = "application/json; charset=utf-8";
}

/* ---- requests -------------------------------------------------------------------------------- */

static void path_split(struct az_call *c)
{
	const char *p = c->rq->http->path;

	while (*p && c->n < AZ_SEGMENTS) {
		const char *end;
		char *text;

		while (*p == '/') {
			p++;
		}
		end = strchrnul(p, '/');
		if (end > p &&
		    url_decode(c->rq->arena, (struct str){ p, (size_t)(end - p) }, false, &text)) {
			c->seg[c->n++] = text;
		}
		p = end;
	}
}

static void azure_classify(struct sim_req *rq)
{
	struct az_call *c = arena_alloc(rq->arena, sizeof(*c));
	const char *host = req_header(rq, "host");

	rq->own = c;
	*c = (struct az_call){ .rq = rq, .az = azure_of(rq->sim) };
	c->base = arena_printf(rq->arena, "%s://%s", rq->http->tls ? "https" : "http",
	    host ? host : "127.0.0.1");
	rq->account = AZ_SUBSCRIPTION;
	path_split(c);
	if (c->n > 0 && str_same(c->seg[0], AZ_ACCOUNT)) {
		c->svc = AZ_SVC_BLOB;
		rq->service = "blob";
		rq->action = blob_action(c);
	} else if (c->n > 0 &&
	    (az_same(c->seg[0], "subscriptions") || az_same(c->seg[0], "providers"))) {
		c->svc = AZ_SVC_ARM;
		rq->service = "arm";
		az_arm_name(c);
	} else if (c->n == 3 && str_same(c->seg[0], "api") && str_same(c->seg[1], "retail")) {
		c->svc = AZ_SVC_PRICES;
		rq->service = "prices";
		rq->action = "GET prices";
	} else {
		c->svc = c->n > 1 ? AZ_SVC_LOGIN : AZ_SVC_NONE;
		rq->service = "login";
		rq->action = c->n > 0 ? c->seg[c->n - 1] : "/";
	}
}

static void azure_serve(struct sim_req *rq, struct sim_reply *rep)
{
	struct az_call *c = rq->own;

	c->rep = rep;
	az_tick(rq->sim);
	switch (c->svc) {
	case AZ_SVC_ARM:
		az_arm(c);
		break;
	case AZ_SVC_LOGIN:
		az_login(c);
		break;
	case AZ_SVC_PRICES:
		az_prices(c);
		break;
	case AZ_SVC_BLOB:
		blob_serve(c);
		break;
	case AZ_SVC_NONE:
		az_fail(c, 404, "NotFound", "Not found.");
		break;
	}
	json_decref(c->doc);
	c->doc = NULL;
}

/* ---- start and end --------------------------------------------------------------------------- */

static bool azure_load(struct sim *s, struct spot_err *err)
{
	struct azure *az = calloc(1, sizeof(*az));
	uint8_t raw[64];
	struct arena *a AUTO(arena) = arena_new(0);

	if (!az) {
		abort();
	}
	s->azure = az;
	s->rng.fill(&s->rng, raw, sizeof(raw));
	az->storage_key = dup_text(base64_encode(a, raw, sizeof(raw)));
	az->client_secret = sim_id(s, NULL, "sim~", 18);
	az->capacity = dup_text("mixed");
	az->page = 50;
	az->price_page = 100;
	az->nic_reserve_us = 180 * SPOT_US_PER_S;
	az->forget_us = SPOT_US_PER_HOUR;
	az->spot_allowed = true;
	az->incarnation = 1;
	blob_new(s);
	return az_keys_new(s, err) && az_market_load(s, err);
}

static bool azure_ready(struct sim *s, struct spot_err *err)
{
	char cert[4096], key[4096];
	struct httpd_conf conf = { .address = "127.0.0.1",
		.ctx = &s->ports[CLOUD_AZURE],
		.url_max = 16384,
		.handle = front_handle,
		.body_max = front_body_max,
		.queued_max = (size_t)256 << 20,
		.tls_cert = cert,
		.tls_key = key };

	snprintf(cert, sizeof(cert), "%s/azure-server.pem", s->conf.dir);
	snprintf(key, sizeof(key), "%s/azure-server-key.pem", s->conf.dir);
	return httpd_new(s->loop, &conf, &s->azure->tls, err) == SPOT_OK;
}

static void azure_announce(const struct sim *s, json_t *urls, json_t *credentials)
{
	const struct azure *az = azure_of(s);
	int plain = cloud_port(s, CLOUD_AZURE);

	if (urls) {
		int tls = httpd_port(az->tls);

		json_object_set_new(urls, "azure", json_sprintf("http://127.0.0.1:%d", plain));
		json_object_set_new(urls, "azure_tls", json_sprintf("https://127.0.0.1:%d", tls));
		json_object_set_new(urls, "azure_blob",
		    json_sprintf("http://127.0.0.1:%d/" AZ_ACCOUNT, plain));
		json_object_set_new(urls, "azure_blob_tls",
		    json_sprintf("https://127.0.0.1:%d/" AZ_ACCOUNT, tls));
		json_object_set_new(urls, "azure_ca", json_string(az->ca_path));
		return;
	}
	json_object_set_new(credentials, "azure",
	    json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "tenant_id", AZ_TENANT,
		"subscription_id", AZ_SUBSCRIPTION, "client_id", AZ_CLIENT, "client_secret",
		az->client_secret, "storage_account", AZ_ACCOUNT, "storage_key", az->storage_key,
		"ca_pem", az->ca_pem));
}

static void azure_free(struct sim *s)
{
	struct azure *az = azure_of(s);
	struct az_trust *t;
	struct az_user_key *u;
	struct az_sku_rule *r;

	if (!az) {
		return;
	}
	if (az->tls) {
		httpd_free(az->tls);
	}
	az_res_free(az);
	blob_free(s);
	az_keys_free(az);
	while ((t = az->trust) != NULL) {
		az->trust = t->next;
		az_trust_drop(t);
	}
	while ((u = az->user_keys) != NULL) {
		az->user_keys = u->next;
		az_user_key_drop(u);
	}
	while ((r = az->rules) != NULL) {
		az->rules = r->next;
		az_rule_drop(r);
	}
	az_control_free(az);
	az_events_free();
	free(az->client_secret);
	free(az->storage_key);
	free(az->capacity);
	free(az->fail_code);
	free(az->fail_message);
	free(az);
	s->azure = NULL;
}

const struct cloud_ops azure_cloud = {
	.name = "azure",
	.notice_s = 30,
	.load = azure_load,
	.ready = azure_ready,
	.announce = azure_announce,
	.free = azure_free,
	.classify = azure_classify,
	.serve = azure_serve,
	.error = azure_error,
	.imds = az_imds,
	.env = az_env,
	.event = az_vm_event,
	.guest_off = az_guest_off,
	.left = az_left,
	.has_feed = true,
	.calls = az_calls,
};
