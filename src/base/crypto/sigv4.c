/*
 * AWS Signature Version 4:
 * docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html and, for
 * query-string signing, docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html. Pure:
 * time and keys are arguments, headers or a URL are the result.
 */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <strings.h>

struct url_parts {
	char *host; /* without a default port */
	char *path; /* "/" at least, as in the url */
	char *query; /* "" if none */
	char *base; /* scheme, host and path: everything before '?' */
};

static struct url_parts url_split(struct arena *a, const char *url)
{
	const char *scheme = strstr(url, "://");
	const char *host = scheme != NULL ? scheme + 3 : url;
	size_t host_n = strcspn(host, "/?#");
	const char *path = host + host_n;
	size_t path_n = strcspn(path, "?#");
	const char *query = path + path_n;
	size_t query_n = *query == '?' ? strcspn(query + 1, "#") : 0;
	struct url_parts u;

	u.host = arena_strndup(a, host, host_n);
	for (char *c = u.host; *c != '\0'; c++) {
		if (*c >= 'A' && *c <= 'Z') {
			*c = (char)(*c - 'A' + 'a');
		}
	}
	/* The HTTP client leaves a default port out of Host, so the signature must too. */
	bool tls = str_prefix(url, "https:");
	if (str_suffix(u.host, tls ? ":443" : ":80")) {
		u.host[strlen(u.host) - (tls ? 4 : 3)] = '\0';
	}
	u.path = path_n > 0 ? arena_strndup(a, path, path_n) : arena_strdup(a, "/");
	u.query = query_n > 0 ? arena_strndup(a, query + 1, query_n) : arena_strdup(a, "");
	u.base = arena_printf(a, "%.*s%s", (int)(path - url), url, u.path);
	return u;
}

static char *part_recode(struct arena *a, const char *p, size_t n)
{
	char *plain;

	if (!url_decode(a, (struct str){ p, n }, false, &plain)) {
		plain = arena_strndup(a, p, n);
	}
	return url_encode(a, plain, false);
}

struct pair {
	const char *name, *value;
};

static int pair_compare(const void *x, const void *y)
{
	const struct pair *a = x, *b = y;
	int by_name = strcmp(a->name, b->name);

	return by_name != 0 ? by_name : strcmp(a->value, b->value);
}

/* Decodes and encodes every name and value of "a=b&c" and sorts the pairs. */
static char *query_canonical(struct arena *a, const char *query)
{
	struct pair *pairs = NULL;
	size_t n = 0, cap = 0, len = 1;

	while (*query != '\0') {
		size_t part = strcspn(query, "&");
		const char *eq = memchr(query, '=', part);
		size_t name_n = eq != NULL ? (size_t)(eq - query) : part;

		if (part > 0) {
			pairs = arena_grow(a, pairs, n, &cap, sizeof(*pairs));
			pairs[n].name = part_recode(a, query, name_n);
			pairs[n].value =
			    eq != NULL ? part_recode(a, eq + 1, part - name_n - 1) : "";
			len += strlen(pairs[n].name) + strlen(pairs[n].value) + 2;
			n++;
		}
		query += part;
		query += *query == '&';
	}
	if (n > 0) {
		qsort(pairs, n, sizeof(*pairs), pair_compare);
	}
	char *out = arena_alloc(a, len);
	char *at = out;
	for (size_t i = 0; i < n; i++) {
		if (i > 0) {
			*at++ = '&';
		}
		at = stpcpy(at, pairs[i].name);
		*at++ = '=';
		at = stpcpy(at, pairs[i].value);
	}
	return out;
}

/* The signature leaves out hop-by-hop headers and headers that proxies rewrite. */
static bool header_signed(const char *name)
{
	static const char *const never[] = { "connection", "expect", "keep-alive", "te", "trailer",
		"transfer-encoding", "upgrade", "user-agent", "x-amzn-trace-id", "authorization",
		"content-length" };

	for (size_t i = 0; i < ARRAY_LEN(never); i++) {
		if (strcasecmp(name, never[i]) == 0) {
			return false;
		}
	}
	return strncasecmp(name, "proxy-", 6) != 0;
}

