/* The keys of the fleet file that move the size: forms, defaults, refusals, the stored form. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const char *const resources = "\nresources: {accelerators: {H100: 1}}\n";

static enum spot_rc parse(struct arena *a, const char *text, struct fleet_spec **f,
    struct spot_err *err)
{
	const char *name;
	const char *all = arena_printf(a, "name: x\n%s%s", text, resources);

	*err = (struct spot_err){ 0 };
	return fleet_spec_parse(a, (struct str){ all, strlen(all) }, f, &name, err);
}

static struct fleet_spec *parsed(struct arena *a, const char *text)
{
	struct fleet_spec *f = NULL;
	struct spot_err err;

	if (parse(a, text, &f, &err) != SPOT_OK) {
		fail_msg("%s: %s", text, err.text);
	}
	return f;
}

static void sizes_have_four_forms(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec *f = parsed(a, "nodes: 8");

	(void)state;
	assert_int_equal(f->nodes, 8);
	assert_null(f->scaling);
	f = parsed(a, "gpus: {H100: 64}");
	assert_int_equal(f->gpus, 64);
	assert_string_equal(f->gpus_of, "H100");
	assert_null(f->scaling);
	f = parsed(a, "nodes: {min: 1, max: 20, target: 8}");
	assert_int_equal(f->nodes, 8);
	assert_int_equal(f->scaling->min, 1);
	assert_int_equal(f->scaling->max, 20);
	assert_false(f->scaling->by_gpus);
	f = parsed(a, "gpus: {max: 64}");
	assert_true(f->scaling->by_gpus);
	assert_int_equal(f->gpus, 0);
	assert_int_equal(f->scaling->max, 64);
	assert_string_equal(f->gpus_of, "");
	f = parsed(a, "gpus: {of: A100, min: 2, max: 64}");
	assert_string_equal(f->gpus_of, "A100");
	assert_int_equal(f->gpus, 2);
	/* A fixed size may have hours and an end. */
	f = parsed(a, "nodes: 3\nexpires: 72h");
	assert_int_equal(f->scaling->min, 3);
	assert_int_equal(f->scaling->max, 3);
	assert_int_equal(f->scaling->expires_after_us, 72 * SPOT_US_PER_HOUR);
}

static void defaults_are_those_of_the_manual_and_survive_the_row(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec *f = parsed(a, "nodes: {max: 4}"), *back = NULL;
	struct spot_err err = { 0 };
	AUTO(json) json_t *doc = NULL;

	(void)state;
	assert_int_equal(f->scaling->idle_us, 600 * SPOT_US_PER_S);
	assert_int_equal(f->scaling->wait_us, 120 * SPOT_US_PER_S);
	assert_int_equal(f->scaling->cooldown_us, 300 * SPOT_US_PER_S);
	assert_int_equal(f->scaling->headroom, 0);
	f = parsed(a,
	    "gpus: {of: H100, min: 2, max: 64, target: 8}\n"
	    "idle_timeout: 5m\nheadroom: 3\nscale: {wait: 1m, cooldown: 2m, step: 7}\n"
	    "expires: 2030-01-02T03:04:05Z\n"
	    "schedule:\n- {up: \"Mon-Fri 08:00\", down: \"20:00\", tz: Europe/Berlin}\n"
	    "- {up: \"10:00\", down: \"12:00\"}\n"
	    "demand:\n  per: 4\n  prometheus: {url: \"http://p:9090\", query: \"sum(x)\", target: "
	    "1.5, per: 2, every: 15s, prewarm: 3}\n");
	doc = fleet_spec_to_json(f);
	assert_int_equal(fleet_spec_from_json(a, doc, &back, &err), SPOT_OK);
	assert_int_equal(back->gpus, 8);
	assert_int_equal(back->scaling->headroom, 3);
	assert_int_equal(back->scaling->idle_us, 300 * SPOT_US_PER_S);
	assert_int_equal(back->scaling->step, 7);
	assert_int_equal(back->scaling->per, 4);
	assert_int_equal(back->scaling->expires_us, INT64_C(1893553445000000));
	assert_int_equal(back->scaling->windows_n, 2);
	assert_string_equal(back->scaling->windows[0].tz, "Europe/Berlin");
	assert_int_equal(back->scaling->windows[0].up_min, 480);
	assert_int_equal(back->scaling->windows[0].days, 31);
	assert_string_equal(back->scaling->windows[1].tz, "UTC");
	assert_string_equal(back->scaling->metric.query, "sum(x)");
	assert_int_equal(back->scaling->metric.every_us, 15 * SPOT_US_PER_S);
	assert_int_equal(back->scaling->metric.prewarm, 3);
	assert_int_equal(fleet_node_milli(back, "H100-80GB-SXM", 2000), 2000);
}

