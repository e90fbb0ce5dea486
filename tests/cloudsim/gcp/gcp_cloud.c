/* Google Cloud as a row of the table of clouds: state, control calls, small helpers of all its
 * parts. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/hash.h"
#include "base/err.h"
#include "base/crypto/sign.h"
#include "base/text/str.h"

#include <stdarg.h>

/* ---- texts ----------------------------------------------------------------------------------- */

const char *gcp_link(struct arena *a, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return arena_printf(a, GCP_LINKS GCP_P "%s", text);
}

static int64_t days_from_civil(int64_t y, int64_t m, int64_t d)
{
	y -= m <= 2;
	int64_t era = y / 400, yoe = y - era * 400;
	int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;

	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

/* The n-th Sunday of a month, as days since 1970-01-01 (a Thursday). */
static int64_t sunday(int64_t year, int64_t month, int64_t nth)
{
	int64_t first = days_from_civil(year, month, 1);

	return first + (10 - first % 7) % 7 + (nth - 1) * 7;
}

/* Pacific time: daylight saving from the second Sunday of March, 2 o'clock, to the first of
 * November. */
int64_t gcp_pacific_offset(int64_t us)
{
	char text[TIME_TEXT_MAX];
	int64_t year, s = us / SPOT_US_PER_S;

	format_time_s(us, text);
	text[4] = '\0';
	if (!parse_i64(text, 1970, 9999, &year)) {
		return -8 * 3600;
	}
	return s >= sunday(year, 3, 2) * 86400 + 10 * 3600 &&
		s < sunday(year, 11, 1) * 86400 + 9 * 3600
	    ? -7 * 3600
	    : -8 * 3600;
}

const char *gcp_time(struct arena *a, int64_t us)
{
	char text[TIME_TEXT_MAX];
	int64_t offset = gcp_pacific_offset(us);

	format_time_s(us + offset * SPOT_US_PER_S, text);
	return arena_printf(a, "%.19s.%03d-%02d:00", text, (int)(us / 1000 % 1000),
	    (int)(-offset / 3600));
}

const char *gcp_u64(struct arena *a, uint64_t v)
{
	return arena_printf(a, "%" PRIu64, v);
}

/* Nineteen digits, as the vendor's ids are. */
uint64_t gcp_new_id(struct sim *s)
{
	return UINT64_C(1000000000000000000) + rng_below(&s->rng, UINT64_C(8000000000000000000));
}

uint64_t gcp_hash_id(const char *text)
{
	return UINT64_C(1000000000000000000) +
	    hash_str(HASH_START, text) % UINT64_C(8000000000000000000);
}

const char *gcp_fingerprint(struct arena *a, uint64_t seed)
{
	uint8_t raw[8];

	seed = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
	for (size_t k = 0; k < 8; k++) {
		raw[k] = (uint8_t)(seed >> (8 * k));
	}
	return base64_encode(a, raw, sizeof(raw));
}

const char *gcp_last(const char *url)
{
	const char *p = strrchr(url, '/');

	return p ? p + 1 : url;
}

bool gcp_known_project(struct gcp_call *c)
{
	if (str_same(c->arg[0], GCP_PROJECT) || str_same(c->arg[0], GCP_PROJECT_NUMBER)) {
		return true;
	}
	/* Image projects are public. */
	if (str_prefix(c->rq->action, "images.") && !str_same(c->arg[0], GCP_PROJECT)) {
		return true;
	}
	gcp_fail(c, 404, "notFound", "The resource 'projects/%s' was not found", c->arg[0]);
	return false;
}

/* ---- start and end --------------------------------------------------------------------------- */

static bool cloud_load(struct sim *s, struct spot_err *err)
{
	s->gcp = calloc(1, sizeof(*s->gcp));
	if (!s->gcp) {
		abort();
	}
	s->gcp->advice_v1 = s->gcp->notice_field = true;
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

static json_t *set_config(struct sim *s, const json_t *doc, struct spot_err *err)
{
	static const char *const known[] = { "advice_v1", "notice_field", "rate_per_min", "wait_ms",
		"unreachable", "keep_bytes", NULL };
	struct gcp *g = s->gcp;
	const char *zone;

	if (json_unknown_key(doc, known)) {
		err_set(err, SPOT_INVALID, "unknown setting %s", json_unknown_key(doc, known));
		return NULL;
	}
	g->advice_v1 = json_bool(doc, "advice_v1", g->advice_v1, err);
	g->notice_field = json_bool(doc, "notice_field", g->notice_field, err);
	g->rate_per_min = json_i64(doc, "rate_per_min", g->rate_per_min, err);
	g->wait_us = json_i64(doc, "wait_ms", g->wait_us / 1000, err) * 1000;
	g->keep_bytes = json_i64(doc, "keep_bytes", g->keep_bytes, err);
	zone = json_str(doc, "unreachable", NULL, err); /* pattern of zones; "" = none */
	for (size_t k = 0; zone && k < g->zones_n; k++) {
		g->zones[k].unreachable = *zone && glob_match(zone, g->zones[k].zone->name);
	}
	throttle_reset(s);
	return err->rc == SPOT_OK ? json_object() : NULL;
}

static json_t *set_credentials(struct sim *s, const json_t *doc, struct spot_err *err)
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

static json_t *cloud_post(struct sim *s, const char *what, const json_t *doc, struct arena *a,
    struct spot_err *err)
{
	(void)a;
	if (str_same(what, "config")) {
		return set_config(s, doc, err);
	}
	if (str_same(what, "credentials")) {
		return set_credentials(s, doc, err);
	}
	if (str_same(what, "quota")) {
		return gcp_quota_set(s, doc, err) ? json_object() : NULL;
	}
	return NULL;
}

/* What Google's own libraries take to find the metadata server elsewhere. */
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
	.post = cloud_post,
};
