/* Base64 and hex: whatever decodes encodes back; whatever encodes decodes back. */
#include "base/base.h"
#include "fuzz.h"
#include "base/crypto/crypto.h"

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct str got = { 0 }, back = { 0 };
	char *text = base64_encode(a, p, n), *hex = arena_alloc(a, 2 * n + 1);
	uint8_t *raw = arena_alloc(a, n + 1);

	FUZZ_CHECK(base64_decode(a, text, strlen(text), &back) && back.n == n &&
	    (n == 0 || memcmp(back.p, p, n) == 0));
	if (base64_decode(a, (const char *)p, n, &got)) {
		FUZZ_CHECK(got.n <= n);
		text = base64_encode(a, got.p, got.n);
		FUZZ_CHECK(base64_decode(a, text, strlen(text), &back) && back.n == got.n);
	}
	hex_encode(p, n, hex);
	FUZZ_CHECK(strlen(hex) == 2 * n && hex_decode(hex, 2 * n, raw) &&
	    (n == 0 || memcmp(raw, p, n) == 0));
	if (hex_decode((const char *)p, n, raw)) {
		FUZZ_CHECK(n % 2 == 0);
	}
	return 0;
}
