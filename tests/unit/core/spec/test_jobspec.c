/* The job file: accepted texts, and refusals that name their line. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define NOW (INT64_C(1767225600) * SPOT_US_PER_S) /* 2026-01-01T00:00:00Z */

static const char full[] =
    "name: train-7b\n"
    "resources:\n"
    "  accelerators: {A100: 8, H100: 8}\n"
    "  use_spot: true\n"
    "  infra: aws/us-east-1\n"
    "  memory: 64+\n"
    "  max_hourly_cost: 30.5\n"
    "  any_of:\n"
    "    - infra: lambda\n"
    "    - {infra: aws/us-west-2/usw2-az1, use_spot: false}\n"
    "  job_recovery: {max_restarts_on_errors: 3}\n"
    "envs:\n"
    "  STEPS: 100\n"
    "secrets:\n"
    "  WANDB_API_KEY: 0123456789abcdef\n"
    "file_mounts:\n"
    "  /data/train.bin: s3://bucket/train.bin\n"
    "  conf.json: {source: s3://bucket/conf.json, mode: COPY}\n"
    "setup: |\n"
    "  echo setup\n"
    "run: |\n"
    "  echo $STEPS\n"
    "config:\n"
    "  spotctl:\n"
    "    team: nlp\n"
    "    project: llama\n"
    "    class: fine_tune\n"
    "    deadline: 6h\n"
    "    start_after: 1h\n"
    "    data: {uri: 'gs://bucket/set', size: 1.5TB, region: us-central1}\n"
    "    off_peak: true\n"
    "    patience: 90m\n"
    "    late: cheapest\n"
    "    work: 2h\n"
    "    checkpoint: {path: ckpt, signal: SIGUSR2, interval: 10m, budget: 45s, size_gb: 1.5}\n";

static enum spot_rc spec_parse(struct arena *a, const char *t, struct job_spec **s,
    struct spot_err *err)
{
	return jobspec_parse(a, (struct str){ t, strlen(t) }, NOW, s, NULL, NULL, err);
}

static void check_full(const struct job_spec *s)
{
	assert_string_equal(s->name, "train-7b");
	assert_int_equal(s->asks_n, 2);
	assert_string_equal(s->asks[0].provider, "lambda");
	assert_null(s->asks[0].region);
	assert_int_equal(s->asks[0].use_spot, 1);
	assert_string_equal(s->asks[1].zone, "usw2-az1");
	assert_int_equal(s->asks[1].use_spot, 0);
	assert_int_equal(s->asks[1].gpus_n, 2);
	assert_string_equal(s->asks[1].gpus[1].gpu, "H100");
	assert_int_equal(s->asks[1].gpus[1].milli, 8000);
	assert_int_equal(s->asks[0].mem_mib_min, 65536);
	assert_int_equal(s->asks[0].max_hourly_micros, 30500000);
	assert_int_equal(s->max_restarts, 3);
	assert_string_equal(s->envs[0].value, "100");
	assert_int_equal(s->mounts_n, 2);
	assert_string_equal(s->class, "fine_tune");
	assert_true(s->deadline_us == NOW + 6 * SPOT_US_PER_HOUR);
	assert_true(s->start_after_us == NOW + SPOT_US_PER_HOUR);
	assert_int_equal(s->off_peak, 1);
	assert_true(s->patience_s == 5400 && s->late_cheapest);
	assert_string_equal(s->data_provider, "gcp");
	assert_string_equal(s->data_region, "us-central1");
	assert_int_equal(s->data_bytes, 1500000000000);
	assert_int_equal(s->work_s, 7200);
	assert_string_equal(s->checkpoint.signal, "USR2");
	assert_int_equal(s->checkpoint.interval_s, 600);
	assert_int_equal(s->checkpoint.budget_s, 45);
	assert_true(s->checkpoint.size_bytes == 1500000000);
}

