/* The price history as text: drawn points, empty gaps, words. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/render/plot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define H SPOT_US_PER_HOUR
#define T0 INT64_C(1767225600000000) /* 2026-01-01T00:00:00Z */

static const struct plot_point steps[] = { { T0, T0 + 12 * H, 1000000 },
	{ T0 + 12 * H, T0 + 24 * H, 2000000 }, { T0 + 24 * H, T0 + 36 * H, 1500000 } };

static struct plot plot_make(const struct plot_point *points, size_t n)
{
	return (struct plot){ .points = points,
		.points_n = n,
		.from_us = T0,
		.to_us = T0 + 48 * H,
		.width = 48,
		.height = 3 };
}

static void steps_have_labels_and_the_unknown_end_stays_empty(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct plot p = plot_make(steps, 3);

	(void)state;
	p.now_word = "stale, seen 12h ago";
	assert_string_equal(plot_text(a, &p),
	    "   2.0000 +            ############                        \n"
	    "          |            ############____________            \n"
	    "   1.0000 +____________########################            \n"
	    "          +------------------------------------............\n"
	    "           2026-01-01T00:00:00Z        2026-01-03T00:00:00Z\n"
	    "USD/h  min 1.0000 (2026-01-01T00:00:00Z)  max 2.0000 (2026-01-01T12:00:00Z)  now "
	    "1.5000 (stale, seen 12h ago)\n"
	    "empty: unknown\n");
}

static void blocks_of_eighths_are_for_utf8(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct plot p = plot_make(steps, 3);

	(void)state;
	p.utf8 = true;
	assert_true(str_prefix(plot_text(a, &p),
	    "   2.0000 ┤            ████████████                        \n"
	    "          │            ████████████▄▄▄▄▄▄▄▄▄▄▄▄            \n"
	    "   1.0000 ┤▁▁▁▁▁▁▁▁▁▁▁▁████████████████████████            \n"
	    "          └────────────────────────────────────············\n"));
}

static void a_silence_in_the_middle_is_a_hole(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct plot_point points[] = { { T0, T0 + 12 * H, 1000000 },
		{ T0 + 36 * H, T0 + 48 * H, 1000000 } };
	struct plot p = plot_make(points, 2);

	(void)state;
	p.height = 1;
	assert_true(str_prefix(plot_text(a, &p),
	    "   1.0000 +____________                        ____________\n"
	    "          +------------........................------------\n"));
	assert_non_null(strstr(plot_text(a, &p), "empty: unknown"));
}

static void a_peak_shorter_than_a_column_is_seen(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct plot_point points[] = { { T0 - 5 * H, T0 + H, 1000000 },
		{ T0 + H, T0 + H + 60000000, 9000000 },
		{ T0 + H + 60000000, T0 + 48 * H, 1000000 } };
	struct plot p = plot_make(points, 3);
	char *text;

	(void)state;
	p.height = 1;
	text = plot_text(a, &p);
	assert_true(
	    str_prefix(text, "   9.0000 +_#______________________________________________\n"));
	assert_null(strstr(text, "not known"));
}

static void marks_stand_below_their_time(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct plot_mark marks[] = { { T0 + 5 * H, 'r' }, { T0 + 13 * H, 'x' },
		{ T0 + 13 * H, 'r' }, { T0 + 14 * H, 'x' }, { T0 - H, 'r' }, { T0 + 49 * H, 'x' } };
	struct plot p = plot_make(steps, 3);
	char *text;

	(void)state;
	p.marks = marks;
	p.marks_n = ARRAY_LEN(marks);
	text = plot_text(a, &p);
	assert_non_null(strstr(text,
	    "\n                r       *x                                 \n"
	    "           r = reclaimed (2), x = refused (2), * = both\n"));
}

static void flat_prices_and_no_prices(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct plot_point flat = { T0, T0 + 48 * H, 410000 },
				old = { T0 - 9 * H, T0 - H, 410000 };
	struct plot p = plot_make(&flat, 1);

	(void)state;
	p.height = 2;
	assert_true(str_prefix(plot_text(a, &p),
	    "   0.4100 +                                                \n"
	    "          |################################################\n"));
	p.points = &old;
	assert_string_equal(plot_text(a, &p), "no price in that time\n");
	p.points_n = 0;
	assert_string_equal(plot_text(a, &p), "no price in that time\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_have_labels_and_the_unknown_end_stays_empty),
		cmocka_unit_test(blocks_of_eighths_are_for_utf8),
		cmocka_unit_test(a_silence_in_the_middle_is_a_hole),
		cmocka_unit_test(a_peak_shorter_than_a_column_is_seen),
		cmocka_unit_test(marks_stand_below_their_time),
		cmocka_unit_test(flat_prices_and_no_prices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
