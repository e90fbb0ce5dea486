/*
 * What an object store tells of the bytes of the object that it gives, or took: their MD5. Files
 * that a job mounts come without a sha256 (nobody of ours has read them before), so this is all
 * there is to check them by; of a checkpoint it tells that the store has what was sent, before the
 * checkpoint counts.
 *
 * Google Cloud Storage: x-goog-hash (not for composite objects; of what is stored, so not where it
 * was decompressed on its way). Azure: Content-MD5 (only where whoever put the blob gave it; not
 * verified by the store). S3 and what speaks like it: the ETag, where it is an MD5: not of
 * multipart uploads (it has a dash), not with keys of KMS or of the customer, not in directory
 * buckets (S3 API reference, "Object"; cloud.google.com/storage/docs/xml-api/reference-headers;
 * "Get Blob").
 */
#ifndef AGENT_TOLD_H
#define AGENT_TOLD_H

#include "base/base.h"
#include "base/crypto/sign.h"
#include "agent/link/http.h"

#define TOLD_WORDS_MAX 256

struct told_headers { /* each "" when the reply has none */
	const char *goog_hash; /* several lines of it joined by commas */
	const char *goog_encoding; /* x-goog-stored-content-encoding */
	const char *content_md5, *etag;
	const char *encryption; /* x-amz-server-side-encryption */
	const char *customer_key; /* x-amz-server-side-encryption-customer-algorithm */
	const char *storage_class; /* x-amz-storage-class */
};

enum told { TOLD_NOTHING, TOLD_SAME, TOLD_OTHER };

/* Are bytes with that MD5 the object's, by what was told? TOLD_NOTHING: nothing that can be used.
 * TOLD_OTHER may still be the store's error and not the bytes': a blob's Content-MD5 is whatever
 * somebody put there. */
enum told told_check(const struct told_headers *h, const uint8_t md5[MD5_BYTES]);
/* The same of a reply, with what it says in words (for a log, or to see whether it says the same
 * again). */
enum told told_reply(const struct http_reply *r, const uint8_t md5[MD5_BYTES],
    char words[TOLD_WORDS_MAX]);

#endif
