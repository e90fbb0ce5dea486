/*
 * The clouds' metadata services. The vendors' own variables name another address of a service.
 *
 *   AWS    version 2: a session token by PUT, then GETs with it. EC2 user guide, "Use the Instance
 *          Metadata Service"
 *   GCP    cloud.google.com/compute/docs/metadata/querying-metadata
 *   Azure  learn.microsoft.com/azure/virtual-machines/instance-metadata-service
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

#define TOKEN_TTL_S 3600
#define TOKEN_MARGIN_US (15 * SPOT_US_PER_S)
#define TIMEOUT_US (2 * SPOT_US_PER_S)

bool metadata_url(const char *base, const char *root, const char *path, char *ret, size_t n)
{
	size_t len;
	int put;

	/* The number needs no name lookup, which might fail when a notice comes. */
	if (str_empty(base)) {
		base = "169.254.169.254";
	}
	len = strlen(base);
	while (len > 0 && base[len - 1] == '/') {
		len--;
	}
	put = snprintf(ret, n, "%s%.*s/%s%s", strstr(base, "://") != NULL ? "" : "http://",
	    (int)len, base, root, path);
	return put > 0 && put < (int)n;
}

/* ---- AWS ------------------------------------------------------------------------------------- */

static bool imds_url(const char *path, char *ret, size_t n)
{
	return metadata_url(getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "latest/", path, ret, n);
}

static void token_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;

	a->imds.token_call = NULL;
	if (r->status != 200 || r->body.n == 0 || r->body.n > 1000) {
		retry_fail(a, &a->imds.backoff, 0);
		log_debug("imds.no_token", I64("status", r->status), STR("error", r->error));
		return;
	}
	retry_clear(&a->imds.backoff);
	secret_fini(&a->imds.token);
	secret_init(&a->imds.token, r->body.p, r->body.n);
	a->imds.token_until_us = a->now_us + TOKEN_TTL_S * SPOT_US_PER_S - TOKEN_MARGIN_US;
}

bool imds_ready(struct agent *a)
{
	struct imds *m = &a->imds;
	char url[512];
	struct http_want w = { .far = HTTP_METADATA,
		.method = "PUT",
		.url = url,
		.header = "X-aws-ec2-metadata-token-ttl-seconds: 3600",
		.timeout_us = TIMEOUT_US,
		.done = token_done,
		.ctx = a };

	if (secret_set(&m->token) && a->now_us < m->token_until_us) {
		return true;
	}
	if (m->token_call == NULL && retry_due(a, &m->backoff) &&
	    imds_url("api/token", url, sizeof(url))) {
		m->token_call = http_start(a->http, &w);
	}
	return false;
}

struct http_call *imds_get(struct agent *a, const char *path,
    void (*done)(void *agent, const struct http_reply *r))
{
	char url[512], header[1100];
	struct http_want w = { .far = HTTP_METADATA,
		.method = "GET",
		.url = url,
		.header = header,
		.timeout_us = TIMEOUT_US,
		.done = done,
		.ctx = a };

	if (!imds_url(path, url, sizeof(url))) {
		return NULL;
	}
	(void)snprintf(header, sizeof(header), "X-aws-ec2-metadata-token: %s",
	    secret_reveal(&a->imds.token));
	return http_start(a->http, &w);
}

void imds_token_refused(struct agent *a)
{
	a->imds.token_until_us = 0;
}

/* ---- Google Cloud ---------------------------------------------------------------------------- */

bool gcp_url(const char *path, char *ret, size_t n)
{
	/* Google's own libraries use these variables. */
	const char *base = getenv("GCE_METADATA_HOST");

	return metadata_url(str_empty(base) ? getenv("GCE_METADATA_IP") : base,
	    "computeMetadata/v1/", path, ret, n);
}

struct http_call *gcp_get(struct agent *a, const char *path, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r))
{
	char url[2048];
	struct http_want w = { .far = HTTP_METADATA,
		.method = "GET",
		.url = url,
		.header = "Metadata-Flavor: Google",
		.timeout_us = timeout_us,
		.done = done,
		.ctx = a };

	return gcp_url(path, url, sizeof(url)) ? http_start(a->http, &w) : NULL;
}

/* Without this header the reply comes from a proxy or a router, not from the metadata server. */
bool gcp_is_google(const struct http_reply *r)
{
	return strcasecmp(http_reply_header(r, "Metadata-Flavor"), "Google") == 0;
}

/* ---- Azure ----------------------------------------------------------------------------------- */

static bool azure_url(const char *path, char *ret, size_t n)
{
	/* Azure's own libraries use this variable. */
	return metadata_url(getenv("AZURE_POD_IDENTITY_AUTHORITY_HOST"), "", path, ret, n);
}

struct http_call *azure_metadata_send(struct agent *a, const char *method, const char *path,
    struct str body, int64_t timeout_us, void (*done)(void *agent, const struct http_reply *r))
{
	char url[1024];
	struct http_want w = { .far = HTTP_METADATA,
		.method = method,
		.url = url,
		.header = "Metadata: true",
		.type = body.n > 0 ? "application/json" : NULL,
		.body = body,
		.timeout_us = timeout_us,
		.done = done,
		.ctx = a };

	return azure_url(path, url, sizeof(url)) ? http_start(a->http, &w) : NULL;
}

struct http_call *azure_get(struct agent *a, const char *path, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r))
{
	return azure_metadata_send(a, "GET", path, (struct str){ NULL, 0 }, timeout_us, done);
}
