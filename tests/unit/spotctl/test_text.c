/* spotctl's output: widths, cleaned text, money, ages, paths into documents. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void widths_are_columns_not_bytes(void **state)
{
	static const struct {
		const char *text;
		size_t width;
	} cases[] = {
		{ "", 0 },
		{ "abc", 3 },
		{ "Ü", 1 },
		{ "▁▂", 2 },
		{ "日本", 4 },
		{ "e\xcc\x81", 1 },
		{ "🙂", 2 },
		{ "\xff\xfe", 2 },
		{ "\xe6\x97", 2 },
		{ "a\xc3", 2 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (text_width(cases[i].text) != cases[i].width) {
			fail_msg("case %zu: %zu", i, text_width(cases[i].text));
		}
	}
}

static void control_characters_and_broken_utf8_are_replaced(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain ü", "plain ü" },
		{ "a\tb\nc\rd", "a b c d" },
		{ "\033[31m", "?[31m" },
		{ "\x7f", "?" },
		{ "\xc2\x9b"
		  "x",
		    "?x" },
		{ "\xe2\x80\xae"
		  "x",
		    "?x" },
		{ "\xff", "?" },
		{ "\xe6\x97", "??" },
	};
	AUTO(arena) struct arena *a = arena_new(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_string_equal(text_clean(a, cases[i].in), cases[i].out);
	}
}

static void money_is_rounded_in_integers(void **state)
{
	static const struct {
		int64_t micros;
		int digits;
		const char *text;
	} cases[] = {
		{ 0, 4, "0.0000" },
		{ 412300, 4, "0.4123" },
		{ 412349, 4, "0.4123" },
		{ 412350, 4, "0.4124" },
		{ 999999, 2, "1.00" },
		{ -1, 6, "-0.000001" },
		{ -1, 4, "0.0000" },
		{ -1234567, 4, "-1.2346" },
		{ 1234567, 6, "1.234567" },
		{ 1500000, 0, "2" },
		{ INT64_MAX, 6, "9223372036854.775807" },
		{ INT64_MIN, 6, "-9223372036854.775808" },
	};
	AUTO(arena) struct arena *a = arena_new(0);
	struct ctl c = { .arena = a };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_string_equal(usd_text(&c, cases[i].micros, cases[i].digits), cases[i].text);
	}
}

static void cells_follow_paths_and_are_exact_in_csv(void **state)
{
	static const struct {
		const char *path;
		enum cell_kind kind;
		const char *table, *csv;
	} cases[] = {
		{ "pool.region", CELL_TEXT, "r1", "r1" },
		{ "pool.none.deeper", CELL_TEXT, "", "" },
		{ "age", CELL_AGE, "1m05s", "65.9" },
		{ "at", CELL_TIME, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678Z" },
		{ "usd", CELL_USD, "1.2346", "1.234567" },
		{ "real", CELL_REAL, "0.33", "0.3333" },
		{ "nothing", CELL_USD, "", "" },
		{ "usd", CELL_STEPS, "3/9", "3/9" },
		{ "pool", CELL_GPU, "0.5xA100", "0.5xA100" },
		{ "pool", CELL_PLACE, "aws/r1", "aws/r1" },
		{ "nothing", CELL_PLACE, "", "" },
		{ "flag", CELL_TEXT, "true", "true" },
	};
	AUTO(arena) struct arena *a = arena_new(0);
	AUTO(json)
	json_t *row = json_loads("{\"pool\":{\"provider\":\"aws\",\"region\":\"r1\",\"zone\":\"\","
				 "\"gpu\":\"A100\",\"gpus\":0.5},"
				 "\"age\":65.9,\"at\":\"2026-01-02T03:04:05.678Z\",\"usd\":1234567,"
				 "\"real\":0.3333,\"nothing\":null,\"steps_done\":3,"
				 "\"steps_total\":9,\"flag\":true}",
	    0, NULL);
	struct ctl c = { .arena = a };

	(void)state;
	assert_non_null(row);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct column col = { "X", cases[i].path, cases[i].kind, false };

		c.format = FORMAT_TABLE;
		assert_string_equal(cell_text(&c, row, &col), cases[i].table);
		c.format = FORMAT_CSV;
		assert_string_equal(cell_text(&c, row, &col), cases[i].csv);
	}
}

static void urls_of_servers_are_made_alike(void **state)
{
	static const struct {
		const char *in, *out;
		bool loopback;
	} cases[] = {
		{ "https://h/", "https://h", false },
		{ "h:8642", "https://h:8642", false },
		{ "http://127.0.0.1:1//", "http://127.0.0.1:1", true },
		{ "http://localhost", "http://localhost", true },
		{ "http://[::1]:5/x", "http://[::1]:5/x", true },
		{ "http://localhost.example.com", "http://localhost.example.com", false },
		{ "http://127.0.0.10", "http://127.0.0.10", false },
		{ "ftp://h", NULL, false },
		{ "http://", NULL, false },
		{ "http://u:p@h", NULL, false },
		{ "http://h?x", NULL, false },
	};
	AUTO(arena) struct arena *a = arena_new(0);
	struct ctl c = { .arena = a };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *u = url_normalise(&c, cases[i].in);

		if (cases[i].out == NULL) {
			assert_null(u);
		} else {
			assert_string_equal(u, cases[i].out);
			assert_int_equal(url_loopback(u), cases[i].loopback);
		}
	}
}

static void the_tree_is_whole(void **state)
{
	int n = 0;

	(void)state;
	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++, n++) {
		bool known = false;

		/* no command is there twice */
		assert_ptr_equal(tree_find(k->noun, k->verb, &known), k);
		assert_non_null(k->run);
		assert_in_range(k->args_max, k->args_min, CTL_ARGS_MAX);
		for (const struct ctl_opt *o = k->opts; o != NULL && o->name != NULL; o++) {
			assert_false(str_empty(o->help));
			for (const struct ctl_opt *p = common_opts; p->name != NULL; p++) {
				assert_string_not_equal(o->name, p->name);
				assert_true(o->letter == 0 || o->letter != p->letter);
			}
			for (const struct ctl_opt *p = k->opts; p != o; p++) {
				assert_true(o->letter == 0 || o->letter != p->letter);
			}
		}
	}
	assert_true(n > 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(widths_are_columns_not_bytes),
		cmocka_unit_test(control_characters_and_broken_utf8_are_replaced),
		cmocka_unit_test(money_is_rounded_in_integers),
		cmocka_unit_test(cells_follow_paths_and_are_exact_in_csv),
		cmocka_unit_test(urls_of_servers_are_made_alike),
		cmocka_unit_test(the_tree_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
