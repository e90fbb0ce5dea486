#include "base/base.h"
#include "azure_priv.h"

/*
 * Shared access signatures: addresses with which a node reads, writes or deletes exactly one blob.
 * Either a service SAS with the account's key
 * (learn.microsoft.com/rest/api/storageservices/create-service-sas), or a user delegation SAS with
 * a key of our own identity (create-user-delegation-sas). The latter needs no account key anywhere.
 * Field order of version 2020-12-06 and later.
 */

#include "base/crypto/crypto.h"

#define EXPIRES_MAX_S (7 * 24 * 3600)
#define BLOB_NAME_MAX 1024

/* learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata */
static bool container_ok(const char *name)
{
	size_t n = name != NULL ? strlen(name) : 0;

	return n >= 3 && n <= 63 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n &&
	    name[0] != '-' && name[n - 1] != '-' && strstr(name, "--") == NULL;
}

/* The permissions that each method needs; Put Block and Put Block List are PUT, too. */
static const char *method_permissions(const char *method)
{
	static const char *const all[][2] = { { "GET", "r" }, { "HEAD", "r" }, { "PUT", "cw" },
		{ "DELETE", "d" } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (str_same(all[i][0], method)) {
			return all[i][1];
		}
	}
	return NULL;
}

/* ---- signing --------------------------------------------------------------------------------- */

/* The query of a SAS on /container or /container/blob. */
static enum spot_rc sas_make(const struct azure *self, struct arena *a, const struct azure_sas *s,
    const char **ret, struct spot_err *err)
{
	const struct azure_delegation *d = &self->delegation;
	const bool own = secret_set(&self->storage_key);
	const char *key = own ? secret_reveal(&self->storage_key) : secret_reveal(&d->value), *text,
		   *who = "";
	const char *protocol = str_prefix(s->endpoint, "https://") ? "https" : "https,http";
	char expiry[TIME_TEXT_MAX];
	uint8_t mac[SHA256_BYTES];
	struct str raw;

	format_time_s(s->expires_us, expiry);
	if (!base64_decode(a, key, strlen(key), &raw) || raw.n == 0) {
		return err_set(err, SPOT_CONFIG, "azure: the storage account's key is not base64");
	}
	text = arena_printf(a, "%s\n\n%s\n/blob/%s/%s\n", s->permissions, expiry,
	    self->storage_account, s->path);
	if (own) {
		/* stored policy, address, protocol, version, resource, snapshot, encryption scope,
		 * five headers */
		text = arena_printf(a, "%s\n\n%s\n" API_BLOB "\n%s\n\n\n\n\n\n\n", text, protocol,
		    s->resource);
	} else {
		/* and before those: whose key it is; three ids for directories */
		text = arena_printf(a,
		    "%s%s\n%s\n%s\n%s\n%s\n%s\n\n\n\n\n%s\n" API_BLOB "\n%s\n\n\n\n\n\n\n", text,
		    d->oid, d->tid, d->start, d->expiry, d->service, d->version, protocol,
		    s->resource);
		who = arena_printf(a, "&skoid=%s&sktid=%s&skt=%s&ske=%s&sks=%s&skv=%s", d->oid,
		    d->tid, url_encode(a, d->start, false), url_encode(a, d->expiry, false),
		    d->service, d->version);
	}
	hmac_sha256(raw.p, raw.n, text, strlen(text), mac);
	memset((char *)(uintptr_t)raw.p, 0, raw.n);
	*ret = arena_printf(a, "sv=" API_BLOB "&spr=%s&se=%s&sr=%s&sp=%s%s&sig=%s",
	    url_encode(a, protocol, false), url_encode(a, expiry, false), s->resource,
	    s->permissions, who, url_encode(a, base64_encode(a, mac, sizeof(mac)), false));
	return SPOT_OK;
}

