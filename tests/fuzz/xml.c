/* XML replies of EC2 and S3. */
#include "base/base.h"
#include "fuzz.h"
#include "base/text/text.h"

static size_t tree_walk(const struct xml *x, int depth)
{
	size_t n = 0;

	FUZZ_CHECK(depth <= 64);
	for (; x != NULL; x = x->next) {
		FUZZ_CHECK(x->name != NULL && x->text != NULL);
		n += 1 + tree_walk(x->child, depth + 1);
	}
	return n;
}

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct xml *x = NULL;
	struct spot_err err = { 0 };
	enum spot_rc rc = xml_parse(a, (struct str){ (const char *)p, n }, &x, &err);

	fuzz_check_err(rc, &err);
	if (rc == SPOT_OK) {
		FUZZ_CHECK(tree_walk(x, 0) <= n);
		(void)xml_at(x, "item/key");
		FUZZ_CHECK(xml_text(x, "a/b/c", "d") != NULL);
		for (const struct xml *i = xml_first(x, "item"); i != NULL;
		     i = xml_next(i, "item")) {
			FUZZ_CHECK(strcmp(i->name, "item") == 0);
		}
	}
	return 0;
}