static void a_full_file_is_understood_and_survives_storage(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *s, *back;
	struct spot_err err = { 0 };

	(void)state;
	assert_int_equal(spec_parse(a, full, &s, &err), SPOT_OK);
	check_full(s);
	assert_string_equal(s->secrets[0].value, "0123456789abcdef");
	AUTO(json) json_t *j = jobspec_to_json(s);
	char *stored = json_text(a, j);

	assert_null(strstr(stored, "0123456789abcdef"));
	assert_int_equal(jobspec_from_json(a, j, &back, &err), SPOT_OK);
	check_full(back);
	char *source = jobspec_source(a, (struct str){ full, strlen(full) }, s);

	assert_null(strstr(source, "0123456789abcdef"));
	assert_non_null(strstr(source, "WANDB_API_KEY: \"***\"\n"));
}

static void the_three_forms_of_accelerators(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *s;
	struct spot_err err = { 0 };

	(void)state;
	assert_int_equal(spec_parse(a, "run: x\nresources: {accelerators: 'V100:4'}\n", &s, &err),
	    SPOT_OK);
	assert_int_equal(s->asks[0].gpus[0].milli, 4000);
	assert_int_equal(s->asks[0].use_spot, -1);
	assert_int_equal(spec_parse(a, "run: x\nresources: {accelerators: [A100:1, V100:0.5]}\n",
			     &s, &err),
	    SPOT_OK);
	assert_int_equal(s->asks[0].gpus[1].milli, 500);
	assert_int_equal(spec_parse(a, "run: x\nresources: {accelerators: L4}\n", &s, &err),
	    SPOT_OK);
	assert_int_equal(s->asks[0].gpus[0].milli, 1000);
	assert_int_equal(spec_parse(a, "{\"run\": \"x\", \"resources\": {\"accelerators\": null}}",
			     &s, &err),
	    SPOT_OK);
	assert_int_equal(s->asks[0].gpus_n, 0);
	assert_string_equal(s->class, "training");
	assert_true(s->interruptible);
}

static void a_budget_is_dollars_and_not_part_of_what_is_stored(void **state)
{
	static const struct {
		const char *text;
		int64_t micros;
	} cases[] = { { "25", 25000000 }, { "\"25.00\"", 25000000 }, { "12.345678", 12345678 },
		{ "0.01", 10000 } };
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *s, *back;
	struct spot_err err = { 0 };
	json_t *doc;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(spec_parse(a,
				     arena_printf(a,
					 "run: x\nconfig: {spotctl: {budget: %s, checkpoint: "
					 "{path: c}}}\n",
					 cases[i].text),
				     &s, &err),
		    SPOT_OK);
		assert_int_equal(s->budget_micros, cases[i].micros);
	}
	doc = jobspec_to_json(s);
	/* the limit changes: it has a column of its own */
	assert_int_equal(jobspec_from_json(a, doc, &back, &err), SPOT_OK);
	assert_int_equal(back->budget_micros, 0);
	json_decref(doc);
	assert_int_equal(spec_parse(a, "run: x\nconfig: {spotctl: {checkpoint: {path: c}}}\n", &s,
			     &err),
	    SPOT_OK);
	assert_int_equal(s->budget_micros, 0);
	assert_int_equal(spec_parse(a, "run: x\nconfig:\n  spotctl:\n    budget: 5\n", &s, &err),
	    SPOT_INVALID);
	assert_non_null(strstr(err.text, "line 4, column"));
	assert_non_null(strstr(err.text, "checkpoint.path"));
}

