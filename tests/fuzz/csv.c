/* CSV price lists. */
#include "base/base.h"
#include "fuzz.h"
#include "base/text/text.h"

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct csv c = { 0 };
	struct spot_err err = { 0 };
	enum spot_rc rc = csv_open(&c, a, fuzz_view(a, p, n), &err);
	size_t rows = 0;
	int got;

	fuzz_check_err(rc, &err);
	if (rc != SPOT_OK) {
		return 0;
	}
	FUZZ_CHECK(c.columns >= 1);
	while ((got = csv_next(&c, &err)) == 1) {
		for (size_t i = 0; i < c.columns; i++) {
			FUZZ_CHECK(c.row[i] != NULL && strlen(c.row[i]) <= n);
		}
		FUZZ_CHECK(csv_get(&c, "no such column")[0] == '\0' || n > 14);
		FUZZ_CHECK(++rows <= n);
	}
	FUZZ_CHECK(got == 0 || err.text[0] != '\0');
	return 0;
}
