/*
 * Golden exchanges. tests/golden/<provider>/<case>.txt holds, in order, each request byte for byte,
 * the reply to it, and at the end the result as text. A case is a verb with fixed arguments, clock
 * and credentials. So the vendor's own models and signers can judge the requests (the checkers lie
 * beside the files). A provider has the table of its cases (golden_cases.c), which defines
 * golden_suite. test_golden.c compares, and test_mutate.c damages the replies. The fuzzers start
 * from the same cases.
 *
 * - "--- request": "POST url", headers, empty line, body
 * - "--- read PATH": a file that the provider asks for; the reply's body is its text
 * - "--- reply STATUS": headers, empty line, body
 * - "--- result": verdict and output
 *
 * The files are in the folder that GOLDEN_DIR in the environment names. GOLDEN_UPDATE=1 rewrites
 * requests and results and keeps the replies.
 */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "base/base.h"
#include "base/text/text.h"
#include "drive.h"

#define GOLDEN_EXCHANGES 32
#define GOLDEN_NOW_US INT64_C(1767323045000000) /* 2026-01-02T03:04:05Z */

/* One case: how to run it. */
struct golden_case {
	const char *name;
	enum drive_verb verb;
	const char *const *env, *const *settings; /* NULL: the suite's */
	/* the case tests auth: do not authenticate before */
	bool no_keys;
	/* copied for each run: GOLDEN_ARGS; NULL: nothing to say */
	const void *args;
	size_t args_n;
};
#define GOLDEN_ARGS(type, ...) \
	.args = &(const struct type){ __VA_ARGS__ }, .args_n = sizeof(struct type)

/* A launch's user data: with a character of two bytes, so that nobody counts characters. */
#define GOLDEN_SCRIPT "#!/bin/sh\necho hello > /tmp/\xc3\xa9\n"
#define GOLDEN_USER_DATA \
	{ \
		GOLDEN_SCRIPT, sizeof(GOLDEN_SCRIPT) - 1 \
	}

struct golden_suite {
	const struct spot_provider_ops *ops;
	const struct golden_case *cases;
	size_t cases_n;
	const char *const *env, *const *settings;
	const struct drive_try *auth; /* auth's script before a case; may be none */
	size_t auth_n;
	/* NULL, or: fills in secrets that a file may not hold (a private key) before the provider
	 * sees the reply. */
	const char *(*reply_fill)(struct arena *a, const char *text);
	/* NULL, or: hides parts that differ from run to run (a signature) before a request is
	 * compared. */
	const char *(*request_hide)(struct arena *a, const char *text);
};
extern const struct golden_suite golden_suite;

struct golden_file {
	struct arena *arena;
	struct drive_try tries[GOLDEN_EXCHANGES]; /* replies; .read set for files */
	const char *requests[GOLDEN_EXCHANGES];
	const char *raw[GOLDEN_EXCHANGES]; /* the replies as the file has them */
	size_t n;
	const char *result;
};

void golden_load(const struct golden_suite *g, const char *name, struct golden_file *f);
void golden_free(struct golden_file *f);
/* Opens the provider for the case and authenticates; returns the verdict of auth. */
enum spot_step golden_auth_run(const struct golden_suite *g, const struct golden_case *k,
    struct drive *d);
/* The same, and the file's replies are next; run with drive_run(d, k->verb, golden_args(d->arena,
 * k)). */
void golden_open(const struct golden_suite *g, const struct golden_case *k,
    const struct golden_file *f, struct drive *d);
void *golden_args(struct arena *a, const struct golden_case *k);
/* Prints the output of a verb that is DONE, as text. */
void golden_print(enum drive_verb verb, const void *args, struct sbuf *out);
/* Another file of GOLDEN_DIR. */
struct str golden_data(struct arena *a, const char *name);

#endif
