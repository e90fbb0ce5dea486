/*
 * Replies of a cloud as fuzz input: a line with the name of a case, then replies. Each reply begins
 * with byte 0x1e and a line "STATUS Header: value" (the header may be missing). The verb must end
 * in a verdict with words and without secrets; drive.c checks that.
 */
#ifndef TESTS_FUZZ_REPLIES_H
#define TESTS_FUZZ_REPLIES_H

#include "fuzz.h"
#include "drive.h"

#define REPLIES_MAX 8

struct replies {
	const char *name;
	struct drive_try tries[REPLIES_MAX];
	size_t n;
};
void replies_read(struct arena *a, const uint8_t *p, size_t n, struct replies *ret);
/* Runs verb on an opened provider over the replies. */
void replies_run(struct drive *d, const struct replies *r, enum drive_verb verb, void *args);

#endif
