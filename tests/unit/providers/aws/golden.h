/*
 * Golden exchanges of the AWS provider: tests/golden/aws/<case>.txt holds, in order, each request
 *byte for byte, the reply to it, and at the end the result as text. A case is a verb with fixed
 *arguments, a fixed clock and fixed keys, so that a botocore signer can check the signatures
 *(botocore_check.py).
 *
 *	--- request            "POST url", headers, empty line, body
 *	--- read PATH          a file that the provider asks for; the reply's body is its text
 *	--- reply STATUS       headers, empty line, body
 *	--- result             verdict and what came out
 *
 * GOLDEN_UPDATE=1 in the environment rewrites requests and results and keeps the replies.
 */
#ifndef TESTS_AWS_GOLDEN_H
#define TESTS_AWS_GOLDEN_H

#include "base/base.h"
#include "base/sbuf.h"
#include "drive.h"

#define GOLDEN_EXCHANGES 32

struct golden_file {
	struct arena *arena;
	struct drive_try tries[GOLDEN_EXCHANGES]; /* replies; .read set for files */
	const char *requests[GOLDEN_EXCHANGES];
	size_t n;
	const char *result;
};

/* One case: how to run it. */
struct golden_case {
	const char *name;
	enum drive_verb verb;
	const char *const *env, *const *settings;
	bool no_keys; /* auth is what is tested: do not authenticate before */
	void *(*args)(struct arena *a);
	void (*print)(const void *args, struct sbuf *out);
};
extern const struct golden_case golden_cases[];
extern const size_t golden_cases_n;

/* Keys of every case, and the clock. */
extern const char *const golden_env[];
#define GOLDEN_NOW_US INT64_C(1767323045000000) /* 2026-01-02T03:04:05Z */

void golden_load(struct golden_file *f, const char *name);
void golden_free(struct golden_file *f);
/* Opens the provider for the case, keys in place, script loaded; run with drive_run(d, k->verb,
 * args). */
void golden_open(struct drive *d, const struct golden_case *k, const struct golden_file *f);

#endif
