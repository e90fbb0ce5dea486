/*
 * Inside of the credential chain. auth is one call: creds.c is its frame and asks, creds_file.c
 * takes the credentials file apart.
 */
#ifndef PROVIDERS_GCP_CREDS_H
#define PROVIDERS_GCP_CREDS_H

#include "gcp_int.h"

enum creds_kind { CREDS_NONE = 0, CREDS_KEY, CREDS_USER, CREDS_EXTERNAL, CREDS_METADATA };

#define CREDS_HEADERS 8

/* One run of auth. */
struct auth {
	enum creds_kind kind;
	bool optional, resynced; /* optional: nobody named the file; it may be absent */
	const char *path;
	const char *token_uri, *key_id; /* CREDS_KEY */
	const char *client_id, *client_secret, *refresh_token; /* CREDS_USER */
	const char *audience, *subject_type, *token_url; /* CREDS_EXTERNAL */
	const char *subject_file, *subject_url, *subject_field; /* field: NULL = the whole text */
	struct spot_header headers[CREDS_HEADERS];
	size_t headers_n;
	const char *impersonate_url; /* NULL = not */
};

/* Reads the credentials file in c->in into a; for a service account's key also self->key and
 * self->email. */
enum spot_step creds_file_read(struct gcp *self, struct spot_call *c, struct auth *a);
/* A token becomes a header: printable, at most 16 KiB. */
bool creds_token_ok(const char *p, size_t n);

#endif
