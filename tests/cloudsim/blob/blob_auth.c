/*
 * Authorization by Shared Key (REST reference, "Authorize with Shared Key"), service SAS and user
 * delegation SAS, or bearer tokens. The SAS pages are "Create a service SAS" and "Create a user
 * delegation SAS". Also Get User Delegation Key. Every signature is computed anew from the request
 * as it came.
 */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/blob/blob.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"

#include <strings.h>

#define KEY_DAYS_MAX (7LL * 24 * SPOT_US_PER_HOUR)

static bool refusal_send(struct blob_call *b, const char *code, const char *message)
{
	blob_fail(b, 403, code, message);
	return false;
}

static bool bad_signature(struct blob_call *b, const char *detail)
{
	return refusal_send(b, "AuthenticationFailed",
	    arena_printf(b->rq->arena,
		"Server failed to authenticate the request. Make sure the value of Authorization "
		"header is "
		"formed correctly including the signature. %s",
		detail));
}

static const char *hmac64_make(struct arena *a, const char *key64, const char *text)
{
	uint8_t mac[SHA256_BYTES];
	struct str key;

	if (!base64_decode(a, key64, strlen(key64), &key)) {
		return "";
	}
	hmac_sha256(key.p, key.n, text, strlen(text), mac);
	return base64_encode(a, mac, sizeof(mac));
}

/* ---- Shared Key ------------------------------------------------------------------------------ */

struct pair {
	const char *key, *value;
};

