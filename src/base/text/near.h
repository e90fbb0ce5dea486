/* The nearest valid word, for "did you mean" in messages. */
#ifndef BASE_NEAR_H
#define BASE_NEAR_H

#include "base/base.h"

#define NEAR_LEAST 3 /* a word with this many edits or more is not near */

/* Compares candidate with the best so far and returns the nearer one. *least is the edit distance
 * of best: begin with best = NULL and NEAR_LEAST. A candidate that starts with word is nearest. */
const char *near_better(const char *word, const char *candidate, const char *best, int *least);

#endif
