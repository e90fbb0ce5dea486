/* YAML: positions, refusals, caps. */
#include "base/base.h"
#include "unit.h"

#include "base/text/text.h"

struct docs {
	struct arena *a;
	struct yaml **items;
	size_t n;
	struct spot_err err;
};

static enum spot_rc yaml_read(struct docs *d, const char *text)
{
	*d = (struct docs){ .a = arena_new(0) };
	return yaml_parse(d->a, str_from(text), &d->items, &d->n, &d->err);
}

static void entries_know_their_place_and_their_style(void **state)
{
	struct docs d;

	(void)state;
	assert_int_equal(yaml_read(&d,
			     "name: train\n"
			     "gpu:\n"
			     "  count: \"2\"\n"
			     "steps: [one, 'two']\n"
			     "none: ~\n"
			     "text: |\n  a\n  b\n"),
	    SPOT_OK);
	assert_int_equal(d.n, 1);
	const struct yaml *root = d.items[0];
	assert_int_equal(root->kind, YAML_MAP);
	assert_int_equal(root->children, 5);
	const struct yaml *count = yaml_get(yaml_get(root, "gpu"), "count");
	assert_string_equal(count->text, "2");
	assert_false(count->plain);
	assert_int_equal(count->line, 3);
	assert_int_equal(count->column, 10);
	assert_int_equal(count->key_line, 3);
	assert_int_equal(count->key_column, 3);
	const struct yaml *steps = yaml_get(root, "steps");
	assert_int_equal(steps->kind, YAML_SEQ);
	assert_int_equal(steps->children, 2);
	assert_null(steps->child->key);
	assert_true(steps->child->plain);
	assert_string_equal(steps->child->next->text, "two");
	assert_true(yaml_is_null(yaml_get(root, "none")));
	assert_true(yaml_is_null(yaml_get(root, "absent")));
	assert_false(yaml_is_null(yaml_get(root, "name")));
	assert_false(yaml_is_null(root));
	assert_string_equal(yaml_get(root, "text")->text, "a\nb\n");
	assert_null(yaml_get(steps, "x"));
	assert_null(yaml_get(NULL, "x"));
	arena_free(d.a);
}

static void scalars_know_their_bytes(void **state)
{
	static const char text[] = "\xc3\xa9\xe2\x82\xac: \"\xc3\xbc\\n\"\r\nb: |\n  x\xc3\xa9\n\n "
				   " y\nc: [un, 'd''e']\nf: >-\n  g";
	static const char *const keys[] = { "\xc3\xa9\xe2\x82\xac", "b", "c", "f" },
				 *const bytes[] = { "\"\xc3\xbc\\n\"", "|\n  x\xc3\xa9\n\n  y\n",
					 NULL, ">-\n  g" };
	struct docs d;

	(void)state;
	assert_int_equal(yaml_read(&d, text), SPOT_OK);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct yaml *y = yaml_get(d.items[0], keys[i]);

		assert_memory_equal(text + y->key_begin, keys[i], y->key_end - y->key_begin);
		assert_int_equal(y->key_end - y->key_begin, strlen(keys[i]));
		if (bytes[i] != NULL) {
			assert_int_equal(y->end - y->begin, strlen(bytes[i]));
			assert_memory_equal(text + y->begin, bytes[i], strlen(bytes[i]));
		}
	}
	const struct yaml *last = yaml_get(d.items[0], "c")->child->next;

	assert_int_equal(last->end - last->begin, 6);
	assert_memory_equal(text + last->begin, "'d''e'", 6);
	arena_free(d.a);
}

static void quoted_null_is_text(void **state)
{
	struct docs d;

	(void)state;
	assert_int_equal(yaml_read(&d, "{a: 'null', b: null, c: , d: \"\"}"), SPOT_OK);
	assert_false(yaml_is_null(yaml_get(d.items[0], "a")));
	assert_true(yaml_is_null(yaml_get(d.items[0], "b")));
	assert_true(yaml_is_null(yaml_get(d.items[0], "c")));
	assert_false(yaml_is_null(yaml_get(d.items[0], "d")));
	arena_free(d.a);
}

static void json_and_several_documents_are_accepted(void **state)
{
	struct docs d;

	(void)state;
	assert_int_equal(yaml_read(&d, "{\"a\": {\"b\": [1, true, null]}}"), SPOT_OK);
	assert_int_equal(yaml_get(yaml_get(d.items[0], "a"), "b")->children, 3);
	arena_free(d.a);
	assert_int_equal(yaml_read(&d, "a: 1\n---\n- x\n---\nplain\n"), SPOT_OK);
	assert_int_equal(d.n, 3);
	assert_int_equal(d.items[1]->kind, YAML_SEQ);
	assert_string_equal(d.items[2]->text, "plain");
	arena_free(d.a);
	assert_int_equal(yaml_read(&d, ""), SPOT_OK);
	assert_int_equal(d.n, 0);
	arena_free(d.a);
}