static int by_key(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static const char *text_trim(struct arena *a, const char *v)
{
	size_t n;

	while (*v == ' ' || *v == '\t') {
		v++;
	}
	n = strlen(v);
	while (n > 0 && (v[n - 1] == ' ' || v[n - 1] == '\t')) {
		n--;
	}
	return arena_strndup(a, v, n);
}

static void add_headers(struct blob_call *b, struct sbuf *out)
{
	const struct httpd_req *r = b->rq->http;
	struct pair *list = arena_array(b->rq->arena, r->headers_n + 1, sizeof(*list));
	size_t n = 0;

	for (size_t k = 0; k < r->headers_n; k++) {
		if (strncasecmp(r->headers[k].name, "x-ms-", 5) == 0) {
			list[n++] = (struct pair){ az_lower(b->rq->arena, r->headers[k].name),
				text_trim(b->rq->arena, r->headers[k].value) };
		}
	}
	if (n > 1) {
		qsort(list, n, sizeof(*list), by_key);
	}
	for (size_t k = 0; k < n; k++) {
		sbuf_printf(out, "%s:%s\n", list[k].key, list[k].value);
	}
}

/* "/account" and the path as sent, then the decoded parameters by name. */
static void add_resource(struct blob_call *b, struct sbuf *out)
{
	struct arena *a = b->rq->arena;
	const char *p = b->rq->http->query;
	struct pair *list = arena_array(a, strlen(p) + 1, sizeof(*list));
	size_t n = 0;

	sbuf_printf(out, "/" AZ_ACCOUNT "%s", b->rq->http->path);
	while (*p) {
		const char *end = strchrnul(p, '&'), *eq = memchr(p, '=', (size_t)(end - p));
		const char *stop = eq ? eq : end;
		char *key, *value = arena_strdup(a, "");

		if (url_decode(a, (struct str){ p, (size_t)(stop - p) }, true, &key) &&
		    (!eq ||
			url_decode(a, (struct str){ eq + 1, (size_t)(end - eq - 1) }, true,
			    &value))) {
			list[n++] = (struct pair){ az_lower(a, key), value };
		}
		p = *end ? end + 1 : end;
	}
	if (n > 1) {
		qsort(list, n, sizeof(*list), by_key);
	}
	for (size_t k = 0; k < n; k++) {
		sbuf_printf(out, "\n%s:%s", list[k].key, list[k].value);
	}
}

static bool shared_key(struct blob_call *b, const char *given)
{
	static const char *const fields[] = { "content-encoding", "content-language",
		"content-length", "content-md5", "content-type", "date", "if-modified-since",
		"if-match", "if-none-match", "if-unmodified-since", "range" };
	struct sbuf s AUTO(sbuf) = { 0 };

	sbuf_init(&s, 1 << 16);
	sbuf_printf(&s, "%s\n", b->rq->http->method);
	for (size_t k = 0; k < ARRAY_LEN(fields); k++) {
		const char *v = blob_header(b, fields[k]);

		if (!v || (str_same(fields[k], "content-length") && str_same(v, "0")) ||
		    (str_same(fields[k], "date") && blob_header(b, "x-ms-date"))) {
			v = "";
		}
		sbuf_printf(&s, "%s\n", text_trim(b->rq->arena, v));
	}
	add_headers(b, &s);
	add_resource(b, &s);
	if (!str_prefix(given, AZ_ACCOUNT ":")) {
		return bad_signature(b, "The account is not this one.");
	}
	if (str_same(given + strlen(AZ_ACCOUNT ":"),
		hmac64_make(b->rq->arena, b->c->az->storage_key, s.p))) {
		return true;
	}
	return bad_signature(b,
	    arena_printf(b->rq->arena,
		"The MAC signature found in the HTTP request is not the same as any "
		"computed signature. Server used following string to sign: '%s'.",
		s.p));
}

/* Dates may be off by 15 minutes. */
static bool date_good(struct blob_call *b)
{
	const char *date = blob_header(b, "x-ms-date");
	char now[64];
	int64_t wall = sim_wall(b->rq->sim) + b->rq->skew_us;

	if (!date) {
		date = blob_header(b, "date");
	}
	if (!date) {
		return bad_signature(b, "A Date or x-ms-date header is needed.");
	}
	for (int64_t minute = -15; minute <= 15; minute++) {
		sim_http_date(wall + minute * 60 * SPOT_US_PER_S, now);
		/* by the minute: "Sat, 21 Nov 2026 06:00" */
		if (strncmp(now, date, 22) == 0) {
			return true;
		}
	}
	return bad_signature(b, "The date header in the request is incorrect.");
}

/* ---- SAS ------------------------------------------------------------------------------------- */

static void field_add(struct blob_call *b, struct sbuf *s, const char *name)
{
	const char *v = az_query(b->c, name);

	sbuf_printf(s, "%s\n", v ? v : "");
}

static void fields_add(struct blob_call *b, struct sbuf *s, const char *const *names)
{
	for (; *names; names++) {
		field_add(b, s, *names);
	}
}

static const struct az_user_key *user_key(struct blob_call *b)
{
	const struct az_user_key *k = b->c->az->user_keys;

	while (k &&
	    !(str_same(k->oid, az_query(b->c, "skoid")) &&
		str_same(k->start, az_query(b->c, "skt")) &&
		str_same(k->expiry, az_query(b->c, "ske")))) {
		k = k->next;
	}
	return k;
}

static const char *sas_text(struct blob_call *b, bool delegated, const char *version)
{
	static const char *const first[] = { "sp", "st", "se", NULL },
				 *const key[] = { "skoid", "sktid", "skt", "ske", "sks", "skv",
					 "saoid", "suoid", "scid", NULL },
				 *const user[] = { "skdutid", "sduoid", NULL },
				 *const middle[] = { "sip", "spr", "sv", "sr", NULL },
				 *const last[] = { "rscc", "rscd", "rsce", "rscl", "rsct", NULL };
	struct sbuf s AUTO(sbuf) = { 0 };
	const char *sr = az_query(b->c, "sr");

	sbuf_init(&s, 1 << 16);
	fields_add(b, &s, first);
	sbuf_printf(&s, "/blob/" AZ_ACCOUNT "/%s", b->container);
	sbuf_printf(&s, "%s%s\n", str_same(sr, "c") ? "" : "/", str_same(sr, "c") ? "" : b->name);
	if (delegated) {
		fields_add(b, &s, key);
		if (strcmp(version, "2025-07-05") >= 0) {
			fields_add(b, &s, user);
		}
	} else {
		field_add(b, &s, "si");
	}
	fields_add(b, &s, middle);
	field_add(b, &s, "snapshot");
	if (strcmp(version, "2020-12-06") >= 0) {
		field_add(b, &s, "ses");
	}
	if (delegated && strcmp(version, "2026-04-06") >= 0) {
		sbuf_puts(&s, "\n\n"); /* signed request headers and query parameters: none here */
	}
	fields_add(b, &s, last);
	return arena_strndup(b->rq->arena, s.p, s.n - 1);
}

/* An ISO 8601 time to the second, minute or day. */
static bool sas_time(const char *text, int64_t *ret)
{
	char full[40];

	if (!text) {
		return false;
	}
	if (strlen(text) == 10) {
		snprintf(full, sizeof(full), "%sT00:00:00Z", text);
	} else if (strlen(text) == 17) {
		snprintf(full, sizeof(full), "%.16s:00Z", text);
	} else {
		snprintf(full, sizeof(full), "%.39s", text);
	}
	return parse_time_us(full, ret);
}

static bool sas_in_time(struct blob_call *b, bool delegated)
{
	int64_t now = sim_wall(b->rq->sim) + b->rq->skew_us, at;
	const char *start = az_query(b->c, "st");

	if (!sas_time(az_query(b->c, "se"), &at)) {
		return refusal_send(b, "AuthenticationFailed",
		    "Server failed to authenticate the request. Signed expiry is missing.");
	}
	if (b->rq->expire || at < now) {
		return refusal_send(b, "AuthenticationFailed",
		    "Server failed to authenticate the request. Signature not valid in the "
		    "specified time frame.");
	}
	if (start && (!sas_time(start, &at) || at > now)) {
		return refusal_send(b, "AuthenticationFailed",
		    "Server failed to authenticate the request. Signature not valid in the "
		    "specified time frame.");
	}
	if (delegated && (!sas_time(az_query(b->c, "ske"), &at) || at < now)) {
		return refusal_send(b, "AuthenticationFailed",
		    "Server failed to authenticate the request. The user delegation key is not "
		    "valid in the "
		    "specified time frame.");
	}
	return true;
}

/* The permissions that an operation needs; any one of them. */
static const char *permission_needed(struct blob_call *b)
{
	static const struct {
		const char *action, *letters;
	} table[] = { { "PutBlob", "wc" }, { "PutBlock", "w" }, { "PutBlockList", "wc" },
		{ "SetBlobMetadata", "w" }, { "GetBlockList", "r" }, { "GetBlob", "r" },
		{ "GetBlobProperties", "r" }, { "DeleteBlob", "d" }, { "ListBlobs", "l" } };

	for (size_t k = 0; k < ARRAY_LEN(table); k++) {
		if (str_same(table[k].action, b->rq->action)) {
			return table[k].letters;
		}
	}
	return "";
}

/* "c" alone creates and does not overwrite. */
static bool sas_permits(struct blob_call *b)
{
	const char *sp = az_query(b->c, "sp"), *need = permission_needed(b);
	const struct blob *x = b->box && *b->name ? blob_find(b->box, b->name) : NULL;
	bool overwrite = x && x->committed && strchr(need, 'c');

	/* Staging blocks is "write"; "create" lets one stage blocks of a blob that is not there. */
	if (str_same(b->rq->action, "PutBlock") && !(x && x->committed)) {
		need = "wc";
	}
	for (const char *p = need; sp && *p; p++) {
		if (strchr(sp, *p) && !(overwrite && *p == 'c')) {
			return true;
		}
	}
	return refusal_send(b,
	    overwrite && sp && strchr(sp, 'c') ? "UnauthorizedBlobOverwrite"
					       : "AuthorizationPermissionMismatch",
	    "This request is not authorized to perform this operation using this permission.");
}

static bool sas_check(struct blob_call *b, const char *sig)
{
	const char *version = az_query(b->c, "sv"), *sr = az_query(b->c, "sr");
	bool delegated = az_query(b->c, "skoid") != NULL;
	const struct az_user_key *k = delegated ? user_key(b) : NULL;
	const char *text;

	if (!version || strcmp(version, "2018-11-09") < 0 ||
	    (!str_same(sr, "b") && !str_same(sr, "c"))) {
		return bad_signature(b, "sv or sr is missing or not supported.");
	}
	if (str_same(sr, "b") && !*b->name) {
		return bad_signature(b, "The signature is for a blob.");
	}
	if (str_same(az_query(b->c, "spr"), "https") && !b->rq->http->tls) {
		return refusal_send(b, "AuthorizationProtocolMismatch",
		    "This request is not authorized to perform this operation using this "
		    "protocol.");
	}
	if (delegated && !k) {
		return bad_signature(b, "The user delegation key is unknown.");
	}
	text = sas_text(b, delegated, version);
	if (!str_same(sig,
		hmac64_make(b->rq->arena, delegated ? k->value : b->c->az->storage_key, text))) {
		return bad_signature(b,
		    arena_printf(b->rq->arena,
			"Signature did not match. String to sign used was %s", text));
	}
	return sas_in_time(b, delegated) && sas_permits(b);
}

/* ---- all together ---------------------------------------------------------------------------- */

static bool bearer_check(struct blob_call *b)
{
	const char *const audiences[] = { "https://storage.azure.com",
		"https://" AZ_ACCOUNT ".blob.core.windows.net", NULL };
	const char *wrong = az_token_check(b->c, audiences);

	if (!wrong) {
		return true;
	}
	blob_fail(b, 401, "InvalidAuthenticationInfo",
	    arena_printf(b->rq->arena,
		"Server failed to authenticate the request. Please refer to the information in the "
		"www-authenticate header. (%s)",
		wrong));
	reply_header(b->rep, "WWW-Authenticate",
	    arena_printf(b->rq->arena,
		"Bearer authorization_uri=%s/%s/oauth2/authorize "
		"resource_id=https://storage.azure.com",
		b->c->base, AZ_TENANT));
	return false;
}

bool blob_authorized(struct blob_call *b)
{
	const char *auth = blob_header(b, "authorization"), *sig = az_query(b->c, "sig");

	if (!auth && sig) {
		return sas_check(b, sig);
	}
	if (!auth) {
		blob_fail(b, 401, "NoAuthenticationInformation",
		    "Server failed to authenticate the request. Please refer to the information in "
		    "the "
		    "www-authenticate header.");
		return false;
	}
	if (strncasecmp(auth, "SharedKey ", 10) == 0) {
		return date_good(b) &&
		    (b->rq->expire ? bad_signature(b, "The key is gone.")
				   : shared_key(b, auth + 10));
	}
	if (strncasecmp(auth, "Bearer ", 7) == 0) {
		return bearer_check(b);
	}
	blob_fail(b, 400, "InvalidAuthenticationInfo", "Authentication scheme is not supported.");
	return false;
}

/* ---- user delegation keys -------------------------------------------------------------------- */

void az_user_key_drop(struct az_user_key *k)
{
	free(k->oid);
	free(k->start);
	free(k->expiry);
	free(k->version);
	free(k->value);
	free(k);
}

static const char *element_get(struct blob_call *b, const char *name)
{
	struct arena *a = b->rq->arena;
	const char *text =
	    arena_strndup(a, b->rq->http->body.p ? b->rq->http->body.p : "", b->rq->http->body.n);
	const char *open = strstr(text, arena_printf(a, "<%s>", name)),
		   *close = strstr(text, arena_printf(a, "</%s>", name));

	return open && close > open
	    ? arena_strndup(a, open + strlen(name) + 2, (size_t)(close - open) - strlen(name) - 2)
	    : NULL;
}

static const struct az_user_key *key_made(struct blob_call *b, const char *start,
    const char *expiry)
{
	struct az_user_key *k = calloc(1, sizeof(*k));
	uint8_t raw[32];

	if (!k) {
		abort();
	}
	b->rq->sim->rng.fill(&b->rq->sim->rng, raw, sizeof(raw));
	*k = (struct az_user_key){ .next = b->c->az->user_keys,
		.oid = dup_text(b->c->oid),
		.start = dup_text(start),
		.expiry = dup_text(expiry),
		.version = dup_text(blob_header(b, "x-ms-version")),
		.value = dup_text(base64_encode(b->rq->arena, raw, sizeof(raw))) };
	b->c->az->user_keys = k;
	return k;
}

/* Only with a bearer token; at most seven days. */
void blob_user_key(struct blob_call *b)
{
	const char *start = element_get(b, "Start"), *expiry = element_get(b, "Expiry");
	int64_t now = sim_wall(b->rq->sim), from = now, to;
	const struct az_user_key *k;
	struct sbuf out AUTO(sbuf) = { 0 };
	char made[TIME_TEXT_MAX];

	if (!b->c->oid[0]) {
		blob_fail(b, 403, "AuthenticationFailed",
		    "Only authentication scheme Bearer is supported.");
		return;
	}
	if (!sas_time(expiry, &to) || (start && !sas_time(start, &from))) {
		blob_fail(b, 400, "InvalidXmlDocument",
		    "XML specified is not syntactically valid.");
		return;
	}
	if (to > now + KEY_DAYS_MAX + 60 * SPOT_US_PER_S || to <= from) {
		blob_fail(b, 400, "InvalidXmlNodeValue",
		    "The value for one of the XML nodes is not in the correct format.");
		return;
	}
	k = key_made(b, start ? start : format_time_s(now, made), expiry);
	sbuf_init(&out, 1 << 14);
	sbuf_printf(&out,
	    "<UserDelegationKey><SignedOid>%s</SignedOid><SignedTid>" AZ_TENANT
	    "</SignedTid><SignedStart>%s</SignedStart><SignedExpiry>%s</"
	    "SignedExpiry><SignedService>b"
	    "</SignedService><SignedVersion>%s</SignedVersion><Value>%s</Value></"
	    "UserDelegationKey>",
	    k->oid, k->start, k->expiry, k->version, k->value);
	blob_xml(b, 200, &out);
}
