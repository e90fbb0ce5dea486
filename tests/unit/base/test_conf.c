/* Configuration: one table, strict, all or nothing. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"

struct target {
	const char *listen, *key_file;
	int64_t port, poll_us, budget;
	double share;
	bool dry;
};
#define AT(m) offsetof(struct target, m)
static const struct conf_item items[] = {
	{ "api", "listen", "127.0.0.1", "1", "20", "Where to listen.", CONF_STR, 0, AT(listen) },
	{ "api", "port", "8080", "1", "65535", "Which port.", CONF_I64, 0, AT(port) },
	{ "api", "key_file", "", NULL, NULL, "Key.", CONF_PATH, CONF_SECRET, AT(key_file) },
	{ "engine", "poll", "90s", "1s", "1h", "How often.", CONF_DURATION, CONF_RELOAD,
	    AT(poll_us) },
	{ "engine", "budget", "12.5", "0", "1000", "Dollars.", CONF_USD, CONF_RELOAD, AT(budget) },
	{ "engine", "share", "0.5", "0", "1", "Part.", CONF_F64, 0, AT(share) },
	{ "engine", "dry", "no", NULL, NULL, "Only look.", CONF_BOOL, 0, AT(dry) },
};

static struct arena *arena;
static struct conf_file file;
static struct spot_err err;

static enum spot_rc conf_read(const char *text, struct target *t)
{
	err = (struct spot_err){ 0 };
	return conf_parse(arena, items, ARRAY_LEN(items), "spotd.ini", str_from(text), t, &file,
	    &err);
}

static int group_up(void **state)
{
	(void)state;
	arena = arena_new(0);
	return 0;
}

static int group_down(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

static void an_empty_file_gives_the_defaults(void **state)
{
	struct target t = { 0 };

	(void)state;
	assert_int_equal(conf_read("", &t), SPOT_OK);
	assert_string_equal(t.listen, "127.0.0.1");
	assert_int_equal(t.port, 8080);
	assert_string_equal(t.key_file, "");
	assert_int_equal(t.poll_us, 90000000);
	assert_int_equal(t.budget, 12500000);
	assert_true(t.share == 0.5);
	assert_false(t.dry);
	assert_int_equal(file.n, 0);
}

static void values_replace_defaults(void **state)
{
	struct target t = { 0 };

	(void)state;
	assert_int_equal(
	    conf_read("\xef\xbb\xbf# comment\r\n[ api ]\r\nlisten = ::1 ; not a comment\r\nport=1\n"
		      "; other\n\n[engine]\n  poll = 2m \ndry = yes\nshare=1\nbudget = 0\n",
		&t),
	    SPOT_OK);
	assert_string_equal(t.listen, "::1 ; not a comment");
	assert_int_equal(t.port, 1);
	assert_int_equal(t.poll_us, 120000000);
	assert_true(t.dry);
	assert_true(t.share == 1);
	assert_int_equal(t.budget, 0);
}

static void mistakes_are_refused_with_file_and_line_and_change_nothing(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "\nport = 1\n", "spotd.ini:2: 'port' stands before any [section]" },
		{ "[api]\nprot = 1\n", "[api] has no key 'prot'; did you mean 'port'?" },
		{ "[api]\npoll = 1s\n",
		    "spotd.ini:2: [api] has no key 'poll'; it belongs to [engine]" },
		{ "[api]\nzzzzzz = 1\n", "spotd.ini:2: [api] has no key 'zzzzzz'" },
		{ "[apy]\n", "spotd.ini:1: unknown section [apy]; did you mean 'api'?" },
		{ "[api\n", "spotd.ini:1: section is not closed" },
		{ "[]\n", "spotd.ini:1: section is not closed" },
		{ "[api]\nport\n", "spotd.ini:2: expected 'key = value'" },
		{ "[api]\n= 3\n", "spotd.ini:2: expected 'key = value'" },
		{ "[api]\nport = 0\n", "spotd.ini:2: [api] port = 0: below the minimum 1" },
		{ "[api]\nport = 65536\n", "above the maximum 65535" },
		{ "[api]\nport = 80x\n", "expected a whole number" },
		{ "[api]\nport =\n", "expected a whole number" },
		{ "[api]\nlisten =\n", "shorter than 1 characters" },
		{ "[api]\nlisten = 123456789012345678901\n", "longer than 20 characters" },
		{ "[engine]\npoll = 500ms\n", "below the minimum 1s" },
		{ "[engine]\npoll = 2h\n", "above the maximum 1h" },
		{ "[engine]\npoll = soon\n", "expected a duration" },
		{ "[engine]\nbudget = -1\n", "expected an amount in dollars" },
		{ "[engine]\nbudget = 1000.000001\n", "above the maximum 1000" },
		{ "[engine]\nshare = 1.01\n", "above the maximum 1" },
		{ "[engine]\nshare = -0.1\n", "below the minimum 0" },
		{ "[engine]\nshare = nan\n", "expected a number" },
		{ "[engine]\ndry = maybe\n", "expected true or false" },
		{ "[api]\nport = 2\nport = 2\n",
		    "spotd.ini:3: [api] port is already given on line 2" },
		{ "[api]\nport = 2\n[engine]\n[api]\nport = 2\n",
		    "spotd.ini:5: [api] port is already given on line 2" },
		{ "[p a]\n[p a]\n", "spotd.ini:2: [p a] is already given on line 1" },
		{ "[p a]\nk = 1\nk = 1\n", "spotd.ini:3: [p a] k is given twice" },
	};
	struct target t = { .port = 77 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(conf_read(cases[i].text, &t), SPOT_CONFIG);
		if (strstr(err.text, cases[i].words) == NULL) {
			fail_msg("'%s' gave '%s'", cases[i].text, err.text);
		}
		assert_int_equal(t.port, 77);
		assert_null(t.listen);
	}
	assert_int_equal(conf_parse(arena, items, ARRAY_LEN(items), "f",
			     ((struct str){ "a\0b", 3 }), &t, NULL, &err),
	    SPOT_CONFIG);
	assert_int_equal(conf_parse(arena, items, ARRAY_LEN(items), "f", STR_LIT("[p a]"), &t, NULL,
			     &err),
	    SPOT_CONFIG);
	assert_non_null(strstr(err.text, "sections have no names here"));
}

static void with_all_asked_for_every_mistake_is_named_and_the_rest_is_taken(void **state)
{
	static const char text[] =
	    "[api]\nport = 0\nlisten = ::1\nprot = 4\n[apy]\nport = 7\n[engine\npoll = soon\n"
	    "[engine]\npoll = later\ndry = yes\nshare\n[p a]\nk = 1\nk = 2\n[p a]\nk = 3\n";
	static const char *const words[] = {
		"spotd.ini:2: [api] port = 0: below the minimum 1",
		"spotd.ini:4: [api] has no key 'prot'; did you mean 'port'?",
		"spotd.ini:5: unknown section [apy]; did you mean 'api'?",
		"spotd.ini:7: section is not closed by ]",
		("spotd.ini:10: [engine] poll = later: expected a duration such as 30s, 5m, 2h or "
		 "250ms"),
		"spotd.ini:12: expected 'key = value' or '[section]'",
		"spotd.ini:15: [p a] k is given twice",
		"spotd.ini:16: [p a] is already given on line 13",
	};
	struct conf_mistakes all = { .arena = arena };
	struct target t = { 0 };

	(void)state;
	assert_int_equal(conf_parse_all(arena, items, ARRAY_LEN(items), "spotd.ini", str_from(text),
			     &t, &file, &all, &err),
	    SPOT_CONFIG);
	assert_string_equal(err.text, words[0]);
	for (size_t i = 0; i < MIN(all.n, ARRAY_LEN(words)); i++) {
		assert_string_equal(all.list[i], words[i]);
	}
	assert_int_equal(all.n, ARRAY_LEN(words));
	assert_string_equal(t.listen, "::1");
	assert_int_equal(t.port, 8080);
	assert_int_equal(t.poll_us, 90000000);
	assert_true(t.dry);
	assert_int_equal(file.n, 1);
	assert_string_equal(conf_section_get(&file.sections[0], "k"), "1");
	assert_int_equal(file.item_lines[0], 3);
	assert_int_equal(file.item_lines[5], 0);
	all.n = 0;
	assert_int_equal(conf_parse_all(arena, items, ARRAY_LEN(items), "f",
			     ((struct str){ "a\0b", 3 }), &t, &file, &all, NULL),
	    SPOT_CONFIG);
	assert_string_equal(all.list[0], "f: contains NUL bytes");
}

static void named_sections_keep_their_keys_as_text(void **state)
{
	struct target t;

	(void)state;
	assert_int_equal(conf_read("[provider aws]\nregions = us-east-1, "
				   "eu-west-1\nrole=\n[provider "
				   "lambda]\n"
				   "[api]\nport = 9\n",
			     &t),
	    SPOT_OK);
	assert_int_equal(file.n, 2);
	assert_string_equal(file.sections[0].kind, "provider");
	assert_string_equal(file.sections[0].name, "aws");
	assert_int_equal(file.sections[0].line, 1);
	assert_string_equal(conf_section_get(&file.sections[0], "regions"), "us-east-1, eu-west-1");
	assert_string_equal(conf_section_get(&file.sections[0], "role"), "");
	assert_null(conf_section_get(&file.sections[0], "x"));
	assert_int_equal(file.sections[1].n, 0);
	assert_int_equal(file.sections[1].line, 4);
	assert_int_equal(t.port, 9);
}

static void a_secret_value_is_not_in_the_message(void **state)
{
	static const struct conf_item secret[] = { { "a", "pin", "1", "1", "9", "Pin.", CONF_I64,
	    CONF_SECRET, 0 } };
	int64_t t = 0;

	(void)state;
	assert_int_equal(conf_parse(arena, secret, 1, "f", STR_LIT("[a]\npin = 4711"), &t, NULL,
			     &err),
	    SPOT_CONFIG);
	assert_null(strstr(err.text, "4711"));
	assert_non_null(strstr(err.text, "(hidden)"));
}

static void a_bad_default_is_a_bug_of_ours_and_says_so(void **state)
{
	static const struct conf_item bad[] = { { "a", "n", "x", NULL, NULL, "N.", CONF_I64, 0,
	    0 } };
	int64_t t = 0;

	(void)state;
	assert_int_equal(conf_parse(arena, bad, 1, "f", STR_LIT(""), &t, NULL, &err),
	    SPOT_INTERNAL);
}

static void a_printed_configuration_reads_back_the_same(void **state)
{
	struct target t = { 0 }, back = { 0 };
	AUTO(sbuf) struct sbuf b;

	(void)state;
	assert_int_equal(conf_read("[engine]\npoll = 61s\nbudget = 0.000001\nshare = 0.1\ndry=on\n"
				   "[api]\nkey_file = /run/hidden\n",
			     &t),
	    SPOT_OK);
	sbuf_init(&b, 0);
	conf_print(items, ARRAY_LEN(items), &t, true, &b);
	assert_null(strstr(b.p, "/run/hidden"));
	assert_non_null(strstr(b.p, "# key_file is not shown"));
	assert_non_null(strstr(b.p, "poll = 61s"));
	assert_non_null(strstr(b.p,
	    "# How often.\n# a duration such as 30s, 5m, 2h or 250ms, at least 1s, "
	    "at most 1h; default: 90s; reloadable\n"));
	assert_int_equal(conf_read(b.p, &back), SPOT_OK);
	assert_int_equal(back.poll_us, t.poll_us);
	assert_int_equal(back.budget, 1);
	assert_true(back.share == t.share);
	assert_true(back.dry);
	sbuf_reset(&b);
	t.poll_us = 0;
	conf_print(items, ARRAY_LEN(items), &t, false, &b);
	assert_non_null(strstr(b.p, "poll = 0s\n"));
	assert_null(strstr(b.p, "How often"));
}

static void comments_wrap_at_100_columns(void **state)
{
	static const struct conf_item long_help[] = { { "a", "n", "1", "0", "9",
	    "Every word of this help is there and in its order although the line is longer than a "
	    "hundred columns and so goes on.",
	    CONF_I64, 0, 0 } };
	int64_t t = 1;
	AUTO(sbuf) struct sbuf b;

	(void)state;
	sbuf_init(&b, 0);
	conf_print(long_help, 1, &t, true, &b);
	assert_string_equal(b.p,
	    "[a]\n\n"
	    "# Every word of this help is there and in its order although the line is longer than "
	    "a hundred\n"
	    "# columns and so goes on.\n"
	    "# a whole number, at least 0, at most 9; default: 1\nn = 1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_file_gives_the_defaults),
		cmocka_unit_test(values_replace_defaults),
		cmocka_unit_test(mistakes_are_refused_with_file_and_line_and_change_nothing),
		cmocka_unit_test(with_all_asked_for_every_mistake_is_named_and_the_rest_is_taken),
		cmocka_unit_test(named_sections_keep_their_keys_as_text),
		cmocka_unit_test(a_secret_value_is_not_in_the_message),
		cmocka_unit_test(a_bad_default_is_a_bug_of_ours_and_says_so),
		cmocka_unit_test(a_printed_configuration_reads_back_the_same),
		cmocka_unit_test(comments_wrap_at_100_columns),
	};

	return cmocka_run_group_tests(tests, group_up, group_down);
}
