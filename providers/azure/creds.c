#include "base/base.h"
#include "azure_priv.h"

/*
 * Credentials: the frame of auth. Gets a token for the Resource Manager. If checkpoints go to a
 * storage account without a key, also a storage token and a user delegation key made with it. An
 * identity without the right to that key still has a provider: presigning says what is missing.
 */

#include "base/crypto/crypto.h"
#include "base/text/text.h"

#define RETRY_US (60 * SPOT_US_PER_S)
#define BLOB_RETRY_US (10 * 60 * SPOT_US_PER_S)
#define LEFT_MIN_US (60 * SPOT_US_PER_S)
#define DELEGATION_S (6 * 24 * 3600) /* at most 7 days: Get User Delegation Key */

enum { CREDENTIAL_FILE = 0, STORAGE_KEY_FILE, TOKEN_ARM, TOKEN_BLOB, DELEGATION };

void azure_token_fini(struct azure_token *t)
{
	secret_fini(&t->value);
	t->refresh_us = t->expires_us = 0;
}

void azure_delegation_fini(struct azure_delegation *d)
{
	secret_fini(&d->value);
	free(d->oid);
	free(d->tid);
	free(d->start);
	free(d->expiry);
	free(d->service);
	free(d->version);
	memset(d, 0, sizeof(*d));
}

bool azure_blob_wanted(const struct azure *self)
{
	return self->storage_account != NULL && self->storage_key_file == NULL &&
	    !secret_set(&self->storage_key);
}

static bool arm_due(const struct azure *self, int64_t now_us)
{
	return !secret_set(&self->arm.value) || now_us >= self->arm.refresh_us;
}

static bool blob_due(const struct azure *self, int64_t now_us)
{
	if (self->storage_key_file != NULL && !secret_set(&self->storage_key)) {
		return call_due(now_us, self->blob_retry_us, BLOB_RETRY_US);
	}
	/* A key from before its time was got by a clock that was ahead: what it signs now nobody
	 * takes. */
	return azure_blob_wanted(self) && call_due(now_us, self->blob_retry_us, BLOB_RETRY_US) &&
	    (!secret_set(&self->delegation.value) || now_us >= self->delegation.refresh_us ||
		now_us < self->delegation.from_us);
}

bool azure_auth_fresh(const void *p, int64_t now_us)
{
	const struct azure *self = p;

	if (!secret_set(&self->arm.value) || now_us >= self->arm.expires_us) {
		return false;
	}
	return !call_due(now_us, self->retry_us, RETRY_US) ||
	    (!arm_due(self, now_us) && !blob_due(self, now_us));
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *credential_path(const struct azure *self)
{
	switch (self->auth_kind) {
	case AUTH_SECRET:
		return self->secret_file;
	case AUTH_CERTIFICATE:
		return self->certificate_file;
	case AUTH_WORKLOAD:
		return self->federated_file;
	case AUTH_MANAGED:
		break;
	}
	return NULL;
}

/* Into to, without the line end behind it. */
static enum spot_step file_reply(struct spot_call *c, struct secret *to)
{
	struct str s = c->in->body;

	if (c->in->status == 403) {
		return call_fail(c, SPOT_CONFIG, NULL, "azure: may not read %s", c->path);
	}
	if (c->in->status != 200) {
		return call_fail(c, SPOT_CONFIG, NULL, "azure: %s is not there", c->path);
	}
	while (s.n > 0 && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == '\r' || s.p[s.n - 1] == ' ')) {
		s.n--;
	}
	if (s.n == 0) {
		return call_fail(c, SPOT_CONFIG, NULL, "azure: %s is empty", c->path);
	}
	secret_fini(to);
	secret_init(to, s.p, s.n);
	return SPOT_STEP_NONE;
}

/* ---- user delegation key --------------------------------------------------------------------- */

/* learn.microsoft.com/rest/api/storageservices/get-user-delegation-key */
static enum spot_step delegation_send(struct azure *self, struct spot_call *c)
{
	char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
	const char *body;

	/* From a little before now: clocks differ. */
	format_time_s(c->now_us - 300 * SPOT_US_PER_S, from);
	format_time_s(c->now_us + DELEGATION_S * SPOT_US_PER_S, to);
	body = arena_printf(c->arena,
	    "<?xml version=\"1.0\" "
	    "encoding=\"utf-8\"?><KeyInfo><Start>%s</Start><Expiry>%s</Expiry></KeyInfo>",
	    from, to);
	call_request(c, "POST",
	    arena_printf(c->arena, "%s/?restype=service&comp=userdelegationkey",
		self->blob_endpoint));
	call_header(c, "authorization",
	    arena_printf(c->arena, "Bearer %s", secret_reveal(&self->blob.value)));
	call_header(c, "x-ms-version", API_BLOB);
	call_header(c, "x-ms-client-request-id", azure_request_id(c));
	call_body(c, "application/xml", body, strlen(body));
	c->limit = AZURE_LIMIT_BLOB;
	c->limit_cost = 1;
	c->limit_scope = "";
	c->mutating = false;
	return SPOT_SEND;
}