static const struct {
	const char *text, *says;
} refusals[] = {
	{ "", "empty" },
	{ "name: x\n", "run is missing" },
	{ "run: x\nrunn: y\n", "line 2, column 1" },
	{ "run: x\nresources:\n  acelerators: V100\n", "line 3" },
	{ "run: x\nnum_nodes: 0\n", "num_nodes" },
	{ "run: x\nnum_nodes: 257\n", "num_nodes" },
	{ "run: x\nnum_nodes: 2\nconfig: {spotctl: {fleet: f}}\n",
	    "leave config.spotctl.fleet out" },
	{ "run: x\nnum_nodes: 2\nconfig: {spotctl: {elastic: shrink}}\n", "must be replace" },
	{ "run: x\nnum_nodes: 2\nresources: {network_tier: fast}\n", "must be best or standard" },
	{ "run: x\nconfig: {spotctl: {elastic: replace}}\n", "set num_nodes" },
	{ "run: x\nworkdir: .\n", "file_mounts" },
	{ "run: x\nrun: y\n", "line 2" },
	{ "run: &a x\n", "anchor" },
	{ "run: x\nenvs: {A: }\n", "write A: value" },
	{ "run: x\nenvs: {9A: 1}\n", "variable name" },
	{ "run: x\nconfig: {spotctl: {deadline: tomorrow}}\n", "deadline" },
	{ "run: x\nconfig: {spotctl: {start_after: soon}}\n", "start_after" },
	{ "run: x\nconfig: {spotctl: {data: {uri: 'http://b/c', size: 1GB}}}\n", "data.uri" },
	{ "run: x\nconfig: {spotctl: {data: {uri: 's3://b/c'}}}\n", "data.size" },
	{ "run: x\nconfig: {spotctl: {data: {uri: 's3://b/c', size: -1GB}}}\n", "data.size" },
	{ "run: x\nconfig: {spotctl: {data: {uri: 's3://b/c', size: GB}}}\n", "data.size" },
	{ "run: x\nconfig: {spotctl: {data: {url: 's3://b/c'}}}\n",
	    "unknown key 'url'; did you mean 'uri'?" },
	{ "run: x\nresurces: {}\n",
	    "line 2, column 1: job file: unknown key 'resurces'; did you mean 'resources'?" },
	{ "run: x\nresources: {acelerators: V100}\n",
	    "unknown key 'acelerators'; did you mean 'accelerators'?" },
	{ "run: x\nconfig: {spotctl: {deadline: 2h, start_after: 3h}}\n",
	    "not before the deadline" },
	{ "run: x\nconfig: {spotctl: {off_peak: maybe}}\n", "line 2" },
	{ "run: x\nconfig: {spotctl: {patience: soon}}\n", "such as 2h" },
	{ "run: x\nconfig: {spotctl: {late: never}}\n", "fastest or cheapest" },
	{ "run: x\nconfig: {spotctl: {deadline: 2025-01-01T00:00:00Z}}\n", "past" },
	{ "run: x\nconfig: {spotctl: {class: fun}}\n", "class" },
	{ "run: x\nconfig: {spotctl: {budget: 0, checkpoint: {path: c}}}\n",
	    "'0' is not an amount of dollars above 0" },
	{ "run: x\nconfig: {spotctl: {budget: -5, checkpoint: {path: c}}}\n",
	    "'-5' is not an amount of dollars above 0" },
	{ "run: x\nconfig: {spotctl: {budget: little, checkpoint: {path: c}}}\n",
	    "'little' is not an amount of dollars above 0" },
	{ "run: x\nconfig: {spotctl: {budget: [5], checkpoint: {path: c}}}\n",
	    "budget: must be text" },
	{ "run: x\nconfig: {spotctl: {budget: 5}}\n", "the job saves nothing" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {signal: USR1}}}\n", "path is missing" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {path: ckpt, signal: KILL}}}\n", "USR1" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {path: ../x}}}\n", "'..'" },
	{ "run: x\nconfig:\n  spotctl:\n    checkpoint:\n      path: /abs\n",
	    "line 5, column 13: checkpoint.path: '/abs' is absolute" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {path: \"a\\nb\"}}}\n", "control characters" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {path: c, budget: 31d}}}\n",
	    "checkpoint.budget: at most 30 days" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {path: c, interval: 721h}}}\n",
	    "checkpoint.interval: at most 30 days" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {path: c, size_gb: 1343}}}\n",
	    "at most 1342 GB can be stored" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {path: c, size_gb: much}}}\n", "a number of GB" },
	{ "run: x\nfile_mounts: {/a: ./local}\n", "s3://" },
	{ "run: x\nfile_mounts: {/a: s3://b/dir/}\n", "prefix" },
	{ "run: x\nfile_mounts: {/a: {source: s3://b/k, mode: MOUNT}}\n", "COPY" },
	{ "run: x\nfile_mounts:\n  /a: s3:///x\n",
	    "line 3, column 7: file_mounts: /a: s3:///x: a bucket's name has" },
	{ "run: x\nfile_mounts:\n  /a: {source: 's3://bucket'}\n",
	    "line 3, column 16: file_mounts: /a: s3://bucket: behind the bucket a key is missing" },
	{ "run: x\nfile_mounts: {/a: http://b/k}\n", "s3://" },
	{ "run: x\nfile_mounts: {/a: az://My/k}\n", "container's name" },
	{ "run: x\nfile_mounts:\n  /a/../b: s3://bucket/k\n", "'..' is not allowed" },
	{ "run: x\nfile_mounts: {/: s3://bucket/k}\n", "name the file" },
	{ "run: x\nfile_mounts: {//a: s3://bucket/k}\n", "name the file" },
	{ "run: x\nfile_mounts: {a/: s3://bucket/k}\n", "name the file" },
	{ "run: x\nfile_mounts: {a/.: s3://bucket/k}\n", "name the file" },
	{ "run: x\nfile_mounts: {'~/': s3://bucket/k}\n", "name the file" },
	{ "run: x\nfile_mounts: {'~': s3://bucket/k}\n", "name the file" },
	{ "run: x\nfile_mounts: {\"a\\nb\": s3://bucket/k}\n", "control characters" },
	{ "run: x\nfile_mounts:\n  d: s3://bucket/k\n  d/e: s3://bucket/k\n",
	    "line 4, column 8: file_mounts: 'd' is a file, so 'd/e'" },
	{ "run: x\nresources: {accelerators: 'V100:many'}\n", "count" },
	{ "run: x\nresources: {accelerators: 8}\n", "NAME:COUNT" },
	{ "run: x\nresources: {max_hourly_cost: -1}\n", "max_hourly_cost" },
	{ "run: x\nresources: {any_of: []}\n", "any_of" },
	{ "run: x\nresources: {infra: a/b/c/d}\n", "infra" },
	{ "run: x\nresources: {use_spot: maybe}\n", "true or false" },
	{ "run: x\nname: 'has space'\n", "name" },
	{ "run: x\n---\nrun: y\n", "pipelines" },
	{ "- run: x\n", "mapping" },
	{ "run: [x\n", "line" },
	{ "run: x\nservice: {}\n", "not supported" },
	{ "run: x\nname: [a]\n", "name: must be text" },
	{ "run: x\nenvs: 5\n", "envs: a mapping of at most" },
	{ "run: x\nenvs: {A: [1]}\n", "A must be text" },
	{ "run: x\nenvs: {A-B: 1}\n", "variable name" },
	{ "run: x\nconfig: 5\n", "config: must be a mapping" },
	{ "run: x\nconfig: {spotctl: {work: soon}}\n", "work: a duration such as 90s" },
	{ "run: x\nconfig: {spotctl: {work: [1h]}}\n", "work: a duration such as 90s" },
	{ "run: x\nconfig: {spotctl: {work: 0s}}\n", "work: a duration such as 90s" },
	{ "run: x\nconfig: {spotctl: {deadline: 0s}}\n", "deadline: a time such as" },
	{ "run: x\nconfig: {spotctl: {start_after: 2040-01-01T00:00:00Z}}\n",
	    "more than ten years away" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {path: ''}}}\n", "path is missing" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {path: c, signal: [HUP]}}}\n",
	    "signal: must be text" },
	{ "run: x\nconfig: {spotctl: {checkpoint: {path: c, interval: [10m]}}}\n",
	    "interval: a duration such as 90s" },
	{ "run: x\nresources: 5\n", "resources: must be a mapping" },
	{ "run: x\nresources: {any_of: [{}], ordered: [{}]}\n", "any_of or ordered, not both" },
	{ "run: x\nresources: {any_of: [5]}\n", "any_of: each entry is a mapping" },
	{ "run: x\nresources: {ordered: [{any_of: [{}]}]}\n",
	    "ordered: each entry is a mapping without any_of" },
	{ "run: x\nresources: {accelerators: [[L4]]}\n", "write NAME:COUNT" },
	{ "run: x\nresources: {accelerators: ['']}\n", "not ''" },
	{ "run: x\nresources: {accelerators: {'L4:1': 2}}\n", "not 'L4:1'" },
	{ "run: x\nresources: {cpus: [4]}\n", "cpus: a number, or a number and +" },
	{ "run: x\nresources: {cpus: 12345678901234567890123456789012345}\n", "cpus: too long" },
	{ "run: x\nresources: {cpus: many}\n", "'many' is not a number" },
	{ "run: x\nresources: {cpus: 4GB}\n", "'4GB' is not a number" },
	{ "run: x\nresources: {memory: 1TB}\n", "'1TB' is not a number" },
	{ "run: x\nfile_mounts: 5\n", "file_mounts: a mapping" },
	{ "run: x\nconfig: {spotctl: {project: "
	  "a123456789b123456789c123456789d123456789e123456789f123456789g}}\n",
	    "project: at most 60 bytes" },
	{ "run: x\nfile_mounts: {'': s3://bucket/k}\n", "1 to 1024 bytes" },
};

