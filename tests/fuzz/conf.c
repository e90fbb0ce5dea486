/* Configuration files: a table with every type, and named sections. An accepted file prints to a
 * file that is accepted again. */
#include "base/base.h"
#include "fuzz.h"
#include "base/text/text.h"

struct target {
	const char *text, *path, *secret;
	int64_t count, pause_us, price_micros;
	double share;
	bool on;
};
#define AT(f) offsetof(struct target, f)
static const struct conf_item items[] = {
	{ "main", "text", "hello", NULL, "100", "A text.", CONF_STR, 0, AT(text) },
	{ "main", "path", "", NULL, "100", "A path.", CONF_PATH, 0, AT(path) },
	{ "main", "secret", "", NULL, "100", "A secret.", CONF_PATH, CONF_SECRET, AT(secret) },
	{ "main", "count", "3", "1", "1000", "A number.", CONF_I64, CONF_RELOAD, AT(count) },
	{ "other", "pause", "30s", "1s", "1h", "A duration.", CONF_DURATION, 0, AT(pause_us) },
	{ "other", "price", "1.50", "0", "100", "Money.", CONF_USD, 0, AT(price_micros) },
	{ "other", "share", "0.5", "0", "1", "A share.", CONF_F64, 0, AT(share) },
	{ "other", "on", "yes", NULL, NULL, "A switch.", CONF_BOOL, 0, AT(on) },
};

static void check_ranges(const struct target *t)
{
	FUZZ_CHECK(t->text != NULL && strlen(t->text) <= 100 && t->path != NULL);
	FUZZ_CHECK(t->count >= 1 && t->count <= 1000);
	FUZZ_CHECK(t->pause_us >= SPOT_US_PER_S && t->pause_us <= SPOT_US_PER_HOUR);
	FUZZ_CHECK(t->price_micros >= 0 && t->price_micros <= 100 * SPOT_MICROS_PER_USD);
	FUZZ_CHECK(t->share >= 0 && t->share <= 1);
}

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	AUTO(sbuf) struct sbuf out;
	struct target t = { 0 }, again = { 0 };
	struct conf_file named = { 0 };
	struct spot_err err = { 0 };
	enum spot_rc rc = conf_parse(a, items, ARRAY_LEN(items), "fuzz.conf", fuzz_view(a, p, n),
	    &t, &named, &err);

	sbuf_init(&out, 1 << 20);
	fuzz_check_err(rc, &err);
	if (rc != SPOT_OK) {
		FUZZ_CHECK(t.text == NULL && t.count == 0); /* nothing is changed on failure */
		return 0;
	}
	check_ranges(&t);
	for (size_t i = 0; i < named.n; i++) {
		FUZZ_CHECK(named.sections[i].kind != NULL && named.sections[i].name != NULL &&
		    named.sections[i].line >= 1);
		(void)conf_section_get(&named.sections[i], "key");
	}
	conf_print(items, ARRAY_LEN(items), &t, true, &out);
	FUZZ_CHECK(conf_parse(a, items, ARRAY_LEN(items), "again", (struct str){ out.p, out.n },
		       &again, NULL, &err) == SPOT_OK);
	FUZZ_CHECK(again.count == t.count && again.pause_us == t.pause_us &&
	    again.price_micros == t.price_micros && again.on == t.on);
	FUZZ_CHECK(strcmp(again.text, t.text) == 0 && strcmp(again.path, t.path) == 0);
	return 0;
}
