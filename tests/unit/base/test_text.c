/* Strings, numbers, money, URLs, growing buffers. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"

static void a_text_is_a_dollar_amount_only_if_it_is_a_plain_decimal(void **state)
{
	static const struct {
		const char *text;
		int64_t micros;
	} good[] = {
		{ "0", 0 },
		{ "12", 12000000 },
		{ "0.412300", 412300 },
		{ "0.4123000000", 412300 },
		{ "1.0000005", 1000001 },
		{ "1.00000049999", 1000000 },
		{ "0.9999999", 1000000 },
		{ "999999999.999999", INT64_C(999999999999999) },
		{ "0.000001", 1 },
		{ "00.5", 500000 },
	};
	static const char *const bad[] = { "", ".", ".5", "1.", "-1", "+1", "1e3", "1.5e2", " 1",
		"1 ", "1,5", "$1", "1234567890", "0x1", "nan", "1.2.3", "1.1234567x",
		"999999999.9999999" /* rounds to ten digits */ };
	int64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		v = -1;
		assert_true(parse_usd_micros(good[i].text, &v));
		assert_int_equal(v, good[i].micros);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		v = 77;
		assert_false(parse_usd_micros(bad[i], &v));
		assert_int_equal(v, 77);
	}
	assert_false(parse_usd_micros(NULL, &v));
}

static void amounts_are_written_with_six_decimals_and_their_sign(void **state)
{
	char buf[USD_TEXT_MAX];

	(void)state;
	assert_string_equal(format_usd(1234567, buf), "1.234567");
	assert_string_equal(format_usd(-1, buf), "-0.000001");
	assert_string_equal(format_usd(0, buf), "0.000000");
	assert_string_equal(format_usd(INT64_MIN, buf), "-9223372036854.775808");
	assert_string_equal(format_usd(INT64_MAX, buf), "9223372036854.775807");
}

static void integers_must_fill_the_whole_text_and_lie_in_range(void **state)
{
	static const char *const bad[] = { "", " 1", "1 ", "+1", "1x", "0x10", "--1", "-",
		"9223372036854775808", "1.0", "1e2" };
	int64_t v = 5;

	(void)state;
	assert_true(parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &v));
	assert_true(v == INT64_MIN);
	assert_true(parse_i64("10", 1, 10, &v));
	assert_int_equal(v, 10);
	assert_false(parse_i64("11", 1, 10, &v));
	assert_false(parse_i64("0", 1, 10, &v));
	assert_false(parse_i64(NULL, 1, 10, &v));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_false(parse_i64(bad[i], INT64_MIN, INT64_MAX, &v));
	}
	assert_int_equal(v, 10);
}

static void real_numbers_are_decimal_and_finite(void **state)
{
	static const char *const bad[] = { "", "nan", "inf", "-inf", "0x1p3", "1.", ".5", "1e",
		"1e+", "1 ", "1e999", "--1", "1.5x" };
	double v = 3;

	(void)state;
	assert_true(parse_f64("-1.5e-2", -1, 1, &v));
	assert_true(v == -0.015);
	assert_true(parse_f64("7", 0, 10, &v));
	assert_true(v == 7);
	assert_false(parse_f64("11", 0, 10, &v));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_false(parse_f64(bad[i], -1e308, 1e308, &v));
	}
	assert_false(parse_f64(NULL, 0, 1, &v));
	assert_true(v == 7);
}

static void views_and_null_texts_compare_as_documented(void **state)
{
	char buf[4] = "zzz";

	(void)state;
	assert_true(str_eq(STR_LIT("ab"), "ab"));
	assert_false(str_eq(STR_LIT("ab"), "abc"));
	assert_false(str_eq(str_from(NULL), ""));
	assert_true(str_eq(str_from(NULL), NULL));
	assert_false(str_eq(STR_LIT(""), NULL));
	assert_true(str_eq(STR_LIT(""), ""));
	assert_true(str_same(NULL, NULL));
	assert_false(str_same("", NULL));
	assert_false(str_same(NULL, ""));
	assert_true(str_same("a", "a"));
	assert_true(str_empty(NULL) && str_empty("") && !str_empty(" "));
	assert_true(str_prefix("abc", "ab") && !str_prefix("a", "ab") && !str_prefix(NULL, ""));
	assert_true(str_suffix("abc", "bc") && !str_suffix("c", "bc") && !str_suffix(NULL, ""));
	assert_true(str_copy(buf, sizeof(buf), "abc"));
	assert_string_equal(buf, "abc");
	assert_false(str_copy(buf, sizeof(buf), "abcd"));
	assert_string_equal(buf, "");
	assert_true(str_copy(buf, sizeof(buf), NULL));
	assert_false(str_copy(buf, 0, ""));
}

static void urls_are_encoded_after_rfc_3986_and_decoded_strictly(void **state)
{
	struct arena *a = arena_new(0);
	char *out = NULL;

	(void)state;
	assert_string_equal(url_encode(a, "a-_.~/ +%\xc3\xa9", false), "a-_.~%2F%20%2B%25%C3%A9");
	assert_string_equal(url_encode(a, "a/b c", true), "a/b%20c");
	assert_true(url_decode(a, STR_LIT("a%2fb+c%C3%A9"), false, &out));
	assert_string_equal(out, "a/b+c\xc3\xa9");
	assert_true(url_decode(a, STR_LIT("a+b"), true, &out));
	assert_string_equal(out, "a b");
	assert_false(url_decode(a, STR_LIT("%"), false, &out));
	assert_false(url_decode(a, STR_LIT("%4"), false, &out));
	assert_false(url_decode(a, STR_LIT("%4g"), false, &out));
	assert_false(url_decode(a, STR_LIT("a%00b"), false, &out));
	assert_false(url_decode(a, ((struct str){ "a\0b", 3 }), false, &out));
	assert_string_equal(out, "a b");
	arena_free(a);
}

