/* The API's views of the store's documents, and clean input. */
#include "base/base.h"
#include "api/nouns.h"
#include "api/server/server_priv.h"
#include "base/text/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define NOW INT64_C(1767323045000000) /* 2026-01-02T03:04:05Z */

static void assert_resolves(const char *in, const char *out)
{
	struct arena *a = arena_new(0);
	json_t *doc = view_parse(in), *written;
	struct sbuf b;

	view_resolve(doc, NOW);
	assert_string_equal(json_text(a, doc), out);
	/* The writer that makes no tree says the same. */
	sbuf_init(&b, 0);
	json_marks_put(&b, in, strlen(in), NOW);
	written = view_parse(b.p);
	assert_true(json_equal(written, doc));
	sbuf_fini(&b);
	json_decref(written);
	json_decref(doc);
	arena_free(a);
}

static void marks_become_times_ages_and_money(void **state UNUSED)
{
	assert_resolves("{\"created@\":1767323045000000}",
	    "{\"created_at\":\"2026-01-02T03:04:05.000000Z\"}");
	assert_resolves("{\"@\":1767323045000000}", "{\"at\":\"2026-01-02T03:04:05.000000Z\"}");
	assert_resolves("{\"seen@age\":1767323035000000}",
	    "{\"seen_at\":\"2026-01-02T03:03:55.000000Z\",\"age_s\":10}");
	assert_resolves("{\"seen@age\":1767323999000000}",
	    "{\"seen_at\":\"2026-01-02T03:19:59.000000Z\",\"age_s\":0}");
	assert_resolves("{\"price$\":1}", "{\"price_micros\":1,\"price_usd\":1e-6}");
	assert_resolves("{\"a@\":null,\"b@age\":null,\"c$\":null}",
	    "{\"a_at\":null,\"b_at\":null,\"age_s\":null,\"c_micros\":null,\"c_usd\":null}");
}

static void marks_are_found_at_every_depth_and_order_is_kept(void **state UNUSED)
{
	assert_resolves("[{\"z\":1,\"x@\":0,\"a\":{\"y$\":-2000000}},[],\"s@\"]",
	    "[{\"z\":1,\"x_at\":null,\"a\":{\"y_micros\":-2000000,\"y_usd\":-2.0}},[],\"s@\"]");
}

static void keys_that_only_look_like_marks_stay(void **state UNUSED)
{
	assert_resolves("{\"$\":1,\"a@b\":2,\"mail@host\":\"x\"}",
	    "{\"$\":1,\"a@b\":2,\"mail@host\":\"x\"}");
}

static void tags_stay_while_only_ages_grow(void **state UNUSED)
{
	static const char *const bodies[] = { "{\"age_s\":1,\"x\":2}", "{\"age_s\":31,\"x\":2}",
		"{\"age_s\":1,\"x\":3}", "{\"age_s\":null,\"x\":2}", "{\"age\":1,\"x\":2}" };
	char first[TAG_MAX], tag[TAG_MAX];

	tag_make(bodies[0], strlen(bodies[0]), first);
	tag_make(bodies[1], strlen(bodies[1]), tag);
	assert_string_equal(tag, first);
	for (size_t i = 2; i < ARRAY_LEN(bodies); i++) {
		tag_make(bodies[i], strlen(bodies[i]), tag);
		assert_string_not_equal(tag, first);
	}
}

static void headers_say_what_the_client_has_and_accepts(void **state UNUSED)
{
	assert_true(tag_matches("W/\"1\"", "W/\"1\""));
	assert_true(tag_matches("\"0\" , \"1\"", "W/\"1\""));
	assert_true(tag_matches(" * ", "W/\"1\""));
	assert_false(tag_matches("W/\"11\"", "W/\"1\""));
	assert_false(tag_matches("1", "W/\"1\""));
	assert_false(tag_matches("", "W/\"1\""));
	assert_false(tag_matches(NULL, "W/\"1\""));
	assert_true(gzip_accepted("gzip"));
	assert_true(gzip_accepted("deflate, GZIP;q=0.001 , br"));
	assert_false(gzip_accepted("gzip;q=0.000"));
	assert_false(gzip_accepted("gzip; q=0"));
	assert_false(gzip_accepted("x-gzip, gzipped"));
	assert_false(gzip_accepted(NULL));
}

