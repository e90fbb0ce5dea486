/* Log lines with secrets in them: after redact_text no registered value is left. The input is:
 * secrets, a line each; an empty line; the text. */
#include "base/base.h"
#include "fuzz.h"
#include "base/crypto/crypto.h"

#define SECRETS_MAX 8

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct str secrets[SECRETS_MAX];
	size_t k = 0, at = 0, len;
	char *text;

	while (at < n && k < SECRETS_MAX) {
		const uint8_t *end = memchr(p + at, '\n', n - at);
		size_t line = end != NULL ? (size_t)(end - (p + at)) : n - at;

		if (line == 0) {
			at++;
			break;
		}
		secrets[k++] = arena_bytes(a, p + at, line);
		at += line + (end != NULL);
	}
	at = MIN(at, n);
	len = n - at;
	text = arena_alloc(a, len + 1);
	memcpy(text, p + at, len);
	for (size_t i = 0; i < k; i++) {
		redact_add(secrets[i].p, secrets[i].n);
	}
	redact_text(text, &len);
	FUZZ_CHECK(len <= n - at);
	for (size_t i = 0; i < k; i++) {
		/* the marks themselves may make up a secret that has their characters */
		bool odd = memchr(secrets[i].p, '*', secrets[i].n) != NULL ||
		    memchr(secrets[i].p, '[', secrets[i].n) != NULL ||
		    memchr(secrets[i].p, ']', secrets[i].n) != NULL ||
		    memmem("redacted", 8, secrets[i].p, secrets[i].n) != NULL;

		FUZZ_CHECK(secrets[i].n < 8 || odd ||
		    memmem(text, len, secrets[i].p, secrets[i].n) == NULL);
	}
	for (size_t i = k; i-- > 0;) {
		redact_remove(secrets[i].p, secrets[i].n);
	}
	(void)redact_name(fuzz_string(a, p, n));
	return 0;
}
