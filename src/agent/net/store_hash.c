#include "base/base.h"
#include "agent/net/net.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

static enum told told_compare(const char *told, size_t n, const char *ours)
{
	return strlen(ours) == n && strncmp(told, ours, n) == 0 ? TOLD_SAME : TOLD_OTHER;
}

/* Compares the MD5 in "crc32c=AAAAAA==,md5=...". */
static enum told by_google(const struct told_headers *h, const char *md5)
{
	if (h->goog_encoding[0] != '\0' && strcmp(h->goog_encoding, "identity") != 0) {
		return TOLD_NOTHING; /* the hash covers the stored, encoded bytes */
	}
	for (const char *at = h->goog_hash; *at != '\0';) {
		size_t n;

		at += strspn(at, ", ");
		n = strcspn(at, ", ");
		if (strncmp(at, "md5=", 4) == 0) {
			return told_compare(at + 4, n - 4, md5);
		}
		at += n;
	}
	return TOLD_NOTHING;
}

/* Compares an ETag of 32 hex digits in quotes, unless the object's ETag cannot be its MD5. */
static enum told by_etag(const struct told_headers *h, const uint8_t md5[MD5_BYTES])
{
	uint8_t told[MD5_BYTES];

	if (strlen(h->etag) != 2 * MD5_BYTES + 2 || h->etag[0] != '"' ||
	    !str_suffix(h->etag, "\"") || !hex_decode(h->etag + 1, 2 * MD5_BYTES, told)) {
		return TOLD_NOTHING;
	}
	if (strncmp(h->encryption, "aws:", 4) == 0 || h->customer_key[0] != '\0' ||
	    strcmp(h->storage_class, "EXPRESS_ONEZONE") == 0) {
		return TOLD_NOTHING;
	}
	return memcmp(told, md5, sizeof(told)) == 0 ? TOLD_SAME : TOLD_OTHER;
}

enum told told_check(const struct told_headers *h, const uint8_t md5[MD5_BYTES])
{
	AUTO(arena) struct arena *a = arena_new(0);
	const char *text = base64_encode(a, md5, MD5_BYTES);

	if (h->goog_hash[0] != '\0') {
		return by_google(h, text);
	}
	if (h->content_md5[0] != '\0') {
		return told_compare(h->content_md5, strlen(h->content_md5), text);
	}
	return by_etag(h, md5);
}

enum told told_reply(const struct http_reply *r, const uint8_t md5[MD5_BYTES],
    char words[TOLD_WORDS_MAX])
{
	char hash[128];
	struct told_headers told = { .goog_hash = hash };

	http_reply_headers(r, "x-goog-hash", hash, sizeof(hash));
	told.goog_encoding = http_reply_header(r, "x-goog-stored-content-encoding");
	told.content_md5 = http_reply_header(r, "content-md5");
	told.etag = http_reply_header(r, "etag");
	told.encryption = http_reply_header(r, "x-amz-server-side-encryption");
	told.customer_key = http_reply_header(r, "x-amz-server-side-encryption-customer-algorithm");
	told.storage_class = http_reply_header(r, "x-amz-storage-class");
	(void)snprintf(words, TOLD_WORDS_MAX, "etag %.60s, x-goog-hash %.100s, Content-MD5 %.40s",
	    told.etag, hash, told.content_md5);
	return told_check(&told, md5);
}
