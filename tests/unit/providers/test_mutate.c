#include "base/base.h"
#include "golden.h"

/*
 * Damages replies of the golden exchanges at random. After any reply a verb ends in a verdict,
 * in bounds (the sanitizer build watches), with words and without secrets. Seeded: a failure names
 * its seed.
 */

#define MUTATIONS 10000
#define SEED 20260102u

/* One piece of damage to a copy of text. */
static char *text_damage(struct arena *a, struct rng *r, const char *text, size_t n, size_t *ret_n)
{
	static const char *const pieces[] = { "<", ">", "&", "\"", "{", "}", "[", "]", "null", "-1",
		"1e999", "\\u0000", "<item>", "</item>", "99999999999999999999", "nan", "\xff\xfe",
		"0x10", "true", "&lt;", "<![CDATA[" };
	char *out = arena_alloc(a, n * 2 + 64);
	size_t at = n > 0 ? rng_below(r, n) : 0,
	       len = n > at ? 1 + rng_below(r, MIN(n - at, (size_t)200)) : 0;
	const char *piece = pieces[rng_below(r, ARRAY_LEN(pieces))];

	memcpy(out, text, n);
	*ret_n = n;
	switch (rng_below(r, 6)) {
	case 0: /* cut off */
		*ret_n = at;
		break;
	case 1: /* one byte is another */
		if (n > 0) {
			out[at] = (char)rng_below(r, 256);
		}
		break;
	case 2: /* a stretch is lost */
		memmove(out + at, out + at + len, n - at - len);
		*ret_n = n - len;
		break;
	case 3: /* a stretch comes twice */
		memcpy(out + at + len, text + at, n - at);
		*ret_n = n + len;
		break;
	case 4: /* something is put in */
		memcpy(out + at, piece, strlen(piece));
		memcpy(out + at + strlen(piece), text + at, n - at);
		*ret_n = n + strlen(piece);
		break;
	default: /* a number or word is another */
		for (size_t i = at; i < n && i < at + len; i++) {
			if (out[i] >= '0' && out[i] <= '9') {
				out[i] = (char)('0' + rng_below(r, 10));
			}
		}
		break;
	}
	out[*ret_n] = '\0';
	return out;
}

static void case_mutate(const struct golden_case *k, const struct golden_file *f, struct rng *r)
{
	static const int statuses[] = { 200, 200, 200, 200, 400, 401, 403, 404, 429, 500, 503, 0,
		301 };
	struct drive_try tries[GOLDEN_EXCHANGES];
	size_t hit = rng_below(r, f->n), rounds = 1 + rng_below(r, 3);
	struct drive d;
	enum spot_step s;

	golden_open(&golden_suite, k, f, &d);
	memcpy(tries, f->tries, sizeof(tries));
	for (size_t i = 0; i < rounds; i++) {
		tries[hit].reply = text_damage(d.arena, r, tries[hit].reply, tries[hit].reply_n,
		    &tries[hit].reply_n);
	}
	/* drive takes 0 for "as long as the string". */
	if (tries[hit].reply_n == 0) {
		tries[hit].reply = "";
	}
	if (rng_below(r, 4) == 0) {
		tries[hit].status = statuses[rng_below(r, ARRAY_LEN(statuses))];
	}
	drive_script(&d, tries, f->n);
	d.lenient = true;
	s = drive_run(&d, k->verb, golden_args(d.arena, k));
	assert_true(s == SPOT_DONE || s == SPOT_FAIL || s == SPOT_STEP_NONE);
	drive_fini(&d);
}

static void damaged_replies_end_in_a_verdict(void **state)
{
	struct golden_file *files = calloc(golden_suite.cases_n, sizeof(*files));
	struct rng r;

	(void)state;
	assert_non_null(files);
	for (size_t i = 0; i < golden_suite.cases_n; i++) {
		golden_load(&golden_suite, golden_suite.cases[i].name, &files[i]);
	}
	for (size_t i = 0; i < MUTATIONS; i++) {
		size_t at = i % golden_suite.cases_n;

		rng_seeded_init(&r, SEED + i);
		case_mutate(&golden_suite.cases[at], &files[at], &r);
	}
	for (size_t i = 0; i < golden_suite.cases_n; i++) {
		golden_free(&files[i]);
	}
	free(files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damaged_replies_end_in_a_verdict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
