#include "base/base.h"
#include "base/text/near.h"

#include <stdio.h>
#include <string.h>

#define WORD_MAX 32

static int edit_distance(const char *a, const char *b)
{
	int row[WORD_MAX], n = (int)strlen(b);

	if (n >= WORD_MAX) {
		return 99;
	}
	for (int j = 0; j <= n; j++) {
		row[j] = j;
	}
	for (int i = 1; a[i - 1] != '\0'; i++) {
		int diagonal = row[0];

		row[0] = i;
		for (int j = 1; j <= n; j++) {
			int keep = row[j];

			row[j] =
			    MIN(MIN(row[j] + 1, row[j - 1] + 1), diagonal + (a[i - 1] != b[j - 1]));
			diagonal = keep;
		}
	}
	return row[n];
}

const char *near_better(const char *word, const char *candidate, const char *best, int *least)
{
	int d = edit_distance(word, candidate);

	/* "prov" is near "providers" although five letters are missing. */
	if (strlen(word) > 1 && strncmp(word, candidate, strlen(word)) == 0) {
		d = 0;
	}
	if (d < *least) {
		*least = d;
		return candidate;
	}
	return best;
}

const char *near_hint(const char *best, char buf[NEAR_HINT_MAX])
{
	buf[0] = '\0';
	if (best != NULL) {
		snprintf(buf, NEAR_HINT_MAX, "; did you mean '%.60s'?", best);
	}
	return buf;
}
