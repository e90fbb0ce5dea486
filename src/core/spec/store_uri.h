/*
 * Object addresses (s3://bucket/key, gs://bucket/key, az://container/key), and the providers that
 * can sign for them. Pure: a job file is checked by the same rule with which the engine later
 * signs.
 */
#ifndef CORE_STORE_URI_H
#define CORE_STORE_URI_H

#include "base/base.h"

struct arena;
struct store_uri {
	const char *scheme; /* "s3://" */
	const char *bucket, *key;
};
/* Returns NULL, or the error in words. Refuses addresses that no vendor of the scheme accepts. */
NODISCARD const char *store_uri_read(struct arena *a, const char *uri, struct store_uri *ret);
/* Returns whether a provider of that kind signs for the uri's scheme: gs:// gcp, az:// azure, s3://
 * all others. False for other uris. */
bool store_uri_signed_by(const char *uri, const char *kind);
/* Returns whether both have the same scheme, so that one provider signs for both. */
bool store_uri_alike(const char *a, const char *b);
/* Returns "a provider of kind gcp", for use in a sentence. */
const char *store_uri_signers(const char *uri);

#endif
