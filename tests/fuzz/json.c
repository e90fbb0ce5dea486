/* JSON from clouds, agents and clients; a parsed value prints to text that parses to the same. */
#include "base/base.h"
#include "fuzz.h"
#include "base/text/text.h"

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	AUTO(json) json_t *doc = NULL, *again = NULL;
	struct spot_err err = { 0 }, get = { 0 };
	enum spot_rc rc = json_parse((struct str){ (const char *)p, n }, "fuzz", &doc, &err);
	const char *text;

	fuzz_check_err(rc, &err);
	if (rc != SPOT_OK) {
		FUZZ_CHECK(doc == NULL);
		return 0;
	}
	(void)json_str(doc, "s", "", &get);
	(void)json_i64(doc, "n", 0, &get);
	(void)json_f64(doc, "f", 0, &get);
	(void)json_bool(doc, "b", false, &get);
	text = json_text(a, doc);
	FUZZ_CHECK(
	    json_parse((struct str){ text, strlen(text) }, "again", &again, &err) == SPOT_OK);
	/* reals print with 15 digits and may move in the last place: then only the shape is
	 * compared */
	if (memchr(p, '.', n) == NULL && memchr(p, 'e', n) == NULL && memchr(p, 'E', n) == NULL) {
		FUZZ_CHECK(json_equal(doc, again));
	}
	return 0;
}