static void surprising_yaml_is_refused_with_line_and_column(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "a: 1\nb: 2\na: 3\n", "line 3, column 1: key 'a' is already given on line 1" },
		{ "a: &x 1\n", "line 1, column 4: anchors are not supported" },
		{ "- &x [1]\n", "anchors are not supported" },
		{ "- &x {a: 1}\n", "anchors are not supported" },
		{ "a: 1\nb: *a\n", "line 2, column 4: aliases are not supported" },
		{ "? *a\n: 1\n", "aliases are not supported" },
		{ "a: !!python/object 1\n", "line 1, column 4: tags are not supported" },
		{ "- !x [1]\n", "tags are not supported" },
		{ "- !x {a: 1}\n", "tags are not supported" },
		{ "? [1, 2]\n: x\n", "line 1, column 3: keys must be plain text" },
		{ "a: \"x\\0y\"\n", "line 1, column 4: NUL bytes" },
		{ "a: [1, 2\n", "line 2" },
		{ "a:\n\t- 1\n", "line 2, column 1" },
		{ "a: b: c\n", "line 1, column 5" },
		{ "a: \xff\n", "byte 3" },
		{ "a: \x01\n", "control characters" },
	};
	struct docs d;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(yaml_read(&d, cases[i].text), SPOT_INVALID);
		if (strstr(d.err.text, cases[i].words) == NULL) {
			fail_msg("'%s' gave '%s'", cases[i].text, d.err.text);
		}
		assert_null(d.items);
		arena_free(d.a);
	}
}

static void an_alias_bomb_is_refused_at_its_first_anchor(void **state)
{
	struct docs d;

	(void)state;
	assert_int_equal(yaml_read(&d, "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"), SPOT_INVALID);
	assert_non_null(strstr(d.err.text, "line 1"));
	arena_free(d.a);
}

static void depth_size_and_number_of_values_are_capped(void **state)
{
	struct docs d;
	AUTO(sbuf) struct sbuf b;

	(void)state;
	sbuf_init(&b, 0);
	for (int depth = 31; depth <= 32; depth++) {
		sbuf_reset(&b);
		for (int i = 0; i < depth; i++) {
			sbuf_putc(&b, '[');
		}
		sbuf_putc(&b, 'x');
		for (int i = 0; i < depth; i++) {
			sbuf_putc(&b, ']');
		}
		assert_int_equal(yaml_read(&d, b.p), depth == 31 ? SPOT_OK : SPOT_INVALID);
		arena_free(d.a);
	}
	sbuf_reset(&b);
	for (int i = 0; i < 20001; i++) {
		sbuf_puts(&b, "- x\n");
	}
	assert_int_equal(yaml_read(&d, b.p), SPOT_INVALID);
	assert_non_null(strstr(d.err.text, "more than 20,000 values"));
	arena_free(d.a);
	sbuf_reset(&b);
	while (b.n <= (size_t)1 << 20) {
		sbuf_puts(&b, "# comment\n");
	}
	assert_int_equal(yaml_read(&d, b.p), SPOT_TOO_LARGE);
	arena_free(d.a);
	sbuf_reset(&b);
	for (int i = 0; i < 100000; i++) {
		sbuf_putc(&b, '[');
	}
	assert_int_equal(yaml_read(&d, b.p), SPOT_INVALID);
	arena_free(d.a);
}

static void a_failure_names_place_and_key(void **state)
{
	struct docs d;
	struct spot_err err;

	(void)state;
	assert_int_equal(yaml_read(&d, "a:\n  gpus: x\n"), SPOT_OK);
	const struct yaml *y = yaml_get(yaml_get(d.items[0], "a"), "gpus");
	assert_int_equal(yaml_fail(y, &err, "expected a number, found '%s'", y->text),
	    SPOT_INVALID);
	assert_string_equal(err.text, "line 2, column 9: gpus: expected a number, found 'x'");
	yaml_fail(NULL, &err, "nothing there");
	assert_string_equal(err.text, "nothing there");
	yaml_fail(d.items[0], &err, "root");
	assert_string_equal(err.text, "line 1, column 1: root");
	arena_free(d.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_know_their_place_and_their_style),
		cmocka_unit_test(scalars_know_their_bytes),
		cmocka_unit_test(quoted_null_is_text),
		cmocka_unit_test(json_and_several_documents_are_accepted),
		cmocka_unit_test(surprising_yaml_is_refused_with_line_and_column),
		cmocka_unit_test(an_alias_bomb_is_refused_at_its_first_anchor),
		cmocka_unit_test(depth_size_and_number_of_values_are_capped),
		cmocka_unit_test(a_failure_names_place_and_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
