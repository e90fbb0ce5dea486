/* The table of Google Cloud: its state and its control calls. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <stdarg.h>

/* ---- start and end --------------------------------------------------------------------------- */

static bool cloud_load(struct sim *s, struct spot_err *err)
{
	s->gcp = calloc(1, sizeof(*s->gcp));
	if (!s->gcp) {
		abort();
	}
	s->gcp->advice_v1 = s->gcp->advice_v1_spot = s->gcp->notice_field = true;
	s->gcp->rate_per_min = 1500;
	s->gcp->wait_us = 120 * SPOT_US_PER_S;
	return gcs_new(s, err) && gcp_auth_new(s, err) && gcp_schema_load(s, err) &&
	    gcp_market_load(s, err);
}

static void cloud_free(struct sim *s)
{
	if (!s->gcp) {
		return;
	}
	gcp_ops_free(s);
	gcp_disks_free(s);
	gcp_templates_free(s);
	gcp_reserved_free(s);
	gcp_policies_free(s);
	gcp_quotas_free(s);
	gcs_free(s);
	gcp_auth_free(s);
	json_decref(s->gcp->schema);
	free(s->gcp);
	s->gcp = NULL;
}

static void cloud_announce(const struct sim *s, json_t *urls, json_t *credentials)
{
	int port = cloud_port(s, CLOUD_GCP);

	if (urls) {
		json_object_set_new(urls, "gcp", json_sprintf("http://127.0.0.1:%d", port));
	}
	if (credentials) {
		json_object_set_new(credentials, "gcp",
		    json_pack("{s:o, s:s, s:s, s:s, s:s}", "key_file",
			json_sprintf("%s/gcp-key.json", s->conf.dir), "project", GCP_PROJECT,
			"email", GCP_SA, "node_email", GCP_NODE_SA, "api_key", s->gcp->api_key));
	}
}

static void cloud_left(const struct sim *s, json_t *left)
{
	for (const struct gcp_disk *d = s->gcp->disks; d; d = d->next) {
		if (!d->inst || d->inst->state == INST_GONE) {
			json_array_append_new(left,
			    json_sprintf("gcp/disk/%s/%s", d->zone, d->name));
		}
	}
	gcs_left(s, left);
}

/* ---- control --------------------------------------------------------------------------------- */

static json_t *set_config(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	static const char *const known[] = { "advice_v1", "advice_v1_spot", "notice_field",
		"rate_per_min", "wait_ms", "unreachable", "keep_bytes", "flex_queue_ms",
		"flex_wait_ms", "flex_run_ms", NULL };
	struct gcp *g = s->gcp;
	const char *zone;

	if (json_unknown_key(doc, known)) {
		err_set(err, SPOT_INVALID, "unknown setting %s", json_unknown_key(doc, known));
		return NULL;
	}
	g->advice_v1 = json_bool(doc, "advice_v1", g->advice_v1, err);
	g->advice_v1_spot = json_bool(doc, "advice_v1_spot", g->advice_v1_spot, err);
	g->notice_field = json_bool(doc, "notice_field", g->notice_field, err);
	g->rate_per_min = json_i64(doc, "rate_per_min", g->rate_per_min, err);
	g->wait_us = json_i64(doc, "wait_ms", g->wait_us / 1000, err) * 1000;
	g->keep_bytes = json_i64(doc, "keep_bytes", g->keep_bytes, err);
	g->flex_queue_us = json_i64(doc, "flex_queue_ms", g->flex_queue_us / 1000, err) * 1000;
	g->flex_expire_us = json_i64(doc, "flex_wait_ms", g->flex_expire_us / 1000, err) * 1000;
	g->flex_run_us = json_i64(doc, "flex_run_ms", g->flex_run_us / 1000, err) * 1000;
	gcp_flex_changed(s);
	zone = json_str(doc, "unreachable", NULL, err); /* pattern of zones; "" = none */
	for (size_t k = 0; zone && k < g->zones_n; k++) {
		g->zones[k].unreachable = *zone && glob_match(zone, g->zones[k].zone->name);
	}
	throttle_reset(s);
	return err->rc == SPOT_OK ? json_object() : NULL;
}

