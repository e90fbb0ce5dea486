/* Sets a request as options of a curl handle: method, headers, TLS, limits. */
#include "base/base.h"
#include "io/http/http_priv.h"
#include "net/curl_policy.h"

#include <openssl/ssl.h>
#include <strings.h>

static bool header_safe(const struct spot_header *h)
{
	return h->name[0] != '\0' && strpbrk(h->name, "\r\n: ") == NULL &&
	    strpbrk(h->value, "\r\n") == NULL;
}

static void header_append(struct xfer *x, const char *line)
{
	struct curl_slist *more = curl_slist_append(x->headers_out, line);

	if (more == NULL) {
		abort();
	}
	x->headers_out = more;
}

bool http_headers_build(struct xfer *x, const struct spot_http_request *out)
{
	bool has_type = false;

	for (size_t i = 0; i < out->headers_n; i++) {
		const struct spot_header *h = &out->headers[i];
		char *line = NULL;

		if (!header_safe(h)) {
			return false;
		}
		has_type |= strcasecmp(h->name, "content-type") == 0;
		/* "Name;" makes curl send an empty value. */
		if (asprintf(&line, h->value[0] != '\0' ? "%s: %s" : "%s;", h->name, h->value) <
		    0) {
			abort();
		}
		header_append(x, line);
		free(line);
	}
	/* Remove headers that curl would add by itself, unsigned. */
	header_append(x, "Expect:");
	if (!has_type) {
		header_append(x, "Content-Type:");
	}
	return true;
}

static void method_set(CURL *e, const struct spot_http_request *out)
{
	bool sends = out->body.n > 0 || strcmp(out->method, "POST") == 0 ||
	    strcmp(out->method, "PUT") == 0 || strcmp(out->method, "PATCH") == 0;

	if (strcmp(out->method, "HEAD") == 0) {
		curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
		return;
	}
	if (sends) {
		curl_easy_setopt(e, CURLOPT_POST, 1L);
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, out->body.n > 0 ? out->body.p : "");
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)out->body.n);
	}
	curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, out->method);
}

static CURLcode on_ssl_ctx(CURL *easy UNUSED, void *ssl_ctx, void *user)
{
	const struct http_client *c = user;

	SSL_CTX_set1_cert_store(ssl_ctx, c->roots);
	return CURLE_OK;
}

static struct curl_blob pem_blob(const char *pem)
{
	return (struct curl_blob){ .data = (void *)(uintptr_t)pem,
		.len = strlen(pem),
		.flags = CURL_BLOB_COPY };
}

/* Passes blobs instead of files, because curl compares blobs before it shares a connection. */
static void tls_own_set(CURL *e, const struct spot_http_request *out)
{
	struct curl_blob cert = pem_blob(out->tls_cert_pem != NULL ? out->tls_cert_pem : "");
	struct curl_blob key = pem_blob(out->tls_key_pem != NULL ? out->tls_key_pem : "");

	if (cert.len == 0 || key.len == 0) {
		return;
	}
	curl_easy_setopt(e, CURLOPT_SSLCERT_BLOB, &cert);
	curl_easy_setopt(e, CURLOPT_SSLCERTTYPE, "PEM");
	curl_easy_setopt(e, CURLOPT_SSLKEY_BLOB, &key);
	curl_easy_setopt(e, CURLOPT_SSLKEYTYPE, "PEM");
}

static void tls_set(CURL *e, struct http_client *c, const struct spot_http_request *out)
{
	tls_own_set(e, out);
	if (out->tls_ca_pem != NULL) {
		return; /* the policy has set them */
	}
	if (curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_ssl_ctx) == CURLE_OK) {
		curl_easy_setopt(e, CURLOPT_SSL_CTX_DATA, c);
		curl_easy_setopt(e, CURLOPT_CAINFO, NULL);
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	} else if (c->ca_file != NULL) {
		curl_easy_setopt(e, CURLOPT_CAINFO, c->ca_file); /* curl without OpenSSL */
	}
}

void http_easy_set(struct xfer *x, const struct spot_http_request *out, int64_t timeout_us)
{
	CURL *e = x->easy;
	int64_t ms = (timeout_us + 999) / 1000;
	/* The deadline of the op comes first. */
	struct curl_policy policy = { .total_ms = ms + 1000,
		.connect_ms = MAX(INT64_C(1), MIN(ms * 3 / 4, (int64_t)CURL_CONNECT_MS)),
		.ca_pem = out->tls_ca_pem,
		.no_proxy = x->client->no_proxy,
		.user_agent = x->client->user_agent };

	curl_policy_set(e, &policy);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_PRIVATE, x);
	curl_easy_setopt(e, CURLOPT_URL, out->url);
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L); /* the signature covers the path as given */
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, x->headers_out);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, http_on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, http_on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, x->words);
	/* curl repeats a request by itself when a reused connection turns out dead. A mutating
	 * request must not go out twice without our knowledge. */
	if (out->fresh_connection || x->req->mutating) {
		curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
		curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
	}
	tls_set(e, x->client, out);
	method_set(e, out);
}
