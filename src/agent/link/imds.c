/*
 * AWS instance metadata, version 2: a session token by PUT, then GETs with it. docs.aws.amazon.com,
 * EC2 user guide, "Use the Instance Metadata Service". The endpoint variable is the SDKs' own
 * (AWS_EC2_METADATA_SERVICE_ENDPOINT).
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/log.h"
#include "base/text/str.h"

#define TOKEN_TTL_S 3600
#define TOKEN_MARGIN_US (15 * SPOT_US_PER_S)
#define TIMEOUT_US (2 * SPOT_US_PER_S)

bool metadata_url(const char *base, const char *root, const char *path, char *ret, size_t n)
{
	size_t len;
	int put;

	/* The address needs no name lookup at a bad moment. */
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

static bool imds_url(const char *path, char *ret, size_t n)
{
	return metadata_url(getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "latest/", path, ret, n);
}

static void token_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;

	a->imds.token_call = NULL;
	if (r->status != 200 || r->body.n == 0 || r->body.n > 1000) {
		backoff_fail(a, &a->imds.backoff, 0);
		log_debug("imds.no_token", I64("status", r->status), STR("error", r->error));
		return;
	}
	backoff_clear(&a->imds.backoff);
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
	if (m->token_call == NULL && backoff_due(a, &m->backoff) &&
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
