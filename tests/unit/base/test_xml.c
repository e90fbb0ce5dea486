/* XML: the tree, the caps, and attacks by entity. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"

static void a_reply_is_read_as_a_tree(void **state)
{
	static const char text[] =
	    "<?xml version=\"1.0\"?>\n<e:R xmlns:e=\"urn:x\" a=\"1\"> <set>\n"
	    "<item><id> i-1 </id></item><other/><item><id>a &amp; "
	    "b</id><e:deep><x>1</x></e:deep></item>"
	    "</set><empty/><m>be<i>in</i>fore</m></e:R>";
	struct arena *a = arena_new(0);
	struct xml *root = NULL;
	int n = 0;

	(void)state;
	assert_int_equal(xml_parse(a, STR_LIT(text), &root, NULL), SPOT_OK);
	assert_string_equal(root->name, "R");
	assert_string_equal(root->text, "");
	const struct xml *set = xml_at(root, "set");
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		assert_string_equal(xml_text(i, "id", "?"), n++ == 0 ? "i-1" : "a & b");
	}
	assert_int_equal(n, 2);
	assert_string_equal(xml_text(root, "empty", "?"), "");
	assert_string_equal(xml_text(root, "absent/x", "?"), "?");
	assert_string_equal(xml_text(xml_next(xml_first(set, "item"), "item"), "deep/x", "?"), "1");
	assert_string_equal(xml_text(root, "m", "?"), "before");
	assert_string_equal(xml_text(root, "m/i", "?"), "in");
	assert_null(xml_at(NULL, "x"));
	assert_null(xml_first(NULL, "x"));
	assert_string_equal(xml_text(NULL, "x", "d"), "d");
	arena_free(a);
}

static void assert_refused(const char *text, const char *words)
{
	struct arena *a = arena_new(0);
	struct xml *root = NULL;
	struct spot_err err = { 0 };

	assert_int_equal(xml_parse(a, str_from(text), &root, &err), SPOT_INVALID);
	if (strstr(err.text, words) == NULL) {
		fail_msg("'%s' gave '%s'", text, err.text);
	}
	assert_null(root);
	arena_free(a);
}

static void broken_and_hostile_documents_are_refused_with_their_place(void **state)
{
	(void)state;
	assert_refused("", "no element");
	assert_refused("<a>", "no element found");
	assert_refused("<a>\n<b></a>", "line 2, column 6: mismatched tag");
	assert_refused("<a>&unknown;</a>", "undefined entity");
	assert_refused("<!DOCTYPE a [<!ENTITY x \"y\"><!ENTITY z \"&x;&x;&x;\">]><a>&z;</a>",
	    "document type declarations are refused");
	assert_refused("<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
	    "document type declarations are refused");
	assert_refused("<a/><b/>", "junk after document element");
	assert_refused("<a>\xff</a>", "not well-formed");
}

static void nesting_is_capped(void **state)
{
	struct arena *a = arena_new(0);
	struct xml *root;

	(void)state;
	for (int depth = 64; depth <= 65; depth++) {
		AUTO(sbuf) struct sbuf b;
		struct spot_err err = { 0 };

		sbuf_init(&b, 0);
		for (int i = 0; i < depth; i++) {
			sbuf_puts(&b, "<a>");
		}
		for (int i = 0; i < depth; i++) {
			sbuf_puts(&b, "</a>");
		}
		enum spot_rc rc = xml_parse(a, (struct str){ b.p, b.n }, &root, &err);
		assert_int_equal(rc, depth == 64 ? SPOT_OK : SPOT_INVALID);
		if (rc != SPOT_OK) {
			assert_non_null(strstr(err.text, "nested deeper than 64"));
		}
	}
	arena_free(a);
}

static void the_number_of_elements_is_capped(void **state)
{
	struct arena *a = arena_new(0);
	AUTO(sbuf) struct sbuf b;
	struct xml *root;
	struct spot_err err = { 0 };

	(void)state;
	sbuf_init(&b, 0);
	sbuf_puts(&b, "<a>");
	for (int i = 0; i < 2000000; i++) {
		sbuf_puts(&b, "<b/>");
	}
	sbuf_puts(&b, "</a>");
	assert_int_equal(xml_parse(a, (struct str){ b.p, b.n }, &root, &err), SPOT_INVALID);
	assert_non_null(strstr(err.text, "more than 2,000,000 elements"));
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reply_is_read_as_a_tree),
		cmocka_unit_test(broken_and_hostile_documents_are_refused_with_their_place),
		cmocka_unit_test(nesting_is_capped),
		cmocka_unit_test(the_number_of_elements_is_capped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