/* There is something to sign with, and it lives as long as what is signed. */
static enum spot_rc key_check(const struct azure *self, int64_t expires_us, struct spot_err *err)
{
	if (self->storage_account == NULL) {
		return err_set(err, SPOT_CONFIG, "azure presign: storage_account is not set");
	}
	if (secret_set(&self->storage_key)) {
		return SPOT_OK;
	}
	if (!secret_set(&self->delegation.value)) {
		return self->blob_refused[0] != '\0'
		    ? err_set(err, SPOT_CONFIG, "azure presign: no user delegation key: %s",
			  self->blob_refused)
		    : err_set(err, SPOT_UNAUTHENTICATED, "azure presign: no credentials yet");
	}
	if (expires_us > self->delegation.expires_us) {
		return err_set(err, SPOT_INVALID,
		    "azure presign: the address would live longer than the user "
		    "delegation key (%s)",
		    self->delegation.expiry);
	}
	return SPOT_OK;
}

enum spot_rc azure_sas_query(const struct azure *self, struct arena *a, const struct azure_sas *s,
    const char **ret, struct spot_err *err)
{
	enum spot_rc rc = key_check(self, s->expires_us, err);

	return rc == SPOT_OK ? sas_make(self, a, s, ret, err) : rc;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static enum spot_rc presign_check(const struct spot_presign *a, struct spot_err *err)
{
	if (method_permissions(a->method) == NULL) {
		return err_set(err, SPOT_INVALID, "azure presign: method '%.20s'",
		    a->method != NULL ? a->method : "");
	}
	if (!container_ok(a->bucket)) {
		return err_set(err, SPOT_INVALID,
		    "azure presign: '%.80s' is not the name of a container",
		    a->bucket != NULL ? a->bucket : "");
	}
	if (str_empty(a->key) || strlen(a->key) > BLOB_NAME_MAX || a->key[0] == '/') {
		return err_set(err, SPOT_INVALID,
		    "azure presign: blob name of 1 to %d bytes needed", BLOB_NAME_MAX);
	}
	if (a->expires_s < 1 || a->expires_s > EXPIRES_MAX_S) {
		return err_set(err, SPOT_INVALID,
		    "azure presign: lifetime %" PRId64 " s is not in 1..%d", a->expires_s,
		    EXPIRES_MAX_S);
	}
	return SPOT_OK;
}

enum spot_rc azure_presign(void *p, struct arena *arena, int64_t now_us, struct spot_presign *a,
    struct spot_err *err)
{
	const struct azure *self = p;
	const char *base = str_empty(a->endpoint) ? self->blob_endpoint : a->endpoint, *query;
	struct azure_sas s = { .permissions = method_permissions(a->method),
		.resource = "b",
		.expires_us = now_us + a->expires_s * SPOT_US_PER_S };
	enum spot_rc rc = presign_check(a, err);
	size_t n;

	if (rc != SPOT_OK) {
		return rc;
	}
	s.endpoint = base != NULL ? base : "";
	s.path = arena_printf(arena, "%s/%s", a->bucket, a->key);
	rc = azure_sas_query(self, arena, &s, &query, err);
	if (rc != SPOT_OK) {
		return rc;
	}
	n = strlen(base);
	while (n > 0 && base[n - 1] == '/') {
		n--;
	}
	a->url = arena_printf(arena, "%.*s/%s/%s?%s%s%s", (int)n, base, a->bucket,
	    url_encode(arena, a->key, true), str_empty(a->query) ? "" : a->query,
	    str_empty(a->query) ? "" : "&", query);
	a->headers_n = 0;
	a->upload = SPOT_UPLOAD_PUT;
	if (strcmp(a->method, "PUT") == 0) {
		/* For whoever puts all bytes at once (Put Blob); Put Block does without. */
		a->headers[a->headers_n++] = (struct spot_header){ "x-ms-blob-type", "BlockBlob" };
		a->upload = SPOT_UPLOAD_BLOCKS;
	}
	return SPOT_OK;
}