struct bad {
	const char *text, *words;
};
static const struct bad bad_sizes[] = {
	{ "nodes: {min: 1, mx: 3}",
	    "line 2, column 17: nodes: unknown key 'mx'; did you mean 'max'?" },
	{ "nodes: {min: 1}", "nodes.max is missing" },
	{ "nodes: {of: H100, max: 3}", "nodes: unknown key 'of'" },
	{ "nodes: {min: 5, max: 3}", "must rise in this order" },
	{ "nodes: {max: 3, target: 4}", "must rise in this order" },
	{ "gpus: {min: 3}", "gpus.max is missing" },
	{ "gpus: {ZX81: 3}", "how fast 'ZX81' is" },
	{ "gpus: {of: ZX81, max: 3}", "how fast 'ZX81' is" },
	{ "gpus: {H100: 3, max: 4}", "gpus: unknown key 'H100'" },
	{ "nodes: {min: -1, max: 3}", "min: a whole number from 0" },
	{ "nodes: {max: 0}", "max: a whole number from 1" },
	{ "nodes: {max: 3, target: x}", "target: a whole number" },
	{ "gpus: {H100: 3, A100: 4}", "one GPU to count in" },
	{ "gpus: {of: [], max: 3}", "how fast '' is" },
	{ "nodes: 3\ngpus: 3", "give nodes or gpus" },
	{ "nodes:", "give nodes or gpus" },
};
static const struct bad bad_rules[] = {
	{ "nodes: 3\nidle_timeout: 5m", "idle_timeout: the size is fixed" },
	{ "nodes: 3\nheadroom: 1", "headroom: the size is fixed" },
	{ "nodes: {max: 3}\nidle_timout: 5m", "did you mean 'idle_timeout'?" },
	{ "nodes: {max: 3}\nidle_timeout: soon", "line 3, column 15: idle_timeout: a duration" },
	{ "nodes: {max: 3}\nheadroom: 4", "headroom: a whole number from 0 to 3" },
	{ "nodes: {max: 3}\nscale: {waits: 2m}", "did you mean 'wait'?" },
	{ "nodes: {max: 3}\nscale: {step: 0}", "step: a whole number from 1" },
	{ "nodes: {max: 3}\nexpires: never", "expires: a duration such as 72h" },
	{ "nodes: {max: 3}\nschedule: {up: \"08:00\"}", "schedule: up must be days" },
	{ "nodes: {max: 3}\nschedule: {up: \"08:00\", down: \"20:00\", tz: Europe/Berlim}",
	    "no time zone 'Europe/Berlim'" },
	{ "nodes: {max: 3}\nschedule: {up: \"08:00\", dwn: \"20:00\"}", "did you mean 'down'?" },
	{ "nodes: {max: 3}\nschedule: always", "or a list of at most 32" },
	{ "nodes: {max: 3}\nschedule: []", "or a list of at most 32" },
	{ "nodes: {max: 3}\ndemand: {prometheus: {url: \"http://p\"}}",
	    "url and query are needed" },
	{ "nodes: {max: 3}\ndemand: {prometheus: {url: \"http://u:p@p\", query: x}}",
	    "without a password" },
	{ "nodes: {max: 3}\ndemand: {prometheus: {url: \"file:///x\", query: x}}",
	    "the address of the server" },
	{ "nodes: {max: 3}\ndemand: {prometheus: {url: \"http://p\", query: x, target: 0}}",
	    "a number above 0" },
	{ "nodes: {max: 3}\ndemand: {prometheus: {query: x}}", "url and query are needed" },
	{ "nodes: {max: 3}\ndemand: {prometheus: {url: \"http://p\", query: x, target: "
	  "[]}}",
	    "a number above 0" },
	{ "nodes: {max: 3}\ndemand: {prometheus: {url: [], query: x}}", "url" },
	{ "nodes: {max: 3}\ndemand: {prometheus: {url: \"http://p\", query: x, every: 0s}}",
	    "every: a duration" },
	{ "nodes: {max: 3}\ndemand: {prometheus: {url: \"http://p\", query: x, evry: 1m}}",
	    "did you mean 'every'?" },
	{ "nodes: {max: 3}\ndemand: {per: 0}", "per: a whole number from 1" },
	{ "nodes: {max: 3}\ndemand: {pr: 1}", "demand: unknown key 'pr'" },
	{ "nodes: {max: 3}\nscale: {wait: 9000000h}", "wait: a duration" },
	{ "nodes: {max: 3}\nscale: {wait: []}", "wait" },
	{ "nodes: {max: 3}\nscale: {cooldown: soon}", "cooldown: a duration" },
	{ "nodes: {max: 3}\nexpires: 0s", "expires: a duration such as 72h" },
	{ "nodes: {max: 3}\nexpires: 900000h", "expires: a duration such as 72h" },
	{ "nodes: {max: 3}\nexpires: []", "expires" },
	{ "nodes: {max: 3}\nschedule: {up: [], down: \"20:00\"}", "up" },
	{ "nodes: {max: 3}\nschedule: {up: \"Mon 08:00\", down: []}", "down" },
	{ "nodes: {max: 3}\nschedule: {up: \"Mon 08:00\", down: \"20:00\", tz: []}", "tz" },
	{ "nodes: {max: 3}\nschedule: {up: \"Mon 25:00\", down: \"20:00\"}",
	    "schedule: up must be days" },
	{ "nodes: {max: 3}\nschedule: {down: \"20:00\"}", "schedule: up must be days" },
};

