/* Job files, from YAML on. An accepted file goes through its stored form and comes back the same,
 * without any secret. */
#include "base/base.h"
#include "fuzz.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

#define NOW (INT64_C(1767225600) * SPOT_US_PER_S)

static void check_yaml(struct arena *a, struct str text)
{
	struct yaml **docs = NULL;
	size_t docs_n = 0;
	struct spot_err err = { 0 };
	enum spot_rc rc = yaml_parse(a, text, &docs, &docs_n, &err);

	fuzz_check_err(rc, &err);
	for (size_t i = 0; rc == SPOT_OK && i < docs_n; i++) {
		FUZZ_CHECK(docs[i] != NULL && docs[i]->line >= 1);
		(void)yaml_get(docs[i], "name");
	}
}

/* Whether the words lack the text of the source. A redacted text has stars, and a quote at its
 * ends. */
static bool is_absent(const char *source, const char *p, size_t n)
{
	return memchr(p, '*', n) != NULL || *p == '"' || p[n - 1] == '"' ||
	    memmem(source, strlen(source), p, n) == NULL;
}

/* No value of one line, and no line of more than 8 characters, however it was written. */
static void check_secrets(const struct job_spec *s, const char *source)
{
	FUZZ_CHECK(source != NULL);
	for (size_t i = 0; i < s->secrets_n; i++) {
		const char *v = s->secrets[i].value;
		bool whole = strchr(v, '\n') == NULL && v[strspn(v, " \t\r")] != '\0';

		FUZZ_CHECK(!whole || is_absent(source, v, strlen(v)));
		while (*v != '\0') {
			size_t n = strcspn(v, "\n"), from = strspn(v, " \t\r"), to = n;

			while (to > from && strchr(" \t\r", v[to - 1]) != NULL) {
				to--;
			}
			FUZZ_CHECK(
			    to - MIN(from, to) <= 8 || is_absent(source, v + from, to - from));
			v += n + (v[n] == '\n');
		}
	}
}

int fuzz_one(const uint8_t *p, size_t n)
{
	AUTO(arena) struct arena *a = arena_new(0);
	AUTO(json) json_t *j = NULL, *again = NULL, *secrets = NULL;
	struct str text = fuzz_view(a, p, n);
	struct job_spec *s = NULL, *back = NULL;
	const char **warnings = NULL;
	size_t warnings_n = 0;
	struct spot_err err = { 0 };
	enum spot_rc rc;

	check_yaml(a, text);
	rc = jobspec_parse(a, text, NOW, &s, &warnings, &warnings_n, &err);
	fuzz_check_err(rc, &err);
	if (rc != SPOT_OK) {
		return 0;
	}
	FUZZ_CHECK(
	    !str_empty(s->run) && s->asks_n >= 1 && s->num_nodes >= 1 && s->num_nodes <= 256);
	FUZZ_CHECK(s->team != NULL && s->project != NULL && s->class != NULL);
	for (size_t i = 0; i < warnings_n; i++) {
		FUZZ_CHECK(!str_empty(warnings[i]));
	}
	j = jobspec_to_json(s);
	secrets = jobspec_secrets(s);
	FUZZ_CHECK(
	    j != NULL && json_is_object(secrets) && json_object_size(secrets) == s->secrets_n);
	FUZZ_CHECK(jobspec_from_json(a, j, &back, &err) == SPOT_OK);
	again = jobspec_to_json(back);
	FUZZ_CHECK(json_text(a, j) != NULL);
	check_secrets(s, jobspec_source(a, text, s));
	/* the names of secrets are stored beside their values, and a job without a name is called
	 * job */
	(void)json_object_del(j, "secrets");
	(void)json_object_del(again, "secrets");
	json_object_set_new(j, "name", json_string(s->name != NULL ? s->name : "job"));
	FUZZ_CHECK(json_equal(j, again));
	return 0;
}