static void a_buffer_over_its_cap_keeps_the_prefix_and_says_so(void **state)
{
	struct sbuf b;

	(void)state;
	sbuf_init(&b, 10);
	sbuf_puts(&b, "12345678");
	assert_false(b.overflow);
	sbuf_puts(&b, "abc");
	assert_true(b.overflow);
	assert_string_equal(b.p, "12345678ab");
	sbuf_putc(&b, 'x');
	assert_int_equal(b.n, 10);
	sbuf_reset(&b);
	assert_false(b.overflow);
	assert_string_equal(b.p, "");
	sbuf_puts(&b, "0123456789");
	assert_false(b.overflow);
	sbuf_consume(&b, 4);
	assert_string_equal(b.p, "456789");
	sbuf_consume(&b, 0);
	sbuf_consume(&b, 6);
	assert_int_equal(b.n, 0);
	sbuf_fini(&b);
	assert_null(b.p);
}

static void long_formats_are_kept_whole(void **state)
{
	AUTO(sbuf) struct sbuf b;
	char big[600];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	sbuf_init(&b, 0);
	sbuf_printf(&b, "%d-%s-%d", 1, big, 2);
	assert_int_equal(b.n, 4 + sizeof(big) - 1);
	assert_string_equal(b.p + b.n - 2, "-2");
	sbuf_add(&b, "", 0);
	assert_int_equal(b.n, 4 + sizeof(big) - 1);
}

static void json_strings_are_escaped_and_always_valid_utf8(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "a\"b\\c", "\"a\\\"b\\\\c\"" },
		{ "\n\r\t\x01\x7f", "\"\\n\\r\\t\\u0001\\u007f\"" },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		{ "\xff", "\"\\ufffd\"" },
		{ "\xc3", "\"\\ufffd\"" }, /* cut short */
		{ "\xc0\xaf", "\"\\ufffd\\ufffd\"" }, /* overlong */
		{ "\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"" }, /* surrogate */
		{ "\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\"" },
		{ "\xe2\x82", "\"\\ufffd\\ufffd\"" },
		{ "\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" },
		{ "\xf0\x80\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" },
		{ "\xf0\x9f", "\"\\ufffd\\ufffd\"" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(sbuf) struct sbuf b;

		sbuf_init(&b, 0);
		sbuf_json_str(&b, cases[i].in);
		assert_string_equal(b.p, cases[i].out);
	}
}

static void invalid_utf8_becomes_question_marks(void **state)
{
	static const struct {
		const char *from, *to;
	} texts[] = { { "", "" }, { "plain", "plain" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" }, { "\xe9t\xe9", "?t?" },
		{ "cut \xe2\x82", "cut ??" },
		{ "\xf0\x9f\x98\x80\xf0\x9f\x98", "\xf0\x9f\x98\x80???" },
		{ "\xc0\xaf\xed\xa0\x80", "?????" }, { "a\xffz", "a?z" } };
	char buf[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		snprintf(buf, sizeof(buf), "%s", texts[i].from);
		assert_int_equal(str_utf8_mend(buf, strlen(buf)),
		    strcmp(texts[i].from, texts[i].to) == 0);
		assert_string_equal(buf, texts[i].to);
	}
	snprintf(buf, sizeof(buf), "%s", "\xe2\x82\xac!");
	assert_false(str_utf8_mend(buf, 2)); /* bytes after the length do not count */
	assert_string_equal(buf, "??\xac!");
}

static void near_one(const char *word, const char *expect)
{
	static const char *const valid[] = { "limit", "cursor", "providers" };
	const char *best = NULL;
	int least = NEAR_LEAST;

	for (size_t i = 0; i < ARRAY_LEN(valid); i++) {
		best = near_better(word, valid[i], best, &least);
	}
	if (expect == NULL) {
		assert_null(best);
	} else {
		assert_string_equal(best, expect);
	}
}

static void the_nearest_word_has_at_most_two_edits_or_starts_with_the_word(void **state)
{
	(void)state;
	near_one("limt", "limit");
	near_one("curosr", "cursor");
	near_one("prov", "providers");
	near_one("p", NULL);
	near_one("colour", NULL);
	near_one("", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_is_a_dollar_amount_only_if_it_is_a_plain_decimal),
		cmocka_unit_test(amounts_are_written_with_six_decimals_and_their_sign),
		cmocka_unit_test(integers_must_fill_the_whole_text_and_lie_in_range),
		cmocka_unit_test(real_numbers_are_decimal_and_finite),
		cmocka_unit_test(views_and_null_texts_compare_as_documented),
		cmocka_unit_test(urls_are_encoded_after_rfc_3986_and_decoded_strictly),
		cmocka_unit_test(a_buffer_over_its_cap_keeps_the_prefix_and_says_so),
		cmocka_unit_test(long_formats_are_kept_whole),
		cmocka_unit_test(json_strings_are_escaped_and_always_valid_utf8),
		cmocka_unit_test(invalid_utf8_becomes_question_marks),
		cmocka_unit_test(the_nearest_word_has_at_most_two_edits_or_starts_with_the_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
