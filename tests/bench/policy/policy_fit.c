/*
 * Fits the table of a usual pool's rates (src/core/policy/policy_prior.c) on recorded supply and
 * prints it as C:
 *
 *     policy_fit TRACE.json ... > table
 *
 * The product's own code follows the state of a pool (up or down, its age, faded availability).
 * Changes and hours are counted per cell, shared between the two nearest nodes of faded
 * availability. A trace counts for 700 hours at most. A trace of counts is read twice, as "one was
 * available" and as "all were". A cell with little evidence is drawn to its age bin.
 */
#include "base/base.h"
#include "core/policy/policy_priv.h"
#include "core/trace/trace.h"

#include <stdio.h>

#define TRACE_HOURS_MAX 700.0
#define BIN_HOURS 10.0 /* weight of the age bin in a cell */

struct tally {
	double changes[2][POLICY_AGES][POLICY_FADES], hours[2][POLICY_AGES][POLICY_FADES];
};

static void tally_track(struct tally *t, const uint8_t *up, size_t n, double gap_h)
{
	static const struct policy_prior none;
	struct policy_pool p = { .fade = 0.65 };
	double weight = MIN(TRACE_HOURS_MAX / ((double)n * gap_h), 1);

	for (size_t i = 0; i < n; i++) {
		if (p.known) {
			int age = policy_age_bin(p.age_h),
			    j = MIN((int)(p.fade * (POLICY_FADES - 1)), POLICY_FADES - 2);
			double x = p.fade * (POLICY_FADES - 1) - j, change = p.up != up[i],
			       hours = gap_h * (1 - change / 2);

			t->changes[p.up][age][j] += weight * change * (1 - x);
			t->changes[p.up][age][j + 1] += weight * change * x;
			t->hours[p.up][age][j] += weight * hours * (1 - x);
			t->hours[p.up][age][j + 1] += weight * hours * x;
		}
		policy_pool_see(&p, &none, up[i], gap_h);
	}
}

static bool tally_file(struct tally *t, const char *path)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct spot_err err = { 0 };
	struct trace trace;
	char *text = arena_alloc(a, 1 << 24);
	FILE *f = fopen(path, "r");
	int64_t all = 0;
	size_t n;

	if (f == NULL) {
		fprintf(stderr, "%s: cannot be read\n", path);
		return false;
	}
	n = fread(text, 1, (1 << 24) - 1, f);
	fclose(f);
	if (trace_parse_supply(a, (struct str){ text, n }, path, &trace, &err) != SPOT_OK) {
		fprintf(stderr, "%s\n", err.text);
		return false;
	}
	for (size_t i = 0; i < trace.n; i++) {
		all = MAX(all, trace.counts[i]);
	}
	tally_track(t, trace_up(a, &trace, 1), trace.n, (double)trace.gap_us / 3.6e9);
	if (all > 1) {
		tally_track(t, trace_up(a, &trace, all), trace.n, (double)trace.gap_us / 3.6e9);
	}
	return true;
}

static void print_bin(const struct tally *t, int up, int age)
{
	double changes = 0.5, hours = 2;

	for (int f = 0; f < POLICY_FADES; f++) {
		changes += t->changes[up][age][f];
		hours += t->hours[up][age][f];
	}
	printf("\t\t{");
	for (int f = 0; f < POLICY_FADES; f++) {
		printf("%s%.4f", f > 0 ? ", " : "",
		    (t->changes[up][age][f] + BIN_HOURS * changes / hours) /
			(t->hours[up][age][f] + BIN_HOURS));
	}
	printf("},\n");
}

int main(int argc, char **argv)
{
	static struct tally t;

	for (int i = 1; i < argc; i++) {
		if (!tally_file(&t, argv[i])) {
			return 1;
		}
	}
	for (int up = 0; up < 2; up++) {
		printf("\t{\n");
		for (int age = 0; age < POLICY_AGES; age++) {
			print_bin(&t, up, age);
		}
		printf("\t},\n");
	}
	return 0;
}