static char *name_lower(struct arena *a, const char *name)
{
	char *s = arena_strdup(a, name);

	for (char *c = s; *c != '\0'; c++) {
		if (*c >= 'A' && *c <= 'Z') {
			*c = (char)(*c - 'A' + 'a');
		}
	}
	return s;
}

/* Drops outer blanks and makes each inner run of blanks one blank. */
static char *value_trim(struct arena *a, const char *value)
{
	char *out = arena_alloc(a, strlen(value) + 1);
	size_t n = 0;

	for (; *value != '\0'; value++) {
		bool blank = *value == ' ' || *value == '\t';

		if (!blank) {
			out[n++] = *value;
		} else if (n > 0 && out[n - 1] != ' ') {
			out[n++] = ' ';
		}
	}
	while (n > 0 && out[n - 1] == ' ') {
		n--;
	}
	out[n] = '\0';
	return out;
}

struct canon_headers {
	char *lines, *names;
};

static struct canon_headers headers_canonical(struct arena *a, const struct spot_http_request *req,
    const char *host)
{
	struct pair pairs[SPOT_HTTP_HEADERS_MAX + 1];
	struct canon_headers c = { arena_strdup(a, ""), arena_strdup(a, "") };
	bool has_host = false;
	size_t n = 0;

	for (size_t i = 0; i < req->headers_n; i++) {
		if (!header_signed(req->headers[i].name)) {
			continue;
		}
		pairs[n].name = name_lower(a, req->headers[i].name);
		pairs[n].value = value_trim(a, req->headers[i].value);
		has_host |= strcmp(pairs[n].name, "host") == 0;
		n++;
	}
	if (!has_host) {
		pairs[n++] = (struct pair){ "host", host };
	}
	qsort(pairs, n, sizeof(*pairs), pair_compare);
	for (size_t i = 0; i < n; i++) {
		bool again = i > 0 && strcmp(pairs[i].name, pairs[i - 1].name) == 0;

		if (again) {
			c.lines[strlen(c.lines) - 1] = '\0';
			c.lines = arena_printf(a, "%s,%s\n", c.lines, pairs[i].value);
			continue;
		}
		c.lines = arena_printf(a, "%s%s:%s\n", c.lines, pairs[i].name, pairs[i].value);
		c.names = arena_printf(a, "%s%s%s", c.names, i > 0 ? ";" : "", pairs[i].name);
	}
	return c;
}

/* S3 signs the path as it stands; every other service encodes it once more. */
static const char *path_canonical(struct arena *a, const struct sigv4 *k, const char *path)
{
	return strcmp(k->service, "s3") == 0 ? path : url_encode(a, path, true);
}

/* "20150830T123600Z" */
static char *date_basic(struct arena *a, int64_t now_us)
{
	char text[TIME_TEXT_MAX];
	char *out = arena_alloc(a, sizeof(text));
	size_t n = 0;

	format_time_s(now_us, text);
	for (const char *c = text; *c != '\0'; c++) {
		if (*c != '-' && *c != ':') {
			out[n++] = *c;
		}
	}
	return out;
}

static char *scope_of(struct arena *a, const struct sigv4 *k, const char *date)
{
	return arena_printf(a, "%.8s/%s/%s/aws4_request", date, k->region, k->service);
}