static void bad_refused(const struct bad *bad, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec *f;
	struct spot_err err;

	for (size_t i = 0; i < n; i++) {
		if (parse(a, bad[i].text, &f, &err) != SPOT_INVALID ||
		    strstr(err.text, bad[i].words) == NULL) {
			fail_msg("%s: '%s' lacks '%s'", bad[i].text, err.text, bad[i].words);
		}
	}
}

static void refusals_name_line_field_and_the_nearest_word(void **state)
{
	(void)state;
	bad_refused(bad_sizes, ARRAY_LEN(bad_sizes));
	bad_refused(bad_rules, ARRAY_LEN(bad_rules));
}

/* The size that the queue asked for goes to the unit in which the file counts. */
static void a_size_is_in_the_unit_of_the_file(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec *f = parsed(a, "nodes: {max: 20}");

	(void)state;
	fleet_spec_resize(f, 7);
	assert_int_equal(f->nodes, 7);
	assert_int_equal(f->gpus, 0);
	f = parsed(a, "gpus: {max: 64}");
	fleet_spec_resize(f, 7);
	assert_int_equal(f->nodes, 0);
	assert_int_equal(f->gpus, 7);
	f = parsed(a, "gpus: 64");
	fleet_spec_resize(f, 9);
	assert_int_equal(f->gpus, 9);
	f = parsed(a, "nodes: 3");
	fleet_spec_resize(f, 0);
	assert_int_equal(f->nodes, 0);
	assert_int_equal(f->gpus, 0);
}

static void a_name_that_reads_as_an_id_is_refused(void **state)
{
	static const char *const bad[] = { "any", "f12", "12", "\"\"",
		"a123456789b123456789c123456789d123456789e123456789f1234567890" };
	AUTO(arena) struct arena *a = arena_new(0);
	struct fleet_spec *f;
	const char *name, *good;
	struct spot_err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad) + 1; i++) {
		const char *text = i < ARRAY_LEN(bad)
		    ? arena_printf(a, "name: %s\nnodes: 1%s", bad[i], resources)
		    : arena_printf(a, "nodes: 1%s", resources);

		err = (struct spot_err){ 0 };
		assert_int_equal(fleet_spec_parse(a, (struct str){ text, strlen(text) }, &f, &name,
				     &err),
		    SPOT_INVALID);
		assert_non_null(
		    strstr(err.text, i < 3 ? "reads as an id" : "missing or longer than 60"));
	}
	/* An f alone is a name. */
	good = arena_printf(a, "name: f\nnodes: 1%s", resources);
	err = (struct spot_err){ 0 };
	assert_int_equal(fleet_spec_parse(a, (struct str){ good, strlen(good) }, &f, &name, &err),
	    SPOT_OK);
	assert_string_equal(name, "f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_size_is_in_the_unit_of_the_file),
		cmocka_unit_test(a_name_that_reads_as_an_id_is_refused),
		cmocka_unit_test(sizes_have_four_forms),
		cmocka_unit_test(defaults_are_those_of_the_manual_and_survive_the_row),
		cmocka_unit_test(refusals_name_line_field_and_the_nearest_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