static void refusals_name_the_place_and_what_to_do(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		struct job_spec *s;
		struct spot_err err = { 0 };

		assert_int_equal(spec_parse(a, refusals[i].text, &s, &err), SPOT_INVALID);
		if (strstr(err.text, refusals[i].says) == NULL) {
			fail_msg("case %zu: '%s' does not say '%s'", i, err.text, refusals[i].says);
		}
	}
}

/* Each is the most that the machine takes, and one more. */
static void more_than_any_machine_takes_is_refused_and_the_most_is_not(void **state)
{
	static const struct {
		const char *before, *after;
		size_t most;
		const char *says;
	} cases[] = {
		{ "run: ", "\n", 256 * 1024, "run: longer than 256 KiB" },
		{ "run: x\nsetup: ", "\n", 256 * 1024, "setup: longer than 256 KiB" },
		{ "run: x\nconfig: {spotctl: {checkpoint: {path: c, command: ", "}}}\n", 256 * 1024,
		    "checkpoint.command: longer than 256 KiB" },
		{ "run: x\nenvs:\n  NAME: ", "\n", 128 * 1024 - 6,
		    "line 3, column 9: envs: NAME: name and value have more than 131070 bytes" },
		{ "run: x\nsecrets:\n  NAME: ", "\n", 128 * 1024 - 6,
		    "secrets: NAME: name and value have more than 131070 bytes" },
		{ "run: x\nconfig: {spotctl: {checkpoint: {path: ", "}}}\n", 255,
		    "no part of it may be longer than 255 bytes" },
		{ "run: x\nfile_mounts: {/a/", ": s3://bucket/k}\n", 255,
		    "no part of it may be longer than 255 bytes" },
		{ "run: x\nfile_mounts: {/a: s3://bucket/", "}\n", 1024,
		    "a key has at most 1024 bytes" },
		{ "run: x\nfile_mounts: {/a: s3://", "/k}\n", 63, "a bucket's name has 3 to 63" },
	};
	AUTO(arena) struct arena *a = arena_new(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *fill = arena_alloc(a, cases[i].most + 2);
		struct spot_err err = { 0 };
		struct job_spec *s;

		memset(fill, 'v', cases[i].most);
		if (spec_parse(a, arena_printf(a, "%s%s%s", cases[i].before, fill, cases[i].after),
			&s, &err) != SPOT_OK) {
			fail_msg("case %zu: %s", i, err.text);
		}
		fill[cases[i].most] = 'v';
		assert_int_equal(spec_parse(a,
				     arena_printf(a, "%s%s%s", cases[i].before, fill,
					 cases[i].after),
				     &s, &err),
		    SPOT_INVALID);
		if (strstr(err.text, cases[i].says) == NULL) {
			fail_msg("case %zu: '%s' does not say '%s'", i, err.text, cases[i].says);
		}
	}
}

