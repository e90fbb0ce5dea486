/* JSON written value by value: a reader cannot tell it from what jansson prints. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"

#include <math.h>

/* Takes v. */
static void assert_reads(struct sbuf *b, json_t *v)
{
	json_t *got = json_loads(b->p, JSON_DECODE_ANY, NULL);
	struct arena *a = arena_new(0);
	const char *text = json_text(a, v);
	json_t *want = json_loads(text, JSON_DECODE_ANY, NULL);

	if (got == NULL || !json_equal(got, want)) {
		fail_msg("'%s' is not '%s'", b->p, text);
	}
	json_decref(got);
	json_decref(want);
	json_decref(v);
	arena_free(a);
	sbuf_reset(b);
}

static void numbers_read_as_jansson_prints_them(void **state UNUSED)
{
	static const int64_t ints[] = { 0, 1, -1, 9, 10, INT64_MAX, INT64_MIN, 1000000 };
	static const double reals[] = { 0, -0.0, 1, 0.1, 1e-7, 1e15, 1e17, 1e300, -2.5, 1.0 / 3 };
	struct sbuf b;
	struct rng rng;

	sbuf_init(&b, 0);
	rng_seeded_init(&rng, 7);
	for (size_t i = 0; i < ARRAY_LEN(ints); i++) {
		json_put_i64(&b, ints[i]);
		assert_reads(&b, json_integer(ints[i]));
	}
	for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
		json_put_f64(&b, reals[i]);
		assert_reads(&b, json_real(reals[i]));
	}
	for (int i = 0; i < 2000; i++) {
		int64_t micros = (int64_t)rng_u64(&rng) >> (14 + rng_u64(&rng) % 49);

		json_put_usd(&b, micros);
		assert_reads(&b, json_usd(micros));
		json_put_i64(&b, micros);
		assert_reads(&b, json_integer(micros));
	}
	json_put_f64(&b, INFINITY);
	assert_string_equal(b.p, "null");
	sbuf_fini(&b);
}

static void assert_printed(struct sbuf *b, double v)
{
	char text[40];

	snprintf(text, sizeof(text), "%.15g", v);
	json_put_f64(b, v);
	if (strncmp(b->p, text, strlen(text)) != 0 ||
	    (b->n != strlen(text) && strcmp(b->p + strlen(text), ".0") != 0)) {
		fail_msg("%a is written as %s, and %s is right", v, b->p, text);
	}
	sbuf_reset(b);
}

/* Around each power of ten, halfway between two texts, and anywhere. */
static void reals_are_rounded_as_printf_rounds_them(void **state UNUSED)
{
	struct sbuf b;
	struct rng rng;

	sbuf_init(&b, 0);
	rng_seeded_init(&rng, 11);
	for (int power = -6; power < 18; power++) {
		double v = pow(10, power), below = v, above = v;

		for (int i = 0; i < 12; i++) {
			assert_printed(&b, below);
			assert_printed(&b, -above);
			below = nextafter(below, 0);
			above = nextafter(above, INFINITY);
		}
		for (int i = 0; i < 200; i++) {
			uint64_t bits = rng_u64(&rng);

			assert_printed(&b, (double)(bits >> 11) / 9007199254740992.0 * v);
			assert_printed(&b, round((double)(bits % 100000)) * v / 1000);
			assert_printed(&b, ldexp((double)(bits % 2000001), -(int)(bits >> 58)));
		}
	}
	sbuf_fini(&b);
}

static void members_have_their_commas(void **state UNUSED)
{
	struct sbuf b;

	sbuf_init(&b, 0);
	sbuf_putc(&b, '{');
	json_add_i64(&b, "n", -3);
	json_add_text(&b, "t", "a\"{");
	json_add_text(&b, "none", NULL);
	json_add_name(&b, "in");
	sbuf_putc(&b, '{');
	json_add_f64(&b, "f", 0.5);
	json_add_bool(&b, "b", true);
	sbuf_putc(&b, '}');
	json_add_id(&b, "id", 'p', 44);
	json_add_money(&b, "cost", 1500000);
	json_add_null(&b, "z");
	sbuf_putc(&b, '}');
	assert_string_equal(b.p,
	    "{\"n\":-3,\"t\":\"a\\\"{\",\"none\":null,\"in\":{\"f\":0.5,\"b\":true},\"id\":\"p44\","
	    "\"cost_micros\":1500000,\"cost_usd\":1.5,\"z\":null}");
	sbuf_fini(&b);
}