static void signature_make(const struct sigv4 *k, const char *date, const char *scope,
    const char *canonical, struct arena *a, char ret[SHA256_HEX])
{
	char hash[SHA256_HEX];
	uint8_t key[SHA256_BYTES];

	sha256_hex(canonical, strlen(canonical), hash);
	char *to_sign = arena_printf(a, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hash);
	size_t n = strlen(k->secret_key) + 4;
	char *first = malloc(n + 1);
	if (first == NULL) {
		abort();
	}
	snprintf(first, n + 1, "AWS4%s", k->secret_key);
	hmac_sha256(first, n, date, 8, key);
	mem_wipe(first, n);
	free(first);
	hmac_sha256(key, sizeof(key), k->region, strlen(k->region), key);
	hmac_sha256(key, sizeof(key), k->service, strlen(k->service), key);
	hmac_sha256(key, sizeof(key), "aws4_request", 12, key);
	hmac_sha256(key, sizeof(key), to_sign, strlen(to_sign), key);
	hex_encode(key, sizeof(key), ret);
	mem_wipe(key, sizeof(key));
}

/* Replaces an earlier value, so that a request can be signed again. */
static void header_set(struct spot_http_request *req, const char *name, const char *value)
{
	for (size_t i = 0; i < req->headers_n; i++) {
		if (strcasecmp(req->headers[i].name, name) == 0) {
			req->headers[i].value = value;
			return;
		}
	}
	if (req->headers_n == SPOT_HTTP_HEADERS_MAX) {
		fprintf(stderr, "sigv4: more than %d headers\n", SPOT_HTTP_HEADERS_MAX);
		abort();
	}
	req->headers[req->headers_n++] = (struct spot_header){ name, value };
}

void sigv4_sign(struct arena *a, const struct sigv4 *k, struct spot_http_request *req)
{
	struct url_parts u = url_split(a, req->url);
	char *date = date_basic(a, k->now_us);
	char *scope = scope_of(a, k, date);
	char body_hash[SHA256_HEX], sig[SHA256_HEX];
	const char *payload = k->payload_sha256;

	if (payload == NULL) {
		sha256_hex(req->body.p, req->body.n, body_hash);
		payload = arena_strdup(a, body_hash);
	}
	header_set(req, "x-amz-date", date);
	if (!str_empty(k->session_token)) {
		header_set(req, "x-amz-security-token", arena_strdup(a, k->session_token));
	}
	if (strcmp(k->service, "s3") == 0) {
		header_set(req, "x-amz-content-sha256", payload);
	}
	struct canon_headers h = headers_canonical(a, req, u.host);
	char *canonical = arena_printf(a, "%s\n%s\n%s\n%s\n%s\n%s", req->method,
	    path_canonical(a, k, u.path), query_canonical(a, u.query), h.lines, h.names, payload);
	signature_make(k, date, scope, canonical, a, sig);
	header_set(req, "authorization",
	    arena_printf(a, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
		k->access_key, scope, h.names, sig));
}

char *sigv4_presign(struct arena *a, const struct sigv4 *k, const char *method, const char *url,
    int64_t expires_s)
{
	struct url_parts u = url_split(a, url);
	char *date = date_basic(a, k->now_us);
	char *scope = scope_of(a, k, date);
	const char *payload = k->payload_sha256 != NULL ? k->payload_sha256 : "UNSIGNED-PAYLOAD";
	char sig[SHA256_HEX];
	char *query = arena_printf(a,
	    "%s%sX-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=%s%%2F%s&X-Amz-Date=%s"
	    "&X-Amz-Expires=%" PRId64 "&X-Amz-SignedHeaders=host",
	    u.query, u.query[0] != '\0' ? "&" : "", url_encode(a, k->access_key, false),
	    url_encode(a, scope, false), date, expires_s);

	if (!str_empty(k->session_token)) {
		query = arena_printf(a, "%s&X-Amz-Security-Token=%s", query,
		    url_encode(a, k->session_token, false));
	}
	query = query_canonical(a, query);
	char *canonical = arena_printf(a, "%s\n%s\n%s\nhost:%s\n\nhost\n%s", method,
	    path_canonical(a, k, u.path), query, u.host, payload);
	signature_make(k, date, scope, canonical, a, sig);
	return arena_printf(a, "%s?%s&X-Amz-Signature=%s", u.base, query, sig);
}
