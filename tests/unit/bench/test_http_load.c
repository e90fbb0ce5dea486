/* The load generator's histogram, and the requests that it makes of a template file. */
#include "base/base.h"
#include "unit.h"

#include "histogram.h"
#include "templates.h"

#include "base/text/text.h"

/* ---- histogram ------------------------------------------------------------------------------- */

static void percentiles_of_small_values_are_exact(void **state)
{
	struct histogram h;

	(void)state;
	histogram_reset(&h);
	for (int64_t us = 100; us >= 1; us--) {
		histogram_add(&h, us);
	}
	assert_int_equal(histogram_percentile(&h, 0), 1);
	assert_int_equal(histogram_percentile(&h, 0.5), 50);
	assert_int_equal(histogram_percentile(&h, 0.99), 99);
	assert_int_equal(histogram_percentile(&h, 0.999), 100);
	assert_int_equal(histogram_percentile(&h, 1), 100);
	assert_true(histogram_mean(&h) > 50.4 && histogram_mean(&h) < 50.6);
}

static void a_percentile_is_at_most_a_64th_above_the_value(void **state)
{
	struct histogram h;

	(void)state;
	for (int64_t us = 1; us < HISTOGRAM_US_MAX; us += 1 + us / 37) {
		int64_t got;

		histogram_reset(&h);
		histogram_add(&h, us);
		histogram_add(&h, HISTOGRAM_US_MAX);
		got = histogram_percentile(&h, 0.5);
		assert_true(got >= us && got <= us + us / 64);
	}
}

static void values_outside_the_range_count_at_its_ends(void **state)
{
	struct histogram h;

	(void)state;
	histogram_reset(&h);
	assert_int_equal(histogram_percentile(&h, 0.5), 0);
	histogram_add(&h, -5);
	histogram_add(&h, INT64_MAX);
	assert_int_equal(h.n, 2);
	assert_int_equal(histogram_percentile(&h, 0.5), 0);
	assert_int_equal(histogram_percentile(&h, 1), HISTOGRAM_US_MAX);
}

/* ---- templates ------------------------------------------------------------------------------- */

struct world {
	struct arena *arena;
	struct templates templates;
	struct rng rng;
	struct sbuf out;
};

static int world_make(void **state)
{
	static struct world w;

	w = (struct world){ .arena = arena_new(0) };
	rng_seeded_init(&w.rng, 5);
	sbuf_init(&w.out, 0);
	*state = &w;
	return 0;
}

static int world_free(void **state)
{
	struct world *w = *state;

	sbuf_fini(&w->out);
	arena_free(w->arena);
	return 0;
}

static void world_parse(struct world *w, const char *text)
{
	struct spot_err err = { 0 };

	assert_int_equal(templates_parse(w->arena, str_from(text), "h:1", &w->templates, &err),
	    SPOT_OK);
}

static const char *world_render(struct world *w, size_t i, int64_t counter)
{
	sbuf_reset(&w->out);
	template_render(&w->templates.all[i], counter, &w->rng, &w->out);
	return w->out.p;
}

static void a_request_has_its_own_number_and_the_length_of_its_body(void **state)
{
	struct world *w = *state;

	world_parse(w,
	    "### POST /v1/jobs\nIdempotency-Key: k-{counter}\n\nname: j{counter}\n"
	    "config: {a: 1}\n### GET /v1/jobs?limit=2\nA: b\r\n\n");
	assert_int_equal(w->templates.n, 2);
	assert_string_equal(world_render(w, 0, 99),
	    "POST /v1/jobs HTTP/1.1\r\nHost: h:1\r\nIdempotency-Key: k-99\r\nContent-Length: 25\r\n"
	    "\r\nname: j99\nconfig: {a: 1}\n");
	assert_string_equal(world_render(w, 0, 100),
	    "POST /v1/jobs HTTP/1.1\r\nHost: h:1\r\nIdempotency-Key: k-100\r\nContent-Length: 26"
	    "\r\n\r\nname: j100\nconfig: {a: 1}\n");
	assert_string_equal(world_render(w, 1, 0),
	    "GET /v1/jobs?limit=2 HTTP/1.1\r\nHost: h:1\r\nA: b\r\n\r\n");
}

static void random_numbers_are_within_their_range(void **state)
{
	struct world *w = *state;
	bool seen[4] = { false };

	world_parse(w, "### GET /{random:3}\n");
	for (int i = 0; i < 200; i++) {
		int n = world_render(w, 0, 0)[strlen("GET /")] - '0';

		assert_in_range(n, 1, 3);
		seen[n] = true;
	}
	assert_true(seen[1] && seen[2] && seen[3]);
}

static void templates_are_picked_by_weight(void **state)
{
	struct world *w = *state;
	int first = 0;

	world_parse(w, "### GET /a 3\n### GET /b\n");
	for (int i = 0; i < 4000; i++) {
		first += templates_pick(&w->templates, &w->rng) == &w->templates.all[0];
	}
	assert_in_range(first, 2850, 3150);
}

static void a_wrong_file_is_refused_with_its_line(void **state)
{
	static const struct {
		const char *text, *problem;
	} cases[] = {
		{ "", "there is no template" },
		{ "GET /\n", "line 1: a template begins" },
		{ "### GET\n", "line 1: '###' needs a method and a path" },
		{ "### GET v1\n", "line 1: '###' needs a method and a path" },
		{ "### GET / 0\n", "line 1: the weight" },
		{ "### GET / 1 2\n", "line 1: too many words" },
		{ "### GET /\nno header\n", "line 2: a header needs a ':'" },
		{ "### GET /{random:0}\n", "line 1: {random:N} needs" },
		{ "### POST /\n\nx\n{random:y}", "line 4: {random:N} needs" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_err err = { 0 };

		assert_int_equal(templates_parse(w->arena, str_from(cases[i].text), "h:1",
				     &w->templates, &err),
		    SPOT_INVALID);
		if (strstr(err.text, cases[i].problem) == NULL) {
			fail_msg("'%s' does not contain '%s'", err.text, cases[i].problem);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_of_small_values_are_exact),
		cmocka_unit_test(a_percentile_is_at_most_a_64th_above_the_value),
		cmocka_unit_test(values_outside_the_range_count_at_its_ends),
		cmocka_unit_test_setup_teardown(
		    a_request_has_its_own_number_and_the_length_of_its_body, world_make,
		    world_free),
		cmocka_unit_test_setup_teardown(random_numbers_are_within_their_range, world_make,
		    world_free),
		cmocka_unit_test_setup_teardown(templates_are_picked_by_weight, world_make,
		    world_free),
		cmocka_unit_test_setup_teardown(a_wrong_file_is_refused_with_its_line, world_make,
		    world_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