/* NAME=VALUE, a NUL and a pointer of each. */
static void all_variables_together_leave_room_for_arguments(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	char *fill = arena_alloc(a, (1 << 17) + 1);

	(void)state;
	memset(fill, 'v', 1 << 17);
	for (int over = 0; over < 2; over++) {
		AUTO(sbuf) struct sbuf text;
		struct spot_err err = { 0 };
		struct job_spec *s;

		sbuf_init(&text, 0);
		sbuf_puts(&text, "run: x\nenvs:\n");
		for (int i = 0; i < 8; i++) {
			sbuf_printf(&text, "%s %c: ", i == 4 ? "secrets:\n" : "", 'A' + i);
			sbuf_printf(&text, "%.*s\n", (1 << 17) - 11 + (over && i == 0), fill);
		}
		assert_int_equal(spec_parse(a, text.p, &s, &err), over ? SPOT_INVALID : SPOT_OK);
		assert_true(!over ||
		    strstr(err.text,
			"line 8, column 2: envs and secrets have more than 1024 KiB together") !=
			NULL);
	}
}

static void mounts_need_a_store_that_can_sign(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *s, *bare;
	struct spot_err err = { 0 };

	(void)state;
	assert_int_equal(spec_parse(a,
			     "run: x\nfile_mounts:\n  a: s3://bucket/k\n  ~/b: {source: "
			     "gs://bucket/k}\n",
			     &s, &err),
	    SPOT_OK);
	assert_int_equal(jobspec_store_check(s, "s3://store/prefix", &err), SPOT_INVALID);
	assert_non_null(strstr(err.text,
	    "line 4, column 17: file_mounts: ~/b: gs://bucket/k needs a provider of kind gcp"));
	assert_int_equal(jobspec_store_check(s, "gs://store", &err), SPOT_INVALID);
	assert_non_null(strstr(err.text,
	    "line 3, column 6: file_mounts: a: s3://bucket/k needs a provider of kind aws or "
	    "coreweave"));
	s->mounts_n = 1;
	assert_int_equal(jobspec_store_check(s, "s3://store", &err), SPOT_OK);
	assert_int_equal(jobspec_store_check(s, "", &err), SPOT_INVALID);
	assert_non_null(
	    strstr(err.text, "line 3, column 6: file_mounts: a: the daemon has no object store"));
	assert_int_equal(spec_parse(a, "run: x\n", &bare, &err), SPOT_OK);
	assert_int_equal(jobspec_store_check(bare, "", &err), SPOT_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_file_is_understood_and_survives_storage),
		cmocka_unit_test(the_three_forms_of_accelerators),
		cmocka_unit_test(a_budget_is_dollars_and_not_part_of_what_is_stored),
		cmocka_unit_test(refusals_name_the_place_and_what_to_do),
		cmocka_unit_test(more_than_any_machine_takes_is_refused_and_the_most_is_not),
		cmocka_unit_test(all_variables_together_leave_room_for_arguments),
		cmocka_unit_test(mounts_need_a_store_that_can_sign),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
