/*
 * Objects as files name them: s3://bucket/key, gs://bucket/key, az://container/key; and who can
 * sign for which. Pure, so that a job file is refused by the same rule that the engine later signs
 * by.
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
/* A provider of that kind signs URLs of the uri's scheme: gs:// gcp, az:// azure, s3:// all others.
 * Other uris: false. */
bool store_uri_signed_by(const char *uri, const char *kind);
/* Whether both have one scheme, so that one provider signs for both. */
bool store_uri_alike(const char *a, const char *b);
/* "a provider of kind gcp"; in sentences. */
const char *store_uri_signers(const char *uri);

#endif