/* It goes into the addresses of objects: nothing but what the vendor's values are made of. */
static char *delegation_part(const struct xml *x, const char *name)
{
	const char *v = xml_text(x, name, "");
	size_t n = strlen(v);

	if (n == 0 || n > 100 ||
	    strspn(v, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-:.") != n) {
		return NULL;
	}
	return strdup(v);
}

static enum spot_step delegation_reply(struct azure *self, struct spot_call *c)
{
	struct azure_delegation d = { 0 };
	struct xml *doc = NULL;
	struct str raw;
	const char *value;
	enum spot_step s = azure_reply_plain(c, "Get User Delegation Key");

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (xml_parse(c->arena, c->in->body, &doc, NULL) != SPOT_OK ||
	    strcmp(doc->name, "UserDelegationKey") != 0) {
		return azure_bad_reply(c, "Get User Delegation Key", "no UserDelegationKey");
	}
	d.oid = delegation_part(doc, "SignedOid");
	d.tid = delegation_part(doc, "SignedTid");
	d.start = delegation_part(doc, "SignedStart");
	d.expiry = delegation_part(doc, "SignedExpiry");
	d.service = delegation_part(doc, "SignedService");
	d.version = delegation_part(doc, "SignedVersion");
	value = xml_text(doc, "Value", "");
	if (d.oid == NULL || d.tid == NULL || d.start == NULL || d.expiry == NULL ||
	    d.service == NULL || d.version == NULL || !parse_time_us(d.expiry, &d.expires_us) ||
	    !parse_time_us(d.start, &d.from_us) || *value == '\0' ||
	    !base64_decode(c->arena, value, strlen(value), &raw)) {
		azure_delegation_fini(&d);
		return azure_bad_reply(c, "Get User Delegation Key", "a part is missing");
	}
	secret_init(&d.value, value, strlen(value));
	d.refresh_us = c->now_us + (d.expires_us - c->now_us) / 2;
	azure_delegation_fini(&self->delegation);
	self->delegation = d;
	self->blob_refused[0] = '\0';
	return SPOT_STEP_NONE;
}

/* ---- the frame ------------------------------------------------------------------------------- */

static void auth_over(struct azure *self)
{
	secret_fini(&self->credential);
}

/* A token that still works for a while does for a minute. */
static enum spot_step auth_failed(struct azure *self, struct spot_call *c, enum spot_step s)
{
	auth_over(self);
	if (secret_set(&self->arm.value) && c->now_us + LEFT_MIN_US < self->arm.expires_us &&
	    arm_due(self, c->now_us)) {
		self->retry_us = c->now_us + RETRY_US;
		return SPOT_DONE;
	}
	return s;
}

/* Storage only: the rest of the provider works without. */
static enum spot_step blob_failed(struct azure *self, struct spot_call *c)
{
	snprintf(self->blob_refused, sizeof(self->blob_refused), "%.190s", c->err.text);
	self->blob_retry_us = c->now_us + BLOB_RETRY_US;
	c->err = (struct spot_err){ 0 };
	auth_over(self);
	return SPOT_DONE;
}

static enum spot_step auth_reply(struct azure *self, struct spot_call *c)
{
	struct call_state *st = c->state;
	enum spot_step s;

	switch (st->at) {
	case CREDENTIAL_FILE:
		s = file_reply(c, &self->credential);
		break;
	case STORAGE_KEY_FILE:
		s = file_reply(c, &self->storage_key);
		break;
	case TOKEN_ARM:
		s = azure_token_reply(self, c, &self->arm);
		break;
	case TOKEN_BLOB:
		s = azure_token_reply(self, c, &self->blob);
		break;
	default:
		s = delegation_reply(self, c);
		break;
	}
	if (s == SPOT_STEP_NONE) {
		st->at++;
	}
	return s;
}

static enum spot_step auth_read(struct spot_call *c, const char *path)
{
	c->path = path;
	return SPOT_READ;
}

/* Asks for what is next. */
static enum spot_step auth_ask(struct azure *self, struct spot_call *c)
{
	struct call_state *st = c->state;

	if (st->at == CREDENTIAL_FILE) {
		if (credential_path(self) != NULL) {
			return auth_read(c, credential_path(self));
		}
		st->at++;
	}
	if (st->at == STORAGE_KEY_FILE) {
		if (self->storage_key_file != NULL) {
			return auth_read(c, self->storage_key_file);
		}
		st->at++;
	}
	if (st->at == TOKEN_ARM) {
		return azure_token_send(self, c, self->audience);
	}
	if (azure_blob_wanted(self) && st->at == TOKEN_BLOB) {
		return azure_token_send(self, c, "https://storage.azure.com");
	}
	if (azure_blob_wanted(self) && st->at == DELEGATION) {
		return delegation_send(self, c);
	}
	auth_over(self);
	self->retry_us = 0;
	return SPOT_DONE;
}

enum spot_step azure_auth(void *p, struct spot_call *c)
{
	struct azure *self = p;
	struct call_state *st = call_state_get(c, 0);
	enum spot_step s = SPOT_STEP_NONE;
	bool storage;

	if (c->in != NULL) {
		s = auth_reply(self, c);
	}
	if (s == SPOT_STEP_NONE) {
		s = auth_ask(self, c);
	}
	storage = st->at == STORAGE_KEY_FILE || st->at > TOKEN_ARM;
	/* There is nobody above us to renew what we are renewing. */
	if (s == SPOT_REAUTH) {
		s = SPOT_FAIL;
	}
	/* A key file that cannot be read must not keep the rest from working; what comes after it
	 * still must come. */
	if (s == SPOT_FAIL && st->at == STORAGE_KEY_FILE) {
		blob_failed(self, c);
		st->at = TOKEN_ARM;
		return azure_token_send(self, c, self->audience);
	}
	if (s == SPOT_FAIL && storage) {
		return blob_failed(self, c);
	}
	return s == SPOT_FAIL ? auth_failed(self, c, s) : s;
}