static void fixed_numbers_are_exact(void **state UNUSED)
{
	static const struct {
		int64_t v;
		int places;
		bool point;
		const char *text;
	} cases[] = { { 8000, 3, false, "8" }, { 125, 3, false, "0.125" }, { 1500, 3, true, "1.5" },
		{ 8000, 3, true, "8.0" }, { 0, 3, false, "0" }, { -2000000, 6, true, "-2.0" },
		{ -1, 6, true, "-0.000001" }, { INT64_MIN, 6, true, "-9223372036854.775808" } };
	struct sbuf b;

	sbuf_init(&b, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_put_fixed(&b, cases[i].v, cases[i].places, cases[i].point);
		assert_string_equal(b.p, cases[i].text);
		sbuf_reset(&b);
	}
	sbuf_fini(&b);
}

static void strings_and_times_read_as_jansson_prints_them(void **state UNUSED)
{
	static const char *const texts[] = { "", "a", "\"q\"", "\\", "a\nb\tc\rd\be\f",
		"\x01\x1f\x0b", "\x7f", "\xc3\xa9\xe4\xb8\x96\xf0\x9f\x98\x80", "</script>" };
	static const int64_t times[] = { 1, 1767323045000006, 253402300799999999, 0, -1,
		-62135596800000000, 951782400000000 };
	struct sbuf b;

	sbuf_init(&b, 0);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		json_put_str(&b, texts[i], strlen(texts[i]));
		assert_reads(&b, json_string(texts[i]));
	}
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		json_put_time(&b, times[i]);
		assert_reads(&b, json_time(times[i]));
	}
	sbuf_fini(&b);
}

static void documents_are_copied_without_blanks(void **state UNUSED)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "{\"a\" : [1, 2.50,\n{} ], \"b\\\\\":\"x \\\" : y\"}",
		    "{\"a\":[1,2.50,{}],\"b\\\\\":\"x \\\" : y\"}" },
		{ "\"s@\"", "\"s@\"" },
		{ " null ", "null" },
		{ "0.30000000000000004", "0.3" },
		{ "9007199254740993", "9007199254740993" },
		{ "{\"t@\": {\"x\": [\"}\", 1]}, \"m$\" : \"word\", \"z\":1}",
		    "{\"t_at\":null,\"m_micros\":\"word\",\"m_usd\":null,\"z\":1}" },
		{ "{\"open", "{\"open" },
	};
	struct sbuf b;

	sbuf_init(&b, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_marks_put(&b, cases[i].in, strlen(cases[i].in), 0);
		assert_string_equal(b.p, cases[i].out);
		sbuf_reset(&b);
	}
	sbuf_fini(&b);
}

#define NOW INT64_C(1767323045000006) /* 2026-01-02T03:04:05.000006Z */

struct mark_case {
	const char *in, *out;
};

static void assert_marks(const struct mark_case *cases, size_t n)
{
	struct sbuf b;

	sbuf_init(&b, 0);
	for (size_t i = 0; i < n; i++) {
		/* A copy without a NUL behind it, so that a sanitizer sees a read past the text. */
		size_t len = strlen(cases[i].in);
		char *text = malloc(len + 1);

		assert_non_null(text);
		memcpy(text, cases[i].in, len);
		json_marks_put(&b, text, len, NOW);
		assert_string_equal(b.p, cases[i].out);
		sbuf_reset(&b);
		free(text);
	}
	sbuf_fini(&b);
}