static json_t *set_credentials(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	const char *action = json_need_str(doc, "action", err);

	if (!action) {
		return NULL;
	}
	if (str_same(action, "expire")) {
		return json_pack("{s:I}", "expired", (json_int_t)gcp_tokens_expire(s));
	}
	if (str_same(action, "rotate")) {
		gcp_key_rotate(s);
		return gcp_auth_key_file(s, err) ? json_object() : NULL;
	}
	if (str_same(action, "token")) {
		const struct gcp_token *t = gcp_token_new(s, GCP_SA,
		    json_str(doc, "scopes", "https://www.googleapis.com/auth/cloud-platform", err),
		    json_i64(doc, "seconds", 3600, err));

		return json_pack("{s:s}", "access_token", t->text);
	}
	err_set(err, SPOT_INVALID, "unknown action %s", action);
	return NULL;
}

static json_t *set_quota(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	return gcp_quota_set(s, doc, err) ? json_object() : NULL;
}

static const struct control_call gcp_calls[] = {
	{ "POST", "/gcp/config",
	    "{\"advice_v1\": true, \"advice_v1_spot\": true, \"notice_field\": true, "
	    "\"rate_per_min\": N, \"wait_ms\": MS, "
	    "\"unreachable\": PATTERN, \"keep_bytes\": N, \"flex_queue_ms\": MS, "
	    "\"flex_wait_ms\": MS, \"flex_run_ms\": MS}",
	    "{}",
	    "Change settings. notice_field false refuses preemptionNoticeDuration. wait_ms is the "
	    "hold of operations.wait. unreachable names zones that do not answer. An upload keeps "
	    "keep_bytes of each chunk, 0 = all. A flex-start VM waits flex_queue_ms for its "
	    "capacity; below 0 none comes. flex_wait_ms and flex_run_ms replace its "
	    "requestValidForDuration and maxRunDuration, 0 = not.",
	    set_config, NULL },
	{ "POST", "/gcp/credentials",
	    "{\"action\": \"expire\" | \"rotate\" | \"token\", \"scopes\": TEXT, \"seconds\": "
	    "3600}",
	    "{\"expired\": N}, {} or {\"access_token\": TEXT}",
	    "Expire all tokens, write a new key file, or make a token.", set_credentials, NULL },
	{ "POST", "/gcp/reservation",
	    "{\"name\": NAME, \"zone\": NAME, \"type\": NAME, \"count\": 1, \"specific\": true, "
	    "\"ends_in_s\": N}",
	    "{}",
	    "Make a reservation (taken by name only unless specific is false), or change one. "
	    "Google deletes it at its end, if it has one; its VMs run on.",
	    gcp_reserved_post, NULL },
	{ "POST", "/gcp/quota", "{\"metric\": PATTERN, \"region\": PATTERN, \"limit\": N}", "{}",
	    "Set a quota such as PREEMPTIBLE_NVIDIA_L4_GPUS.", set_quota, NULL },
	{ .path = NULL },
};

/* Environment variables by which Google's own libraries find the metadata server elsewhere. */
static size_t cloud_env(const struct inst *i, struct arena *a, const char **env, size_t max)
{
	if (max < 2) {
		return 0;
	}
	env[0] = arena_printf(a, "GCE_METADATA_HOST=127.0.0.1:%d", i->imds_port);
	env[1] = arena_printf(a, "GCE_METADATA_IP=127.0.0.1:%d", i->imds_port);
	return 2;
}

const struct cloud_ops gcp_cloud = {
	.name = "gcp",
	.notice_s = 30,
	.load = cloud_load,
	.ready = gcp_auth_key_file,
	.announce = cloud_announce,
	.free = cloud_free,
	.classify = gcp_classify,
	.serve = gcp_serve,
	.error = gcp_error,
	.imds = gcp_imds,
	.env = cloud_env,
	.event = gcp_event,
	.inst_free = gcp_inst_free,
	.left = cloud_left,
	.price = gcp_price_moved,
	.has_feed = true,
	.feed = gcp_prices_told,
	.calls = gcp_calls,
};
