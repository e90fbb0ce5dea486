#include "base/base.h"
#include "azure_priv.h"

/*
 * Sending to the Resource Manager and reading what comes back: bearer token, correlation, JSON,
 * pages. Links of the vendor (next pages, operations) are followed only to the host that is
 * configured, because the token goes with them.
 */

#include "base/crypto/crypto.h"

#include <strings.h>

#define LINK_MAX 8000

/* For tracing only: Azure has no idempotency key (learn.microsoft.com/rest/api/azure, common
 * request headers). */
const char *azure_request_id(struct spot_call *c)
{
	const int64_t seed[] = { (int64_t)c->rnd, c->now_us };
	uint8_t h[SHA256_BYTES];
	char hex[33];

	sha256(seed, sizeof(seed), h);
	h[6] = (uint8_t)((h[6] & 0x0f) | 0x40);
	h[8] = (uint8_t)((h[8] & 0x3f) | 0x80);
	hex_encode(h, 16, hex);
	return arena_printf(c->arena, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
	    hex + 20);
}

enum spot_step azure_send(struct azure *self, struct spot_call *c, const struct azure_request *r)
{
	if (!secret_set(&self->arm.value)) {
		return call_fail(c, SPOT_UNAUTHENTICATED, NULL, "azure %s: no token yet", r->what);
	}
	call_request(c, r->method,
	    r->url != NULL ? r->url : arena_printf(c->arena, "%s%s", self->endpoint, r->path));
	call_header(c, "authorization",
	    arena_printf(c->arena, "Bearer %s", secret_reveal(&self->arm.value)));
	call_header(c, "accept", "application/json");
	call_header(c, "x-ms-client-request-id", azure_request_id(c));
	call_header(c, "x-ms-return-client-request-id", "true");
	if (r->body != NULL) {
		call_body(c, "application/json", r->body, strlen(r->body));
	}
	c->limit = (int)r->limit;
	c->limit_cost = 1;
	c->limit_scope = r->limit_scope != NULL ? r->limit_scope : "";
	c->mutating = r->mutating;
	/* A request that creates something must not be re-sent by the transport on its own. */
	c->out.fresh_connection = r->mutating;
	c->out.reply_bytes_max = r->reply_bytes_max;
	c->out.timeout_us = r->timeout_us;
	return SPOT_SEND;
}

const char *azure_text(const json_t *o, const char *key)
{
	const char *v = json_string_value(json_object_get(o, key));

	return v != NULL ? v : "";
}

const char *azure_tag(const json_t *tags, const char *name)
{
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)tags, key, v) {
		if (strcasecmp(key, name) == 0 && json_is_string(v)) {
			return json_string_value(v);
		}
	}
	return "";
}

/* ---- replies --------------------------------------------------------------------------------- */

enum spot_step azure_reply_plain(struct spot_call *c, const char *what)
{
	const char *code, *message;

	if (c->in->status == 0) {
		return call_no_reply(c, "azure", what);
	}
	if (c->in->status >= 200 && c->in->status < 300) {
		return SPOT_STEP_NONE;
	}
	azure_error_read(c, &code, &message);
	return azure_error(c, what, code, message);
}

enum spot_step azure_reply(struct spot_call *c, const char *what, json_t **ret)
{
	enum spot_step s = azure_reply_plain(c, what);

	return s != SPOT_STEP_NONE ? s : call_json_object(c, "azure", what, ret);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* The end of scheme://host[:port], and without the port if it is the scheme's own. */
static size_t host_end(const char *url, size_t *ret_bare)
{
	const char *scheme_end = strstr(url, "://");
	const char *own = strncasecmp(url, "https", 5) == 0 ? ":443" : ":80";
	size_t n, own_n = strlen(own);

	if (scheme_end == NULL) {
		return *ret_bare = 0;
	}
	n = (size_t)(scheme_end + 3 - url);
	n += strcspn(url + n, "/?#");
	*ret_bare = n > own_n && strncmp(url + n - own_n, own, own_n) == 0 ? n - own_n : n;
	return n;
}

bool azure_same_host(const char *base, const char *url)
{
	size_t a, b;

	host_end(base, &a);
	host_end(url, &b);
	return a > 0 && a == b && strncasecmp(base, url, a) == 0 && memchr(url, '@', b) == NULL;
}

/* Links may come with blanks and quotes in the clear (Retail Prices does that); a % is one that is
 * encoded. */
static const char *link_encode(struct arena *a, const char *link)
{
	char *out = arena_alloc(a, strlen(link) * 3 + 1), *to = out;

	for (const unsigned char *p = (const unsigned char *)link; *p != '\0'; p++) {
		if (*p <= ' ' || *p >= 0x7f || strchr("'\"<>{}|\\^`", *p) != NULL) {
			to += snprintf(to, 4, "%%%02X", *p);
		} else {
			*to++ = (char)*p;
		}
	}
	return out;
}

enum spot_step azure_next_page(struct call_state *st, struct spot_call *c, const char *what,
    const char *base, const char *link)
{
	bool bad;

	if (!str_empty(link) && !azure_same_host(base, link)) {
		return azure_bad_reply(c, what, "the link to the next page leads to another host");
	}
	if (!str_empty(link) && strlen(link) > LINK_MAX) {
		return azure_bad_reply(c, what, "the link to the next page has no end");
	}
	if (!str_empty(link)) {
		link = link_encode(c->arena, link);
	}
	call_next_page(c->arena, link, AZURE_PAGES_MAX, &st->next, &st->pages, &bad);
	return bad ? azure_bad_reply(c, what,
			 "the link to the next page repeats, or there is no end to its pages")
		   : SPOT_STEP_NONE;
}