static void marks_become_members(void **state UNUSED)
{
	static const struct mark_case cases[] = {
		{ "{\"made@\":1767323045000006}", "{\"made_at\":\"2026-01-02T03:04:05.000006Z\"}" },
		{ "{\"@\" :\t1767323045000006 }", "{\"at\":\"2026-01-02T03:04:05.000006Z\"}" },
		{ "[{\"seen@age\":1767322955000006}]",
		    "[{\"seen_at\":\"2026-01-02T03:02:35.000006Z\",\"age_s\":90}]" },
		/* A clock that is ahead gives no negative age. */
		{ "{\"seen@age\":1767323051000006}",
		    "{\"seen_at\":\"2026-01-02T03:04:11.000006Z\",\"age_s\":0}" },
		{ "{\"seen@age\":null}", "{\"seen_at\":null,\"age_s\":null}" },
		{ "{\"p$\":1500000,\"q$\":-1}",
		    "{\"p_micros\":1500000,\"p_usd\":1.5,\"q_micros\":-1,\"q_usd\":-0.000001}" },
		{ "{\"p$\":null}", "{\"p_micros\":null,\"p_usd\":null}" },
		/* Not marks. */
		{ "{\"$\":1,\"\":2,\"a@b\":3,\"a@agf\":4}",
		    "{\"$\":1,\"\":2,\"a@b\":3,\"a@agf\":4}" },
		{ "{\"\\\\\\\"$\":1}", "{\"\\\\\\\"_micros\":1,\"\\\\\\\"_usd\":0.000001}" },
		{ "[\"\\\\\",\r\"a$\",\t\"b@\"]", "[\"\\\\\",\"a$\",\"b@\"]" },
	};

	assert_marks(cases, ARRAY_LEN(cases));
}

static void values_that_no_mark_can_have_become_null(void **state UNUSED)
{
	static const struct mark_case cases[] = {
		{ "{\"t@\":1.5}", "{\"t_at\":null}" },
		{ "{\"t@\":-}", "{\"t_at\":null}" },
		{ "{\"t@age\":[1,{\"u@\":2}],\"z\":1}", "{\"t_at\":null,\"age_s\":null,\"z\":1}" },
		{ "{\"m$\":9223372036854775807}",
		    "{\"m_micros\":9223372036854775807,\"m_usd\":9223372036854.775807}" },
		{ "{\"m$\":9223372036854775808}",
		    "{\"m_micros\":9223372036854775808,\"m_usd\":null}" },
		{ "{\"m$\":18446744073709551617}",
		    "{\"m_micros\":18446744073709551617,\"m_usd\":null}" },
		/* The text ends before the value does. */
		{ "{\"t@\": ", "{\"t_at\":null" },
		{ "{\"t@\":[1,", "{\"t_at\":null" },
		{ "{\"m$\":\"a\\\"", "{\"m_micros\":\"a\\\",\"m_usd\":null" },
		{ "{\"t@\"", "{\"t@\"" },
	};

	assert_marks(cases, ARRAY_LEN(cases));
}

static void only_long_reals_are_rounded(void **state UNUSED)
{
	static const struct mark_case cases[] = {
		{ "-0.30000000000000004", "-0.3" },
		{ "[1.2345678901234567,0.1234567890123]", "[1.23456789012346,0.1234567890123]" },
		{ "1250000000000000e-15", "1.25" },
		{ "-9223372036854775808", "-9223372036854775808" },
		/* Too long to be a real that the database wrote. */
		{ "0.1234567890123456789012345678901234567890123456789012345678901234",
		    "0.1234567890123456789012345678901234567890123456789012345678901234" },
		/* Not JSON, and so it stays. */
		{ "x.12345678901234567", "x.12345678901234567" },
	};

	assert_marks(cases, ARRAY_LEN(cases));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_read_as_jansson_prints_them),
		cmocka_unit_test(reals_are_rounded_as_printf_rounds_them),
		cmocka_unit_test(members_have_their_commas),
		cmocka_unit_test(fixed_numbers_are_exact),
		cmocka_unit_test(strings_and_times_read_as_jansson_prints_them),
		cmocka_unit_test(documents_are_copied_without_blanks),
		cmocka_unit_test(marks_become_members),
		cmocka_unit_test(values_that_no_mark_can_have_become_null),
		cmocka_unit_test(only_long_reals_are_rounded),
	};

	return cmocka_run_group_tests_name("json_put", tests, NULL, NULL);
}
