#include "base/base.h"
#include "net/curl_policy.h"

/* An option without which an exchange would be less safe than the policy says. */
#define MUST(call) \
	do { \
		if ((call) != CURLE_OK) { \
			abort(); \
		} \
	} while (0)

static void protocols_set(CURL *e)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	MUST(curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https"));
#else
	MUST(curl_easy_setopt(e, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)));
#endif
	MUST(curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L));
	(void)curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
}

static void tls_set(CURL *e, const struct curl_policy *p)
{
	MUST(curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2));
	MUST(curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L));
	MUST(curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L));
	/* A build without proxies does not know these. */
	(void)curl_easy_setopt(e, CURLOPT_PROXY_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	(void)curl_easy_setopt(e, CURLOPT_PROXY_SSL_VERIFYPEER, 1L);
	(void)curl_easy_setopt(e, CURLOPT_PROXY_SSL_VERIFYHOST, 2L);
	if (p->ca_pem != NULL) {
		struct curl_blob blob = { .data = (void *)(uintptr_t)p->ca_pem,
			.len = strlen(p->ca_pem),
			.flags = CURL_BLOB_NOCOPY };

		MUST(curl_easy_setopt(e, CURLOPT_CAINFO_BLOB, &blob));
		(void)curl_easy_setopt(e, CURLOPT_CAPATH, NULL); /* these, and no others */
	} else if (p->ca_file != NULL) {
		MUST(curl_easy_setopt(e, CURLOPT_CAINFO, p->ca_file));
	}
}

static void limits_set(CURL *e, const struct curl_policy *p)
{
	int64_t connect = p->connect_ms > 0 ? p->connect_ms : CURL_CONNECT_MS;

	assert(p->total_ms > 0 || p->stall_s > 0);
	if (p->total_ms > 0) {
		connect = MIN(connect, p->total_ms);
	}
	MUST(curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)p->total_ms));
	MUST(curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)connect));
	MUST(curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)p->stall_s));
	MUST(curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, (long)p->stall_bytes));
}

void curl_policy_set(CURL *easy, const struct curl_policy *p)
{
	protocols_set(easy);
	tls_set(easy, p);
	limits_set(easy, p);
	if (p->no_proxy != NULL) {
		(void)curl_easy_setopt(easy, CURLOPT_NOPROXY, p->no_proxy);
	}
	if (p->user_agent != NULL) {
		MUST(curl_easy_setopt(easy, CURLOPT_USERAGENT, p->user_agent));
	}
}
