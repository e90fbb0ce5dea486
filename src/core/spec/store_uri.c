#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

#define SCHEME_LEN 5
#define KEY_MAX 1024
#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"

/* Rules for bucket names that all vendors of a scheme share. One vendor may accept less. */
static const struct scheme {
	const char *scheme, *kind, *signers, *letters;
	size_t bucket_max;
	const char *bucket_words;
} schemes[] = {
	{ "s3://", NULL, "a provider of kind aws or coreweave", LOWER ".-", 63,
	    "a bucket's name has 3 to 63 lower-case letters, digits, '.' and '-'" },
	{ "gs://", "gcp", "a provider of kind gcp", LOWER "._-", 222,
	    "a bucket's name has 3 to 222 lower-case letters, digits, '.', '_' and '-'" },
	{ "az://", "azure", "a provider of kind azure", LOWER "-", 63,
	    "a container's name has 3 to 63 lower-case letters, digits and '-'" },
};

static const struct scheme *scheme_of(const char *uri)
{
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		if (str_prefix(uri, schemes[i].scheme)) {
			return &schemes[i];
		}
	}
	return NULL;
}

static bool bucket_ok(const struct scheme *s, const char *name, size_t n)
{
	return n >= 3 && n <= s->bucket_max && strspn(name, s->letters) >= n &&
	    strchr(".-", name[0]) == NULL && strchr(".-", name[n - 1]) == NULL;
}

const char *store_uri_read(struct arena *a, const char *uri, struct store_uri *ret)
{
	const struct scheme *s = scheme_of(uri);
	const char *bucket = uri + SCHEME_LEN, *slash = s != NULL ? strchr(bucket, '/') : NULL;

	if (s == NULL) {
		return "an object is s3://bucket/key, gs://bucket/key or az://container/key";
	}
	if (!bucket_ok(s, bucket, slash != NULL ? (size_t)(slash - bucket) : strlen(bucket))) {
		return s->bucket_words;
	}
	if (slash == NULL || slash[1] == '\0') {
		return "behind the bucket a key is missing: name one object, not all of it";
	}
	if (strlen(slash + 1) > KEY_MAX) {
		return "a key has at most 1024 bytes";
	}
	if (s->kind != NULL && strcmp(s->kind, "azure") == 0 && slash[1] == '/') {
		return "a blob's name does not begin with '/'";
	}
	*ret = (struct store_uri){ .scheme = s->scheme,
		.bucket = arena_strndup(a, bucket, (size_t)(slash - bucket)),
		.key = slash + 1 };
	return NULL;
}

bool store_uri_signed_by(const char *uri, const char *kind)
{
	const struct scheme *s = scheme_of(uri);

	if (s == NULL) {
		return false;
	}
	if (s->kind != NULL) {
		return strcmp(s->kind, kind) == 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		if (schemes[i].kind != NULL && strcmp(schemes[i].kind, kind) == 0) {
			return false;
		}
	}
	return true;
}

bool store_uri_alike(const char *a, const char *b)
{
	const struct scheme *s = scheme_of(a);

	return s != NULL && s == scheme_of(b);
}

const char *store_uri_signers(const char *uri)
{
	const struct scheme *s = scheme_of(uri);

	return s != NULL ? s->signers : "nobody";
}