static void ids_have_their_letter_or_none(void **state UNUSED)
{
	int64_t id = 0;

	assert_true(parse_id("j12", 'j', &id) && id == 12);
	assert_true(parse_id("12", 'j', &id) && id == 12);
	assert_true(parse_id("9223372036854775807", 'j', &id) && id == INT64_MAX);
	assert_false(parse_id("n12", 'j', &id));
	assert_false(parse_id("j", 'j', &id));
	assert_false(parse_id("", 'j', &id));
	assert_false(parse_id("jj1", 'j', &id));
	assert_false(parse_id("j-1", 'j', &id));
	assert_false(parse_id("j0", 'j', &id));
	assert_false(parse_id("j 1", 'j', &id));
	assert_false(parse_id("9223372036854775808", 'j', &id));
}

static void clean_text_is_utf8_without_controls(void **state UNUSED)
{
	static const char *const good[] = { "", "a b", "\xc3\xa9", "\xe2\x82\xac",
		"\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf" };
	static const char *const bad[] = { "\x01", "a\nb", "\x7f", "\x80", "\xc0\xaf", "\xc1\x81",
		"\xc3", "\xe2\x82", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
		"\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3\x28" };

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_true(text_clean(good[i]));
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_false(text_clean(bad[i]));
	}
}

static void the_openapi_text_is_made_from_the_table(void **state UNUSED)
{
	struct arena *a = arena_new(0);
	struct routes routes = api_routes(a);
	size_t n = 0;
	json_t *doc = view_parse(openapi_text(a, &routes, "9.9", &n));

	assert_true(n > 10000);
	assert_string_equal(json_string_value(
				json_object_get(json_object_get(doc, "info"), "version")),
	    "9.9");
	for (size_t i = 0; i < routes.n; i++) {
		assert_non_null(
		    json_object_get(json_object_get(doc, "paths"), routes.rows[i]->path));
		assert_int_not_equal(routes.rows[i]->scope, SCOPE_NONE);
		assert_non_null(routes.rows[i]->run);
	}
	json_decref(doc);
	arena_free(a);
}

static void tokens_are_long_and_only_their_hash_is_kept(void **state UNUSED)
{
	char a[API_TOKEN_MAX], b[API_TOKEN_MAX];
	uint8_t ha[32], hb[32], again[32];
	struct rng rng;

	rng_real_init(&rng);
	api_token_make(&rng, a, ha);
	api_token_make(&rng, b, hb);
	assert_string_not_equal(a, b);
	assert_int_equal(strlen(a), 68);
	api_token_hash(a, strlen(a), again);
	assert_memory_equal(ha, again, 32);
	assert_memory_not_equal(ha, hb, 32);
}

static void roles_are_ordered(void **state UNUSED)
{
	assert_true(role_scope("viewer") < role_scope("engineer"));
	assert_int_equal(role_scope("service"), role_scope("engineer"));
	assert_true(role_scope("engineer") < role_scope("lead"));
	assert_true(role_scope("lead") < role_scope("admin"));
	assert_true(role_scope("admin") < SCOPE_NODE);
	assert_int_equal(role_scope("root"), SCOPE_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks_become_times_ages_and_money),
		cmocka_unit_test(marks_are_found_at_every_depth_and_order_is_kept),
		cmocka_unit_test(keys_that_only_look_like_marks_stay),
		cmocka_unit_test(tags_stay_while_only_ages_grow),
		cmocka_unit_test(headers_say_what_the_client_has_and_accepts),
		cmocka_unit_test(ids_have_their_letter_or_none),
		cmocka_unit_test(clean_text_is_utf8_without_controls),
		cmocka_unit_test(the_openapi_text_is_made_from_the_table),
		cmocka_unit_test(tokens_are_long_and_only_their_hash_is_kept),
		cmocka_unit_test(roles_are_ordered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
