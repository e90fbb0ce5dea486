/* Finds the nearest valid word, for "did you mean" in messages. */
#ifndef BASE_NEAR_H
#define BASE_NEAR_H

#include "base/base.h"

#define NEAR_LEAST 3 /* a word with this many edits or more is not near */

/* Returns the nearer of best and candidate, and keeps its edit distance in *least. Begin with
 * best = NULL and *least = NEAR_LEAST. A candidate that starts with word is nearest. */
const char *near_better(const char *word, const char *candidate, const char *best, int *least);
/* Returns "; did you mean 'X'?" for the end of a message, or "" if best is NULL. buf holds it. */
#define NEAR_HINT_MAX 96
const char *near_hint(const char *best, char buf[NEAR_HINT_MAX]);

#endif
